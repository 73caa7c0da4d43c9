/* memfd.h
 * sealed memory files: how bodies travel between daemon and workers. Written once, sealed, then
 * only read. */
#ifndef STX_MEMFD_H
#define STX_MEMFD_H

#include "bytes.h"
#include "status.h"

#define STX__MEMFD_MAX                                                                             \
	(256u << 20) /* most a message between daemon and worker may carry, in bytes */

/* The only ones a worker's sandbox allows: no huge pages. */
#define STX__MEMFD_FLAGS (MFD_CLOEXEC | MFD_ALLOW_SEALING)

/* Most a job may carry to a worker, which trusts its parent: the weights of a whole network go to
 * the oracle by value. */
#define STX__JOB_BODY_MAX (1u << 30)

/* A descriptor (close-on-exec, sealable), or -1 with errno. */
int stx__memfd_new(const char *name);
/* Appends; 0, or -1 with errno. */
int stx__memfd_write(int fd, const void *p, size_t n);
/* No shrinking, growing, writing or unsealing from here on. 0, or -1 with errno. */
int stx__memfd_seal(int fd);

/* How a content is taken. A worker reads: its sandbox maps no files, so that no memory file lives
 * on without a descriptor. */
enum stx__take { STX__MAPPED, STX__COPIED };
struct stx__map {
	void *at; /* NULL when empty */
	size_t n;
	enum stx__take how;
};
/* The content of a descriptor somebody else made: refused (PROTOCOL) unless fully sealed and at
 * most max bytes. */
stx_err stx__memfd_map(int fd, size_t max, enum stx__take how, struct stx__map *out,
		       struct stx_diag *d);
void stx__memfd_unmap(struct stx__map *m);

#endif
