/* test_model.c: random operations against a simple model in memory, with reopening. */
#include "support.h"

#define SPACES 3u
#define KEYS   24u

/* A version of 0: absent. Contents, metas and values follow from kind, slot and version. */
struct model {
	unsigned artifact[SPACES][KEYS], kernel[SPACES][KEYS], failure[SPACES][KEYS], memo[KEYS];
	unsigned next;
	int lossy; /* a small cap: an absent entry may have been evicted */
};

static const char *const spaces[SPACES] = { "", "team", "other" };

static uint8_t *contents_of(unsigned key, unsigned version, size_t *n)
{
	uint64_t s = version * 977u + key, r = next_random(&s);
	/* Few distinct contents for some, so that keys share them. */
	if (version % 3 == 0)
		r = version % 7;
	*n = (r & 31) == 0 ? (1u << 20) + (r >> 8) % (1 << 20) : (r >> 8) % 9000;
	return make_bytes(r, *n, (int)(r & 1));
}

static void meta_of(unsigned version, char meta[64])
{
	snprintf(meta, 64, "version %u", version);
}

static struct stx_diag diag_of(unsigned version)
{
	struct stx_diag d = { 0 };
	stx_fail(&d, STX_E_COMPILE, "lower", "n", "failure %u", version);
	return d;
}

/* Puts in one go without waiting; all must succeed. */
static void burst(struct fixture *f, struct model *m, uint64_t *seed)
{
	struct result r[16] = { { 0 } };
	unsigned n = 1 + (unsigned)(next_random(seed) % 16);
	for (unsigned i = 0; i < n; i++) {
		unsigned s = (unsigned)(next_random(seed) % SPACES),
			 k = (unsigned)(next_random(seed) % KEYS);
		unsigned v = ++m->next, kind = (unsigned)(next_random(seed) % 3);
		/* Where entries may have been evicted nobody knows who was first: replace, and give
		 * a kernel always the same contents. */
		int replace = m->lossy || next_random(seed) % 3 == 0;
		if (m->lossy && kind == 0)
			v = k + 1;
		size_t len;
		char meta[64];
		uint8_t *p = contents_of(k, v, &len);
		struct stx_digest key = key_of(k);
		meta_of(v, meta);
		if (kind == 0) {
			stx_cache_kernel_put(f->c, spaces[s], &key, span(p, len), on_done, &r[i]);
			if (!m->kernel[s][k])
				m->kernel[s][k] = v;
		} else {
			struct stx_cache_artifact a = { key, stx_digest_of(p, len), len, spaces[s],
							span(meta, strlen(meta)) };
			stx_cache_put(f->c, &a, span(p, len), replace, on_done, &r[i]);
			if (replace || !m->artifact[s][k])
				m->artifact[s][k] = v;
		}
		free(p);
	}
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(finish(f, &r[i]), STX_E_OK);
}

static void small_puts(struct fixture *f, struct model *m, uint64_t *seed)
{
	struct result r = { 0 };
	struct stx_digest fence = key_of(1000000 + m->next);
	for (unsigned i = 0; i < 6; i++) {
		unsigned s = (unsigned)(next_random(seed) % SPACES),
			 k = (unsigned)(next_random(seed) % KEYS);
		unsigned v = ++m->next;
		struct stx_digest key = key_of(k);
		struct stx_diag d = diag_of(v);
		switch (next_random(seed) % 3) {
		case 0:
			stx_cache_memo_put(f->c, spaces[s], &key, span(&v, sizeof v), NULL, NULL);
			m->memo[k] = v;
			break;
		case 1:
			stx_cache_failure_put(f->c, spaces[s], &key, &d);
			m->failure[s][k] = v;
			break;
		default: stx_cache_failure_drop(f->c, spaces[s], &key); m->failure[s][k] = 0;
		}
	}
	/* Jobs are done in order: once this one is, those are. */
	stx_cache_kernel_put(f->c, "fence", &fence, span("x", 1), on_done, &r);
	assert_int_equal(finish(f, &r), STX_E_OK);
}

static void check_artifact(struct fixture *f, struct model *m, unsigned s, unsigned k)
{
	struct stx_digest key = key_of(k);
	struct stx_cache_artifact a;
	unsigned v = m->artifact[s][k];
	if (!stx_cache_find(f->c, spaces[s], &key, &a)) {
		assert_true(!v || m->lossy);
		m->artifact[s][k] = 0; /* evicted: the next put writes it */
		return;
	}
	assert_true(v);
	char meta[64], path[512];
	size_t n;
	uint8_t *p = contents_of(k, v, &n);
	struct stx_digest d = a.digest;
	struct stx_bytes got = { 0 };
	meta_of(v, meta);
	assert_int_equal(a.meta.n, strlen(meta));
	assert_memory_equal(a.meta.at, meta, a.meta.n);
	struct stx_digest want = stx_digest_of(p, n);
	assert_true(stx_digest_eq(&want, &d));
	if (k & 1) {
		assert_int_equal(get(f, spaces[s], &d, &got), STX_E_OK);
	} else {
		assert_int_equal(materialise(f, spaces[s], &d, path), STX_E_OK);
		int fd = open(path, O_RDONLY);
		assert_true(fd >= 0);
		stx_bytes_reserve(&got, n + 1);
		ssize_t len = read(fd, got.at, n + 1);
		got.n = len < 0 ? SIZE_MAX : (size_t)len;
		close(fd);
	}
	assert_int_equal(got.n, n);
	assert_true(!n || !memcmp(got.at, p, n));
	stx_bytes_free(&got);
	free(p);
}

static void check_kernel(struct fixture *f, struct model *m, unsigned s, unsigned k)
{
	struct stx_digest key = key_of(k);
	unsigned v = m->kernel[s][k];
	struct result r = { 0 };
	if (!stx_cache_kernel_has(f->c, spaces[s], &key)) {
		assert_true(!v || m->lossy);
		m->kernel[s][k] = 0;
		return;
	}
	assert_true(v);
	size_t n;
	uint8_t *p = contents_of(k, v, &n);
	stx_cache_kernel_read(f->c, spaces[s], &key, on_read, &r);
	stx_err e = finish(f, &r);
	if (e == STX_E_NOT_FOUND && m->lossy) { /* evicted since it was asked for */
		m->kernel[s][k] = 0;
		free(p);
		return;
	}
	assert_int_equal(e, STX_E_OK);
	assert_int_equal(r.bytes.n, n);
	assert_true(!n || !memcmp(r.bytes.at, p, n));
	stx_bytes_free(&r.bytes);
	free(p);
}

static void check_small(struct fixture *f, struct model *m, unsigned s, unsigned k)
{
	struct stx_digest key = key_of(k);
	struct stx_span value;
	struct stx_diag d;
	if (stx_cache_memo_find(f->c, &key, &value)) {
		assert_int_equal(value.n, sizeof(unsigned));
		assert_memory_equal(value.at, &m->memo[k], sizeof(unsigned));
	} else {
		assert_true(!m->memo[k] || m->lossy);
	}
	if (stx_cache_failure_find(f->c, spaces[s], &key, &d)) {
		struct stx_diag want = diag_of(m->failure[s][k]);
		assert_memory_equal(&d, &want, sizeof d);
	} else {
		assert_true(!m->failure[s][k] || m->lossy);
	}
}

static void check_all(struct fixture *f, struct model *m)
{
	for (unsigned s = 0; s < SPACES; s++)
		for (unsigned k = 0; k < KEYS; k++) {
			check_artifact(f, m, s, k);
			check_kernel(f, m, s, k);
			check_small(f, m, s, k);
		}
}

static void run(uint64_t max_bytes, int steps)
{
	struct fixture f;
	struct model m = { .lossy = max_bytes != 0 };
	uint64_t seed = pick_seed(), now = 1;
	fixture_init(&f, NULL);
	f.k.max_bytes = max_bytes;
	f.k.grace_ms = 500;
	fixture_open(&f);
	for (int i = 0; i < steps; i++) {
		unsigned s = (unsigned)(next_random(&seed) % SPACES),
			 k = (unsigned)(next_random(&seed) % KEYS);
		switch (next_random(&seed) % 12) {
		case 0:
		case 1: burst(&f, &m, &seed); break;
		case 2: small_puts(&f, &m, &seed); break;
		case 3:
		case 4:
		case 5: check_artifact(&f, &m, s, k); break;
		case 6:
		case 7: check_kernel(&f, &m, s, k); break;
		case 8: check_small(&f, &m, s, k); break;
		case 9:
		case 10:
			now += next_random(&seed) % 40000;
			stx_cache_tick(f.c, now);
			break;
		default:
			if (next_random(&seed) % 8)
				break;
			fixture_close(&f);
			struct stx_fsck_report r = fsck(&f, (int)(next_random(&seed) & 1));
			assert_int_equal(r.clean, 1);
			fixture_open(&f);
			check_all(&f, &m);
		}
	}
	check_all(&f, &m);
	struct stx_cache_stats st;
	stx_cache_stats(f.c, &st);
	assert_int_equal(st.damaged, 0);
	assert_int_equal(st.write_errors, 0);
	fixture_end(&f);
}

static void test_model_random_operations_agree(void **state)
{
	(void)state;
	run(0, 1500);
}

static void test_model_random_operations_agree_under_eviction(void **state)
{
	(void)state;
	run(150000, 1500);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_model_random_operations_agree),
		cmocka_unit_test(test_model_random_operations_agree_under_eviction),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
