/* bench_linear.c: compile time and peak memory of graphs of 100 to 20,000 nodes: nanoseconds a node
 * by job, and their ratio to the smallest graph. Usage: bench_linear [MODEL.onnx]   (prints a
 * table; of a model, milliseconds by job). Every compile is in a process of its own, so that its
 * peak is its own. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compile.h"
#include "onnx_strip.h"

enum job { KEY, PLAN, KERNELS, LINK, JOBS };

/* Processor time: other programs do not count. */
static double now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void die(const char *what, const struct stx_diag *d)
{
	fprintf(stderr, "bench_linear: %s: %s %s\n", what, d ? d->node : "", d ? d->text : "");
	exit(1);
}

/* ---- graphs ---- */

/* Softmax upon softmax: five nodes a block, one kernel. */
static void softmaxes(struct stx_bytes *b, int n)
{
	stx_bytes_puts(b, "%v0 : f32[64,128] = placeholder()\n");
	int i = 0;
	for (; (i + 1) * 5 <= n; i++)
		stx_bytes_printf(b,
				 "%%m%d = amax.default(%%v%d, [-1], True)\n"
				 "%%s%d = sub.Tensor(%%v%d, %%m%d)\n"
				 "%%e%d = exp.default(%%s%d)\n"
				 "%%t%d = sum.dim_IntList(%%e%d, [-1], True)\n"
				 "%%v%d = div.Tensor(%%e%d, %%t%d)\n",
				 i, i, i, i, i, i, i, i, i, i + 1, i, i);
	stx_bytes_printf(b, "return (%%v%d,)\n", i);
}

/* Layers of a perceptron: weights and biases are inputs, counted as nodes. */
static void layers(struct stx_bytes *b, int n)
{
	int k = n / 5;
	stx_bytes_puts(b, "%v0 : f32[8,64] = placeholder()\n");
	for (int i = 0; i < k; i++)
		stx_bytes_printf(
			b, "%%w%d : f32[64,64] = placeholder()\n%%b%d : f32[64] = placeholder()\n",
			i, i);
	for (int i = 0; i < k; i++)
		stx_bytes_printf(b,
				 "%%m%d = mm.default(%%v%d, %%w%d)\n"
				 "%%a%d = add.Tensor(%%m%d, %%b%d)\n"
				 "%%v%d = relu.default(%%a%d)\n",
				 i, i, i, i, i, i, i + 1, i);
	stx_bytes_printf(b, "return (%%v%d,)\n", k);
}

/* A pointwise chain, cut only by the limits of a kernel. */
static void chain(struct stx_bytes *b, int n)
{
	stx_bytes_puts(b, "%v0 : f32[64,128] = placeholder()\n");
	for (int i = 0; i < n; i++)
		stx_bytes_printf(b,
				 i % 3 == 0   ? "%%v%d = mul.Scalar(%%v%d, 1.5)\n"
				 : i % 3 == 1 ? "%%v%d = add.Scalar(%%v%d, 0.5)\n"
					      : "%%v%d = relu.default(%%v%d)\n",
				 i + 1, i);
	stx_bytes_printf(b, "return (%%v%d,)\n", n);
}

/* Reductions of one input side by side: every node a result. */
static void wide(struct stx_bytes *b, int n)
{
	stx_bytes_puts(b, "%x : f32[64,128] = placeholder()\n");
	for (int i = 0; i < n / 2; i++)
		stx_bytes_printf(b,
				 "%%m%d = mul.Scalar(%%x, %d)\n"
				 "%%s%d = sum.dim_IntList(%%m%d, [%d])\n",
				 i, i + 2, i, i, i % 2);
	stx_bytes_puts(b, "return (");
	for (int i = 0; i < n / 2; i++)
		stx_bytes_printf(b, "%%s%d,", i);
	stx_bytes_puts(b, ")\n");
}

static const struct family {
	const char *name;
	void (*write)(struct stx_bytes *b, int n);
} families[] = {
	{ "softmaxes", softmaxes }, { "layers", layers }, { "chain", chain }, { "wide", wide }
};
#define NFAMILIES ((int)(sizeof families / sizeof *families))

/* ---- one compile ---- */

/* Objects of the distinct kernels, in order of first use; sorted digests find the doubles. */
struct seen {
	struct stx_digest digest;
	uint32_t index;
};

static int by_digest(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;
	int c = memcmp(x->digest.b, y->digest.b, sizeof x->digest.b);
	return c ? c : (x->index > y->index) - (x->index < y->index);
}

static uint32_t emit_all(struct stx_compiler *c, const struct stx_compile_options *o,
			 const struct stx_plan_result *plan, struct stx_emit_result *out)
{
	struct seen *s = calloc(plan->nkernels + 1, sizeof *s);
	struct stx_diag d = { 0 };
	uint32_t n = 0;
	for (uint32_t i = 0; i < plan->nkernels; i++)
		s[i] = (struct seen){ plan->kernels[i].digest, i };
	qsort(s, plan->nkernels, sizeof *s, by_digest);
	for (uint32_t i = 0; i < plan->nkernels; i++) {
		const struct stx_bytes *ir = &plan->kernels[s[i].index].ir;
		if (i && stx_digest_eq(&s[i].digest, &s[i - 1].digest))
			continue;
		if (stx_compile_emit(c, (struct stx_span){ ir->at, ir->n }, o, &out[n++], &d))
			die("emit", &d);
	}
	free(s);
	return n;
}

static void compile(struct stx_compiler *c, int format, struct stx_span body, double ns[JOBS],
		    uint32_t kernels[2])
{
	struct stx_compile_options o = { .target = "cpu:x86-64-v3",
					 .memory_bytes = (size_t)4 << 30 };
	struct stx_source s = { .format = format, .body = body };
	struct stx_key_result key;
	struct stx_plan_result plan;
	struct stx_bytes so = { 0 };
	struct stx_diag d = { 0 };
	double t[JOBS + 1] = { now_ns() };
	if (stx_compile_key(c, &s, &o, &key, &d))
		die("key", &d);
	t[1] = now_ns();
	if (stx_compile_plan(c, (struct stx_span){ key.graph.at, key.graph.n }, &o, &plan, &d))
		die("plan", &d);
	t[2] = now_ns();
	struct stx_emit_result *objects = calloc(plan.nkernels + 1, sizeof *objects);
	uint32_t n = emit_all(c, &o, &plan, objects);
	struct stx_span *spans = calloc(n + 1, sizeof *spans);
	for (uint32_t i = 0; i < n; i++)
		spans[i] = (struct stx_span){ objects[i].object.at, objects[i].object.n };
	t[3] = now_ns();
	if (stx_compile_link(c, (struct stx_span){ plan.plan.at, plan.plan.n }, spans, n, &so, &d))
		die("link", &d);
	t[4] = now_ns();
	for (int i = 0; i < JOBS; i++)
		if (!ns[i] || t[i + 1] - t[i] < ns[i])
			ns[i] = t[i + 1] - t[i];
	kernels[0] = plan.nkernels;
	kernels[1] = n;
	for (uint32_t i = 0; i < n; i++)
		stx_emit_result_free(&objects[i]);
	free(objects);
	free(spans);
	stx_bytes_free(&so);
	stx_plan_result_free(&plan);
	stx_key_result_free(&key);
}

static double peak_mb(void)
{
	struct rusage u;
	getrusage(RUSAGE_SELF, &u);
	return (double)u.ru_maxrss / 1024;
}

struct row {
	double ns[JOBS], peak_mb, warm_mb;
	uint32_t kernels[2];
};

struct task {
	const struct family *family; /* NULL: the model at path */
	int n;
	const char *path;
};

/* As a client sends it: without the weights. */
static void read_model(const char *path, struct stx_bytes *out)
{
	struct stx_bytes whole = { 0 };
	struct stx_diag d = { 0 };
	char buf[65536];
	size_t n;
	FILE *f = fopen(path, "rb");
	if (!f)
		die(path, NULL);
	while ((n = fread(buf, 1, sizeof buf, f)) > 0)
		stx_bytes_put(&whole, buf, n);
	fclose(f);
	if (stx_onnx_strip((struct stx_span){ whole.at, whole.n }, out, &d))
		die(path, &d);
	stx_bytes_free(&whole);
}

static void measure(const struct task *k, struct row *out)
{
	struct stx_compiler *c;
	struct stx_diag d = { 0 };
	struct stx_bytes text = { 0 };
	mallopt(M_MMAP_THRESHOLD, 64 << 20); /* as a worker does */
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	mallopt(M_ARENA_MAX, 1);
	if (stx_compiler_new(0, &c, &d))
		die("start", &d);
	out->warm_mb = peak_mb();
	if (k->family)
		k->family->write(&text, k->n);
	else
		read_model(k->path, &text);
	for (int i = k->family && k->n <= 1000 ? 8 : 2; i >= 0; i--) /* the best of several */
		compile(c, k->family ? 2 : 3, (struct stx_span){ text.at, text.n }, out->ns,
			out->kernels);
	out->peak_mb = peak_mb();
	stx_bytes_free(&text);
	stx_compiler_free(c);
}

static void print_row(const char *family, int n, const struct row *r, double *first)
{
	double sum = 0, rest;
	for (int i = 0; i < JOBS; i++)
		sum += r->ns[i];
	rest = (sum - r->ns[KERNELS]) / n; /* kernels are jobs of their own, side by side */
	*first = *first > 0 ? *first : rest;
	printf("%-10s %6d %5u/%-5u %8.0f %8.0f %8.0f %8.0f %9.0f %6.2f %8.0f %8.0f\n", family, n,
	       r->kernels[1], r->kernels[0], r->ns[KEY] / n, r->ns[PLAN] / n, r->ns[KERNELS] / n,
	       r->ns[LINK] / n, rest, rest / *first, r->peak_mb, r->warm_mb);
	fflush(stdout);
}

/* In a child: its peak is its own. */
static int measure_apart(const struct task *k, struct row *r)
{
	int pipes[2], status;
	fflush(NULL);
	if (pipe(pipes))
		return -1;
	pid_t pid = fork();
	if (pid == 0) {
		struct row mine = { 0 };
		measure(k, &mine);
		_exit(write(pipes[1], &mine, sizeof mine) != sizeof mine);
	}
	close(pipes[1]);
	int ok = read(pipes[0], r, sizeof *r) == sizeof *r;
	close(pipes[0]);
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status && ok ? 0 : -1;
}

static int one_model(const char *path)
{
	struct task k = { .path = path };
	struct row r = { 0 };
	double sum = 0;
	if (measure_apart(&k, &r))
		return 1;
	for (int i = 0; i < JOBS; i++)
		sum += r.ns[i] / 1e6;
	printf("%s: %.0f ms on one worker (key %.0f, plan %.0f, %u kernels %.0f, link %.0f), peak "
	       "%.0f "
	       "MB\n",
	       path, sum, r.ns[KEY] / 1e6, r.ns[PLAN] / 1e6, r.kernels[1], r.ns[KERNELS] / 1e6,
	       r.ns[LINK] / 1e6, r.peak_mb);
	return 0;
}

int main(int argc, char **argv)
{
	static const int sizes[] = { 100, 1000, 5000, 20000 };
	if (argc > 1)
		return one_model(argv[1]);
	printf("%-10s %6s %11s %8s %8s %8s %8s %9s %6s %8s %8s\n", "ns a node", "nodes", "kernels",
	       "key", "plan", "emit", "link", "k+p+l", "ratio", "peak MB", "warm MB");
	for (int f = 0; f < NFAMILIES; f++) {
		double first = 0;
		for (int i = 0; i < 4; i++) {
			struct task k = { .family = &families[f], .n = sizes[i] };
			struct row r = { 0 };
			if (measure_apart(&k, &r))
				return 1;
			print_row(families[f].name, sizes[i], &r, &first);
		}
	}
	return 0;
}
