/* phases.c: the phases of a group that holds several reductions over the same rows (conformance
 * MR-01).
 *
 * requires: buffers with the reductions first, each part in definition order; the first one, when
 * it is a reduction, gives the rows (its ranges) and the columns (its reduction ranges). ensures,
 * when it returns 1: every buffer is at row level (a value a row) or full level (a value an
 * element), its variables are matched with the first buffer's, every read inside the group is at
 * the reader's own point, and phases run after what they read. Sums down columns are matched by the rows
 * of their segments. One pass over the bodies for each
 * way to tell rows from columns that sizes allow: one, but for equal sizes. */
#include "build.h"

#define MAX_FULL_DIMS 10 /* axes of a full-level buffer, those of size 1 not counted */

struct sizes { /* axes that are not of size 1 */
	stx_ex size[STX__MAX_DIMS];
	uint8_t var[STX__MAX_DIMS];
	uint32_t n;
};

struct finding {
	const struct stx_loops *l;
	const struct stx_buffer *const *buffers;
	uint32_t n;
	struct stx__phases *p;
	struct sizes rows, columns;
	uint32_t order[STX__MAX_GROUP]; /* positions in definition order */
	const char *why;
};

static void collect_sizes(struct finding *f, const stx_ex *ranges, uint32_t n, uint32_t first,
			  struct sizes *s)
{
	s->n = 0;
	for (uint32_t i = 0; i < n && s->n < STX__MAX_DIMS; i++) {
		if (stx_ex_equals(f->l->ex, ranges[i], 1))
			continue;
		s->size[s->n] = ranges[i];
		s->var[s->n++] = (uint8_t)(first + i);
	}
}

/* ---- variables ---- */

static void match(struct stx__member *m, const struct sizes *mine, const struct sizes *of)
{
	for (uint32_t i = 0; i < mine->n; i++)
		m->canon[mine->var[i]] = of->var[i];
}

static int same_sizes(const struct sizes *p, const struct sizes *q)
{
	return stx__same_exs(p->size, p->n, q->size, q->n);
}

static int all_const(const struct stx_exprs *x, const stx_ex *e, uint32_t n, int64_t *product)
{
	int64_t v;
	*product = 1;
	for (uint32_t i = 0; i < n; i++)
		if (!stx_ex_is_const(x, e[i], &v) || __builtin_mul_overflow(*product, v, product))
			return 0;
	return 1;
}

/* Of all segments of b; BAD: not known. */
static stx_ex rows_of(struct stx_exprs *x, const struct stx_buffer *b)
{
	stx_ex all = stx_ex_mul(x, b->ranges[0], b->rranges[0]);
	int64_t n;
	if (b->rlimit != STX_EX_BAD)
		all = stx_ex_add(x, b->rlimit,
				 stx_ex_mul(x, b->rranges[0], stx_ex_var(x, 0, b->ranges[0])));
	return stx_ex_is_const(x, all, &n) ? all : STX_EX_BAD;
}

/* Segments of all the rows, and all the columns. */
static int match_columns(struct finding *f, struct stx__member *m, const struct stx_buffer *b)
{
	const struct stx_buffer *h = f->buffers[0];
	struct sizes s;
	int64_t rows;
	collect_sizes(f, b->ranges + 1, b->nranges - 1, 1, &s);
	if (!all_const(f->l->ex, h->ranges, h->nranges, &rows) ||
	    rows_of(f->l->ex, b) != stx_ex_const(f->l->ex, rows) || !same_sizes(&s, &f->columns))
		return 0;
	match(m, &s, &f->columns);
	m->is_columns = 1;
	return 1;
}

/* Full level: the axes in `columns` (a bit each) are columns, the others rows. */
static int match_full(struct finding *f, struct stx__member *m, const struct sizes *s,
		      uint32_t columns)
{
	uint32_t r = 0, c = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		int col = columns >> i & 1;
		const struct sizes *of = col ? &f->columns : &f->rows;
		uint32_t *at = col ? &c : &r;
		if (*at >= of->n || of->size[*at] != s->size[i])
			return 0;
		m->canon[s->var[i]] = of->var[(*at)++];
	}
	return 1;
}

/* Axes of s from number `at` on, one or several for each of `of`; the number of the next, or -1. */
static int match_parts(const struct finding *f, struct stx__member *m, const struct sizes *s,
		       int at, const struct sizes *of)
{
	const struct stx_exprs *x = f->l->ex;
	for (uint32_t j = 0; j < of->n; j++) {
		int64_t whole, size, part = 1;
		int end = at;
		if (at < (int)s->n && s->size[at] == of->size[j]) {
			m->canon[s->var[at++]] = of->var[j];
			continue;
		}
		if (!stx_ex_is_const(x, of->size[j], &whole))
			return -1;
		while (end < (int)s->n && part < whole) {
			if (!stx_ex_is_const(x, s->size[end++], &size) || size < 1 ||
			    __builtin_mul_overflow(part, size, &part))
				return -1;
		}
		if (part != whole)
			return -1;
		for (; at < end; at++) {
			stx_ex_is_const(x, s->size[at], &size);
			part /= size;
			m->canon[s->var[at]] = of->var[j];
			m->div[s->var[at]] = part;
		}
		m->has_parts = 1;
	}
	return at;
}

/* Pointwise work over the rows, or rows and columns in this order, some of them as several axes: what
 * was viewed with another shape. */
static int match_view(const struct finding *f, struct stx__member *m, const struct sizes *s)
{
	memset(m->div, 0, sizeof m->div);
	int at = match_parts(f, m, s, 0, &f->rows);
	if (at == (int)s->n)
		return 1;
	m->is_full = 1;
	return at >= 0 && match_parts(f, m, s, at, &f->columns) == (int)s->n;
}

/* Pointwise work over all rows and columns whose columns the first buffer sums, in segments. */
static int match_segments(struct finding *f, struct stx__member *m, const struct sizes *s)
{
	const struct stx_buffer *h = f->buffers[0];
	struct sizes rows = { .size = { rows_of(f->l->ex, h) }, .var = { STX__ROW }, .n = 1 },
		     columns;
	memset(m->div, 0, sizeof m->div);
	m->is_full = 1;
	collect_sizes(f, h->ranges + 1, h->nranges - 1, 1, &columns);
	int at = rows.size[0] == STX_EX_BAD ? -1 : match_parts(f, m, s, 0, &rows);
	m->has_parts = 1; /* addresses of segments and their rows are put together */
	return at >= 0 && match_parts(f, m, s, at, &columns) == (int)s->n;
}

static int match_member(struct finding *f, uint32_t pos, uint32_t columns)
{
	const struct stx_buffer *b = f->buffers[pos], *h = f->buffers[0];
	struct stx__member *m = &f->p->at[pos];
	struct sizes s, t;
	memset(m->canon, 0xff, sizeof m->canon);
	m->is_full = m->is_columns = m->has_parts = 0;
	int cut = h->def == STX_DEF_REDUCTION && (h->rlimit != STX_EX_BAD || h->is_merge);
	m->is_same = stx__same_exs(b->ranges, b->nranges, h->ranges, h->nranges) &&
		     (b->def != STX_DEF_REDUCTION ||
		      (stx__same_exs(b->rranges, b->nrranges, h->rranges, h->nrranges) &&
		       b->rlimit == h->rlimit && b->is_merge == h->is_merge));
	if (m->is_same)
		return 1;
	if (b->is_by_rows > 1 && h->def == STX_DEF_REDUCTION && !cut && !h->is_by_rows)
		return match_columns(f, m, b);
	if (h->is_by_rows && b->def == STX_DEF_POINTWISE && b->nranges <= STX__MAX_DIMS) {
		collect_sizes(f, b->ranges, b->nranges, 0, &s);
		return match_segments(f, m, &s);
	}
	if (cut || b->rlimit != STX_EX_BAD || b->is_merge) /* with others like it, or alone */
		return 0;
	if (b->nranges + b->nrranges > STX__MAX_DIMS)
		return 0;
	collect_sizes(f, b->ranges, b->nranges, 0, &s);
	collect_sizes(f, b->rranges, b->def == STX_DEF_REDUCTION ? b->nrranges : 0, b->nranges, &t);
	if (same_sizes(&s, &f->rows)) {
		match(m, &s, &f->rows);
		if (b->def != STX_DEF_REDUCTION)
			return 1;
		match(m, &t, &f->columns);
		return stx__same_exs(b->rranges, b->nrranges, h->rranges, h->nrranges);
	}
	if (b->def != STX_DEF_POINTWISE)
		return 0;
	m->is_full = 1;
	if (s.n == f->rows.n + f->columns.n && match_full(f, m, &s, columns))
		return 1;
	m->is_full = 0;
	return match_view(f, m, &s);
}

/* Variable v of b over head's, which are `at`; row: what STX__ROW is. */
static stx_ex variable(struct stx_exprs *x, const struct stx__member *m, const struct stx_buffer *b,
		       uint32_t v, const stx_ex *at, stx_ex row)
{
	uint32_t c = m->canon[v];
	if (c == 0xff)
		return stx_ex_const(x, 0);
	stx_ex e = c == STX__ROW ? row : at[c];
	if (!m->has_parts || !m->div[v])
		return e;
	return stx_ex_mod(x, stx_ex_floordiv(x, e, stx_ex_const(x, m->div[v])), b->ranges[v]);
}

/* Segments and their rows, of b or of head, are told by the number of the row, which is a variable of
 * its own while divisions of it are put together. */
stx_ex stx__canonical(struct stx_exprs *x, const struct stx__member *m, const struct stx_buffer *b,
		      const struct stx_buffer *head, stx_ex e)
{
	stx_ex map[STX__MAX_DIMS], at[STX__MAX_DIMS + 1], rows = stx_ex_const(x, 1);
	uint32_t nb = b->nranges + (b->def == STX_DEF_REDUCTION ? b->nrranges : 0);
	uint32_t n = head->nranges + (head->def == STX_DEF_REDUCTION ? head->nrranges : 0);
	if (m->is_same)
		return e;
	for (uint32_t i = 0; i < n; i++)
		at[i] = stx_ex_var(x, i,
				   i < head->nranges ? head->ranges[i]
						     : head->rranges[i - head->nranges]);
	at[n] = stx_ex_const(x, 0);
	for (uint32_t i = 0; m->is_columns && i < head->nranges; i++) {
		rows = stx_ex_mul(x, rows, head->ranges[i]);
		at[n] = stx_ex_add(x, stx_ex_mul(x, at[n], head->ranges[i]), at[i]);
	}
	if (head->is_by_rows) {
		rows = rows_of(x, head);
		at[n] = stx_ex_add(x, stx_ex_mul(x, at[0], head->rranges[0]), at[head->nranges]);
	}
	stx_ex row = stx_ex_var(x, n, rows);
	for (uint32_t i = 0; i < nb; i++)
		map[i] = variable(x, m, b, i, at, row);
	if (m->is_columns) {
		map[0] = stx_ex_floordiv(x, row, b->rranges[0]);
		map[b->nranges] = stx_ex_mod(x, row, b->rranges[0]);
	}
	e = stx_ex_subst(x, e, map, nb);
	return m->is_columns || m->has_parts ? stx_ex_subst(x, stx__axes_join(x, e), at, n + 1) : e;
}

/* ---- phases ---- */

static int position_of(const struct finding *f, uint32_t buffer)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->buffers[i]->id == buffer)
			return (int)i;
	return -1;
}

static int is_reduction(const struct finding *f, uint32_t pos)
{
	return f->buffers[pos]->def == STX_DEF_REDUCTION && !f->p->at[pos].is_columns;
}

static int place_member(struct finding *f, uint32_t pos)
{
	const struct stx_buffer *b = f->buffers[pos], *h = f->buffers[0];
	struct stx__member *m = &f->p->at[pos];
	uint32_t phase = 0;
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		int from = in->op == STX_B_LOAD ? position_of(f, in->a) : -1;
		if (from < 0)
			continue;
		const struct stx__member *p = &f->p->at[from];
		stx_ex at = stx__canonical(f->l->ex, m, b, h, in->ex);
		stx_ex stored =
			stx__canonical(f->l->ex, p, f->buffers[from], h, f->buffers[from]->store);
		if (in->c != STX_NONE || at != stored || at == STX_EX_BAD ||
		    (p->is_full && !m->is_full && !m->is_columns && !is_reduction(f, pos))) {
			f->why = "it reads the group's results at other points";
			return 0;
		}
		uint32_t ready = p->phase + (uint32_t)is_reduction(f, (uint32_t)from);
		phase = ready > phase ? ready : phase;
	}
	m->phase = (uint8_t)phase;
	if (is_reduction(f, pos) && phase + 1 > f->p->n)
		f->p->n = phase + 1;
	if (phase < STX__MAX_PHASES)
		return 1;
	f->why = "the kernel would have too many phases";
	return 0;
}

static int try_columns(struct finding *f, uint32_t columns)
{
	f->p->n = 0;
	for (uint32_t i = 0; i < f->n; i++)
		if (!match_member(f, i, columns)) {
			f->why = "its iteration space differs";
			return 0;
		}
	for (uint32_t i = 0; i < f->n; i++)
		if (!place_member(f, f->order[i]))
			return 0;
	return 1;
}

static void sort_positions(struct finding *f)
{
	for (uint32_t i = 0; i < f->n; i++) {
		uint32_t j = i;
		for (; j > 0 && f->buffers[f->order[j - 1]]->id > f->buffers[i]->id; j--)
			f->order[j] = f->order[j - 1];
		f->order[j] = i;
	}
}

/* In which phases each full-level buffer is computed: where a reduction or a later value reads it,
 * and once for its store. */
static void find_needs(struct finding *f, const uint8_t *is_stored)
{
	struct stx__phases *p = f->p;
	p->final_loop = 0;
	for (uint32_t i = f->n; i-- > 0;) {
		uint32_t pos = f->order[i];
		struct stx__member *m = &p->at[pos];
		const struct stx_body *body = &f->buffers[pos]->body;
		if (m->is_full && !m->needs && is_stored[pos])
			m->needs = 1u << m->phase;
		uint32_t needs = m->is_columns || is_reduction(f, pos) ? 1u << m->phase : m->needs;
		p->final_loop |= (m->is_full || m->is_columns) && needs >> p->n & 1;
		if (m->is_columns)
			p->columns = (uint8_t)(pos + 1);
		for (uint32_t j = 0; j < body->n; j++) {
			int from =
				body->at[j].op == STX_B_LOAD ? position_of(f, body->at[j].a) : -1;
			if (from >= 0 && p->at[from].is_full)
				p->at[from].needs |= needs;
		}
	}
}

/* Two values of one accumulator. */
int stx__same_scan(const struct stx_buffer *p, const struct stx_buffer *q)
{
	if (p->def != STX_DEF_SCAN || q->def != STX_DEF_SCAN || p->monoid != q->monoid ||
	    p->acc != q->acc || p->body.n != q->body.n || p->store != q->store ||
	    p->body.result[0] != q->body.result[0] ||
	    !stx__same_exs(p->ranges, p->nranges, q->ranges, q->nranges) ||
	    !stx__same_exs(p->rranges, p->nrranges, q->rranges, q->nrranges))
		return 0;
	for (uint32_t i = 0; i < p->body.n; i++) {
		const struct stx_binst *a = &p->body.at[i], *b = &q->body.at[i];
		if (a->op != b->op || a->dtype != b->dtype || a->flags != b->flags ||
		    a->axis != b->axis || a->a != b->a || a->b != b->b || a->c != b->c ||
		    a->ex != b->ex || a->k.u != b->k.u)
			return 0;
	}
	return 1;
}

int stx__phases_find(const struct stx_loops *l, const struct stx_buffer *const *buffers, uint32_t n,
		     const uint8_t *is_stored, struct stx__phases *p, const char **why)
{
	struct finding f = {
		.l = l, .buffers = buffers, .n = n, .p = p, .why = "its iteration space differs"
	};
	const struct stx_buffer *h = buffers[0];
	memset(p, 0, sizeof *p);
	if (h->def == STX_DEF_SCATTER) { /* alone: one store an iteration */
		p->at[0] = (struct stx__member){ .is_full = 1, .is_same = 1, .needs = 1 };
		p->final_loop = 1;
		return n == 1;
	}
	if (h->def == STX_DEF_SCAN) {
		for (uint32_t i = 0; i < n && i < 2; i++)
			p->at[i] = (struct stx__member){ .is_full = 1, .is_same = 1, .needs = 1 };
		p->final_loop = 1;
		return n == 1 || (n == 2 && stx__same_scan(h, buffers[1]));
	}
	if (n > STX__MAX_GROUP || h->nranges + h->nrranges > STX__MAX_DIMS)
		return 0;
	sort_positions(&f);
	collect_sizes(&f, h->ranges, h->nranges, 0, &f.rows);
	collect_sizes(&f, h->rranges, h->def == STX_DEF_REDUCTION ? h->nrranges : 0, h->nranges,
		      &f.columns);
	uint32_t dims = f.rows.n + f.columns.n, found = try_columns(&f, 0);
	if (!found && h->def == STX_DEF_REDUCTION &&
	    dims <= MAX_FULL_DIMS) /* columns last comes first */
		for (uint32_t bits = 1u << dims; bits-- > 1 && !found;)
			if ((uint32_t)__builtin_popcount(bits) == f.columns.n)
				found = (uint32_t)try_columns(&f, bits);
	if (why)
		*why = f.why;
	if (!found)
		return 0;
	find_needs(&f, is_stored);
	return 1;
}
