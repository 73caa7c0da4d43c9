/* test_emit_strides.c: loads that are not contiguous (transposed tiles, strides of a few elements,
 * either way, under masks) against plain loops over the same bytes, and stores past the caches.
 * Buffers end, and start, at pages that cannot be touched. */
#include "jit.h"

#define EACH_TARGET(t)                                                                             \
	const char *const *t = jit_targets();                                                      \
	*t;                                                                                        \
	t++

static const struct {
	const char *name;
	unsigned bytes;
} types[] = { { "u8", 1 }, { "bf16", 2 }, { "f16", 2 }, { "i32", 4 }, { "f32", 4 }, { "f64", 8 } };
#define NTYPES (sizeof types / sizeof types[0])

static uint32_t next(uint32_t *s)
{
	*s = *s * 1664525u + 1013904223u;
	return *s >> 8;
}

/* Finite numbers of every type: copies of halves are then the same bits. */
static void fill(uint8_t *p, size_t n, unsigned bytes)
{
	uint32_t s = 7;
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i % bytes == bytes - 1 ? next(&s) % 60 : next(&s) % 256);
}

/* n bytes that begin at a page without access. */
static uint8_t *guarded_before(size_t n)
{
	uint8_t *p = mmap(NULL, n + 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p, 4096, PROT_NONE), 0);
	return p + 4096;
}

/* ---- transposed tiles ---- */

/* Grid points of `rows` rows, `last` in the last one: out[i][j] = in[j][i], and again with an
 * element of the other order beside it. */
static void tile_case(const char *target, unsigned type, int rows, int cols, int last, int dynamic)
{
	unsigned b = types[type].bytes;
	const char *t = types[type].name;
	int total = 2 * rows + last, stride = total + 11;
	size_t in_n = (size_t)stride * (size_t)(cols - 1) + (size_t)total,
	       n = (size_t)total * (size_t)cols;
	uint8_t *in = jit_guarded(in_n * b), *out = jit_guarded(n * b), *both = jit_guarded(n * b);
	char text[1400], size[80], step[80];
	snprintf(size, sizeof size, dynamic ? "min(%d, s0 - %d*x0)" : "min(%d, %d - %d*x0)", rows,
		 dynamic ? rows : total, rows);
	snprintf(step, sizeof step, dynamic ? "s1*x2" : "%d*x2", stride);
	snprintf(text, sizeof text,
		 "kernel \"k\" poi bits 32 target cpu\n%s"
		 "param p0 %s read elems %zu \"a\"\nparam p1 %s write elems %zu \"b\"\n"
		 "param p2 %s write elems %zu \"c\"\n"
		 "axis x0 grid 3\naxis x1 loop %s\naxis x2 vector %d\ngrain 1\nbegin\n"
		 "t9 = const i64 3\nloop x1\nloop x2\n"
		 "t0 = load %s p0[x1 + %s + %d*x0]\nstore %s p1[%d*x1 + x2 + %d*x0] t0\n"
		 "t1 = index i64 x2\nt2 = and i64 t1 t9\nt3 = eq bool t2 t9\n"
		 "t4 = load %s p0[x1 + x2 + %d*x0] mask t3\nt5 = select %s t3 t4 t0\n"
		 "store %s p2[%d*x1 + x2 + %d*x0] t5\nend\nend\nend\n",
		 dynamic ? "scalar s0 range 0 4000 hint 8\nscalar s1 range 0 4000 hint 8\n" : "", t,
		 in_n, t, n, t, n, size, cols, t, step, rows, t, cols, rows * cols, t, rows, t, t,
		 cols, rows * cols);
	fill(in, in_n * b, b);
	memset(out, 0x55, n * b);
	memset(both, 0x55, n * b);
	int64_t scalars[2] = { total, stride };
	jit_run(jit_kernel(target, text), (void *[]){ in, out, both }, scalars, 0, 3);
	for (int i = 0; i < total; i++)
		for (int j = 0; j < cols; j++) {
			size_t at = (size_t)i * (size_t)cols + (size_t)j;
			size_t from = (size_t)j * (size_t)stride + (size_t)i;
			size_t other = j % 4 == 3 ? (size_t)(i + j) : from;
			if (memcmp(out + at * b, in + from * b, b) ||
			    memcmp(both + at * b, in + other * b, b))
				fail_msg("%s: %s, %d, %d in\n%s", target, t, i, j, text);
		}
	jit_guarded_free(in, in_n * b);
	jit_guarded_free(out, n * b);
	jit_guarded_free(both, n * b);
}

static void test_emit_tiles_across_equal_plain_copies(void **state)
{
	static const struct {
		int rows, cols, last;
	} shape[] = { { 64, 128, 64 }, { 64, 100, 40 }, { 16, 16, 16 }, { 17, 33, 1 },
		      { 32, 20, 5 },   { 8, 9, 7 },     { 48, 70, 47 }, { 3, 40, 2 } };
	(void)state;
	for (EACH_TARGET(t))
		for (unsigned type = 0; type < NTYPES; type++)
			for (unsigned i = 0; i < sizeof shape / sizeof shape[0]; i++)
				tile_case(*t, type, shape[i].rows, shape[i].cols, shape[i].last,
					  i % 4 == 1);
}

/* ---- strides ---- */

/* out[i] = in[start + stride*i] for n of them, or where bit i % 32 of `pattern` is set. */
static void stride_case(const char *target, unsigned type, int stride, int n, uint32_t pattern)
{
	unsigned b = types[type].bytes;
	const char *t = types[type].name;
	int span = (n - 1) * (stride < 0 ? -stride : stride) + 1, start = stride < 0 ? span - 1 : 0;
	size_t bytes = (size_t)span * b;
	uint8_t *high = jit_guarded(bytes), *low = guarded_before(bytes),
		*out = malloc((size_t)n * b);
	char text[900];
	snprintf(text, sizeof text,
		 "kernel \"k\" poi bits 32 target cpu\nparam p0 %s read elems %d \"a\"\n"
		 "param p1 i32 read elems 1 \"m\"\nparam p2 %s write elems %d \"b\"\n"
		 "axis x0 grid 1\naxis x1 vector %d\ngrain 1\nbegin\n"
		 "t1 = load i32 p1[0]\nt2 = const i32 31\nt3 = const i32 0\nt4 = const i32 1\n"
		 "loop x1\nt5 = index i32 x1\nt6 = and i32 t5 t2\nt7 = lshr i32 t1 t6\n"
		 "t8 = and i32 t7 t4\nt9 = ne bool t8 t3\n"
		 "t10 = load %s p0[%d*x1 + %d]%s\nstore %s p2[x1] t10\nend\nend\n",
		 t, span, t, n, n, t, stride, start, pattern == UINT32_MAX ? "" : " mask t9", t);
	fill(high, bytes, b);
	memcpy(low, high, bytes);
	for (int end = 0; end < 2; end++) {
		const uint8_t *in = end ? low : high;
		memset(out, 0x55, (size_t)n * b);
		jit_run(jit_kernel(target, text), (void *[]){ (void *)in, &pattern, out }, NULL, 0,
			1);
		for (int i = 0; i < n; i++) {
			static const uint8_t none[8];
			const uint8_t *want = in + (size_t)(start + stride * i) * b;
			if (!(pattern >> i % 32 & 1))
				want = none;
			if (memcmp(out + (size_t)i * b, want, b))
				fail_msg("%s: %s, stride %d, %d of %d in\n%s", target, t, stride, i,
					 n, text);
		}
	}
	jit_guarded_free(high, bytes);
	munmap(low - 4096, bytes + 2 * 4096);
	free(out);
}

static void test_emit_strides_of_a_few_elements_equal_plain_loads(void **state)
{
	static const int stride[] = { -1, 2, -2, 3, 4, -5, 7, 8, 9 }, n[] = { 1, 5, 16, 28, 200 };
	uint32_t s = 3;
	(void)state;
	for (EACH_TARGET(t))
		for (unsigned type = 0; type < NTYPES; type++)
			for (unsigned i = 0; i < 9; i++)
				for (unsigned j = 0; j < 5; j++) {
					if (j < 4 && next(&s) % 2) /* a compilation each */
						continue;
					stride_case(*t, type, stride[i], n[j],
						    next(&s) % 2 ? UINT32_MAX : 0x6a5c3e97u);
				}
}

/* A lane that is off touches nothing between the others either: its elements lie on no page. */
static void test_emit_strides_touch_no_element_of_a_lane_that_is_off(void **state)
{
	static const char text[] =
		"kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems 6144 \"a\"\n"
		"param p1 f32 write elems 3072 \"b\"\naxis x0 grid 1\naxis x1 vector 3072\n"
		"grain 1\nbegin\nt1 = const i64 1030\nloop x1\nt2 = index i64 x1\n"
		"t3 = lt bool t2 t1\nt4 = load f32 p0[2*x1] mask t3\nstore f32 p1[x1] "
		"t4\nend\nend\n";
	static float out[3072];
	uint8_t *p = guarded_before(3 * 4096);
	float *in = (float *)(void *)p;
	(void)state;
	for (int i = 0; i < 2060; i++)
		in[i] = (float)i;
	assert_int_equal(mprotect(p + 3 * 4096, 4096, PROT_NONE), 0);
	for (EACH_TARGET(t)) {
		memset(out, 0x55, sizeof out);
		jit_run(jit_kernel(*t, text), (void *[]){ in, out }, NULL, 0, 1);
		for (int i = 0; i < 3072; i++)
			assert_true(out[i] == (i < 1030 ? (float)(2 * i) : 0));
	}
	munmap(p - 4096, 5 * 4096);
}

/* One element for each group of the vector axis, plain, nested and under a mask, and one written. */
static void test_emit_groups_of_the_vector_axis_have_their_own_element(void **state)
{
	static const int group[] = { 2, 8, 16, 48, 64, 512 };
	float *a = jit_guarded(1200 * 4), *b = jit_guarded(1200 * 4), *c = jit_guarded(1200 * 4);
	float *d = jit_guarded(1200 * 4);
	char text[1000];
	(void)state;
	for (int i = 0; i < 1200; i++)
		a[i] = (float)(i * 3 % 1021);
	for (EACH_TARGET(t))
		for (int i = 0; i < 6; i++) {
			int g = group[i], n = 1100;
			snprintf(
				text, sizeof text,
				"kernel \"k\" poi bits 32 target cpu\nparam p0 f32 read elems 1200 "
				"\"a\"\n"
				"param p1 f32 write elems 1200 \"b\"\n"
				"param p2 f32 write elems 1200 \"c\"\n"
				"param p3 f32 write elems 1200 \"d\"\naxis x0 grid 1\n"
				"axis x1 vector %d\ngrain 1\nbegin\nt9 = const i64 1\nloop x1\n"
				"t0 = load f32 p0[(x1 + 64) // %d]\n"
				"t1 = load f32 p0[x1 + 3*(((x1 // %d) + 5) // 2)]\nt2 = add f32 t0 "
				"t1\n"
				"store f32 p1[x1] t2\nt3 = index i64 x1 // %d\nt4 = and i64 t3 t9\n"
				"t5 = eq bool t4 t9\nt6 = load f32 p0[x1 // %d] mask t5\n"
				"store f32 p2[x1] t6\nt7 = load f32 p0[x1 // %d]\n"
				"store f32 p3[x1 // %d] t7\nend\nend\n",
				n, g, 8 * g, g, g, g, g);
			memset(b, 0, 1200 * 4);
			memset(d, 0x55, 1200 * 4);
			n = g == 2 ? 600 : n; /* its indices reach further */
			char *size = strstr(text, "vector 1100");
			if (g == 2)
				memcpy(size, "vector 600 ", 11);
			jit_run(jit_kernel(*t, text), (void *[]){ a, b, c, d }, NULL, 0, 1);
			for (int x = 0; x < n; x++) {
				assert_true(b[x] ==
					    a[(x + 64) / g] + a[x + 3 * ((x / (8 * g) + 5) / 2)]);
				assert_true(c[x] == (x / g % 2 ? a[x / g] : 0));
				assert_true(d[x / g] == a[x / g]);
			}
		}
}

/* ---- past the caches ---- */

static int assembly_has(const char *target, const char *text, const char *word)
{
	struct stx_diag d = { 0 };
	struct stx_cpu_target t;
	struct stx_bytes out = { 0 };
	struct stx_arena *a = stx_arena_new(0);
	assert_int_equal(stx_cpu_target_parse(target, &t, &d), 0);
	assert_int_equal(
		stx_emit_llvm(jit.llvm, jit_parse(a, text), &t, 0, STX_EMIT_ASM, &out, NULL, &d),
		0);
	assert_int_equal(stx_bytes_put(&out, "", 1), 0);
	int found = strstr((const char *)out.at, word) != NULL;
	stx_bytes_free(&out);
	stx_arena_free(a);
	return found;
}

static void stream_text(char *out, size_t n, const char *dtype, const char *elems, int of_a_point)
{
	snprintf(out, n,
		 "kernel \"k\" poi bits 64 target cpu\nscalar s0 range 0 100000000 hint 8\n"
		 "param p0 %s read elems %s \"a\"\nparam p1 %s write elems %s \"b\"\n"
		 "axis x0 grid %s\naxis x1 vector %d\ngrain 1\nbegin\nloop x1\n"
		 "t0 = load %s p0[x1 + %d*x0]\nstore %s p1[x1 + %d*x0] t0\nend\nend\n",
		 dtype, elems, dtype, elems, "16", of_a_point, dtype, of_a_point, dtype,
		 of_a_point);
}

/* From 32 MiB read and written on, and only then. */
static void test_emit_large_results_are_written_past_the_caches(void **state)
{
	char text[700];
	static const char *const dtype[] = { "f32", "bf16", "f16", "u8" };
	static const char *const large[] = { "4194304", "8388608", "8388608", "16777216" };
	static const char *const small[] = { "4194303", "8388607", "8388607", "16777215" };
	(void)state;
	for (EACH_TARGET(t))
		for (int i = 0; i < 4; i++) {
			stream_text(text, sizeof text, dtype[i], large[i], 512);
			assert_true(assembly_has(*t, text, "movnt"));
			assert_true(assembly_has(*t, text, "sfence"));
			stream_text(text, sizeof text, dtype[i], small[i], 512);
			assert_false(assembly_has(*t, text, "movnt"));
			assert_false(assembly_has(*t, text, "sfence"));
		}
	stream_text(text, sizeof text, "f32", "s0", 512);
	for (EACH_TARGET(t)) /* dynamic sizes: when the run's is large */
		assert_true(assembly_has(*t, text, "movnt"));
}

/* A long body hides its stores, and a sum its few. */
static void test_emit_large_results_of_much_work_are_not(void **state)
{
	static const char head[] =
		"kernel \"k\" poi bits 64 target cpu\nparam p0 f32 read elems 16777216 \"a\"\n"
		"param p1 f32 write elems 16777216 \"b\"\naxis x0 grid 4096\naxis x1 vector 4096\n"
		"grain 1\nbegin\nloop x1\nt0 = load f32 p0[x1 + 4096*x0]\n";
	char text[4000];
	(void)state;
	for (int n = 8; n <= 60; n += 52) {
		size_t at = (size_t)snprintf(text, sizeof text, "%s", head);
		for (int i = 0; i < n; i++)
			at += (size_t)snprintf(text + at, sizeof text - at,
					       "t%d = mul f32 t%d t0\n", i + 1, i);
		snprintf(text + at, sizeof text - at, "store f32 p1[x1 + 4096*x0] t%d\nend\nend\n",
			 n);
		for (EACH_TARGET(t))
			assert_int_equal(assembly_has(*t, text, "movnt"),
					 n == 8 && (*t)[12] != '2');
	}
}

/* Wherever the result begins: stores past the caches want aligned addresses. */
static void test_emit_large_results_at_any_address_are_the_same_bytes(void **state)
{
	static uint8_t in[16 * 1111 * 4], room[16 * 1111 * 4 + 128];
	char text[700];
	(void)state;
	fill(in, sizeof in, 4);
	for (EACH_TARGET(t))
		for (int dynamic = 0; dynamic < 2; dynamic++) {
			int64_t size = 90000000; /* as if: only what the grid covers is touched */
			stream_text(text, sizeof text, "f32", dynamic ? "s0" : "90000000", 1111);
			for (int off = 0; off <= 64; off += 4) {
				memset(room, 0x55, sizeof room);
				jit_run(jit_kernel(*t, text), (void *[]){ in, room + off }, &size,
					0, 16);
				assert_memory_equal(room + off, in, sizeof in);
				assert_int_equal(room[off + sizeof in], 0x55);
				assert_true(!off || room[off - 1] == 0x55);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_tiles_across_equal_plain_copies),
		cmocka_unit_test(test_emit_strides_of_a_few_elements_equal_plain_loads),
		cmocka_unit_test(test_emit_strides_touch_no_element_of_a_lane_that_is_off),
		cmocka_unit_test(test_emit_groups_of_the_vector_axis_have_their_own_element),
		cmocka_unit_test(test_emit_large_results_are_written_past_the_caches),
		cmocka_unit_test(test_emit_large_results_of_much_work_are_not),
		cmocka_unit_test(test_emit_large_results_at_any_address_are_the_same_bytes),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
