/* matmul.c: the external call STX_CALL_MATMUL: a matrix product, or a batch of them, by cuBLASLt.
 *
 * What a call needs (descriptors, the heuristic's list of algorithms) is made at its first run for
 * a device and set of sizes and kept with the artifact's code on that device, so a run is one call
 * of the library. The list depends on whether the operands lie on 16 bytes: there are two. Its
 * first algorithm is taken unless timings are known (calls.c); the step's kernel is a way too.
 * Algorithms are named by the library's version and what it lets one set of them, so a name found
 * in another process's list is the same code; timings are known by a digest of types, sizes,
 * layouts, alignment and workspace.
 *
 * Numerics (kernels/NUMERICS.md): sums in f32 for f32, f16 and bf16, f64 and i32; no TF32, no f16
 * accumulators; partial sums of a split product stay in the type of the sum. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cublaslt.h"
#include "cuda.h"
#include "dtype.h"

#define ALIGNMENT   16u /* of operands, bytes that vector loads want */
#define MAX_WAYS    7   /* algorithms that are asked for: with the kernel, LC-04's eight */
#define MAX_ENTRIES 8   /* of a step and device: sets of sizes kept although no context uses them */

struct algorithms {
	_Atomic uint32_t settled; /* epoch of what was known when the choice was made; 0: never */
	_Atomic uint32_t chosen;  /* n: the kernel, or there is no algorithm */
	uint32_t n;
	int asked;
	struct stx__way at[MAX_WAYS];
};

struct stx__matmul { /* of a step and a device: one set of sizes */
	struct stx__matmul *next;
	_Atomic uint32_t uses; /* by contexts */
	int64_t attrs[STX_MATMUL_NATTRS];
	void *desc, *layout[3];
	size_t workspace_bytes;
	uint32_t elem_bytes;     /* of the widest operand */
	struct algorithms of[2]; /* of operands on 16 bytes; on their elements only */
};

static const int64_t *matrix(const int64_t *attrs, int i)
{
	return attrs + STX_MATMUL_A + 5 * i;
}

static int attributes(const struct stax_artifact *a, const struct stx__context *x,
		      const struct stx__step *s, int64_t out[STX_MATMUL_NATTRS])
{
	return stx__external_attrs(a, x, s, STX_MATMUL_NATTRS, out);
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

static uint8_t type_of(const struct stax_artifact *a, const struct stx__step *s, int64_t arg)
{
	return a->plan.values[stx_plan_u32s(&a->plan, s->plan->args)[arg]].dtype;
}

/* ---- what the plan asks for ---- */

static int64_t plus_times(int64_t sum, int64_t a, int64_t b, int *ok)
{
	int64_t p;
	*ok = *ok && !__builtin_mul_overflow(a, b, &p) && !__builtin_add_overflow(sum, p, &sum);
	return sum;
}

/* The matrices lie within their value. */
static int fits(const struct stax_artifact *a, const struct stx__context *x,
		const struct stx__step *s, const int64_t *m, int64_t rows, int64_t cols,
		int64_t batch)
{
	uint32_t value = stx_plan_u32s(&a->plan, s->plan->args)[m[STX_MATRIX_ARG]];
	int64_t elem = stx_dtype_bytes(a->plan.values[value].dtype), last = m[STX_MATRIX_OFFSET];
	int ok = last >= 0 && m[STX_MATRIX_STRIDE] >= 0 && m[STX_MATRIX_LD] >= rows &&
		 m[STX_MATRIX_LD] > 0;
	last = plus_times(last + rows - 1, cols - 1, m[STX_MATRIX_LD], &ok);
	last = plus_times(last, batch - 1, m[STX_MATRIX_STRIDE], &ok);
	return ok && last < INT64_MAX / 16 && (last + 1) * elem <= x->values[value].bytes;
}

static int bias_fits(const struct stax_artifact *a, const struct stx__context *x,
		     const struct stx__step *s, const int64_t *t)
{
	if (!t[STX_MATMUL_EPILOGUE])
		return 1;
	uint32_t value = stx_plan_u32s(&a->plan, s->plan->args)[t[STX_MATMUL_BIAS]];
	int64_t elem = stx_dtype_bytes(a->plan.values[value].dtype), end;
	return t[STX_MATMUL_BIAS_OFFSET] >= 0 &&
	       !__builtin_add_overflow(t[STX_MATMUL_BIAS_OFFSET], t[STX_MATMUL_ROWS], &end) &&
	       end <= x->values[value].bytes / elem;
}

static int is_plausible(const struct stax_artifact *a, const struct stx__step *s, const int64_t *t)
{
	uint8_t type[3];
	for (int i = 0; i < 3; i++) {
		const int64_t *m = matrix(t, i);
		if (m[STX_MATRIX_ARG] < 0 || m[STX_MATRIX_ARG] >= s->nparams ||
		    m[STX_MATRIX_TRANSPOSED] < 0 || m[STX_MATRIX_TRANSPOSED] > (i < 2))
			return 0;
		type[i] = type_of(a, s, m[STX_MATRIX_ARG]);
		if (cuda_type(type[i]) < 0)
			return 0;
	}
	for (int i = STX_MATMUL_ROWS; i <= STX_MATMUL_BATCH; i++)
		if (t[i] < 0 || t[i] > INT32_MAX)
			return 0;
	if (t[STX_MATMUL_EPILOGUE] &&
	    (t[STX_MATMUL_EPILOGUE] != STX_EPILOGUE_BIAS || t[STX_MATMUL_BIAS] < 0 ||
	     t[STX_MATMUL_BIAS] >= s->nparams || type_of(a, s, t[STX_MATMUL_BIAS]) != type[2] ||
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
	return !t[STX_MATMUL_ROWS] || !t[STX_MATMUL_COLS] || !t[STX_MATMUL_BATCH];
}

stx_err stx__matmul_bind(const struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			 struct stx_diag *d)
{
	int64_t t[STX_MATMUL_NATTRS];
	int ok = attributes(a, x, s, t) && is_plausible(a, s, t);
	if (ok && !is_empty(t) && t[STX_MATMUL_INNER]) {
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

static void entry_free(struct stx__matmul *c)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	for (int i = 0; i < 3; i++)
		if (c->layout[i])
			q->layout_destroy(c->layout[i]);
	if (c->desc)
		q->desc_destroy(c->desc);
	free(c);
}

static int make_layout(const struct stx__cublaslt *q, struct stx__matmul *c, int i, int type)
{
	const int64_t *t = c->attrs, *m = matrix(t, i);
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
			    struct stx__matmul *c)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	const int attribute[2] = { STX_CUBLASLT_MATMUL_DESC_TRANSA,
				   STX_CUBLASLT_MATMUL_DESC_TRANSB };
	const struct scale *by = scale_of(type_of(a, s, matrix(c->attrs, 0)[STX_MATRIX_ARG]));
	int result = q->desc_create(&c->desc, by->compute, by->type);
	for (int i = 0; i < 2 && !result; i++) {
		int32_t op = matrix(c->attrs, i)[STX_MATRIX_TRANSPOSED] ? STX_CUBLAS_OP_T
									: STX_CUBLAS_OP_N;
		result = q->desc_set(c->desc, attribute[i], &op, sizeof op);
	}
	uint32_t epilogue = STX_CUBLASLT_EPILOGUE_BIAS;
	if (!result && c->attrs[STX_MATMUL_EPILOGUE])
		result = q->desc_set(c->desc, STX_CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
				     sizeof epilogue);
	for (int i = 0; i < 3 && !result; i++) {
		uint8_t t = type_of(a, s, matrix(c->attrs, i)[STX_MATRIX_ARG]);
		uint32_t bytes = (uint32_t)stx_dtype_bytes(t);
		c->elem_bytes = bytes > c->elem_bytes ? bytes : c->elem_bytes;
		result = make_layout(q, c, i, cuda_type(t));
	}
	return result;
}

/* Frees what no context uses beyond MAX_ENTRIES, the oldest last in the list. */
static void trim(struct stx__matmul **list)
{
	int n = 0;
	for (struct stx__matmul **at = list; *at;) {
		struct stx__matmul *c = *at;
		if (++n <= MAX_ENTRIES || c->uses) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		entry_free(c);
	}
}

/* The entry of the step for these attributes, made when there is none. NULL: no memory, or the
 * library makes no such descriptors. requires: g->lock. */
static struct stx__matmul *entry(struct stax_artifact *a, struct stx__context *x,
				 struct stx__step *s, const int64_t *attrs)
{
	struct stx__matmul **list = &x->gpu->code->matmuls[s - x->steps], *c = *list;
	while (c && memcmp(c->attrs, attrs, sizeof c->attrs) != 0)
		c = c->next;
	if (!c && (c = calloc(1, sizeof *c))) {
		memcpy(c->attrs, attrs, sizeof c->attrs);
		c->workspace_bytes = stx__external_workspace(a, x, s);
		if (make_descriptors(a, s, c)) {
			entry_free(c);
			return NULL;
		}
		c->next = *list;
		*list = c;
		trim(list);
	}
	if (c)
		c->uses++;
	return c;
}

static stx_err cannot(struct stx_diag *d, const char *why)
{
	return stx_fail(d, STX_E_UNSUPPORTED, "cuda", STX_CALL_MATMUL, "cuBLASLt: %s", why);
}

static stx_err acquire(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct stx_diag *d)
{
	struct stx__gpu_code *g = x->gpu->code;
	const struct stx__cublaslt *q = stx__cublaslt(d);
	int64_t attrs[STX_MATMUL_NATTRS];
	if (!q)
		return STX_E_UNSUPPORTED;
	if (!attributes(a, x, s, attrs) || is_empty(attrs) || !attrs[STX_MATMUL_INNER])
		return cannot(d, "an empty product");
	pthread_mutex_lock(&g->lock);
	if (!g->cublaslt && !g->no_cublaslt)
		g->no_cublaslt = q->create(&g->cublaslt) != 0;
	s->call = g->no_cublaslt ? NULL : entry(a, x, s, attrs);
	pthread_mutex_unlock(&g->lock);
	return s->call ? STX_E_OK : cannot(d, "it cannot be used on this device");
}

void stx__matmul_release(struct stax_artifact *a, struct stx__step *s)
{
	struct stx__matmul *c = s->call;
	(void)a;
	s->call = NULL;
	atomic_fetch_sub(&c->uses, 1);
}

void stx__matmul_free(struct stx__gpu_code *g, uint32_t nsteps)
{
	for (uint32_t i = 0; g->matmuls && i < nsteps; i++)
		while (g->matmuls[i]) {
			struct stx__matmul *c = g->matmuls[i];
			g->matmuls[i] = c->next;
			entry_free(c);
		}
	if (g->cublaslt)
		stx__cublaslt(NULL)->destroy(g->cublaslt);
}

/* ---- algorithms ---- */

static int prefer(const struct stx__cublaslt *q, void *preference, const struct stx__matmul *c,
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

/* The heuristic's list: its length, most at most. An error is an empty list: the kernel does it. */
static uint32_t ask(const struct stx__gpu_code *g, const struct stx__matmul *c, int is_aligned,
		    uint32_t most, struct stx__way *out)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	struct stx__cublaslt_result found[STX_TIMINGS_MAX];
	void *preference = NULL;
	uint32_t count = 0;
	int n = 0;
	memset(found, 0, sizeof found);
	if (q->preference_create(&preference))
		return 0;
	if (prefer(q, preference, c, is_aligned ? ALIGNMENT : c->elem_bytes) ||
	    q->heuristic(g->cublaslt, c->desc, c->layout[0], c->layout[1], c->layout[2],
			 c->layout[2], preference, (int)most, found, &n))
		n = 0;
	for (uint32_t i = 0; i < (uint32_t)n && i < most; i++) {
		struct stx__way *w = &out[count];
		uint32_t same = 0;
		if (found[i].status != STX_CUBLAS_STATUS_SUCCESS ||
		    found[i].workspace_bytes > c->workspace_bytes)
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

/* What timings of the call are known by: all that decides which algorithms there are and how fast
 * they are, but for device and library. */
static struct stx_digest digest_of(const struct stax_artifact *a, const struct stx__step *s,
				   const int64_t *t, size_t workspace_bytes, int is_aligned)
{
	int64_t all[20] = { 1, is_aligned, (int64_t)workspace_bytes }; /* 1: of this form */
	int n = 3;
	for (int i = STX_MATMUL_ROWS; i <= STX_MATMUL_BATCH; i++)
		all[n++] = t[i];
	for (int i = 0; i < 3; i++) {
		const int64_t *m = matrix(t, i);
		all[n++] = type_of(a, s, m[STX_MATRIX_ARG]);
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
	size_t n = (size_t)snprintf(out, cap, "matmul_%s_%lldx%lldx%lld_%c%c",
				    stx_dtype_name(type_of(a, s, matrix(t, 0)[STX_MATRIX_ARG])),
				    (long long)t[STX_MATMUL_ROWS], (long long)t[STX_MATMUL_COLS],
				    (long long)t[STX_MATMUL_INNER],
				    matrix(t, 0)[STX_MATRIX_TRANSPOSED] ? 't' : 'n',
				    matrix(t, 1)[STX_MATRIX_TRANSPOSED] ? 't' : 'n');
	if (t[STX_MATMUL_BATCH] > 1 && n < cap)
		n += (size_t)snprintf(out + n, cap - n, "_b%lld", (long long)t[STX_MATMUL_BATCH]);
	if (t[STX_MATMUL_EPILOGUE] && n < cap)
		snprintf(out + n, cap - n, "_bias");
}

/* The list l, the kernel behind it, as others see them. */
static void list_ways(const struct stax_artifact *a, const struct stx__step *s,
		      const struct stx__matmul *c, int is_aligned, struct stx__ways *out)
{
	out->call = digest_of(a, s, c->attrs, c->workspace_bytes, is_aligned);
	name_call(a, s, c->attrs, out->what, sizeof out->what);
	if (s->kernel != STX_PLAN_NONE && out->n && out->n < STX_TIMINGS_MAX)
		stx__way_of_kernel(a, s, &out->at[out->n++]);
}

/* Asks for the list when there is none, and chooses by what is known. requires: the code's lock. */
static void settle(struct stax_artifact *a, const struct stx__gpu_code *g,
		   const struct stx__step *s, const struct stx__matmul *c, struct algorithms *l)
{
	int is_aligned = l == &c->of[0];
	struct stx__ways *w = calloc(1, sizeof *w);
	if (!l->asked)
		l->n = ask(g, c, is_aligned, MAX_WAYS, l->at);
	l->asked = 1;
	if (w) {
		w->n = l->n;
		memcpy(w->at, l->at, sizeof l->at);
		list_ways(a, s, c, is_aligned, w);
		atomic_store_explicit(&l->chosen, stx__call_choose(a, w), memory_order_relaxed);
	}
	free(w);
}

struct operands {
	char *at[4]; /* A, B, D, the bias or D */
	struct algorithms *algorithms;
	uint32_t chosen;
};

static void place(const struct stax_artifact *a, const struct stx__step *s,
		  const struct stx__matmul *c, void *const *buffers, char *at[4])
{
	for (int i = 0; i < 3; i++) {
		const int64_t *m = matrix(c->attrs, i);
		int64_t elem = stx_dtype_bytes(type_of(a, s, m[STX_MATRIX_ARG]));
		at[i] = (char *)buffers[m[STX_MATRIX_ARG]] + m[STX_MATRIX_OFFSET] * elem;
	}
	const int64_t *t = c->attrs;
	at[3] = at[2];
	if (t[STX_MATMUL_EPILOGUE])
		at[3] = (char *)buffers[t[STX_MATMUL_BIAS]] +
			t[STX_MATMUL_BIAS_OFFSET] *
				stx_dtype_bytes(type_of(a, s, t[STX_MATMUL_BIAS]));
}

/* The descriptor is all contexts': where the bias lies is set before each use, under the code's
 * lock. 0: done, or there is none. */
static int point_at_bias(const struct stx__matmul *c, char *const at[4])
{
	const void *bias = at[3];
	return c->attrs[STX_MATMUL_EPILOGUE]
		       ? stx__cublaslt(NULL)->desc_set(
				 c->desc, STX_CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias)
		       : 0;
}

/* Where the operands of s lie now, and the algorithms for that. */
static stx_err prepare(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       struct operands *o, struct stx_diag *d)
{
	struct stx__matmul *c = s->call;
	uintptr_t all = 0;
	stx_err e = c ? STX_E_OK : acquire(a, x, s, d);
	if (e)
		return e;
	c = s->call;
	place(a, s, c, s->frame.buffers, o->at);
	for (int i = 0; i < 4; i++)
		all |= (uintptr_t)o->at[i];
	struct algorithms *l = o->algorithms = &c->of[all % ALIGNMENT != 0];
	uint32_t epoch = atomic_load_explicit(&a->gpu->calls_epoch, memory_order_acquire);
	if (atomic_load_explicit(&l->settled, memory_order_acquire) != epoch) {
		pthread_mutex_lock(&x->gpu->code->lock);
		if (atomic_load_explicit(&l->settled, memory_order_relaxed) != epoch &&
		    !point_at_bias(c, o->at))
			settle(a, x->gpu->code, s, c, l);
		atomic_store_explicit(&l->settled, epoch, memory_order_release);
		pthread_mutex_unlock(&x->gpu->code->lock);
	}
	o->chosen = atomic_load_explicit(&l->chosen, memory_order_relaxed);
	return STX_E_OK;
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
		    const struct stx__step *s, char *const at[4], const uint64_t *algorithm,
		    const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	const struct stx__matmul *c = s->call;
	const struct scale *by = scale_of(type_of(a, s, matrix(c->attrs, 0)[STX_MATRIX_ARG]));
	int has_bias = c->attrs[STX_MATMUL_EPILOGUE] != STX_EPILOGUE_NONE;
	if (has_bias)
		pthread_mutex_lock(&x->gpu->code->lock);
	int status = point_at_bias(c, at);
	if (!status)
		status = q->matmul(x->gpu->code->cublaslt, c->desc, &by->one, at[0], c->layout[0],
				   at[1], c->layout[1], &by->zero, at[2], c->layout[2], at[2],
				   c->layout[2], algorithm, stx__external_workspace_at(s),
				   c->workspace_bytes, env ? env->stream : NULL);
	if (has_bias)
		pthread_mutex_unlock(&x->gpu->code->lock);
	if (!status)
		return STX_E_OK;
	if (is_refusal(status))
		return cannot(d, q->status_name(status));
	return stx_fail(d, STX_E_INTERNAL, "cuda", STX_CALL_MATMUL, "cuBLASLt: %s",
			q->status_name(status));
}

stx_err stx__matmul_run(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			const struct stx_env *env, struct stx_diag *d)
{
	struct operands o;
	stx_err e = prepare(a, x, s, &o, d);
	if (e)
		return e;
	if (o.chosen >= o.algorithms->n)
		return cannot(d, o.algorithms->n ? "the kernel is faster"
						 : "no algorithm for these sizes and types");
	return call(a, x, s, o.at, o.algorithms->at[o.chosen].algorithm, env, d);
}

/* ---- for whoever measures ---- */

stx_err stx__matmul_ways(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			 uint32_t most, struct stx__ways *out, struct stx_diag *d)
{
	struct operands o;
	stx_err e = prepare(a, x, s, &o, d);
	if (e)
		return e;
	const struct stx__matmul *c = s->call;
	int is_aligned = o.algorithms == &c->of[0];
	most = most < STX_TIMINGS_MAX ? most : STX_TIMINGS_MAX - 1;
	out->n = o.algorithms->n;
	if (most) {
		pthread_mutex_lock(&x->gpu->code->lock);
		out->n = point_at_bias(c, o.at) ? 0
						: ask(x->gpu->code, c, is_aligned, most, out->at);
		pthread_mutex_unlock(&x->gpu->code->lock);
	}
	if (!most)
		memcpy(out->at, o.algorithms->at, sizeof o.algorithms->at);
	list_ways(a, s, c, is_aligned, out);
	return out->n ? STX_E_OK : cannot(d, "no algorithm for these sizes and types");
}

stx_err stx__matmul_run_way(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			    const struct stx__way *way, void *const *buffers,
			    const struct stx_env *env, struct stx_diag *d)
{
	char *at[4];
	place(a, s, s->call, buffers, at);
	return call(a, x, s, at, way->algorithm, env, d);
}

uint32_t stx__matmul_digests(const struct stax_artifact *a, const struct stx__context *x,
			     const struct stx__step *s, struct stx_digest out[2])
{
	int64_t t[STX_MATMUL_NATTRS];
	if (!attributes(a, x, s, t) || is_empty(t) || !t[STX_MATMUL_INNER])
		return 0;
	for (int i = 0; i < 2; i++)
		out[i] = digest_of(a, s, t, stx__external_workspace(a, x, s), !i);
	return 2;
}
