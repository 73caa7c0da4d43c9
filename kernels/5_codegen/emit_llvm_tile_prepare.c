/* emit_llvm_tile_prepare.c: operands of a matrix product in tiles that are packed before the run.
 *
 * Where all that an operand's hole loads is constant (kernel.h), the object has one more function of
 * a kernel's type: its grid points are the blocks of all tiles of the operand, and it leaves each as
 * stx__tile_pack does in the scratch, one after the other where frame->packed[number] says. The
 * kernel takes its blocks from there, and packs as ever where that is NULL. Both see the same words
 * in the same order: no bit differs. A vector by a matrix packs nothing by itself, and reads rows of
 * the matrix; with panels it reads one stream.
 *
 * requires: sizes are chosen (emit_llvm_tile_form.c). Which tiles have the same operand follows from
 * how addresses mention the grid's variable: as digits of it. */
#include "emit_llvm_tile.h"
#include "sat.h"

/* What is packed is multiplied by so many rows, or columns, at most: beyond, packing is less than a
 * twentieth of the time (tests/bench/bench_prepare.c), which is not worth as much memory again. */
#define MOST_ROWS 544
#define MOST_COLS 256
#define SMALL     65536 /* bytes of packed operand that may be mostly padding */
#define WILD      64    /* bytes at the end of a block of BF16: whether it holds a wild number */

/* ---- which ---- */

/* e is x0 // *stride. */
static int is_shifted(const struct stx_kernel *k, stx_ex e, int64_t *stride)
{
	*stride = 1;
	if (e == grid_var(k))
		return 1;
	if (stx_ex_nterms(k->ex, e) != 1 || stx_ex_constant(k->ex, e))
		return 0;
	struct stx_ex_term t = stx_ex_term_at(k->ex, e, 0);
	struct stx_ex_atom a = stx_ex_atom_at(k->ex, t.atoms[0]);
	return t.natoms == 1 && t.coeff == 1 && a.kind == STX_ATOM_FLOORDIV && a.a == grid_var(k) &&
	       stx_ex_is_const(k->ex, a.b, stride);
}

/* Keeps them in ascending order of strides. */
static int add_digit(struct stx__prepared *p, stx_ex at, int64_t stride, struct stx_interval r)
{
	unsigned i;
	for (i = 0; i < p->ndigits; i++)
		if (p->digit[i].at == at)
			return 1;
	if (p->ndigits == STX__DIGITS || r.lo < 0 || r.hi >= INT32_MAX || stride < 1 ||
	    stride > INT32_MAX)
		return 0;
	for (i = p->ndigits++; i && p->digit[i - 1].stride > stride; i--)
		p->digit[i] = p->digit[i - 1];
	p->digit[i] = (struct stx__digit){ at, stride, r.hi + 1 };
	return 1;
}

/* The digits of the grid's variable in e. As deep as expressions nest. */
static int find_digits(const struct stx_kernel *k, stx_ex e, struct stx__prepared *p)
{
	uint32_t n = e == STX_EX_BAD ? 0 : stx_ex_nterms(k->ex, e);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(k->ex, e, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(k->ex, t.atoms[j]);
			stx_ex x0 = grid_var(k);
			int64_t stride, c;
			int ok = 1, by_const = a.kind >= STX_ATOM_FLOORDIV &&
					       stx_ex_is_const(k->ex, a.b, &c);
			if (a.kind == STX_ATOM_VAR && a.number == 0)
				ok = add_digit(p, x0, 1, stx_ex_interval(k->ex, x0));
			else if (a.kind < STX_ATOM_FLOORDIV)
				continue;
			else if (a.kind == STX_ATOM_FLOORDIV && by_const && a.a == x0)
				ok = add_digit(p, stx_ex_floordiv(k->ex, a.a, a.b), c, a.range);
			else if (a.kind == STX_ATOM_MOD && by_const && is_shifted(k, a.a, &stride))
				ok = add_digit(p, stx_ex_mod(k->ex, a.a, a.b), stride, a.range);
			else
				ok = find_digits(k, a.a, p) && find_digits(k, a.b, p);
			if (!ok)
				return 0;
		}
	}
	return 1;
}

/* Any values of the digits are those of one point of the grid. */
static int are_digits(const struct stx_kernel *k, struct stx__prepared *p)
{
	int64_t points;
	p->tiles = 1;
	if (!stx_ex_is_const(k->ex, k->grid, &points))
		return 0;
	for (unsigned i = 0; i < p->ndigits; i++) {
		int64_t end = p->digit[i].stride * p->digit[i].count;
		if (end > points || (i + 1 < p->ndigits && p->digit[i + 1].stride % end))
			return 0;
		p->tiles *= p->digit[i].count;
	}
	return 1;
}

/* All that the hole loads is constant: *elems, of how many bytes the smallest is. */
static int loads_constants(const struct stx_kernel *k, const struct stx__tile *t, int j,
			   struct stx__prepared *p, int64_t *elems, unsigned *bytes)
{
	*elems = 0;
	*bytes = 8;
	for (uint32_t n = 0; n < t->update; n++) {
		const struct stx_kinst *i = &k->insts.at[n];
		if (!t->in[j][n])
			continue;
		if (n < t->rows ? i->op != STX_K_CONST : !find_digits(k, i->ex, p))
			return 0;
		if (i->op != STX_K_LOAD)
			continue;
		const struct stx_kparam *q = &k->params.at[i->a];
		unsigned size = (unsigned)stx_dtype_bytes(q->dtype);
		if (!q->is_constant)
			return 0;
		*elems = stx_sat_add(*elems, stx_ex_interval(k->ex, q->elems).hi);
		*bytes = size < *bytes ? size : *bytes;
	}
	return *elems > 0;
}

static int pays(const struct stx_kernel *k, const struct stx__tile *t, int j,
		const struct stx__prepared *p, int64_t elems, unsigned bytes)
{
	int64_t points, uses = j ? t->most_rows : t->most_cols;
	if (p->tiles > INT32_MAX / p->blocks || !stx_ex_is_const(k->ex, k->grid, &points) ||
	    p->bytes > INT64_MAX / 2 / p->tiles / p->blocks || elems > INT64_MAX / 32)
		return 0;
	if (p->tiles * p->blocks * p->bytes > 2 * elems * t->bytes + SMALL)
		return 0;
	if (t->thin) /* it waits for memory: nothing is gained by more bytes */
		return j && bytes >= t->bytes;
	if (t->keeps[j])
		uses *= points / p->tiles;
	return uses <= (j ? MOST_ROWS : MOST_COLS);
}

void stx__tile_find_prepared(const struct stx_kernel *k, struct stx__tile *t)
{
	t->nprepared = 0;
	for (int j = 0; j < 2; j++) {
		struct stx__prepared *p = &t->prepared[j];
		int64_t terms, elems;
		unsigned bytes;
		int loop = (int)(j ? t->cols : t->rows);
		*p = (struct stx__prepared){ .number = t->nprepared };
		if (k->scalars.n || !stx_ex_is_const(k->ex, axis_of(k, t->terms)->size, &terms) ||
		    terms < 1 || !loads_constants(k, t, j, p, &elems, &bytes) ||
		    !find_digits(k, axis_of(k, (uint32_t)loop)->size, p) || !are_digits(k, p))
			continue;
		int64_t nr = (int64_t)t->nv * t->w;
		p->blocks = (terms - 1) / t->kc + 1;
		p->bytes = !t->thin || !j
				   ? t->block[j]
				   : round_up(round_up(t->most_cols, nr) / nr * t->panel * t->bytes,
					      64);
		p->bytes += t->dot == STX__DOT_BF16 ? WILD : 0;
		p->is_offered = (uint8_t)pays(k, t, j, p, elems, bytes);
		t->nprepared += p->is_offered;
	}
}

/* ---- in the kernel ---- */

static LLVMValueRef bytes_beyond(struct stx__emit *e, LLVMValueRef p, LLVMValueRef i)
{
	return LLVMBuildGEP2(e->b, e->i8, p, &i, 1, "");
}

void stx__tile_load_prepared(struct stx__emit *e, LLVMValueRef packed)
{
	for (int j = 0; j < 2; j++) {
		struct stx__prepared *p = &e->tile->prepared[j];
		LLVMValueRef i = stx__i64(e, p->number);
		if (!p->is_offered)
			continue;
		i = LLVMBuildGEP2(e->b, e->ptr, packed, &i, 1, "");
		p->at = LLVMBuildLoad2(e->b, e->ptr, i, "");
		p->is_there = stx__icmp(e, LLVMIntNE, p->at, LLVMConstNull(e->ptr));
	}
}

/* Where the block says whether it holds numbers that vdpbf16ps takes for others. */
static LLVMValueRef wild_place(struct stx__emit *e, const struct stx__prepared *p,
			       LLVMValueRef block)
{
	return bytes_beyond(e, block, stx__i64(e, p->bytes - WILD));
}

LLVMValueRef stx__tile_prepared_block(struct stx__emit *e, int j, LLVMValueRef first)
{
	struct stx__tile *t = e->tile;
	const struct stx__prepared *p = &t->prepared[j];
	LLVMValueRef number = stx__i64(e, 0);
	int64_t each = p->blocks;
	if (p->blocks > 1)
		number = LLVMBuildUDiv(e->b, first, stx__i64(e, t->kc), "");
	for (unsigned i = 0; i < p->ndigits; i++) {
		number = add(e, number, times(e, stx__ex_scalar(e, p->digit[i].at), each));
		each *= p->digit[i].count;
	}
	return bytes_beyond(e, p->at, times(e, number, p->bytes));
}

LLVMValueRef stx__tile_take_prepared(struct stx__emit *e, struct stx__block *b, int j,
				     LLVMValueRef wanted)
{
	struct stx__tile *t = e->tile;
	const struct stx__prepared *p = &t->prepared[j];
	if (!p->is_offered)
		return wanted;
	LLVMValueRef block = stx__tile_prepared_block(e, j, b->first);
	if (t->is_wild) {
		LLVMBasicBlockRef after = stx__if_begin(e, p->is_there);
		LLVMValueRef was = LLVMBuildLoad2(e->b, e->i8, t->is_wild, "");
		was = LLVMBuildOr(e->b, was, load(e, e->i8, wild_place(e, p, block), 1), "");
		LLVMBuildStore(e->b, was, t->is_wild);
		stx__if_end(e, after);
	}
	b->packed[j] = stx__select(e, p->is_there, block, b->packed[j]);
	LLVMValueRef absent = LLVMBuildNot(e->b, p->is_there, "");
	return wanted ? LLVMBuildAnd(e->b, wanted, absent, "") : absent;
}

/* ---- the other function ---- */

/* The point of the grid whose tile has that number. */
static LLVMValueRef point_of(struct stx__emit *e, const struct stx__prepared *p, LLVMValueRef tile)
{
	LLVMValueRef x0 = stx__i64(e, 0);
	for (unsigned i = 0; i < p->ndigits; i++) {
		LLVMValueRef count = stx__i64(e, p->digit[i].count);
		LLVMValueRef d = LLVMBuildURem(e->b, tile, count, "");
		tile = LLVMBuildUDiv(e->b, tile, count, "");
		x0 = add(e, x0, times(e, d, p->digit[i].stride));
	}
	return x0;
}

void stx__emit_prepare(struct stx__emit *e, int j)
{
	struct stx__tile *t = e->tile;
	const struct stx__prepared *p = &t->prepared[j];
	LLVMValueRef q = e->axis[0], blocks = stx__i64(e, p->blocks);
	LLVMValueRef kc = stx__i64(e, t->kc);
	e->axis[0] = point_of(e, p, LLVMBuildUDiv(e->b, q, blocks, ""));
	for (uint32_t n = 0; n < t->rows; n++)
		if (e->k->insts.at[n].op == STX_K_CONST)
			stx__emit_inst(e, n);
	struct stx__block b = { .rows = stx__ex_scalar(e, axis_of(e->k, t->rows)->size),
				.cols = stx__ex_scalar(e, axis_of(e->k, t->cols)->size) };
	b.first = LLVMBuildMul(e->b, LLVMBuildURem(e->b, q, blocks, ""), kc, "");
	b.terms = stx__ex_scalar(e, axis_of(e->k, t->terms)->size);
	b.terms = least(e, LLVMBuildSub(e->b, b.terms, b.first, ""), kc);
	b.packed[j] = bytes_beyond(e, p->at, times(e, q, p->bytes));
	if (t->is_wild)
		LLVMBuildStore(e->b, stx__int(e->i8, 0), t->is_wild);
	stx__tile_pack(e, &b, j, NULL);
	if (t->is_wild)
		store(e, LLVMBuildLoad2(e->b, e->i8, t->is_wild, ""), wild_place(e, p, b.packed[j]),
		      1);
	stx__tile_leave(e);
}
