/* fuse.c: which buffers are computed by one kernel.
 *
 * requires: buffers in definition order. ensures: every buffer with elements is in one group;
 * groups in order never read what a later one computes; each group is what build.h describes
 * (phases.c decides it when a group has several reductions or levels), and each of its reductions
 * runs in the order in which it would run alone, so that fused and unfused give the same bits. A
 * buffer joins the group of its latest producer (then the value never goes through memory), else
 * the newest group over the same space that shares an input with it, else one of few that read
 * what it reads and over whose rows and columns it runs; it starts a group otherwise, and the group
 * says why. One pass, a hash table of spaces; a group is small: linear. */
#include <assert.h>

#include "product.h"
#include "schedule_impl.h"

#define MAX_GROUP_BUFFERS    STX__MAX_GROUP
#define MAX_GROUP_INSTS      2000
#define MAX_GROUP_ELEMENTARY 64 /* of up to 1024 instructions; a kernel has 65536 at most */
#define MAX_GROUP_READS      64
#define MAX_RECOMPUTED                                                                             \
	96 /* operations an element that later phases may repeat: some four exponentials */
#define MAX_COLUMN_SUMS 4     /* of a kernel of rows: each has registers for its part of a row */
#define MAX_BESIDE      4     /* groups that a buffer is tried beside */
#define FEW_ROWS        16    /* grid points below which a kernel of phases may starve threads */
#define SMALL           65536 /* elements that one thread does at once */

struct fused {                           /* what fusion knows of a group besides its list */
	uint32_t reads[MAX_GROUP_READS]; /* buffers outside the group */
	uint32_t nreads, ninsts, nelementary;
	int64_t lane_ops; /* of the reductions, an element */
	uint8_t has_reduction, has_dot;
	uint8_t is_phased;            /* reductions that read others, or full-level results */
	struct stx__red_order *order; /* of the first reduction; NULL: not asked yet */
};

struct space_slot {
	uint32_t group; /* + 1 */
	uint64_t hash;
};

struct fuse {
	struct stx_schedule *s;
	struct stx_loops *l;
	struct stx_arena *arena;
	const struct stx__products *products;
	const struct stx__scores *scores; /* [buffers.n], or NULL */
	uint8_t *absorbed;                /* [buffers.n] it is scores */
	uint8_t is_gpu;
	uint32_t *group_of;
	STX_VEC(struct fused) info;
	struct space_slot *spaces; /* newest group of each space */
	uint32_t nslots;
	uint32_t (*readers)[2]; /* [buffers.n] newest groups that read it from memory, + 1 */
	const char *why;
	struct stx__build *build; /* scratch */
	struct tentative *tentative;
};

int stx__reads_at_point(const struct stx_binst *in, const struct stx_buffer *p)
{
	return in->c == STX_NONE && in->ex == p->store;
}

static struct fused *info_of(const struct fuse *f, uint32_t group)
{
	assert(f->info.at && group < f->info.n);
	return &f->info.at[group];
}

static const struct stx_buffer *head(const struct fuse *f, uint32_t group)
{
	return f->l->buffers.at[f->s->groups.at[group].buffers.at[0]];
}

/* ---- spaces ---- */

static uint64_t space_hash(const struct stx_buffer *b, int with_reduction)
{
	uint64_t h = b->nranges;
	for (uint32_t i = 0; i < b->nranges; i++)
		h = stx_mix64(h, b->ranges[i]);
	for (uint32_t i = 0; with_reduction && i < b->nrranges; i++)
		h = stx_mix64(h, (uint64_t)b->rranges[i] << 32);
	return stx_mix64(h, (uint64_t)with_reduction);
}

static int same_space(const struct stx_buffer *p, const struct stx_buffer *q)
{
	if (p->def != q->def || !stx__same_exs(p->ranges, p->nranges, q->ranges, q->nranges))
		return 0;
	return p->def != STX_DEF_REDUCTION ||
	       (stx__same_exs(p->rranges, p->nrranges, q->rranges, q->nrranges) &&
		p->rlimit == q->rlimit && p->is_merge == q->is_merge);
}

static struct space_slot *space_slot(struct fuse *f, const struct stx_buffer *b)
{
	uint64_t h = space_hash(b, b->def == STX_DEF_REDUCTION);
	uint32_t mask = f->nslots - 1, at = (uint32_t)h & mask;
	while (f->spaces[at].group &&
	       (f->spaces[at].hash != h || !same_space(head(f, f->spaces[at].group - 1), b)))
		at = (at + 1) & mask;
	f->spaces[at].hash = h;
	return &f->spaces[at];
}

/* ---- legality and worth ---- */

static const struct stx_buffer *scores_of(const struct fuse *f, const struct stx_buffer *b)
{
	return f->scores ? f->scores[b->id].product : NULL;
}

static uint32_t latest_producer(const struct fuse *f, const struct stx_buffer *b)
{
	const struct stx_buffer *s = scores_of(f, b);
	uint32_t latest = s ? latest_producer(f, s) : STX_NONE;
	for (uint32_t i = 0; i < b->body.n; i++) {
		if (b->body.at[i].op != STX_B_LOAD)
			continue;
		uint32_t g = f->group_of[b->body.at[i].a];
		if (g != STX_NONE && (latest == STX_NONE || g > latest))
			latest = g;
	}
	return latest;
}

static int reads_at_own_points(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		if (in->op == STX_B_LOAD && f->group_of[in->a] == group &&
		    !stx__reads_at_point(in, f->l->buffers.at[in->a])) {
			f->why = "it reads the group's results at other points";
			return 0;
		}
	}
	return 1;
}

static int stands_alone(struct fuse *f, const struct stx_buffer *b)
{
	int is_mask = b->rule == STX_REALIZED_MASK;
	if (b->base || b->message || is_mask)
		f->why = is_mask   ? "a library may make what reads or writes it"
			 : b->base ? "an update in place stands alone"
				   : "an assertion stands alone: its kernel carries the message";
	return b->base || b->message || is_mask;
}

/* The mask after what it tells of its rows (attention_mask.c): a library makes neither of them. */
static int ends_mask(const struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	const struct stx_buffer *h = head(f, group);
	int reads = 0;
	for (uint32_t i = 0; i < b->body.n; i++)
		reads |= b->body.at[i].op == STX_B_LOAD && b->body.at[i].a == h->id;
	return reads && b->rule == STX_REALIZED_MASK && h->rule == STX_REALIZED_MASK &&
	       h->def == STX_DEF_REDUCTION && f->s->groups.at[group].buffers.n == 1;
}

/* Nothing joins a sort or an update in place, whose kernels have forms of their own, nor a product
 * that a library may make, but for b where that is the epilogue the library makes with it. */
static int is_closed(struct fuse *f, uint32_t group, const struct stx_buffer *b)
{
	const struct stx_buffer *h = head(f, group);
	const struct stx__product *p = stx__product_of(f->products, h->id);
	if (p && b && p->epilogue == b->id && f->s->groups.at[group].buffers.n == 1)
		return 0;
	if (p)
		f->why = p->kind->alone;
	else if (h->def == STX_DEF_SORT || h->def == STX_DEF_SCAN)
		f->why = h->def == STX_DEF_SORT ? "it stands after or beside a sort"
						: "it stands after or beside a scan";
	else
		return !(b && ends_mask(f, b, group)) && stands_alone(f, h);
	return 1;
}

/* A reduction that reads a result of the group needs it complete: it is a later phase. */
static int reads_group(const struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	for (uint32_t i = 0; i < b->body.n; i++)
		if (b->body.at[i].op == STX_B_LOAD && f->group_of[b->body.at[i].a] == group)
			return 1;
	return 0;
}

static int is_contraction(const struct stx_buffer *b)
{
	return b->def == STX_DEF_REDUCTION &&
	       (b->monoid == STX_MONOID_DOT || b->monoid == STX_MONOID_ATTEND);
}

static uint32_t elementary_in(const struct stx_buffer *b)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < b->body.n; i++)
		n += b->body.at[i].op >= STX_P_FIRST_ELEMENTARY &&
		     b->body.at[i].op < STX_PRIM_COUNT;
	return n;
}

static int has_room(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	const struct fused *g = info_of(f, group);
	if (f->s->groups.at[group].buffers.n >= MAX_GROUP_BUFFERS ||
	    g->nreads >= MAX_GROUP_READS / 2 || g->ninsts + b->body.n > MAX_GROUP_INSTS ||
	    g->nelementary + elementary_in(b) > MAX_GROUP_ELEMENTARY) {
		f->why = "the kernel would be too large";
		return 0;
	}
	return 1;
}

static int shares_read(const struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	const struct fused *g = info_of(f, group);
	for (uint32_t i = 0; i < b->body.n; i++)
		for (uint32_t j = 0; b->body.at[i].op == STX_B_LOAD && j < g->nreads; j++)
			if (g->reads[j] == b->body.at[i].a)
				return 1;
	return 0;
}

static int64_t points(const struct stx_exprs *x, const stx_ex *ranges, uint32_t n)
{
	int64_t p = 1;
	for (uint32_t i = 0; i < n; i++)
		p = stx_sat_mul(p, stx_ex_hint(x, ranges[i]));
	return p;
}

static struct stx__red_order *order_alone(struct fuse *f, const struct stx_buffer *b)
{
	static const uint8_t stored[1] = { 1 };
	struct stx__group_def def = { .buffers = &b, .n = 1, .is_stored = stored, .name = b->name };
	struct stx__red_order *o = STX_NEW(f->arena, struct stx__red_order);
	return o && stx__red_order(f->build, f->l, &def, o) ? o : NULL;
}

/* Operations of a body, an elementary function as so many. */
static int64_t body_cost(const struct stx_buffer *b, int64_t elementary)
{
	int64_t ops = 0;
	for (uint32_t i = 0; i < b->body.n; i++)
		if (b->body.at[i].op < STX_PRIM_COUNT)
			ops += b->body.at[i].op >= STX_P_FIRST_ELEMENTARY &&
					       b->body.at[i].op != STX_P_RELU
				       ? elementary
				       : stx_prim_info((enum stx_prim)b->body.at[i].op)->cost;
	return ops;
}

/* After a reduction along vector lanes a pointwise result is scalar code. Not worth it when that
 * outweighs both the reductions themselves (16 elements at a time) and a kernel of its own. */
static int is_cheap_in_scalars(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	struct fused *g = info_of(f, group);
	const struct stx_buffer *h = head(f, group);
	int64_t ops = body_cost(b, 64);
	if (!g->has_reduction)
		return 1;
	if (ops * 16 <= stx_sat_mul(g->lane_ops, points(f->l->ex, h->rranges, h->nrranges)) ||
	    stx_sat_mul(ops, points(f->l->ex, h->ranges, h->nranges)) <= 20000)
		return 1;
	if (!g->order)
		g->order = order_alone(f, h);
	if (!g->order || !g->order->lanes)
		return 1;
	f->why = "it would be scalar code behind a reduction along vector lanes";
	return 0;
}

/* ---- phases ---- */

struct tentative { /* the group as it would be with one more buffer: reductions first */
	const struct stx_buffer *at[STX__MAX_GROUP];
	uint8_t is_stored[STX__MAX_GROUP];
	uint32_t n, mine;
	uint8_t gathers; /* it reads across its vector axis, which tiles of its own would do better
			  */
	uint8_t is_phased; /* it would have rows and columns; for join() */
	struct stx__phases phases;
};

/* In its group: reductions first, and those along rows before sums down their columns. */
static int comes_before(const struct stx_buffer *b, const struct stx_buffer *next)
{
	return b->def == STX_DEF_REDUCTION &&
	       (next->def != STX_DEF_REDUCTION || (next->is_by_rows && !b->is_by_rows));
}

static void assume(struct fuse *f, const struct stx_buffer *b, uint32_t group, struct tentative *t)
{
	const struct stx_group *g = &f->s->groups.at[group];
	int pending = 1;
	t->n = 0;
	for (uint32_t i = 0; i <= g->buffers.n; i++) {
		const struct stx_buffer *next =
			i < g->buffers.n ? f->l->buffers.at[g->buffers.at[i]] : NULL;
		if (pending && (!next || comes_before(b, next))) {
			t->mine = t->n;
			t->at[t->n++] = b;
			pending = 0;
		}
		if (next)
			t->at[t->n++] = next;
	}
	for (uint32_t i = 0; i < t->n; i++)
		t->is_stored[i] = t->at[i]->kind == STX_BUF_OUTPUT;
}

static int sums_few_columns(struct fuse *f, const struct tentative *t)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < t->n; i++)
		n += t->phases.at[i].is_columns;
	if (n > MAX_COLUMN_SUMS)
		f->why = "registers would not hold the sums of so many columns";
	return n <= MAX_COLUMN_SUMS;
}

static int repeats_little(struct fuse *f, const struct tentative *t)
{
	int64_t ops = 0;
	uint32_t functions = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		int times = __builtin_popcount(t->phases.at[i].needs);
		if (times > 1)
			ops += (times - 1) * body_cost(t->at[i], 20);
		functions += elementary_in(t->at[i]) * (uint32_t)(times > 1 ? times : 1);
	}
	if (ops <= MAX_RECOMPUTED && functions <= MAX_GROUP_ELEMENTARY)
		return 1;
	f->why = "phases would compute too much again";
	return 0;
}

static int same_order(const struct stx__red_order *p, const struct stx__red_order *q)
{
	return p && q && p->lanes == q->lanes &&
	       stx__same_exs(p->size, p->nloops, q->size, q->nloops) &&
	       stx__same_exs(p->map, p->nvars, q->map, q->nvars);
}

/* Every reduction would run as it does alone; enough grid points stay, and stores stay contiguous.
 */
static int keeps_order(struct fuse *f, struct tentative *t, uint32_t group)
{
	struct fused *g = info_of(f, group);
	const struct stx_buffer *h = t->at[0], *b = t->at[t->mine], *along[STX__MAX_GROUP];
	uint8_t stored[STX__MAX_GROUP];
	struct stx__group_def def = { .buffers = along, .is_stored = stored, .name = b->name };
	struct stx__red_order all;
	int columns = t->phases.at[t->mine].is_columns;
	for (uint32_t i = 0; i < t->n; i++)
		if (!t->phases.at[i].is_columns) { /* sums down columns have no say */
			along[def.n] = t->at[i];
			stored[def.n++] = t->is_stored[i];
		}
	int leads = h != head(f, group);
	if (!leads && !g->order)
		g->order = order_alone(f, h);
	if (!stx__red_order(f->build, f->l, &def, &all) ||
	    !same_order(leads ? order_alone(f, h) : g->order, &all) ||
	    (b->def == STX_DEF_REDUCTION && b != h && !columns &&
	     !same_order(order_alone(f, b), &all))) {
		f->why = "a reduction would run in another order";
		return 0;
	}
	t->gathers = all.gathers;
	int64_t rows = points(f->l->ex, h->ranges, h->nranges);
	int64_t total = stx_sat_mul(rows, points(f->l->ex, h->rranges, h->nrranges));
	if (!all.lanes)
		rows /= 64;
	if (total > SMALL && (rows < FEW_ROWS || all.narrow)) {
		f->why = all.narrow ? "its rows are not contiguous along the vector axis"
				    : "a kernel of phases would have too few grid points";
		return 0;
	}
	return 1;
}

/* Pointwise work on the results of a contraction, element by element: of an attention, whose axes
 * are its own; on the CPU of a convolution, whose group or channel is an axis of size 1, where it
 * stores as that would. */
static int is_epilogue(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	struct tentative *t = f->tentative;
	const struct stx_buffer *h = head(f, group);
	const struct stx__member *m = &t->phases.at[0];
	int is_attention = h->monoid == STX_MONOID_ATTEND;
	if (!is_contraction(h) || b->def != STX_DEF_POINTWISE || !has_room(f, b, group) ||
	    (f->is_gpu && !is_attention))
		return 0;
	assume(f, b, group, t);
	if (!stx__phases_find(f->l, t->at, t->n, t->is_stored, &t->phases, &f->why))
		return 0;
	m += t->mine;
	return !m->is_full &&
	       (is_attention || (!m->has_parts && is_cheap_in_scalars(f, b, group) &&
				 stx__canonical(f->l->ex, m, b, h, b->store) == h->store));
}

/* b as part of a group with rows and columns (build.h). */
static int may_be_phase(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	const struct fused *g = info_of(f, group);
	struct tentative *t = f->tentative;
	t->gathers = t->is_phased = 0;
	if (!g->has_reduction && b->def != STX_DEF_REDUCTION) {
		f->why = "its iteration space differs";
		return 0;
	}
	if (is_epilogue(f, b, group))
		return 1;
	if (g->has_dot || is_contraction(b)) {
		f->why = b->def == STX_DEF_REDUCTION
				 ? "a reduction over other kernels' results starts a kernel"
				 : "its iteration space differs";
		return 0;
	}
	if (!has_room(f, b, group))
		return 0;
	assume(f, b, group, t);
	if (!stx__phases_find(f->l, t->at, t->n, t->is_stored, &t->phases, &f->why) ||
	    !sums_few_columns(f, t) || !repeats_little(f, t) || !keeps_order(f, t, group))
		return 0;
	if (b->def == STX_DEF_POINTWISE && !t->phases.at[t->mine].is_full &&
	    !is_cheap_in_scalars(f, b, group))
		return 0;
	for (uint32_t i = 0; i < t->n; i++)
		t->is_phased |= t->phases.at[i].is_full || t->phases.n > 1;
	return 1;
}

/* b after what the group computes. */
static int may_follow(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	const struct stx_buffer *h = head(f, group);
	f->tentative->is_phased = 0;
	if (is_closed(f, group, b))
		return 0;
	if (b->def != STX_DEF_POINTWISE || info_of(f, group)->is_phased ||
	    !stx__same_exs(h->ranges, h->nranges, b->ranges, b->nranges))
		return may_be_phase(f, b, group);
	return reads_at_own_points(f, b, group) && has_room(f, b, group) &&
	       is_cheap_in_scalars(f, b, group);
}

/* Second layers of what one kernel began: so little work that a launch is what they save. */
static int merges_beside(const struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	const struct stx_buffer *h = head(f, group);
	return b->is_merge && h->is_merge && latest_producer(f, b) == latest_producer(f, h);
}

/* b beside the group's buffers, none of which it reads at all or only at its own points. */
static int may_stand_beside(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	const struct fused *g = info_of(f, group);
	f->tentative->is_phased = 0;
	if (is_closed(f, group, NULL))
		return 0;
	if (b->def == STX_DEF_REDUCTION && (g->has_dot || is_contraction(b))) {
		f->why = "a matrix product stands alone";
		return 0;
	}
	if (b->def == STX_DEF_REDUCTION && reads_group(f, b, group)) {
		f->why = "it reduces over what the kernel computes";
		return 0;
	}
	if (!shares_read(f, b, group) && !merges_beside(f, b, group)) {
		f->why = "it shares no input with the kernel over its space";
		return 0;
	}
	if (b->def == STX_DEF_REDUCTION)
		return may_be_phase(f, b, group);
	return reads_at_own_points(f, b, group) && has_room(f, b, group);
}

/* A load that the group has as well, at the same point: then one read serves both. */
static int shares_point(struct fuse *f, const struct tentative *t)
{
	const struct stx_buffer *h = t->at[0], *b = t->at[t->mine];
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		if (in->op != STX_B_LOAD)
			continue;
		stx_ex at = stx__canonical(f->l->ex, &t->phases.at[t->mine], b, h, in->ex);
		for (uint32_t j = 0; j < t->n; j++) {
			const struct stx_body *other = &t->at[j]->body;
			for (uint32_t k = 0; j != t->mine && k < other->n; k++)
				if (other->at[k].op == STX_B_LOAD && other->at[k].a == in->a &&
				    stx__canonical(f->l->ex, &t->phases.at[j], t->at[j], h,
						   other->at[k].ex) == at)
					return 1;
		}
	}
	f->why = "it reads the kernel's inputs at other points";
	return 0;
}

/* b beside a group of another space: full-level work beside reductions over the same elements, or
 * the reverse, for an input that both read element by element. */
static int may_share_rows(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	if (is_closed(f, group, NULL))
		return 0;
	if (b->def == STX_DEF_REDUCTION && reads_group(f, b, group)) {
		f->why = "it reduces over what the kernel computes";
		return 0;
	}
	if (!shares_read(f, b, group) || !may_be_phase(f, b, group))
		return 0;
	if (!f->tentative->gathers && shares_point(f, f->tentative))
		return 1;
	if (f->tentative->gathers)
		f->why = "it would read across the vector axis";
	return 0;
}

/* ---- joining ---- */

static void note_reads(struct fuse *f, const struct stx_buffer *b, uint32_t group)
{
	struct fused *g = info_of(f, group);
	g->ninsts += b->body.n;
	g->nelementary += elementary_in(b);
	g->lane_ops += b->def == STX_DEF_REDUCTION ? 1 + body_cost(b, 20) : 0;
	g->has_reduction |= b->def == STX_DEF_REDUCTION;
	g->has_dot |= is_contraction(b);
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		uint32_t j = 0;
		if (in->op != STX_B_LOAD || f->group_of[in->a] == group)
			continue;
		while (j < g->nreads && g->reads[j] != in->a)
			j++;
		if (j == g->nreads && j < MAX_GROUP_READS)
			g->reads[g->nreads++] = in->a;
		if (f->readers[in->a][0] != group + 1) {
			f->readers[in->a][1] = f->readers[in->a][0];
			f->readers[in->a][0] = group + 1;
		}
	}
}

/* b as the last question, if any, was about; slot is that of its space. */
static int join(struct fuse *f, const struct stx_buffer *b, uint32_t group, struct space_slot *slot)
{
	struct stx_group *g = &f->s->groups.at[group];
	if (stx_push(f->arena, &g->buffers, b->id))
		return -1;
	for (uint32_t i = g->buffers.n - 1;
	     i > 0 && comes_before(b, f->l->buffers.at[g->buffers.at[i - 1]]); i--) {
		g->buffers.at[i] = g->buffers.at[i - 1];
		g->buffers.at[i - 1] = b->id;
	}
	if (g->buffers.at[0] == b->id) { /* the group has its space from now on */
		info_of(f, group)->order = NULL;
		slot->group = group + 1;
	}
	f->group_of[b->id] = group;
	if (scores_of(f, b)) {
		g->scores = scores_of(f, b)->id;
		f->group_of[g->scores] = group;
	}
	info_of(f, group)->is_phased |= f->tentative->is_phased;
	note_reads(f, b, group);
	return 0;
}

static int start(struct fuse *f, const struct stx_buffer *b, uint32_t apart_from,
		 struct space_slot *slot)
{
	struct stx_group g = { .scores = STX_NONE, .why_not = f->why, .apart_from = apart_from };
	struct fused info = { .nreads = 0 };
	f->tentative->is_phased = 0;
	if (stx_push(f->arena, &f->s->groups, g) || stx_push(f->arena, &f->info, info))
		return -1;
	return join(f, b, f->s->groups.n - 1, slot);
}

/* Groups that b may stand beside, itself not after the producers: the newest of its space, then
 * the newest readers of what it reads. */
static uint32_t find_beside(const struct fuse *f, const struct stx_buffer *b, uint32_t latest,
			    const struct space_slot *slot, uint32_t out[MAX_BESIDE])
{
	uint32_t n = 0;
	if (slot->group && (latest == STX_NONE || slot->group - 1 >= latest))
		out[n++] = slot->group - 1;
	for (uint32_t i = 0; i < 2 * b->body.n && n < MAX_BESIDE; i++) {
		const struct stx_binst *in = &b->body.at[i / 2];
		uint32_t g = in->op == STX_B_LOAD ? f->readers[in->a][i % 2] : 0, k = 0;
		if (!g-- || (latest != STX_NONE && g <= latest))
			continue;
		while (k < n && out[k] != g)
			k++;
		if (k == n)
			out[n++] = g;
	}
	return n;
}

static int stand_beside(struct fuse *f, const struct stx_buffer *b, uint32_t latest,
			struct space_slot *slot, uint32_t *group)
{
	uint32_t tries[MAX_BESIDE], n = find_beside(f, b, latest, slot, tries);
	for (uint32_t i = 0; i < n; i++) {
		const char *why = f->why;
		*group = tries[i];
		if (same_space(head(f, *group), b) ? may_stand_beside(f, b, *group)
						   : may_share_rows(f, b, *group))
			return 1;
		if (i)
			f->why = why;
	}
	*group = n ? tries[0] : STX_NONE;
	return 0;
}

static int place(struct fuse *f, const struct stx_buffer *b, int fuse_at_all)
{
	struct space_slot none = { 0 }, *slot = &none;
	if (f->absorbed[b->id])
		return 0;
	uint32_t latest = latest_producer(f, b), beside = STX_NONE;
	f->why = fuse_at_all ? "it reads no other kernel's result" : "fusion is off";
	if (stands_alone(f, b) || !fuse_at_all) {
		if (fuse_at_all && latest != STX_NONE && ends_mask(f, b, latest) &&
		    may_follow(f, b, latest))
			return join(f, b, latest, slot);
		return start(f, b, STX_NONE, slot);
	}
	const struct stx__product *p = stx__product_of(f->products, b->id);
	if (b->def == STX_DEF_SORT || p) {
		f->why = p ? p->kind->alone : "a sort stands alone";
		return start(f, b, latest, slot);
	}
	if (b->def == STX_DEF_SCAN) {
		uint32_t group = b->id ? f->group_of[b->id - 1] : STX_NONE;
		f->why = "a scan stands alone";
		f->tentative->is_phased = 0;
		return group != STX_NONE && stx__same_scan(head(f, group), b) &&
				       f->s->groups.at[group].buffers.n == 1
			       ? join(f, b, group, slot)
			       : start(f, b, latest, slot);
	}
	slot = space_slot(f, b);
	if (latest != STX_NONE && may_follow(f, b, latest))
		return join(f, b, latest, slot);
	const char *why = f->why;
	if (stand_beside(f, b, latest, slot, &beside)) {
		f->s->groups.at[beside].nbeside += !reads_group(f, b, beside);
		return join(f, b, beside, slot);
	}
	if (latest != STX_NONE) /* the nearer chance */
		f->why = why;
	return start(f, b, latest != STX_NONE ? latest : beside, slot);
}

static int has_elements(const struct stx_exprs *x, const struct stx_buffer *b)
{
	for (uint32_t i = 0; i < b->nranges; i++)
		if (stx_ex_equals(x, b->ranges[i], 0))
			return 0;
	return b->def != STX_DEF_NONE && b->def != STX_DEF_SCRATCH;
}

stx_err stx__fuse(struct stx_schedule *s, const struct stx_schedule_options *o,
		  const struct stx__products *products, const struct stx__scores *scores,
		  uint32_t *group_of, struct stx_diag *d)
{
	struct fuse f = { .s = s,
			  .l = s->loops,
			  .arena = s->loops->g->arena,
			  .products = products,
			  .scores = scores,
			  .is_gpu = o->target_gpu != 0,
			  .group_of = group_of };
	f.nslots = 64;
	while (f.nslots < f.l->buffers.n * 2)
		f.nslots *= 2;
	f.spaces = STX_NEW_ARRAY(f.arena, struct space_slot, f.nslots);
	f.build = STX_NEW(f.arena, struct stx__build);
	f.tentative = STX_NEW(f.arena, struct tentative);
	f.readers = stx_arena_zalloc(f.arena, f.l->buffers.n + 1, sizeof *f.readers);
	f.absorbed = STX_NEW_ARRAY(f.arena, uint8_t, f.l->buffers.n + 1);
	if (!f.absorbed || !f.spaces || !f.build || !f.tentative || !f.readers)
		return stx_fail(d, STX_E_NOMEM, "schedule", NULL, "the memory budget is exceeded");
	for (uint32_t i = 0; i < f.l->buffers.n; i++)
		group_of[i] = STX_NONE;
	for (uint32_t i = 0; scores && i < f.l->buffers.n; i++)
		if (scores[i].product)
			f.absorbed[scores[i].product->id] = 1;
	for (uint32_t i = 0; i < f.l->buffers.n; i++) {
		const struct stx_buffer *b = f.l->buffers.at[i];
		if (has_elements(f.l->ex, b) && place(&f, b, !o->no_fuse))
			return stx_fail(d, STX_E_NOMEM, "schedule", b->name,
					"the memory budget is exceeded");
	}
	return STX_E_OK;
}
