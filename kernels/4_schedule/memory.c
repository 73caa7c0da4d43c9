/* memory.c: where temporaries live in the workspace (seed 004 6.3; conformance GF-06 to GF-08).
 *
 * Greedy in the order of steps: results are placed before the operands that end with the step are
 * released, but a result may take the place of such an operand when it is read and written at the
 * same points only, and read before it is written (GF-07). Free blocks sit in segregated lists, a
 * quarter of a power of two each, and merge with free neighbours at once; a request takes the best
 * of the first few blocks of its own list, else any block of the next list that has one, else grows
 * the workspace. Constant time a request. Temporaries of steps that calls stand for lie behind all
 * others, so that a run whose calls are made needs no memory for them. */
#include "schedule_impl.h"

#define ALIGN  64u
#define NLISTS 256u
#define LOOK   8 /* blocks of the request's own list that are looked at */

struct block { /* physical neighbours and, when free, list links; numbers + 1, 0 = none */
	uint64_t offset, bytes;
	uint32_t before, after;
	uint32_t prev, next;
	uint8_t is_free;
};

struct pool {
	struct stx_arena *arena;
	STX_VEC(struct block) blocks;
	STX_VEC(uint32_t) spare; /* unused block numbers */
	uint32_t lists[NLISTS];
	uint64_t used[NLISTS / 64];
	uint32_t last; /* physically last block */
	uint64_t total;
};

/* List of blocks of exactly this class: sizes in [class, next class). bytes >= 64. */
static uint32_t class_of(uint64_t bytes)
{
	uint32_t top = 63 - (uint32_t)__builtin_clzll(bytes);
	return top * 4 + (uint32_t)(bytes >> (top - 2) & 3);
}

static struct block *at(struct pool *p, uint32_t n)
{
	return &p->blocks.at[n - 1];
}

static void list_add(struct pool *p, uint32_t n)
{
	uint32_t c = class_of(at(p, n)->bytes);
	at(p, n)->is_free = 1;
	at(p, n)->prev = 0;
	at(p, n)->next = p->lists[c];
	if (p->lists[c])
		at(p, p->lists[c])->prev = n;
	p->lists[c] = n;
	p->used[c / 64] |= (uint64_t)1 << c % 64;
}

static void list_remove(struct pool *p, uint32_t n)
{
	struct block *b = at(p, n);
	uint32_t c = class_of(b->bytes);
	if (b->prev)
		at(p, b->prev)->next = b->next;
	else
		p->lists[c] = b->next;
	if (b->next)
		at(p, b->next)->prev = b->prev;
	if (!p->lists[c])
		p->used[c / 64] &= ~((uint64_t)1 << c % 64);
	b->is_free = 0;
}

/* A new block after `before` (0: at the end). 0 when out of memory. */
static uint32_t add_block(struct pool *p, uint32_t before, uint64_t offset, uint64_t bytes)
{
	uint32_t n;
	if (p->spare.n)
		n = p->spare.at[--p->spare.n];
	else if (stx_push(p->arena, &p->blocks, (struct block){ 0 }))
		return 0;
	else
		n = p->blocks.n;
	struct block b = { .offset = offset, .bytes = bytes, .before = before ? before : p->last };
	b.after = before ? at(p, before)->after : 0;
	*at(p, n) = b;
	if (b.before)
		at(p, b.before)->after = n;
	if (b.after)
		at(p, b.after)->before = n;
	else
		p->last = n;
	return n;
}

static int remove_block(struct pool *p, uint32_t n)
{
	struct block b = *at(p, n);
	if (b.before)
		at(p, b.before)->after = b.after;
	if (b.after)
		at(p, b.after)->before = b.before;
	else
		p->last = b.before;
	return stx_push(p->arena, &p->spare, n);
}

static uint32_t find(struct pool *p, uint64_t bytes)
{
	uint32_t c = class_of(bytes), best = 0;
	uint32_t n = p->lists[c];
	for (int i = 0; n && i < LOOK; i++, n = at(p, n)->next)
		if (at(p, n)->bytes >= bytes && (!best || at(p, n)->bytes < at(p, best)->bytes))
			best = n;
	for (uint32_t i = c + 1; !best && i < NLISTS; i = (i / 64 + 1) * 64) {
		uint64_t word = p->used[i / 64] >> i % 64;
		if (word)
			best = p->lists[i + (uint32_t)__builtin_ctzll(word)];
	}
	return best;
}

/* Takes bytes (a multiple of 64) from free block n; the rest stays free. */
static int take(struct pool *p, uint32_t n, uint64_t bytes)
{
	list_remove(p, n);
	uint64_t rest = at(p, n)->bytes - bytes;
	if (!rest)
		return 0;
	at(p, n)->bytes = bytes;
	uint32_t r = add_block(p, n, at(p, n)->offset + bytes, rest);
	if (!r)
		return -1;
	list_add(p, r);
	return 0;
}

/* Block number, 0 when out of memory or past 64 bits. */
static uint32_t allocate(struct pool *p, uint64_t bytes)
{
	uint32_t n = find(p, bytes);
	if (n)
		return take(p, n, bytes) ? 0 : n;
	uint64_t have = p->last && at(p, p->last)->is_free ? at(p, p->last)->bytes : 0;
	uint64_t more = bytes - have;
	if (p->total > INT64_MAX - more)
		return 0;
	p->total += more;
	if (!have)
		return add_block(p, 0, p->total - bytes, bytes);
	n = p->last;
	list_remove(p, n);
	at(p, n)->bytes = bytes;
	return n;
}

static int release(struct pool *p, uint32_t n)
{
	uint32_t before = at(p, n)->before, after = at(p, n)->after;
	if (after && at(p, after)->is_free) {
		list_remove(p, after);
		at(p, n)->bytes += at(p, after)->bytes;
		if (remove_block(p, after))
			return -1;
	}
	if (before && at(p, before)->is_free) {
		list_remove(p, before);
		at(p, before)->bytes += at(p, n)->bytes;
		if (remove_block(p, n))
			return -1;
		n = before;
	}
	list_add(p, n);
	return 0;
}

struct placing {
	struct pool pool;
	struct stx__mem_item *items;
	uint32_t *block;           /* of each item, 0: none any more */
	uint32_t *ends, *next_end; /* items by last step: heads and links, + 1 */
};

static int place_item(struct placing *p, uint32_t i)
{
	struct stx__mem_item *m = &p->items[i];
	uint32_t from = m->in_place;
	m->took_place = m->reused = 0;
	if (!m->bytes)
		return 0;
	if (from != STX_NONE && p->block[from] && p->items[from].last == m->first &&
	    p->items[from].bytes == m->bytes) {
		p->block[i] = p->block[from];
		p->block[from] = 0;
		m->took_place = m->reused = 1;
	} else {
		uint64_t before = p->pool.total;
		p->block[i] = allocate(&p->pool, m->bytes);
		m->reused = p->pool.total == before;
		if (!p->block[i])
			return -1;
	}
	m->offset = at(&p->pool, p->block[i])->offset;
	return 0;
}

static int release_ended(struct placing *p, uint32_t step)
{
	for (uint32_t i = p->ends[step]; i; i = p->next_end[i - 1]) {
		if (p->block[i - 1] && release(&p->pool, p->block[i - 1]))
			return -1;
		p->block[i - 1] = 0;
	}
	return 0;
}

stx_err stx__memory_place(struct stx_arena *a, struct stx__mem_item *items, uint32_t n,
			  uint32_t nsteps, uint64_t *total)
{
	struct placing *p = STX_NEW(a, struct placing);
	if (!p)
		return STX_E_NOMEM;
	p->pool.arena = a;
	p->items = items;
	p->block = STX_NEW_ARRAY(a, uint32_t, n + 1);
	p->next_end = STX_NEW_ARRAY(a, uint32_t, n + 1);
	p->ends = STX_NEW_ARRAY(a, uint32_t, (size_t)nsteps + 1);
	if (!p->block || !p->next_end || !p->ends)
		return STX_E_NOMEM;
	for (uint32_t i = n; i-- > 0;) {
		if (items[i].bytes > INT64_MAX - ALIGN)
			return STX_E_TOO_LARGE;
		items[i].bytes = (items[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
		p->next_end[i] = p->ends[items[i].last];
		p->ends[items[i].last] = i + 1;
	}
	uint32_t next = 0;
	for (uint32_t step = 0; step < nsteps; step++) {
		for (; next < n && items[next].first <= step; next++)
			if (place_item(p, next))
				return stx_arena_oom(a) ? STX_E_NOMEM : STX_E_TOO_LARGE;
		if (release_ended(p, step))
			return STX_E_NOMEM;
	}
	*total = p->pool.total;
	return STX_E_OK;
}

/* ---- slots of a schedule ---- */

struct planning {
	struct stx_schedule *s;
	struct stx_exprs *ex;
	struct stx_arena *arena;
	uint32_t *item_of; /* buffer -> item, STX_NONE */
	struct stx__mem_item *items;
	uint32_t *buffer_of; /* item -> buffer */
	uint32_t nitems;
	uint8_t *is_aside; /* [nbuffers] only steps that a call stands for are given it */
};

/* How a kernel uses a parameter: the one element expression of all its accesses (STX_NONE: none
 * yet, BAD: they differ, or two points may be one element), and where in the list they are. */
struct use {
	stx_ex at;
	uint32_t last_load, first_store;
};

static stx_err is_indirect(void *ctx, const struct stx_ex_atom *a)
{
	(void)ctx;
	return a->kind == STX_ATOM_INDIRECT ? STX_E_UNSUPPORTED : STX_E_OK;
}

static void find_uses(const struct planning *p, const struct stx_kernel *k, struct use *uses)
{
	for (uint32_t i = 0; i < k->params.n; i++)
		uses[i] = (struct use){ .at = STX_NONE, .first_store = STX_NONE };
	for (uint32_t i = 0; i < k->insts.n; i++) {
		const struct stx_kinst *in = &k->insts.at[i];
		if (in->op != STX_K_LOAD && in->op != STX_K_STORE)
			continue;
		struct use *u = &uses[in->a];
		if (u->at == STX_NONE)
			u->at = stx__ex_walk(p->ex, in->ex, is_indirect, NULL) ? STX_EX_BAD
									       : in->ex;
		else if (u->at != in->ex)
			u->at = STX_EX_BAD;
		if (in->op == STX_K_LOAD)
			u->last_load = i;
		else if (u->first_store == STX_NONE)
			u->first_store = i;
	}
}

/* The operand of its kernel whose place buffer b may take: a temporary that ends here, of the same
 * width, read only where b is written, and not after: each point is read for the last time in the
 * iteration that writes it or in an earlier loop, and no other point shares the element. */
static uint32_t in_place_of(const struct planning *p, const struct stx_kernel *k,
			    const struct stx_buffer *b, uint32_t step, const struct use *uses)
{
	uint32_t mine = 0;
	while (mine < k->params.n && k->params.at[mine].buffer != b->id)
		mine++;
	if (mine == k->params.n || uses[mine].at == STX_EX_BAD)
		return STX_NONE;
	for (uint32_t i = 0; i < k->params.n; i++) {
		const struct stx_kparam *q = &k->params.at[i];
		uint32_t item = p->item_of[q->buffer];
		if (q->is_read && !q->is_written && item != STX_NONE &&
		    p->items[item].last == step && p->is_aside[q->buffer] == p->is_aside[b->id] &&
		    stx_dtype_bytes(q->dtype) == stx_dtype_bytes(b->dtype) &&
		    uses[i].at == uses[mine].at && uses[i].last_load < uses[mine].first_store)
			return item;
	}
	return STX_NONE;
}

/* last[buffer] = last step that is given the buffer, or an update of it in place. */
static uint32_t *last_uses(struct planning *p)
{
	uint32_t *last = STX_NEW_ARRAY(p->arena, uint32_t, p->s->loops->buffers.n + 1);
	for (uint32_t i = 0; last && i < p->s->steps.n; i++)
		for (uint32_t j = 0; j < stx_step_nuses(p->s, i); j++)
			last[p->s->storage[stx_step_use(p->s, i, j).buffer]] = i;
	/* What a call reads stays until the steps that do the same are over. */
	for (uint32_t i = 0; last && i < p->s->steps.n; i++)
		for (uint32_t j = 0; j < stx_step_nuses(p->s, i); j++) {
			uint32_t b = p->s->storage[stx_step_use(p->s, i, j).buffer];
			uint32_t end = i + stx_step_covers(p->s, i);
			last[b] = last[b] < end ? end : last[b];
		}
	for (uint32_t i = 0; last && i < p->s->loops->buffers.n; i++)
		last[i] = last[p->s->storage[i]]; /* of one chain: the same */
	return last;
}

/* Temporaries of the steps that calls stand for, whose memory a run may do without. */
static int find_aside(struct planning *p)
{
	uint32_t n = p->s->loops->buffers.n, end = 0;
	p->is_aside = STX_NEW_ARRAY(p->arena, uint8_t, n + 1);
	uint8_t *is_other = STX_NEW_ARRAY(p->arena, uint8_t, n + 1);
	if (!p->is_aside || !is_other)
		return 0;
	for (uint32_t i = 0; i < p->s->steps.n; i++) {
		int is_covered = i < end;
		if (!is_covered && stx_step_covers(p->s, i))
			end = i + 1 + stx_step_covers(p->s, i);
		for (uint32_t j = 0; j < stx_step_nuses(p->s, i); j++) {
			uint32_t b = p->s->storage[stx_step_use(p->s, i, j).buffer];
			p->is_aside[b] |= is_covered;
			is_other[b] |= !is_covered;
		}
	}
	for (uint32_t i = 0; i < n; i++)
		p->is_aside[i] &= !is_other[i];
	for (uint32_t i = 0; i < n; i++)
		p->is_aside[i] = p->is_aside[p->s->storage[i]];
	return 1;
}

static stx_ex buffer_bytes(struct planning *p, const struct stx_buffer *b)
{
	return stx_ex_muli(p->ex, stx_layout_reach(p->ex, &b->layout), stx_dtype_bytes(b->dtype));
}

/* No temporary, or one whose memory another buffer has given it or takes over as an output. */
static int is_elsewhere(const struct planning *p, const struct stx_buffer *b)
{
	return b->base || p->s->loops->buffers.at[p->s->storage[b->id]]->kind != STX_BUF_TEMP;
}

/* Temporaries of static size become items; the others are placed one after the other behind them,
 * and those of one size reuse each other. */
static stx_err add_items(struct planning *p, const uint32_t *last)
{
	for (uint32_t i = 0; i < p->s->steps.n; i++)
		for (uint32_t j = 0; j < stx_step_nuses(p->s, i); j++) {
			const struct stx_use q = stx_step_use(p->s, i, j);
			const struct stx_buffer *b = p->s->loops->buffers.at[q.buffer];
			struct stx_slot *slot = &p->s->slots[q.buffer];
			if (!q.is_written || is_elsewhere(p, b) || slot->size != STX_EX_BAD)
				continue; /* or by a call and the last of its steps */
			int64_t bytes;
			slot->first_step = i;
			slot->last_step = last[q.buffer];
			slot->size = buffer_bytes(p, b);
			if (slot->size == STX_EX_BAD)
				return STX_E_TOO_LARGE;
			if (!stx_ex_is_const(p->ex, slot->size, &bytes))
				continue;
			struct stx__mem_item m = { .bytes = (uint64_t)(bytes < 0 ? 0 : bytes),
						   .first = i,
						   .last = slot->last_step,
						   .in_place = STX_NONE };
			p->item_of[q.buffer] = p->nitems;
			p->buffer_of[p->nitems] = q.buffer;
			p->items[p->nitems++] = m;
		}
	return STX_E_OK;
}

/* Updates in place are in the item, later in the slot, of the memory they update. */
static void share_items(struct planning *p)
{
	for (uint32_t i = 0; i < p->s->loops->buffers.n; i++) {
		const struct stx_buffer *b = p->s->loops->buffers.at[i];
		if (b->base)
			p->item_of[i] = p->item_of[b->base->id];
	}
}

static void share_slots(struct planning *p)
{
	for (uint32_t i = 0; i < p->s->loops->buffers.n; i++) {
		const struct stx_buffer *b = p->s->loops->buffers.at[i];
		if (b->base)
			p->s->slots[i] = p->s->slots[b->base->id];
	}
}

static stx_err find_in_place(struct planning *p)
{
	struct use *uses = STX_NEW_ARRAY(p->arena, struct use, STX_KERNEL_MAX_PARAMS);
	uint32_t ready = STX_NONE;
	for (uint32_t i = 0; uses && i < p->nitems; i++) {
		uint32_t step = p->items[i].first;
		if (p->s->steps.at[step].kind != STX_SCHED_KERNEL)
			continue; /* an external call may not write over what it reads */
		const struct stx_kernel *k = p->s->kernels.at[p->s->steps.at[step].index];
		if (ready != step)
			find_uses(p, k, uses);
		ready = step;
		p->items[i].in_place =
			in_place_of(p, k, p->s->loops->buffers.at[p->buffer_of[i]], step, uses);
	}
	return uses ? STX_E_OK : STX_E_NOMEM;
}

/* Slots of symbolic size. A slot freed before is taken when its size is the same expression. */
struct loose {
	stx_ex size, offset;
	uint32_t last_step;
};

static stx_err place_symbolic(struct planning *p, stx_ex *workspace)
{
	STX_VEC(struct loose) slots = { 0 };
	for (uint32_t i = 0; i < p->s->loops->buffers.n; i++) {
		struct stx_slot *s = &p->s->slots[i];
		if (s->size == STX_EX_BAD || stx_ex_is_const(p->ex, s->size, NULL))
			continue;
		uint32_t j = slots.n, look = slots.n > 64 ? slots.n - 64 : 0;
		while (j > look && (slots.at[j - 1].size != s->size ||
				    slots.at[j - 1].last_step >= s->first_step))
			j--;
		if (j > look) {
			slots.at[j - 1].last_step = s->last_step;
			s->offset = slots.at[j - 1].offset;
			continue;
		}
		s->offset = *workspace;
		stx_ex blocks = stx_ex_ceildiv(p->ex, s->size, stx_ex_const(p->ex, ALIGN));
		stx_ex rounded = stx_ex_muli(p->ex, blocks, ALIGN);
		*workspace = stx_ex_add(p->ex, *workspace, rounded);
		struct loose new_slot = { s->size, s->offset, s->last_step };
		if (*workspace == STX_EX_BAD)
			return STX_E_TOO_LARGE;
		if (stx_push(p->arena, &slots, new_slot))
			return STX_E_NOMEM;
	}
	return STX_E_OK;
}

/* Places the items that are aside, or the others. */
static stx_err place_items(struct planning *p, int is_aside, uint64_t *bytes)
{
	struct stx__mem_item *some = STX_NEW_ARRAY(p->arena, struct stx__mem_item, p->nitems + 1);
	uint32_t *number = STX_NEW_ARRAY(p->arena, uint32_t, p->nitems + 1), n = 0;
	if (!some || !number)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < p->nitems; i++) {
		if (p->is_aside[p->buffer_of[i]] != is_aside)
			continue;
		some[n] = p->items[i];
		if (some[n].in_place != STX_NONE)
			some[n].in_place = number[some[n].in_place];
		number[i] = n++;
	}
	stx_err err = stx__memory_place(p->arena, some, n, p->s->steps.n, bytes);
	for (uint32_t i = 0; i < p->nitems && !err; i++)
		if (p->is_aside[p->buffer_of[i]] == is_aside) {
			uint32_t in_place = p->items[i].in_place;
			p->items[i] = some[number[i]];
			p->items[i].in_place = in_place;
		}
	return err;
}

static stx_err plan(struct planning *p)
{
	uint32_t n = p->s->loops->buffers.n, *last = last_uses(p);
	p->item_of = STX_NEW_ARRAY(p->arena, uint32_t, n + 1);
	p->buffer_of = STX_NEW_ARRAY(p->arena, uint32_t, n + 1);
	p->items = STX_NEW_ARRAY(p->arena, struct stx__mem_item, n + 1);
	p->s->slots = STX_NEW_ARRAY(p->arena, struct stx_slot, n + 1);
	if (!last || !p->item_of || !p->buffer_of || !p->items || !p->s->slots || !find_aside(p))
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < n; i++)
		p->item_of[i] = STX_NONE;
	stx_err err = add_items(p, last);
	share_items(p);
	if (!err)
		err = find_in_place(p);
	if (err)
		return err;
	uint64_t first, aside;
	err = place_items(p, 0, &first);
	if (!err)
		err = place_items(p, 1, &aside);
	if (err)
		return err;
	if (first > INT64_MAX - aside)
		return STX_E_TOO_LARGE;
	p->s->workspace = stx_ex_const(p->ex, (int64_t)first);
	err = place_symbolic(p, &p->s->workspace);
	for (uint32_t i = 0; i < p->nitems; i++) {
		struct stx_slot *s = &p->s->slots[p->buffer_of[i]];
		int is_aside = p->is_aside[p->buffer_of[i]];
		s->offset_bytes = p->items[i].offset + (is_aside ? first : 0);
		s->size_bytes = p->items[i].bytes;
		s->in_place = p->items[i].took_place;
		s->reused = p->items[i].reused;
		s->offset = stx_ex_const(p->ex, (int64_t)p->items[i].offset);
		if (is_aside) /* behind all others */
			s->offset = stx_ex_add(p->ex, p->s->workspace, s->offset);
	}
	p->s->workspace_bytes = first + aside;
	p->s->workspace = stx_ex_addi(p->ex, p->s->workspace, (int64_t)aside);
	share_slots(p);
	return err ? err : p->s->workspace == STX_EX_BAD ? STX_E_TOO_LARGE : STX_E_OK;
}

stx_err stx__memory_plan(struct stx_schedule *s, struct stx_diag *d)
{
	struct planning p = { .s = s, .ex = s->loops->ex, .arena = s->loops->g->arena };
	stx_err err = plan(&p);
	if (err)
		stx_fail(d, err, "memory", NULL,
			 err == STX_E_NOMEM ? "the memory budget is exceeded"
					    : "temporaries need more than 64 bits can count");
	return err;
}
