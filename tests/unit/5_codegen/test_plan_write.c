/* test_plan_write.c: data plans of schedules open, say what the schedule says, and pack into an
 * object. */
#include <elf.h>

#include "codegen.h"
#include "loops_make.h"
#include "plan.h"

/* A graph input beside the loop input, as lowering makes them. */
static struct stx_buffer *plan_input(struct maker *m, int is_param, uint32_t rank,
				     const int64_t *sizes)
{
	char name[16];
	snprintf(name, sizeof name, "primals_%u", m->l->g->inputs.n + 1);
	struct stx_node *n =
		stx_graph_input(m->l->g, name, stx_type_make(m->l->g, STX_F32, (int)rank, sizes),
				NULL, is_param, NULL);
	assert_non_null(n);
	return mk_input(m, STX_F32, rank, sizes);
}

static struct stx_buffer *neg_at(struct maker *m, enum stx_buffer_kind kind,
				 const struct stx_buffer *a, int64_t from)
{
	stx_ex size = a->layout.sizes[0];
	mk_begin(m, 1, &size, 0, NULL);
	stx_ex at = from < 0 ? mk_var(m, 0) : stx_ex_sub(m->x, mk_const(m, from), mk_var(m, 0));
	return mk_pointwise(m, kind, STX_F32, mk_op(m, STX_P_NEG, STX_F32, mk_load(m, a, at), 0));
}

static void open_plan(const struct stx_schedule *s, struct stx_bytes *bytes, struct stx_plan *p)
{
	struct stx_diag d = { 0 };
	if (stx_plan_write(s, "cpu:x86-64-v3", NULL, bytes, &d))
		fail_msg("%s: %s", d.node, d.text);
	if (stx_plan_open((struct stx_span){ bytes->at, bytes->n }, p, &d))
		fail_msg("%s", d.text);
}

static int64_t eval(const struct stx_plan *p, uint32_t e, const int64_t *syms)
{
	int ok = 1;
	int64_t v = stx_plan_eval(p, e, syms, &ok);
	assert_true(ok);
	return v;
}

static void steps_text(const struct stx_plan *p, char *out, size_t cap)
{
	static const char *const names[] = { "alloc", "release", "launch", "copy", "extern" };
	size_t n = 0;
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct stx_plan_step *s = &p->steps[i];
		n += (size_t)snprintf(out + n, cap - n, "%s", names[s->kind]);
		if (s->kind == STX_STEP_LAUNCH)
			for (uint32_t j = 0; j < s->nargs; j++)
				n += (size_t)snprintf(
					out + n, cap - n, " %s",
					stx_plan_string(
						p, p->values[stx_plan_u32s(p, s->args)[j]].name));
		else
			n += (size_t)snprintf(out + n, cap - n, " %s",
					      stx_plan_string(p, p->values[s->a].name));
		n += (size_t)snprintf(out + n, cap - n, "\n");
	}
}

/* Two kernels that do not fuse (the second reads backwards), an unused input, a parameter, a
 * constant. */
static struct stx_schedule *two_kernels(struct maker *m)
{
	static const float ten[100] = { 10, 11 };
	struct stx_buffer *a = plan_input(m, 0, 1, (int64_t[]){ 100 });
	struct stx_buffer *w = plan_input(m, 1, 1, (int64_t[]){ 100 });
	plan_input(m, 0, 2, (int64_t[]){ 3, 5 });
	stx_ex size = mk_const(m, 100);
	struct stx_buffer *c = mk_buffer(m, STX_BUF_CONST, STX_F32, mk_layout(m, 1, &size, NULL));
	c->data = (struct stx_const_data){ (const uint8_t *)ten, sizeof ten };
	mk_begin(m, 1, &size, 0, NULL);
	uint32_t p = mk_load(m, a, mk_var(m, 0)), q = mk_load(m, w, mk_var(m, 0)),
		 r = mk_load(m, c, mk_var(m, 0));
	uint32_t v = mk_op(m, STX_P_ADD, STX_F32, mk_op(m, STX_P_ADD, STX_F32, p, q), r);
	struct stx_buffer *t = mk_pointwise(m, STX_BUF_TEMP, STX_F32, v);
	neg_at(m, STX_BUF_OUTPUT, t, 99);
	return must_schedule(m, 0);
}

static void test_plan_write_steps_allocate_launch_and_release_in_order(void **state)
{
	(void)state; /* WR-05, WR-09 */
	struct maker m;
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	char text[1024];
	maker_init(&m);
	struct stx_schedule *s = two_kernels(&m);
	open_plan(s, &bytes, &p);
	steps_text(&p, text, sizeof text);
	assert_string_equal(text, "alloc buf4\n"
				  "launch in0 in1 buf3 buf4\n"
				  "release in0\n"
				  "launch buf4 buf5\n"
				  "release buf4\n");
	assert_int_equal(p.h->ninputs, 3);
	assert_int_equal(p.h->noutputs, 1);
	assert_int_equal(p.h->flags & STX_PLAN_CPU_LEVEL, 3);
	assert_int_equal(eval(&p, p.h->workspace_expr, NULL), 448);
	assert_int_equal(p.h->bytes_min, 400 * 4); /* two inputs, a constant, the output */
	assert_int_equal(p.h->bytes_read, 400 * 4);
	assert_int_equal(p.h->bytes_written, 400 * 2);
	stx_bytes_free(&bytes);
	stx_arena_free(m.a);
}

static void test_plan_write_values_and_kernels_say_what_the_schedule_says(void **state)
{
	(void)state;
	struct maker m;
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	maker_init(&m);
	struct stx_schedule *s = two_kernels(&m);
	open_plan(s, &bytes, &p);
	assert_int_equal(p.h->nvalues, 6);
	assert_int_equal(p.values[0].kind, STX_VALUE_INPUT);
	assert_int_equal(p.values[0].flags, 0);
	assert_int_equal(p.values[1].flags, STX_TENSOR_PARAM);
	assert_int_equal(p.values[2].rank, 2);
	assert_int_equal(eval(&p, stx_plan_u32s(&p, p.values[2].strides)[0], NULL), 5);
	assert_int_equal(p.values[3].kind, STX_VALUE_CONST);
	const float *data = (const void *)(p.base + p.h->data_off + p.values[3].const_off);
	assert_true((uintptr_t)(p.h->data_off + p.values[3].const_off) % 64 == 0);
	assert_true(data[0] == 10 && data[1] == 11);
	assert_int_equal(eval(&p, p.values[4].bytes_expr, NULL), 400);
	assert_int_equal(p.h->nkernels, 2);
	for (uint32_t i = 0; i < 2; i++) {
		struct stx_digest digest;
		char symbol[64];
		assert_int_equal(stx_kernel_digest(s->kernels.at[i], &digest, NULL), 0);
		stx_kernel_symbol(&digest, symbol);
		assert_string_equal(stx_plan_string(&p, p.kernels[i].symbol), symbol);
		assert_memory_equal(p.kernels[i].digest, digest.b, 32);
		assert_string_equal(stx_plan_string(&p, p.kernels[i].name), s->kernels.at[i]->name);
		assert_int_equal(eval(&p, p.kernels[i].grid_expr[0], NULL), 1);
		assert_int_equal(p.kernels[i].block[0], 8);
		assert_string_equal(stx_plan_string(&p, p.kernels[i].chosen_by), "heuristic");
		assert_string_equal(stx_plan_string(&p, p.kernels[i].config),
				    "x0:grid=1 x1:vector=100");
	}
	stx_bytes_free(&bytes);
	stx_arena_free(m.a);
}

static void test_plan_write_equal_schedules_give_equal_bytes(void **state)
{
	(void)state;
	struct stx_bytes bytes[2] = { { 0 }, { 0 } };
	struct stx_plan p;
	for (int i = 0; i < 2; i++) {
		struct maker m;
		maker_init(&m);
		open_plan(two_kernels(&m), &bytes[i], &p);
		stx_arena_free(m.a);
	}
	assert_int_equal(bytes[0].n, bytes[1].n);
	assert_memory_equal(bytes[0].at, bytes[1].at, bytes[0].n);
	stx_bytes_free(&bytes[0]);
	stx_bytes_free(&bytes[1]);
}

static void test_plan_write_dynamic_sizes_become_expressions_and_guards(void **state)
{
	(void)state;
	struct maker m;
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	maker_init(&m);
	struct stx_graph *g = m.l->g;
	struct stx_symbol sym = { "batch", { 2, 1000 }, 64 };
	assert_int_equal(stx_push(m.a, &g->symbols, sym), 0);
	stx_ex s = stx_ex_sym(m.x, 0, sym.range, sym.hint);
	stx_ex sizes[2] = { mk_const(&m, 7), s };
	struct stx_type type = { STX_F32, 2, stx_arena_copy(m.a, sizes, sizeof sizes) };
	assert_non_null(stx_graph_input(g, "x", type, NULL, 0, NULL));
	struct stx_buffer *a = mk_buffer(&m, STX_BUF_INPUT, STX_F32, mk_layout(&m, 2, sizes, NULL));
	mk_begin(&m, 2, sizes, 0, NULL);
	struct stx_buffer *t =
		mk_pointwise(&m, STX_BUF_TEMP, STX_F32,
			     mk_op(&m, STX_P_NEG, STX_F32, mk_load(&m, a, mk_here(&m, a)), 0));
	mk_begin(&m, 1, &s, 1,
		 sizes); /* sum over the 7; the other column's, so that it is a kernel */
	stx_ex back = stx_ex_sub(m.x, stx_ex_addi(m.x, s, -1), mk_var(&m, 0));
	stx_ex at = stx_ex_add(m.x, back, stx_ex_mul(m.x, mk_var(&m, 1), s));
	mk_end(&m, STX_BUF_OUTPUT, STX_F32, STX_DEF_REDUCTION, STX_MONOID_SUM, STX_F32,
	       mk_load(&m, t, at), 0);
	open_plan(must_schedule(&m, 0), &bytes, &p);
	assert_int_equal(p.h->nsyms, 1);
	assert_string_equal(stx_plan_string(&p, p.syms[0].name), "batch");
	assert_int_equal(p.syms[0].input, 0);
	assert_int_equal(p.syms[0].dim, 1);
	assert_int_equal(p.h->nguards, 2);
	for (int64_t n = 1; n <= 1001; n += 100) {
		const uint32_t *guards = stx_plan_u32s(&p, p.h->guards_off);
		int holds = eval(&p, guards[0], &n) && eval(&p, guards[1], &n);
		assert_int_equal(holds, n >= 2 && n <= 1000);
		assert_int_equal(eval(&p, p.h->workspace_expr, &n), (28 * n + 63) / 64 * 64);
		assert_int_equal(eval(&p, p.kernels[0].grid_expr[0], &n), (7 * n + 4095) / 4096);
	}
	assert_int_equal(p.kernels[0].nscalars, 1);
	stx_bytes_free(&bytes);
	stx_arena_free(m.a);
}

static void test_plan_write_output_that_is_another_value_is_copied(void **state)
{
	(void)state; /* B21 */
	struct maker m;
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	char text[512];
	maker_init(&m);
	struct stx_buffer *a = plan_input(&m, 0, 1, (int64_t[]){ 100 });
	struct stx_buffer *o = neg_at(&m, STX_BUF_OUTPUT, a, -1);
	assert_int_equal(stx_push(m.a, &m.l->outputs, o->id), 0);
	assert_int_equal(stx_push(m.a, &m.l->outputs, a->id), 0);
	open_plan(must_schedule(&m, 0), &bytes, &p);
	steps_text(&p, text, sizeof text);
	assert_string_equal(text, "launch in0 buf1\ncopy buf1\ncopy in0\nrelease in0\n");
	assert_int_equal(p.h->noutputs, 3);
	assert_int_equal(p.values[3].kind, STX_VALUE_OUTPUT);
	assert_int_equal(p.values[3].index, 2);
	stx_bytes_free(&bytes);
	stx_arena_free(m.a);
}

static void test_plan_write_unknown_target_is_an_error(void **state)
{
	(void)state;
	struct maker m;
	struct stx_bytes bytes = { 0 };
	maker_init(&m);
	assert_int_equal(stx_plan_write(two_kernels(&m), "cpu:pdp11", NULL, &bytes, NULL),
			 STX_E_UNSUPPORTED);
	assert_int_equal(bytes.n, 0);
	stx_arena_free(m.a);
}

static void test_plan_object_holds_the_plan_in_its_section(void **state)
{
	(void)state;
	struct maker m;
	struct stx_bytes bytes = { 0 }, object = { 0 };
	struct stx_plan p;
	struct stx_span found;
	maker_init(&m);
	open_plan(two_kernels(&m), &bytes, &p);
	assert_int_equal(stx_data_object(STX_PLAN_SECTION, "stax_plan",
					 (struct stx_span){ bytes.at, bytes.n }, &object, NULL),
			 0);
	assert_int_equal(stx_artifact_plan((struct stx_span){ object.at, object.n }, &found, NULL),
			 0);
	assert_int_equal(found.n, bytes.n);
	assert_memory_equal(found.at, bytes.at, bytes.n);
	assert_int_equal((size_t)(found.at - object.at) % 64, 0);
	assert_int_equal(stx_artifact_has_code((struct stx_span){ object.at, object.n }), 0);
	const Elf64_Ehdr *h = (const void *)object.at;
	assert_int_equal(h->e_type, ET_REL);
	stx_bytes_free(&bytes);
	stx_bytes_free(&object);
	stx_arena_free(m.a);
}

/* A graph of 2,000 kernels: the plan's own checks bound arrays by its size, so sharing must not
 * break it. */
static void test_plan_write_large_schedule_opens(void **state)
{
	(void)state;
	struct maker m;
	struct stx_bytes bytes = { 0 };
	struct stx_plan p;
	maker_init(&m);
	struct stx_buffer *b = plan_input(&m, 0, 1, (int64_t[]){ 1000 });
	for (int i = 0; i < 2000; i++)
		b = neg_at(&m, i == 1999 ? STX_BUF_OUTPUT : STX_BUF_TEMP, b, 999);
	open_plan(must_schedule(&m, 0), &bytes, &p);
	assert_int_equal(p.h->nkernels, 2000);
	assert_int_equal(eval(&p, p.h->workspace_expr, NULL), 2 * 4032);
	stx_bytes_free(&bytes);
	stx_arena_free(m.a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_write_steps_allocate_launch_and_release_in_order),
		cmocka_unit_test(test_plan_write_values_and_kernels_say_what_the_schedule_says),
		cmocka_unit_test(test_plan_write_equal_schedules_give_equal_bytes),
		cmocka_unit_test(test_plan_write_dynamic_sizes_become_expressions_and_guards),
		cmocka_unit_test(test_plan_write_output_that_is_another_value_is_copied),
		cmocka_unit_test(test_plan_write_unknown_target_is_an_error),
		cmocka_unit_test(test_plan_object_holds_the_plan_in_its_section),
		cmocka_unit_test(test_plan_write_large_schedule_opens),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
