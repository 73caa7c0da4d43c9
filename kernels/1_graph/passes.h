/* passes.h
 * what is done to a graph before lowering: inference, verification, canonical form, digest,
 * simplification, decomposition, text. */
#ifndef STX_PASSES_H
#define STX_PASSES_H

#include "bytes.h"
#include "graph.h"
#include "hash.h"

/* Result dtype and shape of n from its arguments, through the op's shape rule (infer.c). */
stx_err stx_infer_node(struct stx_graph *g, struct stx_node *n, struct stx_diag *d);
/* Broadcast of shapes, right-aligned; mismatch is an error that names the dimension (LO-08). */
stx_err stx_infer_broadcast(struct stx_graph *g, const struct stx_type *const *types, uint32_t n,
			    struct stx_type *out, struct stx_diag *d);
/* Common type of two dtypes; STX_DTYPE_NONE when there is none (u64 with signed, mixed 8-bit
 * floats). */
enum stx_dtype stx_promote(enum stx_dtype a, enum stx_dtype b);
/* For POINTWISE nodes: the dtype operands are converted to before the primitive is applied (bool
 * for logical_*; where: of its two values). STX_DTYPE_NONE for other nodes. */
enum stx_dtype stx_infer_operand_dtype(const struct stx_node *n);

/* Checks a whole graph: topological order, arities and kinds, types as inference gives them, unique
 * names, limits (nodes, rank, element count, constant bytes). requires nothing; never changes g. */
stx_err stx_graph_verify(struct stx_graph *g, struct stx_diag *d);
/* Also: every node's op is tagged basis, and none mutates (OG-08). */
stx_err stx_graph_verify_basis(struct stx_graph *g, struct stx_diag *d);
/* Every size symbol of the inputs is by itself the size of some input's dimension, where a run
 * takes its value from. */
stx_err stx_graph_verify_symbols(struct stx_graph *g, struct stx_diag *d);

/* The text form, and its inverse. Printing is deterministic: same graph, same bytes (OG-07, OG-11).
 *   sym n = [2,4096] hint 64
 *   %primals_1 : f32[n,128] [num_users=1] = placeholder()
 *   %constant : f32[2] [num_users=1] = constant(hex='0000803f00000040')
 *   %add : f32[n,128] [num_users=1] = add.Tensor(%primals_1, %primals_1, alpha=1)
 *   %e : () [num_users=0] [serial=1] = _assert_async.msg(%c, 'text')
 *   return (%add,)
 * A placeholder may carry strides=[...], param=True and donated=True; a constant is the bytes of
 * its elements, in input text also a list of numbers. %x:1 is a node's second result; an output may
 * be followed by: as 'name', or by: to %primals_1, when the input holds it after the run.
 * add_.Tensor and its like write their result into their first operand. Floats are shortest
 * decimals with a point or exponent, inf, nan, nan(0x7ff8000000000001). Integer arguments and sizes
 * may be index expressions over the symbols; a symbol's upper end may be inf. In input text types of
 * calls, num_users and defaults are optional; what is given is checked. '#' starts a comment:
 * origins print as such. Errors carry line:column. Printing fails with NOMEM, or TOO_LARGE over
 * 256 MiB. */
stx_err stx_graph_print(const struct stx_graph *g, struct stx_bytes *out);
stx_err stx_graph_parse(struct stx_arena *a, const char *text, size_t n, struct stx_graph **out,
			struct stx_diag *d);

/* A new graph in canonical form: nodes in the order of an iterative depth-first walk from the
 * outputs (effects in serial order first), equal nodes merged (never random or effect ones), dead
 * nodes gone, canonical names (primals_k in input order; a dead input stays an input), view
 * arguments normalised (negative dims, explicit sizes). Equal graphs up to node names, order of
 * independent nodes and explicit defaults become identical. */
stx_err stx_graph_canonical(const struct stx_graph *g, struct stx_arena *a, struct stx_graph **out,
			    struct stx_diag *d);
/* SHA-256 over the printed form of a canonical graph without origins. */
stx_err stx_graph_digest(const struct stx_graph *canonical, struct stx_digest *out,
			 struct stx_diag *d);

/* Operators in place become their functional forms (DF-03, DF-05): a later use of what shared the
 * written memory uses a view of the new value, and an input that was written gets its final value as
 * an output that writes it. Class BIT (DF-04). requires: an imported graph. ensures: no node is in
 * place. Errors (INVALID, UNSUPPORTED): writes of constants and parameters, of memory in which
 * elements overlap, through a reshape that may or may not have copied, through as_strided. */
stx_err stx_graph_functionalise(struct stx_graph *g, struct stx_diag *d);

/* Rewrites, each returning a new graph or the same one changed in place; class BIT (SE-11, DF-07).
 */
stx_err stx_graph_decompose_to_basis(struct stx_graph **g, struct stx_diag *d); /* DF-01, DF-02 */
stx_err stx_graph_simplify(struct stx_graph **g, unsigned what, struct stx_diag *d);
/* What stx_graph_simplify does in its one walk (OP-01). */
enum stx_simplify {
	STX_SIMPLIFY_FOLD = 1,       /* nodes of constants become constants (OP-03) */
	STX_SIMPLIFY_IDENTITIES = 2, /* x*1, x/1, x-0, views of views (OP-04) */
	STX_SIMPLIFY_EQUAL = 4,      /* equal nodes become one (OP-07) */
	STX_SIMPLIFY_DEAD = 8,       /* what no output needs goes (OP-09) */
	STX_SIMPLIFY_STRICT = 15,    /* all of these, each of class BIT */
	/* `fast` only, not BIT: identities of the reals, x+0, x*0, x-x, x/x (OP-05, OP-06) */
	STX_SIMPLIFY_REALS = 16,
	STX_SIMPLIFY_FAST = 31
};
/* For CPU targets, class TOL: softmax weights of the scores of a product, times a value, become one
 * pass over the keys (attend.c). fast: weights that are rounded to f16 or bf16 too. */
stx_err stx_graph_attend(struct stx_graph *g, int fast, struct stx_diag *d);
stx_err stx_graph_decompose_to_primitives(struct stx_graph **g,
					  struct stx_diag *d); /* composites */

#endif
