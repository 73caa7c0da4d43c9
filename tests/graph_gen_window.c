/* graph_gen_window.c: calls of convolution, pooling, padding and resampling: operands and lists
 * that have a chance to fit each other. */
#include <stdlib.h>
#include <string.h>

#include "graph_gen_impl.h"

struct gen {
	struct stx_graph *g;
	uint64_t *seed;
	const struct stx_op_info *info;
	enum stx_op op;
};

static int below(struct gen *q, int n)
{
	return gen_pick(q->seed, n);
}

static struct stx_node *input(struct gen *q, enum stx_dtype t, int rank, const int64_t *sizes)
{
	struct stx_node *n =
		stx_graph_input(q->g, NULL, stx_type_make(q->g, t, rank, sizes), NULL, 0, NULL);
	if (!n)
		abort();
	return n;
}

static struct stx_node *call(struct gen *q, const struct stx_arg *args)
{
	return stx_graph_call(q->g, q->op, NULL, args, q->info->nparams, NULL);
}

static enum stx_dtype float_dtype(struct gen *q)
{
	static const enum stx_dtype floats[] = { STX_F32, STX_F32, STX_F64, STX_F16 };
	return floats[below(q, 4)];
}

/* The digit of the operator's name that counts its spatial dimensions. */
static int spatial(const struct gen *q)
{
	const char *d = strpbrk(q->info->base, "123");
	return d ? *d - '0' : 2;
}

/* ---- convolution, pooling ---- */

static struct stx_node *sliding(struct gen *q)
{
	int conv = q->op == STX_OP_CONVOLUTION, k = conv ? 1 + below(q, 3) : spatial(q),
	    transposed = below(q, 2);
	int64_t groups = 1 + below(q, 3), per = 1 + below(q, 2), xs[5], ws[5], v[3];
	enum stx_dtype t = gen_dtype(q->seed);
	struct stx_arg args[16];
	xs[0] = below(q, 3);
	xs[1] = groups * per;
	ws[0] = transposed ? xs[1] : groups * (1 + below(q, 2));
	ws[1] = transposed ? 1 + below(q, 2) : per;
	for (int i = 0; i < k; i++) {
		xs[2 + i] = 1 + below(q, 7);
		ws[2 + i] = 1 + below(q, 3);
	}
	int skip = !conv && below(q, 3) == 0; /* pooling without the batch dimension */
	struct stx_node *x = input(q, t, k + 2 - skip, xs + skip);
	for (uint32_t i = 0; i < q->info->nparams; i++) {
		const struct stx_param *p = &q->info->params[i];
		int least = strcmp(p->name, "padding") && strcmp(p->name, "output_padding");
		if (p->kind == STX_PARAM_TENSOR || p->kind == STX_PARAM_OPT_TENSOR)
			continue;
		args[i] = gen_arg(q->g, p, q->seed);
		if (p->kind == STX_PARAM_OPT_INT && args[i].kind == STX_ARG_INT)
			args[i] = stx_arg_int(q->g, 1 + below(q, 4));
		if (p->kind != STX_PARAM_INTS || args[i].kind == STX_ARG_DEFAULT)
			continue;
		for (int j = 0; j < k; j++)
			v[j] = least + below(q, 3);
		args[i] = stx_arg_ints(q->g, v, below(q, 4) ? (uint32_t)k : 1);
	}
	args[0] = stx_arg_node(x);
	if (conv) {
		int64_t out = transposed ? ws[1] * groups : ws[0];
		args[1] = stx_arg_node(input(q, t, k + 2, ws));
		args[2] = below(q, 3) ? stx_arg_node(input(q, t, 1, &out)) : stx_arg_none();
		args[6] = stx_arg_bool(transposed);
		args[8] = stx_arg_int(q->g, groups);
	}
	return call(q, args);
}

/* ---- padding, resampling ---- */

static struct stx_node *pad_own(struct gen *q)
{
	int k = spatial(q), skip = below(q, 2);
	int64_t xs[5] = { below(q, 3), 1 + below(q, 2) }, pads[6];
	for (int i = 0; i < k; i++)
		xs[2 + i] = 1 + below(q, 6);
	for (int i = 0; i < 2 * k; i++)
		pads[i] = below(q, 5) - 1;
	struct stx_arg args[2] = { stx_arg_node(
					   input(q, gen_dtype(q->seed), k + 2 - skip, xs + skip)),
				   stx_arg_ints(q->g, pads, (uint32_t)(2 * k)) };
	return call(q, args);
}

static struct stx_node *upsample(struct gen *q)
{
	int k = spatial(q), nearest = strstr(q->info->base, "nearest") != NULL;
	int64_t xs[5] = { below(q, 3), 1 + below(q, 2) }, out[3];
	double factors[3];
	struct stx_arg args[4];
	uint32_t n = 0;
	for (int i = 0; i < k; i++) {
		xs[2 + i] = 1 + below(q, 5);
		out[i] = 1 + below(q, 9);
		factors[i] = (1 + below(q, 10)) * 0.375;
	}
	int by_size = below(q, 2);
	args[n++] =
		stx_arg_node(input(q, nearest ? gen_dtype(q->seed) : float_dtype(q), k + 2, xs));
	args[n++] = by_size ? stx_arg_ints(q->g, out, (uint32_t)k) : stx_arg_none();
	if (!nearest)
		args[n++] = stx_arg_bool(below(q, 2));
	args[n++] = by_size ? stx_arg_none() : stx_arg_floats(q->g, factors, (uint32_t)k);
	return call(q, args);
}

static struct stx_node *resample(struct gen *q)
{
	int rank = 1 + below(q, 3), dim = below(q, rank), weighted = below(q, 2);
	int64_t xs[3], table[2] = { 1 + below(q, 6), 1 + below(q, 5) };
	int32_t index[30];
	for (int i = 0; i < rank; i++)
		xs[i] = 1 + below(q, 5);
	for (int i = 0; i < table[0] * table[1]; i++)
		index[i] = below(q, (int)xs[dim] + 1) - (below(q, 2) != 0);
	for (int i = 0; i < table[0] * table[1]; i++)
		index[i] = index[i] < xs[dim] ? index[i] : 0;
	struct stx_node *tab =
		stx_graph_constant(q->g, NULL, stx_type_make(q->g, STX_I32, 2, table), index,
				   (size_t)(table[0] * table[1] * 4), NULL);
	struct stx_arg args[4] = {
		stx_arg_node(input(q, weighted ? float_dtype(q) : gen_dtype(q->seed), rank, xs)),
		stx_arg_int(q->g, below(q, 2) ? dim : dim - rank), stx_arg_node(tab),
		weighted ? stx_arg_node(input(q, STX_F32, 2, table)) : stx_arg_none()
	};
	return call(q, args);
}

/* ---- by operator ---- */

typedef struct stx_node *gen_fn(struct gen *q);

static gen_fn *generator(enum stx_op op)
{
	const char *base = stx_op_info(op)->base;
	if (op == STX_OP_CONVOLUTION || strstr(base, "_pool"))
		return sliding;
	if (op == STX_OP_RESAMPLE)
		return resample;
	if (!strncmp(base, "refle", 5) || !strncmp(base, "repli", 5))
		return pad_own;
	return strstr(base, "upsample") ? upsample : NULL;
}

int gen_is_window(enum stx_op op)
{
	return generator(op) != NULL;
}

struct stx_node *gen_window(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	struct gen q = { g, seed, stx_op_info(op), op };
	return generator(op)(&q);
}
