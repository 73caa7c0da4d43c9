/* bench_fusion.c: graphs fused and with every operator a kernel, on one thread (conformance GF-10:
 * a fused kernel must beat vectorised unfused code); and long reductions whole and cut, on all.
 * Usage: bench_fusion   (prints a table: least of many runs) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench_call.h"
#include "compiled.h"

#define RUNS 40

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void fill(struct stx_tensor *t, unsigned seed)
{
	int64_t n = compiled_numel(t);
	float *x = malloc((size_t)n * sizeof *x);
	if (!x)
		die("memory", "");
	for (int64_t i = 0; i < n; i++)
		x[i] = (float)rand_r(&seed) / (float)RAND_MAX * 4 - 2;
	t->data = x;
}

/* Least microseconds of a run; threads 0: all. */
static double measure(const char *text, const char *target, enum compiled_form form, int serial,
		      const struct stx_tensor *in, int nin)
{
	struct compiled c;
	struct stx_diag d = { 0 };
	struct stax_error err;
	struct stx_env env = { .parallel_for = serial ? whole : NULL };
	struct stx_tensor out[4] = { { 0 } };
	size_t workspace;
	double least = 1e30;
	if (compiled_build(text, target, form, &c, &d))
		die(d.stage, d.text);
	int nout = (int)stax_noutputs(c.artifact);
	if (stax_query(c.artifact, in, nin, out, &workspace, &err))
		die("query", err.text);
	for (int i = 0; i < nout; i++)
		fill(&out[i], 0);
	for (int i = 0; i < RUNS; i++) {
		double start = now_us();
		if (stax_run(c.artifact, in, nin, out, nout, &env, &err))
			die("run", err.text);
		double took = now_us() - start;
		least = took < least ? took : least;
	}
	compiled_free_outputs(out, (uint32_t)nout);
	compiled_free(&c);
	return least;
}

#define IN(name) "%" name " : f32[1024,2048] = placeholder()\n"

static const struct sample {
	const char *name, *text;
	int ninputs;
} samples[] = {
	{ "gelu, bias and residual",
	  IN("x") IN("b") IN("r") "%h = add.Tensor(%x, %b)\n%m = mul.Scalar(%h, 0.5)\n"
				  "%c = mul.Scalar(%h, 0.044715)\n%d = mul.Tensor(%c, %h)\n"
				  "%e = mul.Tensor(%d, %h)\n%f = add.Tensor(%h, %e)\n"
				  "%g = mul.Scalar(%f, 0.7978845608)\n%t = tanh.default(%g)\n"
				  "%u = add.Scalar(%t, 1)\n%y = mul.Tensor(%m, %u)\n"
				  "%o = add.Tensor(%y, %r)\nreturn (%o)\n",
	  3 },
	{ "softmax", IN("x") "%y = _softmax.default(%x, -1, False)\nreturn (%y)\n", 1 },
	{ "logsumexp", IN("x") "%y = logsumexp.default(%x, [1])\nreturn (%y)\n", 1 },
	{ "sum and exp of one input",
	  IN("x") "%s = sum.dim_IntList(%x, [1])\n%y = exp.default(%x)\nreturn (%s, %y)\n", 1 },
	{ "sum of everything", IN("x") "%s = sum.default(%x)\nreturn (%s)\n", 1 },
};

int main(void)
{
	const char *const *targets = compiled_targets();
	struct stx_tensor in[3];
	while (targets[1])
		targets++;
	for (unsigned i = 0; i < 3; i++) {
		in[i] = (struct stx_tensor){ .dtype = STX_F32, .rank = 2, .sizes = { 1024, 2048 } };
		compiled_dense(&in[i]);
		fill(&in[i], i + 1);
	}
	printf("fusion, f32[1024,2048], %s, us, the least of %d runs\n%-28s %10s %10s %7s %12s\n",
	       targets[0], RUNS, "graph", "unfused", "fused", "ratio", "all threads");
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		const struct sample *s = &samples[i];
		double unfused = measure(s->text, targets[0], COMPILED_UNFUSED, 1, in, s->ninputs);
		double fused = measure(s->text, targets[0], COMPILED_FUSED, 1, in, s->ninputs);
		double all = measure(s->text, targets[0], COMPILED_FUSED, 0, in, s->ninputs);
		printf("%-28s %10.0f %10.0f %7.2f %12.0f\n", s->name, unfused, fused,
		       unfused / fused, all);
	}
	for (int i = 0; i < 3; i++)
		free(in[i].data);
	return 0;
}
