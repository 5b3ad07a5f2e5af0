/* SPDX-License-Identifier: Apache-2.0 */
/* A fleet made from real stacks: nodes x 4 services, a profile of each pod every 10 s. Its samples are timer hits of a
 * Zipf-Mandelbrot law with a skew of its own per pod, more by day than by night. A deploy every 6 h brings new pods and
 * shifted addresses. Stacks come from the pprof corpus ($PYRRHA_CORPUS), crossed at common functions until each service
 * has its pool. A seed makes it repeat. */
#ifndef PYRRHA_BENCH_FLEET_H
#define PYRRHA_BENCH_FLEET_H

#include "tsdb/write/committer.h"

#define SERVICES 4
#define NODES 50
#define T0 INT64_C(1700006400000)
#define NAME "process_cpu:samples:count:cpu:nanoseconds:delta"
#define DEPLOY_MS (6 * HOUR_MS)

struct stack {
	uint32_t *names; /* of function names, leaf first */
	uint32_t n;
	uint64_t hash;   /* of the names as texts */
	bool hit;        /* has the function that graphs ask for */
};

struct service {
	VEC(struct stack) stacks;
	struct map seen; /* hash of the names */
	double *weight;
};

struct pod {
	uint32_t service, node, deploy;
	uint32_t series;
	/* Alias table of its law. */
	uint32_t *alias;
	float *keep;
	uint32_t n;
	uint32_t *column;  /* of each stack, in the partition */
	uint32_t *counts;
	uint32_t *drawn;
};

struct bench_fleet {
	struct tsdb *db;
	double scale;
	VEC(char *) names;
	struct map by_name;
	struct service services[SERVICES];
	uint32_t function; /* name that graphs ask for */
	VEC(struct pod) pods;
	struct partition *p;
	uint64_t profiles, samples;
	uint64_t random;
	VEC(uint64_t) keys;
	struct fleet_shard {       /* which pods are pushed: those whose number's hash is `shard` modulo `of`; of is 0: all */
		uint32_t shard, of;
		int64_t from_ms;   /* from when on */
	} shards[2];
};

/* What is told of a drawn profile besides its samples. */
struct drawn {
	int64_t t_ms, total, hits;
	uint64_t hash; /* sum of value x hash of the stack */
};

void fleet_init(struct bench_fleet *b, double scale);
/* New pods, interned into the partition that holds t. */
void fleet_deploy(struct bench_fleet *b, int64_t t_ms, uint32_t number);
void fleet_draw(struct bench_fleet *b, struct pod *p, int64_t t_ms, struct record_profile *out, struct drawn *ret);
/* "I/N", or "I/N,I/N@H": another share from the H-th hour on, as if the number of shards had changed. False: it is neither. */
bool fleet_parse_shards(struct bench_fleet *b, struct view text);
/* One round, a profile of each pod of the shard, as one request of the storage; waits while its head is over twice its budget. */
void fleet_push(struct bench_fleet *b, int64_t t_ms, const struct record_profile *profiles);
/* What fleet_draw just drew of the pod, as a decoder would hand it over; p was initialised. */
void fleet_flatten(const struct bench_fleet *b, const struct pod *pod, const struct record_profile *drawn, struct profile *p);
uint64_t fleet_hash_name(uint64_t h, struct view name);

#endif
