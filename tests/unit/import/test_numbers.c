/* test_numbers.c: operators the importer writes out itself, against their definitions: Fourier
 * transforms, Einsum, determinants, recurrent cells, quantisation. */
#include "imported.h"

static uint64_t seed;
static double draw(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(float)((double)(seed >> 40) / 8388608.0 - 1);
}

static void assert_near(double got, double want, double scale, const char *what, int64_t i)
{
	if (!(fabs(got - want) <= 2e-6 * scale + 1e-6)) {
		print_message("%s: element %lld is %.9g, expected %.9g\n", what, (long long)i, got,
			      want);
		fail();
	}
}

/* ---- DFT ---- */

/* One column of [n][parts] by the definition; out [n][2]. */
static void slow_dft(const double *x, int64_t n, int64_t given, int parts, int inverse, double *out)
{
	for (int64_t k = 0; k < n; k++) {
		double re = 0, im = 0;
		for (int64_t i = 0; i < n && i < given; i++) {
			double a = 2 * M_PI * (double)(i * k % n) / (double)n * (inverse ? 1 : -1);
			double xr = x[i * parts], xi = parts == 2 ? x[i * parts + 1] : 0;
			re += xr * cos(a) - xi * sin(a);
			im += xr * sin(a) + xi * cos(a);
		}
		out[2 * k] = inverse ? re / (double)n : re;
		out[2 * k + 1] = inverse ? im / (double)n : im;
	}
}

static void test_numbers_dft_of_every_length_is_its_definition(void **state)
{
	(void)state;
	static const int64_t more[] = { 32, 36, 49, 60, 64, 97, 101, 120, 128, 143, 210, 256 };
	static struct values got;
	double x[1024], want[1024];
	char text[256];
	seed = 1;
	for (int c = 0; c < (int)(30 + sizeof more / sizeof *more) * 4; c++) {
		int64_t n = c / 4 < 30 ? c / 4 + 1 : more[c / 4 - 30];
		int parts = c & 1 ? 2 : 1, inverse = c & 2 ? 1 : 0;
		for (int64_t i = 0; i < n * parts; i++)
			x[i] = draw();
		snprintf(
			text, sizeof text,
			"opset 17\ninput x float [1,%lld,%d]\ny = DFT(x) axis=1 inverse=%d\noutput "
			"y\n",
			(long long)n, parts, inverse);
		run_model(text, x, &got, 1);
		slow_dft(x, n, n, parts, inverse, want);
		assert_int_equal(got.n, 2 * n);
		for (int64_t i = 0; i < 2 * n; i++)
			assert_near(got.v[i], want[i], (double)n, text, i);
	}
}

static void test_numbers_dft_pads_crops_and_keeps_one_side(void **state)
{
	(void)state;
	static struct values got;
	double x[16], want[64];
	char text[256];
	seed = 2;
	for (int64_t n = 1; n <= 12; n++) {
		for (int i = 0; i < 7; i++)
			x[i] = draw();
		snprintf(text, sizeof text,
			 "opset 20\ninput x float [7,1]\ninit n int64 [] %lld\n"
			 "y = DFT(x, n) onesided=1\noutput y\n",
			 (long long)n);
		run_model(text, x, &got, 1);
		slow_dft(x, n, 7, 1, 0, want);
		assert_int_equal(got.sizes[0], n / 2 + 1);
		for (int64_t i = 0; i < got.n; i++)
			assert_near(got.v[i], want[i], (double)n, text, i);
	}
}

static void test_numbers_dft_there_and_back_from_one_side(void **state)
{
	(void)state;
	static struct values got;
	double x[16];
	char text[512];
	seed = 3;
	for (int64_t n = 1; n <= 13; n++) {
		for (int i = 0; i < n; i++)
			x[i] = draw();
		snprintf(text, sizeof text,
			 "opset 20\ninput x float [%lld,1]\ninit n int64 [] %lld\n"
			 "f = DFT(x, n) onesided=1\ny = DFT(f, n) onesided=1 inverse=1\noutput y\n",
			 (long long)n, (long long)n);
		run_model(text, x, &got, 1);
		assert_int_equal(got.n, n);
		for (int64_t i = 0; i < n; i++)
			assert_near(got.v[i], x[i], 2, text, i);
	}
}

static void test_numbers_stft_frames_are_windowed_transforms(void **state)
{
	(void)state;
	static struct values got;
	double x[24], frame[8], want[16];
	static const char text[] =
		"opset 17\ninput x float [2,12,1]\ninit s int64 [] 3\ninit w float [5] 1 2 3 4 5\n"
		"y = STFT(x, s, w)\noutput y\n";
	seed = 4;
	for (int i = 0; i < 24; i++)
		x[i] = draw();
	run_model(text, x, &got, 1);
	assert_int_equal(got.n, 2 * 3 * 3 * 2);
	for (int b = 0; b < 2; b++)
		for (int f = 0; f < 3; f++) {
			for (int i = 0; i < 5; i++)
				frame[i] = x[b * 12 + f * 3 + i] * (i + 1);
			slow_dft(frame, 5, 5, 1, 0, want);
			for (int i = 0; i < 6; i++)
				assert_near(got.v[(b * 3 + f) * 6 + i], want[i], 10, text, i);
		}
}

static void test_numbers_dft_refuses_what_it_cannot_do(void **state)
{
	(void)state;
	assert_refused("opset 17\ninput x float [1,4,3]\ny = DFT(x)\noutput y\n", STX_E_INVALID,
		       "complex", "DFT", NULL);
	assert_refused("opset 17\ninput x float [1,4,1]\ny = DFT(x) axis=2\noutput y\n",
		       STX_E_INVALID, "axis 2", "complex parts", NULL);
	assert_refused("opset 17\ninput x float [1,8191,1]\ny = DFT(x)\noutput y\n",
		       STX_E_UNSUPPORTED, "8191", "prime", NULL);
	assert_refused("opset 17\ninput x float [1,4,1]\ninit n int64 [] 0\ny = DFT(x, n)\noutput "
		       "y\n",
		       STX_E_INVALID, "length is 0", NULL);
}

/* ---- Einsum ---- */

struct operand {
	char label[8];
	int rank;
	int64_t size[8], at;
};

/* The sum over all labels by the definition. sizes by letter; a size of 1 in an operand broadcasts.
 */
static void slow_einsum(const struct operand *in, int nin, const char *result, const int64_t *size,
			const double *x, double *out)
{
	int64_t index[128] = { 0 };
	char all[16] = "";
	size_t nall = 0;
	for (int i = 0; i < nin; i++)
		for (int d = 0; d < in[i].rank; d++)
			if (!strchr(all, in[i].label[d]))
				all[nall++] = in[i].label[d];
	int64_t total = 1, n = 1;
	for (const char *l = all; *l; l++)
		total *= size[(int)*l];
	for (const char *l = result; *l; l++)
		n *= size[(int)*l];
	memset(out, 0, (size_t)n * sizeof *out);
	for (int64_t k = 0; k < total; k++) {
		int64_t rest = k, at = 0;
		double p = 1;
		for (const char *l = all; *l; l++) {
			index[(int)*l] = rest % size[(int)*l];
			rest /= size[(int)*l];
		}
		for (int i = 0; i < nin; i++) {
			int64_t flat = 0;
			for (int d = 0; d < in[i].rank; d++)
				flat = flat * in[i].size[d] +
				       (in[i].size[d] == 1 ? 0 : index[(int)in[i].label[d]]);
			p *= x[in[i].at + flat];
		}
		for (const char *l = result; *l; l++)
			at = at * size[(int)*l] + index[(int)*l];
		out[at] += p;
	}
}

static void check_einsum(const char *equation, const char *plain)
{
	static struct values got;
	struct operand in[4] = { 0 };
	int64_t size[128], at = 0;
	double x[4096], want[4096];
	char text[1024] = "", names[64] = "", line[128];
	int nin = 1;
	for (int l = 0; l < 128; l++)
		size[l] = 1 + (l * 7 + (int)(seed % 5)) % 4;
	const char *p = plain;
	for (; *p != '>'; p++)
		if (*p == ',')
			nin++;
		else
			in[nin - 1].label[in[nin - 1].rank++] = *p;
	for (int i = 0; i < nin; i++) {
		int64_t n = 1;
		snprintf(line, sizeof line, "input x%d float [", i);
		for (int d = 0; d < in[i].rank; d++) {
			in[i].size[d] = size[(int)in[i].label[d]];
			n *= in[i].size[d];
			snprintf(line + strlen(line), sizeof line - strlen(line), "%s%lld",
				 d ? "," : "", (long long)in[i].size[d]);
		}
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s]\n", line);
		snprintf(names + strlen(names), sizeof names - strlen(names), "%sx%d", i ? "," : "",
			 i);
		in[i].at = at;
		at += n;
	}
	for (int64_t i = 0; i < at; i++)
		x[i] = draw();
	snprintf(text + strlen(text), sizeof text - strlen(text),
		 "y = Einsum(%s) equation=\"%s\"\noutput y\n", names, equation);
	run_model(text, x, &got, 1);
	slow_einsum(in, nin, p + 1, size, x, want);
	assert_int_equal(got.rank, strlen(p + 1));
	for (int d = 0; d < got.rank; d++)
		assert_int_equal(got.sizes[d], size[(int)p[1 + d]]);
	for (int64_t i = 0; i < got.n; i++)
		assert_near(got.v[i], want[i], 64, equation, i);
}

static void test_numbers_einsum_is_its_definition(void **state)
{
	(void)state;
	/* the equation, and the same with every dimension named and the result given */
	static const char *const cases[][2] = {
		{ "ij,jk->ik", "ij,jk>ik" },
		{ "ij,jk", "ij,jk>ik" },
		{ "ba", "ba>ab" },
		{ "ij->", "ij>" },
		{ "ii->i", "ii>i" },
		{ "ii", "ii>" },
		{ "iji->j", "iji>j" },
		{ "i,j->ij", "i,j>ij" },
		{ "i,i->", "i,i>" },
		{ "i,i->i", "i,i>i" },
		{ "bij,bjk->bik", "bij,bjk>bik" },
		{ "bij , bkj -> bki", "bij,bkj>bki" },
		{ "ij,jk,kl->il", "ij,jk,kl>il" },
		{ "ij,kj,lj->ikl", "ij,kj,lj>ikl" },
		{ "ij,jk,ki->", "ij,jk,ki>" },
		{ "abc,cd->dab", "abc,cd>dab" },
		{ "abcd,abed->abce", "abcd,abed>abce" },
		{ "aab,b->a", "aab,b>a" },
		{ "...ij,...jk->...ik", "xyij,xyjk>xyik" },
		{ "...i,i->...", "xyi,i>xy" },
		{ "i...,i->...", "ixy,i>xy" },
		{ "...ij", "xij>xij" },
		{ "...ji", "xji>xij" },
		{ "b...,b...->b", "bxy,bxy>b" },
		{ "a,b,c->cba", "a,b,c>cba" },
		{ "A,a->aA", "A,a>aA" },
		{ ",i->i", ",i>i" },
	};
	for (seed = 0; seed < 5; seed++) {
		uint64_t keep = seed;
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
			seed = keep;
			check_einsum(cases[i][0], cases[i][1]);
		}
		seed = keep;
	}
}

static void test_numbers_einsum_broadcasts_ones(void **state)
{
	(void)state;
	static const double in[] = { 1, 2, 3, 10, 20, 30 };
	ASSERT_GIVES("input a float [1,3]\ninput b float [3]\n"
		     "init c float [2] 1 100\n"
		     "y = Einsum(a, b, c) equation=\"ij,j,i->i\"\noutput y\n",
		     in, "2", 140, 14000);
	ASSERT_GIVES("input a float [1,3]\ninput b float [3,1]\n"
		     "y = Einsum(a, b) equation=\"...i,i...->...i\"\noutput y\n",
		     in, "1,3", 10, 40, 90);
}

static void test_numbers_einsum_malformed_refused(void **state)
{
	(void)state;
	static const char *const bad[][2] = {
		{ "i$->i", "'$'" },     { "ij->ik", "no operand" }, { "ij->ii", "repeats" },
		{ "ijk->i", "rank 2" }, { "i.j->i", "misplaced" },  { "ij,jk->ik", "terms" },
		{ "ij-ij", "'-'" },     { "ij->ij->i", "goes on" }, { "...i...->i", "misplaced" },
	};
	char text[256];
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		snprintf(text, sizeof text,
			 "input a float [2,3]\ny = Einsum(a) equation=\"%s\"\noutput y\n",
			 bad[i][0]);
		struct imported m = import_with(text, NULL, 0);
		assert_int_equal(m.e, STX_E_INVALID);
		if (!strstr(m.d.text, bad[i][1])) {
			print_message("%s: %s\n", bad[i][0], m.d.text);
			fail();
		}
		import_end(&m);
	}
	assert_refused("input a float [2,3]\ninput b float [4]\n"
		       "y = Einsum(a, b) equation=\"ij,j->i\"\noutput y\n",
		       STX_E_INVALID, "3 and 4", NULL);
}

/* ---- determinant ---- */

static void test_numbers_det_pivots_and_finds_singular_matrices(void **state)
{
	(void)state;
	static const double in[] = { 0, 1, 1, 0, 1, 2, 2, 4, 3, 1, 1, 3 };
	ASSERT_GIVES("opset 22\ninput x float [3,2,2]\ny = Det(x)\noutput y\n", in, "3", -1, 0, 8);
	static const double three[] = { 0, 2, 1, 3, 0, 1, 1, 1, 0 };
	ASSERT_GIVES("opset 22\ninput x float [3,3]\ny = Det(x)\noutput y\n", three, "", 5);
	ASSERT_GIVES("opset 22\ninput x float [0,0]\ny = Det(x)\noutput y\n", three, "", 1);
	assert_refused("opset 22\ninput x float [2,3]\ny = Det(x)\noutput y\n", STX_E_INVALID,
		       "square", NULL);
}

/* ---- recurrent cells ---- */

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

enum { S = 4, B = 2, I = 3, H = 2 };
struct cell_case {
	double x[S][B][I], w[4 * H][I], r[4 * H][H], b[8 * H];
};

static double dot(const double *a, const double *b, int n)
{
	double s = 0;
	for (int i = 0; i < n; i++)
		s += a[i] * b[i];
	return s;
}

/* The last state of an LSTM without peepholes, by the definition. */
static void slow_lstm(const struct cell_case *c, const int *lengths, int backward, double h[B][H],
		      double y[S][B][H])
{
	memset(y, 0, sizeof(double) * S * B * H);
	for (int b = 0; b < B; b++) {
		double cell[H] = { 0 }, old[H];
		memset(h[b], 0, sizeof h[b]);
		for (int k = 0; k < lengths[b]; k++) {
			int t = backward ? lengths[b] - 1 - k : k;
			memcpy(old, h[b], sizeof old);
			for (int j = 0; j < H; j++) {
				double g[4];
				for (int q = 0; q < 4; q++)
					g[q] = dot(c->x[t][b], c->w[q * H + j], I) +
					       dot(old, c->r[q * H + j], H) + c->b[q * H + j] +
					       c->b[(4 + q) * H + j];
				cell[j] = sigmoid(g[2]) * cell[j] + sigmoid(g[0]) * tanh(g[3]);
				h[b][j] = sigmoid(g[1]) * tanh(cell[j]);
				y[t][b][j] = h[b][j];
			}
		}
	}
}

/* Both kinds of GRU by the definition; gates z, r, h. */
static void slow_gru(const struct cell_case *c, int whole, double h[B][H])
{
	for (int b = 0; b < B; b++) {
		double old[H], gated[H], r[H], z[H];
		memset(h[b], 0, sizeof h[b]);
		for (int t = 0; t < S; t++) {
			memcpy(old, h[b], sizeof old);
			for (int j = 0; j < H; j++) {
				double a[2];
				for (int q = 0; q < 2; q++)
					a[q] = dot(c->x[t][b], c->w[q * H + j], I) +
					       dot(old, c->r[q * H + j], H) + c->b[q * H + j] +
					       c->b[(3 + q) * H + j];
				z[j] = sigmoid(a[0]);
				r[j] = sigmoid(a[1]);
				gated[j] = r[j] * old[j];
			}
			for (int j = 0; j < H; j++) {
				double from_h = c->b[5 * H + j];
				double in = dot(c->x[t][b], c->w[2 * H + j], I) + c->b[2 * H + j];
				if (whole)
					from_h = r[j] * (dot(old, c->r[2 * H + j], H) + from_h);
				else
					from_h += dot(gated, c->r[2 * H + j], H);
				h[b][j] = (1 - z[j]) * tanh(in + from_h) + z[j] * old[j];
			}
		}
	}
}

static void draw_case(struct cell_case *c, int gates, double *flat)
{
	double *v = (double *)c;
	for (size_t i = 0; i < sizeof *c / sizeof *v; i++)
		v[i] = draw();
	memcpy(flat, c->x, sizeof c->x);
	memcpy(flat + S * B * I, c->w, sizeof(double) * (size_t)(gates * H * I));
	memcpy(flat + S * B * I + gates * H * I, c->r, sizeof(double) * (size_t)(gates * H * H));
	memcpy(flat + S * B * I + gates * H * (I + H), c->b,
	       sizeof(double) * (size_t)(2 * gates * H));
}

static void test_numbers_lstm_follows_its_equations(void **state)
{
	(void)state;
	static struct values got[2];
	struct cell_case c;
	double flat[512], h[B][H], y[S][B][H];
	for (int k = 0; k < 4; k++) {
		int lengths[B] = { k & 1 ? 2 : S, S }, backward = k & 2;
		char text[1024];
		seed = (uint64_t)k;
		draw_case(&c, 4, flat);
		snprintf(text, sizeof text,
			 "opset 14\ninput x float [4,2,3]\ninput w float [1,8,3]\n"
			 "input r float [1,8,2]\ninput b float [1,16]\ninit n int32 [2] %d %d\n"
			 "y, h = LSTM(x, w, r, b, n) hidden_size=2 direction=\"%s\"\n"
			 "output y\noutput h\n",
			 lengths[0], lengths[1], backward ? "reverse" : "forward");
		run_model(text, flat, got, 2);
		slow_lstm(&c, lengths, backward, h, y);
		for (int i = 0; i < S * B * H; i++)
			assert_near(got[0].v[i], ((double *)y)[i], 1, text, i);
		for (int i = 0; i < B * H; i++)
			assert_near(got[1].v[i], ((double *)h)[i], 1, text, i);
	}
}

static void test_numbers_gru_resets_before_or_after_the_product(void **state)
{
	(void)state;
	static struct values got;
	struct cell_case c;
	double flat[512], h[B][H];
	for (int whole = 0; whole < 2; whole++) {
		char text[1024];
		seed = (uint64_t)whole;
		draw_case(&c, 3, flat);
		snprintf(text, sizeof text,
			 "opset 14\ninput x float [4,2,3]\ninput w float [1,6,3]\n"
			 "input r float [1,6,2]\ninput b float [1,12]\n"
			 "y, h = GRU(x, w, r, b) hidden_size=2 linear_before_reset=%d\noutput h\n",
			 whole);
		run_model(text, flat, &got, 1);
		slow_gru(&c, whole, h);
		for (int i = 0; i < B * H; i++)
			assert_near(got.v[i], ((double *)h)[i], 1, text, i);
	}
}

static void test_numbers_rnn_activations_take_their_numbers_in_order(void **state)
{
	(void)state;
	static const double in[] = { 1, 2 };
	/* forward: 0.5 x + 3; backward: relu of -x; both see the clipped input */
	ASSERT_GIVES("opset 14\ninput x float [1,2,1]\ninit w float [2,1,1] 1 -1\n"
		     "init r float [2,1,1] 0 0\n"
		     "y, h = RNN(x, w, r) hidden_size=1 direction=\"bidirectional\" clip=1.5 "
		     "activations=[\"Affine\",\"LeakyRelu\"]\noutput h\n",
		     in, "2,2,1", 1, 1.5, -0.01, -0.015);
	ASSERT_GIVES("opset 14\ninput x float [1,2,1]\ninit w float [2,1,1] 1 -1\n"
		     "init r float [2,1,1] 0 0\n"
		     "y, h = RNN(x, w, r) hidden_size=1 direction=\"bidirectional\" "
		     "activations=[\"Affine\",\"LeakyRelu\"] activation_alpha=[0.5,0.25] "
		     "activation_beta=[3.0]\noutput h\n",
		     in, "2,2,1", 3.5, 4, -0.25, -0.5);
	assert_refused("opset 14\ninput x float [1,2,1]\ninit w float [1,1,1] 1\n"
		       "init r float [1,1,1] 0\n"
		       "y = RNN(x, w, r) hidden_size=1 activations=[\"Swish\"]\noutput y\n",
		       STX_E_UNSUPPORTED, "RNN", "activations=Swish", NULL);
	assert_refused("opset 14\ninput x float [1,2,1]\ninit w float [1,1,1] 1\n"
		       "init r float [1,2,1] 0 0\n"
		       "y = RNN(x, w, r) hidden_size=1\noutput y\n",
		       STX_E_INVALID, "W and R", "hidden", NULL);
}

/* ---- quantisation, n-grams ---- */

static void test_numbers_quantize_by_blocks_and_to_8_bit_floats(void **state)
{
	(void)state;
	static const double in[] = { 1, 2, 3, 4, 5, -3 };
	ASSERT_GIVES("opset 21\ninput x float [2,3]\ninit s float [2,2] 1 0.5 2 1\n"
		     "init z int8 [2,2] 0 1 0 0\n"
		     "y = QuantizeLinear(x, s, z) axis=1 block_size=2\noutput y\n",
		     in, "2,3", 1, 2, 7, 2, 2, -3);
	ASSERT_GIVES("opset 21\ninput x float [2,3]\ninit s float [] 0.001\n"
		     "q = QuantizeLinear(x, s) output_dtype=17\ny = DequantizeLinear(q, s)\noutput "
		     "y\n",
		     in, "2,3", 0.448, 0.448, 0.448, 0.448, 0.448, -0.448);
	assert_refused("opset 21\ninput x float [2,3]\ninit s float [2,2] 1 1 1 1\n"
		       "y = QuantizeLinear(x, s) axis=1 block_size=1\noutput y\n",
		       STX_E_INVALID, "blocks of 1", NULL);
}

static void test_numbers_ngrams_with_skips(void **state)
{
	(void)state;
	static const double in[] = { 1, 2, 1, 2, 3, 1 };
#define TFIDF                                                                                      \
	"opset 9\ninput x int64 [6]\n"                                                             \
	"y = TfIdfVectorizer(x) min_gram_length=1 max_gram_length=2 ngram_counts=[0,2] "           \
	"ngram_indexes=[0,3,1,2] pool_int64s=[1,3,1,2,2,2] "
	ASSERT_GIVES(TFIDF "max_skip_count=0 mode=\"TF\"\noutput y\n", in, "4", 3, 2, 0, 1);
	ASSERT_GIVES(TFIDF "max_skip_count=1 mode=\"TF\"\noutput y\n", in, "4", 3, 2, 1, 1);
	ASSERT_GIVES(TFIDF "max_skip_count=1 mode=\"IDF\" weights=[2.0,3.0,4.0,5.0]\noutput y\n",
		     in, "4", 2, 3, 4, 5);
	ASSERT_GIVES(TFIDF "max_skip_count=0 mode=\"TFIDF\" weights=[2.0,3.0,4.0,5.0]\noutput y\n",
		     in, "4", 6, 6, 0, 5);
}

/* A square of what a half holds may be beyond it, and so may be a sum of squares. */
static void test_numbers_norms_of_halves_are_computed_wider(void **state)
{
	(void)state;
	static const double in[] = { -300, 300, -300, 300 };
	static const char *const ones[] = {
		"y16 = BatchNormalization(h, s, b, b, s) training_mode=1",
		"y16 = InstanceNormalization(h, s, b)",
		"y16 = MeanVarianceNormalization(h) axes=[2]",
	};
	for (int i = 0; i < 3; i++) {
		char lines[512];
		snprintf(lines, sizeof lines,
			 "opset 15\ninput x float [1,1,4]\nh = Cast(x) to=10\n"
			 "init s float16 [1] 1\ninit b float16 [1] 0\n%s\n"
			 "y = Cast(y16) to=1\noutput y\n",
			 ones[i]);
		ASSERT_GIVES(lines, in, "1,1,4", -1, 1, -1, 1);
	}
	ASSERT_GIVES("input x float [1,1,4]\nh = Cast(x) to=10\nn = LpNormalization(h)\n"
		     "y = Cast(n) to=1\noutput y\n",
		     in, "1,1,4", -0.5, 0.5, -0.5, 0.5);
	ASSERT_GIVES("input x float [1,1,4]\nh = Cast(x) to=10\nn = ReduceL2(h) keepdims=0\n"
		     "y = Cast(n) to=1\noutput y\n",
		     in, "", 600);
}

/* Statistics of another type than x do not lower what it is computed in. */
static void test_numbers_batch_norm_of_mixed_types_computes_in_the_widest(void **state)
{
	(void)state;
	static const double in[] = { 1000, 1001 };
	ASSERT_GIVES("opset 15\ninput x float [2,1]\ninit s float [1] 1\ninit b float [1] 0\n"
		     "init m bfloat16 [1] 1000\ninit v bfloat16 [1] 3\n"
		     "y = BatchNormalization(x, s, b, m, v) epsilon=0.0\noutput y\n",
		     in, "2,1", 0, 0.57735026);
}

static void test_numbers_reductions_of_integers_stay_integers(void **state)
{
	(void)state;
	static const double in[] = { 3000000, 4000000 };
	ASSERT_GIVES("input x float [2]\ni = Cast(x) to=6\ny = ReduceL2(i) keepdims=0\noutput y "
		     "int32 []\n",
		     in, "", 5000000);
	ASSERT_GIVES("input x float [2]\ni = Cast(x) to=7\ny = ReduceLogSum(i) "
		     "keepdims=0\noutput y int64 []\n",
		     in, "", 15);
	ASSERT_GIVES("input x float [2]\ni = Cast(x) to=6\ny = ReduceLogSumExp(i) "
		     "keepdims=0\noutput y int32 []\n",
		     in, "", 4000000);
}

/* The division of QuantizeLinear is of the scale's type unless `precision` says another: 3.473 by
 * 0.4084 is 8.5 as f16, which rounds to 8, and 8.502 as f32. */
static void test_numbers_quantize_divides_in_the_scale_s_type(void **state)
{
	(void)state;
	static const double in[] = { 3.473, -1000 };
#define QUANTIZE                                                                                   \
	"opset 23\ninput x float [2]\nh = Cast(x) to=10\ninit s float16 [] 0.4084\n"               \
	"init z uint16 [] 60001\n"
	ASSERT_GIVES(QUANTIZE "y = QuantizeLinear(h, s, z)\noutput y\n", in, "2", 60009, 57553);
	ASSERT_GIVES(QUANTIZE "y = QuantizeLinear(h, s, z) precision=1\noutput y\n", in, "2", 60010,
		     57553);
}

static void test_numbers_qlinear_matmul_takes_scales_of_rows_and_columns(void **state)
{
	(void)state;
	static const double in[] = { 1, 2, 3, 4 };
#define OPERANDS                                                                                   \
	"opset 21\ninput x float [2,2]\na = Cast(x) to=2\ninit b int8 [2,2] 1 2 3 4\n"             \
	"init one float [] 1\ninit z uint8 [] 0\ninit bz int8 [] 0\n"
	ASSERT_GIVES(OPERANDS "init bs float [2] 1 0.5\ninit zs int8 [2] 0 1\n"
			      "y = QLinearMatMul(a, one, z, b, bs, zs, one, z)\noutput y\n",
		     in, "2,2", 7, 4, 15, 8);
	ASSERT_GIVES(OPERANDS "init as float [2] 1 2\ninit zs uint8 [2] 0 1\n"
			      "y = QLinearMatMul(a, as, zs, b, one, bz, one, z)\noutput y\n",
		     in, "2,2", 7, 10, 22, 32);
	ASSERT_GIVES(OPERANDS "init as float [2,1] 1 2\ninit zs uint8 [2,1] 0 1\n"
			      "y = QLinearMatMul(a, as, zs, b, one, bz, one, z)\noutput y\n",
		     in, "2,2", 7, 10, 22, 32);
	assert_refused(OPERANDS "init as float [3] 1 2 3\ninit zs uint8 [] 0\n"
				"y = QLinearMatMul(a, as, zs, b, one, bz, one, z)\noutput y\n",
		       STX_E_INVALID, NULL);
}

/* Mode 0 is the product, mode 1 what softcap makes of it. */
static void test_numbers_attention_shows_scores_before_softcap(void **state)
{
	(void)state;
	static const double in[] = { 3 };
	static const double want[] = { 9, 1.9995065 };
	for (int mode = 0; mode < 2; mode++) {
		char lines[256];
		snprintf(lines, sizeof lines,
			 "opset 23\ninput x float [1,1,1,1]\nz, p, v, y = Attention(x, x, x) "
			 "softcap=2.0 qk_matmul_output_mode=%d\noutput y\n",
			 mode);
		ASSERT_GIVES(lines, in, "1,1,1,1", want[mode]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_dft_of_every_length_is_its_definition),
		cmocka_unit_test(test_numbers_dft_pads_crops_and_keeps_one_side),
		cmocka_unit_test(test_numbers_dft_there_and_back_from_one_side),
		cmocka_unit_test(test_numbers_stft_frames_are_windowed_transforms),
		cmocka_unit_test(test_numbers_dft_refuses_what_it_cannot_do),
		cmocka_unit_test(test_numbers_einsum_is_its_definition),
		cmocka_unit_test(test_numbers_einsum_broadcasts_ones),
		cmocka_unit_test(test_numbers_einsum_malformed_refused),
		cmocka_unit_test(test_numbers_det_pivots_and_finds_singular_matrices),
		cmocka_unit_test(test_numbers_norms_of_halves_are_computed_wider),
		cmocka_unit_test(test_numbers_batch_norm_of_mixed_types_computes_in_the_widest),
		cmocka_unit_test(test_numbers_reductions_of_integers_stay_integers),
		cmocka_unit_test(test_numbers_quantize_divides_in_the_scale_s_type),
		cmocka_unit_test(test_numbers_qlinear_matmul_takes_scales_of_rows_and_columns),
		cmocka_unit_test(test_numbers_attention_shows_scores_before_softcap),
		cmocka_unit_test(test_numbers_lstm_follows_its_equations),
		cmocka_unit_test(test_numbers_gru_resets_before_or_after_the_product),
		cmocka_unit_test(test_numbers_rnn_activations_take_their_numbers_in_order),
		cmocka_unit_test(test_numbers_quantize_by_blocks_and_to_8_bit_floats),
		cmocka_unit_test(test_numbers_ngrams_with_skips),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
