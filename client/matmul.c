/* matmul.c: the external call STX_CALL_MATMUL: a matrix product, or a batch of them, by cuBLASLt.
 *
 * What is kept of a call (calls.c) are its descriptors; a way to make it is an algorithm of the
 * heuristic's list. Algorithms are named by the library's version and what it lets one set of them,
 * so a name found in another process's list is the same code; timings are known by a digest of
 * types, sizes, layouts, alignment and workspace.
 *
 * Numerics (kernels/NUMERICS.md): sums in f32 for f32, f16 and bf16, f64 and i32; no TF32, no f16
 * accumulators; partial sums of a split product stay in the type of the sum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "cublaslt.h"
#include "dtype.h"

struct product {
	struct stx__call call;
	void *desc, *layout[3];
	uint32_t elem_bytes; /* of the widest operand */
};
_Static_assert(STX_MATMUL_NATTRS <= STX__CALL_ATTRS, "attributes of a call");

static const struct product *product_of(const struct stx__call *c)
{
	return (const struct product *)c;
}

static const int64_t *matrix(const int64_t *attrs, int i)
{
	return attrs + STX_MATMUL_A + 5 * i;
}

/* ---- types ---- */

static int cuda_type(uint8_t t)
{
	switch (t) {
	case STX_F32: return STX_CUDA_R_32F;
	case STX_F64: return STX_CUDA_R_64F;
	case STX_F16: return STX_CUDA_R_16F;
	case STX_BF16: return STX_CUDA_R_16BF;
	case STX_I8: return STX_CUDA_R_8I;
	case STX_I32: return STX_CUDA_R_32I;
	default: return -1;
	}
}

struct scale { /* what is summed in, and 1 and 0 of that type */
	int compute, type;
	union {
		float f;
		double d;
		int32_t i;
	} one, zero;
};

static const struct scale *scale_of(uint8_t operand)
{
	static const struct scale f32 = {
		STX_CUBLAS_COMPUTE_32F, STX_CUDA_R_32F, { .f = 1 }, { .f = 0 }
	};
	static const struct scale f64 = {
		STX_CUBLAS_COMPUTE_64F, STX_CUDA_R_64F, { .d = 1 }, { .d = 0 }
	};
	static const struct scale i32 = {
		STX_CUBLAS_COMPUTE_32I, STX_CUDA_R_32I, { .i = 1 }, { .i = 0 }
	};
	return operand == STX_F64 ? &f64 : operand == STX_I8 ? &i32 : &f32;
}

/* ---- what the plan asks for ---- */

/* The matrices lie within their value. */
static int fits(const struct stax_artifact *a, const struct stx__context *x,
		const struct stx__step *s, const int64_t *m, int64_t rows, int64_t cols,
		int64_t batch)
{
	const int64_t sizes[3] = { rows, cols, batch };
	const int64_t strides[3] = { 1, m[STX_MATRIX_LD], m[STX_MATRIX_STRIDE] };
	return m[STX_MATRIX_LD] >= rows &&
	       stx__external_fits(a, x, s, m[STX_MATRIX_ARG], m[STX_MATRIX_OFFSET], 3, sizes,
				  strides);
}

static int bias_fits(const struct stax_artifact *a, const struct stx__context *x,
		     const struct stx__step *s, const int64_t *t)
{
	static const int64_t stride = 1;
	return !t[STX_MATMUL_EPILOGUE] ||
	       stx__external_fits(a, x, s, t[STX_MATMUL_BIAS], t[STX_MATMUL_BIAS_OFFSET], 1,
				  &t[STX_MATMUL_ROWS], &stride);
}

static int is_plausible(const struct stax_artifact *a, const struct stx__step *s, const int64_t *t)
{
	uint8_t type[3];
	for (int i = 0; i < 3; i++) {
		const int64_t *m = matrix(t, i);
		if (m[STX_MATRIX_ARG] < 0 || m[STX_MATRIX_ARG] >= s->nparams ||
		    m[STX_MATRIX_TRANSPOSED] < 0 || m[STX_MATRIX_TRANSPOSED] > (i < 2))
			return 0;
		type[i] = stx__external_type(a, s, m[STX_MATRIX_ARG]);
		if (cuda_type(type[i]) < 0)
			return 0;
	}
	for (int i = STX_MATMUL_ROWS; i <= STX_MATMUL_BATCH; i++)
		if (t[i] < 0 || t[i] > INT32_MAX)
			return 0;
	if (t[STX_MATMUL_EPILOGUE] && (t[STX_MATMUL_EPILOGUE] != STX_EPILOGUE_BIAS ||
				       t[STX_MATMUL_BIAS] < 0 || t[STX_MATMUL_BIAS] >= s->nparams ||
				       stx__external_type(a, s, t[STX_MATMUL_BIAS]) != type[2] ||
				       scale_of(type[0])->type != STX_CUDA_R_32F))
		return 0;
	return type[0] == type[1] && type[0] != STX_I32 &&
	       (type[0] == STX_I8) == (type[2] == STX_I32) &&
	       (type[0] == STX_F64) == (type[2] == STX_F64) &&
	       (type[2] == type[0] || type[2] == STX_F32 || type[2] == STX_I32) &&
	       stx_plan_extern_of(&a->plan, s->plan)->workspace != STX_PLAN_NONE;
}

static int is_empty(const int64_t *t)
{
	return !t[STX_MATMUL_ROWS] || !t[STX_MATMUL_COLS] || !t[STX_MATMUL_BATCH] ||
	       !t[STX_MATMUL_INNER];
}

stx_err stx__matmul_bind(const struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			 struct stx_diag *d)
{
	int64_t t[STX_MATMUL_NATTRS];
	int ok = stx__external_attrs(a, x, s, STX_MATMUL_NATTRS, t) && is_plausible(a, s, t);
	if (ok && !is_empty(t)) {
		int64_t m = t[STX_MATMUL_ROWS], n = t[STX_MATMUL_COLS], k = t[STX_MATMUL_INNER];
		const int64_t size[3][2] = { { m, k }, { k, n }, { m, n } };
		for (int i = 0; i < 3; i++) {
			int r = matrix(t, i)[STX_MATRIX_TRANSPOSED] != 0;
			ok = ok && fits(a, x, s, matrix(t, i), size[i][r], size[i][!r],
					t[STX_MATMUL_BATCH]);
		}
		ok = ok && bias_fits(a, x, s, t);
	}
	return ok ? STX_E_OK
		  : stx_fail(d, STX_E_CORRUPT, "plan", STX_CALL_MATMUL,
			     "data plan: a matrix product that cannot be");
}

/* ---- descriptors ---- */

static int has_library(struct stx_diag *d)
{
	return stx__cublaslt(d) != NULL;
}

static int create(void **handle)
{
	return stx__cublaslt(NULL)->create(handle);
}

static void destroy(void *handle)
{
	stx__cublaslt(NULL)->destroy(handle);
}

static void drop(struct stx__call *call)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	struct product *c = (struct product *)call;
	for (int i = 0; i < 3; i++)
		if (c->layout[i])
			q->layout_destroy(c->layout[i]);
	if (c->desc)
		q->desc_destroy(c->desc);
}

static int make_layout(const struct stx__cublaslt *q, struct product *c, int i, int type)
{
	const int64_t *t = c->call.attrs, *m = matrix(t, i);
	int64_t rows = i == 1 ? t[STX_MATMUL_INNER] : t[STX_MATMUL_ROWS];
	int64_t cols = i == 0 ? t[STX_MATMUL_INNER] : t[STX_MATMUL_COLS];
	int32_t batch = (int32_t)t[STX_MATMUL_BATCH];
	int r = m[STX_MATRIX_TRANSPOSED] != 0, result;
	result = q->layout_create(&c->layout[i], type, (uint64_t)(r ? cols : rows),
				  (uint64_t)(r ? rows : cols), m[STX_MATRIX_LD]);
	if (!result && batch > 1)
		result = q->layout_set(c->layout[i], STX_CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
				       sizeof batch);
	if (!result && batch > 1)
		result =
			q->layout_set(c->layout[i], STX_CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
				      &m[STX_MATRIX_STRIDE], sizeof m[STX_MATRIX_STRIDE]);
	return result;
}

static int make_descriptors(const struct stax_artifact *a, const struct stx__step *s,
			    struct stx__call *call)
{
	struct product *c = (struct product *)call;
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	const int attribute[2] = { STX_CUBLASLT_MATMUL_DESC_TRANSA,
				   STX_CUBLASLT_MATMUL_DESC_TRANSB };
	const struct scale *by =
		scale_of(stx__external_type(a, s, matrix(call->attrs, 0)[STX_MATRIX_ARG]));
	int result = q->desc_create(&c->desc, by->compute, by->type);
	for (int i = 0; i < 2 && !result; i++) {
		int32_t op = matrix(call->attrs, i)[STX_MATRIX_TRANSPOSED] ? STX_CUBLAS_OP_T
									   : STX_CUBLAS_OP_N;
		result = q->desc_set(c->desc, attribute[i], &op, sizeof op);
	}
	uint32_t epilogue = STX_CUBLASLT_EPILOGUE_BIAS;
	if (!result && call->attrs[STX_MATMUL_EPILOGUE])
		result = q->desc_set(c->desc, STX_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
				     sizeof epilogue);
	for (int i = 0; i < 3 && !result; i++) {
		uint8_t t = stx__external_type(a, s, matrix(call->attrs, i)[STX_MATRIX_ARG]);
		uint32_t bytes = (uint32_t)stx_dtype_bytes(t);
		c->elem_bytes = bytes > c->elem_bytes ? bytes : c->elem_bytes;
		result = make_layout(q, c, i, cuda_type(t));
	}
	return result;
}

/* ---- algorithms ---- */

static int prefer(const struct stx__cublaslt *q, void *preference, const struct stx__call *c,
		  uint32_t alignment)
{
	static const int alignments[] = { STX_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
					  STX_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
					  STX_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
					  STX_CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES };
	uint64_t workspace = c->workspace_bytes;
	uint64_t mask = ~(STX_CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32 |
			  STX_CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F);
	uint32_t scheme = STX_CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
	int result = q->preference_set(preference, STX_CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
				       &workspace, sizeof workspace);
	if (!result)
		result = q->preference_set(preference,
					   STX_CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &scheme,
					   sizeof scheme);
	if (!result)
		result = q->preference_set(preference, STX_CUBLASLT_MATMUL_PREF_IMPL_MASK, &mask,
					   sizeof mask);
	for (int i = 0; i < 4 && !result; i++)
		result = q->preference_set(preference, alignments[i], &alignment, sizeof alignment);
	return result;
}

/* Of the algorithm: the same in every process with this library. */
static void name_way(const struct stx__cublaslt *q, struct stx__way *w)
{
	static const struct {
		const char *name;
		int attribute;
		size_t bytes;
		uint32_t usual;
	} parts[] = {
		{ "algo", STX_CUBLASLT_ALGO_CONFIG_ID, 4, UINT32_MAX },
		{ "tile", STX_CUBLASLT_ALGO_CONFIG_TILE_ID, 4, UINT32_MAX },
		{ "stages", STX_CUBLASLT_ALGO_CONFIG_STAGES_ID, 4, UINT32_MAX },
		{ "split", STX_CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4, 1 },
		{ "sum", STX_CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4, 0 },
		{ "swizzle", STX_CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, 0 },
		{ "custom", STX_CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4, 0 },
		{ "inner", STX_CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2, 0 },
		{ "cluster", STX_CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2, 0 },
	};
	size_t n = (size_t)snprintf(w->name, sizeof w->name, "lt%zu", q->version()), version = n;
	for (unsigned i = 0; i < sizeof parts / sizeof *parts && n < sizeof w->name; i++) {
		uint32_t v = 0;
		size_t written;
		if (!q->algorithm_get(w->algorithm, parts[i].attribute, &v, parts[i].bytes,
				      &written) &&
		    v != parts[i].usual)
			n += (size_t)snprintf(w->name + n, sizeof w->name - n, " %s=%u",
					      parts[i].name, v);
	}
	if (n > version && n < sizeof w->name)
		return;
	char hex[STX_DIGEST_HEX];
	struct stx_digest all = stx_digest_of(w->algorithm, sizeof w->algorithm);
	stx_digest_hex(&all, hex);
	snprintf(w->name + version, sizeof w->name - version, " algo#%.16s", hex);
}

/* The descriptor is all contexts': where the bias lies is set before each use, under the code's
 * lock. 0: done, or there is none. */
static int point_at_bias(const struct stx__call *c, char *const at[4])
{
	const void *bias = at[3];
	return c->attrs[STX_MATMUL_EPILOGUE]
		       ? stx__cublaslt(NULL)->desc_set(product_of(c)->desc,
						       STX_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
						       sizeof bias)
		       : 0;
}

static uint32_t list(const struct stx__gpu_code *g, struct stx__call *call, int is_aligned,
		     char *const at[STX__CALL_OPERANDS], uint32_t most, struct stx__way *out)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	const struct product *c = product_of(call);
	struct stx__cublaslt_result found[STX_TIMINGS_MAX];
	void *preference = NULL;
	uint32_t count = 0;
	int n = 0;
	memset(found, 0, sizeof found);
	if (point_at_bias(call, at) || q->preference_create(&preference))
		return 0;
	if (prefer(q, preference, call, is_aligned ? STX__CALL_ALIGNMENT : c->elem_bytes) ||
	    q->heuristic(g->library[STX__CUBLASLT].handle, c->desc, c->layout[0], c->layout[1],
			 c->layout[2], c->layout[2], preference, (int)most, found, &n))
		n = 0;
	for (uint32_t i = 0; i < (uint32_t)n && i < most; i++) {
		struct stx__way *w = &out[count];
		uint32_t same = 0;
		if (found[i].status != STX_CUBLAS_STATUS_SUCCESS ||
		    found[i].workspace_bytes > call->workspace_bytes)
			continue;
		*w = (struct stx__way){ .is_kernel = 0 };
		memcpy(w->algorithm, found[i].algorithm, sizeof w->algorithm);
		name_way(q, w);
		while (same < count && strcmp(out[same].name, w->name) != 0)
			same++;
		count += same == count;
	}
	q->preference_destroy(preference);
	return count;
}

static struct stx_digest digest_of(const struct stax_artifact *a, const struct stx__step *s,
				   const int64_t *t, size_t workspace_bytes, int is_aligned)
{
	int64_t all[20] = { 1, is_aligned, (int64_t)workspace_bytes }; /* 1: of this form */
	int n = 3;
	for (int i = STX_MATMUL_ROWS; i <= STX_MATMUL_BATCH; i++)
		all[n++] = t[i];
	for (int i = 0; i < 3; i++) {
		const int64_t *m = matrix(t, i);
		all[n++] = stx__external_type(a, s, m[STX_MATRIX_ARG]);
		all[n++] = m[STX_MATRIX_TRANSPOSED];
		all[n++] = m[STX_MATRIX_LD];
		all[n++] = t[STX_MATMUL_BATCH] > 1 ? m[STX_MATRIX_STRIDE] : 0;
	}
	all[n] = t[STX_MATMUL_EPILOGUE];
	return stx_digest_of(all, sizeof all);
}

static void name_call(const struct stax_artifact *a, const struct stx__step *s, const int64_t *t,
		      char *out, size_t cap)
{
	size_t n = (size_t)snprintf(
		out, cap, "matmul_%s_%lldx%lldx%lld_%c%c",
		stx_dtype_name(stx__external_type(a, s, matrix(t, 0)[STX_MATRIX_ARG])),
		(long long)t[STX_MATMUL_ROWS], (long long)t[STX_MATMUL_COLS],
		(long long)t[STX_MATMUL_INNER], matrix(t, 0)[STX_MATRIX_TRANSPOSED] ? 't' : 'n',
		matrix(t, 1)[STX_MATRIX_TRANSPOSED] ? 't' : 'n');
	if (t[STX_MATMUL_BATCH] > 1 && n < cap)
		n += (size_t)snprintf(out + n, cap - n, "_b%lld", (long long)t[STX_MATMUL_BATCH]);
	if (t[STX_MATMUL_EPILOGUE] && n < cap)
		snprintf(out + n, cap - n, "_bias");
}

static void place(const struct stax_artifact *a, const struct stx__step *s,
		  const struct stx__call *c, void *const *buffers, char *at[STX__CALL_OPERANDS])
{
	for (int i = 0; i < 3; i++) {
		const int64_t *m = matrix(c->attrs, i);
		int64_t elem = stx_dtype_bytes(stx__external_type(a, s, m[STX_MATRIX_ARG]));
		at[i] = (char *)buffers[m[STX_MATRIX_ARG]] + m[STX_MATRIX_OFFSET] * elem;
	}
	const int64_t *t = c->attrs;
	at[3] = at[2];
	if (t[STX_MATMUL_EPILOGUE])
		at[3] = (char *)buffers[t[STX_MATMUL_BIAS]] +
			t[STX_MATMUL_BIAS_OFFSET] *
				stx_dtype_bytes(stx__external_type(a, s, t[STX_MATMUL_BIAS]));
}

/* What the library says before it has begun: then the kernel can still do it. */
static int is_refusal(int status)
{
	return status == STX_CUBLAS_STATUS_NOT_SUPPORTED ||
	       status == STX_CUBLAS_STATUS_INVALID_VALUE ||
	       status == STX_CUBLAS_STATUS_ARCH_MISMATCH ||
	       status == STX_CUBLAS_STATUS_ALLOC_FAILED;
}

static stx_err call(const struct stax_artifact *a, const struct stx__context *x,
		    const struct stx__step *s, char *const at[STX__CALL_OPERANDS],
		    const struct stx__way *way, const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	const struct stx__call *kept = s->call;
	const struct product *c = product_of(kept);
	struct stx__gpu_code *g = x->gpu->code;
	const struct scale *by =
		scale_of(stx__external_type(a, s, matrix(kept->attrs, 0)[STX_MATRIX_ARG]));
	int has_bias = kept->attrs[STX_MATMUL_EPILOGUE] != STX_EPILOGUE_NONE;
	if (has_bias)
		pthread_mutex_lock(&g->lock);
	int status = point_at_bias(kept, at);
	if (!status)
		status = q->matmul(g->library[STX__CUBLASLT].handle, c->desc, &by->one, at[0],
				   c->layout[0], at[1], c->layout[1], &by->zero, at[2],
				   c->layout[2], at[2], c->layout[2], way->algorithm,
				   stx__external_workspace_at(s), kept->workspace_bytes,
				   env ? env->stream : NULL);
	if (has_bias)
		pthread_mutex_unlock(&g->lock);
	if (!status)
		return STX_E_OK;
	if (is_refusal(status))
		return stx__call_cannot(s, q->status_name(status), d);
	return stx_fail(d, STX_E_INTERNAL, "cuda", STX_CALL_MATMUL, "cuBLASLt: %s",
			q->status_name(status));
}

const struct stx__library stx__matmul_library = {
	.number = STX__CUBLASLT,
	.name = "cuBLASLt",
	.nattrs = STX_MATMUL_NATTRS,
	.kept_bytes = sizeof(struct product),
	.is_there = has_library,
	.create = create,
	.destroy = destroy,
	.is_empty = is_empty,
	.make = make_descriptors,
	.drop = drop,
	.place = place,
	.list = list,
	.digest = digest_of,
	.name_call = name_call,
	.call = call,
};
