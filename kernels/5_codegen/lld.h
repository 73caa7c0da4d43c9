/* lld.h
 * lld in process, over memory only: what link.c and link.cc say to each other.
 *
 * The link touches no file. lld reads its inputs with llvm::MemoryBuffer::getFile and writes its
 * output through llvm::FileOutputBuffer::create; the build links liblldELF with --wrap of these two
 * symbols (Makefile, LIB_LLVM), and link.cc answers: an input is the caller's memory, the output a
 * heap buffer. Any other path is ENOENT. So neither memfds nor descriptors are needed and the
 * process's stdout stays its own. System calls of an emission and a link in a warm process, as
 * tests/unit/5_codegen/test_link.c allows them: malloc's (brk, mmap, munmap, mremap, madvise),
 * futex, sched_getaffinity, clock_gettime, and access("-"), which may be refused with an error. No
 * thread is started
 * (--threads=1), no signal handler installed, no file opened, not even in the first link.
 *
 * One link at a time, never beside a code generation in another thread. lld calls _exit on an
 * internal fault or a corrupt input it cannot recover from: link in a worker. */
#ifndef STX_LLD_H
#define STX_LLD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct stx__lld_input {
	const char *path; /* as it stands in argv */
	const void *at;
	size_t n;
};

/* Receives the output in one piece; 0, or -1 when out of memory. */
typedef int stx__lld_put(void *ctx, const void *at, size_t n);

/* Runs lld's ELF driver; the output named "-" in argv goes to put. Returns 0, or -1 with the
 * linker's messages in err (NUL-terminated, cut to cap). */
int stx__lld_link(const char *const *argv, int argc, const struct stx__lld_input *in, unsigned nin,
		  stx__lld_put *put, void *ctx, char *err, size_t cap);

#ifdef __cplusplus
}
#endif

#endif
