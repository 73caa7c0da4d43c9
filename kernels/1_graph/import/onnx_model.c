/* onnx_model.c: an ONNX model to a graph: initialisers, inputs, nodes in order, functions, outputs.
 *
 * Requires: the pre-scan passed. Ensures: a graph that verify accepts, or an error naming node and
 * operator. Integer arithmetic on shapes is folded as it is built (fold.c), so that a Reshape whose
 * shape is computed from Shape, Gather and Concat sees constants. What a node needs by value and is
 * not constant is traced back to the graph inputs it depends on: those are the needed values.
 * Source: onnx.proto, ONNX operator spec. */
#include "onnx_import.h"

#include <stdio.h>
#include <string.h>

#include "fold.h"
#include "hash.h"
#include "wire.h"

#define ONNX_MAX_NODES    2000000u
#define ONNX_MAX_UNROLLED 250000u /* nodes of functions and subgraphs, each time they run */

/* ---- needed values ---- */

static void need(struct onnx *c, const struct stx_node *placeholder, const char *what)
{
	const char *name = NULL;
	for (unsigned i = 0; i < c->g->inputs.n; i++)
		if (c->g->inputs.at[i].node == placeholder)
			name = c->input_names.at[i];
	for (unsigned i = 0; i < c->needed.n; i++)
		if (name && !strcmp(c->needed.at[i].input, name))
			return;
	struct stx_needed_value v = { name ? name : placeholder->name, what };
	stx_push(c->arena, &c->needed, v);
}

/* Walks back from v to the placeholders it depends on. */
static stx_err need_inputs_of(struct onnx *c, V v, const char *what)
{
	STX_VEC(struct stx_node *) stack = { 0 };
	uint8_t *seen = STX_NEW_ARRAY(c->arena, uint8_t, c->g->nodes.n + 1);
	char *why =
		stx_arena_printf(c->arena, "%s '%s': %s", c->n->op_type, onnx_node_label(c), what);
	if (!seen || !why)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	const struct stx_node *blocker = v.node; /* the first node that folding stopped at */
	stx_push(c->arena, &stack, v.node);
	while (stack.n) {
		struct stx_node *n = stack.at[--stack.n];
		if (seen[n->id])
			continue;
		seen[n->id] = 1;
		if (n->op != STX_OP_CONSTANT)
			blocker = n;
		if (n->op == STX_OP_PLACEHOLDER)
			need(c, n, why);
		for (uint32_t i = 0; i < n->nargs; i++) {
			if (n->args[i].kind == STX_ARG_TENSOR)
				stx_push(c->arena, &stack, n->args[i].u.tensor.node);
			for (uint32_t k = 0; n->args[i].kind == STX_ARG_TENSORS && k < n->args[i].n;
			     k++)
				if (n->args[i].u.tensors[k].node)
					stx_push(c->arena, &stack, n->args[i].u.tensors[k].node);
		}
	}
	if (!c->needed.n)
		return onnx_fail(c, STX_E_UNSUPPORTED,
				 "%s must be known when compiling, and is computed by %s, which is "
				 "not folded",
				 what, stx_op_info(blocker->op)->overload);
	return onnx_fail(c, STX_E_NEED_VALUES,
			 "%s must be known when compiling: give the value of input '%s'", what,
			 c->needed.at[0].input);
}

stx_err onnx_need(struct onnx *c, V v, const char *what)
{
	return c->err ? c->err : need_inputs_of(c, v, what);
}

/* ---- initialisers and inputs ---- */

static const struct stx_given_value *given(const struct onnx *c, const char *name)
{
	for (uint32_t i = 0; i < c->options->nvalues; i++)
		if (!strcmp(c->options->values[i].input, name))
			return &c->options->values[i];
	return NULL;
}

/* Sizes may be given without data: then they only fix the shape. */
static int has_value(const struct stx_given_value *v)
{
	int64_t count = 1;
	for (uint32_t i = 0; i < v->rank; i++)
		count = v->sizes[i] ? count : 0;
	return v->n || count == 0;
}

V onnx_constant(struct onnx *c, const char *name, enum stx_dtype t, int rank, const int64_t *sizes,
		const void *bytes, size_t n)
{
	if (c->err)
		return NO_V;
	struct stx_type type = stx_type_make(c->g, t, rank, sizes);
	struct stx_node *node = stx_graph_constant(c->g, name, type, bytes, n, c->d);
	if (!node) {
		c->err = c->d && c->d->code ? c->d->code : STX_E_INVALID;
		return NO_V;
	}
	return stx_val(node, 0);
}

static int has_other_size(const Onnx__TensorShapeProto__Dimension *dim, int64_t size)
{
	return dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
	       dim->dim_value != size;
}

static V add_input(struct onnx *c, const char *name, enum stx_dtype t, int rank,
		   const int64_t *sizes, int is_param)
{
	struct stx_type type = stx_type_make(c->g, t, rank, sizes);
	struct stx_node *node = stx_graph_input(c->g, name, type, NULL, is_param, c->d);
	if (!node || stx_push(c->arena, &c->input_names, name)) {
		c->err = c->d && c->d->code ? c->d->code : STX_E_TOO_LARGE;
		return NO_V;
	}
	return stx_val(node, 0);
}

/* Float initialisers over 64 bytes and others over 4 KiB become parameters, keyed by shape and
 * dtype; the client may have left their data out (design, A request, 3). Those of a subgraph stay
 * constants. */
static void import_initializer(struct onnx *c, const Onnx__TensorProto *t, int by_value)
{
	enum stx_dtype dtype = stx_onnx_dtype(t->data_type);
	const char *name = t->name ? t->name : "";
	int64_t sizes[STX_MAX_DIMS], count = 1;
	int rank;
	const uint8_t *bytes;
	size_t n;
	if (dtype == STX_DTYPE_NONE) {
		onnx_fail(c, STX_E_UNSUPPORTED,
			  "initialiser '%s' has element type %s, which is not supported", name,
			  stx_onnx_type_name(t->data_type));
		return;
	}
	if (t->n_dims > STX_MAX_DIMS) {
		onnx_fail(c, STX_E_TOO_LARGE, "initialiser '%s' has rank %zu; the limit is %d",
			  name, t->n_dims, STX_MAX_DIMS);
		return;
	}
	for (size_t i = 0; i < t->n_dims; i++) {
		sizes[i] = t->dims[i];
		if (sizes[i] < 0 || __builtin_mul_overflow(count, sizes[i], &count)) {
			onnx_fail(c, STX_E_INVALID, "initialiser '%s' has an impossible shape",
				  name);
			return;
		}
	}
	const struct stx_given_value *v = given(c, name);
	if (v && has_value(v)) {
		onnx_bind(c, name,
			  onnx_constant(c, NULL, v->dtype, (int)v->rank, v->sizes, v->bytes, v->n));
	} else if (!by_value && (stx_onnx_is_parameter(dtype, (uint64_t)count) ||
				 (count && !onnx_tensor_has_data(t)))) {
		onnx_bind(c, name, add_input(c, name, dtype, (int)t->n_dims, sizes, 1));
	} else if (!onnx_tensor_bytes(c, t, &dtype, &rank, sizes, &bytes, &n)) {
		onnx_bind(c, name, onnx_constant(c, NULL, dtype, rank, sizes, bytes, n));
	}
}

static void import_input(struct onnx *c, const Onnx__ValueInfoProto *in)
{
	const char *name = in->name ? in->name : "";
	if (onnx_is_bound_here(c, name)) {
		onnx_fail(c, STX_E_INVALID, "the input '%s' is given twice", name);
		return;
	}
	if (!in->type || in->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
		onnx_fail(c, STX_E_UNSUPPORTED,
			  "input '%s' is not a tensor (sequence, optional or map)", name);
		return;
	}
	const Onnx__TypeProto__Tensor *t = in->type->tensor_type;
	enum stx_dtype dtype = stx_onnx_dtype(t->elem_type);
	const struct stx_given_value *v = given(c, name);
	int64_t sizes[STX_MAX_DIMS];
	if (dtype == STX_DTYPE_NONE) {
		onnx_fail(c, STX_E_UNSUPPORTED,
			  "input '%s' has element type %s, which is not supported", name,
			  stx_onnx_type_name(t->elem_type));
		return;
	}
	if (v && has_value(v)) {
		if (v->dtype != dtype) {
			onnx_fail(c, STX_E_MISMATCH,
				  "the value given for input '%s' is %s, the model says %s", name,
				  stx_dtype_name(v->dtype), stx_dtype_name(dtype));
			return;
		}
		onnx_bind(c, name,
			  onnx_constant(c, NULL, v->dtype, (int)v->rank, v->sizes, v->bytes, v->n));
		return;
	}
	if (!t->shape && !v) {
		onnx_fail(c, STX_E_UNSUPPORTED, "input '%s' has no shape; give the input's sizes",
			  name);
		return;
	}
	size_t rank = t->shape ? t->shape->n_dim : v->rank;
	if (rank > STX_MAX_DIMS) {
		onnx_fail(c, STX_E_TOO_LARGE, "input '%s' has rank %zu; the limit is %d", name,
			  rank, STX_MAX_DIMS);
		return;
	}
	for (size_t i = 0; i < rank; i++) {
		const Onnx__TensorShapeProto__Dimension *dim = t->shape ? t->shape->dim[i] : NULL;
		if (v && v->rank == rank) { /* sizes given without data */
			sizes[i] = v->sizes[i];
			c->is_resized |= dim && has_other_size(dim, sizes[i]);
		} else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE)
			sizes[i] = dim->dim_value;
		else {
			onnx_fail(
				c, STX_E_UNSUPPORTED,
				"input '%s': dimension %zu is not fixed (%s); give the input's "
				"sizes",
				name, i,
				dim->value_case ==
						ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM
					? dim->dim_param
					: "unknown");
			return;
		}
		if (sizes[i] < 0) {
			onnx_fail(c, STX_E_INVALID, "input '%s' has a negative dimension", name);
			return;
		}
	}
	onnx_bind(c, name, add_input(c, name, dtype, (int)rank, sizes, 0));
}

/* ---- nodes ---- */

static int is_default_domain(const char *domain)
{
	return !domain || !*domain || !strcmp(domain, "ai.onnx");
}

/* Operators of a later version may mean something else. */
#define NEWEST_OPSET 28

int64_t onnx_default_opset(struct onnx *c, Onnx__OperatorSetIdProto *const *sets, size_t n,
			   int64_t otherwise)
{
	int64_t found = 0;
	for (size_t i = 0; i < n && !c->err; i++) {
		int64_t version = sets[i]->version;
		if (!is_default_domain(sets[i]->domain) || !sets[i]->has_version)
			continue;
		if (version < 1 || version > NEWEST_OPSET)
			onnx_fail(
				c, STX_E_UNSUPPORTED,
				"opset %lld is not known to this version, 1 to %d are: export the "
				"model with one of them",
				(long long)version, NEWEST_OPSET);
		else if (found && found != version)
			onnx_fail(c, STX_E_INVALID,
				  "opset_import gives the default domain two versions, %lld and "
				  "%lld",
				  (long long)found, (long long)version);
		found = version;
	}
	return found ? found : otherwise;
}

/* ---- subgraphs ---- */

stx_err onnx_body_begin(struct onnx *c, const char *attr, struct onnx_body *b)
{
	const Onnx__AttributeProto *a = onnx_attr(c, attr);
	*b = (struct onnx_body){ .outer = c->scope, .node = c->n };
	if (c->err)
		return c->err;
	if (!a || !a->g)
		return onnx_fail(c, STX_E_INVALID, "operator %s needs attribute %s, a graph",
				 c->n->op_type, attr);
	if (++c->depth > ONNX_CALL_DEPTH)
		return onnx_fail(c, STX_E_INVALID, "functions and subgraphs nest more than %d deep",
				 ONNX_CALL_DEPTH);
	b->graph = a->g;
	b->names = (struct onnx_scope){ .parent = c->scope->parent,
					.caller = c->scope->caller,
					.function = c->scope->function,
					.outer = c->scope };
	c->scope = &b->names;
	for (size_t i = 0; i < a->g->n_initializer && !c->err; i++)
		import_initializer(c, a->g->initializer[i], 1);
	return c->err;
}

stx_err onnx_body_run(struct onnx *c, struct onnx_body *b, const V *in, size_t nin, V *out,
		      size_t cap)
{
	const Onnx__GraphProto *g = b->graph;
	struct onnx_scope inner = { .parent = b->names.parent,
				    .caller = b->names.caller,
				    .function = b->names.function,
				    .outer = &b->names };
	if (c->err)
		return c->err;
	c->n = b->node;
	if (c->depth && ++c->mapped > ONNX_MAX_UNROLLED)
		return onnx_fail(c, STX_E_TOO_LARGE,
				 "functions and subgraphs, unrolled, have more than %u nodes",
				 ONNX_MAX_UNROLLED);
	if (g->n_input != nin || g->n_output > cap)
		return onnx_fail(c, STX_E_INVALID,
				 "the subgraph has %zu inputs and %zu outputs; %zu and at most %zu "
				 "are expected",
				 g->n_input, g->n_output, nin, cap);
	c->scope = &inner;
	for (size_t i = 0; i < nin; i++)
		onnx_bind(c, g->input[i]->name ? g->input[i]->name : "", in[i]);
	onnx_import_nodes(c, g->node, g->n_node);
	c->n = b->node;
	for (size_t i = 0; i < g->n_output && !c->err; i++) {
		const char *name = g->output[i]->name ? g->output[i]->name : "";
		out[i] = onnx_lookup(&inner, name);
		if (!out[i].node)
			onnx_fail(c, STX_E_INVALID,
				  "output '%s' of the subgraph is not computed by any node", name);
		else if (onnx_as_sequence(out[i]) && !b->sequences)
			onnx_fail(c, STX_E_INVALID, "output '%s' of the subgraph is a sequence",
				  name);
	}
	c->scope = &b->names;
	return c->err;
}

void onnx_body_end(struct onnx *c, struct onnx_body *b)
{
	c->scope = b->outer;
	c->n = b->node;
	c->depth--;
}

/* Whether `word` is one of those in `list`, with blanks between them. */
static int has_word(const char *list, const char *word)
{
	size_t n = strlen(word);
	for (const char *at = list; n && (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
			return 1;
	return 0;
}

static void map_node(struct onnx *c, const struct onnx_mapping *m, V *out)
{
	static const struct {
		const char *op_type, *names;
	} known[] = {
#define ONNX_ATTRIBUTES(op, list) { op, list },
#include "onnx_attributes.def"
#undef ONNX_ATTRIBUTES
	};
	unsigned row = 0, rows = sizeof known / sizeof *known;
	while (c->n->n_attribute && row < rows && strcmp(known[row].op_type, m->op_type) != 0)
		row++;
	for (size_t i = 0; i < c->n->n_attribute && row < rows; i++) {
		const char *name = c->n->attribute[i]->name ? c->n->attribute[i]->name : "";
		if (!has_word(known[row].names, name) && strcmp(name, "consumed_inputs") != 0) {
			onnx_fail(c, STX_E_UNSUPPORTED,
				  "operator %s: attribute %s is not supported", c->n->op_type,
				  name);
			return;
		}
	}
	m->map(c, out);
}

#define MAX_OUTPUTS 256

static stx_err import_node(struct onnx *c, const Onnx__NodeProto *n)
{
	V out[MAX_OUTPUTS] = { { NULL, 0 } };
	c->n = n;
	if (!n->op_type)
		return onnx_fail(c, STX_E_INVALID, "a node has no operator");
	if (c->depth && ++c->mapped > ONNX_MAX_UNROLLED)
		return onnx_fail(c, STX_E_TOO_LARGE,
				 "functions and subgraphs, unrolled, have more than %u nodes",
				 ONNX_MAX_UNROLLED);
	if (n->n_output > MAX_OUTPUTS)
		return onnx_fail(c, STX_E_TOO_LARGE, "more than %d outputs", MAX_OUTPUTS);
	const struct onnx_function *f = onnx_find_function(c, n);
	const struct onnx_mapping *m = onnx_find_mapping(n->domain, n->op_type);
	if (f)
		onnx_call_function(c, f, out);
	else if (m)
		map_node(c, m, out);
	else
		return onnx_fail(c, STX_E_UNSUPPORTED, "operator %s%s%s is not supported",
				 n->domain ? n->domain : "", n->domain && *n->domain ? "." : "",
				 n->op_type);
	for (size_t i = 0; i < n->n_output && !c->err; i++) {
		if (!n->output[i][0])
			continue;
		if (!out[i].node)
			return onnx_fail(c, STX_E_UNSUPPORTED,
					 "operator %s: output %zu ('%s') is not supported",
					 n->op_type, i, n->output[i]);
		if (onnx_is_bound_here(c, n->output[i]))
			return onnx_fail(c, STX_E_INVALID, "the name '%s' is given twice",
					 n->output[i]);
		onnx_bind(c, n->output[i], out[i]);
	}
	return c->err;
}

stx_err onnx_import_nodes(struct onnx *c, Onnx__NodeProto *const *nodes, size_t n)
{
	for (size_t i = 0; i < n && !c->err; i++)
		import_node(c, nodes[i]);
	c->n = NULL;
	return c->err;
}

int onnx_arg(const struct onnx *c)
{
	return onnx_find_mapping(c->n->domain, c->n->op_type)->arg;
}

const struct onnx_mapping *onnx_find_mapping(const char *domain, const char *op_type)
{
#define TABLE(family) onnx_##family##_map,
	const struct onnx_mapping *const tables[] = { ONNX_FAMILIES(TABLE) };
#undef TABLE
	size_t prefix = is_default_domain(domain) ? 0 : strlen(domain) + 1;
	for (unsigned t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct onnx_mapping *m = tables[t]; m->op_type; m++)
			if (!prefix ? !strcmp(m->op_type, op_type)
				    : !strncmp(m->op_type, domain, prefix - 1) &&
					      m->op_type[prefix - 1] == '.' &&
					      !strcmp(m->op_type + prefix, op_type))
				return m;
	return NULL;
}

/* ---- the model ---- */

static stx_err import_graph(struct onnx *c, const Onnx__GraphProto *g)
{
	if (g->n_sparse_initializer)
		return onnx_fail(c, STX_E_UNSUPPORTED, "sparse initialisers are not supported");
	if (g->n_node > ONNX_MAX_NODES)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model has %zu nodes; the limit is %u",
				 g->n_node, ONNX_MAX_NODES);
	/* Inputs first, in the model's order; then parameters; so argument positions are
	 * predictable. */
	struct onnx_scope probe = { 0 }; /* a set of the initialisers' names */
	struct stx_node present = { 0 };
	struct onnx_scope *real = c->scope;
	c->scope = &probe;
	for (size_t i = 0; i < g->n_initializer && !c->err; i++) {
		const char *name = g->initializer[i]->name ? g->initializer[i]->name : "";
		if (onnx_is_bound_here(c, name))
			onnx_fail(c, STX_E_INVALID, "the initialiser '%s' is given twice", name);
		onnx_bind(c, name, stx_val(&present, 0));
	}
	c->scope = real;
	/* An initialiser's name among the inputs: its default value, IR version < 4. */
	for (size_t i = 0; i < g->n_input && !c->err; i++)
		if (!onnx_lookup(&probe, g->input[i]->name ? g->input[i]->name : "").node)
			import_input(c, g->input[i]);
	for (size_t i = 0; i < g->n_initializer && !c->err; i++)
		import_initializer(c, g->initializer[i], 0);
	return onnx_import_nodes(c, g->node, g->n_node);
}

/* What the model says of an output must be what its nodes make: a model that contradicts itself was
 * exported or edited wrongly. Fixed sizes of a model whose inputs were given other ones say
 * nothing. */
static stx_err check_declared(struct onnx *c, const char *name, V v, const Onnx__TypeProto *said)
{
	if (!said || said->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
		return STX_E_OK;
	const Onnx__TypeProto__Tensor *t = said->tensor_type;
	const struct stx_type *made = stx_val_type(v);
	enum stx_dtype dtype = stx_onnx_dtype(t->elem_type);
	int64_t sizes[STX_MAX_DIMS];
	if (dtype != STX_DTYPE_NONE && dtype != made->dtype)
		return onnx_fail(c, STX_E_MISMATCH, "output '%s' is declared %s, its nodes make %s",
				 name, stx_onnx_type_name(t->elem_type),
				 stx_dtype_name(made->dtype));
	if (!t->shape || c->is_resized)
		return STX_E_OK;
	if (t->shape->n_dim != made->rank)
		return onnx_fail(c, STX_E_MISMATCH,
				 "output '%s' is declared with %zu dimensions, its nodes make %u",
				 name, t->shape->n_dim, made->rank);
	if (onnx_sizes(c, v, sizes) < 0)
		return c->err;
	for (unsigned i = 0; i < made->rank; i++)
		if (has_other_size(t->shape->dim[i], sizes[i]))
			return onnx_fail(c, STX_E_MISMATCH,
					 "output '%s': dimension %u is declared %lld, its nodes "
					 "make %lld",
					 name, i, (long long)t->shape->dim[i]->dim_value,
					 (long long)sizes[i]);
	return STX_E_OK;
}

static stx_err import_outputs(struct onnx *c, const Onnx__GraphProto *g,
			      struct stx_import_result *out)
{
	out->output_names = STX_NEW_ARRAY(c->arena, const char *, g->n_output);
	if (!out->output_names)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	c->n = NULL; /* errors are the outputs' from here on */
	if (!g->n_output)
		return onnx_fail(c, STX_E_INVALID, "the model has no outputs");
	for (size_t i = 0; i < g->n_output; i++) {
		const char *name = g->output[i]->name ? g->output[i]->name : "";
		const char *copy = stx_arena_strdup(c->arena, name);
		V v = onnx_lookup(c->scope, name);
		if (!v.node)
			return onnx_fail(c, STX_E_INVALID,
					 "output '%s' is not computed by any node", name);
		if (onnx_as_sequence(v))
			return onnx_fail(c, STX_E_UNSUPPORTED,
					 "output '%s' is not a tensor (sequence or optional)",
					 name);
		if (!copy)
			return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		if (check_declared(c, name, v, g->output[i]->type))
			return c->err;
		out->output_names[i] = copy;
		c->err = stx_graph_output(c->g, v, copy, c->d);
		if (c->err)
			return c->err;
	}
	return STX_E_OK;
}

static void free_model(void *p)
{
	onnx__model_proto__free_unpacked(p, NULL);
}

stx_err stx_import_onnx(struct stx_arena *a, struct stx_span body,
			const struct stx_import_options *o, struct stx_import_result *out,
			struct stx_diag *d)
{
	const struct stx_wire_limits limits = { .depth = ONNX_MAX_DEPTH,
						.fields = ONNX_MAX_FIELDS };
	stx_err e = stx_wire_scan(body, &onnx__model_proto__descriptor, &limits, "import", d);
	if (e)
		return e;
	Onnx__ModelProto *m = onnx__model_proto__unpack(NULL, body.n, body.at);
	if (!m || stx_arena_on_free(a, free_model, m))
		return stx_fail(d, STX_E_INVALID, "import", NULL, "not an ONNX model");
	if (!m->graph)
		return stx_fail(d, STX_E_INVALID, "import", NULL, "the ONNX model has no graph");
	struct onnx_scope top = { 0 };
	struct onnx c = { .arena = a, .options = o, .model = m, .d = d, .scope = &top };
	c.opset = onnx_default_opset(&c, m->opset_import, m->n_opset_import, 1);
	c.g = stx_graph_new(a);
	if (!c.g)
		return stx_fail(d, STX_E_TOO_LARGE, "import", NULL,
				"the model is over its memory budget");
	onnx_read_functions(&c);
	e = c.err ? c.err : import_graph(&c, m->graph);
	if (!e)
		e = import_outputs(&c, m->graph, out);
	out->graph = c.g;
	out->needed = c.needed.at;
	out->nneeded = c.needed.n;
	out->input_names = STX_NEW_ARRAY(a, const char *, c.input_names.n);
	for (unsigned i = 0; out->input_names && i < c.input_names.n; i++)
		out->input_names[i] = stx_arena_strdup(a, c.input_names.at[i]);
	return e;
}
