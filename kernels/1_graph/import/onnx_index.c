/* onnx_index.c: ONNX operators that read at computed positions. */
#include "onnx_import.h"

static stx_err map_gather(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), index = onnx_in(c, 1);
	out[0] = onnx_index_select(c, x, onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(x)), index);
	return c->err;
}

static stx_err map_gather_elements(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), index = onnx_in(c, 1);
	int axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(x));
	if (c->err)
		return c->err;
	V i = onnx_wrap_index(c, index, onnx_dim(c, x, axis));
	if (c->err)
		return c->err;
	struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, axis), stx_arg_tensor(i) };
	out[0] = onnx_call(c, STX_OP_GATHER, args, 3);
	return c->err;
}

/* Index tuples become flat row numbers of the data viewed as [batch * indexed dims, rest]. */
static stx_err map_gather_nd(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), index = onnx_in(c, 1);
	int64_t have[STX_MAX_DIMS], isz[STX_MAX_DIMS], want[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, have), irank = onnx_sizes(c, index, isz);
	int batch = (int)onnx_int(c, "batch_dims", 0), n = 0;
	if (c->err)
		return c->err;
	if (irank < 1 || batch < 0 || batch >= irank || batch + isz[irank - 1] > rank)
		return onnx_fail(c, STX_E_INVALID,
				 "indices of length %lld do not fit a rank %d input",
				 irank ? (long long)isz[irank - 1] : 0, rank);
	int k = (int)isz[irank - 1];
	int64_t nb = onnx_product(have, 0, batch), per = onnx_product(have, batch, batch + k);
	int64_t tuples = onnx_product(isz, batch, irank - 1),
		rest = onnx_product(have, batch + k, rank);
	int64_t rows[2] = { nb * per, rest }, flat[3] = { nb, tuples, k }, bcol[2] = { nb, 1 };
	V i3 = onnx_view(c, onnx_cast(c, index, STX_I64), flat, 3);
	V row = onnx_2(c, STX_OP_MUL, onnx_view(c, onnx_arange(c, 0, nb, 1, STX_I64), bcol, 2),
		       onnx_number(c, (double)per, STX_I64));
	for (int d = 0; d < k && !c->err; d++) {
		int64_t col[2] = { nb, tuples };
		V i = onnx_view(c, onnx_slice(c, i3, 2, d, d + 1, 1), col, 2);
		i = onnx_wrap_index(c, i, have[batch + d]);
		int64_t stride = onnx_product(have, batch + d + 1, batch + k);
		row = onnx_2(c, STX_OP_ADD, row,
			     onnx_2(c, STX_OP_MUL, i, onnx_number(c, (double)stride, STX_I64)));
	}
	for (int d = 0; d < irank - 1; d++)
		want[n++] = isz[d];
	for (int d = batch + k; d < rank && n < STX_MAX_DIMS; d++)
		want[n++] = have[d];
	int64_t count = nb * tuples;
	V r = onnx_index_select(
		c, onnx_view(c, x, rows, 2), 0,
		onnx_view(c, onnx_expand(c, row, (int64_t[]){ nb, tuples }, 2), &count, 1));
	out[0] = onnx_view(c, r, want, n);
	return c->err;
}

/* The first sequence_lens[b] steps of each batch entry in reverse order, the rest as they are. */
static stx_err map_reverse_sequence(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), lengths = onnx_in(c, 1);
	int64_t s[STX_MAX_DIMS], row[STX_MAX_DIMS], column[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, s);
	int batch = onnx_axis(c, onnx_int(c, "batch_axis", 1), rank),
	    time = onnx_axis(c, onnx_int(c, "time_axis", 0), rank);
	if (c->err)
		return c->err;
	if (batch == time || onnx_rank(lengths) != 1 || onnx_dim(c, lengths, 0) != s[batch])
		return onnx_fail(c, STX_E_INVALID,
				 "batch axis %d, time axis %d and the sequence lengths do not fit",
				 batch, time);
	for (int i = 0; i < rank; i++) {
		row[i] = i == time ? s[i] : 1;
		column[i] = i == batch ? s[i] : 1;
	}
	V t = onnx_view(c, onnx_arange(c, 0, s[time], 1, STX_I64), row, rank);
	V n = onnx_view(c, onnx_cast(c, lengths, STX_I64), column, rank);
	V back = onnx_sub(c, onnx_sub(c, n, onnx_number(c, 1, STX_I64)), t);
	V at = onnx_expand(c, onnx_where(c, onnx_2(c, STX_OP_LT, t, n), back, t), s, rank);
	if (c->err)
		return c->err;
	struct stx_arg args[3] = { stx_arg_tensor(x), stx_arg_int(c->g, time), stx_arg_tensor(at) };
	out[0] = onnx_call(c, STX_OP_GATHER, args, 3);
	return c->err;
}

/* Columns of the last dimension; a vector counts as one row. */
static stx_err map_array_feature(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), y = onnx_in(c, 1);
	int64_t s[STX_MAX_DIMS], flat[1] = { 1 };
	int rank = onnx_sizes(c, x, s);
	onnx_sizes(c, y, s);
	flat[0] = onnx_product(s, 0, onnx_rank(y));
	if (!c->err && !rank)
		return onnx_fail(c, STX_E_INVALID, "the input must have rank 1 or more");
	V r = onnx_index_select(c, x, rank - 1, onnx_view(c, y, flat, 1));
	out[0] = rank == 1 ? onnx_unsqueeze(c, r, 0) : r;
	return c->err;
}

const struct onnx_mapping onnx_index_map[] = {
	{ "ReverseSequence", map_reverse_sequence, 0 },
	{ "ai.onnx.ml.ArrayFeatureExtractor", map_array_feature, 0 },
	{ "Gather", map_gather, 0 },
	{ "GatherElements", map_gather_elements, 0 },
	{ "GatherND", map_gather_nd, 0 },
	{ NULL, NULL, 0 },
};
