/* emit_llvm.h
 * state of one kernel's translation to LLVM IR, shared by emit_llvm*.c only.
 *
 * Values. A kernel value is uniform (one LLVM scalar) or, inside the VECTOR loop that is being
 * emitted, varying: `copies` vectors of `w` lanes, so that one pass through the loop handles
 * copies*w iterations. bool is i1. Floats below 32 bits have two forms, both made where the value
 * is defined (unused ones are dead and go): `v`, the value widened to f32, and `raw`, its bits as
 * an integer; an f32 that is a bf16 value for certain has the latter's. Straight-line pieces
 * between loop markers are emitted copy by copy, so register
 * pressure is that of one copy and the stores of a copy come after its loads. Control flow: one
 * builder that always stands at the end of the current block; all allocas in `entry`. Accumulators
 * and nothing else live in allocas; the mem2reg pass turns those that can be into SSA. */
#ifndef STX_EMIT_LLVM_H
#define STX_EMIT_LLVM_H

#include <llvm-c/Core.h>

#include "codegen.h"

#define STX__DEPTHS        (STX_KERNEL_MAX_LOOPS + 2)
#define STX__MAX_COPIES    64  /* 64 virtual lanes / 1 */
#define STX__MOST_OF_LANES 192 /* instructions that take all of them through a loop's body */

struct stx__val {
	LLVMValueRef v, raw;
};

struct stx__acc {
	uint32_t inst, loop, inner,
		update; /* ACC, its first LOOP, the LOOP around UPDATE, UPDATE */
	uint8_t monoid, order, nstates;
	enum stx_dtype dtype;
	uint8_t exact;     /* any order of combination gives the same bits */
	uint8_t runs;      /* order RUNNING: results in its loop */
	uint8_t keyed;     /* MAX, MIN of f32: states are integers (emit_llvm_reduce.c) */
	uint8_t parted;    /* chunk results go through the binary-counter stack */
	uint8_t in_memory; /* LANES: the registers are in `array` now, chosen by e->slot */
	unsigned w;        /* lanes of one state: 1, or the vector loop's */
	unsigned slots;    /* vectors a state has */
	unsigned reach;    /* LANES: virtual lanes that change; the others stay the identity, which
			      combined with them changes no bit */
	unsigned copies; /* results: 1, or the copies of the vector loop around the whole reduction
			  */
	unsigned ranks;  /* places of the stack of partial results */
	unsigned pitch;  /* vectors of a rank, when columns share a stack (emit_llvm_columns.c) */
	LLVMValueRef state[3][STX__MAX_COPIES]; /* allocas */
	LLVMValueRef array[3];                  /* allocas of [slots], or NULL */
	LLVMValueRef stack[3], count;           /* allocas */
	LLVMValueRef final[3][STX__MAX_COPIES];
	struct stx__acc *next_inner,
		*next_loop; /* others of the same `inner`, of the same `loop` */
};

/* A load across the vector axis (emit_llvm_across.c): element x1 + stride*x2 + first, x1 of a serial
 * loop, x2 of the vector loop in it, is at x1*pitch + x2 of a buffer filled before the loops. */
struct stx__across {
	uint32_t load;   /* instruction */
	uint32_t serial; /* axis */
	stx_ex stride, first;
	unsigned w;           /* elements of a side of a block */
	unsigned pitch, rows; /* of the buffer, in elements */
	LLVMValueRef buffer;  /* alloca */
	struct stx__across *next;
};

/* What a value is to another loop (emit_llvm_kept.c), by instruction. */
struct stx__kept {
	uint32_t elems;     /* of the array it is left in; 0: in none */
	uint32_t from;      /* is_read: the instruction that leaves it */
	uint8_t is_read;    /* read from that array, not computed */
	uint8_t is_dead;    /* only what is read instead needed it */
	LLVMValueRef array; /* alloca */
};

/* What is known about a LOOP before emission, and for a VECTOR loop how it will be emitted. */
struct stx__loop_info {
	uint32_t end;      /* its END */
	uint32_t cost;     /* weighted instructions inside */
	uint32_t inside;   /* of cost, in loops inside */
	uint32_t each;     /* cost of an iteration, all those of loops inside it counted */
	uint32_t unrolled; /* cost of all iterations of a loop of few, and of those in it */
	uint32_t states;   /* accumulator values kept for each lane through inner loops */
	uint8_t widest;    /* bytes of the widest value a vector of it holds */
	uint8_t has_loop;  /* another loop inside */
	uint8_t has_rare;  /* a RARELY */
	uint8_t has_f64;   /* values of f64, for usual lanes */
	uint8_t scalar; /* VECTOR, but one lane at a time: an inner size varies, or it only moves */
	uint8_t is_little; /* all its runs together take no time worth more code */
	uint8_t in_memory; /* binding lane accumulators stay in their arrays */
	uint8_t w, copies; /* of the main part; the tail does one copy at a time */
	uint8_t again;     /* the main part's body stands there so many times more */
	struct stx__acc *inner,
		*accs; /* accumulators updated right inside; those that start with it */
	struct stx__across *across; /* loads that are transposed before it */
	uint32_t columns; /* VECTOR: the reduction inside that is made in chunks of rows, or NONE */
};

/* How a tile multiplies. All but FMA take `group` terms at once, packed into one word of the size
 * of a sum; their bits are those of one term after the other. */
enum stx__dot {
	STX__DOT_FMA,  /* sum = a * b + sum, of sums' type */
	STX__DOT_BF16, /* pairs of bf16: vdpbf16ps, or widened in registers */
	STX__DOT_I16,  /* pairs of 16-bit integers: vpdpwssd, or vpmaddwd and an addition */
	STX__DOT_I8    /* fours of bytes, unsigned by signed: vpdpbusd */
};

/* An operand of a tile that may be packed before the run (emit_llvm_tile_prepare.c). */
#define STX__DIGITS 3
struct stx__digit { /* x0 // stride % count, or x0 // stride where that is below count */
	stx_ex at;
	int64_t stride, count;
};
struct stx__prepared {
	uint8_t is_offered;
	uint8_t number;   /* in frame->packed */
	unsigned ndigits; /* they tell its tiles apart, the first is the fastest */
	struct stx__digit digit[STX__DIGITS];
	int64_t tiles, blocks, bytes; /* of all; of a tile; of a block */
	LLVMValueRef at, is_there;    /* while it is emitted: frame->packed[number] */
};

/* A matrix product in tiles (emit_llvm_tile.c). Pitches in words (elements where group is 1), the
 * rest of sizes in bytes. */
struct stx__tile {
	uint32_t rows, cols, terms, acc, update; /* instructions */
	uint32_t value[2];                       /* the operands: with the rows, with the columns */
	uint8_t *in[2]; /* [insts.n] which instructions an operand needs inside the loops */
	uint8_t *was;   /* [insts.n] e->varying while an operand is played */
	enum stx_dtype dtype;
	uint8_t a_by_rows; /* a is packed along its terms, else its rows stand side by side */
	uint8_t b_across;  /* b is read along its terms and transposed */
	uint8_t b_masked;  /* b is read along columns under masks: those of columns are made once */
	int64_t line;      /* b is packed line by line of so many columns; 0: it is not */
	struct stx_kernel *lined; /* the kernel, b's columns by line and place in it: its two last
				     axes */
	uint8_t single;           /* one block of terms */
	uint8_t thin;             /* one row: nothing of b is packed, sums are in the scratch */
	uint8_t keeps[2];   /* all blocks of the operand serve every tile of one x0 // divisor */
	int64_t divisor[2]; /* 0: every tile */
	unsigned w, nv, mr, kc, bytes; /* lanes; vectors and rows of a register tile; terms */
	unsigned row_pitch, term_pitch, panel;
	int64_t most_rows, most_cols;
	int64_t at[2], block[2], acc_at, scratch; /* operands, one block of each, sums; all */
	enum stx__dot dot;
	unsigned group;
	uint8_t unsigned_j; /* I8: which operand is the unsigned one */
	int64_t offset[2];  /* I8: a value is what is packed plus this */
	int64_t sums_at[2]; /* I8: in a block of operand j, sums of what is packed of a row; of a
			       column, in its panel; where the other has an offset */
	uint8_t nprepared;
	struct stx__prepared prepared[2];
	/* while it is emitted */
	LLVMValueRef row0, col0, ncols, slot; /* of the register tile */
	LLVMValueRef packed[2];               /* allocas: which operands are packed */
	LLVMValueRef least, is_wild; /* allocas; BF16 with vdpbf16ps: smallest magnitude of what
					was packed, whether one was too small for it */
	uint8_t in_epilogue;
};

enum { STX__QUERY, STX__KEY, STX__VALUE, STX__SCORE, STX__HOLES };

/* An attention (emit_llvm_attend.c). Pitches in elements, the rest of sizes in bytes. */
struct stx__attend {
	uint32_t rows, cols, keys, terms, acc, update; /* instructions */
	uint32_t sacc, supdate, sresult; /* of the score's product; STX_NONE: it has none */
	uint32_t value[STX__HOLES];      /* of each hole */
	uint8_t *in[STX__HOLES];         /* [insts.n] what it needs inside the loops */
	uint8_t *was;                    /* [insts.n] e->varying while a hole is played */
	uint8_t *across; /* [insts.n] 1 + number of the score's loads that are contiguous along the
			    keys: read so, and transposed */
	uint32_t nacross;
	enum stx_dtype dtype;
	uint8_t by_terms[2]; /* query, key: read along their terms */
	uint8_t masked_rows; /* the score loads something along the rows: not beyond them */
	uint8_t safe;        /* RESULT 1: 0 where no weight is */
	unsigned w, nv, mr, panel, bytes; /* lanes; vectors and sums of a register tile; nv*w */
	int64_t most_rows, ncols, nterms;
	int64_t key_pitch, value_pitch, npanels;
	int64_t wide;                                         /* columns in the scratch */
	int64_t q, s, m, l, o, key, val, out, masks, scratch; /* places in the scratch; all */
	/* while it is emitted */
	LLVMValueRef row0;  /* of the panel */
	LLVMValueRef key0;  /* first of the block */
	LLVMValueRef score; /* a vector of products, while the score's hole is played */
	uint8_t in_epilogue;
};

struct stx__emit {
	const struct stx_kernel *k;
	const struct stx_cpu_target *t;
	int fast, all_long; /* how it is emitted */
	struct stx_arena *arena;
	struct stx_diag *d;
	stx_err err; /* the first failure; what is built after it is discarded */

	LLVMContextRef c;
	LLVMModuleRef m;
	LLVMBuilderRef b;
	LLVMValueRef fn;
	LLVMBasicBlockRef entry; /* allocas, before its terminator */
	LLVMTypeRef i1, i8, i16, i32, i64, f16, f32, f64, ptr;
	LLVMValueRef bounds, zero_slot,
		scratch_slot; /* frame->bounds; 16 zero bytes; 16 to write */
	LLVMValueRef *params, *scalars;
	LLVMValueRef *streams; /* by parameter: i1, its stores bypass the caches; NULL: never */
	uint8_t has_streams;
	struct stx__tile *tile;                  /* NULL: the kernel is no product in tiles */
	struct stx__attend *attend;              /* NULL: nor an attention */
	LLVMValueRef scratch;                    /* frame->scratch, when there is either */
	LLVMValueRef axis[STX_KERNEL_MAX_AXES];  /* i64; of the vector axis: lane 0 of copy 0 */
	uint8_t axis_depth[STX_KERNEL_MAX_AXES]; /* of its loop; 0 for the grid */
	unsigned depth;                          /* loops open around the current instruction */

	struct stx__loop_info *loop; /* by LOOP instruction */
	struct stx__acc **acc;       /* by ACC instruction */
	struct stx__across **across; /* by LOAD instruction */
	struct stx__kept *kept;      /* by instruction */
	uint8_t *varying;            /* by instruction */
	uint8_t in_across;           /* inside a loop with transposed loads */
	struct stx__val *val;        /* [instruction * stride + copy] */
	LLVMValueRef *ok;            /* INDIRECT: lanes within bounds, NULL when not needed */
	unsigned stride;             /* copies a value has room for */

	/* The vector loop being emitted; w == 0: none. */
	uint32_t vaxis;
	unsigned w, copies, mask_bits;
	unsigned copy;       /* being emitted */
	LLVMValueRef rare;   /* lanes, of all copies, where a RARELY is true; NULL: there is none */
	uint8_t *is_usual;   /* by instruction: its value counts where no RARELY is true */
	uint8_t usual;       /* each RARELY is taken for false, and collected in rare */
	uint8_t again;       /* what varies is emitted once again, for them */
	LLVMValueRef mask;   /* prefix mask of the tail, or NULL: every lane is active */
	LLVMValueRef rest;   /* i64: active lanes, when mask is set */
	LLVMValueRef slot;   /* i64: register of lane accumulators that copy 0 belongs to; NULL: */
	unsigned first_slot; /* that one */
	unsigned rows_at_once; /* grid points whose pieces are emitted together */
	struct {               /* far parameters' contiguous loads fetch what they read */
		uint32_t axis; /* so many of its iterations later */
		int64_t by;    /* 0: they do not; -1: nor in windows inside */
	} ahead;
	struct {                         /* the chunk of rows of emit_llvm_columns.c */
		uint32_t loop;           /* the reduction, or STX_NONE */
		uint8_t is_last;         /* all are made, results are wanted */
		LLVMValueRef begin, end; /* rows */
		LLVMValueRef count;      /* chunks before */
	} rows;
	unsigned vector_elems; /* largest w*copies, for the report */
};

/* ---- types and small pieces (emit_llvm_types.c) ---- */
stx_err stx__fail(struct stx__emit *e, stx_err err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
LLVMTypeRef stx__type(struct stx__emit *e, enum stx_dtype t); /* of v: f32 for narrow floats */
LLVMTypeRef stx__mem_type(struct stx__emit *e,
			  enum stx_dtype t); /* in memory: an integer for those */
LLVMTypeRef stx__int_type(struct stx__emit *e, unsigned bits);
LLVMTypeRef stx__vec(LLVMTypeRef t, unsigned w); /* t when w <= 1 */
int stx__is_narrow(enum stx_dtype t);
unsigned stx__lanes_of(const struct stx__emit *e, uint32_t inst); /* 1 or e->w */
/* Constants: every lane the same. */
LLVMValueRef stx__int(LLVMTypeRef t, uint64_t v);
LLVMValueRef stx__real(LLVMTypeRef t, double v);
LLVMValueRef stx__i64(struct stx__emit *e, int64_t v);
LLVMValueRef stx__const(struct stx__emit *e, enum stx_dtype t, union stx_scalar v, unsigned w);
LLVMValueRef stx__iota(struct stx__emit *e, LLVMTypeRef t, unsigned w, int64_t step);
LLVMValueRef stx__splat(struct stx__emit *e, LLVMValueRef v, unsigned w);
LLVMValueRef stx__call(struct stx__emit *e, const char *intrinsic, LLVMTypeRef *types,
		       unsigned ntypes, LLVMValueRef *args, unsigned nargs);
LLVMValueRef stx__alloca(struct stx__emit *e, LLVMTypeRef t, unsigned align);
LLVMBasicBlockRef stx__block(struct stx__emit *e, const char *name);
LLVMValueRef stx__any(struct stx__emit *e, LLVMValueRef mask, unsigned w); /* i1 */
LLVMValueRef stx__icmp(struct stx__emit *e, LLVMIntPredicate p, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef stx__select(struct stx__emit *e, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b);

/* Operand n as the current instruction of w lanes sees it, of the copy being emitted. */
struct stx__val stx__get(struct stx__emit *e, uint32_t n, unsigned w);
void stx__set(struct stx__emit *e, uint32_t n, struct stx__val v);

/* ---- narrow floats and casts (emit_llvm_cast.c) ---- */
LLVMValueRef stx__widen(struct stx__emit *e, enum stx_dtype t, LLVMValueRef raw, unsigned w);
LLVMValueRef stx__narrow(struct stx__emit *e, enum stx_dtype t, LLVMValueRef f32, unsigned w);
struct stx__val stx__from_memory(struct stx__emit *e, enum stx_dtype t, LLVMValueRef v, unsigned w);
LLVMValueRef stx__to_memory(struct stx__emit *e, enum stx_dtype t, struct stx__val v, unsigned w);
struct stx__val stx__cast(struct stx__emit *e, enum stx_dtype to, enum stx_dtype from,
			  struct stx__val v, unsigned w);
/* The cast may be by an instruction that leaves some vectors to code for rare lanes. */
int stx__casts_to_bf16(const struct stx__emit *e, const struct stx_kinst *i, unsigned w);

/* ---- primitives (emit_llvm_prim.c) ---- */
void stx__emit_prim(struct stx__emit *e, uint32_t n);
/* While code for the usual lanes is emitted: those of the mask are not. */
void stx__rarely(struct stx__emit *e, LLVMValueRef mask);
/* An elementary function of x, one value or a vector of f32 or f64. */
LLVMValueRef stx__elementary(struct stx__emit *e, enum stx_prim op, enum stx_dtype t,
			     LLVMValueRef x);
LLVMValueRef stx__float_max(struct stx__emit *e, int max, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef stx__fma(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef stx__contract(struct stx__emit *e, LLVMValueRef v); /* marks v for `fast` */
LLVMValueRef stx__fmod(struct stx__emit *e, LLVMValueRef x, LLVMValueRef y, unsigned bits,
		       unsigned w);

/* ---- index expressions (emit_llvm_index.c) ---- */
enum stx__access { STX__UNIFORM, STX__CONTIGUOUS, STX__STRIDED, STX__GATHER };
struct stx__sum { /* a uniform i64 by the loop its parts change in: the outer ones can leave the
		     inner */
	LLVMValueRef at[STX__DEPTHS]; /* by depth, NULL: none; 0: the grid */
	int64_t constant;
};
struct stx__index {
	enum stx__access kind;
	struct stx__sum sum; /* uniform index, or that of lane 0; not for GATHER */
	LLVMValueRef stride; /* i64: STRIDED */
	LLVMValueRef lanes;  /* GATHER: <w x i32 or i64> */
};
int stx__ex_varies(struct stx__emit *e, stx_ex ex);
LLVMValueRef stx__ex_scalar(struct stx__emit *e, stx_ex ex); /* uniform ex, as i64 */
struct stx__index stx__ex_index(struct stx__emit *e, stx_ex ex);
struct stx__index stx__across_index(struct stx__emit *e, const struct stx__across *a);
LLVMValueRef stx__ex_lanes(struct stx__emit *e, stx_ex ex); /* any ex, <w x i32 or i64> */
/* AND of the in-bounds masks of the INDIRECTs in ex; NULL when there are none. All: also of those
 * whose bound is known to be 1 at least, where element 0 may be read but not written. */
LLVMValueRef stx__ex_ok(struct stx__emit *e, stx_ex ex, int all, unsigned w);

/* ---- memory (emit_llvm_memory.c) ---- */
void stx__emit_load(struct stx__emit *e, uint32_t n);
void stx__emit_store(struct stx__emit *e, uint32_t n);
void stx__find_streams(struct stx__emit *e); /* at the function's start */
void stx__emit_indirect(struct stx__emit *e, uint32_t n);
void stx__emit_index(struct stx__emit *e, uint32_t n);

void stx__prefetch(struct stx__emit *e, LLVMValueRef p);
/* The stores of [from, to), but for those in loops, find their lines: `lanes` from where the axes
 * stand. Stores that miss fill the queue they wait in, and stall what comes next. */
void stx__fetch_results(struct stx__emit *e, uint32_t from, uint32_t to, unsigned lanes);

/* ---- loads across the vector axis (emit_llvm_across.c) ---- */
#define STX__NEAR 8 /* strides to here are better loaded and shuffled where they stand */
void stx__find_across(struct stx__emit *e); /* loop[].end and accs are known */
/* Before LOOP `loop` of so many iterations. */
void stx__emit_across(struct stx__emit *e, uint32_t loop, LLVMValueRef rows);
int stx__is_far(const struct stx__emit *e, uint32_t param); /* worth being fetched ahead */

/* ---- reductions down columns (emit_llvm_columns.c) ---- */
void stx__find_columns(struct stx__emit *e,
		       uint32_t v); /* w and copies of VECTOR loop v are known */
void stx__emit_columns(struct stx__emit *e, uint32_t v, LLVMValueRef columns);
int stx__columns_loop(struct stx__emit *e, uint32_t r);

/* ---- values of one loop that another needs (emit_llvm_kept.c) ---- */
void stx__find_kept(struct stx__emit *e);
void stx__kept_write(struct stx__emit *e, uint32_t n);
void stx__kept_read(struct stx__emit *e, uint32_t n);

/* ---- sorts (emit_llvm_sort.c) ---- */
void stx__emit_sort(struct stx__emit *e, uint32_t n);
/* emit_llvm_select.c. args: pointers to keys of type t and to values; n, count: as numbers, too. */
void stx__emit_select(struct stx__emit *e, enum stx_dtype t, const LLVMValueRef args[4], int64_t n,
		      int64_t count);

/* ---- accumulators (emit_llvm_reduce.c) ---- */
void stx__acc_open(struct stx__emit *e, uint32_t n);
void stx__acc_update(struct stx__emit *e, uint32_t n);
void stx__acc_result(struct stx__emit *e, uint32_t n);
void stx__acc_reset(struct stx__emit *e, struct stx__acc *a); /* states := identity */
void stx__acc_to_array(struct stx__emit *e,
		       struct stx__acc *a); /* before a loop that uses e->slot */
void stx__acc_from_array(struct stx__emit *e, struct stx__acc *a); /* and after it */
void stx__acc_part(struct stx__emit *e, struct stx__acc *a);       /* a chunk is complete */
/* Makes the stack of partial results: for each rank so many vectors of w lanes. */
void stx__acc_stack(struct stx__emit *e, struct stx__acc *a, unsigned w, unsigned each);
void stx__acc_finish(struct stx__emit *e, struct stx__acc *a); /* after the END of a->loop */
unsigned stx__acc_slots(const struct stx__acc *a, unsigned copies, unsigned w);

/* ---- loops (emit_llvm_loop.c) ---- */
struct stx__for {
	LLVMBasicBlockRef head, after;
	LLVMValueRef i, end, step;
};
/* for (i = begin; i < end; i += step): returns i. The builder stands in the body. */
LLVMValueRef stx__for_begin(struct stx__emit *e, struct stx__for *f, LLVMValueRef begin,
			    LLVMValueRef end, LLVMValueRef step);
void stx__for_end(struct stx__emit *e, struct stx__for *f);
LLVMBasicBlockRef stx__if_begin(struct stx__emit *e,
				LLVMValueRef cond); /* returns the block after */
void stx__if_end(struct stx__emit *e, LLVMBasicBlockRef after);
LLVMValueRef stx__smaller(struct stx__emit *e, LLVMValueRef a, LLVMValueRef b); /* of two i64 */
LLVMValueRef stx__loop_size(struct stx__emit *e, uint32_t n, struct stx_interval *r);
void stx__serial_body(struct stx__emit *e, uint32_t n, LLVMValueRef begin, LLVMValueRef end);
/* Iterations [at, at + count); at is a multiple of 64 when there are lane accumulators. */
void stx__vector_part(struct stx__emit *e, uint32_t n, LLVMValueRef at, LLVMValueRef count);
stx_err stx__analyse(struct stx__emit *e); /* loop, acc, varying */
/* So many instructions at all grid points take no time: more code for them would only be compiled. */
int stx__is_little(const struct stx__emit *e, int64_t at_a_point);
void stx__emit_range(struct stx__emit *e, uint32_t from, uint32_t to);
/* emit_llvm_rows.c: the whole body for the grid points [begin, end), i64. */
void stx__emit_grid(struct stx__emit *e, LLVMValueRef begin, LLVMValueRef end);
void stx__emit_inst(struct stx__emit *e, uint32_t n); /* no marker of a loop */
int stx__inst_varies(struct stx__emit *e, uint32_t n);

/* ---- attention (emit_llvm_attend.c) ---- */
/* 1: the kernel has the form, and t says how it is emitted. */
int stx__attend_find(const struct stx_kernel *k, const struct stx_cpu_target *target,
		     struct stx_arena *arena, struct stx__attend *t);
void stx__emit_attend(struct stx__emit *e);
LLVMValueRef stx__attend_result(struct stx__emit *e, uint32_t n);
/* emit_llvm_hidden.c. i1: all scores of rows [0] to [1] and keys [0] to [1] are -inf; NULL: that
 * cannot be told. */
LLVMValueRef stx__attend_hidden(struct stx__emit *e, const LLVMValueRef *rows,
				const LLVMValueRef *keys);

/* ---- matrix products in tiles (emit_llvm_tile.c) ---- */
/* Sets dot, group, unsigned_j, offset; value[] becomes what is packed. requires: operands found. */
void stx__tile_choose_dot(const struct stx_kernel *k, const struct stx_cpu_target *target,
			  struct stx_arena *arena, struct stx__tile *t);
LLVMValueRef stx__tile_words_along(struct stx__emit *e, int j, struct stx__val v);
LLVMValueRef stx__tile_words_across(struct stx__emit *e, int j, const struct stx__val *v);
void stx__tile_observe_begin(struct stx__emit *e); /* around the packing of a block */
void stx__tile_observe_end(struct stx__emit *e);
LLVMValueRef stx__tile_add_up(struct stx__emit *e, int j, LLVMValueRef words, LLVMValueRef sum);
/* sum + a * b, of words or elements; widen: of bf16 pairs by FMA. */
LLVMValueRef stx__tile_step(struct stx__emit *e, int widen, LLVMValueRef a, LLVMValueRef b,
			    LLVMValueRef sum);
/* 1: the kernel has the form, and t says how it is emitted. */
int stx__tile_find(const struct stx_kernel *k, const struct stx_cpu_target *target,
		   struct stx_arena *arena, struct stx__tile *t);
/* emit_llvm_tile_lines.c. Sets line and lined. requires: sizes are chosen. */
void stx__tile_find_lines(const struct stx_kernel *k, struct stx_arena *arena, struct stx__tile *t);
void stx__tile_begin(struct stx__emit *e);
void stx__emit_tile(struct stx__emit *e);
/* emit_llvm_tile_prepare.c. Sets prepared. requires: sizes are chosen. */
void stx__tile_find_prepared(const struct stx_kernel *k, struct stx__tile *t);
/* At a function's start; packed: frame->packed. */
void stx__tile_load_prepared(struct stx__emit *e, LLVMValueRef packed);
/* Packs operand j's block number axis[0]. */
void stx__emit_prepare(struct stx__emit *e, int j);
LLVMValueRef stx__tile_result(struct stx__emit *e);

#endif
