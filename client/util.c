/* util.c: time, sealed memfds, mappings. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

int stx__sealed(const char *name, const void *p, size_t n, struct stx_diag *d)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		goto fail;
	for (size_t done = 0; done < n;) {
		ssize_t w = write(fd, (const char *)p + done, n - done);
		if (w < 0 && errno == EINTR)
			continue;
		if (w <= 0)
			goto fail;
		done += (size_t)w;
	}
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE))
		goto fail;
	return fd;
fail:
	stx_fail(d, errno == ENOMEM ? STX_E_NOMEM : STX_E_IO, "load", "",
		 "cannot make a memory file: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

stx_err stx__map_fd(int fd, size_t max, struct stx_span *out, struct stx_diag *d)
{
	struct stat st;
	*out = (struct stx_span){ NULL, 0 };
	if (fstat(fd, &st))
		return stx_fail(d, STX_E_IO, "load", "", "fstat: %s", strerror(errno));
	if (st.st_size < 0 || (uint64_t)st.st_size > max)
		return stx_fail(d, STX_E_TOO_LARGE, "load", "",
				"%lld bytes exceed the limit of %zu", (long long)st.st_size, max);
	if (st.st_size == 0)
		return STX_E_OK;
	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return stx_fail(d, STX_E_NOMEM, "load", "", "mmap: %s", strerror(errno));
	*out = (struct stx_span){ p, (size_t)st.st_size };
	return STX_E_OK;
}
