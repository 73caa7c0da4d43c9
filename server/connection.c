/* connection.c: reading frames in slices, writing replies. */
#include "connection.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "log.h"
#include "memfd.h"

#define WRITE_PIECES      64
#define ERROR_ID_NONE     0
#define BODY_BYTES_PER_MS 16   /* a body that arrives more slowly is given up */
#define VALUE_BYTES       128u /* of a given value unpacked, beside its bytes */
#define SPARE_DESCRIPTORS 256u /* never taken by bodies */

/* One queued reply: head, a shared middle, tail. */
struct stx__out {
	struct stx__out *next;
	struct stx__blob *mid; /* may be NULL */
	size_t sent, total;
	uint8_t nhead, ntail;
	uint8_t head[72], tail[48];
};

static void on_ready(uv_poll_t *h, int status, int events);
static void consume(struct stx__conn *c, const uint8_t *p, size_t n);

/* ---- what to wait for ---- */

/* A client that does not read its replies, or has too much under way, is not read; nor is one with
 * any reply unread while all of them together leave too much so. It goes on when it has read its
 * own, so nobody has to be woken when others have. */
static int halted(const struct stx__conn *c)
{
	if (c->first && c->s->unsent_bytes > c->s->cfg.total_unsent)
		return 1;
	return c->out_bytes + c->out_reserved > c->s->cfg.connection_unsent ||
	       c->npending >= c->s->cfg.connection_requests || c->close_after;
}

static void update_events(struct stx__conn *c)
{
	int stop = halted(c);
	/* Held input goes on in a turn of its own, which a writable socket gives. */
	int want = (stop || c->held.n ? 0 : UV_READABLE) |
		   (c->first || (c->held.n && !stop) ? UV_WRITABLE : 0) | UV_DISCONNECT;
	if (c->closing || want == c->events)
		return;
	c->events = want;
	if (uv_poll_start(&c->poll, want, on_ready))
		stx__conn_close(c);
}

/* ---- output ---- */

void stx__conn_unsent(struct stx__server *s, int64_t bytes)
{
	s->unsent_bytes += (uint64_t)bytes;
	if (bytes < 0)
		stx__fetch_next(s);
}

static void drop_out(struct stx__conn *c)
{
	struct stx__out *o = c->first;
	c->first = o->next;
	if (!c->first)
		c->last = NULL;
	c->out_bytes -= o->total;
	stx__conn_unsent(c->s, -(int64_t)o->total);
	stx__blob_drop(o->mid);
	free(o);
}

static int gather(const struct stx__out *o, struct iovec *v)
{
	struct {
		const uint8_t *at;
		size_t n;
	} parts[3] = { { o->head, o->nhead },
		       { o->mid ? o->mid->at : NULL, o->mid ? o->mid->n : 0 },
		       { o->tail, o->ntail } };
	size_t skip = o->sent;
	int n = 0;
	for (int i = 0; i < 3; i++) {
		if (skip >= parts[i].n) {
			skip -= parts[i].n;
			continue;
		}
		v[n].iov_base = (void *)(parts[i].at + skip);
		v[n++].iov_len = parts[i].n - skip;
		skip = 0;
	}
	return n;
}

static void flush(struct stx__conn *c)
{
	while (c->first && !c->closing) {
		struct iovec v[WRITE_PIECES + 3];
		int n = 0;
		for (struct stx__out *o = c->first; o && n < WRITE_PIECES; o = o->next)
			n += gather(o, v + n);
		ssize_t w = writev(c->fd, v, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EAGAIN)
			break;
		if (w < 0) {
			stx__conn_close(c);
			return;
		}
		c->s->stats.bytes_out += (uint64_t)w;
		c->written_ms = stx__now_ms(c->s);
		size_t left = (size_t)w;
		while (c->first && left >= c->first->total - c->first->sent) {
			left -= c->first->total - c->first->sent;
			drop_out(c);
		}
		if (c->first)
			c->first->sent += left;
	}
	if (!c->first && c->close_after)
		stx__conn_close(c);
}

static void queue_out(struct stx__conn *c, struct stx__out *o)
{
	o->total = o->nhead + (o->mid ? o->mid->n : 0) + o->ntail;
	if (!c->first)
		c->written_ms = stx__now_ms(c->s);
	*(c->last ? &c->last->next : &c->first) = o;
	c->last = o;
	c->out_bytes += o->total;
	stx__conn_unsent(c->s, (int64_t)o->total);
}

static void push_out(struct stx__conn *c)
{
	if (c->corked)
		return;
	flush(c);
	update_events(c);
}

static struct stx__out *new_out(struct stx__conn *c)
{
	struct stx__out *o = c->closing ? NULL : calloc(1, sizeof *o);
	if (!o)
		stx__conn_close(c);
	return o;
}

void stx__conn_send(struct stx__conn *c, const Stx__Envelope *e, struct stx__blob *body)
{
	struct stx_bytes b = { 0 };
	struct stx__out *o = new_out(c), *o2 = NULL;
	if (!o)
		return;
	if (body && !(o2 = new_out(c))) {
		free(o);
		return;
	}
	stx_err err = stx_frame_pack_reply(e, body ? (uint32_t)body->n : 0, &b);
	o->mid = err ? NULL : stx__blob_copy(b.at, b.n);
	stx_bytes_free(&b);
	if (!o->mid) {
		free(o);
		free(o2);
		stx__conn_close(c);
		return;
	}
	queue_out(c, o);
	if (o2) {
		o2->mid = stx__blob_ref(body);
		queue_out(c, o2);
	}
	push_out(c);
}

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		*p++ = (uint8_t)(v | 0x80);
	*p++ = (uint8_t)v;
	return p;
}

enum {
	TAG_REQUEST_ID = 1 << 3,
	TAG_ANSWER = 6 << 3 | 2,
	TAG_SPILL = 18 << 3 | 2,
	TAG_SPILL_BYTES = 1 << 3
};

/* The Envelope is written by hand around the packed Answer, so that a hit neither packs nor copies
 * it. */
void stx__conn_answer(struct stx__conn *c, uint64_t request_id, struct stx__blob *answer,
		      const uint8_t *tail, size_t ntail)
{
	struct stx__out *o = new_out(c);
	if (!o)
		return;
	uint8_t inner[32], *p = inner;
	*p++ = TAG_REQUEST_ID;
	p = put_varint(p, request_id);
	*p++ = TAG_ANSWER;
	p = put_varint(p, answer->n + ntail);
	size_t ninner = (size_t)(p - inner), n = ninner + answer->n + ntail;
	uint8_t *h = o->head + STX_FRAME_PREFIX;
	if (n <= STX_FRAME_HEADER_MAX) {
		stx_store_u32(o->head, (uint32_t)n);
		stx_store_u32(o->head + 4, 0);
	} else if (n <= STX_FRAME_SPILL_MAX) {
		uint8_t size[8];
		size_t nsize = (size_t)(put_varint(size, n) - size);
		*h++ = TAG_REQUEST_ID;
		h = put_varint(h, request_id);
		h = put_varint(h, TAG_SPILL);
		h = put_varint(h, nsize + 1);
		*h++ = TAG_SPILL_BYTES;
		memcpy(h, size, nsize);
		h += nsize;
		stx_store_u32(o->head, (uint32_t)(h - o->head - STX_FRAME_PREFIX));
		stx_store_u32(o->head + 4, (uint32_t)n);
	} else {
		struct stx_diag d = { 0 };
		free(o);
		stx_fail(&d, STX_E_TOO_LARGE, "reply", "", "a reply over the limit of %u bytes",
			 STX_FRAME_SPILL_MAX);
		stx__conn_error(c, request_id, &d);
		return;
	}
	memcpy(h, inner, ninner);
	o->nhead = (uint8_t)(h + ninner - o->head);
	o->mid = stx__blob_ref(answer);
	o->ntail = (uint8_t)ntail;
	memcpy(o->tail, tail, ntail);
	queue_out(c, o);
	push_out(c);
}

void stx__conn_error(struct stx__conn *c, uint64_t request_id, const struct stx_diag *d)
{
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Error error;
	stx_error_from_diag(&error, d);
	e.request_id = request_id;
	e.msg_case = STX__ENVELOPE__MSG_ERROR;
	e.error = &error;
	c->s->stats.failures++;
	stx__conn_send(c, &e, NULL);
}

void stx__conn_reserve(struct stx__conn *c, int64_t bytes)
{
	c->out_reserved += (uint64_t)bytes;
	stx__conn_resume(c);
}

void stx__conn_resume(struct stx__conn *c)
{
	if (!c->corked)
		update_events(c);
}

/* ---- input ---- */

/* The stream cannot be read on: say why, then close. */
static void protocol_error(struct stx__conn *c, uint64_t request_id, const struct stx_diag *d)
{
	c->s->stats.protocol_errors++;
	c->close_after = 1;
	stx__conn_error(c, request_id, d);
}

static void reset_body(struct stx__conn *c)
{
	if (c->body_fd >= 0)
		close(c->body_fd);
	c->body_fd = -1;
	stx_hasher_drop(c->hasher);
	c->hasher = NULL;
	stx__envelope__free_unpacked(c->e, NULL);
	c->e = NULL;
	c->discard = 0;
	c->state = STX__CONN_HEADER;
}

/* A memfd for a body; -1 with a diagnostic. Connections, workers and the store keep descriptors of
 * their own: bodies may take at most half of them, or all but what the rest can need. */
static int new_body(const struct stx__server *s, struct stx_diag *d)
{
	struct rlimit r;
	int fd = stx__memfd_new("stax-graph");
	if (fd < 0) {
		stx_fail(d, STX_E_NOMEM, "frame", "", "no memory for the body");
		return -1;
	}
	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == RLIM_INFINITY)
		return fd;
	uint64_t rest = s->cfg.connections + SPARE_DESCRIPTORS, half = r.rlim_cur / 2;
	uint64_t most = r.rlim_cur > rest && r.rlim_cur - rest > half ? r.rlim_cur - rest : half;
	if ((uint64_t)fd < most) /* the lowest number that is free: how many are in use */
		return fd;
	close(fd);
	stx_fail(d, STX_E_BUSY, "frame", "",
		 "the unanswered requests of all clients hold too many descriptors");
	return -1;
}

/* A body is announced: keep it in a memfd, unless a budget says no; then it is read and dropped. */
static void start_body(struct stx__conn *c)
{
	struct stx__server *s = c->s;
	struct stx_diag d = { 0 };
	int wanted = c->e->msg_case == STX__ENVELOPE__MSG_COMPILE;
	c->state = STX__CONN_BODY;
	c->body_left = c->body_bytes;
	c->body_since_ms = c->progress_ms = stx__now_ms(s);
	if (!wanted)
		stx_fail(&d, STX_E_PROTOCOL, "frame", "", "a body where none belongs");
	else if (c->received + c->charged_bytes > s->cfg.connection_received)
		stx_fail(&d, STX_E_BUSY, "frame", "",
			 "the unanswered requests of this connection exceed connection_received = "
			 "%lluMiB",
			 (unsigned long long)(s->cfg.connection_received >> 20));
	else if (s->received_bytes + c->charged_bytes > s->cfg.total_received)
		stx_fail(&d, STX_E_BUSY, "frame", "",
			 "the unanswered requests of all clients exceed total_received = %lluMiB",
			 (unsigned long long)(s->cfg.total_received >> 20));
	else if (!(c->hasher = stx_hasher_new()))
		stx_fail(&d, STX_E_NOMEM, "frame", "", "no memory for the body");
	else
		c->body_fd = new_body(s, &d);
	if (d.code) {
		s->stats.refused++;
		c->discard = 1;
		stx__conn_error(c, c->e->request_id, &d);
		return;
	}
	s->received_bytes += c->charged_bytes; /* given back with the spec, or in abandon_body */
}

static void abandon_body(struct stx__conn *c)
{
	if (c->state == STX__CONN_BODY && c->body_fd >= 0)
		c->s->received_bytes -= c->charged_bytes;
	reset_body(c);
}

static void finish_body(struct stx__conn *c)
{
	if (c->discard) {
		reset_body(c);
		return;
	}
	struct stx_digest body = stx_hasher_final(c->hasher);
	Stx__Envelope *e = c->e;
	int fd = c->body_fd;
	c->hasher = NULL;
	c->e = NULL;
	c->body_fd = -1;
	c->state = STX__CONN_HEADER;
	if (stx__memfd_seal(fd)) {
		close(fd);
		c->s->received_bytes -= c->charged_bytes;
		stx__envelope__free_unpacked(e, NULL);
		stx__conn_close(c);
		return;
	}
	stx__request_frame(c, e, fd, c->charged_bytes, &body);
}

static void take_body(struct stx__conn *c, const uint8_t *p, size_t n)
{
	if (!c->discard) {
		stx_hasher_update(c->hasher, p, n);
		if (stx__memfd_write(c->body_fd, p, n)) {
			struct stx_diag d = { 0 };
			stx_fail(&d, STX_E_NOMEM, "frame", "", "no memory for the body");
			stx__conn_error(c, c->e->request_id, &d);
			c->s->received_bytes -= c->charged_bytes;
			close(c->body_fd);
			c->body_fd = -1;
			c->discard = 1;
		}
	}
	c->body_left -= (uint32_t)n;
	if (!c->body_left)
		finish_body(c);
}

/* A whole header. */
static void take_header(struct stx__conn *c, struct stx_span header, uint32_t body_bytes)
{
	struct stx_diag d = { 0 };
	Stx__Envelope *e;
	if (stx_frame_unpack(header, &e, &d)) {
		protocol_error(c, ERROR_ID_NONE, &d);
		return;
	}
	c->request_ms = stx__now_ms(c->s);
	if (body_bytes) {
		c->e = e;
		c->body_bytes = body_bytes;
		c->charged_bytes = body_bytes + (uint32_t)header.n;
		if (e->msg_case == STX__ENVELOPE__MSG_COMPILE && e->compile->what)
			c->charged_bytes += (uint32_t)e->compile->what->n_values * VALUE_BYTES;
		start_body(c);
	} else {
		struct stx_digest none = { { 0 } };
		stx__request_frame(c, e, -1, 0, &none);
	}
}

/* Looks at bytes that begin with a prefix. Returns how many it used; 0: more are needed. */
static size_t take_frame_start(struct stx__conn *c, const uint8_t *p, size_t n)
{
	uint32_t header, body;
	struct stx_diag d = { 0 };
	if (n < STX_FRAME_PREFIX)
		return 0;
	if (stx_frame_prefix(p, &header, &body, &d)) {
		protocol_error(c, ERROR_ID_NONE, &d);
		return 0;
	}
	if (n < STX_FRAME_PREFIX + header)
		return 0;
	take_header(c, (struct stx_span){ p + STX_FRAME_PREFIX, header }, body);
	return STX_FRAME_PREFIX + header;
}

/* An incomplete header from before goes first: completes it with as little copying as possible. */
static size_t complete_header(struct stx__conn *c, const uint8_t *p, size_t n)
{
	size_t before = c->in.n, want = STX_FRAME_PREFIX;
	if (before >= STX_FRAME_PREFIX)
		want += stx_load_u32(c->in.at);
	size_t take = want - before < n ? want - before : n;
	if (stx_bytes_put(&c->in, p, take)) {
		stx__conn_close(c);
		return n;
	}
	if (c->in.n < want)
		return take;
	size_t used = take_frame_start(c, c->in.at, c->in.n);
	if (used)
		stx_bytes_clear(&c->in);
	return take;
}

static size_t consume_some(struct stx__conn *c, const uint8_t *p, size_t n)
{
	if (c->state == STX__CONN_BODY) {
		size_t take = n < c->body_left ? n : c->body_left;
		take_body(c, p, take);
		return take;
	}
	if (c->in.n)
		return complete_header(c, p, n);
	size_t used = take_frame_start(c, p, n);
	if (used || c->close_after || c->closing)
		return used ? used : n;
	if (stx_bytes_put(&c->in, p, n))
		stx__conn_close(c);
	c->progress_ms = stx__now_ms(c->s);
	return n;
}

/* Uses what it may; the rest waits in `held` until the client has read its replies. */
static void consume(struct stx__conn *c, const uint8_t *p, size_t n)
{
	c->corked = 1;
	while (n && !c->closing && !c->close_after) {
		if (halted(c) && c->state == STX__CONN_HEADER) {
			if (stx_bytes_put(&c->held, p, n))
				stx__conn_close(c);
			break;
		}
		size_t used = consume_some(c, p, n);
		p += used;
		n -= used;
	}
	c->corked = 0;
	if (!c->closing)
		flush(c);
}

static void consume_held(struct stx__conn *c)
{
	while (c->held.n && !halted(c) && !c->closing) {
		struct stx_bytes held = c->held;
		c->held = (struct stx_bytes){ 0 };
		consume(c, held.at, held.n);
		stx_bytes_free(&held);
	}
}

static void read_slice(struct stx__conn *c)
{
	ssize_t n = recv(c->fd, c->s->scratch, STX__SLICE_BYTES, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		stx__conn_close(c);
		return;
	}
	c->s->stats.bytes_in += (uint64_t)n;
	if (c->state == STX__CONN_BODY)
		c->progress_ms = stx__now_ms(c->s);
	consume(c, c->s->scratch, (size_t)n);
}

static void on_ready(uv_poll_t *h, int status, int events)
{
	struct stx__conn *c = h->data;
	if (c->closing)
		return;
	if (status < 0) {
		stx__conn_close(c);
		return;
	}
	if (events & UV_WRITABLE)
		flush(c);
	if (!c->closing && c->held.n)
		consume_held(c);
	if (!c->closing && (events & UV_READABLE) && !halted(c) && !c->held.n)
		read_slice(c);
	else if (!c->closing && (events & UV_DISCONNECT) && !(c->events & UV_READABLE))
		stx__conn_close(c);
	update_events(c);
}

/* ---- life ---- */

stx_err stx__conn_new(struct stx__server *s, int fd, int own_user)
{
	struct stx__conn *c = calloc(1, sizeof *c);
	if (!c || fcntl(fd, F_SETFL, O_NONBLOCK) || uv_poll_init(s->loop, &c->poll, fd)) {
		free(c);
		close(fd);
		return STX_E_NOMEM;
	}
	c->s = s;
	c->fd = fd;
	c->own_user = own_user;
	c->body_fd = -1;
	c->poll.data = c;
	c->request_ms = c->progress_ms = stx__now_ms(s);
	c->next = s->conns;
	if (s->conns)
		s->conns->prev = c;
	s->conns = c;
	s->nconns++;
	s->stats.accepted++;
	update_events(c);
	return STX_E_OK;
}

static void on_closed(uv_handle_t *h)
{
	struct stx__conn *c = h->data;
	struct stx__server *s = c->s;
	while (c->pendings)
		stx__request_abandon(c->pendings);
	while (c->fetches)
		stx__fetch_unlink(c->fetches);
	while (c->first)
		drop_out(c);
	abandon_body(c);
	stx_bytes_free(&c->in);
	stx_bytes_free(&c->held);
	close(c->fd);
	*(c->prev ? &c->prev->next : &s->conns) = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->nconns--;
	s->last_active_ms = stx__now_ms(s);
	free(c);
}

void stx__conn_close(struct stx__conn *c)
{
	if (c->closing)
		return;
	c->closing = 1;
	uv_close((uv_handle_t *)&c->poll, on_closed);
}

void stx__conns_tick(struct stx__server *s, uint64_t now_ms)
{
	for (struct stx__conn *c = s->conns, *next; c; c = next) {
		next = c->next;
		const struct stx_config *f = &s->cfg;
		int header = c->in.n && now_ms - c->progress_ms > f->header_timeout;
		int body = c->state == STX__CONN_BODY &&
			   (now_ms - c->progress_ms > f->stall_timeout ||
			    now_ms - c->body_since_ms >
				    f->stall_timeout + c->body_bytes / BODY_BYTES_PER_MS);
		int unread = c->first && now_ms - c->written_ms > f->stall_timeout;
		int idle = !c->npending && !c->first && now_ms - c->request_ms > f->idle_timeout;
		if (header || body || unread || idle)
			stx__conn_close(c);
	}
}
