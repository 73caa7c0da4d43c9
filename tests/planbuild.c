/* planbuild.c: data plans for tests. While building, offsets into strings, arrays and code are
 * relative to their own areas; pb_finish moves them. */
#include "planbuild.h"

#include <stdlib.h>
#include <string.h>

uint32_t pb_string(struct planbuild *b, const char *s)
{
	uint32_t at = (uint32_t)b->strings.n;
	stx_bytes_put(&b->strings, s, strlen(s) + 1);
	return at;
}

static uint32_t array(struct planbuild *b, const uint32_t *v, uint32_t n)
{
	uint32_t at = (uint32_t)b->arrays.n;
	stx_bytes_put(&b->arrays, v, n * sizeof *v);
	return at;
}

uint32_t pb_code(struct planbuild *b, const void *code, uint32_t n)
{
	struct stx_plan_expr e = { (uint32_t)b->exprs_code.n, n };
	stx_bytes_put(&b->exprs_code, code, n);
	stx_bytes_put(&b->exprs, &e, sizeof e);
	return b->nexprs++;
}

uint32_t pb_const(struct planbuild *b, int64_t v)
{
	uint8_t code[9] = { STX_X_CONST };
	memcpy(code + 1, &v, 8);
	return pb_code(b, code, sizeof code);
}

uint32_t pb_sym(struct planbuild *b, uint32_t sym)
{
	uint8_t code[5] = { STX_X_SYM };
	memcpy(code + 1, &sym, 4);
	return pb_code(b, code, sizeof code);
}

uint32_t pb_bin(struct planbuild *b, enum stx_plan_op op, uint32_t x, uint32_t y)
{
	struct stx_bytes code = { 0 };
	struct stx_plan_expr e[2];
	memcpy(&e[0], b->exprs.at + x * sizeof *e, sizeof *e);
	memcpy(&e[1], b->exprs.at + y * sizeof *e, sizeof *e);
	for (int i = 0; i < 2; i++)
		stx_bytes_put(&code, b->exprs_code.at + e[i].off, e[i].bytes);
	stx_bytes_u8(&code, (uint8_t)op);
	uint32_t r = pb_code(b, code.at, (uint32_t)code.n);
	stx_bytes_free(&code);
	return r;
}

uint32_t pb_size(struct planbuild *b, const char *name, uint32_t input, uint32_t dim, int64_t lo,
		 int64_t hi, int64_t hint)
{
	struct stx_plan_sym s = { pb_string(b, name), input, dim, 0, lo, hi, hint };
	stx_bytes_put(&b->syms, &s, sizeof s);
	return b->nsyms++;
}

uint32_t pb_value(struct planbuild *b, enum stx_plan_value_kind kind, enum stx_dtype t,
		  const char *name, int rank, const uint32_t *sizes, const uint32_t *strides,
		  uint32_t bytes, uint32_t offset)
{
	struct stx_plan_value v = { .kind = (uint8_t)kind,
				    .dtype = (uint8_t)t,
				    .rank = (uint8_t)rank,
				    .name = pb_string(b, name),
				    .bytes_expr = bytes,
				    .offset_expr = offset };
	v.sizes = array(b, sizes, (uint32_t)rank);
	v.strides = array(b, strides, (uint32_t)rank);
	if (kind == STX_VALUE_INPUT)
		v.index = b->ninputs++;
	if (kind == STX_VALUE_OUTPUT || kind == STX_VALUE_ALIAS)
		v.index = b->noutputs++;
	stx_bytes_put(&b->values, &v, sizeof v);
	return b->nvalues++;
}

uint32_t pb_dense(struct planbuild *b, enum stx_plan_value_kind kind, enum stx_dtype t,
		  const char *name, int rank, const int64_t *sizes, int64_t offset)
{
	uint32_t s[STX_MAX_RANK], st[STX_MAX_RANK];
	int64_t stride = 1;
	for (int i = rank - 1; i >= 0; i--) {
		s[i] = pb_const(b, sizes[i]);
		st[i] = pb_const(b, stride);
		stride *= sizes[i];
	}
	return pb_value(b, kind, t, name, rank, s, st, pb_const(b, stride * stx_dtype_bytes(t)),
			pb_const(b, offset));
}

void pb_flags(struct planbuild *b, uint32_t value, uint32_t flags)
{
	struct stx_plan_value *v = (void *)(b->values.at + value * sizeof *v);
	v->flags = flags;
}

uint32_t pb_kernel(struct planbuild *b, const char *name, uint32_t grid, uint32_t grain,
		   uint32_t nscalars, const uint32_t *scalars)
{
	struct stx_plan_kernel k = { .kind = STX_KERNEL_POI,
				     .grain_expr = grain,
				     .block = { 16, 1, 1 },
				     .nscalars = nscalars };
	k.name = pb_string(b, name);
	k.symbol = pb_string(b, name);
	k.config = pb_string(b, "");
	k.chosen_by = pb_string(b, "heuristic");
	k.grid_expr[0] = grid;
	k.grid_expr[1] = k.grid_expr[2] = pb_const(b, 1);
	k.scalars = array(b, scalars, nscalars);
	stx_bytes_put(&b->kernels, &k, sizeof k);
	return b->nkernels++;
}

void pb_step(struct planbuild *b, enum stx_plan_step_kind kind, uint32_t a, uint32_t to)
{
	struct stx_plan_step s = { .kind = kind, .a = a, .b = to };
	stx_bytes_put(&b->steps, &s, sizeof s);
	b->nsteps++;
}

void pb_launch(struct planbuild *b, uint32_t kernel, uint32_t nargs, const uint32_t *values)
{
	struct stx_plan_step s = { .kind = STX_STEP_LAUNCH, .a = kernel, .nargs = nargs };
	s.args = array(b, values, nargs);
	stx_bytes_put(&b->steps, &s, sizeof s);
	b->nsteps++;
}

void pb_extern(struct planbuild *b, const char *name, uint32_t nargs, const uint32_t *values,
	       uint32_t nattrs, const uint32_t *attrs, uint32_t workspace, uint32_t kernel)
{
	struct stx_plan_step s = { .kind = STX_STEP_EXTERN, .nargs = nargs };
	struct stx_plan_extern c = { nattrs, array(b, attrs, nattrs), workspace, kernel, 0 };
	s.a = pb_string(b, name);
	s.args = array(b, values, nargs);
	c.uses = array(b, values, nargs); /* any numbers */
	s.b = (uint32_t)b->arrays.n;
	stx_bytes_put(&b->arrays, &c, sizeof c);
	stx_bytes_put(&b->steps, &s, sizeof s);
	b->nsteps++;
}

void pb_covers(struct planbuild *b, uint32_t n)
{
	struct stx_plan_step *s = (void *)(b->steps.at + (b->nsteps - 1) * sizeof *s);
	s->covers = n;
}

void pb_prepared(struct planbuild *b, uint32_t kernel, const char *symbol, uint32_t points,
		 uint64_t bytes)
{
	struct stx_plan_prepared q = { .kernel = kernel, .points = points, .bytes = bytes };
	q.symbol = pb_string(b, symbol);
	stx_bytes_put(&b->prepared, &q, sizeof q);
	b->nprepared++;
	b->flags |= STX_PLAN_PREPARED;
}

void pb_guard(struct planbuild *b, uint32_t expr)
{
	stx_bytes_u32(&b->guards, expr);
	b->nguards++;
}

static uint32_t append(struct stx_bytes *out, struct stx_bytes *part, size_t align)
{
	stx_bytes_align(out, align);
	uint32_t at = (uint32_t)out->n;
	stx_bytes_put(out, part->at, part->n);
	stx_bytes_free(part);
	return at;
}

/* Moves relative offsets to where their areas are now. */
static void move(struct stx_bytes *out, const struct stx_plan_header *h,
		 const struct stx_plan_preparing *p, uint32_t arrays, uint32_t code)
{
	for (uint32_t i = 0; i < p->nprepared; i++)
		((struct stx_plan_prepared *)(void *)(out->at + p->prepared_off))[i].symbol +=
			h->strings_off;
	for (uint32_t i = 0; i < h->nsyms; i++)
		((struct stx_plan_sym *)(void *)(out->at + h->syms_off))[i].name += h->strings_off;
	for (uint32_t i = 0; i < h->nexprs; i++)
		((struct stx_plan_expr *)(void *)(out->at + h->exprs_off))[i].off += code;
	for (uint32_t i = 0; i < h->nvalues; i++) {
		struct stx_plan_value *v =
			(struct stx_plan_value *)(void *)(out->at + h->values_off) + i;
		v->name += h->strings_off;
		v->sizes += arrays;
		v->strides += arrays;
	}
	for (uint32_t i = 0; i < h->nkernels; i++) {
		struct stx_plan_kernel *k =
			(struct stx_plan_kernel *)(void *)(out->at + h->kernels_off) + i;
		k->name += h->strings_off;
		k->symbol += h->strings_off;
		k->config += h->strings_off;
		k->chosen_by += h->strings_off;
		k->scalars += arrays;
	}
	for (uint32_t i = 0; i < h->nsteps; i++) {
		struct stx_plan_step *s =
			(struct stx_plan_step *)(void *)(out->at + h->steps_off) + i;
		if (s->kind == STX_STEP_LAUNCH || s->kind == STX_STEP_EXTERN)
			s->args += arrays;
		if (s->kind != STX_STEP_EXTERN)
			continue;
		s->a += h->strings_off;
		s->b += arrays;
		struct stx_plan_extern *c = (struct stx_plan_extern *)(void *)(out->at + s->b);
		c->attrs += arrays;
		c->uses += arrays;
	}
}

struct stx_bytes pb_finish(struct planbuild *b)
{
	struct stx_bytes out = { 0 };
	struct stx_plan_header h = { .magic = STX_PLAN_MAGIC,
				     .version = STX_ABI_VERSION,
				     .nsyms = b->nsyms,
				     .nvalues = b->nvalues,
				     .nkernels = b->nkernels,
				     .nsteps = b->nsteps,
				     .nexprs = b->nexprs,
				     .nguards = b->nguards,
				     .ninputs = b->ninputs,
				     .noutputs = b->noutputs,
				     .workspace_expr = b->workspace,
				     .flags = b->flags };
	struct stx_plan_preparing p = { b->nprepared, 0 };
	stx_bytes_put(&out, &h, sizeof h);
	if (p.nprepared)
		stx_bytes_put(&out, &p, sizeof p);
	h.syms_off = append(&out, &b->syms, 8);
	h.values_off = append(&out, &b->values, 8);
	h.kernels_off = append(&out, &b->kernels, 8);
	h.steps_off = append(&out, &b->steps, 8);
	h.exprs_off = append(&out, &b->exprs, 8);
	h.guards_off = append(&out, &b->guards, 4);
	uint32_t arrays = append(&out, &b->arrays, 4), code = append(&out, &b->exprs_code, 1);
	h.strings_bytes = (uint32_t)b->strings.n;
	h.strings_off = append(&out, &b->strings, 1);
	h.data_bytes = (uint32_t)b->data.n;
	h.data_off = append(&out, &b->data, 64);
	p.prepared_off = append(&out, &b->prepared, 8);
	h.total_bytes = (uint32_t)out.n;
	memcpy(out.at, &h, sizeof h);
	if (p.nprepared)
		memcpy(out.at + sizeof h, &p, sizeof p);
	move(&out, &h, &p, arrays, code);
	memset(b, 0, sizeof *b);
	return out;
}
