/* onnx_sort.c: TopK. */
#include "onnx_import.h"

/* k is an attribute up to opset 9, an input then; smallest elements from 11 on. Results are sorted
 * whether asked for or not. */
static stx_err map_topk(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t k = onnx_int(c, "k", -1);
	int dim = onnx_axis(c, onnx_int(c, "axis", -1), onnx_rank(x));
	if (c->opset >= 10 && onnx_known_ints(c, onnx_in(c, 1), "k", &k, 1) != 1 && !c->err)
		return onnx_fail(c, STX_E_INVALID, "input 1, k, must have one element");
	if (c->err)
		return c->err;
	if (k < 0)
		return onnx_fail(c, STX_E_INVALID, "k is %lld; it must be 0 or more", (long long)k);
	struct stx_arg a[] = { stx_arg_tensor(x), stx_arg_int(c->g, k), stx_arg_int(c->g, dim),
			       stx_arg_bool(c->opset < 11 || onnx_int(c, "largest", 1) != 0),
			       stx_arg_bool(1) };
	out[0] = onnx_call(c, STX_OP_TOPK, a, 5);
	if (!c->err)
		out[1] = stx_val(out[0].node, 1);
	return c->err;
}

const struct onnx_mapping onnx_sort_map[] = {
	{ "TopK", map_topk, 0 },
	{ NULL, NULL, 0 },
};
