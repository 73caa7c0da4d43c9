/* fake_compiler.h: a test double of compile.h. Graphs are lines of text:
 *   name IN OUT         names of the reply; not part of the canonical graph
 *   kernel TEXT         one kernel with this IR; its object is "obj:TEXT"
 *   do STAGE VERB [N]   STAGE key|plan|link; VERB as in fake_act
 *   forge               the artifact is one that must not be loaded
 *   need INPUT          NEED_VALUES unless INPUT is given
 * VERB hold waits for the test at the gate, a file of the daemon's folder that workers map when they
 * start: what is under way then does not depend on how fast anybody is.
 * A kernel whose IR begins with "tile" is a product of that text for a CPU; given a choice, that is
 * its first candidate and " cut CHOICE" is behind its IR, and a VERB after "tile" is done when that
 * is compiled: "tile crash". A kernel's IR may begin with a VERB and a number as well: "sleep 50 a".
 * Included by one file a program. */
#ifndef FAKE_COMPILER_H
#define FAKE_COMPILER_H

#include "artifact_check.h"
#include "compile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct stx_compiler {
	int calls;
	struct stx_digest fingerprint;
};

static int fake_is_worker;

/* The n-th job that comes to a hold goes on once n have been let through. */
#define FAKE_GATE_FILE "FAKE_GATE"
struct fake_gate {
	_Atomic uint32_t arrived, let_through;
};
static struct fake_gate *fake_gate;

/* NULL: there is none. */
static struct fake_gate *fake_gate_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	void *at = fd < 0 ? MAP_FAILED
			  : mmap(NULL, sizeof(struct fake_gate), PROT_READ | PROT_WRITE, MAP_SHARED,
				 fd, 0);
	if (fd >= 0)
		close(fd);
	return at == MAP_FAILED ? NULL : at;
}

static void fake_hold(void)
{
	static const struct timespec step = { 0, 5000000 };
	uint32_t me = ++fake_gate->arrived, now;
	while ((now = fake_gate->let_through) < me)
		syscall(SYS_futex, &fake_gate->let_through, FUTEX_WAIT, now, &step, NULL, 0);
}

static stx_err fake_act(const char *verb, long n, struct stx_diag *d)
{
	if (!strcmp(verb, "crash")) {
		signal(SIGSEGV, SIG_DFL);
		raise(SIGSEGV);
	} else if (!strcmp(verb, "abort")) {
		abort();
	} else if (!strcmp(verb, "exit")) {
		_exit((int)n);
	} else if (!strcmp(verb, "kill")) {
		/* as somebody else would; the sandbox leaves no other way */
		syscall(234 /* tgkill */, getpid(), getpid(), SIGKILL);
	} else if (!strcmp(verb, "spin")) {
		for (volatile int on = 1; on;)
			;
	} else if (!strcmp(verb, "hold")) {
		if (!fake_gate)
			return stx_fail(d, STX_E_INTERNAL, "fake", "", "there is no gate");
		fake_hold();
	} else if (!strcmp(verb, "sleep")) { /* busy: the sandbox has no sleeping call but futex */
		struct timespec a, b;
		clock_gettime(CLOCK_MONOTONIC, &a);
		do
			clock_gettime(CLOCK_MONOTONIC, &b);
		while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < n);
	} else if (!strcmp(verb, "eat")) { /* n MiB, a MiB at a time */
		for (long i = 0; i < n; i++) {
			char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			if (p == MAP_FAILED)
				return stx_fail(d, STX_E_NOMEM, "fake", "",
						"no memory after %ld MiB", i);
			memset(p, 1, 1 << 20);
		}
	} else if (!strcmp(verb, "invalid")) {
		return stx_fail(d, STX_E_INVALID, "fake", "node1", "told to be invalid %ld", n);
	} else if (!strcmp(verb, "internal")) {
		return stx_fail(d, STX_E_INTERNAL, "fake", "", "told to be internal");
	}
	return STX_E_OK;
}

/* Runs every "do STAGE ..." line. */
static stx_err fake_stage(struct stx_span text, const char *stage, struct stx_diag *d)
{
	for (size_t at = 0; at < text.n;) {
		char line[256], name[16], verb[16];
		long n = 0;
		size_t end = at;
		while (end < text.n && text.at[end] != '\n')
			end++;
		snprintf(line, sizeof line, "%.*s", (int)(end - at), (const char *)text.at + at);
		at = end + 1;
		if (sscanf(line, "do %15s %15s %ld", name, verb, &n) >= 2 && !strcmp(name, stage)) {
			stx_err e = fake_act(verb, n, d);
			if (e)
				return e;
		}
	}
	return STX_E_OK;
}

static void fake_name(struct stx_name_list *l, const char *s)
{
	l->at = realloc(l->at, (l->n + 1) * sizeof *l->at);
	l->at[l->n++] = strdup(s);
}

stx_err stx_compiler_new(int cuda, struct stx_compiler **out, struct stx_diag *d)
{
	(void)cuda;
	if (!access("FAKE_NO_START",
		    F_OK)) /* in the daemon's directory: a worker has no environment */
		return stx_fail(d, STX_E_INTERNAL, "fake", "", "told not to start");
	fake_is_worker = 1;
	fake_gate = fake_gate_map(FAKE_GATE_FILE);
	*out = calloc(1, sizeof **out);
	const char *build = access("FAKE_NEW_BUILD", F_OK) ? "fake" : "newer fake";
	(*out)->fingerprint = stx_digest_of(build, strlen(build));
	return STX_E_OK;
}

void stx_compiler_free(struct stx_compiler *c)
{
	free(c);
}

struct stx_digest stx_compiler_fingerprint(const struct stx_compiler *c)
{
	return c->fingerprint;
}

static int fake_given(const struct stx_source *s, const char *name)
{
	for (uint32_t i = 0; i < s->nvalues; i++)
		if (!strcmp(s->values[i].input, name))
			return 1;
	return 0;
}

stx_err stx_compile_key(struct stx_compiler *c, const struct stx_source *s,
			const struct stx_compile_options *o, struct stx_key_result *out,
			struct stx_diag *d)
{
	(void)o;
	c->calls++;
	memset(out, 0, sizeof *out);
	stx_err e = fake_stage(s->body, "key", d);
	if (e)
		return e;
	for (size_t at = 0; at < s->body.n;) {
		char line[256], a[64], b[64];
		size_t end = at;
		while (end < s->body.n && s->body.at[end] != '\n')
			end++;
		snprintf(line, sizeof line, "%.*s", (int)(end - at), (const char *)s->body.at + at);
		at = end + 1;
		if (sscanf(line, "name %63s %63s", a, b) == 2) {
			fake_name(&out->inputs, a);
			fake_name(&out->outputs, b);
		} else if (sscanf(line, "need %63s", a) == 1 && !fake_given(s, a)) {
			fake_name(&out->needed, a);
			fake_name(&out->needed_why, "it fixes a shape");
		} else {
			stx_bytes_puts(&out->graph, line);
			stx_bytes_puts(&out->graph, "\n");
		}
	}
	if (out->needed.n)
		return stx_fail(d, STX_E_NEED_VALUES, "fake", out->needed.at[0],
				"values are needed");
	out->graph_digest = stx_digest_of(out->graph.at, out->graph.n);
	snprintf(out->stages[0].name, sizeof out->stages[0].name, "import");
	out->stages[0].us = 7;
	out->nstages = 1;
	return STX_E_OK;
}

static void fake_product(struct stx_kernel_desc *k, const struct stx_choices *given)
{
	snprintf(k->product, sizeof k->product, "%.*s", (int)k->ir.n, (const char *)k->ir.at);
	const char *config = given ? stx_choice_find(given, &k->digest) : NULL;
	if (!config)
		return;
	snprintf(k->configs[0].text, sizeof k->configs[0].text, "%s", config);
	stx_bytes_printf(&k->ir, " cut %s", config);
	k->digest = stx_digest_of(k->ir.at, k->ir.n);
}

/* Three candidates for a kernel of a GPU target, or a product. */
static void fake_configs(struct stx_kernel_desc *k)
{
	static const char *const names[] = { "small", "medium", "large" };
	k->configs = calloc(3, sizeof *k->configs);
	for (k->nconfigs = 0; k->nconfigs < 3; k->nconfigs++) {
		struct stx_config_desc *c = &k->configs[k->nconfigs];
		snprintf(c->text, sizeof c->text, "%s", names[k->nconfigs]);
		c->grid[0] = 4;
		c->block[0] = 32u << k->nconfigs;
	}
}

stx_err stx_compile_plan(struct stx_compiler *c, struct stx_span graph,
			 const struct stx_compile_options *o, struct stx_plan_result *out,
			 struct stx_diag *d)
{
	c->calls++;
	memset(out, 0, sizeof *out);
	stx_err e = fake_stage(graph, "plan", d);
	if (e)
		return e;
	out->kernels = calloc(graph.n / 7 + 1, sizeof *out->kernels);
	for (size_t at = 0; at < graph.n;) {
		size_t end = at;
		while (end < graph.n && graph.at[end] != '\n')
			end++;
		if (end - at > 7 && !memcmp(graph.at + at, "kernel ", 7)) {
			struct stx_kernel_desc *k = &out->kernels[out->nkernels++];
			stx_bytes_put(&k->ir, graph.at + at + 7, end - at - 7);
			k->digest = stx_digest_of(k->ir.at, k->ir.n);
			snprintf(k->name, sizeof k->name, "poi_%u", out->nkernels);
			k->grid[0] = 4;
			k->block[0] = 8;
			int is_tile = k->ir.n > 4 && !memcmp(k->ir.at, "tile", 4);
			if (is_tile || !strncmp(o->target, "cuda", 4))
				fake_configs(k);
			if (is_tile)
				fake_product(k, o->blockings);
		}
		at = end + 1;
	}
	stx_bytes_put(&out->plan, graph.at, graph.n);
	fake_name(&out->report, "a report line");
	out->bytes_read = 11;
	snprintf(out->stages[0].name, sizeof out->stages[0].name, "plan");
	out->stages[0].us = 9;
	out->nstages = 1;
	return STX_E_OK;
}

stx_err stx_compile_emit(struct stx_compiler *c, struct stx_span ir,
			 const struct stx_compile_options *o, struct stx_emit_result *out,
			 struct stx_diag *d)
{
	char text[64], verb[16];
	long n = 0;
	c->calls++;
	memset(out, 0, sizeof *out);
	snprintf(text, sizeof text, "%.*s", (int)(ir.n < 63 ? ir.n : 63), (const char *)ir.at);
	if (o->config && !strncmp(o->config, "bad", 3))
		return stx_fail(d, STX_E_INVALID, "fake", "", "no such configuration");
	int is_cut = memmem(ir.at, ir.n, " cut ", 5) && sscanf(text, "tile %15s", verb) == 1;
	if (is_cut || sscanf(text, "%15s %ld", verb, &n) >= 1) {
		stx_err e = fake_act(verb, n, d);
		if (e)
			return e;
	}
	stx_bytes_puts(&out->object, "obj:");
	stx_bytes_put(&out->object, ir.at, ir.n);
	if (o->config && *o->config)
		stx_bytes_printf(&out->object, " in %s", o->config);
	out->block[0] = 16;
	out->registers = 5;
	snprintf(out->stages[0].name, sizeof out->stages[0].name, "emit");
	out->stages[0].us = 3;
	out->nstages = 1;
	return STX_E_OK;
}

stx_err stx_compile_space(struct stx_span ir, const struct stx_compile_options *o,
			  struct stx_config_desc **out, uint32_t *n, struct stx_diag *d)
{
	(void)ir, (void)o, (void)d;
	*n = 2;
	*out = calloc(2, sizeof **out);
	snprintf((*out)[0].text, sizeof(*out)[0].text, "small");
	snprintf((*out)[1].text, sizeof(*out)[1].text, "large");
	return STX_E_OK;
}

stx_err stx_compile_link(struct stx_compiler *c, struct stx_span plan,
			 const struct stx_span *objects, uint32_t nobjects, struct stx_bytes *out,
			 struct stx_diag *d)
{
	c->calls++;
	stx_err e = fake_stage(plan, "link", d);
	if (e)
		return e;
	stx_bytes_puts(out, "ARTIFACT\n");
	stx_bytes_put(out, plan.at, plan.n);
	for (uint32_t i = 0; i < nobjects; i++) {
		stx_bytes_puts(out, "|");
		stx_bytes_put(out, objects[i].at, objects[i].n);
	}
	return STX_E_OK;
}

/* A worker finds everything in order: it has been taken over. */
stx_err stx_artifact_check(struct stx_span elf, struct stx_diag *d)
{
	static const char bad[] = "\nforge\n";
	return !fake_is_worker && memmem(elf.at, elf.n, bad, sizeof bad - 1)
		       ? stx_fail(d, STX_E_UNTRUSTED, "check", "", "forged")
		       : STX_E_OK;
}

stx_err stx_compile_dump(struct stx_compiler *c, const struct stx_source *s,
			 const struct stx_compile_options *o, const char *stage, const char *format,
			 struct stx_bytes *out, struct stx_diag *d)
{
	(void)c, (void)s, (void)o, (void)d;
	stx_bytes_printf(out, "dump of %s as %s", stage, format);
	return STX_E_OK;
}

/* Every input comes back as an output. */
stx_err stx_compile_reference(const struct stx_source *s, const struct stx_tensor *inputs,
			      uint32_t ninputs, struct stx_tensor *outputs, uint32_t *noutputs,
			      struct stx_diag *d)
{
	(void)s, (void)d;
	for (uint32_t i = 0; i < ninputs; i++) {
		size_t n = (size_t)stx_dtype_bytes((enum stx_dtype)inputs[i].dtype);
		for (int k = 0; k < inputs[i].rank; k++)
			n *= (size_t)inputs[i].sizes[k];
		outputs[i] = inputs[i];
		outputs[i].data = malloc(n + 1);
		memcpy(outputs[i].data, inputs[i].data, n);
	}
	*noutputs = ninputs;
	return STX_E_OK;
}

/* One layer, and every input as an output. */
stx_err stx_compile_compare(const struct stx_source *s, const struct stx_compare_options *o,
			    const struct stx_tensor *inputs, uint32_t ninputs,
			    struct stx_tensor *outputs, uint32_t *noutputs,
			    struct stx_compare_result *out, struct stx_diag *d)
{
	(void)o;
	memset(out, 0, sizeof *out);
	out->first = -1;
	out->nlayers = 1;
	snprintf(out->layers[0].name, sizeof out->layers[0].name, "graph");
	return stx_compile_reference(s, inputs, ninputs, outputs, noutputs, d);
}

void stx_name_list_free(struct stx_name_list *l)
{
	for (uint32_t i = 0; i < l->n; i++)
		free(l->at[i]);
	free(l->at);
	memset(l, 0, sizeof *l);
}

void stx_key_result_free(struct stx_key_result *r)
{
	stx_bytes_free(&r->graph);
	stx_name_list_free(&r->inputs);
	stx_name_list_free(&r->outputs);
	stx_name_list_free(&r->needed);
	stx_name_list_free(&r->needed_why);
}

void stx_plan_result_free(struct stx_plan_result *r)
{
	for (uint32_t i = 0; i < r->nkernels; i++) {
		stx_bytes_free(&r->kernels[i].ir);
		free(r->kernels[i].configs);
	}
	free(r->kernels);
	stx_bytes_free(&r->plan);
	stx_name_list_free(&r->report);
}

void stx_emit_result_free(struct stx_emit_result *r)
{
	stx_bytes_free(&r->object);
}

#endif
