/* directory.c: mkdir -p with private modes. */
#include "directory.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

stx_err stx__directory_make(const char *path, struct stx_diag *d)
{
	char part[PATH_MAX];
	struct stat st;
	size_t n = strlen(path);
	if (!n || n >= sizeof part)
		return stx_fail(d, STX_E_USAGE, "directory", "", "bad path '%.200s'", path);
	memcpy(part, path, n + 1);
	for (char *p = part + 1;; p++) {
		if (*p && *p != '/')
			continue;
		char kept = *p;
		*p = 0;
		if (mkdir(part, 0700) && errno != EEXIST && (errno != EROFS || stat(part, &st)))
			return stx_fail(d, STX_E_IO, "directory", "", "%.400s: %s", part,
					strerror(errno));
		*p = kept;
		if (!kept)
			break;
	}
	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return stx_fail(d, STX_E_IO, "directory", "", "%.400s is not a directory", path);
	return STX_E_OK;
}

stx_err stx__directory_make_parent(const char *path, struct stx_diag *d)
{
	char parent[PATH_MAX];
	const char *slash = strrchr(path, '/');
	if (!slash || slash == path)
		return STX_E_OK;
	if ((size_t)(slash - path) >= sizeof parent)
		return stx_fail(d, STX_E_USAGE, "directory", "", "a path that is too long");
	memcpy(parent, path, (size_t)(slash - path));
	parent[slash - path] = 0;
	return stx__directory_make(parent, d);
}
