/* split.c: the two layers of a long reduction (split.h; seed 000 6.5, conformance RD-05, RD-13,
 * RD-25 to RD-28).
 *
 * How the reduction would run alone (kernel_axes.c) says what its chunks are: runs of `unit`
 * iterations of its innermost loop. One loop: a segment is 2^k units of it. Several: a segment is
 * 2^k rounds of the outer loops when a run of the inner one is one unit, or as many as make 2^k
 * units when it is a power of two of them; else chunks and rounds do not align and the reduction
 * stays whole. The last segment may be ragged: the buffer's rlimit ends it (RD-27). One pass over
 * the buffers, and one over all instructions when something was cut. */
#include "split.h"

#include "schedule_impl.h"

#define FEW_POINTS  16 /* grid points that are too few for the threads of a machine */
#define MANY_POINTS 64 /* what segments should make of them */
#define LONG_WORK                                                                                  \
	((int64_t)1 << 18) /* elements below which one thread is done before others start */
#define MAX_PARTS (STX_MAX_DIMS - 1) /* result axes the first layer has room for */

struct cut { /* how the first layer runs */
	int64_t segments;
	int64_t rounds, inner; /* sizes of its reduction axes, outer to inner; rounds 0: none */
	int64_t last;          /* outermost reduction axis over all segments; the limit */
	int64_t parts;         /* segments an outer round is cut into; 1 but when rounds is 0 */
	uint8_t serial,
		several; /* chunks along a loop, not along lanes; the reduction has outer loops */
	uint8_t by_rows; /* is_by_rows: loops.h */
};

struct split {
	struct stx_loops *l;
	const struct stx_schedule_options *o;
	struct stx_arena *arena;
	struct stx__build *build; /* scratch */
	uint32_t *
		along; /* [buffers.n] of a GPU: the newest reduction along rows that reads it, or what
			    it is computed of, element by element, + 1 */
};

static int sizes_of(const struct stx_exprs *x, const stx_ex *e, uint32_t n, int64_t *product)
{
	int64_t v;
	*product = 1;
	for (uint32_t i = 0; i < n; i++) {
		if (!stx_ex_is_const(x, e[i], &v) || v < 1)
			return 0;
		*product = stx_sat_mul(*product, v);
	}
	return 1;
}

static int run_alone(struct split *s, const struct stx_buffer *b, struct stx__red_order *r)
{
	static const uint8_t stored[1] = { 1 };
	struct stx__group_def def = { .buffers = &b,
				      .n = 1,
				      .is_stored = stored,
				      .name = b->name,
				      .target_gpu = s->o->target_gpu,
				      .fast = s->o->fast,
				      .cpu = s->o->cpu };
	return stx__red_order(s->build, s->l, &def, r);
}

/* ---- how to cut ---- */

/* log2 of the units in a segment: the most that leave MANY_POINTS grid points. */
static int run_length(int64_t points, int64_t units)
{
	int k = 0;
	while (k < 40 && stx_sat_mul(points, ((units - 1) >> (k + 1)) + 1) >= MANY_POINTS)
		k++;
	return k;
}

static int cut_for_threads(const struct split *s, const struct stx__red_order *r, struct cut *c)
{
	int64_t points = stx_ex_hint(s->l->ex, s->build->axes.grid), n, outer = 1;
	int64_t unit = r->lanes ? STX_LANES_CHUNK : STX_SERIAL_CHUNK;
	if (points >= FEW_POINTS || !sizes_of(s->l->ex, &r->size[r->nloops - 1], 1, &n) ||
	    !sizes_of(s->l->ex, r->size, r->nloops - 1, &outer))
		return 0;
	int64_t units = (n - 1) / unit + 1; /* of a run of the inner loop */
	int k = run_length(points, stx_sat_mul(outer, units));
	*c = (struct cut){ .serial = !r->lanes, .several = r->nloops > 1, .parts = 1 };
	if (r->nloops > 1 && units > 1) {
		if (units & (units - 1) || n % unit)
			return 0;
		int of_run = __builtin_ctzll((uint64_t)units);
		if (k < of_run) { /* parts of a run */
			c->parts = units >> k;
			c->segments = stx_sat_mul(outer, c->parts);
			c->inner = c->last = unit << k;
			return 1;
		}
		k -= of_run;
	}
	if (r->nloops > 1) {
		c->rounds = (int64_t)1 << k;
		c->inner = n;
		c->last = outer;
		c->segments = ((outer - 1) >> k) + 1;
	} else {
		c->inner = unit << k;
		c->last = n;
		c->segments = (n - 1) / c->inner + 1;
	}
	return 1;
}

/* The stride of b's load `in` along its last reduction axis, or its last range, is 1. */
static int is_dense(const struct split *s, const struct stx_buffer *b, const struct stx_binst *in,
		    int along_rows)
{
	uint32_t n = b->nranges + (along_rows ? b->nrranges : 0);
	stx_ex coeff, rest;
	return n && in->c == STX_NONE && stx_ex_linear_in(s->l->ex, in->ex, n - 1, &coeff, &rest) &&
	       stx_ex_equals(s->l->ex, coeff, 1);
}

static stx_err note_rows(struct split *s)
{
	s->along = STX_NEW_ARRAY(s->arena, uint32_t, s->l->buffers.n + 1);
	for (uint32_t i = 0; s->along && i < s->l->buffers.n; i++) {
		const struct stx_buffer *b = s->l->buffers.at[i];
		for (uint32_t j = 0; b->def == STX_DEF_POINTWISE && j < b->body.n; j++)
			if (b->body.at[j].op == STX_B_LOAD && is_dense(s, b, &b->body.at[j], 0) &&
			    s->along[b->body.at[j].a] > s->along[i])
				s->along[i] = s->along[b->body.at[j].a];
		if (b->def != STX_DEF_REDUCTION || b->is_merge || b->rlimit != STX_EX_BAD ||
		    b->monoid == STX_MONOID_DOT || b->monoid == STX_MONOID_ATTEND || !b->nrranges)
			continue;
		for (uint32_t j = 0; j < b->body.n; j++)
			if (b->body.at[j].op == STX_B_LOAD && is_dense(s, b, &b->body.at[j], 1))
				s->along[b->body.at[j].a] = i + 1;
	}
	return s->along ? STX_E_OK : STX_E_NOMEM;
}

/* A reduction along n_r rows of n elements that reads an operand of b, which reduces across them. */
static const struct stx_buffer *beside_rows(const struct split *s, const struct stx_buffer *b,
					    int64_t n, int64_t n_r)
{
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		uint32_t at = in->op == STX_B_LOAD ? s->along[in->a] : 0;
		const struct stx_buffer *r = at ? s->l->buffers.at[at - 1] : NULL;
		int64_t rows, columns;
		if (r && is_dense(s, b, in, 0) &&
		    sizes_of(s->l->ex, r->ranges, r->nranges, &rows) &&
		    sizes_of(s->l->ex, r->rranges, r->nrranges, &columns) && rows == n_r &&
		    columns == n)
			return r;
	}
	return NULL;
}

static int cut_for_device(const struct split *s, const struct stx_buffer *b,
			  const struct stx__red_order *r, struct cut *c)
{
	static const struct stx_device common = STX_DEVICE_DEFAULT;
	int64_t n, n_r;
	if (r->nloops != 1 || !sizes_of(s->l->ex, b->ranges, b->nranges, &n) ||
	    !sizes_of(s->l->ex, r->size, 1, &n_r))
		return 0;
	const struct stx_device *d = s->o->device ? s->o->device : &common;
	*c = (struct cut){ .last = n_r, .parts = 1, .serial = (uint8_t)!r->lanes };
	c->segments = r->lanes ? stx__split_factor(n, n_r, d) : stx__split_factor_across(n, n_r, d);
	int64_t by_rows =
		!r->lanes && beside_rows(s, b, n, n_r) ? stx__split_factor_rows(n, n_r, d) : 1;
	c->by_rows = (uint8_t)(by_rows > 1 ? 2 : !r->lanes);
	c->segments = by_rows > 1 ? by_rows : c->segments;
	c->inner = (n_r - 1) / c->segments + 1;
	return 1;
}

/* 1: c and r say how b is cut. */
static int find_cut(struct split *s, const struct stx_buffer *b, struct cut *c,
		    struct stx__red_order *r)
{
	const struct stx_exprs *x = s->l->ex;
	int64_t results, length;
	if (b->def != STX_DEF_REDUCTION || b->is_merge || b->rlimit != STX_EX_BAD ||
	    !stx_monoid_info(b->monoid)->split || stx_monoid_info(b->monoid)->state != 1)
		return 0;
	if (!sizes_of(x, b->ranges, b->nranges, &results) ||
	    !sizes_of(x, b->rranges, b->nrranges, &length))
		return 0;
	if (!s->o->target_gpu && stx_sat_mul(results, length) < LONG_WORK)
		return 0;
	if (!run_alone(s, b, r) || !r->nloops)
		return 0;
	return (s->o->target_gpu ? cut_for_device(s, b, r, c) : cut_for_threads(s, r, c)) &&
	       c->segments > 1;
}

/* ---- the first layer ---- */

struct layer {
	struct split *s;
	const struct stx_buffer *b;
	const struct cut *c;
	struct stx_buffer *first;
	stx_ex out[STX__MAX_DIMS]; /* result axes of b over the variables of first */
	stx_ex map[STX__MAX_DIMS]; /* all axes of b */
};

/* The reduction's loops, outer to inner, over the first layer's variables. */
static void place_loops(struct layer *y, const struct stx__red_order *r, stx_ex segment,
			stx_ex *loop)
{
	struct stx_exprs *x = y->s->l->ex;
	const struct cut *c = y->c;
	uint32_t var = y->first->nranges, n = r->nloops;
	stx_ex round = segment, size;
	if (c->rounds) {
		stx_ex q = stx_ex_var(x, var++, stx_ex_const(x, c->rounds));
		round = stx_ex_add(x, stx_ex_muli(x, segment, c->rounds), q);
	} else if (c->several) {
		size = stx_ex_const(x, c->parts);
		round = stx_ex_floordiv(x, segment, size);
		segment = stx_ex_mod(x, segment, size);
	}
	stx_ex in = stx_ex_var(x, var, stx_ex_const(x, c->inner));
	loop[n - 1] = c->rounds ? in : stx_ex_add(x, stx_ex_muli(x, segment, c->inner), in);
	for (uint32_t i = n - 1; i-- > 0;) {
		loop[i] = i ? stx_ex_mod(x, round, r->size[i]) : round;
		round = stx_ex_floordiv(x, round, r->size[i]);
	}
}

static int place_axes(struct layer *y, const struct stx__red_order *r)
{
	struct stx_exprs *x = y->s->l->ex;
	const struct stx__axes *axes = &y->s->build->axes;
	stx_ex loop[STX__MAX_DIMS], at[STX__MAX_DIMS] = { STX_EX_BAD };
	uint32_t seg_var = y->c->serial ? 0 : y->first->nranges - 1;
	place_loops(y, r, stx_ex_var(x, seg_var, y->first->ranges[seg_var]), loop);
	for (uint32_t i = 0; i < r->nloops; i++)
		at[axes->nest[axes->nout + i]] = loop[i];
	for (uint32_t i = 0; i < y->b->nranges; i++)
		y->map[i] = y->out[i];
	for (uint32_t i = 0; i < y->b->nrranges; i++) {
		stx_ex e = stx_ex_subst(x, r->map[i], at, axes->naxes);
		if (e == STX_EX_BAD)
			return 0;
		y->map[y->b->nranges + i] = e;
	}
	return 1;
}

/* Result axes but those of size 1, and the segments: last of a row-major buffer, or first when the
 * results are the vector axis. */
static int make_ranges(struct layer *y)
{
	struct stx_exprs *x = y->s->l->ex;
	struct stx_buffer *f = y->first;
	stx_ex *ranges = STX_NEW_ARRAY(y->s->arena, stx_ex, STX_MAX_DIMS),
	       *strides = STX_NEW_ARRAY(y->s->arena, stx_ex, STX_MAX_DIMS);
	stx_ex segments = stx_ex_const(x, y->c->segments), stride = stx_ex_const(x, 1);
	uint32_t n = 0;
	if (!ranges || !strides)
		return 0;
	if (y->c->serial)
		ranges[n++] = segments;
	for (uint32_t i = 0; i < y->b->nranges; i++) {
		if (stx_ex_equals(x, y->b->ranges[i], 1)) {
			y->out[i] = stx_ex_const(x, 0);
			continue;
		}
		if (n > MAX_PARTS - 1u)
			return 0;
		y->out[i] = stx_ex_var(x, n, y->b->ranges[i]);
		ranges[n++] = y->b->ranges[i];
	}
	if (!y->c->serial)
		ranges[n++] = segments;
	f->store = stx_ex_const(x, 0);
	for (uint32_t i = n; i-- > 0;) {
		strides[i] = stride;
		f->store =
			stx_ex_add(x, f->store, stx_ex_mul(x, stride, stx_ex_var(x, i, ranges[i])));
		stride = stx_ex_mul(x, stride, ranges[i]);
	}
	f->ranges = ranges;
	f->nranges = n;
	f->layout = (struct stx_layout){ .rank = (uint8_t)n,
					 .sizes = ranges,
					 .strides = strides,
					 .offset = stx_ex_const(x, 0) };
	return stride != STX_EX_BAD && f->store != STX_EX_BAD;
}

static int make_rranges(struct layer *y)
{
	struct stx_exprs *x = y->s->l->ex;
	struct stx_buffer *f = y->first;
	const struct cut *c = y->c;
	stx_ex *rr = STX_NEW_ARRAY(y->s->arena, stx_ex, 2);
	int64_t outer = c->rounds ? c->rounds : c->inner;
	uint32_t seg = c->serial ? 0 : f->nranges - 1;
	if (!rr)
		return 0;
	if (c->rounds)
		rr[f->nrranges++] = stx_ex_const(x, c->rounds);
	rr[f->nrranges++] = stx_ex_const(x, c->inner);
	f->rranges = rr;
	if (c->last % outer)
		f->rlimit = stx_ex_sub(x, stx_ex_const(x, c->last),
				       stx_ex_muli(x, stx_ex_var(x, seg, f->ranges[seg]), outer));
	return 1;
}

static int copy_body(struct layer *y)
{
	const struct stx_body *from = &y->b->body;
	struct stx_body *to = &y->first->body;
	uint32_t n = y->b->nranges + y->b->nrranges;
	*to = *from;
	to->at = stx_arena_alloc(y->s->arena, (from->n + 1) * sizeof *to->at);
	if (!to->at)
		return 0;
	for (uint32_t i = 0; i < from->n; i++) {
		to->at[i] = from->at[i];
		if (from->at[i].ex == STX_EX_BAD)
			continue;
		to->at[i].ex = stx_ex_subst(y->s->l->ex, from->at[i].ex, y->map, n);
		if (to->at[i].ex == STX_EX_BAD)
			return 0;
	}
	return 1;
}

/* Whether the first layer would run in the loops it was made for, so that its chunks are those of
 * the uncut reduction. */
static int runs_as_planned(struct split *s, const struct stx_buffer *first, const struct cut *c)
{
	struct stx__red_order r;
	uint32_t loops = 0, n = first->nranges;
	if (!run_alone(s, first, &r) || r.lanes == c->serial)
		return 0;
	for (uint32_t i = 0; i < first->nrranges; i++) {
		if (stx_ex_equals(s->l->ex, first->rranges[i], 1))
			continue;
		const struct stx__axes *a = &s->build->axes;
		uint32_t axis = loops < r.nloops ? a->nest[a->nout + loops] : 0;
		if (!axis || !stx_ex_uses_var(s->l->ex, a->map[0][n + i], axis) ||
		    (first->rlimit == STX_EX_BAD && r.size[loops] != first->rranges[i]))
			return 0;
		loops++;
	}
	return loops == r.nloops || (loops == 0 && r.nloops == 1);
}

/* The first layer of b; NULL: b stays whole, as it would not run in the loops it was made for or
 * its index expressions leave 64 bits. */
static struct stx_buffer *first_layer(struct split *s, const struct stx_buffer *b,
				      const struct cut *c, const struct stx__red_order *r)
{
	struct stx_buffer *f = STX_NEW(s->arena, struct stx_buffer);
	struct layer y = { .s = s, .b = b, .c = c, .first = f };
	if (!f)
		return NULL;
	f->id = STX_NONE; /* until it has its place */
	f->kind = STX_BUF_TEMP;
	f->name = stx_arena_printf(s->arena, "%s_parts", b->name);
	f->dtype = f->acc = b->acc;
	f->def = STX_DEF_REDUCTION;
	f->monoid = b->monoid;
	f->origins = b->origins;
	f->norigins = b->norigins;
	f->has_more_origins = b->has_more_origins;
	f->rule = STX_REALIZED_SPLIT;
	f->is_by_rows = c->by_rows;
	if (!f->name || !make_ranges(&y) || !make_rranges(&y) || !place_axes(&y, r) ||
	    !copy_body(&y) || !runs_as_planned(s, f, c))
		return NULL;
	return f;
}

/* b combines the partial results of first, number `id`. TOO_LARGE: an index leaves 64 bits. */
static stx_err second_layer(struct split *s, struct stx_buffer *b, const struct stx_buffer *first,
			    uint32_t id, int serial)
{
	struct stx_exprs *x = s->l->ex;
	stx_ex *rr = STX_NEW_ARRAY(s->arena, stx_ex, 1), map[STX__MAX_DIMS];
	struct stx_binst *in = STX_NEW(s->arena, struct stx_binst);
	uint32_t n = 0, seg = serial ? 0 : first->nranges - 1;
	if (!rr || !in)
		return STX_E_NOMEM;
	rr[0] = first->ranges[seg];
	map[seg] = stx_ex_var(x, b->nranges, rr[0]);
	n = serial;
	for (uint32_t i = 0; i < b->nranges; i++)
		if (!stx_ex_equals(x, b->ranges[i], 1))
			map[n++] = stx_ex_var(x, i, b->ranges[i]);
	*in = (struct stx_binst){ .op = STX_B_LOAD,
				  .dtype = (uint8_t)first->dtype,
				  .a = id,
				  .b = STX_NONE,
				  .c = STX_NONE,
				  .ex = stx_ex_subst(x, first->store, map, first->nranges) };
	b->body = (struct stx_body){ .at = in, .n = 1, .nresults = 1 };
	b->rranges = rr;
	b->nrranges = 1;
	b->is_merge = 1;
	if (in->ex != STX_EX_BAD)
		return STX_E_OK;
	return stx_arena_oom(s->arena) ? STX_E_NOMEM : STX_E_TOO_LARGE;
}

/* ---- the program ---- */

struct cuts {
	struct stx_buffer *first; /* NULL: whole */
	uint8_t serial;
};

static stx_err out_of_budget(struct stx_diag *d)
{
	return stx_fail(d, STX_E_NOMEM, "schedule", NULL, "the memory budget is exceeded");
}

static stx_err rebuild(struct split *s, const struct cuts *cuts, struct stx_diag *d)
{
	struct stx_loops *l = s->l, now = { 0 };
	uint32_t *number = STX_NEW_ARRAY(s->arena, uint32_t, l->buffers.n + 1), old = l->buffers.n;
	stx_err err = number ? STX_E_OK : STX_E_NOMEM;
	for (uint32_t i = 0; !err && i < old; i++) {
		struct stx_buffer *b = l->buffers.at[i], *f = cuts[i].first;
		if (f) {
			f->id = now.buffers.n;
			err = stx_push(s->arena, &now.buffers, f)
				      ? STX_E_NOMEM
				      : second_layer(s, b, f, f->id, cuts[i].serial);
		}
		if (!err) /* b itself reads what f computes, by its new number */
			stx_buffer_renumber(f ? f : b, number);
		number[i] = b->id = now.buffers.n;
		if (!err && stx_push(s->arena, &now.buffers, b))
			err = STX_E_NOMEM;
		if (err == STX_E_TOO_LARGE)
			return stx_fail(d, err, "schedule", b->name,
					"an index expression of the cut reduction leaves 64 bits");
	}
	if (err)
		return out_of_budget(d);
	stx__take_buffers(l, &now, number);
	return STX_E_OK;
}

stx_err stx__split(struct stx_loops *l, const struct stx_schedule_options *o, struct stx_diag *d)
{
	struct split s = { .l = l, .o = o, .arena = l->g->arena };
	struct cuts *cuts = STX_NEW_ARRAY(s.arena, struct cuts, l->buffers.n + 1);
	uint32_t ncuts = 0;
	s.build = STX_NEW(s.arena, struct stx__build);
	if (!cuts || !s.build || (o->target_gpu && note_rows(&s)))
		return out_of_budget(d);
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		struct stx__red_order r;
		struct cut c;
		if (find_cut(&s, l->buffers.at[i], &c, &r)) {
			cuts[i].first = first_layer(&s, l->buffers.at[i], &c, &r);
			cuts[i].serial = c.serial;
			ncuts += cuts[i].first != NULL;
		}
		if (stx_arena_oom(s.arena)) /* whole for want of memory would be another program */
			return out_of_budget(d);
	}
	return ncuts ? rebuild(&s, cuts, d) : STX_E_OK;
}
