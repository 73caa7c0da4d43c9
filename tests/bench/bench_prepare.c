/* bench_prepare.c: products by weights, packed in every run and packed once (stax_prepare), in
 * alternating rounds. Usage: bench_prepare [NAME..]   prints a table: median of 11 rounds, 1 and 2
 * threads; bytes that are packed, and how long that takes. STX_CPU_TIME=1: the least processor time
 * of the calling thread instead, for a busy machine; only figures for 1 thread mean something then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_call.h"
#include "compiled.h"
#include "cpu_target.h"

#define ROUNDS 11
#define MOST   12 /* inputs */

#define P " = placeholder(param=True)\n"
#define LINEAR(T, M, K, N)                                                                         \
	"%x : " T "[" #M "," #K "] = placeholder()\n%w : " T "[" #N "," #K "]" P "%b : " T "[" #N  \
	"]" P "%l = linear.default(%x, %w, %b)\nreturn (%l)\n"
#define MM(M, K, N)                                                                                \
	"%x : f32[" #M "," #K "] = placeholder()\n%w : f32[" #K "," #N "]" P                       \
	"%l = mm.default(%x, %w)\nreturn (%l)\n"
#define BYTES(M, K, N)                                                                             \
	"%x : i8[" #M "," #K "] = placeholder()\n%w : i8[" #N "," #K "]" P                         \
	"%p = _to_copy.default(%x, dtype=i32)\n%q = _to_copy.default(%w, dtype=i32)\n"             \
	"%t = t.default(%q)\n%c = mm.default(%p, %t)\nreturn (%c)\n"
#define CONV(Y, X, W, K, PAD)                                                                      \
	"%" Y " = convolution.default(%" X ", %" W ", None, [1,1], [" PAD "," PAD                  \
	"], [1,1], False, [0,0], 1)\n"
/* A bottleneck of ResNet-50, batch norms folded into convolutions. */
#define BLOCK(C, M, H)                                                                             \
	"%x : f32[1," #C "," #H "," #H "] = placeholder()\n%u : f32[" #M "," #C ",1,1]" P          \
	"%v : f32[" #M "," #M ",3,3]" P "%w : f32[" #C "," #M                                      \
	",1,1]" P CONV("a", "x", "u", 1, "0") "%b = relu.default(%a)\n" CONV(                      \
		"c", "b", "v", 3,                                                                  \
		"1") "%d = relu.default(%c)\n" CONV("e", "d", "w", 1,                              \
						    "0") "%f = add.Tensor(%e, %x)\n%g = "          \
							 "relu.default(%f)\nreturn (%g)\n"

static const struct sample {
	const char *name, *text;
} samples[] = {
	{ "linear 1x4096x4096", LINEAR("f32", 1, 4096, 4096) },
	{ "mm 1x4096x4096", MM(1, 4096, 4096) },
	{ "linear 8x4096x4096", LINEAR("f32", 8, 4096, 4096) },
	{ "linear 32x1024x4096", LINEAR("f32", 32, 1024, 4096) },
	{ "linear 32x4096x4096", LINEAR("f32", 32, 4096, 4096) },
	{ "linear 128x1024x4096", LINEAR("f32", 128, 1024, 4096) },
	{ "linear 256x1024x4096", LINEAR("f32", 256, 1024, 4096) },
	{ "linear 512x1024x4096", LINEAR("f32", 512, 1024, 4096) },
	{ "mm 32x1024x4096", MM(32, 1024, 4096) },
	{ "mm 128x1024x4096", MM(128, 1024, 4096) },
	{ "mm 256x1024x4096", MM(256, 1024, 4096) },
	{ "bf16 linear 32x1024x4096", LINEAR("bf16", 32, 1024, 4096) },
	{ "bf16 linear 32x4096x4096", LINEAR("bf16", 32, 4096, 4096) },
	{ "f16 linear 32x1024x4096", LINEAR("f16", 32, 1024, 4096) },
	{ "i8 linear 32x4096x4096", BYTES(32, 4096, 4096) },
	{ "ResNet block 256x56x56", BLOCK(256, 64, 56) },
	{ "ResNet block 1024x14x14", BLOCK(1024, 256, 14) },
	{ "ResNet block 2048x7x7", BLOCK(2048, 512, 7) },
};

static void fill(struct stx_tensor *t, unsigned seed)
{
	int64_t n = compiled_numel(t);
	t->data = aligned_alloc(64, (size_t)n * 4 + 64);
	if (!t->data)
		die("memory", "");
	for (int64_t i = 0; i < n; i++) {
		float f = ((float)rand_r(&seed) / (float)RAND_MAX - 0.5f) * 0.125f;
		uint32_t bits;
		memcpy(&bits, &f, 4);
		if (t->dtype == STX_BF16)
			((uint16_t *)t->data)[i] = (uint16_t)(bits >> 16);
		else if (t->dtype == STX_F16)
			((uint16_t *)t->data)[i] = (uint16_t)(0x3000 | (bits >> 13 & 0x83ff));
		else if (t->dtype == STX_I8)
			((uint8_t *)t->data)[i] = (uint8_t)(bits >> 12);
		else
			((float *)t->data)[i] = f;
	}
}

struct contest {
	struct compiled c;
	struct stx_tensor in[MOST], out[2][1];
	int nin;
	struct stax_prepared *prepared;
};

static void run(struct contest *c, int prepared, int threads)
{
	struct stax_error err;
	struct stx_env env = { .parallel_for = threads == 1 ? whole : NULL };
	if (stax_run_prepared(c->c.artifact, prepared ? c->prepared : NULL, c->in, c->nin,
			      c->out[prepared], 1, &env, &err))
		die("run", err.text);
}

/* Seconds a call, of enough calls for 20 ms. */
static double sample_time(struct contest *c, int prepared, int threads)
{
	int calls = 0;
	double start = now_s(), took;
	do {
		run(c, prepared, threads);
		calls++;
		took = now_s() - start;
	} while (took < 0.02);
	return took / calls;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Median, or the least, of rounds that alternate; both. */
static void measure(struct contest *c, int threads, double out[2])
{
	double t[2][ROUNDS];
	int at = getenv("STX_CPU_TIME") ? 0 : ROUNDS / 2;
	for (int i = -1; i < ROUNDS; i++)
		for (int j = 0; j < 2; j++)
			t[j][i < 0 ? 0 : i] = sample_time(c, j, threads);
	for (int j = 0; j < 2; j++) {
		qsort(t[j], ROUNDS, sizeof **t, by_value);
		out[j] = t[j][at];
	}
}

static void open_case(const struct sample *s, const char *target, struct contest *c)
{
	struct stx_diag d = { 0 };
	struct stax_error err;
	size_t workspace;
	if (compiled_build(s->text, target, COMPILED_FUSED, &c->c, &d))
		die(s->name, d.text);
	c->nin = stax_ninputs(c->c.artifact);
	for (int i = 0; i < c->nin; i++) {
		stax_input(c->c.artifact, i, &c->in[i], NULL);
		fill(&c->in[i], (unsigned)i + 1);
	}
	for (int j = 0; j < 2; j++) {
		if (stax_query(c->c.artifact, c->in, c->nin, c->out[j], &workspace, &err))
			die("query", err.text);
		fill(&c->out[j][0], 9);
	}
}

static void compare(const struct sample *s, const char *target)
{
	struct contest c = { 0 };
	struct stax_error err;
	double one[2], two[2];
	open_case(s, target, &c);
	double start = now_s();
	struct stx_env env = { .parallel_for = whole };
	if (stax_prepare(c.c.artifact, c.in, c.nin, &env, &c.prepared, &err))
		die("prepare", err.text);
	double took = now_s() - start;
	run(&c, 0, 1);
	run(&c, 1, 1);
	size_t bytes = (size_t)compiled_numel(&c.out[0][0]) *
		       (size_t)stx_dtype_bytes((enum stx_dtype)c.out[0][0].dtype);
	if (memcmp(c.out[0][0].data, c.out[1][0].data, bytes) != 0)
		die(s->name, "prepared and unprepared results differ");
	measure(&c, 1, one);
	measure(&c, 2, two);
	printf("%-26s %8.3f %8.3f %5.2f   %8.3f %8.3f %5.2f   %7.2f %7.2f\n", s->name, one[0] * 1e3,
	       one[1] * 1e3, one[0] / one[1], two[0] * 1e3, two[1] * 1e3, two[0] / two[1],
	       (double)stax_prepared_bytes(c.prepared) / 1e6, took * 1e3);
	fflush(stdout);
	stax_prepared_free(c.prepared);
	for (int i = 0; i < c.nin; i++)
		free(c.in[i].data);
	free(c.out[0][0].data);
	free(c.out[1][0].data);
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
	printf("%s; ms packed in every run and ms packed once, ratio, on 1 thread, on 2; MB "
	       "packed, ms "
	       "once\n",
	       target);
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		int wanted = argc < 2;
		for (int j = 1; j < argc; j++)
			wanted |= strstr(samples[i].name, argv[j]) != NULL;
		if (wanted)
			compare(&samples[i], target);
	}
	return 0;
}
