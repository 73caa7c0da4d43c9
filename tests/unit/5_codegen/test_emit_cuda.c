/* test_emit_cuda.c: CUDA C of kernels given as text. What whole graphs become is in
 * tests/conformance/test_cuda.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <time.h>

#include "gpu.h"
#include "tune.h"

static struct stx_kernel *parse(struct stx_arena *a, const char *text)
{
	struct stx_diag d = { 0 };
	struct stx_kernel *k;
	if (stx_kernel_parse(a, text, strlen(text), &k, &d))
		fail_msg("%s (%s) in\n%s", d.text, d.location, text);
	return k;
}

static const char head[] =
	"kernel \"k\" per bits 32 target gpu\nparam p0 f32 read elems 8192 \"a\"\n"
	"param p1 f32 write elems 64 \"b\"\naxis x0 grid 64\n"
	"axis r0 loop reduction 128\ngrain 1\nbegin\n";

/* The source in the configuration that keeps a row in registers. */
static void emit(const char *text, struct stx_bytes *out)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_gpu_target t;
	struct stx_gpu_choices c;
	struct stx_diag d = { 0 };
	struct stx_kernel *k = parse(a, text);
	assert_int_equal(stx_gpu_target_parse("cuda:sm_90", &t, &d), 0);
	stx_tune_candidates(k, &t.device, &c);
	assert_true(c.at[0].persistent);
	if (stx_emit_cuda(k, &c.at[0], out, &d))
		fail_msg("%s", d.text);
	stx_arena_free(a);
}

static int count(const char *all, const char *part)
{
	int n = 0;
	for (const char *p = all; (p = strstr(p, part)); p++)
		n++;
	return n;
}

/* The second loop loads and multiplies what the first did: once each, the operands being the same
 * values though their numbers differ. What is different in one operand is computed. */
static void test_emit_cuda_value_of_an_earlier_loop_is_taken_from_registers(void **state)
{
	struct stx_bytes text = { 0 }, out = { 0 };
	(void)state;
	stx_bytes_puts(&text, head);
	stx_bytes_puts(&text,
		       "t0 = acc sum tree f32 r0\nloop r0\nt2 = load f32 p0[128*x0 + r0]\n"
		       "t3 = mul f32 t2 t2\nupdate t0 t3\nend\nt6 = result f32 t0 0\n"
		       "t7 = acc max tree f32 r0\nloop r0\nt9 = load f32 p0[128*x0 + r0]\n"
		       "t10 = mul f32 t9 t9\nt11 = mul f32 t10 t9\nt12 = sub f32 t11 t6\n"
		       "update t7 t12\nend\nt15 = result f32 t7 0\nstore f32 p1[x0] t15\nend\n");
	emit(stx_bytes_cstr(&text), &out);
	const char *s = stx_bytes_cstr(&out);
	assert_int_equal(count(s, "p0 + (128*x0 + r0)"), 1);
	assert_int_equal(count(s, "= t2[e] * t2[e];"), 1);
	assert_int_equal(count(s, "= t3[e] * t2[e];"), 1);
	stx_bytes_free(&text);
	stx_bytes_free(&out);
}

/* Two loops of n operations, no two alike. */
static double seconds_for(int n)
{
	struct stx_bytes text = { 0 };
	double best = 1e9;
	stx_bytes_puts(&text, head);
	for (int loop = 0; loop < 2; loop++) {
		int at = loop * (n + 5); /* acc, loop, load, n operations, update, end; result */
		stx_bytes_printf(&text, "t%d = acc sum tree f32 r0\nloop r0\n", at);
		stx_bytes_printf(&text, "t%d = load f32 p0[128*x0 + r0]\n", at + 2);
		for (int i = 0; i < n; i++)
			stx_bytes_printf(&text, "t%d = %s f32 t%d t%d\n", at + 3 + i,
					 loop ? "mul" : "add", at + 2 + i, at + 2 + i);
		stx_bytes_printf(&text, "update t%d t%d\nend\n", at, at + 2 + n);
	}
	stx_bytes_printf(&text, "t%d = result f32 t0 0\nt%d = result f32 t%d 0\n", 2 * n + 10,
			 2 * n + 11, n + 5);
	stx_bytes_printf(&text, "t%d = add f32 t%d t%d\nstore f32 p1[x0] t%d\nend\n", 2 * n + 12,
			 2 * n + 10, 2 * n + 11, 2 * n + 12);
	for (int i = 0; i < 3; i++) {
		struct stx_bytes out = { 0 };
		struct timespec t0, t1;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
		emit(stx_bytes_cstr(&text), &out);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
		double s =
			(double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
		best = s < best ? s : best;
		stx_bytes_free(&out);
	}
	stx_bytes_free(&text);
	return best;
}

static void test_emit_cuda_time_is_linear_in_the_instructions(void **state)
{
	(void)state;
	double ratio = seconds_for(28000) / seconds_for(3500); /* linear: 8, quadratic: 64 */
	if (ratio > 20)
		fail_msg("8 times the instructions take %.1f times as long", ratio);
}

static const char pair[] =
	"kernel \"k\" poi bits 32 target gpu\nparam p0 bf16 read elems 1048576 \"a\"\n"
	"param p1 bf16 write elems 1048576 \"b\"\naxis x0 grid %d\ngrain 1\n"
	"begin\nt0 = load bf16 p0[%s]\nstore bf16 p1[x0] t0\nend\n";

/* PTX of a copy that reads at the index, in runs of 8. */
static void copy_in_runs(struct stx_nvrtc *n, int elems, const char *index, struct stx_bytes *out)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_bytes text = { 0 }, source = { 0 };
	struct stx_gpu_target t;
	struct stx_gpu_config c;
	struct stx_diag d = { 0 };
	stx_bytes_printf(&text, pair, elems, index);
	struct stx_kernel *k = parse(a, stx_bytes_cstr(&text));
	assert_int_equal(stx_gpu_target_parse("cuda:sm_90", &t, &d), 0);
	if (stx_gpu_config_parse("XBLOCK=2048 threads=256 vec=8", k, &t.device, &c, &d) ||
	    stx_emit_cuda(k, &c, &source, &d) ||
	    stx_nvrtc_compile(n, stx_bytes_cstr(&source), "k", "sm_90a", 0, STX_NVRTC_PTX, out,
			      NULL, &d))
		fail_msg("%s", d.text);
	stx_bytes_free(&text);
	stx_bytes_free(&source);
	stx_arena_free(a);
}

/* Eight elements of two bytes are one access of 16 bytes where an index proves that they are
 * consecutive and begin at a multiple of 8; the other side stays as it is. A ragged end needs no
 * access of its own: the last block takes single elements. */
static void test_emit_cuda_runs_are_accesses_of_16_bytes(void **state)
{
	static const struct {
		const char *index;
		int elems, wide;
	} of[] = {
		{ "x0", 65536, 1 },
		{ "x0", 65533, 1 },
		{ "x0 + 8", 65536, 1 },
		{ "24*(x0 // 16) + (x0 % 16)", 65536, 1 },
		{ "x0 + 4", 65536, 0 },
		{ "2*x0", 65536, 0 },
		{ "20*(x0 // 16) + (x0 % 16)", 65536, 0 },
		{ "24*(x0 // 12) + (x0 % 12)", 65536, 0 },
		{ "65535 - x0", 65536, 0 },
	};
	struct stx_nvrtc *n;
	struct stx_diag d = { 0 };
	(void)state;
	if (stx_nvrtc_new(NULL, &n, &d)) {
		print_message("skipped: %s\n", d.text);
		skip();
	}
	for (unsigned i = 0; i < sizeof of / sizeof *of; i++) {
		struct stx_bytes ptx = { 0 };
		copy_in_runs(n, of[i].elems, of[i].index, &ptx);
		assert_null(memchr(ptx.at, 0, ptx.n));
		const char *s = stx_bytes_cstr(&ptx);
		if (count(s, "ld.global.v4.u32") + count(s, "ld.global.v4.b32") != of[i].wide ||
		    count(s, "st.global.v4.u32") + count(s, "st.global.v4.b32") != 1)
			fail_msg("%s of %d:\n%s", of[i].index, of[i].elems, s);
		stx_bytes_free(&ptx);
	}
	stx_nvrtc_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_cuda_value_of_an_earlier_loop_is_taken_from_registers),
		cmocka_unit_test(test_emit_cuda_time_is_linear_in_the_instructions),
		cmocka_unit_test(test_emit_cuda_runs_are_accesses_of_16_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
