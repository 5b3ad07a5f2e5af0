/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of bench_agent share, and those of language runtimes and of two versions (agent_walks.c). */
#ifndef PYRRHA_BENCH_AGENT_BENCH_H
#define PYRRHA_BENCH_AGENT_BENCH_H

#include <sys/types.h>

#include "agent/core/agent_private.h"

/* Of the command line: where the fixtures are, and how long a run is. */
extern const char *bench_folder;
extern int64_t bench_seconds;

/* A command of the shell, in a process group of its own, which bench_stop ends. */
pid_t bench_start(const char *command);
void bench_stop(pid_t pid);
/* A row of the table. bar: what the value may be at most; 0 = none. */
void bench_row(const char *what, double value, const char *unit, double bar, const char *note);
/* The middle one, or the one above; sorts v. n: 1 or more. */
double bench_median(double *v, size_t n);

/* The parts. Programs that are not there are left out, and named. */
void walks_runtimes(struct agent *a);
void walks_versions(struct agent *unused);
void walks_held(struct agent *unused);

#endif
