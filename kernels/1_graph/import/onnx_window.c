/* onnx_window.c: convolution, pooling and what else slides a window. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

#include "fold.h"

#define SPATIAL STX_MAX_DIMS

struct window { /* over the dimensions from 2 on */
	int k;
	int64_t in[SPATIAL], out[SPATIAL], kernel[SPATIAL], stride[SPATIAL], dilation[SPATIAL];
	int64_t lo[SPATIAL], hi[SPATIAL]; /* padding */
};

static int64_t reach(const struct window *w, int i)
{
	return w->dilation[i] * (w->kernel[i] - 1) + 1;
}

/* SAME_UPPER and SAME_LOWER: as many outputs as strides fit; the odd one out goes behind or in
 * front. */
static void same_pads(struct window *w, int i, int upper)
{
	int64_t out = (w->in[i] + w->stride[i] - 1) / w->stride[i];
	int64_t total = (out - 1) * w->stride[i] + reach(w, i) - w->in[i];
	total = total < 0 ? 0 : total;
	w->lo[i] = upper ? total / 2 : total - total / 2;
	w->hi[i] = total - w->lo[i];
}

/* kernel: sizes given by a weight, or NULL for the attribute. */
static int read_window(struct onnx *c, V x, const int64_t *kernel, struct window *w)
{
	const char *mode = onnx_str(c, "auto_pad", "NOTSET");
	int64_t pads[2 * SPATIAL];
	memset(w, 0, sizeof *w);
	w->k = onnx_rank(x) - 2;
	if (c->err || w->k < 1) {
		onnx_fail(c, STX_E_INVALID, "the input needs at least 3 dimensions");
		return 0;
	}
	if (kernel) {
		memcpy(w->kernel, kernel, (size_t)w->k * sizeof *kernel);
		onnx_check_kernel_shape(c, w->k, kernel);
	} else {
		onnx_int_list(c, "kernel_shape", w->k, 1, 0, w->kernel);
	}
	onnx_int_list(c, "strides", w->k, 1, 1, w->stride);
	onnx_int_list(c, "dilations", w->k, 1, 1, w->dilation);
	onnx_int_list(c, "pads", 2 * w->k, 0, 0, pads);
	for (int i = 0; i < w->k && !c->err; i++) {
		w->in[i] = onnx_dim(c, x, 2 + i);
		w->lo[i] = pads[i];
		w->hi[i] = pads[w->k + i];
		if (!strcmp(mode, "SAME_UPPER") || !strcmp(mode, "SAME_LOWER"))
			same_pads(w, i, mode[5] == 'U');
		else if (!strcmp(mode, "VALID"))
			w->lo[i] = w->hi[i] = 0;
		else if (strcmp(mode, "NOTSET"))
			onnx_unsupported_attr(c, "auto_pad", mode);
	}
	return !c->err;
}

/* PyTorch's arguments can say it: at most 3 dimensions, the same padding on both sides. */
static int is_plain(const struct window *w, int half)
{
	int ok = w->k <= 3;
	for (int i = 0; i < w->k; i++)
		ok &= w->lo[i] == w->hi[i] && w->lo[i] >= 0 &&
		      (!half || w->lo[i] <= w->kernel[i] / 2);
	return ok;
}

static struct stx_arg ints(struct onnx *c, const int64_t *v, int k)
{
	return stx_arg_ints(c->g, v, (uint32_t)k);
}

static V pad_spatial(struct onnx *c, V x, int k, const int64_t *lo, const int64_t *hi,
		     struct stx_arg value)
{
	int64_t pads[2 * SPATIAL];
	int any = 0;
	if (c->err)
		return NO_V;
	for (int i = 0; i < k; i++) {
		pads[2 * (k - 1 - i)] = lo[i];
		pads[2 * (k - 1 - i) + 1] = hi[i];
		any |= lo[i] != 0 || hi[i] != 0;
	}
	if (!any)
		return x;
	struct stx_arg a[3] = { stx_arg_tensor(x), ints(c, pads, 2 * k), value };
	return onnx_call(c, STX_OP_PAD, a, 3);
}

static struct stx_arg zero_of(V x)
{
	return onnx_is_float(x) ? stx_arg_scalar_f(0) : stx_arg_scalar_i(0);
}

/* ---- convolution ---- */

static V convolution(struct onnx *c, V x, V wt, V bias, const struct window *w, const int64_t *pad,
		     const int64_t *output_padding, int64_t groups)
{
	if (c->err)
		return NO_V;
	if (w->k > 3) {
		onnx_fail(c, STX_E_UNSUPPORTED, "operator %s: %d spatial dimensions", c->n->op_type,
			  w->k);
		return NO_V;
	}
	struct stx_arg a[9] = { stx_arg_tensor(x),
				stx_arg_tensor(wt),
				bias.node ? stx_arg_tensor(bias) : stx_arg_none(),
				ints(c, w->stride, w->k),
				ints(c, pad, w->k),
				ints(c, w->dilation, w->k),
				stx_arg_bool(output_padding != NULL),
				ints(c, output_padding ? output_padding : pad,
				     output_padding ? w->k : 0),
				stx_arg_int(c->g, groups) };
	return onnx_call(c, STX_OP_CONVOLUTION, a, 9);
}

/* Conv of x and wt with the attributes of the node at hand. */
static V conv(struct onnx *c, V x, V wt, V bias)
{
	static const int64_t none[SPATIAL];
	int64_t kernel[SPATIAL] = { 0 };
	struct window w;
	if (c->err)
		return NO_V;
	if (onnx_rank(wt) != onnx_rank(x)) {
		onnx_fail(c, STX_E_INVALID, "input and weight have ranks %d and %d", onnx_rank(x),
			  onnx_rank(wt));
		return NO_V;
	}
	for (int i = 2; i < onnx_rank(wt); i++)
		kernel[i - 2] = onnx_dim(c, wt, i);
	if (!read_window(c, x, kernel, &w))
		return NO_V;
	int plain = is_plain(&w, 0);
	if (!plain)
		x = pad_spatial(c, x, w.k, w.lo, w.hi, zero_of(x));
	return convolution(c, x, wt, bias, &w, plain ? w.lo : none, NULL, onnx_int(c, "group", 1));
}

static stx_err map_conv(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), wt = onnx_in(c, 1), bias = onnx_opt(c, 2);
	out[0] = conv(c, x, wt, bias);
	return c->err;
}

/* The padding that gives the wanted output shape, where one is given. */
static void transposed_pads(struct onnx *c, struct window *w, const int64_t *extra)
{
	const char *mode = onnx_str(c, "auto_pad", "NOTSET");
	const int64_t *shape;
	int have = onnx_ints(c, "output_shape", &shape), same = !strncmp(mode, "SAME", 4);
	if (have >= 0 && have != w->k && have != w->k + 2)
		onnx_fail(c, STX_E_INVALID, "attribute output_shape has %d numbers", have);
	for (int i = 0; i < w->k && !c->err && (same || have >= 0); i++) {
		int64_t want = have >= 0 ? shape[have - w->k + i] : w->in[i] * w->stride[i];
		int64_t total = w->stride[i] * (w->in[i] - 1) + extra[i] + reach(w, i) - want;
		if (want < 0 || want > INT32_MAX) {
			onnx_fail(c, STX_E_INVALID, "attribute output_shape is out of range");
			return;
		}
		int64_t half = (total - (total < 0 && total % 2)) / 2; /* rounded down */
		w->lo[i] = strcmp(mode, "SAME_UPPER") ? total - half : half;
		w->hi[i] = total - w->lo[i];
	}
}

static V per_channel(struct onnx *c, V v, int rank)
{
	int64_t s[STX_MAX_DIMS];
	if (c->err || onnx_rank(v) == 0)
		return v;
	s[0] = onnx_dim(c, v, 0);
	for (int i = 1; i < rank - 1; i++)
		s[i] = 1;
	return onnx_view(c, v, s, rank - 1);
}

static stx_err map_conv_transpose(struct onnx *c, V *out)
{
	static const int64_t none[SPATIAL];
	V x = onnx_in(c, 0), wt = onnx_in(c, 1), bias = onnx_opt(c, 2);
	int64_t kernel[SPATIAL] = { 0 }, extra[SPATIAL], lo[SPATIAL], hi[SPATIAL],
		groups = onnx_int(c, "group", 1);
	struct window w;
	if (c->err)
		return c->err;
	if (onnx_rank(wt) != onnx_rank(x))
		return onnx_fail(c, STX_E_INVALID, "input and weight have ranks %d and %d",
				 onnx_rank(x), onnx_rank(wt));
	for (int i = 2; i < onnx_rank(wt); i++)
		kernel[i - 2] = onnx_dim(c, wt, i);
	if (!read_window(c, x, kernel, &w))
		return c->err;
	onnx_int_list(c, "output_padding", w.k, 0, 0, extra);
	transposed_pads(c, &w, extra);
	int plain = is_plain(&w, 0);
	for (int i = 0; i < w.k && !c->err; i++)
		plain &= extra[i] < w.stride[i] || extra[i] < w.dilation[i];
	if (plain) {
		out[0] = convolution(c, x, wt, bias, &w, w.lo, extra, groups);
		return c->err;
	}
	for (int i = 0; i < w.k; i++) { /* the whole product, then cut or widened, then the bias */
		lo[i] = -w.lo[i];
		hi[i] = extra[i] - w.hi[i];
	}
	V y = convolution(c, x, wt, NO_V, &w, none, none, groups);
	y = pad_spatial(c, y, w.k, lo, hi, zero_of(x));
	out[0] = bias.node ? onnx_2(c, STX_OP_ADD, y, per_channel(c, bias, onnx_rank(x))) : y;
	return c->err;
}

/* ---- pooling ---- */

/* Number of windows, with ceil_mode a partial one that starts in the input or the padding before;
 * then hi becomes what makes exactly these fit. Returns the padding behind that was asked for. */
static void count_windows(struct onnx *c, struct window *w, int64_t *asked)
{
	int ceil_mode = onnx_int(c, "ceil_mode", 0) != 0;
	for (int i = 0; i < w->k && !c->err; i++) {
		int64_t room = w->in[i] + w->lo[i] + w->hi[i] - reach(w, i), s = w->stride[i];
		if (ceil_mode)
			room += s - 1;
		w->out[i] = room < 0 ? 0 : room / s + 1;
		if (ceil_mode && (w->out[i] - 1) * s >= w->in[i] + w->lo[i])
			w->out[i]--;
		if (w->out[i] < 1 || w->in[i] < 1)
			onnx_fail(c, STX_E_INVALID, "no window fits dimension %d", 2 + i);
		asked[i] = w->hi[i];
		w->hi[i] = (w->out[i] - 1) * s + reach(w, i) - w->in[i] - w->lo[i];
	}
}

/* x [N,C,in..] padded with fill as [N,C,out..,kernel..]. */
static V windows(struct onnx *c, V x, const struct window *w, struct stx_arg fill)
{
	int rank = onnx_rank(x);
	x = pad_spatial(c, x, w->k, w->lo, w->hi, fill);
	if (!c->err && rank + w->k > STX_MAX_DIMS)
		onnx_fail(c, STX_E_TOO_LARGE, "too many dimensions");
	for (int i = 0; i < w->k && !c->err; i++) {
		struct stx_arg a[4] = { stx_arg_tensor(x), stx_arg_int(c->g, 2 + i),
					stx_arg_int(c->g, reach(w, i)),
					stx_arg_int(c->g, w->stride[i]) };
		x = onnx_call(c, STX_OP_UNFOLD, a, 4);
		if (w->dilation[i] > 1)
			x = onnx_slice(c, x, rank + i, 0, reach(w, i), w->dilation[i]);
	}
	return x;
}

static V sum_windows(struct onnx *c, V x, const struct window *w)
{
	int64_t dims[SPATIAL];
	int rank = onnx_rank(x);
	V v = windows(c, x, w, stx_arg_scalar_f(0));
	for (int i = 0; i < w->k; i++)
		dims[i] = rank + i;
	return onnx_reduce(c, STX_OP_SUM_DIM, v, dims, w->k, 0);
}

static const enum stx_op max_pools[] = { STX_OP_MAX_POOL1D, STX_OP_MAX_POOL2D, STX_OP_MAX_POOL3D };

static V times(struct onnx *c, V a, int64_t k)
{
	return onnx_2(c, STX_OP_MUL, a, onnx_number(c, (double)k, STX_I64));
}

/* Positions in the padded image as ONNX's flat index of the whole input. */
static V onnx_indices(struct onnx *c, V flat, V x, const struct window *w, const int64_t *lo,
		      const int64_t *padded)
{
	int64_t stride[SPATIAL] = { 0 }, area = 1, nc[SPATIAL + 2], n = onnx_dim(c, x, 0),
		ch = onnx_dim(c, x, 1);
	int column = onnx_int(c, "storage_order", 0) != 0;
	for (int i = 0; i < w->k; i++) {
		int d = column ? i : w->k - 1 - i;
		stride[d] = area;
		area = onnx_times(area, w->in[d]);
		nc[2 + i] = 1;
	}
	nc[0] = n;
	nc[1] = ch;
	V sum = onnx_view(c, onnx_arange(c, 0, n * ch, 1, STX_I64), nc, w->k + 2);
	sum = times(c, sum, area);
	for (int i = w->k - 1; i >= 0 && !c->err; i--) {
		V size = onnx_number(c, (double)padded[i], STX_I64), at = flat;
		struct stx_arg div[3] = { stx_arg_tensor(flat), stx_arg_tensor(size),
					  stx_arg_str(c->g, "floor") };
		if (i) {
			at = onnx_2(c, STX_OP_REMAINDER, flat, size);
			flat = onnx_call(c, STX_OP_DIV_MODE, div, 3);
		}
		if (lo[i]) /* padding is chosen only where all is lowest */
			at = onnx_2(
				c, STX_OP_MAXIMUM,
				onnx_2(c, STX_OP_SUB, at, onnx_number(c, (double)lo[i], STX_I64)),
				onnx_number(c, 0, STX_I64));
		sum = onnx_2(c, STX_OP_ADD, sum, times(c, at, stride[i]));
	}
	return sum;
}

static stx_err map_max_pool(struct onnx *c, V *out)
{
	static const int64_t none[SPATIAL];
	V x = onnx_in(c, 0), y = x;
	int64_t asked[SPATIAL], padded[SPATIAL] = { 0 };
	enum stx_dtype t = onnx_dtype(x);
	struct window w;
	if (!read_window(c, x, NULL, &w))
		return c->err;
	if (w.k > 3)
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator MaxPool: %d spatial dimensions",
				 w.k);
	int plain = is_plain(&w, 1) && !onnx_int(c, "ceil_mode", 0);
	if (!plain) {
		int bits = 8 * stx_dtype_bytes(t);
		struct stx_arg least = onnx_is_float(x)
					       ? stx_arg_scalar_f(-INFINITY)
					       : stx_arg_scalar_i(stx_dtype_kind(t) == STX_KIND_INT
									  ? INT64_MIN >> (64 - bits)
									  : 0);
		count_windows(c, &w, asked);
		y = pad_spatial(c, x, w.k, w.lo, w.hi, least);
	}
	for (int i = 0; i < w.k; i++)
		padded[i] = plain ? w.in[i] : w.in[i] + w.lo[i] + w.hi[i];
	if (c->err)
		return c->err;
	struct stx_arg a[6] = { stx_arg_tensor(y),        ints(c, w.kernel, w.k),
				ints(c, w.stride, w.k),   ints(c, plain ? w.lo : none, w.k),
				ints(c, w.dilation, w.k), stx_arg_bool(0) };
	out[0] = onnx_call(c, max_pools[w.k - 1], a, 6);
	if (c->n->n_output > 1 && !c->err)
		out[1] = onnx_indices(c, stx_val(out[0].node, 1), x, &w, plain ? none : w.lo,
				      padded);
	return c->err;
}

/* Elements each window counts along dimension i, as constants that broadcast over [out..]. */
static V counts(struct onnx *c, const struct window *w, int i, const int64_t *asked, int include,
		enum stx_dtype t)
{
	int64_t sizes[SPATIAL], n = w->out[i];
	if (c->err || n > STX_FOLD_MAX_ELEMS) {
		onnx_fail(c, STX_E_UNSUPPORTED, "%lld windows in a row", (long long)n);
		return NO_V;
	}
	int64_t *v = STX_NEW_ARRAY(c->arena, int64_t, (size_t)n + 1);
	if (!v) {
		onnx_fail(c, STX_E_TOO_LARGE, "over the memory budget");
		return NO_V;
	}
	for (int64_t o = 0; o < n; o++)
		for (int64_t k = 0; k < w->kernel[i]; k++) {
			int64_t at = o * w->stride[i] - w->lo[i] + k * w->dilation[i];
			v[o] += include ? at < w->in[i] + asked[i] : at >= 0 && at < w->in[i];
		}
	for (int d = 0; d < w->k; d++)
		sizes[d] = d == i ? n : 1;
	return onnx_view(c, onnx_cast(c, onnx_ints_const(c, v, (int)n), t), sizes, w->k);
}

static stx_err map_average_pool(struct onnx *c, V *out)
{
	static const enum stx_op pools[] = { STX_OP_AVG_POOL1D, STX_OP_AVG_POOL2D,
					     STX_OP_AVG_POOL3D };
	V x = onnx_in(c, 0);
	int64_t asked[SPATIAL];
	int include = onnx_int(c, "count_include_pad", 0) != 0,
	    ceil_mode = onnx_int(c, "ceil_mode", 0) != 0;
	struct window w;
	if (!read_window(c, x, NULL, &w))
		return c->err;
	int plain = is_plain(&w, 1);
	for (int i = 0; i < w.k; i++)
		plain &= w.dilation[i] == 1;
	if (plain) {
		struct stx_arg a[6] = { stx_arg_tensor(x),       ints(c, w.kernel, w.k),
					ints(c, w.stride, w.k),  ints(c, w.lo, w.k),
					stx_arg_bool(ceil_mode), stx_arg_bool(include) };
		out[0] = onnx_call(c, pools[w.k - 1], a, 6);
		return c->err;
	}
	enum stx_dtype t = onnx_dtype(x), wide = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	count_windows(c, &w, asked);
	V sum = sum_windows(c, onnx_cast(c, x, wide), &w),
	  n = counts(c, &w, 0, asked, include, wide);
	for (int i = 1; i < w.k; i++)
		n = onnx_2(c, STX_OP_MUL, n, counts(c, &w, i, asked, include, wide));
	out[0] = onnx_cast(c, onnx_2(c, STX_OP_DIV, sum, n), t);
	return c->err;
}

/* (sum |x|^p)^(1/p) over each window or, global, over each channel. */
static stx_err map_lp_pool(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	double p = c->opset < 2 ? onnx_float(c, "p", 2) : (double)onnx_int(c, "p", 2);
	enum stx_dtype t = onnx_dtype(x), wide = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	int64_t asked[SPATIAL], dims[STX_MAX_DIMS];
	int global = onnx_arg(c), rank = onnx_rank(x);
	struct window w;
	if (!global && read_window(c, x, NULL, &w))
		count_windows(c, &w, asked);
	if (!c->err && rank < 3)
		return onnx_fail(c, STX_E_INVALID, "the input must have rank 3 or more");
	for (int i = 2; i < rank; i++)
		dims[i - 2] = i;
	V v = onnx_1(c, STX_OP_ABS, onnx_cast(c, x, wide));
	if (p != 1)
		v = p == 2 ? onnx_2(c, STX_OP_MUL, v, v)
			   : onnx_2(c, STX_OP_POW, v, onnx_number(c, p, wide));
	v = c->err   ? NO_V
	    : global ? onnx_reduce(c, STX_OP_SUM_DIM, v, dims, rank - 2, 1)
		     : sum_windows(c, v, &w);
	if (p != 1)
		v = p == 2 ? onnx_1(c, STX_OP_SQRT, v)
			   : onnx_2(c, STX_OP_POW, v, onnx_number(c, 1 / p, wide));
	out[0] = onnx_cast(c, v, t);
	return c->err;
}

/* x [N,C,in..] at the flat positions that MaxPool gave, zeros elsewhere. They are positions in what
 * kernel, strides and pads make of the input; output_shape, where it is given, is that with zeros
 * behind. */
static stx_err map_max_unpool(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), index = onnx_in(c, 1), shape = onnx_opt(c, 2);
	int64_t s[STX_MAX_DIMS], is[STX_MAX_DIMS], want[STX_MAX_DIMS], lo[SPATIAL] = { 0 },
								       hi[SPATIAL] = { 0 }, n;
	struct window w;
	int rank = onnx_sizes(c, x, s), have = rank;
	if (!read_window(c, x, NULL, &w))
		return c->err;
	if (onnx_sizes(c, index, is) != rank || memcmp(s, is, sizeof s) != 0)
		return onnx_fail(c, STX_E_INVALID, "the indices must have the input's sizes");
	n = onnx_product(s, 0, rank);
	for (int i = 0; i < w.k; i++)
		s[2 + i] = (w.in[i] - 1) * w.stride[i] + w.kernel[i] - w.lo[i] - w.hi[i];
	if (shape.node)
		have = onnx_known_ints(c, shape, "the output's shape", want, STX_MAX_DIMS);
	for (int i = 0; i < rank && have == rank && !c->err; i++) {
		int64_t more = shape.node ? want[i] - s[i] : 0;
		if (s[i] < 0 || (i < 2 && more) || more > INT32_MAX || more < -s[i])
			onnx_fail(c, STX_E_INVALID, "dimension %d of the output is out of range",
				  i);
		else if (i >= 2)
			hi[i - 2] = more;
	}
	if (!c->err && have != rank)
		return onnx_fail(c, STX_E_INVALID, "output_shape has %d numbers, not %d", have,
				 rank);
	if (c->err)
		return c->err;
	int64_t total = onnx_product(s, 0, rank);
	struct stx_arg a[4] = { stx_arg_tensor(onnx_full(c, &total, 1, 0, onnx_dtype(x))),
				stx_arg_int(c->g, 0), stx_arg_tensor(onnx_view(c, index, &n, 1)),
				stx_arg_tensor(onnx_view(c, x, &n, 1)) };
	V y = onnx_view(c, onnx_call(c, STX_OP_SCATTER, a, 4), s, rank);
	out[0] = pad_spatial(c, y, w.k, lo, hi, zero_of(x));
	return c->err;
}

/* x / (bias + alpha/size * sum of squares over neighbouring channels)^beta */
static stx_err map_lrn(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t size = onnx_int(c, "size", 0), last;
	int rank = onnx_rank(x);
	enum stx_dtype t = onnx_dtype(x), wide = stx_dtype_bytes(t) < 4 ? STX_F32 : t;
	if (c->err)
		return c->err;
	if (size < 1 || size > INT32_MAX || rank < 2 || rank == STX_MAX_DIMS)
		return onnx_fail(c, STX_E_INVALID, "size %lld, rank %d", (long long)size, rank);
	int64_t pads[2 * STX_MAX_DIMS] = { 0 };
	pads[2 * (rank - 2)] = (size - 1) / 2;
	pads[2 * (rank - 2) + 1] = size / 2;
	V v = onnx_cast(c, x, wide), sq = onnx_2(c, STX_OP_MUL, v, v);
	if (c->err)
		return c->err;
	struct stx_arg p[3] = { stx_arg_tensor(sq), ints(c, pads, 2 * (rank - 1)),
				stx_arg_scalar_f(0) };
	sq = onnx_call(c, STX_OP_PAD, p, 3);
	struct stx_arg u[4] = { stx_arg_tensor(sq), stx_arg_int(c->g, 1), stx_arg_int(c->g, size),
				stx_arg_int(c->g, 1) };
	sq = onnx_call(c, STX_OP_UNFOLD, u, 4);
	last = rank;
	V sum = onnx_reduce(c, STX_OP_SUM_DIM, sq, &last, 1, 0);
	sum = onnx_shift(c, onnx_scale(c, sum, onnx_float(c, "alpha", 1e-4f) / (double)size),
			 onnx_float(c, "bias", 1));
	V d = onnx_2(c, STX_OP_POW, sum, onnx_number(c, onnx_float(c, "beta", 0.75), wide));
	out[0] = onnx_cast(c, onnx_2(c, STX_OP_DIV, v, d), t);
	return c->err;
}

/* ---- integers ---- */

/* v, a number, one for each of dimension `dim` of rank `rank`, or a tensor that broadcasts to it. */
static V along(struct onnx *c, V v, int rank, int dim)
{
	int64_t s[STX_MAX_DIMS];
	if (c->err || onnx_rank(v) != 1)
		return v;
	for (int i = 0; i < rank; i++)
		s[i] = i == dim ? onnx_dim(c, v, 0) : 1;
	return onnx_view(c, v, s, onnx_dim(c, v, 0) == 1 ? 0 : rank);
}

/* v - zero in i32; zero is a number or one a channel of dimension `dim`. */
static V minus_zero(struct onnx *c, V v, V zero, int dim)
{
	V r = onnx_cast(c, v, STX_I32);
	if (!zero.node || c->err)
		return r;
	V z = along(c, onnx_cast(c, zero, STX_I32), onnx_rank(v), dim);
	V less = onnx_2(c, STX_OP_SUB, r, z);
	onnx_keeps_sizes(c, less, r, "a zero point");
	return less;
}

static stx_err map_conv_integer(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), wt = onnx_in(c, 1), xz = onnx_opt(c, 2), wz = onnx_opt(c, 3);
	out[0] = conv(c, minus_zero(c, x, xz, 1), minus_zero(c, wt, wz, 0), NO_V);
	return c->err;
}

/* round(acc * scale) + zero, saturated to zero's type. */
static V requantize(struct onnx *c, V acc, V scale, V zero)
{
	enum stx_dtype t = onnx_dtype(zero);
	double lo = t == STX_I8 ? -128 : 0, hi = t == STX_I8 ? 127 : 255;
	if (!c->err && t != STX_I8 && t != STX_U8)
		onnx_fail(c, STX_E_UNSUPPORTED, "operator %s: element type %s", c->n->op_type,
			  stx_dtype_name(t));
	V q = onnx_1(c, STX_OP_ROUND, onnx_2(c, STX_OP_MUL, onnx_cast(c, acc, STX_F32), scale));
	q = onnx_2(c, STX_OP_ADD, q, onnx_cast(c, zero, STX_F32));
	onnx_keeps_sizes(c, q, acc, "a scale or zero point");
	q = onnx_2(c, STX_OP_MAXIMUM, q, onnx_number(c, lo, STX_F32));
	q = onnx_2(c, STX_OP_MINIMUM, q, onnx_number(c, hi, STX_F32));
	return onnx_cast(c, q, t);
}

static V scalar_of(struct onnx *c, V v)
{
	return onnx_rank(v) == 1 && onnx_dim(c, v, 0) == 1 ? onnx_view(c, v, NULL, 0) : v;
}

static stx_err map_qlinear_conv(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), xs = onnx_in(c, 1), xz = onnx_in(c, 2), wt = onnx_in(c, 3),
	  ws = onnx_in(c, 4), wz = onnx_in(c, 5), ys = onnx_in(c, 6), yz = onnx_in(c, 7),
	  bias = onnx_opt(c, 8);
	V acc = conv(c, minus_zero(c, x, xz, 1), minus_zero(c, wt, wz, 0), bias);
	V scale = onnx_2(c, STX_OP_MUL, scalar_of(c, xs),
			 per_channel(c, scalar_of(c, ws), onnx_rank(x)));
	scale = onnx_2(c, STX_OP_DIV, scale, scalar_of(c, ys));
	out[0] = requantize(c, acc, scale, scalar_of(c, yz));
	return c->err;
}

static stx_err map_matmul_integer(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), b = onnx_in(c, 1), az = onnx_opt(c, 2), bz = onnx_opt(c, 3);
	a = minus_zero(c, a, az, onnx_rank(a) - 2);
	out[0] = onnx_matmul(c, a, minus_zero(c, b, bz, onnx_rank(b) - 1));
	return c->err;
}

static stx_err map_qlinear_matmul(struct onnx *c, V *out)
{
	V a = onnx_in(c, 0), as = onnx_in(c, 1), az = onnx_in(c, 2), b = onnx_in(c, 3),
	  bs = onnx_in(c, 4), bz = onnx_in(c, 5), ys = onnx_in(c, 6), yz = onnx_in(c, 7);
	V acc = onnx_matmul(c, minus_zero(c, a, az, onnx_rank(a) - 2),
			    minus_zero(c, b, bz, onnx_rank(b) - 1));
	int rank = onnx_rank(acc); /* a scale is a number, one for every row of a or column of b */
	V scale = onnx_2(c, STX_OP_MUL, onnx_cast(c, along(c, as, rank, rank - 2), STX_F32),
			 onnx_cast(c, along(c, bs, rank, rank - 1), STX_F32));
	scale = onnx_2(c, STX_OP_DIV, scale, onnx_cast(c, scalar_of(c, ys), STX_F32));
	out[0] = requantize(c, acc, scale, scalar_of(c, yz));
	return c->err;
}

const struct onnx_mapping onnx_window_map[] = {
	{ "Conv", map_conv, 0 },
	{ "ConvTranspose", map_conv_transpose, 0 },
	{ "MaxPool", map_max_pool, 0 },
	{ "AveragePool", map_average_pool, 0 },
	{ "LpPool", map_lp_pool, 0 },
	{ "GlobalLpPool", map_lp_pool, 1 },
	{ "MaxUnpool", map_max_unpool, 0 },
	{ "LRN", map_lrn, 0 },
	{ "ConvInteger", map_conv_integer, 0 },
	{ "QLinearConv", map_qlinear_conv, 0 },
	{ "MatMulInteger", map_matmul_integer, 0 },
	{ "QLinearMatMul", map_qlinear_matmul, 0 },
	{ NULL, NULL, 0 },
};
