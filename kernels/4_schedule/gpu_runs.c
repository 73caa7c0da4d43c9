/* gpu_runs.c: which accesses of a kernel are of consecutive elements over aligned runs of an axis,
 * so that a thread which has a run can make it one wide access.
 *
 * A run is `width` values of the axis' variable, the first a multiple of width, which is a power of
 * two. Of an expression two things matter: how it moves over a run, and whether it is a multiple of
 * width at the beginning of every run. Divisions and remainders by a multiple of width neither
 * begin nor end inside a run. Recursion is bounded by the nesting limit of expressions. */
#include "gpu_config.h"

struct form {
	enum stx_gpu_run run;
	int whole; /* a multiple of width where a run begins */
};

struct scan {
	const struct stx_kernel *k;
	uint32_t axis, width;
	uint32_t loop; /* first instruction inside a loop, if any: what stands before it does not
			  move along the axis of that loop */
	int is_loop_axis;
};

static struct form form_of(const struct scan *s, stx_ex ex);

static int is_multiple(const struct scan *s, stx_ex ex)
{
	int64_t n;
	return stx_ex_is_const(s->k->ex, ex, &n) && n > 0 && n % (int64_t)s->width == 0;
}

static struct form quotient_form(const struct scan *s, const struct stx_ex_atom *a)
{
	struct form by = form_of(s, a->b), of = form_of(s, a->a);
	int is_mod = a->kind == STX_ATOM_MOD;
	int divides = is_multiple(s, a->b);
	if (by.run != STX_RUN_UNIFORM)
		return (struct form){ STX_RUN_NONE, 0 };
	if (of.run == STX_RUN_UNIFORM)
		return (struct form){ STX_RUN_UNIFORM, is_mod && of.whole && divides };
	if (of.run != STX_RUN_UNIT || !of.whole || !divides ||
	    (a->kind == STX_ATOM_TRUNCDIV && stx_ex_interval(s->k->ex, a->a).lo < 0))
		return (struct form){ STX_RUN_NONE, 0 };
	return is_mod ? of : (struct form){ STX_RUN_UNIFORM, 0 };
}

static struct form atom_form(const struct scan *s, uint32_t id)
{
	struct stx_ex_atom a = stx_ex_atom_at(s->k->ex, id);
	switch (a.kind) {
	case STX_ATOM_VAR:
		return a.number == s->axis ? (struct form){ STX_RUN_UNIT, 1 }
					   : (struct form){ STX_RUN_UNIFORM, 0 };
	case STX_ATOM_SYM: return (struct form){ STX_RUN_UNIFORM, 0 };
	case STX_ATOM_INDIRECT:
		return (struct form){ s->is_loop_axis && a.number < s->loop ? STX_RUN_UNIFORM
									    : STX_RUN_NONE,
				      0 };
	case STX_ATOM_FLOORDIV:
	case STX_ATOM_TRUNCDIV:
	case STX_ATOM_MOD: return quotient_form(s, &a);
	default: {
		struct form p = form_of(s, a.a), q = form_of(s, a.b);
		int uniform = p.run == STX_RUN_UNIFORM && q.run == STX_RUN_UNIFORM;
		return (struct form){ uniform ? STX_RUN_UNIFORM : STX_RUN_NONE,
				      p.whole && q.whole };
	}
	}
}

static struct form form_of(const struct scan *s, stx_ex ex)
{
	struct form sum = { STX_RUN_UNIFORM,
			    stx_ex_constant(s->k->ex, ex) % (int64_t)s->width == 0 };
	uint32_t n = stx_ex_nterms(s->k->ex, ex);
	for (uint32_t i = 0; i < n && sum.run != STX_RUN_NONE; i++) {
		struct stx_ex_term t = stx_ex_term_at(s->k->ex, ex, i);
		int whole = t.coeff % (int64_t)s->width == 0, moves = 0;
		for (uint32_t j = 0; j < t.natoms; j++) {
			struct form f = atom_form(s, t.atoms[j]);
			whole |= f.whole;
			moves |= f.run != STX_RUN_UNIFORM;
			if (f.run == STX_RUN_NONE)
				return (struct form){ STX_RUN_NONE, 0 };
		}
		if (moves && (t.natoms > 1 || t.coeff != 1 || sum.run == STX_RUN_UNIT))
			return (struct form){ STX_RUN_NONE, 0 };
		if (moves)
			sum.run = STX_RUN_UNIT;
		sum.whole &= whole;
	}
	return sum;
}

uint32_t stx_gpu_runs(const struct stx_kernel *k, uint32_t axis, uint32_t width, uint8_t *run)
{
	struct scan s = { .k = k,
			  .axis = axis,
			  .width = width,
			  .is_loop_axis = k->axes.at[axis].binding != STX_AXIS_GRID };
	uint32_t unit = 0;
	while (s.loop < k->insts.n && k->insts.at[s.loop].op != STX_K_LOOP)
		s.loop++;
	for (uint32_t n = 0; n < k->insts.n; n++) {
		const struct stx_kinst *i = &k->insts.at[n];
		struct form f = { STX_RUN_NONE, 0 };
		if ((i->op == STX_K_LOAD || i->op == STX_K_STORE) && i->c == STX_NONE)
			f = form_of(&s, i->ex);
		if (f.run == STX_RUN_UNIT && !f.whole)
			f.run = STX_RUN_NONE;
		unit += f.run == STX_RUN_UNIT;
		if (run)
			run[n] = (uint8_t)f.run;
	}
	return unit;
}

int stx_gpu_is_whole_runs(const struct stx_kernel *k, uint32_t axis, uint32_t width)
{
	struct scan s = { .k = k, .axis = STX_NONE, .width = width };
	return form_of(&s, k->axes.at[axis].size).whole;
}
