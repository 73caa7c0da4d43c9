/* fake.h
 * stand-ins for the CUDA driver, cuBLASLt and cuDNN that compute on the host. Tests load them before
 * libstax looks for the real ones, which it then takes them for.
 */
#ifndef STX_TESTS_FAKE_H
#define STX_TESTS_FAKE_H

#include <stddef.h>
#include <stdint.h>

struct fake_launch {
	const void *image; /* what the kernel's module was loaded from */
	uint32_t grid[3], block[3];
	void **params; /* as for cuLaunchKernel */
};
struct fake_cuda_counts {
	uint64_t launches, allocs, frees, modules, unloads, events, destroyed, syncs, attributes,
		copies, now_ns;
	uint64_t memory_limit; /* of one allocation; 0: none */
	int no_translator;     /* of PTX */
};
/* Exported by the driver. */
struct fake_cuda_counts *fake_cuda_counts(void);
/* From now on fn runs every kernel; not 0: the launch fails. */
void fake_cuda_on_launch(int (*fn)(const struct fake_launch *l));

struct fake_matrix { /* a layout, and the operand as the call had it */
	int type;
	uint64_t rows, cols;
	int64_t ld, stride;
	int32_t batch, transposed;
	const void *at;
};
struct fake_matmul { /* one call of cublasLtMatmul */
	int compute, scale;
	double alpha, beta;
	struct fake_matrix a, b, d;
	const void *bias; /* of D's type, an element for each row; NULL: none */
	int algorithm;
	void *workspace;
	size_t workspace_bytes;
	void *stream, *handle;
};
struct fake_preference { /* as a call of the heuristic had it */
	uint64_t workspace_bytes, impl_mask;
	uint32_t reduction_mask, alignment[4];
};
#define FAKE_MAX_CALLS 64
struct fake_cublaslt {
	int offered;       /* algorithms that the heuristic finds; set by the test */
	int first;         /* number of the first one it lists */
	int no_epilogue;   /* the heuristic finds none for a bias */
	int wrong;         /* algorithm whose results are off by one; -1: none */
	size_t version;    /* of the library */
	uint64_t ns[64];   /* that algorithm n takes on the driver's clock */
	int refuse;        /* status that cublasLtMatmul returns instead; 0: none */
	int refuse_handle; /* status of cublasLtCreate; 0: none */
	uint32_t heuristics, calls, handles,
		alive;                           /* so far; handles and descriptors not destroyed */
	struct fake_preference preference;       /* of the last heuristic */
	struct fake_matmul call[FAKE_MAX_CALLS]; /* the last calls, by number modulo their count */
};
/* Exported by the library. */
struct fake_cublaslt *fake_cublaslt(void);

struct fake_tensor {    /* a descriptor, and the operand as the call had it */
	int type, rank; /* rank 0: there is none */
	int64_t size[8], stride[8], alignment, id;
	int is_virtual, is_value;
	char *at;
};
struct fake_convolution { /* one call of cudnnBackendExecute */
	int is_gradient, accumulate, k;
	int64_t stride[3], dilation[3], before[3], after[3];
	struct fake_tensor x, w, y, bias;
	int engine;
	void *workspace, *stream, *handle;
};
struct fake_attention { /* the same, of attention */
	int is_causal;
	float scale;
	struct fake_tensor q, k, v, y; /* k: its transpose */
	struct fake_tensor bias;       /* rank 0: none */
	int engine;
	void *workspace, *stream;
};
struct fake_cudnn {
	int offered;             /* engines that heuristic A lists; set by the test */
	int first;               /* number of the first one it lists */
	int only_fallback;       /* A lists none, the fallback lists engine 40 */
	uint32_t notes[64];      /* numerical notes of each engine, bit n for note n */
	int no_bias;             /* the heuristics list none for a bias */
	int no_plan;             /* engine that no plan can be made of; -1: none */
	int wrong;               /* engine whose results are off; -1: none */
	size_t version;          /* of the library */
	int64_t workspace_bytes; /* that plans need */
	uint64_t ns[64];         /* that engine n takes on the driver's clock */
	int refuse;              /* status that cudnnBackendExecute returns instead; 0: none */
	int refuse_handle;       /* status of cudnnCreate; 0: none */
	uint32_t heuristics, plans, calls, handles, alive; /* as of cuBLASLt */
	struct fake_convolution call[FAKE_MAX_CALLS];
	struct fake_attention attention; /* the last one */
};
struct fake_cudnn *fake_cudnn(void);

#endif
