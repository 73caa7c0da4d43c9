/* cudnn_call.c: what calls by cuDNN share: the engines of a graph as ways, one call of an engine,
 * and what the library says when something fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "cudnn.h"

int stx__cudnn_has(struct stx_diag *d)
{
	return stx__cudnn(d) != NULL;
}

int stx__cudnn_create(void **handle)
{
	return stx__cudnn(NULL)->create(handle);
}

void stx__cudnn_destroy(void *handle)
{
	stx__cudnn(NULL)->destroy(handle);
}

int stx__cudnn_type(uint8_t t)
{
	switch (t) {
	case STX_F32: return STX_CUDNN_DATA_FLOAT;
	case STX_F64: return STX_CUDNN_DATA_DOUBLE;
	case STX_F16: return STX_CUDNN_DATA_HALF;
	case STX_BF16: return STX_CUDNN_DATA_BFLOAT16;
	default: return -1;
	}
}

void stx__cudnn_why(const char *what, int status, char *out, size_t cap)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	char said[1024] = "";
	q->last_error(said, sizeof said);
	said[sizeof said - 1] = 0;
	const char *reason = strstr(said, "Reason: ");
	reason = reason ? reason + strlen("Reason: ") : said;
	snprintf(out, cap, "%s: %s%s%.*s", what, status ? q->error_string(status) : "",
		 status && *reason ? ": " : "", (int)strcspn(reason, "\n"), reason);
}

static struct stx__cudnn_kept *find_engine(struct stx__cudnn_kept *e, const char *name)
{
	while (e && strcmp(e->e.name, name) != 0)
		e = e->next;
	return e;
}

static uint32_t ways_of(struct stx__cudnn_set *set, int type, uint32_t most, struct stx__way *out)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	struct stx__cudnn_engine *found = calloc(most, sizeof *found);
	uint32_t n = 0, count = 0;
	if (found && set->graph.n)
		n = stx__cudnn_engines(q, &set->graph, type, NULL, most, found);
	for (uint32_t i = 0; i < n; i++) {
		struct stx__cudnn_kept *e = find_engine(set->all, found[i].name);
		if (!e && (e = calloc(1, sizeof *e))) {
			e->e = found[i];
			memset(&found[i], 0, sizeof found[i]);
			e->next = set->all;
			set->all = e;
		}
		if (e) {
			out[count] = (struct stx__way){ .algorithm = { (uintptr_t)e } };
			memcpy(out[count++].name, e->e.name, sizeof out->name);
		}
		stx__cudnn_engine_free(q, &found[i]);
	}
	free(found);
	return count;
}

uint32_t stx__cudnn_list(struct stx__cudnn_set *set, int type, int status, const char *what,
			 uint32_t most, struct stx__way *out, char *why, size_t cap)
{
	char text[64];
	if (status) {
		snprintf(text, sizeof text, "the graph of %s", what);
		stx__cudnn_why(text, status, why, cap);
		stx__cudnn_graph_free(stx__cudnn(NULL), &set->graph);
		return 0;
	}
	uint32_t n = ways_of(set, type, most, out);
	if (!n) {
		snprintf(text, sizeof text, "no engine for %s", what);
		stx__cudnn_why(text, 0, why, cap);
	}
	return n;
}

struct stx_digest stx__cudnn_digest(int64_t type, const int64_t *attrs, uint32_t n,
				    size_t workspace_bytes, int is_aligned)
{
	/* 1: of this form */
	int64_t all[4 + STX__CALL_ATTRS] = { 1, is_aligned, (int64_t)workspace_bytes, type };
	memcpy(all + 4, attrs, n * sizeof *attrs);
	return stx_digest_of(all, (4 + n) * sizeof *all);
}

void stx__cudnn_set_free(struct stx__cudnn_set *set)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	while (set->all) {
		struct stx__cudnn_kept *e = set->all;
		set->all = e->next;
		stx__cudnn_engine_free(q, &e->e);
		free(e);
	}
	stx__cudnn_graph_free(q, &set->graph);
}

/* What the library says before it has begun: then the kernel can still do it. */
static int is_refusal(int status)
{
	return (status >= STX_CUDNN_STATUS_BAD_PARAM && status < STX_CUDNN_STATUS_INTERNAL_ERROR) ||
	       status == STX_CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
	       status == STX_CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

/* requires: the code's lock, which the handle's stream needs. A status. */
static int execute(void *handle, const struct stx__step *s, void *plan, int64_t n,
		   const int64_t *ids, void *const *at, void *stream)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	void *pack = NULL, *workspace = stx__external_workspace_at(s);
	int e = q->desc_create(STX_CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
	if (e)
		return e;
	e = q->set_stream(handle, stream);
	if (!e)
		e = q->desc_set(pack, STX_CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, STX_CUDNN_TYPE_INT64,
				n, ids);
	if (!e)
		e = q->desc_set(pack, STX_CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
				STX_CUDNN_TYPE_VOID_PTR, n, at);
	if (!e)
		e = q->desc_set(pack, STX_CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
				STX_CUDNN_TYPE_VOID_PTR, 1, &workspace);
	if (!e)
		e = q->desc_finalize(pack);
	if (!e)
		e = q->execute(handle, plan, pack);
	q->desc_destroy(pack);
	return e;
}

stx_err stx__cudnn_call(const struct stx__context *x, const struct stx__step *s,
			const struct stx__way *way, int64_t n, const int64_t *ids, void *const *at,
			const struct stx_env *env, struct stx_diag *d)
{
	const struct stx__cudnn *q = stx__cudnn(NULL);
	const struct stx__call *c = s->call;
	struct stx__cudnn_kept *engine = (struct stx__cudnn_kept *)(uintptr_t)way->algorithm[0];
	struct stx__gpu_code *g = x->gpu->code;
	void *handle = g->library[STX__CUDNN].handle;
	char why[240] = "";
	int status = 0;
	pthread_mutex_lock(&g->lock);
	int is_there = stx__cudnn_plan(q, handle, NULL, &engine->e, (int64_t)c->workspace_bytes);
	if (engine->e.failed < 0)
		snprintf(why, sizeof why, "%s works in more memory than the plan has",
			 engine->e.name);
	else if (!is_there)
		stx__cudnn_why("an engine of its list has no plan here", engine->e.failed, why,
			       sizeof why);
	else if ((status =
			  execute(handle, s, engine->e.plan, n, ids, at, env ? env->stream : NULL)))
		stx__cudnn_why(engine->e.name, status, why, sizeof why);
	pthread_mutex_unlock(&g->lock);
	if (is_there && !status)
		return STX_E_OK;
	if (!is_there || is_refusal(status))
		return stx__call_cannot(s, why, d);
	return stx_fail(d, STX_E_INTERNAL, "cuda", s->external->name, "cuDNN: %s", why);
}
