/* report.c: what a schedule costs, and why it is as it is (conformance GF-02, GF-04, GF-06, GF-11,
 * RZ-10).
 *
 * requires: groups, kernels, steps and slots of a schedule. ensures: its accounts and report lines.
 * Lines: one of traffic before and after fusion, one of memory, one a kernel, which may stand in
 * for an external call: its traffic, the buffers it computes with the rule that put each in memory,
 * the kernel it was not fused with and why. Everything at the size hints; sums saturate. One pass
 * over graph, kernels and buffers. */
#include "sat.h"
#include "schedule_impl.h"

#define MAX_NAMED  4    /* buffers that a line names */
#define MAX_LINES  1000 /* of kernels; the report travels with every reply */
#define CORE_OPS   1e11 /* a second, of one core: 16 lanes, two a cycle, 3 GHz */
#define CORE_BYTES 1e10 /* its share of the memory's */

struct reporting {
	struct stx_schedule *s;
	const struct stx_loops *l;
	const uint8_t *needed;
	uint32_t *users, *last_user; /* of buffers: how many others read one */
	/* scratch for the largest body: equal instructions */
	uint32_t *equal, *slots, nslots;
	struct stx_binst *canon;
	struct stx_bytes line; /* being written; freed at the end */
};

static uint64_t count(const struct stx_exprs *x, const stx_ex *sizes, uint32_t n)
{
	uint64_t all = 1;
	for (uint32_t i = 0; i < n; i++) {
		int64_t h = stx_ex_hint(x, sizes[i]);
		all = stx_sat_umul(all, h < 0 ? 0 : (uint64_t)h);
	}
	return all;
}

/* ---- what the kernels move ---- */

/* Of an update in place: what it may touch. */
static uint64_t param_bytes(const struct reporting *r, const struct stx_kparam *q)
{
	const struct stx_buffer *b = r->l->buffers.at[q->buffer];
	const struct stx_layout *layout = &b->layout;
	int64_t reach = stx_ex_hint(r->l->ex, q->elems);
	uint64_t n = count(r->l->ex, layout->sizes, layout->rank);
	uint64_t most = reach < 0 ? 0 : (uint64_t)reach, points = UINT64_MAX;
	if (b->base)
		points = stx_sat_umul(count(r->l->ex, b->ranges, b->nranges),
				      count(r->l->ex, b->rranges, b->nrranges));
	n = n < points ? n : points;
	return stx_sat_umul(n < most ? n : most, (uint64_t)stx_dtype_bytes(q->dtype));
}

/* One point of a definition: its arithmetic, and the bytes of what it reads. */
struct point {
	uint32_t ops, bytes;
};

/* The instruction that instruction i is: the first one equal to it. Bodies repeat what was inlined
 * more than once; kernels compute it once. */
static uint32_t first_equal(struct reporting *r, const struct stx_body *body, uint32_t i)
{
	const struct stx_binst *in = &body->at[i];
	int is_load = in->op == STX_B_LOAD; /* whose a is a buffer */
	uint32_t a = !is_load && in->a < i ? r->equal[in->a] : in->a;
	uint32_t b = !is_load && in->b < i ? r->equal[in->b] : in->b;
	uint32_t c = in->c < i ? r->equal[in->c] : in->c;
	const uint64_t parts[] = { in->op, in->dtype, in->flags, in->k.u, a, b, c, in->ex };
	uint64_t h = 0;
	for (unsigned k = 0; k < sizeof parts / sizeof *parts; k++)
		h = stx_mix64(h, parts[k]);
	r->canon[i] = *in;
	r->canon[i].a = a;
	r->canon[i].b = b;
	r->canon[i].c = c;
	for (uint32_t at = (uint32_t)h & (r->nslots - 1);; at = (at + 1) & (r->nslots - 1)) {
		uint32_t j = r->slots[at];
		if (!j) {
			r->slots[at] = i + 1;
			return i;
		}
		const struct stx_binst *q = &r->canon[j - 1];
		if (q->op == in->op && q->dtype == in->dtype && q->flags == in->flags &&
		    q->a == a && q->b == b && q->c == c && q->ex == in->ex && q->k.u == in->k.u)
			return j - 1;
	}
}

static struct point point_of(struct reporting *r, const struct stx_buffer *b)
{
	struct point p = { .ops = b->def == STX_DEF_REDUCTION };
	for (r->nslots = 64; r->nslots < 2 * b->body.n;)
		r->nslots *= 2;
	memset(r->slots, 0, r->nslots * sizeof *r->slots);
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		r->equal[i] = first_equal(r, &b->body, i);
		if (r->equal[i] != i)
			continue;
		p.ops += in->op < STX_PRIM_COUNT && in->op != STX_P_CAST && in->op != STX_P_BITCAST;
		p.bytes += in->op == STX_B_LOAD
				   ? (uint32_t)stx_dtype_bytes((enum stx_dtype)in->dtype)
				   : 0;
	}
	return p;
}

static uint64_t buffer_ops(struct reporting *r, const struct stx_buffer *b)
{
	const struct stx_exprs *x = r->l->ex;
	uint64_t points =
		stx_sat_umul(count(x, b->ranges, b->nranges), count(x, b->rranges, b->nrranges));
	return stx_sat_umul(points, point_of(r, b).ops);
}

static void account_kernel(struct reporting *r, uint32_t number, uint8_t *seen)
{
	struct stx_schedule *s = r->s;
	const struct stx_kernel *k = s->kernels.at[number];
	const struct stx_group *g = &s->groups.at[number];
	struct stx_kernel_account *a = &s->accounts[number];
	for (uint32_t j = 0; j < k->params.n; j++) {
		const struct stx_kparam *q = &k->params.at[j];
		uint64_t bytes = param_bytes(r, q);
		if (q->is_read && !q->is_written) { /* what it wrote itself is in its cache */
			a->bytes_read = stx_sat_uadd(a->bytes_read, bytes);
			s->fused.reads++;
		}
		if (q->is_written) {
			a->bytes_written = stx_sat_uadd(a->bytes_written, bytes);
			s->fused.writes++;
		}
		if (r->l->buffers.at[q->buffer]->kind != STX_BUF_TEMP && !seen[q->buffer])
			s->bytes_min = stx_sat_uadd(s->bytes_min, bytes);
		seen[q->buffer] = 1;
	}
	for (uint32_t j = 0; j < g->buffers.n; j++)
		a->ops = stx_sat_uadd(a->ops, buffer_ops(r, r->l->buffers.at[g->buffers.at[j]]));
	if (g->scores != STX_NONE)
		a->ops = stx_sat_uadd(a->ops, buffer_ops(r, r->l->buffers.at[g->scores]));
	s->fused.launches++;
	s->fused.bytes_read = stx_sat_uadd(s->fused.bytes_read, a->bytes_read);
	s->fused.bytes_written = stx_sat_uadd(s->fused.bytes_written, a->bytes_written);
}

/* ---- the cost model of realisation ---- */

double stx__realize_gain(const struct stx__cost *c)
{
	double once = c->ops / c->ops_per_s + c->in_bytes / c->bytes_per_s;
	return c->n * ((c->users - 1) * once - (c->users + 1) * c->bytes / c->bytes_per_s);
}

/* Of a value that a rule of 6.6 put in memory, on one core. */
static double gain_of(struct reporting *r, const struct stx_buffer *b)
{
	struct stx__cost c = { .n = (double)count(r->l->ex, b->ranges, b->nranges),
			       .bytes = stx_dtype_bytes(b->dtype),
			       .users = r->users[b->id],
			       .ops_per_s = CORE_OPS,
			       .bytes_per_s = CORE_BYTES };
	struct point once = point_of(r, b);
	c.ops = once.ops;
	c.in_bytes = once.bytes;
	return stx__realize_gain(&c);
}

static void count_users(struct reporting *r)
{
	for (uint32_t i = 0; i < r->l->buffers.n; i++) {
		const struct stx_body *body = &r->l->buffers.at[i]->body;
		for (uint32_t j = 0; j < body->n; j++) {
			if (body->at[j].op != STX_B_LOAD || r->last_user[body->at[j].a] == i + 1)
				continue;
			r->last_user[body->at[j].a] = i + 1;
			r->users[body->at[j].a]++;
		}
	}
}

/* ---- what the graph would move, an operator at a time ---- */

static void mark(uint8_t *live, const struct stx_arg *a)
{
	if (a->kind == STX_ARG_TENSOR)
		live[a->u.tensor.node->id] = 1;
	for (uint32_t k = 0; a->kind == STX_ARG_TENSORS && k < a->n; k++)
		if (a->u.tensors[k].node)
			live[a->u.tensors[k].node->id] = 1;
}

static void read_tensor(struct reporting *r, struct stx_val v)
{
	const struct stx_type *t = v.node ? &v.node->outs[v.out] : NULL;
	if (!t)
		return;
	uint64_t bytes = stx_sat_umul(count(r->l->ex, t->sizes, t->rank),
				      (uint64_t)stx_dtype_bytes(t->dtype));
	r->s->unfused.reads++;
	r->s->unfused.bytes_read = stx_sat_uadd(r->s->unfused.bytes_read, bytes);
}

static void account_node(struct reporting *r, const struct stx_node *n)
{
	struct stx_account *u = &r->s->unfused;
	u->launches++;
	for (uint32_t j = 0; j < n->nargs; j++) {
		if (n->args[j].kind == STX_ARG_TENSOR)
			read_tensor(r, n->args[j].u.tensor);
		for (uint32_t k = 0; n->args[j].kind == STX_ARG_TENSORS && k < n->args[j].n; k++)
			read_tensor(r, n->args[j].u.tensors[k]);
	}
	for (uint32_t j = 0; j < n->nouts; j++) {
		const struct stx_type *t = &n->outs[j];
		uint64_t bytes = stx_sat_umul(count(r->l->ex, t->sizes, t->rank),
					      (uint64_t)stx_dtype_bytes(t->dtype));
		u->writes++;
		u->bytes_written = stx_sat_uadd(u->bytes_written, bytes);
	}
}

static int account_graph(struct reporting *r)
{
	const struct stx_graph *g = r->l->g;
	uint8_t *live = STX_NEW_ARRAY(g->arena, uint8_t, g->nodes.n + 1);
	if (!live)
		return -1;
	for (uint32_t i = 0; i < g->outputs.n; i++)
		live[g->outputs.at[i].val.node->id] = 1;
	for (uint32_t i = g->nodes.n; i-- > 0;) {
		const struct stx_node *n = g->nodes.at[i];
		const struct stx_op_info *info = stx_op_info(n->op);
		if (!live[i] && !(info->tags & STX_TAG_EFFECT))
			continue;
		for (uint32_t j = 0; j < n->nargs; j++)
			mark(live, &n->args[j]);
		if (n->op != STX_OP_PLACEHOLDER && n->op != STX_OP_CONSTANT &&
		    info->category != STX_CAT_VIEW)
			account_node(r, n);
	}
	return 0;
}

static void account_memory(struct reporting *r)
{
	struct stx_schedule *s = r->s;
	for (uint32_t i = 0; i < r->l->buffers.n; i++) {
		const struct stx_slot *slot = &s->slots[i];
		if (slot->size == STX_EX_BAD)
			continue;
		s->temps++;
		s->temp_bytes = stx_sat_uadd(s->temp_bytes, slot->size_bytes);
		s->reused += slot->reused;
		s->in_place += slot->in_place;
	}
}

/* ---- lines ---- */

static void put_bytes(struct stx_bytes *b, uint64_t n)
{
	static const char *const units[] = { "kB", "MB", "GB", "TB" };
	double v = (double)n / 1000;
	int u = 0;
	if (n < 10000) {
		stx_bytes_printf(b, "%llu B", (unsigned long long)n);
		return;
	}
	for (; v >= 10000 && u < 3; u++)
		v /= 1000;
	stx_bytes_printf(b, "%.1f %s", v, units[u]);
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : 0;
}

static int end_line(struct reporting *r)
{
	const char *text =
		r->line.oom ? NULL
			    : stx_arena_printf(r->l->g->arena, "%s", stx_bytes_cstr(&r->line));
	stx_bytes_clear(&r->line);
	return !text || stx_push(r->l->g->arena, &r->s->report, text) ? -1 : 0;
}

static int traffic_line(struct reporting *r)
{
	const struct stx_account *u = &r->s->unfused, *f = &r->s->fused;
	uint64_t before = stx_sat_uadd(u->bytes_read, u->bytes_written);
	uint64_t after = stx_sat_uadd(f->bytes_read, f->bytes_written);
	struct stx_bytes *b = &r->line;
	stx_bytes_printf(b, "fusion: %llu operator%s in %llu kernel%s; ",
			 (unsigned long long)u->launches, u->launches == 1 ? "" : "s",
			 (unsigned long long)f->launches, f->launches == 1 ? "" : "s");
	stx_bytes_printf(b, "%llu tensor passes in %llu; ",
			 (unsigned long long)stx_sat_uadd(u->reads, u->writes),
			 (unsigned long long)stx_sat_uadd(f->reads, f->writes));
	put_bytes(b, before);
	stx_bytes_puts(b, " in ");
	put_bytes(b, after);
	/* An operator in place, or a copy the program asks for, can cost more than it is counted for. */
	if (after * 1.05 < before)
		stx_bytes_printf(b, after ? ", %.1f times less" : ", nothing is left",
				 ratio(before, after));
	else if (after > before * 1.05)
		stx_bytes_printf(b, before ? ", %.1f times more" : "", ratio(after, before));
	stx_bytes_puts(b, "; the least is ");
	put_bytes(b, r->s->bytes_min);
	return end_line(r);
}

static int memory_line(struct reporting *r)
{
	const struct stx_schedule *s = r->s;
	struct stx_bytes *b = &r->line;
	if (!s->temps)
		return 0;
	stx_bytes_printf(b, "memory: %u temporar%s of ", s->temps, s->temps == 1 ? "y" : "ies");
	put_bytes(b, s->temp_bytes);
	stx_bytes_puts(b, " in ");
	put_bytes(b, s->workspace_bytes);
	if (s->reused)
		stx_bytes_printf(b, "; %u in memory used before, %u of them in place of an operand",
				 s->reused, s->in_place);
	return end_line(r);
}

/* `buf3 (reads>4, 3 users: +12.0 us)`: the rule that put it in memory, and what that saves. */
static void put_buffer(struct reporting *r, const struct stx_buffer *q, const char *before)
{
	struct stx_bytes *b = &r->line;
	enum stx_realized rule = q->kind == STX_BUF_OUTPUT && q->rule != STX_REALIZED_OUTPUT_COPY
					 ? STX_REALIZED_OUTPUT
					 : q->rule;
	stx_bytes_printf(b, "%s%s (%s", before, q->name, stx_realized_text(rule));
	if (q->kind == STX_BUF_TEMP && q->def == STX_DEF_POINTWISE && r->users[q->id] > 1)
		stx_bytes_printf(b, ", %u users: %+.1f us", r->users[q->id], gain_of(r, q) * 1e6);
	stx_bytes_puts(b, ")");
}

/* The buffers of a group that are in memory, each with its rule; the others are counted. */
static void put_buffers(struct reporting *r, const struct stx_group *g)
{
	struct stx_bytes *b = &r->line;
	uint32_t named = 0, more = 0, inside = 0;
	for (uint32_t i = 0; i < g->buffers.n; i++) {
		const struct stx_buffer *q = r->l->buffers.at[g->buffers.at[i]];
		if (!r->needed[q->id]) {
			inside++;
			continue;
		}
		if (named == MAX_NAMED) {
			more++;
			continue;
		}
		put_buffer(r, q, named++ ? ", " : "; ");
	}
	if (more)
		stx_bytes_printf(b, " and %u more", more);
	if (inside)
		stx_bytes_printf(b, ", %u inside it only", inside);
	if (g->scores != STX_NONE) {
		const struct stx_buffer *q = r->l->buffers.at[g->scores];
		stx_bytes_printf(b, "; the scores, %s, are in no memory: ", q->name);
		put_bytes(b, stx_sat_umul(count(r->l->ex, q->ranges, q->nranges),
					  (uint64_t)stx_dtype_bytes(q->dtype)));
	}
	if (g->nbeside)
		stx_bytes_printf(b, "; %u beside the others for a shared input", g->nbeside);
}

static int step_line(struct reporting *r, uint32_t step)
{
	const struct stx_schedule *s = r->s;
	uint32_t number = stx_step_kernel(s, step);
	if (number == STX_NONE && stx_step_covers(s, step)) {
		stx_bytes_printf(&r->line, "%s, else the next %u",
				 s->externals.at[s->steps.at[step].index].name,
				 stx_step_covers(s, step));
		return end_line(r);
	}
	if (number == STX_NONE)
		return 0;
	const struct stx_kernel_account *a = &s->accounts[number];
	const struct stx_group *g = &s->groups.at[number];
	struct stx_bytes *b = &r->line;
	if (s->steps.at[step].kind == STX_SCHED_EXTERNAL)
		stx_bytes_printf(b, "%s, else ", s->externals.at[s->steps.at[step].index].name);
	stx_bytes_printf(b, "%s: reads ", s->kernels.at[number]->name);
	put_bytes(b, a->bytes_read);
	stx_bytes_puts(b, ", writes ");
	put_bytes(b, a->bytes_written);
	stx_bytes_printf(b, ", %.2f operations a byte",
			 ratio(a->ops, stx_sat_uadd(a->bytes_read, a->bytes_written)));
	put_buffers(r, g);
	if (g->apart_from != STX_NONE)
		stx_bytes_printf(b, "; not fused with %s: %s", s->kernels.at[g->apart_from]->name,
				 g->why_not);
	else
		stx_bytes_printf(b, "; first: %s", g->why_not);
	return end_line(r);
}

static int init(struct reporting *r)
{
	struct stx_arena *a = r->l->g->arena;
	uint32_t most = 1, nbuffers = r->l->buffers.n + 1;
	for (uint32_t i = 0; i < r->l->buffers.n; i++)
		if (r->l->buffers.at[i]->body.n > most)
			most = r->l->buffers.at[i]->body.n;
	r->nslots = 64;
	while (r->nslots < 2 * most)
		r->nslots *= 2;
	r->s->accounts = STX_NEW_ARRAY(a, struct stx_kernel_account, r->s->kernels.n + 1);
	r->users = STX_NEW_ARRAY(a, uint32_t, nbuffers);
	r->last_user = STX_NEW_ARRAY(a, uint32_t, nbuffers);
	r->equal = STX_NEW_ARRAY(a, uint32_t, most);
	r->slots = STX_NEW_ARRAY(a, uint32_t, r->nslots);
	r->canon = STX_NEW_ARRAY(a, struct stx_binst, most);
	return r->s->accounts && r->users && r->last_user && r->equal && r->slots && r->canon ? 0
											      : -1;
}

stx_err stx__report(struct stx_schedule *s, const uint8_t *needed, struct stx_diag *d)
{
	struct reporting r = { .s = s, .l = s->loops, .needed = needed };
	uint8_t *seen = STX_NEW_ARRAY(s->loops->g->arena, uint8_t, s->loops->buffers.n + 1);
	int bad = !seen || init(&r);
	if (!bad)
		count_users(&r);
	for (uint32_t i = 0; !bad && i < s->steps.n; i++)
		if (stx_step_kernel(s, i) != STX_NONE)
			account_kernel(&r, stx_step_kernel(s, i), seen);
	if (!bad)
		account_memory(&r);
	bad = bad || account_graph(&r) || traffic_line(&r) || memory_line(&r);
	for (uint32_t i = 0; !bad && i < s->steps.n && i < MAX_LINES; i++)
		bad = step_line(&r, i);
	if (!bad && s->kernels.n > MAX_LINES) {
		stx_bytes_printf(&r.line, "and %u kernels more", s->kernels.n - MAX_LINES);
		bad = end_line(&r);
	}
	stx_bytes_free(&r.line);
	return bad ? stx_fail(d, STX_E_NOMEM, "schedule", NULL, "the memory budget is exceeded")
		   : STX_E_OK;
}
