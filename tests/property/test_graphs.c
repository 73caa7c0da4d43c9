/* test_graphs.c: random graphs over the whole op table, compiled and run, against the oracle.
 *
 * Each graph is run at every CPU level of this host, in one piece, in pieces and by two threads,
 * fused and not, with and without its inner sums as outputs. v3 and v4, all ways of splitting and
 * all forms must agree bit for bit, v2 too unless there is a matrix product of floats; and one of
 * them with the oracle: bit for bit but for sums and products, which keep their bounds (RD-12;
 * property_cut.c). SE-03, SE-11, SE-12, LV-13, RZ-12.
 *
 * STAX_PROPERTY_GRAPHS graphs (700, somewhat over a minute) from seed STAX_TEST_SEED (1) on: a
 * printed seed and 1 graph repeat a failure. Cases run in a forked process, so that a crash is a
 * failure with a seed too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiled.h"
#include "passes.h"
#include "property_case.h"

#define MOST_FAILURES 5
#define SHRINK_TRIES  300
#define CASE_SECONDS  60

/* What an outcome is; a shrunk case must keep it. */
enum outcome {
	PASS,
	ORACLE_DIFFERS,
	FORMS_DIFFER,
	COMPILE_ERROR,
	RUN_ERROR,
	BAD_CASE,
	CRASH,
	HANG
};
static const char *const outcome_text[] = { "passes",
					    "differs from the oracle",
					    "differs between forms",
					    "does not compile",
					    "does not run",
					    "is not a valid case",
					    "crashes",
					    "does not end" };

enum layout { DENSE, TRANSPOSED, GAPS, EXPANDED, VIEW, COMPUTED, BROADCAST, NLAYOUTS };
static const char layout_letter[] = "dtgevcb";

/* Shared between the process that runs cases and the one that reports. */
struct shared {
	uint64_t seed;
	uint32_t graphs, kernels, calls;
	uint32_t symbolic;   /* graphs compared with a dynamic size too */
	uint32_t order_free; /* graphs with sums, all of them exact */
	uint32_t reordered;  /* not compared: other sums than the compared form, inside */
	uint32_t dtypes[STX_OP_COUNT][STX_DTYPE_COUNT]; /* of the result */
	uint32_t layouts[STX_OP_COUNT][NLAYOUTS];       /* of the operands */
	enum outcome outcome;
	char why[1800];
};
static struct shared *shared;

/* ---- one case ---- */

struct form {
	const char *target;
	enum compiled_form form;
	enum compiled_threads threads;
	int whole; /* inner sums are outputs too */
};

struct check {
	const struct prop_case *c;
	struct prop_cut cut;
	const char *text[2]; /* outputs of the graph only; inner sums too */
	struct stx_tensor base[PROP_MAX_OUTPUTS];
	char *why;
	size_t cap;
	int has_base;
	int order_free; /* sums are exact in any order */
};

static const char *print(struct stx_arena *a, const struct stx_graph *g)
{
	struct stx_bytes b = { 0 };
	if (stx_graph_print(g, &b))
		abort();
	const char *s = stx_arena_strndup(a, (const char *)b.at, b.n);
	stx_bytes_free(&b);
	return s;
}

static const char *form_text(const struct form *f, char out[96])
{
	static const char *const threads[] = { "one piece", "pieces", "threads" };
	snprintf(out, 96, "%s %s, %s%s: ", f->target,
		 f->form == COMPILED_FUSED ? "fused" : "unfused", threads[f->threads],
		 f->whole ? "" : ", own outputs");
	return out;
}

static enum outcome failed(struct check *k, const struct form *f, enum outcome o,
			   const struct stx_diag *d)
{
	char head[96];
	snprintf(k->why, k->cap, "%s%s %s: %s", form_text(f, head), d->stage, d->node, d->text);
	return o;
}

/* Fusing may change the order of a sum (SE-12), and v2 has no FMA for products. */
static int may_differ(const struct check *k, const struct form *f)
{
	if (k->order_free)
		return 0;
	if (strstr(f->target, "v2") && prop_has_product(k->c->g))
		return 1;
	return k->cut.ninexact && (f->form == COMPILED_UNFUSED || !f->whole);
}

static enum outcome compare(struct check *k, const struct form *f, const struct stx_tensor *got)
{
	char head[96], rest[400];
	uint32_t n = f->whole ? k->cut.nouts : k->c->g->outputs.n;
	enum outcome o = PASS;
	if (!k->has_base) {
		o = prop_compare(&k->cut, k->c->inputs, got, rest, sizeof rest) ? ORACLE_DIFFERS
										: PASS;
	} else if (prop_same(got, k->base, n, rest, sizeof rest)) {
		o = FORMS_DIFFER;
		if (may_differ(k, f) && f->whole)
			o = prop_compare(&k->cut, k->c->inputs, got, rest, sizeof rest)
				    ? ORACLE_DIFFERS
				    : PASS;
		else if (may_differ(k, f)) { /* cannot be cut */
			shared->reordered++;
			o = PASS;
		}
	}
	if (o)
		snprintf(k->why, k->cap, "%s%s", form_text(f, head), rest);
	return o;
}

static enum outcome run_form(struct check *k, const struct form *f, const struct compiled *c)
{
	struct stx_tensor got[PROP_MAX_OUTPUTS];
	struct stx_diag d = { 0 };
	if (compiled_run(c, f->threads, k->c->inputs, k->c->g->inputs.n, got, &d))
		return failed(k, f, RUN_ERROR, &d);
	enum outcome o = compare(k, f, got);
	if (!o && !k->has_base) {
		memcpy(k->base, got, k->cut.nouts * sizeof *got);
		k->has_base = 1;
	} else {
		compiled_free_outputs(got, f->whole ? k->cut.nouts : k->c->g->outputs.n);
	}
	return o;
}

/* Compiles once, runs in each way of splitting given. */
static enum outcome check_form(struct check *k, struct form f, unsigned ways)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	enum outcome o = PASS;
	if (compiled_build(k->text[f.whole], f.target, f.form, &c, &d))
		return failed(k, &f, COMPILE_ERROR, &d);
	if (!k->has_base)
		shared->kernels += c.nkernels;
	for (int t = COMPILED_SERIAL; !o && t <= COMPILED_POOL; t++) {
		f.threads = (enum compiled_threads)t;
		if (ways & 1u << t)
			o = run_form(k, &f, &c);
	}
	compiled_free(&c);
	return o;
}

/* One size as a symbol: the same graph gives what it gives with the size fixed. */
static enum outcome check_symbolic(struct check *k, uint64_t seed, const char *target)
{
	struct stx_arena *a = stx_arena_new(0);
	struct prop_case *fixed, *c = prop_symbolic(a, k->c, seed, &fixed);
	struct form f = { .target = target, .threads = COMPILED_PIECES };
	struct compiled x = { 0 }, y = { 0 };
	struct stx_tensor got[PROP_MAX_OUTPUTS] = { 0 }, want[PROP_MAX_OUTPUTS] = { 0 };
	struct stx_diag d = { 0 };
	char head[96], rest[400];
	enum outcome o = PASS;
	stx_err e = c ? compiled_build(print(a, c->g), target, COMPILED_FUSED, &x, &d)
		      : STX_E_UNSUPPORTED;
	if (e)
		o = e == STX_E_UNSUPPORTED ? PASS : failed(k, &f, COMPILE_ERROR, &d);
	else if (compiled_build(print(a, fixed->g), target, COMPILED_FUSED, &y, &d))
		o = failed(k, &f, COMPILE_ERROR, &d);
	else if (compiled_run(&x, f.threads, c->inputs, c->g->inputs.n, got, &d) ||
		 compiled_run(&y, f.threads, fixed->inputs, fixed->g->inputs.n, want, &d))
		o = failed(k, &f, RUN_ERROR, &d);
	else if (prop_same(got, want, c->g->outputs.n, rest, sizeof rest) &&
		 (k->order_free || !k->cut.ninexact)) {
		snprintf(k->why, k->cap, "%swith a dynamic size: %s", form_text(&f, head), rest);
		o = FORMS_DIFFER;
	}
	shared->symbolic += !e;
	if (o && c) {
		size_t n = strlen(k->why);
		snprintf(k->why + n, k->cap - n, "\n%s", print(a, c->g));
	}
	if (x.artifact)
		compiled_free_outputs(got, (uint32_t)stax_noutputs(x.artifact));
	if (y.artifact)
		compiled_free_outputs(want, (uint32_t)stax_noutputs(y.artifact));
	compiled_free(&x);
	compiled_free(&y);
	stx_arena_free(a);
	return o;
}

#define ALL_WAYS 7u
static enum outcome check_case(const struct prop_case *c, uint64_t seed, char *why, size_t cap)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_diag d = { 0 };
	struct check *k = STX_NEW(a, struct check);
	const char *const *targets = compiled_targets();
	uint32_t n = 0;
	while (targets[n])
		n++;
	*k = (struct check){ .c = c, .why = why, .cap = cap };
	enum outcome o = PASS;
	if (stx_graph_verify(c->g, &d) || prop_cut(a, c->g, &k->cut, &d)) {
		snprintf(why, cap, "%s: %s: %s", d.stage, d.node, d.text);
		o = BAD_CASE;
	}
	if (!o) {
		k->text[0] = print(a, c->g);
		k->text[1] = print(a, k->cut.run);
		k->order_free = k->cut.ninexact && prop_order_free(c->g, c->inputs);
		shared->order_free += (uint32_t)k->order_free;
		o = check_form(k, (struct form){ .target = targets[n > 1], .whole = 1 }, ALL_WAYS);
	}
	for (uint32_t i = 0; !o && i < n; i++)
		if (i != (n > 1))
			o = check_form(k, (struct form){ .target = targets[i], .whole = 1 },
				       1u << seed % 2);
	if (!o)
		o = check_form(k,
			       (struct form){ .target = targets[seed / 2 % n],
					      .form = COMPILED_UNFUSED,
					      .whole = 1 },
			       1u << COMPILED_PIECES);
	if (!o && k->cut.ninexact)
		o = check_form(k, (struct form){ .target = targets[(seed + 1) % n], .whole = 0 },
			       1u << COMPILED_PIECES);
	if (!o)
		o = check_symbolic(k, seed, targets[seed % n]);
	if (k->has_base)
		compiled_free_outputs(k->base, k->cut.nouts);
	stx_arena_free(a);
	return o;
}

/* ---- what was covered ---- */

static int64_t size_of(const struct stx_graph *g, const struct stx_type *t, int i)
{
	int64_t v = 0;
	stx_ex_is_const(g->ex, t->sizes[i], &v);
	return v;
}

static enum layout layout_of(const struct prop_case *c, struct stx_val v)
{
	const struct stx_tensor *t = NULL;
	int64_t step = 1;
	enum layout l = DENSE;
	if (stx_op_info(v.node->op)->category == STX_CAT_VIEW)
		return VIEW;
	if (v.node->op != STX_OP_PLACEHOLDER)
		return v.node->op == STX_OP_CONSTANT ? DENSE : COMPUTED;
	for (uint32_t i = 0; i < c->g->inputs.n; i++)
		if (c->g->inputs.at[i].node == v.node)
			t = &c->inputs[i];
	for (int i = t->rank; i-- > 0;) {
		if (t->sizes[i] > 1 && t->strides[i] == 0)
			return EXPANDED;
		if (t->sizes[i] > 1 && t->strides[i] < step)
			l = TRANSPOSED;
		else if (t->sizes[i] > 1 && t->strides[i] > step && l == DENSE)
			l = GAPS;
		step *= t->sizes[i] ? t->sizes[i] : 1;
	}
	return l;
}

static void count_operand(const struct prop_case *c, const struct stx_node *n, struct stx_val v)
{
	const struct stx_type *x = stx_val_type(v), *o = &n->outs[0];
	shared->layouts[n->op][layout_of(c, v)]++;
	if (stx_op_info(n->op)->category != STX_CAT_POINTWISE)
		return;
	int broadcast = x->rank != o->rank;
	for (int i = 0; !broadcast && i < x->rank; i++)
		broadcast = size_of(c->g, x, i) != size_of(c->g, o, i);
	shared->layouts[n->op][BROADCAST] += (uint32_t)broadcast;
}

static void count_case(const struct prop_case *c)
{
	shared->graphs++;
	for (uint32_t i = 0; i < c->g->nodes.n; i++) {
		const struct stx_node *n = c->g->nodes.at[i];
		if (n->op == STX_OP_PLACEHOLDER || !n->nouts || !n->num_users)
			continue;
		shared->calls++;
		shared->dtypes[n->op][n->outs[0].dtype]++;
		for (uint32_t k = 0; k < n->nargs; k++) {
			if (n->args[k].kind == STX_ARG_TENSOR)
				count_operand(c, n, n->args[k].u.tensor);
			for (uint32_t j = 0; n->args[k].kind == STX_ARG_TENSORS && j < n->args[k].n;
			     j++)
				if (n->args[k].u.tensors[j].node)
					count_operand(c, n, n->args[k].u.tensors[j]);
		}
	}
}

/* Two columns of operators: results by dtype, operands by layout. */
static void print_coverage(void)
{
	printf("%u graphs, %u calls, %u kernels; %u with a dynamic size too, %u with exact sums, "
	       "%u not compared for another "
	       "order of inner sums; operators: results by dtype | operands by layout (d dense, t "
	       "transposed, g gaps, e expanded, v view, c computed; b broadcast)\n",
	       shared->graphs, shared->calls, shared->kernels, shared->symbolic, shared->order_free,
	       shared->reordered);
	for (int op = 0; op < STX_OP_COUNT; op++) {
		printf("  %-26s", stx_op_info((enum stx_op)op)->overload);
		for (int t = 0; t < STX_DTYPE_COUNT; t++)
			if (shared->dtypes[op][t])
				printf(" %s:%u", stx_dtype_name((enum stx_dtype)t),
				       shared->dtypes[op][t]);
		printf(" |");
		for (int l = 0; l < NLAYOUTS; l++)
			if (shared->layouts[op][l])
				printf(" %c%u", layout_letter[l], shared->layouts[op][l]);
		printf("\n");
	}
}

static uint32_t count_op(enum stx_op op)
{
	uint32_t n = 0;
	for (int t = 0; t < STX_DTYPE_COUNT; t++)
		n += shared->dtypes[op][t];
	return n;
}

/* ---- running cases in other processes ---- */

static enum outcome outcome_of(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? HANG : CRASH;
	return shared->outcome;
}

static enum outcome wait_for(pid_t pid)
{
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	enum outcome o = outcome_of(status);
	if (o == CRASH || (o == PASS && WIFEXITED(status) && WEXITSTATUS(status))) {
		o = CRASH;
		snprintf(shared->why, sizeof shared->why, "%s %d",
			 WIFSIGNALED(status) ? "signal" : "exit",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	return o;
}

static void run_here(const struct prop_case *c, uint64_t seed)
{
	alarm(CASE_SECONDS);
	shared->outcome = check_case(c, seed, shared->why, sizeof shared->why);
}

/* Seeds [first, end): stops at the first failure, whose seed is shared->seed. */
static enum outcome run_range(uint64_t first, uint64_t end)
{
	fflush(NULL);
	shared->outcome = PASS;
	pid_t pid = fork();
	if (pid)
		return wait_for(pid);
	for (uint64_t s = first; s < end && !shared->outcome; s++) {
		struct stx_arena *a = stx_arena_new(0);
		shared->seed = s;
		struct prop_case *c = prop_draw(a, s);
		count_case(c);
		run_here(c, s);
		stx_arena_free(a);
	}
	_exit(0);
}

struct same_failure {
	enum outcome outcome;
	uint64_t seed;
	char why[1800];
};

static int still_fails(void *ctx, const struct prop_case *c)
{
	struct same_failure *f = ctx;
	fflush(NULL);
	shared->outcome = PASS;
	pid_t pid = fork();
	if (!pid) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		run_here(c, f->seed);
		_exit(0);
	}
	if (wait_for(pid) != f->outcome)
		return 0;
	memcpy(f->why, shared->why, sizeof f->why);
	return 1;
}

static void report(uint64_t seed, enum outcome o)
{
	struct stx_arena *a = stx_arena_new(0);
	struct same_failure f = { .outcome = o, .seed = seed };
	struct stx_bytes text = { 0 };
	struct prop_case *c = prop_draw(a, seed);
	memcpy(f.why, shared->why, sizeof f.why);
	print_error("seed %llu %s: %s\n", (unsigned long long)seed, outcome_text[o], f.why);
	const struct prop_case *small = prop_shrink(a, c, still_fails, &f, SHRINK_TRIES);
	prop_print(small, &text);
	print_error("shrunk: %s\n%s", f.why, stx_bytes_cstr(&text));
	stx_bytes_free(&text);
	stx_arena_free(a);
}

/* ---- the test ---- */

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

/* Drawn with arguments that fit in tests/conformance/test_operators.c instead. */
static int is_drawn_elsewhere(enum stx_op op)
{
	enum stx_op_category c = stx_op_info(op)->category;
	return c == STX_CAT_WINDOW || (c == STX_CAT_SCAN && !prop_is_sort(op)) ||
	       c == STX_CAT_SCATTER || prop_is_norm(op) || op == STX_OP_ATAN2_OUT ||
	       op == STX_OP_CONVOLUTION || op == STX_OP_UNFOLD;
}

static void test_graphs_of_every_operator_agree_with_the_oracle(void **state)
{
	uint64_t count = from_environment("STAX_PROPERTY_GRAPHS", 700),
		 seed = from_environment("STAX_TEST_SEED", 1);
	uint64_t end = seed + count;
	int failures = 0;
	(void)state;
	setenv("STAX_THREADS", "2", 0);
	compiled_compiler();
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
	while (seed < end && failures < MOST_FAILURES) {
		enum outcome o = run_range(seed, end);
		if (!o)
			break;
		seed = shared->seed;
		report(seed++, o);
		failures++;
	}
	print_coverage();
	if (failures)
		fail_msg("%d of the graphs run fail%s", failures,
			 failures == MOST_FAILURES ? "; stopped there" : "");
	if (count < 400)
		return;
	assert_true(shared->order_free * 20 > count && shared->reordered * 40 < count);
	for (int op = 2; op < STX_OP_COUNT; op++)
		if (!(stx_op_info((enum stx_op)op)->tags & STX_TAG_EFFECT) &&
		    !count_op((enum stx_op)op) && !is_drawn_elsewhere((enum stx_op)op))
			fail_msg("no graph has %s", stx_op_info((enum stx_op)op)->overload);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graphs_of_every_operator_agree_with_the_oracle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
