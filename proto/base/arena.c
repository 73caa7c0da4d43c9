/* arena.c: region allocator. Blocks double up to 1 MiB; larger requests get a block of their own.
 */
#include "arena.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct block {
	struct block *next;
	size_t bytes;
};

struct cleanup {
	struct cleanup *next;
	void (*fn)(void *);
	void *ptr;
};

struct stx_arena {
	struct block *blocks;
	struct cleanup *cleanups;
	char *at, *end;
	size_t next_bytes, used, budget;
	int oom;
};

#define ALIGN  16u
#define HEADER ((sizeof(struct block) + ALIGN - 1) & ~(size_t)(ALIGN - 1))

struct stx_arena *stx_arena_new(size_t budget_bytes)
{
	struct stx_arena *a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->next_bytes = 4096;
	a->budget = budget_bytes;
	return a;
}

void stx_arena_free(struct stx_arena *a)
{
	if (!a)
		return;
	for (struct cleanup *c = a->cleanups; c; c = c->next)
		c->fn(c->ptr);
	for (struct block *b = a->blocks; b;) {
		struct block *next = b->next;
		free(b);
		b = next;
	}
	free(a);
}

static char *add_block(struct stx_arena *a, size_t bytes)
{
	if (bytes > SIZE_MAX - HEADER)
		return NULL;
	size_t total = bytes + HEADER;
	if (a->budget && (total > a->budget || a->used > a->budget - total))
		return NULL;
	struct block *b = malloc(total);
	if (!b)
		return NULL;
	b->next = a->blocks;
	b->bytes = total;
	a->blocks = b;
	a->used += total;
	return (char *)b + HEADER;
}

void *stx_arena_alloc(struct stx_arena *a, size_t bytes)
{
	if (a->oom)
		return NULL;
	if (bytes == 0)
		bytes = 1;
	if (bytes > SIZE_MAX / 2)
		goto oom;
	bytes = (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1);
	if ((size_t)(a->end - a->at) >= bytes) {
		void *p = a->at;
		a->at += bytes;
		return p;
	}
	if (bytes > a->next_bytes / 4) {
		char *p = add_block(a, bytes);
		if (!p)
			goto oom;
		return p;
	}
	char *p = add_block(a, a->next_bytes);
	if (!p) {
		p = add_block(a, bytes); /* near the budget: take only what is needed */
		if (!p)
			goto oom;
		return p;
	}
	a->at = p + bytes;
	a->end = p + a->next_bytes;
	if (a->next_bytes < (size_t)1 << 20)
		a->next_bytes *= 2;
	return p;
oom:
	a->oom = 1;
	return NULL;
}

void *stx_arena_zalloc(struct stx_arena *a, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		a->oom = 1;
		return NULL;
	}
	void *p = stx_arena_alloc(a, bytes);
	if (p)
		memset(p, 0, bytes);
	return p;
}

void *stx_arena_copy(struct stx_arena *a, const void *src, size_t bytes)
{
	void *p = stx_arena_alloc(a, bytes);
	if (p && bytes)
		memcpy(p, src, bytes);
	return p;
}

char *stx_arena_strndup(struct stx_arena *a, const char *s, size_t n)
{
	char *p = stx_arena_alloc(a, n + 1);
	if (!p)
		return NULL;
	if (n)
		memcpy(p, s, n);
	p[n] = 0;
	return p;
}

char *stx_arena_strdup(struct stx_arena *a, const char *s)
{
	return stx_arena_strndup(a, s, strlen(s));
}

char *stx_arena_printf(struct stx_arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *p = n < 0 ? NULL : stx_arena_alloc(a, (size_t)n + 1);
	if (p)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}

int stx_arena_on_free(struct stx_arena *a, void (*fn)(void *), void *ptr)
{
	struct cleanup *c = stx_arena_alloc(a, sizeof *c);
	if (!c) {
		fn(ptr);
		return -1;
	}
	c->fn = fn;
	c->ptr = ptr;
	c->next = a->cleanups;
	a->cleanups = c;
	return 0;
}

size_t stx_arena_used(const struct stx_arena *a)
{
	return a->used;
}

int stx_arena_oom(const struct stx_arena *a)
{
	return a->oom;
}

int stx_arena_grow(struct stx_arena *a, void **at, unsigned *cap, unsigned n, size_t elem_bytes)
{
	unsigned want = *cap ? *cap * 2 : 8;
	size_t bytes;
	if (want < *cap || __builtin_mul_overflow((size_t)want, elem_bytes, &bytes)) {
		a->oom = 1;
		return -1;
	}
	void *p = stx_arena_alloc(a, bytes);
	if (!p)
		return -1;
	if (n)
		memcpy(p, *at, n * elem_bytes);
	*at = p;
	*cap = want;
	return 0;
}
