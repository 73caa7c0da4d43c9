/* onnx_boxes.c: NonMaxSuppression, whose result's size depends on its inputs: boxes and scores must
 * be known when compiling, and the result is a constant. Source: ONNX NonMaxSuppression 10, 11. */
#include "onnx_import.h"

#include <math.h>
#include <stdlib.h>

#define VALUES_MAX 16384 /* of boxes, and of scores: bounds the comparisons to some 10^7 */

struct box {
	double y0, x0, y1, x1;
};
struct candidate {
	double score;
	int64_t box;
};
struct suppression {
	int64_t batches, classes, boxes, most;
	double overlap, least; /* thresholds */
	int has_least, centred;
	double *at, *scores;
};

/* Best score first; the earlier box of two with one score. */
static int by_score(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	if (x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return x->box < y->box ? -1 : x->box > y->box;
}

static struct box box_of(const struct suppression *s, int64_t batch, int64_t i)
{
	const double *v = s->at + 4 * (batch * s->boxes + i);
	if (s->centred) /* x, y, width, height */
		return (struct box){ v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2,
				     v[0] + v[2] / 2 };
	return (struct box){ fmin(v[0], v[2]), fmin(v[1], v[3]), fmax(v[0], v[2]),
			     fmax(v[1], v[3]) };
}

/* Intersection over union is above the threshold; f32 as the operator's type says. */
static int overlaps(const struct suppression *s, struct box a, struct box b)
{
	float h = (float)fmin(a.y1, b.y1) - (float)fmax(a.y0, b.y0);
	float w = (float)fmin(a.x1, b.x1) - (float)fmax(a.x0, b.x0);
	if (!(h > 0) || !(w > 0))
		return 0;
	float both = h * w, area_a = (float)(a.y1 - a.y0) * (float)(a.x1 - a.x0),
	      area_b = (float)(b.y1 - b.y0) * (float)(b.x1 - b.x0), all = area_a + area_b - both;
	return area_a > 0 && area_b > 0 && all > 0 && both / all > (float)s->overlap;
}

static stx_err read_suppression(struct onnx *c, struct suppression *s)
{
	V boxes = onnx_in(c, 0), scores = onnx_in(c, 1);
	int64_t b[STX_MAX_DIMS], k[STX_MAX_DIMS];
	if (onnx_sizes(c, boxes, b) != 3 || onnx_sizes(c, scores, k) != 3 || b[2] != 4 ||
	    b[0] != k[0] || b[1] != k[2])
		return onnx_fail(c, STX_E_INVALID,
				 "boxes must be [batch, n, 4] and scores [batch, classes, n]");
	s->batches = b[0];
	s->boxes = b[1];
	s->classes = k[1];
	s->centred = onnx_int(c, "center_point_box", 0) != 0;
	if (onnx_has(c, 2) && onnx_known_ints(c, onnx_in(c, 2), "the maximum", &s->most, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the maximum must be one number");
	if (onnx_has(c, 3) &&
	    onnx_known_floats(c, onnx_in(c, 3), "the overlap threshold", &s->overlap, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the overlap threshold must be one number");
	s->has_least = onnx_has(c, 4);
	if (s->has_least &&
	    onnx_known_floats(c, onnx_in(c, 4), "the score threshold", &s->least, 1) != 1)
		return onnx_fail(c, STX_E_INVALID, "the score threshold must be one number");
	s->at = STX_NEW_ARRAY(c->arena, double, VALUES_MAX);
	s->scores = STX_NEW_ARRAY(c->arena, double, VALUES_MAX);
	if (!s->at || !s->scores)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	onnx_known_floats(c, boxes, "the boxes", s->at, VALUES_MAX);
	onnx_known_floats(c, scores, "the scores", s->scores, VALUES_MAX);
	return c->err;
}

/* Rows {batch, class, box} of one class into out; how many. */
static int64_t select_class(const struct suppression *s, int64_t batch, int64_t class,
			    struct candidate *all, int64_t *out)
{
	const double *score = s->scores + (batch * s->classes + class) * s->boxes;
	int64_t n = 0, kept = 0;
	for (int64_t i = 0; i < s->boxes; i++)
		if (score[i] == score[i] && (!s->has_least || score[i] > s->least))
			all[n++] = (struct candidate){ score[i], i };
	qsort(all, (size_t)n, sizeof *all, by_score);
	for (int64_t i = 0; i < n && kept < s->most; i++) {
		struct box b = box_of(s, batch, all[i].box);
		int64_t j = 0;
		while (j < kept && !overlaps(s, b, box_of(s, batch, out[3 * j + 2])))
			j++;
		if (j < kept)
			continue;
		out[3 * kept] = batch;
		out[3 * kept + 1] = class;
		out[3 * kept++ + 2] = all[i].box;
	}
	return kept;
}

static stx_err map_non_max_suppression(struct onnx *c, V *out)
{
	struct suppression s = { 0 };
	int64_t n = 0;
	if (read_suppression(c, &s))
		return c->err;
	size_t rows = (size_t)(s.batches * s.classes * s.boxes);
	struct candidate *all = STX_NEW_ARRAY(c->arena, struct candidate, (size_t)s.boxes + 1);
	int64_t *row = STX_NEW_ARRAY(c->arena, int64_t, 3 * rows + 1);
	if (!all || !row)
		return onnx_fail(c, STX_E_TOO_LARGE, "the model is over its memory budget");
	for (int64_t b = 0; b < s.batches; b++)
		for (int64_t k = 0; k < s.classes; k++)
			n += select_class(&s, b, k, all, row + 3 * n);
	int64_t size[2] = { n, 3 };
	out[0] = onnx_constant(c, NULL, STX_I64, 2, size, row, (size_t)n * 24);
	return c->err;
}

const struct onnx_mapping onnx_boxes_map[] = {
	{ "NonMaxSuppression", map_non_max_suppression, 0 },
	{ NULL, NULL, 0 },
};
