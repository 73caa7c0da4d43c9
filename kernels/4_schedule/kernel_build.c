/* kernel_build.c: one group of buffers to one kernel.
 *
 * requires: a group as build.h describes, bodies that pass stx_loops_verify. ensures: the kernel
 * passes stx_kernel_verify and computes, at every point, the values of the bodies rounded as they
 * are recorded. Each body is played once for every row of the block, and a full-level one for every
 * phase that needs it, its variables replaced by the kernel's axes; equal values merge on the way
 * (kernel_values.c). */
#include <assert.h>

#include "build.h"

static stx_err oom(struct stx__build *b)
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

static int is_arg(enum stx_monoid m)
{
	return m == STX_MONOID_ARGMAX || m == STX_MONOID_ARGMIN;
}

/* ---- what the bodies address ---- */

static stx_err note(struct stx__build *b, uint32_t pos, stx_ex e, struct stx__access a,
		    enum stx_dtype t)
{
	const struct stx__member *m = &b->phases.at[pos];
	a.ex = e == STX_EX_BAD ? e : stx__canonical(b->ex, m, b->def->buffers[pos], b->space, e);
	a.bytes = (uint8_t)stx_dtype_bytes(t);
	a.is_lead = pos == 0 || b->space->def != STX_DEF_REDUCTION;
	a.is_full = m->is_full;
	if (a.ex == STX_EX_BAD)
		return stx_fail(b->d, STX_E_TOO_LARGE, "schedule", b->def->name,
				"an index expression overflows 64 bits");
	return stx_push(b->arena, &b->accesses, a) ? oom(b) : STX_E_OK;
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
			err = note(b, pos, in->ex, (struct stx__access){ .is_load = 1 },
				   (enum stx_dtype)in->dtype);
		else if (in->op == STX_B_INDEX || in->op == STX_B_INDIRECT)
			err = note(b, pos, in->ex, (struct stx__access){ .is_load = 0 }, STX_I64);
		if (err)
			return err;
	}
	b->nops += nops;
	b->lead_nops += pos == 0 || b->space->def != STX_DEF_REDUCTION ? nops : 0;
	return STX_E_OK;
}

static stx_err collect(struct stx__build *b)
{
	for (uint32_t i = 0; i < b->def->n; i++) {
		const struct stx_buffer *buf = b->def->buffers[i];
		stx_err err =
			note(b, i, buf->store, (struct stx__access){ .is_store = 1 }, buf->dtype);
		if (!err)
			err = collect_body(b, i);
		if (!err && buf->def == STX_DEF_REDUCTION && is_arg(buf->monoid))
			err = note(b, i, stx__position(b->ex, buf),
				   (struct stx__access){ .is_load = 0 }, STX_I64);
		if (!err && buf->def == STX_DEF_REDUCTION && buf->rlimit != STX_EX_BAD)
			err = note(b, i, buf->rlimit, (struct stx__access){ .is_load = 0 },
				   STX_I64);
		if (err)
			return err;
	}
	return STX_E_OK;
}

/* ---- parameters ---- */

/* 1 + the largest element a layout reaches; 0 when it has no elements. */
stx_ex stx__reach(struct stx_exprs *x, const struct stx_layout *l)
{
	stx_ex e = stx_ex_addi(x, l->offset, 1);
	for (uint32_t i = 0; i < l->rank; i++) {
		if (stx_ex_equals(x, l->sizes[i], 0))
			return stx_ex_const(x, 0);
		stx_ex span = stx_ex_mul(x, stx_ex_addi(x, l->sizes[i], -1), l->strides[i]);
		if (stx_ex_interval(x, l->strides[i]).lo >= 0)
			e = stx_ex_add(x, e, span);
		else
			e = stx_ex_add(x, e, stx_ex_max(x, span, stx_ex_const(x, 0)));
	}
	return e;
}

static uint32_t find_param(const struct stx_kernel *k, uint32_t buffer)
{
	for (uint32_t i = 0; i < k->params.n; i++)
		if (k->params.at[i].buffer == buffer)
			return i;
	return STX_NONE;
}

static stx_err add_param(struct stx__build *b, struct stx_kernel *k, const struct stx_buffer *buf,
			 int write)
{
	uint32_t known = find_param(k, buf->id);
	if (known != STX_NONE) {
		k->params.at[known].is_written |= (uint8_t)write;
		k->params.at[known].is_read |= (uint8_t)!write;
		return STX_E_OK;
	}
	struct stx_kparam p = { .name = buf->name,
				.dtype = buf->dtype,
				.is_written = (uint8_t)write,
				.is_read = (uint8_t)!write,
				.elems = stx__reach(b->ex, &buf->layout),
				.buffer = buf->id };
	if (k->params.n >= STX_KERNEL_MAX_PARAMS)
		return stx_fail(b->d, STX_E_TOO_LARGE, "schedule", b->def->name,
				"a kernel of more than %d buffers", STX_KERNEL_MAX_PARAMS);
	return stx_push(b->arena, &k->params, p) ? oom(b) : STX_E_OK;
}

static stx_err collect_params(struct stx__build *b, struct stx_kernel *k)
{
	for (uint32_t i = 0; i < b->def->n; i++) {
		const struct stx_body *body = &b->def->buffers[i]->body;
		for (uint32_t j = 0; j < body->n; j++) {
			const struct stx_binst *in = &body->at[j];
			if (in->op != STX_B_LOAD || stx__in_group(b->def, in->a) >= 0)
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
	for (uint32_t i = 0; i < b->def->n; i++)
		if (b->phases.at[i].keeper)
			k->params.at[find_param(k, b->def->buffers[b->phases.at[i].keeper - 1]->id)]
				.is_read = 1;
	return STX_E_OK;
}

/* ---- values kept between phases ---- */

static int has_function(const struct stx_body *body)
{
	for (uint32_t i = 0; i < body->n; i++)
		if (body->at[i].op >= STX_P_FIRST_ELEMENTARY && body->at[i].op < STX_PRIM_COUNT &&
		    body->at[i].op != STX_P_RELU)
			return 1;
	return 0;
}

static uint32_t last_phase(const struct stx__member *m)
{
	return 31 - (uint32_t)__builtin_clz(m->needs);
}

/* An elementary function that two phases need: the first leaves its value where a result that the
 * second stores will be, element for element; nothing else reads that memory in between. */
static void choose_keepers(struct stx__build *b)
{
	uint32_t taken = 0;
	if (b->def->target_gpu)
		return; /* it keeps them in registers, or computes them again */
	for (uint32_t i = 0; i < b->def->n; i++) {
		struct stx__member *m = &b->phases.at[i];
		const struct stx_buffer *buf = b->def->buffers[i];
		if (!m->is_full || b->def->is_stored[i] || __builtin_popcount(m->needs) != 2 ||
		    !has_function(&buf->body))
			continue;
		for (uint32_t j = 0; j < b->def->n && !m->keeper; j++) {
			const struct stx__member *to = &b->phases.at[j];
			if (!to->is_full || !b->def->is_stored[j] || taken >> j & 1 ||
			    b->def->buffers[j]->dtype != buf->dtype ||
			    (uint32_t)__builtin_ctz(to->needs) != last_phase(m))
				continue;
			m->keeper = (uint8_t)(j + 1);
			taken |= 1u << j;
		}
	}
}

/* ---- playing bodies ---- */

struct play {
	struct stx__build *b;
	struct stx__values *v;
	uint32_t (*value)[STX__MAX_ROWS]; /* [group][row]: value of each buffer at the point */
	uint32_t (*acc)[STX__MAX_ROWS];   /* of reductions */
	uint32_t *at;                     /* temps of the body being played */
	stx_ex *indirects;                /* its indirect atoms, or NULL when it has none */
	stx_ex map[STX__MAX_DIMS];        /* its variables over the kernel's axes */
};

static stx_ex place(struct play *p, uint32_t pos, stx_ex e)
{
	struct stx__build *b = p->b;
	const struct stx_buffer *buf = b->def->buffers[pos];
	if (p->indirects)
		e = stx_ex_subst_kind(b->ex, e, STX_ATOM_INDIRECT, p->indirects, buf->body.n);
	return stx_ex_subst(b->ex, e, p->map, buf->nranges + buf->nrranges);
}

static void set_map(struct play *p, uint32_t pos, uint32_t row)
{
	struct stx__build *b = p->b;
	const struct stx__member *m = &b->phases.at[pos];
	const struct stx_buffer *buf = b->def->buffers[pos];
	for (uint32_t i = 0; i < buf->nranges + buf->nrranges; i++) {
		uint32_t v = m->is_same ? i : m->canon[i];
		p->map[i] = v == 0xff ? stx_ex_const(b->ex, 0) : b->axes.map[row][v];
	}
}

static uint32_t temp_of(const struct play *p, uint32_t operand)
{
	return operand == STX_NONE ? STX_NONE : p->at[operand];
}

static void play_inst(struct play *p, uint32_t pos, uint32_t i, uint32_t row)
{
	const struct stx_binst *in = &p->b->def->buffers[pos]->body.at[i];
	struct stx__values *v = p->v;
	enum stx_dtype t = (enum stx_dtype)in->dtype;
	if (in->op < STX_PRIM_COUNT) {
		p->at[i] = stx__value_prim(v, (enum stx_prim)in->op, t, temp_of(p, in->a),
					   temp_of(p, in->b), temp_of(p, in->c));
		return;
	}
	switch (in->op) {
	case STX_B_CONST: p->at[i] = stx__value_const(v, t, in->k); break;
	case STX_B_INDEX: p->at[i] = stx__value_index(v, t, place(p, pos, in->ex)); break;
	case STX_B_LOAD: {
		int mine = stx__in_group(p->b->def, in->a);
		p->at[i] = mine >= 0 ? p->value[mine][row]
				     : stx__value_load(v, t, find_param(v->k, in->a),
						       place(p, pos, in->ex), temp_of(p, in->c));
		break;
	}
	default: /* STX_B_INDIRECT */
		p->at[i] = stx__value_indirect(v, in, temp_of(p, in->a), temp_of(p, in->c),
					       place(p, pos, in->ex));
		assert(p->indirects); /* play_body made them: the body has an INDIRECT */
		p->indirects[i] = stx__indirect_atom(v, p->at[i]);
	}
}

static stx_err play_body(struct play *p, uint32_t pos, uint32_t row)
{
	const struct stx_body *body = &p->b->def->buffers[pos]->body;
	int indirect = 0;
	set_map(p, pos, row);
	p->at = STX_NEW_ARRAY(p->b->arena, uint32_t, body->n + 1);
	for (uint32_t i = 0; i < body->n; i++)
		indirect |= body->at[i].op == STX_B_INDIRECT;
	p->indirects = indirect ? STX_NEW_ARRAY(p->b->arena, stx_ex, body->n) : NULL;
	if (!p->at || (indirect && !p->indirects))
		return oom(p->b);
	for (uint32_t i = 0; i < body->n && !p->v->oom; i++)
		play_inst(p, pos, i, row);
	return p->v->oom ? stx__values_fail(p->v) : STX_E_OK;
}

/* Bit-exact in any order, so that no order need be kept (kernel.h). */
static int is_exact(const struct stx_buffer *buf)
{
	switch (buf->monoid) {
	case STX_MONOID_SUM:
	case STX_MONOID_PROD:
	case STX_MONOID_DOT:
	case STX_MONOID_SOFTMAX:
	case STX_MONOID_WELFORD: return !stx_dtype_is_float(buf->acc);
	default: return 1;
	}
}

static enum stx_order order_of(struct stx__build *b, const struct stx_buffer *buf)
{
	if (b->def->target_gpu)
		return STX_ORDER_TREE;
	if (b->axes.lanes)
		return STX_ORDER_LANES;
	if (buf->monoid == STX_MONOID_DOT || is_exact(buf))
		return STX_ORDER_PLAIN;
	if (buf->is_merge)
		return STX_ORDER_SERIAL;
	stx_ex total = stx_ex_const(b->ex, 1);
	for (uint32_t i = 0; i < buf->nrranges; i++)
		total = stx_ex_mul(b->ex, total, buf->rranges[i]);
	int64_t hi = total == STX_EX_BAD ? STX_POS_INF : stx_ex_interval(b->ex, total).hi;
	return hi <= STX_SERIAL_CHUNK ? STX_ORDER_PLAIN : STX_ORDER_SERIAL;
}

static stx_err add_effect(struct play *p, struct stx_kinst i, uint32_t phase)
{
	struct stx__effect e = { i, phase };
	if (p->v->oom)
		return stx__values_fail(p->v);
	return stx_push(p->b->arena, &p->v->effects, e) ? oom(p->b) : STX_E_OK;
}

/* The accumulator of this phase that already combines the same values, or NONE: buffers that keep
 * several values of one reduction. */
static uint32_t shared_acc(const struct play *p, const struct stx_kinst *acc,
			   const struct stx_kinst *u, uint32_t phase)
{
	for (uint32_t i = 0; i < p->v->effects.n; i++) {
		const struct stx__effect *e = &p->v->effects.at[i];
		if (e->i.op != STX_K_UPDATE || e->phase != phase || e->i.b != u->b ||
		    e->i.c != u->c)
			continue;
		const struct stx_kinst *a = &p->v->temps.at[e->i.a].i;
		if (a->flags == acc->flags && a->dtype == acc->dtype && a->axis == acc->axis &&
		    a->a == acc->a)
			return e->i.a;
	}
	return STX_NONE;
}

static stx_err play_reduction(struct play *p, uint32_t pos, uint32_t row)
{
	struct stx__build *b = p->b;
	const struct stx_buffer *buf = b->def->buffers[pos];
	struct stx_kinst i = { .op = STX_K_ACC,
			       .dtype = (uint8_t)buf->acc,
			       .flags = (uint8_t)buf->monoid,
			       .axis = (uint8_t)order_of(b, buf),
			       .a = b->axes.nest[b->axes.nout],
			       .b = STX_NONE,
			       .c = STX_NONE };
	stx_err err = play_body(p, pos, row);
	if (err)
		return err;
	struct stx_kinst u = { .op = STX_K_UPDATE, .dtype = (uint8_t)buf->acc, .c = STX_NONE };
	u.b = stx__value_cast(p->v, buf->acc, p->at[buf->body.result[0]]);
	if (buf->monoid == STX_MONOID_DOT)
		u.c = stx__value_cast(p->v, buf->acc, p->at[buf->body.result[1]]);
	else if (is_arg(buf->monoid))
		u.c = stx__value_index(p->v, STX_I64, place(p, pos, stx__position(b->ex, buf)));
	u.a = p->acc[pos][row] = shared_acc(p, &i, &u, b->phases.at[pos].phase);
	if (u.a != STX_NONE)
		return STX_E_OK;
	u.a = p->acc[pos][row] = stx__value_marker(p->v, i);
	return add_effect(p, u, b->phases.at[pos].phase);
}

static void play_result(struct play *p, uint32_t pos, uint32_t row)
{
	const struct stx_buffer *buf = p->b->def->buffers[pos];
	struct stx_kinst res = { .op = STX_K_RESULT,
				 .flags = buf->state,
				 .a = p->acc[pos][row],
				 .b = STX_NONE,
				 .c = STX_NONE };
	res.dtype = (uint8_t)stx_monoid_state_dtype(buf->monoid, buf->state, buf->acc);
	p->value[pos][row] = stx__value_cast(p->v, buf->dtype, stx__value_marker(p->v, res));
}

static stx_err play_pointwise(struct play *p, uint32_t pos, uint32_t row)
{
	const struct stx_buffer *buf = p->b->def->buffers[pos];
	stx_err err = play_body(p, pos, row);
	if (!err)
		p->value[pos][row] = stx__value_cast(p->v, buf->dtype, p->at[buf->body.result[0]]);
	return err;
}

/* Stores value in the place of buffer pos. */
static stx_err play_store(struct play *p, uint32_t pos, uint32_t value, uint32_t row,
			  uint32_t phase)
{
	const struct stx_buffer *buf = p->b->def->buffers[pos];
	struct stx_kinst s = { .op = STX_K_STORE,
			       .dtype = (uint8_t)buf->dtype,
			       .a = find_param(p->v->k, buf->id),
			       .b = value,
			       .c = STX_NONE };
	set_map(p, pos, row);
	s.ex = stx_ex_subst(p->b->ex, buf->store, p->map, buf->nranges);
	return add_effect(p, s, phase);
}

/* A full-level value in phase k: computed, or read from where the phase before left it. */
static stx_err play_full(struct play *p, uint32_t pos, uint32_t row, uint32_t k)
{
	const struct stx__member *m = &p->b->phases.at[pos];
	uint32_t to = m->keeper ? m->keeper - 1u : 0;
	const struct stx_buffer *buf = p->b->def->buffers[to];
	if (!m->keeper || k != last_phase(m)) {
		stx_err err = play_pointwise(p, pos, row);
		return err || !m->keeper ? err : play_store(p, to, p->value[pos][row], row, k);
	}
	set_map(p, to, row);
	stx_ex at = stx_ex_subst(p->b->ex, buf->store, p->map, buf->nranges);
	p->value[pos][row] =
		stx__value_load(p->v, buf->dtype, find_param(p->v->k, buf->id), at, STX_NONE);
	return STX_E_OK;
}

/* Phase k: results of the reductions before it, pointwise values of the rows, then inside its loops
 * what they read, the reductions, the stores. */
static stx_err play_phase(struct play *p, uint32_t k)
{
	struct stx__build *b = p->b;
	stx_err err = STX_E_OK;
	p->v->phase = k;
	for (uint32_t i = 0; i < b->def->n; i++)
		for (uint32_t r = 0; r < b->axes.rows; r++)
			if (b->def->buffers[i]->def == STX_DEF_REDUCTION &&
			    b->phases.at[i].phase + 1u == k)
				play_result(p, i, r);
	for (uint32_t r = 0; r < b->axes.rows; r++)
		for (uint32_t i = 0; i < b->def->n && !err; i++) {
			const struct stx__member *m = &b->phases.at[i];
			if (b->def->buffers[i]->def == STX_DEF_POINTWISE && !m->is_full &&
			    m->phase == k)
				err = play_pointwise(p, i, r);
		}
	for (uint32_t r = 0; r < b->axes.rows; r++)
		for (uint32_t i = 0; i < b->def->n && !err; i++)
			if (b->phases.at[i].is_full && b->phases.at[i].needs >> k & 1)
				err = play_full(p, i, r, k);
	for (uint32_t i = 0; i < b->def->n && !err; i++)
		for (uint32_t r = 0; r < b->axes.rows && !err; r++)
			if (b->def->buffers[i]->def == STX_DEF_REDUCTION &&
			    b->phases.at[i].phase == k)
				err = play_reduction(p, i, r);
	for (uint32_t i = 0; i < b->def->n && !err; i++)
		for (uint32_t r = 0; r < b->axes.rows && !err; r++)
			if (b->def->is_stored[i] && b->phases.at[i].is_full &&
			    (uint32_t)__builtin_ctz(b->phases.at[i].needs) == k)
				err = play_store(p, i, p->value[i][r], r, k);
	return p->v->oom ? stx__values_fail(p->v) : err;
}

static stx_err play_all(struct stx__build *b, struct stx_kernel *k)
{
	struct stx__values v;
	struct play p = { .b = b, .v = &v };
	stx_err err = stx__values_init(&v, b, k);
	p.value = stx_arena_zalloc(b->arena, b->def->n, sizeof *p.value);
	p.acc = stx_arena_zalloc(b->arena, b->def->n, sizeof *p.acc);
	if (err || !p.value || !p.acc)
		return oom(b);
	for (uint32_t i = 0; i <= b->phases.n && !err; i++)
		err = play_phase(&p, i);
	for (uint32_t i = 0; i < b->def->n && !err; i++)
		for (uint32_t r = 0; r < b->axes.rows && !err; r++)
			if (b->def->is_stored[i] && !b->phases.at[i].is_full)
				err = play_store(&p, i, p.value[i][r], r, STX_NONE);
	return err ? err : stx__values_finish(&v);
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
	int64_t point = stx__sat_mul(b->axes.point_elems, per + 80 * ops + 20);
	int64_t grain = 20000000 / (point < 1 ? 1 : point);
	return grain < 1 ? 1 : grain;
}

static enum stx_kernel_kind kind_of(const struct stx__build *b)
{
	if (b->space->def != STX_DEF_REDUCTION)
		return STX_KERNEL_POI;
	int64_t n = 1;
	for (uint32_t i = 0; i < b->space->nrranges; i++)
		n = stx__sat_mul(n, stx_ex_hint(b->ex, b->space->rranges[i]));
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
	b->nred_dims = b->space->def == STX_DEF_REDUCTION ? b->space->nrranges : 0;
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
	if ((b->phases.n + 1) * (b->nred_dims + 2) >= STX__REGIONS)
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
	return 1;
}

static stx_err build(struct stx__build *b, struct stx_kernel *k)
{
	stx_err err = choose(b);
	if (!err)
		choose_keepers(b);
	if (!err)
		err = collect_params(b, k);
	for (uint32_t i = 0; i < b->axes.naxes && !err; i++)
		if (stx_push(b->arena, &k->axes, b->axes.axis[i]))
			err = oom(b);
	if (!err)
		err = play_all(b, k);
	if (err)
		return err;
	k->kind = kind_of(b);
	k->index_bits = b->axes.index_bits;
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
