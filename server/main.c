/* main.c: staxd: the daemon, its workers, and checking the store. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "compile.h"
#include "config.h"
#include "log.h"
#include "server.h"
#include "worker.h"

static const char usage[] =
	"usage: staxd [--config FILE] [--listen unix:PATH|tcp:HOST:PORT]... [--cache-dir DIR]\n"
	"             [--workers N] [--max-size 10GiB] [--require-sandbox] [--idle-exit SECONDS]\n"
	"             [--show-config]\n"
	"       staxd --fsck [--repair] [--cache-dir DIR]\n"
	"       staxd --worker      (started by staxd and libstax)\n"
	"Every setting --show-config prints is a flag too, with - for _. Flags beat environment\n"
	"(STAX_CACHE_DIR, STAX_WORKERS, STAX_MAX_SIZE, ...) beat the file of --config.\n";

static void print_line(void *ctx, const char *text)
{
	fprintf(ctx, "%s\n", text);
}

static int complain(const struct stx_diag *d)
{
	char text[sizeof d->text + sizeof d->location];
	int n = snprintf(text, sizeof text, "%s%s%s", d->text, d->location[0] ? ": " : "",
			 d->location);
	stx_text_mask(text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1, 0);
	fprintf(stderr, "staxd: %s\n", text);
	return stx_err_exit_code(d->code);
}

static void summarise(const struct stx_fsck_report *r, int repair, const char *verdict)
{
	if (r->orphans && r->clean)
		printf("orphans are files that eviction or a kill has left: harmless; %s\n",
		       repair ? "they are gone now" : "--repair removes them");
	printf("%llu artifacts, %llu kernels, %llu memos, %llu tune records, %llu files; %llu "
	       "damaged, %llu orphans, "
	       "%llu bytes lost, %llu repaired: %s\n",
	       (unsigned long long)r->artifacts, (unsigned long long)r->kernels,
	       (unsigned long long)r->memos, (unsigned long long)r->tunes,
	       (unsigned long long)r->files, (unsigned long long)r->damaged,
	       (unsigned long long)r->orphans, (unsigned long long)r->lost_bytes,
	       (unsigned long long)r->repaired, verdict);
}

/* 0: the store is sound now, also when it took a repair to make it so; a second look says that. */
static int fsck(const struct stx_config *c)
{
	struct stx_fsck_report r, after;
	struct stx_diag d = { 0 };
	if (access(c->cache_dir, F_OK)) {
		fprintf(stderr, "staxd: there is no cache directory %s\n", c->cache_dir);
		return 1;
	}
	stx_err e = stx_cache_fsck(c->cache_dir, c->repair, print_line, stdout, &r, &d);
	if (e == STX_E_BUSY)
		fprintf(stderr, "staxd: fsck needs the directory to itself: stop the daemon (kill "
				"PID) first\n");
	int repaired = 0;
	if (!e && !r.clean && c->repair) {
		e = stx_cache_fsck(c->cache_dir, 0, print_line, stdout, &after, &d);
		repaired = !e && after.clean;
	}
	if (e)
		return complain(&d);
	summarise(&r, c->repair, r.clean ? "clean" : repaired ? "repaired" : "not clean");
	return r.clean || repaired ? 0 : 1;
}

/* Descriptors 0 to 2 are always open, so that no socket ever takes their place. */
static void prepare_process(void)
{
	struct rlimit r;
	int fd;
	do
		fd = open("/dev/null", O_RDWR);
	while (fd >= 0 && fd <= 2);
	if (fd > 2)
		close(fd);
	if (!getrlimit(RLIMIT_NOFILE, &r)) {
		r.rlim_cur = r.rlim_max;
		setrlimit(RLIMIT_NOFILE, &r);
	}
	signal(SIGPIPE, SIG_IGN);
	umask(077);
}

static int serve(const struct stx_config *c)
{
	struct stx__server *s;
	struct stx_diag d = { 0 };
	uv_loop_t loop;
	prepare_process();
	if (uv_loop_init(&loop)) {
		fprintf(stderr, "staxd: no event loop\n");
		return 8;
	}
	stx_err e = stx_server_new(&loop, c, &s, &d);
	if (s)
		uv_run(&loop, UV_RUN_DEFAULT);
	int status = s ? stx_server_free(s) : 0;
	uv_loop_close(&loop);
	return e ? complain(&d) : status;
}

/* Settings, then what this build compiles, as comments. */
static int show(const struct stx_config *c)
{
	struct stx_bytes b = { 0 };
	stx_config_show(c, print_line, stdout);
	stx_compile_coverage(&b);
	puts("# operators of graphs");
	for (const char *s = stx_bytes_cstr(&b), *end; (end = strchr(s, '\n')); s = end + 1)
		printf("#   %.*s\n", (int)(end - s), s);
	stx_bytes_free(&b);
	return 0;
}

int main(int argc, char **argv)
{
	struct stx_config c;
	struct stx_diag d = { 0 };
	int worker = argc > 1 && !strcmp(argv[1], "--worker");
	signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of one write, not the end */
	stx_log_init(worker ? "staxd-worker" : "staxd", worker ? STX_LOG_WARN : STX_LOG_INFO);
	if (worker)
		return stx_worker_main(argc - 2, argv + 2);
	if (stx_config_read(&c, argc, argv, (stx__getenv_fn *)getenv, &d))
		return complain(&d);
	switch (c.mode) {
	case STX__MODE_HELP: fputs(usage, stdout); return 0;
	case STX__MODE_VERSION: puts("staxd " STX_VERSION); return 0;
	case STX__MODE_SHOW: return show(&c);
	case STX__MODE_FSCK: return fsck(&c);
	default: return serve(&c);
	}
}
