/* onnx_deform.c: deformable convolution.
 *
 * The input is read at each tap's place plus its offset, by linear interpolation between the 2^k
 * pixels around it (0 outside), into columns [N, C, taps, outputs]; a matrix product with the
 * filter does the rest. Half types compute in f32. Source: ONNX DeformConv 19 and 22. */
#include "onnx_import.h"

#include <string.h>

#define SPATIAL 3

struct deform {
	int k;                                              /* spatial dimensions */
	int64_t n, channels, out_channels, groups, offsets; /* offsets: groups of them */
	int64_t in[SPATIAL], kernel[SPATIAL], out[SPATIAL];
	int64_t stride[SPATIAL], dilation[SPATIAL], pad[SPATIAL];
	int64_t taps, pixels, places; /* products of kernel, in, out */
	enum stx_dtype wide;
};

static V number(struct onnx *c, double v, enum stx_dtype t)
{
	return onnx_number(c, v, t);
}

static stx_err read_deform(struct onnx *c, V x, V w, V offset, struct deform *f)
{
	int64_t xs[STX_MAX_DIMS], ws[STX_MAX_DIMS], os[STX_MAX_DIMS], pads[2 * SPATIAL];
	int rank = onnx_sizes(c, x, xs);
	f->k = rank - 2;
	if (onnx_sizes(c, w, ws) != rank || onnx_sizes(c, offset, os) != rank || f->k < 1)
		return onnx_fail(c, STX_E_INVALID, "X, W and offset must have one rank, 3 or more");
	if (f->k > SPATIAL)
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator DeformConv: %d spatial dimensions",
				 f->k);
	f->n = xs[0];
	f->channels = xs[1];
	f->out_channels = ws[0];
	f->groups = onnx_int(c, "group", 1);
	f->offsets = onnx_int(c, "offset_group", 1);
	f->wide = stx_dtype_bytes(onnx_dtype(x)) < 4 ? STX_F32 : onnx_dtype(x);
	memcpy(f->kernel, ws + 2, sizeof f->kernel);
	onnx_check_kernel_shape(c, f->k, f->kernel);
	onnx_int_list(c, "strides", f->k, 1, 1, f->stride);
	onnx_int_list(c, "dilations", f->k, 1, 1, f->dilation);
	onnx_int_list(c, "pads", 2 * f->k, 0, 0, pads);
	if (c->err)
		return c->err;
	if (f->groups < 1 || f->offsets < 1 || f->channels % f->groups ||
	    f->out_channels % f->groups || f->channels % f->offsets ||
	    ws[1] != f->channels / f->groups)
		return onnx_fail(c, STX_E_INVALID,
				 "group %lld and offset_group %lld do not divide the channels",
				 (long long)f->groups, (long long)f->offsets);
	f->taps = f->pixels = f->places = 1;
	for (int i = 0; i < f->k; i++) {
		if (f->kernel[i] > INT32_MAX || xs[2 + i] > INT32_MAX || f->kernel[i] < 1)
			return onnx_fail(c, STX_E_INVALID, "sizes %lld of the filter, %lld of X",
					 (long long)f->kernel[i], (long long)xs[2 + i]);
		int64_t reach = (f->kernel[i] - 1) * f->dilation[i] + 1;
		f->in[i] = xs[2 + i];
		f->pad[i] = pads[i];
		f->out[i] = (f->in[i] + pads[i] + pads[f->k + i] - reach) / f->stride[i] + 1;
		f->taps = onnx_times(f->taps, f->kernel[i]);
		f->pixels = onnx_times(f->pixels, f->in[i]);
		f->places = onnx_times(f->places, f->out[i]);
		if (f->out[i] != os[2 + i])
			return onnx_fail(c, STX_E_INVALID,
					 "offset has size %lld where the convolution gives %lld",
					 (long long)os[2 + i], (long long)f->out[i]);
	}
	int64_t need = onnx_times(onnx_times(f->offsets, f->taps), f->k);
	if (os[0] != f->n || os[1] != need)
		return onnx_fail(c, STX_E_INVALID, "offset has %lld channels, %lld are needed",
				 (long long)os[1], (long long)need);
	return c->err;
}

/* i * step - back for the positions of a list of sizes along dimension d, as [product]. */
static V positions(struct onnx *c, const int64_t *sizes, int k, int d, int64_t step, int64_t back)
{
	int64_t s[SPATIAL], n = onnx_product(sizes, 0, k);
	for (int i = 0; i < k; i++)
		s[i] = i == d ? sizes[i] : 1;
	V v = onnx_view(c, onnx_arange(c, 0, sizes[d], 1, STX_I64), s, k);
	v = onnx_mul(c, v, number(c, (double)step, STX_I64));
	v = onnx_sub(c, v, number(c, (double)back, STX_I64));
	return onnx_view(c, onnx_expand(c, v, sizes, k), &n, 1);
}

/* Where each tap of each output reads along d, [n, offsets, taps, places]. */
static V reads_at(struct onnx *c, const struct deform *f, V offset, int d)
{
	int64_t wide[5] = { f->n, f->offsets, f->taps, f->k, f->places };
	int64_t flat[4] = { f->n, f->offsets, f->taps, f->places };
	V tap = onnx_unsqueeze(c, positions(c, f->kernel, f->k, d, f->dilation[d], 0), 1);
	V place = positions(c, f->out, f->k, d, f->stride[d], f->pad[d]);
	V o = onnx_slice(c, onnx_view(c, offset, wide, 5), 3, d, d + 1, 1);
	return onnx_add(c, onnx_view(c, o, flat, 4),
			onnx_cast(c, onnx_add(c, tap, place), f->wide));
}

/* The pixels at one corner: weights (0 outside the image) and flat positions, both [n, offsets,
 * taps, places]. */
static void corner(struct onnx *c, const struct deform *f, const V *low, const V *fraction,
		   unsigned which, V *weight, V *index)
{
	V one = number(c, 1, f->wide), zero = number(c, 0, f->wide);
	*weight = *index = NO_V;
	for (int d = 0; d < f->k; d++) {
		int up = which >> d & 1;
		V last = number(c, (double)(f->in[d] - 1), f->wide);
		V at = up ? onnx_add(c, low[d], one) : low[d];
		V w = up ? fraction[d] : onnx_sub(c, one, fraction[d]);
		V inside = onnx_2(c, STX_OP_LOGICAL_AND, onnx_2(c, STX_OP_GE, at, zero),
				  onnx_2(c, STX_OP_LE, at, last));
		w = onnx_where(c, inside, w, zero);
		V i = onnx_cast(c, onnx_where(c, inside, at, zero), STX_I64);
		*weight = d ? onnx_mul(c, *weight, w) : w;
		*index = d ? onnx_add(c, onnx_mul(c, *index, number(c, (double)f->in[d], STX_I64)),
				      i)
			   : i;
	}
}

/* [n, channels, taps * places]: the input under every tap. */
static V columns(struct onnx *c, const struct deform *f, V x, V offset, V mask)
{
	int64_t per = f->channels / f->offsets, all = onnx_times(f->taps, f->places);
	int64_t image[4] = { f->n, f->offsets, per, f->pixels },
		one[4] = { f->n, f->offsets, 1, all };
	int64_t wide[4] = { f->n, f->offsets, per, all }, last[3] = { f->n, f->channels, all };
	V low[SPATIAL], fraction[SPATIAL], sum = NO_V;
	x = onnx_view(c, onnx_cast(c, x, f->wide), image, 4);
	for (int d = 0; d < f->k; d++) {
		V at = reads_at(c, f, offset, d);
		low[d] = onnx_1(c, STX_OP_FLOOR, at);
		fraction[d] = onnx_sub(c, at, low[d]);
	}
	for (unsigned which = 0; which < 1u << f->k && !c->err; which++) {
		V weight, index;
		corner(c, f, low, fraction, which, &weight, &index);
		index = onnx_expand(c, onnx_view(c, index, one, 4), wide, 4);
		if (c->err)
			return NO_V;
		struct stx_arg a[3] = { stx_arg_tensor(x), stx_arg_int(c->g, 3),
					stx_arg_tensor(index) };
		V v = onnx_mul(c, onnx_call(c, STX_OP_GATHER, a, 3), onnx_view(c, weight, one, 4));
		sum = which ? onnx_add(c, sum, v) : v;
	}
	if (mask.node)
		sum = onnx_mul(c, sum, onnx_view(c, onnx_cast(c, mask, f->wide), one, 4));
	return onnx_view(c, sum, last, 3);
}

static stx_err map_deform_conv(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), w = onnx_in(c, 1), offset = onnx_in(c, 2), bias = onnx_opt(c, 3),
	  mask = onnx_opt(c, 4);
	struct deform f = { 0 };
	if (read_deform(c, x, w, offset, &f))
		return c->err;
	if (f.pixels < 1)
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator DeformConv: an empty image");
	int64_t inner = onnx_times(f.channels / f.groups, f.taps), per = f.out_channels / f.groups;
	int64_t left[4] = { 1, f.groups, per, inner };
	int64_t right[4] = { f.n, f.groups, inner, f.places };
	int64_t result[2 + SPATIAL] = { f.n, f.out_channels }, column[1 + SPATIAL];
	V cols = onnx_view(c, columns(c, &f, x, onnx_cast(c, offset, f.wide), mask), right, 4);
	V y = onnx_matmul(c, onnx_view(c, onnx_cast(c, w, f.wide), left, 4), cols);
	for (int i = 0; i < f.k; i++) {
		result[2 + i] = f.out[i];
		column[1 + i] = 1;
	}
	y = onnx_view(c, y, result, 2 + f.k);
	column[0] = f.out_channels;
	if (bias.node)
		y = onnx_add(c, y, onnx_view(c, onnx_cast(c, bias, f.wide), column, 1 + f.k));
	out[0] = onnx_cast(c, y, onnx_dtype(x));
	return c->err;
}

const struct onnx_mapping onnx_deform_map[] = {
	{ "DeformConv", map_deform_conv, 0 },
	{ NULL, NULL, 0 },
};
