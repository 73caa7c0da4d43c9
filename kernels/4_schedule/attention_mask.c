/* attention_mask.c: the masks of attentions that a library may make, as biases in memory: what its
 * fused engines read.
 *
 *	w = what is added to the scaled scores, 0 and -infinity where they are selected
 *	hidden = all of a query's w are -infinity; y = hidden ? 0 : y1
 *	bias = hidden ? LOW : max(w, LOW), whose weight is 0; x = scores + bias
 *
 * The engines take no infinite bias (the difference of two is NaN), and would give a query that
 * sees no key the mean of the values: a softmax that guards against that has its result in y1, and
 * y after it, whoever makes y1. The bias has the dimensions that w depends on. requires:
 * attentions that attention.c has found but for their masks. ensures: the same results, in `fast`;
 * buffers in definition order. One pass over the buffers, and one over each mask's body. */
#include <math.h>

#include "dtype.h"
#include "product.h"

#define LOW_F16 (-65504.0)
#define LOW     (-0x1p100)
#define EXTRA   8 /* instructions that a body gets */

int stx__mask_is_free(const struct stx_loops *l, const struct stx__mask *m, uint32_t x, uint32_t s)
{
	const struct stx_body *b = &l->buffers.at[x]->body;
	uint8_t *is_behind = stx_arena_zalloc(l->g->arena, b->n + 1, 1);
	if (!is_behind)
		return 0;
	is_behind[m->added != STX_NONE ? m->added : m->seen] = 1;
	for (uint32_t i = b->n; i-- > 0;) {
		const struct stx_binst *in = &b->at[i];
		const uint32_t operand[3] = { in->op == STX_B_LOAD ? STX_NONE : in->a, in->b,
					      in->c };
		if (in->op == STX_B_INDIRECT ||
		    (is_behind[i] && in->op == STX_B_LOAD && in->a == s))
			return 0;
		for (int j = 0; j < 3; j++)
			if (is_behind[i] && operand[j] != STX_NONE)
				is_behind[operand[j]] = 1;
	}
	return 1;
}

/* ---- bodies ---- */

static uint32_t put_number(struct stx_body *b, double v)
{
	return stx__put_number(b, STX_F32, (union stx_scalar){ .f = v });
}

static uint32_t put_load(struct stx_body *b, const struct stx_buffer *from, stx_ex at)
{
	return stx__put_load(b, from->id, from->dtype, at, STX_NONE);
}

/* A copy of b's instructions with room for more. 0: out of memory. */
static int copy_body(struct stx__inserting *t, const struct stx_body *from, struct stx_body *out)
{
	*out = (struct stx_body){ .at = STX_NEW_ARRAY(t->l->g->arena, struct stx_binst,
						      from->n + EXTRA),
				  .nresults = 1 };
	for (uint32_t i = 0; out->at && i < from->n; i++)
		out->at[out->n++] = from->at[i];
	return out->at != NULL;
}

static int finish_body(struct stx__inserting *t, struct stx_body *b, uint32_t result)
{
	b->result[0] = result;
	return !stx__order_body(t->l, b);
}

/* w, over the instructions of x. */
static uint32_t put_mask(struct stx_body *b, const struct stx__mask *m)
{
	if (m->added != STX_NONE)
		return m->added;
	uint32_t zero = put_number(b, 0), never = put_number(b, -INFINITY);
	return stx__put(b, STX_P_SELECT, STX_F32, m->seen, m->is_hidden ? never : zero,
			m->is_hidden ? zero : never);
}

/* ---- buffers ---- */

static struct stx_buffer *new_buffer(struct stx__inserting *t, const struct stx_buffer *near,
				     const char *what, enum stx_dtype type)
{
	return stx__new_before(t, near, what, type, STX_REALIZED_MASK);
}

/* Dense memory over b's ranges, the first n of x's, of which those that `body` does not depend on
 * have size 1; *at: that memory's address over x's variables. 0: out of memory. */
static int lay_out(struct stx__inserting *t, const struct stx_buffer *x,
		   const struct stx_body *body, uint32_t n, struct stx_buffer *b, stx_ex *at)
{
	struct stx_exprs *ex = t->l->ex;
	stx_ex *sizes = STX_NEW_ARRAY(t->l->g->arena, stx_ex, n);
	for (uint32_t i = 0; sizes && i < n; i++) {
		int uses = i + 1 == x->nranges; /* keys */
		for (uint32_t j = 0; j < body->n; j++)
			uses |= (body->at[j].op == STX_B_LOAD || body->at[j].op == STX_B_INDEX) &&
				stx_ex_uses_var(ex, body->at[j].ex, i);
		sizes[i] = uses ? x->ranges[i] : stx_ex_const(ex, 1);
	}
	if (!sizes || !stx__dense_layout(t, b, sizes, n))
		return 0;
	*at = stx_ex_const(ex, 0);
	for (uint32_t i = 0; i < n; i++)
		if (!stx_ex_equals(ex, sizes[i], 1))
			*at = stx_ex_add(
				ex, *at,
				stx_ex_mul(ex, stx_ex_var(ex, i, sizes[i]), b->layout.strides[i]));
	return *at != STX_EX_BAD;
}

/* Where all of w are -infinity, by x's variables but for the keys; *at: its address over them. */
static struct stx_buffer *add_hidden(struct stx__inserting *t, const struct stx__mask *m,
				     const struct stx_buffer *x, stx_ex *at)
{
	struct stx_buffer *h = new_buffer(t, x, "hidden", STX_BOOL);
	uint32_t n = x->nranges - 1;
	if (!h || !copy_body(t, &x->body, &h->body))
		return NULL;
	uint32_t w = put_mask(&h->body, m);
	w = stx__put(&h->body, STX_P_EQ, STX_BOOL, w, put_number(&h->body, -INFINITY), STX_NONE);
	if (!finish_body(t, &h->body, w) || !lay_out(t, x, &h->body, n, h, at))
		return NULL;
	h->def = STX_DEF_REDUCTION;
	h->monoid = STX_MONOID_ALL;
	h->rranges = x->ranges + n;
	h->nrranges = 1;
	return h;
}

/* x = scaled scores + bias, hidden from a query as before. For a query that h (NULL: none) hides the
 * selection changes nothing: it lets one kernel make both, from one reading of w (fuse.c). */
static int add_bias(struct stx__inserting *t, const struct stx__mask *m, const struct stx_buffer *h,
		    stx_ex of_h, struct stx_buffer *x)
{
	struct stx_buffer *b = new_buffer(t, x, "mask", m->type);
	struct stx_body body;
	stx_ex at;
	if (!b || !copy_body(t, &x->body, &b->body) || !copy_body(t, &x->body, &body))
		return 0;
	uint32_t low = put_number(&b->body, m->type == STX_F16 ? LOW_F16 : LOW);
	uint32_t w = put_mask(&b->body, m);
	w = stx__put(&b->body, STX_P_MAX, STX_F32, w, low, STX_NONE);
	if (h)
		w = stx__put(&b->body, STX_P_SELECT, STX_F32, put_load(&b->body, h, of_h), low, w);
	if (m->type != STX_F32)
		w = stx__put(&b->body, STX_P_CAST, m->type, w, STX_NONE, STX_NONE);
	if (!finish_body(t, &b->body, w) || !lay_out(t, x, &b->body, x->nranges, b, &at))
		return 0;
	uint32_t s = put_load(&body, b, at);
	if (m->type != STX_F32)
		s = stx__put(&body, STX_P_CAST, STX_F32, s, STX_NONE, STX_NONE);
	s = stx__put(&body, STX_P_ADD, STX_F32, m->scores, s, STX_NONE);
	if (m->causal != STX_NONE) {
		struct stx_binst hide = x->body.at[m->causal];
		*(m->causal_hides ? &hide.c : &hide.b) = s;
		s = body.n;
		body.at[body.n++] = hide;
	}
	x->body = body;
	return finish_body(t, &x->body, s);
}

/* y = 0 where h is true, else what it was, which is now y1's. */
static int add_guard(struct stx__inserting *t, const struct stx__mask *m,
		     const struct stx_buffer *h, stx_ex at, uint32_t n, struct stx_buffer *y)
{
	struct stx_buffer *y1 = new_buffer(t, y, "shown", y->dtype);
	stx_ex of_y[STX__MAX_DIMS], heads = stx_ex_const(t->l->ex, m->heads);
	if (!y1)
		return 0;
	y1->ranges = y->ranges;
	y1->nranges = y->nranges;
	y1->layout = y->layout;
	y1->store = y->store;
	y1->body = y->body;
	if (!copy_body(t, &(struct stx_body){ .n = 0 }, &y->body))
		return 0;
	of_y[0] = n == 2 ? m->point[0] : stx_ex_floordiv(t->l->ex, m->point[0], heads);
	of_y[1] = stx_ex_mod(t->l->ex, m->point[0], heads);
	of_y[n - 1] = m->point[1];
	uint32_t hidden = put_load(&y->body, h, stx_ex_subst(t->l->ex, at, of_y, n));
	uint32_t zero = stx__put_number(&y->body, y->dtype, (union stx_scalar){ .f = 0 });
	uint32_t shown = put_load(&y->body, y1, y1->store);
	return finish_body(t, &y->body,
			   stx__put(&y->body, STX_P_SELECT, y->dtype, hidden, zero, shown));
}

stx_err stx__insert_masks(struct stx_loops *l, const struct stx__masks *masks)
{
	struct stx__inserting t = { .l = l };
	for (uint32_t i = 0; i < masks->n; i++) {
		const struct stx__mask *m = &masks->at[i];
		struct stx_buffer *x = l->buffers.at[m->x];
		struct stx_buffer *h = NULL;
		stx_ex at = STX_EX_BAD;
		if ((m->is_guarded && !(h = add_hidden(&t, m, x, &at))) ||
		    !add_bias(&t, m, h, at, x) ||
		    (h && !add_guard(&t, m, h, at, x->nranges - 1, l->buffers.at[m->y])))
			return STX_E_NOMEM;
	}
	return masks->n ? stx__insert(&t) : STX_E_OK;
}
