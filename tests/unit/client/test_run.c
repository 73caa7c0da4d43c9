/* test_run.c: running plans: arguments are checked before any launch, sizes are evaluated, bounds
 * errors are named, contexts are shared between threads. Kernels are functions of this file. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

#include <cmocka.h>

#include "client.h"
#include "planbuild.h"

/* out[i] = in[i] + scalar */
static void add_scalar(const struct stx_kernel_frame *f, int64_t begin, int64_t end)
{
	const float *in = f->buffers[0];
	float *out = f->buffers[1];
	for (int64_t i = begin; i < end; i++)
		out[i] = in[i] + (float)f->scalars[0];
}

static void out_of_bounds(const struct stx_kernel_frame *f, int64_t begin, int64_t end)
{
	(void)end;
	int32_t none = 0;
	if (begin == 0 && __atomic_compare_exchange_n(&f->bounds->taken, &none, 1, 0,
						      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
		f->bounds->axis = 1;
		f->bounds->index = -1;
		f->bounds->bound = 4;
	}
}

static int launched; /* by the tests' single thread */
static void count_launch(const struct stx_kernel_frame *f, int64_t begin, int64_t end)
{
	(void)f;
	(void)begin;
	(void)end;
	launched++;
}

static struct stax_artifact *load(struct planbuild *b, stx_kernel_fn *const *fns)
{
	struct stx_bytes plan = pb_finish(b);
	struct stx_diag d = { 0 };
	struct stax_artifact *a = calloc(1, sizeof *a);
	a->fd = -1;
	a->arena = stx_arena_new(0);
	assert_int_equal(stx__artifact_prepare(a, (struct stx_span){ plan.at, plan.n }, NULL, &d),
			 0);
	a->fns = STX_NEW_ARRAY(a->arena, stx_kernel_fn *, a->plan.h->nkernels);
	for (uint32_t i = 0; i < a->plan.h->nkernels; i++)
		a->fns[i] = fns[i];
	stx_bytes_free(&plan);
	if (stx__artifact_finish(a, &d)) {
		stax_artifact_free(a);
		return NULL;
	}
	return a;
}

/* x[n] f32, n in [0, 1000] -> t = x + n (temporary) -> y = t + 1 */
static struct stax_artifact *chain(stx_kernel_fn *first, stx_kernel_fn *second)
{
	struct planbuild b = { 0 };
	uint32_t n = pb_sym(&b, pb_size(&b, "n", 0, 0, 0, 1000, 4));
	uint32_t one = pb_const(&b, 1), zero = pb_const(&b, 0),
		 bytes = pb_bin(&b, STX_X_MUL, n, pb_const(&b, 4));
	uint32_t x = pb_value(&b, STX_VALUE_INPUT, STX_F32, "x", 1, &n, &one, bytes, zero);
	uint32_t t = pb_value(&b, STX_VALUE_TEMP, STX_F32, "t", 1, &n, &one, bytes, zero);
	uint32_t y = pb_value(&b, STX_VALUE_OUTPUT, STX_F32, "y", 1, &n, &one, bytes, zero);
	uint32_t k0 = pb_kernel(&b, "poi_first_0", n, pb_const(&b, 64), 1, &n);
	uint32_t k1 = pb_kernel(&b, "poi_second_1", n, pb_const(&b, 64), 1, &one);
	pb_step(&b, STX_STEP_ALLOC, t, 0);
	pb_launch(&b, k0, 2, (uint32_t[]){ x, t });
	pb_launch(&b, k1, 2, (uint32_t[]){ t, y });
	pb_step(&b, STX_STEP_RELEASE, t, 0);
	b.workspace = bytes;
	return load(&b, (stx_kernel_fn *[]){ first, second });
}

static struct stx_tensor vector(float *data, int64_t n)
{
	return (struct stx_tensor){
		.data = data, .dtype = STX_F32, .rank = 1, .sizes = { n }, .strides = { 1 }
	};
}

static void test_run_dynamic_sizes_computed(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(add_scalar, add_scalar);
	struct stax_error err;
	static const int64_t sizes[] = { 4, 1000, 1, 0, 7, 7, 333 };
	for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
		float in[1000], out[1000];
		struct stx_tensor x = vector(in, sizes[s]), y = vector(out, sizes[s]);
		for (int i = 0; i < 1000; i++) {
			in[i] = (float)i;
			out[i] = -1;
		}
		assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, &err), 0);
		for (int64_t i = 0; i < 1000; i++)
			assert_true(out[i] == (i < sizes[s] ? (float)(i + sizes[s] + 1) : -1));
	}
	stax_artifact_free(a);
}

/* The one external call of CPU plans, "interpret", and the names of calls that nobody offers, or
 * only to a GPU. */
static void test_run_unknown_external_call_is_refused_by_name(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		int e;
	} calls[] = { { "interpret", 0 }, { "no.such.call", STX_E_UNSUPPORTED } };
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		struct planbuild b = { 0 };
		struct stx_diag d = { 0 };
		uint32_t x = pb_dense(&b, STX_VALUE_INPUT, STX_F32, "x", 1, (int64_t[]){ 8 }, 0);
		pb_extern(&b, calls[i].name, 1, &x, 0, NULL, STX_PLAN_NONE, STX_PLAN_NONE);
		b.workspace = pb_const(&b, 0);
		struct stx_bytes plan = pb_finish(&b);
		struct stax_artifact *a = calloc(1, sizeof *a);
		a->fd = -1;
		a->arena = stx_arena_new(0);
		assert_int_equal(
			stx__artifact_prepare(a, (struct stx_span){ plan.at, plan.n }, NULL, &d),
			calls[i].e);
		if (calls[i].e)
			assert_non_null(strstr(d.text, calls[i].name));
		stx_bytes_free(&plan);
		stax_artifact_free(a);
	}
}

static void test_run_query_gives_shapes(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(add_scalar, add_scalar);
	struct stx_tensor x = vector(NULL, 9), y;
	size_t workspace;
	const char *name;
	assert_int_equal(stax_query(a, &x, 1, &y, &workspace, NULL), 0);
	assert_int_equal(y.sizes[0], 9);
	assert_int_equal(y.dtype, STX_F32);
	assert_int_equal(workspace, 36);
	assert_int_equal(stax_input(a, 0, &x, &name), 0);
	assert_int_equal(x.sizes[0], 4); /* at the hint */
	assert_string_equal(name, "x");
	assert_int_equal(stax_input(a, 1, &x, &name), STX_E_USAGE);
	stax_artifact_free(a);
}

static void test_run_mismatch_named_before_launch(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(count_launch, count_launch);
	struct stax_error err;
	float in[2000], out[2000];
	struct stx_tensor x = vector(in, 8), y = vector(out, 8), bad;
	launched = 0;
	bad = x;
	bad.dtype = STX_F64;
	assert_int_equal(stax_run(a, &bad, 1, &y, 1, NULL, &err), STX_E_MISMATCH);
	assert_string_equal(err.node, "x");
	assert_non_null(strstr(err.text, "f64"));
	bad = x;
	bad.rank = 2;
	assert_int_equal(stax_run(a, &bad, 1, &y, 1, NULL, &err), STX_E_MISMATCH);
	bad = x;
	bad.strides[0] = 2;
	assert_int_equal(stax_run(a, &bad, 1, &y, 1, NULL, &err), STX_E_MISMATCH);
	assert_non_null(strstr(err.text, "strides"));
	bad = vector(in, 1001); /* outside the symbol's range */
	assert_int_equal(stax_run(a, &bad, 1, &y, 1, NULL, &err), STX_E_MISMATCH);
	assert_non_null(strstr(err.text, "1001"));
	bad = x;
	bad.data = (char *)in + 1;
	assert_int_equal(stax_run(a, &bad, 1, &y, 1, NULL, &err), STX_E_MISMATCH);
	assert_non_null(strstr(err.text, "aligned"));
	bad = y;
	bad.sizes[0] = 9;
	assert_int_equal(stax_run(a, &x, 1, &bad, 1, NULL, &err), STX_E_MISMATCH);
	assert_string_equal(err.node, "y");
	assert_int_equal(stax_run(a, &x, 0, &y, 1, NULL, &err), STX_E_MISMATCH);
	assert_int_equal(stax_run(a, &x, 1, &y, 2, NULL, &err), STX_E_MISMATCH);
	bad = x;
	bad.data = NULL;
	assert_int_equal(stax_run(a, &bad, 1, &y, 1, NULL, &err), STX_E_USAGE);
	assert_int_equal(launched, 0);
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, &err), 0);
	assert_int_equal(launched, 2);
	stax_artifact_free(a);
}

static void test_run_stride_of_size_one_ignored(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(add_scalar, add_scalar);
	float in = 1, out = 0;
	struct stx_tensor x = vector(&in, 1), y = vector(&out, 1);
	x.strides[0] = 77;
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, NULL), 0);
	assert_true(out == 3);
	stax_artifact_free(a);
}

static void test_run_bounds_error_names_kernel(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(out_of_bounds, count_launch);
	struct stax_error err;
	float in[8] = { 0 }, out[8];
	struct stx_tensor x = vector(in, 8), y = vector(out, 8);
	launched = 0;
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, &err), STX_E_BOUNDS);
	assert_string_equal(err.node, "poi_first_0");
	assert_non_null(strstr(err.text, "axis 1: index out of bounds: 0 <= -1 < 4"));
	assert_int_equal(launched, 0); /* nothing runs on garbage */
	stax_artifact_free(a);
}

static void test_run_strided_output_written(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(add_scalar, add_scalar);
	float in[4] = { 0, 1, 2, 3 }, out[9];
	struct stx_tensor x = vector(in, 4), y = vector(out, 4);
	for (int i = 0; i < 9; i++)
		out[i] = -1;
	y.offset = 7;
	y.strides[0] = -2;
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, NULL), 0);
	static const float want[9] = { -1, 8, -1, 7, -1, 6, -1, 5, -1 };
	assert_memory_equal(out, want, sizeof want);
	stax_artifact_free(a);
}

/* Offsets and strides that lead around the address space, or whose bytes are no number. */
static void test_run_offsets_and_strides_beyond_numbers_refused(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(count_launch, count_launch);
	float in[4] = { 0 }, out[4];
	struct stax_error err;
	static const int64_t offsets[] = { INT64_MAX, INT64_MIN, INT64_MAX / 4, INT64_MAX / 2 + 1,
					   -(INT64_MAX / 4) };
	static const int64_t strides[] = { INT64_MAX, INT64_MIN, INT64_MAX / 4, INT64_MAX / 16 };
	launched = 0;
	for (unsigned i = 0; i < sizeof offsets / sizeof *offsets; i++) {
		struct stx_tensor x = vector(in, 4), y = vector(out, 4);
		x.offset = offsets[i];
		int e = stax_run(a, &x, 1, &y, 1, NULL, &err);
		assert_true(e == STX_E_USAGE || e == STX_E_MISMATCH);
		x.offset = 0;
		y.offset = offsets[i];
		e = stax_run(a, &x, 1, &y, 1, NULL, &err);
		assert_true(e == STX_E_USAGE || e == STX_E_MISMATCH);
	}
	for (unsigned i = 0; i < sizeof strides / sizeof *strides; i++) {
		struct stx_tensor x = vector(in, 4), y = vector(out, 4);
		y.strides[0] = strides[i];
		assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, &err), STX_E_USAGE);
		assert_non_null(strstr(err.text, "address space"));
	}
	assert_int_equal(launched, 0);
	/* Where nothing or one element is reached they mean nothing. */
	struct stx_tensor x = vector(in, 0), y = vector(out, 0);
	x.offset = y.offset = INT64_MAX;
	x.strides[0] = y.strides[0] = INT64_MIN;
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, &err), 0);
	x = vector(in, 1);
	y = vector(out, 1);
	x.strides[0] = y.strides[0] = INT64_MAX;
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, &err), 0);
	stax_artifact_free(a);
}

static void check_mxcsr(const struct stx_kernel_frame *f, int64_t begin, int64_t end)
{
	(void)begin;
	(void)end;
	*(unsigned *)f->buffers[1] = _mm_getcsr();
}

static void test_run_mxcsr_set_and_restored(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(add_scalar, check_mxcsr);
	float in[1] = { 0 }, out[1];
	unsigned seen;
	struct stx_tensor x = vector(in, 1), y = vector(out, 1);
	unsigned before = _mm_getcsr();
	_mm_setcsr(before |
		   0x8040); /* flush to zero, denormals are zero: as fast-math libraries set them */
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, NULL), 0);
	unsigned after = _mm_getcsr();
	_mm_setcsr(before);
	memcpy(&seen, out, sizeof seen);
	assert_int_equal(seen & 0x8040, 0);
	assert_int_equal(after & 0x8040, 0x8040);
	stax_artifact_free(a);
}

/* ---- views, copies, constants ---- */

/* y = x transposed (a view), z = copy of x transposed, c = constant */
static struct stax_artifact *views(void)
{
	struct planbuild b = { 0 };
	uint32_t x = pb_dense(&b, STX_VALUE_INPUT, STX_I16, "x", 2, (int64_t[]){ 2, 3 }, 0);
	uint32_t two = pb_const(&b, 2), three = pb_const(&b, 3), one = pb_const(&b, 1),
		 zero = pb_const(&b, 0);
	uint32_t twelve = pb_const(&b, 12);
	pb_value(&b, STX_VALUE_ALIAS, STX_I16, "y", 2, (uint32_t[]){ three, two },
		 (uint32_t[]){ one, three }, twelve, zero);
	uint32_t z = pb_dense(&b, STX_VALUE_OUTPUT, STX_I16, "z", 2, (int64_t[]){ 2, 3 }, 0);
	uint32_t w = pb_dense(&b, STX_VALUE_OUTPUT, STX_I16, "w", 1, (int64_t[]){ 3 }, 0);
	uint32_t c = pb_dense(&b, STX_VALUE_CONST, STX_I16, "c", 1, (int64_t[]){ 3 }, 0);
	stx_bytes_put(&b.data, (int16_t[]){ 40, 41, 42 }, 6);
	pb_step(&b, STX_STEP_COPY, x, z);
	pb_step(&b, STX_STEP_COPY, c, w);
	b.workspace = zero;
	return load(&b, NULL);
}

static void test_run_alias_copy_and_constant(void **state)
{
	(void)state;
	struct stax_artifact *a = views();
	int16_t in[6] = { 1, 2, 3, 4, 5, 6 }, y[6], z[6], w[3];
	struct stx_tensor x = {
		.data = in, .dtype = STX_I16, .rank = 2, .sizes = { 2, 3 }, .strides = { 3, 1 }
	};
	struct stx_tensor out[3] = {
		{ .dtype = STX_I16, .rank = 2, .sizes = { 3, 2 } },
		{ .data = z, .dtype = STX_I16, .rank = 2, .sizes = { 2, 3 }, .strides = { 3, 1 } },
		{ .data = w, .dtype = STX_I16, .rank = 1, .sizes = { 3 }, .strides = { 1 } },
	};
	assert_int_equal(stax_run(a, &x, 1, out, 3, NULL, NULL), 0);
	assert_ptr_equal(out[0].data, in); /* a view is described */
	assert_int_equal(out[0].strides[0], 1);
	assert_int_equal(out[0].strides[1], 3);
	assert_memory_equal(z, in, sizeof in);
	assert_int_equal(w[2], 42);
	out[0] = (struct stx_tensor){
		.data = y, .dtype = STX_I16, .rank = 2, .sizes = { 3, 2 }, .strides = { 2, 1 }
	};
	assert_int_equal(stax_run(a, &x, 1, out, 3, NULL, NULL), 0);
	assert_memory_equal(y, ((int16_t[]){ 1, 4, 2, 5, 3, 6 }), sizeof y); /* or copied */
	out[0].offset = INT64_MAX / 2;
	assert_int_equal(stax_run(a, &x, 1, out, 3, NULL, NULL), STX_E_USAGE);
	stax_artifact_free(a);
}

/* ---- plans that contradict themselves ---- */

static void test_run_temporary_outside_workspace_refused(void **state)
{
	(void)state;
	struct planbuild b = { 0 };
	uint32_t t = pb_dense(&b, STX_VALUE_TEMP, STX_F32, "t", 1, (int64_t[]){ 8 }, 32);
	pb_step(&b, STX_STEP_ALLOC, t, 0);
	b.workspace = pb_const(&b, 63);
	assert_null(load(&b, NULL));
}

static void test_run_value_beyond_its_storage_refused(void **state)
{
	(void)state;
	struct planbuild b = { 0 };
	uint32_t four = pb_const(&b, 4), one = pb_const(&b, 1);
	pb_value(&b, STX_VALUE_OUTPUT, STX_F32, "y", 1, &four, &four, pb_const(&b, 51),
		 one); /* needs 52 */
	b.workspace = pb_const(&b, 0);
	assert_null(load(&b, NULL));
	struct planbuild c = { 0 };
	uint32_t huge = pb_const(&c, INT64_MAX);
	pb_value(&c, STX_VALUE_OUTPUT, STX_F32, "y", 1, &huge, &huge, pb_const(&c, 52), huge);
	c.workspace = pb_const(&c, 0);
	assert_null(load(&c, NULL));
}

static void test_run_failed_guard_is_mismatch(void **state)
{
	(void)state;
	struct planbuild b = { 0 };
	uint32_t n = pb_sym(&b, pb_size(&b, "n", 0, 0, 0, 100, 8));
	uint32_t one = pb_const(&b, 1);
	pb_value(&b, STX_VALUE_INPUT, STX_U8, "x", 1, &n, &one, n, one);
	pb_guard(&b,
		 pb_bin(&b, STX_X_EQ, pb_bin(&b, STX_X_MOD, n, pb_const(&b, 8)), pb_const(&b, 0)));
	b.workspace = pb_const(&b, 0);
	struct stax_artifact *a = load(&b, NULL);
	struct stx_tensor x = { .data = "0123456789abcdef",
				.dtype = STX_U8,
				.rank = 1,
				.sizes = { 16 },
				.strides = { 1 } };
	struct stax_error err;
	assert_non_null(a);
	assert_int_equal(stax_run(a, &x, 1, NULL, 0, NULL, &err), 0);
	x.sizes[0] = 12;
	assert_int_equal(stax_run(a, &x, 1, NULL, 0, NULL, &err), STX_E_MISMATCH);
	assert_non_null(strstr(err.text, "guard"));
	x.sizes[0] = 8; /* the failed binding leaves nothing behind */
	assert_int_equal(stax_run(a, &x, 1, NULL, 0, NULL, &err), 0);
	stax_artifact_free(a);
}

/* ---- the caller's environment and threads ---- */

struct env {
	int loops, allocated, released;
};
static void env_for(void *ctx, int64_t n, int64_t grain, void (*body)(void *, int64_t, int64_t),
		    void *arg)
{
	((struct env *)ctx)->loops++;
	for (int64_t i = 0; i < n; i += grain)
		body(arg, i, i + grain < n ? i + grain : n);
}
static void *env_allocate(void *ctx, size_t bytes, size_t align)
{
	((struct env *)ctx)->allocated++;
	return aligned_alloc(align, (bytes + align) / align * align);
}
static void env_release(void *ctx, void *p, size_t bytes)
{
	(void)bytes;
	((struct env *)ctx)->released++;
	free(p);
}

static void test_run_environment_used(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(add_scalar, add_scalar);
	struct env e = { 0 };
	struct stx_env env = { &e, env_for, env_allocate, env_release, NULL };
	float in[1000] = { 0 }, out[1000];
	struct stx_tensor x = vector(in, 1000), y = vector(out, 1000);
	assert_int_equal(stax_run(a, &x, 1, &y, 1, &env, NULL), 0);
	assert_int_equal(e.loops, 2);
	assert_int_equal(e.allocated, 1);
	assert_int_equal(e.released, 1);
	assert_true(out[999] == 1001);
	assert_int_equal(stax_run(a, &x, 1, &y, 1, NULL, NULL), 0); /* and not kept */
	assert_int_equal(e.allocated, 1);
	stax_artifact_free(a);
}

static void *run_many(void *arg)
{
	struct stax_artifact *a = arg;
	float in[1000], out[1000];
	long bad = 0;
	for (int r = 0; r < 500; r++) {
		int64_t n = 1 + (r * 37 + (int64_t)(uintptr_t)&in / 64) % 1000;
		struct stx_tensor x = vector(in, n), y = vector(out, n);
		for (int64_t i = 0; i < n; i++)
			in[i] = (float)(i + r);
		bad += stax_run(a, &x, 1, &y, 1, NULL, NULL) != 0;
		for (int64_t i = 0; i < n; i++)
			bad += out[i] != (float)(i + r + n + 1);
	}
	return (void *)bad;
}

static void test_run_from_several_threads_independent(void **state)
{
	(void)state;
	struct stax_artifact *a = chain(add_scalar, add_scalar);
	pthread_t t[6];
	setenv("STAX_THREADS", "3", 1);
	for (int i = 0; i < 6; i++)
		assert_int_equal(pthread_create(&t[i], NULL, run_many, a), 0);
	for (int i = 0; i < 6; i++) {
		void *bad;
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
	stax_artifact_free(a);
}

/* ---- inputs that are written share memory with nothing else ---- */

static void leave_alone(const struct stx_kernel_frame *f, int64_t begin, int64_t end)
{
	(void)f;
	(void)begin;
	(void)end;
}

/* w [4,3] f32 with the given strides is written; r [4,3] of the same strides; y [2]. */
static struct stax_artifact *written(int64_t row, int64_t col)
{
	static stx_kernel_fn *const fns[] = { leave_alone };
	struct planbuild b;
	memset(&b, 0, sizeof b);
	uint32_t sizes[2] = { pb_const(&b, 4), pb_const(&b, 3) };
	uint32_t strides[2] = { pb_const(&b, row), pb_const(&b, col) };
	uint32_t bytes = pb_const(&b, 4096);
	uint32_t w = pb_value(&b, STX_VALUE_INPUT, STX_F32, "w", 2, sizes, strides, bytes, 0);
	uint32_t r = pb_value(&b, STX_VALUE_INPUT, STX_F32, "r", 2, sizes, strides, bytes, 0);
	uint32_t y = pb_dense(&b, STX_VALUE_OUTPUT, STX_F32, "y", 1, (int64_t[]){ 2 }, 0);
	uint32_t k = pb_kernel(&b, "k", pb_const(&b, 1), pb_const(&b, 1), 0, NULL);
	pb_flags(&b, w, STX_TENSOR_MUTATED);
	pb_launch(&b, k, 3, (uint32_t[]){ w, r, y });
	return load(&b, fns);
}

static int run_at(struct stax_artifact *a, int64_t row, int64_t col, float *w, float *r, float *y,
		  struct stax_error *err)
{
	struct stx_tensor t = {
		.data = w, .dtype = STX_F32, .rank = 2, .sizes = { 4, 3 }, .strides = { row, col }
	};
	struct stx_tensor in[2] = { t, t };
	struct stx_tensor out = {
		.data = y, .dtype = STX_F32, .rank = 1, .sizes = { 2 }, .strides = { 1 }
	};
	in[1].data = r;
	memset(err, 0, sizeof *err);
	return stax_run(a, in, 2, &out, 1, NULL, err);
}

static void test_run_written_input_that_shares_memory_is_refused(void **state)
{
	(void)state;
	static float m[256];
	struct stax_error e;
	struct stax_artifact *a = written(3, 1);
	for (int twice = 0; twice < 2; twice++) {
		assert_int_equal(run_at(a, 3, 1, m, m + 12, m + 24, &e), 0);
		assert_int_equal(run_at(a, 3, 1, m + 14, m + 2, m, &e), 0); /* touching */
		assert_int_equal(run_at(a, 3, 1, m, m, m + 24, &e), STX_E_MISMATCH);
		assert_non_null(strstr(e.text, "'w'"));
		assert_non_null(strstr(e.text, "input 'r'"));
		assert_int_equal(run_at(a, 3, 1, m, m + 11, m + 24, &e), STX_E_MISMATCH);
		assert_int_equal(run_at(a, 3, 1, m + 11, m, m + 24, &e), STX_E_MISMATCH);
		assert_int_equal(run_at(a, 3, 1, m, m + 12, m + 10, &e), STX_E_MISMATCH);
		assert_non_null(strstr(e.text, "output 'y'"));
		/* Two that are not written may. */
		assert_int_equal(run_at(a, 3, 1, m, m + 12, m + 13, &e), 0);
	}
	stax_artifact_free(a);
}

static void test_run_written_input_may_interleave(void **state)
{
	(void)state;
	static float m[256];
	struct stax_error e;
	struct stax_artifact *a = written(12, 2);
	assert_int_equal(run_at(a, 12, 2, m, m + 1, m + 100, &e), 0); /* odd columns */
	assert_int_equal(run_at(a, 12, 2, m, m + 6, m + 100, &e), 0); /* the other half of rows */
	assert_int_equal(run_at(a, 12, 2, m + 7, m, m + 8, &e), STX_E_MISMATCH);
	assert_int_equal(run_at(a, 12, 2, m, m + 4, m + 100, &e), STX_E_MISMATCH);
	assert_int_equal(run_at(a, 12, 2, m, m + 5, m + 6, &e), 0); /* the output in a gap */
	stax_artifact_free(a);
	a = written(-12, 2); /* backwards */
	assert_int_equal(run_at(a, -12, 2, m + 36, m + 37, m + 100, &e), 0);
	assert_int_equal(run_at(a, -12, 2, m + 36, m + 48, m + 100, &e), STX_E_MISMATCH);
	stax_artifact_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_run_dynamic_sizes_computed),
		cmocka_unit_test(test_run_unknown_external_call_is_refused_by_name),
		cmocka_unit_test(test_run_query_gives_shapes),
		cmocka_unit_test(test_run_mismatch_named_before_launch),
		cmocka_unit_test(test_run_stride_of_size_one_ignored),
		cmocka_unit_test(test_run_bounds_error_names_kernel),
		cmocka_unit_test(test_run_strided_output_written),
		cmocka_unit_test(test_run_offsets_and_strides_beyond_numbers_refused),
		cmocka_unit_test(test_run_mxcsr_set_and_restored),
		cmocka_unit_test(test_run_alias_copy_and_constant),
		cmocka_unit_test(test_run_temporary_outside_workspace_refused),
		cmocka_unit_test(test_run_value_beyond_its_storage_refused),
		cmocka_unit_test(test_run_failed_guard_is_mismatch),
		cmocka_unit_test(test_run_environment_used),
		cmocka_unit_test(test_run_written_input_that_shares_memory_is_refused),
		cmocka_unit_test(test_run_written_input_may_interleave),
		cmocka_unit_test(test_run_from_several_threads_independent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
