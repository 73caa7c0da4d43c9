/* test_in_place_programs.c: random programs of operators in place (DF-03, DF-04, DF-05): what a caller
 * finds in its tensors after a run is what an eager interpreter with shared memory leaves there, to the
 * bit. STAX_IN_PLACE_PROGRAMS: how many (120). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cases.h"
#include "compiled.h"
#include "passes.h"

#define N(a) (sizeof(a) / sizeof *(a))

/* ---- an eager interpreter: tensors are views of storages ---- */

#define MAX_RANK     4
#define MAX_VALUES   40
#define MAX_STORAGE  512
#define MAX_STORAGES 40

struct view {
	int storage, rank, written; /* written: some element is two places, so it is only read */
	int64_t offset, sizes[MAX_RANK], strides[MAX_RANK];
	char name[24];
};
struct eager {
	float storage[MAX_STORAGES][MAX_STORAGE];
	int nstorages, ninputs, nvalues;
	struct view values[MAX_VALUES];
	struct stx_bytes text;
	uint64_t seed;
	float initial[4][MAX_STORAGE];
};

static uint32_t rnd(struct eager *e, uint32_t n)
{
	e->seed = e->seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(e->seed >> 33) % n;
}

static int64_t numel(const struct view *v)
{
	int64_t n = 1;
	for (int i = 0; i < v->rank; i++)
		n *= v->sizes[i];
	return n;
}

/* Address of the k-th element in row-major order. */
static int64_t address(const struct view *v, int64_t k)
{
	int64_t at = v->offset;
	for (int i = v->rank; i-- > 0; k /= v->sizes[i])
		at += k % v->sizes[i] * v->strides[i];
	return at;
}

static void read_all(const struct eager *e, const struct view *v, float *out)
{
	for (int64_t k = 0; k < numel(v); k++)
		out[k] = e->storage[v->storage][address(v, k)];
}

static void write_all(struct eager *e, const struct view *v, const float *from)
{
	for (int64_t k = 0; k < numel(v); k++)
		e->storage[v->storage][address(v, k)] = from[k];
}

static int is_dense(const struct view *v)
{
	int64_t next = 1;
	for (int i = v->rank; i-- > 0; next *= v->sizes[i])
		if (v->sizes[i] != 1 && v->strides[i] != next)
			return 0;
	return 1;
}

static void dense(struct view *v)
{
	int64_t next = 1;
	for (int i = v->rank; i-- > 0; next *= v->sizes[i])
		v->strides[i] = next;
	v->offset = 0;
}

static int same_sizes(const struct view *a, const struct view *b)
{
	return a->rank == b->rank &&
	       !memcmp(a->sizes, b->sizes, (size_t)a->rank * sizeof *a->sizes);
}

static struct view *add_value(struct eager *e, struct view v)
{
	struct view *p = &e->values[e->nvalues];
	*p = v;
	snprintf(p->name, sizeof p->name, "v%d", e->nvalues++);
	return p;
}

static void put_sizes(struct eager *e, const int64_t *s, int rank)
{
	stx_bytes_puts(&e->text, "[");
	for (int i = 0; i < rank; i++)
		stx_bytes_printf(&e->text, "%s%lld", i ? "," : "", (long long)s[i]);
	stx_bytes_puts(&e->text, "]");
}

/* Row-major, in another order of its dimensions, or with gaps. */
static void draw_input(struct eager *e)
{
	struct view v = { .storage = e->nstorages++, .rank = 1 + (int)rnd(e, 3) };
	int how = (int)rnd(e, 3), first = how == 1;
	int64_t next = how == 2 ? 2 : 1;
	for (int i = 0; i < v.rank; i++)
		v.sizes[i] = 1 + rnd(e, 4);
	for (int k = v.rank; k-- > 0;) {
		int i = first ? v.rank - 1 - k : k;
		v.strides[i] = next;
		next *= v.sizes[i] + (how == 2);
	}
	for (int k = 0; k < MAX_STORAGE; k++)
		e->storage[v.storage][k] = (float)((int)rnd(e, 400) - 200) / 8;
	memcpy(e->initial[e->ninputs++], e->storage[v.storage], sizeof e->initial[0]);
	struct view *p = add_value(e, v);
	stx_bytes_printf(&e->text, "%%%s : f32", p->name);
	put_sizes(e, p->sizes, p->rank);
	stx_bytes_puts(&e->text, " = placeholder(strides=");
	put_sizes(e, p->strides, p->rank);
	stx_bytes_puts(&e->text, ")\n");
}

static struct view *draw_value(struct eager *e)
{
	return &e->values[rnd(e, (uint32_t)e->nvalues)];
}

/* One that x can be combined with and that has x's sizes then; x itself if there is no other. */
static const struct view *draw_partner(struct eager *e, const struct view *x)
{
	for (int tries = 0; tries < 12; tries++) {
		const struct view *y = draw_value(e);
		if (same_sizes(x, y))
			return y;
	}
	return x;
}

/* ---- random statements: each is carried out and written down ---- */

static void view_select(struct eager *e, const struct view *x)
{
	struct view v = *x;
	int d = (int)rnd(e, (uint32_t)x->rank), i = (int)rnd(e, (uint32_t)x->sizes[d]);
	v.offset += i * v.strides[d];
	for (int k = d; k + 1 < v.rank; k++) {
		v.sizes[k] = v.sizes[k + 1];
		v.strides[k] = v.strides[k + 1];
	}
	v.rank--;
	v.written = x->written;
	struct view *p = add_value(e, v);
	stx_bytes_printf(&e->text, "%%%s = select.int(%%%s, %d, %d)\n", p->name, x->name,
			 rnd(e, 2) ? d : d - x->rank, i);
}

static void view_slice(struct eager *e, const struct view *x)
{
	struct view v = *x;
	int d = (int)rnd(e, (uint32_t)x->rank), step = 1 + (int)rnd(e, 2);
	int from = (int)rnd(e, (uint32_t)x->sizes[d]);
	int to = from + 1 + (int)rnd(e, (uint32_t)(x->sizes[d] - from));
	v.offset += from * v.strides[d];
	v.sizes[d] = (to - from + step - 1) / step;
	v.strides[d] *= step;
	struct view *p = add_value(e, v);
	stx_bytes_printf(&e->text, "%%%s = slice.Tensor(%%%s, %d, %d, %d, %d)\n", p->name, x->name,
			 d, from, to, step);
}

static void view_permute(struct eager *e, const struct view *x)
{
	struct view v = *x;
	int64_t dims[MAX_RANK];
	for (int i = 0; i < v.rank; i++) { /* a random rotation or reversal */
		dims[i] = e->seed >> 40 & 1 ? v.rank - 1 - i : (i + 1) % v.rank;
		v.sizes[i] = x->sizes[dims[i]];
		v.strides[i] = x->strides[dims[i]];
	}
	struct view *p = add_value(e, v);
	if (v.rank == 2 && rnd(e, 2)) {
		stx_bytes_printf(&e->text, "%%%s = transpose.int(%%%s, -1, 0)\n", p->name, x->name);
		return;
	}
	stx_bytes_printf(&e->text, "%%%s = permute.default(%%%s, ", p->name, x->name);
	put_sizes(e, dims, v.rank);
	stx_bytes_puts(&e->text, ")\n");
}

static void view_unsqueeze(struct eager *e, const struct view *x)
{
	struct view v = *x;
	if (v.rank == MAX_RANK)
		return;
	for (int k = v.rank++; k > 0; k--) {
		v.sizes[k] = v.sizes[k - 1];
		v.strides[k] = v.strides[k - 1];
	}
	v.sizes[0] = 1;
	v.strides[0] = 0;
	struct view *p = add_value(e, v);
	stx_bytes_printf(&e->text, "%%%s = unsqueeze.default(%%%s, 0)\n", p->name, x->name);
}

static void view_flat(struct eager *e, const struct view *x)
{
	struct view v = *x;
	int64_t offset = x->offset;
	if (!is_dense(x))
		return;
	v.rank = 1;
	v.sizes[0] = numel(x);
	dense(&v);
	v.offset = offset;
	struct view *p = add_value(e, v);
	stx_bytes_printf(&e->text, "%%%s = view.default(%%%s, [-1])\n", p->name, x->name);
}

static void view_diagonal(struct eager *e, const struct view *x)
{
	struct view v = *x;
	if (x->rank != 2)
		return;
	v.rank = 1;
	v.sizes[0] = x->sizes[0] < x->sizes[1] ? x->sizes[0] : x->sizes[1];
	v.strides[0] = x->strides[0] + x->strides[1];
	struct view *p = add_value(e, v);
	stx_bytes_printf(&e->text, "%%%s = diagonal.default(%%%s)\n", p->name, x->name);
}

static void view_expand(struct eager *e, const struct view *x)
{
	struct view v = *x;
	if (x->rank == MAX_RANK)
		return;
	for (int k = v.rank++; k > 0; k--) {
		v.sizes[k] = v.sizes[k - 1];
		v.strides[k] = v.strides[k - 1];
	}
	v.sizes[0] = 2;
	v.strides[0] = 0;
	v.written = 1;
	if (numel(&v) > MAX_STORAGE)
		return;
	struct view *p = add_value(e, v);
	stx_bytes_printf(&e->text, "%%%s = expand.default(%%%s, ", p->name, x->name);
	put_sizes(e, v.sizes, v.rank);
	stx_bytes_puts(&e->text, ")\n");
}

/* Both parts of a split: the second is used as a value too. */
static void view_split(struct eager *e, const struct view *x)
{
	struct view v = *x, w = *x;
	int d = (int)rnd(e, (uint32_t)x->rank);
	int64_t first = (x->sizes[d] + 1) / 2;
	if (x->sizes[d] < 2 || e->nvalues + 2 > MAX_VALUES)
		return;
	v.sizes[d] = first;
	w.sizes[d] -= first;
	w.offset += first * x->strides[d];
	const char *name = x->name;
	struct view *p = add_value(e, v), *q = add_value(e, w);
	stx_bytes_printf(&e->text, "%%%s = split.Tensor(%%%s, %lld, %d)\n", p->name, name,
			 (long long)first, d);
	snprintf(q->name, sizeof q->name, "v%d:1", e->nvalues - 2);
}

static float plus(float a, float b)
{
	return a + b;
}
/* Memory of its own: x + y. */
static void sum(struct eager *e, const struct view *x, const struct view *y)
{
	float a[MAX_STORAGE], b[MAX_STORAGE];
	struct view v = *x;
	v.storage = e->nstorages++;
	v.written = 0;
	dense(&v);
	read_all(e, x, a);
	read_all(e, y, b);
	for (int64_t k = 0; k < numel(x); k++)
		a[k] = plus(a[k], b[k]);
	struct view *p = add_value(e, v);
	write_all(e, p, a);
	stx_bytes_printf(&e->text, "%%%s = add.Tensor(%%%s, %%%s)\n", p->name, x->name, y->name);
}

/* Memory of its own: x the other way round along a dimension, or with one place of it filled. */
static void changed(struct eager *e, const struct view *x)
{
	float from[MAX_STORAGE], to[MAX_STORAGE], number = (float)rnd(e, 9) - 4;
	struct view v = *x;
	int d = (int)rnd(e, (uint32_t)x->rank), flips = (int)rnd(e, 2);
	int64_t at = (int64_t)rnd(e, (uint32_t)x->sizes[d]), inner = 1;
	for (int i = d + 1; i < x->rank; i++)
		inner *= x->sizes[i];
	v.storage = e->nstorages++;
	v.written = 0;
	dense(&v);
	read_all(e, x, from);
	for (int64_t k = 0; k < numel(x); k++) {
		int64_t i = k / inner % x->sizes[d];
		to[k] = flips     ? from[k + (x->sizes[d] - 1 - 2 * i) * inner]
			: i == at ? number
				  : from[k];
	}
	struct view *p = add_value(e, v);
	write_all(e, p, to);
	if (flips) {
		stx_bytes_printf(&e->text, "%%%s = flip.default(%%%s, [%d])\n", p->name, x->name,
				 d);
		return;
	}
	stx_bytes_printf(&e->text, "%%i%s : i64[1] = constant([%lld])\n", p->name, (long long)at);
	stx_bytes_printf(&e->text, "%%%s = index_fill.int_Scalar(%%%s, %d, %%i%s, %.1f)\n", p->name,
			 x->name, d, p->name, (double)number);
}

static float times(float a, float b)
{
	return a * b;
}
static float second(float a, float b)
{
	(void)a;
	return b;
}
static float relu(float a, float b)
{
	(void)b;
	return a > 0 ? a : 0;
}

/* x := fn(x, y). Its result is x, under another name, used from here on now and then. */
static void in_place(struct eager *e, const struct view *x)
{
	static const struct {
		const char *call;
		float (*fn)(float, float);
		int has_other;
	} ops[] = { { "add_.Tensor", plus, 1 },     { "mul_.Tensor", times, 1 },
		    { "copy_.default", second, 1 }, { "relu_.default", relu, 0 },
		    { "add_.Scalar", plus, 2 },     { "mul_.Scalar", times, 2 },
		    { "fill_.Scalar", second, 2 } };
	float a[MAX_STORAGE], b[MAX_STORAGE], number = (float)((int)rnd(e, 16) - 8) / 4;
	size_t k = rnd(e, N(ops));
	const struct view *y = draw_partner(e, x);
	if (x->written)
		return;
	read_all(e, x, a);
	read_all(e, y, b);
	for (int64_t i = 0; i < numel(x); i++)
		a[i] = ops[k].fn(a[i], ops[k].has_other == 2 ? number : b[i]);
	write_all(e, x, a);
	struct view *p = add_value(e, *x);
	stx_bytes_printf(&e->text, "%%%s = %s(%%%s", p->name, ops[k].call, x->name);
	if (ops[k].has_other == 1)
		stx_bytes_printf(&e->text, ", %%%s", y->name);
	if (ops[k].has_other == 2)
		stx_bytes_printf(&e->text, ", %.2f", (double)number);
	stx_bytes_puts(&e->text, ")\n");
}

static void statement(struct eager *e)
{
	static void (*const views[])(struct eager *, const struct view *) = {
		view_select, view_slice,    view_permute, view_unsqueeze,
		view_flat,   view_diagonal, view_expand,  view_split,
	};
	const struct view *x = draw_value(e);
	uint32_t what = rnd(e, 10);
	if (what < 4 && x->rank > 0)
		views[rnd(e, N(views))](e, x);
	else if (what < 6 && x->rank > 0 && e->nstorages < MAX_STORAGES && rnd(e, 2))
		changed(e, x);
	else if (what < 6 && e->nstorages < MAX_STORAGES)
		sum(e, x, draw_partner(e, x));
	else
		in_place(e, x);
}

#define NOUTPUTS 3
static void draw_program(struct eager *e, uint64_t seed, int outputs[NOUTPUTS])
{
	memset(e, 0, sizeof *e);
	e->seed = seed * 7919 + 1;
	for (int i = 0, n = 1 + (int)rnd(e, 3); i < n; i++)
		draw_input(e);
	for (int i = 0, n = 3 + (int)rnd(e, 12); i < n && e->nvalues + 2 < MAX_VALUES; i++)
		statement(e);
	stx_bytes_puts(&e->text, "return (");
	for (int i = 0; i < NOUTPUTS; i++) {
		outputs[i] = (int)rnd(e, (uint32_t)e->nvalues);
		stx_bytes_printf(&e->text, "%s%%%s", i ? ", " : "", e->values[outputs[i]].name);
	}
	stx_bytes_puts(&e->text, ")\n");
	assert_non_null(stx_bytes_cstr(&e->text));
}

/* ---- compiled code on the caller's memory ---- */

static int same(float a, float b)
{
	return !memcmp(&a, &b, sizeof a) || (a != a && b != b);
}

static void compare(const struct eager *e, const int outputs[NOUTPUTS], const char *target,
		    enum compiled_form form)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	struct stax_error err;
	struct stx_tensor in[4] = { 0 }, out[NOUTPUTS + 4] = { 0 };
	static float memory[4][MAX_STORAGE], room[NOUTPUTS][MAX_STORAGE];
	const char *text = (const char *)e->text.at;
	if (compiled_build(text, target, form, &c, &d))
		fail_msg("%s: %s\n%s", target, d.text, text);
	for (int i = 0; i < e->ninputs; i++) {
		const struct view *v = &e->values[i];
		memcpy(memory[i], e->initial[i], sizeof memory[i]);
		in[i] = (struct stx_tensor){ .data = memory[i],
					     .dtype = STX_F32,
					     .rank = (uint8_t)v->rank };
		memcpy(in[i].sizes, v->sizes, sizeof v->sizes);
		memcpy(in[i].strides, v->strides, sizeof v->strides);
	}
	int nout = stax_noutputs(c.artifact);
	assert_true(nout >= NOUTPUTS && nout <= NOUTPUTS + e->ninputs);
	assert_int_equal(stax_query(c.artifact, in, e->ninputs, out, NULL, &err), 0);
	for (int i = 0; i < nout; i++) {
		out[i].data = i < NOUTPUTS ? room[i] : NULL;
		if (i < NOUTPUTS)
			compiled_dense(&out[i]);
	}
	if (compiled_call(&c, in, e->ninputs, out, nout, &err))
		fail_msg("%s: %s\n%s", target, err.text, text);
	for (int i = 0; i < e->ninputs; i++)
		for (int k = 0; k < MAX_STORAGE; k++)
			if (!same(memory[i][k], e->storage[i][k]))
				fail_msg("%s, form %d: element %d of input %d is %a, not %a\n%s",
					 target, form, k, i, (double)memory[i][k],
					 (double)e->storage[i][k], text);
	for (int i = 0; i < NOUTPUTS; i++) {
		const struct view *v = &e->values[outputs[i]];
		float want[MAX_STORAGE];
		const float *got = out[i].data;
		read_all(e, v, want);
		assert_int_equal(compiled_numel(&out[i]), numel(v));
		for (int64_t k = 0; k < numel(v); k++)
			if (!same(want[k], got[k]))
				fail_msg("%s, form %d: element %lld of output %d is %a, not %a\n%s",
					 target, form, (long long)k, i, (double)got[k],
					 (double)want[k], text);
	}
	compiled_free(&c);
}

/* DF-03, DF-04: an input in place, a view of an input, an intermediate, at random. */
static void test_in_place_programs_leave_what_eager_leaves(void **state)
{
	const char *const *targets = compiled_targets();
	const char *count = getenv("STAX_IN_PLACE_PROGRAMS");
	uint64_t n = count ? strtoull(count, NULL, 10) : 120;
	uint32_t ntargets = 0;
	static struct eager e;
	(void)state;
	while (targets[ntargets])
		ntargets++;
	for (uint64_t seed = 0; seed < n; seed++) {
		int outputs[NOUTPUTS];
		draw_program(&e, seed, outputs);
		compare(&e, outputs, targets[seed % ntargets], COMPILED_FUSED);
		if (seed % 4 == 0)
			compare(&e, outputs, targets[ntargets - 1], COMPILED_UNFUSED);
		stx_bytes_free(&e.text);
	}
}

static void test_in_place_text_prints_and_parses(void **state)
{
	static struct eager e;
	(void)state;
	for (uint64_t seed = 0; seed < 60; seed++) {
		struct stx_arena *a = stx_arena_new(0);
		struct stx_diag d = { 0 };
		struct stx_graph *g, *again;
		struct stx_bytes once = { 0 }, twice = { 0 };
		int outputs[NOUTPUTS];
		draw_program(&e, seed, outputs);
		for (int functional = 0; functional < 2; functional++) {
			if (stx_graph_parse(a, (char *)e.text.at, e.text.n, &g, &d) ||
			    (functional &&
			     (stx_graph_functionalise(g, &d) || stx_graph_verify(g, &d))))
				fail_msg("%s", d.text);
			once.n = twice.n = 0;
			assert_int_equal(stx_graph_print(g, &once), 0);
			if (stx_graph_parse(a, (char *)once.at, once.n, &again, &d))
				fail_msg("%s", d.text);
			assert_int_equal(stx_graph_print(again, &twice), 0);
			assert_true(once.n == twice.n && !memcmp(once.at, twice.at, once.n));
			/* DF-05 */
			for (uint32_t i = 0; functional && i < g->nodes.n; i++)
				assert_int_equal(again->nodes.at[i]->is_in_place, 0);
		}
		stx_bytes_free(&e.text);
		stx_bytes_free(&once);
		stx_bytes_free(&twice);
		stx_arena_free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_place_programs_leave_what_eager_leaves),
		cmocka_unit_test(test_in_place_text_prints_and_parses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
