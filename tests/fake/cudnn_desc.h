/* cudnn_desc.h
 * descriptors of the cuDNN that stands in (cudnn.c), and its graphs of attention (cudnn_attention.c).
 */
#ifndef STX_TESTS_FAKE_CUDNN_DESC_H
#define STX_TESTS_FAKE_CUDNN_DESC_H

#include "fake.h"

enum {
	OK = 0,
	BAD_PARAM = 2000,
	NULL_POINTER = 2002,
	MISALIGNED = 2003,
	NOT_FINALIZED = 2004,
	ATTRIBUTE_TYPE = 2010,
	NOT_SUPPORTED = 3000
};
enum { /* types of attributes */
       HANDLE = 0,
       DATA_TYPE = 1,
       BOOLEAN = 2,
       INT64 = 3,
       FLOAT = 4,
       DOUBLE = 5,
       POINTER = 6,
       CONV_MODE = 7,
       HEUR_MODE = 8,
       KNOB_TYPE = 9,
       NOTE = 11,
       POINTWISE_MODE = 14,
       DESCRIPTOR = 15,
       REDUCTION = 18
};
enum { /* descriptors */
       D_POINTWISE = 0,
       D_CONVOLUTION = 1,
       D_ENGINE = 2,
       D_CONFIG = 3,
       D_HEURISTIC = 4,
       D_PLAN = 5,
       D_KNOB = 7,
       D_FORWARD = 10,
       D_BWD_DATA = 12,
       D_POINTWISE_OP = 13,
       D_GRAPH = 15,
       D_PACK = 16,
       D_TENSOR = 17,
       D_MATMUL = 18,
       D_MATMUL_OP = 19,
       D_REDUCTION = 21,
       D_REDUCTION_OP = 22
};

struct attribute {
	int name, type;
	int64_t n;
	uint8_t bytes[128];
};
struct desc {
	int type, is_final;
	struct attribute at[16];
	int n;
	int engine; /* of ENGINE, CONFIG, KNOB, PLAN */
};

const struct attribute *fake_get(const struct desc *d, int name);
int64_t fake_i64(const struct desc *d, int name, int i);
int fake_i32(const struct desc *d, int name);
struct desc *fake_child(const struct desc *d, int name, int i);
int fake_dtype(int type); /* -1: none */
struct fake_tensor fake_tensor_of(const struct desc *d);
char *fake_element(const struct fake_tensor *t, const int64_t *at);
/* The next point of n dimensions; 0: there is none. */
int fake_next(int64_t *at, const int64_t *size, int n);
/* The pointer that the pack has for t; a status. */
int fake_point(const struct desc *pack, struct fake_tensor *t);

/* ---- cudnn_attention.c ---- */

int fake_is_attention(const struct desc *graph);
int fake_check_matmul(const struct desc *op);
int fake_check_reduction(const struct desc *op);
int fake_check_pointwise(const struct desc *op);
/* The pattern that the library's fused engines know, the logarithm of the sums with it. */
int fake_check_attention(const struct desc *graph);
/* A status; *out: what it was told of. */
int fake_attend(const struct desc *graph, const struct desc *pack, struct fake_attention *out);

#endif
