/* onnx_names.c: names in scope, errors, and the inputs and attributes of the node at hand. */
#include "onnx_import.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "hash.h"

/* ---- names ---- */

/* 0 marks a free slot. */
static uint64_t hash_name(const struct onnx_scope *s, const char *name)
{
	uint64_t h = stx_mix_text((uintptr_t)s, name, strlen(name));
	return h ? h : 1;
}

static V lookup_here(const struct onnx_scope *s, const char *name)
{
	if (!s->cap)
		return NO_V;
	uint64_t h = hash_name(s, name);
	for (uint32_t i = (uint32_t)h & (s->cap - 1); s->at[i].hash; i = (i + 1) & (s->cap - 1))
		if (s->at[i].hash == h && !strcmp(s->at[i].name, name))
			return s->at[i].v;
	return NO_V;
}

/* A subgraph sees the names around it. */
V onnx_lookup(const struct onnx_scope *s, const char *name)
{
	V v = NO_V;
	for (; s && !v.node; s = s->outer)
		v = lookup_here(s, name);
	return v;
}

int onnx_is_bound_here(const struct onnx *c, const char *name)
{
	return lookup_here(c->scope, name).node != NULL;
}

static void place(struct onnx_scope *s, struct onnx_binding b)
{
	uint32_t i = (uint32_t)b.hash & (s->cap - 1);
	while (s->at[i].hash && !(s->at[i].hash == b.hash && !strcmp(s->at[i].name, b.name)))
		i = (i + 1) & (s->cap - 1);
	s->n += !s->at[i].hash;
	s->at[i] = b;
}

void onnx_bind(struct onnx *c, const char *name, V v)
{
	struct onnx_scope *s = c->scope;
	if (c->err || !v.node)
		return;
	if (s->n * 2 >= s->cap) {
		struct onnx_scope old = *s;
		s->cap = old.cap ? old.cap * 2 : 64;
		s->n = 0;
		s->at = STX_NEW_ARRAY(c->arena, struct onnx_binding, s->cap);
		if (!s->at) {
			*s = old;
			onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
			return;
		}
		for (uint32_t i = 0; i < old.cap; i++)
			if (old.at[i].hash)
				place(s, old.at[i]);
	}
	place(s, (struct onnx_binding){ name, hash_name(s, name), v });
}

/* ---- errors ---- */

const char *onnx_node_label(const struct onnx *c)
{
	return c->n->name && *c->n->name ? c->n->name : c->n->n_output ? c->n->output[0] : "";
}

stx_err onnx_fail(struct onnx *c, stx_err code, const char *fmt, ...)
{
	char node[96] = "";
	va_list ap;
	if (c->err)
		return c->err;
	c->err = code;
	if (c->n)
		snprintf(node, sizeof node, "%s '%s'", c->n->op_type ? c->n->op_type : "?",
			 onnx_node_label(c));
	va_start(ap, fmt);
	stx_vfail(c->d, code, "import", node, fmt, ap);
	va_end(ap);
	return code;
}

stx_err onnx_unsupported_attr(struct onnx *c, const char *attr, const char *value)
{
	return onnx_fail(c, STX_E_UNSUPPORTED, "operator %s: attribute %s=%s is not supported",
			 c->n->op_type, attr, value);
}

/* ---- inputs and attributes ---- */

/* An input of the function at hand that its caller leaves out. */
static int is_left_out(const struct onnx *c, const char *name)
{
	const struct onnx_function *f = c->scope->function;
	if (!f || onnx_lookup(c->scope, name).node)
		return 0;
	for (size_t i = 0; i < f->proto->n_input; i++)
		if (!strcmp(f->proto->input[i], name))
			return 1;
	return 0;
}

int onnx_has(const struct onnx *c, unsigned i)
{
	return i < c->n->n_input && c->n->input[i][0] && !is_left_out(c, c->n->input[i]);
}

V onnx_any(struct onnx *c, unsigned i)
{
	if (c->err || !onnx_has(c, i))
		return NO_V;
	V v = onnx_lookup(c->scope, c->n->input[i]);
	if (!v.node)
		onnx_fail(c, STX_E_INVALID,
			  "input %u names '%s', which no earlier node, input or initialiser gives "
			  "(a cycle, or nodes out of order)",
			  i, c->n->input[i]);
	return v;
}

V onnx_opt(struct onnx *c, unsigned i)
{
	V v = onnx_any(c, i);
	if (!onnx_as_sequence(v))
		return v;
	onnx_fail(c, STX_E_INVALID, "input %u of operator %s is a sequence or an empty optional", i,
		  c->n->op_type);
	return NO_V;
}

V onnx_in(struct onnx *c, unsigned i)
{
	if (!c->err && !onnx_has(c, i))
		onnx_fail(c, STX_E_INVALID, "operator %s needs input %u, which is missing",
			  c->n->op_type, i);
	return onnx_opt(c, i);
}

static const Onnx__AttributeProto *find_attr(Onnx__AttributeProto *const *at, size_t n,
					     const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (at[i]->name && !strcmp(at[i]->name, name))
			return at[i];
	return NULL;
}

const Onnx__AttributeProto *onnx_attr(const struct onnx *c, const char *name)
{
	const Onnx__AttributeProto *a = find_attr(c->n->attribute, c->n->n_attribute, name);
	const struct onnx_scope *s = c->scope;
	while (a && a->ref_attr_name && *a->ref_attr_name) { /* of the function's caller */
		const char *outer = a->ref_attr_name;
		if (!s || !s->caller)
			return NULL;
		a = find_attr(s->caller->attribute, s->caller->n_attribute, outer);
		if (!a && s->function)
			a = find_attr(s->function->defaults, s->function->ndefaults, outer);
		s = s->parent;
	}
	return a;
}

/* The attribute, which must be of that type when it says its type (as it has to since IR 2). */
static const Onnx__AttributeProto *typed(struct onnx *c, const char *name,
					 Onnx__AttributeProto__AttributeType type,
					 const char *wanted)
{
	const Onnx__AttributeProto *a = onnx_attr(c, name);
	if (a && a->has_type && a->type && a->type != type) {
		onnx_fail(c, STX_E_INVALID, "attribute %s of operator %s must be %s", name,
			  c->n->op_type, wanted);
		return NULL;
	}
	return a;
}

/* A writer of protocol buffers 3 leaves out what is 0 or empty and says the type alone. */
static int has_value(const Onnx__AttributeProto *a, int has_field)
{
	return a && (has_field || (a->has_type && a->type));
}

int64_t onnx_int(struct onnx *c, const char *name, int64_t otherwise)
{
	const Onnx__AttributeProto *a =
		typed(c, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT, "an integer");
	return has_value(a, a && a->has_i) ? a->i : otherwise;
}

double onnx_float(struct onnx *c, const char *name, double otherwise)
{
	const Onnx__AttributeProto *a =
		typed(c, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT, "a float");
	return has_value(a, a && a->has_f) ? (double)a->f : otherwise;
}

const char *onnx_str(struct onnx *c, const char *name, const char *otherwise)
{
	const Onnx__AttributeProto *a =
		typed(c, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, "a string");
	if (!has_value(a, a && a->has_s))
		return otherwise;
	char *s = stx_arena_strndup(c->arena, (const char *)a->s.data, a->s.len);
	return s ? s : otherwise;
}

int onnx_ints(struct onnx *c, const char *name, const int64_t **v)
{
	const Onnx__AttributeProto *a =
		typed(c, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, "a list of integers");
	if (!a)
		return -1;
	*v = a->ints;
	return (int)a->n_ints;
}

void onnx_int_list(struct onnx *c, const char *name, int n, int64_t least, int64_t otherwise,
		   int64_t *out)
{
	const int64_t *v;
	int have = onnx_ints(c, name, &v);
	int ok = have == n || (have < 0 && otherwise >= least);
	for (int i = 0; i < n && ok; i++) {
		out[i] = have < 0 ? otherwise : v[i];
		ok = out[i] >= least && out[i] <= INT32_MAX;
	}
	if (ok)
		return;
	for (int i = 0; i < n; i++)
		out[i] = least;
	onnx_fail(c, STX_E_INVALID, "attribute %s does not have %d numbers of at least %lld", name,
		  n, (long long)least);
}

void onnx_check_kernel_shape(struct onnx *c, int k, const int64_t *weight)
{
	int64_t said[STX_MAX_DIMS];
	if (!onnx_attr(c, "kernel_shape"))
		return;
	onnx_int_list(c, "kernel_shape", k, 1, 0, said);
	for (int i = 0; i < k && !c->err; i++)
		if (said[i] != weight[i])
			onnx_fail(
				c, STX_E_INVALID,
				"attribute kernel_shape says %lld in dimension %d, the weight has "
				"%lld",
				(long long)said[i], i, (long long)weight[i]);
}
