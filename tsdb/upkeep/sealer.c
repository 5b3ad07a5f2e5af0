/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/upkeep/sealer.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/room.h"
#include "tsdb/cached/cached_days.h"
#include "tsdb/read/scratch.h"
#include "tsdb/seal/seal.h"
#include "tsdb/upkeep/compact.h"
#include "tsdb/upkeep/name_finder.h"
#include "tsdb/upkeep/rollup.h"
#include "tsdb/upkeep/tombstone_clean.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/evict.h"

#define SEALER_NICE 10
#define RETAIN_EVERY_MS 60000
#define NAMES_EVERY_MS 5000

int tsdb_seal(struct tsdb *db, bool all, struct err *e)
{
	tsdb_flush(db);
	int rc = seal_due(db, all ? SEAL_ALL : SEAL_AGED, e);
	return rc ? rc : rollup_due(db, e);
}

static int tidy_sealed(struct tsdb *db, struct err *e)
{
	int rc = MIN(tombstone_clean_due(db, 1, INT64_MAX, e), 0);
	if (!rc)
		rc = rollup_due(db, e);
	if (!rc && !atomic_load(&db->stopping))
		rc = MIN(compact_due(db, false, INT64_MAX, e), 0);
	return rc;
}

static int seal_and_tidy(struct tsdb *db, struct err *e)
{
	struct err tidy;
	int rc = seal_due(db, SEAL_AGED, e);
	if (rc && !seal_concerns_one(e))
		return rc;
	int rc_tidy = tidy_sealed(db, &tidy);
	if (rc_tidy)
		*e = tidy;
	return rc_tidy ? rc_tidy : rc;
}

void *tsdb_sealer(void *arg)
{
	struct tsdb *db = arg;
	int64_t next_retain = 0, next_try = 0, next_names = 0;
	struct err e;
	thread_give_way(SEALER_NICE); /* queries and appends go first: what is sealed has time */
	while (tsdb_pause(db, 200)) {
		int64_t now = clock_mono_ms();
		retention_clock_look(db);
		if (now >= next_try) {
			int rc = seal_and_tidy(db, &e);
			if (rc && !atomic_load(&db->stopping))
				LOG_ERROR("msg", "cannot seal, will try again", "err", e.msg);
			evict_due(db, EVICT_IDLE_MS);
			next_try = now + (rc ? 10000 : 500);
		}
		if (now >= next_names) {
			if (name_finder_due(db, &e))
				LOG_WARN("msg", "late names could not be stored, will try again", "err", e.msg);
			cached_days_tidy(db, false);
			next_names = now + NAMES_EVERY_MS;
		}
		if (now >= next_retain) {
			dict_unions_tidy(db->dict_unions, false);
			dict_unions_tidy_names(db, false);
			scratch_pool_tidy(db->scratch_pool, false);
			room_tidy(false);
			if (tsdb_retain(db, &e))
				LOG_ERROR("msg", "retention failed", "err", e.msg);
			next_retain = now + RETAIN_EVERY_MS;
		}
	}
	return NULL;
}
