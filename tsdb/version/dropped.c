/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/version/dropped.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/version/db.h"

#define MAX_DAYS 100000 /* lines that are read */

static uint64_t sum_old(long long until)
{
	return hash_u64((uint64_t)until ^ UINT64_C(0x64726f70706564));
}

/* Parses a line, added to the previous ones. */
static uint64_t sum_line(uint64_t sum, uint64_t a, uint64_t b)
{
	return hash_u64(hash_u64(sum ^ a) ^ b);
}

int dropped_write(const struct dropped *d, const char *dir, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	uint64_t sum = sum_line(0, (uint64_t)d->until_ms, d->record);
	buf_printf(&b, "pyrrha-dropped 2\nuntil %" PRId64 " record %" PRIu64 "\n", d->until_ms, d->record);
	for (size_t i = 0; i < d->days.n; i++) {
		buf_printf(&b, "day %u record %" PRIu64 "\n", d->days.v[i].day, d->days.v[i].record);
		sum = sum_line(sum, d->days.v[i].day, d->days.v[i].record);
	}
	buf_printf(&b, "checksum %016" PRIx64 "\n", sum);
	return b.overflow ? err_set(e, ERR_LIMIT, "too many days were dropped") : files_put(dir, "dropped", buf_view(&b), e);
}

/* The form of before: up to which stamp, whatever the records' numbers. */
static bool read_old(struct dropped *d, FILE *f)
{
	long long until;
	uint64_t sum;
	int n = fscanf(f, "until %lld\nchecksum %" SCNx64, &until, &sum);
	if (n != 1 && (n != 2 || sum != sum_old(until))) /* older ones have no checksum */
		return false;
	d->until_ms = until;
	d->record = DROPPED_ALL;
	return true;
}

static bool read_new(struct dropped *d, FILE *f)
{
	struct dropped_day x;
	uint64_t sum, want;
	if (fscanf(f, "until %" SCNd64 " record %" SCNu64 " ", &d->until_ms, &d->record) != 2)
		return false;
	sum = sum_line(0, (uint64_t)d->until_ms, d->record);
	while (d->days.n < MAX_DAYS && fscanf(f, "day %" SCNu32 " record %" SCNu64 " ", &x.day, &x.record) == 2) {
		vec_push(&d->days, x);
		sum = sum_line(sum, x.day, x.record);
	}
	return fscanf(f, "checksum %" SCNx64, &want) == 1 && want == sum;
}

int dropped_read(struct tsdb *db, struct err *e)
{
	struct dropped *d = &db->dropped;
	AUTOFREE char *name = xasprintf("%s/dropped", db->path);
	int version = 0;
	FILE *f = fopen(name, "re");
	if (!f)
		return errno == ENOENT ? 0 : err_errno(e, errno, "cannot read %s", name);
	bool ok = fscanf(f, "pyrrha-dropped %d ", &version) == 1 && (version == 1 ? read_old(d, f) : version == 2 && read_new(d, f));
	fclose(f);
	if (ok)
		return 0;
	dropped_release(d);
	LOG_WARN("msg", "the file that says which partitions were dropped is damaged: what the log still has of them comes back "
		 "until retention drops it again", "file", name);
	return 0;
}

uint64_t dropped_record(const struct dropped *d, uint32_t day)
{
	uint64_t record = ((int64_t)day + 1) * DAY_MS <= d->until_ms ? d->record : 0;
	for (size_t i = 0; i < d->days.n; i++)
		if (d->days.v[i].day == day)
			record = MAX(record, d->days.v[i].record);
	return record;
}

uint64_t dropped_last(const struct dropped *d)
{
	uint64_t last = d->record == DROPPED_ALL ? 0 : d->record;
	for (size_t i = 0; i < d->days.n; i++)
		last = MAX(last, d->days.v[i].record);
	return last;
}

static void refuse(struct dropped *d, int64_t until_ms)
{
	d->unwritten = true;
	atomic_store(&d->refused_until_ms, MAX(atomic_load(&d->refused_until_ms), until_ms));
}

static void written(struct dropped *d)
{
	d->unwritten = false;
	atomic_store(&d->refused_until_ms, 0);
}

void dropped_start(struct tsdb *db, uint64_t last)
{
	struct dropped *d = &db->dropped;
	struct err e;
	if (d->record != DROPPED_ALL || db->o.read_only)
		return;
	d->record = last;
	refuse(d, d->until_ms);
	if (dropped_sync(db, &e))
		LOG_WARN("msg", "what was dropped cannot be written down, will try again", "err", e.msg);
}

/* Whether a day other than this one is there, or about to be, that ends at this stamp or before. */
static bool is_older(struct tsdb *db, uint32_t day, int64_t until_ms)
{
	bool older = false;
	mutex_lock(&db->state_lock);
	for (size_t i = 0; i < db->partitions.n; i++) {
		uint32_t other = db->partitions.v[i]->day;
		older |= other != day && ((int64_t)other + 1) * DAY_MS <= until_ms;
	}
	mutex_unlock(&db->state_lock);
	return older;
}

/* The copy of d with one more day. */
static struct dropped with_day(struct tsdb *db, uint32_t day, uint64_t record)
{
	const struct dropped *d = &db->dropped;
	struct dropped next = { .until_ms = MAX(d->until_ms, ((int64_t)day + 1) * DAY_MS), .record = MAX(d->record, record) };
	bool older = is_older(db, day, next.until_ms);
	if (older) {
		next.until_ms = d->until_ms;
		next.record = d->record;
	}
	for (size_t i = 0; i < d->days.n; i++)
		if (((int64_t)d->days.v[i].day + 1) * DAY_MS > next.until_ms && (d->days.v[i].day != day || !older))
			vec_push(&next.days, d->days.v[i]);
	if (older)
		vec_push(&next.days, (struct dropped_day){ day, record });
	return next;
}

static void put(struct dropped *d, struct dropped *next)
{
	vec_free(&d->days);
	d->until_ms = next->until_ms;
	d->record = next->record;
	d->days.v = next->days.v;
	d->days.n = next->days.n;
	d->days.cap = next->days.cap;
}

int dropped_add(struct tsdb *db, uint32_t day, uint64_t record, struct err *e)
{
	struct dropped next = with_day(db, day, record);
	int rc = dropped_write(&next, db->path, e);
	if (rc) {
		vec_free(&next.days);
		return rc;
	}
	put(&db->dropped, &next);
	written(&db->dropped); /* it contains the earlier pending writes */
	return 0;
}

void dropped_must_add(struct tsdb *db, uint32_t day, uint64_t record)
{
	struct dropped next = with_day(db, day, record);
	put(&db->dropped, &next);
	refuse(&db->dropped, ((int64_t)day + 1) * DAY_MS);
}

int dropped_sync(struct tsdb *db, struct err *e)
{
	struct dropped *d = &db->dropped;
	int rc = d->unwritten ? dropped_write(d, db->path, e) : 0;
	if (!rc)
		written(d);
	return rc;
}

void dropped_release(struct dropped *d)
{
	vec_free(&d->days);
	d->until_ms = 0;
	d->record = 0;
}
