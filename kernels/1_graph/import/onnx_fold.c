/* onnx_fold.c: Col2Im and CenterCropPad. */
#include "onnx_import.h"

#define SPATIAL 3

static struct stx_arg ints(struct onnx *c, const int64_t *v, int n)
{
	return stx_arg_ints(c->g, v, (uint32_t)n);
}

/* ---- Col2Im ---- */

/* Padding behind only decides how many windows there are. */
static stx_err map_col2im(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t image[SPATIAL], block[SPATIAL], dilation[SPATIAL], stride[SPATIAL],
		pads[2 * SPATIAL] = { 0 }, s[2 + 2 * SPATIAL], taps = 1, windows = 1;
	int k = onnx_known_ints(c, onnx_in(c, 1), "the image's shape", image, SPATIAL);
	int kb = onnx_known_ints(c, onnx_in(c, 2), "the block's shape", block, SPATIAL);
	if (c->err)
		return c->err;
	if (k < 1 || kb != k || onnx_rank(x) != 3)
		return onnx_fail(c, STX_E_INVALID,
				 "an image of %d and blocks of %d dimensions from an input of rank "
				 "%d",
				 k, kb, onnx_rank(x));
	onnx_int_list(c, "dilations", k, 1, 1, dilation);
	onnx_int_list(c, "strides", k, 1, 1, stride);
	onnx_int_list(c, "pads", 2 * k, 0, 0, pads);
	for (int i = 0; i < k && !c->err; i++) {
		if (image[i] < 0 || block[i] < 1 || image[i] > INT32_MAX || block[i] > INT32_MAX)
			return onnx_fail(c, STX_E_INVALID, "size %lld with blocks of %lld",
					 (long long)image[i], (long long)block[i]);
		int64_t room = image[i] + pads[i] + pads[k + i] - dilation[i] * (block[i] - 1) - 1;
		s[2 + i] = block[i];
		s[2 + k + i] = room < 0 ? 0 : room / stride[i] + 1;
		taps = onnx_times(taps, block[i]);
		windows = onnx_times(windows, s[2 + k + i]);
	}
	if (c->err)
		return c->err;
	s[0] = onnx_dim(c, x, 0);
	s[1] = taps ? onnx_dim(c, x, 1) / taps : 0;
	if (s[1] * taps != onnx_dim(c, x, 1) || windows != onnx_dim(c, x, 2))
		return onnx_fail(c, STX_E_INVALID,
				 "the input is not %lld elements by %lld windows wide",
				 (long long)taps, (long long)windows);
	x = onnx_view(c, x, s, 2 + 2 * k);
	if (c->err)
		return c->err;
	struct stx_arg a[6] = { stx_arg_tensor(x),    ints(c, image, k), ints(c, block, k),
				ints(c, dilation, k), ints(c, pads, k),  ints(c, stride, k) };
	out[0] = onnx_call(c, STX_OP_FOLD, a, 6);
	return c->err;
}

/* ---- CenterCropPad ---- */

/* Of an odd difference the larger half lies behind. */
static stx_err map_center_crop_pad(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	const int64_t *axes;
	int64_t shape[STX_MAX_DIMS], pads[2 * STX_MAX_DIMS] = { 0 };
	int n = onnx_known_ints(c, onnx_in(c, 1), "the shape", shape, STX_MAX_DIMS);
	int have = onnx_ints(c, "axes", &axes), rank = onnx_rank(x);
	if (!c->err && n != (have < 0 ? rank : have))
		return onnx_fail(c, STX_E_INVALID, "%d sizes for %d axes", n,
				 have < 0 ? rank : have);
	for (int i = 0; i < n && !c->err; i++) {
		int d = onnx_axis(c, have < 0 ? i : axes[i], rank);
		int64_t size = onnx_dim(c, x, d);
		if (c->err)
			return c->err;
		if (shape[i] < 0 || shape[i] > INT32_MAX)
			return onnx_fail(c, STX_E_INVALID, "size %lld", (long long)shape[i]);
		int64_t more = shape[i] - size, half = more / 2;
		pads[2 * (rank - 1 - d)] = half;
		pads[2 * (rank - 1 - d) + 1] = more - half;
	}
	if (c->err)
		return c->err;
	struct stx_arg a[3] = { stx_arg_tensor(x), ints(c, pads, 2 * rank),
				onnx_is_float(x) ? stx_arg_scalar_f(0) : stx_arg_scalar_i(0) };
	out[0] = onnx_call(c, STX_OP_PAD, a, 3);
	return c->err;
}

const struct onnx_mapping onnx_fold_map[] = {
	{ "Col2Im", map_col2im, 0 },
	{ "CenterCropPad", map_center_crop_pad, 0 },
	{ NULL, NULL, 0 },
};
