/* emit_cuda_reduce.c: accumulators. A thread combines the iterations it takes, in order; then the
 * threads of a row merge pairwise: neighbouring lanes by shuffles, warps and lanes that run along x
 * through shared memory. Every thread of the row has the result. The order is the configuration's.
 *
 * Blocks that share a row exchange what their warps have, so that each has the whole row's result.
 *
 * Floats that are added or multiplied in a loop make parts of CHUNK rounds, which join the others
 * when they are complete, so that a long row does not stall (B41); iterations that are taken at once
 * have parts of their own, which merge pairwise. */
#include "emit_cuda.h"

#include <stdio.h>

#include "elementary.h"

#define CHUNK      8 /* rounds of the loop in a part */
#define MOST_SLOTS 32
#define FEW_PARTS  8 /* more are merged by shuffles */

static uint32_t nstates(const struct stx__cuda *e, uint32_t acc)
{
	return stx_monoid_info((enum stx_monoid)e->k->insts.at[acc].flags)->state;
}

static int is_arg(const struct stx_kinst *acc)
{
	return stx_monoid_is_arg((enum stx_monoid)acc->flags);
}

static const char *state_type(const struct stx__cuda *e, uint32_t acc, uint32_t s)
{
	const struct stx_kinst *a = &e->k->insts.at[acc];
	return s == 1 && is_arg(a) ? "i64" : stx__cuda_type((enum stx_dtype)a->dtype);
}

static void identity(struct stx__cuda *e, uint32_t acc, uint32_t s, struct stx_bytes *out)
{
	const struct stx_kinst *a = &e->k->insts.at[acc];
	if (s == 1 && is_arg(a))
		stx_bytes_puts(out, "0x7fffffffffffffffLL");
	else if (s)
		stx_bytes_puts(out, "0");
	else
		stx__cuda_literal(
			e, (enum stx_dtype)a->dtype,
			stx_monoid_identity((enum stx_monoid)a->flags, (enum stx_dtype)a->dtype),
			out);
}

static enum stx_dtype acc_dtype(const struct stx__cuda *e, uint32_t acc)
{
	return (enum stx_dtype)e->k->insts.at[acc].dtype;
}

/* Sums and products of floats, whose error grows with the number of steps. */
static int is_rounded(const struct stx__cuda *e, uint32_t acc)
{
	uint8_t m = e->k->insts.at[acc].flags;
	return stx_dtype_is_float(acc_dtype(e, acc)) &&
	       (m == STX_MONOID_SUM || m == STX_MONOID_PROD || m == STX_MONOID_DOT);
}

static int is_chunked(const struct stx__cuda *e, uint32_t acc)
{
	return !e->c->persistent && is_rounded(e, acc);
}

/* The loop ends before a part of CHUNK rounds does. */
static int has_one_part(const struct stx__cuda *e)
{
	return stx_ex_interval(e->k->ex, e->k->axes.at[e->raxis].size).hi <=
	       (int64_t)(CHUNK - 1) * e->c->r * e->c->cluster;
}

/* An online softmax of f32 takes the iterations that a thread has at once together: their maximum,
 * then the sum of their exponentials, one each. */
static int is_grouped(const struct stx__cuda *e, uint32_t acc)
{
	return e->k->insts.at[acc].flags == STX_MONOID_SOFTMAX && acc_dtype(e, acc) == STX_F32;
}

/* Parts a row has side by side: one an iteration taken at once, while registers hold them. */
static uint32_t slots(const struct stx__cuda *e)
{
	return e->rows * e->iters <= MOST_SLOTS ? e->iters : 1;
}

int stx__cuda_is_row(const struct stx__cuda *e, uint32_t acc)
{
	return e->k->insts.at[acc].c != STX_NONE;
}

void stx__cuda_acc_open(struct stx__cuda *e, uint32_t acc)
{
	uint32_t n = e->rows * (stx__cuda_is_row(e, acc) ? e->iters : 1);
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(e->out, "  %s a%u_%u[%u];\n", state_type(e, acc, s), acc, s, n);
	stx_bytes_printf(e->out, "  #pragma unroll\n  for (int e = 0; e < %u; e++) {", n);
	for (uint32_t s = 0; s < nstates(e, acc); s++) {
		stx_bytes_printf(e->out, " a%u_%u[e] = ", acc, s);
		identity(e, acc, s, e->out);
		stx_bytes_puts(e->out, ";");
	}
	stx_bytes_puts(e->out, " }\n");
}

/* State `name` of the row := combine(it, b). */
static void combine(struct stx__cuda *e, uint32_t acc, char name, const char *row, const char *b,
		    struct stx_bytes *out)
{
	const struct stx_kinst *a = &e->k->insts.at[acc];
	enum stx_dtype t = (enum stx_dtype)a->dtype;
	const char *ty = stx__cuda_type(t);
	struct stx_bytes d = { 0 };
	stx_bytes_printf(&d, "%c%u_0[%s]", name, acc, row);
	const char *dst = stx_bytes_cstr(&d);
	int integer = !stx_dtype_is_float(t);
	switch (a->flags) {
	case STX_MONOID_SUM:
	case STX_MONOID_DOT:
	case STX_MONOID_PROD: {
		char op = a->flags == STX_MONOID_PROD ? '*' : '+';
		if (integer)
			stx_bytes_printf(out, "%s = (%s)((u64)%s %c (u64)%s0);", dst, ty, dst, op,
					 b);
		else
			stx_bytes_printf(out, "%s = %s %c %s0;", dst, dst, op, b);
		break;
	}
	case STX_MONOID_MAX:
	case STX_MONOID_MIN:
		e->needs |= STX__NEED_MINMAX;
		stx_bytes_printf(out, "%s = %s(%s, %s0);", dst,
				 a->flags == STX_MONOID_MAX ? "max_" : "min_", dst, b);
		break;
	case STX_MONOID_ANY: stx_bytes_printf(out, "%s = %s || %s0;", dst, dst, b); break;
	case STX_MONOID_ALL: stx_bytes_printf(out, "%s = %s && %s0;", dst, dst, b); break;
	case STX_MONOID_ARGMAX:
	case STX_MONOID_ARGMIN:
		e->needs |= STX__NEED_ARG;
		stx_bytes_printf(out,
				 "if (%s(%s0, %s1, %s, a%u_1[%s])) { %s = %s0; a%u_1[%s] = %s1; }",
				 a->flags == STX_MONOID_ARGMAX ? "beats_max" : "beats_min", b, b,
				 dst, acc, row, dst, b, acc, row, b);
		break;
	case STX_MONOID_WELFORD:
		e->needs |= STX__NEED_WELFORD;
		stx_bytes_printf(out, "welford_merge(%s, a%u_1[%s], a%u_2[%s], %s0, %s1, %s2);",
				 dst, acc, row, acc, row, b, b, b);
		break;
	case STX_MONOID_SOFTMAX:
		e->needs |= t == STX_F64 ? STX__NEED_SOFTMAX64 : STX__NEED_SOFTMAX32;
		stx_bytes_printf(out, "softmax_merge(%s, a%u_1[%s], %s0, %s1);", dst, acc, row, b,
				 b);
		break;
	default: stx__cuda_fail(e, STX_E_INTERNAL, "a monoid without code");
	}
	stx_bytes_free(&d);
}

void stx__cuda_acc_update(struct stx__cuda *e, uint32_t n, const char *ok)
{
	const struct stx_kinst *u = &e->k->insts.at[n], *a = &e->k->insts.at[u->a];
	const char *ty = stx__cuda_type((enum stx_dtype)a->dtype);
	struct stx_bytes b = { 0 }, c = { 0 }, *out = e->out;
	stx__cuda_value(e, u->b, &b);
	if (u->c != STX_NONE)
		stx__cuda_value(e, u->c, &c);
	if (is_grouped(e, u->a)) {
		stx_bytes_printf(out, "    q%u[e] = %s ? %s : ", u->a, ok, stx_bytes_cstr(&b));
		identity(e, u->a, 0, out);
		stx_bytes_printf(out, "; in%u[e] = %s;\n", u->a, ok);
		stx_bytes_free(&b);
		return;
	}
	const char *row = e->iters > 1 ? (e->rows > 1 ? "row" : "0") : e->rows > 1 ? "e" : "0";
	if (stx__cuda_is_row(e, u->a))
		row = "e";
	stx_bytes_printf(out, "    if (%s) { ", ok);
	char name = is_chunked(e, u->a) ? 'c' : 'a';
	if (name == 'c' && slots(e) > 1)
		row = "e";
	if (a->flags == STX_MONOID_DOT && stx_dtype_is_float((enum stx_dtype)a->dtype)) {
		stx_bytes_printf(out, "%c%u_0[%s] = fma%s(%s, %s, %c%u_0[%s]);", name, u->a, row,
				 a->dtype == STX_F32 ? "f" : "", stx_bytes_cstr(&b),
				 stx_bytes_cstr(&c), name, u->a, row);
	} else {
		if (a->flags == STX_MONOID_DOT)
			stx_bytes_printf(out, "%s b0 = (%s)((u64)%s * (u64)%s); ", ty, ty,
					 stx_bytes_cstr(&b), stx_bytes_cstr(&c));
		else
			stx_bytes_printf(out, "%s b0 = %s; ", ty, stx_bytes_cstr(&b));
		if (is_arg(a))
			stx_bytes_printf(out, "i64 b1 = %s; ", stx_bytes_cstr(&c));
		if (a->flags == STX_MONOID_WELFORD)
			stx_bytes_printf(out, "%s b1 = 0, b2 = 1; ", ty);
		if (a->flags == STX_MONOID_SOFTMAX)
			stx_bytes_printf(out, "%s b1 = 1; ", ty);
		combine(e, u->a, name, row, "b", out);
	}
	stx_bytes_puts(out, " }\n");
	stx_bytes_free(&b);
	stx_bytes_free(&c);
}

void stx__cuda_chunk_open(struct stx__cuda *e, uint32_t acc)
{
	uint32_t n = e->rows * slots(e);
	if (is_grouped(e, acc)) {
		e->needs |= STX__NEED_SOFTMAX32;
		stx_bytes_printf(e->out, "  f32 q%u[%u]; bool in%u[%u];\n", acc, e->rows * e->iters,
				 acc, e->rows * e->iters);
	}
	if (!is_chunked(e, acc))
		return;
	stx_bytes_printf(
		e->out,
		"  %s c%u_0[%u];\n  #pragma unroll\n  for (int e = 0; e < %u; e++) c%u_0[e] "
		"= ",
		state_type(e, acc, 0), acc, n, n, acc);
	identity(e, acc, 0, e->out);
	stx_bytes_puts(e->out, ";\n");
}

/* The slots of a row pairwise into its first. */
static void merge_slots(struct stx__cuda *e, uint32_t acc)
{
	if (slots(e) == 1)
		return;
	stx_bytes_printf(
		e->out,
		"    #pragma unroll\n    for (int o = %u; o > 0; o >>= 1)\n"
		"      #pragma unroll\n      for (int p = e; p < e + o; p++) { const %s b0 = "
		"c%u_0[p + o]; ",
		slots(e) / 2, state_type(e, acc, 0), acc);
	combine(e, acc, 'c', "p", "b", e->out);
	stx_bytes_puts(e->out, " }\n");
}

void stx__cuda_chunk_close(struct stx__cuda *e, uint32_t acc, int last)
{
	uint32_t n = slots(e);
	char row[32];
	if (is_grouped(e, acc) && !last)
		stx_bytes_printf(
			e->out,
			"  #pragma unroll\n  for (int e = 0; e < %u; e++) "
			"softmax_group<%u>(a%u_0[e], a%u_1[e], &q%u[e * %u], &in%u[e * %u]);\n",
			e->rows, e->iters, acc, acc, acc, e->iters, acc, e->iters);
	if (!is_chunked(e, acc) || (!last && has_one_part(e)))
		return;
	if (!last)
		stx_bytes_printf(e->out, "  if (roffset / %u %% %d == %d) {\n",
				 e->c->r * e->c->cluster, CHUNK, CHUNK - 1);
	stx_bytes_printf(e->out, "  #pragma unroll\n  for (int e = 0; e < %u; e += %u) {\n",
			 e->rows * n, n);
	merge_slots(e, acc);
	snprintf(row, sizeof row, n > 1 ? "e / %u" : "e", n);
	stx_bytes_printf(e->out, "    const %s b0 = c%u_0[e]; ", state_type(e, acc, 0), acc);
	combine(e, acc, 'a', row, "b", e->out);
	stx_bytes_puts(e->out, "\n");
	if (!last) {
		stx_bytes_printf(
			e->out,
			"    #pragma unroll\n    for (int p = e; p < e + %u; p++) c%u_0[p] "
			"= ",
			n, acc);
		identity(e, acc, 0, e->out);
		stx_bytes_puts(e->out, ";\n");
	}
	stx_bytes_puts(e->out, last ? "  }\n" : "  }\n  }\n");
}

/* Types that shuffles take; smaller ones travel as int. */
static const char *shuffled(const struct stx__cuda *e, uint32_t acc, uint32_t s)
{
	const struct stx_kinst *a = &e->k->insts.at[acc];
	if (s == 1 && is_arg(a))
		return "i64";
	return stx_dtype_bytes((enum stx_dtype)a->dtype) < 4
		       ? "i32"
		       : stx__cuda_type((enum stx_dtype)a->dtype);
}

/* Of the loop over what merges: two exponentials a merge are one body, not one for each. */
static const char *unrolling(const struct stx__cuda *e, uint32_t acc)
{
	return e->k->insts.at[acc].flags == STX_MONOID_SOFTMAX ? " 1" : "";
}

/* Merges lanes l and l^o for o = n/2 .. step. Both get combine(lower, upper), so all agree. */
static void by_shuffles(struct stx__cuda *e, uint32_t acc, uint32_t n, uint32_t step)
{
	struct stx_bytes *out = e->out;
	int welford = e->k->insts.at[acc].flags == STX_MONOID_WELFORD;
	stx_bytes_printf(out,
			 "  #pragma unroll\n  for (int e = 0; e < %u; e++)\n    #pragma unroll%s\n"
			 "    for (int o = %u; o >= %u; o >>= 1) {\n",
			 e->rows, unrolling(e, acc), n / 2, step);
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out,
				 "      %s b%u = (%s)__shfl_xor_sync(0xffffffffu, (%s)a%u_%u[e], "
				 "o);\n",
				 state_type(e, acc, s), s, state_type(e, acc, s),
				 shuffled(e, acc, s), acc, s);
	for (uint32_t s = 0; welford && s < 3; s++) /* it does not commute bit for bit */
		stx_bytes_printf(out,
				 "      if (tid & o) { %s t = b%u; b%u = a%u_%u[e]; a%u_%u[e] = t; "
				 "}\n",
				 state_type(e, acc, s), s, s, acc, s, acc, s);
	stx_bytes_puts(out, "      ");
	combine(e, acc, 'a', "e", "b", out);
	stx_bytes_puts(out, "\n    }\n");
}

/* Element `to` of the accumulator := its `parts` in shared memory at `row`, in order, or pairwise where they
 * are floats that are added or multiplied. */
static void merge_parts(struct stx__cuda *e, uint32_t acc, uint32_t parts, const char *to,
			const char *row)
{
	const char *type = state_type(e, acc, 0);
	struct stx_bytes *out = e->out;
	if (is_rounded(e, acc) && parts * (uint32_t)stx_dtype_bytes(acc_dtype(e, acc)) <= 128) {
		stx_bytes_printf(out,
				 "    %s v%u_0[%u];\n    #pragma unroll\n"
				 "    for (int p = 0; p < %u; p++) v%u_0[p] = s%u_0[p][%s];\n"
				 "    #pragma unroll\n    for (int o = %u; o > 0; o >>= 1)\n"
				 "      #pragma unroll\n"
				 "      for (int p = 0; p < o; p++) { const %s b0 = v%u_0[p + o]; ",
				 type, acc, parts, parts, acc, acc, row, parts / 2, type, acc);
		combine(e, acc, 'v', "p", "b", out);
		stx_bytes_printf(out, " }\n    a%u_0[%s] = v%u_0[0];\n", acc, to, acc);
		return;
	}
	stx_bytes_puts(out, "   ");
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out, " a%u_%u[%s] = s%u_%u[0][%s];", acc, s, to, acc, s, row);
	stx_bytes_printf(out, "\n    #pragma unroll%s\n    for (int p = 1; p < %u; p++) {\n     ",
			 unrolling(e, acc), parts);
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out, " %s b%u = s%u_%u[p][%s];", state_type(e, acc, s), s, acc, s,
				 row);
	stx_bytes_puts(out, "\n      ");
	combine(e, acc, 'a', to, "b", out);
	stx_bytes_puts(out, "\n    }\n");
}

/* A thread merges the parts of one of the block's rows, or of a few, and leaves them where the
 * others find the results: the code is that of one row, not of all that a thread has. */
static void merge_by_rows(struct stx__cuda *e, uint32_t acc, uint32_t parts, const char *row)
{
	struct stx_bytes *out = e->out;
	stx_bytes_printf(out, "  #pragma unroll 1\n  for (int i = tid; i < %u; i += %u) {\n",
			 e->c->x, e->c->threads);
	merge_parts(e, acc, parts, "0", "i");
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out, "    s%u_%u[0][i] = a%u_%u[0];\n", acc, s, acc, s);
	stx_bytes_printf(
		out, "  }\n  __syncthreads();\n  #pragma unroll\n  for (int e = 0; e < %u; e++) {",
		e->rows);
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out, " a%u_%u[e] = s%u_%u[0][%s];", acc, s, acc, s, row);
	stx_bytes_puts(out, " }\n");
}

static void from_shared(struct stx__cuda *e, uint32_t acc, uint32_t parts, const char *row);

/* `parts` results a row, of threads with the same `row index` expressions: each goes to shared
 * memory, every thread reads all of its rows and combines them in order. */
static void by_shared(struct stx__cuda *e, uint32_t acc, uint32_t parts, const char *part,
		      const char *writes, const char *row)
{
	struct stx_bytes *out = e->out;
	for (uint32_t s = 0; s < nstates(e, acc); s++) {
		const char *type = state_type(e, acc, s), *name = e->region->in_rows ? "both" : "s";
		const char *two = e->region->in_rows ? "[2]" : "";
		stx_bytes_printf(out, "  __shared__ %s %s%u_%u%s[%u][%u];\n", type, name, acc, s,
				 two, parts, e->c->x);
		if (e->region->in_rows) /* the next row's come while the last one's are read */
			stx_bytes_printf(out,
					 "  %s (&s%u_%u)[%u][%u] = both%u_%u[soffset / %u & 1];\n",
					 type, acc, s, parts, e->c->x, acc, s, e->c->x);
	}
	stx_bytes_printf(out, "  if (%s) {\n    #pragma unroll\n    for (int e = 0; e < %u; e++) {",
			 writes, e->rows);
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out, " s%u_%u[%s][%s] = a%u_%u[e];", acc, s, part, row, acc, s);
	stx_bytes_puts(out, " }\n  }\n");
	e->out = e->after;
	from_shared(e, acc, parts, row);
	e->out = out;
}

static void from_shared(struct stx__cuda *e, uint32_t acc, uint32_t parts, const char *row)
{
	struct stx_bytes *out = e->out;
	if (e->c->inner && parts > FEW_PARTS) { /* every warp of the row does the same */
		stx_bytes_printf(out, "  #pragma unroll\n  for (int e = 0; e < %u; e++) {",
				 e->rows);
		for (uint32_t s = 0; s < nstates(e, acc); s++)
			stx_bytes_printf(out, " a%u_%u[e] = s%u_%u[tid %% %u][%s];", acc, s, acc, s,
					 parts, row);
		stx_bytes_puts(out, " }\n");
		by_shuffles(e, acc, parts, 1);
		return;
	}
	if (e->rows > 1) {
		merge_by_rows(e, acc, parts, row);
		return;
	}
	stx_bytes_puts(out, "  {\n    const int e = 0;\n");
	merge_parts(e, acc, parts, "0", row);
	stx_bytes_puts(out, "  }\n");
}

/* What each warp of the row's blocks has goes to the shared memory of all of them, where every warp
 * merges all of it. That a block has begun must be known before its memory is written. */
static void by_cluster(struct stx__cuda *e, uint32_t acc)
{
	struct stx_bytes *out = e->out;
	uint32_t warps = e->c->threads / 32, parts = warps * e->c->cluster;
	uint32_t each = parts > 32 ? parts / 32 : 1;
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out, "  __shared__ %s s%u_%u[%u];\n", state_type(e, acc, s), acc,
				 s, parts);
	stx_bytes_printf(out, "%s  if (tid %% 32 < %u) {", e->met ? "" : "  cluster_wait();\n",
			 e->c->cluster);
	e->met = 1;
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(
			out,
			" *(%s *)cluster_at((u64)&s%u_%u[part * %u + tid / 32], tid %% 32) = "
			"a%u_%u[0];",
			state_type(e, acc, s), acc, s, warps, acc, s);
	stx_bytes_puts(out, " }\n  cluster_arrive();\n  cluster_wait();\n ");
	for (uint32_t s = 0; s < nstates(e, acc); s++)
		stx_bytes_printf(out, " a%u_%u[0] = s%u_%u[tid %% %u * %u];", acc, s, acc, s,
				 parts / each, each);
	stx_bytes_puts(out, "\n");
	if (each > 1) {
		stx_bytes_printf(out, "  #pragma unroll\n  for (int p = 1; p < %u; p++) {", each);
		for (uint32_t s = 0; s < nstates(e, acc); s++)
			stx_bytes_printf(out, " %s b%u = s%u_%u[tid %% 32 * %u + p];",
					 state_type(e, acc, s), s, acc, s, each);
		stx_bytes_puts(out, " ");
		combine(e, acc, 'a', "0", "b", out);
		stx_bytes_puts(out, " }\n");
	}
	by_shuffles(e, acc, parts / each, 1);
}

/* Threads that had different rows have sums of the same columns: halves of them hand over theirs. */
static void row_finish(struct stx__cuda *e, uint32_t acc)
{
	const char *type = state_type(e, acc, 0);
	uint32_t half = e->c->x / 2;
	stx_bytes_printf(
		e->out,
		"  // columns of a%u over %u rows\n  %s (*s%u_0)[%u] = (%s (*)[%u])columns;\n"
		"  #pragma unroll\n  for (int o = %u; o > 0; o >>= 1) {\n    __syncthreads();\n"
		"    if (tx >= o && tx < 2 * o) {\n      #pragma unroll\n"
		"      for (int e = 0; e < %u; e++) s%u_0[tx - o][e*NR + tr] = a%u_0[e];\n    }\n"
		"    __syncthreads();\n    if (tx < o) {\n      #pragma unroll\n"
		"      for (int e = 0; e < %u; e++) { const %s b0 = s%u_0[tx][e*NR + tr]; ",
		acc, e->c->x, type, acc, e->c->r, type, e->c->r, half, e->iters, acc, acc, e->iters,
		type, acc);
	combine(e, acc, 'a', "e", "b", e->out);
	stx_bytes_puts(e->out, " }\n    }\n  }\n");
}

void stx__cuda_rows_finish(struct stx__cuda *e)
{
	const struct stx_kernel *k = e->k;
	uint32_t bytes = 1;
	if (e->c->x == 1)
		return;
	for (uint32_t n = 0; n < k->insts.n; n++)
		if (k->insts.at[n].op == STX_K_ACC && stx__cuda_is_row(e, n) &&
		    (uint32_t)stx_dtype_bytes(acc_dtype(e, n)) > bytes)
			bytes = (uint32_t)stx_dtype_bytes(acc_dtype(e, n));
	stx_bytes_printf(e->out, "  __shared__ u64 columns[%u];\n",
			 (e->c->x / 2 * e->c->r * bytes + 7) / 8);
	for (uint32_t n = 0; n < k->insts.n; n++)
		if (k->insts.at[n].op == STX_K_ACC && stx__cuda_is_row(e, n))
			row_finish(e, n);
}

const char *stx__cuda_first_thread(const struct stx__cuda *e)
{
	if (e->saxis != STX_NONE && !e->region->in_rows)
		return e->c->x > 1 ? " && tx == 0" : "";
	if (e->c->cluster > 1)
		return " && tr == 0 && part == 0";
	return e->c->row_threads > 1 ? " && tr == 0" : "";
}

void stx__cuda_acc_finish(struct stx__cuda *e, uint32_t acc)
{
	const struct stx_gpu_config *c = e->c;
	uint32_t n = c->row_threads;
	stx_bytes_printf(e->out, "  // %s of a%u over %u threads\n",
			 stx_monoid_info((enum stx_monoid)e->k->insts.at[acc].flags)->text, acc, n);
	if (n > 1 && !c->inner && e->nx < 32 &&
	    n * e->nx >= 32) { /* a warp has several of a row's */
		by_shuffles(e, acc, 32, e->nx);
		n = n * e->nx / 32;
		if (n > 1)
			by_shared(e, acc, n, "tid / 32", "tid % 32 < NX", "tx + e*NX");
		return;
	}
	if (n > 1 && !c->inner) {
		by_shared(e, acc, n, "tr", "1", "tx + e*NX");
		return;
	}
	if (n > 1)
		by_shuffles(e, acc, n < 32 ? n : 32, 1);
	if (c->cluster > 1)
		by_cluster(e, acc);
	else if (n > 32)
		by_shared(e, acc, n / 32, "tr / 32", "tr % 32 == 0", "tx + e*NX");
}

/* ---- device functions ---- */

static struct stx_kinst as_instruction(const struct stx_elem_inst *i)
{
	struct stx_kinst k = {
		.op = i->op, .dtype = i->dtype, .a = i->a, .b = i->b, .c = i->c, .k = i->k
	};
	if (i->op == STX_ELEM_CONST)
		k.op = STX_K_CONST;
	else if (i->op == STX_ELEM_ARG)
		k.op = STX_K_INDEX; /* a value with a name */
	return k;
}

/* exp_ of f32 or f64: the body that the table of elementary functions has, as a function. */
static void put_exp(struct stx__cuda *e, enum stx_dtype t, struct stx_bytes *out)
{
	const struct stx_elem_program *p = stx_elementary_record(e->arena, STX_P_EXP, t);
	struct stx_kernel k = { .arena = e->arena, .ex = e->k->ex, .name = e->k->name };
	struct stx__cuda f = { .k = &k, .out = out, .d = e->d, .arena = e->arena };
	const char *type = stx__cuda_type(t);
	f.info = p ? STX_NEW_ARRAY(e->arena, struct stx__value_info, p->n + 1) : NULL;
	for (uint32_t i = 0; f.info && i < p->n; i++) {
		f.info[i].same = i;
		if (stx_push(e->arena, &k.insts, as_instruction(&p->at[i])))
			f.info = NULL;
	}
	if (!f.info) {
		stx__cuda_fail(e, STX_E_NOMEM, "out of memory");
		return;
	}
	stx_bytes_printf(out, "DEV %s exp_(%s x) {\n", type, type);
	for (uint32_t i = 0; i < p->n; i++) {
		const struct stx_kinst *in = &k.insts.at[i];
		if (in->op == STX_K_CONST)
			continue;
		stx_bytes_printf(out,
				 "  const %s t%u = ", stx__cuda_type((enum stx_dtype)in->dtype), i);
		if (in->op == STX_K_INDEX)
			stx_bytes_puts(out, "x");
		else
			stx__cuda_prim(&f, in, out);
		stx_bytes_puts(out, ";\n");
	}
	stx_bytes_puts(out, "  return ");
	stx__cuda_value(&f, p->result, out);
	stx_bytes_puts(out, ";\n}\n");
	e->needs |= f.needs;
}

/* The coefficients are those of the table's exp (elementary.c). */
static const char softmax_group[] =
	"/* exp of 0 and below, for sums of at least 1: within 1 ulp down to -87, nothing there "
	"*/\n"
	"DEV f32 exp_below(f32 x) {\n"
	"  x = fmaxf(x, -87.0f);\n"
	"  const f32 t = fmaf(x, 0x1.715476p+0f, 0x1.8p+23f), n = t - 0x1.8p+23f;\n"
	"  const f32 r = fmaf(n, 0x1.bd0106p-13f, fmaf(n, -0x1.63p-1f, x));\n"
	"  f32 p = fmaf(0x1.3b8972p-13f, r, 0x1.6d2e4ap-10f);\n"
	"  p = fmaf(p, r, 0x1.1155a8p-7f);\n"
	"  p = fmaf(p, r, 0x1.555502p-5f);\n"
	"  p = fmaf(p, r, 0x1.55552cp-3f);\n"
	"  p = fmaf(fmaf(fmaf(p, r, 0.5f), r, 1.0f), r, 1.0f);\n"
	"  return __int_as_float((i32)((u32)__float_as_int(p) + ((u32)__float_as_int(t) << 23)));\n"
	"}\n"
	"/* N elements at once. Where x is top their difference is 0, of infinities too: fminf "
	"takes "
	"the\n"
	"   number. NaN is in top. */\n"
	"template <int N> DEV void softmax_group(f32 &m, f32 &s, const f32 *x, const bool *in) {\n"
	"  f32 top = m, sum = 0;\n"
	"  #pragma unroll\n"
	"  for (int i = 0; i < N; i++) top = max_(top, x[i]);\n"
	"  #pragma unroll\n"
	"  for (int i = 0; i < N; i++) sum += in[i] ? exp_below(fminf(x[i] - top, 0.0f)) : 0.0f;\n"
	"  s = s * exp_below(fminf(m - top, 0.0f)) + sum;\n"
	"  if (top != top) s = top;\n"
	"  m = top;\n"
	"}\n";

void stx__cuda_acc_functions(struct stx__cuda *e, struct stx_bytes *out)
{
	if (!(e->needs & (STX__NEED_SOFTMAX32 | STX__NEED_SOFTMAX64)))
		return;
	e->needs |= STX__NEED_MINMAX;
	if (e->needs & STX__NEED_SOFTMAX32)
		put_exp(e, STX_F32, out);
	if (e->needs & STX__NEED_SOFTMAX64)
		put_exp(e, STX_F64, out);
	stx_bytes_puts(
		out,
		"/* (max, sum of exp(x - max)) of two parts; exp is 1 where they are equal, so "
		"that identities merge */\n"
		"template <class T> DEV void softmax_merge(T &m, T &s, T bm, T bs) {\n"
		"  const T top = max_(m, bm);\n"
		"  s = s * exp_(m == top ? (T)0 : m - top) + bs * exp_(bm == top ? (T)0 : bm - "
		"top);\n"
		"  m = top;\n"
		"}\n");
	if (e->needs & STX__NEED_SOFTMAX32)
		stx_bytes_puts(out, softmax_group);
}
