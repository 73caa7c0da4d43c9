/* test_schedule.c: kernels built from small programs: golden text, fusion, bindings, names,
 * digests. */
#include "kernel_eval.h"
#include "from_text.h"

static const char *const example_origins[] = { "add", "relu", "mul", "sum_1" };

/* Example 1.1: (relu(a + b) * 2).sum(-1) of [64,128]. */
static struct stx_buffer *example(struct maker *m, const struct stx_buffer *a,
				  const struct stx_buffer *b, enum stx_buffer_kind kind)
{
	mk_begin_ints(m, 1, (int64_t[]){ 64 }, 1, (int64_t[]){ 128 });
	stx_ex at = stx_ex_add(m->x, stx_ex_muli(m->x, mk_var(m, 0), 128), mk_var(m, 1));
	uint32_t v = mk_load(m, a, at), w = mk_load(m, b, at);
	v = mk_op(m, STX_P_ADD, STX_F32, v, w);
	v = mk_op(m, STX_P_RELU, STX_F32, v, 0);
	v = mk_op(m, STX_P_MUL, STX_F32, v, mk_constant(m, STX_F32, 2));
	struct stx_buffer *s =
		mk_end(m, kind, STX_F32, STX_DEF_REDUCTION, STX_MONOID_SUM, STX_F32, v, 0);
	mk_origins(m, s, 4, example_origins);
	return s;
}

static void test_schedule_example_is_one_persistent_kernel(void **state)
{
	(void)state; /* GK-15, GR-02, LN-05 */
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	struct stx_buffer *b = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	example(&m, a, b, STX_BUF_OUTPUT);
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	assert_string_equal(s->kernels.at[0]->name, "per_fused_add_relu_mul_sum_0");
	assert_int_equal(s->workspace_bytes, 0);
	assert_int_equal(s->fused.bytes_read, 2 * 64 * 128 * 4);
	assert_int_equal(s->fused.bytes_written, 64 * 4);
	assert_int_equal(s->bytes_min, 2 * 64 * 128 * 4 + 64 * 4);
	char *text = kernel_text(s->kernels.at[0]);
	check_golden("kernels/example_1_1.txt", text);
	free(text);
	stx_arena_free(m.a);
}

static struct stx_buffer *pointwise2(struct maker *m, enum stx_buffer_kind kind, enum stx_prim op,
				     const struct stx_buffer *a, const struct stx_buffer *b)
{
	stx_ex ranges[4];
	memcpy(ranges, a->layout.sizes, a->layout.rank * sizeof *ranges);
	mk_begin(m, a->layout.rank, ranges, 0, NULL);
	uint32_t p = mk_load(m, a, mk_here(m, a)), q = mk_load(m, b, mk_here(m, b));
	return mk_pointwise(m, kind, a->dtype, mk_op(m, op, a->dtype, p, q));
}

static void test_schedule_contiguous_pointwise_merges_to_one_axis(void **state)
{
	(void)state; /* LN-05: (64,128) becomes 8192 */
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	pointwise2(&m, STX_BUF_OUTPUT, STX_P_ADD, a, a);
	const struct stx_kernel *k = must_schedule(&m, 0)->kernels.at[0];
	assert_int_equal(k->kind, STX_KERNEL_POI);
	assert_int_equal(k->axes.n, 2);
	assert_true(stx_ex_equals(k->ex, k->grid, 2));
	assert_int_equal(k->axes.at[1].binding, STX_AXIS_VECTOR);
	char *text = kernel_text(k);
	assert_non_null(strstr(text, "[4096*x0 + x1]"));
	assert_null(strstr(text, "//"));
	/* one load of a: the second is the same value (LO-29, GK-16) */
	assert_null(strstr(strstr(text, "load") + 1, "load"));
	free(text);
	stx_arena_free(m.a);
}

static void test_schedule_broadcast_is_not_merged(void **state)
{
	(void)state; /* LN-03 */
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	struct stx_buffer *bias = mk_input(&m, STX_F32, 1, (int64_t[]){ 128 });
	mk_begin_ints(&m, 2, (int64_t[]){ 64, 128 }, 0, NULL);
	uint32_t v = mk_op(&m, STX_P_ADD, STX_F32, mk_load(&m, a, mk_here(&m, a)),
			   mk_load(&m, bias, mk_var(&m, 1)));
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_F32, v);
	const struct stx_kernel *k = must_schedule(&m, 0)->kernels.at[0];
	assert_true(stx_ex_equals(k->ex, k->grid, 64));
	assert_true(stx_ex_equals(k->ex, k->axes.at[1].size, 128));
	stx_arena_free(m.a);
}

/* out[i,j] = a[i,j] + b[j,i] of [rows,cols]: the kernel, and its result compared with the sum. */
static char *transpose_add(int64_t rows, int64_t cols, int64_t *grid)
{
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ rows, cols });
	struct stx_buffer *b = mk_input(&m, STX_F32, 2, (int64_t[]){ cols, rows });
	mk_begin_ints(&m, 2, (int64_t[]){ rows, cols }, 0, NULL);
	stx_ex across = stx_ex_add(m.x, stx_ex_muli(m.x, mk_var(&m, 1), rows), mk_var(&m, 0));
	uint32_t v = mk_load(&m, a, mk_here(&m, a)), w = mk_load(&m, b, across);
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_F32, mk_op(&m, STX_P_ADD, STX_F32, v, w));
	struct stx_schedule *s = must_schedule(&m, 0);
	size_t n = (size_t)(rows * cols);
	float *in[2] = { malloc(n * 4), malloc(n * 4) }, *out = malloc(n * 4);
	for (size_t i = 0; i < n; i++) {
		in[0][i] = (float)i;
		in[1][i] = (float)(i % 1000) * 0.5f;
	}
	void *inputs[3] = { in[0], in[1], NULL }, *outputs[3] = { NULL, NULL, out };
	run_schedule(&m, s, inputs, outputs);
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < cols; j++)
			assert_true(out[i * cols + j] == in[0][i * cols + j] + in[1][j * rows + i]);
	*grid = stx_kernel_grid_points(s->kernels.at[0], NULL);
	char *text = kernel_text(s->kernels.at[0]);
	free(in[0]);
	free(in[1]);
	free(out);
	stx_arena_free(m.a);
	return text;
}

static void test_schedule_mismatched_strides_run_in_tiles(void **state)
{
	(void)state;
	int64_t grid;
	char *text = transpose_add(128, 192, &grid);
	assert_int_equal(grid, 128 / 64 * 192 / 96); /* 256 bytes of b by 128 columns, evenly */
	assert_non_null(strstr(text, "loop 64\n"));
	assert_non_null(strstr(text, "vector 96\n"));
	assert_non_null(strstr(text, "12288*(x0 % 2)")); /* in b's lines */
	free(text);
	text = transpose_add(70, 150, &grid); /* neither divides: tails */
	assert_int_equal(grid, 2 * 2);
	assert_non_null(strstr(text, "min("));
	free(text);
	text = transpose_add(200, 5, &grid); /* too narrow */
	assert_null(strstr(text, " loop 64"));
	free(text);
}

static void test_schedule_two_outputs_are_one_kernel(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 100 });
	struct stx_buffer *b = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 100 });
	struct stx_buffer *gate = pointwise2(&m, STX_BUF_OUTPUT, STX_P_MAX, a, b);
	pointwise2(&m, STX_BUF_OUTPUT, STX_P_MUL, a, b);
	struct stx_buffer *t = pointwise2(&m, STX_BUF_TEMP, STX_P_SUB, gate, a);
	pointwise2(&m, STX_BUF_OUTPUT, STX_P_ADD, t, gate);
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(s->groups.at[0].buffers.n, 4);
	assert_int_equal(s->kernels.at[0]->params.n, 5); /* t is never in memory */
	assert_int_equal(s->slots[t->id].size, STX_EX_BAD);
	assert_int_equal(s->fused.bytes_written, 3 * 64 * 100 * 4);
	s = must_schedule(&m, 1);
	assert_int_equal(s->kernels.n, 4);
	assert_string_equal(s->groups.at[2].why_not, "fusion is off");
	stx_arena_free(m.a);
}

static void test_schedule_other_space_or_point_is_not_fused(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 1, (int64_t[]){ 100 });
	struct stx_buffer *t = pointwise2(&m, STX_BUF_TEMP, STX_P_ADD, a, a);
	mk_begin_ints(&m, 1, (int64_t[]){ 100 }, 0, NULL); /* reversed */
	stx_ex back = stx_ex_sub(m.x, mk_const(&m, 99), mk_var(&m, 0));
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_F32,
		     mk_op(&m, STX_P_NEG, STX_F32, mk_load(&m, t, back), 0));
	mk_begin_ints(&m, 2, (int64_t[]){ 3, 100 }, 0, NULL); /* broadcast */
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_F32,
		     mk_op(&m, STX_P_NEG, STX_F32, mk_load(&m, t, mk_var(&m, 1)), 0));
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 3);
	assert_string_equal(s->groups.at[1].why_not,
			    "it reads the group's results at other points");
	assert_string_equal(s->groups.at[2].why_not, "its iteration space differs");
	assert_non_null(strstr(s->report.at[s->report.n - 1], "its iteration space differs"));
	stx_arena_free(m.a);
}

static void test_schedule_epilogue_follows_its_reduction(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	struct stx_buffer *b = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	struct stx_buffer *s0 = example(&m, a, b, STX_BUF_TEMP);
	struct stx_buffer *bias = mk_input(&m, STX_F32, 1, (int64_t[]){ 64 });
	pointwise2(&m, STX_BUF_OUTPUT, STX_P_MUL, s0, bias);
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	char *text = kernel_text(s->kernels.at[0]);
	check_golden("kernels/row_sum_epilogue.txt", text);
	free(text);
	stx_arena_free(m.a);
}

/* [2, 3, 1, 40] of a convolution of 3 groups, and what its node's [2, 3, 40] are. */
static void test_schedule_epilogue_of_a_convolution_lacks_its_axis_of_one(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *x = mk_input(&m, STX_F32, 3, (int64_t[]){ 2, 3, 42 });
	struct stx_buffer *w = mk_input(&m, STX_F32, 2, (int64_t[]){ 3, 3 });
	struct stx_buffer *bias = mk_input(&m, STX_F32, 3, (int64_t[]){ 2, 3, 40 });
	mk_begin_ints(&m, 4, (int64_t[]){ 2, 3, 1, 40 }, 1, (int64_t[]){ 3 });
	stx_ex at = stx_ex_add(m.x, mk_var(&m, 3), mk_var(&m, 4));
	at = stx_ex_add(m.x, at, stx_ex_muli(m.x, mk_var(&m, 1), 42));
	at = stx_ex_add(m.x, at, stx_ex_muli(m.x, mk_var(&m, 0), 126));
	uint32_t p = mk_load(&m, x, at);
	at = stx_ex_add(m.x, stx_ex_muli(m.x, mk_var(&m, 1), 3), mk_var(&m, 4));
	struct stx_buffer *c = mk_end(&m, STX_BUF_TEMP, STX_F32, STX_DEF_REDUCTION, STX_MONOID_DOT,
				      STX_F32, p, mk_load(&m, w, at));
	mk_begin_ints(&m, 3, (int64_t[]){ 2, 3, 40 }, 0, NULL);
	at = stx_ex_add(m.x, stx_ex_muli(m.x, mk_var(&m, 1), 40), mk_var(&m, 2));
	at = stx_ex_add(m.x, at, stx_ex_muli(m.x, mk_var(&m, 0), 120));
	p = mk_load(&m, c, at);
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_F32,
		     mk_op(&m, STX_P_ADD, STX_F32, p, mk_load(&m, bias, at)));
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(s->slots[c->id].size, STX_EX_BAD);
	stx_arena_free(m.a);
}

static void test_schedule_column_sum_runs_along_columns(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_BF16, 2, (int64_t[]){ 2000, 100 });
	mk_begin_ints(&m, 1, (int64_t[]){ 100 }, 1, (int64_t[]){ 2000 });
	stx_ex at = stx_ex_add(m.x, mk_var(&m, 0), stx_ex_muli(m.x, mk_var(&m, 1), 100));
	mk_end(&m, STX_BUF_OUTPUT, STX_BF16, STX_DEF_REDUCTION, STX_MONOID_SUM, STX_F32,
	       mk_load(&m, a, at), 0);
	const struct stx_kernel *k = must_schedule(&m, 0)->kernels.at[0];
	assert_int_equal(k->kind, STX_KERNEL_RED);
	char *text = kernel_text(k);
	check_golden("kernels/column_sum.txt", text);
	free(text);
	stx_arena_free(m.a);
}

/* out[i,j] = sum_k a[i,k] * b[..]; b is [k,n], or [n,k] when transposed. */
static const struct stx_kernel *matmul(struct maker *m, int64_t rows, int64_t k, int64_t cols,
				       int transposed)
{
	struct stx_buffer *a = mk_input(m, STX_F32, 2, (int64_t[]){ rows, k });
	struct stx_buffer *b = mk_input(
		m, STX_F32, 2, (int64_t[]){ transposed ? cols : k, transposed ? k : cols });
	mk_begin_ints(m, 2, (int64_t[]){ rows, cols }, 1, (int64_t[]){ k });
	stx_ex i = mk_var(m, 0), j = mk_var(m, 1), r = mk_var(m, 2);
	uint32_t p = mk_load(m, a, stx_ex_add(m->x, stx_ex_muli(m->x, i, k), r));
	uint32_t q = mk_load(m, b,
			     transposed ? stx_ex_add(m->x, stx_ex_muli(m->x, j, k), r)
					: stx_ex_add(m->x, stx_ex_muli(m->x, r, cols), j));
	mk_end(m, STX_BUF_OUTPUT, STX_F32, STX_DEF_REDUCTION, STX_MONOID_DOT, STX_F32, p, q);
	return must_schedule(m, 0)->kernels.at[0];
}

static uint32_t count_ops(const struct stx_kernel *k, int op)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < k->insts.n; i++)
		n += k->insts.at[i].op == op;
	return n;
}

static void test_schedule_matmul_takes_rows_together(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	const struct stx_kernel *k = matmul(&m, 64, 64, 128, 0);
	assert_int_equal(count_ops(k, STX_K_UPDATE), 8);
	assert_int_equal(count_ops(k, STX_K_LOAD), 9); /* one of b serves eight rows */
	stx_arena_free(m.a);
}

/* Lanes run along the terms, which b has apart: what is gathered serves several rows. */
static void test_schedule_few_columns_share_what_is_gathered(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	const struct stx_kernel *k = matmul(&m, 64, 1024, 4, 0);
	assert_int_equal(count_ops(k, STX_K_UPDATE), 4);
	assert_int_equal(count_ops(k, STX_K_LOAD), 5);
	stx_arena_free(m.a);
	maker_init(&m);
	k = matmul(&m, 64, 1024, 4, 1); /* nothing is */
	assert_int_equal(count_ops(k, STX_K_UPDATE), 2);
	stx_arena_free(m.a);
}

static void test_schedule_large_matmul_is_in_tiles(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	const struct stx_kernel *k = matmul(&m, 128, 768, 3072, 0);
	assert_int_equal(count_ops(k, STX_K_UPDATE), 1);
	assert_int_equal(count_ops(k, STX_K_LOAD), 2);
	char *text = kernel_text(k);
	check_golden("kernels/matmul_128_768_3072.txt", text);
	free(text);
	stx_arena_free(m.a);
	maker_init(&m);
	k = matmul(&m, 128, 768, 3072, 1);
	text = kernel_text(k);
	check_golden("kernels/matmul_transposed_128_768_3072.txt", text);
	free(text);
	stx_arena_free(m.a);
}

static void test_schedule_repeated_layers_share_a_digest(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	struct stx_buffer *b = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	struct stx_buffer *c = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 128 });
	example(&m, a, b, STX_BUF_OUTPUT);
	example(&m, c, a, STX_BUF_OUTPUT);
	struct stx_schedule *s = must_schedule(&m, 1);
	struct stx_digest p, q, r;
	assert_int_equal(stx_kernel_digest(s->kernels.at[0], &p, NULL), 0);
	assert_int_equal(stx_kernel_digest(s->kernels.at[1], &q, NULL), 0);
	assert_true(stx_digest_eq(&p, &q));
	assert_string_not_equal(s->kernels.at[0]->name, s->kernels.at[1]->name);
	/* and the digest survives the text, which is what an emit job sees */
	char *text = kernel_text(s->kernels.at[1]);
	struct stx_kernel *again;
	assert_int_equal(stx_kernel_parse(m.a, text, strlen(text), &again, NULL), 0);
	assert_int_equal(stx_kernel_digest(again, &r, NULL), 0);
	assert_true(stx_digest_eq(&p, &r));
	free(text);
	stx_arena_free(m.a);
}

/* out[s,128] = in + in, s in [1, hi]. */
static const struct stx_kernel *dynamic_rows(struct maker *m, int64_t hi)
{
	stx_ex s = stx_ex_sym(m->x, 7, (struct stx_interval){ 1, hi }, 64);
	stx_ex sizes[2] = { s, mk_const(m, 128) };
	struct stx_buffer *a = mk_buffer(m, STX_BUF_INPUT, STX_F32, mk_layout(m, 2, sizes, NULL));
	pointwise2(m, STX_BUF_OUTPUT, STX_P_ADD, a, a);
	return must_schedule(m, 0)->kernels.at[0];
}

static void test_schedule_index_width_follows_the_greatest_offset(void **state)
{
	(void)state; /* VR-08, VR-09 */
	struct maker m;
	maker_init(&m);
	const struct stx_kernel *k = dynamic_rows(&m, 16777216);
	assert_int_equal(k->index_bits, 32);
	assert_int_equal(k->scalars.n, 1);
	assert_int_equal(k->scalars.at[0], 7);
	stx_arena_free(m.a);
	maker_init(&m);
	assert_int_equal(dynamic_rows(&m, 16777217)->index_bits, 64);
	stx_arena_free(m.a);
	/* B11: a small view of a large buffer */
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_I8, 1, (int64_t[]){ 320 });
	stx_ex size = mk_const(&m, 320), stride = mk_const(&m, 7864320);
	a->layout = mk_layout(&m, 1, &size, &stride);
	mk_begin(&m, 1, &size, 0, NULL);
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_I8, mk_load(&m, a, mk_here(&m, a)));
	assert_int_equal(must_schedule(&m, 0)->kernels.at[0]->index_bits, 64);
	stx_arena_free(m.a);
	/* B09: an index value past 32 bits */
	maker_init(&m);
	mk_begin_ints(&m, 1, (int64_t[]){ 11 }, 0, NULL);
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_I64,
		     mk_index(&m, STX_I64, stx_ex_muli(m.x, mk_var(&m, 0), 1000000000)));
	assert_int_equal(must_schedule(&m, 0)->kernels.at[0]->index_bits, 64);
	stx_arena_free(m.a);
}

static void test_schedule_dynamic_kernel_runs_for_each_size(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	const struct stx_kernel *k = dynamic_rows(&m, 1000);
	for (int64_t s = 1; s < 100; s += 7) {
		int64_t n = s * 128, elems[2] = { n, n };
		float *in = malloc((size_t)n * 4), *out = calloc((size_t)n, 4);
		void *buffers[2] = { in, out };
		struct stx_diag d = { 0 };
		for (int64_t i = 0; i < n; i++)
			in[i] = (float)i;
		assert_int_equal(stx_kernel_evaluate(k, buffers, elems, &s, NULL, 0,
						     stx_kernel_grid_points(k, &s), &d),
				 0);
		for (int64_t i = 0; i < n; i++)
			assert_true(out[i] == 2 * (float)i);
		free(in);
		free(out);
	}
	stx_arena_free(m.a);
}

static void test_schedule_narrow_floats_round_after_every_node(void **state)
{
	(void)state; /* in strict mode eight additions, each rounded */
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_BF16, 1, (int64_t[]){ 40 });
	mk_begin_ints(&m, 1, (int64_t[]){ 40 }, 0, NULL);
	uint32_t x = mk_load(&m, a, mk_var(&m, 0)), v = x;
	for (int i = 0; i < 8; i++)
		v = mk_op(&m, STX_P_ADD, STX_BF16, v, x);
	v = mk_op(&m, STX_P_EXP, STX_BF16, v, 0);
	mk_pointwise(&m, STX_BUF_OUTPUT, STX_BF16, v);
	struct stx_schedule *s = must_schedule(&m, 0);
	uint16_t in[40], got[40], want[40];
	void *data[2] = { in, want }, *inputs[2] = { in, NULL }, *outputs[2] = { NULL, got };
	for (int i = 0; i < 40; i++) {
		union stx_scalar f = { .f = (i - 20) * 0.01171875 };
		stx_scalar_store(STX_BF16, &in[i], f);
	}
	ref_buffer(&m, m.l->buffers.at[1], data);
	run_schedule(&m, s, inputs, outputs);
	assert_memory_equal(got, want, sizeof got);
	stx_arena_free(m.a);
}

static void test_schedule_empty_result_has_no_kernel_empty_reduction_has_its_identity(void **state)
{
	(void)state; /* B03 */
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 3, 0 });
	mk_begin_ints(&m, 1, (int64_t[]){ 3 }, 1, (int64_t[]){ 0 });
	mk_end(&m, STX_BUF_OUTPUT, STX_F32, STX_DEF_REDUCTION, STX_MONOID_PROD, STX_F32,
	       mk_load(&m, a, mk_var(&m, 1)), 0);
	pointwise2(&m, STX_BUF_OUTPUT, STX_P_ADD, a, a);
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	float in[1] = { 7 }, out[3] = { 9, 9, 9 }, none[1];
	void *inputs[3] = { in, NULL, NULL }, *outputs[3] = { NULL, out, none };
	run_schedule(&m, s, inputs, outputs);
	assert_true(out[0] == 1 && out[1] == 1 && out[2] == 1);
	stx_arena_free(m.a);
}

static void test_schedule_names_are_bounded_and_clean(void **state)
{
	(void)state; /* GK-15 */
	static const char *const origins[] = {
		"/layer.1/Conv_output_0",
		"add_12",
		"add_13",
		"Relu6_2",
		"a_very_long_operator_name_that_goes_on_and_on_and_on",
		"another_very_long_operator_name",
		"yet_another_quite_long_one",
		"tail"
	};
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 1, (int64_t[]){ 8 });
	mk_origins(&m, pointwise2(&m, STX_BUF_OUTPUT, STX_P_ADD, a, a), 8, origins);
	const char *name = must_schedule(&m, 0)->kernels.at[0]->name;
	assert_true(strlen(name) < 96);
	assert_memory_equal(name, "poi_fused_layer1conv_output_add_relu6_", 38);
	assert_null(strstr(name, "add_add"));
	assert_string_equal(name + strlen(name) - 2, "_0");
	stx_arena_free(m.a);
}

/* Workspace of x -> t -> u -> out, each backwards over the last; u adds t at its own and perhaps
 * another point. */
static uint64_t workspace_of(int64_t other)
{
	struct maker m;
	maker_init(&m);
	struct stx_buffer *b[3] = { mk_input(&m, STX_F32, 1, (int64_t[]){ 100 }) };
	for (int i = 0; i < 3; i++) {
		mk_begin_ints(&m, 1, (int64_t[]){ 100 }, 0, NULL);
		stx_ex here = mk_var(&m, 0), back = stx_ex_sub(m.x, mk_const(&m, 99), here);
		uint32_t v = mk_load(&m, b[i], i == 1 ? here : back);
		if (i == 1) {
			uint32_t w = mk_load(&m, b[1], other ? back : here);
			v = mk_op(&m, STX_P_ADD, STX_F32, v, w);
		}
		struct stx_buffer *r =
			mk_pointwise(&m, i == 2 ? STX_BUF_OUTPUT : STX_BUF_TEMP, STX_F32, v);
		if (i < 2)
			b[i + 1] = r;
	}
	uint64_t bytes = must_schedule(&m, 1)->workspace_bytes;
	stx_arena_free(m.a);
	return bytes;
}

static void test_schedule_place_is_taken_only_when_read_at_its_own_points(void **state)
{
	(void)state; /* GF-07 */
	assert_int_equal(workspace_of(0), 448);
	assert_int_equal(workspace_of(1), 2 * 448);
}

/* A chain of 20,000 operations is scheduled in time linear in it; a square would not end here. */
static void test_schedule_long_chain_is_linear(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 1, (int64_t[]){ 300 });
	struct stx_buffer *b = a;
	for (int i = 0; i < 20000; i++)
		b = pointwise2(&m, i == 19999 ? STX_BUF_OUTPUT : STX_BUF_TEMP, STX_P_ADD, b, a);
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_in_range(s->kernels.n, 20000 / 32, 20000 / 32 + 1);
	assert_int_equal(s->workspace_bytes, 1216); /* each result takes its operand's place */
	stx_arena_free(m.a);
}

/* 20,000 readers of one input, sums of rows and pointwise results in turn: each is tried beside a
 * few kernels, not all. */
static void test_schedule_many_readers_of_one_input_take_linear_time(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *a = mk_input(&m, STX_F32, 2, (int64_t[]){ 64, 32 });
	for (int i = 0; i < 20000; i++) {
		if (i % 2) {
			pointwise2(&m, STX_BUF_OUTPUT, STX_P_ADD, a, a);
			continue;
		}
		mk_begin_ints(&m, 1, (int64_t[]){ 64 }, 1, (int64_t[]){ 32 });
		stx_ex at = stx_ex_add(m.x, stx_ex_muli(m.x, mk_var(&m, 0), 32), mk_var(&m, 1));
		mk_end(&m, STX_BUF_OUTPUT, STX_F32, STX_DEF_REDUCTION, STX_MONOID_SUM, STX_F32,
		       mk_load(&m, a, at), 0);
	}
	assert_in_range(must_schedule(&m, 0)->kernels.n, 20000 / 32, 20000 / 32 + 2);
	stx_arena_free(m.a);
}

/* An elementary function is dozens of instructions, and a kernel has 65536 at most. */
static void test_schedule_many_elementary_functions_are_several_kernels(void **state)
{
	(void)state;
	struct maker m;
	maker_init(&m);
	struct stx_buffer *b = mk_input(&m, STX_F32, 1, (int64_t[]){ 300 });
	for (int i = 0; i < 20; i++) {
		mk_begin_ints(&m, 1, (int64_t[]){ 300 }, 0, NULL);
		uint32_t v = mk_load(&m, b, mk_var(&m, 0));
		for (int j = 0; j < 60; j++)
			v = mk_op(&m, STX_P_SIN, STX_F32, v, 0);
		b = mk_pointwise(&m, i == 19 ? STX_BUF_OUTPUT : STX_BUF_TEMP, STX_F32, v);
	}
	assert_int_equal(must_schedule(&m, 0)->kernels.n, 20);
	stx_arena_free(m.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedule_example_is_one_persistent_kernel),
		cmocka_unit_test(test_schedule_contiguous_pointwise_merges_to_one_axis),
		cmocka_unit_test(test_schedule_broadcast_is_not_merged),
		cmocka_unit_test(test_schedule_mismatched_strides_run_in_tiles),
		cmocka_unit_test(test_schedule_two_outputs_are_one_kernel),
		cmocka_unit_test(test_schedule_other_space_or_point_is_not_fused),
		cmocka_unit_test(test_schedule_epilogue_follows_its_reduction),
		cmocka_unit_test(test_schedule_epilogue_of_a_convolution_lacks_its_axis_of_one),
		cmocka_unit_test(test_schedule_column_sum_runs_along_columns),
		cmocka_unit_test(test_schedule_matmul_takes_rows_together),
		cmocka_unit_test(test_schedule_few_columns_share_what_is_gathered),
		cmocka_unit_test(test_schedule_large_matmul_is_in_tiles),
		cmocka_unit_test(test_schedule_repeated_layers_share_a_digest),
		cmocka_unit_test(test_schedule_index_width_follows_the_greatest_offset),
		cmocka_unit_test(test_schedule_dynamic_kernel_runs_for_each_size),
		cmocka_unit_test(test_schedule_narrow_floats_round_after_every_node),
		cmocka_unit_test(
			test_schedule_empty_result_has_no_kernel_empty_reduction_has_its_identity),
		cmocka_unit_test(test_schedule_names_are_bounded_and_clean),
		cmocka_unit_test(test_schedule_place_is_taken_only_when_read_at_its_own_points),
		cmocka_unit_test(test_schedule_long_chain_is_linear),
		cmocka_unit_test(test_schedule_many_readers_of_one_input_take_linear_time),
		cmocka_unit_test(test_schedule_many_elementary_functions_are_several_kernels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
