/* onnx_recurrent.c: RNN, LSTM and GRU, unrolled over the sequence. */
#include "onnx_import.h"

const struct onnx_mapping onnx_recurrent_map[] = {
	{ NULL, NULL, 0 },
};
