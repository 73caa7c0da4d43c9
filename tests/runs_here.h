/* runs_here.h
 * whether code for a target can be run by the test that asks. */
#ifndef RUNS_HERE_H
#define RUNS_HERE_H

#include "cpu_target.h"

static inline int host_runs(const char *target)
{
	struct stx_cpu_target host = stx_cpu_target_host(), need;
	return !stx_cpu_target_parse(target, &need, NULL) && stx_cpu_target_covers(&host, &need);
}

#endif
