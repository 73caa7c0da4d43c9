/* plan_write.c: the data plan of a schedule (stax_abi.h), as bytes.
 *
 * requires: a schedule whose kernels are verified. ensures: stx_plan_open accepts the result; equal
 * schedules give equal bytes. Values stand in the order of the loop program's buffers; for each
 * step of the schedule there are: ALLOC of the temporaries it writes first, LAUNCH, EXTERN or COPY,
 * RELEASE of temporaries and inputs it uses last (WR-05, WR-09). Linear in the schedule. */
#include <stdlib.h>

#include "cpu_blocking.h"
#include "plan_write.h"

#define MAX_PLAN_BYTES ((size_t)1 << 30)

stx_err stx__plan_fail(struct stx__plan *w, stx_err code, const char *node, const char *text)
{
	if (!w->err)
		w->err = stx_fail(w->d, code, "plan", node, "%s", text);
	return w->err;
}

stx_err stx__plan_oom(struct stx__plan *w)
{
	return stx__plan_fail(w, STX_E_NOMEM, NULL, "the memory budget is exceeded");
}

uint32_t stx__plan_string(struct stx__plan *w, const char *s)
{
	uint32_t at = (uint32_t)w->strings.n;
	stx_bytes_put(&w->strings, s ? s : "", s ? strlen(s) + 1 : 1);
	return at;
}

/* ---- values ---- */

static stx_ex storage_bytes(struct stx__plan *w, const struct stx_layout *layout, enum stx_dtype t)
{
	return stx_ex_muli(w->x, stx_layout_reach(w->x, layout), stx_dtype_bytes(t));
}

static void put_value(struct stx__plan *w, struct stx_plan_value v, const char *name,
		      const struct stx_layout *layout)
{
	v.rank = layout->rank;
	v.name = stx__plan_string(w, name);
	v.sizes = stx__plan_expr_array(w, layout->sizes, layout->rank);
	v.strides = stx__plan_expr_array(w, layout->strides, layout->rank);
	v.bytes_expr = stx__plan_expr(w, storage_bytes(w, layout, (enum stx_dtype)v.dtype));
	stx_bytes_put(&w->values, &v, sizeof v);
	w->nvalues++;
}

static void put_const_data(struct stx__plan *w, const struct stx_buffer *b,
			   struct stx_plan_value *v)
{
	int64_t bytes;
	if (!stx_ex_is_const(w->x, storage_bytes(w, &b->layout, b->dtype), &bytes) || bytes < 0 ||
	    (uint64_t)bytes > b->data.n) {
		stx__plan_fail(w, STX_E_INTERNAL, b->name, "a constant is shorter than its layout");
		return;
	}
	stx_bytes_align(&w->data, 64);
	v->const_off = (uint32_t)w->data.n;
	if (b->data.n > MAX_PLAN_BYTES - w->data.n)
		stx__plan_fail(w, STX_E_TOO_LARGE, b->name,
			       "the constants of a graph exceed 1 GiB");
	else
		stx_bytes_put(&w->data, b->data.bytes, b->data.n);
}

/* Is buffer b the call's output number b->index itself? */
static int is_own_output(const struct stx__plan *w, const struct stx_buffer *b)
{
	return b->kind == STX_BUF_OUTPUT && b->index < w->l->outputs.n &&
	       w->l->outputs.at[b->index] == b->id;
}

static void write_buffer(struct stx__plan *w, const struct stx_buffer *b)
{
	struct stx_plan_value v = { .dtype = (uint8_t)b->dtype, .index = b->index };
	const struct stx_slot *slot = &w->s->slots[b->id];
	switch (b->kind) {
	case STX_BUF_INPUT:
		v.kind = STX_VALUE_INPUT;
		if (b->index < w->l->g->inputs.n && w->l->g->inputs.at[b->index].node->is_param)
			v.flags = STX_TENSOR_PARAM;
		if (b->heir)
			v.flags |= STX_TENSOR_MUTATED;
		if (b->heir && w->l->g->inputs.at[b->index].node->is_donated)
			v.flags |= STX_TENSOR_DONATED;
		break;
	case STX_BUF_CONST:
		v.kind = STX_VALUE_CONST;
		put_const_data(w, b, &v);
		break;
	case STX_BUF_TEMP:
		if (slot->size == STX_EX_BAD)
			return; /* only inside a kernel */
		v.kind = STX_VALUE_TEMP;
		v.offset_expr = stx__plan_expr(w, slot->offset);
		break;
	case STX_BUF_OUTPUT:
		if (!is_own_output(w, b))
			stx__plan_fail(w, STX_E_INTERNAL, b->name,
				       "an output buffer is no output of the call");
		v.kind = STX_VALUE_OUTPUT;
		break;
	}
	w->value_of[b->id] = w->nvalues;
	put_value(w, v, b->name, &b->layout);
}

/* An input that nothing reads has no buffer; the call has it all the same. */
static void write_dead_input(struct stx__plan *w, uint32_t index)
{
	const struct stx_input *in = &w->l->g->inputs.at[index];
	const struct stx_type *t = &in->node->outs[0];
	stx_ex strides[STX_MAX_DIMS], stride = stx_ex_const(w->x, 1);
	for (uint32_t i = t->rank; i-- > 0;) {
		strides[i] = in->strides ? in->strides[i] : stride;
		stride = stx_ex_mul(w->x, stride, t->sizes[i]);
	}
	struct stx_layout layout = { .rank = t->rank,
				     .sizes = t->sizes,
				     .strides = strides,
				     .offset = stx_ex_const(w->x, 0) };
	struct stx_plan_value v = { .kind = STX_VALUE_INPUT,
				    .dtype = (uint8_t)t->dtype,
				    .index = index,
				    .flags = in->node->is_param ? STX_TENSOR_PARAM : 0 };
	put_value(w, v, in->node->name, &layout);
}

/* An output whose elements are in a donated or written input: that input's memory is the result. */
static void write_alias(struct stx__plan *w, uint32_t output)
{
	const struct stx_buffer *b = w->l->buffers.at[w->l->outputs.at[output]];
	const struct stx_buffer *in = w->l->buffers.at[stx_storage_of(w->s, b->id)];
	if (!stx_output_is_input(w->s, output))
		return;
	struct stx_plan_value v = { .kind = STX_VALUE_ALIAS,
				    .dtype = (uint8_t)b->dtype,
				    .index = output,
				    .index2 = in->index,
				    .offset_expr = stx__plan_expr(w, b->layout.offset) };
	put_value(w, v, b->name, &b->layout);
}

static void write_values(struct stx__plan *w)
{
	uint32_t ninputs = w->l->g->inputs.n;
	uint8_t *seen = STX_NEW_ARRAY(w->arena, uint8_t, ninputs + 1);
	w->value_of = STX_NEW_ARRAY(w->arena, uint32_t, w->l->buffers.n + 1);
	if (!seen || !w->value_of) {
		stx__plan_oom(w);
		return;
	}
	for (uint32_t i = 0; i < w->l->buffers.n && !w->err; i++) {
		const struct stx_buffer *b = w->l->buffers.at[i];
		w->value_of[i] = STX_NONE;
		if (b->kind == STX_BUF_INPUT && b->index < ninputs)
			seen[b->index] = 1;
		if (stx_storage_of(w->s, i) == i)
			write_buffer(w, b);
	}
	for (uint32_t i = 0; i < w->l->buffers.n; i++)
		w->value_of[i] = w->value_of[stx_storage_of(w->s, i)];
	for (uint32_t i = 0; i < w->l->outputs.n && !w->err; i++)
		write_alias(w, i);
	for (uint32_t i = 0; i < ninputs && !w->err; i++)
		if (!seen[i])
			write_dead_input(w, i);
}

/* ---- kernels ---- */

/* What the scheduler chose: each axis, its binding and its size at the hints: "x0:grid=64
 * r0:vector=128"; of a product in tiles its blocking. */
static uint32_t config(struct stx__plan *w, const struct stx_kernel *k)
{
	struct stx_bytes text = { 0 };
	char blocking[STX_CONFIG_BYTES];
	if (k->product) {
		stx_blocking_print(&k->product->b, blocking);
		return stx__plan_string(w, blocking);
	}
	for (uint32_t i = 0; i < k->axes.n; i++) {
		const struct stx_axis *a = &k->axes.at[i];
		stx_bytes_printf(&text, "%s%s:%s=%lld", i ? " " : "", a->name,
				 stx_binding_name(a->binding),
				 (long long)stx_ex_hint(k->ex, a->size));
	}
	uint32_t at = stx__plan_string(w, stx_bytes_cstr(&text));
	w->strings.oom |= text.oom;
	stx_bytes_free(&text);
	return at;
}

static uint32_t scalar_array(struct stx__plan *w, const struct stx_kernel *k)
{
	return stx__plan_expr_array(w, k->scalar_ex.at, k->scalar_ex.n);
}

static void write_prepared(struct stx__plan *w, uint32_t kernel, const struct stx_digest *digest,
			   const struct stx_emit_needs *needs)
{
	for (uint32_t i = 0; i < needs->nprepared; i++) {
		char symbol[64];
		stx_kernel_prepare_symbol(digest, i, symbol);
		struct stx_plan_prepared r = { .kernel = kernel,
					       .symbol = stx__plan_string(w, symbol),
					       .points = needs->prepared[i].points,
					       .bytes = needs->prepared[i].bytes };
		stx_bytes_put(&w->prepared, &r, sizeof r);
		w->nprepared++;
	}
}

/* Grid in points, a block of vector elements. */
static void bind_cpu(struct stx__plan *w, const struct stx_kernel *k, uint32_t number,
		     const struct stx_digest *digest, struct stx_plan_kernel *r)
{
	char symbol[64];
	struct stx_emit_needs needs;
	if (stx_emit_needs(k, &w->cpu, &needs)) {
		stx__plan_oom(w);
		return;
	}
	write_prepared(w, number, digest, &needs);
	r->scratch = (uint16_t)((needs.scratch + STX_SCRATCH_UNIT - 1) / STX_SCRATCH_UNIT);
	stx_kernel_symbol(digest, symbol);
	r->symbol = stx__plan_string(w, symbol);
	r->grid_expr[0] = stx__plan_expr(w, k->grid);
	r->grid_expr[1] = r->grid_expr[2] = stx__plan_expr_const(w, 1);
	for (uint32_t i = 0; i < k->axes.n; i++)
		if (k->axes.at[i].binding == STX_AXIS_VECTOR)
			r->block[0] = w->cpu.vector_bytes / 4;
	r->config = config(w, k);
}

/* The launch table: every configuration of the kernel; its own record has the first, the
 * heuristic's (LC-02). Grids are in blocks. */
static void bind_gpu(struct stx__plan *w, const struct stx_kernel *k, uint32_t number,
		     const struct stx_digest *digest, struct stx_plan_kernel *r)
{
	const struct stx_gpu_choices *all = &w->choices[number];
	for (uint32_t i = 0; i < all->n; i++) {
		struct stx_plan_config c = { .kernel = number, .block = { 1, 1, 1 } };
		char text[STX_GPU_CONFIG_BYTES], symbol[64];
		stx_ex grid[3];
		stx_gpu_grid(k, &all->at[i], grid);
		stx_gpu_config_print(&all->at[i], text);
		stx_gpu_symbol(digest, &all->at[i], symbol);
		c.text = stx__plan_string(w, text);
		c.symbol = stx__plan_string(w, symbol);
		c.block[0] = all->at[i].threads;
		for (int j = 0; j < 3; j++)
			c.grid_expr[j] = stx__plan_expr(w, grid[j]);
		stx_bytes_put(&w->configs, &c, sizeof c);
		w->nconfigs++;
		if (i)
			continue;
		r->target = 1;
		r->config = c.text;
		r->symbol = c.symbol;
		memcpy(r->block, c.block, sizeof r->block);
		memcpy(r->grid_expr, c.grid_expr, sizeof r->grid_expr);
	}
}

/* Kernels that stand in for an external call say so; chosen_by: [kernels.n]. */
static void name_choices(struct stx__plan *w)
{
	uint32_t heuristic = stx__plan_string(w, "heuristic");
	w->chosen_by = STX_NEW_ARRAY(w->arena, uint32_t, w->s->kernels.n + 1);
	if (!w->chosen_by) {
		stx__plan_oom(w);
		return;
	}
	for (uint32_t i = 0; i < w->s->kernels.n; i++) {
		const struct stx_cut_product *p = w->s->kernels.at[i]->product;
		w->chosen_by[i] = p && p->is_given ? stx__plan_string(w, "fixed") : heuristic;
	}
	for (uint32_t i = 0; i < w->s->externals.n; i++) {
		const struct stx_external *c = &w->s->externals.at[i];
		const char *text = stx_arena_printf(w->arena, "%s, else heuristic", c->name);
		if (c->kernel != STX_NONE && text)
			w->chosen_by[c->kernel] = stx__plan_string(w, text);
	}
}

static void write_kernel(struct stx__plan *w, uint32_t number)
{
	const struct stx_kernel *k = w->s->kernels.at[number];
	const struct stx_buffer *first = w->l->buffers.at[w->s->groups.at[number].buffers.at[0]];
	struct stx_digest digest;
	struct stx_plan_kernel r = { .kind = (uint8_t)k->kind, .block = { 1, 1, 1 } };
	if (stx_kernel_digest(k, &digest, w->d)) {
		stx__plan_oom(w);
		return;
	}
	memcpy(r.digest, digest.b, sizeof r.digest);
	r.name = stx__plan_string(w, k->name);
	r.grain_expr = stx__plan_expr(w, k->grain);
	r.nscalars = k->scalars.n;
	r.scalars = scalar_array(w, k);
	r.chosen_by = w->chosen_by[number];
	if (w->is_gpu)
		bind_gpu(w, k, number, &digest, &r);
	else
		bind_cpu(w, k, number, &digest, &r);
	if (first->message)
		r.assertion = stx__plan_string(w, first->message);
	stx_bytes_put(&w->kernels, &r, sizeof r);
	w->nkernels++;
}

/* ---- steps ---- */

static void put_step(struct stx__plan *w, enum stx_plan_step_kind kind, uint32_t a, uint32_t b)
{
	struct stx_plan_step r = { .kind = kind, .a = a, .b = b };
	stx_bytes_put(&w->steps, &r, sizeof r);
	w->nsteps++;
}

static void find_last_uses(struct stx__plan *w)
{
	w->last_use = STX_NEW_ARRAY(w->arena, uint32_t, w->l->buffers.n + 1);
	if (!w->last_use) {
		stx__plan_oom(w);
		return;
	}
	for (uint32_t i = 0; i < w->s->steps.n; i++)
		for (uint32_t j = 0; j < stx_step_nuses(w->s, i); j++)
			w->last_use[stx_storage_of(w->s, stx_step_use(w->s, i, j).buffer)] = i + 1;
	for (uint32_t i = 0; i < w->l->outputs.n; i++) /* an input is the result: the caller's */
		if (w->l->buffers.at[w->l->outputs.at[i]]->base)
			w->last_use[stx_storage_of(w->s, w->l->outputs.at[i])] = STX_NONE;
}

static const struct stx_buffer *memory_of(const struct stx__plan *w, uint32_t buffer)
{
	return w->l->buffers.at[stx_storage_of(w->s, buffer)];
}

static void allocate_before(struct stx__plan *w, uint32_t step)
{
	for (uint32_t j = 0; j < stx_step_nuses(w->s, step); j++) {
		struct stx_use u = stx_step_use(w->s, step, j);
		const struct stx_buffer *b = w->l->buffers.at[u.buffer];
		if (w->value_of[b->id] == STX_NONE)
			stx__plan_fail(w, STX_E_INTERNAL, b->name,
				       "an argument of a step has no memory");
		if (u.is_written && !b->base && memory_of(w, b->id)->kind == STX_BUF_TEMP &&
		    w->s->slots[b->id].first_step == step)
			put_step(w, STX_STEP_ALLOC, w->value_of[b->id], 0);
	}
}

static void release_after(struct stx__plan *w, uint32_t step)
{
	for (uint32_t j = 0; j < stx_step_nuses(w->s, step); j++) {
		const struct stx_buffer *b = memory_of(w, stx_step_use(w->s, step, j).buffer);
		int input =
			b->kind == STX_BUF_INPUT && !w->l->g->inputs.at[b->index].node->is_param;
		if (w->last_use[b->id] == step + 1 && (input || b->kind == STX_BUF_TEMP))
			put_step(w, STX_STEP_RELEASE, w->value_of[b->id], 0);
	}
}

/* What the step does with its arguments; offset in the area of arrays. */
static uint32_t write_uses(struct stx__plan *w, uint32_t step)
{
	uint32_t at = (uint32_t)w->arrays.n;
	for (uint32_t j = 0; j < stx_step_nuses(w->s, step); j++) {
		struct stx_use u = stx_step_use(w->s, step, j);
		stx_bytes_u32(&w->arrays, (u.is_read ? STX_ARG_READ : 0) |
						  (u.is_written ? STX_ARG_WRITTEN : 0));
	}
	return at;
}

/* What an external call has beyond its arguments; offset in the area of arrays. */
static uint32_t write_extern(struct stx__plan *w, uint32_t step)
{
	const struct stx_external *c = &w->s->externals.at[w->s->steps.at[step].index];
	struct stx_plan_extern r = { .nattrs = c->nattrs,
				     .attrs = stx__plan_expr_array(w, c->attrs, c->nattrs),
				     .workspace = c->workspace == STX_NONE
							  ? STX_PLAN_NONE
							  : w->value_of[c->workspace],
				     .kernel = c->kernel == STX_NONE ? STX_PLAN_NONE : c->kernel,
				     .uses = write_uses(w, step) };
	uint32_t at = (uint32_t)w->arrays.n;
	stx_bytes_put(&w->arrays, &r, sizeof r);
	return at;
}

static void write_call(struct stx__plan *w, uint32_t step)
{
	const struct stx_sched_step *t = &w->s->steps.at[step];
	struct stx_plan_step r = { .kind = STX_STEP_LAUNCH, .a = t->index };
	allocate_before(w, step);
	if (t->kind == STX_SCHED_EXTERNAL) {
		r.kind = STX_STEP_EXTERN;
		r.a = stx__plan_string(w, w->s->externals.at[t->index].name);
		r.b = write_extern(w, step);
		r.covers = stx_step_covers(w->s, step);
	} else if (w->is_gpu) {
		r.b = write_uses(w, step);
	}
	r.nargs = stx_step_nuses(w->s, step);
	r.args = (uint32_t)w->arrays.n;
	for (uint32_t j = 0; j < r.nargs; j++)
		stx_bytes_u32(&w->arrays, w->value_of[stx_step_use(w->s, step, j).buffer]);
	stx_bytes_put(&w->steps, &r, sizeof r);
	w->nsteps++;
}

/* An output that is another value: a copy into memory of its own (outputs never share). */
static void write_copy(struct stx__plan *w, uint32_t output)
{
	const struct stx_buffer *b = w->l->buffers.at[w->l->outputs.at[output]];
	stx_ex strides[STX_MAX_DIMS], stride = stx_ex_const(w->x, 1);
	for (uint32_t j = b->layout.rank; j-- > 0;) {
		strides[j] = stride;
		stride = stx_ex_mul(w->x, stride, b->layout.sizes[j]);
	}
	struct stx_layout dense = { .rank = b->layout.rank,
				    .sizes = b->layout.sizes,
				    .strides = strides,
				    .offset = stx_ex_const(w->x, 0) };
	struct stx_plan_value v = { .kind = STX_VALUE_OUTPUT,
				    .dtype = (uint8_t)b->dtype,
				    .index = output };
	uint32_t value = w->nvalues;
	put_value(w, v, b->name, &dense);
	if (w->value_of[b->id] != STX_NONE) /* else it has no elements */
		put_step(w, STX_STEP_COPY, w->value_of[b->id], value);
}

static void write_steps(struct stx__plan *w)
{
	find_last_uses(w);
	for (uint32_t i = 0; i < w->s->steps.n && !w->err; i++) {
		const struct stx_sched_step *t = &w->s->steps.at[i];
		if (t->kind == STX_SCHED_COPY)
			write_copy(w, t->index);
		else
			write_call(w, i);
		if (!w->err)
			release_after(w, i);
	}
}

/* ---- putting it together ---- */

struct area {
	struct stx_bytes *from;
	size_t align;
	uint32_t off;
};

static void shift_values(struct stx__plan *w, uint32_t arrays, uint32_t strings)
{
	for (uint32_t i = 0; i < w->nvalues; i++) {
		struct stx_plan_value *v = (struct stx_plan_value *)(void *)w->values.at + i;
		v->name += strings;
		v->sizes += arrays;
		v->strides += arrays;
	}
}

static void shift_kernels(struct stx__plan *w, uint32_t arrays, uint32_t strings)
{
	for (uint32_t i = 0; i < w->nkernels; i++) {
		struct stx_plan_kernel *k = (struct stx_plan_kernel *)(void *)w->kernels.at + i;
		k->name += strings;
		k->symbol += strings;
		k->config += strings;
		k->chosen_by += strings;
		k->assertion += k->assertion ? strings : 0;
		k->scalars += arrays;
	}
}

/* Offsets were relative to their areas; now they are from the start of the plan. */
static void shift_tables(struct stx__plan *w, uint32_t arrays, uint32_t code, uint32_t strings)
{
	shift_values(w, arrays, strings);
	shift_kernels(w, arrays, strings);
	for (uint32_t i = 0; i < w->nconfigs; i++) {
		struct stx_plan_config *c = (struct stx_plan_config *)(void *)w->configs.at + i;
		c->text += strings;
		c->symbol += strings;
	}
	for (uint32_t i = 0; i < w->nprepared; i++)
		((struct stx_plan_prepared *)(void *)w->prepared.at)[i].symbol += strings;
	for (uint32_t i = 0; i < w->nsyms; i++)
		((struct stx_plan_sym *)(void *)w->syms.at)[i].name += strings;
	for (uint32_t i = 0; i < w->nexprs; i++)
		((struct stx_plan_expr *)(void *)w->exprs.at)[i].off += code;
	for (uint32_t i = 0; i < w->nsteps; i++) {
		struct stx_plan_step *s = (struct stx_plan_step *)(void *)w->steps.at + i;
		if (s->kind == STX_STEP_LAUNCH || s->kind == STX_STEP_EXTERN)
			s->args += arrays;
		if (s->kind == STX_STEP_LAUNCH && w->is_gpu)
			s->b += arrays;
		if (s->kind != STX_STEP_EXTERN)
			continue;
		struct stx_plan_extern *c = (struct stx_plan_extern *)(void *)(w->arrays.at + s->b);
		c->attrs += arrays;
		c->uses += arrays;
		s->a += strings;
		s->b += arrays;
	}
}

static stx_err assemble(struct stx__plan *w, struct stx_plan_header *h, struct stx_bytes *out)
{
	struct area a[] = { { &w->syms, 8, 0 },   { &w->values, 8, 0 },  { &w->kernels, 8, 0 },
			    { &w->steps, 8, 0 },  { &w->exprs, 8, 0 },   { &w->guards, 4, 0 },
			    { &w->arrays, 4, 0 }, { &w->code, 1, 0 },    { &w->strings, 1, 0 },
			    { &w->data, 64, 0 },  { &w->configs, 4, 0 }, { &w->prepared, 8, 0 } };
	struct stx_plan_tuning tuning = { w->nconfigs, 0 };
	struct stx_plan_preparing preparing = { w->nprepared, 0 };
	size_t at =
		sizeof *h + (w->is_gpu ? sizeof tuning : 0) + (w->nprepared ? sizeof preparing : 0);
	for (unsigned i = 0; i < sizeof a / sizeof *a; i++) {
		at = (at + a[i].align - 1) / a[i].align * a[i].align;
		a[i].off = (uint32_t)at;
		at += a[i].from->n;
		if (a[i].from->oom)
			return stx__plan_oom(w);
		if (at > MAX_PLAN_BYTES)
			return stx__plan_fail(w, STX_E_TOO_LARGE, NULL, "the plan exceeds 1 GiB");
	}
	h->total_bytes = (uint32_t)at;
	h->syms_off = a[0].off;
	h->values_off = a[1].off;
	h->kernels_off = a[2].off;
	h->steps_off = a[3].off;
	h->exprs_off = a[4].off;
	h->guards_off = a[5].off;
	h->strings_off = a[8].off;
	h->data_off = a[9].off;
	tuning.configs_off = a[10].off;
	preparing.prepared_off = a[11].off;
	shift_tables(w, a[6].off, a[7].off, a[8].off);
	size_t start = out->n;
	stx_bytes_put(out, h, sizeof *h);
	if (w->is_gpu)
		stx_bytes_put(out, &tuning, sizeof tuning);
	if (w->nprepared)
		stx_bytes_put(out, &preparing, sizeof preparing);
	for (unsigned i = 0; i < sizeof a / sizeof *a; i++) {
		while (!out->oom && out->n - start < a[i].off)
			stx_bytes_u8(out, 0);
		stx_bytes_put(out, a[i].from->at, a[i].from->n);
	}
	return out->oom ? stx__plan_oom(w) : STX_E_OK;
}

/* What the host must offer to run the code. */
static uint32_t host_flags(const struct stx__plan *w)
{
	if (w->is_gpu)
		return STX_PLAN_CUDA | STX_PLAN_CONFIGS | STX_PLAN_ALIGNED;
	return stx_cpu_target_flags(&w->cpu) | (w->nprepared ? STX_PLAN_PREPARED : 0);
}

static stx_err write_plan(struct stx__plan *w, struct stx_bytes *out)
{
	name_choices(w);
	if (!w->err)
		stx__plan_syms(w);
	if (!w->err)
		write_values(w);
	for (uint32_t i = 0; i < w->s->kernels.n && !w->err; i++)
		write_kernel(w, i);
	if (!w->err)
		write_steps(w);
	uint32_t workspace = stx__plan_expr(w, w->s->workspace);
	if (w->err)
		return w->err;
	struct stx_plan_header h = {
		.magic = STX_PLAN_MAGIC,
		.version = STX_ABI_VERSION,
		.nsyms = w->nsyms,
		.nvalues = w->nvalues,
		.nkernels = w->nkernels,
		.nsteps = w->nsteps,
		.nexprs = w->nexprs,
		.nguards = w->nguards,
		.ninputs = w->l->g->inputs.n,
		.noutputs = w->l->outputs.n,
		.workspace_expr = workspace,
		.strings_bytes = (uint32_t)w->strings.n,
		.data_bytes = (uint32_t)w->data.n,
		.flags = host_flags(w),
		.bytes_read = w->s->fused.bytes_read,
		.bytes_written = w->s->fused.bytes_written,
		.bytes_min = w->s->bytes_min,
	};
	return assemble(w, &h, out);
}

stx_err stx_plan_write(const struct stx_schedule *s, const char *target,
		       const struct stx_gpu_choices *choices, struct stx_bytes *out,
		       struct stx_diag *d)
{
	struct stx__plan w = {
		.s = s, .l = s->loops, .x = s->loops->ex, .arena = s->loops->g->arena, .d = d
	};
	w.is_gpu = stx_gpu_is_target(target);
	w.choices = choices;
	stx_err err = w.is_gpu ? stx_gpu_target_parse(target, &w.gpu, d)
			       : stx_cpu_target_parse(target, &w.cpu, d);
	if (!err && w.is_gpu && !choices)
		err = stx__plan_fail(&w, STX_E_INTERNAL, NULL, "no launch configurations");
	if (!err)
		err = write_plan(&w, out);
	struct stx_bytes *all[] = { &w.syms,    &w.values, &w.kernels, &w.steps,
				    &w.exprs,   &w.guards, &w.arrays,  &w.code,
				    &w.strings, &w.data,   &w.configs, &w.prepared };
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		stx_bytes_free(all[i]);
	return err;
}
