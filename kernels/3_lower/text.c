/* text.c
 * prints a loop program in the style of the seed's listings 6.2 to 6.4; parse.c is its inverse. */
#include "inner.h"
#include "loops_text.h"

static void print_list(const struct stx__names *n, const stx_ex *at, uint32_t count,
		       struct stx_bytes *out)
{
	uint32_t i;

	stx_bytes_puts(out, "[");
	for (i = 0; i < count; i++) {
		stx_bytes_puts(out, i ? ", " : "");
		stx__loops_ex(n, at[i], out);
	}
	stx_bytes_puts(out, "]");
}

static void print_layout(const struct stx__names *n, struct stx_bytes *out)
{
	const struct stx_buffer *b = n->b;

	stx_bytes_printf(
		out, "layout=%s(%s, size=", b->layout.flexible ? "FlexibleLayout" : "FixedLayout",
		stx_dtype_name(b->dtype));
	print_list(n, b->layout.sizes, b->layout.rank, out);
	stx_bytes_puts(out, ", stride=");
	print_list(n, b->layout.strides, b->layout.rank, out);
	if (!stx_ex_equals(n->l->ex, b->layout.offset, 0)) {
		stx_bytes_puts(out, ", offset=");
		stx__loops_ex(n, b->layout.offset, out);
	}
	stx_bytes_puts(out, ")");
}

/* `i0, i1 = index`, and the reduction axes; nothing for no axes. */
static void print_axes(uint32_t n, const char *prefix, const char *from, struct stx_bytes *out)
{
	uint32_t i;

	if (!n)
		return;
	stx_bytes_puts(out, "      ");
	for (i = 0; i < n; i++)
		stx_bytes_printf(out, "%s%s%u", i ? ", " : "", prefix, i);
	stx_bytes_printf(out, " = %s\n", from);
}

static void print_body(const struct stx__names *n, struct stx_bytes *out)
{
	const struct stx_buffer *b = n->b;
	uint32_t i;

	stx_bytes_printf(out, "  def inner_fn(index%s):\n", b->nrranges ? ", rindex" : "");
	print_axes(b->nranges, "i", "index", out);
	print_axes(b->nrranges, "r0_", "rindex", out);
	for (i = 0; i < b->body.n; i++) {
		stx_bytes_printf(out, "      tmp%u = ", i);
		stx__loops_inst(n, &b->body.at[i], out);
		stx_bytes_puts(out, "\n");
	}
	stx_bytes_puts(out, "      return ");
	for (i = 0; i < b->body.nresults; i++)
		stx_bytes_printf(out, "%stmp%u", i ? ", " : "", b->body.result[i]);
	stx_bytes_puts(out, "\n  ,\n");
}

/* Where a point of ranges is stored when ranges are the layout's dimensions; then it is not
 * printed. */
static stx_ex layout_address(const struct stx__names *n)
{
	const struct stx_layout *y = &n->b->layout;

	return stx__address(n->l->ex, (struct stx__shape){ y->rank, y->sizes }, y->strides,
			    y->offset);
}

static void print_definition(const struct stx__names *n, struct stx_bytes *out)
{
	const struct stx_buffer *b = n->b;
	uint32_t i;

	static const char *const heads[] = { [STX_DEF_POINTWISE] = "Pointwise",
					     [STX_DEF_REDUCTION] = "Reduction",
					     [STX_DEF_SCATTER] = "Scatter",
					     [STX_DEF_SCAN] = "Scan",
					     [STX_DEF_SORT] = "Sort" };

	stx_bytes_printf(out, ", data=%s(\n", heads[b->def]);
	print_body(n, out);
	stx_bytes_puts(out, "  ranges=");
	print_list(n, b->ranges, b->nranges, out);
	stx_bytes_puts(out, ",\n");
	if (b->def == STX_DEF_REDUCTION || b->def == STX_DEF_SCAN) {
		stx_bytes_puts(out, "  reduction_ranges=");
		print_list(n, b->rranges, b->nrranges, out);
		stx_bytes_printf(out, ",\n  reduction_type=%s,\n",
				 stx_monoid_info(b->monoid)->text);
		if (stx_monoid_info(b->monoid)->state > 1)
			stx_bytes_printf(out, "  state=%u,\n", b->state);
		stx_bytes_printf(out, "  acc=%s,\n", stx_dtype_name(b->acc));
		if (b->rlimit != STX_EX_BAD) {
			stx_bytes_puts(out, "  reduction_limit=");
			stx__loops_ex(n, b->rlimit, out);
			stx_bytes_puts(out, ",\n");
		}
		stx_bytes_puts(out, b->is_merge ? "  order=merge,\n" : "");
		stx_bytes_puts(out, b->is_by_rows > 1 ? "  order=whole rows,\n"
				    : b->is_by_rows   ? "  order=rows,\n"
						      : "");
	}
	if (b->def == STX_DEF_SORT) {
		stx_bytes_puts(out, "  sort_range=");
		print_list(n, b->rranges, b->nrranges, out);
		stx_bytes_printf(out, ",\n  scratch=['%s', '%s'],\n",
				 n->l->buffers.at[b->scratch[0]]->name,
				 n->l->buffers.at[b->scratch[1]]->name);
	}
	if (b->def == STX_DEF_SCATTER) {
		stx_bytes_puts(out, "  reduction_ranges=");
		print_list(n, b->rranges, b->nrranges, out);
		stx_bytes_printf(out, ",\n  combine=%s,\n",
				 b->overwrite ? "store" : stx_monoid_info(b->monoid)->text);
	}
	if (b->base)
		stx_bytes_printf(out, "  base='%s',\n", b->base->name);
	if (b->def == STX_DEF_SCATTER || b->def == STX_DEF_SCAN || b->store != layout_address(n)) {
		stx_bytes_puts(out, "  store=");
		stx__loops_ex(n, b->store, out);
		stx_bytes_puts(out, ",\n");
	}
	if (b->message) {
		stx_bytes_puts(out, "  message='");
		for (const char *c = *b->message ? b->message : "_"; *c; c++) /* as one word */
			stx_bytes_u8(out,
				     (unsigned char)*c > ' ' && *c != '\'' ? (uint8_t)*c : '_');
		stx_bytes_puts(out, "',\n");
	}
	stx_bytes_printf(out, "  realized_by='%s',\n  origins=[", stx_realized_text(b->rule));
	for (i = 0; i < b->norigins; i++)
		stx_bytes_printf(out, "%s%s", i ? ", " : "", b->origins[i]);
	stx_bytes_puts(out, b->has_more_origins ? ", ...]\n)" : "]\n)");
}

static void print_data(const struct stx_buffer *b, struct stx_bytes *out)
{
	size_t i;

	stx_bytes_puts(out, ", data=0x");
	for (i = 0; i < b->data.n; i++)
		stx_bytes_printf(out, "%02x", b->data.bytes[i]);
}

stx_err stx_loops_print(const struct stx_loops *l, struct stx_bytes *out)
{
	static const char *const heads[] = { "InputBuffer", "ConstantBuffer", "ComputedBuffer",
					     "ComputedBuffer" };
	uint32_t i;

	for (i = 0; l->g && i < l->g->symbols.n; i++) {
		const struct stx_symbol *y = &l->g->symbols.at[i];

		stx_bytes_printf(out, "Symbol(name='%s', range=[%lld, %lld], hint=%lld)\n", y->name,
				 (long long)y->range.lo, (long long)y->range.hi,
				 (long long)y->hint);
	}
	for (i = 0; i < l->buffers.n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		struct stx__names n = { l, b };

		stx_bytes_printf(out, "%s(name='%s', ",
				 b->def == STX_DEF_SCRATCH ? "ScratchBuffer" : heads[b->kind],
				 b->name);
		print_layout(&n, out);
		if (b->kind == STX_BUF_INPUT || b->kind == STX_BUF_OUTPUT)
			stx_bytes_printf(out, ", %s=%u",
					 b->kind == STX_BUF_INPUT ? "input" : "output", b->index);
		if (b->kind == STX_BUF_CONST)
			print_data(b, out);
		if (b->def != STX_DEF_NONE && b->def != STX_DEF_SCRATCH)
			print_definition(&n, out);
		stx_bytes_puts(out, ")\n");
	}
	for (i = 0; i < l->outputs.n; i++) {
		uint32_t own = l->buffers.at[l->outputs.at[i]]->index;

		if (own != i)
			stx_bytes_printf(out, "Alias(output=%u, of=%u)\n", i, own);
	}
	return out->oom ? STX_E_NOMEM : 0;
}
