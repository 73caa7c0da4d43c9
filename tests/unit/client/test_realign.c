/* test_realign.c: arguments of GPU artifacts that lie at no multiple of STX_GPU_ALIGN, on a driver
 * that runs kernel IR on the host and on which this file looks at what each launch is given. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "call_case.h"

enum { ROWS = 12, COLS = 20, ALL = ROWS * COLS };

static int astray; /* arguments so far that began at no multiple */

static int look(const struct fake_launch *l)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_kernel *k;
	assert_int_equal(stx_kernel_parse(a, l->image, strlen(l->image), &k, NULL), 0);
	for (uint32_t i = 0; i < k->params.n; i++)
		astray += *(uintptr_t *)l->params[i] % STX_GPU_ALIGN != 0;
	stx_arena_free(a);
	return evaluate(l);
}

static int setup(void **state)
{
	void (*on_launch)(int (*fn)(const struct fake_launch *l));
	calls_setup(state);
	*(void **)&on_launch = dlsym(fake("libcuda.so.1"), "fake_cuda_on_launch");
	on_launch(look);
	astray = 0;
	return 0;
}

/* A matrix of f32 in memory that begins at a multiple, from element `offset` on. */
struct matrix {
	_Alignas(64) float at[4 * ALL + 64];
	struct stx_tensor t;
};

static void matrix(struct matrix *m, int64_t offset, int64_t s0, int64_t s1)
{
	for (int i = 0; i < 4 * ALL + 64; i++)
		m->at[i] = (float)i;
	m->t = (struct stx_tensor){ .data = m->at,
				    .dtype = STX_F32,
				    .rank = 2,
				    .offset = offset,
				    .sizes = { ROWS, COLS },
				    .strides = { s0, s1 } };
}

static float *element(struct matrix *m, int i, int j)
{
	return m->at + m->t.offset + i * m->t.strides[0] + j * m->t.strides[1];
}

static void run_all(struct compiled *c, struct stx_tensor *in, int n, struct stx_tensor *out,
		    int nout)
{
	struct stax_error err;
	if (stax_run(c->artifact, in, n, out, nout, NULL, &err))
		fail_msg("%s", err.text);
}

/* Inputs and outputs anywhere: kernels are given multiples, results are those of the arguments, and
 * what is not an element of an output stays. Arguments that are in place are taken as they are. */
static void test_realign_arguments_anywhere_give_the_same(void **state)
{
	static const char graph[] = "%x : f32[12,20] = placeholder()\n"
				    "%y : f32[12,20] = placeholder()\n"
				    "%a = sub.Tensor(%x, %y)\nreturn (%a,)\n";
	static struct matrix x, y, a;
	struct compiled c;
	(void)state;
	build(graph, &c);
	for (int where = 0; where < 64; where++) {
		matrix(&x, where % 4, COLS, 1);
		matrix(&y, 8 + where / 4 % 4, COLS, 1);
		matrix(&a, 4 + where / 16, where % 2 ? COLS : 31, 1);
		struct stx_tensor in[2] = { x.t, y.t };
		uint64_t allocs = cuda->allocs;
		run_all(&c, in, 2, &a.t, 1);
		for (int i = 0, e = 0; i < 4 * ALL + 64; i++) {
			int r = e / COLS, k = e % COLS,
			    is_one = e < ALL && &a.at[i] == element(&a, r, k);
			float want = is_one ? *element(&x, r, k) - *element(&y, r, k) : (float)i;
			assert_true(a.at[i] == want);
			e += is_one;
		}
		if (where > 0 && where < 16 && where % 2)
			assert_int_equal(cuda->allocs - allocs,
					 (where % 4 != 0) + (where / 4 != 0));
	}
	assert_int_equal(astray, 0);
	compiled_free(&c);
	assert_int_equal(cuda->allocs, cuda->frees);
}

/* An input that is written, and whose elements are apart, holds what the program leaves in it; what
 * lies between them stays; the output that is a view of it is one of the caller's memory. */
static void test_realign_written_input_is_copied_back(void **state)
{
	static const char *const graphs[2] = {
		"%x : f32[12,20] = placeholder(strides=[31,1])\n%y : f32[12,20] = placeholder()\n"
		"%a = add_.Tensor(%x, %y)\n%n = neg.default(%a)\nreturn (%n,)\n",
		"%x : f32[12,20] = placeholder(strides=[1,12])\n%y : f32[12,20] = placeholder()\n"
		"%a = add_.Tensor(%x, %y)\n%n = neg.default(%a)\nreturn (%n,)\n",
	};
	static struct matrix x, y, n;
	(void)state;
	for (int g = 0; g < 2; g++) {
		struct compiled c;
		build(graphs[g], &c);
		matrix(&x, 3, g ? 1 : 31, g ? 12 : 1);
		matrix(&y, 1, COLS, 1);
		matrix(&n, 2, COLS, 1);
		struct stx_tensor in[2] = { x.t, y.t }, out[2] = { n.t, x.t };
		out[1].data = NULL;
		run_all(&c, in, 2, out, 2);
		assert_ptr_equal(out[1].data, element(&x, 0, 0));
		for (int i = 0; i < 4 * ALL + 64; i++) {
			int e = i - 3, r = g ? e % 12 : e / 31, k = g ? e / 12 : e % 31;
			int is_one = e >= 0 && r < ROWS && k < COLS;
			float add = is_one ? *element(&y, r, k) : 0;
			assert_true(x.at[i] == (float)i + add);
			if (is_one)
				assert_true(*element(&n, r, k) == -x.at[i]);
		}
		compiled_free(&c);
	}
	assert_int_equal(astray, 0);
	assert_int_equal(cuda->allocs, cuda->frees);
}

/* The written input and the other are columns of one matrix, either of them astray: each is moved by
 * itself, and what is copied back is elements, not what lies between. Where they share one, the run
 * is refused before anything is written, and what was moved is freed. */
static void test_realign_views_of_one_matrix(void **state)
{
	static const char graph[] = "%x : f32[12,20] = placeholder(strides=[44,1])\n"
				    "%y : f32[12,20] = placeholder(strides=[44,1])\n"
				    "%a = add_.Tensor(%x, %y)\nreturn ()\n";
	static const int64_t offsets[][2] = {
		{ 0, 21 }, { 1, 24 }, { 21, 0 }, { 22, 1 }, { 0, 19 }
	};
	static struct matrix m;
	struct compiled c;
	struct stax_error err;
	uint64_t held = 0;
	(void)state;
	build(graph, &c);
	for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
		int64_t of_x = offsets[i][0], of_y = offsets[i][1];
		matrix(&m, of_x, 44, 1);
		struct stx_tensor in[2] = { m.t, m.t }, out[1] = { m.t };
		in[1].offset = of_y;
		out[0].data = NULL;
		int e = stax_run(c.artifact, in, 2, out, 1, NULL, &err);
		int64_t apart = of_y - of_x, shares = apart > -20 && apart < 20;
		assert_int_equal(e, shares ? STX_E_MISMATCH : 0);
		held = i ? held : cuda->allocs - cuda->frees; /* the artifact's own */
		assert_int_equal(cuda->allocs - cuda->frees, held);
		for (int64_t j = 0; j < 4 * ALL + 64; j++) {
			int64_t r = (j - of_x) / 44, k = j - of_x - r * 44;
			int is_x = !shares && j >= of_x && r < ROWS && k < COLS;
			assert_true(m.at[j] == (float)(is_x ? j + j + apart : j));
		}
	}
	assert_int_equal(astray, 0);
	compiled_free(&c);
	assert_int_equal(cuda->allocs, cuda->frees);
}

/* Outputs of any strides and width of elements, through few calls of the driver: one, or one a
 * piece where pieces are few or the driver translates no PTX. What is no element stays. */
static void test_realign_outputs_of_any_strides_take_few_calls(void **state)
{
	static const char *const types[] = { "i8", "bf16", "f32", "f64" };
	static const struct {
		int64_t offset, s0, s1;
		unsigned pieces;
	} to[] = { { 0, COLS, 1, 0 },    { 3, 1, ROWS, ALL },   { 0, 44, 2, ALL },
		   { 1, 3, 40, ALL },    { 220, -COLS, 1, 12 }, { 19, COLS, -1, ALL },
		   { 490, -40, -2, ALL } };
	_Alignas(64) static uint8_t in[8 * ALL], made[8 * 1000], want[8 * ALL];
	(void)state;
	for (unsigned i = 0; i < 2 * 4 * sizeof to / sizeof *to; i++) {
		unsigned v = i / 8, type = i % 4, bytes = 1u << type;
		char text[128];
		struct compiled c;
		snprintf(text, sizeof text,
			 "%%x : %s[12,20] = placeholder()\n%%a = neg.default(%%x)\n"
			 "return (%%a,)\n",
			 types[type]);
		build(text, &c);
		for (unsigned j = 0; j < sizeof in; j++)
			in[j] = (uint8_t)(j * 7 + j / 256) & 0x3f;
		memset(made, 0x77, sizeof made);
		struct stx_tensor x = { .data = in,
					.rank = 2,
					.sizes = { ROWS, COLS },
					.strides = { COLS, 1 } },
				  a = x;
		x.dtype = a.dtype = stx_dtype_parse(types[type], (int)strlen(types[type]));
		a.data = want;
		run_all(&c, &x, 1, &a, 1);
		a = (struct stx_tensor){ .data = made,
					 .dtype = x.dtype,
					 .rank = 2,
					 .offset = to[v].offset,
					 .sizes = { ROWS, COLS },
					 .strides = { to[v].s0, to[v].s1 } };
		cuda->no_translator = i % 8 >= 4;
		uint64_t copies = cuda->copies, launches = cuda->launches;
		run_all(&c, &x, 1, &a, 1);
		unsigned one = to[v].pieces > 32 && !cuda->no_translator;
		assert_int_equal(cuda->copies - copies, one ? 0 : to[v].pieces);
		assert_int_equal(cuda->launches - launches, 1 + one);
		cuda->no_translator = 0;
		unsigned others = 0;
		for (int64_t r = 0; r < ROWS; r++)
			for (int64_t k = 0; k < COLS; k++) {
				int64_t at = to[v].offset + r * to[v].s0 + k * to[v].s1;
				assert_memory_equal(made + at * bytes,
						    want + (r * COLS + k) * bytes, bytes);
				memset(made + at * bytes, 0x77, bytes);
			}
		for (unsigned j = 0; j < sizeof made; j++)
			others += made[j] != 0x77;
		assert_int_equal(others, 0);
		compiled_free(&c);
	}
	assert_int_equal(cuda->allocs, cuda->frees);
}

/* No elements: there is nothing to move, wherever they would be. */
static void test_realign_no_elements_stay(void **state)
{
	static const char graph[] = "%x : f32[0,20] = placeholder()\n%y : f32[20] = placeholder()\n"
				    "%s = sum.dim_IntList(%x, [0])\n%a = add.Tensor(%s, %y)\n"
				    "return (%a,)\n";
	static struct matrix x, y, a;
	struct compiled c;
	(void)state;
	build(graph, &c);
	matrix(&x, 1, COLS, 1);
	matrix(&y, 0, 1, 0);
	matrix(&a, 0, 1, 0);
	x.t.sizes[0] = 0;
	y.t.rank = a.t.rank = 1;
	y.t.sizes[0] = a.t.sizes[0] = COLS;
	struct stx_tensor in[2] = { x.t, y.t };
	run_all(&c, in, 2, &a.t, 1);
	uint64_t allocs = cuda->allocs;
	in[0].data = NULL;
	run_all(&c, in, 2, &a.t, 1);
	assert_int_equal(cuda->allocs, allocs);
	assert_true(a.at[11] == 11);
	compiled_free(&c);
	assert_int_equal(cuda->allocs, cuda->frees);
}

/* A single element is taken from anywhere. No memory for what must be moved: an error that says why,
 * nothing is launched, and the next run is as any. */
static void test_realign_without_memory_is_named(void **state)
{
	static const char graph[] = "%x : f32[12,20] = placeholder()\n%s : f32[] = placeholder()\n"
				    "%a = mul.Tensor(%x, %s)\nreturn (%a,)\n";
	static struct matrix x, a;
	struct compiled c;
	struct stax_error err;
	(void)state;
	build(graph, &c);
	matrix(&x, 0, COLS, 1);
	matrix(&a, 0, COLS, 1);
	struct stx_tensor in[2] = { x.t, { .data = x.at + 7, .dtype = STX_F32 } };
	uint64_t allocs = cuda->allocs;
	run_all(&c, in, 2, &a.t, 1);
	assert_int_equal(cuda->allocs, allocs);
	assert_true(a.at[11] == 77);
	in[0].offset = 1;
	uint64_t launches = cuda->launches;
	cuda->memory_limit = 100;
	assert_int_equal(stax_run(c.artifact, in, 2, &a.t, 1, NULL, &err), STX_E_NOMEM);
	cuda->memory_limit = 0;
	assert_string_equal(err.node, "primals_1");
	assert_non_null(strstr(err.text, "multiple of 16 bytes"));
	assert_int_equal(cuda->launches, launches);
	run_all(&c, in, 2, &a.t, 1);
	assert_true(a.at[11] == 84);
	compiled_free(&c);
	assert_int_equal(cuda->allocs, cuda->frees);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_realign_arguments_anywhere_give_the_same),
		cmocka_unit_test(test_realign_written_input_is_copied_back),
		cmocka_unit_test(test_realign_outputs_of_any_strides_take_few_calls),
		cmocka_unit_test(test_realign_views_of_one_matrix),
		cmocka_unit_test(test_realign_no_elements_stay),
		cmocka_unit_test(test_realign_without_memory_is_named),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
