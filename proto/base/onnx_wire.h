/* onnx_wire.h
 * a TensorProto on the wire, without unpacking it: what the client needs to send, bind and load
 * weights. (The importer works on messages that protobuf-c has unpacked, after its pre-scan.) */
#ifndef STX_ONNX_WIRE_H
#define STX_ONNX_WIRE_H

#include "bytes.h"
#include "dtype.h"
#include "stax_abi.h"

/* Field numbers of TensorProto. */
enum stx_onnx_tensor_field {
	STX_ONNX_DIMS = 1,
	STX_ONNX_DATA_TYPE = 2,
	STX_ONNX_FLOAT_DATA = 4,
	STX_ONNX_INT32_DATA = 5,
	STX_ONNX_INT64_DATA = 7,
	STX_ONNX_NAME = 8,
	STX_ONNX_RAW_DATA = 9,
	STX_ONNX_DOUBLE_DATA = 10,
	STX_ONNX_UINT64_DATA = 11,
	STX_ONNX_EXTERNAL_DATA = 13,
	STX_ONNX_DATA_LOCATION = 14
};

/* Spans point into the message. */
struct stx_onnx_tensor {
	int type; /* ONNX number, -1 when it cannot be one */
	enum stx_dtype dtype;
	uint32_t rank; /* may be above STX_MAX_RANK: sizes holds the first ones */
	int64_t sizes[STX_MAX_RANK];
	uint64_t elements; /* UINT64_MAX when a size is negative or the product overflows */
	int external;      /* its data lies in another file */
	int raw_set;
	struct stx_span whole, name, raw;
	struct stx_span location; /* of external data */
	uint64_t offset, length;
	int length_set;
};

/* 0, or -1 when the message is malformed. */
int stx_onnx_tensor_scan(struct stx_span message, struct stx_onnx_tensor *t);
/* 1: the field holds data, or says where it lies. */
int stx_onnx_is_payload(uint32_t field);
/* Copies the typed list of t's type (dtype not NONE) to out, narrowed to the type; out has room for
 * t->elements. 0, or -1 when malformed or not exactly that many. */
int stx_onnx_tensor_list(const struct stx_onnx_tensor *t, uint8_t *out);

#endif
