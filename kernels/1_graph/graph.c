/* graph.c: construction of graphs: inputs, constants, calls matched to their schema, outputs. */
#include "graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "passes.h"

stx_err stx__over_budget(const char *stage, const char *name, struct stx_diag *d)
{
	return stx_fail(d, STX_E_TOO_LARGE, stage, name,
			"the memory budget of the request is used up");
}

struct stx_graph *stx_graph_new(struct stx_arena *a)
{
	struct stx_graph *g = STX_NEW(a, struct stx_graph);
	if (!g)
		return NULL;
	g->arena = a;
	g->ex = stx_exprs_new(a);
	g->next_serial = 1;
	return g->ex ? g : NULL;
}

/* ---- types ---- */

struct stx_type stx_type_make(struct stx_graph *g, enum stx_dtype t, int rank, const int64_t *sizes)
{
	stx_ex *s = STX_NEW_ARRAY(g->arena, stx_ex, (size_t)(rank > 0 ? rank : 1));
	for (int i = 0; s && i < rank; i++)
		s[i] = stx_ex_const(g->ex, sizes[i]);
	return (struct stx_type){ .dtype = s ? t : STX_DTYPE_NONE,
				  .rank = (uint8_t)rank,
				  .sizes = s };
}

stx_ex stx_type_numel(struct stx_graph *g, const struct stx_type *t)
{
	stx_ex p = stx_ex_const(g->ex, 1);
	for (uint32_t i = 0; i < t->rank; i++) /* a zero anywhere wins over an overflow elsewhere */
		if (stx_ex_equals(g->ex, t->sizes[i], 0))
			return t->sizes[i];
	for (uint32_t i = 0; i < t->rank; i++)
		p = stx_ex_mul(g->ex, p, t->sizes[i]);
	return p;
}

int stx_type_eq(const struct stx_type *a, const struct stx_type *b)
{
	return a->dtype == b->dtype && a->rank == b->rank &&
	       (a->rank == 0 || !memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes));
}

stx_err stx__check_type(struct stx_graph *g, const char *name, const struct stx_type *t,
			struct stx_diag *d)
{
	__int128 n = 1;
	if (t->rank > STX_MAX_DIMS)
		return stx_fail(d, STX_E_TOO_LARGE, "verify", name,
				"rank %u; at most %d dimensions", t->rank, STX_MAX_DIMS);
	if ((unsigned)t->dtype >= STX_DTYPE_COUNT || (t->rank && !t->sizes))
		return stx_fail(d, STX_E_INVALID, "verify", name, "the type is not complete");
	for (uint32_t i = 0; i < t->rank; i++) {
		if (t->sizes[i] == STX_EX_BAD ||
		    stx_ex_weight(g->ex, t->sizes[i]) > STX__MAX_SIZE_WEIGHT)
			return stx_fail(
				d, STX_E_TOO_LARGE, "verify", name,
				"the size of dimension %u does not fit in 64 bits, or depends on "
				"symbols in too complicated a way",
				i);
		if (stx_ex_interval(g->ex, t->sizes[i]).lo < 0)
			return stx_fail(d, STX_E_INVALID, "verify", name,
					"the size of dimension %u is or may be negative", i);
		int64_t s = stx_ex_hint(g->ex, t->sizes[i]);
		n *= s > 1 ? s : 1; /* zero-size tensors have strides too */
		if (n >= STX__MAX_ELEMS)
			return stx_fail(
				d, STX_E_TOO_LARGE, "verify", name,
				"the tensor has %s%lld elements or more (dimension %u is %lld); "
				"the limit is 2^40",
				n > INT64_MAX ? "over " : "",
				n > INT64_MAX ? (long long)INT64_MAX : (long long)n, i,
				(long long)s);
	}
	return 0;
}

/* ---- arguments ---- */

struct stx_arg stx_arg_none(void)
{
	return (struct stx_arg){ .kind = STX_ARG_NONE };
}

struct stx_arg stx_arg_tensor(struct stx_val v)
{
	return (struct stx_arg){ .kind = STX_ARG_TENSOR, .u.tensor = v };
}

struct stx_arg stx_arg_node(struct stx_node *n)
{
	return stx_arg_tensor(stx_val(n, 0));
}

struct stx_arg stx_arg_tensors(struct stx_graph *g, const struct stx_val *v, uint32_t n)
{
	return (struct stx_arg){ .kind = STX_ARG_TENSORS,
				 .n = n,
				 .u.tensors = stx_arena_copy(g->arena, v, n * sizeof *v) };
}

struct stx_arg stx_arg_ex(stx_ex e)
{
	return (struct stx_arg){ .kind = STX_ARG_INT, .u.ex = e };
}

struct stx_arg stx_arg_int(struct stx_graph *g, int64_t v)
{
	return stx_arg_ex(stx_ex_const(g->ex, v));
}

struct stx_arg stx_arg_exs(struct stx_graph *g, const stx_ex *v, uint32_t n)
{
	return (struct stx_arg){ .kind = STX_ARG_INTS,
				 .n = n,
				 .u.exs = stx_arena_copy(g->arena, v, n * sizeof *v) };
}

struct stx_arg stx_arg_ints(struct stx_graph *g, const int64_t *v, uint32_t n)
{
	stx_ex *e = STX_NEW_ARRAY(g->arena, stx_ex, n ? n : 1);
	for (uint32_t i = 0; e && i < n; i++)
		e[i] = stx_ex_const(g->ex, v[i]);
	return (struct stx_arg){ .kind = STX_ARG_INTS, .n = n, .u.exs = e };
}

struct stx_arg stx_arg_float(double v)
{
	return (struct stx_arg){ .kind = STX_ARG_FLOAT, .u.f = v };
}

struct stx_arg stx_arg_scalar_i(int64_t v)
{
	return (struct stx_arg){ .kind = STX_ARG_SCALAR, .u.i = v };
}

struct stx_arg stx_arg_scalar_f(double v)
{
	return (struct stx_arg){ .kind = STX_ARG_SCALAR, .is_float = 1, .u.f = v };
}

struct stx_arg stx_arg_bool(int v)
{
	return (struct stx_arg){ .kind = STX_ARG_BOOL, .u.i = v != 0 };
}

struct stx_arg stx_arg_floats(struct stx_graph *g, const double *v, uint32_t n)
{
	return (struct stx_arg){ .kind = STX_ARG_FLOATS,
				 .n = n,
				 .u.fs = stx_arena_copy(g->arena, v, n * sizeof *v) };
}

struct stx_arg stx_arg_bools(uint64_t bits, uint32_t n)
{
	return (struct stx_arg){ .kind = STX_ARG_BOOLS, .n = n, .u.i = (int64_t)bits };
}

struct stx_arg stx_arg_str(struct stx_graph *g, const char *s)
{
	return (struct stx_arg){ .kind = STX_ARG_STRING, .u.str = stx_arena_strdup(g->arena, s) };
}

struct stx_arg stx_arg_dtype(enum stx_dtype t)
{
	return (struct stx_arg){ .kind = STX_ARG_DTYPE, .u.dtype = t };
}

struct stx_arg stx_arg_default(void)
{
	return (struct stx_arg){ .kind = STX_ARG_DEFAULT };
}

/* ---- matching arguments to a schema ---- */

static int takes_none(enum stx_param_kind k)
{
	return k == STX_PARAM_OPT_TENSOR || k == STX_PARAM_OPT_INT || k == STX_PARAM_OPT_INTS ||
	       k == STX_PARAM_OPT_FLOAT || k == STX_PARAM_OPT_FLOATS || k == STX_PARAM_OPT_SCALAR ||
	       k == STX_PARAM_OPT_DTYPE;
}

static int val_ok(const struct stx_graph *g, struct stx_val v)
{
	return v.node && v.node->id < g->nodes.n && g->nodes.at[v.node->id] == v.node &&
	       v.out < v.node->nouts;
}

static int to_int(const struct stx_graph *g, const struct stx_arg *a, struct stx_arg *out)
{
	*out = *a;
	if (a->kind == STX_ARG_SCALAR && !a->is_float)
		*out = stx_arg_ex(stx_ex_const(g->ex, a->u.i));
	else if (a->kind != STX_ARG_INT)
		return 0;
	return out->u.ex != STX_EX_BAD;
}

static int to_ints(struct stx_graph *g, const struct stx_arg *a, struct stx_arg *out)
{
	struct stx_arg one;
	if (a->kind == STX_ARG_INTS) {
		*out = stx_arg_exs(g, a->u.exs, a->n);
		for (uint32_t i = 0; out->u.exs && i < a->n; i++)
			if (a->u.exs[i] == STX_EX_BAD)
				return 0;
		return 1;
	}
	if (!to_int(g, a, &one))
		return 0;
	*out = stx_arg_exs(g, &one.u.ex, 1);
	return 1;
}

static int to_float(const struct stx_graph *g, const struct stx_arg *a, struct stx_arg *out)
{
	int64_t v;
	if (a->kind == STX_ARG_FLOAT)
		*out = *a;
	else if (a->kind == STX_ARG_SCALAR)
		*out = stx_arg_float(a->is_float ? a->u.f : (double)a->u.i);
	else if (a->kind == STX_ARG_INT && stx_ex_is_const(g->ex, a->u.ex, &v))
		*out = stx_arg_float((double)v);
	else
		return 0;
	return 1;
}

static int to_scalar(const struct stx_graph *g, const struct stx_arg *a, struct stx_arg *out)
{
	int64_t v;
	if (a->kind == STX_ARG_SCALAR)
		*out = *a;
	else if (a->kind == STX_ARG_FLOAT)
		*out = stx_arg_scalar_f(a->u.f);
	else if (a->kind == STX_ARG_BOOL)
		*out = stx_arg_scalar_i(a->u.i);
	else if (a->kind == STX_ARG_INT && stx_ex_is_const(g->ex, a->u.ex, &v))
		*out = stx_arg_scalar_i(v);
	else
		return 0;
	return 1;
}

static int to_tensors(struct stx_graph *g, const struct stx_arg *a, struct stx_arg *out)
{
	if (a->kind != STX_ARG_TENSORS)
		return 0;
	for (uint32_t i = 0; i < a->n; i++)
		if (a->u.tensors[i].node && !val_ok(g, a->u.tensors[i]))
			return 0;
	*out = stx_arg_tensors(g, a->u.tensors, a->n);
	return 1;
}

/* Converts a to kind k; 0 when it does not fit. Lists are copied: the node owns what it refers to.
 */
static int convert(struct stx_graph *g, enum stx_param_kind k, const struct stx_arg *a,
		   struct stx_arg *out)
{
	if (a->kind == STX_ARG_NONE) {
		*out = stx_arg_none();
		return takes_none(k);
	}
	*out = *a;
	switch (k) {
	case STX_PARAM_TENSOR:
	case STX_PARAM_OPT_TENSOR: return a->kind == STX_ARG_TENSOR && val_ok(g, a->u.tensor);
	case STX_PARAM_TENSORS: return to_tensors(g, a, out);
	case STX_PARAM_INT:
	case STX_PARAM_OPT_INT: return to_int(g, a, out);
	case STX_PARAM_INTS:
	case STX_PARAM_OPT_INTS: return to_ints(g, a, out);
	case STX_PARAM_FLOAT:
	case STX_PARAM_OPT_FLOAT: return to_float(g, a, out);
	case STX_PARAM_SCALAR:
	case STX_PARAM_OPT_SCALAR: return to_scalar(g, a, out);
	case STX_PARAM_OPT_FLOATS:
		if (a->kind != STX_ARG_FLOATS)
			return 0;
		*out = stx_arg_floats(g, a->u.fs, a->n);
		return 1;
	case STX_PARAM_BOOL: out->u.i = a->u.i != 0; return a->kind == STX_ARG_BOOL;
	case STX_PARAM_BOOLS: return a->kind == STX_ARG_BOOLS && a->n <= STX_MAX_BOOLS;
	case STX_PARAM_STRING:
		if (a->kind != STX_ARG_STRING || !a->u.str)
			return 0;
		*out = stx_arg_str(g, a->u.str);
		return 1;
	case STX_PARAM_DTYPE:
	case STX_PARAM_OPT_DTYPE:
		return a->kind == STX_ARG_DTYPE && (unsigned)a->u.dtype < STX_DTYPE_COUNT;
	}
	return 0;
}

static const char *kind_text(enum stx_param_kind k)
{
	static const char *const text[] = {
		"a tensor",
		"a tensor or None",
		"a list of tensors",
		"an integer",
		"an integer or None",
		"a list of integers",
		"a list of integers or None",
		"a number",
		"a number or None",
		"a list of numbers or None",
		"True or False",
		"a list of True and False",
		"a number",
		"a number or None",
		"a string",
		"a dtype",
		"a dtype or None",
	};
	return text[k];
}

/* The default of a parameter, from the text in the schema. */
static struct stx_arg default_arg(struct stx_graph *g, const struct stx_param *p)
{
	const char *s = p->default_text;
	if (!strcmp(s, "None"))
		return stx_arg_none();
	if (!strcmp(s, "True") || !strcmp(s, "False"))
		return stx_arg_bool(*s == 'T');
	if (*s == '\'') {
		struct stx_arg a = { .kind = STX_ARG_STRING };
		a.u.str = stx_arena_strndup(g->arena, s + 1, strlen(s) - 2);
		return a;
	}
	if (*s == '[') {
		int64_t v[8];
		uint32_t n = 0;
		for (s++; *s && *s != ']' && n < 8; s += *s == ',')
			v[n++] = strtoll(s, (char **)&s, 10);
		return stx_arg_ints(g, v, n);
	}
	if (p->kind == STX_PARAM_FLOAT || p->kind == STX_PARAM_OPT_FLOAT)
		return stx_arg_float(strtod(s, NULL));
	if (strpbrk(s, ".en"))
		return stx_arg_scalar_f(strtod(s, NULL));
	int64_t v = strtoll(s, NULL, 10);
	return p->kind == STX_PARAM_INT || p->kind == STX_PARAM_OPT_INT ? stx_arg_int(g, v)
									: stx_arg_scalar_i(v);
}

static stx_err match_args(struct stx_graph *g, struct stx_node *n, const struct stx_arg *args,
			  uint32_t nargs, struct stx_diag *d)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	if (nargs > info->nparams)
		return stx_fail(d, STX_E_INVALID, "graph", n->name,
				"%s takes %u arguments, %u given", info->overload, info->nparams,
				nargs);
	n->nargs = info->nparams;
	n->args = STX_NEW_ARRAY(g->arena, struct stx_arg, info->nparams);
	if (!n->args)
		return stx__over_budget("graph", n->name, d);
	for (uint32_t i = 0; i < info->nparams; i++) {
		const struct stx_param *p = &info->params[i];
		struct stx_arg dflt;
		const struct stx_arg *a = i < nargs ? &args[i] : NULL;
		if (!a || a->kind == STX_ARG_DEFAULT) {
			if (!p->has_default)
				return stx_fail(d, STX_E_INVALID, "graph", n->name,
						"%s: argument '%s' is missing", info->overload,
						p->name);
			dflt = default_arg(g, p);
			a = &dflt;
		}
		if (!convert(g, p->kind, a, &n->args[i]))
			return stx_fail(d,
					stx_arena_oom(g->arena) ? STX_E_TOO_LARGE : STX_E_INVALID,
					"graph", n->name, "%s: argument '%s' must be %s",
					info->overload, p->name, kind_text(p->kind));
	}
	return stx_arena_oom(g->arena) ? stx__over_budget("graph", n->name, d) : 0;
}

static int arg_fits(enum stx_param_kind k, const struct stx_arg *a)
{
	switch (a->kind) {
	case STX_ARG_NONE: return takes_none(k);
	case STX_ARG_TENSOR: return k == STX_PARAM_TENSOR || k == STX_PARAM_OPT_TENSOR;
	case STX_ARG_TENSORS: return k == STX_PARAM_TENSORS;
	case STX_ARG_INT:
		return k == STX_PARAM_INT || k == STX_PARAM_OPT_INT || k == STX_PARAM_INTS ||
		       k == STX_PARAM_OPT_INTS || k == STX_PARAM_SCALAR ||
		       k == STX_PARAM_OPT_SCALAR || k == STX_PARAM_FLOAT ||
		       k == STX_PARAM_OPT_FLOAT;
	case STX_ARG_INTS: return k == STX_PARAM_INTS || k == STX_PARAM_OPT_INTS;
	case STX_ARG_FLOAT:
	case STX_ARG_SCALAR:
		if (a->kind == STX_ARG_SCALAR && !a->is_float && k >= STX_PARAM_INT &&
		    k <= STX_PARAM_OPT_INTS)
			return 1;
		return k == STX_PARAM_FLOAT || k == STX_PARAM_OPT_FLOAT || k == STX_PARAM_SCALAR ||
		       k == STX_PARAM_OPT_SCALAR;
	case STX_ARG_FLOATS: return k == STX_PARAM_OPT_FLOATS;
	case STX_ARG_BOOL: return k == STX_PARAM_BOOL;
	case STX_ARG_BOOLS: return k == STX_PARAM_BOOLS;
	case STX_ARG_STRING: return k == STX_PARAM_STRING;
	case STX_ARG_DTYPE: return k == STX_PARAM_DTYPE || k == STX_PARAM_OPT_DTYPE;
	case STX_ARG_DEFAULT: return 0;
	}
	return 0;
}

int stx_op_choose(const char *base, const struct stx_arg *args, uint32_t nargs)
{
	for (int op = 0; op < STX_OP_COUNT; op++) {
		const struct stx_op_info *info = stx_op_info((enum stx_op)op);
		if (strcmp(info->base, base) != 0 || info->category == STX_CAT_INPUT)
			continue;
		int fits = nargs <= info->nparams;
		for (uint32_t i = 0; fits && i < info->nparams; i++)
			fits = i < nargs ? !info->params[i].is_kwarg &&
						   arg_fits(info->params[i].kind, &args[i])
					 : info->params[i].has_default;
		if (fits)
			return op;
	}
	return -1;
}

/* ---- nodes ---- */

stx_err stx__graph_append(struct stx_graph *g, struct stx_node *n, struct stx_diag *d)
{
	if (g->nodes.n >= STX__MAX_NODES)
		return stx_fail(d, STX_E_TOO_LARGE, "graph", n->name, "more than %u nodes",
				STX__MAX_NODES);
	n->id = g->nodes.n;
	if (!n->serial && (stx_op_info(n->op)->tags & (STX_TAG_RANDOM | STX_TAG_EFFECT)))
		n->serial = g->next_serial++;
	return stx_push(g->arena, &g->nodes, n) ? stx__over_budget("graph", n->name, d) : 0;
}

/* A random node without a stream, its last argument, gets one that no other has. */
static void number_stream(struct stx_graph *g, struct stx_node *n)
{
	if (!(stx_op_info(n->op)->tags & STX_TAG_RANDOM) || !n->nargs)
		return;
	struct stx_arg *a = &n->args[n->nargs - 1];
	if (a->kind == STX_ARG_NONE)
		*a = stx_arg_int(g, (int64_t)g->next_serial);
}

static const char *claim_name(struct stx_graph *g, const char *name, int exact, const char *base,
			      struct stx_node *n, struct stx_diag *d)
{
	const char *s = exact && name ? stx__name_claim(g, name, strlen(name), n)
				      : stx__name_unique(g, name ? name : base, n);
	if (!s && stx_arena_oom(g->arena))
		stx__over_budget("graph", base, d);
	else if (!s)
		stx_fail(d, STX_E_INVALID, "graph", name, "the name is used twice");
	return s;
}

/* bool < integers < floats: what may be converted without being asked. */
static int kind_of(enum stx_dtype t)
{
	return t == STX_BOOL ? 0 : stx_dtype_is_float(t) ? 2 : 1;
}

/* n's result, as inferred, goes into its first operand. */
static stx_err put_in_place(struct stx_node *n, struct stx_diag *d)
{
	const struct stx_type *self = stx_val_type(n->args[0].u.tensor);
	struct stx_type *r = n->outs;
	int same = n->nouts == 1 && r->rank == self->rank;
	for (uint32_t i = 0; same && i < r->rank; i++)
		same = r->sizes[i] == self->sizes[i];
	if (!same)
		return stx_fail(d, STX_E_INVALID, "graph", n->name,
				"the result of %s does not have the sizes of the tensor that it is "
				"written into",
				stx_op_info(n->op)->overload);
	if (kind_of(r->dtype) > kind_of(self->dtype))
		return stx_fail(d, STX_E_INVALID, "graph", n->name,
				"the result of %s is %s, which is not written into %s: convert it "
				"with _to_copy and copy_",
				stx_op_info(n->op)->overload, stx_dtype_name(r->dtype),
				stx_dtype_name(self->dtype));
	r->dtype = self->dtype;
	n->is_in_place = 1;
	return 0;
}

struct stx_node *stx__graph_call_named(struct stx_graph *g, enum stx_op op, const char *name,
				       unsigned how, const struct stx_arg *args, uint32_t nargs,
				       struct stx_diag *d)
{
	if ((unsigned)op >= STX_OP_COUNT || stx_op_info(op)->category == STX_CAT_INPUT) {
		stx_fail(d, STX_E_INVALID, "graph", name, "not an operator that can be called");
		return NULL;
	}
	struct stx_node *n = STX_NEW(g->arena, struct stx_node);
	if (!n) {
		stx__over_budget("graph", name, d);
		return NULL;
	}
	n->op = op;
	n->name = name ? name : stx_op_info(op)->base; /* for messages, until it is made unique */
	if (match_args(g, n, args, nargs, d))
		return NULL;
	number_stream(g, n);
	if (stx_infer_node(g, n, d))
		return NULL;
	for (uint32_t i = 0; i < n->nouts; i++)
		if (stx__check_type(g, n->name, &n->outs[i], d))
			return NULL;
	if (how & STX__IN_PLACE && put_in_place(n, d))
		return NULL;
	n->name = claim_name(g, name, how & STX__EXACT, stx_op_info(op)->base, n, d);
	return n->name && !stx__graph_append(g, n, d) ? n : NULL;
}

struct stx_node *stx_graph_call(struct stx_graph *g, enum stx_op op, const char *name,
				const struct stx_arg *args, uint32_t nargs, struct stx_diag *d)
{
	return stx__graph_call_named(g, op, name, 0, args, nargs, d);
}

struct stx_node *stx_graph_call_in_place(struct stx_graph *g, enum stx_op op, const char *name,
					 const struct stx_arg *args, uint32_t nargs,
					 struct stx_diag *d)
{
	return stx__graph_call_named(g, op, name, STX__IN_PLACE, args, nargs, d);
}

/* A node without arguments and with one result of the given type, which is copied. */
static struct stx_node *new_source(struct stx_graph *g, enum stx_op op, const char *name,
				   const struct stx_type *type, struct stx_diag *d)
{
	if (stx__check_type(g, name, type, d))
		return NULL;
	struct stx_node *n = STX_NEW(g->arena, struct stx_node);
	struct stx_type *t = STX_NEW(g->arena, struct stx_type);
	stx_ex *s = stx_arena_copy(g->arena, type->sizes, type->rank * sizeof *s);
	if (!n || !t || !s) {
		stx__over_budget("graph", name, d);
		return NULL;
	}
	*t = *type;
	t->sizes = s;
	n->op = op;
	n->outs = t;
	n->nouts = 1;
	return n;
}

/* Strides that are exactly the row-major ones are not kept: NULL says the same (OG-04). */
static stx_err copy_strides(struct stx_graph *g, const char *name, const struct stx_type *t,
			    const stx_ex *strides, const stx_ex **out, struct stx_diag *d)
{
	int same = 1;
	stx_ex want = stx_ex_const(g->ex, 1);
	*out = NULL;
	for (uint32_t i = t->rank; strides && i-- > 0;) {
		struct stx_interval r = stx_ex_interval(g->ex, strides[i]);
		if (!strides[i] || r.lo < 0)
			return stx_fail(d, STX_E_INVALID, "graph", name,
					"the stride of dimension %u is or may be negative", i);
		same &= strides[i] == want || stx_ex_equals(g->ex, t->sizes[i], 1);
		want = stx_ex_mul(g->ex, want, t->sizes[i]);
	}
	if (!strides || same)
		return 0;
	*out = stx_arena_copy(g->arena, strides, t->rank * sizeof *strides);
	return *out ? 0 : stx__over_budget("graph", name, d);
}

struct stx_node *stx__graph_input_named(struct stx_graph *g, const char *name, int exact,
					struct stx_type type, const stx_ex *strides, int is_param,
					struct stx_diag *d)
{
	char made[32];
	snprintf(made, sizeof made, "primals_%u", g->inputs.n + 1);
	struct stx_node *n = new_source(g, STX_OP_PLACEHOLDER, name ? name : made, &type, d);
	struct stx_input in = { .node = n };
	if (!n || copy_strides(g, name ? name : made, &type, strides, &in.strides, d))
		return NULL;
	n->is_param = is_param != 0;
	n->name = claim_name(g, name, exact, made, n, d);
	if (!n->name || stx__graph_append(g, n, d))
		return NULL;
	if (stx_push(g->arena, &g->inputs, in)) {
		stx__over_budget("graph", n->name, d);
		return NULL;
	}
	return n;
}

struct stx_node *stx_graph_input(struct stx_graph *g, const char *name, struct stx_type type,
				 const stx_ex *strides, int is_param, struct stx_diag *d)
{
	return stx__graph_input_named(g, name, 0, type, strides, is_param, d);
}

struct stx_node *stx__graph_constant_named(struct stx_graph *g, const char *name, int exact,
					   struct stx_type type, const void *data, size_t nbytes,
					   struct stx_diag *d)
{
	int64_t count = 0;
	struct stx_node *n = new_source(g, STX_OP_CONSTANT, name ? name : "constant", &type, d);
	if (!n)
		return NULL;
	if (!stx_ex_is_const(g->ex, stx_type_numel(g, &type), &count) ||
	    (uint64_t)count * (uint64_t)stx_dtype_bytes(type.dtype) != nbytes) {
		stx_fail(d, STX_E_INVALID, "graph", name,
			 "a constant of %zu bytes does not fill its type: it has %lld elements of "
			 "%d bytes",
			 nbytes, (long long)count, stx_dtype_bytes(type.dtype));
		return NULL;
	}
	if (nbytes > STX__MAX_CONST_BYTES) {
		stx_fail(d, STX_E_TOO_LARGE, "graph", name,
			 "a constant of %zu bytes; over %u it must be a parameter", nbytes,
			 STX__MAX_CONST_BYTES);
		return NULL;
	}
	n->data.bytes = stx_arena_copy(g->arena, data, nbytes);
	n->data.n = nbytes;
	if (!n->data.bytes) {
		stx__over_budget("graph", name, d);
		return NULL;
	}
	for (size_t i = 0; type.dtype == STX_BOOL && i < nbytes; i++)
		if (n->data.bytes[i] > 1) {
			stx_fail(d, STX_E_INVALID, "graph", name,
				 "a bool element is neither 0 nor 1");
			return NULL;
		}
	n->name = claim_name(g, name, exact, "constant", n, d);
	return n->name && !stx__graph_append(g, n, d) ? n : NULL;
}

struct stx_node *stx_graph_constant(struct stx_graph *g, const char *name, struct stx_type type,
				    const void *data, size_t n, struct stx_diag *d)
{
	return stx__graph_constant_named(g, name, 0, type, data, n, d);
}

stx_err stx_graph_output(struct stx_graph *g, struct stx_val v, const char *name,
			 struct stx_diag *d)
{
	struct stx_output o = { .val = v };
	if (!val_ok(g, v))
		return stx_fail(d, STX_E_INVALID, "graph", name,
				"an output is not a value of this graph");
	if (name && !(o.name = stx_arena_strdup(g->arena, name)))
		return stx__over_budget("graph", name, d);
	return stx_push(g->arena, &g->outputs, o) ? stx__over_budget("graph", name, d) : 0;
}

stx_err stx_graph_write(struct stx_graph *g, struct stx_val v, uint32_t input, struct stx_diag *d)
{
	stx_err e = stx_graph_output(g, v, NULL, d);
	if (!e)
		g->outputs.at[g->outputs.n - 1].writes = input + 1;
	return e;
}

uint32_t *stx_graph_users(const struct stx_graph *g, struct stx_arena *a)
{
	uint32_t *users = STX_NEW_ARRAY(a, uint32_t, g->nodes.n + 1u);
	/* last[id] = 1 + id of the last user counted, so that one that uses a value twice counts
	 * once */
	uint32_t *last = STX_NEW_ARRAY(a, uint32_t, g->nodes.n + 1u);
	if (!users || !last)
		return NULL;
	for (uint32_t i = 0; i <= g->nodes.n; i++) {
		struct stx__cursor c = { 0 };
		struct stx_val *v;
		uint32_t o = 0;
		for (;;) {
			struct stx_node *used;
			if (i < g->nodes.n)
				used = (v = stx__next_operand(g->nodes.at[i], &c)) ? v->node : NULL;
			else
				used = o < g->outputs.n ? g->outputs.at[o++].val.node : NULL;
			if (!used)
				break;
			if (last[used->id] == i + 1)
				continue;
			last[used->id] = i + 1;
			users[used->id]++;
		}
	}
	return users;
}
