/* test_readme.c: README.md lists exactly the ONNX operators of the importer's tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnx_import.h"

#define NAMES_MAX 1000

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static unsigned mapped(const char **names)
{
	unsigned n = 0;
#define TABLE(family) onnx_##family##_map,
	const struct onnx_mapping *const tables[] = { ONNX_FAMILIES(TABLE) };
#undef TABLE
	for (unsigned t = 0; t < sizeof tables / sizeof *tables; t++)
		for (const struct onnx_mapping *m = tables[t]; m->op_type; m++) {
			assert_true(n < NAMES_MAX);
			names[n++] = m->op_type;
		}
	qsort(names, n, sizeof *names, by_text);
	return n;
}

/* The words between "Mapped (...): " and the full stop that ends the paragraph. */
static unsigned listed(char *text, const char **names)
{
	unsigned n = 0;
	char *save = NULL, *from = strstr(text, "\nMapped ("), *end;
	assert_non_null(from);
	from = strstr(from, "): ");
	assert_non_null(from);
	end = strstr(from, ".\n\n");
	assert_non_null(end);
	*end = 0;
	for (char *w = strtok_r(from + 3, ", \n", &save); w; w = strtok_r(NULL, ", \n", &save)) {
		assert_true(n < NAMES_MAX);
		names[n++] = w;
	}
	return n;
}

/* The list in lines of at most 116 columns, the first after `column` of them. */
static void print_list(FILE *f, const char **names, unsigned n, unsigned column)
{
	for (unsigned i = 0; i < n; i++) {
		unsigned wide = (unsigned)strlen(names[i]) + 1;
		if (column + 1 + wide > 116) {
			fputc('\n', f);
			column = 0;
		} else {
			column += (unsigned)fprintf(f, " ");
		}
		column += (unsigned)fprintf(f, "%s%s", names[i], i + 1 < n ? "," : ".");
	}
}

static void read_readme(char *text, size_t room)
{
	FILE *f = fopen("README.md", "r");
	assert_non_null(f); /* tests run from the top of the tree */
	size_t got = fread(text, 1, room - 1, f);
	fclose(f);
	assert_true(got > 0 && got < room - 1);
}

static void test_readme_lists_the_mapped_operators_in_order(void **state)
{
	(void)state;
	static char text[1 << 18];
	static const char *want[NAMES_MAX], *have[NAMES_MAX];
	read_readme(text, sizeof text);
	unsigned n = mapped(want), m = listed(text, have), same = 0;
	while (same < n && same < m && !strcmp(want[same], have[same]))
		same++;
	if (same < n || same < m) {
		print_message("the list differs at '%s'\n", same < m ? have[same] : "its end");
		print_message("`build/tests/unit/import/test_readme --write` writes it\n");
		fail();
	}
}

static void test_readme_no_operator_is_mapped_twice(void **state)
{
	(void)state;
	static const char *names[NAMES_MAX];
	unsigned n = mapped(names);
	for (unsigned i = 1; i < n; i++)
		assert_string_not_equal(names[i - 1], names[i]);
}

/* An attribute that an operator's row does not have is refused; without a row all would be taken. */
static void test_readme_every_mapped_operator_has_its_attributes_listed(void **state)
{
	(void)state;
	static const char *const rows[] = {
#define ONNX_ATTRIBUTES(op, list) op,
#include "onnx_attributes.def"
#undef ONNX_ATTRIBUTES
	};
	static const char *names[NAMES_MAX];
	unsigned n = mapped(names), found = 0;
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < sizeof rows / sizeof *rows; k++)
			found += !strcmp(names[i], rows[k]);
	if (found != n)
		print_message("%u of %u operators have a row\n", found, n);
	assert_int_equal(found, n);
}

static int write_list(void)
{
	static char text[1 << 18];
	static const char *names[NAMES_MAX];
	read_readme(text, sizeof text);
	char *from = strstr(strstr(text, "\nMapped ("), "):") + 2, *end = strstr(from, ".\n\n") + 1;
	FILE *f = fopen("README.md", "w");
	if (!f)
		return 1;
	unsigned column = 0;
	for (const char *p = from; p > text && p[-1] != '\n'; p--)
		column++;
	fwrite(text, 1, (size_t)(from - text), f);
	print_list(f, names, mapped(names), column);
	fputs(end, f);
	return fclose(f) != 0;
}

/* --write: puts the list into README.md instead of comparing. */
int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--write"))
		return write_list();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_readme_lists_the_mapped_operators_in_order),
		cmocka_unit_test(test_readme_no_operator_is_mapped_twice),
		cmocka_unit_test(test_readme_every_mapped_operator_has_its_attributes_listed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
