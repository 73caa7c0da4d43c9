/* spawn.c: starting a worker process: its descriptors, signals, session and arguments. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <unistd.h>

#include "log.h"
#include "pool.h"

int stx__worker_spawn(const struct stx__pool_config *c, int child_sock, pid_t *pid)
{
	char parent[40], memory[40], sched[24], level[40];
	char *env[] = { level, NULL };
	snprintf(parent, sizeof parent, "parent=%d", (int)getpid());
	snprintf(memory, sizeof memory, "memory=%llu", (unsigned long long)c->memory_bytes);
	snprintf(sched, sizeof sched, "sched=%s", c->sched);
	snprintf(level, sizeof level, "STAX_LOG=%s", stx_log_level_name());
	char *argv[] = { "staxd",
			 "--worker",
			 parent,
			 memory,
			 sched,
			 c->cuda ? "cuda=1" : "cuda=0",
			 c->require_sandbox ? "require-sandbox=1" : NULL,
			 NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t attr;
	sigset_t none, all;
	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&fa))
		return ENOMEM;
	if (posix_spawnattr_init(&attr)) {
		posix_spawn_file_actions_destroy(&fa);
		return ENOMEM;
	}
	posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&fa, 1, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&fa, child_sock, 3);
	posix_spawn_file_actions_addclosefrom_np(&fa, 4);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETSID);
	int e = posix_spawn(pid, c->exe ? c->exe : "/proc/self/exe", &fa, &attr, argv, env);
	posix_spawn_file_actions_destroy(&fa);
	posix_spawnattr_destroy(&attr);
	return e;
}
