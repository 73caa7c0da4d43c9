/* dump_cmd.c: stax dump: one stage of the compiler as text or a picture, through a private worker.
 */
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define STAGES "graph, basis, primitives, loops, kernels, plan, source, llvm, asm, ptx (CUDA)"

struct flags {
	const char *stage, *format, *target;
	int fast;
	struct stx_option_list files;
};

static const char *const stages[] = { "graph", "basis",  "primitives", "loops", "kernels",
				      "plan",  "source", "llvm",       "asm",   "ptx" };
/* Stages of the contract that this version does not have. */
static const char *const later_stages[] = { "joint", "forward", "backward" };
static const char *const formats[] = { "text", "dot", "svg" };

static int listed(const char *const *at, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(at[i], text))
			return 1;
	return 0;
}
#define LISTED(list, text) listed(list, sizeof(list) / sizeof *(list), text)

static stx_err check_flags(const struct flags *f, struct stx_diag *d)
{
	if (f->files.n != 1)
		return stx_fail(d, STX_E_USAGE, "usage", "", "dump takes one graph file");
	if (!f->stage)
		return stx_fail(d, STX_E_USAGE, "usage", "", "dump needs --stage: " STAGES);
	if (LISTED(later_stages, f->stage))
		return stx_fail(d, STX_E_UNSUPPORTED, "dump", "",
				"--stage %s is not offered by this version yet; stages: " STAGES,
				f->stage);
	if (!LISTED(stages, f->stage))
		return stx_fail(d, STX_E_USAGE, "usage", "",
				"--stage %s: no such stage; stages: " STAGES, f->stage);
	if (!LISTED(formats, f->format))
		return stx_fail(d, STX_E_USAGE, "usage", "",
				"--format %s: no such format; formats: text, dot, svg", f->format);
	return STX_E_OK;
}

static stx_err dump(const struct flags *f, struct stx_bytes *out, struct stx_diag *d)
{
	struct stx_tool_graph g;
	struct stax_client *c = NULL;
	struct stax_error err;
	char *text = NULL;
	size_t n = 0;
	stx_err e = stx_tool_graph_read(f->files.at[0], &g, d);
	if (!e && stax_connect("none", &c, &err)) {
		stx_tool_diag(d, &err);
		e = d->code;
	}
	if (!e) {
		struct stax_request q = { .target = f->target, .fast = f->fast };
		struct stx_tool_values none = { 0 };
		e = stx_tool_dump_graph(c, &g, &none, &q, f->stage, f->format, &text, &n, d);
	}
	if (!e)
		stx_bytes_put(out, text, n);
	free(text);
	stx_tool_graph_free(&g);
	stax_client_free(c);
	return e;
}

int stx_tool_dump(int argc, char **argv)
{
	struct flags f = { .format = "text" };
	struct stx_diag d = { 0 };
	struct stx_bytes out = { 0 };
	const struct stx_option table[] = {
		{ "stage", STX_OPT_TEXT, &f.stage },
		{ "format", STX_OPT_TEXT, &f.format },
		{ "target", STX_OPT_TEXT, &f.target },
		{ "fast", STX_OPT_FLAG, &f.fast },
		{ NULL, STX_OPT_FLAG, NULL },
	};
	stx_err e = stx_options_parse(argc, argv, table, &f.files, &d);
	if (!e && !(e = check_flags(&f, &d)))
		e = dump(&f, &out, &d);
	return e ? stx_tool_fail(&d, 0) : stx_tool_emit(&out);
}
