/* test_realize.c: which values are realised, at the limits the seed states (RZ items). */
#include "lowering.h"

static struct stx_bytes text;

static void add(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void add(const char *fmt, ...)
{
	char line[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof line, fmt, ap);
	va_end(ap);
	stx_bytes_puts(&text, line);
}

/* The rule that realised the value %v with two users, or NULL when it was inlined. */
static const char *rule_for(const char *head, int gpu, uint32_t users)
{
	struct low w;
	static char rule[32];
	const char *found = NULL;
	uint32_t i;

	stx_bytes_clear(&text);
	stx_bytes_puts(&text, head);
	for (i = 0; i < users; i++)
		add("%%u%u = neg.default(%%v)\n", i);
	add("return (");
	for (i = 0; i < users; i++)
		add("%%u%u,", i);
	add(")\n");
	low_start(&w, stx_bytes_cstr(&text), (struct stx_lower_options){ .target_gpu = gpu });
	for (i = 0; i < w.l->buffers.n; i++)
		if (w.l->buffers.at[i]->kind == STX_BUF_TEMP) {
			snprintf(rule, sizeof rule, "%s",
				 stx_realized_text(w.l->buffers.at[i]->rule));
			found = rule;
		}
	low_end(&w);
	return found;
}

/* %v after n operations on one input. */
static const char *chain(uint32_t n)
{
	static char out[16384];
	size_t at = (size_t)snprintf(out, sizeof out, "%%x0 : f32[8] = placeholder()\n");
	uint32_t i;

	for (i = 0; i < n; i++)
		at += (size_t)snprintf(out + at, sizeof out - at, "%%%s%u = neg.default(%%x%u)\n",
				       i + 1 == n ? "v" : "x", i + 1, i);
	/* the last is %v<n>; name it %v through a view that adds no operation */
	snprintf(out + at, sizeof out - at, "%%v = clone.default(%%v%u)\n", n);
	return out;
}

/* %v = sum of `loads` reads of `buffers` inputs. */
static const char *reads(uint32_t loads, uint32_t buffers)
{
	static char out[16384];
	size_t at = 0;
	uint32_t i;

	for (i = 0; i < buffers; i++)
		at += (size_t)snprintf(out + at, sizeof out - at,
				       "%%x%u : f32[8] = placeholder()\n", i);
	at += (size_t)snprintf(out + at, sizeof out - at, "%%s1 = clone.default(%%x0)\n");
	for (i = 1; i < loads; i++)
		at += (size_t)snprintf(out + at, sizeof out - at,
				       "%%s%u = add.Tensor(%%s%u, %%x%u)\n", i + 1, i, i % buffers);
	snprintf(out + at, sizeof out - at, "%%v = clone.default(%%s%u)\n", loads);
	return out;
}

/* RZ-06: 30/31 on the GPU, 50/51 on the CPU. */
static void test_realize_operation_limit(void **state)
{
	(void)state;
	assert_null(rule_for(chain(30), 1, 2));
	assert_string_equal(rule_for(chain(31), 1, 2), "ops>30");
	assert_null(rule_for(chain(50), 0, 2));
	assert_string_equal(rule_for(chain(51), 0, 2), "ops>50");
}

/* As many loads of as many buffers are inlined for two users; one more of both, or of loads when
 * the buffers stay two, is realised by the rule. */
static void reads_limit(int gpu, uint32_t loads, int of_buffers, const char *rule)
{
	assert_null(rule_for(reads(loads, of_buffers ? loads : 2), gpu, 2));
	assert_string_equal(rule_for(reads(loads + 1, of_buffers ? loads + 1 : 2), gpu, 2), rule);
}

/* RZ-07: 4/5 buffers. */
static void test_realize_buffer_limit(void **state)
{
	(void)state;
	reads_limit(0, 4, 1, "reads>4");
	reads_limit(1, 4, 1, "reads>4");
}

/* RZ-08: 8/9 accumulated reads on the GPU, 12/13 on the CPU. */
static void test_realize_accumulated_reads_limit(void **state)
{
	(void)state;
	reads_limit(1, 8, 0, "loads>8");
	reads_limit(0, 12, 0, "loads>12");
}

/* RZ-04, RZ-11: a two-user tanh is realised on the CPU and inlined on the GPU. */
static void test_realize_expensive_functions_on_cpu_only(void **state)
{
	static const char *const ops[] = {
		"exp", "log", "log10", "log1p", "log2", "sigmoid", "tanh"
	};
	char head[128];
	uint32_t i;

	(void)state;
	for (i = 0; i < 7; i++) {
		snprintf(head, sizeof head, "%%x : f32[8] = placeholder()\n%%v = %s.default(%%x)\n",
			 ops[i]);
		assert_string_equal(rule_for(head, 0, 2), "expensive");
		assert_null(rule_for(head, 1, 2));
	}
	assert_null(rule_for("%x : f32[8] = placeholder()\n%v = sin.default(%x)\n", 0, 2));
}

/* Their other forms, inside composites and of half results, are as expensive. */
static void test_realize_expensive_functions_in_every_form(void **state)
{
	static const char *const values[] = { "f32[8] = placeholder()\n%v = _near_sigmoid",
					      "f32[8] = placeholder()\n%v = _short_sigmoid",
					      "f32[8] = placeholder()\n%v = _short_tanh",
					      "f32[8] = placeholder()\n%v = _short_exp",
					      "f16[8] = placeholder()\n%v = sigmoid",
					      "bf16[8] = placeholder()\n%v = sigmoid",
					      "f16[8] = placeholder()\n%v = exp",
					      "bf16[8] = placeholder()\n%v = tanh" };
	char head[160];

	(void)state;
	for (int i = 0; i < 8; i++) {
		snprintf(head, sizeof head, "%%x : %s.default(%%x)\n", values[i]);
		assert_string_equal(rule_for(head, 0, 2), "expensive");
	}
}

/* RZ-05: more than 5 users and near the limit (above 40 of 50), CPU only. */
static void test_realize_many_users_near_the_limit(void **state)
{
	(void)state;
	assert_null(rule_for(chain(41), 0, 5));
	assert_null(rule_for(chain(40), 0, 6));
	assert_string_equal(rule_for(chain(41), 0, 6), "users>5");
	assert_null(rule_for(chain(30), 1, 6));
}

/* RZ-10: the rules are tried in order, and the first that hits is named: function, users,
 * operations, buffers, loads. */
static void test_realize_first_rule_that_hits_is_named(void **state)
{
	char head[20000];

	(void)state;
	snprintf(head, sizeof head, "%s%%w = tanh.default(%%v)\n%%v0 = clone.default(%%w)\n",
		 chain(60));
	char *v = strstr(head, "%v = "); /* the chain's name goes to the function's result */
	memcpy(v, "%q = ", 5);
	v = strstr(head, "tanh.default(%v)");
	memcpy(v, "tanh.default(%q)", 16);
	v = strstr(head, "%v0 = ");
	memcpy(v, "%v  = ", 6);
	assert_string_equal(rule_for(head, 0, 6), "expensive");
	assert_string_equal(rule_for(head, 1, 6), "ops>30");
	assert_string_equal(rule_for(chain(60), 0, 6), "users>5");
	assert_string_equal(rule_for(chain(60), 0, 2), "ops>50");
	assert_string_equal(rule_for(reads(60, 6), 0, 2), "ops>50");
	assert_string_equal(rule_for(reads(20, 6), 0, 2), "reads>4");
	assert_string_equal(rule_for(reads(20, 2), 0, 2), "loads>12");
}

/* RZ-01: a single-user value is inlined whatever it holds. */
static void test_realize_single_user_is_inlined(void **state)
{
	(void)state;
	assert_null(rule_for(chain(200), 0, 1));
	assert_null(rule_for(reads(40, 10), 1, 1));
	assert_null(rule_for("%x : f32[8] = placeholder()\n%v = exp.default(%x)\n", 0, 1));
}

/* RZ-09, LO-28: an output is realised when produced, and its other users read it. */
static void test_realize_output_is_read_by_other_users(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[8] = placeholder()\n%a = neg.default(%x)\n%b = abs.default(%a)\n"
		    "return (%b, %a)\n");
	assert_string_equal(stx_realized_text(low_output(&w, 1)->rule), "output");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.load('buf1', i0)");
	low_end(&w);
}

/* LO-28: a product needs %r in memory, so the user placed before it reads the buffer as well. */
static void test_realize_wanted_by_a_product_when_produced(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[4,4] = placeholder()\n%r = relu.default(%x)\n%n = neg.default(%r)\n"
		    "%m = mm.default(%r, %x)\nreturn (%n, %m)\n");
	assert_string_equal(stx_realized_text(w.l->buffers.at[1]->rule), "wanted");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.load('buf1', 4*i0 + i1)");
	low_end(&w);
}

/* A value of many elementary functions is written down although it has one user: a kernel has room
 * for 64. */
static void test_realize_elementary_functions_of_a_chain(void **state)
{
	struct low w;
	uint32_t i;

	(void)state;
	stx_bytes_clear(&text);
	add("%%v0 : f32[8] = placeholder()\n");
	for (i = 0; i < 1000; i++)
		add("%%v%u = sin.default(%%v%u)\n", i + 1, i);
	add("return (%%v1000,)\n");
	low_cpu(&w, stx_bytes_cstr(&text));
	assert_int_equal(low_computed(&w), (1000 + 64) / 65);
	low_end(&w);
}

/* Padding of a padding: the time to compile a body is quadratic in how deep they go. */
static void test_realize_paddings_of_a_chain(void **state)
{
	struct low w;
	uint32_t i;

	(void)state;
	stx_bytes_clear(&text);
	add("%%v0 : f32[8] = placeholder()\n");
	for (i = 0; i < 1000; i++)
		add("%%v%u = constant_pad_nd.default(%%v%u, [1, 1], 0)\n", i + 1, i);
	add("return (%%v1000,)\n");
	low_cpu(&w, stx_bytes_cstr(&text));
	assert_int_equal(low_computed(&w), (1000 + 64) / 65);
	assert_int_equal(w.l->buffers.at[1]->rule, STX_REALIZED_NESTED);
	low_end(&w);
}

/* Views of views whose divisions do not cancel: expressions double with each, with arithmetic
 * between or not. */
static void test_realize_views_whose_indices_double(void **state)
{
	uint32_t i, j, n, between;
	struct low w;

	(void)state;
	for (between = 0; between < 2; between++) {
		stx_bytes_clear(&text);
		add("%%v0 : f32[6,10,14] = placeholder()\n");
		for (i = 0; i < 60; i++) {
			add("%%p%u = permute.default(%%v%u, [2, 0, 1])\n", i, i);
			add("%%%s%u = view.default(%%p%u, [6, 10, 14])\n", between ? "w" : "v",
			    i + 1, i);
			if (between)
				add("%%v%u = neg.default(%%w%u)\n", i + 1, i + 1);
		}
		add("return (%%v60,)\n");
		low_cpu(&w, stx_bytes_cstr(&text));
		for (i = n = 0; i < w.l->buffers.n; i++) {
			const struct stx_buffer *b = w.l->buffers.at[i];

			n += b->rule == STX_REALIZED_INDEX_SIZE;
			for (j = 0; j < b->body.n; j++)
				if (b->body.at[j].op == STX_B_LOAD)
					assert_true(stx_ex_weight(w.l->ex, b->body.at[j].ex) <
						    16 * 1024);
		}
		assert_true(n >= 2 && n < 40);
		low_end(&w);
	}
}

static int close_text(void **state)
{
	(void)state;
	stx_bytes_free(&text);
	return 0;
}

/* LO-27: what reads its operands many times over, as an external kernel would, has them in memory:
 * a computed operand of a product is a buffer, with one user as well; a transposed input is not
 * copied. */
static void test_realize_operands_of_contractions_are_in_memory(void **state)
{
	struct low w;

	(void)state;
	low_cpu(&w, "%x : f32[8,4] = placeholder()\n%y : f32[5,4] = placeholder()\n"
		    "%e = neg.default(%x)\n%t = t.default(%y)\n%m = mm.default(%e, %t)\n"
		    "return (%m,)\n");
	assert_int_equal(low_computed(&w), 2);
	assert_string_equal(stx_realized_text(w.l->buffers.at[2]->rule), "wanted");
	assert_has(low_body(&w, w.l->buffers.at[2]), "ops.neg(");
	assert_has(low_body(&w, low_output(&w, 0)), "ops.load('y', 4*i1 + r0_0)");
	assert_has_not(low_body(&w, low_output(&w, 0)), "ops.neg(");
	low_end(&w);
}

/* A view of a buffer is never realised, so behind each of these outputs is the whole graph before
 * it: n * n / 2 names if all were kept, 1.6 GB here. */
static void test_realize_origins_of_a_chain_of_views_stay_linear(void **state)
{
	enum { N = 20000 };
	struct low w = { .arena = stx_arena_new((size_t)256 << 20) };
	struct stx_lower_options o = { 0 };
	uint32_t i;

	(void)state;
	stx_bytes_clear(&text);
	stx_bytes_puts(&text, "%v0 : f32[2,3] = placeholder()\n");
	for (i = 0; i < N; i++)
		add("%%v%u = t.default(%%v%u)\n", i + 1, i);
	stx_bytes_puts(&text, "return (");
	for (i = 0; i < N; i++)
		add("%%v%u,", i + 1);
	stx_bytes_puts(&text, ")\n");
	if (stx_graph_parse(w.arena, (const char *)text.at, text.n, &w.g, &w.d) ||
	    stx_lower(w.g, &o, &w.l, &w.d))
		fail_msg("%s: %s: %s %s", w.d.stage, w.d.node, w.d.text, w.d.location);
	assert_int_equal(low_output(&w, 62)->norigins, 64); /* v0 .. v63 */
	assert_false(low_output(&w, 62)->has_more_origins);
	const struct stx_buffer *b = low_output(&w, N - 1);
	assert_int_equal(b->norigins, STX_MAX_ORIGINS);
	assert_true(b->has_more_origins);
	assert_string_equal(b->origins[0], "v19937"); /* the nearest, in graph order */
	assert_string_equal(b->origins[63], "v20000");
	low_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_realize_operation_limit),
		cmocka_unit_test(test_realize_buffer_limit),
		cmocka_unit_test(test_realize_accumulated_reads_limit),
		cmocka_unit_test(test_realize_expensive_functions_on_cpu_only),
		cmocka_unit_test(test_realize_expensive_functions_in_every_form),
		cmocka_unit_test(test_realize_many_users_near_the_limit),
		cmocka_unit_test(test_realize_first_rule_that_hits_is_named),
		cmocka_unit_test(test_realize_single_user_is_inlined),
		cmocka_unit_test(test_realize_output_is_read_by_other_users),
		cmocka_unit_test(test_realize_wanted_by_a_product_when_produced),
		cmocka_unit_test(test_realize_views_whose_indices_double),
		cmocka_unit_test(test_realize_origins_of_a_chain_of_views_stay_linear),
		cmocka_unit_test(test_realize_elementary_functions_of_a_chain),
		cmocka_unit_test(test_realize_paddings_of_a_chain),
		cmocka_unit_test(test_realize_operands_of_contractions_are_in_memory),
	};
	return cmocka_run_group_tests(tests, NULL, close_text);
}
