/* test_emit_cuda_run.c: generated CUDA C, run on the host in many configurations, against the
 * interpreter of kernel IR: runs of consecutive elements with whole and ragged ends, operands that
 * are aligned to no more than STX_GPU_ALIGN, mixtures of types, transposes, rows kept and looped
 * over. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "cuda_host.h"
#include "gpu_schedule.h"
#include "gpu.h"
#include "graph_gen.h"
#include "kernel_eval.h"
#include "lower.h"
#include "passes.h"
#include "schedule_eval.h"
#include "tune.h"

#define TARGET      "cuda:sm_90a:h200"
#define GUARD_BYTES 64
#define MOST_PARAMS 8
#define MOST_RUNS   400

/* Of one kernel in one configuration. */
struct launch {
	const struct stx_schedule *s;
	const struct stx_kernel *k;
	struct stx_gpu_config c;
	char symbol[64];
};

static uint64_t state;
static uint32_t draw(void)
{
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(state >> 33);
}

static int of_clusters; /* only configurations of several blocks a row, besides candidates */
static const struct stx_device *device; /* that kernels are scheduled for; NULL: the default */
static int specials;                    /* floats have stretches of infinities and NaN */
static int far;    /* floats reach to 2^120: a select by `rarely` takes what it has for them */
static int rounds; /* kernels so far whose blocks take their points in rounds */
static int calls;  /* kernels so far with a function for what is rarely so */

static double number(int64_t i, uint32_t kind)
{
	static const double rare[4] = { INFINITY, -INFINITY, NAN, -0.0 };
	double v = (double)(draw() % 4001) / 500 - 4;
	if (far && draw() % 3 == 0)
		return draw() % 40 ? ldexp(v, (int)(draw() % 118)) : rare[kind % 4];
	if (!specials)
		return v;
	if ((i / 40000 + kind) % 3 == 0) /* a whole row, or all but a few */
		return draw() % 9000 || kind % 2 ? -INFINITY : v;
	return draw() % 9000 ? v * 20 : rare[(kind + (uint32_t)(i / 30000)) % 4];
}

static void fill(uint8_t *at, enum stx_dtype t, int64_t n)
{
	int bytes = stx_dtype_bytes(t);
	uint32_t kind = draw() % 12;
	for (int64_t i = 0; i < n; i++) {
		double v = number(i, kind);
		uint64_t bits = stx_dtype_is_float(t) ? stx_scalar_bits(t, draw() % 97 ? v : -0.0)
				: t == STX_BOOL       ? draw() & 1
						      : draw() % 5;
		memcpy(at + i * bytes, &bits, (size_t)bytes);
	}
}

/* Sums may be in any order: results agree within a bound; all else to the bit. */
static int agree(const uint8_t *p, const uint8_t *q, enum stx_dtype t, int has_sums)
{
	uint64_t a = 0, b = 0;
	memcpy(&a, p, (size_t)stx_dtype_bytes(t));
	memcpy(&b, q, (size_t)stx_dtype_bytes(t));
	if (a == b || !stx_dtype_is_float(t))
		return a == b;
	double x = stx_scalar_from_bits(t, a), y = stx_scalar_from_bits(t, b);
	double rel = t == STX_F64 ? 1e-12 : t == STX_F32 ? 3e-5 : 2e-2;
	return (isnan(x) && isnan(y)) || (has_sums && fabs(x - y) <= rel * (fabs(x) + fabs(y) + 1));
}

static void check(const struct launch *l, void *program, unsigned shift)
{
	const struct stx_kernel *k = l->k;
	void *host[MOST_PARAMS], *args[16] = { 0 }, *eval[MOST_PARAMS];
	uint8_t *memory[MOST_PARAMS][2];
	int64_t elems[MOST_PARAMS], scalars[4] = { 0 };
	struct stx_bounds_record record = { 0 };
	struct stx_diag d = { 0 };
	stx_ex grid[3];
	unsigned blocks[3];
	int has_sums = 0;
	for (uint32_t i = 0; i < k->insts.n; i++)
		has_sums |= k->insts.at[i].op == STX_K_ACC;
	for (uint32_t i = 0; i < k->scalars.n; i++)
		scalars[i] = l->s->loops->g->symbols.at[k->scalars.at[i]].hint;
	for (uint32_t i = 0; i < k->params.n; i++) {
		enum stx_dtype t = k->params.at[i].dtype;
		size_t bytes = (size_t)stx_dtype_bytes(t);
		const struct stx_buffer *b = l->s->loops->buffers.at[k->params.at[i].buffer];
		elems[i] = stx_buffer_elems(l->s->loops, b, NULL);
		size_t all = (size_t)elems[i] * bytes + 3 * GUARD_BYTES;
		for (int j = 0; j < 2; j++) {
			memory[i][j] = aligned_alloc(64, (all + 63) / 64 * 64);
			memset(memory[i][j], 0x5a, all);
		}
		host[i] = memory[i][0] + GUARD_BYTES + shift * STX_GPU_ALIGN;
		eval[i] = memory[i][1] + GUARD_BYTES + shift * STX_GPU_ALIGN;
		fill(host[i], t, elems[i]);
		memcpy(memory[i][1], memory[i][0], all);
		args[i] = host[i];
	}
	for (uint32_t i = 0; i < k->scalars.n; i++)
		args[k->params.n + i] = (void *)(intptr_t)scalars[i];
	args[k->params.n + k->scalars.n] = &record;
	stx_gpu_grid(k, &l->c, grid);
	for (int i = 0; i < 3; i++)
		blocks[i] = (unsigned)stx_ex_hint(k->ex, grid[i]);
	/* Indices are random: a kernel that trusts them, or reports one, has no result. */
	int64_t points = stx_kernel_grid_points(k, scalars);
	int runs = !stx_kernel_evaluate(k, eval, elems, scalars, &record, 0, points, &d) &&
		   !record.taken;
	if (runs)
		cuda_host_launch(program, l->symbol, blocks, l->c.threads, l->c.cluster, args);
	char config[STX_GPU_CONFIG_BYTES];
	stx_gpu_config_print(&l->c, config);
	for (uint32_t i = 0; i < k->params.n; i++) {
		enum stx_dtype t = k->params.at[i].dtype;
		int64_t bytes = stx_dtype_bytes(t), lo = -GUARD_BYTES / bytes;
		for (int64_t j = lo; runs && j < elems[i] - lo; j++)
			if (!agree((uint8_t *)host[i] + j * bytes, (uint8_t *)eval[i] + j * bytes,
				   t, has_sums && j >= 0 && j < elems[i]))
				fail_msg("%s, %s, shifted by %u: parameter %u differs at %lld",
					 k->name, config, shift, i, (long long)j);
		free(memory[i][0]);
		free(memory[i][1]);
	}
}

/* Whether the source has an access of a whole run. */
static int has_runs(const char *source)
{
	return strstr(source, "load_<") || strstr(source, "store_<");
}

/* Worth more tests than others: it has runs, keeps a row, or shares it. */
static int is_wanted(const struct stx_gpu_config *c)
{
	return of_clusters ? c->cluster > 1 : c->vec > 1 || c->vec_y > 1 || c->persistent;
}

/* Every kernel of the graphs in its candidates and `more` other configurations that have runs, or
 * keep a row; operands that begin where memory does, and up to three STX_GPU_ALIGN later. */
static void run_all(const char *const *graphs, unsigned n, int more, int some_wide)
{
	struct stx_gpu_config *space = calloc(STX_TUNE_MAX_SPACE, sizeof *space);
	struct launch *at = calloc(MOST_RUNS, sizeof *at);
	struct stx_arena *arenas[64];
	struct stx_bytes program = { 0 };
	struct stx_gpu_target target;
	struct stx_diag d = { 0 };
	unsigned runs = 0, wide = 0, sums = 0;
	assert_int_equal(stx_gpu_target_parse(TARGET, &target, NULL), 0);
	for (unsigned g = 0; g < n; g++) {
		arenas[g] = stx_arena_new(0);
		struct stx_schedule *s = gpu_schedule_on(arenas[g], graphs[g], device);
		for (uint32_t j = 0; s && j < s->kernels.n; j++) {
			const struct stx_kernel *k = s->kernels.at[j];
			if (k->params.n > MOST_PARAMS || k->params.n + k->scalars.n > 14 ||
			    stx_gpu_sorts(k))
				continue;
			struct stx_gpu_choices c;
			uint32_t ns = stx_tune_space(k, &target.device, space, STX_TUNE_MAX_SPACE);
			assert_in_range(ns, 1, STX_TUNE_MAX_SPACE - 1);
			stx_tune_candidates(k, &target.device, &c);
			for (uint32_t m = 0; m < c.n + (uint32_t)more && runs < MOST_RUNS; m++) {
				struct launch *l = &at[runs];
				struct stx_digest digest;
				struct stx_bytes source = { 0 };
				*l = (struct launch){ .s = s, .k = k };
				l->c = m < c.n ? c.at[m] : space[draw() % ns];
				for (int t = 0; t < 200 && m >= c.n && !is_wanted(&l->c); t++)
					l->c = space[draw() % ns];
				assert_int_equal(stx_kernel_digest(k, &digest, NULL), 0);
				stx_gpu_symbol(&digest, &l->c, l->symbol);
				int known = 0;
				for (unsigned q = 0; q < runs; q++)
					known |= !strcmp(at[q].symbol, l->symbol);
				if (known)
					continue;
				if (stx_emit_cuda(k, &l->c, &source, &d))
					fail_msg("%s", d.text);
				wide += has_runs(stx_bytes_cstr(&source));
				sums += stx_gpu_rows_axis(k) != STX_NONE;
				rounds += strstr(stx_bytes_cstr(&source), "round < ") != NULL;
				calls += strstr(stx_bytes_cstr(&source), " = rarely") != NULL;
				cuda_host_add(&program, stx_bytes_cstr(&source), (int)runs++);
				stx_bytes_free(&source);
			}
		}
	}
	void *code = cuda_host_compile(&program);
	if (!code)
		fail_msg("the host's compiler refuses the source");
	for (unsigned i = 0; i < runs; i++) {
		check(&at[i], code, 0);
		check(&at[i], code, 1 + draw() % 3);
	}
	print_message("%u configurations, %u with runs\n", runs, wide);
	assert_true(!some_wide || wide * 4 >= runs);
	assert_true(!device || sums >= 2 * (n - 1)); /* graphs whose rows keep their column sums */
	dlclose(code);
	for (unsigned g = 0; g < n; g++)
		stx_arena_free(arenas[g]);
	stx_bytes_free(&program);
	free(space);
	free(at);
}

static void test_emit_cuda_pointwise_runs_agree_with_the_interpreter(void **unused)
{
	static const char *const graphs[] = {
		/* one, and a few elements; whole runs; a ragged end */
		"%x : bf16[4096] = placeholder()\n%y : bf16[4096] = placeholder()\n"
		"%a = mul.Tensor(%x, %y)\nreturn (%a,)\n",
		"%x : bf16[5003] = placeholder()\n%y : bf16[5003] = placeholder()\n"
		"%a = sub.Tensor(%x, %y)\nreturn (%a,)\n",
		"%x : f32[1] = placeholder()\n%a = neg.default(%x)\nreturn (%a,)\n",
		"%x : f16[17] = placeholder()\n%a = neg.default(%x)\nreturn (%a,)\n",
		/* types of every size beside each other; a bool is one byte and may be any */
		"%x : f32[3000] = placeholder()\n%y : bf16[3000] = placeholder()\n"
		"%m : bool[3000] = placeholder()\n%z : f64[3000] = placeholder()\n"
		"%p = mul.Tensor(%x, %y)\n%w = where.self(%m, %p, %x)\n%q = gt.Tensor(%z, %w)\n"
		"%i = _to_copy.default(%y, dtype=i8)\nreturn (%w, %q, %i)\n",
		/* a row's value, a scalar's, along runs; a bias whose length is one of whole runs, and
		 * one that is not */
		"%x : bf16[48,64] = placeholder()\n%b : bf16[64] = placeholder()\n"
		"%r : f32[48,1] = placeholder()\n%p = add.Tensor(%x, %b)\n%q = mul.Tensor(%p, %r)\n"
		"return (%q,)\n",
		"%x : f32[48,62] = placeholder()\n%b : f32[62] = placeholder()\n"
		"%r : f32[48,1] = placeholder()\n%p = add.Tensor(%x, %b)\n%q = mul.Tensor(%p, %r)\n"
		"return (%q,)\n",
		"%x : f32[500] = placeholder()\n%s : f32[] = placeholder()\n"
		"%a = mul.Tensor(%x, %s)\nreturn (%a,)\n",
		/* views: offsets and strides that no run fits, and ones that it does */
		"%x : f32[40,96] = placeholder()\n%y = slice.Tensor(%x, 1, 3, 67)\n"
		"%z = slice.Tensor(%x, 1, 32, 96)\n%a = add.Tensor(%y, %z)\nreturn (%a,)\n",
		"%x : bf16[40,96] = placeholder()\n%y = slice.Tensor(%x, 1, 0, 96, 2)\n"
		"%z = slice.Tensor(%x, 1, 48, 96)\n%a = add.Tensor(%y, %z)\nreturn (%a,)\n",
		"%x : f32[40,96] = placeholder()\n%f = flip.default(%x, [1])\n%a = add.Tensor(%x, "
		"%f)\nreturn (%a,)\n",
		"%x : f32[64,40] = placeholder()\n%i : i64[3000] = placeholder()\n"
		"%a = index_select.default(%x, 0, %i)\n%n = neg.default(%a)\nreturn (%n,)\n",
		"%x : f32[30,16] = placeholder()\n%y : f32[30,16] = placeholder()\n"
		"%a = cat.default([%x, %y], 1)\nreturn (%a,)\n",
		"%a = full.default([700], 3, dtype=f16)\nreturn (%a,)\n",
		"%x : bf16[3000] = placeholder()\n%g = gelu.default(%x)\n"
		"%o = native_dropout.default(%g, 0.5, True)\nreturn (%o,)\n",
		"%x : f32[3000] = placeholder()\n%l = log.default(%x)\n%t = tanh.default(%x)\n"
		"%s = sigmoid.default(%x)\n%g = gelu.default(%x)\nreturn (%l, %t, %s, %g)\n",
		"sym n = [1,100000] hint 4001\n%x : bf16[n] = placeholder()\n"
		"%y : f32[n] = placeholder()\n%a = add.Tensor(%x, %y)\nreturn (%a,)\n",
	};
	(void)unused;
	state = 1;
	run_all(graphs, sizeof graphs / sizeof *graphs, 2, 1);
	assert_true(rounds > 1);
}

static void test_emit_cuda_transposed_runs_agree_with_the_interpreter(void **unused)
{
	static const char *const graphs[] = {
		"%x : bf16[64,96] = placeholder()\n%t = t.default(%x)\n%a = clone.default(%t)\n"
		"return (%a,)\n",
		"%x : f32[72,104] = placeholder()\n%y : f32[104,72] = placeholder()\n"
		"%t = t.default(%x)\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
		"%x : f32[70,90] = placeholder()\n%t = t.default(%x)\n%a = clone.default(%t)\n"
		"return (%a,)\n",
		"%x : bf16[70,96] = placeholder()\n%y : f32[96,70] = placeholder()\n"
		"%t = t.default(%x)\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
		"%x : bf16[3,32,16,8] = placeholder()\n%w : bf16[32] = placeholder()\n"
		"%v = view.default(%w, [1, 32, 1, 1])\n%m = mul.Tensor(%x, %v)\n"
		"%p = permute.default(%m, [0, 2, 3, 1])\n%a = clone.default(%p)\nreturn (%a,)\n",
		"%x : f32[32,20,24] = placeholder()\n%y : f32[24,20,32] = placeholder()\n"
		"%t = permute.default(%x, [2, 1, 0])\n%a = add.Tensor(%t, %y)\nreturn (%a,)\n",
		"%x : i8[40,48] = placeholder()\n%t = t.default(%x)\n%a = clone.default(%t)\n"
		"return (%a,)\n",
	};
	(void)unused;
	state = 2;
	run_all(graphs, sizeof graphs / sizeof *graphs, 5, 1);
}

static void test_emit_cuda_rows_in_runs_agree_with_the_interpreter(void **unused)
{
	static const char *const graphs[] = {
		"%x : bf16[9,512] = placeholder()\n%s = sum.dim_IntList(%x, [1])\nreturn (%s,)\n",
		"%x : f32[3,4104] = placeholder()\n%s = sum.dim_IntList(%x, [1])\nreturn (%s,)\n",
		"%x : f32[5,1001] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
		"%x : bf16[5,1000] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
		"%x : bf16[3,4096] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
		"%x : bf16[4,2048] = placeholder()\n%w : bf16[2048] = placeholder()\n"
		"%b : bf16[2048] = placeholder()\n"
		"%y = layer_norm.default(%x, [2048], %w, %b, 1e-05)\nreturn (%y,)\n",
		"%x : f32[6,300] = placeholder()\n%m = argmax.default(%x, 1)\nreturn (%m,)\n",
		"%x : i8[6,2080] = placeholder()\n%m = sum.dim_IntList(%x, [1])\nreturn (%m,)\n",
		"%x : bf16[700,96] = placeholder()\n%m = sum.dim_IntList(%x, [0])\nreturn (%m,)\n",
		"%x : f32[40,70] = placeholder()\n%m = amax.default(%x, [0])\nreturn (%m,)\n",
		"%x : bf16[300,64] = placeholder()\n%g : bf16[300,64] = placeholder()\n"
		"%p = mul.Tensor(%x, %g)\n%a = sum.dim_IntList(%p, [0])\n"
		"%b = sum.dim_IntList(%g, [0])\nreturn (%a, %b)\n",
		"%x : f32[16,33000] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
	};
	(void)unused;
	state = 3;
	run_all(graphs, sizeof graphs / sizeof *graphs, 3, 1);
}

/* Clusters of 2, 4 and 8 blocks, of 1 to 32 warps; rows kept and looped over, with a ragged end and
 * with blocks beyond it; every monoid that has two states or three. */
static void test_emit_cuda_rows_over_clusters_agree_with_the_interpreter(void **unused)
{
	static const char *const graphs[] = {
		"%x : bf16[3,20001] = placeholder()\n%s = softmax.int(%x, -1)\nreturn (%s,)\n",
		"%x : f32[2,32768] = placeholder()\n%s = log_softmax.int(%x, -1)\nreturn (%s,)\n",
		"%x : bf16[2,9000] = placeholder()\n%w : bf16[9000] = placeholder()\n"
		"%y = layer_norm.default(%x, [9000], %w, %w, 1e-05)\nreturn (%y,)\n",
		"%x : f32[2,5000] = placeholder()\n%v = var_mean.correction(%x, [1])\n"
		"return (%v, %v:1)\n",
		"%x : f64[2,5000] = placeholder()\n%m = argmax.default(%x, 1)\n"
		"%s = sum.dim_IntList(%x, [1])\nreturn (%m, %s)\n",
		"%x : i32[2,5000] = placeholder()\n%m = amin.default(%x, [1], True)\n"
		"%d = sub.Tensor(%x, %m)\nreturn (%d,)\n",
		"%x : f32[16,33000] = placeholder()\n%s = logsumexp.default(%x, [1])\nreturn "
		"(%s,)\n",
		"sym n = [1,70000] hint 20003\n%x : f32[3,n] = placeholder()\n"
		"%s = softmax.int(%x, -1)\nreturn (%s,)\n",
	};
	(void)unused;
	state = 5;
	of_clusters = 1;
	run_all(graphs, sizeof graphs / sizeof *graphs, 2, 0);
	of_clusters = 0;
}

/* Rows whose columns are summed on the way: a row a block, several of a warp or more; ragged rows and
 * segments, columns that are no power of two; results of the rows that the columns' sums read. */
static void test_emit_cuda_rows_with_column_sums_agree_with_the_interpreter(void **unused)
{
	static const char *const graphs[] = {
		"%g : bf16[4,25,256] = placeholder()\n%x : bf16[4,25,256] = placeholder()\n"
		"%m : bf16[4,25,1] = placeholder()\n%s : bf16[4,25,1] = placeholder()\n"
		"%w : bf16[256] = placeholder()\n"
		"%y = native_layer_norm_backward.default(%g, %x, [256], %m, %s, %w, %w, "
		"[True, True, True])\nreturn (%y, %y:1, %y:2)\n",
		"%g : f32[20,1500] = placeholder()\n%x : f32[20,1500] = placeholder()\n"
		"%p = mul.Tensor(%g, %x)\n%r = amax.default(%p, [1], True)\n"
		"%q = mul.Tensor(%r, %x)\n%d = sub.Tensor(%g, %q)\n"
		"%c = sum.dim_IntList(%d, [0])\nreturn (%d, %c)\n",
		"%x : i32[5,60,40] = placeholder()\n%m = amax.default(%x, [2], True)\n"
		"%d = sub.Tensor(%m, %x)\n%c = sum.dim_IntList(%d, [0, 1])\n"
		"%b = amin.default(%x, [0, 1])\nreturn (%d, %c, %b)\n",
		"%x : f16[18,5000] = placeholder()\n%y = softmax.int(%x, -1)\n"
		"%c = sum.dim_IntList(%x, [0])\nreturn (%y, %c)\n",
		"%x : f64[300,33] = placeholder()\n%r = sum.dim_IntList(%x, [1])\n"
		"%c = sum.dim_IntList(%x, [0])\nreturn (%r, %c)\n",
		/* no reduction along the rows: points are columns of segments, rows of two axes */
		"%g : bf16[7,149,40] = placeholder()\n%x : bf16[7,149,40] = placeholder()\n"
		"%d = mul.Tensor(%g, %x)\n%c = sum.dim_IntList(%d, [0, 1])\n"
		"%b = sum.dim_IntList(%g, [0, 1])\nreturn (%d, %c, %b)\n",
	};
	(void)unused;
	static const struct stx_device small = { 2, 32, 2048 };
	state = 6;
	device = &small;
	run_all(graphs, sizeof graphs / sizeof *graphs, 1, 1);
	device = NULL;
}

/* Functions of large arguments: of one and of two values, of values that later loops take again. */
static void test_emit_cuda_rare_parts_agree_with_the_interpreter(void **unused)
{
	static const char *const graphs[] = {
		"%x : f32[4099] = placeholder()\n%s = sin.default(%x)\nreturn (%s,)\n",
		"%x : bf16[4096] = placeholder()\n%s = sin.default(%x)\n%c = cos.default(%x)\n"
		"return (%s, %c)\n",
		"%x : f64[1000] = placeholder()\n%t = tan.default(%x)\n%s = sin.default(%x)\n"
		"return (%t, %s)\n",
		"%x : f32[500] = placeholder()\n%y : f32[500] = placeholder()\n"
		"%s = sin.default(%x)\n%t = tan.default(%y)\n%m = mul.Tensor(%s, %t)\n"
		"%c = cos.default(%m)\nreturn (%c,)\n",
		"%x : f32[6,300] = placeholder()\n%c = cos.default(%x)\n"
		"%s = softmax.int(%c, -1)\nreturn (%s,)\n",
		"%x : f32[3,4104] = placeholder()\n%c = cos.default(%x)\n"
		"%s = amax.default(%x, [1], True)\n%t = sin.default(%s)\n%d = sub.Tensor(%c, "
		"%t)\nreturn (%d,)\n",
	};
	(void)unused;
	state = 7;
	far = 1;
	run_all(graphs, sizeof graphs / sizeof *graphs, 2, 0);
	far = 0;
	assert_true(calls >= 12);
}

/* MR-05: rows of -inf, of infinities, with NaN: (max, sum of exp) as merging one by one gives them. */
static void test_emit_cuda_online_softmax_of_infinities_and_nan(void **unused)
{
	static const char *const graphs[] = {
		"%x : f32[16,33001] = placeholder()\n%s = logsumexp.default(%x, [1])\nreturn "
		"(%s,)\n",
		"%x : bf16[16,40000] = placeholder()\n%f = _to_copy.default(%x, dtype=f32)\n"
		"%s = log_softmax.int(%f, -1)\nreturn (%s,)\n",
	};
	(void)unused;
	state = 4;
	specials = 1;
	run_all(graphs, sizeof graphs / sizeof *graphs, 1, 0);
	specials = 0;
}

/* What random graphs become: STX_CUDA_GRAPHS of them from STAX_TEST_SEED on. */
static void test_emit_cuda_random_kernels_agree_with_the_interpreter(void **unused)
{
	const char *number = getenv("STX_CUDA_GRAPHS"), *from = getenv("STAX_TEST_SEED");
	unsigned n = number ? (unsigned)atoi(number) : 12;
	(void)unused;
	n = n < 1 ? 1 : n > 64 ? 64 : n;
	const char *graphs[64];
	struct stx_arena *a = stx_arena_new(0);
	uint64_t seed = from ? strtoull(from, NULL, 10) : 1;
	state = seed;
	seed = seed * 0x9e3779b97f4a7c15u | 1;
	for (unsigned i = 0; i < n; i++)
		graphs[i] = gen_print(a, i % 4 ? gen_random(a, &seed, 4)
					       : gen_random_dynamic(a, &seed, 4));
	run_all(graphs, n, 1, 0);
	stx_arena_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_cuda_pointwise_runs_agree_with_the_interpreter),
		cmocka_unit_test(test_emit_cuda_transposed_runs_agree_with_the_interpreter),
		cmocka_unit_test(test_emit_cuda_rows_in_runs_agree_with_the_interpreter),
		cmocka_unit_test(test_emit_cuda_rows_over_clusters_agree_with_the_interpreter),
		cmocka_unit_test(test_emit_cuda_rows_with_column_sums_agree_with_the_interpreter),
		cmocka_unit_test(test_emit_cuda_rare_parts_agree_with_the_interpreter),
		cmocka_unit_test(test_emit_cuda_online_softmax_of_infinities_and_nan),
		cmocka_unit_test(test_emit_cuda_random_kernels_agree_with_the_interpreter),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
