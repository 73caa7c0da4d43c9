/* channels.c: convolutions of halves that have few channels read copies with zeros beside them, as
 * many as the library's kernels of tensor cores load at once (issue 4, external calls).
 *
 *	xp[n, in.., channel] = x where there is such a channel, else 0
 *	wp[m, tap.., channel] = w likewise
 *
 * The library pads such operands itself, slowly, or loads single elements. A sum gets products of
 * zeros, so nothing else: exact. requires: as product.c. ensures: the buffer's own sum is over the
 * channels there are, so that its kernel is no slower; the call's over those that xp has
 * (convolution.c). One pass over the buffers. */
#include "convolution.h"
#include "dtype.h"
#include "sat.h"

#define FEW      4 /* channels: loads of 8 bytes */
#define MANY     8 /* of 16 */
#define MIN_WORK ((int64_t)1 << 22)

static int64_t wanted(int64_t channels)
{
	return channels < FEW ? FEW : MANY;
}

static int is_wanted(const struct stx__conv *c)
{
	int64_t work = stx_sat_mul(c->n, stx_sat_mul(c->m, c->c));
	for (uint32_t i = 0; i < c->k; i++)
		work = stx_sat_mul(work, stx_sat_mul(c->out[i], c->tap[i]));
	return c->groups == 1 && c->c > 1 && c->c < MANY && c->c != FEW && work >= MIN_WORK &&
	       stx_dtype_bytes((enum stx_dtype)c->x.load->dtype) == 2;
}

/* A dense copy of operand t, channels last; NULL: out of memory. */
static struct stx_buffer *copy(struct stx__inserting *in, const struct stx__conv *c,
			       const struct stx__conv_tensor *t, const struct stx_binst *load,
			       const char *what)
{
	struct stx_exprs *x = in->l->ex;
	struct stx_arena *a = in->l->g->arena;
	enum stx_dtype type = (enum stx_dtype)load->dtype;
	struct stx_buffer *b = stx__new_before(in, c->b, what, type, STX_REALIZED_CHANNELS);
	stx_ex *sizes = STX_NEW_ARRAY(a, stx_ex, STX__CONV_RANK);
	stx_ex at = stx_ex_const(x, t->offset);
	uint32_t last = 1 + c->k;
	if (!b || !sizes || !(b->body.at = STX_NEW_ARRAY(a, struct stx_binst, 6)))
		return NULL;
	for (uint32_t i = 0; i <= last; i++) { /* [n, spatial.., channel] */
		uint32_t d = i == 0 ? 0 : i == last ? 1 : i + 1;
		sizes[i] = stx_ex_const(x, d == 1 ? wanted(c->c) : t->size[d]);
		at = stx_ex_add(x, at, stx_ex_muli(x, stx_ex_var(x, i, sizes[i]), t->stride[d]));
	}
	struct stx_body *body = &b->body;
	uint32_t channel = stx__put(body, STX_B_INDEX, STX_I64, STX_NONE, STX_NONE, STX_NONE);
	body->at[channel].ex = stx_ex_var(x, last, sizes[last]);
	uint32_t end = stx__put_number(body, STX_I64, (union stx_scalar){ .i = c->c });
	uint32_t is_there = stx__put(body, STX_P_LT, STX_BOOL, channel, end, STX_NONE);
	uint32_t value = stx__put_load(body, load->a, type, at, is_there);
	uint32_t zero = stx__put_number(body, type, (union stx_scalar){ .f = 0 });
	body->result[0] = stx__put(body, STX_P_SELECT, type, is_there, value, zero);
	body->nresults = 1;
	return stx__dense_layout(in, b, sizes, last + 1) && at != STX_EX_BAD &&
			       !stx__order_body(in->l, body)
		       ? b
		       : NULL;
}

/* Where the copy has what `load` of c's buffer reads: spatial position i is pos[i]. */
static stx_ex address(const struct stx__conv *c, const struct stx_buffer *copy, uint32_t first,
		      const stx_ex *pos)
{
	struct stx_exprs *x = c->f->ex;
	stx_ex e =
		stx_ex_mul(x, stx_ex_var(x, first, c->b->ranges[first]), copy->layout.strides[0]);
	for (uint32_t i = 0; i < c->k; i++)
		e = stx_ex_add(x, e, stx_ex_mul(x, pos[i], copy->layout.strides[1 + i]));
	return stx_ex_add(x, e, stx_ex_var(x, stx__conv_var_in(c), c->b->rranges[0]));
}

static int pad(struct stx__inserting *in, const struct stx__conv *c)
{
	struct stx_exprs *x = in->l->ex;
	struct stx_buffer *b = in->l->buffers.at[c->b->id];
	struct stx_buffer *xp = copy(in, c, &c->tx, c->x.load, "channels");
	struct stx_buffer *wp = copy(in, c, &c->tw, c->w.load, "weights");
	struct stx_binst *at = STX_NEW_ARRAY(in->l->g->arena, struct stx_binst, b->body.n);
	stx_ex pos[STX_CONV_MAX_SPATIAL], tap[STX_CONV_MAX_SPATIAL];
	if (!xp || !wp || !at)
		return 0;
	for (uint32_t i = 0; i < c->k; i++) {
		stx_ex o = stx_ex_var(x, STX__CONV_OUT + i, b->ranges[STX__CONV_OUT + i]);
		tap[i] = stx_ex_var(x, stx__conv_var_tap(c) + i, b->rranges[1 + i]);
		pos[i] = stx_ex_add(x, stx_ex_muli(x, o, c->step[i]),
				    stx_ex_muli(x, tap[i], c->dilation[i]));
		pos[i] = stx_ex_addi(x, pos[i], -c->before[i]);
	}
	for (uint32_t i = 0; i < b->body.n; i++)
		at[i] = b->body.at[i];
	struct stx_binst *lx = &at[c->x.load - b->body.at], *lw = &at[c->w.load - b->body.at];
	lx->a = xp->id;
	lx->ex = address(c, xp, STX__CONV_N, pos);
	lw->a = wp->id;
	lw->ex = address(c, wp, STX__CONV_CHANNEL, tap);
	b->body.at = at;
	return lx->ex != STX_EX_BAD && lw->ex != STX_EX_BAD;
}

stx_err stx__pad_channels(struct stx_loops *l, struct stx_diag *d)
{
	struct stx__finding f = { .l = l, .ex = l->ex, .arena = l->g->arena };
	struct stx__inserting in = { .l = l };
	int ok = 1;
	for (uint32_t i = 0; i < l->buffers.n && ok; i++) {
		struct stx__conv c = { .f = &f, .b = l->buffers.at[i] };
		if (stx__conv_read_forward(&c) && is_wanted(&c))
			ok = pad(&in, &c);
	}
	if (ok && in.added.n)
		ok = !stx__insert(&in);
	return ok ? STX_E_OK
		  : stx_fail(d, STX_E_NOMEM, "schedule", NULL, "the memory budget is exceeded");
}
