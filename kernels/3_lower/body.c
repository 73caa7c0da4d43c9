/* body.c
 * plays an inner function once into a flat SSA body: the recording handler (seed 000 6.8; LN-01,
 * IR-09).
 *
 * Requires: expressions over the function's own variables. Ensures: instructions in evaluation
 * order, operands first, every index expression simplified; loads below a condition carry its mask.
 * Sub-terms are not shared (LO-29): operands of one record are played once each, so the size is
 * what the record's counts say, and realise.c bounds those. Terminates because records form a DAG;
 * the work stack is explicit, so depth is bounded by memory only. */

#include "lower.h"

struct frame {
	const struct stx__inner *fn;
	const stx_ex *idx; /* [fn->rank]; NULL: the identity */
	uint32_t mask;     /* instruction, or STX_NONE */
	uint32_t next;     /* operand to play next */
	uint32_t base;     /* values below belong to frames below */
	stx_ex *at;        /* INDIRECT: what each index operand became */
};

struct player {
	struct stx_graph *g;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	STX_VEC(struct stx_binst) insts;
	STX_VEC(struct stx_interval) ranges; /* of the instructions' values */
	STX_VEC(struct frame) frames;
	STX_VEC(uint32_t) values;
	int bad_index, oom;
};

static const struct stx_interval anything = { STX_NEG_INF, STX_POS_INF };

static uint32_t emit(struct player *p, struct stx_binst i, struct stx_interval r)
{
	if (stx_push(p->arena, &p->insts, i) || stx_push(p->arena, &p->ranges, r)) {
		p->oom = 1;
		return 0;
	}
	return p->insts.n - 1;
}

static uint32_t emit_prim(struct player *p, enum stx_prim op, enum stx_dtype t, uint32_t a,
			  uint32_t b, uint32_t c)
{
	struct stx_interval ra = p->ranges.at[a];
	struct stx_interval rb = b == STX_NONE ? anything : p->ranges.at[b];
	struct stx_interval rc = c == STX_NONE ? anything : p->ranges.at[c];

	return emit(p,
		    (struct stx_binst){
			    .op = (uint8_t)op, .dtype = (uint8_t)t, .a = a, .b = b, .c = c },
		    stx__range_prim(op, t, p->insts.at[a].dtype, ra, rb, rc));
}

static uint32_t emit_const(struct player *p, enum stx_dtype t, union stx_scalar k)
{
	return emit(p,
		    (struct stx_binst){ .op = STX_B_CONST,
					.dtype = (uint8_t)t,
					.a = STX_NONE,
					.b = STX_NONE,
					.c = STX_NONE,
					.k = k },
		    stx__range_const(t, k));
}

/* A constant expression is a constant instruction. */
static uint32_t emit_index(struct player *p, enum stx_dtype t, stx_ex e)
{
	int64_t v;

	if (stx_ex_is_const(p->ex, e, &v))
		return emit_const(p, t, (union stx_scalar){ .i = v });
	p->bad_index |= e == STX_EX_BAD;
	return emit(p,
		    (struct stx_binst){ .op = STX_B_INDEX,
					.dtype = (uint8_t)t,
					.a = STX_NONE,
					.b = STX_NONE,
					.c = STX_NONE,
					.ex = e },
		    stx_ex_interval(p->ex, e));
}

static uint32_t and_mask(struct player *p, uint32_t a, uint32_t b)
{
	return a == STX_NONE   ? b
	       : b == STX_NONE ? a
			       : emit_prim(p, STX_P_AND, STX_BOOL, a, b, STX_NONE);
}

static stx_ex at_index(struct player *p, const struct frame *f, stx_ex e)
{
	stx_ex r = f->idx ? stx_ex_subst(p->ex, e, f->idx, f->fn->rank) : e;

	p->bad_index |= r == STX_EX_BAD;
	return r;
}

static void push_value(struct player *p, uint32_t v)
{
	if (stx_push(p->arena, &p->values, v))
		p->oom = 1;
}

static void push_frame(struct player *p, const struct stx__inner *fn, const stx_ex *idx,
		       uint32_t mask)
{
	struct frame f = { .fn = fn, .idx = idx, .mask = mask, .base = p->values.n };

	if (stx_push(p->arena, &p->frames, f))
		p->oom = 1;
}

static void finish(struct player *p, uint32_t value)
{
	p->values.n = p->frames.at[p->frames.n - 1].base;
	p->frames.n--;
	push_value(p, value);
}

static void play_load(struct player *p, const struct frame *f)
{
	struct stx_interval r = f->fn->u.load.range;

	if (f->mask != STX_NONE) { /* masked-off lanes give 0 */
		r.lo = r.lo > 0 ? 0 : r.lo;
		r.hi = r.hi < 0 ? 0 : r.hi;
	}
	finish(p, emit(p,
		       (struct stx_binst){ .op = STX_B_LOAD,
					   .dtype = f->fn->dtype,
					   .a = f->fn->u.load.buffer,
					   .b = STX_NONE,
					   .c = f->mask,
					   .ex = at_index(p, f, f->fn->u.load.ex) },
		       r));
}

static void play_map(struct player *p)
{
	struct frame *f = &p->frames.at[p->frames.n - 1];
	const struct stx__inner *fn = f->fn;
	uint32_t i, nops = fn->nops;
	uint32_t *v;

	if (f->next < nops) {
		push_frame(p, fn->operands[f->next++], f->idx, f->mask);
		return;
	}
	for (i = 0; i < fn->u.steps.n && !p->oom; i++) {
		const struct stx__step *s = &fn->u.steps.at[i];
		int arity = s->op < STX_PRIM_COUNT ? stx_prim_info(s->op)->arity : 0;

		v = p->values.at + p->frames.at[p->frames.n - 1].base;
		push_value(p, arity == 0 ? emit_const(p, s->dtype, s->k)
					 : emit_prim(p, s->op, s->dtype, v[s->a],
						     arity > 1 ? v[s->b] : STX_NONE,
						     arity > 2 ? v[s->c] : STX_NONE));
	}
	if (!p->oom)
		finish(p, p->values.at[p->values.n - 1]);
}

static void play_view(struct player *p)
{
	struct frame *f = &p->frames.at[p->frames.n - 1];
	const struct stx__inner *op = f->fn->operands[0];
	stx_ex *idx = STX_NEW_ARRAY(p->arena, stx_ex, op->rank + 1u);
	uint32_t d;

	if (!idx) {
		p->oom = 1;
		return;
	}
	for (d = 0; d < op->rank; d++)
		idx[d] = at_index(p, f, f->fn->u.map[d]);
	f->fn = op;
	f->idx = idx;
}

/* 1 proven, -1 refuted, 0 must be tested at run time. */
static int decide(struct player *p, stx_ex e, stx_ex bound, int at_least)
{
	struct stx_interval r = stx_ex_interval(p->ex, stx_ex_sub(p->ex, e, bound));

	if (at_least)
		return r.lo >= 0 ? 1 : r.hi < 0 ? -1 : 0;
	return r.hi < 0 ? 1 : r.lo >= 0 ? -1 : 0;
}

static uint32_t test(struct player *p, stx_ex e, stx_ex bound, enum stx_prim op)
{
	uint32_t a = emit_index(p, STX_I64, e), b = emit_index(p, STX_I64, bound);

	return emit_prim(p, op, STX_BOOL, a, b, STX_NONE);
}

/* Emits what of the conditions is not proven into *cond (STX_NONE when nothing is); 0 when refuted.
 */
static int play_conds(struct player *p, const struct frame *f, const struct stx__piece *piece,
		      uint32_t *cond)
{
	uint32_t i;
	int side;

	*cond = STX_NONE;
	for (i = 0; i < piece->nconds; i++)
		for (side = 0; side < 2; side++) {
			const struct stx__cond *c = &piece->conds[i];
			stx_ex bound = side ? c->hi : c->lo;

			if (bound != STX_EX_BAD &&
			    decide(p, at_index(p, f, c->e), at_index(p, f, bound), !side) < 0)
				return 0;
		}
	for (i = 0; i < piece->nconds; i++)
		for (side = 0; side < 2; side++) {
			const struct stx__cond *c = &piece->conds[i];
			stx_ex bound = side ? c->hi : c->lo;
			stx_ex e = at_index(p, f, c->e);

			if (bound == STX_EX_BAD || decide(p, e, at_index(p, f, bound), !side) > 0)
				continue;
			*cond = and_mask(
				p, *cond,
				test(p, e, at_index(p, f, bound), side ? STX_P_LT : STX_P_GE));
		}
	return 1;
}

/* Whether fn reads memory or checks an index, so that lanes where it is not wanted must be masked.
 */
static int needs_mask(const struct stx__inner *fn)
{
	return fn->reads || fn->used[STX_B_INDIRECT / 64] >> STX_B_INDIRECT % 64 & 1;
}

/* The value stack above base holds (condition, value) pairs; the first piece whose condition is
 * proven, or the last, is the else branch. */
static void play_pieces(struct player *p)
{
	struct frame *f = &p->frames.at[p->frames.n - 1];
	const struct stx__inner *fn = f->fn;
	uint32_t r, i, cond, *v;

	while (f->next < fn->nops && !p->oom) {
		uint32_t k = f->next++;

		if (k + 1 == fn->nops && !needs_mask(fn->operands[k])) {
			cond = STX_NONE; /* the default touches no memory: nothing to guard */
		} else if (!play_conds(p, f, &fn->u.pieces[k], &cond)) {
			continue;
		} else if (cond == STX_NONE) {
			f->next = fn->nops;
		}
		push_value(p, cond);
		push_frame(p, fn->operands[k], f->idx,
			   needs_mask(fn->operands[k]) ? and_mask(p, f->mask, cond) : f->mask);
		return;
	}
	if (p->oom)
		return;
	if (p->values.n == f->base) { /* an empty index space: every piece is refuted */
		finish(p, emit_const(p, fn->dtype, (union stx_scalar){ .u = 0 }));
		return;
	}
	v = p->values.at + f->base;
	i = p->values.n - f->base;
	for (r = v[i - 1]; i > 2; i -= 2)
		r = emit_prim(p, STX_P_SELECT, fn->dtype, v[i - 4], v[i - 3], r);
	finish(p, r);
}

/* Turns run-time value v into an index in [0, bound), with what repair and check it needs (VR-05).
 */
static stx_ex make_indirect(struct player *p, uint32_t v, stx_ex bound,
			    const struct stx__index *how, uint32_t mask)
{
	struct stx_interval r, b = stx_ex_interval(p->ex, bound);
	uint8_t flags = how->flags;
	uint32_t at;

	if (p->oom)
		return STX_EX_BAD;
	r = p->ranges.at[v];
	if (p->insts.at[v].dtype != STX_I64)
		v = emit_prim(p, STX_P_CAST, STX_I64, v, STX_NONE, STX_NONE);
	if (r.lo >= 0)
		flags &= (uint8_t)~STX_BF_WRAP;
	if (!(flags & STX_BF_WRAP) && r.lo >= 0 && r.hi < b.lo)
		flags &= (uint8_t)~STX_BF_CHECK;
	if ((flags & STX_BF_WRAP) && r.lo >= -b.lo && r.hi < b.lo)
		flags &= (uint8_t)~STX_BF_CHECK;
	at = emit(p,
		  (struct stx_binst){ .op = STX_B_INDIRECT,
				      .dtype = STX_I64,
				      .flags = flags,
				      .axis = how->dim,
				      .a = v,
				      .b = STX_NONE,
				      .c = mask,
				      .ex = bound },
		  (struct stx_interval){ 0, b.hi - 1 });
	return stx_ex_indirect(p->ex, at,
			       (struct stx_interval){ 0, b.hi == STX_POS_INF ? STX_POS_INF
							 : b.hi > 0          ? b.hi - 1
									     : 0 });
}

/* An index known as an expression over loop variables and proven in range is used as it is (VR-06).
 */
static stx_ex known_index(struct player *p, const struct frame *f, const struct stx__inner *index,
			  const struct stx__index *how, stx_ex bound)
{
	stx_ex e, wrapped;

	if (index->rule == STX_IN_CONST)
		e = stx_ex_const(p->ex, index->u.k.i);
	else if (index->rule == STX_IN_INDEX)
		e = at_index(p, f, index->u.ex);
	else
		return STX_EX_BAD;
	if (e == STX_EX_BAD)
		return e;
	wrapped = stx_ex_interval(p->ex, e).hi < 0 && (how->flags & STX_BF_WRAP)
			  ? stx_ex_add(p->ex, e, bound)
			  : e;
	if (stx_ex_interval(p->ex, wrapped).lo >= 0 && decide(p, wrapped, bound, 0) > 0)
		return wrapped;
	return STX_EX_BAD;
}

/* Plays the index operands, then becomes the indexed operand at the indices found. */
static void play_indirect(struct player *p)
{
	struct frame *f = &p->frames.at[p->frames.n - 1];
	const struct stx__inner *fn = f->fn, *op = fn->operands[0];
	uint32_t d, n = fn->nops - 1;
	stx_ex *idx;

	if (!f->at && !(f->at = STX_NEW_ARRAY(p->arena, stx_ex, n + 1)))
		goto oom;
	if (p->values.n > f->base) { /* operand f->next was just played */
		const struct stx__index *how = &fn->u.indirect.at[f->next - 1];

		f->at[f->next - 1] = make_indirect(p, p->values.at[p->values.n - 1],
						   at_index(p, f, how->bound), how, f->mask);
		p->values.n = f->base;
	}
	while (f->next < n) {
		const struct stx__index *how = &fn->u.indirect.at[f->next];
		const struct stx__inner *index = fn->operands[++f->next];

		f->at[f->next - 1] = known_index(p, f, index, how, at_index(p, f, how->bound));
		if (f->at[f->next - 1] == STX_EX_BAD) {
			push_frame(p, index, f->idx, f->mask);
			return;
		}
	}
	idx = STX_NEW_ARRAY(p->arena, stx_ex, op->rank + 1u);
	if (!idx)
		goto oom;
	for (d = 0; d < op->rank; d++) {
		/* own variables first: the values put in for them may hold indirect atoms of this
		 * body, which number instructions and must not be taken for operand numbers */
		stx_ex e = fn->u.indirect.map[d];
		uint32_t k = stx_ex_uses_kind(p->ex, e, STX_ATOM_INDIRECT);

		idx[d] = k ? stx_ex_subst_kind(p->ex, e, STX_ATOM_INDIRECT, f->at, n)
			   : at_index(p, f, e);
		p->bad_index |= idx[d] == STX_EX_BAD;
	}
	f->fn = op;
	f->idx = idx;
	f->next = 0;
	f->at = NULL;
	return;
oom:
	p->oom = 1;
}

static void step(struct player *p)
{
	const struct frame *f = &p->frames.at[p->frames.n - 1];

	switch (f->fn->rule) {
	case STX_IN_LOAD: play_load(p, f); break;
	case STX_IN_CONST: finish(p, emit_const(p, f->fn->dtype, f->fn->u.k)); break;
	case STX_IN_INDEX:
		finish(p, emit_index(p, f->fn->dtype, at_index(p, f, f->fn->u.ex)));
		break;
	case STX_IN_MAP: play_map(p); break;
	case STX_IN_VIEW: play_view(p); break;
	case STX_IN_PIECES: play_pieces(p); break;
	default: play_indirect(p);
	}
}

/* The instruction that is fn's value. */
static uint32_t play(struct player *p, const struct stx__inner *fn)
{
	push_frame(p, fn, NULL, STX_NONE);
	while (p->frames.n && !p->oom)
		step(p);
	return p->oom ? 0 : p->values.at[--p->values.n];
}

static stx_err deliver(struct player *p, struct stx_body *out, struct stx_diag *d)
{
	if (p->oom || stx_arena_oom(p->arena))
		return stx_fail(d, STX_E_NOMEM, "lower", "", "out of memory budget");
	if (p->bad_index)
		return stx_fail(d, STX_E_TOO_LARGE, "lower", "",
				"an index expression is too large");
	out->at = p->insts.at;
	out->n = p->insts.n;
	return 0;
}

stx_err stx__body_play(struct stx_graph *g, const struct stx__inner *const *fns, uint32_t nfns,
		       struct stx_body *out, struct stx_diag *d)
{
	struct player p = { .g = g, .ex = g->ex, .arena = g->arena };

	for (out->nresults = 0; out->nresults < nfns; out->nresults++)
		out->result[out->nresults] = play(&p, fns[out->nresults]);
	return deliver(&p, out, d);
}

stx_err stx__body_play_update(struct stx_graph *g, const struct stx__update *u,
			      struct stx_body *out, stx_ex *at, struct stx_diag *d)
{
	struct player p = { .g = g, .ex = g->ex, .arena = g->arena };
	uint32_t k;

	for (k = 0; k < u->nindices && !p.oom; k++) {
		const struct stx__index *how = &u->how[k];
		struct frame f = { .fn = u->index[k] };

		at[k] = known_index(&p, &f, u->index[k], how, how->bound);
		if (at[k] == STX_EX_BAD)
			at[k] = make_indirect(&p, play(&p, u->index[k]), how->bound, how, STX_NONE);
	}
	out->result[0] = play(&p, u->value);
	out->nresults = 1;
	return deliver(&p, out, d);
}
