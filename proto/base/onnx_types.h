/* onnx_types.h
 * what the client and the importer must agree on about ONNX tensors: element types, and which
 * initialisers are parameters. */
#ifndef STX_ONNX_TYPES_H
#define STX_ONNX_TYPES_H

#include <stdint.h>

#include "dtype.h"

/* By TensorProto.DataType number; numbers newer than the installed schema are named too. */
const char *stx_onnx_type_name(int number);            /* "float", "string", ...; "unknown" */
enum stx_dtype stx_onnx_dtype(int number);             /* STX_DTYPE_NONE when there is none */
enum stx_dtype stx_onnx_dtype_named(const char *name); /* "FLOAT", in any case */

/* 1: an initialiser of so many elements is a parameter (design: A request, 3): floats over 64
 * bytes, others over 4 KiB. Its data stays with the client; it is keyed by shape and dtype. */
int stx_onnx_is_parameter(enum stx_dtype t, uint64_t elements);

#endif
