/* memfd.c: sealed memory files. */
#include "memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

int stx__memfd_new(const char *name)
{
	return memfd_create(name, STX__MEMFD_FLAGS);
}

int stx__memfd_write(int fd, const void *p, size_t n)
{
	const char *at = p;
	while (n) {
		ssize_t w = write(fd, at, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			return -1;
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

int stx__memfd_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, ALL_SEALS);
}

/* NULL with errno. */
static void *copy_of(int fd, size_t n)
{
	char *p = malloc(n);
	for (size_t at = 0; p && at < n;) {
		ssize_t r = pread(fd, p + at, n - at, (off_t)at);
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0) {
			free(p);
			errno = r ? errno : EIO;
			return NULL;
		}
		at += (size_t)r;
	}
	return p;
}

static void *mapping_of(int fd, size_t n)
{
	void *p = mmap(NULL, n, PROT_READ, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

stx_err stx__memfd_map(int fd, size_t max, enum stx__take how, struct stx__map *out,
		       struct stx_diag *d)
{
	*out = (struct stx__map){ .how = how };
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & ALL_SEALS) != ALL_SEALS)
		return stx_fail(d, STX_E_PROTOCOL, "channel", "",
				"a body that is not a sealed memfd");
	off_t n = lseek(fd, 0, SEEK_END); /* fstat may need a path in a sandbox */
	if (n < 0)
		return stx_fail(d, STX_E_IO, "channel", "", "the size of a body: errno %d", errno);
	if ((uint64_t)n > max)
		return stx_fail(d, STX_E_TOO_LARGE, "channel", "",
				"a body of %lld bytes is larger than the limit of %zu bytes",
				(long long)n, max);
	if (n == 0)
		return STX_E_OK;
	void *p = how == STX__MAPPED ? mapping_of(fd, (size_t)n) : copy_of(fd, (size_t)n);
	if (!p)
		return stx_fail(d, STX_E_NOMEM, "channel", "",
				"taking a body of %lld bytes: errno %d", (long long)n, errno);
	out->at = p;
	out->n = (size_t)n;
	return STX_E_OK;
}

void stx__memfd_unmap(struct stx__map *m)
{
	if (m->at && m->how == STX__COPIED)
		free(m->at);
	else if (m->at)
		munmap(m->at, m->n);
	*m = (struct stx__map){ 0 };
}
