/* loops_make.h
 * loop programs built by hand, their direct evaluation, and running a schedule with the kernel
 * interpreter: shared by the tests of scheduling and of plans. */
#ifndef TEST_LOOPS_MAKE_H
#define TEST_LOOPS_MAKE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "elementary.h"
#include "schedule_eval.h"
#include "scalar.h"
#include "schedule_impl.h"

struct maker {
	struct stx_arena *a;
	struct stx_exprs *x;
	struct stx_loops *l;
	/* the definition being written */
	STX_VEC(struct stx_binst) body;
	stx_ex ranges[16], rranges[16];
	uint32_t nranges, nrranges;
	/* when set, sizes equal to sym_value are the size symbol 0, whose value that is */
	stx_ex sym;
	int64_t sym_value;
};

static inline void maker_init(struct maker *m)
{
	memset(m, 0, sizeof *m);
	m->a = stx_arena_new(0);
	struct stx_graph *g = stx_graph_new(m->a);
	m->l = STX_NEW(m->a, struct stx_loops);
	m->l->g = g;
	m->l->ex = m->x = g->ex;
}

static inline stx_ex mk_const(struct maker *m, int64_t v)
{
	return stx_ex_const(m->x, v);
}

static inline stx_ex mk_size(struct maker *m, int64_t v)
{
	return m->sym && v == m->sym_value ? m->sym : mk_const(m, v);
}

static inline void mk_symbolic(struct maker *m, int64_t value)
{
	struct stx_symbol s = { "s0", { 1, 1000 }, 12 };
	assert_int_equal(stx_push(m->a, &m->l->g->symbols, s), 0);
	m->sym = stx_ex_sym(m->x, 0, s.range, s.hint);
	m->sym_value = value;
}

/* Value of an expression free of variables. */
static inline int64_t mk_eval(struct maker *m, stx_ex e)
{
	struct stx_ex_env env = { .syms = &m->sym_value, .nsyms = 1 };
	int ok = 1;
	int64_t v = stx_ex_eval(m->x, e, &env, &ok);
	assert_true(ok);
	return v;
}

static inline struct stx_layout mk_layout(struct maker *m, uint32_t rank, const stx_ex *sizes,
					  const stx_ex *strides)
{
	struct stx_layout l = { .rank = (uint8_t)rank, .offset = mk_const(m, 0) };
	stx_ex *s = stx_arena_alloc(m->a, (rank + 1) * sizeof *s),
	       *t = stx_arena_alloc(m->a, (rank + 1) * sizeof *t);
	stx_ex stride = mk_const(m, 1);
	for (uint32_t i = rank; i-- > 0;) {
		s[i] = sizes[i];
		t[i] = strides ? strides[i] : stride;
		stride = stx_ex_mul(m->x, stride, sizes[i]);
	}
	l.sizes = s;
	l.strides = t;
	return l;
}

static inline struct stx_buffer *mk_buffer(struct maker *m, enum stx_buffer_kind kind,
					   enum stx_dtype t, struct stx_layout layout)
{
	struct stx_buffer *b = STX_NEW(m->a, struct stx_buffer);
	b->id = m->l->buffers.n;
	b->kind = kind;
	b->dtype = t;
	b->layout = layout;
	b->name = stx_arena_printf(m->a, kind == STX_BUF_INPUT ? "in%u" : "buf%u", b->id);
	assert_int_equal(stx_push(m->a, &m->l->buffers, b), 0);
	return b;
}

static inline struct stx_buffer *mk_input(struct maker *m, enum stx_dtype t, uint32_t rank,
					  const int64_t *sizes)
{
	stx_ex s[16];
	for (uint32_t i = 0; i < rank; i++)
		s[i] = mk_size(m, sizes[i]);
	struct stx_buffer *b = mk_buffer(m, STX_BUF_INPUT, t, mk_layout(m, rank, s, NULL));
	for (uint32_t i = 0; i < b->id; i++)
		b->index += m->l->buffers.at[i]->kind == STX_BUF_INPUT;
	return b;
}

/* Begins a definition: ranges, reduction ranges. */
static inline void mk_begin(struct maker *m, uint32_t n, const stx_ex *ranges, uint32_t nr,
			    const stx_ex *rranges)
{
	memset(&m->body, 0, sizeof m->body);
	m->nranges = n;
	m->nrranges = nr;
	for (uint32_t i = 0; i < n; i++)
		m->ranges[i] = ranges[i];
	for (uint32_t i = 0; i < nr; i++)
		m->rranges[i] = rranges[i];
}

static inline void mk_begin_ints(struct maker *m, uint32_t n, const int64_t *ranges, uint32_t nr,
				 const int64_t *rranges)
{
	stx_ex s[16], r[16];
	for (uint32_t i = 0; i < n; i++)
		s[i] = mk_size(m, ranges[i]);
	for (uint32_t i = 0; i < nr; i++)
		r[i] = mk_size(m, rranges[i]);
	mk_begin(m, n, s, nr, r);
}

/* Variable i of the definition; reduction variables follow. */
static inline stx_ex mk_var(struct maker *m, uint32_t i)
{
	return stx_ex_var(m->x, i,
			  i < m->nranges ? m->ranges[i] : m->rranges[(i - m->nranges) & 15]);
}

static inline uint32_t mk_inst(struct maker *m, struct stx_binst i)
{
	assert_int_equal(stx_push(m->a, &m->body, i), 0);
	return m->body.n - 1;
}

static inline uint32_t mk_load_masked(struct maker *m, const struct stx_buffer *b, stx_ex e,
				      uint32_t mask)
{
	return mk_inst(m, (struct stx_binst){ .op = STX_B_LOAD,
					      .dtype = (uint8_t)b->dtype,
					      .a = b->id,
					      .b = STX_NONE,
					      .c = mask,
					      .ex = e });
}

static inline uint32_t mk_load(struct maker *m, const struct stx_buffer *b, stx_ex e)
{
	return mk_load_masked(m, b, e, STX_NONE);
}

static inline uint32_t mk_constant(struct maker *m, enum stx_dtype t, double v)
{
	struct stx_binst i = {
		.op = STX_B_CONST, .dtype = (uint8_t)t, .a = STX_NONE, .b = STX_NONE, .c = STX_NONE
	};
	if (stx_dtype_is_float(t))
		i.k.f = v;
	else
		i.k.i = (int64_t)v;
	return mk_inst(m, i);
}

static inline uint32_t mk_indirect(struct maker *m, uint32_t a, stx_ex bound, uint32_t mask)
{
	return mk_inst(m, (struct stx_binst){ .op = STX_B_INDIRECT,
					      .dtype = STX_I64,
					      .a = a,
					      .b = STX_NONE,
					      .c = mask,
					      .ex = bound,
					      .flags = STX_BF_WRAP | STX_BF_CHECK });
}

static inline uint32_t mk_index(struct maker *m, enum stx_dtype t, stx_ex e)
{
	return mk_inst(m, (struct stx_binst){ .op = STX_B_INDEX,
					      .dtype = (uint8_t)t,
					      .a = STX_NONE,
					      .b = STX_NONE,
					      .c = STX_NONE,
					      .ex = e });
}

static inline uint32_t mk_op(struct maker *m, enum stx_prim p, enum stx_dtype t, uint32_t a,
			     uint32_t b)
{
	int arity = stx_prim_info(p)->arity;
	return mk_inst(m, (struct stx_binst){ .op = (uint8_t)p,
					      .dtype = (uint8_t)t,
					      .a = a,
					      .b = arity > 1 ? b : STX_NONE,
					      .c = STX_NONE });
}

/* Element of a buffer of rank nranges at the definition's own point. */
static inline stx_ex mk_here(struct maker *m, const struct stx_buffer *b)
{
	stx_ex e = b->layout.offset;
	for (uint32_t i = 0; i < b->layout.rank; i++)
		e = stx_ex_add(m->x, e, stx_ex_mul(m->x, mk_var(m, i), b->layout.strides[i]));
	return e;
}

/* Ends the definition: a contiguous buffer over the ranges. */
static inline struct stx_buffer *mk_end(struct maker *m, enum stx_buffer_kind kind,
					enum stx_dtype t, enum stx_def_kind def,
					enum stx_monoid monoid, enum stx_dtype acc, uint32_t r0,
					uint32_t r1)
{
	struct stx_buffer *b = mk_buffer(m, kind, t, mk_layout(m, m->nranges, m->ranges, NULL));
	b->def = def;
	b->nranges = m->nranges;
	b->nrranges = m->nrranges;
	b->ranges = stx_arena_copy(m->a, m->ranges, (m->nranges + 1) * sizeof *m->ranges);
	b->rranges = stx_arena_copy(m->a, m->rranges, (m->nrranges + 1) * sizeof *m->rranges);
	b->store = mk_here(m, b);
	b->monoid = monoid;
	b->state = monoid == STX_MONOID_ARGMAX || monoid == STX_MONOID_ARGMIN;
	b->acc = acc;
	b->body = (struct stx_body){
		.at = m->body.at,
		.n = m->body.n,
		.result = { r0, r1 },
		.nresults = def == STX_DEF_REDUCTION && monoid == STX_MONOID_DOT ? 2 : 1
	};
	if (kind == STX_BUF_OUTPUT) {
		b->index = m->l->outputs.n;
		assert_int_equal(stx_push(m->a, &m->l->outputs, b->id), 0);
	}
	return b;
}

static inline struct stx_buffer *mk_pointwise(struct maker *m, enum stx_buffer_kind kind,
					      enum stx_dtype t, uint32_t r)
{
	return mk_end(m, kind, t, STX_DEF_POINTWISE, STX_MONOID_SUM, t, r, 0);
}

static inline void mk_origins(struct maker *m, struct stx_buffer *b, uint32_t n,
			      const char *const *names)
{
	b->origins = stx_arena_copy(m->a, names, n * sizeof *names);
	b->norigins = n;
}

/* ---- direct evaluation of loops ---- */

static inline int64_t mk_elems(struct maker *m, const struct stx_buffer *b)
{
	int64_t n = mk_eval(m, b->layout.offset) + 1;
	for (uint32_t i = 0; i < b->layout.rank; i++) {
		int64_t size = mk_eval(m, b->layout.sizes[i]);
		if (!size)
			return 0;
		n += (size - 1) * mk_eval(m, b->layout.strides[i]);
	}
	return n;
}

static inline union stx_scalar ref_prim(struct maker *m, enum stx_prim p, enum stx_dtype t,
					enum stx_dtype from, union stx_scalar a, union stx_scalar b,
					union stx_scalar c)
{
	if (p < STX_P_FIRST_ELEMENTARY)
		return stx_prim_eval(p, t, from, a, b, c);
	union stx_scalar none = { .u = 0 };
	enum stx_dtype wide = stx_dtype_bytes(t) < 4 && stx_dtype_is_float(t) ? STX_F32 : t;
	a = stx_elementary_eval(stx_elementary_record(m->a, p, wide), a, b);
	return wide == t ? a : stx_prim_eval(STX_P_CAST, t, wide, a, none, none);
}

static inline void ref_point(struct maker *m, const struct stx_buffer *b, void **data,
			     const int64_t *vars, union stx_scalar *v, int64_t *indirects)
{
	for (uint32_t i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];
		enum stx_dtype t = (enum stx_dtype)in->dtype;
		struct stx_ex_env env = { .vars = vars,
					  .nvars = 16,
					  .indirects = indirects,
					  .nindirects = b->body.n,
					  .syms = &m->sym_value,
					  .nsyms = 1 };
		union stx_scalar none = { .u = 0 }, q[3] = { none, none, none };
		const uint32_t operand[3] = { in->a, in->b, in->c };
		int ok = 1;
		v[i] = none;
		if (in->op < STX_PRIM_COUNT) {
			for (int j = 0; j < 3; j++)
				if (operand[j] != STX_NONE)
					q[j] = v[operand[j]];
			uint32_t from = in->op == STX_P_SELECT ? in->b : in->a;
			v[i] = ref_prim(m, (enum stx_prim)in->op, t,
					(enum stx_dtype)b->body.at[from].dtype, q[0], q[1], q[2]);
		} else if (in->op == STX_B_CONST) {
			v[i] = in->k;
		} else if (in->op == STX_B_INDEX) {
			q[0].i = stx_ex_eval(m->x, in->ex, &env, &ok);
			v[i] = stx_prim_eval(STX_P_CAST, t, STX_I64, q[0], none, none);
		} else if (in->op == STX_B_INDIRECT) {
			int64_t bound = stx_ex_eval(m->x, in->ex, &env, &ok);
			v[i].i = v[in->a].i +
				 (v[in->a].i < 0 && in->flags & STX_BF_WRAP ? bound : 0);
			indirects[i] = v[i].i;
		} else if (in->c == STX_NONE || v[in->c].i & 1) {
			int64_t at = stx_ex_eval(m->x, in->ex, &env, &ok);
			const struct stx_buffer *from = m->l->buffers.at[in->a];
			assert_in_range(at, 0, mk_elems(m, from) - 1);
			v[i] = stx_scalar_load(t, (char *)data[in->a] + at * stx_dtype_bytes(t));
		}
		assert_true(ok);
	}
}

/* Plain left-to-right combination; tests use values whose sums are exact. */
static inline union stx_scalar ref_combine(const struct stx_buffer *b, union stx_scalar s,
					   union stx_scalar p, union stx_scalar q, int64_t at,
					   int64_t *where)
{
	static const enum stx_prim op[] = {
		[STX_MONOID_SUM] = STX_P_ADD, [STX_MONOID_PROD] = STX_P_MUL,
		[STX_MONOID_MAX] = STX_P_MAX, [STX_MONOID_MIN] = STX_P_MIN,
		[STX_MONOID_ANY] = STX_P_OR,  [STX_MONOID_ALL] = STX_P_AND
	};
	union stx_scalar none = { .u = 0 };
	if (b->monoid == STX_MONOID_DOT && stx_dtype_is_float(b->acc))
		return stx_prim_eval(STX_P_FMA, b->acc, b->acc, p, q, s);
	if (b->monoid == STX_MONOID_DOT)
		return stx_prim_eval(STX_P_ADD, b->acc, b->acc,
				     stx_prim_eval(STX_P_MUL, b->acc, b->acc, p, q, none), s, none);
	if (b->monoid == STX_MONOID_ARGMAX || b->monoid == STX_MONOID_ARGMIN) {
		enum stx_prim better = b->monoid == STX_MONOID_ARGMAX ? STX_P_GT : STX_P_LT;
		if (*where >= 0 && !(stx_prim_eval(better, STX_BOOL, b->acc, p, s, none).i & 1))
			return s;
		*where = at;
		return p;
	}
	return stx_prim_eval(op[b->monoid], b->acc, b->acc, s, p, none);
}

static inline void ref_buffer(struct maker *m, const struct stx_buffer *b, void **data)
{
	int64_t size[16], vars[16] = { 0 }, total = 1, rtotal = 1;
	union stx_scalar *v = calloc(b->body.n + 1, sizeof *v), none = { .u = 0 };
	int64_t *indirects = calloc(b->body.n + 1, sizeof *indirects);
	for (uint32_t i = 0; i < b->nranges + b->nrranges; i++) {
		size[i] = mk_eval(m, i < b->nranges ? b->ranges[i] : b->rranges[i - b->nranges]);
		*(i < b->nranges ? &total : &rtotal) *= size[i];
	}
	for (int64_t p = 0; p < total; p++) {
		int64_t t = p, where = -1;
		for (uint32_t i = b->nranges; i-- > 0; t /= size[i])
			vars[i] = t % size[i];
		union stx_scalar s = stx_monoid_identity(b->monoid, b->acc);
		for (int64_t r = 0; r < (b->def == STX_DEF_REDUCTION ? rtotal : 1); r++) {
			t = r;
			for (uint32_t i = b->nranges + b->nrranges; i-- > b->nranges; t /= size[i])
				vars[i] = t % size[i];
			ref_point(m, b, data, vars, v, indirects);
			enum stx_dtype from = (enum stx_dtype)b->body.at[b->body.result[0]].dtype;
			if (b->def == STX_DEF_POINTWISE) {
				s = stx_prim_eval(STX_P_CAST, b->dtype, from, v[b->body.result[0]],
						  none, none);
				continue;
			}
			union stx_scalar x = stx_prim_eval(STX_P_CAST, b->acc, from,
							   v[b->body.result[0]], none, none),
					 y = none;
			if (b->monoid == STX_MONOID_DOT)
				y = stx_prim_eval(
					STX_P_CAST, b->acc,
					(enum stx_dtype)b->body.at[b->body.result[1]].dtype,
					v[b->body.result[1]], none, none);
			s = ref_combine(b, s, x, y, r, &where);
		}
		if (b->def == STX_DEF_REDUCTION) {
			if (b->monoid == STX_MONOID_ARGMAX || b->monoid == STX_MONOID_ARGMIN)
				s.i = where;
			else
				s = stx_prim_eval(STX_P_CAST, b->dtype, b->acc, s, none, none);
		}
		struct stx_ex_env env = {
			.vars = vars, .nvars = 16, .syms = &m->sym_value, .nsyms = 1
		};
		int ok = 1;
		int64_t at = stx_ex_eval(m->x, b->store, &env, &ok);
		assert_true(ok && at >= 0 && at < mk_elems(m, b));
		stx_scalar_store(b->dtype, (char *)data[b->id] + at * stx_dtype_bytes(b->dtype), s);
	}
	free(v);
	free(indirects);
}

/* ---- running a schedule ---- */

static inline void run_schedule(struct maker *m, const struct stx_schedule *s, void **inputs,
				void **outputs)
{
	uint32_t n = m->l->buffers.n;
	void **data = calloc(n + 1, sizeof *data);
	struct stx_diag d = { 0 };
	for (uint32_t i = 0; i < n; i++)
		data[i] = m->l->buffers.at[i]->def == STX_DEF_NONE ? inputs[i] : outputs[i];
	if (stx_schedule_evaluate(s, data, &m->sym_value, &d))
		fail_msg("%s: %s", d.node, d.text);
	free(data);
}

static inline struct stx_schedule *must_schedule(struct maker *m, int no_fuse)
{
	struct stx_diag d = { 0 };
	struct stx_schedule_options o = { .no_fuse = no_fuse };
	struct stx_schedule *s = NULL;
	if (stx_schedule(m->l, &o, &s, &d))
		fail_msg("%s %s %s: %s", d.stage, d.node, d.location, d.text);
	return s;
}

static inline char *kernel_text(const struct stx_kernel *k)
{
	struct stx_bytes out = { 0 };
	assert_int_equal(stx_kernel_print(k, &out), 0);
	char *text = strdup(stx_bytes_cstr(&out));
	stx_bytes_free(&out);
	return text;
}

#endif
