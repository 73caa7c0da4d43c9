/* functionalise.c
 * operators in place become functional ones (seed 000 5.1, 6.9; DF-03 to DF-05).
 *
 * Every value of the graph has a place: memory of its own (a root), or a view of another place, made
 * by one of the operators that share memory. A write into a place is a new value of its root, put
 * together by undoing the views one after the other (a slice by slice_scatter, a permutation by its
 * inverse); a later use of any other place of that root makes its views again, of the new value.
 * Linear in the nodes it leaves, of which the graph's limit bounds the number. */
#include <string.h>

#include "decompose.h"
#include "infer.h"
#include "passes.h"

struct place {
	uint32_t root, parent;       /* a root: itself */
	const struct stx_node *node; /* as written in the graph */
	const struct stx_node
		*view; /* result `out` of it, of the parent; NULL: the same elements */
	uint32_t out;
	struct stx_val now; /* its value after as_of writes of the root */
	uint32_t as_of;
	uint8_t is_dense; /* row-major in memory without gaps, for certain */
	/* of roots: */
	uint32_t writes;
	uint32_t input;                /* 1 + position of the input; 0: none */
	const struct stx_node *unsure; /* whether this node's result shares the memory, or where it
					  lies in it, is not known */
};

struct functional {
	struct stx_graph *g;
	struct stx__build b;
	struct place *at;
	uint32_t n;
	uint32_t *operands; /* places of all tensor operands, node after node */
	uint32_t *chain;    /* room for a way from a place to its root */
};

/* ---- the value of a place ---- */

static struct stx_val look_again(struct functional *f, const struct place *p, struct stx_val x)
{
	const struct stx_node *n = p->view;
	struct stx_arg *args;
	struct stx_node *made;
	if (!n || f->b.err)
		return x;
	args = stx_arena_copy(f->g->arena, n->args, n->nargs * sizeof *args);
	if (!args) {
		f->b.err = stx__over_budget("functionalise", n->name, f->b.d);
		return x;
	}
	args[0] = stx_arg_tensor(x);
	made = stx_graph_call(f->g, n->op, NULL, args, n->nargs, f->b.d);
	if (!made) {
		f->b.err = f->b.d->code;
		return x;
	}
	return stx_val(made, p->out);
}

static struct stx_val value_of(struct functional *f, uint32_t place)
{
	uint32_t writes = f->at[f->at[place].root].writes, n = 0;
	for (uint32_t p = place; f->at[p].as_of != writes; p = f->at[p].parent)
		f->chain[n++] = p;
	while (n-- > 0) {
		struct place *p = &f->at[f->chain[n]];
		p->now = look_again(f, p, f->at[p->parent].now);
		p->as_of = writes;
	}
	return f->at[place].now;
}

/* ---- writing ---- */

static struct stx_val permute_back(struct functional *f, const struct stx_node *view,
				   struct stx_val v)
{
	int64_t dims[STX_MAX_DIMS] = { 0 };
	uint32_t rank = view->outs[0].rank, dim = 0;
	for (uint32_t i = 0; i < rank; i++) {
		if (stx__infer_dim(f->g, view, view->args[1].u.exs[i], rank, &dim, f->b.d))
			f->b.err = f->b.d->code;
		dims[dim] = i;
	}
	struct stx_arg a[] = { stx_arg_tensor(v), stx_arg_ints(f->g, dims, rank) };
	return stx__b_call(&f->b, STX_OP_PERMUTE, 2, a);
}

/* x with part `out` of a split or unbind replaced. */
static struct stx_val put_part(struct functional *f, const struct stx_node *view, uint32_t out,
			       struct stx_val x, struct stx_val v)
{
	uint32_t dim = 0;
	int64_t at = 0, size = 0;
	if (stx__infer_dim(f->g, view, view->args[view->nargs - 1].u.ex, stx_val_type(x)->rank,
			   &dim, f->b.d))
		f->b.err = f->b.d->code;
	for (uint32_t i = 0; i <= out && view->op != STX_OP_UNBIND && !f->b.err; i++) {
		at += size;
		if (!stx_ex_is_const(f->g->ex, view->outs[i].sizes[dim], &size))
			stx__b_fail(&f->b, STX_E_UNSUPPORTED, "a part of symbolic size is written");
	}
	struct stx_arg one[] = { stx_arg_tensor(x), stx_arg_tensor(v), stx_arg_int(f->g, dim),
				 stx_arg_int(f->g, out) };
	struct stx_arg part[] = { stx_arg_tensor(x), stx_arg_tensor(v), stx_arg_int(f->g, dim),
				  stx_arg_int(f->g, at), stx_arg_int(f->g, at + size) };
	return view->op == STX_OP_UNBIND ? stx__b_call(&f->b, STX_OP_SELECT_SCATTER, 4, one)
					 : stx__b_call(&f->b, STX_OP_SLICE_SCATTER, 5, part);
}

/* x after v was written into the view p of it. */
static struct stx_val undo(struct functional *f, const struct place *p, struct stx_val x,
			   struct stx_val v)
{
	const struct stx_node *view = p->view;
	const struct stx_type *t = stx_val_type(x);
	struct stx_arg a[STX_MAX_DIMS] = { stx_arg_tensor(v) };
	enum stx_op scatter = STX_OP_SLICE_SCATTER;
	switch (view->op) {
	case STX_OP_VIEW:
	case STX_OP_RESHAPE:
	case STX_OP_FLATTEN:
	case STX_OP_SQUEEZE:
	case STX_OP_SQUEEZE_DIM:
	case STX_OP_SQUEEZE_ALL:
	case STX_OP_UNSQUEEZE: return stx__b_view(&f->b, v, t->rank, t->sizes);
	case STX_OP_ALIAS:
	case STX_OP_DETACH: return v;
	case STX_OP_PERMUTE: return permute_back(f, view, v);
	case STX_OP_T: return stx__b_one(&f->b, STX_OP_T, v);
	case STX_OP_TRANSPOSE:
		a[1] = view->args[1];
		a[2] = view->args[2];
		return stx__b_call(&f->b, STX_OP_TRANSPOSE, 3, a);
	case STX_OP_VIEW_DTYPE:
		a[1] = stx_arg_dtype(t->dtype);
		return stx__b_call(&f->b, STX_OP_VIEW_DTYPE, 2, a);
	case STX_OP_EXPAND:
		if (!stx_type_eq(t, stx_val_type(v)))
			stx__b_fail(&f->b, STX_E_INVALID,
				    "written through an expand: several elements are one in "
				    "memory; clone it first");
		return v;
	case STX_OP_SPLIT:
	case STX_OP_SPLIT_SIZES:
	case STX_OP_UNBIND: return put_part(f, view, p->out, x, v);
	case STX_OP_SELECT: scatter = STX_OP_SELECT_SCATTER; break;
	case STX_OP_DIAGONAL: scatter = STX_OP_DIAGONAL_SCATTER; break;
	case STX_OP_SLICE: break;
	default:
		stx__b_fail(&f->b, STX_E_UNSUPPORTED,
			    "written through an unfold or as_strided: write through slice, "
			    "select or diagonal, or use index_put_");
		return v;
	}
	a[0] = stx_arg_tensor(x);
	a[1] = stx_arg_tensor(v);
	for (uint32_t i = 1; i < view->nargs; i++)
		a[i + 1] = view->args[i];
	return stx__b_call(&f->b, scatter, view->nargs + 1, a);
}

/* 1 when two elements of an input may be one in memory: a dimension's stride must reach past
 * everything that the dimensions of smaller strides span. */
static int may_overlap(const struct stx_graph *g, const struct stx_input *in)
{
	const struct stx_type *t = &in->node->outs[0];
	int64_t size[STX_MAX_DIMS], stride[STX_MAX_DIMS], span = 0;
	uint32_t n = 0;
	for (uint32_t i = 0; in->strides && i < t->rank; i++) {
		uint32_t j = n;
		int64_t s, k;
		if (!stx_ex_is_const(g->ex, t->sizes[i], &s) ||
		    !stx_ex_is_const(g->ex, in->strides[i], &k))
			return 1;
		if (s == 0)
			return 0;
		if (s == 1)
			continue;
		for (; j > 0 && stride[j - 1] > k; j--) {
			stride[j] = stride[j - 1];
			size[j] = size[j - 1];
		}
		stride[j] = k;
		size[j] = s;
		n++;
	}
	for (uint32_t i = 0; i < n; i++) {
		if (stride[i] <= span)
			return 1;
		span += (size[i] - 1) * stride[i];
	}
	return 0;
}

static void check_root(struct functional *f, const struct place *root)
{
	const struct stx_node *n = root->node;
	if (n->op == STX_OP_CONSTANT)
		stx__b_fail(&f->b, STX_E_INVALID,
			    "a constant is written: its value would last beyond the call; make it "
			    "an input, or clone it");
	else if (n->is_param)
		stx__b_fail(&f->b, STX_E_INVALID,
			    "a parameter is written: it stays as it is between calls; make it an "
			    "ordinary input");
	else if (root->input && may_overlap(f->g, &f->g->inputs.at[root->input - 1]))
		stx__b_fail(&f->b, STX_E_INVALID,
			    "an input is written in which several elements may be one in memory");
	else if (root->unsure)
		stx__b_fail(&f->b, STX_E_UNSUPPORTED,
			    root->unsure->op == STX_OP_AS_STRIDED
				    ? "written while as_strided has a part of the same memory: use "
				      "slice, select or permute"
				    : "written while a reshape of the same memory is in use, which "
				      "may or may not be a copy: write view or clone instead");
}

static void write_place(struct functional *f, uint32_t place, struct stx_val v)
{
	uint32_t root = f->at[place].root;
	struct stx_val whole = v;
	check_root(f, &f->at[root]);
	for (uint32_t p = place; p != root && !f->b.err; p = f->at[p].parent) {
		struct stx_val x = value_of(f, f->at[p].parent);
		if (f->at[p].view && !f->b.err)
			whole = undo(f, &f->at[p], x, whole);
	}
	f->at[root].writes++;
	f->at[root].now = whole;
	f->at[root].as_of = f->at[root].writes;
	f->at[place].now = v;
	f->at[place].as_of = f->at[root].writes;
}

/* ---- node after node ---- */

/* Is the view of a dense tensor dense? */
static int stays_dense(const struct functional *f, const struct stx_node *n)
{
	int64_t step = 1;
	switch (n->op) {
	case STX_OP_VIEW:
	case STX_OP_RESHAPE:
	case STX_OP_FLATTEN:
	case STX_OP_SQUEEZE:
	case STX_OP_SQUEEZE_DIM:
	case STX_OP_SQUEEZE_ALL:
	case STX_OP_UNSQUEEZE:
	case STX_OP_ALIAS:
	case STX_OP_DETACH: return 1;
	case STX_OP_SLICE:
		return stx_ex_is_const(f->g->ex, n->args[4].u.ex, &step) && step == 1 &&
		       stx_ex_equals(f->g->ex, n->args[1].u.ex, 0);
	case STX_OP_SELECT: return stx_ex_equals(f->g->ex, n->args[1].u.ex, 0);
	default: return 0;
	}
}

static void add_root(struct functional *f, const struct stx_node *n, uint32_t out, int is_dense,
		     uint32_t input)
{
	uint32_t i = f->n++;
	f->at[i] = (struct place){ .root = i,
				   .parent = i,
				   .node = n,
				   .now = stx_val((struct stx_node *)n, out),
				   .is_dense = is_dense != 0,
				   .input = input };
}

/* n is a view, or (view NULL) an operator in place whose result is its operand. */
static void add_part(struct functional *f, uint32_t of, const struct stx_node *n,
		     const struct stx_node *view, uint32_t out, struct stx_val now)
{
	struct place *parent = &f->at[of], *root = &f->at[parent->root];
	if (n->op == STX_OP_AS_STRIDED && root->writes && !parent->is_dense)
		stx__b_fail(&f->b, STX_E_UNSUPPORTED,
			    "as_strided of a tensor that was written and does not lie dense in "
			    "memory");
	if (view && (n->op == STX_OP_AS_STRIDED ||
		     ((n->op == STX_OP_RESHAPE || n->op == STX_OP_FLATTEN) && !parent->is_dense)))
		root->unsure = n;
	f->at[f->n++] =
		(struct place){ .root = parent->root,
				.parent = of,
				.node = n,
				.view = view,
				.out = out,
				.now = now,
				.as_of = root->writes,
				.is_dense = parent->is_dense && (!view || stays_dense(f, n)) };
}

/* The form in place as the functional one, its result in self's dtype. */
static struct stx_val functional_form(struct functional *f, struct stx_node *n)
{
	enum stx_dtype self = n->outs[0].dtype;
	n->is_in_place = 0;
	n->outs = NULL;
	n->nouts = 0;
	f->b.err = stx_infer_node(f->g, n, f->b.d);
	if (!f->b.err)
		f->b.err = stx__graph_append(f->g, n, f->b.d);
	return f->b.err ? stx_val(n, 0) : stx__b_cast(&f->b, stx_val(n, 0), self);
}

/* operands: n's own. input: counts placeholders. Number of operands. */
static uint32_t convert(struct functional *f, struct stx_node *n, const uint32_t *operands,
			uint32_t *input)
{
	struct stx__cursor c = { 0 };
	uint32_t k = 0;
	int is_dense = 1, is_placeholder = n->op == STX_OP_PLACEHOLDER;
	f->b.n = n;
	for (struct stx_val *v; (v = stx__next_operand(n, &c)); k++) {
		is_dense &= f->at[operands[k]].is_dense;
		*v = value_of(f, operands[k]);
	}
	if (n->is_in_place) {
		struct stx_val r = functional_form(f, n);
		if (!f->b.err)
			write_place(f, operands[0], r);
		add_part(f, operands[0], n, NULL, 0, r);
		return k;
	}
	if (!f->b.err)
		f->b.err = stx__graph_append(f->g, n, f->b.d);
	if (is_placeholder)
		is_dense = !f->g->inputs.at[(*input)++].strides;
	for (uint32_t i = 0; i < n->nouts; i++) {
		if (stx_op_info(n->op)->tags & STX_TAG_ALIASES)
			add_part(f, operands[0], n, n, i, stx_val(n, i));
		else
			add_root(f, n, i, is_dense, is_placeholder ? *input : 0);
	}
	return k;
}

/* Numbers all values, and notes the operands of every node: both are lost once nodes move. Returns
 * the places of the outputs, which follow. */
static uint32_t *number_values(struct functional *f, struct stx_arena *scratch)
{
	struct stx_graph *g = f->g;
	uint32_t *first = STX_NEW_ARRAY(scratch, uint32_t, g->nodes.n + 1u);
	uint32_t values = 0;
	size_t operands = 0, k = 0;
	if (!first)
		return NULL;
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		struct stx__cursor c = { 0 };
		first[i] = values;
		values += g->nodes.at[i]->nouts;
		while (stx__next_operand(g->nodes.at[i], &c))
			operands++;
	}
	f->at = STX_NEW_ARRAY(scratch, struct place, values + 1u);
	f->chain = STX_NEW_ARRAY(scratch, uint32_t, values + 1u);
	f->operands = STX_NEW_ARRAY(scratch, uint32_t, operands + g->outputs.n + 1u);
	if (!f->at || !f->chain || !f->operands)
		return NULL;
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		struct stx__cursor c = { 0 };
		for (struct stx_val *v; (v = stx__next_operand(g->nodes.at[i], &c));)
			f->operands[k++] = first[v->node->id] + v->out;
	}
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		struct stx_val v = g->outputs.at[i].val;
		f->operands[k + i] = first[v.node->id] + v.out;
	}
	return f->operands + k;
}

/* The written input that the place is all of, in its order: 1 + its position, 0: none. */
static uint32_t input_of(const struct functional *f, uint32_t place)
{
	const struct place *root = &f->at[f->at[place].root];
	for (; &f->at[place] != root; place = f->at[place].parent)
		if (f->at[place].view)
			return 0;
	return root->now.node != root->node ? root->input : 0;
}

/* The final values of outputs and of inputs that were written. */
static stx_err finish(struct functional *f, const uint32_t *outputs)
{
	struct stx_graph *g = f->g;
	stx_err e = 0;
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		g->outputs.at[i].val = value_of(f, outputs[i]);
		g->outputs.at[i].within = input_of(f, outputs[i]);
	}
	for (uint32_t p = 0; p < f->n && !f->b.err && !e; p++)
		if (f->at[p].input && f->at[p].now.node != f->at[p].node)
			e = stx_graph_write(g, f->at[p].now, f->at[p].input - 1, f->b.d);
	return f->b.err ? f->b.err : e;
}

static stx_err rewrite(struct functional *f, struct stx_arena *scratch)
{
	struct stx_graph *g = f->g;
	struct stx_node **old = g->nodes.at;
	uint32_t n = g->nodes.n, input = 0, k = 0;
	uint32_t *outputs = number_values(f, scratch);
	if (!outputs)
		return stx__over_budget("functionalise", "", f->b.d);
	memset(&g->nodes, 0, sizeof g->nodes);
	for (uint32_t i = 0; i < n && !f->b.err; i++)
		k += convert(f, old[i], f->operands + k, &input);
	return f->b.err ? f->b.err : finish(f, outputs);
}

stx_err stx_graph_functionalise(struct stx_graph *g, struct stx_diag *d)
{
	struct stx_diag own = { 0 };
	struct functional f = { .g = g, .b = { .g = g, .d = d ? d : &own } };
	uint32_t i = 0;
	while (i < g->nodes.n && !g->nodes.at[i]->is_in_place)
		i++;
	if (i == g->nodes.n)
		return 0;
	for (i = 0; i < g->outputs.n; i++)
		if (g->outputs.at[i].writes)
			return stx_fail(f.b.d, STX_E_INVALID, "functionalise", "",
					"the graph has operators in place and outputs written to "
					"inputs: use one of the two");
	struct stx_arena *scratch = stx__scratch_arena(g);
	if (!scratch)
		return stx_fail(f.b.d, STX_E_NOMEM, "functionalise", "", "out of memory");
	stx_err e = rewrite(&f, scratch);
	stx_arena_free(scratch);
	return e;
}
