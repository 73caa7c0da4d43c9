/* jit.h
 * shared by the code generation tests: kernel text to a loaded function, its loops as long ones
 * whatever their sizes; levels of this host, random bits. */
#ifndef TEST_JIT_H
#define TEST_JIT_H

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "artifact_check.h"
#include "codegen.h"
#include "runs_here.h"

struct jit {
	struct stx_llvm *llvm;
	struct jit_entry {                /* kernels made so far */
		struct stx_digest digest; /* of target and text */
		stx_kernel_fn *fn;
	} made[4096];
	int nmade;
	int fast; /* numerics of what is made next */
};

static struct jit jit;

static inline int jit_setup(void **state)
{
	struct stx_diag d = { 0 };
	(void)state;
	return stx_llvm_new(&jit.llvm, &d);
}

static inline int jit_teardown(void **state)
{
	(void)state;
	stx_llvm_free(jit.llvm);
	return 0;
}

/* The levels this host can run, ending with NULL. */
static inline const char *const *jit_targets(void)
{
	static const char *all[] = { "cpu:x86-64-v2", "cpu:x86-64-v3", "cpu:x86-64-v4" };
	static const char *have[4];
	int n = 0;
	for (int i = 0; i < 3; i++)
		if (host_runs(all[i]))
			have[n++] = all[i];
	have[n] = NULL;
	return have;
}

static inline struct stx_kernel *jit_parse(struct stx_arena *a, const char *text)
{
	struct stx_diag d = { 0 };
	struct stx_kernel *k = NULL;
	if (stx_kernel_parse(a, text, strlen(text), &k, &d))
		fail_msg("%s (%s) in\n%s", d.text, d.location, text);
	return k;
}

/* A kernel as a function. The library and its descriptor stay open: glibc would otherwise find the
 * old library when a descriptor's number is used again. */
static inline stx_kernel_fn *jit_kernel(const char *target, const char *text)
{
	struct stx_diag d = { 0 };
	struct stx_cpu_target t;
	struct stx_bytes object = { 0 }, shared = { 0 };
	struct stx_digest digest;
	char path[64], symbol[64];
	struct stx_hasher *hasher = stx_hasher_new();
	stx_hasher_str(hasher, target);
	stx_hasher_str(hasher, text);
	stx_hasher_u64(hasher, (uint64_t)jit.fast);
	struct stx_digest key = stx_hasher_final(hasher);
	for (int i = jit.nmade - 1; i >= 0; i--)
		if (stx_digest_eq(&jit.made[i].digest, &key))
			return jit.made[i].fn;
	struct stx_arena *a = stx_arena_new(0);
	struct stx_kernel *k = jit_parse(a, text);
	assert_int_equal(stx_cpu_target_parse(target, &t, &d), 0);
	unsigned how = STX_EMIT_LONG | (jit.fast ? STX_EMIT_FAST : 0u);
	if (stx_emit_llvm(jit.llvm, k, &t, how, STX_EMIT_OBJECT, &object, NULL, &d))
		fail_msg("%s: %s in\n%s", target, d.text, text);
	struct stx_span in = { object.at, object.n };
	if (stx_link_shared(&in, 1, &shared, &d))
		fail_msg("%s: %s", target, d.text);
	if (stx_artifact_check((struct stx_span){ shared.at, shared.n }, &d))
		fail_msg("%s: %s in\n%s", target, d.text, text);
	int fd = memfd_create("kernel", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, shared.at, shared.n), (ssize_t)shared.n);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		fail_msg("%s", dlerror());
	assert_int_equal(stx_kernel_digest(k, &digest, &d), 0);
	stx_kernel_symbol(&digest, symbol);
	stx_kernel_fn *fn = (stx_kernel_fn *)(uintptr_t)dlsym(h, symbol);
	assert_non_null(fn);
	stx_bytes_free(&object);
	stx_bytes_free(&shared);
	stx_arena_free(a);
	if (jit.nmade < 4096)
		jit.made[jit.nmade++] = (struct jit_entry){ key, fn };
	return fn;
}

#define JIT_SCRATCH ((size_t)64 << 20) /* more than any kernel asks for */
static inline struct stx_bounds_record jit_run(stx_kernel_fn *fn, void *const *buffers,
					       const int64_t *scalars, int64_t begin, int64_t end)
{
	struct stx_bounds_record bounds = { .kernel = -1 };
	struct stx_kernel_frame frame = { buffers, scalars, &bounds, aligned_alloc(64, JIT_SCRATCH),
					  NULL };
	assert_non_null(frame.scratch);
	fn(&frame, begin, end);
	free(frame.scratch);
	return bounds;
}

/* xorshift64*: repeatable, printed seed. */
static inline uint64_t jit_random(uint64_t *s)
{
	*s ^= *s >> 12;
	*s ^= *s << 25;
	*s ^= *s >> 27;
	return *s * 0x2545f4914f6cdd1du;
}

/* n bytes that end at a page without access; unmapped with jit_guarded_free. */
static inline void *jit_guarded(size_t n)
{
	size_t page = 4096, body = (n + page - 1) / page * page;
	uint8_t *p =
		mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p != MAP_FAILED);
	assert_int_equal(mprotect(p + body, page, PROT_NONE), 0);
	return p + body - n;
}

static inline void jit_guarded_free(void *at, size_t n)
{
	size_t page = 4096, body = (n + page - 1) / page * page;
	munmap((uint8_t *)at + n - body, body + page);
}

#endif
