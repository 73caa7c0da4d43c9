/* kernel_print.c: kernel IR to text (grammar: kernel.h). Lossless but for symbol and buffer numbers. */
#include <math.h>
#include <stdio.h>

#include "kernel_impl.h"

struct printer {
	const struct stx_kernel *k;
	struct stx_bytes *out;
	int normalised;
};

static void name_of(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out, size_t cap)
{
	const struct printer *p = ctx;
	if (kind == STX_ATOM_VAR && number < p->k->axes.n)
		snprintf(out, cap, "%s", p->k->axes.at[number].name);
	else if (kind == STX_ATOM_SYM)
		snprintf(out, cap, "s%d", stx__kernel_scalar(p->k, number));
	else
		snprintf(out, cap, "%c%u", kind == STX_ATOM_VAR ? 'v' : 't', number);
}

static void put_ex(struct printer *p, stx_ex e)
{
	stx_ex_print(p->k->ex, e, name_of, p, p->out);
}

static void put_string(struct stx_bytes *out, const char *s)
{
	stx_bytes_u8(out, '"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		if (c < 32 || c >= 127 || c == '"' || c == '\\')
			stx_bytes_printf(out, "\\x%02x", c);
		else
			stx_bytes_u8(out, c);
	}
	stx_bytes_u8(out, '"');
}

static void put_scalar(struct stx_bytes *out, enum stx_dtype t, union stx_scalar v)
{
	if (!stx_dtype_is_float(t)) {
		if (stx_dtype_kind(t) == STX_KIND_UINT)
			stx_bytes_printf(out, "%llu", (unsigned long long)v.u);
		else
			stx_bytes_printf(out, "%lld", (long long)v.i);
	} else if (isnan(v.f)) {
		stx_bytes_printf(out, "nan(0x%llx)", (unsigned long long)v.u);
	} else if (isinf(v.f)) {
		stx_bytes_puts(out, v.f < 0 ? "-inf" : "inf");
	} else {
		stx_bytes_printf(out, "%a", v.f);
	}
}

static void put_access(struct printer *p, const struct stx_kinst *i)
{
	stx_bytes_printf(p->out, "%s p%u[", stx_dtype_name((enum stx_dtype)i->dtype), i->a);
	put_ex(p, i->ex);
	stx_bytes_u8(p->out, ']');
}

static void put_mask(struct printer *p, uint32_t mask)
{
	if (mask != STX_NONE)
		stx_bytes_printf(p->out, " mask t%u", mask);
}

static void put_prim(struct printer *p, const struct stx_kinst *i)
{
	const struct stx_prim_info *info = stx_prim_info((enum stx_prim)i->op);
	const uint32_t operand[3] = { i->a, i->b, i->c };
	stx_bytes_printf(p->out, "%s %s", info->text, stx_dtype_name((enum stx_dtype)i->dtype));
	for (int j = 0; j < info->arity && j < 3; j++)
		stx_bytes_printf(p->out, " t%u", operand[j]);
}

static void put_special(struct printer *p, const struct stx_kinst *i)
{
	struct stx_bytes *out = p->out;
	const char *dtype = stx_dtype_name((enum stx_dtype)i->dtype);
	switch (i->op) {
	case STX_K_CONST:
		stx_bytes_printf(out, "const %s ", dtype);
		put_scalar(out, (enum stx_dtype)i->dtype, i->k);
		break;
	case STX_K_INDEX:
		stx_bytes_printf(out, "index %s ", dtype);
		put_ex(p, i->ex);
		break;
	case STX_K_LOAD:
		stx_bytes_puts(out, "load ");
		put_access(p, i);
		put_mask(p, i->c);
		break;
	case STX_K_STORE:
		stx_bytes_puts(out, "store ");
		put_access(p, i);
		stx_bytes_printf(out, " t%u", i->b);
		put_mask(p, i->c);
		break;
	case STX_K_INDIRECT:
		stx_bytes_printf(out, "indirect t%u bound ", i->a);
		put_ex(p, i->ex);
		stx_bytes_printf(out, " axis %u%s%s", i->axis, i->flags & STX_BF_WRAP ? " wrap" : "",
		                 i->flags & STX_BF_CHECK ? " check" : "");
		put_mask(p, i->c);
		break;
	case STX_K_ACC:
		stx_bytes_printf(out, "acc %s %s %s %s", stx_monoid_info((enum stx_monoid)i->flags)->text,
		                 stx__order_name((enum stx_order)i->axis), dtype,
		                 p->k->axes.at[i->a].name);
		break;
	case STX_K_UPDATE:
		stx_bytes_printf(out, "update t%u t%u", i->a, i->b);
		if (i->c != STX_NONE)
			stx_bytes_printf(out, " t%u", i->c);
		break;
	case STX_K_RESULT:
		stx_bytes_printf(out, "result %s t%u %u", dtype, i->a, i->flags);
		break;
	case STX_K_LOOP:
		stx_bytes_printf(out, "loop %s", p->k->axes.at[i->a].name);
		break;
	case STX_K_BARRIER:
		stx_bytes_puts(out, "barrier");
		break;
	default:
		stx_bytes_puts(out, "?");
	}
}

static void put_insts(struct printer *p)
{
	int depth = 1;
	for (uint32_t n = 0; n < p->k->insts.n; n++) {
		const struct stx_kinst *i = &p->k->insts.at[n];
		if (i->op == STX_K_END)
			depth -= depth > 1;
		for (int j = 0; j < depth; j++)
			stx_bytes_puts(p->out, "  ");
		if (i->op == STX_K_END) {
			stx_bytes_puts(p->out, "end\n");
			continue;
		}
		if (stx__kinst_defines(i))
			stx_bytes_printf(p->out, "t%u = ", n);
		if (i->op < STX_PRIM_COUNT)
			put_prim(p, i);
		else
			put_special(p, i);
		stx_bytes_u8(p->out, '\n');
		depth += i->op == STX_K_LOOP;
	}
}

static void put_scalars(struct printer *p)
{
	for (uint32_t i = 0; i < p->k->scalars.n; i++) {
		stx_ex e = p->k->scalar_ex.at[i];
		struct stx_interval r = stx_ex_interval(p->k->ex, e);
		stx_bytes_printf(p->out, "scalar s%u range %lld %lld", i, (long long)r.lo, (long long)r.hi);
		if (!p->normalised)
			stx_bytes_printf(p->out, " hint %lld", (long long)stx_ex_hint(p->k->ex, e));
		stx_bytes_u8(p->out, '\n');
	}
}

static void put_params(struct printer *p)
{
	for (uint32_t i = 0; i < p->k->params.n; i++) {
		const struct stx_kparam *q = &p->k->params.at[i];
		stx_bytes_printf(p->out, "param p%u %s %s elems ", i, stx_dtype_name(q->dtype),
		                 q->is_written ? q->is_read ? "readwrite" : "write" : "read");
		put_ex(p, q->elems);
		if (!p->normalised) {
			stx_bytes_u8(p->out, ' ');
			put_string(p->out, q->name ? q->name : "");
		}
		stx_bytes_u8(p->out, '\n');
	}
}

static void put_axes(struct printer *p)
{
	for (uint32_t i = 0; i < p->k->axes.n; i++) {
		const struct stx_axis *a = &p->k->axes.at[i];
		stx_bytes_printf(p->out, "axis %s %s %s", a->name, stx__binding_name(a->binding),
		                 a->is_reduction ? "reduction " : "");
		put_ex(p, a->size);
		stx_bytes_u8(p->out, '\n');
	}
}

stx_err stx__kernel_text(const struct stx_kernel *k, int normalised, struct stx_bytes *out)
{
	struct printer p = { .k = k, .out = out, .normalised = normalised };
	stx_bytes_puts(out, "kernel ");
	if (!normalised) {
		put_string(out, k->name ? k->name : "");
		stx_bytes_u8(out, ' ');
	}
	stx_bytes_printf(out, "%s bits %u target %s\n", stx_kernel_kind_name(k->kind), k->index_bits,
	                 k->target_gpu ? "gpu" : "cpu");
	put_scalars(&p);
	put_params(&p);
	put_axes(&p);
	if (!normalised) {
		stx_bytes_puts(out, "grain ");
		put_ex(&p, k->grain);
		stx_bytes_u8(out, '\n');
	}
	stx_bytes_puts(out, "begin\n");
	put_insts(&p);
	stx_bytes_puts(out, "end\n");
	return out->oom ? STX_E_NOMEM : STX_E_OK;
}

stx_err stx_kernel_print(const struct stx_kernel *k, struct stx_bytes *out)
{
	return stx__kernel_text(k, 0, out);
}
