/* kernel_build.c: one group of buffers to one kernel.
 *
 * requires: a group as build.h describes, bodies that pass stx_loops_verify. ensures: the kernel
 * passes stx_kernel_verify and computes, at every point, the values of the bodies rounded as they
 * are recorded. Here: what the bodies address, axes (kernel_axes.c), parameters, scalars, grain and
 * kind; the instructions are kernel_play.c's. */
#include "build.h"

#define NEAR_LOADS 64

stx_err stx__build_oom(struct stx__build *b)
{
	return stx_fail(b->d, STX_E_NOMEM, "schedule", b->def->name,
			"the memory budget is exceeded");
}

stx_ex stx__position(struct stx_exprs *x, const struct stx_buffer *b)
{
	stx_ex e = stx_ex_const(x, 0);
	for (uint32_t i = 0; i < b->nrranges; i++)
		e = stx_ex_add(x, stx_ex_mul(x, e, b->rranges[i]),
			       stx_ex_var(x, b->nranges + i, b->rranges[i]));
	return e;
}

int stx__in_group(const struct stx__group_def *def, uint32_t buffer)
{
	for (uint32_t i = 0; i < def->n; i++)
		if (def->buffers[i]->id == buffer)
			return (int)i;
	return -1;
}

/* ---- what the bodies address ---- */

static stx_err note(struct stx__build *b, uint32_t pos, stx_ex e, struct stx__access a,
		    enum stx_dtype t)
{
	const struct stx__member *m = &b->phases.at[pos];
	a.ex = e == STX_EX_BAD ? e : stx__canonical(b->ex, m, b->def->buffers[pos], b->space, e);
	a.bytes = (uint8_t)stx_dtype_bytes(t);
	a.dtype = (uint8_t)t;
	a.is_lead = pos == 0 || b->space->def != STX_DEF_REDUCTION;
	a.is_full = m->is_full;
	for (uint32_t i = b->accesses.n, n = 0; i-- > 0 && n < NEAR_LOADS && a.is_load; n++)
		a.is_again |= b->accesses.at[i].is_load && b->accesses.at[i].ex == a.ex &&
			      b->accesses.at[i].buffer == a.buffer;
	if (a.ex == STX_EX_BAD)
		return stx_fail(b->d, STX_E_TOO_LARGE, "schedule", b->def->name,
				"an index expression overflows 64 bits");
	return stx_push(b->arena, &b->accesses, a) ? stx__build_oom(b) : STX_E_OK;
}

int stx__var_plus(struct stx_exprs *x, stx_ex e, uint32_t *var, int64_t *plus)
{
	if (e == STX_EX_BAD || stx_ex_nterms(x, e) != 1)
		return 0;
	struct stx_ex_term t = stx_ex_term_at(x, e, 0);
	struct stx_ex_atom a = stx_ex_atom_at(x, t.atoms[0]);
	*var = a.number;
	*plus = stx_ex_constant(x, e);
	return t.coeff == 1 && t.natoms == 1 && a.kind == STX_ATOM_VAR;
}

static int merges_bounds(const struct stx__build *b)
{
	return !b->def->target_gpu && b->space->def == STX_DEF_POINTWISE;
}

/* INDEX i of the body is compared with constants, as stx__play does it for merged axes. */
static int is_bound(const struct stx_buffer *buf, uint32_t i)
{
	for (uint32_t j = i + 1; j < buf->body.n; j++) {
		const struct stx_binst *in = &buf->body.at[j];
		if ((in->a != i || in->op == STX_B_LOAD) && in->b != i && in->c != i)
			continue; /* a load's a is its buffer */
		if (in->op < STX_P_LT || in->op > STX_P_GE || in->a != i || in->b == i ||
		    buf->body.at[in->b].op != STX_B_CONST)
			return 0;
	}
	return buf->body.at[i].dtype == STX_I64 && buf->body.result[0] != i;
}

/* A reduction's reads of its own group count as they would if it stood alone: then it runs in the
 * same order. */
static stx_err collect_body(struct stx__build *b, uint32_t pos)
{
	const struct stx_buffer *buf = b->def->buffers[pos];
	uint64_t nops = 0;
	for (uint32_t i = 0; i < buf->body.n; i++) {
		const struct stx_binst *in = &buf->body.at[i];
		stx_err err = STX_E_OK;
		if (in->op < STX_PRIM_COUNT)
			nops += (uint64_t)stx_prim_info((enum stx_prim)in->op)->cost *
				(in->op >= STX_P_FIRST_ELEMENTARY ? 16 : 1);
		else if (in->op == STX_B_LOAD &&
			 (buf->def == STX_DEF_REDUCTION || stx__in_group(b->def, in->a) < 0))
			err = note(b, pos, in->ex,
				   (struct stx__access){ .is_load = 1, .buffer = in->a },
				   (enum stx_dtype)in->dtype);
		else if (in->op == STX_B_INDEX || in->op == STX_B_INDIRECT)
			err = note(b, pos, in->ex,
				   (struct stx__access){ .is_bound = in->op == STX_B_INDEX &&
								     merges_bounds(b) &&
								     is_bound(buf, i) },
				   STX_I64);
		if (err)
			return err;
	}
	b->nops += nops;
	b->lead_nops += pos == 0 || b->space->def != STX_DEF_REDUCTION ? nops : 0;
	return STX_E_OK;
}

/* The product of the scores, over its reader's variables; what varies along its terms is not told
 * apart: indices only grow. */
static stx_err collect_scores(struct stx__build *b)
{
	const struct stx__scores *s = b->def->scores;
	stx_ex map[STX__MAX_DIMS];
	stx_err err = STX_E_OK;
	if (!s)
		return err;
	memcpy(map, s->at, s->product->nranges * sizeof *map);
	map[s->product->nranges] =
		stx_ex_addi(b->ex, s->product->rranges[0], -1); /* the last term */
	for (uint32_t i = 0; i < s->product->body.n && !err; i++) {
		const struct stx_binst *in = &s->product->body.at[i];
		struct stx__access a = { .is_load = in->op == STX_B_LOAD, .is_lead = 1 };
		if (in->op < STX_PRIM_COUNT || in->op == STX_B_CONST)
			continue;
		if (stx_ex_uses_kind(b->ex, in->ex, STX_ATOM_INDIRECT))
			continue;
		a.ex = stx_ex_subst(b->ex, in->ex, map, s->product->nranges + 1);
		a.bytes = (uint8_t)stx_dtype_bytes((enum stx_dtype)in->dtype);
		if (a.ex == STX_EX_BAD)
			return stx_fail(b->d, STX_E_TOO_LARGE, "schedule", b->def->name,
					"an index expression overflows 64 bits");
		err = stx_push(b->arena, &b->accesses, a) ? stx__build_oom(b) : STX_E_OK;
	}
	return err;
}

static stx_err collect(struct stx__build *b)
{
	for (uint32_t i = 0; i < b->def->n; i++) {
		const struct stx_buffer *buf = b->def->buffers[i];
		stx_err err =
			note(b, i, buf->store, (struct stx__access){ .is_store = 1 }, buf->dtype);
		if (!err)
			err = collect_body(b, i);
		if (!err && buf->def == STX_DEF_REDUCTION && stx_monoid_is_arg(buf->monoid))
			err = note(b, i, stx__position(b->ex, buf),
				   (struct stx__access){ .is_load = 0 }, STX_I64);
		if (!err && buf->def == STX_DEF_REDUCTION && buf->rlimit != STX_EX_BAD)
			err = note(b, i, buf->rlimit, (struct stx__access){ .is_load = 0 },
				   STX_I64);
		if (err)
			return err;
	}
	return collect_scores(b);
}

/* ---- parameters ---- */

uint32_t stx__find_param(const struct stx_kernel *k, uint32_t buffer)
{
	for (uint32_t i = 0; i < k->params.n; i++)
		if (k->params.at[i].buffer == buffer)
			return i;
	return STX_NONE;
}

static stx_err add_param(struct stx__build *b, struct stx_kernel *k, const struct stx_buffer *buf,
			 int write)
{
	uint32_t known = stx__find_param(k, buf->id);
	if (known != STX_NONE) {
		k->params.at[known].is_written |= (uint8_t)write;
		k->params.at[known].is_read |= (uint8_t)!write;
		return STX_E_OK;
	}
	struct stx_kparam p = { .name = buf->name,
				.dtype = buf->dtype,
				.is_written = (uint8_t)write,
				.is_read = (uint8_t)!write,
				.elems = stx_layout_reach(b->ex, &buf->layout),
				.buffer = buf->id };
	if (k->params.n >= STX_KERNEL_MAX_PARAMS)
		return stx_fail(b->d, STX_E_TOO_LARGE, "schedule", b->def->name,
				"a kernel of more than %d buffers", STX_KERNEL_MAX_PARAMS);
	return stx_push(b->arena, &k->params, p) ? stx__build_oom(b) : STX_E_OK;
}

static stx_err collect_params(struct stx__build *b, struct stx_kernel *k)
{
	const struct stx__scores *s = b->def->scores;
	for (uint32_t i = 0; i < b->def->n + (s != NULL); i++) {
		const struct stx_body *body =
			i < b->def->n ? &b->def->buffers[i]->body : &s->product->body;
		for (uint32_t j = 0; j < body->n; j++) {
			const struct stx_binst *in = &body->at[j];
			if (in->op != STX_B_LOAD || stx__in_group(b->def, in->a) >= 0 ||
			    (s && in->a == s->product->id))
				continue;
			stx_err err = add_param(b, k, b->l->buffers.at[in->a], 0);
			if (err)
				return err;
		}
	}
	for (uint32_t i = 0; i < b->def->n; i++) {
		stx_err err =
			b->def->is_stored[i] ? add_param(b, k, b->def->buffers[i], 1) : STX_E_OK;
		if (err)
			return err;
	}
	if (b->space->base && !b->space->overwrite)
		k->params.at[stx__find_param(k, b->space->id)].is_read = 1;
	for (uint32_t i = 0; i < b->def->n; i++) {
		uint32_t at = b->phases.at[i].keeper;
		if (at)
			k->params.at[stx__find_param(k, b->def->buffers[at - 1]->id)].is_read = 1;
	}
	return STX_E_OK;
}

/* Weights of a product in tiles. */
static void mark_constants(const struct stx__build *b, struct stx_kernel *k)
{
	for (uint32_t i = 0; i < k->params.n && b->axes.is_tiled; i++) {
		struct stx_kparam *p = &k->params.at[i];
		const struct stx_buffer *buf = b->l->buffers.at[p->buffer];
		p->is_constant = buf->kind == STX_BUF_INPUT && !p->is_written &&
				 buf->index < b->l->g->inputs.n &&
				 b->l->g->inputs.at[buf->index].node->is_param;
	}
}

/* ---- scalars, grain, kind ---- */

static stx_err see_symbol(void *ctx, const struct stx_ex_atom *a)
{
	struct stx_kernel *k = ctx;
	if (a->kind ==
	    STX_ATOM_VAR) /* its size may mention symbols, but is an axis' size: seen there */
		return STX_E_OK;
	if (a->kind != STX_ATOM_SYM || stx__kernel_scalar(k, a->number) >= 0)
		return STX_E_OK;
	stx_ex e = stx_ex_sym(k->ex, a->number, a->range, a->hint);
	if (stx_push(k->arena, &k->scalars, a->number) || stx_push(k->arena, &k->scalar_ex, e))
		return STX_E_NOMEM;
	for (uint32_t i = k->scalars.n - 1; i > 0 && k->scalars.at[i - 1] > k->scalars.at[i]; i--) {
		uint32_t number = k->scalars.at[i];
		k->scalars.at[i] = k->scalars.at[i - 1];
		k->scalars.at[i - 1] = number;
		e = k->scalar_ex.at[i];
		k->scalar_ex.at[i] = k->scalar_ex.at[i - 1];
		k->scalar_ex.at[i - 1] = e;
	}
	return STX_E_OK;
}

stx_err stx__collect_scalars(struct stx_kernel *k, struct stx_diag *d)
{
	stx_err err = STX_E_OK;
	for (uint32_t i = 0; i < k->axes.n && !err; i++)
		err = stx__ex_walk(k->ex, k->axes.at[i].size, see_symbol, k);
	for (uint32_t i = 0; i < k->params.n && !err; i++)
		err = stx__ex_walk(k->ex, k->params.at[i].elems, see_symbol, k);
	for (uint32_t i = 0; i < k->insts.n && !err; i++)
		err = stx__ex_walk(k->ex, k->insts.at[i].ex, see_symbol, k);
	return err == STX_E_NOMEM
		       ? stx_fail(d, err, "schedule", k->name, "the memory budget is exceeded")
		       : err;
}

/* An access of every iteration. */
static int is_each(const struct stx__build *b, const struct stx__access *a)
{
	return a->is_load || (a->is_store && (!b->nred_dims || a->is_full));
}

/* A thread should have some 20 us of work: 0.1 ns a byte, 0.08 ns an operation. */
static int64_t grain_of(const struct stx__build *b)
{
	int64_t per = 0, ops = b->nops > 100000 ? 100000 : (int64_t)b->nops;
	for (uint32_t i = 0; i < b->accesses.n; i++)
		if (is_each(b, &b->accesses.at[i]))
			per += 100 * b->accesses.at[i].bytes;
	int64_t point = b->axes.attends
				? stx_sat_mul(b->axes.point_elems, 30) /* 33 products a ns */
				: stx_sat_mul(b->axes.point_elems, per + 80 * ops + 20);
	int64_t grain = 20000000 / (point < 1 ? 1 : point);
	return grain < 1 ? 1 : grain;
}

static enum stx_kernel_kind kind_of(const struct stx__build *b)
{
	if (b->space->def != STX_DEF_REDUCTION)
		return STX_KERNEL_POI;
	if (b->axes.attends)
		return STX_KERNEL_TEM;
	int64_t n = 1;
	for (uint32_t i = 0; i < b->space->nrranges; i++)
		n = stx_sat_mul(n, stx_ex_hint(b->ex, b->space->rranges[i]));
	int whole = b->axes.lanes ? n <= 1024 : b->def->target_gpu && n <= 64;
	return whole ? STX_KERNEL_PER : STX_KERNEL_RED; /* GK-15, GR-02 */
}

static void init(struct stx__build *b, const struct stx_loops *l, const struct stx__group_def *def,
		 struct stx_diag *d)
{
	b->accesses.n = 0;
	b->nops = b->lead_nops = 0;
	memset(&b->axes, 0, sizeof b->axes);
	b->l = l;
	b->ex = l->ex;
	b->arena = l->g->arena;
	b->def = def;
	b->space = def->buffers[0];
	b->nout_dims = b->space->nranges;
	b->nred_dims = b->space->def != STX_DEF_POINTWISE ? b->space->nrranges : 0;
	b->d = d;
}

static stx_err choose(struct stx__build *b)
{
	if (b->nout_dims + b->nred_dims > STX__MAX_DIMS - 3)
		return stx_fail(b->d, STX_E_TOO_LARGE, "schedule", b->def->name,
				"a loop nest of %u axes", b->nout_dims + b->nred_dims);
	const char *why;
	if (!stx__phases_find(b->l, b->def->buffers, b->def->n, b->def->is_stored, &b->phases,
			      &why))
		return stx_fail(b->d, STX_E_INTERNAL, "schedule", b->def->name, "no kernel: %s",
				why);
	if ((b->phases.n + 2) * (b->nred_dims + 2) + 1 >= STX__REGIONS)
		return stx_fail(b->d, STX_E_TOO_LARGE, "schedule", b->def->name,
				"a loop nest of %u axes", b->nout_dims + b->nred_dims);
	stx_err err = collect(b);
	return err ? err : stx__choose_axes(b);
}

/* A full-level access of the kind (stores, or loads) that strides along the vector axis. */
static uint8_t strides(struct stx__build *b, int of_stores)
{
	const struct stx__axes *x = &b->axes;
	uint32_t vector = STX_NONE;
	for (uint32_t i = 0; i < x->naxes; i++)
		if (x->axis[i].binding == STX_AXIS_VECTOR)
			vector = i;
	for (uint32_t i = 0; i < b->accesses.n && vector != STX_NONE; i++) {
		const struct stx__access *a = &b->accesses.at[i];
		stx_ex coeff, rest, e = a->ex;
		if (!a->is_full || (of_stores ? !a->is_store : !a->is_load))
			continue;
		e = stx_ex_subst(b->ex, e, x->map[0], b->nout_dims + b->nred_dims);
		if (!of_stores && e != STX_EX_BAD && !stx_ex_uses_var(b->ex, e, vector))
			continue;
		if (e == STX_EX_BAD || !stx_ex_linear_in(b->ex, e, vector, &coeff, &rest) ||
		    !stx_ex_equals(b->ex, coeff, 1))
			return 1;
	}
	return 0;
}

/* The limit of a segment is the same for all that share its loop, but is written over grid points, whose
 * number may differ: the order is told without it. */
static void without_limit(struct stx__build *b, struct stx__red_order *out)
{
	const struct stx__axes *x = &b->axes;
	stx_ex at[STX__MAX_DIMS];
	if (b->space->def != STX_DEF_REDUCTION || b->space->rlimit == STX_EX_BAD)
		return;
	for (uint32_t i = 0; i < x->naxes; i++)
		at[i] = stx_ex_var(b->ex, i, x->axis[i].size);
	for (uint32_t i = 0; i < out->nloops; i++) {
		uint32_t axis = x->nest[x->nout + i];
		if (!stx_ex_uses_var(b->ex, out->map[0], axis))
			continue;
		out->size[i] = b->space->rranges[0];
		at[axis] = stx_ex_var(b->ex, axis, out->size[i]);
	}
	for (uint32_t i = 0; i < out->nvars; i++)
		out->map[i] = stx_ex_subst(b->ex, out->map[i], at, x->naxes);
}

int stx__red_order(struct stx__build *b, const struct stx_loops *l,
		   const struct stx__group_def *def, struct stx__red_order *out)
{
	init(b, l, def, NULL);
	if (choose(b))
		return 0;
	const struct stx__axes *x = &b->axes;
	memset(out, 0, sizeof *out);
	out->lanes = x->lanes;
	out->narrow = strides(b, 1);
	out->gathers = strides(b, 0);
	out->nloops = x->nnest - x->nout;
	out->nvars = b->nred_dims;
	for (uint32_t i = 0; i < out->nloops; i++)
		out->size[i] = x->axis[x->nest[x->nout + i]].size;
	for (uint32_t i = 0; i < out->nvars; i++)
		out->map[i] = x->map[0][b->nout_dims + i];
	without_limit(b, out);
	return 1;
}

static stx_err build(struct stx__build *b, struct stx_kernel *k)
{
	stx_err err = choose(b);
	if (!err)
		stx__choose_keepers(b);
	if (!err)
		err = collect_params(b, k);
	if (!err)
		mark_constants(b, k);
	for (uint32_t i = 0; i < b->axes.naxes && !err; i++)
		if (stx_push(b->arena, &k->axes, b->axes.axis[i]))
			err = stx__build_oom(b);
	if (!err)
		err = stx__play(b, k);
	if (!err && !b->def->target_gpu && b->space->def == STX_DEF_POINTWISE)
		err = stx__kernel_pieces(b, k);
	if (err)
		return err;
	k->kind = kind_of(b);
	k->index_bits = b->axes.index_bits;
	k->product = b->axes.product;
	k->block_words = k->product ? (uint16_t)k->product->b.words : 0;
	k->grid = b->axes.grid;
	k->grain = stx_ex_const(b->ex, grain_of(b));
	return stx__collect_scalars(k, b->d);
}

stx_err stx__kernel_build(const struct stx_loops *l, const struct stx__group_def *def,
			  struct stx_kernel **out, struct stx_diag *d)
{
	struct stx_arena *a = l->g->arena;
	struct stx__build *b = STX_NEW(a, struct stx__build);
	struct stx_kernel *k = STX_NEW(a, struct stx_kernel);
	*out = NULL;
	if (!b || !k)
		return stx_fail(d, STX_E_NOMEM, "schedule", def->name,
				"the memory budget is exceeded");
	init(b, l, def, d);
	k->arena = a;
	k->ex = l->ex;
	k->name = def->name;
	k->target_gpu = (uint8_t)def->target_gpu;
	stx_err err = build(b, k);
	if (!err)
		err = stx_kernel_verify(k, d);
	if (!err)
		*out = k;
	return err;
}
