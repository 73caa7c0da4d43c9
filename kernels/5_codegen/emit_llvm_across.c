/* emit_llvm_across.c: loads across the vector axis, transposed through registers.
 *
 * In a nest of one serial and one vector loop (kernel_axes.c makes such tiles) an element that
 * stands beside its neighbours along the serial axis is a gather for the vector loop, a cache line
 * a lane. Before the nest, the block of all such elements is brought into a small array whose rows
 * run along the vector axis, w by w elements at a time: w loads, log2(w) rounds of shuffles, w
 * stores. The loop then reads that array. Blocks at the edges overlap their neighbours, so that no
 * element beyond the block is touched; blocks smaller than w are copied one element at a time. What
 * the next grid point reads is asked for meanwhile: its lines lie in as many pages as there are
 * columns, which no hardware foresees.
 *
 * Loads are moved before the stores of their own iteration only, or before those of others, which
 * do not write what they read (kernel.h). */
#include <assert.h>

#include "emit_llvm.h"
#include "sat.h"

#define MOST_COLUMNS 256
#define MOST_BYTES   (64 << 10)         /* of all arrays of a nest, on the stack */
#define FAR_BYTES    ((int64_t)1 << 20) /* of all parameters: no private cache holds them */
#define NEAR_BYTES   ((int64_t)1 << 16) /* of a parameter that is not fetched ahead all the same */

static const struct stx_kinst *inst(const struct stx__emit *e, uint32_t n)
{
	return &e->k->insts.at[n];
}

static int64_t most(const struct stx__emit *e, uint32_t loop)
{
	return stx_ex_interval(e->k->ex, e->k->axes.at[inst(e, loop)->a].size).hi;
}

/* ---- which loads ---- */

static int has_indirect(const struct stx__emit *e, stx_ex ex)
{
	uint32_t n = stx_ex_nterms(e->k->ex, ex);
	for (uint32_t i = 0; i < n; i++) {
		struct stx_ex_term t = stx_ex_term_at(e->k->ex, ex, i);
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct stx_ex_atom a = stx_ex_atom_at(e->k->ex, t.atoms[j]);
			if (a.kind == STX_ATOM_INDIRECT ||
			    (a.kind >= STX_ATOM_FLOORDIV &&
			     (has_indirect(e, a.a) || has_indirect(e, a.b))))
				return 1;
		}
	}
	return 0;
}

/* ex = x1 + stride*x2 + first; the variables are those of the serial and of the vector loop. */
static int splits(struct stx__emit *e, stx_ex ex, uint32_t x1, uint32_t x2, struct stx__across *a)
{
	struct stx_exprs *x = e->k->ex;
	stx_ex rest, one;
	int64_t c;
	if (!stx_ex_linear_in(x, ex, x2, &a->stride, &rest) ||
	    !stx_ex_linear_in(x, rest, x1, &one, &a->first) || !stx_ex_equals(x, one, 1))
		return 0;
	if (stx_ex_uses_var(x, a->stride, x1) || stx_ex_uses_var(x, a->stride, x2) ||
	    stx_ex_uses_var(x, a->first, x1) || stx_ex_uses_var(x, a->first, x2))
		return 0;
	if (stx_ex_is_const(x, a->stride, &c) && c >= -STX__NEAR && c <= STX__NEAR)
		return 0;
	return !has_indirect(e, ex);
}

static unsigned block_of(const struct stx__emit *e, unsigned bytes)
{
	unsigned most_lanes = e->t->level >= 4 ? 16 : 8, w = e->t->vector_bytes / bytes;
	return w < most_lanes ? w : most_lanes;
}

static void find_load(struct stx__emit *e, uint32_t serial, uint32_t vector, uint32_t n,
		      int64_t *bytes_left)
{
	const struct stx_kinst *i = inst(e, n);
	struct stx__across a = { .load = n, .serial = inst(e, serial)->a };
	if (i->op != STX_K_LOAD || i->c != STX_NONE || e->k->params.at[i->a].is_written ||
	    !splits(e, i->ex, inst(e, serial)->a, inst(e, vector)->a, &a))
		return;
	unsigned bytes = (unsigned)stx_dtype_bytes((enum stx_dtype)i->dtype);
	a.w = block_of(e, bytes);
	a.pitch = (unsigned)(most(e, vector) + 63) / 64 * 64;
	a.rows = (unsigned)most(e, serial);
	*bytes_left -= (int64_t)a.pitch * a.rows * bytes;
	if (*bytes_left < 0 || a.w < 2)
		return;
	struct stx__across *kept = STX_NEW(e->arena, struct stx__across);
	if (!kept) {
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
		return;
	}
	*kept = a;
	kept->next = e->loop[serial].across;
	e->loop[serial].across = kept;
	e->across[n] = kept;
}

/* The one loop inside LOOP n, a vector loop with nothing but straight-line code; or STX_NONE. */
static uint32_t only_vector(const struct stx__emit *e, uint32_t n)
{
	uint32_t found = STX_NONE;
	if (e->k->axes.at[inst(e, n)->a].binding != STX_AXIS_LOOP || e->loop[n].accs)
		return STX_NONE;
	for (uint32_t i = n + 1; i < e->loop[n].end; i++) {
		if (inst(e, i)->op != STX_K_LOOP)
			continue;
		if (found != STX_NONE || e->k->axes.at[inst(e, i)->a].binding != STX_AXIS_VECTOR ||
		    e->loop[i].accs)
			return STX_NONE;
		found = i;
	}
	return found;
}

void stx__find_across(struct stx__emit *e)
{
	for (uint32_t n = 0; n < e->k->insts.n && !e->err; n++) {
		int64_t bytes = MOST_BYTES;
		uint32_t v = inst(e, n)->op == STX_K_LOOP ? only_vector(e, n) : STX_NONE;
		if (v == STX_NONE || most(e, v) > MOST_COLUMNS || most(e, n) > MOST_BYTES)
			continue;
		for (uint32_t i = v + 1; i < e->loop[v].end; i++)
			find_load(e, n, v, i, &bytes);
	}
}

/* ---- shuffles ---- */

static LLVMValueRef shuffle(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b,
			    const unsigned *lane, unsigned w)
{
	LLVMValueRef mask[64];
	for (unsigned i = 0; i < w; i++)
		mask[i] = LLVMConstInt(e->i32, lane[i], 0);
	return LLVMBuildShuffleVector(e->b, a, b, LLVMConstVector(mask, w), "");
}

/* Within each 16 bytes, runs of `unit` elements of a and b in turn: of the lower or upper halves.
 */
static LLVMValueRef unpack(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b, unsigned w,
			   unsigned part, unsigned unit, int upper)
{
	unsigned lane[64];
	for (unsigned i = 0; i < w; i++) {
		unsigned in = i % part, from = in / (2 * unit) * unit + in % unit;
		lane[i] = i / part * part + from + (upper ? part / 2 : 0) + (in / unit % 2 ? w : 0);
	}
	return shuffle(e, a, b, lane, w);
}

/* The even or the odd parts of a, then those of b. */
static LLVMValueRef every_other(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b, unsigned w,
				unsigned part, int odd)
{
	unsigned lane[64];
	for (unsigned i = 0; i < w; i++)
		lane[i] = (2 * (i / part) + (unsigned)odd) * part + i % part;
	return shuffle(e, a, b, lane, w);
}

static unsigned reversed(unsigned v, unsigned n) /* the lower log2(n) bits of v */
{
	unsigned r = 0;
	for (; n > 1; n /= 2, v /= 2)
		r = 2 * r + v % 2;
	return r;
}

/* w rows of w to columns. First inside 16 bytes, whose rounds leave column c at the bits of c
 * reversed, then with whole ones. */
static void transpose(struct stx__emit *e, LLVMValueRef *r, unsigned w, unsigned part)
{
	LLVMValueRef t[16] = { NULL };
	assert(part >= 1 && part <= w && w <= 16);
	for (unsigned unit = 1; unit < part; unit *= 2)
		for (unsigned i = 0; i < w; i++)
			if (!(i & unit)) {
				LLVMValueRef a = r[i], b = r[i + unit];
				r[i] = unpack(e, a, b, w, part, unit, 0);
				r[i + unit] = unpack(e, a, b, w, part, unit, 1);
			}
	for (unsigned unit = part; unit < w; unit *= 2)
		for (unsigned i = 0; i < w; i++)
			if (!(i & unit)) {
				LLVMValueRef a = r[i], b = r[i + unit];
				r[i] = every_other(e, a, b, w, part, 0);
				r[i + unit] = every_other(e, a, b, w, part, 1);
			}
	for (unsigned i = 0; i < w; i++)
		t[i / part * part + reversed(i % part, part)] = r[i];
	for (unsigned i = 0; i < w; i++)
		r[i] = t[i];
}

/* ---- the copy ---- */

static LLVMValueRef add(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildAdd(e->b, a, b, "");
}

static LLVMValueRef mul(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	return LLVMBuildMul(e->b, a, b, "");
}

static LLVMValueRef at(struct stx__emit *e, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef i)
{
	return LLVMBuildGEP2(e->b, t, p, &i, 1, "");
}

struct block { /* of one load */
	const struct stx__across *a;
	LLVMTypeRef t;
	unsigned bytes;
	LLVMValueRef from, ahead, stride; /* first element; that of the next grid point or NULL */
	LLVMValueRef rows, cols;          /* along the serial, the vector axis */
};

/* Elements of w rows of the array from column j, row i. */
static void one_block(struct stx__emit *e, const struct block *k, LLVMValueRef j, LLVMValueRef i)
{
	LLVMValueRef r[16] = { NULL }, to = k->a->buffer, by = add(e, mul(e, j, k->stride), i);
	LLVMTypeRef row = LLVMVectorType(k->t, k->a->w);
	unsigned w = k->a->w, part = k->bytes < 16 ? 16 / k->bytes : 1;
	LLVMValueRef from = at(e, k->t, k->from, by);
	for (unsigned q = 0; q < w; q++) {
		LLVMValueRef step = mul(e, stx__i64(e, q), k->stride);
		if (k->ahead)
			stx__prefetch(e, at(e, k->t, at(e, k->t, k->ahead, by), step));
		r[q] = LLVMBuildLoad2(e->b, row, at(e, k->t, from, step), "");
		LLVMSetAlignment(r[q], k->bytes);
	}
	transpose(e, r, w, part < w ? part : w);
	to = at(e, k->t, to, add(e, mul(e, i, stx__i64(e, k->a->pitch)), j));
	for (unsigned q = 0; q < w; q++) {
		LLVMValueRef s = LLVMBuildStore(
			e->b, r[q], at(e, k->t, to, stx__i64(e, (int64_t)q * k->a->pitch)));
		LLVMSetAlignment(s, k->bytes);
	}
}

static void whole_blocks(struct stx__emit *e, const struct block *k)
{
	struct stx__for fj, fi;
	LLVMValueRef w = stx__i64(e, k->a->w), zero = stx__i64(e, 0);
	LLVMValueRef j = stx__for_begin(e, &fj, zero, k->cols, w);
	j = stx__smaller(e, j, LLVMBuildSub(e->b, k->cols, w, ""));
	LLVMValueRef i = stx__for_begin(e, &fi, zero, k->rows, w);
	i = stx__smaller(e, i, LLVMBuildSub(e->b, k->rows, w, ""));
	one_block(e, k, j, i);
	stx__for_end(e, &fi);
	stx__for_end(e, &fj);
}

static void single_elements(struct stx__emit *e, const struct block *k)
{
	struct stx__for fj, fi;
	LLVMValueRef one = stx__i64(e, 1), zero = stx__i64(e, 0), pitch;
	LLVMValueRef j = stx__for_begin(e, &fj, zero, k->cols, one);
	LLVMValueRef from = at(e, k->t, k->from, mul(e, j, k->stride));
	LLVMValueRef i = stx__for_begin(e, &fi, zero, k->rows, one);
	LLVMValueRef v = LLVMBuildLoad2(e->b, k->t, at(e, k->t, from, i), "");
	LLVMSetAlignment(v, k->bytes);
	pitch = mul(e, i, stx__i64(e, k->a->pitch));
	LLVMBuildStore(e->b, v, at(e, k->t, k->a->buffer, add(e, pitch, j)));
	stx__for_end(e, &fi);
	stx__for_end(e, &fj);
}

static void copy_block(struct stx__emit *e, const struct block *k, int64_t least)
{
	LLVMValueRef w = stx__i64(e, k->a->w);
	if (least >= k->a->w) {
		whole_blocks(e, k);
		return;
	}
	LLVMValueRef large = LLVMBuildAnd(e->b, stx__icmp(e, LLVMIntSGE, k->rows, w),
					  stx__icmp(e, LLVMIntSGE, k->cols, w), "");
	LLVMValueRef small = LLVMBuildNot(e->b, large, "");
	LLVMBasicBlockRef after = stx__if_begin(e, large);
	whole_blocks(e, k);
	stx__if_end(e, after);
	after = stx__if_begin(e, small);
	single_elements(e, k);
	stx__if_end(e, after);
}

static int64_t bytes_of(const struct stx__emit *e, uint32_t param)
{
	const struct stx_kparam *p = &e->k->params.at[param];
	return stx_sat_mul(stx_ex_interval(e->k->ex, p->elems).hi,
			   (int64_t)stx_dtype_bytes(p->dtype));
}

int stx__is_far(const struct stx__emit *e, uint32_t param)
{
	int64_t all = 0;
	if (bytes_of(e, param) < NEAR_BYTES)
		return 0;
	for (uint32_t i = 0; i < e->k->params.n; i++)
		all = stx_sat_add(all, bytes_of(e, i));
	return all >= FAR_BYTES;
}

/* Element ex for the next grid point. */
static LLVMValueRef next_point(struct stx__emit *e, stx_ex ex)
{
	LLVMValueRef now = e->axis[0];
	e->axis[0] = add(e, now, stx__i64(e, 1));
	LLVMValueRef v = stx__ex_scalar(e, ex);
	e->axis[0] = now;
	return v;
}

void stx__emit_across(struct stx__emit *e, uint32_t loop, LLVMValueRef rows)
{
	struct stx__across *a = e->loop[loop].across;
	if (!a)
		return;
	uint32_t vector = only_vector(e, loop);
	stx_ex cols = e->k->axes.at[inst(e, vector)->a].size;
	stx_ex size = e->k->axes.at[inst(e, loop)->a].size;
	int64_t least = stx_ex_interval(e->k->ex, size).lo;
	if (stx_ex_interval(e->k->ex, cols).lo < least)
		least = stx_ex_interval(e->k->ex, cols).lo;
	for (; a; a = a->next) {
		const struct stx_kinst *i = inst(e, a->load);
		enum stx_dtype t = (enum stx_dtype)i->dtype;
		struct block k = { .a = a,
				   .t = stx__mem_type(e, t),
				   .bytes = (unsigned)stx_dtype_bytes(t),
				   .rows = rows };
		LLVMValueRef p = e->params[i->a];
		k.cols = stx__ex_scalar(e, cols);
		k.stride = stx__ex_scalar(e, a->stride);
		k.from = at(e, k.t, p, stx__ex_scalar(e, a->first));
		if (stx__is_far(e, i->a))
			k.ahead = at(e, k.t, p, next_point(e, a->first));
		a->buffer = stx__alloca(e, LLVMArrayType2(k.t, (uint64_t)a->pitch * a->rows), 64);
		copy_block(e, &k, least);
	}
}
