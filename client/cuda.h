/* cuda.h
 * the CUDA driver, loaded on first use, and a GPU artifact's code on each device. Inside libstax.
 */
#ifndef STX_CLIENT_CUDA_H
#define STX_CLIENT_CUDA_H

#include "client.h"

/* ---- the driver (cuda.c): its documented C interface; handles are opaque, results 0 or an error
 * ---- */

typedef uint64_t stx__device_ptr;
struct stx__driver {
	int (*init)(unsigned flags);
	int (*device_get)(int *device, int ordinal);
	int (*device_name)(char *name, int n, int device);
	int (*device_attribute)(int *value, int attribute, int device);
	int (*primary_retain)(void **context, int device);
	int (*context_get)(void **context);
	int (*context_set)(void *context);
	int (*context_device)(int *device);
	int (*context_sync)(void);
	int (*stream_sync)(void *stream);
	int (*stream_wait)(void *stream, void *event, unsigned flags);
	int (*event_create)(void **event, unsigned flags);
	int (*event_record)(void *event, void *stream);
	int (*event_destroy)(void *event);
	int (*event_sync)(void *event);
	int (*event_elapsed)(float *ms, void *from, void *to);
	int (*memset_async)(stx__device_ptr at, unsigned char value, size_t n, void *stream);
	int (*version)(int *version);
	int (*module_load)(void **module, const void *image);
	int (*module_function)(void **fn, void *module, const char *name);
	int (*module_unload)(void *module);
	int (*function_attribute)(int *value, int attribute, void *fn);
	int (*launch)(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		      unsigned bz, unsigned shared, void *stream, void **params, void **extra);
	int (*alloc)(stx__device_ptr *out, size_t bytes);
	int (*free)(stx__device_ptr p);
	int (*host_alloc)(void **out, size_t bytes, unsigned flags);
	int (*host_free)(void *p);
	int (*host_device_ptr)(stx__device_ptr *out, void *p, unsigned flags);
	int (*copy)(stx__device_ptr to, stx__device_ptr from, size_t bytes);
	int (*copy_async)(stx__device_ptr to, stx__device_ptr from, size_t bytes, void *stream);
	int (*pointer_attribute)(void *value, int attribute, stx__device_ptr p);
	int (*error_name)(int result, const char **text);
};
/* NULL and d (UNSUPPORTED) without a driver or a device. */
const struct stx__driver *stx__driver(struct stx_diag *d);
/* INTERNAL (NOMEM for exhausted memory), naming what failed and the driver's error. */
stx_err stx__driver_fail(int result, const char *what, const char *node, struct stx_diag *d);
/* The current device as timings are kept by it, for the process's life. UNSUPPORTED without. */
stx_err stx__cuda_device(const Stx__Device **out, struct stx_diag *d);
/* Makes the calling thread's context current: its own, else device 0's primary one. */
stx_err stx__driver_context(int *device, struct stx_diag *d);

/* ---- code and constants on a device (cuda_code.c) ---- */

enum stx__library_number { STX__CUBLASLT, STX__CUDNN, STX__NLIBRARIES };
struct stx__call;
struct stx__gpu_library { /* that makes external calls (calls.h) */
	void *handle;     /* NULL: not needed yet, or */
	int is_refused;   /* it cannot be had on this device */
	struct stx__call *
		*kept; /* [nsteps of the plan] of each step, by sizes; NULL: nothing yet */
};
struct stx__gpu_code {
	void *context; /* where it lives */
	int device;
	stx__device_ptr constants;   /* the plan's data area; 0: none */
	void **modules;              /* [codes], NULL: not loaded yet */
	_Atomic(void *) *fns;        /* [codes] */
	pthread_mutex_t lock;        /* of what follows */
	void *copy_module, *copy_fn; /* cuda_copy.c; NULL: not needed yet, or */
	int no_copy;                 /* not to be had */
	struct stx__gpu_library library[STX__NLIBRARIES];
};
#define STX__MAX_DEVICES 16
/* Of an artifact. Codes are numbered: k < nkernels is kernel k's own, of the heuristic choice,
 * which the artifact has; nkernels + c is that of the plan's configuration c, fetched for it. */
struct stx__gpu_devices {
	pthread_mutex_t lock;
	struct stx__gpu_code *at[STX__MAX_DEVICES];
	int n;
	struct stx_span *cubins;  /* [codes]; n 0: not there */
	uint32_t *same;           /* [nkernels]: the kernel whose module has this one's code too */
	_Atomic uint32_t *active; /* [nkernels]: the code each kernel is launched with */
	_Atomic uint32_t epoch;   /* counts changes of active */
	char target[STX_TARGET_BYTES], ns[65]; /* "": not known */
	int fast;
	struct stx__call_record *calls; /* timings of external calls (calls.c) */
	_Atomic uint32_t calls_epoch;   /* counts changes of calls; from 1 on */
};
/* The code of kernel k's configuration number i among those of stx_plan_configs. */
uint32_t stx__gpu_code_number(const struct stax_artifact *a, uint32_t k, uint32_t i);
/* Puts the cubin (copied) where code number code has none. */
stx_err stx__gpu_add_code(struct stax_artifact *a, uint32_t code, struct stx_span cubin,
			  struct stx_diag *d);
/* From the next run on kernel k is launched with that code, which is there. */
void stx__gpu_choose(struct stax_artifact *a, uint32_t k, uint32_t code);
/* Of the current context; made on its first use. */
stx_err stx__gpu_code(struct stax_artifact *a, struct stx__gpu_code **out, struct stx_diag *d);
/* Kernel k's function in that code, loaded on first use. */
stx_err stx__gpu_function(struct stax_artifact *a, struct stx__gpu_code *g, uint32_t k,
			  uint32_t code, void **out, struct stx_diag *d);

/* ---- what is known of external calls (calls.c); thread-safe ---- */

/* From now on calls of that digest go by the record's timings. NOMEM. */
stx_err stx__call_tell(struct stax_artifact *a, const struct stx_digest *call,
		       const Stx__TuneRecord *r);
void stx__calls_free(struct stax_artifact *a);
/* Frees what calls keep in g, whose context is current. nsteps: of the plan. */
void stx__calls_drop(struct stx__gpu_code *g, uint32_t nsteps);

/* ---- a run (cuda_run.c) ---- */

/* Of a context: what launches need. */
struct stx__gpu_context {
	struct stx__gpu_code *code;       /* whose constants are patched in */
	void ***params;                   /* [nsteps] of launches: addresses of the arguments */
	struct stx_bounds_record *record; /* in host memory that the device sees */
	stx__device_ptr record_at;
	int32_t *kernel; /* [nkernels]: 0, 1, 2, ... */
	void *stream;    /* of the last run */
	void *done;      /* event after it */
	int ran;         /* it was recorded */
};
stx_err stx__gpu_bind(struct stax_artifact *a, struct stx__context *x, const struct stx_env *env,
		      struct stx_diag *d);
stx_err stx__gpu_steps(struct stax_artifact *a, struct stx__context *x, const struct stx_env *env,
		       struct stx_diag *d);
/* The steps that `step`, a call, stands for, which may be made again and again. */
stx_err stx__gpu_covered(struct stax_artifact *a, struct stx__context *x, uint32_t step,
			 const struct stx_env *env, struct stx_diag *d);
void stx__gpu_context_free(struct stx__context *x);

/* Device memory for the workspace and for outputs computed beside; NULL: none left. */
void *stx__gpu_alloc(const struct stx_env *env, size_t bytes);
void stx__gpu_free(const struct stx_env *env, void *p, size_t bytes);
/* stx__client_copy between device memory, in order on the stream (cuda_copy.c). */
stx_err stx__gpu_copy(struct stx__gpu_code *g, void *dst, const int64_t *dst_strides,
		      const void *src, const int64_t *src_strides, const int64_t *sizes, int rank,
		      int elem_bytes, const struct stx_env *env, struct stx_diag *d);

#endif
