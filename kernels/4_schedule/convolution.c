/* convolution.c: convolutions that a library may make instead of a kernel of ours (issue 4, external
 * calls).
 *
 * requires: as product.c. ensures: a product for each buffer that is a convolution as
 * 3_lower/rules_window.c writes it, [n, group, channel, out..] ++ [in channel, tap..], or its
 * transposed form, of static sizes and large enough for a call to pay. Stride, dilation and padding
 * are read off the masks and the addresses, so that slices, transposes and channels-last operands
 * are what they are in memory; where a position needs no mask, the stride of its dimension is the
 * largest of the operand's own that divides the steps. A half-precision sum that is kept in f32 is
 * none, but for one that is added to a bias and then rounded: no library offers other results. One
 * pass over a buffer's body. */
#include "convolution.h"
#include "dtype.h"
#include "sat.h"

#include <string.h>

#define MAX_SPATIAL   STX_CONV_MAX_SPATIAL
#define MAX_TERMS     64                 /* of a mask */
#define WORKSPACE_MIN ((int64_t)4 << 20) /* bytes */
#define WORKSPACE_MAX ((int64_t)512 << 20)
#define SPLITS_MAX    ((int64_t)32 << 20) /* bytes of partial results there is room for, at most */
#define SPLITS        8
#define CHANNELS      8 /* that layouts of tensor cores are padded to */

static const struct stx__call_kind convolution = {
	.name = STX_CALL_CONV,
	.alone = "a library may make the convolution",
	.nattrs = STX_CONV_NATTRS,
	.operand = { STX_CONV_X + STX_ARRAY_ARG, STX_CONV_W + STX_ARRAY_ARG },
	.result = STX_CONV_Y + STX_ARRAY_ARG,
	.bias = STX_CONV_BIAS,
};

/* ---- what is summed ---- */

static int is_zero(const struct stx_body *body, uint32_t i)
{
	return body->at[i].op == STX_B_CONST && body->at[i].k.u == 0;
}

/* Value i is a load, perhaps widened, perhaps 0 where its mask is false. */
static int find_access(const struct stx_body *body, uint32_t i, struct stx__conv_access *a)
{
	const struct stx_binst *in = &body->at[i];
	a->mask = STX_NONE;
	if (in->op == STX_P_CAST)
		in = &body->at[in->a];
	if (in->op == STX_P_SELECT) {
		if (!is_zero(body, in->c))
			return 0;
		a->mask = in->a;
		in = &body->at[in->b];
		if (in->op == STX_P_CAST)
			in = &body->at[in->a];
	}
	a->load = in;
	return in->op == STX_B_LOAD && in->c == a->mask;
}

static int is_type(enum stx_dtype from, enum stx_dtype acc)
{
	return acc == STX_F32 ? from == STX_F32 || from == STX_F16 || from == STX_BF16
			      : acc == STX_F64 && from == STX_F64;
}

static int find_accesses(struct stx__conv *c)
{
	const struct stx_buffer *b = c->b;
	const struct stx_body *body = &b->body;
	if (b->def != STX_DEF_REDUCTION || b->monoid != STX_MONOID_DOT || b->base || b->message ||
	    b->is_merge || b->rlimit != STX_EX_BAD || body->nresults != 2 ||
	    !find_access(body, body->result[0], &c->x) ||
	    !find_access(body, body->result[1], &c->w))
		return 0;
	return c->x.load->dtype == c->w.load->dtype &&
	       is_type((enum stx_dtype)c->x.load->dtype, b->acc) &&
	       body->at[body->result[0]].dtype == b->acc &&
	       body->at[body->result[1]].dtype == b->acc &&
	       (b->dtype == b->acc || b->dtype == (enum stx_dtype)c->x.load->dtype);
}

static int constants(const struct stx__conv *c, const stx_ex *e, uint32_t n, int64_t *out)
{
	for (uint32_t i = 0; i < n; i++)
		if (!stx_ex_is_const(c->f->ex, e[i], &out[i]) || out[i] < 1 ||
		    out[i] >= STX__CONV_MAX_SIZE)
			return 0;
	return 1;
}

static int find_sizes(struct stx__conv *c)
{
	const struct stx_buffer *b = c->b;
	int64_t lead[3], work;
	if (b->nrranges < 2 || b->nrranges > 1 + MAX_SPATIAL || b->nranges != b->nrranges + 2)
		return 0;
	c->k = b->nrranges - 1;
	c->nvars = b->nranges + b->nrranges;
	if (!constants(c, b->ranges, 3, lead) || !constants(c, b->ranges + 3, c->k, c->out) ||
	    !constants(c, b->rranges, 1, &c->c) || !constants(c, b->rranges + 1, c->k, c->tap))
		return 0;
	c->n = lead[0];
	c->groups = lead[1];
	c->m = lead[2];
	work = stx_sat_mul(stx_sat_mul(c->n, c->groups), stx_sat_mul(c->m, c->c));
	for (uint32_t i = 0; i < c->k; i++)
		work = stx_sat_mul(work, stx_sat_mul(c->out[i], c->tap[i]));
	return work >= STX__MIN_WORK;
}

/* ---- masks ---- */

/* e = step*o + dilation*tap + first of dimension *dim, by coefficients that do not vanish. */
int stx__conv_find_dimension(const struct stx__conv *c, stx_ex e, uint32_t *dim,
			     struct stx__conv_position *p)
{
	stx_ex at[STX_MAX_DIMS + 1], rest;
	int64_t v;
	int found = 0;
	if (!stx__affine(c->f, e, c->nvars, at, &rest) ||
	    !stx_ex_is_const(c->f->ex, rest, &p->first) || !stx__conv_is_small(p->first))
		return 0;
	p->step = p->dilation = 0;
	for (uint32_t i = 0; i < c->nvars; i++) {
		if (stx_ex_equals(c->f->ex, at[i], 0))
			continue;
		int is_tap = i >= stx__conv_var_tap(c);
		uint32_t d = is_tap ? i - stx__conv_var_tap(c) : i - STX__CONV_OUT;
		if (i < STX__CONV_OUT || i == stx__conv_var_in(c) || (found && d != *dim) ||
		    !stx_ex_is_const(c->f->ex, at[i], &v) || !stx__conv_is_small(v))
			return 0;
		*dim = d;
		*(is_tap ? &p->dilation : &p->step) = v;
		found = 1;
	}
	return found;
}

static int same_position(const struct stx__conv_position *p, const struct stx__conv_position *q)
{
	return p->step == q->step && p->dilation == q->dilation && p->first == q->first;
}

/* One condition of x's mask: 0 <= position, position < upper, position % step < 1. */
static int read_condition(void *ctx, struct stx__conv *c, const struct stx_body *body,
			  const struct stx_binst *in)
{
	const struct stx_binst *l = &body->at[in->a], *r = &body->at[in->b];
	struct stx__conv_position p = { 0 };
	uint32_t dim = 0;
	(void)ctx;
	if (l->op != STX_B_INDEX || r->op != STX_B_CONST ||
	    (in->op != STX_P_GE && in->op != STX_P_LT))
		return 0;
	if (!stx__conv_find_dimension(c, l->ex, &dim, &p))
		return 0;
	struct stx__conv_position *at = &c->at[dim];
	if (at->is_known && !same_position(at, &p))
		return 0;
	p.has_lower = at->has_lower;
	p.has_upper = at->has_upper;
	p.upper = at->upper;
	p.is_known = 1;
	if (in->op == STX_P_GE) {
		if (r->k.i != 0)
			return 0;
		p.has_lower = 1;
	} else {
		if (p.has_upper && p.upper != r->k.i)
			return 0;
		p.has_upper = 1;
		p.upper = r->k.i;
	}
	*at = p;
	return 1;
}

int stx__conv_read_mask(struct stx__conv *c, uint32_t mask, stx__conv_read_fn *read, void *ctx)
{
	const struct stx_body *body = &c->b->body;
	uint32_t todo[MAX_TERMS], n = 0;
	if (mask != STX_NONE)
		todo[n++] = mask;
	for (int seen = 0; n; seen++) {
		const struct stx_binst *in = &body->at[todo[--n]];
		if (seen == MAX_TERMS)
			return 0;
		if (in->op == STX_P_AND && in->dtype == STX_BOOL && n + 2 <= MAX_TERMS) {
			todo[n++] = in->a;
			todo[n++] = in->b;
		} else if (!read(ctx, c, body, in)) {
			return 0;
		}
	}
	return 1;
}

/* ---- addresses ---- */

int stx__conv_read_address(const struct stx__conv *c, stx_ex e, uint32_t nvars, int64_t *at,
			   int64_t *rest)
{
	stx_ex coeff[STX_MAX_DIMS + 1], r;
	if (nvars > STX_MAX_DIMS || !stx__affine(c->f, e, nvars, coeff, &r) ||
	    !stx_ex_is_const(c->f->ex, r, rest))
		return 0;
	for (uint32_t i = 0; i < nvars; i++)
		if (!stx_ex_is_const(c->f->ex, coeff[i], &at[i]) || !stx__conv_is_small(at[i]))
			return 0;
	return 1;
}

static int64_t gcd(int64_t a, int64_t b)
{
	while (b) {
		int64_t r = a % b;
		a = b;
		b = r;
	}
	return a;
}

/* The stride of a dimension that is stepped through by multiples of `steps`. */
static int64_t natural_stride(const struct stx__conv *c, int64_t steps)
{
	const struct stx_layout *l = &c->f->l->buffers.at[c->x.load->a]->layout;
	int64_t best = 0, v;
	for (uint32_t i = 0; i < l->rank; i++)
		if (stx_ex_is_const(c->f->ex, l->strides[i], &v) && v > best && steps % v == 0)
			best = v;
	return best ? best : steps;
}

/* Elements of x's memory along a dimension of that stride; 0: it has none. */
static int64_t natural_size(const struct stx__conv *c, int64_t stride)
{
	const struct stx_layout *l = &c->f->l->buffers.at[c->x.load->a]->layout;
	int64_t best = 0, size, v;
	for (uint32_t i = 0; i < l->rank; i++)
		if (stx_ex_is_const(c->f->ex, l->strides[i], &v) && v == stride &&
		    stx_ex_is_const(c->f->ex, l->sizes[i], &size) && size > best)
			best = size;
	return best;
}

/* Stride in memory, 0 of the one element that a mask leaves; step and dilation, 1 where nothing is
 * stepped through. */
static int find_stride(struct stx__conv *c, uint32_t i, int64_t *stride)
{
	const struct stx__conv_position *p = &c->at[i];
	int64_t o = c->x.at[STX__CONV_OUT + i], t = c->x.at[stx__conv_var_tap(c) + i];
	int64_t step = p->step, dilation = p->dilation;
	int is_one = !o && !t && p->has_lower && p->has_upper && p->upper == 1;
	if (o < 0 || t < 0 || step < 0 || dilation < 0)
		return 0;
	if (p->is_known) {
		*stride = is_one ? 0 : step ? o / step : t / dilation;
		if (!is_one && *stride < 1)
			return 0;
	} else {
		*stride = o || t ? natural_stride(c, gcd(o, t)) : 1;
		step = o / *stride;
		dilation = t / *stride;
		if ((c->out[i] > 1 && !o) || (c->tap[i] > 1 && !t))
			return 0;
	}
	c->step[i] = step ? step : 1;
	c->dilation[i] = dilation ? dilation : 1;
	return o == *stride * step && t == *stride * dilation;
}

/* Zeros before and after, and the elements between them; as many after as before where the result
 * is as large. extend: what no position reaches is the input's too, as far as its memory says. 0:
 * the library's convolution has another size. */
static int find_padding(struct stx__conv *c, uint32_t i, int64_t stride, int extend,
			int64_t *skipped)
{
	const struct stx__conv_position *p = &c->at[i];
	int64_t step = c->step[i], span = c->dilation[i] * (c->tap[i] - 1) + 1;
	int64_t before = p->first < 0 ? -p->first : 0, most = c->out[i] * step - before + span - 1;
	int64_t least = (c->out[i] - 1) * step + span - before, in = least, own, after;
	*skipped = p->first > 0 ? p->first : 0;
	if (p->has_upper)
		in = p->upper - *skipped;
	else if (extend && (own = natural_size(c, stride) - *skipped) > in)
		in = own;
	in = in < most ? in : most;
	after = least - in > 0 ? least - in : 0;
	if (in + 2 * before >= span && (in + 2 * before - span) / step + 1 == c->out[i])
		after = before;
	c->before[i] = before;
	c->after[i] = after;
	c->in[i] = in;
	return in > 0 && before < STX__CONV_MAX_SIZE && after < STX__CONV_MAX_SIZE &&
	       (p->has_lower || p->first >= 0) && (p->has_upper || in >= least) &&
	       in + before + after >= span && (in + before + after - span) / step + 1 == c->out[i];
}

/* Stride of channels that are numbered by group and channel within it. 0: there is none. */
int64_t stx__conv_joined(const struct stx__conv *c, int64_t group, int64_t channel,
			 int64_t channels)
{
	if (c->groups == 1)
		return channels > 1 ? channel : 1;
	if (channels == 1)
		return group;
	return group == channel * channels ? channel : 0;
}

/* Dimensions of one element have the strides of memory that is dense. */
static void fill_strides(struct stx__conv_tensor *t, uint32_t k, int is_last)
{
	uint32_t order[STX__CONV_RANK], n = 0;
	int64_t next = 1;
	if (is_last)
		order[n++] = 1;
	for (uint32_t i = k; i-- > 0;)
		order[n++] = 2 + i;
	if (!is_last)
		order[n++] = 1;
	order[n++] = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (t->size[order[i]] == 1)
			t->stride[order[i]] = next;
		next = stx_sat_mul(t->stride[order[i]], t->size[order[i]]);
		next = next < STX__CONV_MAX_SIZE ? next : 1;
	}
}

/* 1: channels are next to each other; 0: they are not; -1: both, or one of them. */
static int channels_last(const struct stx__conv_tensor *t, uint32_t k)
{
	int64_t points = 1;
	for (uint32_t i = 0; i < k; i++)
		points *= t->size[2 + i] > 1 ? 2 : 1;
	return t->size[1] == 1 || points == 1 ? -1 : t->stride[1] == 1;
}

/* Every element is in the buffer, and no two dimensions share a step of nothing. */
static int is_within(const struct stx__conv *c, const struct stx__conv_tensor *t, uint32_t buffer)
{
	struct stx_layout *l = &c->f->l->buffers.at[buffer]->layout;
	int64_t last = t->offset, reach;
	for (uint32_t i = 0; i < 2 + c->k; i++) {
		if (t->stride[i] < 1 || t->stride[i] >= STX__CONV_MAX_SIZE || t->size[i] < 1 ||
		    t->size[i] >= STX__CONV_MAX_SIZE)
			return 0;
		last = stx_sat_add(last, stx_sat_mul(t->size[i] - 1, t->stride[i]));
	}
	return t->offset >= 0 && stx_ex_is_const(c->f->ex, stx_layout_reach(c->f->ex, l), &reach) &&
	       last < reach;
}

/* Of the operand in memory: with the zeros that channels.c has put beside them. */
static int64_t channels(const struct stx__conv *c, const struct stx__conv_access *of)
{
	const struct stx_buffer *b = c->f->l->buffers.at[of->load->a];
	int64_t n;
	return b->rule == STX_REALIZED_CHANNELS &&
			       stx_ex_is_const(c->f->ex, b->layout.sizes[b->layout.rank - 1], &n)
		       ? n
		       : c->c;
}

static int lay_out_x(struct stx__conv *c, int extend)
{
	struct stx__conv_tensor *t = &c->tx;
	t->size[0] = c->n;
	t->size[1] = c->groups * channels(c, &c->x);
	t->stride[0] = c->n > 1 ? c->x.at[STX__CONV_N] : 1;
	t->stride[1] =
		stx__conv_joined(c, c->x.at[STX__CONV_GROUP], c->x.at[stx__conv_var_in(c)], c->c);
	t->offset = c->x.rest;
	for (uint32_t i = 0; i < c->k; i++) {
		int64_t stride, skipped, first = c->at[i].first;
		if (!find_stride(c, i, &stride) || !find_padding(c, i, stride, extend, &skipped))
			return 0;
		t->size[2 + i] = c->in[i];
		t->stride[2 + i] = stride ? stride : 1;
		t->offset -= stride * (first - skipped);
	}
	return c->x.at[STX__CONV_CHANNEL] == 0;
}

static int place_x(struct stx__conv *c)
{
	return (lay_out_x(c, 1) && is_within(c, &c->tx, c->x.load->a)) || lay_out_x(c, 0);
}

static int lay_out_w(struct stx__conv *c)
{
	struct stx__conv_tensor *t = &c->tw;
	t->size[0] = c->groups * c->m;
	t->size[1] = channels(c, &c->w);
	t->stride[0] =
		stx__conv_joined(c, c->w.at[STX__CONV_GROUP], c->w.at[STX__CONV_CHANNEL], c->m);
	t->stride[1] = c->c > 1 ? c->w.at[stx__conv_var_in(c)] : 1;
	t->offset = c->w.rest;
	for (uint32_t i = 0; i < c->k; i++) {
		t->size[2 + i] = c->tap[i];
		t->stride[2 + i] = c->tap[i] > 1 ? c->w.at[stx__conv_var_tap(c) + i] : 1;
		if (c->w.at[STX__CONV_OUT + i])
			return 0;
	}
	return c->w.at[STX__CONV_N] == 0 && c->w.mask == STX_NONE;
}

/* Where results lie, by an address over the variables of c's buffer. */
static int lay_out_y(const struct stx__conv *c, stx_ex store, struct stx__conv_tensor *t)
{
	int64_t at[STX_MAX_DIMS + 1] = { 0 };
	if (!stx__conv_read_address(c, store, c->nvars, at, &t->offset))
		return 0;
	t->size[0] = c->n;
	t->size[1] = c->groups * c->m;
	t->stride[0] = c->n > 1 ? at[STX__CONV_N] : 1;
	t->stride[1] = stx__conv_joined(c, at[STX__CONV_GROUP], at[STX__CONV_CHANNEL], c->m);
	for (uint32_t i = 0; i < c->k; i++) {
		t->size[2 + i] = c->out[i];
		t->stride[2 + i] = c->out[i] > 1 ? at[STX__CONV_OUT + i] : 1;
	}
	return 1;
}

/* ---- attributes ---- */

static void put_tensor(const struct stx__conv *c, const struct stx__conv_tensor *t, stx_ex *at)
{
	at[STX_ARRAY_OFFSET] = stx_ex_const(c->f->ex, t->offset);
	for (uint32_t i = 0; i < STX__CONV_RANK; i++) {
		int is_there = i < 2 + c->k;
		at[STX_ARRAY_SIZE + i] = stx_ex_const(c->f->ex, is_there ? t->size[i] : 1);
		at[STX_ARRAY_STRIDE + i] = stx_ex_const(c->f->ex, is_there ? t->stride[i] : 1);
	}
}

/* Layouts of one element a dimension follow the others. */
static void settle_layouts(struct stx__conv *c, struct stx__conv_tensor *y)
{
	struct stx__conv_tensor *all[3] = { &c->tx, y, &c->tw };
	int common = -1, is_last;
	for (int i = 0; i < 3; i++) {
		is_last = channels_last(all[i], c->k);
		common = common < 0 ? is_last : common;
	}
	for (int i = 0; i < 3; i++) {
		is_last = channels_last(all[i], c->k);
		fill_strides(all[i], c->k, (is_last < 0 ? common : is_last) > 0);
	}
}

/* The form whose results lie at y. */
static int put_form(struct stx__conv *c, struct stx__conv_tensor *y, uint32_t result,
		    struct stx__call_form *out)
{
	struct stx_exprs *ex = c->f->ex;
	settle_layouts(c, y);
	if (!is_within(c, &c->tx, c->x.load->a) || !is_within(c, &c->tw, c->w.load->a) ||
	    !is_within(c, y, result))
		return 0;
	out->operand[0] = c->x.load->a;
	out->operand[1] = c->w.load->a;
	out->attrs[STX_CONV_KIND] = stx_ex_const(ex, c->is_transposed ? STX_CONVOLVE_INPUT_GRADIENT
								      : STX_CONVOLVE_FORWARD);
	out->attrs[STX_CONV_SPATIAL] = stx_ex_const(ex, c->k);
	for (uint32_t i = 0; i < MAX_SPATIAL; i++) {
		int is_there = i < c->k;
		out->attrs[STX_CONV_STRIDE + i] = stx_ex_const(ex, is_there ? c->step[i] : 1);
		out->attrs[STX_CONV_DILATION + i] = stx_ex_const(ex, is_there ? c->dilation[i] : 1);
		out->attrs[STX_CONV_BEFORE + i] = stx_ex_const(ex, is_there ? c->before[i] : 0);
		out->attrs[STX_CONV_AFTER + i] = stx_ex_const(ex, is_there ? c->after[i] : 0);
	}
	put_tensor(c, &c->tx, out->attrs + STX_CONV_X);
	put_tensor(c, &c->tw, out->attrs + STX_CONV_W);
	put_tensor(c, y, out->attrs + STX_CONV_Y);
	out->attrs[STX_CONV_EPILOGUE] = out->attrs[STX_CONV_BIAS_OFFSET] = stx_ex_const(ex, 0);
	return 1;
}

/* ---- the bias ---- */

/* Gives e, over [n, channels, out..], the variables of c's buffer. 0: it has other sizes. */
static int follow(const struct stx__conv *c, struct stx_buffer *e, struct stx_binst *sum,
		  struct stx_binst *row)
{
	struct stx_exprs *ex = c->f->ex;
	const struct stx_buffer *b = c->b;
	stx_ex map[STX_MAX_DIMS];
	if (stx__same_exs(e->ranges, e->nranges, b->ranges, b->nranges))
		return 1;
	if (e->nranges != 2 + c->k || e->ranges[0] != b->ranges[STX__CONV_N] ||
	    !stx_ex_equals(ex, e->ranges[1], c->groups * c->m) ||
	    !stx__same_exs(e->ranges + 2, c->k, b->ranges + STX__CONV_OUT, c->k))
		return 0;
	stx_ex group = stx_ex_var(ex, STX__CONV_GROUP, b->ranges[STX__CONV_GROUP]);
	map[0] = stx_ex_var(ex, STX__CONV_N, b->ranges[STX__CONV_N]);
	map[1] = stx_ex_add(ex, stx_ex_muli(ex, group, c->m),
			    stx_ex_var(ex, STX__CONV_CHANNEL, b->ranges[STX__CONV_CHANNEL]));
	for (uint32_t i = 0; i < c->k; i++)
		map[2 + i] = stx_ex_var(ex, STX__CONV_OUT + i, b->ranges[STX__CONV_OUT + i]);
	sum->ex = stx_ex_subst(ex, sum->ex, map, e->nranges);
	row->ex = stx_ex_subst(ex, row->ex, map, e->nranges);
	e->store = stx_ex_subst(ex, e->store, map, e->nranges);
	e->ranges = b->ranges;
	e->nranges = b->nranges;
	return sum->ex != STX_EX_BAD && row->ex != STX_EX_BAD && e->store != STX_EX_BAD;
}

/* The row is one element for each channel. */
static int find_row(const struct stx__conv *c, const struct stx_binst *row, stx_ex *offset)
{
	int64_t at[STX_MAX_DIMS + 1], rest;
	if (row->c != STX_NONE || !stx__conv_read_address(c, row->ex, c->nvars, at, &rest) ||
	    (c->groups * c->m > 1 &&
	     stx__conv_joined(c, at[STX__CONV_GROUP], at[STX__CONV_CHANNEL], c->m) != 1))
		return 0;
	for (uint32_t i = 0; i < c->nvars; i++)
		if (i != STX__CONV_GROUP && i != STX__CONV_CHANNEL && at[i])
			return 0;
	*offset = stx_ex_const(c->f->ex, rest);
	return rest >= 0;
}

static void find_epilogue(struct stx__conv *c, struct stx__product *p)
{
	struct stx_binst *sum, *row;
	struct stx_buffer *e = stx__find_addition(c->f, c->b, &sum, &row);
	struct stx__conv_tensor y;
	stx_ex offset;
	p->epilogue = STX_NONE;
	/* the library adds one to the sums of a transposed one of halves only */
	if (!e || (c->is_transposed && e->dtype == STX_F32) ||
	    e->dtype != (enum stx_dtype)c->x.load->dtype)
		return;
	const struct stx_buffer before = *e;
	const stx_ex sum_at = sum->ex, row_at = row->ex;
	if (follow(c, e, sum, row) && stx__reads_at_point(sum, c->b) && find_row(c, row, &offset) &&
	    lay_out_y(c, e->store, &y) && put_form(c, &y, e->id, &p->with)) {
		p->with.attrs[STX_CONV_EPILOGUE] = stx_ex_const(c->f->ex, STX_EPILOGUE_BIAS);
		p->with.attrs[STX_CONV_BIAS_OFFSET] = offset;
		p->epilogue = e->id;
		p->bias = row->a;
		return;
	}
	*e = before;
	sum->ex = sum_at;
	row->ex = row_at;
}

/* ---- memory to work in ---- */

static int64_t elements(const struct stx__conv *c, const struct stx__conv_tensor *t)
{
	int64_t n = (t->size[1] + CHANNELS - 1) / CHANNELS * CHANNELS;
	n = stx_sat_mul(n, t->size[0]);
	for (uint32_t i = 0; i < c->k; i++)
		n = stx_sat_mul(n, t->size[2 + i]);
	return n;
}

/* Partial results; and operands in another layout, where theirs is not what the fastest kernels
 * read: channels last and whole vectors of them for halves, channels first otherwise. */
static int64_t workspace_of(const struct stx__conv *c)
{
	const struct stx__conv_tensor *all[3] = { &c->tx, &c->tw, &c->ty };
	int64_t bytes = stx_dtype_bytes((enum stx_dtype)c->x.load->dtype), sum = WORKSPACE_MIN;
	int64_t partial = stx_sat_mul(elements(c, &c->ty), SPLITS * stx_dtype_bytes(c->b->acc));
	sum += partial < SPLITS_MAX ? partial : SPLITS_MAX;
	for (int i = 0; i < 3; i++) {
		int fits = bytes == 2 ? channels_last(all[i], c->k) != 0 &&
						all[i]->size[1] % CHANNELS == 0
				      : channels_last(all[i], c->k) <= 0;
		if (!fits)
			sum = stx_sat_add(sum, stx_sat_mul(elements(c, all[i]), bytes));
	}
	return sum < WORKSPACE_MAX ? sum : WORKSPACE_MAX;
}

static int place_forward(struct stx__conv *c)
{
	return stx__conv_read_mask(c, c->x.mask, read_condition, NULL) &&
	       stx__conv_read_address(c, c->x.load->ex, c->nvars, c->x.at, &c->x.rest) &&
	       stx__conv_read_address(c, c->w.load->ex, c->nvars, c->w.at, &c->w.rest) &&
	       place_x(c) && lay_out_w(c);
}

int stx__conv_read_forward(struct stx__conv *c)
{
	return find_sizes(c) && find_accesses(c) && place_forward(c);
}

int stx__find_convolution(const struct stx__finding *f, const struct stx_buffer *b,
			  struct stx__product *p, int64_t *workspace)
{
	struct stx__conv c = { .f = f, .b = b };
	if (!find_sizes(&c) || !find_accesses(&c))
		return 0;
	if (!place_forward(&c) || !lay_out_y(&c, b->store, &c.ty) ||
	    !put_form(&c, &c.ty, b->id, &p->plain)) {
		memset(c.at, 0, sizeof c.at);
		if (!stx__conv_place_transposed(&c) || !lay_out_y(&c, b->store, &c.ty) ||
		    !put_form(&c, &c.ty, b->id, &p->plain))
			return 0;
	}
	p->kind = &convolution;
	find_epilogue(&c, p);
	*workspace = workspace_of(&c);
	return p->epilogue != STX_NONE || b->dtype == (enum stx_dtype)c.x.load->dtype;
}
