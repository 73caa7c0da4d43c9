/* onnx_wire.c: TensorProto on the wire (onnx.proto). */
#include "onnx_wire.h"

#include <string.h>

#include "onnx_types.h"
#include "wire.h"

int stx_onnx_is_payload(uint32_t field)
{
	switch (field) {
	case STX_ONNX_FLOAT_DATA:
	case STX_ONNX_INT32_DATA:
	case STX_ONNX_INT64_DATA:
	case STX_ONNX_RAW_DATA:
	case STX_ONNX_DOUBLE_DATA:
	case STX_ONNX_UINT64_DATA:
	case STX_ONNX_EXTERNAL_DATA:
	case STX_ONNX_DATA_LOCATION: return 1;
	default: return 0;
	}
}

static void add_dim(struct stx_onnx_tensor *t, uint64_t v)
{
	if (t->rank < STX_MAX_RANK)
		t->sizes[t->rank] = (int64_t)v;
	t->rank++;
	if (t->elements == UINT64_MAX || v > INT64_MAX ||
	    __builtin_mul_overflow(t->elements, v, &t->elements) || t->elements > INT64_MAX)
		t->elements = UINT64_MAX;
}

static int read_number(struct stx_span s, uint64_t *out)
{
	*out = 0;
	for (size_t i = 0; i < s.n; i++)
		if (s.at[i] < '0' || s.at[i] > '9' || __builtin_mul_overflow(*out, 10u, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(s.at[i] - '0'), out))
			return -1;
	return s.n ? 0 : -1;
}

static int is(struct stx_span s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.at, text, s.n);
}

/* One key and value of external_data. What is no number is further than any file reaches. */
static int read_entry(struct stx_onnx_tensor *t, struct stx_span s)
{
	struct stx_wire w = stx_wire_of(s);
	struct stx_field f;
	struct stx_span key = { NULL, 0 }, value = { NULL, 0 };
	int r;
	while ((r = stx_wire_next(&w, &f)) > 0) {
		if (f.number == 1 && f.type == 2)
			key = f.bytes;
		if (f.number == 2 && f.type == 2)
			value = f.bytes;
	}
	if (r)
		return -1;
	if (is(key, "location"))
		t->location = value;
	else if (is(key, "offset") && read_number(value, &t->offset))
		t->offset = UINT64_MAX;
	else if (is(key, "length")) {
		t->length_set = 1;
		if (read_number(value, &t->length))
			t->length = UINT64_MAX;
	}
	return 0;
}

int stx_onnx_tensor_scan(struct stx_span message, struct stx_onnx_tensor *t)
{
	struct stx_wire w = stx_wire_of(message);
	struct stx_field f;
	int r, bad = 0;
	memset(t, 0, sizeof *t);
	t->whole = message;
	t->elements = 1;
	t->dtype = STX_DTYPE_NONE;
	while (!bad && (r = stx_wire_next(&w, &f)) > 0) {
		struct stx_wire packed = stx_wire_of(f.bytes);
		uint64_t v;
		switch (f.number) {
		case STX_ONNX_DIMS:
			if (f.type == 0)
				add_dim(t, f.value);
			while (f.type == 2 && !bad && packed.at < packed.end) {
				bad = stx_wire_varint(&packed, &v);
				if (!bad)
					add_dim(t, v);
			}
			break;
		case STX_ONNX_DATA_TYPE:
			t->type = f.type == 0 && f.value < INT32_MAX ? (int)f.value : -1;
			t->dtype = stx_onnx_dtype(t->type);
			break;
		case STX_ONNX_NAME:
			if (f.type == 2)
				t->name = f.bytes;
			break;
		case STX_ONNX_RAW_DATA:
			t->raw = f.bytes;
			t->raw_set = f.type == 2;
			break;
		case STX_ONNX_EXTERNAL_DATA: bad = f.type != 2 || read_entry(t, f.bytes); break;
		case STX_ONNX_DATA_LOCATION: t->external = f.type == 0 && f.value == 1; break;
		default: break;
		}
	}
	return bad || r < 0 ? -1 : 0;
}

/* ---- typed lists ---- */

struct sink {
	uint8_t *at;
	size_t bytes, elems, have; /* have may pass elems: then it is an error */
};

static void put_value(struct sink *s, uint64_t v)
{
	if (s->have < s->elems)
		memcpy(s->at + s->have * s->bytes, &v, s->bytes); /* little-endian: low bytes */
	s->have++;
}

/* Field number and wire width (0: varint) of the list that holds a type. */
static uint32_t field_of(enum stx_dtype t, int *width)
{
	*width = t == STX_F32 ? 4 : t == STX_F64 ? 8 : 0;
	switch (t) {
	case STX_F32: return STX_ONNX_FLOAT_DATA;
	case STX_F64: return STX_ONNX_DOUBLE_DATA;
	case STX_I64: return STX_ONNX_INT64_DATA;
	case STX_U32:
	case STX_U64: return STX_ONNX_UINT64_DATA;
	default: return STX_ONNX_INT32_DATA;
	}
}

static int put_packed(struct sink *s, struct stx_span list, int width)
{
	struct stx_wire v = stx_wire_of(list);
	uint64_t x;
	if (width && list.n % (size_t)width)
		return -1;
	while (v.at < v.end) {
		if (width) {
			x = width == 4 ? stx_load_u32(v.at) : stx_load_u64(v.at);
			v.at += width;
		} else if (stx_wire_varint(&v, &x)) {
			return -1;
		}
		put_value(s, x);
	}
	return 0;
}

int stx_onnx_tensor_list(const struct stx_onnx_tensor *t, uint8_t *out)
{
	struct sink s = { out, (size_t)stx_dtype_bytes(t->dtype), (size_t)t->elements, 0 };
	int width, r;
	uint32_t number = field_of(t->dtype, &width);
	struct stx_wire w = stx_wire_of(t->whole);
	struct stx_field f;
	while ((r = stx_wire_next(&w, &f)) > 0) {
		if (f.number != number)
			continue;
		if (f.type != 2)
			put_value(&s, f.value);
		else if (put_packed(&s, f.bytes, width))
			return -1;
	}
	return r < 0 || s.have != s.elems ? -1 : 0;
}
