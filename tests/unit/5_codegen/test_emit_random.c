/* test_emit_random.c: random kernels, interpreted value by value with stx_prim_eval, against their
 * code at every level. Lengths, types, masks, addresses, inner loops and split grids vary. */
#include "jit.h"

#include <math.h>

#include "elementary.h"
#include "scalar.h"

#define ROWS      3
#define MAX_N     150
#define N_PARAMS  6
#define MAX_BYTES ((ROWS * MAX_N + 64) * 8)

static uint64_t seed;

static uint32_t pick(uint32_t n)
{
	return (uint32_t)(jit_random(&seed) >> 33) % n;
}

static const enum stx_dtype dtypes[] = { STX_F32, STX_F32, STX_F64, STX_I32,  STX_I64, STX_U8,
					 STX_I8,  STX_U32, STX_I16, STX_BOOL, STX_F16, STX_BF16 };

static int is_narrow(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4;
}

/* ---- generation ---- */

struct gen {
	struct stx_bytes text;
	enum stx_dtype param[N_PARAMS]; /* the last two are written */
	enum stx_dtype type[256];       /* of value tN */
	uint32_t n;                     /* values so far */
	int64_t size;                   /* of the axis when it is constant, or 0 */
	int in_loop;
};

static int find(const struct gen *g, enum stx_dtype t)
{
	int found = -1;
	uint32_t seen = 0;
	for (uint32_t i = 0; i < g->n; i++)
		if (g->type[i] == t && pick(++seen) == 0)
			found = (int)i;
	return found;
}

static uint32_t any_value(const struct gen *g)
{
	uint32_t v;
	do
		v = pick(g->n);
	while (g->type[v] == STX_DTYPE_NONE); /* the LOOP */
	return v;
}

static uint32_t put(struct gen *g, enum stx_dtype t)
{
	stx_bytes_printf(&g->text, "t%u = ", g->n);
	g->type[g->n] = t;
	return g->n++;
}

static void put_address(struct gen *g)
{
	static const char *const forms[] = { "150*x0 + x1",   "150*x0 + x1", "150*x0 + x1",
					     "150*x0",        "x1",          "2*x1 + x0",
					     "149 - x1 + x0", "x1 // 4",     "(x1 + x0) % 7" };
	static const char *const outside[] = { "150*x0", "x0 + 7", "3" };
	stx_bytes_puts(&g->text, g->in_loop ? forms[pick(9)] : outside[pick(3)]);
}

static void put_load(struct gen *g)
{
	uint32_t p = pick(N_PARAMS - 2);
	int mask = find(g, STX_BOOL);
	put(g, g->param[p]);
	stx_bytes_printf(&g->text, "load %s p%u[", stx_dtype_name(g->param[p]), p);
	put_address(g);
	stx_bytes_puts(&g->text, "]");
	if (mask >= 0 && pick(3) == 0)
		stx_bytes_printf(&g->text, " mask t%d", mask);
	stx_bytes_puts(&g->text, "\n");
}

static void put_constant(struct gen *g)
{
	enum stx_dtype t = dtypes[pick(sizeof dtypes / sizeof *dtypes)];
	put(g, t);
	if (stx_dtype_is_float(t))
		stx_bytes_printf(&g->text, "const %s %a\n", stx_dtype_name(t),
				 stx_scalar_round(t, ((int)pick(64) - 32) * 0.375));
	else
		stx_bytes_printf(&g->text, "const %s %u\n", stx_dtype_name(t),
				 t == STX_BOOL ? pick(2) : pick(100));
}

static void put_index(struct gen *g)
{
	static const char *const forms[] = { "3*x1 - 2*x0 - 40", "x1 - 5", "7 - x1", "x1" };
	enum stx_dtype t = dtypes[pick(sizeof dtypes / sizeof *dtypes)];
	put(g, t);
	stx_bytes_printf(&g->text, "index %s %s\n", stx_dtype_name(t),
			 g->in_loop ? forms[pick(4)] : "x0 - 1");
}

static void put_cast(struct gen *g)
{
	uint32_t from = any_value(g);
	enum stx_dtype to = dtypes[pick(sizeof dtypes / sizeof *dtypes)];
	put(g, to);
	stx_bytes_printf(&g->text, "cast %s t%u\n", stx_dtype_name(to), from);
}

static void put_prim(struct gen *g)
{
	for (int tries = 0; tries < 20; tries++) {
		enum stx_prim op = (enum stx_prim)pick(STX_P_FIRST_ELEMENTARY);
		const struct stx_prim_info *info = stx_prim_info(op);
		enum stx_dtype t = g->type[any_value(g)];
		int select = op == STX_P_SELECT;
		if (op == STX_P_CAST || op == STX_P_BITCAST || op == STX_P_FMA ||
		    !stx_prim_accepts(op, t) || (is_narrow(t) && !select))
			continue;
		int a[3] = { select ? find(g, STX_BOOL) : find(g, t), find(g, t), find(g, t) };
		if (a[0] < 0)
			continue;
		enum stx_dtype to = info->result == STX_RESULT_BOOL ? STX_BOOL : t;
		put(g, to);
		stx_bytes_printf(&g->text, "%s %s", info->text, stx_dtype_name(to));
		for (int i = 0; i < info->arity; i++)
			stx_bytes_printf(&g->text, " t%d", a[i]);
		stx_bytes_puts(&g->text, "\n");
		return;
	}
}

static void put_store(struct gen *g, uint32_t p)
{
	int v = find(g, g->param[p]), mask = find(g, STX_BOOL);
	if (v < 0) {
		uint32_t from = any_value(g);
		v = (int)put(g, g->param[p]);
		stx_bytes_printf(&g->text, "cast %s t%u\n", stx_dtype_name(g->param[p]), from);
	}
	stx_bytes_printf(&g->text, "store %s p%u[%s] t%d", stx_dtype_name(g->param[p]), p,
			 p == N_PARAMS - 1 ? "150*x0 + x1" : "149 - x1 + 150*x0", v);
	if (mask >= 0 && pick(3) == 0)
		stx_bytes_printf(&g->text, " mask t%d", mask);
	stx_bytes_puts(&g->text, "\n");
}

static void generate(struct gen *g)
{
	memset(g, 0, sizeof *g);
	stx_bytes_printf(&g->text,
			 "kernel \"k\" poi bits %d target cpu\nscalar s0 range 0 150 hint 64\n",
			 pick(2) ? 32 : 64);
	for (uint32_t p = 0; p < N_PARAMS; p++) {
		g->param[p] = dtypes[pick(sizeof dtypes / sizeof *dtypes)];
		stx_bytes_printf(&g->text, "param p%u %s %s elems 1000 \"p\"\n", p,
				 stx_dtype_name(g->param[p]), p < N_PARAMS - 2 ? "read" : "write");
	}
	static const int64_t sizes[] = { 1, 5, 16, 37, 64, 150 };
	if (pick(2))
		g->size = sizes[pick(6)];
	if (g->size)
		stx_bytes_printf(&g->text, "axis x0 grid 3\naxis x1 vector %d\n", (int)g->size);
	else
		stx_bytes_puts(&g->text, "axis x0 grid 3\naxis x1 vector s0\n");
	stx_bytes_puts(&g->text, "grain 1\nbegin\n");
	put_constant(g);
	for (uint32_t i = pick(4); i-- > 0;)
		pick(2) ? put_load(g) : put_index(g);
	stx_bytes_puts(&g->text, "loop x1\n");
	g->n++; /* the LOOP has a number too: values are renamed by the parser */
	g->type[g->n - 1] = STX_DTYPE_NONE;
	g->in_loop = 1;
	for (uint32_t i = 3 + pick(25); i-- > 0;) {
		switch (pick(8)) {
		case 0:
		case 1: put_load(g); break;
		case 2: put_constant(g); break;
		case 3: put_index(g); break;
		case 4: put_cast(g); break;
		default: put_prim(g);
		}
	}
	put_store(g, N_PARAMS - 2);
	put_store(g, N_PARAMS - 1);
	stx_bytes_puts(&g->text, "end\nend\n");
}

/* ---- interpretation ---- */

static void interpret(const struct stx_kernel *k, void *const *buffers, int64_t n)
{
	union stx_scalar v[300];
	uint32_t loop = 0;
	while (k->insts.at[loop].op != STX_K_LOOP)
		loop++;
	for (int64_t x0 = 0; x0 < ROWS; x0++)
		for (int64_t x1 = 0; x1 < n; x1++) {
			int64_t vars[2] = { x0, x1 };
			struct stx_ex_env env = { vars, &n, NULL, 2, 1, 0 };
			for (uint32_t i = 0; i < k->insts.n; i++) {
				const struct stx_kinst *q = &k->insts.at[i];
				enum stx_dtype t = (enum stx_dtype)q->dtype;
				int ok = 1, off = 0;
				int64_t at = q->op == STX_K_LOAD || q->op == STX_K_STORE ||
							     q->op == STX_K_INDEX
						     ? stx_ex_eval(k->ex, q->ex, &env, &ok)
						     : 0;
				size_t bytes = (size_t)at * (size_t)stx_dtype_bytes(t);
				assert_true(ok && i < 300);
				if (q->op == STX_K_LOAD || q->op == STX_K_STORE)
					off = q->c != STX_NONE && !v[q->c].i;
				switch (q->op) {
				case STX_K_LOOP:
				case STX_K_END: break;
				case STX_K_CONST: v[i] = q->k; break;
				case STX_K_INDEX:
					v[i] = stx_prim_eval(STX_P_CAST, t, STX_I64,
							     (union stx_scalar){ .i = at }, v[0],
							     v[0]);
					break;
				case STX_K_LOAD:
					v[i] = off ? (union stx_scalar){ .u = 0 }
						   : stx_scalar_load(t, (uint8_t *)buffers[q->a] +
										bytes);
					break;
				case STX_K_STORE:
					if (!off)
						stx_scalar_store(t,
								 (uint8_t *)buffers[q->a] + bytes,
								 v[q->b]);
					break;
				default: {
					const union stx_scalar none = { .u = 0 };
					v[i] = stx_prim_eval(
						(enum stx_prim)q->op, t,
						(enum stx_dtype)k->insts.at[q->a].dtype, v[q->a],
						q->b == STX_NONE ? none : v[q->b],
						q->c == STX_NONE ? none : v[q->c]);
				}
				}
			}
		}
}

static void compare(const struct gen *g, const char *target, int64_t n, uint32_t p,
		    const uint8_t *got, const uint8_t *want)
{
	enum stx_dtype t = g->param[p];
	size_t size = (size_t)stx_dtype_bytes(t);
	for (size_t i = 0; i < 1000; i++) {
		union stx_scalar a = stx_scalar_load(t, got + i * size),
				 b = stx_scalar_load(t, want + i * size);
		if (stx_dtype_is_float(t) && isnan(a.f) && isnan(b.f))
			continue;
		if (memcmp(got + i * size, want + i * size, size))
			fail_msg("%s, n %lld, p%u[%zu]: got %a (%llx), want %a (%llx) in\n%s",
				 target, (long long)n, p, i, a.f, (unsigned long long)a.u, b.f,
				 (unsigned long long)b.u, (const char *)g->text.at);
	}
}

static void check(struct gen *g)
{
	static const int64_t lengths[] = { 0, 1, 3, 17, 64, 67, 127, 150 };
	static uint8_t in[N_PARAMS][8 * 1000], got[2][8 * 1000], want[2][8 * 1000];
	struct stx_arena *a = stx_arena_new(0);
	struct stx_kernel *k = jit_parse(a, stx_bytes_cstr(&g->text));
	for (uint32_t p = 0; p < N_PARAMS; p++)
		for (size_t i = 0; i < 1000; i++) {
			enum stx_dtype t = g->param[p];
			union stx_scalar v = { .u = jit_random(&seed) >> pick(60) };
			if (stx_dtype_is_float(t))
				v.f = pick(16) ? stx_scalar_round(
							 t, ((double)(int64_t)v.u) * 0x1p-20 - 5)
					       : stx_scalar_from_bits(t, v.u);
			else
				v = stx_scalar_wrap(t, v.u);
			stx_scalar_store(t, in[p] + i * (size_t)stx_dtype_bytes(t), v);
		}
	for (const char *const *target = jit_targets(); *target; target++) {
		stx_kernel_fn *fn = jit_kernel(*target, (const char *)g->text.at);
		for (size_t l = 0; l < (g->size ? 1 : sizeof lengths / sizeof *lengths); l++) {
			int64_t n = g->size ? g->size : lengths[l];
			void *code[N_PARAMS] = { in[0], in[1], in[2], in[3], got[0], got[1] };
			void *plain[N_PARAMS] = { in[0], in[1], in[2], in[3], want[0], want[1] };
			memset(got, 0, sizeof got);
			memset(want, 0, sizeof want);
			jit_run(fn, code, &n, 0, 2);
			jit_run(fn, code, &n, 2, ROWS);
			interpret(k, plain, n);
			for (uint32_t p = 0; p < 2; p++)
				compare(g, *target, n, N_PARAMS - 2 + p, got[p], want[p]);
		}
	}
	stx_arena_free(a);
}

static void test_emit_random_kernels_equal_their_interpretation(void **state)
{
	const char *text = getenv("STAX_TEST_SEED"), *count = getenv("STAX_TEST_COUNT");
	uint64_t first = text ? strtoull(text, NULL, 0) : 1;
	int n = count ? atoi(count) : 60;
	(void)state;
	for (int i = 0; i < n; i++) {
		struct gen g;
		seed = (first + (uint64_t)i) * 0x9e3779b97f4a7c15u;
		print_message("%s%llu", i ? " " : "seeds ",
			      (unsigned long long)first + (unsigned)i);
		generate(&g);
		check(&g);
		stx_bytes_free(&g.text);
	}
	print_message("\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_emit_random_kernels_equal_their_interpretation),
	};
	return cmocka_run_group_tests(tests, jit_setup, jit_teardown);
}
