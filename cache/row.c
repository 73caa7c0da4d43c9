/* row.c: how contents and entries lie in their rows, and the digests that guard them. */
#include "store.h"

#include <zstd.h>

stx_err stx__encode(struct stx_span raw, struct stx_bytes *out, int *encoding)
{
	size_t bound = ZSTD_compressBound(raw.n);
	out->n = 0;
	if (stx_bytes_reserve(out, bound))
		return STX_E_NOMEM;
	size_t n = ZSTD_compress(out->at, bound, raw.at, raw.n, 3);
	if (ZSTD_isError(n) || n >= raw.n) {
		*encoding = STX__RAW;
		return stx_bytes_put(out, raw.at, raw.n) ? STX_E_NOMEM : STX_E_OK;
	}
	*encoding = STX__ZSTD;
	out->n = n;
	return STX_E_OK;
}

/* Requires: raw_bytes within STX__CONTENT_MAX, so that no more than that is ever allocated. */
static stx_err decode(int encoding, struct stx_bytes *stored, uint64_t raw_bytes,
		      struct stx_bytes *out)
{
	if (encoding == STX__RAW) {
		if (stored->n != raw_bytes)
			return STX_E_CORRUPT;
		*out = *stored;
		memset(stored, 0, sizeof *stored);
		return STX_E_OK;
	}
	if (encoding != STX__ZSTD || ZSTD_getFrameContentSize(stored->at, stored->n) != raw_bytes)
		return STX_E_CORRUPT;
	if (stx_bytes_reserve(out, raw_bytes ? (size_t)raw_bytes : 1))
		return STX_E_NOMEM;
	size_t n = ZSTD_decompress(out->at, (size_t)raw_bytes, stored->at, stored->n);
	if (ZSTD_isError(n) || n != raw_bytes)
		return STX_E_CORRUPT;
	out->n = n;
	return STX_E_OK;
}

static stx_err read_chunks(struct stx__db *db, int64_t id, int chunks, uint64_t stored_bytes,
			   struct stx_bytes *out, struct stx_diag *d)
{
	if (stx_bytes_reserve(out, (size_t)stored_bytes))
		return STX_E_NOMEM;
	for (int i = 0; i < chunks; i++) {
		sqlite3_stmt *st = stx__sql(db, STX__S_CHUNK_GET);
		if (!st)
			return stx__sql_err(db->h, sqlite3_extended_errcode(db->h), d);
		sqlite3_bind_int64(st, 1, id * STX__CHUNKS_MAX + i);
		int rc = sqlite3_step(st);
		uint64_t left = stored_bytes - out->n;
		size_t want = left < STX__CHUNK_BYTES ? (size_t)left : STX__CHUNK_BYTES;
		const void *p = rc == SQLITE_ROW ? stx__sql_blob(st, 0, want) : NULL;
		stx_err e = STX_E_OK;
		if (rc != SQLITE_ROW && rc != SQLITE_DONE)
			e = stx__sql_err(db->h, rc, d);
		else if (!p || stx_bytes_put(out, p, want))
			e = p ? STX_E_NOMEM : STX_E_CORRUPT;
		sqlite3_reset(st);
		if (e)
			return e;
	}
	return STX_E_OK;
}

static stx_err read_stored(struct stx__db *db, sqlite3_stmt *st, int64_t id,
			   struct stx_bytes *stored, uint64_t *raw_bytes, int *encoding,
			   struct stx_diag *d)
{
	int64_t raw = sqlite3_column_int64(st, 0), n = sqlite3_column_int64(st, 1);
	int64_t chunks = sqlite3_column_int64(st, 3);
	*encoding = sqlite3_column_int(st, 2);
	if (raw < 0 || raw > STX__CONTENT_MAX || n < 0 || n > STX__CONTENT_MAX)
		return STX_E_CORRUPT;
	*raw_bytes = (uint64_t)raw;
	if (chunks) {
		if (chunks != (n + STX__CHUNK_BYTES - 1) / STX__CHUNK_BYTES)
			return STX_E_CORRUPT;
		return read_chunks(db, id, (int)chunks, (uint64_t)n, stored, d);
	}
	if (n > STX__CHUNK_BYTES || (n == 0 && sqlite3_column_bytes(st, 4) != 0))
		return STX_E_CORRUPT;
	const void *p = n ? stx__sql_blob(st, 4, (size_t)n) : "";
	if (!p)
		return sqlite3_errcode(db->h) == SQLITE_NOMEM ? STX_E_NOMEM : STX_E_CORRUPT;
	return stx_bytes_put(stored, p, (size_t)n) ? STX_E_NOMEM : STX_E_OK;
}

stx_err stx__blob_read(struct stx__db *db, int64_t id, const struct stx_digest *digest,
		       struct stx_bytes *out, struct stx_diag *d)
{
	struct stx_bytes stored = { 0 };
	uint64_t raw_bytes = 0;
	int encoding = 0;
	/* One read transaction, so that a row and its chunks are of one moment. */
	int rc = sqlite3_exec(db->h, "BEGIN", NULL, NULL, NULL);
	sqlite3_stmt *st = rc == SQLITE_OK ? stx__sql(db, STX__S_BLOB_GET) : NULL;
	if (!st)
		rc = sqlite3_extended_errcode(db->h);
	stx_err e = STX_E_OK;
	if (st) {
		sqlite3_bind_int64(st, 1, id);
		rc = sqlite3_step(st);
		if (rc == SQLITE_ROW)
			e = read_stored(db, st, id, &stored, &raw_bytes, &encoding, d);
		else if (rc == SQLITE_DONE)
			e = STX_E_NOT_FOUND;
		sqlite3_reset(st);
	}
	if (!e && rc != SQLITE_ROW)
		e = stx__sql_err(db->h, rc, d);
	if (!sqlite3_get_autocommit(db->h))
		sqlite3_exec(db->h, "COMMIT", NULL, NULL, NULL);
	out->n = 0;
	if (!e)
		e = decode(encoding, &stored, raw_bytes, out);
	if (!e) {
		struct stx_digest got = stx_digest_of(out->at, out->n);
		if (!stx_digest_eq(&got, digest))
			e = STX_E_CORRUPT;
	}
	if (e)
		stx_bytes_free(out);
	stx_bytes_free(&stored);
	return e;
}

static int step_done(sqlite3_stmt *st)
{
	int rc = sqlite3_step(st);
	sqlite3_reset(st);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

stx_err stx__blob_write(struct stx__db *db, int64_t id, const char *ns,
			const struct stx_digest *digest, uint64_t raw_bytes, int encoding,
			struct stx_span stored, struct stx_diag *d)
{
	size_t chunks = stored.n > STX__CHUNK_BYTES
				? (stored.n + STX__CHUNK_BYTES - 1) / STX__CHUNK_BYTES
				: 0;
	struct stx_digest hash = stx__blob_hash(ns, digest);
	sqlite3_stmt *st = stx__sql(db, STX__S_BLOB_PUT);
	if (!st)
		return stx__sql_err(db->h, sqlite3_extended_errcode(db->h), d);
	sqlite3_bind_int64(st, 1, id);
	sqlite3_bind_blob(st, 2, hash.b, sizeof hash.b, SQLITE_STATIC);
	sqlite3_bind_text(st, 3, ns, -1, SQLITE_STATIC);
	sqlite3_bind_blob(st, 4, digest->b, sizeof digest->b, SQLITE_STATIC);
	sqlite3_bind_int64(st, 5, (int64_t)raw_bytes);
	sqlite3_bind_int64(st, 6, (int64_t)stored.n);
	sqlite3_bind_int(st, 7, encoding);
	sqlite3_bind_int(st, 8, (int)chunks);
	if (!chunks)
		sqlite3_bind_blob(st, 9, stored.n ? (const void *)stored.at : "", (int)stored.n,
				  SQLITE_STATIC);
	int rc = step_done(st);
	for (size_t i = 0; i < chunks && rc == SQLITE_OK; i++) {
		size_t at = i * STX__CHUNK_BYTES, n = stored.n - at;
		st = stx__sql(db, STX__S_CHUNK_PUT);
		if (!st)
			return stx__sql_err(db->h, sqlite3_extended_errcode(db->h), d);
		sqlite3_bind_int64(st, 1, id * STX__CHUNKS_MAX + (int64_t)i);
		sqlite3_bind_blob(st, 2, stored.at + at,
				  (int)(n < STX__CHUNK_BYTES ? n : STX__CHUNK_BYTES),
				  SQLITE_STATIC);
		rc = step_done(st);
	}
	return rc == SQLITE_OK ? STX_E_OK : stx__sql_err(db->h, rc, d);
}

struct stx_digest stx__entry_hash(int kind, const char *ns, const struct stx_digest *key)
{
	struct stx_bytes b = { 0 };
	/* A memo's digest covers its namespace already, and is looked up without one. */
	if (kind == STX__MEMO)
		ns = "";
	stx_bytes_u64(&b, (uint64_t)kind);
	stx_bytes_u64(&b, strlen(ns));
	stx_bytes_puts(&b, ns);
	stx_bytes_put(&b, key->b, sizeof key->b);
	struct stx_digest h = stx_digest_of(b.at, b.n);
	stx_bytes_free(&b);
	return h;
}

struct stx_digest stx__blob_hash(const char *ns, const struct stx_digest *digest)
{
	return stx__entry_hash(0, ns, digest);
}

struct stx_digest stx__entry_sum(int kind, const char *ns, const struct stx_digest *key,
				 const struct stx_digest *digest, uint64_t size,
				 struct stx_span value)
{
	struct stx_digest v = stx_digest_of(value.at, value.n);
	struct stx_bytes b = { 0 };
	stx_bytes_u64(&b, (uint64_t)kind);
	stx_bytes_u64(&b, strlen(ns));
	stx_bytes_puts(&b, ns);
	stx_bytes_put(&b, key->b, sizeof key->b);
	stx_bytes_put(&b, digest->b, sizeof digest->b);
	stx_bytes_u64(&b, size);
	stx_bytes_put(&b, v.b, sizeof v.b);
	struct stx_digest h = stx_digest_of(b.at, b.n);
	stx_bytes_free(&b);
	return h;
}

static const char *column_ns(sqlite3_stmt *st, int col)
{
	if (sqlite3_column_type(st, col) != SQLITE_TEXT)
		return NULL;
	const char *s = (const char *)sqlite3_column_text(st, col);
	int n = sqlite3_column_bytes(st, col);
	return s && n <= STX__NS_MAX && strlen(s) == (size_t)n ? s : NULL;
}

int stx__entry_row(sqlite3_stmt *st, struct stx__entry_row *r)
{
	memset(r, 0, sizeof *r);
	r->id = sqlite3_column_int64(st, 0);
	int64_t kind = sqlite3_column_int64(st, 2), size = sqlite3_column_int64(st, 7);
	const void *hash = stx__sql_blob(st, 1, STX_DIGEST_BYTES);
	const void *key = stx__sql_blob(st, 4, STX_DIGEST_BYTES);
	const void *sum = stx__sql_blob(st, 8, STX_DIGEST_BYTES);
	r->ns = column_ns(st, 3);
	if (!hash || !key || !sum || !r->ns || kind < STX__ARTIFACT || kind >= STX__KINDS ||
	    r->id <= 0 || size < 0 || size > STX__CONTENT_MAX ||
	    sqlite3_column_type(st, 9) != SQLITE_BLOB)
		return -1;
	r->kind = (int)kind;
	r->size = (uint64_t)size;
	memcpy(r->key.b, key, sizeof r->key.b);
	if (kind == STX__ARTIFACT || kind == STX__KERNEL) {
		const void *digest = stx__sql_blob(st, 6, STX_DIGEST_BYTES);
		r->blob_id = sqlite3_column_int64(st, 5);
		if (!digest || r->blob_id <= 0)
			return -1;
		memcpy(r->digest.b, digest, sizeof r->digest.b);
	}
	r->value.at = sqlite3_column_blob(st, 9);
	r->value.n = (size_t)sqlite3_column_bytes(st, 9);
	if (!r->value.at)
		r->value.n = 0;
	if (r->value.n > STX__VALUE_MAX)
		return -1;
	struct stx_digest h = stx__entry_hash(r->kind, r->ns, &r->key);
	struct stx_digest s =
		stx__entry_sum(r->kind, r->ns, &r->key, &r->digest, r->size, r->value);
	return !memcmp(h.b, hash, sizeof h.b) && !memcmp(s.b, sum, sizeof s.b) ? 0 : -1;
}

int stx__blob_row(sqlite3_stmt *st, struct stx__blob_row *r)
{
	memset(r, 0, sizeof *r);
	r->id = sqlite3_column_int64(st, 0);
	const void *hash = stx__sql_blob(st, 1, STX_DIGEST_BYTES);
	const void *digest = stx__sql_blob(st, 3, STX_DIGEST_BYTES);
	int64_t raw = sqlite3_column_int64(st, 4), stored = sqlite3_column_int64(st, 5);
	int64_t encoding = sqlite3_column_int64(st, 6), chunks = sqlite3_column_int64(st, 7);
	r->ns = column_ns(st, 2);
	if (!hash || !digest || !r->ns || r->id <= 0 || r->id > INT64_MAX / STX__CHUNKS_MAX - 1 ||
	    raw < 0 || raw > STX__CONTENT_MAX || stored < 0 || stored > raw ||
	    (encoding != STX__RAW && encoding != STX__ZSTD) || chunks < 0 ||
	    chunks >= STX__CHUNKS_MAX)
		return -1;
	memcpy(r->digest.b, digest, sizeof r->digest.b);
	r->raw_bytes = (uint64_t)raw;
	r->stored_bytes = (uint64_t)stored;
	r->encoding = (int)encoding;
	r->chunks = (int)chunks;
	struct stx_digest h = stx__blob_hash(r->ns, &r->digest);
	return !memcmp(h.b, hash, sizeof h.b) ? 0 : -1;
}

stx_err stx__entry_write(struct stx__db *db, const struct stx__entry_row *r, uint64_t used,
			 struct stx_diag *d)
{
	struct stx_digest hash = stx__entry_hash(r->kind, r->ns, &r->key);
	struct stx_digest sum =
		stx__entry_sum(r->kind, r->ns, &r->key, &r->digest, r->size, r->value);
	sqlite3_stmt *st = stx__sql(db, STX__S_ENTRY_PUT);
	if (!st)
		return stx__sql_err(db->h, sqlite3_extended_errcode(db->h), d);
	sqlite3_bind_int64(st, 1, r->id);
	sqlite3_bind_blob(st, 2, hash.b, sizeof hash.b, SQLITE_STATIC);
	sqlite3_bind_int(st, 3, r->kind);
	sqlite3_bind_text(st, 4, r->ns, -1, SQLITE_STATIC);
	sqlite3_bind_blob(st, 5, r->key.b, sizeof r->key.b, SQLITE_STATIC);
	if (r->blob_id) {
		sqlite3_bind_int64(st, 6, r->blob_id);
		sqlite3_bind_blob(st, 7, r->digest.b, sizeof r->digest.b, SQLITE_STATIC);
	}
	sqlite3_bind_int64(st, 8, (int64_t)r->size);
	sqlite3_bind_blob(st, 9, sum.b, sizeof sum.b, SQLITE_STATIC);
	sqlite3_bind_blob(st, 10, r->value.n ? (const void *)r->value.at : "", (int)r->value.n,
			  SQLITE_STATIC);
	int rc = step_done(st);
	if (rc == SQLITE_OK && (st = stx__sql(db, STX__S_RECENCY_PUT))) {
		sqlite3_bind_int64(st, 1, r->id);
		sqlite3_bind_int64(st, 2, (int64_t)used);
		rc = step_done(st);
	}
	return rc == SQLITE_OK && st ? STX_E_OK
				     : stx__sql_err(db->h, sqlite3_extended_errcode(db->h), d);
}
