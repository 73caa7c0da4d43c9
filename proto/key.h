/* key.h
 * what requests, artifacts and kernels are known by (design: Keys): the daemon and a private
 * worker's client compute the same.
 *
 * All are SHA-256 of a tag, the format version and length-prefixed fields. Out of memory gives a
 * digest that nobody shares. fingerprint: of the compiler. target: resolved. options:
 * stx_option_bits. */
#ifndef STX_KEY_H
#define STX_KEY_H

#include "hash.h"
#include "stax.pb-c.h"

#define STX_KEY_FORMAT 1u /* counts up when equal requests must not meet older entries */

/* Options that change code, as bits. */
enum {
	STX_OPTION_TRAINING = 1,
	STX_OPTION_DYNAMIC = 2,
	STX_OPTION_FAST = 4,
	STX_OPTION_FALLBACK = 8
};
uint32_t stx_option_bits(const Stx__Options *o); /* NULL: 0 */

/* Of a request as sent: body is the digest of the graph's bytes. */
struct stx_digest stx_key_memo(const Stx__Lookup *l, const struct stx_digest *body,
			       const struct stx_digest *fingerprint);
/* Of the same (a request, an artifact) with those blockings; with none it is `of`. */
struct stx_digest stx_key_blocked(const struct stx_digest *of, Stx__Blocking *const *blockings,
				  size_t n);
/* Of an artifact: the canonical key. graph is the canonical graph's digest. Blockings are added by
 * stx_key_blocked. */
struct stx_digest stx_key_artifact(const struct stx_digest *graph, const char *target,
				   uint32_t options, const struct stx_digest *fingerprint);
/* Of a kernel's object: of the options only numerics count, of the target not a CPU's caches: what
 * was chosen by them stands in the IR. config: of a GPU kernel, else NULL.
 * The IR's digest leaves out size hints, so it does not fix the configuration. */
struct stx_digest stx_key_kernel(const struct stx_digest *ir, const char *config,
				 const char *target, uint32_t options,
				 const struct stx_digest *fingerprint);
/* Of a kernel's timings on a device: a kernel that is compiled otherwise and another
 * device or driver have others. CPU: ir is the digest of its product. */
struct stx_digest stx_key_tune(const struct stx_digest *ir, const char *target, uint32_t options,
			       const struct stx_digest *fingerprint, const Stx__Device *device);
/* Of what a job has seen of the record of that key. */
struct stx_digest stx_key_pin(const char *job, const struct stx_digest *tune);
/* Of a key within its namespace: flights, jobs and quarantine never cross namespaces. */
struct stx_digest stx_key_scoped(const char *ns, const struct stx_digest *key);

#endif
