/* ref_run.h
 * what the oracle's tests share: tensors written as doubles, evaluation of a graph in text form. */
#ifndef REF_RUN_H
#define REF_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>

#include "passes.h"
#include "ref.h"
#include "scalar.h"

#define DIMS(...)                                                                                  \
	((const int64_t[]){ __VA_ARGS__ }), (int)(sizeof((const int64_t[]){ __VA_ARGS__ }) / 8)
#define VALS(...) ((const double[]){ __VA_ARGS__ })

static inline int64_t count_of(const struct stx_tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->rank; i++)
		n *= t->sizes[i];
	return n;
}

static inline union stx_scalar from_double(enum stx_dtype t, double v)
{
	if (stx_dtype_is_float(t))
		return (union stx_scalar){ .f = stx_scalar_round(t, v) };
	return v < 0 ? stx_scalar_wrap(t, (uint64_t)(int64_t)v) : stx_scalar_wrap(t, (uint64_t)v);
}

static inline double to_double(enum stx_dtype t, union stx_scalar v)
{
	switch (stx_dtype_kind(t)) {
	case STX_KIND_FLOAT: return v.f;
	case STX_KIND_UINT: return (double)v.u;
	default: return (double)v.i;
	}
}

static inline struct stx_tensor make(enum stx_dtype t, const int64_t *sizes, int rank,
				     const double *v)
{
	struct stx_tensor x = { .dtype = (uint8_t)t, .rank = (uint8_t)rank };
	int64_t n = 1;

	for (int i = rank; i-- > 0;) {
		x.sizes[i] = sizes[i];
		x.strides[i] = n;
		n *= sizes[i] ? sizes[i] : 1;
	}
	x.data = calloc((size_t)n + 1, 8);
	for (int64_t i = 0; i < count_of(&x); i++)
		stx_scalar_store(t, (char *)x.data + i * stx_dtype_bytes(t), from_double(t, v[i]));
	return x;
}

static inline stx_err evaluate(const char *text, struct stx_tensor *in, uint32_t nin,
			       struct stx_tensor *out, struct stx_diag *d)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_graph *g = NULL;
	stx_err e = stx_graph_parse(a, text, strlen(text), &g, d);

	if (e)
		print_message("%s %s\n", d->location, d->text);
	assert_int_equal(e, 0);
	assert_int_equal(stx_graph_verify(g, d), 0);
	e = stx_ref_evaluate(g, in, nin, out, 0, d);
	stx_arena_free(a);
	return e;
}

/* Evaluates a graph of one output on inputs, which are freed. */
static inline struct stx_tensor run(const char *text, struct stx_tensor *in, uint32_t nin)
{
	struct stx_diag d = { 0 };
	struct stx_tensor out;
	stx_err e = evaluate(text, in, nin, &out, &d);

	if (e)
		print_message("%s\n", d.text);
	assert_int_equal(e, 0);
	for (uint32_t i = 0; i < nin; i++)
		free(in[i].data);
	return out;
}
#define RUN(text, ...)                                                                             \
	run(text, (struct stx_tensor[]){ __VA_ARGS__ },                                            \
	    sizeof((struct stx_tensor[]){ __VA_ARGS__ }) / sizeof(struct stx_tensor))

static inline stx_err run_error(const char *text, struct stx_tensor *in, uint32_t nin,
				struct stx_diag *d)
{
	struct stx_tensor out = { 0 };
	stx_err e = evaluate(text, in, nin, &out, d);

	assert_null(out.data);
	for (uint32_t i = 0; i < nin; i++)
		free(in[i].data);
	return e;
}

/* Exactly these values (after rounding to the type), NaN and signs of zero included, and this
 * shape. */
static inline void expect_near(struct stx_tensor got, enum stx_dtype t, const int64_t *sizes,
			       int rank, const double *v, double rtol)
{
	assert_int_equal(got.dtype, t);
	assert_int_equal(got.rank, rank);
	for (int i = 0; i < rank; i++)
		assert_int_equal(got.sizes[i], sizes[i]);
	for (int64_t i = 0; i < count_of(&got); i++) {
		double g =
			to_double(t, stx_scalar_load(t, (char *)got.data + i * stx_dtype_bytes(t)));
		double w = to_double(t, from_double(t, v[i]));
		int ok = isnan(w)   ? isnan(g)
			 : rtol > 0 ? fabs(g - w) <= rtol * fabs(w)
				    : g == w && !signbit(g) == !signbit(w);

		if (!ok)
			fail_msg("element %lld is %.17g, wanted %.17g", (long long)i, g, w);
	}
	free(got.data);
}

static inline void expect(struct stx_tensor got, enum stx_dtype t, const int64_t *sizes, int rank,
			  const double *v)
{
	expect_near(got, t, sizes, rank, v, 0);
}

#endif
