/* insert.c: buffers that the schedule adds before others.
 *
 * requires: new buffers that are numbered from the old ones' count on in the order they were added,
 * and read by those numbers. ensures: definition order, every number new. Linear in the bodies. */
#include <stdlib.h>

#include "product.h"
#include "schedule_impl.h"

struct stx_buffer *stx__new_before(struct stx__inserting *t, const struct stx_buffer *next,
				   const char *what, enum stx_dtype type, enum stx_realized rule)
{
	struct stx_arena *a = t->l->g->arena;
	struct stx_buffer *b = STX_NEW(a, struct stx_buffer);
	if (!b)
		return NULL;
	*b = (struct stx_buffer){ .id = t->l->buffers.n + t->added.n,
				  .kind = STX_BUF_TEMP,
				  .dtype = type,
				  .acc = type,
				  .def = STX_DEF_POINTWISE,
				  .rlimit = STX_EX_BAD,
				  .origins = next->origins,
				  .norigins = next->norigins,
				  .has_more_origins = next->has_more_origins,
				  .rule = rule };
	b->name = stx_arena_printf(a, "%s_%s", next->name, what);
	struct stx__inserted at = { next->id, b };
	return b->name && !stx_push(a, &t->added, at) ? b : NULL;
}

int stx__dense_layout(struct stx__inserting *t, struct stx_buffer *b, const stx_ex *sizes,
		      uint32_t n)
{
	struct stx_exprs *x = t->l->ex;
	stx_ex *strides = STX_NEW_ARRAY(t->l->g->arena, stx_ex, n), stride = stx_ex_const(x, 1);
	if (!strides)
		return 0;
	b->store = stx_ex_const(x, 0);
	for (uint32_t i = n; i-- > 0;) {
		strides[i] = stride;
		b->store =
			stx_ex_add(x, b->store, stx_ex_mul(x, stx_ex_var(x, i, sizes[i]), stride));
		stride = stx_ex_mul(x, stride, sizes[i]);
	}
	b->ranges = sizes;
	b->nranges = n;
	b->layout = (struct stx_layout){
		.rank = (uint8_t)n, .sizes = sizes, .strides = strides, .offset = stx_ex_const(x, 0)
	};
	return b->store != STX_EX_BAD && stride != STX_EX_BAD;
}

uint32_t stx__put(struct stx_body *b, int op, enum stx_dtype t, uint32_t x, uint32_t y, uint32_t z)
{
	b->at[b->n] = (struct stx_binst){
		.op = (uint8_t)op, .dtype = (uint8_t)t, .a = x, .b = y, .c = z
	};
	return b->n++;
}

uint32_t stx__put_number(struct stx_body *b, enum stx_dtype t, union stx_scalar v)
{
	uint32_t i = stx__put(b, STX_B_CONST, t, STX_NONE, STX_NONE, STX_NONE);
	b->at[i].k = v;
	return i;
}

uint32_t stx__put_load(struct stx_body *b, uint32_t buffer, enum stx_dtype t, stx_ex at,
		       uint32_t mask)
{
	uint32_t i = stx__put(b, STX_B_LOAD, t, buffer, STX_NONE, mask);
	b->at[i].ex = at;
	return i;
}

static int by_place(const void *p, const void *q)
{
	const struct stx__inserted *a = p, *b = q;
	if (a->before != b->before)
		return a->before < b->before ? -1 : 1;
	return a->b->id < b->b->id ? -1 : 1;
}

stx_err stx__insert(struct stx__inserting *t)
{
	struct stx_loops *l = t->l, now = { 0 };
	struct stx_arena *a = l->g->arena;
	uint32_t *number = STX_NEW_ARRAY(a, uint32_t, l->buffers.n + t->added.n + 1), k = 0;
	if (!number)
		return STX_E_NOMEM;
	if (t->added.n)
		qsort(t->added.at, t->added.n, sizeof *t->added.at, by_place);
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		for (; k < t->added.n && t->added.at[k].before == i; k++) {
			struct stx_buffer *b = t->added.at[k].b;
			number[b->id] = now.buffers.n;
			b->id = now.buffers.n;
			if (stx_push(a, &now.buffers, b))
				return STX_E_NOMEM;
		}
		number[i] = l->buffers.at[i]->id = now.buffers.n;
		if (stx_push(a, &now.buffers, l->buffers.at[i]))
			return STX_E_NOMEM;
	}
	for (uint32_t i = 0; i < now.buffers.n; i++)
		stx_buffer_renumber(now.buffers.at[i], number);
	stx__take_buffers(l, &now, number);
	return STX_E_OK;
}
