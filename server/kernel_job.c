/* kernel_job.c: compiling one kernel for every chain that wants it. */

#include "chain.h"
#include "log.h"

/* Who waits: a chain's slot. */
struct user {
	struct stx__compile_chain *chain;
	uint32_t slot;
};

struct stx__kernel_job {
	struct stx__job job;
	struct stx_digest id, store_id; /* in the table: within the namespace; in the store */
	struct stx__server *s;
	struct stx__spec *spec;
	struct stx__blob *ir;
	char *config; /* of a GPU kernel, else NULL */
	struct stx__attempts attempts;
	struct user *users; /* the first leads */
	uint32_t nusers, cap;
};

static struct stx__kernel_job *job_of(struct stx__job *j)
{
	return (struct stx__kernel_job *)(void *)j; /* first member */
}

static void free_job(struct stx__kernel_job *k)
{
	if (stx__table_get(&k->s->kernel_jobs, &k->id) == k)
		stx__table_del(&k->s->kernel_jobs, &k->id);
	stx__spec_drop(k->spec);
	stx__blob_drop(k->ir);
	free(k->config);
	free(k->users);
	free(k);
}

void stx__kernel_job_changed(struct stx__kernel_job *k)
{
	uint32_t rank = 0;
	k->job.deadline_ms = 0;
	for (uint32_t i = 0; i < k->nusers; i++) {
		const struct stx__chain *c = &k->users[i].chain->c;
		rank += stx__chain_rank(c);
		if (c->flight.deadline_ms > k->job.deadline_ms)
			k->job.deadline_ms = c->flight.deadline_ms;
	}
	stx__pool_rank(k->s->pool, &k->job, rank);
}

int stx__kernel_job_running(const struct stx__kernel_job *k)
{
	return k->job.process != NULL;
}

static int add_user(struct stx__kernel_job *k, struct stx__compile_chain *c, uint32_t slot)
{
	if (k->nusers == k->cap) {
		uint32_t cap = k->cap ? k->cap * 2 : 2;
		struct user *at = realloc(k->users, cap * sizeof *at);
		if (!at)
			return -1;
		k->users = at;
		k->cap = cap;
	}
	k->users[k->nusers++] = (struct user){ c, slot };
	c->slots[slot].job = k;
	return 0;
}

static stx_err send_kernel(struct stx__job *j, int sock, uint64_t id, struct stx_diag *d)
{
	struct stx__kernel_job *k = job_of(j);
	struct stx_span ir = { k->ir->at, k->ir->n };
	return stx__job_send(k->spec, j->kind, k->config, sock, id, &ir, 1, -1, d);
}

/* Takes the users away, so that nothing they do reaches the job. */
static struct user *detach(struct stx__kernel_job *k, uint32_t *n)
{
	struct user *users = k->users;
	*n = k->nusers;
	for (uint32_t i = 0; i < *n; i++)
		users[i].chain->slots[users[i].slot].job = NULL;
	k->users = NULL;
	k->nusers = k->cap = 0;
	return users;
}

/* The users' chains may end while others are told: each is kept alive by a reference. */
static void hold(struct user *u, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		u[i].chain->refs++;
}

static void release(struct user *u, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		stx__compile_release(u[i].chain);
}

static void succeed(struct stx__kernel_job *k, struct stx__message *m)
{
	const Stx__JobReply *r = m->e->job_reply;
	struct stx__kernel_value v = { stx_jobs_emitted(r), m->body };
	struct stx_bytes b = { 0 };
	struct stx__blob *value = NULL;
	uint32_t n;
	if (!stx__kernel_encode(&v, &b))
		value = stx__blob_copy(b.at, b.n);
	stx_bytes_free(&b);
	k->s->stats.kernels_compiled++;
	if (value)
		stx_cache_kernel_put(k->s->cache, k->spec->ns, &k->store_id,
				     (struct stx_span){ value->at, value->n }, NULL, NULL);
	struct user *users = detach(k, &n);
	free_job(k);
	hold(users, n);
	for (uint32_t i = 0; i < n; i++)
		stx__compile_kernel_done(users[i].chain, users[i].slot, value, i > 0,
					 i ? NULL : r->stages, i ? 0 : r->n_stages);
	release(users, n);
	stx__blob_drop(value);
	free(users);
}

static void fail(struct stx__kernel_job *k, struct stx__outcome *o)
{
	struct stx__server *s = k->s;
	uint32_t n = k->nusers;
	int final = o->fate == STX__FATE_DIAGNOSED &&
		    (stx__failure_is_final(o) || o->diag.code == STX_E_INTERNAL);
	hold(k->users, n);
	stx__chain_reproduce(&k->users[0].chain->c, &k->attempts, o);
	enum stx__next next = stx__failure_route(s, &k->users[0].chain->c.flight, &k->attempts, o);
	if (next == STX__NEXT_RETRY) {
		k->job.fresh = o->fate == STX__FATE_CRASHED;
		stx__kernel_job_changed(k);
		if (!stx__pool_submit(s->pool, &k->job)) {
			release(k->users, n);
			return;
		}
		next = STX__NEXT_END;
	}
	struct user *users = detach(k, &n);
	free_job(k);
	stx__compile_kernel_failed(users[0].chain, next, o);
	for (uint32_t i = 1; i < n; i++) {
		struct stx__compile_chain *c = users[i].chain;
		if (!final)
			stx__compile_kernel_again(c, users[i].slot);
		else if (c != users[0].chain)
			stx__compile_kernel_failed(
				c, stx__failure_route(s, &c->c.flight, &c->c.attempts, o), o);
	}
	release(users, n);
	free(users);
}

static void done(struct stx__job *j, struct stx__outcome *o)
{
	if (o->fate == STX__FATE_OK)
		succeed(job_of(j), o->message);
	else
		fail(job_of(j), o);
}

stx_err stx__kernel_job_join(struct stx__compile_chain *c, uint32_t slot)
{
	struct stx__server *s = c->c.s;
	struct stx__kernel_slot *x = &c->slots[slot];
	const struct stx_kernel_id *kernel = &c->kernels.at[slot];
	struct stx_digest id = stx_key_scoped(c->c.spec->ns, &kernel->id);
	struct stx__kernel_job *k = stx__table_get(&s->kernel_jobs, &id);
	if (k) {
		if (add_user(k, c, slot))
			return STX_E_NOMEM;
		stx__kernel_job_changed(k);
		return STX_E_OK;
	}
	k = calloc(1, sizeof *k);
	if (!k)
		return STX_E_NOMEM;
	k->s = s;
	k->id = id;
	k->store_id = kernel->id;
	k->spec = stx__spec_ref(c->c.spec);
	k->ir = stx__blob_copy(c->pieces[kernel->piece].at, c->pieces[kernel->piece].n);
	k->job.kind = STX__JOB_KIND__JOB_KERNEL;
	k->job.ns = k->spec->ns;
	k->job.send = send_kernel;
	k->job.done = done;
	if (kernel->config)
		k->config = strdup(kernel->config);
	if (!k->ir || (kernel->config && !k->config) || stx__table_set(&s->kernel_jobs, &id, k) ||
	    add_user(k, c, slot)) {
		free_job(k);
		return STX_E_NOMEM;
	}
	stx__kernel_job_changed(k);
	if (stx__pool_submit(s->pool, &k->job)) {
		x->job = NULL;
		free_job(k);
		return STX_E_NOMEM;
	}
	return STX_E_OK;
}

void stx__kernel_job_leave(struct stx__compile_chain *c, uint32_t slot)
{
	struct stx__kernel_job *k = c->slots[slot].job;
	if (!k)
		return;
	c->slots[slot].job = NULL;
	for (uint32_t i = 0; i < k->nusers; i++)
		if (k->users[i].chain == c && k->users[i].slot == slot) {
			memmove(&k->users[i], &k->users[i + 1],
				(k->nusers - i - 1) * sizeof *k->users);
			k->nusers--;
			break;
		}
	if (k->nusers) {
		stx__kernel_job_changed(k);
		return;
	}
	stx__pool_cancel(k->s->pool, &k->job);
	free_job(k);
}
