/* graph_internal.h
 * internal to 1_graph: name table, operand walking, node lists; shared by construction and passes.
 */
#ifndef STX_GRAPH_INTERNAL_H
#define STX_GRAPH_INTERNAL_H

#include "bytes.h"
#include "graph.h"

#define STX__MAX_NODES       2000000u
#define STX__MAX_NAME        200 /* characters of a node or symbol name */
#define STX__MAX_CONST_BYTES (1u << 20)
#define STX__MAX_SIZE_WEIGHT 4096u /* atoms of a symbolic size, written out */
#define STX__MAX_ELEMS       ((int64_t)1 << 40)

/* ---- names (names.c) ---- */
/* Python builtins and keywords: such names always carry a numeric suffix (OG-07). */
int stx__name_is_reserved(const char *s, size_t n);
/* [A-Za-z_][A-Za-z0-9_]*, at most STX__MAX_NAME characters. */
int stx__name_is_valid(const char *s, size_t n);
/* Node of that name, or NULL. */
struct stx_node *stx__name_find(const struct stx_graph *g, const char *s, size_t n);
/* Enters a valid name that is free: the stored copy, or NULL (taken, or over budget: see the
 * arena). */
const char *stx__name_claim(struct stx_graph *g, const char *s, size_t n, struct stx_node *node);
/* A unique name from a candidate: bad characters become _, then the rule of OG-07. NULL over
 * budget. */
const char *stx__name_unique(struct stx_graph *g, const char *candidate, struct stx_node *node);

/* ---- nodes (graph.c) ---- */
/* Appends a finished node: sets its id, and a serial for random and effect ops unless it has one.
 */
stx_err stx__graph_append(struct stx_graph *g, struct stx_node *n, struct stx_diag *d);
/* The call of stx_graph_call. EXACT: the name is valid, not reserved and free, or NULL for one that
 * is made. IN_PLACE: stx_graph_call_in_place. */
enum { STX__EXACT = 1, STX__IN_PLACE = 2 };
struct stx_node *stx__graph_call_named(struct stx_graph *g, enum stx_op op, const char *name,
				       unsigned how, const struct stx_arg *args, uint32_t nargs,
				       struct stx_diag *d);
struct stx_node *stx__graph_input_named(struct stx_graph *g, const char *name, int exact,
					struct stx_type type, const stx_ex *strides, int is_param,
					struct stx_diag *d);
struct stx_node *stx__graph_constant_named(struct stx_graph *g, const char *name, int exact,
					   struct stx_type type, const void *data, size_t nbytes,
					   struct stx_diag *d);
/* Is v a value of g? */
static inline int stx__val_ok(const struct stx_graph *g, struct stx_val v)
{
	return v.node && v.node->id < g->nodes.n && g->nodes.at[v.node->id] == v.node &&
	       v.out < v.node->nouts;
}
/* Fills n->args from args by n->op's schema: defaults made explicit, kinds converted (args.c). */
stx_err stx__match_args(struct stx_graph *g, struct stx_node *n, const struct stx_arg *args,
			uint32_t nargs, struct stx_diag *d);
stx_err stx__over_budget(const char *stage, const char *name, struct stx_diag *d);
/* An arena for what a pass needs while it runs, with a budget in proportion to the graph's memory.
 * NULL when out of memory; freed by the caller. */
struct stx_arena *stx__scratch_arena(const struct stx_graph *g);
/* Sizes are sane: not negative, fewer than 2^40 elements (at the hints when symbolic). */
stx_err stx__check_type(struct stx_graph *g, const char *name, const struct stx_type *t,
			struct stx_diag *d);

/* Walks the tensor operands of n: zero-initialise the cursor; NULL at the end. Absent list entries
 * are skipped. The value may be changed in place: a node owns its lists. */
struct stx__cursor {
	uint32_t arg, item;
};
static inline struct stx_val *stx__next_operand(const struct stx_node *n, struct stx__cursor *c)
{
	while (c->arg < n->nargs) {
		struct stx_arg *a = &n->args[c->arg];
		if (a->kind == STX_ARG_TENSOR) {
			c->arg++;
			return &a->u.tensor;
		}
		if (a->kind == STX_ARG_TENSORS) {
			while (c->item < a->n) {
				struct stx_val *v = (struct stx_val *)&a->u.tensors[c->item++];
				if (v->node)
					return v;
			}
		}
		c->arg++;
		c->item = 0;
	}
	return NULL;
}

/* ---- replacing nodes (rewrite.c) ----
 * begin empties the graph's list; then, for i from 0 to n-1 in order: operands of old[i] are
 * brought up to date, nodes may be appended, and old[i] is kept or replaced by earlier or new
 * values; end updates the outputs. On an error in between the graph is lost. */
struct stx__rewrite {
	struct stx_graph *g;
	struct stx_node **old;
	uint32_t n;
	struct stx_val **repl; /* by old id */
};
stx_err stx__rewrite_begin(struct stx__rewrite *w, struct stx_graph *g, struct stx_diag *d);
void stx__rewrite_operands(const struct stx__rewrite *w, struct stx_node *n);
stx_err stx__rewrite_keep(struct stx__rewrite *w, struct stx_node *n, struct stx_diag *d);
void stx__rewrite_replace(struct stx__rewrite *w, uint32_t i, struct stx_val *results);
void stx__rewrite_end(struct stx__rewrite *w);

/* Removes nodes that neither an output, an input entry nor an effect needs, and renumbers ids.
 * Linear. */
stx_err stx__graph_sweep(struct stx_graph *g, struct stx_diag *d);

/* Start, end and step of a slice.Tensor node, bounds clamped to the dimension. */
stx_err stx__infer_slice(struct stx_graph *g, const struct stx_node *n, uint32_t *dim,
			 stx_ex *start, stx_ex *end, int64_t *step, struct stx_diag *d);
/* 1 when cat.default leaves this operand out: one dimension of size 0. */
int stx__infer_cat_skips(struct stx_graph *g, const struct stx_type *t);

/* Pieces of the text form. */
void stx__print_ex(const struct stx_graph *g, stx_ex e, struct stx_bytes *out);
/* One argument as in text form. */
void stx__print_arg(const struct stx_graph *g, const struct stx_arg *a, struct stx_bytes *out);
void stx__print_type(const struct stx_graph *g, const struct stx_type *t, struct stx_bytes *out);
void stx__print_float(double v, struct stx_bytes *out);

/* ---- value numbering (valnum.c) ---- */
struct stx__valnum;
struct stx__valnum *stx__valnum_new(struct stx_arena *a); /* NULL over budget */
/* The node entered earlier that computes the same, or n itself, now entered. NULL over budget. */
struct stx_node *stx__valnum_enter(struct stx__valnum *t, struct stx_node *n);

/* Arguments of n in their one normal spelling (canonical_args.c): dimensions counted from the front
 * and sorted where order does not matter, sizes and dtypes explicit, slices clamped. out has
 * n->nargs entries; lists go to g's arena. requires: n passed inference. */
stx_err stx__normal_args(struct stx_graph *g, const struct stx_node *n, struct stx_arg *out,
			 struct stx_diag *d);
/* 1 when operands 0 and 1 may be exchanged without changing a bit. */
int stx__commutes(const struct stx_node *n);

#endif
