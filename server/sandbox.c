/* sandbox.c: limits, rights, Landlock and the seccomp filter of a worker. */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "memfd.h"

#define CHANNEL_FD 3
#define NOBODY     65534
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* shadow memory is data: a limit would end every worker */
#else
#define SANITIZED 0
#endif

/* Memory files are memory that neither RLIMIT_DATA nor the daemon's look at the process counts, so
 * they are kept few and small: FILES descriptors, together of at most the memory limit; a mapping,
 * which would keep a file without its descriptor, must be anonymous and private. */
#define FILES 8u /* 0 to 3, a message's body in, one out */

static void limit(int what, uint64_t value)
{
	struct rlimit r = { value, value };
	setrlimit(what, &r);
}

/* Of the environment, where NVRTC is: it is loaded after this. Out of memory: as if it were unset. */
static void keep_environment(void)
{
	const char *home = getenv("CUDA_HOME");
	char *copy = home ? strdup(home) : NULL;
	clearenv();
	if (copy)
		setenv("CUDA_HOME", copy, 1);
	free(copy);
}

stx_err stx__sandbox_prepare(int64_t parent, uint64_t memory_bytes, struct stx_diag *d)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		return stx_fail(d, STX_E_INTERNAL, "sandbox", "", "PR_SET_PDEATHSIG: errno %d",
				errno);
	if (parent && getppid() != (pid_t)parent)
		return stx_fail(d, STX_E_CANCELED, "sandbox", "", "the daemon is gone already");
	keep_environment();
	limit(RLIMIT_CORE, 0);
	uint64_t file_bytes = memory_bytes / FILES;
	limit(RLIMIT_FSIZE,
	      memory_bytes && file_bytes < STX__MEMFD_MAX ? file_bytes : STX__MEMFD_MAX);
	signal(SIGXFSZ, SIG_IGN); /* EFBIG says it */
	/* RLIMIT_AS would count LLVM's mapped code and reserved address space; RLIMIT_DATA counts
	 * what is really private and writable. It is the backstop for growth between two looks of
	 * the daemon. */
	if (memory_bytes && memory_bytes < UINT64_MAX / 2 && !SANITIZED)
		limit(RLIMIT_DATA, memory_bytes + memory_bytes / 4);
	signal(SIGPIPE, SIG_IGN);
	/* A terminal or a service manager signals the whole group; the daemon alone says when a
	 * worker ends, by closing its channel. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	return STX_E_OK;
}

void stx__sandbox_priority(enum stx__sched s)
{
	struct sched_param none = { 0 };
	if (s == STX__SCHED_IDLE && !sched_setscheduler(0, SCHED_IDLE, &none))
		return;
	if (s != STX__SCHED_NORMAL)
		setpriority(PRIO_PROCESS, 0, 19);
}

/* ---- rights ---- */

static int drop_capabilities(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { { 0, 0, 0 }, { 0, 0, 0 } };
	for (int c = 0; c <= 63; c++)
		prctl(PR_CAPBSET_DROP, c, 0, 0,
		      0); /* fails beyond the last one or without the right */
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	return (int)syscall(SYS_capset, &h, none);
}

/* Root becomes nobody, in a root directory that holds only the names of its own descriptors. The
 * working directory is the root for every user: getcwd is allowed and has nothing to tell. */
static int drop_rights(void)
{
	int root = geteuid() == 0, changed = root && !chroot("/proc/self/fdinfo");
	if (chdir("/") && changed)
		return -1;
	if (root) {
		if (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
		    setresuid(NOBODY, NOBODY, NOBODY)) {
			/* A container may lack the right: then the capabilities go all the same. */
			if (errno != EPERM && errno != EINVAL)
				return -1;
		}
		if (prctl(PR_SET_PDEATHSIG, SIGKILL)) /* a change of user clears it */
			return -1;
	}
	if (drop_capabilities())
		return -1;
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* ---- Landlock ---- */

/* Newer than Debian 12's header: fields of later versions of the interface. */
struct ruleset_attr {
	uint64_t fs, net, scoped;
};

/* No rule is added: nothing on any file system may be opened, no TCP, no signals to others. 0 or
 * -1. */
static int close_landlock(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 1)
		return -1;
	static const uint64_t fs_bits[] = { 0, 13, 14, 15, 15, 16 };
	struct ruleset_attr attr = { 0 };
	attr.fs = (1ull << fs_bits[abi < 5 ? abi : 5]) - 1;
	attr.net = abi >= 4 ? 3 : 0;
	attr.scoped = abi >= 6 ? 3 : 0;
	size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
	int fd = (int)syscall(SYS_landlock_create_ruleset, &attr, size, 0);
	if (fd < 0)
		return -1;
	int err = (int)syscall(SYS_landlock_restrict_self, fd, 0);
	close(fd);
	return err;
}

/* ---- seccomp ---- */

/* Calls allowed with any arguments: memory, open descriptors, time, own signals, end. No kind of
 * stat: C libraries call fstat by way of newfstatat, and a filter cannot tell an empty path from
 * another. getcwd: refused, NVRTC takes what its buffer held before for a path, end or no end. */
static const int allowed[] = { SCMP_SYS(read),
			       SCMP_SYS(pread64),
			       SCMP_SYS(write),
			       SCMP_SYS(writev),
			       SCMP_SYS(lseek),
			       SCMP_SYS(close),
			       SCMP_SYS(munmap),
			       SCMP_SYS(mremap),
			       SCMP_SYS(madvise),
			       SCMP_SYS(brk),
			       SCMP_SYS(msync),
			       SCMP_SYS(futex),
			       SCMP_SYS(sched_yield),
			       SCMP_SYS(sched_getaffinity),
			       SCMP_SYS(getrandom),
			       SCMP_SYS(clock_gettime),
			       SCMP_SYS(clock_getres),
			       SCMP_SYS(gettimeofday),
			       SCMP_SYS(time),
			       SCMP_SYS(getrusage),
			       SCMP_SYS(times),
			       SCMP_SYS(getpid),
			       SCMP_SYS(gettid),
			       SCMP_SYS(getppid),
			       SCMP_SYS(getuid),
			       SCMP_SYS(geteuid),
			       SCMP_SYS(getgid),
			       SCMP_SYS(getegid),
			       SCMP_SYS(uname),
			       SCMP_SYS(getcwd),
			       SCMP_SYS(rt_sigaction),
			       SCMP_SYS(rt_sigprocmask),
			       SCMP_SYS(rt_sigreturn),
			       SCMP_SYS(sigaltstack),
			       SCMP_SYS(restart_syscall),
			       SCMP_SYS(set_robust_list),
			       SCMP_SYS(rseq),
			       SCMP_SYS(membarrier),
			       SCMP_SYS(exit),
			       SCMP_SYS(exit_group) };

static const int fcntl_commands[] = { F_GETFD, F_SETFD, F_GETFL, F_ADD_SEALS, F_GET_SEALS };

/* Calls allowed for some arguments only. 0 or a negative errno. */
static int allow_with_arguments(scmp_filter_ctx f)
{
	int e = 0;
	/* No new executable memory, so code cannot be brought in; memory that is counted as the
	 * worker's own. */
	e = e ? e
	      : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 2,
				 SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
				 SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_TYPE | MAP_ANONYMOUS,
					 MAP_PRIVATE | MAP_ANONYMOUS));
	e = e ? e
	      : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
				 SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	/* Messages on the channel only. */
	e = e ? e
	      : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(sendmsg), 1,
				 SCMP_A0(SCMP_CMP_EQ, CHANNEL_FD));
	e = e ? e
	      : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(recvmsg), 1,
				 SCMP_A0(SCMP_CMP_EQ, CHANNEL_FD));
	/* Of ordinary pages. */
	e = e ? e
	      : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(memfd_create), 1,
				 SCMP_A1(SCMP_CMP_EQ, STX__MEMFD_FLAGS));
	/* abort() */
	e = e ? e
	      : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
				 SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
	/* getrlimit of itself */
	e = e ? e
	      : seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, SCMP_A0(SCMP_CMP_EQ, 0),
				 SCMP_A2(SCMP_CMP_EQ, 0));
	for (size_t i = 0; !e && i < sizeof fcntl_commands / sizeof *fcntl_commands; i++)
		e = seccomp_rule_add(f, SCMP_ACT_ALLOW, SCMP_SYS(fcntl), 1,
				     SCMP_A1(SCMP_CMP_EQ, (scmp_datum_t)fcntl_commands[i]));
	return e;
}

/* 0 or a negative errno. */
static int close_seccomp(void)
{
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	if (!f)
		return -ENOMEM;
	int e = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	/* A binary tree over the call numbers: the list is long and write() is at its mercy. */
	if (!e)
		seccomp_attr_set(f, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	for (size_t i = 0; !e && i < sizeof allowed / sizeof *allowed; i++)
		e = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed[i], 0);
	if (!e)
		e = allow_with_arguments(f);
	if (!e)
		e = seccomp_load(f);
	seccomp_release(f);
	return e;
}

/* The limit that leaves room for the FILES beside what libraries keep open (NVRTC: the driver's
 * devices): a limit is on numbers, and the lowest free one is taken. */
static uint64_t descriptor_limit(void)
{
	uint64_t room = 0, own = CHANNEL_FD + 1;
	int fd = 0;
	for (; fd < 4096 && room < FILES - own; fd++)
		room += fcntl(fd, F_GETFD) < 0;
	return (uint64_t)fd;
}

void stx__sandbox_close(char *level, size_t cap)
{
	if (drop_rights()) {
		snprintf(level, cap, "none: dropping rights: %s", strerror(errno));
		return;
	}
	int landlock = !close_landlock();
	limit(RLIMIT_NOFILE, descriptor_limit());
	int e = close_seccomp();
	if (e)
		snprintf(level, cap, "none: seccomp: %s", strerror(-e));
	else
		snprintf(level, cap, "seccomp%s", landlock ? "+landlock" : "");
}

/* ---- probe ---- */

static int errno_of(long result)
{
	return result < 0 ? errno : 0;
}

/* A child made by mistake ends at once. */
static int try_fork(long call)
{
	long pid = call == SYS_clone ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : syscall(call);
	int e = errno_of(pid);
	if (pid == 0)
		_exit(0);
	return e;
}

static int try_map(int protection, int flags, int fd)
{
	void *p = mmap(NULL, 4096, protection, flags, fd, 0);
	int e = p == MAP_FAILED ? errno : 0;
	if (!e)
		munmap(p, 4096);
	return e;
}

static int try_working_folder(void)
{
	char at[16];
	if (syscall(SYS_getcwd, at, sizeof at) < 0)
		return errno;
	return strcmp(at, "/") ? EXDEV : 0;
}

static int try_stat(const char *path)
{
	struct stat st;
	return errno_of(syscall(SYS_newfstatat, CHANNEL_FD, path, &st, AT_EMPTY_PATH));
}

/* Memory files: large ones, ones that a mapping keeps, more than a few, huge pages. */
static void probe_files(void (*fn)(void *ctx, const char *name, int err), void *ctx)
{
	int fd[64], n = 0, e = 0;
	while (n < 64 && (fd[n] = stx__memfd_new("probe")) >= 0)
		n++;
	e = n < 64 ? errno : 0;
	if (n) {
		int end = lseek(fd[0], STX__MEMFD_MAX, SEEK_SET) < 0;
		fn(ctx, "write beyond the limit", end ? errno : errno_of(write(fd[0], "", 1)));
		fn(ctx, "mmap of a file", try_map(PROT_READ, MAP_SHARED, fd[0]));
		fn(ctx, "ftruncate", errno_of(ftruncate(fd[0], 4096)));
		fn(ctx, "fallocate", errno_of(fallocate(fd[0], 0, 0, 4096)));
	}
	while (n)
		close(fd[--n]);
	fn(ctx, "64 files", e);
	fn(ctx, "huge pages", errno_of(memfd_create("probe", MFD_CLOEXEC | MFD_HUGETLB)));
}

void stx__sandbox_probe(void (*fn)(void *ctx, const char *name, int err), void *ctx)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX, .sun_path = "/nonexistent/stax" };
	char *const none[] = { NULL };
	struct rlimit more = { 64, 64 };
	fn(ctx, "open", errno_of(syscall(SYS_open, "/etc/hostname", O_RDONLY)));
	fn(ctx, "openat", errno_of(syscall(SYS_openat, AT_FDCWD, "/etc/hostname", O_RDONLY)));
	fn(ctx, "creat", errno_of(syscall(SYS_creat, "/nonexistent/stax", 0600)));
	fn(ctx, "unlink", errno_of(syscall(SYS_unlink, "/nonexistent/stax")));
	fn(ctx, "socket", errno_of(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0)));
	fn(ctx, "connect", errno_of(syscall(SYS_connect, CHANNEL_FD, &a, sizeof a)));
	fn(ctx, "fork", try_fork(SYS_fork));
	fn(ctx, "clone", try_fork(SYS_clone));
	/* A path that does not exist: allowed, it would fail with ENOENT. */
	fn(ctx, "exec", errno_of(syscall(SYS_execve, "/nonexistent/stax", none, none)));
	fn(ctx, "ptrace", errno_of(syscall(SYS_ptrace, PTRACE_PEEKDATA, getppid(), 0, 0)));
	fn(ctx, "process_vm_readv",
	   errno_of(syscall(SYS_process_vm_readv, getppid(), 0, 0, 0, 0, 0)));
	fn(ctx, "kill", errno_of(syscall(SYS_kill, getppid(), 0)));
	fn(ctx, "sendmsg elsewhere", errno_of(syscall(SYS_sendmsg, 2, NULL, 0)));
	fn(ctx, "dup", errno_of(syscall(SYS_dup, CHANNEL_FD)));
	fn(ctx, "stat", try_stat(""));
	fn(ctx, "stat of a path", try_stat("/etc/hostname"));
	fn(ctx, "working folder /", try_working_folder());
	fn(ctx, "setrlimit", errno_of(syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &more, NULL)));
	fn(ctx, "mmap exec", try_map(PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1));
	fn(ctx, "mmap shared", try_map(PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1));
	probe_files(fn, ctx);
}
