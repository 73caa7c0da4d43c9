/* message.c: requests as protobuf messages, answers as public structs. */
#include <stdlib.h>
#include <string.h>

#include "client.h"
#include "onnx_strip.h"
#include "cuda.h"
#include "dtype.h"
#include "gpu_target.h"

#define GIVEN_VALUE_MAX (64u << 10)

const char *stx__request_namespace(const char *ns)
{
	if (!ns || !*ns)
		ns = getenv("STAX_NAMESPACE");
	return ns && *ns ? ns : "default";
}

/* Protobuf messages have char * fields for strings that are only read. */
static char *borrow(const char *s)
{
	return (char *)(uintptr_t)s;
}

static stx_err build_value(struct stx_arena *a, const struct stax_value *v, Stx__GivenValue **out,
			   struct stx_diag *d)
{
	const char *name = v->input ? v->input : "";
	if (v->rank < 0 || v->rank > STX_MAX_RANK || v->dtype < 0 || v->dtype >= STX_DTYPE_COUNT)
		return stx_fail(d, STX_E_USAGE, "request", name, "value of '%s': bad rank or type",
				name);
	if (v->bytes > GIVEN_VALUE_MAX)
		return stx_fail(d, STX_E_TOO_LARGE, "request", name,
				"value of '%s': %zu bytes, at most %u can be specialised", name,
				v->bytes, GIVEN_VALUE_MAX);
	size_t want = (size_t)stx_dtype_bytes((enum stx_dtype)v->dtype);
	for (int i = 0; i < v->rank; i++)
		if (v->sizes[i] < 0 || __builtin_mul_overflow(want, (size_t)v->sizes[i], &want))
			return stx_fail(d, STX_E_USAGE, "request", name, "value of '%s': bad sizes",
					name);
	if (want != v->bytes)
		return stx_fail(d, STX_E_USAGE, "request", name,
				"value of '%s': %zu bytes for a tensor of %zu", name, v->bytes,
				want);
	Stx__GivenValue *m = STX_NEW(a, Stx__GivenValue);
	if (!m)
		return stx_fail(d, STX_E_NOMEM, "request", "", "out of memory");
	stx__given_value__init(m);
	m->input = borrow(name);
	m->dtype = (uint32_t)v->dtype;
	m->n_sizes = (size_t)v->rank;
	m->sizes = (int64_t *)(uintptr_t)v->sizes;
	m->data.len = v->bytes;
	m->data.data = (uint8_t *)(uintptr_t)v->data;
	*out = m;
	return STX_E_OK;
}

stx_err stx__request_strip(const struct stax_request *r, struct stax_request *sent,
			   struct stx_bytes *stripped, struct stx_diag *d)
{
	*sent = *r;
	if (!r->graph_bytes)
		return stx_fail(d, STX_E_INVALID, "import", "",
				"the graph is empty: it has no node and no `return`");
	if (r->format != STAX_ONNX)
		return STX_E_OK;
	stx_err e = stx_onnx_strip((struct stx_span){ r->graph, r->graph_bytes }, stripped, d);
	sent->graph = stripped->at;
	sent->graph_bytes = stripped->n;
	return e;
}

/* What a server takes. */
static int valid_ns(const char *ns)
{
	size_t n = strspn(ns, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
	return n <= 64 && !ns[n] && ns[0] != '.';
}

/* Where it will run, so that the answer has what was measured there; and the job whose ranks choose
 * alike. Without a driver nothing is said, nor for another host. host: room. */
static void add_device(Stx__Lookup *m, Stx__Device *host)
{
	const char *job = getenv("STAX_JOB");
	const Stx__Device *device = host;
	if (!m->target || !host ||
	    (stx_gpu_is_target(m->target)
		     ? stx__cuda_device(&device, NULL)
		     : stx__cpu_device(m->target, stx__thread_count(), host, NULL)))
		return;
	m->device = (Stx__Device *)(uintptr_t)device;
	if (job && strlen(job) < 256)
		m->job = borrow(job);
}

static int by_product(const void *p, const void *q)
{
	const Stx__Blocking *a = *(Stx__Blocking *const *)p, *b = *(Stx__Blocking *const *)q;
	return memcmp(a->product.data, b->product.data, STX_DIGEST_BYTES);
}

/* A text that begins like a digest and is none names no product that there is. */
static struct stx_digest product_digest(const char *product)
{
	static const char prefix[] = "sha256:";
	struct stx_digest d;
	if (!strncmp(product, prefix, sizeof prefix - 1) &&
	    !stx_digest_parse(product + sizeof prefix - 1, &d))
		return d;
	return stx_digest_of(product, strlen(product));
}

static stx_err build_blockings(struct stx_arena *a, const struct stax_request *r, Stx__Lookup *m,
			       struct stx_diag *d)
{
	if (!r->nblockings)
		return STX_E_OK;
	if (r->nblockings > STX_CHOICES_MAX || (m->target && stx_gpu_is_target(m->target)))
		return stx_fail(d, STX_E_USAGE, "request", "",
				"blockings are of a CPU's products, at most %u in a request",
				STX_CHOICES_MAX);
	Stx__Blocking **list = STX_NEW_ARRAY(a, Stx__Blocking *, r->nblockings);
	for (size_t i = 0; list && i < r->nblockings; i++) {
		const char *product = r->blockings[i].product, *config = r->blockings[i].config;
		if (!product || !config || !config[0] || strlen(config) >= STX_CONFIG_BYTES)
			return stx_fail(d, STX_E_USAGE, "request", "",
					"blocking %zu needs a product and a configuration of at "
					"most %u bytes (stax_kernel_info)",
					i, STX_CONFIG_BYTES - 1);
		struct stx_digest *digest = STX_NEW(a, struct stx_digest);
		if (!digest || !(list[i] = STX_NEW(a, Stx__Blocking)))
			break;
		*digest = product_digest(product);
		stx__blocking__init(list[i]);
		list[i]->product = (ProtobufCBinaryData){ sizeof digest->b, digest->b };
		list[i]->config = borrow(config);
	}
	if (stx_arena_oom(a))
		return stx_fail(d, STX_E_NOMEM, "request", "", "out of memory");
	qsort(list, r->nblockings, sizeof *list, by_product);
	for (size_t i = 1; i < r->nblockings; i++)
		if (!by_product(&list[i - 1], &list[i]))
			return stx_fail(d, STX_E_USAGE, "request", "",
					"two blockings, %s and %s, are of one product",
					list[i - 1]->config, list[i]->config);
	m->blockings = list;
	m->n_blockings = r->nblockings;
	return STX_E_OK;
}

stx_err stx__lookup_build(struct stx_arena *a, const struct stax_request *r, const char *target,
			  Stx__Lookup **out, struct stx_diag *d)
{
	Stx__Lookup *m = STX_NEW(a, Stx__Lookup);
	Stx__Options *o = STX_NEW(a, Stx__Options);
	uint8_t *digest = stx_arena_alloc(a, STX_DIGEST_BYTES);
	Stx__GivenValue **values = STX_NEW_ARRAY(a, Stx__GivenValue *, r->nvalues);
	if (!m || !o || !digest || !values)
		return stx_fail(d, STX_E_NOMEM, "request", "", "out of memory");
	if (r->format < STAX_WIRE || r->format > STAX_ONNX)
		return stx_fail(d, STX_E_USAGE, "request", "", "unknown graph format %d",
				r->format);
	if (!valid_ns(stx__request_namespace(r->ns)))
		return stx_fail(d, STX_E_USAGE, "request", "",
				"the namespace (STAX_NAMESPACE) has at most 64 of A-Z a-z 0-9 . _ "
				"-, no dot first");
	stx__lookup__init(m);
	stx__options__init(o);
	o->training = r->training != 0;
	o->dynamic = r->dynamic != 0;
	o->fast = r->fast != 0;
	o->allow_fallback = r->allow_fallback != 0;
	struct stx_digest body = stx_digest_of(r->graph, r->graph_bytes);
	memcpy(digest, body.b, sizeof body.b);
	m->body_digest.len = sizeof body.b;
	m->body_digest.data = digest;
	m->format = (uint32_t)r->format;
	m->target = stx_arena_strdup(a, target);
	m->options = o;
	m->ns = borrow(stx__request_namespace(r->ns));
	for (size_t i = 0; i < r->nvalues; i++) {
		stx_err e = build_value(a, &r->values[i], &values[i], d);
		if (e)
			return e;
	}
	m->n_values = r->nvalues;
	m->values = values;
	add_device(m, STX_NEW(a, Stx__Device));
	*out = m;
	stx_err e = build_blockings(a, r, m, d);
	if (e)
		return e;
	return m->target ? STX_E_OK : stx_fail(d, STX_E_NOMEM, "request", "", "out of memory");
}

/* ---- answers ---- */

struct answer {
	struct stax_answer pub; /* first: freed through it */
	struct stx_arena *arena;
	const char *ns;
	int fast;
};

int stx__answer_is_fast(const struct stax_answer *a)
{
	return ((const struct answer *)(const void *)a)->fast;
}

const char *stx__answer_namespace(const struct stax_answer *a)
{
	return ((const struct answer *)(const void *)a)->ns;
}

static const char *const *copy_strings(struct stx_arena *a, char *const *at, size_t n,
				       size_t *out_n)
{
	const char **list = STX_NEW_ARRAY(a, const char *, n);
	for (size_t i = 0; list && i < n; i++)
		list[i] = stx_arena_strdup(a, at[i]);
	*out_n = list ? n : 0;
	return list;
}

static void hex(const ProtobufCBinaryData *b, char out[STX_DIGEST_HEX])
{
	struct stx_digest d;
	out[0] = 0;
	if (b->len != sizeof d.b)
		return;
	memcpy(d.b, b->data, sizeof d.b);
	stx_digest_hex(&d, out);
}

static void three(uint32_t out[3], const uint32_t *at, size_t n)
{
	for (size_t i = 0; i < 3; i++)
		out[i] = i < n ? at[i] : 1;
}

static const char *const *copy_configs(struct stx_arena *a, const Stx__Kernel *f)
{
	const char **list = STX_NEW_ARRAY(a, const char *, f->n_candidates + 1);
	for (size_t i = 0; list && i < f->n_candidates; i++)
		list[i] = stx_arena_strdup(a, f->candidates[i]->text);
	return list;
}

/* The measured choice takes the place of the heuristic's. */
static void apply_choice(struct stx_arena *a, struct stax_kernel_info *k, const Stx__Kernel *f,
			 const Stx__Choice *c)
{
	for (size_t i = 0; i < f->n_candidates; i++) {
		const Stx__Configuration *to = f->candidates[i];
		if (strcmp(to->text, c->config) != 0)
			continue;
		k->config = stx_arena_strdup(a, c->config);
		k->chosen_by = "measured";
		k->median_ns = c->median_ns;
		k->spread_ns = c->spread_ns;
		three(k->grid, to->grid, to->n_grid);
		three(k->block, to->block, to->n_block);
		if (i) /* these were the heuristic choice's */
			k->registers = k->spills = k->shared_bytes = 0;
	}
}

static void copy_kernels(struct stx_arena *a, struct stax_answer *p, const Stx__Answer *m)
{
	struct stax_kernel_info *k = STX_NEW_ARRAY(a, struct stax_kernel_info, m->n_kernels);
	if (!k)
		return;
	for (size_t i = 0; i < m->n_kernels; i++) {
		const Stx__Kernel *f = m->kernels[i];
		k[i] = (struct stax_kernel_info){ .name = stx_arena_strdup(a, f->name),
						  .config = stx_arena_strdup(a, f->config),
						  .chosen_by = stx_arena_strdup(a, f->chosen_by),
						  .shared_bytes = f->shared_bytes,
						  .registers = f->registers,
						  .spills = f->spills,
						  .product = stx_arena_strdup(a, f->product),
						  .candidates = (uint32_t)f->n_candidates,
						  .configs = copy_configs(a, f),
						  .reused = f->reused };
		three(k[i].grid, f->grid, f->n_grid);
		three(k[i].block, f->block, f->n_block);
	}
	for (size_t i = 0; i < m->n_choices; i++)
		if (m->choices[i]->kernel < m->n_kernels)
			apply_choice(a, &k[m->choices[i]->kernel],
				     m->kernels[m->choices[i]->kernel], m->choices[i]);
	p->kernels = k;
	p->nkernels = m->n_kernels;
}

static void copy_lists(struct stx_arena *a, struct stax_answer *p, const Stx__Answer *m)
{
	struct stax_stage_info *s = STX_NEW_ARRAY(a, struct stax_stage_info, m->n_stages);
	struct stax_needed *need = STX_NEW_ARRAY(a, struct stax_needed, m->n_need_values);
	for (size_t i = 0; s && i < m->n_stages; i++)
		s[i] = (struct stax_stage_info){ stx_arena_strdup(a, m->stages[i]->name),
						 m->stages[i]->us };
	for (size_t i = 0; need && i < m->n_need_values; i++)
		need[i] = (struct stax_needed){ stx_arena_strdup(a, m->need_values[i]->input),
						stx_arena_strdup(a, m->need_values[i]->why) };
	p->stages = s;
	p->nstages = s ? m->n_stages : 0;
	p->needed = need;
	p->nneeded = need ? m->n_need_values : 0;
	p->input_names = copy_strings(a, m->input_names, m->n_input_names, &p->ninputs);
	p->output_names = copy_strings(a, m->output_names, m->n_output_names, &p->noutputs);
	p->report = copy_strings(a, m->report, m->n_report, &p->nreport);
}

struct stax_answer *stx__answer_new(const Stx__Answer *m, const Stx__Lookup *what)
{
	struct stx_arena *a = stx_arena_new(0);
	struct answer *x = a ? STX_NEW(a, struct answer) : NULL;
	if (!x) {
		stx_arena_free(a);
		return NULL;
	}
	struct stax_answer *p = &x->pub;
	x->arena = a;
	x->ns = stx_arena_strdup(a, what->ns);
	x->fast = what->options && what->options->fast;
	hex(&m->key, p->key);
	hex(&m->digest, p->digest);
	strncpy(p->target, what->target, sizeof p->target - 1);
	p->size_bytes = m->size_bytes;
	p->path = stx_arena_strdup(a, m->path);
	p->reason = stx_arena_strdup(a, m->reason);
	p->hit = m->hit;
	p->stored = m->stored;
	p->bytes_read = m->bytes_read;
	p->bytes_written = m->bytes_written;
	p->bytes_min = m->bytes_min;
	p->compile_us = m->compile_us;
	copy_kernels(a, p, m);
	copy_lists(a, p, m);
	if (stx_arena_oom(a)) {
		stx_arena_free(a);
		return NULL;
	}
	return p;
}

void stax_answer_free(struct stax_answer *a)
{
	if (a)
		stx_arena_free(((struct answer *)(void *)a)->arena);
}
