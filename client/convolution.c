/* convolution.c: the external call STX_CALL_CONV: a convolution, or the gradient of its input, by
 * cuDNN.
 *
 * What is kept of a call (calls.c) is a graph of descriptors for each alignment that it promises;
 * a way to make it is an engine of the heuristics' list, whose plan is made when it is first used.
 * The step's kernel is left where cuDNN is not there, knows no such convolution, or needs more
 * memory to work in than the plan has. Engines are named by the library's version and their knobs,
 * so a name found in another process's list is the same code.
 *
 * Numerics (kernels/NUMERICS.md): engines are chosen by their numerical notes; see is_barred in
 * cudnn_graph.c. */
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "cudnn.h"
#include "dtype.h"

#define MAX_DIM INT32_MAX

struct convolution {
	struct stx__call call;
	uint8_t dtype;
	struct stx__cudnn_set of[2]; /* as call.of */
};
_Static_assert(STX_CONV_NATTRS <= STX__CALL_ATTRS, "attributes of a call");

static const struct convolution *convolution_of(const struct stx__call *c)
{
	return (const struct convolution *)c;
}

enum { X, W, Y };

static const int64_t *array(const int64_t *attrs, int i)
{
	static const int from[3] = { STX_CONV_X, STX_CONV_W, STX_CONV_Y };
	return attrs + from[i];
}

/* ---- what the plan asks for ---- */

static int in_range(int64_t v, int64_t lo)
{
	return v >= lo && v <= MAX_DIM;
}

static int is_array(const struct stax_artifact *a, const struct stx__step *s, const int64_t *t)
{
	if (t[STX_ARRAY_ARG] < 0 || t[STX_ARRAY_ARG] >= s->nparams || t[STX_ARRAY_OFFSET] < 0 ||
	    stx__cudnn_type(stx__external_type(a, s, t[STX_ARRAY_ARG])) < 0)
		return 0;
	for (int i = 0; i < 2 + STX_CONV_MAX_SPATIAL; i++)
		if (!in_range(t[STX_ARRAY_SIZE + i], 1) || !in_range(t[STX_ARRAY_STRIDE + i], 1))
			return 0;
	return 1;
}

static int fits(const struct stax_artifact *a, const struct stx__context *x,
		const struct stx__step *s, const int64_t *t)
{
	return stx__external_fits(a, x, s, t[STX_ARRAY_ARG], t[STX_ARRAY_OFFSET],
				  2 + STX_CONV_MAX_SPATIAL, t + STX_ARRAY_SIZE,
				  t + STX_ARRAY_STRIDE);
}

/* The spatial sizes agree: `small` is what convolving `large` gives. */
static int windows_fit(const int64_t *t, const int64_t *large, const int64_t *small)
{
	for (int i = 0; i < STX_CONV_MAX_SPATIAL; i++) {
		int64_t step = t[STX_CONV_STRIDE + i], dilation = t[STX_CONV_DILATION + i];
		int64_t before = t[STX_CONV_BEFORE + i], after = t[STX_CONV_AFTER + i];
		if (!in_range(step, 1) || !in_range(dilation, 1) || !in_range(before, 0) ||
		    !in_range(after, 0))
			return 0;
		int64_t room = large[STX_ARRAY_SIZE + 2 + i] + before + after -
			       dilation * (array(t, W)[STX_ARRAY_SIZE + 2 + i] - 1) - 1;
		if (room < 0 || room / step + 1 != small[STX_ARRAY_SIZE + 2 + i])
			return 0;
		if (i >= t[STX_CONV_SPATIAL] && (step != 1 || dilation != 1 || before || after ||
						 large[STX_ARRAY_SIZE + 2 + i] != 1 ||
						 array(t, W)[STX_ARRAY_SIZE + 2 + i] != 1))
			return 0;
	}
	return 1;
}

static int channels_fit(const int64_t *t, const int64_t *large, const int64_t *small)
{
	const int64_t *w = array(t, W) + STX_ARRAY_SIZE;
	int64_t in = large[STX_ARRAY_SIZE + 1], groups = in / w[1];
	return in % w[1] == 0 && w[0] % groups == 0 && small[STX_ARRAY_SIZE + 1] == w[0] &&
	       small[STX_ARRAY_SIZE] == large[STX_ARRAY_SIZE];
}

static int bias_fits(const struct stax_artifact *a, const struct stx__context *x,
		     const struct stx__step *s, const int64_t *t)
{
	static const int64_t stride = 1;
	int64_t arg = t[STX_CONV_BIAS];
	uint8_t type = stx__external_type(a, s, array(t, Y)[STX_ARRAY_ARG]);
	if (!t[STX_CONV_EPILOGUE])
		return 1;
	return t[STX_CONV_EPILOGUE] == STX_EPILOGUE_BIAS && arg >= 0 && arg < s->nparams &&
	       type != STX_F64 && stx__external_type(a, s, arg) == type &&
	       stx__external_fits(a, x, s, arg, t[STX_CONV_BIAS_OFFSET], 1,
				  &array(t, Y)[STX_ARRAY_SIZE + 1], &stride);
}

static int is_plausible(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, const int64_t *t)
{
	uint8_t type = 0;
	if (t[STX_CONV_KIND] < STX_CONVOLVE_FORWARD ||
	    t[STX_CONV_KIND] > STX_CONVOLVE_INPUT_GRADIENT || t[STX_CONV_SPATIAL] < 1 ||
	    t[STX_CONV_SPATIAL] > STX_CONV_MAX_SPATIAL ||
	    stx_plan_extern_of(&a->plan, s->plan)->workspace == STX_PLAN_NONE)
		return 0;
	for (int i = 0; i < 3; i++) {
		if (!is_array(a, s, array(t, i)) || !fits(a, x, s, array(t, i)))
			return 0;
		uint8_t mine = stx__external_type(a, s, array(t, i)[STX_ARRAY_ARG]);
		if (i && mine != type)
			return 0;
		type = mine;
	}
	int b = t[STX_CONV_KIND] == STX_CONVOLVE_INPUT_GRADIENT;
	const int64_t *large = array(t, b ? Y : X), *small = array(t, b ? X : Y);
	return windows_fit(t, large, small) && channels_fit(t, large, small) &&
	       bias_fits(a, x, s, t);
}

stx_err stx__conv_bind(const struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct stx_diag *d)
{
	int64_t t[STX_CONV_NATTRS];
	return stx__external_attrs(a, x, s, STX_CONV_NATTRS, t) && is_plausible(a, x, s, t)
		       ? STX_E_OK
		       : stx_fail(d, STX_E_CORRUPT, "plan", STX_CALL_CONV,
				  "data plan: a convolution that cannot be");
}

/* ---- the library ---- */

static int make(const struct stax_artifact *a, const struct stx__step *s, struct stx__call *call)
{
	struct convolution *c = (struct convolution *)call;
	c->dtype = stx__external_type(a, s, array(call->attrs, X)[STX_ARRAY_ARG]);
	return 0;
}

static void drop(struct stx__call *call)
{
	struct convolution *c = (struct convolution *)call;
	for (int i = 0; i < 2; i++)
		stx__cudnn_set_free(&c->of[i]);
}

/* ---- engines ---- */

static struct stx__cudnn_conv describe(const struct convolution *c, int64_t alignment)
{
	const int64_t *t = c->call.attrs;
	struct stx__cudnn_conv o = { .is_gradient = t[STX_CONV_KIND] == STX_CONVOLVE_INPUT_GRADIENT,
				     .type = stx__cudnn_type(c->dtype),
				     .accumulate = c->dtype == STX_F64 ? STX_CUDNN_DATA_DOUBLE
								       : STX_CUDNN_DATA_FLOAT,
				     .k = (uint32_t)t[STX_CONV_SPATIAL],
				     .has_bias = t[STX_CONV_EPILOGUE] == STX_EPILOGUE_BIAS,
				     .alignment = alignment };
	struct stx__cudnn_tensor *tensors[3] = { &o.x, &o.w, &o.y };
	for (int i = 0; i < STX_CONV_MAX_SPATIAL; i++) {
		o.stride[i] = t[STX_CONV_STRIDE + i];
		o.dilation[i] = t[STX_CONV_DILATION + i];
		o.before[i] = t[STX_CONV_BEFORE + i];
		o.after[i] = t[STX_CONV_AFTER + i];
	}
	for (int i = 0; i < 3; i++) {
		memcpy(tensors[i]->size, array(t, i) + STX_ARRAY_SIZE, sizeof o.x.size);
		memcpy(tensors[i]->stride, array(t, i) + STX_ARRAY_STRIDE, sizeof o.x.stride);
	}
	return o;
}

static uint32_t list(const struct stx__gpu_code *g, struct stx__call *call, int is_aligned,
		     char *const at[STX__CALL_OPERANDS], uint32_t most, struct stx__way *out)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	struct convolution *c = (struct convolution *)call;
	struct stx__cudnn_set *set = &c->of[!is_aligned];
	struct stx__cudnn_conv what =
		describe(c, is_aligned ? STX__CALL_ALIGNMENT : stx_dtype_bytes(c->dtype));
	int status = 0;
	(void)at;
	if (!set->graph.n)
		status =
			stx__cudnn_conv_graph(q, g->library[STX__CUDNN].handle, &what, &set->graph);
	return stx__cudnn_list(set, what.type, status, "a convolution", most, out, call->why_not,
			       sizeof call->why_not);
}

static struct stx_digest digest_of(const struct stax_artifact *a, const struct stx__step *s,
				   const int64_t *t, size_t workspace_bytes, int is_aligned)
{
	int64_t all[STX_CONV_NATTRS];
	memcpy(all, t, sizeof all);
	for (int i = 0; i < 3; i++) {
		int64_t *m = all + (array(t, i) - t);
		m[STX_ARRAY_ARG] = m[STX_ARRAY_OFFSET] = 0;
	}
	all[STX_CONV_BIAS] = all[STX_CONV_BIAS_OFFSET] = 0;
	return stx__cudnn_digest(stx__external_type(a, s, array(t, X)[STX_ARRAY_ARG]), all,
				 STX_CONV_NATTRS, workspace_bytes, is_aligned);
}

/* conv_f16_8x64x56x56_128x3x3_s2 */
static void name_call(const struct stax_artifact *a, const struct stx__step *s, const int64_t *t,
		      char *out, size_t cap)
{
	const int64_t *x = array(t, X) + STX_ARRAY_SIZE;
	const int64_t *w = array(t, W) + STX_ARRAY_SIZE;
	int k = (int)t[STX_CONV_SPATIAL], strides = 0;
	size_t n = (size_t)snprintf(
		out, cap, "%s_%s_%lldx%lld", t[STX_CONV_KIND] ? "conv_transposed" : "conv",
		stx_dtype_name(stx__external_type(a, s, array(t, X)[STX_ARRAY_ARG])),
		(long long)x[0], (long long)x[1]);
	for (int i = 0; i < k && n < cap; i++)
		n += (size_t)snprintf(out + n, cap - n, "x%lld", (long long)x[2 + i]);
	if (n < cap)
		n += (size_t)snprintf(out + n, cap - n, "_%lld", (long long)w[t[STX_CONV_KIND]]);
	for (int i = 0; i < k && n < cap; i++) {
		n += (size_t)snprintf(out + n, cap - n, "x%lld", (long long)w[2 + i]);
		strides |= t[STX_CONV_STRIDE + i] > 1;
	}
	if (strides && n < cap)
		n += (size_t)snprintf(out + n, cap - n, "_s%lld", (long long)t[STX_CONV_STRIDE]);
	if (t[STX_CONV_EPILOGUE] && n < cap)
		snprintf(out + n, cap - n, "_bias");
}

static void place(const struct stax_artifact *a, const struct stx__step *s,
		  const struct stx__call *c, void *const *buffers, char *at[STX__CALL_OPERANDS])
{
	const int64_t *t = c->attrs;
	int64_t elem = stx_dtype_bytes(convolution_of(c)->dtype);
	(void)a;
	(void)s;
	for (int i = 0; i < 3; i++)
		at[i] = (char *)buffers[array(t, i)[STX_ARRAY_ARG]] +
			array(t, i)[STX_ARRAY_OFFSET] * elem;
	at[3] = t[STX_CONV_EPILOGUE]
			? (char *)buffers[t[STX_CONV_BIAS]] + t[STX_CONV_BIAS_OFFSET] * elem
			: at[Y];
}

static stx_err call(const struct stax_artifact *a, const struct stx__context *x,
		    const struct stx__step *s, char *const at[STX__CALL_OPERANDS],
		    const struct stx__way *way, const struct stx_env *env, struct stx_diag *d)
{
	static const int64_t ids[4] = { STX__CUDNN_X, STX__CUDNN_W, STX__CUDNN_Y, STX__CUDNN_BIAS };
	const struct stx__call *c = s->call;
	void *all[4] = { at[X], at[W], at[Y], at[3] };
	(void)a;
	return stx__cudnn_call(x, s, way, c->attrs[STX_CONV_EPILOGUE] ? 4 : 3, ids, all, env, d);
}

const struct stx__library stx__conv_library = {
	.number = STX__CUDNN,
	.name = "cuDNN",
	.nattrs = STX_CONV_NATTRS,
	.kept_bytes = sizeof(struct convolution),
	.is_there = stx__cudnn_has,
	.create = stx__cudnn_create,
	.destroy = stx__cudnn_destroy,
	.make = make,
	.drop = drop,
	.place = place,
	.list = list,
	.digest = digest_of,
	.name_call = name_call,
	.call = call,
};
