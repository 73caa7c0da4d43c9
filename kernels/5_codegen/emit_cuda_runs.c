/* emit_cuda_runs.c: accesses of consecutive elements, a run at a time.
 *
 * An index proves that a run begins at a multiple of its length (gpu_runs.c), the runtime that the
 * parameter itself is aligned (stax_abi.h). Masks hold for whole runs where the axis is a multiple
 * of the run. Else each stage has both forms, and one test, made once, for a full block: what a
 * thread has and computes is the same in both. A second form costs a quarter of a compile and a
 * third of the registers, so there is none for operands that lie anywhere. */
#include "emit_cuda.h"

uint32_t stx__cuda_run(const struct stx__cuda *e, uint32_t axis)
{
	const struct stx_gpu_config *c = e->c;
	if (axis == e->raxis)
		return c->inner ? c->vec : 1;
	if (axis == 0)
		return e->raxis != STX_NONE && c->inner ? 1 : c->vec;
	return axis == 1 ? c->vec_y : 1;
}

uint32_t stx__cuda_run_step(const struct stx__cuda *e, uint32_t axis)
{
	if (axis == e->raxis)
		return 1;
	if (e->region->loop != STX_NONE)
		return e->iters;
	return axis == 1 ? e->c->x / e->nx : 1;
}

/* The value that store n writes is an array over the elements, or the same over all of a run. */
static int takes_run(const struct stx__cuda *e, const struct stx__region *r, uint32_t n,
		     uint32_t axis)
{
	uint32_t v = e->info[e->k->insts.at[n].b].same;
	uint8_t level = e->info[v].level;
	if (e->k->insts.at[v].op == STX_K_RESULT && !stx__cuda_is_row(e, e->k->insts.at[v].a))
		level = STX__ROW;
	return level <= STX__BLOCK || axis == e->raxis || r->loop == STX_NONE ||
	       level == STX__ELEMENT;
}

static void mark(struct stx__cuda *e, uint32_t axis, const uint8_t *run, enum stx_gpu_run kind)
{
	for (uint32_t i = 0; i < e->regions.n; i++) {
		const struct stx__region *r = &e->regions.at[i];
		if (axis == e->raxis && r->loop == STX_NONE)
			continue;
		for (uint32_t n = r->begin; n < r->end; n++) {
			struct stx__value_info *v = &e->info[n];
			int is_load = e->k->insts.at[n].op == STX_K_LOAD;
			if (run[n] != kind || v->wide || v->level <= STX__BLOCK ||
			    (is_load ? !v->is_array
				     : kind == STX_RUN_UNIFORM || !takes_run(e, r, n, axis)))
				continue;
			v->wide = (uint8_t)(axis + 1);
			v->is_same = kind == STX_RUN_UNIFORM;
			e->has_runs = 1;
		}
	}
}

stx_err stx__cuda_find_runs(struct stx__cuda *e)
{
	const struct stx_kernel *k = e->k;
	uint8_t *run = STX_NEW_ARRAY(e->arena, uint8_t, k->insts.n + 1);
	if (!run)
		return stx__cuda_fail(e, STX_E_NOMEM, "out of memory");
	for (int kind = STX_RUN_UNIT; kind >= STX_RUN_UNIFORM; kind--)
		for (uint32_t axis = 0; axis < k->axes.n; axis++)
			if (stx__cuda_run(e, axis) > 1) {
				stx_gpu_runs(k, axis, stx__cuda_run(e, axis), run);
				mark(e, axis, run, (enum stx_gpu_run)kind);
			}
	return STX_E_OK;
}

/* 1: the last block of the axis may end within a run. */
static int is_ragged(const struct stx__cuda *e, uint32_t axis)
{
	return stx__cuda_run(e, axis) > 1 &&
	       !stx_gpu_is_whole_runs(e->k, axis, stx__cuda_run(e, axis));
}

void stx__cuda_put_runs(struct stx__cuda *e)
{
	const uint32_t block[3] = { e->c->x, e->c->y, e->c->z };
	if (!e->has_runs)
		return;
	e->needs |= STX__NEED_RUNS;
	for (uint32_t axis = 0; axis < e->ngrid && axis < 3; axis++) {
		char name = e->k->axes.at[axis].name[0];
		if (!is_ragged(e, axis))
			continue;
		stx_bytes_printf(e->out, "%s%coffset + %u <= %cnumel",
				 e->has_ends ? " && "
					     : "  // runs are accessed as a whole in full blocks\n"
					       "  const bool full = ",
				 name, block[axis], name);
		e->has_ends = 1;
	}
	if (e->has_ends)
		stx_bytes_puts(e->out, ";\n");
}

static void call(struct stx__cuda *e, const char *name, uint32_t n)
{
	uint32_t axis = e->info[n].wide - 1u;
	stx_bytes_printf(e->out, "%s<%u, %u>(", name, stx__cuda_run(e, axis),
			 stx__cuda_run_step(e, axis));
}

void stx__cuda_run_load(struct stx__cuda *e, uint32_t n, const char *ok)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	stx_bytes_puts(e->out, "    ");
	call(e, e->info[n].is_same ? "load_one" : "load_", n);
	stx_bytes_puts(e->out, "&");
	stx__cuda_value(e, n, e->out);
	stx_bytes_printf(e->out, ", p%u + (", i->a);
	stx__cuda_index(e, i->ex, e->out);
	stx_bytes_printf(e->out, "), %s", ok);
	stx__cuda_index_ok(e, i->ex, e->out);
	stx_bytes_puts(e->out, ");\n");
}

void stx__cuda_run_ahead(struct stx__cuda *e, uint32_t n, const char *ok)
{
	e->needs |= STX__NEED_AHEAD;
	stx_bytes_printf(e->out, "    if (%s) ahead_(p%u + (", ok, e->k->insts.at[n].a);
	stx__cuda_index(e, e->k->insts.at[n].ex, e->out);
	stx_bytes_puts(e->out, "));\n");
}

void stx__cuda_run_store(struct stx__cuda *e, uint32_t n, const char *ok)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	uint32_t v = e->info[i->b].same, axis = e->info[n].wide - 1u;
	int inside = e->region->loop != STX_NONE;
	int is_result = e->k->insts.at[v].op == STX_K_RESULT;
	int is_array =
		is_result ? !inside || stx__cuda_is_row(e, e->k->insts.at[v].a)
			  : e->info[v].is_array && (!inside || e->info[v].level == STX__ELEMENT);
	const char *type = stx__cuda_type((enum stx_dtype)i->dtype);
	stx_bytes_printf(e->out, "    if (%s", ok);
	stx__cuda_index_ok(e, i->ex, e->out);
	if (!inside || (e->saxis != STX_NONE && !e->region->in_rows))
		stx_bytes_puts(e->out, stx__cuda_first_thread(e));
	stx_bytes_puts(e->out, ") { ");
	if (!is_array) { /* one value for the run */
		stx_bytes_printf(e->out, "%s v[%u]; for (int i = 0; i < %u; i++) v[i] = ", type,
				 stx__cuda_run(e, axis), stx__cuda_run(e, axis));
		stx__cuda_value(e, i->b, e->out);
		stx_bytes_puts(e->out, "; ");
		stx_bytes_printf(e->out, "store_<%u, 1>(", stx__cuda_run(e, axis));
	} else {
		call(e, "store_", n);
	}
	stx_bytes_printf(e->out, "p%u + (", i->a);
	stx__cuda_index(e, i->ex, e->out);
	stx_bytes_puts(e->out, is_array ? "), &" : "), v");
	if (is_array)
		stx__cuda_value(e, i->b, e->out);
	stx_bytes_puts(e->out, "); }\n");
}
