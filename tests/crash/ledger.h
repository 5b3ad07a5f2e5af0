/* SPDX-License-Identifier: Apache-2.0 */
/* What a torture run knows of the storage under test: every append that was tried and whether it was acknowledged, every
 * deletion likewise. It lies in a file outside of the directory under test and survives the death of the process. All
 * calls are thread-safe. */
#ifndef PYRRHA_TESTS_LEDGER_H
#define PYRRHA_TESTS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ledger_state {
	TRIED,    /* may be there */
	ACKED,    /* must be there */
	DELETING, /* may be there */
	DELETED,  /* must not be there */
	LOST,     /* the storage said that it lost records when this was missing: may be there */
	FORGOTTEN /* retention may have taken it: may be there */
};

struct ledger_entry {
	int64_t t_ms;
	uint64_t seed, sums[2]; /* kit_profile_sum, samples and cpu */
	int64_t total;          /* of the samples type */
	uint32_t n;
	uint16_t pod;
	uint8_t state;
	bool up;                /* an acknowledged row: a generation of the bucket has it. A deleted row: the delete is in the bucket. Reset when the state of the row changes */
	uint8_t writer;         /* whose note of its last append its batch has too */
	uint64_t record;        /* the number of the last synced record of the log when it was acknowledged */
};

struct ledger;

struct ledger *ledger_open(const char *path);
void ledger_close(struct ledger *l);
/* A stamp nobody used for this pod yet; false if it is taken. Writes it down as tried; *ret_id names it from now on. */
bool ledger_try(struct ledger *l, const struct ledger_entry *x, uint32_t *ret_id);
void ledger_set(struct ledger *l, uint32_t id, enum ledger_state state);
void ledger_up(struct ledger *l, uint32_t id);
void ledger_ack(struct ledger *l, uint32_t id, uint64_t record);
/* Sets all of pod in (after, until] that are in state `from` or can be. */
void ledger_delete(struct ledger *l, unsigned pod, int64_t after_ms, int64_t until_ms, enum ledger_state state);
size_t ledger_n(struct ledger *l);
/* How many were ever acknowledged. */
size_t ledger_acked(struct ledger *l);
struct ledger_entry ledger_get(struct ledger *l, uint32_t id);
/* The entry of that stamp. */
bool ledger_find(struct ledger *l, unsigned pod, int64_t t_ms, uint32_t *ret_id);

#endif
