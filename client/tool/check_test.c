/* check_test.c: one folder of the ONNX test corpus: compile, run, compare. A skip comes from an op,
 * attribute or dtype, before code is generated; everything else that goes wrong is a failure. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onnx_types.h"
#include "tool.h"

#define RTOL     1e-3
#define ATOL     1e-7
#define SETS_MAX 64

struct test {
	const char *dir;
	double rtol, atol;
	struct stx_tool_graph graph;
	struct stx_tool_values values;
	struct stax_answer *answer;
	struct stax_artifact *artifact;
	uint64_t deadline_ns;
};

static void verdict(struct stx_tool_result *r, enum stx_tool_verdict v, const struct stx_diag *d)
{
	r->verdict = v;
	const char *text = d->text[0] ? d->text : stx_err_text(d->code);
	int named = d->node[0] && !strstr(text, d->node);
	if (v == STX_TEST_SKIP)
		snprintf(r->why, sizeof r->why, "%s", text);
	else
		snprintf(r->why, sizeof r->why, "%s: %s%s%s%s%s", stx_err_name(d->code), d->stage,
			 d->stage[0] ? ": " : "", named ? d->node : "", named ? ": " : "", text);
	for (char *p = r->why; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			*p = ' ';
}

/* What the importer refuses, and tensors of types that cannot be held, are skips. */
static void failed(struct stx_tool_result *r, const struct stx_diag *d)
{
	int skip = d->code == STX_E_UNSUPPORTED && !strcmp(d->stage, "import");
	verdict(r, skip ? STX_TEST_SKIP : STX_TEST_FAIL, d);
}

/* ---- data.json: two numbers ---- */

static void read_number(const char *text, const char *key, double *out)
{
	const char *p = strstr(text, key);
	char *end;
	if (!p)
		return;
	p += strlen(key);
	p += strspn(p, " \t\r\n");
	if (*p++ != ':')
		return;
	double v = strtod(p, &end);
	if (end != p && v >= 0)
		*out = v;
}

static void read_tolerance(struct test *t)
{
	char path[4096];
	struct stx_bytes b = { 0 };
	t->rtol = RTOL;
	t->atol = ATOL;
	if ((size_t)snprintf(path, sizeof path, "%s/data.json", t->dir) >= sizeof path ||
	    stx_file_read(path, 1 << 20, &b, NULL)) {
		stx_bytes_free(&b);
		return;
	}
	const char *text = stx_bytes_cstr(&b);
	read_number(text, "\"rtol\"", &t->rtol);
	read_number(text, "\"atol\"", &t->atol);
	stx_bytes_free(&b);
}

/* ---- before compiling ---- */

static int check_kinds(const char *what, const struct stx_model_input *in,
		       struct stx_tool_result *r)
{
	static const char *const kinds[] = { "tensor", "sequence", "optional",
					     "map or sparse tensor" };
	if (in->kind != STX_MODEL_TENSOR)
		snprintf(r->why, sizeof r->why, "%s '%s': %s type", what, in->name,
			 kinds[in->kind]);
	else if (in->elem_type && stx_onnx_dtype(in->elem_type) == STX_DTYPE_NONE)
		snprintf(r->why, sizeof r->why, "%s '%s': dtype %s", what, in->name,
			 stx_onnx_type_name(in->elem_type));
	else
		return 1;
	r->verdict = STX_TEST_SKIP;
	return 0;
}

static int read_test(struct test *t, struct stx_tool_result *r)
{
	char path[4096];
	struct stx_diag d = { 0 };
	if ((size_t)snprintf(path, sizeof path, "%s/model.onnx", t->dir) >= sizeof path)
		stx_fail(&d, STX_E_USAGE, "check", "", "the path is too long");
	if (d.code || stx_tool_graph_read(path, &t->graph, &d)) {
		failed(r, &d);
		return 0;
	}
	t->graph.path = t->dir;
	const struct stx_model *m = &t->graph.model;
	for (unsigned i = 0; i < m->inputs.n; i++)
		if (!check_kinds("input", &m->inputs.at[i], r))
			return 0;
	for (unsigned i = 0; i < m->outputs.n; i++)
		if (!check_kinds("output", &m->outputs.at[i], r))
			return 0;
	return 1;
}

/* Is the first element of a tensor of the test data 0? */
static int is_zero(const struct test *t, const char *name)
{
	const struct stx_host *h = stx_tool_values_find(&t->values, name);
	static const unsigned char zeros[8];
	return h && h->bytes >= (size_t)stx_dtype_bytes((enum stx_dtype)h->t.dtype) &&
	       !memcmp(h->t.data, zeros, (size_t)stx_dtype_bytes((enum stx_dtype)h->t.dtype));
}

/* Random numbers are no others' random numbers: there is nothing to compare. */
static int draws_random(const struct test *t, struct stx_tool_result *r)
{
	const struct stx_model *m = &t->graph.model;
	const struct stx_model_dropout *p = &m->dropout;
	const char *op = m->draws;
	if (p->training && !is_zero(t, p->training) && !is_zero(t, p->ratio))
		op = "Dropout, training,";
	if (op)
		snprintf(r->why, sizeof r->why, "operator %s draws random numbers", op);
	return op != NULL;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Names of the test_data_set_N folders, sorted. */
static int data_sets(const struct test *t, char sets[SETS_MAX][64])
{
	DIR *dir = opendir(t->dir);
	int n = 0;
	struct dirent *e;
	while (dir && n < SETS_MAX && (e = readdir(dir)))
		if (!strncmp(e->d_name, "test_data_set_", 14) && strlen(e->d_name) < 64)
			memcpy(sets[n++], e->d_name, strlen(e->d_name) + 1);
	if (dir)
		closedir(dir);
	qsort(sets, (size_t)n, sizeof *sets, by_name);
	return n;
}

/* ---- compile and run ---- */

static int build(struct test *t, struct stax_client *c, const char *target,
		 struct stx_tool_result *r)
{
	struct stx_diag d = { 0 };
	struct stax_error err;
	uint64_t now = stx_clock_ns();
	uint64_t ms = t->deadline_ns > now ? (t->deadline_ns - now) / 1000000 : 0;
	struct stax_request q = { .target = target, .deadline_ms = (uint32_t)(ms ? ms : 1) };
	if (stx_tool_compile_graph(c, &t->graph, &t->values, &q, &t->answer, &d)) {
		failed(r, &d);
		return 0;
	}
	if (stax_load(c, t->answer, &t->artifact, &err)) {
		stx_tool_diag(&d, &err);
		verdict(r, STX_TEST_FAIL, &d);
		return 0;
	}
	return 1;
}

static stx_err compare_output(const struct test *t, const char *set, int i,
			      const struct stx_host *got, struct stx_diag *d)
{
	char path[4096];
	const char *name;
	struct stx_host want;
	double worst;
	stax_output(t->artifact, i, NULL, &name);
	if ((size_t)snprintf(path, sizeof path, "%s/%s/output_%d.pb", t->dir, set, i) >=
	    sizeof path)
		return stx_fail(d, STX_E_USAGE, "check", "", "the path is too long");
	stx_err e = stx_onnx_tensor_read(path, &want, d);
	if (e)
		return e;
	e = stx_host_compare(name, got, &want, t->rtol, t->atol, &worst, d);
	stx_host_free(&want);
	return e;
}

/* Compares every output file of the set. */
static stx_err run_and_compare(struct test *t, const char *set, struct stx_diag *d)
{
	struct stx_tool_arguments args;
	stx_err e = stx_tool_bind(t->artifact, &t->graph, &t->values, 0, 0, &args, d);
	if (e)
		return e;
	e = stx_tool_execute(t->artifact, &args, d);
	for (int i = 0; i < args.nout && !e; i++)
		e = compare_output(t, set, i, &args.out[i], d);
	stx_tool_arguments_free(&args);
	return e;
}

static void run_on_gpu(struct test *t, const char *set, struct stx_tool_result *r)
{
	struct stx_diag d = { 0 };
	if (!run_and_compare(t, set, &d))
		return;
	failed(r, &d);
	r->is_spent = 1;
}

static _Noreturn void run_child(struct test *t, const char *set, int out)
{
	struct stx_diag d = { 0 };
	struct stx_tool_result r = { .verdict = STX_TEST_PASS };
	struct rlimit none = { 0, 0 };
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setrlimit(RLIMIT_CORE, &none);
	if (run_and_compare(t, set, &d))
		failed(&r, &d);
	ssize_t n = write(out, &r, sizeof r);
	_exit(n == (ssize_t)sizeof r ? 0 : 1);
}

/* Waits for the child's verdict until the deadline. */
static void await_child(pid_t child, int in, uint64_t deadline_ns, struct stx_tool_result *r)
{
	struct pollfd p = { in, POLLIN, 0 };
	int status = 0, ready = 0;
	ssize_t n = 0;
	for (;;) {
		uint64_t now = stx_clock_ns();
		int ms = now < deadline_ns ? (int)((deadline_ns - now) / 1000000) + 1 : 0;
		ready = poll(&p, 1, ms);
		if (ready > 0 || (ready == 0 && ms == 0) || (ready < 0 && errno != EINTR))
			break;
	}
	if (ready > 0)
		n = read(in, r, sizeof *r);
	else
		kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (n == (ssize_t)sizeof *r)
		return;
	r->verdict = STX_TEST_FAIL;
	if (ready == 0)
		snprintf(r->why, sizeof r->why, "run: time-out");
	else if (WIFSIGNALED(status))
		snprintf(r->why, sizeof r->why, "run: crashed with signal %d (%s)",
			 WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(r->why, sizeof r->why, "run: ended with status %d", WEXITSTATUS(status));
}

static void run_set(struct test *t, const char *set, struct stx_tool_result *r)
{
	int pipe_fd[2];
	if (pipe2(pipe_fd, O_CLOEXEC)) {
		snprintf(r->why, sizeof r->why, "pipe: %s", strerror(errno));
		r->verdict = STX_TEST_FAIL;
		return;
	}
	fflush(NULL);
	pid_t child = fork();
	if (child == 0) {
		close(pipe_fd[0]);
		run_child(t, set, pipe_fd[1]);
	}
	close(pipe_fd[1]);
	if (child < 0) {
		snprintf(r->why, sizeof r->why, "fork: %s", strerror(errno));
		r->verdict = STX_TEST_FAIL;
	} else {
		await_child(child, pipe_fd[0], t->deadline_ns, r);
	}
	close(pipe_fd[0]);
}

static void free_run(struct test *t)
{
	stax_artifact_free(t->artifact);
	stax_answer_free(t->answer);
	stx_tool_values_free(&t->values);
	t->artifact = NULL;
	t->answer = NULL;
}

void stx_tool_check_test(struct stax_client *c, const char *dir, const char *target,
			 uint32_t timeout_ms, struct stx_tool_result *r)
{
	struct test t = { .dir = dir };
	char sets[SETS_MAX][64];
	memset(r, 0, sizeof *r);
	t.deadline_ns = stx_clock_ns() + timeout_ms * 1000000ull;
	read_tolerance(&t);
	if (!read_test(&t, r))
		goto end;
	int n = data_sets(&t, sets);
	if (n == 0) {
		r->verdict = STX_TEST_FAIL;
		snprintf(r->why, sizeof r->why, "no test_data_set folder");
	}
	for (int i = 0; i < n && r->verdict == STX_TEST_PASS; i++) {
		struct stx_diag d = { 0 };
		/* Values that fix shapes may differ between sets: each is compiled, the second is a
		 * hit. */
		if (stx_tool_values_from_tests(&t.graph, sets[i], &t.values, &d))
			failed(r, &d);
		else if (draws_random(&t, r))
			r->verdict = STX_TEST_SKIP;
		else if (build(&t, c, target, r))
			(stax_is_cuda(t.artifact) ? run_on_gpu : run_set)(&t, sets[i], r);
		free_run(&t);
	}
end:
	stx_tool_graph_free(&t.graph);
}
