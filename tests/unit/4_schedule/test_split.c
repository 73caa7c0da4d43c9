/* test_split.c: long reductions cut in segments: Algorithm 6.1, the two layers, the same bits as
 * whole (RD-05, RD-13 to RD-28). */
#include "from_text.h"
#include "schedule_impl.h"
#include "split.h"

static const struct stx_device h100 = STX_DEVICE_DEFAULT;

/* ---- Algorithm 6.1 ---- */

static void test_split_factor_follows_algorithm_6_1(void **state)
{
	(void)state;
	static const struct {
		int64_t n, n_r, k;
	} vectors[] = {
		{ 8448, 1 << 20, 1 }, /* RD-14: n >= 2*32*S */
		{ 264, 1 << 20, 1 },
		{ 263, 1 << 20, 8 }, /* RD-17: n >= 2S */
		{ 64, 8192, 1 },
		{ 64, 8193, 2 },  /* RD-18 */
		{ 64, 16384, 2 }, /* RD-22, RD-23 */
		{ 1, 1 << 20, 128 },
		{ 1, 1 << 23, 1024 }, /* RD-19, RD-24: s = 32 */
		{ 128, 65536, 8 },    /* RD-24 */
		{ 1, 1 << 24, 512 },
		{ 64, 1 << 18, 8 }, /* RD-20: s = 128 */
		{ 1, (int64_t)1 << 28, 2048 },
		{ 64, 1 << 22, 32 }, /* RD-21: s = 512 */
	};
	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
		if (stx__split_factor(vectors[i].n, vectors[i].n_r, &h100) != vectors[i].k)
			fail_msg("n %lld n_r %lld: %lld segments, not %lld",
				 (long long)vectors[i].n, (long long)vectors[i].n_r,
				 (long long)stx__split_factor(vectors[i].n, vectors[i].n_r, &h100),
				 (long long)vectors[i].k);
}

/* RD-16: D_min = 8 650 752 and D_max = 138 412 032 elements part the branches, m = 256 threads. */
static void test_split_factor_changes_branch_at_the_devices_limits(void **state)
{
	(void)state;
	const int64_t d_min = 8650752, d_max = 138412032;
	assert_int_equal(d_min, (int64_t)h100.warp * h100.sms * h100.threads_per_sm);
	assert_int_equal(d_max, (int64_t)512 * h100.sms * h100.threads_per_sm);
	assert_int_equal(stx__split_factor(1, d_min, &h100), d_min / (32 * 256));
	/* above it: target ceil(n_r / (256 * 528)) = 65, next to it the divisor 64 */
	assert_int_equal(stx__split_factor(1, d_min + 1024, &h100),
			 (d_min + 1024) / (64 * 256) + 1);
	/* no divisor within 30 of it: n_r is prime, s = 65 */
	assert_int_equal(stx__split_factor(1, 8650753, &h100), 8650753 / (65 * 256) + 1);
	/* at D_max 512 divides; a prime has no divisor near, and 512 it is */
	assert_int_equal(stx__split_factor(1, d_max, &h100), d_max / (512 * 256));
	assert_int_equal(stx__split_factor(1, 138412049, &h100), 138412049 / (512 * 256) + 1);
	/* hostile sizes */
	assert_true(stx__split_factor(1, INT64_MAX, &h100) > 1);
	assert_int_equal(stx__split_factor(0, INT64_MAX, &h100), 1);
	assert_int_equal(stx__split_factor(INT64_MAX, INT64_MAX, &h100), 1);
}

/* ---- programs from text ---- */

static struct stx_schedule *schedule(struct maker *m, struct stx_schedule_options o)
{
	struct stx_diag d = { 0 };
	struct stx_schedule *s = NULL;
	if (stx_schedule(m->l, &o, &s, &d) || stx_loops_verify(m->l, &d))
		fail_msg("%s %s: %s", d.stage, d.node, d.text);
	return s;
}

static const struct stx_buffer *named(const struct maker *m, const char *end)
{
	for (uint32_t i = 0; i < m->l->buffers.n; i++) {
		const char *name = m->l->buffers.at[i]->name;
		if (strlen(name) >= strlen(end) && !strcmp(name + strlen(name) - strlen(end), end))
			return m->l->buffers.at[i];
	}
	return NULL;
}

static const char squares[] = "%x : f32[64,16384] = placeholder()\n%m = mul.Tensor(%x, %x)\n"
			      "%s = sum.dim_IntList(%m, [1])\nreturn (%s,)\n";

static void test_split_gpu_row_sums_have_two_layers(void **state)
{
	(void)state; /* RD-25 */
	struct maker m;
	struct stx_bytes b = { 0 };
	lower_text(&m, squares);
	struct stx_schedule *s = schedule(&m, (struct stx_schedule_options){ .target_gpu = 1 });
	assert_int_equal(stx_loops_print(m.l, &b), 0);
	const char *text = stx_bytes_cstr(&b);
	expect(text, "layout=FixedLayout(f32, size=[64, 2], stride=[2, 1])");
	expect(text, "ops.load('x', 16384*i0 + 8192*i1 + r0_0)");
	expect(text, "ranges=[64, 2],\n  reduction_ranges=[8192]");
	expect(text, "_parts', 2*i0 + r0_0)");
	expect(text, "ranges=[64],\n  reduction_ranges=[2]");
	/* RD-26: 128 partial sums, 512 bytes, written and read again beside 2^20 elements */
	assert_int_equal(s->fused.bytes_read, 4 * (1 << 20) + 512);
	assert_int_equal(s->fused.bytes_written, 64 * 4 + 512);
	/* LN-04: the rows and halves of the first layer merge: 8192*x0 + r0, x0 in [0,128) */
	char *kernel = kernel_text(s->kernels.at[0]);
	expect(kernel, "axis x0 grid 128\n");
	expect(kernel, "p0[8192*x0 + r0]");
	free(kernel);
	/* the loop IR of the layers prints, parses and prints the same */
	struct stx_diag d = { 0 };
	struct stx_loops *again = NULL;
	struct stx_bytes c = { 0 };
	assert_int_equal(stx_loops_parse(m.a, text, strlen(text), &again, &d), 0);
	assert_int_equal(stx_loops_print(again, &c), 0);
	assert_string_equal(stx_bytes_cstr(&c), text);
	stx_bytes_free(&b);
	stx_bytes_free(&c);
	stx_arena_free(m.a);
	/* RD-13: the CPU has 64 rows to give to threads */
	lower_text(&m, squares);
	s = schedule(&m, (struct stx_schedule_options){ 0 });
	assert_int_equal(s->kernels.n, 1);
	stx_arena_free(m.a);
}

static void test_split_not_for_arg_reductions_products_and_scans(void **state)
{
	(void)state; /* RD-15 */
	static const char *const texts[] = {
		"%x : f32[4194304] = placeholder()\n%s = argmax.default(%x)\nreturn (%s,)\n",
		"%x : f32[1,4194304] = placeholder()\n%y : f32[4194304,1] = placeholder()\n"
		"%s = mm.default(%x, %y)\nreturn (%s,)\n",
		"%x : f32[4194304] = placeholder()\n%s = max.dim(%x, 0)\nreturn (%s, %s:1)\n",
		"%x : f32[65536] = placeholder()\n%s = cumsum.default(%x, 0)\nreturn (%s,)\n",
		"%x : f32[65536] = placeholder()\n%s = cummax.default(%x, 0)\nreturn (%s, %s:1)\n",
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		for (int gpu = 0; gpu < 2; gpu++) {
			struct maker m;
			lower_text_with(&m, texts[i],
					(struct stx_lower_options){ .target_gpu = gpu });
			schedule(&m, (struct stx_schedule_options){ .target_gpu = gpu });
			assert_null(named(&m, "_parts"));
			stx_arena_free(m.a);
		}
}

/* ---- the same bits as whole ---- */

static unsigned seed;
static uint32_t nkernels; /* of the last program */
static int whole_numbers; /* small ones, whose sums are exact in any order */

static void fill(enum stx_dtype t, void *p, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar v;
		double x = (double)rand_r(&seed) / RAND_MAX * 4 - 2;
		if (stx_dtype_is_float(t))
			v.f = whole_numbers ? (int)x : x;
		else
			v.i = t == STX_BOOL ? x > 1.99 : (int64_t)(x * 1e6);
		stx_scalar_store(t, (char *)p + i * stx_dtype_bytes(t), v);
	}
}

/* What is printed parses and prints the same. */
static void check_texts(const struct maker *m, const struct stx_schedule *s)
{
	struct stx_diag d = { 0 };
	struct stx_bytes p = { 0 }, q = { 0 };
	struct stx_loops *again = NULL;
	assert_int_equal(stx_loops_print(m->l, &p), 0);
	if (stx_loops_parse(m->a, stx_bytes_cstr(&p), p.n, &again, &d))
		fail_msg("%s", d.text);
	assert_int_equal(stx_loops_print(again, &q), 0);
	assert_string_equal(stx_bytes_cstr(&p), stx_bytes_cstr(&q));
	for (uint32_t i = 0; i < s->kernels.n; i++) {
		struct stx_kernel *k = NULL;
		p.n = q.n = 0;
		assert_int_equal(stx_kernel_print(s->kernels.at[i], &p), 0);
		if (stx_kernel_parse(m->a, stx_bytes_cstr(&p), p.n, &k, &d))
			fail_msg("%s in\n%s", d.text, stx_bytes_cstr(&p));
		assert_int_equal(stx_kernel_print(k, &q), 0);
		assert_string_equal(stx_bytes_cstr(&p), stx_bytes_cstr(&q));
	}
	stx_bytes_free(&p);
	stx_bytes_free(&q);
}

/* Runs text; the outputs, one after the other, in *out. Returns the number of first layers; on a GPU
 * that of rows of sums which kernels of rows keep. */
static uint32_t outputs_with(const char *text, struct stx_schedule_options o, char **out,
			     size_t *bytes)
{
	struct maker m;
	uint32_t cut = 0;
	lower_text(&m, text);
	struct stx_schedule *s = schedule(&m, o);
	uint32_t n = m.l->buffers.n;
	check_texts(&m, s);
	nkernels = s->kernels.n;
	for (uint32_t i = 0; o.target_gpu && i < s->kernels.n; i++)
		for (uint32_t j = 0; j < s->kernels.at[i]->insts.n; j++) {
			const struct stx_kinst *in = &s->kernels.at[i]->insts.at[j];
			cut += in->op == STX_K_ACC && in->c != STX_NONE;
		}
	void **data = calloc(n, sizeof *data);
	seed = 77;
	for (uint32_t i = 0; i < n; i++) {
		const struct stx_buffer *b = m.l->buffers.at[i];
		size_t size = (size_t)(mk_elems(&m, b) * stx_dtype_bytes(b->dtype)) + 1;
		data[i] = malloc(size);
		memset(data[i], 0xcd, size);
		if (b->kind == STX_BUF_INPUT)
			fill(b->dtype, data[i], mk_elems(&m, b));
		cut += !o.target_gpu && b->rule == STX_REALIZED_SPLIT;
	}
	run_schedule(&m, s, data, data);
	*bytes = 0;
	*out = NULL;
	for (uint32_t i = 0; i < m.l->outputs.n; i++) {
		const struct stx_buffer *b = m.l->buffers.at[m.l->outputs.at[i]];
		size_t size = (size_t)(mk_elems(&m, b) * stx_dtype_bytes(b->dtype));
		*out = realloc(*out, *bytes + size);
		memcpy(*out + *bytes, data[b->id], size);
		*bytes += size;
	}
	for (uint32_t i = 0; i < n; i++)
		free(data[i]);
	free(data);
	stx_arena_free(m.a);
	return cut;
}

static uint32_t outputs_of(const char *text, int no_split, char **out, size_t *bytes)
{
	return outputs_with(text, (struct stx_schedule_options){ .no_split = no_split }, out,
			    bytes);
}

static uint32_t check_same_bits(const char *text)
{
	char *whole, *parts;
	size_t n, m;
	assert_int_equal(outputs_of(text, 1, &whole, &n), 0);
	uint32_t cut = outputs_of(text, 0, &parts, &m);
	assert_int_equal(n, m);
	if (memcmp(whole, parts, n))
		fail_msg("cut and whole differ:\n%s", text);
	free(whole);
	free(parts);
	return cut;
}

static void test_split_segments_merge_to_the_bits_of_the_whole(void **state)
{
	(void)state; /* RD-05, RD-27: 400009 is a prime */
	static const struct {
		uint32_t cut;
		const char *text;
	} cases[] = {
		{ 1, "%x : f32[400009] = placeholder()\n%y = sum.default(%x)\nreturn (%y,)" },
		{ 1, "%x : f64[524288] = placeholder()\n%y = sum.default(%x)\nreturn (%y,)" },
		{ 1, "%x : bf16[3,131072] = placeholder()\n%y = mean.dim(%x, [1])\nreturn (%y,)" },
		{ 1,
		  "%x : f32[1,1,300001] = placeholder()\n%y = sum.dim_IntList(%x, [0,1,2], True)\n"
		  "return (%y,)" },
		/* columns: chunks of 16 along a loop, ragged and even */
		{ 1, "%x : f32[60013,5] = placeholder()\n%y = sum.dim_IntList(%x, [0])\n"
		     "return (%y,)" },
		{ 1, "%x : f16[2,65536,4] = placeholder()\n%y = sum.dim_IntList(%x, [1], True)\n"
		     "return (%y,)" },
		/* segments of 16 iterations in several runs of the inner loop */
		{ 1, "%x : f32[19,12717,2] = placeholder()\n%y = sum.dim_IntList(%x, [0,2])\n"
		     "return (%y,)" },
		/* two loops: rounds of one chunk, of 4 chunks that part or join, of 3 that do not
		   align */
		{ 1, "%x : f32[700,1000] = placeholder()\n%w : f32[1000] = placeholder()\n"
		     "%p = mul.Tensor(%x, %w)\n%y = sum.default(%p)\nreturn (%y,)" },
		{ 1, "%x : f32[101,4096] = placeholder()\n%w : f32[4096] = placeholder()\n"
		     "%p = mul.Tensor(%x, %w)\n%y = sum.default(%p)\nreturn (%y,)" },
		{ 1, "%x : f32[3,131072] = placeholder()\n%w : f32[131072] = placeholder()\n"
		     "%p = mul.Tensor(%x, %w)\n%y = sum.default(%p)\nreturn (%y,)" },
		{ 0, "%x : f32[101,3000] = placeholder()\n%w : f32[3000] = placeholder()\n"
		     "%p = mul.Tensor(%x, %w)\n%y = sum.default(%p)\nreturn (%y,)" },
		/* three loops */
		{ 1, "%x : f32[9,40,1000] = placeholder()\n%w : f32[9,1,1000] = placeholder()\n"
		     "%p = mul.Tensor(%x, %w)\n%y = sum.default(%p)\nreturn (%y,)" },
		/* one kernel for both first layers; other monoids */
		{ 2, "%x : f32[400009] = placeholder()\n%y = sum.default(%x)\n"
		     "%z = amax.default(%x, [0])\nreturn (%y, %z)" },
		{ 1, "%x : i32[400009] = placeholder()\n%y = amin.default(%x, [0])\nreturn (%y,)" },
		{ 1, "%x : bool[400009] = placeholder()\n%y = any.dims(%x, [0])\nreturn (%y,)" },
		{ 1, "%x : f32[400009] = placeholder()\n%y = prod.dim_int(%x, 0)\nreturn (%y,)" },
		/* too little work; enough results */
		{ 0, "%x : f32[200000] = placeholder()\n%y = sum.default(%x)\nreturn (%y,)" },
		{ 0, "%x : f32[16,20000] = placeholder()\n%y = sum.dim_IntList(%x, [1])\nreturn "
		     "(%y,)" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (check_same_bits(cases[i].text) != cases[i].cut)
			fail_msg("cut or not:\n%s", cases[i].text);
}

static void test_split_layers_of_one_input_are_one_kernel_each(void **state)
{
	(void)state;
	struct maker m;
	lower_text(&m, "%x : f32[400009] = placeholder()\n%y = sum.default(%x)\n"
		       "%z = amax.default(%x, [0])\nreturn (%y, %z)");
	struct stx_schedule *s = schedule(&m, (struct stx_schedule_options){ 0 });
	assert_int_equal(s->kernels.n, 2);
	assert_int_equal(s->groups.at[0].buffers.n, 2);
	assert_int_equal(s->groups.at[1].buffers.n, 2);
	/* scheduled again, nothing is cut again */
	uint32_t n = m.l->buffers.n;
	assert_int_equal(schedule(&m, (struct stx_schedule_options){ 0 })->kernels.n, 2);
	assert_int_equal(m.l->buffers.n, n);
	stx_arena_free(m.a);
}

/* ---- error ---- */

/* The coefficient of u * sum |a| for k sequential segments of n (test_orders.c). */
static double sequential_bound(double n, double k)
{
	return n / k - 1 + (k - 1);
}

/* What is summed stays within the bound of its segments: much less, as they are trees. */
static void test_split_sum_stays_within_the_bound_of_its_segments(void **state)
{
	(void)state; /* RD-28: within a bound, not equal to another order */
	const int64_t n = 400009;
	char *out;
	size_t bytes;
	assert_int_equal(outputs_of("%x : f32[400009] = placeholder()\n%y = sum.default(%x)\n"
				    "return (%y,)",
				    0, &out, &bytes),
			 1);
	float *x = malloc((size_t)n * 4), got, in_order = 0;
	double want = 0, all = 0;
	seed = 77;
	fill(STX_F32, x, n);
	for (int64_t i = 0; i < n; i++) {
		want += (double)x[i];
		all += x[i] < 0 ? -(double)x[i] : (double)x[i];
		in_order += x[i];
	}
	memcpy(&got, out, sizeof got);
	double error = got < want ? want - (double)got : (double)got - want;
	assert_true(error <= sequential_bound((double)n, 98) * 0x1p-24 * all);
	/* 16 in a lane, then 6 + 9 levels: the bound of the order used (RD-12) */
	assert_true(error <= (16 + 6 + 9 + 1) * 0x1p-24 * all);
	assert_true(got != in_order);
	free(x);
	free(out);
}

/* ---- random shapes ---- */

static void test_split_random_shapes_have_the_bits_of_the_whole(void **state)
{
	(void)state;
	const char *env = getenv("STX_SPLIT_SEED");
	unsigned first = env ? (unsigned)strtoul(env, NULL, 10) : 4100;
	uint32_t cut = 0;
	for (unsigned i = 0; i < 12; i++) {
		static const char *const types[] = { "f32", "f64", "bf16", "i32" };
		static const char *const dims[] = { "0", "1", "2", "0,1", "1,2", "0,2", "0,1,2" };
		char text[400];
		unsigned r = first + i;
		int64_t a = 1 + rand_r(&r) % 40, c = 1 + rand_r(&r) % (rand_r(&r) % 2 ? 5000 : 90);
		int64_t b = (300000 + rand_r(&r) % 200000) / (a * c) + 1;
		const char *t = types[rand_r(&r) % 4], *d = dims[rand_r(&r) % 7];
		snprintf(
			text, sizeof text,
			"%%x : %s[%lld,%lld,%lld] = placeholder()\n%%w : %s[%lld] = placeholder()\n"
			"%%p = %s.Tensor(%%x, %%w)\n%%y = sum.dim_IntList(%%p, [%s])\n"
			"return (%%y,)\n",
			t, (long long)a, (long long)b, (long long)c, t,
			(long long)(rand_r(&r) % 2 ? c : 1), rand_r(&r) % 2 ? "mul" : "add", d);
		cut += check_same_bits(text);
	}
	print_message("seeds %u ..: %u of 12 cut\n", first, cut);
	assert_true(cut > 2);
}

/* ---- rows whose columns are summed ---- */

static const struct stx_device small = { 2, 32, 2048 };

static uint32_t sums_on_the_way(const char *text)
{
	char *whole, *fused;
	size_t n, m;
	whole_numbers = 1;
	outputs_with(text,
		     (struct stx_schedule_options){ .target_gpu = 1, .no_fuse = 1, .no_split = 1 },
		     &whole, &n);
	uint32_t sums = outputs_with(
		text, (struct stx_schedule_options){ .target_gpu = 1, .device = &small }, &fused,
		&m);
	whole_numbers = 0;
	assert_int_equal(n, m);
	if (memcmp(whole, fused, n))
		fail_msg("fused and not differ:\n%s", text);
	free(whole);
	free(fused);
	return sums;
}

/* Reductions along rows and down columns of one input, and of what is computed of them, in any order of
 * outputs; rows of two axes, or viewed as one. */
static void test_split_random_rows_sum_their_columns_on_the_way(void **state)
{
	static const char *const types[] = { "f32", "i32", "bf16", "f64" };
	static const char *const bodies[] = {
		/* gradients of a norm: a result of the rows, and sums of what they read and compute */
		"%p = mul.Tensor(%x, %g)\n%r = sum.dim_IntList(%p, [2], True)\n"
		"%q = mul.Tensor(%r, %x)\n%d = sub.Tensor(%g, %q)\n"
		"%c = sum.dim_IntList(%p, [0, 1])\n%b = sum.dim_IntList(%d, [0, 1])\n",
		/* others than sums; a row's value, stored */
		"%r = amax.default(%x, [2], True)\n%d = sub.Tensor(%x, %r)\n"
		"%c = amin.default(%x, [0, 1])\n%b = amax.default(%g, [2])\n",
		/* the rows viewed as one axis, their result as two */
		"%v = view.default(%x, [-1, N])\n%w = view.default(%g, [-1, N])\n"
		"%r = sum.dim_IntList(%v, [1], True)\n%s = sub.Tensor(%w, %r)\n"
		"%d = view.default(%s, [A, B, N])\n%c = sum.dim_IntList(%v, [0])\n"
		"%b = sum.dim_IntList(%w, [0])\n",
	};
	static const char *const results[] = { "return (%d, %c, %b)\n", "return (%b, %c, %d)\n",
					       "return (%c, %d, %b)\n" };
	const char *env = getenv("STX_SPLIT_SEED");
	unsigned first = env ? (unsigned)strtoul(env, NULL, 10) : 7, sums = 0;
	(void)state;
	for (unsigned i = 0; i < 24; i++) {
		char text[900], *at;
		unsigned r = first * 1000 + i;
		int a = 1 + rand_r(&r) % 9, n = 32 + rand_r(&r) % 300,
		    b = 300 / a + rand_r(&r) % 90;
		const char *t = types[rand_r(&r) % 4];
		int len = snprintf(text, sizeof text,
				   "%%x : %s[%d,%d,%d] = placeholder()\n%%g : %s[%d,%d,%d] = "
				   "placeholder()\n",
				   t, a, b, n, t, a, b, n);
		for (const char *p = bodies[i % 3]; *p; p++) {
			int size = *p == 'A' ? a : *p == 'B' ? b : *p == 'N' ? n : 0;
			len += size ? snprintf(text + len, sizeof text - (size_t)len, "%d", size)
				    : snprintf(text + len, sizeof text - (size_t)len, "%c", *p);
		}
		at = text + len;
		snprintf(at, sizeof text - (size_t)len, "%s", results[i / 3 % 3]);
		sums += sums_on_the_way(text);
	}
	print_message("seed %u: %u rows of sums\n", first, sums);
	assert_in_range(sums, 30, 48);
}

/* Gradients of an activation and of the bias after it: what a kernel computes of an element goes into
 * the sum of its column, whose rows are cut; even and ragged segments, rows of several axes. */
static void test_split_pointwise_work_and_its_column_sums_are_one_kernel(void **state)
{
	static const struct {
		uint32_t kernels;
		const char *text;
	} cases[] = {
		{ 2, "%g : f32[1024,64] = placeholder()\n%x : f32[1024,64] = placeholder()\n"
		     "%d = mul.Tensor(%g, %x)\n%c = sum.dim_IntList(%d, [0])\nreturn (%d, %c)\n" },
		{ 2, "%g : bf16[7,149,60] = placeholder()\n%x : bf16[7,149,60] = placeholder()\n"
		     "%d = mul.Tensor(%g, %x)\n%c = sum.dim_IntList(%d, [0, 1])\n"
		     "%b = sum.dim_IntList(%g, [0, 1])\nreturn (%c, %d, %b)\n" },
		{ 2, "%g : f32[1043,60] = placeholder()\n%x : f32[7,149,60] = placeholder()\n"
		     "%w : f32[149,1] = placeholder()\n%v = view.default(%g, [7, 149, 60])\n"
		     "%p = mul.Tensor(%v, %x)\n%d = mul.Tensor(%p, %w)\n"
		     "%f = view.default(%d, [1043, 60])\n%c = sum.dim_IntList(%f, [0])\n"
		     "return (%d, %c)\n" },
		/* the work is on other elements than are summed */
		{ 3, "%g : f32[1024,64] = placeholder()\n%x : f32[1024,64] = placeholder()\n"
		     "%h = flip.default(%g, [0])\n%d = mul.Tensor(%h, %x)\n"
		     "%c = sum.dim_IntList(%g, [0])\nreturn (%d, %c)\n" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(sums_on_the_way(cases[i].text), 0);
		if (nkernels != cases[i].kernels)
			fail_msg("%u kernels:\n%s", nkernels, cases[i].text);
	}
}

static void test_split_factor_of_rows_fills_the_device(void **state)
{
	static const struct {
		int64_t n, n_r, k;
	} vectors[] = {
		{ 4096, 16384, 256 }, /* two blocks a multiprocessor: 264, or as many as divide */
		{ 4096, 16383, 261 }, /* 63 rows each */
		{ 8192, 16384, 128 }, /* one */
		{ 8193, 1 << 20, 1 }, /* registers do not hold the row */
		{ 4096, 1 << 20, 8192 }, /* 128 rows are the most: rounds of 264 */
		{ 256, 1 << 20, 512 },   /* a block has 16 rows at once */
		{ 4096, 1055, 1 }, /* 8 rows are the fewest, a block a multiprocessor as well */
		{ 0, 1 << 20, 1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
		if (stx__split_factor_rows(vectors[i].n, vectors[i].n_r, &h100) != vectors[i].k)
			fail_msg("n %lld n_r %lld: %lld segments, not %lld",
				 (long long)vectors[i].n, (long long)vectors[i].n_r,
				 (long long)stx__split_factor_rows(vectors[i].n, vectors[i].n_r,
								   &h100),
				 (long long)vectors[i].k);
	assert_true(stx__split_factor_rows(4096, INT64_MAX, &h100) > 1);
}

/* With any budget: an error, or the program that unlimited memory gives, never one that stays whole
 * for want of memory. */
static void test_split_without_memory_is_an_error_not_another_program(void **state)
{
	static const char text[] = "%x : f32[8,1048576] = placeholder()\n"
				   "%s = sum.dim_IntList(%x, [1])\nreturn (%s,)\n";
	struct stx_schedule_options o = { 0 };
	struct maker m;
	struct stx_diag d = { 0 };
	uint32_t room = 0, cut, failed = 0, done = 0;
	(void)state;
	lower_text(&m, text);
	size_t used = stx_arena_used(m.a);
	while (stx_arena_alloc(m.a, 16) && stx_arena_used(m.a) == used)
		room++;
	assert_int_equal(stx__split(m.l, &o, &d), 0);
	cut = m.l->buffers.n;
	stx_arena_free(m.a);
	for (size_t more = sizeof(struct stx__build); done < 3; more += 48) {
		lower_text_within(&m, text, (struct stx_lower_options){ 0 }, used + more);
		uint32_t whole = m.l->buffers.n;
		for (uint32_t i = 0; i < room; i++)
			assert_non_null(stx_arena_alloc(m.a, 16));
		stx_err e = stx__split(m.l, &o, &d);
		assert_int_equal(cut, whole + 1);
		assert_true(e == STX_E_NOMEM || (!e && m.l->buffers.n == cut));
		failed += e != 0;
		done += !e;
		stx_arena_free(m.a);
	}
	assert_true(failed > 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_split_without_memory_is_an_error_not_another_program),
		cmocka_unit_test(test_split_factor_follows_algorithm_6_1),
		cmocka_unit_test(test_split_factor_changes_branch_at_the_devices_limits),
		cmocka_unit_test(test_split_gpu_row_sums_have_two_layers),
		cmocka_unit_test(test_split_not_for_arg_reductions_products_and_scans),
		cmocka_unit_test(test_split_segments_merge_to_the_bits_of_the_whole),
		cmocka_unit_test(test_split_layers_of_one_input_are_one_kernel_each),
		cmocka_unit_test(test_split_sum_stays_within_the_bound_of_its_segments),
		cmocka_unit_test(test_split_random_shapes_have_the_bits_of_the_whole),
		cmocka_unit_test(test_split_random_rows_sum_their_columns_on_the_way),
		cmocka_unit_test(test_split_pointwise_work_and_its_column_sums_are_one_kernel),
		cmocka_unit_test(test_split_factor_of_rows_fills_the_device),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
