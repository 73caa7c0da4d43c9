/* test_graphs.c: random graphs over the whole op table, compiled and run, against the oracle.
 *
 * Each graph is run at every CPU level of this host, fused and not, and fused with all features that
 * it has beyond its level (every eighth one not fused too, others with one feature alone), by one
 * thread, by two (odd seeds) or eight (even ones), in pieces, and with its parameters prepared. Every
 * fourth graph's loops are emitted at all levels as long ones are: most are of too little work for
 * the code that those get; with features they are not. v3 and v4, all ways of
 * splitting and all forms must agree bit for bit, v2 too unless there is a matrix product of
 * floats; and one of them with the oracle: bit for bit but for sums and products, which keep their
 * bounds (RD-12; property_cut.c). Graphs with products are compiled with those cut otherwise too:
 * the same bits. SE-03, SE-04, SE-11, SE-12, LV-13, RZ-12. Every third graph is compiled without
 * its inner sums as outputs too, every fifth with a dynamic size.
 *
 * STAX_PROPERTY_GRAPHS graphs (2000) from seed STAX_TEST_SEED (1) on, by STAX_PROPERTY_JOBS (2)
 * processes: a printed seed and 1 graph repeat a failure. From 2000 graphs on, every operator must
 * have occurred 5 times with every dtype and every layout that its rule accepts. Cases run in
 * forked processes, so that a crash is a failure with a seed too. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "compiled.h"
#include "passes.h"
#include "property_case.h"
#include "ref.h"

#define MOST_FAILURES 5
#define SHRINK_TRIES  300
#define HANG_TRIES    3 /* each takes CASE_SECONDS */
#define CASE_SECONDS  60
#define MAX_JOBS      64

/* What an outcome is; a shrunk case must keep it. */
enum outcome {
	PASS,
	ORACLE_DIFFERS,
	FORMS_DIFFER,
	COMPILE_ERROR,
	RUN_ERROR,
	BAD_CASE,
	CRASH,
	HANG,
	REFUSED /* by name, by the compiler for GPUs: nothing is compared */
};
static const char *const outcome_text[] = { "passes",
					    "differs from the oracle",
					    "differs between forms",
					    "does not compile",
					    "does not run",
					    "is not a valid case",
					    "crashes",
					    "does not end",
					    "is refused" };

/* Shared between the processes that run cases, one each, and the one that reports. */
struct shared {
	uint64_t seed;
	uint32_t kernels;
	uint32_t symbolic;   /* graphs compared with a dynamic size too */
	uint32_t order_free; /* graphs with sums, all of them exact */
	uint32_t wild;       /* run with an index out of bounds */
	uint32_t refused;    /* what compiles for GPUs does not do yet */
	uint32_t reordered;  /* not compared: other sums than the compared form, inside */
	struct prop_counts counts;
	enum outcome outcome;
	char why[1800];
};
static struct shared *shared; /* of this process */

/* ---- one case ---- */

struct form {
	const char *target;
	enum compiled_form form;
	enum compiled_threads threads;
	int whole; /* inner sums are outputs too */
	int is_long;
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

static const char *form_text(const struct form *f, char out[128])
{
	static const char *const threads[] = { "one piece", "pieces", "threads",
					       "pieces, prepared" };
	snprintf(out, 128, "%s %s%s, %s%s: ", f->target, f->is_long ? "long " : "",
		 f->form == COMPILED_FUSED   ? "fused"
		 : f->form == COMPILED_RECUT ? "recut"
					     : "unfused",
		 threads[f->threads], f->whole ? "" : ", own outputs");
	return out;
}

static enum outcome failed(struct check *k, const struct form *f, enum outcome o,
			   const struct stx_diag *d)
{
	char head[128];
	snprintf(k->why, k->cap, "%s%s %s: %s", form_text(f, head), d->stage, d->node, d->text);
	return o;
}

/* On the CPU every operator compiles. */
static enum outcome not_compiled(struct check *k, const struct form *f, const struct stx_diag *d)
{
	int refused = d->code == STX_E_UNSUPPORTED && !strncmp(f->target, "cuda", 4);
	return refused ? REFUSED : failed(k, f, COMPILE_ERROR, d);
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
	char head[128], rest[400];
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
	int form = (int)f.form | (f.is_long ? COMPILED_LONG : 0);
	if (compiled_build(k->text[f.whole], f.target, (enum compiled_form)form, &c, &d))
		return not_compiled(k, &f, &d);
	if (!k->has_base)
		shared->kernels += c.nkernels;
	for (int t = COMPILED_SERIAL; !o && t <= COMPILED_PREPARED; t++) {
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
	char head[128], rest[400];
	enum outcome o = PASS;
	stx_err e = c ? compiled_build(print(a, c->g), target, COMPILED_FUSED, &x, &d)
		      : STX_E_UNSUPPORTED;
	if (e)
		o = e == STX_E_UNSUPPORTED ? PASS : failed(k, &f, COMPILE_ERROR, &d);
	else if (compiled_build(print(a, fixed->g), target, COMPILED_FUSED, &y, &d))
		o = not_compiled(k, &f, &d);
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

/* An index is out of bounds: what the results are is not defined (DF-09), but nothing outside the
 * tensors is touched, and the only error is that one. */
static enum outcome check_wild(struct check *k, const char *const *targets)
{
	for (uint32_t i = 0; targets[i]; i++) {
		for (int fused = 0; fused < 2; fused++) {
			struct form f = { .target = targets[i],
					  .form = fused ? COMPILED_FUSED : COMPILED_UNFUSED,
					  .threads = fused ? COMPILED_POOL : COMPILED_PIECES };
			struct stx_tensor got[PROP_MAX_OUTPUTS];
			struct compiled c;
			struct stx_diag d = { 0 };
			if (compiled_build(k->text[0], f.target, f.form, &c, &d))
				return not_compiled(k, &f, &d);
			stx_err e = compiled_run(&c, f.threads, k->c->inputs, k->c->g->inputs.n,
						 got, &d);
			if (!e)
				compiled_free_outputs(got, k->c->g->outputs.n);
			compiled_free(&c);
			if (e && e != STX_E_BOUNDS)
				return failed(k, &f, RUN_ERROR, &d);
		}
	}
	shared->wild++;
	return PASS;
}

static int is_out_of_bounds(const struct prop_case *c)
{
	struct stx_tensor out[PROP_MAX_OUTPUTS];
	struct stx_diag d = { 0 };
	stx_err e = stx_ref_evaluate(c->g, c->inputs, c->g->inputs.n, out, 0, &d);
	if (!e)
		compiled_free_outputs(out, c->g->outputs.n);
	return e == STX_E_BOUNDS;
}

#define ALL_WAYS    15u
#define ONE_AND_TWO (1u << COMPILED_SERIAL | 1u << COMPILED_POOL)

static enum outcome check_levels(struct check *k, uint64_t seed, const char *const *targets,
				 uint32_t n)
{
	struct form fused = { .whole = 1, .is_long = seed % 4 == 1 }, apart = fused;
	apart.form = COMPILED_UNFUSED;
	fused.target = targets[n > 1];
	enum outcome o = check_form(k, fused, ALL_WAYS);
	for (uint32_t i = 0; !o && i < n; i++) {
		fused.target = targets[i];
		if (i != (n > 1))
			o = check_form(k, fused, ONE_AND_TWO);
	}
	for (uint32_t i = 0; !o && i < n; i++) {
		apart.target = targets[i];
		o = check_form(k, apart, seed % 3 == i ? ALL_WAYS : ONE_AND_TWO);
	}
	return o;
}

/* What this host has beyond its n levels. */
static enum outcome check_features(struct check *k, uint64_t seed, uint32_t n)
{
	const char *const *features = compiled_feature_targets() + n;
	uint32_t m = 0;
	while (features[m])
		m++;
	if (!m)
		return PASS;
	struct form f = { .target = features[m - 1], .whole = 1 };
	enum outcome o = check_form(k, f, 1u << COMPILED_PREPARED);
	if (!o && seed % 4 == 2 && m > 1) {
		f.target = features[seed / 4 % (m - 1)];
		o = check_form(k, f, 1u << COMPILED_SERIAL);
	} else if (!o && seed % 8 == 0) {
		f.form = COMPILED_UNFUSED;
		o = check_form(k, f, 1u << COMPILED_SERIAL);
	}
	return o;
}

static enum outcome check_forms(const struct prop_case *c, uint64_t seed, char *why, size_t cap)
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
	}
	if (!o && prop_is_wild(seed) && is_out_of_bounds(c)) {
		o = check_wild(k, targets);
		stx_arena_free(a);
		return o;
	}
	if (!o) {
		k->order_free = k->cut.ninexact && prop_order_free(c->g, c->inputs);
		shared->order_free += (uint32_t)k->order_free;
		o = check_levels(k, seed, targets, n);
	}
	o = o ? o : check_features(k, seed, n);
	if (!o && prop_has_product(c->g))
		o = check_form(k,
			       (struct form){ .target = targets[seed % n],
					      .form = COMPILED_RECUT,
					      .whole = 1 },
			       1u << COMPILED_PIECES);
	if (!o && k->cut.ninexact && seed % 3 == 0)
		o = check_form(k, (struct form){ .target = targets[(seed + 1) % n], .whole = 0 },
			       1u << COMPILED_PIECES);
	if (!o && seed % 5 == 0)
		o = check_symbolic(k, seed, targets[seed / 5 % n]);
	if (k->has_base)
		compiled_free_outputs(k->base, k->cut.nouts);
	stx_arena_free(a);
	return o;
}

static enum outcome check_case(const struct prop_case *c, uint64_t seed, char *why, size_t cap)
{
	enum outcome o = check_forms(c, seed, why, cap);
	shared->refused += o == REFUSED;
	return o == REFUSED ? PASS : o;
}

static void add_counts(uint32_t *to, const uint32_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

static void add_shared(struct shared *to, const struct shared *from)
{
	to->kernels += from->kernels;
	to->symbolic += from->symbolic;
	to->order_free += from->order_free;
	to->reordered += from->reordered;
	to->wild += from->wild;
	to->refused += from->refused;
	to->counts.graphs += from->counts.graphs;
	to->counts.calls += from->counts.calls;
	add_counts(&to->counts.dtypes[0][0], &from->counts.dtypes[0][0],
		   sizeof to->counts.dtypes / sizeof(uint32_t));
	add_counts(&to->counts.layouts[0][0], &from->counts.layouts[0][0],
		   sizeof to->counts.layouts / sizeof(uint32_t));
}

static void print_coverage(const struct shared *sum)
{
	printf("%u graphs, %u calls, %u kernels; %u with a dynamic size too, %u with exact sums, "
	       "%u with an index out of bounds, "
	       "%u not compared for another order of inner sums\n",
	       sum->counts.graphs, sum->counts.calls, sum->kernels, sum->symbolic, sum->order_free,
	       sum->wild, sum->reordered);
	if (sum->counts.graphs >= 50)
		prop_print_counts(&sum->counts);
}

/* ---- running cases in other processes ---- */

static enum outcome outcome_of(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGPROF ? HANG : CRASH;
	return shared->outcome;
}

static enum outcome ended(int status)
{
	enum outcome o = outcome_of(status);
	if (o == CRASH || (o == PASS && WIFEXITED(status) && WEXITSTATUS(status))) {
		o = CRASH;
		snprintf(shared->why, sizeof shared->why, "%s %d",
			 WIFSIGNALED(status) ? "signal" : "exit",
			 WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	return o;
}

/* In a process of its own: a crash ends it (cmocka would catch it and print). */
static void crash_by_default(void)
{
	static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT };
	for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
		signal(signals[i], SIG_DFL);
}

static void run_here(const struct prop_case *c, uint64_t seed)
{
	/* of processor time, so that a busy machine is no hang; a deadlock takes the longer limit
	 */
	struct itimerval limit = { .it_value = { .tv_sec = CASE_SECONDS } };
	setitimer(ITIMER_PROF, &limit, NULL);
	alarm(10 * CASE_SECONDS);
	setenv("STAX_THREADS", seed & 1 ? "2" : "8", 0);
	shared->outcome = check_case(c, seed, shared->why, sizeof shared->why);
}

/* Starts a process for seeds first, first + step, ... below end: it stops at the first failure,
 * whose seed is shared->seed. */
static pid_t run_seeds(uint64_t first, uint64_t step, uint64_t end)
{
	fflush(NULL);
	shared->outcome = PASS;
	pid_t pid = fork();
	if (pid < 0)
		abort();
	if (pid)
		return pid;
	crash_by_default();
	for (uint64_t s = first; s < end && !shared->outcome; s += step) {
		struct stx_arena *a = stx_arena_new(0);
		shared->seed = s;
		struct prop_case *c = prop_draw(a, s);
		if (!prop_is_wild(s))
			prop_count(&shared->counts, c);
		else
			shared->counts.graphs++;
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
		crash_by_default();
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		run_here(c, f->seed);
		_exit(0);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	if (ended(status) != f->outcome)
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
	const struct prop_case *small =
		prop_shrink(a, c, still_fails, &f, o == HANG ? HANG_TRIES : SHRINK_TRIES);
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

struct jobs {
	struct shared *at; /* [n] */
	pid_t pid[MAX_JOBS];
	uint64_t n, end;
	int failures;
};

/* Waits for any process; reports its failure and has it go on behind. 0: none runs. */
static int next_ended(struct jobs *j)
{
	int status = 0;
	pid_t pid = waitpid(-1, &status, 0);
	if (pid < 0)
		return 0;
	for (uint64_t i = 0; i < j->n; i++) {
		if (j->pid[i] != pid)
			continue;
		j->pid[i] = 0;
		shared = &j->at[i];
		enum outcome o = ended(status);
		if (!o || j->failures >= MOST_FAILURES)
			continue;
		j->failures++;
		uint64_t seed = shared->seed;
		report(seed, o);
		if (seed + j->n < j->end && j->failures < MOST_FAILURES)
			j->pid[i] = run_seeds(seed + j->n, j->n, j->end);
	}
	return 1;
}

static void test_graphs_of_every_operator_agree_with_the_oracle(void **state)
{
	uint64_t count = from_environment("STAX_PROPERTY_GRAPHS", PROP_ENOUGH),
		 seed = from_environment("STAX_TEST_SEED", 1);
	struct jobs j = { .n = from_environment("STAX_PROPERTY_JOBS", 2), .end = seed + count };
	(void)state;
	printf("seeds %llu to %llu\n", (unsigned long long)seed, (unsigned long long)j.end - 1);
	if (!getenv("STAX_TEST_TARGET")) /* a GPU's driver does not survive a fork */
		compiled_compiler();
	prop_planned_cell(0); /* asks the rules once, for all processes */
	j.n = j.n < 1 ? 1 : j.n > MAX_JOBS ? MAX_JOBS : j.n;
	j.n += count > 1 && j.n & 1; /* a process has odd seeds or even ones */
	j.at = mmap(NULL, (j.n + 1) * sizeof *j.at, PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(j.at != MAP_FAILED);
	for (uint64_t i = 0; i < j.n; i++) {
		shared = &j.at[i];
		j.pid[i] = run_seeds(seed + i, j.n, j.end);
	}
	while (next_ended(&j))
		;
	struct shared *sum = &j.at[j.n];
	for (uint64_t i = 0; i < j.n; i++)
		add_shared(sum, &j.at[i]);
	if (sum->refused)
		printf("%u refused by name for a GPU\n", sum->refused);
	if (j.failures) /* the failures stay the last of the output */
		printf("%u graphs\n", sum->counts.graphs);
	if (j.failures)
		fail_msg("%d of the graphs run fail%s", j.failures,
			 j.failures == MOST_FAILURES ? "; stopped there" : "");
	print_coverage(sum);
	assert_int_equal(sum->counts.graphs, count);
	if (count < PROP_ENOUGH)
		return;
	assert_true(sum->wild * 200 > count && sum->order_free * 50 > count &&
		    sum->reordered * 40 < count);
	if (prop_missing(&sum->counts, 5))
		fail_msg("not every operator occurred with every dtype and layout");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_graphs_of_every_operator_agree_with_the_oracle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
