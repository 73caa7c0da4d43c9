/* convolution.h
 * convolutions that a library may make, as their buffer has them: shared by convolution.c,
 * transposed.c and channels.c only. */
#ifndef STX_CONVOLUTION_H
#define STX_CONVOLUTION_H

#include "product.h"

#define STX__CONV_RANK     (2 + STX_CONV_MAX_SPATIAL)
#define STX__CONV_MAX_SIZE ((int64_t)1 << 31) /* of a dimension or stride, elements */

struct stx__conv_tensor { /* [n, channels, spatial..] */
	int64_t size[STX__CONV_RANK], stride[STX__CONV_RANK], offset;
};

struct stx__conv_access { /* an operand's address and mask */
	const struct stx_binst *load;
	uint32_t mask;                      /* instruction; STX_NONE: none */
	int64_t at[STX_MAX_DIMS + 1], rest; /* address by variable */
};

/* Of a spatial dimension in x: step*o + dilation*tap + first; of a transposed one the quotient of
 * `dividend`, o - dilation*tap + first, by the step. */
struct stx__conv_position {
	int has_lower, has_upper, is_known;
	int64_t step, dilation, first, upper;
	stx_ex dividend;
};

struct stx__conv {
	const struct stx__finding *f;
	const struct stx_buffer *b;
	uint32_t k, nvars; /* spatial dimensions; variables */
	int64_t n, groups, m, c, out[STX_CONV_MAX_SPATIAL], tap[STX_CONV_MAX_SPATIAL];
	struct stx__conv_access x, w;
	struct stx__conv_position at[STX_CONV_MAX_SPATIAL];
	int is_transposed; /* w's first dimension is x's channels */
	int64_t step[STX_CONV_MAX_SPATIAL], dilation[STX_CONV_MAX_SPATIAL];
	int64_t before[STX_CONV_MAX_SPATIAL], after[STX_CONV_MAX_SPATIAL], in[STX_CONV_MAX_SPATIAL];
	struct stx__conv_tensor tx, tw, ty;
};

/* Variables: these, the spatial ones from STX__CONV_OUT on, the channel in a group, the taps. */
enum { STX__CONV_N, STX__CONV_GROUP, STX__CONV_CHANNEL, STX__CONV_OUT };
static inline uint32_t stx__conv_var_in(const struct stx__conv *c)
{
	return STX__CONV_OUT + c->k;
}

static inline uint32_t stx__conv_var_tap(const struct stx__conv *c)
{
	return STX__CONV_OUT + c->k + 1;
}

static inline int stx__conv_is_small(int64_t v)
{
	return v > -STX__CONV_MAX_SIZE && v < STX__CONV_MAX_SIZE;
}

/* ---- convolution.c ---- */

/* c->f and c->b are given: what c computes and where its operands lie; 0: it is no convolution that
 * the library has, or a transposed one. */
int stx__conv_read_forward(struct stx__conv *c);
/* Each condition that `mask` (STX_NONE: none) is the conjunction of; 0: read() did not know one. */
typedef int stx__conv_read_fn(void *ctx, struct stx__conv *c, const struct stx_body *body,
			      const struct stx_binst *in);
int stx__conv_read_mask(struct stx__conv *c, uint32_t mask, stx__conv_read_fn *read, void *ctx);
/* e = step*o + dilation*tap + first of dimension *dim, by coefficients that do not vanish; else
 * 0. */
int stx__conv_find_dimension(const struct stx__conv *c, stx_ex e, uint32_t *dim,
			     struct stx__conv_position *p);
/* e = sum of at[v] times variable v, plus rest, over nvars variables, all constants; else 0. */
int stx__conv_read_address(const struct stx__conv *c, stx_ex e, uint32_t nvars, int64_t *at,
			   int64_t *rest);
/* Stride of channels that are numbered by group and channel within it. 0: there is none. */
int64_t stx__conv_joined(const struct stx__conv *c, int64_t group, int64_t channel,
			 int64_t channels);

/* ---- transposed.c ---- */

/* Fills tx, tw, step, dilation, padding and is_transposed; 0: c is no transposed convolution that
 * the library has. */
int stx__conv_place_transposed(struct stx__conv *c);

#endif
