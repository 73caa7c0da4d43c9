/* kernel_verify.c: what every kernel must satisfy before it is printed, hashed or emitted.
 *
 * requires: nothing; the kernel may come from text written by anybody. ensures: an emitter that
 * trusts the meaning in kernel.h indexes no table out of range and finds every operand defined and
 * of the right type. One pass over the instructions; cost is linear in their number and in the size
 * of their expressions. */
#include "kernel_impl.h"

struct acc_state {
	uint32_t loop; /* the LOOP instruction it runs over, or STX_NONE */
	uint8_t updates, ended;
};

struct verify {
	const struct stx_kernel *k;
	struct stx_diag *d;
	uint32_t at;                          /* instruction being checked */
	uint32_t loops[STX_KERNEL_MAX_LOOPS]; /* open LOOPs, outermost first */
	uint32_t depth;
	uint64_t open_axes;
	uint32_t *scope;           /* of each value: LOOP around it or STX_NONE */
	uint8_t *open;             /* LOOP instructions now open */
	struct acc_state *acc;     /* by instruction */
	STX_VEC(uint32_t) pending; /* ACCs waiting for their loop */
};

#define BAD(v, ...) bad((v), __VA_ARGS__)

static stx_err __attribute__((format(printf, 2, 3))) bad(struct verify *v, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	stx_err err = stx_vfail(v->d, STX_E_INVALID, "kernel", v->k->name, fmt, ap);
	va_end(ap);
	stx_diag_at(v->d, "instruction %u", v->at);
	return err;
}

/* ---- expressions ---- */

static int value_visible(const struct verify *v, uint32_t n)
{
	return n < v->at && stx__kinst_defines(&v->k->insts.at[n]) &&
	       (v->scope[n] == STX_NONE || v->open[v->scope[n]]);
}

static stx_err check_atom(void *ctx, const struct stx_ex_atom *a)
{
	struct verify *v = ctx;
	switch (a->kind) {
	case STX_ATOM_VAR:
		if (a->number >= v->k->axes.n || !(v->open_axes >> a->number & 1))
			return BAD(v, "variable %u is used outside its loop", a->number);
		if (a->a != v->k->axes.at[a->number].size)
			return BAD(v, "variable %u has another size than its axis", a->number);
		return STX_E_OK;
	case STX_ATOM_SYM:
		if (stx__kernel_scalar(v->k, a->number) < 0)
			return BAD(v, "size symbol %u is not a scalar argument", a->number);
		return STX_E_OK;
	case STX_ATOM_INDIRECT:
		if (a->number >= v->k->insts.n || v->k->insts.at[a->number].op != STX_K_INDIRECT ||
		    !value_visible(v, a->number))
			return BAD(v, "indirect value %u is not visible", a->number);
		return STX_E_OK;
	default: return STX_E_OK;
	}
}

static stx_err check_ex(struct verify *v, stx_ex e, const char *what)
{
	if (e == STX_EX_BAD)
		return BAD(v, "%s is missing or overflows 64 bits", what);
	stx_err err = stx__ex_walk(v->k->ex, e, check_atom, v);
	return err == STX_E_TOO_LARGE ? BAD(v, "%s is too large", what) : err;
}

/* Every term is a coefficient times one variable of an axis of constant size: then the interval's
 * ends are reached, and one outside the parameter is a fault, not imprecision. */
static int is_affine(const struct stx_kernel *k, stx_ex e)
{
	uint32_t n = stx_ex_nterms(k->ex, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(k->ex, e, i);
		if (t.natoms != 1)
			return 0;
		struct stx_ex_atom a = stx_ex_atom_at(k->ex, t.atoms[0]);
		int64_t size;
		if (a.kind != STX_ATOM_VAR || !stx_ex_is_const(k->ex, a.a, &size) || size < 1)
			return 0;
	}
	return 1;
}

/* When e is c*v + rest, c > 0, with v's size min(A, B): both e[v := A-1] and e[v := B-1] bound it.
 */
static int chunk_bounds(const struct stx_kernel *k, stx_ex e, stx_ex bound[2])
{
	uint32_t n = stx_ex_nterms(k->ex, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(k->ex, e, i);
		struct stx_ex_atom a = stx_ex_atom_at(k->ex, t.atoms[0]);
		stx_ex coeff, rest;
		if (t.natoms != 1 || a.kind != STX_ATOM_VAR || t.coeff <= 0 ||
		    stx_ex_nterms(k->ex, a.a) != 1 || stx_ex_constant(k->ex, a.a))
			continue;
		struct stx_ex_term s = stx_ex_term_at(k->ex, a.a, 0);
		struct stx_ex_atom m = stx_ex_atom_at(k->ex, s.atoms[0]);
		if (s.coeff != 1 || s.natoms != 1 || m.kind != STX_ATOM_MIN ||
		    !stx_ex_linear_in(k->ex, e, a.number, &coeff, &rest))
			continue;
		const stx_ex ends[2] = { m.a, m.b };
		for (int j = 0; j < 2; j++)
			bound[j] = stx_ex_add(
				k->ex, rest,
				stx_ex_mul(k->ex, coeff, stx_ex_addi(k->ex, ends[j], -1)));
		return 1;
	}
	return 0;
}

/* Unmasked accesses must not be provably outside [0, elems). */
static stx_err check_range(struct verify *v, const struct stx_kinst *i)
{
	const struct stx_kernel *k = v->k;
	int64_t elems;
	if (i->c != STX_NONE || !stx_ex_is_const(k->ex, k->params.at[i->a].elems, &elems))
		return STX_E_OK;
	stx_ex bound[2] = { i->ex, i->ex };
	if (!is_affine(k, i->ex) && !chunk_bounds(k, i->ex, bound))
		return STX_E_OK;
	if (!is_affine(k, bound[0]) || !is_affine(k, bound[1]))
		return STX_E_OK;
	struct stx_interval p = stx_ex_interval(k->ex, bound[0]),
			    q = stx_ex_interval(k->ex, bound[1]);
	int64_t hi = p.hi < q.hi ? p.hi : q.hi, lo = p.lo < q.lo ? p.lo : q.lo;
	if (hi >= elems || (lo < 0 && bound[0] == bound[1]))
		return BAD(v, "an access reaches element %lld of a parameter of %lld",
			   (long long)(hi >= elems ? hi : lo), (long long)elems);
	return STX_E_OK;
}

/* ---- values ---- */

static stx_err check_value(struct verify *v, uint32_t n, const char *what)
{
	if (!value_visible(v, n))
		return BAD(v, "%s names a value that is not visible here", what);
	if (v->k->insts.at[n].op == STX_K_ACC)
		return BAD(v, "%s names an accumulator", what);
	return STX_E_OK;
}

static stx_err check_typed(struct verify *v, uint32_t n, enum stx_dtype t, const char *what)
{
	stx_err err = check_value(v, n, what);
	if (!err && v->k->insts.at[n].dtype != t)
		return BAD(v, "%s is %s, not %s", what,
			   stx_dtype_name((enum stx_dtype)v->k->insts.at[n].dtype),
			   stx_dtype_name(t));
	return err;
}

static stx_err check_mask(struct verify *v, uint32_t n)
{
	return n == STX_NONE ? STX_E_OK : check_typed(v, n, STX_BOOL, "the mask");
}

static stx_err check_prim_types(struct verify *v, const struct stx_kinst *i)
{
	enum stx_prim p = (enum stx_prim)i->op;
	const struct stx_prim_info *info = stx_prim_info(p);
	const struct stx_kinst *in = v->k->insts.at;
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	enum stx_dtype from = (enum stx_dtype)in[p == STX_P_SELECT ? i->b : i->a].dtype;
	int moves = p == STX_P_SELECT || p == STX_P_CAST || p == STX_P_BITCAST;
	if (!stx_prim_accepts(p, from))
		return BAD(v, "%s does not take %s", info->text, stx_dtype_name(from));
	if (!moves && stx__dtype_is_narrow_float(from))
		return BAD(v, "%s on %s: arithmetic is in f32 or f64", info->text,
			   stx_dtype_name(from));
	if (p == STX_P_SELECT) {
		if (in[i->a].dtype != STX_BOOL || in[i->c].dtype != from || t != from)
			return BAD(v, "select takes a bool and two values of its own type");
		return STX_E_OK;
	}
	if ((info->arity > 1 && in[i->b].dtype != from) ||
	    (info->arity > 2 && in[i->c].dtype != from))
		return BAD(v, "operands of %s differ in type", info->text);
	if (p == STX_P_BITCAST && stx_dtype_bytes(t) != stx_dtype_bytes(from))
		return BAD(v, "bitcast changes the width");
	if (info->result == STX_RESULT_SAME ? t != from
					    : info->result == STX_RESULT_BOOL && t != STX_BOOL)
		return BAD(v, "%s gives %s", info->text, stx_dtype_name(t));
	return STX_E_OK;
}

static stx_err check_prim(struct verify *v, const struct stx_kinst *i)
{
	if (i->op >= STX_P_FIRST_ELEMENTARY)
		return BAD(v, "elementary functions must have been expanded");
	int arity = stx_prim_info((enum stx_prim)i->op)->arity;
	const uint32_t operand[3] = { i->a, i->b, i->c };
	for (int j = 0; j < 3; j++) {
		if (j >= arity ? operand[j] != STX_NONE : check_value(v, operand[j], "an operand"))
			return BAD(v, "a primitive has the wrong operands");
	}
	return check_prim_types(v, i);
}

static stx_err check_access(struct verify *v, const struct stx_kinst *i)
{
	if (i->a >= v->k->params.n)
		return BAD(v, "there is no parameter %u", i->a);
	const struct stx_kparam *p = &v->k->params.at[i->a];
	int store = i->op == STX_K_STORE;
	if (i->dtype != p->dtype)
		return BAD(v, "an access differs in type from parameter %u", i->a);
	if (store ? !p->is_written : !p->is_read)
		return BAD(v, "parameter %u is not declared for this access", i->a);
	stx_err err = check_ex(v, i->ex, "an index expression");
	if (!err)
		err = check_mask(v, i->c);
	if (!err && store)
		err = check_typed(v, i->b, p->dtype, "the value stored");
	return err ? err : check_range(v, i);
}

static stx_err check_indirect(struct verify *v, const struct stx_kinst *i)
{
	stx_err err = check_typed(v, i->a, STX_I64, "an indirect index");
	if (!err && i->dtype != STX_I64)
		err = BAD(v, "an indirect value is i64");
	if (!err)
		err = check_ex(v, i->ex, "a bound");
	return err ? err : check_mask(v, i->c);
}

/* Both parameters hold the 2n elements, as far as that can be told. */
static stx_err check_sort(struct verify *v, const struct stx_kinst *i)
{
	const struct stx_kernel *k = v->k;
	const uint32_t param[2] = { i->a, i->b };
	if (i->a >= k->params.n || i->b >= k->params.n || i->a == i->b || i->c == 0 ||
	    i->c >= k->axes.n)
		return BAD(v, "a sort of a parameter or axis there is not");
	if (v->depth || (i->dtype != STX_U32 && i->dtype != STX_U64) ||
	    k->params.at[i->a].dtype != i->dtype || k->params.at[i->b].dtype != STX_I32)
		return BAD(v, "a sort stands outside loops and has keys of u32 or u64, values of "
			      "i32");
	stx_ex n = k->axes.at[i->c].size;
	if (stx_ex_interval(k->ex, n).hi > INT32_MAX)
		return BAD(v, "a sort of 2^31 elements or more");
	if (i->k.i && (k->target_gpu || i->k.i < 0 || i->k.i > stx_ex_interval(k->ex, n).lo))
		return BAD(v, "a sort of which more is wanted than there is, or a part on a GPU");
	stx_err err = check_ex(v, n, "the size of an axis");
	if (!err)
		err = check_ex(v, i->ex, "an index expression");
	for (int j = 0; j < 2 && !err; j++) {
		struct stx_kinst end = { .a = param[j], .c = STX_NONE };
		if (!k->params.at[param[j]].is_read || !k->params.at[param[j]].is_written)
			return BAD(v, "parameter %u is not declared for a sort", param[j]);
		end.ex = stx_ex_addi(k->ex, stx_ex_add(k->ex, i->ex, stx_ex_muli(k->ex, n, 2)), -1);
		err = check_range(v, &end);
	}
	return err;
}

/* ---- loops and accumulators ---- */

static stx_err check_loop(struct verify *v, const struct stx_kinst *i)
{
	const struct stx_kernel *k = v->k;
	if (i->a >= k->axes.n || k->axes.at[i->a].binding == STX_AXIS_GRID)
		return BAD(v, "a loop runs over an axis that is not its to run over");
	if (v->open_axes >> i->a & 1)
		return BAD(v, "the loop over axis %s is already open", k->axes.at[i->a].name);
	if (v->depth >= STX_KERNEL_MAX_LOOPS)
		return BAD(v, "loops are nested too deeply");
	if (k->axes.at[i->a].binding == STX_AXIS_VECTOR)
		for (uint32_t j = 0; j < v->depth; j++)
			if (k->axes.at[k->insts.at[v->loops[j]].a].binding == STX_AXIS_VECTOR)
				return BAD(v, "a vector loop inside a vector loop");
	stx_err err = check_ex(v, k->axes.at[i->a].size, "the size of an axis");
	if (err)
		return err;
	while (v->pending.n) {
		uint32_t acc = v->pending.at[v->pending.n - 1];
		uint32_t scope = v->depth ? v->loops[v->depth - 1] : STX_NONE;
		if (v->scope[acc] != scope || k->insts.at[acc].a != i->a)
			return BAD(v, "accumulator %u is followed by another loop than its own",
				   acc);
		v->acc[acc].loop = v->at;
		v->pending.n--;
	}
	v->loops[v->depth++] = v->at;
	v->open[v->at] = 1;
	v->open_axes |= (uint64_t)1 << i->a;
	return STX_E_OK;
}

static stx_err check_end(struct verify *v, const struct stx_kinst *i)
{
	if (!v->depth || v->loops[v->depth - 1] != i->a)
		return BAD(v, "END does not match the innermost loop");
	if (v->pending.n)
		return BAD(v, "an accumulator has no loop");
	v->depth--;
	v->open[i->a] = 0;
	v->open_axes &= ~((uint64_t)1 << v->k->insts.at[i->a].a);
	return STX_E_OK;
}

/* A row of states: of a row that is there as a whole, in order TREE. */
static stx_err check_each(struct verify *v, const struct stx_kinst *i)
{
	const struct stx_kernel *k = v->k;
	if (i->c >= k->axes.n || i->c == i->a || !k->axes.at[i->c].is_reduction ||
	    v->open_axes >> i->c & 1)
		return BAD(v, "a row of states runs along a reduction axis of its own");
	if (i->axis != STX_ORDER_TREE || stx_monoid_info((enum stx_monoid)i->flags)->state != 1)
		return BAD(v, "states of a row are of one value and combine in order tree");
	return stx_ex_uses_kind(k->ex, k->axes.at[i->c].size, STX_ATOM_VAR)
		       ? BAD(v, "a row of states has one size")
		       : STX_E_OK;
}

static stx_err check_acc(struct verify *v, const struct stx_kinst *i)
{
	const struct stx_kernel *k = v->k;
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	if (i->flags >= STX_MONOID_COUNT || i->axis > STX_ORDER_TREE || t >= STX_DTYPE_COUNT)
		return BAD(v, "an accumulator has an unknown monoid, order or type");
	if (i->a >= k->axes.n || !k->axes.at[i->a].is_reduction)
		return BAD(v, "an accumulator runs over reduction axes");
	if ((i->axis == STX_ORDER_TREE) != k->target_gpu)
		return BAD(v, "order tree is for GPU kernels, the others are not");
	if (stx__dtype_is_narrow_float(t))
		return BAD(v, "an accumulator in %s", stx_dtype_name(t));
	int logical = i->flags == STX_MONOID_ANY || i->flags == STX_MONOID_ALL;
	int floating = i->flags == STX_MONOID_WELFORD || i->flags == STX_MONOID_SOFTMAX ||
		       i->flags == STX_MONOID_ATTEND;
	if (i->axis == STX_ORDER_RUNNING && i->flags > STX_MONOID_MIN &&
	    !stx_monoid_is_arg((enum stx_monoid)i->flags))
		return BAD(v, "%s has no running value",
			   stx_monoid_info((enum stx_monoid)i->flags)->text);
	if ((i->axis == STX_ORDER_BLOCKS) != (i->flags == STX_MONOID_ATTEND))
		return BAD(v, "attend, and nothing else, is in order blocks");
	int sum = i->flags == STX_MONOID_SUM || i->flags == STX_MONOID_PROD ||
		  i->flags == STX_MONOID_DOT;
	if ((logical && t != STX_BOOL) || (sum && t == STX_BOOL) ||
	    (floating && !stx_dtype_is_float(t)))
		return BAD(v, "%s does not accumulate %s",
			   stx_monoid_info((enum stx_monoid)i->flags)->text, stx_dtype_name(t));
	stx_err err = i->c == STX_NONE ? STX_E_OK : check_each(v, i);
	if (err)
		return err;
	v->acc[v->at].loop = STX_NONE;
	return stx_push(k->arena, &v->pending, v->at) ? STX_E_NOMEM : STX_E_OK;
}

static stx_err check_acc_operand(struct verify *v, uint32_t n)
{
	if (!value_visible(v, n) || v->k->insts.at[n].op != STX_K_ACC || v->acc[n].loop == STX_NONE)
		return BAD(v, "an accumulator that is visible and has its loop is expected");
	uint32_t each = v->k->insts.at[n].c;
	if (each != STX_NONE && !(v->open_axes >> each & 1))
		return BAD(v, "a state of a row is named outside the row's loop");
	return STX_E_OK;
}

/* The loops between the accumulator and here fit its order. */
static stx_err check_order(struct verify *v, const struct stx_kinst *acc, uint32_t loop)
{
	const struct stx_kernel *k = v->k;
	for (uint32_t j = v->depth; j-- > 0;) {
		const struct stx_axis *a = &k->axes.at[k->insts.at[v->loops[j]].a];
		int vector = a->binding == STX_AXIS_VECTOR;
		int wanted = acc->axis == STX_ORDER_LANES && j == v->depth - 1;
		if (!a->is_reduction)
			return BAD(v,
				   "an accumulator is updated inside a loop that is no reduction");
		if (vector != wanted || (acc->axis == STX_ORDER_RUNNING && v->loops[j] != loop))
			return BAD(v, "the loops around an update do not fit its order");
		if (v->loops[j] == loop)
			break;
	}
	return STX_E_OK;
}

static stx_err check_update(struct verify *v, const struct stx_kinst *i)
{
	stx_err err = check_acc_operand(v, i->a);
	if (err)
		return err;
	const struct stx_kinst *acc = &v->k->insts.at[i->a];
	enum stx_dtype t = (enum stx_dtype)acc->dtype;
	if (!v->open[v->acc[i->a].loop] || v->acc[i->a].updates++)
		return BAD(v, "an accumulator takes one update, inside its loop");
	err = check_order(v, acc, v->acc[i->a].loop);
	if (!err)
		err = check_typed(v, i->b, t, "the update");
	if (!err && i->dtype != t)
		err = BAD(v, "an update has its accumulator's type");
	if (err)
		return err;
	if (acc->flags == STX_MONOID_DOT || acc->flags == STX_MONOID_ATTEND)
		return check_typed(v, i->c, t, "the second value of an update");
	if (stx_monoid_is_arg((enum stx_monoid)acc->flags))
		return check_typed(v, i->c, STX_I64, "the position");
	return i->c == STX_NONE ? STX_E_OK : BAD(v, "an update has one value too many");
}

static stx_err check_result(struct verify *v, const struct stx_kinst *i)
{
	stx_err err = check_acc_operand(v, i->a);
	if (err)
		return err;
	const struct stx_kinst *acc = &v->k->insts.at[i->a];
	enum stx_dtype t = stx_monoid_is_arg((enum stx_monoid)acc->flags) && i->flags == 1
				   ? STX_I64
				   : (enum stx_dtype)acc->dtype;
	int runs = acc->axis == STX_ORDER_RUNNING;
	if (runs && v->loops[v->depth ? v->depth - 1 : 0] != v->acc[i->a].loop)
		return BAD(v, "a running value is read outside its loop");
	if (v->open[v->acc[i->a].loop] != runs || !v->acc[i->a].updates)
		return BAD(v, "an accumulator is read before its loop has ended");
	if (i->flags >= stx_monoid_info((enum stx_monoid)acc->flags)->state)
		return BAD(v, "an accumulator has no state value %u", i->flags);
	return i->dtype == t ? STX_E_OK : BAD(v, "a result has its accumulator's type");
}

static stx_err check_inst(struct verify *v, const struct stx_kinst *i)
{
	if (i->op < STX_PRIM_COUNT)
		return i->dtype < STX_DTYPE_COUNT ? check_prim(v, i) : BAD(v, "unknown type");
	if (stx__kinst_defines(i) && i->dtype >= STX_DTYPE_COUNT)
		return BAD(v, "unknown type");
	switch (i->op) {
	case STX_K_CONST: return STX_E_OK;
	case STX_K_INDEX: return check_ex(v, i->ex, "an index expression");
	case STX_K_LOAD:
	case STX_K_STORE: return check_access(v, i);
	case STX_K_INDIRECT: return check_indirect(v, i);
	case STX_K_SORT: return check_sort(v, i);
	case STX_K_LOOP: return check_loop(v, i);
	case STX_K_END: return check_end(v, i);
	case STX_K_ACC: return check_acc(v, i);
	case STX_K_UPDATE: return check_update(v, i);
	case STX_K_RESULT: return check_result(v, i);
	default: return BAD(v, "unknown instruction");
	}
}

/* ---- the kernel ---- */

static stx_err check_axes(struct verify *v)
{
	const struct stx_kernel *k = v->k;
	uint32_t most = k->target_gpu ? 3 : 1;
	int outside = 0;
	for (uint32_t i = 0; i < k->axes.n; i++) {
		const struct stx_axis *a = &k->axes.at[i];
		if (!a->name || a->var != i || a->size == STX_EX_BAD ||
		    (unsigned)a->binding > STX_AXIS_VECTOR)
			return BAD(v, "axis %u is malformed", i);
		int grid = a->binding == STX_AXIS_GRID;
		if ((i == 0 && !grid) || (grid && (i >= most || a->is_reduction || outside)))
			return BAD(v,
				   k->target_gpu
					   ? "the first axis, and up to two after it, are the grid"
					   : "axis 0, and no other, is the grid");
		outside |= !grid;
		if (k->target_gpu && a->binding == STX_AXIS_VECTOR)
			return BAD(v, "a GPU kernel has grid and loop axes");
	}
	return STX_E_OK;
}

static stx_err check_head(struct verify *v)
{
	const struct stx_kernel *k = v->k;
	if (!k->axes.n || k->axes.n > STX_KERNEL_MAX_AXES || k->params.n > STX_KERNEL_MAX_PARAMS ||
	    k->insts.n > STX_KERNEL_MAX_INSTS || k->scalars.n > STX_KERNEL_MAX_PARAMS ||
	    k->scalars.n != k->scalar_ex.n)
		return BAD(v, "too many or too few axes, parameters, scalars or instructions");
	if (k->index_bits != 32 && k->index_bits != 64)
		return BAD(v, "indices have 32 or 64 bits");
	if (k->block_words &&
	    (k->target_gpu || k->block_words < STX_BLOCK_LEAST || k->block_words > STX_BLOCK_MOST))
		return BAD(v, "a block has %u to %u words, and is the CPU's", STX_BLOCK_LEAST,
			   STX_BLOCK_MOST);
	for (uint32_t i = 1; i < k->scalars.n; i++)
		if (k->scalars.at[i - 1] >= k->scalars.at[i])
			return BAD(v, "scalars are not in order");
	for (uint32_t i = 0; i < k->params.n; i++) {
		const struct stx_kparam *p = &k->params.at[i];
		if ((unsigned)p->dtype >= STX_DTYPE_COUNT || !(p->is_read || p->is_written) ||
		    (p->is_written && p->is_constant))
			return BAD(v, "parameter %u is malformed", i);
		stx_err err = check_ex(v, p->elems, "the size of a parameter");
		if (err)
			return err;
	}
	stx_err err = check_axes(v);
	stx_ex grid = stx_ex_const(k->ex, 1);
	for (uint32_t i = 0; i < k->axes.n && k->axes.at[i].binding == STX_AXIS_GRID; i++) {
		grid = stx_ex_mul(k->ex, grid, k->axes.at[i].size);
		v->open_axes |= (uint64_t)1 << i;
	}
	if (!err && k->grid != grid)
		err = BAD(v, "the grid is the size of its axes");
	if (!err)
		err = check_ex(v, k->grid, "the grid");
	return err ? err : check_ex(v, k->grain, "the grain");
}

stx_err stx_kernel_verify(struct stx_kernel *k, struct stx_diag *d)
{
	struct verify v = { .k = k, .d = d };
	uint32_t n = k->insts.n;
	stx_err err = check_head(&v);
	if (err)
		return err;
	v.scope = stx_arena_alloc(k->arena, (n + 1) * sizeof *v.scope);
	v.open = STX_NEW_ARRAY(k->arena, uint8_t, n + 1);
	v.acc = STX_NEW_ARRAY(k->arena, struct acc_state, n + 1);
	if (!v.scope || !v.open || !v.acc)
		return stx_fail(d, STX_E_NOMEM, "kernel", k->name, "the memory budget is exceeded");
	for (v.at = 0; v.at < n && !err; v.at++) {
		v.scope[v.at] = v.depth ? v.loops[v.depth - 1] : STX_NONE;
		err = check_inst(&v, &k->insts.at[v.at]);
	}
	if (!err && (v.depth || v.pending.n))
		err = BAD(&v, "a loop is not closed or an accumulator has no loop");
	return err == STX_E_NOMEM ? stx_fail(d, err, "kernel", k->name, "out of memory") : err;
}
