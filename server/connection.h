/* connection.h
 * one client: reads frames in slices, writes replies, keeps to its budgets. */
#ifndef STX_CONNECTION_H
#define STX_CONNECTION_H

#include "frame.h"
#include "request.h"
#include "server.h"

struct stx__out;

/* A fetch that waits for the disk: knows its connection until that closes. */
struct stx__fetch_ref {
	struct stx__conn *conn; /* NULL: gone */
	struct stx__fetch_ref *next, *prev;
};

enum stx__conn_state { STX__CONN_HEADER, STX__CONN_BODY };

struct stx__conn {
	struct stx__conn *next, *prev;
	struct stx__server *s;
	int fd;
	int own_user; /* the peer is the daemon's own user */
	uv_poll_t poll;
	int events;      /* polled for */
	int closing;     /* uv_close called */
	int close_after; /* when everything is written */
	int corked;      /* replies are collected and written at once */

	/* input */
	enum stx__conn_state state;
	struct stx_bytes in;   /* an incomplete prefix or header */
	struct stx_bytes held; /* read, not yet looked at: the client does not read its replies */
	Stx__Envelope *e;      /* of the frame whose body arrives */
	uint32_t body_left, body_bytes, charged_bytes;
	int body_fd, discard;
	struct stx_hasher *hasher;
	uint64_t progress_ms; /* last byte of input that mattered, or first byte of a header */
	uint64_t body_since_ms;
	uint64_t request_ms; /* last request */

	/* output */
	struct stx__out *first, *last;
	uint64_t out_bytes, out_reserved; /* queued; promised (fetches) */
	uint64_t written_ms;

	struct stx__fetch_ref *fetches;
	struct stx__pending *pendings;
	uint32_t npending;
	uint64_t received; /* charged bytes of pending requests */
};

/* Takes fd (non-blocking is set here). own_user: may see worker pids. */
stx_err stx__conn_new(struct stx__server *s, int fd, int own_user);
/* Frees it in a later turn of the loop; its requests leave their flights. */
void stx__conn_close(struct stx__conn *c);
/* Timeouts. */
void stx__conns_tick(struct stx__server *s, uint64_t now_ms);

/* Replies. On any failure the connection is closed. */
void stx__conn_send(struct stx__conn *c, const Stx__Envelope *e, struct stx__blob *body);
void stx__conn_answer(struct stx__conn *c, uint64_t request_id, struct stx__blob *answer,
		      const uint8_t *tail, size_t ntail);
void stx__conn_error(struct stx__conn *c, uint64_t request_id, const struct stx_diag *d);
/* A promised reply of so many bytes counts against the client until it is sent or given up. */
void stx__conn_reserve(struct stx__conn *c, int64_t bytes);
/* What all clients together have not read yet, or are promised and is being fetched, grows. */
void stx__conn_unsent(struct stx__server *s, int64_t bytes);
/* A request has ended: input that waited for that may go on. */
void stx__conn_resume(struct stx__conn *c);

/* service.c: hello, ping, stats; anything else is refused. */
void stx__service_frame(struct stx__conn *c, const Stx__Envelope *e);

/* fetch.c */
void stx__fetch(struct stx__conn *c, const Stx__Envelope *e);
void stx__fetch_next(struct stx__server *s); /* starts fetches that waited for room */
void stx__fetch_end(struct stx__server *s);  /* frees those that wait; connections are closed */
void stx__fetch_link(struct stx__conn *c, struct stx__fetch_ref *f);
void stx__fetch_unlink(struct stx__fetch_ref *f); /* conn becomes NULL */

#endif
