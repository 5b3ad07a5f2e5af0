/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of hours that are damaged or missing on this disk, and whole in the bucket, are fetched again: at the start, before anything is rewritten
 * from its readable values, and when a value could not be read while the storage runs. The good file takes the place of the damaged one under the
 * same number.
 *
 * A part is fetched only if the newest generation of its day names it, and was made of this database: then it is the same part, not only one of
 * its number. Deletes apply to it as to the damaged one, whose rewriting without deleted rows waits for it (tombstone_clean.c). Where a part that
 * was rewritten is missing, the one that the generation has may be older than deletes: those are applied to it again.
 *
 * While the bucket does not answer, a stand-in (part_stand_in.c) keeps the number. A day with a missing file does not go up until it is back, and a new
 * generation of a day with a damaged file goes on naming the object: so nothing removes it.
 * If no other part has the symbols of one that waits, the start is refused: new symbols would get the ids that its values have.
 * If the object is damaged or missing as well, the part is rewritten from its readable values, at this start or the next one. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/part/part.h"
#include "tsdb/transfer/transfer_private.h"
#include "tsdb/version/evict.h"
#include "tsdb/version/tombstones.h"

#define ROUND_MOST_MS 30000 /* so long a round fetches parts while the storage runs */
#define FAILED_PAUSE_MS (10 * INT64_C(60000)) /* before a part is tried again that failed by itself */

/* ---- which parts ---- */

static const struct catalogue_part *mend_look_up(const struct catalogue_day *d, uint32_t window, uint32_t number)
{
	for (size_t i = 0; i < d->parts.n; i++)
		if (d->parts.v[i].level == LEVEL_HOUR && d->parts.v[i].window == window && d->parts.v[i].number == number)
			return &d->parts.v[i];
	return NULL;
}

/* The part as the newest generation of its day has it. */
static bool mend_is_up(struct transfer *t, const struct part *p, struct catalogue_part *ret)
{
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, p->window / 24);
	bool of = d && d->kind == GENERATION_DAY && !d->away && partition_db_is_of(p->db, d->identity);
	const struct catalogue_part *x = of && p->level == LEVEL_HOUR ? mend_look_up(d, p->window, p->number) : NULL;
	if (x)
		*ret = *x;
	rwlock_unlock(&t->catalogue.lock);
	return x;
}

bool mend_keeps(void *arg, const struct part *p)
{
	struct catalogue_part x;
	return mend_is_up(arg, p, &x);
}

static struct part *mend_find_part(const struct pstate *s, uint32_t window, uint32_t number)
{
	for (size_t i = 0; i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR && s->parts[i]->window == window && s->parts[i]->number == number)
			return s->parts[i];
	return NULL;
}

/* Whether an hour has a part with rows, and it is not known which parts it replaced, as it was rewritten without its header. */
static bool mend_is_unclear(const struct pstate *s, uint32_t window)
{
	for (size_t i = 0; i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR && s->parts[i]->window == window && s->parts[i]->lost && !s->parts[i]->last_record && s->parts[i]->series.n)
			return true;
	return false;
}

/* ---- in the version ---- */

/* Publishes a part in place of `old`, which has the same number; old NULL: as a further one. Takes the caller's reference to the new one. */
static void mend_publish(struct transfer *t, uint32_t day, const struct part *old, struct part *part)
{
	struct tsdb *db = t->db;
	mutex_assert_held(&db->seal_lock);
	mutex_lock(&db->apply_lock);
	struct version *v = tsdb_version(db, NULL);
	const struct pstate *s = version_find(v, day);
	struct part **parts = xcalloc(s->n_parts + 1, sizeof *parts);
	size_t n = 0;
	for (size_t i = 0; i < s->n_parts; i++) {
		parts[n++] = s->parts[i] == old ? part : s->parts[i];
		if (s->parts[i]->level == LEVEL_HOUR && s->parts[i]->window == part->window && !atomic_load(&s->parts[i]->awaits) &&
		    !atomic_load(&s->parts[i]->given_up) && !atomic_load(&s->parts[i]->set_aside))
			s->parts[i]->damaged = false; /* the sealer tries anew to make one of them */
	}
	if (!old)
		parts[n++] = part;
	s->p->next_part = MAX(s->p->next_part, part->number + 1);
	tsdb_publish(db, version_with(v, s->p, s->windows, s->n_windows, parts, n), 0);
	free(parts);
	version_unref(v);
	mutex_unlock(&db->apply_lock);
	part_unref(part);
}

/* ---- at the start ---- */

/* The damaged and missing parts of a day, by the catalogue. False: it is not of this database. */
static bool mend_list_day(struct transfer *t, const struct pstate *s, struct generation *of, char identity[CATALOGUE_IDENTITY_MAX])
{
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, s->p->day);
	bool is = d && d->kind == GENERATION_DAY && !d->away && partition_db_is_of(s->p->db_parts, d->identity);
	for (size_t i = 0; is && i < d->parts.n; i++) {
		const struct catalogue_part *x = &d->parts.v[i];
		const struct part *here = x->level == LEVEL_HOUR ? mend_find_part(s, x->window, x->number) : NULL;
		struct part same = { .level = x->level, .window = x->window, .number = x->number, .origin = x->number };
		if (x->level == LEVEL_HOUR && (here ? atomic_load(&here->awaits) : !part_is_superseded(&same, s->parts, s->n_parts)))
			vec_push(&of->parts, (struct generation_part){ .level = x->level, .window = x->window, .number = x->number, .object = x->object });
	}
	if (is)
		memcpy(identity, d->identity, CATALOGUE_IDENTITY_MAX);
	rwlock_unlock(&t->catalogue.lock);
	return is;
}

static const struct generation_part *mend_find_head(const struct generation *g, const struct generation_part *x)
{
	for (size_t i = 0; i < g->parts.n; i++)
		if (g->parts.v[i].level == x->level && g->parts.v[i].window == x->window && g->parts.v[i].number == x->number)
			return &g->parts.v[i];
	return NULL;
}

/* Lists one, with a stand-in that has the head of the generation. Without that, a missing one may have been replaced long ago: it stays out. */
static void mend_add(struct transfer *t, uint32_t day, const struct generation *g, const struct generation_part *x)
{
	struct version *v = tsdb_version(t->db, NULL);
	const struct pstate *s = version_find(v, day);
	struct part *here = mend_find_part(s, x->window, x->number);
	const struct generation_part *head = mend_find_head(g, x);
	struct part *p = head ? part_stand_in(s->p->db_parts, x->window, x->number, head->header, head->index) : NULL;
	bool wanted = here || (p && p->last_record && !part_is_superseded(p, s->parts, s->n_parts) && !mend_is_unclear(s, x->window));
	if (wanted && !here)
		LOG_ERROR("msg", "a sealed part is missing here: the bucket has it", "partition", LOG_NUM(day), "window", LOG_NUM(x->window), "part", LOG_NUM(x->number));
	if (wanted && p)
		mend_publish(t, day, here, p);
	else
		part_unref(p);
	struct transfer_mend m = { .day = day, .part = { x->level, x->window, x->number, x->object } };
	if (wanted)
		vec_push(&t->mends, m);
	if (wanted && !here)
		vec_push(&t->mended, m);
	version_unref(v);
}

static void mend_find_day(struct transfer *t, const struct pstate *s)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation of = { .min_ms = 1 }, g = { .min_ms = 1 };
	char was[CATALOGUE_IDENTITY_MAX], identity[CATALOGUE_IDENTITY_MAX];
	struct err e;
	uint32_t day = s->p->day;
	if (!s->p->db_parts || !mend_list_day(t, s, &of, was)) {
		generation_release(&of);
		return;
	}
	if (of.parts.n && generations_read(t, day, &b, &g, &e))
		LOG_WARN("msg", "the generation of a day cannot be read: its missing parts are not known", "partition", LOG_NUM(day), "err", e.msg);
	for (size_t i = 0; i < of.parts.n; i++)
		mend_add(t, day, &g, &of.parts.v[i]);
	/* The database was rebuilt from the same files: its parts have kept their numbers. */
	if (!partition_db_identity(s->p->db_parts, identity, sizeof identity, &e) && strcmp(identity, was) && catalogue_set(&t->catalogue, day, identity, false, &e))
		LOG_WARN("msg", "a partition was rebuilt, which cannot be noted: its day goes up again", "partition", LOG_NUM(day), "err", e.msg);
	generation_release(&of);
	generation_release(&g);
}

void mend_find(struct transfer *t)
{
	struct version *v = tsdb_version(t->db, NULL);
	mutex_lock(&t->db->seal_lock);
	for (size_t i = 0; i < v->n; i++)
		mend_find_day(t, v->p[i]);
	mutex_unlock(&t->db->seal_lock);
	version_unref(v);
}

/* The facts of the generation may have left the head log, when the parts were rewritten that are gone now. Rows that came after a delete are in windows,
 * which a delete would empty, or in parts with higher numbers: so the windows become parts first. */
int mend_apply_deletes(struct transfer *t, struct err *e)
{
	int rc = t->mended.n && t->has_begun ? tsdb_seal(t->db, true, e) : 0;
	while (!rc && t->mended.n && t->has_begun) {
		const struct transfer_mend *m = &t->mended.v[t->mended.n - 1];
		rwlock_read(&t->catalogue.lock);
		const struct catalogue_day *d = catalogue_find(&t->catalogue, m->day);
		bool there = d && d->kind == GENERATION_DAY;
		struct object_stamp from = there ? d->deletes : (struct object_stamp){ 0, 0 };
		rwlock_unlock(&t->catalogue.lock);
		if (there)
			rc = retrieve_commit_facts(t, m->day, e);
		if (there && !rc)
			rc = deletes_apply_day(t, m->day, from, m->part.number + 1, e);
		t->mended.n -= !rc;
	}
	return rc;
}

/* ---- one part ---- */

/* The stand-in, or damaged part, of a mend. NULL: there is none any more. s is of v. */
static struct part *mend_waiting(const struct version *v, const struct transfer_mend *m)
{
	const struct pstate *s = version_find(v, m->day);
	struct part *p = s ? mend_find_part(s, m->part.window, m->part.number) : NULL;
	return p && atomic_load(&p->awaits) ? p : NULL;
}

/* Whether the newest generation still names the object. */
static bool mend_is_named(struct transfer *t, const struct transfer_mend *m)
{
	rwlock_read(&t->catalogue.lock);
	const struct catalogue_day *d = catalogue_find(&t->catalogue, m->day);
	const struct catalogue_part *x = d && d->kind == GENERATION_DAY ? mend_look_up(d, m->part.window, m->part.number) : NULL;
	bool named = x && !object_stamp_cmp(x->object.stamp, m->part.object.stamp);
	rwlock_unlock(&t->catalogue.lock);
	return named;
}

/* The bucket does not have it whole either. While the storage runs it stays as it is: the next start rewrites it from its readable values. */
static void mend_give_up(struct transfer *t, const struct transfer_mend *m, const char *why)
{
	struct part *to = NULL;
	struct err e;
	mutex_lock(&t->db->seal_lock);
	struct version *v = tsdb_version(t->db, NULL);
	struct part *p = mend_waiting(v, m);
	if (p) {
		LOG_ERROR("msg", "a sealed part is damaged here, and the bucket does not have it either", "partition", LOG_NUM(m->day), "window",
			  LOG_NUM(m->part.window), "part", LOG_NUM(m->part.number), "err", why);
		atomic_store(&p->awaits, false);
		atomic_store(&p->given_up, true);
	}
	if (p && !t->is_open && part_salvage(p, &to, &e))
		LOG_ERROR("msg", "a damaged part cannot be rewritten: its hour is missing", "partition", LOG_NUM(m->day), "part", LOG_NUM(p->number), "err", e.msg);
	if (to) {
		part_retire(p);
		mend_publish(t, m->day, p, to);
	}
	version_unref(v);
	mutex_unlock(&t->db->seal_lock);
}

/* The good file is in the place of the other. */
static int mend_take(struct transfer *t, const struct transfer_mend *m, const char *file, struct err *e)
{
	struct part *to = NULL;
	int rc = 0;
	bool reload = false;
	mutex_lock(&t->db->seal_lock);
	struct version *v = tsdb_version(t->db, NULL);
	struct part *p = mend_waiting(v, m);
	if (p)
		rc = part_put_back(p, file, &to, e);
	if (to) {
		reload = version_find(v, m->day)->p->lost;
		mend_publish(t, m->day, p, to);
		evict_known(version_find(v, m->day)->p);
		LOG_INFO("msg", "a damaged part was replaced by the bucket's", "partition", LOG_NUM(m->day), "window", LOG_NUM(m->part.window), "part",
			 LOG_NUM(m->part.number), "bytes", LOG_NUM(m->part.object.size));
	}
	version_unref(v);
	if (reload && t->is_open)
		evict_day(t->db, m->day); /* its dictionary lacks what only this part has; if it is in use, the next start reads it */
	mutex_unlock(&t->db->seal_lock);
	return rc;
}

/* 0: it is done, or there is nothing left to do. */
static int mend_one(struct transfer *t, const struct transfer_mend *m, struct err *e)
{
	char name[OBJECT_NAME_MAX];
	AUTOFREE char *dir = xasprintf("%s/partitions/%u", t->db->path, m->day);
	AUTOFREE char *file = xasprintf("%s/mend-%u-%u" PARTITION_DB_UNFINISHED, dir, m->part.window, m->part.number);
	struct version *v = tsdb_version(t->db, NULL);
	bool waits = mend_waiting(v, m);
	version_unref(v);
	if (waits && !mend_is_named(t, m)) {
		mend_give_up(t, m, "no generation names it any more");
		waits = false;
	}
	if (!waits)
		return 0;
	object_name_data(name, t->server.id, m->day, m->part.object.stamp);
	int rc = object_io_get_file(t->objects, name, file, m->part.object.size, m->part.object.sha256, e);
	if (!rc)
		return mend_take(t, m, file, e);
	if (space_is_out(e))
		unlink(file);
	if ((rc == -ERR_CORRUPT || rc == -ERR_NOT_FOUND) && access(dir, F_OK) == 0) {
		unlink(file);
		mend_give_up(t, m, e->msg);
		rc = 0;
	}
	return rc;
}

/* ---- names ---- */

static int mend_by_origin(const void *a, const void *b)
{
	const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;
	return (x->origin > y->origin) - (x->origin < y->origin);
}

static bool mend_has_symbols(const struct part *p)
{
	PART_VALUE v = { 0 };
	bool packed;
	struct err e;
	return !part_open_symbols(p, &v, &packed, &e);
}

/* The first part that waits and brings symbols that neither it nor the next one, which repeats them, has readable here. */
static const struct part *mend_find_nameless(const struct pstate *s)
{
	AUTOFREE struct part **v = xcalloc(s->n_parts + 1, sizeof *v);
	size_t n = 0;
	for (size_t i = 0; i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR)
			v[n++] = s->parts[i];
	qsort(v, n, sizeof(*v), mend_by_origin);
	for (size_t i = 0; i < n; i++)
		if (atomic_load(&v[i]->awaits) && !mend_has_symbols(v[i]) && (i + 1 == n || !mend_has_symbols(v[i + 1])))
			return v[i];
	return NULL;
}

int mend_check_names(struct transfer *t, struct err *e)
{
	struct version *v = tsdb_version(t->db, NULL);
	const struct part *p = NULL;
	uint32_t day = 0;
	for (size_t i = 0; i < t->mends.n && !p; i++) {
		day = t->mends.v[i].day;
		const struct pstate *s = version_find(v, day);
		p = s ? mend_find_nameless(s) : NULL;
	}
	if (p)
		err_set(e, ERR_UNAVAILABLE, "part %u of day %u is damaged here, no other part has its symbols, and the bucket, which has it whole, does not give it. New rows would get its "
			"ids: start again when the bucket answers, or without object_storage, to go on with what is readable", p->number, day);
	version_unref(v);
	return p ? -ERR_UNAVAILABLE : 0;
}

/* ---- while the storage runs ---- */

/* Parts of which a value could not be read. */
static bool mend_is_listed(const struct transfer *t, const struct part *p)
{
	for (size_t i = 0; i < t->mends.n; i++)
		if (t->mends.v[i].part.window == p->window && t->mends.v[i].part.number == p->number)
			return true;
	return false;
}

static void mend_list(struct transfer *t, uint32_t day, struct part *p)
{
	struct transfer_mend m = { .day = day };
	if (p->level != LEVEL_HOUR || atomic_load(&p->given_up) || (!atomic_load(&p->awaits) && !part_has_damage(p)) || mend_is_listed(t, p) ||
	    !mend_is_up(t, p, &m.part))
		return;
	mutex_lock(&t->db->seal_lock);
	p->damaged = true;
	atomic_store(&p->awaits, true);
	mutex_unlock(&t->db->seal_lock);
	vec_push(&t->mends, m);
}

static void mend_look(struct transfer *t)
{
	struct version *v = tsdb_version(t->db, NULL);
	for (size_t i = 0; i < v->n; i++)
		for (size_t k = 0; k < v->p[i]->n_parts; k++)
			mend_list(t, v->p[i]->p->day, v->p[i]->parts[k]);
	version_unref(v);
}

static int mend_by_key(const void *a, const void *b)
{
	const struct transfer_mend *x = a, *y = b;
	if (x->part.window != y->part.window)
		return x->part.window < y->part.window ? 1 : -1;
	return (x->part.number < y->part.number) - (x->part.number > y->part.number);
}

int mend_parts(struct transfer *t, bool now, struct err *e)
{
	struct err one;
	int64_t begin = clock_mono_ms();
	size_t n = 0;
	int rc = 0;
	if (t->is_open)
		mend_look(t);
	if (t->mends.n)
		qsort(t->mends.v, t->mends.n, sizeof *t->mends.v, mend_by_key); /* the last one first: see part_put_back */
	for (size_t i = 0; i < t->mends.n; i++) {
		struct transfer_mend *m = &t->mends.v[i];
		bool due = now || !m->failed_mono_ms || clock_mono_ms() - m->failed_mono_ms >= FAILED_PAUSE_MS;
		int one_rc = due && !atomic_load(&t->db->stopping) ? mend_one(t, m, &one) : 0;
		if (due && one_rc && !rc)
			rc = err_set(e, one.code, "%s", one.msg);
		bool away = transfer_is_away(one_rc);
		m->failed_mono_ms = one_rc && !away ? clock_mono_ms() : due ? 0 : m->failed_mono_ms;
		if (!due || one_rc || atomic_load(&t->db->stopping))
			t->mends.v[n++] = *m;
		if (away || (t->is_open && clock_mono_ms() - begin > ROUND_MOST_MS)) { /* uploads are next */
			for (i++; i < t->mends.n; i++)
				t->mends.v[n++] = t->mends.v[i];
		}
	}
	t->mends.n = n;
	return rc;
}
