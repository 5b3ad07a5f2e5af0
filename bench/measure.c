/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/measure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

double measure_cpu(void)
{
	struct timespec t;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

long measure_status_kb(const char *field)
{
	char line[256];
	size_t len = strlen(field);
	long kb = 0;
	FILE *f = fopen("/proc/self/status", "re");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, field, len) == 0 && line[len] == ':')
			kb = strtol(line + len + 1, NULL, 10);
	if (f)
		fclose(f);
	return kb;
}

void measure_die(const char *what, const struct err *e)
{
	fprintf(stderr, "%s: %s\n", what, e ? e->msg : "");
	exit(1);
}
