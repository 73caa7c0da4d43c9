/* test_attend.c: one kernel for an attention, scores in no memory; which products are scores; the
 * text form and what the verifier refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "from_text.h"
#include "kernel_eval.h"
#include "schedule.h"

#define HEAD                                                                                       \
	"%q : f32[6,200,24] = placeholder()\n%k : f32[6,300,24] = placeholder()\n"                 \
	"%v : f32[6,300,8] = placeholder()\n%t = permute.default(%k, [0, 2, 1])\n"                 \
	"%s = bmm.default(%q, %t)\n"

static struct stx_schedule *schedule(struct maker *m, const char *text,
				     struct stx_schedule_options o)
{
	struct stx_schedule *s;
	struct stx_diag d = { 0 };
	lower_text(m, text);
	if (stx_schedule(m->l, &o, &s, &d))
		fail_msg("%s", d.text);
	return s;
}

/* Kernels on a CPU, and bytes of temporaries. */
static uint32_t kernels(const char *text, uint64_t *workspace)
{
	struct maker m;
	struct stx_schedule *s = schedule(&m, text, (struct stx_schedule_options){ 0 });
	uint32_t n = s->kernels.n;
	*workspace = s->workspace_bytes;
	stx_arena_free(m.a);
	return n;
}

/* AT-04 */
static void test_attend_scores_are_in_no_memory(void **state)
{
	static const char *const whole[] = {
		HEAD "%y = _attend.default(%s, %v)\nreturn (%y,)\n",
		HEAD "%c = mul.Scalar(%s, 0.2)\n%y = _attend.default(%c, %v)\nreturn (%y,)\n",
		HEAD "%y = _attend.default(%s, %v, True, dtype=f16)\nreturn (%y,)\n",
		/* what follows, element by element, and by other views */
		HEAD "%o = _attend.default(%s, %v)\n%y = relu.default(%o)\nreturn (%y,)\n",
		HEAD "%o = _attend.default(%s, %v)\n%w = view.default(%o, [6,1,200,8])\n"
		     "%y = exp.default(%w)\nreturn (%y,)\n",
		/* heads apart on the way */
		HEAD "%a = view.default(%s, [2,3,200,300])\n%b = mul.Scalar(%a, 0.5)\n"
		     "%c = view.default(%b, [6,200,300])\n%y = _attend.default(%c, %v)\n"
		     "return (%y,)\n",
	};
	uint64_t bytes;
	(void)state;
	for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
		if (kernels(whole[i], &bytes) != 1 || bytes)
			fail_msg("not one kernel without temporaries:\n%s", whole[i]);
	}
}

static void test_attend_report_says_what_is_in_no_memory(void **state)
{
	struct maker m;
	(void)state;
	struct stx_schedule *s = schedule(&m, HEAD "%y = _attend.default(%s, %v)\nreturn (%y,)\n",
					  (struct stx_schedule_options){ 0 });
	int found = 0;
	for (uint32_t i = 0; i < s->report.n; i++)
		found += strstr(s->report.at[i], "are in no memory: 1440.0 kB") != NULL;
	assert_int_equal(found, 1);
	stx_arena_free(m.a);
}

static void test_attend_products_read_elsewhere_are_stored(void **state)
{
	static const char *const apart[] = {
		/* read at two points */
		HEAD "%f = flip.default(%s, [2])\n%c = add.Tensor(%s, %f)\n"
		     "%y = _attend.default(%c, %v)\nreturn (%y,)\n",
		/* another reader, an output */
		HEAD "%y = _attend.default(%s, %v)\nreturn (%y, %s)\n",
		/* too many terms for the blocks */
		"%q : f32[6,200,600] = placeholder()\n%t : f32[6,600,300] = placeholder()\n"
		"%v : f32[6,300,8] = placeholder()\n%s = bmm.default(%q, %t)\n"
		"%y = _attend.default(%s, %v)\nreturn (%y,)\n",
	};
	uint64_t bytes;
	(void)state;
	for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
		if (kernels(apart[i], &bytes) != 2)
			fail_msg("not two kernels:\n%s", apart[i]);
	struct maker m;
	struct stx_schedule_options o = { .no_fuse = 1 };
	struct stx_schedule *s =
		schedule(&m, HEAD "%y = _attend.default(%s, %v)\nreturn (%y,)\n", o);
	assert_int_equal(s->kernels.n, 2);
	assert_true(s->workspace_bytes >= 6 * 200 * 300 * 4);
	stx_arena_free(m.a);
}

/* Threads have something to do: a block of queries is a grid point, smaller ones where heads are
 * few. */
static void test_attend_grid_is_blocks_of_queries(void **state)
{
	static const char few[] =
		"%q : f32[200,24] = placeholder()\n%t : f32[24,300] = placeholder()\n"
		"%v : f32[300,8] = placeholder()\n%s = mm.default(%q, %t)\n"
		"%y = _attend.default(%s, %v)\nreturn (%y,)\n";
	struct maker m;
	int64_t n = 0;
	(void)state;
	struct stx_schedule *s = schedule(&m, few, (struct stx_schedule_options){ 0 });
	assert_true(stx_ex_is_const(m.x, s->kernels.at[0]->grid, &n));
	assert_int_equal(n, 7);
	stx_arena_free(m.a);
	s = schedule(&m, HEAD "%y = _attend.default(%s, %v)\nreturn (%y,)\n",
		     (struct stx_schedule_options){ 0 });
	assert_true(stx_ex_is_const(m.x, s->kernels.at[0]->grid, &n));
	assert_int_equal(n, 24); /* 6 heads, 4 blocks of 64: 12 of 128 would be too few */
	stx_arena_free(m.a);
}

/* 2 rows, 3 keys, 2 columns; scores are in memory. */
#define TEXT(acc, update, result)                                                                  \
	"kernel \"k\" tem bits 32 target cpu\nparam p0 f32 read elems 6 \"s\"\n"                   \
	"param p1 f32 read elems 6 \"v\"\nparam p2 f32 write elems 4 \"y\"\naxis x0 grid 1\n"      \
	"axis x1 loop 2\naxis x2 vector 2\naxis r0 loop reduction 3\ngrain 1\nbegin\n"             \
	"  loop x1\n    loop x2\n      t2 = " acc "\n      loop r0\n"                              \
	"        t4 = load f32 p0[3*x1 + r0]\n        t5 = load f32 p1[x2 + 2*r0]\n"               \
	"        " update "\n      end\n      t8 = " result "\n"                                   \
	"      store f32 p2[2*x1 + x2] t8\n    end\n  end\nend\n"
#define GOOD TEXT("acc attend blocks f32 r0", "update t2 t4 t5", "result f32 t2 0")

static void test_attend_text_round_trips_and_evaluates(void **state)
{
	float s[6] = { 0, 0, 0, -__builtin_inff(), 1, 1 }, v[6] = { 3, 0, 6, 1, 9, 2 },
	      y[4] = { 0 };
	void *buffers[] = { s, v, y };
	int64_t elems[] = { 6, 6, 4 };
	struct stx_arena *a = stx_arena_new(0);
	struct stx_bytes b = { 0 };
	struct stx_bounds_record r = { 0 };
	struct stx_diag d = { 0 };
	struct stx_kernel *k;
	(void)state;
	if (stx_kernel_parse(a, GOOD, strlen(GOOD), &k, &d))
		fail_msg("%s", d.text);
	assert_int_equal(stx_kernel_print(k, &b), 0);
	assert_string_equal(stx_bytes_cstr(&b), GOOD);
	assert_int_equal(stx_kernel_evaluate(k, buffers, elems, NULL, &r, 0, 1, &d), 0);
	assert_true(y[0] == 6 && y[1] == 1 && y[2] == 7.5f && y[3] == 1.5f);
	stx_bytes_free(&b);
	stx_arena_free(a);
}

static void test_attend_wrong_kernels_are_refused(void **state)
{
	static const char *const texts[][2] = {
		{ TEXT("acc attend plain f32 r0", "update t2 t4 t5", "result f32 t2 0"), "blocks" },
		{ TEXT("acc sum blocks f32 r0", "update t2 t4", "result f32 t2 0"), "blocks" },
		{ TEXT("acc attend blocks i32 r0", "update t2 t4 t5", "result i32 t2 0"),
		  "does not accumulate i32" },
		{ TEXT("acc attend blocks f32 r0", "update t2 t4", "result f32 t2 0"), "second" },
		{ TEXT("acc attend blocks f32 r0", "update t2 t4 t5", "result f32 t2 2"),
		  "no state value 2" },
	};
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_diag d = { 0 };
		struct stx_kernel *k;
		assert_int_not_equal(stx_kernel_parse(a, texts[i][0], strlen(texts[i][0]), &k, &d),
				     0);
		if (!strstr(d.text, texts[i][1]))
			fail_msg("'%s', not '%s'", d.text, texts[i][1]);
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attend_scores_are_in_no_memory),
		cmocka_unit_test(test_attend_report_says_what_is_in_no_memory),
		cmocka_unit_test(test_attend_products_read_elsewhere_are_stored),
		cmocka_unit_test(test_attend_grid_is_blocks_of_queries),
		cmocka_unit_test(test_attend_text_round_trips_and_evaluates),
		cmocka_unit_test(test_attend_wrong_kernels_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
