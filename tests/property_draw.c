/* property_draw.c: random graphs over every row of ops.def, by category, with the data of their
 * inputs. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "passes.h"
#include "property_draw.h"
#include "scalar.h"

uint64_t draw_bits(struct draw *q)
{
	uint64_t hi = rnd(q, UINT32_MAX);
	return hi << 32 | rnd(q, UINT32_MAX);
}

static const enum stx_dtype dtypes[] = { STX_F32,  STX_F32, STX_F32,      STX_F32,    STX_F16,
					 STX_BF16, STX_F64, STX_I32,      STX_I32,    STX_I64,
					 STX_I64,  STX_I8,  STX_U8,       STX_I16,    STX_U16,
					 STX_U32,  STX_U64, STX_F8E4M3FN, STX_F8E5M2, STX_BOOL };

enum stx_dtype draw_wanted_dtype(const struct draw *q, enum stx_dtype t)
{
	return q->want && q->want->dtype != STX_DTYPE_NONE ? q->want->dtype : t;
}

enum stx_dtype draw_float_dtype(struct draw *q)
{
	static const enum stx_dtype floats[] = { STX_F32, STX_F32,  STX_F32,
						 STX_F16, STX_BF16, STX_F64 };
	return PICK(q, floats);
}

enum stx_dtype draw_dtype(struct draw *q)
{
	static const enum stx_dtype whole[] = { STX_F32, STX_F32,  STX_F16,
						STX_F64, STX_BF16, STX_I64 };
	return q->whole ? PICK(q, whole) : PICK(q, dtypes);
}

/* ---- sizes ---- */

static void draw_dims(struct draw *q)
{
	static const int64_t tails[] = { 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129 };
	static const int64_t lengths[] = { 255,  257,  1000, 1023, 1024, 1025,
					   2049, 4095, 4096, 4097, 6000, 8193 };
	static const int64_t longest[] = { 16385, 32768, 65537, 70001, 131072, 200003 };
	uint32_t profile = rnd(q, 8);
	q->most_elems = MAX_ELEMS;
	for (int i = 0; i < 4; i++)
		q->dims[i] = rnd(q, 14) ? 1 + rnd(q, 9) : rnd(q, 2);
	if (profile < 4)
		q->dims[rnd(q, 4)] = PICK(q, tails);
	if (profile < 1) {
		for (int i = 0; i < 4; i++)
			q->dims[i] = 1 + rnd(q, 3);
		q->dims[rnd(q, 4)] = PICK(q, lengths);
	}
	if (rnd(q, 50) == 0) { /* large enough for reductions to be split */
		for (int i = 0; i < 4; i++)
			q->dims[i] = 1 + rnd(q, 2);
		q->dims[rnd(q, 4)] = PICK(q, longest);
		q->most_elems = 400000;
	}
}

/* ---- data ---- */

static double float_value(struct draw *q, enum stx_dtype t, uint32_t kind)
{
	static const double special[] = { NAN,      INFINITY,  -INFINITY,    0.0,       -0.0,
					  0x1p-149, -0x1p-140, 0x1p-24,      0x1p-1074, 65504,
					  65520,    3e38,      -3e38,        1e-30,     127.5,
					  -128.5,   255.5,     2147483648.0, -9.3e18,   0.5,
					  1.5,      -2.5 };
	switch (kind) {
	case 0: return (double)rnd(q, 9) - 4;
	case 2:
		if (rnd(q, 3) == 0)
			return PICK(q, special);
		break;
	case 3: {
		int range = t == STX_F16 ? 14 : t == STX_F64 ? 300 : 120;
		return ldexp(rnd(q, 1 << 24) * 0x1p-23 - 1,
			     (int)rnd(q, (uint32_t)(2 * range)) - range);
	}
	}
	return ((double)rnd(q, 1u << 26) - 0x1p25) * 0x1p-24;
}

static uint64_t int_value(struct draw *q, enum stx_dtype t, uint32_t kind)
{
	int bits = 8 * stx_dtype_bytes(t);
	uint64_t top = 1ull << (bits - 1);
	const uint64_t edges[] = {
		0, 1, top, top - 1, top + 1, UINT64_MAX, UINT64_MAX - 1, 2, (uint64_t)bits
	};
	switch (kind) {
	case 0:
		return stx_dtype_kind(t) == STX_KIND_UINT ? rnd(q, 9)
							  : (uint64_t)((int64_t)rnd(q, 9) - 4);
	case 2: return rnd(q, 2) ? PICK(q, edges) : draw_bits(q);
	default: return draw_bits(q) >> rnd(q, (uint32_t)bits);
	}
}

static union stx_scalar value(struct draw *q, enum stx_dtype t, uint32_t kind)
{
	union stx_scalar v = { .u = 0 };
	if (t == STX_BOOL)
		v.i = rnd(q, 2);
	else if (stx_dtype_is_float(t))
		v.f = stx_scalar_round(t, float_value(q, t, kind));
	else
		v = stx_scalar_wrap(t, int_value(q, t, kind));
	return v;
}

/* Data for n elements; bound > 0: integers in [low, bound). */
static void fill(struct draw *q, enum stx_dtype t, void *at, int64_t n, int64_t low, int64_t bound)
{
	size_t width = (size_t)stx_dtype_bytes(t);
	uint32_t kind = q->whole ? 0 : rnd(q, 6);
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar v = { .u = 0 };
		if (bound > 0)
			v.i = low + (int64_t)rnd(q, (uint32_t)(bound - low));
		else
			v = value(q, t, kind);
		stx_scalar_store(t, (char *)at + (size_t)i * width, v);
	}
}

#define MOST_CONSTANT 64 /* elements */

/* ---- inputs ---- */

static struct stx_node *keep(struct draw *q, struct stx_node *n)
{
	if (!n || !n->nouts || n->nouts > PROP_MAX_OUTS || rank_of(n) > 6 ||
	    numel(q, n) > q->most_elems || q->n == MAX_VALUES)
		return NULL;
	q->used[q->n] = 0;
	return q->at[q->n++] = n;
}

/* How a new input lies: as wanted, else dense half of the time. */
static enum prop_layout draw_layout(struct draw *q)
{
	static const enum prop_layout any[] = { PROP_TRANSPOSED, PROP_TRANSPOSED, PROP_SLICED,
						PROP_EXPANDED, PROP_OVERLAP };
	if (q->want && q->want->layout <= PROP_OVERLAP)
		return q->want->layout;
	return q->want || rnd(q, 2) ? PROP_DENSE : PICK(q, any);
}

/* Strides for that layout, and how far the first element is from the start. */
static int64_t draw_strides(struct draw *q, enum prop_layout l, const int64_t *sizes, int rank,
			    int64_t *strides)
{
	int order[8];
	int64_t step = l == PROP_SLICED ? 1 + rnd(q, 3) : 1, reach = 0;
	uint32_t gaps = l == PROP_SLICED || (l == PROP_TRANSPOSED && rnd(q, 4) == 0);
	int forced = rank ? (int)rnd(q, (uint32_t)rank) : 0; /* this one is expanded for sure */
	for (int i = 0; i < rank; i++)
		order[i] = rank - 1 - i;
	for (int i = 0; l == PROP_TRANSPOSED && i + 1 < rank; i++) {
		int j = i + 1 + (int)rnd(q, (uint32_t)(rank - i - 1)), o = order[i];
		order[i] = order[j];
		order[j] = o;
	}
	for (int i = 0; i < rank; i++) {
		int64_t size = sizes[order[i]] ? sizes[order[i]] : 1;
		strides[order[i]] = step;
		if (l == PROP_EXPANDED && (order[i] == forced || rnd(q, 3) == 0))
			strides[order[i]] = 0;
		else
			step *= size;
		if (gaps)
			step += rnd(q, 4);
		reach += (size - 1) * strides[order[i]];
		if (l == PROP_OVERLAP && reach)
			step = 1 + rnd(q, (uint32_t)(reach < 9 ? reach : 9));
	}
	return l == PROP_SLICED || (!q->want && rnd(q, 5) == 0) ? (int64_t)rnd(q, 6) : 0;
}

static struct stx_node *draw_constant(struct draw *q, enum stx_dtype t, const int64_t *sizes,
				      int rank, int64_t low, int64_t bound)
{
	uint8_t data[MOST_CONSTANT * 8];
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= sizes[i];
	if (n > MOST_CONSTANT)
		return NULL;
	fill(q, t, data, n, low, bound);
	return keep(q, stx_graph_constant(q->g, NULL, stx_type_make(q->g, t, rank, sizes), data,
					  (size_t)(n * stx_dtype_bytes(t)), NULL));
}

/* Elements, not bytes: an expanded or overlapping input has more of them than memory. */
static int too_many(const struct draw *q, const int64_t *sizes, int rank)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		if (!sizes[i])
			return 0;
	for (int i = 0; i < rank && n <= q->most_elems; i++)
		n *= sizes[i];
	return n > q->most_elems;
}

struct stx_node *draw_input(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank,
			    int64_t low, int64_t bound)
{
	struct stx_node *c = q->constants ? draw_constant(q, t, sizes, rank, low, bound) : NULL;
	if (c)
		return c;
	struct stx_tensor *x = &q->c->inputs[q->g->inputs.n];
	int64_t strides[8], span;
	stx_ex se[8];
	if (q->g->inputs.n == PROP_MAX_INPUTS / 2 || too_many(q, sizes, rank))
		return NULL;
	memset(x, 0, sizeof *x);
	x->offset = draw_strides(q, draw_layout(q), sizes, rank, strides);
	span = x->offset + 1;
	x->dtype = (uint8_t)t;
	x->rank = (uint8_t)rank;
	for (int i = 0; i < rank; i++) {
		x->sizes[i] = sizes[i];
		x->strides[i] = strides[i];
		se[i] = stx_ex_const(q->g->ex, strides[i]);
		span += (sizes[i] ? sizes[i] - 1 : 0) * strides[i];
	}
	if (span > 4 * q->most_elems)
		return NULL;
	struct stx_node *n = stx_graph_input(q->g, NULL, stx_type_make(q->g, t, rank, sizes), se,
					     rnd(q, 3) == 0, NULL);
	x->data = stx_arena_alloc(q->c->arena, (size_t)span * (size_t)stx_dtype_bytes(t) + 1);
	if (!n || !x->data)
		abort();
	n->is_donated = rnd(q, 4) == 0;
	fill(q, t, x->data, span, low, bound);
	return keep(q, n);
}

static struct stx_node *random_input(struct draw *q, enum stx_dtype t)
{
	int64_t sizes[4], n = 1;
	int rank = (int)rnd(q, 4);
	q->want = NULL;
	q->constants = 0;
	for (int i = 0; i < rank; i++) {
		sizes[i] = rnd(q, 8) ? q->dims[(uint32_t)(4 - rank + i)] : 1;
		n *= sizes[i];
	}
	return n <= q->most_elems ? draw_input(q, t, sizes, rank, 0, 0) : NULL;
}

/* ---- operands ---- */

/* Any value: unused ones and late ones more often. */
struct stx_node *draw_any(struct draw *q)
{
	uint32_t i = rnd(q, q->n);
	for (int k = 0; k < 3 && q->used[i] && rnd(q, 3); k++)
		i = rnd(q, 2) ? rnd(q, q->n) : q->n - 1 - rnd(q, q->n < 4 ? q->n : 4);
	q->used[i] = 1;
	return q->at[i];
}

struct stx_node *draw_as(struct draw *q, struct stx_node *n, enum stx_dtype t)
{
	if (!n || n->outs[0].dtype == t)
		return n;
	return call(q, STX_OP_TO_COPY, ARGS(T(n), stx_arg_dtype(t)));
}

struct stx_node *draw_float(struct draw *q)
{
	struct stx_node *n = draw_any(q);
	for (int k = 0; k < 4 && !stx_dtype_is_float(n->outs[0].dtype); k++)
		n = draw_any(q);
	return stx_dtype_is_float(n->outs[0].dtype) ? n : draw_as(q, n, draw_float_dtype(q));
}

static int broadcasts(const struct draw *q, const struct stx_node *a, const struct stx_node *b)
{
	uint32_t ra = rank_of(a), rb = rank_of(b), r = ra > rb ? ra : rb;
	int64_t n = 1;
	for (uint32_t i = 0; i < r; i++) {
		int64_t x = i < ra ? size_of(q, a, ra - 1 - i) : 1,
			y = i < rb ? size_of(q, b, rb - 1 - i) : 1;
		if (x != y && x != 1 && y != 1)
			return 0;
		n *= x == 1 ? y : x;
	}
	return n <= q->most_elems;
}

/* A value that broadcasts with a; a new input when none is found. */
struct stx_node *draw_partner(struct draw *q, const struct stx_node *a)
{
	int64_t sizes[8];
	uint32_t drop = rank_of(a) ? rnd(q, 3) == 0 : 0;
	enum stx_dtype t = a->outs[0].dtype;
	int same = q->want && rnd(q, 3); /* so that the call is about the wanted dtype */
	for (int k = 0; k < 12; k++) {
		struct stx_node *b = draw_any(q);
		if (broadcasts(q, a, b) && (!same || b->outs[0].dtype == t))
			return b;
	}
	for (uint32_t i = drop; i < rank_of(a); i++)
		sizes[i - drop] = rnd(q, 4) ? size_of(q, a, i) : 1;
	return draw_input(q, same || rnd(q, 2) ? t : draw_dtype(q), sizes, (int)(rank_of(a) - drop),
			  0, 0);
}

int64_t draw_size(struct draw *q)
{
	return q->dims[rnd(q, 4)];
}

/* A number that t can hold, its edges among them; one time in eight any number, which operators
 * that need the value itself refuse (NUMERICS, Integers). */
static int64_t integer_for(struct draw *q, enum stx_dtype t)
{
	int64_t small = (int64_t)rnd(q, 9) - 3;
	if (stx_dtype_kind(t) == STX_KIND_UINT && rnd(q, 8))
		small = small < 0 ? -small : small;
	if (stx_dtype_is_float(t) || t == STX_BOOL)
		return rnd(q, 12) ? small : (int64_t)draw_bits(q);
	switch (rnd(q, 8)) {
	case 0: return (int64_t)draw_bits(q) >> rnd(q, 64);
	case 1:
	case 2: {
		int64_t v = stx_scalar_wrap(t, int_value(q, t, 2)).i;
		return t == STX_U64 ? v & INT64_MAX : v;
	}
	default: return small;
	}
}

struct stx_arg draw_scalar(struct draw *q, enum stx_dtype t)
{
	static const double values[] = { 0.0, -0.0, 1,    2,    0.5,      -1.5,      3,
					 -4,  0.1,  1e-3, 1e30, INFINITY, -INFINITY, NAN };
	if (!stx_dtype_is_float(t) && rnd(q, 8) == 0)
		return stx_arg_scalar_b((int)rnd(q, 2));
	if (q->want && !stx_dtype_is_float(t) && rnd(q, 4)) /* a fraction promotes */
		return stx_arg_scalar_i(integer_for(q, t));
	if (q->whole)
		return stx_arg_scalar_i((int64_t)rnd(q, 5) - 2);
	if (stx_dtype_is_float(t) ? rnd(q, 3) == 0 : rnd(q, 6))
		return stx_arg_scalar_i(integer_for(q, t));
	return stx_arg_scalar_f(PICK(q, values));
}

/* ---- the graph ---- */

static int keeps_whole(enum stx_op op)
{
	static const enum stx_op not [] = { STX_OP_VAR,      STX_OP_VAR_DIM, STX_OP_STD,
					    STX_OP_STD_DIM,  STX_OP_PROD,    STX_OP_PROD_DIM,
					    STX_OP_LOGSUMEXP };
	static const enum stx_op pointwise[] = { STX_OP_ADD,   STX_OP_ADD_SCALAR, STX_OP_SUB,
						 STX_OP_NEG,   STX_OP_ABS,        STX_OP_SIGN,
						 STX_OP_RELU,  STX_OP_MAXIMUM,    STX_OP_MINIMUM,
						 STX_OP_EQ,    STX_OP_LT_SCALAR,  STX_OP_WHERE,
						 STX_OP_CLAMP, STX_OP_TO_COPY,    STX_OP_ROUND };
	enum stx_op_category c = stx_op_info(op)->category;
	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		if (op == not [i])
			return 0;
	for (size_t i = 0; i < sizeof pointwise / sizeof *pointwise; i++)
		if (op == pointwise[i])
			return 1;
	return op == STX_OP_LINEAR || (c != STX_CAT_POINTWISE && c != STX_CAT_COMPOSITE);
}

/* Of sixty seeds five give a graph of exact sums, five a deep graph, two a graph with indices out
 * of bounds; the calls of the others are planned. */
enum kind { PLANNED, WHOLE, DEEP, WILD };
static enum kind kind_of(uint64_t seed)
{
	return seed % 12 == 0 ? WHOLE : seed % 12 == 6 ? DEEP : seed % 30 == 3 ? WILD : PLANNED;
}

/* Planned graphs among the seeds below this one. */
static uint64_t planned_before(uint64_t seed)
{
	return seed - (seed + 11) / 12 - (seed + 5) / 12 - (seed + 26) / 30;
}

int prop_is_wild(uint64_t seed)
{
	return kind_of(seed) == WILD;
}

/* Free calls join what the planned ones left: mostly pointwise operators. */
static enum stx_op free_op(struct draw *q)
{
	static const enum stx_op sums[] = { STX_OP_SUM,    STX_OP_SUM_DIM, STX_OP_CUMSUM, STX_OP_MM,
					    STX_OP_MATMUL, STX_OP_LINEAR,  STX_OP_ADDMM };
	if (q->whole && rnd(q, 3) == 0)
		return sums[rnd(q, sizeof sums / sizeof *sums)];
	for (;;) {
		enum stx_op op = prop_planned_cell(draw_bits(q)).op;
		if (q->wild && rnd(q, 4) && stx_op_info(op)->category != STX_CAT_INDIRECT)
			continue;
		if (q->whole ? keeps_whole(op)
			     : stx_op_info(op)->category == STX_CAT_POINTWISE || rnd(q, 3) == 0)
			return op;
	}
}

struct stx_node *draw_cell(struct draw *q, struct prop_cell cell)
{
	int64_t dims[4];
	memcpy(dims, q->dims, sizeof dims);
	q->want = &cell;
	q->given = 0;
	if (cell.layout == PROP_EMPTY || cell.layout == PROP_ONE)
		q->dims[rnd(q, 4)] = cell.layout == PROP_ONE;
	q->constants = cell.layout == PROP_DENSE && rnd(q, 3) == 0;
	struct stx_node *n = draw_call(q, cell.op);
	memcpy(q->dims, dims, sizeof dims);
	q->constants = 0;
	q->want = NULL;
	return n;
}

static int is_cell(const struct draw *q, const struct stx_node *n, struct prop_cell cell)
{
	struct stx_val x = prop_cell_operand(n);
	if (!x.node)
		return 1;
	return stx_val_type(x)->dtype == cell.dtype &&
	       (prop_has_layout(q->c, x, cell.layout) || cell.layout == PROP_DENSE);
}

/* Some attempts, since arguments are random; the later ones with small sizes. */
static void draw_planned(struct draw *q, struct prop_cell cell)
{
	int64_t dims[4];
	memcpy(dims, q->dims, sizeof dims);
	for (int tries = 0; tries < 60; tries++) {
		struct stx_node *n = draw_cell(q, cell);
		if (n && (tries > 40 || is_cell(q, n, cell)) && keep(q, n))
			break;
		for (int i = 0; tries > 8 && i < 4; i++)
			q->dims[i] = 2 + rnd(q, 5);
	}
	memcpy(q->dims, dims, sizeof dims);
}

/* What nothing else reads of the values kept, and a few others. Nodes of attempts that came to
 * nothing stay dead. */
static void draw_outputs(struct draw *q)
{
	uint8_t *kept = STX_NEW_ARRAY(q->c->arena, uint8_t, q->g->nodes.n + 1);
	uint8_t *live = STX_NEW_ARRAY(q->c->arena, uint8_t, q->g->nodes.n + 1);
	uint32_t made = 0;
	for (uint32_t i = 0; i < q->n; i++)
		kept[q->at[i]->id] =
			q->at[i]->op != STX_OP_PLACEHOLDER && q->at[i]->op != STX_OP_CONSTANT;
	for (uint32_t i = q->g->nodes.n; i-- > 0;) {
		struct stx_node *n = q->g->nodes.at[i];
		int first = kept[i] && (!live[i] || rnd(q, 30) == 0);
		for (uint32_t k = 0; first && k < n->nouts && k < PROP_MAX_OUTS; k++)
			if ((k == 0 || rnd(q, 4)) && made < PROP_MAX_OUTPUTS / 4)
				made += !stx_graph_output(q->g, stx_val(n, k), NULL, NULL);
		live[i] |= (uint8_t)first;
		if (live[i])
			prop_mark_operands(n, live);
	}
	if (!made)
		stx_graph_output(q->g, stx_val(q->g->nodes.at[q->g->nodes.n - 1], 0), NULL, NULL);
}

struct prop_case *prop_draw(struct stx_arena *a, uint64_t seed)
{
	struct draw q = { .rng = seed * 0x9e3779b97f4a7c15u + 0x1234567 };
	struct prop_case *c = STX_NEW(a, struct prop_case);
	c->arena = a;
	q.c = c;
	q.g = c->g = stx_graph_new(a);
	uint32_t first = 1 + rnd(&q, 3), more = rnd(&q, 3);
	enum kind kind = kind_of(seed);
	q.whole = kind == WHOLE;
	q.wild = kind == WILD;
	draw_dims(&q);
	while (q.n < first)
		random_input(&q, draw_dtype(&q));
	if (rnd(&q, 6) == 0) {
		q.constants = 1;
		draw_input(&q, draw_dtype(&q), (const int64_t[]){ 1 + rnd(&q, 3), 1 + rnd(&q, 4) },
			   (int)rnd(&q, 3), 0, 0);
	}
	if (kind == WHOLE) /* few calls: one that is not exact is enough to spoil it */
		more += 3 + rnd(&q, 6);
	else if (kind != PLANNED)
		more += 6 + rnd(&q, 20);
	for (uint32_t i = 0, n = prop_planned_calls(); i < n && kind == PLANNED; i++)
		draw_planned(&q, prop_planned_cell(planned_before(seed) * n + i));
	for (uint32_t tries = 0, made = 0; made < more && tries < 20 * more; tries++)
		made += keep(&q, draw_call(&q, free_op(&q))) != NULL;
	draw_outputs(&q);
	return prop_compact(a, c);
}
