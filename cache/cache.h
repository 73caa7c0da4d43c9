/* cache.h
 * the content-addressed store: artifacts, kernels, memo, failures, tune records, in SQLite.
 *
 * Threads: all calls below are made from one thread (the daemon's loop). Lookups touch only memory;
 * disk reads run on reader threads and writes on the one writer thread; their completions are
 * queued, and `wake` is called (from any thread) so that the owner calls stx_cache_poll on its own
 * thread, which runs the callbacks. Keys and contents are opaque bytes. Namespaces: an entry is
 * visible in its own only. Nothing torn is ever returned: digests are checked on every disk read; a
 * damaged row is dropped, counted and reported as NOT_FOUND after repair. Source: design.md, Store.
 */
#ifndef STX_CACHE_H
#define STX_CACHE_H

#include "bytes.h"
#include "hash.h"
#include "status.h"

struct stx_cache;

struct stx_cache_config {
	const char *dir;         /* ours, made 0700; network and FUSE file systems are refused */
	uint64_t max_bytes;      /* of stored contents; 0: 10 GiB */
	int synchronous_full;    /* power-loss durability */
	uint32_t readers;        /* reader threads; 0: 2 */
	void (*wake)(void *ctx); /* called from other threads; must only signal */
	void *wake_ctx;
	uint64_t grace_ms; /* a materialised file stays so long after its last use; 0: 600000 */
};

/* Locks dir exclusively (BUSY names the holder's pid), opens or creates the database, migrates an
 * older schema additively, refuses a newer one (VERSION), loads the index, removes leftovers. A
 * database that cannot be read through is rebuilt from the rows that verify. USAGE: a file system
 * or a database that cannot be used; DENIED: the directory is not ours, or open to others and in
 * use for something else. */
stx_err stx_cache_open(const struct stx_cache_config *c, struct stx_cache **out,
		       struct stx_diag *d);
/* Waits for queued writes, checkpoints, closes, unlocks. What finished gets its result, reads that
 * had not begun get CANCELED, all before this returns. Not to be called from a callback. */
void stx_cache_close(struct stx_cache *c);
/* Runs the completions that are ready; returns how many callbacks ran. */
int stx_cache_poll(struct stx_cache *c);

/* ---- artifacts ---- */
struct stx_cache_artifact {
	struct stx_digest key, digest; /* digest: SHA-256 of the contents */
	uint64_t size_bytes;
	const char *ns;
	struct stx_span meta; /* opaque to the cache: the serialised part of the answer */
};
/* In-memory index only. 1 and *out (borrowed until the next call) or 0. Records recency. */
int stx_cache_find(struct stx_cache *c, const char *ns, const struct stx_digest *key,
		   struct stx_cache_artifact *out);
int stx_cache_find_digest(struct stx_cache *c, const char *ns, const struct stx_digest *digest,
			  struct stx_cache_artifact *out);

typedef void stx_cache_done_fn(void *ctx, stx_err e, const struct stx_diag *d);
typedef void stx_cache_read_fn(void *ctx, stx_err e, struct stx_span contents);

/* Stores contents and meta under key, all in one transaction with whatever else is queued. The
 * bytes are copied. done (may be NULL) runs in poll after the commit, or with an error: then
 * nothing is stored. IO: e.g. disk full; BUSY: 256 MiB wait to be written; TOO_LARGE: contents over
 * 64 MiB, meta over 16 MiB, ns over 255 bytes; UNTRUSTED: a->digest is not that of contents;
 * CORRUPT: the database is damaged there, and is rebuilt when next opened. Only NOMEM and, while
 * closing, CANCELED may come before this returns. The first writer of a key wins: a second put of
 * it succeeds without changing it, unless replace. a->size_bytes is not read. */
void stx_cache_put(struct stx_cache *c, const struct stx_cache_artifact *a,
		   struct stx_span contents, int replace, stx_cache_done_fn *done, void *ctx);
/* Reads and verifies contents by digest on a reader thread. The span is valid during the call of
 * done. */
void stx_cache_read(struct stx_cache *c, const char *ns, const struct stx_digest *digest,
		    stx_cache_read_fn *done, void *ctx);
/* Path of the materialised file (0444, never rewritten), made if needed; ctx gets the path's bytes.
 */
void stx_cache_materialise(struct stx_cache *c, const char *ns, const struct stx_digest *digest,
			   stx_cache_read_fn *done, void *ctx);
/* The path when the file is known to be there now: no disk access. 1 or 0. Extends its grace. */
int stx_cache_path(struct stx_cache *c, const char *ns, const struct stx_digest *digest, char *path,
		   size_t cap);

/* ---- memo: request digest -> key; kernels: kernel digest -> object; failures: key -> diag ---- */
int stx_cache_memo_find(struct stx_cache *c, const struct stx_digest *memo, struct stx_span *value);
/* A put is found once it is committed; done may be NULL, and comes at once when nothing changes. */
void stx_cache_memo_put(struct stx_cache *c, const char *ns, const struct stx_digest *memo,
			struct stx_span value, stx_cache_done_fn *done, void *ctx);
int stx_cache_kernel_has(struct stx_cache *c, const char *ns, const struct stx_digest *kernel);
void stx_cache_kernel_read(struct stx_cache *c, const char *ns, const struct stx_digest *kernel,
			   stx_cache_read_fn *done, void *ctx);
/* value: object bytes and their description, opaque. done may be NULL. */
void stx_cache_kernel_put(struct stx_cache *c, const char *ns, const struct stx_digest *kernel,
			  struct stx_span value, stx_cache_done_fn *done, void *ctx);
int stx_cache_failure_find(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			   struct stx_diag *out);
void stx_cache_failure_put(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			   const struct stx_diag *d);
/* Timings of a kernel on a device, or what a job has seen of them: opaque. *value is borrowed until
 * the next call. A put is found once it is committed; without replace the first one wins. */
int stx_cache_tune_find(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			struct stx_span *value);
void stx_cache_tune_put(struct stx_cache *c, const char *ns, const struct stx_digest *key,
			struct stx_span value, int replace, stx_cache_done_fn *done, void *ctx);
void stx_cache_failure_drop(struct stx_cache *c, const char *ns, const struct stx_digest *key);

/* Calls fn for the namespace's artifacts, the newest put first: used to explain a miss. Stops when
 * fn returns non-zero; fn makes no call to the store. */
void stx_cache_each(struct stx_cache *c, const char *ns,
		    int (*fn)(void *ctx, const struct stx_cache_artifact *a), void *ctx);

/* ---- upkeep ---- */
struct stx_cache_stats {
	uint64_t artifacts, kernels, memos, failures, tunes, bytes, max_bytes, files, file_bytes;
	uint64_t evictions, damaged, writes, commits, write_errors, wal_bytes;
};
void stx_cache_stats(const struct stx_cache *c, struct stx_cache_stats *out);
/* One slice (at most about 5 ms of work queued on the writer; more only far over the cap): eviction
 * to the cap, vacuum, recency flush, removal of expired files. Call from a timer, about each
 * second; now_ms from any monotonic clock. Grace is counted from the first tick after a file was
 * handed out. */
void stx_cache_tick(struct stx_cache *c, uint64_t now_ms);

/* ---- offline ---- */
struct stx_fsck_report {
	uint64_t artifacts, kernels, memos, tunes, files, damaged, lost_bytes, repaired, orphans;
	int clean; /* 1: nothing was wrong; leftover and orphaned files alone are not wrong */
};
/* Checks schema, SQLite integrity, every digest, chunk counts, materialised files. With repair,
 * rebuilds from readable rows and removes what is damaged. Prints findings through `line`. Takes
 * the same lock. */
stx_err stx_cache_fsck(const char *dir, int repair, void (*line)(void *ctx, const char *text),
		       void *ctx, struct stx_fsck_report *out, struct stx_diag *d);

#endif
