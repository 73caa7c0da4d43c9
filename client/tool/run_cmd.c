/* run_cmd.c: stax run: a graph file or an artifact, with values from files, checked against files.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tool.h"

struct flags {
	const char *target, *out;
	double rtol, atol;
	int64_t time, seed;
	int interpret, fast;
	struct stx_option_list inputs, expects, files;
};

static stx_err load_artifact(struct stx_tool_session *s, const char *path, struct stx_diag *d)
{
	struct stax_error err;
	int e = stax_load_file(path, &s->artifact, &err);
	if (e == STX_E_CORRUPT)
		return stx_fail(d, STX_E_INVALID, "load", "",
				"%s is no artifact that can be run: %.300s", path, err.text);
	if (e)
		stx_tool_diag(d, &err);
	return e;
}

/* By name; in an artifact file, whose arguments have no names of the producer's, a number is a
 * position. */
static int position(const char *name, int n)
{
	char *end;
	long i = strtol(name, &end, 10);
	return *name >= '0' && *name <= '9' && !*end && i < n ? (int)i : -1;
}

static int find_input(const struct stax_artifact *a, const char *name, const char **found)
{
	for (int i = 0; i < stax_ninputs(a); i++)
		if (!stax_input(a, i, NULL, found) && !strcmp(*found, name))
			return i;
	int i = position(name, stax_ninputs(a));
	if (i >= 0)
		stax_input(a, i, NULL, found);
	return i;
}

static int find_output(const struct stax_artifact *a, const char *name, struct stx_tensor *t)
{
	const char *n;
	for (int i = 0; i < stax_noutputs(a); i++)
		if (!stax_output(a, i, t, &n) && !strcmp(n, name))
			return i;
	int i = position(name, stax_noutputs(a));
	if (i >= 0)
		stax_output(a, i, t, &n);
	return i;
}

/* "there is no input 'q': x, y" */
static stx_err no_such(const struct stax_artifact *a, int input, const char *name,
		       struct stx_diag *d)
{
	char list[320] = "";
	int n = input ? stax_ninputs(a) : stax_noutputs(a);
	size_t used = 0;
	for (int i = 0; i < n && used < sizeof list - 8; i++) {
		const char *s;
		if (input ? stax_input(a, i, NULL, &s) : stax_output(a, i, NULL, &s))
			continue;
		used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", s);
	}
	if (used >= sizeof list - 8)
		memcpy(list + sizeof list - 4, "...", 4);
	return stx_fail(d, STX_E_USAGE, "run", name, "there is no %s '%.80s'; %ss: %s",
			input ? "input" : "output", name, input ? "input" : "output", list);
}

/* Before the run, so that a mistyped name costs none. */
static stx_err check_expects(const struct stx_tool_session *s, const struct flags *f,
			     struct stx_diag *d)
{
	for (int i = 0; i < f->expects.n; i++) {
		char name[256];
		const char *path;
		struct stx_tensor t;
		if (stx_option_pair(f->expects.at[i], name, sizeof name, &path))
			return stx_fail(d, STX_E_USAGE, "usage", "",
					"--expect %s: NAME=FILE expected", f->expects.at[i]);
		if (find_output(s->artifact, name, &t) < 0)
			return no_such(s->artifact, 0, name, d);
	}
	return STX_E_OK;
}

/* Each --input must name an input; those whose values fixed shapes are inputs of the graph only. */
static stx_err check_values(struct stx_tool_session *s, struct stx_diag *d)
{
	for (int i = 0; i < s->values.n; i++) {
		struct stx_tool_value *v = &s->values.at[i];
		const char *name;
		int known = find_input(s->artifact, v->name, &name) >= 0;
		if (known)
			snprintf(v->name, sizeof v->name, "%s", name);
		for (unsigned n = 0; !known && s->has_graph && n < s->graph.model.inputs.n; n++)
			known = !strcmp(s->graph.model.inputs.at[n].name, v->name);
		if (!known && !(s->has_graph && s->graph.format == STAX_WIRE))
			return no_such(s->artifact, 1, v->name, d);
	}
	return STX_E_OK;
}

static stx_err expect(struct stx_tool_session *s, const struct flags *f, const char *text,
		      FILE *out, struct stx_diag *d)
{
	char name[256];
	const char *path;
	struct stx_tensor t;
	struct stx_host want;
	double worst;
	if (stx_option_pair(text, name, sizeof name, &path))
		return stx_fail(d, STX_E_USAGE, "usage", "", "--expect %s: NAME=FILE expected",
				text);
	int i = find_output(s->artifact, name, &t);
	if (i < 0)
		return no_such(s->artifact, 0, name, d);
	stx_err e = stx_tool_tensor_read(path, t.dtype, &want, d);
	if (e)
		return e;
	e = stx_host_compare(name, &s->args.out[i], &want, f->rtol, f->atol, &worst, d);
	if (!e)
		fprintf(out, "%s: as expected, largest difference %.3g\n", name, worst);
	stx_host_free(&want);
	return e;
}

/* The operators one by one, by the oracle, instead of the code (ST-05). */
static stx_err interpret(struct stx_tool_session *s, const struct flags *f, struct stx_diag *d)
{
	struct stax_request q = { .target = f->target };
	struct stax_client *c = NULL;
	struct stax_error err;
	struct stx_tensor *out = NULL;
	int n = 0;
	if (!s->has_graph)
		return stx_fail(d, STX_E_USAGE, "usage", "",
				"--interpret needs a graph file: an artifact has no operators");
	if (stax_connect("none", &c, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	stx_err e =
		stx_tool_reference_graph(c, &s->graph, &s->values, &q, &s->args, NULL, &out, &n, d);
	if (!e && n != s->args.nout)
		e = stx_fail(d, STX_E_INTERNAL, "run", "", "%d outputs, the artifact has %d", n,
			     s->args.nout);
	for (int i = 0; i < n; i++) {
		struct stx_diag ignored = { 0 };
		struct stx_host h;
		if (!e && !(e = stx_host_copy(&h, &out[i], &ignored))) {
			stx_host_free(&s->args.out[i]);
			s->args.out[i] = h;
		}
		free(out[i].data);
	}
	free(out);
	stax_client_free(c);
	return e;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* As a program that runs a model often would: its weights are packed once. */
static stx_err time_runs(struct stx_tool_session *s, int64_t n, FILE *out, struct stx_diag *d)
{
	double *us = calloc((size_t)n, sizeof *us);
	if (!us)
		return stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	stx_err e = stx_tool_prepare(s->artifact, &s->args, out, d);
	for (int64_t i = 0; !e && i < n; i++) {
		uint64_t start = stx_clock_ns();
		e = stx_tool_launch(s->artifact, &s->args, d);
		us[i] = (double)(stx_clock_ns() - start) * 1e-3;
	}
	if (!e) {
		qsort(us, (size_t)n, sizeof *us, by_value);
		fprintf(out, "time: median %.3f us, least %.3f us, p90 %.3f us, %lld runs\n",
			us[n / 2], us[0], us[n * 9 / 10], (long long)n);
	}
	free(us);
	return e;
}

/* Names may hold characters a file name must not. */
static void file_name(const char *name, char *out, size_t cap)
{
	size_t i = 0;
	for (; name[i] && i + 1 < cap; i++)
		out[i] = name[i] == '/' || (unsigned char)name[i] < 0x20 ? '_' : name[i];
	out[i] = 0;
}

static stx_err write_outputs(struct stx_tool_session *s, const char *dir, FILE *out,
			     struct stx_diag *d)
{
	if (mkdir(dir, 0777) && errno != EEXIST)
		return stx_fail(d, STX_E_USAGE, "file", "", "--out %s: %s", dir, strerror(errno));
	for (int i = 0; i < s->args.nout; i++) {
		const char *name;
		char base[200], path[4096];
		struct stx_bytes b = { 0 };
		stax_output(s->artifact, i, NULL, &name);
		file_name(name, base, sizeof base);
		stx_err e = STX_E_OK;
		if ((size_t)snprintf(path, sizeof path, "%s/%s%s.npy", dir,
				     base[0] == '.' ? "_" : "", base) >= sizeof path)
			e = stx_fail(d, STX_E_USAGE, "file", "", "the path is too long");
		if (!e && !(e = stx_npy_format(&s->args.out[i], &b, d)))
			e = stx_file_write(path, (struct stx_span){ b.at, b.n }, d);
		stx_bytes_free(&b);
		if (e)
			return e;
		fprintf(out, "wrote %s\n", path);
	}
	return STX_E_OK;
}

static stx_err run(struct stx_tool_session *s, const struct flags *f, FILE *out, struct stx_diag *d)
{
	const char *file = f->files.at[0];
	struct stax_request q = { .target = f->target, .fast = f->fast };
	stx_err e = stx_tool_values_read(&s->values, &f->inputs, d);
	if (e)
		return e;
	if (stx_tool_is_artifact(file))
		e = load_artifact(s, file, d);
	else if (!(e = stx_tool_session_graph(s, file, d)))
		e = stx_tool_session_compile(s, &q, d);
	if (e || (e = check_values(s, d)) || (e = check_expects(s, f, d)) ||
	    (e = stx_tool_session_bind(s, (uint64_t)f->seed, d)) ||
	    (e = f->interpret ? interpret(s, f, d) : stx_tool_execute(s->artifact, &s->args, d)))
		return e;
	for (int i = 0; i < s->args.nout; i++) {
		const char *name;
		stax_output(s->artifact, i, NULL, &name);
		stx_tool_put_text(out, name);
		stx_host_print(out, &s->args.out[i]);
	}
	if (f->out && (e = write_outputs(s, f->out, out, d)))
		return e;
	for (int i = 0; i < f->expects.n; i++) {
		stx_err x = expect(s, f, f->expects.at[i], out,
				   d); /* all are checked, the first is told */
		e = e ? e : x;
	}
	return !e && f->time > 0 ? time_runs(s, f->time, out, d) : e;
}

int stx_tool_run(int argc, char **argv)
{
	struct flags f = { .rtol = 1e-3, .atol = 1e-7 };
	struct stx_diag d = { 0 };
	struct stx_tool_session s = { 0 };
	const struct stx_option table[] = {
		{ "target", STX_OPT_TEXT, &f.target },
		{ "input", STX_OPT_LIST, &f.inputs },
		{ "expect", STX_OPT_LIST, &f.expects },
		{ "rtol", STX_OPT_REAL, &f.rtol },
		{ "atol", STX_OPT_REAL, &f.atol },
		{ "time", STX_OPT_COUNT, &f.time },
		{ "seed", STX_OPT_COUNT, &f.seed },
		{ "out", STX_OPT_TEXT, &f.out },
		{ "interpret", STX_OPT_FLAG, &f.interpret },
		{ "fast", STX_OPT_FLAG, &f.fast },
		{ NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &f.files, &d);
	if (!e && f.files.n != 1)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "run takes one graph file or artifact");
	if (!e && f.time > 100000000)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "--time: at most 100000000 runs");
	if (!e)
		e = run(&s, &f, stdout, &d);
	fflush(stdout);
	stx_tool_session_close(&s);
	return e ? stx_tool_fail(&d, 0) : 0;
}
