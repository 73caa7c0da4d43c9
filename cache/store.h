/* store.h
 * internals shared by the files of cache/: the in-memory index, jobs, threads, the SQL layer.
 *
 * Ownership by thread: everything in struct stx_cache is touched by the owner's thread alone,
 * except the parts named in struct stx__writer, stx__readers and stx__done, which their mutex
 * guards. A job is owned by exactly one side at a time: owner -> queue -> thread -> completion list
 * -> owner. */
#ifndef STX_STORE_H
#define STX_STORE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "cache.h"
#include "clock.h"

/* ---- limits ---- */
#define STX__CONTENT_MAX   (64u << 20) /* raw bytes of an artifact or kernel: a frame's body */
#define STX__VALUE_MAX     (16u << 20) /* meta of an artifact, value of a memo */
#define STX__NS_MAX        255
#define STX__CHUNK_BYTES   (1u << 20)
#define STX__CHUNKS_MAX    256          /* chunk ids are blob id * 256 + sequence */
#define STX__QUEUE_BYTES   (256u << 20) /* copied bytes waiting for the writer; above: BUSY */
#define STX__READING_BYTES (256u << 20) /* contents between reader threads and poll */
#define STX__DEFERRED_MAX  65536u       /* reads waiting for that; above: BUSY */
#define STX__INDEX_BYTES   (1ull << 30) /* memory of the index; above: eviction, as for max_bytes */
#define STX__GROUP_BYTES   (8u << 20)   /* one commit takes waiting jobs up to this */
#define STX__WAL_SOFT      (4u << 20)   /* checkpoint wanted */
#define STX__WAL_STALL     (24u << 20)  /* the writer waits for a checkpoint before a group */
#define STX__WAL_HARD      (64u << 20)  /* nothing is written beyond while checkpoints fail */
#define STX__SLICE_US      5000
#define STX__SLICE_JOBS    64
#define STX__RECENCY_MS    60000

/* ---- intrusive circular lists ---- */
struct stx__link {
	struct stx__link *prev, *next;
};
#define stx__of(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
static inline void stx__list_init(struct stx__link *l)
{
	l->prev = l->next = l;
}
static inline int stx__list_empty(const struct stx__link *l)
{
	return l->next == l;
}
static inline void stx__list_del(struct stx__link *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	stx__list_init(l);
}
static inline void stx__list_push(struct stx__link *head, struct stx__link *l) /* to the end */
{
	l->prev = head->prev;
	l->next = head;
	head->prev->next = l;
	head->prev = l;
}

/* ---- hash table of pointers; the first member of each element is its uint64_t hash ---- */
struct stx__map {
	void **slot;
	size_t cap, n; /* cap: power of two or 0 */
};
int stx__map_reserve(struct stx__map *m, size_t more); /* 0, or -1 when out of memory */
void stx__map_add(struct stx__map *m, void *e);        /* space reserved before */
void stx__map_del(struct stx__map *m, void *e);
/* Visits elements of hash h: start with *at = SIZE_MAX; NULL at the end. */
void *stx__map_next(const struct stx__map *m, uint64_t h, size_t *at);
void stx__map_free(struct stx__map *m);

/* ---- index ---- */
enum { STX__ARTIFACT = 1, STX__KERNEL, STX__MEMO, STX__FAILURE, STX__TUNE, STX__KINDS };

struct stx__ns {
	uint64_t h;
	uint32_t refs;
	struct stx__link artifacts; /* oldest first */
	char name[];
};

/* DYING: a drop is queued; hidden, and live again when the drop fails. DAMAGED: hidden for good. */
enum stx__state { STX__LIVE, STX__DYING, STX__DAMAGED };

struct stx__blob {
	uint64_t h;
	struct stx__ns *ns;
	struct stx_digest digest;
	int64_t id;
	uint64_t raw_bytes, stored_bytes;
	struct stx__link entries;
	uint32_t refs, live; /* entries linked, and of those the LIVE ones */
};

struct stx__entry {
	uint64_t h;
	uint8_t kind, state, gone; /* gone: out of the index, freed with the last pin */
	uint32_t pins;
	struct stx__ns *ns;
	struct stx_digest key;
	struct stx__blob *blob; /* NULL: memo, failure, tune record */
	int64_t id;
	uint64_t used;          /* logical clock of last use; immune to clock changes */
	uint64_t leaving_bytes; /* not LIVE: its part of dying_bytes */
	struct stx__link lru, dirty, in_ns, in_blob;
	size_t value_bytes;
	uint8_t value[];
};

/* STALE: on disk since an earlier run, to be verified before it is handed out. */
enum stx__file_state { STX__F_NONE, STX__F_STALE, STX__F_BUSY, STX__F_READY, STX__F_REMOVING };
#define STX__STAMP_PENDING UINT64_MAX /* handed out since the last tick, which stamps it */

struct stx__file {
	uint64_t h;
	struct stx_digest digest;
	enum stx__file_state state;
	uint64_t bytes, stamp_ms;
	struct stx__link lru, doomed; /* doomed: its artifact may be gone */
	struct stx__job *waiters;
};

/* ---- jobs ---- */
enum stx__job_kind {
	STX__JOB_NOTE,    /* only a completion */
	STX__JOB_PUT,     /* writer */
	STX__JOB_DROP,    /* writer: victims */
	STX__JOB_ERASE,   /* writer: by kind, ns, key */
	STX__JOB_RECENCY, /* writer */
	STX__JOB_VACUUM,  /* writer */
	STX__JOB_UNLINK,  /* writer: files */
	STX__JOB_READ,    /* reader */
	STX__JOB_FILE,    /* reader: verify or make a materialised file */
};

struct stx__victim {
	struct stx__entry *entry; /* pinned; owner's thread only */
	struct stx__file *file;
	struct stx_digest digest; /* of file */
	int64_t id, blob_id;
	uint64_t used;
	int done;
};

struct stx__job {
	struct stx__job *next;
	enum stx__job_kind kind;
	stx_err e;
	struct stx_diag diag;
	stx_cache_done_fn *done;
	stx_cache_read_fn *read_done;
	void *ctx;
	size_t charged_bytes;
	/* put, erase */
	struct stx__entry *entry;
	struct stx__blob *blob;
	struct stx_digest hash;  /* of the entry's row */
	struct stx_bytes raw;    /* put: contents; read: result; note: path */
	struct stx_bytes stored; /* put: encoded */
	int encoding, prepared, replace, existed;
	uint64_t used;
	/* read, file */
	int64_t blob_id;
	struct stx__ns *ns; /* counted */
	struct stx_digest digest;
	uint64_t raw_bytes;
	int damaged, absent, stale, more; /* more: vacuum has not finished; drop: no time limit */
	struct stx__file *file;
	/* drop, recency, unlink */
	struct stx__victim *victims;
	size_t n_victims;
};

struct stx__queue {
	struct stx__job *first, **last;
};
void stx__queue_init(struct stx__queue *q);
void stx__queue_push(struct stx__queue *q, struct stx__job *j);
struct stx__job *stx__queue_pop(struct stx__queue *q);

/* ---- SQL layer (sql.c) ---- */
/* clang-format off */
#define STX__STATEMENTS(X) \
	/* name       text */ \
	X(BEGIN,         "BEGIN IMMEDIATE") \
	X(COMMIT,        "COMMIT") \
	X(ROLLBACK,      "ROLLBACK") \
	X(ENTRY_FIND,    "SELECT id, blob FROM entry WHERE hash=?1") \
	X(ENTRY_PUT,     ("INSERT INTO entry(id, hash, kind, ns, key, blob, digest, size, sum, value)" \
	                  " VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9,?10)")) \
	X(ENTRY_DEL,     "DELETE FROM entry WHERE id=?1") \
	X(ENTRY_OF_BLOB, "SELECT 1 FROM entry WHERE blob=?1 LIMIT 1") \
	X(BLOB_FIND,     "SELECT id FROM blob WHERE hash=?1") \
	X(BLOB_PUT,      ("INSERT INTO blob(id, hash, ns, digest, raw_bytes, stored_bytes, encoding," \
	                  " chunks, data) VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)")) \
	X(BLOB_GET,      ("SELECT raw_bytes, stored_bytes, encoding, chunks, data FROM blob" \
	                  " WHERE id=?1")) \
	X(BLOB_DEL,      "DELETE FROM blob WHERE id=?1") \
	X(CHUNK_PUT,     "INSERT OR REPLACE INTO chunk(id, data) VALUES(?1,?2)") \
	X(CHUNK_GET,     "SELECT data FROM chunk WHERE id=?1") \
	X(CHUNK_DEL,     "DELETE FROM chunk WHERE id BETWEEN ?1 AND ?2") \
	X(RECENCY_PUT,   "INSERT OR REPLACE INTO recency(id, used) VALUES(?1,?2)") \
	X(RECENCY_SET,   "UPDATE recency SET used=?2 WHERE id=?1") \
	X(RECENCY_DEL,   "DELETE FROM recency WHERE id=?1") \
	X(FREE_PAGES,    "PRAGMA freelist_count") \
	X(ALL_PAGES,     "PRAGMA page_count") \
	X(VACUUM,        "PRAGMA incremental_vacuum(32)")
/* clang-format on */
enum stx__statement {
#define X(name, sql) STX__S_##name,
	STX__STATEMENTS(X)
#undef X
		STX__S_COUNT
};

/* A connection with its prepared statements; one thread at a time. */
struct stx__db {
	sqlite3 *h;
	sqlite3_stmt *st[STX__S_COUNT];
};
enum stx__sql_mode {
	STX__NORMAL,
	STX__FULL,
	STX__LENIENT
}; /* LENIENT: reads what it can of a damaged file */
stx_err stx__sql_open(struct stx__db *db, const char *path, enum stx__sql_mode mode,
		      struct stx_diag *d);
void stx__sql_close(struct stx__db *db);
/* Prepared, reset, without bindings; NULL on error (sqlite3_errcode tells). */
sqlite3_stmt *stx__sql(struct stx__db *db, enum stx__statement s);
int stx__sql_run(struct stx__db *db,
		 enum stx__statement s); /* no bindings, no rows: SQLITE_DONE is OK */
stx_err stx__sql_exec(sqlite3 *h, const char *sql, struct stx_diag *d);
int stx__sql_int(sqlite3 *h, const char *sql, int64_t *out); /* SQLite code */
stx_err stx__sql_err(sqlite3 *h, int rc, struct stx_diag *d);
stx_err stx__sql_code(int rc);
/* A column holding exactly n bytes of BLOB, else NULL. */
const void *stx__sql_blob(sqlite3_stmt *st, int col, size_t n);

/* ---- schema.c ---- */
#define STX__APPLICATION_ID 0x53544158 /* "STAX" */
struct stx__migration {
	int version;     /* after the step */
	const char *sql; /* additive: CREATE and ALTER TABLE ADD only */
};
extern const struct stx__migration stx__schema_steps[];
extern const size_t stx__schema_n;
/* 0: empty. USAGE: another program's database. */
stx_err stx__schema_version(sqlite3 *h, int64_t *version, struct stx_diag *d);
/* Brings the database to the last step's version in one transaction; VERSION when it is newer. */
stx_err stx__schema_migrate(sqlite3 *h, const struct stx__migration *steps, size_t n,
			    struct stx_diag *d);

/* ---- row.c: encoding of contents, row digests; any thread ---- */
enum { STX__RAW, STX__ZSTD };
stx_err stx__encode(struct stx_span raw, struct stx_bytes *out, int *encoding);
/* Reads and verifies a blob. CORRUPT: damaged; NOT_FOUND: no such row; IO, NOMEM. */
stx_err stx__blob_read(struct stx__db *db, int64_t id, const struct stx_digest *digest,
		       struct stx_bytes *out, struct stx_diag *d);
stx_err stx__blob_write(struct stx__db *db, int64_t id, const char *ns,
			const struct stx_digest *digest, uint64_t raw_bytes, int encoding,
			struct stx_span stored, struct stx_diag *d);
struct stx_digest stx__entry_hash(int kind, const char *ns, const struct stx_digest *key);
struct stx_digest stx__blob_hash(const char *ns, const struct stx_digest *digest);
struct stx_digest stx__entry_sum(int kind, const char *ns, const struct stx_digest *key,
				 const struct stx_digest *digest, uint64_t size,
				 struct stx_span value);
/* One row of the entry table, checked. The pointers are borrowed from the statement. */
#define STX__ENTRY_COLUMNS "id, hash, kind, ns, key, blob, digest, size, sum, value"
struct stx__entry_row {
	int64_t id, blob_id; /* blob_id 0: none */
	int kind;
	const char *ns;
	struct stx_digest key, digest;
	uint64_t size;
	struct stx_span value;
};
int stx__entry_row(sqlite3_stmt *st, struct stx__entry_row *r); /* 0, or -1: damaged */
#define STX__BLOB_COLUMNS "id, hash, ns, digest, raw_bytes, stored_bytes, encoding, chunks"
struct stx__blob_row {
	int64_t id;
	const char *ns;
	struct stx_digest digest;
	uint64_t raw_bytes, stored_bytes;
	int encoding, chunks;
};
int stx__blob_row(sqlite3_stmt *st, struct stx__blob_row *r);
stx_err stx__entry_write(struct stx__db *db, const struct stx__entry_row *r, uint64_t used,
			 struct stx_diag *d);

/* ---- threads ---- */
/* Completions on their way to the owner. */
struct stx__done {
	pthread_mutex_t mu;
	struct stx__queue q;
	void (*wake)(void *);
	void *wake_ctx;
};
void stx__done_push(struct stx__done *d, struct stx__job *j);

struct stx__writer {
	pthread_mutex_t mu;
	pthread_cond_t cv, ckpt_cv;
	struct stx__queue q;
	int stop, ckpt_stop, ckpt_want, ckpt_failed;
	uint64_t ckpt_round; /* counts finished checkpoints */
	pthread_t thread, ckpt_thread;
	int started, ckpt_started;
	struct stx__db db, ckpt_db; /* used by their thread only */
	int64_t next_id;            /* writer thread */
	int marked;                 /* writer thread: the note of damage is written */
	struct stx__done *done;
	const char *dir;
	_Atomic uint64_t wal_bytes, commits, writes, write_errors;
};
stx_err stx__writer_start(struct stx__writer *w, struct stx_diag *d);
void stx__writer_push(struct stx__writer *w, struct stx__job *j);
void stx__writer_stop(struct stx__writer *w); /* after the queue is empty; joins, checkpoints */
stx_err stx__checkpoint_start(struct stx__writer *w, struct stx_diag *d);
void stx__checkpoint_stop(struct stx__writer *w);
/* Called by the writer after a commit and before a group. 0: go on, -1: the log is full. */
void stx__checkpoint_hint(struct stx__writer *w);
int stx__checkpoint_wait(struct stx__writer *w);

#define STX__READERS_MAX 16
struct stx__readers {
	pthread_mutex_t mu;
	pthread_cond_t cv;
	struct stx__queue q;
	int stop;
	uint32_t n, started;
	struct stx__reader {
		struct stx__readers *all;
		pthread_t thread;
		struct stx__db db;
	} at[STX__READERS_MAX];
	struct stx__done *done;
	const char *dir;
	_Atomic uint64_t temp_seq;
};
stx_err stx__readers_start(struct stx__readers *r, const char *db_path, struct stx_diag *d);
void stx__readers_push(struct stx__readers *r, struct stx__job *j);
void stx__readers_stop(struct stx__readers *r); /* joins; jobs not begun stay in q */

/* ---- the cache ---- */
struct stx_cache {
	char *dir;
	int lock_fd;
	uint64_t max_bytes, grace_ms, now_ms, flushed_ms;
	int ticked, closing, in_poll;
	/* index */
	struct stx__map entries, blobs, files, spaces;
	struct stx__link lru, broken, dirty, file_lru, doomed; /* broken: DAMAGED entries, by lru */
	uint64_t clock, index_bytes;
	uint64_t bytes, dying_bytes, count[STX__KINDS], file_bytes, n_files;
	uint64_t evictions, damaged;
	/* jobs */
	size_t queued_bytes, reading_bytes, pending_puts;
	int drop_failed; /* until the next tick: a full disk must not make poll spin */
	int dropping, vacuuming, vacuum_wanted, flushing, unlinking; /* at most one job of each */
	struct stx__queue deferred;
	size_t n_deferred;
	struct stx__done done;
	struct stx__writer writer;
	struct stx__readers readers;
};

/* index.c */
struct stx__ns *stx__ns_find(struct stx_cache *c, const char *name);
struct stx__ns *stx__ns_get(struct stx_cache *c, const char *name); /* counted; NULL: no memory */
void stx__ns_put(struct stx_cache *c, struct stx__ns *ns);
struct stx__entry *stx__entry_find(struct stx_cache *c, int kind, const struct stx__ns *ns,
				   const struct stx_digest *key); /* any state */
/* Detached; takes its own count of ns. */
struct stx__entry *stx__entry_new(struct stx__ns *ns, int kind, const struct stx_digest *key,
				  struct stx_span value);
void stx__entry_free(struct stx_cache *c, struct stx__entry *e);
void stx__entry_unpin(struct stx_cache *c, struct stx__entry *e);
struct stx__blob *stx__blob_find(struct stx_cache *c, const struct stx__ns *ns,
				 const struct stx_digest *digest);
struct stx__blob *stx__blob_new(struct stx__ns *ns, const struct stx_digest *digest);
void stx__blob_free(struct stx_cache *c, struct stx__blob *b);
int stx__index_reserve(struct stx_cache *c);
/* Links e (and b, or the blob already there for the same contents, then b is freed). */
void stx__index_add(struct stx_cache *c, struct stx__entry *e, struct stx__blob *b);
void stx__index_link(struct stx__entry *e, struct stx__blob *b); /* e is LIVE */
void stx__index_remove(struct stx_cache *c, struct stx__entry *e);
void stx__index_set_state(struct stx_cache *c, struct stx__entry *e, enum stx__state s);
void stx__index_touch(struct stx_cache *c, struct stx__entry *e);
uint64_t stx__entry_bytes(const struct stx__entry *e); /* what eviction counts, without the blob */
void stx__index_free(struct stx_cache *c);
/* load.c: fills the index from db; drops damaged and orphaned rows. */
stx_err stx__index_load(struct stx_cache *c, struct stx__db *db, int64_t *max_id,
			struct stx_diag *d);

/* jobs.c: the owner's side of jobs */
struct stx__job *stx__job_new(enum stx__job_kind kind);
void stx__job_free(struct stx_cache *c, struct stx__job *j);
void stx__note(struct stx_cache *c, struct stx__job *j, stx_err e, const char *text);
void stx__read_start(struct stx_cache *c, struct stx__job *j);
int stx__job_finish(struct stx_cache *c, struct stx__job *j); /* frees j; callbacks run */
int stx__job_call(struct stx__job *j,
		  struct stx_span contents); /* runs the callback once: 1 or 0 */
/* A reader found the blob damaged or absent: its entries are hidden and will be dropped. */
void stx__read_damage(struct stx_cache *c, struct stx__job *j);

/* files.c */
void stx__file_path(const char *dir, const struct stx_digest *digest, struct stx_bytes *out);
struct stx__file *stx__file_find(struct stx_cache *c, const struct stx_digest *digest);
struct stx__file *stx__file_get(struct stx_cache *c, const struct stx_digest *digest); /* or NULL */
void stx__file_touch(struct stx_cache *c, struct stx__file *f);
void stx__file_forget(struct stx_cache *c, struct stx__file *f);
void stx__file_doom(struct stx_cache *c, const struct stx_digest *digest);
int stx__files_scan(struct stx_cache *c);
/* Reader thread: verifies what is there, or writes contents to a temporary name and renames. */
int stx__file_verify(const char *path, const struct stx_digest *digest, uint64_t bytes);
stx_err stx__file_write(const char *dir, uint64_t seq, const struct stx_digest *digest,
			struct stx_span contents, struct stx_diag *d);
int stx__file_finish(struct stx_cache *c, struct stx__job *j); /* callbacks run */
void stx__file_cancel(struct stx_cache *c); /* at close: jobs that wait for a file */
void stx__files_tick(struct stx_cache *c);
void stx__unlink_finish(struct stx_cache *c, struct stx__job *j);
/* Calls fn for the files below dir/files; digest is NULL when the name is foreign. Stops when fn
 * returns non-zero, and returns that. */
int stx__files_each(const char *dir,
		    int (*fn)(void *ctx, const char *path, const struct stx_digest *digest),
		    void *ctx);

/* evict.c */
void stx__evict_slice(struct stx_cache *c);
void stx__upkeep_tick(struct stx_cache *c);
void stx__drop_finish(struct stx_cache *c, struct stx__job *j);
void stx__recency_flush(struct stx_cache *c, size_t most);

/* dir.c */
const char *
stx__fs_refused(unsigned long magic); /* name of a network or FUSE file system, or NULL */
stx_err stx__dir_lock(const char *dir, char **real, int *lock_fd, struct stx_diag *d);
stx_err stx__dir_prepare(const char *dir, struct stx_diag *d); /* folders made, leftovers removed */
stx_err stx__dir_swap(const char *dir, struct stx_diag *d);    /* db.new becomes db */
/* A note for the next open that the database must be rebuilt. */
void stx__dir_mark_damaged(const char *dir);
int stx__dir_is_damaged(const char *dir);
void stx__dir_clear_damaged(const char *dir);
int stx__remove_tree(const char *path); /* one level of files, as the store makes them */
char *stx__path(const char *dir, const char *name);
int stx__is_dots(const char *name); /* "." or ".." */

/* fsck.c, repair.c */
struct stx__fsck {
	const char *dir;
	void (*line)(void *ctx, const char *text);
	void *ctx;
	struct stx_fsck_report *r;
};
void stx__fsck_say(struct stx__fsck *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Rebuilds the database from the rows that can be read and verified, and swaps it in. */
stx_err stx__repair(struct stx__fsck *f, struct stx_diag *d);

#endif
