/* imported.h
 * models in the text of onnx_text.h, imported and run by the oracle: shared by the importer's
 * tests. */
#ifndef TEST_IMPORTED_H
#define TEST_IMPORTED_H

#include <math.h>

#include "import.h"
#include "onnx_text.h"
#include "passes.h"
#include "ref.h"

struct imported {
	struct stx_arena *arena;
	struct stx_import_result r;
	struct stx_diag d;
	stx_err e;
};

static inline struct imported import_with(const char *lines, const struct stx_given_value *values,
					  uint32_t nvalues)
{
	struct imported i = { .arena = stx_arena_new((size_t)256 << 20) };
	struct stx_bytes m = onnx_model(lines);
	struct stx_import_options o = { values, nvalues };
	i.e = stx_import(i.arena, STX_FORMAT_ONNX, span_of(&m), &o, &i.r, &i.d);
	stx_bytes_free(&m);
	if (!i.e)
		assert_int_equal(stx_graph_verify(i.r.graph, &i.d), 0);
	return i;
}

static inline void import_end(struct imported *i)
{
	stx_arena_free(i->arena);
}

/* The import fails with this code, and its message or location has all words (up to NULL). */
static inline void assert_refused(const char *lines, stx_err code, ...)
{
	struct imported i = import_with(lines, NULL, 0);
	va_list ap;
	const char *w;
	if (i.e != code)
		print_message("code %s, %s: %s\n", stx_err_name(i.e), i.d.location, i.d.text);
	assert_int_equal(i.e, code);
	va_start(ap, code);
	while ((w = va_arg(ap, const char *)))
		if (!strstr(i.d.text, w) && !strstr(i.d.node, w) && !strstr(i.d.location, w)) {
			print_message("no '%s' in: %s %s: %s\n", w, i.d.node, i.d.location,
				      i.d.text);
			fail();
		}
	va_end(ap);
	import_end(&i);
}

/* A float or integer value as doubles. */
struct values {
	int rank;
	int64_t sizes[STX_MAX_RANK], n;
	double v[4096];
};

/* Imports and evaluates; inputs in order are f32 tensors filled from in[], one after the other (the
 * sizes come from the model). out[0..] are the results. */
static inline void run_model(const char *lines, const double *in, struct values *out, unsigned nout)
{
	struct imported m = import_with(lines, NULL, 0);
	struct stx_tensor x[8] = { { 0 } }, y[8] = { { 0 } };
	if (m.e)
		print_message("%s %s: %s\n", m.d.node, m.d.location, m.d.text);
	assert_int_equal(m.e, 0);
	struct stx_graph *g = m.r.graph;
	assert_true(g->inputs.n <= 8 && g->outputs.n <= 8 && nout <= g->outputs.n);
	for (unsigned i = 0; i < g->inputs.n; i++) {
		const struct stx_type *t = stx_val_type(stx_val(g->inputs.at[i].node, 0));
		int64_t n = 1;
		x[i].dtype = (uint8_t)t->dtype;
		x[i].rank = (uint8_t)t->rank;
		for (uint32_t k = t->rank; k-- > 0;) {
			assert_true(stx_ex_is_const(g->ex, t->sizes[k], &x[i].sizes[k]));
			x[i].strides[k] = n;
			n *= x[i].sizes[k];
		}
		x[i].data = calloc((size_t)n + 1, 8);
		for (int64_t k = 0; k < n; k++, in++) {
			union stx_scalar v = { .u = 0 };
			if (stx_dtype_is_float(t->dtype))
				v.f = stx_scalar_round(t->dtype, *in);
			else
				v.i = (int64_t)*in;
			stx_scalar_store(t->dtype,
					 (char *)x[i].data + k * stx_dtype_bytes(t->dtype), v);
		}
	}
	stx_err e = stx_ref_evaluate(g, x, g->inputs.n, y, 0, &m.d);
	if (e)
		print_message("%s: %s\n", m.d.node, m.d.text);
	assert_int_equal(e, 0);
	for (unsigned i = 0; i < g->outputs.n; i++) {
		enum stx_dtype t = (enum stx_dtype)y[i].dtype;
		int64_t n = 1;
		for (int k = 0; k < y[i].rank; k++)
			n *= y[i].sizes[k];
		if (i < nout) {
			assert_true(n <= 4096);
			out[i].rank = y[i].rank;
			out[i].n = n;
			memcpy(out[i].sizes, y[i].sizes, sizeof out[i].sizes);
			for (int64_t k = 0; k < n; k++) {
				union stx_scalar v = stx_scalar_load(
					t, (char *)y[i].data + k * stx_dtype_bytes(t));
				out[i].v[k] = stx_dtype_is_float(t) ? v.f : (double)v.i;
			}
		}
		free(y[i].data);
	}
	for (unsigned i = 0; i < g->inputs.n; i++)
		free(x[i].data);
	import_end(&m);
}

/* Runs a model of one output and compares it with rank, sizes and values. */
#define ASSERT_GIVES(lines, in, sizes_, ...)                                                       \
	assert_gives(lines, in, sizes_, (const double[]){ __VA_ARGS__ },                           \
		     sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double))
static inline void assert_gives(const char *lines, const double *in, const char *sizes,
				const double *want, size_t n)
{
	static struct values got;
	char text[128] = "";
	run_model(lines, in, &got, 1);
	for (int i = 0; i < got.rank; i++)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", i ? "," : "",
			 (long long)got.sizes[i]);
	assert_string_equal(text, sizes);
	assert_int_equal(got.n, n);
	for (size_t i = 0; i < n; i++)
		if (!(fabs(got.v[i] - want[i]) <= 1e-5 * (1 + fabs(want[i]))) &&
		    !(isnan(got.v[i]) && isnan(want[i])) && got.v[i] != want[i]) {
			print_message("element %zu is %g, expected %g\n", i, got.v[i], want[i]);
			fail();
		}
}

static const double counting[] = { 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
				   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23 };

#endif
