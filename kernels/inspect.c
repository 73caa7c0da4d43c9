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

static stx_err dump_kernels(struct stx_compiler *c, struct run *r, const char *stage,
			    struct stx_bytes *out, struct stx_diag *d)
{
	int text = !strcmp(stage, "kernels");
	const char *mark = stx_gpu_is_target(r->options->target) ? "//" : ";";
	enum stx_emit_stage what = !strcmp(stage, "source") ? STX_EMIT_SOURCE
				   : !strcmp(stage, "llvm") ? STX_EMIT_OPTIMIZED_IR
							    : STX_EMIT_ASM;
	stx_err e = STX_E_OK;
	for (unsigned i = 0; !e && i < r->schedule->kernels.n; i++) {
		struct stx_emit_info info;
		struct stx_bytes ir = { 0 };
		if (text) {
			e = stx_kernel_print(r->schedule->kernels.at[i], out);
		} else {
			stx_bytes_printf(out, "%s ---- %s ----\n", mark,
					 r->schedule->kernels.at[i]->name);
			e = stx_kernel_print(r->schedule->kernels.at[i], &ir);
			if (!e)
				e = stx__emit_text(c, (struct stx_span){ ir.at, ir.n }, r->options,
						   what, out, &info, d);
		}
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

static stx_err dump_picture(struct run *r, const char *stage, const char *format,
			    struct stx_bytes *out, struct stx_diag *d)
{
	struct stx_picture p = { .arena = r->arena };
	stx_err e;
	name_ends(r, r->loops ? r->loops->g : r->graph);
	if (!strcmp(stage, "kernels"))
		e = stx_picture_of_schedule(r->loops, r->schedule, &p, d);
	else if (!strcmp(stage, "loops"))
		e = stx_picture_of_schedule(r->loops, NULL, &p, d);
	else
		e = stx_picture_of_graph(r->graph, &p, d);
	return e ? e : stx_picture_print(&p, format, out, d);
}

/* Stages whose product is boxes and edges. */
static int has_picture(const char *stage)
{
	static const char *const with[] = { "graph", "basis", "primitives", "loops", "kernels" };
	for (unsigned i = 0; i < sizeof with / sizeof *with; i++)
		if (!strcmp(with[i], stage))
			return 1;
	return 0;
}

static stx_err dump_product(struct stx_compiler *c, struct run *r, const char *stage,
			    struct stx_bytes *out, struct stx_diag *d)
{
	if (!strcmp(stage, "graph") || !strcmp(stage, "basis") || !strcmp(stage, "primitives"))
		return stx_graph_print(r->graph, out);
	if (!strcmp(stage, "loops"))
		return stx_loops_print(r->loops, out);
	if (!strcmp(stage, "plan"))
		return stx_plan_print((struct stx_span){ r->plan.at, r->plan.n }, out, d);
	return dump_kernels(c, r, stage, out, d);
}

static int known_stage(const char *stage, int gpu, const char **until)
{
	const char *const emitted[] = { "source", gpu ? "ptx" : "llvm", gpu ? "ptx" : "asm" };
	for (unsigned i = 0; i < stx__npasses; i++)
		if (stx__passes[i].stage && !strcmp(stx__passes[i].stage, stage)) {
			*until = stx__passes[i].stage;
			return 1;
		}
	*until = "kernels";
	for (unsigned i = 0; i < sizeof emitted / sizeof *emitted; i++)
		if (!strcmp(emitted[i], stage))
			return 1;
	return 0;
}

stx_err stx_compile_dump(struct stx_compiler *c, const struct stx_source *s,
			 const struct stx_compile_options *o, const char *stage, const char *format,
			 struct stx_bytes *out, struct stx_diag *d)
{
	struct run r;
	struct stx_bytes text = { 0 };
	const char *until;
	int gpu = stx_gpu_is_target(o->target);
	if (!known_stage(stage, gpu, &until))
		return stx_fail(d, STX_E_USAGE, "dump", NULL,
				"stage '%s' is unknown; %s targets have graph, basis, primitives, "
				"loops, kernels, plan, source, %s",
				stage, gpu ? "CUDA" : "CPU", gpu ? "ptx" : "llvm, asm");
	int picture = stx_picture_is_format(format);
	if (!picture && strcmp(format, "text"))
		return stx_fail(d, STX_E_USAGE, "dump", NULL,
				"format '%s' is unknown; there are text, dot, svg", format);
	if (picture && !has_picture(stage))
		return stx_fail(d, STX_E_USAGE, "dump", NULL,
				"stage %s is text only; pictures show graph, basis, primitives, "
				"loops, kernels",
				stage);
	stx_err e = stx__run_open(&r, o, d);
	if (e)
		return e;
	r.source = s;
	e = stx__run_passes(&r, KEY, until);
	int in_key = !strcmp(until, "graph") || !strcmp(until, "basis");
	if (!e && !in_key) {
		e = stx_graph_print(r.graph, &text);
		r.text = (struct stx_span){ text.at, text.n };
		if (!e)
			e = stx__run_passes(&r, PLAN, until);
	}
	if (!e)
		e = picture ? dump_picture(&r, stage, format, out, d)
			    : dump_product(c, &r, stage, out, d);
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
	e = stx__run_passes(&r, KEY, "graph");
	if (!e)
		e = stx_graph_verify(r.graph, d);
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
