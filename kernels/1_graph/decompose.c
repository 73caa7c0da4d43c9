/* decompose.c: the engine that applies decomposition tables, and the builder of their rules.
 * requires: a verified graph. ensures: the same results, types included; no node of the table's
 * operators left (except those a rule keeps); dead nodes removed. Ends: rounds are limited, so that
 * a cyclic table is reported instead of followed. Linear in the size of the result. DF-01, DF-02.
 */
#include "decompose.h"

#include <assert.h>

#include "elementary.h"

#include "infer.h"
#include "passes.h"

#define MAX_ROUNDS 32 /* the longest chain of rules is far below this */

/* ---- builder ---- */

stx_err stx__b_fail(struct stx__build *b, stx_err e, const char *text)
{
	if (!b->err)
		b->err = stx_fail(b->d, e, "decompose", b->n->name, "%s: %s",
				  stx_op_info(b->n->op)->overload, text);
	return b->err;
}

struct stx_val stx__b_call(struct stx__build *b, enum stx_op op, uint32_t nargs,
			   const struct stx_arg *args)
{
	if (b->err)
		return stx_val(NULL, 0);
	struct stx_node *n = stx_graph_call(b->g, op, NULL, args, nargs, b->d);
	if (!n) {
		b->err = b->d->code ? b->d->code : STX_E_INTERNAL;
		return stx_val(NULL, 0);
	}
	n->origin = b->n->origin;
	return stx_val(n, 0);
}

struct stx_val stx__b_one(struct stx__build *b, enum stx_op op, struct stx_val x)
{
	struct stx_arg a = stx_arg_tensor(x);
	return stx__b_call(b, op, 1, &a);
}

struct stx_val stx__b_short(struct stx__build *b, const struct stx_node *n, enum stx_op op,
			    struct stx_val x)
{
	int is_short = stx_elementary_is_short(n->outs[0].dtype);
	assert(op == STX_OP_EXP || op == STX_OP_SIGMOID);
	if (is_short)
		op = op == STX_OP_EXP ? STX_OP_SHORT_EXP : STX_OP_SHORT_SIGMOID;
	return stx__b_one(b, op, x);
}

struct stx_val stx__b_two(struct stx__build *b, enum stx_op op, struct stx_val x, struct stx_val y)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_tensor(y) };
	return stx__b_call(b, op, 2, a);
}

struct stx_val stx__b_number(struct stx__build *b, enum stx_op op, struct stx_val x,
			     struct stx_arg s)
{
	struct stx_arg a[] = { stx_arg_tensor(x), s };
	return stx__b_call(b, op, 2, a);
}

struct stx_val stx__b_scalar(struct stx__build *b, enum stx_op op, struct stx_val x, double s)
{
	return stx__b_number(b, op, x, stx_arg_scalar_f(s));
}

struct stx_val stx__b_where(struct stx__build *b, struct stx_val c, struct stx_val x,
			    struct stx_val y)
{
	struct stx_arg a[] = { stx_arg_tensor(c), stx_arg_tensor(x), stx_arg_tensor(y) };
	return stx__b_call(b, STX_OP_WHERE, 3, a);
}

struct stx_val stx__b_cast(struct stx__build *b, struct stx_val x, enum stx_dtype t)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_dtype(t) };
	if (b->err || stx_val_type(x)->dtype == t)
		return x;
	return stx__b_call(b, STX_OP_TO_COPY, 2, a);
}

static struct stx_val with_sizes(struct stx__build *b, enum stx_op op, struct stx_val x,
				 uint32_t rank, const stx_ex *sizes)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_exs(b->g, sizes, rank) };
	return stx__b_call(b, op, 2, a);
}

struct stx_val stx__b_view(struct stx__build *b, struct stx_val x, uint32_t rank,
			   const stx_ex *sizes)
{
	return with_sizes(b, STX_OP_VIEW, x, rank, sizes);
}

struct stx_val stx__b_expand(struct stx__build *b, struct stx_val x, uint32_t rank,
			     const stx_ex *sizes)
{
	return with_sizes(b, STX_OP_EXPAND, x, rank, sizes);
}

struct stx_val stx__b_swap(struct stx__build *b, struct stx_val x, uint32_t i, uint32_t j)
{
	int64_t dims[STX_MAX_DIMS];
	if (b->err)
		return x;
	uint32_t rank = stx_val_type(x)->rank;
	for (uint32_t k = 0; k < rank; k++)
		dims[k] = k == i ? j : k == j ? i : k;
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_ints(b->g, dims, rank) };
	return stx__b_call(b, STX_OP_PERMUTE, 2, a);
}

static struct stx_arg set_arg(struct stx_graph *g, uint32_t set)
{
	int64_t v[STX_MAX_DIMS];
	uint32_t n = 0;
	for (uint32_t i = 0; i < STX_MAX_DIMS; i++)
		if (set & 1u << i)
			v[n++] = i;
	return stx_arg_ints(g, v, n);
}

struct stx_val stx__b_sum(struct stx__build *b, struct stx_val x, uint32_t set, int keepdim,
			  enum stx_dtype t)
{
	struct stx_arg a[] = { stx_arg_tensor(x), set_arg(b->g, set), stx_arg_bool(keepdim),
			       stx_arg_dtype(t) };
	return stx__b_call(b, STX_OP_SUM_DIM, 4, a);
}

struct stx_val stx__b_amax(struct stx__build *b, struct stx_val x, uint32_t set, int keepdim)
{
	struct stx_arg a[] = { stx_arg_tensor(x), set_arg(b->g, set), stx_arg_bool(keepdim) };
	return stx__b_call(b, STX_OP_AMAX, 3, a);
}

struct stx_val stx__b_full(struct stx__build *b, uint32_t rank, const stx_ex *sizes,
			   struct stx_arg value, enum stx_dtype t)
{
	struct stx_arg a[] = { stx_arg_exs(b->g, sizes, rank), value, stx_arg_dtype(t) };
	return stx__b_call(b, STX_OP_FULL, 3, a);
}

struct stx_val stx__b_arange(struct stx__build *b, int64_t n)
{
	struct stx_arg a[] = { stx_arg_scalar_i(0), stx_arg_scalar_i(n), stx_arg_scalar_i(1),
			       stx_arg_dtype(STX_I64) };
	return stx__b_call(b, STX_OP_ARANGE, 4, a);
}

struct stx_val stx__b_constant(struct stx__build *b, enum stx_dtype t, uint32_t rank,
			       const int64_t *sizes, const void *bytes, size_t n)
{
	if (b->err)
		return stx_val(NULL, 0);
	struct stx_node *c = stx_graph_constant(
		b->g, NULL, stx_type_make(b->g, t, (int)rank, sizes), bytes, n, b->d);
	if (!c)
		b->err = b->d->code ? b->d->code : STX_E_TOO_LARGE;
	return stx_val(c, 0);
}

struct stx_val stx__b_index_select(struct stx__build *b, struct stx_val x, uint32_t dim,
				   struct stx_val index)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, dim), stx_arg_tensor(index) };
	return stx__b_call(b, STX_OP_INDEX_SELECT, 3, a);
}

struct stx_val stx__b_slice(struct stx__build *b, struct stx_val x, uint32_t dim, int64_t start,
			    int64_t end, int64_t step)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, dim), stx_arg_int(b->g, start),
			       stx_arg_int(b->g, end), stx_arg_int(b->g, step) };
	return stx__b_call(b, STX_OP_SLICE, 5, a);
}

struct stx_val stx__b_unsqueeze(struct stx__build *b, struct stx_val x, uint32_t dim)
{
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(b->g, dim) };
	return stx__b_call(b, STX_OP_UNSQUEEZE, 2, a);
}

enum stx_dtype stx__wide(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4 ? STX_F32 : t;
}

int stx__b_count(struct stx__build *b, const struct stx_type *t, uint32_t set, double *count)
{
	double n = 1;
	for (uint32_t i = 0; i < t->rank; i++) {
		int64_t s;
		if (!(set & 1u << i))
			continue;
		if (!stx_ex_is_const(b->g->ex, t->sizes[i], &s)) {
			stx__b_fail(b, STX_E_UNSUPPORTED, "the number of elements is symbolic");
			return 0;
		}
		n *= (double)s;
	}
	*count = n;
	return 1;
}

uint32_t stx__b_dims(struct stx__build *b, const struct stx_node *n, uint32_t i, int empty_is_all)
{
	uint32_t set = 0, rank = stx__infer_type(n, 0)->rank;
	stx_err e = stx__infer_dims(b->g, n, i, rank, empty_is_all, &set, b->d);
	if (e && !b->err)
		b->err = e;
	return set & ((1u << rank) - 1);
}

uint32_t stx__b_dim(struct stx__build *b, const struct stx_node *n, uint32_t i)
{
	uint32_t dim = 0, rank = stx__infer_type(n, 0)->rank;
	stx_err e = stx__infer_dim(b->g, n, n->args[i].u.ex, rank, &dim, b->d);
	if (e && !b->err)
		b->err = e;
	return (1u << dim) & ((1u << rank) - 1);
}

/* ---- engine ---- */

/* Runs the rule of n: 1 kept, 0 replaced by repl, or an error. */
static int apply(struct stx_graph *g, stx__rule_fn *rule, struct stx_node *n, struct stx_val **repl,
		 struct stx_diag *d)
{
	struct stx__build b = { .g = g, .n = n, .d = d };
	struct stx_val *out = STX_NEW_ARRAY(g->arena, struct stx_val, n->nouts ? n->nouts : 1);
	if (!out)
		return stx__over_budget("decompose", n->name, d);
	int kept = rule(&b, n, out);
	if (b.err)
		return b.err;
	if (kept)
		return 1;
	for (uint32_t i = 0; i < n->nouts; i++)
		if (!out[i].node || !stx_type_eq(stx_val_type(out[i]), &n->outs[i]))
			return stx_fail(d, STX_E_INTERNAL, "decompose", n->name,
					"the decomposition of %s changes the type of its result",
					stx_op_info(n->op)->overload);
	*repl = out;
	return 0;
}

/* One walk over the nodes. *changed: some node was replaced. */
static stx_err round_of(struct stx_graph *g, stx__rule_fn *const *table, int *changed,
			struct stx_diag *d)
{
	struct stx__rewrite w;
	stx_err e = stx__rewrite_begin(&w, g, d);
	*changed = 0;
	for (uint32_t i = 0; !e && i < w.n; i++) {
		struct stx_node *n = w.old[i];
		struct stx_val *results = NULL;
		stx__rewrite_operands(&w, n);
		int kept = table[n->op] ? apply(g, table[n->op], n, &results, d) : 1;
		if (kept < 0)
			return kept;
		*changed |= !kept;
		if (kept)
			e = stx__rewrite_keep(&w, n, d);
		else
			stx__rewrite_replace(&w, i, results);
	}
	if (!e)
		stx__rewrite_end(&w);
	return e;
}

static const struct stx_node *has_rule(const struct stx_graph *g, stx__rule_fn *const *table)
{
	for (uint32_t i = 0; i < g->nodes.n; i++)
		if (table[g->nodes.at[i]->op])
			return g->nodes.at[i];
	return NULL;
}

stx_err stx__decompose(struct stx_graph *g, stx__rule_fn *const *table, struct stx_diag *d)
{
	struct stx_diag own = { 0 };
	const struct stx_node *n;
	int changed = 1, rounds = 0;
	d = d ? d : &own;
	while (changed && (n = has_rule(g, table))) {
		if (rounds++ == MAX_ROUNDS)
			return stx_fail(
				d, STX_E_INTERNAL, "decompose", n->name,
				"the decomposition of %s does not end: the table has a cycle",
				stx_op_info(n->op)->overload);
		stx_err e = round_of(g, table, &changed, d);
		if (e)
			return e;
	}
	return stx__graph_sweep(g, d);
}

stx_err stx_graph_decompose_to_basis(struct stx_graph **g, struct stx_diag *d)
{
	return stx__decompose(*g, stx__basis_rules, d);
}

stx_err stx_graph_decompose_to_primitives(struct stx_graph **g, struct stx_diag *d)
{
	return stx__decompose(*g, stx__primitive_rules, d);
}
