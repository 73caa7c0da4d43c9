/* onnx_resample.c: Resize and Upsample, one dimension after the other: positions and weights are
 * computed here in f64, as the reference implementation of ONNX does, and become the tables of
 * _resample. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

#include "scalar.h"

enum mode { NEAREST, LINEAR, CUBIC };
enum transform {
	HALF_PIXEL,
	HALF_PIXEL_SYMMETRIC,
	PYTORCH_HALF_PIXEL,
	ALIGN_CORNERS,
	ASYMMETRIC,
	TF_HALF_PIXEL_FOR_NN,
	TF_CROP_AND_RESIZE
};
enum rounding { ROUND_PREFER_FLOOR, ROUND_PREFER_CEIL, FLOOR, CEIL };

struct resize {
	struct onnx *c;
	enum mode mode;
	enum transform transform;
	enum rounding rounding;
	double a; /* of the cubic kernel */
	int exclude_outside, antialias, naxes;
	int axes[STX_MAX_DIMS];
	int64_t in[STX_MAX_DIMS], out[STX_MAX_DIMS]; /* by axis number */
	double scale[STX_MAX_DIMS], start[STX_MAX_DIMS], end[STX_MAX_DIMS];
};

struct table {
	int64_t taps, out;
	int32_t *index; /* [taps][out] */
	double *weight; /* NULL: 1 */
	uint8_t *there; /* [out]: 0 where the extrapolation value stands */
	int all_there;
};

static int one_of(struct onnx *c, const char *attr, const char *otherwise, const char *const *names,
		  int n)
{
	const char *s = onnx_str(c, attr, otherwise);
	for (int i = 0; i < n; i++)
		if (!strcmp(s, names[i]))
			return i;
	onnx_unsupported_attr(c, attr, s);
	return 0;
}

static void read_modes(struct resize *r)
{
	static const char *const modes[] = { "nearest", "linear", "cubic", "bilinear" },
				 *const transforms[] = { "half_pixel",
							 "half_pixel_symmetric",
							 "pytorch_half_pixel",
							 "align_corners",
							 "asymmetric",
							 "tf_half_pixel_for_nn",
							 "tf_crop_and_resize" },
				 *const roundings[] = { "round_prefer_floor", "round_prefer_ceil",
							"floor", "ceil" };
	struct onnx *c = r->c;
	int old = c->opset < 11 || !strcmp(c->n->op_type, "Upsample");
	int mode = one_of(c, "mode", "nearest", modes, 4);
	r->mode = mode == 3 ? LINEAR : (enum mode)mode;
	r->transform = ASYMMETRIC;
	r->rounding = FLOOR;
	r->a = -0.75;
	if (old)
		return;
	r->transform = (enum transform)one_of(c, "coordinate_transformation_mode", "half_pixel",
					      transforms, 7);
	r->rounding = (enum rounding)one_of(c, "nearest_mode", "round_prefer_floor", roundings, 4);
	r->a = onnx_float(c, "cubic_coeff_a", -0.75);
	r->exclude_outside = onnx_int(c, "exclude_outside", 0) != 0;
	r->antialias = onnx_int(c, "antialias", 0) != 0;
}

/* ---- positions and weights ---- */

/* Where element o of the result lies in the operand; the width of the result is not rounded. */
static double position(const struct resize *r, int d, int64_t o)
{
	double in = (double)r->in[d], scale = r->scale[d], width = scale * in, x = (double)o, at;
	switch (r->transform) {
	case ALIGN_CORNERS: return width == 1 ? 0 : x * (in - 1) / (width - 1);
	case ASYMMETRIC: return x / scale;
	case TF_HALF_PIXEL_FOR_NN: return (x + 0.5) / scale;
	case PYTORCH_HALF_PIXEL: return width == 1 ? -0.5 : (x + 0.5) / scale - 0.5;
	case HALF_PIXEL_SYMMETRIC:
		return in / 2 * (1 - (double)r->out[d] / width) + (x + 0.5) / scale - 0.5;
	case TF_CROP_AND_RESIZE:
		at = width == 1 ? (r->end[d] - r->start[d]) * (in - 1) / 2
				: x * (r->end[d] - r->start[d]) * (in - 1) / (width - 1);
		return at + r->start[d] * (in - 1);
	default: return (x + 0.5) / scale - 0.5;
	}
}

static double cubic(double a, double x)
{
	x = fabs(x);
	if (x <= 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Terms of one element: elements first.. of the operand, which may lie beyond its ends. */
static int64_t count_taps(const struct resize *r, int d)
{
	double scale = r->antialias && r->scale[d] < 1 ? r->scale[d] : 1;
	if (r->mode == NEAREST)
		return 1;
	return -2 * (int64_t)floor((r->mode == LINEAR ? -1 : -2) / scale);
}

static int64_t nearest(const struct resize *r, double at)
{
	double below = floor(at), part = at - below;
	switch (r->rounding) {
	case ROUND_PREFER_FLOOR: return (int64_t)below + (part > 0.5);
	case ROUND_PREFER_CEIL: return (int64_t)below + (part >= 0.5);
	case FLOOR: return (int64_t)below;
	default: return (int64_t)ceil(at);
	}
}

static int64_t inside(int64_t i, int64_t n)
{
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* Element o: `taps` neighbours of at, the lower half of them below it. */
static void weigh(const struct resize *r, int d, int64_t o, double at, struct table *t)
{
	double stretch = r->antialias && r->scale[d] < 1 ? r->scale[d] : 1, sum = 0;
	int64_t first = (int64_t)ceil(at) - t->taps / 2;
	for (int64_t k = 0; k < t->taps; k++) {
		int64_t i = first + k, out = i < 0 || i >= r->in[d];
		double x = ((double)i - at) * stretch, w;
		w = r->mode == CUBIC ? cubic(r->a, x) : fmax(1 - fabs(x), 0);
		if (r->exclude_outside && out)
			w = 0;
		t->index[k * t->out + o] =
			r->exclude_outside && out ? -1 : (int32_t)inside(i, r->in[d]);
		t->weight[k * t->out + o] = w;
		sum += w;
	}
	if (r->exclude_outside || r->antialias)
		for (int64_t k = 0; k < t->taps; k++)
			t->weight[k * t->out + o] /= sum;
}

static int make_table(struct resize *r, int d, struct table *t)
{
	*t = (struct table){ .taps = count_taps(r, d), .out = r->out[d], .all_there = 1 };
	int64_t n = t->taps * t->out;
	if (n > 1 << 20) {
		onnx_fail(r->c, STX_E_TOO_LARGE,
			  "%lld elements of %lld terms each along dimension %d: more than a table "
			  "may hold",
			  (long long)t->out, (long long)t->taps, d);
		return 0;
	}
	t->index = STX_NEW_ARRAY(r->c->arena, int32_t, (size_t)n + 1);
	t->weight = STX_NEW_ARRAY(r->c->arena, double, (size_t)n + 1);
	t->there = STX_NEW_ARRAY(r->c->arena, uint8_t, (size_t)t->out + 1);
	if (!t->index || !t->weight || !t->there) {
		onnx_fail(r->c, STX_E_TOO_LARGE, "over the memory budget");
		return 0;
	}
	for (int64_t o = 0; o < t->out; o++) {
		double at = position(r, d, o), far = 4.0 * (double)r->in[d] + 8;
		t->there[o] = r->transform != TF_CROP_AND_RESIZE ||
			      (at >= 0 && at <= (double)(r->in[d] - 1));
		t->all_there &= t->there[o];
		at = at < -far ? -far : at > far ? far : at == at ? at : 0;
		if (r->mode == NEAREST)
			t->index[o] = (int32_t)inside(nearest(r, at), r->in[d]);
		else
			weigh(r, d, o, at, t);
	}
	return 1;
}

/* ---- sizes ---- */

static void known_scales(struct resize *r, V v)
{
	double s[STX_MAX_DIMS];
	int n = onnx_known_floats(r->c, v, "the scales", s, STX_MAX_DIMS);
	if (!r->c->err && n != r->naxes)
		onnx_fail(r->c, STX_E_INVALID, "%d scales for %d axes", n, r->naxes);
	for (int i = 0; i < r->naxes && !r->c->err; i++)
		r->scale[r->axes[i]] = s[i];
}

/* Sizes from scales: the product is an f32. */
static void size_by_scale(struct resize *r, int d)
{
	float width = (float)r->in[d] * (float)r->scale[d];
	if (!(r->scale[d] > 0) || !(width < 0x1p31f)) {
		onnx_fail(r->c, STX_E_INVALID, "scale %g of dimension %d", r->scale[d], d);
		return;
	}
	r->out[d] = (int64_t)floorf(width);
}

static void known_sizes(struct resize *r, V v)
{
	static const char *const policies[] = { "stretch", "not_larger", "not_smaller" };
	int policy = one_of(r->c, "keep_aspect_ratio_policy", "stretch", policies, 3);
	int64_t sizes[STX_MAX_DIMS];
	double common = 0;
	int n = onnx_known_ints(r->c, v, "the sizes", sizes, STX_MAX_DIMS);
	if (!r->c->err && n != r->naxes)
		onnx_fail(r->c, STX_E_INVALID, "%d sizes for %d axes", n, r->naxes);
	for (int i = 0; i < r->naxes && !r->c->err; i++) {
		int d = r->axes[i];
		if (sizes[i] < 0 || sizes[i] > INT32_MAX || r->in[d] < 1) {
			onnx_fail(r->c, STX_E_INVALID, "size %lld for dimension %d of %lld",
				  (long long)sizes[i], d, (long long)r->in[d]);
			return;
		}
		r->out[d] = sizes[i];
		r->scale[d] = (double)sizes[i] / (double)r->in[d];
		if (i == 0 || (policy == 1 ? r->scale[d] < common : r->scale[d] > common))
			common = r->scale[d];
	}
	for (int i = 0; i < r->naxes && !r->c->err && policy; i++) {
		int d = r->axes[i];
		r->scale[d] = common;
		r->out[d] = (int64_t)(common * (double)r->in[d] + 0.5);
	}
}

static void read_axes(struct resize *r, V x)
{
	const int64_t *v;
	int n = onnx_ints(r->c, "axes", &v), seen = 0;
	r->naxes = n < 0 ? onnx_rank(x) : n;
	if (r->naxes > onnx_rank(x)) {
		onnx_fail(r->c, STX_E_INVALID, "attribute axes has %d numbers", n);
		r->naxes = 0;
	}
	for (int i = 0; i < r->naxes && !r->c->err; i++) {
		r->axes[i] = n < 0 ? i : onnx_axis(r->c, v[i], onnx_rank(x));
		if (seen >> r->axes[i] & 1)
			onnx_fail(r->c, STX_E_INVALID, "attribute axes names dimension %d twice",
				  r->axes[i]);
		seen |= 1 << r->axes[i];
	}
	for (int i = 0; i < onnx_rank(x) && !r->c->err; i++) {
		r->in[i] = r->out[i] = onnx_dim(r->c, x, i);
		r->scale[i] = 1;
	}
}

static void read_roi(struct resize *r)
{
	double v[2 * STX_MAX_DIMS];
	if (r->transform != TF_CROP_AND_RESIZE)
		return;
	int n = onnx_known_floats(r->c, onnx_in(r->c, 1), "the region", v, 2 * STX_MAX_DIMS);
	if (!r->c->err && n != 2 * r->naxes)
		onnx_fail(r->c, STX_E_INVALID, "%d numbers for the region of %d axes", n, r->naxes);
	for (int i = 0; i < r->naxes && !r->c->err; i++) {
		r->start[r->axes[i]] = v[i];
		r->end[r->axes[i]] = v[r->naxes + i];
	}
}

/* ---- the operators ---- */

static V weights(struct resize *r, const struct table *tab, enum stx_dtype t)
{
	size_t n = (size_t)(tab->taps * tab->out), width = (size_t)stx_dtype_bytes(t);
	char *bytes = stx_arena_alloc(r->c->arena, n * width + 1);
	if (!bytes) {
		onnx_fail(r->c, STX_E_TOO_LARGE, "over the memory budget");
		return NO_V;
	}
	for (size_t i = 0; i < n; i++)
		stx_scalar_store(t, bytes + i * width, (union stx_scalar){ .f = tab->weight[i] });
	return onnx_constant(r->c, NULL, t, 2, (int64_t[]){ tab->taps, tab->out }, bytes,
			     n * width);
}

static V resample(struct resize *r, V x, int d, const struct table *t)
{
	V index = onnx_constant(r->c, NULL, STX_I32, 2, (int64_t[]){ t->taps, t->out }, t->index,
				(size_t)(t->taps * t->out) * 4);
	V w = r->mode == NEAREST ? NO_V : weights(r, t, onnx_dtype(x));
	if (r->c->err)
		return NO_V;
	struct stx_arg a[4] = { stx_arg_tensor(x), stx_arg_int(r->c->g, d), stx_arg_tensor(index),
				w.node ? stx_arg_tensor(w) : stx_arg_none() };
	return onnx_call(r->c, STX_OP_RESAMPLE, a, 4);
}

/* `there` along dimension d of a tensor of this rank, and with what is known so far. */
static V and_there(struct resize *r, V all, int d, const struct table *t, int rank)
{
	int64_t sizes[STX_MAX_DIMS];
	for (int i = 0; i < rank; i++)
		sizes[i] = i == d ? t->out : 1;
	V v = onnx_constant(r->c, NULL, STX_BOOL, rank, sizes, t->there, (size_t)t->out);
	return all.node ? onnx_2(r->c, STX_OP_LOGICAL_AND, all, v) : v;
}

/* An interpolated v as integers of type t: the nearest, or the end of t's range (conversions to 32
 * and 64 bits saturate by themselves). */
static V as_integers(struct onnx *c, V v, enum stx_dtype t)
{
	int bits = 8 * stx_dtype_bytes(t), is_signed = stx_dtype_kind(t) == STX_KIND_INT;
	v = onnx_1(c, STX_OP_ROUND, v);
	if (bits < 32) {
		double top = ldexp(1, bits - is_signed);
		v = onnx_2(c, STX_OP_MAXIMUM, v, onnx_number(c, is_signed ? -top : 0, STX_F64));
		v = onnx_2(c, STX_OP_MINIMUM, v, onnx_number(c, top - 1, STX_F64));
	}
	return onnx_cast(c, v, t);
}

static V resize(struct resize *r, V x)
{
	struct onnx *c = r->c;
	enum stx_dtype t = onnx_dtype(x), work = r->mode == NEAREST  ? (t == STX_BOOL ? STX_U8 : t)
						 : !onnx_is_float(x) ? STX_F64
						 : stx_dtype_bytes(t) < 4 ? STX_F32
									  : t;
	V y = onnx_cast(c, x, work), there = NO_V;
	for (int d = 0; d < onnx_rank(x) && !c->err; d++) {
		struct table tab;
		if (r->scale[d] == 1 && r->out[d] == r->in[d] && r->transform != TF_CROP_AND_RESIZE)
			continue;
		int named = 0;
		for (int i = 0; i < r->naxes; i++)
			named |= r->axes[i] == d;
		if (!named || !make_table(r, d, &tab))
			continue;
		y = resample(r, y, d, &tab);
		if (!tab.all_there)
			there = and_there(r, there, d, &tab, onnx_rank(x));
	}
	if (there.node && !c->err)
		y = onnx_where(c, there, y,
			       onnx_number(c, onnx_float(c, "extrapolation_value", 0), work));
	if (r->mode != NEAREST && !onnx_is_float(x) && t != STX_BOOL)
		return as_integers(c, y, t);
	return onnx_cast(c, y, t);
}

static stx_err map_resize(struct onnx *c, V *out)
{
	struct resize r = { .c = c };
	V x = onnx_in(c, 0);
	int old = c->opset < 11, by_size = !old && onnx_has(c, 3);
	read_modes(&r);
	read_axes(&r, x);
	if (c->err)
		return c->err;
	/* an empty tensor of scales means none */
	if (!by_size && onnx_has(c, old ? 1 : 2))
		known_scales(&r, onnx_in(c, old ? 1 : 2));
	else if (by_size)
		known_sizes(&r, onnx_in(c, 3));
	else
		return onnx_fail(c, STX_E_INVALID, "neither scales nor sizes are given");
	for (int i = 0; i < r.naxes && !c->err && !by_size; i++)
		size_by_scale(&r, r.axes[i]);
	if (!old)
		read_roi(&r);
	for (int i = 0; i < onnx_rank(x) && !c->err; i++)
		if (r.in[i] < 1 && r.out[i] > 0)
			return onnx_fail(c, STX_E_INVALID, "dimension %d has no elements", i);
	out[0] = c->err ? NO_V : resize(&r, x);
	return c->err;
}

static stx_err map_upsample(struct onnx *c, V *out)
{
	struct resize r = { .c = c };
	V x = onnx_in(c, 0);
	const Onnx__AttributeProto *a = onnx_attr(c, "scales");
	read_modes(&r);
	read_axes(&r, x);
	if (c->err)
		return c->err;
	if (c->opset >= 9) {
		known_scales(&r, onnx_in(c, 1));
	} else if (c->opset < 7) {
		if (r.naxes != 4)
			return onnx_fail(c, STX_E_INVALID, "the input must have 4 dimensions");
		r.scale[2] = onnx_float(c, "height_scale", 0);
		r.scale[3] = onnx_float(c, "width_scale", 0);
	} else {
		if (!a || a->n_floats != (size_t)r.naxes)
			return onnx_fail(c, STX_E_INVALID,
					 "attribute scales does not have %d numbers", r.naxes);
		for (int i = 0; i < r.naxes; i++)
			r.scale[i] = (double)a->floats[i];
	}
	for (int i = 0; i < r.naxes && !c->err; i++)
		size_by_scale(&r, i);
	for (int i = 0; i < onnx_rank(x) && !c->err; i++)
		if (r.in[i] < 1 && r.out[i] > 0)
			return onnx_fail(c, STX_E_INVALID, "dimension %d has no elements", i);
	out[0] = c->err ? NO_V : resize(&r, x);
	return c->err;
}

const struct onnx_mapping onnx_resample_map[] = {
	{ "Resize", map_resize, 0 },
	{ "Upsample", map_upsample, 0 },
	{ NULL, NULL, 0 },
};
