/* onnx_recurrent.c: RNN, LSTM and GRU, unrolled over the sequence.
 *
 * One matrix product gives the inputs' part of every gate for all steps; each step adds the state's
 * part. Half types compute in f32 and round at the outputs. A sequence that has ended keeps its
 * state and gives zeros, in both directions. Source: ONNX RNN, LSTM, GRU 1 to 22. */
#include "onnx_import.h"

#include <string.h>
#include <strings.h>

enum { CELL_RNN, CELL_LSTM, CELL_GRU };

struct activation {
	const char *name;
	double alpha, beta;
};

struct cell {
	int kind, gates, functions, layout, dirs, linear_before_reset, couple;
	int64_t length, batch, input, hidden;
	double clip; /* 0: none */
	enum stx_dtype wide;
	struct activation f[6]; /* functions of the first direction, then of the second */
	V x, lengths;           /* [length, batch, input]; [batch, 1] or NO_V */
};

/* What one direction keeps between steps: h and c are [batch, hidden]. */
struct direction {
	V from_x;    /* [length, batch, gates * hidden], biases added */
	V r, r_bias; /* [hidden, gates * hidden]; [gates * hidden], GRU only */
	V peep[3];   /* [hidden]: input, output, forget */
	V h, c;
	const struct activation *f;
};

/* ---- activations ---- */

enum { TAKES_ALPHA = 1, TAKES_BETA = 2 };
static const struct {
	const char *name;
	int takes;
	double alpha, beta; /* defaults */
} known[] = {
	{ "Sigmoid", 0, 0, 0 },
	{ "Tanh", 0, 0, 0 },
	{ "Relu", 0, 0, 0 },
	{ "Softsign", 0, 0, 0 },
	{ "Softplus", 0, 0, 0 },
	{ "Affine", TAKES_ALPHA | TAKES_BETA, 1, 0 },
	{ "LeakyRelu", TAKES_ALPHA, 0.01f, 0 },
	{ "ThresholdedRelu", TAKES_ALPHA, 1, 0 },
	{ "ScaledTanh", TAKES_ALPHA | TAKES_BETA, 1, 1 },
	{ "HardSigmoid", TAKES_ALPHA | TAKES_BETA, 0.2f, 0.5 },
	{ "Elu", TAKES_ALPHA, 1, 0 },
};

static int find_activation(const char *name)
{
	for (int i = 0; i < (int)(sizeof known / sizeof *known); i++)
		if (!strcasecmp(known[i].name, name))
			return i;
	return -1;
}

/* Numbers of activation_alpha and activation_beta go, in order, to the functions that take them. */
static stx_err read_activations(struct onnx *c, struct cell *k)
{
	static const char *const usual[3][3] = { { "Tanh" },
						 { "Sigmoid", "Tanh", "Tanh" },
						 { "Sigmoid", "Tanh" } };
	const Onnx__AttributeProto *names = onnx_attr(c, "activations"),
				   *alpha = onnx_attr(c, "activation_alpha"),
				   *beta = onnx_attr(c, "activation_beta");
	size_t na = 0, nb = 0, n = (size_t)(k->functions * k->dirs);
	if (names && names->n_strings != n)
		return onnx_fail(c, STX_E_INVALID, "attribute activations has %zu names, not %zu",
				 names->n_strings, n);
	for (size_t i = 0; i < n; i++) {
		const char *name = usual[k->kind][i % (size_t)k->functions];
		if (names)
			name = stx_arena_strndup(c->arena, (const char *)names->strings[i].data,
						 names->strings[i].len);
		int at = name ? find_activation(name) : -1;
		if (at < 0)
			return onnx_unsupported_attr(c, "activations", name ? name : "");
		k->f[i] = (struct activation){ known[at].name, known[at].alpha, known[at].beta };
		if (known[at].takes & TAKES_ALPHA && alpha && na < alpha->n_floats)
			k->f[i].alpha = (double)alpha->floats[na++];
		if (known[at].takes & TAKES_BETA && beta && nb < beta->n_floats)
			k->f[i].beta = (double)beta->floats[nb++];
	}
	return c->err;
}

static V number(struct onnx *c, V like, double v)
{
	return onnx_number(c, v, onnx_dtype(like));
}

static V affine(struct onnx *c, V x, double alpha, double beta)
{
	return onnx_add(c, onnx_mul(c, x, number(c, x, alpha)), number(c, x, beta));
}

static V activate(struct onnx *c, const struct cell *k, const struct activation *f, V x)
{
	const char *n = f->name;
	if (k->clip > 0) {
		x = onnx_2(c, STX_OP_MINIMUM, x, number(c, x, k->clip));
		x = onnx_2(c, STX_OP_MAXIMUM, x, number(c, x, -k->clip));
	}
	V zero = number(c, x, 0);
	if (!strcmp(n, "Sigmoid"))
		return onnx_1(c, STX_OP_SIGMOID, x);
	if (!strcmp(n, "Tanh"))
		return onnx_1(c, STX_OP_TANH, x);
	if (!strcmp(n, "Relu"))
		return onnx_1(c, STX_OP_RELU, x);
	if (!strcmp(n, "Softsign"))
		return onnx_2(c, STX_OP_DIV, x,
			      onnx_add(c, onnx_1(c, STX_OP_ABS, x), number(c, x, 1)));
	if (!strcmp(n, "Softplus"))
		return onnx_softplus(c, x);
	if (!strcmp(n, "Affine"))
		return affine(c, x, f->alpha, f->beta);
	if (!strcmp(n, "LeakyRelu"))
		return onnx_where(c, onnx_2(c, STX_OP_LT, x, zero),
				  onnx_mul(c, x, number(c, x, f->alpha)), x);
	if (!strcmp(n, "ThresholdedRelu"))
		return onnx_where(c, onnx_2(c, STX_OP_GE, x, number(c, x, f->alpha)), x, zero);
	if (!strcmp(n, "ScaledTanh"))
		return onnx_mul(c, onnx_1(c, STX_OP_TANH, onnx_mul(c, x, number(c, x, f->beta))),
				number(c, x, f->alpha));
	if (!strcmp(n, "HardSigmoid"))
		return onnx_2(c, STX_OP_MINIMUM,
			      onnx_2(c, STX_OP_MAXIMUM, affine(c, x, f->alpha, f->beta), zero),
			      number(c, x, 1));
	V e = onnx_mul(c, onnx_1(c, STX_OP_EXPM1, x), number(c, x, f->alpha)); /* Elu */
	return onnx_where(c, onnx_2(c, STX_OP_LT, x, zero), e, x);
}

/* ---- inputs ---- */

static stx_err read_cell(struct onnx *c, struct cell *k)
{
	static const struct {
		int gates, functions;
	} shape[] = { { 1, 1 }, { 4, 3 }, { 3, 2 } };
	const char *dir = onnx_str(c, "direction", "forward");
	int64_t s[STX_MAX_DIMS], rs[STX_MAX_DIMS], swap[3] = { 1, 0, 2 };
	V x = onnx_in(c, 0), w = onnx_in(c, 1), r = onnx_in(c, 2);
	k->kind = onnx_arg(c);
	k->gates = shape[k->kind].gates;
	k->functions = shape[k->kind].functions;
	k->layout = onnx_int(c, "layout", 0) != 0;
	k->dirs = strcmp(dir, "bidirectional") ? 1 : 2;
	k->clip = onnx_float(c, "clip", 0);
	k->linear_before_reset = onnx_int(c, "linear_before_reset", 0) != 0;
	k->couple = onnx_int(c, "input_forget", 0) != 0;
	if (k->dirs == 1 && strcmp(dir, "forward") && strcmp(dir, "reverse"))
		return onnx_unsupported_attr(c, "direction", dir);
	if (onnx_sizes(c, x, s) != 3 || onnx_sizes(c, r, rs) != 3 || onnx_rank(w) != 3)
		return onnx_fail(c, STX_E_INVALID, "X, W and R must have rank 3");
	if (!onnx_is_float(x))
		return onnx_fail(c, STX_E_INVALID, "X must be floating point, not %s",
				 stx_dtype_name(onnx_dtype(x)));
	k->wide = stx_dtype_bytes(onnx_dtype(x)) < 4 ? STX_F32 : onnx_dtype(x);
	k->hidden = rs[2];
	k->length = s[k->layout];
	k->batch = s[!k->layout];
	k->input = s[2];
	int64_t rows = k->gates * k->hidden;
	if (rs[0] != k->dirs || rs[1] != rows || onnx_dim(c, w, 0) != k->dirs ||
	    onnx_dim(c, w, 1) != rows || onnx_dim(c, w, 2) != k->input)
		return onnx_fail(c, STX_E_INVALID,
				 "W and R do not have the sizes of %d directions, %d gates, input "
				 "%lld and hidden %lld",
				 k->dirs, k->gates, (long long)k->input, (long long)k->hidden);
	x = onnx_cast(c, x, k->wide);
	k->x = k->layout ? onnx_permute(c, x, swap, 3) : x;
	k->lengths = onnx_opt(c, 4);
	if (k->lengths.node)
		k->lengths = onnx_unsqueeze(c, onnx_cast(c, k->lengths, STX_I64), 1);
	return read_activations(c, k);
}

static V row(struct onnx *c, const struct cell *k, V v, int dim, int d)
{
	if (c->err || !v.node)
		return NO_V;
	struct stx_arg a[3] = { stx_arg_tensor(v), stx_arg_int(c->g, dim), stx_arg_int(c->g, d) };
	return onnx_cast(c, onnx_call(c, STX_OP_SELECT, a, 3), k->wide);
}

/* Gate g of a value whose last dimension holds all of them. */
static V gate(struct onnx *c, const struct cell *k, V v, int g)
{
	return onnx_slice(c, v, onnx_rank(v) - 1, g * k->hidden, (g + 1) * k->hidden, 1);
}

static V initial(struct onnx *c, const struct cell *k, unsigned i, int d)
{
	int64_t s[2] = { k->batch, k->hidden };
	V v = onnx_opt(c, i);
	return v.node ? row(c, k, v, k->layout, d) : onnx_full(c, s, 2, 0, k->wide);
}

static void start(struct onnx *c, const struct cell *k, int d, struct direction *s)
{
	V w = row(c, k, onnx_in(c, 1), 0, d), b = row(c, k, onnx_opt(c, 3), 0, d), p = NO_V;
	int64_t n = k->gates * k->hidden;
	memset(s, 0, sizeof *s);
	s->f = k->f + d * k->functions;
	s->r = onnx_swap_last(c, row(c, k, onnx_in(c, 2), 0, d));
	s->from_x = onnx_matmul(c, k->x, onnx_swap_last(c, w));
	if (b.node) {
		V wb = onnx_slice(c, b, 0, 0, n, 1), rb = onnx_slice(c, b, 0, n, 2 * n, 1);
		s->from_x = onnx_add(c, s->from_x, wb);
		if (k->kind == CELL_GRU)
			s->r_bias = rb;
		else
			s->from_x = onnx_add(c, s->from_x, rb);
	}
	s->h = initial(c, k, 5, d);
	if (k->kind != CELL_LSTM)
		return;
	s->c = initial(c, k, 6, d);
	p = row(c, k, onnx_opt(c, 7), 0, d);
	for (int g = 0; g < 3 && p.node; g++)
		s->peep[g] = gate(c, k, p, g);
}

/* ---- one step: the new h (and c) from the inputs' part x [batch, gates * hidden] ---- */

static V peephole(struct onnx *c, const struct direction *s, V x, int g, V cell)
{
	return s->peep[g].node ? onnx_add(c, x, onnx_mul(c, s->peep[g], cell)) : x;
}

static V lstm_step(struct onnx *c, const struct cell *k, const struct direction *s, V x, V *cell)
{
	V a = onnx_add(c, x, onnx_matmul(c, s->h, s->r));
	V i = activate(c, k, &s->f[0], peephole(c, s, gate(c, k, a, 0), 0, s->c));
	V f = k->couple ? onnx_sub(c, number(c, i, 1), i)
			: activate(c, k, &s->f[0], peephole(c, s, gate(c, k, a, 2), 2, s->c));
	V g = activate(c, k, &s->f[1], gate(c, k, a, 3));
	*cell = onnx_add(c, onnx_mul(c, f, s->c), onnx_mul(c, i, g));
	V o = activate(c, k, &s->f[0], peephole(c, s, gate(c, k, a, 1), 1, *cell));
	return onnx_mul(c, o, activate(c, k, &s->f[2], *cell));
}

static V gru_step(struct onnx *c, const struct cell *k, const struct direction *s, V x)
{
	V from_h[3], z, r, h;
	int whole = k->linear_before_reset;
	for (int g = 0; g < (whole ? 3 : 2); g++) {
		from_h[g] = onnx_matmul(c, s->h, gate(c, k, s->r, g));
		if (s->r_bias.node)
			from_h[g] = onnx_add(c, from_h[g], gate(c, k, s->r_bias, g));
	}
	z = activate(c, k, &s->f[0], onnx_add(c, gate(c, k, x, 0), from_h[0]));
	r = activate(c, k, &s->f[0], onnx_add(c, gate(c, k, x, 1), from_h[1]));
	if (whole) {
		h = onnx_mul(c, r, from_h[2]);
	} else {
		h = onnx_matmul(c, onnx_mul(c, r, s->h), gate(c, k, s->r, 2));
		if (s->r_bias.node)
			h = onnx_add(c, h, gate(c, k, s->r_bias, 2));
	}
	h = activate(c, k, &s->f[1], onnx_add(c, gate(c, k, x, 2), h));
	V keep = onnx_mul(c, z, s->h);
	return onnx_add(c, onnx_mul(c, onnx_sub(c, number(c, z, 1), z), h), keep);
}

/* Runs one direction; y[t] is [batch, hidden]. */
static void run(struct onnx *c, const struct cell *k, struct direction *s, int backward, V *y)
{
	for (int64_t i = 0; i < k->length && !c->err; i++) {
		int64_t t = backward ? k->length - 1 - i : i;
		struct stx_arg at[3] = { stx_arg_tensor(s->from_x), stx_arg_int(c->g, 0),
					 stx_arg_int(c->g, t) };
		V x = onnx_call(c, STX_OP_SELECT, at, 3), cell = NO_V, h;
		if (k->kind == CELL_LSTM)
			h = lstm_step(c, k, s, x, &cell);
		else if (k->kind == CELL_GRU)
			h = gru_step(c, k, s, x);
		else
			h = activate(c, k, &s->f[0], onnx_add(c, x, onnx_matmul(c, s->h, s->r)));
		y[t] = h;
		if (k->lengths.node) {
			V live = onnx_2(c, STX_OP_GT, k->lengths,
					onnx_number(c, (double)t, STX_I64));
			y[t] = onnx_where(c, live, h, number(c, h, 0));
			h = onnx_where(c, live, h, s->h);
			cell = cell.node ? onnx_where(c, live, cell, s->c) : cell;
		}
		s->h = h;
		s->c = cell;
	}
}

/* ---- outputs ---- */

/* [batch, hidden] of each direction as [dirs, batch, hidden], or [batch, dirs, hidden]. */
static V final_state(struct onnx *c, const struct cell *k, const V *v)
{
	V parts[2];
	for (int d = 0; d < k->dirs; d++)
		parts[d] = onnx_unsqueeze(c, v[d], k->layout);
	return onnx_cat(c, parts, (uint32_t)k->dirs, k->layout);
}

/* y[d][t] as [length, dirs, batch, hidden], or [batch, length, dirs, hidden]. */
static V whole_sequence(struct onnx *c, const struct cell *k, V *const *y)
{
	int64_t none[4] = { 0, k->dirs, k->batch, k->hidden }, perm[4] = { 2, 0, 1, 3 };
	V r = onnx_full(c, none, 4, 0, k->wide), *steps;
	steps = STX_NEW_ARRAY(c->arena, V, (size_t)k->length + 1);
	if (!steps) {
		onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		return NO_V;
	}
	for (int64_t t = 0; t < k->length && !c->err; t++) {
		V parts[2];
		for (int d = 0; d < k->dirs; d++)
			parts[d] = onnx_unsqueeze(c, y[d][t], 0);
		steps[t] = onnx_unsqueeze(c, onnx_cat(c, parts, (uint32_t)k->dirs, 0), 0);
	}
	if (k->length)
		r = onnx_cat(c, steps, (uint32_t)k->length, 0);
	return k->layout ? onnx_permute(c, r, perm, 4) : r;
}

static stx_err map_recurrent(struct onnx *c, V *out)
{
	struct cell k = { 0 };
	struct direction s[2];
	V *y[2], h[2], cells[2];
	if (read_cell(c, &k))
		return c->err;
	enum stx_dtype t = onnx_dtype(onnx_in(c, 0));
	int reverse = !strcmp(onnx_str(c, "direction", "forward"), "reverse");
	for (int d = 0; d < k.dirs && !c->err; d++) {
		y[d] = STX_NEW_ARRAY(c->arena, V, (size_t)k.length + 1);
		if (!y[d])
			return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
		start(c, &k, d, &s[d]);
		run(c, &k, &s[d], d || reverse, y[d]);
		h[d] = s[d].h;
		cells[d] = s[d].c;
	}
	if (c->err)
		return c->err;
	out[0] = onnx_cast(c, whole_sequence(c, &k, y), t);
	out[1] = onnx_cast(c, final_state(c, &k, h), t);
	if (k.kind == CELL_LSTM)
		out[2] = onnx_cast(c, final_state(c, &k, cells), t);
	return c->err;
}

const struct onnx_mapping onnx_recurrent_map[] = {
	{ "RNN", map_recurrent, CELL_RNN },
	{ "LSTM", map_recurrent, CELL_LSTM },
	{ "GRU", map_recurrent, CELL_GRU },
	{ NULL, NULL, 0 },
};
