/* picture_layout.c: where boxes, labels and edges of a picture lie: layers (Sugiyama, Tagawa, Toda
 * 1981).
 *
 *   layers      longest path from the sources; sources, and what depends on nothing that others
 * read too, then move down to their first reader far edges   an edge across more layers than the
 * budget of points allows is not drawn: its target names its source instead order barycentres, a
 * bounded number of sweeps down and up; the order with the fewest crossings (counted by a Fenwick
 * tree) stays x           each layer in turn is put as near to its neighbours as the widths allow:
 * weighted isotonic regression by pooling adjacent violators, the optimum of one layer
 *
 * Every step is linear but for sorting within layers; points are bounded by MAX_POINTS. */
#include "picture_impl.h"

#include <math.h>
#include <stdlib.h>

#define MAX_POINTS 300000u  /* of all long edges */
#define MAX_SPAN   60u      /* layers that one edge crosses */
#define MAX_WORK   4000000u /* order sweeps times placed things */
#define SWEEPS     24u
#define GAP_X      18.0f
#define POINT_W    6.0f
#define GAP_Y      34.0f

struct link { /* between boxes and labels */
	uint32_t from, to, edge;
	uint8_t is_far;
};
struct seg { /* between neighbouring layers */
	uint32_t from, to, weight;
};
struct half { /* one end of a segment, seen from the other */
	uint32_t at, weight;
};
struct work {
	struct stx_picture *p;
	struct stx__layout *y;
	struct stx_arena *a;
	uint32_t nreal;
	STX_VEC(struct link) links;
	STX_VEC(struct seg) segs;
	uint32_t *far_lines;        /* [nboxes] */
	uint32_t *in_at, *out_at;   /* [placed.n + 1] */
	struct half *in, *out;      /* [segs.n] */
	uint32_t *layer_at, *order; /* [nlayers + 1], [placed.n] */
	uint32_t *pos;              /* [placed.n] place in its layer */
	float *want, *weight;       /* [placed.n] scratch of one layer */
};

static int has_label(const struct stx_picture_edge *e)
{
	return e->label != STX_PICTURE_PLAIN;
}

/* ---- boxes, labels, links ---- */

static int add_link(struct work *w, uint32_t from, uint32_t to, uint32_t edge)
{
	struct link l = { from, to, edge, 0 };
	return stx_push(w->a, &w->links, l);
}

static int find_links(struct work *w)
{
	const struct stx_picture *p = w->p;
	uint32_t *placed = STX_NEW_ARRAY(w->a, uint32_t, p->labels.n + 1); /* label -> number + 1 */
	uint32_t *text = STX_NEW_ARRAY(w->a, uint32_t, p->labels.n + 1), nlabels = 0;
	/* last target + 1, by label and by source: parts of one box share an edge */
	uint32_t *of_label = STX_NEW_ARRAY(w->a, uint32_t, p->labels.n + 1);
	uint32_t *of_box = STX_NEW_ARRAY(w->a, uint32_t, p->boxes.n + 1);
	if (!placed || !text || !of_label || !of_box)
		return -1;
	w->y->label = text;
	for (uint32_t i = 0; i < p->edges.n; i++) {
		const struct stx_picture_edge *e = &p->edges.at[i];
		uint32_t from = e->from;
		uint32_t *last = has_label(e) ? &of_label[e->label] : &of_box[from];
		if (from == e->to || *last == e->to + 1)
			continue;
		*last = e->to + 1;
		if (has_label(e)) {
			if (!placed[e->label]) {
				text[nlabels] = e->label;
				placed[e->label] = p->boxes.n + ++nlabels;
				if (add_link(w, from, placed[e->label] - 1, i))
					return -1;
			}
			from = placed[e->label] - 1;
		}
		if (add_link(w, from, e->to, i))
			return -1;
	}
	w->y->nboxes = p->boxes.n;
	w->y->nlabels = nlabels;
	w->nreal = p->boxes.n + nlabels;
	for (uint32_t i = 0; i < w->nreal; i++) {
		struct stx__placed t = { .layer = 0 };
		if (stx_push(w->a, &w->y->placed, t))
			return -1;
	}
	return 0;
}

/* ---- layers ---- */

/* Links by source: at[i] .. at[i+1] in `to`. */
static int links_out(struct work *w, uint32_t **at, uint32_t **to)
{
	uint32_t n = w->nreal;
	*at = STX_NEW_ARRAY(w->a, uint32_t, n + 2);
	*to = STX_NEW_ARRAY(w->a, uint32_t, w->links.n + 1);
	if (!*at || !*to)
		return -1;
	for (uint32_t i = 0; i < w->links.n; i++)
		(*at)[w->links.at[i].from + 2]++;
	for (uint32_t i = 2; i <= n + 1; i++)
		(*at)[i] += (*at)[i - 1];
	for (uint32_t i = 0; i < w->links.n; i++)
		(*to)[(*at)[w->links.at[i].from + 1]++] = w->links.at[i].to;
	return 0;
}

/* Boxes without edges stand in rows below the others. */
static int place_lonely(struct work *w, const uint32_t *at, const uint32_t *to)
{
	uint32_t n = w->nreal, lonely = 0, row, placed = 0;
	uint8_t *has = STX_NEW_ARRAY(w->a, uint8_t, n + 1);
	if (!has)
		return -1;
	for (uint32_t i = 0; i < n; i++) {
		has[i] |= at[i] != at[i + 1];
		for (uint32_t j = at[i]; j < at[i + 1]; j++)
			has[to[j]] = 1;
	}
	for (uint32_t i = 0; i < n; i++)
		lonely += !has[i];
	row = lonely > 1000 ? lonely / 100 : 8;
	if (lonely == n)
		w->y->nlayers = 0;
	for (uint32_t i = 0; i < n; i++)
		if (!has[i])
			w->y->placed.at[i].layer = w->y->nlayers + placed++ / row;
	w->y->nlayers += (placed + row - 1) / row;
	return 0;
}

static int find_layers(struct work *w)
{
	uint32_t n = w->nreal, *at, *to, head = 0, tail = 0;
	uint32_t *missing = STX_NEW_ARRAY(w->a, uint32_t, n + 1);
	uint32_t *queue = STX_NEW_ARRAY(w->a, uint32_t, n + 1);
	/* depends on something that has other readers too */
	uint8_t *is_shared = STX_NEW_ARRAY(w->a, uint8_t, n + 1);
	struct stx__placed *t = w->y->placed.at;
	if (!missing || !queue || !is_shared || links_out(w, &at, &to))
		return -1;
	for (uint32_t i = 0; i < w->links.n; i++)
		missing[w->links.at[i].to]++;
	for (uint32_t i = 0; i < n; i++)
		if (!missing[i])
			queue[tail++] = i;
	while (head < tail) {
		uint32_t v = queue[head++];
		for (uint32_t i = at[v]; i < at[v + 1]; i++) {
			if (is_shared[v] || at[v + 1] - at[v] > 1)
				is_shared[to[i]] = 1;
			if (t[to[i]].layer < t[v].layer + 1)
				t[to[i]].layer = t[v].layer + 1;
			if (!--missing[to[i]])
				queue[tail++] = to[i];
		}
	}
	for (uint32_t k = tail; k-- > 0;) {
		uint32_t v = queue[k], least = UINT32_MAX;
		for (uint32_t i = at[v]; i < at[v + 1]; i++)
			least = t[to[i]].layer < least ? t[to[i]].layer : least;
		if (least != UINT32_MAX && !is_shared[v])
			t[v].layer = least - 1;
	}
	for (uint32_t i = 0; i < n; i++)
		if (t[i].layer >= w->y->nlayers)
			w->y->nlayers = t[i].layer + 1;
	return tail == n ? place_lonely(w, at, to) : -1;
}

static uint32_t span(const struct work *w, const struct link *l)
{
	return w->y->placed.at[l->to].layer - w->y->placed.at[l->from].layer;
}

/* The longest span of which all edges can be drawn within the budget. */
static uint32_t span_limit(const struct work *w)
{
	uint64_t count[MAX_SPAN + 1] = { 0 }, points = 0;
	uint32_t s;
	for (uint32_t i = 0; i < w->links.n; i++)
		if (span(w, &w->links.at[i]) <= MAX_SPAN)
			count[span(w, &w->links.at[i])]++;
	for (s = 2; s <= MAX_SPAN; s++) {
		points += count[s] * (s - 1);
		if (points > MAX_POINTS)
			break;
	}
	return s - 1;
}

static int drop_far(struct work *w)
{
	uint32_t limit = span_limit(w);
	w->far_lines = STX_NEW_ARRAY(w->a, uint32_t, w->y->nboxes + 1);
	if (!w->far_lines)
		return -1;
	for (uint32_t i = 0; i < w->links.n; i++) {
		struct link *l = &w->links.at[i];
		if (span(w, l) <= limit || l->to >= w->y->nboxes)
			continue;
		l->is_far = 1;
		w->far_lines[l->to]++;
		if (stx_push(w->a, &w->y->far, l->edge))
			return -1;
	}
	return 0;
}

/* ---- points of long edges, segments ---- */

static int add_seg(struct work *w, uint32_t from, uint32_t to)
{
	int points = (from >= w->nreal) + (to >= w->nreal);
	struct seg s = { from, to, points == 2 ? 8 : points == 1 ? 3 : 1 };
	return stx_push(w->a, &w->segs, s) || stx_push(w->a, &w->y->points, to);
}

static int add_route(struct work *w, const struct link *l)
{
	struct stx__layout *y = w->y;
	uint32_t before = l->from, first = y->placed.at[l->from].layer, n = span(w, l);
	struct stx__route r = { y->points.n, n + 1, l->edge, l->to < y->nboxes };
	if (stx_push(w->a, &y->routes, r) || stx_push(w->a, &y->points, before))
		return -1;
	for (uint32_t i = 1; i < n; i++) {
		struct stx__placed t = { .w = POINT_W, .layer = first + i };
		uint32_t here = y->placed.n;
		if (stx_push(w->a, &y->placed, t) || add_seg(w, before, here))
			return -1;
		before = here;
	}
	return add_seg(w, before, l->to);
}

/* Segments by one end. */
static int by_end(struct work *w, int out, uint32_t **at_, struct half **half_)
{
	uint32_t n = w->y->placed.n, *at = STX_NEW_ARRAY(w->a, uint32_t, n + 2);
	struct half *half = STX_NEW_ARRAY(w->a, struct half, w->segs.n + 1);
	if (!at || !half)
		return -1;
	for (uint32_t i = 0; i < w->segs.n; i++)
		at[(out ? w->segs.at[i].from : w->segs.at[i].to) + 2]++;
	for (uint32_t i = 2; i <= n + 1; i++)
		at[i] += at[i - 1];
	for (uint32_t i = 0; i < w->segs.n; i++) {
		const struct seg *s = &w->segs.at[i];
		half[at[(out ? s->from : s->to) + 1]++] =
			(struct half){ out ? s->to : s->from, s->weight };
	}
	*at_ = at;
	*half_ = half;
	return 0;
}

static int split_links(struct work *w)
{
	for (uint32_t i = 0; i < w->links.n; i++)
		if (!w->links.at[i].is_far && add_route(w, &w->links.at[i]))
			return -1;
	return by_end(w, 0, &w->in_at, &w->in) || by_end(w, 1, &w->out_at, &w->out) ? -1 : 0;
}

/* ---- order within layers ---- */

struct key {
	double at;
	uint32_t pos, node;
};

static int compare_keys(const void *a, const void *b)
{
	const struct key *p = a, *q = b;
	if (p->at != q->at)
		return p->at < q->at ? -1 : 1;
	return p->pos < q->pos ? -1 : p->pos > q->pos;
}

static int first_order(struct work *w)
{
	uint32_t n = w->y->placed.n, nl = w->y->nlayers;
	w->layer_at = STX_NEW_ARRAY(w->a, uint32_t, nl + 2);
	w->order = STX_NEW_ARRAY(w->a, uint32_t, n + 1);
	w->pos = STX_NEW_ARRAY(w->a, uint32_t, n + 1);
	if (!w->layer_at || !w->order || !w->pos)
		return -1;
	for (uint32_t i = 0; i < n; i++)
		w->layer_at[w->y->placed.at[i].layer + 2]++;
	for (uint32_t i = 2; i <= nl + 1; i++)
		w->layer_at[i] += w->layer_at[i - 1];
	for (uint32_t i = 0; i < n; i++) {
		uint32_t layer = w->y->placed.at[i].layer;
		w->pos[i] = w->layer_at[layer + 1] - w->layer_at[layer];
		w->order[w->layer_at[layer + 1]++] = i;
	}
	return 0;
}

/* Sorts one layer by the mean place of its neighbours in the layer before or after. */
static void sort_layer(struct work *w, uint32_t layer, int down, struct key *keys)
{
	const uint32_t *at = down ? w->in_at : w->out_at;
	const struct half *half = down ? w->in : w->out;
	uint32_t first = w->layer_at[layer], n = w->layer_at[layer + 1] - first;
	for (uint32_t i = 0; i < n; i++) {
		uint32_t v = w->order[first + i], k = at[v + 1] - at[v];
		double sum = 0;
		for (uint32_t j = at[v]; j < at[v + 1]; j++)
			sum += w->pos[half[j].at];
		keys[i] = (struct key){ k ? sum / k : i, i, v };
	}
	qsort(keys, n, sizeof *keys, compare_keys);
	for (uint32_t i = 0; i < n; i++) {
		w->order[first + i] = keys[i].node;
		w->pos[keys[i].node] = i;
	}
}

static int compare_u32(const void *a, const void *b)
{
	uint32_t p = *(const uint32_t *)a, q = *(const uint32_t *)b;
	return p < q ? -1 : p > q;
}

/* Crossings between a layer and the next. tree: [size of the next + 1], places: [segments]. */
static uint64_t layer_crossings(const struct work *w, uint32_t layer, uint32_t *tree,
				uint32_t *places)
{
	uint32_t size = w->layer_at[layer + 2] - w->layer_at[layer + 1], seen = 0;
	uint64_t crossings = 0;
	memset(tree, 0, (size + 1) * sizeof *tree);
	for (uint32_t i = w->layer_at[layer]; i < w->layer_at[layer + 1]; i++) {
		uint32_t v = w->order[i], n = w->out_at[v + 1] - w->out_at[v];
		for (uint32_t j = 0; j < n; j++)
			places[j] = w->pos[w->out[w->out_at[v] + j].at];
		qsort(places, n, sizeof *places, compare_u32);
		for (uint32_t j = 0; j < n; j++) {
			uint32_t upto = 0;
			for (uint32_t t = places[j] + 1; t; t &= t - 1)
				upto += tree[t];
			crossings += seen + j - upto;
			for (uint32_t t = places[j] + 1; t <= size; t += t & -t)
				tree[t]++;
		}
		seen += n;
	}
	return crossings;
}

static uint64_t crossings(const struct work *w, uint32_t *tree, uint32_t *places)
{
	uint64_t sum = 0;
	for (uint32_t l = 0; l + 1 < w->y->nlayers; l++)
		sum += layer_crossings(w, l, tree, places);
	return sum;
}

static int find_order(struct work *w)
{
	uint32_t n = w->y->placed.n, nl = w->y->nlayers, still = 0;
	struct key *keys = STX_NEW_ARRAY(w->a, struct key, n + 1);
	uint32_t *best = STX_NEW_ARRAY(w->a, uint32_t, n + 1);
	uint32_t *tree = STX_NEW_ARRAY(w->a, uint32_t, n + 2);
	uint32_t *places = STX_NEW_ARRAY(w->a, uint32_t, w->segs.n + 1);
	if (!keys || !best || !tree || !places || first_order(w))
		return -1;
	uint64_t least = crossings(w, tree, places);
	uint32_t sweeps = n ? MAX_WORK / n : 0;
	sweeps = sweeps < 4 ? 4 : sweeps > SWEEPS ? SWEEPS : sweeps;
	memcpy(best, w->order, n * sizeof *best);
	for (uint32_t s = 0; s < sweeps && least && still < 4; s++) {
		for (uint32_t k = 1; k < nl; k++)
			sort_layer(w, s % 2 ? nl - 1 - k : k, s % 2 == 0, keys);
		uint64_t now = crossings(w, tree, places);
		still = now < least ? 0 : still + 1;
		if (now < least) {
			least = now;
			memcpy(best, w->order, n * sizeof *best);
		}
	}
	memcpy(w->order, best, n * sizeof *best);
	for (uint32_t l = 0; l < nl; l++)
		for (uint32_t i = w->layer_at[l]; i < w->layer_at[l + 1]; i++)
			w->pos[w->order[i]] = i - w->layer_at[l];
	return 0;
}

/* ---- x ---- */

static float apart(const struct work *w, uint32_t a, uint32_t b)
{
	const struct stx__placed *t = w->y->placed.at;
	return (t[a].w + t[b].w) / 2 + GAP_X;
}

/* Where a thing's neighbours are, and how strongly they pull. */
static void pull(const struct work *w, uint32_t v, int in, int out, float *x, float *weight)
{
	float sum = 0, all = 0;
	for (uint32_t j = w->in_at[v]; in && j < w->in_at[v + 1]; j++) {
		sum += w->y->placed.at[w->in[j].at].x * (float)w->in[j].weight;
		all += (float)w->in[j].weight;
	}
	for (uint32_t j = w->out_at[v]; out && j < w->out_at[v + 1]; j++) {
		sum += w->y->placed.at[w->out[j].at].x * (float)w->out[j].weight;
		all += (float)w->out[j].weight;
	}
	*x = all > 0 ? sum / all : w->y->placed.at[v].x;
	*weight = all > 0 ? all : 0.1f;
}

struct pool {
	double sum, weight;
	uint32_t n;
};

/* Things of a layer as near to where they are pulled as their order and widths allow. */
static void place_layer(struct work *w, uint32_t layer, int in, int out, struct pool *pools)
{
	uint32_t first = w->layer_at[layer], n = w->layer_at[layer + 1] - first, np = 0, i = 0;
	double shift = 0;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t v = w->order[first + k];
		float x, weight;
		if (k)
			shift += apart(w, w->order[first + k - 1], v);
		pull(w, v, in, out, &x, &weight);
		pools[np++] = (struct pool){ (x - shift) * weight, weight, 1 };
		while (np > 1 && pools[np - 2].sum * pools[np - 1].weight >
					 pools[np - 1].sum * pools[np - 2].weight) {
			pools[np - 2].sum += pools[np - 1].sum;
			pools[np - 2].weight += pools[np - 1].weight;
			pools[np - 2].n += pools[np - 1].n;
			np--;
		}
	}
	shift = 0;
	for (uint32_t q = 0; q < np; q++)
		for (uint32_t k = 0; k < pools[q].n; k++, i++) {
			uint32_t v = w->order[first + i];
			if (i)
				shift += apart(w, w->order[first + i - 1], v);
			w->y->placed.at[v].x = (float)(pools[q].sum / pools[q].weight + shift);
		}
}

static int find_x(struct work *w)
{
	uint32_t nl = w->y->nlayers, n = w->y->placed.n;
	struct pool *pools = STX_NEW_ARRAY(w->a, struct pool, n + 1);
	if (!pools)
		return -1;
	for (uint32_t l = 0; l < nl; l++)
		place_layer(w, l, 0, 0, pools);
	uint32_t rounds = n > 50000 ? 4 : 12;
	for (uint32_t r = 0; r < rounds; r++) {
		for (uint32_t l = 0; l < nl; l++)
			place_layer(w, l, 1, r + 2 >= rounds, pools);
		for (uint32_t l = nl; l-- > 0;)
			place_layer(w, l, r + 2 >= rounds, 1, pools);
	}
	float least = INFINITY;
	for (uint32_t i = 0; i < n; i++)
		least = fminf(least, w->y->placed.at[i].x - w->y->placed.at[i].w / 2);
	for (uint32_t i = 0; i < n; i++) {
		struct stx__placed *t = &w->y->placed.at[i];
		t->x -= least;
		w->y->width = fmaxf(w->y->width, t->x + t->w / 2);
	}
	return 0;
}

/* ---- y ---- */

static int find_y(struct work *w)
{
	struct stx__layout *y = w->y;
	float here = 0;
	y->top = STX_NEW_ARRAY(w->a, float, y->nlayers + 1);
	y->height = STX_NEW_ARRAY(w->a, float, y->nlayers + 1);
	if (!y->top || !y->height)
		return -1;
	for (uint32_t i = 0; i < w->nreal; i++) {
		struct stx__placed *t = &y->placed.at[i];
		y->height[t->layer] = fmaxf(y->height[t->layer], t->h);
	}
	float *wide = STX_NEW_ARRAY(w->a, float, y->nlayers + 1); /* widest way to the next layer */
	if (!wide)
		return -1;
	for (uint32_t i = 0; i < w->segs.n; i++) {
		const struct stx__placed *a = &y->placed.at[w->segs.at[i].from];
		wide[a->layer] =
			fmaxf(wide[a->layer], fabsf(a->x - y->placed.at[w->segs.at[i].to].x));
	}
	for (uint32_t l = 0; l < y->nlayers; l++) {
		y->top[l] = here;
		here += y->height[l] + fminf(GAP_Y + wide[l] / 24, 4 * GAP_Y);
		y->height_all = y->top[l] + y->height[l];
	}
	for (uint32_t i = 0; i < y->placed.n; i++) {
		struct stx__placed *t = &y->placed.at[i];
		t->y = y->top[t->layer];
		if (i >= y->nboxes && i < w->nreal) /* labels in the middle of their layer */
			t->y += (y->height[t->layer] - t->h) / 2;
	}
	return 0;
}

static int find_sizes(struct work *w, stx__box_size_fn *size)
{
	struct stx__layout *y = w->y;
	for (uint32_t i = 0; i < w->nreal; i++) {
		struct stx__placed *t = &y->placed.at[i];
		if (i < y->nboxes)
			size(w->p, i, w->far_lines[i], &t->w, &t->h);
		else
			stx__label_size(w->p->labels.at[y->label[i - y->nboxes]], &t->w, &t->h);
	}
	return 0;
}

stx_err stx__picture_layout(struct stx_picture *p, stx__box_size_fn *size, struct stx__layout *y,
			    struct stx_diag *d)
{
	struct work w = { .p = p, .y = y, .a = p->arena };
	if (find_links(&w) || find_layers(&w) || drop_far(&w) || find_sizes(&w, size) ||
	    split_links(&w) || find_order(&w) || find_x(&w) || find_y(&w))
		return stx_arena_oom(p->arena)
			       ? stx_fail(d, STX_E_TOO_LARGE, "picture", NULL,
					  "the picture needs too much memory: use --format dot")
			       : stx_fail(d, STX_E_INTERNAL, "picture", NULL, "edges form a cycle");
	return STX_E_OK;
}
