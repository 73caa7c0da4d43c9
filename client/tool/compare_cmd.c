/* compare_cmd.c: stax compare: the same inputs through every layer, from the graph as captured, by
 * the oracle, to the compiled code; the first layer that departs from the one before it is named.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct flags {
	const char *target;
	double rtol, atol;
	int64_t seed, work;
	struct stx_option_list inputs, files;
};

struct session {
	struct stax_client *client, *private_client;
	struct stx_tool_graph graph;
	struct stx_tool_values values;
	struct stax_answer *answer;
	struct stax_artifact *artifact;
	struct stx_tool_arguments args;
	struct stax_compare layers;
	struct stx_tensor *want;
	int nwant;
};

static stx_err read_values(struct session *s, const struct flags *f, struct stx_diag *d)
{
	struct stx_diag ignored = { 0 };
	for (int i = 0; i < f->inputs.n; i++) {
		char name[256];
		const char *path;
		struct stx_host h;
		if (stx_option_pair(f->inputs.at[i], name, sizeof name, &path))
			return stx_fail(d, STX_E_USAGE, "usage", "",
					"--input %s: NAME=FILE expected", f->inputs.at[i]);
		stx_err e = stx_tool_tensor_read(path, STX_DTYPE_NONE, &h, d);
		if (e || (e = stx_tool_values_add(&s->values, name, &h, d)))
			return e;
	}
	if (f->inputs.n == 0) /* what lies beside a test's model */
		stx_tool_values_from_tests(&s->graph, "test_data_set_0", &s->values, &ignored);
	return STX_E_OK;
}

static stx_err compile(struct session *s, const struct flags *f, struct stx_diag *d)
{
	struct stax_request q = { .target = f->target };
	struct stx_tool_progress p;
	struct stax_error err;
	stx_err e = stx_tool_connect(1, &s->client, d);
	if (e)
		return e;
	stx_tool_progress_start(&p, &q);
	e = stx_tool_compile_graph(s->client, &s->graph, &s->values, &q, &s->answer, d);
	stx_tool_progress_end(&p);
	if (!e && (e = stax_load(s->client, s->answer, &s->artifact, &err)))
		stx_tool_diag(d, &err);
	if (!e)
		e = stx_tool_bind(s->artifact, &s->graph, &s->values, 1, (uint64_t)f->seed,
				  &s->args, d);
	return e;
}

static stx_err run_layers(struct session *s, const struct flags *f, struct stx_diag *d)
{
	struct stax_request q = { .target = f->target };
	struct stax_error err;
	if (stax_connect("none", &s->private_client, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	s->layers.rtol = f->rtol;
	s->layers.atol = f->atol;
	s->layers.max_work = (uint64_t)f->work;
	return stx_tool_reference_graph(s->private_client, &s->graph, &s->values, &q, &s->args,
					&s->layers, &s->want, &s->nwant, d);
}

/* ---- the verdicts ---- */

static void print_layer(const struct stax_layer *y, int i, FILE *out)
{
	fprintf(out, "%-12s %-4s  ", y->name, y->class_name);
	if (!i)
		fprintf(out, "evaluated by the oracle\n");
	else if (y->verdict == STX_E_TOO_LARGE)
		fprintf(out, "%s; raise it with --work\n", y->text);
	else if (y->verdict)
		fprintf(out, "DEPARTS: %s\n", y->text);
	else if (y->is_equal)
		fprintf(out, "equal\n");
	else
		fprintf(out, "within tolerance, largest difference %.3g\n", y->worst);
}

/* First element of other bits, NaN equal to NaN; -1: none. Types and shapes are equal. */
static int64_t first_difference(const struct stx_host *a, const struct stx_host *b)
{
	int64_t n = stx_host_elems(a->t.sizes, a->t.rank);
	size_t width = (size_t)stx_dtype_bytes(a->t.dtype);
	for (int64_t i = 0; i < n; i++)
		if (memcmp((char *)a->t.data + (size_t)i * width,
			   (char *)b->t.data + (size_t)i * width, width) &&
		    !(isnan(stx_host_at(a, i)) && isnan(stx_host_at(b, i))))
			return i;
	return -1;
}

/* One output of the code; where it must repeat the kernels' bits there is no tolerance. */
static void judge_output(const struct stax_compare *c, const char *name, const struct stx_host *got,
			 const struct stx_tensor *before, struct stax_layer *code)
{
	struct stx_host want = { .t = *before };
	struct stx_diag d = { 0 };
	double worst = 0;
	stx_err e = stx_host_compare(name, got, &want, c->rtol, c->atol, &worst, &d);
	int64_t at = e && !worst ? -1 : first_difference(got, &want);
	if (!e && at < 0)
		return;
	code->is_equal = 0;
	code->worst = worst > code->worst ? worst : code->worst;
	if ((!e && !c->is_exact) || code->verdict)
		return;
	code->verdict = STX_E_MISMATCH;
	if (e)
		snprintf(code->text, sizeof code->text, "%.300s", d.text);
	else
		snprintf(code->text, sizeof code->text,
			 "output '%.80s', element %lld: %.9g here, %.9g before", name,
			 (long long)at, stx_host_at(got, at), stx_host_at(&want, at));
}

stx_err stx_tool_judge_layers(const struct stax_compare *c, const char *const *names,
			      const struct stx_host *got, const struct stx_tensor *before, int n,
			      FILE *out, struct stx_diag *d)
{
	const struct stax_layer *first = NULL;
	struct stax_layer code = { .name = "code", .is_equal = 1 };
	snprintf(code.class_name, sizeof code.class_name, "%s", c->is_exact ? "BIT" : "TOL");
	for (int i = 0; i < n; i++)
		judge_output(c, names[i], &got[i], &before[i], &code);
	for (int i = 0; i <= c->nlayers; i++) {
		const struct stax_layer *y = i < c->nlayers ? &c->layers[i] : &code;
		print_layer(y, i, out);
		if (y->verdict && y->verdict != STX_E_TOO_LARGE && !first)
			first = y;
	}
	if (!first)
		return STX_E_OK;
	return stx_fail(d, STX_E_MISMATCH, "compare", "",
			"'%s' is the first layer that departs from the one before it: %s",
			first->name, first->text);
}

static stx_err judge(struct session *s, struct stx_diag *d)
{
	const char **names = calloc((size_t)s->args.nout + 1, sizeof *names);
	stx_err e = STX_E_OK;
	if (!names)
		e = stx_fail(d, STX_E_NOMEM, "compare", "", "out of memory");
	else if (s->nwant != s->args.nout)
		e = stx_fail(d, STX_E_INTERNAL, "compare", "",
			     "the layers give %d outputs, the artifact %d", s->nwant, s->args.nout);
	for (int i = 0; !e && i < s->nwant; i++)
		stax_output(s->artifact, i, NULL, &names[i]);
	if (!e)
		e = stx_tool_judge_layers(&s->layers, names, s->args.out, s->want, s->nwant, stdout,
					  d);
	free(names);
	return e;
}

static void close_session(struct session *s)
{
	for (int i = 0; i < s->nwant; i++)
		free(s->want[i].data);
	free(s->want);
	stx_tool_arguments_free(&s->args);
	stax_artifact_free(s->artifact);
	stax_answer_free(s->answer);
	stx_tool_values_free(&s->values);
	stx_tool_graph_free(&s->graph);
	stax_client_free(s->client);
	stax_client_free(s->private_client);
}

int stx_tool_compare(int argc, char **argv)
{
	struct flags f = { .rtol = 1e-4, .atol = 1e-6, .work = 1000000000 };
	struct stx_diag d = { 0 };
	struct session s = { 0 };
	const struct stx_option table[] = {
		{ "target", STX_OPT_TEXT, &f.target }, { "input", STX_OPT_LIST, &f.inputs },
		{ "rtol", STX_OPT_REAL, &f.rtol },     { "atol", STX_OPT_REAL, &f.atol },
		{ "seed", STX_OPT_COUNT, &f.seed },    { "work", STX_OPT_COUNT, &f.work },
		{ NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &f.files, &d);
	if (!e && f.files.n != 1)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "compare takes one graph file");
	if (!e)
		e = stx_tool_graph_read(f.files.at[0], &s.graph, &d);
	if (!e)
		e = read_values(&s, &f, &d);
	if (!e)
		e = compile(&s, &f, &d);
	if (!e)
		e = run_layers(&s, &f, &d);
	if (!e)
		e = stx_tool_execute(s.artifact, &s.args, &d);
	if (!e)
		e = judge(&s, &d);
	fflush(stdout);
	close_session(&s);
	return e ? stx_tool_fail(&d, 0) : 0;
}
