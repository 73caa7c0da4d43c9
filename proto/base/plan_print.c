/* plan_print.c: a data plan as text. */
#include "plan.h"

#include "dtype.h"

static void put_expr(const struct stx_plan *p, uint32_t e, struct stx_bytes *out)
{
	static const char *const names[] = { "?",        "const",    "sym", "add", "sub", "mul",
					     "floordiv", "truncdiv", "mod", "min", "max", "eq",
					     "ne",       "lt",       "le",  "and", "or" };
	const uint8_t *at = p->base + p->exprs[e].off, *end = at + p->exprs[e].bytes;
	const char *sep = "";
	while (at < end) {
		uint8_t op = *at++;
		if (op == STX_X_CONST) {
			stx_bytes_printf(out, "%s%lld", sep, (long long)stx_load_u64(at));
			at += 8;
		} else if (op == STX_X_SYM) {
			stx_bytes_printf(out, "%ss%u", sep, stx_load_u32(at));
			at += 4;
		} else {
			stx_bytes_printf(out, "%s%s", sep, names[op <= STX_X_OR ? op : 0]);
		}
		sep = " ";
	}
}

stx_err stx_plan_print_guard(const struct stx_plan *p, uint32_t i, struct stx_bytes *out)
{
	put_expr(p, stx_plan_u32s(p, p->h->guards_off)[i], out);
	return out->oom ? STX_E_NOMEM : STX_E_OK;
}

static void put_list(const struct stx_plan *p, uint32_t off, uint32_t n, struct stx_bytes *out)
{
	const uint32_t *e = stx_plan_u32s(p, off);
	stx_bytes_u8(out, '[');
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			stx_bytes_u8(out, ',');
		put_expr(p, e[i], out);
	}
	stx_bytes_u8(out, ']');
}

static void put_values(const struct stx_plan *p, struct stx_bytes *out)
{
	static const char *const kinds[] = { "input", "output", "temp", "const", "alias" };
	for (uint32_t i = 0; i < p->h->nvalues; i++) {
		const struct stx_plan_value *v = &p->values[i];
		stx_bytes_printf(out, "value v%u %s %s %s", i,
				 kinds[v->kind <= STX_VALUE_ALIAS ? v->kind : 0],
				 stx_plan_string(p, v->name),
				 stx_dtype_name((enum stx_dtype)v->dtype));
		put_list(p, v->sizes, v->rank, out);
		stx_bytes_puts(out, " strides ");
		put_list(p, v->strides, v->rank, out);
		stx_bytes_puts(out, " bytes ");
		put_expr(p, v->bytes_expr, out);
		if (v->kind == STX_VALUE_TEMP) {
			stx_bytes_puts(out, " at ");
			put_expr(p, v->offset_expr, out);
		}
		stx_bytes_puts(out, v->flags & STX_TENSOR_PARAM ? " param\n" : "\n");
	}
}

static void put_args(const struct stx_plan *p, const struct stx_plan_step *s, struct stx_bytes *out)
{
	const uint32_t *args = stx_plan_u32s(p, s->args);
	for (uint32_t k = 0; k < s->nargs; k++)
		stx_bytes_printf(out, k ? ", v%u" : "(v%u", args[k]);
	stx_bytes_puts(out, s->nargs ? ")" : "()");
}

/* extern NAME(v0, v1, v2) attrs 64 64 8 workspace v2 else k3 */
static void put_extern(const struct stx_plan *p, const struct stx_plan_step *s,
		       struct stx_bytes *out)
{
	const struct stx_plan_extern *c = stx_plan_extern_of(p, s);
	stx_bytes_printf(out, "extern %s", stx_plan_string(p, s->a));
	put_args(p, s, out);
	for (uint32_t i = 0; i < c->nattrs; i++) {
		stx_bytes_puts(out, i ? " " : " attrs ");
		put_expr(p, stx_plan_u32s(p, c->attrs)[i], out);
	}
	if (c->workspace != STX_PLAN_NONE)
		stx_bytes_printf(out, " workspace v%u", c->workspace);
	if (c->kernel != STX_PLAN_NONE)
		stx_bytes_printf(out, " else k%u", c->kernel);
	if (s->covers)
		stx_bytes_printf(out, " else the next %u", s->covers);
	stx_bytes_puts(out, "\n");
}

/* What a kernel may be launched with; the first is what it is launched with. */
static void put_configs(const struct stx_plan *p, uint32_t kernel, struct stx_bytes *out)
{
	uint32_t n;
	const struct stx_plan_config *c = stx_plan_configs(p, kernel, &n);
	for (uint32_t i = 0; i < n; i++) {
		stx_bytes_printf(out, "  config %s grid ", stx_plan_string(p, c[i].text));
		put_expr(p, c[i].grid_expr[0], out);
		stx_bytes_printf(out, " symbol %s\n", stx_plan_string(p, c[i].symbol));
	}
}

static void put_prepared(const struct stx_plan *p, uint32_t kernel, struct stx_bytes *out)
{
	uint32_t n;
	const struct stx_plan_prepared *q = stx_plan_prepared_of(p, kernel, &n);
	for (uint32_t i = 0; i < n; i++)
		stx_bytes_printf(out, "  prepare %s points %u bytes %llu\n",
				 stx_plan_string(p, q[i].symbol), q[i].points,
				 (unsigned long long)q[i].bytes);
}

static void put_steps(const struct stx_plan *p, struct stx_bytes *out)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct stx_plan_step *s = &p->steps[i];
		switch (s->kind) {
		case STX_STEP_ALLOC: stx_bytes_printf(out, "alloc v%u\n", s->a); break;
		case STX_STEP_RELEASE: stx_bytes_printf(out, "release v%u\n", s->a); break;
		case STX_STEP_COPY: stx_bytes_printf(out, "copy v%u <- v%u\n", s->b, s->a); break;
		case STX_STEP_LAUNCH:
			stx_bytes_printf(out, "launch k%u", s->a);
			put_args(p, s, out);
			stx_bytes_puts(out, "\n");
			break;
		default: put_extern(p, s, out); break;
		}
	}
}

stx_err stx_plan_print(struct stx_span bytes, struct stx_bytes *out, struct stx_diag *d)
{
	struct stx_plan p;
	stx_err e = stx_plan_open(bytes, &p, d);
	if (e)
		return e;
	stx_bytes_printf(out, "plan version %u, %u inputs, %u outputs, workspace ", p.h->version,
			 p.h->ninputs, p.h->noutputs);
	put_expr(&p, p.h->workspace_expr, out);
	stx_bytes_puts(out, "\n");
	for (uint32_t i = 0; i < p.h->nguards; i++) {
		stx_bytes_puts(out, "guard ");
		stx_plan_print_guard(&p, i, out);
		stx_bytes_puts(out, "\n");
	}
	put_values(&p, out);
	for (uint32_t i = 0; i < p.h->nkernels; i++) {
		const struct stx_plan_kernel *k = &p.kernels[i];
		stx_bytes_printf(out, "kernel k%u %s symbol %s grid ", i,
				 stx_plan_string(&p, k->name), stx_plan_string(&p, k->symbol));
		put_expr(&p, k->grid_expr[0], out);
		stx_bytes_puts(out, " grain ");
		put_expr(&p, k->grain_expr, out);
		if (k->assertion)
			stx_bytes_printf(out, " asserts '%s'", stx_plan_string(&p, k->assertion));
		stx_bytes_puts(out, "\n");
		put_configs(&p, i, out);
		put_prepared(&p, i, out);
	}
	put_steps(&p, out);
	return out->oom ? stx_fail(d, STX_E_NOMEM, "plan", NULL, "out of memory") : STX_E_OK;
}
