/* onnx_signal.c: Fourier transforms and windows. */
#include "onnx_import.h"

const struct onnx_mapping onnx_signal_map[] = {
	{ NULL, NULL, 0 },
};
