/* repro.h
 * reproducer files: a request that made the compiler fail by its own fault (a worker that crashed,
 * a verifier or internal error), in one self-contained file that `stax compile FILE` replays.
 *
 * Lines `name = value`, an empty line, then the bytes of the given values and of the graph. The
 * graph is the source as it was received when the KEY job failed, else the canonical graph's text;
 * parameters are in neither, so no weights. Files are private (0600), of bounded size and number.
 */
#ifndef STX_REPRO_H
#define STX_REPRO_H

#include "arena.h"
#include "bytes.h"
#include "hash.h"
#include "stax.pb-c.h"
#include "status.h"

#define STX_REPRO_MAX_BYTES (8u << 20)
#define STX_REPRO_MAX_FILES 32u /* of a folder; then the oldest goes */

struct stx_repro {
	uint32_t format; /* as in Lookup: 1 wire, 2 text, 3 ONNX */
	struct stx_span body;
	const char *target;
	uint32_t options;         /* stx_option_bits */
	Stx__GivenValue **values; /* inputs given by value; only with the graph as received */
	size_t nvalues;
	Stx__Blocking **blockings; /* how products were cut, asked for or as measured */
	size_t nblockings;
	struct stx_digest compiler; /* fingerprint */
	struct stx_diag error;      /* what happened */
};

/* 1: an error that says something about the compiler and nothing about the graph. */
int stx_repro_wanted(stx_err e);
/* Appends the file. TOO_LARGE over STX_REPRO_MAX_BYTES. */
stx_err stx_repro_format(const struct stx_repro *r, struct stx_bytes *out);
/* 1: begins like a reproducer. */
int stx_repro_is(struct stx_span file);
/* Texts and values are in the arena, the body in file. INVALID says which line. */
stx_err stx_repro_parse(struct stx_span file, struct stx_arena *a, struct stx_repro *out,
			struct stx_diag *d);

/* dir/ID.repro, ID the beginning of the digest: equal requests share a file. -1: too long. */
int stx_repro_path(const char *dir, const struct stx_digest *id, char *out, size_t cap);
/* Adds to the error's text where the file is, within the text's room. */
void stx_repro_mention(struct stx_diag *d, const char *path);
/* Makes the folder and replaces the file at path. Blocks. */
stx_err stx_repro_write(const char *path, struct stx_span file, struct stx_diag *d);

#endif
