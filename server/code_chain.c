/* code_chain.c: the code of one kernel in a configuration of the client's choice, or the names of
 * all it can have. The kernel must be in the store, where a compile for a GPU leaves its IR; a
 * product on a CPU is its text. A compile chain without plan and link: it shares kernel jobs,
 * flights and what follows a failure with the others. */
#include <stdio.h>
#include <unistd.h>

#include "chain.h"
#include "connection.h"
#include "gpu_target.h"
#include "tuning.h"

static const Stx__KernelCode *asked(const struct stx__compile_chain *c)
{
	return c->c.spec->e->kernel_code;
}

/* ---- replies ---- */

static void send_code(struct stx__pending *p, const struct stx__compile_chain *c)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__KernelCodeReply r = STX__KERNEL_CODE_REPLY__INIT;
	Stx__Kernel k = STX__KERNEL__INIT;
	struct stx__kernel_value v = { 0 };
	struct stx__blob *body = NULL;
	e.request_id = p->request_id;
	e.msg_case = STX__ENVELOPE__MSG_KERNEL_CODE_REPLY;
	e.kernel_code_reply = &r;
	if (c->has_plan) {
		const Stx__JobReply *j = c->plan.e->job_reply;
		r.kernel = j->n_kernels ? j->kernels[0] : &k;
	} else {
		const struct stx__blob *b = c->slots[0].value;
		stx__kernel_decode((struct stx_span){ b->at, b->n }, &v);
		k.block = v.emitted.block;
		k.n_block = 3;
		k.registers = v.emitted.registers;
		k.spills = v.emitted.spills;
		k.shared_bytes = v.emitted.shared_bytes;
		k.reused = c->slots[0].reused;
		r.kernel = &k;
		if (!(body = stx__blob_copy(v.object.at, v.object.n))) {
			stx__conn_close(p->conn);
			return;
		}
	}
	stx__conn_send(p->conn, &e, body);
	stx__blob_drop(body);
}

static void code_done(struct stx__waiter *w, struct stx__flight *f, const struct stx_diag *failure)
{
	struct stx__pending *p = (struct stx__pending *)w;
	if (failure)
		stx__conn_error(p->conn, p->request_id, failure);
	else
		send_code(p, (struct stx__compile_chain *)f);
	stx__pending_free(p);
}

void stx__code_ready(struct stx__compile_chain *c)
{
	stx__quarantine_forget(&c->c.s->quarantine, &c->c.flight.id);
	stx__flight_land(&c->c.flight);
	stx__flight_finish(&c->c.flight, NULL);
	stx__compile_end(c);
}

/* ---- the job ---- */

static stx_err send_space(struct stx__job *j, int sock, uint64_t id, struct stx_diag *d)
{
	struct stx__compile_chain *c = stx__compile_chain_of(j);
	struct stx_span ir = { c->ir->at, c->ir->n };
	return stx__job_send(c->c.spec, j->kind, NULL, sock, id, &ir, 1, -1, d);
}

static void space_done(struct stx__job *j, struct stx__outcome *o)
{
	struct stx__compile_chain *c = stx__compile_chain_of(j);
	if (o->fate != STX__FATE_OK) {
		stx__compile_job_failed(c, o);
		return;
	}
	c->plan = stx__message_take(o->message);
	c->has_plan = 1;
	stx__code_ready(c);
}

static void start_space(struct stx__compile_chain *c)
{
	struct stx__job *j = &c->c.job;
	j->kind = STX__JOB_KIND__JOB_SPACE;
	j->send = send_space;
	j->done = space_done;
	stx__compile_submit(c);
}

/* As after a plan with this one kernel. */
static void start_kernel(struct stx__compile_chain *c)
{
	c->pieces = calloc(2, sizeof *c->pieces);
	c->slots = calloc(2, sizeof *c->slots);
	c->kernels.at = calloc(1, sizeof *c->kernels.at);
	if (!c->pieces || !c->slots || !c->kernels.at) {
		stx__compile_end_with(c, STX_E_NOMEM, "kernel", "out of memory");
		return;
	}
	c->pieces[1] = (struct stx_span){ c->ir->at, c->ir->n };
	c->kernels.at[0] = (struct stx_kernel_id){ c->key, 1, asked(c)->config };
	c->kernels.n = 1;
	stx__compile_pump(c);
}

void stx__code_restart(struct stx__compile_chain *c)
{
	if (asked(c)->config[0])
		start_kernel(c);
	else
		start_space(c);
}

static void have_ir(void *ctx, stx_err e, struct stx_span contents)
{
	struct stx__compile_chain *c = ctx;
	if (!c->dead && (e || !(c->ir = stx__blob_copy(contents.at, contents.n))))
		stx__compile_end_with(c, e ? e : STX_E_NOMEM, "kernel",
				      e ? "this kernel is not stored here: compile its graph again "
					  "(STAX_RECACHE=1)"
					: "out of memory");
	else if (!c->dead)
		stx__code_restart(c);
	stx__compile_release(c);
}

/* ---- joining ---- */

static struct stx__compile_chain *new_chain(struct stx__pending *p, const struct stx_digest *key,
					    const struct stx_digest *id)
{
	struct stx__compile_chain *c = stx__compile_chain_new(p->s, p->spec, key, id);
	if (c)
		c->is_code = 1;
	return c;
}

static void refuse(struct stx__pending *p, const struct stx_diag *d)
{
	stx__conn_error(p->conn, p->request_id, d);
	stx__pending_free(p);
}

void stx__code_request(struct stx__pending *p)
{
	struct stx__server *s = p->s;
	const Stx__KernelCode *q = p->spec->e->kernel_code;
	struct stx_digest ir;
	struct stx_diag d = { 0 };
	uint64_t until;
	if (q->product[0])
		ir = stx_digest_of(q->product, strlen(q->product));
	else
		memcpy(ir.b, q->kernel.data, sizeof ir.b);
	struct stx_digest stored =
		stx_key_kernel(&ir, NULL, q->target, p->spec->options, &s->fingerprint);
	struct stx_digest key =
		stx_key_kernel(&ir, q->config, q->target, p->spec->options, &s->fingerprint);
	struct stx_digest id = stx_key_scoped(p->spec->ns, &key);
	struct stx__flight *f = stx__flight_find(&s->compile_flights, &id);
	s->stats.requests++;
	if (stx_cache_failure_find(s->cache, p->spec->ns, &key, &d)) {
		s->stats.failures_cached++;
	} else if (stx__quarantine_has(&s->quarantine, &id, stx__now_ms(s), &until)) {
		s->stats.quarantined++;
		stx_fail(&d, STX_E_QUARANTINED, "kernel", "",
			 "this kernel has brought workers down and is refused for a while");
	} else if (s->draining || stx__pool_queued(s->pool) >= s->cfg.queue) {
		stx_fail(&d, STX_E_BUSY, "queue", "", "too many compiles are waiting");
	}
	struct stx__compile_chain *c = f        ? (struct stx__compile_chain *)f
				       : d.code ? NULL
						: new_chain(p, &key, &id);
	if (!c && !d.code)
		stx_fail(&d, STX_E_NOMEM, "request", "", "out of memory");
	if (d.code) {
		refuse(p, &d);
		return;
	}
	p->waiter.done = code_done;
	stx__server_busy(s);
	stx__flight_join(&c->c.flight, &p->waiter);
	if (f) {
		stx__chain_changed(&c->c);
		return;
	}
	c->refs++;
	if (q->product[0])
		have_ir(c, STX_E_OK,
			(struct stx_span){ (const uint8_t *)q->product, strlen(q->product) });
	else
		stx_cache_kernel_read(s->cache, c->c.spec->ns, &stored, have_ir, c);
}
