/* compile.c: a compile request: look up by digest, send the graph when the server does not know it.
 */
#include <stdlib.h>
#include <string.h>

#include "client.h"

#define GRACE_MS 2000 /* the server keeps the deadline; this much later it is taken for hung */

static stx_err ask(struct stax_client *c, Stx__Envelope *m, struct stx_span body,
		   const struct stx__wait *w, struct stx__received *r, struct stx_diag *d)
{
	stx_err e = stx__roundtrip(c, m, body, w, r, d);
	if (e || r->e->msg_case == STX__ENVELOPE__MSG_ANSWER)
		return e;
	stx__received_free(r);
	return stx_fail(d, STX_E_PROTOCOL, "compile", "", "unexpected reply to a compile request");
}

static stx_err look_up(struct stax_client *c, Stx__Lookup *what, const struct stx__wait *w,
		       struct stx__received *r, struct stx_diag *d)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	m.msg_case = STX__ENVELOPE__MSG_LOOKUP;
	m.lookup = what;
	return ask(c, &m, (struct stx_span){ NULL, 0 }, w, r, d);
}

static stx_err send_graph(struct stax_client *c, const struct stax_request *q, Stx__Lookup *what,
			  const struct stx__wait *w, struct stx__received *r, struct stx_diag *d)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Compile f = STX__COMPILE__INIT;
	const char *job = getenv("STAX_JOB"), *recache = getenv("STAX_RECACHE");
	f.what = what;
	f.deadline_ms = q->deadline_ms;
	f.recache = q->recache || (recache && *recache && strcmp(recache, "0") != 0);
	f.want_progress = q->progress != NULL;
	if (job)
		f.job = (char *)(uintptr_t)job;
	m.msg_case = STX__ENVELOPE__MSG_COMPILE;
	m.compile = &f;
	stx_err e = ask(c, &m, (struct stx_span){ q->graph, q->graph_bytes }, w, r, d);
	if (!e && r->e->answer->need_body) {
		stx__received_free(r);
		e = stx_fail(d, STX_E_PROTOCOL, "compile", "",
			     "the server asks for the graph twice");
	}
	return e;
}

static stx_err compile_remote(struct stax_client *c, const struct stax_request *q,
			      const char *target, struct stax_answer **out, struct stx_diag *d)
{
	struct stx__received r = { 0 };
	struct stx__wait w = { 0, q->progress, q->progress_ctx };
	const char *recache = getenv("STAX_RECACHE");
	int skip = q->recache || (recache && *recache && strcmp(recache, "0") != 0);
	Stx__Lookup *what;
	struct stx_arena *a = stx_arena_new(0);
	if (!a)
		return stx_fail(d, STX_E_NOMEM, "compile", "", "out of memory");
	if (q->deadline_ms)
		w.deadline_ns = stx_clock_ns() + (q->deadline_ms + (uint64_t)GRACE_MS) * 1000000u;
	stx_err e = stx__lookup_build(a, q, target, &what, d);
	if (!e && !skip)
		e = look_up(c, what, &w, &r, d);
	if (!e && (skip || r.e->answer->need_body)) {
		stx__received_free(&r);
		e = send_graph(c, q, what, &w, &r, d);
	}
	if (!e && !(*out = stx__answer_new(r.e->answer, what)))
		e = stx_fail(d, STX_E_NOMEM, "compile", "", "out of memory");
	stx__received_free(&r);
	stx_arena_free(a);
	return e;
}

/* An answer that names needed values is an error that carries the answer. */
static stx_err need_values(const struct stax_answer *a, struct stx_diag *d)
{
	if (a->nneeded == 0)
		return a->digest[0] ? STX_E_OK
				    : stx_fail(d, STX_E_PROTOCOL, "compile", "",
					       "the answer has no artifact");
	return stx_fail(d, STX_E_NEED_VALUES, "import", a->needed[0].input,
			"the values of %zu input(s) fix shapes and must be given; first '%s' (%s)",
			a->nneeded, a->needed[0].input, a->needed[0].why);
}

int stax_compile(struct stax_client *c, const struct stax_request *r, struct stax_answer **out,
		 struct stax_error *err)
{
	struct stx_diag d;
	char target[STX_TARGET_BYTES];
	uint32_t need;
	struct stax_request sent;
	struct stx_bytes stripped = { 0 };
	stx__diag_init(&d);
	*out = NULL;
	stx_err e = stx__cpu_resolve(r->target, target, &need, &d);
	if (!e)
		e = stx__request_strip(r, &sent, &stripped, &d);
	if (!e)
		e = c->at.kind == STX__NONE ? stx__private_compile(c, &sent, target, out, &d)
					    : compile_remote(c, &sent, target, out, &d);
	stx_bytes_free(&stripped);
	if (!e)
		e = need_values(*out, &d);
	if (e && e != STX_E_NEED_VALUES) {
		stax_answer_free(*out);
		*out = NULL;
	}
	return stx__give_error(e, &d, err);
}
