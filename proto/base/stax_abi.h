/* stax_abi.h
 * the artifact's binary interface: tensors, CPU kernels, the environment, and the data plan.
 * Stable.
 *
 * An artifact is one ELF shared object. Section ".stax.plan" (allocated, read-only) holds the data
 * plan below; CPU kernels are functions named in it; GPU kernels are cubins in section
 * ".stax.cubin", each named by an object symbol of its size. There is no generated host code:
 * libstax runs the plan. An artifact without CPU code is parsed, never dlopened. All numbers are
 * little-endian; every offset (strings and bytecode too) is from the start of the plan unless said
 * otherwise; tables do not overlap; arrays of uint32 are 4-byte aligned; a reader checks every
 * offset and count (plan.h) before using them. ALLOC applies to TEMP values only, RELEASE to TEMP
 * and INPUT values; ALIAS values are not arguments of steps.
 */
#ifndef STX_ABI_H
#define STX_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STX_ABI_VERSION   2
#define STX_MAX_RANK      16
#define STX_PLAN_SECTION  ".stax.plan"
#define STX_CUBIN_SECTION ".stax.cubin"
#define STX_PLAN_MAGIC    "STXPLAN1"

/* ---- what crosses the call ---- */

/* One tensor argument. Strides are in elements and may be 0 or negative; element i is at
 * (char *)data + (offset + sum i[d]*strides[d]) * element size. */
struct stx_tensor {
	void *data;
	uint8_t dtype; /* enum stx_dtype */
	uint8_t rank;
	uint16_t flags; /* STX_TENSOR_* */
	uint32_t reserved;
	int64_t offset; /* elements */
	int64_t sizes[STX_MAX_RANK];
	int64_t strides[STX_MAX_RANK];
};
enum {
	STX_TENSOR_DONATED = 1, /* its memory may be reused by the plan after its last use */
	STX_TENSOR_MUTATED = 2, /* the plan writes it */
	STX_TENSOR_PARAM = 4    /* constant between calls: prepare() may pack it */
};

/* The first index found out of bounds in a run. kernel is an index into the plan's kernel table, -1
 * for none; set once with an atomic compare-and-swap on `taken`. */
struct stx_bounds_record {
	int32_t taken;
	int32_t kernel;
	int32_t axis;
	int32_t reserved;
	int64_t index, bound; /* 0 <= index < bound was violated */
};

#define STX_AXIS_ASSERTION 255 /* as an axis: an assertion of the graph is false */

/* What a CPU kernel sees. Buffers are in the kernel's parameter order, their byte offsets applied.
 */
struct stx_kernel_frame {
	void *const *buffers;
	const int64_t *scalars; /* values of dynamic sizes, in the kernel's parameter order */
	struct stx_bounds_record *bounds; /* never NULL */
	void *scratch; /* of this call alone, aligned to 64 bytes; as large as the plan says */
	/* With STX_PLAN_PREPARED: of each of the kernel's prepared operands, in the plan's order,
	 * where it is packed, aligned to 64 bytes; NULL: it is not. What packs one writes there. */
	void *const *packed;
};
/* Runs grid points [begin, end) of the kernel. Re-entrant: called from several threads at once. */
typedef void stx_kernel_fn(const struct stx_kernel_frame *frame, int64_t begin, int64_t end);

/* What the caller of a run provides; every callback may be NULL, then libstax uses its own. */
struct stx_env {
	void *ctx;
	/* Calls body(arg, begin, end) over [0, n) in pieces of at least `grain`, in any order, from
	 * any threads, and returns when all is done. */
	void (*parallel_for)(void *ctx, int64_t n, int64_t grain,
			     void (*body)(void *arg, int64_t begin, int64_t end), void *arg);
	void *(*allocate)(void *ctx, size_t bytes, size_t align); /* NULL: out of memory */
	void (*release)(void *ctx, void *p, size_t bytes);
	void *stream; /* CUDA artifacts: the CUstream to launch on, in the current context; allocate
			 and release give device memory that is good on it */
};

/* ---- the data plan ---- */

/* Header, at offset 0. Tables are arrays of the records below, each 8-byte aligned. */
struct stx_plan_header {
	char magic[8];
	uint32_t version;               /* STX_ABI_VERSION */
	uint32_t total_bytes;           /* of the plan, this header included */
	uint32_t nsyms, syms_off;       /* struct stx_plan_sym: dynamic sizes */
	uint32_t nvalues, values_off;   /* struct stx_plan_value */
	uint32_t nkernels, kernels_off; /* struct stx_plan_kernel */
	uint32_t nsteps, steps_off;     /* struct stx_plan_step */
	uint32_t nexprs, exprs_off;     /* struct stx_plan_expr */
	uint32_t nguards,
		guards_off;         /* uint32 expression numbers; each must evaluate to non-zero */
	uint32_t ninputs, noutputs; /* of the call; values say which is which */
	uint32_t workspace_expr;    /* bytes of workspace for all temporaries */
	uint32_t strings_off, strings_bytes; /* NUL-terminated names */
	uint32_t data_off, data_bytes;       /* constants, 64-byte aligned */
	uint32_t flags; /* STX_PLAN_*: what the host must offer to run the code */
	uint64_t bytes_read, bytes_written, bytes_min; /* traffic report at the size hints */
};

/* Header flags. CPU level: x86-64-v<level>, 0 when the artifact has no CPU code or does not say. */
#define STX_PLAN_CPU_LEVEL      0xfu
#define STX_PLAN_CPU_AVX512BF16 0x10u
#define STX_PLAN_CUDA           0x20u /* values are in device memory, launches are on a stream */
#define STX_PLAN_CONFIGS        0x40u /* struct stx_plan_tuning follows the header */
#define STX_PLAN_CPU_AVX512VNNI 0x80u
#define STX_PLAN_CPU_AVXVNNI    0x100u
#define STX_PLAN_PREPARED       0x200u /* struct stx_plan_preparing follows, after the tuning */
#define STX_PLAN_ALIGNED        0x400u /* with STX_PLAN_CUDA: what kernels are given begins so */
#define STX_GPU_ALIGN           16     /* bytes; values of a single element need not */
#define STX_PLAN_FLAGS_KNOWN                                                                       \
	(STX_PLAN_CPU_LEVEL | STX_PLAN_CPU_AVX512BF16 | STX_PLAN_CPU_AVX512VNNI |                  \
	 STX_PLAN_CPU_AVXVNNI | STX_PLAN_CUDA | STX_PLAN_CONFIGS | STX_PLAN_ALIGNED |              \
	 STX_PLAN_PREPARED)

/* With STX_PLAN_CONFIGS: what kernels may be launched with. */
struct stx_plan_tuning {
	uint32_t nconfigs, configs_off; /* struct stx_plan_config */
};

/* With STX_PLAN_PREPARED: operands of CPU kernels that may be packed once, before runs. */
struct stx_plan_preparing {
	uint32_t nprepared, prepared_off; /* struct stx_plan_prepared */
};

/* Where a dynamic size comes from: size `dim` of input `input`. */
struct stx_plan_sym {
	uint32_t name; /* string offset */
	uint32_t input, dim;
	uint32_t reserved;
	int64_t lo, hi, hint;
};

enum stx_plan_value_kind {
	STX_VALUE_INPUT,
	STX_VALUE_OUTPUT, /* memory supplied by the caller */
	STX_VALUE_TEMP,   /* in the workspace at offset_expr */
	STX_VALUE_CONST,  /* bytes [const_off, +bytes) of the data area */
	STX_VALUE_ALIAS   /* an output that is a view of input `index2` (strides, offset) */
};

struct stx_plan_value {
	uint8_t kind, dtype, rank, reserved;
	uint32_t flags;          /* STX_TENSOR_* for inputs */
	uint32_t index;          /* position among inputs or outputs */
	uint32_t index2;         /* ALIAS: which input */
	uint32_t name;           /* string offset */
	uint32_t sizes, strides; /* offsets of uint32 arrays [rank] of expression numbers */
	uint32_t bytes_expr;     /* storage in bytes, from element 0 */
	uint32_t offset_expr;    /* TEMP: workspace offset in bytes; ALIAS: element offset */
	uint32_t const_off;      /* from data_off */
};

enum stx_kernel_kind { STX_KERNEL_POI, STX_KERNEL_RED, STX_KERNEL_PER, STX_KERNEL_TEM };

#define STX_SCRATCH_UNIT 4096u
struct stx_plan_kernel {
	uint32_t name;         /* string: "per_fused_add_relu_sum_0" */
	uint32_t symbol;       /* string: ELF symbol of the code */
	uint8_t kind, target;  /* target: 0 CPU, 1 CUDA */
	uint16_t scratch;      /* CPU: of a call, in units of STX_SCRATCH_UNIT bytes */
	uint32_t grid_expr[3]; /* CPU: [0] = grid points, the others 1 */
	uint32_t grain_expr;   /* CPU: fewest grid points worth a thread */
	uint32_t block[3];     /* CPU: [0] = vector elements */
	uint32_t shared_bytes, registers, spills;
	uint32_t nscalars, scalars; /* offset of uint32 expression numbers passed as scalars */
	uint32_t config;            /* string: chosen configuration */
	uint32_t chosen_by; /* string: "heuristic", "measured", "fixed"; or "CALL, else heuristic":
			       stands in for that external call */
	uint8_t digest[32]; /* of the normalised kernel IR */
	uint32_t assertion; /* string: what a bounds record of this kernel means when its
			       axis is STX_AXIS_ASSERTION; 0: no such record */
};

/* One configuration of a kernel. Those of a kernel stand together, kernels in ascending order; the
 * first is the heuristic choice, which the kernel's own record and the artifact's code have. The
 * code of the others is no part of the artifact. */
struct stx_plan_config {
	uint32_t kernel;
	uint32_t text;   /* string: its name, as in stx_plan_kernel.config */
	uint32_t symbol; /* string: of its code */
	uint32_t grid_expr[3];
	uint32_t block[3];
	uint32_t reserved;
};

/* An operand that is computed from arguments flagged STX_TENSOR_PARAM alone, and packed by a function
 * of a kernel's type, whose frame has the kernel's arguments. Those of a kernel stand together,
 * kernels in ascending order. */
struct stx_plan_prepared {
	uint32_t kernel;
	uint32_t symbol; /* string: of that function */
	uint32_t points; /* of its grid */
	uint32_t reserved;
	uint64_t bytes; /* that it writes at most */
};

/* What a launch or an external call does with an argument. */
enum { STX_ARG_READ = 1, STX_ARG_WRITTEN = 2 };

enum stx_plan_step_kind {
	STX_STEP_ALLOC,   /* value a comes to life */
	STX_STEP_RELEASE, /* value a has had its last use */
	STX_STEP_LAUNCH,  /* kernel a with `nargs` values at offset `args` (uint32 each); b: offset
			     of their STX_ARG_* (uint32 each), 0: not said */
	STX_STEP_COPY,    /* value b := value a, any strides, same dtype and sizes */
	STX_STEP_EXTERN   /* external call of name (string) a, arguments as LAUNCH; b: offset of its
			     struct stx_plan_extern */
};

struct stx_plan_step {
	uint32_t kind;
	uint32_t a, b;
	uint32_t nargs, args;
	uint32_t covers; /* EXTERN, or 0: so many of the launches and calls that follow do the same;
			    where the call has been made they are left out */
};

#define STX_PLAN_NONE UINT32_MAX
/* Of an external call: code that libstax offers under its name. 4-byte aligned. */
struct stx_plan_extern {
	uint32_t nattrs, attrs; /* offset of uint32 expression numbers: integers whose meaning is
				   the call's */
	uint32_t workspace;     /* TEMP value to work in, which is one of the arguments; or NONE */
	uint32_t kernel; /* does the same with the same arguments in order, but for the workspace,
			    which is the last: launched where the call cannot be made; or NONE */
	uint32_t uses;   /* offset of the STX_ARG_* of the arguments (uint32 each) */
};

/* ---- the external calls there are ---- */

/* "interpret": a graph by the oracle, on the host. Arguments: its text, inputs, outputs.
 *
 * "cublaslt.matmul": D = A * B for each of a batch, on a device, in column-major
 * terms, as the library has them. Attributes, in elements; types are
 * those of the arguments. The sum is in f32 (f64 for f64, i32 for i8), an epilogue is computed in
 * that type, the result is rounded once to D's type. */
#define STX_CALL_MATMUL "cublaslt.matmul"
enum stx_matmul_attr {
	STX_MATMUL_ROWS,  /* of D, and of A */
	STX_MATMUL_COLS,  /* of D, and of B */
	STX_MATMUL_INNER, /* columns of A, rows of B */
	STX_MATMUL_BATCH,
	STX_MATMUL_A, /* where the STX_MATRIX_* of A, B and D begin */
	STX_MATMUL_B = STX_MATMUL_A + 5,
	STX_MATMUL_D = STX_MATMUL_B + 5,
	STX_MATMUL_EPILOGUE = STX_MATMUL_D + 5, /* STX_EPILOGUE_* */
	STX_MATMUL_BIAS,        /* number of the argument: of D's type, an element for each row */
	STX_MATMUL_BIAS_OFFSET, /* of its first element */
	STX_MATMUL_NATTRS
};
enum { STX_EPILOGUE_NONE, STX_EPILOGUE_BIAS /* added to the sum before it is rounded */ };
enum stx_matrix_attr {
	STX_MATRIX_ARG,        /* number of the argument */
	STX_MATRIX_TRANSPOSED, /* 1: the transpose is in memory; D: 0 */
	STX_MATRIX_LD,         /* from a column in memory to the next */
	STX_MATRIX_STRIDE,     /* from a matrix of the batch to the next */
	STX_MATRIX_OFFSET      /* of the first element */
};

/* "cudnn.convolution": Y = X * W on a device, a cross-correlation: W is not flipped. Attributes in
 * elements; types are those of the arguments. X [n, groups*c, in..], W [groups*m, c, tap..],
 * Y [n, groups*m, out..] with one to three spatial dimensions. INPUT_GRADIENT: the transposed one,
 * which for each X makes what X would be the result of: Y [n, groups*c, in..], X [n, groups*m,
 * out..]. The sum is in f32 (f64 for f64), a bias is added to it in that type, the result is
 * rounded once to Y's type. */
#define STX_CALL_CONV        "cudnn.convolution"
#define STX_CONV_MAX_SPATIAL 3
enum stx_conv_attr {
	STX_CONV_KIND,    /* STX_CONVOLVE_* */
	STX_CONV_SPATIAL, /* dimensions; what follows has room for three */
	STX_CONV_STRIDE,
	STX_CONV_DILATION = STX_CONV_STRIDE + STX_CONV_MAX_SPATIAL,
	STX_CONV_BEFORE = STX_CONV_DILATION + STX_CONV_MAX_SPATIAL, /* zeros before; those after */
	STX_CONV_AFTER = STX_CONV_BEFORE + STX_CONV_MAX_SPATIAL,
	STX_CONV_X = STX_CONV_AFTER + STX_CONV_MAX_SPATIAL, /* where the STX_ARRAY_* begin */
	STX_CONV_W = STX_CONV_X + 12,
	STX_CONV_Y = STX_CONV_W + 12,
	STX_CONV_EPILOGUE = STX_CONV_Y + 12, /* STX_EPILOGUE_* */
	STX_CONV_BIAS,        /* number of the argument: of Y's type, an element for each channel */
	STX_CONV_BIAS_OFFSET, /* of its first element */
	STX_CONV_NATTRS
};
enum { STX_CONVOLVE_FORWARD, STX_CONVOLVE_INPUT_GRADIENT };
enum stx_array_attr {
	STX_ARRAY_ARG,    /* number of the argument */
	STX_ARRAY_OFFSET, /* of the first element */
	STX_ARRAY_SIZE,   /* of five dimensions; the last ones that there are not have 1 */
	STX_ARRAY_STRIDE = STX_ARRAY_SIZE + 2 + STX_CONV_MAX_SPATIAL,
	STX_ARRAY_NATTRS = STX_ARRAY_STRIDE + 2 + STX_CONV_MAX_SPATIAL
};

/* "cudnn.attention": Y = softmax(scale * Q K') V on a device, for each of a batch and each head.
 * Attributes in elements; all four are f16, or bf16. Q [batch, heads, queries, size], K [batch,
 * some, keys, size], V [batch, some, keys, other], Y [batch, heads, queries, other], "some"
 * dividing the heads: each of K's and V's serves as many of Q's in a row. CAUSAL: a query does not
 * see the keys of greater numbers. BIASED: finite numbers [batch, heads, queries, keys], of the
 * operands' type or f32, are added to scale * Q K', the same ones along each of the first three
 * dimensions of which BIAS has one element. Sums, and softmax but for its result, are in f32; the
 * weights are rounded to the operands' type, and the result once. */
#define STX_CALL_ATTENTION "cudnn.attention"
enum stx_attention_attr {
	STX_ATTENTION_CAUSAL, /* 0 or 1 */
	STX_ATTENTION_SCALE,  /* the bits of an f32 */
	STX_ATTENTION_Q,      /* where the STX_ARRAY_* begin */
	STX_ATTENTION_K = STX_ATTENTION_Q + STX_ARRAY_NATTRS,
	STX_ATTENTION_V = STX_ATTENTION_K + STX_ARRAY_NATTRS,
	STX_ATTENTION_Y = STX_ATTENTION_V + STX_ARRAY_NATTRS,
	STX_ATTENTION_BIAS = STX_ATTENTION_Y + STX_ARRAY_NATTRS, /* Q's where it is not BIASED */
	STX_ATTENTION_BIASED = STX_ATTENTION_BIAS + STX_ARRAY_NATTRS, /* 0 or 1 */
	STX_ATTENTION_NATTRS
};

/* Expression bytecode: [off, off+bytes), a stack machine over int64. */
struct stx_plan_expr {
	uint32_t off, bytes;
};
enum stx_plan_op { /* one byte each; CONST is followed by 8 bytes, SYM by 4 */
		   STX_X_CONST = 1,
		   STX_X_SYM,
		   STX_X_ADD,
		   STX_X_SUB,
		   STX_X_MUL,
		   STX_X_FLOORDIV,
		   STX_X_TRUNCDIV,
		   STX_X_MOD,
		   STX_X_MIN,
		   STX_X_MAX,
		   STX_X_EQ,
		   STX_X_NE,
		   STX_X_LT,
		   STX_X_LE,
		   STX_X_AND,
		   STX_X_OR
};
#define STX_PLAN_MAX_STACK 64

/* C99 has no way to say it. */
#ifdef __cplusplus
#define STX_ABI_ASSERT static_assert
#elif defined __STDC_VERSION__ && __STDC_VERSION__ >= 201112L
#define STX_ABI_ASSERT _Static_assert
#endif
#ifdef STX_ABI_ASSERT
STX_ABI_ASSERT(sizeof(struct stx_plan_header) == 120, "plan layout");
STX_ABI_ASSERT(sizeof(struct stx_plan_sym) == 40, "plan layout");
STX_ABI_ASSERT(sizeof(struct stx_plan_value) == 40, "plan layout");
STX_ABI_ASSERT(sizeof(struct stx_plan_kernel) == 104, "plan layout");
STX_ABI_ASSERT(sizeof(struct stx_plan_step) == 24, "plan layout");
STX_ABI_ASSERT(sizeof(struct stx_plan_extern) == 20, "plan layout");
STX_ABI_ASSERT(sizeof(struct stx_plan_config) == 40, "plan layout");
STX_ABI_ASSERT(sizeof(struct stx_plan_prepared) == 24, "plan layout");
#undef STX_ABI_ASSERT
#endif

#ifdef __cplusplus
}
#endif
#endif
