/* plan.c: validation and evaluation of data plans; the plan section of an ELF64 object.
 * Everything is checked in stx_plan_open, so that accessors index without further tests. Work is
 * linear in the plan's bytes: arrays and bytecode may be shared, but their total length may not
 * exceed it. */
#include "plan.h"

#include <string.h>

#include "dtype.h"

/* Values whose liveness is followed in one sweep over the steps; two bits each, on the stack. */
#define WINDOW (1u << 17)

#define MAX_PREPARED ((uint64_t)1 << 40) /* bytes of one operand: sums do not overflow */

enum life { LIFE_UNBORN, LIFE_LIVE, LIFE_DEAD };

static stx_err bad(struct stx_diag *d, const char *what, uint64_t i)
{
	return stx_fail(d, STX_E_CORRUPT, "plan", "", "data plan: %s (%llu)", what,
			(unsigned long long)i);
}

/* ---- tables, strings, arrays ---- */

struct range {
	uint64_t off, bytes;
};

static uint32_t header_bytes(const struct stx_plan_header *h)
{
	return sizeof *h + (h->flags & STX_PLAN_CONFIGS ? sizeof(struct stx_plan_tuning) : 0) +
	       (h->flags & STX_PLAN_PREPARED ? sizeof(struct stx_plan_preparing) : 0);
}

static struct stx_plan_tuning tuning_of(const struct stx_plan_header *h)
{
	struct stx_plan_tuning t = { 0 };
	if (h->flags & STX_PLAN_CONFIGS)
		memcpy(&t, h + 1, sizeof t);
	return t;
}

static struct stx_plan_preparing preparing_of(const struct stx_plan_header *h)
{
	struct stx_plan_preparing t = { 0 };
	if (h->flags & STX_PLAN_PREPARED)
		memcpy(&t, (const uint8_t *)h + header_bytes(h) - sizeof t, sizeof t);
	return t;
}

/* requires: none. ensures: [off, off + n*size) lies between the header and the end of the plan. */
static int range_ok(const struct stx_plan_header *h, uint32_t off, uint64_t n, uint32_t size,
		    uint32_t align)
{
	if (n == 0)
		return 1;
	uint64_t bytes = n * size; /* n < 2^32, size < 2^8: no overflow */
	return off % align == 0 && off >= header_bytes(h) && off <= h->total_bytes &&
	       bytes <= h->total_bytes - off;
}

static stx_err check_tables(const struct stx_plan_header *h, struct stx_diag *d)
{
	const struct stx_plan_tuning c = tuning_of(h);
	const struct stx_plan_preparing q = preparing_of(h);
	const struct {
		uint32_t n, off, size, align;
	} t[] = {
		{ h->nsyms, h->syms_off, sizeof(struct stx_plan_sym), 8 },
		{ h->nvalues, h->values_off, sizeof(struct stx_plan_value), 8 },
		{ h->nkernels, h->kernels_off, sizeof(struct stx_plan_kernel), 8 },
		{ h->nsteps, h->steps_off, sizeof(struct stx_plan_step), 8 },
		{ h->nexprs, h->exprs_off, sizeof(struct stx_plan_expr), 8 },
		{ h->nguards, h->guards_off, 4, 4 },
		{ c.nconfigs, c.configs_off, sizeof(struct stx_plan_config), 4 },
		{ q.nprepared, q.prepared_off, sizeof(struct stx_plan_prepared), 8 },
		{ h->strings_bytes, h->strings_off, 1, 1 },
		{ h->data_bytes, h->data_off, 1, 64 },
	};
	enum { N = sizeof t / sizeof *t };
	struct range r[N];
	for (int i = 0; i < N; i++) {
		if (!range_ok(h, t[i].off, t[i].n, t[i].size, t[i].align))
			return bad(d, "a table lies outside the plan or is misaligned, number",
				   (uint64_t)i);
		r[i] = (struct range){ t[i].off, (uint64_t)t[i].n * t[i].size };
	}
	for (int i = 0; i < N; i++)
		for (int j = 0; j < i; j++)
			if (r[i].bytes && r[j].bytes && r[i].off < r[j].off + r[j].bytes &&
			    r[j].off < r[i].off + r[i].bytes)
				return bad(d, "two tables overlap, number", (uint64_t)i);
	return STX_E_OK;
}

/* The strings area ends in NUL (checked once), so any offset inside it starts a terminated string.
 */
static int string_ok(const struct stx_plan_header *h, uint32_t off)
{
	return off >= h->strings_off && off - h->strings_off < h->strings_bytes;
}

/* An array of n expression numbers. *budget bounds the sum over all arrays of the plan. */
static int exprs_ok(const struct stx_plan *p, uint32_t off, uint32_t n, uint64_t *budget)
{
	if (!range_ok(p->h, off, n, 4, 4) || n > *budget)
		return 0;
	*budget -= n;
	const uint32_t *e = stx_plan_u32s(p, off);
	for (uint32_t i = 0; i < n; i++)
		if (e[i] >= p->h->nexprs)
			return 0;
	return 1;
}

/* ---- expressions ---- */

static int expr_ok(const struct stx_plan *p, const struct stx_plan_expr *e)
{
	const uint8_t *at = p->base + e->off, *end = at + e->bytes;
	int depth = 0;
	while (at < end) {
		uint8_t op = *at++;
		if (op == STX_X_CONST || op == STX_X_SYM) {
			size_t n = op == STX_X_CONST ? 8 : 4;
			if ((size_t)(end - at) < n || depth == STX_PLAN_MAX_STACK)
				return 0;
			if (op == STX_X_SYM && stx_load_u32(at) >= p->h->nsyms)
				return 0;
			at += n;
			depth++;
		} else if (op >= STX_X_ADD && op <= STX_X_OR) {
			if (depth < 2)
				return 0;
			depth--;
		} else {
			return 0;
		}
	}
	return depth == 1;
}

static stx_err check_exprs(const struct stx_plan *p, struct stx_diag *d)
{
	uint64_t budget = p->h->total_bytes;
	for (uint32_t i = 0; i < p->h->nexprs; i++) {
		const struct stx_plan_expr *e = &p->exprs[i];
		if (!range_ok(p->h, e->off, e->bytes, 1, 1) || e->bytes > budget || !expr_ok(p, e))
			return bad(d, "malformed expression, number", i);
		budget -= e->bytes;
	}
	return STX_E_OK;
}

static int64_t floordiv(int64_t a, int64_t b)
{
	int64_t q = a / b;
	return q - (a % b != 0 && (a < 0) != (b < 0));
}

/* One operator; returns 0 on overflow or division by zero. */
static int apply(uint8_t op, int64_t a, int64_t b, int64_t *r)
{
	switch (op) {
	case STX_X_ADD: return !__builtin_add_overflow(a, b, r);
	case STX_X_SUB: return !__builtin_sub_overflow(a, b, r);
	case STX_X_MUL: return !__builtin_mul_overflow(a, b, r);
	case STX_X_FLOORDIV:
	case STX_X_TRUNCDIV:
	case STX_X_MOD:
		if (b == 0 || (a == INT64_MIN && b == -1))
			return 0;
		*r = op == STX_X_FLOORDIV                   ? floordiv(a, b)
		     : op == STX_X_TRUNCDIV                 ? a / b
		     : a % b != 0 && (a % b < 0) != (b < 0) ? a % b + b
							    : a % b;
		return 1;
	case STX_X_MIN: *r = a < b ? a : b; return 1;
	case STX_X_MAX: *r = a > b ? a : b; return 1;
	case STX_X_EQ: *r = a == b; return 1;
	case STX_X_NE: *r = a != b; return 1;
	case STX_X_LT: *r = a < b; return 1;
	case STX_X_LE: *r = a <= b; return 1;
	case STX_X_AND: *r = a && b; return 1;
	case STX_X_OR: *r = a || b; return 1;
	default: return 0;
	}
}

int64_t stx_plan_eval(const struct stx_plan *p, uint32_t e, const int64_t *syms, int *ok)
{
	int64_t stack[STX_PLAN_MAX_STACK] = { 0 };
	int depth = 0;
	const uint8_t *at = p->base + p->exprs[e].off, *end = at + p->exprs[e].bytes;
	while (at < end) {
		uint8_t op = *at++;
		if (op == STX_X_CONST) {
			stack[depth++] = (int64_t)stx_load_u64(at);
			at += 8;
		} else if (op == STX_X_SYM) {
			if (!syms) {
				*ok = 0;
				return 0;
			}
			stack[depth++] = syms[stx_load_u32(at)];
			at += 4;
		} else {
			depth--;
			if (!apply(op, stack[depth - 1], stack[depth], &stack[depth - 1])) {
				*ok = 0;
				return 0;
			}
		}
	}
	return stack[0];
}

/* ---- values, kernels, steps ---- */

static stx_err check_syms(const struct stx_plan *p, struct stx_diag *d)
{
	for (uint32_t i = 0; i < p->h->nsyms; i++) {
		const struct stx_plan_sym *s = &p->syms[i];
		if (!string_ok(p->h, s->name) || s->input >= p->h->ninputs ||
		    s->dim >= STX_MAX_RANK || s->lo > s->hi || s->hint < s->lo || s->hint > s->hi)
			return bad(d, "malformed size symbol, number", i);
	}
	return STX_E_OK;
}

static int value_ok(const struct stx_plan *p, const struct stx_plan_value *v, uint64_t *budget)
{
	const struct stx_plan_header *h = p->h;
	if (v->kind > STX_VALUE_ALIAS || v->dtype >= STX_DTYPE_COUNT || v->rank > STX_MAX_RANK ||
	    !string_ok(h, v->name) || !exprs_ok(p, v->sizes, v->rank, budget) ||
	    !exprs_ok(p, v->strides, v->rank, budget) || v->bytes_expr >= h->nexprs)
		return 0;
	switch (v->kind) {
	case STX_VALUE_INPUT: return v->index < h->ninputs;
	case STX_VALUE_OUTPUT: return v->index < h->noutputs;
	case STX_VALUE_TEMP: return v->offset_expr < h->nexprs;
	case STX_VALUE_CONST: {
		/* Its size is known when the plan is written, so it is checked here. */
		int ok = 1;
		if (h->nsyms)
			return v->const_off <= h->data_bytes;
		int64_t bytes = stx_plan_eval(p, v->bytes_expr, NULL, &ok);
		return ok && bytes >= 0 && v->const_off <= h->data_bytes &&
		       bytes <= (int64_t)(h->data_bytes - v->const_off);
	}
	default: /* ALIAS */
		return v->index < h->noutputs && v->index2 < h->ninputs &&
		       v->offset_expr < h->nexprs;
	}
}

/* Every input and output position is taken by exactly one value: as many values as positions, and
 * no position twice. Positions are followed in windows so that nothing is allocated. */
static int positions_ok(const struct stx_plan *p, int outputs)
{
	uint32_t n = outputs ? p->h->noutputs : p->h->ninputs, found = 0;
	uint8_t seen[WINDOW / 8];
	for (uint32_t first = 0; first == 0 || first < n; first += WINDOW) {
		uint32_t width = n - first < WINDOW ? n - first : WINDOW;
		memset(seen, 0, (width + 7) / 8);
		for (uint32_t i = 0; i < p->h->nvalues; i++) {
			const struct stx_plan_value *v = &p->values[i];
			int is = outputs ? v->kind == STX_VALUE_OUTPUT || v->kind == STX_VALUE_ALIAS
					 : v->kind == STX_VALUE_INPUT;
			if (!is || v->index < first || v->index - first >= width)
				continue;
			uint32_t k = v->index - first;
			if (seen[k / 8] >> (k % 8) & 1)
				return 0;
			seen[k / 8] |= (uint8_t)(1u << (k % 8));
			found++;
		}
	}
	return found == n;
}

static stx_err check_values(const struct stx_plan *p, uint64_t *budget, struct stx_diag *d)
{
	if (p->h->ninputs > p->h->nvalues || p->h->noutputs > p->h->nvalues)
		return bad(d, "more inputs or outputs than values", p->h->nvalues);
	for (uint32_t i = 0; i < p->h->nvalues; i++)
		if (!value_ok(p, &p->values[i], budget))
			return bad(d, "malformed value, number", i);
	if (!positions_ok(p, 0) || !positions_ok(p, 1))
		return bad(d, "an input or output is missing or named twice, values",
			   p->h->nvalues);
	return STX_E_OK;
}

static stx_err check_kernels(const struct stx_plan *p, uint64_t *budget, struct stx_diag *d)
{
	const struct stx_plan_header *h = p->h;
	for (uint32_t i = 0; i < h->nkernels; i++) {
		const struct stx_plan_kernel *k = &p->kernels[i];
		int ok = string_ok(h, k->name) && string_ok(h, k->symbol) &&
			 string_ok(h, k->config) && string_ok(h, k->chosen_by) &&
			 (!k->assertion || string_ok(h, k->assertion)) &&
			 k->kind <= STX_KERNEL_TEM && k->target <= 1 && k->grain_expr < h->nexprs &&
			 exprs_ok(p, k->scalars, k->nscalars, budget);
		for (int j = 0; j < 3; j++)
			ok = ok && k->grid_expr[j] < h->nexprs;
		if (!ok)
			return bad(d, "malformed kernel, number", i);
	}
	return STX_E_OK;
}

static int values_ok(const struct stx_plan *p, const struct stx_plan_step *s, uint64_t *budget)
{
	if (!range_ok(p->h, s->args, s->nargs, 4, 4) || s->nargs > *budget)
		return 0;
	*budget -= s->nargs;
	const uint32_t *v = stx_plan_u32s(p, s->args);
	for (uint32_t i = 0; i < s->nargs; i++)
		if (v[i] >= p->h->nvalues || p->values[v[i]].kind == STX_VALUE_ALIAS)
			return 0;
	return 1;
}

static int extern_ok(const struct stx_plan *p, const struct stx_plan_step *s, uint64_t *budget)
{
	if (!string_ok(p->h, s->a) || !range_ok(p->h, s->b, 5, 4, 4) || !values_ok(p, s, budget))
		return 0;
	const struct stx_plan_extern *c = stx_plan_extern_of(p, s);
	const uint32_t *v = stx_plan_u32s(p, s->args);
	if (c->workspace != STX_PLAN_NONE && (!s->nargs || v[s->nargs - 1] != c->workspace ||
					      p->values[c->workspace].kind != STX_VALUE_TEMP))
		return 0;
	return exprs_ok(p, c->attrs, c->nattrs, budget) &&
	       range_ok(p->h, c->uses, s->nargs, 4, 4) &&
	       (c->kernel == STX_PLAN_NONE || c->kernel < p->h->nkernels);
}

/* The steps that do the same as the call are there, stand for no others, and no kernel does it
 * alone. */
static int covers_ok(const struct stx_plan *p, const struct stx_plan_step *s)
{
	uint32_t left = s->covers;
	const struct stx_plan_step *end = p->steps + p->h->nsteps;
	if (left && stx_plan_extern_of(p, s)->kernel != STX_PLAN_NONE)
		return 0;
	while (left && ++s < end) {
		if (s->kind == STX_STEP_COPY || (s->kind == STX_STEP_EXTERN && s->covers))
			return 0;
		left -= s->kind == STX_STEP_LAUNCH || s->kind == STX_STEP_EXTERN;
	}
	return !left;
}

static stx_err check_configs(const struct stx_plan *p, struct stx_diag *d)
{
	for (uint32_t i = 0; i < p->nconfigs; i++) {
		const struct stx_plan_config *c = &p->configs[i];
		int ok = c->kernel < p->h->nkernels && string_ok(p->h, c->text) &&
			 string_ok(p->h, c->symbol) && (!i || c[-1].kernel <= c->kernel);
		for (int j = 0; j < 3; j++)
			ok = ok && c->grid_expr[j] < p->h->nexprs;
		if (!ok)
			return bad(d, "malformed configuration, number", i);
	}
	return STX_E_OK;
}

static stx_err check_prepared(const struct stx_plan *p, struct stx_diag *d)
{
	for (uint32_t i = 0; i < p->nprepared; i++) {
		const struct stx_plan_prepared *q = &p->prepared[i];
		if (q->kernel >= p->h->nkernels || p->kernels[q->kernel].target ||
		    !string_ok(p->h, q->symbol) || q->bytes > MAX_PREPARED ||
		    (i && q[-1].kernel > q->kernel))
			return bad(d, "malformed prepared operand, number", i);
	}
	return STX_E_OK;
}

/* The shape of a step, without the lives of values. */
static int step_ok(const struct stx_plan *p, const struct stx_plan_step *s, uint64_t *budget)
{
	const struct stx_plan_header *h = p->h;
	if (s->covers && s->kind != STX_STEP_EXTERN)
		return 0;
	switch (s->kind) {
	case STX_STEP_ALLOC: return s->a < h->nvalues && p->values[s->a].kind == STX_VALUE_TEMP;
	case STX_STEP_RELEASE:
		return s->a < h->nvalues && (p->values[s->a].kind == STX_VALUE_TEMP ||
					     p->values[s->a].kind == STX_VALUE_INPUT);
	case STX_STEP_COPY: {
		if (s->a >= h->nvalues || s->b >= h->nvalues)
			return 0;
		const struct stx_plan_value *a = &p->values[s->a], *b = &p->values[s->b];
		return a->kind != STX_VALUE_ALIAS && a->dtype == b->dtype && a->rank == b->rank &&
		       (b->kind == STX_VALUE_TEMP || b->kind == STX_VALUE_OUTPUT ||
			(b->kind == STX_VALUE_INPUT && b->flags & STX_TENSOR_MUTATED));
	}
	case STX_STEP_LAUNCH:
		return s->a < h->nkernels && values_ok(p, s, budget) &&
		       (!s->b || range_ok(h, s->b, s->nargs, 4, 4));
	case STX_STEP_EXTERN: return extern_ok(p, s, budget) && covers_ok(p, s);
	default: return 0;
	}
}

struct lives {
	uint32_t first, n;
	uint8_t two_bits[WINDOW / 4];
};

static int get_life(const struct lives *l, uint32_t v) /* -1: outside this window */
{
	if (v < l->first || v - l->first >= l->n)
		return -1;
	v -= l->first;
	return l->two_bits[v / 4] >> (v % 4 * 2) & 3;
}

static void set_life(struct lives *l, uint32_t v, enum life s)
{
	v -= l->first;
	uint8_t *b = &l->two_bits[v / 4];
	*b = (uint8_t)((*b & ~(3u << (v % 4 * 2))) | (unsigned)s << (v % 4 * 2));
}

/* One sweep over the steps for the values of one window. */
static int order_ok(const struct stx_plan *p, struct lives *l, uint32_t *step)
{
	memset(l->two_bits, 0, (l->n + 3) / 4);
	for (uint32_t i = 0; i < l->n; i++)
		if (p->values[l->first + i].kind != STX_VALUE_TEMP)
			set_life(l, l->first + i, LIFE_LIVE);
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct stx_plan_step *s = &p->steps[i];
		*step = i;
		int a;
		switch (s->kind) {
		case STX_STEP_ALLOC:
			if ((a = get_life(l, s->a)) > LIFE_UNBORN)
				return 0;
			if (a == LIFE_UNBORN)
				set_life(l, s->a, LIFE_LIVE);
			break;
		case STX_STEP_RELEASE:
			if ((a = get_life(l, s->a)) >= 0 && a != LIFE_LIVE)
				return 0;
			if (a >= 0)
				set_life(l, s->a, LIFE_DEAD);
			break;
		case STX_STEP_COPY:
			if (((a = get_life(l, s->a)) >= 0 && a != LIFE_LIVE) ||
			    ((a = get_life(l, s->b)) >= 0 && a != LIFE_LIVE))
				return 0;
			break;
		default: {
			const uint32_t *v = stx_plan_u32s(p, s->args);
			for (uint32_t j = 0; j < s->nargs; j++)
				if ((a = get_life(l, v[j])) >= 0 && a != LIFE_LIVE)
					return 0;
		}
		}
	}
	return 1;
}

static stx_err check_steps(const struct stx_plan *p, uint64_t *budget, struct stx_diag *d)
{
	for (uint32_t i = 0; i < p->h->nsteps; i++)
		if (!step_ok(p, &p->steps[i], budget))
			return bad(d, "malformed step, number", i);
	struct lives l;
	for (uint32_t first = 0; first < p->h->nvalues; first += WINDOW) {
		uint32_t left = p->h->nvalues - first, step = 0;
		l.first = first;
		l.n = left < WINDOW ? left : WINDOW;
		if (!order_ok(p, &l, &step))
			return bad(d,
				   "a value is used before its allocation or after its release, "
				   "step",
				   step);
	}
	return STX_E_OK;
}

static stx_err check_header(struct stx_span bytes, struct stx_diag *d)
{
	const struct stx_plan_header *h = (const void *)bytes.at;
	if (bytes.n < sizeof *h || (uintptr_t)bytes.at % 8)
		return bad(d, "too short or misaligned, bytes", bytes.n);
	if (memcmp(h->magic, STX_PLAN_MAGIC, sizeof h->magic) != 0)
		return bad(d, "wrong magic, bytes", bytes.n);
	if (h->version != STX_ABI_VERSION)
		return stx_fail(d, STX_E_VERSION, "plan", "",
				"data plan: version %u, this build reads %u: compile again",
				h->version, STX_ABI_VERSION);
	if (h->total_bytes < header_bytes(h) || h->total_bytes > bytes.n ||
	    h->total_bytes > INT32_MAX)
		return bad(d, "its length is wrong, bytes", h->total_bytes);
	if (h->flags & ~STX_PLAN_FLAGS_KNOWN)
		return stx_fail(d, STX_E_VERSION, "plan", "",
				"data plan: unknown flags 0x%x: use a newer client", h->flags);
	if (h->flags & STX_PLAN_ALIGNED && !(h->flags & STX_PLAN_CUDA))
		return bad(d, "STX_PLAN_ALIGNED without STX_PLAN_CUDA, flags", h->flags);
	if (h->strings_bytes == 0)
		return bad(d, "no strings, bytes", h->total_bytes);
	return STX_E_OK;
}

stx_err stx_plan_open(struct stx_span bytes, struct stx_plan *out, struct stx_diag *d)
{
	memset(out, 0, sizeof *out);
	stx_err e = check_header(bytes, d);
	if (e)
		return e;
	struct stx_plan p = { .base = bytes.at, .h = (const void *)bytes.at };
	if ((e = check_tables(p.h, d)))
		return e;
	if (p.base[p.h->strings_off + p.h->strings_bytes - 1])
		return bad(d, "strings are not terminated, bytes", p.h->strings_bytes);
	p.syms = (const void *)(p.base + p.h->syms_off);
	p.values = (const void *)(p.base + p.h->values_off);
	p.kernels = (const void *)(p.base + p.h->kernels_off);
	p.steps = (const void *)(p.base + p.h->steps_off);
	p.exprs = (const void *)(p.base + p.h->exprs_off);
	p.nconfigs = tuning_of(p.h).nconfigs;
	p.configs = (const void *)(p.base + tuning_of(p.h).configs_off);
	p.nprepared = preparing_of(p.h).nprepared;
	p.prepared = (const void *)(p.base + preparing_of(p.h).prepared_off);
	uint64_t budget = p.h->total_bytes;
	if ((e = check_syms(&p, d)) || (e = check_exprs(&p, d)) ||
	    (e = check_values(&p, &budget, d)) || (e = check_kernels(&p, &budget, d)) ||
	    (e = check_configs(&p, d)) || (e = check_prepared(&p, d)) ||
	    (e = check_steps(&p, &budget, d)))
		return e;
	if (p.h->workspace_expr >= p.h->nexprs ||
	    (p.h->nguards && !exprs_ok(&p, p.h->guards_off, p.h->nguards, &budget)))
		return bad(d, "malformed workspace or guard, expressions", p.h->nexprs);
	*out = p;
	return STX_E_OK;
}

_Static_assert(!offsetof(struct stx_plan_config, kernel) &&
		       !offsetof(struct stx_plan_prepared, kernel),
	       "records of kernels begin with the kernel's number");

/* The first of kernel k's records among `count` of `size` bytes in order of kernels, and their number. */
static uint32_t records_of(const void *at, size_t size, uint32_t count, uint32_t k, uint32_t *n)
{
	const uint8_t *first = at;
	uint32_t lo = 0, hi = count, kernel;
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		memcpy(&kernel, first + mid * size, sizeof kernel);
		if (kernel < k)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (*n = 0; lo + *n < count; ++*n) {
		memcpy(&kernel, first + (lo + *n) * size, sizeof kernel);
		if (kernel != k)
			break;
	}
	return lo;
}

const struct stx_plan_config *stx_plan_configs(const struct stx_plan *p, uint32_t k, uint32_t *n)
{
	return p->configs + records_of(p->configs, sizeof *p->configs, p->nconfigs, k, n);
}

const struct stx_plan_prepared *stx_plan_prepared_of(const struct stx_plan *p, uint32_t k,
						     uint32_t *n)
{
	return p->prepared + records_of(p->prepared, sizeof *p->prepared, p->nprepared, k, n);
}

const char *stx_plan_string(const struct stx_plan *p, uint32_t off)
{
	return (const char *)p->base + off;
}

uint32_t stx_plan_step_kernel(const struct stx_plan *p, const struct stx_plan_step *s)
{
	return s->kind == STX_STEP_LAUNCH   ? s->a
	       : s->kind == STX_STEP_EXTERN ? stx_plan_extern_of(p, s)->kernel
					    : STX_PLAN_NONE;
}

uint32_t stx_plan_step_nparams(const struct stx_plan *p, const struct stx_plan_step *s)
{
	return s->nargs -
	       (s->kind == STX_STEP_EXTERN && stx_plan_extern_of(p, s)->workspace != STX_PLAN_NONE);
}
