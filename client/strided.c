/* strided.c: strided copies. */
#include <string.h>

#include "client.h"

/* Innermost dimension; strides in bytes. */
static void copy_row(char *dst, int64_t ds, const char *src, int64_t ss, int64_t n, int bytes)
{
	if (ds == bytes && ss == bytes) {
		memcpy(dst, src, (size_t)n * (size_t)bytes);
		return;
	}
	for (int64_t i = 0; i < n; i++)
		memcpy(dst + i * ds, src + i * ss, (size_t)bytes);
}

void stx__client_copy(void *dst, const int64_t *dst_strides, const void *src,
		      const int64_t *src_strides, const int64_t *sizes, int rank, int elem_bytes)
{
	int64_t at[STX_MAX_RANK] = { 0 }, ds[STX_MAX_RANK], ss[STX_MAX_RANK]; /* in bytes */
	for (int i = 0; i < rank; i++) {
		if (sizes[i] == 0)
			return;
		/* The stride of a single element is anything. */
		ds[i] = sizes[i] > 1 ? dst_strides[i] * elem_bytes : elem_bytes;
		ss[i] = sizes[i] > 1 ? src_strides[i] * elem_bytes : elem_bytes;
	}
	char *d = dst;
	const char *s = src;
	if (rank == 0) {
		memcpy(d, s, (size_t)elem_bytes);
		return;
	}
	int last = rank - 1;
	for (;;) {
		copy_row(d, ds[last], s, ss[last], sizes[last], elem_bytes);
		int i = last - 1;
		for (; i >= 0; i--) {
			if (++at[i] < sizes[i]) {
				d += ds[i];
				s += ss[i];
				break;
			}
			d -= ds[i] * (sizes[i] - 1);
			s -= ss[i] * (sizes[i] - 1);
			at[i] = 0;
		}
		if (i < 0)
			return;
	}
}
