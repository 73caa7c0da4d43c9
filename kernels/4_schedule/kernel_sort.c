/* kernel_sort.c: the kernel of a SORT buffer: a row a grid point.
 *
 * requires: a CPU target, a definition as stx_loops_verify checks it: keys, result and scratch
 * memory dense. ensures: the kernel passes stx_kernel_verify. It copies the keys into the scratch
 * memory, beside the positions 0 .. n-1, sorts the pairs there, and widens the positions into the
 * result: on a CPU, where only few of the first ones are read (topk), only these. */
#include "build.h"

#define MOST_SELECTED 64 /* beyond, and for more than a fourth of the row, all is sorted as fast */
#define FEW_SELECTED  8  /* but for so few */
#define NOT_READ      (-1)

enum { KEYS, WORK_KEYS, WORK_PLACES, RESULT }; /* parameters */
enum { ROW, BEFORE, AFTER };                   /* axes: the grid; n elements, on a CPU twice */

struct sorting {
	const struct stx_loops *l;
	const struct stx_buffer *b;
	struct stx_kernel *k;
	stx_ex n, row, work; /* first element of the row: of keys and result, of scratch memory */
	uint32_t after;      /* axis of the second loop */
	int64_t first;       /* elements of each row that are read; 0: all */
	int oom;
};

static void add_param(struct sorting *s, uint32_t buffer, int read, int write)
{
	const struct stx_buffer *b = s->l->buffers.at[buffer];
	struct stx_kparam p = { .name = b->name,
				.dtype = b->dtype,
				.is_read = (uint8_t)read,
				.is_written = (uint8_t)write,
				.elems = stx_layout_reach(s->l->ex, &b->layout),
				.buffer = buffer };
	s->oom |= stx_push(s->k->arena, &s->k->params, p) != 0;
}

static void add_axis(struct sorting *s, const char *name, stx_ex size, enum stx_binding binding)
{
	struct stx_axis a = { .name = name, .size = size, .binding = binding, .var = s->k->axes.n };
	s->oom |= stx_push(s->k->arena, &s->k->axes, a) != 0;
}

static uint32_t add(struct sorting *s, struct stx_kinst i)
{
	s->oom |= stx_push(s->k->arena, &s->k->insts, i) != 0;
	return s->k->insts.n - 1;
}

static struct stx_kinst inst(enum stx_kop op, enum stx_dtype t)
{
	return (struct stx_kinst){
		.op = (uint8_t)op, .dtype = (uint8_t)t, .a = STX_NONE, .b = STX_NONE, .c = STX_NONE
	};
}

static uint32_t begin_loop(struct sorting *s, uint32_t axis)
{
	struct stx_kinst i = inst(STX_K_LOOP, STX_DTYPE_NONE);
	i.a = axis;
	return add(s, i);
}

static void end_loop(struct sorting *s, uint32_t loop)
{
	struct stx_kinst i = inst(STX_K_END, STX_DTYPE_NONE);
	i.a = loop;
	add(s, i);
}

static stx_ex at(const struct sorting *s, stx_ex first, uint32_t axis)
{
	stx_ex size = s->k->axes.at[axis].size;
	return stx_ex_add(s->l->ex, first, stx_ex_var(s->l->ex, axis, size));
}

/* Of buffer b, read at e: elements of a row up to there, where these are few; else 0. */
static int64_t read_to(const struct stx_loops *l, const struct stx_buffer *b, stx_ex e)
{
	stx_ex at = stx_ex_mod(l->ex, e, b->rranges[0]);
	int64_t last = at == STX_EX_BAD ? INT64_MAX : stx_ex_interval(l->ex, at).hi, n;
	if (last >= MOST_SELECTED || !stx_ex_is_const(l->ex, b->rranges[0], &n))
		return 0;
	return last < n / 4 || (last < FEW_SELECTED && last < n) ? last + 1 : 0;
}

stx_err stx__sort_reads(const struct stx_loops *l, int64_t **out)
{
	int64_t *reads = *out = STX_NEW_ARRAY(l->g->arena, int64_t, l->buffers.n + 1);
	if (!reads)
		return STX_E_NOMEM;
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		int all = b->kind == STX_BUF_OUTPUT || b->base || b->heir;
		reads[i] = all ? 0 : NOT_READ;
	}
	for (uint32_t i = 0; i < l->outputs.n; i++)
		reads[l->outputs.at[i]] = 0;
	for (uint32_t i = 0; i < l->buffers.n; i++) {
		const struct stx_body *body = &l->buffers.at[i]->body;
		for (uint32_t j = 0; j < body->n; j++) {
			uint32_t of = body->at[j].op == STX_B_LOAD ? body->at[j].a : STX_NONE;
			if (of == STX_NONE || l->buffers.at[of]->def != STX_DEF_SORT)
				continue;
			int64_t n = read_to(l, l->buffers.at[of], body->at[j].ex);
			reads[of] = !n || !reads[of] ? 0 : n > reads[of] ? n : reads[of];
		}
	}
	for (uint32_t i = 0; i < l->buffers.n; i++)
		reads[i] = reads[i] == NOT_READ ? 0 : reads[i];
	return STX_E_OK;
}

static uint32_t load(struct sorting *s, uint32_t param, stx_ex ex)
{
	struct stx_kinst i = inst((enum stx_kop)STX_K_LOAD, s->k->params.at[param].dtype);
	i.a = param;
	i.ex = ex;
	return add(s, i);
}

static void store(struct sorting *s, uint32_t param, stx_ex ex, uint32_t value)
{
	struct stx_kinst i = inst(STX_K_STORE, s->k->params.at[param].dtype);
	i.a = param;
	i.ex = ex;
	i.b = value;
	add(s, i);
}

static void fill_body(struct sorting *s)
{
	uint32_t loop = begin_loop(s, BEFORE);
	store(s, WORK_KEYS, at(s, s->work, BEFORE), load(s, KEYS, at(s, s->row, BEFORE)));
	struct stx_kinst i = inst(STX_K_INDEX, STX_I32);
	i.ex = stx_ex_var(s->l->ex, BEFORE, s->n);
	store(s, WORK_PLACES, at(s, s->work, BEFORE), add(s, i));
	end_loop(s, loop);

	i = inst(STX_K_SORT, s->b->acc);
	i.a = WORK_KEYS;
	i.b = WORK_PLACES;
	i.c = BEFORE;
	i.ex = s->work;
	i.k.i = s->first;
	add(s, i);

	loop = begin_loop(s, s->after);
	i = inst((enum stx_kop)STX_P_CAST, STX_I64);
	i.a = load(s, WORK_PLACES, at(s, s->work, s->after));
	store(s, RESULT, at(s, s->row, s->after), add(s, i));
	end_loop(s, loop);
}

/* A thread should have some 20 us of work: 2 ns an element and merge. */
static int64_t grain_of(const struct sorting *s)
{
	int64_t n = stx_ex_hint(s->l->ex, s->n), passes = 1;
	for (int64_t run = 16; run < n && !s->first; run *= 2)
		passes++;
	int64_t ns = stx_sat_mul(stx_sat_mul(n < 1 ? 1 : n, passes), 2);
	return ns >= 20000 ? 1 : 20000 / ns;
}

stx_err stx__kernel_sort(const struct stx_loops *l, const struct stx_buffer *b, int64_t first,
			 int target_gpu, struct stx_kernel **out, struct stx_diag *d)
{
	struct sorting s = { .l = l,
			     .b = b,
			     .n = b->rranges[0],
			     .first = target_gpu ? 0 : first,
			     .after = target_gpu ? BEFORE : AFTER };
	struct stx_kernel *k = s.k = STX_NEW(l->g->arena, struct stx_kernel);
	*out = NULL;
	if (!k)
		return stx_fail(d, STX_E_NOMEM, "schedule", b->name,
				"the memory budget is exceeded");
	k->arena = l->g->arena;
	k->ex = l->ex;
	k->name = b->name;
	k->kind = STX_KERNEL_TEM;
	k->target_gpu = (uint8_t)target_gpu;
	k->grid = b->ranges[0];
	add_param(&s, b->body.at[0].a, 1, 0);
	add_param(&s, b->scratch[0], 1, 1);
	add_param(&s, b->scratch[1], 1, 1);
	add_param(&s, b->id, 0, 1);
	add_axis(&s, "x0", k->grid, STX_AXIS_GRID);
	if (target_gpu) {
		add_axis(&s, "r0", s.n, STX_AXIS_LOOP);
	} else {
		add_axis(&s, "x1", s.n, STX_AXIS_VECTOR);
		add_axis(&s, "x2", s.first ? stx_ex_const(l->ex, s.first) : s.n, STX_AXIS_VECTOR);
	}
	s.row = stx_ex_mul(l->ex, s.n, stx_ex_var(l->ex, ROW, k->grid));
	s.work = stx_ex_muli(l->ex, s.row, 2);
	if (!s.oom)
		fill_body(&s);
	if (s.oom)
		return stx_fail(d, STX_E_NOMEM, "schedule", b->name,
				"the memory budget is exceeded");
	stx_ex reach = k->params.at[WORK_KEYS].elems;
	if (s.work == STX_EX_BAD || reach == STX_EX_BAD ||
	    stx_ex_interval(l->ex, s.n).hi > INT32_MAX)
		return stx_fail(d, STX_E_TOO_LARGE, "schedule", b->name,
				"a sort of rows that have or may have 2^31 elements or more");
	k->index_bits = stx_ex_interval(l->ex, reach).hi > INT32_MAX ? 64 : 32;
	k->grain = stx_ex_const(l->ex, grain_of(&s));
	stx_err err = stx__collect_scalars(k, d);
	if (!err)
		err = stx_kernel_verify(k, d);
	if (!err)
		*out = k;
	return err;
}
