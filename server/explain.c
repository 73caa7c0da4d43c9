/* explain.c: a miss explained against the nearest entry. */
#include <stdio.h>

#include "request.h"

#define LOOK_AT_MOST 4096u /* entries, newest first: a few tens of nanoseconds each */

struct nearest {
	struct stx_digest graph, fingerprint;
	const char *target;
	uint32_t options, format_version;
	struct stx_digest mine; /* key */
	/* the best so far */
	int score;
	struct stx_digest key;
	struct stx_digest its_fingerprint;
	uint32_t its_options, its_version, seen;
	char its_target[96];
};

static int visit(void *ctx, const struct stx_cache_artifact *a)
{
	struct nearest *n = ctx;
	struct stx__meta m;
	if (++n->seen > LOOK_AT_MOST)
		return 1;
	if (stx__meta_decode(a->meta, &m) || !stx_digest_eq(&m.graph, &n->graph))
		return 0;
	int same_target =
		m.target.n == strlen(n->target) && !memcmp(m.target.at, n->target, m.target.n);
	int score = 1 + same_target + (m.options == n->options) +
		    (m.format_version == n->format_version) +
		    stx_digest_eq(&m.fingerprint, &n->fingerprint) +
		    stx_digest_eq(&a->key, &n->mine);
	if (score <= n->score)
		return 0;
	n->score = score;
	n->key = a->key;
	n->its_fingerprint = m.fingerprint;
	n->its_options = m.options;
	n->its_version = m.format_version;
	snprintf(n->its_target, sizeof n->its_target, "%.*s",
		 (int)(m.target.n < 95 ? m.target.n : 95), (const char *)m.target.at);
	return 0;
}

static void describe(const struct nearest *n, char *out, size_t cap)
{
	char key[STX_DIGEST_HEX], mine[STX_DIGEST_HEX], its[STX_DIGEST_HEX], a[64], b[64];
	stx_digest_hex(&n->key, key);
	size_t at = (size_t)snprintf(out, cap, "nearest entry %.12s differs in", key);
	if (strcmp(n->its_target, n->target) != 0 && at < cap)
		at += (size_t)snprintf(out + at, cap - at, " target: %s here, %s there;", n->target,
				       n->its_target);
	if (n->its_options != n->options && at < cap) {
		stx__option_text(n->options, a, sizeof a);
		stx__option_text(n->its_options, b, sizeof b);
		at += (size_t)snprintf(out + at, cap - at, " options: %s here, %s there;", a, b);
	}
	if (!stx_digest_eq(&n->its_fingerprint, &n->fingerprint) && at < cap) {
		stx_digest_hex(&n->fingerprint, mine);
		stx_digest_hex(&n->its_fingerprint, its);
		at += (size_t)snprintf(out + at, cap - at, " compiler: %.12s here, %.12s there;",
				       mine, its);
	}
	if (n->its_version != n->format_version && at < cap)
		at += (size_t)snprintf(out + at, cap - at, " key format: %u here, %u there;",
				       n->format_version, n->its_version);
	if (at < cap && at && out[at - 1] == ';')
		out[at - 1] = 0;
}

void stx__explain_miss(struct stx__server *s, const struct stx__spec *p,
		       const struct stx_digest *graph, const struct stx_digest *key, char *out,
		       size_t cap)
{
	struct nearest n = { .graph = *graph,
			     .mine = *key,
			     .fingerprint = s->fingerprint,
			     .target = p->what->target,
			     .options = p->options,
			     .format_version = STX_KEY_FORMAT };
	stx_cache_each(s->cache, p->ns, visit, &n);
	if (n.score == 6)
		snprintf(out, cap, "compiled again on request");
	else if (n.score == 5)
		snprintf(out, cap, "there with its products cut otherwise");
	else if (n.score)
		describe(&n, out, cap);
	else if (!n.seen)
		snprintf(out, cap, "the namespace %s holds nothing yet", p->ns);
	else
		snprintf(out, cap, "no entry in the namespace %s has this graph (%u looked at)",
			 p->ns, n.seen < LOOK_AT_MOST ? n.seen : LOOK_AT_MOST);
}
