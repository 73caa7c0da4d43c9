/* key.c: digests of requests, artifacts and kernels. */
#include "key.h"

#include <string.h>
#include <sys/random.h>

#include "bytes.h"
#include "cpu_target.h"

uint32_t stx_option_bits(const Stx__Options *o)
{
	if (!o)
		return 0;
	return (o->training ? STX_OPTION_TRAINING : 0u) | (o->dynamic ? STX_OPTION_DYNAMIC : 0u) |
	       (o->fast ? STX_OPTION_FAST : 0u) | (o->allow_fallback ? STX_OPTION_FALLBACK : 0u);
}

static void put_str(struct stx_bytes *b, const char *s)
{
	stx_bytes_u64(b, strlen(s));
	stx_bytes_puts(b, s);
}

static struct stx_digest digest_and_free(struct stx_bytes *b)
{
	struct stx_digest d = { { 0 } };
	if (!b->oom)
		d = stx_digest_of(b->at, b->n);
	else if (getrandom(d.b, sizeof d.b, 0) < 0) /* out of memory: a digest nobody shares */
		memcpy(d.b, &(uintptr_t){ (uintptr_t)b }, sizeof(uintptr_t));
	stx_bytes_free(b);
	return d;
}

struct stx_digest stx_key_memo(const Stx__Lookup *l, const struct stx_digest *body,
			       const struct stx_digest *fingerprint)
{
	struct stx_bytes b = { 0 };
	put_str(&b, "stax-memo-v1");
	put_str(&b, l->ns[0] ? l->ns : "default");
	stx_bytes_u32(&b, STX_KEY_FORMAT);
	stx_bytes_u32(&b, l->format);
	stx_bytes_put(&b, body->b, sizeof body->b);
	put_str(&b, l->target);
	stx_bytes_u32(&b, stx_option_bits(l->options));
	stx_bytes_put(&b, fingerprint->b, sizeof fingerprint->b);
	stx_bytes_u64(&b, l->n_values);
	for (size_t i = 0; i < l->n_values; i++) {
		const Stx__GivenValue *v = l->values[i];
		put_str(&b, v->input);
		stx_bytes_u32(&b, v->dtype);
		stx_bytes_u64(&b, v->n_sizes);
		stx_bytes_put(&b, v->sizes, v->n_sizes * sizeof *v->sizes);
		stx_bytes_u64(&b, v->data.len);
		stx_bytes_put(&b, v->data.data, v->data.len);
	}
	struct stx_digest plain = digest_and_free(&b);
	return stx_key_blocked(&plain, l->blockings, l->n_blockings);
}

struct stx_digest stx_key_blocked(const struct stx_digest *of, Stx__Blocking *const *blockings,
				  size_t n)
{
	struct stx_bytes b = { 0 };
	if (!n)
		return *of;
	put_str(&b, "stax-blocked-v1");
	stx_bytes_put(&b, of->b, sizeof of->b);
	for (size_t i = 0; i < n; i++) {
		stx_bytes_u64(&b, blockings[i]->product.len);
		stx_bytes_put(&b, blockings[i]->product.data, blockings[i]->product.len);
		put_str(&b, blockings[i]->config);
	}
	return digest_and_free(&b);
}

/* target: its first n characters. */
static struct stx_digest code_digest(const char *what, const struct stx_digest *of,
				     const char *target, size_t n, uint32_t options,
				     const struct stx_digest *fingerprint)
{
	struct stx_bytes b = { 0 };
	put_str(&b, what);
	stx_bytes_u32(&b, STX_KEY_FORMAT);
	stx_bytes_put(&b, of->b, sizeof of->b);
	stx_bytes_u64(&b, n);
	stx_bytes_put(&b, target, n);
	stx_bytes_u32(&b, options);
	stx_bytes_put(&b, fingerprint->b, sizeof fingerprint->b);
	return digest_and_free(&b);
}

struct stx_digest stx_key_artifact(const struct stx_digest *graph, const char *target,
				   uint32_t options, const struct stx_digest *fingerprint)
{
	return code_digest("stax-key-v1", graph, target, strlen(target), options, fingerprint);
}

static struct stx_digest kernel_digest(const struct stx_digest *ir, const char *target,
				       uint32_t options, const struct stx_digest *fingerprint)
{
	return code_digest("stax-kernel-v1", ir, target, stx_target_kernel_length(target),
			   options & STX_OPTION_FAST, fingerprint);
}

struct stx_digest stx_key_kernel(const struct stx_digest *ir, const char *config,
				 const char *target, uint32_t options,
				 const struct stx_digest *fingerprint)
{
	struct stx_digest code = kernel_digest(ir, target, options, fingerprint);
	struct stx_bytes b = { 0 };
	if (!config)
		return code;
	put_str(&b, "stax-kernel-config-v1");
	stx_bytes_put(&b, code.b, sizeof code.b);
	put_str(&b, config);
	return digest_and_free(&b);
}

struct stx_digest stx_key_tune(const struct stx_digest *ir, const char *target, uint32_t options,
			       const struct stx_digest *fingerprint, const Stx__Device *device)
{
	struct stx_digest code = kernel_digest(ir, target, options, fingerprint);
	struct stx_bytes b = { 0 };
	put_str(&b, "stax-tune-v1");
	stx_bytes_put(&b, code.b, sizeof code.b);
	put_str(&b, device->name);
	stx_bytes_u32(&b, device->multiprocessors);
	stx_bytes_u32(&b, device->clock_khz);
	stx_bytes_u32(&b, device->memory_clock_khz);
	stx_bytes_u32(&b, device->driver);
	return digest_and_free(&b);
}

struct stx_digest stx_key_pin(const char *job, const struct stx_digest *tune)
{
	struct stx_bytes b = { 0 };
	put_str(&b, "stax-tune-job-v1");
	put_str(&b, job);
	stx_bytes_put(&b, tune->b, sizeof tune->b);
	return digest_and_free(&b);
}

struct stx_digest stx_key_scoped(const char *ns, const struct stx_digest *d)
{
	struct stx_bytes b = { 0 };
	put_str(&b, "stax-scope-v1");
	put_str(&b, ns);
	stx_bytes_put(&b, d->b, sizeof d->b);
	return digest_and_free(&b);
}
