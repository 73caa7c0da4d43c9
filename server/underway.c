/* underway.c: values on their way to the store. */
#include "underway.h"

#include <stdlib.h>

#include "blob.h"
#include "log.h"

struct stx__underway *stx__underway_new(struct stx__server *s, struct stx__table *table,
					const struct stx_digest *id, struct stx_span value,
					const char *what)
{
	struct stx__underway *w = calloc(1, sizeof *w);
	struct stx__blob *b = w ? stx__blob_copy(value.at, value.n) : NULL;
	if (!b) {
		free(w);
		return NULL;
	}
	*w = (struct stx__underway){ s, table, *id, b, what };
	if (!stx__table_set(table, id, w))
		return w;
	stx__blob_drop(b);
	free(w);
	return NULL;
}

void stx__underway_done(void *ctx, stx_err e, const struct stx_diag *d)
{
	struct stx__underway *w = ctx;
	if (e && e != STX_E_CANCELED)
		stx_log(STX_LOG_WARN, "storing %s: %s", w->what,
			d && d->text[0] ? d->text : stx_err_text(e));
	if (stx__table_get(w->table, &w->id) == w) /* not replaced meanwhile */
		stx__table_del(w->table, &w->id);
	w->s->tunes_epoch += e != STX_E_OK; /* a record may no longer be found */
	stx__blob_drop(w->value);
	free(w);
}

int stx__underway_find(const struct stx__table *table, const struct stx_digest *id,
		       struct stx_span *value)
{
	const struct stx__underway *w = stx__table_get(table, id);
	if (w)
		*value = (struct stx_span){ w->value->at, w->value->n };
	return w != NULL;
}
