/* rules_sort.c
 * argsort of rows: each element becomes an unsigned key whose order is the one asked for, and the
 * loop IR sorts keys (loops.h, STX_DEF_SORT).
 *
 * Order (NUMERICS): -0 and +0 are equal, NaN is greater than everything and equal to itself;
 * descending is the reverse order of keys, so that equal elements keep theirs in both. */
#include "lower.h"

#define MAX_STEPS 16

struct keys { /* steps of one MAP over operand 0 */
	struct stx__step at[MAX_STEPS];
	uint32_t n;
};

/* Reference of the new step. */
static uint16_t add(struct keys *k, uint8_t op, enum stx_dtype t, uint32_t a, uint32_t b,
		    uint32_t c)
{
	k->at[k->n++] = (struct stx__step){
		.op = op, .dtype = (uint8_t)t, .a = (uint16_t)a, .b = (uint16_t)b, .c = (uint16_t)c
	};
	return (uint16_t)k->n; /* operand 0 comes before the steps */
}

static uint16_t constant(struct keys *k, enum stx_dtype t, union stx_scalar v)
{
	uint16_t r = add(k, STX_B_CONST, t, 0, 0, 0);

	k->at[k->n - 1].k = v;
	return r;
}

/* Floats of t, with keys of type u: negative ones have all bits flipped, others the sign bit set.
 */
static void float_key(struct keys *k, enum stx_dtype t, enum stx_dtype u)
{
	union stx_scalar zero = { .f = 0 }, sign = { .u = UINT64_C(1) << 63 },
			 top = { .u = UINT64_MAX };
	uint16_t nan, bits, flipped, set, s;

	if (u == STX_U32) {
		sign.u = UINT64_C(1) << 31;
		top.u = UINT32_MAX;
	}
	nan = add(k, STX_P_ISNAN, STX_BOOL, 0, 0, 0);
	bits = add(k, STX_P_ADD, t, 0, constant(k, t, zero), 0); /* -0 + 0 is +0 */
	bits = add(k, STX_P_BITCAST, u, bits, 0, 0);
	s = constant(k, u, sign);
	flipped = add(k, STX_P_NOT, u, bits, 0, 0);
	set = add(k, STX_P_OR, u, bits, s, 0);
	s = add(k, STX_P_GE, STX_BOOL, bits, s, 0);
	s = add(k, STX_P_SELECT, u, s, flipped, set);
	add(k, STX_P_SELECT, u, nan, constant(k, u, top), s);
}

/* Signed integers: the sign bit is turned. */
static void signed_key(struct keys *k, enum stx_dtype u)
{
	union stx_scalar sign = { .u = u == STX_U32 ? UINT64_C(1) << 31 : UINT64_C(1) << 63 };
	uint16_t bits = add(k, STX_P_BITCAST, u, 0, 0, 0);

	add(k, STX_P_XOR, u, bits, constant(k, u, sign), 0);
}

static struct stx__inner *key_of(struct stx__lower *l, struct stx__inner *x, int descending)
{
	enum stx_dtype_kind kind = stx_dtype_kind((enum stx_dtype)x->dtype);
	int wide = stx_dtype_bytes((enum stx_dtype)x->dtype) == 8;
	enum stx_dtype u = wide ? STX_U64 : STX_U32, t = u;
	struct stx__shape s = { x->rank, x->sizes };
	struct keys k = { .n = 0 };

	if (kind == STX_KIND_FLOAT)
		t = wide ? STX_F64 : STX_F32;
	else if (kind == STX_KIND_INT)
		t = wide ? STX_I64 : STX_I32;
	if (!(x = stx__inner_cast(l->g, x, t)))
		return NULL;
	if (kind == STX_KIND_FLOAT)
		float_key(&k, t, u);
	else if (kind == STX_KIND_INT)
		signed_key(&k, u);
	if (descending)
		add(&k, STX_P_NOT, u, k.n, 0, 0);
	return k.n ? stx__inner_map(l->g, s, &x, 1, k.at, k.n) : x;
}

struct stx__inner *stx__rule_order(struct stx__lower *l, const struct stx_node *n)
{
	struct stx__inner *x;
	int64_t dim;

	if (n->op != STX_OP_ARGSORT_STABLE)
		return stx__lower_fail(l, STX_E_UNSUPPORTED, n, "%s has no lowering rule",
				       stx_op_info(n->op)->overload);
	if (!(x = stx__arg(l, n, 0)) || !stx__const_arg(l, n, n->args[2].u.ex, &dim))
		return NULL;
	if (x->rank != 2 || stx__dim(dim, 2) != 1)
		return stx__lower_fail(l, STX_E_INTERNAL, n, "a sort that is not of rows");
	if (stx_ex_equals(l->ex, x->sizes[1], 1))
		return stx__inner_const(l->g, STX_I64, stx__node_shape(n),
					(union stx_scalar){ .i = 0 });
	if (!(x = key_of(l, x, (int)n->args[3].u.i)))
		return NULL;
	return stx__realize_sort(l, n, x);
}
