/* verify.c: checks a whole graph: order, arities, kinds, types as inference gives them, names,
 * limits. requires nothing of the graph; never changes it. Linear, apart from sorting serials. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph_internal.h"
#include "passes.h"

static stx_err bad(const struct stx_node *n, struct stx_diag *d, const char *text)
{
	return stx_fail(d, STX_E_INVALID, "verify", n->name ? n->name : "", "%s", text);
}

static int kind_fits(enum stx_param_kind k, enum stx_arg_kind a)
{
	switch (k) {
	case STX_PARAM_OPT_TENSOR: return a == STX_ARG_TENSOR || a == STX_ARG_NONE;
	case STX_PARAM_TENSOR: return a == STX_ARG_TENSOR;
	case STX_PARAM_TENSORS: return a == STX_ARG_TENSORS;
	case STX_PARAM_OPT_INT: return a == STX_ARG_INT || a == STX_ARG_NONE;
	case STX_PARAM_INT: return a == STX_ARG_INT;
	case STX_PARAM_OPT_INTS: return a == STX_ARG_INTS || a == STX_ARG_NONE;
	case STX_PARAM_INTS: return a == STX_ARG_INTS;
	case STX_PARAM_OPT_FLOAT: return a == STX_ARG_FLOAT || a == STX_ARG_NONE;
	case STX_PARAM_FLOAT: return a == STX_ARG_FLOAT;
	case STX_PARAM_OPT_FLOATS: return a == STX_ARG_FLOATS || a == STX_ARG_NONE;
	case STX_PARAM_BOOL: return a == STX_ARG_BOOL;
	case STX_PARAM_BOOLS: return a == STX_ARG_BOOLS;
	case STX_PARAM_OPT_SCALAR: return a == STX_ARG_SCALAR || a == STX_ARG_NONE;
	case STX_PARAM_SCALAR: return a == STX_ARG_SCALAR;
	case STX_PARAM_OPT_STRING: return a == STX_ARG_STRING || a == STX_ARG_NONE;
	case STX_PARAM_STRING: return a == STX_ARG_STRING;
	case STX_PARAM_OPT_DTYPE: return a == STX_ARG_DTYPE || a == STX_ARG_NONE;
	case STX_PARAM_DTYPE: return a == STX_ARG_DTYPE;
	}
	return 0;
}

/* Operands are results of earlier nodes of this graph. */
static stx_err check_args(const struct stx_graph *g, const struct stx_node *n, struct stx_diag *d)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	struct stx__cursor c = { 0 };
	if (n->nargs != info->nparams)
		return bad(n, d, "the number of arguments differs from the schema");
	for (uint32_t i = 0; i < n->nargs; i++) {
		const struct stx_arg *a = &n->args[i];
		if (!kind_fits(info->params[i].kind, a->kind))
			return stx_fail(d, STX_E_INVALID, "verify", n->name,
					"argument '%s' has the wrong kind", info->params[i].name);
		if ((a->kind == STX_ARG_TENSOR && !a->u.tensor.node) ||
		    (a->kind == STX_ARG_STRING && !a->u.str))
			return bad(n, d, "an argument is missing");
	}
	for (struct stx_val *v; (v = stx__next_operand(n, &c));) {
		if (v->node->id >= n->id || g->nodes.at[v->node->id] != v->node)
			return bad(n, d, "an operand does not stand before its user");
		if (v->out >= v->node->nouts)
			return bad(n, d, "an operand names a result that does not exist");
	}
	return 0;
}

static stx_err check_source(struct stx_graph *w, const struct stx_node *n, struct stx_diag *d)
{
	int64_t count;
	if (n->nouts != 1 || n->nargs)
		return bad(n, d, "an input has one result and no arguments");
	if (n->op == STX_OP_PLACEHOLDER)
		return 0;
	if (!stx_ex_is_const(w->ex, stx_type_numel(w, &n->outs[0]), &count) ||
	    n->data.n != (uint64_t)count * (uint64_t)stx_dtype_bytes(n->outs[0].dtype))
		return bad(n, d, "the constant's data does not fill its type");
	if (n->data.n > STX__MAX_CONST_BYTES)
		return stx_fail(d, STX_E_TOO_LARGE, "verify", n->name,
				"a constant of %zu bytes; the limit "
				"is %u",
				n->data.n, STX__MAX_CONST_BYTES);
	return 0;
}

/* w: a copy of the graph's head with a scratch arena, so that inference leaves the graph alone. */
static stx_err check_node(struct stx_graph *w, const struct stx_node *n, struct stx_diag *d)
{
	stx_err e =
		n->is_in_place ? bad(n, d, "an operator in place is left") : check_args(w, n, d);
	for (uint32_t i = 0; !e && i < n->nouts; i++)
		e = stx__check_type(w, n->name, &n->outs[i], d);
	if (e)
		return e;
	if (stx_op_info(n->op)->category == STX_CAT_INPUT)
		return check_source(w, n, d);
	struct stx_node again = *n;
	again.outs = NULL;
	again.nouts = 0;
	e = stx_infer_node(w, &again, d);
	if (e)
		return e;
	if (again.nouts != n->nouts)
		return bad(n, d, "the number of results differs from what inference gives");
	for (uint32_t i = 0; i < n->nouts; i++)
		if (!stx_type_eq(&again.outs[i], &n->outs[i]))
			return bad(n, d, "the recorded type differs from what inference gives");
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Random and effect nodes have distinct serials, other nodes none. */
static stx_err check_serials(const struct stx_graph *g, struct stx_arena *scratch,
			     struct stx_diag *d)
{
	STX_VEC(uint64_t) s = { 0 };
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		int ordered = (stx_op_info(n->op)->tags & (STX_TAG_RANDOM | STX_TAG_EFFECT)) != 0;
		if (ordered != (n->serial != 0))
			return bad(n, d,
				   ordered ? "a node with an effect needs a serial"
					   : "a node without effect has a serial");
		if (ordered && stx_push(scratch, &s, n->serial))
			return stx__over_budget("verify", "", d);
	}
	if (s.n)
		qsort(s.at, s.n, sizeof *s.at, by_value);
	for (uint32_t i = 1; i < s.n; i++)
		if (s.at[i] == s.at[i - 1])
			return stx_fail(d, STX_E_INVALID, "verify", "",
					"serial %" PRIu64 " is used twice", s.at[i]);
	return 0;
}

/* Names are unique: each is entered in the graph's table as this very node's. Passes that replace
 * nodes keep the table. */
static stx_err check_name(const struct stx_graph *g, const struct stx_node *n, struct stx_diag *d)
{
	size_t len = n->name ? strlen(n->name) : 0;
	if (!stx__name_is_valid(n->name, len) || stx__name_is_reserved(n->name, len))
		return bad(n, d, "the node's name is not a valid one");
	if (stx__name_find(g, n->name, len) != n)
		return bad(n, d, "the node's name is not its own");
	return 0;
}

/* Output i is written into an input: one behind the last, of the value's type, no parameter. */
static stx_err check_write(const struct stx_graph *g, uint32_t i, struct stx_diag *d)
{
	const struct stx_output *o = &g->outputs.at[i];
	const struct stx_node *in;
	if (o->writes > g->inputs.n || (i && o->writes <= o[-1].writes))
		return stx_fail(d, STX_E_INVALID, "verify", "",
				"what is written into inputs is not in the order of the inputs");
	in = g->inputs.at[o->writes - 1].node;
	if (!stx_type_eq(stx_val_type(o->val), &in->outs[0]))
		return bad(in, d, "what is written into the input has another type");
	return in->is_param ? bad(in, d, "a parameter is written") : 0;
}

/* Output i is an input that holds the same value after the run. */
static stx_err check_within(const struct stx_graph *g, uint32_t i, struct stx_diag *d)
{
	const struct stx_output *o = &g->outputs.at[i], *to;
	uint32_t k = g->outputs.n;
	if (o->within <= g->inputs.n && !o->writes)
		k = stx_graph_written(g, o->within - 1);
	if (k == g->outputs.n)
		return stx_fail(d, STX_E_INVALID, "verify", "",
				"output %" PRIu32 " is in an input that is not written", i);
	to = &g->outputs.at[k];
	return to->val.node == o->val.node && to->val.out == o->val.out
		       ? 0
		       : stx_fail(d, STX_E_INVALID, "verify", "",
				  "output %" PRIu32 " is in an input that holds another value", i);
}

static stx_err check_ends(const struct stx_graph *g, struct stx_diag *d)
{
	uint32_t k = 0;
	stx_err e;
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		struct stx_node *n = g->nodes.at[i];
		if (n->op != STX_OP_PLACEHOLDER)
			continue;
		if (k >= g->inputs.n || g->inputs.at[k].node != n)
			return bad(n, d, "placeholders and inputs are not in the same order");
		k++;
	}
	if (k != g->inputs.n)
		return stx_fail(d, STX_E_INVALID, "verify", "", "an input has no placeholder");
	if (g->outputs.n == 0)
		return stx_fail(d, STX_E_INVALID, "verify", "", "the graph returns nothing");
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		struct stx_val v = g->outputs.at[i].val;
		if (!v.node || v.node->id >= g->nodes.n || g->nodes.at[v.node->id] != v.node ||
		    v.out >= v.node->nouts)
			return stx_fail(d, STX_E_INVALID, "verify", "",
					"output %" PRIu32 " is not a value of the graph", i);
		if (i && !g->outputs.at[i].writes && g->outputs.at[i - 1].writes)
			return stx_fail(d, STX_E_INVALID, "verify", "",
					"a result stands behind what is written into inputs");
		if (g->outputs.at[i].writes && (e = check_write(g, i, d)))
			return e;
	}
	for (uint32_t i = 0; i < g->outputs.n; i++)
		if (g->outputs.at[i].within && (e = check_within(g, i, d)))
			return e;
	return 0;
}

stx_err stx_graph_verify(struct stx_graph *g, struct stx_diag *d)
{
	struct stx_arena *scratch;
	struct stx_graph w = *g;
	stx_err e = 0;
	if (g->nodes.n > STX__MAX_NODES)
		return stx_fail(d, STX_E_TOO_LARGE, "verify", "", "%u nodes; the limit is %u",
				g->nodes.n, STX__MAX_NODES);
	scratch = stx__scratch_arena(g);
	if (!scratch)
		return stx_fail(d, STX_E_NOMEM, "verify", "", "out of memory");
	w.arena = scratch;
	for (uint32_t i = 0; !e && i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		if (n->id != i || (unsigned)n->op >= STX_OP_COUNT)
			e = bad(n, d, "the node's id or operator is not valid");
		e = e ? e : check_name(g, n, d);
		e = e ? e : check_node(&w, n, d);
	}
	e = e ? e : check_ends(g, d);
	e = e ? e : check_serials(g, scratch, d);
	stx_arena_free(scratch);
	return e;
}

stx_err stx_graph_verify_basis(struct stx_graph *g, struct stx_diag *d)
{
	stx_err e = stx_graph_verify(g, d);
	for (uint32_t i = 0; !e && i < g->nodes.n; i++) {
		const struct stx_op_info *info = stx_op_info(g->nodes.at[i]->op);
		if (!(info->tags & STX_TAG_BASIS))
			e = stx_fail(d, STX_E_UNSUPPORTED, "verify", g->nodes.at[i]->name,
				     "%s is outside the back end's basis", info->overload);
	}
	return e;
}

/* The number of the symbol that e is, or -1. */
static int64_t plain_symbol(const struct stx_graph *g, stx_ex e)
{
	if (stx_ex_nterms(g->ex, e) != 1 || stx_ex_constant(g->ex, e) != 0)
		return -1;
	struct stx_ex_term t = stx_ex_term_at(g->ex, e, 0);
	if (t.coeff != 1 || t.natoms != 1)
		return -1;
	struct stx_ex_atom a = stx_ex_atom_at(g->ex, t.atoms[0]);
	return a.kind == STX_ATOM_SYM && a.number < g->symbols.n ? (int64_t)a.number : -1;
}

static int is_unknown(struct stx_graph *g, stx_ex e, const stx_ex *known)
{
	if (!stx_ex_uses_kind(g->ex, e, STX_ATOM_SYM))
		return 0;
	e = stx_ex_subst_kind(g->ex, e, STX_ATOM_SYM, known, g->symbols.n);
	return e != STX_EX_BAD && stx_ex_uses_kind(g->ex, e, STX_ATOM_SYM);
}

stx_err stx_graph_verify_symbols(struct stx_graph *g, struct stx_diag *d)
{
	if (!g->symbols.n)
		return 0;
	stx_ex *known = STX_NEW_ARRAY(g->arena, stx_ex, g->symbols.n);
	if (!known)
		return stx__over_budget("verify", "", d);
	for (uint32_t i = 0; i < g->symbols.n; i++)
		known[i] = STX_EX_BAD;
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_type *t = &g->inputs.at[i].node->outs[0];
		for (uint32_t k = 0; k < t->rank; k++) {
			int64_t s = plain_symbol(g, t->sizes[k]);
			if (s >= 0)
				known[s] = stx_ex_const(g->ex, g->symbols.at[s].hint);
		}
	}
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_input *in = &g->inputs.at[i];
		const struct stx_type *t = &in->node->outs[0];
		for (uint32_t k = 0; k < t->rank; k++)
			if (is_unknown(g, t->sizes[k], known) ||
			    (in->strides && is_unknown(g, in->strides[k], known)))
				return stx_fail(
					d, STX_E_INVALID, "verify", in->node->name,
					"dimension %u depends on a size symbol that is by "
					"itself the size of no input: nobody would know its "
					"value",
					k);
	}
	return 0;
}
