/* test_attention.c: attention of random shapes, layouts, masks and types at every level and in any
 * number of pieces: to the bit what plain loops give that follow kernel.h (order BLOCKS: 64 keys
 * under one maximum, terms and keys in order; FMA from v3 on). The same definition whether it is
 * written as the operator or spelt out, and whatever stands between the products. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bytes.h"
#include "compiled.h"
#include "elementary.h"
#include "scalar.h"

#define ROUNDS 40
#define BLOCK  64

enum { PLAIN, CAUSAL, WINDOW, BOOLEAN, ADDED, ALIBI, SOFTCAP, KINDS };

struct attention {
	enum stx_dtype t, work;
	int64_t batch, rows, keys, size, cols;
	int kind, k_transposed, q_strided, v_strided, spelt, safe, wide;
	struct stx_tensor in[4]; /* query, key, value, mask */
	uint32_t nin;
	double *want[2]; /* without and with FMA */
	const struct stx_elem_program *exp, *tanh;
};

static uint64_t next(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545f4914f6cdd1du;
}

static int64_t between(uint64_t *s, int64_t lo, int64_t hi)
{
	return lo + (int64_t)(next(s) >> 33) % (hi - lo + 1);
}

/* ---- inputs ---- */

static double draw(uint64_t *s, enum stx_dtype t, int wild)
{
	static const double special[] = { INFINITY, -INFINITY, 0.0, -0.0, 0x1p-140, 0x1p60, NAN };
	if (wild && next(s) % 1500 == 0)
		return stx_scalar_round(t, special[next(s) % 7]);
	return stx_scalar_round(t, (double)(int64_t)next(s) * 0x1p-61);
}

static void add_input(struct attention *p, struct stx_bytes *text, uint64_t *s, const char *name,
		      enum stx_dtype t, int64_t b, int64_t m, int64_t n, int wild)
{
	struct stx_tensor *x = &p->in[p->nin++];
	*x = (struct stx_tensor){ .dtype = (uint8_t)t, .rank = 3, .sizes = { b, m, n } };
	stx_bytes_printf(text, "%%%s : %s[%lld,%lld,%lld] = placeholder()\n", name,
			 stx_dtype_name(t), (long long)b, (long long)m, (long long)n);
	compiled_dense(x);
	int64_t count = compiled_numel(x);
	int bytes = stx_dtype_bytes(t);
	x->data = malloc((size_t)(count * bytes));
	assert_non_null(x->data);
	for (int64_t i = 0; i < count; i++) {
		union stx_scalar v = { .u = 0 };
		if (t == STX_BOOL)
			v.u = next(s) % 3 != 0;
		else
			v.f = draw(s, t, wild);
		stx_scalar_store(t, (char *)x->data + i * bytes, v);
	}
}

static union stx_scalar element(const struct attention *p, int input, int64_t b, int64_t i,
				int64_t j)
{
	const struct stx_tensor *x = &p->in[input];
	int64_t at = ((x->sizes[0] == 1 ? 0 : b) * x->sizes[1] + i) * x->sizes[2] + j;
	return stx_scalar_load((enum stx_dtype)x->dtype,
			       (const char *)x->data +
				       at * stx_dtype_bytes((enum stx_dtype)x->dtype));
}

/* ---- the plain loops ---- */

static double rd(const struct attention *p, double x)
{
	return p->work == STX_F64 ? x : (float)x;
}

static double step(const struct attention *p, double a, double b, double c, int fused)
{
	if (p->work == STX_F64) {
		volatile double x = a * b;
		return fused ? fma(a, b, c) : x + c;
	}
	volatile float x = (float)a * (float)b;
	return fused ? (double)fmaf((float)a, (float)b, (float)c) : (double)(float)(x + (float)c);
}

static double fn(const struct stx_elem_program *f, double x)
{
	union stx_scalar v = { .f = x };
	return stx_elementary_eval(f, v, v).f;
}

static double query(const struct attention *p, int64_t b, int64_t i, int64_t e)
{
	return (p->q_strided ? element(p, 0, b, e, i) : element(p, 0, b, i, e)).f;
}

static double score(const struct attention *p, int64_t b, int64_t i, int64_t k, int fused)
{
	double s = 0;
	for (int64_t e = 0; e < p->size; e++)
		s = step(p, query(p, b, i, e),
			 (p->k_transposed ? element(p, 1, b, e, k) : element(p, 1, b, k, e)).f, s,
			 fused);
	s = rd(p, s * rd(p, 0.3));
	switch (p->kind) {
	case CAUSAL: return k > i ? -INFINITY : s;
	case WINDOW: return k > i || k < i - 20 ? -INFINITY : s;
	case BOOLEAN: return element(p, 3, b, i, k).u ? s : -INFINITY;
	case ADDED: return rd(p, s + element(p, 3, b, i, k).f);
	case ALIBI: return rd(p, s + rd(p, (double)(k - i) * rd(p, 0.0625)));
	case SOFTCAP: return rd(p, fn(p->tanh, rd(p, s / 4)) * 4);
	default: return s;
	}
}

struct state {
	double m, l, *a;
};

static void attend(const struct attention *p, struct state *st, const double *s, int64_t b,
		   int64_t first, int64_t n, int fused)
{
	double top = st->m, from, w;
	for (int64_t k = 0; k < n; k++)
		top = isnan(top) || isnan(s[k]) ? NAN : fmax(top, s[k]);
	from = top == -INFINITY ? 0 : top;
	w = fn(p->exp, rd(p, st->m - from));
	st->m = top;
	st->l = rd(p, st->l * w);
	for (int64_t c = 0; c < p->cols; c++)
		st->a[c] = rd(p, st->a[c] * w);
	for (int64_t k = 0; k < n; k++) {
		double x = fn(p->exp, rd(p, s[k] - from));
		st->l = rd(p, st->l + x);
		for (int64_t c = 0; c < p->cols; c++)
			st->a[c] = step(p, x,
					(p->v_strided ? element(p, 2, b, c, first + k)
						      : element(p, 2, b, first + k, c))
						.f,
					st->a[c], fused);
	}
}

static void expect(struct attention *p)
{
	double *s = malloc((size_t)p->keys * sizeof *s), *a = malloc((size_t)p->cols * sizeof *a);
	for (int f = 0; f < 2; f++) {
		double *out = p->want[f] =
			malloc((size_t)(p->batch * p->rows * p->cols) * sizeof *out);
		for (int64_t b = 0; b < p->batch; b++)
			for (int64_t i = 0; i < p->rows; i++, out += p->cols) {
				struct state st = { -INFINITY, 0, a };
				memset(a, 0, (size_t)p->cols * sizeof *a);
				for (int64_t k = 0; k < p->keys; k++)
					s[k] = score(p, b, i, k, f);
				for (int64_t k = 0; k < p->keys; k += BLOCK)
					attend(p, &st, s + k, b, k,
					       p->keys - k < BLOCK ? p->keys - k : BLOCK, f);
				for (int64_t c = 0; c < p->cols; c++)
					out[c] = stx_scalar_round(
						p->t, p->safe && st.l == 0 ? a[c]
									   : rd(p, a[c] / st.l));
			}
	}
	free(s);
	free(a);
}

/* ---- graphs ---- */

static void put_positions(const struct attention *p, struct stx_bytes *x)
{
	stx_bytes_printf(x, "%%j = arange.start_step(0, %lld, 1, dtype=i64)\n",
			 (long long)p->keys);
	stx_bytes_printf(x,
			 "%%i0 = arange.start_step(0, %lld, 1, dtype=i64)\n"
			 "%%i = unsqueeze.default(%%i0, 1)\n",
			 (long long)p->rows);
}

static void put_mask(const struct attention *p, struct stx_bytes *x)
{
	stx_bytes_printf(x, "%%no = full.default([], -inf, dtype=%s)\n", stx_dtype_name(p->work));
	switch (p->kind) {
	case CAUSAL:
		stx_bytes_puts(x, "%g = gt.Tensor(%j, %i)\n%w = where.self(%g, %no, %c)\n");
		break;
	case WINDOW:
		stx_bytes_puts(x, "%g = le.Tensor(%j, %i)\n%i20 = sub.Scalar(%i, 20)\n"
				  "%h = ge.Tensor(%j, %i20)\n%gh = logical_and.default(%g, %h)\n"
				  "%w = where.self(%gh, %c, %no)\n");
		break;
	case BOOLEAN: stx_bytes_puts(x, "%w = where.self(%mask, %c, %no)\n"); break;
	case ADDED: stx_bytes_puts(x, "%w = add.Tensor(%c, %mask)\n"); break;
	case ALIBI:
		stx_bytes_printf(x,
				 "%%d = sub.Tensor(%%j, %%i)\n%%df = _to_copy.default(%%d, dtype=%s)\n"
				 "%%dm = mul.Scalar(%%df, 0.0625)\n%%w = add.Tensor(%%c, %%dm)\n",
				 stx_dtype_name(p->work));
		break;
	case SOFTCAP:
		stx_bytes_puts(x, "%d = div.Scalar(%c, 4.0)\n%th = tanh.default(%d)\n"
				  "%w = mul.Scalar(%th, 4.0)\n");
		break;
	default: stx_bytes_puts(x, "%w = alias.default(%c)\n");
	}
}

static void put_graph(const struct attention *p, struct stx_bytes *x)
{
	const char *k = p->k_transposed ? "k" : "kt", *mask = p->nin == 4 ? "%mask" : "None";
	stx_bytes_puts(x, p->q_strided ? "%q = transpose.int(%q0, 1, 2)\n"
				       : "%q = alias.default(%q0)\n");
	stx_bytes_puts(x, p->v_strided ? "%v = transpose.int(%v0, 1, 2)\n"
				       : "%v = alias.default(%v0)\n");
	stx_bytes_puts(x, "%kt = transpose.int(%k, 1, 2)\n");
	if (!p->spelt) {
		stx_bytes_printf(x,
				 "%%y = scaled_dot_product_attention.default(%%q, %%%s, %%v, %s, "
				 "0.0, %s, scale=0.3)\nreturn (%%y,)\n",
				 p->k_transposed ? "kt" : "k", mask,
				 p->kind == CAUSAL ? "True" : "False");
		return;
	}
	put_positions(p, x);
	stx_bytes_printf(x, "%%s = bmm.default(%%q, %%%s)\n%%c = mul.Scalar(%%s, 0.3)\n", k);
	put_mask(p, x);
	stx_bytes_printf(x, "%%p = %s\n%%y = bmm.default(%%p, %%v)\nreturn (%%y,)\n",
			 p->safe ? "_safe_softmax.default(%w, -1)" : "softmax.int(%w, -1)");
}

static void make(struct attention *p, struct stx_bytes *text, uint64_t *s, struct stx_arena *a)
{
	static const enum stx_dtype types[] = { STX_F32, STX_F32, STX_F64, STX_BF16, STX_F16 };
	memset(p, 0, sizeof *p);
	p->t = types[next(s) % 5];
	p->work = p->t == STX_F64 ? STX_F64 : STX_F32;
	p->exp = stx_elementary_record(a, STX_P_EXP, p->work);
	p->tanh = stx_elementary_record(a, STX_P_TANH, p->work);
	p->spelt = p->t == p->work && next(s) % 2;
	p->kind = (int)(next(s) % KINDS);
	if (!p->spelt && (p->kind == WINDOW || p->kind >= ALIBI))
		p->kind = CAUSAL;
	p->safe = !p->spelt || next(s) % 2;
	p->batch = between(s, 1, 3);
	p->rows = next(s) % 2 ? between(s, 8, 40) : between(s, 40, 140);
	p->keys = next(s) % 2 ? between(s, 12, 70) : between(s, 64, 200);
	p->size = next(s) % 8 ? between(s, 16, 70) : 520; /* more terms: scores are in memory */
	p->cols = between(s, 1, 70);
	p->k_transposed = next(s) % 3 == 0;
	p->q_strided = next(s) % 4 == 0;
	p->v_strided = next(s) % 4 == 0;
	int wild = next(s) % 3 == 0;
	int64_t m = p->rows, n = p->keys, e = p->size, c = p->cols;
	add_input(p, text, s, "q0", p->t, p->batch, p->q_strided ? e : m, p->q_strided ? m : e,
		  wild);
	add_input(p, text, s, "k", p->t, p->batch, p->k_transposed ? e : n,
		  p->k_transposed ? n : e, wild);
	add_input(p, text, s, "v0", p->t, p->batch, p->v_strided ? c : n, p->v_strided ? n : c,
		  wild);
	if (p->kind == BOOLEAN || p->kind == ADDED)
		add_input(p, text, s, "mask", p->kind == BOOLEAN ? STX_BOOL : p->t,
			  next(s) % 2 ? p->batch : 1, m, n, wild);
	put_graph(p, text);
	expect(p);
}

static void check(const struct attention *p, const char *text, const char *target,
		  const struct stx_tensor *out)
{
	int64_t n = compiled_numel(out);
	const double *want = p->want[!strstr(target, "v2")];
	for (int64_t i = 0; i < n; i++) {
		double got = stx_scalar_load(p->t, (const char *)out->data +
							   i * stx_dtype_bytes(p->t))
				     .f;
		if ((got != got) != (want[i] != want[i]) || (got == got && got != want[i]) ||
		    (got == 0 && signbit(got) != signbit(want[i])))
			fail_msg("%s: element %lld is %a, not %a, of\n%s", target, (long long)i,
				 got, want[i], text);
	}
}

static void run_attention(uint64_t seed)
{
	struct attention p;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_bytes text = { 0 };
	make(&p, &text, &seed, a);
	for (const char *const *t = compiled_targets(); *t; t++) {
		struct compiled c;
		struct stx_diag d = { 0 };
		if (compiled_build(stx_bytes_cstr(&text), *t, COMPILED_FUSED, &c, &d))
			fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text, stx_bytes_cstr(&text));
		assert_true(c.nkernels == (p.size > 512 ? 2 : 1));
		for (int how = COMPILED_SERIAL; how <= COMPILED_POOL; how++) {
			struct stx_tensor out[1];
			if (compiled_run(&c, (enum compiled_threads)how, p.in, p.nin, out, &d))
				fail_msg("%s: %s %s in\n%s", *t, d.stage, d.text,
					 stx_bytes_cstr(&text));
			check(&p, stx_bytes_cstr(&text), *t, out);
			compiled_free_outputs(out, 1);
		}
		compiled_free(&c);
	}
	for (uint32_t i = 0; i < p.nin; i++)
		free(p.in[i].data);
	free(p.want[0]);
	free(p.want[1]);
	stx_bytes_free(&text);
	stx_arena_free(a);
}

/* AT-03, AT-19 */
static void test_attention_random_is_plain_loops_to_the_bit(void **state)
{
	const char *more = getenv("STAX_ATTENTIONS"), *only = getenv("STAX_ATTENTION");
	(void)state;
	for (int i = 0; i < (more ? atoi(more) : ROUNDS); i++)
		run_attention(0x9e3779b97f4a7c15u * (uint64_t)((only ? atoi(only) : i) + 1));
}

/* Queries that see no key are 0 (AT-18), and with a softmax spelt out NaN; a value that is not finite
 * counts for queries that do not see it too. 100 queries, 130 keys: key blocks 1 and 2 are hidden
 * from the first of them as a whole. */
static void test_attention_hidden_values_still_count(void **state)
{
	enum { ROWS = 100, KEYS = 130, SIZE = 16, COLS = 4 };
	static const char *const ends[2] = { "%p = _safe_softmax.default(%w, -1)\n",
					     "%p = softmax.int(%w, -1)\n" };
	float q[ROWS * SIZE], k[KEYS * SIZE], v[KEYS * COLS];
	(void)state;
	for (int i = 0; i < ROWS * SIZE; i++)
		q[i] = (float)(i % 7) - 3;
	for (int i = 0; i < KEYS * SIZE; i++)
		k[i] = (float)(i % 5) - 2;
	for (int i = 0; i < KEYS * COLS; i++)
		v[i] = (float)(i % 3);
	v[120 * COLS + 1] = INFINITY; /* of key 120, which no query sees */
	v[70 * COLS + 2] = NAN;       /* of key 70 */
	struct stx_tensor in[3] = {
		{ .dtype = STX_F32, .rank = 2, .sizes = { ROWS, SIZE }, .data = q },
		{ .dtype = STX_F32, .rank = 2, .sizes = { KEYS, SIZE }, .data = k },
		{ .dtype = STX_F32, .rank = 2, .sizes = { KEYS, COLS }, .data = v }
	};
	for (int i = 0; i < 3; i++)
		compiled_dense(&in[i]);
	for (int end = 0; end < 2; end++) {
		struct stx_bytes text = { 0 };
		/* query i sees keys below i - 5: the first six see none */
		stx_bytes_printf(&text,
				 "%%q : f32[%d,%d] = placeholder()\n%%k : f32[%d,%d] = placeholder()\n"
				 "%%v : f32[%d,%d] = placeholder()\n%%t = t.default(%%k)\n"
				 "%%s = mm.default(%%q, %%t)\n"
				 "%%j = arange.start_step(0, %d, 1, dtype=i64)\n"
				 "%%i0 = arange.start_step(-5, %d, 1, dtype=i64)\n"
				 "%%i = unsqueeze.default(%%i0, 1)\n%%g = lt.Tensor(%%j, %%i)\n"
				 "%%n = full.default([], -inf, dtype=f32)\n"
				 "%%w = where.self(%%g, %%s, %%n)\n%s"
				 "%%y = mm.default(%%p, %%v)\nreturn (%%y,)\n",
				 ROWS, SIZE, KEYS, SIZE, KEYS, COLS, KEYS, ROWS - 5, ends[end]);
		for (const char *const *t = compiled_targets(); *t; t++) {
			struct compiled c;
			struct stx_tensor out[1];
			struct stx_diag d = { 0 };
			if (compiled_build(stx_bytes_cstr(&text), *t, COMPILED_FUSED, &c, &d) ||
			    compiled_run(&c, COMPILED_SERIAL, in, 3, out, &d))
				fail_msg("%s: %s", *t, d.text);
			assert_int_equal(c.nkernels, 1);
			const float *y = out[0].data;
			for (int i = 0; i < ROWS; i++) {
				int none = i <= 5 && end;
				assert_true(isnan(y[i * COLS + 1]) && isnan(y[i * COLS + 2]));
				assert_true(isnan(y[i * COLS]) == none);
				assert_true(i > 5 || end || y[i * COLS + 3] == 0);
			}
			compiled_free_outputs(out, 1);
			compiled_free(&c);
		}
		stx_bytes_free(&text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attention_random_is_plain_loops_to_the_bit),
		cmocka_unit_test(test_attention_hidden_values_still_count),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
