/* log.h
 * one line a message on stderr: time, level, component, text. Level from STAX_LOG. */
#ifndef STX_LOG_H
#define STX_LOG_H

#include <stddef.h>

enum stx_log_level { STX_LOG_ERROR, STX_LOG_WARN, STX_LOG_INFO, STX_LOG_DEBUG };

/* Reads STAX_LOG (error|warn|info|debug); normal: the level without it. Warns about another value.
 * Call once from main, before threads. */
void stx_log_init(const char *component, enum stx_log_level normal);
const char *stx_log_level_name(void); /* the level in use */
/* Thread-safe: one write(2) a line. Control characters in the text become question marks. */
void stx_log(enum stx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Texts of files and peers, before a person sees them: every byte that a terminal would obey or that
 * is no UTF-8 becomes '?'. is_lines: line ends and tabs stay. */
void stx_text_mask(char *text, size_t n, int is_lines);

#endif
