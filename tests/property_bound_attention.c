/* property_bound_attention.c: how far results of attention may lie from the oracle's, as nodes of its
 * graph.
 *
 * A weight exp(s - top) is off by the error of its score, d = (e + 4) u sum|q k| scale + 2 u |s|, by
 * that of the differences, u |s - top| each, of the exponentials and, in one pass over the keys, of
 * one more exponential and product for each block of keys: eps = d + u (2 |s - top| + 6 + 4 blocks),
 * to first order. With p the weights, v the values, the quotient of the two sums is off by
 *   sum p eps |v| + (sum p |v|) (sum p eps) + (2 keys + 4 blocks + 8) u sum p |v|.
 * A weight below the least number of the type is lost: |v| times that. Not compared where the first
 * order is not enough, where finite scores may leave the range, and where a weight that may underflow
 * meets a value that is not finite. */
#include "property_bound.h"

#include <math.h>

struct attention {
	struct stx_graph *g;
	const struct stx_node *n;
	double u, keys, size;
	node q, k, v;               /* f64, keys and values for every head of the queries */
	node scores, sizes, finite; /* finite: sizes of what is finite of them */
};

static node in_f64(struct attention *a, uint32_t i)
{
	return CALL(a->g, TO_COPY, a->n->args[i], stx_arg_dtype(STX_F64));
}

static int64_t const_of(const struct attention *a, stx_ex e)
{
	int64_t v = 0;
	stx_ex_is_const(a->g->ex, e, &v);
	return v;
}

/* [.., h, s, e] with each head as often as there are heads of queries for it. */
static node of_all_heads(struct attention *a, node x, int64_t heads)
{
	const struct stx_type *t = &x->outs[0];
	int64_t s[STX_MAX_DIMS + 1];
	uint32_t rank = t->rank, h = rank - 3u;
	if (!a->n->args[7].u.i)
		return x;
	for (uint32_t i = 0; i < rank; i++)
		s[i <= h ? i : i + 1] = const_of(a, t->sizes[i]);
	int64_t times = heads / s[h], have = s[h];
	s[h + 1] = 1;
	x = CALL(a->g, VIEW, T(x), stx_arg_ints(a->g, s, rank + 1));
	s[h + 1] = times;
	x = CALL(a->g, EXPAND, T(x), stx_arg_ints(a->g, s, rank + 1));
	s[h] = have * times;
	for (uint32_t i = h + 1; i < rank; i++)
		s[i] = s[i + 1];
	return CALL(a->g, VIEW, T(CALL(a->g, CLONE, T(x))), stx_arg_ints(a->g, s, rank));
}

static node like(struct attention *a, node x, double v)
{
	return CALL(a->g, FULL_LIKE, T(x), F(v));
}

static node times(struct attention *a, node x, double v)
{
	return CALL(a->g, MUL_SCALAR, T(x), F(v));
}

static node turned(struct attention *a, node x)
{
	return CALL(a->g, TRANSPOSE, T(x), stx_arg_int(a->g, -2), stx_arg_int(a->g, -1));
}

/* |x|, 0 where it is not finite. */
static node finite_size(struct attention *a, node x)
{
	x = CALL(a->g, ABS, T(x));
	return CALL(a->g, WHERE, T(CALL(a->g, LT_SCALAR, T(x), F(INFINITY))), T(x),
		    T(like(a, x, 0)));
}

/* Scores as the operator defines them, and the sizes of what they are sums of. */
static void make_scores(struct attention *a, double scale)
{
	node never = NULL;
	a->scores = times(a, CALL(a->g, MATMUL, T(a->q), T(turned(a, a->k))), scale);
	a->sizes = times(a,
			 CALL(a->g, MATMUL, T(CALL(a->g, ABS, T(a->q))),
			      T(turned(a, CALL(a->g, ABS, T(a->k))))),
			 fabs(scale) * (a->size + 4));
	a->finite = times(
		a, CALL(a->g, MATMUL, T(finite_size(a, a->q)), T(turned(a, finite_size(a, a->k)))),
		fmax(fabs(scale), 1));
	if (a->n->args[5].u.i) {
		int64_t rows = const_of(a, a->q->outs[0].sizes[a->q->outs[0].rank - 2]);
		node key = CALL(a->g, ARANGE, stx_arg_scalar_i(0),
				stx_arg_scalar_i((int64_t)a->keys), stx_arg_scalar_i(1),
				stx_arg_dtype(STX_I64)),
		     row = CALL(a->g, ARANGE, stx_arg_scalar_i(0), stx_arg_scalar_i(rows),
				stx_arg_scalar_i(1), stx_arg_dtype(STX_I64));
		row = CALL(a->g, UNSQUEEZE, T(row), stx_arg_int(a->g, 1));
		never = CALL(a->g, GT, T(key), T(row));
	} else if (a->n->args[3].kind == STX_ARG_TENSOR) {
		if (stx_val_type(a->n->args[3].u.tensor)->dtype == STX_BOOL)
			never = CALL(a->g, LOGICAL_NOT, a->n->args[3]);
		else
			a->scores = CALL(a->g, ADD, T(a->scores), T(in_f64(a, 3)));
	}
	if (!never)
		return;
	a->scores = CALL(a->g, WHERE, T(never), T(like(a, a->scores, -INFINITY)), T(a->scores));
	a->sizes = CALL(a->g, WHERE, T(never), T(like(a, a->sizes, 0)), T(a->sizes));
	a->finite = CALL(a->g, WHERE, T(never), T(like(a, a->finite, 0)), T(a->finite));
}

static struct stx_arg last(struct attention *a)
{
	return stx_arg_ints(a->g, (int64_t[]){ -1 }, 1);
}

/* eps of every weight; 0 where the weight is. */
static node of_weights(struct attention *a, node p)
{
	double blocks = ceil(a->keys / 64);
	node top = CALL(a->g, AMAX, T(a->scores), last(a), stx_arg_bool(1));
	node away = CALL(a->g, ABS, T(CALL(a->g, SUB, T(a->scores), T(top))));
	node e = CALL(a->g, ADD, T(a->sizes), T(times(a, CALL(a->g, ABS, T(a->scores)), 2)));
	e = CALL(a->g, ADD, T(e), T(times(a, away, 2)));
	e = times(a, CALL(a->g, ADD_SCALAR, T(e), F(6 + 4 * blocks)), a->u);
	node none = CALL(a->g, EQ_SCALAR, T(p), F(0));
	return CALL(a->g, WHERE, T(none), T(like(a, e, 0)), T(e));
}

/* bool, over rows: the bound says nothing. */
static node vague(struct attention *a, node p, node pe, int wide)
{
	double top = wide ? 0x1p1000 : 0x1p120, least = wide ? 0x1p-1000 : 0x1p-120;
	node far = CALL(a->g, AMAX, T(a->finite), last(a), stx_arg_bool(1));
	node over = CALL(a->g, GT_SCALAR, T(far), F(top));
	node wrong = CALL(a->g, GT_SCALAR, T(pe), F(0.02));
	node some = CALL(a->g, LOGICAL_AND, T(CALL(a->g, GT_SCALAR, T(p), F(0))),
			 T(CALL(a->g, LT_SCALAR, T(p), F(least))));
	node zero = times(a, a->v, 0);
	node wild = CALL(a->g, ISNAN, T(zero));
	node meets = CALL(a->g, MATMUL, T(CALL(a->g, TO_COPY, T(some), stx_arg_dtype(STX_F64))),
			  T(CALL(a->g, TO_COPY, T(wild), stx_arg_dtype(STX_F64))));
	wrong = CALL(a->g, LOGICAL_OR, T(wrong), T(over));
	return CALL(a->g, LOGICAL_OR, T(wrong), T(CALL(a->g, GT_SCALAR, T(meets), F(0))));
}

node prop_bound_attention(struct stx_graph *g, const struct stx_node *n)
{
	struct attention a = { .g = g, .n = n };
	const struct stx_type *q = stx_val_type(n->args[0].u.tensor),
			      *k = stx_val_type(n->args[1].u.tensor);
	int wide = n->outs[0].dtype == STX_F64;
	int64_t heads = q->rank > 2 ? const_of(&a, q->sizes[q->rank - 3]) : 1;
	a.u = wide ? 0x1p-53 : 0x1p-24;
	a.size = (double)const_of(&a, q->sizes[q->rank - 1]);
	a.keys = (double)const_of(&a, k->sizes[k->rank - 2]);
	a.q = in_f64(&a, 0);
	a.k = of_all_heads(&a, in_f64(&a, 1), heads);
	a.v = of_all_heads(&a, in_f64(&a, 2), heads);
	if (a.keys == 0)
		return like(&a, CALL(g, TO_COPY, T((node)(uintptr_t)n), stx_arg_dtype(STX_F64)), 0);
	make_scores(&a, n->args[6].kind == STX_ARG_FLOAT ? n->args[6].u.f : 1 / sqrt(a.size));
	node p = CALL(g, SAFE_SOFTMAX, T(a.scores), stx_arg_int(g, -1)), v = CALL(g, ABS, T(a.v));
	node pe = CALL(g, MUL, T(p), T(of_weights(&a, p)));
	node sum = CALL(g, SUM_DIM, T(pe), last(&a), stx_arg_bool(1));
	node pv = CALL(g, MATMUL, T(p), T(v));
	node t = CALL(g, MATMUL, T(pe), T(v));
	t = CALL(g, ADD, T(t), T(CALL(g, MUL, T(pv), T(sum))));
	t = CALL(g, ADD, T(t), T(times(&a, pv, (2 * a.keys + 4 * ceil(a.keys / 64) + 8) * a.u)));
	node all = CALL(g, SUM_DIM, T(v), stx_arg_ints(g, (int64_t[]){ -2 }, 1), stx_arg_bool(1));
	t = CALL(g, ADD, T(times(&a, t, 1.1)), T(times(&a, all, wide ? 0x1p-1060 : 0x1p-140)));
	return CALL(g, WHERE, T(vague(&a, p, sum, wide)), T(like(&a, t, -INFINITY)), T(t));
}
