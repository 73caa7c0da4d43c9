/* answer.c: packed Answers, put together from stored pieces. Wire format concatenates: repeated
 * fields append, and a later scalar replaces an earlier one. */

#include "request.h"

struct stx__blob *stx__answer_build(struct stx_span stored, struct stx_span names, int hit,
				    int stored_now, const char *reason, const char *path)
{
	Stx__Answer own = STX__ANSWER__INIT;
	own.hit = hit;
	own.stored = stored_now;
	own.reason = (char *)reason;
	own.path = (char *)(path ? path : "");
	/* own.signature and own.signer: set here once the daemon signs. */
	size_t n = stx__answer__get_packed_size(&own);
	struct stx__blob *b = stx__blob_new(stored.n + names.n + n);
	if (!b)
		return NULL;
	if (stored.n)
		memcpy(b->at, stored.at, stored.n);
	if (names.n)
		memcpy(b->at + stored.n, names.at, names.n);
	stx__answer__pack(&own, b->at + stored.n + names.n);
	return b;
}

enum { TAG_STAGES = 12 << 3 | 2, TAG_NAME = 1 << 3 | 2, TAG_US = 2 << 3 };

size_t stx__answer_stage(uint8_t *out, size_t cap, const char *name, uint64_t us)
{
	uint8_t number[10], nnumber = 0;
	size_t nname = strlen(name);
	do
		number[nnumber++] = (uint8_t)((us & 0x7f) | (us > 0x7f ? 0x80 : 0));
	while (us >>= 7);
	size_t inner = 2 + nname + 1 + nnumber;
	if (nname > 20 || inner + 2 > cap)
		return 0;
	uint8_t *p = out;
	*p++ = TAG_STAGES;
	*p++ = (uint8_t)inner;
	*p++ = TAG_NAME;
	*p++ = (uint8_t)nname;
	while (*name)
		*p++ = (uint8_t)*name++;
	*p++ = TAG_US;
	memcpy(p, number, nnumber);
	return (size_t)(p + nnumber - out);
}

struct stx__blob *stx__answer_noted(const struct stx__blob *answer, const char *text)
{
	Stx__Answer note = STX__ANSWER__INIT;
	char *list[1] = { (char *)(uintptr_t)text };
	note.report = list;
	note.n_report = 1;
	struct stx__blob *b = stx__blob_new(answer->n + stx__answer__get_packed_size(&note));
	if (!b)
		return NULL;
	memcpy(b->at, answer->at, answer->n);
	stx__answer__pack(&note, b->at + answer->n);
	return b;
}
