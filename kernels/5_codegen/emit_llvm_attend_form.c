/* emit_llvm_attend_form.c: whether a kernel is an attention (emit_llvm_attend.c), what its holes are,
 * and where its blocks stand in the scratch.
 *
 * requires: stx_kernel_verify. ensures: sizes depend on the kernel and the level only, so that the
 * plan and the code agree on the scratch. One pass over the instructions, one a hole. */
#include <string.h>

#include "emit_llvm_blocks.h"

#define MAX_ROWS   1024
#define MAX_COLS   1024
#define MAX_TERMS  1024
#define MOST_LOADS 4  /* of a score that are transposed */
#define PAD        16 /* elements between rows: powers of two would share cache sets */

struct form {
	struct nest nest; /* rows, columns, keys, terms */
	struct stx__attend *t;
};

static int see_acc(struct form *f, uint32_t n)
{
	const struct stx_kinst *i = &f->nest.k->insts.at[n];
	struct stx__attend *t = f->t;
	if (f->nest.depth == 2 && i->flags == STX_MONOID_ATTEND && t->acc == STX_NONE) {
		t->acc = n;
		return 1;
	}
	if (f->nest.depth != 3 || i->flags != STX_MONOID_DOT || i->axis != STX_ORDER_PLAIN ||
	    t->sacc != STX_NONE || t->acc == STX_NONE ||
	    i->dtype != f->nest.k->insts.at[t->acc].dtype)
		return 0;
	t->sacc = n;
	return 1;
}

static int see_result(struct form *f, uint32_t n)
{
	const struct stx_kinst *i = &f->nest.k->insts.at[n];
	if (i->a == f->t->sacc) {
		int first = f->t->sresult == STX_NONE;
		f->t->sresult = n;
		return f->nest.depth == 3 && first;
	}
	if (f->t->safe > 1) /* the first of them */
		f->t->safe = i->flags;
	return f->nest.depth == 2 && f->t->safe == i->flags;
}

static int see(struct form *f, uint32_t n)
{
	const struct stx_kinst *i = &f->nest.k->insts.at[n];
	switch (i->op) {
	case STX_K_LOOP: return stx__see_loop(&f->nest, n, 4);
	case STX_K_END: return stx__see_end(&f->nest, n);
	case STX_K_ACC: return see_acc(f, n);
	case STX_K_UPDATE:
		if (i->a == f->t->acc)
			f->t->update = n;
		else
			f->t->supdate = n;
		return f->nest.depth == (i->a == f->t->acc ? 3u : 4u);
	case STX_K_RESULT: return see_result(f, n);
	case STX_K_STORE: return f->nest.depth == 2 && f->t->update != STX_NONE;
	case STX_K_SORT: return 0;
	default: return 1;
	}
}

/* A load of the score contiguous along the keys and not along the rows, as wide as a score once it is
 * in registers. */
static int is_across(const struct stx_kernel *k, const struct stx__attend *t, uint32_t n)
{
	const struct stx_kinst *i = &k->insts.at[n];
	uint32_t row = k->insts.at[t->rows].a, key = k->insts.at[t->keys].a;
	enum stx_dtype d = (enum stx_dtype)i->dtype;
	stx_ex coeff, rest;
	int64_t one;
	if (i->c != STX_NONE || !stx_ex_uses_var(k->ex, i->ex, row) ||
	    stx_ex_uses_kind(k->ex, i->ex, STX_ATOM_INDIRECT) ||
	    !stx_ex_linear_in(k->ex, i->ex, key, &coeff, &rest) || !stx_ex_equals(k->ex, coeff, 1))
		return 0;
	if (stx_ex_linear_in(k->ex, i->ex, row, &coeff, &rest) &&
	    stx_ex_is_const(k->ex, coeff, &one) && one == 1)
		return 0;
	return d == STX_BOOL || d == t->dtype || (stx__is_narrow(d) && t->dtype == STX_F32);
}

/* What the holes read is written nowhere in the kernel; of the scores' own loads, those along rows. */
static int check_loads(const struct stx_kernel *k, struct stx__attend *t)
{
	uint32_t row = k->insts.at[t->rows].a;
	t->masked_rows = 0;
	for (uint32_t n = t->rows; n < t->update; n++) {
		const struct stx_kinst *i = &k->insts.at[n];
		if (i->op == STX_K_INDIRECT && t->in[STX__SCORE][n])
			t->masked_rows = 1;
		if (i->op != STX_K_LOAD)
			continue;
		for (int j = 0; j < STX__HOLES; j++)
			if (t->in[j] && t->in[j][n] && k->params.at[i->a].is_written)
				return 0;
		if (!t->in[STX__SCORE][n] || !stx_ex_uses_var(k->ex, i->ex, row))
			continue;
		if (t->nacross < MOST_LOADS && is_across(k, t, n))
			t->across[n] = (uint8_t)++t->nacross;
		else
			t->masked_rows = 1;
	}
	return 1;
}

static int find_holes(const struct stx_kernel *k, struct stx__attend *t, struct stx_arena *arena)
{
	const struct stx_kinst *in = k->insts.at;
	uint64_t row = (uint64_t)1 << in[t->rows].a, col = (uint64_t)1 << in[t->cols].a,
		 key = (uint64_t)1 << in[t->keys].a, vars[STX__HOLES] = { 0 };
	int products = t->sacc != STX_NONE;
	t->value[STX__VALUE] = in[t->update].c;
	t->value[STX__SCORE] = in[t->update].b;
	t->was = STX_NEW_ARRAY(arena, uint8_t, k->insts.n);
	t->across = STX_NEW_ARRAY(arena, uint8_t, k->insts.n);
	for (int j = products ? 0 : STX__VALUE; j < STX__HOLES; j++) {
		t->in[j] = STX_NEW_ARRAY(arena, uint8_t, k->insts.n);
		if (!t->in[j] || !t->was || !t->across)
			return 0;
		if (j < STX__VALUE)
			t->value[j] = j ? in[t->supdate].c : in[t->supdate].b;
		vars[j] = stx__mark_hole(k, t->rows, t->value[j], t->in[j]);
	}
	if (products && (vars[STX__QUERY] & key)) { /* a product is the same either way */
		uint8_t *was = t->in[0];
		t->in[0] = t->in[1];
		t->in[1] = was;
		t->value[0] = in[t->supdate].c;
		t->value[1] = in[t->supdate].b;
		uint64_t v = vars[0];
		vars[0] = vars[1];
		vars[1] = v;
	}
	if ((vars[STX__QUERY] & (key | col)) || (vars[STX__KEY] & (row | col)) ||
	    (vars[STX__VALUE] & row) || (vars[STX__SCORE] & col) || !check_loads(k, t))
		return 0;
	for (int j = 0; j < STX__VALUE && products; j++)
		t->by_terms[j] = (uint8_t)stx__hole_is_contiguous(k, t->in[j], t->rows, t->supdate,
								  in[t->terms].a);
	return 1;
}

static int64_t take(int64_t *end, int64_t elems, unsigned bytes)
{
	int64_t at = *end;
	*end += round_up(elems * bytes, 64);
	return at;
}

static void choose_sizes(const struct stx_cpu_target *target, struct stx__attend *t)
{
	int64_t end = 0, wide;
	t->bytes = (unsigned)stx_dtype_bytes(t->dtype);
	t->w = target->vector_bytes / t->bytes;
	t->nv = 2;
	t->mr = target->level >= 4 ? 8 : 4;
	t->panel = t->nv * t->w;
	t->npanels = (t->most_rows + t->panel - 1) / t->panel;
	wide = round_up(t->ncols, t->w > t->mr ? t->w : t->mr);
	t->key_pitch =
		t->by_terms[STX__KEY] ? round_up(t->nterms, PAD) + PAD : STX_ATTEND_BLOCK + PAD;
	t->value_pitch = wide + PAD;
	t->wide = wide;
	t->q = take(&end, t->npanels * t->nterms * t->panel, t->bytes);
	t->s = take(&end, (int64_t)STX_ATTEND_BLOCK * t->panel, t->bytes);
	t->m = take(&end, t->npanels * t->panel, t->bytes);
	t->l = take(&end, t->npanels * t->panel, t->bytes);
	t->o = take(&end, t->npanels * wide * t->panel, t->bytes);
	t->key = take(&end,
		      t->nterms ? (t->by_terms[STX__KEY] ? STX_ATTEND_BLOCK : t->nterms) *
					  t->key_pitch
				: 0,
		      t->bytes);
	t->val = take(&end, STX_ATTEND_BLOCK * t->value_pitch, t->bytes);
	t->out = take(&end, t->panel * t->value_pitch, t->bytes);
	t->masks = take(&end, (int64_t)t->nacross * STX_ATTEND_BLOCK * t->panel, t->bytes);
	t->scratch = end;
}

int stx__attend_find(const struct stx_kernel *k, const struct stx_cpu_target *target,
		     struct stx_arena *arena, struct stx__attend *t)
{
	struct form f = { .nest = { .k = k }, .t = t };
	memset(t, 0, sizeof *t);
	t->acc = t->update = t->sacc = t->supdate = t->sresult = t->terms = STX_NONE;
	t->safe = 2;
	for (uint32_t n = 0; n < k->insts.n; n++)
		if (!see(&f, n))
			return 0;
	if (f.nest.nloops < 3 || t->acc == STX_NONE || t->update == STX_NONE ||
	    (f.nest.nloops == 4) != (t->sacc != STX_NONE && t->supdate != STX_NONE) || t->safe > 1)
		return 0;
	t->rows = f.nest.open[0];
	t->cols = f.nest.open[1];
	t->keys = f.nest.open[2];
	if (f.nest.nloops == 4)
		t->terms = f.nest.open[3];
	t->dtype = (enum stx_dtype)k->insts.at[t->acc].dtype;
	t->most_rows = stx_ex_interval(k->ex, axis_of(k, t->rows)->size).hi;
	if (t->most_rows < 1 || t->most_rows > MAX_ROWS ||
	    !stx_ex_is_const(k->ex, axis_of(k, t->cols)->size, &t->ncols) || t->ncols < 1 ||
	    t->ncols > MAX_COLS)
		return 0;
	if (f.nest.nloops == 4 &&
	    (!stx_ex_is_const(k->ex, axis_of(k, t->terms)->size, &t->nterms) || t->nterms < 1 ||
	     t->nterms > MAX_TERMS))
		return 0;
	if (!find_holes(k, t, arena))
		return 0;
	choose_sizes(target, t);
	return 1;
}
