/* model.c: index of an ONNX file, and its small external data. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

#include "onnx_types.h"
#include "onnx_wire.h"
#include "wire.h"

#define MODEL_MAX ((size_t)4 << 30)

/* ModelProto and GraphProto field numbers. */
enum {
	MODEL_GRAPH = 7,
	GRAPH_NODE = 1,
	GRAPH_INITIALISER = 5,
	GRAPH_INPUT = 11,
	GRAPH_OUTPUT = 12
};

static stx_err malformed(const char *what, struct stx_diag *d)
{
	return stx_fail(d, STX_E_INVALID, "import", "", "not a readable ONNX model: %s", what);
}

static stx_err no_memory(struct stx_diag *d)
{
	return stx_fail(d, STX_E_NOMEM, "import", "", "out of memory");
}

static const char *text_of(struct stx_model *m, struct stx_span s)
{
	return stx_arena_strndup(m->arena, (const char *)s.at, s.n);
}

/* First field of that number and wire type; 1 found, 0 not, -1 malformed. */
static int find_field(struct stx_span s, uint32_t number, uint32_t type, struct stx_field *out)
{
	struct stx_wire w = stx_wire_of(s);
	struct stx_field f;
	int r, found = 0;
	while ((r = stx_wire_next(&w, &f)) > 0)
		if (f.number == number && f.type == type && !found) {
			*out = f;
			found = 1;
		}
	return r < 0 ? -1 : found;
}

/* TypeProto: 1 tensor, 4 sequence, 5 map, 8 sparse, 9 optional. */
static int read_type(struct stx_span type, struct stx_model_input *in)
{
	struct stx_field f, elem;
	int r = find_field(type, 1, 2, &f);
	in->kind = STX_MODEL_TENSOR;
	if (r == 1) {
		r = find_field(f.bytes, 1, 0, &elem);
		in->elem_type = r == 1 && elem.value < 1000 ? (int)elem.value : 0;
		return r < 0 ? -1 : 0;
	}
	if (find_field(type, 4, 2, &f) == 1)
		in->kind = STX_MODEL_SEQUENCE;
	else if (find_field(type, 9, 2, &f) == 1)
		in->kind = STX_MODEL_OPTIONAL;
	else if (type.n)
		in->kind = STX_MODEL_OTHER;
	return r < 0 ? -1 : 0;
}

static stx_err add_input(struct stx_model *m, struct stx_span info, int output, struct stx_diag *d)
{
	struct stx_model_input in = { 0 };
	struct stx_field name, type;
	int n = find_field(info, 1, 2, &name), t = find_field(info, 2, 2, &type);
	if (n < 0 || t < 0 || (t == 1 && read_type(type.bytes, &in)))
		return malformed("a malformed input", d);
	in.name = n ? text_of(m, name.bytes) : "";
	if (!in.name)
		return no_memory(d);
	if (output)
		return stx_push(m->arena, &m->outputs, in) ? no_memory(d) : STX_E_OK;
	return stx_push(m->arena, &m->inputs, in) ? no_memory(d) : STX_E_OK;
}

/* NodeProto: 1 inputs, 4 op_type. */
static stx_err see_node(struct stx_model *m, struct stx_span node, struct stx_diag *d)
{
	static const char *const random[] = { "Bernoulli",     "Multinomial",
					      "RandomNormal",  "RandomNormalLike",
					      "RandomUniform", "RandomUniformLike" };
	struct stx_wire w = stx_wire_of(node);
	struct stx_field f;
	struct stx_span in[3] = { { NULL, 0 } }, op = { NULL, 0 };
	int r, n = 0;
	while ((r = stx_wire_next(&w, &f)) > 0) {
		if (f.type == 2 && f.number == 1 && n < 3)
			in[n++] = f.bytes;
		else if (f.type == 2 && f.number == 4)
			op = f.bytes;
	}
	if (r < 0)
		return malformed("a malformed node", d);
	for (size_t i = 0; i < sizeof random / sizeof *random; i++)
		if (op.n == strlen(random[i]) && !memcmp(op.at, random[i], op.n))
			m->draws = random[i];
	if (op.n != 7 || memcmp(op.at, "Dropout", 7) || !in[2].n)
		return STX_E_OK;
	m->dropout.ratio = text_of(m, in[1]);
	m->dropout.training = text_of(m, in[2]);
	return m->dropout.ratio && m->dropout.training ? STX_E_OK : no_memory(d);
}

static stx_err index_graph(struct stx_model *m, struct stx_span graph, struct stx_diag *d)
{
	struct stx_wire w = stx_wire_of(graph);
	struct stx_field f, name;
	stx_err e = STX_E_OK;
	int r;
	while (!e && (r = stx_wire_next(&w, &f)) > 0) {
		if (f.type != 2)
			continue;
		if (f.number == GRAPH_NODE) {
			e = see_node(m, f.bytes, d);
		} else if (f.number == GRAPH_INPUT || f.number == GRAPH_OUTPUT) {
			e = add_input(m, f.bytes, f.number == GRAPH_OUTPUT, d);
		} else if (f.number == GRAPH_INITIALISER) {
			struct stx_model_tensor t = { "", f.bytes };
			int found = find_field(f.bytes, STX_ONNX_NAME, 2, &name);
			if (found < 0)
				return malformed("a malformed initialiser", d);
			if (found && !(t.name = text_of(m, name.bytes)))
				return no_memory(d);
			if (stx_push(m->arena, &m->initialisers, t))
				return no_memory(d);
		}
	}
	return e ? e : r < 0 ? malformed("a malformed graph", d) : STX_E_OK;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct stx_model_tensor *)a)->name,
		      ((const struct stx_model_tensor *)b)->name);
}

const struct stx_model_tensor *stx_model_find(const struct stx_model *m, const char *name)
{
	struct stx_model_tensor key = { name, { NULL, 0 } };
	return m->initialisers.n
		       ? bsearch(&key, m->initialisers.at, m->initialisers.n, sizeof key, by_name)
		       : NULL;
}

/* ---- external data ---- */

/* The initialiser with its external data in it, unless it is a parameter. */
static stx_err put_initialiser(const struct stx_model *m, struct stx_span s,
			       struct stx_bytes *graph, struct stx_diag *d)
{
	struct stx_onnx_tensor t;
	if (stx_onnx_tensor_scan(s, &t) || t.elements == UINT64_MAX)
		return malformed("an initialiser's shape is negative or overflows", d);
	if (!t.external || stx_onnx_is_parameter(t.dtype, t.elements)) {
		stx_wire_put_bytes(graph, GRAPH_INITIALISER, s);
		return STX_E_OK;
	}
	struct stx_bytes out = { 0 };
	struct stx_host data = { 0 };
	struct stx_wire w = stx_wire_of(s);
	struct stx_field f;
	while (stx_wire_next(&w, &f) > 0)
		if (f.number == STX_ONNX_DIMS || f.number == STX_ONNX_DATA_TYPE ||
		    f.number == STX_ONNX_NAME)
			stx_bytes_put(&out, f.whole.at, f.whole.n);
	stx_err e = stx_onnx_tensor(s, m->dir, &data, d);
	if (!e) {
		stx_wire_put_bytes(&out, STX_ONNX_RAW_DATA,
				   (struct stx_span){ data.t.data, data.bytes });
		stx_wire_put_bytes(graph, GRAPH_INITIALISER, (struct stx_span){ out.at, out.n });
	}
	if (!e && out.oom)
		e = no_memory(d);
	stx_host_free(&data);
	stx_bytes_free(&out);
	return e;
}

static stx_err put_graph(const struct stx_model *m, struct stx_span graph, struct stx_bytes *out,
			 struct stx_diag *d)
{
	struct stx_wire w = stx_wire_of(graph);
	struct stx_field f;
	stx_err e = STX_E_OK;
	while (!e && stx_wire_next(&w, &f) > 0) {
		if (f.number == GRAPH_INITIALISER && f.type == 2)
			e = put_initialiser(m, f.bytes, out, d);
		else
			stx_bytes_put(out, f.whole.at, f.whole.n);
	}
	return e ? e : out->oom ? no_memory(d) : STX_E_OK;
}

static int has_external(const struct stx_model *m)
{
	struct stx_onnx_tensor t;
	for (unsigned i = 0; i < m->initialisers.n; i++)
		if (!stx_onnx_tensor_scan(m->initialisers.at[i].proto, &t) && t.external)
			return 1;
	return 0;
}

static stx_err put_external(struct stx_model *m, struct stx_diag *d)
{
	struct stx_wire w = stx_wire_of((struct stx_span){ m->file.at, m->file.n });
	struct stx_field f;
	stx_err e = STX_E_OK;
	if (!has_external(m))
		return STX_E_OK;
	while (!e && stx_wire_next(&w, &f) > 0) {
		if (f.number != MODEL_GRAPH || f.type != 2) {
			stx_bytes_put(&m->inlined, f.whole.at, f.whole.n);
			continue;
		}
		struct stx_bytes graph = { 0 };
		e = put_graph(m, f.bytes, &graph, d);
		if (!e)
			stx_wire_put_bytes(&m->inlined, MODEL_GRAPH,
					   (struct stx_span){ graph.at, graph.n });
		stx_bytes_free(&graph);
	}
	return e ? e : m->inlined.oom ? no_memory(d) : STX_E_OK;
}

struct stx_span stx_model_request(const struct stx_model *m)
{
	const struct stx_bytes *b = m->inlined.n ? &m->inlined : &m->file;
	return (struct stx_span){ b->at, b->n };
}

/* ---- open and close ---- */

void stx_model_free(struct stx_model *m)
{
	stx_bytes_free(&m->file);
	stx_bytes_free(&m->inlined);
	stx_arena_free(m->arena);
	free(m->dir);
	memset(m, 0, sizeof *m);
}

static void mark_initialised(struct stx_model *m)
{
	qsort(m->initialisers.at, m->initialisers.n, sizeof *m->initialisers.at, by_name);
	for (unsigned i = 0; i < m->inputs.n; i++)
		m->inputs.at[i].initialiser = stx_model_find(m, m->inputs.at[i].name) != NULL;
}

stx_err stx_model_parse(struct stx_bytes *file, const char *dir, struct stx_model *m,
			struct stx_diag *d)
{
	struct stx_field f;
	memset(m, 0, sizeof *m);
	m->file = *file;
	memset(file, 0, sizeof *file);
	m->arena = stx_arena_new(0);
	m->dir = strdup(dir);
	stx_err e = m->arena && m->dir ? STX_E_OK : no_memory(d);
	int r = e ? 0 : find_field((struct stx_span){ m->file.at, m->file.n }, MODEL_GRAPH, 2, &f);
	if (!e && r != 1)
		e = malformed(r ? "the file is damaged" : "it has no graph", d);
	if (!e && !(e = index_graph(m, f.bytes, d))) {
		if (m->initialisers.n)
			mark_initialised(m);
		e = put_external(m, d);
	}
	if (e)
		stx_model_free(m);
	return e;
}

stx_err stx_model_read(const char *path, struct stx_model *m, struct stx_diag *d)
{
	struct stx_bytes file = { 0 };
	memset(m, 0, sizeof *m);
	stx_err e = stx_file_read(path, MODEL_MAX, &file, d);
	const char *slash = strrchr(path, '/');
	char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
	if (!e && !dir)
		e = no_memory(d);
	if (!e)
		e = stx_model_parse(&file, dir, m, d);
	if (e)
		stx_diag_at(d, "%s", path);
	free(dir);
	stx_bytes_free(&file);
	return e;
}
