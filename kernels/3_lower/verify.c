/* verify.c
 * checks of a loop program at the stage boundary: internal invariants, reported and never asserted.
 *
 * Definitions before uses, dtypes and operand numbers of instructions, masks bool, variables within
 * the axes, index expressions within their buffer where the interval can refute it. One pass,
 * linear. */
#include "lower.h"

struct check {
	const struct stx_loops *l;
	const struct stx_buffer *b;
	struct stx_diag *d;
};

static stx_err bad(const struct check *c, const char *what, uint32_t at)
{
	return stx_fail(c->d, STX_E_INTERNAL, "verify", c->b->name,
			"loop IR of %s: %s (instruction %u)", c->b->name, what, at);
}

/* First and last element reachable in b's layout, at any point of its sizes. */
static struct stx_interval extent(const struct stx_loops *l, const struct stx_buffer *b)
{
	stx_ex e = b->layout.offset;
	uint32_t d;

	for (d = 0; d < b->layout.rank; d++)
		e = stx_ex_add(l->ex, e,
			       stx_ex_mul(l->ex, b->layout.strides[d],
					  stx__axis(l->ex, d, b->layout.sizes[d])));
	return stx_ex_interval(l->ex, e);
}

static stx_err check_ex(const struct check *c, stx_ex e, uint32_t at)
{
	uint32_t naxes = c->b->nranges + c->b->nrranges, v;

	if (e == STX_EX_BAD)
		return bad(c, "an index expression that overflows", at);
	for (v = naxes; v < 64; v++)
		if (stx_ex_uses_var(c->l->ex, e, v))
			return bad(c, "a variable that is no axis", at);
	return 0;
}

static int is_bool(const struct check *c, uint32_t i)
{
	return c->b->body.at[i].dtype == STX_BOOL;
}

static stx_err check_load(const struct check *c, const struct stx_binst *in, uint32_t i)
{
	const struct stx_buffer *src;
	struct stx_interval r, e;

	if (in->a >= c->b->id)
		return bad(c, "a load of a buffer defined later", i);
	src = c->l->buffers.at[in->a];
	/* x.add_(1): the element that is stored is read before */
	if (src->heir && src->heir->id <= c->b->id &&
	    !(src->heir == c->b && c->b->def == STX_DEF_POINTWISE && in->ex == c->b->store))
		return bad(c, "a load of memory that has been updated", i);
	if (src->dtype != in->dtype)
		return bad(c, "a load with another dtype than its buffer", i);
	r = stx_ex_interval(c->l->ex, in->ex);
	e = extent(c->l, src);
	if (in->c == STX_NONE && (r.lo > e.hi || r.hi < e.lo))
		return bad(c, "a load outside its buffer", i);
	return check_ex(c, in->ex, i);
}

static stx_err check_prim(const struct check *c, const struct stx_binst *in, uint32_t i)
{
	const struct stx_prim_info *info = stx_prim_info(in->op);
	const struct stx_binst *at = c->b->body.at;
	const uint32_t operand[3] = { in->a, in->b, in->c };
	uint32_t first = in->op == STX_P_SELECT; /* operands from here on share a dtype */
	int k;

	for (k = 0; k < info->arity && k < 3; k++)
		if (operand[k] >= i)
			return bad(c, "an operand that is not defined before", i);
	for (k = (int)first + 1; k < info->arity && k < 3; k++)
		if (at[operand[k]].dtype != at[operand[first]].dtype)
			return bad(c, "operands of different dtypes", i);
	if (first && !is_bool(c, in->a))
		return bad(c, "a condition that is not bool", i);
	if (!stx_prim_accepts(in->op, at[operand[first]].dtype))
		return bad(c, "an operand dtype the primitive does not take", i);
	if (info->result == STX_RESULT_BOOL && in->dtype != STX_BOOL)
		return bad(c, "a predicate that is not bool", i);
	if ((info->result == STX_RESULT_SAME || first) && in->dtype != at[operand[first]].dtype)
		return bad(c, "a result of another dtype than its operands", i);
	return 0;
}

static stx_err check_inst(const struct check *c, uint32_t i)
{
	const struct stx_binst *in = &c->b->body.at[i];
	int masked = (in->op == STX_B_LOAD || in->op == STX_B_INDIRECT) && in->c != STX_NONE;

	if (masked && (in->c >= i || !is_bool(c, in->c)))
		return bad(c, "a mask that is no earlier bool", i);
	switch (in->op) {
	case STX_B_CONST: return 0;
	case STX_B_INDEX:
		if (stx_dtype_is_float(in->dtype))
			return bad(c, "an index value that is no integer", i);
		return check_ex(c, in->ex, i);
	case STX_B_LOAD: return check_load(c, in, i);
	case STX_B_INDIRECT:
		if (in->a >= i || c->b->body.at[in->a].dtype != STX_I64)
			return bad(c, "an indirect index that is no earlier i64", i);
		return check_ex(c, in->ex, i);
	default:
		if (in->op >= STX_PRIM_COUNT)
			return bad(c, "an unknown operation", i);
		return check_prim(c, in, i);
	}
}

static stx_err check_update(const struct check *c)
{
	const struct stx_buffer *b = c->b, *base = b->base;

	if (!base || base->id >= b->id || base->heir != b || base->dtype != b->dtype ||
	    base->kind == STX_BUF_CONST)
		return bad(c, "an update of no earlier memory", 0);
	if (b->def == STX_DEF_SCATTER && (b->nrranges != 1 || b->body.nresults != 1 ||
					  (!b->overwrite && b->monoid > STX_MONOID_MIN)))
		return bad(c, "a malformed scatter", 0);
	return 0;
}

static stx_err check_scan(const struct check *c)
{
	const struct stx_buffer *b = c->b;
	int may_be = b->monoid <= STX_MONOID_MIN || stx_monoid_is_arg(b->monoid);

	if (b->nrranges != 1 || b->body.nresults != 1 || b->rlimit != STX_EX_BAD || b->is_merge ||
	    b->is_by_rows || b->base || !may_be)
		return bad(c, "a malformed scan", 0);
	if (b->state >= stx_monoid_info(b->monoid)->state)
		return bad(c, "a result the scan does not have", 0);
	return 0;
}

static stx_err check_definition(const struct check *c)
{
	const struct stx_buffer *b = c->b;
	int moves = b->def == STX_DEF_SCATTER || b->def == STX_DEF_SCAN; /* its store */
	uint32_t i, want = b->def == STX_DEF_REDUCTION ? stx_monoid_info(b->monoid)->nvals : 1;
	enum stx_dtype t = b->def == STX_DEF_POINTWISE ? b->dtype : b->acc;
	stx_err e = b->def == STX_DEF_SCATTER || b->base ? check_update(c) : 0;
	int64_t rows;

	if (!e && b->def == STX_DEF_SCAN)
		e = check_scan(c);
	if (e)
		return e;
	if (b->def == STX_DEF_REDUCTION && b->state >= stx_monoid_info(b->monoid)->state)
		return bad(c, "a result the reduction does not have", 0);
	if (b->nranges + b->nrranges > 2 * STX_MAX_DIMS)
		return bad(c, "too many axes", 0);
	if (b->body.nresults != want)
		return bad(c, "a wrong number of results", 0);
	for (i = 0; i < want; i++)
		if (b->body.result[i] >= b->body.n || b->body.at[b->body.result[i]].dtype != t)
			return bad(c, "a result of the wrong dtype", b->body.n);
	for (i = 0; i < b->body.n; i++)
		if ((e = check_inst(c, i)))
			return e;
	for (i = 0; !moves && i < b->nrranges; i++)
		if (stx_ex_uses_var(c->l->ex, b->store, b->nranges + i))
			return bad(c, "a store that moves along a reduction axis", b->body.n);
	if (b->rlimit != STX_EX_BAD) {
		if (!b->nrranges)
			return bad(c, "a limit without a reduction axis", b->body.n);
		for (i = 0; i < b->nrranges; i++)
			if (stx_ex_uses_var(c->l->ex, b->rlimit, b->nranges + i))
				return bad(c, "a limit that moves along a reduction axis",
					   b->body.n);
		if ((e = check_ex(c, b->rlimit, b->body.n)))
			return e;
	}
	if (b->is_by_rows && (b->nranges < 2 || b->nrranges != 1 || b->is_merge ||
			      !stx_ex_is_const(c->l->ex, b->rranges[0], &rows) || rows < 1))
		return bad(c, "segments of rows have columns and a number of rows", b->body.n);
	return check_ex(c, b->store, b->body.n);
}

/* As loops.h says: everything is dense, so that a row is n consecutive elements. */
static stx_err check_sort(const struct check *c)
{
	const struct stx_buffer *b = c->b;
	struct stx_exprs *x = c->l->ex;
	int i;

	if (b->nranges != 1 || b->nrranges != 1 || b->dtype != STX_I64)
		return bad(c, "a sort that is not of rows", 0);
	stx_ex n = b->rranges[0], row = stx_ex_mul(x, n, stx__axis(x, 0, b->ranges[0]));
	stx_ex total = stx_ex_muli(x, stx_ex_mul(x, b->ranges[0], n), 2);
	const struct stx_binst *in = b->body.at;

	if (b->body.n != 1 || in->op != STX_B_LOAD || in->c != STX_NONE || in->dtype != b->acc ||
	    (in->dtype != STX_U32 && in->dtype != STX_U64) || b->store != row ||
	    in->ex != stx_ex_add(x, row, stx__axis(x, 1, n)))
		return bad(c, "a sort whose keys or results are not rows in memory", 0);
	for (i = 0; i < 2; i++) {
		const struct stx_buffer *s =
			b->scratch[i] < b->id ? c->l->buffers.at[b->scratch[i]] : NULL;
		stx_ex size = stx_ex_const(x, 1);

		for (uint32_t d = 0; s && d < s->layout.rank; d++)
			size = stx_ex_mul(x, size, s->layout.sizes[d]);
		if (!s || s->def != STX_DEF_SCRATCH || size != total ||
		    s->dtype != (i ? STX_I32 : b->acc))
			return bad(c, "a sort without its scratch memory", 0);
	}
	return 0;
}

stx_err stx_loops_verify(const struct stx_loops *l, struct stx_diag *d)
{
	uint32_t i;
	stx_err e;

	for (i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		struct check c = { l, b, d };

		if (b->id != i)
			return bad(&c, "a buffer out of place", 0);
		if (b->layout.rank && (!b->layout.sizes || !b->layout.strides))
			return bad(&c, "a layout that is not settled", 0);
		if ((b->def == STX_DEF_NONE) !=
		    (b->kind == STX_BUF_INPUT || b->kind == STX_BUF_CONST))
			return bad(&c, "a buffer without its definition", 0);
		if (b->def == STX_DEF_SCRATCH && (b->kind != STX_BUF_TEMP || b->body.n))
			return bad(&c, "scratch memory with a body", 0);
		if (b->def != STX_DEF_NONE && b->def != STX_DEF_SCRATCH &&
		    (e = check_definition(&c)))
			return e;
		if (b->def == STX_DEF_SORT && (e = check_sort(&c)))
			return e;
	}
	for (i = 0; i < l->outputs.n; i++)
		if (l->outputs.at[i] >= l->buffers.n ||
		    l->buffers.at[l->outputs.at[i]]->kind != STX_BUF_OUTPUT)
			return stx_fail(d, STX_E_INTERNAL, "verify", "", "output %u has no buffer",
					i);
	return 0;
}
