/* hostile.c: raw bytes against a running daemon ($STAX_SERVER, unix:): truncated, oversized, random
 * and hostile frames. After each the daemon must still answer a ping on a new connection; its
 * resident memory must stay under a bound. Usage: hostile DAEMON_PID. Prints the usual closing
 * line. */
#include <sys/socket.h>
#include <sys/un.h>

#include "e2e.h"

static int passed, failed;
static pid_t daemon_pid;

static void check(int ok, const char *what)
{
	*(ok ? &passed : &failed) += 1;
	if (!ok)
		printf("FAILED: %s\n", what);
}

static int dial(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const char *server = getenv("STAX_SERVER");
	if (!server || strncmp(server, "unix:", 5))
		return -1;
	snprintf(a.sun_path, sizeof a.sun_path, "%s", server + 5);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct timeval t = { 120, 0 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
	if (connect(fd, (struct sockaddr *)&a, sizeof a)) {
		close(fd);
		return -1;
	}
	return fd;
}

static long resident_kb(void)
{
	char path[64], line[256];
	long kb = -1;
	snprintf(path, sizeof path, "/proc/%d/status", (int)daemon_pid);
	FILE *f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmRSS: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

static int alive(void)
{
	struct stax_client *c;
	struct stax_pong p;
	if (stax_connect(NULL, &c, NULL))
		return 0;
	int ok = !stax_ping(c, &p, NULL);
	stax_client_free(c);
	return ok;
}

/* Sends bytes, half-closes, reads what comes until the end. Bytes read, or -1 when nothing ended in
 * time. */
static long exchange(const void *p, size_t n, int half_close)
{
	char buf[65536];
	long total = 0;
	int fd = dial();
	if (fd < 0)
		return -1;
	size_t sent = 0;
	while (sent < n) {
		ssize_t k = send(fd, (const char *)p + sent, n - sent, MSG_NOSIGNAL);
		if (k <= 0)
			break; /* the daemon hung up: fine */
		sent += (size_t)k;
	}
	if (half_close)
		shutdown(fd, SHUT_WR);
	for (;;) {
		ssize_t k = recv(fd, buf, sizeof buf, 0);
		if (k < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			total = -1;
			break;
		}
		if (k <= 0)
			break;
		total += k;
	}
	close(fd);
	return total;
}

static void put_u32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, 4);
}

static void attack(const char *what, const void *p, size_t n)
{
	long got = exchange(p, n, 1);
	char text[160];
	snprintf(text, sizeof text, "%s: the connection is answered or closed", what);
	check(got >= 0, text);
	snprintf(text, sizeof text, "%s: the daemon answers afterwards", what);
	check(alive(), text);
}

/* A header of `fields` two-byte unknown fields (field 100, varint 0 needs 3 bytes; 15, varint 0
 * needs 2). */
static void many_fields(uint32_t fields)
{
	size_t n = 8 + (size_t)fields * 2;
	uint8_t *b = malloc(n);
	put_u32(b, (uint32_t)(n - 8));
	put_u32(b + 4, 0);
	for (size_t i = 8; i + 1 < n; i += 2) {
		b[i] = 15 << 3;
		b[i + 1] = 0;
	}
	attack("two-byte unknown fields", b, n);
	free(b);
}

static void nested(int depth)
{
	/* field 5 of Envelope (Compile), whose field 1 is Lookup, nested on and on: each level 4
	 * bytes of header */
	size_t n = (size_t)depth * 4 + 8;
	uint8_t *b = calloc(1, n);
	put_u32(b, (uint32_t)(n - 8));
	for (int i = 0; i < depth; i++) {
		size_t left = (size_t)(depth - i - 1) * 4;
		uint8_t *p = b + 8 + i * 4;
		p[0] = 5 << 3 | 2;
		p[1] = (uint8_t)(left & 0x7f) | 0x80;
		p[2] = (uint8_t)(left >> 7 & 0x7f) | 0x80;
		p[3] = (uint8_t)(left >> 14 & 0x7f);
	}
	attack("10,000 nested messages", b, n);
	free(b);
}

/* A valid Compile header announcing a body that never comes in full. */
static void truncated_body(uint32_t announce, size_t send_bytes)
{
	uint8_t *b = calloc(1, 64 + send_bytes);
	uint8_t header[] = { 0x08, 1, 5 << 3 | 2, 6, 1 << 3 | 2, 4, 2 << 3, 2, 3 << 3 | 2, 0 };
	put_u32(b, sizeof header);
	put_u32(b + 4, announce);
	memcpy(b + 8, header, sizeof header);
	attack("a truncated body", b, 8 + sizeof header + send_bytes);
	free(b);
}

static void random_frames(struct e2e_rng *r)
{
	uint8_t b[4096];
	for (int i = 0; i < 60; i++) {
		size_t n = 1 + e2e_next(r) % sizeof b;
		for (size_t k = 0; k < n; k++)
			b[k] = (uint8_t)(e2e_next(r) >> 32);
		if (i % 2 && n >= 8) { /* plausible lengths */
			put_u32(b, (uint32_t)(n - 8));
			put_u32(b + 4, 0);
		}
		if (exchange(b, n, 1) < 0)
			check(0, "random bytes: the connection is answered or closed");
	}
	check(alive(), "random frames: the daemon answers afterwards");
}

/* Many connections that send half a prefix, or announce much and send nothing: budgets hold. */
static void idle_hoard(void)
{
	int fd[200];
	uint8_t b[18] = { 0 };
	uint8_t header[] = { 0x08, 1, 5 << 3 | 2, 6, 1 << 3 | 2, 4, 2 << 3, 2, 3 << 3 | 2, 0 };
	put_u32(b, sizeof header);
	put_u32(b + 4, 60u << 20);
	memcpy(b + 8, header, sizeof header);
	for (int i = 0; i < 200; i++) {
		fd[i] = dial();
		if (fd[i] >= 0)
			(void)!send(fd[i], b, i % 2 ? 4 : sizeof b, MSG_NOSIGNAL);
	}
	check(alive(), "200 half-open requests: others are still served");
	for (int i = 0; i < 200; i++)
		if (fd[i] >= 0)
			close(fd[i]);
}

/* Sends pings for ever and reads nothing: the daemon must stop reading, not buffer without bound.
 */
static void deaf_client(void)
{
	int fd = dial();
	uint8_t one[] = { 4, 0, 0, 0, 0, 0, 0, 0, 0x08, 1, 11 << 3 | 2, 0 };
	uint8_t many[12 * 512];
	for (int i = 0; i < 512; i++)
		memcpy(many + 12 * i, one, 12);
	struct timeval t = { 1, 0 };
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t);
	size_t sent = 0;
	while (sent < (64u << 20)) {
		ssize_t k = send(fd, many, sizeof many, MSG_NOSIGNAL);
		if (k <= 0)
			break;
		sent += (size_t)k;
	}
	check(sent < (64u << 20), "a client that does not read is no longer read");
	check(alive(), "a deaf client: others are still served");
	close(fd);
}

int main(int argc, char **argv)
{
	struct e2e_rng rng = { (uint64_t)time(NULL) * 2654435761u + 1 };
	uint8_t b[64] = { 0 };
	if (argc != 2)
		return 2;
	daemon_pid = (pid_t)atoi(argv[1]);
	printf("seed 0x%llx\n", (unsigned long long)rng.s);
	signal(SIGPIPE, SIG_IGN);
	long before = resident_kb();
	attack("nothing", b, 0);
	attack("half a prefix", b, 3);
	put_u32(b, 70000);
	attack("an oversized header", b, 8);
	put_u32(b, 4);
	put_u32(b + 4, 0xffffffffu);
	attack("an oversized body", b, 8);
	put_u32(b, 0);
	put_u32(b + 4, 0);
	attack("an empty header", b, 8);
	many_fields(32000);
	many_fields(1000000);
	nested(10000);
	truncated_body(1000, 10);
	truncated_body(60u << 20, 1u << 20);
	random_frames(&rng);
	idle_hoard();
	deaf_client();
	long after = resident_kb();
	printf("resident: %ld kB before, %ld kB after\n", before, after);
	check(after > 0 && after < before + 100 * 1024,
	      "memory stays bounded (100 MB over the start)");
	printf("%d passed, %d failed, 0 skipped\n", passed, failed);
	return failed != 0;
}
