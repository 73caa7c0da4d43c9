/* pieces.c: a vector loop as several, one after the other, so that what a comparison of its variable
 * decides, and where a remainder, minimum or maximum of it bends, is known in each of them.
 *
 * Concatenation, padding, rolling and repeating are masked reads, selects and bent indices over one
 * loop; in pieces they are copies. requires: a verified pointwise kernel for the CPU. ensures: the
 * same values at the same points, in the same order of points; a kernel that passes
 * stx_kernel_verify. What is decided: comparisons of i64 indices, +-x + e with e free of the loop's
 * variable x, may depend on the grid point, for then the pieces' sizes do; quotients and remainders of
 * x + constant by constants, minima and maxima of what is linear in x, where the size is constant.
 * Terminates: at most MOST_PIECES pieces, each cut takes one pass over the body. */
#include "build.h"

#define MOST_PIECES 8
#define MOST_CODE   256 /* instructions of all pieces */
#define MOST_CONDS  32
#define LEAST_PIECE 32 /* elements, on average, where only comparisons are decided */

struct condition { /* x < at when below, x >= at when not */
	uint32_t inst;
	stx_ex at;
	uint8_t below;
};

struct pieces {
	struct stx__build *b;
	struct stx_kernel *k;
	struct stx_exprs *x;
	uint32_t loop, end, axis; /* of the loop; it is the last thing in the kernel */
	stx_ex size;
	int64_t n; /* size, where it and all cuts are constant; else -1 */
	struct condition conds[MOST_CONDS];
	uint32_t nconds;
	stx_ex cut[MOST_PIECES]; /* ascending: where pieces 1 .. ncuts begin */
	uint32_t ncuts;
	/* of the piece being written, by instruction */
	int8_t *known;   /* a bool that is 0 or 1, else -1 */
	uint32_t *alias; /* the instruction whose value it has */
	uint8_t *needed;
	uint32_t *number; /* in the new list */
	STX_VEC(struct stx_kinst) out;
};

static const struct stx_kinst *inst(const struct pieces *p, uint32_t n)
{
	return &p->k->insts.at[n];
}

/* ---- what is decided ---- */

static stx_ex index_of(const struct pieces *p, uint32_t n)
{
	const struct stx_kinst *i = inst(p, n);
	if (i->dtype != STX_I64)
		return STX_EX_BAD;
	return i->op == STX_K_INDEX   ? i->ex
	       : i->op == STX_K_CONST ? stx_ex_const(p->x, i->k.i)
				      : STX_EX_BAD;
}

static int read_condition(struct pieces *p, uint32_t n, struct condition *c)
{
	const struct stx_kinst *i = inst(p, n);
	stx_ex coeff, rest, d;
	int64_t q;
	if (i->op != STX_P_LT && i->op != STX_P_LE && i->op != STX_P_GT && i->op != STX_P_GE)
		return 0;
	d = stx_ex_sub(p->x, index_of(p, i->a), index_of(p, i->b));
	if (i->op == STX_P_LE || i->op == STX_P_GT)
		d = stx_ex_addi(p->x, d, -1);
	if (d == STX_EX_BAD || !stx_ex_linear_in(p->x, d, p->axis, &coeff, &rest) ||
	    !stx_ex_is_const(p->x, coeff, &q) || (q != 1 && q != -1))
		return 0;
	/* d < 0, or for GT and GE its contrary */
	*c = (struct condition){ .inst = n, .below = q == 1 };
	c->at = q == 1 ? stx_ex_muli(p->x, rest, -1) : stx_ex_addi(p->x, rest, 1);
	if (i->op == STX_P_GT || i->op == STX_P_GE)
		c->below = !c->below;
	return c->at != STX_EX_BAD;
}

/* 1: it is one of the cuts now, or lies outside the loop. */
static int add_cut(struct pieces *p, stx_ex at)
{
	uint32_t place = 0;
	int64_t c, d;
	if (p->n >= 0 && !stx_ex_is_const(p->x, at, &c))
		return 0;
	if (p->n >= 0 && (c <= 0 || c >= p->n))
		return 1;
	for (uint32_t i = 0; i < p->ncuts; i++) {
		if (!stx_ex_is_const(p->x, stx_ex_sub(p->x, at, p->cut[i]), &d))
			return 0;
		if (d == 0)
			return 1;
		place += d > 0;
	}
	if (p->ncuts == MOST_PIECES - 1)
		return 0;
	memmove(&p->cut[place + 1], &p->cut[place], (p->ncuts - place) * sizeof *p->cut);
	p->cut[place] = at;
	p->ncuts++;
	return 1;
}

static void find_cuts(struct pieces *p)
{
	for (uint32_t n = p->loop + 1; n < p->end && p->nconds < MOST_CONDS; n++) {
		struct condition c;
		if (read_condition(p, n, &c) && add_cut(p, c.at))
			p->conds[p->nconds++] = c;
	}
}

/* Constant cuts; where there are none, those that depend on the grid point. */
static void find_conditions(struct pieces *p)
{
	int64_t n = p->n;
	find_cuts(p);
	if (p->nconds || n < 0)
		return;
	p->n = -1;
	find_cuts(p);
	if (!p->nconds)
		p->n = n;
}

/* First r in (0, size) at which q*r + d turns from negative to not, or back; else 0. */
static int64_t turn(int64_t q, int64_t d, int64_t size)
{
	if (q < 0) { /* -q*r - d - 1 >= 0 where q*r + d < 0 */
		q = -q;
		d = -d - 1;
	}
	int64_t r = d < 0 ? (-d + q - 1) / q : 0;
	return r < size ? r : 0;
}

/* Where in (0, size) an atom of e bends, var being of that size; 0: nowhere. */
static int64_t bend(const struct pieces *p, stx_ex e, int64_t size)
{
	struct stx_exprs *x = p->x;
	if (!stx_ex_uses_var(x, e, p->axis))
		return 0;
	for (uint32_t i = 0; i < stx_ex_nterms(x, e); i++) {
		struct stx_ex_term t = stx_ex_term_at(x, e, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(x, t.atoms[j]);
			int is_extreme = a.kind == STX_ATOM_MIN || a.kind == STX_ATOM_MAX;
			int64_t r, q, d, by = 0;
			stx_ex coeff, rest, of = a.a;
			if (a.kind < STX_ATOM_FLOORDIV)
				continue;
			r = bend(p, a.a, size);
			if (r || (r = bend(p, a.b, size)))
				return r;
			if (is_extreme)
				of = stx_ex_sub(x, a.a, a.b);
			else if (a.kind == STX_ATOM_TRUNCDIV || !stx_ex_is_const(x, a.b, &by) ||
				 by < 1)
				continue;
			if (of == STX_EX_BAD || !stx_ex_linear_in(x, of, p->axis, &coeff, &rest) ||
			    !stx_ex_is_const(x, coeff, &q) || !stx_ex_is_const(x, rest, &d) ||
			    q > INT32_MAX || q < INT32_MIN || d > INT32_MAX || d < INT32_MIN)
				continue;
			if (is_extreme && q)
				r = turn(q, d, size);
			else if (!is_extreme && q == 1)
				r = by - ((d % by) + by) % by;
			if (r > 0 && r < size)
				return r;
		}
	}
	return 0;
}

/* x at piece j: its first plus its own variable. */
static stx_ex from(const struct pieces *p, uint32_t j)
{
	if (j == 0)
		return stx_ex_const(p->x, 0);
	if (j > p->ncuts)
		return p->size;
	if (p->n >= 0)
		return p->cut[j - 1];
	stx_ex least = stx_ex_max(p->x, p->cut[j - 1], stx_ex_const(p->x, 0));
	return stx_ex_min(p->x, least, p->size);
}

static stx_ex size_of(const struct pieces *p, uint32_t j)
{
	return stx_ex_sub(p->x, from(p, j + 1), from(p, j));
}

static stx_ex at_piece(const struct pieces *p, uint32_t j, uint32_t axis, stx_ex e)
{
	stx_ex map[STX_KERNEL_MAX_AXES] = { 0 };
	map[p->axis] = stx_ex_add(p->x, from(p, j), stx_ex_var(p->x, axis, size_of(p, j)));
	return e == STX_EX_BAD ? e : stx_ex_subst(p->x, e, map, p->axis + 1);
}

/* Cuts where indices bend. 0: there are too many, none is made. */
static int find_bends(struct pieces *p)
{
	uint32_t was = p->ncuts;
	stx_ex before[MOST_PIECES];
	memcpy(before, p->cut, sizeof before);
	for (uint32_t j = 0; p->n >= 0 && j <= p->ncuts; j++)
		for (uint32_t n = p->loop + 1; n < p->end; n++) {
			int64_t size, first;
			stx_ex e = at_piece(p, j, p->axis, inst(p, n)->ex);
			if (e == STX_EX_BAD || !stx_ex_is_const(p->x, size_of(p, j), &size) ||
			    !stx_ex_is_const(p->x, from(p, j), &first))
				continue;
			int64_t r = bend(p, e, size);
			if (!r)
				continue;
			if (add_cut(p, stx_ex_const(p->x, first + r))) {
				n = p->loop; /* the piece is shorter: all over again */
				continue;
			}
			memcpy(p->cut, before, sizeof before);
			p->ncuts = was;
			return 0;
		}
	return p->ncuts > was;
}

/* ---- writing a piece ---- */

static int truth(const struct pieces *p, const struct condition *c, uint32_t piece)
{
	int64_t at;
	if (p->n >= 0 && stx_ex_is_const(p->x, c->at, &at) && (at <= 0 || at >= p->n))
		return (at >= p->n) == c->below;
	uint32_t i = 0;
	while (i < p->ncuts && p->cut[i] != c->at)
		i++;
	return (piece <= i) == c->below;
}

static int known_of(const struct pieces *p, uint32_t n)
{
	return n == STX_NONE ? -1 : p->known[n];
}

/* A comparison of indices that are far enough apart in this piece; else -1. */
static int compared(const struct pieces *p, const struct stx_kinst *i, uint32_t piece)
{
	if (i->op < STX_P_LT || i->op > STX_P_GE)
		return -1;
	stx_ex a = index_of(p, i->a), b = index_of(p, i->b);
	stx_ex d = at_piece(p, piece, p->axis, stx_ex_sub(p->x, a, b));
	struct stx_interval r = stx_ex_interval(p->x, d);
	if (d == STX_EX_BAD)
		return -1;
	int equal_is = i->op == STX_P_LE || i->op == STX_P_GE;
	int less_is = i->op == STX_P_LT || i->op == STX_P_LE;
	if (r.hi < 0 || r.lo > 0)
		return (r.hi < 0) == less_is;
	int is_told = equal_is == less_is ? r.hi == 0 : r.lo == 0; /* LE and GT, or LT and GE */
	return is_told ? equal_is : -1;
}

/* What instruction n of the body is in this piece: known, another's value, or itself. */
static void fold(struct pieces *p, uint32_t n, uint32_t piece)
{
	const struct stx_kinst *i = inst(p, n);
	if (p->known[n] < 0)
		p->known[n] = (int8_t)compared(p, i, piece);
	if (p->known[n] >= 0)
		return;
	int a = known_of(p, i->op < STX_PRIM_COUNT ? i->a : STX_NONE);
	int b = known_of(p, i->op < STX_PRIM_COUNT ? i->b : STX_NONE);
	if (i->op == STX_P_SELECT && a >= 0) {
		uint32_t of = a ? i->b : i->c;
		p->alias[n] = p->alias[of];
		p->known[n] = p->known[of];
	}
	if (i->dtype != STX_BOOL)
		return;
	if (i->op == STX_P_NOT && a >= 0)
		p->known[n] = (int8_t)!a;
	if (i->op != STX_P_AND && i->op != STX_P_OR)
		return;
	int absorbing = i->op == STX_P_OR;
	if (a == absorbing || b == absorbing)
		p->known[n] = (int8_t)absorbing;
	else if (a >= 0 && b >= 0)
		p->known[n] = (int8_t)!absorbing;
	else if (a >= 0)
		p->alias[n] = p->alias[i->b];
	else if (b >= 0)
		p->alias[n] = p->alias[i->a];
}

static int is_masked_off(const struct pieces *p, const struct stx_kinst *i)
{
	return (i->op == STX_K_LOAD || i->op == STX_K_STORE) && known_of(p, i->c) == 0;
}

/* Operands that are values of the body or before it. */
static void values_of(const struct pieces *p, const struct stx_kinst *i, uint32_t *of[3],
		      struct stx_kinst *copy)
{
	*copy = *i;
	int is_prim = i->op < STX_PRIM_COUNT;
	of[0] = is_prim ? &copy->a : NULL;
	of[1] = is_prim || i->op == STX_K_STORE ? &copy->b : NULL;
	of[2] = is_prim || i->op == STX_K_LOAD || i->op == STX_K_STORE ? &copy->c : NULL;
	if (!is_prim && known_of(p, i->c) == 1)
		copy->c = STX_NONE;
	for (int j = 0; j < 3; j++)
		if (of[j] && *of[j] != STX_NONE)
			*of[j] = p->alias[*of[j]];
}

static void find_needed(struct pieces *p)
{
	for (uint32_t n = p->end; n-- > p->loop + 1;) {
		const struct stx_kinst *i = inst(p, n);
		struct stx_kinst copy;
		uint32_t *of[3];
		p->needed[n] |= i->op == STX_K_STORE && !is_masked_off(p, i);
		if (!p->needed[n] || p->known[n] >= 0 || is_masked_off(p, i))
			continue;
		values_of(p, i, of, &copy);
		for (int j = 0; j < 3; j++)
			if (of[j] && *of[j] != STX_NONE)
				p->needed[*of[j]] = 1;
	}
}

static int push(struct pieces *p, struct stx_kinst i)
{
	return stx_push(p->k->arena, &p->out, i) == 0;
}

static int write_inst(struct pieces *p, uint32_t n, uint32_t piece, uint32_t axis)
{
	const struct stx_kinst *i = inst(p, n);
	struct stx_kinst copy;
	uint32_t *of[3];
	values_of(p, i, of, &copy);
	for (int j = 0; j < 3; j++)
		if (of[j] && *of[j] != STX_NONE)
			*of[j] = p->number[*of[j]];
	if (p->known[n] >= 0 || is_masked_off(p, i)) {
		copy = (struct stx_kinst){ .op = STX_K_CONST,
					   .dtype = i->dtype,
					   .a = STX_NONE,
					   .b = STX_NONE,
					   .c = STX_NONE };
		copy.k.i = p->known[n] > 0;
	}
	if (copy.ex != STX_EX_BAD && (copy.ex = at_piece(p, piece, axis, copy.ex)) == STX_EX_BAD)
		return 0;
	p->number[n] = p->out.n;
	return push(p, copy);
}

static int write_piece(struct pieces *p, uint32_t piece)
{
	uint32_t axis = piece ? p->k->axes.n + piece - 1 : p->axis, first = p->out.n;
	struct stx_kinst mark = *inst(p, p->loop);
	for (uint32_t n = 0; n < p->end; n++) {
		p->known[n] = -1;
		p->alias[n] = n;
		p->needed[n] = 0;
	}
	for (uint32_t i = 0; i < p->nconds; i++)
		p->known[p->conds[i].inst] = (int8_t)truth(p, &p->conds[i], piece);
	for (uint32_t n = p->loop + 1; n < p->end; n++)
		fold(p, n, piece);
	find_needed(p);
	mark.a = axis;
	int ok = push(p, mark);
	for (uint32_t n = p->loop + 1; n < p->end && ok; n++)
		if (p->needed[n])
			ok = write_inst(p, n, piece, axis);
	mark = *inst(p, p->end);
	mark.a = first;
	return ok && push(p, mark);
}

static int write_axes(struct pieces *p)
{
	struct stx_axis a = p->k->axes.at[p->axis];
	for (uint32_t j = 1; j <= p->ncuts; j++) {
		struct stx_axis more = a;
		more.var = p->k->axes.n;
		more.name = stx_arena_printf(p->k->arena, "x%u", more.var);
		more.size = size_of(p, j);
		if (!more.name || stx_push(p->k->arena, &p->k->axes, more))
			return 0;
	}
	p->k->axes.at[p->axis].size = size_of(p, 0);
	return 1;
}

/* The loop, when it is the only one, the last thing, and small: 1. */
static int find_loop(struct pieces *p)
{
	const struct stx_kernel *k = p->k;
	uint32_t loops = 0;
	for (uint32_t n = 0; n < k->insts.n; n++) {
		const struct stx_kinst *i = inst(p, n);
		if (i->op == STX_K_LOOP) {
			p->loop = n;
			loops++;
		}
		if (i->op == STX_K_ACC || i->op == STX_K_SORT || (loops && i->op == STX_K_INDIRECT))
			return 0;
	}
	if (loops != 1 || inst(p, k->insts.n - 1)->op != STX_K_END)
		return 0;
	p->end = k->insts.n - 1;
	p->axis = inst(p, p->loop)->a;
	p->size = k->axes.at[p->axis].size;
	if (!stx_ex_is_const(p->x, p->size, &p->n))
		p->n = -1;
	return k->axes.at[p->axis].binding == STX_AXIS_VECTOR;
}

static int is_worth_it(struct pieces *p)
{
	int has_bends = find_bends(p);
	int64_t most = stx_ex_interval(p->x, p->size).hi;
	uint32_t all = p->ncuts + 1;
	return p->ncuts && (has_bends || most / all >= LEAST_PIECE) &&
	       (p->end - p->loop) * all <= MOST_CODE &&
	       p->k->axes.n + p->ncuts <= STX_KERNEL_MAX_AXES;
}

stx_err stx__kernel_pieces(struct stx__build *b, struct stx_kernel *k)
{
	struct pieces *p = STX_NEW(k->arena, struct pieces);
	uint32_t n = k->insts.n + 1;
	if (!p)
		return stx__build_oom(b);
	p->b = b;
	p->k = k;
	p->x = k->ex;
	if (!find_loop(p))
		return STX_E_OK;
	find_conditions(p);
	if (!is_worth_it(p))
		return STX_E_OK;
	p->known = STX_NEW_ARRAY(k->arena, int8_t, n);
	p->alias = STX_NEW_ARRAY(k->arena, uint32_t, n);
	p->needed = STX_NEW_ARRAY(k->arena, uint8_t, n);
	p->number = STX_NEW_ARRAY(k->arena, uint32_t, n);
	int ok = p->known && p->alias && p->needed && p->number;
	for (uint32_t i = 0; i < p->loop && ok; i++) {
		p->number[i] = i;
		ok = push(p, *inst(p, i));
	}
	for (uint32_t j = 0; j <= p->ncuts && ok; j++)
		ok = write_piece(p, j);
	if (!ok || !write_axes(p))
		return stx__build_oom(b);
	k->insts.at = p->out.at;
	k->insts.n = p->out.n;
	k->insts.cap = p->out.cap;
	return STX_E_OK;
}
