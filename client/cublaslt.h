/* cublaslt.h
 * cuBLASLt, loaded on first use: declarations follow its documented C interface; handles are
 * opaque, results are CUBLAS_STATUS_*. Inside libstax. */
#ifndef STX_CLIENT_CUBLASLT_H
#define STX_CLIENT_CUBLASLT_H

#include "client.h"

#define STX_CUBLASLT(name, value) STX_##name = value,
enum stx__cublaslt_number {
#include "cublaslt.def"
};
#undef STX_CUBLASLT

struct stx__cublaslt_result { /* of the heuristic: an algorithm and what it needs */
	uint64_t algorithm[8];
	size_t workspace_bytes;
	int status;
	float waves;
	int reserved[4];
};

struct stx__cublaslt {
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	size_t (*version)(void);
	const char *(*status_name)(int status);
	int (*desc_create)(void **desc, int compute_type, int scale_type);
	int (*desc_destroy)(void *desc);
	int (*desc_set)(void *desc, int attribute, const void *value, size_t bytes);
	int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
	int (*layout_destroy)(void *layout);
	int (*layout_set)(void *layout, int attribute, const void *value, size_t bytes);
	int (*preference_create)(void **preference);
	int (*preference_destroy)(void *preference);
	int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
	int (*heuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d,
			 void *preference, int most, struct stx__cublaslt_result *out, int *n);
	int (*algorithm_get)(const void *algorithm, int attribute, void *value, size_t bytes,
			     size_t *written);
	int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *a_layout,
		      const void *b, void *b_layout, const void *beta, const void *c,
		      void *c_layout, void *d, void *d_layout, const void *algorithm,
		      void *workspace, size_t workspace_bytes, void *stream);
};
/* NULL and d (UNSUPPORTED) where there is no such library. */
const struct stx__cublaslt *stx__cublaslt(struct stx_diag *d);

/* ---- the external call STX_CALL_MATMUL (matmul.c): an entry of the table in externals.c ---- */

stx_err stx__matmul_bind(const struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			 struct stx_diag *d);

#endif
