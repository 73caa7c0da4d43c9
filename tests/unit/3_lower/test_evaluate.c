/* test_evaluate.c: loop programs of random graphs against the oracle (IR-12, RZ-12, LV-13).
 *
 * Two families of graphs. `exact`: every operator but float sums and products; results must have
 * the oracle's bits. `linear`: f64 and i64 with values so small that sums and matrix products are
 * exact in any order; results must be equal numbers. Each graph is lowered for the CPU, for the GPU
 * and with every node realised; each program also goes through its text form. STX_SEEDS sets how
 * many graphs. */
#include <math.h>
#include <stdlib.h>

#include "lowering.h"
#include "ref.h"
#include "scalar.h"

static uint64_t rng;

static uint32_t rnd(uint32_t n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (uint32_t)((rng >> 20) % n);
}

struct gen {
	struct stx_arena *arena;
	struct stx_graph *g;
	struct stx_node *at[96];
	uint32_t n;
	int linear;
};

static const enum stx_dtype exact_types[] = { STX_F32, STX_F32, STX_F32, STX_F16, STX_BF16, STX_F64,
					      STX_I32, STX_I64, STX_U8,  STX_I8,  STX_BOOL };

static enum stx_dtype random_type(const struct gen *q)
{
	static const enum stx_dtype linear_types[] = { STX_F64, STX_I64 };

	return q->linear ? linear_types[rnd(2)]
			 : exact_types[rnd(sizeof exact_types / sizeof *exact_types)];
}

static int64_t size_of(const struct gen *q, const struct stx_node *n, uint32_t d)
{
	int64_t v = 0;

	stx_ex_is_const(q->g->ex, n->outs[0].sizes[d], &v);
	return v;
}

static int64_t numel(const struct gen *q, const struct stx_node *n)
{
	int64_t v = 1;
	uint32_t d;

	for (d = 0; d < n->outs[0].rank; d++)
		v *= size_of(q, n, d);
	return v;
}

static void keep(struct gen *q, struct stx_node *n)
{
	if (n && q->n < 96 && n->outs[0].rank <= 6 && numel(q, n) <= 2000)
		q->at[q->n++] = n;
}

static struct stx_node *any(const struct gen *q)
{
	/* recent values more often: chains grow deep */
	uint32_t back = rnd(2) ? 4 : q->n;

	return q->at[q->n - 1 - rnd(back < q->n ? back : q->n)];
}

static void random_input(struct gen *q, const int64_t *sizes, int rank)
{
	struct stx_type t = stx_type_make(q->g, random_type(q), rank, sizes);
	stx_ex strides[8];
	int64_t step = 1 + rnd(3);
	int d, given = rnd(3) == 0;

	for (d = 0; d < rank; d++) { /* column-major with gaps */
		strides[d] = stx_ex_const(q->g->ex, step);
		step *= sizes[d] ? sizes[d] : 1;
	}
	keep(q, stx_graph_input(q->g, NULL, t, given ? strides : NULL, 0, NULL));
}

static void call(struct gen *q, enum stx_op op, uint32_t nargs, const struct stx_arg *args)
{
	keep(q, stx_graph_call(q->g, op, NULL, args, nargs, NULL));
}
#define CALL(q, op, ...)                                                                           \
	call((q), (op), sizeof((struct stx_arg[]){ __VA_ARGS__ }) / sizeof(struct stx_arg),        \
	     (struct stx_arg[]){ __VA_ARGS__ })
#define N(n) stx_arg_node(n)
#define I(v) stx_arg_int(q->g, (v))

static void add_pointwise(struct gen *q)
{
	static const enum stx_op two[] = {
		STX_OP_ADD,         STX_OP_SUB,         STX_OP_MUL,        STX_OP_DIV,
		STX_OP_FMOD,        STX_OP_REMAINDER,   STX_OP_MAXIMUM,    STX_OP_MINIMUM,
		STX_OP_EQ,          STX_OP_LT,          STX_OP_GE,         STX_OP_NE,
		STX_OP_LOGICAL_AND, STX_OP_LOGICAL_XOR, STX_OP_BITWISE_OR, STX_OP_SHL,
		STX_OP_SHR,         STX_OP_COPYSIGN,    STX_OP_ATAN2,      STX_OP_POW
	};
	static const enum stx_op one[] = { STX_OP_NEG,         STX_OP_ABS,         STX_OP_SIGN,
					   STX_OP_RELU,        STX_OP_FLOOR,       STX_OP_CEIL,
					   STX_OP_ROUND,       STX_OP_SQRT,        STX_OP_RSQRT,
					   STX_OP_RECIPROCAL,  STX_OP_EXP,         STX_OP_LOG,
					   STX_OP_TANH,        STX_OP_SIGMOID,     STX_OP_ERF,
					   STX_OP_LOGICAL_NOT, STX_OP_BITWISE_NOT, STX_OP_ISNAN,
					   STX_OP_ISINF,       STX_OP_CLONE,       STX_OP_TRUNC,
					   STX_OP_SIN };
	static const enum stx_op linear_two[] = { STX_OP_ADD, STX_OP_SUB, STX_OP_MAXIMUM,
						  STX_OP_MINIMUM };
	static const enum stx_op linear_one[] = { STX_OP_NEG, STX_OP_ABS, STX_OP_RELU,
						  STX_OP_SIGN };
	struct stx_node *a = any(q), *b = any(q);

	if (rnd(2))
		CALL(q, q->linear ? linear_two[rnd(4)] : two[rnd(sizeof two / sizeof *two)], N(a),
		     N(b));
	else
		CALL(q, q->linear ? linear_one[rnd(4)] : one[rnd(sizeof one / sizeof *one)], N(a));
}

static void add_scalar_op(struct gen *q)
{
	static const enum stx_op ops[] = { STX_OP_MUL_SCALAR, STX_OP_ADD_SCALAR, STX_OP_SUB_SCALAR,
					   STX_OP_DIV_SCALAR, STX_OP_POW_SCALAR, STX_OP_LT_SCALAR,
					   STX_OP_EQ_SCALAR };
	struct stx_node *a = any(q);
	struct stx_arg s = rnd(2) && !q->linear ? stx_arg_scalar_f(rnd(9) * 0.37 - 1.1)
						: stx_arg_scalar_i((int64_t)rnd(5) - 2);

	switch (rnd(4)) {
	case 0:
		CALL(q, STX_OP_CLAMP, N(a), stx_arg_scalar_i(-1), rnd(2) ? stx_arg_none() : s);
		break;
	case 1: CALL(q, STX_OP_ADD, N(a), N(any(q)), stx_arg_scalar_i((int64_t)rnd(4) - 1)); break;
	default: CALL(q, q->linear ? ops[1 + rnd(2)] : ops[rnd(7)], N(a), s);
	}
}

static void add_other_pointwise(struct gen *q)
{
	struct stx_node *a = any(q), *b = any(q), *c;

	switch (rnd(3)) {
	case 0: CALL(q, STX_OP_TO_COPY, N(a), stx_arg_dtype(random_type(q))); break;
	case 1:
		c = stx_graph_call(q->g, STX_OP_GT, NULL, (struct stx_arg[]){ N(a), N(b) }, 2,
				   NULL);
		keep(q, c);
		if (c)
			CALL(q, STX_OP_WHERE, N(c), N(a), N(any(q)));
		break;
	default:
		if (!q->linear)
			CALL(q, STX_OP_DIV_MODE, N(a), N(b),
			     stx_arg_str(q->g, rnd(2) ? "floor" : "trunc"));
	}
}

/* A random factorisation of the element count. */
static void add_reshape(struct gen *q)
{
	struct stx_node *a = any(q);
	int64_t left = numel(q, a), sizes[6];
	uint32_t k = 0, f;

	if (!left)
		return;
	while (left > 1 && k < 4) {
		f = 2 + rnd(5);
		if (f > left)
			f = (uint32_t)left;
		while (left % f)
			f++;
		sizes[k++] = f;
		left /= f;
		if (rnd(4) == 0)
			sizes[k++] = 1;
	}
	sizes[k++] = left;
	CALL(q, STX_OP_VIEW, N(a), stx_arg_ints(q->g, sizes, k));
}

static void add_permute(struct gen *q, struct stx_node *a)
{
	uint32_t rank = a->outs[0].rank, d;
	int64_t dims[8];

	for (d = 0; d < rank; d++)
		dims[d] = d;
	for (d = 0; d + 1 < rank; d++) {
		uint32_t e = d + rnd(rank - d);
		int64_t t = dims[d];

		dims[d] = dims[e];
		dims[e] = t;
	}
	CALL(q, STX_OP_PERMUTE, N(a), stx_arg_ints(q->g, dims, rank));
}

static void add_view(struct gen *q)
{
	struct stx_node *a = any(q);
	uint32_t rank = a->outs[0].rank;
	int64_t d = rank ? (int64_t)rnd(rank) - (rnd(2) ? rank : 0) : 0;
	int64_t n = rank ? size_of(q, a, (uint32_t)(d < 0 ? d + rank : d)) : 1;

	switch (rnd(8)) {
	case 0: add_reshape(q); break;
	case 1: add_permute(q, a); break;
	case 2:
		CALL(q, STX_OP_SLICE, N(a), I(d), I((int64_t)rnd((uint32_t)n + 3) - 1),
		     rnd(2) ? stx_arg_none() : I(n - (int64_t)rnd(3)), I(1 + rnd(3)));
		break;
	case 3: CALL(q, STX_OP_UNSQUEEZE, N(a), I(d)); break;
	case 4: CALL(q, STX_OP_FLIP, N(a), stx_arg_ints(q->g, &d, rank > 0)); break;
	case 5:
		if (n)
			CALL(q, STX_OP_SELECT, N(a), I(d),
			     I((int64_t)rnd((uint32_t)n) - (rnd(2) ? n : 0)));
		break;
	case 6: CALL(q, STX_OP_DIAGONAL, N(a), I((int64_t)rnd(3) - 1), I(0), I(-1)); break;
	default: {
		int64_t sizes[8];
		uint32_t k;

		sizes[0] = 2;
		for (k = 0; k < rank; k++)
			sizes[k + 1] = size_of(q, a, k) == 1 ? 3 : size_of(q, a, k);
		if (rank < 6)
			CALL(q, STX_OP_EXPAND, N(a), stx_arg_ints(q->g, sizes, rank + 1));
	}
	}
}

static void add_reduction(struct gen *q)
{
	static const enum stx_op ops[] = { STX_OP_AMAX, STX_OP_AMIN, STX_OP_ANY_DIM, STX_OP_ALL_DIM,
					   STX_OP_SUM_DIM };
	struct stx_node *a = any(q);
	uint32_t rank = a->outs[0].rank;
	int64_t d = rank ? rnd(rank) : 0;
	enum stx_op op = ops[rnd(5)];

	if (rnd(4) == 0) {
		CALL(q, rnd(2) ? STX_OP_ARGMAX : STX_OP_ARGMIN, N(a),
		     rnd(2) ? I(d) : stx_arg_none(), stx_arg_bool((int)rnd(2)));
		return;
	}
	if (op == STX_OP_SUM_DIM && stx_dtype_is_float(a->outs[0].dtype) && !q->linear)
		op = STX_OP_AMAX;
	CALL(q, op, N(a), stx_arg_ints(q->g, &d, rank && rnd(4)), stx_arg_bool((int)rnd(2)));
}

static void add_piecewise(struct gen *q)
{
	struct stx_node *a = any(q), *b = any(q);
	uint32_t rank = a->outs[0].rank, k;
	int64_t pad[8];

	if (rnd(2)) {
		struct stx_val list[3] = { stx_val(a, 0), stx_val(b, 0), stx_val(a, 0) };

		CALL(q, STX_OP_CAT, stx_arg_tensors(q->g, list, 2 + rnd(2)),
		     I(rank ? rnd(rank) : 0));
		return;
	}
	for (k = 0; k < 2 * rank && k < 4; k++)
		pad[k] = (int64_t)rnd(5) - 2;
	CALL(q, STX_OP_PAD, N(a), stx_arg_ints(q->g, pad, k), stx_arg_scalar_i(7));
}

/* Indices that are sometimes loop values, sometimes run-time values, within bounds or made so. */
static struct stx_node *random_index(struct gen *q, int64_t bound)
{
	struct stx_node *a = any(q), *k;
	int64_t n = 1 + rnd(6);

	if (bound < 1)
		return NULL;
	if (rnd(3) == 0) {
		a = stx_graph_call(q->g, STX_OP_ARANGE, NULL,
				   (struct stx_arg[]){ stx_arg_scalar_i(0), stx_arg_scalar_i(n),
						       stx_arg_scalar_i(1),
						       stx_arg_dtype(STX_I64) },
				   4, NULL);
		a = a ? stx_graph_call(q->g, STX_OP_MUL_SCALAR, NULL,
				       (struct stx_arg[]){ N(a), stx_arg_scalar_i(1 + rnd(4)) }, 2,
				       NULL)
		      : NULL;
	} else if (stx_dtype_is_float(a->outs[0].dtype) || a->outs[0].dtype == STX_BOOL) {
		return NULL;
	}
	k = stx_graph_call(q->g, STX_OP_FULL, NULL,
			   (struct stx_arg[]){ stx_arg_ints(q->g, &n, 0), stx_arg_scalar_i(bound),
					       stx_arg_dtype(STX_I64) },
			   3, NULL);
	if (!a || !k)
		return NULL;
	return stx_graph_call(q->g, STX_OP_REMAINDER, NULL, (struct stx_arg[]){ N(a), N(k) }, 2,
			      NULL);
}

static void add_indirect(struct gen *q)
{
	struct stx_node *a = any(q), *ix, *iy;
	uint32_t rank = a->outs[0].rank, d = rank ? rnd(rank) : 0;
	struct stx_val list[3] = { { NULL, 0 }, { NULL, 0 }, { NULL, 0 } };

	if (!rank || rank > 3)
		return;
	ix = random_index(q, size_of(q, a, d));
	if (!ix || ix->outs[0].rank > 2)
		return;
	keep(q, ix);
	list[d] = stx_val(ix, 0);
	switch (rnd(4)) {
	case 0: CALL(q, STX_OP_INDEX_SELECT, N(a), I(d), N(ix)); break;
	case 1: CALL(q, STX_OP_GATHER, N(a), I(d), N(ix)); break;
	case 2:
		iy = random_index(q, size_of(q, a, (d + 1) % rank));
		if (iy && rank > 1 && iy->outs[0].rank <= 2)
			list[(d + 1) % rank] = stx_val(iy, 0);
		CALL(q, STX_OP_INDEX, N(a), stx_arg_tensors(q->g, list, rank));
		break;
	default: CALL(q, STX_OP_EMBEDDING, N(a), N(ix));
	}
}

static void add_contraction(struct gen *q)
{
	struct stx_node *a = any(q), *b = any(q), *t;

	if (!q->linear)
		return;
	t = a->outs[0].rank != 2
		    ? b
		    : stx_graph_call(q->g, STX_OP_T, NULL, (struct stx_arg[]){ N(a) }, 1, NULL);
	CALL(q, a->outs[0].rank == 3 ? STX_OP_BMM : STX_OP_MM, N(a), N(rnd(2) ? b : t));
}

static void add_create(struct gen *q)
{
	int64_t sizes[2] = { 1 + rnd(4), 1 + rnd(4) };

	if (rnd(2))
		CALL(q, STX_OP_FULL, stx_arg_ints(q->g, sizes, rnd(3)),
		     stx_arg_scalar_i((int64_t)rnd(4) - 1), stx_arg_dtype(random_type(q)));
	else
		CALL(q, STX_OP_ARANGE, stx_arg_scalar_i(-2), stx_arg_scalar_i(2 + rnd(6)),
		     stx_arg_scalar_i(1 + rnd(2)), stx_arg_dtype(q->linear ? STX_I64 : STX_I32));
}

static void build(struct gen *q, int linear)
{
	static void (*const adders[])(struct gen * q) = {
		add_pointwise, add_pointwise, add_pointwise,   add_scalar_op, add_other_pointwise,
		add_view,      add_view,      add_view,        add_view,      add_reduction,
		add_piecewise, add_indirect,  add_contraction, add_create
	};
	uint32_t i, count = 4 + rnd(24), rank = rnd(4);
	const uint32_t *users;
	int64_t sizes[4];

	memset(q, 0, sizeof *q);
	q->arena = stx_arena_new(0);
	q->g = stx_graph_new(q->arena);
	q->linear = linear;
	for (i = 0; i < 4; i++)
		sizes[i] = rnd(12) ? 1 + rnd(5) : 0;
	random_input(q, sizes, (int)rank);
	random_input(q, sizes, (int)rank);
	if (rank > 1)
		random_input(q, sizes + 1, (int)rank - 1);
	for (i = 0; i < count; i++)
		adders[rnd(sizeof adders / sizeof *adders)](q);
	users = stx_graph_users(q->g, q->g->arena);
	assert_non_null(users);
	for (i = 0; i < q->n; i++)
		if (!users[q->at[i]->id] || rnd(12) == 0)
			stx_graph_output(q->g, stx_val(q->at[i], 0), NULL, NULL);
}

static double random_value(enum stx_dtype t, int linear)
{
	static const double special[] = { NAN, INFINITY, -INFINITY, -0.0, 0, 1e-30, 65504, -1e30 };

	if (linear || t == STX_BOOL || !stx_dtype_is_float(t))
		return (double)rnd(t == STX_BOOL ? 2 : 7) - (t == STX_BOOL || t == STX_U8 ? 0 : 3);
	return rnd(8) ? (rnd(2001) - 1000.0) / 250.0 : special[rnd(8)];
}

/* Elements reachable from the pointer, and the strides. */
static int64_t describe_input(struct stx_graph *g, const struct stx_input *in, struct stx_tensor *t)
{
	const struct stx_type *y = &in->node->outs[0];
	int64_t span = 1, step = 1;
	uint32_t d;

	memset(t, 0, sizeof *t);
	t->dtype = (uint8_t)y->dtype;
	t->rank = y->rank;
	for (d = y->rank; d-- > 0;) {
		stx_ex_is_const(g->ex, y->sizes[d], &t->sizes[d]);
		t->strides[d] = step;
		step *= t->sizes[d];
	}
	for (d = 0; in->strides && d < y->rank; d++)
		stx_ex_is_const(g->ex, in->strides[d], &t->strides[d]);
	for (d = 0; d < y->rank; d++)
		span += (t->sizes[d] ? t->sizes[d] - 1 : 0) * t->strides[d];
	return span;
}

static void fill_input(struct gen *q, const struct stx_input *in, struct stx_tensor *t)
{
	int64_t i, span = describe_input(q->g, in, t);
	size_t w = (size_t)stx_dtype_bytes((enum stx_dtype)t->dtype);

	t->data = stx_arena_alloc(q->arena, (size_t)span * w);
	for (i = 0; i < span; i++) {
		double v = random_value((enum stx_dtype)t->dtype, q->linear);
		union stx_scalar k = { .u = 0 };

		if (stx_dtype_is_float((enum stx_dtype)t->dtype))
			k.f = stx_scalar_round((enum stx_dtype)t->dtype, v);
		else
			k.i = (int64_t)v;
		stx_scalar_store((enum stx_dtype)t->dtype, (char *)t->data + (size_t)i * w, k);
	}
}

static int same(enum stx_dtype t, const void *a, const void *b, int linear)
{
	union stx_scalar x = stx_scalar_load(t, a), y = stx_scalar_load(t, b);

	if (!stx_dtype_is_float(t))
		return x.u == y.u;
	if (isnan(x.f) || isnan(y.f))
		return isnan(x.f) && isnan(y.f);
	return x.f == y.f && (linear || signbit(x.f) == signbit(y.f));
}

static void show(const struct stx_graph *g, const struct stx_loops *l)
{
	struct stx_bytes b = { 0 };

	stx_graph_print(g, &b);
	stx_loops_print(l, &b);
	fputs(stx_bytes_cstr(&b), stderr);
	stx_bytes_free(&b);
}

/* Storage of every buffer; computed ones filled with 0xAA so that a missed store is seen (B03). */
static void **storage(struct gen *q, const struct stx_loops *l, const struct stx_tensor *inputs)
{
	void **at = STX_NEW_ARRAY(q->arena, void *, l->buffers.n + 1);
	uint32_t i, d;

	for (i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		size_t n = (size_t)stx_dtype_bytes(b->dtype);

		if (b->kind == STX_BUF_INPUT)
			at[i] = inputs[b->index].data;
		if (b->def == STX_DEF_NONE)
			continue;
		for (d = 0; d < b->layout.rank; d++) {
			int64_t v = 0;

			assert_true(stx_ex_is_const(l->ex, b->layout.sizes[d], &v));
			n *= (size_t)v;
		}
		at[i] = stx_arena_alloc(q->arena, n + 1);
		memset(at[i], 0xAA, n);
	}
	return at;
}

static void check_program(struct gen *q, const struct stx_loops *l, const struct stx_tensor *inputs,
			  const struct stx_tensor *want, uint64_t seed, const char *how)
{
	void **at = storage(q, l, inputs);
	struct stx_diag d = { 0 };
	uint32_t i;

	if (stx_handler_evaluate(l, at, &d)) {
		show(q->g, l);
		fail_msg("seed %llu, %s: %s", (unsigned long long)seed, how, d.text);
	}
	for (i = 0; i < l->outputs.n; i++) {
		const struct stx_buffer *b = l->buffers.at[l->outputs.at[i]];
		size_t w = (size_t)stx_dtype_bytes(b->dtype);
		int64_t n = numel(q, q->g->outputs.at[i].val.node), k;

		assert_int_equal(b->dtype, want[i].dtype);
		for (k = 0; k < n; k++) {
			const char *x = (const char *)at[b->id] + (size_t)k * w;
			const char *y = (const char *)want[i].data + (size_t)k * w;

			if (same(b->dtype, x, y, q->linear))
				continue;
			show(q->g, l);
			fail_msg("seed %llu, %s: output %u element %lld: %.17g, oracle %.17g",
				 (unsigned long long)seed, how, i, (long long)k,
				 stx_dtype_is_float(b->dtype)
					 ? stx_scalar_load(b->dtype, x).f
					 : (double)stx_scalar_load(b->dtype, x).i,
				 stx_dtype_is_float(b->dtype)
					 ? stx_scalar_load(b->dtype, y).f
					 : (double)stx_scalar_load(b->dtype, y).i);
		}
	}
}

static struct stx_loops *through_text(struct gen *q, const struct stx_loops *l)
{
	struct stx_bytes b = { 0 };
	struct stx_diag d = { 0 };
	struct stx_loops *back = NULL;

	stx_loops_print(l, &b);
	if (stx_loops_parse(q->arena, stx_bytes_cstr(&b), b.n, &back, &d))
		fail_msg("%s %s in\n%s", d.text, d.location, (char *)b.at);
	stx_bytes_free(&b);
	return back;
}

static void check_graph(struct gen *q, uint64_t seed)
{
	static const char *const how[] = { "cpu", "gpu", "no_inline" };
	struct stx_tensor inputs[8], want[96];
	struct stx_diag d = { 0 };
	uint32_t i;

	for (i = 0; i < q->g->inputs.n; i++)
		fill_input(q, &q->g->inputs.at[i], &inputs[i]);
	assert_true(q->g->outputs.n <= 96);
	if (stx_ref_evaluate(q->g, inputs, q->g->inputs.n, want, 0, &d)) {
		assert_int_equal(
			d.code, STX_E_BOUNDS); /* where the oracle reports, anything goes (DF-09) */
		return;
	}
	for (i = 0; i < 3; i++) {
		struct stx_lower_options o = { .target_gpu = i == 1, .no_inline = i == 2 };
		struct stx_loops *l;

		memset(&d, 0, sizeof d);
		if (stx_lower(q->g, &o, &l, &d) || stx_loops_verify(l, &d))
			fail_msg("seed %llu, %s: %s: %s", (unsigned long long)seed, how[i], d.node,
				 d.text);
		check_program(q, l, inputs, want, seed, how[i]);
		check_program(q, through_text(q, l), inputs, want, seed, "through text");
	}
	for (i = 0; i < q->g->outputs.n; i++)
		free(want[i].data);
}

static void run(int linear)
{
	uint64_t i, n = getenv("STX_SEEDS") ? strtoull(getenv("STX_SEEDS"), NULL, 10) : 400;
	uint64_t first = getenv("STX_SEED") ? strtoull(getenv("STX_SEED"), NULL, 10) : 1;

	for (i = first; i < first + n; i++) {
		struct gen q;

		rng = i * 0x9e3779b97f4a7c15u | 1;
		rnd(2);
		rnd(2);
		build(&q, linear);
		check_graph(&q, i);
		stx_arena_free(q.arena);
	}
}

static void test_evaluate_random_graphs_have_the_oracles_bits(void **state)
{
	(void)state;
	run(0);
}

static void test_evaluate_random_linear_graphs_equal_the_oracle(void **state)
{
	(void)state;
	run(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_evaluate_random_graphs_have_the_oracles_bits),
		cmocka_unit_test(test_evaluate_random_linear_graphs_equal_the_oracle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
