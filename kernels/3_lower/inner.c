/* inner.c
 * constructors of inner functions, with their counts (seed 000 6.3, 6.4; conformance IR-03,
 * LV-03..09). */
#include <string.h>

#include "inner.h"

stx_ex stx__axis(struct stx_exprs *x, uint32_t d, stx_ex size)
{
	return stx_ex_equals(x, size, 1) ? stx_ex_const(x, 0) : stx_ex_var(x, d, size);
}

enum stx_dtype stx__work_dtype(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && t != STX_F64 ? STX_F32 : t;
}

int stx__dtype_range(enum stx_dtype t, struct stx_interval *r)
{
	int bits = 8 * stx_dtype_bytes(t);

	switch (stx_dtype_kind(t)) {
	case STX_KIND_INT:
		*r = (struct stx_interval){ -(INT64_MAX >> (64 - bits)) - 1,
					    INT64_MAX >> (64 - bits) };
		return 1;
	case STX_KIND_UINT:
		if (bits == 64)
			return 0;
		*r = (struct stx_interval){ 0, (int64_t)(UINT64_MAX >> (64 - bits)) };
		return 1;
	case STX_KIND_BOOL: *r = (struct stx_interval){ 0, 1 }; return 1;
	default: return 0;
	}
}

void stx__row_major(struct stx_exprs *x, struct stx__shape s, stx_ex *out)
{
	stx_ex stride = stx_ex_const(x, 1);
	int d;

	for (d = s.rank - 1; d >= 0; d--) {
		out[d] = stride;
		stride = stx_ex_mul(x, stride, s.sizes[d]);
	}
}

stx_ex stx__address(struct stx_exprs *x, struct stx__shape s, const stx_ex *strides, stx_ex offset)
{
	uint32_t d;

	for (d = 0; d < s.rank; d++)
		offset = stx_ex_add(x, offset,
				    stx_ex_mul(x, strides[d], stx__axis(x, d, s.sizes[d])));
	return offset;
}

int stx__shape_is_empty(struct stx_exprs *x, struct stx__shape s)
{
	uint32_t d;

	for (d = 0; d < s.rank; d++)
		if (stx_ex_equals(x, s.sizes[d], 0))
			return 1;
	return 0;
}

static uint32_t sat_add(uint32_t a, uint32_t b)
{
	return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

/* Reading o at an index of the given weight: each of its variables may become that much. */
static void read_at(struct stx__inner *n, const struct stx__inner *o, uint32_t weight)
{
	uint64_t w = (uint64_t)(o->weight ? o->weight : 1) * (weight ? weight : 1);

	w = w < UINT32_MAX ? w : UINT32_MAX;
	n->weight = n->weight > w ? n->weight : (uint32_t)w;
}

static uint32_t map_weight(const struct stx_exprs *x, const stx_ex *map, uint32_t n)
{
	uint32_t d, most = 0;

	for (d = 0; d < n; d++) {
		uint32_t w = stx_ex_weight(x, map[d]);

		most = w > most ? w : most;
	}
	return most;
}

static void add_buffer(struct stx__inner *n, uint32_t buffer)
{
	uint32_t i;

	for (i = 0; i < n->nbufs; i++)
		if (n->bufs[i] == buffer)
			return;
	if (n->nbufs < STX__MANY_BUFFERS)
		n->bufs[n->nbufs++] = buffer;
}

static void use(struct stx__inner *n, uint32_t op)
{
	n->used[op / 64] |= UINT64_C(1) << op % 64;
}

/* A record with its operands' counts added up. operands must outlive it. */
static struct stx__inner *record(struct stx_graph *g, enum stx__inner_rule rule, enum stx_dtype t,
				 struct stx__shape s, struct stx__inner *const *operands,
				 uint32_t nops)
{
	struct stx__inner *n = STX_NEW(g->arena, struct stx__inner);
	uint32_t i, j;

	if (!n)
		return NULL;
	n->rule = (uint8_t)rule;
	n->dtype = (uint8_t)t;
	n->rank = s.rank;
	n->sizes = s.sizes;
	n->operands = operands;
	n->nops = nops;
	for (i = 0; i < nops; i++) {
		const struct stx__inner *o = operands[i];

		if (!o)
			return NULL;
		n->ops = sat_add(n->ops, o->ops);
		n->reads = sat_add(n->reads, o->reads);
		n->elementary = sat_add(n->elementary, o->elementary);
		n->weight = n->weight > o->weight ? n->weight : o->weight;
		n->nested = n->nested > o->nested ? n->nested : o->nested;
		for (j = 0; j < o->nbufs; j++)
			add_buffer(n, o->bufs[j]);
		for (j = 0; j < STX__USED_WORDS; j++)
			n->used[j] |= o->used[j];
	}
	return n;
}

static struct stx__inner *const *copy_operands(struct stx_graph *g,
					       struct stx__inner *const *operands, uint32_t n)
{
	return stx_arena_copy(g->arena, operands, n * sizeof *operands);
}

struct stx__inner *stx__inner_load(struct stx_graph *g, uint32_t buffer, enum stx_dtype t,
				   struct stx__shape s, stx_ex address)
{
	struct stx__inner *n = record(g, STX_IN_LOAD, t, s, NULL, 0);

	if (!n)
		return NULL;
	n->u.load.buffer = buffer;
	n->u.load.ex = address;
	n->weight = stx_ex_weight(g->ex, address);
	n->u.load.range = (struct stx_interval){ STX_NEG_INF, STX_POS_INF };
	stx__dtype_range(t, &n->u.load.range);
	n->reads = 1;
	add_buffer(n, buffer);
	use(n, STX_B_LOAD);
	return n;
}

struct stx__inner *stx__inner_const(struct stx_graph *g, enum stx_dtype t, struct stx__shape s,
				    union stx_scalar k)
{
	struct stx__inner *n = record(g, STX_IN_CONST, t, s, NULL, 0);

	if (!n)
		return NULL;
	n->u.k = k;
	use(n, STX_B_CONST);
	return n;
}

struct stx__inner *stx__inner_index(struct stx_graph *g, enum stx_dtype t, struct stx__shape s,
				    stx_ex ex)
{
	struct stx__inner *n = record(g, STX_IN_INDEX, t, s, NULL, 0);

	if (!n)
		return NULL;
	n->u.ex = ex;
	n->weight = stx_ex_weight(g->ex, ex);
	use(n, STX_B_INDEX);
	return n;
}

struct stx__inner *stx__inner_map(struct stx_graph *g, struct stx__shape s,
				  struct stx__inner *const *operands, uint32_t nops,
				  const struct stx__step *steps, uint32_t nsteps)
{
	struct stx__inner *const *ops = copy_operands(g, operands, nops);
	struct stx__inner *n;
	uint32_t i;

	n = ops ? record(g, STX_IN_MAP, steps[nsteps - 1].dtype, s, ops, nops) : NULL;
	if (!n)
		return NULL;
	n->u.steps.n = nsteps;
	n->u.steps.at = stx_arena_copy(g->arena, steps, nsteps * sizeof *steps);
	for (i = 0; i < nsteps; i++) {
		if (steps[i].op < STX_PRIM_COUNT)
			n->ops = sat_add(n->ops, (uint32_t)stx_prim_info(steps[i].op)->cost);
		if (steps[i].op >= STX_P_FIRST_ELEMENTARY && steps[i].op < STX_PRIM_COUNT)
			n->elementary = sat_add(n->elementary, 1);
		use(n, steps[i].op);
	}
	return n->u.steps.at ? n : NULL;
}

static int same_sizes(const struct stx__inner *x, struct stx__shape s)
{
	return x->rank == s.rank &&
	       (s.rank == 0 || !memcmp(x->sizes, s.sizes, s.rank * sizeof(stx_ex)));
}

static int is_identity(struct stx_exprs *x, const struct stx__inner *n, const stx_ex *map)
{
	uint32_t d;

	for (d = 0; d < n->rank; d++)
		if (map[d] != stx__axis(x, d, n->sizes[d]))
			return 0;
	return 1;
}

static struct stx__inner *view_of_view(struct stx_graph *g, struct stx__inner *x,
				       struct stx__shape s, const stx_ex *map)
{
	struct stx__inner *o = x->operands[0];
	stx_ex *m = STX_NEW_ARRAY(g->arena, stx_ex, o->rank ? o->rank : 1u);
	uint32_t d;

	if (!m)
		return NULL;
	for (d = 0; d < o->rank; d++)
		m[d] = stx_ex_subst(g->ex, x->u.map[d], map, x->rank);
	return stx__inner_view(g, o, s, m);
}

struct stx__inner *stx__inner_view(struct stx_graph *g, struct stx__inner *x, struct stx__shape s,
				   const stx_ex *map)
{
	struct stx__inner *n, **op;

	if (!x)
		return NULL;
	if (same_sizes(x, s) && is_identity(g->ex, x, map))
		return x;
	switch (x->rule) {
	case STX_IN_LOAD:
		n = stx__inner_load(g, x->u.load.buffer, x->dtype, s,
				    stx_ex_subst(g->ex, x->u.load.ex, map, x->rank));
		if (n)
			n->u.load.range = x->u.load.range;
		return n;
	case STX_IN_CONST: return stx__inner_const(g, x->dtype, s, x->u.k);
	case STX_IN_INDEX:
		return stx__inner_index(g, x->dtype, s, stx_ex_subst(g->ex, x->u.ex, map, x->rank));
	case STX_IN_VIEW: return view_of_view(g, x, s, map);
	case STX_IN_MAP: /* memory in another type stays that */
		if (x->nops == 1 && x->u.steps.n == 1 && x->u.steps.at->op == STX_P_CAST &&
		    x->operands[0]->rule == STX_IN_LOAD)
			return stx__inner_cast(g, stx__inner_view(g, x->operands[0], s, map),
					       (enum stx_dtype)x->dtype);
		break;
	default: break;
	}
	op = stx_arena_copy(g->arena, &x, sizeof(struct stx__inner *));
	n = op ? record(g, STX_IN_VIEW, x->dtype, s, op, 1) : NULL;
	if (n) {
		n->u.map = map;
		read_at(n, x, map_weight(g->ex, map, x->rank));
	}
	return n;
}

struct stx__inner *stx__inner_pieces(struct stx_graph *g, enum stx_dtype t, struct stx__shape s,
				     struct stx__inner *const *operands,
				     const struct stx__piece *pieces, uint32_t n)
{
	struct stx__inner *const *ops = copy_operands(g, operands, n);
	struct stx__inner *r = ops ? record(g, STX_IN_PIECES, t, s, ops, n) : NULL;
	uint32_t i;

	if (!r)
		return NULL;
	r->u.pieces = pieces;
	for (i = 0; i < n; i++)
		r->ops = sat_add(r->ops, pieces[i].nconds + 1);
	r->nested = sat_add(r->nested, 1);
	use(r, STX_P_SELECT);
	return r;
}

struct stx__inner *stx__inner_indirect(struct stx_graph *g, struct stx__shape s,
				       struct stx__inner *const *operands, uint32_t nops,
				       const stx_ex *map, const struct stx__index *at)
{
	struct stx__inner *const *ops = copy_operands(g, operands, nops);
	struct stx__inner *r;

	r = ops && ops[0] ? record(g, STX_IN_INDIRECT, ops[0]->dtype, s, ops, nops) : NULL;
	if (!r)
		return NULL;
	r->u.indirect.map = map;
	read_at(r, ops[0], map_weight(g->ex, map, ops[0]->rank));
	r->u.indirect.at = at;
	r->ops = sat_add(r->ops, nops - 1);
	use(r, STX_B_INDIRECT);
	return r;
}

struct stx__inner *stx__inner_broadcast(struct stx_graph *g, struct stx__inner *x,
					struct stx__shape s)
{
	stx_ex *map;
	uint32_t d, lead;

	if (!x || same_sizes(x, s))
		return x;
	map = STX_NEW_ARRAY(g->arena, stx_ex, x->rank ? x->rank : 1u);
	if (!map)
		return NULL;
	lead = s.rank - x->rank;
	for (d = 0; d < x->rank; d++)
		map[d] = stx_ex_equals(g->ex, x->sizes[d], 1)
				 ? stx_ex_const(g->ex, 0)
				 : stx__axis(g->ex, lead + d, s.sizes[lead + d]);
	return stx__inner_view(g, x, s, map);
}

struct stx__inner *stx__inner_cast(struct stx_graph *g, struct stx__inner *x, enum stx_dtype t)
{
	struct stx__step st = { .op = STX_P_CAST, .dtype = (uint8_t)t };

	if (!x || x->dtype == t)
		return x;
	return stx__inner_map(g, (struct stx__shape){ x->rank, x->sizes }, &x, 1, &st, 1);
}
