/* SPDX-License-Identifier: Apache-2.0 */
/* The loaded BPF object: its programs, its tables, and the rings its samples come through. Drain thread only. */
#ifndef PYRRHA_AGENT_SAMPLER_H
#define PYRRHA_AGENT_SAMPLER_H

#include "agent/kernel/kept_records.h"
#include "agent/kernel/cpu_rings.h"
#include "agent/kernel/table_fds.h"
#include "base/vec.h"
#include "base/view.h"

struct sampler_options {
	uint32_t ring_bytes;         /* power of two */
	bool kernel_stacks;
	bool execs;                  /* each exec wakes the agent, twenty a second */
	bool off_cpu;                /* the program for waits and its tables, too: 3 MB on a small host, 12 on a large one */
};

struct sampler {
	struct bpf_object *object;
	int sample_fd;
	struct table_fds tables;
	struct bpf_link *exec_link;  /* NULL: execs do not wake the agent */
	struct bpf_link *switch_link; /* NULL: waits are not watched now */
	int stats_fd, ring_fd, control_fd;
	struct control control;      /* what the programs go by; sampler_set_control after a change */
	unsigned n_cpus;             /* possible ones */
	uint32_t verified_insns;     /* that the kernel's verifier walked for the sampling program; 0 = not said */
	uint32_t off_verified_insns; /* the same of the one for waits */
	/* The ring: the consumer's position, the producer's position and the data. */
	uint64_t *consumer;
	uint8_t *producer;
	uint32_t ring_bytes;
	uint64_t map_bytes;          /* the kernel memory of the object's maps, without the maps that `chunks` holds */
	struct cpu_rings cpu_rings;
	uint64_t *cost_ns;           /* of the sampling program, per CPU, as far as samples said */
	uint64_t *untaken;           /* per CPU: ticks without a sample, because of a filter or for want of room */
	VEC(const struct sample_head *) samples;
	uint64_t taken;              /* position in the ring up to which it was read */
	struct kept_records kept;    /* those of samples[] that are in the rings no more */
	struct kept_records later;   /* what sampler_relieve has read since */
};

/* The bytes of the BPF object that was built with the agent. */
struct view sampler_object(void);

int sampler_load(struct sampler *s, const struct sampler_options *o, struct err *e) MUST_USE;
void sampler_release(struct sampler *s);
int sampler_set_control(struct sampler *s, struct err *e) MUST_USE;
/* Begins and ends watching switches of threads. */
int sampler_watch_switches(struct sampler *s, bool on, struct err *e) MUST_USE;
/* A table that the agent fills, by its name in the object; -1 = none. */
int sampler_map_fd(const struct sampler *s, const char *name);
/* All complete samples, in s->samples, ascending by time, each followed by what there is more of its stack
 * (SAMPLE_MORE); they stay valid until sampler_done. */
void sampler_read(struct sampler *s);
/* Empties the rings in between, so that nothing is lost while finishing samples takes long: what they have is for the next
 * sampler_read. Of samples[] only those from `from` on are valid any more; their pieces of stack (SAMPLE_MORE) may be gone. Without
 * room in kept_records it does nothing. */
void sampler_relieve(struct sampler *s, size_t from);
void sampler_done(struct sampler *s);
const uint64_t *sample_user(const struct sample_head *h);
const uint64_t *sample_kernel(const struct sample_head *h);
/* The pages of stack that came with sample i, by their distance from the page of sp; NULL = not copied. */
void sample_stack(const struct sampler *s, size_t i, const uint8_t *pages[STACK_PAGES]);
/* The time that the sampling program used, by its own clock readings, up to the samples read last. */
uint64_t sampler_cost_ns(const struct sampler *s);
/* Sums over all CPUs, by enum agent_stat; sets s->untaken. */
bool sampler_stats(const struct sampler *s, uint64_t out[STATS_MAX]);

#endif
