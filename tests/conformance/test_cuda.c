/* test_cuda.c: what GPU kernels look like, without a GPU: axes, tiles, configurations, CUDA C,
 * cubins for every architecture (seed 003 9.1 to 9.5). tests/property/test_graphs with
 * STAX_TEST_TARGET runs them. */
#include "cases.h"
#include "cpu_target.h"
#include "gpu.h"
#include "gpu_schedule.h"
#include "lower.h"
#include "passes.h"
#include "schedule.h"
#include "schedule_eval.h"
#include "tune.h"

#define TARGET "cuda:sm_90a:h200"

static const char *dump(const char *graph, const char *stage, struct stx_bytes *out)
{
	stx_bytes_clear(out);
	return case_dump(graph, TARGET, 0, stage, out);
}

static const char example_1_1[] = "%p : f32[64,128] = placeholder()\n"
				  "%q : f32[64,128] = placeholder()\n"
				  "%add = add.Tensor(%p, %q)\n"
				  "%relu = relu.default(%add)\n"
				  "%mul = mul.Scalar(%relu, 2)\n"
				  "%sum_0 = sum.dim_IntList(%mul, [-1])\n"
				  "return (%sum_0,)\n";

/* GK-11: one persistent reduction of prefix per over an XBLOCK x 128 tile: two loads, an add, a
 * maximum with 0 through which NaN passes (GK-08), times 2.0, a sum, one store. GK-06: the
 * reduction is as long as the block, so its mask is gone; x divides as well. GK-07: the index is
 * 128*x0 + r0. */
static void test_cuda_example_1_1_is_one_persistent_reduction(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump(example_1_1, "kernels", &b);
	assert_int_equal(count(s, "kernel \""), 1);
	expect(s, "kernel \"per_fused_add_relu_mul_sum_0\" per");
	expect(s, "axis x0 grid 64\n");
	expect(s, "axis r0 loop reduction 128\n");
	s = dump(example_1_1, "source", &b);
	expect(s, "R0_BLOCK=128");
	expect(s, "const i32 xnumel = 64;");
	expect(s, "const i32 rnumel = 128;");
	assert_int_equal(count(s, ", p0 + (128*x0 + r0), true);"), 1);
	assert_int_equal(count(s, ", p1 + (128*x0 + r0), true);"), 1);
	assert_int_equal(count(s, "p2[x0] = "), 1);
	assert_int_equal(count(s, " * 0x1p+1f;"), 1);
	expect(s, "max_(");
	expect(s, "max.NaN.f32");
	expect_none(s, "r0 < rnumel");
	stx_bytes_free(&b);
}

/* PW-03: example 6.1 is tiled in two dimensions: x 512, y 256, loads 256*x + y and x + 512*y, and
 * both masks where a tile does not divide. PW-04: contiguous operands have one. PW-07: 131072
 * elements in blocks of 1024 are 128 blocks. */
static void test_cuda_pointwise_tiles_follow_coalesced_bytes(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s =
		dump("%x : f32[512,256] = placeholder()\n%y : f32[256,512] = placeholder()\n"
		     "%t = t.default(%x)\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
		     "kernels", &b);
	expect(s, "axis x0 grid 512\naxis y0 grid 256\n");
	expect(s, "p0[256*x0 + y0]");
	expect(s, "p1[x0 + 512*y0]");
	s = dump("%x : f32[500,250] = placeholder()\n%y : f32[250,500] = placeholder()\n"
		 "%t = t.default(%x)\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
		 "source", &b);
	/* of a run's first element: 500 and 250 are whole runs of 2 */
	expect(s, "ok = xoffset + (tx + (e % 2) / 2 * NX)*2 < xnumel && yoffset + (ty + (e / 2 % "
		  "2) / 2 * NY)*2 < ynumel;");
	s = dump("%x : f32[64,128] = placeholder()\n%y : f32[64,128] = placeholder()\n"
		 "%a = add.Tensor(%x, %y)\nreturn (%a,)\n",
		 "kernels", &b);
	expect(s, "axis x0 grid 8192\n");
	expect_none(s, "axis y0");
	s = dump("%x : f32[64,32,48] = placeholder()\n%y : f32[48,32,64] = placeholder()\n"
		 "%t = permute.default(%x, [2, 1, 0])\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
		 "kernels", &b);
	expect(s, "axis x0 grid 64\naxis y0 grid 1536\n"); /* y: 32 of no use of its own, and 48 */
	stx_bytes_free(&b);
}

/* MR-02: softmax over rows of 1000 is one kernel: an element is loaded once and stored once;
 * R0_BLOCK is 1024, 24 lanes are masked: what they give max is its identity, -inf, and sum 0
 * (GK-10). */
static void test_cuda_softmax_loads_and_stores_an_element_once(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump("%x : f32[256,1000] = placeholder()\n%s = softmax.int(%x, -1)\n"
			     "return (%s,)\n",
			     "source", &b);
	assert_int_equal(count(s, "__global__"), 1);
	assert_int_equal(count(s, "p0 + ("), 1);
	assert_int_equal(count(s, "p1 + ("), 1);
	expect_none(s, "p0[");
	expect_none(s, "p1[");
	expect(s, "R0_BLOCK=1024");
	expect(s, "ok = roffset + (tr + (e % 8) / 4 * NR)*4 < rnumel;");
	expect(s, "= __int_as_float(0xff800000);");
	stx_bytes_free(&b);
}

/* MR-05: a long softmax is online unless the blocks of a cluster keep its rows: then maximum and
 * sum are two passes over what is on the chip, and every exponential is computed once. What does not
 * need the exponentials again is online everywhere. */
static void test_cuda_softmax_of_kept_rows_has_two_passes(void **state)
{
	static const struct {
		const char *target, *call;
		int columns, online;
	} cases[] = {
		{ "cuda:sm_90a", "softmax", 131072, 0 },
		{ "cuda:sm_90a", "softmax", 131073, 1 },
		{ "cuda:sm_80", "softmax", 131072, 1 },
		{ "cuda:sm_80", "softmax", 32768, 0 },
		{ "cuda:sm_90a", "log_softmax", 131072, 1 },
	};
	struct stx_bytes b = { 0 };
	char text[256];
	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(text, sizeof text,
			 "%%x : bf16[512,%d] = placeholder()\n%%s = %s.int(%%x, -1)\nreturn "
			 "(%%s,)\n",
			 cases[i].columns, cases[i].call);
		stx_bytes_clear(&b);
		const char *s = case_dump(text, cases[i].target, 0, "kernels", &b);
		assert_int_equal(count(s, "kernel \""), 1);
		assert_int_equal(count(s, "= acc softmax"), cases[i].online);
	}
	stx_bytes_clear(&b);
	const char *s =
		case_dump("%x : bf16[512,131072] = placeholder()\n%s = softmax.int(%x, -1)\n"
			  "return (%s,)\n",
			  TARGET, 0, "source", &b);
	assert_int_equal(count(s, "p0 + ("), 1);
	expect_none(s, "p0[");
	expect(s, "cluster_dims(8, 1, 1)");
	assert_int_equal(count(s, "  cluster_begin();"), 1);
	assert_int_equal(count(s, "  cluster_wait();"), 3);
	stx_bytes_free(&b);
}

static const char *row_sum(int rows, int columns, int dim, char out[256])
{
	snprintf(out, 256,
		 "%%x : f32[%d,%d] = placeholder()\n%%s = sum.dim_IntList(%%x, [%d])\nreturn "
		 "(%%s,)\n",
		 rows, columns, dim);
	return out;
}

/* GR-02: persistent up to 1024 along the contiguous dimension, up to 64 otherwise. GR-03: R0_BLOCK
 * is the least power of two that holds the row: 1000 -> 1024, 128 -> 128, 2 -> 2. */
static void test_cuda_reductions_are_persistent_up_to_their_limits(void **state)
{
	struct stx_bytes b = { 0 };
	char t[256];
	(void)state;
	expect(dump(row_sum(512, 1024, 1, t), "kernels", &b), "kernel \"per_");
	expect(dump(row_sum(512, 1025, 1, t), "kernels", &b), "kernel \"red_");
	expect(dump(row_sum(64, 4096, 0, t), "kernels", &b), "kernel \"per_");
	expect(dump(row_sum(65, 4096, 0, t), "kernels", &b), "kernel \"red_");
	expect(dump(row_sum(512, 1000, 1, t), "source", &b), "R0_BLOCK=1024");
	expect(dump(row_sum(512, 128, 1, t), "source", &b), "R0_BLOCK=128");
	expect(dump(row_sum(512, 2, 1, t), "source", &b), "R0_BLOCK=2 ");
	expect_none(dump(row_sum(512, 1024, 1, t), "source", &b), "roffset < rnumel");
	expect(dump(row_sum(512, 1025, 1, t), "source", &b), "roffset < rnumel; roffset += 2048");
	stx_bytes_free(&b);
}

/* A reduction without elements masks its only iteration: all([]) is true. */
static void test_cuda_empty_reduction_has_its_mask(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump("%x : f32[0] = placeholder()\n%a = all.default(%x)\nreturn (%a,)\n",
			     "source", &b);
	expect(s, "x0 < xnumel && r0 < rnumel");
	stx_bytes_free(&b);
}

/* RD-25, GR-05: two layers, red over 128 rows of 8192 and per over 64 of 2. RD-27: where segments
 * are not equally long the last one's lanes are masked by its own length. */
static void test_cuda_long_rows_are_cut_in_two_layers(void **state)
{
	struct stx_bytes b = { 0 };
	char t[256];
	(void)state;
	const char *s = dump("%x : f32[64,16384] = placeholder()\n%m = mul.Tensor(%x, %x)\n"
			     "%s = sum.dim_IntList(%m, [1])\nreturn (%s,)\n",
			     "kernels", &b);
	assert_int_equal(count(s, "kernel \""), 2);
	expect(s, "kernel \"red_");
	expect(s, "axis x0 grid 128\naxis r0 loop reduction 8192\n");
	expect(s, "[8192*x0 + r0]");
	assert_int_equal(count(s, "= load f32 p0["), 2); /* one load in each */
	expect(s, "kernel \"per_");
	expect(s, "axis x0 grid 64\naxis r0 loop reduction 2\n");
	s = dump(row_sum(64, 8193, 1, t), "source", &b);
	expect(s, "const i32 rnumel = 4097;");
	expect(s, "r0 < imin_<i32>(");
	stx_bytes_free(&b);
}

/* LC-02: one to six candidates; each is a whole number of warps, none has more threads than points.
 */
static void test_cuda_candidates_are_whole_warps_within_the_device(void **state)
{
	static const char *const shapes[] = {
		"%x : f32[1] = placeholder()\n%a = exp.default(%x)\n",
		"%x : f32[100000] = placeholder()\n%a = exp.default(%x)\n",
		"%x : f32[3,70000] = placeholder()\n%a = sum.dim_IntList(%x, [0])\n",
		"%x : f32[70000,3] = placeholder()\n%a = sum.dim_IntList(%x, [1])\n",
		"%x : f32[1,70000] = placeholder()\n%a = sum.dim_IntList(%x, [1])\n",
		"%x : f32[90,33] = placeholder()\n%a = t.default(%x)\n",
		"%x : f32[3,5000] = placeholder()\n%a = argsort.default(%x)\n",
		"%x : f32[9,2] = placeholder()\n%a = argsort.default(%x)\n",
		"%x : f32[9,70] = placeholder()\n%i : i64[4,70] = placeholder()\n"
		"%a = scatter_add.default(%x, 0, %i, %x)\n",
		"%x : f32[16,40000] = placeholder()\n%a = _softmax.default(%x, 1, False)\n"
	};
	struct stx_gpu_target t;
	(void)state;
	assert_int_equal(stx_gpu_target_parse("cuda:sm_90", &t, NULL), 0);
	for (unsigned i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		char text[512];
		struct stx_arena *a = stx_arena_new(0);
		struct stx_schedule *s;
		snprintf(text, sizeof text, "%sreturn (%%a,)\n", shapes[i]);
		s = gpu_schedule(a, text);
		for (unsigned k = 0; k < s->kernels.n; k++) {
			struct stx_gpu_choices c;
			stx_tune_candidates(s->kernels.at[k], &t.device, &c);
			assert_in_range(c.n, 1, 6);
			for (uint32_t j = 0; j < c.n; j++) {
				struct stx_bytes out = { 0 };
				assert_int_equal(c.at[j].threads % 32, 0);
				assert_in_range(c.at[j].threads, 32,
						t.device.max_threads_per_block);
				assert_int_equal(
					stx_emit_cuda(s->kernels.at[k], &c.at[j], &out, NULL), 0);
				stx_bytes_free(&out);
			}
		}
		stx_arena_free(a);
	}
}

/* Kernels of a GPU schedule as kernel.h defines them, by the interpreter. */
static void evaluates(const char *text, void *const *in, void *out, size_t bytes,
		      const void *stated)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s;
	struct stx_diag d = { 0 };
	s = gpu_schedule(a, text);
	void **data = STX_NEW_ARRAY(a, void *, s->loops->buffers.n + 1);
	for (uint32_t i = 0; i < s->loops->buffers.n; i++) {
		const struct stx_buffer *b = s->loops->buffers.at[i];
		data[i] = b->kind == STX_BUF_INPUT    ? in[b->index]
			  : b->kind == STX_BUF_OUTPUT ? out
						      : NULL;
	}
	if (stx_schedule_evaluate(s, data, NULL, &d))
		fail_msg("%s: %s in\n%s", d.node, d.text, text);
	assert_memory_equal(out, stated, bytes);
	stx_arena_free(a);
}

/* Equal keys keep their order, -0 and 0 are equal, NaN is last; updates of one element come in the
 * order of the indices. */
static void test_cuda_sorts_and_updates_are_those_of_the_cpu(void **state)
{
	float x[2][5] = { { 3, -0.0f, 0, -7, 3 }, { NAN, 2, 1, NAN, -1 } };
	float base[4] = { 10, 20, 3, 40 }, value[5] = { 1e8f, 1, -1e8f, 5, 6 }, sum[4];
	int64_t at[5] = { 2, 2, 2, 0, 0 }, place[10];
	static const int64_t sorted[10] = { 3, 1, 2, 0, 4, 4, 2, 1, 0, 3 };
	static const float added[4] = { 21, 20, 0, 40 }; /* 3 + 1e8 is 1e8, and so is 1e8 + 1 */
	(void)state;
	evaluates("%x : f32[2,5] = placeholder()\n%a = argsort.stable(%x, stable=True)\nreturn "
		  "(%a,)\n",
		  (void *[]){ x }, place, sizeof place, sorted);
	evaluates("%x : f32[4] = placeholder()\n%i : i64[5] = placeholder()\n"
		  "%v : f32[5] = placeholder()\n%y = scatter_add.default(%x, 0, %i, %v)\nreturn "
		  "(%y,)\n",
		  (void *[]){ base, at, value }, sum, sizeof sum, added);
}

/* A block sorts a row between barriers; the order of updates leaves one thread for each point
 * beside the axis of updates, without another one of the block. */
static void test_cuda_ordered_axes_have_one_thread_or_one_block(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump("%x : f32[7,3000] = placeholder()\n%a = argsort.default(%x)\n"
			     "return (%a,)\n",
			     "source", &b);
	expect(s, "tem_fused_argsort_1: XBLOCK=1 R0_BLOCK=1024 row_threads=1024 looped");
	assert_int_equal(count(s, "sort_pairs(p1 + first, p2 + first, (u32)(3000));"), 1);
	s = dump("%x : f32[9,70] = placeholder()\n%i : i64[4,70] = placeholder()\n"
		 "%a = scatter_add.default(%x, 0, %i, %x)\nreturn (%a,)\n",
		 "source", &b);
	expect(s, "XBLOCK=64 R0_BLOCK=1 row_threads=1 looped threads=64");
	expect(s, "for (i32 roffset = 0; roffset < rnumel; roffset += 1) {");
	stx_bytes_free(&b);
}

/* B41: a long sum has parts of some rounds; across memory it is cut as well. */
static void test_cuda_long_sums_have_parts(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	const char *s = dump("%x : f32[300000000] = placeholder()\n%s = sum.default(%x)\n"
			     "return (%s,)\n",
			     "source", &b);
	assert_int_equal(count(s, "c0_0[e] = c0_0[e] + b0;"), 2); /* of both layers */
	assert_int_equal(count(s, "if (roffset / 2048 % 8 == 7) {"), 1);
	/* fewer rounds than a part has: there is one */
	s = dump("%x : f32[1000000] = placeholder()\n%s = sum.default(%x)\nreturn (%s,)\n",
		 "source", &b);
	assert_int_equal(count(s, "c0_0[e] = c0_0[e] + b0;"), 1);
	expect_none(s, "if (roffset / ");
	s = dump("%x : f32[1000000,3] = placeholder()\n%s = sum.dim_IntList(%x, [0])\n"
		 "return (%s,)\n",
		 "kernels", &b);
	assert_int_equal(count(s, "kernel \""), 2);
	expect(s, "= load f32 p0[3*r0 + 5682*(x0 // 3) + (x0 % 3)]");
	stx_bytes_free(&b);
}

/* Every primitive, dtype, accumulator and form that NVRTC has to understand, for each architecture.
 */
static void test_cuda_source_compiles_for_every_architecture(void **state)
{
	static const char *const targets[] = { "cuda:sm_80",  "cuda:sm_86",   "cuda:sm_89",
					       "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_120a" };
	static const char text[] =
		"%x : f32[70,90] = placeholder()\n%h : f16[70,90] = placeholder()\n"
		"%i : i8[70,90] = placeholder()\n%l : i64[70] = placeholder()\n"
		"%k : i64[70,90] = placeholder()\n%u : u64[70,90] = placeholder()\n"
		"%z : f64[16,40000] = placeholder()\n%f : f32[16,40000] = placeholder()\n"
		"%s = softmax.int(%x, -1)\n%g = gelu.default(%h)\n"
		"%m = argmax.default(%x, 1)\n%v = index_select.default(%x, 0, %l)\n"
		"%d = remainder.Tensor(%i, %i)\n%w = _to_copy.default(%x, dtype=f8e4m3fn)\n"
		"%t = t.default(%x)\n%p = mm.default(%x, %t)\n"
		"%o = argsort.default(%x)\n%q = argsort.default(%u)\n"
		"%a = scatter_add.default(%x, 0, %k, %x)\n"
		"%r = scatter.src(%h, 0, %k, %h)\n"
		"%y = _softmax.default(%z, 1, False)\n%c = _softmax.default(%f, 1, False)\n"
		"%e = tan.default(%h)\n"
		"return (%s, %g, %m, %v, %d, %w, %p, %o, %q, %a, %r, %y, %c, %e)\n";
	struct stx_nvrtc *n;
	struct stx_diag d = { 0 };
	(void)state;
	if (stx_nvrtc_new(NULL, &n, &d)) {
		print_message("skipped: %s\n", d.text);
		skip();
	}
	struct stx_arena *a = stx_arena_new(0);
	struct stx_schedule *s;
	s = gpu_schedule(a, text);
	for (unsigned i = 0; i < sizeof targets / sizeof *targets; i++) {
		struct stx_gpu_target target;
		assert_int_equal(stx_gpu_target_parse(targets[i], &target, NULL), 0);
		for (unsigned k = i; k < s->kernels.n; k += i ? 5 : 1) {
			struct stx_gpu_choices c;
			struct stx_bytes source = { 0 }, cubin = { 0 };
			stx_tune_candidates(s->kernels.at[k], &target.device, &c);
			if (stx_emit_cuda(s->kernels.at[k], &c.at[0], &source, &d) ||
			    stx_nvrtc_compile(n, stx_bytes_cstr(&source), "k", target.device.arch,
					      0, STX_NVRTC_CUBIN, &cubin, NULL, &d))
				fail_msg("%s: %s\n%s", targets[i], d.text, stx_bytes_cstr(&source));
			assert_memory_equal(cubin.at, "\177ELF", 4);
			stx_bytes_free(&source);
			stx_bytes_free(&cubin);
		}
	}
	stx_arena_free(a);
	stx_nvrtc_free(n);
}

/* VR-10: the same kernel with 32-bit and with 64-bit indices, in every configuration: narrow ones
 * take fewer registers a thread, by the cubin, for which no GPU is needed. Kernels whose index
 * arithmetic is alike in both, and all there is: the compiler of NVRTC unrolls some loops for one
 * width only, and registers of a function's own come and go, which hides it. */
static void test_cuda_narrow_indices_take_fewer_registers(void **state)
{
	static const char *const texts[] = {
		"%x : f32[33,70,90] = placeholder()\n%p = permute.default(%x, [2, 0, 1])\n"
		"%v = view.default(%p, [45, 77, 60])\n%f = flip.default(%v, [0, 2])\n"
		"%w = view.default(%f, [15, 99, 140])\n%a = relu.default(%w)\nreturn (%a,)\n",
		"%x : f32[40,50,60] = placeholder()\n%i : i32[70000] = placeholder()\n"
		"%j : i32[70000] = placeholder()\n%k : i32[70000] = placeholder()\n"
		"%a = index.Tensor(%x, [%i, %j, %k])\nreturn (%a,)\n",
	};
	struct stx_gpu_target target;
	struct stx_nvrtc *n;
	struct stx_diag d = { 0 };
	(void)state;
	if (stx_nvrtc_new(NULL, &n, &d)) {
		print_message("skipped: %s\n", d.text);
		skip();
	}
	assert_int_equal(stx_gpu_target_parse(TARGET, &target, NULL), 0);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_gpu_choices c;
		struct stx_schedule *s;
		s = gpu_schedule(a, texts[i]);
		assert_int_equal(s->kernels.n, 1);
		assert_int_equal(s->kernels.at[0]->index_bits, 32);
		stx_tune_candidates(s->kernels.at[0], &target.device, &c);
		assert_true(c.n > 1);
		for (uint32_t k = 0; k < c.n; k++) {
			uint32_t used[2] = { 0 };
			for (int wide = 0; wide < 2; wide++) {
				struct stx_gpu_usage usage;
				struct stx_bytes source = { 0 }, cubin = { 0 };
				s->kernels.at[0]->index_bits = wide ? 64 : 32;
				if (stx_emit_cuda(s->kernels.at[0], &c.at[k], &source, &d) ||
				    stx_nvrtc_compile(n, stx_bytes_cstr(&source), "k",
						      target.device.arch, 0, STX_NVRTC_CUBIN,
						      &cubin, &usage, &d))
					fail_msg("%s\n%s", d.text, stx_bytes_cstr(&source));
				used[wide] = usage.registers;
				stx_bytes_free(&source);
				stx_bytes_free(&cubin);
			}
			print_message("%s, %u threads: %u registers, %u with 64-bit indices\n",
				      s->kernels.at[0]->name, c.at[k].threads, used[0], used[1]);
			assert_true(used[0] > 0 && used[0] < used[1]);
		}
		stx_arena_free(a);
	}
	stx_nvrtc_free(n);
}

/* What the CPU's passes make of attention is no operator of a GPU's. */
static void test_cuda_attend_operator_is_refused(void **state)
{
	struct stx_arena *a = stx_arena_new(0);
	(void)state;
	assert_null(gpu_schedule_if(a,
				    "%s : f32[2,8] = placeholder()\n%v : f32[8,3] = placeholder()\n"
				    "%a = _attend.default(%s, %v)\nreturn (%a,)\n"));
	stx_arena_free(a);
}

static void test_cuda_targets_have_names_and_aliases(void **state)
{
	char out[64];
	struct stx_diag d = { 0 };
	(void)state;
	assert_int_equal(stx_target_normalise("cuda:sm_90", out, &d), 0);
	assert_string_equal(out, "cuda:sm_90a:h100-sxm");
	assert_int_equal(stx_target_normalise("cuda:sm_90a:h200", out, &d), 0);
	assert_string_equal(out, "cuda:sm_90a:h200");
	assert_int_equal(stx_target_normalise("cuda:sm_100", out, &d), 0);
	assert_string_equal(out, "cuda:sm_100a:b200");
	assert_int_equal(stx_target_normalise("cuda:sm_75", out, &d), STX_E_UNSUPPORTED);
	assert_non_null(strstr(d.text, "sm_80"));
	assert_int_equal(stx_target_normalise("cuda:sm_90:a100", out, NULL), STX_E_UNSUPPORTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cuda_example_1_1_is_one_persistent_reduction),
		cmocka_unit_test(test_cuda_pointwise_tiles_follow_coalesced_bytes),
		cmocka_unit_test(test_cuda_softmax_loads_and_stores_an_element_once),
		cmocka_unit_test(test_cuda_softmax_of_kept_rows_has_two_passes),
		cmocka_unit_test(test_cuda_reductions_are_persistent_up_to_their_limits),
		cmocka_unit_test(test_cuda_empty_reduction_has_its_mask),
		cmocka_unit_test(test_cuda_long_rows_are_cut_in_two_layers),
		cmocka_unit_test(test_cuda_candidates_are_whole_warps_within_the_device),
		cmocka_unit_test(test_cuda_sorts_and_updates_are_those_of_the_cpu),
		cmocka_unit_test(test_cuda_ordered_axes_have_one_thread_or_one_block),
		cmocka_unit_test(test_cuda_long_sums_have_parts),
		cmocka_unit_test(test_cuda_source_compiles_for_every_architecture),
		cmocka_unit_test(test_cuda_narrow_indices_take_fewer_registers),
		cmocka_unit_test(test_cuda_attend_operator_is_refused),
		cmocka_unit_test(test_cuda_targets_have_names_and_aliases),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
