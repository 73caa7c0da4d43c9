/* product.c: matrix products that a library may make instead of a kernel of ours (issue 4, external
 * calls), and what they share with convolutions (convolution.c).
 *
 * requires: buffers in definition order, long reductions cut (split.c). ensures: a product for each
 * buffer that is one sum of products of two loads, whose elements are those of a matrix, or of a
 * batch of them, with one unit stride, and which is large enough for a call to pay; memory to work
 * in for each, after all other buffers; and the buffer that adds a bias to the sums where nothing
 * else reads them, so that the call may add it (the sum's type is f32, one rounding follows: what
 * the graph says). Its dimensions become the product's. Strides are read off the index expressions,
 * so transposes, slices and batches of views are what they are in memory. One pass over the buffers.
 */
#include "product.h"
#include "sat.h"

#define MAX_I8_INNER  65536               /* columns whose products cannot pass 32 bits */
#define WORKSPACE_MAX ((int64_t)32 << 20) /* bytes */
#define WORKSPACE_MIN ((int64_t)1 << 20)
#define SPLITS        8 /* partial results that it has room for */

static const struct stx__call_kind matmul = {
	.name = STX_CALL_MATMUL,
	.alone = "a library may make the matrix product",
	.nattrs = STX_MATMUL_NATTRS,
	.operand = { STX_MATMUL_A + STX_MATRIX_ARG, STX_MATMUL_B + STX_MATRIX_ARG },
	.result = STX_MATMUL_D + STX_MATRIX_ARG,
	.bias = STX_MATMUL_BIAS,
};

/* A matrix, or a batch of them, as index expressions have it: element strides. */
struct strided {
	stx_ex rows, cols; /* sizes */
	stx_ex row, col, batch, offset;
};

/* ---- what is summed ---- */

/* Instruction i is a load without a mask, perhaps widened; its instruction. */
static const struct stx_binst *load_behind(const struct stx_body *body, uint32_t i)
{
	const struct stx_binst *in = &body->at[i];
	if (in->op == STX_P_CAST)
		in = &body->at[in->a];
	return in->op == STX_B_LOAD && in->c == STX_NONE ? in : NULL;
}

static int is_operand(enum stx_dtype from, enum stx_dtype acc)
{
	switch (acc) {
	case STX_F32: return from == STX_F32 || from == STX_F16 || from == STX_BF16;
	case STX_F64: return from == STX_F64;
	case STX_I32: return from == STX_I8;
	default: return 0;
	}
}

static int is_result(enum stx_dtype from, enum stx_dtype acc, enum stx_dtype to)
{
	return to == acc || (acc == STX_F32 && to == from);
}

/* The two loads whose products are summed; 0: it is something else. */
static int find_loads(const struct stx_buffer *b, const struct stx_binst *load[2])
{
	const struct stx_body *body = &b->body;
	uint32_t of[2] = { body->result[0], body->result[1] };
	if (b->def != STX_DEF_REDUCTION || b->base || b->message || b->is_merge ||
	    b->rlimit != STX_EX_BAD)
		return 0;
	if (b->monoid == STX_MONOID_SUM && b->acc == STX_I32 && body->nresults == 1 &&
	    body->at[of[0]].op == STX_P_MUL && body->at[of[0]].dtype == STX_I32) {
		of[1] = body->at[of[0]].b;
		of[0] = body->at[of[0]].a;
	} else if (b->monoid != STX_MONOID_DOT || body->nresults != 2) {
		return 0;
	}
	for (int i = 0; i < 2; i++) {
		load[i] = load_behind(body, of[i]);
		if (!load[i] || body->at[of[i]].dtype != b->acc ||
		    !is_operand((enum stx_dtype)load[i]->dtype, b->acc))
			return 0;
	}
	return load[0]->dtype == load[1]->dtype &&
	       is_result((enum stx_dtype)load[0]->dtype, b->acc, b->dtype);
}

/* ---- where its elements are ---- */

/* e = sum of coeff[v] times variable v, plus rest, both over size symbols only. */
int stx__affine(const struct stx__finding *f, stx_ex e, uint32_t nvars, stx_ex *coeff, stx_ex *rest)
{
	*rest = e;
	for (uint32_t v = 0; v < nvars; v++)
		if (!stx_ex_linear_in(f->ex, *rest, v, &coeff[v], rest) ||
		    stx_ex_uses_kind(f->ex, coeff[v], STX_ATOM_VAR) ||
		    stx_ex_uses_kind(f->ex, coeff[v], STX_ATOM_INDIRECT))
			return 0;
	return !stx_ex_uses_kind(f->ex, *rest, STX_ATOM_VAR) &&
	       !stx_ex_uses_kind(f->ex, *rest, STX_ATOM_INDIRECT);
}

static int is_one(const struct stx__finding *f, stx_ex e)
{
	return stx_ex_equals(f->ex, e, 1);
}

static int at_least(const struct stx__finding *f, stx_ex e, stx_ex least)
{
	stx_ex d = stx_ex_sub(f->ex, e, least);
	return d != STX_EX_BAD && stx_ex_interval(f->ex, d).lo >= 0;
}

/* The matrix as the library has it: columns, in memory or of the transpose, one after the other. */
static int lay_out(const struct stx__finding *f, const struct strided *s, int may_transpose,
		   stx_ex out[5])
{
	stx_ex zero = stx_ex_const(f->ex, 0);
	out[STX_MATRIX_STRIDE] = s->batch;
	out[STX_MATRIX_OFFSET] = s->offset;
	for (int t = 0; t <= may_transpose; t++) {
		stx_ex rows = t ? s->cols : s->rows, cols = t ? s->rows : s->cols;
		stx_ex unit = t ? s->col : s->row, ld = t ? s->row : s->col;
		if (is_one(f, cols))
			ld = stx_ex_max(f->ex, rows, stx_ex_const(f->ex, 1));
		if ((!is_one(f, unit) && !is_one(f, rows)) || !at_least(f, ld, rows) ||
		    !at_least(f, ld, stx_ex_const(f->ex, 1)))
			continue;
		out[STX_MATRIX_TRANSPOSED] = t ? stx_ex_const(f->ex, 1) : zero;
		out[STX_MATRIX_LD] = ld;
		return 1;
	}
	return 0;
}

static struct strided transposed(struct strided s)
{
	return (struct strided){ s.cols, s.rows, s.col, s.row, s.batch, s.offset };
}

/* Product of matrices a and b into d. */
static int lay_out_all(const struct stx__finding *f, struct strided a, struct strided b,
		       struct strided d, struct stx__call_form *p, int *is_swapped)
{
	*is_swapped = !is_one(f, d.row) && !is_one(f, d.rows);
	if (*is_swapped) { /* D is row-major: the library makes its transpose, B' * A' */
		struct strided first = transposed(b);
		b = transposed(a);
		a = first;
		d = transposed(d);
	}
	p->attrs[STX_MATMUL_ROWS] = d.rows;
	p->attrs[STX_MATMUL_COLS] = d.cols;
	p->attrs[STX_MATMUL_INNER] = a.cols;
	return lay_out(f, &a, 1, p->attrs + STX_MATMUL_A) &&
	       lay_out(f, &b, 1, p->attrs + STX_MATMUL_B) &&
	       lay_out(f, &d, 0, p->attrs + STX_MATMUL_D);
}

static int64_t times(int64_t a, int64_t b)
{
	return a < 0 || b < 0 ? 0 : stx_sat_mul(a, b);
}

static int is_worth_it(const struct stx__finding *f, const struct stx_buffer *b, stx_ex k,
		       int is_i8)
{
	int64_t work = stx_ex_hint(f->ex, k);
	for (uint32_t i = 0; i < b->nranges; i++)
		work = times(work, stx_ex_hint(f->ex, b->ranges[i]));
	return work >= STX__MIN_WORK && (!is_i8 || stx_ex_interval(f->ex, k).hi <= MAX_I8_INNER);
}

/* Fills p from b, whose results lie at `store`; 0: b is no matrix product that the library could
 * make. *is_swapped: the library's first operand is that with the columns. */
static int find_product(const struct stx__finding *f, const struct stx_buffer *b, stx_ex store,
			struct stx__call_form *p, int *is_swapped)
{
	const struct stx_binst *load[2];
	stx_ex at[3][STX_MAX_DIMS + 1], rest[3], zero = stx_ex_const(f->ex, 0);
	uint32_t n = b->nranges, m = n - 2, k = n;
	if (n < 2 || n > 3 || b->nrranges != 1 || !find_loads(b, load) ||
	    !is_worth_it(f, b, b->rranges[0], load[0]->dtype == STX_I8))
		return 0;
	for (int i = 0; i < 3; i++)
		if (!stx__affine(f, i < 2 ? load[i]->ex : store, n + 1, at[i], &rest[i]))
			return 0;
	/* a has the rows: it does not depend on the column, nor b on the row */
	int a = at[0][n - 1] == zero && at[1][m] == zero ? 0 : 1;
	if (at[a][n - 1] != zero || at[1 - a][m] != zero || at[2][k] != zero)
		return 0;
	stx_ex rows = b->ranges[m], cols = b->ranges[n - 1], inner = b->rranges[0];
	stx_ex batch[3];
	for (int i = 0; i < 3; i++)
		batch[i] = n == 3 ? at[i][0] : zero;
	p->attrs[STX_MATMUL_BATCH] = n == 3 ? b->ranges[0] : stx_ex_const(f->ex, 1);
	int ok = lay_out_all(
		f, (struct strided){ rows, inner, at[a][m], at[a][k], batch[a], rest[a] },
		(struct strided){ inner, cols, at[1 - a][k], at[1 - a][n - 1], batch[1 - a],
				  rest[1 - a] },
		(struct strided){ rows, cols, at[2][m], at[2][n - 1], batch[2], rest[2] }, p,
		is_swapped);
	p->operand[*is_swapped] = load[a]->a;
	p->operand[!*is_swapped] = load[1 - a]->a;
	p->attrs[STX_MATMUL_EPILOGUE] = p->attrs[STX_MATMUL_BIAS_OFFSET] = zero;
	return ok;
}

/* ---- the bias that is added ---- */

/* Elements at `ex` are those of dense rows over n ranges. */
static int is_dense(const struct stx__finding *f, stx_ex ex, const stx_ex *ranges, uint32_t n)
{
	stx_ex at[STX_MAX_DIMS + 1], rest, stride = stx_ex_const(f->ex, 1);
	if (n > STX_MAX_DIMS || !stx__affine(f, ex, n, at, &rest) || !stx_ex_equals(f->ex, rest, 0))
		return 0;
	for (uint32_t i = n; i-- > 0;) {
		if (at[i] != stride && !is_one(f, ranges[i]))
			return 0;
		stride = stx_ex_mul(f->ex, stride, ranges[i]);
	}
	return 1;
}

static stx_ex elements(const struct stx__finding *f, const stx_ex *ranges, uint32_t n)
{
	stx_ex all = stx_ex_const(f->ex, 1);
	for (uint32_t i = 0; i < n; i++)
		all = stx_ex_mul(f->ex, all, ranges[i]);
	return all;
}

/* e = round(product b + row): its loads of both; 0: it is something else. */
int stx__find_sum(const struct stx__finding *f, const struct stx_buffer *b,
		  const struct stx_buffer *e, struct stx_binst **sum, struct stx_binst **row)
{
	const struct stx_body *body = &e->body;
	uint32_t r = body->result[0];
	if (e->def != STX_DEF_POINTWISE || e->base || e->message || body->nresults != 1 ||
	    b->dtype != STX_F32 || b->acc != STX_F32)
		return 0;
	if (e->dtype != STX_F32) {
		if (body->at[r].op != STX_P_CAST || (e->dtype != STX_F16 && e->dtype != STX_BF16))
			return 0;
		r = body->at[r].a;
	}
	if (body->at[r].op != STX_P_ADD || body->at[r].dtype != STX_F32)
		return 0;
	for (int i = 0; i < 2; i++) {
		uint32_t p = i ? body->at[r].b : body->at[r].a;
		uint32_t q = i ? body->at[r].a : body->at[r].b;
		if (body->at[p].op != STX_B_LOAD || body->at[p].a != b->id ||
		    !load_behind(body, p) || !load_behind(body, q) || body->at[q].dtype != STX_F32)
			continue;
		*sum = &body->at[p];
		*row = body->at[q].op == STX_P_CAST ? &body->at[body->at[q].a] : &body->at[q];
		return (*row)->dtype == e->dtype && f->l->buffers.at[(*row)->a]->dtype == e->dtype;
	}
	return 0;
}

/* Gives e the dimensions of b where both are dense and its last one is b's. */
static int flatten(const struct stx__finding *f, const struct stx_buffer *b, struct stx_buffer *e,
		   struct stx_binst *sum, struct stx_binst *row)
{
	uint32_t n = b->nranges, last = e->nranges - 1;
	stx_ex coeff, rest;
	if (n != 2 || e->nranges < 2 || e->ranges[last] != b->ranges[1] || sum->ex != e->store ||
	    !is_dense(f, b->store, b->ranges, n) || !is_dense(f, e->store, e->ranges, last + 1) ||
	    elements(f, e->ranges, last + 1) != elements(f, b->ranges, n) ||
	    !stx_ex_linear_in(f->ex, row->ex, last, &coeff, &rest) || !is_one(f, coeff) ||
	    stx_ex_uses_kind(f->ex, rest, STX_ATOM_VAR) ||
	    stx_ex_uses_kind(f->ex, rest, STX_ATOM_INDIRECT))
		return 0;
	row->ex = stx_ex_add(f->ex, stx_ex_var(f->ex, 1, b->ranges[1]), rest);
	sum->ex = e->store = b->store;
	e->ranges = b->ranges;
	e->nranges = n;
	return row->ex != STX_EX_BAD;
}

/* The call that makes e, the sums of b plus a row, with b's dimensions; 0: there is none. */
static int find_with(const struct stx__finding *f, const struct stx_buffer *b,
		     const struct stx_buffer *e, const struct stx_binst *sum,
		     const struct stx_binst *row, struct stx__product *p)
{
	struct stx__call_form with = { 0 };
	stx_ex at[STX_MAX_DIMS + 1], rest;
	uint32_t n = b->nranges;
	int is_swapped;
	if (!stx__reads_at_point(sum, b) || !find_product(f, b, e->store, &with, &is_swapped) ||
	    !is_swapped || !stx__affine(f, row->ex, n, at, &rest) || !is_one(f, at[n - 1]))
		return 0;
	for (uint32_t i = 0; i + 1 < n; i++)
		if (!stx_ex_equals(f->ex, at[i], 0))
			return 0;
	p->with = with;
	p->with.attrs[STX_MATMUL_EPILOGUE] = stx_ex_const(f->ex, STX_EPILOGUE_BIAS);
	p->with.attrs[STX_MATMUL_BIAS_OFFSET] = rest;
	return 1;
}

struct stx_buffer *stx__find_addition(const struct stx__finding *f, const struct stx_buffer *b,
				      struct stx_binst **sum, struct stx_binst **row)
{
	if (b->kind != STX_BUF_TEMP || f->nreads[b->id] != 1)
		return NULL;
	struct stx_buffer *e = f->l->buffers.at[f->reader[b->id]];
	if (!stx__find_sum(f, b, e, sum, row))
		return NULL;
	const struct stx_buffer *bias = f->l->buffers.at[(*row)->a];
	return bias->kind == STX_BUF_INPUT || bias->kind == STX_BUF_CONST
		       ? e
		       : NULL; /* it might be computed after b */
}

/* p's epilogue. Results of the operands' type only: what the library has for every of its types. */
static void find_epilogue(const struct stx__finding *f, const struct stx_buffer *b,
			  struct stx__product *p)
{
	struct stx_binst *sum, *row;
	const struct stx_binst *load[2];
	struct stx_buffer *e = stx__find_addition(f, b, &sum, &row);
	p->epilogue = STX_NONE;
	if (!e || !find_loads(b, load) || load[0]->dtype != e->dtype)
		return;
	const struct stx_buffer before = *e;
	const stx_ex sum_at = sum->ex, row_at = row->ex;
	if ((stx__same_exs(e->ranges, e->nranges, b->ranges, b->nranges) ||
	     flatten(f, b, e, sum, row)) &&
	    find_with(f, b, e, sum, row, p)) {
		p->epilogue = e->id;
		p->bias = row->a;
		return;
	}
	*e = before;
	sum->ex = sum_at;
	row->ex = row_at;
}

int stx__count_reads(struct stx__finding *f)
{
	const struct stx_loops *l = f->l;
	f->nreads = stx_arena_zalloc(f->arena, l->buffers.n + 1, sizeof *f->nreads);
	f->reader = stx_arena_zalloc(f->arena, l->buffers.n + 1, sizeof *f->reader);
	if (!f->nreads || !f->reader)
		return 0;
	for (uint32_t i = 0; i < l->outputs.n; i++)
		f->nreads[l->outputs.at[i]] += 2;
	for (uint32_t i = 0; i < l->buffers.n; i++)
		for (uint32_t j = 0; j < l->buffers.at[i]->body.n; j++) {
			const struct stx_binst *in = &l->buffers.at[i]->body.at[j];
			if (in->op != STX_B_LOAD)
				continue;
			f->nreads[in->a]++;
			f->reader[in->a] = i;
		}
	return 1;
}

/* ---- memory to work in ---- */

static stx_ex matmul_workspace(const struct stx__finding *f, const struct stx_buffer *b)
{
	stx_ex n = elements(f, b->ranges, b->nranges);
	n = stx_ex_muli(f->ex, n, SPLITS * stx_dtype_bytes(b->acc));
	n = n == STX_EX_BAD ? stx_ex_const(f->ex, WORKSPACE_MAX)
			    : stx_ex_min(f->ex, n, stx_ex_const(f->ex, WORKSPACE_MAX));
	return stx_ex_max(f->ex, n, stx_ex_const(f->ex, WORKSPACE_MIN));
}

struct stx_buffer *stx__add_workspace(const struct stx__finding *f, stx_ex bytes)
{
	struct stx_buffer *w = STX_NEW(f->arena, struct stx_buffer);
	stx_ex *size = STX_NEW_ARRAY(f->arena, stx_ex, 2);
	if (!w || !size)
		return NULL;
	size[0] = bytes;
	size[1] = stx_ex_const(f->ex, 1);
	*w = (struct stx_buffer){ .id = f->l->buffers.n,
				  .kind = STX_BUF_TEMP,
				  .dtype = STX_U8,
				  .acc = STX_U8,
				  .def = STX_DEF_SCRATCH,
				  .store = STX_EX_BAD,
				  .rlimit = STX_EX_BAD,
				  .rule = STX_REALIZED_WORKSPACE };
	w->layout = (struct stx_layout){
		.rank = 1, .sizes = size, .strides = size + 1, .offset = stx_ex_const(f->ex, 0)
	};
	w->name = stx_arena_printf(f->arena, "buf%u", w->id);
	return w->name && !stx_push(f->arena, &f->l->buffers, w) ? w : NULL;
}

/* 1: b is one of them, *workspace its size; 0: none. */
static int find_one(const struct stx__finding *f, const struct stx_buffer *b,
		    struct stx__product *p, stx_ex *workspace)
{
	int64_t bytes;
	int is_swapped;
	if (find_product(f, b, b->store, &p->plain, &is_swapped)) {
		p->kind = &matmul;
		find_epilogue(f, b, p);
		*workspace = matmul_workspace(f, b);
		return 1;
	}
	if (!stx__find_convolution(f, b, p, &bytes))
		return 0;
	*workspace = stx_ex_const(f->ex, bytes);
	return 1;
}

stx_err stx__find_products(struct stx_loops *l, struct stx__products *out, struct stx_diag *d)
{
	struct stx__finding f = { .l = l, .ex = l->ex, .arena = l->g->arena };
	uint32_t n = l->buffers.n;
	out->n = n;
	out->of = STX_NEW_ARRAY(f.arena, struct stx__product *, n + 1);
	if (!stx__count_reads(&f))
		out->of = NULL;
	for (uint32_t i = 0; out->of && i < n; i++) {
		const struct stx_buffer *b = l->buffers.at[i];
		struct stx__product p = { 0 };
		stx_ex bytes;
		if (!find_one(&f, b, &p, &bytes))
			continue;
		const struct stx_buffer *w = stx__add_workspace(&f, bytes);
		out->of[i] = w ? STX_NEW(f.arena, struct stx__product) : NULL;
		if (!out->of[i])
			return stx_fail(d, STX_E_NOMEM, "schedule", b->name,
					"the memory budget is exceeded");
		p.workspace = w->id;
		*out->of[i] = p;
	}
	return out->of ? STX_E_OK
		       : stx_fail(d, STX_E_NOMEM, "schedule", NULL,
				  "the memory budget is exceeded");
}

/* ---- the call ---- */

stx_err stx__product_call(struct stx_schedule *s, const struct stx__product *p, int with,
			  uint32_t kernel, struct stx_external *out)
{
	struct stx_arena *a = s->loops->g->arena;
	const struct stx_kernel *k = s->kernels.at[kernel];
	const struct stx__call_kind *kind = p->kind;
	const struct stx__call_form *form = with ? &p->with : &p->plain;
	uint32_t n = k->params.n;
	struct stx_use *uses = STX_NEW_ARRAY(a, struct stx_use, n + 1);
	stx_ex *attrs = STX_NEW_ARRAY(a, stx_ex, kind->nattrs);
	if (!uses || !attrs)
		return STX_E_NOMEM;
	memcpy(attrs, form->attrs, kind->nattrs * sizeof *attrs);
	attrs[kind->bias] = stx_ex_const(s->loops->ex, 0);
	for (uint32_t i = 0; i < n; i++) {
		const struct stx_kparam *q = &k->params.at[i];
		stx_ex arg = stx_ex_const(s->loops->ex, i);
		uses[i] = (struct stx_use){ q->buffer, q->is_read, q->is_written };
		if (with && q->buffer == p->bias)
			attrs[kind->bias] = arg;
		for (int j = 0; j < 2; j++)
			if (q->buffer == form->operand[j])
				attrs[kind->operand[j]] = arg;
		if (q->is_written)
			attrs[kind->result] = arg;
	}
	uses[n] = (struct stx_use){ p->workspace, 0, 1 };
	*out = (struct stx_external){ .name = kind->name,
				      .uses = uses,
				      .nuses = n + 1,
				      .attrs = attrs,
				      .nattrs = kind->nattrs,
				      .workspace = p->workspace,
				      .kernel = kernel };
	return STX_E_OK;
}
