/* graph.c: graph files, values by name, and the compile that gives the values a server asks for. */
#include <stdlib.h>
#include <string.h>

#include "repro.h"
#include "tool.h"

#define GRAPH_MAX ((size_t)64 << 20)
#define ROUNDS    16 /* each must ask for values not yet given */

/* ---- files ---- */

static int has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), k = strlen(suffix);
	return n >= k && !strcmp(s + n - k, suffix);
}

int stx_tool_is_artifact(const char *path)
{
	char head[4] = "";
	FILE *f = fopen(path, "rbe");
	size_t n = f ? fread(head, 1, sizeof head, f) : 0;
	if (f)
		fclose(f);
	return n == 4 && !memcmp(head, "\177ELF", 4);
}

/* Text has no control characters in its first bytes; protobuf has some in its first tags. */
static int looks_like_text(struct stx_span s)
{
	size_t n = s.n < 256 ? s.n : 256;
	for (size_t i = 0; i < n; i++)
		if (s.at[i] < 0x20 && s.at[i] != '\n' && s.at[i] != '\t' && s.at[i] != '\r')
			return 0;
	return n > 0;
}

stx_err stx_tool_graph_read(const char *path, struct stx_tool_graph *g, struct stx_diag *d)
{
	memset(g, 0, sizeof *g);
	g->path = path;
	g->format = STAX_ONNX;
	stx_err e = STX_E_OK;
	if (!has_suffix(path, ".onnx")) {
		e = stx_file_read(path, GRAPH_MAX, &g->text, d);
		if (e)
			return e;
		if (stx_repro_is((struct stx_span){ g->text.at, g->text.n })) {
			struct stx_bytes file = g->text;
			g->text = (struct stx_bytes){ 0 };
			return stx_tool_replay_read(g, &file, d);
		}
		if (has_suffix(path, ".stax") || has_suffix(path, ".txt") ||
		    looks_like_text((struct stx_span){ g->text.at, g->text.n }))
			g->format = STAX_TEXT;
		else if (has_suffix(path, ".wire") || has_suffix(path, ".staxpb"))
			g->format = STAX_WIRE;
		if (g->format != STAX_ONNX)
			return STX_E_OK;
		stx_bytes_free(&g->text);
	}
	return stx_model_read(path, &g->model, d);
}

void stx_tool_graph_free(struct stx_tool_graph *g)
{
	stx_model_free(&g->model);
	stx_bytes_free(&g->text);
	stx_tool_values_free(&g->replay.values);
	free(g->replay.blockings);
}

static struct stx_span graph_bytes(const struct stx_tool_graph *g)
{
	if (g->format == STAX_ONNX)
		return stx_model_request(&g->model);
	return (struct stx_span){ g->text.at, g->text.n };
}

/* ---- values ---- */

stx_err stx_tool_values_add(struct stx_tool_values *v, const char *name, struct stx_host *h,
			    struct stx_diag *d)
{
	if (v->n == v->cap) {
		int cap = v->cap ? v->cap * 2 : 8;
		void *p = realloc(v->at, (size_t)cap * sizeof *v->at);
		if (!p) {
			stx_host_free(h);
			return stx_fail(d, STX_E_NOMEM, "tensor", "", "out of memory");
		}
		v->at = p;
		v->cap = cap;
	}
	struct stx_tool_value *x = &v->at[v->n++];
	snprintf(x->name, sizeof x->name, "%s", name);
	x->h = *h;
	memset(h, 0, sizeof *h);
	return STX_E_OK;
}

const struct stx_host *stx_tool_values_find(const struct stx_tool_values *v, const char *name)
{
	for (int i = 0; v && i < v->n; i++)
		if (!strcmp(v->at[i].name, name))
			return &v->at[i].h;
	return NULL;
}

stx_err stx_tool_values_read(struct stx_tool_values *v, const struct stx_option_list *inputs,
			     struct stx_diag *d)
{
	for (int i = 0; i < inputs->n; i++) {
		char name[256];
		const char *path;
		struct stx_host h;
		if (stx_option_pair(inputs->at[i], name, sizeof name, &path))
			return stx_fail(d, STX_E_USAGE, "usage", "",
					"--input %s: NAME=FILE expected", inputs->at[i]);
		if (stx_tool_values_find(v, name))
			return stx_fail(d, STX_E_USAGE, "usage", "",
					"--input %s: '%s' has a value already", inputs->at[i],
					name);
		stx_err e = stx_tool_tensor_read(path, STX_DTYPE_NONE, &h, d);
		if (e || (e = stx_tool_values_add(v, name, &h, d)))
			return e;
	}
	return STX_E_OK;
}

void stx_tool_values_free(struct stx_tool_values *v)
{
	for (int i = 0; i < v->n; i++)
		stx_host_free(&v->at[i].h);
	free(v->at);
	memset(v, 0, sizeof *v);
}

stx_err stx_tool_tensor_read(const char *path, enum stx_dtype as, struct stx_host *h,
			     struct stx_diag *d)
{
	if (has_suffix(path, ".npy"))
		return stx_npy_read(path, as, h, d);
	if (has_suffix(path, ".pb"))
		return stx_onnx_tensor_read(path, h, d);
	return stx_fail(d, STX_E_UNSUPPORTED, "tensor", "",
			"%s: tensors are read from .npy or .pb files", path);
}

stx_err stx_tool_values_from_tests(const struct stx_tool_graph *g, const char *set,
				   struct stx_tool_values *v, struct stx_diag *d)
{
	int k = 0; /* files count the inputs that are not initialisers */
	for (unsigned i = 0; g->format == STAX_ONNX && i < g->model.inputs.n; i++) {
		const struct stx_model_input *in = &g->model.inputs.at[i];
		char path[4096];
		struct stx_host h;
		struct stx_diag mine = { 0 };
		if (in->initialiser)
			continue;
		if ((size_t)snprintf(path, sizeof path, "%s/%s/input_%d.pb", g->model.dir, set,
				     k++) >= sizeof path)
			return stx_fail(d, STX_E_USAGE, "tensor", "", "the path is too long");
		if (stx_tool_values_find(v, in->name))
			continue; /* given by the user */
		stx_err e = stx_onnx_tensor_read(path, &h, &mine);
		if (e == STX_E_NOT_FOUND)
			continue;
		if (e) {
			*d = mine;
			return e;
		}
		if ((e = stx_tool_values_add(v, in->name, &h, d)))
			return e;
	}
	return STX_E_OK;
}

/* ---- compile ---- */

/* Names the file: the parser of text knows a line and a column only, that of protobuf a byte. */
static void place(struct stx_diag *d, const struct stx_tool_graph *g)
{
	char at[sizeof d->location];
	int line = d->location[0] >= '0' && d->location[0] <= '9';
	if (line || !strncmp(d->location, "byte ", 5)) {
		snprintf(at, sizeof at, "%s", d->location);
		d->location[0] = 0;
		stx_diag_at(d, "%s%s%s", g->path, line ? ":" : ", ", at);
	} else {
		stx_diag_at(d, "%s", g->path);
	}
}

struct given {
	struct stax_value at[256];
	struct stx_host loaded[256]; /* initialisers read for this; data NULL otherwise */
	unsigned n;
};

static void given_free(struct given *g)
{
	for (unsigned i = 0; i < g->n; i++)
		stx_host_free(&g->loaded[i]);
	free(g);
}

static int is_given(const struct given *g, const char *name)
{
	for (unsigned i = 0; i < g->n; i++)
		if (!strcmp(g->at[i].input, name))
			return 1;
	return 0;
}

/* What lies beside a test's model, for a value that nobody gave. */
static int from_test(const struct stx_tool_graph *g, const char *name, struct stx_host *h)
{
	struct stx_tool_values all = { 0 };
	struct stx_diag ignored = { 0 };
	int found = 0;
	stx_tool_values_from_tests(g, "test_data_set_0", &all, &ignored);
	for (int i = 0; i < all.n && !found; i++)
		if (!strcmp(all.at[i].name, name)) {
			*h = all.at[i].h;
			memset(&all.at[i].h, 0, sizeof all.at[i].h);
			found = 1;
		}
	stx_tool_values_free(&all);
	return found;
}

static stx_err give(struct given *v, const struct stx_tool_graph *g,
		    const struct stx_tool_values *values, const char *name, const char *why,
		    struct stx_diag *d)
{
	const struct stx_host *h = stx_tool_values_find(values, name);
	h = h ? h : stx_tool_values_find(&g->replay.values, name);
	if (v->n == sizeof v->at / sizeof *v->at)
		return stx_fail(d, STX_E_TOO_LARGE, "compile", name, "too many inputs fix shapes");
	struct stx_host *mine = &v->loaded[v->n];
	if (!h && g->format == STAX_ONNX) {
		const struct stx_model_tensor *t = stx_model_find(&g->model, name);
		if (t) {
			stx_err e = stx_onnx_tensor(t->proto, g->model.dir, mine, d);
			if (e)
				return e;
			h = mine;
		}
	}
	if (!h && from_test(g, name, mine))
		h = mine;
	if (!h)
		return stx_fail(d, STX_E_NEED_VALUES, "import", name,
				"the value of input '%s' fixes shapes "
				"(%s): give it with --input %s=FILE",
				name, why, name);
	struct stax_value *x = &v->at[v->n++];
	*x = (struct stax_value){ name, h->t.dtype, h->t.rank, h->t.sizes, h->t.data, h->bytes };
	return STX_E_OK;
}

/* The names needed belong to the answer: kept until the end. */
static stx_err give_all(struct given *v, const struct stx_tool_graph *g,
			const struct stx_tool_values *values, const struct stax_answer *a,
			struct stx_diag *d)
{
	unsigned before = v->n;
	for (size_t i = 0; i < a->nneeded; i++) {
		if (is_given(v, a->needed[i].input))
			continue;
		stx_err e = give(v, g, values, a->needed[i].input, a->needed[i].why, d);
		if (e)
			return e;
	}
	if (v->n == before)
		return stx_fail(d, STX_E_PROTOCOL, "compile", "",
				"the server asks again for values it has");
	return STX_E_OK;
}

/* q asks for g; the values that will be given with it, none yet. NULL: out of memory. */
static struct given *begin(const struct stx_tool_graph *g, struct stax_request *q)
{
	struct stx_span body = graph_bytes(g);
	q->format = g->format;
	q->graph = body.at;
	q->graph_bytes = body.n;
	stx_tool_replay_request(g, q);
	return calloc(1, sizeof(struct given));
}

stx_err stx_tool_compile_graph(struct stax_client *c, const struct stx_tool_graph *g,
			       const struct stx_tool_values *values, struct stax_request *q,
			       struct stax_answer **out, struct stx_diag *d)
{
	struct given *given = begin(g, q);
	struct stax_answer *asked[ROUNDS] = { NULL };
	struct stax_error err;
	stx_err e = STX_E_OK;
	*out = NULL;
	if (!given)
		return stx_fail(d, STX_E_NOMEM, "compile", "", "out of memory");
	for (int round = 0; round < ROUNDS; round++) {
		q->values = given->at;
		q->nvalues = given->n;
		e = stax_compile(c, q, out, &err);
		if (e)
			stx_tool_diag(d, &err);
		if (e != STX_E_NEED_VALUES || !*out || round + 1 == ROUNDS)
			break;
		asked[round] = *out;
		*out = NULL;
		stx_diag_clear(d);
		if ((e = give_all(given, g, values, asked[round], d)))
			break;
	}
	if (e)
		place(d, g);
	if (e && *out) {
		stax_answer_free(*out);
		*out = NULL;
	}
	q->values = NULL;
	q->nvalues = 0;
	given_free(given);
	for (int i = 0; i < ROUNDS; i++)
		stax_answer_free(asked[i]);
	return e;
}

stx_err stx_tool_compile_started(struct stax_client **c, const struct stx_tool_graph *g,
				 const struct stx_tool_values *values, struct stax_request *q,
				 struct stax_answer **out, struct stx_diag *d)
{
	char target[64];
	struct stax_error err;
	stx_err e = stax_target(q->target, target, sizeof target,
				&err); /* before a server is started */
	if (e)
		stx_tool_diag(d, &err);
	else if (!*c)
		e = stx_tool_connect(1, c, d);
	if (!e)
		e = stx_tool_compile_graph(*c, g, values, q, out, d);
	if (e != STX_E_CONNECT || !*c)
		return e;
	stax_client_free(*c);
	*c = NULL;
	stx_diag_clear(d);
	e = stx_tool_connect(1, c, d);
	return e ? e : stx_tool_compile_graph(*c, g, values, q, out, d);
}

/* ---- private worker calls: the error names one needed value at a time ---- */

struct inspection {
	struct stax_client *client;
	const char *stage, *format;
	char **text;
	size_t *n;
	const struct stx_tool_arguments *args;
	struct stax_compare *layers; /* NULL: the oracle alone */
	struct stx_tensor **outputs;
	int *noutputs;
	struct stax_artifact *artifact;
	struct stx_tool_arguments *run; /* after tuning was asked for; else NULL */
	const struct stax_tuning *tuning;
};

static int ask_once(const struct inspection *ask, const struct stax_request *q,
		    struct stax_error *err)
{
	if (ask->tuning) {
		struct stax_tuning t = *ask->tuning;
		t.request = q;
		return stax_tune_next_run(ask->artifact, ask->client, &t, err);
	}
	if (ask->text)
		return stax_dump(ask->client, q, ask->stage, ask->format, ask->text, ask->n, err);
	if (ask->layers)
		return stax_compare(ask->client, q, ask->args->in_t, ask->args->nin, ask->layers,
				    ask->outputs, ask->noutputs, err);
	return stax_reference(ask->client, q, ask->args->in_t, ask->args->nin, ask->outputs,
			      ask->noutputs, err);
}

static stx_err inspect(const struct stx_tool_graph *g, const struct stx_tool_values *values,
		       struct stax_request *q, const struct inspection *ask, struct stx_diag *d)
{
	struct given *given = begin(g, q);
	struct stax_error err[ROUNDS]; /* each holds the name that was asked for */
	stx_err e = STX_E_NOMEM;
	if (!given)
		return stx_fail(d, e, "inspect", "", "out of memory");
	for (int round = 0; round < ROUNDS; round++) {
		q->values = given->at;
		q->nvalues = given->n;
		e = ask_once(ask, q, &err[round]);
		if (e != STX_E_NEED_VALUES || is_given(given, err[round].node)) {
			if (e)
				stx_tool_diag(d, &err[round]);
			break;
		}
		if ((e = give(given, g, values, err[round].node, err[round].text, d)))
			break;
	}
	if (e)
		place(d, g);
	if (!e && ask->run)
		e = stx_tool_execute(ask->artifact, ask->run, d);
	q->values = NULL;
	q->nvalues = 0;
	given_free(given);
	return e;
}

stx_err stx_tool_tune_graph(struct stax_client *c, const struct stx_tool_graph *g,
			    const struct stx_tool_values *values, struct stax_request *q,
			    const struct stax_tuning *tuning, struct stax_artifact *a,
			    struct stx_tool_arguments *args, struct stx_diag *d)
{
	struct inspection ask = { .client = c, .artifact = a, .run = args, .tuning = tuning };
	return inspect(g, values, q, &ask, d);
}

stx_err stx_tool_dump_graph(struct stax_client *c, const struct stx_tool_graph *g,
			    const struct stx_tool_values *values, struct stax_request *q,
			    const char *stage, const char *format, char **text, size_t *n,
			    struct stx_diag *d)
{
	struct inspection ask = {
		.client = c, .stage = stage, .format = format, .text = text, .n = n
	};
	return inspect(g, values, q, &ask, d);
}

stx_err stx_tool_reference_graph(struct stax_client *c, const struct stx_tool_graph *g,
				 const struct stx_tool_values *values, struct stax_request *q,
				 const struct stx_tool_arguments *args, struct stax_compare *layers,
				 struct stx_tensor **outputs, int *noutputs, struct stx_diag *d)
{
	struct inspection ask = { .client = c,
				  .args = args,
				  .layers = layers,
				  .outputs = outputs,
				  .noutputs = noutputs };
	return inspect(g, values, q, &ask, d);
}
