/* replay.c: a reproducer file (repro.h) as a graph file: its graph, values, target and options. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "key.h"
#include "repro.h"
#include "timing.h"
#include "tool.h"

static stx_err take_values(struct stx_tool_replay *r, const struct stx_repro *p, struct stx_diag *d)
{
	for (size_t i = 0; i < p->nvalues; i++) {
		const Stx__GivenValue *v = p->values[i];
		struct stx_host h;
		stx_err e =
			stx_host_new(&h, (enum stx_dtype)v->dtype, (int)v->n_sizes, v->sizes, d);
		if (e)
			return e;
		if (h.bytes != v->data.len) {
			stx_host_free(&h);
			return stx_fail(d, STX_E_INVALID, "reproducer", v->input,
					"the value has another size than its type says");
		}
		if (h.bytes)
			memcpy(h.t.data, v->data.data, h.bytes);
		if ((e = stx_tool_values_add(&r->values, v->input, &h, d)))
			return e;
	}
	return STX_E_OK;
}

static stx_err take_blockings(struct stx_tool_replay *r, const struct stx_repro *p,
			      struct stx_diag *d)
{
	struct texts {
		char product[STX_DIGEST_HEX + 8], config[STX_CONFIG_BYTES];
	} * texts;
	r->blockings = calloc(p->nblockings + 1, sizeof *r->blockings + sizeof *texts);
	if (!r->blockings)
		return stx_fail(d, STX_E_NOMEM, "reproducer", "", "out of memory");
	texts = (struct texts *)(void *)(r->blockings + p->nblockings + 1);
	for (; r->nblockings < p->nblockings; r->nblockings++, texts++) {
		const Stx__Blocking *b = p->blockings[r->nblockings];
		struct stx_digest product;
		char hex[STX_DIGEST_HEX];
		memcpy(product.b, b->product.data, sizeof product.b);
		stx_digest_hex(&product, hex);
		snprintf(texts->product, sizeof texts->product, "sha256:%s", hex);
		snprintf(texts->config, sizeof texts->config, "%s", b->config);
		r->blockings[r->nblockings] =
			(struct stax_blocking){ texts->product, texts->config };
	}
	return STX_E_OK;
}

stx_err stx_tool_replay_read(struct stx_tool_graph *g, struct stx_bytes *file, struct stx_diag *d)
{
	struct stx_repro p;
	struct stx_bytes body = { 0 };
	struct stx_arena *a = stx_arena_new(0);
	stx_err e = a ? stx_repro_parse((struct stx_span){ file->at, file->n }, a, &p, d)
		      : stx_fail(d, STX_E_NOMEM, "reproducer", "", "out of memory");
	if (!e && strlen(p.target) >= sizeof g->replay.target)
		e = stx_fail(d, STX_E_INVALID, "reproducer", "", "bad target '%.80s'", p.target);
	if (!e && stx_bytes_put(&body, p.body.at, p.body.n))
		e = stx_fail(d, STX_E_NOMEM, "reproducer", "", "out of memory");
	if (!e)
		e = take_values(&g->replay, &p, d);
	if (!e)
		e = take_blockings(&g->replay, &p, d);
	if (!e) {
		snprintf(g->replay.target, sizeof g->replay.target, "%s", p.target);
		g->replay.options = p.options;
		g->format = (enum stax_format)p.format;
		if (g->format == STAX_ONNX) {
			e = stx_model_parse(&body, ".", &g->model, d);
		} else {
			g->text = body;
			body = (struct stx_bytes){ 0 };
		}
	}
	stx_bytes_free(&body);
	stx_bytes_free(file);
	stx_arena_free(a);
	return e;
}

void stx_tool_replay_request(const struct stx_tool_graph *g, struct stax_request *q)
{
	uint32_t o = g->replay.options;
	if (!g->replay.target[0])
		return;
	if (!q->target)
		q->target = g->replay.target;
	if (!q->nblockings) {
		q->blockings = g->replay.blockings;
		q->nblockings = g->replay.nblockings;
	}
	q->training |= (o & STX_OPTION_TRAINING) != 0;
	q->dynamic |= (o & STX_OPTION_DYNAMIC) != 0;
	q->fast |= (o & STX_OPTION_FAST) != 0;
	q->allow_fallback |= (o & STX_OPTION_FALLBACK) != 0;
}
