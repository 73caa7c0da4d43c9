/* library.h
 * where libraries of others are found at run time. Inside libstax. */
#ifndef STX_CLIENT_LIBRARY_H
#define STX_CLIENT_LIBRARY_H

#include <stddef.h>

/* The first that is found, open for good: what the process has loaded already (PyTorch brings its
 * own); lib64 and lib of the folder that the environment variable `home` names (NULL: none), of
 * $CUDA_HOME, else of /usr/local/cuda; the library path; `folders` of the site-packages that
 * libstax is in or of the active virtual environment. names, folders: ended by NULL. NULL: none. */
void *stx__library_open(const char *const *names, const char *home, const char *const *folders);

struct stx__symbol {
	const char *name;
	void *at; /* of a pointer to a function */
};
/* 0, and *missing: it has none of that name. */
int stx__library_find(void *library, const struct stx__symbol *symbols, size_t n,
		      const char **missing);

#endif
