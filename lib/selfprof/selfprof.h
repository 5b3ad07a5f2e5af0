/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that a program takes of itself, as Go programs do. They need no privilege and no perf event, include libraries, and unwind
 * code without frame pointers by its .eh_frame.
 *
 *	CPU    ticks.h --pieces of stacks--> own_unwind.h --addresses--> own_names.h --> struct profile
 *
 * Any C program can link this. Nothing runs, and nothing is in memory, before the first profile is requested; data read from files is
 * kept afterwards. Unwinding and naming happen on the thread that asked. */
#ifndef PYRRHA_SELFPROF_SELFPROF_H
#define PYRRHA_SELFPROF_SELFPROF_H

#include <stdatomic.h>

#include "base/err.h"

struct profile;

/* Measures for that long, or until *stop (NULL = never): then ERR_CANCELED. Types, units and period are Go's: samples/count and
 * cpu/nanoseconds each 10 ms. Each value is the sum of ticks of threads, so the total is the CPU time used. Losses are in a comment.
 * Several at once share the ticks, each is as it would be alone; more than eight: ERR_CONFLICT. out is initialised and empty. */
int selfprof_cpu(int64_t duration_ns, const atomic_bool *stop, struct profile *out, struct err *e) MUST_USE;

#endif
