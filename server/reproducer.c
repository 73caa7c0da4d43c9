/* reproducer.c: writes down what the compiler failed at by its own fault (repro.h). The file is
 * written by another thread while the reply, which names it, is on its way. */
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include "chain.h"
#include "log.h"
#include "repro.h"

/* Of the file: lines and values, which a header of 64 KiB holds. */
#define OTHER_BYTES (128u << 10)

struct note {
	uv_work_t work;
	struct stx__spec *spec;
	int fd; /* the graph's bytes */
	struct stx_repro r;
	char path[PATH_MAX];
};

static void write_note(uv_work_t *w)
{
	struct note *n = w->data;
	struct stx__map m;
	struct stx_diag d = { 0 };
	struct stx_bytes file = { 0 };
	stx_err e = stx__memfd_map(n->fd, STX_REPRO_MAX_BYTES, STX__MAPPED, &m, &d);
	n->r.body = (struct stx_span){ m.at, m.n };
	if (!e)
		e = stx_repro_format(&n->r, &file);
	if (!e)
		e = stx_repro_write(n->path, (struct stx_span){ file.at, file.n }, &d);
	if (e)
		stx_log(STX_LOG_WARN, "writing a reproducer: %s",
			d.text[0] ? d.text : stx_err_text(e));
	stx__memfd_unmap(&m);
	stx_bytes_free(&file);
}

static void written(uv_work_t *w, int status)
{
	struct note *n = w->data;
	(void)status;
	stx__spec_drop(n->spec);
	close(n->fd);
	free(n);
}

/* A crash is tried once more before anybody hears of it, unless an earlier request of the graph has
 * brought a worker down already: then this one puts it in quarantine. */
static int is_told(struct stx__chain *c, const struct stx__attempts *a,
		   const struct stx__outcome *o)
{
	return o->fate == STX__FATE_CRASHED
		       ? a->crashes > 0 || stx__quarantine_is_next(&c->s->quarantine, &c->flight.id,
								   stx__now_ms(c->s))
		       : o->fate == STX__FATE_DIAGNOSED && stx_repro_wanted(o->diag.code);
}

static struct note *new_note(struct stx__chain *c, const struct stx_digest *id)
{
	const char *dir = c->s->cfg.reproducers;
	int is_key = c->kind == STX__CHAIN_KEY;
	int fd = is_key ? c->spec->body_fd : ((struct stx__compile_chain *)c)->graph_fd;
	struct note *n = *dir ? calloc(1, sizeof *n) : NULL;
	if (!n)
		return NULL;
	n->fd = dup(fd);
	if (n->fd < 0 || lseek(n->fd, 0, SEEK_END) > (off_t)(STX_REPRO_MAX_BYTES - OTHER_BYTES) ||
	    stx_repro_path(dir, id, n->path, sizeof n->path)) {
		if (n->fd >= 0)
			close(n->fd);
		free(n);
		return NULL;
	}
	n->work.data = n;
	n->spec = stx__spec_ref(c->spec);
	n->r.format = is_key ? c->spec->what->format : 2; /* the canonical graph is text */
	n->r.target = c->spec->what->target;
	n->r.options = c->spec->options;
	n->r.values = c->spec->what->values;
	n->r.nvalues = is_key ? c->spec->what->n_values : 0;
	n->r.blockings = c->spec->what->blockings;
	n->r.nblockings = c->spec->what->n_blockings;
	n->r.compiler = c->s->fingerprint;
	return n;
}

void stx__chain_reproduce(struct stx__chain *c, const struct stx__attempts *a,
			  struct stx__outcome *o)
{
	const struct stx_digest *id =
		c->kind == STX__CHAIN_KEY ? &c->flight.id : &((struct stx__compile_chain *)c)->key;
	struct note *n = is_told(c, a, o) ? new_note(c, id) : NULL;
	if (!n)
		return;
	n->r.error = o->diag;
	if (uv_queue_work(c->s->loop, &n->work, write_note, written)) {
		written(&n->work, UV_ECANCELED);
		return;
	}
	stx_repro_mention(&o->diag, n->path);
}
