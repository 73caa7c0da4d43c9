/* test_kernel_text.c: kernel IR prints and parses without loss; digests; malformed text is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "kernel.h"
#include "kernels.h"

static struct stx_kernel *parse(struct stx_arena *a, const char *text, struct stx_diag *d)
{
	struct stx_kernel *k = NULL;
	memset(d, 0, sizeof *d);
	stx_err err = stx_kernel_parse(a, text, strlen(text), &k, d);
	assert_true((err == 0) == (k != NULL));
	assert_int_equal(err, d->code);
	return k;
}

static struct stx_kernel *must_parse(struct stx_arena *a, const char *text)
{
	struct stx_diag d;
	struct stx_kernel *k = parse(a, text, &d);
	if (!k)
		fail_msg("%s: %s", d.location, d.text);
	return k;
}

static void test_kernel_text_each_form_round_trips(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_TEXTS; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_kernel *k = must_parse(a, all_texts[i]);
		struct stx_bytes out = { 0 };
		assert_int_equal(stx_kernel_print(k, &out), 0);
		assert_string_equal(stx_bytes_cstr(&out), all_texts[i]);
		stx_bytes_free(&out);
		stx_arena_free(a);
	}
}

static void test_kernel_text_any_value_names_renumber(void **state)
{
	(void)state;
	static const char text[] = "kernel \"k\" poi bits 32 target cpu\n"
				   "param p0 f32 readwrite elems 4\n"
				   "axis x0 grid 4\n\n"
				   "begin\n"
				   "  tin = load f32 p0[x0]\n"
				   "  t90 = neg f32 tin\n"
				   "  store f32 p0[x0] t90\n"
				   "end\n";
	struct stx_arena *a = stx_arena_new(0);
	struct stx_kernel *k = must_parse(a, text);
	assert_int_equal(k->insts.n, 3);
	assert_int_equal(k->insts.at[2].b, 1);
	assert_int_equal(k->params.at[0].is_read, 1);
	assert_int_equal(k->params.at[0].is_written, 1);
	stx_arena_free(a);
}

static struct stx_digest digest_of(const char *text)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_digest d;
	assert_int_equal(stx_kernel_digest(must_parse(a, text), &d, NULL), 0);
	stx_arena_free(a);
	return d;
}

/* Replaces the first occurrence; the result is malloc'd. */
static char *replaced(const char *text, const char *from, const char *to)
{
	const char *at = strstr(text, from);
	assert_non_null(at);
	size_t head = (size_t)(at - text);
	char *out = malloc(strlen(text) + strlen(to) + 1);
	memcpy(out, text, head);
	strcpy(out + head, to);
	strcat(out, at + strlen(from));
	return out;
}

static int same_digest(const char *text, const char *from, const char *to)
{
	char *other = replaced(text, from, to);
	struct stx_digest p = digest_of(text), q = digest_of(other);
	free(other);
	return stx_digest_eq(&p, &q);
}

static void test_kernel_digest_names_do_not_matter_code_does(void **state)
{
	(void)state;
	assert_true(same_digest(text_rowsum, "sum_0", "sum_77"));
	assert_true(same_digest(text_rowsum, "\"a\"", "\"layer9.x\""));
	assert_true(same_digest(text_rowsum, "grain 64", "grain 1"));
	assert_true(same_digest(text_gather, "hint 64", "hint 128"));
	assert_false(same_digest(text_gather, "range 1 ", "range 2 "));
	assert_false(same_digest(text_rowsum, "0x1p+1", "0x1p+2"));
	assert_false(same_digest(text_rowsum, "sum lanes", "prod lanes"));
	assert_false(same_digest(text_rowsum, "max f32", "min f32"));
	assert_false(same_digest(text_rowsum, "bits 32", "bits 64"));
	struct stx_digest d = digest_of(text_flat);
	char symbol[64], hex[STX_DIGEST_HEX];
	stx_kernel_symbol(&d, symbol);
	stx_digest_hex(&d, hex);
	assert_int_equal(strlen(symbol), 38);
	assert_memory_equal(symbol, "stx_k_", 6);
	assert_memory_equal(symbol + 6, hex, 32);
}

/* A parameter that never changes is told apart: its kernel may be compiled in another way. */
static void test_kernel_text_constant_parameter_round_trips(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	char *text = replaced(text_matmul, "read elems", "read constant elems");
	struct stx_kernel *k = must_parse(a, text);
	struct stx_bytes out = { 0 };
	assert_true(k->params.at[0].is_constant && !k->params.at[1].is_constant);
	assert_int_equal(stx_kernel_print(k, &out), 0);
	assert_string_equal(stx_bytes_cstr(&out), text);
	assert_false(same_digest(text_matmul, "read elems", "read constant elems"));
	stx_bytes_free(&out);
	free(text);
	stx_arena_free(a);
}

/* Blocks are part of the code: kernels that differ in them are not one kernel. */
static void test_kernel_text_block_round_trips(void **state)
{
	(void)state;
	struct stx_arena *a = stx_arena_new(0);
	char *text = replaced(text_matmul, "target cpu\n", "target cpu block 320\n");
	struct stx_kernel *k = must_parse(a, text);
	struct stx_bytes out = { 0 };
	assert_int_equal(k->block_words, 320);
	assert_int_equal(stx_kernel_print(k, &out), 0);
	assert_string_equal(stx_bytes_cstr(&out), text);
	assert_false(same_digest(text_matmul, "target cpu", "target cpu block 320"));
	assert_false(same_digest(text, "block 320", "block 384"));
	stx_bytes_free(&out);
	free(text);
	stx_arena_free(a);
}

struct mutation {
	const char *text, *from, *to;
};
static const struct mutation mutations[] = {
	{ text_flat, "x0 + 10000)", "x0 + 10001)" }, /* reaches past the parameters */
	{ text_flat, "elems 10000 \"a\"", "elems 9999 \"a\"" },
	{ text_rowsum, "elems 64", "elems 63" },
	{ text_rowsum, "128*x0 + r0]", "128*x0 + r0 - 1]" }, /* below 0 */
	{ text_flat, "p2[", "p3[" },
	{ text_flat, "store f32 p2", "store f32 p1" }, /* read-only */
	{ text_flat, "load f32 p0", "load f32 p2" },   /* write-only */
	{ text_flat, "load f32 p0", "load f64 p0" },
	{ text_flat, "add f32", "add f64" },
	{ text_flat, "add f32", "lt f32" },
	{ text_flat, "add f32", "and f32" },
	{ text_flat, "add f32", "exp f32" },
	{ text_flat, "add f32", "pow f32" }, /* elementary: must be expanded */
	{ text_flat, "add f32", "nosuch f32" },
	{ text_flat, "t1 t2", "t1 t3" }, /* itself */
	{ text_flat, "  loop x1\n", "  loop x0\n" },
	{ text_flat, "  loop x1\n", "" },
	{ text_flat, "  end\nend", "  end\n  t6 = neg f32 t3\nend" }, /* out of scope */
	{ text_flat, "bits 32", "bits 33" },
	{ text_matmul, "target cpu", "target cpu block 15" },
	{ text_matmul, "target cpu", "target cpu block 4097" },
	{ text_matmul, "target cpu", "target cpu block -1" },
	{ text_matmul, "target cpu", "target cpu block" },
	/* words no emitter obeys: a barrier left out is a race */
	{ text_mixed, "  store i64 p2", "  barrier\n  store i64 p2" },
	{ text_matmul, "r0 loop reduction", "r0 unroll reduction" },
	{ text_flat, "grid 3", "loop 3" },
	{ text_flat, "vector min", "grid min" },
	{ text_flat, "axis x1", "axis x0" },
	{ text_flat, "axis x1", "axis s1" },
	{ text_rowsum, "sum lanes", "sum plain" }, /* vector loop, no lanes */
	{ text_rowsum, "vector reduction", "vector" },
	{ text_rowsum, "vector reduction", "loop reduction" },
	{ text_rowsum, "sum lanes", "dot lanes" }, /* one value */
	{ text_rowsum, "sum lanes", "any lanes" },
	{ text_rowsum, "sum lanes", "argmax lanes" },
	{ text_rowsum, "sum lanes f32", "sum lanes f64" },
	{ text_rowsum, "    update t2 t8\n", "" }, /* read, never updated */
	{ text_rowsum, "    update t2 t8\n", "    update t2 t8\n    update t2 t8\n" },
	{ text_rowsum, "  end\n  t11", "  t11" },
	{ text_rowsum, "t2 0\n", "t2 1\n" }, /* sum has one state value */
	{ text_rowsum, "t11 = result f32 t2 0", "t11 = neg f32 t2" },
	{ text_rowsum, "[x0] t11", "[x0] t8" }, /* inside the loop only */
	{ text_rowsum, "[x0] t11", "[x0 + r0] t11" },
	{ text_colsum, "t4 = cast f32 t3", "t4 = cast bf16 t3" },
	{ text_colsum, "cast f32 t3", "neg bf16 t3" }, /* arithmetic in bf16 */
	{ text_colsum, "sum plain", "sum lanes" },
	{ text_colsum, "plain f32", "plain bf16" },
	{ text_colsum, "axis r0 loop reduction", "axis r0 vector reduction" },
	{ text_colsum, "axis r0 loop reduction", "axis r0 loop" },
	{ text_matmul, "t4 t5", "t4" },
	{ text_matmul, "    t2 = acc dot plain f32 r0\n", "    t2 = acc dot plain f32 x1\n" },
	{ text_gather, "elems s0", "elems s1" },
	{ text_gather, "32*t1", "32*t0" }, /* no indirect value */
	{ text_gather, "  t1 = indirect t0 bound 1000 axis 0 wrap check\n", "" },
	{ text_gather, "load i64", "load i32" },
	{ text_gather, "scalar s0 range 1 100000000", "scalar s0 range 9 1" },
	{ text_gather, "scalar s0", "scalar s1" },
	{ text_mixed, "mask t4", "mask t3" },
	{ text_mixed, "select f32 t4 t5", "select f32 t5 t4" },
	{ text_mixed, "nan(0x7ff8000000000000)", "nan(0x1)" },
	{ text_mixed, "result i64 t9 1", "result f32 t9 1" },
	{ text_mixed, "t9 t11 t12", "t9 t11 t11" },
	{ text_mixed, "\\xc3", "\\xg3" },
	{ text_sort, "sort u32", "sort u64" },
	{ text_sort, "sort u32 p1 p2", "sort u32 p1 p4" },
	{ text_sort, "sort u32 p1 p2", "sort u32 p1 p1" },
	{ text_sort, "sort u32 p1 p2", "sort i32 p2 p1" },
	{ text_sort, "sort u32 p1 p2[200*x0] x1", "sort u32 p1 p2[200*x0] x0" },
	{ text_sort, "sort u32 p1 p2[200*x0] x1", "sort u32 p1 p2[200*x0 + 1] x1" }, /* too far */
	{ text_sort, "sort u32 p1 p2[200*x0] x1", "sort u32 p1 p2[200*x1] x1" },
	{ text_sort, "p2[200*x0] x1\n", "p2[200*x0] x1 first 101\n" },
	{ text_sort, "p2[200*x0] x1\n", "p2[200*x0] x1 first 0\n" },
	{ text_sort, "elems 600 \"buf2\"", "elems 599 \"buf2\"" },
	{ text_sort, "  sort u32 p1 p2[200*x0] x1\n  loop x2\n",
	  "  loop x2\n  sort u32 p1 p2[200*x0] x1\n" },
	{ text_sort, "p2 i32 readwrite", "p2 i32 write" },
	{ text_sort, "p2 i32 readwrite", "p2 i32 readwrite constant" },
	{ text_matmul, "write elems", "write constant elems" },
	{ text_rows, "each r0", "each r1" },
	{ text_rows, "each r0", "each x0" },
	{ text_rows, "sum tree f32 r1 each", "argmax tree f32 r1 each" }, /* two values */
	{ text_rows, "target gpu", "target cpu" },
	{ text_rows, "axis r0 loop reduction 100", "axis r0 loop reduction min(100, -x0 + 100)" },
	{ text_rows, "      update t0 t4\n    end\n", "    end\n    update t0 t8\n" },
	{ text_rows,
	  "  loop r0\n    t16 = result f32 t0 0\n    store f32 p1[100*x0 + r0] t16\n  end\n",
	  "  t16 = result f32 t0 0\n  store f32 p1[100*x0] t16\n" },
	{ text_rows, "    t8 = result f32 t2 0\n",
	  "    t8 = result f32 t0 0\n" }, /* while it runs */
};

static void test_kernel_verify_each_mutation_is_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof mutations / sizeof *mutations; i++) {
		const struct mutation *m = &mutations[i];
		struct stx_arena *a = stx_arena_new(0);
		struct stx_diag d;
		char *text = replaced(m->text, m->from, m->to);
		if (parse(a, text, &d))
			fail_msg("accepted: '%s' instead of '%s'", m->to, m->from);
		assert_int_equal(d.code, STX_E_INVALID);
		assert_true(d.text[0] && d.location[0]);
		free(text);
		stx_arena_free(a);
	}
}

/* Truncations and random changes of bytes: refused or a kernel that prints and parses again. */
static void test_kernel_parse_damaged_text_never_misbehaves(void **state)
{
	(void)state;
	unsigned seed = 20260001;
	print_message("seed %u\n", seed);
	for (size_t i = 0; i < N_TEXTS; i++) {
		size_t n = strlen(all_texts[i]);
		for (int round = 0; round < 3000; round++) {
			char *text = malloc(n);
			size_t len = round < (int)n ? (size_t)round : n;
			memcpy(text, all_texts[i], n);
			for (int j = 0; round >= (int)n && j < 1 + round % 3; j++) {
				size_t at = (size_t)rand_r(&seed) % n;
				text[at] = round % 2 ? (char)rand_r(&seed)
						     : all_texts[i][(size_t)rand_r(&seed) % n];
			}
			struct stx_arena *a = stx_arena_new(16 << 20);
			struct stx_kernel *k = NULL, *again = NULL;
			struct stx_bytes out = { 0 };
			if (!stx_kernel_parse(a, text, len, &k, NULL)) {
				assert_int_equal(stx_kernel_print(k, &out), 0);
				assert_int_equal(
					stx_kernel_parse(a, (char *)out.at, out.n, &again, NULL),
					0);
			}
			stx_bytes_free(&out);
			stx_arena_free(a);
			free(text);
		}
	}
}

static void test_kernel_parse_small_budget_is_an_error(void **state)
{
	(void)state;
	for (size_t budget = 4096; budget < 65536; budget += 4096) {
		struct stx_arena *a = stx_arena_new(budget);
		struct stx_kernel *k = NULL;
		stx_err err = stx_kernel_parse(a, text_rowsum, strlen(text_rowsum), &k, NULL);
		if (err)
			assert_null(k);
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kernel_text_each_form_round_trips),
		cmocka_unit_test(test_kernel_text_any_value_names_renumber),
		cmocka_unit_test(test_kernel_text_constant_parameter_round_trips),
		cmocka_unit_test(test_kernel_text_block_round_trips),
		cmocka_unit_test(test_kernel_digest_names_do_not_matter_code_does),
		cmocka_unit_test(test_kernel_verify_each_mutation_is_refused),
		cmocka_unit_test(test_kernel_parse_damaged_text_never_misbehaves),
		cmocka_unit_test(test_kernel_parse_small_budget_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
