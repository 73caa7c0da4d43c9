/* decompose_sample.c: sampling at run-time positions (grid_sampler, _sample): the neighbours of
 * each position are read through indices computed from it, weighted and summed, dimension by
 * dimension. One pointwise kernel; nothing is stored in between. Positions and weights are
 * PyTorch's. */

#include "decompose.h"
#include "infer.h"

enum { BILINEAR, NEAREST, BICUBIC };
enum { ZEROS, BORDER, REFLECTION };

struct tap {
	struct stx_val index, there, weight; /* over the grid: i32, bool, float */
};

struct sampler {
	struct stx__build *b;
	enum stx_dtype wide;
	uint32_t k, m; /* dimensions of the input; of the result, batch and channels apart */
	int64_t mode, padding, align, size[STX__MAX_SPATIAL];
	int taps;
	struct tap tap[STX__MAX_SPATIAL][4];
};

static struct stx_val plus(struct sampler *s, struct stx_val x, double v)
{
	return stx__b_scalar(s->b, STX_OP_ADD_SCALAR, x, v);
}

static struct stx_val times(struct sampler *s, struct stx_val x, double v)
{
	return stx__b_scalar(s->b, STX_OP_MUL_SCALAR, x, v);
}

static struct stx_val number(struct sampler *s, double v)
{
	return stx__b_full(s->b, 0, NULL, stx_arg_scalar_f(v), s->wide);
}

/* -1 and 1 are the centres of the outer elements, or their outer edges. */
static struct stx_val unnormalize(struct sampler *s, struct stx_val x, int64_t size)
{
	x = plus(s, x, 1);
	if (s->align)
		return times(s, times(s, x, 0.5), (double)(size - 1));
	return times(s, plus(s, times(s, x, (double)size), -1), 0.5);
}

/* Into [0, size - 1]; NaN becomes 0. */
static struct stx_val clip(struct sampler *s, struct stx_val x, int64_t size)
{
	struct stx_val above = stx__b_scalar(s->b, STX_OP_GT_SCALAR, x, 0);
	x = stx__b_where(s->b, above, x, number(s, 0));
	struct stx_val below = stx__b_scalar(s->b, STX_OP_LT_SCALAR, x, (double)(size - 1));
	return stx__b_where(s->b, below, x, number(s, (double)(size - 1)));
}

/* Mirrored at the centres of the outer elements, or at their outer edges, as often as needed. */
static struct stx_val reflect(struct sampler *s, struct stx_val x, int64_t size)
{
	double low = s->align ? 0 : -0.5, span = (double)(s->align ? size - 1 : size);
	if (span == 0)
		return stx__b_where(s->b, stx__b_scalar(s->b, STX_OP_EQ_SCALAR, x, 0), x,
				    number(s, 0));
	x = stx__b_one(s->b, STX_OP_ABS, plus(s, x, -low));
	struct stx_val length = number(s, span), extra = stx__b_two(s->b, STX_OP_FMOD, x, length);
	struct stx_val flips =
		stx__b_one(s->b, STX_OP_FLOOR, stx__b_two(s->b, STX_OP_DIV, x, length));
	struct stx_val even = stx__b_scalar(s->b, STX_OP_EQ_SCALAR,
					    stx__b_two(s->b, STX_OP_FMOD, flips, number(s, 2)), 0);
	struct stx_val back = plus(s, stx__b_two(s->b, STX_OP_SUB, length, extra), low);
	return stx__b_where(s->b, even, plus(s, extra, low), back);
}

static struct stx_val padded(struct sampler *s, struct stx_val x, int64_t size)
{
	if (s->padding == REFLECTION)
		x = reflect(s, x, size);
	return s->padding == ZEROS ? x : clip(s, x, size);
}

/* The element at whole position p. */
static struct tap tap_at(struct sampler *s, struct stx_val p, int64_t size)
{
	struct tap t = { .index = stx__b_cast(s->b, p, STX_I32) };
	struct stx_arg range[] = { stx_arg_tensor(t.index), stx_arg_scalar_i(0),
				   stx_arg_scalar_i(size - 1) };
	t.index = stx__b_call(s->b, STX_OP_CLAMP, 3, range);
	t.there = stx__b_two(s->b, STX_OP_LOGICAL_AND, stx__b_scalar(s->b, STX_OP_GE_SCALAR, p, 0),
			     stx__b_scalar(s->b, STX_OP_LE_SCALAR, p, (double)(size - 1)));
	return t;
}

/* ((a + 2) x - (a + 3)) x^2 + 1 for x in [0, 1]; ((a x - 5a) x + 8a) x - 4a for x in [1, 2] */
static struct stx_val cubic(struct sampler *s, struct stx_val x, int far)
{
	const double a = -0.75;
	struct stx_val y;
	if (far) {
		y = plus(s, times(s, x, a), -5 * a);
		y = plus(s, stx__b_two(s->b, STX_OP_MUL, y, x), 8 * a);
		return plus(s, stx__b_two(s->b, STX_OP_MUL, y, x), -4 * a);
	}
	y = plus(s, times(s, x, a + 2), -(a + 3));
	y = stx__b_two(s->b, STX_OP_MUL, stx__b_two(s->b, STX_OP_MUL, y, x), x);
	return plus(s, y, 1);
}

static void place(struct sampler *s, uint32_t dim, struct stx_val x)
{
	int64_t size = s->size[dim];
	struct tap *t = s->tap[dim];
	if (s->mode != BICUBIC)
		x = padded(s, x, size);
	struct stx_val p = stx__b_one(s->b, s->mode == NEAREST ? STX_OP_ROUND : STX_OP_FLOOR, x);
	struct stx_val part = stx__b_two(s->b, STX_OP_SUB, x, p);
	for (int i = 0; i < s->taps; i++) {
		struct stx_val at = s->mode == BICUBIC ? padded(s, plus(s, p, i - 1), size)
				    : i                ? plus(s, p, 1)
						       : p;
		t[i] = tap_at(s, at, size);
	}
	if (s->mode == BILINEAR) {
		t[0].weight = stx__b_two(s->b, STX_OP_SUB, plus(s, p, 1), x);
		t[1].weight = part;
	} else if (s->mode == BICUBIC) {
		struct stx_val rest = plus(s, times(s, part, -1), 1);
		t[0].weight = cubic(s, plus(s, part, 1), 1);
		t[1].weight = cubic(s, part, 0);
		t[2].weight = cubic(s, rest, 0);
		t[3].weight = cubic(s, plus(s, rest, 1), 1);
	}
}

/* ---- reading ---- */

static struct stx_val beside(struct sampler *s, struct stx_val v)
{
	return stx__b_unsqueeze(s->b, v, s->m + 1);
}

/* The elements that at[] chooses, [n, out.., channels]; 0 where they lie outside. */
static struct stx_val read_at(struct sampler *s, struct stx_val x, struct stx_val batch,
			      const int *at)
{
	struct stx_val list[2 + STX__MAX_SPATIAL] = { batch }, there = s->tap[0][at[0]].there;
	for (uint32_t i = 0; i < s->k; i++) {
		list[2 + i] = s->tap[i][at[i]].index;
		if (i)
			there = stx__b_two(s->b, STX_OP_LOGICAL_AND, there, s->tap[i][at[i]].there);
	}
	if (s->b->err)
		return x;
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_tensors(s->b->g, list, 2 + s->k) };
	struct stx_val v = stx__b_call(s->b, STX_OP_INDEX, 2, a);
	if (s->b->err)
		return x;
	return stx__b_where(
		s->b, beside(s, there), v,
		stx__b_full(s->b, 0, NULL, stx_arg_scalar_i(0), stx_val_type(v)->dtype));
}

/* Sums over the taps of dimension dim and those after it, the last one innermost: a row of each
 * level is finished before it is weighted. */
static struct stx_val combine(struct sampler *s, struct stx_val x, struct stx_val batch)
{
	struct stx_val sum[STX__MAX_SPATIAL + 1] = { { NULL, 0 } };
	int at[STX__MAX_SPATIAL] = { 0 };
	for (;;) {
		struct stx_val v = read_at(s, x, batch, at);
		int dim = (int)s->k - 1;
		if (s->mode == NEAREST || s->b->err)
			return v;
		for (;; dim--) {
			v = stx__b_two(s->b, STX_OP_MUL, v, beside(s, s->tap[dim][at[dim]].weight));
			v = at[dim] ? stx__b_two(s->b, STX_OP_ADD, sum[dim], v) : v;
			sum[dim] = v;
			if (++at[dim] < s->taps)
				break;
			if (dim == 0)
				return v;
			at[dim] = 0;
		}
	}
}

/* at: type of positions. */
static int start(struct sampler *s, struct stx__build *b, const struct stx_node *n,
		 const struct stx_type *at, uint32_t k)
{
	const struct stx_type *x = stx__infer_type(n, 0);
	*s = (struct sampler){ .b = b, .k = k, .m = n->outs[0].rank - 2u };
	s->wide = x->dtype == STX_F64 || at->dtype == STX_F64 ? STX_F64 : STX_F32;
	stx_ex_is_const(b->g->ex, n->args[2].u.ex, &s->mode);
	stx_ex_is_const(b->g->ex, n->args[3].u.ex, &s->padding);
	s->taps = s->mode == BILINEAR ? 2 : s->mode == NEAREST ? 1 : 4;
	for (uint32_t i = 0; i < s->k; i++)
		stx_ex_is_const(b->g->ex, x->sizes[2 + i], &s->size[i]);
	return 0;
}

/* The result from placed taps. */
static int finish(struct sampler *s, const struct stx_node *n, struct stx_val *out)
{
	struct stx__build *b = s->b;
	const struct stx_type *t = &n->outs[0];
	int64_t batch, dims[STX_MAX_DIMS];
	stx_ex column[STX_MAX_DIMS];
	struct stx_val x = stx__operand(n, 0);
	if (!stx_ex_is_const(b->g->ex, t->sizes[0], &batch))
		return stx__b_fail(b, STX_E_UNSUPPORTED, "sampling of a symbolic batch");
	column[0] = t->sizes[0];
	for (uint32_t i = 1; i <= s->m; i++)
		column[i] = stx_ex_const(b->g->ex, 1);
	if (s->mode != NEAREST)
		x = stx__b_cast(b, x, s->wide);
	x = combine(s, x, stx__b_view(b, stx__b_arange(b, batch), s->m + 1, column));
	for (uint32_t i = 0; i < s->m + 2; i++) /* channels last become the second */
		dims[i] = i == 0 ? 0 : i == 1 ? s->m + 1 : i - 1;
	struct stx_arg p[] = { stx_arg_tensor(x), stx_arg_ints(b->g, dims, s->m + 2) };
	out[0] = stx__b_cast(b, stx__b_call(b, STX_OP_PERMUTE, 2, p), t->dtype);
	return 0;
}

static int nothing(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_type *t = &n->outs[0];
	if (!stx_ex_equals(b->g->ex, stx_type_numel(b->g, t), 0))
		return 0;
	out[0] = stx__b_full(b, t->rank, t->sizes, stx_arg_scalar_i(0), t->dtype);
	return 1;
}

int stx__rule_grid_sampler(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct sampler s;
	uint32_t k = n->op == STX_OP_GRID_SAMPLER2D ? 2 : 3;
	if (nothing(b, n, out) || start(&s, b, n, stx__infer_type(n, 1), k))
		return 0;
	s.align = n->args[4].u.i;
	struct stx_val grid = stx__b_cast(b, stx__operand(n, 1), s.wide);
	for (uint32_t i = 0; i < k; i++) { /* the last dimension's coordinate comes first */
		struct stx_arg a[] = { stx_arg_tensor(grid), stx_arg_int(b->g, k + 1),
				       stx_arg_int(b->g, k - 1 - i) };
		place(&s, i, unnormalize(&s, stx__b_call(b, STX_OP_SELECT, 3, a), s.size[i]));
	}
	return finish(&s, n, out);
}

int stx__rule_sample(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_arg *at = &n->args[1];
	struct sampler s;
	if (nothing(b, n, out) || start(&s, b, n, stx_val_type(at->u.tensors[0]), at->n))
		return 0;
	for (uint32_t i = 0; i < at->n; i++)
		place(&s, i, stx__b_cast(b, at->u.tensors[i], s.wide));
	return finish(&s, n, out);
}
