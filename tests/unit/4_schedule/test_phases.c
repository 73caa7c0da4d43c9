/* test_phases.c: chains of pointwise work and reductions over the same rows become one kernel of
 * phases, with the bits they have kernel by kernel (MR-01, MR-02, MR-08, GF-03, RZ-12). */
#include "from_text.h"

static unsigned seed, start;

static uint32_t rnd(uint32_t n)
{
	return (uint32_t)rand_r(&seed) % n;
}

/* ---- graphs from text ---- */

static uint32_t count_ops(const struct stx_kernel *k, int op)
{
	uint32_t n = 0;
	for (uint32_t i = 0; i < k->insts.n; i++)
		n += k->insts.at[i].op == op;
	return n;
}

/* Loads in loops of parameter p. */
static uint32_t count_loads(const struct stx_kernel *k, uint32_t p)
{
	uint32_t n = 0, depth = 0;
	for (uint32_t i = 0; i < k->insts.n; i++) {
		depth += k->insts.at[i].op == STX_K_LOOP;
		depth -= k->insts.at[i].op == STX_K_END;
		n += depth && k->insts.at[i].op == STX_K_LOAD && k->insts.at[i].a == p;
	}
	return n;
}

/* ---- running fused and unfused ---- */

static void fill(enum stx_dtype t, void *p, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		union stx_scalar v;
		double x = (double)rnd(20001) / 5000 - 2;
		if (stx_dtype_is_float(t))
			v.f = x;
		else
			v.i = (int64_t)(x * 100);
		stx_scalar_store(t, (char *)p + i * stx_dtype_bytes(t), v);
	}
}

/* Returns kernels fused; *unfused those without. */
static uint32_t check_same_bits(struct maker *m, uint32_t *unfused)
{
	uint32_t n = m->l->buffers.n, kernels[2];
	void **data[2] = { calloc(n, sizeof(void *)), calloc(n, sizeof(void *)) };
	void **inputs = calloc(n, sizeof *inputs);
	for (uint32_t i = 0; i < n; i++) {
		const struct stx_buffer *b = m->l->buffers.at[i];
		size_t bytes = (size_t)(mk_elems(m, b) * stx_dtype_bytes(b->dtype)) + 1;
		if (b->def == STX_DEF_NONE) {
			inputs[i] = malloc(bytes);
			fill(b->dtype, inputs[i], mk_elems(m, b));
		}
		for (int f = 0; f < 2; f++) {
			data[f][i] = malloc(bytes);
			memset(data[f][i], 0xcd, bytes);
		}
	}
	for (int f = 0; f < 2; f++) {
		const struct stx_schedule *s = must_schedule(m, f);
		kernels[f] = s->kernels.n;
		run_schedule(m, s, inputs, data[f]);
	}
	for (uint32_t i = 0; i < m->l->outputs.n; i++) {
		const struct stx_buffer *b = m->l->buffers.at[m->l->outputs.at[i]];
		size_t bytes = (size_t)(mk_elems(m, b) * stx_dtype_bytes(b->dtype));
		if (memcmp(data[0][b->id], data[1][b->id], bytes))
			fail_msg("seed %u: %s differs fused and unfused", start, b->name);
	}
	for (uint32_t i = 0; i < n; i++) {
		free(inputs[i]);
		free(data[0][i]);
		free(data[1][i]);
	}
	free(inputs);
	free(data[0]);
	free(data[1]);
	if (unfused)
		*unfused = kernels[1];
	return kernels[0];
}

/* ---- the known chains ---- */

static void test_phases_softmax_is_one_kernel(void **state)
{
	(void)state; /* MR-02, MR-08: x is read in two phases, from cache in one; exp waits in y's
			place */
	struct maker m;
	lower_text(&m, "%x : f32[256,1000] = placeholder()\n"
		       "%y = _softmax.default(%x, -1, False)\nreturn (%y)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	const struct stx_kernel *k = s->kernels.at[0];
	assert_int_equal(k->kind, STX_KERNEL_PER);
	assert_int_equal(k->params.n, 2);
	assert_int_equal(count_loads(k, 0), 2);
	assert_int_equal(count_loads(k, 1), 1);
	assert_int_equal(count_ops(k, STX_K_STORE), 2);
	assert_int_equal(count_ops(k, STX_K_UPDATE), 2);
	assert_int_equal(s->fused.bytes_read + s->fused.bytes_written,
			 2 * 256 * 1000 * 4); /* MR-04: 2N */
	assert_int_equal(s->bytes_min, 2 * 256 * 1000 * 4);
	assert_int_equal(s->workspace_bytes, 0);
	char *text = kernel_text(k);
	check_golden("kernels/softmax_256_1000.txt", text);
	free(text);
	stx_arena_free(m.a);
}

static void test_phases_layer_norm_is_one_kernel(void **state)
{
	(void)state; /* MR-08, GF-09 */
	struct maker m;
	lower_text(&m, "%x : f32[128,768] = placeholder()\n%w : f32[768] = placeholder()\n"
		       "%b : f32[768] = placeholder()\n"
		       "%y = layer_norm.default(%x, [768], %w, %b, 1e-5)\nreturn (%y)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	const struct stx_kernel *k = s->kernels.at[0];
	assert_int_equal(count_loads(k, 0), 3);
	assert_int_equal(count_ops(k, STX_K_LOAD), 5);
	assert_int_equal(count_ops(k, STX_K_STORE), 1);
	assert_int_equal(s->fused.bytes_read + s->fused.bytes_written, s->bytes_min);
	char *text = kernel_text(k);
	check_golden("kernels/layer_norm_128_768.txt", text);
	free(text);
	stx_arena_free(m.a);
}

static void test_phases_logsumexp_is_one_kernel(void **state)
{
	(void)state; /* MR-08 */
	struct maker m;
	lower_text(
		&m,
		"%x : f32[64,1024] = placeholder()\n%y = logsumexp.default(%x, [1])\nreturn (%y)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(count_ops(s->kernels.at[0], STX_K_LOAD), 2);
	assert_int_equal(count_ops(s->kernels.at[0], STX_K_STORE), 1);
	char *text = kernel_text(s->kernels.at[0]);
	check_golden("kernels/logsumexp_64_1024.txt", text);
	free(text);
	stx_arena_free(m.a);
}

static const char *const chains[] = {
	"%x : f32[70,100] = placeholder()\n%y = _softmax.default(%x, -1, False)\nreturn (%y)",
	"%x : f32[70,100] = placeholder()\n%y = _softmax.default(%x, 0, False)\nreturn (%y)",
	"%x : f32[9,64,40] = placeholder()\n%y = _softmax.default(%x, 1, False)\nreturn (%y)",
	"%x : bf16[40,130] = placeholder()\n%y = _softmax.default(%x, -1, False)\nreturn (%y)",
	"%x : f64[40,130] = placeholder()\n%y = _log_softmax.default(%x, -1, False)\nreturn (%y)",
	"%x : f32[64,64] = placeholder()\n%y = _log_softmax.default(%x, 0, False)\nreturn (%y)",
	"%x : f32[20,1500] = placeholder()\n%y = logsumexp.default(%x, [1])\nreturn (%y)",
	"%x : f16[20,300] = placeholder()\n%w : f16[300] = placeholder()\n%b : f16[300] = "
	"placeholder()\n"
	"%y = layer_norm.default(%x, [300], %w, %b, 1e-5)\nreturn (%y)",
	"%x : f32[6,5,70] = placeholder()\n%w : f32[5,70] = placeholder()\n%b : f32[5,70] = "
	"placeholder()\n"
	"%y = layer_norm.default(%x, [5,70], %w, %b, 1e-5)\nreturn (%y)",
	/* RMS norm */
	"%x : f32[30,200] = placeholder()\n%w : f32[200] = placeholder()\n%s = mul.Tensor(%x, %x)\n"
	"%m = mean.dim(%s, [1], True)\n%e = add.Scalar(%m, 1e-6)\n%r = rsqrt.default(%e)\n"
	"%n = mul.Tensor(%x, %r)\n%y = mul.Tensor(%n, %w)\nreturn (%y)",
	/* cross entropy against a distribution */
	"%x : f32[30,200] = placeholder()\n%t : f32[30,200] = placeholder()\n"
	"%l = _log_softmax.default(%x, 1, False)\n%p = mul.Tensor(%l, %t)\n%s = "
	"sum.dim_IntList(%p, [1])\n"
	"%y = neg.default(%s)\nreturn (%y)",
	/* a realised value before the first reduction */
	"%x : f32[64,64] = placeholder()\n%t = tanh.default(%x)\n%s = sum.dim_IntList(%t, [1], "
	"True)\n"
	"%y = div.Tensor(%t, %s)\nreturn (%y, %t)",
};

static void test_phases_chains_are_one_kernel_with_the_same_bits(void **state)
{
	(void)state; /* MR-01, RZ-12 */
	seed = 5;
	for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
		struct maker m;
		uint32_t unfused;
		lower_text(&m, chains[i]);
		uint32_t fused = check_same_bits(&m, &unfused);
		if (fused != 1 || unfused < 2)
			fail_msg("%u kernels fused, %u unfused:\n%s", fused, unfused, chains[i]);
		stx_arena_free(m.a);
	}
}

/* Short rows, long rows, and one row that a thread does at once: one kernel each, its traffic the
 * least there is. %1$d: rows, %2$d: columns. */
static void test_phases_rows_of_any_length_are_one_kernel(void **state)
{
	static const char *const texts[] = {
		"%%x : f32[%1$d,%2$d] = placeholder()\n%%y = _softmax.default(%%x, -1, False)\n"
		"return (%%y)",
		"%%x : f32[%1$d,%2$d] = placeholder()\n%%y = _log_softmax.default(%%x, -1, False)\n"
		"return (%%y)",
		"%%x : f32[%1$d,%2$d] = placeholder()\n%%y = logsumexp.default(%%x, [1])\n"
		"return (%%y)",
		"%%x : f32[%1$d,%2$d] = placeholder()\n%%w : f32[%2$d] = placeholder()\n"
		"%%b : f32[%2$d] = placeholder()\n"
		"%%y = layer_norm.default(%%x, [%2$d], %%w, %%b, 1e-5)\nreturn (%%y)",
		"%%x : f32[%1$d,%2$d] = placeholder()\n%%w : f32[%2$d] = placeholder()\n"
		"%%s = mul.Tensor(%%x, %%x)\n%%m = mean.dim(%%s, [1], True)\n"
		"%%e = add.Scalar(%%m, 1e-6)\n%%r = rsqrt.default(%%e)\n"
		"%%n = mul.Tensor(%%x, %%r)\n%%y = mul.Tensor(%%n, %%w)\nreturn (%%y)",
		/* cross entropy against classes */
		"%%x : f32[%1$d,%2$d] = placeholder()\n%%t : i64[%1$d,1] = placeholder()\n"
		"%%l = _log_softmax.default(%%x, 1, False)\n%%g = gather.default(%%l, 1, %%t)\n"
		"%%y = neg.default(%%g)\nreturn (%%y)",
	};
	static const int sizes[][2] = { { 4096, 7 }, { 64, 20000 }, { 16, 300000 }, { 1, 60000 } };
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
			struct maker m;
			char text[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(text, sizeof text, texts[i], sizes[j][0], sizes[j][1]);
#pragma GCC diagnostic pop
			lower_text(&m, text);
			struct stx_schedule *s = must_schedule(&m, 0);
			if (s->kernels.n != 1 ||
			    s->fused.bytes_read + s->fused.bytes_written != s->bytes_min)
				fail_msg("%u kernels:\n%s", s->kernels.n, text);
			stx_arena_free(m.a);
		}
}

/* Reductions and full-level work that read an input at the same points are one kernel, whichever
 * comes first, with the bits they have apart; at other points they are two. */
static void test_phases_share_an_input_across_spaces(void **state)
{
	static const struct {
		uint32_t kernels, beside;
		const char *text;
	} cases[] = {
		{ 1, 1,
		  "%x : f32[70,100] = placeholder()\n%s = sum.dim_IntList(%x, [1])\n"
		  "%y = exp.default(%x)\nreturn (%s, %y)" },
		{ 1, 1,
		  "%x : f32[70,100] = placeholder()\n%w : f32[70,100] = placeholder()\n"
		  "%y = mul.Tensor(%x, %w)\n%s = amax.default(%x, [1])\nreturn (%y, %s)" },
		{ 1, 2,
		  "%x : f32[70,100] = placeholder()\n%y = neg.default(%x)\n"
		  "%s = sum.dim_IntList(%x, [1])\n%m = mul.Tensor(%x, %x)\n"
		  "%q = sum.dim_IntList(%m, [1])\nreturn (%y, %s, %q)" },
		/* rows viewed as one axis, what is computed of them as two, or as four */
		{ 1, 0,
		  "%x : f32[6,35,100] = placeholder()\n%v = view.default(%x, [210, 100])\n"
		  "%s = sum.dim_IntList(%v, [1], True)\n%d = sub.Tensor(%v, %s)\n"
		  "%y = view.default(%d, [6, 35, 100])\nreturn (%y)" },
		{ 1, 0,
		  "%x : f32[210,100] = placeholder()\n%w : f32[6,5,7,100] = placeholder()\n"
		  "%s = amax.default(%x, [1], True)\n%d = div.Tensor(%x, %s)\n"
		  "%v = view.default(%d, [6, 5, 7, 100])\n%y = mul.Tensor(%v, %w)\n"
		  "%e = exp.default(%s)\n%z = view.default(%e, [30, 7])\nreturn (%y, %z)" },
		/* as one that is no product of its axes */
		{ 2, 0,
		  "%x : f32[210,100] = placeholder()\n%s = sum.dim_IntList(%x, [1], True)\n"
		  "%d = sub.Tensor(%x, %s)\n%v = view.default(%d, [300, 70])\n"
		  "%y = exp.default(%v)\nreturn (%y)" },
		/* gradients of a bias and of an activation: columns, along lanes of columns */
		{ 1, 1,
		  "%g : f32[70,100] = placeholder()\n%x : f32[70,100] = placeholder()\n"
		  "%d = mul.Tensor(%g, %x)\n%b = sum.dim_IntList(%g, [0])\nreturn (%d, %b)" },
		/* reversed rows: no read is shared */
		{ 2, 0,
		  "%x : f32[70,100] = placeholder()\n%f = flip.default(%x, [0])\n"
		  "%y = exp.default(%f)\n%s = sum.dim_IntList(%x, [1])\nreturn (%y, %s)" },
		/* the transposed operand is read in tiles, which a row would not do */
		{ 2, 0,
		  "%x : f32[96,96] = placeholder()\n%z : f32[96,96] = placeholder()\n"
		  "%t = t.default(%z)\n%y = add.Tensor(%x, %t)\n"
		  "%s = sum.dim_IntList(%x, [1])\nreturn (%y, %s)" },
		/* what it reads is complete only later */
		{ 2, 0,
		  "%x : f32[64,64] = placeholder()\n%s = sum.dim_IntList(%x, [1])\n"
		  "%t = flip.default(%s, [0])\n%y = add.Tensor(%x, %t)\nreturn (%y, %s)" },
	};
	(void)state;
	seed = 15;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct maker m;
		uint32_t beside = 0;
		lower_text(&m, cases[i].text);
		uint32_t fused = check_same_bits(&m, NULL);
		const struct stx_schedule *s = must_schedule(&m, 0);
		for (uint32_t g = 0; g < s->groups.n; g++)
			beside += s->groups.at[g].nbeside;
		if (fused != cases[i].kernels || beside != cases[i].beside)
			fail_msg("%u kernels, %u beside:\n%s", fused, beside, cases[i].text);
		stx_arena_free(m.a);
	}
}

/* x + W2 gelu(W1 norm(x) + b1) + b2, three times over. */
static void test_phases_repeated_layers_share_kernels(void **state)
{
	(void)state; /* GK-16, GF-05: matmul, bias and residual are one kernel, its result written
			once */
	enum { LAYERS = 3 };
	struct stx_bytes text = { 0 };
	struct stx_digest digest[LAYERS * 3];
	struct maker m;
	stx_bytes_printf(&text, "%%x : f32[16,48] = placeholder()\n");
	for (int i = 0; i < LAYERS; i++)
		stx_bytes_printf(
			&text,
			"%%g%d : f32[48] = placeholder()\n%%o%d : f32[48] = placeholder()\n"
			"%%w%d : f32[48,96] = placeholder()\n%%b%d : f32[96] = placeholder()\n"
			"%%v%d : f32[96,48] = placeholder()\n%%c%d : f32[48] = placeholder()\n",
			i, i, i, i, i, i);
	for (int i = 0; i < LAYERS; i++) {
		char x[16] = "x";
		if (i)
			snprintf(x, sizeof x, "r%d", i - 1);
		stx_bytes_printf(
			&text,
			"%%n%d = layer_norm.default(%%%s, [48], %%g%d, %%o%d, 1e-5)\n"
			"%%h%d = mm.default(%%n%d, %%w%d)\n%%hb%d = add.Tensor(%%%s%d, %%%s%d)\n"
			"%%a%d = gelu.default(%%hb%d)\n%%y%d = mm.default(%%a%d, %%v%d)\n"
			"%%yb%d = add.Tensor(%%y%d, %%c%d)\n%%r%d = add.Tensor(%%yb%d, %%%s)\n",
			i, x, i, i, i, i, i, i, i == 1 ? "b" : "h", i, i == 1 ? "h" : "b", i, i, i,
			i, i, i, i, i, i, i, i, x);
	}
	stx_bytes_printf(&text, "return (%%r%d)", LAYERS - 1);
	lower_text(&m, stx_bytes_cstr(&text));
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, LAYERS * 3);
	for (uint32_t i = 0; i < s->kernels.n; i++) {
		assert_int_equal(stx_kernel_digest(s->kernels.at[i], &digest[i], NULL), 0);
		if (i >= 3)
			assert_true(stx_digest_eq(&digest[i], &digest[i - 3]));
	}
	assert_int_equal(s->kernels.at[2]->params.n, 5); /* a, w, bias, residual; the sum */
	seed = 7;
	check_same_bits(&m, NULL);
	stx_bytes_free(&text);
	stx_arena_free(m.a);
}

/* ---- what must not be one kernel ---- */

static void test_phases_other_rows_and_huge_rows_stay_apart(void **state)
{
	(void)state;
	struct maker m;
	/* the result of row i is used in row 63 - i */
	lower_text(&m, "%x : f32[64,100] = placeholder()\n%s = sum.dim_IntList(%x, [1], True)\n"
		       "%r = flip.default(%s, [0])\n%y = mul.Tensor(%x, %r)\nreturn (%y)");
	assert_int_equal(check_same_bits(&m, NULL), 2);
	stx_arena_free(m.a);
	/* a column of the transposed value */
	lower_text(
		&m,
		"%x : f32[64,64] = placeholder()\n%s = sum.dim_IntList(%x, [1])\n"
		"%u = mul.Tensor(%x, %s)\n%v = unsqueeze.default(%s, 1)\n%w = mul.Tensor(%u, %v)\n"
		"return (%w)");
	assert_int_equal(check_same_bits(&m, NULL), 2);
	stx_arena_free(m.a);
	/* one grid point for everything; its two reductions are cut (split.h) */
	lower_text(&m, "%x : f32[1,1000000] = placeholder()\n%y = _softmax.default(%x, -1, "
		       "False)\nreturn (%y)");
	assert_int_equal(must_schedule(&m, 0)->kernels.n, 4 + 2);
	stx_arena_free(m.a);
}

/* GF-07 among phases: the scores end in the kernel that makes probabilities of them, which read
 * each point for the last time where they write it; the reversed rows of the second graph may not.
 */
static void test_phases_result_takes_the_place_of_what_it_read_last(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"%a : f32[64,32] = placeholder()\n%b : f32[32,80] = placeholder()\n"
		"%c : f32[80,16] = placeholder()\n%s = mm.default(%a, %b)\n"
		"%p = _softmax.default(%s, -1, False)\n%o = mm.default(%p, %c)\nreturn (%o)",
		"%a : f32[64,32] = placeholder()\n%b : f32[32,80] = placeholder()\n"
		"%c : f32[80,16] = placeholder()\n%s = mm.default(%a, %b)\n"
		"%f = flip.default(%s, [0])\n%g = add.Tensor(%s, %f)\n"
		"%p = _softmax.default(%g, -1, False)\n%o = mm.default(%p, %c)\nreturn (%o)",
	};
	for (int i = 0; i < 2; i++) {
		struct maker m;
		lower_text(&m, texts[i]);
		struct stx_schedule *s = must_schedule(&m, 0);
		uint32_t in_place = 0;
		for (uint32_t b = 0; b < m.l->buffers.n; b++)
			in_place += s->slots[b].in_place;
		assert_int_equal(in_place, i == 0);
		assert_int_equal(s->workspace_bytes, (i ? 2 : 1) * 64 * 80 * 4);
		check_same_bits(&m, NULL);
		stx_arena_free(m.a);
	}
}

/* ---- random programs ---- */

struct space { /* axes of the full level in order; some are columns */
	int64_t size[4];
	uint8_t is_column[4];
	uint32_t n;
};

static void begin(struct maker *m, const struct space *s, int level,
		  int keepdim) /* 0 full, 1 row, 2 reduce */
{
	int64_t ranges[4], rranges[4];
	uint32_t n = 0, nr = 0;
	for (uint32_t i = 0; i < s->n; i++) {
		if (level && s->is_column[i]) {
			if (level == 2)
				rranges[nr++] = s->size[i];
			if (keepdim)
				ranges[n++] = 1;
			continue;
		}
		ranges[n++] = s->size[i];
	}
	mk_begin_ints(m, n, ranges, nr, rranges);
}

/* Element of a full-level (or row-level) buffer at the point of the definition being written. */
static stx_ex here(struct maker *m, const struct space *s, const struct stx_buffer *b, int row,
		   int level, int keepdim)
{
	stx_ex e = b->layout.offset;
	uint32_t var = 0, red = m->nranges, d = 0;
	int kept = b->layout.rank == s->n;
	for (uint32_t i = 0; i < s->n; i++) {
		int col = s->is_column[i], mine = !(row && col && !kept);
		uint32_t v = !level || !col ? var : red;
		var += !level || !col || keepdim;
		red += level && col;
		if (!mine)
			continue;
		if (!(row && col))
			e = stx_ex_add(m->x, e,
				       stx_ex_mul(m->x, mk_var(m, v), b->layout.strides[d]));
		d++;
	}
	return e;
}

struct known {
	const struct stx_buffer *at[40];
	uint8_t row[40];
	uint32_t n;
};

static uint32_t random_load(struct maker *m, const struct space *s, const struct known *k,
			    int level, int keepdim)
{
	uint32_t i;
	do
		i = k->n - 1 - rnd(k->n < 6 ? k->n : 6);
	while (level == 1 && !k->row[i] && (i = 1, !k->row[1]));
	uint32_t v = mk_load(m, k->at[i], here(m, s, k->at[i], k->row[i], level, keepdim));
	return k->at[i]->dtype == STX_F32 ? v : mk_op(m, STX_P_CAST, STX_F32, v, 0);
}

static uint32_t random_value(struct maker *m, const struct space *s, const struct known *k,
			     int level, int keepdim)
{
	static const enum stx_prim ops[] = { STX_P_ADD, STX_P_SUB, STX_P_MUL, STX_P_MAX };
	uint32_t v = random_load(m, s, k, level, keepdim);
	for (uint32_t i = rnd(3); i-- > 0;)
		v = mk_op(m, ops[rnd(4)], STX_F32, v, random_load(m, s, k, level, keepdim));
	if (!rnd(3))
		v = mk_op(m, rnd(2) ? STX_P_EXP : STX_P_TANH, STX_F32, v, 0);
	return mk_op(m, STX_P_MUL, STX_F32, v, mk_constant(m, STX_F32, 0.3));
}

static void random_program(struct maker *m, int64_t symbolic)
{
	static const enum stx_monoid monoids[] = { STX_MONOID_SUM, STX_MONOID_SUM, STX_MONOID_MAX,
						   STX_MONOID_PROD };
	static const int64_t sizes[] = { 1, 2, 3, 5, 8, 17, 64, 70, 130 };
	struct space s = { .n = 1 + rnd(3) };
	struct known k = { .n = 2 };
	maker_init(m);
	if (symbolic)
		mk_symbolic(m, symbolic);
	for (uint32_t i = 0; i < s.n; i++) {
		s.size[i] = sizes[rnd(s.n == 3 ? 7 : 9)];
		s.is_column[i] = (uint8_t)(i + 1 == s.n ? 1 : rnd(2));
	}
	if (s.n > 1 && rnd(2)) /* columns first */
		for (uint32_t i = 0; i < s.n; i++)
			s.is_column[i] = !s.is_column[i];
	int any = 0;
	for (uint32_t i = 0; i < s.n; i++)
		any |= s.is_column[i];
	s.is_column[0] |= (uint8_t)!any;
	/* 0: a full-level input, its axes sometimes the other way round; 1: a row-level one */
	struct stx_buffer *x = mk_input(m, STX_F32, s.n, s.size);
	if (s.n > 1 && rnd(2)) {
		stx_ex strides[4], stride = mk_const(m, 1), exs[4];
		memcpy(exs, x->layout.sizes, s.n * sizeof *exs);
		for (uint32_t i = 0; i < s.n; i++) {
			strides[i] = stride;
			stride = stx_ex_mul(m->x, stride, exs[i]);
		}
		x->layout = mk_layout(m, s.n, exs, strides);
	}
	k.at[0] = x;
	int64_t rows[4];
	uint32_t nrows = 0;
	for (uint32_t i = 0; i < s.n; i++)
		if (!s.is_column[i])
			rows[nrows++] = s.size[i];
	k.at[1] = mk_input(m, STX_F32, nrows, rows);
	k.row[1] = 1;
	uint32_t n = 2 + rnd(8);
	for (uint32_t i = 0; i < n; i++) {
		static const int levels[] = { 2, 0, 2, 1, 0 };
		int level = levels[rnd(5)], keepdim = level && rnd(2);
		enum stx_buffer_kind kind = i + 1 == n || !rnd(4) ? STX_BUF_OUTPUT : STX_BUF_TEMP;
		enum stx_dtype t = rnd(6) ? STX_F32 : STX_BF16;
		begin(m, &s, level, keepdim);
		uint32_t v = random_value(m, &s, &k, level, keepdim);
		if (level == 2) {
			k.at[k.n] = mk_end(m, kind, t, STX_DEF_REDUCTION, monoids[rnd(4)], STX_F32,
					   v, 0);
		} else {
			v = t == STX_F32 ? v : mk_op(m, STX_P_CAST, t, v, 0);
			k.at[k.n] = mk_pointwise(m, kind, t, v);
		}
		k.row[k.n++] = level != 0;
	}
}

static void test_phases_random_programs_have_the_bits_of_single_kernels(void **state)
{
	(void)state; /* MR-01, RZ-12, LN-07 */
	unsigned rounds =
		getenv("STAX_TEST_ROUNDS") ? (unsigned)atoi(getenv("STAX_TEST_ROUNDS")) : 300;
	unsigned first = getenv("STAX_TEST_SEED")
				 ? (unsigned)strtoul(getenv("STAX_TEST_SEED"), NULL, 0)
				 : 9000;
	uint32_t fused = 0, unfused = 0, single = 0;
	for (unsigned i = 0; i < rounds; i++) {
		struct maker m;
		uint32_t n;
		start = seed = first + i;
		random_program(&m, i % 4 ? 0 : 64);
		seed = first + i;
		uint32_t f = check_same_bits(&m, &n);
		fused += f;
		single += f == 1 && n > 2;
		unfused += n;
		stx_arena_free(m.a);
	}
	print_message(
		"seeds %u .. %u: %u kernels fused, %u unfused; %u programs became one kernel\n",
		first, first + rounds - 1, fused, unfused, single);
	assert_true(fused * 2 < unfused);
	assert_true(single * 8 > rounds);
}

/* Several values of one reduction: one accumulator, whose states are the results. */
static void test_phases_values_of_one_reduction_share_an_accumulator(void **state)
{
	(void)state;
	struct maker m;
	lower_text(&m, "%x : f32[64,1000] = placeholder()\n%m = max.dim(%x, 1)\n"
		       "%v = var_mean.correction(%x, [1])\nreturn (%m, %m:1, %v, %v:1)");
	struct stx_schedule *s = must_schedule(&m, 0);
	assert_int_equal(s->kernels.n, 1);
	assert_int_equal(count_ops(s->kernels.at[0], STX_K_ACC), 2);
	assert_int_equal(count_ops(s->kernels.at[0], STX_K_UPDATE), 2);
	assert_int_equal(count_ops(s->kernels.at[0], STX_K_RESULT), 4);
	check_same_bits(&m, NULL);
	stx_arena_free(m.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_phases_softmax_is_one_kernel),
		cmocka_unit_test(test_phases_layer_norm_is_one_kernel),
		cmocka_unit_test(test_phases_logsumexp_is_one_kernel),
		cmocka_unit_test(test_phases_chains_are_one_kernel_with_the_same_bits),
		cmocka_unit_test(test_phases_rows_of_any_length_are_one_kernel),
		cmocka_unit_test(test_phases_share_an_input_across_spaces),
		cmocka_unit_test(test_phases_repeated_layers_share_kernels),
		cmocka_unit_test(test_phases_other_rows_and_huge_rows_stay_apart),
		cmocka_unit_test(test_phases_values_of_one_reduction_share_an_accumulator),
		cmocka_unit_test(test_phases_result_takes_the_place_of_what_it_read_last),
		cmocka_unit_test(test_phases_random_programs_have_the_bits_of_single_kernels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
