/* log.c: logging. The level and component are set once by main and read only afterwards. */
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static enum stx_log_level max_level = STX_LOG_WARN;
static char component_name[24] = "stax";
static const char *const level_names[] = { "error", "warn", "info", "debug" };

void stx_log_init(const char *component, enum stx_log_level normal)
{
	snprintf(component_name, sizeof component_name, "%s", component);
	const char *want = getenv("STAX_LOG");
	max_level = normal;
	if (!want || !*want)
		return;
	for (unsigned i = 0; i < sizeof level_names / sizeof *level_names; i++)
		if (!strcmp(want, level_names[i])) {
			max_level = (enum stx_log_level)i;
			return;
		}
	stx_log(STX_LOG_WARN, "STAX_LOG=%.40s is not a level: error, warn, info or debug", want);
}

const char *stx_log_level_name(void)
{
	return level_names[max_level];
}

void stx_log(enum stx_log_level level, const char *fmt, ...)
{
	if (level > max_level)
		return;
	char text[1024], line[1200];
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	stx_text_mask(text, strlen(text), 0);
	struct timespec ts;
	struct tm tm;
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	int n = snprintf(line, sizeof line, "%02d:%02d:%02d.%03ld %-5s %s[%d] %s\n", tm.tm_hour,
			 tm.tm_min, tm.tm_sec, ts.tv_nsec / 1000000, level_names[level],
			 component_name, (int)getpid(), text);
	if (n >= (int)sizeof line)
		n = (int)sizeof line - 1;
	ssize_t written = write(2, line, (size_t)n);
	(void)written;
}

/* Bytes of the character at s, 0 when it is a control character or no UTF-8. */
static size_t printable(const unsigned char *s, size_t left)
{
	size_t n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	if (n > left || *s < 0x20 || *s == 0x7f || (*s == 0xc2 && n == 2 && s[1] < 0xa0))
		return 0;
	for (size_t i = 1; i < n; i++)
		if (s[i] >> 6 != 2)
			return 0;
	return n;
}

void stx_text_mask(char *text, size_t n, int is_lines)
{
	for (size_t i = 0; i < n;) {
		size_t wide = printable((const unsigned char *)text + i, n - i);
		if (!wide && !(is_lines && (text[i] == '\n' || text[i] == '\t')))
			text[i] = '?';
		i += wide ? wide : 1;
	}
}
