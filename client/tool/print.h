/* print.h
 * results for people and programs: a JSON writer and a table with aligned columns. */
#ifndef STX_PRINT_H
#define STX_PRINT_H

#include <stdint.h>

#include "bytes.h"

/* Writes one JSON value. key NULL inside arrays and at the top. Commas and escapes are its
 * business. */
struct stx_json {
	struct stx_bytes b;
	int depth;
	uint8_t used[32]; /* something stands before at this depth */
};
void stx_json_open(struct stx_json *j, const char *key, char bracket); /* '{' or '[' */
void stx_json_close(struct stx_json *j, char bracket);                 /* '}' or ']' */
void stx_json_str(struct stx_json *j, const char *key,
		  const char *v); /* bytes that are not UTF-8 become ? */
void stx_json_uint(struct stx_json *j, const char *key, uint64_t v);
void stx_json_real(struct stx_json *j, const char *key, double v); /* NaN and infinities: null */
void stx_json_bool(struct stx_json *j, const char *key, int v);

/* Rows of cells; columns are as wide as their widest cell. Numbers (right = 1) align right. */
#define STX_TABLE_COLUMNS 12
struct stx_table {
	int ncols, right[STX_TABLE_COLUMNS];
	struct stx_bytes text; /* cells, NUL-terminated, row by row */
	unsigned ncells;
};
void stx_table_column(struct stx_table *t, const char *title, int right);
void stx_table_cell(struct stx_table *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Appends the table to out and frees it. */
void stx_table_write(struct stx_table *t, struct stx_bytes *out);

#endif
