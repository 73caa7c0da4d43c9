/* attend.c: products of softmax weights with a value become one pass over the keys (_attend), where
 * the scores are pointwise work on a matrix product that nothing else reads.
 *
 *	s = mm | bmm; x = pointwise work and views of s
 *	p = exp(x - amax(x)) / sum(exp(x - amax(x)))        over the last dimension
 *	p = where(all(x == -inf), 0, p)                      or not
 *	mm | bmm(views of p, v)
 *
 * requires: a verified graph over the basis, simplified (the first step of lowering). ensures: the
 * same results in another order of the same sums: class TOL (SE-12, AT-03). In strict nothing may
 * be rounded between the softmax and the product: the weights are f32 or f64. Every node is tried
 * once; a walk back from the scores is bounded: linear. */
#include <math.h>
#include <string.h>

#include "graph_internal.h"
#include "passes.h"

#define FEW_ROWS   8   /* queries: fewer waste the lanes they are put in */
#define FEW_KEYS   12  /* fewer are added in another order by the product alone */
#define MOST_COLS  512 /* of value: a block of results stays in the second cache */
#define MOST_NODES 256 /* between scores and softmax */

struct match {                        /* of a node */
	struct stx_val scores, value; /* of a product that is replaced; else no nodes */
	uint8_t safe;
	uint8_t rounded; /* 1: dtype is what follows it, by views, is rounded to */
	uint8_t moves;   /* one of these views: made again in its operand's type */
	uint8_t goes;    /* that rounding */
	uint8_t stays;   /* scores of another product: not such a rounding */
	enum stx_dtype dtype;
};

struct finder {
	const struct stx_graph *g;
	const uint32_t *users;
	uint32_t *seen; /* [nodes.n] number of the walk */
	uint32_t walk;
	int fast;
};

static struct stx_val operand(const struct stx_node *n, uint32_t i)
{
	return n->args[i].u.tensor;
}

static int is_one_of(const struct finder *f, struct stx_val v, enum stx_op op, uint32_t users)
{
	return v.node->op == op && f->users[v.node->id] == users;
}

/* Reduces v's last dimension, kept as size 1. */
static int is_over_rows(const struct finder *f, const struct stx_node *n)
{
	const struct stx_type *t = stx_val_type(operand(n, 0));
	const struct stx_arg *dims = &n->args[1];
	int64_t dim;
	return dims->kind == STX_ARG_INTS && dims->n == 1 && n->args[2].u.i && t->rank &&
	       stx_ex_is_const(f->g->ex, dims->u.exs[0], &dim) && (dim == -1 || dim == t->rank - 1);
}

static int is_same(struct stx_val a, struct stx_val b)
{
	return a.node == b.node && a.out == b.out;
}

static int is_number(struct stx_val v, double x)
{
	return v.node->op == STX_OP_FULL &&
	       (v.node->args[1].is_float ? v.node->args[1].u.f == x
					 : (double)v.node->args[1].u.i == x);
}

static int is_plain(const struct stx_node *n) /* a sum or difference: alpha is 1 */
{
	return !n->args[2].is_float && n->args[2].u.i == 1;
}

/* top is amax(x), s the sum of e, which is exp(x - top), over rows. */
static int is_two_passes(const struct finder *f, struct stx_val x, struct stx_val top,
			 struct stx_val s, struct stx_val e)
{
	return is_one_of(f, top, STX_OP_AMAX, 1) && is_same(operand(top.node, 0), x) &&
	       is_over_rows(f, top.node) && is_one_of(f, s, STX_OP_SUM_DIM, 1) &&
	       is_same(operand(s.node, 0), e) && is_over_rows(f, s.node) &&
	       f->users[e.node->id] == 2;
}

/* The same of long rows, by pairs: s is their sum + (top - top). */
static int is_one_pass(const struct finder *f, struct stx_val x, struct stx_val top,
		       struct stx_val s, struct stx_val e)
{
	if (!is_one_of(f, s, STX_OP_ADD, 1) || !is_plain(s.node) || f->users[e.node->id] != 1)
		return 0;
	struct stx_val zero = operand(s.node, 1);
	return is_one_of(f, top, STX_OP_ONLINE_SOFTMAX, 3) && top.out == 0 &&
	       is_same(operand(top.node, 0), x) && is_over_rows(f, top.node) &&
	       is_same(operand(s.node, 0), stx_val(top.node, 1)) &&
	       is_one_of(f, zero, STX_OP_SUB, 1) && is_plain(zero.node) &&
	       is_same(operand(zero.node, 0), top) && is_same(operand(zero.node, 1), top);
}

/* p = exp(x - amax(x)) / sum of that; *x. */
static int is_softmax(const struct finder *f, struct stx_val p, struct stx_val *x)
{
	if (!is_one_of(f, p, STX_OP_DIV, 1) && !(f->fast && is_one_of(f, p, STX_OP_SHORT_DIV, 1)))
		return 0;
	struct stx_val e = operand(p.node, 0), s = operand(p.node, 1);
	if (e.node->op != STX_OP_EXP && !(f->fast && e.node->op == STX_OP_SHORT_EXP))
		return 0;
	struct stx_val d = operand(e.node, 0);
	if (!is_one_of(f, d, STX_OP_SUB, 1) || !is_plain(d.node))
		return 0;
	struct stx_val top = operand(d.node, 1);
	*x = operand(d.node, 0);
	enum stx_dtype t = stx_val_type(*x)->dtype;
	return (is_two_passes(f, *x, top, s, e) || is_one_pass(f, *x, top, s, e)) &&
	       stx_val_type(p)->dtype == t && stx_val_type(s)->dtype == t &&
	       (t == STX_F32 || t == STX_F64);
}

static int is_as_large(struct stx_val a, struct stx_val b)
{
	const struct stx_type *p = stx_val_type(a), *q = stx_val_type(b);
	return p->rank == q->rank && !memcmp(p->sizes, q->sizes, p->rank * sizeof *p->sizes);
}

/* c is all(x == -inf) over rows. */
static int is_empty_row(const struct finder *f, struct stx_val c, struct stx_val x)
{
	if (!is_one_of(f, c, STX_OP_ALL_DIM, 1) || !is_over_rows(f, c.node) ||
	    !is_as_large(operand(c.node, 0), x))
		return 0;
	struct stx_val q = operand(c.node, 0);
	if (is_one_of(f, q, STX_OP_EQ_SCALAR, 1))
		return is_same(operand(q.node, 0), x) && q.node->args[1].is_float &&
		       q.node->args[1].u.f == -INFINITY;
	return is_one_of(f, q, STX_OP_EQ, 1) && is_same(operand(q.node, 0), x) &&
	       is_number(operand(q.node, 1), -INFINITY);
}

/* v has the same matrices in the same order as x. */
static int same_matrices(const struct finder *f, struct stx_val v, struct stx_val x)
{
	const struct stx_type *p = stx_val_type(v), *q = stx_val_type(x);
	stx_ex n = stx_ex_const(f->g->ex, 1), m = n;
	if (p->rank < 2 || q->rank < 2 ||
	    memcmp(p->sizes + p->rank - 2, q->sizes + q->rank - 2, 2 * sizeof *p->sizes))
		return 0;
	for (uint32_t i = 0; i < p->rank; i++)
		n = stx_ex_mul(f->g->ex, n, p->sizes[i]);
	for (uint32_t i = 0; i < q->rank; i++)
		m = stx_ex_mul(f->g->ex, m, q->sizes[i]);
	return n == m && n != STX_EX_BAD;
}

static int is_view(enum stx_op op)
{
	return op == STX_OP_VIEW || op == STX_OP_EXPAND || op == STX_OP_UNSQUEEZE ||
	       op == STX_OP_SQUEEZE || op == STX_OP_CLONE;
}

/* Behind views of whole matrices; fast: and roundings of the weights. */
static struct stx_val behind_views(const struct finder *f, struct stx_val v)
{
	for (uint32_t i = 0; i < MOST_NODES && f->users[v.node->id] == 1; i++) {
		const struct stx_node *n = v.node;
		if (!(is_view(n->op) && same_matrices(f, v, operand(n, 0))) &&
		    !(f->fast && n->op == STX_OP_TO_COPY && stx_dtype_is_float(n->outs[0].dtype)))
			break;
		v = operand(n, 0);
	}
	return v;
}

static int is_product(const struct finder *f, const struct stx_node *n, struct stx_val x)
{
	return (n->op == STX_OP_MM || n->op == STX_OP_BMM) &&
	       (n == x.node || f->users[n->id] == 1) &&
	       same_matrices(f, stx_val((struct stx_node *)(uintptr_t)n, 0), x);
}

/* x, whose users are known, is a product, or pointwise work and views of one that nothing else
 * reads. */
static int is_of_product(struct finder *f, struct stx_val x)
{
	const struct stx_node *stack[MOST_NODES];
	uint32_t n = 0, visited = 0;
	if (is_product(f, x.node, x))
		return 1;
	f->walk++;
	stack[n++] = x.node;
	while (n) {
		const struct stx_node *at = stack[--n];
		struct stx__cursor c = { 0 };
		enum stx_op_category cat = stx_op_info(at->op)->category;
		if (++visited > MOST_NODES || (cat != STX_CAT_POINTWISE && cat != STX_CAT_VIEW))
			continue;
		for (struct stx_val *v; (v = stx__next_operand(at, &c));) {
			if (is_product(f, v->node, x))
				return 1;
			if (f->users[v->node->id] != 1 || f->seen[v->node->id] == f->walk ||
			    n == MOST_NODES)
				continue;
			f->seen[v->node->id] = f->walk;
			stack[n++] = v->node;
		}
	}
	return 0;
}

static int fits(const struct finder *f, const struct stx_node *n)
{
	const struct stx_type *p = stx_val_type(operand(n, 0)), *v = stx_val_type(operand(n, 1));
	int64_t rows, keys, cols;
	return stx_ex_is_const(f->g->ex, p->sizes[p->rank - 2], &rows) && rows >= FEW_ROWS &&
	       stx_ex_is_const(f->g->ex, p->sizes[p->rank - 1], &keys) && keys >= FEW_KEYS &&
	       stx_ex_is_const(f->g->ex, v->sizes[v->rank - 1], &cols) && cols >= 1 &&
	       cols <= MOST_COLS;
}

static int find(struct finder *f, const struct stx_node *n, struct match *m)
{
	if ((n->op != STX_OP_MM && n->op != STX_OP_BMM) || !fits(f, n))
		return 0;
	struct stx_val p = behind_views(f, operand(n, 0)), x, none = stx_val(NULL, 0);
	if (is_one_of(f, p, STX_OP_WHERE, 1) && is_number(operand(p.node, 1), 0) &&
	    is_as_large(p, operand(p.node, 2))) {
		none = operand(p.node, 0);
		p = operand(p.node, 2);
	}
	if (!is_softmax(f, p, &x) || (none.node && !is_empty_row(f, none, x)) ||
	    f->users[x.node->id] != (none.node ? 3u : 2u) || !is_of_product(f, x))
		return 0;
	*m = (struct match){ .scores = x, .value = operand(n, 1), .safe = none.node != NULL };
	return 1;
}

static struct stx_val call(struct stx_graph *g, const struct stx_node *like, enum stx_op op,
			   const struct stx_arg *args, uint32_t n, struct stx_diag *d)
{
	struct stx_node *made = stx_graph_call(g, op, NULL, args, n, d);
	if (made)
		made->origin = like->origin;
	return stx_val(made, 0);
}

static struct stx_val as_type(struct stx_graph *g, const struct stx_node *n, struct stx_val v,
			      enum stx_dtype t, struct stx_diag *d)
{
	struct stx_arg a[2] = { stx_arg_tensor(v), stx_arg_dtype(t) };
	return stx_val_type(v)->dtype == t ? v : call(g, n, STX_OP_TO_COPY, a, 2, d);
}

/* n rounds the result of a replaced product, which nothing else reads, perhaps behind views: the
 * product rounds it. */
static void find_rounding(const struct finder *f, const struct stx_node *n, struct match *m)
{
	const struct stx_node *chain[MOST_NODES];
	uint32_t len = 0;
	if (n->op != STX_OP_TO_COPY || !stx_dtype_is_float(n->outs[0].dtype) || m[n->id].stays)
		return;
	const struct stx_node *at = operand(n, 0).node;
	while (is_view(at->op) && f->users[at->id] == 1 && len < MOST_NODES) {
		chain[len++] = at;
		at = operand(at, 0).node;
	}
	struct match *p = &m[at->id];
	if (!p->value.node || f->users[at->id] != 1 ||
	    stx_dtype_bytes(n->outs[0].dtype) > stx_dtype_bytes(at->outs[0].dtype))
		return;
	p->rounded = 1;
	p->dtype = n->outs[0].dtype;
	while (len)
		m[chain[--len]->id].moves = 1;
	m[n->id].goes = 1;
}

/* What n becomes; no node: an error in d. */
static struct stx_val build(struct stx_graph *g, const struct stx_node *n, struct match m,
			    struct stx_diag *d)
{
	const struct stx_type *p = stx_val_type(operand(n, 0));
	struct stx_arg view[2] = { stx_arg_tensor(m.scores), stx_arg_exs(g, p->sizes, p->rank) };
	if (!is_as_large(m.scores, operand(n, 0)))
		m.scores = call(g, n, STX_OP_VIEW, view, 2, d);
	if (!m.scores.node)
		return m.scores;
	m.value = as_type(g, n, m.value, stx_val_type(m.scores)->dtype, d);
	if (!m.value.node)
		return m.value;
	struct stx_arg a[4] = { stx_arg_tensor(m.scores), stx_arg_tensor(m.value),
				stx_arg_bool(m.safe),
				stx_arg_dtype(m.rounded ? m.dtype : n->outs[0].dtype) };
	return call(g, n, STX_OP_ATTEND, a, 4, d);
}

/* What replaces n, whose operands are up to date; no node: an error in d. */
static struct stx_val replacement(struct stx_graph *g, const struct stx_node *n,
				  const struct match *m, struct stx_diag *d)
{
	/* the scores stand before their product and were replaced by nothing themselves */
	struct match now = *m;
	if (m->goes)
		return operand(n, 0);
	if (m->moves)
		return call(g, n, n->op, n->args, n->nargs, d);
	now.value = operand(n, 1);
	return build(g, n, now, d);
}

static stx_err rewrite(struct stx_graph *g, const struct match *m, struct stx_diag *d)
{
	struct stx__rewrite w;
	stx_err e = stx__rewrite_begin(&w, g, d);
	for (uint32_t i = 0; !e && i < w.n; i++) {
		struct stx_node *n = w.old[i];
		stx__rewrite_operands(&w, n);
		if (!m[i].value.node && !m[i].moves && !m[i].goes) {
			e = stx__rewrite_keep(&w, n, d);
			continue;
		}
		struct stx_val *out = STX_NEW(g->arena, struct stx_val);
		if (!out)
			return stx__over_budget("attend", n->name, d);
		*out = replacement(g, n, &m[i], d);
		if (!out->node)
			return d->code ? d->code : STX_E_INTERNAL;
		stx__rewrite_replace(&w, i, out);
	}
	if (e)
		return e;
	stx__rewrite_end(&w);
	return stx__graph_sweep(g, d);
}

stx_err stx_graph_attend(struct stx_graph *g, int fast, struct stx_diag *d)
{
	struct stx_arena *a = stx__scratch_arena(g);
	struct finder f = { .g = g, .fast = fast };
	stx_err e = 0;
	uint32_t found = 0;
	if (!a)
		return stx__over_budget("attend", "", d);
	struct match *m = STX_NEW_ARRAY(a, struct match, g->nodes.n + 1);
	f.users = stx_graph_users(g, a);
	f.seen = STX_NEW_ARRAY(a, uint32_t, g->nodes.n + 1);
	if (!m || !f.users || !f.seen)
		e = stx__over_budget("attend", "", d);
	for (uint32_t i = 0; !e && i < g->nodes.n; i++) {
		if (!find(&f, g->nodes.at[i], &m[i]))
			continue;
		struct match *s = &m[m[i].scores.node->id];
		if (s->value.node) { /* replaced itself */
			memset(&m[i], 0, sizeof m[i]);
			continue;
		}
		s->stays = 1;
		found++;
	}
	for (uint32_t i = 0; !e && found && i < g->nodes.n; i++)
		find_rounding(&f, g->nodes.at[i], m);
	if (!e && found)
		e = rewrite(g, m, d);
	stx_arena_free(a);
	return e;
}
