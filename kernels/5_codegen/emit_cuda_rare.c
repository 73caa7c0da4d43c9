/* emit_cuda_rare.c: what selects by `rarely` take where that is true, as a function that is called
 * there alone: threads with usual values pass by it, and its code is there once, not for each
 * element.
 *
 * requires: the stages. ensures: info.rare names the RARELY of a value that only selects by it
 * need, directly or through such values; these stand in one stage, before the first of the selects,
 * and so does what they read. Ends: instructions are visited from the last to the first, once, and
 * again as members of one list. */
#include "emit_cuda.h"

#define WORTH 16 /* operations: fewer cost less than a call */

struct stx__rare {
	uint32_t select; /* the first that takes one of its values */
	uint32_t first;  /* its values in order (info.rare_next), or STX_NONE */
	uint32_t n;
	uint32_t input;         /* the last value that they read */
	uint32_t region, stage; /* of the last of all these */
	uint8_t is_apart;       /* others stand in another one */
};

static uint32_t operand(const struct stx__cuda *e, const struct stx_kinst *i, int j)
{
	uint32_t o = j == 0 ? i->a : j == 1 ? i->b : i->c;
	return (stx__cuda_value_operands(i) >> j & 1) && o != STX_NONE ? e->info[o].same : STX_NONE;
}

static int by_rarely(const struct stx__cuda *e, uint32_t n)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	return i->op == STX_P_SELECT && e->k->insts.at[i->a].op == STX_P_RARELY;
}

/* It is computed for every element, whoever reads it. */
static int stands(const struct stx__cuda *e, uint32_t n)
{
	return e->k->insts.at[n].op >= STX_PRIM_COUNT || e->info[n].same != n ||
	       e->info[n].is_array || e->info[n].level <= STX__BLOCK;
}

/* Whom instruction n's operands are for: all (counts), or one RARELY; of two, all. */
static void pass_on(struct stx__cuda *e, uint32_t n, uint8_t *counts)
{
	const struct stx_kinst *i = &e->k->insts.at[n];
	for (int j = 0; j < 3; j++) {
		uint32_t o = operand(e, i, j), rare = e->info[n].rare;
		if (o == STX_NONE)
			continue;
		if (counts[n])
			rare = j == 1 && by_rarely(e, n) ? e->info[i->a].same + 1 : 0;
		if (!rare || (e->info[o].rare && e->info[o].rare != rare))
			counts[o] = 1;
		else
			e->info[o].rare = rare;
	}
}

static struct stx__rare *meet(struct stx__cuda *e, uint32_t rare, uint32_t n, uint32_t region)
{
	struct stx__rare *r = &e->rare[rare - 1];
	if (r->first == STX_NONE && r->select == STX_NONE) {
		r->region = region;
		r->stage = e->info[n].stage;
	}
	r->is_apart |= r->region != region || r->stage != e->info[n].stage;
	return r;
}

/* Lists the values of each RARELY and finds the first select that takes one. */
static void list(struct stx__cuda *e)
{
	uint32_t region = e->regions.n - 1;
	for (uint32_t n = e->k->insts.n; n-- > 0;) {
		uint32_t rare = e->info[n].rare;
		while (region && n < e->regions.at[region].begin)
			region--;
		if (rare) {
			struct stx__rare *r = meet(e, rare, n, region);
			e->info[n].rare_next = r->first;
			r->first = n;
			r->n++;
		}
		uint32_t b =
			by_rarely(e, n) && !rare ? operand(e, &e->k->insts.at[n], 1) : STX_NONE;
		if (b != STX_NONE && e->info[b].rare) {
			meet(e, e->info[b].rare, n, region)->select = n;
			e->info[b].is_taken = 1;
		}
	}
}

/* Values that are few or apart, or that read what comes after the select, are for all again. */
static void drop(struct stx__cuda *e, uint32_t rarely)
{
	struct stx__rare *r = &e->rare[rarely];
	for (uint32_t n = r->first; n != STX_NONE; n = e->info[n].rare_next)
		for (int j = 0; j < 3; j++) {
			uint32_t o = operand(e, &e->k->insts.at[n], j);
			if (o != STX_NONE && e->info[o].rare != rarely + 1 &&
			    e->k->insts.at[o].op != STX_K_CONST && o > r->input)
				r->input = o;
		}
	if (r->n >= WORTH && !r->is_apart && r->input < r->select)
		return;
	for (uint32_t n = r->first; n != STX_NONE; n = e->info[n].rare_next)
		e->info[n].rare = 0;
	r->first = STX_NONE;
}

stx_err stx__cuda_find_rare(struct stx__cuda *e)
{
	uint32_t n = e->k->insts.n, any = 0;
	for (uint32_t i = 0; i < n; i++)
		any |= e->k->insts.at[i].op == STX_P_RARELY;
	if (!any)
		return STX_E_OK;
	uint8_t *counts = STX_NEW_ARRAY(e->arena, uint8_t, n);
	e->rare = STX_NEW_ARRAY(e->arena, struct stx__rare, n);
	e->rare_seen = STX_NEW_ARRAY(e->arena, uint32_t, n);
	if (!counts || !e->rare || !e->rare_seen)
		return stx__cuda_fail(e, STX_E_NOMEM, "out of memory");
	for (uint32_t i = n; i-- > 0;) {
		e->rare[i].first = e->rare[i].select = STX_NONE;
		counts[i] |= !e->info[i].rare || stands(e, i);
		if (e->info[i].same == i)
			pass_on(e, i, counts);
		if (counts[i])
			e->info[i].rare = 0;
	}
	list(e);
	for (uint32_t i = 0; i < n; i++)
		if (e->rare[i].first != STX_NONE)
			drop(e, i);
	return STX_E_OK;
}

/* What the values read, each once: parameters of their function, or its arguments. */
static void put_inputs(struct stx__cuda *e, uint32_t rarely, int declared, struct stx_bytes *out)
{
	const char *comma = "";
	uint32_t stamp = 2 * rarely + 1 + (uint32_t)declared;
	for (uint32_t n = e->rare[rarely].first; n != STX_NONE; n = e->info[n].rare_next)
		for (int j = 0; j < 3; j++) {
			uint32_t o = operand(e, &e->k->insts.at[n], j);
			if (o == STX_NONE || e->info[o].rare == rarely + 1 ||
			    e->rare_seen[o] == stamp || e->k->insts.at[o].op == STX_K_CONST)
				continue;
			e->rare_seen[o] = stamp;
			stx_bytes_puts(out, comma);
			if (declared)
				stx_bytes_printf(
					out, "%s ",
					stx__cuda_type((enum stx_dtype)e->k->insts.at[o].dtype));
			stx__cuda_value(e, o, out);
			comma = ", ";
		}
}

/* It returns the values that selects take. */
static void put_function(struct stx__cuda *e, uint32_t rarely)
{
	struct stx_bytes *out = e->functions, fields = { 0 };
	const struct stx_kinst *at = e->k->insts.at;
	const char *comma = "";
	stx_bytes_printf(out, "struct rare%u {", rarely);
	for (uint32_t n = e->rare[rarely].first; n != STX_NONE; n = e->info[n].rare_next) {
		if (!e->info[n].is_taken)
			continue;
		stx_bytes_printf(out, " %s t%u;", stx__cuda_type((enum stx_dtype)at[n].dtype), n);
		stx_bytes_printf(&fields, "%st%u", comma, n);
		comma = ", ";
	}
	stx_bytes_printf(out, " };\nstatic __device__ __noinline__ rare%u rarely%u(", rarely,
			 rarely);
	e->in_rare = rarely + 1;
	put_inputs(e, rarely, 1, out);
	stx_bytes_puts(out, ") {\n");
	for (uint32_t n = e->rare[rarely].first; n != STX_NONE; n = e->info[n].rare_next) {
		stx_bytes_printf(
			out, "  const %s t%u = ", stx__cuda_type((enum stx_dtype)at[n].dtype), n);
		stx__cuda_prim(e, &at[n], out);
		stx_bytes_puts(out, ";\n");
	}
	e->in_rare = 0;
	stx_bytes_printf(out, "  return { %s };\n}\n", stx_bytes_cstr(&fields));
	out->oom |= fields.oom;
	stx_bytes_free(&fields);
}

void stx__cuda_rare_call(struct stx__cuda *e, uint32_t n)
{
	uint32_t b = e->rare && by_rarely(e, n) ? operand(e, &e->k->insts.at[n], 1) : STX_NONE;
	uint32_t rare = b == STX_NONE ? 0 : e->info[b].rare;
	if (!rare || e->rare[rare - 1].select != n)
		return;
	put_function(e, rare - 1);
	stx_bytes_printf(e->out, "    rare%u r%u = {};\n    if (", rare - 1, rare - 1);
	stx__cuda_value(e, rare - 1, e->out);
	stx_bytes_printf(e->out, ") r%u = rarely%u(", rare - 1, rare - 1);
	put_inputs(e, rare - 1, 0, e->out);
	stx_bytes_puts(e->out, ");\n");
}
