/* planbuild.h
 * builds data plans for tests, piece by piece. */
#ifndef PLANBUILD_H
#define PLANBUILD_H

#include "bytes.h"
#include "dtype.h"
#include "stax_abi.h"

struct planbuild {
	struct stx_bytes strings, data, exprs_code, arrays;
	struct stx_bytes syms, values, kernels, steps, exprs, guards,
		prepared; /* records; offsets relative, see .c */
	uint32_t nsyms, nvalues, nkernels, nsteps, nexprs, nguards, nprepared, ninputs, noutputs,
		workspace, flags;
};

uint32_t pb_string(struct planbuild *b, const char *s);
uint32_t pb_const(struct planbuild *b, int64_t v); /* expression numbers */
uint32_t pb_sym(struct planbuild *b, uint32_t sym);
uint32_t pb_bin(struct planbuild *b, enum stx_plan_op op, uint32_t x, uint32_t y);
uint32_t pb_code(struct planbuild *b, const void *code, uint32_t n); /* raw bytecode */
/* A size symbol from size dim of input. */
uint32_t pb_size(struct planbuild *b, const char *name, uint32_t input, uint32_t dim, int64_t lo,
		 int64_t hi, int64_t hint);
/* Dense row-major value with sizes given as expressions; index counts by kind. offset: TEMP and
 * ALIAS. */
uint32_t pb_value(struct planbuild *b, enum stx_plan_value_kind kind, enum stx_dtype t,
		  const char *name, int rank, const uint32_t *sizes, const uint32_t *strides,
		  uint32_t bytes, uint32_t offset);
/* The same with constant sizes and dense strides. */
uint32_t pb_dense(struct planbuild *b, enum stx_plan_value_kind kind, enum stx_dtype t,
		  const char *name, int rank, const int64_t *sizes, int64_t offset);
void pb_flags(struct planbuild *b, uint32_t value, uint32_t flags); /* STX_TENSOR_* of an input */
uint32_t pb_kernel(struct planbuild *b, const char *name, uint32_t grid, uint32_t grain,
		   uint32_t nscalars, const uint32_t *scalars);
void pb_step(struct planbuild *b, enum stx_plan_step_kind kind, uint32_t a, uint32_t to);
void pb_launch(struct planbuild *b, uint32_t kernel, uint32_t nargs, const uint32_t *values);
/* A call of the name; attrs: [nattrs] expressions; workspace and kernel may be STX_PLAN_NONE. */
void pb_extern(struct planbuild *b, const char *name, uint32_t nargs, const uint32_t *values,
	       uint32_t nattrs, const uint32_t *attrs, uint32_t workspace, uint32_t kernel);
/* The last step, a call, stands for so many that follow. */
void pb_covers(struct planbuild *b, uint32_t n);
void pb_prepared(struct planbuild *b, uint32_t kernel, const char *symbol, uint32_t points,
		 uint64_t bytes);
void pb_guard(struct planbuild *b, uint32_t expr);

/* Puts it together, frees the builder's parts. The result is malloc'd (16-byte aligned by malloc).
 */
struct stx_bytes pb_finish(struct planbuild *b);

#endif
