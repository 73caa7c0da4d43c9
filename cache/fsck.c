/* fsck.c: the offline check: schema, SQLite's own check, every digest, chunks, materialised files.
 */
#include "store.h"

#include "log.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

void stx__fsck_say(struct stx__fsck *f, const char *fmt, ...)
{
	char text[1024];
	if (!f->line)
		return;
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	stx_text_mask(text, strlen(text), 0); /* some of it is from a damaged file */
	f->line(f->ctx, text);
}

struct check {
	struct stx__fsck *f;
	struct stx__db db;
	int repair, wrong; /* wrong: the database must be rebuilt */
	struct stx_diag *d;
};

static void wrong(struct check *k, const char *what, int64_t id)
{
	stx__fsck_say(k->f, "%s %lld", what, (long long)id);
	k->f->r->damaged++;
	k->wrong = 1;
}

/* ---- the database ---- */
static void check_sqlite(struct check *k)
{
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(k->db.h, "PRAGMA integrity_check(100)", -1, &st, NULL);
	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(st, 0);
		rc = SQLITE_OK;
		if (!text || strcmp(text, "ok") != 0) {
			stx__fsck_say(k->f, "SQLite: %s", text ? text : "out of memory");
			k->wrong = 1;
		}
	}
	if (rc != SQLITE_DONE) {
		stx__fsck_say(k->f, "SQLite: %s", sqlite3_errmsg(k->db.h));
		k->wrong = 1;
	}
	sqlite3_finalize(st);
}

static void end_walk(struct check *k, sqlite3_stmt *st, int rc, const char *table)
{
	if (rc != SQLITE_DONE) {
		stx__fsck_say(k->f, "table %s: %s", table, sqlite3_errmsg(k->db.h));
		k->f->r->damaged++;
		k->wrong = 1;
	}
	sqlite3_finalize(st);
}

static stx_err check_blobs(struct check *k)
{
	sqlite3_stmt *st = NULL;
	stx_err e = STX_E_OK;
	int64_t at = 0;
	int rc = sqlite3_prepare_v2(k->db.h,
				    "SELECT " STX__BLOB_COLUMNS " FROM blob WHERE id>?1"
				    " ORDER BY id LIMIT 1",
				    -1, &st, NULL);
	while (rc == SQLITE_OK && !e) {
		struct stx__blob_row r;
		struct stx_bytes raw = { 0 };
		/* One row at a time: the contents are read in a transaction of their own. */
		sqlite3_bind_int64(st, 1, at);
		rc = sqlite3_step(st);
		if (rc != SQLITE_ROW)
			break;
		int bad = stx__blob_row(st, &r);
		at = r.id > at ? r.id : at + 1;
		struct stx_digest digest = r.digest;
		uint64_t stored = r.stored_bytes;
		rc = sqlite3_reset(st);
		e = bad ? STX_E_CORRUPT : stx__blob_read(&k->db, at, &digest, &raw, NULL);
		if (e && e != STX_E_NOMEM && e != STX_E_IO) {
			wrong(k, "damaged contents: row", at);
			k->f->r->lost_bytes += bad ? 0 : stored;
			e = STX_E_OK;
		}
		stx_bytes_free(&raw);
	}
	end_walk(k, st, e ? SQLITE_DONE : rc, "blob");
	return e ? stx_fail(k->d, e, "cache", "", "reading contents: %s", stx_err_text(e)) : e;
}

static int blob_matches(struct check *k, const struct stx__entry_row *r)
{
	sqlite3_stmt *st = stx__sql(&k->db, STX__S_BLOB_GET);
	if (!st)
		return 0;
	sqlite3_bind_int64(st, 1, r->blob_id);
	int ok = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0) == (int64_t)r->size;
	sqlite3_reset(st);
	struct stx_digest hash = stx__blob_hash(r->ns, &r->digest);
	st = ok ? stx__sql(&k->db, STX__S_BLOB_FIND) : NULL;
	if (!st)
		return 0;
	sqlite3_bind_blob(st, 1, hash.b, sizeof hash.b, SQLITE_STATIC);
	ok = sqlite3_step(st) == SQLITE_ROW && sqlite3_column_int64(st, 0) == r->blob_id;
	sqlite3_reset(st);
	return ok;
}

static void check_entries(struct check *k)
{
	struct stx_fsck_report *n = k->f->r;
	sqlite3_stmt *st = NULL;
	int rc = sqlite3_prepare_v2(k->db.h, "SELECT " STX__ENTRY_COLUMNS " FROM entry ORDER BY id",
				    -1, &st, NULL);
	while (rc == SQLITE_OK && (rc = sqlite3_step(st)) == SQLITE_ROW) {
		struct stx__entry_row r;
		rc = SQLITE_OK;
		if (stx__entry_row(st, &r)) {
			wrong(k, "damaged entry: row", r.id);
			continue;
		}
		if (r.blob_id && !blob_matches(k, &r))
			wrong(k, "entry without its contents: row", r.id);
		n->artifacts += r.kind == STX__ARTIFACT;
		n->kernels += r.kind == STX__KERNEL;
		n->memos += r.kind == STX__MEMO;
		n->tunes += r.kind == STX__TUNE;
	}
	end_walk(k, st, rc, "entry");
}

static void check_orphans(struct check *k)
{
	static const struct {
		const char *what, *sql;
	} q[] = {
		{ "contents no entry refers to", "SELECT count(*) FROM blob WHERE NOT EXISTS "
						 "(SELECT 1 FROM entry WHERE entry.blob=blob.id)" },
		{ "parts of no contents", "SELECT count(*) FROM chunk WHERE NOT EXISTS (SELECT 1 "
					  "FROM blob WHERE blob.id=chunk.id/256"
					  " AND chunk.id%256<blob.chunks)" },
		{ "times of use of no entry", "SELECT count(*) FROM recency WHERE NOT EXISTS "
					      "(SELECT 1 FROM entry WHERE entry.id=recency.id)" },
	};
	for (size_t i = 0; i < sizeof q / sizeof *q; i++) {
		int64_t n = 0;
		int rc = stx__sql_int(k->db.h, q[i].sql, &n);
		if (rc == SQLITE_OK && !n)
			continue;
		stx__fsck_say(k->f, "%s: %lld", q[i].what, (long long)n);
		k->f->r->orphans += (uint64_t)n;
		k->wrong = 1;
	}
}

static stx_err check_db(struct check *k, const char *path)
{
	struct stx_diag first = { 0 };
	int64_t version = 0;
	if (access(path, F_OK) && errno == ENOENT)
		return STX_E_OK;
	stx_err e = stx__sql_open(&k->db, path, STX__NORMAL, &first);
	if (!e)
		e = stx__schema_version(k->db.h, &version, &first);
	if (e == STX_E_CORRUPT) {
		stx__fsck_say(k->f, "%s", first.text);
		k->f->r->damaged++;
		k->wrong = 1;
		return STX_E_OK;
	}
	int64_t last = stx__schema_steps[stx__schema_n - 1].version;
	if (!e && version > last)
		e = stx_fail(&first, STX_E_VERSION, "cache", "",
			     "the store has schema %lld, this program "
			     "knows up to %lld",
			     (long long)version, (long long)last);
	if (!e && version && version < last)
		stx__fsck_say(k->f, "schema %lld, brought to %lld when next opened",
			      (long long)version, (long long)last);
	if (!e && version) {
		check_sqlite(k);
		e = check_blobs(k);
		if (!e) {
			check_entries(k);
			check_orphans(k);
		}
	}
	if (e && k->d && !k->d->code)
		*k->d = first;
	return e;
}

/* ---- files ---- */
static int is_artifact(struct check *k, const struct stx_digest *digest)
{
	sqlite3_stmt *st = NULL;
	int found = 0;
	if (k->db.h && sqlite3_prepare_v2(k->db.h, "SELECT 1 FROM temp.artifact WHERE digest=?1",
					  -1, &st, NULL) == SQLITE_OK) {
		sqlite3_bind_blob(st, 1, digest->b, sizeof digest->b, SQLITE_STATIC);
		found = sqlite3_step(st) == SQLITE_ROW;
	}
	sqlite3_finalize(st);
	return found;
}

static int check_file(void *ctx, const char *path, const struct stx_digest *digest)
{
	struct check *k = ctx;
	struct stat st;
	if (lstat(path, &st))
		return 0;
	int sound = digest && S_ISREG(st.st_mode) && (st.st_mode & 07777) == 0444 &&
		    stx__file_verify(path, digest, (uint64_t)st.st_size);
	int known = sound && is_artifact(k, digest);
	if (sound)
		k->f->r->files++;
	if (digest && !sound) {
		stx__fsck_say(k->f, "damaged file: %s", path);
		k->f->r->damaged++;
		k->f->r->clean = 0;
	}
	if (!digest || (sound && !known)) {
		/* Normal after eviction or a kill: not a fault. */
		stx__fsck_say(k->f, "file of no artifact: %s", path);
		k->f->r->orphans++;
	}
	if (k->repair && !known && !unlink(path) && digest && !sound)
		k->f->r->repaired++;
	return 0;
}

static void check_temp(struct check *k)
{
	char *path = stx__path(k->f->dir, "tmp");
	DIR *l = path ? opendir(path) : NULL;
	for (struct dirent *e; l && (e = readdir(l));) {
		if (stx__is_dots(e->d_name))
			continue;
		stx__fsck_say(k->f, "left over: %s/%s", path, e->d_name);
		k->f->r->orphans++;
		if (k->repair)
			unlinkat(dirfd(l), e->d_name, 0);
	}
	if (l)
		closedir(l);
	free(path);
}

/* ---- all ---- */
static stx_err repair_db(struct check *k, const char *path)
{
	struct stx_fsck_report second = { 0 };
	struct stx__fsck f = { k->f->dir, k->f->line, k->f->ctx, &second };
	stx__sql_close(&k->db);
	stx_err e = stx__repair(&f, k->d);
	if (e)
		return e;
	stx__fsck_say(k->f,
		      "rebuilt: %llu artifacts, %llu kernels, %llu memos, %llu tune records kept; "
		      "%llu rows lost",
		      (unsigned long long)second.artifacts, (unsigned long long)second.kernels,
		      (unsigned long long)second.memos, (unsigned long long)second.tunes,
		      (unsigned long long)second.damaged);
	k->f->r->artifacts = second.artifacts;
	k->f->r->kernels = second.kernels;
	k->f->r->memos = second.memos;
	k->f->r->tunes = second.tunes;
	k->f->r->repaired += second.damaged ? second.damaged : 1;
	if (second.lost_bytes > k->f->r->lost_bytes)
		k->f->r->lost_bytes = second.lost_bytes;
	return stx__sql_open(&k->db, path, STX__NORMAL, k->d);
}

static stx_err check_all(struct check *k)
{
	stx_err e = k->repair ? stx__dir_prepare(k->f->dir, k->d) : STX_E_OK;
	char *path = stx__path(k->f->dir, "db/stax.db");
	if (!e && !path)
		e = STX_E_NOMEM;
	if (!e)
		e = check_db(k, path);
	if (!e && stx__dir_is_damaged(k->f->dir)) {
		stx__fsck_say(k->f, "the store met damage while it ran");
		k->wrong = 1;
	}
	if (!e && k->wrong) {
		k->f->r->clean = 0;
		if (k->repair)
			e = repair_db(k, path);
	}
	if (!e) {
		/* Digests of artifacts, indexed for the files' sake. Fails on an empty or damaged
		 * database: then every file counts as one of no artifact. */
		if (k->db.h)
			sqlite3_exec(k->db.h,
				     "CREATE TEMP TABLE artifact AS SELECT digest FROM main.entry"
				     " WHERE kind=1; CREATE INDEX temp.artifact_digest ON "
				     "artifact(digest)",
				     NULL, NULL, NULL);
		if (stx__files_each(k->f->dir, check_file, k))
			e = STX_E_NOMEM;
		check_temp(k);
	}
	stx__sql_close(&k->db);
	free(path);
	return e;
}

stx_err stx_cache_fsck(const char *dir, int repair, void (*line)(void *ctx, const char *text),
		       void *ctx, struct stx_fsck_report *out, struct stx_diag *d)
{
	char *real = NULL;
	int lock_fd = -1;
	memset(out, 0, sizeof *out);
	out->clean = 1;
	stx_err e = stx__dir_lock(dir, &real, &lock_fd, d);
	if (e)
		return e;
	struct stx__fsck f = { real, line, ctx, out };
	struct check k = { .f = &f, .repair = repair, .d = d };
	e = check_all(&k);
	if (e) {
		out->clean = 0;
		stx_fail(d, e, "cache", "", "%s", stx_err_text(e));
		stx_diag_at(d, "%s", dir);
	}
	close(lock_fd);
	free(real);
	return e;
}
