/* property_draw_resample.c: calls of padding, resampling, sampling, adaptive pooling, folding and
 * gradients of windows, with operands that fit each other. */
#include <string.h>

#include "property_draw.h"

static int has(enum stx_op op, const char *part)
{
	return strstr(stx_op_info(op)->base, part) != NULL;
}

/* The digit of the operator's name that counts its spatial dimensions. */
static uint32_t spatial(enum stx_op op)
{
	const char *d = strpbrk(stx_op_info(op)->base, "123");
	return d ? (uint32_t)(*d - '0') : 2;
}

/* Batch and channels, the first empty or 1 where the layout wanted says so, then k sizes. */
static void draw_sizes(struct draw *q, uint32_t lead, uint32_t k, int64_t *sizes)
{
	enum prop_layout l = q->want ? q->want->layout : PROP_DENSE;
	for (uint32_t i = 0; i < lead; i++)
		sizes[i] = 1 + rnd(q, 3);
	if (l == PROP_EMPTY || l == PROP_ONE)
		sizes[0] = l == PROP_ONE;
	for (uint32_t i = 0; i < k; i++)
		sizes[lead + i] =
			k == 1 && rnd(q, 3) == 0 && draw_size(q) > 0 ? draw_size(q) : 1 + rnd(q, 7);
	for (uint32_t i = 0; i < k; i++)
		sizes[lead + i] = sizes[lead + i] > 0 ? sizes[lead + i] : 1;
}

static struct stx_arg list(struct draw *q, uint32_t k, const int64_t *v)
{
	return stx_arg_ints(q->g, v, k);
}

/* ---- padding, resampling ---- */

static struct stx_node *pad_own(struct draw *q, enum stx_op op)
{
	uint32_t k = spatial(op), lead = 1 + rnd(q, 2);
	int64_t sizes[5], pads[6];
	draw_sizes(q, lead, k, sizes);
	for (uint32_t i = 0; i < 2 * k; i++)
		pads[i] = (int64_t)rnd(q, 4) - 1;
	struct stx_node *x =
		draw_sized(q, draw_wanted_dtype(q, draw_dtype(q)), sizes, (int)(lead + k));
	return x ? call(q, op, ARGS(T(x), list(q, 2 * k, pads))) : NULL;
}

static struct stx_node *upsample(struct draw *q, enum stx_op op)
{
	uint32_t k = spatial(op), n = 0, nearest = has(op, "nearest");
	int64_t sizes[5], out[3];
	double factors[3];
	struct stx_arg args[4];
	draw_sizes(q, 2, k, sizes);
	for (uint32_t i = 0; i < k; i++) {
		out[i] = 1 + rnd(q, k == 1 ? 40 : 9);
		factors[i] = (1 + rnd(q, 20)) * 0.19;
	}
	struct stx_node *x =
		draw_sized(q, draw_wanted_dtype(q, nearest ? draw_dtype(q) : draw_float_dtype(q)),
			   sizes, (int)k + 2);
	int by_size = rnd(q, 2) != 0;
	if (!x)
		return NULL;
	args[n++] = T(x);
	args[n++] = by_size ? list(q, k, out) : stx_arg_none();
	if (!nearest)
		args[n++] = stx_arg_bool((int)rnd(q, 2));
	args[n++] = by_size ? stx_arg_none() : stx_arg_floats(q->g, factors, k);
	return call(q, op, n, args);
}

static struct stx_node *resample(struct draw *q, enum stx_op op)
{
	enum stx_dtype t = draw_wanted_dtype(q, draw_dtype(q));
	uint32_t rank = 1 + rnd(q, 3), dim = rnd(q, rank);
	int64_t sizes[3], table[2] = { 1 + rnd(q, 6), 1 + rnd(q, 12) };
	draw_sizes(q, rank, 0, sizes);
	sizes[dim] += sizes[dim] == 0;
	struct stx_node *x = draw_sized(q, t, sizes, (int)rank);
	struct stx_node *index =
		x ? draw_input(q, rnd(q, 2) ? STX_I32 : STX_I64, table, 2, 0, 0) : NULL;
	struct stx_node *w =
		stx_dtype_is_float(t) && rnd(q, 2) ? draw_input(q, STX_F32, table, 2, 0, 0) : NULL;
	if (!index)
		return NULL;
	/* in [-1, size): whatever becomes of the input, the index stays in range */
	index = call(q, STX_OP_REMAINDER_SCALAR, ARGS(T(index), stx_arg_scalar_i(sizes[dim] + 1)));
	index = call(q, STX_OP_ADD_SCALAR, ARGS(T(index), stx_arg_scalar_i(-1)));
	return call(q, op, ARGS(T(x), I(dim), T(index), w ? T(w) : stx_arg_none()));
}

/* Positions of which most lie inside, some far outside. */
static struct stx_node *positions(struct draw *q, enum stx_dtype t, const int64_t *sizes, int rank,
				  double scale)
{
	struct stx_node *p = draw_input(q, t, sizes, rank, 0, 0);
	return p ? call(q, STX_OP_MUL_SCALAR, ARGS(T(p), stx_arg_scalar_f(scale))) : NULL;
}

static struct stx_node *sampler(struct draw *q, enum stx_op op)
{
	int own = op == STX_OP_SAMPLE;
	uint32_t k = own ? 1 + rnd(q, 3) : spatial(op), mode = rnd(q, k == 3 && !own ? 2 : 3);
	int64_t sizes[5], at[5];
	enum stx_dtype t = draw_wanted_dtype(q, mode == 1 ? draw_dtype(q) : draw_float_dtype(q)),
		       grid = draw_float_dtype(q);
	struct stx_val list3[3];
	draw_sizes(q, 2, k, sizes);
	struct stx_node *x = draw_sized(q, t, sizes, (int)k + 2);
	if (!x)
		return NULL;
	at[0] = sizes[0];
	for (uint32_t i = 0; i < k; i++)
		at[1 + i] = 1 + rnd(q, 4);
	at[k + 1] = k;
	if (!own) {
		struct stx_node *p = positions(q, grid, at, (int)k + 2, 1.25);
		return p ? call(q, op,
				ARGS(T(x), T(p), I(mode), I(rnd(q, 3)),
				     stx_arg_bool((int)rnd(q, 2))))
			 : NULL;
	}
	for (uint32_t i = 0; i < k; i++) {
		struct stx_node *p = positions(q, grid, at, 2, 3.75);
		if (!p)
			return NULL;
		list3[i] = stx_val(p, 0);
	}
	return call(q, op, ARGS(T(x), stx_arg_tensors(q->g, list3, k), I(mode), I(rnd(q, 2))));
}

/* ---- windows ---- */

struct slide { /* windows that fit in[] elements */
	int64_t in[3], kernel[3], dilation[3], padding[3], stride[3], windows[3];
};

static void draw_slide(struct draw *q, uint32_t k, int dilated, struct slide *s)
{
	for (uint32_t i = 0; i < k; i++) {
		s->kernel[i] = 1 + rnd(q, 3);
		s->dilation[i] = dilated ? 1 + rnd(q, 2) : 1;
		s->padding[i] = rnd(q, (uint32_t)s->kernel[i] / 2 + 1);
		s->stride[i] = 1 + rnd(q, 3);
		s->in[i] = s->dilation[i] * (s->kernel[i] - 1) + 1 + rnd(q, k == 1 ? 40 : 5);
		s->windows[i] =
			(s->in[i] + 2 * s->padding[i] - s->dilation[i] * (s->kernel[i] - 1) - 1) /
				s->stride[i] +
			1;
	}
}

static struct stx_node *fold(struct draw *q, enum stx_op op)
{
	uint32_t k = op == STX_OP_FOLD ? 1 + rnd(q, 3) : 2, lead = 1 + rnd(q, 2), n = 0;
	uint32_t rank = op == STX_OP_FOLD     ? lead + 2 * k
			: op == STX_OP_COL2IM ? lead + 1
					      : lead + 2;
	int64_t sizes[8];
	struct stx_arg args[6];
	struct slide s;
	draw_slide(q, k, 1, &s);
	draw_sizes(q, lead, 0, sizes);
	for (uint32_t i = 0; i < k && op == STX_OP_FOLD; i++) {
		sizes[lead + i] = s.kernel[i];
		sizes[lead + k + i] = s.windows[i];
	}
	if (op == STX_OP_COL2IM) {
		sizes[lead - 1] *= s.kernel[0] * s.kernel[1];
		sizes[lead] = s.windows[0] * s.windows[1];
	} else if (op == STX_OP_IM2COL) {
		memcpy(sizes + lead, s.in, 2 * sizeof *sizes);
	}
	struct stx_node *x = draw_sized(q, draw_wanted_dtype(q, draw_dtype(q)), sizes, (int)rank);
	if (!x)
		return NULL;
	args[n++] = T(x);
	if (op != STX_OP_IM2COL)
		args[n++] = list(q, k, s.in);
	args[n++] = list(q, k, s.kernel);
	args[n++] = list(q, k, s.dilation);
	args[n++] = list(q, k, s.padding);
	args[n++] = list(q, k, s.stride);
	return call(q, op, n, args);
}

static struct stx_node *adaptive(struct draw *q, enum stx_op op)
{
	uint32_t k = spatial(op), lead = 1 + rnd(q, 2);
	int64_t sizes[5], out[5], *o = out + lead;
	enum stx_dtype t =
		draw_wanted_dtype(q, has(op, "max") ? draw_dtype(q) : draw_float_dtype(q));
	draw_sizes(q, lead, k, sizes);
	memcpy(out, sizes, sizeof out);
	for (uint32_t i = 0; i < k; i++)
		o[i] = 1 + rnd(q, 6);
	if (has(op, "backward")) {
		struct stx_node *g = draw_sized(q, t, out, (int)(lead + k));
		struct stx_node *x = draw_sized(q, t, sizes, (int)(lead + k));
		return g && x ? call(q, op, ARGS(T(g), T(x))) : NULL;
	}
	struct stx_node *x = draw_sized(q, t, sizes, (int)(lead + k));
	return x ? call(q, op, ARGS(T(x), list(q, k, o))) : NULL;
}

static struct stx_node *pool_backward(struct draw *q, enum stx_op op)
{
	uint32_t k = spatial(op), lead = 1 + rnd(q, 2), max = has(op, "max");
	int64_t xs[5], gs[5];
	enum stx_dtype t = draw_wanted_dtype(q, draw_float_dtype(q));
	struct slide s;
	draw_slide(q, k, (int)max, &s);
	draw_sizes(q, lead, 0, xs);
	memcpy(gs, xs, sizeof gs);
	memcpy(xs + lead, s.in, k * sizeof *xs);
	memcpy(gs + lead, s.windows, k * sizeof *gs);
	struct stx_node *g = draw_sized(q, t, gs, (int)(lead + k)),
			*x = draw_sized(q, t, xs, (int)(lead + k));
	if (!g || !x)
		return NULL;
	struct stx_arg kernel = list(q, k, s.kernel), stride = list(q, k, s.stride),
		       padding = list(q, k, s.padding), dilation = list(q, k, s.dilation);
	if (!max)
		return call(q, op,
			    ARGS(T(g), T(x), kernel, stride, padding, stx_arg_bool(0),
				 stx_arg_bool((int)rnd(q, 2)),
				 rnd(q, 3) ? stx_arg_none() : I(1 + rnd(q, 4))));
	struct stx_node *y = call(q, k == 2 ? STX_OP_MAX_POOL2D : STX_OP_MAX_POOL3D,
				  ARGS(T(x), kernel, stride, padding, dilation));
	return y ? call(q, op,
			ARGS(T(g), T(x), kernel, stride, padding, dilation, stx_arg_bool(0),
			     stx_arg_tensor(stx_val(y, 1))))
		 : NULL;
}

/* The gradient of the input alone: a node of several inexact results is not cut. */
static struct stx_node *conv_backward(struct draw *q, enum stx_op op)
{
	uint32_t k = 1 + rnd(q, 3);
	int64_t groups = 1 + rnd(q, 2), per = 1 + rnd(q, 3), out = 1 + rnd(q, 3), xs[5], ws[5],
		gs[5];
	enum stx_dtype t = draw_wanted_dtype(q, draw_float_dtype(q));
	struct slide s;
	draw_slide(q, k, 1, &s);
	draw_sizes(q, 1, 0, xs);
	gs[0] = xs[0];
	xs[1] = groups * per;
	gs[1] = ws[0] = groups * out;
	ws[1] = per;
	for (uint32_t i = 0; i < k; i++) {
		xs[2 + i] = s.in[i];
		ws[2 + i] = s.kernel[i];
		gs[2 + i] = s.windows[i];
	}
	struct stx_node *g = draw_sized(q, t, gs, (int)k + 2),
			*x = draw_sized(q, t, xs, (int)k + 2),
			*w = draw_sized(q, t, ws, (int)k + 2);
	if (!g || !x || !w)
		return NULL;
	return call(q, op,
		    ARGS(T(g), T(x), T(w), stx_arg_none(), list(q, k, s.stride),
			 list(q, k, s.padding), list(q, k, s.dilation), stx_arg_bool(0),
			 stx_arg_ints(q->g, (int64_t[]){ 0 }, 1), I(groups), stx_arg_bools(1, 3)));
}

/* ---- by operator ---- */

typedef struct stx_node *draw_fn(struct draw *q, enum stx_op op);

static draw_fn *drawer(enum stx_op op)
{
	const char *base = stx_op_info(op)->base;
	if (op == STX_OP_FOLD || op == STX_OP_COL2IM || op == STX_OP_IM2COL)
		return fold;
	if (op == STX_OP_SAMPLE || has(op, "grid_sampler"))
		return sampler;
	if (op == STX_OP_RESAMPLE)
		return resample;
	if (op == STX_OP_CONVOLUTION_BACKWARD)
		return conv_backward;
	if (has(op, "adaptive"))
		return adaptive;
	if (has(op, "upsample"))
		return upsample;
	if (has(op, "pool") && has(op, "backward"))
		return pool_backward;
	return !strncmp(base, "reflection_pad", 14) || !strncmp(base, "replication_pad", 15)
		       ? pad_own
		       : NULL;
}

int draw_is_resampling(enum stx_op op)
{
	return drawer(op) != NULL;
}

struct stx_node *draw_resampling(struct draw *q, enum stx_op op)
{
	return drawer(op)(q, op);
}
