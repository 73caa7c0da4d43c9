/* import_wire.c: the Stax wire graph (proto/graph.proto) to a graph.
 *
 * Requires: nothing of the bytes. Ensures: every node names one overload of the table, arguments
 * match its schema by name or position, tensors refer to earlier nodes (so a cycle is an unknown
 * name). */
#include "onnx_import.h"

#include <stdlib.h>
#include <string.h>

#include "graph.pb-c.h"
#include "hash.h"
#include "wire.h"

#define WIRE_MAX_FIELDS  20000000u
#define WIRE_MAX_DEPTH   8u
#define WIRE_MAX_NODES   2000000u
#define WIRE_MAX_SYMBOLS 1024u

struct wire_name {
	const char *name;
	struct stx_node *node;
};

struct wire {
	struct stx_arena *arena;
	struct stx_graph *g;
	struct stx_diag *d;
	struct wire_name *names; /* open addressing */
	uint32_t cap;
};

static struct wire_name *slot(struct wire *w, const char *name)
{
	uint32_t i = (uint32_t)stx_mix_text((uintptr_t)w->names, name, strlen(name)) & (w->cap - 1);
	while (w->names[i].node && strcmp(w->names[i].name, name))
		i = (i + 1) & (w->cap - 1);
	return &w->names[i];
}

static stx_err declare(struct wire *w, const char *name, struct stx_node *n)
{
	struct wire_name *s = slot(w, name);
	if (s->node)
		return stx_fail(w->d, STX_E_INVALID, "import", name, "the name '%s' is given twice",
				name);
	s->name = name;
	s->node = n;
	return STX_E_OK;
}

static stx_ex find_symbol(void *ctx, const char *name, size_t n)
{
	struct stx_graph *g = ((struct wire *)ctx)->g;
	for (unsigned i = 0; i < g->symbols.n; i++)
		if (strlen(g->symbols.at[i].name) == n && !memcmp(g->symbols.at[i].name, name, n))
			return stx_ex_sym(g->ex, i, g->symbols.at[i].range, g->symbols.at[i].hint);
	return STX_EX_BAD;
}

static stx_err get_dim(struct wire *w, const Stx__WireDim *d, stx_ex *out)
{
	if (d->d_case == STX__WIRE_DIM__D_EXPR) {
		const char *p = d->expr, *end = p + strlen(p);
		stx_err e = stx_ex_parse(w->g->ex, &p, end, find_symbol, w, out, w->d);
		if (!e && p != end)
			e = stx_fail(w->d, STX_E_INVALID, "import", NULL,
				     "'%s' is no index expression", d->expr);
		return e;
	}
	*out = stx_ex_const(w->g->ex, d->value);
	return *out == STX_EX_BAD
		       ? stx_fail(w->d, STX_E_INVALID, "import", NULL, "a size is out of range")
		       : STX_E_OK;
}

/* An integer argument. PyTorch writes the end of a slice without one as INT64_MAX, which index
 * expressions keep for infinity; bounds are clamped to the size, so the number before it means the
 * same (as in the text form). */
static stx_err get_int(struct wire *w, const Stx__WireDim *d, stx_ex *out)
{
	Stx__WireDim most = *d;
	if (d->d_case == STX__WIRE_DIM__D_VALUE && d->value == INT64_MAX)
		most.value = INT64_MAX - 1;
	return get_dim(w, &most, out);
}

static stx_err get_dims(struct wire *w, Stx__WireDim *const *d, size_t n, stx_ex **out)
{
	*out = STX_NEW_ARRAY(w->arena, stx_ex, n);
	if (!*out)
		return stx_fail(w->d, STX_E_TOO_LARGE, "import", NULL,
				"the graph is over its memory budget");
	for (size_t i = 0; i < n; i++) {
		stx_err e = get_dim(w, d[i], &(*out)[i]);
		if (e)
			return e;
	}
	return STX_E_OK;
}

static stx_err get_ref(struct wire *w, const char *user, const Stx__WireRef *r, struct stx_val *out)
{
	*out = stx_val(NULL, 0);
	if (r->absent)
		return STX_E_OK;
	struct stx_node *n = slot(w, r->name)->node;
	if (!n)
		return stx_fail(w->d, STX_E_INVALID, "import", user,
				"'%s' is used before any input or node of that name (a cycle, or "
				"wrong order)",
				r->name);
	if (r->out >= n->nouts)
		return stx_fail(w->d, STX_E_INVALID, "import", user, "'%s' has no result %u",
				r->name, r->out);
	*out = stx_val(n, r->out);
	return STX_E_OK;
}

static stx_err get_tensors(struct wire *w, const char *user, const Stx__WireRefs *r,
			   struct stx_arg *out)
{
	struct stx_val *v = STX_NEW_ARRAY(w->arena, struct stx_val, r->n_refs);
	if (!v)
		return stx_fail(w->d, STX_E_TOO_LARGE, "import", user,
				"the graph is over its memory budget");
	for (size_t i = 0; i < r->n_refs; i++) {
		stx_err e = get_ref(w, user, r->refs[i], &v[i]);
		if (e)
			return e;
	}
	*out = stx_arg_tensors(w->g, v, (uint32_t)r->n_refs);
	return STX_E_OK;
}

static stx_err get_bools(struct wire *w, const char *user, const Stx__WireBools *b,
			 struct stx_arg *out)
{
	uint64_t bits = 0;
	if (b->n_values > STX_MAX_BOOLS)
		return stx_fail(w->d, STX_E_INVALID, "import", user,
				"a list of %zu truth values; the limit is %d", b->n_values,
				STX_MAX_BOOLS);
	for (size_t i = 0; i < b->n_values; i++)
		bits |= (uint64_t)(b->values[i] != 0) << i;
	*out = stx_arg_bools(bits, (uint32_t)b->n_values);
	return STX_E_OK;
}

static stx_err get_arg(struct wire *w, const char *user, const Stx__WireArg *a, struct stx_arg *out)
{
	struct stx_val v;
	stx_ex ex, *exs;
	stx_err e = STX_E_OK;
	switch (a->v_case) {
	case STX__WIRE_ARG__V_TENSOR:
		e = get_ref(w, user, a->tensor, &v);
		*out = v.node ? stx_arg_tensor(v) : stx_arg_none();
		break;
	case STX__WIRE_ARG__V_TENSORS: return get_tensors(w, user, a->tensors, out);
	case STX__WIRE_ARG__V_INT_VALUE:
		e = get_int(w, a->int_value, &ex);
		*out = stx_arg_ex(ex);
		break;
	case STX__WIRE_ARG__V_INTS:
		e = get_dims(w, a->ints->dims, a->ints->n_dims, &exs);
		if (!e)
			*out = stx_arg_exs(w->g, exs, (uint32_t)a->ints->n_dims);
		break;
	case STX__WIRE_ARG__V_FLOATS:
		*out = stx_arg_floats(w->g, a->floats->values, (uint32_t)a->floats->n_values);
		break;
	case STX__WIRE_ARG__V_BOOLS: return get_bools(w, user, a->bools, out);
	case STX__WIRE_ARG__V_FLOAT_VALUE: *out = stx_arg_float(a->float_value); break;
	case STX__WIRE_ARG__V_BOOL_VALUE: *out = stx_arg_bool(a->bool_value); break;
	case STX__WIRE_ARG__V_STRING_VALUE: *out = stx_arg_str(w->g, a->string_value); break;
	case STX__WIRE_ARG__V_DTYPE:
		if (a->dtype >= STX_DTYPE_COUNT)
			return stx_fail(w->d, STX_E_INVALID, "import", user,
					"dtype number %u is unknown", a->dtype);
		*out = stx_arg_dtype((enum stx_dtype)a->dtype);
		break;
	case STX__WIRE_ARG__V_SCALAR_INT: *out = stx_arg_scalar_i(a->scalar_int); break;
	case STX__WIRE_ARG__V_SCALAR_FLOAT: *out = stx_arg_scalar_f(a->scalar_float); break;
	default: *out = stx_arg_none(); break;
	}
	return e;
}

#define MAX_PARAMS 32

static stx_err import_call(struct wire *w, const Stx__WireNode *n, int op, int in_place,
			   struct stx_node **out)
{
	const struct stx_op_info *info = stx_op_info((enum stx_op)op);
	struct stx_arg args[MAX_PARAMS];
	uint8_t given[MAX_PARAMS] = { 0 };
	uint32_t count = 0;
	if (info->nparams > MAX_PARAMS || n->n_args > info->nparams)
		return stx_fail(w->d, STX_E_INVALID, "import", n->name,
				"%s takes %u arguments, %zu are given", n->target, info->nparams,
				n->n_args);
	for (size_t i = 0; i < n->n_args; i++) {
		uint32_t at = (uint32_t)i;
		if (n->args[i]->name[0]) {
			for (at = 0;
			     at < info->nparams && strcmp(info->params[at].name, n->args[i]->name);
			     at++)
				;
			if (at == info->nparams)
				return stx_fail(w->d, STX_E_INVALID, "import", n->name,
						"%s has no parameter '%s'", n->target,
						n->args[i]->name);
		}
		if (given[at])
			return stx_fail(w->d, STX_E_INVALID, "import", n->name,
					"parameter '%s' is given twice", info->params[at].name);
		stx_err e = get_arg(w, n->name, n->args[i], &args[at]);
		if (e)
			return e;
		given[at] = 1;
		count = at + 1 > count ? at + 1 : count;
	}
	for (uint32_t i = 0; i < count; i++) {
		if (given[i])
			continue;
		if (!info->params[i].has_default)
			return stx_fail(w->d, STX_E_INVALID, "import", n->name,
					"%s: parameter '%s' is missing", n->target,
					info->params[i].name);
		args[i] = (struct stx_arg){ .kind = STX_ARG_DEFAULT };
	}
	*out = (in_place ? stx_graph_call_in_place : stx_graph_call)(w->g, (enum stx_op)op, n->name,
								     args, count, w->d);
	return *out ? STX_E_OK : w->d && w->d->code ? w->d->code : STX_E_INVALID;
}

static stx_err import_constant(struct wire *w, const Stx__WireNode *n, struct stx_node **out)
{
	if (n->dtype >= STX_DTYPE_COUNT || n->n_sizes > STX_MAX_DIMS)
		return stx_fail(w->d, STX_E_INVALID, "import", n->name,
				"the constant's type is out of range");
	for (size_t i = 0; i < n->n_sizes; i++)
		if (n->sizes[i] < 0)
			return stx_fail(w->d, STX_E_INVALID, "import", n->name,
					"the constant has a negative size");
	struct stx_type t =
		stx_type_make(w->g, (enum stx_dtype)n->dtype, (int)n->n_sizes, n->sizes);
	*out = stx_graph_constant(w->g, n->name, t, n->data.data, n->data.len, w->d);
	return *out ? STX_E_OK : w->d && w->d->code ? w->d->code : STX_E_INVALID;
}

static stx_err import_node(struct wire *w, const Stx__WireNode *n)
{
	struct stx_node *node = NULL;
	stx_err e;
	if (!strcmp(n->target, "constant")) {
		e = import_constant(w, n, &node);
	} else {
		int op = stx_op_find(n->target, strlen(n->target)), in_place = 0;
		if (op < 0 && (op = stx_op_find_in_place(n->target, strlen(n->target))) >= 0)
			in_place = 1;
		const char *why = stx_op_refusal(n->target, strlen(n->target));
		if (op < 0 || op == STX_OP_PLACEHOLDER)
			return stx_fail(w->d, STX_E_UNSUPPORTED, "import", n->name,
					"operator %s is not supported: %s", n->target,
					why ? why : "not an overload of the operator table");
		e = import_call(w, n, op, in_place, &node);
	}
	if (e)
		return e;
	if (n->origin[0])
		node->origin = stx_arena_strdup(w->arena, n->origin);
	return declare(w, n->name, node);
}

static stx_err import_inputs(struct wire *w, const Stx__WireGraph *m, struct stx_import_result *out)
{
	for (size_t i = 0; i < m->n_inputs; i++) {
		const Stx__WireInput *in = m->inputs[i];
		stx_ex *sizes, *strides = NULL;
		if (in->dtype >= STX_DTYPE_COUNT || in->n_sizes > STX_MAX_DIMS)
			return stx_fail(w->d, STX_E_INVALID, "import", in->name,
					"the input's type is out of range");
		stx_err e = get_dims(w, in->sizes, in->n_sizes, &sizes);
		if (e)
			return e;
		if (in->n_strides && in->n_strides != in->n_sizes)
			return stx_fail(w->d, STX_E_INVALID, "import", in->name,
					"%zu strides for %zu sizes", in->n_strides, in->n_sizes);
		if (in->n_strides && (e = get_dims(w, in->strides, in->n_strides, &strides)))
			return e;
		struct stx_type t = { .dtype = (enum stx_dtype)in->dtype,
				      .rank = (uint8_t)in->n_sizes,
				      .sizes = sizes };
		struct stx_node *n = stx_graph_input(w->g, in->name, t, strides, in->param, w->d);
		if (!n)
			return w->d && w->d->code ? w->d->code : STX_E_INVALID;
		if ((e = declare(w, in->name, n)))
			return e;
		out->input_names[i] = stx_arena_strdup(w->arena, in->name);
	}
	return STX_E_OK;
}

static stx_err import_outputs(struct wire *w, const Stx__WireGraph *m,
			      struct stx_import_result *out)
{
	if (!m->n_outputs)
		return stx_fail(w->d, STX_E_INVALID, "import", NULL, "the graph has no outputs");
	for (size_t i = 0; i < m->n_outputs; i++) {
		struct stx_val v = { NULL, 0 };
		const Stx__WireOutput *o = m->outputs[i];
		stx_err e = o->value ? get_ref(w, o->name, o->value, &v) : STX_E_OK;
		if (!e && !v.node)
			e = stx_fail(w->d, STX_E_INVALID, "import", o->name,
				     "output %zu names no value", i);
		out->output_names[i] = stx_arena_strdup(w->arena, o->name);
		if (e || (e = stx_graph_output(w->g, v, out->output_names[i], w->d)))
			return e;
	}
	return STX_E_OK;
}

static stx_err import_symbol(struct wire *w, const Stx__WireSymbol *s)
{
	struct stx_symbol sym = { .range = { s->lo, s->hi }, .hint = s->hint };
	if (!stx_symbol_name_is_valid(s->name, strlen(s->name)) ||
	    find_symbol(w, s->name, strlen(s->name)) != STX_EX_BAD)
		return stx_fail(
			w->d, STX_E_INVALID, "import", NULL,
			"a symbol's name is letters, digits and _, is given once, and is not "
			"None, min, max, tdiv or inf");
	if (s->lo < 0 || s->lo > s->hi || s->hint < s->lo || s->hint > s->hi)
		return stx_fail(w->d, STX_E_INVALID, "import", s->name,
				"symbol '%s': 0 <= lo <= hint <= hi does not hold", s->name);
	sym.name = stx_arena_strdup(w->arena, s->name);
	if (!sym.name || stx_push(w->arena, &w->g->symbols, sym))
		return stx_fail(w->d, STX_E_TOO_LARGE, "import", NULL,
				"the graph is over its memory budget");
	return STX_E_OK;
}

static stx_err import_graph(struct wire *w, const Stx__WireGraph *m, struct stx_import_result *out)
{
	stx_err e = STX_E_OK;
	size_t total = m->n_inputs + m->n_nodes;
	if (m->version != 1)
		return stx_fail(w->d, STX_E_VERSION, "import", NULL,
				"wire graph version %u; this build reads 1", m->version);
	if (total > WIRE_MAX_NODES)
		return stx_fail(w->d, STX_E_TOO_LARGE, "import", NULL,
				"the graph has %zu nodes; the limit is %u", total, WIRE_MAX_NODES);
	for (w->cap = 64; w->cap < 2 * total; w->cap *= 2)
		;
	w->names = STX_NEW_ARRAY(w->arena, struct wire_name, w->cap);
	out->input_names = STX_NEW_ARRAY(w->arena, const char *, m->n_inputs);
	out->output_names = STX_NEW_ARRAY(w->arena, const char *, m->n_outputs);
	if (!w->names || !out->input_names || !out->output_names)
		return stx_fail(w->d, STX_E_TOO_LARGE, "import", NULL,
				"the graph is over its memory budget");
	if (m->n_symbols > WIRE_MAX_SYMBOLS)
		return stx_fail(w->d, STX_E_TOO_LARGE, "import", NULL, "more than %u symbols",
				WIRE_MAX_SYMBOLS);
	for (size_t i = 0; i < m->n_symbols && !e; i++)
		e = import_symbol(w, m->symbols[i]);
	if (e)
		return e;
	if ((e = import_inputs(w, m, out)))
		return e;
	for (size_t i = 0; i < m->n_nodes && !e; i++)
		e = import_node(w, m->nodes[i]);
	return e ? e : import_outputs(w, m, out);
}

static void free_message(void *p)
{
	stx__wire_graph__free_unpacked(p, NULL);
}

stx_err stx_import_wire(struct stx_arena *a, struct stx_span body,
			const struct stx_import_options *o, struct stx_import_result *out,
			struct stx_diag *d)
{
	(void)o; /* a wire graph carries its constants itself */
	const struct stx_wire_limits limits = { .depth = WIRE_MAX_DEPTH,
						.fields = WIRE_MAX_FIELDS };
	stx_err e = stx_wire_scan(body, &stx__wire_graph__descriptor, &limits, "import", d);
	if (e)
		return e;
	Stx__WireGraph *m = stx__wire_graph__unpack(NULL, body.n, body.at);
	if (!m || stx_arena_on_free(a, free_message, m))
		return stx_fail(d, STX_E_INVALID, "import", NULL, "not a Stax wire graph");
	struct wire w = { .arena = a, .d = d, .g = stx_graph_new(a) };
	if (!w.g)
		return stx_fail(d, STX_E_TOO_LARGE, "import", NULL,
				"the graph is over its memory budget");
	out->graph = w.g;
	return import_graph(&w, m, out);
}
