/* test_picture.c: pictures of graphs and schedules: SVG is well formed, shows every node once, no
 * two boxes overlap, and the same graph gives the same bytes; dot names every node and edge. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiled.h"
#include "picture.h"
#include "text_check.h"

static char *draw(const char *text, const char *stage, const char *format)
{
	struct stx_source s = { .format = 2, .body = { (const uint8_t *)text, strlen(text) } };
	struct stx_compile_options o = { .target = "cpu:x86-64-v3" };
	struct stx_bytes out = { 0 };
	struct stx_diag d = { 0 };
	if (stx_compile_dump(compiled_compiler(), &s, &o, stage, format, &out, &d))
		fail_msg("%s %s: %s %s", stage, format, d.location, d.text);
	char *p = strdup(stx_bytes_cstr(&out));
	assert_int_equal(strlen(p), out.n);
	stx_bytes_free(&out);
	return p;
}

/* ---- a scanner of XML: tags nest, attributes are quoted, text is escaped UTF-8 ---- */

struct xml {
	const char *at;
	char open[32][16];
	int depth;
};

static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };

static void scan_char(struct xml *x)
{
	const unsigned char *s = (const unsigned char *)x->at;
	int n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
	if (!n || (*s < 32 && *s != '\n' && *s != '\t') || *s == '<' || *s == 127)
		fail_msg("byte 0x%02x in text: %.40s", *s, x->at);
	for (int i = 1; i < n; i++)
		assert_int_equal(s[i] >> 6, 2);
	int known = *s != '&';
	for (int i = 0; i < 5 && !known; i++)
		known = !strncmp(x->at, entities[i], strlen(entities[i]));
	if (!known)
		fail_msg("a bare &: %.40s", x->at);
	x->at += n;
}

static void scan_name(struct xml *x, char out[16])
{
	int n = 0;
	while (isalnum((unsigned char)*x->at) || *x->at == '-' || *x->at == ':') {
		assert_true(n < 15);
		out[n++] = *x->at++;
	}
	out[n] = 0;
	assert_true(n > 0);
}

static void scan_tag(struct xml *x)
{
	char name[16], attribute[16];
	int close = x->at[1] == '/';
	x->at += 1 + close;
	scan_name(x, name);
	if (close) {
		assert_true(x->depth > 0);
		assert_string_equal(x->open[--x->depth], name);
		assert_int_equal(*x->at++, '>');
		return;
	}
	while (*x->at == ' ') {
		x->at++;
		scan_name(x, attribute);
		assert_int_equal(*x->at++, '=');
		assert_int_equal(*x->at++, '"');
		while (*x->at != '"')
			scan_char(x);
		x->at++;
	}
	if (*x->at == '/') {
		assert_int_equal(x->at[1], '>');
		x->at += 2;
		return;
	}
	assert_int_equal(*x->at++, '>');
	assert_true(x->depth < 31);
	snprintf(x->open[x->depth++], 16, "%s", name);
}

static void check_xml(const char *text)
{
	struct xml x = { .at = text };
	int tags = 0;
	while (*x.at)
		if (*x.at == '<') {
			scan_tag(&x);
			tags++;
		} else {
			scan_char(&x);
		}
	assert_int_equal(x.depth, 0);
	assert_true(tags > 3);
}

/* ---- what is drawn ---- */

struct box {
	double x, y, w, h;
	char name[64];
};

/* Boxes of the picture, each the first rectangle after a title. */
static int find_boxes(const char *svg, struct box *at, int max)
{
	int n = 0;
	for (const char *p = svg; (p = strstr(p, "<g class=\"box\"><title>")); p++) {
		const char *name = p + strlen("<g class=\"box\"><title>");
		const char *rect = strstr(p, "<rect");
		assert_true(n < max);
		assert_non_null(rect);
		snprintf(at[n].name, sizeof at[n].name, "%.*s", (int)strcspn(name, "<"), name);
		assert_int_equal(sscanf(strstr(rect, " x="),
					" x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\"",
					&at[n].x, &at[n].y, &at[n].w, &at[n].h),
				 4);
		n++;
	}
	return n;
}

static int compare_boxes(const void *a, const void *b)
{
	const struct box *p = a, *q = b;
	if (p->y != q->y)
		return p->y < q->y ? -1 : 1;
	return p->x < q->x ? -1 : p->x > q->x;
}

static void check_no_overlap(struct box *at, int n)
{
	qsort(at, (size_t)n, sizeof *at, compare_boxes);
	for (int i = 0; i < n; i++)
		for (int j = i + 1; j < n && at[j].y < at[i].y + at[i].h; j++)
			if (at[j].x < at[i].x + at[i].w && at[i].x < at[j].x + at[j].w)
				fail_msg("%s and %s overlap", at[i].name, at[j].name);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct box *)a)->name, ((const struct box *)b)->name);
}

/* Well formed, without overlaps, exactly `want` boxes with names of their own. */
static void check_svg(const char *svg, int want)
{
	struct box *at = calloc((size_t)want + 1, sizeof *at);
	check_xml(svg);
	int n = find_boxes(svg, at, want + 1);
	assert_int_equal(n, want);
	check_no_overlap(at, n);
	qsort(at, (size_t)n, sizeof *at, compare_names);
	for (int i = 1; i < n; i++)
		assert_string_not_equal(at[i].name, at[i - 1].name);
	free(at);
}

static const char example_1_1[] = "%primals_1 : f32[64,128] = placeholder()\n"
				  "%primals_2 : f32[64,128] = placeholder()\n"
				  "%add = add.Tensor(%primals_1, %primals_2)\n"
				  "%relu = relu.default(%add)\n"
				  "%mul = mul.Scalar(%relu, 2)\n"
				  "%sum_0 = sum.dim_IntList(%mul, [-1])\n"
				  "return (%sum_0,)\n";

static void test_picture_example_1_1_matches_golden(void **state)
{
	static const struct {
		const char *stage, *format;
		int boxes;
	} all[] = { { "graph", "svg", 7 },   { "graph", "dot", 0 },   { "basis", "svg", 7 },
		    { "kernels", "svg", 4 }, { "kernels", "dot", 0 }, { "loops", "svg", 4 } };
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		char *text = draw(example_1_1, all[i].stage, all[i].format), name[64];
		if (all[i].boxes)
			check_svg(text, all[i].boxes);
		snprintf(name, sizeof name, "pictures/example_1_1_%s.%s", all[i].stage,
			 all[i].format);
		check_golden(name, text);
		free(text);
	}
}

/* ---- random graphs ---- */

static unsigned seed = 12345;

static unsigned rnd(unsigned n)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % n;
}

/* n nodes, each reading two of the `window` before it; a node in four has a third reader. */
static char *random_graph(int n, int window)
{
	struct stx_bytes b = { 0 };
	stx_bytes_puts(&b, "%n0 : f32[4] = placeholder()\n");
	for (int i = 1; i < n; i++) {
		int w = window < i ? window : i;
		int p = i - 1 - (int)rnd((unsigned)w), q = i - 1 - (int)rnd((unsigned)w);
		if (rnd(4))
			stx_bytes_printf(&b, "%%n%d = add.Tensor(%%n%d, %%n%d)\n", i, p, q);
		else
			stx_bytes_printf(&b, "%%n%d = relu.default(%%n%d)\n", i, p);
	}
	stx_bytes_printf(&b, "return (%%n%d,)\n", n - 1);
	char *text = strdup(stx_bytes_cstr(&b));
	stx_bytes_free(&b);
	return text;
}

static void test_picture_random_graphs_show_every_node_without_overlap(void **state)
{
	(void)state;
	print_message("seed %u\n", seed);
	for (int i = 0; i < 60; i++) {
		int n = 1 + (int)rnd(120);
		char *text = random_graph(n, 1 + (int)rnd(40));
		char *svg = draw(text, "graph", "svg"), *again = draw(text, "graph", "svg");
		check_svg(svg, n + 1); /* and the output */
		assert_string_equal(svg, again);
		free(again);
		free(svg);
		svg = draw(text, "kernels", "svg");
		check_xml(svg);
		free(svg);
		free(text);
	}
}

/* The whole of 20,000 nodes, wide, deep and with edges that are too long to be drawn. */
static void test_picture_of_20000_nodes_stays_linear(void **state)
{
	static const int windows[] = { 1, 60, 20000 };
	(void)state;
	for (int i = 0; i < 3; i++) {
		char *text = random_graph(20000, windows[i]), *svg = draw(text, "graph", "svg");
		check_svg(svg, 20001);
		assert_true(strlen(svg) < 20000 * 2000);
		free(svg);
		free(text);
	}
}

/* One source read by a chain of 3,000 nodes: the far edges are lines that name it. */
static void test_picture_far_reader_names_its_source(void **state)
{
	struct stx_bytes b = { 0 };
	(void)state;
	stx_bytes_puts(&b, "%far : f32[4] = placeholder()\n%n0 = relu.default(%far)\n");
	for (int i = 1; i < 3000; i++)
		stx_bytes_printf(&b, "%%n%d = add.Tensor(%%n%d, %%far)\n", i, i - 1);
	stx_bytes_puts(&b, "return (%n2999,)\n");
	char *svg = draw(stx_bytes_cstr(&b), "graph", "svg");
	check_svg(svg, 3002);
	int named = 0;
	for (const char *p = svg; (p = strstr(p, "\xe2\x86\x91 far<")); p++)
		named++;
	assert_true(named > 2900 && named < 3000);
	free(svg);
	stx_bytes_free(&b);
}

/* ---- names ---- */

static void test_picture_odd_names_are_escaped(void **state)
{
	static const char *const names[] = { "a<b>&\"c\\'d",
					     "\\xffbad utf8\\xc3",
					     "tab\\x09new\\x0aline",
					     "\\xf0\\x9f\\x90\\xa2 ok",
					     "</svg>",
					     "" };
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char text[256];
		snprintf(text, sizeof text,
			 "%%x : f32[4] = placeholder()\n%%y = relu.default(%%x)\n"
			 "return (%%y as '%s',)\n",
			 names[i]);
		char *svg = draw(text, "graph", "svg"), *dot = draw(text, "kernels", "dot");
		check_svg(svg, 3);
		assert_null(strstr(svg, "bad utf8\xc3"));
		assert_null(strchr(dot, '\t'));
		if (i == 3)
			assert_non_null(strstr(svg, "\xf0\x9f\x90\xa2 ok"));
		free(svg);
		free(dot);
	}
}

static void test_picture_drawn_by_hand_is_escaped(void **state)
{
	struct stx_picture p = { .arena = stx_arena_new(0), .title = "a & b\x01" };
	struct stx_bytes svg = { 0 }, dot = { 0 };
	struct stx_diag d = { 0 };
	(void)state;
	static const char *const names[] = { "<x>", "\"quoted\\", "\xed\xa0\x80\xff", "]]>" };
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(stx_picture_box(&p, names[i], i ? names[i] : NULL, STX_LOOK_OTHER),
				 0);
		assert_int_equal(stx_picture_part(&p, i, 1), 0);
		assert_int_equal(stx_picture_line(&p, i, STX_LINE_PLAIN, "%s", names[i]), 0);
		if (i)
			assert_int_equal(stx_picture_edge(&p, i - 1, 0, i, 0, 0), 0);
	}
	const char *label = "label & <more> \"x\"";
	assert_int_equal(stx_push(p.arena, &p.labels, label), 0);
	assert_int_equal(stx_picture_print(&p, "svg", &svg, &d), 0);
	assert_int_equal(stx_picture_print(&p, "dot", &dot, &d), 0);
	check_svg(stx_bytes_cstr(&svg), 4);
	assert_non_null(strstr(stx_bytes_cstr(&dot), "\\\"quoted\\\\"));
	assert_non_null(strstr(stx_bytes_cstr(&dot), "b0_0 -> b1_0 [label=\"label & <more> "
						     "\\\"x\\\"\"];"));
	stx_bytes_free(&svg);
	stx_bytes_free(&dot);
	stx_arena_free(p.arena);
}

/* ---- the schedule ---- */

/* Two reductions over different axes: two kernels and the buffer between them. */
static void test_picture_schedule_shows_kernels_and_buffers(void **state)
{
	static const char text[] = "%x : f32[64,128] = placeholder()\n"
				   "%w : f32[64] = placeholder(param=True)\n"
				   "%s = sum.dim_IntList(%x, [1])\n"
				   "%e = mul.Tensor(%s, %w)\n"
				   "%t = sum.dim_IntList(%e, [0])\n"
				   "%sm = _softmax.default(%x, 1)\n"
				   "return (%t, %sm as 'probabilities')\n";
	(void)state;
	char *svg = draw(text, "kernels", "svg"), *dot = draw(text, "kernels", "dot");
	check_xml(svg);
	assert_non_null(strstr(dot, "subgraph cluster_"));
	assert_non_null(strstr(dot, "f32[64] 256 B\"]")); /* an edge: dtype, shape, bytes */
	assert_non_null(strstr(dot, "in registers"));
	assert_non_null(strstr(dot, "style=\"filled,dashed\""));
	assert_non_null(strstr(svg, "f32[64] 256 B"));
	assert_non_null(strstr(svg, "reads primals_2 f32[64] 256 B")); /* a parameter: no box */
	assert_non_null(strstr(svg, "output 1 probabilities"));
	free(svg);
	free(dot);
}

static void test_picture_constants_are_lines(void **state)
{
	static const char text[] = "%x : f32[2] = placeholder()\n"
				   "%c : f32[2] = constant(hex='0000803f00000040')\n"
				   "%y = add.Tensor(%x, %c)\n"
				   "%z = mul.Tensor(%y, %c)\n"
				   "%k : i32[] = constant(hex='f9ffffff')\n"
				   "%v = add.Tensor(%z, %k)\n"
				   "return (%v, %c)\n";
	(void)state;
	char *svg = draw(text, "graph", "svg");
	check_svg(svg, 6);
	assert_non_null(strstr(svg, "other: c f32[2]"));
	assert_non_null(strstr(svg, "other: k i32[] = -7"));
	free(svg);
}

static void test_picture_of_other_stages_is_refused(void **state)
{
	static const char *const wrong[][2] = { { "plan", "svg" },    { "asm", "dot" },
						{ "source", "svg" },  { "graph", "png" },
						{ "nothing", "svg" }, { "graph", "" } };
	struct stx_source s = { .format = 2,
				.body = { (const uint8_t *)example_1_1, sizeof example_1_1 - 1 } };
	struct stx_compile_options o = { .target = "cpu:x86-64-v3" };
	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct stx_bytes out = { 0 };
		struct stx_diag d = { 0 };
		assert_int_equal(stx_compile_dump(compiled_compiler(), &s, &o, wrong[i][0],
						  wrong[i][1], &out, &d),
				 STX_E_USAGE);
		assert_int_equal(out.n, 0);
		stx_bytes_free(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_picture_example_1_1_matches_golden),
		cmocka_unit_test(test_picture_random_graphs_show_every_node_without_overlap),
		cmocka_unit_test(test_picture_of_20000_nodes_stays_linear),
		cmocka_unit_test(test_picture_far_reader_names_its_source),
		cmocka_unit_test(test_picture_odd_names_are_escaped),
		cmocka_unit_test(test_picture_drawn_by_hand_is_escaped),
		cmocka_unit_test(test_picture_schedule_shows_kernels_and_buffers),
		cmocka_unit_test(test_picture_constants_are_lines),
		cmocka_unit_test(test_picture_of_other_stages_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
