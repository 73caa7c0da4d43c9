/* test_prepare.c: parameters packed once: runs read the packed form, whose it is, what is refused. That
 * results keep every bit is tests/conformance/test_products.c. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "compiled.h"
#include "plan.h"

#define ROWS           8
#define COLS           320
#define TERMS          96
#define LAYER(X, W, Y) "%t" Y " = t.default(%" W ")\n%" Y " = mm.default(%" X ", %t" Y ")\n"

static const char linear[] =
	"%x : f32[8,96] = placeholder()\n"
	"%w : f32[320,96] = placeholder(param=True)\n" LAYER("x", "w", "y") "return (%y)\n";
static const char twice[] = "%x : f32[8,96] = placeholder()\n"
			    "%w : f32[96,96] = placeholder(param=True)\n" LAYER("x", "w", "y")
				    LAYER("y", "w", "z") "return (%z)\n";
static const char pointwise[] = "%x : f32[8,96] = placeholder()\n"
				"%w : f32[8,96] = placeholder(param=True)\n"
				"%y = add.Tensor(%x, %w)\nreturn (%y)\n";

struct layer {
	struct compiled c;
	float x[ROWS * TERMS], w[2][COLS * TERMS], y[ROWS * COLS];
	struct stx_tensor in[2], out[1];
};

static void number(float *x, size_t n, uint32_t seed)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525u + 1013904223u;
		x[i] = (float)(int32_t)seed * 0x1p-31f;
	}
}

/* The best target of this host that tests may use. */
static struct layer *layer_new(const char *text)
{
	struct layer *l = calloc(1, sizeof *l);
	struct stx_diag d = { 0 };
	struct stax_error err;
	const char *const *t = compiled_targets();
	while (t[1])
		t++;
	assert_non_null(l);
	if (compiled_build(text, *t, COMPILED_FUSED, &l->c, &d))
		fail_msg("%s: %s", d.stage, d.text);
	number(l->x, ROWS * TERMS, 1);
	number(l->w[0], COLS * TERMS, 2);
	number(l->w[1], COLS * TERMS, 3);
	for (int i = 0; i < 2; i++)
		assert_int_equal(stax_input(l->c.artifact, i, &l->in[i], NULL), 0);
	l->in[0].data = l->x;
	l->in[1].data = l->w[0];
	assert_int_equal(stax_query(l->c.artifact, l->in, 2, l->out, NULL, &err), 0);
	l->out[0].data = l->y;
	return l;
}

static void layer_free(struct layer *l)
{
	compiled_free(&l->c);
	free(l);
}

static struct stax_prepared *prepare(struct layer *l)
{
	struct stax_prepared *p;
	struct stax_error err;
	if (stax_prepare(l->c.artifact, l->in, 2, NULL, &p, &err))
		fail_msg("%s: %s", err.node, err.text);
	return p;
}

/* Into y, which is zero before. */
static int run(struct layer *l, const struct stax_prepared *p, struct stax_error *err)
{
	memset(l->y, 0, sizeof l->y);
	return stax_run_prepared(l->c.artifact, p, l->in, 2, l->out, 1, NULL, err);
}

static void test_prepare_runs_read_what_was_packed(void **state)
{
	struct layer *l = layer_new(linear);
	struct stax_error err;
	float *want = malloc(sizeof l->y);
	(void)state;
	assert_int_equal(run(l, NULL, &err), 0);
	memcpy(want, l->y, sizeof l->y);
	struct stax_prepared *p = prepare(l);
	/* the weights, in panels that are padded */
	assert_in_range(stax_prepared_bytes(p), COLS * TERMS * 4, COLS * TERMS * 8 + 4096);
	memset(l->w[0], 0, sizeof l->w[0]); /* which nobody may do: only the packed form is left */
	assert_int_equal(run(l, p, &err), 0);
	assert_memory_equal(l->y, want, sizeof l->y);
	assert_int_equal(run(l, NULL, &err), 0); /* and the plain way is still there */
	for (size_t i = 0; i < ROWS * COLS; i++)
		assert_true(l->y[i] == 0);
	stax_prepared_free(p);
	free(want);
	layer_free(l);
}

static void test_prepare_only_parameters_need_data(void **state)
{
	struct layer *l = layer_new(linear);
	struct stax_prepared *p;
	struct stax_error err;
	(void)state;
	l->in[0].data = NULL;
	p = prepare(l);
	stax_prepared_free(p);
	l->in[1].data = NULL;
	assert_int_equal(stax_prepare(l->c.artifact, l->in, 2, NULL, &p, &err), STX_E_USAGE);
	assert_null(p);
	assert_string_equal(err.node, "primals_2");
	l->in[1].data = l->w[0];
	l->in[1].sizes[0]--;
	assert_int_equal(stax_prepare(l->c.artifact, l->in, 2, NULL, &p, &err), STX_E_MISMATCH);
	assert_int_equal(stax_prepare(l->c.artifact, l->in, 1, NULL, &p, &err), STX_E_MISMATCH);
	layer_free(l);
}

static void *no_memory(void *ctx, size_t bytes, size_t align)
{
	(void)align;
	*(size_t *)ctx = bytes;
	return NULL;
}

static void test_prepare_memory_is_the_environments(void **state)
{
	struct layer *l = layer_new(linear);
	struct stax_prepared *p = prepare(l);
	struct stax_error err;
	size_t asked = 0;
	struct stx_env env = { .ctx = &asked, .allocate = no_memory };
	(void)state;
	size_t bytes = stax_prepared_bytes(p);
	stax_prepared_free(p);
	assert_int_equal(stax_prepare(l->c.artifact, l->in, 2, &env, &p, &err), STX_E_NOMEM);
	assert_null(p);
	assert_int_equal(asked, bytes);
	layer_free(l);
}

static void test_prepare_parameter_that_moved_is_refused(void **state)
{
	struct layer *l = layer_new(linear);
	struct stax_prepared *p = prepare(l);
	struct stax_error err;
	(void)state;
	l->in[1].data = l->w[1];
	assert_int_equal(run(l, p, &err), STX_E_MISMATCH);
	assert_string_equal(err.node, "primals_2");
	assert_non_null(strstr(err.text, "prepare again"));
	assert_int_equal(run(l, NULL, &err), 0);
	stax_prepared_free(p);
	layer_free(l);
}

static void test_prepare_for_another_artifact_is_refused(void **state)
{
	struct layer *l = layer_new(linear), *other = layer_new(linear);
	struct stax_prepared *p = prepare(other);
	struct stax_error err;
	(void)state;
	assert_int_equal(run(l, p, &err), STX_E_USAGE);
	stax_prepared_free(p);
	layer_free(other);
	layer_free(l);
}

static void test_prepare_two_layers_have_an_operand_each(void **state)
{
	struct layer *l = layer_new(twice);
	struct stax_error err;
	float *want = malloc(sizeof l->y);
	(void)state;
	assert_int_equal(run(l, NULL, &err), 0);
	memcpy(want, l->y, sizeof l->y);
	struct stax_prepared *p = prepare(l);
	assert_in_range(stax_prepared_bytes(p), 2 * TERMS * TERMS * 4,
			4 * TERMS * TERMS * 4 + 8192);
	memset(l->w[0], 0, sizeof l->w[0]);
	assert_int_equal(run(l, p, &err), 0);
	assert_memory_equal(l->y, want, sizeof l->y);
	stax_prepared_free(p);
	free(want);
	layer_free(l);
}

static void test_prepare_nothing_to_pack_is_empty(void **state)
{
	struct layer *l = layer_new(pointwise);
	struct stax_prepared *p = prepare(l);
	struct stax_error err;
	(void)state;
	assert_int_equal(stax_prepared_bytes(p), 0);
	l->in[1].data = l->w[1]; /* nothing depends on where it was */
	assert_int_equal(run(l, p, &err), 0);
	for (size_t i = 0; i < ROWS * TERMS; i++)
		assert_true(l->y[i] == l->x[i] + l->w[1][i]);
	stax_prepared_free(p);
	layer_free(l);
}

/* ---- plans ---- */

enum { KERNEL, SYMBOL, BYTES, TABLE, COUNT, DAMAGES };

static void damage(uint8_t *bytes, const struct stx_plan *p, int what)
{
	struct stx_plan_prepared *q = (void *)(bytes + ((const uint8_t *)p->prepared - p->base));
	struct stx_plan_preparing *t = (void *)(bytes + sizeof(struct stx_plan_header));
	switch (what) {
	case KERNEL: q->kernel = p->h->nkernels; break;
	case SYMBOL: q->symbol = p->h->strings_off - 1; break;
	case BYTES: q->bytes = UINT64_MAX; break;
	case TABLE: t->prepared_off = p->h->total_bytes - 8; break;
	default: t->nprepared = UINT32_MAX; break;
	}
}

static void test_prepare_damaged_plans_are_refused(void **state)
{
	struct layer *l = layer_new(linear);
	struct stx_span span;
	struct stx_plan p, again;
	struct stx_bytes text = { 0 };
	struct stx_diag d = { 0 };
	(void)state;
	span = (struct stx_span){ l->c.elf.at, l->c.elf.n };
	assert_int_equal(stx_artifact_plan(span, &span, &d), 0);
	uint8_t *sound = aligned_alloc(64, (span.n + 63) / 64 * 64), *bytes = malloc(span.n);
	memcpy(sound, span.at, span.n);
	span.at = sound;
	assert_int_equal(stx_plan_open(span, &p, &d), 0);
	assert_int_equal(p.nprepared, 1);
	assert_int_equal(stx_plan_print(span, &text, &d), 0);
	assert_non_null(strstr(stx_bytes_cstr(&text), "  prepare stx_p0_"));
	for (int i = 0; i < DAMAGES; i++) {
		memcpy(bytes, sound, span.n);
		damage(bytes, &p, i);
		if (stx_plan_open((struct stx_span){ bytes, span.n }, &again, &d) != STX_E_CORRUPT)
			fail_msg("damage %d is not seen", i);
	}
	stx_bytes_free(&text);
	free(bytes);
	free(sound);
	layer_free(l);
}

/* ---- several at once ---- */

struct user {
	struct layer *l;
	const struct stax_prepared *p;
	struct stx_tensor in[2], out[1];
	float y[ROWS * COLS];
	const float *want;
	int failures;
};

static void *use(void *arg)
{
	struct user *u = arg;
	struct stax_error err;
	for (int i = 0; i < 200; i++) {
		memset(u->y, 0, sizeof u->y);
		u->failures += stax_run_prepared(u->l->c.artifact, u->p, u->in, 2, u->out, 1, NULL,
						 &err) ||
			       memcmp(u->y, u->want, sizeof u->y) != 0;
	}
	return NULL;
}

/* One artifact, two sets of weights, and runs without either: six threads. */
static void test_prepare_instances_run_side_by_side(void **state)
{
	struct layer *l = layer_new(linear);
	struct stax_error err;
	struct stax_prepared *p[2];
	struct user *users = calloc(6, sizeof *users);
	float *want = malloc(2 * sizeof l->y);
	pthread_t threads[6];
	(void)state;
	for (int i = 0; i < 2; i++) {
		l->in[1].data = l->w[i];
		p[i] = prepare(l);
		assert_int_equal(run(l, NULL, &err), 0);
		memcpy(want + (size_t)i * ROWS * COLS, l->y, sizeof l->y);
	}
	for (int i = 0; i < 6; i++) {
		struct user *u = &users[i];
		*u = (struct user){ .l = l,
				    .p = i < 4 ? p[i % 2] : NULL,
				    .want = want + (size_t)(i % 2) * ROWS * COLS };
		memcpy(u->in, l->in, sizeof l->in);
		memcpy(u->out, l->out, sizeof l->out);
		u->in[1].data = l->w[i % 2];
		u->out[0].data = u->y;
		assert_int_equal(pthread_create(&threads[i], NULL, use, u), 0);
	}
	for (int i = 0; i < 6; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(users[i].failures, 0);
	}
	stax_prepared_free(p[0]);
	stax_prepared_free(p[1]);
	stax_prepared_free(NULL);
	free(users);
	free(want);
	layer_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_prepare_runs_read_what_was_packed),
		cmocka_unit_test(test_prepare_only_parameters_need_data),
		cmocka_unit_test(test_prepare_memory_is_the_environments),
		cmocka_unit_test(test_prepare_parameter_that_moved_is_refused),
		cmocka_unit_test(test_prepare_for_another_artifact_is_refused),
		cmocka_unit_test(test_prepare_two_layers_have_an_operand_each),
		cmocka_unit_test(test_prepare_nothing_to_pack_is_empty),
		cmocka_unit_test(test_prepare_damaged_plans_are_refused),
		cmocka_unit_test(test_prepare_instances_run_side_by_side),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
