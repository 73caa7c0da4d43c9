/* error.c: error codes as the public header shows them. */
#include <string.h>

#include "client.h"

_Static_assert(sizeof(struct stax_error) == sizeof(struct stx_diag), "one layout, two names");
_Static_assert(offsetof(struct stax_error, text) == offsetof(struct stx_diag, text), "same fields");

const char *stax_error_name(int code)
{
	return stx_err_name(code);
}

int stax_exit_code(int code)
{
	return stx_err_exit_code(code);
}

int stx__give_error(stx_err e, const struct stx_diag *d, struct stax_error *err)
{
	if (!err)
		return e;
	if (!e) {
		err->code = 0;
		err->stage[0] = err->node[0] = err->location[0] = err->text[0] = 0;
		return 0;
	}
	memcpy(err, d, sizeof *err);
	err->code = e;
	if (!err->text[0])
		strncpy(err->text, stx_err_text(e), sizeof err->text - 1);
	return e;
}
