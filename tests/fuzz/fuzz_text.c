/* fuzz_text.c: the text reader; see fuzz_graph.h for what must hold. */
#include "fuzz_graph.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	return fuzz_import(STX_FORMAT_TEXT, data, n);
}
