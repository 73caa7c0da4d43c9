/* strided.c: strided copies. */
#include <string.h>

#include "client.h"

/* Innermost dimension. */
static void copy_row(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n, int bytes)
{
	if (ds == 1 && ss == 1) {
		memcpy(dst, src, (size_t)n * (size_t)bytes);
		return;
	}
	ds *= bytes;
	ss *= bytes;
	for (int64_t i = 0; i < n; i++)
		memcpy(dst + i * ds, src + i * ss, (size_t)bytes);
}

void stx__client_copy(void *dst, const int64_t *dst_strides, const void *src,
		      const int64_t *src_strides, const int64_t *sizes, int rank, int elem_bytes)
{
	int64_t at[STX_MAX_RANK] = { 0 };
	for (int i = 0; i < rank; i++)
		if (sizes[i] == 0)
			return;
	char *d = dst;
	const char *s = src;
	if (rank == 0) {
		memcpy(d, s, (size_t)elem_bytes);
		return;
	}
	int last = rank - 1;
	for (;;) {
		copy_row(d, dst_strides[last], s, src_strides[last], sizes[last], elem_bytes);
		int i = last - 1;
		for (; i >= 0; i--) {
			d += dst_strides[i] * elem_bytes;
			s += src_strides[i] * elem_bytes;
			if (++at[i] < sizes[i])
				break;
			d -= dst_strides[i] * elem_bytes * sizes[i];
			s -= src_strides[i] * elem_bytes * sizes[i];
			at[i] = 0;
		}
		if (i < 0)
			return;
	}
}
