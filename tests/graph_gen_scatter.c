/* graph_gen_scatter.c: calls of operators that write at run-time indices or through views, with
 * operands that fit each other. */
#include <string.h>

#include "graph_gen_impl.h"

/* Scatters: an index tensor no larger than self, values that fit. Indices are 0 and 1 (test
 * inputs). */
static struct stx_node *scatter_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	static const char *const reduces[] = { "sum", "prod", "amax", "amin", "mean" };
	const struct stx_op_info *info = stx_op_info(op);
	int rank = 1 + gen_pick(seed, 3), dim = gen_pick(seed, rank),
	    writes = info->nparams > 2 && op >= STX_OP_INDEX_ADD && op <= STX_OP_INDEX_FILL;
	int64_t xs[3], is[3], n = gen_pick(seed, 4);
	enum stx_dtype t = gen_dtype(seed);
	struct stx_arg args[16];
	for (int i = 0; i < rank; i++) {
		xs[i] = 2 + gen_pick(seed, 3);
		is[i] = writes     ? xs[i]
			: i == dim ? gen_pick(seed, 6)
				   : 1 + gen_pick(seed, (int)xs[i]);
	}
	if (writes || op == STX_OP_INDEX_PUT)
		is[dim] = n;
	int whole = op == STX_OP_INDEX_PUT || writes;
	struct stx_node *x = stx_graph_input(g, NULL, stx_type_make(g, t, rank, xs), NULL, 0, NULL);
	for (uint32_t i = 0; i < info->nparams; i++)
		args[i] = gen_arg(g, &info->params[i], seed);
	struct stx_node *index =
		stx_graph_input(g, NULL,
				stx_type_make(g, gen_pick(seed, 4) ? STX_I64 : STX_I32,
					      whole ? 1 : rank, whole ? &n : is),
				NULL, 0, NULL);
	if (op == STX_OP_INDEX_PUT) {
		struct stx_val list[3] = { { NULL, 0 } };
		list[dim] = stx_val(index, 0);
		if (gen_pick(seed, 2))
			list[gen_pick(seed, rank)] = stx_val(index, 0);
		args[1] = stx_arg_tensors(g, list, (uint32_t)rank);
		struct stx_node *like = stx_graph_call(
			g, STX_OP_INDEX, NULL,
			(struct stx_arg[]){ stx_arg_tensor(stx_val(x, 0)), args[1] }, 2, NULL);
		if (!like)
			return NULL;
		struct stx_type to = { .dtype = t,
				       .rank = like->outs[0].rank,
				       .sizes = like->outs[0].sizes };
		args[2] = stx_arg_tensor(stx_val(stx_graph_input(g, NULL, to, NULL, 0, NULL), 0));
	} else {
		args[1] = stx_arg_int(g, dim);
		args[2] = stx_arg_tensor(stx_val(index, 0));
		if (info->params[3].kind == STX_PARAM_TENSOR)
			args[3] = stx_arg_tensor(
				stx_val(stx_graph_input(g, NULL, stx_type_make(g, t, rank, is),
							NULL, 0, NULL),
					0));
	}
	if (op == STX_OP_SCATTER_REDUCE)
		args[4] = stx_arg_str(g, reduces[gen_pick(seed, 5)]);
	args[0] = stx_arg_tensor(stx_val(x, 0));
	return stx_graph_call(g, op, NULL, args, info->nparams, NULL);
}

/* Writes through a view of x: src has the shape of what the view reads. */
static struct stx_node *through_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	enum stx_op read = op == STX_OP_SLICE_SCATTER    ? STX_OP_SLICE
			   : op == STX_OP_SELECT_SCATTER ? STX_OP_SELECT
							 : STX_OP_DIAGONAL;
	const struct stx_op_info *info = stx_op_info(read);
	struct stx_arg args[8];
	int64_t xs[3] = { 1 + gen_pick(seed, 4), 1 + gen_pick(seed, 4), 1 + gen_pick(seed, 4) };
	enum stx_dtype t = gen_dtype(seed);
	struct stx_node *x = stx_graph_input(
		g, NULL, stx_type_make(g, t, 1 + gen_pick(seed, 3), xs), NULL, 0, NULL);
	args[0] = stx_arg_node(x);
	for (uint32_t i = 1; i < info->nparams; i++)
		args[i] = gen_arg(g, &info->params[i], seed);
	struct stx_node *like = stx_graph_call(g, read, NULL, args, info->nparams, NULL);
	if (!like)
		return NULL;
	struct stx_type to = { .dtype = t,
			       .rank = like->outs[0].rank,
			       .sizes = like->outs[0].sizes };
	memmove(args + 2, args + 1, (info->nparams - 1) * sizeof *args);
	args[1] = stx_arg_node(stx_graph_input(g, NULL, to, NULL, 0, NULL));
	return stx_graph_call(g, op, NULL, args, info->nparams + 1, NULL);
}

/* An embedding's gradient, whose indices are 0 and 1, and masked_scatter. */
static struct stx_node *table_call(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	static const enum stx_dtype floats[] = { STX_F32, STX_F64, STX_F16 };
	enum stx_dtype t = floats[gen_pick(seed, 3)];
	int64_t s[4] = { 1 + gen_pick(seed, 3), 1 + gen_pick(seed, 3), 2, 1 + gen_pick(seed, 3) };
	int rank = 3 + gen_pick(seed, 2);
	struct stx_arg args[8];
	if (op == STX_OP_MASKED_SCATTER) {
		int64_t all = s[0] * s[1] + gen_pick(seed, 3);
		args[0] = stx_arg_node(
			stx_graph_input(g, NULL, stx_type_make(g, t, 2, s), NULL, 0, NULL));
		args[1] = stx_arg_node(stx_graph_input(
			g, NULL, stx_type_make(g, STX_BOOL, 1 + gen_pick(seed, 2), s), NULL, 0,
			NULL));
		args[2] = stx_arg_node(
			stx_graph_input(g, NULL, stx_type_make(g, t, 1, &all), NULL, 0, NULL));
		return stx_graph_call(g, op, NULL, args, 3, NULL);
	}
	args[0] = stx_arg_node(
		stx_graph_input(g, NULL, stx_type_make(g, t, rank, s + 4 - rank), NULL, 0, NULL));
	args[1] = stx_arg_node(stx_graph_input(
		g, NULL, stx_type_make(g, STX_I64, rank - 1, s + 4 - rank), NULL, 0, NULL));
	args[2] = stx_arg_int(g, 2 + gen_pick(seed, 3));
	args[3] = stx_arg_int(g, gen_pick(seed, 3) - 1);
	args[4] = stx_arg_bool(gen_pick(seed, 2));
	return stx_graph_call(g, op, NULL, args, 5, NULL);
}

int gen_is_scatter(enum stx_op op)
{
	return stx_op_info(op)->category == STX_CAT_SCATTER;
}

struct stx_node *gen_scatter(struct stx_graph *g, uint64_t *seed, enum stx_op op)
{
	switch (op) {
	case STX_OP_SLICE_SCATTER:
	case STX_OP_SELECT_SCATTER:
	case STX_OP_DIAGONAL_SCATTER: return through_call(g, seed, op);
	case STX_OP_MASKED_SCATTER:
	case STX_OP_EMBEDDING_BACK: return table_call(g, seed, op);
	default: return scatter_call(g, seed, op);
	}
}
