/* picture_graph.c: a graph as boxes and edges.
 *
 * Constants, and parameters that one node reads, are lines in the boxes of their readers: a network
 * has hundreds of them, and the eye follows the data. */
#include <inttypes.h>

#include "graph_internal.h"
#include "picture.h"
#include "scalar.h"

struct draw {
	struct stx_graph *g;
	struct stx_picture *p;
	struct stx_arena *a;
	uint32_t *box;  /* [nodes.n] box + 1; 0: shown in its readers */
	uint32_t *seen; /* [nodes.n] id + 1 of the last node that has an edge from it */
	struct stx_bytes text;
};

static const char *take_text(struct draw *w)
{
	const char *s = stx_bytes_cstr(&w->text);
	stx_bytes_clear(&w->text);
	return s;
}

static enum stx_box_look look_of(const struct stx_node *n)
{
	switch (stx_op_info(n->op)->category) {
	case STX_CAT_INPUT:
		return n->op == STX_OP_CONSTANT || n->is_param ? STX_LOOK_CONSTANT : STX_LOOK_INPUT;
	case STX_CAT_POINTWISE: return STX_LOOK_POINTWISE;
	case STX_CAT_REDUCE:
	case STX_CAT_SCAN: return STX_LOOK_REDUCE;
	case STX_CAT_CONTRACT:
	case STX_CAT_WINDOW: return STX_LOOK_CONTRACT;
	case STX_CAT_VIEW:
	case STX_CAT_PIECEWISE: return STX_LOOK_VIEW;
	default: return STX_LOOK_OTHER;
	}
}

static void put_types(struct draw *w, const struct stx_node *n)
{
	for (uint32_t i = 0; i < n->nouts; i++) {
		stx_bytes_puts(&w->text, i ? ", " : "");
		stx__print_type(w->g, &n->outs[i], &w->text);
	}
}

/* Arguments other than tensors, as far as they are not the defaults. */
static void put_args(struct draw *w, const struct stx_node *n)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	struct stx_bytes one = { 0 };
	int any = 0;
	for (uint32_t i = 0; i < n->nargs; i++) {
		const struct stx_arg *a = &n->args[i];
		const struct stx_param *q = &info->params[i];
		if (a->kind == STX_ARG_TENSOR || a->kind == STX_ARG_TENSORS ||
		    a->kind == STX_ARG_NONE)
			continue;
		stx_bytes_clear(&one);
		stx__print_arg(w->g, a, &one);
		if (q->has_default && q->default_text &&
		    !strcmp(q->default_text, stx_bytes_cstr(&one)))
			continue;
		stx_bytes_puts(&w->text, any++ ? ", " : " (");
		if (q->is_kwarg)
			stx_bytes_printf(&w->text, "%s=", q->name);
		stx_bytes_puts(&w->text, stx_bytes_cstr(&one));
	}
	stx_bytes_puts(&w->text, any ? ")" : "");
	stx_bytes_free(&one);
}

/* The value of a constant of one element. */
static void put_value(struct draw *w, const struct stx_node *n)
{
	enum stx_dtype t = n->outs[0].dtype;
	if (n->op != STX_OP_CONSTANT || n->data.n != (size_t)stx_dtype_bytes(t))
		return;
	union stx_scalar v = stx_scalar_load(t, n->data.bytes);
	stx_bytes_puts(&w->text, " = ");
	if (stx_dtype_is_float(t))
		stx__print_float(v.f, &w->text);
	else if (stx_dtype_kind(t) == STX_KIND_INT)
		stx_bytes_printf(&w->text, "%" PRId64, v.i);
	else
		stx_bytes_printf(&w->text, "%" PRIu64, v.u);
}

/* One operand: an edge, or a line when it has no box. */
static int put_operand(struct draw *w, const struct stx_node *n, uint32_t box, struct stx_val v,
		       const char *param)
{
	uint32_t from = v.node->id;
	if (w->box[from]) {
		if (w->seen[from] == n->id + 1)
			return 0;
		w->seen[from] = n->id + 1;
		return stx_picture_edge(w->p, w->box[from] - 1, 0, box, 0, STX_PICTURE_PLAIN);
	}
	stx_bytes_printf(&w->text, "%s: %s ", param, v.node->name);
	stx__print_type(w->g, stx_val_type(v), &w->text);
	put_value(w, v.node);
	return stx_picture_line(w->p, box, STX_LINE_DIM, "%s", take_text(w));
}

static int put_operands(struct draw *w, const struct stx_node *n, uint32_t box)
{
	const struct stx_op_info *info = stx_op_info(n->op);
	for (uint32_t i = 0; i < n->nargs; i++) {
		const struct stx_arg *a = &n->args[i];
		const char *name = info->params[i].name;
		if (a->kind == STX_ARG_TENSOR && put_operand(w, n, box, a->u.tensor, name))
			return -1;
		for (uint32_t k = 0; a->kind == STX_ARG_TENSORS && k < a->n; k++)
			if (a->u.tensors[k].node && put_operand(w, n, box, a->u.tensors[k], name))
				return -1;
	}
	return 0;
}

static int put_node(struct draw *w, const struct stx_node *n)
{
	struct stx_picture *p = w->p;
	uint32_t box = p->boxes.n;
	const char *what = stx_op_info(n->op)->overload;
	if (n->op == STX_OP_PLACEHOLDER)
		what = n->is_param ? "parameter" : "input";
	w->box[n->id] = box + 1;
	if (stx_picture_box(p, n->name, NULL, look_of(n)) || stx_picture_part(p, box, 0))
		return -1;
	stx_bytes_puts(&w->text, what);
	put_args(w, n);
	if (stx_picture_line(p, box, STX_LINE_TITLE, "%s", take_text(w)) ||
	    stx_picture_line(p, box, STX_LINE_PLAIN, "%%%s", n->name))
		return -1;
	put_types(w, n);
	if (stx_picture_line(p, box, STX_LINE_PLAIN, "%s", take_text(w)) || put_operands(w, n, box))
		return -1;
	return n->origin ? stx_picture_line(p, box, STX_LINE_DIM, "%s", n->origin) : 0;
}

static int put_output(struct draw *w, uint32_t i)
{
	const struct stx_output *o = &w->g->outputs.at[i];
	struct stx_picture *p = w->p;
	uint32_t box = p->boxes.n, from = w->box[o->val.node->id];
	if (stx_picture_box(p, stx_arena_printf(w->a, "output %u", i), NULL, STX_LOOK_OUTPUT) ||
	    stx_picture_part(p, box, 0) ||
	    stx_picture_line(p, box, STX_LINE_TITLE, "output %u%s%s", i, o->name ? " " : "",
			     o->name ? o->name : ""))
		return -1;
	if (from)
		return stx_picture_edge(p, from - 1, 0, box, 0, STX_PICTURE_PLAIN);
	return stx_picture_line(p, box, STX_LINE_DIM, "%s", o->val.node->name);
}

stx_err stx_picture_of_graph(struct stx_graph *g, struct stx_picture *p, struct stx_diag *d)
{
	struct draw w = { .g = g, .p = p, .a = p->arena };
	int bad = 0;
	w.box = STX_NEW_ARRAY(w.a, uint32_t, g->nodes.n + 1);
	w.seen = STX_NEW_ARRAY(w.a, uint32_t, g->nodes.n + 1);
	p->title = stx_arena_printf(w.a, "graph of %u nodes, %u inputs, %u outputs", g->nodes.n,
				    g->inputs.n, g->outputs.n);
	const uint32_t *users = stx_graph_users(g, w.a);
	if (!w.box || !w.seen || !p->title || !users)
		bad = 1;
	for (uint32_t i = 0; !bad && i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		if (n->op == STX_OP_CONSTANT || (n->is_param && users[n->id] == 1))
			continue;
		bad = put_node(&w, n);
	}
	for (uint32_t i = 0; !bad && i < g->outputs.n; i++)
		bad = put_output(&w, i);
	bad = bad || w.text.oom;
	stx_bytes_free(&w.text);
	return bad ? stx_fail(d, STX_E_TOO_LARGE, "picture", NULL,
			      "the graph is too large for a picture")
		   : STX_E_OK;
}
