/* onnx_sample.c: what reads at run-time positions: GridSample, AffineGrid, RoiAlign, MaxRoiPool.
 * Positions are computed by pointwise operators and end in _sample or grid_sampler. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

#include "fold.h"

enum { BILINEAR, NEAREST, BICUBIC };
enum { BORDER = 1 };

static int is_one_of(const char *s, const char *a, const char *b)
{
	return !strcmp(s, a) || !strcmp(s, b);
}

static V plus(struct onnx *c, V v, double k)
{
	return onnx_shift(c, v, k);
}

/* Numbers as a constant of this shape and of x's element type. */
static V floats(struct onnx *c, const double *v, int rank, const int64_t *sizes, enum stx_dtype t)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= sizes[i];
	V r = onnx_constant(c, NULL, STX_F64, rank, sizes, v, (size_t)n * 8);
	return onnx_cast(c, r, t);
}

/* ---- GridSample ---- */

/* Cubic interpolation at the border moves what lies outside onto the outermost element; PyTorch's
 * takes the elements around the position and moves those. */
static V onto_border(struct onnx *c, V x, V grid, int align)
{
	double last[3];
	int k = onnx_rank(x) - 2;
	enum stx_dtype t = onnx_dtype(grid);
	for (int i = 0; i < k && !c->err; i++)
		last[i] = align ? 1 : 1 - 1.0 / (double)onnx_dim(c, x, 1 + k - i);
	V end = floats(c, last, 1, (int64_t[]){ k }, t), one = onnx_number(c, 1, t);
	V low = onnx_2(c, STX_OP_LT, grid, onnx_1(c, STX_OP_NEG, one)),
	  high = onnx_2(c, STX_OP_GT, grid, one);
	return onnx_where(c, low, onnx_1(c, STX_OP_NEG, end), onnx_where(c, high, end, grid));
}

static stx_err map_grid_sample(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), grid = onnx_in(c, 1);
	const char *mode = onnx_str(c, "mode", "linear"),
		   *padding = onnx_str(c, "padding_mode", "zeros");
	int align = onnx_int(c, "align_corners", 0) != 0, rank = onnx_rank(x);
	int64_t m = is_one_of(mode, "linear", "bilinear") ? BILINEAR
		    : is_one_of(mode, "cubic", "bicubic") ? BICUBIC
							  : NEAREST;
	int64_t p = !strcmp(padding, "zeros") ? 0 : !strcmp(padding, "border") ? 1 : 2;
	if (c->err)
		return c->err;
	if (m == NEAREST && strcmp(mode, "nearest"))
		return onnx_unsupported_attr(c, "mode", mode);
	if (p == 2 && strcmp(padding, "reflection"))
		return onnx_unsupported_attr(c, "padding_mode", padding);
	if (rank < 4 || rank > 5 || onnx_rank(grid) != rank || (rank == 5 && m == BICUBIC))
		return onnx_fail(c, STX_E_UNSUPPORTED,
				 "operator GridSample: mode %s of an input of rank %d", mode, rank);
	if (m == BICUBIC && p == BORDER)
		grid = onto_border(c, x, grid, align);
	if (c->err)
		return c->err;
	struct stx_arg a[5] = { stx_arg_tensor(x), stx_arg_tensor(grid), stx_arg_int(c->g, m),
				stx_arg_int(c->g, p), stx_arg_bool(align) };
	out[0] = onnx_call(c, rank == 4 ? STX_OP_GRID_SAMPLER2D : STX_OP_GRID_SAMPLER3D, a, 5);
	return c->err;
}

/* ---- AffineGrid ---- */

/* theta [n, k, k+1] applied to the centres of the elements, or of the outer ones, in [-1, 1]. */
static stx_err map_affine_grid(struct onnx *c, V *out)
{
	V theta = onnx_in(c, 0), sum;
	int64_t size[STX_MAX_DIMS], shape[STX_MAX_DIMS];
	int align = onnx_int(c, "align_corners", 0) != 0;
	int n = onnx_known_ints(c, onnx_in(c, 1), "the size", size, STX_MAX_DIMS), k = n - 2;
	enum stx_dtype t = onnx_dtype(theta);
	if (c->err)
		return c->err;
	if ((k != 2 && k != 3) || onnx_rank(theta) != 3 || onnx_dim(c, theta, 1) != k ||
	    onnx_dim(c, theta, 2) != k + 1)
		return onnx_fail(c, STX_E_INVALID, "theta and size do not agree");
	for (int i = 0; i < k + 2; i++)
		shape[i] = i == 0 ? onnx_dim(c, theta, 0) : i == k + 1 ? k : 1;
	sum = onnx_view(c, onnx_slice(c, theta, 2, k, k + 1, 1), shape, k + 2);
	for (int j = 0; j < k && !c->err; j++) { /* coordinate j belongs to dimension k-1-j */
		int64_t d = size[2 + k - 1 - j], along[STX_MAX_DIMS];
		double *v = d >= 0 && d <= STX_FOLD_MAX_ELEMS
				    ? STX_NEW_ARRAY(c->arena, double, (size_t)d + 1)
				    : NULL;
		if (!v)
			return onnx_fail(c, STX_E_INVALID, "size %lld", (long long)d);
		for (int64_t i = 0; i < d; i++)
			v[i] = align ? (d > 1 ? -1 + 2.0 * (double)i / (double)(d - 1) : 0)
				     : -1 + (2.0 * (double)i + 1) / (double)d;
		for (int i = 0; i < k + 2; i++)
			along[i] = i == k - j ? d : 1;
		V column = onnx_view(c, onnx_slice(c, theta, 2, j, j + 1, 1), shape, k + 2);
		sum = onnx_2(c, STX_OP_ADD, sum,
			     onnx_2(c, STX_OP_MUL, column, floats(c, v, k + 2, along, t)));
	}
	out[0] = sum;
	return c->err;
}

/* ---- RoiAlign ---- */

struct roi {
	struct onnx *c;
	enum stx_dtype t;
	int64_t count, size[2], out[2],
		ratio;         /* regions; of the image and of the result, y first */
	V start[2], extent[2]; /* [count] */
	V samples[2];          /* [count], or a number: samples a bin */
	int64_t most[2];       /* of them */
};

/* Column j of the regions, scaled. */
static V column(struct roi *r, V rois, int j, double scale, double shift)
{
	V v = onnx_slice(r->c, rois, 1, j, j + 1, 1);
	v = onnx_view(r->c, v, &r->count, 1);
	v = onnx_scale(r->c, onnx_cast(r->c, v, r->t), scale);
	return shift != 0 ? plus(r->c, v, shift) : v;
}

/* How many samples a bin takes, where the attribute leaves it to the region's size: loops then have
 * as many steps as the largest region asks for, so the regions must be known. */
static void count_samples(struct roi *r, V rois, double scale, int half_pixel)
{
	struct onnx *c = r->c;
	double *v = r->count <= 65536 ? STX_NEW_ARRAY(c->arena, double, (size_t)r->count * 4 + 1)
				      : NULL,
	       *n = v ? STX_NEW_ARRAY(c->arena, double, (size_t)r->count + 1) : NULL;
	if (!n) {
		onnx_fail(c, STX_E_TOO_LARGE, "%lld regions", (long long)r->count);
		return;
	}
	onnx_known_floats(c, rois, "the regions, as attribute sampling_ratio is 0,", v,
			  (int)r->count * 4);
	for (int d = 0; d < 2 && !c->err; d++) {
		r->most[d] = 0;
		for (int64_t i = 0; i < r->count; i++) {
			double length = (v[4 * i + 3 - d] - v[4 * i + 1 - d]) * scale;
			length = half_pixel || length > 1 ? length : 1;
			n[i] = ceil(length / (double)r->out[d]);
			n[i] = n[i] > 0 ? n[i] : 0;
			if (!(n[i] <= 4096)) {
				onnx_fail(c, STX_E_TOO_LARGE, "a region of %g elements", length);
				return;
			}
			r->most[d] = (int64_t)n[i] > r->most[d] ? (int64_t)n[i] : r->most[d];
		}
		r->samples[d] = floats(c, n, 1, &r->count, r->t);
	}
}

static int read_roi(struct roi *r, V x, V rois)
{
	struct onnx *c = r->c;
	const char *mode = onnx_str(c, "coordinate_transformation_mode",
				    c->opset < 16 ? "output_half_pixel" : "half_pixel");
	int half_pixel = !strcmp(mode, "half_pixel");
	double scale = onnx_float(c, "spatial_scale", 1);
	if (c->err || onnx_rank(x) != 4 || onnx_rank(rois) != 2 || onnx_dim(c, rois, 1) != 4) {
		onnx_fail(c, STX_E_INVALID, "X must have rank 4, rois be [regions, 4]");
		return 0;
	}
	if (!half_pixel && strcmp(mode, "output_half_pixel"))
		onnx_unsupported_attr(c, "coordinate_transformation_mode", mode);
	r->t = onnx_dtype(x) == STX_F64 ? STX_F64 : STX_F32;
	r->count = onnx_dim(c, rois, 0);
	r->ratio = onnx_int(c, "sampling_ratio", 0);
	r->out[0] = onnx_int(c, "output_height", 1);
	r->out[1] = onnx_int(c, "output_width", 1);
	for (int d = 0; d < 2 && !c->err; d++) {
		r->size[d] = onnx_dim(c, x, 2 + d);
		if (r->size[d] < 1 || r->out[d] < 1 || r->out[d] > 65536 || r->ratio > 4096) {
			onnx_fail(c, STX_E_INVALID,
				  "output size %lld, %lld samples, over %lld elements",
				  (long long)r->out[d], (long long)r->ratio, (long long)r->size[d]);
			return 0;
		}
		r->start[d] = column(r, rois, 1 - d, scale, half_pixel ? -0.5 : 0);
		r->extent[d] =
			onnx_2(c, STX_OP_SUB, column(r, rois, 3 - d, scale, half_pixel ? -0.5 : 0),
			       r->start[d]);
		if (!half_pixel)
			r->extent[d] =
				onnx_2(c, STX_OP_MAXIMUM, r->extent[d], onnx_number(c, 1, r->t));
		r->most[d] = r->ratio;
		r->samples[d] = onnx_number(c, (double)r->ratio, r->t);
	}
	if (r->ratio <= 0 && !c->err)
		count_samples(r, rois, scale, half_pixel);
	return !c->err;
}

/* One number a region, as [count, 1, 1, 1, 1]. */
static V a_region(struct roi *r, V v)
{
	int64_t s[5] = { r->count, 1, 1, 1, 1 };
	return onnx_rank(v) ? onnx_view(r->c, v, s, 5) : v;
}

/* i = 0.. of dimension `at` of [count, out y, out x, samples y, samples x]. */
static V steps(struct roi *r, int at, int64_t n)
{
	int64_t s[5] = { 1, 1, 1, 1, 1 };
	s[at] = n;
	return onnx_view(r->c, onnx_cast(r->c, onnx_arange(r->c, 0, n, 1, STX_I64), r->t), s, 5);
}

/* start + bin * p + (i + 0.5) * bin / samples */
static V positions(struct roi *r, int d)
{
	struct onnx *c = r->c;
	V bin = onnx_scale(c, a_region(r, r->extent[d]), 1.0 / (double)r->out[d]);
	V i = plus(c, steps(r, 3 + d, r->most[d]), 0.5);
	i = onnx_2(c, STX_OP_DIV, onnx_2(c, STX_OP_MUL, i, bin), a_region(r, r->samples[d]));
	V p = onnx_2(c, STX_OP_MUL, steps(r, 1 + d, r->out[d]), bin);
	return onnx_2(c, STX_OP_ADD, onnx_2(c, STX_OP_ADD, a_region(r, r->start[d]), p), i);
}

/* Not more than one element outside. */
static V near_image(struct roi *r, int d, V at)
{
	struct onnx *c = r->c;
	return onnx_2(c, STX_OP_LOGICAL_AND, onnx_2(c, STX_OP_GE, at, onnx_number(c, -1, r->t)),
		      onnx_2(c, STX_OP_LE, at, onnx_number(c, (double)r->size[d], r->t)));
}

/* Of the steps that the largest region takes, those of each region; NO_V: all. */
static V is_sample(struct roi *r)
{
	struct onnx *c = r->c;
	V in[2];
	if (r->ratio > 0)
		return NO_V;
	for (int d = 0; d < 2; d++)
		in[d] = onnx_2(c, STX_OP_LT, steps(r, 3 + d, r->most[d]),
			       a_region(r, r->samples[d]));
	return onnx_2(c, STX_OP_LOGICAL_AND, in[0], in[1]);
}

static V sample(struct onnx *c, V x, const V *at, int k, int mode, int padding)
{
	if (c->err)
		return NO_V;
	struct stx_arg a[4] = { stx_arg_tensor(x), stx_arg_tensors(c->g, at, (uint32_t)k),
				stx_arg_int(c->g, mode), stx_arg_int(c->g, padding) };
	return onnx_call(c, STX_OP_SAMPLE, a, 4);
}

/* [count, ...] beside the channels of [count, channels, ...]. */
static V beside_channels(struct onnx *c, V v)
{
	return onnx_unsqueeze(c, v, 1);
}

/* The largest of the four weighted corners, as the reference has it. */
static V weighted_corners(struct roi *r, V x, const V *at)
{
	struct onnx *c = r->c;
	V corner[2][2], weight[2][2], best = NO_V;
	for (int d = 0; d < 2; d++) {
		V last = onnx_number(c, (double)(r->size[d] - 1), r->t), p;
		p = onnx_2(c, STX_OP_MAXIMUM, at[d], onnx_number(c, 0, r->t));
		p = onnx_2(c, STX_OP_MINIMUM, p, last);
		corner[d][0] = onnx_1(c, STX_OP_FLOOR, p);
		corner[d][1] = onnx_2(c, STX_OP_MINIMUM, plus(c, corner[d][0], 1), last);
		weight[d][1] = onnx_2(c, STX_OP_SUB, p, corner[d][0]);
		weight[d][0] = plus(c, onnx_1(c, STX_OP_NEG, weight[d][1]), 1);
	}
	for (int i = 0; i < 4 && !c->err; i++) {
		V p[2] = { corner[0][i >> 1], corner[1][i & 1] };
		V w = onnx_2(c, STX_OP_MUL, weight[0][i >> 1], weight[1][i & 1]);
		V v = onnx_2(c, STX_OP_MUL, sample(c, x, p, 2, NEAREST, BORDER),
			     beside_channels(c, w));
		best = best.node ? onnx_2(c, STX_OP_MAXIMUM, best, v) : v;
	}
	return best;
}

static stx_err map_roi_align(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), rois = onnx_in(c, 1), batch = onnx_in(c, 2), at[2], there, taken, v;
	const char *mode = onnx_str(c, "mode", "avg");
	int max = !strcmp(mode, "max");
	int64_t over[2] = { 4, 5 };
	struct roi r = { .c = c };
	if (c->err || !read_roi(&r, x, rois))
		return c->err;
	if (!max && strcmp(mode, "avg"))
		return onnx_unsupported_attr(c, "mode", mode);
	if (r.most[0] < 1 || r.most[1] < 1) { /* no region takes a sample */
		int64_t s[4] = { r.count, onnx_dim(c, x, 1), r.out[0], r.out[1] };
		out[0] = onnx_full(c, s, 4, 0, onnx_dtype(x));
		return c->err;
	}
	x = onnx_index_select(c, x, 0, onnx_cast(c, batch, STX_I64));
	V y = onnx_cast(c, x, r.t);
	for (int d = 0; d < 2; d++)
		at[d] = positions(&r, d);
	there = onnx_2(c, STX_OP_LOGICAL_AND, near_image(&r, 0, at[0]), near_image(&r, 1, at[1]));
	v = max ? weighted_corners(&r, y, at) : sample(c, y, at, 2, BILINEAR, BORDER);
	v = onnx_where(c, beside_channels(c, there), v, onnx_number(c, 0, r.t));
	taken = is_sample(&r);
	if (taken.node)
		v = onnx_where(c, beside_channels(c, taken), v,
			       onnx_number(c, max ? -INFINITY : 0, r.t));
	v = onnx_reduce(c, max ? STX_OP_AMAX : STX_OP_SUM_DIM, v, over, 2, 0);
	V n = onnx_2(c, STX_OP_MUL, r.samples[0], r.samples[1]);
	n = onnx_rank(n) ? onnx_view(c, n, (int64_t[]){ r.count, 1, 1, 1 }, 4) : n;
	if (max) /* of no sample */
		v = onnx_where(c, onnx_2(c, STX_OP_GT, n, onnx_number(c, 0, r.t)), v,
			       onnx_number(c, 0, r.t));
	else
		v = onnx_2(c, STX_OP_DIV, v, onnx_2(c, STX_OP_MAXIMUM, n, onnx_number(c, 1, r.t)));
	out[0] = onnx_cast(c, v, onnx_dtype(x));
	return c->err;
}

/* ---- MaxRoiPool ---- */

/* Whether elements 0.. of dimension d lie in bin p of each region, [count, out, size]; the bins of
 * rounded corners, which may overlap. */
static V in_bins(struct onnx *c, V first, V last, int64_t count, int64_t out, int64_t size)
{
	int64_t region[3] = { count, 1, 1 }, bin[3] = { 1, out, 1 }, element[3] = { 1, 1, size };
	V one = onnx_number(c, 1, STX_F32), zero = onnx_number(c, 0, STX_F32);
	V length = onnx_2(c, STX_OP_MAXIMUM, plus(c, onnx_2(c, STX_OP_SUB, last, first), 1), one);
	V step = onnx_view(c, onnx_scale(c, length, 1.0 / (double)out), region, 3);
	V p = onnx_view(c, onnx_cast(c, onnx_arange(c, 0, out, 1, STX_I64), STX_F32), bin, 3);
	V i = onnx_view(c, onnx_cast(c, onnx_arange(c, 0, size, 1, STX_I64), STX_F32), element, 3);
	first = onnx_view(c, first, region, 3);
	V from = onnx_2(c, STX_OP_ADD, onnx_1(c, STX_OP_FLOOR, onnx_2(c, STX_OP_MUL, p, step)),
			first);
	V to = onnx_2(c, STX_OP_ADD,
		      onnx_1(c, STX_OP_CEIL, onnx_2(c, STX_OP_MUL, plus(c, p, 1), step)), first);
	return onnx_2(c, STX_OP_LOGICAL_AND,
		      onnx_2(c, STX_OP_GE, i, onnx_2(c, STX_OP_MAXIMUM, from, zero)),
		      onnx_2(c, STX_OP_LT, i, to));
}

static stx_err map_max_roi_pool(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), rois = onnx_in(c, 1), in[2] = { NO_V, NO_V };
	const int64_t *shape;
	double scale = onnx_float(c, "spatial_scale", 1);
	int n = onnx_ints(c, "pooled_shape", &shape);
	enum stx_dtype t = onnx_dtype(x);
	int64_t over[2] = { 4, 5 };
	if (c->err)
		return c->err;
	if (n != 2 || shape[0] < 1 || shape[1] < 1 || shape[0] > 65536 || shape[1] > 65536 ||
	    onnx_rank(x) != 4 || onnx_rank(rois) != 2 || onnx_dim(c, rois, 1) != 5)
		return onnx_fail(c, STX_E_INVALID,
				 "pooled_shape must be 2 sizes, X of rank 4, rois [regions, 5]");
	int64_t count = onnx_dim(c, rois, 0), channels = onnx_dim(c, x, 1);
	rois = onnx_cast(c, rois, STX_F32);
	for (int d = 0; d < 2 && !c->err; d++) {
		V corner[2];
		int64_t size = onnx_dim(c, x, 2 + d);
		if (size < 1)
			return onnx_fail(c, STX_E_INVALID, "dimension %d has no elements", 2 + d);
		for (int e = 0; e < 2; e++) { /* rounded half up */
			V v = onnx_slice(c, rois, 1, 2 - d + 2 * e, 3 - d + 2 * e, 1);
			v = onnx_scale(c, onnx_view(c, v, &count, 1), scale);
			corner[e] = onnx_1(c, STX_OP_FLOOR, plus(c, v, 0.5));
		}
		in[d] = in_bins(c, corner[0], corner[1], count, shape[d], size);
		int64_t s[6] = { count,        1,           d ? 1 : shape[0], d ? shape[1] : 1,
				 d ? 1 : size, d ? size : 1 };
		in[d] = onnx_view(c, in[d], s, 6);
	}
	V batch = onnx_view(c, onnx_slice(c, rois, 1, 0, 1, 1), &count, 1);
	x = onnx_index_select(c, x, 0, onnx_cast(c, batch, STX_I64));
	int64_t wide[6] = { count, channels, 1, 1, onnx_dim(c, x, 2), onnx_dim(c, x, 3) };
	V chosen = onnx_2(c, STX_OP_LOGICAL_AND, in[0], in[1]);
	V v = onnx_where(c, chosen, onnx_view(c, x, wide, 6), onnx_number(c, -INFINITY, t));
	v = onnx_reduce(c, STX_OP_AMAX, v, over, 2, 0);
	/* a bin without elements gives 0 */
	V any = onnx_reduce(c, STX_OP_ANY_DIM, chosen, over, 2, 0);
	out[0] = onnx_where(c, any, v, onnx_number(c, 0, t));
	return c->err;
}

const struct onnx_mapping onnx_sample_map[] = {
	{ "GridSample", map_grid_sample, 0 },
	{ "AffineGrid", map_affine_grid, 0 },
	{ "RoiAlign", map_roi_align, 0 },
	{ "MaxRoiPool", map_max_roi_pool, 0 },
	{ NULL, NULL, 0 },
};
