/* kernel_values.c: value numbering and placement of pure instructions (GK-16, LO-29; loop-invariant
 * code).
 *
 * A value equal to an earlier one is that one: the key is the whole instruction, and operands are
 * value numbers already. Loads are numbered too: what a kernel stores is loaded by it in one later
 * phase at most (values of the same group are passed on, not re-read). Each value goes to the
 * outermost region that has its operands and variables; what a phase computes in its loops is
 * numbered anew by the next. Terminates: every value once. */
#include "build.h"
#include "elementary.h"

static uint32_t *operand(struct stx_kinst *i, int j)
{
	return j == 0 ? &i->a : j == 1 ? &i->b : &i->c;
}

/* Which of a, b, c are values. */
static unsigned value_operands(const struct stx_kinst *i)
{
	if (i->op < STX_PRIM_COUNT)
		return 7;
	switch (i->op) {
	case STX_K_LOAD: return 4;
	case STX_K_STORE: return 6;
	case STX_K_INDIRECT: return 5;
	case STX_K_UPDATE: return 7;
	case STX_K_RESULT: return 1;
	default: return 0;
	}
}

stx_err stx__values_init(struct stx__values *v, struct stx__build *b, struct stx_kernel *k)
{
	memset(v, 0, sizeof *v);
	v->b = b;
	v->k = k;
	v->nslots = 256;
	v->slots = STX_NEW_ARRAY(b->arena, uint32_t, v->nslots); /* temp + 1 */
	return v->slots ? STX_E_OK : STX_E_NOMEM;
}

/* ---- regions ---- */

static uint32_t phase_regions(const struct stx__axes *x)
{
	return x->nnest - x->nout + 1 + (x->attends || x->scans);
}

static uint32_t row_region(const struct stx__axes *x, uint32_t phase)
{
	return x->nout + phase * phase_regions(x);
}

static int is_row_region(const struct stx__axes *x, uint32_t region)
{
	return region >= x->nout && (region - x->nout) % phase_regions(x) == 0;
}

/* Of an attention: of what stands in the loop over keys before a score's terms, and after them; of a
 * scan, what stands after its update. */
static uint32_t keys_region(const struct stx__axes *x, uint32_t phase)
{
	return row_region(x, phase) + 1;
}

static uint32_t after_region(const struct stx__axes *x, uint32_t phase)
{
	return row_region(x, phase) + x->nnest - x->nout + 1;
}

/* From the phase being built: what earlier phases computed in their loops is gone. */
static int is_visible(const struct stx__values *v, uint32_t region)
{
	const struct stx__axes *x = &v->b->axes;
	return region < x->nout || is_row_region(x, region) || region > row_region(x, v->phase);
}

struct region_walk {
	const struct stx__values *v;
	uint32_t region;
};

static stx_err region_atom(void *ctx, const struct stx_ex_atom *a)
{
	struct region_walk *w = ctx;
	const struct stx__axes *x = &w->v->b->axes;
	uint32_t r = 0;
	if (a->kind == STX_ATOM_INDIRECT && a->number < w->v->temps.n)
		r = w->v->temps.at[a->number].region;
	else if (a->kind == STX_ATOM_VAR)
		for (uint32_t i = 0; i < x->nnest; i++)
			if (x->nest[i] == a->number)
				r = i < x->nout ? i + 1
						: row_region(x, w->v->phase) + i - x->nout + 1;
	if (r > w->region)
		w->region = r;
	return STX_E_OK;
}

static uint8_t region_of(const struct stx__values *v, const struct stx_kinst *i)
{
	struct region_walk w = { .v = v };
	if (i->ex != STX_EX_BAD)
		stx__ex_walk(v->b->ex, i->ex, region_atom, &w);
	for (int j = 0; j < 3; j++) {
		uint32_t t = *operand((struct stx_kinst *)i, j);
		if ((value_operands(i) >> j & 1) && t != STX_NONE &&
		    v->temps.at[t].region > w.region)
			w.region = v->temps.at[t].region;
	}
	/* What is needed only in this phase is not kept alive across the loops before it. */
	const struct stx__axes *x = &v->b->axes;
	if (is_row_region(x, w.region) && i->op != STX_K_CONST)
		return (uint8_t)row_region(x, v->phase);
	return (uint8_t)w.region;
}

/* ---- numbering ---- */

static void grow(struct stx__values *v)
{
	uint32_t n = v->nslots * 2;
	uint32_t *slots = STX_NEW_ARRAY(v->b->arena, uint32_t, n);
	if (!slots) {
		v->oom = 1;
		return;
	}
	for (uint32_t i = 0; i < v->nslots; i++) {
		if (!v->slots[i])
			continue;
		uint32_t at = (uint32_t)stx_kinst_hash(&v->temps.at[v->slots[i] - 1].i) & (n - 1);
		while (slots[at])
			at = (at + 1) & (n - 1);
		slots[at] = v->slots[i];
	}
	v->slots = slots;
	v->nslots = n;
}

stx_err stx__values_fail(const struct stx__values *v)
{
	if (v->too_long)
		return stx_fail(v->b->d, STX_E_TOO_LARGE, "schedule", v->b->def->name,
				"the kernel is longer than the limit of %d instructions; split the "
				"operators fused in it",
				STX_KERNEL_MAX_INSTS);
	return stx_fail(v->b->d, STX_E_NOMEM, "schedule", v->b->def->name,
			"the memory budget is exceeded");
}

static uint32_t append(struct stx__values *v, struct stx_kinst i)
{
	struct stx__temp t = { .i = i, .region = region_of(v, &i) };
	v->too_long = v->temps.n >= STX_KERNEL_MAX_INSTS;
	if (v->too_long || stx_push(v->b->arena, &v->temps, t)) {
		v->oom = 1;
		return 0;
	}
	return v->temps.n - 1;
}

static uint32_t number(struct stx__values *v, struct stx_kinst i)
{
	if (v->oom)
		return 0;
	if ((v->temps.n + 1) * 2 > v->nslots)
		grow(v);
	uint32_t mask = v->nslots - 1, at = (uint32_t)stx_kinst_hash(&i) & mask;
	for (; v->slots[at]; at = (at + 1) & mask)
		if (stx_kinst_equal(&v->temps.at[v->slots[at] - 1].i, &i) &&
		    is_visible(v, v->temps.at[v->slots[at] - 1].region))
			return v->slots[at] - 1;
	uint32_t t = append(v, i);
	if (!v->oom)
		v->slots[at] = t + 1;
	return t;
}

static struct stx_kinst inst(int op, enum stx_dtype t)
{
	return (struct stx_kinst){
		.op = (uint8_t)op, .dtype = (uint8_t)t, .a = STX_NONE, .b = STX_NONE, .c = STX_NONE
	};
}

uint32_t stx__value_const(struct stx__values *v, enum stx_dtype t, union stx_scalar k)
{
	struct stx_kinst i = inst(STX_K_CONST, t);
	i.k = k;
	return number(v, i);
}

uint32_t stx__value_index(struct stx__values *v, enum stx_dtype t, stx_ex e)
{
	struct stx_kinst i = inst(STX_K_INDEX, t);
	int64_t c;
	if (stx_ex_is_const(v->b->ex, e, &c)) {
		union stx_scalar k = { .i = c };
		if (stx_dtype_is_float(t))
			k.f = (double)c;
		/* Narrow types round and wrap: left to INDEX. */
		if (t == STX_I64 || (t == STX_F64 && c > -(1ll << 53) && c < (1ll << 53)))
			return stx__value_const(v, t, k);
	}
	i.ex = e;
	return number(v, i);
}

uint32_t stx__value_load(struct stx__values *v, enum stx_dtype t, uint32_t param, stx_ex e,
			 uint32_t mask)
{
	struct stx_kinst i = inst(STX_K_LOAD, t);
	i.a = param;
	i.ex = e;
	i.c = mask;
	return number(v, i);
}

uint32_t stx__value_reload(struct stx__values *v, enum stx_dtype t, uint32_t param, stx_ex e)
{
	const struct stx__axes *x = &v->b->axes;
	struct stx_kinst i = inst(STX_K_LOAD, t);
	i.a = param;
	i.ex = e;
	uint32_t n = append(v, i);
	if (v->oom)
		return 0;
	v->temps.at[n].region = (uint8_t)(row_region(x, v->phase) + x->nnest - x->nout);
	return n;
}

uint32_t stx__value_indirect(struct stx__values *v, const struct stx_binst *from, uint32_t a,
			     uint32_t mask, stx_ex bound)
{
	struct stx_kinst i = inst(STX_K_INDIRECT, STX_I64);
	i.a = a;
	i.c = mask;
	i.ex = bound;
	i.flags = from->flags & (STX_BF_WRAP | STX_BF_CHECK);
	i.axis = from->axis;
	return number(v, i);
}

static struct stx_interval indirect_range(const struct stx_exprs *x, stx_ex bound)
{
	struct stx_interval r = stx_ex_interval(x, bound);
	r.lo = 0;
	r.hi = r.hi == STX_POS_INF ? r.hi : r.hi < 1 ? 0 : r.hi - 1;
	return r;
}

stx_ex stx__indirect_atom(struct stx__values *v, uint32_t temp)
{
	if (v->oom)
		return STX_EX_BAD;
	return stx_ex_indirect(v->b->ex, temp, indirect_range(v->b->ex, v->temps.at[temp].i.ex));
}

uint32_t stx__value_marker(struct stx__values *v, struct stx_kinst i)
{
	uint32_t t = append(v, i);
	if (v->oom)
		return 0;
	v->temps.at[t].region = (uint8_t)row_region(&v->b->axes, v->phase);
	return t;
}

static uint32_t in_region(struct stx__values *v, struct stx_kinst i, uint32_t region)
{
	uint32_t t = append(v, i);
	if (v->oom)
		return 0;
	v->temps.at[t].region = (uint8_t)region;
	return t;
}

uint32_t stx__value_scores(struct stx__values *v, struct stx_kinst i)
{
	return in_region(v, i, keys_region(&v->b->axes, v->phase));
}

uint32_t stx__value_after(struct stx__values *v, struct stx_kinst i)
{
	return in_region(v, i, after_region(&v->b->axes, v->phase));
}

uint32_t stx__value_columns(struct stx__values *v, struct stx_kinst i)
{
	const struct stx__axes *x = &v->b->axes;
	uint32_t t = append(v, i);
	if (v->oom)
		return 0;
	v->temps.at[t].region = (uint8_t)(i.op == STX_K_ACC ? 0 : row_region(x, v->phase) + 1);
	return t;
}

/* ---- primitives ---- */

static uint32_t raw_prim(struct stx__values *v, enum stx_prim op, enum stx_dtype t, uint32_t a,
			 uint32_t b, uint32_t c)
{
	struct stx_kinst i = inst(op, t);
	int arity = stx_prim_info(op)->arity;
	i.a = a;
	i.b = arity > 1 ? b : STX_NONE;
	i.c = arity > 2 ? c : STX_NONE;
	return number(v, i);
}

static stx_ev elem_emit(void *ctx, enum stx_prim op, enum stx_dtype t, stx_ev a, stx_ev b, stx_ev c)
{
	return raw_prim(ctx, op, t, a, b, c);
}

static stx_ev elem_const(void *ctx, enum stx_dtype t, union stx_scalar k)
{
	return stx__value_const(ctx, t, k);
}

/* fast: what a value was in f32 before it was rounded to f16 or bf16, which only stores do (LO-22,
 * LO-23). */
static uint32_t unrounded(const struct stx__values *v, uint32_t a)
{
	const struct stx_kinst *i = &v->temps.at[a].i;
	int is_half = i->dtype == STX_F16 || i->dtype == STX_BF16;
	return v->b->def->fast && is_half && i->op == STX_P_CAST &&
			       v->temps.at[i->a].i.dtype == STX_F32
		       ? i->a
		       : a;
}

uint32_t stx__value_cast(struct stx__values *v, enum stx_dtype t, uint32_t a)
{
	if (v->oom || v->temps.at[a].i.dtype == t)
		return a;
	a = unrounded(v, a);
	if (v->temps.at[a].i.dtype == t)
		return a;
	return raw_prim(v, STX_P_CAST, t, a, STX_NONE, STX_NONE);
}

static uint32_t expand(struct stx__values *v, enum stx_prim op, enum stx_dtype t, uint32_t a,
		       uint32_t b)
{
	struct stx_elem_builder e = { .ctx = v, .emit = elem_emit, .constant = elem_const };
	stx_ev out = 0;
	if (!stx_elementary_expand(&e, op, t, a, b == STX_NONE ? 0 : b, &out)) {
		stx_fail(v->b->d, STX_E_UNSUPPORTED, "schedule", v->b->def->name,
			 "%s has no body for %s", stx_prim_info(op)->text, stx_dtype_name(t));
		v->oom = 1;
		return 0;
	}
	return out;
}

/* t is the result's dtype as recorded in the body. Narrow floats compute in f32 and round once. */
uint32_t stx__value_prim(struct stx__values *v, enum stx_prim op, enum stx_dtype t, uint32_t a,
			 uint32_t b, uint32_t c)
{
	if (v->oom)
		return 0;
	int moves = op == STX_P_SELECT || op == STX_P_CAST || op == STX_P_BITCAST;
	enum stx_dtype from = (enum stx_dtype)v->temps.at[a].i.dtype;
	int arity = stx_prim_info(op)->arity;
	if (op == STX_P_CAST)
		return stx__value_cast(v, t, a);
	if (!moves && stx__dtype_is_narrow_float(from)) {
		uint32_t wide[3] = { a, b, c };
		for (int j = 0; j < arity && j < 3; j++)
			wide[j] = stx__value_cast(v, STX_F32, wide[j]);
		int same_type = stx_prim_info(op)->result == STX_RESULT_SAME;
		uint32_t r = stx__value_prim(v, stx_elementary_for(op, t), same_type ? STX_F32 : t,
					     wide[0], wide[1], wide[2]);
		return same_type ? stx__value_cast(v, t, r) : r;
	}
	return op >= STX_P_FIRST_ELEMENTARY ? expand(v, op, t, a, b) : raw_prim(v, op, t, a, b, c);
}

/* ---- finish ---- */

static stx_err mark_atom(void *ctx, const struct stx_ex_atom *a)
{
	struct stx__values *v = ctx;
	if (a->kind == STX_ATOM_INDIRECT)
		v->temps.at[a->number].live = 1;
	return STX_E_OK;
}

static void mark(struct stx__values *v, const struct stx_kinst *i)
{
	for (int j = 0; j < 3; j++) {
		uint32_t t = *operand((struct stx_kinst *)i, j);
		if ((value_operands(i) >> j & 1) && t != STX_NONE)
			v->temps.at[t].live = 1;
	}
	if (i->ex != STX_EX_BAD && stx_ex_uses_kind(v->b->ex, i->ex, STX_ATOM_INDIRECT))
		stx__ex_walk(v->b->ex, i->ex, mark_atom, v);
}

static void mark_live(struct stx__values *v)
{
	for (uint32_t i = 0; i < v->effects.n; i++)
		mark(v, &v->effects.at[i].i);
	for (uint32_t t = v->temps.n; t-- > 0;) {
		struct stx__temp *p = &v->temps.at[t];
		p->live |= p->i.op == STX_K_INDIRECT && (p->i.flags & STX_BF_CHECK);
		if (p->live)
			mark(v, &p->i);
	}
}

/* Operands and indirect atoms from temps to instruction numbers. */
static stx_ex final_ex(struct stx__values *v, stx_ex e)
{
	if (e == STX_EX_BAD || !stx_ex_uses_kind(v->b->ex, e, STX_ATOM_INDIRECT))
		return e;
	return stx_ex_subst_kind(v->b->ex, e, STX_ATOM_INDIRECT, v->indirects, v->temps.n);
}

static uint32_t put(struct stx__values *v, struct stx_kinst i)
{
	unsigned values = value_operands(&i);
	for (int j = 0; j < 3; j++) {
		uint32_t *t = operand(&i, j);
		if ((values >> j & 1) && *t != STX_NONE)
			*t = v->temps.at[*t].final;
	}
	i.ex = final_ex(v, i.ex);
	v->too_long = v->k->insts.n >= STX_KERNEL_MAX_INSTS;
	if (v->too_long || stx_push(v->b->arena, &v->k->insts, i)) {
		v->oom = 1;
		return 0;
	}
	return v->k->insts.n - 1;
}

struct by_region { /* live temps by region, in order of creation */
	uint32_t *at;
	uint32_t start[STX__REGIONS + 1];
};

static void sort_by_region(struct stx__values *v, struct by_region *r)
{
	memset(r->start, 0, sizeof r->start);
	r->at = STX_NEW_ARRAY(v->b->arena, uint32_t, v->temps.n + 1);
	if (!r->at) {
		v->oom = 1;
		return;
	}
	for (uint32_t t = 0; t < v->temps.n; t++)
		r->start[v->temps.at[t].region + 1] += v->temps.at[t].live;
	for (uint32_t i = 0; i < STX__REGIONS; i++)
		r->start[i + 1] += r->start[i];
	uint32_t next[STX__REGIONS];
	memcpy(next, r->start, sizeof next);
	for (uint32_t t = 0; t < v->temps.n; t++)
		if (v->temps.at[t].live)
			r->at[next[v->temps.at[t].region]++] = t;
}

/* accs: 1 only the accumulators, 0 all but them. */
static void put_region(struct stx__values *v, const struct by_region *r, uint32_t region, int accs)
{
	for (uint32_t j = r->start[region]; j < r->start[region + 1] && !v->oom; j++) {
		struct stx__temp *t = &v->temps.at[r->at[j]];
		if ((t->i.op == STX_K_ACC) != accs)
			continue;
		t->final = put(v, t->i);
		if (t->i.op == STX_K_INDIRECT)
			v->indirects[r->at[j]] = stx_ex_indirect(v->b->ex, t->final,
								 indirect_range(v->b->ex, t->i.ex));
	}
}

static uint32_t put_loop(struct stx__values *v, uint32_t axis)
{
	struct stx_kinst loop = inst(STX_K_LOOP, STX_DTYPE_NONE);
	loop.a = axis;
	return put(v, loop);
}

static void put_end(struct stx__values *v, uint32_t loop)
{
	struct stx_kinst end = inst(STX_K_END, STX_DTYPE_NONE);
	end.a = loop;
	put(v, end);
}

static void put_effects(struct stx__values *v, uint32_t phase, int stores)
{
	for (uint32_t i = 0; i < v->effects.n && !v->oom; i++)
		if (v->effects.at[i].phase == phase &&
		    (v->effects.at[i].i.op == STX_K_STORE) == stores)
			put(v, v->effects.at[i].i);
}

/* The updates of scores (in the loop over terms), or of what is over keys. */
static void put_attend_updates(struct stx__values *v, int of_scores)
{
	for (uint32_t i = 0; i < v->effects.n && !v->oom; i++) {
		const struct stx_kinst *u = &v->effects.at[i].i;
		if (u->op == STX_K_UPDATE &&
		    (v->temps.at[u->a].i.flags == STX_MONOID_DOT) == of_scores)
			put(v, *u);
	}
}

/* Phase 0 of an attention: keys { the score's accumulator, terms { its update }; the score; what
 * follows from it, the update }. */
static void put_attend(struct stx__values *v, const struct by_region *r)
{
	const struct stx__axes *x = &v->b->axes;
	uint32_t keys = put_loop(v, x->nest[x->nout]), first = keys_region(x, 0);
	put_region(v, r, first, 0);
	put_region(v, r, first, 1);
	if (x->nnest - x->nout > 1) {
		uint32_t terms = put_loop(v, x->nest[x->nout + 1]);
		put_region(v, r, first + 1, 0);
		put_attend_updates(v, 1);
		put_end(v, terms);
	}
	put_region(v, r, after_region(x, 0), 0);
	put_attend_updates(v, 0);
	put_end(v, keys);
}

/* Row values of the phase, its accumulators, its loops. */
static void put_phase(struct stx__values *v, const struct by_region *r, uint32_t phase)
{
	const struct stx__axes *x = &v->b->axes;
	const struct stx__phases *p = &v->b->phases;
	uint32_t loops[STX__MAX_DIMS], first = row_region(x, phase), n = 0;
	put_region(v, r, first, 0);
	put_region(v, r, first, 1);
	if (phase == p->n && !p->final_loop)
		return;
	if (x->attends) {
		put_attend(v, r);
		return;
	}
	for (; n < x->nnest - x->nout && !v->oom; n++) {
		loops[n] = put_loop(v, x->nest[x->nout + n]);
		put_region(v, r, first + n + 1, 0);
	}
	put_effects(v, phase, 0);
	if (x->scans)
		put_region(v, r, after_region(x, phase), 0);
	put_effects(v, phase, 1);
	while (n-- > 0 && !v->oom)
		put_end(v, loops[n]);
}

stx_err stx__values_finish(struct stx__values *v)
{
	const struct stx__axes *x = &v->b->axes;
	struct by_region r;
	uint32_t outer[STX__MAX_DIMS];
	v->indirects = STX_NEW_ARRAY(v->b->arena, stx_ex, v->temps.n + 1);
	v->oom |= !v->indirects;
	if (v->oom)
		return stx__values_fail(v);
	mark_live(v);
	sort_by_region(v, &r);
	if (v->oom)
		return stx__values_fail(v);
	for (uint32_t n = 0; n < x->nout && !v->oom; n++) {
		put_region(v, &r, n, 0);
		put_region(v, &r, n, 1);
		outer[n] = put_loop(v, x->nest[n]);
	}
	for (uint32_t k = 0; k <= v->b->phases.n && !v->oom; k++)
		put_phase(v, &r, k);
	put_effects(v, STX_NONE, 1);
	for (uint32_t n = x->nout; n-- > 0 && !v->oom;)
		put_end(v, outer[n]);
	if (v->b->phases.columns && !v->oom) {
		uint32_t after = v->b->phases.n + 1, row = put_loop(v, x->nest[x->nout]);
		put_region(v, &r, row_region(x, after) + 1, 0);
		put_effects(v, after, 1);
		put_end(v, row);
	}
	return v->oom ? stx__values_fail(v) : STX_E_OK;
}
