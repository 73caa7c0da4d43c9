/* kernel_play.c: the bodies of a group as the instructions of one kernel.
 *
 * requires: b's axes, phases and keepers are chosen and the kernel has its parameters. ensures: the
 * kernel's instructions compute, at every point, the values of the bodies rounded as they are
 * recorded. Each body is played once for every row of the block, and a full-level one for every
 * phase that needs it, its variables replaced by the kernel's axes; equal values merge on the way
 * (kernel_values.c). Terminates: phases, rows and buffers are bounded (build.h), a body is played
 * in order. */
#include <assert.h>

#include "build.h"

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
void stx__choose_keepers(struct stx__build *b)
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
	stx_ex map[STX__MAX_DIMS];        /* its variables over the kernel's axes, or */
	const struct stx__member *member; /* not NULL: those of the first buffer */
};

/* e over the body's variables at the point of p->map. */
static stx_ex at_point(struct play *p, const struct stx_buffer *buf, stx_ex e)
{
	struct stx__build *b = p->b;
	uint32_t n = buf->nranges + buf->nrranges;
	if (p->member) {
		e = stx__canonical(b->ex, p->member, buf, b->space, e);
		n = b->nout_dims + b->nred_dims;
	}
	e = stx_ex_subst(b->ex, e, p->map, n);
	return b->axes.joined ? stx__axes_join(b->ex, e) : e;
}

static stx_ex place(struct play *p, const struct stx_buffer *buf, stx_ex e)
{
	if (p->indirects)
		e = stx_ex_subst_kind(p->b->ex, e, STX_ATOM_INDIRECT, p->indirects, buf->body.n);
	return at_point(p, buf, e);
}

static void set_map(struct play *p, uint32_t pos, uint32_t row)
{
	struct stx__build *b = p->b;
	const struct stx__member *m = &b->phases.at[pos];
	const struct stx_buffer *buf = b->def->buffers[pos];
	uint32_t n = buf->nranges + buf->nrranges;
	p->member = m->is_same || m->is_columns ? NULL : m;
	if (!m->is_columns) {
		memcpy(p->map, b->axes.map[row], sizeof p->map);
		return;
	}
	for (uint32_t i = 0; i < n; i++)
		p->map[i] = m->canon[i] == 0xff ? stx_ex_const(b->ex, 0)
						: b->axes.map[row][m->canon[i]];
	p->map[0] = b->axes.segment;
	p->map[buf->nranges] = b->axes.segment_row;
}

static uint32_t temp_of(const struct play *p, uint32_t operand)
{
	return operand == STX_NONE ? STX_NONE : p->at[operand];
}

static void play_scores(struct play *p, uint32_t *value);

/* A comparison of a merged index with a constant as one of the axis it is part of (kernel_axes.c): x
 * below k is X below k * by, and any integer comparison is whether x is below something. */
static int play_bound(struct play *p, const struct stx_buffer *buf, uint32_t i)
{
	const struct stx_binst *in = &buf->body.at[i], *index;
	const struct stx__axes *a = &p->b->axes;
	struct stx_exprs *x = p->b->ex;
	uint32_t var;
	int64_t plus, by;
	if (in->op < STX_P_LT || in->op > STX_P_GE || in->b == STX_NONE ||
	    buf->body.at[in->a].op != STX_B_INDEX || buf->body.at[in->b].op != STX_B_CONST)
		return 0;
	index = &buf->body.at[in->a];
	stx_ex e =
		p->member ? stx__canonical(x, p->member, buf, p->b->space, index->ex) : index->ex;
	if (!stx__var_plus(x, e, &var, &plus) || a->bound_by[var] == STX_EX_BAD ||
	    !stx_ex_is_const(x, a->bound_by[var], &by))
		return 0;
	int up = in->op == STX_P_LE || in->op == STX_P_GT; /* x <= k is x < k + 1 */
	__int128 k = ((__int128)buf->body.at[in->b].k.i - plus + up) * by;
	k = k > INT64_MAX ? INT64_MAX : k < INT64_MIN ? INT64_MIN : k;
	int below = in->op == STX_P_LT || in->op == STX_P_LE;
	uint32_t at = stx__value_index(p->v, STX_I64, p->map[a->bound_in[var]]);
	uint32_t to = stx__value_const(p->v, STX_I64, (union stx_scalar){ .i = (int64_t)k });
	p->at[i] = stx__value_prim(p->v, below ? STX_P_LT : STX_P_GE, STX_BOOL, at, to, STX_NONE);
	return 1;
}

static void play_inst(struct play *p, const struct stx_buffer *buf, uint32_t i, uint32_t row)
{
	const struct stx_binst *in = &buf->body.at[i];
	struct stx__values *v = p->v;
	enum stx_dtype t = (enum stx_dtype)in->dtype;
	if (play_bound(p, buf, i))
		return;
	if (in->op < STX_PRIM_COUNT) {
		p->at[i] = stx__value_prim(v, (enum stx_prim)in->op, t, temp_of(p, in->a),
					   temp_of(p, in->b), temp_of(p, in->c));
		return;
	}
	switch (in->op) {
	case STX_B_CONST: p->at[i] = stx__value_const(v, t, in->k); break;
	case STX_B_INDEX: p->at[i] = stx__value_index(v, t, place(p, buf, in->ex)); break;
	case STX_B_LOAD: {
		int mine = stx__in_group(p->b->def, in->a);
		const struct stx__scores *s = p->b->def->scores;
		if (s && s->product->id == in->a)
			play_scores(p, &p->at[i]);
		else
			p->at[i] = mine >= 0 ? p->value[mine][row]
					     : stx__value_load(v, t, stx__find_param(v->k, in->a),
							       place(p, buf, in->ex),
							       temp_of(p, in->c));
		break;
	}
	default: /* STX_B_INDIRECT */
		p->at[i] = stx__value_indirect(v, in, temp_of(p, in->a), temp_of(p, in->c),
					       place(p, buf, in->ex));
		assert(p->indirects); /* play_body made them: the body has an INDIRECT */
		p->indirects[i] = stx__indirect_atom(v, p->at[i]);
	}
}

/* The body at the point of p->map. */
static stx_err play_at_map(struct play *p, const struct stx_buffer *buf, uint32_t row)
{
	const struct stx_body *body = &buf->body;
	int indirect = 0;
	p->at = STX_NEW_ARRAY(p->b->arena, uint32_t, body->n + 1);
	for (uint32_t i = 0; i < body->n; i++)
		indirect |= body->at[i].op == STX_B_INDIRECT;
	p->indirects = indirect ? STX_NEW_ARRAY(p->b->arena, stx_ex, body->n) : NULL;
	if (!p->at || (indirect && !p->indirects))
		return stx__build_oom(p->b);
	for (uint32_t i = 0; i < body->n && !p->v->oom; i++)
		play_inst(p, buf, i, row);
	return p->v->oom ? stx__values_fail(p->v) : STX_E_OK;
}

static stx_err play_body(struct play *p, uint32_t pos, uint32_t row)
{
	set_map(p, pos, row);
	return play_at_map(p, p->b->def->buffers[pos], row);
}

/* Bit-exact in any order, so that no order need be kept (kernel.h). */
static int is_exact(const struct stx_buffer *buf)
{
	switch (buf->monoid) {
	case STX_MONOID_SUM:
	case STX_MONOID_PROD:
	case STX_MONOID_DOT:
	case STX_MONOID_SOFTMAX:
	case STX_MONOID_ATTEND:
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
	if (buf->monoid == STX_MONOID_ATTEND)
		return STX_ORDER_BLOCKS;
	if (buf->monoid == STX_MONOID_DOT || is_exact(buf))
		return STX_ORDER_PLAIN;
	/* partial results: of chunks, however few iterations a segment has */
	if (buf->is_merge || buf->rule == STX_REALIZED_SPLIT)
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
	return stx_push(p->b->arena, &p->v->effects, e) ? stx__build_oom(p->b) : STX_E_OK;
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
		    a->a == acc->a && a->c == acc->c)
			return e->i.a;
	}
	return STX_NONE;
}

/* One score of an attention, summed right there; p stands in the body that reads it. */
static void play_scores(struct play *p, uint32_t *value)
{
	struct stx__build *b = p->b;
	const struct stx__scores *s = b->def->scores;
	const struct stx_buffer *product = s->product;
	struct play was = *p;
	struct stx_kinst acc = { .op = STX_K_ACC,
				 .dtype = (uint8_t)product->acc,
				 .flags = STX_MONOID_DOT,
				 .axis = STX_ORDER_PLAIN,
				 .a = b->axes.nest[b->axes.nout + 1],
				 .b = STX_NONE,
				 .c = STX_NONE };
	struct stx_kinst u = { .op = STX_K_UPDATE, .dtype = (uint8_t)product->acc };
	struct stx_kinst res = {
		.op = STX_K_RESULT, .dtype = (uint8_t)product->acc, .b = STX_NONE, .c = STX_NONE
	};
	for (uint32_t i = 0; i < product->nranges; i++)
		p->map[i] = stx_ex_subst(b->ex, s->at[i], was.map, b->nout_dims + b->nred_dims);
	p->map[product->nranges] = b->axes.term;
	p->member = NULL;
	stx_err err = play_at_map(p, product, 0);
	if (!err) {
		u.b = stx__value_cast(p->v, product->acc, p->at[product->body.result[0]]);
		u.c = stx__value_cast(p->v, product->acc, p->at[product->body.result[1]]);
		u.a = res.a = stx__value_scores(p->v, acc);
		err = add_effect(p, u, 0);
	}
	*value = stx__value_cast(p->v, product->dtype, stx__value_after(p->v, res));
	p->v->oom |= err != STX_E_OK;
	p->at = was.at;
	p->indirects = was.indirects;
	p->member = was.member;
	memcpy(p->map, was.map, sizeof p->map);
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
	int columns = b->phases.at[pos].is_columns;
	stx_err err = play_body(p, pos, row);
	if (err)
		return err;
	if (columns) {
		i.a = b->axes.nest[0];
		i.c = b->axes.nest[b->axes.nout];
	}
	struct stx_kinst u = { .op = STX_K_UPDATE, .dtype = (uint8_t)buf->acc, .c = STX_NONE };
	u.b = stx__value_cast(p->v, buf->acc, p->at[buf->body.result[0]]);
	if (stx_monoid_info(buf->monoid)->nvals == 2)
		u.c = stx__value_cast(p->v, buf->acc, p->at[buf->body.result[1]]);
	else if (stx_monoid_is_arg(buf->monoid))
		u.c = stx__value_index(p->v, STX_I64, place(p, buf, stx__position(b->ex, buf)));
	u.a = p->acc[pos][row] = shared_acc(p, &i, &u, b->phases.at[pos].phase);
	if (u.a != STX_NONE)
		return STX_E_OK;
	u.a = p->acc[pos][row] = columns ? stx__value_columns(p->v, i) : stx__value_marker(p->v, i);
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
	uint32_t v = p->b->phases.at[pos].is_columns ? stx__value_columns(p->v, res)
						     : stx__value_marker(p->v, res);
	p->value[pos][row] = stx__value_cast(p->v, buf->dtype, v);
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
			       .a = stx__find_param(p->v->k, buf->id),
			       .b = value,
			       .c = STX_NONE };
	set_map(p, pos, row);
	s.ex = at_point(p, buf, buf->store);
	return add_effect(p, s, phase);
}

/* An update in place: what the element holds is read in the iteration that writes it. */
static stx_err play_update(struct play *p, uint32_t pos, uint32_t row)
{
	static const enum stx_prim ops[] = { [STX_MONOID_SUM] = STX_P_ADD,
					     [STX_MONOID_PROD] = STX_P_MUL,
					     [STX_MONOID_MAX] = STX_P_MAX,
					     [STX_MONOID_MIN] = STX_P_MIN };
	const struct stx_buffer *buf = p->b->def->buffers[pos];
	stx_err err = play_pointwise(p, pos, row);
	if (err)
		return err;
	struct stx_kinst s = { .op = STX_K_STORE,
			       .dtype = (uint8_t)buf->dtype,
			       .a = stx__find_param(p->v->k, buf->id),
			       .b = p->value[pos][row],
			       .c = STX_NONE,
			       .ex = place(p, buf, buf->store) };
	if (!buf->overwrite) {
		uint32_t old = stx__value_reload(p->v, buf->dtype, s.a, s.ex);
		s.b = stx__value_prim(p->v, ops[buf->monoid], buf->dtype, old, s.b, STX_NONE);
	}
	return add_effect(p, s, 0);
}

/* A scan, of rows side by side: what the accumulator is after each update is stored. */
static stx_err play_scan(struct play *p, uint32_t row)
{
	struct stx__build *b = p->b;
	const struct stx_buffer *buf = b->space;
	struct stx_kinst acc = { .op = STX_K_ACC,
				 .dtype = (uint8_t)buf->acc,
				 .flags = (uint8_t)buf->monoid,
				 .axis = STX_ORDER_RUNNING,
				 .a = b->axes.nest[b->axes.nout],
				 .b = STX_NONE,
				 .c = STX_NONE };
	struct stx_kinst u = { .op = STX_K_UPDATE, .dtype = (uint8_t)buf->acc, .c = STX_NONE };
	stx_err err = play_body(p, 0, row);
	if (err)
		return err;
	u.b = stx__value_cast(p->v, buf->acc, p->at[buf->body.result[0]]);
	if (stx_monoid_is_arg(buf->monoid))
		u.c = stx__value_index(p->v, STX_I64, place(p, buf, stx__position(b->ex, buf)));
	u.a = stx__value_marker(p->v, acc);
	err = add_effect(p, u, 0);
	for (uint32_t i = 0; i < b->def->n && !err; i++) {
		const struct stx_buffer *to = b->def->buffers[i];
		struct stx_kinst r = { .op = STX_K_RESULT,
				       .flags = to->state,
				       .a = u.a,
				       .b = STX_NONE,
				       .c = STX_NONE };
		r.dtype = (uint8_t)stx_monoid_state_dtype(to->monoid, to->state, to->acc);
		uint32_t value = stx__value_after(p->v, r);
		if (stx__dtype_is_narrow_float(to->dtype)) /* by way of f32: loops.h */
			value = stx__value_cast(p->v, STX_F32, value);
		value = stx__value_cast(p->v, to->dtype, value);
		if (b->def->is_stored[i])
			err = play_store(p, i, value, row, 0);
	}
	return err;
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
	stx_ex at = at_point(p, buf, buf->store);
	p->value[pos][row] =
		stx__value_load(p->v, buf->dtype, stx__find_param(p->v->k, buf->id), at, STX_NONE);
	return STX_E_OK;
}

/* Phase k: results of the reductions before it, pointwise values of the rows, then inside its loops
 * what they read, the reductions, the stores. */
static stx_err play_phase(struct play *p, uint32_t k)
{
	struct stx__build *b = p->b;
	stx_err err = STX_E_OK;
	p->v->phase = k;
	if (b->space->def == STX_DEF_SCATTER)
		return play_update(p, 0, 0);
	for (uint32_t r = 0; b->axes.scans && r < b->axes.rows && !err; r++)
		err = play_scan(p, r);
	if (b->axes.scans)
		return err;
	for (uint32_t i = 0; i < b->def->n; i++)
		for (uint32_t r = 0; r < b->axes.rows; r++)
			if (b->def->buffers[i]->def == STX_DEF_REDUCTION &&
			    !b->phases.at[i].is_columns && b->phases.at[i].phase + 1u == k)
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

stx_err stx__play(struct stx__build *b, struct stx_kernel *k)
{
	struct stx__values v;
	struct play p = { .b = b, .v = &v };
	stx_err err = stx__values_init(&v, b, k);
	p.value = stx_arena_zalloc(b->arena, b->def->n, sizeof *p.value);
	p.acc = stx_arena_zalloc(b->arena, b->def->n, sizeof *p.acc);
	if (err || !p.value || !p.acc)
		return stx__build_oom(b);
	for (uint32_t i = 0; i <= b->phases.n && !err; i++)
		err = play_phase(&p, i);
	for (uint32_t i = 0; i < b->def->n && !err; i++)
		for (uint32_t r = 0; r < b->axes.rows && !err; r++)
			if (b->def->is_stored[i] && !b->phases.at[i].is_full &&
			    !b->phases.at[i].is_columns)
				err = play_store(&p, i, p.value[i][r], r, STX_NONE);
	v.phase = b->phases.n + 1;
	for (uint32_t i = 0; i < b->def->n && !err; i++) {
		if (!b->phases.at[i].is_columns)
			continue;
		play_result(&p, i, 0);
		err = play_store(&p, i, p.value[i][0], 0, v.phase);
	}
	return err ? err : stx__values_finish(&v);
}
