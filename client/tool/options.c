/* options.c: command-line flags. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct stx_option *find(const struct stx_option *t, const char *name, size_t n)
{
	for (; t->name; t++)
		if (strlen(t->name) == n && !memcmp(t->name, name, n))
			return t;
	return NULL;
}

static int push(struct stx_option_list *l, const char *s)
{
	if (l->n == (int)(sizeof l->at / sizeof *l->at))
		return -1;
	l->at[l->n++] = s;
	return 0;
}

/* 0, or -1 when the value does not fit the kind. */
static int set(const struct stx_option *o, const char *v)
{
	char *end;
	errno = 0;
	switch (o->kind) {
	case STX_OPT_TEXT: *(const char **)o->to = v; return 0;
	case STX_OPT_COUNT: {
		long long n = strtoll(v, &end, 10);
		*(int64_t *)o->to = n;
		return !*v || *end || errno || n < 0 ? -1 : 0;
	}
	case STX_OPT_REAL: {
		double x = strtod(v, &end);
		*(double *)o->to = x;
		return !*v || *end || !(x >= 0) || isinf(x) ? -1 : 0;
	}
	default: return push(o->to, v);
	}
}

stx_err stx_options_parse(int argc, char **argv, const struct stx_option *table,
			  struct stx_option_list *files, struct stx_diag *d)
{
	int flags = 1;
	for (int i = 1; i < argc; i++) {
		const char *a = argv[i], *eq = strchr(a, '=');
		if (!flags || a[0] != '-' || !a[1]) {
			if (push(files, a))
				return stx_fail(d, STX_E_USAGE, "usage", "", "too many arguments");
			continue;
		}
		if (!strcmp(a, "--")) {
			flags = 0;
			continue;
		}
		size_t n = a[1] != '-' ? 0 : eq ? (size_t)(eq - a - 2) : strlen(a + 2);
		const struct stx_option *o = n ? find(table, a + 2, n) : NULL;
		if (!o)
			return stx_fail(d, STX_E_USAGE, "usage", "", "unknown flag '%s'", a);
		if (o->kind == STX_OPT_FLAG) {
			if (eq)
				return stx_fail(d, STX_E_USAGE, "usage", "", "--%s takes no value",
						o->name);
			*(int *)o->to = 1;
			continue;
		}
		const char *v = eq ? eq + 1 : i + 1 < argc ? argv[++i] : NULL;
		if (!v)
			return stx_fail(d, STX_E_USAGE, "usage", "", "--%s needs a value", o->name);
		if (set(o, v))
			return stx_fail(d, STX_E_USAGE, "usage", "",
					"--%s: '%s' is not a valid value", o->name, v);
	}
	return STX_E_OK;
}

int stx_option_pair(const char *text, char *name, unsigned long cap, const char **value)
{
	const char *eq = strchr(text, '=');
	size_t n = eq ? (size_t)(eq - text) : 0;
	if (n == 0 || n >= cap || !eq[1])
		return -1;
	memcpy(name, text, n);
	name[n] = 0;
	*value = eq + 1;
	return 0;
}
