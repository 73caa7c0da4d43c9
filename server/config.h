/* config.h
 * settings of staxd: flags beat environment beats file beats defaults. */
#ifndef STX_CONFIG_H
#define STX_CONFIG_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/un.h>

#include "status.h"

#define STX__LISTEN_MAX 8

enum stx__mode {
	STX__MODE_SERVE,
	STX__MODE_SHOW,
	STX__MODE_FSCK,
	STX__MODE_HELP,
	STX__MODE_VERSION
};

/* Where a value came from: a later source never overrides an earlier, stronger one. */
enum stx__source { STX__SOURCE_DEFAULT, STX__SOURCE_FILE, STX__SOURCE_ENV, STX__SOURCE_FLAG };

enum {
#define STX_SETTING(name, kind, def, env, text) STX__SETTING_##name,
#include "config.def"
#undef STX_SETTING
	STX__NSETTINGS
};

struct stx__address {
	int tcp;                                              /* 0: unix */
	uint16_t port;                                        /* 0: the system chooses */
	char host[64];                                        /* tcp: numeric loopback address */
	char path[sizeof((struct sockaddr_un *)0)->sun_path]; /* unix */
	int own; /* unix: the user's default socket, whose folders are made */
};

struct stx_config {
	enum stx__mode mode;
	struct stx__address listen[STX__LISTEN_MAX];
	uint32_t nlisten;
	char cache_dir[PATH_MAX];
	char reproducers[PATH_MAX]; /* "": none are written */
	int repair;
	/* Numbers, one row each in config.def. */
#define STX_SETTING(name, kind, def, env, text) uint64_t name;
#include "config.def"
#undef STX_SETTING
	enum stx__source from[STX__NSETTINGS], from_listen, from_cache_dir, from_reproducers;
};

typedef const char *stx__getenv_fn(const char *name);

/* Reads everything. USAGE names the argument, variable or file:line. env is getenv outside tests.
 */
stx_err stx_config_read(struct stx_config *c, int argc, char **argv, stx__getenv_fn *env,
			struct stx_diag *d);
/* Prints the settings in the form of a configuration file: before each a comment that says its
 * unit, where the value came from and what it is. */
void stx_config_show(const struct stx_config *c, void (*line)(void *ctx, const char *text),
		     void *ctx);
/* "unix:PATH", "tcp:HOST:PORT". Explains what is refused: tls (not yet), tcp beyond loopback
 * without it. */
stx_err stx__address_parse(const char *text, struct stx__address *out, struct stx_diag *d);
void stx__address_text(const struct stx__address *a, char *out, size_t cap);
/* "10GiB", "512MiB", "4096". 0 or -1. */
int stx__size_parse(const char *text, uint64_t *out);

#endif
