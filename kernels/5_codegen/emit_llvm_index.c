/* emit_llvm_index.c: index expressions to LLVM: uniform ones as i64, varying ones as vectors.
 *
 * Offsets are affine in the vector axis in nearly every kernel, so an access is classified first:
 * uniform, contiguous, strided, or, for what is left (division of the axis, varying indirect
 * values), a vector of indices. Scalars are always 64 bits wide, which costs nothing; vectors are
 * 32 bits wide where the kernel allows it and the intervals of all parts prove it. Recursion is
 * bounded by STX_EX_MAX_DEPTH, which every expression keeps. */
#include "emit_llvm.h"

static int atom_varies(struct stx__emit *e, uint32_t id);

static int varies(struct stx__emit *e, stx_ex ex)
{
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++)
			if (atom_varies(e, t.atoms[j]))
				return 1;
	}
	return 0;
}

static int atom_varies(struct stx__emit *e, uint32_t id)
{
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, id);
	switch (a.kind) {
	case STX_ATOM_VAR: return e->w > 1 && a.number == e->vaxis;
	case STX_ATOM_SYM: return 0;
	case STX_ATOM_INDIRECT: return stx__lanes_of(e, a.number) > 1;
	default: return varies(e, a.a) || varies(e, a.b);
	}
}

int stx__ex_varies(struct stx__emit *e, stx_ex ex)
{
	return varies(e, ex);
}

/* ---- arithmetic on scalars and vectors alike ---- */

/* A vector of divisors is made at least 1: in lanes beyond the end of the axis the interval does
 * not hold, and a division by zero in one lane is undefined for all. */
static LLVMValueRef safe_divisor(struct stx__emit *e, stx_ex ex, LLVMValueRef b)
{
	LLVMTypeRef t = LLVMTypeOf(b);
	int vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
	if (stx_ex_is_const(e->k->ex, ex, NULL) ||
	    (!vector && stx_ex_interval(e->k->ex, ex).lo > 0))
		return b;
	LLVMValueRef args[2] = { b, stx__int(t, 1) };
	return stx__call(e, "llvm.smax", &t, 1, args, 2);
}

static LLVMValueRef build_div(struct stx__emit *e, const struct stx_ex_atom *atom, LLVMValueRef a,
			      LLVMValueRef b)
{
	LLVMTypeRef t = LLVMTypeOf(a);
	enum stx_atom_kind kind = atom->kind;
	b = safe_divisor(e, atom->b, b);
	if (stx_ex_interval(e->k->ex, atom->a).lo >= 0)
		return kind == STX_ATOM_MOD ? LLVMBuildURem(e->b, a, b, "")
					    : LLVMBuildUDiv(e->b, a, b, "");
	LLVMValueRef q = LLVMBuildSDiv(e->b, a, b, "");
	if (kind == STX_ATOM_TRUNCDIV)
		return q;
	/* the divisor is positive: floor when the remainder is negative */
	LLVMValueRef rem = LLVMBuildSub(e->b, a, LLVMBuildMul(e->b, q, b, ""), "");
	LLVMValueRef neg = stx__icmp(e, LLVMIntSLT, rem, stx__int(t, 0));
	if (kind == STX_ATOM_MOD)
		return LLVMBuildAdd(e->b, rem, stx__select(e, neg, b, stx__int(t, 0)), "");
	return LLVMBuildSub(e->b, q, stx__select(e, neg, stx__int(t, 1), stx__int(t, 0)), "");
}

static LLVMValueRef build_pair(struct stx__emit *e, const struct stx_ex_atom *a, LLVMValueRef x,
			       LLVMValueRef y)
{
	LLVMTypeRef t = LLVMTypeOf(x);
	LLVMValueRef args[2] = { x, y };
	switch (a->kind) {
	case STX_ATOM_MIN: return stx__call(e, "llvm.smin", &t, 1, args, 2);
	case STX_ATOM_MAX: return stx__call(e, "llvm.smax", &t, 1, args, 2);
	default: return build_div(e, a, x, y);
	}
}

/* ---- uniform ---- */

static LLVMValueRef scalar_ex(struct stx__emit *e, stx_ex ex);

static LLVMValueRef scalar_symbol(struct stx__emit *e, uint32_t number)
{
	for (uint32_t i = 0; i < e->k->scalars.n; i++)
		if (e->k->scalars.at[i] == number)
			return e->scalars[i];
	stx__fail(e, STX_E_INVALID, "size symbol %u is not a scalar argument", number);
	return stx__i64(e, 0);
}

static LLVMValueRef scalar_atom(struct stx__emit *e, uint32_t id)
{
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, id);
	LLVMValueRef v;
	switch (a.kind) {
	case STX_ATOM_VAR:
		v = a.number < STX_KERNEL_MAX_AXES ? e->axis[a.number] : NULL;
		if (v)
			return v;
		stx__fail(e, STX_E_INVALID, "variable %u is used outside its loop", a.number);
		return stx__i64(e, 0);
	case STX_ATOM_SYM: return scalar_symbol(e, a.number);
	case STX_ATOM_INDIRECT: return stx__get(e, a.number, 1).v;
	default: return build_pair(e, &a, scalar_ex(e, a.a), scalar_ex(e, a.b));
	}
}

/* The innermost loop whose variable an expression mentions. */
static unsigned depth_of(struct stx__emit *e, stx_ex ex);

static unsigned atom_depth(struct stx__emit *e, uint32_t id)
{
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, id);
	switch (a.kind) {
	case STX_ATOM_VAR: return a.number < STX_KERNEL_MAX_AXES ? e->axis_depth[a.number] : 0;
	case STX_ATOM_SYM: return 0;
	case STX_ATOM_INDIRECT: return e->depth;
	default: {
		unsigned x = depth_of(e, a.a), y = depth_of(e, a.b);
		return x > y ? x : y;
	}
	}
}

static unsigned term_depth(struct stx__emit *e, const struct stx_ex_term *t)
{
	unsigned deepest = 0;
	for (uint32_t j = 0; j < t->natoms; j++) {
		unsigned d = atom_depth(e, t->atoms[j]);
		deepest = d > deepest ? d : deepest;
	}
	return deepest;
}

static unsigned depth_of(struct stx__emit *e, stx_ex ex)
{
	unsigned deepest = 0;
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		unsigned d = term_depth(e, &t);
		deepest = d > deepest ? d : deepest;
	}
	return deepest;
}

static void add_part(struct stx__emit *e, struct stx__sum *s, unsigned depth, LLVMValueRef v)
{
	s->at[depth] = s->at[depth] ? LLVMBuildAdd(e->b, s->at[depth], v, "") : v;
}

static struct stx__sum sum_of(struct stx__emit *e, stx_ex ex)
{
	struct stx__sum s = { .constant = stx_ex_constant(e->k->ex, ex) };
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		LLVMValueRef v = scalar_atom(e, t.atoms[0]);
		for (uint32_t j = 1; j < t.natoms; j++)
			v = LLVMBuildMul(e->b, v, scalar_atom(e, t.atoms[j]), "");
		if (t.coeff != 1)
			v = LLVMBuildMul(e->b, v, stx__i64(e, t.coeff), "");
		if (LLVMIsAConstantInt(v)) /* of an unrolled loop: equal addresses look equal */
			s.constant += LLVMConstIntGetSExtValue(v);
		else
			add_part(e, &s, term_depth(e, &t), v);
	}
	return s;
}

static LLVMValueRef scalar_ex(struct stx__emit *e, stx_ex ex)
{
	struct stx__sum s = sum_of(e, ex);
	LLVMValueRef sum = NULL;
	for (unsigned d = 0; d < STX__DEPTHS; d++)
		if (s.at[d])
			sum = sum ? LLVMBuildAdd(e->b, sum, s.at[d], "") : s.at[d];
	if (!sum)
		return stx__i64(e, s.constant);
	return s.constant ? LLVMBuildAdd(e->b, sum, stx__i64(e, s.constant), "") : sum;
}

LLVMValueRef stx__ex_scalar(struct stx__emit *e, stx_ex ex)
{
	return scalar_ex(e, ex);
}

/* ---- varying ---- */

static int fits32(struct stx__emit *e, stx_ex ex)
{
	struct stx_interval r = stx_ex_interval(e->k->ex, ex);
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	if (r.lo < INT32_MIN || r.hi > INT32_MAX)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, t.atoms[j]);
			if (a.kind >= STX_ATOM_FLOORDIV && (!fits32(e, a.a) || !fits32(e, a.b)))
				return 0;
		}
	}
	return 1;
}

/* i64 scalar to a vector of t. */
static LLVMValueRef spread(struct stx__emit *e, LLVMValueRef v, LLVMTypeRef t)
{
	if (t == e->i32)
		v = LLVMBuildTrunc(e->b, v, t, "");
	return stx__splat(e, v, e->w);
}

static LLVMValueRef axis_lanes(struct stx__emit *e, LLVMTypeRef t)
{
	LLVMValueRef at =
		LLVMBuildAdd(e->b, e->axis[e->vaxis], stx__i64(e, (int64_t)e->copy * e->w), "");
	return LLVMBuildAdd(e->b, spread(e, at, t), stx__iota(e, t, e->w, 1), "");
}

static LLVMValueRef vector_ex(struct stx__emit *e, stx_ex ex, LLVMTypeRef t);

static LLVMValueRef vector_atom(struct stx__emit *e, uint32_t id, LLVMTypeRef t)
{
	struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, id);
	if (!atom_varies(e, id))
		return spread(e, scalar_atom(e, id), t);
	if (a.kind == STX_ATOM_VAR)
		return axis_lanes(e, t);
	if (a.kind == STX_ATOM_INDIRECT) {
		LLVMValueRef v = stx__get(e, a.number, e->w).v;
		return t == e->i32 ? LLVMBuildTrunc(e->b, v, stx__vec(t, e->w), "") : v;
	}
	return build_pair(e, &a, vector_ex(e, a.a, t), vector_ex(e, a.b, t));
}

static LLVMValueRef vector_ex(struct stx__emit *e, stx_ex ex, LLVMTypeRef t)
{
	LLVMValueRef sum = spread(e, stx__i64(e, stx_ex_constant(e->k->ex, ex)), t);
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term m = stx_ex_term_at(e->k->ex, ex, i);
		LLVMValueRef v = vector_atom(e, m.atoms[0], t);
		for (uint32_t j = 1; j < m.natoms; j++)
			v = LLVMBuildMul(e->b, v, vector_atom(e, m.atoms[j], t), "");
		if (m.coeff != 1)
			v = LLVMBuildMul(e->b, v, stx__int(stx__vec(t, e->w), (uint64_t)m.coeff),
					 "");
		sum = LLVMBuildAdd(e->b, sum, v, "");
	}
	return sum;
}

LLVMValueRef stx__ex_lanes(struct stx__emit *e, stx_ex ex)
{
	LLVMTypeRef t = e->k->index_bits == 32 && fits32(e, ex) ? e->i32 : e->i64;
	return vector_ex(e, ex, t);
}

/* Floor division of the vector axis, which begins at multiples of w, by a multiple of w: one value
 * for all lanes of a vector, another one for the next. */
static int is_step(struct stx__emit *e, const struct stx_ex_atom *a)
{
	stx_ex coeff, rest;
	int64_t d, c;
	if (a->kind != STX_ATOM_FLOORDIV || !stx_ex_is_const(e->k->ex, a->b, &d) || d % e->w ||
	    !stx_ex_linear_in(e->k->ex, a->a, e->vaxis, &coeff, &rest) ||
	    !stx_ex_equals(e->k->ex, coeff, 1))
		return 0;
	return stx_ex_is_const(e->k->ex, rest, &c) && c % e->w == 0;
}

/* Nothing but such steps changes along the vector. */
static int varies_in_steps(struct stx__emit *e, stx_ex ex)
{
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, t.atoms[j]);
			if (!atom_varies(e, t.atoms[j]) || is_step(e, &a))
				continue;
			if (a.kind < STX_ATOM_FLOORDIV || !varies_in_steps(e, a.a) ||
			    !varies_in_steps(e, a.b))
				return 0;
		}
	}
	return 1;
}

struct stx__index stx__ex_index(struct stx__emit *e, stx_ex ex)
{
	struct stx__index x = { .kind = STX__UNIFORM };
	stx_ex coeff, rest;
	int64_t c, ahead = (int64_t)e->copy * e->w;
	if (!stx__ex_varies(e, ex)) {
		x.sum = sum_of(e, ex);
		return x;
	}
	if (!e->tile && varies_in_steps(e, ex)) {
		LLVMValueRef now = e->axis[e->vaxis];
		e->axis[e->vaxis] = LLVMBuildAdd(e->b, now, stx__i64(e, ahead), "");
		x.sum = sum_of(e, ex);
		e->axis[e->vaxis] = now;
		return x;
	}
	if (!stx_ex_linear_in(e->k->ex, ex, e->vaxis, &coeff, &rest) || stx__ex_varies(e, rest) ||
	    stx__ex_varies(e, coeff)) {
		x.kind = STX__GATHER;
		x.lanes = stx__ex_lanes(e, ex);
		return x;
	}
	LLVMValueRef first = e->axis[e->vaxis];
	unsigned depth = e->axis_depth[e->vaxis];
	x.sum = sum_of(e, rest);
	x.kind = STX__CONTIGUOUS;
	if (!stx_ex_equals(e->k->ex, coeff, 1)) {
		x.kind = STX__STRIDED;
		x.stride = stx__ex_scalar(e, coeff);
		first = LLVMBuildMul(e->b, first, x.stride, "");
	}
	add_part(e, &x.sum, depth, first);
	/* the copy's distance becomes the displacement of the address */
	if (stx_ex_is_const(e->k->ex, coeff, &c))
		x.sum.constant =
			(int64_t)((uint64_t)x.sum.constant + (uint64_t)ahead * (uint64_t)c);
	else if (ahead)
		add_part(e, &x.sum, depth, LLVMBuildMul(e->b, stx__i64(e, ahead), x.stride, ""));
	return x;
}

struct stx__index stx__across_index(struct stx__emit *e, const struct stx__across *a)
{
	struct stx__index x = { .kind = STX__CONTIGUOUS };
	LLVMValueRef row = LLVMBuildMul(e->b, e->axis[a->serial], stx__i64(e, a->pitch), "");
	add_part(e, &x.sum, e->axis_depth[a->serial], row);
	add_part(e, &x.sum, e->axis_depth[e->vaxis], e->axis[e->vaxis]);
	x.sum.constant = (int64_t)e->copy * e->w;
	return x;
}

/* ---- bounds ---- */

static LLVMValueRef ok_of(struct stx__emit *e, stx_ex ex, int all, unsigned w, LLVMValueRef so_far)
{
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, t.atoms[j]);
			if (a.kind >= STX_ATOM_FLOORDIV) {
				so_far = ok_of(e, a.a, all, w, so_far);
				so_far = ok_of(e, a.b, all, w, so_far);
			}
			if (a.kind != STX_ATOM_INDIRECT)
				continue;
			LLVMValueRef ok = e->ok[(size_t)a.number * e->stride +
						(e->varying[a.number] ? e->copy : 0)];
			stx_ex bound = e->k->insts.at[a.number].ex;
			if (!ok || (!all && stx_ex_interval(e->k->ex, bound).lo > 0))
				continue;
			if (stx__lanes_of(e, a.number) < w)
				ok = stx__splat(e, ok, w);
			so_far = so_far ? LLVMBuildAnd(e->b, so_far, ok, "") : ok;
		}
	}
	return so_far;
}

LLVMValueRef stx__ex_ok(struct stx__emit *e, stx_ex ex, int all, unsigned w)
{
	return ok_of(e, ex, all, w, NULL);
}
