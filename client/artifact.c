/* artifact.c: from bytes to something that can be run. The path in an answer is only a hint:
 * whatever it holds is copied into a sealed memfd first, and that copy is what is verified and
 * loaded. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuner.h"

#define ARTIFACT_MAX ((size_t)1 << 30)
#define PLAN_ALIGN   64

/* ---- bytes into a sealed memfd ---- */

static stx_err copy_all(int from, int to, size_t n, const char *path, struct stx_diag *d)
{
	for (size_t done = 0; done < n;) {
		char buf[65536];
		size_t want = n - done < sizeof buf ? n - done : sizeof buf;
		ssize_t got = read(from, buf, want);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return stx_fail(d, STX_E_IO, "load", "", "%s: %s", path,
					got ? strerror(errno) : "the file has become shorter");
		for (ssize_t put = 0; put < got;) {
			ssize_t w = write(to, buf + put, (size_t)(got - put));
			if (w <= 0 && errno != EINTR)
				return stx_fail(d, STX_E_NOMEM, "load", "", "memory file: %s",
						strerror(errno));
			put += w > 0 ? w : 0;
		}
		done += (size_t)got;
	}
	return STX_E_OK;
}

/* A sealed copy of the regular file at path; -1 and d on failure. size 0: whatever it has. */
static int sealed_copy(const char *path, size_t size, int nofollow, struct stx_diag *d)
{
	struct stat st;
	int to = -1,
	    from = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | (nofollow ? O_NOFOLLOW : 0));
	if (from < 0 || fstat(from, &st)) {
		stx_fail(d, errno == ENOENT ? STX_E_NOT_FOUND : STX_E_IO, "load", "", "%s: %s",
			 path, strerror(errno));
		goto fail;
	}
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > ARTIFACT_MAX ||
	    (size && (size_t)st.st_size != size)) {
		stx_fail(d, STX_E_CORRUPT, "load", "", "%s: not a regular file of the right size",
			 path);
		goto fail;
	}
	to = memfd_create("stax-artifact", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (to < 0) {
		stx_fail(d, STX_E_IO, "load", "", "memfd_create: %s", strerror(errno));
		goto fail;
	}
	if (copy_all(from, to, (size_t)st.st_size, path, d))
		goto fail;
	if (fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)) {
		stx_fail(d, STX_E_IO, "load", "", "sealing: %s", strerror(errno));
		goto fail;
	}
	close(from);
	return to;
fail:
	if (from >= 0)
		close(from);
	if (to >= 0)
		close(to);
	return -1;
}

static stx_err verify(struct stx_span bytes, const struct stx_digest *want, struct stx_diag *d)
{
	struct stx_digest got = stx_digest_of(bytes.at, bytes.n);
	if (stx_digest_eq(&got, want))
		return STX_E_OK;
	return stx_fail(d, STX_E_UNTRUSTED, "load", "",
			"the artifact's bytes do not have its digest");
}

/* ---- from a sealed memfd to an artifact ---- */

static stx_err copy_plan(struct stax_artifact *a, struct stx_span plan, struct stx_diag *d)
{
	size_t cap = (plan.n + PLAN_ALIGN) & ~(size_t)(PLAN_ALIGN - 1);
	a->plan_bytes = aligned_alloc(PLAN_ALIGN, cap);
	if (!a->plan_bytes)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	memcpy(a->plan_bytes, plan.at, plan.n);
	return stx_plan_open((struct stx_span){ a->plan_bytes, plan.n }, &a->plan, d);
}

/* names: the producer's, or NULL for the plan's own. */
static stx_err index_arguments(struct stax_artifact *a, const struct stax_answer *names,
			       struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	const struct stx_plan_header *h = p->h;
	a->input_value = STX_NEW_ARRAY(a->arena, uint32_t, h->ninputs);
	a->output_value = STX_NEW_ARRAY(a->arena, uint32_t, h->noutputs);
	a->input_names = STX_NEW_ARRAY(a->arena, const char *, h->ninputs);
	a->output_names = STX_NEW_ARRAY(a->arena, const char *, h->noutputs);
	if (stx_arena_oom(a->arena))
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	if (names && (names->ninputs != h->ninputs || names->noutputs != h->noutputs))
		names = NULL;
	for (uint32_t i = 0; i < h->nvalues; i++) {
		const struct stx_plan_value *v = &p->values[i];
		int in = v->kind == STX_VALUE_INPUT;
		a->ndims += v->rank;
		a->nmutated += in && (v->flags & STX_TENSOR_MUTATED);
		if (!in && v->kind != STX_VALUE_OUTPUT && v->kind != STX_VALUE_ALIAS)
			continue;
		const char *given = !names ? NULL
				    : in   ? names->input_names[v->index]
					   : names->output_names[v->index];
		const char *name =
			stx_arena_strdup(a->arena, given ? given : stx_plan_string(p, v->name));
		if (!name)
			return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
		(in ? a->input_value : a->output_value)[v->index] = i;
		(in ? a->input_names : a->output_names)[v->index] = name;
	}
	return STX_E_OK;
}

static stx_err count_arguments(struct stax_artifact *a, struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	uint64_t args = 0, scalars = 0, packed = 0;
	a->is_cuda = (p->h->flags & STX_PLAN_CUDA) != 0;
	a->is_aligned = (p->h->flags & STX_PLAN_ALIGNED) != 0;
	for (uint32_t i = 0; i < p->h->nsteps; i++) {
		const struct stx_plan_step *s = &p->steps[i];
		if (s->kind == STX_STEP_EXTERN &&
		    !stx__external_find(stx_plan_string(p, s->a), a->is_cuda))
			return stx_fail(d, STX_E_UNSUPPORTED, "load", stx_plan_string(p, s->a),
					"external call '%s' is not offered by this client",
					stx_plan_string(p, s->a));
		if (s->kind != STX_STEP_LAUNCH && s->kind != STX_STEP_EXTERN)
			continue;
		uint32_t k = stx_plan_step_kernel(p, s);
		args += s->nargs;
		scalars += k != STX_PLAN_NONE ? p->kernels[k].nscalars : 0;
		uint32_t n;
		stx_plan_prepared_of(p, k, &n);
		packed += n;
	}
	if (args > UINT32_MAX || scalars > UINT32_MAX || packed > UINT32_MAX)
		return stx_fail(d, STX_E_CORRUPT, "load", "", "data plan: too many arguments");
	a->nlaunch_args = (uint32_t)args;
	a->nscalars = (uint32_t)scalars;
	a->npacked = (uint32_t)packed;
	return STX_E_OK;
}

stx_err stx__artifact_prepare(struct stax_artifact *a, struct stx_span plan,
			      const struct stax_answer *names, struct stx_diag *d)
{
	stx_err e = copy_plan(a, plan, d);
	if (!e)
		e = index_arguments(a, names, d);
	return e ? e : count_arguments(a, d);
}

/* symbol: a string of the plan. */
static stx_err find_code(const struct stax_artifact *a, uint32_t kernel, uint32_t symbol,
			 stx_kernel_fn **out, struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	*(void **)out = a->dl ? dlsym(a->dl, stx_plan_string(p, symbol)) : NULL;
	return *out ? STX_E_OK
		    : stx_fail(d, STX_E_CORRUPT, "load",
			       stx_plan_string(p, p->kernels[kernel].name),
			       "the artifact has no symbol '%s'", stx_plan_string(p, symbol));
}

/* GPU code is parsed, never mapped as code: nothing in it is for the host. */
static stx_err load_code(struct stax_artifact *a, struct stx_span elf, struct stx_diag *d)
{
	const struct stx_plan *p = &a->plan;
	int has_code = stx_artifact_has_code(elf), gpu = a->is_cuda;
	for (uint32_t i = 0; i < p->h->nkernels; i++)
		if ((p->kernels[i].target != 0) != gpu || (gpu && has_code))
			return stx_fail(d, STX_E_CORRUPT, "load",
					stx_plan_string(p, p->kernels[i].name),
					"the artifact mixes CPU and GPU code");
	if (gpu)
		return stx__gpu_new(a, d);
	a->fns = STX_NEW_ARRAY(a->arena, stx_kernel_fn *, p->h->nkernels);
	a->prepare_fns = STX_NEW_ARRAY(a->arena, stx_kernel_fn *, p->nprepared);
	if (!a->fns || !a->prepare_fns)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	if (has_code) {
		stx_err e = stx__cpu_check(p->h->flags, d);
		if (e)
			return e;
		char path[48];
		snprintf(path, sizeof path, "/proc/self/fd/%d", a->fd);
		a->dl = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!a->dl)
			return stx_fail(d, STX_E_CORRUPT, "load", "", "dlopen: %s", dlerror());
	}
	stx_err e = STX_E_OK;
	for (uint32_t i = 0; i < p->h->nkernels && !e; i++)
		e = find_code(a, i, p->kernels[i].symbol, &a->fns[i], d);
	for (uint32_t i = 0; i < p->nprepared && !e; i++)
		e = find_code(a, p->prepared[i].kernel, p->prepared[i].symbol, &a->prepare_fns[i],
			      d);
	return e;
}

/* The first context is bound at the size hints, so that a static plan is checked in full here. */
stx_err stx__artifact_finish(struct stax_artifact *a, struct stx_diag *d)
{
	struct stx__context *x = stx__context_new(a);
	if (!x)
		return stx_fail(d, STX_E_NOMEM, "load", "", "out of memory");
	for (uint32_t i = 0; i < a->plan.h->nsyms; i++)
		x->syms[i] = a->plan.syms[i].hint;
	stx_err e = stx__context_bind(a, x, d);
	if (e)
		stx__context_free(a, x);
	else
		stx__context_put(a, x);
	return e;
}

static void unmap(struct stax_artifact *a)
{
	if (a->elf.n)
		munmap((void *)(uintptr_t)a->elf.at, a->elf.n);
	a->elf = (struct stx_span){ NULL, 0 };
}

/* Takes fd. names NULL: the bytes come from a file that nobody vouched for. */
static stx_err load_fd(int fd, const struct stax_answer *names, struct stax_artifact **out,
		       struct stx_diag *d)
{
	struct stx_span plan;
	stx_err e = STX_E_NOMEM;
	struct stax_artifact *a = calloc(1, sizeof *a);
	if (!a || !(a->arena = stx_arena_new(0))) {
		stx_fail(d, e, "load", "", "out of memory");
		free(a);
		close(fd);
		return e;
	}
	a->fd = fd;
	pthread_mutex_init(&a->interpreter_lock, NULL);
	if ((e = stx__map_fd(fd, ARTIFACT_MAX, &a->elf, d)) ||
	    (!names && (e = stx_artifact_intact(a->elf, d))) ||
	    (e = stx_artifact_plan(a->elf, &plan, d)) ||
	    (e = stx__artifact_prepare(a, plan, names, d)) || (e = load_code(a, a->elf, d)) ||
	    (e = stx__artifact_finish(a, d))) {
		stax_artifact_free(a);
		return e;
	}
	int threads;
	if (!a->is_cuda && (e = stx__threads_setting(&threads, d))) {
		stax_artifact_free(a);
		return e;
	}
	if (!a->is_cuda)
		unmap(a); /* its code is loaded, its plan copied */
	*out = a;
	return STX_E_OK;
}

int stax_load_file(const char *path, struct stax_artifact **out, struct stax_error *err)
{
	struct stx_diag d;
	stx__diag_init(&d);
	*out = NULL;
	int fd = sealed_copy(path, 0, 0, &d);
	stx_err e = fd < 0 ? d.code : load_fd(fd, NULL, out, &d);
	if (e && !d.location[0])
		stx_diag_at(&d, "%s", path);
	return stx__give_error(e, &d, err);
}

/* ---- the bytes of an answer ---- */

static stx_err fetch_remote(struct stax_client *c, const struct stax_answer *a,
			    const struct stx_digest *digest, struct stx__received *r,
			    struct stx_diag *d)
{
	Stx__Envelope m = STX__ENVELOPE__INIT;
	Stx__Fetch f = STX__FETCH__INIT;
	f.digest.len = sizeof digest->b;
	f.digest.data = (uint8_t *)(uintptr_t)digest->b;
	f.ns = (char *)(uintptr_t)stx__answer_namespace(a);
	m.msg_case = STX__ENVELOPE__MSG_FETCH;
	m.fetch = &f;
	struct stx__wait w = { 0 };
	stx_err e = stx__roundtrip(c, &m, (struct stx_span){ NULL, 0 }, &w, r, d);
	if (!e && r->e->msg_case != STX__ENVELOPE__MSG_FETCH_REPLY)
		e = stx_fail(d, STX_E_PROTOCOL, "fetch", "", "unexpected reply to Fetch");
	return e ? e : verify(r->body, digest, d);
}

/* A sealed, verified memfd of the answer's artifact; -1 and d on failure. */
static int answer_fd(struct stax_client *c, const struct stax_answer *a, struct stx_diag *d)
{
	struct stx_digest digest;
	struct stx_span bytes = { NULL, 0 };
	struct stx__received r = { 0 };
	struct stx_diag hint; /* why the path did not serve: of no interest when fetching works */
	int fd = -1;
	if (stx_digest_parse(a->digest, &digest)) {
		stx_fail(d, STX_E_USAGE, "load", "", "the answer has no artifact digest");
		return -1;
	}
	stx__diag_init(&hint);
	if (a->path && *a->path && (fd = sealed_copy(a->path, a->size_bytes, 1, &hint)) >= 0) {
		if (!stx__map_fd(fd, ARTIFACT_MAX, &bytes, &hint) &&
		    !verify(bytes, &digest, &hint)) {
			munmap((void *)(uintptr_t)bytes.at, bytes.n);
			return fd;
		}
		if (bytes.n)
			munmap((void *)(uintptr_t)bytes.at, bytes.n);
		close(fd);
		fd = -1;
	}
	if (!c)
		stx_fail(d, STX_E_NOT_FOUND, "load", "", "%s",
			 hint.text[0] ? hint.text : "no path");
	else if (c->at.kind == STX__NONE) {
		if (!stx__private_fetch(c, &digest, &bytes, d))
			fd = stx__sealed("stax-artifact", bytes.at, bytes.n, d);
	} else {
		if (!fetch_remote(c, a, &digest, &r, d))
			fd = stx__sealed("stax-artifact", r.body.at, r.body.n, d);
		stx__received_free(&r);
	}
	return fd;
}

int stax_load(struct stax_client *c, const struct stax_answer *a, struct stax_artifact **out,
	      struct stax_error *err)
{
	struct stx_diag d;
	char target[STX_TARGET_BYTES];
	uint32_t need;
	stx__diag_init(&d);
	*out = NULL;
	/* Before anything is downloaded: code for a better host than this one is refused by name.
	 */
	stx_err e = a->target[0] ? stx__cpu_resolve(a->target, target, &need, &d) : STX_E_OK;
	if (!e && a->target[0])
		e = stx__cpu_check(need, &d);
	if (!e) {
		int fd = answer_fd(c, a, &d);
		e = fd < 0 ? d.code : load_fd(fd, a, out, &d);
	}
	if (!e)
		stx__tune_take(c, *out, a);
	return stx__give_error(e, &d, err);
}

int stax_fetch(struct stax_client *c, const struct stax_answer *a, void **bytes, size_t *n,
	       struct stax_error *err)
{
	struct stx_diag d;
	struct stx_span map = { NULL, 0 };
	stx__diag_init(&d);
	*bytes = NULL;
	int fd = answer_fd(c, a, &d);
	stx_err e = fd < 0 ? d.code : stx__map_fd(fd, ARTIFACT_MAX, &map, &d);
	if (!e && !(*bytes = malloc(map.n ? map.n : 1)))
		e = stx_fail(&d, STX_E_NOMEM, "load", "", "out of memory");
	if (!e) {
		if (map.n)
			memcpy(*bytes, map.at, map.n);
		*n = map.n;
	}
	if (map.n)
		munmap((void *)(uintptr_t)map.at, map.n);
	if (fd >= 0)
		close(fd);
	return stx__give_error(e, &d, err);
}

/* ---- questions ---- */

void stax_artifact_free(struct stax_artifact *a)
{
	if (!a)
		return;
	for (int i = 0; i < STX__SPARES; i++)
		stx__context_free(a, atomic_exchange(&a->spare[i], NULL));
	stx__tuner_free(a->tuner);
	stx__tuner_free(a->tuned);
	if (a->dl)
		dlclose(a->dl);
	if (a->fd >= 0)
		close(a->fd);
	stx__gpu_code_free(a);
	unmap(a);
	stax_client_free(a->interpreter);
	pthread_mutex_destroy(&a->interpreter_lock);
	free(a->plan_bytes);
	stx_arena_free(a->arena);
	free(a);
}

int stax_ninputs(const struct stax_artifact *a)
{
	return (int)a->plan.h->ninputs;
}

int stax_noutputs(const struct stax_artifact *a)
{
	return (int)a->plan.h->noutputs;
}

/* At the size hints, straight from the plan, so that it does not depend on earlier runs. */
static int describe(const struct stax_artifact *a, uint32_t value, struct stx_tensor *out)
{
	const struct stx_plan *p = &a->plan;
	const struct stx_plan_value *v = &p->values[value];
	struct stx_arena *m = stx_arena_new(0);
	int64_t *syms = m ? STX_NEW_ARRAY(m, int64_t, p->h->nsyms) : NULL;
	int ok = 1;
	if (!syms) {
		stx_arena_free(m);
		return STX_E_NOMEM;
	}
	for (uint32_t i = 0; i < p->h->nsyms; i++)
		syms[i] = p->syms[i].hint;
	*out = (struct stx_tensor){ .dtype = v->dtype,
				    .rank = v->rank,
				    .flags = (uint16_t)v->flags };
	for (int i = 0; i < v->rank; i++) {
		out->sizes[i] = stx_plan_eval(p, stx_plan_u32s(p, v->sizes)[i], syms, &ok);
		out->strides[i] = stx_plan_eval(p, stx_plan_u32s(p, v->strides)[i], syms, &ok);
	}
	if (v->kind == STX_VALUE_ALIAS)
		out->offset = stx_plan_eval(p, v->offset_expr, syms, &ok);
	stx_arena_free(m);
	return ok ? STX_E_OK : STX_E_CORRUPT;
}

int stax_input(const struct stax_artifact *a, int i, struct stx_tensor *out, const char **name)
{
	if (i < 0 || i >= stax_ninputs(a))
		return STX_E_USAGE;
	if (name)
		*name = a->input_names[i];
	return out ? describe(a, a->input_value[i], out) : 0;
}

int stax_output(const struct stax_artifact *a, int i, struct stx_tensor *out, const char **name)
{
	if (i < 0 || i >= stax_noutputs(a))
		return STX_E_USAGE;
	if (name)
		*name = a->output_names[i];
	return out ? describe(a, a->output_value[i], out) : 0;
}
