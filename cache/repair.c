/* repair.c: rebuilds the database from the rows that can be read and verified.
 *
 * Requires: the directory's lock. Ensures: on success dir/db holds a database in which every row
 * verifies; on failure dir/db is as before. Rows are found by walking tables and their hash indexes
 * from both ends, so that one damaged page hides only what lay on it; each is then fetched and
 * verified by itself. */
#include "store.h"

#include <errno.h>
#include <sys/stat.h>

struct ids {
	int64_t *at;
	size_t n, cap;
	int oom;
};

/* A damaged tree may lead in circles: more rows than this are not believed. */
#define IDS_MAX (1u << 26)

static void ids_add(struct ids *v, int64_t id)
{
	if (v->n >= IDS_MAX) {
		v->oom = 1;
		return;
	}
	if (v->n == v->cap) {
		size_t cap = v->cap ? v->cap * 2 : 256;
		int64_t *p = realloc(v->at, cap * sizeof *p);
		if (!p) {
			v->oom = 1;
			return;
		}
		v->at = p;
		v->cap = cap;
	}
	v->at[v->n++] = id;
}

/* 1 when the walk came to its end. */
static int walk(sqlite3 *h, const char *sql, struct ids *v)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(h, sql, -1, &st, NULL);
	if (rc == SQLITE_OK)
		while ((rc = sqlite3_step(st)) == SQLITE_ROW && !v->oom)
			ids_add(v, sqlite3_column_int64(st, 0));
	sqlite3_finalize(st);
	return rc == SQLITE_DONE;
}

static int by_id(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
	return (x > y) - (x < y);
}

static stx_err collect(sqlite3 *h, const char *table, struct ids *v)
{
	char sql[160];
	/* A column outside every index, so that the table itself is walked. */
	snprintf(sql, sizeof sql, "SELECT id, ns FROM %s NOT INDEXED ORDER BY id", table);
	if (!walk(h, sql, v)) {
		snprintf(sql, sizeof sql, "SELECT id, ns FROM %s NOT INDEXED ORDER BY id DESC",
			 table);
		walk(h, sql, v);
	}
	snprintf(sql, sizeof sql, "SELECT id FROM %s INDEXED BY %s_hash ORDER BY hash", table,
		 table);
	if (!walk(h, sql, v)) {
		snprintf(sql, sizeof sql, "SELECT id FROM %s INDEXED BY %s_hash ORDER BY hash DESC",
			 table, table);
		walk(h, sql, v);
	}
	if (v->oom)
		return STX_E_NOMEM;
	size_t n = 0;
	if (v->n)
		qsort(v->at, v->n, sizeof *v->at, by_id);
	for (size_t i = 0; i < v->n; i++)
		if (!n || v->at[n - 1] != v->at[i])
			v->at[n++] = v->at[i];
	v->n = n;
	return STX_E_OK;
}

struct rebuild {
	struct stx__fsck *f;
	struct stx__db old, fresh;
	size_t pending_bytes; /* in the open transaction */
	struct stx_diag *d;
};

static stx_err batch(struct rebuild *b, size_t more)
{
	b->pending_bytes += more;
	if (b->pending_bytes < STX__GROUP_BYTES)
		return STX_E_OK;
	b->pending_bytes = 0;
	return stx__sql_exec(b->fresh.h, "COMMIT; BEGIN", b->d);
}

static int is_fatal(stx_err e)
{
	return e == STX_E_NOMEM || e == STX_E_IO;
}

/* The outcome for one row: STX_E_CORRUPT is a row lost, other errors end the rebuilding. */
static stx_err copy_blob(struct rebuild *b, sqlite3_stmt *st, int64_t id)
{
	struct stx__blob_row r;
	struct stx_bytes raw = { 0 }, stored = { 0 };
	struct stx_diag ignored = { 0 };
	int encoding = 0;
	sqlite3_reset(st);
	sqlite3_bind_int64(st, 1, id);
	if (sqlite3_step(st) != SQLITE_ROW || stx__blob_row(st, &r))
		return STX_E_CORRUPT;
	stx_err e = stx__blob_read(&b->old, id, &r.digest, &raw, &ignored);
	if (e) {
		b->f->r->lost_bytes += r.stored_bytes;
		/* An unreadable sector of the old file loses the row, no more. */
		return e == STX_E_NOMEM ? e : STX_E_CORRUPT;
	}
	e = stx__encode((struct stx_span){ raw.at, raw.n }, &stored, &encoding);
	if (!e)
		e = stx__blob_write(&b->fresh, id, r.ns, &r.digest, raw.n, encoding,
				    (struct stx_span){ stored.at, stored.n }, &ignored);
	if (e && is_fatal(e) && b->d && !b->d->code)
		*b->d = ignored;
	if (!e)
		e = batch(b, stored.n);
	stx_bytes_free(&raw);
	stx_bytes_free(&stored);
	return e && !is_fatal(e) ? STX_E_CORRUPT : e;
}

static int64_t fresh_blob(struct rebuild *b, const struct stx__entry_row *r)
{
	struct stx_digest hash = stx__blob_hash(r->ns, &r->digest);
	sqlite3_stmt *st = stx__sql(&b->fresh, STX__S_BLOB_FIND);
	if (!st)
		return 0;
	sqlite3_bind_blob(st, 1, hash.b, sizeof hash.b, SQLITE_STATIC);
	int64_t id = sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
	sqlite3_reset(st);
	return id;
}

static uint64_t old_recency(struct rebuild *b, int64_t id)
{
	char sql[80];
	int64_t used = 0;
	snprintf(sql, sizeof sql, "SELECT used FROM recency WHERE id=%lld", (long long)id);
	if (stx__sql_int(b->old.h, sql, &used) != SQLITE_OK || used < 0 || used > INT64_MAX / 2)
		return 0;
	return (uint64_t)used;
}

static stx_err copy_entry(struct rebuild *b, sqlite3_stmt *st, int64_t id)
{
	struct stx__entry_row r;
	struct stx_diag ignored = { 0 };
	sqlite3_reset(st);
	sqlite3_bind_int64(st, 1, id);
	if (sqlite3_step(st) != SQLITE_ROW || stx__entry_row(st, &r))
		return STX_E_CORRUPT;
	if (r.blob_id && !(r.blob_id = fresh_blob(b, &r)))
		return STX_E_CORRUPT;
	stx_err e = stx__entry_write(&b->fresh, &r, old_recency(b, id), &ignored);
	if (e && is_fatal(e) && b->d && !b->d->code)
		*b->d = ignored;
	if (!e)
		e = batch(b, r.value.n + 256);
	struct stx_fsck_report *n = b->f->r;
	if (!e) {
		n->artifacts += r.kind == STX__ARTIFACT;
		n->kernels += r.kind == STX__KERNEL;
		n->memos += r.kind == STX__MEMO;
		n->tunes += r.kind == STX__TUNE;
	}
	return e && !is_fatal(e) ? STX_E_CORRUPT : e;
}

static stx_err copy_table(struct rebuild *b, const char *table, const char *sql,
			  stx_err (*copy)(struct rebuild *, sqlite3_stmt *, int64_t))
{
	struct ids v = { 0 };
	sqlite3_stmt *st = NULL;
	stx_err e = collect(b->old.h, table, &v);
	if (!e && sqlite3_prepare_v2(b->old.h, sql, -1, &st, NULL) != SQLITE_OK) {
		stx__fsck_say(b->f, "table %s cannot be read: %s", table, sqlite3_errmsg(b->old.h));
		b->f->r->damaged++;
		v.n = 0;
	}
	for (size_t i = 0; i < v.n && !e; i++) {
		e = copy(b, st, v.at[i]);
		if (e == STX_E_CORRUPT) {
			stx__fsck_say(b->f, "lost: %s row %lld", table, (long long)v.at[i]);
			b->f->r->damaged++;
			e = STX_E_OK;
		}
	}
	sqlite3_finalize(st);
	free(v.at);
	return e;
}

static stx_err copy_all(struct rebuild *b)
{
	stx_err e = stx__sql_exec(b->fresh.h, "PRAGMA wal_autocheckpoint=1000; BEGIN", b->d);
	if (!e)
		e = copy_table(b, "blob", "SELECT " STX__BLOB_COLUMNS " FROM blob WHERE id=?1",
			       copy_blob);
	if (!e)
		e = copy_table(b, "entry", "SELECT " STX__ENTRY_COLUMNS " FROM entry WHERE id=?1",
			       copy_entry);
	if (!e)
		e = stx__sql_exec(b->fresh.h,
				  "DELETE FROM blob WHERE NOT EXISTS"
				  " (SELECT 1 FROM entry WHERE entry.blob=blob.id);"
				  "DELETE FROM chunk WHERE NOT EXISTS"
				  " (SELECT 1 FROM blob WHERE blob.id=chunk.id/256);"
				  "COMMIT",
				  b->d);
	return e;
}

static stx_err build(struct rebuild *b, const char *old_path, const char *new_path)
{
	struct stx_diag ignored = { 0 };
	stx_err e = stx__sql_open(&b->fresh, new_path, STX__NORMAL, b->d);
	if (!e)
		e = stx__schema_migrate(b->fresh.h, stx__schema_steps, stx__schema_n, b->d);
	if (e)
		return e;
	e = stx__sql_open(&b->old, old_path, STX__LENIENT, &ignored);
	if (e == STX_E_CORRUPT) {
		struct stat st;
		b->f->r->lost_bytes += stat(old_path, &st) ? 0 : (uint64_t)st.st_size;
		b->f->r->damaged++;
		stx__fsck_say(b->f, "nothing can be read: %s", ignored.text);
		e = STX_E_OK;
	} else if (!e) {
		/* Damaged cells are skipped by their own checks: what can be read should be read.
		 */
		e = copy_all(b);
	} else if (b->d && !b->d->code) {
		*b->d = ignored;
	}
	if (!e &&
	    sqlite3_wal_checkpoint_v2(b->fresh.h, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL))
		e = stx__sql_err(b->fresh.h, sqlite3_extended_errcode(b->fresh.h), b->d);
	return e;
}

stx_err stx__repair(struct stx__fsck *f, struct stx_diag *d)
{
	struct rebuild b = { .f = f, .d = d };
	char *folder = stx__path(f->dir, "db.new"), *fresh = stx__path(f->dir, "db.new/stax.db");
	char *old = stx__path(f->dir, "db/stax.db");
	stx_err e = STX_E_NOMEM;
	if (folder && fresh && old) {
		stx__remove_tree(folder);
		e = mkdir(folder, 0700) ? stx_fail(d, STX_E_IO, "cache", "", "mkdir %s: %s", folder,
						   strerror(errno))
					: STX_E_OK;
		if (!e)
			e = build(&b, old, fresh);
		stx__sql_close(&b.old);
		stx__sql_close(&b.fresh);
		if (!e)
			e = stx__dir_swap(f->dir, d);
		if (e)
			stx__remove_tree(folder);
		else
			stx__dir_clear_damaged(f->dir);
	}
	free(folder);
	free(fresh);
	free(old);
	return e;
}
