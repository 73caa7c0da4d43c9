/* import.c: dispatch on the form. */
#include "import.h"

#include "onnx_import.h"
#include "passes.h"

#include <string.h>

static stx_err import_text(struct stx_arena *a, struct stx_span body, struct stx_import_result *out,
			   struct stx_diag *d)
{
	stx_err e = stx_graph_parse(a, (const char *)body.at, body.n, &out->graph, d);
	if (e)
		return e;
	struct stx_graph *g = out->graph;
	out->input_names = STX_NEW_ARRAY(a, const char *, g->inputs.n);
	out->output_names = STX_NEW_ARRAY(a, const char *, g->outputs.n);
	if (!out->input_names || !out->output_names)
		return stx_fail(d, STX_E_TOO_LARGE, "import", NULL,
				"the graph is over its memory budget");
	for (unsigned i = 0; i < g->inputs.n; i++)
		out->input_names[i] = g->inputs.at[i].node->name;
	for (unsigned i = 0; i < g->outputs.n; i++) {
		const struct stx_output *o = &g->outputs.at[i];
		out->output_names[i] =
			o->name      ? o->name
			: o->val.out ? stx_arena_printf(a, "%s:%u", o->val.node->name, o->val.out)
				     : o->val.node->name;
		if (!out->output_names[i])
			return stx_fail(d, STX_E_TOO_LARGE, "import", NULL,
					"the graph is over its memory budget");
	}
	return STX_E_OK;
}

stx_err stx_import(struct stx_arena *a, enum stx_graph_format f, struct stx_span body,
		   const struct stx_import_options *o, struct stx_import_result *out,
		   struct stx_diag *d)
{
	static const struct stx_import_options none;
	memset(out, 0, sizeof *out);
	if (!o)
		o = &none;
	switch (f) {
	case STX_FORMAT_WIRE: return stx_import_wire(a, body, o, out, d);
	case STX_FORMAT_TEXT: return import_text(a, body, out, d);
	case STX_FORMAT_ONNX: return stx_import_onnx(a, body, o, out, d);
	}
	return stx_fail(d, STX_E_INVALID, "import", NULL,
			"graph format %d is unknown (1 wire, 2 text, 3 ONNX)", (int)f);
}
