/* property_coverage.c: what random graphs must cover, operator by dtype and operator by layout, and
 * what they have covered.
 *
 * Which cells exist is asked of the type rules: random calls are made in graphs of their own until
 * one is accepted or TRIES are refused. Computed once a process, from fixed seeds. */
#include <stdio.h>
#include <string.h>

#include "passes.h"
#include "property_draw.h"

#define TRIES       60
#define LEAST_PAIRS 12 /* of an operator, so that there are enough for the layouts */
#define TURNS       6  /* of every pair in PROP_ENOUGH graphs */

struct legal {
	uint8_t dtype[STX_OP_COUNT][STX_DTYPE_COUNT];
	uint8_t layout[STX_OP_COUNT][PROP_LAYOUTS];
	enum stx_op ops[STX_OP_COUNT]; /* those drawn */
	uint32_t nops;
	struct pair { /* an operator and a dtype that it takes: its number-th turn */
		enum stx_op op;
		enum stx_dtype dtype;
		uint32_t number;
	} pairs[STX_OP_COUNT * (STX_DTYPE_COUNT + LEAST_PAIRS)];
	uint32_t npairs;
};

/* Operators with effects are left out: what follows a failing assert is not defined. */
static int is_drawn(enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	return info->category != STX_CAT_INPUT &&
	       !(info->tags & (STX_TAG_EFFECT | STX_TAG_REFUSED)) && !prop_is_apart(op);
}

int prop_is_apart(enum stx_op op)
{
	return op == STX_OP_VAR_MEAN || op == STX_OP_ONLINE_SOFTMAX || op == STX_OP_ATTEND ||
	       op == STX_OP_ATAN2_OUT || op == STX_OP_LOGCUMSUMEXP || op == STX_OP_SEARCHSORTED ||
	       op == STX_OP_BUCKETIZE || (op >= STX_OP_CDIST && op <= STX_OP_BATCH_NORM_FUNCTIONAL);
}

/* Parameter of the operand that a cell speaks of. */
static uint32_t operand_at(enum stx_op op)
{
	return op == STX_OP_WHERE || op == STX_OP_POW_BASE;
}

static int is_tensor(enum stx_op op, uint32_t i)
{
	const struct stx_op_info *info = stx_op_info(op);
	return i < info->nparams && info->params[i].kind == STX_PARAM_TENSOR;
}

static int has_operand(enum stx_op op)
{
	const struct stx_op_info *info = stx_op_info(op);
	return is_tensor(op, operand_at(op)) ||
	       (info->nparams && info->params[0].kind == STX_PARAM_TENSORS);
}

/* Whether some random call with this first operand is accepted and really has it. */
static int some_call(struct prop_cell cell, int check_layout)
{
	for (uint32_t i = 0; i < TRIES; i++) {
		struct stx_arena *a = stx_arena_new(0);
		struct prop_case *c = STX_NEW(a, struct prop_case);
		struct draw q = { .rng = (i + 1) * 0x9e3779b97f4a7c15u ^ cell.op,
				  .c = c,
				  .g = stx_graph_new(a),
				  .dims = { 2, 3, 2, 4 },
				  .most_elems = MAX_ELEMS };
		c->arena = a;
		c->g = q.g;
		draw_input(&q, cell.dtype, (const int64_t[]){ 2, 3 }, 2, 0, 0);
		struct stx_node *n = draw_cell(&q, cell);
		int ok = n && (has_operand(cell.op) || n->outs[0].dtype == cell.dtype);
		if (ok && check_layout)
			ok = prop_has_layout(c, prop_cell_operand(n), cell.layout);
		stx_arena_free(a);
		if (ok)
			return 1;
	}
	return 0;
}

static const struct legal *legal(void)
{
	static struct legal l;
	if (l.nops)
		return &l;
	for (int op = 0; op < STX_OP_COUNT; op++) {
		struct prop_cell cell = { .op = (enum stx_op)op, .dtype = STX_DTYPE_NONE };
		if (!is_drawn(cell.op))
			continue;
		l.ops[l.nops++] = cell.op;
		uint32_t before = l.npairs;
		enum stx_dtype some = STX_DTYPE_NONE;
		for (int t = 0; t < STX_DTYPE_COUNT; t++) {
			cell.dtype = (enum stx_dtype)t;
			l.dtype[op][t] = (uint8_t)some_call(cell, 0);
			if (l.dtype[op][t]) {
				l.pairs[l.npairs] =
					(struct pair){ cell.op, cell.dtype, l.npairs - before };
				l.npairs++;
			}
			if (l.dtype[op][t] && (some == STX_DTYPE_NONE || t == STX_F32))
				some = cell.dtype;
		}
		/* few dtypes: more turns of each */
		for (uint32_t k = 0, n = l.npairs - before; n && l.npairs - before < LEAST_PAIRS;
		     k++) {
			l.pairs[l.npairs] = l.pairs[before + k % n];
			l.pairs[l.npairs].number = l.npairs - before;
			l.npairs++;
		}
		for (int k = 0; k < PROP_BROADCAST && has_operand(cell.op); k++) {
			cell.dtype = some;
			cell.layout = (enum prop_layout)k;
			l.layout[op][k] = (uint8_t)(some != STX_DTYPE_NONE && some_call(cell, 1));
		}
		l.layout[op][PROP_BROADCAST] =
			stx_op_info(cell.op)->category == STX_CAT_POINTWISE &&
			is_tensor(cell.op, 0) && is_tensor(cell.op, 1);
	}
	return &l;
}

int prop_takes_dtype(enum stx_op op, enum stx_dtype t)
{
	return legal()->dtype[op][t];
}

int prop_takes_layout(enum stx_op op, enum prop_layout l)
{
	return legal()->layout[op][l];
}

/* The layout that is `turn`-th, counting on and on, of those that op takes. */
static enum prop_layout nth_layout(const struct legal *l, enum stx_op op, uint64_t turn)
{
	uint32_t n = 0;
	for (int k = 0; k < PROP_BROADCAST; k++)
		n += l->layout[op][k];
	turn = n ? turn % n : 0;
	for (int k = 0; n && k < PROP_BROADCAST; k++)
		if (l->layout[op][k] && turn-- == 0)
			return (enum prop_layout)k;
	return PROP_DENSE;
}

struct prop_cell prop_planned_cell(uint64_t i)
{
	const struct legal *l = legal();
	/* a stride coprime to any number of pairs: neighbours differ in category */
	struct pair p = l->pairs[i * 1000003 % l->npairs];
	return (struct prop_cell){ .op = p.op,
				   .dtype = p.dtype,
				   .layout = nth_layout(l, p.op, p.number + i / l->npairs) };
}

uint32_t prop_planned_calls(void)
{
	return (uint32_t)(TURNS * legal()->npairs / PROP_PLANNED) + 1;
}

/* ---- what a call covers ---- */

struct stx_val prop_cell_operand(const struct stx_node *n)
{
	uint32_t i = operand_at(n->op);
	if (n->nargs > i && n->args[i].kind == STX_ARG_TENSOR)
		return n->args[i].u.tensor;
	if (n->nargs && n->args[0].kind == STX_ARG_TENSORS && n->args[0].n)
		return n->args[0].u.tensors[0];
	return stx_val(NULL, 0);
}

/* Elements share memory where a dimension's stride does not pass the dimensions below it. */
static int overlaps(const struct stx_tensor *t)
{
	int order[STX_MAX_DIMS], n = 0;
	int64_t reach = 0;
	for (int i = 0; i < t->rank; i++) {
		int j = n;
		if (t->sizes[i] <= 1)
			continue;
		for (; j > 0 && t->strides[order[j - 1]] > t->strides[i]; j--)
			order[j] = order[j - 1];
		order[j] = i;
		n++;
	}
	for (int i = 0; i < n; i++) {
		if (t->strides[order[i]] <= reach)
			return 1;
		reach += (t->sizes[order[i]] - 1) * t->strides[order[i]];
	}
	return 0;
}

static enum prop_layout input_layout(const struct stx_tensor *t)
{
	enum prop_layout l = t->offset ? PROP_SLICED : PROP_DENSE;
	int64_t step = 1;
	for (int i = 0; i < t->rank; i++)
		if (t->sizes[i] > 1 && t->strides[i] == 0)
			return PROP_EXPANDED;
	if (overlaps(t))
		return PROP_OVERLAP;
	for (int i = t->rank; i-- > 0;) {
		if (t->sizes[i] > 1 && t->strides[i] < step)
			l = PROP_TRANSPOSED;
		else if (t->sizes[i] > 1 && t->strides[i] > step && l == PROP_DENSE)
			l = PROP_SLICED;
		step *= t->sizes[i] ? t->sizes[i] : 1;
	}
	return l;
}

enum prop_layout prop_layout_of(const struct prop_case *c, struct stx_val v)
{
	if (stx_op_info(v.node->op)->category == STX_CAT_VIEW)
		return PROP_VIEW;
	if (v.node->op != STX_OP_PLACEHOLDER)
		return v.node->op == STX_OP_CONSTANT ? PROP_DENSE : PROP_COMPUTED;
	for (uint32_t i = 0; i < c->g->inputs.n; i++)
		if (c->g->inputs.at[i].node == v.node)
			return input_layout(&c->inputs[i]);
	return PROP_DENSE;
}

static int64_t const_of(const struct prop_case *c, const struct stx_type *t, int i)
{
	int64_t v = 0;
	stx_ex_is_const(c->g->ex, t->sizes[i], &v);
	return v;
}

static int has_size(const struct prop_case *c, struct stx_val v, int64_t size)
{
	const struct stx_type *t = stx_val_type(v);
	for (int i = 0; i < t->rank; i++)
		if (const_of(c, t, i) == size)
			return 1;
	return 0;
}

int prop_has_layout(const struct prop_case *c, struct stx_val v, enum prop_layout l)
{
	if (!v.node)
		return 0;
	if (l == PROP_EMPTY || l == PROP_ONE)
		return has_size(c, v, l == PROP_ONE);
	return prop_layout_of(c, v) == l;
}

static void count_operand(struct prop_counts *counts, const struct prop_case *c,
			  const struct stx_node *n, struct stx_val v)
{
	const struct stx_type *x = stx_val_type(v), *o = &n->outs[0];
	uint32_t *at = counts->layouts[n->op];
	at[prop_layout_of(c, v)]++;
	at[PROP_EMPTY] += (uint32_t)has_size(c, v, 0);
	at[PROP_ONE] += (uint32_t)has_size(c, v, 1);
	if (stx_op_info(n->op)->category != STX_CAT_POINTWISE)
		return;
	int broadcast = x->rank != o->rank;
	for (int i = 0; !broadcast && i < x->rank; i++)
		broadcast = const_of(c, x, i) != const_of(c, o, i);
	at[PROP_BROADCAST] += (uint32_t)broadcast;
}

void prop_count(struct prop_counts *counts, const struct prop_case *c)
{
	const uint8_t *live = prop_live(c->arena, c->g);
	counts->graphs++;
	for (uint32_t i = 0; i < c->g->nodes.n; i++) {
		const struct stx_node *n = c->g->nodes.at[i];
		if (n->op == STX_OP_PLACEHOLDER || !n->nouts || !live[i])
			continue;
		struct stx_val x = prop_cell_operand(n);
		counts->calls++;
		counts->dtypes[n->op][x.node ? stx_val_type(x)->dtype : n->outs[0].dtype]++;
		for (uint32_t k = 0; k < n->nargs; k++) {
			const struct stx_arg *a = &n->args[k];
			if (a->kind == STX_ARG_TENSOR)
				count_operand(counts, c, n, a->u.tensor);
			for (uint32_t j = 0; a->kind == STX_ARG_TENSORS && j < a->n; j++)
				if (a->u.tensors[j].node)
					count_operand(counts, c, n, a->u.tensors[j]);
		}
	}
}

/* ---- histograms ---- */

static const char *const layout_names[] = {
	"dense", "transposed", "sliced", "0-stride", "overlap",
	"view",  "inner",      "empty",  "one",      "broadcast"
};

static uint32_t row_sum(const uint32_t *row, uint32_t n)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += row[i];
	return sum;
}

/* Counts in columns; '-' where the rules refuse every call. */
static void print_row(const uint32_t *row, const uint8_t *ok, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (ok[i] || row[i])
			printf(" %4u", row[i]);
		else
			printf("    -");
}

void prop_print_counts(const struct prop_counts *counts)
{
	const struct legal *l = legal();
	printf("calls by dtype of the first operand, '-': refused by the operator's rule\n%-32s",
	       "");
	for (int t = 0; t < STX_DTYPE_COUNT; t++)
		printf(" %4.4s", stx_dtype_name((enum stx_dtype)t) +
					 (strlen(stx_dtype_name((enum stx_dtype)t)) > 4 ? 2 : 0));
	printf("\n");
	for (uint32_t i = 0; i < l->nops; i++) {
		printf("%-32s", stx_op_info(l->ops[i])->overload);
		print_row(counts->dtypes[l->ops[i]], l->dtype[l->ops[i]], STX_DTYPE_COUNT);
		printf("\n");
	}
	printf("operands by layout\n%-32s", "");
	for (int k = 0; k < PROP_LAYOUTS; k++)
		printf(" %4.4s", layout_names[k]);
	printf("\n");
	for (uint32_t i = 0; i < l->nops; i++) {
		if (!has_operand(l->ops[i]))
			continue;
		printf("%-32s", stx_op_info(l->ops[i])->overload);
		print_row(counts->layouts[l->ops[i]], l->layout[l->ops[i]], PROP_LAYOUTS);
		printf("\n");
	}
}

uint32_t prop_missing(const struct prop_counts *counts, uint32_t least)
{
	const struct legal *l = legal();
	uint32_t missing = 0, cells = 0;
	for (uint32_t i = 0; i < l->nops; i++) {
		enum stx_op op = l->ops[i];
		const char *name = stx_op_info(op)->overload;
		if (!row_sum(counts->dtypes[op], STX_DTYPE_COUNT) && missing++ < 20)
			printf("no graph has %s: can property_draw_*.c draw it?\n", name);
		for (int t = 0; t < STX_DTYPE_COUNT; t++) {
			cells += l->dtype[op][t];
			if (l->dtype[op][t] && counts->dtypes[op][t] < least && missing++ < 20)
				printf("%s of %s: %u times\n", name,
				       stx_dtype_name((enum stx_dtype)t), counts->dtypes[op][t]);
		}
		for (int k = 0; k < PROP_LAYOUTS; k++) {
			cells += l->layout[op][k];
			if (l->layout[op][k] && counts->layouts[op][k] < least && missing++ < 20)
				printf("%s of a%s %s operand: %u times\n", name,
				       k == PROP_OVERLAP || k >= PROP_COMPUTED ? "n" : "",
				       layout_names[k], counts->layouts[op][k]);
		}
	}
	printf("%u cells, %u of them below %u\n", cells, missing, least);
	return missing;
}
