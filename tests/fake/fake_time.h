/* fake_time.h
 * how long a call of a library that stands in takes.
 */
#ifndef STX_TESTS_FAKE_TIME_H
#define STX_TESTS_FAKE_TIME_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake.h"

/* On the driver's clock and in the log; ns 0: by number, the second the fastest. 1: it is not to
 * compute. */
static inline int fake_pass_time(const char *what, int number, uint64_t ns)
{
	static struct fake_cuda_counts *(*counts)(void);
	const char *log = getenv("FAKE_CUDA_LOG");
	void *driver = counts ? NULL : dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	ns = ns ? ns : 1000 + 100 * (uint64_t)(number != 1 ? number : -1);
	if (driver)
		*(void **)&counts = dlsym(driver, "fake_cuda_counts");
	if (counts)
		counts()->now_ns += ns;
	FILE *f = log ? fopen(log, "a") : NULL;
	if (f) {
		fprintf(f, "%s %d ns %llu\n", what, number, (unsigned long long)ns);
		fclose(f);
	}
	return log != NULL;
}

#endif
