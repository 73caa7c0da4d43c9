/* handlers.c
 * interpretations of a buffer's definition: reads and writes, counts, text (seed 000 6.7;
 * IR-05..07).
 *
 * Each walks the flat body once; what an instruction is comes from prims.def, so a new primitive
 * needs no change here. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "loops_text.h"

stx_err stx_handler_accesses(const struct stx_loops *l, const struct stx_buffer *b,
			     struct stx_arena *a, struct stx_access **out, uint32_t *n)
{
	uint32_t i, k = 0;

	for (i = 0; i < b->body.n; i++)
		k += b->body.at[i].op == STX_B_LOAD;
	*out = STX_NEW_ARRAY(a, struct stx_access, k + 1u);
	*n = 0;
	if (!*out)
		return STX_E_NOMEM;
	for (i = 0; i < b->body.n; i++) {
		const struct stx_binst *in = &b->body.at[i];

		if (in->op == STX_B_LOAD)
			(*out)[(*n)++] =
				(struct stx_access){ .buffer = in->a,
						     .ex = in->ex,
						     .masked = in->c != STX_NONE,
						     .indirect = (uint8_t)stx_ex_uses_kind(
							     l->ex, in->ex, STX_ATOM_INDIRECT) };
	}
	if (b->def != STX_DEF_NONE && b->def != STX_DEF_SCRATCH)
		(*out)[(*n)++] =
			(struct stx_access){ .buffer = b->id, .ex = b->store, .is_write = 1 };
	return 0;
}

void stx_handler_counts(const struct stx_buffer *b, struct stx_counts *out)
{
	uint32_t i;

	memset(out, 0, sizeof *out);
	for (i = 0; i < b->body.n; i++) {
		uint8_t op = b->body.at[i].op;

		out->used[op / 64] |= UINT64_C(1) << op % 64;
		if (op < STX_PRIM_COUNT)
			out->ops += (uint32_t)stx_prim_info(op)->cost;
		out->reads += op == STX_B_LOAD;
		out->consts += op == STX_B_CONST;
	}
}

/* ---- text ---- */

void stx__loops_axis(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out, size_t cap)
{
	const struct stx__names *n = ctx;

	if (kind == STX_ATOM_VAR && number < n->b->nranges)
		snprintf(out, cap, "i%u", number);
	else if (kind == STX_ATOM_VAR)
		snprintf(out, cap, "r0_%u", number - n->b->nranges);
	else if (kind == STX_ATOM_INDIRECT)
		snprintf(out, cap, "tmp%u", number);
	else if (n->l->g && number < n->l->g->symbols.n)
		snprintf(out, cap, "%s", n->l->g->symbols.at[number].name);
	else
		snprintf(out, cap, "s%u", number);
}

void stx__loops_ex(const struct stx__names *n, stx_ex e, struct stx_bytes *out)
{
	stx_ex_print(n->l->ex, e, stx__loops_axis, (void *)n, out);
}

/* Shortest of %.9g (f32 and narrower) and %.17g; integers of any size in full. */
static void print_constant(enum stx_dtype t, union stx_scalar k, struct stx_bytes *out)
{
	if (stx_dtype_is_float(t)) {
		if (isnan(k.f) || isinf(k.f))
			stx_bytes_puts(out, isnan(k.f) ? "nan" : k.f < 0 ? "-inf" : "inf");
		else
			stx_bytes_printf(out, t == STX_F64 ? "%.17g" : "%.9g", k.f);
	} else if (stx_dtype_kind(t) == STX_KIND_BOOL) {
		stx_bytes_puts(out, k.u ? "True" : "False");
	} else if (stx_dtype_kind(t) == STX_KIND_UINT) {
		stx_bytes_printf(out, "%llu", (unsigned long long)k.u);
	} else {
		stx_bytes_printf(out, "%lld", (long long)k.i);
	}
}

static void print_mask(uint32_t mask, struct stx_bytes *out)
{
	if (mask != STX_NONE)
		stx_bytes_printf(out, ", mask=tmp%u", mask);
}

static void print_prim(const struct stx_binst *in, struct stx_bytes *out)
{
	const struct stx_prim_info *info = stx_prim_info(in->op);
	const uint32_t operand[3] = { in->a, in->b, in->c };
	int k;

	stx_bytes_printf(out, "ops.%s(", info->text);
	for (k = 0; k < info->arity && k < 3; k++)
		stx_bytes_printf(out, "%s'tmp%u'", k ? ", " : "", operand[k]);
	if (info->result == STX_RESULT_CAST)
		stx_bytes_printf(out, ", %s", stx_dtype_name(in->dtype));
	stx_bytes_puts(out, ")");
}

void stx__loops_inst(const struct stx__names *n, const struct stx_binst *in, struct stx_bytes *out)
{
	switch (in->op) {
	case STX_B_CONST:
		stx_bytes_puts(out, "ops.constant(");
		print_constant(in->dtype, in->k, out);
		stx_bytes_printf(out, ", %s)", stx_dtype_name(in->dtype));
		break;
	case STX_B_INDEX:
		stx_bytes_puts(out, "ops.index_expr(");
		stx__loops_ex(n, in->ex, out);
		stx_bytes_printf(out, ", %s)", stx_dtype_name(in->dtype));
		break;
	case STX_B_LOAD:
		stx_bytes_printf(out, "ops.load('%s', ", n->l->buffers.at[in->a]->name);
		stx__loops_ex(n, in->ex, out);
		print_mask(in->c, out);
		stx_bytes_puts(out, ")");
		break;
	case STX_B_INDIRECT:
		stx_bytes_printf(out, "ops.indirect_indexing('tmp%u', ", in->a);
		stx__loops_ex(n, in->ex, out);
		stx_bytes_puts(out, in->flags & STX_BF_WRAP ? ", wrap" : "");
		stx_bytes_puts(out, in->flags & STX_BF_CHECK ? ", check" : "");
		print_mask(in->c, out);
		stx_bytes_puts(out, ")");
		break;
	default: print_prim(in, out);
	}
}

stx_err stx_handler_text(const struct stx_loops *l, const struct stx_buffer *b,
			 struct stx_bytes *out)
{
	struct stx__names n = { l, b };
	uint32_t i;

	for (i = 0; i < b->body.n; i++) {
		stx_bytes_printf(out, "tmp%u = ", i);
		stx__loops_inst(&n, &b->body.at[i], out);
		stx_bytes_puts(out, "\n");
	}
	return out->oom ? STX_E_NOMEM : 0;
}
