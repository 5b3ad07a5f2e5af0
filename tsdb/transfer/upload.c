/* SPDX-License-Identifier: Apache-2.0 */
/* Uploads. A day is due when its parts, deletes or late names are others than in its newest generation, and nothing changed for a while: a
 * seal is followed by rollups, and an hour's parts by the one that replaces them. Parts that the bucket has are not put again. The
 * generation is put last, so whoever reads it finds all that it names.
 *
 * Upkeep changes a day whose rows are all in the bucket: retention by selector rewrites a part each hour, late names add symbols, several parts
 * become one. The bucket then lacks no row and only keeps bytes for longer. So such a day gets a new generation once a day, and a few objects
 * an hour of all such days are put, ahead of that generation, under names that the journal knows.
 *
 * bucket/uploads notes what was put and is in no generation yet: a restart goes on behind it. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/disk/text.h"
#include "tsdb/part/part.h"
#include "tsdb/transfer/transfer_private.h"

#define JOURNAL "uploads"
#define JOURNAL_HEAD "pyrrha-uploads 1"
#define SETTLE_MS 30000              /* how long a day has not changed before it goes up, */
#define SETTLE_MOST_MS (5 * INT64_C(60000)) /* unless it changes all the time */
#define UPKEEP_EVERY_MS DAY_MS       /* how often upkeep alone is a reason for a generation of a day */
#define UPKEEP_SETTLE_MS (10 * INT64_C(60000)) /* how long such a day has not changed, */
#define UPKEEP_SETTLE_MOST_MS HOUR_MS /* unless it changes all the time */
#define UPKEEP_OBJECTS 3             /* puts an hour: new rows take up to five, at midnight (an hour, its two rollups, symbols, the generation), */
#define UPKEEP_MOST_MS (2 * DAY_MS)  /* unless the day has waited for so long */
#define FAILED_PAUSE_MS (10 * INT64_C(60000)) /* before a day is tried again that failed by itself */

/* ---- the journal ---- */

static int journal_write(struct transfer *t, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	buf_printf(&b, JOURNAL_HEAD "\nid %s\n", t->server.id);
	for (size_t i = 0; i < t->uploads.n; i++) {
		const struct transfer_upload *u = &t->uploads.v[i];
		char hash[SHA256_HEX];
		sha256_hex(u->part.object.sha256, hash);
		buf_printf(&b, "day %u level %u window %u number %u epoch %" PRIu64 " serial %" PRIu64 " size %" PRIu64 "\nhash %s\n", u->day, u->part.level,
			   u->part.window, u->part.number, u->part.object.stamp.epoch, u->part.object.stamp.serial, u->part.object.size, hash);
	}
	text_put_checksum(&b, 0);
	return files_put(t->server.dir, JOURNAL, buf_view(&b), e);
}

static bool journal_parse(struct view line, struct view hash, struct transfer_upload *u)
{
	int64_t n[7];
	if (!text_numbers(line, "day # level # window # number # epoch # serial # size #", n) || !view_starts(hash, VIEW("hash ")))
		return false;
	*u = (struct transfer_upload){ .day = (uint32_t)n[0], .part = { (uint8_t)n[1], (uint32_t)n[2], (uint32_t)n[3],
								       { { (uint64_t)n[4], (uint64_t)n[5] }, (uint64_t)n[6], { 0 } } } };
	return sha256_parse(view_make(hash.ptr + 5, hash.len - 5), u->part.object.sha256);
}

int upload_read_journal(struct transfer *t, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/" JOURNAL, t->server.dir);
	CLEANUP(buf_free) struct buf b = { .max = 64 << 20 };
	struct view lines, line, hash, id;
	struct transfer_upload u;
	int rc = buf_read_file(&b, path, e);
	if (rc)
		return rc == -ERR_NOT_FOUND ? 0 : rc;
	if (!text_checked(buf_view(&b), JOURNAL_HEAD, &lines) || !text_line(&lines, &id) || !view_starts(id, VIEW("id "))) {
		LOG_WARN("msg", "what was uploaded last is not known, as its file is damaged: it is uploaded again", "file", path);
		return 0;
	}
	if (!view_eqs(view_make(id.ptr + 3, id.len - 3), t->server.id))
		return 0; /* the journal is of the id that the directory had before: its objects are not found under the new one */
	while (text_line(&lines, &line) && text_line(&lines, &hash))
		if (journal_parse(line, hash, &u))
			vec_push(&t->uploads, u);
	return 0;
}

void upload_tidy_journal(struct transfer *t)
{
	struct version *v = tsdb_version(t->db, NULL);
	size_t n = 0;
	for (size_t i = 0; i < t->uploads.n; i++) {
		const struct pstate *s = version_find(v, t->uploads.v[i].day);
		if (s && s->n_parts)
			t->uploads.v[n++] = t->uploads.v[i];
	}
	t->uploads.n = n;
	version_unref(v);
}

static void journal_drop_day(struct transfer *t, uint32_t day)
{
	size_t n = 0;
	for (size_t i = 0; i < t->uploads.n; i++)
		if (t->uploads.v[i].day != day)
			t->uploads.v[n++] = t->uploads.v[i];
	t->uploads.n = n;
}

/* ---- parts ---- */

/* A day on its way up. */
struct upload {
	struct transfer *t;
	struct day_image m;
	struct generation old;      /* its newest generation, as it is known here; empty if there is none */
	struct object_stamp old_stamp;
	bool same;                  /* `old` is of this database: its part numbers are those of m */
	uint64_t room;              /* how many objects may be put now */
	bool is_full;               /* further parts are still to be put; the generation follows the last of them */
	uint64_t put_objects, put_bytes;
};

static const struct generation_part *upload_find_old(const struct upload *u, const struct generation_part *p)
{
	for (size_t i = 0; i < u->old.parts.n && u->same; i++) {
		const struct generation_part *x = &u->old.parts.v[i];
		if (x->level == p->level && x->window == p->window && x->number == p->number)
			return x;
	}
	return NULL;
}

static const struct generation_part *upload_find_hash(const struct upload *u, const struct part_runs *r)
{
	for (size_t i = 0; i < u->old.parts.n; i++) {
		const struct generation_part *x = &u->old.parts.v[i];
		if (x->object.size == r->size && !memcmp(x->object.sha256, r->sha256, SHA256_LEN))
			return x;
	}
	return NULL;
}

static const struct transfer_upload *upload_find_journal(const struct upload *u, const struct part_runs *r)
{
	for (size_t i = 0; i < u->t->uploads.n; i++) {
		const struct transfer_upload *x = &u->t->uploads.v[i];
		if (x->day == u->m.g.day && x->part.object.size == r->size && !memcmp(x->part.object.sha256, r->sha256, SHA256_LEN))
			return x;
	}
	return NULL;
}

static void upload_copy_runs(struct generation_part *to, const struct part_run *v, size_t n)
{
	vec_reserve(&to->runs, n);
	for (size_t i = 0; i < n; i++)
		vec_push(&to->runs, v[i]);
}

static int upload_put_part(struct upload *u, size_t i, const struct part_runs *r, const char *file, struct err *e)
{
	struct transfer *t = u->t;
	struct generation_part *p = &u->m.g.parts.v[i];
	char name[OBJECT_NAME_MAX];
	u->is_full = u->put_objects >= u->room;
	if (u->is_full)
		return 0;
	struct transfer_upload done = { .day = u->m.g.day, .part = { .level = p->level, .window = p->window, .number = p->number,
								     .object = { bucket_server_stamp(&t->server), r->size, { 0 } } } };
	memcpy(done.part.object.sha256, r->sha256, SHA256_LEN);
	object_name_data(name, u->m.g.id, u->m.g.day, done.part.object.stamp);
	int rc = object_io_put_file(t->objects, name, file, r->size, r->sha256, e);
	if (rc)
		return rc;
	p->object = done.part.object;
	vec_push(&t->uploads, done);
	u->put_objects++;
	u->put_bytes += r->size;
	return journal_write(t, e);
}

/* A part that is damaged here is named as before: what it says of itself is not what the object has. */
static void upload_copy_head(struct generation_part *to, const struct generation_part *old)
{
	to->header = old->header;
	to->index = old->index;
	to->covers = old->covers;
	to->ends = old->ends;
	to->totals.n = 0;
	for (size_t i = 0; i < old->totals.n; i++)
		vec_push(&to->totals, old->totals.v[i]);
}

static int upload_part(struct upload *u, size_t i, struct err *e)
{
	struct generation_part *p = &u->m.g.parts.v[i];
	const struct generation_part *old = upload_find_old(u, p);
	if (old) {
		p->object = old->object;
		upload_copy_runs(p, old->runs.v, old->runs.n);
		if (atomic_load(&u->m.parts.v[i]->awaits) || atomic_load(&u->m.parts.v[i]->set_aside))
			upload_copy_head(p, old);
		else
			day_image_add_covers(&u->m, i, old);
		return 0;
	}
	if (atomic_load(&u->m.parts.v[i]->awaits)) /* its generation could not be read */
		return err_set(e, ERR_BAD_DATA, "part %u of day %u is damaged here, and is fetched from the bucket before the day goes up", p->number, u->m.g.day);
	if (atomic_load(&u->m.parts.v[i]->set_aside))
		return err_set(e, ERR_CORRUPT, "the file of part %u of day %u is damaged and was set aside", p->number, u->m.g.day);
	AUTOFREE char *file = day_image_file(&u->m, i);
	struct part_runs r = { 0 };
	int rc = part_runs_read(file, &r, e);
	if (rc)
		return rc;
	const struct transfer_upload *journal = upload_find_journal(u, &r);
	upload_copy_runs(p, r.v.v, r.v.n);
	day_image_add_covers(&u->m, i, NULL);
	old = upload_find_hash(u, &r);
	if (old)
		p->object = old->object;
	else if (journal)
		p->object = journal->part.object;
	else
		rc = upload_put_part(u, i, &r, file, e);
	part_runs_release(&r);
	return rc;
}

/* A part that cannot be read is left out: the start of the server rewrites it, and then it has another number. */
static int upload_parts(struct upload *u, struct err *e)
{
	struct generation *g = &u->m.g;
	for (size_t i = 0; i < g->parts.n && !u->is_full;) {
		if (atomic_load(&u->t->db->stopping))
			return err_set(e, ERR_CANCELED, "the storage shuts down");
		int rc = upload_part(u, i, e);
		if (rc && rc != -ERR_CORRUPT)
			return rc;
		if (!rc) {
			i++;
			continue;
		}
		LOG_WARN("msg", "a part is damaged and does not go to the bucket", "partition", LOG_NUM(g->day), "part", LOG_NUM(g->parts.v[i].number), "err", e->msg);
		vec_free(&g->parts.v[i].runs);
		vec_free(&g->parts.v[i].totals);
		memmove(g->parts.v + i, g->parts.v + i + 1, (g->parts.n - 1 - i) * sizeof *g->parts.v);
		memmove(u->m.parts.v + i, u->m.parts.v + i + 1, (g->parts.n - 1 - i) * sizeof *u->m.parts.v);
		g->parts.n--;
		u->m.parts.n--;
	}
	return 0;
}

static int upload_symbols(struct upload *u, struct err *e)
{
	struct generation *g = &u->m.g;
	char name[OBJECT_NAME_MAX];
	if (!u->m.symbols.len)
		return 0;
	g->symbols.size = u->m.symbols.len;
	sha256_of(buf_view(&u->m.symbols), g->symbols.sha256);
	if (u->old.symbols.stamp.epoch && u->old.symbols.size == g->symbols.size && !memcmp(u->old.symbols.sha256, g->symbols.sha256, SHA256_LEN)) {
		g->symbols.stamp = u->old.symbols.stamp;
		return 0;
	}
	u->is_full = u->put_objects + 2 > u->room; /* the generation follows at once: the journal does not know symbols */
	if (u->is_full)
		return 0;
	g->symbols.stamp = bucket_server_stamp(&u->t->server);
	object_name_data(name, g->id, g->day, g->symbols.stamp);
	u->put_objects++;
	u->put_bytes += g->symbols.size;
	return object_io_put(u->t->objects, name, buf_view(&u->m.symbols), e);
}

/* ---- the day ---- */

/* What the generation before named and this one does not. */
static void upload_forget_old(struct upload *u)
{
	const struct generation *g = &u->m.g;
	char name[OBJECT_NAME_MAX];
	if (!u->old_stamp.epoch)
		return;
	object_name_generation(name, g->id, u->old_stamp);
	collect_add(u->t, name);
	for (size_t i = 0; i < u->old.parts.n; i++) {
		bool named = false;
		for (size_t k = 0; k < g->parts.n && !named; k++)
			named = !object_stamp_cmp(g->parts.v[k].object.stamp, u->old.parts.v[i].object.stamp);
		object_name_data(name, g->id, g->day, u->old.parts.v[i].object.stamp);
		if (!named)
			collect_add(u->t, name);
	}
	object_name_data(name, g->id, g->day, u->old.symbols.stamp);
	if (u->old.symbols.stamp.epoch && object_stamp_cmp(u->old.symbols.stamp, g->symbols.stamp))
		collect_add(u->t, name);
}

static int upload_read_old(struct upload *u, uint32_t day, struct err *e)
{
	struct transfer *t = u->t;
	CLEANUP(buf_free) struct buf b = { 0 };
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	bool known = d && d->kind == GENERATION_DAY;
	u->old_stamp = d ? d->stamp : (struct object_stamp){ 0, 0 };
	u->same = known && !strcmp(d->identity, u->m.identity);
	rwlock_unlock(&t->catalogue.lock);
	if (!known)
		return 0;
	int rc = generations_read(t, day, &b, &u->old, e);
	if (rc != -ERR_CORRUPT && rc != -ERR_NOT_FOUND)
		return rc;
	LOG_WARN("msg", "the generation of a day cannot be read: all of the day goes up again", "partition", LOG_NUM(day), "err", e->msg);
	generation_release(&u->old);
	u->old = (struct generation){ .min_ms = 1 };
	return 0;
}

/* The notes are in the generations of the current day; if it has nothing, of the newest one. */
static bool upload_has_notes(struct tsdb *db, uint32_t day)
{
	struct version *v = tsdb_version(db, NULL);
	bool newest = day == day_of(tsdb_now_ms(db)) || (v->n && v->p[v->n - 1]->p->day == day);
	version_unref(v);
	return newest;
}

/* A day of another database that has none of the parts of its generation would replace rows that nobody dropped: its directory was lost and the day
 * began anew while the bucket was away. */
static int upload_check_replaced(const struct upload *u, struct err *e)
{
	const struct generation *g = &u->m.g;
	if (u->same || !u->old.parts.n || (u->old.identity[0] && !strcmp(u->old.identity, u->m.identity)))
		return 0; /* it is the same database, also where a crash has cost the note that it is */
	for (size_t i = 0; i < g->parts.n; i++)
		for (size_t k = 0; k < u->old.parts.n; k++)
			if (!object_stamp_cmp(g->parts.v[i].object.stamp, u->old.parts.v[k].object.stamp))
				return 0;
	if (collect_was_dropped(u->t, g->day))
		return 0;
	return err_set(e, ERR_BAD_DATA, "day %u on this disk has nothing of what the bucket has of it, and nobody dropped that: the day is not put, so that the "
		       "bucket keeps its rows. pyrtool bucket get fetches them into a directory of their own", g->day);
}

static int upload_put_generation(struct upload *u, struct err *e)
{
	u->is_full |= u->put_objects >= u->room;
	if (u->is_full)
		return 0;
	int rc = generations_put(u->t, &u->m.g, u->m.identity, false, e);
	if (rc)
		return rc;
	upload_forget_old(u);
	journal_drop_day(u->t, u->m.g.day);
	return journal_write(u->t, e);
}

/* Puts objects of a day, at most `room`, and its generation as the last one. *ret_whole: nothing of it is left to be put. */
static int upload_day(struct transfer *t, uint32_t day, uint64_t room, bool *ret_whole, struct err *e)
{
	struct upload u = { .t = t, .old = { .min_ms = 1 }, .room = room };
	int64_t start = clock_mono_ms();
	AUTOFREE char *dir = xasprintf("%s/day", t->server.dir);
	int rc = files_make_dirs(t->server.dir, e);
	if (!rc)
		rc = day_image_take(t->db, day, t->server.id, dir, upload_has_notes(t->db, day), deletes_applied(t), &u.m, e);
	if (!rc)
		rc = upload_read_old(&u, day, e);
	if (!rc)
		rc = upload_parts(&u, e);
	if (!rc && !u.is_full)
		rc = upload_check_replaced(&u, e);
	if (!rc && !u.is_full)
		rc = upload_symbols(&u, e);
	if (!rc)
		rc = upload_put_generation(&u, e);
	*ret_whole = (!rc || rc == -ERR_NOT_FOUND) && !u.is_full;
	if (!rc)
		LOG_DEBUG("msg", u.is_full ? "objects of a day are in the bucket, more follow" : "a day is in the bucket", "partition", LOG_NUM(day), "generation",
			  LOG_NUM(u.m.g.stamp.serial), "objects", LOG_NUM(u.put_objects), "bytes", LOG_NUM(u.put_bytes), "ms", LOG_NUM(clock_mono_ms() - start));
	day_image_release(&u.m);
	generation_release(&u.old);
	return rc == -ERR_NOT_FOUND ? 0 : rc;
}

/* ---- what is due ---- */

static uint64_t upload_hash(const struct pstate *s, uint64_t facts, uint64_t names)
{
	uint64_t h = facts ^ names;
	for (size_t i = 0; i < s->n_parts; i++)
		h = hash_u64(h ^ s->parts[i]->number ^ (uint64_t)s->parts[i]->level << 32 ^ (uint64_t)s->parts[i]->window << 34);
	return h;
}

enum upload_reason {
	UPLOAD_NONE,   /* the bucket has all of the day */
	UPLOAD_UPKEEP, /* it has all rows of the day */
	UPLOAD_ROWS    /* it lacks rows, or that they were deleted; or the day is over now */
};

static enum upload_reason upload_find_reason(struct transfer *t, const struct day_up *up, bool is_complete)
{
	bool finishes = is_complete && !up->finished;
	if (up->parts && up->facts && up->names && !finishes)
		return UPLOAD_NONE;
	/* Parts may have been rewritten without rows that somebody deleted: these leave the bucket soon. */
	bool deleted = !up->parts && object_stamp_cmp(up->deletes, deletes_applied(t)) < 0;
	return up->rows && up->facts && !finishes && !deleted ? UPLOAD_UPKEEP : UPLOAD_ROWS;
}

/* Whether local retention waits until the bucket has the day as it is here. */
static bool upload_is_awaited(struct transfer *t, const struct pstate *s)
{
	int64_t keep_ms = t->db->o.local_retention_ms;
	return keep_ms && !s->n_windows && !s->tombstones && ((int64_t)s->p->day + 1) * DAY_MS <= retention_now_of(t->db, s->p) - keep_ms;
}

static bool upload_is_upkeep_due(struct transfer *t, const struct pstate *s, const struct day_up *up, const struct transfer_seen *x, bool is_complete)
{
	int64_t boot = tsdb_boot_ms(t->db), now = tsdb_now_ms(t->db);
	if (up->finished && !is_complete)
		return false; /* late names will be in a part in a moment: else the day would have to be finished again */
	if (boot - x->changed_boot_ms < UPKEEP_SETTLE_MS && boot - x->since_boot_ms < UPKEEP_SETTLE_MOST_MS)
		return false;
	/* A generation of the future was made while the clock was wrong. */
	return upload_is_awaited(t, s) || now - up->written_ms >= UPKEEP_EVERY_MS || now < up->written_ms;
}

/* How many objects of a day may be put now. now: without waiting for more changes. */
static uint64_t upload_find_room(struct transfer *t, const struct pstate *s, bool now)
{
	if (!s->n_parts || !s->p->db_parts)
		return 0;
	struct day_up up = day_look_up(&t->catalogue, s);
	mutex_lock(&t->db->apply_lock);
	bool is_complete = day_is_finished(t->db, s) && s->p->first_symbols == UINT64_MAX;
	mutex_unlock(&t->db->apply_lock);
	struct transfer_seen *x = transfer_seen(t, s->p->day);
	enum upload_reason reason = upload_find_reason(t, &up, is_complete);
	if (reason == UPLOAD_NONE) {
		x->since_boot_ms = 0;
		return 0;
	}
	uint64_t hash = upload_hash(s, up.facts_hash, up.names_hash) + (is_complete && !up.finished);
	int64_t boot = tsdb_boot_ms(t->db);
	if (x->parts_hash != hash || !x->changed_boot_ms) {
		x->parts_hash = hash;
		x->changed_boot_ms = boot;
		x->failed_boot_ms = 0;
	}
	if (!x->since_boot_ms)
		x->since_boot_ms = boot;
	if (up.known && x->put_hash == hash)
		return 0; /* put without a part that is damaged here */
	if (now)
		return UINT64_MAX;
	if (x->failed_boot_ms && boot - x->failed_boot_ms < FAILED_PAUSE_MS)
		return 0;
	if (reason == UPLOAD_ROWS)
		return boot - x->changed_boot_ms >= SETTLE_MS || boot - x->since_boot_ms >= SETTLE_MOST_MS ? UINT64_MAX : 0;
	if (!upload_is_upkeep_due(t, s, &up, x, is_complete))
		return 0;
	if (boot - x->since_boot_ms >= UPKEEP_MOST_MS)
		return UINT64_MAX;
	return boot >= t->next_upkeep_boot_ms ? UPKEEP_OBJECTS : 0;
}

/* Whether the cause of an error lies in the day that was to go up, not in the bucket: then the other days go up all the same. */
static bool upload_failed_alone(int rc)
{
	return rc == -ERR_CORRUPT || rc == -ERR_BAD_DATA || rc == -ERR_BUSY || rc == -ERR_NOT_FOUND;
}

int upload_days(struct transfer *t, bool now, struct err *e)
{
	struct version *v = tsdb_version(t->db, NULL);
	struct err first = { 0 };
	int rc = generations_put_pending(t, e);
	for (size_t i = 0; i < v->n && !rc && !atomic_load(&t->db->stopping); i++) {
		uint32_t day = v->p[i]->p->day;
		uint64_t room = retrieve_is_pending(t, day) ? 0 : upload_find_room(t, v->p[i], now);
		bool whole;
		if (!room)
			continue;
		rc = upload_day(t, day, room, &whole, e);
		struct transfer_seen *x = transfer_seen(t, day);
		x->failed_boot_ms = upload_failed_alone(rc) ? tsdb_boot_ms(t->db) : 0;
		x->put_hash = whole ? x->parts_hash : 0;
		if (!rc && room != UINT64_MAX)
			t->next_upkeep_boot_ms = tsdb_boot_ms(t->db) + HOUR_MS;
		if (!upload_failed_alone(rc) || t->pending.len)
			continue;
		first = first.code ? first : *e;
		rc = 0;
	}
	version_unref(v);
	return rc || !first.code ? rc : err_set(e, first.code, "%s", first.msg);
}
