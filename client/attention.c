/* attention.c: the external call STX_CALL_ATTENTION: softmax(scores) times value by one of cuDNN's
 * fused engines.
 *
 * As in convolution.c a way to make it is an engine, whose code the library compiles when its plan
 * is first made. It takes operands on 16 bytes only. Where it cannot be made the steps that it
 * stands for are. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calls.h"
#include "cudnn.h"
#include "dtype.h"

#define RANK 4

struct attention {
	struct stx__call call;
	uint8_t dtype, bias_dtype;
	float scale;
	struct stx__cudnn_set set;
};
_Static_assert(STX_ATTENTION_NATTRS <= STX__CALL_ATTRS, "attributes of a call");

static const float never = -INFINITY;

enum { Q, K, V, Y, BIAS };

static const int64_t *array(const int64_t *attrs, int i)
{
	return attrs + STX_ATTENTION_Q + i * STX_ARRAY_NATTRS;
}

static int64_t size(const int64_t *attrs, int i, int dim)
{
	return array(attrs, i)[STX_ARRAY_SIZE + dim];
}

/* ---- what the plan asks for ---- */

static int is_array(const struct stax_artifact *a, const struct stx__context *x,
		    const struct stx__step *s, const int64_t *t)
{
	if (t[STX_ARRAY_ARG] < 0 || t[STX_ARRAY_ARG] >= s->nparams || t[STX_ARRAY_OFFSET] < 0)
		return 0;
	for (int i = 0; i < RANK; i++)
		if (t[STX_ARRAY_SIZE + i] < 1 || t[STX_ARRAY_SIZE + i] > INT32_MAX ||
		    t[STX_ARRAY_STRIDE + i] < 1 || t[STX_ARRAY_STRIDE + i] > INT32_MAX)
			return 0;
	return stx__external_fits(a, x, s, t[STX_ARRAY_ARG], t[STX_ARRAY_OFFSET], RANK,
				  t + STX_ARRAY_SIZE, t + STX_ARRAY_STRIDE);
}

static int bias_fits(const struct stax_artifact *a, const struct stx__context *x,
		     const struct stx__step *s, const int64_t *t)
{
	if (!is_array(a, x, s, array(t, BIAS)) || t[STX_ATTENTION_BIASED] < 0 ||
	    t[STX_ATTENTION_BIASED] > 1)
		return 0;
	uint8_t type = stx__external_type(a, s, array(t, BIAS)[STX_ARRAY_ARG]);
	for (int i = 0; i < 3 && t[STX_ATTENTION_BIASED]; i++)
		if (size(t, BIAS, i) != 1 && size(t, BIAS, i) != size(t, Q, i))
			return 0;
	return !t[STX_ATTENTION_BIASED] ||
	       (size(t, BIAS, 3) == size(t, K, 2) &&
		(type == STX_F32 || type == stx__external_type(a, s, array(t, Q)[STX_ARRAY_ARG])));
}

static int is_plausible(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, const int64_t *t)
{
	for (int i = 0; i < 4; i++) {
		if (!is_array(a, x, s, array(t, i)))
			return 0;
		uint8_t type = stx__external_type(a, s, array(t, i)[STX_ARRAY_ARG]);
		if ((type != STX_F16 && type != STX_BF16) ||
		    type != stx__external_type(a, s, array(t, Q)[STX_ARRAY_ARG]) ||
		    size(t, i, 0) != size(t, Q, 0) || size(t, Q, 1) % size(t, i, 1))
			return 0;
	}
	return bias_fits(a, x, s, t) && t[STX_ATTENTION_CAUSAL] >= 0 &&
	       t[STX_ATTENTION_CAUSAL] <= 1 && t[STX_ATTENTION_SCALE] >= 0 &&
	       t[STX_ATTENTION_SCALE] <= UINT32_MAX && size(t, Y, 1) == size(t, Q, 1) &&
	       size(t, Y, 2) == size(t, Q, 2) && size(t, K, 3) == size(t, Q, 3) &&
	       size(t, V, 2) == size(t, K, 2) && size(t, Y, 3) == size(t, V, 3) &&
	       stx_plan_extern_of(&a->plan, s->plan)->workspace != STX_PLAN_NONE;
}

stx_err stx__attention_bind(const struct stax_artifact *a, struct stx__context *x,
			    struct stx__step *s, struct stx_diag *d)
{
	int64_t t[STX_ATTENTION_NATTRS];
	return stx__external_attrs(a, x, s, STX_ATTENTION_NATTRS, t) && is_plausible(a, x, s, t)
		       ? STX_E_OK
		       : stx_fail(d, STX_E_CORRUPT, "plan", STX_CALL_ATTENTION,
				  "data plan: an attention that cannot be");
}

/* ---- the library ---- */

static int make(const struct stax_artifact *a, const struct stx__step *s, struct stx__call *call)
{
	struct attention *c = (struct attention *)call;
	uint32_t bits = (uint32_t)call->attrs[STX_ATTENTION_SCALE];
	c->dtype = stx__external_type(a, s, array(call->attrs, Q)[STX_ARRAY_ARG]);
	c->bias_dtype = stx__external_type(a, s, array(call->attrs, BIAS)[STX_ARRAY_ARG]);
	memcpy(&c->scale, &bits, sizeof c->scale);
	return 0;
}

static void drop(struct stx__call *call)
{
	stx__cudnn_set_free(&((struct attention *)call)->set);
}

static struct stx__cudnn_attention describe(const struct attention *c)
{
	const int64_t *t = c->call.attrs;
	struct stx__cudnn_attention o = { .type = stx__cudnn_type(c->dtype),
					  .is_causal = t[STX_ATTENTION_CAUSAL] != 0,
					  .is_biased = t[STX_ATTENTION_BIASED] != 0,
					  .bias_type = stx__cudnn_type(c->bias_dtype),
					  .alignment = STX__CALL_ALIGNMENT };
	struct stx__cudnn_tensor *all[5] = { &o.q, &o.k, &o.v, &o.y, &o.bias };
	for (int i = 0; i < 5; i++) {
		memcpy(all[i]->size, array(t, i) + STX_ARRAY_SIZE, sizeof o.q.size);
		memcpy(all[i]->stride, array(t, i) + STX_ARRAY_STRIDE, sizeof o.q.stride);
	}
	return o;
}

static uint32_t list(const struct stx__gpu_code *g, struct stx__call *call, int is_aligned,
		     char *const at[STX__CALL_OPERANDS], uint32_t most, struct stx__way *out)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	struct attention *c = (struct attention *)call;
	struct stx__cudnn_attention what = describe(c);
	int status = 0;
	(void)at;
	if (!is_aligned) {
		snprintf(call->why_not, sizeof call->why_not,
			 "an operand of attention is not aligned to 16 bytes");
		return 0;
	}
	if (!c->set.graph.n)
		status = stx__cudnn_attention_graph(q, g->library[STX__CUDNN].handle, &what,
						    &c->set.graph);
	return stx__cudnn_list(&c->set, what.type, status, "attention", most, out, call->why_not,
			       sizeof call->why_not);
}

static struct stx_digest digest_of(const struct stax_artifact *a, const struct stx__step *s,
				   const int64_t *t, size_t workspace_bytes, int is_aligned)
{
	int64_t all[STX_ATTENTION_NATTRS];
	memcpy(all, t, sizeof all);
	if (all[STX_ATTENTION_BIASED]) /* its type too */
		all[STX_ATTENTION_BIASED] +=
			stx__external_type(a, s, array(t, BIAS)[STX_ARRAY_ARG]);
	for (int i = 0; i < 5; i++) {
		int64_t *m = all + (array(t, i) - t);
		m[STX_ARRAY_ARG] = m[STX_ARRAY_OFFSET] = 0;
	}
	return stx__cudnn_digest(stx__external_type(a, s, array(t, Q)[STX_ARRAY_ARG]), all,
				 STX_ATTENTION_NATTRS, workspace_bytes, is_aligned);
}

/* attention_bf16_4x32x2048x128_keys1024_heads8_causal */
static void name_call(const struct stax_artifact *a, const struct stx__step *s, const int64_t *t,
		      char *out, size_t cap)
{
	char keys[32] = "", heads[32] = "", cols[32] = "";
	if (size(t, K, 2) != size(t, Q, 2))
		snprintf(keys, sizeof keys, "_keys%lld", (long long)size(t, K, 2));
	if (size(t, K, 1) != size(t, Q, 1))
		snprintf(heads, sizeof heads, "_heads%lld", (long long)size(t, K, 1));
	if (size(t, V, 3) != size(t, Q, 3))
		snprintf(cols, sizeof cols, "_to%lld", (long long)size(t, V, 3));
	snprintf(out, cap, "attention_%s_%lldx%lldx%lldx%lld%s%s%s%s%s",
		 stx_dtype_name(stx__external_type(a, s, array(t, Q)[STX_ARRAY_ARG])),
		 (long long)size(t, Q, 0), (long long)size(t, Q, 1), (long long)size(t, Q, 2),
		 (long long)size(t, Q, 3), keys, heads, cols,
		 t[STX_ATTENTION_BIASED] ? "_bias" : "", t[STX_ATTENTION_CAUSAL] ? "_causal" : "");
}

static void place(const struct stax_artifact *a, const struct stx__step *s,
		  const struct stx__call *c, void *const *buffers, char *at[STX__CALL_OPERANDS])
{
	for (int i = 0; i < 5; i++) {
		const int64_t *t = array(c->attrs, i);
		int64_t elem = stx_dtype_bytes(stx__external_type(a, s, t[STX_ARRAY_ARG]));
		at[i] = (char *)buffers[t[STX_ARRAY_ARG]] + t[STX_ARRAY_OFFSET] * elem;
	}
}

static stx_err call(const struct stax_artifact *a, const struct stx__context *x,
		    const struct stx__step *s, char *const at[STX__CALL_OPERANDS],
		    const struct stx__way *way, const struct stx_env *env, struct stx_diag *d)
{
	const struct attention *c = s->call;
	int64_t ids[7] = { STX__CUDNN_Q, STX__CUDNN_K, STX__CUDNN_V, STX__CUDNN_O,
			   STX__CUDNN_SCALE };
	void *all[7] = { at[Q], at[K], at[V], at[Y], (void *)(uintptr_t)&c->scale };
	int n = 5;
	(void)a;
	if (c->call.attrs[STX_ATTENTION_CAUSAL]) {
		ids[n] = STX__CUDNN_NEVER;
		all[n++] = (void *)(uintptr_t)&never;
	}
	if (c->call.attrs[STX_ATTENTION_BIASED]) {
		ids[n] = STX__CUDNN_MASK;
		all[n++] = at[BIAS];
	}
	return stx__cudnn_call(x, s, way, n, ids, all, env, d);
}

const struct stx__library stx__attention_library = {
	.number = STX__CUDNN,
	.name = "cuDNN",
	.nattrs = STX_ATTENTION_NATTRS,
	.kept_bytes = sizeof(struct attention),
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
