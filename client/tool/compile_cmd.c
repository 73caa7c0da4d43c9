/* compile_cmd.c: stax compile. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "plan.h"
#include "tool.h"

struct flags {
	const char *target, *out;
	int training, dynamic, fast, fallback, json;
	struct stx_option_list inputs, files;
};

static void dims(struct stx_table *t, const uint32_t v[3])
{
	if (v[1] <= 1 && v[2] <= 1)
		stx_table_cell(t, "%u", v[0]);
	else
		stx_table_cell(t, "%ux%ux%u", v[0], v[1], v[2]);
}

/* The guards of the artifact's plan, as text, each ended by a zero byte. */
struct guards {
	struct stx_bytes text;
	uint32_t n;
};

static stx_err read_guards(struct stax_client *c, const struct stax_answer *a, struct guards *g,
			   struct stx_diag *d)
{
	struct stx_plan p;
	struct stx_span plan;
	struct stax_error err;
	void *bytes;
	size_t n;
	if (stax_fetch(c, a, &bytes, &n, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	stx_err e = stx_artifact_plan((struct stx_span){ bytes, n }, &plan, d);
	if (!e)
		e = stx_plan_open(plan, &p, d);
	for (uint32_t i = 0; !e && i < p.h->nguards; i++) {
		e = stx_plan_print_guard(&p, i, &g->text);
		stx_bytes_u8(&g->text, 0);
		g->n = i + 1;
	}
	free(bytes);
	return e;
}

/* request_ns: what this request took, connecting and starting a server included. */
static void write_text(struct stx_bytes *b, const char *file, const char *path, uint64_t request_ns,
		       const struct stax_answer *a, const struct guards *g)
{
	struct stx_table t = { 0 };
	stx_bytes_printf(b, "%s: %s (%s)\n", file, a->hit ? "hit" : "miss", a->reason);
	stx_bytes_printf(b, "key      %s\ndigest   %s\n", a->key, a->digest);
	stx_bytes_printf(b, "target   %s\nartifact %s%s%llu bytes%s\n", a->target, path,
			 *path ? ", " : "", (unsigned long long)a->size_bytes,
			 a->stored ? ", stored" : ", not stored");
	if (a->nkernels) {
		static const char *const titles[] = { "kernel", "grid",      "block",
						      "shared", "registers", "spills",
						      "from",   "config",    "chosen by" };
		for (int i = 0; i < 9; i++)
			stx_table_column(&t, titles[i], i >= 1 && i <= 5);
		for (size_t i = 0; i < a->nkernels; i++) {
			const struct stax_kernel_info *k = &a->kernels[i];
			stx_table_cell(&t, "%s", k->name);
			dims(&t, k->grid);
			dims(&t, k->block);
			stx_table_cell(&t, "%u", k->shared_bytes);
			stx_table_cell(&t, "%u", k->registers);
			stx_table_cell(&t, "%u", k->spills);
			stx_table_cell(&t, "%s", k->reused ? "store" : "new");
			stx_table_cell(&t, "%s", *k->config ? k->config : "-");
			stx_table_cell(&t, "%s", *k->chosen_by ? k->chosen_by : "-");
		}
		stx_table_write(&t, b);
	} else {
		stx_bytes_puts(b, "no kernels\n");
	}
	if (a->compile_us)
		stx_bytes_printf(b, "compiled in %.3f ms%s\n", (double)a->compile_us * 1e-3,
				 a->hit ? ", by the request that missed" : "");
	for (size_t i = 0; i < a->nstages; i++)
		stx_bytes_printf(b, "%s%s %.3f ms", i ? ", " : "stages   ", a->stages[i].name,
				 (double)a->stages[i].us * 1e-3);
	if (a->nstages)
		stx_bytes_puts(b, "\n");
	stx_bytes_printf(b, "this request %.3f ms\n", (double)request_ns * 1e-6);
	if (a->bytes_min)
		stx_bytes_printf(
			b, "traffic  %llu bytes read, %llu written, %.2f times the least\n",
			(unsigned long long)a->bytes_read, (unsigned long long)a->bytes_written,
			(double)(a->bytes_read + a->bytes_written) / (double)a->bytes_min);
	const char *guard = (const char *)g->text.at;
	for (uint32_t i = 0; i < g->n; i++, guard += strlen(guard) + 1)
		stx_bytes_printf(b, "guard    %s\n", guard);
	for (size_t i = 0; i < a->nreport; i++)
		stx_bytes_printf(b, "note     %s\n", a->report[i]);
}

static void json_dims(struct stx_json *j, const char *key, const uint32_t v[3])
{
	stx_json_open(j, key, '[');
	for (int i = 0; i < 3; i++)
		stx_json_uint(j, NULL, v[i]);
	stx_json_close(j, ']');
}

static void json_strings(struct stx_json *j, const char *key, const char *const *at, size_t n)
{
	stx_json_open(j, key, '[');
	for (size_t i = 0; i < n; i++)
		stx_json_str(j, NULL, at[i]);
	stx_json_close(j, ']');
}

static void write_json(struct stx_json *j, const char *path, const struct stax_answer *a,
		       const struct guards *g)
{
	stx_json_open(j, NULL, '{');
	stx_json_str(j, "key", a->key);
	stx_json_str(j, "digest", a->digest);
	stx_json_str(j, "target", a->target);
	if (*path)
		stx_json_str(j, "path", path);
	else
		stx_json_real(j, "path", NAN); /* null: nothing on disk holds it */
	stx_json_uint(j, "size_bytes", a->size_bytes);
	stx_json_bool(j, "hit", a->hit);
	stx_json_str(j, "reason", a->reason);
	stx_json_bool(j, "stored", a->stored);
	stx_json_open(j, "stages_us", '{');
	for (size_t i = 0; i < a->nstages; i++)
		stx_json_uint(j, a->stages[i].name, a->stages[i].us);
	stx_json_close(j, '}');
	stx_json_uint(j, "compile_us", a->compile_us);
	stx_json_open(j, "kernels", '[');
	for (size_t i = 0; i < a->nkernels; i++) {
		const struct stax_kernel_info *k = &a->kernels[i];
		stx_json_open(j, NULL, '{');
		stx_json_str(j, "name", k->name);
		json_dims(j, "grid", k->grid);
		json_dims(j, "block", k->block);
		stx_json_uint(j, "shared_bytes", k->shared_bytes);
		stx_json_uint(j, "registers", k->registers);
		stx_json_uint(j, "spills", k->spills);
		stx_json_str(j, "config", k->config);
		stx_json_str(j, "chosen_by", k->chosen_by);
		if (k->candidates)
			stx_json_uint(j, "candidates", k->candidates);
		if (*k->product)
			stx_json_str(j, "product", k->product);
		if (k->median_ns)
			stx_json_real(j, "median_us", (double)k->median_ns * 1e-3);
		stx_json_bool(j, "reused", k->reused);
		stx_json_close(j, '}');
	}
	stx_json_close(j, ']');
	const char *guard = (const char *)g->text.at;
	stx_json_open(j, "guards", '[');
	for (uint32_t i = 0; i < g->n; i++, guard += strlen(guard) + 1)
		stx_json_str(j, NULL, guard);
	stx_json_close(j, ']');
	json_strings(j, "inputs", a->input_names, a->ninputs);
	json_strings(j, "outputs", a->output_names, a->noutputs);
	json_strings(j, "report", a->report, a->nreport);
	stx_json_uint(j, "bytes_read", a->bytes_read);
	stx_json_uint(j, "bytes_written", a->bytes_written);
	stx_json_uint(j, "bytes_min", a->bytes_min);
	stx_json_close(j, '}');
	stx_bytes_u8(&j->b, '\n');
}

/* DIR/NAME.so, NAME from the graph's file. */
static stx_err copy_artifact(struct stax_client *c, const struct stax_answer *a, const char *file,
			     const char *dir, char *path, size_t cap, struct stx_diag *d)
{
	const char *base = strrchr(file, '/');
	base = base ? base + 1 : file;
	const char *dot = strrchr(base, '.');
	size_t n = dot && dot != base ? (size_t)(dot - base) : strlen(base);
	struct stax_error err;
	void *bytes;
	size_t nbytes;
	if ((size_t)snprintf(path, cap, "%s/%.*s.so", dir, (int)n, base) >= cap)
		return stx_fail(d, STX_E_USAGE, "file", "", "the path is too long");
	if (mkdir(dir, 0777) && errno != EEXIST)
		return stx_fail(d, STX_E_USAGE, "file", "", "--out %s: %s", dir, strerror(errno));
	if (stax_fetch(c, a, &bytes, &nbytes, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	stx_err e = stx_file_write(path, (struct stx_span){ bytes, nbytes }, d);
	free(bytes);
	return e;
}

static stx_err compile(const struct flags *f, struct stx_bytes *out, struct stx_diag *d)
{
	struct stax_client *c = NULL;
	struct stx_tool_graph g;
	struct stx_tool_values values = { 0 };
	struct stax_answer *a = NULL;
	struct stx_tool_progress p;
	struct stx_json j = { 0 };
	struct guards guards = { 0 };
	const char *file = f->files.at[0];
	char path[4096] = "";
	uint64_t took = 0;
	struct stax_request q = { .target = f->target,
				  .training = f->training,
				  .dynamic = f->dynamic,
				  .fast = f->fast,
				  .allow_fallback = f->fallback };
	stx_err e = stx_tool_graph_read(file, &g, d);
	if (!e && !(e = stx_tool_values_read(&values, &f->inputs, d))) {
		stx_tool_progress_start(&p, &q);
		took = stx_clock_ns();
		e = stx_tool_compile_started(&c, &g, &values, &q, &a, d);
		took = stx_clock_ns() - took;
		stx_tool_progress_end(&p);
	}
	if (!e && f->out)
		e = copy_artifact(c, a, file, f->out, path, sizeof path, d);
	if (!e)
		e = read_guards(c, a, &guards, d);
	if (!e && f->json) {
		write_json(&j, f->out ? path : a->path, a, &guards);
		*out = j.b;
	} else if (!e) {
		write_text(out, file, f->out ? path : a->path, took, a, &guards);
	}
	stx_bytes_free(&guards.text);
	stax_answer_free(a);
	stx_tool_values_free(&values);
	stx_tool_graph_free(&g);
	stax_client_free(c);
	return e;
}

int stx_tool_compile(int argc, char **argv)
{
	struct flags f = { 0 };
	struct stx_diag d = { 0 };
	struct stx_bytes out = { 0 };
	const struct stx_option table[] = {
		{ "target", STX_OPT_TEXT, &f.target },
		{ "training", STX_OPT_FLAG, &f.training },
		{ "dynamic", STX_OPT_FLAG, &f.dynamic },
		{ "fast", STX_OPT_FLAG, &f.fast },
		{ "allow-fallback", STX_OPT_FLAG, &f.fallback },
		{ "input", STX_OPT_LIST, &f.inputs },
		{ "json", STX_OPT_FLAG, &f.json },
		{ "out", STX_OPT_TEXT, &f.out },
		{ NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &f.files, &d);
	if (!e && f.files.n != 1)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "compile takes one graph file");
	if (!e)
		e = compile(&f, &out, &d);
	if (!e)
		return stx_tool_emit(&out);
	stx_bytes_free(&out);
	return stx_tool_fail(&d, f.json);
}
