/* bench_cuda.c: what the service adds to a GPU compile and to its hits, in one run: each graph cold in
 * a warm worker beside NVRTC alone, in this process, on the same sources; time by stage; a hit of a
 * CUDA target beside a CPU's and a ping.
 * Usage: bench_cuda [--target T] FILE.stax...   (needs $STAX_SERVER and NVRTC; prints tables,
 * medians) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bytes.h"
#include "clock.h"
#include "gpu.h"
#include "gpu_target.h"
#include "stax.h"

enum { ROUNDS = 5, HITS = 2000, STAGES = 32, NAME = 24 };

static const char *target = "cuda:sm_90a:h200";

static void die(const char *what, const struct stax_error *e)
{
	fprintf(stderr, "bench_cuda: %s: %s %s\n", what, e ? stax_error_name(e->code) : "",
		e ? e->text : "");
	exit(1);
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

/* ---- graphs ---- */

static char *read_file(const char *path)
{
	FILE *f = fopen(path, "rbe");
	char *text = calloc(1, 1 << 16);
	if (!f || !text || !fread(text, 1, (1 << 16) - 1, f)) {
		fprintf(stderr, "bench_cuda: cannot read %s\n", path);
		exit(1);
	}
	fclose(f);
	return text;
}

/* The graph with its first output scaled: another graph and another kernel in every round. The
 * caller frees it. */
static char *variant(const char *text, int round)
{
	struct stx_bytes b = { 0 };
	const char *end = strstr(text, "return (");
	if (!end)
		die("a graph without outputs", NULL);
	const char *name = end + strlen("return (");
	int n = (int)strcspn(name, ",)");
	double scale = 1 + 1e-3 * (round + 1) + 1e-7 * (double)(getpid() % 1000);
	stx_bytes_put(&b, text, (size_t)(end - text));
	stx_bytes_printf(&b, "%%bench = mul.Scalar(%.*s, %.9g)\nreturn (%%bench%s", n, name, scale,
			 name + n);
	if (b.oom || !stx_bytes_cstr(&b))
		die("out of memory", NULL);
	return (char *)b.at;
}

static struct stax_request request(const char *text, const char *to)
{
	return (struct stax_request){
		.format = STAX_TEXT, .graph = text, .graph_bytes = strlen(text), .target = to
	};
}

static struct stax_answer *compile(struct stax_client *c, const char *text, const char *to)
{
	struct stax_error err = { 0 };
	struct stax_answer *a = NULL;
	struct stax_request r = request(text, to);
	if (stax_compile(c, &r, &a, &err))
		die("compile", &err);
	return a;
}

/* ---- NVRTC alone ---- */

/* All kernels of the graph, one after another. *longest: the one that takes longest. */
static double nvrtc_us(struct stax_client *c, struct stx_nvrtc *n, const char *text,
		       double *longest, int *kernels)
{
	struct stax_error err = { 0 };
	struct stax_request r = request(text, target);
	struct stx_gpu_target t;
	char *source = NULL;
	size_t size;
	double sum = 0;
	*longest = 0;
	*kernels = 0;
	if (stax_dump(c, &r, "source", "text", &source, &size, &err))
		die("dump", &err);
	if (stx_gpu_target_parse(target, &t, NULL))
		die("a bad target", NULL);
	for (char *at = strstr(source, "// ---- "), *next; at; at = next) {
		struct stx_bytes cubin = { 0 };
		struct stx_diag d = { 0 };
		if ((next = strstr(at + 1, "\n// ---- ")))
			*next++ = 0;
		uint64_t start = stx_clock_ns();
		if (stx_nvrtc_compile(n, at, "alone", t.device.arch, 0, STX_NVRTC_CUBIN, &cubin,
				      NULL, &d)) {
			fprintf(stderr, "bench_cuda: NVRTC alone: %s\n", d.text);
			exit(1);
		}
		double us = (double)(stx_clock_ns() - start) * 1e-3;
		sum += us;
		*longest = us > *longest ? us : *longest;
		++*kernels;
		stx_bytes_free(&cubin);
	}
	free(source);
	return sum;
}

/* ---- cold compiles ---- */

struct split {
	char name[STAGES][NAME];
	double us[STAGES];
	int n;
};

static void add_stages(struct split *s, const struct stax_answer *a)
{
	for (size_t i = 0; i < a->nstages; i++) {
		int k = 0;
		while (k < s->n && strcmp(s->name[k], a->stages[i].name) != 0)
			k++;
		if (k == STAGES)
			continue;
		if (k == s->n)
			snprintf(s->name[s->n++], NAME, "%s", a->stages[i].name);
		s->us[k] += (double)a->stages[i].us;
	}
}

static double stage_us(const struct split *s, const char *name)
{
	for (int i = 0; i < s->n; i++)
		if (!strcmp(s->name[i], name))
			return s->us[i] / ROUNDS;
	return 0;
}

/* Everything that is neither the kernels' code nor what holds it: parsing to planning. */
static double own_passes_us(const struct split *s)
{
	static const char *const rest[] = { "emit",    "kernels", "link",  "check",
					    "request", "key",     "lookup" };
	double sum = 0;
	for (int i = 0; i < s->n; i++) {
		unsigned k = 0;
		while (k < sizeof rest / sizeof *rest && strcmp(rest[k], s->name[i]) != 0)
			k++;
		sum += k == sizeof rest / sizeof *rest ? s->us[i] / ROUNDS : 0;
	}
	return sum;
}

static double cold(struct stax_client *c, struct stx_nvrtc *n, const char *path)
{
	double wall[ROUNDS], alone[ROUNDS], longest[ROUNDS];
	int kernels = 0;
	struct split s = { .n = 0 };
	char *text = read_file(path);
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	for (int i = 0; i < ROUNDS; i++) {
		char *v = variant(text, i);
		uint64_t start = stx_clock_ns();
		struct stax_answer *a = compile(c, v, target);
		wall[i] = (double)(stx_clock_ns() - start) * 1e-3;
		if (a->hit)
			die("a cold compile was a hit", NULL);
		add_stages(&s, a);
		stax_answer_free(a);
		alone[i] = nvrtc_us(c, n, v, &longest[i], &kernels);
		free(v);
	}
	free(text);
	double w = median(wall, ROUNDS), m = median(alone, ROUNDS);
	double inside = stage_us(&s, "kernels") + stage_us(&s, "link") + stage_us(&s, "check");
	printf("%-22.*s %3d %8.1f %8.1f %6.2f %8.1f %8.1f %8.1f %6.2f %6.2f %6.2f\n",
	       (int)strcspn(base, "."), base, kernels, w / 1e3, m / 1e3, w / m,
	       median(longest, ROUNDS) / 1e3, stage_us(&s, "emit") / 1e3,
	       stage_us(&s, "kernels") / 1e3, own_passes_us(&s) / 1e3,
	       (stage_us(&s, "link") + stage_us(&s, "check")) / 1e3,
	       (stage_us(&s, "request") - inside) / 1e3);
	return w / m;
}

/* ---- hits ---- */

static double hits(struct stax_client *c, const char *text, const char *to)
{
	double t[HITS];
	stax_answer_free(compile(c, text, to));
	for (int i = 0; i < HITS; i++) {
		uint64_t start = stx_clock_ns();
		struct stax_answer *a = compile(c, text, to);
		t[i] = (double)(stx_clock_ns() - start) * 1e-3;
		if (!a->hit)
			die("a repeated compile was a miss", NULL);
		stax_answer_free(a);
	}
	return median(t, HITS);
}

static double pings(struct stax_client *c)
{
	double t[HITS];
	for (int i = 0; i < HITS; i++) {
		struct stax_pong p;
		struct stax_error err = { 0 };
		if (stax_ping(c, &p, &err))
			die("ping", &err);
		t[i] = (double)p.rtt_ns * 1e-3;
	}
	return median(t, HITS);
}

int main(int argc, char **argv)
{
	struct stax_error err = { 0 };
	struct stx_diag d = { 0 };
	struct stax_client *c;
	struct stx_nvrtc *n;
	double ratios[256];
	int at = 1, nratios = 0;
	if (argc > 2 && !strcmp(argv[1], "--target")) {
		target = argv[2];
		at = 3;
	}
	if (at >= argc) {
		fprintf(stderr, "usage: bench_cuda [--target T] FILE.stax...\n");
		return 2;
	}
	if (stx_nvrtc_new(NULL, &n, &d)) {
		printf("skip: %s\n", d.text);
		return 0;
	}
	if (stax_connect(NULL, &c, &err))
		die("connect", &err);
	char *text = read_file(argv[at]);
	double t_gpu = hits(c, text, target), t_cpu = hits(c, text, "cpu"), t_ping = pings(c);
	free(text);
	printf("medians of %d, us at the client: a hit of %s %.1f, of the CPU %.1f, a ping "
	       "%.1f\n\n",
	       HITS, target, t_gpu, t_cpu, t_ping);
	printf("medians of %d, ms; alone: NVRTC on the same sources, one kernel after another; "
	       "longest: of these;\nnvrtc: in the workers; kernels: their jobs, side by side; own: "
	       "our passes and text; rest: queue, channels, store\n",
	       ROUNDS);
	printf("%-22s %3s %8s %8s %6s %8s %8s %8s %6s %6s %6s\n", target, "n", "cold", "alone",
	       "ratio", "longest", "nvrtc", "kernels", "own", "link", "rest");
	for (; at < argc && nratios < 256; at++)
		ratios[nratios++] = cold(c, n, argv[at]);
	double worst = 0;
	for (int i = 0; i < nratios; i++)
		worst = ratios[i] > worst ? ratios[i] : worst;
	printf("cold / alone: median %.2f, worst %.2f\n", median(ratios, nratios), worst);
	stax_client_free(c);
	stx_nvrtc_free(n);
	return 0;
}
