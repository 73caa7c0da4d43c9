/* cudnn_attention.c: attention as a graph of cuDNN's backend API, which the library's fused engines
 * take whole.
 *
 * Source: NVIDIA's cuDNN 9 documentation of the fused attention pattern: product, scale, bias, mask
 * by numbers of rows and columns, maximum, difference, exponential, sum, quotient, product. Nothing
 * but the operands and the result is in memory; what is between is f32, but for the weights, which
 * the second product takes in its operands' type. */
#include <string.h>

#include "cudnn.h"

#define RANK      4
#define ALIGNMENT 16
#define MOST_OPS  16

struct building {
	const struct stx__cudnn *q;
	const struct stx__cudnn_attention *a;
	struct stx__cudnn_graph *g;
	void *op[MOST_OPS];
	int64_t nops, next_id;
	int e; /* the first status that is none of success */
};

static void keep(struct building *b, int status)
{
	if (!b->e)
		b->e = status;
}

/* A part; NULL when something has failed. */
static void *part(struct building *b, int type)
{
	void *d = NULL;
	if (!b->e)
		keep(b, stx__cudnn_part(b->q, b->g, type, &d));
	return b->e ? NULL : d;
}

static void set(struct building *b, void *d, int attribute, int type, int64_t n, const void *v)
{
	if (!b->e)
		keep(b, b->q->desc_set(d, attribute, type, n, v));
}

static void set_number(struct building *b, void *d, int attribute, int type, int v)
{
	set(b, d, attribute, type, 1, &v);
}

static void set_desc(struct building *b, void *d, int attribute, void *v)
{
	set(b, d, attribute, STX_CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v);
}

static void *done(struct building *b, void *d)
{
	if (!b->e)
		keep(b, b->q->desc_finalize(d));
	return d;
}

/* ---- tensors ---- */

enum place { IN_MEMORY, VIRTUAL, BY_VALUE };

static void *tensor(struct building *b, int type, const int64_t *size, const int64_t *stride,
		    enum place place, int64_t id)
{
	void *d = part(b, STX_CUDNN_BACKEND_TENSOR_DESCRIPTOR);
	int64_t aligned = place == IN_MEMORY ? b->a->alignment : ALIGNMENT;
	char yes = 1;
	set_number(b, d, STX_CUDNN_ATTR_TENSOR_DATA_TYPE, STX_CUDNN_TYPE_DATA_TYPE, type);
	set(b, d, STX_CUDNN_ATTR_TENSOR_DIMENSIONS, STX_CUDNN_TYPE_INT64, RANK, size);
	set(b, d, STX_CUDNN_ATTR_TENSOR_STRIDES, STX_CUDNN_TYPE_INT64, RANK, stride);
	set(b, d, STX_CUDNN_ATTR_TENSOR_UNIQUE_ID, STX_CUDNN_TYPE_INT64, 1, &id);
	set(b, d, STX_CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, STX_CUDNN_TYPE_INT64, 1, &aligned);
	if (place != IN_MEMORY)
		set(b, d,
		    place == VIRTUAL ? STX_CUDNN_ATTR_TENSOR_IS_VIRTUAL
				     : STX_CUDNN_ATTR_TENSOR_IS_BY_VALUE,
		    STX_CUDNN_TYPE_BOOLEAN, 1, &yes);
	return done(b, d);
}

/* What is between operations: [b, heads, queries, cols]. */
static void *between(struct building *b, int type, int64_t cols)
{
	const int64_t *q = b->a->q.size;
	const int64_t size[RANK] = { q[0], q[1], q[2], cols };
	const int64_t stride[RANK] = { q[1] * q[2] * cols, q[2] * cols, cols, 1 };
	return tensor(b, type, size, stride, VIRTUAL, b->next_id++);
}

static void *constant(struct building *b, int64_t id)
{
	static const int64_t one[RANK] = { 1, 1, 1, 1 };
	return tensor(b, STX_CUDNN_DATA_FLOAT, one, one, BY_VALUE, id);
}

static void *operand(struct building *b, const struct stx__cudnn_tensor *t, int64_t id)
{
	return tensor(b, b->a->type, t->size, t->stride, IN_MEMORY, id);
}

static int64_t keys(const struct building *b)
{
	return b->a->k.size[2];
}

/* ---- operations ---- */

static void add(struct building *b, void *op)
{
	done(b, op);
	if (!b->e)
		b->op[b->nops++] = op;
}

static void multiply(struct building *b, void *x, void *y, void *out)
{
	void *m = part(b, STX_CUDNN_BACKEND_MATMUL_DESCRIPTOR);
	set_number(b, m, STX_CUDNN_ATTR_MATMUL_COMP_TYPE, STX_CUDNN_TYPE_DATA_TYPE,
		   STX_CUDNN_DATA_FLOAT);
	done(b, m);
	void *op = part(b, STX_CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_MATMUL_ADESC, x);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_MATMUL_BDESC, y);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_MATMUL_CDESC, out);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
	add(b, op);
}

/* out = mode(x, y, t); NULL: it has fewer operands. axis: of an index; else -1. */
static void *pointwise(struct building *b, int mode, void *x, void *y, void *t, int64_t axis,
		       void *out)
{
	void *p = part(b, STX_CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
	set_number(b, p, STX_CUDNN_ATTR_POINTWISE_MODE, STX_CUDNN_TYPE_POINTWISE_MODE, mode);
	set_number(b, p, STX_CUDNN_ATTR_POINTWISE_MATH_PREC, STX_CUDNN_TYPE_DATA_TYPE,
		   mode == STX_CUDNN_POINTWISE_CMP_GE ? STX_CUDNN_DATA_BOOLEAN
						      : STX_CUDNN_DATA_FLOAT);
	if (axis >= 0)
		set(b, p, STX_CUDNN_ATTR_POINTWISE_AXIS, STX_CUDNN_TYPE_INT64, 1, &axis);
	done(b, p);
	void *op = part(b, STX_CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, p);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
	if (y)
		set_desc(b, op, STX_CUDNN_ATTR_OPERATION_POINTWISE_BDESC, y);
	if (t)
		set_desc(b, op, STX_CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_POINTWISE_YDESC, out);
	add(b, op);
	return out;
}

static void *reduce(struct building *b, int operator_, void *x)
{
	void *r = part(b, STX_CUDNN_BACKEND_REDUCTION_DESCRIPTOR), *out;
	set_number(b, r, STX_CUDNN_ATTR_REDUCTION_OPERATOR, STX_CUDNN_TYPE_REDUCTION_OPERATOR_TYPE,
		   operator_);
	set_number(b, r, STX_CUDNN_ATTR_REDUCTION_COMP_TYPE, STX_CUDNN_TYPE_DATA_TYPE,
		   STX_CUDNN_DATA_FLOAT);
	done(b, r);
	out = between(b, STX_CUDNN_DATA_FLOAT, 1);
	void *op = part(b, STX_CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
	set_desc(b, op, STX_CUDNN_ATTR_OPERATION_REDUCTION_YDESC, out);
	add(b, op);
	return out;
}

/* s where a query sees the key, else -infinity. */
static void *hide(struct building *b, void *s)
{
	int64_t n = keys(b);
	void *row = pointwise(b, STX_CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, 2,
			      between(b, STX_CUDNN_DATA_INT32, n));
	void *col = pointwise(b, STX_CUDNN_POINTWISE_GEN_INDEX, s, NULL, NULL, 3,
			      between(b, STX_CUDNN_DATA_INT32, n));
	void *seen = pointwise(b, STX_CUDNN_POINTWISE_CMP_GE, row, col, NULL, -1,
			       between(b, STX_CUDNN_DATA_BOOLEAN, n));
	return pointwise(b, STX_CUDNN_POINTWISE_BINARY_SELECT, s, constant(b, STX__CUDNN_NEVER),
			 seen, -1, between(b, STX_CUDNN_DATA_FLOAT, n));
}

static void *softmax(struct building *b, void *s)
{
	void *top = reduce(b, STX_CUDNN_REDUCE_TENSOR_MAX, s);
	void *d = pointwise(b, STX_CUDNN_POINTWISE_SUB, s, top, NULL, -1,
			    between(b, STX_CUDNN_DATA_FLOAT, keys(b)));
	void *w = pointwise(b, STX_CUDNN_POINTWISE_EXP, d, NULL, NULL, -1,
			    between(b, STX_CUDNN_DATA_FLOAT, keys(b)));
	void *sum = reduce(b, STX_CUDNN_REDUCE_TENSOR_ADD, w);
	/* The engines know the pattern by the logarithm of the sums too, which nothing reads. */
	void *log = pointwise(b, STX_CUDNN_POINTWISE_LOG, sum, NULL, NULL, -1,
			      between(b, STX_CUDNN_DATA_FLOAT, 1));
	pointwise(b, STX_CUDNN_POINTWISE_ADD, top, log, NULL, -1,
		  between(b, STX_CUDNN_DATA_FLOAT, 1));
	return pointwise(b, STX_CUDNN_POINTWISE_DIV, w, sum, NULL, -1,
			 between(b, b->a->type, keys(b)));
}

int stx__cudnn_attention_graph(const struct stx__cudnn *q, void *handle,
			       const struct stx__cudnn_attention *a, struct stx__cudnn_graph *out)
{
	struct building b = { .q = q, .a = a, .g = out, .next_id = STX__CUDNN_NEVER + 1 };
	struct stx__cudnn_tensor kt = a->k; /* the library's first product takes K' */
	memset(out, 0, sizeof *out);
	kt.size[2] = a->k.size[3];
	kt.size[3] = a->k.size[2];
	kt.stride[2] = a->k.stride[3];
	kt.stride[3] = a->k.stride[2];
	void *s = between(&b, STX_CUDNN_DATA_FLOAT, keys(&b));
	multiply(&b, operand(&b, &a->q, STX__CUDNN_Q), operand(&b, &kt, STX__CUDNN_K), s);
	s = pointwise(&b, STX_CUDNN_POINTWISE_MUL, s, constant(&b, STX__CUDNN_SCALE), NULL, -1,
		      between(&b, STX_CUDNN_DATA_FLOAT, keys(&b)));
	if (a->is_biased)
		s = pointwise(&b, STX_CUDNN_POINTWISE_ADD, s,
			      tensor(&b, a->bias_type, a->bias.size, a->bias.stride, IN_MEMORY,
				     STX__CUDNN_MASK),
			      NULL, -1, between(&b, STX_CUDNN_DATA_FLOAT, keys(&b)));
	if (a->is_causal)
		s = hide(&b, s);
	s = softmax(&b, s);
	multiply(&b, s, operand(&b, &a->v, STX__CUDNN_V), operand(&b, &a->y, STX__CUDNN_O));
	return b.e ? b.e : stx__cudnn_join(q, handle, out, b.op, b.nops);
}
