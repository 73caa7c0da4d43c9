/* tune_cmd.c: stax tune: measures the launch configurations of a graph's or an artifact's kernels
 * on this host's GPU, or how its products are cut on its CPU, ahead of the runs that will use
 * them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct flags {
	const char *target;
	int fast, json;
	int64_t seed, runs, sweep;
	struct stx_option_list inputs, files;
};

#define MAX_KERNELS 4096

/* For people, as it goes. */
static void put_line(void *ctx, const char *kernel, const char *line)
{
	FILE *f = ctx;
	stx_tool_put_text(f, kernel);
	fputs(": ", f);
	stx_tool_put_text(f, line);
	fputc('\n', f);
	fflush(f);
}

/* q: of a graph, as it was asked for. */
static stx_err load(struct stx_tool_session *s, const struct flags *f, struct stax_request *q,
		    struct stx_diag *d)
{
	const char *file = f->files.at[0];
	struct stax_error err;
	stx_err e = stx_tool_values_read(&s->values, &f->inputs, d);
	if (e)
		return e;
	if (!stx_tool_is_artifact(file)) {
		e = stx_tool_session_graph(s, file, d);
		return e ? e : stx_tool_session_compile(s, q, d);
	}
	e = stx_tool_connect(1, &s->client, d);
	if (!e && (e = stax_load_file(file, &s->artifact, &err)))
		stx_tool_diag(d, &err);
	return e;
}

/* The best time that is known of the kernel. */
static double best_us(const struct stax_tuned *t)
{
	return t->swept_us > 0 && t->swept_us < t->chosen_us ? t->swept_us : t->chosen_us;
}

static double ratio(double us, const struct stax_tuned *t)
{
	return us > 0 && best_us(t) > 0 ? us / best_us(t) : NAN;
}

static void cell_us(struct stx_table *t, double us)
{
	if (us > 0)
		stx_table_cell(t, "%.3f", us);
	else
		stx_table_cell(t, "-");
}

static void write_text(struct stx_bytes *b, const struct stax_tuned *at, int n, int sweep)
{
	static const char *const titles[] = { "kernel",       "candidates",     "measured",
					      "heuristic us", "chosen us",      "chosen",
					      "sweep us",     "heuristic/best", "chosen/best" };
	struct stx_table t = { 0 };
	int measured = 0, threads = n > 0 && at[0].threads;
	stx_table_column(&t, titles[0], 0);
	if (threads)
		stx_table_column(&t, "threads", 1);
	for (int i = 1; i < (sweep ? 9 : 6); i++)
		stx_table_column(&t, titles[i], i != 5);
	for (int i = 0; i < n; i++) {
		stx_table_cell(&t, "%s", at[i].kernel);
		if (threads)
			stx_table_cell(&t, "%u", at[i].threads);
		stx_table_cell(&t, "%u", at[i].candidates);
		stx_table_cell(&t, "%u", at[i].measured);
		cell_us(&t, at[i].heuristic_us);
		cell_us(&t, at[i].chosen_us);
		stx_table_cell(&t, "%s", at[i].chosen);
		if (sweep) {
			cell_us(&t, at[i].swept_us);
			stx_table_cell(&t, "%.3f", ratio(at[i].heuristic_us, &at[i]));
			stx_table_cell(&t, "%.3f", ratio(at[i].chosen_us, &at[i]));
		}
		measured += at[i].measured > 0;
	}
	if (n)
		stx_table_write(&t, b);
	stx_bytes_printf(b, "%d kernels with several configurations: %d measured, %d known\n", n,
			 measured, n - measured);
}

static void write_json(struct stx_json *j, const struct stax_tuned *at, int n)
{
	stx_json_open(j, NULL, '{');
	stx_json_open(j, "kernels", '[');
	for (int i = 0; i < n; i++) {
		stx_json_open(j, NULL, '{');
		stx_json_str(j, "name", at[i].kernel);
		if (at[i].threads)
			stx_json_uint(j, "threads", at[i].threads);
		stx_json_uint(j, "candidates", at[i].candidates);
		stx_json_uint(j, "measured", at[i].measured);
		stx_json_str(j, "heuristic", at[i].heuristic);
		stx_json_real(j, "heuristic_us", at[i].heuristic_us > 0 ? at[i].heuristic_us : NAN);
		stx_json_str(j, "chosen", at[i].chosen);
		stx_json_real(j, "chosen_us", at[i].chosen_us > 0 ? at[i].chosen_us : NAN);
		if (at[i].swept_us > 0) {
			stx_json_str(j, "swept", at[i].swept);
			stx_json_real(j, "swept_us", at[i].swept_us);
		}
		stx_json_close(j, '}');
	}
	stx_json_close(j, ']');
	stx_json_close(j, '}');
	stx_bytes_u8(&j->b, '\n');
}

static stx_err measure(struct stx_tool_session *s, struct stax_request *q,
		       const struct stax_tuning *o, struct stx_diag *d)
{
	struct stax_error err;
	if (s->has_graph)
		return stx_tool_tune_graph(s->client, &s->graph, &s->values, q, o, s->artifact,
					   &s->args, d);
	stx_err e = stax_tune_next_run(s->artifact, s->client, o, &err);
	if (e)
		stx_tool_diag(d, &err);
	return e ? e : stx_tool_execute(s->artifact, &s->args, d);
}

static stx_err tune(struct stx_tool_session *s, const struct flags *f, struct stx_bytes *out,
		    struct stx_diag *d)
{
	struct stax_tuning o = { .target = f->target,
				 .fast = f->fast,
				 .runs = (uint32_t)f->runs,
				 .sweep = (uint32_t)f->sweep,
				 .report = f->json ? NULL : put_line,
				 .ctx = stdout };
	struct stax_request q = { .target = f->target ? f->target : "cuda", .fast = f->fast };
	struct stx_json j = { 0 };
	stx_err e = load(s, f, &q, d);
	q.progress = NULL; /* its context has ended with the compile */
	if (!e && !o.target && !s->has_graph)
		o.target = "cuda";
	if (!e)
		e = stx_tool_session_bind(s, (uint64_t)f->seed, d);
	if (!e)
		e = measure(s, &q, &o, d);
	if (e)
		return e;
	struct stax_tuned *at = calloc(MAX_KERNELS, sizeof *at);
	if (!at)
		return stx_fail(d, STX_E_NOMEM, "tune", "", "out of memory");
	int n = stax_tuned(s->artifact, at, MAX_KERNELS);
	n = n < MAX_KERNELS ? n : MAX_KERNELS;
	if (f->json) {
		write_json(&j, at, n);
		*out = j.b;
	} else {
		write_text(out, at, n, f->sweep > 0);
	}
	free(at);
	return e;
}

int stx_tool_tune(int argc, char **argv)
{
	struct flags f = { 0 };
	struct stx_diag d = { 0 };
	struct stx_tool_session s = { 0 };
	struct stx_bytes out = { 0 };
	const struct stx_option table[] = {
		{ "target", STX_OPT_TEXT, &f.target }, { "fast", STX_OPT_FLAG, &f.fast },
		{ "input", STX_OPT_LIST, &f.inputs },  { "seed", STX_OPT_COUNT, &f.seed },
		{ "runs", STX_OPT_COUNT, &f.runs },    { "sweep", STX_OPT_COUNT, &f.sweep },
		{ "json", STX_OPT_FLAG, &f.json },     { NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &f.files, &d);
	if (!e && f.files.n != 1)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "tune takes one graph file or artifact");
	if (!e && (f.runs > 127 || f.sweep > INT32_MAX))
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "--runs: at most 127");
	if (!e)
		e = tune(&s, &f, &out, &d);
	fflush(stdout);
	stx_tool_session_close(&s);
	if (!e)
		return stx_tool_emit(&out);
	stx_bytes_free(&out);
	return stx_tool_fail(&d, f.json);
}
