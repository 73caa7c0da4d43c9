/* status.h
 * error codes and diagnostics: what a function that can fail returns, and the detail beside it. */
#ifndef STX_STATUS_H
#define STX_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int stx_err; /* 0 or a negative STX_E_* value */

enum {
#define STX_ERR(name, value, exit_code, text) STX_E_##name = (value),
#include "status.def"
#undef STX_ERR
};

/* Where and why something failed. Fixed storage, so that reporting an error never allocates.
 * A function that takes a diag may be passed NULL. The first error set wins: stx_fail keeps an
 * earlier one, so that callers may add context only when none is there. */
struct stx_diag {
	stx_err code;
	char stage[24];     /* "import", "verify", "lower", "codegen", "link", "run", ... */
	char node[96];      /* name of the node, tensor or kernel concerned, or "" */
	char location[160]; /* file:line:column, byte offset, or path, or "" */
	char text[512];     /* what is wrong and how to fix it */
};

const char *stx_err_name(stx_err e); /* "INVALID"; never NULL */
const char *stx_err_text(stx_err e); /* one line for people; never NULL */
int stx_err_exit_code(stx_err e);    /* exit code of the stax tool (design: command line) */
int stx_err_is_known(stx_err e);

/* Fills d (when not NULL and still empty) and returns code, so that `return stx_fail(...)` works.
 */
stx_err stx_fail(struct stx_diag *d, stx_err code, const char *stage, const char *node,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The value is the code itself, so that compilers and analysers see that a failure is not 0. */
#define stx_fail(d, code, ...)                                                                     \
	({                                                                                         \
		const stx_err stx_fail_code_ = (code);                                             \
		(void)(stx_fail)((d), stx_fail_code_, __VA_ARGS__);                                \
		stx_fail_code_;                                                                    \
	})
stx_err stx_vfail(struct stx_diag *d, stx_err code, const char *stage, const char *node,
		  const char *fmt, va_list ap);
/* Sets the location of an error already reported, when it has none. */
void stx_diag_at(struct stx_diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void stx_diag_clear(struct stx_diag *d);

#ifdef __cplusplus
}
#endif
#endif
