/* bench_matmul.c: matrix products, linear layers, convolutions, beside OpenBLAS where it is there.
 * Usage: bench_matmul [NAME..]   prints a table: median of 11 alternating rounds, 1 and 2 threads.
 * STX_CPU_TIME=1: the least processor time of the calling thread instead, for a busy machine, and 1
 * thread only. STX_ROTATE=N: N copies of all tensors take turns, so that they come from memory.
 * STX_OPENBLAS names a libopenblas whose cblas_sgemm is measured in the same rounds. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_call.h"
#include "compiled.h"
#include "cpu_target.h"

#define ROUNDS 11

/* 64-bit integers suit libraries of either kind: they are in registers or in slots of 8 bytes. */
typedef void sgemm_fn(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float, const float *,
		      int64_t, const float *, int64_t, float, float *, int64_t);
typedef void threads_fn(int);

#define MM(M, K, N)                                                                                \
	"%a : f32[" #M "," #K "] = placeholder()\n%b : f32[" #K "," #N                             \
	"] = placeholder()\n%c = mm.default(%a, %b)\nreturn (%c)\n"
#define BMM(B, N)                                                                                  \
	"%a : f32[" #B "," #N "," #N "] = placeholder()\n%b : f32[" #B "," #N "," #N               \
	"] = placeholder()\n%c = bmm.default(%a, %b)\nreturn (%c)\n"
#define BT(M, K, N)                                                                                \
	"%a : f32[" #M "," #K "] = placeholder()\n%b : f32[" #N "," #K                             \
	"] = placeholder()\n%t = t.default(%b)\n%c = mm.default(%a, %t)\nreturn (%c)\n"
#define AT(M, K, N)                                                                                \
	"%a : f32[" #K "," #M "] = placeholder()\n%b : f32[" #K "," #N                             \
	"] = placeholder()\n%t = t.default(%a)\n%c = mm.default(%t, %b)\nreturn (%c)\n"
#define LINEAR(T, M, K, N)                                                                         \
	"%x : " T "[" #M "," #K "] = placeholder()\n%w : " T "[" #N "," #K                         \
	"] = placeholder()\n%b : " T "[" #N                                                        \
	"] = placeholder()\n%l = linear.default(%x, %w, %b)\n%g = gelu.default(%l)\nreturn "       \
	"(%g)\n"

#define BYTES(T, U, M, K, N)                                                                       \
	"%a : " T "[" #M "," #K "] = placeholder()\n%b : " U "[" #K "," #N                         \
	"] = placeholder()\n%p = _to_copy.default(%a, dtype=i32)\n"                                \
	"%q = _to_copy.default(%b, dtype=i32)\n%c = mm.default(%p, %q)\nreturn (%c)\n"
#define BYTES_LESS(T, U, M, K, N)                                                                  \
	"%a : " T "[" #M "," #K "] = placeholder()\n%b : " U "[" #K "," #N                         \
	"] = placeholder()\n%p = _to_copy.default(%a, dtype=i32)\n%s = sub.Scalar(%p, 3)\n"        \
	"%q = _to_copy.default(%b, dtype=i32)\n%c = mm.default(%s, %q)\nreturn (%c)\n"
#define BYTES_T(T, U, M, K, N)                                                                     \
	"%a : " T "[" #M "," #K "] = placeholder()\n%b : " U "[" #N "," #K                         \
	"] = placeholder()\n%p = _to_copy.default(%a, dtype=i32)\n"                                \
	"%q = _to_copy.default(%b, dtype=i32)\n%t = t.default(%q)\n"                               \
	"%c = mm.default(%p, %t)\nreturn (%c)\n"

#define CONV(C, H, O, K, S, P)                                                                     \
	"%x : f32[1," #C "," #H "," #H "] = placeholder()\n%w : f32[" #O "," #C "," #K "," #K      \
	"] = placeholder()\n%c = convolution.default(%x, %w, None, [" #S "," #S "], [" #P "," #P   \
	"], [1,1], False, [0,0], 1)\nreturn (%c)\n"
#define DEPTHWISE(C, H, K, S, P)                                                                   \
	"%x : f32[1," #C "," #H "," #H "] = placeholder()\n%w : f32[" #C ",1," #K "," #K           \
	"] = placeholder()\n%c = convolution.default(%x, %w, None, [" #S "," #S "], [" #P "," #P   \
	"], [1,1], False, [0,0], " #C ")\nreturn (%c)\n"

#define LAST(C, H, O, I, K, S, P, G) /* channels last */                                           \
	"%x : f32[1," #H "," #H "," #C "] = placeholder()\n%w : f32[" #O "," #I "," #K "," #K      \
	"] = placeholder()\n%p = permute.default(%x, [0,3,1,2])\n"                                 \
	"%c = convolution.default(%p, %w, None, [" #S "," #S "], [" #P "," #P                      \
	"], [1,1], False, [0,0], " #G ")\n%q = permute.default(%c, [0,2,3,1])\n"                   \
	"%r = clone.default(%q)\nreturn (%r)\n"

static const struct sample {
	const char *name, *text;
	int m, n, k, batch; /* flops = 2 m n k batch */
	int trans;          /* of OpenBLAS' operands: 1 a, 2 b; -1: not a plain product */
} samples[] = {
	{ "sgemm 16", MM(16, 16, 16), 16, 16, 16, 1, 0 },
	{ "sgemm 32", MM(32, 32, 32), 32, 32, 32, 1, 0 },
	{ "sgemm 64", MM(64, 64, 64), 64, 64, 64, 1, 0 },
	{ "sgemm 128", MM(128, 128, 128), 128, 128, 128, 1, 0 },
	{ "sgemm 256", MM(256, 256, 256), 256, 256, 256, 1, 0 },
	{ "sgemm 512", MM(512, 512, 512), 512, 512, 512, 1, 0 },
	{ "sgemm 1024", MM(1024, 1024, 1024), 1024, 1024, 1024, 1, 0 },
	{ "sgemm 2048", MM(2048, 2048, 2048), 2048, 2048, 2048, 1, 0 },
	{ "sgemm 4096", MM(4096, 4096, 4096), 4096, 4096, 4096, 1, 0 },
	{ "sgemm 1000x1001x999", MM(1000, 1001, 999), 1000, 999, 1001, 1, 0 },
	{ "sgemm 64x1024x1024", MM(64, 1024, 1024), 64, 1024, 1024, 1, 0 },
	{ "A^T B 1024", AT(1024, 1024, 1024), 1024, 1024, 1024, 1, 1 },
	{ "A B^T 1024", BT(1024, 1024, 1024), 1024, 1024, 1024, 1, 2 },
	{ "linear+gelu 1024x4096x1024", LINEAR("f32", 1024, 4096, 1024), 1024, 1024, 4096, 1, -1 },
	{ "bf16 linear+gelu 32x4096x4096", LINEAR("bf16", 32, 4096, 4096), 32, 4096, 4096, 1, -1 },
	{ "bf16 mm 1024",
	  "%a : bf16[1024,1024] = placeholder()\n%b : bf16[1024,1024] = placeholder()\n"
	  "%c = mm.default(%a, %b)\nreturn (%c)\n",
	  1024, 1024, 1024, 1, -1 },
	{ "bf16 linear 1024x4096x1024", LINEAR("bf16", 1024, 4096, 1024), 1024, 1024, 4096, 1, -1 },
	{ "f16 linear+gelu 32x4096x4096", LINEAR("f16", 32, 4096, 4096), 32, 4096, 4096, 1, -1 },
	{ "linear+gelu 32x4096x4096", LINEAR("f32", 32, 4096, 4096), 32, 4096, 4096, 1, -1 },
	{ "i8 mm 1024", BYTES("i8", "i8", 1024, 1024, 1024), 1024, 1024, 1024, 1, -1 },
	{ "u8 less 3 by i8, 1024", BYTES_LESS("u8", "i8", 1024, 1024, 1024), 1024, 1024, 1024, 1,
	  -1 },
	{ "i8 linear 32x4096x4096", BYTES_T("i8", "i8", 32, 4096, 4096), 32, 4096, 4096, 1, -1 },
	{ "u8 by i8 conv 3x3 1x64x56x56",
	  "%x : u8[1,64,56,56] = placeholder()\n%w : i8[64,64,3,3] = placeholder()\n"
	  "%x32 = _to_copy.default(%x, dtype=i32)\n%xz = sub.Scalar(%x32, 3)\n"
	  "%w32 = _to_copy.default(%w, dtype=i32)\n"
	  "%c = convolution.default(%xz, %w32, None, [1,1], [1,1], [1,1], False, [0,0], 1)\n"
	  "return (%c)\n",
	  64, 56 * 56, 576, 1, -1 },
	{ "bmm 64x16", BMM(64, 16), 16, 16, 16, 64, -1 },
	{ "bmm 64x32", BMM(64, 32), 32, 32, 32, 64, -1 },
	{ "bmm 64x64", BMM(64, 64), 64, 64, 64, 64, -1 },
	{ "bmm 64x128", BMM(64, 128), 128, 128, 128, 64, -1 },
	{ "bmm 16x256x256x256", BMM(16, 256), 256, 256, 256, 16, -1 },
	{ "conv 3x3 64-64 56x56", CONV(64, 56, 64, 3, 1, 1), 64, 56 * 56, 576, 1, -1 },
	{ "conv 3x3 128-128 28x28", CONV(128, 28, 128, 3, 1, 1), 128, 28 * 28, 1152, 1, -1 },
	{ "conv 3x3 256-256 14x14", CONV(256, 14, 256, 3, 1, 1), 256, 14 * 14, 2304, 1, -1 },
	{ "conv 3x3 512-512 7x7", CONV(512, 7, 512, 3, 1, 1), 512, 7 * 7, 4608, 1, -1 },
	{ "conv 3x3 /2 128-128 56x56", CONV(128, 56, 128, 3, 2, 1), 128, 28 * 28, 1152, 1, -1 },
	{ "conv 3x3 /2 512-512 14x14", CONV(512, 14, 512, 3, 2, 1), 512, 7 * 7, 4608, 1, -1 },
	{ "conv 7x7 /2 3-64 224x224", CONV(3, 224, 64, 7, 2, 3), 64, 112 * 112, 147, 1, -1 },
	{ "conv 3x3 32-32 150x150", CONV(32, 150, 32, 3, 1, 1), 32, 150 * 150, 288, 1, -1 },
	{ "conv 1x1 256-64 56x56", CONV(256, 56, 64, 1, 1, 0), 64, 56 * 56, 256, 1, -1 },
	{ "conv 1x1 64-256 56x56", CONV(64, 56, 256, 1, 1, 0), 256, 56 * 56, 64, 1, -1 },
	{ "conv 1x1 1024-256 14x14", CONV(1024, 14, 256, 1, 1, 0), 256, 14 * 14, 1024, 1, -1 },
	{ "conv 1x1 256-1024 14x14", CONV(256, 14, 1024, 1, 1, 0), 1024, 14 * 14, 256, 1, -1 },
	{ "conv 1x1 2048-512 7x7", CONV(2048, 7, 512, 1, 1, 0), 512, 7 * 7, 2048, 1, -1 },
	{ "conv 1x1 /2 256-512 56x56", CONV(256, 56, 512, 1, 2, 0), 512, 28 * 28, 256, 1, -1 },
	{ "depthwise 3x3 256x56x56", DEPTHWISE(256, 56, 3, 1, 1), 256, 56 * 56, 9, 1, -1 },
	{ "depthwise 3x3 32x112x112", DEPTHWISE(32, 112, 3, 1, 1), 32, 112 * 112, 9, 1, -1 },
	{ "depthwise 3x3 64x112x112 /2", DEPTHWISE(64, 112, 3, 2, 1), 64, 56 * 56, 9, 1, -1 },
	{ "depthwise 3x3 512x14x14", DEPTHWISE(512, 14, 3, 1, 1), 512, 14 * 14, 9, 1, -1 },
	{ "depthwise 3x3 1024x7x7", DEPTHWISE(1024, 7, 3, 1, 1), 1024, 7 * 7, 9, 1, -1 },
	{ "depthwise 3x3 96x56x56 /2", DEPTHWISE(96, 56, 3, 2, 1), 96, 28 * 28, 9, 1, -1 },
	{ "depthwise 7x7 96x56x56", DEPTHWISE(96, 56, 7, 1, 3), 96, 56 * 56, 49, 1, -1 },
	{ "depthwise 5x5 240x28x28", DEPTHWISE(240, 28, 5, 1, 2), 240, 28 * 28, 25, 1, -1 },
	{ "depthwise 3x3 56x56x256", LAST(256, 56, 256, 1, 3, 1, 1, 256), 256, 56 * 56, 9, 1, -1 },
	{ "depthwise 3x3 /2 112x112x64", LAST(64, 112, 64, 1, 3, 2, 1, 64), 64, 56 * 56, 9, 1, -1 },
	{ "conv 3x3 56x56x64-64", LAST(64, 56, 64, 64, 3, 1, 1, 1), 64, 56 * 56, 576, 1, -1 },
	{ "conv 3x3 14x14x256-256", LAST(256, 14, 256, 256, 3, 1, 1, 1), 256, 14 * 14, 2304, 1,
	  -1 },
	{ "conv 1x1 56x56x256-64", LAST(256, 56, 64, 256, 1, 1, 0, 1), 64, 56 * 56, 256, 1, -1 },
	{ "gemv 1x1024x1024", MM(1, 1024, 1024), 1, 1024, 1024, 1, 0 },
	{ "gemv 1x4096x4096", MM(1, 4096, 4096), 1, 4096, 4096, 1, 0 },
	{ "gemv 1x4096x4096 B^T", BT(1, 4096, 4096), 1, 4096, 4096, 1, 2 },
	{ "bf16 linear+gelu 1x4096x4096", LINEAR("bf16", 1, 4096, 4096), 1, 4096, 4096, 1, -1 },
	{ "i8 linear 1x4096x4096", BYTES_T("i8", "i8", 1, 4096, 4096), 1, 4096, 4096, 1, -1 },
	{ "product 1024x1024x4", MM(1024, 1024, 4), 1024, 4, 1024, 1, 0 },
	{ "gemv 4096x4096x1", MM(4096, 4096, 1), 4096, 1, 4096, 1, 0 },
	{ "softmax(q k^T) v 16x1024x64",
	  "%q : f32[16,1024,64] = placeholder()\n%k : f32[16,1024,64] = placeholder()\n"
	  "%v : f32[16,1024,64] = placeholder()\n%t = transpose.int(%k, 1, 2)\n"
	  "%s = bmm.default(%q, %t)\n%m = mul.Scalar(%s, 0.125)\n"
	  "%p = _softmax.default(%m, -1, False)\n%o = bmm.default(%p, %v)\nreturn (%o)\n",
	  1024, 1024, 128, 16, -1 },
};
#define NSAMPLES (sizeof samples / sizeof *samples)

static void random_bytes(struct stx_tensor *t, unsigned seed)
{
	int64_t n = compiled_numel(t);
	t->data = aligned_alloc(64, (size_t)n * 4 + 64);
	if (!t->data)
		die("memory", "");
	for (int64_t i = 0; i < n; i++) {
		float f = (float)rand_r(&seed) / (float)RAND_MAX - 0.5f;
		uint32_t bits;
		memcpy(&bits, &f, 4);
		if (t->dtype == STX_BF16)
			((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
		else if (t->dtype == STX_F16) /* of [-1/2, 1/2), as bf16 */
			((uint16_t *)t->data)[i] = (uint16_t)(0x3000 | (bits >> 13 & 0x83ff));
		else if (t->dtype == STX_I8 || t->dtype == STX_U8)
			((uint8_t *)t->data)[i] = (uint8_t)(bits >> 12);
		else
			((float *)t->data)[i] = f;
	}
}

/* Shapes of the placeholders, from the text. */
static int make_inputs(const char *text, struct stx_tensor *in)
{
	int n = 0;
	for (const char *p = text; (p = strstr(p, "] = placeholder")); p++) {
		const char *q = p;
		while (*q != ' ')
			q--;
		struct stx_tensor *t = &in[n];
		const char *shape = strchr(q, '[');
		*t = (struct stx_tensor){ .dtype = (uint8_t)stx_dtype_parse(q + 1,
									    (int)(shape - q - 1)) };
		q = shape + 1;
		do
			t->sizes[t->rank++] = strtol(q, (char **)(uintptr_t)&q, 10);
		while (*q++ == ',');
		compiled_dense(t);
		random_bytes(t, (unsigned)++n);
	}
	return n;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

#define MOST_COPIES 256

struct contest {
	const struct sample *s;
	struct compiled c;
	struct stx_tensor in[MOST_COPIES][4], out[MOST_COPIES][1];
	int nin, copies, turn;
	sgemm_fn *sgemm;
};

static void run_ours(struct contest *c, int threads)
{
	struct stax_error err;
	struct stx_env env = { .parallel_for = threads == 1 ? whole : NULL };
	int i = c->turn++ % c->copies;
	if (stax_run(c->c.artifact, c->in[i], c->nin, c->out[i], 1, &env, &err))
		die("run", err.text);
}

static void run_blas(struct contest *c)
{
	const struct sample *s = c->s;
	int i = c->turn++ % c->copies;
	c->sgemm(101, s->trans & 1 ? 112 : 111, s->trans & 2 ? 112 : 111, s->m, s->n, s->k, 1,
		 c->in[i][0].data, s->trans & 1 ? s->m : s->k, c->in[i][1].data,
		 s->trans & 2 ? s->k : s->n, 0, c->out[i][0].data, s->n);
}

/* Seconds a call, of enough calls for 20 ms. */
static double sample_time(struct contest *c, int blas, int threads)
{
	int calls = 0;
	double start = now_s(), took;
	do {
		if (blas)
			run_blas(c);
		else
			run_ours(c, threads);
		calls++;
		took = now_s() - start;
	} while (took < 0.02);
	return took / calls;
}

/* A function of OpenBLAS, under the name of the copy that numpy and scipy bring as well. */
static void *find(void *blas, const char *name)
{
	char other[64];
	void *p = blas ? dlsym(blas, name) : NULL;
	snprintf(other, sizeof other, "scipy_%s64_", name);
	return p || !blas ? p : dlsym(blas, other);
}

static void measure(const struct sample *s, const char *target, void *blas)
{
	const char *rotate = getenv("STX_ROTATE");
	struct contest c = { .s = s, .copies = rotate ? atoi(rotate) : 1 };
	struct stx_diag d = { 0 };
	struct stax_error err;
	size_t workspace;
	double t[2][ROUNDS];
	int is_busy = getenv("STX_CPU_TIME") != NULL, at = is_busy ? 0 : ROUNDS / 2;
	double start = now_s();
	if (compiled_build(s->text, target, COMPILED_FUSED, &c.c, &d)) {
		printf("%-32s %s: %s\n", s->name, d.stage, d.text);
		return;
	}
	double compile = now_s() - start;
	if (c.copies < 1 || c.copies > MOST_COPIES)
		die("STX_ROTATE", "1 to 256");
	for (int i = 0; i < c.copies; i++) {
		c.nin = make_inputs(s->text, c.in[i]);
		if (stax_query(c.c.artifact, c.in[i], c.nin, c.out[i], &workspace, &err))
			die("query", err.text);
		random_bytes(&c.out[i][0], 9);
	}
	c.sgemm = (sgemm_fn *)(uintptr_t)find(s->trans >= 0 ? blas : NULL, "cblas_sgemm");
	threads_fn *set = (threads_fn *)(uintptr_t)find(blas, "openblas_set_num_threads");
	double gflop = 2e-9 * s->m * s->n * s->k * s->batch;
	printf("%-32s %6.1f", s->name, compile * 1e3);
	for (int threads = 1; threads <= 2 - is_busy; threads++) {
		if (set)
			set(threads);
		for (int i = -1; i < ROUNDS; i++)
			for (int j = 0; j < 1 + !!c.sgemm; j++)
				t[j][i < 0 ? 0 : i] = sample_time(&c, j, threads);
		for (int j = 0; j < 1 + !!c.sgemm; j++) {
			qsort(t[j], ROUNDS, sizeof **t, by_value);
			printf(" %9.3f %6.0f", t[j][at] * 1e3, gflop / t[j][at]);
		}
		printf(c.sgemm ? " %5.2f" : "                        ", t[1][at] / t[0][at]);
	}
	printf("\n");
	fflush(stdout);
	for (int i = 0; i < c.copies; i++) {
		for (int j = 0; j < c.nin; j++)
			free(c.in[i][j].data);
		free(c.out[i][0].data);
	}
	compiled_free(&c.c);
}

int main(int argc, char **argv)
{
	char target[STX_TARGET_BYTES];
	struct stx_cpu_target host = stx_cpu_target_host();
	const char *chosen = getenv("STAX_TEST_TARGET");
	stx_cpu_target_print(&host, target);
	if (chosen && *chosen)
		snprintf(target, sizeof target, "%s", chosen);
	const char *path = getenv("STX_OPENBLAS");
	void *blas = path ? dlopen(path, RTLD_NOW) : NULL;
	if (path && !blas)
		die("STX_OPENBLAS", dlerror());
	printf("%s; ms and GF/s, then OpenBLAS', then the ratio; on 1 thread, on 2\n", target);
	printf("%-32s %6s\n", "case", "build");
	for (size_t i = 0; i < NSAMPLES; i++) {
		int wanted = argc < 2;
		for (int j = 1; j < argc; j++)
			wanted |= strstr(samples[i].name, argv[j]) != NULL;
		if (wanted)
			measure(&samples[i], target, blas);
	}
	return 0;
}
