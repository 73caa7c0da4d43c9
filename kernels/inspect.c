/* inspect.c: the compiler for tools: the product of one stage as text, the oracle's results. */
#include <stdlib.h>
#include <string.h>

#include "compile.h"
#include "compile_run.h"
#include "passes.h"
#include "plan.h"
#include "picture.h"
#include "ref.h"
#include "schedule_picture.h"

/* Stages after the kernels: each kernel emitted on its own. */
static const struct {
	const char *name;
	enum stx_emit_stage stage;
	int gpu; /* of CUDA targets, of CPU targets, -1: of both */
} emitted[] = {
	{ "source", STX_EMIT_SOURCE, -1 },
	{ "llvm", STX_EMIT_OPTIMIZED_IR, 0 },
	{ "asm", STX_EMIT_ASM, 0 },
	{ "ptx", STX_EMIT_ASM, 1 },
};

struct shown {
	const struct pass *until; /* the last to run */
	int is_picture, is_emitted;
	enum stx_emit_stage emit;
};

static stx_err dump_kernels(struct run *r, struct stx_bytes *out)
{
	stx_err e = STX_E_OK;
	for (unsigned i = 0; !e && i < r->schedule->kernels.n; i++) {
		e = stx_kernel_print(r->schedule->kernels.at[i], out);
		stx_bytes_puts(out, "\n");
	}
	return e;
}

static stx_err dump_emitted(struct stx_compiler *c, struct run *r, enum stx_emit_stage stage,
			    struct stx_bytes *out, struct stx_diag *d)
{
	const char *mark = stx_gpu_is_target(r->options->target) ? "//" : ";";
	stx_err e = STX_E_OK;
	for (unsigned i = 0; !e && i < r->schedule->kernels.n; i++) {
		struct stx_emit_info info;
		struct stx_bytes ir = { 0 };
		stx_bytes_printf(out, "%s ---- %s ----\n", mark, r->schedule->kernels.at[i]->name);
		e = stx_kernel_print(r->schedule->kernels.at[i], &ir);
		if (!e)
			e = stx__emit_text(c, (struct stx_span){ ir.at, ir.n }, r->options, stage,
					   out, &info, d);
		stx_bytes_puts(out, "\n");
		stx_bytes_free(&ir);
	}
	return e;
}

/* The client's names: canonical graphs have none. */
static void name_ends(struct run *r, struct stx_graph *g)
{
	for (uint32_t i = 0; i < g->inputs.n && r->imported.input_names; i++)
		if (strcmp(g->inputs.at[i].node->name, r->imported.input_names[i]))
			g->inputs.at[i].node->origin = r->imported.input_names[i];
	for (uint32_t i = 0; i < g->outputs.n && r->imported.output_names; i++)
		g->outputs.at[i].name = r->imported.output_names[i];
}

static stx_err dump_picture(struct run *r, enum product product, const char *format,
			    struct stx_bytes *out, struct stx_diag *d)
{
	struct stx_picture p = { .arena = r->arena };
	stx_err e;
	name_ends(r, r->loops ? r->loops->g : r->graph);
	if (product == KERNELS)
		e = stx_picture_of_schedule(r->loops, r->schedule, &p, d);
	else if (product == LOOPS)
		e = stx_picture_of_schedule(r->loops, NULL, &p, d);
	else
		e = stx_picture_of_graph(r->graph, &p, d);
	return e ? e : stx_picture_print(&p, format, out, d);
}

static stx_err dump_text(struct stx_compiler *c, struct run *r, const struct shown *s,
			 struct stx_bytes *out, struct stx_diag *d)
{
	if (s->is_emitted)
		return dump_emitted(c, r, s->emit, out, d);
	switch (s->until->product) {
	case LOOPS: return stx_loops_print(r->loops, out);
	case KERNELS: return dump_kernels(r, out);
	case DATA: return stx_plan_print((struct stx_span){ r->plan.at, r->plan.n }, out, d);
	default: return stx_graph_print(r->graph, out);
	}
}

/* What of the table has a name, and for pictures boxes and edges, as a list; then what is emitted.
 */
static const char *stage_names(struct run *r, int pictures, int gpu)
{
	struct stx_bytes b = { 0 };
	for (unsigned i = 0; i < stx__npasses; i++)
		if (stx__passes[i].stage && !(pictures && stx__passes[i].product == DATA))
			stx_bytes_printf(&b, "%s%s", b.n ? ", " : "", stx__passes[i].stage);
	for (unsigned i = 0; !pictures && i < sizeof emitted / sizeof *emitted; i++)
		if (emitted[i].gpu < 0 || emitted[i].gpu == gpu)
			stx_bytes_printf(&b, ", %s", emitted[i].name);
	const char *text = b.oom ? NULL : stx_arena_strdup(r->arena, stx_bytes_cstr(&b));
	stx_bytes_free(&b);
	return text ? text : "";
}

static stx_err find_stage(struct run *r, const char *stage, const char *format, struct shown *s)
{
	int gpu = stx_gpu_is_target(r->options->target);
	memset(s, 0, sizeof *s);
	s->until = stx__pass_of_stage(stage);
	for (unsigned i = 0; !s->until && i < sizeof emitted / sizeof *emitted; i++)
		if (!strcmp(emitted[i].name, stage) &&
		    (emitted[i].gpu < 0 || emitted[i].gpu == gpu)) {
			s->until = stx__pass_of_stage("kernels");
			s->is_emitted = 1;
			s->emit = emitted[i].stage;
		}
	if (!s->until)
		return stx_fail(r->d, STX_E_USAGE, "dump", NULL,
				"stage '%s' is unknown; %s targets have %s", stage,
				gpu ? "CUDA" : "CPU", stage_names(r, 0, gpu));
	s->is_picture = stx_picture_is_format(format);
	if (!s->is_picture && strcmp(format, "text"))
		return stx_fail(r->d, STX_E_USAGE, "dump", NULL,
				"format '%s' is unknown; there are text, dot, svg", format);
	if (s->is_picture && (s->is_emitted || s->until->product == DATA))
		return stx_fail(r->d, STX_E_USAGE, "dump", NULL,
				"stage %s is text only; pictures show %s", stage,
				stage_names(r, 1, gpu));
	return STX_E_OK;
}

stx_err stx_compile_dump(struct stx_compiler *c, const struct stx_source *s,
			 const struct stx_compile_options *o, const char *stage, const char *format,
			 struct stx_bytes *out, struct stx_diag *d)
{
	struct run r;
	struct shown shown;
	struct stx_bytes text = { 0 };
	stx_err e = stx__run_open(&r, o, d);
	if (e)
		return e;
	r.source = s;
	e = find_stage(&r, stage, format, &shown);
	if (!e)
		e = stx__run_passes(&r, KEY, shown.until);
	if (!e && shown.until->run == PLAN) {
		e = stx_graph_print(r.graph, &text);
		r.text = (struct stx_span){ text.at, text.n };
		if (!e)
			e = stx__run_passes(&r, PLAN, shown.until);
	}
	if (!e)
		e = shown.is_picture ? dump_picture(&r, shown.until->product, format, out, d)
				     : dump_text(c, &r, &shown, out, d);
	stx_bytes_free(&text);
	stx__run_close(&r);
	return e;
}

void stx_compile_coverage(struct stx_bytes *out)
{
	unsigned rows[STX_CAT_COUNT] = { 0 }, ruled[STX_CAT_COUNT] = { 0 }, rules = 0;
	for (int op = 0; op < STX_OP_COUNT; op++) {
		enum stx_op_category c = stx_op_info((enum stx_op)op)->category;
		unsigned has = (unsigned)stx_lower_has_rule((enum stx_op)op);
		rows[c]++;
		ruled[c] += has;
		rules += has;
	}
	for (int c = 0; c < STX_CAT_COUNT; c++)
		stx_bytes_printf(out, "%-13s %3u operators, %3u lowered as they are\n",
				 stx_op_category_name((enum stx_op_category)c), rows[c], ruled[c]);
	stx_bytes_printf(out, "%-13s %3u operators, %3u lowered as they are\n", "all",
			 (unsigned)STX_OP_COUNT, rules);
}

stx_err stx_compile_reference(const struct stx_source *s, const struct stx_tensor *inputs,
			      uint32_t ninputs, struct stx_tensor *outputs, uint32_t *noutputs,
			      struct stx_diag *d)
{
	struct run r;
	struct stx_compile_options o = { .target = "cpu:x86-64-v2" };
	stx_err e = stx__run_open(&r, &o, d);
	if (e)
		return e;
	r.source = s;
	e = stx__run_passes(&r, KEY, stx__pass_functionalise());
	if (!e)
		e = stx__verify_source(&r);
	if (!e && r.graph->outputs.n > *noutputs)
		e = stx_fail(d, STX_E_TOO_LARGE, "reference", NULL,
			     "the graph has %u outputs, room for %u", r.graph->outputs.n,
			     *noutputs);
	if (!e) {
		*noutputs = r.graph->outputs.n;
		e = stx_ref_evaluate(r.graph, inputs, ninputs, outputs, 0, d);
	}
	stx__run_close(&r);
	return e;
}
