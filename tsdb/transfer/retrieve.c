/* SPDX-License-Identifier: Apache-2.0 */
/* Coming back: days that this disk is to have and has not.
 *
 * A day is fetched into partitions/DAY.fetch, each file held against its hash; a crash goes on with what is there. Then its files are
 * ingested into a new database, as a repair does, which replaces nothing: partitions/DAY did not exist. Until its facts (deletes, late
 * names) are in the head log, bucket/facts/DAY has the generation, so that a crash in between does not bring back what was deleted. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "base/num.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/log/record.h"
#include "tsdb/part/part.h"
#include "tsdb/transfer/transfer_private.h"
#include "tsdb/upkeep/partition_open.h"
#include "tsdb/upkeep/retention_rules.h"
#include "tsdb/write/committer.h"

#define FETCH_SUFFIX ".fetch"
#define FACTS_DIR "facts"
#define FAILED_PAUSE_MS (10 * INT64_C(60000)) /* before a day is tried again that failed by itself */

/* ---- which days are wanted ---- */

static int64_t retrieve_day_end_ms(uint32_t day)
{
	return ((int64_t)day + 1) * DAY_MS;
}

static bool retrieve_is_kept(struct transfer *t, const struct catalogue_day *d)
{
	const struct tsdb *db = t->db;
	return d->kind == GENERATION_DAY && (db->o.retention_ms < 0 || retrieve_day_end_ms(d->day) > tsdb_now_ms(db) - db->o.retention_ms);
}

static bool retrieve_is_wanted(struct transfer *t, const struct catalogue_day *d)
{
	const struct tsdb *db = t->db;
	int64_t keep = db->o.local_retention_ms;
	return retrieve_is_kept(t, d) && (keep <= 0 || retrieve_day_end_ms(d->day) > tsdb_now_ms(db) - keep);
}

/* Whether the day is in partitions/, or has windows. */
static bool retrieve_is_here(const struct version *v, uint32_t day)
{
	return version_find(v, day) != NULL;
}

/* Under seal_lock, so that local retention removes no day from this disk meanwhile: the day would be missing in the list of days that are in the bucket alone,
 * and would accept rows. */
void retrieve_note_absent(struct transfer *t)
{
	mutex_lock(&t->db->seal_lock);
	struct version *v = tsdb_version(t->db, NULL);
	VEC(uint32_t) days = { 0 }; /* a day whose facts are not in the head log yet counts as absent: it takes no rows */
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++) {
		const struct catalogue_day *d = &t->catalogue.days.v[i];
		if (catalogue_day_is_absent(d) && (!retrieve_is_here(v, d->day) || retrieve_is_pending(t, d->day)))
			vec_push(&days, d->day);
	}
	rwlock_unlock(&t->catalogue.lock);
	catalogue_set_absent(&t->catalogue, days.v, days.n);
	vec_free(&days);
	version_unref(v);
	mutex_unlock(&t->db->seal_lock);
}

/* Under seal_lock, so that local retention removes no day from this disk meanwhile: the day would be noted as one that the disk has, then be taken for a day that
 * was deleted here, and be removed from the bucket. */
int retrieve_keep_here(struct transfer *t, struct err *e)
{
	mutex_lock(&t->db->seal_lock);
	struct version *v = tsdb_version(t->db, NULL);
	int rc = 0;
	for (size_t i = 0; i < v->n && !rc; i++) {
		char identity[CATALOGUE_IDENTITY_MAX];
		rwlock_read(&t->catalogue.lock);
		const struct catalogue_day *d = catalogue_find(&t->catalogue, v->p[i]->p->day);
		bool away = d && d->away;
		if (d)
			memcpy(identity, d->identity, sizeof identity);
		rwlock_unlock(&t->catalogue.lock);
		if (away)
			rc = catalogue_set(&t->catalogue, v->p[i]->p->day, identity, false, e);
	}
	version_unref(v);
	mutex_unlock(&t->db->seal_lock);
	return rc;
}

/* ---- files ---- */

static char *retrieve_path(const struct transfer *t, uint32_t day, const char *suffix)
{
	return xasprintf("%s/partitions/%u%s", t->db->path, day, suffix);
}

static char *facts_path(const struct transfer *t, uint32_t day)
{
	return xasprintf("%s/" FACTS_DIR "/%u", t->server.dir, day);
}

/* The generation of a day whose facts are not in the head log yet. */
static int facts_note(struct transfer *t, const char *name, struct view bytes, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/" FACTS_DIR, t->server.dir);
	int rc = files_make_dirs(dir, e);
	return rc ? rc : files_put(dir, name, bytes, e);
}

static int retrieve_part(struct transfer *t, const struct generation *g, const struct generation_part *p, const char *dir, struct err *e)
{
	char name[OBJECT_NAME_MAX];
	AUTOFREE char *file = xasprintf("%s/%06" PRIu64 ".sst", dir, p->file);
	object_name_data(name, g->id, g->day, p->object.stamp);
	return object_io_get_file(t->objects, name, file, p->object.size, p->object.sha256, e);
}

static int file_by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;
	return (*x > *y) - (*x < *y);
}

/* Two parts never have one file. */
static int retrieve_check(const struct generation *g, struct err *e)
{
	AUTOFREE uint64_t *v = xcalloc(g->parts.n + 1, sizeof *v);
	for (size_t i = 0; i < g->parts.n; i++)
		v[i] = g->parts.v[i].file;
	qsort(v, g->parts.n, sizeof *v, file_by_number);
	for (size_t i = 1; i < g->parts.n; i++)
		if (v[i] == v[i - 1])
			return err_set(e, ERR_CORRUPT, "the generation of day %u names one file twice", g->day);
	return 0;
}

/* Files of an earlier try that this generation does not name: they would be taken in as well. */
struct retrieve_named {
	const struct generation *g;
	const char *dir;
};

static int retrieve_remove_other(void *arg, const char *name, struct err *e)
{
	const struct retrieve_named *n = arg;
	char own[32];
	(void)e;
	for (size_t i = 0; i < n->g->parts.n; i++) {
		snprintf(own, sizeof own, "%06" PRIu64 ".sst", n->g->parts.v[i].file);
		if (!strcmp(own, name))
			return 0;
	}
	AUTOFREE char *path = xasprintf("%s/%s", n->dir, name);
	unlink(path);
	return 0;
}

/* A part whose object is damaged or missing. */
struct retrieve_damage {
	size_t part;                 /* its place in the generation */
	struct err why;
};

/* A day that is being fetched, by several threads. */
struct retrieve_day {
	struct transfer *t;
	const struct generation *g;
	const char *dir;             /* where its files go */
	bool lenient;                /* parts that are damaged are left out */
	struct mutex lock;           /* of what follows; a leaf */
	size_t done;                 /* parts */
	VEC(struct retrieve_damage) damaged;
};

/* The day is fetched without it; answers about its time say so. */
static void retrieve_leave_out(struct transfer *t, const struct generation *g, const struct generation_part *p, const char *dir, const struct err *why)
{
	static const int64_t hours[] = { 1, 6, 24 };
	int64_t length = hours[MIN(p->level, 2)] * 3600000, after = (int64_t)g->day * DAY_MS + p->window * length;
	AUTOFREE char *file = xasprintf("%s/%06" PRIu64 ".sst", dir, p->file);
	unlink(file);
	LOG_ERROR("msg", "a part is damaged in the bucket: the day is fetched without it", "partition", LOG_NUM(g->day), "part",
		  LOG_NUM(p->number), "err", why->msg);
	if (p->level == LEVEL_HOUR)
		vec_push(&t->left_out, after);
}

/* Fetches the i-th part. */
static int retrieve_one(void *arg, size_t i, struct err *e)
{
	struct retrieve_day *d = arg;
	if (atomic_load(&d->t->db->stopping))
		return err_set(e, ERR_CANCELED, "the storage shuts down");
	int rc = retrieve_part(d->t, d->g, &d->g->parts.v[i], d->dir, e);
	bool damaged = d->lenient && (rc == -ERR_CORRUPT || rc == -ERR_NOT_FOUND);
	mutex_lock(&d->lock);
	if (damaged)
		vec_push(&d->damaged, (struct retrieve_damage){ i, *e });
	size_t done = ++d->done;
	mutex_unlock(&d->lock);
	if (!rc)
		transfer_note_opening(d->t, "the current day comes from the bucket: %zu of %zu parts are here", done, d->g->parts.n);
	return damaged ? 0 : rc;
}

static int retrieve_fill(struct transfer *t, const struct generation *g, const char *dir, bool lenient, struct err *e)
{
	struct retrieve_day d = { .t = t, .g = g, .dir = dir, .lenient = lenient };
	int rc = retrieve_check(g, e);
	if (!rc)
		rc = space_check(t, g, dir, e);
	if (!rc)
		rc = files_make_dirs(dir, e);
	if (!rc)
		rc = files_each(dir, retrieve_remove_other, &(struct retrieve_named){ g, dir }, e);
	if (rc)
		return rc;
	mutex_init(&d.lock, LOCK_LEAF, "bucket day");
	rc = parallel_each(t->db->o.objects_at_once, g->parts.n, retrieve_one, &d, e);
	for (size_t i = 0; i < d.damaged.n && !rc; i++)
		retrieve_leave_out(t, g, &g->parts.v[d.damaged.v[i].part], dir, &d.damaged.v[i].why);
	vec_free(&d.damaged);
	mutex_destroy(&d.lock);
	return rc;
}

bool retrieve_is_pending(const struct transfer *t, uint32_t day)
{
	for (size_t i = 0; i < t->facts_due.n; i++)
		if (t->facts_due.v[i] == day)
			return true;
	return false;
}

static void pending_remove(struct transfer *t, uint32_t day)
{
	size_t n = 0;
	for (size_t i = 0; i < t->facts_due.n; i++)
		if (t->facts_due.v[i] != day)
			t->facts_due.v[n++] = t->facts_due.v[i];
	t->facts_due.n = n;
}

int retrieve_files(struct transfer *t, uint32_t day, bool lenient, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g = { .min_ms = 1 };
	char name[16];
	snprintf(name, sizeof name, "%u", day);
	AUTOFREE char *fetch = retrieve_path(t, day, FETCH_SUFFIX), *dir = retrieve_path(t, day, "");
	if (retrieve_is_pending(t, day) && access(dir, F_OK) == 0)
		return 0; /* an earlier try could not open it */
	int rc = generations_read(t, day, &b, &g, e);
	if (!rc)
		rc = retrieve_fill(t, &g, fetch, lenient, e);
	if (!rc)
		rc = facts_note(t, name, buf_view(&b), e);
	if (!rc)
		rc = partition_db_make_of(fetch, dir, e);
	if (!rc && !retrieve_is_pending(t, day))
		vec_push(&t->facts_due, day);
	if (!rc || space_is_out(e))
		files_remove_tree(fetch);
	generation_release(&g);
	return rc;
}

/* ---- facts ---- */

/* Only deletes and late names are in generations. What is malformed would be a damaged record of the head log. */
static bool facts_are_readable(struct view payload)
{
	struct cursor c = cursor_of(payload);
	struct tombstone_fact f = { .number = 0 };
	if (payload.len && *payload.ptr == FACT_NAMES) {
		cursor_u8(&c);
		for (size_t n = cursor_count(&c); n && !c.bad; n--) {
			cursor_varint(&c);
			cursor_u32(&c);
		}
		return !c.bad;
	}
	bool ok = tombstone_fact_get(&c, &f);
	vec_free(&f.series);
	return ok;
}

static int facts_commit(struct tsdb *db, struct partition *p, const struct generation *g, struct err *e) REQUIRES(db->seal_lock)
{
	struct request *r = NEW(struct request);
	for (size_t i = 0; i < g->facts.n; i++) {
		if (!g->facts.v[i].number)
			continue; /* retention hides it anew */
		if (!facts_are_readable(g->facts.v[i].payload)) {
			LOG_ERROR("msg", "a delete or late names in a generation of the bucket are malformed and passed over", "partition", LOG_NUM(p->day));
			continue;
		}
		struct request_record *x = vec_add(&r->records);
		x->p = partition_enter(p);
		x->kind = RECORD_FACT;
		record_begin(&x->bytes, RECORD_FACT, p->day);
		buf_putv(&x->bytes, g->facts.v[i].payload);
	}
	if (r->records.n)
		return tsdb_commit(db, r, e);
	request_free(db, r);
	return 0;
}

int retrieve_commit_facts(struct transfer *t, uint32_t day, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g;
	int rc = generations_read(t, day, &b, &g, e);
	struct partition *p = rc ? NULL : tsdb_partition(t->db, day);
	if (p && p->db_parts) {
		partition_load(p); /* late names refer to its locations */
		mutex_lock(&t->db->seal_lock);
		rc = facts_commit(t->db, p, &g, e);
		mutex_unlock(&t->db->seal_lock);
	}
	partition_unref(p);
	generation_release(&g);
	return rc;
}

/* The generation that a day was fetched by. A damaged file has the same content as the catalogue. */
static int facts_read(struct transfer *t, uint32_t day, const char *path, struct generation *ret, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX };
	*ret = (struct generation){ .min_ms = 1 };
	int rc = buf_read_file(&b, path, e);
	if (!rc)
		rc = generation_decode(ret, buf_view(&b), NULL, e);
	if (rc != -ERR_CORRUPT)
		return rc;
	generation_release(ret);
	return generations_read(t, day, &b, ret, e);
}

/* The day's deletes are in the head log: removes bucket/facts/DAY, durably. A file that a power loss brought back would be applied again, and
 * delete rows that came since. */
static int facts_done(struct transfer *t, const char *path, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/" FACTS_DIR, t->server.dir);
	if (unlink(path) && errno != ENOENT)
		return err_errno(e, errno, "cannot remove %s", path);
	return files_sync_dir(dir, e);
}

/* Without it the day goes up once more, which finds its parts by their hashes. */
static int facts_set_identity(struct transfer *t, uint32_t day, const char *identity, struct err *e)
{
	int rc = catalogue_set(&t->catalogue, day, identity, false, e);
	return rc == -ERR_NOT_FOUND || rc == -ERR_CORRUPT ? 0 : rc;
}

/* Whether the catalogue has that database as the day's: then its facts are in the head log, and rows may have come since. */
static bool facts_are_committed(struct transfer *t, uint32_t day, const char *identity)
{
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, day);
	bool same = d && identity[0] && !strcmp(d->identity, identity);
	rwlock_unlock(&t->catalogue.lock);
	return same;
}

/* Once the day is open: what its generation says of deletes and names, and deletes that came later. Those are known once the bucket answered:
 * until then the file stays. */
static int facts_apply_day(struct transfer *t, uint32_t day, struct err *e)
{
	AUTOFREE char *path = facts_path(t, day);
	struct generation g;
	char identity[CATALOGUE_IDENTITY_MAX] = "";
	int rc = facts_read(t, day, path, &g, e);
	bool missing = rc == -ERR_NOT_FOUND, committed = false;
	struct partition *p = rc ? NULL : tsdb_partition(t->db, day);
	if (p && p->db_parts)
		rc = partition_db_identity(p->db_parts, identity, sizeof identity, e);
	if (!rc && identity[0])
		committed = facts_are_committed(t, day, identity);
	if (!rc && identity[0] && !committed) {
		partition_load(p); /* late names refer to its locations */
		mutex_lock(&t->db->seal_lock);
		p->next_part = MAX(p->next_part, g.next_part);
		rc = facts_commit(t->db, p, &g, e);
		mutex_unlock(&t->db->seal_lock);
	}
	partition_unref(p);
	if (!rc && identity[0] && t->has_begun)
		rc = deletes_apply_day(t, day, g.deletes, UINT32_MAX, e);
	generation_release(&g);
	if (!rc && identity[0] && !committed)
		rc = catalogue_set(&t->catalogue, day, identity, false, e);
	if (!rc || missing)
		pending_remove(t, day);
	if (missing)
		return 0;
	return rc || !t->has_begun ? rc : facts_done(t, path, e);
}

static int facts_apply_one(void *arg, const char *name, struct err *e)
{
	int64_t day;
	if (!num_parse_i64(view_of(name), &day) || day < 0 || day > 10000000)
		return 0;
	return facts_apply_day(arg, (uint32_t)day, e);
}

/* ---- notes ---- */

/* The notes of the newest generation. Those that the storage refuses are no reason not to start: alerts and agents begin anew without them. */
static int notes_commit(struct transfer *t, const struct generation *g, struct err *e)
{
	AUTOFREE struct sink_note *v = xcalloc(g->notes.n + 1, sizeof *v);
	struct sink_batch b = { .notes = v };
	struct sink *sink = &t->db->sink;
	for (size_t i = 0; i < g->notes.n; i++) {
		const struct generation_note *n = &g->notes.v[i];
		if (n->key.len && n->key.len <= SINK_NOTE_KEY_MAX && n->value.len <= SINK_NOTE_VALUE_MAX)
			v[b.n_notes++] = (struct sink_note){ n->key, n->value, n->t_ms };
	}
	if (b.n_notes < g->notes.n)
		LOG_ERROR("msg", "notes in a generation of the bucket are too large and passed over", "partition", LOG_NUM(g->day), "notes",
			  LOG_NUM(g->notes.n - b.n_notes));
	int rc = b.n_notes ? sink->append(sink, &b, NULL, e) : 0;
	if (rc == -ERR_LIMIT) {
		LOG_ERROR("msg", "the states of alerts and cursors of agents in the bucket are over the limit of notes: they are not restored, and begin anew", "partition", LOG_NUM(g->day), "err", e->msg);
		rc = 0;
	}
	if (!rc)
		tsdb_flush(t->db);
	return rc;
}

/* The day with the newest generation before `before`. */
static bool notes_find(struct transfer *t, struct object_stamp before, uint32_t *ret_day, struct object_stamp *ret)
{
	*ret = (struct object_stamp){ 0, 0 };
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++) {
		const struct catalogue_day *d = &t->catalogue.days.v[i];
		if (d->kind != GENERATION_DAY || object_stamp_cmp(d->stamp, before) >= 0 || object_stamp_cmp(d->stamp, *ret) <= 0)
			continue;
		*ret_day = d->day;
		*ret = d->stamp;
	}
	rwlock_unlock(&t->catalogue.lock);
	return ret->epoch != 0;
}

/* Of the newest generation that has some: those of the current day have. */
static int notes_restore(struct transfer *t, struct err *e)
{
	struct object_stamp at = { UINT64_MAX, 0 };
	uint32_t day;
	int rc = 0;
	bool found = false;
	while (!found && !rc && notes_find(t, at, &day, &at)) {
		CLEANUP(buf_free) struct buf b = { 0 };
		struct generation g;
		rc = generations_read(t, day, &b, &g, e);
		found = !rc && g.notes.n;
		if (found)
			rc = notes_commit(t, &g, e);
		generation_release(&g);
	}
	return rc;
}

/* What was not in the bucket yet went with the disk: answers about that time say so. */
static int retrieve_note_hole(struct transfer *t, struct err *e)
{
	struct tsdb *db = t->db;
	int64_t after = INT64_MIN, now = tsdb_now_ms(db);
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++)
		if (t->catalogue.days.v[i].kind == GENERATION_DAY && t->catalogue.days.v[i].min_ms <= t->catalogue.days.v[i].max_ms)
			after = MAX(after, MIN(t->catalogue.days.v[i].max_ms, t->catalogue.days.v[i].written_ms)); /* rows may be ahead of the clock */
	rwlock_unlock(&t->catalogue.lock);
	if (after == INT64_MIN || after >= now)
		return 0;
	mutex_lock(&db->seal_lock);
	if (!holes_has_time(&db->holes, after, now))
		holes_add(&db->holes, &(struct hole){ 0, 0, after, now, now });
	int rc = tsdb_sync_holes(db, e);
	mutex_unlock(&db->seal_lock);
	char from[RFC3339_LEN];
	clock_rfc3339_ms(after, from);
	LOG_WARN("msg", "came back from its bucket: what was not there yet is lost with the disk it was on", "id", t->server.id, "from", from);
	return rc;
}

/* Parts of the current day that its bucket has not any more. */
static int retrieve_note_left_out(struct transfer *t, struct err *e)
{
	struct tsdb *db = t->db;
	if (!t->left_out.n)
		return 0;
	mutex_lock(&db->seal_lock);
	for (size_t i = 0; i < t->left_out.n; i++)
		if (!holes_has_time(&db->holes, t->left_out.v[i], t->left_out.v[i] + 3600000))
			holes_add(&db->holes, &(struct hole){ 0, 0, t->left_out.v[i], t->left_out.v[i] + 3600000, tsdb_now_ms(db) });
	int rc = tsdb_sync_holes(db, e);
	mutex_unlock(&db->seal_lock);
	return rc;
}

static int retrieve_has_file(void *arg, const char *name, struct err *e)
{
	bool *has = arg;
	(void)e;
	*has |= name[0] >= '0' && name[0] <= '9';
	return 0;
}

bool retrieve_has_facts(const struct transfer *t)
{
	AUTOFREE char *dir = xasprintf("%s/" FACTS_DIR, t->server.dir);
	bool has = false;
	return access(dir, F_OK) == 0 && !files_each(dir, retrieve_has_file, &has, NULL) && has;
}

int retrieve_apply_facts(struct transfer *t, struct err *e)
{
	AUTOFREE char *dir = xasprintf("%s/" FACTS_DIR, t->server.dir);
	return access(dir, F_OK) == 0 ? files_each(dir, facts_apply_one, t, e) : 0;
}

int retrieve_finish(struct transfer *t, struct err *e)
{
	int rc = t->server.returning ? notes_restore(t, e) : 0;
	if (!rc && t->server.returning)
		rc = retrieve_note_hole(t, e);
	if (!rc)
		rc = retrieve_note_left_out(t, e);
	return rc ? rc : bucket_server_returned(&t->server, e);
}

/* ---- one day after the other ---- */

static bool retrieve_is_visited(const struct transfer *t, uint32_t day)
{
	for (size_t i = 0; i < t->visits.n; i++)
		if (t->visits.v[i] == day)
			return true;
	return false;
}

/* Up to which delete a day that is not here was checked. */
static struct transfer_checked *retrieve_checked(struct transfer *t, uint32_t day)
{
	for (size_t i = 0; i < t->checked.n; i++)
		if (t->checked.v[i].day == day)
			return &t->checked.v[i];
	struct transfer_checked *s = vec_add(&t->checked);
	s->day = day;
	return s;
}

static int visit_touch_rules(struct transfer *t, uint32_t day, bool *ret, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g = { .min_ms = 1 };
	int rc = generations_read(t, day, &b, &g, e);
	if (!rc)
		rc = generation_decode_series(&g, e);
	if (!rc)
		rc = retention_rules_touch(t->db, &g, ret, e);
	generation_release(&g);
	return rc;
}

/* deletes: as in the day's generation. newest: of the deletes that there are. */
static int visit_check(struct transfer *t, uint32_t day, struct object_stamp deletes, struct object_stamp newest, struct err *e)
{
	struct transfer_checked *s = retrieve_checked(t, day);
	uint64_t rules = retention_rules_whole(t->db, day);
	bool touched = false;
	int rc = 0;
	if (object_stamp_cmp(deletes, newest) < 0 && object_stamp_cmp(s->deletes, newest) < 0)
		rc = deletes_touch_day(t, day, deletes, &touched, e);
	if (!rc && !touched && rules && rules != s->rules)
		rc = visit_touch_rules(t, day, &touched, e);
	if (rc)
		return rc;
	if (touched)
		vec_push(&t->visits, day);
	s->deletes = newest;
	s->rules = rules;
	return 0;
}

int retrieve_visits(struct transfer *t, struct err *e)
{
	struct object_stamp newest = deletes_applied(t);
	VEC(struct transfer_checked) days = { 0 };
	struct version *v = tsdb_version(t->db, NULL);
	int rc = 0;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++) {
		const struct catalogue_day *d = &t->catalogue.days.v[i];
		if (catalogue_day_is_absent(d) && !retrieve_is_here(v, d->day) && !retrieve_is_visited(t, d->day))
			vec_push(&days, (struct transfer_checked){ d->day, d->deletes, 0 });
	}
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; i < days.n && !rc; i++)
		rc = visit_check(t, days.v[i].day, days.v[i].deletes, newest, e);
	vec_free(&days);
	version_unref(v);
	return rc;
}

/* A visited day has been fetched. The sealer rewrites it without its deleted rows, it goes up again, and then local retention lets it go as any day. */
static void retrieve_visited(struct transfer *t, uint32_t day)
{
	for (size_t i = 0; i < t->visits.n; i++)
		if (t->visits.v[i] == day) {
			t->visits.v[i] = t->visits.v[--t->visits.n];
			return;
		}
}

static bool retrieve_is_missing(struct transfer *t, const struct version *v, const struct catalogue_day *d)
{
	return catalogue_day_is_absent(d) && !retrieve_is_here(v, d->day) && (retrieve_is_visited(t, d->day) || retrieve_is_wanted(t, d));
}

/* Whether a query still reads the day that left, or it is being freed: its directory is there until then. */
static bool retrieve_is_leaving(const struct transfer *t, uint32_t day)
{
	AUTOFREE char *dir = retrieve_path(t, day, "");
	return !retrieve_is_pending(t, day) && partition_db_has_mark(dir, NULL);
}

/* The newest one; days whose last try failed come last, and wait. */
static bool retrieve_find(struct transfer *t, bool now, uint32_t *ret)
{
	struct version *v = tsdb_version(t->db, NULL);
	VEC(uint32_t) missing = { 0 };
	bool found = false;
	rwlock_read(&t->catalogue.lock);
	for (size_t i = t->catalogue.days.n; i--;)
		if (retrieve_is_missing(t, v, &t->catalogue.days.v[i]))
			vec_push(&missing, t->catalogue.days.v[i].day);
	rwlock_unlock(&t->catalogue.lock);
	version_unref(v);
	for (int again = 0; again < 2 && !found; again++)
		for (size_t i = 0; i < missing.n && !found; i++) {
			int64_t failed = transfer_seen(t, missing.v[i])->fetch_failed_mono_ms;
			found = (again ? now || clock_mono_ms() - failed >= FAILED_PAUSE_MS : !failed) && !retrieve_is_leaving(t, missing.v[i]);
			*ret = missing.v[i];
		}
	vec_free(&missing);
	return found;
}

/* Opens a fetched day with its deletes. */
static int retrieve_open(struct transfer *t, uint32_t day, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g = { .min_ms = 1 };
	VEC(struct tombstone_fact) facts = { 0 };
	int rc = generations_read(t, day, &b, &g, e);
	for (size_t i = 0; i < g.facts.n && !rc; i++) {
		struct cursor c = cursor_of(g.facts.v[i].payload);
		struct tombstone_fact f = { .number = 0 };
		if (tombstone_fact_get(&c, &f))
			vec_push(&facts, f);
		else
			vec_free(&f.series);
	}
	if (!rc)
		rc = partition_open_fetched(t->db, day, g.next_part, facts.v, facts.n, e);
	for (size_t i = 0; i < facts.n; i++)
		vec_free(&facts.v[i].series);
	vec_free(&facts);
	generation_release(&g);
	return rc;
}

/* Whether an error says something of that day alone, so that others are fetched all the same. */
static bool retrieve_failed_alone(int rc)
{
	return rc == -ERR_CORRUPT || rc == -ERR_NOT_FOUND || rc == -ERR_LIMIT || rc == -ERR_BAD_DATA || rc == -ERR_CONFLICT || rc == -ERR_BUSY;
}

/* Days that are open, and whose facts could not be committed. */
static int retrieve_pending(struct transfer *t, struct err *e)
{
	struct version *v = tsdb_version(t->db, NULL);
	int rc = 0;
	for (size_t i = t->facts_due.n; i-- && !rc;)
		if (retrieve_is_here(v, t->facts_due.v[i]))
			rc = facts_apply_day(t, t->facts_due.v[i], e);
	version_unref(v);
	return rc;
}

/* What retention by selector has passed since the generation was made. */
static int retrieve_hide(struct transfer *t, struct err *e)
{
	mutex_lock(&t->db->seal_lock);
	int rc = retention_rules_due(t->db, e);
	mutex_unlock(&t->db->seal_lock);
	return rc;
}

int retrieve_next(struct transfer *t, bool now, struct err *e)
{
	uint32_t day;
	int rc = retrieve_pending(t, e);
	if (rc || !retrieve_find(t, now, &day))
		return rc;
	int64_t start = clock_mono_ms();
	rc = retrieve_files(t, day, false, e);
	if (!rc)
		rc = retrieve_open(t, day, e);
	if (!rc)
		rc = facts_apply_day(t, day, e);
	if (!rc)
		rc = retrieve_hide(t, e);
	transfer_seen(t, day)->fetch_failed_mono_ms = retrieve_failed_alone(rc) ? clock_mono_ms() : 0;
	if (rc)
		return rc;
	retrieve_visited(t, day);
	retrieve_note_absent(t);
	metric_inc(&tsdb_metrics[TM_BUCKET_FETCHED]);
	LOG_INFO("msg", "a day is back from the bucket", "partition", LOG_NUM(day), "ms", LOG_NUM(clock_mono_ms() - start));
	return 1;
}

/* ---- days that are lost here ---- */

/* Also one that local retention would let go: the head log may have further rows of it, which would begin it anew. */
void retrieve_list_lost(struct transfer *t, struct lost_days *ret)
{
	VEC(struct catalogue_day) days = { 0 };
	rwlock_read(&t->catalogue.lock);
	for (size_t i = 0; i < t->catalogue.days.n; i++)
		if (retrieve_is_kept(t, &t->catalogue.days.v[i]))
			vec_push(&days, t->catalogue.days.v[i]); /* without their parts, which are not looked at */
	rwlock_unlock(&t->catalogue.lock);
	for (size_t i = 0; i < days.n; i++)
		if (collect_is_lost(t, &days.v[i]))
			vec_push(&ret->v, days.v[i].day);
	vec_free(&days);
}

int retrieve_lost(struct transfer *t, uint32_t day, struct err *e)
{
	char identity[CATALOGUE_IDENTITY_MAX] = "";
	AUTOFREE char *path = facts_path(t, day);
	int rc = catalogue_set(&t->catalogue, day, "", false, e); /* if it fails from here on it is fetched later */
	if (!rc)
		rc = tsdb_remove_empty(t->db, day, e);
	if (!rc)
		rc = retrieve_files(t, day, false, e);
	if (!rc)
		rc = facts_done(t, path, e); /* the head log has them, and what was deleted since */
	if (!rc)
		rc = tsdb_open_partition(t->db, day, e);
	struct partition *p = rc ? NULL : tsdb_partition(t->db, day);
	pending_remove(t, day);
	if (p && p->next_part > 1) /* facts of deletes may have left the head log when parts were rewritten */
		vec_push(&t->mended, (struct transfer_mend){ .day = day, .part = { .number = p->next_part - 1 } });
	if (p && p->db_parts)
		rc = partition_db_identity(p->db_parts, identity, sizeof identity, e);
	partition_unref(p);
	return rc || !identity[0] ? rc : facts_set_identity(t, day, identity, e);
}

/* ---- leftovers ---- */

static int tidy_one(void *arg, const char *name, struct err *e)
{
	struct transfer *t = arg;
	char digits[16];
	int64_t day;
	(void)e;
	if (!view_ends(view_of(name), VIEW(FETCH_SUFFIX)) || strlen(name) - strlen(FETCH_SUFFIX) >= sizeof digits)
		return 0;
	snprintf(digits, sizeof digits, "%.*s", (int)(strlen(name) - strlen(FETCH_SUFFIX)), name);
	if (!num_parse_i64(view_of(digits), &day) || day < 0 || day > UINT32_MAX)
		return 0;
	struct version *v = tsdb_version(t->db, NULL);
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, (uint32_t)day);
	bool missing = d && retrieve_is_missing(t, v, d);
	rwlock_unlock(&t->catalogue.lock);
	version_unref(v);
	AUTOFREE char *dir = retrieve_path(t, (uint32_t)day, FETCH_SUFFIX);
	if (!missing)
		files_remove_tree(dir);
	return 0;
}

void retrieve_tidy(struct transfer *t)
{
	AUTOFREE char *dir = xasprintf("%s/partitions", t->db->path);
	struct err e;
	if (access(dir, F_OK) == 0 && files_each(dir, tidy_one, t, &e))
		LOG_WARN("msg", "what was fetched of days that are not needed takes room", "dir", dir, "err", e.msg);
}
