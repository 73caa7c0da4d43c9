/* attention.c: softmax(scores) times value that a library may make in one call instead of the
 * kernels of its buffers (issue 4, external calls). In `fast` only: the library rounds the weights
 * to the operands' type before the second product, which strict's composite does not.
 *
 *	s = product of q and k; x = s * scale [+ bias],
 *		-infinity where the key's number is above the query's, or not
 *	m = max(x); z = sum(exp(x - m)); p = exp(x - m) / z, 0 where all of x is -infinity, or not
 *	o = product of p and v; y = o rounded to the operands' type
 *
 * requires: as product.c. ensures: an attention for each y whose buffers have that form and static
 * sizes, nothing else reading what is between, with q, k and v where their copies were made from.
 * A causal query sees its own key or an earlier one, so no row is without keys; of other masks
 * attention_mask.c makes biases first. Two passes over the buffers; each tries a product once. */
#include <math.h>
#include <string.h>

#include "dtype.h"
#include "product.h"
#include "sat.h"

#define MOST_HEAD  256 /* elements of a head that fused engines keep */
#define VECTOR     8   /* elements that they load at once */
#define FEW_ROWS   8
#define WORKSPACE  ((int64_t)4 << 20) /* bytes */
#define MOST_SIZE  ((int64_t)1 << 31)
#define MOST_CHAIN 4 /* copies of copies */
#define MOST_MINE  (STX__ATTENTION_MOST - 1)

enum { BATCH, HEAD, ROW, KEY, TERM, KV_HEAD, IN_GROUP, NVARS }; /* variables of an attention */

struct attention {
	struct stx__finding *f;
	struct stx_exprs *ex;
	const struct stx_buffer *o, *p, *x, *s, *y;
	int64_t batch, heads, rows, keys, terms, cols;
	int64_t kv_heads; /* that k, or v, has; 0: not known yet */
	int is_causal;
	float scale;
	uint32_t bias;          /* buffer that x adds; STX_NONE */
	struct stx__mask *mask; /* what x is masked by is put there; NULL: it may not be */
	stx_ex var[NVARS];
	struct stx__attention *out;
};

static const struct stx_buffer *buffer(const struct attention *a, uint32_t id)
{
	return a->f->l->buffers.at[id];
}

static int is_size(const struct attention *a, stx_ex e, int64_t *out)
{
	return stx_ex_is_const(a->ex, e, out) && *out >= 1 && *out < MOST_SIZE;
}

static int joins(struct attention *a, const struct stx_buffer *b)
{
	struct stx__attention *o = a->out;
	for (uint32_t i = 0; i < o->n; i++)
		if (o->buffers[i] == b->id)
			return 1;
	if (o->n == MOST_MINE)
		return 0;
	o->buffers[o->n++] = b->id;
	return 1;
}

/* ---- variables ---- */

static void make_vars(struct attention *a, int64_t kv_heads)
{
	const int64_t size[NVARS] = { a->batch, a->heads,           a->rows, a->keys, a->terms,
				      kv_heads, a->heads / kv_heads };
	for (uint32_t i = 0; i < NVARS; i++)
		a->var[i] = stx_ex_var(a->ex, i, stx_ex_const(a->ex, size[i]));
}

/* b's variables over those of the attention: a batch's number, or one of batch and one of head;
 * then `second` and, unless it is STX_NONE, `third` (of size 1: 0), the reduction's `inner`. 0: b
 * has others. */
static int canonical(const struct attention *a, const struct stx_buffer *b, uint32_t second,
		     uint32_t third, uint32_t inner, stx_ex *map)
{
	uint32_t tail = third == STX_NONE ? 1 : 2, n = b->nranges;
	if (n < tail + 1 || n > tail + 2)
		return 0;
	stx_ex joint = stx_ex_add(a->ex, stx_ex_muli(a->ex, a->var[BATCH], a->heads), a->var[HEAD]);
	uint32_t at = 0;
	if (n == tail + 1) {
		if (!stx_ex_equals(a->ex, b->ranges[0], a->batch * a->heads))
			return 0;
		map[at++] = joint;
	} else {
		if (!stx_ex_equals(a->ex, b->ranges[0], a->batch) ||
		    !stx_ex_equals(a->ex, b->ranges[1], a->heads))
			return 0;
		map[at++] = a->var[BATCH];
		map[at++] = a->var[HEAD];
	}
	map[at++] = a->var[second];
	if (third != STX_NONE)
		map[at++] = stx_ex_equals(a->ex, b->ranges[n - 1], 1) ? stx_ex_const(a->ex, 0)
								      : a->var[third];
	if (b->def == STX_DEF_REDUCTION)
		map[at] = a->var[inner];
	return joint != STX_EX_BAD;
}

static uint32_t nvars(const struct stx_buffer *b)
{
	return b->nranges + (b->def == STX_DEF_REDUCTION ? b->nrranges : 0);
}

/* The load reads, at every point of its reader, what `from` stores at the same one. */
static int is_same_point(const struct attention *a, const struct stx_binst *load,
			 const stx_ex *reader, uint32_t nreader, const struct stx_buffer *from,
			 const stx_ex *map)
{
	return load->op == STX_B_LOAD && load->c == STX_NONE && load->a == from->id &&
	       stx_ex_subst(a->ex, load->ex, reader, nreader) ==
		       stx_ex_subst(a->ex, from->store, map, from->nranges);
}

/* ---- buffers between ---- */

static int is_between(const struct attention *a, const struct stx_buffer *b, enum stx_def_kind def,
		      uint32_t reads)
{
	return b->kind == STX_BUF_TEMP && b->def == def && !b->base && !b->heir && !b->message &&
	       b->rlimit == STX_EX_BAD && !b->is_merge && a->f->nreads[b->id] == reads &&
	       (def != STX_DEF_REDUCTION || b->nrranges == 1);
}

static int is_product(const struct attention *a, const struct stx_buffer *b, uint32_t reads)
{
	return is_between(a, b, STX_DEF_REDUCTION, reads) && b->monoid == STX_MONOID_DOT &&
	       b->acc == STX_F32 && b->dtype == STX_F32 && b->body.nresults == 2 && b->nranges == 3;
}

static const struct stx_binst *at(const struct stx_buffer *b, uint32_t i)
{
	return &b->body.at[i];
}

/* The load that is widened. */
static const struct stx_binst *half_load(const struct stx_buffer *b, uint32_t i)
{
	const struct stx_binst *in = at(b, i);
	if (in->op != STX_P_CAST || in->dtype != STX_F32)
		return NULL;
	in = at(b, in->a);
	return in->op == STX_B_LOAD && in->c == STX_NONE &&
			       (in->dtype == STX_F16 || in->dtype == STX_BF16)
		       ? in
		       : NULL;
}

/* exp(x - max(x)) in b, at instruction i; *m: the buffer of the maxima. */
static int is_weight(const struct attention *a, const struct stx_buffer *b, uint32_t i,
		     const stx_ex *map, const struct stx_buffer **m)
{
	stx_ex of_x[STX_MAX_DIMS + 1], of_m[STX_MAX_DIMS + 1];
	if (at(b, i)->op != STX_P_EXP || at(b, at(b, i)->a)->op != STX_P_SUB)
		return 0;
	const struct stx_binst *d = at(b, at(b, i)->a), *top = at(b, d->b);
	if (top->op != STX_B_LOAD || (*m && top->a != (*m)->id))
		return 0;
	*m = buffer(a, top->a);
	return (*m)->def == STX_DEF_REDUCTION && canonical(a, a->x, ROW, KEY, TERM, of_x) &&
	       canonical(a, *m, ROW,
			 (*m)->nranges > 2 &&
					 stx_ex_equals(a->ex, (*m)->ranges[(*m)->nranges - 1], 1)
				 ? KEY
				 : STX_NONE,
			 KEY, of_m) &&
	       is_same_point(a, at(b, d->a), map, nvars(b), a->x, of_x) &&
	       is_same_point(a, top, map, nvars(b), *m, of_m);
}

/* A reduction over the keys of each row that p reads at its row: `load` is that. */
static int is_of_rows(struct attention *a, const struct stx_binst *load, const stx_ex *of_p,
		      enum stx_monoid monoid, uint32_t reads, stx_ex *map)
{
	if (load->op != STX_B_LOAD)
		return 0;
	const struct stx_buffer *b = buffer(a, load->a);
	uint32_t n = b->nranges;
	return is_between(a, b, STX_DEF_REDUCTION, reads) && b->monoid == monoid &&
	       b->body.nresults == 1 && stx_ex_equals(a->ex, b->rranges[0], a->keys) && n >= 2 &&
	       canonical(a, b, ROW, stx_ex_equals(a->ex, b->ranges[n - 1], 1) ? KEY : STX_NONE, KEY,
			 map) &&
	       is_same_point(a, load, of_p, nvars(a->p), b, map) && joins(a, b);
}

static int is_number(const struct stx_binst *in, double v)
{
	return in->op == STX_B_CONST && in->dtype == STX_F32 && in->k.f == v;
}

/* 0 where all scores of the row are -infinity, else i. */
static int behind_guard(struct attention *a, const stx_ex *of_p, uint32_t *i)
{
	const struct stx_binst *in = at(a->p, *i);
	stx_ex map[STX_MAX_DIMS + 1], of_x[STX_MAX_DIMS + 1];
	if (in->op != STX_P_SELECT)
		return 1;
	const struct stx_binst *none = at(a->p, in->a);
	*i = in->c;
	if (!is_number(at(a->p, in->b), 0) || !is_of_rows(a, none, of_p, STX_MONOID_ALL, 1, map))
		return 0;
	const struct stx_buffer *b = buffer(a, none->a);
	const struct stx_binst *eq = at(b, b->body.result[0]);
	return eq->op == STX_P_EQ && is_number(at(b, eq->b), -INFINITY) &&
	       canonical(a, a->x, ROW, KEY, TERM, of_x) &&
	       is_same_point(a, at(b, eq->a), map, nvars(b), a->x, of_x);
}

/* x is read by the maximum, the sum, p and, guarded, by `all`: nothing else. */
static int is_softmax(struct attention *a)
{
	stx_ex of_p[STX_MAX_DIMS + 1], of_x[STX_MAX_DIMS + 1], map[STX_MAX_DIMS + 1];
	const struct stx_buffer *p = a->p, *m = NULL;
	uint32_t i = p->body.result[0];
	uint32_t reads = at(p, i)->op == STX_P_SELECT ? 4 : 3;
	if (!canonical(a, p, ROW, KEY, TERM, of_p) || !canonical(a, a->x, ROW, KEY, TERM, of_x) ||
	    !behind_guard(a, of_p, &i) || at(p, i)->op != STX_P_DIV ||
	    a->f->nreads[a->x->id] != reads || !is_weight(a, p, at(p, i)->a, of_p, &m))
		return 0;
	const struct stx_binst *sum = at(p, at(p, i)->b), *top = at(p, at(p, at(p, i)->a)->a);
	top = at(p, top->b);
	if (!is_of_rows(a, sum, of_p, STX_MONOID_SUM, 1, map))
		return 0;
	const struct stx_buffer *z = buffer(a, sum->a);
	return is_weight(a, z, z->body.result[0], map, &m) &&
	       is_of_rows(a, top, of_p, STX_MONOID_MAX, 2, map) &&
	       is_same_point(a, at(m, m->body.result[0]), map, nvars(m), a->x, of_x);
}

/* ---- scores ---- */

/* 1: a query sees the keys for which the comparison holds; -1: those for which it does not; 0: it is
 * another one. */
static int sees(const struct attention *a, const struct stx_binst *in, const stx_ex *map)
{
	const struct stx_binst *l = at(a->x, in->a), *r = at(a->x, in->b);
	if (l->op != STX_B_INDEX || r->op != STX_B_INDEX)
		return 0;
	stx_ex le = stx_ex_subst(a->ex, l->ex, map, a->x->nranges);
	stx_ex re = stx_ex_subst(a->ex, r->ex, map, a->x->nranges);
	int key_left = le == a->var[KEY] && re == a->var[ROW];
	int key_right = le == a->var[ROW] && re == a->var[KEY];
	switch (in->op) {
	case STX_P_LE: return key_left;
	case STX_P_GE: return key_right;
	case STX_P_GT: return -key_left;
	case STX_P_LT: return -key_right;
	default: return 0;
	}
}

/* The load of the product behind its scale; NULL: i is something else. */
static const struct stx_binst *read_scale(struct attention *a, uint32_t i)
{
	const struct stx_buffer *x = a->x;
	const struct stx_binst *in = at(x, i);
	a->scale = 1;
	if (in->op == STX_P_MUL || in->op == STX_P_DIV) {
		int first = in->op == STX_P_MUL && at(x, in->a)->op == STX_B_CONST;
		const struct stx_binst *by = at(x, first ? in->a : in->b);
		if (by->op != STX_B_CONST)
			return NULL;
		a->scale = (float)(in->op == STX_P_MUL ? by->k.f : 1 / by->k.f);
		in = at(x, first ? in->b : in->a);
	}
	return in->op == STX_B_LOAD && isfinite(a->scale) && is_product(a, buffer(a, in->a), 1)
		       ? in
		       : NULL;
}

/* A load of the bias that a mask has become. */
static int is_bias(struct attention *a, uint32_t i)
{
	const struct stx_binst *in = at(a->x, i);
	if (in->op == STX_P_CAST)
		in = at(a->x, in->a);
	if (in->op != STX_B_LOAD || in->c != STX_NONE ||
	    buffer(a, in->a)->rule != STX_REALIZED_MASK)
		return 0;
	a->bias = in->a;
	return 1;
}

/* The scores behind what masks them, at *i; the load of their product. NULL: it is another. */
static const struct stx_binst *behind_mask(struct attention *a, uint32_t *i)
{
	const struct stx_binst *in = at(a->x, *i), *load = read_scale(a, *i);
	if (load)
		return load;
	if (in->op == STX_P_ADD && in->dtype == STX_F32) {
		for (int j = 0; j < 2; j++) {
			uint32_t other = j ? in->a : in->b;
			*i = j ? in->b : in->a;
			if (!(load = read_scale(a, *i)))
				continue;
			if (!is_bias(a, other) && !a->mask)
				return NULL;
			if (a->mask)
				a->mask->added = other;
			return load;
		}
	}
	if (in->op != STX_P_SELECT || !a->mask)
		return NULL;
	a->mask->is_hidden = is_number(at(a->x, in->b), -INFINITY);
	if (!a->mask->is_hidden && !is_number(at(a->x, in->c), -INFINITY))
		return NULL;
	*i = a->mask->is_hidden ? in->c : in->b;
	a->mask->seen = in->a;
	return read_scale(a, *i);
}

/* x: scale * s, masked, hidden or not; s its product. */
static int read_scores(struct attention *a)
{
	const struct stx_buffer *x = a->x;
	stx_ex map[STX_MAX_DIMS + 1], of_s[STX_MAX_DIMS + 1];
	uint32_t i = x->body.result[0];
	const struct stx_binst *in = at(x, i);
	int seen = 0;
	if (!canonical(a, x, ROW, KEY, TERM, map))
		return 0;
	if (in->op == STX_P_SELECT && (seen = sees(a, at(x, in->a), map))) {
		if (!is_number(at(x, seen > 0 ? in->c : in->b), -INFINITY))
			return 0;
		if (a->mask) {
			a->mask->causal = i;
			a->mask->causal_hides = seen < 0;
		}
		i = seen > 0 ? in->b : in->c;
		a->is_causal = 1;
	}
	if (!(in = behind_mask(a, &i)))
		return 0;
	if (a->mask)
		a->mask->scores = i;
	a->s = buffer(a, in->a);
	return stx_ex_equals(a->ex, a->s->ranges[1], a->rows) &&
	       stx_ex_equals(a->ex, a->s->ranges[2], a->keys) &&
	       is_size(a, a->s->rranges[0], &a->terms) &&
	       canonical(a, a->s, ROW, KEY, TERM, of_s) &&
	       is_same_point(a, in, map, x->nranges, a->s, of_s) && joins(a, a->s) && joins(a, x);
}

/* ---- operands ---- */

struct operand {
	uint32_t buffer;
	int64_t offset, size[4], stride[4]; /* batch, heads, queries or keys, elements of a head */
};

/* Element e of a copy is an element of what it was made from. */
static int behind_copies(struct attention *a, uint32_t *id, stx_ex *e)
{
	for (int i = 0; i < MOST_CHAIN; i++) {
		const struct stx_buffer *b = buffer(a, *id);
		stx_ex point[STX__MAX_DIMS];
		if (!is_between(a, b, STX_DEF_POINTWISE, 1) || b->body.nresults != 1)
			return 1;
		const struct stx_binst *in = at(b, b->body.result[0]);
		if (in->op != STX_B_LOAD || in->c != STX_NONE || in->dtype != b->dtype ||
		    b->nranges > STX_MAX_DIMS || !stx__find_point(a->ex, b, *e, point))
			return 1;
		*e = stx_ex_subst(a->ex, in->ex, point, b->nranges);
		*id = in->a;
		if (*e == STX_EX_BAD || !joins(a, b))
			return 0;
	}
	return 1;
}

/* e = offset + strides times the variables batch, head (of kv_heads), along and inner, one element
 * of a head after the other. */
static int read_strides(struct attention *a, stx_ex e, int64_t kv_heads, uint32_t along,
			uint32_t inner, struct operand *o)
{
	stx_ex map[NVARS], coeff[NVARS], rest;
	int64_t c[NVARS], group = a->heads / kv_heads;
	make_vars(a, kv_heads);
	memcpy(map, a->var, sizeof map);
	if (kv_heads < a->heads)
		map[HEAD] = stx_ex_add(a->ex, stx_ex_muli(a->ex, a->var[KV_HEAD], group),
				       a->var[IN_GROUP]);
	else
		map[HEAD] = a->var[KV_HEAD];
	e = stx_ex_subst(a->ex, e, map, TERM + 1);
	if (e == STX_EX_BAD || !stx__affine(a->f, e, NVARS, coeff, &rest) ||
	    !stx_ex_is_const(a->ex, rest, &o->offset))
		return 0;
	for (uint32_t i = 0; i < NVARS; i++)
		if (!stx_ex_is_const(a->ex, coeff[i], &c[i]) || c[i] < 0 || c[i] >= MOST_SIZE ||
		    (c[i] && i != BATCH && i != KV_HEAD && i != along && i != inner))
			return 0;
	const uint32_t from[4] = { BATCH, KV_HEAD, along, inner };
	const int64_t size[4] = { a->batch, kv_heads, along == ROW ? a->rows : a->keys, a->terms };
	for (int i = 0; i < 4; i++) {
		o->size[i] = size[i];
		o->stride[i] = c[from[i]];
	}
	return o->stride[3] == 1;
}

/* The strides of dimensions of one element are what they would be in dense memory; others are
 * vectors. */
static int settle(struct operand *o)
{
	int64_t dense = o->size[3];
	for (int i = 2; i >= 0; i--) {
		if (o->size[i] == 1)
			o->stride[i] = dense;
		if (o->stride[i] < 1 || o->stride[i] % VECTOR)
			return 0;
		dense = stx_sat_mul(o->stride[i], o->size[i]);
		if (dense >= MOST_SIZE)
			dense = o->size[3];
	}
	return o->offset >= 0 && o->offset % VECTOR == 0;
}

/* Every element lies in the buffer. */
static int is_within(const struct attention *a, const struct operand *o)
{
	struct stx_layout *l = &a->f->l->buffers.at[o->buffer]->layout;
	int64_t last = o->offset, reach;
	for (int i = 0; i < 4; i++)
		last = stx_sat_add(last, stx_sat_mul(o->size[i] - 1, o->stride[i]));
	return stx_ex_is_const(a->ex, stx_layout_reach(a->ex, l), &reach) && last < reach;
}

/* Where `load` of b reads an operand. A number of heads that divides the queries' is one that its
 * memory has a dimension for. */
static int read_operand(struct attention *a, const struct stx_buffer *b,
			const struct stx_binst *load, const stx_ex *map, uint32_t along,
			uint32_t inner, struct operand *o)
{
	stx_ex e = load->ex;
	o->buffer = load->a;
	if (!behind_copies(a, &o->buffer, &e))
		return 0;
	e = stx_ex_subst(a->ex, e, map, nvars(b));
	const struct stx_layout *l = &buffer(a, o->buffer)->layout;
	for (uint32_t i = 0; i <= l->rank && e != STX_EX_BAD; i++) {
		int64_t heads = a->heads;
		if (i &&
		    (!is_size(a, l->sizes[i - 1], &heads) || heads >= a->heads || a->heads % heads))
			continue;
		if (read_strides(a, e, heads, along, inner, o) && settle(o) && is_within(a, o))
			return 1;
	}
	return 0;
}

/* y's strides: of the three orders that heads and queries lie in, the one that its addresses are. */
static int read_result(struct attention *a, struct operand *o)
{
	const struct stx_buffer *y = a->y;
	const int64_t d = a->cols, h = a->heads, s = a->rows, b = a->batch;
	const int64_t orders[3][4] = { { h * s * d, s * d, d, 1 },
				       { s * h * d, d, h * d, 1 },
				       { h * d, d, b * h * d, 1 } };
	const struct stx_binst *in = at(y, y->body.result[0]);
	stx_ex point[STX__MAX_DIMS], zero[STX__MAX_DIMS];
	if (in->op != STX_P_CAST || at(y, in->a)->op != STX_B_LOAD || at(y, in->a)->a != a->o->id ||
	    at(y, in->a)->c != STX_NONE || !stx__find_point(a->ex, a->o, at(y, in->a)->ex, point))
		return 0;
	for (uint32_t i = 0; i < y->nranges; i++)
		zero[i] = stx_ex_const(a->ex, 0);
	stx_ex first = stx_ex_subst(a->ex, y->store, zero, y->nranges);
	stx_ex heads = stx_ex_const(a->ex, h);
	stx_ex batch = stx_ex_floordiv(a->ex, point[0], heads);
	stx_ex head = stx_ex_mod(a->ex, point[0], heads);
	o->buffer = y->id;
	if (a->mask)
		memcpy(a->mask->point, point, sizeof point);
	for (int i = 0; i < 3; i++) {
		stx_ex e = stx_ex_add(a->ex, first, stx_ex_muli(a->ex, batch, orders[i][0]));
		e = stx_ex_add(a->ex, e, stx_ex_muli(a->ex, head, orders[i][1]));
		e = stx_ex_add(a->ex, e, stx_ex_muli(a->ex, point[1], orders[i][2]));
		e = stx_ex_add(a->ex, e, point[2]);
		if (e == STX_EX_BAD || stx__axes_join(a->ex, e) != stx__axes_join(a->ex, y->store))
			continue;
		const int64_t size[4] = { b, h, s, d };
		memcpy(o->size, size, sizeof size);
		memcpy(o->stride, orders[i], sizeof o->stride);
		return stx_ex_is_const(a->ex, first, &o->offset) && settle(o) && is_within(a, o);
	}
	return 0;
}

/* ---- the call ---- */

/* o: q, k, v, y and the bias; q again where there is none. */
static stx_err put_call(struct attention *a, const struct operand o[5], uint32_t workspace)
{
	struct stx_exprs *ex = a->ex;
	struct stx_use *uses = STX_NEW_ARRAY(a->f->arena, struct stx_use, 7);
	stx_ex *attrs = STX_NEW_ARRAY(a->f->arena, stx_ex, STX_ATTENTION_NATTRS);
	uint32_t n = 0, bits;
	if (!uses || !attrs)
		return STX_E_NOMEM;
	memcpy(&bits, &a->scale, sizeof bits);
	attrs[STX_ATTENTION_CAUSAL] = stx_ex_const(ex, a->is_causal);
	attrs[STX_ATTENTION_SCALE] = stx_ex_const(ex, bits);
	attrs[STX_ATTENTION_BIASED] = stx_ex_const(ex, a->bias != STX_NONE);
	for (uint32_t i = 0; i < 5; i++) {
		stx_ex *t = attrs + STX_ATTENTION_Q + i * STX_ARRAY_NATTRS;
		uint32_t arg = 0;
		while (arg < n && uses[arg].buffer != o[i].buffer)
			arg++;
		if (arg == n)
			uses[n++] = (struct stx_use){ o[i].buffer, i != 3, i == 3 };
		t[STX_ARRAY_ARG] = stx_ex_const(ex, arg);
		t[STX_ARRAY_OFFSET] = stx_ex_const(ex, o[i].offset);
		for (int j = 0; j < 2 + STX_CONV_MAX_SPATIAL; j++) {
			t[STX_ARRAY_SIZE + j] = stx_ex_const(ex, j < 4 ? o[i].size[j] : 1);
			t[STX_ARRAY_STRIDE + j] = stx_ex_const(ex, j < 4 ? o[i].stride[j] : 1);
		}
	}
	uses[n++] = (struct stx_use){ workspace, 0, 1 };
	a->out->call = (struct stx_external){ .name = STX_CALL_ATTENTION,
					      .uses = uses,
					      .nuses = n,
					      .attrs = attrs,
					      .nattrs = STX_ATTENTION_NATTRS,
					      .workspace = workspace,
					      .kernel = STX_NONE };
	return STX_E_OK;
}

/* ---- finding ---- */

/* Sizes, from the second product o and what its weights' scores are over. */
static int find_sizes(struct attention *a)
{
	int64_t all;
	uint32_t n = a->x->nranges;
	if (n < 3 || n > 4 || a->x->def != STX_DEF_POINTWISE ||
	    !is_size(a, a->o->ranges[0], &all) || !is_size(a, a->o->ranges[1], &a->rows) ||
	    !is_size(a, a->o->ranges[2], &a->cols) || !is_size(a, a->o->rranges[0], &a->keys) ||
	    !is_size(a, a->x->ranges[0], &a->batch))
		return 0;
	a->heads = 1;
	if (n == 4 && !is_size(a, a->x->ranges[1], &a->heads))
		return 0;
	return stx_sat_mul(a->batch, a->heads) == all &&
	       stx_ex_equals(a->ex, a->x->ranges[n - 2], a->rows) &&
	       stx_ex_equals(a->ex, a->x->ranges[n - 1], a->keys) && a->rows >= FEW_ROWS &&
	       a->cols % VECTOR == 0 && a->cols <= MOST_HEAD;
}

/* Weights times value, rounded by the buffer that alone reads it. */
static int find_buffers(struct attention *a, const struct stx_binst **value)
{
	const struct stx_buffer *o = a->o;
	if (!is_product(a, o, 1))
		return 0;
	a->y = buffer(a, a->f->reader[o->id]);
	const struct stx_binst *load = at(o, o->body.result[0]);
	*value = half_load(o, o->body.result[1]);
	if (load->op != STX_B_LOAD || load->c != STX_NONE || load->dtype != STX_F32 || !*value)
		return 0;
	a->p = buffer(a, load->a);
	if (!is_between(a, a->p, STX_DEF_POINTWISE, 1) || a->p->body.nresults != 1 ||
	    a->y->def != STX_DEF_POINTWISE || a->y->base || a->y->message ||
	    a->y->body.nresults != 1 || a->y->dtype != (enum stx_dtype)(*value)->dtype)
		return 0;
	for (uint32_t i = 0; i < a->p->body.n; i++) /* the scores: what is subtracted from */
		if (at(a->p, i)->op == STX_P_SUB && at(a->p, at(a->p, i)->a)->op == STX_B_LOAD)
			a->x = buffer(a, at(a->p, at(a->p, i)->a)->a);
	return a->x && a->x->kind == STX_BUF_TEMP && !a->x->base && !a->x->heir && !a->x->message &&
	       a->x->dtype == STX_F32 && a->x->body.nresults == 1;
}

static int find_operands(struct attention *a, const struct stx_binst *value, struct operand o[4])
{
	stx_ex of_o[STX_MAX_DIMS + 1], of_s[STX_MAX_DIMS + 1], of_p[STX_MAX_DIMS + 1];
	const struct stx_binst *q = half_load(a->s, a->s->body.result[0]);
	const struct stx_binst *k = half_load(a->s, a->s->body.result[1]);
	int64_t terms = a->terms;
	if (!q || !k || q->dtype != value->dtype || k->dtype != value->dtype || terms % VECTOR ||
	    terms > MOST_HEAD || !canonical(a, a->s, ROW, KEY, TERM, of_s) ||
	    !read_operand(a, a->s, q, of_s, ROW, TERM, &o[0]) || o[0].size[1] != a->heads)
		return 0;
	make_vars(a, a->heads);
	if (!canonical(a, a->s, ROW, KEY, TERM, of_s) ||
	    !read_operand(a, a->s, k, of_s, KEY, TERM, &o[1]))
		return 0;
	a->terms = a->cols; /* the last variable is now the value's */
	make_vars(a, a->heads);
	if (!canonical(a, a->o, ROW, TERM, KEY, of_o) ||
	    !canonical(a, a->p, ROW, KEY, TERM, of_p) ||
	    !is_same_point(a, at(a->o, a->o->body.result[0]), of_o, nvars(a->o), a->p, of_p) ||
	    !read_operand(a, a->o, value, of_o, KEY, TERM, &o[2]))
		return 0;
	a->terms = terms;
	return read_result(a, &o[3]);
}

/* The bias in memory: the dimensions of x, dense, those that it is the same along of size 1. */
static int read_bias(const struct attention *a, struct operand *o)
{
	const struct stx_layout *l = &buffer(a, a->bias)->layout;
	o->buffer = a->bias;
	o->offset = 0;
	o->size[1] = 1;
	for (uint32_t i = 0; i < l->rank; i++)
		if (!is_size(a, l->sizes[i], &o->size[i && l->rank == 3 ? i + 1 : i]))
			return 0;
	o->stride[3] = 1;
	for (int i = 2; i >= 0; i--)
		o->stride[i] = stx_sat_mul(o->stride[i + 1], o->size[i + 1]);
	return o->stride[0] < MOST_SIZE && is_within(a, o);
}

static int find(struct attention *a, struct operand o[5])
{
	const struct stx_binst *value;
	a->bias = STX_NONE;
	if (!find_buffers(a, &value) || !find_sizes(a))
		return 0;
	a->terms = 1;
	make_vars(a, a->heads);
	if (!is_softmax(a) || !joins(a, a->p) || !joins(a, a->o) || !read_scores(a))
		return 0;
	make_vars(a, a->heads);
	a->out->needed = a->out->n;
	if (!find_operands(a, value, o))
		return 0;
	o[4] = o[0];
	if (a->bias != STX_NONE && !read_bias(a, &o[4]))
		return 0;
	for (int i = 0; i < 3; i++) /* nothing that it reads is its own */
		for (uint32_t j = 0; j < a->out->n; j++)
			if (o[i].buffer == a->out->buffers[j] || o[i].buffer == a->y->id)
				return 0;
	return 1;
}

static stx_err out_of_budget(struct stx_diag *d)
{
	return stx_fail(d, STX_E_NOMEM, "schedule", NULL, "the memory budget is exceeded");
}

stx_err stx__find_masks(struct stx_loops *l, struct stx_diag *d)
{
	struct stx__finding f = { .l = l, .ex = l->ex, .arena = l->g->arena };
	struct stx__masks masks = { 0 };
	if (!stx__count_reads(&f))
		return out_of_budget(d);
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		struct stx__attention found = { 0 };
		struct stx__mask m = { .added = STX_NONE, .seen = STX_NONE, .causal = STX_NONE };
		struct attention a = {
			.f = &f, .ex = l->ex, .o = l->buffers.at[i], .out = &found, .mask = &m
		};
		struct operand o[5];
		if (!find(&a, o) || (m.added == STX_NONE && m.seen == STX_NONE) ||
		    !stx__mask_is_free(l, &m, a.x->id, a.s->id))
			continue;
		m.x = a.x->id;
		m.y = a.y->id;
		m.heads = a.heads;
		m.is_guarded = at(a.p, a.p->body.result[0])->op == STX_P_SELECT;
		const struct stx_binst *w = m.added == STX_NONE ? NULL : at(a.x, m.added);
		m.type = !w || (w->op == STX_P_CAST && at(a.x, w->a)->dtype == a.y->dtype)
				 ? a.y->dtype
				 : STX_F32;
		if (stx_push(f.arena, &masks, m))
			return out_of_budget(d);
	}
	return stx__insert_masks(l, &masks) ? out_of_budget(d) : STX_E_OK;
}

stx_err stx__find_attentions(struct stx_loops *l, struct stx__attentions *out, struct stx_diag *d)
{
	struct stx__finding f = { .l = l, .ex = l->ex, .arena = l->g->arena };
	uint32_t n = l->buffers.n;
	stx_err e = stx__count_reads(&f) ? STX_E_OK : STX_E_NOMEM;
	for (uint32_t i = 0; i < n && !e; i++) {
		struct stx__attention found = { 0 };
		struct attention a = { .f = &f, .ex = l->ex, .o = l->buffers.at[i], .out = &found };
		struct operand o[5];
		if (!find(&a, o))
			continue;
		const struct stx_buffer *w = stx__add_workspace(&f, stx_ex_const(l->ex, WORKSPACE));
		found.buffers[found.n++] = a.y->id;
		if (!w || put_call(&a, o, w->id) || stx_push(f.arena, out, found))
			e = STX_E_NOMEM;
	}
	return e ? out_of_budget(d) : STX_E_OK;
}
