/* onnx_strip.h
 * an ONNX model without its weights: what is sent to the server (design: A request, 3).
 *
 * Float initialisers over 64 bytes and others over 4 KiB keep name, element type and dimensions and
 * lose their data: the compiled code takes them as parameters, and two models that differ only in
 * weights are one request. External data is dropped the same way, whatever its size is said to be.
 */
#ifndef STX_ONNX_STRIP_H
#define STX_ONNX_STRIP_H

#include "bytes.h"
#include "status.h"

/* Appends the stripped model to out. Malformed protobuf is INVALID with the byte offset.
 * Thread-safe. */
stx_err stx_onnx_strip(struct stx_span model, struct stx_bytes *out, struct stx_diag *d);

#endif
