/* load.c: many concurrent clients, mixed requests, against a running daemon ($STAX_SERVER).
 * Usage: load [CLIENTS REQUESTS GRAPHS]   (defaults 200 10000 60)
 * Requires a fresh cache. Prints what it did and the usual closing line; a check each:
 *   no request failed but those meant to; every artifact gave right numbers; one compile a distinct
 * key. */
#include <pthread.h>

#include "e2e.h"

static int clients = 200, requests = 10000;
static unsigned graphs = 60;
static _Atomic int next_request, hits, misses, bad_graphs, pings, loads, errors;
static pthread_mutex_t print_lock = PTHREAD_MUTEX_INITIALIZER;

static void report(const char *what, const struct stax_error *e)
{
	if (errors++ > 20)
		return;
	pthread_mutex_lock(&print_lock);
	printf("error: %s: %s %s %s\n", what, stax_error_name(e->code), e->node, e->text);
	pthread_mutex_unlock(&print_lock);
}

static void compile_one(struct stax_client *c, unsigned n, int load)
{
	struct stax_error err = { 0 };
	struct stax_answer *a = NULL;
	char text[512];
	e2e_graph(text, sizeof text, n);
	struct stax_request r = { .format = STAX_TEXT,
				  .graph = text,
				  .graph_bytes = strlen(text),
				  .deadline_ms = 120000 };
	if (stax_compile(c, &r, &a, &err)) {
		report("compile", &err);
		return;
	}
	*(a->hit ? &hits : &misses) += 1;
	if (load) {
		loads++;
		if (!e2e_check(c, a, n, &err))
			report("load and run", &err);
	}
	stax_answer_free(a);
}

static void compile_bad(struct stax_client *c, unsigned n)
{
	struct stax_error err = { 0 };
	struct stax_answer *a = NULL;
	char text[128];
	snprintf(text, sizeof text,
		 "%%primals_1 : f32[2] = placeholder()\n%%y = no_such_op_%u(%%primals_1)\nreturn "
		 "(%%y,)\n",
		 n % 5);
	struct stax_request r = { .format = STAX_TEXT, .graph = text, .graph_bytes = strlen(text) };
	int rc = stax_compile(c, &r, &a, &err);
	bad_graphs++;
	if (rc == 0 || stax_exit_code(rc) != 1) {
		err.code = rc;
		report("an unknown operator was not refused with exit code 1", &err);
	}
	stax_answer_free(a);
}

static void *client_main(void *arg)
{
	struct e2e_rng rng = { 0x2545f4914f6cdd1du * ((uint64_t)(uintptr_t)arg + 1) };
	struct stax_error err = { 0 };
	struct stax_client *c;
	if (stax_connect(NULL, &c, &err)) {
		report("connect", &err);
		return NULL;
	}
	while (next_request++ < requests) {
		uint64_t dice = e2e_next(&rng) % 100;
		unsigned n = (unsigned)(e2e_next(&rng) % graphs);
		struct stax_pong p;
		if (dice < 80) {
			compile_one(c, n, dice < 20);
		} else if (dice < 88) {
			compile_bad(c, n);
		} else if (dice < 96) {
			pings++;
			if (stax_ping(c, &p, &err))
				report("ping", &err);
		} else { /* another connection */
			stax_client_free(c);
			if (stax_connect(NULL, &c, &err)) {
				report("connect again", &err);
				return NULL;
			}
		}
	}
	stax_client_free(c);
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc == 4) {
		clients = atoi(argv[1]);
		requests = atoi(argv[2]);
		graphs = (unsigned)atoi(argv[3]);
	}
	if (clients < 1 || clients > 1000 || graphs < 1)
		return 2;
	pthread_t *t = calloc((size_t)clients, sizeof *t);
	double start = e2e_now_s();
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 1 << 20);
	for (int i = 0; i < clients; i++)
		if (!t || pthread_create(&t[i], &attr, client_main, (void *)(uintptr_t)i))
			return 1;
	for (int i = 0; i < clients; i++)
		pthread_join(t[i], NULL);
	double took = e2e_now_s() - start;
	struct stax_client *c;
	struct stax_error err = { 0 };
	if (stax_connect(NULL, &c, &err))
		return 1;
	uint64_t compiles = e2e_stat(c, "compiles"), restarts = e2e_stat(c, "restarts");
	stax_client_free(c);
	free(t);
	printf("%d clients, %d requests in %.1f s: %d hits, %d misses, %d refused graphs, %d "
	       "pings, %d runs\n",
	       clients, requests, took, hits, misses, bad_graphs, pings, loads);
	printf("compiles %llu for %u distinct keys, worker restarts %llu, errors %d\n",
	       (unsigned long long)compiles, graphs, (unsigned long long)restarts, errors);
	int one_each = compiles == graphs;
	if (!one_each)
		printf("FAILED: one compile a distinct key\n");
	printf("%d passed, %d failed, 0 skipped\n", (errors == 0) + one_each,
	       (errors != 0) + !one_each);
	return errors != 0 || !one_each;
}
