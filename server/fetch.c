/* fetch.c: sending an artifact by digest. */
#include <stdio.h>
#include <stdlib.h>

#include "connection.h"

/* Under way; outlives its connection. */
struct stx__fetch {
	struct stx__fetch_ref ref; /* first member */
	struct stx__server *s;
	uint64_t request_id;
	struct stx_digest digest;
	uint64_t size_bytes;
	char ns[STX__NS_MAX + 1];
	struct stx__fetch *next; /* that waits for room */
};

void stx__fetch_link(struct stx__conn *c, struct stx__fetch_ref *f)
{
	f->conn = c;
	f->prev = NULL;
	f->next = c->fetches;
	if (f->next)
		f->next->prev = f;
	c->fetches = f;
}

void stx__fetch_unlink(struct stx__fetch_ref *f)
{
	*(f->prev ? &f->prev->next : &f->conn->fetches) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	f->conn = NULL;
}

static void send_artifact(struct stx__conn *c, uint64_t id, const struct stx_digest *digest,
			  struct stx__blob *bytes)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__FetchReply r = STX__FETCH_REPLY__INIT;
	e.request_id = id;
	e.msg_case = STX__ENVELOPE__MSG_FETCH_REPLY;
	e.fetch_reply = &r;
	r.digest = (ProtobufCBinaryData){ STX_DIGEST_BYTES, (uint8_t *)digest->b };
	r.size_bytes = bytes->n;
	c->s->stats.fetches++;
	stx__conn_send(c, &e, bytes);
}

static void not_found(struct stx__conn *c, uint64_t id, stx_err code, const char *text)
{
	struct stx_diag d = { 0 };
	stx_fail(&d, code, "fetch", "", "%s", text);
	stx__conn_error(c, id, &d);
}

static void on_read(void *ctx, stx_err e, struct stx_span contents)
{
	struct stx__fetch *f = ctx;
	struct stx__conn *c = f->ref.conn;
	if (c) {
		struct stx__blob *b = e ? NULL : stx__blob_copy(contents.at, contents.n);
		stx__fetch_unlink(&f->ref);
		if (b)
			send_artifact(c, f->request_id, &f->digest, b);
		else
			not_found(c, f->request_id, e ? e : STX_E_NOMEM,
				  "reading the artifact from the store");
		stx__conn_reserve(c, -(int64_t)f->size_bytes);
		stx__blob_drop(b);
	}
	struct stx__server *s = f->s;
	int64_t bytes = (int64_t)f->size_bytes;
	free(f);
	stx__conn_unsent(s, -bytes);
}

/* One after another when the unread replies of all clients leave no room for more. */
void stx__fetch_next(struct stx__server *s)
{
	struct stx__fetch *f;
	if (s->fetching) /* what a read that fails at once comes back to */
		return;
	s->fetching = 1;
	while ((f = s->fetch_first) && s->cache &&
	       (!s->unsent_bytes || s->unsent_bytes + f->size_bytes <= s->cfg.total_unsent)) {
		s->fetch_first = f->next;
		if (!f->next)
			s->fetch_last = NULL;
		if (!f->ref.conn) { /* it has left */
			free(f);
			continue;
		}
		s->unsent_bytes += f->size_bytes;
		stx_cache_read(s->cache, f->ns, &f->digest, on_read, f);
	}
	s->fetching = 0;
}

void stx__fetch_end(struct stx__server *s)
{
	while (s->fetch_first) {
		struct stx__fetch *f = s->fetch_first;
		s->fetch_first = f->next;
		free(f);
	}
}

void stx__fetch(struct stx__conn *c, const Stx__Envelope *e)
{
	struct stx_cache_artifact a;
	struct stx_digest digest;
	const Stx__Fetch *q = e->fetch;
	const char *ns = q->ns[0] ? q->ns : "default";
	if (q->digest.len != STX_DIGEST_BYTES) {
		not_found(c, e->request_id, STX_E_PROTOCOL, "a fetch needs a digest of 32 bytes");
		return;
	}
	memcpy(digest.b, q->digest.data, STX_DIGEST_BYTES);
	struct stx__blob *kept = stx__unstored_find(c->s, ns, &digest);
	if (kept) {
		send_artifact(c, e->request_id, &digest, kept);
		return;
	}
	if (!stx_cache_find_digest(c->s->cache, ns, &digest, &a) ||
	    a.size_bytes > STX_FRAME_BODY_MAX) {
		not_found(c, e->request_id, STX_E_NOT_FOUND,
			  "no artifact of this digest in the namespace");
		return;
	}
	struct stx__fetch *f = calloc(1, sizeof *f);
	if (!f) {
		stx__conn_close(c);
		return;
	}
	f->s = c->s;
	snprintf(f->ns, sizeof f->ns, "%s", ns);
	f->request_id = e->request_id;
	f->digest = digest;
	f->size_bytes = a.size_bytes;
	stx__fetch_link(c, &f->ref);
	stx__conn_reserve(c, (int64_t)f->size_bytes);
	*(c->s->fetch_last ? &c->s->fetch_last->next : &c->s->fetch_first) = f;
	c->s->fetch_last = f;
	stx__fetch_next(c->s);
}
