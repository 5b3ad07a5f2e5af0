/* SPDX-License-Identifier: Apache-2.0 */
/* The namer: a thread that reads codes (frame_table.h) from the memory of their processes, each once, soon after it was sampled. The
 * drain thread hands it what is wanted, and never waits for it. It may take a share of a CPU that does not slow the host, after a start
 * with much to read; what is left then waits. Processes that have taken the least of its time come first, so that one which makes code without
 * end, or code that takes long to read, does not keep the others from being named; time in which nothing could be read counts several times.
 * One that comes new, or back, has had as much as the one that is next: neither has it all of the time, nor has it to wait for what it had
 * before. Of one process, those that are met most often come first.
 *
 * Memory that the process maps from a file system of its own (FUSE) may keep the reading thread waiting for as long as the process likes.
 * That thread is then left behind, and another one goes on with the other processes. */
#ifndef PYRRHA_AGENT_NAMER_H
#define PYRRHA_AGENT_NAMER_H

#include "agent/managed/frame_table.h"

/* CPU time: so much at once, and per second in the long run. A hundred short programs of Java, one after the other, take 1.8 s. */
#define NAMER_BURST_NS 2000000000ll
#define NAMER_NS_PER_S 10000000ll
/* What reading one code may take of a process. */
#define CODE_READS_MAX 4096u         /* compiled Java code with a hundred inlined methods takes 1,500 */
#define CODE_BYTES_MAX (1u << 20)
/* A thread that waits so long for one code is left behind; so many may be, until nothing is read any more; and of one user's. */
#define STUCK_MS 5000
#define STUCK_MAX 16u
#define STUCK_USER_MAX 4u

struct namer;

struct namer *namer_new(struct err *e);
void namer_free(struct namer *n);
/* After each drain: takes what the table wants read, and returns at once. If the namer is just being asked something else it stays in the
 * table for the next drain. The agent's lock is held. */
void namer_take(struct namer *n, struct frame_table *t);
/* Waits until what it was handed before was read, at most so long. Any thread that holds no lock. */
void namer_settle(struct namer *n, int64_t patience_ms);

struct namer_stats {
	uint64_t codes[RUNTIME_KINDS][CODE_STATES]; /* readings, by what came of them */
	size_t waiting;              /* codes that are still to be read */
	uint64_t cpu_ns;
	uint64_t stuck;              /* times a thread was left behind */
};
void namer_stats(struct namer *n, struct namer_stats *ret);

#endif
