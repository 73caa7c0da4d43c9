/* library.c: libraries of others by dlopen. */
#include "library.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* dir NULL: the library path, and whatever the process has loaded. */
static void *open_in(const char *const *names, const char *dir, int flags)
{
	char path[4200];
	for (; *names; names++) {
		if (dir)
			snprintf(path, sizeof path, "%s/%s", dir, *names);
		void *h = dlopen(dir ? path : *names, flags | RTLD_LOCAL);
		if (h)
			return h;
	}
	return NULL;
}

static void *open_below(const char *const *names, const char *home)
{
	static const char *const libs[] = { "lib64", "lib" };
	char path[4096];
	void *h = NULL;
	for (int i = 0; i < 2 && !h; i++) {
		snprintf(path, sizeof path, "%s/%s", home, libs[i]);
		h = open_in(names, path, RTLD_NOW);
	}
	return h;
}

/* pip's packages, under the site-packages that libstax is in or of the active environment. */
static void *open_of_pip(const char *const *names, const char *const *folders)
{
	static const char here_is = 0;
	const char *env = getenv("VIRTUAL_ENV");
	char pattern[4300], here[4096] = "";
	Dl_info info;
	void *h = NULL;
	if (dladdr(&here_is, &info) && info.dli_fname)
		snprintf(here, sizeof here, "%s", info.dli_fname);
	char *slash = strrchr(here, '/');
	*(slash ? slash : here) = 0;
	for (int place = 0; place < 2 && !h; place++) {
		if (place ? !env || !*env : !*here)
			continue;
		for (const char *const *f = folders; *f && !h; f++) {
			glob_t found;
			snprintf(pattern, sizeof pattern,
				 place ? "%s/lib/python3*/site-packages/%s" : "%s/../%s",
				 place ? env : here, *f);
			if (glob(pattern, GLOB_NOSORT, NULL, &found))
				continue;
			for (size_t k = 0; k < found.gl_pathc && !h; k++)
				h = open_in(names, found.gl_pathv[k], RTLD_NOW);
			globfree(&found);
		}
	}
	return h;
}

void *stx__library_open(const char *const *names, const char *home, const char *const *folders)
{
	const char *own = home ? getenv(home) : NULL, *cuda = getenv("CUDA_HOME");
	void *h = open_in(names, NULL, RTLD_NOW | RTLD_NOLOAD);
	if (!h && own && *own)
		h = open_below(names, own);
	if (!h)
		h = open_below(names, cuda && *cuda ? cuda : "/usr/local/cuda");
	if (!h)
		h = open_in(names, NULL, RTLD_NOW);
	return h ? h : open_of_pip(names, folders);
}

int stx__library_find(void *library, const struct stx__symbol *symbols, size_t n,
		      const char **missing)
{
	for (size_t i = 0; i < n; i++) {
		void *p = dlsym(library, symbols[i].name);
		if (!p) {
			*missing = symbols[i].name;
			return 0;
		}
		memcpy(symbols[i].at, &p, sizeof p);
	}
	return 1;
}
