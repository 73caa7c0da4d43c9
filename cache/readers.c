/* readers.c: threads that read and verify contents, and make materialised files. */
#include "store.h"

static void read_blob(struct stx__reader *r, struct stx__job *j, struct stx_bytes *out)
{
	j->e = stx__blob_read(&r->db, j->blob_id, &j->digest, out, &j->diag);
	j->damaged = j->e == STX_E_CORRUPT;
	j->absent = j->e == STX_E_NOT_FOUND;
}

static void make_file(struct stx__reader *r, struct stx__job *j)
{
	const char *dir = r->all->dir;
	struct stx_bytes path = { 0 }, contents = { 0 };
	stx__file_path(dir, &j->digest, &path);
	const char *p = stx_bytes_cstr(&path);
	if (path.oom) {
		j->e = STX_E_NOMEM;
	} else if (!j->stale || !stx__file_verify(p, &j->digest, j->raw_bytes)) {
		read_blob(r, j, &contents);
		if (!j->e)
			j->e = stx__file_write(
				dir, atomic_fetch_add(&r->all->temp_seq, 1), &j->digest,
				(struct stx_span){ contents.at, contents.n }, &j->diag);
	}
	stx_bytes_free(&contents);
	j->raw = path;
}

static void *reader(void *arg)
{
	struct stx__reader *r = arg;
	struct stx__readers *all = r->all;
	for (;;) {
		pthread_mutex_lock(&all->mu);
		while (!all->q.first && !all->stop)
			pthread_cond_wait(&all->cv, &all->mu);
		struct stx__job *j = all->stop ? NULL : stx__queue_pop(&all->q);
		pthread_mutex_unlock(&all->mu);
		if (!j)
			return NULL;
		if (j->kind == STX__JOB_FILE)
			make_file(r, j);
		else
			read_blob(r, j, &j->raw);
		stx__done_push(all->done, j);
	}
}

stx_err stx__readers_start(struct stx__readers *r, const char *db_path, struct stx_diag *d)
{
	for (uint32_t i = 0; i < r->n; i++) {
		r->at[i].all = r;
		stx_err e = stx__sql_open(&r->at[i].db, db_path, STX__NORMAL, d);
		if (e)
			return e;
		if (pthread_create(&r->at[i].thread, NULL, reader, &r->at[i])) {
			stx__sql_close(&r->at[i].db);
			return stx_fail(d, STX_E_NOMEM, "cache", "", "no thread for reading");
		}
		r->started++;
	}
	return STX_E_OK;
}

void stx__readers_push(struct stx__readers *r, struct stx__job *j)
{
	pthread_mutex_lock(&r->mu);
	stx__queue_push(&r->q, j);
	pthread_cond_signal(&r->cv);
	pthread_mutex_unlock(&r->mu);
}

void stx__readers_stop(struct stx__readers *r)
{
	pthread_mutex_lock(&r->mu);
	r->stop = 1;
	pthread_cond_broadcast(&r->cv);
	pthread_mutex_unlock(&r->mu);
	for (uint32_t i = 0; i < r->started; i++) {
		pthread_join(r->at[i].thread, NULL);
		stx__sql_close(&r->at[i].db);
	}
	r->started = 0;
}
