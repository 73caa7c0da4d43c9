/* cuda.c: the part of the CUDA driver API that libstax uses, on host memory. A module is the
 * address it was loaded from; a launch is given to the test. Streams and events do nothing: all is
 * done when a call returns. */
#include <stdlib.h>
#include <string.h>

#include "fake.h"

#define API       __attribute__((visibility("default")))
#define NOT_FOUND 500

static struct fake_cuda fake;
static _Thread_local void *current; /* context: device + 1 */

struct function {
	const void *image;
	char symbol[80];
};

API struct fake_cuda *fake_cuda(void);
struct fake_cuda *fake_cuda(void)
{
	return &fake;
}

/* ---- devices and contexts ---- */

API int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
	return (int)flags;
}

API int cuDeviceGet(int *device, int ordinal);
int cuDeviceGet(int *device, int ordinal)
{
	*device = ordinal;
	return ordinal < 0 || ordinal > 1 ? 101 : 0;
}

API int cuDeviceGetName(char *name, int n, int device);
int cuDeviceGetName(char *name, int n, int device)
{
	(void)device;
	strncpy(name, "NVIDIA H200", (size_t)n);
	return 0;
}

API int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	(void)device;
	*value = attribute == 75 ? 9 : 0; /* compute capability 9.0 */
	return 0;
}

API int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRetain(void **context, int device)
{
	*context = (void *)(uintptr_t)(device + 1);
	return 0;
}

API int cuCtxGetCurrent(void **context);
int cuCtxGetCurrent(void **context)
{
	*context = current;
	return 0;
}

API int cuCtxSetCurrent(void *context);
int cuCtxSetCurrent(void *context)
{
	current = context;
	return 0;
}

API int cuCtxGetDevice(int *device);
int cuCtxGetDevice(int *device)
{
	*device = (int)(uintptr_t)current - 1;
	return *device < 0 ? 201 : 0;
}

API int cuCtxSynchronize(void);
int cuCtxSynchronize(void)
{
	return 0;
}

/* ---- streams and events ---- */

API int cuStreamSynchronize(void *stream);
int cuStreamSynchronize(void *stream)
{
	(void)stream;
	return 0;
}

API int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	(void)stream;
	(void)flags;
	return !event;
}

API int cuEventCreate(void **event, unsigned flags);
int cuEventCreate(void **event, unsigned flags)
{
	(void)flags;
	*event = malloc(1);
	return !*event;
}

API int cuEventRecord(void *event, void *stream);
int cuEventRecord(void *event, void *stream)
{
	(void)stream;
	return !event;
}

API int cuEventDestroy_v2(void *event);
int cuEventDestroy_v2(void *event)
{
	free(event);
	return 0;
}

API int cuEventSynchronize(void *event);
int cuEventSynchronize(void *event)
{
	return !event;
}

API int cuEventElapsedTime(float *ms, void *a, void *b);
int cuEventElapsedTime(float *ms, void *a, void *b)
{
	*ms = 1;
	return !a || !b;
}

/* ---- code ---- */

API int cuModuleLoadData(void **module, const void *image);
int cuModuleLoadData(void **module, const void *image)
{
	fake.modules++;
	*module = (void *)(uintptr_t)image;
	return 0;
}

API int cuModuleUnload(void *module);
int cuModuleUnload(void *module)
{
	return !module;
}

/* Functions live as long as the process, as few as they are. */
API int cuModuleGetFunction(void **fn, void *module, const char *name);
int cuModuleGetFunction(void **fn, void *module, const char *name)
{
	static struct function all[256];
	static unsigned n;
	if (n == sizeof all / sizeof *all || strlen(name) >= sizeof all->symbol)
		return NOT_FOUND;
	struct function *f = &all[n++];
	f->image = module;
	strcpy(f->symbol, name);
	*fn = f;
	return 0;
}

API int cuFuncGetAttribute(int *value, int attribute, void *fn);
int cuFuncGetAttribute(int *value, int attribute, void *fn)
{
	(void)attribute;
	*value = 0;
	return !fn;
}

API int cuLaunchKernel(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		       unsigned bz, unsigned shared, void *stream, void **params, void **extra);
int cuLaunchKernel(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **params, void **extra)
{
	const struct function *f = fn;
	struct fake_launch l = { f->image, f->symbol, { gx, gy, gz }, { bx, by, bz }, params };
	(void)shared;
	(void)stream;
	(void)extra;
	fake.launches++;
	return fake.on_launch ? fake.on_launch(&l) : 1;
}

/* ---- memory ---- */

API int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	void *p = aligned_alloc(256, (bytes + 255) / 256 * 256);
	*out = (uint64_t)(uintptr_t)p;
	return p ? 0 : 2;
}

API int cuMemFree_v2(uint64_t p);
int cuMemFree_v2(uint64_t p)
{
	free((void *)(uintptr_t)p);
	return 0;
}

API int cuMemHostAlloc(void **out, size_t bytes, unsigned flags);
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
	(void)flags;
	*out = malloc(bytes);
	return *out ? 0 : 2;
}

API int cuMemFreeHost(void *p);
int cuMemFreeHost(void *p)
{
	free(p);
	return 0;
}

API int cuMemHostGetDevicePointer_v2(uint64_t *out, void *p, unsigned flags);
int cuMemHostGetDevicePointer_v2(uint64_t *out, void *p, unsigned flags)
{
	(void)flags;
	*out = (uint64_t)(uintptr_t)p;
	return 0;
}

API int cuMemcpy(uint64_t to, uint64_t from, size_t bytes);
int cuMemcpy(uint64_t to, uint64_t from, size_t bytes)
{
	memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
	return 0;
}

API int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
	(void)stream;
	return cuMemcpy(to, from, bytes);
}

API int cuPointerGetAttribute(void *value, int attribute, uint64_t p);
int cuPointerGetAttribute(void *value, int attribute, uint64_t p)
{
	(void)value;
	(void)attribute;
	(void)p;
	return 1; /* host memory */
}

API int cuGetErrorName(int result, const char **text);
int cuGetErrorName(int result, const char **text)
{
	(void)result;
	*text = "FAKE_ERROR";
	return 0;
}
