/* calls.h
 * external calls that a library makes on a device, in one of several ways: what each library says of
 * its own, and what is kept of a call by all of them alike (calls.c). Inside libstax. */
#ifndef STX_CLIENT_CALLS_H
#define STX_CLIENT_CALLS_H

#include "cuda.h"

#define STX__CALL_WAYS      7  /* that a library is asked for: with the kernel, LC-04's eight */
#define STX__CALL_ATTRS     64 /* most of a call */
#define STX__CALL_OPERANDS  5  /* addresses that a call is made with */
#define STX__CALL_ALIGNMENT 16 /* of operands, bytes that vector loads want */

struct stx__call_list {           /* the ways there are, for operands of one alignment */
	_Atomic uint32_t settled; /* epoch of what was known when the choice was made; 0: never */
	_Atomic uint32_t chosen;  /* n or more: the kernel, or there is no way */
	uint32_t n;
	int asked;
	struct stx__way at[STX__CALL_WAYS];
};

/* Of a step and a device: one set of sizes. What a library keeps of a call begins with it. */
struct stx__call {
	const struct stx__library *library; /* that it is of */
	struct stx__call *next;
	_Atomic uint32_t uses; /* by contexts */
	int64_t attrs[STX__CALL_ATTRS];
	size_t workspace_bytes;
	/* Of operands on 16 bytes; of others: parts of arguments (an operand's offset), and whole ones
	 * of plans without STX_PLAN_ALIGNED. */
	struct stx__call_list of[2];
	char why_not[200]; /* an empty list says; "": it does not */
};

struct stx__library {
	enum stx__library_number number;
	const char *name;  /* for people */
	uint32_t nattrs;   /* of its call */
	size_t kept_bytes; /* of what begins with a struct stx__call */
	/* 0 and d (UNSUPPORTED) where there is no such library; what follows is called only where
	 * there is. */
	int (*is_there)(struct stx_diag *d);
	int (*create)(void **handle); /* for the current context; a status */
	void (*destroy)(void *handle);
	/* Nothing is to be computed: no call for the library. NULL: there is always something. */
	int (*is_empty)(const int64_t *attrs);
	/* What is the same for all ways; a status, on failure dropped all the same. NULL: nothing. */
	int (*make)(const struct stax_artifact *a, const struct stx__step *s, struct stx__call *c);
	void (*drop)(struct stx__call *c); /* what make and list have made */
	/* Where the operands lie; entries that there are not stay as they are. */
	void (*place)(const struct stax_artifact *a, const struct stx__step *s,
		      const struct stx__call *c, void *const *buffers,
		      char *at[STX__CALL_OPERANDS]);
	/* The library's list for operands like those at `at`: its length, most at most, names that
	 * differ. An error is an empty list: the kernel does it. requires: g->lock. */
	uint32_t (*list)(const struct stx__gpu_code *g, struct stx__call *c, int is_aligned,
			 char *const at[STX__CALL_OPERANDS], uint32_t most, struct stx__way *out);
	/* What timings of the call are known by: all that decides which ways there are and how fast
	 * they are, but for device and library. */
	struct stx_digest (*digest)(const struct stax_artifact *a, const struct stx__step *s,
				    const int64_t *attrs, size_t workspace_bytes, int is_aligned);
	void (*name_call)(const struct stax_artifact *a, const struct stx__step *s,
			  const int64_t *attrs, char *out, size_t cap);
	/* UNSUPPORTED, by stx__call_cannot: nothing has been written. */
	stx_err (*call)(const struct stax_artifact *a, const struct stx__context *x,
			const struct stx__step *s, char *const at[STX__CALL_OPERANDS],
			const struct stx__way *way, const struct stx_env *env, struct stx_diag *d);
};
extern const struct stx__library stx__matmul_library, stx__conv_library, stx__attention_library;

stx_err stx__call_cannot(const struct stx__step *s, const char *why, struct stx_diag *d);

/* ---- entries of the table in externals.c, for calls that a library makes ---- */

stx_err stx__call_run(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		      const struct stx_env *env, struct stx_diag *d);
void stx__call_release(struct stax_artifact *a, struct stx__step *s);
stx_err stx__call_ways(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
		       uint32_t most, struct stx__ways *out, struct stx_diag *d);
stx_err stx__call_run_way(struct stax_artifact *a, struct stx__context *x, struct stx__step *s,
			  const struct stx__way *way, void *const *buffers,
			  const struct stx_env *env, struct stx_diag *d);
uint32_t stx__call_digests(const struct stax_artifact *a, const struct stx__context *x,
			   const struct stx__step *s, struct stx_digest out[2]);

#endif
