/* checkpoint.c: moves the write-ahead log into the database on a thread of its own.
 *
 * The writer asks after each commit when the log has grown (hint), and waits only when it nears the
 * limit (wait): then the checkpoint truncates, which needs the writer quiet. */
#include "store.h"

#include <unistd.h>

static int on_wal(void *ctx, sqlite3 *h, const char *name, int pages)
{
	(void)h;
	(void)name;
	struct stx__writer *w = ctx;
	atomic_store(&w->wal_bytes, (uint64_t)pages * (4096 + 24) + 32);
	return SQLITE_OK;
}

/* Returns 0 when the whole log was moved. */
static int run(struct stx__writer *w, int truncate)
{
	int log = 0, moved = 0;
	int rc = sqlite3_wal_checkpoint_v2(
		w->ckpt_db.h, NULL,
		truncate ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE, &log, &moved);
	if (rc == SQLITE_OK && truncate)
		atomic_store(&w->wal_bytes, 0);
	return rc != SQLITE_OK || log != moved;
}

static void *checkpointer(void *arg)
{
	struct stx__writer *w = arg;
	pthread_mutex_lock(&w->mu);
	for (;;) {
		while (!w->ckpt_want && !w->ckpt_stop)
			pthread_cond_wait(&w->ckpt_cv, &w->mu);
		if (w->ckpt_stop)
			break;
		int want = w->ckpt_want;
		w->ckpt_want = 0;
		pthread_mutex_unlock(&w->mu);
		int failed = run(w, want > 1);
		pthread_mutex_lock(&w->mu);
		if (want > 1) {
			w->ckpt_failed = failed;
			w->ckpt_round++;
			pthread_cond_broadcast(&w->cv);
		}
	}
	pthread_mutex_unlock(&w->mu);
	return NULL;
}

stx_err stx__checkpoint_start(struct stx__writer *w, struct stx_diag *d)
{
	sqlite3_wal_hook(w->db.h, on_wal, w);
	if (pthread_create(&w->ckpt_thread, NULL, checkpointer, w))
		return stx_fail(d, STX_E_NOMEM, "cache", "", "no thread for checkpoints");
	w->ckpt_started = 1;
	return STX_E_OK;
}

void stx__checkpoint_stop(struct stx__writer *w)
{
	if (!w->ckpt_started)
		return;
	pthread_mutex_lock(&w->mu);
	w->ckpt_stop = 1;
	pthread_cond_broadcast(&w->ckpt_cv);
	pthread_mutex_unlock(&w->mu);
	pthread_join(w->ckpt_thread, NULL);
	w->ckpt_started = 0;
	run(w, 1);
}

void stx__checkpoint_hint(struct stx__writer *w)
{
	if (atomic_load(&w->wal_bytes) < STX__WAL_SOFT)
		return;
	pthread_mutex_lock(&w->mu);
	if (!w->ckpt_want) {
		w->ckpt_want = 1;
		pthread_cond_signal(&w->ckpt_cv);
	}
	pthread_mutex_unlock(&w->mu);
}

int stx__checkpoint_wait(struct stx__writer *w)
{
	if (atomic_load(&w->wal_bytes) < STX__WAL_STALL)
		return 0;
	pthread_mutex_lock(&w->mu);
	uint64_t round = w->ckpt_round;
	w->ckpt_want = 2;
	pthread_cond_signal(&w->ckpt_cv);
	while (w->ckpt_round == round)
		pthread_cond_wait(&w->cv, &w->mu);
	int failed = w->ckpt_failed;
	pthread_mutex_unlock(&w->mu);
	return failed && atomic_load(&w->wal_bytes) >= STX__WAL_HARD ? -1 : 0;
}
