/* log.h
 * one line a message on stderr: time, level, component, text. Level from STAX_LOG. */
#ifndef STX_LOG_H
#define STX_LOG_H

enum stx_log_level { STX_LOG_ERROR, STX_LOG_WARN, STX_LOG_INFO, STX_LOG_DEBUG };

/* Reads STAX_LOG (error|warn|info|debug); normal: the level without it. Warns about another value.
 * Call once from main, before threads. */
void stx_log_init(const char *component, enum stx_log_level normal);
const char *stx_log_level_name(void); /* the level in use */
/* Thread-safe: one write(2) a line. Control characters in the text become question marks. */
void stx_log(enum stx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
