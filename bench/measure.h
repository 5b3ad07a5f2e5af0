/* SPDX-License-Identifier: Apache-2.0 */
/* What every benchmark needs: the process's own cost, and an end when something fails. */
#ifndef PYRRHA_BENCH_MEASURE_H
#define PYRRHA_BENCH_MEASURE_H

#include "base/attrs.h"
#include "base/err.h"

/* CPU time of all threads so far, in seconds. */
double measure_cpu(void);
/* A field of /proc/self/status ("VmRSS", "VmHWM"), in kB; 0 if it is not there. */
long measure_status_kb(const char *field);
/* Says what failed, and why if e is not NULL, and ends the process with 1. */
_Noreturn void measure_die(const char *what, const struct err *e);

#endif
