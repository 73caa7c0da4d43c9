/* bench_cuda.c: what the service adds to a GPU compile and to its hits, in one run: each graph cold in
 * a warm worker beside NVRTC alone, in this process, on the same sources, down to PTX and down to
 * machine code; time by stage; a hit of a CUDA target beside a CPU's and a ping.
 * Usage: bench_cuda [--target T] FILE.stax...   (needs $STAX_SERVER and NVRTC; prints tables,
 * medians) */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bytes.h"
#include "clock.h"
#include "gpu.h"
#include "gpu_target.h"
#include "stax.h"

enum { ROUNDS = 5, HITS = 2000, STAGES = 32, NAME = 24, SMALL = 16 };

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

/* The graph with its first size of at least SMALL, wherever the number stands, less by a sixteenth of
 * the power of two in it for each round: kernels of the same form, none known. The caller frees it. */
static char *variant(const char *text, int round)
{
	struct stx_bytes b = { 0 };
	const char digits[] = "0123456789";
	unsigned long long size = 0, v;
	for (const char *at = text; size < SMALL && (at = strpbrk(at, "[,")); at++)
		size = strtoull(at + 1, NULL, 10);
	if (size < SMALL)
		die("a graph without a size to vary", NULL);
	unsigned long long step = (size & -size) / 16;
	for (const char *at = text; *at;) {
		size_t n = strcspn(at, digits), number = strspn(at + n, digits);
		int is_name = n && (isalpha((unsigned char)at[n - 1]) || strchr("_.", at[n - 1]));
		v = strtoull(at + n, NULL, 10);
		stx_bytes_put(&b, at, n);
		if (v == size && number && !is_name)
			stx_bytes_printf(&b, "%llu",
					 size - (unsigned long long)round * (step ? step : 1));
		else
			stx_bytes_put(&b, at + n, number);
		at += n + number;
	}
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

static double once_us(struct stx_nvrtc *n, const char *source, const char *arch,
		      enum stx_nvrtc_stage stage)
{
	struct stx_bytes code = { 0 };
	struct stx_diag d = { 0 };
	uint64_t start = stx_clock_ns();
	if (stx_nvrtc_compile(n, source, "alone", arch, 0, stage, &code, NULL, &d)) {
		fprintf(stderr, "bench_cuda: NVRTC alone: %s\n", d.text);
		exit(1);
	}
	stx_bytes_free(&code);
	return (double)(stx_clock_ns() - start) * 1e-3;
}

/* Of all kernels of a graph, each one once, one after another. */
struct alone {
	double sum, longest, to_ptx; /* us; to_ptx: front end and optimiser */
	int distinct, all;
	size_t bytes; /* of source */
};

/* The kernel's name and the rest of it have not come by in what stands before it. */
static int is_new(const char *source, const char *at)
{
	const char *name = strstr(at, "stx_k_");
	char symbol[64];
	snprintf(symbol, sizeof symbol, "%.*s", name ? (int)strcspn(name, "(") : 0, name);
	for (const char *p = source; p < at; p += strlen(p) + 1)
		if (strstr(p, symbol))
			return 0;
	return 1;
}

static struct alone nvrtc_alone(struct stax_client *c, struct stx_nvrtc *n, const char *text)
{
	struct stax_error err = { 0 };
	struct stax_request r = request(text, target);
	struct stx_gpu_target t;
	struct alone sum = { 0 };
	char *source = NULL, virtual[32];
	size_t size;
	if (stax_dump(c, &r, "source", "text", &source, &size, &err))
		die("dump", &err);
	if (stx_gpu_target_parse(target, &t, NULL))
		die("a bad target", NULL);
	snprintf(virtual, sizeof virtual, "compute%s", strchr(t.device.arch, '_'));
	for (char *at = strstr(source, "// ---- "), *next; at; at = next) {
		if ((next = strstr(at + 1, "\n// ---- ")))
			*next++ = 0;
		sum.all++;
		if (!is_new(source, at))
			continue;
		double us = once_us(n, at, t.device.arch, STX_NVRTC_CUBIN);
		sum.to_ptx += once_us(n, at, virtual, STX_NVRTC_PTX);
		sum.sum += us;
		sum.longest = us > sum.longest ? us : sum.longest;
		sum.distinct++;
		sum.bytes += strlen(at);
	}
	free(source);
	return sum;
}

/* What NVRTC takes for nothing, ms. */
static double empty(struct stx_nvrtc *n, const char *arch, enum stx_nvrtc_stage stage)
{
	double t[ROUNDS];
	for (int i = 0; i < ROUNDS; i++)
		t[i] = once_us(n, "extern \"C\" __global__ void empty() {}", arch, stage);
	return median(t, ROUNDS) / 1e3;
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
	double wall[ROUNDS], alone[ROUNDS], longest[ROUNDS], ptx[ROUNDS];
	struct alone n_alone = { 0 };
	struct split s = { .n = 0 };
	char *text = read_file(path);
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	for (int i = 0; i < ROUNDS; i++) {
		char *v = variant(text, i + 1);
		uint64_t start = stx_clock_ns();
		struct stax_answer *a = compile(c, v, target);
		wall[i] = (double)(stx_clock_ns() - start) * 1e-3;
		if (a->hit)
			die("a cold compile was a hit", NULL);
		add_stages(&s, a);
		stax_answer_free(a);
		n_alone = nvrtc_alone(c, n, v);
		alone[i] = n_alone.sum;
		longest[i] = n_alone.longest;
		ptx[i] = n_alone.to_ptx;
		free(v);
	}
	free(text);
	double w = median(wall, ROUNDS), m = median(alone, ROUNDS);
	double inside = stage_us(&s, "kernels") + stage_us(&s, "link") + stage_us(&s, "check");
	double to_ptx = median(ptx, ROUNDS);
	printf("%-22.*s %3d/%-3d %5.1f %8.1f %8.1f %6.2f %7.1f %7.1f %8.1f %8.1f %8.1f %6.2f %6.2f "
	       "%6.2f\n",
	       (int)strcspn(base, "."), base, n_alone.distinct, n_alone.all,
	       (double)n_alone.bytes / 1024, w / 1e3, m / 1e3, w / m, to_ptx / 1e3,
	       (m - to_ptx) / 1e3, median(longest, ROUNDS) / 1e3, stage_us(&s, "emit") / 1e3,
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
	printf("medians of %d, ms; n: kernels that differ, of all; KiB: their sources; alone: "
	       "NVRTC "
	       "on these, one after another; ptx, asm: of that down to PTX, and from there;\n"
	       "longest: kernel; nvrtc: in the workers; kernels: their jobs, side by side; own: "
	       "our "
	       "passes and text; rest: queue, channels, store; an empty kernel: %.1f, %.1f to "
	       "PTX\n",
	       ROUNDS, empty(n, "sm_90a", STX_NVRTC_CUBIN), empty(n, "compute_90a", STX_NVRTC_PTX));
	printf("%-22s %7s %5s %8s %8s %6s %7s %7s %8s %8s %8s %6s %6s %6s\n", target, "n", "KiB",
	       "cold", "alone", "ratio", "ptx", "asm", "longest", "nvrtc", "kernels", "own", "link",
	       "rest");
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
