/* SPDX-License-Identifier: Apache-2.0 */
/* Processes and their executable mappings, from the kernel's records (fork, exec, mmap, exit) in the order of time. For processes
 * older than the agent, /proc is read when they are first sampled. Drain thread only.
 *
 * Only processes that are sampled and outlive a drain enter the kernel's tables, and they leave them after COLD_NS without a sample. Those
 * that run a language runtime enter as soon as they map it: a frame of it that the kernel did not walk is lost. */
#ifndef PYRRHA_AGENT_PROCESS_H
#define PYRRHA_AGENT_PROCESS_H

#include "agent/managed/frame_table.h"
#include "agent/process/address_space.h"
#include "agent/process/code_regions.h"
#include "agent/process/images.h"
#include "agent/process/process_info.h"
#include "agent/process/process_runtimes.h"

#define COLD_NS 60000000000ll

/* The kernel unwound with an image where by then another one was mapped: frames of `image` in samples of an edition
 * below `set` are not true. */
struct stale {
	uint16_t image;
	uint32_t set;
};
#define STALE_MAX 8

struct process {
	uint32_t pid, parent;
	char comm[16];
	struct address_space *as;    /* NULL = not known yet */
	struct image *exe;           /* the program it runs, as records have it; a reference; NULL = not known */
	bool read_proc;              /* /proc/PID/maps was read, or need not be */
	bool from_exec;              /* all of its mappings were told by records */
	bool dirty;                  /* the kernel's tables have an older address space */
	bool hot;                    /* is in `procs`, or will be after this drain */
	bool in_kernel;
	bool dead, gone;             /* dead: exit seen; gone: and a drain has passed since */
	bool early;                  /* is to enter the kernel's tables without a sample */
	uint32_t exec_id;            /* as the last sample has it; EXEC_ANY before the first */
	int64_t started_ns;          /* when the agent learned of its fork or exec; 0: it is older than the agent */
	uint32_t set, min_set;       /* edition in the kernel; editions below min_set are of before the exec */
	struct address_space *pushed; /* the kernel's copy */
	struct stale stale[STALE_MAX]; /* a ring */
	unsigned n_stale;
	int64_t sampled_ns, reread_ns, regions_ns; /* when it was last sampled, read again, and read for names of regions */
	int64_t reread_wait_ns;      /* from reread_ns on: it becomes longer while that is no use */
	int64_t silent_ns, ask_ns;   /* its memory is locked by others: how long it is left alone, until when; silent_ns 0 = it is not */
	unsigned fruitless;          /* times /proc was read again for an address and did not have it */
	struct process_info *info;   /* who it is now; NULL = not asked yet */
	struct runtime_owner *runtimes[RUNTIME_KINDS]; /* what its frames of a runtime belong to; a reference; NULL = not attached */
	struct runtime_state runtime;
};

struct processes;

/* runtime_fd: the kernel's map of language runtimes, borrowed; -1 = none. */
struct processes *processes_new(struct unwind_tables *t, struct images *x, int runtime_fd);
void processes_free(struct processes *ps);
size_t processes_count(const struct processes *ps);
/* Those that have an entry in the kernel's tables. */
size_t processes_in_kernel(const struct processes *ps);

/* What became of language runtimes in processes. */
const struct process_runtimes *processes_runtimes(const struct processes *ps);

/* The records. */
void processes_fork(struct processes *ps, uint32_t pid, uint32_t parent);
void processes_exec(struct processes *ps, uint32_t pid, const char *comm);
void processes_comm(struct processes *ps, uint32_t pid, const char *comm);
void processes_exit(struct processes *ps, uint32_t pid);
void processes_mmap(struct processes *ps, uint32_t pid, uint64_t start, uint64_t len, uint64_t file_offset,
		    const struct image_key *key);
/* Code without a file; path: what the record calls that memory, "//anon" if nothing else. */
void processes_mmap_code(struct processes *ps, uint32_t pid, uint64_t start, uint64_t len, const char *path);
/* Records were lost: what is known may be wrong; all is read again when next sampled. */
void processes_doubt(struct processes *ps);

/* The process that a sample is of; made if need be. exec_id: as bpf/abi.h has it. */
struct process *processes_sampled(struct processes *ps, uint32_t pid, uint32_t exec_id, int64_t now_ns);
/* Whether a frame of that image in a sample of that edition is of what was mapped there before. */
bool process_frame_stale(const struct process *p, uint32_t image, uint32_t set);
/* Its address space, ready for the unwinder (read from /proc if need be); false if there is no way to know. */
bool processes_prepare(struct processes *ps, struct process *p);
/* Reads /proc again because an address was in no mapping; false: it was read a moment ago, or it is no use. */
bool processes_reread(struct processes *ps, struct process *p, uint64_t addr, int64_t now_ns);
/* The mapping that holds the address; NULL if none. */
const struct mapping *process_mapping_at(const struct process *p, uint64_t addr);
/* What memory it is that holds code without a file at addr, for a mark: the number of processes_region_name. */
uint8_t processes_region_at(struct processes *ps, struct process *p, uint64_t addr, int64_t now_ns);
/* Valid as long as ps. */
const char *processes_region_name(const struct processes *ps, uint8_t region);
/* Times that /proc/PID/maps was read, of all processes. */
uint64_t processes_maps_reads(const struct processes *ps);
/* After the records and samples of a drain: tells the kernel what changed, forgets the dead. True: a program was executed, and may soon map
 * a language runtime. */
bool processes_finish_drain(struct processes *ps, int64_t now_ns);
/* Whether something was left for the next drain, so that this one did not take too long. */
bool processes_have_more(const struct processes *ps);
/* When the next drain has something to do for a process whose runtime had not begun, or has not been read yet: on CLOCK_MONOTONIC; the past:
 * soon; INT64_MAX: nothing. */
int64_t processes_due_ns(const struct processes *ps);

#endif
