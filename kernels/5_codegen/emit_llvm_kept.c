/* emit_llvm_kept.c: values of one vector loop that a later one computes again.
 *
 * Phases of a row (4_schedule/phases.c) compute what several of them need in each: the bits are the
 * same, and a subtraction costs less than memory. A value that takes many instructions is better
 * kept: the first loop leaves it in an array of the row, on the stack and so in the first cache,
 * and the second one reads it there; what only it needed is not emitted. Values are equal when
 * their instructions are, down to loads at the same index of memory that the kernel does not write.
 * Both loops stand in the same place, one after the other, and run over the same axis, so the
 * second one's elements were there in the first. Linear in the number of instructions. */
#include "emit_llvm.h"

#define MOST_BYTES ((int64_t)32 << 10) /* of all arrays of a kernel */
#define LEAST_COST 12                  /* instructions for a value; a store and a load for it */
#define MOST_COST  64                  /* counted no further */

struct search {
	struct stx__emit *e;
	uint32_t *same;   /* by instruction: the first one that computes its value */
	uint32_t *loop;   /* the VECTOR loop it stands in, with no other in between; or STX_NONE */
	uint32_t *parent; /* by LOOP: the loop around it, or STX_NONE */
	uint32_t *table, size;
	uint16_t *cost;
	uint8_t *varies; /* along the axis of its vector loop */
	uint8_t *needed;
	int64_t bytes_left;
};

static const struct stx_kinst *inst(const struct search *s, uint32_t n)
{
	return &s->e->k->insts.at[n];
}

static int is_pure(const struct search *s, uint32_t n)
{
	const struct stx_kinst *i = inst(s, n);
	if (i->op == STX_K_LOAD)
		return !s->e->k->params.at[i->a].is_written;
	return i->op < STX_PRIM_COUNT || i->op == STX_K_CONST || i->op == STX_K_INDEX;
}

/* Operands that are values. */
static void operands(const struct stx_kinst *i, uint32_t out[3])
{
	int has_a = i->op < STX_PRIM_COUNT || i->op == STX_K_INDIRECT;
	int has_b = i->op < STX_PRIM_COUNT || i->op == STX_K_STORE || i->op == STX_K_UPDATE;
	int is_marker = i->op == STX_K_LOOP || i->op == STX_K_END || i->op == STX_K_ACC ||
			i->op == STX_K_SORT || i->op == STX_K_CONST || i->op == STX_K_RESULT;
	out[0] = has_a ? i->a : STX_NONE;
	out[1] = has_b ? i->b : STX_NONE;
	out[2] = is_marker ? STX_NONE : i->c;
}

/* Instruction n, its operands by the first instructions with their values. */
static struct stx_kinst by_value(const struct search *s, uint32_t n)
{
	struct stx_kinst i = *inst(s, n);
	if (i.op < STX_PRIM_COUNT) {
		i.a = i.a == STX_NONE ? STX_NONE : s->same[i.a];
		i.b = i.b == STX_NONE ? STX_NONE : s->same[i.b];
	}
	if (i.op < STX_PRIM_COUNT || i.op == STX_K_LOAD)
		i.c = i.c == STX_NONE ? STX_NONE : s->same[i.c];
	return i;
}

/* The first instruction with n's value: n itself when there is none before. */
static uint32_t first_with(struct search *s, uint32_t n)
{
	struct stx_kinst key = by_value(s, n);
	uint32_t at = (uint32_t)stx_kinst_hash(&key) & (s->size - 1);
	for (; s->table[at] != STX_NONE; at = (at + 1) & (s->size - 1)) {
		struct stx_kinst other = by_value(s, s->table[at]);
		if (stx_kinst_equal(&key, &other))
			return s->table[at];
	}
	s->table[at] = n;
	return n;
}

static void find_equal(struct search *s)
{
	uint32_t in = STX_NONE;
	for (uint32_t n = 0; n < s->e->k->insts.n; n++) {
		const struct stx_kinst *i = inst(s, n);
		uint32_t of[3];
		s->same[n] = n;
		s->loop[n] = in != STX_NONE && s->e->k->axes.at[inst(s, in)->a].binding ==
						       STX_AXIS_VECTOR
				     ? in
				     : STX_NONE;
		s->parent[n] = in;
		if (i->op == STX_K_LOOP)
			in = n;
		if (i->op == STX_K_END)
			in = s->parent[i->a];
		if (!is_pure(s, n))
			continue;
		s->same[n] = first_with(s, n);
		uint32_t cost = i->op != STX_K_CONST;
		s->varies[n] = s->loop[n] != STX_NONE && i->ex != STX_EX_BAD &&
			       stx_ex_uses_var(s->e->k->ex, i->ex, inst(s, s->loop[n])->a);
		operands(i, of);
		for (int j = 0; j < 3; j++)
			if (of[j] != STX_NONE && s->loop[of[j]] == s->loop[n]) {
				cost += s->cost[of[j]];
				s->varies[n] |= s->varies[of[j]];
			}
		s->cost[n] = (uint16_t)(cost < MOST_COST ? cost : MOST_COST);
	}
}

/* n, in its loop, can be read from what the loop of m leaves. */
static int can_keep(const struct search *s, uint32_t n, uint32_t m)
{
	uint32_t p = s->loop[m], q = s->loop[n];
	const struct stx_kinst *i = inst(s, n);
	return m != n && p != STX_NONE && q != STX_NONE && p != q && s->parent[p] == s->parent[q] &&
	       inst(s, p)->a == inst(s, q)->a && s->cost[n] >= LEAST_COST && s->varies[n] &&
	       i->dtype != STX_BOOL && !stx__is_narrow((enum stx_dtype)i->dtype) &&
	       !s->e->kept[m].is_read;
}

static void keep(struct search *s, uint32_t n, uint32_t m)
{
	struct stx__emit *e = s->e;
	int64_t most = stx_ex_interval(e->k->ex, e->k->axes.at[inst(s, s->loop[m])->a].size).hi;
	int64_t bytes = (int64_t)stx_dtype_bytes((enum stx_dtype)inst(s, n)->dtype);
	if (!e->kept[m].elems) {
		if (most > MOST_BYTES || (most + 63) / 64 * 64 * bytes > s->bytes_left)
			return;
		e->kept[m].elems = (uint32_t)((most + 63) / 64 * 64);
		s->bytes_left -= e->kept[m].elems * bytes;
	}
	e->kept[n].is_read = 1;
	e->kept[n].from = m;
}

/* Backwards: what is needed, where a value that can be kept ends the need of its operands. */
static void choose(struct search *s)
{
	for (uint32_t n = s->e->k->insts.n; n-- > 0;) {
		uint32_t of[3];
		if (!is_pure(s, n))
			s->needed[n] = 1;
		if (!s->needed[n]) {
			s->e->kept[n].is_dead = 1;
			continue;
		}
		if (is_pure(s, n) && can_keep(s, n, s->same[n]))
			keep(s, n, s->same[n]);
		if (s->e->kept[n].is_read)
			s->needed[s->e->kept[n].from] = 1;
		operands(inst(s, n), of);
		for (int j = 0; j < 3 && !s->e->kept[n].is_read; j++)
			if (of[j] != STX_NONE)
				s->needed[of[j]] = 1;
	}
}

void stx__find_kept(struct stx__emit *e)
{
	uint32_t n = e->k->insts.n, size = 16;
	while (size < 2 * n)
		size *= 2;
	struct search s = { .e = e, .size = size, .bytes_left = MOST_BYTES };
	s.same = STX_NEW_ARRAY(e->arena, uint32_t, n + 1);
	s.loop = STX_NEW_ARRAY(e->arena, uint32_t, n + 1);
	s.parent = STX_NEW_ARRAY(e->arena, uint32_t, n + 1);
	s.table = STX_NEW_ARRAY(e->arena, uint32_t, size);
	s.cost = STX_NEW_ARRAY(e->arena, uint16_t, n + 1);
	s.varies = STX_NEW_ARRAY(e->arena, uint8_t, n + 1);
	s.needed = STX_NEW_ARRAY(e->arena, uint8_t, n + 1);
	if (!s.same || !s.loop || !s.parent || !s.table || !s.cost || !s.varies || !s.needed) {
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
		return;
	}
	for (uint32_t i = 0; i < size; i++)
		s.table[i] = STX_NONE;
	find_equal(&s);
	choose(&s);
}

/* The place of the copy being emitted in the array of value n. */
static LLVMValueRef place(struct stx__emit *e, uint32_t n)
{
	struct stx__kept *k = &e->kept[n];
	LLVMTypeRef t = stx__type(e, (enum stx_dtype)e->k->insts.at[n].dtype);
	LLVMValueRef at = e->axis[e->vaxis], by = stx__i64(e, (int64_t)e->copy * e->w);
	if (!k->array)
		k->array = stx__alloca(e, LLVMArrayType2(t, k->elems), 64);
	LLVMValueRef p = LLVMBuildGEP2(e->b, t, k->array, &at, 1, "");
	return LLVMBuildGEP2(e->b, t, p, &by, 1, "");
}

void stx__kept_write(struct stx__emit *e, uint32_t n)
{
	LLVMValueRef s = LLVMBuildStore(e->b, stx__get(e, n, e->w).v, place(e, n));
	LLVMSetAlignment(s, (unsigned)stx_dtype_bytes((enum stx_dtype)e->k->insts.at[n].dtype));
}

/* Lanes past the end hold anything. */
void stx__kept_read(struct stx__emit *e, uint32_t n)
{
	enum stx_dtype t = (enum stx_dtype)e->k->insts.at[n].dtype;
	LLVMTypeRef type = stx__vec(stx__type(e, t), e->w);
	LLVMValueRef v = LLVMBuildLoad2(e->b, type, place(e, e->kept[n].from), "");
	LLVMSetAlignment(v, (unsigned)stx_dtype_bytes(t));
	stx__set(e, n, (struct stx__val){ LLVMBuildFreeze(e->b, v, ""), NULL });
}
