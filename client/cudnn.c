/* cudnn.c: cuDNN by dlopen: where it is found, and its functions. */
#include "cudnn.h"

#include <pthread.h>
#include <stdio.h>

#include "library.h"

static const char *const names[] = { "libcudnn.so.9", NULL };
static const char *const folders[] = { "nvidia/cudnn/lib", "nvidia/cu13/lib", NULL };

/* Built once, constant afterwards. */
static struct stx__cudnn library;
static char why_not[240];

static void load_once(void)
{
	const struct stx__symbol symbols[] = {
		{ "cudnnGetVersion", &library.version },
		{ "cudnnGetErrorString", &library.error_string },
		{ "cudnnGetLastErrorString", &library.last_error },
		{ "cudnnCreate", &library.create },
		{ "cudnnDestroy", &library.destroy },
		{ "cudnnSetStream", &library.set_stream },
		{ "cudnnBackendCreateDescriptor", &library.desc_create },
		{ "cudnnBackendDestroyDescriptor", &library.desc_destroy },
		{ "cudnnBackendFinalize", &library.desc_finalize },
		{ "cudnnBackendSetAttribute", &library.desc_set },
		{ "cudnnBackendGetAttribute", &library.desc_get },
		{ "cudnnBackendExecute", &library.execute },
	};
	const char *missing = NULL;
	void *h = stx__library_open(names, "CUDNN_HOME", folders);
	if (!h)
		snprintf(why_not, sizeof why_not,
			 "there is no cuDNN 9 (libcudnn.so.9): it is not in lib64 or lib of "
			 "$CUDNN_HOME, $CUDA_HOME or /usr/local/cuda, the library path or pip's "
			 "nvidia folders");
	else if (!stx__library_find(h, symbols, sizeof symbols / sizeof *symbols, &missing))
		snprintf(why_not, sizeof why_not, "cuDNN has no %s: it is no cuDNN 9", missing);
}

const struct stx__cudnn *stx__cudnn(struct stx_diag *d)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, load_once);
	if (!why_not[0])
		return &library;
	stx_fail(d, STX_E_UNSUPPORTED, "cuda", "cudnn", "%s", why_not);
	return NULL;
}
