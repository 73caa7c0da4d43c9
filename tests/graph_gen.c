/* graph_gen.c: graphs for tests. Static sizes only. */
#include "graph_gen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_gen_impl.h"
#include "passes.h"

static void die(const char *what, const struct stx_diag *d)
{
	fprintf(stderr, "%s: %s [%s] %s: %s\n", what, d->stage, d->node, d->location, d->text);
	abort();
}

struct stx_graph *gen_parse(struct stx_arena *a, const char *text)
{
	struct stx_graph *g;
	struct stx_diag d = { 0 };
	if (stx_graph_parse(a, text, strlen(text), &g, &d) || stx_graph_verify(g, &d))
		die(text, &d);
	return g;
}

const char *gen_print(struct stx_arena *a, const struct stx_graph *g)
{
	struct stx_bytes b = { 0 };
	if (stx_graph_print(g, &b))
		abort();
	const char *s = stx_arena_strndup(a, (const char *)b.at, b.n);
	stx_bytes_free(&b);
	return s;
}

const char *gen_canonical(struct stx_arena *a, const struct stx_graph *g)
{
	struct stx_graph *c;
	struct stx_diag d = { 0 };
	if (stx_graph_canonical(g, a, &c, &d) || stx_graph_verify(c, &d))
		die(gen_print(a, g), &d);
	return gen_print(a, c);
}

const char *gen_error(struct stx_arena *a, const char *text)
{
	struct stx_graph *g;
	struct stx_diag d = { 0 };
	if (!stx_graph_parse(a, text, strlen(text), &g, &d) && !stx_graph_verify(g, &d))
		return NULL;
	return stx_arena_printf(a, "%s: %s", d.location, d.text);
}

uint64_t gen_next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

int gen_pick(uint64_t *seed, int n)
{
	return (int)((gen_next(seed) >> 20) % (uint64_t)n);
}

static const enum stx_dtype dtypes[] = { STX_F32, STX_F32,  STX_F32, STX_F64, STX_I64, STX_I64,
					 STX_I32, STX_BOOL, STX_F16, STX_U8,  STX_I8 };

enum stx_dtype gen_dtype(uint64_t *seed)
{
	return dtypes[gen_pick(seed, (int)(sizeof dtypes / sizeof dtypes[0]))];
}

static struct stx_arg random_scalar(uint64_t *seed)
{
	static const double floats[] = {
		0.0, -0.0, 1.0, 2.0, 0.5, -1.5, 3.0, __builtin_inf(), -4.0
	};
	if (gen_pick(seed, 2))
		return gen_pick(seed, 8) ? stx_arg_scalar_i(gen_pick(seed, 7) - 2)
					 : stx_arg_scalar_b(gen_pick(seed, 2));
	return stx_arg_scalar_f(floats[gen_pick(seed, 9)]);
}

static struct stx_val random_val(struct stx_graph *g, uint64_t *seed)
{
	for (;;) {
		struct stx_node *n = g->nodes.at[gen_pick(seed, (int)g->nodes.n)];
		if (n->nouts)
			return stx_val(n, (uint32_t)gen_pick(seed, (int)n->nouts));
	}
}

struct stx_arg gen_arg(struct stx_graph *g, const struct stx_param *p, uint64_t *seed)
{
	static const char *const words[] = { "none", "tanh", "floor", "trunc" };
	int64_t ints[4];
	double floats[4];
	struct stx_val vals[3];
	int n;
	if (p->has_default && gen_pick(seed, 3) == 0)
		return stx_arg_default();
	switch (p->kind) {
	case STX_PARAM_OPT_TENSOR:
		if (gen_pick(seed, 2))
			return stx_arg_none();
		return stx_arg_tensor(random_val(g, seed));
	case STX_PARAM_TENSOR: return stx_arg_tensor(random_val(g, seed));
	case STX_PARAM_TENSORS:
		n = 1 + gen_pick(seed, 3);
		for (int i = 0; i < n; i++)
			vals[i] = gen_pick(seed, 6) ? random_val(g, seed) : stx_val(NULL, 0);
		return stx_arg_tensors(g, vals, (uint32_t)n);
	case STX_PARAM_OPT_INT:
		if (gen_pick(seed, 2))
			return stx_arg_none();
		return stx_arg_int(g, gen_pick(seed, 6) - 2);
	case STX_PARAM_INT: return stx_arg_int(g, gen_pick(seed, 6) - 2);
	case STX_PARAM_OPT_INTS:
	case STX_PARAM_INTS:
		n = gen_pick(seed, 5);
		for (int i = 0; i < n; i++)
			ints[i] = gen_pick(seed, 6) - 2;
		return stx_arg_ints(g, ints, (uint32_t)n);
	case STX_PARAM_FLOAT:
	case STX_PARAM_OPT_FLOAT: return stx_arg_float(gen_pick(seed, 2) ? 1e-5 : 0.25);
	case STX_PARAM_OPT_FLOATS:
		n = gen_pick(seed, 4);
		for (int i = 0; i < n; i++)
			floats[i] = (1 + gen_pick(seed, 8)) * 0.375;
		return gen_pick(seed, 2) ? stx_arg_none() : stx_arg_floats(g, floats, (uint32_t)n);
	case STX_PARAM_BOOL: return stx_arg_bool(gen_pick(seed, 2));
	case STX_PARAM_BOOLS: return stx_arg_bools((uint64_t)gen_pick(seed, 8), 3);
	case STX_PARAM_SCALAR:
	case STX_PARAM_OPT_SCALAR: return random_scalar(seed);
	case STX_PARAM_OPT_STRING:
		if (gen_pick(seed, 4) == 0)
			return stx_arg_none();
		/* fall through */
	case STX_PARAM_STRING: return stx_arg_str(g, words[gen_pick(seed, 4)]);
	case STX_PARAM_DTYPE:
	case STX_PARAM_OPT_DTYPE: return stx_arg_dtype(gen_dtype(seed));
	}
	return stx_arg_none();
}

static stx_ex symbol(struct stx_graph *g, int i)
{
	const struct stx_symbol *y = &g->symbols.at[i];
	return stx_ex_sym(g->ex, (uint32_t)i, y->range, y->hint);
}

static stx_ex random_size(struct stx_graph *g, uint64_t *seed)
{
	stx_ex n = symbol(g, gen_pick(seed, (int)g->symbols.n));
	switch (gen_pick(seed, 5)) {
	case 0: return stx_ex_muli(g->ex, n, 2);
	case 1: return stx_ex_addi(g->ex, n, 3);
	case 2: return stx_ex_ceildiv(g->ex, n, stx_ex_const(g->ex, 2));
	default: return n;
	}
}

/* tame: constants of ordinary size instead of random bits. */
static void random_inputs(struct stx_graph *g, uint64_t *seed, int tame)
{
	int n = 2 + gen_pick(seed, 5);
	for (int i = 0; i < n; i++) {
		int64_t sizes[4], strides[4];
		stx_ex se[4];
		int rank = gen_pick(seed, 4), strided = gen_pick(seed, 6) == 0;
		for (int k = 0; k < rank; k++) {
			sizes[k] = gen_pick(seed, 8) ? 1 + gen_pick(seed, 3) : 0;
			strides[k] = gen_pick(seed, 5);
			se[k] = stx_ex_const(g->ex, strides[k]);
		}
		struct stx_type t = stx_type_make(g, gen_dtype(seed), rank, sizes);
		for (int k = 0; g->symbols.n && k < rank; k++)
			if (gen_pick(seed, 2))
				((stx_ex *)t.sizes)[k] = random_size(g, seed);
		if (!stx_graph_input(g, NULL, t, strided ? se : NULL, gen_pick(seed, 4) == 0, NULL))
			abort();
	}
	int64_t two = 2;
	uint8_t data[16];
	for (int i = 0; i < 16; i++)
		data[i] = (uint8_t)gen_next(seed);
	float values[2] = { (float)gen_pick(seed, 9) - 4, (float)gen_pick(seed, 100) / 16 };
	stx_graph_constant(g, NULL, stx_type_make(g, STX_F32, 1, &two),
			   tame ? (void *)values : data, 8, NULL);
	stx_graph_constant(g, NULL, stx_type_make(g, STX_I64, 1, &two), data, 16, NULL);
	data[0] = 1;
	stx_graph_constant(g, NULL, stx_type_make(g, STX_BOOL, 0, NULL), data, 1, NULL);
}

/* x from -limit to limit; NaN stays. */
static struct stx_arg within(struct stx_graph *g, struct stx_arg x, int64_t limit)
{
	struct stx_arg a[] = { x, stx_arg_scalar_i(-limit), stx_arg_scalar_i(limit) };
	return stx_arg_node(stx_graph_call(g, STX_OP_CLAMP, NULL, a, 3, NULL));
}

/* Normalisations and their gradients: operands that fit each other. */
static struct stx_node *norm_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	static const enum stx_dtype types[] = { STX_F32, STX_F32, STX_F64, STX_F16, STX_BF16 };
	const struct stx_op_info *info = stx_op_info(op);
	int layer = op == STX_OP_NATIVE_LAYER_NORM || op == STX_OP_LAYER_NORM_GRAD;
	int64_t groups = 1 + gen_pick(seed, 3), inner = 1 + gen_pick(seed, 2);
	const int64_t xs[4] = { 1 + gen_pick(seed, 3), groups * (1 + gen_pick(seed, 3)),
				1 + gen_pick(seed, 3), 1 + gen_pick(seed, 4) };
	const int64_t rows[4] = { xs[0], xs[1], inner > 1 ? 1 : xs[2], 1 },
		      stats[2] = { xs[0], groups };
	enum stx_dtype t = types[gen_pick(seed, 5)];
	struct stx_arg args[16];
	for (uint32_t i = 0; i < info->nparams; i++) {
		const char *name = info->params[i].name;
		int whole = !strcmp(name, "input") || !strcmp(name, "grad_out");
		int stat = !strcmp(name, "mean") || !strcmp(name, "rstd");
		const int64_t *s = whole  ? xs
				   : stat ? (layer ? rows : stats)
					  : &xs[layer ? 4 - inner : 1];
		int rank = whole ? 4 : stat ? (layer ? 4 : 2) : layer ? (int)inner : 1;
		int64_t number = !strcmp(name, "N")   ? xs[0]
				 : !strcmp(name, "C") ? xs[1]
				 : *name == 'H'       ? xs[2] * xs[3]
						      : groups;
		switch (info->params[i].kind) {
		case STX_PARAM_OPT_TENSOR:
			args[i] = stx_arg_none();
			if (gen_pick(seed, 3) == 0)
				break; /* else as a tensor */
				       /* fall through */
		case STX_PARAM_TENSOR:
			args[i] = stx_arg_node(stx_graph_input(
				g, NULL, stx_type_make(g, t, rank, s), NULL, 0, NULL));
			if (strcmp(name,
				   "input")) /* 0 * inf or almost 0 * inf is rounding's choice */
				args[i] = within(g, args[i], 3);
			break;
		case STX_PARAM_INT: args[i] = stx_arg_int(g, number); break;
		case STX_PARAM_INTS:
			args[i] = stx_arg_ints(g, &xs[4 - inner], (uint32_t)inner);
			break;
		case STX_PARAM_BOOLS: args[i] = stx_arg_bools(7, 3); break; /* output_mask */
		case STX_PARAM_BOOL:
			args[i] = stx_arg_bool(
				op == STX_OP_BATCH_NORM_NO_STATS ||
				(op == STX_OP_BATCH_NORM_FUNCTIONAL && gen_pick(seed, 2)));
			break;
		default: args[i] = stx_arg_float(gen_pick(seed, 2) ? 0.125 : 0.5);
		}
	}
	return stx_graph_call(g, op, NULL, args, info->nparams, NULL);
}

/* Distances: rows of one length, an order that means something. */
static struct stx_node *distance_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	static const double orders[] = { 0, 1, 2, 2, 3, 1.5, __builtin_inf() };
	const struct stx_op_info *info = stx_op_info(op);
	int64_t rows[3] = { 1 + gen_pick(seed, 2), gen_pick(seed, 6), gen_pick(seed, 5) };
	int rank = op == STX_OP_CDIST ? 2 + gen_pick(seed, 2) : 2;
	enum stx_dtype t = gen_pick(seed, 4) ? STX_F32 : STX_F64;
	struct stx_arg args[4];
	for (uint32_t i = 0; i < info->nparams; i++) {
		if (info->params[i].kind == STX_PARAM_TENSOR)
			args[i] = stx_arg_node(
				stx_graph_input(g, NULL, stx_type_make(g, t, rank, rows + 3 - rank),
						NULL, 0, NULL));
		else
			args[i] = info->params[i].kind == STX_PARAM_FLOAT
					  ? stx_arg_float(orders[gen_pick(seed, 7)])
					  : stx_arg_none();
		rows[1] = gen_pick(seed, 6);
	}
	return stx_graph_call(g, op, NULL, args, info->nparams, NULL);
}

/* Searches: the sequence is sorted first. */
static struct stx_node *search_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	int64_t sizes[2] = { 1 + gen_pick(seed, 3), gen_pick(seed, 9) };
	int rank = op == STX_OP_SEARCHSORTED && gen_pick(seed, 2) ? 2 : 1;
	struct stx_node *s = stx_graph_input(
		g, NULL,
		stx_type_make(g, gen_pick(seed, 2) ? STX_I32 : STX_U8, rank, sizes + 2 - rank),
		NULL, 0, NULL);
	sizes[1] = gen_pick(seed, 6);
	struct stx_node *v = stx_graph_input(
		g, NULL, stx_type_make(g, gen_pick(seed, 2) ? STX_I32 : STX_F32, 2, sizes), NULL, 0,
		NULL);
	struct stx_arg sorted = stx_arg_node(s);
	sorted = stx_arg_node(stx_graph_call(g, STX_OP_SORT, NULL, &sorted, 1, NULL));
	struct stx_arg args[] = { sorted, stx_arg_node(v), stx_arg_bool(gen_pick(seed, 2)),
				  stx_arg_bool(gen_pick(seed, 2)) };
	if (op == STX_OP_BUCKETIZE) {
		args[1] = args[0];
		args[0] = stx_arg_node(v);
	}
	return stx_graph_call(g, op, NULL, args, 4, NULL);
}

/* Bags: offsets that begin at 0 and do not fall. */
static struct stx_node *bag_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	int64_t rows[2] = { 2 + gen_pick(seed, 3), gen_pick(seed, 5) }, n = gen_pick(seed, 7);
	int64_t bags = 1 + gen_pick(seed, 4), mode = gen_pick(seed, 3);
	static const enum stx_dtype types[] = { STX_F32, STX_F32, STX_F64, STX_F16, STX_BF16 };
	enum stx_dtype t = types[gen_pick(seed, 5)], whole = gen_pick(seed, 3) ? STX_I64 : STX_I32;
	int64_t offsets[5] = { 0 };
	int32_t narrow[5] = { 0 };
	struct stx_node *w = stx_graph_input(g, NULL, stx_type_make(g, t, 2, rows), NULL, 0, NULL);
	struct stx_node *x =
		stx_graph_input(g, NULL, stx_type_make(g, whole, 1, &n), NULL, 0, NULL);
	for (int64_t i = 1; i < bags; i++) {
		offsets[i] = offsets[i - 1] + gen_pick(seed, (int)(n - offsets[i - 1]) + 1);
		narrow[i] = (int32_t)offsets[i];
	}
	struct stx_arg a[] = { stx_arg_node(x), stx_arg_scalar_i(2) };
	struct stx_node *k = stx_graph_call(g, STX_OP_REMAINDER_SCALAR, NULL, a, 2, NULL);
	struct stx_node *o = stx_graph_constant(
		g, NULL, stx_type_make(g, whole, 1, &bags),
		whole == STX_I64 ? (const void *)offsets : narrow,
		(size_t)bags * (whole == STX_I64 ? sizeof *offsets : sizeof *narrow), NULL);
	struct stx_arg args[] = { stx_arg_node(w),
				  stx_arg_node(k),
				  stx_arg_node(o),
				  stx_arg_bool(0),
				  stx_arg_int(g, mode),
				  stx_arg_bool(0),
				  stx_arg_none(),
				  stx_arg_bool(gen_pick(seed, 2)),
				  stx_arg_int(g, gen_pick(seed, 3) - 1) };
	if (mode == 0 && gen_pick(seed, 2))
		args[6] = stx_arg_node(
			stx_graph_input(g, NULL, stx_type_make(g, t, 1, &n), NULL, 0, NULL));
	return stx_graph_call(g, op, NULL, args, 9, NULL);
}

/* Operators whose operands random choice would never make fit. */
static int is_fitted(enum stx_op op)
{
	return (op >= STX_OP_NATIVE_LAYER_NORM && op <= STX_OP_BATCH_NORM_FUNCTIONAL) ||
	       op == STX_OP_CDIST || op == STX_OP_PDIST || op == STX_OP_SEARCHSORTED ||
	       op == STX_OP_BUCKETIZE || op == STX_OP_EMBEDDING_BAG;
}

static struct stx_node *fitted_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	if (op == STX_OP_CDIST || op == STX_OP_PDIST)
		return distance_call(g, seed, op);
	if (op == STX_OP_SEARCHSORTED || op == STX_OP_BUCKETIZE)
		return search_call(g, seed, op);
	if (op == STX_OP_EMBEDDING_BAG)
		return bag_call(g, seed, op);
	return norm_call(g, seed, op);
}

static struct stx_graph *fill_graph(struct stx_graph *g, uint64_t *seed, int ncalls)
{
	struct stx_arg args[16];
	struct stx_diag d = { 0 };
	random_inputs(g, seed, 0);
	for (int made = 0, tries = 0; made < ncalls && tries < ncalls * 40; tries++) {
		enum stx_op op = (enum stx_op)(2 + gen_pick(seed, STX_OP_COUNT - 2));
		const struct stx_op_info *info = stx_op_info(op);
		for (uint32_t i = 0; i < info->nparams; i++)
			args[i] = gen_arg(g, &info->params[i], seed);
		struct stx_node *n =
			gen_is_window(op) && g->inputs.n < 13 && gen_pick(seed, 8) == 0
				? gen_window(g, seed, op, 1)
			: gen_is_scatter(op) && g->inputs.n < 13 && gen_pick(seed, 8) == 0
				? gen_scatter(g, seed, op)
			: is_fitted(op) && g->inputs.n < 8 && gen_pick(seed, 8) == 0
				? fitted_call(g, seed, op)
				: stx_graph_call(g, op, NULL, args, info->nparams, NULL);
		made += n != NULL;
	}
	for (int i = 1 + gen_pick(seed, 3); i > 0; i--)
		stx_graph_output(g, random_val(g, seed), NULL, &d);
	if (stx_graph_verify(g, &d))
		die("gen_random", &d);
	return g;
}

struct stx_graph *gen_random(struct stx_arena *a, uint64_t *seed, int ncalls)
{
	return fill_graph(stx_graph_new(a), seed, ncalls);
}

struct stx_graph *gen_random_dynamic(struct stx_arena *a, uint64_t *seed, int ncalls)
{
	struct stx_graph *g = stx_graph_new(a);
	static const struct stx_symbol symbols[] = { { "n", { 0, STX_POS_INF }, 4 },
						     { "m", { 2, 64 }, 3 } };
	for (int i = 0; i < 2; i++)
		if (stx_push(a, &g->symbols, symbols[i]))
			abort();
	return fill_graph(g, seed, ncalls);
}

struct stx_graph *gen_call(struct stx_arena *a, uint64_t *seed, enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	struct stx_arg args[16];
	struct stx_graph *g = NULL;
	for (int tries = 0; tries < 20000; tries++) {
		int own = gen_is_window(op) || gen_is_scatter(op) || is_fitted(op);
		if (tries % 20 == 0 || own) { /* other inputs from time to time */
			g = stx_graph_new(a);
			if (!own)
				random_inputs(g, seed, 1);
		}
		for (uint32_t i = 0; i < info->nparams && !own; i++)
			args[i] = gen_arg(g, &info->params[i], seed);
		struct stx_node *n =
			gen_is_window(op)    ? gen_window(g, seed, op, 0)
			: gen_is_scatter(op) ? gen_scatter(g, seed, op)
			: is_fitted(op)      ? fitted_call(g, seed, op)
					: stx_graph_call(g, op, NULL, args, info->nparams, NULL);
		if (!n || !n->nouts)
			continue;
		for (uint32_t i = 0; i < n->nouts; i++)
			stx_graph_output(g, stx_val(n, i), NULL, NULL);
		return g;
	}
	return NULL;
}

/* ---- the same program in another spelling ---- */

static struct stx_arg copy_arg(struct stx_graph *to, const struct stx_graph *from,
			       const struct stx_arg *a, struct stx_node *const *made)
{
	struct stx_arg r = *a;
	int64_t v;
	if (a->kind == STX_ARG_TENSOR) {
		r.u.tensor.node = made[a->u.tensor.node->id];
	} else if (a->kind == STX_ARG_TENSORS) {
		r = stx_arg_tensors(to, a->u.tensors, a->n);
		for (uint32_t i = 0; i < a->n; i++)
			if (a->u.tensors[i].node)
				((struct stx_val *)r.u.tensors)[i].node =
					made[a->u.tensors[i].node->id];
	} else if (a->kind == STX_ARG_INT) {
		stx_ex_is_const(from->ex, a->u.ex, &v);
		r.u.ex = stx_ex_const(to->ex, v);
	} else if (a->kind == STX_ARG_INTS) {
		stx_ex *e = STX_NEW_ARRAY(to->arena, stx_ex, a->n ? a->n : 1);
		for (uint32_t i = 0; i < a->n; i++) {
			stx_ex_is_const(from->ex, a->u.exs[i], &v);
			e[i] = stx_ex_const(to->ex, v);
		}
		r.u.exs = e;
	}
	return r;
}

static struct stx_type copy_type(struct stx_graph *to, const struct stx_graph *from,
				 const struct stx_type *t)
{
	int64_t sizes[STX_MAX_DIMS];
	for (int i = 0; i < t->rank; i++)
		stx_ex_is_const(from->ex, t->sizes[i], &sizes[i]);
	return stx_type_make(to, t->dtype, t->rank, sizes);
}

static int ready(const struct stx_graph *g, const struct stx_node *n, struct stx_node *const *made)
{
	for (uint32_t i = 0; i < n->nargs; i++) {
		const struct stx_arg *a = &n->args[i];
		if (a->kind == STX_ARG_TENSOR && !made[a->u.tensor.node->id])
			return 0;
		for (uint32_t k = 0; a->kind == STX_ARG_TENSORS && k < a->n; k++)
			if (a->u.tensors[k].node && !made[a->u.tensors[k].node->id])
				return 0;
	}
	for (uint32_t i = 0; n->serial && i < g->nodes.n; i++) /* effects keep their order */
		if (g->nodes.at[i]->serial && g->nodes.at[i]->serial < n->serial && !made[i])
			return 0;
	return n->op != STX_OP_PLACEHOLDER;
}

static struct stx_node *copy_node(struct stx_graph *to, const struct stx_graph *from,
				  const struct stx_node *n, struct stx_node *const *made,
				  struct stx_diag *d)
{
	struct stx_arg args[16];
	const char *name = stx_arena_printf(to->arena, "other_%u", n->id);
	if (n->op == STX_OP_CONSTANT)
		return stx_graph_constant(to, name, copy_type(to, from, &n->outs[0]), n->data.bytes,
					  n->data.n, d);
	for (uint32_t i = 0; i < n->nargs; i++)
		args[i] = copy_arg(to, from, &n->args[i], made);
	return stx_graph_call(to, n->op, name, args, n->nargs, d);
}

struct stx_graph *gen_shuffled(struct stx_arena *a, const struct stx_graph *g, uint64_t *seed)
{
	struct stx_graph *to = stx_graph_new(a);
	struct stx_node **made = STX_NEW_ARRAY(a, struct stx_node *, g->nodes.n);
	struct stx_diag d = { 0 };
	uint32_t left = g->nodes.n - g->inputs.n;
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_node *n = g->inputs.at[i].node;
		stx_ex strides[STX_MAX_DIMS];
		for (int k = 0; g->inputs.at[i].strides && k < n->outs[0].rank; k++) {
			int64_t v;
			stx_ex_is_const(g->ex, g->inputs.at[i].strides[k], &v);
			strides[k] = stx_ex_const(to->ex, v);
		}
		made[n->id] = stx_graph_input(
			to, stx_arena_printf(a, "in_%u", n->id), copy_type(to, g, &n->outs[0]),
			g->inputs.at[i].strides ? strides : NULL, n->is_param, &d);
	}
	while (left) {
		struct stx_node *n = g->nodes.at[gen_pick(seed, (int)g->nodes.n)];
		if (made[n->id] || !ready(g, n, made))
			continue;
		if (!(made[n->id] = copy_node(to, g, n, made, &d)))
			die("gen_shuffled", &d);
		left--;
	}
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		struct stx_val v = g->outputs.at[i].val;
		stx_graph_output(to, stx_val(made[v.node->id], v.out), "result", &d);
	}
	if (stx_graph_verify(to, &d))
		die("gen_shuffled", &d);
	return to;
}
