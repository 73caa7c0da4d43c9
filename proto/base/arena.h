/* arena.h
 * region allocator: one arena a request, freed in one place, with a byte budget and cleanup hooks.
 *
 * An arena belongs to one thread at a time. Everything allocated from it lives until
 * stx_arena_free. Running out of budget is an error the caller sees as NULL, never an exit;
 * stx_arena_oom then says so, and every later allocation fails too, so that one check at the end of
 * a stage is enough. */
#ifndef STX_ARENA_H
#define STX_ARENA_H

#include <stdarg.h>
#include <stddef.h>

struct stx_arena;

/* budget_bytes: most the arena may take from malloc in all; 0 means no limit. NULL when out of
 * memory. */
struct stx_arena *stx_arena_new(size_t budget_bytes);
/* Runs the cleanup hooks, newest first, then releases the memory. NULL is allowed. */
void stx_arena_free(struct stx_arena *a);

/* 16-byte aligned; uninitialised / zeroed. count*size is checked for overflow. NULL when over
 * budget. */
void *stx_arena_alloc(struct stx_arena *a, size_t bytes);
void *stx_arena_zalloc(struct stx_arena *a, size_t count, size_t size);
void *stx_arena_copy(struct stx_arena *a, const void *src, size_t bytes);
char *stx_arena_strdup(struct stx_arena *a, const char *s);
char *stx_arena_strndup(struct stx_arena *a, const char *s, size_t n);
char *stx_arena_printf(struct stx_arena *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* fn(ptr) runs at stx_arena_free: for LLVM modules, file descriptors and the like. Returns 0, or -1
 * when over budget, in which case fn has been called at once. */
int stx_arena_on_free(struct stx_arena *a, void (*fn)(void *), void *ptr);

size_t stx_arena_used(const struct stx_arena *a); /* bytes taken from malloc */
int stx_arena_oom(const struct stx_arena *a);     /* 1 once an allocation has failed */

#define STX_NEW(a, type)          ((type *)stx_arena_zalloc((a), 1, sizeof(type)))
#define STX_NEW_ARRAY(a, type, n) ((type *)stx_arena_zalloc((a), (n), sizeof(type)))

/* Growable array living in an arena: `struct { T *at; unsigned n, cap; } v`. stx_push grows by
 * doubling (the old storage stays in the arena) and evaluates to 0, or -1 when over budget. */
int stx_arena_grow(struct stx_arena *a, void **at, unsigned *cap, unsigned n, size_t elem_bytes);
#define STX_VEC(T)                                                                                 \
	struct {                                                                                   \
		T *at;                                                                             \
		unsigned n, cap;                                                                   \
	}
#define stx_push(a, v, x)                                                                          \
	((v)->n == (v)->cap && stx_arena_grow((a), (void **)&(v)->at, &(v)->cap, (v)->n,           \
					      sizeof *(v)->at)                                     \
		 ? -1                                                                              \
		 : ((v)->at[(v)->n++] = (x), 0))

#endif
