/* onnx_shape.c: ONNX operators that build, reshape, select or join tensors. */
#include "onnx_import.h"

#include <math.h>
#include <string.h>

#include "fold.h"
#include "scalar.h"

/* ---- constants and creation ---- */

static stx_err map_constant(struct onnx *c, V *out)
{
	const Onnx__AttributeProto *a;
	if ((a = onnx_attr(c, "value")) && a->t) {
		enum stx_dtype t;
		int rank;
		int64_t sizes[STX_MAX_DIMS];
		const uint8_t *bytes;
		size_t n;
		if (!onnx_tensor_bytes(c, a->t, &t, &rank, sizes, &bytes, &n))
			out[0] = onnx_constant(c, NULL, t, rank, sizes, bytes, n);
	} else if ((a = onnx_attr(c, "value_int"))) {
		out[0] = onnx_constant(c, NULL, STX_I64, 0, NULL, &a->i, 8);
	} else if ((a = onnx_attr(c, "value_float"))) {
		out[0] = onnx_constant(c, NULL, STX_F32, 0, NULL, &a->f, 4);
	} else if ((a = onnx_attr(c, "value_ints"))) {
		int64_t n = (int64_t)a->n_ints;
		out[0] = onnx_constant(c, NULL, STX_I64, 1, &n, a->ints, a->n_ints * 8);
	} else if ((a = onnx_attr(c, "value_floats"))) {
		int64_t n = (int64_t)a->n_floats;
		out[0] = onnx_constant(c, NULL, STX_F32, 1, &n, a->floats, a->n_floats * 4);
	} else {
		return onnx_fail(
			c, STX_E_UNSUPPORTED,
			"operator Constant: only tensor, integer and float values are supported");
	}
	return c->err;
}

static stx_err map_constant_of_shape(struct onnx *c, V *out)
{
	int64_t sizes[STX_MAX_DIMS];
	int n = onnx_known_ints(c, onnx_in(c, 0), "the shape", sizes, STX_MAX_DIMS);
	const Onnx__AttributeProto *a = onnx_attr(c, "value");
	enum stx_dtype t = STX_F32;
	struct stx_arg value = stx_arg_scalar_f(0);
	if (a && a->t && !c->err) {
		int rank;
		int64_t one[STX_MAX_DIMS];
		const uint8_t *bytes;
		size_t bytes_n;
		if (onnx_tensor_bytes(c, a->t, &t, &rank, one, &bytes, &bytes_n))
			return c->err;
		if (!bytes_n)
			return onnx_fail(c, STX_E_INVALID, "attribute value is empty");
		union stx_scalar s = stx_scalar_load(t, bytes);
		value = stx_dtype_is_float(t) ? stx_arg_scalar_f(s.f) : stx_arg_scalar_i(s.i);
	}
	if (c->err)
		return c->err;
	struct stx_arg args[3] = { stx_arg_ints(c->g, sizes, (uint32_t)n), value,
				   stx_arg_dtype(t) };
	out[0] = onnx_call(c, STX_OP_FULL, args, 3);
	return c->err;
}

#define RANGE_MAX 1000000000

static stx_err range_of_floats(struct onnx *c, const V *in, V *out)
{
	double v[3];
	enum stx_dtype t = onnx_dtype(in[0]);
	for (int i = 0; i < 3; i++)
		if (onnx_known_floats(c, in[i], "start, limit and step", &v[i], 1) != 1)
			return onnx_fail(c, STX_E_INVALID,
					 "start, limit and step must be one number each");
	double count = v[2] == 0 ? NAN : ceil((v[1] - v[0]) / v[2]);
	if (!(count < RANGE_MAX))
		return onnx_fail(c, STX_E_INVALID,
				 "the step is 0 or the range has more than %d elements", RANGE_MAX);
	V i = onnx_arange(c, 0, count > 0 ? (int64_t)count : 0, 1, t);
	V scaled = onnx_2(c, STX_OP_MUL, i, onnx_number(c, v[2], t));
	out[0] = onnx_2(c, STX_OP_ADD, scaled, onnx_number(c, v[0], t));
	return c->err;
}

static stx_err map_range(struct onnx *c, V *out)
{
	int64_t v[3];
	V in[3] = { onnx_in(c, 0), onnx_in(c, 1), onnx_in(c, 2) };
	if (!c->err && onnx_is_float(in[0]))
		return range_of_floats(c, in, out);
	for (int i = 0; i < 3; i++)
		if (onnx_known_ints(c, in[i], "start, limit and step", &v[i], 1) != 1)
			return onnx_fail(c, STX_E_INVALID,
					 "start, limit and step must be one number each");
	__int128 span = (__int128)v[1] - v[0], step = v[2];
	if (step == 0)
		return onnx_fail(c, STX_E_INVALID, "the step is 0");
	__int128 count = span / step + (span % step != 0 && (span < 0) == (step < 0));
	if (count > RANGE_MAX)
		return onnx_fail(c, STX_E_TOO_LARGE, "the range has more than %d elements",
				 RANGE_MAX);
	int64_t n = count > 0 ? (int64_t)count : 0;
	out[0] = onnx_arange(c, v[0], v[0] + n * v[2], v[2], onnx_dtype(in[0]));
	return c->err;
}

static stx_err map_shape(struct onnx *c, V *out)
{
	int64_t sizes[STX_MAX_DIMS];
	int rank = onnx_sizes(c, onnx_in(c, 0), sizes);
	int64_t start = onnx_int(c, "start", 0), end = onnx_int(c, "end", rank);
	start = start < 0 ? start + rank : start;
	end = end < 0 ? end + rank : end;
	start = start < 0 ? 0 : start > rank ? rank : start;
	end = end < start ? start : end > rank ? rank : end;
	out[0] = onnx_ints_const(c, sizes + start, (int)(end - start));
	return c->err;
}

static stx_err map_size(struct onnx *c, V *out)
{
	int64_t sizes[STX_MAX_DIMS];
	int rank = onnx_sizes(c, onnx_in(c, 0), sizes);
	int64_t n = onnx_product(sizes, 0, rank);
	out[0] = onnx_constant(c, NULL, STX_I64, 0, NULL, &n, 8);
	return c->err;
}

/* Row and column numbers of an [n,m] matrix, as [n,1] and [1,m]. */
static void row_column(struct onnx *c, int64_t n, int64_t m, V *row, V *column)
{
	*row = onnx_unsqueeze(c, onnx_arange(c, 0, n, 1, STX_I64), 1);
	*column = onnx_arange(c, 0, m, 1, STX_I64);
}

static stx_err map_eye_like(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), row, column;
	int64_t k = onnx_int(c, "k", 0), to = onnx_int(c, "dtype", 0), sizes[STX_MAX_DIMS];
	enum stx_dtype t = to ? stx_onnx_dtype((int)to) : onnx_dtype(x);
	if (onnx_sizes(c, x, sizes) != 2 && !c->err)
		return onnx_fail(c, STX_E_INVALID, "the input must be a matrix");
	if (t == STX_DTYPE_NONE)
		return onnx_unsupported_attr(c, "dtype", stx_onnx_type_name((int)to));
	row_column(c, sizes[0], sizes[1], &row, &column);
	V on = onnx_2(c, STX_OP_EQ, onnx_2(c, STX_OP_ADD, row, onnx_number(c, (double)k, STX_I64)),
		      column);
	out[0] = onnx_cast(c, on, t);
	return c->err;
}

static stx_err map_trilu(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), row, column;
	int64_t k = 0, sizes[STX_MAX_DIMS];
	if (onnx_has(c, 1))
		onnx_known_ints(c, onnx_in(c, 1), "k", &k, 1);
	int rank = onnx_sizes(c, x, sizes);
	if (!c->err && rank < 2)
		return onnx_fail(c, STX_E_INVALID, "the input must have rank 2 or more");
	if (c->err)
		return c->err;
	row_column(c, sizes[rank - 2], sizes[rank - 1], &row, &column);
	V diagonal = onnx_2(c, STX_OP_ADD, row, onnx_number(c, (double)k, STX_I64));
	V keep = onnx_2(c, onnx_int(c, "upper", 1) ? STX_OP_GE : STX_OP_LE, column, diagonal);
	out[0] = onnx_where(c, keep, x, onnx_number(c, 0, onnx_dtype(x)));
	return c->err;
}

static stx_err map_one_hot(struct onnx *c, V *out)
{
	V index = onnx_in(c, 0), values = onnx_in(c, 2);
	struct stx_arg depth_arg;
	int64_t sizes[STX_MAX_DIMS + 1];
	if (!onnx_known_scalar(c, onnx_in(c, 1), "the depth", &depth_arg))
		return c->err;
	int64_t depth = depth_arg.is_float ? (int64_t)depth_arg.u.f : depth_arg.u.i;
	int rank = onnx_rank(index), axis = onnx_axis(c, onnx_int(c, "axis", -1), rank + 1), n = 0;
	V i = onnx_unsqueeze(c, onnx_cast(c, index, STX_I64), axis);
	V negative = onnx_2(c, STX_OP_LT, i, onnx_number(c, 0, STX_I64));
	i = onnx_where(c, negative,
		       onnx_2(c, STX_OP_ADD, i, onnx_number(c, (double)depth, STX_I64)), i);
	for (int d = 0; d <= rank; d++)
		sizes[n++] = d == axis ? depth : 1;
	V k = onnx_view(c, onnx_arange(c, 0, depth, 1, STX_I64), sizes, n);
	int64_t none = 0;
	V off = onnx_view(c, onnx_slice(c, values, 0, 0, 1, 1), &none, 0);
	V on = onnx_view(c, onnx_slice(c, values, 0, 1, 2, 1), &none, 0);
	out[0] = onnx_where(c, onnx_2(c, STX_OP_EQ, i, k), on, off);
	return c->err;
}

/* ---- shapes ---- */

static stx_err map_reshape(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t want[STX_MAX_DIMS], have[STX_MAX_DIMS];
	const int64_t *attr;
	int n, rank = onnx_sizes(c, x, have), unknown = -1;
	if (c->opset < 5) {
		n = onnx_ints(c, "shape", &attr);
		if (n < 0 || n > STX_MAX_DIMS)
			return onnx_fail(c, STX_E_INVALID,
					 "attribute shape is missing or too long");
		memcpy(want, attr, (size_t)n * sizeof *attr);
	} else {
		n = onnx_known_ints(c, onnx_in(c, 1), "the shape", want, STX_MAX_DIMS);
	}
	if (c->err)
		return c->err;
	int64_t known = 1;
	for (int i = 0; i < n; i++) {
		if (want[i] == 0 && !onnx_int(c, "allowzero", 0)) {
			if (i >= rank)
				return onnx_fail(c, STX_E_INVALID,
						 "the shape copies dimension %d of a rank %d input",
						 i, rank);
			want[i] = have[i];
		}
		if (want[i] == -1 && unknown < 0)
			unknown = i;
		else if (want[i] < 0)
			return onnx_fail(c, STX_E_INVALID, "the shape has a negative size");
		else
			known = onnx_times(known, want[i]);
	}
	if (unknown >= 0) {
		int64_t total = onnx_product(have, 0, rank);
		if (known == 0 || total % known)
			return onnx_fail(c, STX_E_INVALID, "%lld elements do not fit the shape",
					 (long long)total);
		want[unknown] = total / known;
	}
	out[0] = onnx_view(c, x, want, n);
	return c->err;
}

static stx_err map_flatten(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t have[STX_MAX_DIMS], axis = onnx_int(c, "axis", 1);
	int rank = onnx_sizes(c, x, have);
	axis = axis < 0 ? axis + rank : axis;
	if (!c->err && (axis < 0 || axis > rank))
		return onnx_fail(c, STX_E_INVALID, "axis %lld is outside rank %d", (long long)axis,
				 rank);
	int64_t want[2] = { onnx_product(have, 0, (int)axis), onnx_product(have, (int)axis, rank) };
	out[0] = onnx_view(c, x, want, 2);
	return c->err;
}

static stx_err map_transpose(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	const int64_t *perm;
	int64_t reversed[STX_MAX_DIMS];
	int rank = onnx_rank(x), n = onnx_ints(c, "perm", &perm);
	if (n < 0) {
		for (int i = 0; i < rank; i++)
			reversed[i] = rank - 1 - i;
		perm = reversed;
		n = rank;
	}
	out[0] = onnx_permute(c, x, perm, n);
	return c->err;
}

/* Axes by attribute before opset 13, then by input 1. -1 when absent. */
static int axes_of(struct onnx *c, int64_t *axes)
{
	const int64_t *attr;
	int n = onnx_ints(c, "axes", &attr);
	if (n >= 0) {
		if (n > STX_MAX_DIMS) {
			onnx_fail(c, STX_E_TOO_LARGE, "more than %d axes", STX_MAX_DIMS);
			return 0;
		}
		memcpy(axes, attr, (size_t)n * sizeof *axes);
		return n;
	}
	return onnx_has(c, 1) ? onnx_known_ints(c, onnx_in(c, 1), "the axes", axes, STX_MAX_DIMS)
			      : -1;
}

static stx_err map_squeeze(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t have[STX_MAX_DIMS], want[STX_MAX_DIMS], axes[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, have), n = axes_of(c, axes), k = 0;
	uint32_t drop = 0;
	for (int i = 0; i < n && !c->err; i++) {
		int a = onnx_axis(c, axes[i], rank);
		if (!c->err && have[a] != 1)
			return onnx_fail(c, STX_E_INVALID, "axis %d has size %lld, not 1", a,
					 (long long)have[a]);
		drop |= 1u << a;
	}
	for (int i = 0; i < rank; i++)
		if (n < 0 ? have[i] != 1 : !(drop >> i & 1))
			want[k++] = have[i];
	out[0] = onnx_view(c, x, want, k);
	return c->err;
}

static stx_err map_unsqueeze(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t have[STX_MAX_DIMS], want[STX_MAX_DIMS], axes[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, have), n = axes_of(c, axes), k = 0;
	uint32_t added = 0;
	if (c->err)
		return c->err;
	if (n < 0 || rank + n > STX_MAX_DIMS)
		return onnx_fail(c, STX_E_INVALID,
				 "axes are missing, or the result's rank is above %d",
				 STX_MAX_DIMS);
	for (int i = 0; i < n && !c->err; i++) {
		int a = onnx_axis(c, axes[i], rank + n);
		if (added >> a & 1)
			return onnx_fail(c, STX_E_INVALID, "axis %d is named twice", a);
		added |= 1u << a;
	}
	for (int i = 0; i < rank + n; i++)
		want[i] = added >> i & 1 ? 1 : have[k++];
	out[0] = onnx_view(c, x, want, rank + n);
	return c->err;
}

static stx_err map_expand(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t have[STX_MAX_DIMS], want[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, have);
	int n = onnx_known_ints(c, onnx_in(c, 1), "the shape", want, STX_MAX_DIMS);
	if (c->err)
		return c->err;
	int64_t full[STX_MAX_DIMS];
	int m = n > rank ? n : rank;
	for (int i = 0; i < m; i++) { /* both ways: a wanted 1 keeps the input's size */
		int64_t h = i < m - rank ? 1 : have[i - (m - rank)];
		int64_t w = i < m - n ? 1 : want[i - (m - n)];
		full[i] = w == 1 ? h : w;
	}
	out[0] = onnx_expand(c, x, full, m);
	return c->err;
}

/* Counts, which in the first opsets have the type of the data, floats too. */
static int known_counts(struct onnx *c, V v, const char *what, int64_t *out, int cap)
{
	double f[256];
	if (c->err || !onnx_is_float(v) || c->opset >= 6)
		return onnx_known_ints(c, v, what, out, cap);
	int n = onnx_known_floats(c, v, what, f, cap < 256 ? cap : 256);
	for (int i = 0; i < n; i++) {
		if (!(f[i] >= 0 && f[i] <= INT32_MAX && f[i] == floor(f[i]))) {
			onnx_fail(c, STX_E_INVALID, "%s must be whole numbers, not %g", what, f[i]);
			return 0;
		}
		out[i] = (int64_t)f[i];
	}
	return n;
}

static stx_err map_tile(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0), repeats = onnx_in(c, 1);
	int64_t have[STX_MAX_DIMS], times[STX_MAX_DIMS], wide[STX_MAX_DIMS], grown[STX_MAX_DIMS];
	int rank = onnx_sizes(c, x, have), n = rank;
	if (c->opset < 6) { /* along one axis */
		int64_t axis = 0, count = 1;
		known_counts(c, repeats, "the repeats", &count, 1);
		known_counts(c, onnx_in(c, 2), "the axis", &axis, 1);
		for (int i = 0; i < rank; i++)
			times[i] = 1;
		axis = onnx_axis(c, axis, rank);
		if (!c->err && rank)
			times[axis] = count;
	} else {
		n = onnx_known_ints(c, repeats, "the repeats", times, STX_MAX_DIMS);
	}
	if (c->err)
		return c->err;
	if (n != rank || 2 * rank > STX_MAX_DIMS)
		return onnx_fail(c, STX_E_INVALID, "%d repeats for a rank %d input", n, rank);
	for (int i = 0; i < rank; i++) { /* [a,b] -> [1,a,1,b] -> [s,a,t,b] -> [s*a,t*b] */
		wide[2 * i] = 1;
		wide[2 * i + 1] = have[i];
	}
	V v = onnx_view(c, x, wide, 2 * rank);
	for (int i = 0; i < rank; i++) {
		wide[2 * i] = times[i];
		grown[i] = onnx_times(times[i], have[i]);
	}
	out[0] = onnx_view(c, onnx_expand(c, v, wide, 2 * rank), grown, rank);
	return c->err;
}

static stx_err map_concat(struct onnx *c, V *out)
{
	V v[1024];
	unsigned n = (unsigned)c->n->n_input;
	if (n == 0 || n > 1024)
		return onnx_fail(c, STX_E_TOO_LARGE, "%u inputs; the limit is 1024", n);
	for (unsigned i = 0; i < n; i++)
		v[i] = onnx_in(c, i);
	int axis = onnx_axis(c, onnx_int(c, "axis", c->opset < 4 ? 1 : 0), onnx_rank(v[0]));
	out[0] = onnx_cat(c, v, n, axis);
	return c->err;
}

static stx_err map_split(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t sizes[256];
	const int64_t *attr;
	int axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(x));
	int n = onnx_ints(c, "split", &attr), k = (int)c->n->n_output;
	if (c->err)
		return c->err;
	int64_t total = onnx_dim(c, x, axis), at = 0;
	if (n > 256)
		return onnx_fail(c, STX_E_TOO_LARGE, "more than 256 parts");
	if (n >= 0)
		memcpy(sizes, attr, (size_t)n * sizeof *sizes);
	else if (onnx_has(c, 1))
		n = known_counts(c, onnx_in(c, 1), "the split", sizes, 256);
	else {
		int64_t parts = onnx_int(c, "num_outputs", k);
		if (parts < 1 || parts > 256)
			return onnx_fail(c, STX_E_INVALID, "num_outputs is %lld", (long long)parts);
		int64_t each = (total + parts - 1) / parts;
		for (n = 0; n < parts; n++) {
			int64_t left = total - each * n;
			sizes[n] = left < 0 ? 0 : left < each ? left : each;
		}
	}
	if (!c->err && n != k)
		return onnx_fail(c, STX_E_INVALID, "%d parts for %d outputs", n, k);
	for (int i = 0; i < n && !c->err; i++) {
		if (sizes[i] < 0 || sizes[i] > total - at)
			return onnx_fail(
				c, STX_E_INVALID, "part %d has size %lld; %lld of %lld are left", i,
				(long long)sizes[i], (long long)(total - at), (long long)total);
		out[i] = onnx_slice(c, x, axis, at, at + sizes[i], 1);
		at += sizes[i];
	}
	if (!c->err && at != total)
		return onnx_fail(c, STX_E_INVALID, "the parts have %lld of %lld in all",
				 (long long)at, (long long)total);
	return c->err;
}

/* One axis of Slice: start, end and step as ONNX gives them; negative steps reverse first. */
static V slice_axis(struct onnx *c, V x, int axis, int64_t start, int64_t end, int64_t step)
{
	int64_t n = onnx_dim(c, x, axis);
	if (c->err)
		return NO_V;
	if (step == 0 || step == INT64_MIN) {
		onnx_fail(c, STX_E_INVALID, "the step of axis %d is 0 or out of range", axis);
		return NO_V;
	}
	start = start < 0 ? start + n : start;
	end = end < 0 ? (end < -n ? -1 : end + n) : end;
	if (step > 0) {
		start = start < 0 ? 0 : start > n ? n : start;
		end = end < start ? start : end > n ? n : end;
		return onnx_slice(c, x, axis, start, end, step > n ? (n ? n : 1) : step);
	}
	start = start >= n ? n - 1 : start; /* indices start, start+step, ... > end */
	end = end < -1 ? -1 : end;
	if (start < 0 || end >= start)
		return onnx_slice(c, x, axis, 0, 0, 1);
	V r = onnx_reverse(c, x, axis);
	int64_t s = -step > n ? n : -step;
	return onnx_slice(c, r, axis, n - 1 - start, n - 1 - end, s);
}

static stx_err map_slice(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t starts[STX_MAX_DIMS], ends[STX_MAX_DIMS], axes[STX_MAX_DIMS], steps[STX_MAX_DIMS];
	const int64_t *s, *e, *a;
	int n, na;
	for (int i = 0; i < STX_MAX_DIMS; i++) {
		axes[i] = i;
		steps[i] = 1;
	}
	if (c->opset < 10) {
		n = onnx_ints(c, "starts", &s);
		if (n < 0 || n > STX_MAX_DIMS || onnx_ints(c, "ends", &e) != n)
			return onnx_fail(
				c, STX_E_INVALID,
				"attributes starts and ends are missing or differ in length");
		memcpy(starts, s, (size_t)n * sizeof *s);
		memcpy(ends, e, (size_t)n * sizeof *e);
		na = onnx_ints(c, "axes", &a);
		if (na == n)
			memcpy(axes, a, (size_t)n * sizeof *a);
	} else {
		n = onnx_known_ints(c, onnx_in(c, 1), "the starts", starts, STX_MAX_DIMS);
		int ne = onnx_known_ints(c, onnx_in(c, 2), "the ends", ends, STX_MAX_DIMS);
		if (!c->err && ne != n)
			return onnx_fail(c, STX_E_INVALID, "%d starts and %d ends", n, ne);
		if (onnx_has(c, 3))
			onnx_known_ints(c, onnx_in(c, 3), "the axes", axes, STX_MAX_DIMS);
		if (onnx_has(c, 4))
			onnx_known_ints(c, onnx_in(c, 4), "the steps", steps, STX_MAX_DIMS);
	}
	for (int i = 0; i < n && !c->err; i++)
		x = slice_axis(c, x, onnx_axis(c, axes[i], onnx_rank(x)), starts[i], ends[i],
			       steps[i]);
	out[0] = x;
	return c->err;
}

/* ---- rearrangements ---- */

static stx_err map_depth_to_space(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t s[STX_MAX_DIMS], b = onnx_int(c, "blocksize", 0);
	const char *mode = onnx_str(c, "mode", "DCR");
	if (onnx_sizes(c, x, s) != 4 && !c->err)
		return onnx_fail(c, STX_E_INVALID, "the input must have rank 4");
	if (!c->err && (b < 1 || s[1] % (b * b)))
		return onnx_fail(c, STX_E_INVALID, "blocksize %lld does not divide the channels",
				 (long long)b);
	if (c->err)
		return c->err;
	int64_t k = s[1] / (b * b), last[4] = { s[0], k, s[2] * b, s[3] * b };
	int64_t dcr[6] = { s[0], b, b, k, s[2], s[3] }, crd[6] = { s[0], k, b, b, s[2], s[3] };
	int64_t pd[6] = { 0, 3, 4, 1, 5, 2 }, pc[6] = { 0, 1, 4, 2, 5, 3 };
	int is_crd = !strcmp(mode, "CRD");
	if (!is_crd && strcmp(mode, "DCR"))
		return onnx_unsupported_attr(c, "mode", mode);
	V v = onnx_permute(c, onnx_view(c, x, is_crd ? crd : dcr, 6), is_crd ? pc : pd, 6);
	out[0] = onnx_view(c, v, last, 4);
	return c->err;
}

static stx_err map_space_to_depth(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int64_t s[STX_MAX_DIMS], b = onnx_int(c, "blocksize", 0);
	const char *mode = onnx_str(c, "mode", "DCR");
	if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
		return onnx_unsupported_attr(c, "mode", mode);
	if (onnx_sizes(c, x, s) != 4 && !c->err)
		return onnx_fail(c, STX_E_INVALID, "the input must have rank 4");
	if (!c->err && (b < 1 || s[2] % b || s[3] % b))
		return onnx_fail(c, STX_E_INVALID, "blocksize %lld does not divide the image",
				 (long long)b);
	if (c->err)
		return c->err;
	int64_t wide[6] = { s[0], s[1], s[2] / b, b, s[3] / b, b }, dcr[6] = { 0, 3, 5, 1, 2, 4 };
	int64_t crd[6] = { 0, 1, 3, 5, 2, 4 };
	int64_t last[4] = { s[0], s[1] * b * b, s[2] / b, s[3] / b };
	out[0] = onnx_view(c,
			   onnx_permute(c, onnx_view(c, x, wide, 6), mode[0] == 'C' ? crd : dcr, 6),
			   last, 4);
	return c->err;
}

const struct onnx_mapping onnx_shape_map[] = {
	{ "Constant", map_constant, 0 },
	{ "ConstantOfShape", map_constant_of_shape, 0 },
	{ "Range", map_range, 0 },
	{ "Shape", map_shape, 0 },
	{ "Size", map_size, 0 },
	{ "EyeLike", map_eye_like, 0 },
	{ "Trilu", map_trilu, 0 },
	{ "OneHot", map_one_hot, 0 },
	{ "Reshape", map_reshape, 0 },
	{ "Flatten", map_flatten, 0 },
	{ "Transpose", map_transpose, 0 },
	{ "Squeeze", map_squeeze, 0 },
	{ "Unsqueeze", map_unsqueeze, 0 },
	{ "Expand", map_expand, 0 },
	{ "Tile", map_tile, 0 },
	{ "Concat", map_concat, 0 },
	{ "Split", map_split, 0 },
	{ "Slice", map_slice, 0 },
	{ "DepthToSpace", map_depth_to_space, 0 },
	{ "SpaceToDepth", map_space_to_depth, 0 },
	{ NULL, NULL, 0 },
};
