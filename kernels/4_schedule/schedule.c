/* schedule.c: order bodies -> cut -> find products and scores -> fuse -> build each kernel -> name it -> list
 * the steps -> plan memory -> report. */
#include "product.h"
#include "schedule_impl.h"
#include "split.h"

#include <ctype.h>
#include <stdlib.h>

#define MAX_NAME 80 /* bytes of a kernel's name */

struct scheduling {
	struct stx_schedule *s;
	const struct stx_schedule_options *o;
	struct stx_loops *l;
	struct stx_arena *arena;
	struct stx__products products;     /* that a library may make; of a GPU target */
	struct stx__attentions attentions; /* likewise, in fast */
	struct stx__scores *scores;        /* [buffers.n]; of a CPU target that fuses, else NULL */
	uint32_t *group_of;
	uint32_t *external_of; /* [groups.n] */
	uint32_t *covered_by;  /* [groups.n] call that stands for it with others */
	int64_t *sort_reads;   /* [buffers.n], kernel_sort.c; NULL: there was no sort yet */
	uint8_t *needed;       /* buffer must be in memory: an output, or read by another kernel */
	const char **inputs;   /* names of the graph's inputs, sorted */
	uint32_t ninputs;
	struct stx_diag *d;
};

static stx_err oom(struct scheduling *c)
{
	return stx_fail(c->d, STX_E_NOMEM, "schedule", NULL, "the memory budget is exceeded");
}

static void find_needed(struct scheduling *c)
{
	for (uint32_t i = 0; i < c->l->buffers.n; i++) {
		const struct stx_buffer *b = c->l->buffers.at[i];
		c->needed[i] |= b->kind == STX_BUF_OUTPUT || b->base || b->heir || b->message;
		for (uint32_t j = 0; j < b->body.n; j++)
			if (b->body.at[j].op == STX_B_LOAD &&
			    c->group_of[b->body.at[j].a] != c->group_of[i])
				c->needed[b->body.at[j].a] = 1;
	}
	for (uint32_t i = 0; i < c->l->outputs.n; i++)
		c->needed[c->l->outputs.at[i]] = 1;
}

/* Whose memory each buffer's elements are in: of a chain of updates in place the last one, or the
 * input where it began. */
static void find_storage(struct scheduling *c)
{
	for (uint32_t i = c->l->buffers.n; i-- > 0;) {
		const struct stx_buffer *b = c->l->buffers.at[i];
		c->s->storage[i] = b->heir ? c->s->storage[b->heir->id] : i;
	}
	for (uint32_t i = 0; i < c->l->buffers.n; i++) {
		const struct stx_buffer *b = c->l->buffers.at[i];
		if (b->kind == STX_BUF_INPUT)
			c->s->storage[i] = i;
		else if (b->base &&
			 c->l->buffers.at[c->s->storage[b->base->id]]->kind == STX_BUF_INPUT)
			c->s->storage[i] = c->s->storage[b->base->id];
	}
}

/* ---- names ---- */

static int by_text(const void *p, const void *q)
{
	return strcmp(*(const char *const *)p, *(const char *const *)q);
}

static stx_err collect_inputs(struct scheduling *c)
{
	c->ninputs = c->l->g->inputs.n;
	c->inputs = STX_NEW_ARRAY(c->arena, const char *, c->ninputs + 1);
	if (!c->inputs)
		return oom(c);
	for (uint32_t i = 0; i < c->ninputs; i++)
		c->inputs[i] = c->l->g->inputs.at[i].node->name;
	qsort(c->inputs, c->ninputs, sizeof *c->inputs, by_text);
	return STX_E_OK;
}

static int is_input(const struct scheduling *c, const char *name)
{
	return bsearch(&name, c->inputs, c->ninputs, sizeof *c->inputs, by_text) != NULL;
}

/* A node's name without its number and without anything but letters, digits and '_'. */
static size_t base_name(const char *node, char out[32])
{
	size_t n = strlen(node), len = 0;
	while (n > 1 && isdigit((unsigned char)node[n - 1]))
		n--;
	if (n > 1 && node[n - 1] == '_')
		n--;
	else
		n = strlen(node);
	for (size_t i = 0; i < n && len < 31; i++)
		if (isalnum((unsigned char)node[i]) ||
		    (node[i] == '_' && len && out[len - 1] != '_'))
			out[len++] = (char)tolower((unsigned char)node[i]);
	out[len] = 0;
	return len;
}

/* `_name_` occurs in text, which begins and ends with '_'. */
static int has_word(const char *text, size_t n, const char *word, size_t len)
{
	for (size_t i = 0; i + len + 2 <= n; i++)
		if (text[i] == '_' && !memcmp(text + i + 1, word, len) && text[i + 1 + len] == '_')
			return 1;
	return 0;
}

/* <poi|red|per|tem>_fused_<op>_..._<n> (GK-15): origins in order, each once. */
static const char *kernel_name(struct scheduling *c, const struct stx_group *g,
			       const struct stx_kernel *k, uint32_t n)
{
	char ops[MAX_NAME] = "_";
	size_t len = 1;
	int full = 0;
	for (uint32_t i = 0; i < g->buffers.n && !full; i++) {
		const struct stx_buffer *b = c->l->buffers.at[g->buffers.at[i]];
		for (uint32_t j = 0; j < b->norigins && !full; j++) {
			char word[32];
			size_t w = is_input(c, b->origins[j]) ? 0 : base_name(b->origins[j], word);
			if (!w || has_word(ops, len, word, w))
				continue;
			full = len + w + 1 > MAX_NAME - 30;
			if (full)
				break;
			memcpy(ops + len, word, w);
			len += w;
			ops[len++] = '_';
		}
	}
	ops[len] = 0;
	return stx_arena_printf(c->arena, "%s_fused%s%u", stx_kernel_kind_name(k->kind), ops, n);
}

/* ---- kernels ---- */

static stx_err build_group(struct scheduling *c, uint32_t number)
{
	const struct stx_group *g = &c->s->groups.at[number];
	const struct stx_buffer **buffers =
		STX_NEW_ARRAY(c->arena, const struct stx_buffer *, g->buffers.n);
	uint8_t *stored = STX_NEW_ARRAY(c->arena, uint8_t, g->buffers.n);
	struct stx_kernel *k;
	if (!buffers || !stored)
		return oom(c);
	for (uint32_t i = 0; i < g->buffers.n; i++) {
		buffers[i] = c->l->buffers.at[g->buffers.at[i]];
		stored[i] = c->needed[g->buffers.at[i]];
	}
	struct stx__group_def def = { .buffers = buffers,
				      .n = g->buffers.n,
				      .is_stored = stored,
				      .name = buffers[0]->name,
				      .scores = g->scores == STX_NONE ? NULL
								      : &c->scores[buffers[0]->id],
				      .target_gpu = c->o->target_gpu,
				      .fast = c->o->fast,
				      .cpu = c->o->cpu,
				      .blockings = c->o->blockings };
	int is_sort = buffers[0]->def == STX_DEF_SORT;
	if (is_sort && !c->sort_reads && stx__sort_reads(c->l, &c->sort_reads))
		return oom(c);
	stx_err err = is_sort ? stx__kernel_sort(c->l, buffers[0], c->sort_reads[buffers[0]->id],
						 c->o->target_gpu, &k, c->d)
			      : stx__kernel_build(c->l, &def, &k, c->d);
	if (err)
		return err;
	k->name = kernel_name(c, g, k, number);
	if (!k->name || stx_push(c->arena, &c->s->kernels, k))
		return oom(c);
	return STX_E_OK;
}

/* The kernel of the group, and the call that may be made in its place. */
static stx_err build_step(struct scheduling *c, uint32_t number)
{
	const struct stx__product *p =
		stx__product_of(&c->products, c->s->groups.at[number].buffers.at[0]);
	struct stx_external call;
	stx_err err = build_group(c, number);
	c->external_of[number] = STX_NONE;
	if (err || !p)
		return err;
	c->external_of[number] = c->s->externals.n;
	if (stx__product_call(c->s, p, c->s->groups.at[number].buffers.n > 1, number, &call) ||
	    stx_push(c->arena, &c->s->externals, call))
		return oom(c);
	return STX_E_OK;
}

/* ---- attentions ---- */

/* All buffers of the group are the attention's. */
static int is_covered(const struct scheduling *c, const struct stx__attention *t, uint32_t group)
{
	const struct stx_group *g = &c->s->groups.at[group];
	for (uint32_t i = 0; i < g->buffers.n; i++) {
		uint32_t j = 0;
		while (j < t->n && t->buffers[j] != g->buffers.at[i])
			j++;
		if (j == t->n)
			return 0;
	}
	return 1;
}

/* Groups that would run before those of the attention, which wait, write over nothing. */
static int may_wait(const struct scheduling *c, uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		for (uint32_t j = 0; j < c->s->groups.at[i].buffers.n; j++)
			if (c->l->buffers.at[c->s->groups.at[i].buffers.at[j]]->base)
				return 0;
	return 1;
}

/* The call stands for the attention's groups where they hold nothing else; a copy of an operand that
 * shares its kernel with others is made in any case. */
static stx_err cover(struct scheduling *c, const struct stx__attention *t)
{
	uint32_t first = STX_NONE, last = 0;
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t g = c->group_of[t->buffers[i]];
		int is_copy = i >= t->needed && i + 1 < t->n;
		if (g == STX_NONE || !is_covered(c, t, g) || c->covered_by[g] != STX_NONE) {
			if (!is_copy)
				return STX_E_OK;
			continue;
		}
		first = g < first ? g : first;
		last = g > last ? g : last;
	}
	if (!may_wait(c, first, last))
		return STX_E_OK;
	for (uint32_t i = 0; i < t->n; i++) {
		uint32_t g = c->group_of[t->buffers[i]];
		if (g != STX_NONE && is_covered(c, t, g) && c->covered_by[g] == STX_NONE)
			c->covered_by[g] = c->s->externals.n;
	}
	return stx_push(c->arena, &c->s->externals, t->call) ? oom(c) : STX_E_OK;
}

static stx_err cover_all(struct scheduling *c)
{
	stx_err err = STX_E_OK;
	c->covered_by = STX_NEW_ARRAY(c->arena, uint32_t, c->s->groups.n + 1);
	if (!c->covered_by)
		return oom(c);
	for (uint32_t i = 0; i < c->s->groups.n; i++)
		c->covered_by[i] = STX_NONE;
	for (uint32_t i = 0; i < c->attentions.n && !err; i++)
		err = cover(c, &c->attentions.at[i]);
	return err;
}

stx_err stx_schedule(struct stx_loops *l, const struct stx_schedule_options *o,
		     struct stx_schedule **out, struct stx_diag *d)
{
	struct stx_arena *a = l->g->arena;
	struct scheduling c = {
		.s = STX_NEW(a, struct stx_schedule), .o = o, .l = l, .arena = a, .d = d
	};
	*out = NULL;
	for (uint32_t i = 0; i < l->buffers.n; i++)
		if (l->buffers.at[i]->def != STX_DEF_NONE &&
		    stx__order_body(l, &l->buffers.at[i]->body))
			return oom(&c);
	stx_err err = o->no_split ? STX_E_OK : stx__split(l, o, d);
	if (err)
		return err;
	if (o->target_gpu && !o->no_external)
		err = stx__pad_channels(l, d);
	if (!err && o->target_gpu && !o->no_external) /* in fast attention's own are the call's */
		err = o->fast ? stx__find_masks(l, d) : stx__widen_operands(l, d);
	if (!err && o->target_gpu && !o->no_external)
		err = stx__find_products(l, &c.products, d);
	if (!err && o->target_gpu && o->fast && !o->no_external)
		err = stx__find_attentions(l, &c.attentions, d);
	if (err)
		return err;
	if (!o->target_gpu && !o->no_fuse && stx__find_scores(l, &c.scores))
		return oom(&c);
	c.group_of = STX_NEW_ARRAY(a, uint32_t, l->buffers.n + 1);
	c.needed = STX_NEW_ARRAY(a, uint8_t, l->buffers.n + 1);
	if (!c.s || !c.group_of || !c.needed)
		return oom(&c);
	c.s->loops = l;
	c.s->storage = STX_NEW_ARRAY(a, uint32_t, l->buffers.n + 1);
	if (!c.s->storage)
		return oom(&c);
	find_storage(&c);
	err = stx__fuse(c.s, o, &c.products, c.scores, c.group_of, d);
	if (err)
		return err;
	err = collect_inputs(&c);
	if (err)
		return err;
	find_needed(&c);
	c.external_of = STX_NEW_ARRAY(a, uint32_t, c.s->groups.n + 1);
	if (!c.external_of)
		return oom(&c);
	for (uint32_t i = 0; i < c.s->groups.n; i++) {
		err = build_step(&c, i);
		if (err)
			return err;
	}
	err = cover_all(&c);
	if (err)
		return err;
	if (stx__add_steps(c.s, c.external_of, c.covered_by))
		return oom(&c);
	err = stx__memory_plan(c.s, d);
	if (!err)
		err = stx__report(c.s, c.needed, d);
	if (!err)
		*out = c.s;
	return err;
}
