/* onnx_sequence.c: sequences and optionals, lists that exist only while importing.
 *
 * A sequence is a value whose node stands in no graph (struct onnx_sequence): operators that take
 * tensors never see one (onnx_in refuses it), names, functions and subgraphs carry it along.
 * Lengths and positions must be known. Immutable: an insertion copies, so unrolled loops are
 * bounded by onnx_body_run and the arena. Source: ONNX sequence operators 11 to 24, Optional 15
 * to 18. */
#include "onnx_import.h"

#include <string.h>

#define LENGTH_MAX 65536

const struct onnx_sequence *onnx_as_sequence(V v)
{
	return v.node && v.node->op == STX_OP_COUNT
		       ? (const struct onnx_sequence *)(const void *)v.node
		       : NULL;
}

/* n elements to be filled in; NULL after an error. */
static struct onnx_sequence *new_sequence(struct onnx *c, int64_t n)
{
	if (c->err)
		return NULL;
	if (n > LENGTH_MAX) {
		onnx_fail(c, STX_E_TOO_LARGE, "a sequence of more than %d elements", LENGTH_MAX);
		return NULL;
	}
	struct onnx_sequence *s = STX_NEW(c->arena, struct onnx_sequence);
	V *at = STX_NEW_ARRAY(c->arena, V, (size_t)n + 1);
	if (!s || !at) {
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		return NULL;
	}
	s->node.op = STX_OP_COUNT;
	s->node.name = "sequence";
	s->at = at;
	s->n = n;
	return s;
}

static V value_of(struct onnx_sequence *s)
{
	return s ? stx_val(&s->node, 0) : NO_V;
}

/* Input i, which must be a sequence; NULL after an error. */
static const struct onnx_sequence *sequence_in(struct onnx *c, unsigned i)
{
	V v = onnx_any(c, i);
	const struct onnx_sequence *s = onnx_as_sequence(v);
	if (!c->err && (!s || s->absent))
		onnx_fail(c, STX_E_INVALID, "input %u of operator %s must be a sequence", i,
			  c->n->op_type);
	return c->err ? NULL : s;
}

/* A position by input i, counted from the end when negative; least..most after that. */
static int64_t position(struct onnx *c, unsigned i, int64_t length, int64_t most, int64_t otherwise)
{
	int64_t p = otherwise;
	if (onnx_has(c, i)) {
		if (onnx_known_ints(c, onnx_in(c, i), "the position", &p, 1) != 1)
			onnx_fail(c, STX_E_INVALID, "the position must be one number");
		p = p < 0 ? p + length : p;
	}
	if (!c->err && (p < 0 || p > most))
		onnx_fail(c, STX_E_INVALID, "position %lld of a sequence of %lld elements",
			  (long long)p, (long long)length);
	return c->err ? 0 : p;
}

static stx_err map_construct(struct onnx *c, V *out)
{
	struct onnx_sequence *s = new_sequence(c, (int64_t)c->n->n_input);
	for (int64_t i = 0; s && i < s->n; i++)
		s->at[i] = onnx_in(c, (unsigned)i);
	out[0] = value_of(s);
	return c->err;
}

static stx_err map_insert(struct onnx *c, V *out)
{
	const struct onnx_sequence *from = sequence_in(c, 0);
	V x = onnx_in(c, 1);
	struct onnx_sequence *s = from ? new_sequence(c, from->n + 1) : NULL;
	if (!s)
		return c->err;
	int64_t at = position(c, 2, from->n, from->n, from->n);
	for (int64_t i = 0; i < s->n; i++)
		s->at[i] = i == at ? x : from->at[i - (i > at)];
	out[0] = value_of(s);
	return c->err;
}

static stx_err map_erase(struct onnx *c, V *out)
{
	const struct onnx_sequence *from = sequence_in(c, 0);
	if (from && !from->n)
		return onnx_fail(c, STX_E_INVALID, "nothing can be erased from an empty sequence");
	struct onnx_sequence *s = from ? new_sequence(c, from->n - 1) : NULL;
	if (!s)
		return c->err;
	int64_t at = position(c, 1, from->n, from->n - 1, from->n - 1);
	for (int64_t i = 0; i < s->n; i++)
		s->at[i] = from->at[i + (i >= at)];
	out[0] = value_of(s);
	return c->err;
}

static stx_err map_at(struct onnx *c, V *out)
{
	const struct onnx_sequence *s = sequence_in(c, 0);
	int64_t at = s ? position(c, 1, s->n, s->n - 1, -1) : 0;
	if (!c->err)
		out[0] = s->at[at];
	return c->err;
}

static stx_err map_length(struct onnx *c, V *out)
{
	const struct onnx_sequence *s = sequence_in(c, 0);
	if (s)
		out[0] = onnx_constant(c, NULL, STX_I64, 0, NULL, &s->n, 8);
	return c->err;
}

static stx_err map_concat(struct onnx *c, V *out)
{
	const struct onnx_sequence *s = sequence_in(c, 0);
	int fresh = onnx_int(c, "new_axis", 0) != 0;
	if (s && !s->n)
		return onnx_fail(c, STX_E_INVALID, "an empty sequence cannot be joined");
	V *parts = s ? STX_NEW_ARRAY(c->arena, V, (size_t)s->n) : NULL;
	if (!parts)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	int axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(s->at[0]) + fresh);
	for (int64_t i = 0; i < s->n; i++)
		parts[i] = fresh ? onnx_unsqueeze(c, s->at[i], axis) : s->at[i];
	out[0] = onnx_cat(c, parts, (uint32_t)s->n, axis);
	return c->err;
}

/* Sizes of the parts by input 1: one number is the size of each, a list all of them, absent is 1.
 */
static int64_t split_sizes(struct onnx *c, int64_t total, int64_t *size)
{
	int64_t each = 1;
	if (onnx_has(c, 1)) {
		V split = onnx_in(c, 1);
		if (onnx_rank(split) == 1)
			return onnx_known_ints(c, split, "the split", size, LENGTH_MAX);
		onnx_known_ints(c, split, "the split", &each, 1);
	}
	if (!c->err && (each < 1 || total / each >= LENGTH_MAX))
		onnx_fail(c, STX_E_INVALID, "parts of %lld of %lld elements", (long long)each,
			  (long long)total);
	int64_t n = c->err ? 0 : (total + each - 1) / each;
	for (int64_t i = 0; i < n; i++)
		size[i] = i * each + each <= total ? each : total - i * each;
	return n;
}

static stx_err map_split(struct onnx *c, V *out)
{
	V x = onnx_in(c, 0);
	int axis = onnx_axis(c, onnx_int(c, "axis", 0), onnx_rank(x));
	int keep = onnx_has(c, 1) || onnx_int(c, "keepdims", 1);
	int64_t total = onnx_dim(c, x, axis), from = 0, dim = axis;
	int64_t *size = STX_NEW_ARRAY(c->arena, int64_t, LENGTH_MAX);
	if (!size)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	int64_t n = split_sizes(c, total, size);
	struct onnx_sequence *s = new_sequence(c, n);
	for (int64_t i = 0; s && i < n && !c->err; i++) {
		if (size[i] < 0 || size[i] > total - from)
			return onnx_fail(c, STX_E_INVALID, "the split does not add up to %lld",
					 (long long)total);
		V part = onnx_slice(c, x, axis, from, from + size[i], 1);
		struct stx_arg a[2] = { stx_arg_tensor(part), stx_arg_ints(c->g, &dim, 1) };
		s->at[i] = keep || c->err ? part : onnx_call(c, STX_OP_SQUEEZE, a, 2);
		from += size[i];
	}
	if (!c->err && from != total)
		return onnx_fail(c, STX_E_INVALID, "the split does not add up to %lld",
				 (long long)total);
	out[0] = value_of(s);
	return c->err;
}

/* The body once an element; further inputs are sequences of the same length, or tensors. */
static stx_err map_map(struct onnx *c, V *out)
{
	const struct onnx_sequence *first = sequence_in(c, 0);
	V in[64], r[64], given[64];
	struct onnx_sequence *result[64];
	struct onnx_body b;
	size_t n = c->n->n_input, k = c->n->n_output;
	if (!first)
		return c->err;
	if (n > 64 || k > 64)
		return onnx_fail(c, STX_E_TOO_LARGE, "more than 64 inputs or outputs");
	for (size_t i = 0; i < n; i++)
		given[i] = onnx_any(c, (unsigned)i);
	for (size_t i = 0; i < k; i++)
		result[i] = new_sequence(c, first->n);
	if (c->err || onnx_body_begin(c, "body", &b))
		return c->err;
	for (int64_t e = 0; e < first->n && !c->err; e++) {
		for (size_t i = 0; i < n; i++) {
			const struct onnx_sequence *s = onnx_as_sequence(given[i]);
			if (s && s->n <= e)
				return onnx_fail(c, STX_E_INVALID,
						 "input %zu is a shorter sequence", i);
			in[i] = s ? s->at[e] : given[i];
		}
		if (onnx_body_run(c, &b, in, n, r, 64))
			return c->err;
		for (size_t i = 0; i < k && i < b.graph->n_output; i++)
			result[i]->at[e] = r[i];
	}
	for (size_t i = 0; i < k && i < b.graph->n_output; i++)
		out[i] = value_of(result[i]);
	onnx_body_end(c, &b);
	return c->err;
}

/* ---- optionals: the value itself, or a sequence marked absent ---- */

static stx_err map_optional(struct onnx *c, V *out)
{
	out[0] = onnx_any(c, 0);
	if (c->err || out[0].node)
		return c->err;
	struct onnx_sequence *none = new_sequence(c, 0);
	if (none)
		none->absent = 1;
	out[0] = value_of(none);
	return c->err;
}

static int is_absent(V v)
{
	const struct onnx_sequence *s = onnx_as_sequence(v);
	return !v.node || (s && s->absent);
}

static stx_err map_has_element(struct onnx *c, V *out)
{
	out[0] = onnx_number(c, !is_absent(onnx_any(c, 0)), STX_BOOL);
	return c->err;
}

static stx_err map_get_element(struct onnx *c, V *out)
{
	out[0] = onnx_any(c, 0);
	if (!c->err && is_absent(out[0]))
		return onnx_fail(c, STX_E_INVALID, "the optional is empty");
	return c->err;
}

const struct onnx_mapping onnx_sequence_map[] = {
	{ "SequenceEmpty", map_construct, 0 },
	{ "SequenceConstruct", map_construct, 0 },
	{ "SequenceInsert", map_insert, 0 },
	{ "SequenceErase", map_erase, 0 },
	{ "SequenceAt", map_at, 0 },
	{ "SequenceLength", map_length, 0 },
	{ "SequenceMap", map_map, 0 },
	{ "ConcatFromSequence", map_concat, 0 },
	{ "SplitToSequence", map_split, 0 },
	{ "Optional", map_optional, 0 },
	{ "OptionalHasElement", map_has_element, 0 },
	{ "OptionalGetElement", map_get_element, 0 },
	{ NULL, NULL, 0 },
};
