/* text_check.h
 * what tests say about texts: dumps, sources, reports, golden files. */
#ifndef TEST_TEXT_CHECK_H
#define TEST_TEXT_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static inline void expect(const char *all, const char *part)
{
	if (!strstr(all, part))
		fail_msg("no\n%s\nin\n%s", part, all);
}

static inline void expect_none(const char *all, const char *part)
{
	if (strstr(all, part))
		fail_msg("there is a\n%s\nin\n%s", part, all);
}

static inline int count(const char *all, const char *part)
{
	int n = 0;
	for (const char *p = all; (p = strstr(p, part)); p++)
		n++;
	return n;
}

/* text is what tests/golden/NAME holds; with STAX_UPDATE_GOLDEN it is written there first. */
static inline void check_golden(const char *name, const char *text)
{
	char path[256];
	snprintf(path, sizeof path, "tests/golden/%s", name);
	if (getenv("STAX_UPDATE_GOLDEN")) {
		FILE *out = fopen(path, "w");
		assert_non_null(out);
		fputs(text, out);
		fclose(out);
	}
	FILE *in = fopen(path, "r");
	if (!in)
		fail_msg("%s is missing", path);
	char *want = calloc(1, 1 << 16);
	size_t n = fread(want, 1, (1 << 16) - 1, in);
	fclose(in);
	assert_true(n > 0);
	assert_string_equal(text, want);
	free(want);
}

#endif
