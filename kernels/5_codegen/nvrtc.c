/* nvrtc.c: CUDA C to a cubin through NVRTC, loaded at run time: hosts without the toolkit build and
 * run everything else. Declarations are ours (of NVRTC's documented C interface): no CUDA header is
 * needed to compile Stax. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

typedef struct program *nvrtc_program;
struct stx_nvrtc {
	void *library;
	int major, minor;
	int (*version_fn)(int *major, int *minor);
	const char *(*error)(int result);
	int (*create)(nvrtc_program *p, const char *source, const char *name, int nheaders,
		      const char *const *headers, const char *const *names);
	int (*destroy)(nvrtc_program *p);
	int (*compile)(nvrtc_program p, int noptions, const char *const *options);
	int (*log_size)(nvrtc_program p, size_t *n);
	int (*log)(nvrtc_program p, char *out);
	int (*cubin_size)(nvrtc_program p, size_t *n);
	int (*cubin)(nvrtc_program p, char *out);
	int (*ptx_size)(nvrtc_program p, size_t *n);
	int (*ptx)(nvrtc_program p, char *out);
};

static const char *const names[] = { "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so" };

/* Never unmapped: an unmapped NVRTC would leave what it holds behind, once for each time it is
 * loaded, and mapping its 110 MB again costs more than keeping them. */
static void *open_in(const char *dir)
{
	char path[4200];
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
		if (dir)
			snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		void *h = dlopen(dir ? path : names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		if (h)
			return h;
	}
	return NULL;
}

static void *open_library(const char *dir)
{
	const char *home = getenv("CUDA_HOME");
	char path[4096];
	if (dir)
		return open_in(dir);
	/* lib: where pip's nvidia packages have it */
	static const char *const folders[] = { "lib64", "lib" };
	for (unsigned i = 0; i < sizeof folders / sizeof *folders; i++) {
		snprintf(path, sizeof path, "%s/%s", home && *home ? home : "/usr/local/cuda",
			 folders[i]);
		void *h = open_in(path);
		if (h)
			return h;
	}
	return open_in(NULL);
}

static int resolve(struct stx_nvrtc *n)
{
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{ "nvrtcVersion", &n->version_fn },
		{ "nvrtcGetErrorString", &n->error },
		{ "nvrtcCreateProgram", &n->create },
		{ "nvrtcDestroyProgram", &n->destroy },
		{ "nvrtcCompileProgram", &n->compile },
		{ "nvrtcGetProgramLogSize", &n->log_size },
		{ "nvrtcGetProgramLog", &n->log },
		{ "nvrtcGetCUBINSize", &n->cubin_size },
		{ "nvrtcGetCUBIN", &n->cubin },
		{ "nvrtcGetPTXSize", &n->ptx_size },
		{ "nvrtcGetPTX", &n->ptx },
	};
	for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *p = dlsym(n->library, symbols[i].name);
		if (!p)
			return 0;
		memcpy(symbols[i].at, &p, sizeof p);
	}
	return 1;
}

stx_err stx_nvrtc_new(const char *dir, struct stx_nvrtc **out, struct stx_diag *d)
{
	static const char warm[] =
		"extern \"C\" __global__ void warm(float *p) { p[threadIdx.x] = 0; }";
	struct stx_nvrtc *n = calloc(1, sizeof *n);
	struct stx_bytes cubin = { 0 };
	*out = NULL;
	if (!n)
		return stx_fail(d, STX_E_NOMEM, "nvrtc", NULL, "out of memory");
	n->library = open_library(dir);
	if (!n->library || !resolve(n) || n->version_fn(&n->major, &n->minor)) {
		stx_nvrtc_free(n);
		return stx_fail(
			d, STX_E_UNSUPPORTED, "nvrtc", NULL,
			"CUDA targets need NVRTC (libnvrtc.so of CUDA 12 or 13): it is not in "
			"lib64 or lib of $CUDA_HOME (/usr/local/cuda) or the library path");
	}
	stx_err e =
		stx_nvrtc_compile(n, warm, "warm", "sm_90a", 0, STX_NVRTC_CUBIN, &cubin, NULL, d);
	stx_bytes_free(&cubin);
	if (e) {
		stx_nvrtc_free(n);
		return e;
	}
	*out = n;
	return STX_E_OK;
}

void stx_nvrtc_free(struct stx_nvrtc *n)
{
	if (!n)
		return;
	if (n->library)
		dlclose(n->library);
	free(n);
}

static stx_err fail_log(struct stx_nvrtc *n, nvrtc_program p, int result, const char *name,
			struct stx_diag *d)
{
	size_t size = 0;
	char *text = NULL;
	if (!n->log_size(p, &size) && size > 1 && (text = malloc(size)) && n->log(p, text))
		text[0] = 0;
	stx_err e = stx_fail(d, STX_E_INTERNAL, "nvrtc", name, "%s: %.2000s", n->error(result),
			     text ? text : "");
	free(text);
	return e;
}

static stx_err copy_out(int (*size)(nvrtc_program, size_t *), int (*get)(nvrtc_program, char *),
			nvrtc_program p, struct stx_bytes *out)
{
	size_t n = 0;
	char *at;
	if (size(p, &n) || !n || !(at = malloc(n)))
		return STX_E_NOMEM;
	int failed = get(p, at);
	if (!failed)
		stx_bytes_put(out, at, n);
	free(at);
	return failed || out->oom ? STX_E_NOMEM : STX_E_OK;
}

/* The number before " what" in the log, summed over all places; 0: not said. */
static uint32_t number_before(const char *log, const char *what)
{
	uint32_t sum = 0;
	for (const char *at = log; (at = strstr(at, what)); at += strlen(what)) {
		const char *digits = at;
		while (digits > log && digits[-1] >= '0' && digits[-1] <= '9')
			digits--;
		sum += (uint32_t)strtoul(digits, NULL, 10);
	}
	return sum;
}

/* The assembler's report: "16 bytes spill stores, 24 bytes spill loads", "Used 30 registers". */
static void read_usage(struct stx_nvrtc *n, nvrtc_program p, struct stx_gpu_usage *usage)
{
	size_t size = 0;
	char *text = NULL;
	memset(usage, 0, sizeof *usage);
	if (n->log_size(p, &size) || size < 2 || !(text = calloc(1, size + 1)) || n->log(p, text)) {
		free(text);
		return;
	}
	usage->registers = number_before(text, " registers");
	usage->spills = number_before(text, " bytes spill stores") +
			number_before(text, " bytes spill loads");
	usage->shared_bytes = number_before(text, " bytes smem");
	free(text);
}

stx_err stx_nvrtc_compile(struct stx_nvrtc *n, const char *source, const char *name,
			  const char *arch, int fast, enum stx_nvrtc_stage stage,
			  struct stx_bytes *out, struct stx_gpu_usage *usage, struct stx_diag *d)
{
	char target[32];
	/* minimal: without texture and runtime declarations, which kernels do not use: 2.5 ms less,
	 * the same code. no-cache: nothing is read from or left in the user's home. */
	const char *options[] = { target,
				  "--std=c++17",
				  "--device-as-default-execution-space",
				  "--ftz=false",
				  "--prec-div=true",
				  "--prec-sqrt=true",
				  fast ? "--fmad=true" : "--fmad=false",
				  "--ptxas-options=-v",
				  "--minimal",
				  "--no-cache" };
	int noptions = sizeof options / sizeof *options - (n->major < 13 ? 2 : 0);
	nvrtc_program p = NULL;
	snprintf(target, sizeof target, "--gpu-architecture=%s", arch);
	int result = n->create(&p, source, "kernel.cu", 0, NULL, NULL);
	if (result)
		return stx_fail(d, STX_E_INTERNAL, "nvrtc", name, "%s", n->error(result));
	result = n->compile(p, noptions, options);
	stx_err e = result ? fail_log(n, p, result, name, d) : STX_E_OK;
	if (!e && copy_out(stage == STX_NVRTC_PTX ? n->ptx_size : n->cubin_size,
			   stage == STX_NVRTC_PTX ? n->ptx : n->cubin, p, out))
		e = stx_fail(d, STX_E_INTERNAL, "nvrtc", name, "no code came out");
	if (!e && stage == STX_NVRTC_PTX && out->n && !out->at[out->n - 1])
		out->n--; /* NVRTC counts the NUL behind the text */
	if (!e && usage)
		read_usage(n, p, usage);
	n->destroy(&p);
	return e;
}
