/* clock.h
 * monotonic time, for durations only. */
#ifndef STX_CLOCK_H
#define STX_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t stx_clock_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline uint64_t stx_clock_us(void)
{
	return stx_clock_ns() / 1000u;
}

#endif
