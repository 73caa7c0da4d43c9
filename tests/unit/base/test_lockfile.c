/* Locks of files, and what a dead owner's children keep. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "lockfile.h"

static int open_lock(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	return fd;
}

/* A process that owns the lock; it says so through a pipe. child_ms: it has forked one that holds
 * the lock so long. */
static pid_t owner(const char *path, unsigned child_ms)
{
	int ready[2];
	char c;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	if (!pid) {
		long holder;
		int fd = open(path, O_RDWR | O_CLOEXEC);
		if (stx_lock_file(fd, &holder))
			_exit(1);
		if (child_ms && !fork()) {
			usleep(child_ms * 1000);
			_exit(0);
		}
		(void)!write(ready[1], "x", 1);
		pause();
		_exit(0);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	close(ready[1]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_lockfile_living_owner_is_named(void **state)
{
	char path[] = "/tmp/stax-lock.XXXXXX";
	long holder = 0;
	(void)state;
	close(mkstemp(path));
	pid_t pid = owner(path, 0);
	int fd = open_lock(path);
	assert_int_equal(stx_lock_file(fd, &holder), STX_E_BUSY);
	assert_int_equal(holder, pid);
	end(pid);
	assert_int_equal(stx_lock_file(fd, &holder), STX_E_OK);
	char text[32] = "";
	assert_true(pread(fd, text, sizeof text - 1, 0) > 0);
	assert_int_equal(strtol(text, NULL, 10), getpid());
	close(fd);
	unlink(path);
}

/* kill -9 of a daemon that was starting a worker: fsck or the next daemon waits for the fork. */
static void test_lockfile_children_of_a_dead_owner_are_waited_for(void **state)
{
	char path[] = "/tmp/stax-lock.XXXXXX";
	long holder = 0;
	(void)state;
	close(mkstemp(path));
	pid_t pid = owner(path, 400);
	end(pid);
	int fd = open_lock(path);
	assert_int_equal(stx_lock_file(fd, &holder), STX_E_OK);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lockfile_living_owner_is_named),
		cmocka_unit_test(test_lockfile_children_of_a_dead_owner_are_waited_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
