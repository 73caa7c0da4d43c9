/* decompose_matmul.c: products of any rank as mm and bmm, by views. */
#include <string.h>

#include "decompose.h"
#include "infer.h"

#define ADD(x, y) stx__b_two(b, STX_OP_ADD, x, y)

static stx_ex product(struct stx__build *b, const struct stx_type *t, uint32_t from, uint32_t to)
{
	stx_ex p = stx_ex_const(b->g->ex, 1);
	for (uint32_t i = from; i < to; i++)
		p = stx_ex_mul(b->g->ex, p, t->sizes[i]);
	return p;
}

/* At most one operand has batch dimensions and it is the left one: they join the rows of one mm. */
static struct stx_val matmul_folded(struct stx__build *b, struct stx_val x, struct stx_val y)
{
	const struct stx_type *tx = stx_val_type(x), *ty = stx_val_type(y);
	stx_ex k = tx->sizes[tx->rank - 1];
	if (tx->rank != 2)
		x = stx__b_view(b, x, 2, (stx_ex[]){ product(b, tx, 0, tx->rank - 1u), k });
	if (ty->rank == 1)
		y = stx__b_view(b, y, 2, (stx_ex[]){ k, stx_ex_const(b->g->ex, 1) });
	return stx__b_two(b, STX_OP_MM, x, y);
}

/* Operand as [batch, rows, columns], batch sizes expanded to those of the result. */
static struct stx_val batched(struct stx__build *b, struct stx_val x, uint32_t nbatch,
			      const stx_ex *batch, int is_left)
{
	const struct stx_type *t = stx_val_type(x);
	stx_ex sizes[STX_MAX_DIMS], one = stx_ex_const(b->g->ex, 1);
	stx_ex rows = t->rank > 1 ? t->sizes[t->rank - 2] : is_left ? one : t->sizes[0];
	stx_ex cols = t->rank > 1 ? t->sizes[t->rank - 1] : is_left ? t->sizes[0] : one;
	struct stx_type bt = { .rank = (uint8_t)nbatch, .sizes = batch };
	if (t->rank == 1)
		x = stx__b_view(b, x, 2, (stx_ex[]){ rows, cols });
	memcpy(sizes, batch, nbatch * sizeof *sizes);
	sizes[nbatch] = rows;
	sizes[nbatch + 1] = cols;
	x = stx__b_expand(b, x, nbatch + 2, sizes);
	return nbatch == 1
		       ? x
		       : stx__b_view(b, x, 3, (stx_ex[]){ product(b, &bt, 0, nbatch), rows, cols });
}

int stx__rule_matmul(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__operand(n, 0), y = stx__operand(n, 1), z;
	uint32_t rx = stx_val_type(x)->rank, ry = stx_val_type(y)->rank;
	uint32_t nbatch = n->outs[0].rank - (rx > 1) - (ry > 1);
	if (ry <= 2) {
		z = matmul_folded(b, x, y);
		if (rx == 2 && ry == 2) {
			out[0] = z;
			return 0;
		}
	} else if (nbatch + 2 > STX_MAX_DIMS) {
		return stx__b_fail(b, STX_E_TOO_LARGE, "too many dimensions");
	} else {
		z = stx__b_two(b, STX_OP_BMM, batched(b, x, nbatch, n->outs[0].sizes, 1),
			       batched(b, y, nbatch, n->outs[0].sizes, 0));
	}
	out[0] = !b->err && stx_type_eq(stx_val_type(z), &n->outs[0])
			 ? z
			 : stx__b_view(b, z, n->outs[0].rank, n->outs[0].sizes);
	return 0;
}

/* beta*self + alpha*(mat1 @ mat2); self is not read when beta is 0. */
int stx__rule_addmm(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	const struct stx_arg *beta = stx__arg(n, 3), *alpha = stx__arg(n, 4);
	struct stx_val p;
	if (stx__number(alpha) ==
	    0) { /* as in BLAS: the product is not taken, so its infinities do not count */
		enum stx_dtype t = stx__wide(stx_val_type(stx__operand(n, 1))->dtype);
		struct stx_arg zero =
			stx_dtype_is_float(t) ? stx_arg_scalar_f(0) : stx_arg_scalar_i(0);
		p = stx__b_full(b, n->outs[0].rank, n->outs[0].sizes, zero, t);
	} else {
		p = stx__b_two(b, STX_OP_MM, stx__b_widened(b, n, 1), stx__b_widened(b, n, 2));
		if (stx__number(alpha) != 1)
			p = stx__b_number(b, STX_OP_MUL_SCALAR, p, *alpha);
	}
	if (stx__number(beta) != 0) {
		struct stx_val c = stx__b_widened(b, n, 0);
		if (stx__number(beta) != 1)
			c = stx__b_number(b, STX_OP_MUL_SCALAR, c, *beta);
		p = ADD(p, c);
	}
	out[0] = stx__b_rounded(b, n, p);
	return 0;
}

int stx__rule_linear(struct stx__build *b, const struct stx_node *n, struct stx_val *out)
{
	struct stx_val x = stx__operand(n, 0), w = stx__b_swap(b, stx__operand(n, 1), 0, 1), y;
	const struct stx_type *t = stx_val_type(x);
	if (t->rank != 2)
		x = stx__b_view(
			b, x, 2,
			(stx_ex[]){ product(b, t, 0, t->rank - 1u), t->sizes[t->rank - 1] });
	if (stx__arg(n, 2)->kind == STX_ARG_TENSOR) {
		struct stx_arg a[] = { *stx__arg(n, 2), stx_arg_tensor(x), stx_arg_tensor(w) };
		y = stx__b_call(b, STX_OP_ADDMM, 3, a);
	} else {
		y = stx__b_two(b, STX_OP_MM, x, w);
	}
	out[0] = t->rank == 2 ? y : stx__b_view(b, y, n->outs[0].rank, n->outs[0].sizes);
	return 0;
}
