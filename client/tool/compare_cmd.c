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

/* The graph compiled, what the layers before its code did, and the outputs of the last of them. */
struct comparison {
	struct stx_tool_session run;
	struct stax_client *private_client;
	struct stax_compare layers;
	struct stx_tensor *want;
	int nwant;
};

static stx_err compile(struct comparison *c, const struct flags *f, struct stx_diag *d)
{
	struct stx_tool_session *s = &c->run;
	struct stax_request q = { .target = f->target };
	struct stx_diag ignored = { 0 };
	stx_err e = stx_tool_session_graph(s, f->files.at[0], d);
	if (!e)
		e = stx_tool_values_read(&s->values, &f->inputs, d);
	if (!e && f->inputs.n == 0) /* what lies beside a test's model */
		stx_tool_values_from_tests(&s->graph, "test_data_set_0", &s->values, &ignored);
	if (!e)
		e = stx_tool_session_compile(s, &q, d);
	return e ? e : stx_tool_session_bind(s, (uint64_t)f->seed, d);
}

static stx_err run_layers(struct comparison *c, const struct flags *f, struct stx_diag *d)
{
	struct stax_request q = { .target = f->target };
	struct stax_error err;
	if (stax_connect("none", &c->private_client, &err)) {
		stx_tool_diag(d, &err);
		return d->code;
	}
	c->layers.rtol = f->rtol;
	c->layers.atol = f->atol;
	c->layers.max_work = (uint64_t)f->work;
	return stx_tool_reference_graph(c->private_client, &c->run.graph, &c->run.values, &q,
					&c->run.args, &c->layers, &c->want, &c->nwant, d);
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
	fprintf(out,
		"BIT: the same bits as the layer before. TOL: sums in another order, so within "
		"rtol "
		"%g and atol %g, or 1e-6 of the largest element.\n",
		c->rtol, c->atol);
	if (!first)
		return STX_E_OK;
	return stx_fail(d, STX_E_MISMATCH, "compare", "",
			"'%s' is the first layer that departs from the one before it: %s",
			first->name, first->text);
}

static stx_err judge(struct comparison *c, struct stx_diag *d)
{
	const char **names = calloc((size_t)c->run.args.nout + 1, sizeof *names);
	stx_err e = STX_E_OK;
	if (!names)
		e = stx_fail(d, STX_E_NOMEM, "compare", "", "out of memory");
	else if (c->nwant != c->run.args.nout)
		e = stx_fail(d, STX_E_INTERNAL, "compare", "",
			     "the layers give %d outputs, the artifact %d", c->nwant,
			     c->run.args.nout);
	for (int i = 0; !e && i < c->nwant; i++)
		stax_output(c->run.artifact, i, NULL, &names[i]);
	if (!e)
		e = stx_tool_judge_layers(&c->layers, names, c->run.args.out, c->want, c->nwant,
					  stdout, d);
	free(names);
	return e;
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
	struct flags f = { .rtol = 1e-4, .atol = 1e-6, .work = 1000000000 };
	struct stx_diag d = { 0 };
	struct comparison c = { 0 };
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
		e = compile(&c, &f, &d);
	if (!e)
		e = run_layers(&c, &f, &d);
	if (!e)
		e = stx_tool_execute(c.run.artifact, &c.run.args, &d);
	if (!e)
		e = judge(&c, &d);
	fflush(stdout);
	close_comparison(&c);
	return e ? stx_tool_fail(&d, 0) : 0;
}
