/* progress.c: what a long compile is doing, on stderr: a line that is rewritten on a terminal, else
 * a line now and then once it takes long. */
#include <time.h>
#include <unistd.h>

#include "tool.h"

#define QUIET_NS    300000000ull /* shorter compiles show nothing */
#define TERMINAL_NS 100000000ull /* between updates */
#define PLAIN_NS    5000000000ull

static void show(void *ctx, const char *stage, uint32_t done, uint32_t total, uint64_t ms)
{
	struct stx_tool_progress *p = ctx;
	uint64_t now = stx_clock_ns(), quiet = p->terminal ? QUIET_NS : PLAIN_NS;
	(void)ms;
	if (now - p->start_ns < quiet || now - p->last_ns < (p->terminal ? TERMINAL_NS : PLAIN_NS))
		return;
	p->last_ns = now;
	p->shown = 1;
	fprintf(stderr, p->terminal ? "\r\033[K%s %u/%u, %.1f s" : "stax: %s %u/%u, %.1f s\n",
		stage, done, total, (double)(now - p->start_ns) * 1e-9);
	fflush(stderr);
}

void stx_tool_progress_start(struct stx_tool_progress *p, struct stax_request *q)
{
	p->terminal = isatty(2);
	p->start_ns = p->last_ns = stx_clock_ns();
	p->shown = 0;
	q->progress = show;
	q->progress_ctx = p;
}

void stx_tool_progress_end(struct stx_tool_progress *p)
{
	if (p->terminal && p->shown)
		fputs("\r\033[K", stderr);
}
