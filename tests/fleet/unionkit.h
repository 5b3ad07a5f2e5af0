/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of the union of servers: peers in memory, and one source that has everything that they have. Series are drawn at random and spread over
 * the peers, some of them over two: one after the other, or at the same time. PYRRHA_SEED is another draw, PYRRHA_LONG makes a test long. */
#ifndef PYRRHA_TESTS_UNIONKIT_H
#define PYRRHA_TESTS_UNIONKIT_H

#include "fleet/union.h"
#include "promql-like/memsource.h"
#include "promql-like/promql.h"

#define KIT_PEERS 5
#define KIT_STEP 10000
#define KIT_START 3500000 /* an hour ends in the middle of it */
#define KIT_END (KIT_START + 30 * KIT_STEP)

/* ---- numbers ---- */

extern uint64_t kit_state;
uint32_t kit_draw(uint32_t n);
#define KIT_ONE_OF(...) kit_one_of((const char *const[]){ __VA_ARGS__ }, ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))
const char *kit_one_of(const char *const *list, size_t n);
uint64_t kit_rounds(uint64_t usual);
uint64_t kit_first_seed(void);

/* ---- peers ---- */

struct kit_peer {
	struct fleet_peer peer;      /* first; named, and fails when it is told to */
	struct memsource *source;
	struct promql_engine *engine; /* of the source: makes rows of graphs */
	struct fleet_peer *local;    /* of the source */
	struct label external[2];
	size_t n_external;
	struct labels labels;
	bool named;                  /* false: the union has `local` itself, this process's storage */
	enum fleet_op fails_at;      /* 0: never */
	enum err_code fails_with;
	bool slow;                   /* its answers come after all others */
	unsigned n_refs, n_canceled; /* series that asks named; asks that were canceled, which are finished, too */
	unsigned n_started, n_finished, n_open, n_of[FLEET_OPS]; /* asks; views */
};

extern struct kit_peer kit_peers[KIT_PEERS];
extern size_t kit_n_peers;
extern struct memsource *kit_all;    /* has everything, with the labels of peers */
extern struct fleet_union *kit_joint;
/* Before a question of this many asks: kit_all_first becomes false if one is waited for before all have started. */
extern unsigned kit_expected;
extern bool kit_all_first;

/* n peers without anything. */
void kit_open_all(size_t n);
void kit_close_all(void);
/* Before anything is added: a label that a peer's series have in the union. Borrows the strings. */
void kit_peer_external(size_t i, const char *name, const char *value);
/* At a peer, and among everything. text: stacks as in tests of the language. */
void kit_add_profile(size_t peer, struct labels l, const struct ptype *type, const struct source_profile *p, const char *text);
void kit_add_float(size_t peer, struct labels l, int64_t t, double v);
/* Opens peers and draws their series. */
void kit_fill(void);

#endif
