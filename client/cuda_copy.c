/* cuda_copy.c: values of any strides from one place in device memory to another: a copy of the
 * driver's for each of few pieces, else one launch of a kernel that is part of libstax, as PTX,
 * which a driver of CUDA 11 or later translates for its device. */
#include <stdlib.h>

#include "cuda.h"

#define FEW_PIECES  32
#define THREADS     256
#define MOST_BLOCKS 4096

/* Parameters: to, from, n elements, rank, bytes of an element, struct layout. A thread takes every
 * so-manieth element; the innermost dimension is the last. */
static const char kernel[] =
	"// stx_copy\n"
	".version 7.0\n"
	".target sm_80\n"
	".address_size 64\n"
	".visible .entry stx_copy(.param .u64 to, .param .u64 from, .param .u64 n, .param .u32 "
	"rank,\n"
	"\t.param .u32 bytes, .param .align 8 .b8 layout[384])\n"
	"{\n"
	"\t.reg .pred %done, %is1, %is2, %is4, %is8;\n"
	"\t.reg .b16 %short;\n"
	"\t.reg .b32 %block, %threads, %thread, %blocks, %rank, %bytes, %dim, %word;\n"
	"\t.reg .b64 %to, %from, %n, %i, %t, %step, %layout, %at, %p, %q, %rest, %size, %all, "
	"%long;\n"
	"\tld.param.u64 %to, [to];\n"
	"\tld.param.u64 %from, [from];\n"
	"\tld.param.u64 %n, [n];\n"
	"\tld.param.u32 %rank, [rank];\n"
	"\tld.param.u32 %bytes, [bytes];\n"
	"\tmov.b64 %layout, layout;\n"
	"\tcvta.to.global.u64 %to, %to;\n"
	"\tcvta.to.global.u64 %from, %from;\n"
	"\tsetp.eq.u32 %is1, %bytes, 1;\n"
	"\tsetp.eq.u32 %is2, %bytes, 2;\n"
	"\tsetp.eq.u32 %is4, %bytes, 4;\n"
	"\tsetp.eq.u32 %is8, %bytes, 8;\n"
	"\tmov.u32 %block, %ctaid.x;\n"
	"\tmov.u32 %threads, %ntid.x;\n"
	"\tmov.u32 %thread, %tid.x;\n"
	"\tmov.u32 %blocks, %nctaid.x;\n"
	"\tmul.wide.u32 %i, %block, %threads;\n"
	"\tcvt.u64.u32 %t, %thread;\n"
	"\tadd.s64 %i, %i, %t;\n"
	"\tmul.wide.u32 %step, %blocks, %threads;\n"
	"element:\n"
	"\tsetp.ge.s64 %done, %i, %n;\n"
	"\t@%done bra end;\n"
	"\tmov.b64 %p, %to;\n"
	"\tmov.b64 %q, %from;\n"
	"\tmov.b64 %rest, %i;\n"
	"\tmov.b32 %dim, %rank;\n"
	"\tmul.wide.u32 %at, %rank, 8;\n"
	"\tadd.s64 %at, %layout, %at;\n"
	"dimension:\n"
	"\tsetp.eq.u32 %done, %dim, 0;\n"
	"\t@%done bra move;\n"
	"\tsub.u32 %dim, %dim, 1;\n"
	"\tsub.s64 %at, %at, 8;\n"
	"\tld.param.u64 %size, [%at];\n"
	"\tdiv.s64 %all, %rest, %size;\n"
	"\tmul.lo.s64 %t, %all, %size;\n"
	"\tsub.s64 %rest, %rest, %t;\n"
	"\tld.param.u64 %t, [%at+128];\n"
	"\tmad.lo.s64 %p, %rest, %t, %p;\n"
	"\tld.param.u64 %t, [%at+256];\n"
	"\tmad.lo.s64 %q, %rest, %t, %q;\n"
	"\tmov.b64 %rest, %all;\n"
	"\tbra dimension;\n"
	"move:\n"
	"\t@%is1 ld.global.u8 %short, [%q];\n"
	"\t@%is1 st.global.u8 [%p], %short;\n"
	"\t@%is2 ld.global.u16 %short, [%q];\n"
	"\t@%is2 st.global.u16 [%p], %short;\n"
	"\t@%is4 ld.global.u32 %word, [%q];\n"
	"\t@%is4 st.global.u32 [%p], %word;\n"
	"\t@%is8 ld.global.u64 %long, [%q];\n"
	"\t@%is8 st.global.u64 [%p], %long;\n"
	"\tadd.s64 %i, %i, %step;\n"
	"\tbra element;\n"
	"end:\n"
	"\tret;\n"
	"}\n";

/* Dimensions of more than one element, by falling distance in the destination; strides in bytes. */
struct layout {
	int64_t size[STX_MAX_RANK], to[STX_MAX_RANK], from[STX_MAX_RANK];
};
_Static_assert(sizeof(struct layout) == 384, "the kernel's parameter");

/* Returns their number. */
static int sorted(const int64_t *ds, const int64_t *ss, const int64_t *sizes, int rank, int bytes,
		  struct layout *l)
{
	int n = 0;
	for (int i = 0; i < rank; i++) {
		int k = n;
		if (sizes[i] == 1)
			continue;
		for (; k > 0 && llabs(l->to[k - 1]) < llabs(ds[i] * bytes); k--) {
			l->to[k] = l->to[k - 1];
			l->from[k] = l->from[k - 1];
			l->size[k] = l->size[k - 1];
		}
		l->to[k] = ds[i] * bytes;
		l->from[k] = ss[i] * bytes;
		l->size[k] = sizes[i];
		n++;
	}
	return n;
}

/* How many of the last dimensions are one piece in both; *bytes: of an element, then of the
 * piece. */
static int piece(const struct layout *l, int rank, int64_t *bytes)
{
	int n = 0;
	for (int i = rank - 1; i >= 0 && l->to[i] == *bytes && l->from[i] == *bytes; i--, n++)
		*bytes *= l->size[i];
	return n;
}

static int copy_pieces(const struct stx__driver *q, stx__device_ptr to, stx__device_ptr from,
		       const struct layout *l, int rank, int64_t bytes, void *stream)
{
	int64_t at[STX_MAX_RANK] = { 0 };
	for (;;) {
		stx__device_ptr p = to, s = from;
		for (int i = 0; i < rank; i++) {
			p += (stx__device_ptr)(at[i] * l->to[i]);
			s += (stx__device_ptr)(at[i] * l->from[i]);
		}
		int result = q->copy_async(p, s, (size_t)bytes, stream);
		int i = rank - 1;
		while (i >= 0 && ++at[i] == l->size[i])
			at[i--] = 0;
		if (result || i < 0)
			return result;
	}
}

/* NULL: the driver does not translate it. */
static void *copy_function(const struct stx__driver *q, struct stx__gpu_code *g)
{
	pthread_mutex_lock(&g->lock);
	if (!g->copy_module && !g->no_copy &&
	    (q->module_load(&g->copy_module, kernel) ||
	     q->module_function(&g->copy_fn, g->copy_module, "stx_copy"))) {
		g->no_copy = 1;
		g->copy_fn = NULL;
	}
	void *fn = g->copy_fn;
	pthread_mutex_unlock(&g->lock);
	return fn;
}

static int launch(const struct stx__driver *q, void *fn, stx__device_ptr to, stx__device_ptr from,
		  struct layout *l, int rank, int bytes, void *stream)
{
	int64_t n = 1;
	for (int i = 0; i < rank; i++)
		n *= l->size[i];
	void *params[] = { &to, &from, &n, &rank, &bytes, l };
	int64_t blocks = (n + THREADS - 1) / THREADS;
	return q->launch(fn, (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1, THREADS,
			 1, 1, 0, stream, params, NULL);
}

stx_err stx__gpu_copy(struct stx__gpu_code *g, void *dst, const int64_t *ds, const void *src,
		      const int64_t *ss, const int64_t *sizes, int rank, int elem_bytes,
		      const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__driver *q = stx__driver(d);
	stx__device_ptr to = (uintptr_t)dst, from = (uintptr_t)src;
	void *stream = env ? env->stream : NULL, *fn = NULL;
	struct layout l = { .size = { 0 } };
	int64_t bytes = elem_bytes, pieces = 1;
	for (int i = 0; i < rank; i++)
		if (sizes[i] == 0)
			return STX_E_OK;
	int n = sorted(ds, ss, sizes, rank, elem_bytes, &l), inner = piece(&l, n, &bytes);
	for (int i = 0; i < n - inner; i++)
		pieces *= l.size[i];
	if (pieces > FEW_PIECES)
		fn = copy_function(q, g);
	int result = fn ? launch(q, fn, to, from, &l, n, elem_bytes, stream)
			: copy_pieces(q, to, from, &l, n - inner, bytes, stream);
	return result ? stx__driver_fail(result, "copying a value", "", d) : STX_E_OK;
}
