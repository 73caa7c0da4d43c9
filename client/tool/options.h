/* options.h
 * command-line flags from a table. `--name value` and `--name=value`; `--` ends the flags. */
#ifndef STX_OPTIONS_H
#define STX_OPTIONS_H

#include "status.h"

enum stx_option_kind { STX_OPT_FLAG, STX_OPT_TEXT, STX_OPT_COUNT, STX_OPT_REAL, STX_OPT_LIST };

struct stx_option_list {
	const char *at[256];
	int n;
};
struct stx_option {
	const char *name; /* without "--"; a NULL name ends the table */
	enum stx_option_kind kind;
	void *to; /* int *, const char **, int64_t *, double *, struct stx_option_list * */
};

/* Fills what the table points to; leaves the other arguments in files (argv[0] skipped). USAGE
 * names the argument. The strings are argv's. */
stx_err stx_options_parse(int argc, char **argv, const struct stx_option *table,
			  struct stx_option_list *files, struct stx_diag *d);
/* "NAME=VALUE" split at the first '='; 0 or -1. name is written to out. */
int stx_option_pair(const char *text, char *name, unsigned long cap, const char **value);

#endif
