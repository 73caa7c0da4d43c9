/* memfd.c: sealed memory files. */
#include "memfd.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALL_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

int stx__memfd_new(const char *name)
{
	return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
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

stx_err stx__memfd_map(int fd, size_t max, struct stx__map *out, struct stx_diag *d)
{
	struct stat st;
	*out = (struct stx__map){ 0 };
	int seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0 || (seals & ALL_SEALS) != ALL_SEALS)
		return stx_fail(d, STX_E_PROTOCOL, "channel", "",
				"a body that is not a sealed memfd");
	if (fstat(fd, &st) || st.st_size < 0)
		return stx_fail(d, STX_E_IO, "channel", "", "fstat of a body: errno %d", errno);
	if ((uint64_t)st.st_size > max)
		return stx_fail(d, STX_E_TOO_LARGE, "channel", "",
				"a body of %lld bytes is larger than the limit of %zu bytes",
				(long long)st.st_size, max);
	if (st.st_size == 0)
		return STX_E_OK;
	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return stx_fail(d, STX_E_NOMEM, "channel", "", "mapping a body: errno %d", errno);
	out->at = p;
	out->n = (size_t)st.st_size;
	return STX_E_OK;
}

void stx__memfd_unmap(struct stx__map *m)
{
	if (m->at)
		munmap(m->at, m->n);
	*m = (struct stx__map){ 0 };
}
