/* emit_cuda_prim.c: primitives as CUDA C expressions, with the meaning of stx_prim_eval.
 *
 * Floats rely on the flags NVRTC gets: no contraction, no flush, IEEE division and square root.
 * Signed arithmetic goes through unsigned types of the same width: it wraps. */
#include "emit_cuda.h"
#include "scalar.h"

static int is_narrow(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && stx_dtype_bytes(t) < 4;
}

static int is_f8(enum stx_dtype t)
{
	return stx_dtype_is_float(t) && stx_dtype_bytes(t) == 1;
}

static const char *unsigned_of(enum stx_dtype t)
{
	static const char *const names[] = { "u8", "u16", "u32", "u64" };
	return names[__builtin_ctz((unsigned)stx_dtype_bytes(t))];
}

/* ---- conversions ---- */

static void f8_name(enum stx_dtype t, int widen, struct stx_bytes *out)
{
	const struct stx_float_format *f = stx_float_format(t);
	stx_bytes_printf(out, "%s<%d, %d, %uu, %uu, %uu, %d>", widen ? "f8_to_f32" : "f32_to_f8",
			 f->mant, f->bias, f->max, f->inf, f->nan, f->nuz);
}

/* text, a narrow float, as f32. */
static void widened(struct stx__cuda *e, enum stx_dtype t, const char *text, struct stx_bytes *out)
{
	if (is_f8(t))
		f8_name(t, 1, out);
	else
		stx_bytes_puts(out, t == STX_F16 ? "f16_to_f32" : "bf16_to_f32");
	e->needs |= is_f8(t) ? STX__NEED_F8 : STX__NEED_F16;
	stx_bytes_printf(out, "(%s)", text);
}

static void narrowed(struct stx__cuda *e, enum stx_dtype t, const char *f32, struct stx_bytes *out)
{
	if (is_f8(t))
		f8_name(t, 0, out);
	else
		stx_bytes_puts(out, t == STX_F16 ? "f32_to_f16" : "f32_to_bf16");
	e->needs |= is_f8(t) ? STX__NEED_F8 : STX__NEED_F16;
	stx_bytes_printf(out, "(%s)", f32);
}

static void from_float(struct stx__cuda *e, enum stx_dtype to, enum stx_dtype from,
		       const char *text, struct stx_bytes *out)
{
	if (is_narrow(to)) {
		struct stx_bytes f32 = { 0 };
		if (from == STX_F64)
			e->needs |= STX__NEED_ODD;
		stx_bytes_printf(&f32, from == STX_F64 ? "f64_to_odd(%s)" : "%s", text);
		narrowed(e, to, stx_bytes_cstr(&f32), out);
		stx_bytes_free(&f32);
	} else if (stx_dtype_is_float(to)) {
		stx_bytes_printf(out, "(%s)%s", stx__cuda_type(to), text);
	} else if (to == STX_BOOL) {
		stx_bytes_printf(out, "%s != 0", text);
	} else {
		e->needs |= STX__NEED_TO_INT;
		if (stx_dtype_bytes(to) < 4)
			stx_bytes_printf(out, "to_small<%s>(%s)", stx__cuda_type(to), text);
		else
			stx_bytes_printf(out, "to_%s(%s)", stx__cuda_type(to), text);
	}
}

static void from_int(struct stx__cuda *e, enum stx_dtype to, enum stx_dtype from, const char *text,
		     struct stx_bytes *out)
{
	struct stx_bytes f32 = { 0 };
	if (!is_narrow(to)) {
		if (to == STX_BOOL)
			stx_bytes_printf(out, "%s != 0", text);
		else
			stx_bytes_printf(out, "(%s)%s", stx__cuda_type(to), text);
		return;
	}
	if (stx_dtype_bytes(from) <= 2) {
		stx_bytes_printf(&f32, "(f32)%s", text);
	} else {
		e->needs |= STX__NEED_ODD;
		if (stx_dtype_bytes(from) == 8) {
			e->needs |= STX__NEED_STICKY;
			stx_bytes_printf(&f32, "f64_to_odd(sticky_f64(%s))", text);
		} else {
			stx_bytes_printf(&f32, "f64_to_odd((f64)%s)", text);
		}
	}
	narrowed(e, to, stx_bytes_cstr(&f32), out);
	stx_bytes_free(&f32);
}

void stx__cuda_cast(struct stx__cuda *e, enum stx_dtype to, enum stx_dtype from, const char *text,
		    struct stx_bytes *out)
{
	struct stx_bytes wide = { 0 };
	if (to == from) {
		stx_bytes_puts(out, text);
		return;
	}
	if (is_narrow(from)) {
		widened(e, from, text, &wide);
		if (to == STX_F32)
			stx_bytes_puts(out, stx_bytes_cstr(&wide));
		else
			from_float(e, to, STX_F32, stx_bytes_cstr(&wide), out);
	} else if (stx_dtype_is_float(from)) {
		from_float(e, to, from, text, out);
	} else {
		from_int(e, to, from, text, out);
	}
	stx_bytes_free(&wide);
}

static void bitcast(enum stx_dtype to, enum stx_dtype from, const char *text, struct stx_bytes *out)
{
	const char *t = stx__cuda_type(to);
	if (to == STX_F32)
		stx_bytes_printf(out, "__int_as_float((i32)%s)", text);
	else if (to == STX_F64)
		stx_bytes_printf(out, "__longlong_as_double((i64)%s)", text);
	else if (from == STX_F32)
		stx_bytes_printf(out, "(%s)__float_as_int(%s)", t, text);
	else if (from == STX_F64)
		stx_bytes_printf(out, "(%s)__double_as_longlong(%s)", t, text);
	else
		stx_bytes_printf(out, "(%s)%s", t, text);
}

/* ---- arithmetic ---- */

struct operands {
	const char *a, *b, *c;
};

static const char *infix(enum stx_prim op)
{
	switch (op) {
	case STX_P_ADD: return "+";
	case STX_P_SUB: return "-";
	case STX_P_MUL: return "*";
	case STX_P_DIV: return "/";
	case STX_P_AND: return "&";
	case STX_P_OR: return "|";
	case STX_P_XOR: return "^";
	case STX_P_EQ: return "==";
	case STX_P_NE: return "!=";
	case STX_P_LT: return "<";
	case STX_P_LE: return "<=";
	case STX_P_GT: return ">";
	case STX_P_GE: return ">=";
	default: return NULL;
	}
}

/* The C function of a float primitive, without the suffix f of f32. */
static const char *function(enum stx_prim op)
{
	switch (op) {
	case STX_P_REM: return "fmod";
	case STX_P_ABS: return "fabs";
	case STX_P_SQRT: return "sqrt";
	case STX_P_FLOOR: return "floor";
	case STX_P_CEIL: return "ceil";
	case STX_P_TRUNC: return "trunc";
	case STX_P_RINT: return "rint";
	case STX_P_COPYSIGN: return "copysign";
	case STX_P_FMA: return "fma";
	default: return NULL;
	}
}

static int float_op(struct stx__cuda *e, enum stx_prim op, enum stx_dtype t,
		    const struct operands *o, struct stx_bytes *out)
{
	const char *f = function(op);
	if (op == STX_P_NEG) {
		stx_bytes_printf(out, "-%s", o->a);
	} else if (op == STX_P_MAX || op == STX_P_MIN) {
		e->needs |= STX__NEED_MINMAX;
		stx_bytes_printf(out, "%s(%s, %s)", op == STX_P_MAX ? "max_" : "min_", o->a, o->b);
	} else if (op == STX_P_RCP || op == STX_P_RATIO) {
		e->needs |= STX__NEED_RCP;
		stx_bytes_printf(out, op == STX_P_RCP ? "rcp_(%s)" : "ratio_(%s, %s)", o->a, o->b);
	} else if (op == STX_P_NEAREST) { /* conversions take several times as long */
		const char *magic = t == STX_F32 ? "0x1.8p23f" : "0x1.8p52";
		stx_bytes_printf(out, "%s + %s - %s", o->a, magic, magic);
	} else if (op == STX_P_SCALE || op == STX_P_LIFT) {
		e->needs |= STX__NEED_RCP;
		stx_bytes_printf(out, "%s_(%s, %s)", stx_prim_info(op)->text, o->a, o->b);
	} else if (f) {
		stx_bytes_printf(out, "%s%s(%s", f, t == STX_F32 ? "f" : "", o->a);
		if (o->b)
			stx_bytes_printf(out, ", %s", o->b);
		if (o->c)
			stx_bytes_printf(out, ", %s", o->c);
		stx_bytes_puts(out, ")");
	} else if (infix(op) && op <= STX_P_DIV) {
		stx_bytes_printf(out, "%s %s %s", o->a, infix(op), o->b);
	} else {
		return 0;
	}
	return 1;
}

static int int_op(struct stx__cuda *e, enum stx_prim op, enum stx_dtype t, const struct operands *o,
		  struct stx_bytes *out)
{
	const char *ty = stx__cuda_type(t), *un = unsigned_of(t), *name = NULL;
	int is_signed = stx_dtype_kind(t) == STX_KIND_INT;
	switch (op) {
	case STX_P_ADD:
	case STX_P_SUB:
	case STX_P_MUL: /* 16-bit products overflow int */
		stx_bytes_printf(out, "(%s)((%s)%s %s (%s)%s)", ty,
				 stx_dtype_bytes(t) < 4 ? "u32" : un, o->a, infix(op),
				 stx_dtype_bytes(t) < 4 ? "u32" : un, o->b);
		return 1;
	case STX_P_AND:
	case STX_P_OR:
	case STX_P_XOR:
		stx_bytes_printf(out, "(%s)(%s %s %s)", ty, o->a, infix(op), o->b);
		return 1;
	case STX_P_NOT: stx_bytes_printf(out, "(%s)~%s", ty, o->a); return 1;
	case STX_P_NEG: stx_bytes_printf(out, "(%s)(0 - (u64)%s)", ty, o->a); return 1;
	case STX_P_ABS:
		if (is_signed)
			stx_bytes_printf(out, "%s < 0 ? (%s)(0 - (u64)%s) : %s", o->a, ty, o->a,
					 o->a);
		else
			stx_bytes_puts(out, o->a);
		return 1;
	case STX_P_MAX:
	case STX_P_MIN:
		e->needs |= STX__NEED_MINMAX;
		name = op == STX_P_MAX ? "max_" : "min_";
		break;
	case STX_P_DIV: name = "div_"; break;
	case STX_P_REM: name = "rem_"; break;
	case STX_P_MOD: name = "mod_"; break;
	case STX_P_FLOORDIV: name = "floordiv_"; break;
	case STX_P_SHL: name = "shl_"; break;
	case STX_P_SHR: name = is_signed ? "shr_" : "lshr_"; break;
	case STX_P_LSHR: name = "lshr_"; break;
	default: return 0;
	}
	if (op >= STX_P_SHL)
		e->needs |= STX__NEED_SHIFT;
	else if (op != STX_P_MAX && op != STX_P_MIN)
		e->needs |= STX__NEED_DIVIDE;
	if (!strcmp(name, "lshr_"))
		stx_bytes_printf(out, "lshr_<%s, %s>(%s, %s)", ty, un, o->a, o->b);
	else
		stx_bytes_printf(out, "%s<%s>(%s, %s)", name, ty, o->a, o->b);
	return 1;
}

static int bool_op(enum stx_prim op, const struct operands *o, struct stx_bytes *out)
{
	switch (op) {
	case STX_P_MAX:
	case STX_P_OR: stx_bytes_printf(out, "%s || %s", o->a, o->b); return 1;
	case STX_P_MIN:
	case STX_P_AND: stx_bytes_printf(out, "%s && %s", o->a, o->b); return 1;
	case STX_P_XOR: stx_bytes_printf(out, "%s != %s", o->a, o->b); return 1;
	case STX_P_NOT: stx_bytes_printf(out, "!%s", o->a); return 1;
	case STX_P_RARELY: stx_bytes_puts(out, o->a); return 1;
	default: return 0;
	}
}

static void express(struct stx__cuda *e, const struct stx_kinst *i, const struct operands *o,
		    struct stx_bytes *out)
{
	enum stx_prim op = (enum stx_prim)i->op;
	enum stx_dtype t = (enum stx_dtype)e->k->insts.at[i->a].dtype; /* of the operands */
	int known = 1;
	if (op == STX_P_MUL && t == STX_U64 && e->info[i->a].is_low && e->info[i->b].is_low) {
		e->needs |= STX__NEED_MUL_WIDE;
		stx_bytes_printf(out, "mul_wide((u32)%s, (u32)%s)", o->a, o->b);
	} else if (op == STX_P_CAST)
		stx__cuda_cast(e, (enum stx_dtype)i->dtype, t, o->a, out);
	else if (op == STX_P_BITCAST)
		bitcast((enum stx_dtype)i->dtype, t, o->a, out);
	else if (op == STX_P_SELECT)
		stx_bytes_printf(out, "%s ? %s : %s", o->a, o->b, o->c);
	else if (op == STX_P_ISNAN)
		stx_bytes_printf(out, "%s != %s", o->a, o->a);
	else if (op >= STX_P_EQ && op <= STX_P_GE)
		stx_bytes_printf(out, "%s %s %s", o->a, infix(op), o->b);
	else if (t == STX_BOOL)
		known = bool_op(op, o, out);
	else if (is_narrow(t))
		known = 0;
	else if (stx_dtype_is_float(t))
		known = float_op(e, op, t, o, out);
	else
		known = int_op(e, op, t, o, out);
	if (!known)
		stx__cuda_fail(e, STX_E_UNSUPPORTED, "primitive %s on %s", stx_prim_info(op)->text,
			       stx_dtype_name(t));
}

/* scale_ and lift_ take b + 1.5 * 2^23 (f64: 2^52), of which b mostly is made. */
static void rounding_sum(struct stx__cuda *e, uint32_t b, struct stx_bytes *out)
{
	const struct stx_kinst *i = &e->k->insts.at[b];
	double magic = i->dtype == STX_F64 ? 0x1.8p52 : 0x1.8p23;
	if (i->op == STX_P_SUB && e->k->insts.at[i->b].op == STX_K_CONST &&
	    e->k->insts.at[i->b].k.f == magic && e->info[b].rare == e->in_rare) {
		stx__cuda_value(e, i->a, out);
		return;
	}
	stx__cuda_value(e, i->op == STX_P_NEAREST ? i->a : b, out); /* the same sum as its */
	stx_bytes_puts(out, i->dtype == STX_F64 ? " + 0x1.8p52" : " + 0x1.8p23f");
}

void stx__cuda_prim(struct stx__cuda *e, const struct stx_kinst *i, struct stx_bytes *out)
{
	struct stx_bytes text[3] = { { 0 } };
	const uint32_t operand[3] = { i->a, i->b, i->c };
	const char *s[3] = { NULL };
	for (int j = 0; j < 3; j++) {
		if (operand[j] == STX_NONE)
			continue;
		if (j == 1 && (i->op == STX_P_SCALE || i->op == STX_P_LIFT))
			rounding_sum(e, i->b, &text[j]);
		else
			stx__cuda_value(e, operand[j], &text[j]);
		s[j] = stx_bytes_cstr(&text[j]);
	}
	express(e, i, &(struct operands){ s[0], s[1], s[2] }, out);
	for (int j = 0; j < 3; j++)
		stx_bytes_free(&text[j]);
}
