/* status.c: error names, texts and diagnostics. */
#include "status.h"

#include <stdio.h>
#include <string.h>

const char *stx_err_name(stx_err e)
{
	switch (e) {
#define STX_ERR(name, value, exit_code, text)                                                      \
	case value:                                                                                \
		return #name;
#include "status.def"
#undef STX_ERR
	default: return "UNKNOWN";
	}
}

const char *stx_err_text(stx_err e)
{
	switch (e) {
#define STX_ERR(name, value, exit_code, text)                                                      \
	case value:                                                                                \
		return text;
#include "status.def"
#undef STX_ERR
	default: return "unknown error";
	}
}

int stx_err_exit_code(stx_err e)
{
	switch (e) {
#define STX_ERR(name, value, exit_code, text)                                                      \
	case value:                                                                                \
		return exit_code;
#include "status.def"
#undef STX_ERR
	default: return 8;
	}
}

int stx_err_is_known(stx_err e)
{
	switch (e) {
#define STX_ERR(name, value, exit_code, text) case value:
#include "status.def"
#undef STX_ERR
		return 1;
	default: return 0;
	}
}

static void copy_text(char *dst, size_t cap, const char *src)
{
	size_t n = src ? strlen(src) : 0;
	if (n >= cap)
		n = cap - 1;
	if (n)
		memcpy(dst, src, n);
	dst[n] = 0;
}

stx_err stx_vfail(struct stx_diag *d, stx_err code, const char *stage, const char *node,
		  const char *fmt, va_list ap)
{
	if (!d || d->code)
		return code;
	d->code = code;
	copy_text(d->stage, sizeof d->stage, stage);
	copy_text(d->node, sizeof d->node, node);
	vsnprintf(d->text, sizeof d->text, fmt, ap);
	return code;
}

stx_err(stx_fail)(struct stx_diag *d, stx_err code, const char *stage, const char *node,
		  const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	stx_vfail(d, code, stage, node, fmt, ap);
	va_end(ap);
	return code;
}

void stx_diag_at(struct stx_diag *d, const char *fmt, ...)
{
	if (!d || d->location[0])
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(d->location, sizeof d->location, fmt, ap);
	va_end(ap);
}

void stx_diag_clear(struct stx_diag *d)
{
	if (d)
		memset(d, 0, sizeof *d);
}
