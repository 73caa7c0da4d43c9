/* kernel.h
 * kernel IR: one kernel = parameters, axes with bindings, and a flat list of instructions in which
 * loops, accumulators and stores are structured markers around SSA code. CPU and GPU emitters both
 * start here.
 *
 * Text form prints and parses; its bytes with normalised names are what the kernel digest is taken
 * of and what travels to an emit job. Built from loops.h buffers by kernel_build.c; value numbering
 * merges equal instructions (GK-16, LO-29); elementary functions are already expanded. One arena,
 * one thread.
 *
 * Meaning (every emitter holds to this; stx_kernel_verify checks what can be checked):
 * - A kernel runs its instruction list once for every grid point. Axis 0 is the only GRID axis (a
 *   GPU kernel may have axes 0 to 2, x, y and z, whose points are elements); it is never opened by a
 *   LOOP and its variable is visible everywhere. Grid points may run in any order, at once. A GPU
 *   kernel has no VECTOR axes: which grid points and which iterations of its one loop axis a
 *   thread takes is the emitter's configuration; iterations of an axis that is no reduction are made
 *   in order, by one thread, in a kernel without SORT (an update in place), and by any in one with.
 * - LOOP a .. END runs its body for every value of axis a, [0, size). A size may depend on scalars
 *   and on the variables of axis 0 and of enclosing loops: `min(4096, n - 4096*(x0 % 3))` is a chunk
 *   with its tail. It is evaluated where the LOOP stands; 0 or less runs nothing.
 * - A VECTOR loop runs W iterations at once, W being the emitter's choice. It is the last level of
 *   parallelism: no VECTOR loop inside a VECTOR loop, but LOOPs may stand inside one (each lane
 *   then runs them for itself: a column reduction). The tail mask is implied: lanes at or past the
 *   size touch no memory, check no bounds and change no accumulator. There are no explicit tail
 *   masks.
 * - Values are SSA: visible to the end of the innermost loop that encloses their definition. A
 *   value is uniform in a VECTOR loop when it does not depend on the axis' variable: emitters keep it
 *   scalar, in particular a LOAD whose index is free of that variable is one scalar load. The builder
 *   has moved everything that is invariant in a loop out of it.
 * - Iterations of a VECTOR loop and of the grid are independent but for accumulators and for stores
 *   of equal values to equal elements.
 * - Parameters that are not written may overlap each other. A written parameter may be the same
 *   memory as one that is read (in-place reuse) only when every access to both has one and the same
 *   index expression; at each iteration all loads come before all stores. So an emitter may not
 *   declare parameters noalias, and keeps loads and stores of one iteration in order. A parameter
 *   that is both loaded and stored holds what an earlier loop, or an earlier iteration of a LOOP (an
 *   update in place), of the same grid point and lane stored.
 * - 16-bit and 8-bit floats occur only in CONST, LOAD, STORE, CAST, BITCAST, SELECT and INDEX;
 *   arithmetic is in f32 or f64 with explicit CASTs (rounding after every node).
 *
 * Accumulators. ACC opens one, before the LOOP `a` (same level, only other ACCs, CONSTs and pure
 * values between); exactly one UPDATE feeds it, inside that loop; RESULTs read it after the
 * matching END. All loops from ACC to UPDATE are reduction axes. Its value starts at the monoid's
 * identity for dtype (loops.h); a loop that never runs leaves the identity. combine(x, y) has x as
 * the earlier operand.
 *
 *   SUM PROD MAX MIN ANY ALL  UPDATE b (dtype of ACC)
 *   DOT                       UPDATE b, c (dtype of ACC): state = fma(b, c, state) (integers:
 *                             b*c + state, wrapping); partial states add
 *   ARGMAX ARGMIN             UPDATE b (dtype of ACC), c (i64 position): states (value, position);
 *                             NaN beats all; equal values (or two NaNs): the lower position.
 *                             Identity position INT64_MAX
 *   WELFORD                   UPDATE b: states (mean, m2, weight), weight + 1
 *   SOFTMAX                   UPDATE b: states (max, sum); b is the state (b, 1). combine: M = max,
 *                             sum = sumx*e(mx) + sumy*e(my), e(m) = exp(m == M ? 0 : m - M), the
 *                             elementary function; so merging two identities gives one (MR-05).
 *                             In order TREE e is exp within 1 ulp, and several states may merge
 *                             at once
 *
 *   ATTEND                    UPDATE b, c (dtype of ACC): score and value; order BLOCKS. State (m, l, a)
 *                             from (-inf, 0, 0). Every 64 iterations of the loop around UPDATE, and
 *                             at its end: t = max(m, their scores); f = 0 where t is -inf, else t;
 *                             w = exp(m - f), l = l*w, a = a*w, m = t; then for each in order
 *                             p = exp(b - f), l = l + p, a = fma(p, c, a). RESULT 0: a / l;
 *                             RESULT 1: the same, and a where l is 0
 *
 * A row of states (GPU): ACC with an axis c has a state for every value of it; UPDATE, in a LOOP over c
 * inside those of `a`, and RESULT, in one after them, mean the state of their value of c. So a loop over
 * rows sums down the columns of what it does along them. Its monoid has one state; order TREE.
 *
 * In order RUNNING RESULTs stand in the loop instead (below).
 *
 * RESULT flags = state number; state 1 of ARGMAX and ARGMIN is i64, all others have ACC's dtype.
 *
 * Sorts. SORT, outside every LOOP, works on elements [ex, ex + 2n) of two parameters, keys (u32 or
 * u64) and values (i32), n being the size of axis c, below 2^31. The first n pairs (key, value) are
 * put in ascending order of their keys, equal ones keeping theirs; the second n elements of both
 * are undefined afterwards, and with `first K` (CPU) all but the first K are. In a GPU kernel the
 * values ascend at first: they tell equal keys apart.
 */
#ifndef STX_KERNEL_H
#define STX_KERNEL_H

#include "bytes.h"
#include "expr.h"
#include "hash.h"
#include "loops.h"
#include "prims.h"
#include "stax_abi.h"

enum stx_binding {
	STX_AXIS_GRID,  /* the kernel's grid points: CPU threads take ranges of them, GPU blocks */
	STX_AXIS_LOOP,  /* serial */
	STX_AXIS_VECTOR /* lanes: explicit vectors on the CPU; masked tail */
};
const char *stx_binding_name(enum stx_binding b); /* "grid", "loop", "vector" */

/* Order in which an accumulator combines (NUMERICS.md): depends on shapes and layouts only, never
 * on the target. Where combination is exact (integers, MAX, MIN, ANY, ALL, ARGMAX, ARGMIN) any
 * order gives the same bits and an emitter may use what is fastest; for floating SUM, PROD, DOT,
 * WELFORD and SOFTMAX it is binding. Chunk results merge in binary-counter order: push each on a
 * stack with rank 0; while the two topmost ranks are equal replace them by combine(lower, upper)
 * with rank + 1; at the end fold the stack from the top: v = top; v = combine(next, v) down to the
 * bottom. One chunk: its result unchanged. */
enum stx_order {
	STX_ORDER_LANES,   /* the innermost loop around UPDATE is the reduction VECTOR axis v. 64
			     virtual lanes, each from the identity: iteration v goes to lane v mod
			     64, in order. Every 1024 iterations of v and at its end the lanes merge
			     pairwise, combine(l, l+32), then +16, +8, +4, +2, +1: one chunk. Every
			     run of the v loop starts a new chunk; one without iterations makes
			     none */
	STX_ORDER_SERIAL,  /* no VECTOR loop between ACC and UPDATE. One running value from the
			     identity, in order of iterations; every 16 iterations of the innermost
			     loop around UPDATE and at its end: one chunk */
	STX_ORDER_PLAIN,   /* as SERIAL without chunks: one running value over all iterations in
			     order */
	STX_ORDER_BLOCKS,  /* of ATTEND, and no other */
	STX_ORDER_RUNNING, /* as PLAIN, in the one loop of a scan: RESULT stands in it, after UPDATE,
			      and is the value with this iteration; of equal values (or two NaNs) an
			      ARGMAX or ARGMIN has the later position */
	STX_ORDER_TREE     /* GPU: an order the configuration fixes: threads take strides of the
			     iterations, their results merge pairwise */
};
#define STX_LANES 64
#define STX_LANES_CHUNK                                                                            \
	1024 /* with either, 16 in sequence: a million tenths sum to within 0.02 (B41) */
#define STX_SERIAL_CHUNK 16
#define STX_ATTEND_BLOCK 64 /* keys */

struct stx_axis {
	const char *name; /* "x0", "r0": one of x y z r, then letters, digits, '_' */
	stx_ex size;
	enum stx_binding binding;
	uint8_t is_reduction;
	uint32_t var; /* variable number of index expressions = axis number */
};

enum stx_kop {                               /* a primitive below STX_P_FIRST_ELEMENTARY, or: */
	       STX_K_CONST = STX_PRIM_COUNT, /* k */
	       STX_K_INDEX,                  /* index expression ex as dtype (through i64) */
	       STX_K_LOAD,  /* param a at element ex, mask c or STX_NONE: masked-off lanes touch no
			       memory,  give 0 */
	       STX_K_STORE, /* param a at element ex, value b, mask c or STX_NONE; dtype = the
			       value's */
	       STX_K_INDIRECT, /* run-time value a (i64) becomes index atom number = this
				  instruction's own number, with range [0, bound ex - 1]; flag
				  STX_BF_WRAP adds the bound when negative; flag STX_BF_CHECK:
				  outside the bound the first {kernel, axis field, index, bound}
				  goes to the frame's record and 0 is used; mask c or STX_NONE:
				  masked-off lanes are not checked and give 0. dtype i64 */
	       STX_K_LOOP,     /* begins axis a; ends at the matching END. Code inside sees its
				  variable. */
	       STX_K_END,      /* a = the LOOP instruction it ends */
	       STX_K_ACC, /* accumulator: monoid in flags, order in axis field, dtype; lives until
			     RESULT; placed before the reduction LOOP(s) it accumulates over (a =
			     first loop axis); c: axis that each value of has its own, or STX_NONE
			     */
	       STX_K_UPDATE, /* accumulator a with values b (and c, else STX_NONE); dtype of ACC */
	       STX_K_RESULT, /* value of accumulator a after its loops; flags = which state value */
	       STX_K_SORT, /* pairs of params a (keys, dtype) and b (values) from element ex; axis c;
			      k.i: so many are wanted, 0: all */
	       STX_KOP_COUNT
};

/* Operands are instruction numbers; unused ones are STX_NONE, an unused ex is STX_EX_BAD, k is 0.
 */
struct stx_kinst {
	uint8_t op, dtype, flags, axis;
	uint32_t a, b, c;
	stx_ex ex;
	union stx_scalar k;
};

struct stx_kparam {
	const char *name;
	enum stx_dtype dtype;
	uint8_t is_written, is_read;
	uint8_t is_constant; /* of a product in tiles: the same in every run, so that it may be packed
				once (5_codegen/emit_llvm_tile_prepare.c) */
	stx_ex elems;        /* elements reachable from the pointer; over scalars only */
	uint32_t buffer;     /* loops buffer id (not in the text form or digest) */
};

struct stx_kernel {
	struct stx_arena *arena;
	struct stx_exprs *ex;
	const char *name; /* "per_fused_add_relu_sum_0"; not in the digest */
	enum stx_kernel_kind kind;
	STX_VEC(struct stx_kparam) params;
	STX_VEC(struct stx_axis) axes;
	STX_VEC(struct stx_kinst) insts;
	STX_VEC(uint32_t)
	scalars; /* size symbols passed as scalar arguments, by number, ascending; the
		    text calls them s0, s1, ... by position */
	STX_VEC(stx_ex) scalar_ex; /* their expressions (range, hint), beside scalars */
	uint8_t index_bits; /* 32 or 64 (VR-08): width in which index expressions of LOAD, STORE and
			       INDEX may be computed, variables included; sizes of axes, bounds and
			       grid points always have 64 */
	uint8_t target_gpu;
	uint16_t block_words; /* CPU products in tiles: terms packed at once, at most
				 (cpu_blocking.h); 0: not said. Changes no result */
	const struct stx_cut_product *product; /* of a scheduled kernel with tiles; else NULL. Not
						  in the text */
	stx_ex grid;                           /* grid points = size of axis 0; over scalars only */
	stx_ex grain; /* fewest grid points worth a thread; over scalars only */
};

#define STX_KERNEL_MAX_PARAMS 4096
#define STX_KERNEL_MAX_AXES   64
#define STX_KERNEL_MAX_INSTS  65536
#define STX_KERNEL_MAX_LOOPS  32 /* nesting */

/* Over all fields: instructions whose operands are value numbers have equal values when they are
 * equal and pure. */
uint64_t stx_kinst_hash(const struct stx_kinst *i);
int stx_kinst_equal(const struct stx_kinst *p, const struct stx_kinst *q);

/* Works in k's arena and expressions; changes nothing of the kernel itself. */
stx_err stx_kernel_verify(struct stx_kernel *k, struct stx_diag *d);
/* Text:
 *   kernel "per_fused_add_relu_sum_0" per bits 32 target cpu
 *                                                 (then `block 320`: block_words)
 *   scalar s0 range 1 4096 hint 64                (size symbols, in order)
 *   param p0 f32 read elems 8192 "primals_1"      (read | read constant | write | readwrite)
 *   param p1 f32 write elems 64 "buf0"
 *   axis x0 grid 64                               (grid | loop | vector)
 *   axis r0 vector reduction 128
 *   grain 16
 *   begin
 *     t0 = acc sum lanes f32 r0                   (monoid, order, dtype, first loop axis)
 *     loop r0
 *       t2 = load f32 p0[128*x0 + r0]             (then `mask tN`)
 *       t3 = const f32 0x1p+1
 *       t4 = mul f32 t2 t3                        (any primitive)
 *       update t0 t4
 *     end
 *     t7 = result f32 t0 0
 *     store f32 p1[x0] t7
 *   end
 * also `tN = acc sum tree f32 r1 each r0`, `sort u32 pA pB[EX] AXIS [first K]`, `tN = index i64 EX`,
 * `tN = indirect tM bound EX axis A [wrap] [check] [mask tK]`. A value printed tN is instruction N;
 * index expressions name indirect values the same way. Parsing takes any numbering and renumbers.
 * Floats are hexadecimal, nan(0x7ff8000000000000), inf, -inf. */
stx_err stx_kernel_print(const struct stx_kernel *k, struct stx_bytes *out);
/* The result has passed stx_kernel_verify. */
stx_err stx_kernel_parse(struct stx_arena *a, const char *text, size_t n, struct stx_kernel **out,
			 struct stx_diag *d);
/* SHA-256 of the text with the kernel's and parameters' names normalised, hints and grain left out.
 */
stx_err stx_kernel_digest(const struct stx_kernel *k, struct stx_digest *out, struct stx_diag *d);
/* Symbol of the emitted function: "stx_k_" and 32 hex digits of the digest. */
void stx_kernel_symbol(const struct stx_digest *digest, char out[64]);
/* Of the function that packs its operand of that number before the run: "stx_p0_" and 32 digits. */
void stx_kernel_prepare_symbol(const struct stx_digest *digest, uint32_t number, char out[64]);
const char *stx_kernel_kind_name(enum stx_kernel_kind kind); /* "poi", "red", "per", "tem" */

#endif
