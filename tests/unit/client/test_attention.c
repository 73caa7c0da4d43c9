/* test_attention.c: attention through a cuDNN that computes on the host, from graph to call, against
 * the oracle: layouts, heads that share keys, what is no call, the steps that a call stands for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tune_case.h"

static const char *const types[2] = { "f16", "bf16" };
/* Weights rounded to the type, of values up to 2, and one rounding of the result. */
static const double errors[2] = { 4e-3, 3e-2 };

/* ---- random ones ---- */

struct drawn {
	int64_t b, h, kv, s, keys, d, to;
	int is_causal, last; /* heads of q, k, v and y lie behind the rows */
};

static void draw(struct drawn *q)
{
	static const int64_t heads[] = { 1, 2, 4, 6 };
	q->b = 1 + below(3);
	q->h = heads[below(4)];
	q->kv = below(2) && q->h % 2 == 0 ? q->h / 2 : q->h;
	q->s = 8 + below(20);
	q->keys = 8 + below(20);
	q->d = 8 * (1 + (int64_t)below(4));
	q->to = below(2) ? q->d : 8 * (1 + (int64_t)below(4));
	q->is_causal = (int)below(2);
	q->last = (int)below(2);
}

static void put_operand(struct stx_bytes *b, const struct drawn *q, const char *name,
			const char *type, int64_t heads, int64_t rows, int64_t size)
{
	const long long n[4] = { q->b, q->last ? rows : heads, q->last ? heads : rows, size };
	stx_bytes_printf(b, "%%%s0 : %s[%lld,%lld,%lld,%lld] = placeholder()\n", name, type, n[0],
			 n[1], n[2], n[3]);
	if (q->last)
		stx_bytes_printf(b, "%%%s = permute.default(%%%s0, [0, 2, 1, 3])\n", name, name);
}

/* mask: what masks it, in words of the graph */
static void put_attention(struct stx_bytes *b, const struct drawn *q, const char *mask)
{
	const char *z = q->last ? "" : "0";
	stx_bytes_printf(b,
			 "%%y = scaled_dot_product_attention.default(%%q%s, %%k%s, %%v%s, %s, "
			 "0.0, %s, scale=0.25, enable_gqa=True)\n",
			 z, z, z, mask, q->is_causal ? "True" : "False");
	stx_bytes_puts(b, q->last ? "%p = permute.default(%y, [0, 2, 1, 3])\n%r = "
				    "clone.default(%p)\nreturn (%r,)\n"
				  : "return (%y,)\n");
}

static void put_operands(struct stx_bytes *b, const struct drawn *q, const char *type)
{
	put_operand(b, q, "q", type, q->h, q->s, q->d);
	put_operand(b, q, "k", type, q->kv, q->keys, q->d);
	put_operand(b, q, "v", type, q->kv, q->keys, q->to);
}

static void test_attention_random_ones_are_calls_and_agree_with_the_oracle(void **state)
{
	(void)state;
	print_message("seed %llu\n", (unsigned long long)seed);
	for (int i = 0; i < 16; i++) {
		struct stx_bytes b = { 0 };
		struct drawn q;
		int t = (int)below(2);
		draw(&q);
		put_operands(&b, &q, types[t]);
		put_attention(&b, &q, "None");
		tolerance = errors[t];
		struct counts c = check(stx_bytes_cstr(&b));
		if (c.calls != 1 || c.launches != 0)
			fail_msg("%d calls, %d launches for\n%s", (int)c.calls, (int)c.launches,
				 stx_bytes_cstr(&b));
		assert_int_equal(dnn->attention.is_causal, q.is_causal);
		assert_true(dnn->attention.scale == 0.25f);
		assert_int_equal(dnn->attention.k.size[1], q.kv);
		stx_bytes_free(&b);
	}
	assert_int_equal(dnn->alive, 0);
}

/* Queries, keys and values are slices of one product, and the result lies as the next one reads it:
 * no copies. */
static void test_attention_of_a_layer_reads_slices(void **state)
{
	(void)state;
	tolerance = 0.25; /* of products of the result with 16 numbers below 2 */
	struct counts c = check(
		"%x : f16[2,24,16] = placeholder()\n%w : f16[16,96] = placeholder()\n"
		"%o : f16[32,16] = placeholder()\n"
		"%a = matmul.default(%x, %w)\n%r = view.default(%a, [2, 24, 3, 4, 8])\n"
		"%p = permute.default(%r, [2, 0, 3, 1, 4])\n%q = select.int(%p, 0, 0)\n"
		"%k = select.int(%p, 0, 1)\n%v = select.int(%p, 0, 2)\n"
		"%y = scaled_dot_product_attention.default(%q, %k, %v, None, 0.0, True)\n"
		"%t = permute.default(%y, [0, 2, 1, 3])\n%u = reshape.default(%t, [2, 24, 32])\n"
		"%z = matmul.default(%u, %o)\nreturn (%z,)\n");
	assert_int_equal(c.launches, 2); /* the small products */
	assert_int_equal(c.calls, 1);
	assert_int_equal(dnn->attention.v.stride[2], 96);
	assert_int_equal(dnn->attention.y.stride[1], 8);
	assert_int_equal(dnn->attention.y.stride[2], 32);
}

/* ---- what is no call ---- */

#define QKV(type)                                                                                  \
	"%q : " type "[1,2,16,16] = placeholder()\n%k : " type "[1,2,24,16] = placeholder()\n"     \
	"%v : " type "[1,2,24,16] = placeholder()\n"
static const char plain[] = QKV("f16") "%y = scaled_dot_product_attention.default(%q, %k, %v)\n"
				       "return (%y,)\n";

static void test_attention_that_the_library_cannot_make_is_kernels(void **state)
{
	(void)state;
	static const char *const graphs[] = {
		QKV("f32") "%y = scaled_dot_product_attention.default(%q, %k, %v)\nreturn (%y,)\n",
		/* heads of 12 elements */
		"%q : f16[1,2,16,12] = placeholder()\n"
		"%y = scaled_dot_product_attention.default(%q, %q, %q)\nreturn (%y,)\n",
		/* the scores are wanted */
		"%q : f16[2,16,16] = placeholder()\n%k : f16[2,16,24] = placeholder()\n"
		"%v : f16[2,24,16] = placeholder()\n%a = _to_copy.default(%q, dtype=f32)\n"
		"%b = _to_copy.default(%k, dtype=f32)\n%s = bmm.default(%a, %b)\n"
		"%p = _softmax.default(%s, -1, False)\n%c = _to_copy.default(%v, dtype=f32)\n"
		"%o = bmm.default(%p, %c)\n%y = _to_copy.default(%o, dtype=f16)\n"
		"return (%y, %s)\n",
		/* a query does not see its own key */
		"%q : f16[2,16,16] = placeholder()\n%k : f16[2,16,24] = placeholder()\n"
		"%v : f16[2,24,16] = placeholder()\n%a = _to_copy.default(%q, dtype=f32)\n"
		"%b = _to_copy.default(%k, dtype=f32)\n%s = bmm.default(%a, %b)\n"
		"%i = arange.start_step(0, 16, 1, dtype=i64)\n%j = unsqueeze.default(%i, 1)\n"
		"%l = arange.start_step(0, 24, 1, dtype=i64)\n%g = ge.Tensor(%l, %j)\n"
		"%n = full.default([], -1e9, dtype=f32)\n%w = where.self(%g, %n, %s)\n"
		"%p = _softmax.default(%w, -1, False)\n%c = _to_copy.default(%v, dtype=f32)\n"
		"%o = bmm.default(%p, %c)\n%y = _to_copy.default(%o, dtype=f16)\nreturn (%y,)\n",
	};
	tolerance = 2e-2;
	for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
		uint32_t calls = dnn->calls;
		check(graphs[i]);
		if (dnn->calls != calls)
			fail_msg("a call for\n%s", graphs[i]);
	}
	is_fast = 0; /* strict rounds no weights */
	uint32_t calls = dnn->calls;
	check(plain);
	is_fast = 1;
	assert_int_equal(dnn->calls, calls);
}

/* ---- masks ---- */

static void put_mask(struct stx_bytes *b, const struct drawn *q, const char *type, int kind)
{
	long long n[4] = { below(2) ? q->b : 1, below(2) ? q->h : 1, below(2) ? q->s : 1, q->keys };
	stx_bytes_printf(b, "%%a : bool[%lld,%lld,%lld,%lld] = placeholder()\n", n[0], n[1], n[2],
			 n[3]);
	switch (kind) {
	case 0: /* now and then no key at all */
		stx_bytes_printf(b, "%%c : bool[%lld,1] = placeholder()\n", (long long)q->s);
		stx_bytes_puts(b, "%m = logical_and.default(%a, %c)\n");
		break;
	case 1: stx_bytes_puts(b, "%m = logical_or.default(%a, %a)\n"); break;
	case 2: /* numbers, of which some are -infinity, of whole rows of keys too */
		stx_bytes_printf(b, "%%f : %s[%lld,%lld] = placeholder()\n", type, (long long)q->s,
				 (long long)q->keys);
		stx_bytes_printf(b, "%%c : bool[%lld,1] = placeholder()\n", (long long)q->s);
		stx_bytes_printf(b, "%%i = full.default([], -inf, dtype=%s)\n", type);
		stx_bytes_puts(b, "%d = logical_and.default(%a, %c)\n"
				  "%m = where.self(%d, %f, %i)\n");
		break;
	default:
		stx_bytes_printf(b, "%%m : %s[%lld,%lld,%lld,%lld] = placeholder()\n", type, n[0],
				 n[1], n[2], n[3]);
	}
}

/* A mask is a bias in memory of the dimensions that it depends on; a query without keys gets 0. One
 * kernel makes both the bias and what hides queries, from one reading; another applies that. */
static void test_attention_random_masks_are_biases_of_the_call(void **state)
{
	(void)state;
	for (int i = 0; i < 32; i++) {
		struct stx_bytes b = { 0 };
		struct drawn q;
		int t = (int)below(2), kind = i % 4;
		draw(&q);
		q.is_causal = 0; /* the operator has one or the other */
		put_operands(&b, &q, types[t]);
		put_mask(&b, &q, types[t], kind);
		put_attention(&b, &q, "%m");
		tolerance = errors[t];
		uint32_t calls = dnn->calls;
		struct counts c = check(stx_bytes_cstr(&b));
		if (dnn->calls != calls + 1 || c.launches != 2)
			fail_msg("%d calls, %d launches for\n%s", (int)(dnn->calls - calls),
				 (int)c.launches, stx_bytes_cstr(&b));
		assert_int_equal(dnn->attention.bias.rank, 4);
		assert_int_equal(dnn->attention.bias.size[3], q.keys);
		dnn->offered = 0; /* the steps read the same bias */
		calls = dnn->calls;
		check(stx_bytes_cstr(&b));
		assert_int_equal(dnn->calls, calls);
		dnn->offered = 3;
		stx_bytes_free(&b);
	}
	assert_int_equal(dnn->alive, 0);
}

/* One row of keys for all queries stays one; of another type than the operands it is f32; later
 * keys may be hidden beside it; without a guard for rows of nothing there is no other kernel. */
static void test_attention_masks_spelt_out_are_biases(void **state)
{
	(void)state;
	tolerance = errors[0];
	struct counts c = check(
		"%q : f16[2,16,16] = placeholder()\n%k : f16[2,24,16] = placeholder()\n"
		"%v : f16[2,24,16] = placeholder()\n%m : f32[2,1,24] = placeholder()\n"
		"%a = _to_copy.default(%q, dtype=f32)\n%b = _to_copy.default(%k, dtype=f32)\n"
		"%x = transpose.int(%b, 1, 2)\n%s = bmm.default(%a, %x)\n"
		"%t = div.Scalar(%s, 4.0)\n%u = add.Tensor(%t, %m)\n"
		"%i = arange.start_step(0, 16, 1, dtype=i64)\n%j = unsqueeze.default(%i, 1)\n"
		"%l = arange.start_step(0, 24, 1, dtype=i64)\n%g = gt.Tensor(%l, %j)\n"
		"%n = full.default([], -inf, dtype=f32)\n%w = where.self(%g, %n, %u)\n"
		"%p = _softmax.default(%w, -1, False)\n%c = _to_copy.default(%v, dtype=f32)\n"
		"%o = bmm.default(%p, %c)\n%y = _to_copy.default(%o, dtype=f16)\nreturn (%y,)\n");
	assert_int_equal(c.calls, 1);
	assert_int_equal(c.launches, 1);
	assert_true(dnn->attention.is_causal);
	assert_int_equal(dnn->attention.bias.type, 0);
	assert_int_equal(dnn->attention.bias.size[0], 2);
	assert_int_equal(dnn->attention.bias.size[2], 1);
	uint32_t calls = dnn->calls;
	/* a mask that is made from the scores themselves */
	check("%q : f16[2,16,16] = placeholder()\n%k : f16[2,24,16] = placeholder()\n"
	      "%v : f16[2,24,16] = placeholder()\n%a = _to_copy.default(%q, dtype=f32)\n"
	      "%b = _to_copy.default(%k, dtype=f32)\n%x = transpose.int(%b, 1, 2)\n"
	      "%s = bmm.default(%a, %x)\n%n = full.default([], -inf, dtype=f32)\n"
	      "%g = gt.Scalar(%s, 1000.0)\n%w = where.self(%g, %n, %s)\n"
	      "%p = _softmax.default(%w, -1, False)\n%c = _to_copy.default(%v, dtype=f32)\n"
	      "%o = bmm.default(%p, %c)\n%y = _to_copy.default(%o, dtype=f16)\nreturn (%y,)\n");
	assert_int_equal(dnn->calls, calls);
}

/* The same spelt out, without a guard for rows of nothing. */
static void test_attention_spelt_out_is_a_call(void **state)
{
	(void)state;
	tolerance = errors[1];
	struct counts c =
		check("%q : bf16[2,16,16] = placeholder()\n%k : bf16[2,24,16] = placeholder()\n"
		      "%v : bf16[2,24,16] = placeholder()\n%a = _to_copy.default(%q, dtype=f32)\n"
		      "%b = _to_copy.default(%k, dtype=f32)\n%x = transpose.int(%b, 1, 2)\n"
		      "%s = bmm.default(%a, %x)\n%t = div.Scalar(%s, 4.0)\n"
		      "%p = _softmax.default(%t, -1, False)\n%c = _to_copy.default(%v, dtype=f32)\n"
		      "%o = bmm.default(%p, %c)\n%y = _to_copy.default(%o, dtype=bf16)\n"
		      "return (%y,)\n");
	assert_int_equal(c.calls, 1);
	assert_true(dnn->attention.scale == 0.25f);
}

/* In strict the weights stay f32: their product is the library's of widened values, as causal masks
 * and heads that share keys leave it. */
static void test_attention_in_strict_multiplies_widened_values(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		char text[400];
		snprintf(text, sizeof text,
			 "%%q : bf16[1,4,64,128] = placeholder()\n"
			 "%%k : bf16[1,%d,128,128] = placeholder()\n"
			 "%%v : bf16[1,%d,128,128] = placeholder()\n"
			 "%%y = scaled_dot_product_attention.default(%%q, %%k, %%v, None, 0.0, %s, "
			 "scale=0.1, enable_gqa=True)\nreturn (%%y,)\n",
			 i ? 2 : 4, i ? 2 : 4, i ? "True" : "False");
		tolerance = errors[1] / 4;
		is_fast = 0;
		uint32_t fused = dnn->calls;
		struct counts c = check(text);
		is_fast = 1;
		assert_int_equal(dnn->calls, fused);
		assert_int_equal(c.calls, 2);
		assert_int_equal(last_call()->d.type, 0); /* CUDA_R_32F */
	}
}

/* ---- the steps that the call stands for ---- */

static void is_by_steps(void)
{
	uint32_t calls = dnn->calls;
	struct counts c = check(plain);
	assert_int_equal(dnn->calls, calls);
	assert_true(c.launches > 1);
}

static void test_attention_without_an_engine_runs_the_steps(void **state)
{
	(void)state;
	tolerance = errors[0];
	assert_int_equal(check(plain).calls, 1);
	dnn->offered = 0;
	is_by_steps();
	dnn->offered = 3;
	dnn->no_plan = 0;
	assert_int_equal(check(plain).calls, 1);
	assert_int_equal(dnn->attention.engine, 1);
	dnn->no_plan = -1;
	dnn->refuse_handle = 1001;
	is_by_steps();
	dnn->refuse_handle = 0;
	dnn->workspace_bytes = (int64_t)1 << 40;
	is_by_steps();
	dnn->workspace_bytes = 4096;
	assert_int_equal(dnn->alive, 0);
}

/* ---- one attention, ready to run ---- */

static const struct stax_artifact *measured;
static struct stx_bytes objects[64]; /* the driver keeps no copies */
static int nobjects;

struct one {
	struct compiled c;
	_Alignas(16) uint16_t q[512 + 8], k[768 + 8], v[768 + 8], y[512], want[512];
	struct stx_tensor in[3], out;
};

static int run_one(struct one *o, struct stax_error *err)
{
	memset(o->y, 0x7F, sizeof o->y);
	return stax_run(o->c.artifact, o->in, 3, &o->out, 1, NULL, err);
}

static struct one *one_new(void)
{
	struct one *o = aligned_alloc(16, (sizeof *o + 15) / 16 * 16);
	uint16_t *const at[4] = { o->q, o->k, o->v, o->y };
	struct stax_error err;
	memset(o, 0, sizeof *o);
	build(plain, &o->c);
	for (int i = 0; i < 4; i++) {
		struct stx_tensor *t = i < 3 ? &o->in[i] : &o->out;
		const int64_t sizes[4] = { 1, 2, i == 1 || i == 2 ? 24 : 16, 16 };
		t->data = at[i];
		t->dtype = STX_F16;
		t->rank = 4;
		memcpy(t->sizes, sizes, sizeof sizes);
		compiled_dense(t);
		for (int64_t k = 0; i < 3 && k < compiled_numel(t) + 8; k++)
			at[i][k] = (uint16_t)(below(2) ? 0x3C00 : 0xB800); /* 1, -0.5 */
	}
	dnn->offered = 0;
	assert_int_equal(run_one(o, &err), 0);
	dnn->offered = 3;
	memcpy(o->want, o->y, sizeof o->want);
	compiled_free(&o->c);
	build(plain, &o->c);
	return o;
}

static void one_free(struct one *o)
{
	compiled_free(&o->c);
	while (nobjects)
		stx_bytes_free(&objects[--nobjects]);
	free(o);
}

/* The engine that a run takes, -1: the steps. Its result is right. */
static int taken(struct one *o)
{
	struct stax_error err;
	dnn->attention.engine = -1;
	if (run_one(o, &err))
		fail_msg("%s", err.text);
	for (int i = 0; i < 512; i++) {
		double x = stx_scalar_load(STX_F16, &o->y[i]).f;
		double y = stx_scalar_load(STX_F16, &o->want[i]).f;
		assert_true(fabs(x - y) <= errors[0]);
	}
	return dnn->attention.engine;
}

/* Every configuration's code is the kernel's own. */
static stx_err code_of(const struct stx__about *b, const uint8_t kernel[STX_DIGEST_BYTES],
		       const char *config, struct stx__received *out, struct stx_diag *d)
{
	const struct stx_plan *p = &measured->plan;
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__KernelCodeReply r = STX__KERNEL_CODE_REPLY__INIT;
	Stx__Kernel said = STX__KERNEL__INIT;
	struct stx_bytes *object = &objects[nobjects++];
	uint32_t k = 0, n, i = 0;
	(void)b;
	while (memcmp(p->kernels[k].digest, kernel, STX_DIGEST_BYTES) != 0)
		k++;
	const struct stx_plan_config *c = stx_plan_configs(p, k, &n);
	while (strcmp(stx_plan_string(p, c[i].text), config) != 0)
		i++;
	assert_int_equal(stx_data_object(STX_CUBIN_SECTION, stx_plan_string(p, c[i].symbol),
					 measured->gpu->cubins[k], object, d),
			 0);
	e.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE_REPLY;
	e.kernel_code_reply = &r;
	r.kernel = &said;
	uint8_t *packed = malloc(stx__envelope__get_packed_size(&e) + 1);
	size_t bytes = stx__envelope__pack(&e, packed);
	memset(out, 0, sizeof *out);
	out->e = stx__envelope__unpack(NULL, bytes, packed);
	out->body = (struct stx_span){ object->at, object->n };
	free(packed);
	return STX_E_OK;
}

static const struct stx__source source = { .records = fake_records, .code = code_of };

static void measure_one(struct one *o)
{
	struct stax_tuning t = { .target = TARGET, .report = report, .runs = 3 };
	struct stax_error err;
	if (stax_tune_next_run(o->c.artifact, NULL, &t, &err))
		fail_msg("%s", err.text);
	o->c.artifact->tuner->source = &source;
	measured = o->c.artifact;
	assert_int_equal(run_one(o, &err), 0);
}

/* The engines are given whole runs of 16 bytes: an operand that lies on its elements is moved. */
static void test_attention_failures_of_the_library_and_moved_operands(void **state)
{
	(void)state;
	struct one *o = one_new();
	struct stax_error err;
	assert_int_equal(taken(o), 0);
	uint32_t calls = dnn->calls;
	o->in[1].offset = 1;
	assert_int_equal(run_one(o, &err), 0);
	assert_int_equal(dnn->calls, calls + 1);
	o->in[1].offset = 0;
	assert_int_equal(taken(o), 0);
	dnn->refuse = 5000; /* EXECUTION_FAILED: it had begun */
	assert_int_equal(run_one(o, &err), STX_E_INTERNAL);
	dnn->refuse = 3000;
	assert_int_equal(taken(o), -1);
	dnn->refuse = 0;
	assert_string_equal(err.node, "cudnn.attention");
	one_free(o);
}

/* Engines are measured against the steps; one whose results differ, or that writes none, is out. */
static void test_attention_tune_fastest_is_taken_and_wrong_ones_are_not(void **state)
{
	(void)state;
	struct one *o = one_new();
	struct stax_tuned t[8];
	forget();
	kernel_ns = 50000;
	dnn->ns[0] = 9000;
	dnn->ns[1] = 5000;
	dnn->ns[2] = 7000;
	measure_one(o);
	assert_int_equal(taken(o), 1);
	int n = stax_tuned(o->c.artifact, t, 8);
	assert_string_equal(t[n - 1].kernel, "attention_f16_1x2x16x16_keys24");
	assert_string_equal(t[n - 1].chosen, "dnn91900 engine=1 2=2");
	assert_int_equal(t[n - 1].candidates, 4);
	one_free(o);
	o = one_new();
	forget();
	dnn->wrong = 1;
	measure_one(o);
	dnn->wrong = -1;
	assert_non_null(strstr(lines, "engine=1 2=2: rejected: argument"));
	assert_int_equal(taken(o), 2);
	one_free(o);
	o = one_new();
	forget();
	kernel_ns = 500;
	measure_one(o);
	assert_int_equal(taken(o), -1);
	one_free(o);
	memset(dnn->ns, 0, sizeof dnn->ns);
	assert_int_equal(dnn->alive, 0);
}

/* ---- memory ---- */

struct taken {
	size_t bytes, most;
	int n;
};

static void *take(void *ctx, size_t bytes, size_t align)
{
	struct taken *t = ctx;
	t->n++;
	t->bytes += bytes;
	t->most = t->bytes > t->most ? t->bytes : t->most;
	return aligned_alloc(align, (bytes + align) & ~(align - 1));
}

static void give(void *ctx, void *p, size_t bytes)
{
	struct taken *t = ctx;
	t->bytes -= bytes;
	free(p);
}

/* The scores' memory is taken by runs that make the steps only, whosever memory it is. */
static void test_attention_scores_have_memory_where_the_steps_are_made_only(void **state)
{
	(void)state;
	struct one *o = one_new();
	struct stax_error err;
	size_t bytes = 0, scores = 2 * 16 * 24 * 4;
	for (int i = 0; i < 6; i++) {
		struct taken t = { 0 };
		struct stx_env env = { .ctx = &t, .allocate = take, .release = give };
		dnn->refuse = i % 3 == 1 ? 3000 : 0;
		if (stax_run(o->c.artifact, o->in, 3, &o->out, 1, i < 3 ? &env : NULL, &err))
			fail_msg("%s", err.text);
		assert_int_equal(t.bytes, 0);
		assert_int_equal(t.n, i >= 3 ? 0 : 1 + (i == 1));
		if (i == 0)
			bytes = t.most;
		if (i == 1)
			assert_true(t.most >= bytes + scores);
		assert_int_equal(taken(o), i % 3 == 1 ? -1 : 0);
	}
	dnn->refuse = 0;
	struct stx_tensor out;
	size_t workspace = 0;
	assert_int_equal(stax_query(o->c.artifact, o->in, 3, &out, &workspace, &err), 0);
	assert_int_equal(workspace, bytes);
	assert_true(bytes < ((size_t)4 << 20) + scores); /* the engines' and nothing else */
	one_free(o);
}

static void test_attention_hostile_plans_are_refused(void **state)
{
	(void)state;
	struct one *o = one_new();
	struct tampered t;
	tamper_begin(&t, &o->c);
	assert_int_equal(t.n, STX_ATTENTION_NATTRS);
	assert_true(count_refused(&t) > STX_ATTENTION_NATTRS * 4);
	for (uint32_t i = 0; i < 4; i++) /* never past its memory */
		assert_true(is_refused(
			&t, STX_ATTENTION_Q + STX_ARRAY_NATTRS * i + STX_ARRAY_OFFSET, 1));
	tamper_end(&t);
	one_free(o);
}

static int setup(void **state)
{
	is_fast = 1;
	return calls_setup(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attention_random_ones_are_calls_and_agree_with_the_oracle),
		cmocka_unit_test(test_attention_of_a_layer_reads_slices),
		cmocka_unit_test(test_attention_that_the_library_cannot_make_is_kernels),
		cmocka_unit_test(test_attention_random_masks_are_biases_of_the_call),
		cmocka_unit_test(test_attention_masks_spelt_out_are_biases),
		cmocka_unit_test(test_attention_spelt_out_is_a_call),
		cmocka_unit_test(test_attention_in_strict_multiplies_widened_values),
		cmocka_unit_test(test_attention_without_an_engine_runs_the_steps),
		cmocka_unit_test(test_attention_failures_of_the_library_and_moved_operands),
		cmocka_unit_test(test_attention_tune_fastest_is_taken_and_wrong_ones_are_not),
		cmocka_unit_test(test_attention_scores_have_memory_where_the_steps_are_made_only),
		cmocka_unit_test(test_attention_hostile_plans_are_refused),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
