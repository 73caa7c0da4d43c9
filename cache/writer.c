/* writer.c: the one thread that changes the database. Waiting jobs share a commit; when a commit
 * fails each of its jobs is tried alone, so that one that does not fit harms no other. */
#include "store.h"

#include <errno.h>
#include <unistd.h>

#include "log.h"

#define GROUP_JOBS 256

void stx__queue_init(struct stx__queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

void stx__queue_push(struct stx__queue *q, struct stx__job *j)
{
	j->next = NULL;
	*q->last = j;
	q->last = &j->next;
}

struct stx__job *stx__queue_pop(struct stx__queue *q)
{
	struct stx__job *j = q->first;
	if (j && !(q->first = j->next))
		q->last = &q->first;
	if (j)
		j->next = NULL;
	return j;
}

void stx__done_push(struct stx__done *d, struct stx__job *j)
{
	pthread_mutex_lock(&d->mu);
	stx__queue_push(&d->q, j);
	pthread_mutex_unlock(&d->mu);
	if (d->wake)
		d->wake(d->wake_ctx);
}

/* ---- single jobs, inside a transaction ---- */
static int run_id(struct stx__db *db, enum stx__statement s, int64_t a, int64_t b)
{
	sqlite3_stmt *st = stx__sql(db, s);
	if (!st)
		return sqlite3_extended_errcode(db->h);
	sqlite3_bind_int64(st, 1, a);
	if (sqlite3_bind_parameter_count(st) > 1)
		sqlite3_bind_int64(st, 2, b);
	int rc = sqlite3_step(st);
	sqlite3_reset(st);
	return rc == SQLITE_DONE ? SQLITE_OK : rc;
}

/* Deletes an entry's row, and its blob when no other entry refers to it. */
static int delete_entry(struct stx__db *db, int64_t id, int64_t blob_id)
{
	int rc = run_id(db, STX__S_ENTRY_DEL, id, 0);
	if (rc == SQLITE_OK)
		rc = run_id(db, STX__S_RECENCY_DEL, id, 0);
	if (rc != SQLITE_OK || blob_id <= 0)
		return rc;
	rc = run_id(db, STX__S_ENTRY_OF_BLOB, blob_id, 0);
	if (rc != SQLITE_OK) /* SQLITE_ROW: still in use */
		return rc == SQLITE_ROW ? SQLITE_OK : rc;
	rc = run_id(db, STX__S_BLOB_DEL, blob_id, 0);
	int64_t first = blob_id * STX__CHUNKS_MAX;
	return rc == SQLITE_OK ? run_id(db, STX__S_CHUNK_DEL, first, first + STX__CHUNKS_MAX - 1)
			       : rc;
}

/* 1: found, with its columns 0 and 1; 0: not; a negative SQLite code otherwise. */
static int find_hash(struct stx__db *db, enum stx__statement s, const struct stx_digest *hash,
		     int64_t *id, int64_t *blob_id)
{
	sqlite3_stmt *st = stx__sql(db, s);
	if (!st)
		return -sqlite3_extended_errcode(db->h);
	sqlite3_bind_blob(st, 1, hash->b, sizeof hash->b, SQLITE_STATIC);
	int rc = sqlite3_step(st);
	if (rc == SQLITE_ROW) {
		*id = sqlite3_column_int64(st, 0);
		if (blob_id)
			*blob_id = sqlite3_column_int64(st, 1);
	}
	sqlite3_reset(st);
	return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -rc;
}

static stx_err put_blob(struct stx__writer *w, struct stx__job *j)
{
	struct stx__blob *b = j->blob;
	struct stx_digest hash = stx__blob_hash(b->ns->name, &b->digest);
	int found = find_hash(&w->db, STX__S_BLOB_FIND, &hash, &j->blob_id, NULL);
	if (found)
		return found > 0 ? STX_E_OK : stx__sql_err(w->db.h, -found, &j->diag);
	j->blob_id = w->next_id++;
	struct stx_span stored = { j->stored.at, j->stored.n };
	return stx__blob_write(&w->db, j->blob_id, b->ns->name, &b->digest, b->raw_bytes,
			       j->encoding, stored, &j->diag);
}

static stx_err do_put(struct stx__writer *w, struct stx__job *j)
{
	struct stx__entry *n = j->entry;
	int64_t id = 0, blob_id = 0;
	j->existed = 0;
	int found = find_hash(&w->db, STX__S_ENTRY_FIND, &j->hash, &id, &blob_id);
	if (found < 0)
		return stx__sql_err(w->db.h, -found, &j->diag);
	if (found && !j->replace) {
		j->existed = 1;
		return STX_E_OK;
	}
	if (found) {
		int rc = delete_entry(&w->db, id, blob_id);
		if (rc != SQLITE_OK)
			return stx__sql_err(w->db.h, rc, &j->diag);
	}
	j->blob_id = 0;
	stx_err e = j->blob ? put_blob(w, j) : STX_E_OK;
	if (e)
		return e;
	struct stx__entry_row r = { .id = w->next_id++,
				    .blob_id = j->blob_id,
				    .kind = n->kind,
				    .ns = n->ns->name,
				    .key = n->key,
				    .value = { n->value, n->value_bytes } };
	if (j->blob) {
		r.digest = j->blob->digest;
		r.size = j->blob->raw_bytes;
	}
	n->id = r.id;
	return stx__entry_write(&w->db, &r, j->used, &j->diag);
}

static stx_err do_erase(struct stx__writer *w, struct stx__job *j)
{
	int64_t id = 0, blob_id = 0;
	int rc = find_hash(&w->db, STX__S_ENTRY_FIND, &j->hash, &id, &blob_id);
	if (rc > 0)
		rc = -delete_entry(&w->db, id, blob_id);
	return rc ? stx__sql_err(w->db.h, -rc, &j->diag) : STX_E_OK;
}

static stx_err do_drop(struct stx__writer *w, struct stx__job *j)
{
	uint64_t end = j->more ? UINT64_MAX : stx_clock_us() + STX__SLICE_US;
	int rc = SQLITE_OK;
	for (size_t i = 0; i < j->n_victims; i++)
		j->victims[i].done = 0;
	for (size_t i = 0; i < j->n_victims && rc == SQLITE_OK && (!i || stx_clock_us() < end);
	     i++) {
		rc = delete_entry(&w->db, j->victims[i].id, j->victims[i].blob_id);
		j->victims[i].done = 1;
	}
	return rc == SQLITE_OK ? STX_E_OK : stx__sql_err(w->db.h, rc, &j->diag);
}

static stx_err do_recency(struct stx__writer *w, struct stx__job *j)
{
	int rc = SQLITE_OK;
	for (size_t i = 0; i < j->n_victims && rc == SQLITE_OK; i++)
		rc = run_id(&w->db, STX__S_RECENCY_SET, j->victims[i].id,
			    (int64_t)j->victims[i].used);
	return rc == SQLITE_OK ? STX_E_OK : stx__sql_err(w->db.h, rc, &j->diag);
}

static int64_t pragma_int(struct stx__db *db, enum stx__statement s)
{
	sqlite3_stmt *st = stx__sql(db, s);
	int64_t v = st && sqlite3_step(st) == SQLITE_ROW ? sqlite3_column_int64(st, 0) : 0;
	if (st)
		sqlite3_reset(st);
	return v;
}

/* Free pages are kept for coming rows up to 1 MiB or a sixteenth; above, they are given back. */
static stx_err do_vacuum(struct stx__writer *w, struct stx__job *j)
{
	uint64_t end = stx_clock_us() + STX__SLICE_US;
	int64_t keep = pragma_int(&w->db, STX__S_ALL_PAGES) / 16;
	if (keep < 256)
		keep = 256;
	int rc = SQLITE_OK;
	do {
		j->more = pragma_int(&w->db, STX__S_FREE_PAGES) > keep;
		if (j->more)
			rc = stx__sql_run(&w->db, STX__S_VACUUM);
	} while (j->more && rc == SQLITE_OK && stx_clock_us() < end);
	return rc == SQLITE_OK ? STX_E_OK : stx__sql_err(w->db.h, rc, &j->diag);
}

static stx_err do_job(struct stx__writer *w, struct stx__job *j)
{
	switch (j->kind) {
	case STX__JOB_PUT: return do_put(w, j);
	case STX__JOB_ERASE: return do_erase(w, j);
	case STX__JOB_DROP: return do_drop(w, j);
	case STX__JOB_RECENCY: return do_recency(w, j);
	case STX__JOB_VACUUM: return do_vacuum(w, j);
	default: return STX_E_OK;
	}
}

/* ---- outside a transaction ---- */
static void unlink_files(struct stx__writer *w, struct stx__job *j)
{
	for (size_t i = 0; i < j->n_victims; i++) {
		struct stx_bytes path = { 0 };
		stx__file_path(w->dir, &j->victims[i].digest, &path);
		const char *p = stx_bytes_cstr(&path);
		j->victims[i].done = !path.oom && (unlink(p) == 0 || errno == ENOENT);
		stx_bytes_free(&path);
	}
}

/* Checks what the caller says of the contents and encodes them, before the transaction begins. */
static void prepare(struct stx__writer *w, struct stx__job *j)
{
	if (j->kind == STX__JOB_UNLINK)
		unlink_files(w, j);
	if (j->kind == STX__JOB_PUT || j->kind == STX__JOB_ERASE)
		j->hash = stx__entry_hash(j->entry->kind, j->entry->ns->name, &j->entry->key);
	if (j->kind != STX__JOB_PUT || !j->blob || j->prepared)
		return;
	struct stx_digest got = stx_digest_of(j->raw.at, j->raw.n);
	if (!stx_digest_eq(&got, &j->blob->digest)) {
		j->e = stx_fail(&j->diag, STX_E_UNTRUSTED, "cache", "",
				"the contents do not have their digest");
		return;
	}
	j->blob->raw_bytes = j->raw.n;
	j->e = stx__encode((struct stx_span){ j->raw.at, j->raw.n }, &j->stored, &j->encoding);
	if (j->e)
		stx_fail(&j->diag, j->e, "cache", "", "%s", stx_err_text(j->e));
	j->blob->stored_bytes = j->stored.n;
	j->prepared = 1;
	stx_bytes_free(&j->raw);
}

/* Somebody deleted or moved the directory: what is written now nobody would find again. */
static stx_err still_there(struct stx__writer *w, struct stx_diag *d)
{
	int moved = 0;
	if (sqlite3_file_control(w->db.h, "main", SQLITE_FCNTL_HAS_MOVED, &moved) || !moved)
		return STX_E_OK;
	return stx_fail(d, STX_E_IO, "cache", "",
			"%s no longer has the database that is open here: was it deleted or moved? "
			"Restart the daemon",
			w->dir);
}

static stx_err transaction(struct stx__writer *w, struct stx__job **j, size_t n, struct stx_diag *d)
{
	stx_err gone = still_there(w, d);
	if (gone)
		return gone;
	int rc = stx__sql_run(&w->db, STX__S_BEGIN);
	stx_err e = rc == SQLITE_OK ? STX_E_OK : stx__sql_err(w->db.h, rc, d);
	size_t puts = 0;
	for (size_t i = 0; i < n && !e; i++) {
		if (j[i]->e)
			continue;
		stx_diag_clear(&j[i]->diag);
		e = do_job(w, j[i]);
		puts += j[i]->kind == STX__JOB_PUT && !j[i]->existed;
		if (e && d)
			*d = j[i]->diag;
		stx_diag_clear(&j[i]->diag);
	}
	if (!e) {
		rc = stx__sql_run(&w->db, STX__S_COMMIT);
		e = rc == SQLITE_OK ? STX_E_OK : stx__sql_err(w->db.h, rc, d);
	}
	if (e && !sqlite3_get_autocommit(w->db.h))
		stx__sql_run(&w->db, STX__S_ROLLBACK);
	if (!e) {
		atomic_fetch_add(&w->commits, 1);
		atomic_fetch_add(&w->writes, puts);
	}
	return e;
}

static int needs_database(const struct stx__job *j)
{
	return !j->e && j->kind != STX__JOB_UNLINK;
}

static void run_alone(struct stx__writer *w, struct stx__job *j)
{
	struct stx_diag d = { 0 };
	stx_err e;
	if (stx__checkpoint_wait(w))
		e = stx_fail(&d, STX_E_IO, "cache", "",
			     "the write-ahead log is full and cannot be "
			     "checkpointed: is the disk full?");
	else
		e = transaction(w, &j, 1, &d);
	if (!e)
		return;
	if (e == STX_E_CORRUPT && !w->marked) {
		stx_log(STX_LOG_ERROR,
			"cache: %s; what is stored is served on, the database is rebuilt when "
			"next opened",
			d.text);
		stx__dir_mark_damaged(w->dir);
		w->marked = 1;
	}
	if (j->kind == STX__JOB_PUT)
		atomic_fetch_add(&w->write_errors, 1);
	j->e = e;
	j->diag = d;
	if (!d.code)
		stx_fail(&j->diag, e, "cache", "", "%s", stx_err_text(e));
}

static void run_group(struct stx__writer *w, struct stx__job **j, size_t n)
{
	size_t work = 0;
	for (size_t i = 0; i < n; i++) {
		prepare(w, j[i]);
		work += (size_t)needs_database(j[i]);
	}
	if (work && (stx__checkpoint_wait(w) || transaction(w, j, n, NULL)))
		for (size_t i = 0; i < n; i++)
			if (needs_database(j[i]))
				run_alone(w, j[i]);
	for (size_t i = 0; i < n; i++)
		stx__done_push(w->done, j[i]);
	stx__checkpoint_hint(w);
}

static void *writer(void *arg)
{
	struct stx__writer *w = arg;
	struct stx__job *group[GROUP_JOBS];
	for (;;) {
		size_t n = 0, bytes = 0;
		pthread_mutex_lock(&w->mu);
		while (!w->q.first && !w->stop)
			pthread_cond_wait(&w->cv, &w->mu);
		while (w->q.first && n < GROUP_JOBS &&
		       (!n || bytes + w->q.first->charged_bytes <= STX__GROUP_BYTES)) {
			group[n] = stx__queue_pop(&w->q);
			bytes += group[n++]->charged_bytes;
		}
		pthread_mutex_unlock(&w->mu);
		if (!n)
			return NULL;
		run_group(w, group, n);
	}
}

stx_err stx__writer_start(struct stx__writer *w, struct stx_diag *d)
{
	if (pthread_create(&w->thread, NULL, writer, w))
		return stx_fail(d, STX_E_NOMEM, "cache", "", "no thread for the writer");
	w->started = 1;
	return STX_E_OK;
}

void stx__writer_push(struct stx__writer *w, struct stx__job *j)
{
	pthread_mutex_lock(&w->mu);
	stx__queue_push(&w->q, j);
	pthread_cond_signal(&w->cv);
	pthread_mutex_unlock(&w->mu);
}

void stx__writer_stop(struct stx__writer *w)
{
	if (!w->started)
		return;
	pthread_mutex_lock(&w->mu);
	w->stop = 1;
	pthread_cond_broadcast(&w->cv);
	pthread_mutex_unlock(&w->mu);
	pthread_join(w->thread, NULL);
	w->started = 0;
}
