/* cuda.c: a CUDA driver without a GPU, built as libcuda.so.1 for tests: host memory, one device, a
 * virtual clock that launches advance. What a "cubin" does and how long it takes is its text:
 *   FAKE ns=700 n=1000 add=1 [noise=50] [spare=3]
 * adds `add` to n f32 of the first argument and puts them where the second one points; with spare
 * it changes that many elements beyond n of the second too. Any other image, a real cubin, touches
 * no memory and takes a time drawn from its bytes. A test may run kernels itself instead
 * (fake_cuda_on_launch). Declarations as in client/cuda.h. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define EXPORT        __attribute__((visibility("default")))
#define BAD           1 /* CUDA_ERROR_INVALID_VALUE */
#define NO_MEMORY     2
#define NOT_FOUND     500
#define NO_TRANSLATOR 221
#define IMAGE_BYTES   200
#define COPY          "// stx_copy" /* how the image of libstax's own kernel begins */

struct module {
	char text[IMAGE_BYTES];
	uint64_t ns, noise;
	const void *image;
	int is_copy;
};
struct event {
	uint64_t ns;
};
static struct fake_cuda_counts counts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *current; /* the context */
static int primary;
static int (*on_launch)(const struct fake_launch *l);

EXPORT struct fake_cuda_counts *fake_cuda_counts(void);
struct fake_cuda_counts *fake_cuda_counts(void)
{
	return &counts;
}

EXPORT void fake_cuda_on_launch(int (*fn)(const struct fake_launch *l));
void fake_cuda_on_launch(int (*fn)(const struct fake_launch *l))
{
	on_launch = fn;
}

/* "ns=700" in the text; otherwise what is given. */
static long field(const char *text, const char *name, long otherwise)
{
	const char *at = strstr(text, name);
	return at ? strtol(at + strlen(name), NULL, 10) : otherwise;
}

#define API(name)                                                                                  \
	EXPORT int name;                                                                           \
	int name

API(cuInit(unsigned flags))
{
	return (int)flags;
}

API(cuDeviceGet(int *device, int ordinal))
{
	*device = 0;
	return ordinal ? 101 : 0;
}

API(cuDeviceGetName(char *name, int n, int device))
{
	const char *given = getenv("FAKE_CUDA_NAME");
	snprintf(name, (size_t)n, "%s", given ? given : "NVIDIA H200");
	return device;
}

API(cuDeviceGetAttribute(int *value, int attribute, int device))
{
	counts.attributes++;
	*value = attribute == 75   ? 9
		 : attribute == 76 ? 0
		 : attribute == 16 ? 132
		 : attribute == 13 ? 1980000
		 : attribute == 36 ? 3201000
		 : attribute == 38 ? 1 << 20
				   : 0;
	return device;
}

API(cuDriverGetVersion(int *version))
{
	*version = 13000;
	return 0;
}

API(cuDevicePrimaryCtxRetain(void **context, int device))
{
	*context = &primary;
	return device;
}

API(cuCtxGetCurrent(void **context))
{
	*context = current;
	return 0;
}

API(cuCtxSetCurrent(void *context))
{
	current = context;
	return 0;
}

API(cuCtxGetDevice(int *device))
{
	*device = 0;
	return 0;
}

API(cuCtxSynchronize(void))
{
	return 0;
}

API(cuStreamSynchronize(void *stream))
{
	(void)stream;
	counts.syncs++;
	return 0;
}

API(cuStreamWaitEvent(void *stream, void *event, unsigned flags))
{
	(void)stream;
	(void)event;
	return (int)flags;
}

API(cuEventCreate(void **event, unsigned flags))
{
	(void)flags;
	counts.events++;
	*event = calloc(1, sizeof(struct event));
	return *event ? 0 : NO_MEMORY;
}

API(cuEventRecord(void *event, void *stream))
{
	(void)stream;
	((struct event *)event)->ns = counts.now_ns;
	return 0;
}

API(cuEventSynchronize(void *event))
{
	(void)event;
	return 0;
}

API(cuEventElapsedTime(float *ms, void *from, void *to))
{
	*ms = (float)(((struct event *)to)->ns - ((struct event *)from)->ns) * 1e-6f;
	return 0;
}

API(cuEventDestroy_v2(void *event))
{
	counts.destroyed++;
	free(event);
	return 0;
}

API(cuModuleLoadData(void **module, const void *image))
{
	struct module *m = calloc(1, sizeof *m);
	uint64_t hash = 14695981039346656037u;
	if (!m)
		return NO_MEMORY;
	m->is_copy = !strncmp(image, COPY, strlen(COPY));
	if (m->is_copy && counts.no_translator) {
		free(m);
		return NO_TRANSLATOR;
	}
	counts.modules++;
	m->image = image;
	if (!memcmp(image, "FAKE ", 5)) {
		snprintf(m->text, sizeof m->text, "%s", (const char *)image);
		m->ns = (uint64_t)field(m->text, " ns=", 1000);
		m->noise = (uint64_t)field(m->text, " noise=", 0);
	} else if (!on_launch && !m->is_copy) {
		for (int i = 0; i < 1024; i++)
			hash = (hash ^ ((const uint8_t *)image)[i]) * 1099511628211u;
		m->ns = 1000 + hash % 1000;
	}
	*module = m;
	return 0;
}

API(cuModuleGetFunction(void **fn, void *module, const char *name))
{
	*fn = module;
	return name[0] ? 0 : NOT_FOUND;
}

API(cuModuleUnload(void *module))
{
	counts.unloads++;
	free(module);
	return 0;
}

API(cuFuncGetAttribute(int *value, int attribute, void *fn))
{
	(void)attribute;
	(void)fn;
	*value = 0;
	return 0;
}

static void work(const struct module *m, void **params)
{
	long n = field(m->text, " n=", 0), spare = field(m->text, " spare=", 0);
	float add = (float)field(m->text, " add=", 0);
	const float *from = *(float **)params[0];
	float *to = *(float **)params[1];
	for (long i = 0; i < n; i++)
		to[i] = from[i] + add;
	for (long i = n; i < n + spare; i++)
		to[i] += 7;
}

/* What client/cuda_copy.c says of its kernel. */
static int copy_elements(void **params)
{
	const int64_t *size = params[5], *to = size + 16, *from = size + 32;
	int64_t n = *(int64_t *)params[2];
	int rank = *(int *)params[3], bytes = *(int *)params[4];
	for (int64_t i = 0; i < n; i++) {
		char *p = *(char **)params[0], *q = *(char **)params[1];
		int64_t rest = i;
		for (int k = rank; k-- > 0; rest /= size[k]) {
			p += rest % size[k] * to[k];
			q += rest % size[k] * from[k];
		}
		memcpy(p, q, (size_t)bytes);
	}
	return 0;
}

API(cuLaunchKernel(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra))
{
	const struct module *m = fn;
	const char *log = getenv("FAKE_CUDA_LOG");
	(void)shared;
	(void)stream;
	(void)extra;
	if (!gx || !gy || !gz || !bx || bx * by * bz > 1024)
		return BAD;
	if (strstr(m->text, " fails"))
		return BAD;
	pthread_mutex_lock(&lock);
	counts.launches++;
	counts.now_ns += m->ns + (counts.launches % 5 == 0 ? m->noise : 0);
	FILE *f = log ? fopen(log, "a") : NULL;
	if (f) {
		fprintf(f, "launch %u %u %u block %u ns %llu\n", gx, gy, gz, bx,
			(unsigned long long)m->ns);
		fclose(f);
	}
	pthread_mutex_unlock(&lock);
	if (m->is_copy)
		return copy_elements(params);
	if (on_launch)
		return on_launch(
			&(struct fake_launch){ m->image, { gx, gy, gz }, { bx, by, bz }, params });
	if (m->text[0])
		work(m, params);
	return 0;
}

API(cuMemAlloc_v2(uint64_t *out, size_t bytes))
{
	void *p = counts.memory_limit && bytes > counts.memory_limit
			  ? NULL
			  : aligned_alloc(256, (bytes + 255) & ~(size_t)255);
	counts.allocs += p != NULL;
	*out = (uint64_t)(uintptr_t)p;
	if (p)
		memset(p, 0x5a, (bytes + 255) & ~(size_t)255);
	return p ? 0 : NO_MEMORY;
}

API(cuMemFree_v2(uint64_t p))
{
	counts.frees++;
	free((void *)(uintptr_t)p);
	return 0;
}

API(cuMemHostAlloc(void **out, size_t bytes, unsigned flags))
{
	(void)flags;
	*out = calloc(1, bytes);
	return *out ? 0 : NO_MEMORY;
}

API(cuMemFreeHost(void *p))
{
	free(p);
	return 0;
}

API(cuMemHostGetDevicePointer_v2(uint64_t *out, void *p, unsigned flags))
{
	*out = (uint64_t)(uintptr_t)p;
	return (int)flags;
}

API(cuMemcpy(uint64_t to, uint64_t from, size_t bytes))
{
	memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

API(cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream))
{
	(void)stream;
	counts.copies++;
	return cuMemcpy(to, from, bytes);
}

API(cuMemsetD8Async(uint64_t at, unsigned char value, size_t n, void *stream))
{
	(void)stream;
	memset((void *)(uintptr_t)at, value, n);
	return 0;
}

API(cuPointerGetAttribute(void *value, int attribute, uint64_t p))
{
	(void)value;
	(void)attribute;
	(void)p;
	return BAD;
}

/* NVRTC looks for a driver, too, and asks for tables it has no right to. */
API(cuGetExportTable(const void **table, const void *id))
{
	(void)id;
	*table = NULL;
	return NOT_FOUND;
}

API(cuGetErrorName(int result, const char **text))
{
	*text = result == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_INVALID_VALUE";
	return 0;
}
