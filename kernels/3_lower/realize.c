/* realize.c
 * which values are written to memory, and the writing (seed 000 6.6; conformance RZ-*, LO-28, B21,
 * B69).
 *
 * Rules are tried in order; the first that holds realises the value when it is produced and names
 * itself (realized.def):
 *
 *   output        the value is a result of the graph (RZ-09)
 *   wanted        a user with more than one consumer around needs it in memory (LO-28)
 *   convolved     that, on a GPU, of halves that only convolutions want: its layout is free
 *   random        several users of random bits
 *   epilogue      several users, some of them a reduction, and it is pointwise work on a
 *                 contraction's result: written by the contraction's kernel in place of the bare
 *                 result (GF-05), so that repeated layers do not each inline more of the layers
 *                 before
 *   rounded       on a GPU the half-precision sum of a convolution of halves and its bias: the only
 *                 result that a library has (4_schedule/convolution.c)
 *   expensive     several users, and on the CPU an exp, log, ..., tanh inside (RZ-04)
 *   users>5       on the CPU: more than 5 users and more than 4/5 of the operation limit: "near"
 *                 it (RZ-05)
 *   ops>30|50     several users, more operations than the limit of GPU|CPU (RZ-06)
 *   reads>4       several users, more than 4 buffers read (RZ-07)
 *   loads>8|12    several users, more accumulated loads than the limit (RZ-08)
 *   size>4096     any value whose body would pass 4096 operations and loads, or 64 elementary
 *                 functions (of up to 1024 instructions each; a kernel has 65536 at most): a bound
 *                 on compile time, far beyond the rules above, without which a chain of shared
 *                 values could not terminate
 *   nested>64     any value of more than 64 paddings or concatenations inside each other, whose
 *                 masks take LLVM quadratic time
 *   index size    any value whose index expressions may pass 1024 atoms: views of views whose
 *                 divisions do not cancel double with each, and a copy is cheaper than that
 *                 arithmetic long before
 *
 * "Users" are distinct nodes for pointwise users, which play an operand used twice once, and
 * occurrences for others (cat of x with x). Counts are saturating, so doubling 64 times cannot
 * overflow. */
#include <stdlib.h>
#include <string.h>

#include "lower.h"
#include "stax_abi.h"

enum {
	MAX_READ_BUFFERS = 4,
	MANY_USERS = 5,
	MAX_BODY = 4096,
	MAX_READS = 1024, /* each perhaps a buffer, of which a kernel takes 4096 */
	MAX_WEIGHT = 1024,
	MAX_ELEMENTARY = 64,
	MAX_NESTED = 64
};

/* One use of o by node number `user`; a pointwise user counts once however often it names o. */
static void count_use(struct stx__lower *l, struct stx_val val, uint32_t user)
{
	const struct stx_node *o = val.node;
	enum stx_op_category c = stx_op_info(l->g->nodes.at[user]->op)->category;
	struct stx__value *v = &l->vals[o->id];

	v->is_live = 1;
	v->used |= (uint8_t)(1u << val.out);
	if (c == STX_CAT_CONTRACT) {
		v->wanted = 1;
		v->is_multiplied |= l->g->nodes.at[user]->op != STX_OP_CONVOLUTION;
	}
	v->is_reduced |= c == STX_CAT_REDUCE || ((c == STX_CAT_POINTWISE || c == STX_CAT_VIEW) &&
						 l->vals[user].is_reduced);
	if (c == STX_CAT_POINTWISE && v->mark == user + 1)
		return;
	v->mark = user + 1;
	v->uses++;
}

/* Users before operands, so that only uses by live nodes count; effects are live. */
void stx__count_uses(struct stx__lower *l)
{
	uint32_t i, j, k;

	for (i = 0; i < l->g->outputs.n; i++) {
		struct stx__value *v = &l->vals[l->g->outputs.at[i].val.node->id];

		if (l->g->outputs.at[i].within)
			continue; /* as the output that is written */
		v->uses++;
		v->used |= (uint8_t)(1u << l->g->outputs.at[i].val.out);
		v->is_live = v->is_output = 1;
		if (l->g->outputs.at[i].writes)
			l->vals[l->g->inputs.at[l->g->outputs.at[i].writes - 1].node->id]
				.written_with = l->g->outputs.at[i].val;
	}
	for (i = l->g->nodes.n; i-- > 0;) {
		const struct stx_node *n = l->g->nodes.at[i];

		if (stx_op_info(n->op)->tags & STX_TAG_EFFECT)
			l->vals[i].is_live = 1;
		for (j = 0; l->vals[i].is_live && j < n->nargs; j++) {
			const struct stx_arg *a = &n->args[j];

			if (a->kind == STX_ARG_TENSOR)
				count_use(l, a->u.tensor, i);
			for (k = 0; a->kind == STX_ARG_TENSORS && k < a->n; k++)
				if (a->u.tensors[k].node)
					count_use(l, a->u.tensors[k], i);
		}
	}
	for (i = 0; i < l->g->nodes.n; i++)
		l->vals[i].mark = 0;
}

static int uses_any(const struct stx__inner *fn, const uint8_t *ops, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		if (fn->used[ops[i] / 64] >> ops[i] % 64 & 1)
			return 1;
	return 0;
}

static int same_elements(const struct stx__lower *l, const struct stx_buffer *b,
			 struct stx__shape s)
{
	stx_ex p = stx_ex_const(l->ex, 1), q = p;
	uint32_t d;

	for (d = 0; d < s.rank; d++)
		p = stx_ex_mul(l->ex, p, s.sizes[d]);
	for (d = 0; d < b->layout.rank; d++)
		q = stx_ex_mul(l->ex, q, b->layout.sizes[d]);
	return p == q && p != STX_EX_BAD;
}

static int is_epilogue(const struct stx__lower *l, const struct stx__inner *fn)
{
	struct stx__shape s = { fn->rank, fn->sizes };
	uint32_t i;

	for (i = 0; i < fn->nbufs && i < STX__MANY_BUFFERS; i++) {
		const struct stx_buffer *b = l->loops->buffers.at[fn->bufs[i]];

		if (b->def == STX_DEF_REDUCTION && b->rule == STX_REALIZED_CONTRACTION &&
		    same_elements(l, b, s))
			return 1;
	}
	return 0;
}

/* 1: memory holds v in the narrower type t. */
static int is_widened_from(const struct stx__lower *l, struct stx_val v, enum stx_dtype t)
{
	const struct stx__inner *fn = stx__value_of(l, v);

	return fn && stx__is_widened_load(l, fn) && stx__widened(fn)->dtype == t;
}

static int is_rounded_convolution(const struct stx__lower *l, const struct stx_node *n)
{
	enum stx_dtype t = n->outs[0].dtype;
	const struct stx_node *sum, *c;
	uint32_t i;

	if (n->op != STX_OP_TO_COPY || (t != STX_F16 && t != STX_BF16))
		return 0;
	sum = n->args[0].u.tensor.node;
	if (sum->op != STX_OP_ADD || l->vals[sum->id].uses != 1)
		return 0;
	for (i = 0; i < 2; i++) {
		if (sum->args[i].kind != STX_ARG_TENSOR)
			continue;
		c = sum->args[i].u.tensor.node;
		if (c->op == STX_OP_CONVOLUTION && c->outs[0].dtype == STX_F32 &&
		    l->vals[c->id].uses == 1 && is_widened_from(l, c->args[0].u.tensor, t) &&
		    is_widened_from(l, c->args[1].u.tensor, t))
			return 1;
	}
	return 0;
}

static enum stx_realized multi_user_reason(const struct stx__lower *l, const struct stx__value *v)
{
	static const uint8_t expensive[] = {
		STX_P_EXP,        STX_P_LOG,           STX_P_LOG10,       STX_P_LOG1P,
		STX_P_LOG2,       STX_P_SIGMOID,       STX_P_TANH,        STX_P_SHORT_EXP,
		STX_P_SHORT_TANH, STX_P_SHORT_SIGMOID, STX_P_NEAR_SIGMOID
	};
	const struct stx__inner *fn = v->fn;
	int gpu = l->opts->target_gpu;
	uint32_t max_ops = gpu ? 30 : 50, max_loads = gpu ? 8 : 12;

	if (!gpu && uses_any(fn, expensive, sizeof expensive))
		return STX_REALIZED_EXPENSIVE;
	if (!gpu && v->uses > MANY_USERS && fn->ops > max_ops * 4 / 5)
		return STX_REALIZED_USERS;
	if (fn->ops > max_ops)
		return gpu ? STX_REALIZED_OPS_GPU : STX_REALIZED_OPS_CPU;
	if (fn->nbufs > MAX_READ_BUFFERS)
		return STX_REALIZED_READS;
	if (fn->reads > max_loads)
		return gpu ? STX_REALIZED_LOADS_GPU : STX_REALIZED_LOADS_CPU;
	return STX_REALIZED_NONE;
}

enum stx_realized stx__wanted_reason(const struct stx__lower *l, const struct stx__value *v)
{
	const struct stx__inner *narrow = stx__widened(v->fn);
	enum stx_dtype t = (enum stx_dtype)(narrow ? narrow->dtype : v->fn->dtype);

	return l->opts->target_gpu && !v->is_multiplied && (t == STX_F16 || t == STX_BF16)
		       ? STX_REALIZED_CONVOLVED
		       : STX_REALIZED_WANTED;
}

enum stx_realized stx__realize_reason(const struct stx__lower *l, const struct stx_node *n)
{
	const struct stx__value *v = &l->vals[n->id];
	enum stx_realized reason;

	if (v->fn->weight > MAX_WEIGHT)
		return v->is_output ? STX_REALIZED_OUTPUT : STX_REALIZED_INDEX_SIZE;
	if (v->fn->rule == STX_IN_LOAD)
		return STX_REALIZED_NONE; /* a view of a buffer: in memory already */
	if (v->is_output)
		return STX_REALIZED_OUTPUT;
	if (v->fn->rule == STX_IN_CONST)
		return STX_REALIZED_NONE;
	if (l->opts->no_inline)
		return STX_REALIZED_NO_INLINE;
	if (v->uses > 1 && v->wanted && !stx__is_widened_load(l, v->fn))
		return stx__wanted_reason(l, v);
	if (v->uses > 1 && stx_op_info(n->op)->category == STX_CAT_RANDOM)
		return STX_REALIZED_RANDOM;
	if (v->uses > 1 && v->is_reduced && is_epilogue(l, v->fn))
		return STX_REALIZED_EPILOGUE;
	if (l->opts->target_gpu && is_rounded_convolution(l, n))
		return STX_REALIZED_ROUNDED;
	if (v->uses > 1 && (reason = multi_user_reason(l, v)))
		return reason;
	if (v->fn->ops > MAX_BODY || v->fn->reads > MAX_READS || v->fn->elementary > MAX_ELEMENTARY)
		return STX_REALIZED_SIZE;
	if (v->fn->nested > MAX_NESTED)
		return STX_REALIZED_NESTED;
	return STX_REALIZED_NONE;
}

static const struct {
	const char *text;
	uint8_t flexible;
} realized[STX_REALIZED_COUNT] = {
#define STX_REALIZED(name, text, flexible) { text, flexible },
#include "realized.def"
#undef STX_REALIZED
};

const char *stx_realized_text(enum stx_realized r)
{
	return realized[r].text;
}

/* ---- buffers ---- */

struct stx_buffer *stx__new_buffer(struct stx__lower *l, enum stx_buffer_kind kind,
				   const char *name, enum stx_dtype t, struct stx__shape s)
{
	struct stx_buffer *b = STX_NEW(l->arena, struct stx_buffer);

	if (!b)
		return NULL;
	b->id = l->loops->buffers.n;
	b->kind = kind;
	b->name = name ? name : stx_arena_printf(l->arena, "buf%u", b->id);
	b->dtype = t;
	b->layout = (struct stx_layout){ .rank = s.rank,
					 .sizes = s.sizes,
					 .offset = stx_ex_const(l->ex, 0) };
	if (!b->name || stx_push(l->arena, &l->loops->buffers, b))
		return NULL;
	return b;
}

/* Whether the value of v is inlined in its users, so that an origin walk goes through it. */
static int is_inlined(const struct stx__value *v)
{
	return !v->is_realized;
}

static int cmp_u32(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

struct origins {
	uint32_t ids[STX_MAX_ORIGINS], n;
	int more; /* there are others */
};

static void visit_origin(struct stx__lower *l, const struct stx_node *n, struct origins *o)
{
	struct stx__value *v = &l->vals[n->id];

	if (v->mark == l->walk || (!is_inlined(v) && n->op != STX_OP_PLACEHOLDER))
		return;
	v->mark = l->walk;
	if (o->n < STX_MAX_ORIGINS)
		o->ids[o->n++] = n->id;
	else
		o->more = 1;
}

static void visit_operands(struct stx__lower *l, const struct stx_node *n, struct origins *o)
{
	for (uint32_t j = 0; j < n->nargs && !o->more; j++) {
		const struct stx_arg *a = &n->args[j];

		if (a->kind == STX_ARG_TENSOR)
			visit_origin(l, a->u.tensor.node, o);
		for (uint32_t k = 0; a->kind == STX_ARG_TENSORS && k < a->n && !o->more; k++)
			if (a->u.tensors[k].node)
				visit_origin(l, a->u.tensors[k].node, o);
	}
}

/* Names of the nodes whose computation b holds, in graph order (LV-15): n, and what is inlined in
 * it. The nearest STX_MAX_ORIGINS: views of buffers are never realised, so what is behind n may be
 * as long as the graph. */
static stx_err find_origins(struct stx__lower *l, struct stx_buffer *b, const struct stx_node *n)
{
	struct origins o = { .ids = { n->id }, .n = 1 };
	const char **names;

	l->vals[n->id].mark = ++l->walk;
	for (uint32_t i = 0; i < o.n && !o.more; i++) {
		const struct stx_node *m = l->g->nodes.at[o.ids[i]];

		if (m == n || is_inlined(&l->vals[m->id])) /* else a placeholder: only named */
			visit_operands(l, m, &o);
	}
	names = STX_NEW_ARRAY(l->arena, const char *, o.n);
	if (!names)
		return l->err = stx_fail(l->d, STX_E_NOMEM, "lower", n->name,
					 "out of memory budget");
	qsort(o.ids, o.n, sizeof *o.ids, cmp_u32);
	for (uint32_t i = 0; i < o.n; i++)
		names[i] = l->g->nodes.at[o.ids[i]]->name;
	b->origins = names;
	b->norigins = o.n;
	b->has_more_origins = (uint8_t)o.more;
	return 0;
}

/* Defines b by playing fn over its ranges (fn's own index space), then settles the layout. */
static stx_err define(struct stx__lower *l, struct stx_buffer *b, struct stx__inner *const *fns,
		      uint32_t nfns, const struct stx_node *n, enum stx_realized reason)
{
	stx_err e =
		stx__body_play(l->g, (const struct stx__inner *const *)fns, nfns, &b->body, l->d);

	if (e)
		return l->err = e;
	if (find_origins(l, b, n))
		return l->err;
	b->rule = reason;
	stx__layout_settle(l->ex, l->arena, b);
	if (stx_arena_oom(l->arena))
		return l->err = stx_fail(l->d, STX_E_NOMEM, "lower", n->name,
					 "out of memory budget");
	return 0;
}

struct stx_buffer *stx__pointwise_buffer(struct stx__lower *l, struct stx__inner *fn,
					 const struct stx_node *n, enum stx_buffer_kind kind,
					 enum stx_realized reason)
{
	struct stx__shape s = { fn->rank, fn->sizes };
	struct stx_buffer *b = stx__new_buffer(l, kind, NULL, fn->dtype, s);

	if (!b) {
		stx__lower_fail(l, STX_E_NOMEM, n, "out of memory budget");
		return NULL;
	}
	b->def = STX_DEF_POINTWISE;
	b->nranges = s.rank;
	b->ranges = s.sizes;
	b->acc = fn->dtype;
	b->layout.flexible = kind == STX_BUF_TEMP && realized[reason].flexible;
	return define(l, b, &fn, 1, n, reason) ? NULL : b;
}

static struct stx__inner *load_of(struct stx__lower *l, const struct stx_buffer *b)
{
	struct stx__shape s = { b->layout.rank, b->layout.sizes };

	return stx__inner_load(l->g, b->id, b->dtype, s,
			       stx__address(l->ex, s, b->layout.strides, b->layout.offset));
}

struct stx__inner *stx__realize_value(struct stx__lower *l, const struct stx_node *n,
				      struct stx__inner *fn, enum stx_realized reason)
{
	struct stx_buffer *b = stx__pointwise_buffer(l, fn, n, STX_BUF_TEMP, reason);

	if (b)
		l->vals[n->id].is_realized = 1;
	return b ? load_of(l, b) : NULL;
}

/* What a contraction reads in a wider type is in memory in its own (rules_contract.c): on a GPU what
 * is only converted, on the CPU integers less a zero point, too. */
stx_err stx__realize_node(struct stx__lower *l, const struct stx_node *n, enum stx_realized reason)
{
	struct stx__value *v = &l->vals[n->id];
	int may_narrow = v->wanted && !v->is_output;
	struct stx__inner *narrow = l->opts->target_gpu && may_narrow ? stx__widened(v->fn) : NULL;
	enum stx_dtype t = v->fn->dtype;
	enum stx_dtype least = l->opts->target_gpu || !may_narrow ? t : stx__narrowest(v->fn);
	if (least != t && !(narrow = stx__inner_cast(l->g, v->fn, least)))
		return STX_E_NOMEM;
	struct stx_buffer *b =
		stx__pointwise_buffer(l, narrow ? narrow : v->fn, n, STX_BUF_TEMP, reason);

	if (!b)
		return l->err;
	v->fn = stx__inner_cast(l->g, load_of(l, b), t);
	v->is_realized = 1;
	return v->fn ? 0 : STX_E_NOMEM;
}

/* What a reduction combines; over nothing it reads nothing, not even what is the same at every
 * point. */
static struct stx__inner *element(struct stx__lower *l, const struct stx__reduction *r, uint32_t i)
{
	struct stx__inner *fn = r->fn[i];
	uint32_t d;

	for (d = 0; fn && d < r->rranges.rank; d++)
		if (stx_ex_equals(l->ex, r->rranges.sizes[d], 0))
			return stx__inner_const(l->g, fn->dtype,
						(struct stx__shape){ fn->rank, fn->sizes },
						(union stx_scalar){ .u = 0 });
	return fn;
}

struct stx__inner *stx__realize_reduction(struct stx__lower *l, const struct stx_node *n,
					  const struct stx__reduction *r, enum stx_realized reason)
{
	struct stx_buffer *b = stx__new_buffer(l, STX_BUF_TEMP, NULL, r->dtype, r->ranges);
	struct stx__inner *fns[2] = { element(l, r, 0), element(l, r, 1) };

	if (!b || !fns[0])
		return stx__lower_fail(l, STX_E_NOMEM, n, "out of memory budget");
	b->def = STX_DEF_REDUCTION;
	b->monoid = r->monoid;
	b->state = r->state;
	b->acc = r->acc;
	b->nranges = r->ranges.rank;
	b->ranges = r->ranges.sizes;
	b->nrranges = r->rranges.rank;
	b->rranges = r->rranges.sizes;
	if (define(l, b, fns, fns[1] ? 2 : 1, n, reason))
		return NULL;
	if (r->strides) {
		b->layout.strides = r->strides;
		b->store = stx__address(l->ex, r->ranges, r->strides, b->layout.offset);
	}
	l->vals[n->id].is_realized = 1;
	return load_of(l, b);
}

struct stx__inner *stx__realize_scan(struct stx__lower *l, const struct stx_node *n,
				     const struct stx__scan *s)
{
	struct stx_buffer *b =
		stx__new_buffer(l, STX_BUF_TEMP, NULL, s->r.dtype, stx__node_shape(n));
	struct stx__inner *fn = s->r.fn[0];

	if (!b)
		return stx__lower_fail(l, STX_E_NOMEM, n, "out of memory budget");
	b->def = STX_DEF_SCAN;
	b->monoid = s->r.monoid;
	b->state = s->r.state;
	b->acc = s->r.acc;
	b->nranges = s->r.ranges.rank;
	b->ranges = s->r.ranges.sizes;
	b->nrranges = 1;
	b->rranges = s->r.rranges.sizes;
	if (define(l, b, &fn, 1, n, STX_REALIZED_SCAN))
		return NULL;
	b->store = stx_ex_subst(l->ex, b->store, s->at, b->layout.rank);
	l->vals[n->id].is_realized = 1;
	return load_of(l, b);
}

/* ---- updates in place ---- */

int stx__whole_storage(const struct stx__lower *l, const struct stx_buffer *b, struct stx__shape s,
		       stx_ex address)
{
	struct stx__shape own = { b->layout.rank, b->layout.sizes };

	return same_elements(l, b, s) &&
	       address == stx__address(l->ex, own, b->layout.strides, b->layout.offset) &&
	       s.rank == own.rank && !memcmp(s.sizes, own.sizes, s.rank * sizeof *s.sizes);
}

/* self's memory and where its elements are: its own, or a copy. */
static struct stx_buffer *base_of(struct stx__lower *l, const struct stx_node *n,
				  const struct stx__update *u, stx_ex *address)
{
	struct stx__inner *self = stx__arg(l, n, 0);
	struct stx__shape s = stx__node_shape(n);
	struct stx_buffer *b = u->base;

	if (b) {
		*address = self->u.load.ex;
		return b;
	}
	b = stx__pointwise_buffer(l, self, n->args[0].u.tensor.node, STX_BUF_TEMP,
				  STX_REALIZED_UPDATED);
	if (b)
		*address = stx__address(l->ex, s, b->layout.strides, b->layout.offset);
	return b;
}

struct stx__inner *stx__realize_update(struct stx__lower *l, const struct stx_node *n,
				       const struct stx__update *u)
{
	struct stx__shape out = stx__node_shape(n);
	stx_ex address, at[STX_MAX_DIMS], chosen[STX_MAX_DIMS] = { 0 };
	struct stx_buffer *base = base_of(l, n, u, &address), *b;
	uint32_t k;

	if (!base)
		return NULL;
	b = stx__new_buffer(l, STX_BUF_TEMP, NULL, u->dtype,
			    (struct stx__shape){ base->layout.rank, base->layout.sizes });
	if (!b)
		return stx__lower_fail(l, STX_E_NOMEM, n, "out of memory budget");
	b->layout = base->layout;
	b->base = base;
	base->heir = b;
	b->def = u->is_unordered ? STX_DEF_POINTWISE : STX_DEF_SCATTER;
	b->monoid = u->monoid;
	b->overwrite = u->overwrite;
	b->acc = u->dtype;
	b->nranges = u->space.rank - !u->is_unordered;
	b->ranges = u->space.sizes;
	b->nrranges = !u->is_unordered;
	b->rranges = u->space.sizes + b->nranges;
	if ((l->err = stx__body_play_update(l->g, u, &b->body, chosen, l->d)))
		return NULL;
	memcpy(at, u->at, sizeof at);
	for (k = 0; k < u->nindices; k++)
		at[u->how[k].dim] = chosen[k];
	b->store = stx_ex_subst(l->ex, address, at, out.rank);
	if (b->store == STX_EX_BAD)
		return stx__lower_fail(l, STX_E_TOO_LARGE, n, "an index expression is too large");
	if (find_origins(l, b, n))
		return NULL;
	b->rule = STX_REALIZED_UPDATE;
	l->vals[n->id].is_realized = 1;
	return stx__inner_load(l->g, b->id, b->dtype, out, address);
}

/* ---- assertions ---- */

/* 0 where the condition holds, else 1: an index into one element. */
static struct stx__inner *violation(struct stx__lower *l, struct stx__inner *cond)
{
	struct stx__shape s = { cond->rank, cond->sizes };
	const struct stx__step steps[] = {
		{ .op = STX_P_CAST, .dtype = STX_BOOL, .a = 0 },
		{ .op = STX_P_NOT, .dtype = STX_BOOL, .a = 1 },
		{ .op = STX_P_CAST, .dtype = STX_I64, .a = 2 },
	};

	return stx__inner_map(l->g, s, &cond, 1, steps, 3);
}

stx_err stx__realize_assertion(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__inner *cond = stx__arg(l, n, 0), *fns[2];
	struct stx__shape s = { cond->rank, cond->sizes };
	stx_ex *one = STX_NEW_ARRAY(l->arena, stx_ex, 1), *map = STX_NEW_ARRAY(l->arena, stx_ex, 1);
	struct stx__index *at = STX_NEW_ARRAY(l->arena, struct stx__index, 1);
	struct stx_buffer *b = NULL;

	if (one && map && at && (fns[1] = violation(l, cond))) {
		*one = stx_ex_const(l->ex, 1);
		*at = (struct stx__index){ *one, STX_BF_CHECK, STX_AXIS_ASSERTION };
		*map = stx_ex_indirect(l->ex, 0, (struct stx_interval){ 0, 0 });
		fns[0] = stx__inner_const(l->g, STX_BOOL, (struct stx__shape){ 1, one },
					  (union stx_scalar){ .u = 1 });
		fns[0] = fns[0] ? stx__inner_indirect(l->g, s, fns, 2, map, at) : NULL;
		b = fns[0] ? stx__pointwise_buffer(l, fns[0], n, STX_BUF_TEMP,
						   STX_REALIZED_ASSERTION)
			   : NULL;
	}
	if (!b)
		return stx__lower_fail(l, STX_E_NOMEM, n, "out of memory budget"), l->err;
	b->message = n->args[1].u.str;
	return 0;
}

/* ---- sorts ---- */

/* Memory [rows, 2, n] for a sort of buffer key, [rows, n]. */
static struct stx_buffer *scratch(struct stx__lower *l, const struct stx_buffer *key,
				  enum stx_dtype t)
{
	stx_ex *sizes = STX_NEW_ARRAY(l->arena, stx_ex, 3), *strides;
	struct stx_buffer *b;

	strides = STX_NEW_ARRAY(l->arena, stx_ex, 3);
	if (!sizes || !strides)
		return NULL;
	sizes[0] = key->layout.sizes[0];
	sizes[1] = stx_ex_const(l->ex, 2);
	sizes[2] = key->layout.sizes[1];
	b = stx__new_buffer(l, STX_BUF_TEMP, NULL, t, (struct stx__shape){ 3, sizes });
	if (!b)
		return NULL;
	stx__row_major(l->ex, (struct stx__shape){ 3, sizes }, strides);
	b->layout.strides = strides;
	b->def = STX_DEF_SCRATCH;
	b->rule = STX_REALIZED_SORT;
	return b;
}

struct stx__inner *stx__realize_sort(struct stx__lower *l, const struct stx_node *n,
				     struct stx__inner *key)
{
	struct stx__inner *fn = stx__realize_value(l, n, key, STX_REALIZED_SORT_KEY), *order;
	struct stx_buffer *b, *k, *keys, *places;
	struct stx_interval size;

	if (!fn)
		return NULL;
	k = l->loops->buffers.at[fn->u.load.buffer];
	keys = scratch(l, k, k->dtype);
	places = scratch(l, k, STX_I32);
	b = stx__new_buffer(l, STX_BUF_TEMP, NULL, STX_I64,
			    (struct stx__shape){ 2, k->layout.sizes });
	if (!keys || !places || !b)
		return stx__lower_fail(l, STX_E_NOMEM, n, "out of memory budget");
	b->def = STX_DEF_SORT;
	b->acc = k->dtype;
	b->nranges = b->nrranges = 1;
	b->ranges = k->layout.sizes;
	b->rranges = k->layout.sizes + 1;
	b->scratch[0] = keys->id;
	b->scratch[1] = places->id;
	if (define(l, b, &fn, 1, n, STX_REALIZED_SORT))
		return NULL;
	b->store = stx_ex_mul(l->ex, k->layout.sizes[1], stx__axis(l->ex, 0, k->layout.sizes[0]));
	order = load_of(l, b);
	size = stx_ex_interval(l->ex, k->layout.sizes[1]);
	if (order)
		order->u.load.range = (struct stx_interval){ 0, size.hi < 1 ? 0 : size.hi - 1 };
	return order;
}

/* ---- outputs ---- */

/* The TEMP buffer whose whole storage fn reads in row-major order, or NULL: it can be the output
 * itself. */
static struct stx_buffer *whole_buffer(struct stx__lower *l, const struct stx__inner *fn,
				       const stx_ex *strides)
{
	struct stx__shape s = { fn->rank, fn->sizes };
	struct stx_buffer *b;

	if (fn->rule != STX_IN_LOAD)
		return NULL;
	b = l->loops->buffers.at[fn->u.load.buffer];
	if (b->kind != STX_BUF_TEMP || b->dtype != fn->dtype || !same_elements(l, b, s))
		return NULL;
	return fn->u.load.ex == stx__address(l->ex, s, strides, stx_ex_const(l->ex, 0)) ? b : NULL;
}

static enum stx_realized output_rule(const struct stx__lower *l, const struct stx__inner *fn)
{
	const struct stx_buffer *b =
		fn->rule == STX_IN_LOAD ? l->loops->buffers.at[fn->u.load.buffer] : NULL;

	return b && (b->kind == STX_BUF_INPUT || b->kind == STX_BUF_OUTPUT || b->base)
		       ? STX_REALIZED_OUTPUT_COPY
		       : STX_REALIZED_OUTPUT;
}

stx_err stx__realize_output(struct stx__lower *l, const struct stx_output *o, uint32_t index)
{
	struct stx__inner *fn = stx__value_of(l, o->val);
	struct stx__shape s = { fn->rank, fn->sizes };
	stx_ex *strides = STX_NEW_ARRAY(l->arena, stx_ex, s.rank + 1u);
	struct stx_buffer *b;

	if (!strides)
		return stx__lower_fail(l, STX_E_NOMEM, o->val.node, "out of memory budget"), l->err;
	stx__row_major(l->ex, s, strides);
	b = whole_buffer(l, fn, strides);
	if (!b) /* a view, an input, an output returned twice: copied (B21) */
		b = stx__pointwise_buffer(l, fn, o->val.node, STX_BUF_OUTPUT, output_rule(l, fn));
	if (!b)
		return l->err;
	b->kind = STX_BUF_OUTPUT;
	b->index = index;
	b->layout = (struct stx_layout){ .rank = s.rank,
					 .sizes = s.sizes,
					 .strides = strides,
					 .offset = stx_ex_const(l->ex, 0) };
	return stx_push(l->arena, &l->loops->outputs, b->id)
		       ? stx_fail(l->d, STX_E_NOMEM, "lower", "", "out of memory budget")
		       : 0;
}
