/* model.h
 * what the tool must know of an ONNX file: order and kind of inputs, initialisers, tensor payloads.
 * The rest is the server's. A bounded reader of its own: no recursion, nothing allocated that the
 * file does not hold. */
#ifndef STX_MODEL_H
#define STX_MODEL_H

#include "arena.h"
#include "bytes.h"
#include "host.h"
#include "status.h"

enum stx_model_kind { STX_MODEL_TENSOR, STX_MODEL_SEQUENCE, STX_MODEL_OPTIONAL, STX_MODEL_OTHER };

struct stx_model_input {
	const char *name;
	enum stx_model_kind kind;
	int elem_type;   /* ONNX number; 0 when not said */
	int initialiser; /* 1: has a value in the file */
};
struct stx_model_tensor {
	const char *name;
	struct stx_span proto; /* the TensorProto's bytes */
};

/* Views into the file's bytes. Zero-initialise; stx_model_free. */
struct stx_model {
	struct stx_bytes file;    /* as on disk */
	struct stx_bytes inlined; /* with small external data put in; empty when there is none */
	struct stx_arena *arena;
	char *dir; /* folder of the file: external data lies below it */
	STX_VEC(struct stx_model_input) inputs;
	STX_VEC(struct stx_model_tensor) initialisers;
	STX_VEC(struct stx_model_input) outputs;
	const char *draws;         /* operator of a node that draws random numbers, or NULL */
	struct stx_model_dropout { /* of Dropout nodes with an input training_mode: names, "" */
		const char *ratio, *training;
	} dropout; /* the last one; training NULL: none */
};

/* Reads and indexes the file, and puts in the external data of initialisers that are no parameters.
 */
stx_err stx_model_read(const char *path, struct stx_model *out, struct stx_diag *d);
/* The same from bytes (taken over), with dir for external data; for tests. */
stx_err stx_model_parse(struct stx_bytes *file, const char *dir, struct stx_model *out,
			struct stx_diag *d);
void stx_model_free(struct stx_model *m);

/* What libstax is given, which keeps the data of parameters back. */
struct stx_span stx_model_request(const struct stx_model *m);
/* The initialiser of that name, or NULL. */
const struct stx_model_tensor *stx_model_find(const struct stx_model *m, const char *name);

/* A TensorProto as a host tensor. dir: folder that external data must lie in; NULL: external data
 * refused. UNSUPPORTED names a type that cannot be held (string, complex, 4-bit). */
stx_err stx_onnx_tensor(struct stx_span proto, const char *dir, struct stx_host *out,
			struct stx_diag *d);
/* A .pb file holding one TensorProto. UNSUPPORTED when it is a sequence or optional of tensors. */
stx_err stx_onnx_tensor_read(const char *path, struct stx_host *out, struct stx_diag *d);

#endif
