/* kernel_print.c: kernel IR to text (grammar: kernel.h). Lossless but for symbol and buffer
 * numbers. Digests are taken of this text on the path of every compile: instructions, of which there
 * are many, are put together without printf. */
#include <math.h>
#include <stdio.h>

#include "kernel_impl.h"

struct printer {
	const struct stx_kernel *k;
	struct stx_bytes *out;
	int normalised;
};

/* ---- numbers ---- */

static void put_u64(struct stx_bytes *out, uint64_t v)
{
	char text[20];
	size_t n = sizeof text;
	do {
		text[--n] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	stx_bytes_put(out, text + n, sizeof text - n);
}

static void put_i64(struct stx_bytes *out, int64_t v)
{
	if (v < 0)
		stx_bytes_u8(out, '-');
	put_u64(out, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

static void put_hex(struct stx_bytes *out, uint64_t v, int digits)
{
	for (int i = digits; i-- > 0;)
		stx_bytes_u8(out, (uint8_t) "0123456789abcdef"[v >> (4 * i) & 15]);
}

/* 0x1.8p+3, as printf's %a writes it. v is finite. */
static void put_float(struct stx_bytes *out, double v)
{
	uint64_t bits;
	memcpy(&bits, &v, sizeof bits);
	uint64_t mantissa = bits & 0xfffffffffffffu;
	int exponent = (int)(bits >> 52 & 0x7ff), digits = 13;
	stx_bytes_puts(out, bits >> 63 ? "-0x" : "0x");
	stx_bytes_u8(out, exponent ? '1' : '0');
	while (digits && !(mantissa & 15)) {
		mantissa >>= 4;
		digits--;
	}
	if (digits) {
		stx_bytes_u8(out, '.');
		put_hex(out, mantissa, digits);
	}
	stx_bytes_u8(out, 'p');
	exponent = exponent ? exponent - 1023 : digits ? -1022 : 0;
	if (exponent >= 0)
		stx_bytes_u8(out, '+');
	put_i64(out, exponent);
}

static void put_value(struct stx_bytes *out, uint32_t v)
{
	stx_bytes_puts(out, " t");
	put_u64(out, v);
}

static void put_word(struct stx_bytes *out, const char *word)
{
	stx_bytes_puts(out, word);
	stx_bytes_u8(out, ' ');
}

/* ---- pieces ---- */

static void name_of(void *ctx, enum stx_atom_kind kind, uint32_t number, char *out, size_t cap)
{
	const struct printer *p = ctx;
	size_t n = kind == STX_ATOM_VAR && number < p->k->axes.n
			   ? strlen(p->k->axes.at[number].name)
			   : cap;
	if (n < cap)
		memcpy(out, p->k->axes.at[number].name, n + 1);
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
		if (c < 32 || c >= 127 || c == '"' || c == '\\') {
			stx_bytes_puts(out, "\\x");
			put_hex(out, c, 2);
		} else {
			stx_bytes_u8(out, c);
		}
	}
	stx_bytes_u8(out, '"');
}

static void put_scalar(struct stx_bytes *out, enum stx_dtype t, union stx_scalar v)
{
	if (!stx_dtype_is_float(t)) {
		if (stx_dtype_kind(t) == STX_KIND_UINT)
			put_u64(out, v.u);
		else
			put_i64(out, v.i);
	} else if (isnan(v.f)) {
		stx_bytes_puts(out, "nan(0x");
		put_hex(out, v.u, 16);
		stx_bytes_u8(out, ')');
	} else if (isinf(v.f)) {
		stx_bytes_puts(out, v.f < 0 ? "-inf" : "inf");
	} else {
		put_float(out, v.f);
	}
}

static void put_access(struct printer *p, const struct stx_kinst *i)
{
	stx_bytes_puts(p->out, stx_dtype_name((enum stx_dtype)i->dtype));
	stx_bytes_puts(p->out, " p");
	put_u64(p->out, i->a);
	stx_bytes_u8(p->out, '[');
	put_ex(p, i->ex);
	stx_bytes_u8(p->out, ']');
}

static void put_mask(struct printer *p, uint32_t mask)
{
	if (mask == STX_NONE)
		return;
	stx_bytes_puts(p->out, " mask");
	put_value(p->out, mask);
}

static void put_prim(struct printer *p, const struct stx_kinst *i)
{
	const struct stx_prim_info *info = stx_prim_info((enum stx_prim)i->op);
	const uint32_t operand[3] = { i->a, i->b, i->c };
	put_word(p->out, info->text);
	stx_bytes_puts(p->out, stx_dtype_name((enum stx_dtype)i->dtype));
	for (int j = 0; j < info->arity && j < 3; j++)
		put_value(p->out, operand[j]);
}

static void put_indirect(struct printer *p, const struct stx_kinst *i)
{
	stx_bytes_puts(p->out, "indirect");
	put_value(p->out, i->a);
	stx_bytes_puts(p->out, " bound ");
	put_ex(p, i->ex);
	stx_bytes_puts(p->out, " axis ");
	put_u64(p->out, i->axis);
	stx_bytes_puts(p->out, i->flags & STX_BF_WRAP ? " wrap" : "");
	stx_bytes_puts(p->out, i->flags & STX_BF_CHECK ? " check" : "");
	put_mask(p, i->c);
}

static void put_special(struct printer *p, const struct stx_kinst *i)
{
	struct stx_bytes *out = p->out;
	const char *dtype = stx_dtype_name((enum stx_dtype)i->dtype);
	switch (i->op) {
	case STX_K_CONST:
		put_word(out, "const");
		put_word(out, dtype);
		put_scalar(out, (enum stx_dtype)i->dtype, i->k);
		break;
	case STX_K_INDEX:
		put_word(out, "index");
		put_word(out, dtype);
		put_ex(p, i->ex);
		break;
	case STX_K_LOAD:
		put_word(out, "load");
		put_access(p, i);
		put_mask(p, i->c);
		break;
	case STX_K_STORE:
		put_word(out, "store");
		put_access(p, i);
		put_value(out, i->b);
		put_mask(p, i->c);
		break;
	case STX_K_INDIRECT: put_indirect(p, i); break;
	case STX_K_ACC:
		put_word(out, "acc");
		put_word(out, stx_monoid_info((enum stx_monoid)i->flags)->text);
		put_word(out, stx__order_name((enum stx_order)i->axis));
		put_word(out, dtype);
		stx_bytes_puts(out, p->k->axes.at[i->a].name);
		if (i->c != STX_NONE)
			stx_bytes_printf(out, " each %s", p->k->axes.at[i->c].name);
		break;
	case STX_K_UPDATE:
		stx_bytes_puts(out, "update");
		put_value(out, i->a);
		put_value(out, i->b);
		if (i->c != STX_NONE)
			put_value(out, i->c);
		break;
	case STX_K_RESULT:
		put_word(out, "result");
		stx_bytes_puts(out, dtype);
		put_value(out, i->a);
		stx_bytes_u8(out, ' ');
		put_u64(out, i->flags);
		break;
	case STX_K_LOOP:
		put_word(out, "loop");
		stx_bytes_puts(out, p->k->axes.at[i->a].name);
		break;
	case STX_K_SORT:
		put_word(out, "sort");
		stx_bytes_printf(out, "%s p%u p%u[", dtype, i->a, i->b);
		put_ex(p, i->ex);
		stx_bytes_printf(out, "] %s", p->k->axes.at[i->c].name);
		if (i->k.i)
			stx_bytes_printf(out, " first %lld", (long long)i->k.i);
		break;
	default: stx_bytes_puts(out, "?");
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
		if (stx__kinst_defines(i)) {
			stx_bytes_u8(p->out, 't');
			put_u64(p->out, n);
			stx_bytes_puts(p->out, " = ");
		}
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
		stx_bytes_printf(p->out, "scalar s%u range %lld %lld", i, (long long)r.lo,
				 (long long)r.hi);
		if (!p->normalised)
			stx_bytes_printf(p->out, " hint %lld", (long long)stx_ex_hint(p->k->ex, e));
		stx_bytes_u8(p->out, '\n');
	}
}

static void put_params(struct printer *p)
{
	for (uint32_t i = 0; i < p->k->params.n; i++) {
		const struct stx_kparam *q = &p->k->params.at[i];
		stx_bytes_printf(p->out, "param p%u %s %s%s elems ", i, stx_dtype_name(q->dtype),
				 q->is_written ? q->is_read ? "readwrite" : "write" : "read",
				 q->is_constant ? " constant" : "");
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
		stx_bytes_printf(p->out, "axis %s %s %s", a->name, stx_binding_name(a->binding),
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
	stx_bytes_printf(out, "%s bits %u target %s", stx_kernel_kind_name(k->kind), k->index_bits,
			 k->target_gpu ? "gpu" : "cpu");
	if (k->block_words)
		stx_bytes_printf(out, " block %u", k->block_words);
	stx_bytes_u8(out, '\n');
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
