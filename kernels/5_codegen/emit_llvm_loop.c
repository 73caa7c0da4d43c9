/* emit_llvm_loop.c: loops, and the walk over a kernel's instructions.
 *
 * A VECTOR loop becomes a main loop of `copies` vectors an iteration and a tail of single vectors,
 * the last one masked; there is no scalar remainder. With binding lane accumulators the main loop
 * takes 64 iterations at a time, one register a copy. When those registers would not fit the
 * target's, or the body is large, they live in an array instead and the iteration picks its place;
 * the tail does too, unless it is few vectors of a known number: those stand one after the other. A
 * loop of little work (emit_llvm_plan.c) has one copy. Recursion is as deep as the kernel's loops,
 * which stx_kernel_verify limits. */
#include <string.h>

#include "emit_llvm.h"
#include "scalar.h"

#define MOST_UNROLLED    16         /* iterations, */
#define MOST_CODE        160        /* instructions of all of them */
#define UNROLLED_TAPS    7          /* of a window, along each axis, */
#define MOST_WINDOW_CODE 1024       /* instructions of all of them, about */
#define POINTS_AHEAD     4          /* what the first tap of a window will read */
#define MOST_TAIL_CODE   192        /* instructions after a main loop */
#define MOST_AHEAD       (16 << 10) /* elements of a row that is fetched while the last one ends */
#define TURN             8          /* instructions of one copy before the next one has its turn */

/* ---- control flow ---- */

static int is_const(LLVMValueRef v, int64_t *out)
{
	if (!LLVMIsAConstantInt(v))
		return 0;
	*out = LLVMConstIntGetSExtValue(v);
	return 1;
}

LLVMBasicBlockRef stx__if_begin(struct stx__emit *e, LLVMValueRef cond)
{
	int64_t c;
	if (is_const(cond, &c) && c)
		return NULL;
	LLVMBasicBlockRef then = stx__block(e, "then"), after = stx__block(e, "after");
	LLVMBuildCondBr(e->b, cond, then, after);
	LLVMPositionBuilderAtEnd(e->b, then);
	return after;
}

void stx__if_end(struct stx__emit *e, LLVMBasicBlockRef after)
{
	if (!after)
		return;
	LLVMBuildBr(e->b, after);
	LLVMPositionBuilderAtEnd(e->b, after);
}

/* A loop known to run once is its body. */
LLVMValueRef stx__for_begin(struct stx__emit *e, struct stx__for *f, LLVMValueRef begin,
			    LLVMValueRef end, LLVMValueRef step)
{
	int64_t b, n, s;
	*f = (struct stx__for){ .end = end, .step = step };
	if (is_const(begin, &b) && is_const(end, &n) && is_const(step, &s) && b < n && n - b <= s) {
		f->i = begin;
		return begin;
	}
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b);
	LLVMValueRef enter = stx__icmp(e, LLVMIntSLT, begin, end);
	f->head = stx__block(e, "loop");
	f->after = stx__block(e, "done");
	if (is_const(enter, &b) && b)
		LLVMBuildBr(e->b, f->head);
	else
		LLVMBuildCondBr(e->b, enter, f->head, f->after);
	LLVMPositionBuilderAtEnd(e->b, f->head);
	f->i = LLVMBuildPhi(e->b, e->i64, "");
	LLVMAddIncoming(f->i, &begin, &before, 1);
	return f->i;
}

void stx__for_end(struct stx__emit *e, struct stx__for *f)
{
	if (!f->head)
		return;
	LLVMBasicBlockRef latch = LLVMGetInsertBlock(e->b);
	LLVMValueRef next = LLVMBuildAdd(e->b, f->i, f->step, "");
	LLVMSetNSW(next, 1);
	LLVMAddIncoming(f->i, &next, &latch, 1);
	LLVMBuildCondBr(e->b, stx__icmp(e, LLVMIntSLT, next, f->end), f->head, f->after);
	LLVMPositionBuilderAtEnd(e->b, f->after);
}

/* ---- instructions ---- */

static void emit_const(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	struct stx__val v = { stx__const(e, t, i->k, 1), NULL };
	if (stx__is_narrow(t))
		v.raw = stx__narrow(e, t, v.v, 1);
	else if (t == STX_F32 && stx_scalar_round(STX_BF16, i->k.f) == i->k.f)
		v.raw = stx__narrow(e, STX_BF16, v.v, 1);
	stx__set(e, n, v);
}

void stx__emit_inst(struct stx__emit *e, uint32_t n)
{
	switch (e->k->insts.at[n].op) {
	case STX_K_CONST: emit_const(e, n); break;
	case STX_K_INDEX: stx__emit_index(e, n); break;
	case STX_K_LOAD: stx__emit_load(e, n); break;
	case STX_K_STORE: stx__emit_store(e, n); break;
	case STX_K_INDIRECT: stx__emit_indirect(e, n); break;
	case STX_K_ACC: stx__acc_open(e, n); break;
	case STX_K_UPDATE: stx__acc_update(e, n); break;
	case STX_K_RESULT: stx__acc_result(e, n); break;
	case STX_K_SORT: stx__emit_sort(e, n); break;
	default: stx__emit_prim(e, n);
	}
}

/* Instructions from .. to, for one copy; what is uniform or opens an accumulator only once. */
static void emit_copy(struct stx__emit *e, uint32_t from, uint32_t to)
{
	for (uint32_t n = from; n < to && !e->err; n++) {
		int once = !e->varying[n] || e->k->insts.at[n].op == STX_K_ACC;
		if (e->kept[n].is_dead || ((e->copy || e->again) && once))
			continue;
		if (e->kept[n].is_read)
			stx__kept_read(e, n);
		else
			stx__emit_inst(e, n);
		if (e->kept[n].elems)
			stx__kept_write(e, n);
	}
}

/* Copies take turns: LLVM keeps this order, and side by side their chains of dependent instructions
 * hide each other's latencies. */
static void emit_turns(struct stx__emit *e, uint32_t from, uint32_t to)
{
	unsigned copies = e->w ? e->copies : 1;
	for (uint32_t turn; from < to; from = turn) {
		turn = to - from > TURN && copies > 1 ? from + TURN : to;
		for (e->copy = 0; e->copy < copies && !e->err; e->copy++)
			emit_copy(e, from, turn);
	}
	e->copy = 0;
}

/* Instruction n has lanes that are rare, or may have. */
static int has_rare(const struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	return e->w > 1 && e->varying[n] && !e->kept[n].is_dead && !e->kept[n].is_read &&
	       (i->op == STX_P_RARELY || stx__casts_to_bf16(e, i, e->w));
}

/* From the first such of a segment to before what has effects or reads by conditions: *first to the
 * result. Empty without one, or where lanes are not known. */
static uint32_t rare_part(const struct stx__emit *e, uint32_t from, uint32_t to, uint32_t *first)
{
	uint32_t n = from;
	while (n < to && !has_rare(e, n))
		n++;
	*first = n;
	for (; n < to; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		int plain = i->op < STX_PRIM_COUNT || i->op == STX_K_CONST ||
			    i->op == STX_K_INDEX || (i->op == STX_K_LOAD && i->c == STX_NONE);
		if (!plain || e->kept[n].is_read || e->kept[n].elems)
			break;
	}
	return n;
}

/* By instruction before `end`: whether one from there on has it as an operand, or as a condition of
 * a mask that is one: masked loads look at each. NULL: no memory. */
static uint8_t *used_after(struct stx__emit *e, uint32_t end)
{
	uint8_t *used = STX_NEW_ARRAY(e->arena, uint8_t, end + 1);
	for (uint32_t i = end; used && i < e->k->insts.n; i++) {
		const struct stx_kinst *at = &e->k->insts.at[i];
		used[at->a < end ? at->a : end] = 1;
		used[at->b < end ? at->b : end] = 1;
		used[at->c < end ? at->c : end] = 1;
	}
	for (uint32_t i = end; used && i-- > 0;) {
		const struct stx_kinst *at = &e->k->insts.at[i];
		if (used[i] && at->op == STX_P_AND && at->dtype == STX_BOOL)
			used[at->a] = used[at->b] = 1;
	}
	return used;
}

/* What value n of every copy was before the branch, and is after it. */
static void join(struct stx__emit *e, uint32_t n, const struct stx__val *was,
		 LLVMBasicBlockRef before, LLVMBasicBlockRef rare)
{
	LLVMBasicBlockRef blocks[2] = { before, rare };
	for (unsigned c = 0; c < e->copies; c++) {
		struct stx__val *now = &e->val[(size_t)n * e->stride + c], a = was[c], b = *now;
		now->v = LLVMBuildPhi(e->b, LLVMTypeOf(a.v), "");
		LLVMAddIncoming(now->v, (LLVMValueRef[]){ a.v, b.v }, blocks, 2);
		if (a.raw && b.raw) {
			now->raw = LLVMBuildPhi(e->b, LLVMTypeOf(a.raw), "");
			LLVMAddIncoming(now->raw, (LLVMValueRef[]){ a.raw, b.raw }, blocks, 2);
		}
	}
}

/* Primitives first .. to for lanes without a rare one; where any has one, all of them again. */
static void emit_rare(struct stx__emit *e, uint32_t first, uint32_t to)
{
	size_t stride = e->stride;
	struct stx__val *was = STX_NEW_ARRAY(e->arena, struct stx__val, (to - first) * stride);
	uint8_t *used = used_after(e, to);
	if (!was || !used) {
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
		return;
	}
	e->rare = NULL;
	e->usual = 1;
	emit_turns(e, first, to);
	e->usual = 0;
	if (!e->rare) /* casts that had nothing to round */
		return;
	memcpy(was, e->val + first * stride, (to - first) * stride * sizeof *was);
	LLVMBasicBlockRef before = LLVMGetInsertBlock(e->b), after, rare;
	after = stx__if_begin(e, stx__any(e, e->rare, e->w));
	e->again = 1;
	for (uint32_t n = first; n < to;) { /* loads and constants are there */
		uint32_t end = n;
		while (end < to && e->k->insts.at[end].op < STX_PRIM_COUNT)
			end++;
		emit_turns(e, n, end);
		n = end + 1;
	}
	e->again = 0;
	rare = LLVMGetInsertBlock(e->b);
	stx__if_end(e, after);
	for (uint32_t n = first; n < to && !e->err; n++)
		if (used[n] && e->varying[n] && e->k->insts.at[n].op < STX_PRIM_COUNT)
			join(e, n, &was[(n - first) * stride], before, rare);
}

static void emit_segment(struct stx__emit *e, uint32_t from, uint32_t to)
{
	uint32_t first, end = rare_part(e, from, to, &first);
	emit_turns(e, from, first);
	if (first < end)
		emit_rare(e, first, end);
	emit_turns(e, end, to);
}

/* ---- serial loops ---- */

LLVMValueRef stx__loop_size(struct stx__emit *e, uint32_t n, struct stx_interval *r)
{
	stx_ex size = e->k->axes.at[e->k->insts.at[n].a].size;
	*r = stx_ex_interval(e->k->ex, size);
	LLVMValueRef v = stx__ex_scalar(e, size);
	if (r->lo >= 0)
		return v;
	LLVMTypeRef t = e->i64;
	LLVMValueRef args[2] = { v, stx__i64(e, 0) };
	return stx__call(e, "llvm.smax", &t, 1, args, 2);
}

LLVMValueRef stx__smaller(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b)
{
	LLVMTypeRef t = e->i64;
	LLVMValueRef args[2] = { a, b };
	int64_t x, y;
	if (is_const(a, &x) && is_const(b, &y))
		return stx__i64(e, x < y ? x : y);
	return stx__call(e, "llvm.smin", &t, 1, args, 2);
}

static void reset_parted(struct stx__emit *e, struct stx__acc *a)
{
	for (; a; a = a->next_inner)
		if (a->parted)
			stx__acc_reset(e, a);
}

static void part_parted(struct stx__emit *e, struct stx__acc *a)
{
	for (; a; a = a->next_inner)
		if (a->parted)
			stx__acc_part(e, a);
}

static int any_parted(const struct stx__acc *a)
{
	for (; a; a = a->next_inner)
		if (a->parted)
			return 1;
	return 0;
}

/* Loop n and those inside have few iterations, as the taps of a window have. */
static int is_window(struct stx__emit *e, uint32_t n)
{
	int64_t size;
	for (uint32_t i = n; i < e->loop[n].end; i++) {
		if (e->k->insts.at[i].op != STX_K_LOOP)
			continue;
		if (!stx_ex_is_const(e->k->ex, e->k->axes.at[e->k->insts.at[i].a].size, &size) ||
		    size < 2 || size > UNROLLED_TAPS || any_parted(e->loop[i].inner))
			return 0;
	}
	return 1;
}

/* The body once for every iteration, when that is little code: a scan's block, or in a vector loop
 * the window of a pool: what neighbouring results read is loaded once. Indices and comparisons with
 * them become constants. */
static int unroll(struct stx__emit *e, uint32_t n, LLVMValueRef begin, LLVMValueRef end)
{
	uint32_t axis = e->k->insts.at[n].a, all = e->loop[n].unrolled;
	int64_t from, to;
	if (!is_const(begin, &from) || !is_const(end, &to) || to - from > MOST_UNROLLED ||
	    (all * (e->w ? e->copies : 1) > MOST_CODE &&
	     !(e->w && all <= MOST_WINDOW_CODE && is_window(e, n))))
		return 0;
	e->axis_depth[axis] = (uint8_t)++e->depth;
	int64_t by = e->ahead.by;
	if (!by && e->w && is_window(e, n)) {
		e->ahead.axis = 0;
		e->ahead.by = POINTS_AHEAD;
	}
	for (int64_t i = from; i < to; i++) {
		e->axis[axis] = stx__i64(e, i);
		stx__emit_range(e, n + 1, e->loop[n].end);
		e->ahead.by = -1;
	}
	e->ahead.by = by;
	e->depth--;
	e->axis[axis] = NULL;
	return 1;
}

void stx__serial_body(struct stx__emit *e, uint32_t n, LLVMValueRef begin, LLVMValueRef end)
{
	struct stx__for f;
	uint32_t axis = e->k->insts.at[n].a;
	if (unroll(e, n, begin, end))
		return;
	e->axis[axis] = stx__for_begin(e, &f, begin, end, stx__i64(e, 1));
	e->axis_depth[axis] = (uint8_t)++e->depth;
	stx__emit_range(e, n + 1, e->loop[n].end);
	e->depth--;
	stx__for_end(e, &f);
	e->axis[axis] = NULL;
}

static void emit_serial(struct stx__emit *e, uint32_t n)
{
	struct stx__loop_info *l = &e->loop[n];
	struct stx_interval r;
	LLVMValueRef size = stx__loop_size(e, n, &r), zero = stx__i64(e, 0);
	struct stx__for f;
	if (r.hi <= 0)
		return;
	if (!any_parted(l->inner)) {
		stx__emit_across(e, n, size);
		e->in_across = l->across != NULL;
		stx__serial_body(e, n, zero, size);
		e->in_across = 0;
		return;
	}
	LLVMValueRef chunk = stx__i64(e, STX_SERIAL_CHUNK);
	if (r.hi <= STX_SERIAL_CHUNK) { /* one chunk a run, none when it does not run */
		LLVMBasicBlockRef after = stx__if_begin(e, stx__icmp(e, LLVMIntSGT, size, zero));
		reset_parted(e, l->inner);
		stx__serial_body(e, n, zero, size);
		part_parted(e, l->inner);
		stx__if_end(e, after);
		return;
	}
	LLVMValueRef at = stx__for_begin(e, &f, zero, size, chunk);
	LLVMValueRef left = stx__smaller(e, LLVMBuildSub(e->b, size, at, ""), chunk);
	reset_parted(e, l->inner);
	stx__serial_body(e, n, at, LLVMBuildAdd(e->b, at, left, ""));
	part_parted(e, l->inner);
	stx__for_end(e, &f);
}

/* ---- vector loops ---- */

static void each_binding(struct stx__emit *e, struct stx__acc *a,
			 void (*fn)(struct stx__emit *, struct stx__acc *))
{
	for (; a; a = a->next_inner)
		if (a->order == STX_ORDER_LANES && !a->exact)
			fn(e, a);
}

static unsigned log2_of(unsigned v)
{
	unsigned n = 0;
	while (v >>= 1)
		n++;
	return n;
}

/* The body for iterations i, i+1, ... of the vector axis: `copies` vectors; rest: how many of the
 * first vector's lanes are active, or NULL for all. */
static void vector_body(struct stx__emit *e, uint32_t n, LLVMValueRef i, unsigned copies,
			LLVMValueRef rest, int in_memory)
{
	const struct stx__loop_info *l = &e->loop[n];
	e->vaxis = e->k->insts.at[n].a;
	e->w = l->w;
	e->copies = copies;
	e->axis[e->vaxis] = i;
	e->mask = NULL;
	e->rest = rest;
	if (in_memory) {
		e->slot = LLVMBuildLShr(e->b, i, stx__i64(e, log2_of(l->w)), "");
		e->slot = LLVMBuildAnd(e->b, e->slot, stx__i64(e, STX_LANES / l->w - 1), "");
	}
	if (rest) {
		LLVMTypeRef t = stx__int_type(e, e->mask_bits);
		LLVMValueRef limit = t == e->i64 ? rest : LLVMBuildTrunc(e->b, rest, t, "");
		e->mask = stx__icmp(e, LLVMIntULT, stx__iota(e, t, l->w, 1),
				    stx__splat(e, limit, l->w));
	}
	e->axis_depth[e->vaxis] = (uint8_t)++e->depth;
	if (l->has_loop)
		stx__fetch_results(e, n + 1, l->end, copies * l->w);
	stx__emit_range(e, n + 1, l->end);
	e->depth--;
	e->axis[e->vaxis] = NULL;
	e->w = 0;
	e->copies = 1;
	e->mask = e->rest = e->slot = NULL;
}

static unsigned tail_mask_bits(const struct stx__loop_info *l)
{
	if (l->w == 64) /* the number of lanes must fit */
		return 8;
	return l->widest ? 8u * l->widest : 32;
}

/* So many iterations after the main loop, when that is little code: straight, so that lane accumulators
 * stay in registers. requires: at is a multiple of 64 when there are any. */
static int unrolled_tail(struct stx__emit *e, uint32_t n, LLVMValueRef at, int64_t left)
{
	const struct stx__loop_info *l = &e->loop[n];
	int64_t done = 0;
	if (l->in_memory || l->has_loop || l->w == 1 ||
	    l->cost * (uint64_t)((left + l->w - 1) / l->w) > MOST_TAIL_CODE)
		return 0;
	for (int64_t now; done < left; done += now) {
		LLVMValueRef i = LLVMBuildAdd(e->b, at, stx__i64(e, done), "");
		int64_t vectors = (left - done) / l->w;
		unsigned copies = vectors < l->copies ? (unsigned)vectors : l->copies;
		LLVMValueRef rest = copies ? NULL : stx__i64(e, left - done);
		e->first_slot = (unsigned)(done / l->w);
		e->mask_bits = tail_mask_bits(l);
		vector_body(e, n, i, copies ? copies : 1, rest, 0);
		now = copies ? (int64_t)copies * l->w : left - done;
	}
	e->first_slot = 0;
	return 1;
}

/* What is left of [at, end) after the main loop, one vector at a time. */
static void vector_tail(struct stx__emit *e, uint32_t n, LLVMValueRef at, LLVMValueRef end)
{
	const struct stx__loop_info *l = &e->loop[n];
	struct stx__for f;
	int64_t b = 0, c = 1;
	int constant = is_const(at, &b) && is_const(end, &c);
	LLVMValueRef w = stx__i64(e, l->w), rest = NULL;
	LLVMBasicBlockRef after = NULL;
	int spill = !l->in_memory && l->inner;
	if (spill) {
		after = stx__if_begin(e, stx__icmp(e, LLVMIntSLT, at, end));
		each_binding(e, l->inner, stx__acc_to_array);
	}
	LLVMValueRef i = stx__for_begin(e, &f, at, end, w);
	if (!constant || (c - b) % l->w) {
		rest = stx__smaller(e, LLVMBuildSub(e->b, end, i, ""), w);
		e->mask_bits = tail_mask_bits(l);
	}
	vector_body(e, n, i, 1, l->w > 1 ? rest : NULL, 1);
	stx__for_end(e, &f);
	if (spill) {
		each_binding(e, l->inner, stx__acc_from_array);
		stx__if_end(e, after);
	}
}

void stx__vector_part(struct stx__emit *e, uint32_t n, LLVMValueRef at, LLVMValueRef count)
{
	const struct stx__loop_info *l = &e->loop[n];
	unsigned each = (unsigned)l->w * l->copies, step = each * (1 + l->again);
	LLVMValueRef main = LLVMBuildAnd(e->b, count, stx__i64(e, -(int64_t)step), "");
	LLVMValueRef middle = LLVMBuildAdd(e->b, at, main, "");
	LLVMValueRef end = LLVMBuildAdd(e->b, at, count, "");
	int64_t c;
	int constant = is_const(count, &c);
	if (l->in_memory)
		each_binding(e, l->inner, stx__acc_to_array);
	if (!constant || c >= step) {
		struct stx__for f;
		LLVMValueRef i = stx__for_begin(e, &f, at, middle, stx__i64(e, step));
		for (unsigned t = 0; t < step; t += each)
			vector_body(e, n, t ? LLVMBuildAdd(e->b, i, stx__i64(e, t), "") : i,
				    l->copies, NULL, l->in_memory);
		stx__for_end(e, &f);
	}
	if (step > 1 && (!constant || (c % step && !unrolled_tail(e, n, middle, c % step))))
		vector_tail(e, n, middle, end);
	if (l->in_memory)
		each_binding(e, l->inner, stx__acc_from_array);
}

/* Loop n is the last of a grid point that has others before: a row is passed over again. No pass of
 * hardware's goes on to the next row in time, which is in another page. */
static int ends_a_row(const struct stx__emit *e, uint32_t n)
{
	uint32_t before = 0;
	if (e->tile || e->attend || e->depth || e->rows.loop != STX_NONE ||
	    stx_ex_interval(e->k->ex, e->k->axes.at[e->k->insts.at[n].a].size).hi > MOST_AHEAD)
		return 0;
	for (uint32_t i = 0; i < e->k->insts.n; i++) {
		if (e->k->insts.at[i].op != STX_K_LOOP)
			continue;
		if (i > e->loop[n].end)
			return 0;
		before += i < n;
	}
	return before > 0;
}

static void emit_vector(struct stx__emit *e, uint32_t n)
{
	struct stx__loop_info *l = &e->loop[n];
	struct stx_interval r;
	LLVMValueRef size = stx__loop_size(e, n, &r), zero = stx__i64(e, 0);
	if (r.hi <= 0)
		return;
	if ((unsigned)l->w * l->copies > e->vector_elems)
		e->vector_elems = (unsigned)l->w * l->copies;
	if (l->columns != STX_NONE) {
		stx__emit_columns(e, n, size);
	} else if (!any_parted(l->inner)) {
		if (!e->ahead.by && ends_a_row(e, n)) {
			e->ahead.axis = 0;
			e->ahead.by = e->rows_at_once;
		}
		stx__vector_part(e, n, zero, size);
		if (ends_a_row(e, n))
			e->ahead.by = 0;
	} else if (r.hi <= STX_LANES_CHUNK) {
		LLVMBasicBlockRef after = stx__if_begin(e, stx__icmp(e, LLVMIntSGT, size, zero));
		reset_parted(e, l->inner);
		stx__vector_part(e, n, zero, size);
		part_parted(e, l->inner);
		stx__if_end(e, after);
	} else {
		struct stx__for f;
		LLVMValueRef chunk = stx__i64(e, STX_LANES_CHUNK);
		LLVMValueRef at = stx__for_begin(e, &f, zero, size, chunk);
		LLVMValueRef left = stx__smaller(e, LLVMBuildSub(e->b, size, at, ""), chunk);
		reset_parted(e, l->inner);
		stx__vector_part(e, n, at, left);
		part_parted(e, l->inner);
		stx__for_end(e, &f);
	}
}

/* A loop of a product in tiles: the tile; in its epilogue the columns there are, and no terms. */
static void emit_in_tile(struct stx__emit *e, uint32_t n)
{
	if (n == e->tile->rows)
		stx__emit_tile(e);
	else if (n == e->tile->cols)
		stx__vector_part(e, n, e->tile->col0, e->tile->ncols);
}

/* Of an attention likewise: in its epilogue all columns. */
static void emit_in_attend(struct stx__emit *e, uint32_t n)
{
	if (n == e->attend->rows)
		stx__emit_attend(e);
	else if (n == e->attend->cols)
		stx__vector_part(e, n, stx__i64(e, 0), stx__i64(e, e->attend->ncols));
}

void stx__emit_range(struct stx__emit *e, uint32_t from, uint32_t to)
{
	while (from < to && !e->err) {
		uint32_t n = from;
		while (n < to && e->k->insts.at[n].op != STX_K_LOOP)
			n++;
		emit_segment(e, from, n);
		if (n == to)
			return;
		struct stx__loop_info *l = &e->loop[n];
		if (n == e->rows.loop) {
			if (stx__columns_loop(e, n))
				return;
			from = l->end + 1;
			continue;
		}
		if (e->tile || e->attend) {
			if (e->tile)
				emit_in_tile(e, n);
			else
				emit_in_attend(e, n);
			from = l->end + 1;
			continue;
		}
		if (e->k->axes.at[e->k->insts.at[n].a].binding == STX_AXIS_VECTOR)
			emit_vector(e, n);
		else
			emit_serial(e, n);
		for (struct stx__acc *a = l->accs; a; a = a->next_loop)
			stx__acc_finish(e, a);
		from = l->end + 1;
	}
}
