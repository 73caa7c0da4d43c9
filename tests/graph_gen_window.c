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
	int exact;
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
		out[i] = q->exact ? 2 * xs[2 + i] : 1 + below(q, 9);
		factors[i] = q->exact ? 2 : (1 + below(q, 10)) * 0.375;
	}
	int by_size = below(q, 2);
	args[n++] =
		stx_arg_node(input(q, nearest ? gen_dtype(q->seed) : float_dtype(q), k + 2, xs));
	args[n++] = by_size ? stx_arg_ints(q->g, out, (uint32_t)k) : stx_arg_none();
	if (!nearest)
		args[n++] = stx_arg_bool(!q->exact && below(q, 2));
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

/* ---- windows of other kinds ---- */

static struct stx_arg list(struct gen *q, int k, const int64_t *v)
{
	return stx_arg_ints(q->g, v, (uint32_t)k);
}

struct slide { /* drawn so that a window fits in[] elements */
	int64_t in[3], kernel[3], dilation[3], padding[3], stride[3], windows[3];
};

static void draw_slide(struct gen *q, int k, int dilated, struct slide *s)
{
	for (int i = 0; i < k; i++) {
		s->kernel[i] = 1 + below(q, 3);
		s->dilation[i] = dilated ? 1 + below(q, 2) : 1;
		s->padding[i] = below(q, (int)s->kernel[i] / 2 + 1);
		s->stride[i] = 1 + below(q, 3);
		s->in[i] = s->dilation[i] * (s->kernel[i] - 1) + 1 + below(q, 4);
		s->windows[i] =
			(s->in[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) /
				s->stride[i] +
			1;
	}
}

static struct stx_node *fold(struct gen *q)
{
	int k = q->op == STX_OP_FOLD ? 1 + below(q, 3) : 2, lead = 1 + below(q, 2), rank = lead;
	int64_t xs[8] = { 1 + below(q, 2), 1 + below(q, 2) };
	enum stx_dtype t = gen_dtype(q->seed);
	struct slide s;
	draw_slide(q, k, 1, &s);
	for (int i = 0; i < k; i++) {
		xs[lead + i] = s.kernel[i];
		xs[lead + k + i] = s.windows[i];
	}
	rank += 2 * k;
	if (q->op == STX_OP_COL2IM) {
		xs[lead - 1] *= s.kernel[0] * s.kernel[1];
		xs[lead] = s.windows[0] * s.windows[1];
		rank = lead + 1;
	} else if (q->op == STX_OP_IM2COL) {
		xs[lead] = s.in[0];
		xs[lead + 1] = s.in[1];
		rank = lead + 2;
	}
	struct stx_arg args[6];
	int n = 0;
	args[n++] = stx_arg_node(input(q, t, rank, xs));
	if (q->op != STX_OP_IM2COL)
		args[n++] = list(q, k, s.in);
	args[n++] = list(q, k, s.kernel);
	args[n++] = list(q, k, s.dilation);
	args[n++] = list(q, k, s.padding);
	args[n++] = list(q, k, s.stride);
	return call(q, args);
}

static struct stx_node *adaptive(struct gen *q)
{
	int k = spatial(q), lead = 1 + below(q, 2), max = strstr(q->info->base, "max") != NULL,
	    backward = strstr(q->info->base, "backward") != NULL;
	int64_t xs[5] = { 1 + below(q, 2), below(q, 3) }, gs[5], *out = gs + lead;
	enum stx_dtype t = max ? gen_dtype(q->seed) : float_dtype(q);
	memcpy(gs, xs, sizeof gs);
	for (int i = 0; i < k; i++) {
		xs[lead + i] = q->exact ? 1 << below(q, 3) : 1 + below(q, 7);
		out[i] = q->exact ? 1 + below(q, 2) : 1 + below(q, 6);
	}
	struct stx_arg args[2];
	if (backward)
		args[0] = stx_arg_node(input(q, t, lead + k, gs));
	args[backward] = stx_arg_node(input(q, t, lead + k, xs));
	if (!backward)
		args[1] = list(q, k, out);
	return call(q, args);
}

static struct stx_node *pool_backward(struct gen *q)
{
	int k = spatial(q), max = strstr(q->info->base, "max") != NULL, lead = 1 + below(q, 2);
	int64_t xs[5] = { 1 + below(q, 2), 1 + below(q, 2) }, gs[5];
	enum stx_dtype t = float_dtype(q);
	struct slide s;
	draw_slide(q, k, max, &s);
	memcpy(gs, xs, sizeof gs);
	memcpy(xs + lead, s.in, (size_t)k * sizeof *xs);
	memcpy(gs + lead, s.windows, (size_t)k * sizeof *gs);
	struct stx_node *x = input(q, t, lead + k, xs);
	struct stx_arg args[8] = { stx_arg_node(input(q, t, lead + k, gs)), stx_arg_node(x),
				   list(q, k, s.kernel), list(q, k, s.stride),
				   list(q, k, s.padding) };
	if (!max) {
		args[5] = stx_arg_bool(0);
		args[6] = stx_arg_bool(below(q, 2));
		args[7] = q->exact      ? stx_arg_int(q->g, 4)
			  : below(q, 3) ? stx_arg_none()
					: stx_arg_int(q->g, 1 + below(q, 4));
		return call(q, args);
	}
	args[5] = list(q, k, s.dilation);
	args[6] = stx_arg_bool(0);
	struct stx_arg forward[] = { stx_arg_node(x), args[2], args[3], args[4], args[5] };
	struct stx_node *y = stx_graph_call(q->g, k == 2 ? STX_OP_MAX_POOL2D : STX_OP_MAX_POOL3D,
					    NULL, forward, 5, NULL);
	if (!y)
		return NULL;
	args[7] = stx_arg_tensor(stx_val(y, 1));
	return call(q, args);
}

static struct stx_node *conv_backward(struct gen *q)
{
	int k = 1 + below(q, 3), transposed = below(q, 2);
	int64_t groups = 1 + below(q, 2), per = 1 + below(q, 2), xs[5], ws[5], gs[5], extra[3];
	enum stx_dtype t = float_dtype(q);
	struct slide s;
	draw_slide(q, k, 1, &s);
	xs[0] = gs[0] = 1 + below(q, 2);
	xs[1] = groups * per;
	ws[0] = transposed ? xs[1] : groups * (1 + below(q, 2));
	ws[1] = transposed ? 1 + below(q, 2) : per;
	gs[1] = transposed ? ws[1] * groups : ws[0];
	for (int i = 0; i < k; i++) {
		int64_t most = s.stride[i] > s.dilation[i] ? s.stride[i] : s.dilation[i];
		extra[i] = transposed ? below(q, (int)most) : 0;
		xs[2 + i] = transposed ? s.windows[i] : s.in[i];
		ws[2 + i] = s.kernel[i];
		gs[2 + i] = transposed ? (xs[2 + i] - 1) * s.stride[i] - 2 * s.padding[i] +
						 s.dilation[i] * (s.kernel[i] - 1) + 1 + extra[i]
				       : s.windows[i];
		if (gs[2 + i] < 0)
			return NULL;
	}
	struct stx_arg args[11] = { stx_arg_node(input(q, t, k + 2, gs)),
				    stx_arg_node(input(q, t, k + 2, xs)),
				    stx_arg_node(input(q, t, k + 2, ws)),
				    below(q, 2) ? list(q, 1, gs + 1) : stx_arg_none(),
				    list(q, k, s.stride),
				    list(q, k, s.padding),
				    list(q, k, s.dilation),
				    stx_arg_bool(transposed),
				    list(q, k, extra),
				    stx_arg_int(q->g, groups),
				    stx_arg_bools((uint64_t)(below(q, 4) ? 7 : below(q, 8)), 3) };
	return call(q, args);
}

/* The grid is brought near [-1, 1], where the input lies. */
static struct stx_node *grid_sampler(struct gen *q)
{
	int k = spatial(q), mode = below(q, k == 2 && !q->exact ? 3 : 2);
	int64_t xs[5] = { 1 + below(q, 2), 1 + below(q, 2) }, gs[5] = { xs[0] };
	enum stx_dtype t = float_dtype(q);
	for (int i = 0; i < k; i++) {
		xs[2 + i] = 1 + below(q, 5);
		gs[1 + i] = 1 + below(q, 4);
	}
	gs[k + 1] = k;
	struct stx_node *grid = input(q, t, k + 2, gs);
	grid = stx_graph_call(q->g, STX_OP_MUL_SCALAR, NULL,
			      (struct stx_arg[]){ stx_arg_node(grid), stx_arg_scalar_f(0.3125) }, 2,
			      NULL);
	if (!grid)
		return NULL;
	struct stx_arg args[5] = {
		stx_arg_node(
			input(q, mode == 1 && below(q, 2) ? gen_dtype(q->seed) : t, k + 2, xs)),
		stx_arg_node(grid), stx_arg_int(q->g, mode), stx_arg_int(q->g, below(q, 3)),
		stx_arg_bool(below(q, 2))
	};
	return call(q, args);
}

/* Positions from -2 to a little behind the input's end. */
static struct stx_node *sample(struct gen *q)
{
	int k = 1 + below(q, 3), m = 1 + below(q, 3), mode = below(q, 3);
	int64_t xs[5] = { 1 + below(q, 2), 1 + below(q, 2) }, sizes[4], bits;
	enum stx_dtype t = float_dtype(q);
	struct stx_val at[3];
	for (int i = 0; i < k; i++)
		xs[2 + i] = 1 + below(q, 5);
	for (int i = 0; i < k; i++) {
		sizes[0] = i ? xs[0] : 1;
		bits = below(q, 8);
		for (int j = 1; j < m + 1; j++)
			sizes[j] = i == k - 1 || bits >> j & 1 ? 2 : 1;
		sizes[0] = i == k - 1 ? xs[0] : sizes[0];
		at[i] = stx_val(input(q, t, m + 1, sizes), 0);
	}
	struct stx_arg args[4] = {
		stx_arg_node(input(q, mode == 1 ? gen_dtype(q->seed) : float_dtype(q), k + 2, xs)),
		stx_arg_tensors(q->g, at, (uint32_t)k), stx_arg_int(q->g, mode),
		stx_arg_int(q->g, below(q, 2))
	};
	return call(q, args);
}

/* ---- by operator ---- */

typedef struct stx_node *gen_fn(struct gen *q);

static gen_fn *generator(enum stx_op op)
{
	const char *base = stx_op_info(op)->base;
	if (strstr(base, "adaptive"))
		return adaptive;
	if (strstr(base, "pool") && strstr(base, "backward"))
		return pool_backward;
	if (op == STX_OP_CONVOLUTION || strstr(base, "_pool"))
		return sliding;
	if (op == STX_OP_FOLD || op == STX_OP_COL2IM || op == STX_OP_IM2COL)
		return fold;
	if (op == STX_OP_CONVOLUTION_BACKWARD)
		return conv_backward;
	if (op == STX_OP_GRID_SAMPLER2D || op == STX_OP_GRID_SAMPLER3D)
		return grid_sampler;
	if (op == STX_OP_SAMPLE)
		return sample;
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

struct stx_node *gen_window(struct stx_graph *g, uint64_t *seed, enum stx_op op, int exact)
{
	struct gen q = { g, seed, stx_op_info(op), op, exact };
	return generator(op)(&q);
}
