/* scratch.c: memory that a kernel works in while it runs on a thread: kept by the thread for its
 * next call, freed when the thread ends. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "client.h"

#define SCRATCH_ALIGN ((size_t)1 << 21) /* a huge page */

struct scratch {
	void *at;
	size_t bytes;
};

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int has_key; /* written once */

static void forget(void *p)
{
	struct scratch *s = p;
	free(s->at);
	free(s);
}

static void make_key(void)
{
	has_key = !pthread_key_create(&key, forget);
}

static struct scratch *mine(void)
{
	pthread_once(&once, make_key);
	struct scratch *s = has_key ? pthread_getspecific(key) : NULL;
	if (s || !has_key || !(s = calloc(1, sizeof *s)))
		return s;
	if (pthread_setspecific(key, s)) {
		free(s);
		return NULL;
	}
	return s;
}

void *stx__scratch(size_t bytes)
{
	struct scratch *s = mine();
	if (!s || s->bytes >= bytes)
		return s ? s->at : NULL;
	bytes = (bytes + SCRATCH_ALIGN - 1) & ~(SCRATCH_ALIGN - 1);
	void *at = aligned_alloc(SCRATCH_ALIGN, bytes);
	if (!at)
		return NULL;
	madvise(at, bytes, MADV_HUGEPAGE); /* packed panels are many pages; best effort */
	free(s->at);
	s->at = at;
	s->bytes = bytes;
	return at;
}
