/* attend.c: which products are scores of one attention, computed inside its kernel and never stored.
 *
 * requires: bodies in order. ensures: a product is the scores of at most one ATTEND buffer, its only
 * reader, which reads it at one point; the product's variables there are expressions over those of
 * the reader. One pass over the bodies for readers, one for the buffers. */
#include "build.h"

#define MOST_TERMS 512 /* of a score: blocks of query and key stay in the first caches */

struct finding {
	const struct stx_loops *l;
	struct stx_exprs *x;
	uint32_t *readers; /* [buffers.n] loads of it, in all bodies */
};

static void count_readers(struct finding *f)
{
	for (uint32_t i = 0; i < f->l->buffers.n; i++) {
		const struct stx_body *b = &f->l->buffers.at[i]->body;
		for (uint32_t j = 0; j < b->n; j++)
			if (b->at[j].op == STX_B_LOAD)
				f->readers[b->at[j].a]++;
	}
	for (uint32_t i = 0; i < f->l->outputs.n; i++)
		f->readers[f->l->outputs.at[i]] += 2;
}

int stx__find_point(struct stx_exprs *x, const struct stx_buffer *s, stx_ex e, stx_ex *at)
{
	int64_t stride[STX__MAX_DIMS], size;
	uint32_t order[STX__MAX_DIMS], n = 0;
	stx_ex rest = e;
	for (uint32_t i = 0; i < s->nranges; i++) {
		stx_ex coeff, other;
		at[i] = stx_ex_const(x, 0);
		stride[i] = 0;
		if (stx_ex_equals(x, s->ranges[i], 1))
			continue;
		if (!stx_ex_is_const(x, s->ranges[i], &size) ||
		    !stx_ex_linear_in(x, s->store, i, &coeff, &other) ||
		    !stx_ex_is_const(x, coeff, &stride[i]) || stride[i] < 1)
			return 0;
		uint32_t j = n++;
		for (; j > 0 && stride[order[j - 1]] < stride[i]; j--)
			order[j] = order[j - 1];
		order[j] = i;
	}
	for (uint32_t j = 0; j < n; j++) {
		stx_ex d = stx_ex_const(x, stride[order[j]]);
		at[order[j]] = stx_ex_floordiv(x, rest, d);
		rest = stx_ex_mod(x, rest, d);
	}
	for (uint32_t i = 0; i < s->nranges; i++)
		if (at[i] == STX_EX_BAD)
			return 0;
	return stx_ex_subst(x, s->store, at, s->nranges) == e;
}

static int is_product(const struct finding *f, const struct stx_buffer *s)
{
	int64_t terms;
	return s->def == STX_DEF_REDUCTION && s->monoid == STX_MONOID_DOT &&
	       s->kind == STX_BUF_TEMP && !s->base && !s->heir && s->nrranges == 1 &&
	       s->rlimit == STX_EX_BAD && !s->is_merge && stx_dtype_is_float(s->acc) &&
	       f->readers[s->id] == 1 && stx_ex_is_const(f->x, s->rranges[0], &terms) &&
	       terms >= 1 && terms <= MOST_TERMS;
}

/* A row's number and a key's are not in one variable of s, so that a tile of scores is a tile of
 * products; and the value's columns in none. */
static int is_tile(struct finding *f, const struct stx_buffer *b, const struct stx_buffer *s,
		   const stx_ex *at)
{
	uint32_t row = b->nranges - 2, col = row + 1, key = b->nranges;
	for (uint32_t i = 0; i < s->nranges; i++)
		if (stx_ex_uses_var(f->x, at[i], col) ||
		    (stx_ex_uses_var(f->x, at[i], row) && stx_ex_uses_var(f->x, at[i], key)))
			return 0;
	return 1;
}

static stx_err find(struct finding *f, const struct stx_buffer *b, struct stx__scores *out)
{
	if (b->def != STX_DEF_REDUCTION || b->monoid != STX_MONOID_ATTEND)
		return STX_E_OK;
	for (uint32_t j = 0; j < b->body.n; j++) {
		const struct stx_binst *in = &b->body.at[j];
		const struct stx_buffer *s = in->op == STX_B_LOAD ? f->l->buffers.at[in->a] : NULL;
		if (!s || in->c != STX_NONE || !is_product(f, s) || s->acc != b->acc)
			continue;
		stx_ex *at = STX_NEW_ARRAY(f->l->g->arena, stx_ex, s->nranges + 1);
		if (!at)
			return STX_E_NOMEM;
		if (!stx__find_point(f->x, s, in->ex, at) || !is_tile(f, b, s, at))
			continue;
		*out = (struct stx__scores){ s, at };
		return STX_E_OK;
	}
	return STX_E_OK;
}

stx_err stx__find_scores(const struct stx_loops *l, struct stx__scores **out)
{
	struct stx_arena *a = l->g->arena;
	struct finding f = { .l = l,
			     .x = l->ex,
			     .readers = STX_NEW_ARRAY(a, uint32_t, l->buffers.n + 1) };
	stx_err e = STX_E_OK;
	*out = STX_NEW_ARRAY(a, struct stx__scores, l->buffers.n + 1);
	if (!f.readers || !*out)
		return STX_E_NOMEM;
	count_readers(&f);
	for (uint32_t i = 0; i < l->buffers.n && !e; i++)
		e = find(&f, l->buffers.at[i], &(*out)[i]);
	return e;
}
