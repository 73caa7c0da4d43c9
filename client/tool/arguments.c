/* arguments.c: from named values to the arguments of a run. */
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "tool.h"

/* The value of one input: a copy of its own, since plans may write inputs. */
static stx_err fill(const struct stx_tool_graph *g, const struct stx_tool_values *values,
		    int random, uint64_t seed, const char *name, const struct stx_tensor *want,
		    struct stx_host *h, struct stx_diag *d)
{
	const struct stx_host *given = stx_tool_values_find(values, name);
	const struct stx_model_tensor *init = NULL;
	if (given)
		return stx_host_copy(h, &given->t, d);
	if (g && g->format == STAX_ONNX)
		init = stx_model_find(&g->model, name);
	if (init)
		return stx_onnx_tensor(init->proto, g->model.dir, h, d);
	if (!random)
		return stx_fail(d, STX_E_NOT_FOUND, "run", name, "no value for input '%s'", name);
	struct stx_diag why = { 0 };
	stx_err e = stx_host_new(h, want->dtype, want->rank, want->sizes, &why);
	if (e)
		return stx_fail(d, e, "run", name, "input '%.80s': %.300s", name, why.text);
	char shape[256];
	stx_host_shape(&h->t, shape, sizeof shape);
	fputs("stax: input ", stderr);
	stx_tool_put_text(stderr, name);
	fprintf(stderr, ": %s%s, random, seed %llu\n", stx_dtype_name(want->dtype), shape,
		(unsigned long long)seed);
	stx_host_random(h, stx_mix_text(seed, name, strlen(name)));
	return STX_E_OK;
}

/* The plan may want other strides than the dense ones of a file: then the data is laid out again.
 */
static stx_err lay_out(struct stx_host *h, const struct stx_tensor *want, struct stx_tensor *t,
		       struct stx_diag *d)
{
	int same = h->t.rank == want->rank;
	for (int i = 0; same && i < want->rank; i++)
		same = h->t.sizes[i] == want->sizes[i];
	*t = h->t;
	if (!same || !memcmp(h->t.strides, want->strides, want->rank * sizeof *want->strides))
		return STX_E_OK; /* other sizes: stax_run says what is wrong, or they are dynamic */
	int bytes = stx_dtype_bytes(h->t.dtype);
	int64_t lo = 0, hi = 0, at[STX_MAX_RANK] = { 0 };
	for (int i = 0; i < want->rank; i++) {
		int64_t far = (want->sizes[i] - 1) * want->strides[i];
		if (want->sizes[i] == 0)
			return STX_E_OK;
		lo += far < 0 ? far : 0;
		hi += far > 0 ? far : 0;
	}
	if (hi - lo >= (int64_t)(STX_HOST_BYTES_MAX / 8))
		return stx_fail(d, STX_E_TOO_LARGE, "run", "",
				"an input's strides span too much memory");
	char *data = calloc((size_t)(hi - lo + 1), (size_t)bytes);
	if (!data)
		return stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	int64_t n = stx_host_elems(want->sizes, want->rank), off = -lo;
	for (int64_t k = 0; k < n; k++) {
		memcpy(data + off * bytes, (char *)h->t.data + k * bytes, (size_t)bytes);
		for (int i = want->rank - 1; i >= 0; i--) {
			off += want->strides[i];
			if (++at[i] < want->sizes[i])
				break;
			off -= want->strides[i] * want->sizes[i];
			at[i] = 0;
		}
	}
	free(h->t.data);
	h->t.data = data;
	t->data = data;
	t->offset = -lo;
	memcpy(t->strides, want->strides, sizeof t->strides);
	return STX_E_OK;
}

static stx_err make_outputs(const struct stax_artifact *a, struct stx_tool_arguments *args,
			    struct stx_diag *d)
{
	struct stax_error err;
	int e = stax_query(a, args->in_t, args->nin, args->out_t, NULL, &err);
	if (e) {
		stx_tool_diag(d, &err);
		return e;
	}
	for (int i = 0; i < args->nout; i++) {
		const struct stx_tensor *t = &args->out_t[i];
		struct stx_diag why = { 0 };
		if ((e = stx_host_new(&args->out[i], t->dtype, t->rank, t->sizes, &why)))
			return stx_fail(d, e, "run", "", "output %d: %.300s", i, why.text);
		memset(args->out[i].t.data, 0xaa,
		       args->out[i].bytes); /* what is not written shows */
		args->out_t[i] = args->out[i].t;
	}
	return STX_E_OK;
}

stx_err stx_tool_bind(const struct stax_artifact *a, const struct stx_tool_graph *g,
		      const struct stx_tool_values *values, int random, uint64_t seed,
		      struct stx_tool_arguments *args, struct stx_diag *d)
{
	memset(args, 0, sizeof *args);
	args->nin = stax_ninputs(a);
	args->nout = stax_noutputs(a);
	args->in = calloc((size_t)args->nin + 1, sizeof *args->in);
	args->out = calloc((size_t)args->nout + 1, sizeof *args->out);
	args->in_t = calloc((size_t)args->nin + 1, sizeof *args->in_t);
	args->out_t = calloc((size_t)args->nout + 1, sizeof *args->out_t);
	stx_err e = args->in && args->out && args->in_t && args->out_t
			    ? STX_E_OK
			    : stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	for (int i = 0; !e && i < args->nin; i++) {
		struct stx_tensor want;
		const char *name;
		if ((e = stax_input(a, i, &want, &name)))
			stx_fail(d, e, "run", "", "the artifact's plan cannot be read");
		else if (!(e = fill(g, values, random, seed, name, &want, &args->in[i], d)))
			e = lay_out(&args->in[i], &want, &args->in_t[i], d);
	}
	if (!e)
		e = make_outputs(a, args, d);
	if (e)
		stx_tool_arguments_free(args);
	return e;
}

/* ---- device memory of CUDA artifacts ---- */

/* Bytes from the lowest to the highest element; data begins at the lowest. */
static size_t span(const struct stx_tensor *t)
{
	int64_t n = 1;
	for (int i = 0; i < t->rank; i++) {
		if (t->sizes[i] == 0)
			return 0;
		n += (t->sizes[i] - 1) * (t->strides[i] < 0 ? -t->strides[i] : t->strides[i]);
	}
	return (size_t)n * (size_t)stx_dtype_bytes(t->dtype);
}

static stx_err upload(const struct stx_tensor *host, struct stx_tensor *device, struct stx_diag *d)
{
	struct stax_error err;
	size_t n = span(host);
	*device = *host;
	int e = stax_cuda_alloc(n, &device->data, &err);
	if (!e)
		e = stax_cuda_copy(device->data, host->data, n, &err);
	if (e)
		stx_tool_diag(d, &err);
	return e;
}

/* Once: every tensor's copy on the device. */
static stx_err mirror(struct stx_tool_arguments *args, struct stx_diag *d)
{
	stx_err e = STX_E_OK;
	if (args->in_d)
		return STX_E_OK;
	args->in_d = calloc((size_t)args->nin + 1, sizeof *args->in_d);
	args->out_d = calloc((size_t)args->nout + 1, sizeof *args->out_d);
	if (!args->in_d || !args->out_d)
		return stx_fail(d, STX_E_NOMEM, "run", "", "out of memory");
	for (int i = 0; i < args->nin && !e; i++)
		e = upload(&args->in_t[i], &args->in_d[i], d);
	for (int i = 0; i < args->nout && !e; i++)
		e = upload(&args->out_t[i], &args->out_d[i], d);
	return e;
}

static stx_err download(struct stx_tool_arguments *args, struct stx_diag *d)
{
	struct stax_error err;
	for (int i = 0; i < args->nout; i++) {
		int e = stax_cuda_copy(args->out_t[i].data, args->out_d[i].data,
				       span(&args->out_t[i]), &err);
		if (e) {
			stx_tool_diag(d, &err);
			return e;
		}
	}
	return STX_E_OK;
}

stx_err stx_tool_prepare(struct stax_artifact *a, struct stx_tool_arguments *args, FILE *out,
			 struct stx_diag *d)
{
	struct stax_error err;
	uint64_t start = stx_clock_ns();
	int e = stax_prepare(a, args->in_t, args->nin, NULL, &args->prepared, &err);
	if (e) {
		stx_tool_diag(d, &err);
		return e;
	}
	size_t bytes = stax_prepared_bytes(args->prepared);
	if (bytes)
		fprintf(out, "prepared: weights packed into %.1f MB, in %.3f ms\n",
			(double)bytes * 1e-6, (double)(stx_clock_ns() - start) * 1e-6);
	return STX_E_OK;
}

stx_err stx_tool_launch(struct stax_artifact *a, struct stx_tool_arguments *args,
			struct stx_diag *d)
{
	struct stax_error err;
	int gpu = stax_is_cuda(a), e = gpu ? mirror(args, d) : 0;
	if (e)
		return e;
	e = stax_run_prepared(a, args->prepared, gpu ? args->in_d : args->in_t, args->nin,
			      gpu ? args->out_d : args->out_t, args->nout, NULL, &err);
	if (!e)
		e = stax_sync(a, NULL, &err);
	if (e)
		stx_tool_diag(d, &err);
	return e;
}

stx_err stx_tool_execute(struct stax_artifact *a, struct stx_tool_arguments *args,
			 struct stx_diag *d)
{
	stx_err e = stx_tool_launch(a, args, d);
	return e || !stax_is_cuda(a) ? e : download(args, d);
}

void stx_tool_arguments_free(struct stx_tool_arguments *args)
{
	for (int i = 0; args->in && i < args->nin; i++)
		stx_host_free(&args->in[i]);
	for (int i = 0; args->out && i < args->nout; i++)
		stx_host_free(&args->out[i]);
	for (int i = 0; args->in_d && i < args->nin; i++)
		stax_cuda_free(args->in_d[i].data);
	for (int i = 0; args->out_d && i < args->nout; i++)
		stax_cuda_free(args->out_d[i].data);
	stax_prepared_free(args->prepared);
	free(args->in_d);
	free(args->out_d);
	free(args->in);
	free(args->out);
	free(args->in_t);
	free(args->out_t);
	memset(args, 0, sizeof *args);
}
