/* cudnn_attention.c: graphs of products, reductions and pointwise operations, evaluated one after the
 * other on the host, each result rounded to its tensor's type. Of them the heuristics know what the
 * library's fused engines know: two products, a softmax between them, spelt out, with the logarithm
 * of its sums. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn_desc.h"
#include "dtype.h"
#include "scalar.h"

enum {
	ADD = 0,
	MUL = 1,
	DIV = 6,
	SUB = 9,
	EXP = 13,
	LOG = 15,
	GE = 303,
	INDEX = 501,
	SELECT = 601
};
#define RANK 4

int fake_is_attention(const struct desc *graph)
{
	return fake_child(graph, 801, 0)->type == D_MATMUL_OP;
}

/* ---- what is refused ---- */

static int is_tensor(const struct desc *op, int name, int needed)
{
	const struct desc *t = fake_child(op, name, 0);
	return t ? t->type == D_TENSOR : !needed;
}

int fake_check_matmul(const struct desc *op)
{
	if (!is_tensor(op, 1520, 1) || !is_tensor(op, 1521, 1) || !is_tensor(op, 1522, 1) ||
	    fake_child(op, 1523, 0)->type != D_MATMUL)
		return BAD_PARAM;
	struct fake_tensor a = fake_tensor_of(fake_child(op, 1520, 0)),
			   b = fake_tensor_of(fake_child(op, 1521, 0)),
			   c = fake_tensor_of(fake_child(op, 1522, 0));
	if (a.rank != RANK || b.rank != RANK || c.rank != RANK || a.size[3] != b.size[2] ||
	    c.size[2] != a.size[2] || c.size[3] != b.size[3] || c.size[1] != a.size[1] ||
	    a.size[1] % b.size[1] || a.size[0] != b.size[0] || a.size[0] != c.size[0])
		return BAD_PARAM;
	return a.type == b.type && fake_i32(fake_child(op, 1523, 0), 1500) == 0 ? OK
										: NOT_SUPPORTED;
}

int fake_check_reduction(const struct desc *op)
{
	if (!is_tensor(op, 1610, 1) || !is_tensor(op, 1611, 1) ||
	    fake_child(op, 1612, 0)->type != D_REDUCTION)
		return BAD_PARAM;
	struct fake_tensor x = fake_tensor_of(fake_child(op, 1610, 0)),
			   y = fake_tensor_of(fake_child(op, 1611, 0));
	for (int i = 0; i < RANK; i++)
		if (y.size[i] != (i == 3 ? 1 : x.size[i]))
			return BAD_PARAM;
	return OK;
}

static int operands(int mode)
{
	return mode == EXP || mode == LOG || mode == INDEX ? 1 : mode == SELECT ? 3 : 2;
}

int fake_check_pointwise(const struct desc *op)
{
	const struct desc *p = fake_child(op, 750, 0);
	if (p->type != D_POINTWISE || !is_tensor(op, 751, 1) || !is_tensor(op, 752, 0) ||
	    !is_tensor(op, 753, 1) || !is_tensor(op, 758, 0))
		return BAD_PARAM;
	int n = operands(fake_i32(p, 0));
	return (fake_child(op, 752, 0) != NULL) == (n > 1) &&
			       (fake_child(op, 758, 0) != NULL) == (n > 2) &&
			       (fake_get(p, 9) != NULL) == (fake_i32(p, 0) == INDEX)
		       ? OK
		       : BAD_PARAM;
}

int fake_check_attention(const struct desc *graph)
{
	int products = 0, reductions = 0, logs = 0;
	int64_t n = fake_get(graph, 801)->n;
	if (!fake_child(graph, 800, 0))
		return NOT_SUPPORTED;
	for (int64_t i = 0; i < n; i++) {
		const struct desc *op = fake_child(graph, 801, (int)i);
		products += op->type == D_MATMUL_OP;
		reductions += op->type == D_REDUCTION_OP;
		logs += op->type == D_POINTWISE_OP && fake_i32(fake_child(op, 750, 0), 0) == LOG;
	}
	return products == 2 && reductions == 2 && logs == 1 &&
			       fake_child(graph, 801, (int)n - 1)->type == D_MATMUL_OP
		       ? OK
		       : NOT_SUPPORTED;
}

/* ---- values ---- */

struct value {
	struct fake_tensor t;
	double *at; /* dense */
	struct value *next;
};

struct evaluation {
	const struct desc *pack;
	struct value *all;
	int e;
};

static int64_t count(const struct fake_tensor *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++)
		n *= t->size[i];
	return n;
}

static double rounded(const struct fake_tensor *t, double v)
{
	enum stx_dtype d = (enum stx_dtype)fake_dtype(t->type);
	return stx_dtype_is_float(d) ? stx_scalar_round(d, v) : v;
}

/* The value of tensor d: what has been computed, or what lies in memory. */
static struct value *value_of(struct evaluation *e, const struct desc *d)
{
	struct fake_tensor t = fake_tensor_of(d);
	struct value *v = e->all;
	int64_t at[8] = { 0 }, i = 0;
	while (v && v->t.id != t.id)
		v = v->next;
	if (v)
		return v;
	v = calloc(1, sizeof *v);
	v->t = t;
	v->at = calloc((size_t)count(&t) + 1, sizeof *v->at);
	v->next = e->all;
	e->all = v;
	if (t.is_virtual)
		return v;
	int status = fake_point(e->pack, &v->t);
	e->e = e->e ? e->e : status;
	if (e->e)
		return v;
	do
		v->at[i++] =
			stx_scalar_load((enum stx_dtype)fake_dtype(t.type), fake_element(&v->t, at))
				.f;
	while (fake_next(at, t.size, t.rank));
	return v;
}

/* Element of v at a point of a tensor that it is spread over. */
static double spread(const struct value *v, const int64_t *at)
{
	int64_t i = 0;
	for (int d = 0; d < v->t.rank; d++)
		i = i * v->t.size[d] + (v->t.size[d] == 1 ? 0 : at[d]);
	return v->at[i];
}

static void multiply(struct evaluation *e, const struct desc *op)
{
	const struct value *a = value_of(e, fake_child(op, 1520, 0)),
			   *b = value_of(e, fake_child(op, 1521, 0));
	struct value *c = value_of(e, fake_child(op, 1522, 0));
	int64_t at[8] = { 0 }, i = 0, group = a->t.size[1] / b->t.size[1];
	do {
		double sum = 0;
		for (int64_t k = 0; k < a->t.size[3]; k++) {
			const int64_t p[4] = { at[0], at[1], at[2], k };
			const int64_t q[4] = { at[0], at[1] / group, k, at[3] };
			sum += spread(a, p) * spread(b, q);
		}
		c->at[i++] = rounded(&c->t, sum);
	} while (fake_next(at, c->t.size, RANK));
}

static void reduce(struct evaluation *e, const struct desc *op)
{
	const struct value *x = value_of(e, fake_child(op, 1610, 0));
	struct value *y = value_of(e, fake_child(op, 1611, 0));
	int is_max = fake_i32(fake_child(op, 1612, 0), 1600) == 3;
	for (int64_t i = 0; i < count(&y->t); i++) {
		double v = is_max ? -INFINITY : 0;
		for (int64_t k = 0; k < x->t.size[3]; k++) {
			double w = x->at[i * x->t.size[3] + k];
			v = is_max ? fmax(v, w) : v + w;
		}
		y->at[i] = rounded(&y->t, v);
	}
}

static void map(struct evaluation *e, const struct desc *op)
{
	const struct desc *p = fake_child(op, 750, 0);
	const struct value *x = value_of(e, fake_child(op, 751, 0)), *b = NULL, *t = NULL;
	struct value *y = value_of(e, fake_child(op, 753, 0));
	int64_t at[8] = { 0 }, i = 0;
	int mode = fake_i32(p, 0);
	if (fake_child(op, 752, 0))
		b = value_of(e, fake_child(op, 752, 0));
	if (fake_child(op, 758, 0))
		t = value_of(e, fake_child(op, 758, 0));
	do {
		double v = spread(x, at), w = b ? spread(b, at) : 0;
		switch (mode) {
		case ADD: v += w; break;
		case MUL: v *= w; break;
		case DIV: v /= w; break;
		case SUB: v -= w; break;
		case EXP: v = exp(v); break;
		case LOG: v = log(v); break;
		case GE: v = v >= w; break;
		case INDEX: v = (double)at[fake_i64(p, 9, 0)]; break;
		case SELECT: v = spread(t, at) != 0 ? v : w; break;
		default: e->e = NOT_SUPPORTED; break;
		}
		y->at[i++] = rounded(&y->t, v);
	} while (fake_next(at, y->t.size, y->t.rank));
}

static void store(const struct value *v)
{
	int64_t at[8] = { 0 }, i = 0;
	do {
		union stx_scalar k = { .f = v->at[i++] };
		stx_scalar_store((enum stx_dtype)fake_dtype(v->t.type), fake_element(&v->t, at), k);
	} while (fake_next(at, v->t.size, v->t.rank));
}

/* The engines' differences of infinite numbers are none. */
static int is_finite(const struct value *v)
{
	for (int64_t i = 0; i < count(&v->t); i++)
		if (!isfinite(v->at[i]))
			return 0;
	return 1;
}

int fake_attend(const struct desc *graph, const struct desc *pack, struct fake_attention *out)
{
	struct evaluation e = { .pack = pack };
	int64_t n = fake_get(graph, 801)->n;
	const struct desc *first = fake_child(graph, 801, 0), *scaled = fake_child(graph, 801, 1),
			  *last = fake_child(graph, 801, (int)n - 1);
	for (int64_t i = 0; i < n && !e.e; i++) {
		const struct desc *op = fake_child(graph, 801, (int)i);
		if (op->type == D_MATMUL_OP)
			multiply(&e, op);
		else if (op->type == D_REDUCTION_OP)
			reduce(&e, op);
		else
			map(&e, op);
		const struct desc *b = op->type == D_POINTWISE_OP ? fake_child(op, 752, 0) : NULL;
		if (b && fake_i32(fake_child(op, 750, 0), 0) == ADD && !fake_i32(b, 907)) {
			out->bias = value_of(&e, b)->t;
			e.e = e.e || is_finite(value_of(&e, b)) ? e.e : BAD_PARAM;
		}
		out->is_causal |=
			op->type == D_POINTWISE_OP && fake_i32(fake_child(op, 750, 0), 0) == SELECT;
	}
	if (!e.e) {
		out->q = value_of(&e, fake_child(first, 1520, 0))->t;
		out->k = value_of(&e, fake_child(first, 1521, 0))->t;
		out->v = value_of(&e, fake_child(last, 1521, 0))->t;
		out->scale = (float)value_of(&e, fake_child(scaled, 752, 0))->at[0];
		store(value_of(&e, fake_child(last, 1522, 0)));
		out->y = value_of(&e, fake_child(last, 1522, 0))->t;
	}
	while (e.all) {
		struct value *v = e.all;
		e.all = v->next;
		free(v->at);
		free(v);
	}
	return e.e;
}
