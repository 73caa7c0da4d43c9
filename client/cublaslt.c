/* cublaslt.c: cuBLASLt by dlopen: where it is found, and its functions. */
#include "cublaslt.h"

#include <pthread.h>
#include <stdio.h>

#include "library.h"

static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12", NULL };
static const char *const folders[] = { "nvidia/cu13/lib", "nvidia/cublas/lib", NULL };

/* Built once, constant afterwards. */
static struct stx__cublaslt library;
static char why_not[200];

static void load_once(void)
{
	const struct stx__symbol symbols[] = {
		{ "cublasLtCreate", &library.create },
		{ "cublasLtDestroy", &library.destroy },
		{ "cublasLtGetVersion", &library.version },
		{ "cublasLtGetStatusName", &library.status_name },
		{ "cublasLtMatmulDescCreate", &library.desc_create },
		{ "cublasLtMatmulDescDestroy", &library.desc_destroy },
		{ "cublasLtMatmulDescSetAttribute", &library.desc_set },
		{ "cublasLtMatrixLayoutCreate", &library.layout_create },
		{ "cublasLtMatrixLayoutDestroy", &library.layout_destroy },
		{ "cublasLtMatrixLayoutSetAttribute", &library.layout_set },
		{ "cublasLtMatmulPreferenceCreate", &library.preference_create },
		{ "cublasLtMatmulPreferenceDestroy", &library.preference_destroy },
		{ "cublasLtMatmulPreferenceSetAttribute", &library.preference_set },
		{ "cublasLtMatmulAlgoGetHeuristic", &library.heuristic },
		{ "cublasLtMatmulAlgoConfigGetAttribute", &library.algorithm_get },
		{ "cublasLtMatmul", &library.matmul },
	};
	const char *missing = NULL;
	void *h = stx__library_open(names, NULL, folders);
	if (!h)
		snprintf(
			why_not, sizeof why_not,
			"there is no cuBLASLt (libcublasLt.so of CUDA 12 or 13): it is not in "
			"$CUDA_HOME/lib64, /usr/local/cuda/lib64, the library path or pip's nvidia "
			"folders");
	else if (!stx__library_find(h, symbols, sizeof symbols / sizeof *symbols, &missing))
		snprintf(why_not, sizeof why_not, "cuBLASLt has no %s: it is too old", missing);
}

const struct stx__cublaslt *stx__cublaslt(struct stx_diag *d)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load_once);
	if (!why_not[0])
		return &library;
	stx_fail(d, STX_E_UNSUPPORTED, "cuda", STX_CALL_MATMUL, "%s", why_not);
	return NULL;
}
