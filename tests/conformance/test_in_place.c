/* test_in_place.c: operators in place (DF-03, DF-04, DF-05): what a caller finds in its tensors after a
 * run is what an eager interpreter with shared memory leaves there, to the bit. */
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

/* What cannot be made functional, or has no meaning, says so and where. */
static void test_in_place_errors_name_the_node(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{ "%c : f32[2] = constant([1,2])\n%y = relu_.default(%c)\nreturn (%y,)\n",
		  "a constant is written" },
		{ "%x : f32[2] = placeholder(param=True)\n%y = relu_.default(%x)\nreturn (%y,)\n",
		  "a parameter is written" },
		{ "%x : f32[2,3] = placeholder(strides=[0,1])\n%y = relu_.default(%x)\n"
		  "return (%y,)\n",
		  "several elements may be one in memory" },
		{ "%x : f32[3] = placeholder()\n%e = expand.default(%x, [2,3])\n"
		  "%y = relu_.default(%e)\nreturn (%y,)\n",
		  "written through an expand" },
		{ "%x : f32[2,3] = placeholder()\n%t = t.default(%x)\n%r = reshape.default(%t, "
		  "[6])\n"
		  "%y = relu_.default(%x)\nreturn (%y, %r)\n",
		  "may or may not be a copy" },
		{ "%x : f32[6] = placeholder()\n%s = as_strided.default(%x, [2,2], [3,1])\n"
		  "%y = relu_.default(%s)\nreturn (%y,)\n",
		  "as_strided" },
		{ "%x : f32[6] = placeholder()\n%s = unfold.default(%x, 0, 2, 1)\n"
		  "%y = relu_.default(%s)\nreturn (%y,)\n",
		  "unfold" },
		{ "%x : f32[3] = placeholder()\n%z : f32[2,3] = placeholder()\n"
		  "%y = add_.Tensor(%x, %z)\nreturn (%y,)\n",
		  "does not have the sizes" },
		{ "%x : i32[3] = placeholder()\n%z : f32[3] = placeholder()\n"
		  "%y = add_.Tensor(%x, %z)\nreturn (%y,)\n",
		  "is f32, which is not written into i32" },
		{ "%x : f32[3] = placeholder()\n%y = sum_.default(%x)\nreturn (%y,)\n",
		  "is not an operator overload" },
		{ "%x : f32[3] = placeholder()\n%y = relu.default(%x)\nreturn (%y to %y,)\n",
		  "expected an input" },
		{ "%x : f32[3] = placeholder()\n%y = relu.default(%x)\nreturn (%y to %x, %y)\n",
		  "behind what is written" },
		{ "%x : f32[3] = placeholder()\n%y : f32[2] = placeholder()\nreturn (%y to %x,)\n",
		  "another type" },
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++) {
		struct compiled c;
		struct stx_diag d = { 0 };
		stx_err e = compiled_build(cases[k].text, compiled_targets()[0], COMPILED_FUSED, &c,
					   &d);
		if (!e || !strstr(d.text, cases[k].says))
			fail_msg("%s: error %d, '%s'", cases[k].text, e, d.text);
	}
}

/* A key-value cache that is no donated argument: only the new rows are written. */
static void test_in_place_cache_update_does_not_copy(void **state)
{
	static const char *const cases[] = {
		"%c : f32[2,64,8] = placeholder()\n%n : f32[2,1,8] = placeholder()\n"
		"%p : i64[1] = placeholder()\n%r = index_copy_.default(%c, 1, %p, %n)\n"
		"%t = sum.dim_IntList(%c, [1], False)\nreturn (%t,)\n",
		"%c : f32[2,64,8] = placeholder()\n%n : f32[2,1,8] = placeholder()\n"
		"%p : i64[1] = placeholder()\n%s = slice.Tensor(%c, 1, 3, 4)\n"
		"%r = copy_.default(%s, %n)\n"
		"%t = sum.dim_IntList(%c, [1], False)\nreturn (%t,)\n",
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++) {
		float cache[2 * 64 * 8] = { 0 }, fresh[16], total[16];
		int64_t at = 3;
		struct compiled c;
		struct stx_diag d = { 0 };
		struct stax_error err;
		struct stx_tensor in[3] = {
			{ .data = cache, .dtype = STX_F32, .rank = 3, .sizes = { 2, 64, 8 } },
			{ .data = fresh, .dtype = STX_F32, .rank = 3, .sizes = { 2, 1, 8 } },
			{ .data = &at, .dtype = STX_I64, .rank = 1, .sizes = { 1 } },
		}, out[2] = { 0 }, flags;
		const char *name;
		for (int i = 0; i < 16; i++)
			fresh[i] = (float)(i + 1);
		for (int i = 0; i < 3; i++)
			compiled_dense(&in[i]);
		if (compiled_build(cases[k], compiled_targets()[0], COMPILED_FUSED, &c, &d))
			fail_msg("%s", d.text);
		assert_int_equal(stax_noutputs(c.artifact), 2);
		assert_int_equal(stax_query(c.artifact, in, 3, out, NULL, &err), 0);
		compiled_dense(&out[0]);
		out[0].data = total;
		out[1].data = NULL;
		if (compiled_call(&c, in, 3, out, 2, &err))
			fail_msg("%s", err.text);
		assert_int_equal(stax_input(c.artifact, 0, &flags, &name), 0);
		assert_int_equal(flags.flags, STX_TENSOR_MUTATED);
		assert_ptr_equal(out[1].data, cache);
		for (int i = 0; i < 2 * 64 * 8; i++)
			assert_true(cache[i] == (i / 8 % 64 == 3 ? fresh[i / 512 * 8 + i % 8] : 0));
		for (int i = 0; i < 16; i++)
			assert_true(total[i] == fresh[i]);
		assert_true(c.bytes_written == 16 * 4 + 16 * 4);
		compiled_free(&c);
	}
}

/* What updates an input's memory through a flip or a permutation of it, and is then what the input
 * holds, is not in its memory already: there it lies flipped. */
static void test_in_place_flipped_updates_are_put_in_order(void **state)
{
	static const struct {
		const char *text;
		float want[9];
	} cases[] = {
		{ "%x : f32[3,3] = placeholder()\n%v : f32[1,3] = placeholder()\n"
		  "%f = flip.default(%x, [0])\n%w = slice_scatter.default(%f, %v, 0, 0, 1)\n"
		  "%c = copy_.default(%x, %w)\nreturn (%v,)\n",
		  { 10, 11, 12, 3, 4, 5, 0, 1, 2 } },
		{ "%x : f32[3,3] = placeholder()\n%v : f32[1,3] = placeholder()\n"
		  "%f = permute.default(%x, [1,0])\n%w = slice_scatter.default(%f, %v, 0, 0, 1)\n"
		  "%c = copy_.default(%x, %w)\nreturn (%v,)\n",
		  { 10, 11, 12, 1, 4, 7, 2, 5, 8 } },
		{ "%x : f32[3,3] = placeholder()\n%v : f32[1,3] = placeholder()\n"
		  "%i : i64[1] = constant([2])\n%f = flip.default(%x, [0,1])\n"
		  "%w = index_put.default(%f, [%i], %v)\n"
		  "%c = copy_.default(%x, %w)\nreturn (%v,)\n",
		  { 8, 7, 6, 5, 4, 3, 10, 11, 12 } },
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++)
		for (int form = COMPILED_FUSED; form <= COMPILED_UNFUSED; form++) {
			float x[9], v[3] = { 10, 11, 12 }, same[3];
			struct compiled c;
			struct stx_diag d = { 0 };
			struct stax_error err;
			struct stx_tensor in[2] = {
				{ .data = x, .dtype = STX_F32, .rank = 2, .sizes = { 3, 3 } },
				{ .data = v, .dtype = STX_F32, .rank = 2, .sizes = { 1, 3 } },
			}, out[2] = { 0 };
			for (int i = 0; i < 9; i++)
				x[i] = (float)i;
			compiled_dense(&in[0]);
			compiled_dense(&in[1]);
			if (compiled_build(cases[k].text, compiled_targets()[0],
					   (enum compiled_form)form, &c, &d))
				fail_msg("%s", d.text);
			assert_int_equal(stax_query(c.artifact, in, 2, out, NULL, &err), 0);
			compiled_dense(&out[0]);
			out[0].data = same;
			if (compiled_call(&c, in, 2, out, 2, &err))
				fail_msg("%s", err.text);
			for (int i = 0; i < 9; i++)
				if (x[i] != cases[k].want[i])
					fail_msg("case %zu, form %d: element %d is %g", k, form, i,
						 (double)x[i]);
			compiled_free(&c);
		}
}

/* Views that the random programs do not have. */
static void test_in_place_through_rarer_views(void **state)
{
	static const struct {
		const char *text;
		float want[4];
	} cases[] = {
		{ "%x : f32[2,2] = placeholder()\n%u = unbind.int(%x, 1)\n"
		  "%a = add_.Tensor(%u:1, %u)\nreturn (%a,)\n",
		  { 1, 3, 3, 7 } },
		{ "%x : f32[2,2] = placeholder()\n%u = split_with_sizes.default(%x, [1,1], -2)\n"
		  "%a = mul_.Scalar(%u:1, 2.0)\nreturn (%a,)\n",
		  { 1, 2, 6, 8 } },
		{ "%x : f32[2,2] = placeholder()\n%s = slice.Tensor(%x, 0, 1)\n"
		  "%q = squeeze.dims(%s, [0])\n%d = detach.default(%q)\n%e = alias.default(%d)\n"
		  "%a = fill_.Scalar(%e, 9.0)\nreturn (%q,)\n",
		  { 1, 2, 9, 9 } },
		{ "%x : f32[2,2] = placeholder()\n%f = flatten.using_ints(%x)\n"
		  "%s = slice.Tensor(%f, 0, -1, 9223372036854775807)\n%a = relu_.default(%s)\n"
		  "%m = mul_.Scalar(%f, -1.0)\n%b = relu_.default(%s)\nreturn (%s,)\n",
		  { -1, -2, -3, 0 } },
		{ "%x : f32[2,2] = placeholder()\n%i = view.dtype(%x, i32)\n"
		  "%d = diagonal.default(%i)\n%a = add_.Scalar(%d, 8388608)\nreturn (%a,)\n",
		  { 2, 2, 3, 8 } }, /* the exponent is one more */
		{ "%x : f32[2,2] = placeholder()\n%t = transpose.int(%x, 0, 1)\n"
		  "%u = unsqueeze.default(%t, 1)\n%e = expand.default(%u, [2,1,2])\n"
		  "%s = select.int(%e, 0, -2)\n%a = mul_.Scalar(%s, 0.5)\nreturn (%a,)\n",
		  { 0.5, 2, 1.5, 4 } },
	};
	(void)state;
	for (size_t k = 0; k < N(cases); k++) {
		float x[4] = { 1, 2, 3, 4 }, room[4];
		struct compiled c;
		struct stx_diag d = { 0 };
		struct stax_error err;
		struct stx_tensor in = {
			.data = x, .dtype = STX_F32, .rank = 2, .sizes = { 2, 2 }
		};
		struct stx_tensor out[2] = { 0 };
		compiled_dense(&in);
		if (compiled_build(cases[k].text, compiled_targets()[0], COMPILED_FUSED, &c, &d))
			fail_msg("case %zu: %s", k, d.text);
		assert_int_equal(stax_query(c.artifact, &in, 1, out, NULL, &err), 0);
		compiled_dense(&out[0]);
		out[0].data = room;
		if (compiled_call(&c, &in, 1, out, 2, &err))
			fail_msg("case %zu: %s", k, err.text);
		for (int i = 0; i < 4; i++)
			if (!same(x[i], cases[k].want[i]))
				fail_msg("case %zu: element %d is %g", k, i, (double)x[i]);
		compiled_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_place_programs_leave_what_eager_leaves),
		cmocka_unit_test(test_in_place_text_prints_and_parses),
		cmocka_unit_test(test_in_place_errors_name_the_node),
		cmocka_unit_test(test_in_place_cache_update_does_not_copy),
		cmocka_unit_test(test_in_place_through_rarer_views),
		cmocka_unit_test(test_in_place_flipped_updates_are_put_in_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
