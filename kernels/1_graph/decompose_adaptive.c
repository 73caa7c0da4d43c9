/* decompose_adaptive.c: adaptive pooling: windows of different sizes. Where the sizes divide it is
 * ordinary pooling; else each dimension is read through a table [result, longest window], what lies
 * beyond a window is left out (sums) or repeats its last element (maxima), and one reduction runs
 * over all windows' dimensions. */
#include <assert.h>
#include <string.h>

#include "decompose.h"
#include "infer.h"
#include "scalar.h"

struct table {
	int64_t n, longest; /* results; elements of the longest window */
	int64_t *from, *to; /* [n]: window [from, to) of the operand */
};

struct adaptive {
	struct stx__build *b;
	struct stx__adaptive a;
	uint32_t lead;
	struct table tab[STX__MAX_SPATIAL];
};

static void *memory(struct stx__build *b, size_t n)
{
	void *p = stx_arena_alloc(b->g->arena, n + 1);
	if (!p)
		stx__b_fail(b, STX_E_TOO_LARGE, "over the memory budget");
	return p;
}

static int new_table(struct stx__build *b, struct table *t, int64_t n)
{
	*t = (struct table){ .n = n };
	t->from = memory(b, (size_t)n * 8);
	t->to = memory(b, (size_t)n * 8);
	return t->from && t->to;
}

static void measure(struct table *t)
{
	for (int64_t i = 0; i < t->n; i++)
		if (t->to[i] - t->from[i] > t->longest)
			t->longest = t->to[i] - t->from[i];
}

/* Windows of n results over `in` elements: [floor(o*in/n), ceil((o+1)*in/n)). */
static int forward_table(struct stx__build *b, struct table *t, int64_t in, int64_t n)
{
	if (!new_table(b, t, n))
		return 0;
	for (int64_t o = 0; o < n; o++) {
		t->from[o] = o * in / n;
		t->to[o] = ((o + 1) * in + n - 1) / n;
	}
	measure(t);
	return 1;
}

/* For each of `in` elements the results whose windows contain it. */
static int backward_table(struct stx__build *b, struct table *t, const struct table *f, int64_t in)
{
	if (!new_table(b, t, in))
		return 0;
	for (int64_t i = 0, from = 0, to = 0; i < in; i++) {
		while (from < f->n && f->to[from] <= i)
			from++;
		while (to < f->n && f->from[to] <= i)
			to++;
		t->from[i] = from;
		t->to[i] = to;
	}
	measure(t);
	return 1;
}

/* ---- reading through tables ---- */

static struct stx_val index_of(struct stx__build *b, const struct table *t, int64_t n)
{
	int64_t count = t->n * t->longest;
	int32_t *at = count <= 1 << 20 ? memory(b, (size_t)count * 4) : NULL;
	if (!at) {
		stx__b_fail(b, STX_E_TOO_LARGE, "windows over more elements than a table holds");
		return stx_val(NULL, 0);
	}
	for (int64_t o = 0; o < t->n; o++)
		for (int64_t k = 0; k < t->longest; k++) {
			int64_t i = t->from[o] + k < t->to[o] ? t->from[o] + k : t->to[o] - 1;
			at[o * t->longest + k] = (int32_t)(i < 0 ? 0 : i < n ? i : n - 1);
		}
	return stx__b_constant(b, STX_I32, 1, &count, at, (size_t)count * 4);
}

/* x [lead.., n..] as [lead.., result, window, result, window, ..]. */
static struct stx_val windowed(struct adaptive *p, struct stx_val x)
{
	stx_ex sizes[STX_MAX_DIMS];
	int64_t n;
	if (p->b->err)
		return x;
	if (p->lead + 2 * p->a.k > STX_MAX_DIMS) {
		stx__b_fail(p->b, STX_E_TOO_LARGE, "too many dimensions");
		return x;
	}
	memcpy(sizes, stx_val_type(x)->sizes, p->lead * sizeof *sizes);
	for (uint32_t i = 0; i < p->a.k && !p->b->err; i++) {
		const struct table *t = &p->tab[i];
		stx_ex_is_const(p->b->g->ex, stx_val_type(x)->sizes[p->lead + i], &n);
		x = stx__b_index_select(p->b, x, p->lead + i, index_of(p->b, t, n));
		sizes[p->lead + 2 * i] = stx_ex_const(p->b->g->ex, t->n);
		sizes[p->lead + 2 * i + 1] = stx_ex_const(p->b->g->ex, t->longest);
	}
	return stx__b_view(p->b, x, p->lead + 2 * p->a.k, sizes);
}

static uint32_t window_dims(const struct adaptive *p)
{
	uint32_t set = 0;
	for (uint32_t i = 0; i < p->a.k; i++)
		set |= 1u << (p->lead + 2 * i + 1);
	return set;
}

/* v where it lies in the window of dimension i, else 0. */
static struct stx_val inside(struct adaptive *p, struct stx_val v, uint32_t i)
{
	const struct table *t = &p->tab[i];
	int64_t sizes[2 * STX__MAX_SPATIAL], count = t->n * t->longest, all = 1;
	uint8_t *in = memory(p->b, (size_t)count);
	if (!in || p->b->err)
		return v;
	for (int64_t o = 0; o < t->n; o++)
		for (int64_t k = 0; k < t->longest; k++)
			all &= in[o * t->longest + k] = t->from[o] + k < t->to[o];
	if (all)
		return v;
	uint32_t rank = 2 * (p->a.k - i);
	for (uint32_t d = 0; d < rank; d++)
		sizes[d] = d == 0 ? t->n : d == 1 ? t->longest : 1;
	struct stx_val mask = stx__b_constant(p->b, STX_BOOL, rank, sizes, in, (size_t)count);
	return stx__b_where(
		p->b, mask, v,
		stx__b_full(p->b, 0, NULL, stx_arg_scalar_i(0), stx_val_type(v)->dtype));
}

/* Lengths of the windows of dimension i as constants that broadcast over the result. */
static struct stx_val lengths(struct adaptive *p, const struct table *t, uint32_t i,
			      enum stx_dtype w)
{
	size_t width = (size_t)stx_dtype_bytes(w);
	int64_t sizes[STX__MAX_SPATIAL];
	char *at = memory(p->b, (size_t)t->n * width);
	if (!at)
		return stx_val(NULL, 0);
	for (int64_t o = 0; o < t->n; o++)
		stx_scalar_store(w, at + (size_t)o * width,
				 (union stx_scalar){ .f = (double)(t->to[o] - t->from[o]) });
	for (uint32_t d = i; d < p->a.k; d++)
		sizes[d - i] = d == i ? t->n : 1;
	return stx__b_constant(p->b, w, p->a.k - i, sizes, at, (size_t)t->n * width);
}

static int start(struct adaptive *p, struct stx__build *b, const struct stx_node *n)
{
	*p = (struct adaptive){ .b = b };
	stx_err e = stx__infer_adaptive(b->g, n, &p->a, b->d);
	if (e)
		return b->err = e;
	assert(p->a.k >= 1 && p->a.k <= STX__MAX_SPATIAL);
	p->lead = n->outs[0].rank - p->a.k;
	return 0;
}

static int is_empty(struct stx__build *b, const struct stx_type *t)
{
	return stx_ex_equals(b->g->ex, stx_type_numel(b->g, t), 0);
}

static struct stx_val zeros(struct stx__build *b, const struct stx_type *t)
{
	return stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(0), t->dtype);
}

/* ---- rules ---- */

static int divides(const struct adaptive *p)
{
	for (uint32_t i = 0; i < p->a.k; i++)
		if (p->a.out[i] == 0 || p->a.in[i] % p->a.out[i])
			return 0;
	return 1;
}

/* The ordinary pooling that it is. */
static struct stx_val ordinary(struct adaptive *p, const struct stx_node *n, int max)
{
	static const enum stx_op ops[2][3] = {
		{ STX_OP_AVG_POOL1D, STX_OP_AVG_POOL2D, STX_OP_AVG_POOL3D },
		{ STX_OP_MAX_POOL1D, STX_OP_MAX_POOL2D, STX_OP_MAX_POOL3D }
	};
	int64_t kernel[STX__MAX_SPATIAL];
	for (uint32_t i = 0; i < p->a.k; i++)
		kernel[i] = p->a.in[i] / p->a.out[i];
	struct stx_arg a[] = { n->args[0], stx_arg_ints(p->b->g, kernel, p->a.k) };
	return stx__b_call(p->b, ops[max][p->a.k - 1], 2, a);
}

int stx__rule_adaptive_avg(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	enum stx_dtype t = n->outs[0].dtype, wide = stx__wide(t);
	struct adaptive p;
	if (start(&p, b, n))
		return 0;
	if (is_empty(b, &n->outs[0])) {
		out[0] = zeros(b, &n->outs[0]);
		return 0;
	}
	if (divides(&p)) {
		out[0] = ordinary(&p, n, 0);
		return 0;
	}
	for (uint32_t i = 0; i < p.a.k; i++)
		if (!forward_table(b, &p.tab[i], p.a.in[i], p.a.out[i]))
			return 0;
	struct stx_val v = windowed(&p, stx__b_cast(b, stx__operand(n, 0), wide)), count;
	for (uint32_t i = 0; i < p.a.k; i++)
		v = inside(&p, v, i);
	v = stx__b_sum(b, v, window_dims(&p), 0, wide);
	count = lengths(&p, &p.tab[0], 0, wide);
	for (uint32_t i = 1; i < p.a.k; i++)
		count = stx__b_two(b, STX_OP_MUL, count, lengths(&p, &p.tab[i], i, wide));
	out[0] = stx__b_cast(b, stx__b_two(b, STX_OP_DIV, v, count), t);
	return 0;
}

/* Each element takes its share of every window that contains it. */
int stx__rule_adaptive_avg_backward(struct stx__build *b, const struct stx_node *n,
				    struct stx_val *out)
{
	enum stx_dtype t = n->outs[0].dtype, wide = stx__wide(t);
	struct table f[STX__MAX_SPATIAL];
	struct adaptive p;
	if (start(&p, b, n))
		return 0;
	if (is_empty(b, &n->outs[0]) || is_empty(b, stx__infer_type(n, 0))) {
		out[0] = zeros(b, &n->outs[0]);
		return 0;
	}
	for (uint32_t i = 0; i < p.a.k; i++)
		if (!forward_table(b, &f[i], p.a.in[i], p.a.out[i]) ||
		    !backward_table(b, &p.tab[i], &f[i], p.a.in[i]))
			return 0;
	struct stx_val count = lengths(&p, &f[0], 0, wide);
	for (uint32_t i = 1; i < p.a.k; i++)
		count = stx__b_two(b, STX_OP_MUL, count, lengths(&p, &f[i], i, wide));
	struct stx_val v = stx__b_cast(b, stx__operand(n, 0), wide);
	v = windowed(&p, stx__b_two(b, STX_OP_DIV, v, count));
	for (uint32_t i = 0; i < p.a.k; i++)
		v = inside(&p, v, i);
	out[0] = stx__b_cast(b, stx__b_sum(b, v, window_dims(&p), 0, wide), t);
	return 0;
}

/* Flat position in the operand of tap number `tap` of each window. */
static struct stx_val positions(struct adaptive *p, struct stx_val tap)
{
	struct stx_val sum = tap;
	int64_t stride = 1, sizes[STX__MAX_SPATIAL];
	for (uint32_t i = p->a.k; i-- > 0;) {
		const struct table *t = &p->tab[i];
		struct stx_val k = stx__b_full(p->b, 0, NULL, stx_arg_scalar_i(t->longest),
					       STX_I64),
			       at = i ? stx__b_two(p->b, STX_OP_REMAINDER, tap, k) : tap;
		struct stx_arg div[] = { stx_arg_tensor(tap), stx_arg_tensor(k),
					 stx_arg_str(p->b->g, "floor") };
		if (i)
			tap = stx__b_call(p->b, STX_OP_DIV_MODE, 3, div);
		for (uint32_t d = i; d < p->a.k; d++)
			sizes[d - i] = d == i ? t->n : 1;
		struct stx_val from = stx__b_constant(p->b, STX_I64, p->a.k - i, sizes, t->from,
						      (size_t)t->n * 8);
		at = stx__b_two(p->b, STX_OP_ADD, at, from);
		at = stx__b_number(p->b, STX_OP_MUL_SCALAR, at, stx_arg_scalar_i(stride));
		sum = i == p->a.k - 1 ? at : stx__b_two(p->b, STX_OP_ADD, sum, at);
		stride *= p->a.in[i];
	}
	return sum;
}

int stx__rule_adaptive_max(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct adaptive p;
	stx_ex flat[STX_MAX_DIMS];
	int64_t dims[STX_MAX_DIMS], taps = 1;
	if (start(&p, b, n))
		return 0;
	if (is_empty(b, &n->outs[0])) {
		out[0] = zeros(b, &n->outs[0]);
		out[1] = zeros(b, &n->outs[1]);
		return 0;
	}
	if (divides(&p)) {
		out[0] = ordinary(&p, n, 1);
		out[1] = stx_val(out[0].node, 1);
		return 0;
	}
	for (uint32_t i = 0; i < p.a.k; i++) {
		if (!forward_table(b, &p.tab[i], p.a.in[i], p.a.out[i]))
			return 0;
		taps *= p.tab[i].longest;
	}
	struct stx_val v = windowed(&p, stx__operand(n, 0));
	out[0] = stx__b_amax(b, v, window_dims(&p), 0);
	for (uint32_t i = 0; i < p.lead + 2 * p.a.k; i++)
		dims[i] = i < p.lead           ? i
			  : i < p.lead + p.a.k ? p.lead + 2 * (i - p.lead)
					       : p.lead + 2 * (i - p.lead - p.a.k) + 1;
	struct stx_arg perm[] = { stx_arg_tensor(v), stx_arg_ints(b->g, dims, p.lead + 2 * p.a.k) };
	v = stx__b_call(b, STX_OP_PERMUTE, 2, perm);
	memcpy(flat, n->outs[0].sizes, n->outs[0].rank * sizeof *flat);
	flat[n->outs[0].rank] = stx_ex_const(b->g->ex, taps);
	v = stx__b_view(b, v, n->outs[0].rank + 1u, flat);
	struct stx_arg arg[] = { stx_arg_tensor(v), stx_arg_int(b->g, n->outs[0].rank),
				 stx_arg_bool(0) };
	out[1] = positions(&p, stx__b_call(b, STX_OP_ARGMAX, 3, arg));
	return 0;
}
