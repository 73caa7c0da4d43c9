/* bench_compile.c: seed example 1.1, ((x+y).relu()*2).sum(-1) on 64x128 f32, in one run:
 *   cold compile at the client by a warm worker, beside gcc -O3 -shared on equivalent C;
 *   a hit over the socket; verification and dlopen apart; the kernel's time beside gcc's.
 * Usage: bench_compile [--json FILE]   (needs $STAX_SERVER; prints a table, medians) */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "dtype.h"
#include "stax.h"

#define COLD     60
#define GCC_RUNS 7
#define HITS     20000
#define LOADS    30
#define ROUNDS   400

static double now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof *v, by_value);
	return v[n / 2];
}

static void die(const char *what, const struct stax_error *e)
{
	fprintf(stderr, "bench_compile: %s: %s %s\n", what, e ? stax_error_name(e->code) : "",
		e ? e->text : "");
	exit(1);
}

/* Every scale is another graph and another kernel. */
static void graph_text(char *out, size_t cap, double scale)
{
	snprintf(out, cap,
		 "%%primals_1 : f32[64,128] = placeholder()\n%%primals_2 : f32[64,128] = "
		 "placeholder()\n"
		 "%%add = add.Tensor(%%primals_1, %%primals_2)\n%%relu = relu.default(%%add)\n"
		 "%%mul = mul.Scalar(%%relu, %.9g)\n%%sum_0 = sum.dim_IntList(%%mul, [-1])\n"
		 "return (%%sum_0,)\n",
		 scale);
}

static struct stax_answer *compile(struct stax_client *c, const char *text)
{
	struct stax_error err = { 0 };
	struct stax_answer *a = NULL;
	struct stax_request r = { .format = STAX_TEXT, .graph = text, .graph_bytes = strlen(text) };
	if (stax_compile(c, &r, &a, &err))
		die("compile", &err);
	return a;
}

static double cold(struct stax_client *c, double worst[1])
{
	double t[COLD];
	for (int i = 0; i < COLD; i++) {
		char text[1024];
		graph_text(text, sizeof text,
			   2 + 1e-4 * (i + 1) + 1e-7 * (double)(getpid() % 1000));
		double start = now_us();
		struct stax_answer *a = compile(c, text);
		t[i] = now_us() - start;
		if (a->hit)
			die("a cold compile was a hit", NULL);
		stax_answer_free(a);
	}
	double m = median(t, COLD);
	worst[0] = t[COLD - 1];
	return m;
}

static double hits(struct stax_client *c, const char *text, double *p99)
{
	double *t = malloc(sizeof *t * HITS);
	if (!t)
		die("out of memory", NULL);
	for (int i = 0; i < HITS; i++) {
		double start = now_us();
		struct stax_answer *a = compile(c, text);
		t[i] = now_us() - start;
		if (!a->hit)
			die("a repeated compile was a miss", NULL);
		stax_answer_free(a);
	}
	double m = median(t, HITS);
	*p99 = t[HITS * 99 / 100];
	free(t);
	return m;
}

static const char gcc_source[] =
	"void f(const float *restrict x, const float *restrict y, float *restrict o) {\n"
	" for (long i = 0; i < 64; i++) { float s = 0;\n"
	"  for (long j = 0; j < 128; j++) { float t = x[i*128+j] + y[i*128+j]; t = t < 0 ? 0 : t; "
	"s += t * 2; }\n"
	"  o[i] = s; } }\n";

typedef void kernel_fn(const float *, const float *, float *);

static double gcc_compile(const char *dir, const char *flags, const char *name)
{
	char path[512], cmd[2048];
	double t[GCC_RUNS];
	snprintf(path, sizeof path, "%s/k.c", dir);
	FILE *f = fopen(path, "w");
	if (!f || fputs(gcc_source, f) < 0 || fclose(f))
		die("cannot write the C source", NULL);
	snprintf(cmd, sizeof cmd, "gcc -O3 -march=native %s -shared -fPIC -o %s/%s.so %s", flags,
		 dir, name, path);
	for (int i = 0; i < GCC_RUNS; i++) {
		double start = now_us();
		if (system(cmd))
			die("gcc failed", NULL);
		t[i] = now_us() - start;
	}
	return median(t, GCC_RUNS);
}

static kernel_fn *gcc_kernel(const char *dir, const char *name)
{
	char path[512];
	snprintf(path, sizeof path, "%s/%s.so", dir, name);
	void *h = dlopen(path, RTLD_NOW);
	kernel_fn *fn = h ? (kernel_fn *)dlsym(h, "f") : NULL;
	if (!fn)
		die("dlopen of gcc's object", NULL);
	return fn;
}

static struct stx_tensor tensor(void *p, int rank, int64_t rows, int64_t cols)
{
	struct stx_tensor t = { .data = p, .dtype = STX_F32, .rank = (uint8_t)rank };
	t.sizes[0] = rows;
	t.strides[0] = rank == 2 ? cols : 1;
	t.sizes[1] = cols;
	t.strides[1] = 1;
	return t;
}

static float x[64 * 128], y[64 * 128], ours[64], theirs[64];

struct kernel_times {
	double run, gcc, fast;
};

/* Alternating rounds; nanoseconds a call. */
static struct kernel_times kernels(struct stax_artifact *a, kernel_fn *plain, kernel_fn *fast)
{
	double t[3][ROUNDS];
	struct stx_tensor in[2] = { tensor(x, 2, 64, 128), tensor(y, 2, 64, 128) },
			  out = tensor(ours, 1, 64, 0);
	struct stax_error err = { 0 };
	for (int r = 0; r < ROUNDS; r++) {
		double s0 = now_us();
		for (int i = 0; i < 20; i++)
			if (stax_run(a, in, 2, &out, 1, NULL, &err))
				die("run", &err);
		double s1 = now_us();
		for (int i = 0; i < 20; i++)
			plain(x, y, theirs);
		double s2 = now_us();
		for (int i = 0; i < 20; i++)
			fast(x, y, theirs);
		double s3 = now_us();
		t[0][r] = (s1 - s0) * 50;
		t[1][r] = (s2 - s1) * 50;
		t[2][r] = (s3 - s2) * 50;
	}
	return (struct kernel_times){ median(t[0], ROUNDS), median(t[1], ROUNDS),
				      median(t[2], ROUNDS) };
}

int main(void)
{
	struct stax_error err = { 0 };
	struct stax_client *c;
	char dir[] = "/tmp/stax-bench.XXXXXX", text[1024];
	double worst, p99, loads[LOADS], files[LOADS];
	if (!mkdtemp(dir))
		die("mkdtemp", NULL);
	if (stax_connect(NULL, &c, &err))
		die("connect", &err);
	for (int i = 0; i < 64 * 128; i++) {
		x[i] = (float)((i * 37) % 101) / 50 - 1;
		y[i] = (float)((i * 53) % 89) / 44 - 1;
	}
	graph_text(text, sizeof text, 2);
	stax_answer_free(compile(c, text));
	double t_cold = cold(c, &worst);
	double t_gcc = gcc_compile(dir, "", "plain");
	gcc_compile(dir, "-ffast-math", "fast");
	struct stax_answer *a = compile(c, text);
	double t_hit = hits(c, text, &p99);
	struct stax_artifact *art = NULL;
	for (int i = 0; i < LOADS; i++) {
		double start = now_us();
		if (stax_load(c, a, &art, &err))
			die("load", &err);
		loads[i] = now_us() - start;
		if (i < LOADS - 1)
			stax_artifact_free(art);
		struct stax_artifact *f = NULL;
		start = now_us();
		if (!stax_load_file(a->path, &f, &err))
			stax_artifact_free(f);
		files[i] = now_us() - start;
	}
	struct kernel_times k = kernels(art, gcc_kernel(dir, "plain"), gcc_kernel(dir, "fast"));
	for (int i = 0; i < 64; i++)
		if (!(ours[i] - theirs[i] < 1e-3f && theirs[i] - ours[i] < 1e-3f))
			die("results differ from gcc's", NULL);
	printf("%-52s %12s %12s %8s\n", "example 1.1, 64x128 f32 (medians)", "stax", "peer",
	       "peer/stax");
	printf("%-52s %9.2f ms %9.2f ms %8.1f\n", "cold compile at the client / gcc -O3 -shared",
	       t_cold / 1e3, t_gcc / 1e3, t_gcc / t_cold);
	printf("%-52s %9.2f ms\n", "  worst of the cold compiles", worst / 1e3);
	printf("%-52s %9.2f us   p99 %.1f us\n", "hit over the socket", t_hit, p99);
	printf("%-52s %9.2f us\n", "first load: open, copy, seal, verify, dlopen", loads[0]);
	printf("%-52s %9.2f us\n", "later loads in the process", median(loads, LOADS));
	printf("%-52s %9.2f us\n", "load of the file alone, verified by its plan",
	       median(files, LOADS));
	printf("%-52s %9.0f ns %9.0f ns %8.2f\n", "run (whole stax_run call) / gcc -O3 kernel",
	       k.run, k.gcc, k.gcc / k.run);
	printf("%-52s %9.0f ns %9.0f ns %8.2f\n", "run / gcc -O3 -ffast-math kernel", k.run, k.fast,
	       k.fast / k.run);
	stax_artifact_free(art);
	stax_answer_free(a);
	stax_client_free(c);
	char cmd[600];
	snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
	return system(cmd) != 0;
}
