/* matmul.c: the external call STX_CALL_MATMUL: a matrix product, or a batch of them, by cuBLASLt.
 *
 * What a call needs (descriptors, the heuristic's list of algorithms) is made at its first run for
 * a device and set of sizes and kept with the artifact's code on that device, so a run is one call
 * of the library. The list depends on whether the operands lie on 16 bytes: there are two. Its
 * first algorithm is taken until stx__matmul_choose says otherwise; way n of n + 1 is the step's
 * kernel.
 *
 * Numerics (kernels/NUMERICS.md): sums in f32 for f32, f16 and bf16, f64 and i32; no TF32, no f16
 * accumulators; partial sums of a split product stay in the type of the sum. */
#include <stdlib.h>
#include <string.h>

#include "cublaslt.h"
#include "cuda.h"
#include "dtype.h"

#define ALIGNMENT       16u  /* of operands, bytes that vector loads want */
#define WORKSPACE_ALIGN 256u /* of its memory; the plan's temporaries lie on 64 */
#define MAX_WAYS        8    /* algorithms that are asked for */
#define MAX_ENTRIES     8 /* of a step and device: sets of sizes kept although no context uses them */

struct algorithms {
	_Atomic int asked;
	uint32_t n;
	_Atomic uint32_t chosen;
	struct stx__cublaslt_result at[MAX_WAYS];
};

struct stx__matmul { /* of a step and a device: one set of sizes */
	struct stx__matmul *next;
	_Atomic uint32_t uses; /* by contexts */
	int64_t attrs[STX_MATMUL_NATTRS];
	void *desc, *layout[3];
	size_t workspace_bytes;  /* from a multiple of WORKSPACE_ALIGN on */
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
	int ok = stx_plan_extern_of(&a->plan, s->plan)->nattrs == STX_MATMUL_NATTRS;
	for (uint32_t i = 0; ok && i < STX_MATMUL_NATTRS; i++)
		ok = stx__external_attr(a, x, s, i, &out[i]);
	return ok;
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
	const struct stx_plan_extern *e = stx_plan_extern_of(&a->plan, s->plan);
	while (c && memcmp(c->attrs, attrs, sizeof c->attrs) != 0)
		c = c->next;
	if (!c && (c = calloc(1, sizeof *c))) {
		memcpy(c->attrs, attrs, sizeof c->attrs);
		size_t bytes = (size_t)x->values[e->workspace].bytes;
		c->workspace_bytes = bytes > WORKSPACE_ALIGN ? bytes - WORKSPACE_ALIGN : 0;
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

/* The heuristic's list. An error is an empty list: the kernel does it. */
static void ask(struct stx__gpu_code *g, struct stx__matmul *c, struct algorithms *l)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	struct stx__cublaslt_result found[MAX_WAYS];
	void *preference = NULL;
	int n = 0;
	memset(found, 0, sizeof found);
	if (q->preference_create(&preference))
		return;
	if (prefer(q, preference, c, l == &c->of[0] ? ALIGNMENT : c->elem_bytes) ||
	    q->heuristic(g->cublaslt, c->desc, c->layout[0], c->layout[1], c->layout[2],
			 c->layout[2], preference, MAX_WAYS, found, &n))
		n = 0;
	for (int i = 0; i < n && i < MAX_WAYS; i++)
		if (found[i].status == STX_CUBLAS_STATUS_SUCCESS &&
		    found[i].workspace_bytes <= c->workspace_bytes)
			l->at[l->n++] = found[i];
	q->preference_destroy(preference);
}

struct operands {
	char *at[3];
	struct algorithms *algorithms;
};

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
	for (int i = 0; i < 3; i++) {
		const int64_t *m = matrix(c->attrs, i);
		int64_t elem = stx_dtype_bytes(type_of(a, s, m[STX_MATRIX_ARG]));
		o->at[i] =
			(char *)s->frame.buffers[m[STX_MATRIX_ARG]] + m[STX_MATRIX_OFFSET] * elem;
		all |= (uintptr_t)o->at[i];
	}
	o->algorithms = &c->of[all % ALIGNMENT != 0];
	if (atomic_load_explicit(&o->algorithms->asked, memory_order_acquire))
		return STX_E_OK;
	pthread_mutex_lock(&x->gpu->code->lock);
	if (!atomic_load_explicit(&o->algorithms->asked, memory_order_relaxed))
		ask(x->gpu->code, c, o->algorithms);
	atomic_store_explicit(&o->algorithms->asked, 1, memory_order_release);
	pthread_mutex_unlock(&x->gpu->code->lock);
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

stx_err stx__matmul_run(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__cublaslt *q = stx__cublaslt(NULL);
	struct operands o;
	stx_err e = prepare(a, x, s, &o, d);
	if (e)
		return e;
	const struct stx__matmul *c = s->call;
	const struct scale *by = scale_of(type_of(a, s, matrix(c->attrs, 0)[STX_MATRIX_ARG]));
	uintptr_t workspace = (uintptr_t)s->frame.buffers[s->plan->nargs - 1];
	workspace = (workspace + WORKSPACE_ALIGN - 1) & ~(uintptr_t)(WORKSPACE_ALIGN - 1);
	uint32_t way = atomic_load_explicit(&o.algorithms->chosen, memory_order_relaxed);
	if (way >= o.algorithms->n)
		return cannot(d, "no algorithm for these sizes and types");
	int status = q->matmul(x->gpu->code->cublaslt, c->desc, &by->one, o.at[0], c->layout[0],
			       o.at[1], c->layout[1], &by->zero, o.at[2], c->layout[2], o.at[2],
			       c->layout[2], o.algorithms->at[way].algorithm, (void *)workspace,
			       c->workspace_bytes, env ? env->stream : NULL);
	if (!status)
		return STX_E_OK;
	if (is_refusal(status))
		return cannot(d, q->status_name(status));
	return stx_fail(d, STX_E_INTERNAL, "cuda", STX_CALL_MATMUL, "cuBLASLt: %s",
			q->status_name(status));
}

uint32_t stx__matmul_ways(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			  struct stx_diag *d)
{
	struct operands o;
	return prepare(a, x, s, &o, d) ? 1 : o.algorithms->n + 1;
}

void stx__matmul_choose(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			uint32_t way)
{
	struct operands o;
	struct stx_diag d;
	stx__diag_init(&d);
	if (!prepare(a, x, s, &o, &d))
		atomic_store_explicit(&o.algorithms->chosen, way, memory_order_relaxed);
}
