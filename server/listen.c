/* listen.c: listening sockets: lock, bind, accept, who may connect. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "connection.h"
#include "directory.h"
#include "lockfile.h"
#include "log.h"

#define ACCEPTS_A_TURN 64

struct stx__listener {
	struct stx__listener *next;
	struct stx__server *s;
	struct stx__address address;
	int fd, lock;
	uv_poll_t poll;
};

/* ---- binding ---- */

/* Holds PATH.lock for as long as it listens: whoever has it owns the path, so a socket file found
 * there is stale. The lock file stays: removing it would let two daemons lock different files. */
static stx_err take_lock(struct stx__listener *l, struct stx_diag *d)
{
	char path[sizeof l->address.path + 8];
	snprintf(path, sizeof path, "%s.lock", l->address.path);
	l->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (l->lock < 0)
		return stx_fail(d, STX_E_IO, "listen", "", "%s: %s", path, strerror(errno));
	long holder;
	stx_err e = stx_lock_file(l->lock, &holder);
	if (e == STX_E_BUSY)
		return stx_fail(d, e, "listen", "", "another staxd (pid %ld) listens on %s", holder,
				l->address.path);
	if (e)
		return stx_fail(d, e, "listen", "", "%s: %s", path, strerror(errno));
	return STX_E_OK;
}

/* Folders somebody else names are theirs to make: a mistyped path must not become one. */
static stx_err check_parent(const char *path, struct stx_diag *d)
{
	struct stat st;
	const char *slash = strrchr(path, '/');
	char parent[sizeof((struct stx__address *)0)->path];
	if (!slash || slash == path)
		return STX_E_OK;
	snprintf(parent, sizeof parent, "%.*s", (int)(slash - path), path);
	if (stat(parent, &st) || !S_ISDIR(st.st_mode))
		return stx_fail(d, STX_E_USAGE, "listen", "",
				"unix:%s: there is no folder %s: create it first", path, parent);
	return STX_E_OK;
}

static stx_err bind_unix(struct stx__listener *l, struct stx_diag *d)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	struct stat st;
	const char *path = l->address.path;
	snprintf(a.sun_path, sizeof a.sun_path, "%s", path);
	stx_err e = l->address.own ? stx__directory_make_parent(path, d) : check_parent(path, d);
	if (!e)
		e = take_lock(l, d);
	if (e)
		return e;
	if (!lstat(path, &st)) {
		if (!S_ISSOCK(st.st_mode))
			return stx_fail(d, STX_E_USAGE, "listen", "",
					"%s exists and is not a socket", path);
		unlink(path);
	}
	l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	mode_t mask = umask(0177);
	int bad = l->fd < 0 || bind(l->fd, (struct sockaddr *)&a, sizeof a);
	umask(mask);
	if (bad || chmod(path, 0600) || listen(l->fd, SOMAXCONN))
		return stx_fail(d, STX_E_IO, "listen", "", "%s: %s", path, strerror(errno));
	return STX_E_OK;
}

static stx_err bind_tcp(struct stx__listener *l, struct stx_diag *d)
{
	struct sockaddr_in a4 = { .sin_family = AF_INET, .sin_port = htons(l->address.port) };
	struct sockaddr_in6 a6 = { .sin6_family = AF_INET6, .sin6_port = htons(l->address.port) };
	int six = inet_pton(AF_INET, l->address.host, &a4.sin_addr) != 1, one = 1;
	if (six && inet_pton(AF_INET6, l->address.host, &a6.sin6_addr) != 1)
		return stx_fail(d, STX_E_USAGE, "listen", "", "%s: not an address",
				l->address.host);
	struct sockaddr *a = six ? (struct sockaddr *)&a6 : (struct sockaddr *)&a4;
	socklen_t n = six ? sizeof a6 : sizeof a4;
	l->fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l->fd < 0 || setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
	    bind(l->fd, a, n) || listen(l->fd, SOMAXCONN) || getsockname(l->fd, a, &n))
		return stx_fail(d, STX_E_IO, "listen", "", "tcp:%s:%u: %s", l->address.host,
				l->address.port, strerror(errno));
	l->address.port = ntohs(six ? a6.sin6_port : a4.sin_port);
	return STX_E_OK;
}

/* ---- accepting ---- */

/* The daemon's user and root. */
static int peer_allowed(int fd, int *own)
{
	struct ucred u;
	socklen_t n = sizeof u;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &u, &n))
		return 0;
	*own = u.uid == geteuid();
	return *own || u.uid == 0;
}

/* A last word without a connection object; the socket's buffer holds it. */
static void turn_away(int fd, stx_err code, const char *text)
{
	struct stx_diag d = { 0 };
	struct stx_bytes b = { 0 };
	Stx__Envelope e = STX__ENVELOPE__INIT;
	Stx__Error error;
	stx_fail(&d, code, "accept", "", "%s", text);
	stx_error_from_diag(&error, &d);
	e.msg_case = STX__ENVELOPE__MSG_ERROR;
	e.error = &error;
	if (!stx_frame_pack(&e, 0, &b))
		send(fd, b.at, b.n, MSG_NOSIGNAL | MSG_DONTWAIT);
	stx_bytes_free(&b);
	close(fd);
}

static void take_connection(struct stx__listener *l, int fd)
{
	struct stx__server *s = l->s;
	int own = 0, one = 1;
	if (s->nconns >= s->cfg.connections) {
		s->stats.refused++;
		turn_away(fd, STX_E_BUSY, "too many connections");
	} else if (!l->address.tcp && !peer_allowed(fd, &own)) {
		s->stats.refused++;
		turn_away(fd, STX_E_DENIED, "this socket serves its own user");
	} else {
		if (l->address.tcp)
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		stx__conn_new(s, fd, own);
	}
}

static void on_incoming(uv_poll_t *h, int status, int events)
{
	struct stx__listener *l = h->data;
	(void)events;
	if (status < 0)
		return;
	for (int i = 0; i < ACCEPTS_A_TURN; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			take_connection(l, fd);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			stx_log(STX_LOG_WARN, "accept: %s", strerror(errno));
			uv_poll_stop(&l->poll); /* the tick tries again */
			return;
		}
		if (errno != ECONNABORTED && errno != EINTR)
			return;
	}
}

void stx__listen_resume(struct stx__server *s)
{
	for (struct stx__listener *l = s->listeners; l; l = l->next)
		if (!uv_is_closing((uv_handle_t *)&l->poll) &&
		    !uv_is_active((uv_handle_t *)&l->poll))
			uv_poll_start(&l->poll, UV_READABLE, on_incoming);
}

/* ---- life ---- */

static stx_err listen_one(struct stx__server *s, const struct stx__address *a, struct stx_diag *d)
{
	char text[160];
	struct stx__listener *l = calloc(1, sizeof *l);
	if (!l)
		return stx_fail(d, STX_E_NOMEM, "listen", "", "out of memory");
	l->s = s;
	l->address = *a;
	l->fd = l->lock = -1;
	stx_err e = a->tcp ? bind_tcp(l, d) : bind_unix(l, d);
	if (!e && uv_poll_init(s->loop, &l->poll, l->fd))
		e = stx_fail(d, STX_E_IO, "listen", "", "watching a socket");
	if (e) {
		if (l->fd >= 0)
			close(l->fd);
		if (l->lock >= 0)
			close(l->lock);
		free(l);
		return e;
	}
	l->poll.data = l;
	uv_poll_start(&l->poll, UV_READABLE, on_incoming);
	struct stx__listener **at = &s->listeners;
	while (*at)
		at = &(*at)->next;
	*at = l;
	stx__address_text(&l->address, text, sizeof text);
	stx_log(STX_LOG_INFO, "listening on %s", text);
	return STX_E_OK;
}

stx_err stx__listen_all(struct stx__server *s, struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	for (uint32_t i = 0; !e && i < s->cfg.nlisten; i++)
		e = listen_one(s, &s->cfg.listen[i], d);
	return e;
}

static void on_closed(uv_handle_t *h)
{
	struct stx__listener *l = h->data;
	close(l->fd);
	l->fd = -1;
	if (l->lock >= 0)
		close(l->lock);
	l->lock = -1;
}

void stx__listen_close(struct stx__server *s)
{
	for (struct stx__listener *l = s->listeners; l; l = l->next) {
		if (uv_is_closing((uv_handle_t *)&l->poll))
			continue;
		if (!l->address.tcp)
			unlink(l->address.path); /* the lock is still held */
		uv_close((uv_handle_t *)&l->poll, on_closed);
	}
}

void stx__listen_free(struct stx__server *s)
{
	while (s->listeners) {
		struct stx__listener *l = s->listeners;
		s->listeners = l->next;
		free(l);
	}
}
