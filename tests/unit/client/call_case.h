/* call_case.h
 * what tests of cuBLASLt's and cuDNN's calls share: a driver and libraries that compute on the host
 * (tests/fake), artifacts whose "cubins" are kernel IR, which the driver has evaluated, comparison
 * with the oracle on small whole numbers, whose sums are the same in every order, one call that is
 * ready to run, and one whose plan is tampered with.
 * For programs with cmocka.h included.
 */
#ifndef STX_TESTS_CALL_CASE_H
#define STX_TESTS_CALL_CASE_H

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "codegen.h"
#include "compiled.h"
#include "cuda.h"
#include "fake/fake.h"
#include "import.h"
#include "kernel_eval.h"
#include "passes.h"
#include "plan.h"
#include "ref.h"
#include "scalar.h"

#define MAX_IN 8
#define TARGET "cuda:sm_90a:h200"

static struct fake_cuda_counts *cuda;
static struct fake_cublaslt *blas;
static struct fake_cudnn *dnn;
static uint64_t kernel_ns; /* that every kernel takes */
static int is_fast;        /* what is compiled next */

/* ---- the driver runs a kernel: its image is the kernel's text ---- */

static int evaluate(const struct fake_launch *l)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_bounds_record bounds = { 0 };
	struct stx_diag d = { 0 };
	struct stx_kernel *k;
	void *at[64];
	int64_t elems[64];
	int e = stx_kernel_parse(a, l->image, strlen(l->image), &k, &d);
	assert_int_equal(e, 0);
	assert_true(k->params.n <= 64 && k->scalars.n == 0);
	for (uint32_t i = 0; i < k->params.n; i++) {
		at[i] = *(void **)l->params[i];
		assert_true(stx_ex_is_const(k->ex, k->params.at[i].elems, &elems[i]));
	}
	e = stx_kernel_evaluate(k, at, elems, NULL, &bounds, 0, stx_kernel_grid_points(k, NULL),
				&d);
	stx_arena_free(a);
	cuda->now_ns += kernel_ns;
	return e || bounds.taken;
}

/* ---- artifacts ---- */

static void load(const struct stx_bytes *elf, struct compiled *out)
{
	char path[64];
	struct stax_error err;
	int fd = memfd_create("artifact", MFD_CLOEXEC);
	assert_int_equal(write(fd, elf->at, elf->n), (ssize_t)elf->n);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (stax_load_file(path, &out->artifact, &err))
		fail_msg("%s: %s", err.node, err.text);
	close(fd);
}

/* One object for each distinct symbol: the kernel's text. */
static uint32_t objects_of(const struct stx_plan_result *r, struct stx_bytes *objects)
{
	struct stx_plan p;
	uint32_t n = 0;
	assert_int_equal(stx_plan_open((struct stx_span){ r->plan.at, r->plan.n }, &p, NULL), 0);
	for (uint32_t i = 0; i < r->nkernels; i++) {
		const char *symbol = stx_plan_string(&p, p.kernels[i].symbol);
		struct stx_bytes text = { 0 };
		uint32_t same = 0;
		while (same < i && strcmp(symbol, stx_plan_string(&p, p.kernels[same].symbol)) != 0)
			same++;
		if (same < i)
			continue;
		stx_bytes_put(&text, r->kernels[i].ir.at, r->kernels[i].ir.n);
		stx_bytes_u8(&text, 0);
		assert_int_equal(stx_data_object(STX_CUBIN_SECTION, symbol,
						 (struct stx_span){ text.at, text.n },
						 &objects[n++], NULL),
				 0);
		stx_bytes_free(&text);
	}
	return n;
}

static inline void build(const char *text, struct compiled *out)
{
	struct stx_source s = { .format = STX_FORMAT_TEXT,
				.body = { (const uint8_t *)text, strlen(text) } };
	struct stx_compile_options o = { .target = TARGET, .fast = is_fast };
	struct stx_key_result key = { 0 };
	struct stx_plan_result plan = { 0 };
	struct stx_bytes objects[64] = { { 0 } }, elf = { 0 };
	struct stx_span spans[64];
	struct stx_diag d = { 0 };
	memset(out, 0, sizeof *out);
	if (stx_compile_key(compiled_compiler(), &s, &o, &key, &d) ||
	    stx_compile_plan(compiled_compiler(), (struct stx_span){ key.graph.at, key.graph.n },
			     &o, &plan, &d))
		fail_msg("%s %s: %s in\n%s", d.stage, d.node, d.text, text);
	uint32_t n = objects_of(&plan, objects);
	for (uint32_t i = 0; i < n; i++)
		spans[i] = (struct stx_span){ objects[i].at, objects[i].n };
	if (stx_compile_link(compiled_compiler(), (struct stx_span){ plan.plan.at, plan.plan.n },
			     spans, n, &elf, &d))
		fail_msg("link: %s", d.text);
	out->nkernels = plan.nkernels;
	load(&elf, out);
	for (uint32_t i = 0; i < n; i++)
		stx_bytes_free(&objects[i]);
	stx_bytes_free(&elf);
	stx_plan_result_free(&plan);
	stx_key_result_free(&key);
}

static uint64_t seed = 20261130;

static inline uint32_t below(uint32_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(seed >> 33) % n;
}

/* ---- data ---- */

static inline void fill(struct stx_arena *a, const struct stx_graph *g, const struct stx_input *in,
			struct stx_tensor *t)
{
	enum stx_dtype type = in->node->outs[0].dtype;
	compiled_shape(g, in, t);
	int64_t first, n = compiled_span(t, &first);
	size_t width = (size_t)stx_dtype_bytes(type);
	t->data = stx_arena_alloc(a, (size_t)n * width + 1);
	for (int64_t i = 0; i < n; i++) {
		int v = (int)below(5) - 2;
		union stx_scalar k = { .i = v };
		if (stx_dtype_is_float(type))
			k.f = v;
		stx_scalar_store(type, (char *)t->data + (size_t)i * width, k);
	}
}

static double tolerance; /* of results: absolute */

static inline void same(const struct stx_tensor *got, const struct stx_tensor *want,
			const char *text)
{
	enum stx_dtype t = (enum stx_dtype)want->dtype;
	for (int64_t i = 0, n = compiled_numel(want); i < n; i++) {
		union stx_scalar p, q;
		p = stx_scalar_load(t, (const char *)got->data + i * stx_dtype_bytes(t));
		q = stx_scalar_load(t, (const char *)want->data + i * stx_dtype_bytes(t));
		double x = stx_dtype_is_float(t) ? p.f : (double)p.i;
		double y = stx_dtype_is_float(t) ? q.f : (double)q.i;
		if (x != y && !(fabs(x - y) <= tolerance))
			fail_msg("element %lld: %g instead of %g in\n%s", (long long)i, x, y, text);
	}
}

struct counts { /* calls: of both libraries */
	uint64_t calls, launches, heuristics;
};

/* Compiles, runs and compares with the oracle; what that took. */
static inline struct counts check(const char *text)
{
	struct stx_arena *a = stx_arena_new(0);
	struct stx_tensor in[MAX_IN], got[MAX_IN], want[MAX_IN];
	struct stx_diag d = { 0 };
	struct stx_graph *g;
	struct compiled c;
	if (stx_graph_parse(a, text, strlen(text), &g, &d) || stx_graph_verify(g, &d))
		fail_msg("%s: %s in\n%s", d.location, d.text, text);
	for (uint32_t i = 0; i < g->inputs.n; i++)
		fill(a, g, &g->inputs.at[i], &in[i]);
	build(text, &c);
	struct counts before = { blas->calls + dnn->calls, cuda->launches,
				 blas->heuristics + dnn->heuristics };
	if (compiled_run(&c, COMPILED_SERIAL, in, g->inputs.n, got, &d))
		fail_msg("%s: %s in\n%s", d.stage, d.text, text);
	struct counts n = { blas->calls + dnn->calls - before.calls,
			    cuda->launches - before.launches,
			    blas->heuristics + dnn->heuristics - before.heuristics };
	if (stx_ref_evaluate(g, in, g->inputs.n, want, 0, &d))
		fail_msg("oracle: %s in\n%s", d.text, text);
	for (uint32_t i = 0; i < g->outputs.n; i++)
		same(&got[i], &want[i], text);
	compiled_free_outputs(got, g->outputs.n);
	compiled_free_outputs(want, g->outputs.n);
	compiled_free(&c);
	stx_arena_free(a);
	return n;
}

/* ---- one call, ready to run ---- */

struct ready {
	struct compiled c;
	_Alignas(16) float a[64 * 80 + 1];
	_Alignas(16) float b[80 * 64], y[64 * 80], want[64 * 80];
	struct stx_tensor in[2], out;
};

static inline int run(struct ready *v, struct stax_error *err)
{
	return stax_run(v->c.artifact, v->in, 2, &v->out, 1, NULL, err);
}

/* f32 tensors of rank `rank`: two operands and a result. */
static inline struct ready *ready_new(const char *text, uint8_t rank, const int64_t *a,
				      const int64_t *b, const int64_t *y)
{
	struct ready *v = aligned_alloc(16, (sizeof *v + 15) / 16 * 16);
	memset(v, 0, sizeof *v);
	build(text, &v->c);
	v->in[0].data = v->a;
	v->in[1].data = v->b;
	v->out.data = v->y;
	memcpy(v->in[0].sizes, a, rank * sizeof *a);
	memcpy(v->in[1].sizes, b, rank * sizeof *b);
	memcpy(v->out.sizes, y, rank * sizeof *y);
	v->in[0].rank = v->in[1].rank = v->out.rank = rank;
	v->in[0].dtype = v->in[1].dtype = v->out.dtype = STX_F32;
	compiled_dense(&v->in[0]);
	compiled_dense(&v->in[1]);
	compiled_dense(&v->out);
	assert_true(compiled_numel(&v->in[0]) < 64 * 80 + 1);
	assert_true(compiled_numel(&v->in[1]) <= 80 * 64 && compiled_numel(&v->out) <= 64 * 80);
	return v;
}

static inline void ready_free(struct ready *v)
{
	compiled_free(&v->c);
	free(v);
}

/* Runs, and compares the result with `want`; the calls that took. */
static inline uint64_t run_right(struct ready *v)
{
	struct stax_error err;
	uint64_t calls = blas->calls + dnn->calls, launches = cuda->launches;
	memset(v->y, 0x7F, sizeof v->y);
	if (run(v, &err))
		fail_msg("%s", err.text);
	for (int64_t i = 0, n = compiled_numel(&v->out); i < n; i++)
		assert_true(v->y[i] == v->want[i]);
	calls = blas->calls + dnn->calls - calls;
	assert_int_equal(calls + cuda->launches - launches, 1);
	return calls;
}

/* ---- a product ---- */

static inline struct fake_matmul *last_call(void)
{
	return &blas->call[(blas->calls - 1) % FAKE_MAX_CALLS];
}

static const char square[] = "%a : f32[64,80] = placeholder()\n%b : f32[80,64] = placeholder()\n"
			     "%y = mm.default(%a, %b)\nreturn (%y,)\n";

static inline struct ready *square_new(void)
{
	static const int64_t a[] = { 64, 80 }, b[] = { 80, 64 }, y[] = { 64, 64 };
	struct ready *v = ready_new(square, 2, a, b, y);
	for (int i = 0; i < 64 * 80 + 1; i++)
		v->a[i] = (float)(i % 3);
	for (int i = 0; i < 80 * 64; i++)
		v->b[i] = (float)(i % 2);
	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 64; j++)
			for (int k = 0; k < 80; k++)
				v->want[i * 64 + j] += v->a[i * 80 + k] * v->b[k * 64 + j];
	return v;
}

/* ---- what plans may ask for ---- */

/* An artifact whose first step is a call, with attributes of the test's. */
struct tampered {
	struct stax_artifact *a;
	struct stx__context *x;
	struct stx__step *s;
	uint32_t n;
	int64_t mine[64], own[64], *exprs; /* as compiled; as the call sees them */
	uint8_t ok[64], *expr_ok;
	uint32_t numbers[64], *attrs;
};

static inline void tamper_begin(struct tampered *t, struct compiled *c)
{
	memset(t, 0, sizeof *t);
	t->a = c->artifact;
	t->x = stx__context_take(t->a);
	t->s = &t->x->steps[0];
	const struct stx_plan_extern *e = stx_plan_extern_of(&t->a->plan, t->s->plan);
	t->n = e->nattrs;
	assert_true(t->n <= 64);
	t->attrs = (uint32_t *)(uintptr_t)stx_plan_u32s(&t->a->plan, e->attrs);
	t->exprs = t->x->exprs;
	t->expr_ok = t->x->expr_ok;
	/* the attributes' own expressions, so that equal ones can differ */
	for (uint32_t i = 0; i < t->n; i++) {
		t->numbers[i] = t->attrs[i];
		t->mine[i] = t->exprs[t->attrs[i]];
		t->attrs[i] = i;
		t->ok[i] = 1;
	}
	memcpy(t->own, t->mine, sizeof t->own);
	t->x->exprs = t->own;
	t->x->expr_ok = t->ok;
	assert_int_equal(t->s->external->bind(t->a, t->x, t->s, NULL), 0);
}

/* Attribute i is v, the others are as compiled: whether the call is refused, as corrupt. */
static inline int is_refused(struct tampered *t, uint32_t i, int64_t v)
{
	struct stx_diag d = { 0 };
	memcpy(t->own, t->mine, sizeof t->own);
	t->own[i] = v;
	if (!t->s->external->bind(t->a, t->x, t->s, &d))
		return 0;
	assert_int_equal(d.code, STX_E_CORRUPT);
	return 1;
}

/* Each number of the call's, replaced by each of several that cannot be: how many are refused. */
static inline uint32_t count_refused(struct tampered *t)
{
	static const int64_t wrong[] = { INT64_MIN, -1, 0, 2, 7, 1 << 20, INT32_MAX, INT64_MAX };
	uint32_t refused = 0;
	for (uint32_t i = 0; i < t->n; i++)
		for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++)
			refused += (uint32_t)is_refused(t, i, wrong[k]);
	memcpy(t->own, t->mine, sizeof t->own);
	t->ok[3] = 0;
	assert_int_equal(t->s->external->bind(t->a, t->x, t->s, NULL), STX_E_CORRUPT);
	t->ok[3] = 1;
	return refused;
}

static inline void tamper_end(struct tampered *t)
{
	memcpy(t->attrs, t->numbers, t->n * sizeof *t->attrs);
	t->x->exprs = t->exprs;
	t->x->expr_ok = t->expr_ok;
	stx__context_put(t->a, t->x);
}

static void *fake(const char *name)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof path - 128);
	assert_true(n > 0);
	path[n] = 0;
	*strrchr(path, '/') = 0;
	snprintf(path + strlen(path), 128, "/../../fake/%s", name);
	void *h = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
	if (!h)
		fail_msg("%s", dlerror());
	return h;
}

static inline int calls_setup(void **state)
{
	struct fake_cuda_counts *(*get_cuda)(void);
	struct fake_cublaslt *(*get_blas)(void);
	struct fake_cudnn *(*get_dnn)(void);
	void (*on_launch)(int (*fn)(const struct fake_launch *l));
	void *driver = fake("libcuda.so.1");
	(void)state;
	*(void **)&get_cuda = dlsym(driver, "fake_cuda_counts");
	*(void **)&on_launch = dlsym(driver, "fake_cuda_on_launch");
	*(void **)&get_blas = dlsym(fake("libcublasLt.so.13"), "fake_cublaslt");
	*(void **)&get_dnn = dlsym(fake("libcudnn.so.9"), "fake_cudnn");
	assert_true(get_cuda && on_launch && get_blas && get_dnn);
	cuda = get_cuda();
	blas = get_blas();
	dnn = get_dnn();
	on_launch(evaluate);
	compiled_compiler();
	return 0;
}

/* ---- numbers of headers ---- */

/* `NAME = value` or `#define NAME value` in a header's text. */
static inline int find_number(const char *text, const char *name, unsigned long long *out)
{
	size_t n = strlen(name);
	for (const char *at = text; (at = strstr(at, name)); at += n) {
		const char *p = at + n;
		unsigned long long v, shift = 0;
		char *end;
		if (at > text && (at[-1] == '_' || (at[-1] >= 'A' && at[-1] <= 'Z')))
			continue;
		p += strspn(p, " ");
		if (!strncmp(p, "CUDNN_DEPRECATED_ENUM", 21))
			p += 21;
		p += strspn(p, " =(");
		v = strtoull(p, &end, 0);
		if (end == p)
			continue;
		end += strspn(end, "ul ");
		if (!strncmp(end, "<<", 2))
			shift = strtoull(end + 2, NULL, 0);
		*out = v << shift;
		return 1;
	}
	return 0;
}

static inline char *read_header(const char *name)
{
	const char *home = getenv("CUDA_HOME");
	char path[4200];
	snprintf(path, sizeof path, "%s/include/%s", home && *home ? home : "/usr/local/cuda",
		 name);
	FILE *f = fopen(path, "r");
	if (!f)
		return NULL;
	char *text = calloc(1, 1 << 20);
	assert_true(fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	return text;
}

#endif
