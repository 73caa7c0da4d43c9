/* onnx_function.c: model-local functions: what the model defines, found by domain, name and overload,
 * and calls of them. Source: onnx.proto of IR version 10. */
#include "onnx_import.h"

#include <stdlib.h>
#include <string.h>

#include "wire.h"

/* Field numbers behind the installed schema. */
enum { NODE_OVERLOAD = 8, FUNCTION_ATTRIBUTE = 11, FUNCTION_OVERLOAD = 13 };

/* The i-th field of that number that the schema does not know, of bytes; 0: there is none. */
static int unknown_bytes(const ProtobufCMessage *m, uint32_t number, unsigned i,
			 struct stx_span *out)
{
	for (unsigned k = 0; k < m->n_unknown_fields; k++) {
		const ProtobufCMessageUnknownField *f = &m->unknown_fields[k];
		uint64_t n;
		if (f->tag != number || f->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED || i--)
			continue;
		struct stx_wire w = stx_wire_of((struct stx_span){ f->data, f->len });
		if (stx_wire_varint(&w, &n) || n != (uint64_t)(w.end - w.at))
			return 0;
		*out = (struct stx_span){ w.at, (size_t)n };
		return 1;
	}
	return 0;
}

static int compare_spans(struct stx_span a, struct stx_span b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n ? memcmp(a.at, b.at, n) : 0;
	return r ? r : (a.n > b.n) - (a.n < b.n);
}

static int compare_functions(const void *pa, const void *pb)
{
	const struct onnx_function *a = pa, *b = pb;
	const Onnx__FunctionProto *x = a->proto, *y = b->proto;
	int r = strcmp(x->name ? x->name : "", y->name ? y->name : "");
	r = r ? r : strcmp(x->domain ? x->domain : "", y->domain ? y->domain : "");
	return r ? r : compare_spans(a->overload, b->overload);
}

/* protobuf-c's memory from the arena, which frees it. */
static void *take(void *arena, size_t n)
{
	return stx_arena_alloc(arena, n);
}

static void leave(void *arena, void *p)
{
	(void)arena;
	(void)p;
}

static void read_defaults(struct onnx *c, struct onnx_function *f)
{
	const struct stx_wire_limits limits = { .depth = ONNX_MAX_DEPTH,
						.fields = ONNX_MAX_FIELDS };
	ProtobufCAllocator in_arena = { take, leave, c->arena };
	const ProtobufCMessage *m = &f->proto->base;
	struct stx_span s;
	f->defaults = STX_NEW_ARRAY(c->arena, Onnx__AttributeProto *, m->n_unknown_fields + 1);
	for (unsigned i = 0; f->defaults && unknown_bytes(m, FUNCTION_ATTRIBUTE, i, &s); i++) {
		c->err = stx_wire_scan(s, &onnx__attribute_proto__descriptor, &limits, "import",
				       c->d);
		if (c->err)
			return;
		Onnx__AttributeProto *a = onnx__attribute_proto__unpack(&in_arena, s.n, s.at);
		if (!a || !a->name)
			onnx_fail(c, STX_E_INVALID,
				  "a default attribute of function '%s' is malformed",
				  f->proto->name ? f->proto->name : "");
		if (c->err)
			return;
		f->defaults[f->ndefaults++] = a;
	}
	if (!f->defaults)
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
}

void onnx_read_functions(struct onnx *c)
{
	size_t n = c->model->n_functions;
	c->functions = STX_NEW_ARRAY(c->arena, struct onnx_function, n + 1);
	if (!c->functions)
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	for (size_t i = 0; i < n && !c->err; i++) {
		struct onnx_function *f = &c->functions[i];
		f->proto = c->model->functions[i];
		unknown_bytes(&f->proto->base, FUNCTION_OVERLOAD, 0, &f->overload);
		read_defaults(c, f);
	}
	if (!c->err && n)
		qsort(c->functions, n, sizeof *c->functions, compare_functions);
}

const struct onnx_function *onnx_find_function(const struct onnx *c, const Onnx__NodeProto *n)
{
	Onnx__FunctionProto proto = { .name = n->op_type, .domain = n->domain };
	struct onnx_function key = { .proto = &proto };
	if (!c->model->n_functions)
		return NULL;
	unknown_bytes(&n->base, NODE_OVERLOAD, 0, &key.overload);
	return bsearch(&key, c->functions, c->model->n_functions, sizeof key, compare_functions);
}

stx_err onnx_call_function(struct onnx *c, const struct onnx_function *called, V *out)
{
	const Onnx__FunctionProto *f = called->proto;
	if (++c->depth > ONNX_CALL_DEPTH)
		return onnx_fail(c, STX_E_INVALID,
				 "function '%s' calls itself or nests more than %d deep", f->name,
				 ONNX_CALL_DEPTH);
	struct onnx_scope inner = { .parent = c->scope, .caller = c->n, .function = called };
	struct onnx_scope *outer = c->scope;
	const Onnx__NodeProto *caller = c->n;
	int64_t opset = c->opset;
	V args[64];
	if (f->n_input > 64 || f->n_output > 64)
		return onnx_fail(c, STX_E_TOO_LARGE,
				 "function '%s' has more than 64 inputs or outputs", f->name);
	for (size_t i = 0; i < f->n_input; i++)
		args[i] = onnx_any(c, (unsigned)i);
	c->scope = &inner;
	c->opset = onnx_default_opset(c, f->opset_import, f->n_opset_import, opset);
	for (size_t i = 0; i < f->n_input; i++)
		onnx_bind(c, f->input[i], args[i]);
	onnx_import_nodes(c, f->node, f->n_node);
	for (size_t i = 0; i < f->n_output && i < caller->n_output && !c->err; i++)
		out[i] = onnx_lookup(&inner, f->output[i]);
	c->scope = outer;
	c->n = caller;
	c->opset = opset;
	c->depth--;
	return c->err;
}
