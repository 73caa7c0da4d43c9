/* evaluate.c: the oracle's driver: binds inputs, evaluates nodes in order, frees values after their
 * last use.
 *
 * requires: a verified graph. Each operator runs by itself (table below); nothing is fused, folded
 * or shared with lowering. */
#include "ref_internal.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_BUDGET ((size_t)4 << 30)

static stx__ref_fn *const table[STX_OP_COUNT] = {
	[STX_OP_ASSERT] = stx__ref_assert,
	[STX_OP_TO_COPY] = stx__ref_copy,
	[STX_OP_CLONE] = stx__ref_copy,
	[STX_OP_VIEW_DTYPE] = stx__ref_view_dtype,
	[STX_OP_FULL] = stx__ref_full,
	[STX_OP_FULL_LIKE] = stx__ref_full,
	[STX_OP_ARANGE] = stx__ref_arange,
	[STX_OP_SUM] = stx__ref_reduce,
	[STX_OP_SUM_DIM] = stx__ref_reduce,
	[STX_OP_MEAN_DIM] = stx__ref_reduce,
	[STX_OP_PROD_DIM] = stx__ref_reduce,
	[STX_OP_AMAX] = stx__ref_reduce,
	[STX_OP_AMIN] = stx__ref_reduce,
	[STX_OP_ANY_DIM] = stx__ref_reduce,
	[STX_OP_ALL_DIM] = stx__ref_reduce,
	[STX_OP_ARGMAX] = stx__ref_argreduce,
	[STX_OP_ARGMIN] = stx__ref_argreduce,
	[STX_OP_MEAN] = stx__ref_reduce,
	[STX_OP_ANY] = stx__ref_reduce,
	[STX_OP_ALL] = stx__ref_reduce,
	[STX_OP_VAR] = stx__ref_var,
	[STX_OP_VAR_DIM] = stx__ref_var,
	[STX_OP_STD] = stx__ref_var,
	[STX_OP_STD_DIM] = stx__ref_var,
	[STX_OP_VAR_MEAN] = stx__ref_var,
	[STX_OP_ONLINE_SOFTMAX] = stx__ref_online_softmax,
	[STX_OP_MAX_DIM] = stx__ref_extreme_pair,
	[STX_OP_MIN_DIM] = stx__ref_extreme_pair,
	[STX_OP_PROD] = stx__ref_reduce,
	[STX_OP_ANY_ONE] = stx__ref_reduce,
	[STX_OP_ALL_ONE] = stx__ref_reduce,
	[STX_OP_LOGSUMEXP] = stx__ref_logsumexp,
	[STX_OP_VIEW] = stx__ref_view,
	[STX_OP_PERMUTE] = stx__ref_permute,
	[STX_OP_T] = stx__ref_transpose,
	[STX_OP_TRANSPOSE] = stx__ref_transpose,
	[STX_OP_EXPAND] = stx__ref_expand,
	[STX_OP_SQUEEZE] = stx__ref_squeeze,
	[STX_OP_UNSQUEEZE] = stx__ref_unsqueeze,
	[STX_OP_SLICE] = stx__ref_slice,
	[STX_OP_SELECT] = stx__ref_select,
	[STX_OP_FLIP] = stx__ref_flip,
	[STX_OP_DIAGONAL] = stx__ref_diagonal,
	[STX_OP_RESHAPE] = stx__ref_view,
	[STX_OP_FLATTEN] = stx__ref_view,
	[STX_OP_SQUEEZE_DIM] = stx__ref_view,
	[STX_OP_SQUEEZE_ALL] = stx__ref_view,
	[STX_OP_GATHER] = stx__ref_gather,
	[STX_OP_INDEX_SELECT] = stx__ref_index_select,
	[STX_OP_EMBEDDING] = stx__ref_embedding,
	[STX_OP_INDEX] = stx__ref_index,
	[STX_OP_CAT] = stx__ref_cat,
	[STX_OP_PAD] = stx__ref_pad,
	[STX_OP_STACK] = stx__ref_stack,
	[STX_OP_REPEAT] = stx__ref_repeat,
	[STX_OP_TRIL] = stx__ref_triangle,
	[STX_OP_TRIU] = stx__ref_triangle,
	[STX_OP_MM] = stx__ref_matmul,
	[STX_OP_BMM] = stx__ref_matmul,
	[STX_OP_MATMUL] = stx__ref_matmul,
	[STX_OP_ADDMM] = stx__ref_addmm,
	[STX_OP_LINEAR] = stx__ref_linear,
	[STX_OP_SDPA] = stx__ref_sdpa,
	[STX_OP_ATTEND] = stx__ref_attend,
	[STX_OP_SAFE_SOFTMAX] = stx__ref_softmax,
	[STX_OP_CUMSUM] = stx__ref_scan,
	[STX_OP_CUMPROD] = stx__ref_scan,
	[STX_OP_SCATTER] = stx__ref_scatter,
	[STX_OP_SCATTER_REDUCE] = stx__ref_scatter,
	[STX_OP_SCATTER_VALUE] = stx__ref_scatter,
	[STX_OP_SCATTER_ADD] = stx__ref_scatter,
	[STX_OP_INDEX_PUT] = stx__ref_index_put,
	[STX_OP_INDEX_ADD] = stx__ref_index_write,
	[STX_OP_INDEX_COPY] = stx__ref_index_write,
	[STX_OP_INDEX_FILL] = stx__ref_index_write,
	[STX_OP_SLICE_SCATTER] = stx__ref_through,
	[STX_OP_SELECT_SCATTER] = stx__ref_through,
	[STX_OP_DIAGONAL_SCATTER] = stx__ref_through,
	[STX_OP_MASKED_SCATTER] = stx__ref_masked_scatter,
	[STX_OP_EMBEDDING_BACK] = stx__ref_embedding_back,
	[STX_OP_AS_STRIDED] = stx__ref_as_strided,
	[STX_OP_ALIAS] = stx__ref_identity,
	[STX_OP_DETACH] = stx__ref_identity,
	[STX_OP_SPLIT_SIZES] = stx__ref_split,
	[STX_OP_SPLIT] = stx__ref_split,
	[STX_OP_UNBIND] = stx__ref_split,
	[STX_OP_COPY] = stx__ref_copy_into,
	[STX_OP_FILL] = stx__ref_constant,
	[STX_OP_FILL_TENSOR] = stx__ref_copy_into,
	[STX_OP_EMPTY] = stx__ref_constant,
	[STX_OP_EMPTY_STRIDED] = stx__ref_constant,
	[STX_OP_SCALAR_TENSOR] = stx__ref_constant,
	[STX_OP_SYM_SIZE] = stx__ref_constant,
	[STX_OP_SYM_NUMEL] = stx__ref_constant,
	[STX_OP_SYM_STRIDE] = stx__ref_constant,
	[STX_OP_SYM_OFFSET] = stx__ref_constant,
	[STX_OP_LOGCUMSUMEXP] = stx__ref_running,
	[STX_OP_CUMMAX] = stx__ref_running,
	[STX_OP_CUMMIN] = stx__ref_running,
	[STX_OP_SEARCHSORTED] = stx__ref_search,
	[STX_OP_BUCKETIZE] = stx__ref_search,
	[STX_OP_EMBEDDING_BAG] = stx__ref_embedding_bag,
	[STX_OP_CDIST] = stx__ref_cdist,
	[STX_OP_PDIST] = stx__ref_pdist,
	[STX_OP_NATIVE_LAYER_NORM] = stx__ref_native_norm,
	[STX_OP_NATIVE_GROUP_NORM] = stx__ref_native_norm,
	[STX_OP_LAYER_NORM_GRAD] = stx__ref_norm_grad,
	[STX_OP_GROUP_NORM_GRAD] = stx__ref_norm_grad,
	[STX_OP_BATCH_NORM_LEGIT] = stx__ref_batch_norm,
	[STX_OP_BATCH_NORM_NO_STATS] = stx__ref_batch_norm,
	[STX_OP_BATCH_NORM_NO_TRAINING] = stx__ref_batch_norm,
	[STX_OP_BATCH_NORM_FUNCTIONAL] = stx__ref_batch_norm,
	[STX_OP_RANDOM_BITS] = stx__ref_random_int,
	[STX_OP_RAND] = stx__ref_random,
	[STX_OP_RANDN] = stx__ref_random,
	[STX_OP_RAND_LIKE] = stx__ref_random,
	[STX_OP_RANDN_LIKE] = stx__ref_random,
	[STX_OP_UNIFORM] = stx__ref_random,
	[STX_OP_NORMAL] = stx__ref_random,
	[STX_OP_BERNOULLI_P] = stx__ref_random,
	[STX_OP_BERNOULLI] = stx__ref_random,
	[STX_OP_NATIVE_DROPOUT] = stx__ref_dropout,
	[STX_OP_RANDINT] = stx__ref_random_int,
	[STX_OP_RANDINT_LOW] = stx__ref_random_int,
	[STX_OP_RANDPERM] = stx__ref_randperm,
	[STX_OP_ARGSORT_STABLE] = stx__ref_sort,
	[STX_OP_ARGSORT] = stx__ref_sort,
	[STX_OP_SORT] = stx__ref_sort,
	[STX_OP_SORT_STABLE] = stx__ref_sort,
	[STX_OP_TOPK] = stx__ref_sort,
	[STX_OP_KTHVALUE] = stx__ref_sort,
	[STX_OP_MEDIAN_DIM] = stx__ref_sort,
	[STX_OP_CONVOLUTION] = stx__ref_convolution,
	[STX_OP_UNFOLD] = stx__ref_unfold,
	[STX_OP_MAX_POOL1D] = stx__ref_max_pool,
	[STX_OP_MAX_POOL2D] = stx__ref_max_pool,
	[STX_OP_MAX_POOL3D] = stx__ref_max_pool,
	[STX_OP_AVG_POOL1D] = stx__ref_avg_pool,
	[STX_OP_AVG_POOL2D] = stx__ref_avg_pool,
	[STX_OP_AVG_POOL3D] = stx__ref_avg_pool,
	[STX_OP_REFLECTION_PAD1D] = stx__ref_pad_own,
	[STX_OP_REFLECTION_PAD2D] = stx__ref_pad_own,
	[STX_OP_REFLECTION_PAD3D] = stx__ref_pad_own,
	[STX_OP_REPLICATION_PAD1D] = stx__ref_pad_own,
	[STX_OP_REPLICATION_PAD2D] = stx__ref_pad_own,
	[STX_OP_REPLICATION_PAD3D] = stx__ref_pad_own,
	[STX_OP_RESAMPLE] = stx__ref_resample,
	[STX_OP_NEAREST1D] = stx__ref_upsample,
	[STX_OP_NEAREST2D] = stx__ref_upsample,
	[STX_OP_NEAREST3D] = stx__ref_upsample,
	[STX_OP_NEAREST_EXACT1D] = stx__ref_upsample,
	[STX_OP_NEAREST_EXACT2D] = stx__ref_upsample,
	[STX_OP_NEAREST_EXACT3D] = stx__ref_upsample,
	[STX_OP_LINEAR1D] = stx__ref_upsample,
	[STX_OP_BILINEAR2D] = stx__ref_upsample,
	[STX_OP_TRILINEAR3D] = stx__ref_upsample,
	[STX_OP_BICUBIC2D] = stx__ref_upsample,
	[STX_OP_FOLD] = stx__ref_fold,
	[STX_OP_COL2IM] = stx__ref_columns,
	[STX_OP_IM2COL] = stx__ref_columns,
	[STX_OP_AVG_POOL2D_BACKWARD] = stx__ref_avg_pool_backward,
	[STX_OP_AVG_POOL3D_BACKWARD] = stx__ref_avg_pool_backward,
	[STX_OP_MAX_POOL2D_BACKWARD] = stx__ref_max_pool_backward,
	[STX_OP_MAX_POOL3D_BACKWARD] = stx__ref_max_pool_backward,
	[STX_OP_CONVOLUTION_BACKWARD] = stx__ref_conv_backward,
	[STX_OP_ADAPTIVE_AVG_POOL1D] = stx__ref_adaptive_pool,
	[STX_OP_ADAPTIVE_AVG_POOL2D] = stx__ref_adaptive_pool,
	[STX_OP_ADAPTIVE_AVG_POOL3D] = stx__ref_adaptive_pool,
	[STX_OP_ADAPTIVE_MAX_POOL1D] = stx__ref_adaptive_pool,
	[STX_OP_ADAPTIVE_MAX_POOL2D] = stx__ref_adaptive_pool,
	[STX_OP_ADAPTIVE_MAX_POOL3D] = stx__ref_adaptive_pool,
	[STX_OP_ADAPTIVE_AVG_POOL2D_BACKWARD] = stx__ref_adaptive_backward,
	[STX_OP_ADAPTIVE_AVG_POOL3D_BACKWARD] = stx__ref_adaptive_backward,
	[STX_OP_GRID_SAMPLER2D] = stx__ref_grid_sampler,
	[STX_OP_GRID_SAMPLER3D] = stx__ref_grid_sampler,
	[STX_OP_SAMPLE] = stx__ref_grid_sampler,
	[STX_OP_SOFTMAX] = stx__ref_softmax,
	[STX_OP_LOG_SOFTMAX] = stx__ref_softmax,
	[STX_OP_SOFTMAX_INT] = stx__ref_softmax,
	[STX_OP_LOG_SOFTMAX_INT] = stx__ref_softmax,
	[STX_OP_LAYER_NORM] = stx__ref_layer_norm,
	[STX_OP_GELU] = stx__ref_activation,
	[STX_OP_GELU_BACKWARD] = stx__ref_activation,
	[STX_OP_LEAKY_RELU] = stx__ref_activation,
	[STX_OP_ELU] = stx__ref_activation,
	[STX_OP_SOFTPLUS] = stx__ref_activation,
	[STX_OP_HARDTANH] = stx__ref_activation,
	[STX_OP_SILU] = stx__ref_activation,
	[STX_OP_HARDSIGMOID] = stx__ref_activation,
	[STX_OP_HARDSWISH] = stx__ref_activation,
	[STX_OP_MISH] = stx__ref_activation,
};

/* ---- what operators call ---- */

void stx__ref_report(struct stx__ref *r, const struct stx_node *n, stx_err e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	stx_vfail(r->d, e, "reference", n ? n->name : "", fmt, ap);
	va_end(ap);
	r->err = e;
}

static struct stx__ref_value *value_of(const struct stx__ref *r, struct stx_val v)
{
	return &r->values[v.node->id][v.out];
}

const struct stx_tensor *stx__ref_arg(const struct stx__ref *r, const struct stx_node *n,
				      uint32_t i)
{
	return n->args[i].kind == STX_ARG_TENSOR ? &value_of(r, n->args[i].u.tensor)->t : NULL;
}

stx_err stx__ref_int(struct stx__ref *r, const struct stx_node *n, stx_ex e, int64_t *out)
{
	struct stx_ex_env env = { .syms = r->syms, .nsyms = r->g->symbols.n };
	int ok = 1;

	*out = stx_ex_eval(r->g->ex, e, &env, &ok);
	return ok ? 0
		  : stx__ref_fail(r, n, STX_E_INVALID, "a size or index expression has no value");
}

stx_err stx__ref_dim(struct stx__ref *r, const struct stx_node *n, stx_ex e, uint32_t rank,
		     uint32_t *dim)
{
	int64_t v, count = rank ? rank : 1;
	stx_err err = stx__ref_int(r, n, e, &v);

	if (err)
		return err;
	if (v < -count || v >= count)
		return stx__ref_fail(r, n, STX_E_INVALID, "dimension %lld of a tensor of rank %u",
				     (long long)v, rank);
	*dim = (uint32_t)(v < 0 ? v + count : v);
	return 0;
}

double stx__ref_scalar_f(const struct stx_arg *a)
{
	return a->kind == STX_ARG_FLOAT || (a->kind == STX_ARG_SCALAR && a->is_float)
		       ? a->u.f
		       : (double)a->u.i;
}

union stx_scalar stx__ref_scalar(const struct stx_arg *a, enum stx_dtype t)
{
	if (a->kind == STX_ARG_FLOAT || (a->kind == STX_ARG_SCALAR && a->is_float))
		return stx__ref_cast(t, STX_F64, (union stx_scalar){ .f = a->u.f });
	return stx__ref_cast(t, STX_I64, (union stx_scalar){ .i = a->u.i });
}

const struct stx_elem_program *stx__ref_program(struct stx__ref *r, enum stx_prim op,
						enum stx_dtype t)
{
	const struct stx_elem_program **p = &r->programs[op][t == STX_F64];

	if (!*p)
		*p = stx_elementary_record(r->arena, op, t);
	return *p;
}

/* ---- storage ---- */

static struct stx__ref_storage *storage_new(struct stx__ref *r, const struct stx_node *n,
					    size_t bytes)
{
	struct stx__ref_storage *s;

	if (bytes > r->budget - r->used) {
		stx__ref_fail(r, n, STX_E_TOO_LARGE,
			      "the reference evaluation needs more than %zu bytes", r->budget);
		return NULL;
	}
	s = calloc(1, sizeof *s);
	if (s)
		s->data = malloc(bytes ? bytes : 1);
	if (!s || !s->data) {
		free(s);
		stx__ref_fail(r, n, STX_E_NOMEM, "out of memory: %zu bytes", bytes);
		return NULL;
	}
	s->bytes = bytes;
	s->refs = 1;
	r->used += bytes;
	return s;
}

static struct stx__ref_storage *storage_borrow(void *data)
{
	struct stx__ref_storage *s = calloc(1, sizeof *s);

	if (s)
		*s = (struct stx__ref_storage){ data, 0, 1, 1 };
	return s;
}

static void storage_drop(struct stx__ref *r, struct stx__ref_storage *s)
{
	if (!s || --s->refs)
		return;
	r->used -= s->bytes;
	if (!s->borrowed)
		free(s->data);
	free(s);
}

/* Fills dtype, rank and sizes from a node's type. */
static stx_err set_type(struct stx__ref *r, const struct stx_node *n, const struct stx_type *t,
			struct stx_tensor *out)
{
	memset(out, 0, sizeof *out);
	out->dtype = (uint8_t)t->dtype;
	out->rank = t->rank;
	for (uint32_t i = 0; i < t->rank; i++) {
		stx_err e = stx__ref_int(r, n, t->sizes[i], &out->sizes[i]);

		if (e)
			return e;
		if (out->sizes[i] < 0)
			return stx__ref_fail(r, n, STX_E_INVALID, "size %u is negative", i);
	}
	return 0;
}

/* Row-major strides; the number of bytes, or -1 when it overflows. */
static int64_t set_dense(struct stx_tensor *t)
{
	int64_t n = 1;

	for (uint32_t i = t->rank; i-- > 0;) {
		t->strides[i] = n;
		if (__builtin_mul_overflow(n, t->sizes[i] > 1 ? t->sizes[i] : 1, &n))
			return -1;
	}
	for (uint32_t i = 0; i < t->rank; i++)
		if (t->sizes[i] == 0)
			return 0;
	return __builtin_mul_overflow(n, stx_dtype_bytes((enum stx_dtype)t->dtype), &n) ? -1 : n;
}

struct stx_tensor *stx__ref_result(struct stx__ref *r, const struct stx_node *n)
{
	return stx__ref_result_at(r, n, 0);
}

struct stx_tensor *stx__ref_result_at(struct stx__ref *r, const struct stx_node *n, uint32_t i)
{
	struct stx__ref_value *v = &r->values[n->id][i];
	int64_t bytes;

	if (set_type(r, n, &n->outs[i], &v->t))
		return NULL;
	bytes = set_dense(&v->t);
	if (bytes < 0) {
		stx__ref_fail(r, n, STX_E_TOO_LARGE, "the size of the result overflows");
		return NULL;
	}
	v->st = storage_new(r, n, (size_t)bytes);
	if (!v->st)
		return NULL;
	v->t.data = v->st->data;
	return &v->t;
}

stx_err stx__ref_alias(struct stx__ref *r, const struct stx_node *n, uint32_t i,
		       const int64_t *strides, int64_t offset)
{
	struct stx__ref_value *from = value_of(r, n->args[i].u.tensor), *v = r->values[n->id];
	stx_err e = set_type(r, n, &n->outs[0], &v->t);

	if (e)
		return e;
	v->t.data = from->t.data;
	v->t.offset = offset;
	memcpy(v->t.strides, strides, v->t.rank * sizeof *strides);
	v->st = from->st;
	v->st->refs++;
	return 0;
}

/* ---- inputs and outputs ---- */

/* A size that is a plain symbol takes its value from the first input that has it. */
static stx_err bind_symbols(struct stx__ref *r, const struct stx_tensor *inputs)
{
	const struct stx_graph *g = r->g;
	uint8_t *known = STX_NEW_ARRAY(r->arena, uint8_t, g->symbols.n + 1);

	if (!known)
		return stx__ref_fail(r, NULL, STX_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i < g->inputs.n; i++) {
		const struct stx_type *t = &g->inputs.at[i].node->outs[0];

		for (uint32_t k = 0; k < t->rank && k < inputs[i].rank; k++) {
			stx_ex e = t->sizes[k];
			struct stx_ex_term term;
			struct stx_ex_atom atom;

			if (stx_ex_nterms(g->ex, e) != 1 || stx_ex_constant(g->ex, e) != 0)
				continue;
			term = stx_ex_term_at(g->ex, e, 0);
			if (term.coeff != 1 || term.natoms != 1)
				continue;
			atom = stx_ex_atom_at(g->ex, term.atoms[0]);
			if (atom.kind != STX_ATOM_SYM || atom.number >= g->symbols.n ||
			    known[atom.number])
				continue;
			known[atom.number] = 1;
			r->syms[atom.number] = inputs[i].sizes[k];
		}
	}
	for (uint32_t s = 0; s < g->symbols.n; s++)
		if (!known[s])
			r->syms[s] = g->symbols.at[s].hint;
	return 0;
}

static stx_err bind_input(struct stx__ref *r, const struct stx_node *n, const struct stx_tensor *in)
{
	struct stx__ref_value *v = r->values[n->id];
	stx_err e = set_type(r, n, &n->outs[0], &v->t);

	if (e)
		return e;
	if (in->dtype != v->t.dtype || in->rank != v->t.rank)
		return stx__ref_fail(r, n, STX_E_MISMATCH,
				     "the input is %s of rank %u, the graph wants %s of rank %u",
				     stx_dtype_name((enum stx_dtype)in->dtype), in->rank,
				     stx_dtype_name((enum stx_dtype)v->t.dtype), v->t.rank);
	for (uint32_t i = 0; i < in->rank; i++)
		if (in->sizes[i] != v->t.sizes[i])
			return stx__ref_fail(r, n, STX_E_MISMATCH,
					     "size %u of the input is %lld, the graph wants %lld",
					     i, (long long)in->sizes[i], (long long)v->t.sizes[i]);
	v->t = *in;
	v->st = storage_borrow(in->data);
	return v->st ? 0 : stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
}

static stx_err bind_constant(struct stx__ref *r, const struct stx_node *n)
{
	struct stx__ref_value *v = r->values[n->id];
	stx_err e = set_type(r, n, &n->outs[0], &v->t);
	int64_t bytes;

	if (e)
		return e;
	bytes = set_dense(&v->t);
	if (bytes < 0 || (size_t)bytes != n->data.n)
		return stx__ref_fail(r, n, STX_E_INVALID,
				     "a constant of %zu bytes does not fill its shape", n->data.n);
	v->t.data = (void *)(uintptr_t)n->data.bytes; /* never written */
	v->st = storage_borrow(v->t.data);
	return v->st ? 0 : stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
}

/* A dense copy that the caller owns. */
static stx_err copy_out(struct stx__ref *r, struct stx_val val, struct stx_tensor *out)
{
	const struct stx_tensor *t = &value_of(r, val)->t;
	size_t width = (size_t)stx_dtype_bytes((enum stx_dtype)t->dtype), k = 0;
	struct stx__ref_walk w;
	int64_t bytes;

	*out = *t;
	out->offset = 0;
	out->flags = 0;
	out->data = NULL;
	bytes = set_dense(out);
	if (bytes < 0 || (size_t)bytes > r->budget - r->used)
		return stx__ref_fail(r, val.node, STX_E_TOO_LARGE,
				     "the outputs need more than %zu bytes", r->budget);
	out->data = malloc(bytes ? (size_t)bytes : 1);
	if (!out->data)
		return stx__ref_fail(r, val.node, STX_E_NOMEM, "out of memory: %lld bytes",
				     (long long)bytes);
	r->used += (size_t)bytes;
	stx__ref_walk_start(&w, t->rank, t->sizes);
	for (stx__ref_walk_broadcast(&w, t); w.left > 0; stx__ref_walk_next(&w), k += width)
		memcpy((char *)out->data + k, stx__ref_at(t, w.off[0]), width);
	return 0;
}

/* ---- the evaluation ---- */

static void count_use(struct stx__ref *r, struct stx_val v, int by)
{
	if (v.node)
		r->uses[v.node->id] += (uint32_t)by;
}

static void each_use(struct stx__ref *r, const struct stx_node *n, int by)
{
	for (uint32_t i = 0; i < n->nargs; i++) {
		if (n->args[i].kind == STX_ARG_TENSOR)
			count_use(r, n->args[i].u.tensor, by);
		else if (n->args[i].kind == STX_ARG_TENSORS)
			for (uint32_t k = 0; k < n->args[i].n; k++)
				count_use(r, n->args[i].u.tensors[k], by);
	}
}

static void release(struct stx__ref *r, const struct stx_node *n)
{
	struct stx__ref_value *v = r->values[n->id];

	for (uint32_t i = 0; v && i < n->nouts; i++) {
		storage_drop(r, v[i].st);
		v[i].st = NULL;
	}
}

static void release_if_unused(struct stx__ref *r, const struct stx_node *n)
{
	if (r->uses[n->id] == 0)
		release(r, n);
}

static void release_args(struct stx__ref *r, const struct stx_node *n)
{
	each_use(r, n, -1);
	for (uint32_t i = 0; i < n->nargs; i++) {
		if (n->args[i].kind == STX_ARG_TENSOR)
			release_if_unused(r, n->args[i].u.tensor.node);
		else if (n->args[i].kind == STX_ARG_TENSORS)
			for (uint32_t k = 0; k < n->args[i].n; k++)
				if (n->args[i].u.tensors[k].node)
					release_if_unused(r, n->args[i].u.tensors[k].node);
	}
	release_if_unused(r, n);
}

static stx_err run_node(struct stx__ref *r, const struct stx_node *n)
{
	if (n->op == STX_OP_PLACEHOLDER)
		return 0; /* bound before */
	if (n->op == STX_OP_CONSTANT)
		return bind_constant(r, n);
	if (table[n->op])
		return table[n->op](r, n);
	if (stx_op_info(n->op)->category == STX_CAT_POINTWISE)
		return stx__ref_pointwise(r, n);
	return stx__ref_fail(r, n, STX_E_UNSUPPORTED, "the oracle has no rule for %s",
			     stx_op_info(n->op)->overload);
}

static stx_err prepare(struct stx__ref *r, const struct stx_tensor *inputs, uint32_t ninputs)
{
	struct stx_graph *g = r->g;
	stx_err e;

	if (ninputs != g->inputs.n)
		return stx__ref_fail(r, NULL, STX_E_MISMATCH, "%u inputs given, the graph has %u",
				     ninputs, g->inputs.n);
	r->values = STX_NEW_ARRAY(r->arena, struct stx__ref_value *, g->nodes.n + 1);
	r->uses = STX_NEW_ARRAY(r->arena, uint32_t, g->nodes.n + 1);
	r->syms = STX_NEW_ARRAY(r->arena, int64_t, g->symbols.n + 1);
	if (!r->values || !r->uses || !r->syms)
		return stx__ref_fail(r, NULL, STX_E_NOMEM, "out of memory");
	for (uint32_t i = 0; i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];

		r->values[n->id] = STX_NEW_ARRAY(r->arena, struct stx__ref_value, n->nouts + 1);
		if (!r->values[n->id])
			return stx__ref_fail(r, n, STX_E_NOMEM, "out of memory");
		each_use(r, n, 1);
	}
	for (uint32_t i = 0; i < g->outputs.n; i++)
		count_use(r, g->outputs.at[i].val, 1);
	e = bind_symbols(r, inputs);
	for (uint32_t i = 0; !e && i < ninputs; i++)
		e = bind_input(r, g->inputs.at[i].node, &inputs[i]);
	return e;
}

stx_err stx_ref_evaluate_visit(struct stx_graph *g, const struct stx_tensor *inputs,
			       uint32_t ninputs, struct stx_tensor *outputs, size_t budget_bytes,
			       stx_ref_visit_fn *fn, void *ctx, struct stx_diag *d)
{
	struct stx__ref r = { .g = g,
			      .budget = budget_bytes ? budget_bytes : DEFAULT_BUDGET,
			      .d = d };
	uint32_t done = 0;
	stx_err e;

	memset(outputs, 0, g->outputs.n * sizeof *outputs);
	r.arena = stx_arena_new(0);
	if (!r.arena)
		return stx__ref_fail(&r, NULL, STX_E_NOMEM, "out of memory");
	e = prepare(&r, inputs, ninputs);
	for (uint32_t i = 0; !e && i < g->nodes.n; i++) {
		const struct stx_node *n = g->nodes.at[i];
		struct stx_tensor *results;

		e = run_node(&r, n);
		if (e)
			break;
		if (!fn) {
			release_args(&r, n);
			continue;
		}
		results = STX_NEW_ARRAY(r.arena, struct stx_tensor, n->nouts + 1);
		if (!results) {
			e = stx__ref_fail(&r, n, STX_E_NOMEM, "out of memory");
			break;
		}
		for (uint32_t k = 0; k < n->nouts; k++)
			results[k] = r.values[n->id][k].t;
		fn(ctx, n, results);
	}
	for (; !e && done < g->outputs.n; done++)
		e = copy_out(&r, g->outputs.at[done].val, &outputs[done]);
	for (uint32_t i = 0; r.values && i < g->nodes.n; i++)
		release(&r, g->nodes.at[i]);
	for (uint32_t i = 0; e && i < g->outputs.n; i++) {
		free(outputs[i].data);
		outputs[i].data = NULL;
	}
	stx_arena_free(r.arena);
	return e;
}

stx_err stx_ref_evaluate(struct stx_graph *g, const struct stx_tensor *inputs, uint32_t ninputs,
			 struct stx_tensor *outputs, size_t budget_bytes, struct stx_diag *d)
{
	return stx_ref_evaluate_visit(g, inputs, ninputs, outputs, budget_bytes, NULL, NULL, d);
}
