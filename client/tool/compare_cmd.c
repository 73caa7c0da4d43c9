/* compare_cmd.c: stax compare: the compiled graph against the oracle on the same inputs. */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct flags {
	const char *target;
	double rtol, atol;
	int64_t seed;
	struct stx_option_list inputs, files;
};

struct session {
	struct stax_client *client, *private_client;
	struct stx_tool_graph graph;
	struct stx_tool_values values;
	struct stax_answer *answer;
	struct stax_artifact *artifact;
	struct stx_tool_arguments args;
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

static stx_err run_compiled(struct session *s, const struct flags *f, struct stx_diag *d)
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
	return e ? e : stx_tool_execute(s->artifact, &s->args, d);
}

static stx_err run_oracle(struct session *s, const struct flags *f, struct stx_diag *d)
{
	struct stax_request q = { .target = f->target };
	struct stax_error err;
	if (stax_connect("none", &s->private_client, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	return stx_tool_reference_graph(s->private_client, &s->graph, &s->values, &q, &s->args,
					&s->want, &s->nwant, d);
}

static stx_err compare(struct session *s, const struct flags *f, FILE *out, struct stx_diag *d)
{
	stx_err first = STX_E_OK;
	if (s->nwant != s->args.nout)
		return stx_fail(d, STX_E_INTERNAL, "compare", "",
				"the oracle gives %d outputs, the artifact %d", s->nwant,
				s->args.nout);
	for (int i = 0; i < s->nwant; i++) {
		const char *name;
		char shape[160];
		double worst = 0;
		struct stx_host want = { .t = s->want[i] };
		struct stx_diag here = { 0 };
		stax_output(s->artifact, i, NULL, &name);
		stx_err e = stx_host_compare(name, &s->args.out[i], &want, f->rtol, f->atol, &worst,
					     &here);
		stx_host_shape(&s->want[i], shape, sizeof shape);
		if (e)
			fprintf(out, "%s %s%s: differs: %s\n", name,
				stx_dtype_name(s->want[i].dtype), shape, here.text);
		else
			fprintf(out, "%s %s%s: agrees with the oracle, largest difference %.3g\n",
				name, stx_dtype_name(s->want[i].dtype), shape, worst);
		if (e && !first) {
			first = e;
			*d = here;
		}
	}
	return first;
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
	struct flags f = { .rtol = 1e-4, .atol = 1e-6 };
	struct stx_diag d = { 0 };
	struct session s = { 0 };
	const struct stx_option table[] = {
		{ "target", STX_OPT_TEXT, &f.target }, { "input", STX_OPT_LIST, &f.inputs },
		{ "rtol", STX_OPT_REAL, &f.rtol },     { "atol", STX_OPT_REAL, &f.atol },
		{ "seed", STX_OPT_COUNT, &f.seed },    { NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &f.files, &d);
	if (!e && f.files.n != 1)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "compare takes one graph file");
	if (!e)
		e = stx_tool_graph_read(f.files.at[0], &s.graph, &d);
	if (!e)
		e = read_values(&s, &f, &d);
	if (!e)
		e = run_compiled(&s, &f, &d);
	if (!e)
		e = run_oracle(&s, &f, &d);
	if (!e)
		e = compare(&s, &f, stdout, &d);
	fflush(stdout);
	close_session(&s);
	return e ? stx_tool_fail(&d, 0) : 0;
}
