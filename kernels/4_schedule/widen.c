/* widen.c: products of an f32 and a half operand read a widened copy of the half one (issue 4,
 * external calls).
 *
 * Widening is exact and the sum is f32's in any order, so the library's product of two f32
 * matrices is what strict says (kernels/NUMERICS.md); it has none of two types. Attention's
 * weights, which strict keeps in f32, times its values are such products. requires: as product.c.
 * ensures: for each such product with rows enough to pay for the copy, a dense buffer before it
 * with the operand's dimensions in the order of its strides, which it reads. One pass over the
 * buffers. */
#include "product.h"
#include "sat.h"

#define MIN_WORK ((int64_t)1 << 22)
#define MIN_USES 16 /* of each element */

struct mixed {
	struct stx_buffer *b;
	uint32_t which, load; /* result of b's body, its load */
	stx_ex at[STX_MAX_DIMS + 1], rest;
	uint32_t dim[3], ndims; /* b's variables that the operand has */
};

/* The unmasked load behind result i; b's body is over f32. */
static uint32_t load_of(const struct stx_buffer *b, uint32_t i)
{
	uint32_t at = b->body.result[i];
	if (b->body.at[at].op == STX_P_CAST)
		at = b->body.at[at].a;
	return b->body.at[at].op == STX_B_LOAD && b->body.at[at].c == STX_NONE ? at : STX_NONE;
}

static int is_half(const struct stx_binst *load)
{
	return load->dtype == STX_F16 || load->dtype == STX_BF16;
}

static int find_mixed(const struct stx_buffer *b, uint32_t *which, uint32_t *load)
{
	if (b->def != STX_DEF_REDUCTION || b->monoid != STX_MONOID_DOT || b->acc != STX_F32 ||
	    b->body.nresults != 2 || b->nranges < 2 || b->nranges > 3 || b->nrranges != 1 ||
	    b->base || b->message || b->is_merge || b->rlimit != STX_EX_BAD)
		return 0;
	uint32_t l[2] = { load_of(b, 0), load_of(b, 1) };
	if (l[0] == STX_NONE || l[1] == STX_NONE)
		return 0;
	*which = is_half(&b->body.at[l[1]]);
	*load = l[*which];
	return is_half(&b->body.at[*load]) && b->body.at[l[!*which]].dtype == STX_F32;
}

/* The operand's dimensions, of the greatest stride first; the other operand alone has the rest. */
static int find_dims(const struct stx__finding *f, struct mixed *m)
{
	const struct stx_buffer *b = m->b;
	int64_t work = stx_ex_hint(f->ex, b->rranges[0]), uses = 1;
	if (!stx__affine(f, b->body.at[m->load].ex, b->nranges + 1, m->at, &m->rest))
		return 0;
	for (uint32_t v = 0; v <= b->nranges; v++) {
		int64_t size = v < b->nranges ? stx_ex_hint(f->ex, b->ranges[v]) : 1;
		work = stx_sat_mul(work, size);
		if (stx_ex_equals(f->ex, m->at[v], 0)) {
			uses = stx_sat_mul(uses, size);
			continue;
		}
		if (m->ndims == 3)
			return 0;
		uint32_t i = m->ndims++;
		for (; i && stx_ex_hint(f->ex, m->at[m->dim[i - 1]]) < stx_ex_hint(f->ex, m->at[v]);
		     i--)
			m->dim[i] = m->dim[i - 1];
		m->dim[i] = v;
	}
	return m->ndims >= 2 && work >= MIN_WORK && uses >= MIN_USES;
}

static int widen(struct stx__inserting *t, const struct mixed *m)
{
	struct stx_exprs *x = t->l->ex;
	struct stx_arena *a = t->l->g->arena;
	struct stx_buffer *b = m->b;
	const struct stx_binst *load = &b->body.at[m->load];
	struct stx_buffer *w = stx__new_before(t, b, "widened", STX_F32, STX_REALIZED_WIDENED);
	struct stx_binst *insts = STX_NEW_ARRAY(a, struct stx_binst, b->body.n);
	stx_ex *sizes = STX_NEW_ARRAY(a, stx_ex, 3), from = m->rest, to = stx_ex_const(x, 0);
	if (!w || !insts || !sizes || !(w->body.at = STX_NEW_ARRAY(a, struct stx_binst, 2)))
		return 0;
	for (uint32_t i = 0; i < m->ndims; i++) {
		uint32_t v = m->dim[i];
		sizes[i] = v < b->nranges ? b->ranges[v] : b->rranges[0];
		from = stx_ex_add(x, from, stx_ex_mul(x, stx_ex_var(x, i, sizes[i]), m->at[v]));
	}
	if (!stx__dense_layout(t, w, sizes, m->ndims))
		return 0;
	for (uint32_t i = 0; i < m->ndims; i++)
		to = stx_ex_add(
			x, to,
			stx_ex_mul(x, stx_ex_var(x, m->dim[i], sizes[i]), w->layout.strides[i]));
	uint32_t half =
		stx__put_load(&w->body, load->a, (enum stx_dtype)load->dtype, from, STX_NONE);
	w->body.result[0] = stx__put(&w->body, STX_P_CAST, STX_F32, half, STX_NONE, STX_NONE);
	w->body.nresults = 1;
	for (uint32_t i = 0; i < b->body.n; i++)
		insts[i] = b->body.at[i];
	insts[m->load].dtype = STX_F32;
	insts[m->load].a = w->id;
	insts[m->load].ex = to;
	b->body.at = insts;
	b->body.result[m->which] = m->load;
	return from != STX_EX_BAD && to != STX_EX_BAD && !stx__order_body(t->l, &b->body);
}

stx_err stx__widen_operands(struct stx_loops *l, struct stx_diag *d)
{
	struct stx__finding f = { .l = l, .ex = l->ex, .arena = l->g->arena };
	struct stx__inserting in = { .l = l };
	int ok = 1;
	for (uint32_t i = 0; i < l->buffers.n && ok; i++) {
		struct mixed m = { .b = l->buffers.at[i] };
		if (find_mixed(m.b, &m.which, &m.load) && find_dims(&f, &m))
			ok = widen(&in, &m);
	}
	if (ok && in.added.n)
		ok = !stx__insert(&in);
	return ok ? STX_E_OK
		  : stx_fail(d, STX_E_NOMEM, "schedule", NULL, "the memory budget is exceeded");
}
