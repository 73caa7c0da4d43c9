/* dir.c: the cache directory: which file systems are refused, the lock, folders, leftovers. */
#include "store.h"

#include "lockfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

/* Magic numbers from statfs(2) and the kernel's own headers. SQLite's locks and shared memory do
 * not hold on these across hosts, and FUSE ones may hang. */
/* clang-format off */
static const struct {
	unsigned long magic;
	const char *name;
} refused[] = {
	/* magic       name */
	{0x6969,       "NFS"},
	{0x517B,       "SMB"},
	{0xFF534D42ul, "CIFS"},
	{0xFE534D42ul, "SMB2"},
	{0x65735546,   "FUSE"},
	{0x01021997,   "9P"},
	{0x0BD00BD0,   "Lustre"},
	{0x00C36400,   "Ceph"},
	{0x47504653,   "GPFS"},
	{0x5346414F,   "AFS"},
	{0x6B414653,   "AFS"},
	{0x73757245,   "Coda"},
	{0x564c,       "NCP"},
	{0x7461636f,   "OCFS2"},
	{0x01161970,   "GFS2"},
	{0x19830326,   "BeeGFS"},
	{0xAAD7AAEAul, "PanFS"},
	{0x786f4256,   "VirtualBox shared folder"},
	{0xbacbacbcul, "VMware shared folder"},
	{0x20030528,   "OrangeFS"},
};
/* clang-format on */

const char *stx__fs_refused(unsigned long magic)
{
	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
		if (refused[i].magic == (magic & 0xffffffffu))
			return refused[i].name;
	return NULL;
}

int stx__is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

char *stx__path(const char *dir, const char *name)
{
	char *p;
	return asprintf(&p, "%s/%s", dir, name) < 0 ? NULL : p;
}

/* A directory that others may enter is made private when it is ours already or empty; anything else
 * (somebody passed /tmp or a home directory) is refused rather than changed. */
static stx_err make_private(int fd, const char *dir, const struct stat *st, struct stx_diag *d)
{
	if (st->st_uid != geteuid())
		return stx_fail(d, STX_E_DENIED, "cache", "", "%s belongs to user %ld, not to us",
				dir, (long)st->st_uid);
	if (!(st->st_mode & 077))
		return STX_E_OK;
	int ours = faccessat(fd, "lock", F_OK, 0) == 0, others = 0;
	DIR *l = ours ? NULL : opendir(dir);
	for (struct dirent *e; l && (e = readdir(l));)
		others |= !stx__is_dots(e->d_name);
	if (l)
		closedir(l);
	if (others)
		return stx_fail(
			d, STX_E_DENIED, "cache", "",
			"%s is open to others (mode %03o) and holds other files: give the cache a "
			"directory of its own, mode 0700",
			dir, (unsigned)st->st_mode & 0777);
	if (fchmod(fd, 0700))
		return stx_fail(d, STX_E_IO, "cache", "", "chmod %s: %s", dir, strerror(errno));
	return STX_E_OK;
}

static stx_err check_dir(int fd, const char *dir, struct stx_diag *d)
{
	struct statfs fs;
	struct stat st;
	if (fstatfs(fd, &fs) || fstat(fd, &st))
		return stx_fail(d, STX_E_IO, "cache", "", "%s: %s", dir, strerror(errno));
	const char *name = stx__fs_refused((unsigned long)fs.f_type);
	if (name)
		return stx_fail(
			d, STX_E_USAGE, "cache", "",
			"%s is on %s: a network or FUSE file system cannot hold the store; use a "
			"local directory, e.g. --cache-dir /var/tmp/stax-%ld",
			dir, name, (long)geteuid());
	return make_private(fd, dir, &st, d);
}

static stx_err take_lock(int dir_fd, const char *dir, int *lock_fd, struct stx_diag *d)
{
	int fd = openat(dir_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return stx_fail(d, STX_E_IO, "cache", "", "%s/lock: %s", dir, strerror(errno));
	long holder;
	stx_err e = stx_lock_file(fd, &holder);
	if (e) {
		stx_fail(d, e, "cache", "",
			 e == STX_E_BUSY ? "%s is in use by process %ld"
					 : "%s cannot be locked (process %ld)",
			 dir, holder);
		close(fd);
		return e;
	}
	*lock_fd = fd;
	return STX_E_OK;
}

stx_err stx__dir_lock(const char *dir, char **real, int *lock_fd, struct stx_diag *d)
{
	*lock_fd = -1;
	*real = realpath(dir, NULL);
	int fd = *real ? open(*real, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1;
	stx_err e = fd < 0 ? stx_fail(d, errno == ENOMEM ? STX_E_NOMEM : STX_E_IO, "cache", "",
				      "cache directory %s: %s", dir, strerror(errno))
			   : check_dir(fd, *real, d);
	if (!e)
		e = take_lock(fd, *real, lock_fd, d);
	if (fd >= 0)
		close(fd);
	if (e) {
		free(*real);
		*real = NULL;
	}
	return e;
}

int stx__remove_tree(const char *path)
{
	DIR *l = opendir(path);
	if (!l)
		return errno == ENOENT ? 0 : -1;
	for (struct dirent *e; (e = readdir(l));)
		if (!stx__is_dots(e->d_name))
			unlinkat(dirfd(l), e->d_name, 0);
	closedir(l);
	return rmdir(path) && errno != ENOENT ? -1 : 0;
}

static stx_err make_dir(const char *dir, const char *name, struct stx_diag *d)
{
	char *p = stx__path(dir, name);
	if (!p)
		return STX_E_NOMEM;
	stx_err e = STX_E_OK;
	if (mkdir(p, 0700) && errno != EEXIST)
		e = stx_fail(d, STX_E_IO, "cache", "", "mkdir %s: %s", p, strerror(errno));
	free(p);
	return e;
}

stx_err stx__dir_prepare(const char *dir, struct stx_diag *d)
{
	stx_err e = STX_E_NOMEM;
	char *db = stx__path(dir, "db"), *fresh = stx__path(dir, "db.new"),
	     *old = stx__path(dir, "db.old");
	char *tmp = stx__path(dir, "tmp");
	if (db && fresh && old && tmp) {
		/* A swap without RENAME_EXCHANGE was cut between its two renames: finish it. */
		if (access(db, F_OK) && errno == ENOENT && !access(old, F_OK))
			(void)!rename(access(fresh, F_OK) ? old : fresh, db);
		stx__remove_tree(fresh);
		stx__remove_tree(old);
		stx__remove_tree(tmp);
		e = make_dir(dir, "db", d);
	}
	if (!e)
		e = make_dir(dir, "files", d);
	if (!e)
		e = make_dir(dir, "tmp", d);
	free(db);
	free(fresh);
	free(old);
	free(tmp);
	return e;
}

static void sync_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd >= 0) {
		fsync(fd);
		close(fd);
	}
}

stx_err stx__dir_swap(const char *dir, struct stx_diag *d)
{
	stx_err e = STX_E_NOMEM;
	char *db = stx__path(dir, "db"), *fresh = stx__path(dir, "db.new"),
	     *old = stx__path(dir, "db.old");
	if (db && fresh && old) {
		/* The folder is exchanged, so that a database never meets another one's log. */
		sync_dir(fresh);
		int rc = renameat2(AT_FDCWD, db, AT_FDCWD, fresh, RENAME_EXCHANGE);
		if (rc && (errno == EINVAL || errno == ENOSYS))
			rc = rename(db, old) || rename(fresh, db);
		e = rc ? stx_fail(d, STX_E_IO, "cache", "", "rename %s: %s", db, strerror(errno))
		       : STX_E_OK;
		sync_dir(dir);
		if (!e) {
			stx__remove_tree(fresh);
			stx__remove_tree(old);
		}
	}
	free(db);
	free(fresh);
	free(old);
	return e;
}

void stx__dir_mark_damaged(const char *dir)
{
	char *p = stx__path(dir, "damaged");
	int fd = p ? open(p, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
	if (fd >= 0)
		close(fd);
	free(p);
}

int stx__dir_is_damaged(const char *dir)
{
	char *p = stx__path(dir, "damaged");
	int yes = p && access(p, F_OK) == 0;
	free(p);
	return yes;
}

void stx__dir_clear_damaged(const char *dir)
{
	char *p = stx__path(dir, "damaged");
	if (p)
		unlink(p);
	free(p);
}
