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

/* The compiled graph's run, and the oracle's results. */
struct comparison {
	struct stx_tool_session run;
	struct stax_client *private_client;
	struct stx_tensor *want;
	int nwant;
};

static stx_err run_compiled(struct comparison *c, const struct flags *f, struct stx_diag *d)
{
	struct stx_tool_session *s = &c->run;
	struct stax_request q = { .target = f->target };
	struct stx_diag ignored = { 0 };
	stx_err e = stx_tool_session_graph(s, f->files.at[0], d);
	if (!e)
		e = stx_tool_session_values(s, &f->inputs, d);
	if (!e && f->inputs.n == 0) /* what lies beside a test's model */
		stx_tool_values_from_tests(&s->graph, "test_data_set_0", &s->values, &ignored);
	if (!e)
		e = stx_tool_session_compile(s, &q, d);
	return e ? e : stx_tool_session_run(s, (uint64_t)f->seed, d);
}

static stx_err run_oracle(struct comparison *c, const struct flags *f, struct stx_diag *d)
{
	struct stax_request q = { .target = f->target };
	struct stax_error err;
	if (stax_connect("none", &c->private_client, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	return stx_tool_reference_graph(c->private_client, &c->run.graph, &c->run.values, &q,
					&c->run.args, &c->want, &c->nwant, d);
}

static stx_err compare(struct comparison *c, const struct flags *f, FILE *out, struct stx_diag *d)
{
	stx_err first = STX_E_OK;
	if (c->nwant != c->run.args.nout)
		return stx_fail(d, STX_E_INTERNAL, "compare", "",
				"the oracle gives %d outputs, the artifact %d", c->nwant,
				c->run.args.nout);
	for (int i = 0; i < c->nwant; i++) {
		const char *name;
		char shape[160];
		double worst = 0;
		struct stx_host want = { .t = c->want[i] };
		struct stx_diag here = { 0 };
		stax_output(c->run.artifact, i, NULL, &name);
		stx_err e = stx_host_compare(name, &c->run.args.out[i], &want, f->rtol, f->atol,
					     &worst, &here);
		stx_host_shape(&c->want[i], shape, sizeof shape);
		if (e)
			fprintf(out, "%s %s%s: differs: %s\n", name,
				stx_dtype_name(c->want[i].dtype), shape, here.text);
		else
			fprintf(out, "%s %s%s: agrees with the oracle, largest difference %.3g\n",
				name, stx_dtype_name(c->want[i].dtype), shape, worst);
		if (e && !first) {
			first = e;
			*d = here;
		}
	}
	return first;
}

static void close_comparison(struct comparison *c)
{
	for (int i = 0; i < c->nwant; i++)
		free(c->want[i].data);
	free(c->want);
	stx_tool_session_close(&c->run);
	stax_client_free(c->private_client);
}

int stx_tool_compare(int argc, char **argv)
{
	struct flags f = { .rtol = 1e-4, .atol = 1e-6 };
	struct stx_diag d = { 0 };
	struct comparison c = { 0 };
	const struct stx_option table[] = {
		{ "target", STX_OPT_TEXT, &f.target }, { "input", STX_OPT_LIST, &f.inputs },
		{ "rtol", STX_OPT_REAL, &f.rtol },     { "atol", STX_OPT_REAL, &f.atol },
		{ "seed", STX_OPT_COUNT, &f.seed },    { NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &f.files, &d);
	if (!e && f.files.n != 1)
		e = stx_fail(&d, STX_E_USAGE, "usage", "", "compare takes one graph file");
	if (!e)
		e = run_compiled(&c, &f, &d);
	if (!e)
		e = run_oracle(&c, &f, &d);
	if (!e)
		e = compare(&c, &f, stdout, &d);
	fflush(stdout);
	close_comparison(&c);
	return e ? stx_tool_fail(&d, 0) : 0;
}
