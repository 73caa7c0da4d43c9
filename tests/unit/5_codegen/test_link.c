/* test_link.c: linking in memory, under a system-call filter, and loading of the result. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include "../4_schedule/kernels.h"
#include "codegen.h"

/* int NAME(int x) { return x + add; } as an object. */
static void small_object(const char *name, int add, struct stx_bytes *out)
{
	char *text = NULL;
	LLVMTargetRef target;
	LLVMMemoryBufferRef object = NULL;
	LLVMContextRef c = LLVMContextCreate();
	LLVMModuleRef m = LLVMModuleCreateWithNameInContext("t", c);
	LLVMTypeRef i32 = LLVMInt32TypeInContext(c);
	LLVMValueRef f = LLVMAddFunction(m, name, LLVMFunctionType(i32, &i32, 1, 0));
	LLVMBuilderRef b = LLVMCreateBuilderInContext(c);
	LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(c, f, ""));
	LLVMBuildRet(b, LLVMBuildAdd(b, LLVMGetParam(f, 0), LLVMConstInt(i32, add, 0), ""));
	assert_int_equal(LLVMGetTargetFromTriple("x86_64-unknown-linux-gnu", &target, &text), 0);
	LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
		target, "x86_64-unknown-linux-gnu", "x86-64-v2", "", LLVMCodeGenLevelDefault,
		LLVMRelocPIC, LLVMCodeModelDefault);
	assert_int_equal(
		LLVMTargetMachineEmitToMemoryBuffer(machine, m, LLVMObjectFile, &text, &object), 0);
	stx_bytes_put(out, LLVMGetBufferStart(object), LLVMGetBufferSize(object));
	LLVMDisposeMemoryBuffer(object);
	LLVMDisposeTargetMachine(machine);
	LLVMDisposeBuilder(b);
	LLVMDisposeModule(m);
	LLVMContextDispose(c);
}

/* Kills the process on any system call but the few a link and an emission need. */
static int close_sandbox(void)
{
	static const int allowed[] = {
		SCMP_SYS(brk),         SCMP_SYS(mmap),
		SCMP_SYS(munmap),      SCMP_SYS(mremap),
		SCMP_SYS(madvise),     SCMP_SYS(mprotect),
		SCMP_SYS(futex),       SCMP_SYS(write),
		SCMP_SYS(exit_group),  SCMP_SYS(sched_getaffinity), /* lld counts CPUs */
#ifdef __SANITIZE_ADDRESS__
		SCMP_SYS(sigaltstack), /* the sanitizer's, of a thread that ends */
		SCMP_SYS(gettid),      SCMP_SYS(sched_yield),
		SCMP_SYS(exit),        SCMP_SYS(rt_sigprocmask),
#endif
	};
	static const int refused[] = { SCMP_SYS(access), SCMP_SYS(stat), SCMP_SYS(newfstatat),
				       SCMP_SYS(lstat) };
	scmp_filter_ctx f = seccomp_init(SCMP_ACT_KILL_PROCESS);
	int rc = f ? 0 : -1;
	for (size_t i = 0; !rc && i < sizeof allowed / sizeof *allowed; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; !rc && i < sizeof refused / sizeof *refused; i++)
		rc = seccomp_rule_add(f, SCMP_ACT_ERRNO(EPERM), refused[i], 0);
	rc = rc ? rc : seccomp_load(f);
	seccomp_release(f);
	return rc;
}

static void *load(const void *at, size_t n)
{
	char path[64];
	int fd = memfd_create("artifact", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, at, n), (ssize_t)n);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h)
		fail_msg("%s", dlerror());
	return h; /* fd stays open: a reused number would make glibc return the old library */
}

static void link_two(struct stx_bytes *shared)
{
	struct stx_bytes a = { 0 }, b = { 0 };
	struct stx_diag d = { 0 };
	small_object("stx_k_a", 5, &a);
	small_object("stx_k_b", 7, &b);
	struct stx_span in[2] = { { a.at, a.n }, { b.at, b.n } };
	if (stx_link_shared(in, 2, shared, &d))
		fail_msg("%s", d.text);
	stx_bytes_free(&a);
	stx_bytes_free(&b);
}

static struct stx_kernel *parse(struct stx_arena *a, const char *text)
{
	struct stx_diag d = { 0 };
	struct stx_kernel *k = NULL;
	if (stx_kernel_parse(a, text, strlen(text), &k, &d))
		fail_msg("%s", d.text);
	return k;
}

/* text_rowsum, named by its digest, and text_flat, emitted and linked. 0 on success. */
static int emit_and_link(struct stx_llvm *l, struct stx_kernel *const k[2], const char *target,
			 struct stx_bytes *shared)
{
	struct stx_bytes o[2] = { { 0 }, { 0 } };
	struct stx_cpu_target t;
	if (stx_cpu_target_parse(target, &t, NULL))
		return -1;
	int e = 0;
	for (int i = 0; i < 2 && !e; i++)
		e = stx_emit_llvm(l, k[i], &t, 0, STX_EMIT_OBJECT, &o[i], NULL, NULL);
	struct stx_span in[2] = { { o[0].at, o[0].n }, { o[1].at, o[1].n } };
	e = e ? e : stx_link_shared(in, 2, shared, NULL);
	stx_bytes_free(&o[0]);
	stx_bytes_free(&o[1]);
	return e;
}

static int compare_bytes(const void *a, const void *b)
{
	return *(const unsigned char *)a - *(const unsigned char *)b;
}

/* The worker's life: warm up, close the sandbox, compile and link; somebody else loads the result.
 */
static void test_link_emission_and_link_under_seccomp_give_a_loadable_object(void **state)
{
	(void)state;
	struct stx_diag d = { 0 };
	struct stx_llvm *l = NULL;
	struct stx_arena *arena = stx_arena_new(0);
	struct stx_kernel *k[2] = { parse(arena, text_rowsum), parse(arena, text_flat) };
	struct stx_bytes warm = { 0 };
	unsigned char many[2048] = { 0 };
	int pipefd[2];
	assert_int_equal(stx_llvm_new(&l, &d), 0);
	qsort(many, sizeof many, 1, compare_bytes); /* as warm_up() in compile.c */
	assert_int_equal(emit_and_link(l, k, "cpu:x86-64-v2", &warm), 0);
	assert_int_equal(pipe(pipefd), 0);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		struct stx_bytes shared = { 0 };
		if (close_sandbox())
			_exit(3);
		if (emit_and_link(l, k, "cpu:x86-64-v4", &shared) ||
		    emit_and_link(l, k, "cpu:x86-64-v3", &shared))
			_exit(4);
		stx_bytes_clear(&shared);
		if (emit_and_link(l, k, "cpu:x86-64-v2", &shared))
			_exit(4);
		ssize_t w = write(pipefd[1], shared.at, shared.n);
		_exit(w == (ssize_t)shared.n ? 0 : 5);
	}
	close(pipefd[1]);
	static uint8_t got[1 << 16];
	size_t n = 0;
	for (ssize_t r; (r = read(pipefd[0], got + n, sizeof got - n)) > 0;)
		n += (size_t)r;
	close(pipefd[0]);
	int status = 0;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(WIFSIGNALED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(n, warm.n);
	assert_memory_equal(got, warm.at, n);

	struct stx_digest digest;
	char symbol[64];
	assert_int_equal(stx_kernel_digest(k[0], &digest, &d), 0);
	stx_kernel_symbol(&digest, symbol);
	void *h = load(got, n);
	stx_kernel_fn *fn = (stx_kernel_fn *)(uintptr_t)dlsym(h, symbol);
	assert_non_null(fn);
	static float a[8192], b[8192], out[64];
	for (int i = 0; i < 8192; i++) {
		a[i] = 1;
		b[i] = i / 128 % 2 ? -3 : 2;
	}
	struct stx_bounds_record bounds = { 0 };
	struct stx_kernel_frame frame = { (void *[]){ a, b, out }, NULL, &bounds, NULL, NULL };
	fn(&frame, 0, 64);
	for (int i = 0; i < 64; i++)
		assert_true(out[i] == (i % 2 ? 0 : 768)); /* 128 * relu(a + b) * 2 */
	stx_bytes_free(&warm);
	stx_llvm_free(l);
	stx_arena_free(arena);
}

static void test_link_equal_inputs_give_equal_bytes(void **state)
{
	(void)state;
	struct stx_bytes a = { 0 }, b = { 0 };
	link_two(&a);
	link_two(&b);
	assert_int_equal(a.n, b.n);
	assert_memory_equal(a.at, b.at, a.n);
	stx_bytes_free(&a);
	stx_bytes_free(&b);
}

static void test_link_bad_object_is_an_error_and_the_next_link_works(void **state)
{
	(void)state;
	struct stx_bytes good = { 0 };
	struct stx_span bad = { (const uint8_t *)"this is not an object", 21 };
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	assert_int_equal(stx_link_shared(&bad, 1, &out, &d), STX_E_COMPILE);
	assert_string_equal(d.stage, "link");
	assert_true(d.text[0] != 0);
	assert_int_equal(out.n, 0);
	link_two(&good);
	stx_bytes_free(&good);
	assert_int_equal(stx_link_shared(&bad, 0, &out, NULL), STX_E_TOO_LARGE);
}

static void test_link_duplicate_symbols_is_an_error(void **state)
{
	(void)state;
	struct stx_bytes a = { 0 }, out = { 0 };
	struct stx_diag d = { 0 };
	small_object("stx_k_a", 5, &a);
	struct stx_span in[2] = { { a.at, a.n }, { a.at, a.n } };
	assert_int_equal(stx_link_shared(in, 2, &out, &d), STX_E_COMPILE);
	assert_non_null(strstr(d.text, "stx_k_a"));
	stx_bytes_free(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_link_emission_and_link_under_seccomp_give_a_loadable_object),
		cmocka_unit_test(test_link_equal_inputs_give_equal_bytes),
		cmocka_unit_test(test_link_bad_object_is_an_error_and_the_next_link_works),
		cmocka_unit_test(test_link_duplicate_symbols_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
