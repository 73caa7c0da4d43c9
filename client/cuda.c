/* cuda.c: the CUDA driver API by dlopen: libstax links no CUDA library and needs none of its
 * headers. Declarations follow the driver API's documentation. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "gpu_target.h"

enum { /* CUresult, CUdevice_attribute */
       OUT_OF_MEMORY = 2,
       COMPUTE_MAJOR = 75,
       COMPUTE_MINOR = 76,
       CLOCK_RATE = 13,
       MULTIPROCESSORS = 16,
       MEMORY_CLOCK_RATE = 36
};

/* Built once, constant afterwards. */
static struct stx__driver driver;
static char why_not[160];

static int resolve(void *library)
{
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
		{ "cuInit", &driver.init },
		{ "cuDeviceGet", &driver.device_get },
		{ "cuDeviceGetName", &driver.device_name },
		{ "cuDeviceGetAttribute", &driver.device_attribute },
		{ "cuDevicePrimaryCtxRetain", &driver.primary_retain },
		{ "cuCtxGetCurrent", &driver.context_get },
		{ "cuCtxSetCurrent", &driver.context_set },
		{ "cuCtxGetDevice", &driver.context_device },
		{ "cuCtxSynchronize", &driver.context_sync },
		{ "cuStreamSynchronize", &driver.stream_sync },
		{ "cuStreamWaitEvent", &driver.stream_wait },
		{ "cuEventCreate", &driver.event_create },
		{ "cuEventRecord", &driver.event_record },
		{ "cuEventDestroy_v2", &driver.event_destroy },
		{ "cuEventSynchronize", &driver.event_sync },
		{ "cuEventElapsedTime", &driver.event_elapsed },
		{ "cuMemsetD8Async", &driver.memset_async },
		{ "cuDriverGetVersion", &driver.version },
		{ "cuModuleLoadData", &driver.module_load },
		{ "cuModuleGetFunction", &driver.module_function },
		{ "cuModuleUnload", &driver.module_unload },
		{ "cuFuncGetAttribute", &driver.function_attribute },
		{ "cuLaunchKernel", &driver.launch },
		{ "cuMemAlloc_v2", &driver.alloc },
		{ "cuMemFree_v2", &driver.free },
		{ "cuMemHostAlloc", &driver.host_alloc },
		{ "cuMemFreeHost", &driver.host_free },
		{ "cuMemHostGetDevicePointer_v2", &driver.host_device_ptr },
		{ "cuMemcpy", &driver.copy },
		{ "cuMemcpyAsync", &driver.copy_async },
		{ "cuPointerGetAttribute", &driver.pointer_attribute },
		{ "cuGetErrorName", &driver.error_name },
	};
	for (unsigned i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *p = dlsym(library, symbols[i].name);
		if (!p) {
			snprintf(why_not, sizeof why_not, "libcuda.so.1 has no %s: it is too old",
				 symbols[i].name);
			return 0;
		}
		memcpy(symbols[i].at, &p, sizeof p);
	}
	return 1;
}

static void load_once(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	int device, result;
	if (!library) {
		snprintf(why_not, sizeof why_not, "there is no NVIDIA driver (libcuda.so.1)");
		return;
	}
	if (!resolve(library))
		return;
	if ((result = driver.init(0)) || (result = driver.device_get(&device, 0))) {
		const char *text = "?";
		driver.error_name(result, &text);
		snprintf(why_not, sizeof why_not, "the NVIDIA driver offers no device: %s", text);
	}
}

const struct stx__driver *stx__driver(struct stx_diag *d)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load_once);
	if (!why_not[0])
		return &driver;
	stx_fail(d, STX_E_UNSUPPORTED, "cuda", "", "no GPU to run on: %s", why_not);
	return NULL;
}

stx_err stx__driver_fail(int result, const char *what, const char *node, struct stx_diag *d)
{
	const char *text = "unknown error";
	driver.error_name(result, &text);
	return stx_fail(d, result == OUT_OF_MEMORY ? STX_E_NOMEM : STX_E_INTERNAL, "cuda", node,
			"%s: %s", what, text);
}

stx_err stx__driver_context(int *device, struct stx_diag *d)
{
	const struct stx__driver *q = stx__driver(d);
	void *context = NULL;
	int result;
	if (!q)
		return STX_E_UNSUPPORTED;
	if ((result = q->context_get(&context)))
		return stx__driver_fail(result, "the current context", "", d);
	if (!context &&
	    ((result = q->device_get(device, 0)) ||
	     (result = q->primary_retain(&context, *device)) || (result = q->context_set(context))))
		return stx__driver_fail(result, "the context of device 0", "", d);
	if ((result = q->context_device(device)))
		return stx__driver_fail(result, "the current device", "", d);
	return STX_E_OK;
}

/* ---- what a device is ---- */

/* The driver takes most of a millisecond to tell a clock rate, and none of this changes while the
 * process lives: each device is asked once. */
struct device {
	struct device *next;
	int number, major, minor;
	char name[256];
	Stx__Device said;
};

static struct device *ask_device(int number)
{
	struct device *v = calloc(1, sizeof *v);
	int n = 0;
	if (!v)
		return NULL;
	stx__device__init(&v->said);
	const struct {
		int attribute;
		uint32_t *at;
	} fields[] = { { MULTIPROCESSORS, &v->said.multiprocessors },
		       { CLOCK_RATE, &v->said.clock_khz },
		       { MEMORY_CLOCK_RATE, &v->said.memory_clock_khz } };
	v->number = number;
	driver.device_name(v->name, sizeof v->name - 1, number);
	v->said.name = v->name;
	for (unsigned i = 0; i < sizeof fields / sizeof *fields; i++)
		*fields[i].at =
			driver.device_attribute(&n, fields[i].attribute, number) ? 0 : (uint32_t)n;
	v->said.driver = driver.version(&n) ? 0 : (uint32_t)n;
	driver.device_attribute(&v->major, COMPUTE_MAJOR, number);
	driver.device_attribute(&v->minor, COMPUTE_MINOR, number);
	return v;
}

/* The thread's current one, for the process's life. NULL: d says why. */
static const struct device *current_device(struct stx_diag *d)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct device *known;
	struct device *v = NULL;
	int number;
	if (stx__driver_context(&number, d))
		return NULL;
	pthread_mutex_lock(&lock);
	for (v = known; v && v->number != number; v = v->next)
		;
	if (!v && (v = ask_device(number))) {
		v->next = known;
		known = v;
	}
	pthread_mutex_unlock(&lock);
	if (!v)
		stx_fail(d, STX_E_NOMEM, "cuda", "", "out of memory");
	return v;
}

stx_err stx__cuda_resolve(char out[STX_TARGET_BYTES], struct stx_diag *d)
{
	struct stx_gpu_target t;
	const struct device *v = current_device(d);
	if (!v)
		return d && d->code ? d->code : STX_E_UNSUPPORTED;
	if (!stx_gpu_target_find(v->major, v->minor, v->name, &t))
		return stx_fail(d, STX_E_UNSUPPORTED, "cuda", "",
				"%s has compute capability %d.%d, which is not supported", v->name,
				v->major, v->minor);
	stx_gpu_target_print(&t, out);
	return STX_E_OK;
}

stx_err stx__cuda_device(const Stx__Device **out, struct stx_diag *d)
{
	const struct device *v = current_device(d);
	*out = v ? &v->said : NULL;
	return v ? STX_E_OK : d && d->code ? d->code : STX_E_UNSUPPORTED;
}

/* ---- memory, for callers without the driver's headers ---- */

int stax_cuda_alloc(size_t bytes, void **out, struct stax_error *err)
{
	struct stx_diag d;
	stx__device_ptr p = 0;
	int device, result;
	stx__diag_init(&d);
	*out = NULL;
	stx_err e = stx__driver_context(&device, &d);
	if (!e && (result = driver.alloc(&p, bytes ? bytes : 1)))
		e = stx__driver_fail(result, "allocating device memory", "", &d);
	*out = (void *)(uintptr_t)p;
	return stx__give_error(e, &d, err);
}

void stax_cuda_free(void *p)
{
	if (p)
		driver.free((stx__device_ptr)(uintptr_t)p);
}

int stax_cuda_copy(void *to, const void *from, size_t bytes, struct stax_error *err)
{
	struct stx_diag d;
	int device, result;
	stx__diag_init(&d);
	stx_err e = stx__driver_context(&device, &d);
	if (!e && bytes &&
	    (result = driver.copy((stx__device_ptr)(uintptr_t)to, (stx__device_ptr)(uintptr_t)from,
				  bytes)))
		e = stx__driver_fail(result, "copying", "", &d);
	return stx__give_error(e, &d, err);
}
