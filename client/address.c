/* address.c: where the server is: "unix:PATH", "tcp:HOST:PORT", "none", or the user's own socket.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

static stx_err put(char *dst, size_t cap, const char *src, size_t n, struct stx_diag *d)
{
	if (n == 0 || n >= cap)
		return stx_fail(d, STX_E_USAGE, "connect", "",
				n ? "the server's address is too long"
				  : "a part of the server's address is empty");
	memcpy(dst, src, n);
	dst[n] = 0;
	return STX_E_OK;
}

/* 1 to 65535, in digits only: the resolver takes larger ones modulo 65536. */
static int is_port(const char *text)
{
	size_t n = strspn(text, "0123456789");
	long port = n && n <= 5 && !text[n] ? strtol(text, NULL, 10) : 0;
	return port >= 1 && port <= 65535;
}

stx_err stx__server_parse(const char *text, struct stx__server *out, struct stx_diag *d)
{
	memset(out, 0, sizeof *out);
	stx_err e = put(out->text, sizeof out->text, text, strlen(text), d);
	if (e)
		return e;
	if (!strcmp(text, "none")) {
		out->kind = STX__NONE;
		return STX_E_OK;
	}
	if (!strncmp(text, "unix:", 5)) {
		out->kind = STX__UNIX;
		return put(out->path, sizeof out->path, text + 5, strlen(text + 5), d);
	}
	if (!strncmp(text, "tcp:", 4)) {
		const char *host = text + 4, *colon = strrchr(host, ':');
		if (!colon)
			return stx_fail(d, STX_E_USAGE, "connect", "", "'%s' names no port", text);
		if (!is_port(colon + 1))
			return stx_fail(d, STX_E_USAGE, "connect", "",
					"server '%s': the port is a number from 1 to 65535", text);
		size_t n = (size_t)(colon - host);
		if (n >= 2 && host[0] == '[' && host[n - 1] == ']') { /* [::1] */
			host++;
			n -= 2;
		}
		out->kind = STX__TCP;
		if ((e = put(out->host, sizeof out->host, host, n, d)))
			return e;
		return put(out->port, sizeof out->port, colon + 1, strlen(colon + 1), d);
	}
	if (!strncmp(text, "tls:", 4))
		return stx_fail(d, STX_E_USAGE, "connect", "",
				"server '%s': TLS is not offered by this version yet; use "
				"unix:PATH or tcp:HOST:PORT",
				text);
	return stx_fail(d, STX_E_USAGE, "connect", "",
			"server '%s': expected unix:PATH, tcp:HOST:PORT or none", text);
}

int stax_default_server(char *out, size_t cap, int *from_env, struct stax_error *err)
{
	struct stx_diag d;
	stx__diag_init(&d);
	const char *server = getenv("STAX_SERVER"), *dir;
	int n = -1;
	if (from_env)
		*from_env = server && *server;
	if (server && *server)
		n = snprintf(out, cap, "%s", server);
	else if ((dir = getenv("XDG_RUNTIME_DIR")) && *dir == '/')
		n = snprintf(out, cap, "unix:%s/stax/stax.sock", dir);
	else if ((dir = getenv("XDG_CACHE_HOME")) && *dir == '/')
		n = snprintf(out, cap, "unix:%s/stax/run/stax.sock", dir);
	else if ((dir = getenv("HOME")) && *dir == '/')
		n = snprintf(out, cap, "unix:%s/.cache/stax/run/stax.sock", dir);
	stx_err e = STX_E_OK;
	if (n < 0)
		e = stx_fail(&d, STX_E_CONNECT, "connect", "",
			     "no server is named: set STAX_SERVER, XDG_RUNTIME_DIR or HOME");
	else if ((size_t)n >= cap)
		e = stx_fail(&d, STX_E_USAGE, "connect", "", "the server's address is too long");
	return stx__give_error(e, &d, err);
}
