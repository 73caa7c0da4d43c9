/* cuda_host.h
 * runs generated CUDA C on this machine: compiled as C++, threads of a block as coroutines.
 *
 * For tests of what the emitter writes, where there is no GPU. A block's threads run in turn from
 * barrier to barrier; a shuffle is a barrier too (generated code has both only where all threads of
 * the block come by). Functions whose body is PTX are replaced by ones of the same meaning. Buffers
 * are the caller's, so memory checkers see every access. One thread. Blocks of a cluster run side by
 * side; since they write the same to each other's shared memory, they have one. */
#ifndef STX_TEST_CUDA_HOST_H
#define STX_TEST_CUDA_HOST_H

#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "bytes.h"
#include "scalar.h"

/* What the host gives to the code; the first lines of it declare the same struct. */
struct cuda_host {
	unsigned thread, block[3], grid[3], threads;
	void (*barrier)(void);
	unsigned long long (*exchange)(unsigned long long value, unsigned from);
	float (*f16_to_f32)(unsigned short);
	unsigned short (*f32_to_f16)(float), (*f32_to_bf16)(float);
};

static const char cuda_host_head[] =
	"#include <cmath>\n#include <cstring>\n"
	"struct cuda_host { unsigned thread, block[3], grid[3], threads; void (*barrier)();\n"
	" unsigned long long (*exchange)(unsigned long long, unsigned);\n"
	" float (*f16_to_f32)(unsigned short); unsigned short (*f32_to_f16)(float), "
	"(*f32_to_bf16)(float); };\n"
	"extern \"C\" cuda_host *cuda_host_at; cuda_host *cuda_host_at;\n"
	"struct place_ { unsigned x, y, z; };\n"
	"#define threadIdx (place_{cuda_host_at->thread, 0, 0})\n"
	"#define blockDim (place_{cuda_host_at->threads, 1, 1})\n"
	"#define blockIdx (place_{cuda_host_at->block[0], cuda_host_at->block[1], "
	"cuda_host_at->block[2]})\n"
	"#define gridDim (place_{cuda_host_at->grid[0], cuda_host_at->grid[1], "
	"cuda_host_at->grid[2]})\n"
	"#define __global__\n#define __device__\n#define __forceinline__ inline\n"
	"#define __noinline__\n#define __launch_bounds__(...)\n#define __shared__ static\n"
	"static void __syncthreads() { cuda_host_at->barrier(); }\n"
	"template <class T> static T __shfl_xor_sync(unsigned, T v, int o) {\n"
	"  unsigned long long w = 0; std::memcpy(&w, &v, sizeof v);\n"
	"  w = cuda_host_at->exchange(w, cuda_host_at->thread ^ (unsigned)o);\n"
	"  std::memcpy(&v, &w, sizeof v); return v;\n}\n"
	"template <class T, class F> static T bits_(F f) { T t; std::memcpy(&t, &f, sizeof t); "
	"return t; }\n"
	"static float __int_as_float(int v) { return bits_<float>(v); }\n"
	"static int __float_as_int(float v) { return bits_<int>(v); }\n"
	"static double __longlong_as_double(long long v) { return bits_<double>(v); }\n"
	"static long long __double_as_longlong(double v) { return bits_<long long>(v); }\n"
	"static int atomicCAS(int *p, int a, int b) { int old = *p; if (old == a) *p = b; return "
	"old; }\n"
	"template <class T> static T host_max_(T a, T b) { return a != a ? a : b != b ? b : a == b "
	"? (std::signbit(a) ? b : a) : a > b ? a : b; }\n"
	"template <class T> static T host_min_(T a, T b) { return a != a ? a : b != b ? b : a == b "
	"? (std::signbit(a) ? a : b) : a < b ? a : b; }\n"
	"static unsigned long long host_mul_wide(unsigned a, unsigned b) { return (unsigned long "
	"long)a * b; }\n"
	"static void host_cluster_begin() {}\nstatic void host_cluster_arrive() {}\n"
	"static void host_cluster_wait() { cuda_host_at->barrier(); }\n"
	"static unsigned long long host_cluster_at(unsigned long long a, unsigned) { return a; }\n"
	"static void host_ahead_(const void *) {}\n"
	"static float host_rcp_near(float x) { return 1 / x; }\n"
	"static float host_bf16_to_f32(unsigned short x) { return bits_<float>((unsigned)x << 16); "
	"}\n"
	"#define host_f16_to_f32 cuda_host_at->f16_to_f32\n"
	"#define host_f32_to_f16 cuda_host_at->f32_to_f16\n"
	"#define host_f32_to_bf16 cuda_host_at->f32_to_bf16\n"
	"using std::fabs; using std::fmaf; using std::fmaxf; using std::fminf; "
	"using std::sqrt; "
	"using std::trunc;\n";

/* Adds a source to the program, its names in a namespace of their own. */
static inline void cuda_host_add(struct stx_bytes *program, const char *source, int number)
{
	if (!program->n)
		stx_bytes_puts(program, cuda_host_head);
	stx_bytes_printf(program, "namespace k%d {\n", number);
	for (const char *line = source, *end; *line; line = end) {
		end = strchr(line, '\n');
		end = end ? end + 1 : line + strlen(line);
		const char *body = memchr(line, '{', (size_t)(end - line)), *name;
		if (!body || !memmem(line, (size_t)(end - line), " asm", 4)) {
			stx_bytes_put(program, line, (size_t)(end - line));
			continue;
		}
		const char *args = memchr(line, '(', (size_t)(body - line));
		for (name = args; name[-1] != ' ';)
			name--;
		stx_bytes_put(program, line, (size_t)(body - line));
		stx_bytes_printf(program, "{ return host_%.*s(%s); }\n", (int)(args - name), name,
				 args[1] == ')'                             ? ""
				 : memchr(args, ',', (size_t)(body - args)) ? "a, b"
									    : "x");
	}
	stx_bytes_puts(program, "}\n");
}

struct cuda_host_threads {
	struct cuda_host h;
	ucontext_t main, *at;
	char *stacks;
	unsigned char *done;
	unsigned long long (*slots)[2];
	unsigned *turn;
	unsigned at_thread, first; /* of all of the cluster; its first block */
	void (*kernel)(void);
	void *const *args;
};
static struct cuda_host_threads cuda_host_now;
#define CUDA_HOST_STACK (256u << 10)

static inline void cuda_host_barrier(void)
{
	swapcontext(&cuda_host_now.at[cuda_host_now.at_thread], &cuda_host_now.main);
}

static inline unsigned long long cuda_host_exchange(unsigned long long value, unsigned from)
{
	unsigned me = cuda_host_now.at_thread, turn = cuda_host_now.turn[me]++ & 1;
	from += me - cuda_host_now.h.thread;
	cuda_host_now.slots[me][turn] = value;
	cuda_host_barrier();
	return cuda_host_now.slots[from][turn];
}

static inline float cuda_host_from_f16(unsigned short v)
{
	return (float)stx_scalar_from_bits(STX_F16, v);
}
static inline unsigned short cuda_host_to_f16(float v)
{
	return (unsigned short)stx_scalar_bits(STX_F16, v);
}
static inline unsigned short cuda_host_to_bf16(float v)
{
	return (unsigned short)stx_scalar_bits(STX_BF16, v);
}

/* Integer registers and stack carry every argument: pointers, long long, int. Up to 16. */
static inline void cuda_host_thread(void)
{
	void *const *a = cuda_host_now.args;
	typedef void fn(void *, void *, void *, void *, void *, void *, void *, void *, void *,
			void *, void *, void *, void *, void *, void *, void *);
	((fn *)cuda_host_now.kernel)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
				     a[10], a[11], a[12], a[13], a[14], a[15]);
	cuda_host_now.done[cuda_host_now.at_thread] = 1;
}

static inline void cuda_host_start(struct cuda_host_threads *t, unsigned i)
{
	getcontext(&t->at[i]);
	t->at[i].uc_stack.ss_sp = t->stacks + (size_t)i * CUDA_HOST_STACK;
	t->at[i].uc_stack.ss_size = CUDA_HOST_STACK;
	t->at[i].uc_link = &t->main;
	makecontext(&t->at[i], cuda_host_thread, 0);
}

/* A thread goes on to its next barrier, or its end. */
static inline void cuda_host_step(struct cuda_host_threads *t, unsigned i)
{
	t->at_thread = i;
	t->h.thread = i % t->h.threads;
	t->h.block[0] = t->first + i / t->h.threads;
	swapcontext(&t->main, &t->at[i]);
}

static inline void cuda_host_block(unsigned threads)
{
	struct cuda_host_threads *t = &cuda_host_now;
	memset(t->done, 0, threads);
	memset(t->turn, 0, threads * sizeof *t->turn);
	for (unsigned i = 0; i < threads; i++)
		cuda_host_start(t, i);
	while (memchr(t->done, 0, threads))
		for (unsigned i = 0; i < threads; i++)
			if (!t->done[i])
				cuda_host_step(t, i);
}

/* args: 16, the kernel's in order. */
static inline void cuda_host_launch(void *program, const char *symbol, const unsigned grid[3],
				    unsigned block_threads, unsigned cluster, void *const *args)
{
	unsigned threads = block_threads * cluster;
	struct cuda_host_threads *t = &cuda_host_now;
	void *entry = dlsym(program, symbol);
	memset(t, 0, sizeof *t);
	memcpy(&t->kernel, &entry, sizeof entry);
	*(struct cuda_host **)dlsym(program, "cuda_host_at") = &t->h;
	t->h.barrier = cuda_host_barrier;
	t->h.exchange = cuda_host_exchange;
	t->h.f16_to_f32 = cuda_host_from_f16;
	t->h.f32_to_f16 = cuda_host_to_f16;
	t->h.f32_to_bf16 = cuda_host_to_bf16;
	t->h.threads = block_threads;
	memcpy(t->h.grid, grid, sizeof t->h.grid);
	t->args = args;
	t->at = calloc(threads, sizeof *t->at);
	t->stacks = malloc((size_t)threads * CUDA_HOST_STACK);
	t->done = calloc(threads, 1);
	t->slots = calloc(threads, sizeof *t->slots);
	t->turn = calloc(threads, sizeof *t->turn);
	for (unsigned z = 0; z < grid[2]; z++)
		for (unsigned y = 0; y < grid[1]; y++)
			for (unsigned x = 0; x < grid[0]; x += cluster) {
				t->first = x;
				t->h.block[1] = y;
				t->h.block[2] = z;
				cuda_host_block(threads);
			}
	free(t->at);
	free(t->stacks);
	free(t->done);
	free(t->slots);
	free(t->turn);
}

/* The sources that were added, compiled and loaded; NULL: no C++ compiler here, or it failed. */
static inline void *cuda_host_compile(const struct stx_bytes *program)
{
	char dir[] = "/tmp/stax-cuda-host-XXXXXX", command[512], source[64], object[64];
	if (!mkdtemp(dir))
		return NULL;
	snprintf(source, sizeof source, "%s/k.cc", dir);
	snprintf(object, sizeof object, "%s/k.so", dir);
	FILE *f = fopen(source, "w");
	if (f) {
		fwrite(program->at, 1, program->n, f);
		fclose(f);
	}
	snprintf(command, sizeof command,
		 "${CXX:-g++} -std=c++17 -O1 -w -fPIC -shared -ffp-contract=off "
		 "-fno-strict-aliasing -o %s %s",
		 object, source);
	void *h = f && system(command) == 0 ? dlopen(object, RTLD_NOW | RTLD_LOCAL) : NULL;
	if (!getenv("STX_KEEP_CUDA_HOST")) {
		unlink(source);
		unlink(object);
		rmdir(dir);
	}
	return h;
}

#endif
