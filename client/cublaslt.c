/* cublaslt.c: cuBLASLt by dlopen: where it is found, and its functions. */
#include "cublaslt.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };

/* Built once, constant afterwards. */
static struct stx__cublaslt library;
static char why_not[200];

/* dir NULL: the library path, and whatever the process has loaded (PyTorch brings its own). */
static void *open_in(const char *dir, int flags)
{
	char path[4200];
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		if (dir)
			snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		void *h = dlopen(dir ? path : names[i], flags | RTLD_LOCAL);
		if (h)
			return h;
	}
	return NULL;
}

/* pip's packages: nvidia/cublas/lib (CUDA 12), nvidia/cu13/lib, under the site-packages that
 * libstax is in or of the active virtual environment. */
static void *open_of_pip(void)
{
	static const char *const folders[] = { "nvidia/cu13/lib", "nvidia/cublas/lib" };
	const char *env = getenv("VIRTUAL_ENV");
	char pattern[4300], here[4096] = "";
	Dl_info info;
	void *h = NULL;
	if (dladdr(&library, &info) && info.dli_fname)
		snprintf(here, sizeof here, "%s", info.dli_fname);
	char *slash = strrchr(here, '/');
	*(slash ? slash : here) = 0;
	for (unsigned i = 0; i < 4 && !h; i++) {
		const char *folder = folders[i % 2];
		glob_t found;
		if (i < 2 ? !*here : !env || !*env)
			continue;
		snprintf(pattern, sizeof pattern,
			 i < 2 ? "%s/../%s" : "%s/lib/python3*/site-packages/%s",
			 i < 2 ? here : env, folder);
		if (glob(pattern, GLOB_NOSORT, NULL, &found))
			continue;
		for (size_t k = 0; k < found.gl_pathc && !h; k++)
			h = open_in(found.gl_pathv[k], RTLD_NOW);
		globfree(&found);
	}
	return h;
}

static void *open_library(void)
{
	const char *home = getenv("CUDA_HOME");
	char path[4096];
	void *h = open_in(NULL, RTLD_NOW | RTLD_NOLOAD);
	for (int i = 0; i < 2 && !h; i++) {
		snprintf(path, sizeof path, "%s/%s", home && *home ? home : "/usr/local/cuda",
			 i ? "lib" : "lib64");
		h = open_in(path, RTLD_NOW);
	}
	if (!h)
		h = open_in(NULL, RTLD_NOW);
	return h ? h : open_of_pip();
}

static void load_once(void)
{
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
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
	void *h = open_library();
	if (!h)
		snprintf(
			why_not, sizeof why_not,
			"there is no cuBLASLt (libcublasLt.so of CUDA 12 or 13): it is not in "
			"$CUDA_HOME/lib64, /usr/local/cuda/lib64, the library path or pip's nvidia "
			"folders");
	for (unsigned i = 0; h && i < sizeof symbols / sizeof *symbols; i++) {
		void *p = dlsym(h, symbols[i].name);
		if (!p) {
			snprintf(why_not, sizeof why_not, "cuBLASLt has no %s: it is too old",
				 symbols[i].name);
			return;
		}
		memcpy(symbols[i].at, &p, sizeof p);
	}
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
