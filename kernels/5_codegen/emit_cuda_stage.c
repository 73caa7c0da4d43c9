/* emit_cuda_stage.c: the regions of a kernel, and of each of its values the level, the stage and
 * whether it outlives its stage.
 *
 * requires: a verified kernel; e->k, e->c, e->raxis and e->arena are set. ensures: every
 * instruction of e->regions has its struct stx__value_info; a value's stage is later than those it
 * reads (loads stand in even stages, what computes in odd ones), and what another stage reads is an
 * array. Ends: instructions stand after what they read, each is visited once; index expressions
 * nest to a limit. */
#include "emit_cuda.h"

static uint32_t same(const struct stx__cuda *e, uint32_t n)
{
	return e->info[n].same;
}

static uint32_t operand(const struct stx_kinst *i, int j)
{
	return j == 0 ? i->a : j == 1 ? i->b : i->c;
}

unsigned stx__cuda_value_operands(const struct stx_kinst *i)
{
	if (i->op < STX_PRIM_COUNT)
		return 7;
	switch (i->op) {
	case STX_K_LOAD: return 4;
	case STX_K_STORE: return 6;
	case STX_K_INDIRECT: return 5;
	case STX_K_UPDATE: return 6;
	default: return 0;
	}
}

static void walk(struct stx__cuda *e, stx_ex ex, void (*seen)(struct stx__cuda *, uint32_t, void *),
		 void *ctx)
{
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, t.atoms[j]);
			if (a.kind >= STX_ATOM_FLOORDIV) {
				walk(e, a.a, seen, ctx);
				walk(e, a.b, seen, ctx);
			} else {
				seen(e, t.atoms[j], ctx);
			}
		}
	}
}

static void see_level(struct stx__cuda *e, uint32_t atom, void *ctx)
{
	uint8_t *level = ctx, mine = STX__BLOCK;
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, atom);
	if (a.kind == STX_ATOM_VAR)
		mine = a.number == e->raxis ? STX__ELEMENT : STX__ROW;
	else if (a.kind == STX_ATOM_INDIRECT)
		mine = e->info[same(e, a.number)].level;
	*level = mine > *level ? mine : *level;
}

static uint8_t level_of(struct stx__cuda *e, const struct stx_kinst *i, int inside)
{
	uint8_t level = STX__BLOCK;
	if (i->op == STX_K_CONST)
		return STX__CONSTANT;
	if (inside)
		return STX__ELEMENT;
	if (i->op == STX_K_RESULT || i->op == STX_K_STORE || i->op == STX_K_INDIRECT ||
	    i->op == STX_K_SORT)
		return STX__ROW;
	if (i->ex != STX_EX_BAD)
		walk(e, i->ex, see_level, &level);
	for (int j = 0; j < 3; j++)
		if ((stx__cuda_value_operands(i) >> j & 1) && operand(i, j) != STX_NONE) {
			uint8_t l = e->info[same(e, operand(i, j))].level;
			level = l > level ? l : level;
		}
	return level;
}

/* Whether the high half of a u64 is 0, as far as its instruction shows: words of Philox are such. */
static int is_low(const struct stx__cuda *e, const struct stx_kinst *i)
{
	const struct stx_kinst *at = e->k->insts.at;
	if (i->dtype != STX_U64)
		return 0;
	switch (i->op) {
	case STX_K_CONST: return i->k.u <= UINT32_MAX;
	case STX_P_AND: return e->info[same(e, i->a)].is_low || e->info[same(e, i->b)].is_low;
	case STX_P_OR:
	case STX_P_XOR: return e->info[same(e, i->a)].is_low && e->info[same(e, i->b)].is_low;
	case STX_P_LSHR:
	case STX_P_SHR: return at[i->b].op == STX_K_CONST && at[i->b].k.u >= 32;
	case STX_P_CAST:
		return stx_dtype_kind(at[i->a].dtype) == STX_KIND_UINT &&
		       stx_dtype_bytes(at[i->a].dtype) < 8;
	default: return 0;
	}
}

struct staging {
	const struct stx__region *r;
	uint32_t stage;
	int is_load;
};

/* The stage of a value that reads n: loads have even stages, what computes odd ones. */
static void after(struct stx__cuda *e, uint32_t n, struct staging *s)
{
	n = same(e, n);
	if (n < s->r->begin || n >= s->r->end || e->info[n].level <= STX__BLOCK)
		return;
	uint32_t q = e->info[n].stage;
	uint32_t at = s->is_load ? (q & 1 ? q + 1 : q + 2) : (q & 1 ? q : q + 1);
	s->stage = at > s->stage ? at : s->stage;
}

static void see_stage(struct stx__cuda *e, uint32_t atom, void *ctx)
{
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, atom);
	if (a.kind == STX_ATOM_INDIRECT)
		after(e, a.number, ctx);
}

static void set_stage(struct stx__cuda *e, const struct stx__region *r, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	struct staging s = { .r = r, .is_load = i->op == STX_K_LOAD };
	s.stage = s.is_load ? 0 : 1;
	if (i->op == STX_K_STORE) {
		e->info[n].stage = STX__LAST_STAGE;
		return;
	}
	for (int j = 0; j < 3; j++)
		if ((stx__cuda_value_operands(i) >> j & 1) && operand(i, j) != STX_NONE)
			after(e, operand(i, j), &s);
	if (i->ex != STX_EX_BAD)
		walk(e, i->ex, see_stage, &s);
	e->info[n].stage = s.stage;
}

/* ---- equal values ---- */

/* Instruction n with its operands as the values they are; 0 when its value may not be taken from
 * another loop. */
static int shared_form(const struct stx__cuda *e, uint32_t n, struct stx_kinst *out)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	uint32_t *to[3] = { &out->a, &out->b, &out->c };
	*out = *i;
	for (int j = 0; j < 3; j++)
		if ((stx__cuda_value_operands(i) >> j & 1) && *to[j] != STX_NONE)
			*to[j] = same(e, *to[j]);
	return i->op < STX_PRIM_COUNT || i->op == STX_K_INDEX || i->op == STX_K_INDIRECT ||
	       (i->op == STX_K_LOAD && !e->k->params.at[i->a].is_written);
}

/* In registers an element of the reduction keeps its values from loop to loop: an instruction equal
 * to one of an earlier loop is that one. Entered by stx_kinst_hash of its form: the first of equal
 * ones, so those of one loop do not stand for each other (the builder has merged them). */
static void find_equal(struct stx__cuda *e, const struct stx__region *r, uint32_t n)
{
	struct stx_kinst mine, other;
	if (!e->table || r->loop == STX_NONE || !shared_form(e, n, &mine))
		return;
	uint32_t at = (uint32_t)stx_kinst_hash(&mine) & e->table_mask;
	for (; e->table[at]; at = (at + 1) & e->table_mask) {
		uint32_t m = e->table[at] - 1;
		shared_form(e, m, &other);
		if (!stx_kinst_equal(&mine, &other))
			continue;
		if (m < r->begin)
			e->info[n].same = m;
		return;
	}
	e->table[at] = n + 1;
}

static stx_err make_table(struct stx__cuda *e)
{
	uint32_t n = 16;
	if (!e->c->persistent)
		return STX_E_OK;
	while (n < 2 * e->k->insts.n)
		n *= 2;
	e->table = STX_NEW_ARRAY(e->arena, uint32_t, n);
	e->table_mask = n - 1;
	return e->table ? STX_E_OK : stx__cuda_fail(e, STX_E_NOMEM, "out of memory");
}

static stx_err find_regions(struct stx__cuda *e)
{
	const struct stx_kernel *k = e->k;
	struct stx__region r = { .loop = STX_NONE };
	uint32_t rows = STX_NONE; /* the LOOP over rows, while it is open */
	for (uint32_t n = 0; n <= k->insts.n; n++) {
		int op = n < k->insts.n ? k->insts.at[n].op : STX_K_END;
		if (n < k->insts.n && op != STX_K_LOOP && op != STX_K_END)
			continue;
		if (n < k->insts.n && op == STX_K_LOOP && r.loop != STX_NONE)
			return stx__cuda_fail(e, STX_E_UNSUPPORTED, "a loop inside a loop");
		int opens = op == STX_K_LOOP && k->insts.at[n].a == e->saxis;
		r.end = n;
		r.closes = n < k->insts.n && op == STX_K_END && k->insts.at[n].a == rows;
		if (stx_push(e->arena, &e->regions, r))
			return stx__cuda_fail(e, STX_E_NOMEM, "out of memory");
		rows = opens ? n : r.closes ? STX_NONE : rows;
		r = (struct stx__region){ .begin = n + 1,
					  .loop = op == STX_K_LOOP && !opens ? n : STX_NONE,
					  .in_rows = rows != STX_NONE,
					  .opens = (uint8_t)opens };
	}
	return STX_E_OK;
}

static void mark(struct stx__cuda *e, const struct stx__region *r, uint32_t stage, uint32_t n)
{
	n = same(e, n);
	const struct stx_kinst *i = &e->k->insts.at[n];
	if (i->op == STX_K_CONST || i->op == STX_K_RESULT || e->info[n].level <= STX__BLOCK)
		return;
	if (n < r->begin || n >= r->end || e->info[n].stage != stage)
		e->info[n].is_array = 1;
}

struct marking {
	const struct stx__region *r;
	uint32_t stage;
};

static void see_mark(struct stx__cuda *e, uint32_t atom, void *ctx)
{
	const struct marking *m = ctx;
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, atom);
	if (a.kind == STX_ATOM_INDIRECT)
		mark(e, m->r, m->stage, a.number);
}

/* The instructions of each stage of a region, in order. */
static stx_err list_stages(struct stx__cuda *e, struct stx__region *r)
{
	r->first = STX_NEW_ARRAY(e->arena, uint32_t, r->nstages + 1);
	if (!r->first)
		return stx__cuda_fail(e, STX_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i <= r->nstages; i++)
		r->first[i] = STX_NONE;
	for (uint32_t n = r->end; n-- > r->begin;) {
		struct stx__value_info *v = &e->info[n];
		uint32_t *first = &r->first[v->stage == STX__LAST_STAGE ? r->nstages : v->stage];
		v->next = *first;
		*first = n;
	}
	return STX_E_OK;
}

stx_err stx__cuda_stages(struct stx__cuda *e)
{
	const struct stx_kernel *k = e->k;
	e->info = STX_NEW_ARRAY(e->arena, struct stx__value_info, k->insts.n + 1);
	if (!e->info)
		return stx__cuda_fail(e, STX_E_NOMEM, "out of memory");
	if (find_regions(e) || make_table(e))
		return e->err;
	for (uint32_t i = 0; i < e->regions.n; i++) {
		struct stx__region *r = &e->regions.at[i];
		if (e->table && i && e->regions.at[i - 1].closes) /* what rows had is gone */
			memset(e->table, 0, (e->table_mask + 1) * sizeof *e->table);
		for (uint32_t n = r->begin; n < r->end; n++) {
			e->info[n].same = n;
			find_equal(e, r, n);
			e->info[n].level = level_of(e, &k->insts.at[n], r->loop != STX_NONE);
			e->info[n].is_low = (uint8_t)is_low(e, &k->insts.at[n]);
			set_stage(e, r, n);
			if (e->info[n].stage < STX__LAST_STAGE && e->info[n].stage + 1 > r->nstages)
				r->nstages = e->info[n].stage + 1;
		}
		if (list_stages(e, r))
			return e->err;
	}
	for (uint32_t i = 0; i < e->regions.n; i++)
		for (uint32_t n = e->regions.at[i].begin; n < e->regions.at[i].end; n++) {
			const struct stx_kinst *in = &k->insts.at[n];
			struct marking m = { &e->regions.at[i], e->info[n].stage };
			if (same(e, n) != n)
				continue;
			for (int j = 0; j < 3; j++)
				if ((stx__cuda_value_operands(in) >> j & 1) &&
				    operand(in, j) != STX_NONE)
					mark(e, m.r, m.stage, operand(in, j));
			if (in->ex != STX_EX_BAD)
				walk(e, in->ex, see_mark, &m);
		}
	return STX_E_OK;
}
