/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/retention_clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/part/part.h"
#include "tsdb/version/db.h"

#define WAIT_MS HOUR_MS
#define NEAR_MS HOUR_MS /* a stamp so near to the wall clock is of what happens now */
#define BOOT_ID 64

void retention_clock_init(struct retention_clock *c)
{
	mutex_init(&c->lock, LOCK_LEAF, "retention clock");
}

void retention_clock_destroy(struct retention_clock *c)
{
	mutex_destroy(&c->lock);
}

/* ---- over restarts ---- */

/* The machine's current boot; the monotonic clock counts from it. */
static const char *boot_id(const struct tsdb *db, char id[BOOT_ID])
{
	snprintf(id, BOOT_ID, "%s", db->o.now_ms ? "test" : "unknown");
	FILE *f = db->o.now_ms ? NULL : fopen("/proc/sys/kernel/random/boot_id", "re");
	if (f) {
		if (fscanf(f, "%63s", id) != 1)
			snprintf(id, BOOT_ID, "unknown");
		fclose(f);
	}
	return id;
}

static void save(struct tsdb *db)
{
	const struct retention_clock *c = &db->retention_clock;
	CLEANUP(buf_free) struct buf b = { 0 };
	char id[BOOT_ID];
	struct err e;
	buf_printf(&b, "pyrrha-clock 1\nboot %s\ndiffer %" PRId64 "\nbase %" PRId64 " at %" PRId64 "\ngap %" PRId64 "\nsteady %" PRId64
		   "\nsettled %" PRId64 "\nwaits %" PRId64 "\n", boot_id(db, id), c->steps.differ_ms, c->base_ms, c->base_boot_ms, c->gap_ms,
		   c->steady_boot_ms, c->settled_boot_ms, c->waits_until_boot_ms);
	buf_printf(&b, "checksum %016" PRIx64 "\n", hash_stable(b.ptr, b.len));
	if (!db->o.read_only && files_put(db->path, "clock", buf_view(&b), &e))
		LOG_DEBUG("msg", "what the clock was is not written down", "err", e.msg);
}

static bool parse(FILE *f, struct retention_clock *c, char id[BOOT_ID], uint64_t *ret_sum)
{
	return fscanf(f, "pyrrha-clock 1\nboot %63s\ndiffer %" SCNd64 "\nbase %" SCNd64 " at %" SCNd64 "\ngap %" SCNd64 "\nsteady %" SCNd64
		      "\nsettled %" SCNd64 "\nwaits %" SCNd64 "\nchecksum %" SCNx64, id, &c->steps.differ_ms, &c->base_ms, &c->base_boot_ms,
		      &c->gap_ms, &c->steady_boot_ms, &c->settled_boot_ms, &c->waits_until_boot_ms, ret_sum) == 9;
}

/* False: there is none of this boot. */
static bool restore(struct tsdb *db, struct retention_clock *c)
{
	AUTOFREE char *name = xasprintf("%s/clock", db->path);
	char text[1024], id[BOOT_ID], theirs[BOOT_ID];
	uint64_t sum;
	FILE *f = fopen(name, "re");
	if (!f)
		return false;
	size_t n = fread(text, 1, sizeof text - 1, f);
	text[n] = 0;
	const char *last = strstr(text, "checksum ");
	rewind(f);
	bool ok = parse(f, c, theirs, &sum) && last && sum == hash_stable(text, (size_t)(last - text));
	fclose(f);
	c->steps.begun = true;
	return ok && !strcmp(theirs, boot_id(db, id)) && strcmp(id, "unknown") && c->base_boot_ms <= tsdb_boot_ms(db);
}

/* ---- at the start ---- */

/* The head log's rows are known; of what is sealed the newest day is enough. */
static void see_newest_parts(struct tsdb *db, const struct version *v)
{
	int64_t newest = atomic_load(&db->newest_t);
	const struct pstate *s = v->n ? v->p[v->n - 1] : NULL;
	for (size_t i = 0; s && i < s->n_parts; i++)
		for (size_t k = 0; s->parts[i]->level == LEVEL_HOUR && k < s->parts[i]->series.n; k++)
			newest = MAX(newest, part_start_ms(s->parts[i]) + s->parts[i]->series.v[k].max_ms);
	atomic_store(&db->newest_t, newest);
}

/* Days before this one that nothing is stored of, between days that something is stored of. */
static int64_t missing_days(const struct version *v, uint32_t today)
{
	int64_t missing = 0, next = today;
	for (size_t i = v->n; i--;) {
		int64_t day = v->p[i]->p->day;
		if (day > today)
			continue;
		missing += MAX(next - day - 1, 0);
		next = day;
	}
	return missing;
}

/* Stored data gives a lower bound of the current time, and the days that passed. */
static void begin(struct tsdb *db, int64_t wall_ms, int64_t boot_ms)
{
	struct retention_clock *c = &db->retention_clock;
	struct version *v = tsdb_version(db, NULL);
	int64_t now_ms = MAX(wall_ms, atomic_load(&db->newest_t)), missing = missing_days(v, day_of(now_ms));
	version_unref(v);
	c->steps.begun = false;
	clock_steps_look(&c->steps, wall_ms, boot_ms);
	c->gap_ms = missing * DAY_MS;
	c->base_ms = now_ms - c->gap_ms;
	c->base_boot_ms = c->steady_boot_ms = boot_ms;
	c->settled_boot_ms = boot_ms + WAIT_MS;
	c->waits_until_boot_ms = 0;
	if (missing && !db->o.read_only)
		LOG_INFO("msg", "nothing is stored of some days: retention believes that they passed once the clock has had no step "
			 "for an hour", "days", LOG_NUM(missing));
}

void retention_clock_start(struct tsdb *db)
{
	struct retention_clock *c = &db->retention_clock;
	struct version *v = tsdb_version(db, NULL);
	see_newest_parts(db, v);
	version_unref(v);
	int64_t wall_ms = tsdb_now_ms(db), boot_ms = tsdb_boot_ms(db), newest_ms = atomic_load(&db->newest_t);
	if (!restore(db, c)) {
		begin(db, wall_ms, boot_ms);
	} else if (boot_ms - c->steady_boot_ms >= DAY_MS && llabs(wall_ms - boot_ms - c->steps.differ_ms) < CLOCK_STEP_MS) {
		c->base_ms = wall_ms;
		c->base_boot_ms = boot_ms;
		c->gap_ms = 0;
	}
	if (newest_ms > wall_ms + 10 * INT64_C(60000))
		LOG_WARN("msg", "what is stored is ahead of the clock: the clock is wrong, or was", "ahead_s",
			 LOG_NUM((newest_ms - wall_ms) / 1000));
	save(db);
	retention_clock_look(db);
}

/* ---- later ---- */

static void say_step(const struct clock_steps *s)
{
	LOG_WARN("msg", "the clock was set: what is stored from now on has the new time, retention drops nothing for an hour",
		 "step_s", LOG_NUM(s->last_step_ms / 1000), "steps", LOG_NUM(s->n));
}

void retention_clock_look(struct tsdb *db)
{
	struct retention_clock *c = &db->retention_clock;
	int64_t wall_ms = tsdb_now_ms(db), boot_ms = tsdb_boot_ms(db);
	mutex_lock(&c->lock);
	bool step = clock_steps_look(&c->steps, wall_ms, boot_ms);
	struct clock_steps steps = c->steps;
	bool settles = c->gap_ms && boot_ms >= c->settled_boot_ms;
	if (step) {
		c->steady_boot_ms = boot_ms;
		c->waits_until_boot_ms = c->settled_boot_ms = boot_ms + WAIT_MS;
		settles = false;
	}
	if (settles) {
		/* Data that was ahead of the wall clock, and still is, proves nothing. */
		if (wall_ms - (boot_ms - c->base_boot_ms) >= c->base_ms + c->gap_ms - HOUR_MS)
			c->base_ms += c->gap_ms;
		c->gap_ms = 0;
	}
	if (step || settles)
		save(db);
	mutex_unlock(&c->lock);
	if (!step)
		return;
	metric_inc(&tsdb_metrics[TM_CLOCK_STEPS]);
	metric_set(&tsdb_metrics[TM_CLOCK_STEP], (double)steps.last_step_ms / 1000);
	say_step(&steps);
}

bool retention_clock_waits(struct tsdb *db)
{
	struct retention_clock *c = &db->retention_clock;
	mutex_lock(&c->lock);
	bool waits = tsdb_boot_ms(db) < c->waits_until_boot_ms;
	mutex_unlock(&c->lock);
	return waits;
}

void tsdb_clock(struct tsdb *db, struct admin_clock *ret)
{
	struct retention_clock *c = &db->retention_clock;
	int64_t boot_ms = tsdb_boot_ms(db);
	mutex_lock(&c->lock);
	*ret = (struct admin_clock){ .steps = c->steps.n, .last_step_ms = c->steps.last_step_ms, .last_at_ms = c->steps.last_wall_ms,
				    .retention_waits_ms = MAX(c->waits_until_boot_ms - boot_ms, 0) };
	mutex_unlock(&c->lock);
}

/* ---- what time it is ---- */

int64_t tsdb_retention_now_ms(struct tsdb *db)
{
	struct retention_clock *c = &db->retention_clock;
	int64_t now = tsdb_now_ms(db), boot_ms = tsdb_boot_ms(db), newest = atomic_load(&db->newest_t);
	mutex_lock(&c->lock);
	int64_t since_start = c->base_ms + boot_ms - c->base_boot_ms + HOUR_MS;
	mutex_unlock(&c->lock);
	if (newest != INT64_MIN)
		now = MIN(now, newest + HOUR_MS);
	return MIN(now, since_start);
}

int64_t tsdb_floor_ms(struct tsdb *db)
{
	int64_t refused = atomic_load(&db->dropped.refused_until_ms);
	return db->o.retention_ms < 0 ? refused : MAX(tsdb_retention_now_ms(db) - db->o.retention_ms, refused);
}

int64_t retention_now_of(struct tsdb *db, const struct partition *p)
{
	int64_t live_t = atomic_load(&p->live_t_ms), now = tsdb_now_ms(db), newest = atomic_load(&db->newest_t);
	if (!live_t)
		return tsdb_retention_now_ms(db);
	if (newest != INT64_MIN)
		now = MIN(now, newest + HOUR_MS);
	return MIN(now, live_t + tsdb_boot_ms(db) - atomic_load(&p->live_boot_ms) + HOUR_MS);
}

void retention_clock_saw(struct partition *p, int64_t t_ms, int64_t now_ms, int64_t boot_ms)
{
	if (t_ms < now_ms - NEAR_MS || t_ms > now_ms + NEAR_MS)
		return;
	atomic_store_explicit(&p->live_boot_ms, boot_ms, memory_order_relaxed);
	atomic_store_explicit(&p->live_t_ms, t_ms, memory_order_relaxed);
}

bool retention_is_recent(struct tsdb *db, const struct partition *p)
{
	return atomic_load(&p->live_t_ms) && tsdb_boot_ms(db) - atomic_load(&p->live_boot_ms) < HOUR_MS;
}
