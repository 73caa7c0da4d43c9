/* test_tune.c: configurations of GPU kernels: the space, candidates, texts, symbols, the launch
 * table of the plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen.h"
#include "gpu.h"
#include "gpu_schedule.h"
#include "plan.h"
#include "tune.h"

#define TARGET "cuda:sm_90a:h200"

static struct stx_gpu_device device(void)
{
	struct stx_gpu_target t;
	assert_int_equal(stx_gpu_target_parse(TARGET, &t, NULL), 0);
	return t.device;
}

static const char *const graphs[] = {
	"%x : f32[1] = placeholder()\n%a = exp.default(%x)\nreturn (%a,)\n",
	"%x : f32[1000000] = placeholder()\n%a = exp.default(%x)\nreturn (%a,)\n",
	"%x : f32[3,70000] = placeholder()\n%a = sum.dim_IntList(%x, [0])\nreturn (%a,)\n",
	"%x : f32[5000,700] = placeholder()\n%a = sum.dim_IntList(%x, [0])\nreturn (%a,)\n",
	"%x : f32[70000,3] = placeholder()\n%a = sum.dim_IntList(%x, [1])\nreturn (%a,)\n",
	"%x : f32[64,128] = placeholder()\n%a = sum.dim_IntList(%x, [1])\nreturn (%a,)\n",
	"%x : f32[1,70000] = placeholder()\n%a = sum.dim_IntList(%x, [1])\nreturn (%a,)\n",
	"%x : f32[90,33] = placeholder()\n%a = t.default(%x)\nreturn (%a,)\n",
	"%x : f32[64,32,48] = placeholder()\n%y : f32[48,32,64] = placeholder()\n"
	"%t = permute.default(%x, [2, 1, 0])\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
	"%x : f32[256,1000] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
	"%x : f32[4,50000] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
};
enum { NGRAPHS = sizeof graphs / sizeof *graphs };

static int is_power(uint32_t n)
{
	return n && !(n & (n - 1));
}

/* LC-01: the space is a part of a product of finite sets; what cannot be compiled is not in it, and
 * code can be written for everything that is. */
static void test_tune_space_has_what_the_emitter_takes(void **state)
{
	struct stx_gpu_device dev = device();
	struct stx_gpu_config *all = calloc(STX_TUNE_MAX_SPACE, sizeof *all);
	(void)state;
	for (int i = 0; i < NGRAPHS; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_schedule *s = gpu_schedule(a, graphs[i]);
		for (uint32_t k = 0; k < s->kernels.n; k++) {
			uint32_t n =
				stx_tune_space(s->kernels.at[k], &dev, all, STX_TUNE_MAX_SPACE);
			assert_in_range(n, 8, STX_TUNE_MAX_SPACE - 1);
			for (uint32_t j = 0; j < n; j++) {
				struct stx_bytes out = { 0 };
				struct stx_diag d = { 0 };
				assert_true(is_power(all[j].x) && is_power(all[j].y) &&
					    is_power(all[j].z) && is_power(all[j].threads));
				assert_int_equal(all[j].threads % 32, 0);
				if (stx_emit_cuda(s->kernels.at[k], &all[j], &out, &d))
					fail_msg("graph %d: %s", i, d.text);
				stx_bytes_free(&out);
			}
		}
		stx_arena_free(a);
	}
	free(all);
}

/* LC-02: candidates are different points of the space, usually one to six; each carries block sizes and a
 * number of warps. */
static void test_tune_candidates_are_points_of_the_space(void **state)
{
	struct stx_gpu_device dev = device();
	struct stx_gpu_config *all = calloc(STX_TUNE_MAX_SPACE, sizeof *all);
	int several = 0, more = 0, kernels = 0;
	(void)state;
	for (int i = 0; i < NGRAPHS; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_schedule *s = gpu_schedule(a, graphs[i]);
		for (uint32_t k = 0; k < s->kernels.n; k++) {
			struct stx_gpu_choices c;
			uint32_t n =
				stx_tune_space(s->kernels.at[k], &dev, all, STX_TUNE_MAX_SPACE);
			stx_tune_candidates(s->kernels.at[k], &dev, &c);
			assert_in_range(c.n, 1, 8);
			more += c.n > 6;
			kernels++;
			several += c.n > 1;
			for (uint32_t j = 0; j < c.n; j++) {
				uint32_t found = 0;
				for (uint32_t m = 0; m < n; m++)
					found += !memcmp(&all[m], &c.at[j], sizeof *all);
				if (found != 1) {
					char t[STX_GPU_CONFIG_BYTES];
					stx_gpu_config_print(&c.at[j], t);
					fail_msg("graph %d: %s", i, t);
				}
				for (uint32_t m = 0; m < j; m++)
					assert_memory_not_equal(&c.at[m], &c.at[j], sizeof c.at[m]);
			}
		}
		stx_arena_free(a);
	}
	assert_in_range(several, NGRAPHS - 2, 100);
	assert_in_range(more, 0, kernels / 4);
	free(all);
}

static uint32_t place_of(const struct stx_kernel *k, const char *text)
{
	struct stx_gpu_device dev = device();
	struct stx_gpu_choices c;
	struct stx_gpu_config wanted;
	uint32_t i = 0;
	stx_tune_candidates(k, &dev, &c);
	assert_int_equal(stx_gpu_config_parse(text, k, &dev, &wanted, NULL), 0);
	while (i < c.n && memcmp(&c.at[i], &wanted, sizeof wanted) != 0)
		i++;
	return i < c.n ? i : STX_NONE;
}

/* The best of an H200's sweeps are among the candidates, a first choice within 10% of it is the
 * first (tests/bench/tune.sh). */
static void test_tune_candidates_have_the_best_of_sweeps(void **state)
{
	static const char *const cases[][3] = {
		{ "%x : bf16[4096,16384] = placeholder()\n%a = gelu.default(%x)\nreturn (%a,)\n",
		  "XBLOCK=4096 threads=256 vec=8", "XBLOCK=2048 threads=64 vec=4" },
		{ "%x : f32[64,128,512] = placeholder()\n%y : f32[512,128,64] = placeholder()\n"
		  "%t = permute.default(%x, [2, 1, 0])\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
		  "XBLOCK=64 YBLOCK=32 threads=256 vec=2 vec_y=4",
		  "XBLOCK=32 YBLOCK=64 threads=64 vec=4 vec_y=4" },
		{ "%x : bf16[4096,1024] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
		  "XBLOCK=8 R0_BLOCK=1024 row_threads=32 threads=256 vec=8",
		  "XBLOCK=16 R0_BLOCK=1024 row_threads=32 threads=256 vec=4" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct stx_arena *a = stx_arena_new(0);
		const struct stx_kernel *k = gpu_schedule(a, cases[i][0])->kernels.at[0];
		assert_int_equal(place_of(k, cases[i][1]), 0);
		assert_int_not_equal(place_of(k, cases[i][2]), STX_NONE);
		stx_arena_free(a);
	}
}

static void test_tune_text_names_one_configuration(void **state)
{
	struct stx_gpu_device dev = device();
	struct stx_gpu_config *all = calloc(STX_TUNE_MAX_SPACE, sizeof *all);
	(void)state;
	for (int i = 0; i < NGRAPHS; i++) {
		struct stx_arena *a = stx_arena_new(0);
		const struct stx_kernel *k = gpu_schedule(a, graphs[i])->kernels.at[0];
		uint32_t n = stx_tune_space(k, &dev, all, STX_TUNE_MAX_SPACE);
		for (uint32_t j = 0; j < n; j++) {
			char text[STX_GPU_CONFIG_BYTES];
			struct stx_gpu_config back;
			stx_gpu_config_print(&all[j], text);
			assert_true(strlen(text) < sizeof text - 1);
			assert_int_equal(stx_gpu_config_parse(text, k, &dev, &back, NULL), 0);
			assert_memory_equal(&back, &all[j], sizeof back);
		}
		stx_arena_free(a);
	}
	free(all);
}

static void test_tune_text_from_outside_is_refused_unless_it_fits(void **state)
{
	static const char *const bad[] = {
		"",
		"XBLOCK=0 threads=256",
		"XBLOCK=1000 threads=256",
		"XBLOCK=1024 threads=2048",
		"XBLOCK=1024 threads=31",
		"XBLOCK=1024 threads=16",
		"XBLOCK=128 threads=256",
		"XBLOCK=1024  threads=256",
		"XBLOCK=1024 threads=256 ",
		"threads=256 XBLOCK=1024",
		"XBLOCK=1024 YBLOCK=2 threads=256",
		"XBLOCK=1024 R0_BLOCK=8 row_threads=1 threads=256",
		"XBLOCK=4294968320 threads=256",
		"XBLOCK=67108864 threads=1024",
		"XBLOCK=-1024 threads=256",
		"XBLOCK=1024 threads=256 looped",
		"XBLOCK=1024 threads=256; rm -rf",
		"XBLOCK=1024 threads=256 vec=1",
		"XBLOCK=1024 threads=256 vec=3",
		"XBLOCK=1024 threads=256 vec=8", /* four elements a thread */
		"XBLOCK=1024 threads=256 vec=260",
		"XBLOCK=8192 threads=256 vec=32",
		"XBLOCK=1024 threads=256 vec=4 vec_y=4",
	};
	struct stx_gpu_device dev = device();
	struct stx_arena *a = stx_arena_new(0);
	const struct stx_kernel *k = gpu_schedule(a, graphs[1])->kernels.at[0];
	struct stx_gpu_config c;
	struct stx_diag d = { 0 };
	(void)state;
	assert_int_equal(stx_gpu_config_parse("XBLOCK=1024 threads=256", k, &dev, &c, &d), 0);
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		memset(&d, 0, sizeof d);
		if (stx_gpu_config_parse(bad[i], k, &dev, &c, &d) != STX_E_INVALID)
			fail_msg("'%s' was taken", bad[i]);
		assert_non_null(strstr(d.text, "h200"));
	}
	stx_arena_free(a);
}

static int64_t eval(const struct stx_plan *p, uint32_t e, const int64_t *syms)
{
	int ok = 1;
	int64_t v = stx_plan_eval(p, e, syms, &ok);
	assert_true(ok);
	return v;
}

/* LC-19: the grid follows from the configuration: example 1.1 with XBLOCK=8 has 8 instances of 8
 * rows. */
static void test_tune_grid_follows_the_configuration(void **state)
{
	struct stx_arena *a = stx_arena_new(0);
	const struct stx_kernel *k = gpu_schedule(a, graphs[5])->kernels.at[0];
	struct stx_gpu_device dev = device();
	struct stx_gpu_config c;
	stx_ex grid[3];
	(void)state;
	assert_int_equal(stx_gpu_config_parse("XBLOCK=8 R0_BLOCK=128 row_threads=16 threads=128", k,
					      &dev, &c, NULL),
			 0);
	stx_gpu_grid(k, &c, grid);
	assert_true(stx_ex_equals(k->ex, grid[0], 8) && stx_ex_equals(k->ex, grid[1], 1) &&
		    stx_ex_equals(k->ex, grid[2], 1));
	c.x = 16;
	stx_gpu_grid(k, &c, grid);
	assert_true(stx_ex_equals(k->ex, grid[0], 4));
	stx_arena_free(a);
}

/* A row over the blocks of a cluster: as many blocks more; only on devices that have clusters, only
 * whole blocks with one row, and only as many as all devices of the architecture offer. */
static void test_tune_clusters_are_of_devices_that_have_them(void **state)
{
	static const char good[] = "XBLOCK=1 R0_BLOCK=8192 row_threads=256 threads=256 cluster=8",
			  *const bad[] = {
				  "XBLOCK=1 R0_BLOCK=8192 row_threads=256 threads=256 cluster=16",
				  "XBLOCK=1 R0_BLOCK=8192 row_threads=256 threads=256 cluster=3",
				  "XBLOCK=1 R0_BLOCK=8192 row_threads=256 threads=256 cluster=1",
				  "XBLOCK=1 R0_BLOCK=4096 row_threads=256 threads=256 cluster=8",
				  "XBLOCK=2 R0_BLOCK=8192 row_threads=256 threads=512 cluster=8",
				  "XBLOCK=1 R0_BLOCK=8192 row_threads=128 threads=256 cluster=8",
			  };
	struct stx_gpu_config *all = calloc(STX_TUNE_MAX_SPACE, sizeof *all), c;
	struct stx_gpu_device dev = device();
	struct stx_gpu_choices choices;
	struct stx_gpu_target older;
	struct stx_arena *a = stx_arena_new(0);
	const struct stx_kernel *k =
		gpu_schedule(a,
			     "%x : f32[500,60000] = placeholder()\n%f = log_softmax.int(%x, -1)\n"
			     "return (%f,)\n")
			->kernels.at[0];
	stx_ex grid[3];
	(void)state;
	assert_int_equal(stx_gpu_config_parse(good, k, &dev, &c, NULL), 0);
	stx_gpu_grid(k, &c, grid);
	assert_true(stx_ex_equals(k->ex, grid[0], 4000) && stx_ex_equals(k->ex, grid[1], 1));
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		if (stx_gpu_config_parse(bad[i], k, &dev, &c, NULL) != STX_E_INVALID)
			fail_msg("'%s' was taken", bad[i]);
	stx_tune_candidates(k, &dev, &choices);
	assert_in_range(choices.at[0].cluster, 2, 8);
	assert_int_equal(stx_gpu_target_parse("cuda:sm_80", &older, NULL), 0);
	assert_int_equal(stx_gpu_config_parse(good, k, &older.device, &c, NULL), STX_E_INVALID);
	stx_tune_candidates(k, &older.device, &choices);
	for (uint32_t i = 0; i < choices.n; i++)
		assert_int_equal(choices.at[i].cluster, 1);
	uint32_t n = stx_tune_space(k, &older.device, all, STX_TUNE_MAX_SPACE);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(all[i].cluster, 1);
	stx_arena_free(a);
	free(all);
}

/* The launch table has every candidate with its grid, block and code's name, the heuristic choice
 * first; launches say what they read and write. */
static void test_tune_plan_lists_every_candidate(void **state)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s = gpu_schedule(a, graphs[9]);
	struct stx_gpu_device dev = device();
	const struct stx_gpu_choices *choices = stx_tune_schedule(s, &dev);
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	struct stx_diag d = { 0 };
	uint32_t n;
	(void)state;
	assert_int_equal(stx_plan_write(s, TARGET, choices, &bytes, &d), 0);
	if (stx_plan_open((struct stx_span){ bytes.at, bytes.n }, &p, &d))
		fail_msg("%s", d.text);
	const struct stx_plan_config *c = stx_plan_configs(&p, 0, &n);
	assert_int_equal(n, choices[0].n);
	assert_true(n > 1);
	for (uint32_t i = 0; i < n; i++) {
		char text[STX_GPU_CONFIG_BYTES];
		stx_gpu_config_print(&choices[0].at[i], text);
		assert_string_equal(stx_plan_string(&p, c[i].text), text);
		assert_int_equal(c[i].block[0], choices[0].at[i].threads);
		assert_int_equal(eval(&p, c[i].grid_expr[0], NULL),
				 (256 + choices[0].at[i].x - 1) / choices[0].at[i].x);
		for (uint32_t j = 0; j < i; j++)
			assert_string_not_equal(stx_plan_string(&p, c[i].symbol),
						stx_plan_string(&p, c[j].symbol));
	}
	assert_string_equal(stx_plan_string(&p, p.kernels[0].config),
			    stx_plan_string(&p, c[0].text));
	assert_string_equal(stx_plan_string(&p, p.kernels[0].symbol),
			    stx_plan_string(&p, c[0].symbol));
	assert_int_equal(p.kernels[0].block[0], c[0].block[0]);
	for (uint32_t i = 0; i < p.h->nsteps; i++) {
		const struct stx_plan_step *t = &p.steps[i];
		if (t->kind != STX_STEP_LAUNCH)
			continue;
		assert_int_equal(t->nargs, 2);
		assert_int_equal(stx_plan_u32s(&p, t->b)[0], STX_ARG_READ);
		assert_int_equal(stx_plan_u32s(&p, t->b)[1], STX_ARG_WRITTEN);
	}
	stx_bytes_free(&bytes);
	stx_arena_free(a);
}

/* A table that leads outside the plan, or names what is not there, is refused. */
static void test_tune_plan_with_a_broken_launch_table_is_refused(void **state)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s = gpu_schedule(a, graphs[9]);
	struct stx_gpu_device dev = device();
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	struct stx_plan_tuning t;
	(void)state;
	assert_int_equal(stx_plan_write(s, TARGET, stx_tune_schedule(s, &dev), &bytes, NULL), 0);
	struct stx_span all = { bytes.at, bytes.n };
	uint8_t *tuning = bytes.at + sizeof(struct stx_plan_header);
	assert_int_equal(stx_plan_open(all, &p, NULL), 0);
	memcpy(&t, tuning, sizeof t);
	const struct stx_plan_header h = *p.h; /* p is emptied by a failure */
	struct stx_plan_config *c = (struct stx_plan_config *)(void *)(bytes.at + t.configs_off);
	const struct stx_plan_config good = c[1];
	for (int i = 0; i < 6; i++) {
		struct stx_plan_tuning bad = t;
		c[1] = good;
		switch (i) {
		case 0: c[1].kernel = h.nkernels; break;
		case 1: c[1].text = h.strings_off + h.strings_bytes; break;
		case 2: c[1].symbol = 0; break;
		case 3: c[1].grid_expr[2] = h.nexprs; break;
		case 4: bad.nconfigs = UINT32_MAX; break;
		default: bad.configs_off = h.values_off;
		}
		memcpy(tuning, &bad, sizeof bad);
		assert_int_equal(stx_plan_open(all, &p, NULL), STX_E_CORRUPT);
	}
	c[1] = good;
	memcpy(tuning, &t, sizeof t);
	assert_int_equal(stx_plan_open(all, &p, NULL), 0);
	stx_bytes_free(&bytes);
	stx_arena_free(a);
}

/* Kernels that differ in size hints only share their digest, and the hints choose: the code of one
 * launched with the block of the other would be wrong, so their names and keys differ. */
static void test_tune_hints_choose_and_so_name_the_code(void **state)
{
	static const char text[] = "sym n = [1,100000000] hint 64\n"
				   "sym m = [1,100000000] hint 50000000\n"
				   "%x : f32[n] = placeholder()\n%y : f32[m] = placeholder()\n"
				   "%a = exp.default(%x)\n%b = exp.default(%y)\nreturn (%a, %b)\n";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s = gpu_schedule(a, text);
	struct stx_gpu_device dev = device();
	const struct stx_gpu_choices *c = stx_tune_schedule(s, &dev);
	struct stx_digest one, two;
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	(void)state;
	assert_int_equal(s->kernels.n, 2);
	assert_int_equal(stx_kernel_digest(s->kernels.at[0], &one, NULL), 0);
	assert_int_equal(stx_kernel_digest(s->kernels.at[1], &two, NULL), 0);
	assert_memory_equal(&one, &two, sizeof one);
	assert_memory_not_equal(&c[0].at[0], &c[1].at[0], sizeof c[0].at[0]);
	assert_int_equal(stx_plan_write(s, TARGET, c, &bytes, NULL), 0);
	assert_int_equal(stx_plan_open((struct stx_span){ bytes.at, bytes.n }, &p, NULL), 0);
	assert_string_not_equal(stx_plan_string(&p, p.kernels[0].symbol),
				stx_plan_string(&p, p.kernels[1].symbol));
	stx_bytes_free(&bytes);
	stx_arena_free(a);
}

/* LC-05 needs it: what the assembler says of registers and spills, without a GPU. */
static void test_tune_spills_are_told_by_the_compiler(void **state)
{
	static const char small[] =
		"extern \"C\" __global__ void k(float *p) { p[threadIdx.x] *= 2; }";
	static const char large[] =
		"extern \"C\" __global__ void __launch_bounds__(1024) k(float *p, int n)\n"
		"{ float a[80];\n"
		"  for (int i = 0; i < 80; i++) a[i] = p[i * n + threadIdx.x];\n"
		"  for (int r = 0; r < 4; r++) for (int i = 0; i < 80; i++)\n"
		"    a[i] = a[(i * 7 + 1) % 80] * a[i] + a[i * 3 % 80];\n"
		"  float t = 0; for (int i = 0; i < 80; i++) t += a[i] * p[i];\n"
		"  p[threadIdx.x] = t; }";
	struct stx_nvrtc *n;
	struct stx_diag d = { 0 };
	struct stx_gpu_usage u;
	struct stx_bytes out = { 0 };
	(void)state;
	if (stx_nvrtc_new(NULL, &n, &d)) {
		print_message("skipped: %s\n", d.text);
		skip();
	}
	assert_int_equal(
		stx_nvrtc_compile(n, small, "k", "sm_90a", 0, STX_NVRTC_CUBIN, &out, &u, &d), 0);
	assert_in_range(u.registers, 1, 63);
	assert_int_equal(u.spills, 0);
	stx_bytes_clear(&out);
	assert_int_equal(
		stx_nvrtc_compile(n, large, "k", "sm_90a", 0, STX_NVRTC_CUBIN, &out, &u, &d), 0);
	assert_int_equal(u.registers, 64);
	assert_true(u.spills > 0);
	stx_bytes_free(&out);
	stx_nvrtc_free(n);
}

/* LC-21: what a candidate costs is told with it: a larger block has more elements a thread in
 * flight and more registers, a smaller one more instances. */
static void test_tune_larger_blocks_need_more_registers(void **state)
{
	struct stx_gpu_device dev = device();
	struct stx_arena *a = stx_arena_new(0);
	const struct stx_kernel *k = gpu_schedule(a, graphs[1])->kernels.at[0];
	static const char *const texts[] = { "XBLOCK=256 threads=256", "XBLOCK=2048 threads=256" };
	struct stx_gpu_usage u[2];
	int64_t blocks[2];
	struct stx_nvrtc *n;
	struct stx_diag d = { 0 };
	(void)state;
	if (stx_nvrtc_new(NULL, &n, &d)) {
		print_message("skipped: %s\n", d.text);
		stx_arena_free(a);
		skip();
	}
	for (int i = 0; i < 2; i++) {
		struct stx_gpu_config c;
		struct stx_bytes source = { 0 }, cubin = { 0 };
		stx_ex grid[3];
		assert_int_equal(stx_gpu_config_parse(texts[i], k, &dev, &c, &d), 0);
		assert_int_equal(stx_emit_cuda(k, &c, &source, &d), 0);
		assert_int_equal(stx_nvrtc_compile(n, stx_bytes_cstr(&source), "k", "sm_90a", 0,
						   STX_NVRTC_CUBIN, &cubin, &u[i], &d),
				 0);
		stx_gpu_grid(k, &c, grid);
		assert_true(stx_ex_is_const(k->ex, grid[0], &blocks[i]));
		stx_bytes_free(&source);
		stx_bytes_free(&cubin);
	}
	assert_true(u[1].registers > u[0].registers);
	assert_true(blocks[0] > blocks[1]);
	stx_nvrtc_free(n);
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tune_space_has_what_the_emitter_takes),
		cmocka_unit_test(test_tune_candidates_are_points_of_the_space),
		cmocka_unit_test(test_tune_candidates_have_the_best_of_sweeps),
		cmocka_unit_test(test_tune_text_names_one_configuration),
		cmocka_unit_test(test_tune_text_from_outside_is_refused_unless_it_fits),
		cmocka_unit_test(test_tune_grid_follows_the_configuration),
		cmocka_unit_test(test_tune_clusters_are_of_devices_that_have_them),
		cmocka_unit_test(test_tune_plan_lists_every_candidate),
		cmocka_unit_test(test_tune_plan_with_a_broken_launch_table_is_refused),
		cmocka_unit_test(test_tune_hints_choose_and_so_name_the_code),
		cmocka_unit_test(test_tune_spills_are_told_by_the_compiler),
		cmocka_unit_test(test_tune_larger_blocks_need_more_registers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
