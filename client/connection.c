/* connection.c: a connection to staxd and one round trip over it. Blocking sockets, deadlines by
 * poll. A connection that is lost in the middle of a request is opened again and the request
 * repeated. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "frame.h"

#define RETRIES             3
#define BACKOFF_MS          50 /* doubles each time, with jitter */
#define CONNECT_TIMEOUT_MS  5000
#define HELLO_TIMEOUT_MS    10000
#define TCP_USER_TIMEOUT_MS 30000 /* unacknowledged data: the peer or the network is gone */

/* ---- raw bytes ---- */

/* Waits for events; 1 ready, 0 deadline, -1 error. */
static int wait_for(int fd, short events, uint64_t deadline_ns)
{
	for (;;) {
		int ms = -1;
		if (deadline_ns) {
			uint64_t now = stx_clock_ns();
			if (now >= deadline_ns)
				return 0;
			uint64_t left = (deadline_ns - now + 999999) / 1000000;
			ms = left > 3600000 ? 3600000 : (int)left;
		}
		struct pollfd p = { fd, events, 0 };
		int n = poll(&p, 1, ms);
		if (n > 0)
			return 1;
		if (n < 0 && errno != EINTR)
			return -1;
	}
}

static stx_err lost(struct stx_diag *d, const char *why)
{
	return stx_fail(d, STX_E_CONNECT, "connect", "", "the connection was lost: %s", why);
}

static stx_err late(struct stx_diag *d)
{
	return stx_fail(d, STX_E_DEADLINE, "connect", "", "the server did not answer in time");
}

static stx_err send_all(int fd, const void *p, size_t n, uint64_t deadline, struct stx_diag *d)
{
	while (n) {
		ssize_t w = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			int r = wait_for(fd, POLLOUT, deadline);
			if (r <= 0)
				return r ? lost(d, strerror(errno)) : late(d);
			continue;
		}
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return lost(d, strerror(errno));
		p = (const char *)p + w;
		n -= (size_t)w;
	}
	return STX_E_OK;
}

static stx_err receive_all(int fd, void *p, size_t n, uint64_t deadline, struct stx_diag *d)
{
	while (n) {
		ssize_t r = recv(fd, p, n, MSG_DONTWAIT);
		if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			int w = wait_for(fd, POLLIN, deadline);
			if (w <= 0)
				return w ? lost(d, strerror(errno)) : late(d);
			continue;
		}
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return lost(d, r ? strerror(errno) : "the server closed it");
		p = (char *)p + r;
		n -= (size_t)r;
	}
	return STX_E_OK;
}

/* ---- frames ---- */

void stx__received_free(struct stx__received *r)
{
	if (r->e)
		stx__envelope__free_unpacked(r->e, NULL);
	free(r->raw);
	if (r->map.n)
		munmap((void *)(uintptr_t)r->map.at, r->map.n);
	memset(r, 0, sizeof *r);
}

static stx_err send_frame(int fd, const Stx__Envelope *m, struct stx_span body, uint64_t deadline,
			  struct stx_diag *d)
{
	struct stx_bytes head = { 0 };
	if (body.n > STX_FRAME_BODY_MAX)
		return stx_fail(d, STX_E_TOO_LARGE, "connect", "",
				"the graph has %zu bytes, the limit is %u", body.n,
				STX_FRAME_BODY_MAX);
	stx_err e = stx_frame_pack(m, (uint32_t)body.n, &head);
	if (!e && head.n > STX_FRAME_HEADER_MAX + STX_FRAME_PREFIX)
		e = STX_E_TOO_LARGE;
	if (e)
		stx_fail(d, e, "connect", "",
			 "the values given with the request are too large: %u bytes "
			 "in all",
			 STX_FRAME_HEADER_MAX);
	else if (!(e = send_all(fd, head.at, head.n, deadline, d)) && body.n)
		e = send_all(fd, body.at, body.n, deadline, d);
	stx_bytes_free(&head);
	return e;
}

static stx_err receive_frame(int fd, struct stx__received *r, uint64_t deadline, struct stx_diag *d)
{
	uint8_t prefix[STX_FRAME_PREFIX];
	uint32_t head, body;
	size_t spilled = 0;
	memset(r, 0, sizeof *r);
	stx_err e = receive_all(fd, prefix, sizeof prefix, deadline, d);
	if (e || (e = stx_frame_prefix(prefix, &head, &body, d)))
		return e;
	uint8_t *header = malloc(head ? head : 1);
	r->raw = malloc(body ? body : 1);
	if (!header || !r->raw)
		e = stx_fail(d, STX_E_NOMEM, "connect", "", "out of memory");
	else if (!(e = receive_all(fd, header, head, deadline, d)) &&
		 !(e = receive_all(fd, r->raw, body, deadline, d)))
		e = stx_frame_unpack_reply((struct stx_span){ header, head },
					   (struct stx_span){ r->raw, body }, &r->e, &spilled, d);
	free(header);
	if (!e)
		r->body = (struct stx_span){ r->raw + spilled, body - spilled };
	if (e)
		stx__received_free(r);
	return e;
}

/* ---- connecting ---- */

/* Connects without blocking longer than the deadline; closes fd on failure. */
static int finish_connect(int fd, const struct sockaddr *sa, socklen_t n, uint64_t deadline)
{
	int error = 0;
	socklen_t len = sizeof error;
	if (!connect(fd, sa, n))
		return fd;
	if (errno == EINPROGRESS || errno == EAGAIN) {
		if (wait_for(fd, POLLOUT, deadline) <= 0)
			error = ETIMEDOUT;
		else
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
		if (!error)
			return fd;
		errno = error;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int open_unix(const char *path, uint64_t deadline)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	memcpy(sa.sun_path, path, strlen(path) + 1); /* checked by stx__server_parse */
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? -1 : finish_connect(fd, (struct sockaddr *)&sa, sizeof sa, deadline);
}

#define UNRESOLVED (-2)

/* A descriptor, UNRESOLVED and d, or -1 and errno. */
static int open_tcp(const char *host, const char *port, uint64_t deadline, struct stx_diag *d)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	int fd = -1, on = 1, timeout = TCP_USER_TIMEOUT_MS;
	int unresolved = getaddrinfo(host, port, &hints, &list);
	if (unresolved) {
		stx_fail(d, STX_E_CONNECT, "connect", "",
			 "cannot connect to tcp:%s:%s: the host's address is not known: %s", host,
			 port, gai_strerror(unresolved));
		return UNRESOLVED;
	}
	for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			    a->ai_protocol);
		if (fd >= 0)
			fd = finish_connect(fd, a->ai_addr, a->ai_addrlen, deadline);
	}
	freeaddrinfo(list);
	if (fd >= 0) {
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
		setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout, sizeof timeout);
	}
	return fd;
}

static stx_err reply_error(const Stx__Envelope *m, struct stx_diag *d)
{
	struct stx_diag theirs;
	stx__diag_init(&theirs);
	stx_error_to_diag(m->error, &theirs);
	if (!theirs.code)
		theirs.code = STX_E_PROTOCOL;
	if (d && !d->code)
		*d = theirs;
	return theirs.code;
}

static stx_err say_hello(struct stax_client *c, struct stx_diag *d)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Hello h = STX__HELLO__INIT;
	struct stx__received r;
	uint64_t deadline = stx_clock_ns() + HELLO_TIMEOUT_MS * 1000000ull;
	h.version_min = h.version_max = STX_PROTOCOL_VERSION;
	h.client = (char *)(uintptr_t) "stax " STX_VERSION;
	m.msg_case = STX__ENVELOPE__MSG_HELLO;
	m.hello = &h;
	m.request_id = ++c->next_id;
	stx_err e = send_frame(c->fd, &m, (struct stx_span){ NULL, 0 }, deadline, d);
	if (e || (e = receive_frame(c->fd, &r, deadline, d)))
		return e;
	if (r.e->msg_case == STX__ENVELOPE__MSG_ERROR)
		e = reply_error(r.e, d);
	else if (r.e->msg_case != STX__ENVELOPE__MSG_HELLO_REPLY)
		e = stx_fail(d, STX_E_PROTOCOL, "connect", "",
			     "the server does not speak this protocol");
	else if (r.e->hello_reply->version != STX_PROTOCOL_VERSION)
		e = stx_fail(
			d, STX_E_VERSION, "connect", "",
			"server '%s' speaks protocol %u, this client %u: install matching versions",
			r.e->hello_reply->server, r.e->hello_reply->version, STX_PROTOCOL_VERSION);
	else
		c->version = r.e->hello_reply->version;
	stx__received_free(&r);
	return e;
}

static void hang_up(struct stax_client *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static stx_err open_connection(struct stax_client *c, struct stx_diag *d)
{
	uint64_t deadline = stx_clock_ns() + CONNECT_TIMEOUT_MS * 1000000ull;
	c->fd = c->at.kind == STX__UNIX ? open_unix(c->at.path, deadline)
					: open_tcp(c->at.host, c->at.port, deadline, d);
	if (c->fd == UNRESOLVED)
		return STX_E_CONNECT;
	if (c->fd < 0) {
		int denied = errno == EACCES || errno == EPERM;
		return stx_fail(d, denied ? STX_E_DENIED : STX_E_CONNECT, "connect", "",
				"cannot connect to %s: %s%s", c->at.text, strerror(errno),
				denied ? "" : " (start staxd there, or set STAX_SERVER=none)");
	}
	stx_err e = say_hello(c, d);
	if (e)
		hang_up(c);
	return e;
}

int stax_connect(const char *server, struct stax_client **out, struct stax_error *err)
{
	struct stx_diag d;
	char text[256];
	stx__diag_init(&d);
	*out = NULL;
	if (!server) {
		int e = stax_default_server(text, sizeof text, NULL, err);
		if (e)
			return e;
		server = text;
	}
	struct stax_client *c = calloc(1, sizeof *c);
	if (!c)
		return stx__give_error(stx_fail(&d, STX_E_NOMEM, "connect", "", "out of memory"),
				       &d, err);
	c->fd = -1;
	stx_err e = stx__server_parse(server, &c->at, &d);
	if (!e && c->at.kind != STX__NONE)
		e = open_connection(c, &d);
	if (e)
		stax_client_free(c);
	else
		*out = c;
	return stx__give_error(e, &d, err);
}

void stax_client_free(struct stax_client *c)
{
	if (!c)
		return;
	hang_up(c);
	stx__private_free(c->private_worker);
	free(c);
}

const char *stax_client_server(const struct stax_client *c)
{
	return c->at.text;
}

/* ---- a round trip ---- */

/* Waits for the reply of id; Progress is passed on, replies to requests given up earlier are
 * dropped. */
static stx_err await(struct stax_client *c, uint64_t id, const struct stx__wait *w,
		     struct stx__received *r, struct stx_diag *d)
{
	for (;;) {
		stx_err e = receive_frame(c->fd, r, w->deadline_ns, d);
		if (e)
			return e;
		/* An error without an id is about the connection. */
		if (r->e->msg_case == STX__ENVELOPE__MSG_ERROR &&
		    (r->e->request_id == id || r->e->request_id == 0)) {
			e = reply_error(r->e, d);
			stx__received_free(r);
			return e;
		}
		if (r->e->request_id == id && r->e->msg_case == STX__ENVELOPE__MSG_PROGRESS) {
			const Stx__Progress *p = r->e->progress;
			if (w->progress)
				w->progress(w->progress_ctx, p->stage, p->done, p->total,
					    p->elapsed_ms);
		} else if (r->e->request_id == id) {
			return STX_E_OK;
		}
		stx__received_free(r);
	}
}

/* One attempt. *again: the connection was lost, so another one may succeed. */
static stx_err attempt(struct stax_client *c, Stx__Envelope *m, struct stx_span body,
		       const struct stx__wait *w, struct stx__received *out, int *again,
		       struct stx_diag *d)
{
	*again = 1;
	stx_err e = c->fd >= 0 ? STX_E_OK : open_connection(c, d);
	if (e) {
		*again = e == STX_E_CONNECT;
		return e;
	}
	m->request_id = ++c->next_id;
	e = send_frame(c->fd, m, body, w->deadline_ns, d);
	if (e == STX_E_CONNECT) {
		/* The server may have said why before it closed: that is the better error. */
		struct stx_diag why;
		struct stx__wait soon = { .deadline_ns = stx_clock_ns() + 100000000u };
		stx__diag_init(&why);
		stx_err said = await(c, m->request_id, &soon, out, &why);
		if (!said)
			stx__received_free(out);
		else if (said != STX_E_CONNECT && said != STX_E_DEADLINE &&
			 said != STX_E_PROTOCOL) {
			e = said;
			*d = why;
		}
	} else if (!e) {
		e = await(c, m->request_id, w, out, d);
	}
	*again = e == STX_E_CONNECT;
	/* After these the stream's position is unknown or a reply is still to come. */
	if (e == STX_E_CONNECT || e == STX_E_DEADLINE || e == STX_E_PROTOCOL || e == STX_E_NOMEM)
		hang_up(c);
	return e;
}

static void back_off(int attempt_number)
{
	uint32_t r = 0;
	if (getrandom(&r, sizeof r, GRND_NONBLOCK) != sizeof r)
		r = (uint32_t)stx_clock_ns();
	uint64_t ms = (uint64_t)BACKOFF_MS << attempt_number;
	ms = ms / 2 + r % ms; /* 64 ranks that lose one server do not return together */
	struct timespec t = { (time_t)(ms / 1000), (long)(ms % 1000) * 1000000 };
	nanosleep(&t, NULL);
}

stx_err stx__roundtrip(struct stax_client *c, Stx__Envelope *m, struct stx_span body,
		       const struct stx__wait *w, struct stx__received *out, struct stx_diag *d)
{
	struct stx_diag last;
	stx_err e = STX_E_CONNECT;
	int again = 1;
	memset(out, 0, sizeof *out);
	for (int i = 0; again; i++) {
		stx__diag_init(&last);
		e = attempt(c, m, body, w, out, &again, &last);
		if (!again || i == RETRIES)
			break;
		if (w->deadline_ns && stx_clock_ns() >= w->deadline_ns) {
			stx__diag_init(&last);
			e = late(&last);
			break;
		}
		back_off(i);
	}
	if (e && d && !d->code)
		*d = last;
	return e;
}
