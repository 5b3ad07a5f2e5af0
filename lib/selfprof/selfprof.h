/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles that a program takes of itself, as Go programs do: no privilege and no perf event is needed, libraries count as
 * the program does, and code without frame pointers is unwound by its .eh_frame.
 *
 *	CPU    ticks.h --pieces of stacks--> own_unwind.h --addresses--> own_names.h --> struct profile
 *
 * Any C program can link this. Nothing runs, and nothing is in memory, before the first profile is asked for; what was read
 * of files is kept afterwards. Unwinding and naming happen on the thread that asked. */
#ifndef PYRRHA_SELFPROF_SELFPROF_H
#define PYRRHA_SELFPROF_SELFPROF_H

#include <stdatomic.h>

#include "base/err.h"

struct profile;

/* Measures for that long, or until *stop (NULL = never): then ERR_CANCELED. Types, units and period are Go's: samples/count
 * and cpu/nanoseconds each 10 ms; each value is made of ticks that threads had, so that their sum is the CPU time used. What
 * was lost is in a comment. Several at once share the ticks, each is as it would be alone; more than eight: ERR_CONFLICT. out is
 * initialised and empty. */
int selfprof_cpu(int64_t duration_ns, const atomic_bool *stop, struct profile *out, struct err *e) MUST_USE;

#endif
