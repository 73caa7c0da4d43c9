/* cudnn.c: the part of cuDNN 9 that libstax uses, by plain loops on the host. It refuses what the
 * library's documentation refuses: an attribute that a descriptor does not have, of another type or
 * count, or set after it is finalised; a descriptor that is taken before it is finalised or is
 * finalised without what it needs; sizes that do not agree; pointers that are not as aligned as was
 * promised; a variant pack that lacks a tensor of the graph. It writes over the workspace that its
 * plans ask for. Numbers are those of the documentation, not libstax' own table. Calls advance the
 * clock of the driver that stands in beside it; with $FAKE_CUDA_LOG they add a line there and compute
 * nothing, as kernels do. */
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "cudnn_desc.h"
#include "fake_time.h"
#include "scalar.h"

#define API __attribute__((visibility("default")))

static struct fake_cudnn fake = {
	.offered = 3, .no_plan = -1, .wrong = -1, .version = 91900, .workspace_bytes = 4096
};

API struct fake_cudnn *fake_cudnn(void);
struct fake_cudnn *fake_cudnn(void)
{
	return &fake;
}

/* What may be set: of which descriptor, type, how many; needed: to finalise it. */
static const struct {
	int of, name, type, least, most, needed;
} known[] = {
	{ D_POINTWISE, 0, POINTWISE_MODE, 1, 1, 1 },
	{ D_POINTWISE, 1, DATA_TYPE, 1, 1, 1 },
	{ D_POINTWISE, 9, INT64, 1, 1, 0 },
	{ D_CONVOLUTION, 100, DATA_TYPE, 1, 1, 1 },
	{ D_CONVOLUTION, 101, CONV_MODE, 1, 1, 1 },
	{ D_CONVOLUTION, 102, INT64, 2, 3, 1 },
	{ D_CONVOLUTION, 103, INT64, 2, 3, 1 },
	{ D_CONVOLUTION, 104, INT64, 2, 3, 1 },
	{ D_CONVOLUTION, 105, INT64, 2, 3, 1 },
	{ D_CONVOLUTION, 106, INT64, 1, 1, 1 },
	{ D_HEURISTIC, 200, HEUR_MODE, 1, 1, 1 },
	{ D_HEURISTIC, 201, DESCRIPTOR, 1, 1, 1 },
	{ D_PLAN, 400, HANDLE, 1, 1, 1 },
	{ D_PLAN, 401, DESCRIPTOR, 1, 1, 1 },
	{ D_FORWARD, 700, FLOAT, 1, 1, 1 },
	{ D_FORWARD, 701, FLOAT, 1, 1, 1 },
	{ D_FORWARD, 702, DESCRIPTOR, 1, 1, 1 },
	{ D_FORWARD, 703, DESCRIPTOR, 1, 1, 1 },
	{ D_FORWARD, 704, DESCRIPTOR, 1, 1, 1 },
	{ D_FORWARD, 705, DESCRIPTOR, 1, 1, 1 },
	{ D_BWD_DATA, 706, FLOAT, 1, 1, 1 },
	{ D_BWD_DATA, 707, FLOAT, 1, 1, 1 },
	{ D_BWD_DATA, 708, DESCRIPTOR, 1, 1, 1 },
	{ D_BWD_DATA, 709, DESCRIPTOR, 1, 1, 1 },
	{ D_BWD_DATA, 710, DESCRIPTOR, 1, 1, 1 },
	{ D_BWD_DATA, 711, DESCRIPTOR, 1, 1, 1 },
	{ D_POINTWISE_OP, 750, DESCRIPTOR, 1, 1, 1 },
	{ D_POINTWISE_OP, 751, DESCRIPTOR, 1, 1, 1 },
	{ D_POINTWISE_OP, 752, DESCRIPTOR, 1, 1, 0 },
	{ D_POINTWISE_OP, 753, DESCRIPTOR, 1, 1, 1 },
	{ D_POINTWISE_OP, 758, DESCRIPTOR, 1, 1, 0 },
	{ D_GRAPH, 800, HANDLE, 1, 1, 1 },
	{ D_GRAPH, 801, DESCRIPTOR, 1, 16, 1 },
	{ D_TENSOR, 900, INT64, 1, 1, 1 },
	{ D_TENSOR, 901, DATA_TYPE, 1, 1, 1 },
	{ D_TENSOR, 902, INT64, 3, 8, 1 },
	{ D_TENSOR, 903, INT64, 3, 8, 1 },
	{ D_TENSOR, 906, INT64, 1, 1, 1 },
	{ D_TENSOR, 907, BOOLEAN, 1, 1, 0 },
	{ D_TENSOR, 908, BOOLEAN, 1, 1, 0 },
	{ D_PACK, 1000, INT64, 1, 8, 1 },
	{ D_PACK, 1001, POINTER, 1, 8, 1 },
	{ D_PACK, 1003, POINTER, 1, 1, 1 },
	{ D_MATMUL, 1500, DATA_TYPE, 1, 1, 1 },
	{ D_MATMUL_OP, 1520, DESCRIPTOR, 1, 1, 1 },
	{ D_MATMUL_OP, 1521, DESCRIPTOR, 1, 1, 1 },
	{ D_MATMUL_OP, 1522, DESCRIPTOR, 1, 1, 1 },
	{ D_MATMUL_OP, 1523, DESCRIPTOR, 1, 1, 1 },
	{ D_REDUCTION, 1600, REDUCTION, 1, 1, 1 },
	{ D_REDUCTION, 1601, DATA_TYPE, 1, 1, 1 },
	{ D_REDUCTION_OP, 1610, DESCRIPTOR, 1, 1, 1 },
	{ D_REDUCTION_OP, 1611, DESCRIPTOR, 1, 1, 1 },
	{ D_REDUCTION_OP, 1612, DESCRIPTOR, 1, 1, 1 },
};
#define NKNOWN (sizeof known / sizeof *known)

static size_t bytes_of(int type)
{
	switch (type) {
	case BOOLEAN: return 1;
	case HANDLE:
	case INT64:
	case DOUBLE:
	case POINTER:
	case DESCRIPTOR: return 8;
	default: return 4;
	}
}

/* ---- the library ---- */

API size_t cudnnGetVersion(void);
size_t cudnnGetVersion(void)
{
	return fake.version;
}

API const char *cudnnGetErrorString(int status);
const char *cudnnGetErrorString(int status)
{
	return status / 1000 == 3   ? "CUDNN_STATUS_NOT_SUPPORTED"
	       : status / 1000 == 2 ? "CUDNN_STATUS_BAD_PARAM"
				    : "CUDNN_STATUS_EXECUTION_FAILED";
}

API void cudnnGetLastErrorString(char *text, size_t cap);
void cudnnGetLastErrorString(char *text, size_t cap)
{
	static const char said[] = "Warning: CUDNN_STATUS_NOT_SUPPORTED; Reason: the fake's\nmore";
	memcpy(text, said, cap < sizeof said ? cap : sizeof said);
}

struct handle {
	void *stream;
};

API int cudnnCreate(void **handle);
int cudnnCreate(void **handle)
{
	if (fake.refuse_handle)
		return fake.refuse_handle;
	fake.handles++;
	fake.alive++;
	*handle = calloc(1, sizeof(struct handle));
	return OK;
}

API int cudnnDestroy(void *handle);
int cudnnDestroy(void *handle)
{
	fake.alive--;
	free(handle);
	return OK;
}

API int cudnnSetStream(void *handle, void *stream);
int cudnnSetStream(void *handle, void *stream)
{
	((struct handle *)handle)->stream = stream;
	return OK;
}

/* ---- descriptors ---- */

API int cudnnBackendCreateDescriptor(int type, void **out);
int cudnnBackendCreateDescriptor(int type, void **out)
{
	struct desc *d;
	switch (type) {
	case D_POINTWISE:
	case D_CONVOLUTION:
	case D_ENGINE:
	case D_CONFIG:
	case D_HEURISTIC:
	case D_PLAN:
	case D_KNOB:
	case D_FORWARD:
	case D_BWD_DATA:
	case D_POINTWISE_OP:
	case D_GRAPH:
	case D_PACK:
	case D_MATMUL:
	case D_MATMUL_OP:
	case D_REDUCTION:
	case D_REDUCTION_OP:
	case D_TENSOR: break;
	default: return NOT_SUPPORTED;
	}
	d = calloc(1, sizeof *d);
	d->type = type;
	d->engine = -1;
	fake.alive++;
	*out = d;
	return OK;
}

API int cudnnBackendDestroyDescriptor(void *d);
int cudnnBackendDestroyDescriptor(void *d)
{
	if (!d)
		return NULL_POINTER;
	fake.alive--;
	free(d);
	return OK;
}

const struct attribute *fake_get(const struct desc *d, int name)
{
	for (int i = 0; i < d->n; i++)
		if (d->at[i].name == name)
			return &d->at[i];
	return NULL;
}

int64_t fake_i64(const struct desc *d, int name, int i)
{
	const struct attribute *a = fake_get(d, name);
	int64_t v = 0;
	if (a)
		memcpy(&v, a->bytes + 8 * i, 8);
	return v;
}

int fake_i32(const struct desc *d, int name)
{
	const struct attribute *a = fake_get(d, name);
	int v = 0;
	if (a)
		memcpy(&v, a->bytes, a->type == BOOLEAN ? 1 : 4);
	return v;
}

struct desc *fake_child(const struct desc *d, int name, int i)
{
	const struct attribute *a = fake_get(d, name);
	struct desc *v = NULL;
	if (a && i < a->n)
		memcpy(&v, a->bytes + 8 * i, 8);
	return v;
}

/* alpha and beta of a convolution of f64 are f64. */
static int type_fits(const struct desc *d, int row, int type)
{
	int is_scale = (d->type == D_FORWARD && known[row].name <= 701) ||
		       (d->type == D_BWD_DATA && known[row].name <= 707);
	return type == known[row].type || (is_scale && type == DOUBLE);
}

API int cudnnBackendSetAttribute(void *at, int name, int type, int64_t n, const void *values);
int cudnnBackendSetAttribute(void *at, int name, int type, int64_t n, const void *values)
{
	struct desc *d = at;
	if (!d || !values)
		return NULL_POINTER;
	if (d->is_final)
		return BAD_PARAM;
	for (unsigned i = 0; i < NKNOWN; i++) {
		if (known[i].of != d->type || known[i].name != name)
			continue;
		if (!type_fits(d, (int)i, type))
			return ATTRIBUTE_TYPE;
		if (n < known[i].least || n > known[i].most || fake_get(d, name))
			return BAD_PARAM;
		struct attribute *a = &d->at[d->n++];
		a->name = name;
		a->type = type;
		a->n = n;
		memcpy(a->bytes, values, (size_t)n * bytes_of(type));
		for (int64_t k = 0; type == DESCRIPTOR && k < n; k++)
			if (!fake_child(d, name, (int)k) || !fake_child(d, name, (int)k)->is_final)
				return NOT_FINALIZED;
		return OK;
	}
	return NOT_SUPPORTED;
}

/* ---- what graphs mean ---- */

int fake_dtype(int type)
{
	switch (type) {
	case 0: return STX_F32;
	case 1: return STX_F64;
	case 2: return STX_F16;
	case 4: return STX_I32;
	case 9: return STX_BF16;
	case 11: return STX_BOOL;
	default: return -1;
	}
}

struct fake_tensor fake_tensor_of(const struct desc *d)
{
	struct fake_tensor t = { .type = fake_i32(d, 901),
				 .rank = (int)fake_get(d, 902)->n,
				 .alignment = fake_i64(d, 900, 0),
				 .id = fake_i64(d, 906, 0),
				 .is_virtual = fake_i32(d, 907),
				 .is_value = fake_i32(d, 908) };
	memcpy(t.size, fake_get(d, 902)->bytes, sizeof t.size);
	memcpy(t.stride, fake_get(d, 903)->bytes, sizeof t.stride);
	return t;
}

static int check_tensor(const struct desc *d)
{
	struct fake_tensor t = fake_tensor_of(d);
	if (fake_get(d, 902)->n != fake_get(d, 903)->n || fake_dtype(t.type) < 0 ||
	    t.alignment < 1 || t.alignment & (t.alignment - 1) ||
	    t.alignment % stx_dtype_bytes((enum stx_dtype)fake_dtype(t.type)))
		return BAD_PARAM;
	for (int i = 0; i < t.rank; i++)
		if (t.size[i] < 1 || t.stride[i] < 1)
			return BAD_PARAM;
	return OK;
}

static int check_convolution(const struct desc *d)
{
	int64_t k = fake_i64(d, 106, 0);
	int computes = fake_i32(d, 100);
	if (computes != 0 && computes != 1)
		return NOT_SUPPORTED;
	for (int name = 102; name <= 105; name++) {
		if (fake_get(d, name)->n != k)
			return BAD_PARAM;
		for (int i = 0; i < k; i++)
			if (fake_i64(d, name, i) < (name <= 103))
				return BAD_PARAM;
	}
	return fake_i32(d, 101) == 1 ? OK : NOT_SUPPORTED;
}

/* The forward convolution: x and y are those of the input and the output. */
static struct fake_convolution operation_of(const struct desc *d)
{
	int b = d->type == D_BWD_DATA;
	const struct desc *c = fake_child(d, b ? 708 : 702, 0);
	struct fake_convolution f = { .is_gradient = b,
				      .accumulate = fake_i32(c, 100),
				      .k = (int)fake_i64(c, 106, 0),
				      .x = fake_tensor_of(fake_child(d, b ? 711 : 704, 0)),
				      .w = fake_tensor_of(fake_child(d, b ? 709 : 703, 0)),
				      .y = fake_tensor_of(fake_child(d, b ? 710 : 705, 0)) };
	for (int i = 0; i < f.k; i++) {
		f.dilation[i] = fake_i64(c, 102, i);
		f.stride[i] = fake_i64(c, 103, i);
		f.after[i] = fake_i64(c, 104, i);
		f.before[i] = fake_i64(c, 105, i);
	}
	return f;
}

static int check_operation(const struct desc *d)
{
	static const int of[2][4] = { { 704, 703, 705, 702 }, { 711, 709, 710, 708 } };
	int b = d->type == D_BWD_DATA;
	for (int i = 0; i < 4; i++)
		if (fake_child(d, of[b][i], 0)->type != (i < 3 ? D_TENSOR : D_CONVOLUTION))
			return BAD_PARAM;
	struct fake_convolution f = operation_of(d);
	const struct fake_tensor *in = b ? &f.y : &f.x, *out = b ? &f.x : &f.y;
	int64_t groups = in->size[1] / (f.w.size[1] ? f.w.size[1] : 1);
	if (f.x.rank != 2 + f.k || f.w.rank != 2 + f.k || f.y.rank != 2 + f.k || groups < 1 ||
	    in->size[1] != groups * f.w.size[1] || f.w.size[0] % groups ||
	    out->size[1] != f.w.size[0] || in->size[0] != out->size[0] || f.x.type != f.w.type ||
	    f.x.is_virtual || f.w.is_virtual)
		return BAD_PARAM;
	int is_f64 = f.x.type == 1;
	if ((f.accumulate == 1) != is_f64 ||
	    fake_get(d, b ? 706 : 700)->type != (is_f64 ? DOUBLE : FLOAT))
		return NOT_SUPPORTED;
	if (f.y.is_virtual ? f.y.type != f.accumulate : f.y.type != f.x.type)
		return NOT_SUPPORTED; /* halves are not summed into an f32 in memory */
	for (int i = 0; i < f.k; i++) {
		int64_t room = in->size[2 + i] + f.before[i] + f.after[i] -
			       f.dilation[i] * (f.w.size[2 + i] - 1) - 1;
		if (room < 0 || room / f.stride[i] + 1 != out->size[2 + i])
			return BAD_PARAM;
	}
	return OK;
}

static int check_addition(const struct desc *d)
{
	const struct desc *p = fake_child(d, 750, 0);
	if (fake_i32(p, 0) != 0 || fake_i32(p, 1) != 0 || !fake_child(d, 752, 0))
		return NOT_SUPPORTED;
	struct fake_tensor x = fake_tensor_of(fake_child(d, 751, 0)),
			   b = fake_tensor_of(fake_child(d, 752, 0)),
			   y = fake_tensor_of(fake_child(d, 753, 0));
	if (!x.is_virtual || b.is_virtual || y.is_virtual || x.rank != b.rank || x.rank != y.rank ||
	    b.type != y.type)
		return NOT_SUPPORTED;
	for (int i = 0; i < x.rank; i++)
		if (x.size[i] != y.size[i] || b.size[i] != (i == 1 ? x.size[i] : 1))
			return BAD_PARAM;
	return OK;
}

static int check_graph(const struct desc *d)
{
	const struct desc *op = fake_child(d, 801, 0), *add = fake_child(d, 801, 1);
	int64_t n = fake_get(d, 801)->n;
	if (fake_is_attention(d))
		return fake_check_attention(d);
	if (!fake_child(d, 800, 0) || n > 2 || (op->type != D_FORWARD && op->type != D_BWD_DATA))
		return NOT_SUPPORTED;
	struct fake_convolution f = operation_of(op);
	if (n == 1)
		return f.y.is_virtual ? BAD_PARAM : OK;
	if (add->type != D_POINTWISE_OP || check_addition(add) ||
	    (f.is_gradient && f.x.type == 0)) /* no engine adds to f32's */
		return NOT_SUPPORTED;
	const struct desc *sum = fake_child(op, f.is_gradient ? 710 : 705, 0);
	return fake_child(add, 751, 0) == sum && f.y.is_virtual ? OK : BAD_PARAM;
}

static int check_pack(const struct desc *d)
{
	return fake_get(d, 1000)->n == fake_get(d, 1001)->n ? OK : BAD_PARAM;
}

static int check_plan(struct desc *d)
{
	const struct desc *c = fake_child(d, 401, 0);
	if (!fake_child(d, 400, 0) || c->type != D_CONFIG)
		return BAD_PARAM;
	d->engine = c->engine;
	fake.plans++;
	return d->engine == fake.no_plan ? NOT_SUPPORTED : OK;
}

API int cudnnBackendFinalize(void *at);
int cudnnBackendFinalize(void *at)
{
	struct desc *d = at;
	int e = OK;
	if (!d || d->is_final)
		return BAD_PARAM;
	for (unsigned i = 0; i < NKNOWN; i++)
		if (known[i].of == d->type && known[i].needed && !fake_get(d, known[i].name))
			return BAD_PARAM;
	switch (d->type) {
	case D_TENSOR: e = check_tensor(d); break;
	case D_CONVOLUTION: e = check_convolution(d); break;
	case D_FORWARD:
	case D_BWD_DATA: e = check_operation(d); break;
	case D_POINTWISE_OP: e = fake_check_pointwise(d); break;
	case D_MATMUL_OP: e = fake_check_matmul(d); break;
	case D_REDUCTION_OP: e = fake_check_reduction(d); break;
	case D_GRAPH: e = check_graph(d); break;
	case D_PACK: e = check_pack(d); break;
	case D_PLAN: e = check_plan(d); break;
	case D_HEURISTIC: e = fake_child(d, 201, 0)->type == D_GRAPH ? OK : BAD_PARAM; break;
	case D_ENGINE:
	case D_CONFIG:
	case D_KNOB: e = NOT_SUPPORTED; break; /* libstax makes none */
	default: break;
	}
	d->is_final = !e;
	return e;
}

/* ---- what descriptors say ---- */

/* The configuration keeps its graph as the plan must find it. */
static void fill_config(struct desc *c, const struct desc *graph, int engine)
{
	c->engine = engine;
	c->is_final = 1;
	c->at[0] = (struct attribute){ .name = 201, .type = DESCRIPTOR, .n = 1 };
	memcpy(c->at[0].bytes, &graph, sizeof graph);
	c->n = 1;
}

static int64_t list_engines(const struct desc *d, int64_t most, void **out)
{
	const struct desc *graph = fake_child(d, 201, 0);
	int has_bias = fake_get(graph, 801)->n == 2, is_a = fake_i32(d, 200) == 3;
	int64_t n = 0;
	fake.heuristics++;
	if (has_bias && fake.no_bias)
		return 0;
	for (int i = 0; is_a && !fake.only_fallback && i < fake.offered && n < most; i++)
		fill_config(out[n++], graph, (i + fake.first) % fake.offered);
	if (!is_a && fake.only_fallback && most)
		fill_config(out[n++], graph, 40);
	return n;
}

API int cudnnBackendGetAttribute(void *at, int name, int type, int64_t most, int64_t *n,
				 void *values);
int cudnnBackendGetAttribute(void *at, int name, int type, int64_t most, int64_t *n, void *values)
{
	struct desc *d = at;
	if (!d || !d->is_final || !n || !values)
		return BAD_PARAM;
	*n = 1;
	if (d->type == D_HEURISTIC && name == 202 && type == DESCRIPTOR) {
		*n = list_engines(d, most, values);
	} else if (d->type == D_CONFIG && name == 300 && type == DESCRIPTOR && most == 1) {
		(*(struct desc **)values)->engine = d->engine;
		(*(struct desc **)values)->is_final = 1;
	} else if (d->type == D_CONFIG && name == 302 && type == DESCRIPTOR && most >= 1) {
		(*(struct desc **)values)->engine = d->engine;
		(*(struct desc **)values)->is_final = 1;
	} else if (d->type == D_KNOB && name == 600 && type == KNOB_TYPE) {
		*(int *)values = 2; /* TILE_SIZE */
	} else if (d->type == D_KNOB && name == 601 && type == INT64) {
		*(int64_t *)values = d->engine + 1;
	} else if (d->type == D_ENGINE && name == 1301 && type == INT64) {
		*(int64_t *)values = d->engine;
	} else if (d->type == D_ENGINE && name == 1303 && type == NOTE) {
		*n = 0;
		for (int i = 0; i < 10 && *n < most; i++)
			if (fake.notes[d->engine] >> i & 1)
				((int *)values)[(*n)++] = i;
	} else if (d->type == D_PLAN && name == 402 && type == INT64) {
		*(int64_t *)values = fake.workspace_bytes;
	} else {
		return NOT_SUPPORTED;
	}
	return OK;
}

/* ---- a call ---- */

char *fake_element(const struct fake_tensor *t, const int64_t *at)
{
	int64_t i = 0;
	for (int d = 0; d < t->rank; d++)
		i += at[d] * t->stride[d];
	return t->at + i * stx_dtype_bytes((enum stx_dtype)fake_dtype(t->type));
}

static double value(const struct fake_tensor *t, const int64_t *at)
{
	return stx_scalar_load((enum stx_dtype)fake_dtype(t->type), fake_element(t, at)).f;
}

int fake_next(int64_t *at, const int64_t *size, int n)
{
	for (int d = n; d-- > 0; at[d] = 0)
		if (++at[d] < size[d])
			return 1;
	return 0;
}

/* Where output o and tap t meet the input along dimension i; 0: nowhere. Of a gradient o is where
 * the result is and the position that of the gradient of the output. */
static int meet(const struct fake_convolution *f, int i, int64_t o, int64_t t, int64_t *at)
{
	if (!f->is_gradient) {
		*at = o * f->stride[i] - f->before[i] + t * f->dilation[i];
	} else {
		*at = o + f->before[i] - t * f->dilation[i];
		if (*at % f->stride[i])
			return 0;
		*at /= f->stride[i];
	}
	return *at >= 0 && *at < f->x.size[2 + i];
}

static double sum_at(const struct fake_convolution *f, const int64_t *y)
{
	/* W is [groups*m, c, taps]; of a gradient x has its first dimension and y its second. */
	int64_t groups = (f->is_gradient ? f->y.size[1] : f->x.size[1]) / f->w.size[1];
	int64_t mine = f->y.size[1] / groups, theirs = f->x.size[1] / groups;
	int64_t group = y[1] / mine, size[8], tap[8] = { 0 }, x[8], w[8];
	double sum = 0;
	size[0] = theirs;
	memcpy(size + 1, f->w.size + 2, (size_t)f->k * sizeof *size);
	do {
		int is_there = 1;
		x[0] = y[0];
		x[1] = group * theirs + tap[0];
		w[0] = f->is_gradient ? x[1] : y[1];
		w[1] = f->is_gradient ? y[1] % mine : tap[0];
		for (int i = 0; i < f->k && is_there; i++) {
			w[2 + i] = tap[1 + i];
			is_there = meet(f, i, y[2 + i], tap[1 + i], &x[2 + i]);
		}
		if (is_there)
			sum += value(&f->x, x) * value(&f->w, w);
	} while (fake_next(tap, size, 1 + f->k));
	return sum;
}

static void convolve(const struct fake_convolution *f)
{
	enum stx_dtype t = (enum stx_dtype)fake_dtype(f->y.type);
	int64_t at[8] = { 0 };
	do {
		double sum = sum_at(f, at);
		int64_t row[8] = { 0, at[1] };
		if (f->bias.rank)
			sum += value(&f->bias, row);
		union stx_scalar k = { .f = stx_scalar_round(t, sum) };
		stx_scalar_store(t, fake_element(&f->y, at), k);
	} while (fake_next(at, f->y.size, f->y.rank));
}

int fake_point(const struct desc *pack, struct fake_tensor *t)
{
	for (int i = 0; i < fake_get(pack, 1000)->n; i++)
		if (fake_i64(pack, 1000, i) == t->id)
			t->at = (char *)fake_child(pack, 1001, i);
	return !t->at                                                       ? BAD_PARAM
	       : !t->is_value && (uintptr_t)t->at % (uintptr_t)t->alignment ? MISALIGNED
									    : OK;
}

static int attend(const struct desc *plan, const struct desc *graph, const struct desc *pack,
		  void *handle)
{
	struct fake_attention *a = &fake.attention;
	memset(a, 0, sizeof *a);
	a->engine = plan->engine;
	a->stream = ((struct handle *)handle)->stream;
	a->workspace = fake_child(pack, 1003, 0);
	if ((uintptr_t)a->workspace % 256)
		return BAD_PARAM;
	if (fake_pass_time("attention engine", plan->engine, fake.ns[plan->engine % 64]))
		return OK;
	memset(a->workspace, 0xEE, (size_t)fake.workspace_bytes);
	int e = fake_attend(graph, pack, a);
	if (!e && plan->engine == fake.wrong)
		a->y.at[1] ^= 0x7F;
	return e;
}

API int cudnnBackendExecute(void *handle, void *plan, void *pack);
int cudnnBackendExecute(void *handle, void *plan, void *pack)
{
	const struct desc *p = plan, *v = pack;
	struct fake_convolution *f = &fake.call[fake.calls++ % FAKE_MAX_CALLS];
	if (fake.refuse)
		return fake.refuse;
	if (!handle || !p || !v || p->type != D_PLAN || v->type != D_PACK || !p->is_final ||
	    !v->is_final || (void *)fake_child(p, 400, 0) != handle)
		return BAD_PARAM;
	const struct desc *graph = fake_child(fake_child(p, 401, 0), 201, 0);
	if (fake_is_attention(graph))
		return attend(p, graph, v, handle);
	const struct desc *add = fake_child(graph, 801, 1);
	*f = operation_of(fake_child(graph, 801, 0));
	f->engine = p->engine;
	f->handle = handle;
	f->stream = ((struct handle *)handle)->stream;
	f->workspace = fake_child(v, 1003, 0);
	if (add) {
		f->y = fake_tensor_of(fake_child(add, 753, 0));
		f->bias = fake_tensor_of(fake_child(add, 752, 0));
	}
	int e = fake_point(v, &f->x);
	e = e ? e : fake_point(v, &f->w);
	e = e ? e : fake_point(v, &f->y);
	e = e || !add ? e : fake_point(v, &f->bias);
	if (e || fake_get(v, 1000)->n != (add ? 4 : 3) || (uintptr_t)f->workspace % 256)
		return e ? e : BAD_PARAM;
	if (fake_pass_time("convolution engine", p->engine, fake.ns[p->engine % 64]))
		return OK;
	memset(f->workspace, 0xEE, (size_t)fake.workspace_bytes);
	convolve(f);
	if (p->engine == fake.wrong)
		f->y.at[stx_dtype_bytes((enum stx_dtype)fake_dtype(f->y.type)) - 1] ^= 0x7F;
	return OK;
}
