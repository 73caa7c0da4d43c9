/* ref_reduce.c: reductions. Float sums are compensated in extended precision and rounded once;
 * integers wrap in the result's type; NaN beats everything in max, min, argmax and argmin, the
 * first one winning (B01). */
#include "ref_internal.h"

#include <math.h>
#include <string.h>

/* The index space of a reduction: kept dimensions outside, reduced ones inside. */
struct space {
	const struct stx_tensor *x;
	uint32_t nkept, nred;
	int64_t kept[STX_MAX_DIMS], kept_strides[STX_MAX_DIMS];
	int64_t red[STX_MAX_DIMS], red_strides[STX_MAX_DIMS];
	int64_t count; /* elements in one reduction */
};

static const struct stx_arg *arg_named(const struct stx_node *n, const char *name)
{
	const struct stx_op_info *info = stx_op_info(n->op);

	for (uint32_t i = 0; i < info->nparams; i++)
		if (!strcmp(info->params[i].name, name))
			return &n->args[i];
	return NULL;
}

/* Bit set of reduced dimensions. */
static stx_err reduced(struct stx__ref *r, const struct stx_node *n, uint32_t rank, uint32_t *set)
{
	const struct stx_arg *a = arg_named(n, "dim");
	uint32_t all = (1u << rank) - 1, dim;
	stx_err e;

	*set = 0;
	if (!a || a->kind == STX_ARG_NONE) {
		*set = all;
	} else if (a->kind == STX_ARG_INT) {
		e = stx__ref_dim(r, n, a->u.ex, rank, &dim);
		if (e)
			return e;
		*set = 1u << dim;
	} else {
		if (a->n == 0 && n->op != STX_OP_ANY_DIM && n->op != STX_OP_ALL_DIM)
			*set = all;
		for (uint32_t i = 0; i < a->n; i++) {
			e = stx__ref_dim(r, n, a->u.exs[i], rank, &dim);
			if (e)
				return e;
			*set |= 1u << dim;
		}
	}
	return 0;
}

static stx_err make_space(struct stx__ref *r, const struct stx_node *n, struct space *s)
{
	const struct stx_tensor *x = stx__ref_arg(r, n, 0);
	uint32_t set;
	stx_err e = reduced(r, n, x->rank, &set);

	if (e)
		return e;
	memset(s, 0, sizeof *s);
	s->x = x;
	s->count = 1;
	for (uint32_t i = 0; i < x->rank; i++) {
		if (set & 1u << i) {
			s->red[s->nred] = x->sizes[i];
			s->red_strides[s->nred++] = x->strides[i];
			s->count *= x->sizes[i];
		} else {
			s->kept[s->nkept] = x->sizes[i];
			s->kept_strides[s->nkept++] = x->strides[i];
		}
	}
	return 0;
}

/* One reduction starting at element `base`. */
struct fold {
	const struct stx_node *n;
	struct space s;
	enum stx_dtype from, t; /* element type; type elements are converted to first */
	double correction;
	const struct stx_elem_program *exp, *log; /* logsumexp */
};
typedef union stx_scalar fold_fn(const struct fold *f, int64_t base);

static void start(const struct fold *f, int64_t base, struct stx__ref_walk *w)
{
	stx__ref_walk_start(w, f->s.nred, f->s.red);
	stx__ref_walk_add(w, f->s.red_strides, base);
}

static union stx_scalar element(const struct fold *f, const struct stx__ref_walk *w)
{
	return stx__ref_cast(f->t, f->from, stx__ref_load(f->s.x, w->off[0]));
}

static long double float_sum(const struct fold *f, int64_t base)
{
	struct stx__ref_sum a = { 0, 0 };
	struct stx__ref_walk w;

	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w))
		stx__ref_sum_add(&a, element(f, &w).f);
	return stx__ref_sum_value(&a);
}

static union stx_scalar fold_sum(const struct fold *f, int64_t base)
{
	union stx_scalar v = { .u = 0 };
	struct stx__ref_walk w;

	if (stx_dtype_is_float(f->t))
		return (union stx_scalar){ .f = stx__ref_round_wide(f->t, float_sum(f, base)) };
	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w))
		v.u += element(f, &w).u;
	return stx_scalar_wrap(f->t, v.u);
}

static union stx_scalar fold_mean(const struct fold *f, int64_t base)
{
	long double m = float_sum(f, base) / (long double)f->s.count; /* none: 0/0 is NaN */

	return (union stx_scalar){ .f = stx__ref_round_wide(f->t, m) };
}

static union stx_scalar fold_prod(const struct fold *f, int64_t base)
{
	union stx_scalar v = { .u = 1 };
	struct stx__ref_walk w;
	long double p = 1;

	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w)) {
		if (stx_dtype_is_float(f->t))
			p *= element(f, &w).f;
		else
			v.u *= element(f, &w).u;
	}
	if (stx_dtype_is_float(f->t))
		return (union stx_scalar){ .f = stx__ref_round_wide(f->t, p) };
	return stx_scalar_wrap(f->t, v.u);
}

/* requires: at least one element (inference) */
static union stx_scalar fold_extreme(const struct fold *f, int64_t base)
{
	enum stx_prim p = f->n->op == STX_OP_AMAX ? STX_P_MAX : STX_P_MIN;
	union stx_scalar v;
	struct stx__ref_walk w;

	start(f, base, &w);
	v = element(f, &w);
	for (stx__ref_walk_next(&w); w.left > 0; stx__ref_walk_next(&w)) {
		union stx_scalar x = element(f, &w);

		v = stx_prim_eval(p, f->t, f->t, v, x, x);
	}
	return v;
}

static union stx_scalar fold_truth(const struct fold *f, int64_t base)
{
	int all = f->n->op == STX_OP_ALL_DIM || f->n->op == STX_OP_ALL ||
		  f->n->op == STX_OP_ALL_ONE,
	    v = all;
	struct stx__ref_walk w;

	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w))
		v = all ? v && element(f, &w).i : v || element(f, &w).i;
	return (union stx_scalar){ .i = v };
}

/* Mean, then the squares of the differences from it. The divisor is max(0, n - correction) (B43).
 */
static union stx_scalar fold_var(const struct fold *f, int64_t base)
{
	long double mean = float_sum(f, base) / (long double)f->s.count, divisor;
	struct stx__ref_sum a = { 0, 0 };
	struct stx__ref_walk w;

	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w)) {
		long double d = element(f, &w).f - mean;

		stx__ref_sum_add(&a, d * d);
	}
	divisor = (long double)f->s.count - f->correction;
	if (divisor < 0)
		divisor = 0;
	mean = stx__ref_sum_value(&a) / divisor;
	if (f->n->op == STX_OP_STD || f->n->op == STX_OP_STD_DIM)
		mean = sqrtl(mean);
	return (union stx_scalar){ .f = stx__ref_round_wide(f->t, mean) };
}

/* Composite: max out, exp and log in f32 or f64; a max of inf is not taken out (B07), none is -inf.
 */
static union stx_scalar fold_logsumexp(const struct fold *f, int64_t base)
{
	enum stx_dtype wide = stx__ref_work(f->t);
	union stx_scalar top = { .f = -INFINITY }, v;
	struct stx__ref_sum a = { 0, 0 };
	struct stx__ref_walk w;

	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w)) {
		v = element(f, &w);
		top = stx_prim_eval(STX_P_MAX, wide, wide, top, v, v);
	}
	if (isinf(top.f))
		top.f = 0;
	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w)) {
		v.f = stx_scalar_round(wide, element(f, &w).f - top.f);
		stx__ref_sum_add(&a, stx_elementary_eval(f->exp, v, v).f);
	}
	v.f = stx__ref_round_wide(wide, stx__ref_sum_value(&a));
	v.f = stx_scalar_round(wide, stx_elementary_eval(f->log, v, v).f + top.f);
	return (union stx_scalar){ .f = stx_scalar_round(f->t, v.f) };
}

static stx_err run_at(struct stx__ref *r, const struct stx_node *n, uint32_t at, struct fold *f,
		      enum stx_dtype has, fold_fn *fn)
{
	struct stx_tensor *out;
	struct stx__ref_walk w;
	stx_err e = make_space(r, n, &f->s);

	if (e)
		return e;
	out = stx__ref_result_at(r, n, at);
	if (!out)
		return stx__ref_error(r);
	f->n = n;
	f->from = (enum stx_dtype)f->s.x->dtype;
	stx__ref_walk_start(&w, f->s.nkept, f->s.kept);
	stx__ref_walk_add(&w, f->s.kept_strides, f->s.x->offset);
	for (int64_t i = 0; w.left > 0; i++, stx__ref_walk_next(&w))
		stx__ref_store(out, i, stx__ref_cast(n->outs[at].dtype, has, fn(f, w.off[0])));
	return 0;
}

static stx_err run(struct stx__ref *r, const struct stx_node *n, struct fold *f, enum stx_dtype has,
		   fold_fn *fn)
{
	return run_at(r, n, 0, f, has, fn);
}

stx_err stx__ref_reduce(struct stx__ref *r, const struct stx_node *n)
{
	struct fold f = { .t = n->outs[0].dtype };

	switch (n->op) {
	case STX_OP_SUM:
	case STX_OP_SUM_DIM: return run(r, n, &f, f.t, fold_sum);
	case STX_OP_MEAN:
	case STX_OP_MEAN_DIM: return run(r, n, &f, f.t, fold_mean);
	case STX_OP_PROD:
	case STX_OP_PROD_DIM: return run(r, n, &f, f.t, fold_prod);
	case STX_OP_ANY:
	case STX_OP_ALL:
	case STX_OP_ANY_ONE:
	case STX_OP_ALL_ONE:
	case STX_OP_ANY_DIM:
	case STX_OP_ALL_DIM: f.t = STX_BOOL; return run(r, n, &f, STX_BOOL, fold_truth);
	default: return run(r, n, &f, f.t, fold_extreme);
	}
}

/* Maximum, NaN winning; and the sum of exp(x - maximum), 1 for elements that equal it. */
static union stx_scalar fold_top(const struct fold *f, int64_t base)
{
	union stx_scalar top = { .f = -INFINITY };
	struct stx__ref_walk w;

	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w)) {
		union stx_scalar v = element(f, &w);

		top = stx_prim_eval(STX_P_MAX, f->t, f->t, top, v, v);
	}
	return top;
}

static union stx_scalar fold_exps(const struct fold *f, int64_t base)
{
	union stx_scalar top = fold_top(f, base), v;
	struct stx__ref_sum a = { 0, 0 };
	struct stx__ref_walk w;

	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w)) {
		v = element(f, &w);
		v.f = v.f == top.f ? 0 : stx_scalar_round(f->t, v.f - top.f);
		stx__ref_sum_add(&a, stx_elementary_eval(f->exp, v, v).f);
	}
	return (union stx_scalar){ .f = stx__ref_round_wide(f->t, stx__ref_sum_value(&a)) };
}

stx_err stx__ref_online_softmax(struct stx__ref *r, const struct stx_node *n)
{
	struct fold f = { .t = n->outs[0].dtype };
	stx_err e;

	f.exp = stx__ref_program(r, STX_P_EXP, f.t);
	if (!f.exp)
		return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	e = run(r, n, &f, f.t, fold_top);
	return e ? e : run_at(r, n, 1, &f, f.t, fold_exps);
}

stx_err stx__ref_logsumexp(struct stx__ref *r, const struct stx_node *n)
{
	struct fold f = { .t = n->outs[0].dtype };

	f.exp = stx__ref_program(r, STX_P_EXP, stx__ref_work(f.t));
	f.log = stx__ref_program(r, STX_P_LOG, stx__ref_work(f.t));
	if (!f.exp || !f.log)
		return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
	return run(r, n, &f, f.t, fold_logsumexp);
}

stx_err stx__ref_var(struct stx__ref *r, const struct stx_node *n)
{
	const struct stx_arg *c = arg_named(n, "correction");
	struct fold f = { .t = n->outs[0].dtype };
	stx_err e;

	if (c)
		f.correction = c->kind == STX_ARG_NONE ? 1 : stx__ref_scalar_f(c);
	else
		f.correction = (double)arg_named(n, "unbiased")->u.i;
	e = run(r, n, &f, f.t, fold_var);
	return e || n->op != STX_OP_VAR_MEAN ? e : run_at(r, n, 1, &f, f.t, fold_mean);
}

/* a beats b for argmax / argmin; equal ones do not, so the first stays */
static int beats(const struct fold *f, union stx_scalar a, union stx_scalar b)
{
	int max = f->n->op == STX_OP_ARGMAX || f->n->op == STX_OP_MAX_DIM;

	switch (stx_dtype_kind(f->t)) {
	case STX_KIND_FLOAT:
		if (isnan(a.f) || isnan(b.f))
			return isnan(a.f) && !isnan(b.f);
		return max ? a.f > b.f : a.f < b.f;
	case STX_KIND_INT: return max ? a.i > b.i : a.i < b.i;
	default: return max ? a.u > b.u : a.u < b.u;
	}
}

/* The winning element; *index is its position. */
static union stx_scalar winner(const struct fold *f, int64_t base, int64_t *index)
{
	union stx_scalar best = { .u = 0 };
	int64_t i = 0;
	struct stx__ref_walk w;

	*index = 0;
	for (start(f, base, &w); w.left > 0; stx__ref_walk_next(&w), i++) {
		union stx_scalar v = element(f, &w);

		if (i == 0 || beats(f, v, best)) {
			best = v;
			*index = i;
		}
	}
	return best;
}

static union stx_scalar fold_arg(const struct fold *f, int64_t base)
{
	int64_t at;

	winner(f, base, &at);
	return (union stx_scalar){ .i = at };
}

static union stx_scalar fold_winner(const struct fold *f, int64_t base)
{
	int64_t at;

	return winner(f, base, &at);
}

stx_err stx__ref_argreduce(struct stx__ref *r, const struct stx_node *n)
{
	struct fold f = { .t = (enum stx_dtype)stx__ref_arg(r, n, 0)->dtype };

	return run(r, n, &f, STX_I64, fold_arg);
}

stx_err stx__ref_extreme_pair(struct stx__ref *r, const struct stx_node *n)
{
	struct fold f = { .t = n->outs[0].dtype };
	stx_err e = run(r, n, &f, f.t, fold_winner);

	return e ? e : run_at(r, n, 1, &f, STX_I64, fold_arg);
}
