/* interpret.c: the external call "interpret": a graph that has no code is evaluated by a private
 * worker with the oracle (compiled with allow_fallback; the report says so).
 *
 * Arguments: the graph's text, inputs, outputs. The worker is the artifact's, started by the first
 * such call and used by one run at a time. */
#include <stdlib.h>
#include <string.h>

#include "client.h"

struct call {
	struct stx_tensor *in;
	void **copies; /* [nin]: of inputs that are not dense row-major */
	uint32_t nin, nout;
	const uint32_t *outputs; /* values */
	const struct stx__value *text;
};

static int is_dense(const struct stx__value *v, int rank)
{
	int64_t stride = 1;
	for (int i = rank; i-- > 0;) {
		if (v->sizes[i] == 0)
			return 1;
		if (v->sizes[i] > 1 && v->strides[i] != stride)
			return 0;
		stride *= v->sizes[i];
	}
	return 1;
}

static void describe(const struct stx__value *v, const struct stx_plan_value *pv,
		     struct stx_tensor *t)
{
	int64_t stride = 1;
	*t = (struct stx_tensor){ .data = v->ptr, .dtype = pv->dtype, .rank = pv->rank };
	for (int i = pv->rank; i-- > 0;) {
		t->sizes[i] = v->sizes[i];
		t->strides[i] = stride;
		stride *= v->sizes[i] ? v->sizes[i] : 1;
	}
}

static stx_err no_memory(struct stx_diag *d)
{
	return stx_fail(d, STX_E_NOMEM, "run", "", "no memory to interpret the graph");
}

/* The arguments in order: one constant, all inputs, outputs; an output may be an input that the call
 * writes. */
static stx_err take_arguments(const struct stax_artifact *a, const struct stx__context *x,
			      const struct stx_plan_step *s, struct call *c, struct stx_diag *d)
{
	const uint32_t *args = stx_plan_u32s(&a->plan, s->args);
	const struct stx_plan_value *values = a->plan.values;
	uint32_t n = s->nargs, i = 1;
	if (n == 0 || values[args[0]].kind != STX_VALUE_CONST)
		return stx_fail(d, STX_E_CORRUPT, "plan", "", "data plan: interpret what graph?");
	c->text = &x->values[args[0]];
	c->in = calloc(n, sizeof *c->in);
	c->copies = calloc(n, sizeof *c->copies);
	if (!c->in || !c->copies)
		return no_memory(d);
	for (; i < n && i <= a->plan.h->ninputs && values[args[i]].kind == STX_VALUE_INPUT; i++) {
		const struct stx__value *v = &x->values[args[i]];
		const struct stx_plan_value *pv = &values[args[i]];
		struct stx_tensor *t = &c->in[c->nin];
		describe(v, pv, t);
		if (!is_dense(v, pv->rank)) {
			int64_t bytes = stx_dense_bytes(pv->dtype, pv->rank, v->sizes);
			t->data = c->copies[c->nin] = bytes < 0 ? NULL : malloc((size_t)bytes + 1);
			if (!t->data)
				return no_memory(d);
			stx__client_copy(t->data, t->strides, v->ptr, v->strides, v->sizes,
					 pv->rank, stx_dtype_bytes(pv->dtype));
		}
		c->nin++;
	}
	c->outputs = args + i;
	c->nout = n - i;
	for (; i < n; i++)
		if (values[args[i]].kind != STX_VALUE_OUTPUT &&
		    !(values[args[i]].flags & STX_TENSOR_MUTATED))
			return stx_fail(d, STX_E_CORRUPT, "plan", "",
					"data plan: a result that is no output");
	return STX_E_OK;
}

static stx_err put_outputs(const struct stax_artifact *a, const struct stx__context *x,
			   const struct call *c, const struct stx_tensor *got, uint32_t n,
			   struct stx_diag *d)
{
	if (n != c->nout)
		return stx_fail(d, STX_E_INTERNAL, "run", "", "%u results instead of %u", n,
				c->nout);
	for (uint32_t i = 0; i < n; i++) {
		const struct stx_plan_value *pv = &a->plan.values[c->outputs[i]];
		const struct stx__value *v = &x->values[c->outputs[i]];
		if (got[i].dtype != pv->dtype || got[i].rank != pv->rank ||
		    memcmp(got[i].sizes, v->sizes, pv->rank * sizeof *v->sizes) != 0)
			return stx_fail(d, STX_E_INTERNAL, "run", "",
					"result %u has another type than the plan says", i);
		stx__client_copy(v->ptr, v->strides, got[i].data, got[i].strides, v->sizes,
				 pv->rank, stx_dtype_bytes(pv->dtype));
	}
	return STX_E_OK;
}

/* A worker that has died is started again by the next call. */
static stx_err evaluate(struct stax_artifact *a, const struct call *c, struct stx_tensor **got,
			int *ngot, struct stx_diag *d)
{
	struct stax_error err = { 0 };
	struct stax_request q = { .format = STAX_TEXT,
				  .graph = c->text->ptr,
				  .graph_bytes = (size_t)c->text->bytes };
	int e = 0;
	pthread_mutex_lock(&a->interpreter_lock);
	if (!a->interpreter)
		e = stax_connect("none", &a->interpreter, &err);
	if (!e)
		e = stax_reference(a->interpreter, &q, c->in, (int)c->nin, got, ngot, &err);
	pthread_mutex_unlock(&a->interpreter_lock);
	return e ? stx_fail(d, e, "interpret", err.node, "%s", err.text) : STX_E_OK;
}

stx_err stx__interpret(struct stax_artifact *a, struct stx__context *x, struct stx__step *step,
		       const struct stx_env *env, struct stx_diag *d)
{
	const struct stx_plan_step *s = step->plan;
	struct call c = { 0 };
	struct stx_tensor *got = NULL;
	int ngot = 0;
	(void)env;
	stx_err e = take_arguments(a, x, s, &c, d);
	if (!e)
		e = evaluate(a, &c, &got, &ngot, d);
	if (!e)
		e = put_outputs(a, x, &c, got, (uint32_t)ngot, d);
	for (int i = 0; i < ngot; i++)
		free(got[i].data);
	free(got);
	for (uint32_t i = 0; c.copies && i < s->nargs; i++)
		free(c.copies[i]);
	free(c.copies);
	free(c.in);
	return e;
}
