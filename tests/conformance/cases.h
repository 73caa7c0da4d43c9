/* cases.h
 * shared by the conformance tests: a graph with stated values, checked on every path: each CPU
 * level, fused and not, in pieces and by threads, constant-folded, and by the oracle.
 *
 * Values are written as doubles whatever the dtype. In a graph's text `@` stands for a length. */
#ifndef CONFORMANCE_CASES_H
#define CONFORMANCE_CASES_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compiled.h"
#include "import.h"
#include "passes.h"
#include "ref.h"
#include "scalar.h"
#include "text_check.h"

#define CASE_MAX 8

struct values { /* of one input or output, row-major; repeated when there are more elements */
	const double *at;
	int64_t n;
};
#define V(...)                                                                                     \
	{                                                                                          \
		(const double[]){ __VA_ARGS__ },                                                   \
			sizeof((double[]){ __VA_ARGS__ }) / sizeof(double)                         \
	}

struct stated {
	const char *text;
	struct values in[CASE_MAX],
		out[CASE_MAX];       /* an output without values: any, but shape is checked */
	const char *shape[CASE_MAX]; /* of outputs, "2,3", or NULL */
	double rtol, atol;           /* both 0: exactly, signs of zeros too */
	int64_t first; /* index of the first value, for lengths that start elsewhere */
	unsigned skip; /* paths left out */
};
/* CASE_NO_GPU: compiling for one must be refused. */
enum { CASE_NO_FOLD = 1, CASE_NO_UNFUSED = 2, CASE_NO_ORACLE = 4, CASE_NO_GPU = 8 };

static inline char *case_text(const char *text, int64_t length)
{
	struct stx_bytes b = { 0 };
	for (; *text; text++) {
		if (*text == '@')
			stx_bytes_printf(&b, "%lld", (long long)length);
		else
			stx_bytes_u8(&b, (uint8_t)*text);
	}
	char *s = strdup(stx_bytes_cstr(&b));
	stx_bytes_free(&b);
	return s;
}

static inline struct stx_graph *case_parse(struct stx_arena *a, const char *text)
{
	struct stx_graph *g;
	struct stx_diag d = { 0 };
	if (stx_graph_parse(a, text, strlen(text), &g, &d) || stx_graph_verify(g, &d))
		fail_msg("%s %s: %s in\n%s", d.location, d.node, d.text, text);
	return g;
}

/* Appends one stage of a graph in text form to out. */
static inline const char *case_dump(const char *graph, const char *target, int fast,
				    const char *stage, struct stx_bytes *out)
{
	struct stx_source s = { .format = STX_FORMAT_TEXT,
				.body = { (const uint8_t *)graph, strlen(graph) } };
	struct stx_compile_options o = { .target = target, .fast = fast };
	struct stx_diag d = { 0 };
	if (stx_compile_dump(compiled_compiler(), &s, &o, stage, "text", out, &d))
		fail_msg("%s: %s", d.stage, d.text);
	return stx_bytes_cstr(out);
}

/* Storage filled in storage order: dense tensors get the values row by row. */
static inline void case_fill(struct stx_arena *a, struct stx_tensor *t, struct values v,
			     int64_t from)
{
	enum stx_dtype type = (enum stx_dtype)t->dtype;
	int64_t first, n = compiled_span(t, &first);
	size_t width = (size_t)stx_dtype_bytes(type);
	t->data = stx_arena_alloc(a, (size_t)n * width + 1);
	assert_true(v.n || !n);
	for (int64_t i = 0; i < n; i++) {
		double x = v.at[(i + from) % v.n];
		union stx_scalar k = { .f = x };
		if (stx_dtype_is_float(type))
			k.f = stx_scalar_round(type, x);
		else
			k = stx_scalar_wrap(type, x < 0 ? (uint64_t)(int64_t)x : (uint64_t)x);
		stx_scalar_store(type, (char *)t->data + (size_t)i * width, k);
	}
	t->offset = first;
}

static inline void case_shape_is(const struct stx_tensor *t, const char *shape, const char *how)
{
	char got[128] = "";
	for (int i = 0; i < t->rank; i++)
		snprintf(got + strlen(got), sizeof got - strlen(got), i ? ",%lld" : "%lld",
			 (long long)t->sizes[i]);
	if (shape && strcmp(got, shape))
		fail_msg("%s: shape [%s], stated [%s]", how, got, shape);
}

static inline int case_agrees(const struct stated *s, enum stx_dtype t, union stx_scalar got,
			      double want)
{
	if (!stx_dtype_is_float(t))
		return stx_dtype_kind(t) == STX_KIND_UINT ? (double)got.u == want
							  : (double)got.i == want;
	if (isnan(want) || isnan(got.f))
		return isnan(want) && isnan(got.f);
	if (s->rtol == 0 && s->atol == 0) {
		want = stx_scalar_round(t, want);
		return got.f == want && signbit(got.f) == signbit(want);
	}
	return got.f == want ||
	       (isfinite(want) && fabs(got.f - want) <= s->atol + s->rtol * fabs(want));
}

static inline void case_compare(const struct stated *s, const struct stx_tensor *out, uint32_t n,
				const char *how)
{
	for (uint32_t k = 0; k < n; k++) {
		enum stx_dtype t = (enum stx_dtype)out[k].dtype;
		int64_t count = compiled_numel(&out[k]);
		case_shape_is(&out[k], s->shape[k], how);
		for (int64_t i = 0; i < count && s->out[k].n; i++) {
			double want = s->out[k].at[(i + s->first) % s->out[k].n];
			union stx_scalar got = stx_scalar_load(t, (const char *)out[k].data +
									  i * stx_dtype_bytes(t));
			if (case_agrees(s, t, got, want))
				continue;
			fail_msg("%s: output %u, element %lld of %lld: %.17g, stated %.17g in\n%s",
				 how, k, (long long)i, (long long)count,
				 stx_dtype_is_float(t) ? got.f : (double)got.i, want, s->text);
		}
	}
}

/* The graph with constants in place of its inputs, as text. */
static inline const char *case_folded(struct stx_arena *a, const struct stx_graph *g,
				      const struct stx_tensor *in)
{
	struct stx_bytes b = { 0 };
	struct stx_graph *to = stx_graph_new(a);
	struct stx_val *map = STX_NEW_ARRAY(a, struct stx_val, g->nodes.n + 1);
	for (uint32_t i = 0, k = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		struct stx_arg args[16];
		if (n->op == STX_OP_PLACEHOLDER) {
			size_t bytes = (size_t)(compiled_numel(&in[k]) *
						stx_dtype_bytes((enum stx_dtype)in[k].dtype));
			map[i].node =
				stx_graph_constant(to, n->name,
						   stx_type_make(to, (enum stx_dtype)in[k].dtype,
								 in[k].rank, in[k].sizes),
						   in[k].data, bytes, NULL);
			k++;
			continue;
		}
		for (uint32_t j = 0; j < n->nargs; j++) {
			args[j] = n->args[j];
			if (args[j].kind == STX_ARG_TENSOR)
				args[j].u.tensor.node = map[args[j].u.tensor.node->id].node;
			if (args[j].kind == STX_ARG_TENSORS) {
				args[j] = stx_arg_tensors(to, args[j].u.tensors, args[j].n);
				for (uint32_t x = 0; x < args[j].n; x++)
					((struct stx_val *)(uintptr_t)args[j].u.tensors)[x].node =
						map[args[j].u.tensors[x].node->id].node;
			} else if (args[j].kind == STX_ARG_INT || args[j].kind == STX_ARG_INTS) {
				uint32_t count = args[j].kind == STX_ARG_INT ? 1 : args[j].n;
				const stx_ex *from = args[j].kind == STX_ARG_INT ? &n->args[j].u.ex
										 : n->args[j].u.exs;
				int64_t v[STX_MAX_DIMS * 2];
				for (uint32_t x = 0; x < count; x++)
					assert_true(stx_ex_is_const(g->ex, from[x], &v[x]));
				args[j] = args[j].kind == STX_ARG_INT ? stx_arg_int(to, v[0])
								      : stx_arg_ints(to, v, count);
			}
		}
		map[i].node = stx_graph_call(to, n->op, n->name, args, n->nargs, NULL);
		assert_non_null(map[i].node);
	}
	for (uint32_t i = 0; i < g->outputs.n; i++) {
		struct stx_val v = g->outputs.at[i].val;
		stx_graph_output(to, stx_val(map[v.node->id].node, v.out), NULL, NULL);
	}
	assert_int_equal(stx_graph_print(to, &b), 0);
	const char *s = stx_arena_strndup(a, (const char *)b.at, b.n);
	stx_bytes_free(&b);
	return s;
}

static inline void case_run(const struct stated *s, const char *text, const char *target,
			    enum compiled_form form, const struct stx_tensor *in, uint32_t nin,
			    const char *what)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	struct stx_tensor out[CASE_MAX];
	char how[96];
	stx_err e = compiled_build(text, target, form, &c, &d);
	if (s->skip & CASE_NO_GPU && !strncmp(target, "cuda", 4)) {
		assert_int_equal(e, STX_E_UNSUPPORTED);
		return;
	}
	if (e)
		fail_msg("%s, %s: %s: %s in\n%s", target, what, d.stage, d.text, text);
	for (int t = COMPILED_PIECES; t <= COMPILED_POOL; t++) {
		snprintf(how, sizeof how, "%s, %s%s", target, what,
			 t == COMPILED_POOL ? ", threads" : "");
		if (compiled_run(&c, (enum compiled_threads)t, in, nin, out, &d))
			fail_msg("%s: %s: %s in\n%s", how, d.stage, d.text, text);
		case_compare(s, out, (uint32_t)stax_noutputs(c.artifact), how);
		compiled_free_outputs(out, (uint32_t)stax_noutputs(c.artifact));
	}
	compiled_free(&c);
}

/* Checks the case at one length on every path. */
static inline void case_check_at(const struct stated *s, int64_t length)
{
	struct stx_arena *a = stx_arena_new(0);
	char *text = case_text(s->text, length);
	struct stx_graph *g = case_parse(a, text);
	struct stx_tensor in[CASE_MAX], out[CASE_MAX];
	struct stx_diag d = { 0 };
	/* bf16 has instructions of its own, and with them branches for rare lanes */
	const char *const *targets =
		strstr(text, "bf16") ? compiled_feature_targets() : compiled_targets();
	uint32_t nin = g->inputs.n;
	int strided = 0;
	for (uint32_t i = 0; i < nin; i++) {
		compiled_shape(g, &g->inputs.at[i], &in[i]);
		case_fill(a, &in[i], s->in[i], s->first);
		strided |= g->inputs.at[i].strides != NULL;
	}
	for (int i = 0; targets[i]; i++) {
		case_run(s, text, targets[i], COMPILED_FUSED, in, nin, "fused");
		if (!(s->skip & CASE_NO_UNFUSED))
			case_run(s, text, targets[i], COMPILED_UNFUSED, in, nin, "unfused");
	}
	if (!(s->skip & CASE_NO_FOLD) && !strided)
		case_run(s, case_folded(a, g, in), targets[0], COMPILED_FUSED, in, 0, "folded");
	if (!(s->skip & CASE_NO_ORACLE)) {
		if (stx_ref_evaluate(g, in, nin, out, 0, &d))
			fail_msg("oracle: %s in\n%s", d.text, text);
		case_compare(s, out, g->outputs.n, "oracle");
		compiled_free_outputs(out, g->outputs.n);
	}
	free(text);
	stx_arena_free(a);
}

static inline void case_check(const struct stated *s)
{
	case_check_at(s, 0);
}

/* An elementwise case: each value alone (n = 1), then all of them in bodies and tails of vectors.
 */
static inline void case_check_elementwise(const struct stated *s)
{
	static const int64_t lengths[] = { 2, 17, 64, 65 };
	struct stated one = *s;
	for (one.first = 0; one.first < s->in[0].n; one.first++)
		case_check_at(&one, 1);
	case_check_at(s, s->in[0].n);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
		case_check_at(s, lengths[i]);
	struct stated large = *s;
	large.skip |= CASE_NO_FOLD;
	case_check_at(&large, 1025);
}

static inline int case_setup(void **state)
{
	(void)state;
	setenv("STAX_THREADS", "2", 0);
	compiled_compiler();
	return 0;
}

#endif
