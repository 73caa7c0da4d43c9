/* onnx_pad.c: ONNX padding and cropping. */
#include "onnx_import.h"

#include <string.h>

#include "fold.h"

/* Source positions along one axis for edge, reflect and wrap padding; lo and hi may be negative
 * (cropping). */
static int pad_indices(struct onnx *c, const char *mode, int64_t n, int64_t lo, int64_t hi,
		       V *index)
{
	int64_t total = n + lo + hi;
	if (total < 0 || total > STX_FOLD_MAX_ELEMS || n == 0) {
		onnx_fail(c, STX_E_UNSUPPORTED, "padding of mode %s to %lld elements", mode,
			  (long long)total);
		return 0;
	}
	int64_t *at = STX_NEW_ARRAY(c->arena, int64_t, (size_t)total + 1);
	if (!at)
		return 0;
	for (int64_t i = 0; i < total; i++) {
		int64_t p = i - lo;
		if (!strcmp(mode, "edge"))
			p = p < 0 ? 0 : p >= n ? n - 1 : p;
		else if (!strcmp(mode, "wrap"))
			p = ((p % n) + n) % n;
		else if (n == 1)
			p = 0;
		else {
			int64_t period = 2 * (n - 1);
			p = ((p % period) + period) % period;
			p = p >= n ? period - p : p;
		}
		at[i] = p;
	}
	*index = onnx_ints_const(c, at, (int)total);
	return !c->err;
}

static stx_err map_pad(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	const char *mode = onnx_str(c, "mode", "constant");
	int64_t pads[2 * STX_MAX_DIMS], axes[STX_MAX_DIMS], lo[STX_MAX_DIMS] = { 0 },
							    hi[STX_MAX_DIMS] = { 0 };
	const int64_t *attr;
	int rank = onnx_rank(x), n, naxes = rank;
	for (int i = 0; i < rank; i++)
		axes[i] = i;
	struct stx_arg value = onnx_is_float(x) ? stx_arg_scalar_f(0) : stx_arg_scalar_i(0);
	if (c->opset < 11) {
		n = onnx_ints(c, c->opset < 2 ? "paddings" : "pads", &attr);
		if (n != 2 * rank)
			return onnx_fail(c, STX_E_INVALID,
					 "attribute pads does not have %d numbers", 2 * rank);
		memcpy(pads, attr, (size_t)n * sizeof *pads);
		value = stx_arg_scalar_f(onnx_float(c, "value", 0));
	} else {
		n = onnx_known_ints(c, onnx_in(c, 1), "the pads", pads, 2 * STX_MAX_DIMS);
		if (onnx_has(c, 2) &&
		    !onnx_known_scalar(c, onnx_in(c, 2), "the padding value", &value))
			return c->err;
		if (onnx_has(c, 3))
			naxes = onnx_known_ints(c, onnx_in(c, 3), "the axes", axes, STX_MAX_DIMS);
	}
	if (!c->err && n != 2 * naxes)
		return onnx_fail(c, STX_E_INVALID, "%d pads for %d axes", n, naxes);
	for (int i = 0; i < naxes && !c->err; i++) {
		int a = onnx_axis(c, axes[i], rank);
		lo[a] = pads[i];
		hi[a] = pads[naxes + i];
	}
	if (c->err)
		return c->err;
	if (!strcmp(mode, "constant")) {
		int64_t last_first[2 * STX_MAX_DIMS];
		for (int i = 0; i < rank; i++) {
			last_first[2 * i] = lo[rank - 1 - i];
			last_first[2 * i + 1] = hi[rank - 1 - i];
		}
		struct stx_arg args[3] = { stx_arg_tensor(x),
					   stx_arg_ints(c->g, last_first, 2 * (uint32_t)rank),
					   value };
		out[0] = onnx_call(c, STX_OP_PAD, args, 3);
		return c->err;
	}
	if (strcmp(mode, "edge") && strcmp(mode, "reflect") && strcmp(mode, "wrap"))
		return onnx_unsupported_attr(c, "mode", mode);
	for (int i = 0; i < rank && !c->err; i++) {
		V index = NO_V;
		if ((lo[i] || hi[i]) &&
		    pad_indices(c, mode, onnx_dim(c, x, i), lo[i], hi[i], &index))
			x = onnx_index_select(c, x, i, index);
	}
	out[0] = x;
	return c->err;
}

const struct onnx_mapping onnx_pad_map[] = {
	{ "Pad", map_pad, 0 },
	{ NULL, NULL, 0 },
};
