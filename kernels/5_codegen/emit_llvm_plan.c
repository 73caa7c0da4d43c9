/* emit_llvm_plan.c: what is decided about a kernel before a line of IR is built: which values vary
 * in their vector loop, how many lanes and copies each vector loop has, how each accumulator is
 * kept.
 *
 * requires: stx_kernel_verify. Two passes over the instructions: the first pairs loops with their
 * ends and accumulators with their loops, the second decides. */
#include "emit_llvm.h"

#define MAX_CHUNKS ((uint64_t)1 << 52) /* more are never run */

struct plan {
	struct stx__emit *e;
	uint32_t open[STX_KERNEL_MAX_LOOPS + 1];
	uint32_t depth;
	uint32_t vector; /* the open VECTOR loop, or STX_NONE */
	struct stx__acc *pending;
};

static const struct stx_axis *axis_of(const struct stx__emit *e, uint32_t loop)
{
	return &e->k->axes.at[e->k->insts.at[loop].a];
}

/* ---- first pass ---- */

static int is_exact(enum stx_monoid m, enum stx_dtype t)
{
	if (m == STX_MONOID_WELFORD || m == STX_MONOID_SOFTMAX || m == STX_MONOID_ATTEND)
		return 0;
	return !stx_dtype_is_float(t) ||
	       (m != STX_MONOID_SUM && m != STX_MONOID_PROD && m != STX_MONOID_DOT);
}

static void open_acc(struct plan *p, uint32_t n)
{
	struct stx__emit *e = p->e;
	const struct stx_kinst *i = &e->k->insts.at[n];
	struct stx__acc *a = STX_NEW(e->arena, struct stx__acc);
	if (!a) {
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
		return;
	}
	a->inst = n;
	a->monoid = i->flags;
	a->order = i->axis;
	a->dtype = (enum stx_dtype)i->dtype;
	a->nstates = stx_monoid_info((enum stx_monoid)i->flags)->state;
	a->exact = (uint8_t)is_exact((enum stx_monoid)i->flags, a->dtype);
	a->runs = i->axis == STX_ORDER_RUNNING;
	a->keyed = !a->runs && a->dtype == STX_F32 &&
		   (i->flags == STX_MONOID_MAX || i->flags == STX_MONOID_MIN);
	a->nstates += a->keyed;
	a->next_loop = p->pending;
	p->pending = a;
	e->acc[n] = a;
}

static void open_loop(struct plan *p, uint32_t n)
{
	struct stx__emit *e = p->e;
	const struct stx_axis *x = axis_of(e, n);
	e->loop[n].accs = p->pending;
	for (struct stx__acc *a = p->pending; a; a = a->next_loop)
		a->loop = n;
	p->pending = NULL;
	if (p->depth)
		e->loop[p->open[p->depth - 1]].has_loop = 1;
	if (p->vector != STX_NONE &&
	    stx_ex_uses_var(e->k->ex, x->size, e->k->insts.at[p->vector].a))
		e->loop[p->vector].scalar = 1;
	if (x->binding == STX_AXIS_VECTOR)
		p->vector = n;
	if (p->depth < STX_KERNEL_MAX_LOOPS)
		p->open[p->depth++] = n;
	else
		stx__fail(e, STX_E_INVALID, "loops are nested too deeply");
}

/* Nothing but elements at indices that are themselves read along the loop: one after the other they
 * take less time than gathered, measured a third. */
static int only_moves(const struct stx__emit *e, uint32_t loop, uint32_t end)
{
	uint32_t axis = e->k->insts.at[loop].a;
	int found = 0;
	for (uint32_t n = loop + 1; n < end; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n], *at;
		if (i->op == STX_K_INDIRECT) {
			at = &e->k->insts.at[i->a];
			if (at->op != STX_K_LOAD || !stx_ex_uses_var(e->k->ex, at->ex, axis))
				return 0;
			found = 1;
		} else if (i->op != STX_K_LOAD && i->op != STX_K_STORE && i->op != STX_K_CONST) {
			return 0;
		}
	}
	return found;
}

static void close_loop(struct plan *p, uint32_t n)
{
	uint32_t loop = p->e->k->insts.at[n].a;
	if (p->vector == loop && only_moves(p->e, loop, n)) {
		p->e->loop[loop].scalar = 1;
		p->e->loop[loop].again = 3;
	}
	p->e->loop[loop].end = n;
	p->depth--;
	if (p->vector == loop)
		p->vector = STX_NONE;
}

/* Places for partial results: one more than the bits of the number of chunks. */
static unsigned ranks_of(const struct plan *p, const struct stx__acc *a, int64_t chunk)
{
	const struct stx__emit *e = p->e;
	uint64_t chunks = 1;
	unsigned ranks = 1;
	for (uint32_t i = p->depth; i-- > 0;) {
		int64_t hi = stx_ex_interval(e->k->ex, axis_of(e, p->open[i])->size).hi;
		uint64_t n = hi > 0 ? (uint64_t)hi : 1;
		if (p->open[i] == a->inner)
			n = (n + (uint64_t)chunk - 1) / (uint64_t)chunk;
		chunks = n > MAX_CHUNKS / chunks ? MAX_CHUNKS : chunks * n;
		if (p->open[i] == a->loop)
			break;
	}
	while (chunks >>= 1)
		ranks++;
	return ranks;
}

/* Short rows leave lanes as they are. An identity of Welford's changes infinities, and softmax's is
 * not tried. */
static unsigned reach_of(const struct stx__emit *e, const struct stx__acc *a)
{
	int64_t size;
	if (a->monoid == STX_MONOID_WELFORD || a->monoid == STX_MONOID_SOFTMAX ||
	    !stx_ex_is_const(e->k->ex, axis_of(e, a->inner)->size, &size) || size >= STX_LANES)
		return STX_LANES;
	return size < 1 ? 1 : (unsigned)size;
}

static void see_update(struct plan *p, uint32_t n)
{
	struct stx__emit *e = p->e;
	struct stx__acc *a = e->acc[e->k->insts.at[n].a];
	a->update = n;
	a->inner = p->open[p->depth - 1];
	a->next_inner = e->loop[a->inner].inner;
	e->loop[a->inner].inner = a;
	int64_t hi = stx_ex_interval(e->k->ex, axis_of(e, a->inner)->size).hi;
	int64_t chunk = a->order == STX_ORDER_LANES ? STX_LANES_CHUNK : STX_SERIAL_CHUNK;
	a->parted = !a->exact && a->order != STX_ORDER_PLAIN && !a->runs &&
		    (a->loop != a->inner || hi > chunk);
	a->ranks = ranks_of(p, a, chunk);
	a->reach = reach_of(p->e, a);
}

static void first_pass(struct plan *p)
{
	struct stx__emit *e = p->e;
	for (uint32_t n = 0; n < e->k->insts.n && !e->err; n++) {
		switch (e->k->insts.at[n].op) {
		case STX_K_ACC: open_acc(p, n); break;
		case STX_K_LOOP: open_loop(p, n); break;
		case STX_K_END: close_loop(p, n); break;
		case STX_K_UPDATE: see_update(p, n); break;
		default: break;
		}
	}
}

/* ---- second pass ---- */

static unsigned cost_of(const struct stx_kinst *i)
{
	enum stx_dtype t = i->dtype < STX_DTYPE_COUNT ? (enum stx_dtype)i->dtype : STX_F32;
	switch (i->op) {
	case STX_K_CONST: return 0;
	case STX_K_INDIRECT: return 8;
	case STX_P_DIV:
	case STX_P_FLOORDIV:
	case STX_P_MOD:
	case STX_P_REM: return stx_dtype_is_float(t) && i->op == STX_P_DIV ? 1 : 16;
	case STX_K_LOAD:
	case STX_K_STORE:
	case STX_P_CAST: return stx__is_narrow(t) ? 4 : 1;
	default: return 1;
	}
}

/* Bytes a lane of the value takes in a register; 0: it does not decide. What is wider than memory and
 * accumulators are is taken in halves: the rest, casts too, then fills registers. Floats below 32 bits that
 * are only moved stay as they are. */
static unsigned width_of(const struct stx_kinst *i)
{
	int is_memory = i->op == STX_K_LOAD || i->op == STX_K_STORE;
	if (i->op == STX_K_INDEX || i->op == STX_K_CONST || i->op == STX_K_INDIRECT ||
	    i->op == STX_K_LOOP || i->op == STX_K_END || i->dtype >= STX_DTYPE_COUNT)
		return 0;
	enum stx_dtype t = (enum stx_dtype)i->dtype;
	if (t == STX_BOOL)
		return is_memory;
	unsigned bytes = (unsigned)stx_dtype_bytes(t);
	if (stx__is_narrow(t) && !is_memory && i->op != STX_P_SELECT && i->op != STX_P_BITCAST)
		bytes = 4;
	return i->op < STX_PRIM_COUNT && bytes > 4 ? 4 : bytes;
}

static int operand_varies(const struct stx__emit *e, uint32_t n)
{
	return n != STX_NONE && e->varying[n];
}

int stx__inst_varies(struct stx__emit *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	switch (i->op) {
	case STX_K_CONST:
	case STX_K_ACC:
	case STX_K_LOOP:
	case STX_K_END:
	case STX_K_SORT: return 0;
	case STX_K_INDEX: return stx__ex_varies(e, i->ex);
	case STX_K_LOAD: return stx__ex_varies(e, i->ex) || operand_varies(e, i->c);
	case STX_K_STORE:
		return stx__ex_varies(e, i->ex) || operand_varies(e, i->b) ||
		       operand_varies(e, i->c);
	case STX_K_INDIRECT:
		return operand_varies(e, i->a) || operand_varies(e, i->c) ||
		       stx__ex_varies(e, i->ex);
	case STX_K_UPDATE:
		return e->acc[i->a]->order == STX_ORDER_LANES || operand_varies(e, i->b) ||
		       operand_varies(e, i->c);
	case STX_K_RESULT: return operand_varies(e, i->a);
	default:
		return operand_varies(e, i->a) || operand_varies(e, i->b) ||
		       operand_varies(e, i->c);
	}
}

/* Vectors an iteration of the main loop: a chain of dependent instructions leaves most of a
 * processor idle, and beyond some hundred instructions it does not look ahead to the next
 * iteration. Bounded for the time that compiling takes and the registers. Eight from level 4 on,
 * which has 32, unless loads and stores take the time. */
#define LEAST_EIGHTFOLD 16
#define MOST_EIGHTFOLD  80
#define MOST_FOURFOLD   400
#define MOST_TWOFOLD    600
static unsigned copies_for(const struct stx__emit *e, const struct stx__loop_info *l)
{
	/* registers for accumulators, measured on a matmul of 8 rows: a few spills beat one copy */
	static const unsigned budget[5] = { 0, 0, 12, 16, 28 };
	unsigned n = e->t->level >= 4 ? 8 : 4, registers = budget[e->t->level];
	if (!l->states) {
		for (const struct stx__acc *a = l->inner; a; a = a->next_inner)
			if (a->exact && !a->keyed && stx_dtype_is_float(a->dtype) && l->cost <= 12)
				return 8; /* NaN and signed zeros make long chains: more of them */
		/* where rare lanes have code of their own, what it needs stays in registers: of f64 between
		 * narrower memory two each */
		if (e->t->level >= 4 && l->cost >= LEAST_EIGHTFOLD && l->cost <= MOST_EIGHTFOLD &&
		    !(l->has_rare && l->has_f64 && l->widest < 8))
			return 8;
		return l->cost <= MOST_FOURFOLD ? 4 : l->cost <= MOST_TWOFOLD ? 2 : 1;
	}
	while (n > 1 && (l->states * n > registers || l->cost * n > 192))
		n /= 2;
	return n;
}

/* Vector instructions of a whole call, about, that take less time than calling does; to compile
 * each of a loop's once more takes some 10 us. */
#define LITTLE_WORK 2000

int stx__is_little(const struct stx__emit *e, int64_t at_a_point)
{
	int64_t points = 0;
	return !e->all_long && stx_ex_is_const(e->k->ex, e->k->axes.at[0].size, &points) &&
	       !__builtin_mul_overflow(at_a_point, points, &points) && points <= LITTLE_WORK;
}

/* All runs of vector loop n, w lanes at once. */
static int is_little(const struct plan *p, uint32_t n, unsigned w)
{
	const struct stx__emit *e = p->e;
	int64_t work = e->loop[n].each, size;
	for (uint32_t i = 0; i <= p->depth; i++) {
		uint32_t loop = i < p->depth ? p->open[i] : n;
		if (!stx_ex_is_const(e->k->ex, axis_of(e, loop)->size, &size))
			return 0;
		if (loop == n)
			size = (size + w - 1) / w;
		if (__builtin_mul_overflow(work, size, &work))
			return 0;
	}
	return stx__is_little(e, work);
}

static void plan_vector(struct plan *p, uint32_t n)
{
	struct stx__emit *e = p->e;
	struct stx__loop_info *l = &e->loop[n];
	int64_t hi = stx_ex_interval(e->k->ex, axis_of(e, n)->size).hi;
	unsigned registers = 0, w = e->t->vector_bytes / (l->widest ? l->widest : 4), copies;
	if (l->scalar)
		w = 1;
	for (struct stx__acc *a = l->inner; a; a = a->next_inner)
		if (a->order == STX_ORDER_LANES && !a->exact)
			registers += stx__acc_slots(a, 0, w) * a->nstates;
	while (!registers && w > 2 && w / 2 >= hi)
		w /= 2;
	l->is_little = (uint8_t)is_little(p, n, w);
	copies = l->is_little ? 1 : copies_for(e, l);
	l->again = l->is_little ? 0 : l->again;
	if (registers) {
		unsigned all = STX_LANES / w, reach = 1;
		for (struct stx__acc *a = l->inner; a; a = a->next_inner)
			if (a->order == STX_ORDER_LANES && !a->exact &&
			    stx__acc_slots(a, 0, w) > reach)
				reach = stx__acc_slots(a, 0, w);
		l->in_memory = registers > (e->t->level >= 4 ? 24u : 12u) ||
			       l->cost * reach > STX__MOST_OF_LANES || w == 1;
		if (!l->in_memory || copies > all)
			copies = all;
	} else {
		while (copies > 1 && (int64_t)w * copies > hi)
			copies /= 2;
	}
	if (w == 1)
		copies = 1;
	l->w = (uint8_t)w;
	l->copies = (uint8_t)copies;
	stx__find_columns(e, n);
	if (copies > e->stride)
		e->stride = copies;
}

static uint32_t all_iterations(const struct stx__emit *e, uint32_t loop, uint32_t each)
{
	int64_t n = 0;
	if (!stx_ex_is_const(e->k->ex, axis_of(e, loop)->size, &n) || n > 64 || each > 100000)
		return 1000000;
	return n > 0 ? (uint32_t)n * each : 0;
}

static void second_end(struct plan *p, uint32_t n)
{
	struct stx__emit *e = p->e;
	uint32_t loop = e->k->insts.at[n].a;
	struct stx__loop_info *l = &e->loop[loop];
	l->each = l->cost - l->inside + l->unrolled;
	l->unrolled = all_iterations(e, loop, l->each);
	p->depth--;
	if (p->depth) {
		struct stx__loop_info *outer = &e->loop[p->open[p->depth - 1]];
		outer->cost += l->cost;
		outer->inside += l->cost;
		outer->unrolled += l->unrolled;
		if (e->loop[loop].widest > outer->widest)
			outer->widest = e->loop[loop].widest;
	}
	if (p->vector == loop) {
		plan_vector(p, loop);
		p->vector = STX_NONE;
		e->w = 0;
	}
}

/* By instruction: whether its value counts where no RARELY is true. NULL: no memory. */
static uint8_t *usual_ones(struct stx__emit *e)
{
	uint32_t n = e->k->insts.n;
	uint8_t *usual = STX_NEW_ARRAY(e->arena, uint8_t, n + 1);
	while (usual && n--) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		int by_rare = i->op == STX_P_SELECT && i->a < n &&
			      e->k->insts.at[i->a].op == STX_P_RARELY;
		usual[n] |= i->op > STX_PRIM_COUNT; /* effects, loops and loads; not constants */
		if (!usual[n])
			continue;
		if (i->a < n)
			usual[i->a] = 1;
		if (i->b < n && !by_rare)
			usual[i->b] = 1;
		if (i->c < n)
			usual[i->c] = 1;
	}
	return usual;
}

static void second_pass(struct plan *p)
{
	struct stx__emit *e = p->e;
	e->is_usual = usual_ones(e);
	if (!e->is_usual)
		stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
	for (uint32_t n = 0; n < e->k->insts.n && !e->err; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		if (i->op == STX_K_END) {
			second_end(p, n);
			continue;
		}
		if (i->op == STX_K_LOOP) {
			p->open[p->depth++] = n;
			if (axis_of(e, n)->binding == STX_AXIS_VECTOR) {
				p->vector = n;
				e->vaxis = i->a;
				e->w = e->loop[n].scalar
					       ? 1
					       : 2; /* stx__ex_varies asks for more than 1 */
			}
			continue;
		}
		e->varying[n] = e->w > 1 && stx__inst_varies(e, n);
		if (i->op == STX_K_ACC && p->vector != STX_NONE)
			e->loop[p->vector].states += e->acc[n]->nstates;
		if (i->op == STX_K_UPDATE && e->varying[n] &&
		    e->acc[i->a]->order != STX_ORDER_LANES)
			e->varying[i->a] = 1;
		if (!p->depth || e->kept[n].is_dead)
			continue;
		struct stx__loop_info *l = &e->loop[p->open[p->depth - 1]];
		l->cost += e->is_usual[n] ? cost_of(i) : 0;
		l->has_rare |= i->op == STX_P_RARELY;
		l->has_f64 |= e->is_usual[n] && e->varying[n] && i->dtype == STX_F64;
		if (i->op == STX_K_UPDATE && e->acc[i->a]->monoid == STX_MONOID_SOFTMAX)
			l->cost += 60; /* two exponentials */
		if (e->varying[n] && width_of(i) > l->widest)
			l->widest = (uint8_t)width_of(i);
	}
}

/* A skeleton's loop over columns, n at a time, only runs the epilogue, without the loop inside. */
static void plan_epilogue(struct stx__emit *e, uint32_t cols, uint32_t inside, int64_t n)
{
	struct stx__loop_info *l = &e->loop[cols];
	unsigned cost = l->cost - e->loop[inside].cost;
	l->copies = cost <= 48 && (int64_t)l->w * 2 <= n ? 2 : 1;
	l->scalar = 0;
	if (l->copies > e->stride)
		e->stride = l->copies;
}

stx_err stx__analyse(struct stx__emit *e)
{
	uint32_t n = e->k->insts.n;
	struct plan p = { .e = e, .vector = STX_NONE };
	e->loop = STX_NEW_ARRAY(e->arena, struct stx__loop_info, n + 1);
	e->acc = STX_NEW_ARRAY(e->arena, struct stx__acc *, n + 1);
	e->varying = STX_NEW_ARRAY(e->arena, uint8_t, n + 1);
	e->across = STX_NEW_ARRAY(e->arena, struct stx__across *, n + 1);
	e->kept = STX_NEW_ARRAY(e->arena, struct stx__kept, n + 1);
	if (!e->loop || !e->acc || !e->varying || !e->across || !e->kept)
		return stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
	e->stride = 1;
	e->rows.loop = STX_NONE;
	first_pass(&p);
	if (!e->tile && !e->attend) {
		stx__find_across(e);
		stx__find_kept(e);
	}
	second_pass(&p);
	if (e->tile)
		plan_epilogue(e, e->tile->cols, e->tile->terms, (int64_t)e->tile->w * e->tile->nv);
	if (e->attend)
		plan_epilogue(e, e->attend->cols, e->attend->keys, e->attend->ncols);
	e->w = 0;
	e->copies = 1;
	e->val = STX_NEW_ARRAY(e->arena, struct stx__val, (size_t)(n + 1) * e->stride);
	e->ok = STX_NEW_ARRAY(e->arena, LLVMValueRef, (size_t)(n + 1) * e->stride);
	if (!e->val || !e->ok)
		return stx__fail(e, STX_E_NOMEM, "the memory budget is exceeded");
	return e->err;
}
