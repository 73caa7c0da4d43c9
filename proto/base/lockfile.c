/* lockfile.c: flock, and patience with the children of a dead owner. */
#include "lockfile.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 5000
#define STEP_MS     5

static long owner_of(int fd)
{
	char text[32] = "";
	ssize_t n = pread(fd, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return strtol(text, NULL, 10);
}

static int is_dead(long pid)
{
	return pid > 0 && kill((pid_t)pid, 0) && errno == ESRCH;
}

stx_err stx_lock_file(int fd, long *holder)
{
	const struct timespec step = { .tv_nsec = STEP_MS * 1000000L };
	char text[32];
	*holder = 0;
	for (int waited = 0; flock(fd, LOCK_EX | LOCK_NB); waited += STEP_MS) {
		if (errno != EWOULDBLOCK)
			return STX_E_IO;
		*holder = owner_of(fd);
		if (waited >= PATIENCE_MS || !is_dead(*holder))
			return STX_E_BUSY;
		nanosleep(&step, NULL);
	}
	/* What excludes others is the lock: a full disk, which takes no id, does not matter. */
	int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
	if (ftruncate(fd, 0) == 0 && pwrite(fd, text, (size_t)n, 0) != n)
		(void)!ftruncate(fd, 0);
	return STX_E_OK;
}
