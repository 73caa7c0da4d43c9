/* onnx_text.h
 * ONNX models from a few lines of text.
 *
 *   opset 13                          default 13; `opset 1 custom` for another domain
 *   input x float [2,3,N]             sizes, or names
 *   init w int64 [2] 1 2
 *   y, z = Op(x, , w) axis=1 alpha=0.5 perm=[1,0] mode="DCR" names=["a","b"] beta=@outer
 *   y = domain:Op(x)
 *   r = If(c) then_branch={            a subgraph: lines up to a line with }
 *   output z
 *   } else_branch={
 *   output y
 *   }
 *   y = custom:F(x) overload=name     `axis=?i`: an integer that is 0, left out
 *   function custom:F(a, b) -> (c) overload=name alpha=0.5    defaults; lines up to a line `end`
 *   output y
 */
#ifndef ONNX_TEXT_H
#define ONNX_TEXT_H

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "onnx_types.h"
#include "scalar.h"
#include "wire.h"

struct text {
	const char *at;
	struct stx_bytes functions, opsets;
};

static inline void blanks(struct text *t)
{
	while (*t->at == ' ' || *t->at == '\t')
		t->at++;
}

static inline int eat(struct text *t, const char *s)
{
	blanks(t);
	if (strncmp(t->at, s, strlen(s)) != 0)
		return 0;
	t->at += strlen(s);
	return 1;
}

static inline void need_text(struct text *t, const char *s)
{
	if (!eat(t, s)) {
		print_message("'%s' expected before '%.40s'\n", s, t->at);
		fail();
	}
}

static inline struct stx_span word(struct text *t)
{
	blanks(t);
	const char *from = t->at;
	while (isalnum((unsigned char)*t->at) || strchr("_.-+", *t->at))
		if (!*t->at++)
			break;
	t->at -= t->at > from && !t->at[-1];
	return (struct stx_span){ (const uint8_t *)from, (size_t)(t->at - from) };
}

static inline struct stx_span span_of(const struct stx_bytes *b)
{
	return (struct stx_span){ b->at, b->n };
}

/* Appends the message and frees it. */
static inline void put(struct stx_bytes *out, uint32_t number, struct stx_bytes *b)
{
	stx_wire_put_bytes(out, number, span_of(b));
	stx_bytes_free(b);
}

static inline void put_word(struct stx_bytes *out, uint32_t number, struct text *t)
{
	stx_wire_put_bytes(out, number, word(t));
}

static inline void put_fixed32(struct stx_bytes *b, uint32_t number, float v)
{
	stx_wire_put_varint(b, number << 3 | 5);
	stx_bytes_put(b, &v, 4);
}

static inline int type_number(struct stx_span name)
{
	for (int i = 1; i < 30; i++)
		if (strlen(stx_onnx_type_name(i)) == name.n &&
		    !memcmp(stx_onnx_type_name(i), name.at, name.n))
			return i;
	return 99;
}

/* TypeProto of `float [2,N]`; sizes may be left out. */
static inline void read_type(struct text *t, struct stx_bytes *type)
{
	struct stx_bytes tensor = { 0 }, shape = { 0 };
	stx_wire_put_uint(&tensor, 1, (uint64_t)type_number(word(t)));
	if (eat(t, "[")) {
		while (!eat(t, "]")) {
			struct stx_bytes dim = { 0 };
			struct stx_span s = word(t);
			if (isalpha((int)s.at[0]))
				stx_wire_put_bytes(&dim, 2, s);
			else
				stx_wire_put_uint(&dim, 1,
						  (uint64_t)strtoll((const char *)s.at, NULL, 10));
			put(&shape, 1, &dim);
			eat(t, ",");
		}
		put(&tensor, 2, &shape);
	}
	put(type, 1, &tensor);
}

static inline void read_value_info(struct text *t, uint32_t number, struct stx_bytes *graph)
{
	struct stx_bytes info = { 0 }, type = { 0 };
	put_word(&info, 1, t);
	blanks(t);
	if (isalpha((unsigned char)*t->at)) {
		read_type(t, &type);
		put(&info, 2, &type);
	}
	put(graph, number, &info);
}

/* `name float [2] 1 2` as a TensorProto with raw data. */
static inline void read_tensor(struct text *t, struct stx_bytes *tensor)
{
	put_word(tensor, 8, t);
	int number = type_number(word(t));
	enum stx_dtype dtype = stx_onnx_dtype(number);
	struct stx_bytes raw = { 0 };
	stx_wire_put_uint(tensor, 2, (uint64_t)number);
	need_text(t, "[");
	while (!eat(t, "]")) {
		stx_wire_put_uint(tensor, 1, (uint64_t)strtoll(t->at, (char **)&t->at, 10));
		eat(t, ",");
	}
	for (blanks(t); *t->at && *t->at != '\n'; blanks(t)) {
		union stx_scalar v = { .u = 0 };
		uint8_t bytes[8];
		const char *from = t->at;
		double x = strtod(from, (char **)&t->at);
		if (stx_dtype_is_float(dtype))
			v.f = stx_scalar_round(dtype, x);
		else /* an integer beyond 2^53 is no double */
			v.i = x > -1e15 && x < 1e15 ? (int64_t)x : strtoll(from, NULL, 10);
		stx_scalar_store(dtype, bytes, v);
		stx_bytes_put(&raw, bytes, (size_t)stx_dtype_bytes(dtype));
	}
	put(tensor, 9, &raw);
}

static inline void read_graph(struct text *t, struct stx_bytes *graph);

static inline int is_float_text(struct stx_span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (strchr(".einf", s.at[i]))
			return 1;
	return 0;
}

static inline void read_quoted(struct text *t, uint32_t number, struct stx_bytes *a)
{
	const char *from = t->at;
	while (*t->at != '"')
		t->at++;
	stx_wire_put_bytes(a, number,
			   (struct stx_span){ (const uint8_t *)from, (size_t)(t->at - from) });
	t->at++;
}

/* One value into fields: f 2, i 3, s 4, floats 7, ints 8, strings 9; returns the type's number. */
static inline int read_number_or_text(struct text *t, int listed, struct stx_bytes *a)
{
	if (eat(t, "\"")) {
		read_quoted(t, listed ? 9 : 4, a);
		return listed ? 8 : 3;
	}
	struct stx_span s = word(t);
	if (is_float_text(s)) {
		put_fixed32(a, listed ? 7 : 2, strtof((const char *)s.at, NULL));
		return listed ? 6 : 1;
	}
	stx_wire_put_uint(a, listed ? 8 : 3, (uint64_t)strtoll((const char *)s.at, NULL, 10));
	return listed ? 7 : 2;
}

static inline void read_attribute(struct text *t, struct stx_bytes *node, uint32_t number)
{
	struct stx_bytes a = { 0 }, graph = { 0 };
	int type = 0;
	put_word(&a, 1, t);
	need_text(t, "=");
	if (eat(t, "@")) {
		put_word(&a, 21, t);
	} else if (eat(t, "?i")) {
		type = 2;
	} else if (eat(t, "{")) {
		read_graph(t, &graph);
		put(&a, 6, &graph);
		type = 5;
	} else if (eat(t, "(")) { /* a tensor */
		struct stx_bytes tensor = { 0 };
		read_tensor(t, &tensor);
		put(&a, 5, &tensor);
		type = 4;
	} else if (eat(t, "[")) {
		type = 7;
		while (!eat(t, "]")) {
			type = read_number_or_text(t, 1, &a);
			eat(t, ",");
		}
	} else {
		type = read_number_or_text(t, 0, &a);
	}
	stx_wire_put_uint(&a, 20, (uint64_t)type);
	put(node, number, &a);
}

/* Up to the end of the line. */
static inline void read_attributes(struct text *t, struct stx_bytes *to, uint32_t overload,
				   uint32_t number)
{
	for (blanks(t); *t->at && *t->at != '\n'; blanks(t))
		if (eat(t, "overload="))
			put_word(to, overload, t);
		else
			read_attribute(t, to, number);
}

static inline void read_node(struct text *t, struct stx_bytes *graph, uint32_t number)
{
	struct stx_bytes node = { 0 };
	if (!eat(t, "=")) { /* else: a node without results */
		do
			put_word(&node, 2, t);
		while (eat(t, ","));
		need_text(t, "=");
	}
	struct stx_span op = word(t);
	if (eat(t, ":")) {
		stx_wire_put_bytes(&node, 7, op);
		op = word(t);
	}
	stx_wire_put_bytes(&node, 4, op);
	need_text(t, "(");
	while (!eat(t, ")")) {
		put_word(&node, 1, t);
		eat(t, ",");
	}
	read_attributes(t, &node, 8, 5);
	put(graph, number, &node);
}

static inline void end_of_line(struct text *t)
{
	blanks(t);
	if (*t->at == '\n')
		t->at++;
}

static inline void read_function(struct text *t)
{
	struct stx_bytes f = { 0 };
	struct stx_span name = word(t);
	if (eat(t, ":")) {
		stx_wire_put_bytes(&f, 10, name);
		name = word(t);
	}
	stx_wire_put_bytes(&f, 1, name);
	need_text(t, "(");
	while (!eat(t, ")")) {
		put_word(&f, 4, t);
		eat(t, ",");
	}
	need_text(t, "->");
	need_text(t, "(");
	while (!eat(t, ")")) {
		put_word(&f, 5, t);
		eat(t, ",");
	}
	read_attributes(t, &f, 13, 11);
	for (end_of_line(t); !eat(t, "end"); end_of_line(t))
		if (eat(t, "opset ")) {
			struct stx_bytes o = { 0 };
			stx_wire_put_uint(&o, 2, (uint64_t)strtoll(t->at, (char **)&t->at, 10));
			put(&f, 9, &o);
		} else {
			read_node(t, &f, 7);
		}
	put(&t->functions, 25, &f);
}

/* Lines up to the end, or to a line that starts with }. */
static inline void read_graph(struct text *t, struct stx_bytes *graph)
{
	for (;;) {
		struct stx_bytes b = { 0 };
		end_of_line(t);
		if (!*t->at || eat(t, "}"))
			return;
		if (eat(t, "opset ")) {
			stx_wire_put_uint(&b, 2, (uint64_t)strtoll(t->at, (char **)&t->at, 10));
			blanks(t);
			if (*t->at != '\n')
				put_word(&b, 1, t);
			put(&t->opsets, 8, &b);
		} else if (eat(t, "input ")) {
			read_value_info(t, 11, graph);
		} else if (eat(t, "output ")) {
			read_value_info(t, 12, graph);
		} else if (eat(t, "init ")) {
			read_tensor(t, &b);
			put(graph, 5, &b);
		} else if (eat(t, "function ")) {
			read_function(t);
		} else if (*t->at != '\n') {
			read_node(t, graph, 1);
		}
	}
}

/* A ModelProto; the caller frees it. */
static inline struct stx_bytes onnx_model(const char *lines)
{
	struct text t = { .at = lines };
	struct stx_bytes graph = { 0 }, model = { 0 }, opset = { 0 };
	read_graph(&t, &graph);
	stx_wire_put_uint(&model, 1, 8);
	put(&model, 7, &graph);
	if (!t.opsets.n) {
		stx_wire_put_uint(&opset, 2, 13);
		put(&model, 8, &opset);
	}
	stx_bytes_put(&model, t.opsets.at, t.opsets.n);
	stx_bytes_put(&model, t.functions.at, t.functions.n);
	stx_bytes_free(&t.opsets);
	stx_bytes_free(&t.functions);
	return model;
}

#endif
