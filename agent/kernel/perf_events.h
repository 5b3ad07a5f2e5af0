/* SPDX-License-Identifier: Apache-2.0 */
/* One perf event per CPU: the timer that runs the sampling program, and the source of records about processes (fork,
 * exec, names, executable mappings with build-ids, exits). Drain thread only.
 *
 * A new random period is chosen every REDRAW_NS, within 10 % of the nominal one, because a fixed one over-counts threads that sleep in
 * step with it. A sample's value is the time since the tick before it: its CPU's period and, right after a change, the part of the
 * tick that the change cut short. */
#ifndef PYRRHA_AGENT_PERF_EVENTS_H
#define PYRRHA_AGENT_PERF_EVENTS_H

#include "agent/image/image_files.h"
#include "base/arena.h"
#include "base/vec.h"

#define REDRAW_NS 10000000000ll

enum record_type { RECORD_FORK, RECORD_EXEC, RECORD_COMM, RECORD_EXIT, RECORD_MMAP };

struct perf_record {
	int64_t time_ns;
	enum record_type type;
	uint32_t pid, tid, parent;
	char comm[16];
	uint64_t start, len, file_offset;
	bool anonymous;              /* RECORD_MMAP of code without a file: the key has only its path */
	struct image_key key;        /* RECORD_MMAP; its path is in the arena of the records */
};

struct perf_records {
	VEC(struct perf_record) v;   /* ascending by time */
	struct arena arena;
	uint64_t lost;               /* records the kernel had no room for */
	uint64_t throttled;
	uint64_t bad;                /* malformed records */
};

/* Whether it is the name of a file, or the vDSO: not "//anon", "[heap]", "anon_inode:...", "/SYSV...", "/dev/zero". */
bool mapping_is_file(const char *path);
/* Whether a file of that name holds a program or library: JITs write into memory files; programs run from sealed ones, too, but those
 * are ELF, nearly always with a build-id. */
bool mapping_is_image(const char *path, bool has_build_id);

struct perf_events;

/* Opens an event on each online CPU and attaches the program. data_pages: power of two, per CPU. */
int perf_events_open(struct perf_events **ret, int prog_fd, double hz, unsigned data_pages, struct err *e) MUST_USE;
void perf_events_close(struct perf_events *p);
size_t perf_events_cpus(const struct perf_events *p);
/* Descriptors to poll, one per CPU. */
int perf_events_fd(const struct perf_events *p, size_t i);
/* Whether MMAP records have the build-id (5.12). */
bool perf_events_build_ids(const struct perf_events *p);
/* Adds all records that are there, and sorts. With PERF_RECORDS_MAX in out, it does nothing. */
#define PERF_RECORDS_MAX 65536
void perf_events_read(struct perf_events *p, struct perf_records *out);
void perf_records_clear(struct perf_records *r); /* of v; what is counted stays */
void perf_records_release(struct perf_records *r);
/* Draws new periods when it is time. */
void perf_events_redraw(struct perf_events *p, int64_t now_ns);
void perf_events_set_hz(struct perf_events *p, double hz);
/* The time that a sample of that CPU and time represents. */
int64_t perf_events_value(const struct perf_events *p, uint32_t cpu, int64_t time_ns);
int64_t perf_events_period(const struct perf_events *p);
/* Opens events on CPUs that came online, also if they were away only between two calls, and closes those of CPUs that
 * went. How many; negative: one could not be opened, which takes the rights that opening the first ones took. */
int perf_events_hotplug(struct perf_events *p, struct err *e) MUST_USE;

#endif
