/* report.c: results on stdout, errors on stderr. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"
#include "tool.h"

_Static_assert(sizeof(struct stax_error) == sizeof(struct stx_diag), "one layout, two names");

void stx_tool_diag(struct stx_diag *d, const struct stax_error *e)
{
	memcpy(d, e, sizeof *d);
}

int stx_tool_emit(struct stx_bytes *b)
{
	int status = b->oom ? 8 : 0;
	if (b->n)
		stx_text_mask((char *)b->at, b->n, 1);
	for (size_t done = 0; !status && done < b->n;) {
		ssize_t w = write(1, b->at + done, b->n - done);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && errno == EPIPE)
			break; /* the reader has seen enough */
		if (w <= 0) {
			fprintf(stderr, "stax: standard output: %s\n", strerror(errno));
			status = 1;
			break;
		}
		done += (size_t)w;
	}
	stx_bytes_free(b);
	return status;
}

/* Names come from files of strangers. */
void stx_tool_put_text(FILE *f, const char *text)
{
	size_t n = strlen(text);
	char *copy = strdup(text);
	if (!copy)
		return;
	stx_text_mask(copy, n, 0);
	fwrite(copy, 1, n, f);
	free(copy);
}

/* Whether the text names the node, and has not just the same letters inside a word. */
static int names(const char *text, const char *node)
{
	size_t n = strlen(node);
	for (const char *p = strstr(text, node); p; p = strstr(p + 1, node))
		if ((p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_')) &&
		    !(isalnum((unsigned char)p[n]) || p[n] == '_'))
			return 1;
	return 0;
}

int stx_tool_fail(const struct stx_diag *d, int json)
{
	const char *text = d->text[0] ? d->text : stx_err_text(d->code);
	/* Many texts name the file or the node already. */
	int where = d->location[0] && !strstr(text, d->location);
	int what = d->node[0] && !names(text, d->node);
	const char *const parts[] = { "stax: ",          where ? d->location : "",
				      where ? ": " : "", what ? d->node : "",
				      what ? ": " : "",  text };
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		stx_tool_put_text(stderr, parts[i]);
	fputc('\n', stderr);
	if (json) {
		struct stx_json j = { 0 };
		stx_json_open(&j, NULL, '{');
		stx_json_str(&j, "code", stx_err_name(d->code));
		stx_json_str(&j, "stage", d->stage);
		stx_json_str(&j, "node", d->node);
		stx_json_str(&j, "location", d->location);
		stx_json_str(&j, "text", text);
		stx_json_close(&j, '}');
		stx_bytes_u8(&j.b, '\n');
		stx_tool_emit(&j.b);
	}
	return stx_err_exit_code(d->code);
}
