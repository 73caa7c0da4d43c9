/* rules_random.c
 * counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers:
 * as easy as 1, 2, 3; SC 2011), so that a value computed twice is the same value (B55).
 *
 * Element i of a node has its own block of four words: counter {i, offset + stream}, 64 bits each,
 * key {seed}. NUMERICS.md says what is made of the words. */
#include "elementary.h"
#include "lower.h"

#define ROUNDS    10
#define MAX_STEPS 320

/* Steps of one MAP. Operands: the element's number (i64), then seed and offset unless they are
 * numbers. */
struct program {
	struct stx__step at[MAX_STEPS];
	uint32_t n, nops;
};

static uint32_t add(struct program *p, uint8_t op, enum stx_dtype t, uint32_t a, uint32_t b,
		    uint32_t c)
{
	p->at[p->n] = (struct stx__step){
		.op = op, .dtype = (uint8_t)t, .a = (uint16_t)a, .b = (uint16_t)b, .c = (uint16_t)c
	};
	return p->nops + p->n++;
}

static uint32_t number(struct program *p, enum stx_dtype t, union stx_scalar v)
{
	uint32_t r = add(p, STX_B_CONST, t, 0, 0, 0);

	p->at[p->n - 1].k = v;
	return r;
}

static uint32_t whole(struct program *p, uint64_t v)
{
	return number(p, STX_U64, (union stx_scalar){ .u = v });
}

static uint32_t two(struct program *p, enum stx_prim op, uint32_t a, uint32_t b)
{
	return add(p, (uint8_t)op, STX_U64, a, b, 0);
}

static uint32_t low(struct program *p, uint32_t v)
{
	return two(p, STX_P_AND, v, whole(p, UINT32_MAX));
}

static uint32_t high(struct program *p, uint32_t v)
{
	return two(p, STX_P_LSHR, v, whole(p, 32));
}

/* Words are u64 values below 2^32. */
static void philox(struct program *p, uint32_t c[4], uint32_t key[2])
{
	static const uint64_t multiplier[2] = { 0xD2511F53, 0xCD9E8D57 },
			      weyl[2] = { 0x9E3779B9, 0xBB67AE85 };
	int round, i;

	for (round = 0; round < ROUNDS; round++) {
		uint32_t a = two(p, STX_P_MUL, c[0], whole(p, multiplier[0]));
		uint32_t b = two(p, STX_P_MUL, c[2], whole(p, multiplier[1]));

		c[0] = two(p, STX_P_XOR, two(p, STX_P_XOR, high(p, b), c[1]), key[0]);
		c[2] = two(p, STX_P_XOR, two(p, STX_P_XOR, high(p, a), c[3]), key[1]);
		c[1] = low(p, b);
		c[3] = low(p, a);
		for (i = 0; i < 2 && round + 1 < ROUNDS; i++)
			key[i] = low(p, two(p, STX_P_ADD, key[i], whole(p, weyl[i])));
	}
}

/* The top `bits` bits of a word, or of two, as an integer of t that holds them. */
static uint32_t top_bits(struct program *p, uint32_t hi, uint32_t lo, unsigned bits)
{
	if (bits <= 32)
		return two(p, STX_P_LSHR, hi, whole(p, 32 - bits));
	hi = two(p, STX_P_SHL, hi, whole(p, bits - 32));
	return two(p, STX_P_OR, hi, two(p, STX_P_LSHR, lo, whole(p, 64 - bits)));
}

/* v * 2^-bits as t, f32 or f64: exact. Vectors convert i32 and i64, not u64. */
static uint32_t fraction(struct program *p, enum stx_dtype t, uint32_t v, unsigned bits)
{
	union stx_scalar unit = { .f = 1 };
	unsigned i;

	for (i = 0; i < bits; i++)
		unit.f /= 2;
	v = add(p, STX_P_CAST, t == STX_F64 ? STX_I64 : STX_I32, v, 0, 0);
	v = add(p, STX_P_CAST, t, v, 0, 0);
	return add(p, STX_P_MUL, t, v, number(p, t, unit), 0);
}

static uint32_t uniform(struct program *p, enum stx_dtype t, const uint32_t w[4])
{
	unsigned bits = t == STX_F64 ? 53 : t == STX_F32 ? 24 : t == STX_F16 ? 11 : 8;
	enum stx_dtype work = t == STX_F64 ? STX_F64 : STX_F32;

	return fraction(p, work, top_bits(p, w[0], w[1], bits), bits);
}

/* Box and Muller: sqrt(-2 log u) cos(2 pi v), u in (0, 1], v in [0, 1). */
static uint32_t normal(struct program *p, enum stx_dtype t, const uint32_t w[4])
{
	enum stx_dtype work = t == STX_F64 ? STX_F64 : STX_F32;
	unsigned bits = work == STX_F64 ? 53 : 24, two_words = work == STX_F64;
	uint32_t one = whole(p, 1), u, v;
	union stx_scalar k = { .f = -2 };

	u = two(p, STX_P_ADD, top_bits(p, w[0], w[1], bits), one);
	u = fraction(p, work, u, bits);
	v = fraction(p, work, top_bits(p, w[two_words ? 2 : 1], w[3], bits), bits);
	u = add(p, STX_P_LOG, work, u, 0, 0);
	u = add(p, STX_P_MUL, work, u, number(p, work, k), 0);
	u = add(p, STX_P_SQRT, work, u, 0, 0);
	k.f = 6.283185307179586;
	if (work == STX_F32)
		k = stx_prim_eval(STX_P_CAST, STX_F32, STX_F64, k, k, k);
	v = add(p, STX_P_MUL, work, v, number(p, work, k), 0);
	v = add(p, STX_P_COS, work, v, 0, 0);
	return add(p, STX_P_MUL, work, u, v, 0);
}

/* Element `at` of the state, the same at every point of s. */
static struct stx__inner *state_element(struct stx__lower *l, struct stx__inner *state, int64_t at,
					struct stx__shape s)
{
	stx_ex *map = STX_NEW_ARRAY(l->arena, stx_ex, 1);

	if (!map)
		return NULL;
	map[0] = stx_ex_const(l->ex, at);
	return stx__inner_view(l->g, state, s, map);
}

static stx_ex element_number(struct stx__lower *l, struct stx__shape s)
{
	stx_ex strides[STX_MAX_DIMS];

	stx__row_major(l->ex, s, strides);
	return stx__address(l->ex, s, strides, stx_ex_const(l->ex, 0));
}

/* Arguments from `first` on: state, stream. */
static void block(struct stx__lower *l, const struct stx_node *n, uint32_t first, int has_state,
		  struct program *p, uint32_t w[4])
{
	int64_t stream = 0;
	uint32_t i = add(p, STX_P_CAST, STX_U64, 0, 0, 0), seed, offset, key[2];

	stx_ex_is_const(l->ex, n->args[first + 1].u.ex, &stream);
	seed = has_state ? add(p, STX_P_CAST, STX_U64, 1, 0, 0) : whole(p, 0);
	offset = whole(p, (uint64_t)stream);
	if (has_state)
		offset = two(p, STX_P_ADD, add(p, STX_P_CAST, STX_U64, 2, 0, 0), offset);
	w[0] = low(p, i);
	w[1] = high(p, i);
	w[2] = low(p, offset);
	w[3] = high(p, offset);
	key[0] = low(p, seed);
	key[1] = high(p, seed);
	philox(p, w, key);
}

struct stx__inner *stx__rule_random(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__shape s = stx__node_shape(n);
	enum stx_dtype t = n->outs[0].dtype;
	uint32_t first = n->op == STX_OP_RANDOM_BITS ? 1 : 2, w[4];
	int has_state = n->args[first].kind == STX_ARG_TENSOR;
	struct program *p = STX_NEW(l->arena, struct program);
	struct stx__inner *ops[3] = { stx__inner_index(l->g, STX_I64, s, element_number(l, s)) };
	struct stx__inner *state = has_state ? stx__arg(l, n, first) : NULL, *r;

	if (!p || !ops[0] || (has_state && !state))
		return NULL;
	for (int64_t i = 0; i < 2 && has_state; i++)
		if (!(ops[i + 1] = state_element(l, state, i, s)))
			return NULL;
	p->nops = has_state ? 3 : 1;
	block(l, n, first, has_state, p, w);
	if (n->op == STX_OP_RANDOM_BITS)
		add(p, STX_P_CAST, STX_I64,
		    two(p, STX_P_OR, w[0], two(p, STX_P_SHL, w[1], whole(p, 32))), 0, 0);
	else if (n->op == STX_OP_RAND)
		uniform(p, t, w);
	else
		normal(p, t, w);
	r = stx__inner_map(l->g, s, ops, p->nops, p->at, p->n);
	return r ? stx__inner_cast(l->g, r, t) : NULL;
}
