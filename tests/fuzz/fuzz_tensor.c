/* fuzz_tensor.c: tensor files and models as the stax tool reads them: .npy, TensorProto,
 * ModelProto. */
#include <stdlib.h>
#include <string.h>

#include "model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct stx_host h;
	struct stx_model m;
	struct stx_bytes file = { 0 };
	if (!stx_npy_parse((struct stx_span){ data, n }, STX_BF16, &h, NULL)) {
		struct stx_bytes again = { 0 };
		struct stx_host back;
		if (stx_npy_format(&h, &again, NULL) ||
		    stx_npy_parse((struct stx_span){ again.at, again.n }, h.t.dtype, &back, NULL) ||
		    back.bytes != h.bytes || memcmp(back.t.data, h.t.data, h.bytes))
			abort(); /* what was read can be written and read again */
		stx_bytes_free(&again);
		stx_host_free(&back);
		stx_host_free(&h);
	}
	if (!stx_onnx_tensor((struct stx_span){ data, n }, NULL, &h, NULL))
		stx_host_free(&h);
	stx_bytes_put(&file, data, n);
	if (stx_model_parse(&file, "/nonexistent", &m, NULL))
		return 0;
	for (unsigned i = 0; i < m.initialisers.n; i++)
		if (!stx_onnx_tensor(m.initialisers.at[i].proto, m.dir, &h, NULL))
			stx_host_free(&h);
	stx_model_free(&m);
	return 0;
}
