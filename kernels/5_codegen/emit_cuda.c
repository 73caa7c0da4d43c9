/* emit_cuda.c: one kernel, one configuration, as CUDA C text (seed 003 9.2: signature and
 * constants; indices and masks; computation; reduction and store). emit_cuda.h has the scheme. */
#include "emit_cuda.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "scalar.h"

#define FEW 4 /* elements that hide each other's latencies */

stx_err stx__cuda_fail(struct stx__cuda *e, stx_err err, const char *fmt, ...)
{
	va_list ap;
	if (e->err)
		return e->err;
	va_start(ap, fmt);
	e->err = stx_vfail(e->d, err, "cuda", e->k->name, fmt, ap);
	va_end(ap);
	return e->err;
}

const char *stx__cuda_type(enum stx_dtype t)
{
	if (t == STX_BOOL)
		return "bool";
	if (stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4)
		return stx_dtype_bytes(t) == 2 ? "u16" : "u8";
	return stx_dtype_name(t);
}

/* ---- literals and values ---- */

static void float_literal(enum stx_dtype t, double v, struct stx_bytes *out)
{
	if (t == STX_F64 && (isnan(v) || isinf(v)))
		stx_bytes_puts(out, isnan(v) ? "__longlong_as_double(0x7ff8000000000000LL)"
				    : v > 0  ? "__longlong_as_double(0x7ff0000000000000LL)"
					     : "__longlong_as_double(0xfff0000000000000LL)");
	else if (isnan(v) || isinf(v))
		stx_bytes_puts(out, isnan(v) ? "__int_as_float(0x7fc00000)"
				    : v > 0  ? "__int_as_float(0x7f800000)"
					     : "__int_as_float(0xff800000)");
	else
		stx_bytes_printf(out, signbit(v) ? "(%a%s)" : "%a%s", v, t == STX_F32 ? "f" : "");
}

void stx__cuda_literal(struct stx__cuda *e, enum stx_dtype t, union stx_scalar v,
		       struct stx_bytes *out)
{
	(void)e;
	if (t == STX_BOOL)
		stx_bytes_puts(out, v.i ? "true" : "false");
	else if (stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4)
		stx_bytes_printf(out, "(%s)%lluu", stx__cuda_type(t),
				 (unsigned long long)stx_scalar_bits(t, v.f));
	else if (stx_dtype_is_float(t))
		float_literal(t, v.f, out);
	else if (stx_dtype_kind(t) == STX_KIND_UINT)
		stx_bytes_printf(out, "(%s)%lluull", stx__cuda_type(t), (unsigned long long)v.u);
	else if (v.i == INT64_MIN)
		stx_bytes_puts(out, "(-9223372036854775807ll - 1)");
	else
		stx_bytes_printf(out, "(%s)(%lldll)", stx__cuda_type(t), (long long)v.i);
}

/* Subscript of a value of that level in the loop over the elements of the current stage. */
static void subscript(const struct stx__cuda *e, uint8_t level, struct stx_bytes *out)
{
	int inside = e->region->loop != STX_NONE;
	if (level == STX__ROW && e->rows > 1)
		stx_bytes_puts(out, inside && e->iters > 1 ? "[row]" : "[e]");
	else if (level == STX__ROW)
		stx_bytes_puts(out, "[0]");
	else
		stx_bytes_puts(out, "[e]");
}

void stx__cuda_value(struct stx__cuda *e, uint32_t n, struct stx_bytes *out)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	n = e->info[n].same;
	if (i->op == STX_K_CONST) {
		stx__cuda_literal(e, (enum stx_dtype)i->dtype, i->k, out);
	} else if (i->op == STX_K_RESULT) {
		stx_bytes_printf(out, "a%u_%u", i->a, i->flags);
		if (!e->in_rare)
			subscript(e, stx__cuda_is_row(e, i->a) ? STX__ELEMENT : STX__ROW, out);
	} else {
		if (e->info[n].rare && !e->in_rare)
			stx_bytes_printf(out, "r%u.", e->info[n].rare - 1);
		stx_bytes_printf(out, "t%u", n);
		if (e->info[n].is_array && !e->in_rare)
			subscript(e, e->info[n].level, out);
	}
}

/* ---- regions ---- */

/* 1 when every block is full along the axis. */
static int divides(const struct stx__cuda *e, uint32_t axis, uint32_t block)
{
	int64_t n;
	return stx_ex_is_const(e->k->ex, e->k->axes.at[axis].size, &n) && n > 0 && n % block == 0;
}

/* Iterations of the reduction that are taken without asking whether any are left. */
static uint32_t round_length(const struct stx__cuda *e)
{
	return e->c->persistent ? e->c->r * e->c->cluster : e->c->r;
}

/* The last segment of a cut reduction is shorter: its row has a length of its own (RD-27). */
static int varies(const struct stx__cuda *e, uint32_t axis)
{
	return stx_ex_uses_kind(e->k->ex, e->k->axes.at[axis].size, STX_ATOM_VAR);
}

static void put_axis(struct stx__cuda *e, uint32_t axis, const char *at)
{
	stx_bytes_printf(e->out, "    const %s %s = %s;\n", e->wide ? "i64" : "i32",
			 e->k->axes.at[axis].name, at);
}

/* Where the i-th of a thread's elements lies along an axis: "xoffset + tx + i*NX"; its run, where
 * elements have runs. */
static void place_run(const struct stx__cuda *e, uint32_t axis, const char *i, char out[160])
{
	char c = e->k->axes.at[axis].name[0], n = c >= 'x' ? (char)(c - 'x' + 'X') : 'R';
	uint32_t run = stx__cuda_run(e, axis);
	if (run > 1)
		snprintf(out, 160, "%coffset + (t%c + %s / %u * N%c)*%u", c, c, i, run, n, run);
	else
		snprintf(out, 160, "%coffset + t%c + %s*N%c", c, c, i, n);
}

static void place(const struct stx__cuda *e, uint32_t axis, const char *i, char out[160])
{
	uint32_t run = stx__cuda_run(e, axis);
	place_run(e, axis, i, out);
	if (run > 1)
		snprintf(out + strlen(out), 160 - strlen(out), " + %s %% %u", i, run);
}

/* A run is within the axis, or beyond it, as a whole where the axis has whole ones: one comparison
 * for its elements. */
static void add_mask(struct stx__cuda *e, uint32_t axis, uint32_t block, const char *i,
		     struct stx_bytes *ok)
{
	const struct stx_axis *a = &e->k->axes.at[axis];
	uint32_t run = stx__cuda_run(e, axis);
	char at[160];
	if (divides(e, axis, block))
		return;
	snprintf(at, sizeof at, "%s", a->name);
	if (run > 1 && stx_gpu_is_whole_runs(e->k, axis, run))
		place_run(e, axis, i, at);
	stx_bytes_printf(ok, "%s%s < ", ok->n ? " && " : "", at);
	if (varies(e, axis))
		stx__cuda_index(e, a->size, ok);
	else
		stx_bytes_printf(ok, "%cnumel", a->name[0]);
}

/* The loop over the thread's elements, its axis variables and their mask. ok: its name. `along`:
 * STX_NONE, or the axis whose runs it steps over, a run at a time. */
static const char *open_elements(struct stx__cuda *e, uint32_t along)
{
	const struct stx_gpu_config *c = e->c;
	int inside = e->region->loop != STX_NONE;
	uint32_t n = inside ? e->rows * e->iters : e->rows, ex = c->x / e->nx, ey = c->y / e->ny;
	uint32_t run = along == STX_NONE ? 1 : stx__cuda_run(e, along);
	uint32_t step = along == STX_NONE ? 1 : stx__cuda_run_step(e, along);
	struct stx_bytes ok = { 0 };
	char at[160], i[64];
	stx_bytes_printf(e->out, "  #pragma unroll\n  for (int e = 0; e < %u; e%s", n,
			 run == 1 || step > 1 ? "++) {\n" : "");
	if (run > 1 && step == 1)
		stx_bytes_printf(e->out, " += %u) {\n", run);
	else if (run > 1)
		stx_bytes_printf(e->out, "    if (e / %u %% %u != 0) continue;\n", step, run);
	const char *row = "e";
	if (inside && e->rows > 1 && e->iters > 1) {
		stx_bytes_printf(e->out, "    const int row = e / %u;\n", e->iters);
		row = "row";
	} else if (inside && e->rows == 1) {
		row = "0";
	}
	snprintf(i, sizeof i, e->ngrid == 1 ? "%s" : "(%s %% %u)", row, ex);
	place(e, 0, i, at);
	put_axis(e, 0, e->saxis == STX_NONE ? at : "xoffset");
	if (e->saxis == STX_NONE)
		add_mask(e, 0, c->x, i, &ok);
	if (e->region->in_rows) {
		snprintf(at, sizeof at, "soffset + %u%s", e->ahead * c->x, c->x > 1 ? " + tx" : "");
		put_axis(e, e->saxis, at);
		if (c->x > 1 || e->ahead)
			stx_bytes_printf(&ok, "%s < rows", e->k->axes.at[e->saxis].name);
	}
	if (e->ngrid > 1) {
		snprintf(i, sizeof i, "(%s / %u %% %u)", row, ex, ey);
		place(e, 1, i, at);
		put_axis(e, 1, at);
		add_mask(e, 1, c->y, i, &ok);
	}
	if (e->ngrid > 2) {
		snprintf(i, sizeof i, "(%s / %u)", row, ex * ey);
		place(e, 2, i, at);
		put_axis(e, 2, at);
		add_mask(e, 2, c->z, i, &ok);
	}
	if (inside) {
		snprintf(i, sizeof i, e->iters > 1 ? "(e %% %u)" : "0", e->iters);
		place(e, e->raxis, i, at);
		put_axis(e, e->raxis, at);
		add_mask(e, e->raxis, round_length(e), i, &ok);
	}
	int masked = ok.n > 0;
	if (masked)
		stx_bytes_printf(e->out, "    const bool ok = %s;\n", stx_bytes_cstr(&ok));
	stx_bytes_free(&ok);
	return masked ? "ok" : "true";
}

static int is_emitted(const struct stx__cuda *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	return e->info[n].level > STX__BLOCK && e->info[n].same == n && !e->info[n].rare &&
	       i->op != STX_K_ACC && i->op != STX_K_RESULT && i->op != STX_K_CONST &&
	       i->op != STX_K_SORT;
}

static void put_arrays(struct stx__cuda *e, const struct stx__region *r)
{
	for (uint32_t n = r->begin; n < r->end; n++) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		uint32_t size = e->info[n].level == STX__ROW ? e->rows : e->rows * e->iters;
		if (!e->info[n].is_array || e->info[n].same != n)
			continue;
		stx_bytes_printf(e->out, "  %s t%u[%u];\n",
				 stx__cuda_type((enum stx_dtype)i->dtype), n, size);
		if (i->op == STX_K_INDIRECT)
			stx_bytes_printf(e->out, "  bool ot%u[%u];\n", n, size);
	}
}

/* Instructions of the stage that are wide along the axis (STX_NONE: along none), in one loop over
 * the elements; by_runs: over their runs. */
static void put_elements(struct stx__cuda *e, uint32_t stage, uint32_t axis, int by_runs)
{
	const struct stx__region *r = e->region;
	const char *ok = NULL;
	for (uint32_t n = r->first[stage]; n != STX_NONE && !e->err; n = e->info[n].next) {
		uint32_t wide = e->info[n].wide;
		if (!is_emitted(e, n) || wide != (axis == STX_NONE ? 0 : axis + 1))
			continue;
		if (!ok)
			ok = open_elements(e, by_runs ? axis : STX_NONE);
		if (!by_runs)
			stx__cuda_inst(e, n, ok);
		else if (e->k->insts.at[n].op == STX_K_LOAD)
			stx__cuda_run_load(e, n, ok);
		else
			stx__cuda_run_store(e, n, ok);
	}
	if (ok)
		stx_bytes_puts(e->out, "  }\n");
}

/* The next rows' elements of the stage's loads along runs; before these, which may wait. */
static void put_ahead(struct stx__cuda *e, uint32_t stage)
{
	const char *ok = NULL;
	e->ahead = 1;
	for (uint32_t n = e->region->first[stage]; n != STX_NONE && !e->err; n = e->info[n].next) {
		const struct stx_kinst *i = &e->k->insts.at[n];
		if (!is_emitted(e, n) || i->op != STX_K_LOAD || e->info[n].wide != e->raxis + 1 ||
		    e->info[n].is_same || !stx_ex_uses_var(e->k->ex, i->ex, e->saxis) ||
		    stx_ex_uses_kind(e->k->ex, i->ex, STX_ATOM_INDIRECT))
			continue;
		if (!ok)
			ok = open_elements(e, e->raxis);
		stx__cuda_run_ahead(e, n, ok);
	}
	if (ok)
		stx_bytes_puts(e->out, "  }\n");
	e->ahead = 0;
}

static int has_wide(const struct stx__cuda *e, uint32_t stage, uint32_t axis)
{
	for (uint32_t n = e->region->first[stage]; n != STX_NONE; n = e->info[n].next)
		if (is_emitted(e, n) && e->info[n].wide == axis + 1)
			return 1;
	return 0;
}

static void put_stage(struct stx__cuda *e, uint32_t stage)
{
	if (stage == 0 && e->c->ahead && e->region->in_rows && e->region->loop != STX_NONE)
		put_ahead(e, stage);
	for (uint32_t axis = 0; axis < e->k->axes.n && e->has_runs; axis++) {
		if (!has_wide(e, stage, axis))
			continue;
		if (e->has_ends)
			stx_bytes_puts(e->out, "  if (full) {\n");
		put_elements(e, stage, axis, 1);
		if (!e->has_ends)
			continue;
		stx_bytes_puts(e->out, "  } else {\n");
		put_elements(e, stage, axis, 0);
		stx_bytes_puts(e->out, "  }\n");
	}
	put_elements(e, stage, STX_NONE, 0);
}

/* All threads of the block, on its one row. */
static void put_sort(struct stx__cuda *e, const struct stx_kinst *i)
{
	const char *type = e->wide ? "i64" : "i32";
	e->needs |= STX__NEED_SORT;
	stx_bytes_printf(e->out, "  {\n    const %s %s = xoffset;\n    const %s first = ", type,
			 e->k->axes.at[0].name, type);
	stx__cuda_index(e, i->ex, e->out);
	stx_bytes_printf(e->out, ";\n    sort_pairs(p%u + first, p%u + first, (u32)(", i->a, i->b);
	stx__cuda_index(e, e->k->axes.at[i->c].size, e->out);
	stx_bytes_puts(e->out, "));\n  }\n");
}

enum moment { OPEN, ROUND, FINISH }; /* of a loop: before it, at the end of each round, after it */

/* Each accumulator has one update. */
static void each_update(struct stx__cuda *e, const struct stx__region *r, enum moment m)
{
	struct stx_bytes after = { 0 };
	e->after = &after;
	for (uint32_t n = r->begin; n < r->end; n++) {
		uint32_t acc = e->k->insts.at[n].a;
		if (e->k->insts.at[n].op != STX_K_UPDATE || stx__cuda_is_row(e, acc))
			continue;
		if (m == OPEN)
			stx__cuda_chunk_open(e, acc);
		else
			stx__cuda_chunk_close(e, acc, m == FINISH);
		if (m == FINISH)
			stx__cuda_acc_finish(e, acc);
	}
	if (after.n)
		stx_bytes_puts(e->out, "  __syncthreads();\n");
	stx_bytes_put(e->out, after.at, after.n);
	e->out->oom |= after.oom;
	e->after = NULL;
	stx_bytes_free(&after);
}

/* The block's rounds over the reduction. */
static void open_loop(struct stx__cuda *e)
{
	const char *type = e->wide ? "i64" : "i32";
	char first[32] = "0";
	if (e->c->cluster > 1)
		snprintf(first, sizeof first, "part * %u", e->c->r);
	if (e->c->persistent)
		stx_bytes_printf(e->out, "  {\n  const int roffset = %s;\n", first);
	else
		stx_bytes_printf(e->out,
				 "  for (%s roffset = %s; roffset < rnumel; roffset += %u) {\n",
				 type, first, e->c->r * e->c->cluster);
}

/* The rows of the block's segment, c->x at once. */
static void open_rows(struct stx__cuda *e)
{
	const struct stx_axis *a = &e->k->axes.at[e->saxis];
	const char *type = e->wide ? "i64" : "i32";
	stx_bytes_printf(e->out, "  {\n  const %s %s = xoffset;\n  const %s rows = ", type,
			 e->k->axes.at[0].name, type);
	stx__cuda_index(e, a->size, e->out);
	stx_bytes_printf(
		e->out, ";\n  (void)%s;\n  for (%s soffset = 0; soffset < rows; soffset += %u) {\n",
		e->k->axes.at[0].name, type, e->c->x);
}

static void put_region(struct stx__cuda *e, const struct stx__region *r)
{
	const struct stx_kernel *k = e->k;
	e->region = r;
	if (r->opens)
		open_rows(e);
	for (uint32_t n = r->begin; n < r->end; n++) /* what all points share */
		if (e->info[n].level == STX__BLOCK && k->insts.at[n].op != STX_K_ACC)
			stx__cuda_inst(e, n, "true");
	for (uint32_t n = r->begin; n < r->end; n++)
		if (k->insts.at[n].op == STX_K_ACC)
			stx__cuda_acc_open(e, n);
	each_update(e, r, OPEN);
	if (r->loop == STX_NONE || e->c->persistent)
		put_arrays(e, r);
	if (r->loop != STX_NONE)
		open_loop(e);
	if (r->loop != STX_NONE && !e->c->persistent)
		put_arrays(e, r);
	for (uint32_t s = 0; s <= r->nstages && !e->err; s++)
		put_stage(e, s);
	for (uint32_t n = r->begin; n < r->end; n++)
		if (k->insts.at[n].op == STX_K_SORT)
			put_sort(e, &k->insts.at[n]);
	if (r->closes) {
		stx_bytes_puts(e->out, "  }\n  }\n");
		stx__cuda_rows_finish(e);
	}
	if (r->loop == STX_NONE)
		return;
	each_update(e, r, ROUND);
	stx_bytes_puts(e->out, "  }\n");
	each_update(e, r, FINISH);
}

/* Blocks of a kernel that sums down columns which a multiprocessor has at once: as many as its segments
 * were made for. 0: it says nothing. */
static uint32_t blocks_at_once(const struct stx__cuda *e)
{
	uint32_t columns = e->c->r * e->c->x;
	if (e->saxis == STX_NONE)
		return 0;
	return columns < STX_GPU_COLUMNS ? STX_GPU_COLUMNS / columns : 1;
}

/* ---- the kernel ---- */

static void put_signature(struct stx__cuda *e, const struct stx_gpu_config *c, const char *symbol)
{
	const struct stx_kernel *k = e->k;
	struct stx_bytes *out = e->out;
	char config[STX_GPU_CONFIG_BYTES];
	stx_gpu_config_print(c, config);
	stx_bytes_printf(out, "// %s: %s\n", k->name ? k->name : "", config);
	for (uint32_t i = 0; i < k->params.n; i++)
		stx_bytes_printf(out, "// p%u %s %s\n", i, stx_dtype_name(k->params.at[i].dtype),
				 k->params.at[i].name ? k->params.at[i].name : "");
	stx_bytes_printf(out, "extern \"C\" __global__ void __launch_bounds__(%u", e->c->threads);
	if (blocks_at_once(e))
		stx_bytes_printf(out, ", %u", blocks_at_once(e));
	stx_bytes_puts(out, ")");
	if (e->c->cluster > 1)
		stx_bytes_printf(out, " __attribute__((cluster_dims(%u, 1, 1)))", e->c->cluster);
	stx_bytes_printf(out, "\n%s(", symbol);
	for (uint32_t i = 0; i < k->params.n; i++) {
		enum stx_dtype t = k->params.at[i].dtype;
		stx_bytes_printf(out, "%s%s *p%u, ", k->params.at[i].is_written ? "" : "const ",
				 t == STX_BOOL ? "u8" : stx__cuda_type(t), i);
	}
	for (uint32_t i = 0; i < k->scalars.n; i++)
		stx_bytes_printf(out, "i64 s%u_, ", i);
	stx_bytes_puts(out, "bounds_record *record, i32 kernel)\n{\n");
	for (uint32_t i = 0; i < k->scalars.n; i++)
		stx_bytes_printf(out, "  const %s s%u = (%s)s%u_;\n", e->wide ? "i64" : "i32", i,
				 e->wide ? "i64" : "i32", i);
}

static void put_numel(struct stx__cuda *e, uint32_t axis)
{
	const char *type = e->wide ? "i64" : "i32";
	const struct stx_axis *a = &e->k->axes.at[axis];
	stx_bytes_printf(e->out, "  const %s %cnumel = ", type, a->name[0]);
	if (varies(e, axis)) /* the longest row */
		stx_bytes_printf(e->out, "%lld", (long long)stx_ex_interval(e->k->ex, a->size).hi);
	else
		stx__cuda_index(e, a->size, e->out);
	stx_bytes_puts(e->out, ";\n");
}

static void put_indices(struct stx__cuda *e)
{
	const struct stx_gpu_config *c = e->c;
	struct stx_bytes *out = e->out;
	const char *type = e->wide ? "i64" : "i32";
	for (uint32_t i = 0; i < e->ngrid; i++)
		put_numel(e, i);
	if (e->raxis != STX_NONE)
		put_numel(e, e->raxis);
	stx_bytes_printf(out, "  constexpr int NX = %u;\n  const int tid = threadIdx.x;\n", e->nx);
	if (e->raxis != STX_NONE) {
		stx_bytes_printf(out, "  constexpr int NR = %u;\n", c->row_threads);
		stx_bytes_puts(out, c->inner ? "  const int tr = tid % NR, tx = tid / NR;\n"
					     : "  const int tx = tid % NX, tr = tid / NX;\n");
	} else if (e->ngrid == 1) {
		stx_bytes_puts(out, "  const int tx = tid;\n");
	} else {
		stx_bytes_printf(out, "  constexpr int NY = %u, NZ = %u;\n", e->ny, e->nz);
		stx_bytes_puts(out,
			       "  const int tx = tid % NX, ty = tid / NX % NY, tz = tid / (NX * "
			       "NY);\n");
	}
	if (c->cluster > 1) {
		e->needs |= STX__NEED_CLUSTER;
		stx_bytes_printf(out,
				 "  const int part = blockIdx.x %% %u;\n  const %s xoffset = "
				 "(%s)(blockIdx.x / %u);\n  cluster_begin();\n",
				 c->cluster, type, type, c->cluster);
	} else if (e->rounds > 1) {
		stx_bytes_printf(
			out,
			"  #pragma unroll 1\n  for (int round = 0; round < %u; round++) {\n"
			"  const %s xoffset = ((%s)blockIdx.x * %u + round) * %u;\n",
			e->rounds, type, type, e->rounds, c->x);
	} else {
		stx_bytes_printf(out, "  const %s xoffset = (%s)blockIdx.x * %u;\n", type, type,
				 e->saxis == STX_NONE ? c->x : 1);
	}
	if (e->ngrid < 2) {
		stx__cuda_put_runs(e);
		return;
	}
	stx_bytes_printf(out, "  const i64 yblocks = ((i64)ynumel + %u) / %u;\n", c->y - 1, c->y);
	stx_bytes_puts(out, "  const i64 yz = blockIdx.y + (i64)gridDim.y * blockIdx.z;\n");
	if (e->ngrid < 3)
		stx_bytes_printf(out,
				 "  if (yz >= yblocks) return;\n  const %s yoffset = (%s)yz * %u;\n"
				 "  (void)tz;\n",
				 type, type, c->y);
	else
		stx_bytes_printf(
			out,
			"  if (yz >= yblocks * (((i64)znumel + %u) / %u)) return;\n"
			"  const %s yoffset = (%s)(yz %% yblocks) * %u, zoffset = (%s)(yz / "
			"yblocks) * %u;\n",
			c->z - 1, c->z, type, type, c->y, type, c->z);
	stx__cuda_put_runs(e);
}

/* 32-bit indices must hold the points beyond the end that the last block masks off, too. */
static int needs_wide(const struct stx_kernel *k)
{
	if (k->index_bits != 32)
		return 1;
	for (uint32_t i = 0; i < k->axes.n; i++)
		if (stx_ex_interval(k->ex, k->axes.at[i].size).hi > INT32_MAX - (1 << 20))
			return 1;
	return 0;
}

static stx_err set_up(struct stx__cuda *e)
{
	const struct stx_kernel *k = e->k;
	const struct stx_gpu_config *c = e->c;
	e->raxis = STX_NONE;
	e->saxis = stx_gpu_rows_axis(k);
	for (uint32_t i = 0; i < k->axes.n; i++)
		if (k->axes.at[i].binding == STX_AXIS_GRID)
			e->ngrid++;
		else if (i != e->saxis)
			e->raxis = i;
	if (e->raxis != STX_NONE && varies(e, e->raxis) &&
	    stx_ex_interval(k->ex, k->axes.at[e->raxis].size).hi == STX_POS_INF)
		return stx__cuda_fail(e, STX_E_UNSUPPORTED, "rows of unbounded length");
	for (uint32_t i = 0; i < k->insts.n; i++) {
		const struct stx_kinst *a = &k->insts.at[i];
		int is_row = a->op == STX_K_ACC && a->c != STX_NONE;
		if (a->op == STX_K_ACC && (a->a != (is_row ? e->saxis : e->raxis) ||
					   (is_row && (a->c != e->raxis || e->ngrid > 1))))
			return stx__cuda_fail(e, STX_E_INTERNAL, "accumulators of other loops");
	}
	if (!k->target_gpu || !e->ngrid || k->axes.n > e->ngrid + 1 + (e->saxis != STX_NONE))
		return stx__cuda_fail(e, STX_E_INTERNAL, "not a GPU kernel");
	struct stx_gpu_lanes lanes = stx_gpu_lanes(c);
	e->nx = lanes.x;
	e->ny = lanes.y;
	e->nz = lanes.z;
	if (e->nz > c->z || (e->raxis != STX_NONE && e->nx != c->threads / c->row_threads))
		return stx__cuda_fail(e, STX_E_INTERNAL, "a block has more threads than points");
	e->rows = c->x / e->nx * (c->y / e->ny) * (c->z / e->nz);
	e->iters = e->raxis == STX_NONE ? 1 : c->r / c->row_threads;
	e->wide = (uint8_t)needs_wide(k);
	return STX_E_OK;
}

/* So many that each has a run, and FEW elements. */
static uint32_t rounds_of(const struct stx_kernel *k, const struct stx_gpu_config *c)
{
	if (!stx_gpu_computes(k))
		return 1;
	uint32_t rounds = c->x / c->threads / (c->vec > FEW ? c->vec : FEW);
	return rounds ? rounds : 1;
}

stx_err stx_emit_cuda(const struct stx_kernel *k, const struct stx_gpu_config *c,
		      struct stx_bytes *out, struct stx_diag *d)
{
	struct stx_bytes body = { 0 }, functions = { 0 };
	struct stx_digest digest;
	char symbol[64];
	struct stx_gpu_config round = *c;
	struct stx__cuda e = { .k = k,
			       .c = &round,
			       .out = &body,
			       .functions = &functions,
			       .d = d,
			       .arena = k->arena };
	e.rounds = rounds_of(k, c);
	round.x /= e.rounds;
	stx_err err = set_up(&e);
	if (!err)
		err = stx_kernel_digest(k, &digest, d);
	if (!err)
		err = stx__cuda_stages(&e);
	if (!err)
		err = stx__cuda_find_runs(&e);
	if (!err)
		err = stx__cuda_find_rare(&e);
	if (err)
		return err;
	stx_gpu_symbol(&digest, c, symbol);
	put_signature(&e, c, symbol);
	put_indices(&e);
	for (uint32_t i = 0; i < e.regions.n && !e.err; i++)
		put_region(&e, &e.regions.at[i]);
	stx_bytes_puts(&body, e.rounds > 1 ? "  }\n}\n" : "}\n");
	stx__cuda_acc_functions(&e, &functions);
	stx__cuda_prelude(e.needs, out);
	stx_bytes_put(out, functions.at, functions.n);
	stx_bytes_put(out, body.at, body.n);
	if (!e.err && (body.oom || functions.oom || out->oom))
		stx__cuda_fail(&e, STX_E_NOMEM, "out of memory");
	stx_bytes_free(&body);
	stx_bytes_free(&functions);
	return e.err;
}
