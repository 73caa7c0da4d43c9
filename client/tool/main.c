/* main.c: the stax tool: a table of commands. */
#include <signal.h>
#include <string.h>

#include "log.h"
#include "tool.h"

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *usage, *what;
} commands[] = {
	{ "compile", stx_tool_compile,
	  "FILE [--target cpu|cpu:x86-64-v2|-v3|-v4[+FEATURE..]|cuda|cuda:ARCH[:DEVICE]] "
	  "[--fast] [--allow-fallback] [--input NAME=FILE]... [--json] [--out DIR]",
	  "compiles a graph (ONNX, text, wire); kernels, hit or miss and why" },
	{ "run", stx_tool_run,
	  "FILE|ARTIFACT.so [--target T] [--fast] [--input NAME=FILE.npy|.pb]... "
	  "[--expect NAME=FILE]... [--rtol R] [--atol A] [--time N] [--seed N] [--out DIR] "
	  "[--interpret]",
	  "compiles and runs; --interpret: operator by operator, by the oracle" },
	{ "compare", stx_tool_compare,
	  "FILE [--target T] [--input NAME=FILE.npy|.pb]... [--rtol R] [--atol A] "
	  "[--seed N] [--work N]",
	  "the same inputs through every layer of the compiler; names the first that departs" },
	{ "tune", stx_tool_tune,
	  "FILE|ARTIFACT.so [--target cuda|cuda:ARCH[:DEVICE]|cpu|cpu:LEVEL] [--fast] "
	  "[--input NAME=FILE]... [--seed N] [--runs N] [--sweep N] [--json]",
	  "measures launch configurations on this GPU, or of a FILE how its products are cut on "
	  "this CPU; --sweep: against N others of all there are" },
	{ "check-onnx", stx_tool_check_onnx,
	  "DIR [--target T] [--jobs N] [--filter GLOB] [--timeout S]",
	  "runs the ONNX backend tests in DIR" },
	{ "dump", stx_tool_dump,
	  "FILE --stage graph|basis|primitives|loops|kernels|plan|source|llvm|asm|ptx "
	  "[--format text|dot|svg] [--target T] [--fast]",
	  "one stage of the compiler; pictures of graph to kernels" },
	{ "stats", stx_tool_stats, "[--zero] [--format text|json|prometheus]",
	  "the server's counters" },
	{ "ping", stx_tool_ping, "", "is a server there, and how are its workers sandboxed" },
	{ "fsck", stx_tool_fsck, "[--repair] [--cache-dir DIR]", "checks the store" },
};

/* Commands of the contract that this version does not have. */
static const char *const later[] = { "why",  "jobs",   "top",    "quarantine", "keys",   "promote",
				     "warm", "export", "import", "gc",         "backup", "grad" };

static int usage(FILE *f, int status)
{
	fputs("usage: stax COMMAND ...\n", f);
	for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++)
		fprintf(f, "  stax %s %s\n      %s\n", commands[i].name, commands[i].usage,
			commands[i].what);
	fputs("exit status: 0 success, 1 the graph or its result is wrong, 2 usage, 3 cannot "
	      "connect, 4 denied,\n"
	      "  5 busy or over quota, 6 deadline, 7 protocol or version, 8 internal\n",
	      f);
	return status;
}

int main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file size limit: the write says so */
	stx_log_init("stax", STX_LOG_WARN);
	if (argc < 2)
		return usage(stderr, 2);
	const char *name = argv[1];
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
		return usage(stdout, 0);
	if (!strcmp(name, "--version")) {
		printf("stax %s\n", STX_VERSION);
		return 0;
	}
	for (unsigned i = 0; i < sizeof commands / sizeof *commands; i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if (argc > 2 && !strcmp(argv[2], "--help")) {
			printf("usage: stax %s %s\n  %s\n", name, commands[i].usage,
			       commands[i].what);
			return 0;
		}
		return commands[i].run(argc - 1, argv + 1);
	}
	for (unsigned i = 0; i < sizeof later / sizeof *later; i++)
		if (!strcmp(later[i], name)) {
			fprintf(stderr, "stax: '%s' is not offered by this version yet\n", name);
			return 2;
		}
	fprintf(stderr, "stax: unknown command '%s'\n", name);
	return usage(stderr, 2);
}
