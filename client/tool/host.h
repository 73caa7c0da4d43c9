/* host.h
 * dense tensors in this process's memory: reading and writing .npy, random contents, comparison. */
#ifndef STX_HOST_H
#define STX_HOST_H

#include <stdint.h>
#include <stdio.h>

#include "bytes.h"
#include "dtype.h"
#include "stax_abi.h"
#include "status.h"

/* t.data is malloc'd (64-byte aligned), row-major contiguous, offset 0. Zero-initialise;
 * stx_host_free. */
struct stx_host {
	struct stx_tensor t;
	size_t bytes;
};

/* Most a tensor read from a file may hold: memory is taken only for data the file really has. */
#define STX_HOST_BYTES_MAX ((size_t)16 << 30)

/* Elements of sizes[rank], -1 when negative or overflowing. */
int64_t stx_host_elems(const int64_t *sizes, int rank);
/* Uninitialised memory. TOO_LARGE, NOMEM. */
stx_err stx_host_new(struct stx_host *h, enum stx_dtype t, int rank, const int64_t *sizes,
		     struct stx_diag *d);
void stx_host_free(struct stx_host *h);
/* A dense copy of any strided tensor. */
stx_err stx_host_copy(struct stx_host *h, const struct stx_tensor *t, struct stx_diag *d);
/* Normal numbers for floats, 0 or 1 for integers and booleans (valid as indices almost everywhere).
 * The same seed gives the same values on every machine. */
void stx_host_random(struct stx_host *h, uint64_t seed);
/* Element i as a number (bool: 0 or 1; 64-bit integers rounded). */
double stx_host_at(const struct stx_host *h, int64_t i);
/* "[2,3]" */
void stx_host_shape(const struct stx_tensor *t, char *out, size_t cap);
/* ": f32[2,3] 0.5 1 ..." after a name: type, shape and the first values. */
void stx_host_print(FILE *f, const struct stx_host *h);

/* got against want. Types and shapes must agree; floats: |got - want| <= atol + rtol*|want|, NaN
 * positions and infinities equal; others exactly. MISMATCH says where and how far. *worst: largest
 * |got-want|. */
stx_err stx_host_compare(const char *name, const struct stx_host *got, const struct stx_host *want,
			 double rtol, double atol, double *worst, struct stx_diag *d);

/* .npy, versions 1 to 3, both orders and byte orders. dtype `as` decides what untyped bytes (bf16,
 * fp8) are; STX_DTYPE_NONE: 2-byte ones are bf16. */
stx_err stx_npy_parse(struct stx_span file, enum stx_dtype as, struct stx_host *out,
		      struct stx_diag *d);
stx_err stx_npy_read(const char *path, enum stx_dtype as, struct stx_host *out, struct stx_diag *d);
stx_err stx_npy_format(const struct stx_host *h, struct stx_bytes *out, struct stx_diag *d);

/* A whole file, at most max bytes. IO, NOT_FOUND, TOO_LARGE name the path. */
stx_err stx_file_read(const char *path, size_t max, struct stx_bytes *out, struct stx_diag *d);
/* Writes beside and renames, so that a reader never sees half a file. */
stx_err stx_file_write(const char *path, struct stx_span bytes, struct stx_diag *d);

#endif
