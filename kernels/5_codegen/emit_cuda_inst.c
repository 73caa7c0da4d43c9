/* emit_cuda_inst.c: one instruction as a statement of the loop over the elements of its stage: loads
 * and stores an element at a time, indices that are checked, computed values, updates. */
#include "emit_cuda.h"

#include <string.h>

static void declare(struct stx__cuda *e, uint32_t n, const char *type)
{
	if (e->info[n].is_array)
		stx_bytes_puts(e->out, "    ");
	else
		stx_bytes_printf(e->out, "    const %s ", type);
	stx__cuda_value(e, n, e->out);
	stx_bytes_puts(e->out, " = ");
}

/* "ok && o12 && mask" for an access. */
static void condition(struct stx__cuda *e, const struct stx_kinst *i, const char *ok,
		      struct stx_bytes *out)
{
	stx_bytes_puts(out, ok);
	if (i->op != STX_K_INDIRECT)
		stx__cuda_index_ok(e, i->ex, out);
	if (i->c != STX_NONE) {
		stx_bytes_puts(out, " && ");
		stx__cuda_value(e, i->c, out);
	}
}

static void put_load(struct stx__cuda *e, uint32_t n, const char *ok)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	struct stx_bytes cond = { 0 };
	declare(e, n, stx__cuda_type((enum stx_dtype)i->dtype));
	condition(e, i, ok, &cond);
	int always = !strcmp(stx_bytes_cstr(&cond), "true");
	if (!always)
		stx_bytes_printf(e->out, "%s ? ", stx_bytes_cstr(&cond));
	stx_bytes_printf(e->out, "p%u[", i->a);
	stx__cuda_index(e, i->ex, e->out);
	stx_bytes_puts(e->out, i->dtype == STX_BOOL ? "] != 0" : "]");
	if (!always)
		stx_bytes_printf(e->out, " : (%s)0", stx__cuda_type((enum stx_dtype)i->dtype));
	stx_bytes_puts(e->out, ";\n");
	stx_bytes_free(&cond);
}

static void put_store(struct stx__cuda *e, uint32_t n, const char *ok)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	struct stx_bytes cond = { 0 };
	condition(e, i, ok, &cond);
	if (e->region->loop == STX_NONE || (e->saxis != STX_NONE && !e->region->in_rows))
		stx_bytes_puts(&cond, stx__cuda_first_thread(e));
	stx_bytes_printf(e->out, "    if (%s) p%u[", stx_bytes_cstr(&cond), i->a);
	stx__cuda_index(e, i->ex, e->out);
	stx_bytes_puts(e->out, "] = ");
	stx__cuda_value(e, i->b, e->out);
	stx_bytes_puts(e->out, ";\n");
	stx_bytes_free(&cond);
}

static void put_indirect(struct stx__cuda *e, uint32_t n, const char *ok)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	struct stx_bytes cond = { 0 }, bound = { 0 }, name = { 0 }, given = { 0 };
	condition(e, i, ok, &cond);
	uint8_t wide = e->wide;
	e->wide = 1; /* bounds always have 64 bits; the variables convert */
	stx__cuda_index(e, i->ex, &bound);
	e->wide = wide;
	stx__cuda_value(e, n, &name);
	stx__cuda_value(e, i->a, &given); /* what is reported is the index as it came */
	const char *t = stx_bytes_cstr(&name), *b = stx_bytes_cstr(&bound);
	if (!e->info[n].is_array)
		stx_bytes_printf(e->out, "    i64 %s; bool o%s;\n", t, t);
	stx_bytes_printf(e->out, "    %s = %s;\n", t, stx_bytes_cstr(&given));
	if (i->flags & STX_BF_WRAP)
		stx_bytes_printf(e->out, "    if (%s < 0) %s += %s;\n", t, t, b);
	stx_bytes_printf(e->out, "    o%s = %s;\n", t, stx_bytes_cstr(&cond));
	if (i->flags & STX_BF_CHECK) {
		e->needs |= STX__NEED_BOUNDS;
		stx_bytes_printf(e->out,
				 "    if (o%s && (u64)%s >= (u64)(%s)) { out_of_bounds(record, "
				 "kernel, %d, %s, %s); o%s = false; }\n",
				 t, t, b, i->axis, stx_bytes_cstr(&given), b, t);
	}
	stx_bytes_printf(e->out, "    if (!o%s) %s = 0;\n", t, t);
	stx_bytes_free(&cond);
	stx_bytes_free(&bound);
	stx_bytes_free(&name);
	stx_bytes_free(&given);
}

static void put_value(struct stx__cuda *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	stx__cuda_rare_call(e, n);
	declare(e, n, stx__cuda_type((enum stx_dtype)i->dtype));
	if (i->op == STX_K_INDEX) {
		struct stx_bytes text = { 0 };
		stx_bytes_puts(&text, "(i64)(");
		stx__cuda_index(e, i->ex, &text);
		stx_bytes_puts(&text, ")");
		stx__cuda_cast(e, (enum stx_dtype)i->dtype, STX_I64, stx_bytes_cstr(&text), e->out);
		stx_bytes_free(&text);
	} else {
		stx__cuda_prim(e, i, e->out);
	}
	stx_bytes_puts(e->out, ";\n");
}

void stx__cuda_inst(struct stx__cuda *e, uint32_t n, const char *ok)
{
	switch (e->k->insts.at[n].op) {
	case STX_K_CONST:
	case STX_K_ACC:
	case STX_K_RESULT:
	case STX_K_SORT: break;
	case STX_K_LOAD: put_load(e, n, ok); break;
	case STX_K_STORE: put_store(e, n, ok); break;
	case STX_K_INDIRECT: put_indirect(e, n, ok); break;
	case STX_K_UPDATE: stx__cuda_acc_update(e, n, ok); break;
	default: put_value(e, n);
	}
}
