/* fuzz_wire.c: the wire reader; see fuzz_graph.h for what must hold. */
#include "fuzz_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	return fuzz_import(STX_FORMAT_WIRE, data, n);
}
