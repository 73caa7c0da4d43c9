/* loops.h
 * the loop-level IR: inner functions, buffers, and the lowering of a graph to them.
 *
 * A tensor is a function from an index space to values (seed 000 Definition 6.1). An inner function
 * is a small record {rule, operands, map, ranges}; composing two copies nothing. It reads its own
 * index variables: variable number d (expr.h) is axis d of its ranges; a reduction's axes follow
 * its iteration axes. When a value is realised, body.c plays the rules once, with an explicit work
 * stack, through a recording builder into a flat SSA body. Handlers (reads and writes, counts,
 * text, reference evaluation; code generation in later stages) are tables indexed by instruction
 * over such bodies. Everything lives in the arena of the graph being lowered; one thread.
 * Conformance: LO, IR, LV, RZ, LN. */
#ifndef STX_LOOPS_H
#define STX_LOOPS_H

#include "bytes.h"
#include "graph.h"

enum stx_monoid {
#define STX_MONOID(name, text, nvals, state, split) STX_MONOID_##name,
#include "monoids.def"
#undef STX_MONOID
	STX_MONOID_COUNT
};
struct stx_monoid_info {
	const char *text;
	uint8_t nvals, state, split;
};
const struct stx_monoid_info *stx_monoid_info(enum stx_monoid m);
static inline int stx_monoid_is_arg(enum stx_monoid m)
{
	return m == STX_MONOID_ARGMAX || m == STX_MONOID_ARGMIN;
}
int stx_monoid_parse(const char *text, int n); /* -1 when unknown */
/* Type of a state value of an accumulator of type acc: i64 for the positions of arg-reductions. */
enum stx_dtype stx_monoid_state_dtype(enum stx_monoid m, unsigned state, enum stx_dtype acc);
/* Identity of the first state value in dtype t. */
union stx_scalar stx_monoid_identity(enum stx_monoid m, enum stx_dtype t);

/* ---- bodies: flat SSA, one iteration point ---- */

enum stx_bop { /* instruction: a primitive (enum stx_prim) or one of these */
	       STX_B_CONST = STX_PRIM_COUNT, /* k */
	       STX_B_INDEX,                  /* value of index expression ex, as dtype */
	       STX_B_LOAD, /* buffer a at element ex; mask c or STX_NONE: masked-off lanes do not
			      touch memory and give 0 */
	       STX_B_INDIRECT, /* run-time value a (i64) becomes index atom number = this
				  instruction's own number, with range [0, bound ex - 1]; flag
				  STX_BF_WRAP adds the bound when negative (LO-14); flag
				  STX_BF_CHECK reports out of range (LO-15); mask c: lanes that are
				  masked off are not checked and give 0 */
	       STX_B_COUNT
};
/* Why a value is in memory. */
enum stx_realized {
#define STX_REALIZED(name, text, flexible) STX_REALIZED_##name,
#include "realized.def"
#undef STX_REALIZED
	STX_REALIZED_COUNT
};
const char *stx_realized_text(enum stx_realized r); /* "output", "reads>4" */

#define STX_NONE        0xffffffffu
#define STX_MAX_ORIGINS 64 /* names a buffer keeps */
enum { STX_BF_WRAP = 1, STX_BF_CHECK = 2 };

struct stx_binst {
	uint8_t op;    /* enum stx_prim or enum stx_bop */
	uint8_t dtype; /* of the result */
	uint8_t flags, axis;
	uint32_t a, b, c; /* operand instruction numbers; LOAD: a = buffer id, c = mask */
	stx_ex ex;
	union stx_scalar k;
};

struct stx_body {
	struct stx_binst *at;
	uint32_t n;
	uint32_t result[3];
	uint32_t nresults;
};

/* ---- buffers ---- */

struct stx_layout { /* address of i = offset + sum strides[d]*i[d], in elements (LV-01) */
	uint8_t rank;
	uint8_t flexible; /* strides may still be chosen by the readers (LV-02, LV-11) */
	const stx_ex *sizes, *strides;
	stx_ex offset;
};
/* 1 + the largest element it reaches; 0 when it has no elements. */
stx_ex stx_layout_reach(struct stx_exprs *x, const struct stx_layout *l);

enum stx_buffer_kind { STX_BUF_INPUT, STX_BUF_CONST, STX_BUF_TEMP, STX_BUF_OUTPUT };
enum stx_def_kind {
	STX_DEF_NONE,
	STX_DEF_POINTWISE,
	STX_DEF_REDUCTION,
	STX_DEF_SCATTER,
	STX_DEF_SCAN,   /* a reduction's value up to and with each point of its one axis */
	STX_DEF_SORT,   /* i64: the stable ascending order of each row's keys */
	STX_DEF_SCRATCH /* TEMP memory that a sort works in; no body */
};

struct stx_buffer {
	uint32_t id;
	enum stx_buffer_kind kind;
	const char *name; /* "primals_1", "buf2" */
	enum stx_dtype dtype;
	struct stx_layout layout;
	uint32_t index;             /* INPUT, OUTPUT: position in the call */
	struct stx_const_data data; /* CONST */
	/* Definition of TEMP and OUTPUT buffers: at every point of ranges, store the body's result
	 * (POINTWISE) or the combination over rranges (REDUCTION). Body variables: 0..nranges-1,
	 * then the reduction axes. SORT: ranges [rows], rranges [n]; the body is one load, of the
	 * key (u32 or u64) of position r0_0 at element n*i0 + r0_0; the positions are stored from
	 * element n*i0 on in the order of their keys, equal keys by position. */
	enum stx_def_kind def;
	/* An update in place: the storage is that of `base`, an earlier buffer that nothing reads
	 * from here on; its heir is this one. Elements that are not stored stay. A POINTWISE one
	 * stores every element once. Of a SCATTER the points of ranges are independent; at each,
	 * for every point of the one reduction axis in order, element `store` (which may hold
	 * indirect values of the body) becomes the body's result, or its combination with what is
	 * there (monoid SUM, PROD, MAX or MIN). Of a SCAN likewise, but `store` becomes the
	 * accumulator's value (acc, state) with the body's result of this point, an f64 rounded to f32
	 * on its way to narrower floats; of equal elements an ARGMAX or ARGMIN keeps the last. */
	struct stx_buffer *base, *heir;
	uint8_t overwrite; /* SCATTER: no combination */
	uint32_t nranges, nrranges;
	const stx_ex *ranges, *rranges;
	stx_ex store; /* element written at a point of ranges, over variables 0..nranges-1 (of SCATTER
			 and SCAN the reduction's too); ranges
			 need not have the layout's rank (views of outputs) */
	enum stx_monoid monoid;
	uint8_t state; /* the value of the accumulator that is stored (monoids.def); buffers of one
			  reduction that differ in it share their accumulator in kernels */
	enum stx_dtype acc; /* accumulator dtype (f32 for half precision) */
	/* Of the layers of a cut reduction (4_schedule/split.h). rlimit, over variables
	 * 0..nranges-1: points of the first reduction axis at or past it are not there; BAD: all
	 * are. is_merge: what it combines are partial results in order, each a chunk of its own. */
	stx_ex rlimit;
	uint8_t is_merge;
	/* A first layer, on a GPU, of a sum down columns: range 0 is the segments, the reduction axis
	 * the rows of each. 2: a kernel of whole rows can make them on its way (4_schedule/split.h). */
	uint8_t is_by_rows;
	struct stx_body body;
	uint32_t scratch[2];        /* SORT: buffers of keys and of i32 positions, [rows, 2, n] */
	const char *const *origins; /* graph node names (LV-15): the STX_MAX_ORIGINS nearest */
	uint32_t norigins;
	uint8_t has_more_origins;
	const char *message;    /* an assertion that is false is reported with it; its body checks
				    the condition, and the buffer is written though nothing reads it */
	enum stx_realized rule; /* that realised it (RZ-10) */
};

/* A graph output that is the same storage as an input, or as an earlier output's buffer, is copied
 * into its own buffer (B21): outputs never share unless the graph says view and the ABI value is
 * ALIAS. A result that is a written input has the buffer of the output that is written: its own
 * `index` is that one's. */
struct stx_loops {
	struct stx_graph *g;
	struct stx_exprs *ex;
	STX_VEC(struct stx_buffer *) buffers; /* definition order; id == position */
	STX_VEC(uint32_t) outputs;            /* buffer id of each graph output */
};

struct stx_lower_options {
	int target_gpu;      /* thresholds of RZ-04..RZ-08 */
	int no_inline;       /* realise every node: the unfused form used by tests */
	const char *without; /* an overload taken to have no rule; NULL: none */
};

/* Lowers a graph over primitives and basis ops. requires: stx_graph_verify_basis and
 * decompose_to_primitives done. ensures: every output realised, verify passes. An operator without
 * a rule is UNSUPPORTED by name. */
stx_err stx_lower(struct stx_graph *g, const struct stx_lower_options *o, struct stx_loops **out,
		  struct stx_diag *d);
/* 1 when op has a lowering rule (LO-10, LO-11); 0: it must be decomposed, or is UNSUPPORTED. */
int stx_lower_has_rule(enum stx_op op);
/* Checks: definitions before uses, dtypes of instructions, index expressions within layouts where
 * provable, masks bool, variables within ranges. */
stx_err stx_loops_verify(const struct stx_loops *l, struct stx_diag *d);
/* Text, in the style of the seed's listing 6.2; parse is its inverse. */
stx_err stx_loops_print(const struct stx_loops *l, struct stx_bytes *out);
stx_err stx_loops_parse(struct stx_arena *a, const char *text, size_t n, struct stx_loops **out,
			struct stx_diag *d);

/* ---- handlers over a buffer's definition (IR-05..IR-12) ---- */
struct stx_access {
	uint32_t buffer;
	stx_ex ex;
	uint8_t is_write, masked, indirect;
};
/* Reads in instruction order, then the write. */
stx_err stx_handler_accesses(const struct stx_loops *l, const struct stx_buffer *b,
			     struct stx_arena *a, struct stx_access **out, uint32_t *n);
struct stx_counts {
	uint32_t ops, reads, consts;
	uint64_t used[(STX_B_COUNT + 63) / 64]; /* set of operations */
};
void stx_handler_counts(const struct stx_buffer *b, struct stx_counts *out);
/* `tmp0 = ops.load('primals_1', 128*i0 + r0_0)` a line (IR-07). */
stx_err stx_handler_text(const struct stx_loops *l, const struct stx_buffer *b,
			 struct stx_bytes *out);
/* Reference evaluation of the whole loop program (IR-12): buffers[id] = storage, inputs filled. */
stx_err stx_handler_evaluate(const struct stx_loops *l, void **buffers, struct stx_diag *d);

/* What b reads and works in, when buffers get new numbers: number[old]. */
static inline void stx_buffer_renumber(struct stx_buffer *b, const uint32_t *number)
{
	for (uint32_t j = 0; j < b->body.n; j++)
		if (b->body.at[j].op == STX_B_LOAD)
			b->body.at[j].a = number[b->body.at[j].a];
	for (int j = 0; j < 2 && b->def == STX_DEF_SORT; j++)
		b->scratch[j] = number[b->scratch[j]];
}

#endif
