/* onnx_einsum.c: Einsum as diagonals, sums, permutations and batched matrix products.
 *
 * Labels are letters; the dimensions an ellipsis covers get labels of their own, counted from the
 * right, so that they broadcast as usual. Operands are taken from left to right: what later
 * operands and the result do not name is summed as soon as possible. Source: ONNX Einsum 12. */
#include "onnx_import.h"

#include <ctype.h>
#include <string.h>

#define LABELS   (128 + STX_MAX_DIMS) /* characters, then the ellipsis' dimensions from the right */
#define ELLIPSIS 128
#define OPERANDS 64

struct term { /* a value and what its dimensions are called */
	V v;
	int rank;
	uint8_t label[STX_MAX_DIMS];
};

struct einsum {
	struct term in[OPERANDS], out;
	unsigned n;
	int covered;          /* dimensions of the ellipsis */
	int uses[LABELS];     /* operands still to come, and the result, that name a label */
	int64_t size[LABELS]; /* 1: not seen, or to be broadcast */
};

/* ---- the equation ---- */

/* One term from *at up to ',' or '-' or the end. rank: of the operand, -1 for the result. */
static stx_err read_term(struct onnx *c, struct einsum *e, const char **at, int rank,
			 struct term *t)
{
	int dots = -1, n = 0;
	uint8_t label[STX_MAX_DIMS];
	for (; **at && **at != ',' && **at != '-'; ++*at) {
		if (**at == ' ')
			continue;
		if (**at == '.') {
			if (strncmp(*at, "...", 3) != 0 || dots >= 0)
				return onnx_fail(c, STX_E_INVALID,
						 "attribute equation has a misplaced '.'");
			dots = n;
			*at += 2;
		} else if (!isalpha((unsigned char)**at)) {
			return onnx_fail(c, STX_E_INVALID, "attribute equation has a '%c'", **at);
		} else if (n == STX_MAX_DIMS) {
			return onnx_fail(c, STX_E_TOO_LARGE,
					 "a term of attribute equation has more than %d letters",
					 STX_MAX_DIMS);
		} else {
			label[n++] = (uint8_t) * *at;
		}
	}
	int covered = dots < 0 ? 0 : rank < 0 ? e->covered : rank - n;
	if (covered < 0 || (rank >= 0 && n + covered != rank) || n + covered > STX_MAX_DIMS)
		return onnx_fail(c, STX_E_INVALID,
				 "a term of attribute equation has %d letters for rank %d", n,
				 rank);
	if (rank >= 0 && covered > e->covered)
		e->covered = covered;
	t->rank = 0;
	for (int i = 0; i <= n; i++) {
		for (int k = covered; i == dots && k > 0; k--)
			t->label[t->rank++] = (uint8_t)(ELLIPSIS + k - 1);
		if (i < n)
			t->label[t->rank++] = label[i];
	}
	return STX_E_OK;
}

/* Without "->": the ellipsis, then the letters that occur once, in order. */
static void implicit_result(struct einsum *e)
{
	int count[LABELS] = { 0 };
	e->out.rank = 0;
	for (unsigned i = 0; i < e->n; i++)
		for (int d = 0; d < e->in[i].rank; d++)
			count[e->in[i].label[d]]++;
	for (int k = e->covered; k > 0; k--)
		e->out.label[e->out.rank++] = (uint8_t)(ELLIPSIS + k - 1);
	for (int l = 0; l < ELLIPSIS && e->out.rank < STX_MAX_DIMS; l++)
		if (count[l] == 1)
			e->out.label[e->out.rank++] = (uint8_t)l;
}

static stx_err note_sizes(struct onnx *c, struct einsum *e, const struct term *t)
{
	for (int d = 0; d < t->rank; d++) {
		int64_t n = onnx_dim(c, t->v, d), *s = &e->size[t->label[d]];
		if (n != 1 && *s != 1 && n != *s)
			return onnx_fail(c, STX_E_INVALID,
					 "a label of attribute equation has sizes %lld and %lld",
					 (long long)*s, (long long)n);
		*s = n != 1 ? n : *s;
	}
	return c->err;
}

static stx_err read_equation(struct onnx *c, struct einsum *e)
{
	const char *at = onnx_str(c, "equation", NULL);
	int seen[LABELS] = { 0 };
	e->n = (unsigned)c->n->n_input;
	if (!at || e->n == 0 || e->n > OPERANDS)
		return onnx_fail(c, STX_E_INVALID,
				 "attribute equation and 1 to %d operands are needed", OPERANDS);
	for (int l = 0; l < LABELS; l++)
		e->size[l] = 1;
	for (unsigned i = 0; i < e->n; i++) {
		struct term *t = &e->in[i];
		t->v = onnx_in(c, i);
		if (c->err || read_term(c, e, &at, onnx_rank(t->v), t) || note_sizes(c, e, t))
			return c->err;
		if (*at != (i + 1 < e->n ? ',' : *at == '-' ? '-' : 0))
			return onnx_fail(c, STX_E_INVALID,
					 "attribute equation does not have %u terms", e->n);
		at += *at == ',';
	}
	if (!*at) {
		implicit_result(e);
	} else {
		if (at[1] != '>')
			return onnx_fail(c, STX_E_INVALID, "attribute equation has a '-' alone");
		at += 2;
		if (read_term(c, e, &at, -1, &e->out))
			return c->err;
		if (*at)
			return onnx_fail(c, STX_E_INVALID,
					 "attribute equation goes on after its result: '%s'", at);
	}
	for (unsigned i = 0; i < e->n; i++)
		for (int d = 0; d < e->in[i].rank; d++)
			seen[e->in[i].label[d]] = 1;
	for (int d = 0; d < e->out.rank; d++)
		if (seen[e->out.label[d]]++ != 1)
			return onnx_fail(
				c, STX_E_INVALID,
				"the result of attribute equation repeats a label, or has one "
				"that no operand has");
	return STX_E_OK;
}

/* ---- steps on one operand ---- */

static void drop(struct term *t, int d)
{
	memmove(t->label + d, t->label + d + 1, (size_t)(t->rank - 1 - d));
	t->rank--;
}

/* A label twice in one operand: its diagonal. */
static void take_diagonals(struct onnx *c, struct term *t)
{
	for (int i = 0; i < t->rank && !c->err; i++)
		for (int j = i + 1; j < t->rank && !c->err; j++) {
			uint8_t l = t->label[i];
			if (t->label[j] != l)
				continue;
			if (onnx_dim(c, t->v, i) != onnx_dim(c, t->v, j)) {
				onnx_fail(c, STX_E_INVALID,
					  "a label stands twice over sizes %lld and %lld",
					  (long long)onnx_dim(c, t->v, i),
					  (long long)onnx_dim(c, t->v, j));
				return;
			}
			struct stx_arg a[4] = { stx_arg_tensor(t->v), stx_arg_int(c->g, 0),
						stx_arg_int(c->g, i), stx_arg_int(c->g, j) };
			t->v = onnx_call(c, STX_OP_DIAGONAL, a, 4);
			drop(t, j);
			drop(t, i);
			t->label[t->rank++] = l;
			i = -1;
			break;
		}
}

/* Sums over the labels nobody names any more; drops dimensions of size 1 that only broadcast. */
static void reduce_term(struct onnx *c, const struct einsum *e, struct term *t)
{
	int64_t dims[STX_MAX_DIMS];
	int n = 0;
	enum stx_dtype dtype = onnx_dtype(t->v);
	for (int d = 0; d < t->rank; d++)
		if (!e->uses[t->label[d]])
			dims[n++] = d;
	if (n)
		t->v = onnx_cast(c, onnx_reduce(c, STX_OP_SUM_DIM, t->v, dims, n, 0), dtype);
	while (n-- > 0)
		drop(t, (int)dims[n]);
	for (int d = 0; d < t->rank && !c->err;) {
		int64_t one = d;
		if (onnx_dim(c, t->v, d) != 1 || e->size[t->label[d]] == 1) {
			d++;
			continue;
		}
		struct stx_arg a[2] = { stx_arg_tensor(t->v), stx_arg_ints(c->g, &one, 1) };
		t->v = onnx_call(c, STX_OP_SQUEEZE, a, 2);
		drop(t, d);
	}
}

static int position(const struct term *t, uint8_t label)
{
	for (int d = 0; d < t->rank; d++)
		if (t->label[d] == label)
			return d;
	return -1;
}

/* ---- two operands ---- */

struct groups { /* labels of both; of a alone; of b alone; of both and summed */
	uint8_t both[STX_MAX_DIMS], a[STX_MAX_DIMS], b[STX_MAX_DIMS], sum[STX_MAX_DIMS];
	int nboth, na, nb, nsum;
};

static void sort_labels(const struct einsum *e, const struct term *a, const struct term *b,
			struct groups *g)
{
	memset(g, 0, sizeof *g);
	for (int d = 0; d < a->rank; d++) {
		uint8_t l = a->label[d];
		if (position(b, l) < 0)
			g->a[g->na++] = l;
		else if (e->uses[l])
			g->both[g->nboth++] = l;
		else
			g->sum[g->nsum++] = l;
	}
	for (int d = 0; d < b->rank; d++)
		if (position(a, b->label[d]) < 0)
			g->b[g->nb++] = b->label[d];
}

/* t with its dimensions in the order of the three lists, each list one dimension. */
static V matrices(struct onnx *c, const struct einsum *e, const struct term *t,
		  const uint8_t *const *list, const int *n)
{
	int64_t perm[STX_MAX_DIMS], sizes[3] = { 1, 1, 1 };
	int k = 0;
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < n[i]; j++) {
			perm[k++] = position(t, list[i][j]);
			sizes[i] *= e->size[list[i][j]];
		}
	return onnx_view(c, onnx_permute(c, t->v, perm, k), sizes, 3);
}

/* A product of every pair where nothing is summed: broadcast multiplication. */
static V spread(struct onnx *c, const struct term *t, const struct term *r)
{
	int64_t perm[STX_MAX_DIMS], sizes[STX_MAX_DIMS];
	int k = 0;
	for (int d = 0; d < r->rank; d++) {
		int p = position(t, r->label[d]);
		sizes[d] = p < 0 ? 1 : onnx_dim(c, t->v, p);
		if (p >= 0)
			perm[k++] = p;
	}
	return onnx_view(c, onnx_permute(c, t->v, perm, k), sizes, r->rank);
}

static void multiply(struct onnx *c, const struct einsum *e, struct term *a, const struct term *b)
{
	struct groups g;
	struct term r = { .rank = 0 };
	int64_t sizes[STX_MAX_DIMS];
	sort_labels(e, a, b, &g);
	const uint8_t *parts[] = { g.both, g.a, g.b };
	int counts[] = { g.nboth, g.na, g.nb };
	if (g.nboth + g.na + g.nb > STX_MAX_DIMS) {
		onnx_fail(c, STX_E_TOO_LARGE, "an intermediate result's rank is above %d",
			  STX_MAX_DIMS);
		return;
	}
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < counts[i]; j++) {
			sizes[r.rank] = e->size[parts[i][j]];
			r.label[r.rank++] = parts[i][j];
		}
	if (g.nsum) {
		V x = matrices(c, e, a, (const uint8_t *[]){ g.both, g.a, g.sum },
			       (int[]){ g.nboth, g.na, g.nsum });
		V y = matrices(c, e, b, (const uint8_t *[]){ g.both, g.sum, g.b },
			       (int[]){ g.nboth, g.nsum, g.nb });
		r.v = onnx_view(c, onnx_matmul(c, x, y), sizes, r.rank);
	} else {
		r.v = onnx_mul(c, spread(c, a, &r), spread(c, b, &r));
	}
	*a = r;
}

static void uses_of(struct einsum *e, const struct term *t, int by)
{
	for (int d = 0; d < t->rank; d++)
		e->uses[t->label[d]] += by;
}

static stx_err map_einsum(struct onnx *c, V *out)
{
	struct einsum *e = STX_NEW(c->arena, struct einsum);
	int64_t perm[STX_MAX_DIMS], sizes[STX_MAX_DIMS];
	int k = 0;
	if (!e)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	if (read_equation(c, e))
		return c->err;
	uses_of(e, &e->out, 1);
	for (unsigned i = 0; i < e->n; i++) {
		take_diagonals(c, &e->in[i]);
		uses_of(e, &e->in[i], 1);
	}
	struct term *acc = &e->in[0];
	for (unsigned i = 0; i < e->n && !c->err; i++) {
		uses_of(e, &e->in[i], -1);
		if (i == 0) {
			reduce_term(c, e, acc);
			continue;
		}
		uses_of(e, acc, 1); /* its sums with this operand wait for the product */
		reduce_term(c, e, &e->in[i]);
		uses_of(e, acc, -1);
		multiply(c, e, acc, &e->in[i]);
		reduce_term(c, e, acc);
	}
	for (int d = 0; d < e->out.rank && !c->err; d++) {
		int p = position(acc, e->out.label[d]);
		sizes[d] = p < 0 ? 1 : onnx_dim(c, acc->v, p);
		if (p >= 0)
			perm[k++] = p;
	}
	out[0] = onnx_view(c, onnx_permute(c, acc->v, perm, k), sizes, e->out.rank);
	return c->err;
}

const struct onnx_mapping onnx_einsum_map[] = {
	{ "Einsum", map_einsum, 0 },
	{ NULL, NULL, 0 },
};
