/* cublaslt.c: the part of cuBLASLt that libstax uses, by plain loops on the host. It refuses what
 * the library's documentation refuses (attribute sizes, leading dimensions, alignment promised to
 * the heuristic), and writes over its whole workspace. Numbers are those of the documentation, not
 * libstax' own table. Calls advance the clock of the driver that stands in beside it; with
 * $FAKE_CUDA_LOG they add a line there and compute nothing, as kernels do. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "fake.h"
#include "fake_time.h"
#include "scalar.h"

#define API __attribute__((visibility("default")))

enum { OK = 0, INVALID = 7, NOT_SUPPORTED = 15 };

static struct fake_cublaslt fake = { .offered = 3, .wrong = -1, .version = 130100 };

API struct fake_cublaslt *fake_cublaslt(void);
struct fake_cublaslt *fake_cublaslt(void)
{
	return &fake;
}

struct desc {
	int compute, scale;
	int32_t transposed[2];
	uint32_t epilogue; /* 0: as made; 4: bias */
	const void *bias;
};

struct algorithm {
	int number;
	uint32_t alignment;
	size_t workspace;
};

struct result {
	union {
		uint64_t opaque[8];
		struct algorithm algorithm;
	} a;
	size_t workspace;
	int status;
	float waves;
	int reserved[4];
};

static void *made(size_t n)
{
	fake.alive++;
	return calloc(1, n);
}

static int destroyed(void *p)
{
	if (!p)
		return INVALID;
	fake.alive--;
	free(p);
	return OK;
}

static int set(void *to, size_t want, const void *from, size_t n)
{
	if (n != want || !from)
		return INVALID;
	memcpy(to, from, n);
	return OK;
}

API int cublasLtCreate(void **handle);
int cublasLtCreate(void **handle)
{
	if (fake.refuse_handle)
		return fake.refuse_handle;
	fake.handles++;
	*handle = made(1);
	return OK;
}

API int cublasLtDestroy(void *handle);
int cublasLtDestroy(void *handle)
{
	return destroyed(handle);
}

API size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void)
{
	return fake.version;
}

/* Algorithm n has id n and tile n + 1; of the others none but those that cuBLASLt always knows. */
API int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int attribute, void *value,
					     size_t n, size_t *written);
int cublasLtMatmulAlgoConfigGetAttribute(const void *algorithm, int attribute, void *value,
					 size_t n, size_t *written)
{
	const struct algorithm *q = algorithm;
	uint32_t v = attribute == 0   ? (uint32_t)q->number
		     : attribute == 1 ? (uint32_t)q->number + 1
		     : attribute == 2 ? 1
				      : 0;
	if (attribute > 8 || n != (attribute >= 7 ? 2 : 4))
		return INVALID;
	memcpy(value, &v, n);
	*written = n;
	return OK;
}

API const char *cublasLtGetStatusName(int status);
const char *cublasLtGetStatusName(int status)
{
	return status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
				       : "CUBLAS_STATUS_EXECUTION_FAILED";
}

API int cublasLtMatmulDescCreate(void **out, int compute, int scale);
int cublasLtMatmulDescCreate(void **out, int compute, int scale)
{
	struct desc *d = made(sizeof *d);
	d->compute = compute;
	d->scale = scale;
	*out = d;
	return OK;
}

API int cublasLtMatmulDescDestroy(void *d);
int cublasLtMatmulDescDestroy(void *d)
{
	return destroyed(d);
}

API int cublasLtMatmulDescSetAttribute(void *at, int attribute, const void *value, size_t n);
int cublasLtMatmulDescSetAttribute(void *at, int attribute, const void *value, size_t n)
{
	struct desc *d = at;
	switch (attribute) {
	case 3: return set(&d->transposed[0], 4, value, n);
	case 4: return set(&d->transposed[1], 4, value, n);
	case 7: return set(&d->epilogue, 4, value, n);
	case 8: return set(&d->bias, sizeof d->bias, value, n);
	default: return INVALID;
	}
}

API int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld);
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
	struct fake_matrix *m = made(sizeof *m);
	*m = (struct fake_matrix){ .type = type, .rows = rows, .cols = cols, .ld = ld, .batch = 1 };
	*out = m;
	return OK;
}

API int cublasLtMatrixLayoutDestroy(void *m);
int cublasLtMatrixLayoutDestroy(void *m)
{
	return destroyed(m);
}

API int cublasLtMatrixLayoutSetAttribute(void *at, int attribute, const void *value, size_t n);
int cublasLtMatrixLayoutSetAttribute(void *at, int attribute, const void *value, size_t n)
{
	struct fake_matrix *m = at;
	switch (attribute) {
	case 5: return set(&m->batch, 4, value, n);
	case 6: return set(&m->stride, 8, value, n);
	default: return INVALID;
	}
}

API int cublasLtMatmulPreferenceCreate(void **out);
int cublasLtMatmulPreferenceCreate(void **out)
{
	struct fake_preference *p = made(sizeof *p);
	p->impl_mask = UINT64_MAX;
	p->reduction_mask = 7;
	for (int i = 0; i < 4; i++)
		p->alignment[i] = 256;
	*out = p;
	return OK;
}

API int cublasLtMatmulPreferenceDestroy(void *p);
int cublasLtMatmulPreferenceDestroy(void *p)
{
	return destroyed(p);
}

API int cublasLtMatmulPreferenceSetAttribute(void *at, int attribute, const void *value, size_t n);
int cublasLtMatmulPreferenceSetAttribute(void *at, int attribute, const void *value, size_t n)
{
	struct fake_preference *p = at;
	switch (attribute) {
	case 1: return set(&p->workspace_bytes, 8, value, n);
	case 3: return set(&p->reduction_mask, 4, value, n);
	case 5:
	case 6:
	case 7:
	case 8: return set(&p->alignment[attribute - 5], 4, value, n);
	case 12: return set(&p->impl_mask, 8, value, n);
	default: return INVALID;
	}
}

/* ---- types ---- */

static int dtype_of(int type)
{
	switch (type) {
	case 0: return STX_F32;
	case 1: return STX_F64;
	case 2: return STX_F16;
	case 3: return STX_I8;
	case 10: return STX_I32;
	case 14: return STX_BF16;
	default: return -1;
	}
}

/* The combinations of the documentation's table that libstax may ask for. */
static int known(int compute, int scale, int a, int b, int d)
{
	if (a != b)
		return 0;
	switch (compute) {
	case 68:
		return scale == 0 &&
		       ((a == 0 && d == 0) || ((a == 2 || a == 14) && (d == a || d == 0)));
	case 70: return scale == 1 && a == 1 && d == 1;
	case 72: return scale == 10 && a == 3 && d == 10;
	default: return 0;
	}
}

static int layout_ok(const struct fake_matrix *m, uint64_t rows, uint64_t cols, int transposed)
{
	return m->rows == (transposed ? cols : rows) && m->cols == (transposed ? rows : cols) &&
	       m->ld >= (int64_t)m->rows && m->ld > 0;
}

API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
				       void *preference, int most, void *results, int *n);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d,
				   void *preference, int most, void *results, int *n)
{
	const struct fake_preference *p = preference;
	struct result *out = results;
	if (!handle || !desc || !a || !b || c != d)
		return INVALID;
	if (((struct desc *)desc)->epilogue && fake.no_epilogue)
		return NOT_SUPPORTED;
	fake.heuristics++;
	fake.preference = *p;
	for (*n = 0; *n < fake.offered && *n < most; ++*n) {
		memset(&out[*n], 0, sizeof *out);
		out[*n].a.algorithm =
			(struct algorithm){ .number = (*n + fake.first) % fake.offered,
					    .alignment = p->alignment[0],
					    .workspace = p->workspace_bytes };
		out[*n].workspace = p->workspace_bytes;
	}
	return *n ? OK : NOT_SUPPORTED;
}

static double element(const struct fake_matrix *m, int batch, uint64_t row, uint64_t col)
{
	enum stx_dtype t = (enum stx_dtype)dtype_of(m->type);
	int64_t r = (int64_t)(m->transposed ? col : row), c = (int64_t)(m->transposed ? row : col);
	const char *at =
		(const char *)m->at + (batch * m->stride + c * m->ld + r) * stx_dtype_bytes(t);
	union stx_scalar k = stx_scalar_load(t, at);
	return stx_dtype_is_float(t) ? k.f : (double)k.i;
}

static void multiply(const struct fake_matmul *f, void *to)
{
	enum stx_dtype t = (enum stx_dtype)dtype_of(f->d.type);
	uint64_t inner = f->a.transposed ? f->a.rows : f->a.cols;
	for (int batch = 0; batch < f->d.batch; batch++)
		for (uint64_t col = 0; col < f->d.cols; col++)
			for (uint64_t row = 0; row < f->d.rows; row++) {
				double sum = 0;
				union stx_scalar k;
				for (uint64_t i = 0; i < inner; i++)
					sum += element(&f->a, batch, row, i) *
					       element(&f->b, batch, i, col);
				if (f->bias)
					sum += stx_scalar_load(
						       t, (const char *)f->bias +
								  (int64_t)row * stx_dtype_bytes(t))
						       .f;
				if (stx_dtype_is_float(t))
					k.f = stx_scalar_round(t, sum);
				else
					k.i = (int64_t)sum;
				stx_scalar_store(t,
						 (char *)to +
							 (batch * f->d.stride +
							  (int64_t)col * f->d.ld + (int64_t)row) *
								 stx_dtype_bytes(t),
						 k);
			}
}

static double scale_value(int type, const void *at)
{
	return type == 1    ? *(const double *)at
	       : type == 10 ? *(const int32_t *)at
			    : *(const float *)at;
}

API int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
		       const void *b, void *b_layout, const void *beta, const void *c,
		       void *c_layout, void *d, void *d_layout, const void *algorithm,
		       void *workspace, size_t workspace_bytes, void *stream);
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
		   const void *b, void *b_layout, const void *beta, const void *c, void *c_layout,
		   void *d, void *d_layout, const void *algorithm, void *workspace,
		   size_t workspace_bytes, void *stream)
{
	const struct desc *q = desc;
	const struct algorithm *by = algorithm;
	struct fake_matmul *f = &fake.call[fake.calls++ % FAKE_MAX_CALLS];
	*f = (struct fake_matmul){ .compute = q->compute,
				   .scale = q->scale,
				   .alpha = scale_value(q->scale, alpha),
				   .beta = scale_value(q->scale, beta),
				   .a = *(struct fake_matrix *)a_layout,
				   .b = *(struct fake_matrix *)b_layout,
				   .d = *(struct fake_matrix *)d_layout,
				   .algorithm = by->number,
				   .workspace = workspace,
				   .workspace_bytes = workspace_bytes,
				   .stream = stream,
				   .handle = handle };
	f->bias = q->epilogue ? q->bias : NULL;
	f->a.at = a;
	f->b.at = b;
	f->d.at = d;
	f->a.transposed = q->transposed[0];
	f->b.transposed = q->transposed[1];
	uint64_t inner = f->a.transposed ? f->a.rows : f->a.cols;
	uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)d;
	if (fake.refuse)
		return fake.refuse;
	if (!handle || c != d || c_layout != d_layout || f->alpha != 1 || f->beta != 0 ||
	    !known(q->compute, q->scale, f->a.type, f->b.type, f->d.type) ||
	    !layout_ok(&f->a, f->d.rows, inner, f->a.transposed) ||
	    !layout_ok(&f->b, inner, f->d.cols, f->b.transposed) ||
	    !layout_ok(&f->d, f->d.rows, f->d.cols, 0) || f->a.batch != f->d.batch ||
	    f->b.batch != f->d.batch || (q->epilogue && (q->epilogue != 4 || !q->bias)) ||
	    all % by->alignment || (uintptr_t)workspace % 256 || workspace_bytes < by->workspace)
		return INVALID;
	if (fake_pass_time("matmul algorithm", by->number, fake.ns[by->number % 64]))
		return OK;
	memset(workspace, 0xEE, workspace_bytes);
	multiply(f, d);
	if (by->number == fake.wrong)
		((uint8_t *)d)[stx_dtype_bytes((enum stx_dtype)dtype_of(f->d.type)) - 1] ^= 0x7F;
	return OK;
}
