/* args.c: arguments of calls: building them, and matching them to an operator's schema. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"

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

struct stx_arg stx_arg_scalar_b(int v)
{
	return (struct stx_arg){ .kind = STX_ARG_SCALAR, .is_bool = 1, .u.i = v != 0 };
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
	       k == STX_PARAM_OPT_DTYPE || k == STX_PARAM_OPT_STRING;
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
		*out = stx_arg_scalar_b((int)a->u.i);
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
		if (a->u.tensors[i].node && !stx__val_ok(g, a->u.tensors[i]))
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
	case STX_PARAM_OPT_TENSOR: return a->kind == STX_ARG_TENSOR && stx__val_ok(g, a->u.tensor);
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
	case STX_PARAM_OPT_STRING:
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
		"a string or None",
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

stx_err stx__match_args(struct stx_graph *g, struct stx_node *n, const struct stx_arg *args,
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
	case STX_ARG_BOOL:
		return k == STX_PARAM_BOOL || k == STX_PARAM_SCALAR || k == STX_PARAM_OPT_SCALAR;
	case STX_ARG_BOOLS: return k == STX_PARAM_BOOLS;
	case STX_ARG_STRING: return k == STX_PARAM_STRING || k == STX_PARAM_OPT_STRING;
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
