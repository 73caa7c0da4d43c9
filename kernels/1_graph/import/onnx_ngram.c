/* onnx_ngram.c: TfIdfVectorizer: counts of n-grams of integers.
 *
 * For each length n and each distance between its elements, the row is compared with all n-grams of
 * the pool at every place: a matrix [places, n-grams], summed over the places. Source: ONNX
 * TfIdfVectorizer 9. */
#include "onnx_import.h"

#include <string.h>

#define NGRAM_MAX   64    /* elements of an n-gram, and distances between them */
#define COLUMNS_MAX 65536 /* of the result */

struct ngrams {
	const int64_t *starts, *columns, *pool;
	int nstarts, ncolumns, npool;
	int64_t least, most, skips, width;
};

static stx_err read_ngrams(struct onnx *c, struct ngrams *g)
{
	if (onnx_attr(c, "pool_strings"))
		return onnx_fail(c, STX_E_UNSUPPORTED,
				 "operator TfIdfVectorizer: strings are not supported");
	g->nstarts = onnx_ints(c, "ngram_counts", &g->starts);
	g->ncolumns = onnx_ints(c, "ngram_indexes", &g->columns);
	g->npool = onnx_ints(c, "pool_int64s", &g->pool);
	g->least = onnx_int(c, "min_gram_length", 0);
	g->most = onnx_int(c, "max_gram_length", 0);
	g->skips = onnx_int(c, "max_skip_count", 0);
	if (g->nstarts < 1 || g->nstarts > NGRAM_MAX || g->ncolumns < 1 || g->npool < 1 ||
	    g->least < 1 || g->most < g->least || g->most > NGRAM_MAX || g->skips < 0 ||
	    g->skips > NGRAM_MAX)
		return onnx_fail(
			c, STX_E_INVALID,
			"ngram_counts, ngram_indexes, pool_int64s, min_gram_length, "
			"max_gram_length and max_skip_count are needed, n-grams of 1 to %d",
			NGRAM_MAX);
	for (int i = 0; i < g->ncolumns; i++) {
		if (g->columns[i] < 0 || g->columns[i] >= COLUMNS_MAX)
			return onnx_fail(c, STX_E_INVALID, "ngram_indexes has %lld; 0 to %d are",
					 (long long)g->columns[i], COLUMNS_MAX - 1);
		g->width = g->columns[i] >= g->width ? g->columns[i] + 1 : g->width;
	}
	return STX_E_OK;
}

/* Counts [rows, n-grams] of the n-grams of length n that start at pool[from]. */
static V count_ngrams(struct onnx *c, const struct ngrams *g, V x, int64_t n, int64_t from,
		      int64_t grams)
{
	int64_t s[STX_MAX_DIMS], dim = 1, zero[2];
	onnx_sizes(c, x, s);
	int64_t *key = STX_NEW_ARRAY(c->arena, int64_t, (size_t)grams);
	if (!key) {
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		return NO_V;
	}
	zero[0] = s[0];
	zero[1] = grams;
	V sum = onnx_full(c, zero, 2, 0, STX_F32);
	for (int64_t step = 1; step <= (n == 1 ? 1 : g->skips + 1) && !c->err; step++) {
		int64_t places = s[1] - (n - 1) * step;
		V all = NO_V;
		for (int64_t j = 0; j < n && places > 0; j++) {
			for (int64_t i = 0; i < grams; i++)
				key[i] = g->pool[from + i * n + j];
			V at = onnx_slice(c, x, 1, j * step, j * step + places, 1);
			V same = onnx_2(c, STX_OP_EQ, onnx_unsqueeze(c, at, 2),
					onnx_ints_const(c, key, (int)grams));
			all = all.node ? onnx_2(c, STX_OP_LOGICAL_AND, all, same) : same;
		}
		if (all.node)
			sum = onnx_add(c, sum,
				       onnx_reduce(c, STX_OP_SUM_DIM, onnx_cast(c, all, STX_F32),
						   &dim, 1, 0));
	}
	return sum;
}

/* TF: counts; IDF: weights where the count is not 0; TFIDF: both multiplied. Weights go with the
 * columns of the result. */
static V weigh(struct onnx *c, V counts, int64_t width)
{
	const char *mode = onnx_str(c, "mode", "TF");
	const Onnx__AttributeProto *w = onnx_attr(c, "weights");
	V weights = onnx_number(c, 1, STX_F32);
	if (!strcmp(mode, "TF"))
		return counts;
	if (strcmp(mode, "IDF") && strcmp(mode, "TFIDF")) {
		onnx_unsupported_attr(c, "mode", mode);
		return NO_V;
	}
	if (w && w->n_floats) {
		if ((int64_t)w->n_floats < width) {
			onnx_fail(c, STX_E_INVALID, "%zu weights for %lld columns", w->n_floats,
				  (long long)width);
			return NO_V;
		}
		weights = onnx_constant(c, NULL, STX_F32, 1, &width, w->floats, (size_t)width * 4);
	}
	V zero = onnx_number(c, 0, STX_F32);
	if (!strcmp(mode, "TFIDF"))
		return onnx_mul(c, counts, weights);
	return onnx_where(c, onnx_2(c, STX_OP_GT, counts, zero), weights, zero);
}

static stx_err map_tfidf(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), parts[NGRAM_MAX + 1];
	struct ngrams g = { 0 };
	int64_t s[STX_MAX_DIMS], gram = 0, have = 0;
	uint32_t n = 0;
	int rank = onnx_sizes(c, x, s);
	if (c->err || read_ngrams(c, &g))
		return c->err;
	if (rank > 2 || onnx_is_float(x))
		return onnx_fail(c, STX_E_INVALID, "the input must be integers of rank 1 or 2");
	int64_t row[2] = { rank == 2 ? s[0] : 1, rank ? s[rank - 1] : 1 };
	int64_t last[2] = { row[0], g.width };
	int64_t *from = STX_NEW_ARRAY(c->arena, int64_t, (size_t)g.width);
	if (!from)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	x = onnx_view(c, onnx_cast(c, x, STX_I64), row, 2);
	for (int64_t i = 0; i < g.width; i++)
		from[i] = 0; /* a column of zeros */
	parts[n++] = onnx_full(c, (int64_t[]){ row[0], 1 }, 2, 0, STX_F32);
	for (int i = 0; i < g.nstarts && !c->err; i++) {
		int64_t length = i + 1, a = g.starts[i];
		int64_t b = i + 1 < g.nstarts ? g.starts[i + 1] : g.npool;
		if (a < 0 || b < a || b > g.npool || (b - a) % length)
			return onnx_fail(c, STX_E_INVALID,
					 "ngram_counts %lld to %lld are not %lld-grams of the pool",
					 (long long)a, (long long)b, (long long)length);
		int64_t grams = (b - a) / length;
		if (gram + grams > g.ncolumns)
			return onnx_fail(c, STX_E_INVALID,
					 "ngram_indexes has fewer than %lld numbers",
					 (long long)(gram + grams));
		if (grams && length >= g.least && length <= g.most) {
			for (int64_t k = 0; k < grams; k++)
				from[g.columns[gram + k]] = ++have;
			parts[n++] = count_ngrams(c, &g, x, length, a, grams);
		}
		gram += grams;
	}
	V counts = onnx_index_select(c, onnx_cat(c, parts, n, 1), 1,
				     onnx_ints_const(c, from, (int)g.width));
	out[0] = onnx_view(c, weigh(c, counts, g.width), rank == 2 ? last : last + 1,
			   rank == 2 ? 2 : 1);
	return c->err;
}

const struct onnx_mapping onnx_ngram_map[] = {
	{ "TfIdfVectorizer", map_tfidf, 0 },
	{ NULL, NULL, 0 },
};
