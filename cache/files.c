/* files.c: materialised files: dir/files/<2 hex>/<digest>.so, 0444, renamed into place, never
 * rewritten. They are derived: not synced, verified before they are handed out for the first time
 * after a start. */
#include "store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

void stx__file_path(const char *dir, const struct stx_digest *digest, struct stx_bytes *out)
{
	char hex[STX_DIGEST_HEX];
	stx_digest_hex(digest, hex);
	stx_bytes_printf(out, "%s/files/%.2s/%s.so", dir, hex, hex);
}

/* ---- reader threads ---- */
int stx__file_verify(const char *path, const struct stx_digest *digest, uint64_t bytes)
{
	uint8_t buf[65536];
	struct stat st;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK), ok = 0;
	if (fd < 0)
		return 0;
	struct stx_hasher *h = NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == bytes &&
	    (h = stx_hasher_new())) {
		ssize_t n;
		while ((n = read(fd, buf, sizeof buf)) > 0)
			stx_hasher_update(h, buf, (size_t)n);
		struct stx_digest got = stx_hasher_final(h);
		ok = n == 0 && stx_digest_eq(&got, digest) &&
		     ((st.st_mode & 07777) == 0444 || fchmod(fd, 0444) == 0);
	}
	close(fd);
	return ok;
}

static int write_all(int fd, struct stx_span s)
{
	while (s.n) {
		ssize_t n = write(fd, s.at, s.n);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		s.at += n;
		s.n -= (size_t)n;
	}
	return 0;
}

static stx_err place(const char *temp, char *path, int fd, struct stx_span contents,
		     struct stx_diag *d)
{
	int bad = write_all(fd, contents) || fchmod(fd, 0444);
	if (!bad && rename(temp, path)) {
		bad = 1;
		if (errno == ENOENT) { /* the first file of its folder */
			char *slash = strrchr(path, '/');
			*slash = 0;
			bad = mkdir(path, 0700) && errno != EEXIST;
			*slash = '/';
			bad = bad || rename(temp, path);
		}
	}
	return bad ? stx_fail(d, STX_E_IO, "cache", "", "%s: %s", path, strerror(errno)) : STX_E_OK;
}

stx_err stx__file_write(const char *dir, uint64_t seq, const struct stx_digest *digest,
			struct stx_span contents, struct stx_diag *d)
{
	struct stx_bytes path = { 0 }, temp = { 0 };
	stx__file_path(dir, digest, &path);
	stx_bytes_printf(&temp, "%s/tmp/%ld.%llu", dir, (long)getpid(), (unsigned long long)seq);
	const char *t = stx_bytes_cstr(&temp);
	stx_bytes_cstr(&path);
	stx_err e = STX_E_NOMEM;
	if (!path.oom && !temp.oom) {
		int fd = open(t, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0) {
			e = stx_fail(d, STX_E_IO, "cache", "", "%s: %s", t, strerror(errno));
		} else {
			e = place(t, (char *)path.at, fd, contents, d);
			close(fd);
			if (e)
				unlink(t);
		}
	}
	stx_bytes_free(&path);
	stx_bytes_free(&temp);
	return e;
}

/* ---- the owner's records ---- */
struct stx__file *stx__file_find(struct stx_cache *c, const struct stx_digest *digest)
{
	size_t at = SIZE_MAX;
	struct stx__file *f;
	while ((f = stx__map_next(&c->files, stx_digest_short(digest), &at)))
		if (stx_digest_eq(&f->digest, digest))
			return f;
	return NULL;
}

struct stx__file *stx__file_get(struct stx_cache *c, const struct stx_digest *digest)
{
	struct stx__file *f = stx__file_find(c, digest);
	if (f || stx__map_reserve(&c->files, 1) || !(f = calloc(1, sizeof *f)))
		return f;
	f->h = stx_digest_short(digest);
	f->digest = *digest;
	f->stamp_ms = STX__STAMP_PENDING;
	stx__list_init(&f->lru);
	stx__list_init(&f->doomed);
	stx__list_push(&c->file_lru, &f->lru);
	stx__map_add(&c->files, f);
	return f;
}

void stx__file_touch(struct stx_cache *c, struct stx__file *f)
{
	f->stamp_ms = STX__STAMP_PENDING;
	stx__list_del(&f->lru);
	stx__list_push(&c->file_lru, &f->lru);
}

void stx__file_forget(struct stx_cache *c, struct stx__file *f)
{
	stx__list_del(&f->lru);
	stx__list_del(&f->doomed);
	stx__map_del(&c->files, f);
	free(f);
}

void stx__file_doom(struct stx_cache *c, const struct stx_digest *digest)
{
	struct stx__file *f = stx__file_find(c, digest);
	if (f && stx__list_empty(&f->doomed))
		stx__list_push(&c->doomed, &f->doomed);
}

static void set_on_disk(struct stx_cache *c, struct stx__file *f, enum stx__file_state s,
			uint64_t bytes)
{
	c->file_bytes -= f->bytes;
	c->n_files -= f->bytes != 0;
	f->bytes = bytes;
	c->file_bytes += f->bytes;
	c->n_files += f->bytes != 0;
	f->state = s;
}

int stx__file_finish(struct stx_cache *c, struct stx__job *j)
{
	struct stx__file *f = j->file;
	struct stx__job *waiters = f->waiters;
	int ran = 0;
	f->waiters = NULL;
	stx__read_damage(c, j);
	if (!j->e) {
		/* An empty file counts as one byte, so that it is counted at all. */
		set_on_disk(c, f, STX__F_READY, j->raw_bytes ? j->raw_bytes : 1);
		stx__file_touch(c, f);
		if (stx__list_empty(&f->doomed)) /* its artifact may have gone while it was made */
			stx__list_push(&c->doomed, &f->doomed);
	} else if (f->bytes) {
		f->state = STX__F_STALE;
	} else {
		stx__file_forget(c, f);
	}
	struct stx_span path = { j->raw.at, j->raw.n };
	ran += stx__job_call(j, path);
	for (struct stx__job *next; waiters; waiters = next) {
		next = waiters->next;
		waiters->e = j->e;
		waiters->diag = j->diag;
		ran += stx__job_call(waiters, path);
		stx__job_free(c, waiters);
	}
	return ran;
}

void stx__file_cancel(struct stx_cache *c)
{
	for (size_t i = 0; i < c->files.cap; i++) {
		struct stx__file *f = c->files.slot[i];
		struct stx__job *next, *j = f ? f->waiters : NULL;
		if (f)
			f->waiters = NULL;
		for (; j; j = next) {
			next = j->next;
			j->e = STX_E_CANCELED;
			stx__job_call(j, (struct stx_span){ 0 });
			stx__job_free(c, j);
		}
	}
}

/* ---- removal ---- */
static int has_artifact(struct stx_cache *c, const struct stx_digest *digest)
{
	for (size_t i = 0; i < c->spaces.cap; i++)
		if (c->spaces.slot[i] && stx__blob_find(c, c->spaces.slot[i], digest))
			return 1;
	return 0;
}

static int in_grace(const struct stx_cache *c, const struct stx__file *f)
{
	return f->stamp_ms == STX__STAMP_PENDING || c->now_ms < f->stamp_ms ||
	       c->now_ms - f->stamp_ms < c->grace_ms;
}

static int removable(const struct stx_cache *c, const struct stx__file *f)
{
	return !in_grace(c, f) && (f->state == STX__F_READY || f->state == STX__F_STALE);
}

static void take_victim(struct stx__job *j, struct stx__file *f)
{
	struct stx__victim *v = &j->victims[j->n_victims++];
	v->file = f;
	v->digest = f->digest;
	f->state = STX__F_REMOVING;
}

void stx__files_tick(struct stx_cache *c)
{
	for (struct stx__link *l = c->file_lru.prev; l != &c->file_lru; l = l->prev) {
		struct stx__file *f = stx__of(l, struct stx__file, lru);
		if (f->stamp_ms != STX__STAMP_PENDING)
			break;
		f->stamp_ms = c->now_ms;
	}
	if (c->unlinking || (stx__list_empty(&c->doomed) && c->file_bytes <= c->max_bytes))
		return;
	struct stx__job *j = stx__job_new(STX__JOB_UNLINK);
	if (!j || !(j->victims = calloc(2 * STX__SLICE_JOBS, sizeof *j->victims))) {
		stx__job_free(c, j);
		return;
	}
	struct stx__link *l = c->doomed.next;
	for (int i = 0; i < STX__SLICE_JOBS && l != &c->doomed; i++) {
		struct stx__file *f = stx__of(l, struct stx__file, doomed);
		l = l->next;
		stx__list_del(&f->doomed);
		if (has_artifact(c, &f->digest))
			continue;
		if (removable(c, f))
			take_victim(j, f);
		else
			stx__list_push(&c->doomed, &f->doomed); /* behind: looked at again later */
	}
	uint64_t left = c->file_bytes;
	l = c->file_lru.next;
	for (int i = 0; i < STX__SLICE_JOBS && l != &c->file_lru && left > c->max_bytes;
	     i++, l = l->next) {
		struct stx__file *f = stx__of(l, struct stx__file, lru);
		if (removable(c, f))
			take_victim(j, f);
		if (f->state == STX__F_REMOVING)
			left -= f->bytes;
	}
	if (!j->n_victims) {
		stx__job_free(c, j);
		return;
	}
	c->unlinking = 1;
	stx__writer_push(&c->writer, j);
}

void stx__unlink_finish(struct stx_cache *c, struct stx__job *j)
{
	c->unlinking = 0;
	for (size_t i = 0; i < j->n_victims; i++) {
		struct stx__file *f = j->victims[i].file;
		if (j->victims[i].done)
			set_on_disk(c, f, STX__F_NONE, 0);
		else
			f->state = STX__F_STALE;
		struct stx__job *first = f->waiters;
		if (first && !c->closing) {
			f->waiters = first->next;
			first->stale = f->state == STX__F_STALE;
			f->state = STX__F_BUSY;
			stx__read_start(c, first);
		} else if (!first && f->state == STX__F_NONE) {
			stx__file_forget(c, f);
		} else if (!first && stx__list_empty(&f->doomed)) {
			stx__list_push(&c->doomed, &f->doomed);
		}
	}
}

/* ---- walking the folder ---- */
static int each_in(const char *dir, int (*fn)(void *, const char *, const struct stx_digest *),
		   void *ctx)
{
	DIR *l = opendir(dir);
	int rc = 0;
	for (struct dirent *e; l && !rc && (e = readdir(l));) {
		if (stx__is_dots(e->d_name))
			continue;
		char hex[STX_DIGEST_HEX], *path = stx__path(dir, e->d_name);
		struct stx_digest d;
		size_t n = strlen(e->d_name), folder = strlen(dir) - 2;
		int ours = n == STX_DIGEST_HEX + 2 && !strcmp(e->d_name + n - 3, ".so") &&
			   !strncmp(dir + folder, e->d_name, 2);
		snprintf(hex, sizeof hex, "%.64s", e->d_name);
		ours = ours && stx_digest_parse(hex, &d) == STX_E_OK;
		rc = path ? fn(ctx, path, ours ? &d : NULL) : -1;
		free(path);
	}
	if (l)
		closedir(l);
	return rc;
}

int stx__files_each(const char *dir,
		    int (*fn)(void *ctx, const char *path, const struct stx_digest *digest),
		    void *ctx)
{
	int rc = 0;
	for (int i = 0; i < 256 && !rc; i++) {
		char name[16];
		snprintf(name, sizeof name, "files/%02x", (unsigned)i);
		char *sub = stx__path(dir, name);
		rc = sub ? each_in(sub, fn, ctx) : -1;
		free(sub);
	}
	return rc;
}

static int scan_one(void *ctx, const char *path, const struct stx_digest *digest)
{
	struct stx_cache *c = ctx;
	struct stat st;
	if (!digest || lstat(path, &st) || !S_ISREG(st.st_mode))
		return 0;
	struct stx__file *f = stx__file_get(c, digest);
	if (!f)
		return -1;
	set_on_disk(c, f, STX__F_STALE, st.st_size > 0 ? (uint64_t)st.st_size : 1);
	stx__file_doom(c, digest);
	return 0;
}

int stx__files_scan(struct stx_cache *c)
{
	return stx__files_each(c->dir, scan_one, c);
}
