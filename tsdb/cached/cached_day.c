/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/cached/cached_day.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/bucket/catalogue.h"
#include "tsdb/bucket/day_symbols.h"
#include "tsdb/log/record.h"
#include "tsdb/part/part_cover.h"
#include "tsdb/version/dict_union.h"
#include "tsdb/version/late_names.h"
#include "tsdb/version/tombstones.h"

/* ---- the directory ---- */

static void store_unref(struct cached_store *s)
{
	if (!s)
		return;
	mutex_lock(&s->list->lock);
	bool last = atomic_fetch_sub(&s->refs, 1) == 1;
	for (size_t i = 0; last && i < s->list->v.n; i++)
		if (s->list->v.v[i] == s) {
			s->list->v.v[i] = s->list->v.v[--s->list->v.n];
			break;
		}
	mutex_unlock(&s->list->lock);
	if (!last)
		return;
	for (size_t i = 0; i < s->files.n; i++)
		cached_file_unref(s->files.v[i]);
	vec_free(&s->files);
	cached_file_unref(s->symbols);
	cached_dir_unref(s->dir);
	free(s);
}

static bool store_is_of(const struct cached_store *s, const struct cached_server *of, uint32_t day, struct object_stamp stamp)
{
	return s->server == of && s->day == day && !object_stamp_cmp(s->stamp, stamp);
}

int cached_stores_refs(struct cached_stores *l, const struct cached_server *s, uint32_t day, struct object_stamp stamp)
{
	int n = 0;
	mutex_assert_held(&l->lock);
	for (size_t i = 0; i < l->v.n; i++)
		if (store_is_of(l->v.v[i], s, day, stamp))
			n += atomic_load(&l->v.v[i]->refs);
	return n;
}

/* One that there is, and that can still be read; NULL = none. */
static struct cached_store *store_find(struct cached_stores *l, const struct cached_server *s, uint32_t day, struct object_stamp stamp) REQUIRES(l->lock)
{
	for (size_t i = 0; i < l->v.n; i++)
		if (store_is_of(l->v.v[i], s, day, stamp) && !atomic_load(&l->v.v[i]->dir->lost))
			return l->v.v[i];
	return NULL;
}

/* Two parts with one file would be written into each other. */
static int store_check_files(const struct generation *g, struct err *e)
{
	struct map by_file = { 0 };
	int rc = 0;
	for (uint32_t i = 0; i < g->parts.n && !rc; i++) {
		uint32_t k;
		uint64_t file = g->parts.v[i].file;
		if (MAP_FIND_OR_ADD(&by_file, hash_u64(file), k, i, g->parts.v[k].file == file))
			rc = err_set(e, ERR_CORRUPT, "two parts of day %u of %s are in file %" PRIu64, g->day, g->id, file);
	}
	map_free(&by_file);
	return rc;
}

/* Of a generation of which there is none. */
static int store_make(struct cached_store **ret, struct cached_day *d, const struct generation *g, struct err *e) REQUIRES(d->stores->lock)
{
	AUTOFREE char *path = xasprintf("%s/bucket/cache/%u-%" PRIu64 "-%" PRIu64 "%s%s", d->tsdb->path, g->day, g->stamp.epoch, g->stamp.serial,
					d->server->number ? "-" : "", d->server->id);
	struct cached_store *s = NEW(struct cached_store);
	int rc = 0;
	atomic_init(&s->refs, 1);
	s->list = d->stores;
	s->server = d->server;
	s->day = g->day;
	s->stamp = g->stamp;
	s->dir = cached_dir_new(path, g, d->tsdb->cache);
	rc = store_check_files(g, e);
	for (size_t i = 0; i < g->parts.n && !rc; i++) {
		struct cached_file *f;
		rc = cached_file_of_part(&f, s->dir, g, &g->parts.v[i], e);
		if (!rc)
			vec_push(&s->files, f);
	}
	if (!rc && g->symbols.stamp.epoch)
		s->symbols = cached_file_of_symbols(s->dir, g);
	vec_push(&s->list->v, s);
	*ret = s;
	return rc;
}

static int store_open(struct cached_store **ret, struct cached_day *d, const struct generation *g, struct err *e)
{
	int rc = 0;
	mutex_lock(&d->stores->lock);
	struct cached_store *s = store_find(d->stores, d->server, g->day, g->stamp);
	if (s)
		atomic_fetch_add(&s->refs, 1);
	else
		rc = store_make(&s, d, g, e);
	mutex_unlock(&d->stores->lock);
	if (rc)
		store_unref(s);
	else
		*ret = s;
	return rc;
}

/* ---- its parts and facts ---- */

struct day_parts {
	VEC(struct part *) v;
};

static void parts_release(struct day_parts *p)
{
	for (size_t i = 0; i < p->v.n; i++)
		part_unref(p->v.v[i]);
	vec_free(&p->v);
}

/* In parts of older programs all streams of detail have keys of one kind (struct part). */
static bool part_has_one_kind(const struct generation_part *p)
{
	bool detail = false, streams = false;
	for (size_t i = 0; i < p->runs.n; i++) {
		detail |= p->runs.v[i].kind == PART_DETAIL;
		streams |= p->runs.v[i].kind == PART_DETAIL_1 || p->runs.v[i].kind == PART_DETAIL_2;
	}
	return detail && !streams;
}

static int parts_make(struct day_parts *ret, struct cached_store *s, const struct generation *g, struct err *e)
{
	int rc = 0;
	for (size_t i = 0; i < g->parts.n && !rc; i++) {
		const struct generation_part *x = &g->parts.v[i];
		struct part *p;
		rc = part_make(&p, s->dir->db, (enum part_level)x->level, x->window, x->number, x->header, x->index, part_has_one_kind(x),
			       &cached_file_ref(s->files.v[i])->lack, e);
		if (rc)
			break;
		p->bytes = x->object.size;
		vec_push(&ret->v, p);
		if (x->covers.len)
			rc = part_covers_check_both(p, x->covers, x->ends, e);
	}
	return rc;
}

static struct late_names *names_of(const struct generation *g)
{
	struct late_names *n = NULL;
	for (size_t i = 0; i < g->facts.n; i++) {
		struct cursor c = cursor_of(g->facts.v[i].payload);
		uint64_t next = 0;
		if (c.p == c.end || *c.p != FACT_NAMES)
			continue;
		c.p++;
		late_names_unref(n); /* there is one such fact */
		n = NEW(struct late_names);
		atomic_init(&n->refs, 1);
		vec_push(&n->facts, g->facts.v[i].number);
		for (size_t k = cursor_count(&c); k && !c.bad; k--) {
			uint64_t location = next + cursor_varint(&c);
			struct late_name x = { (uint32_t)location, cursor_u32(&c) };
			if (!c.bad && location < UINT32_MAX)
				vec_push(&n->v, x);
			next = location + 1;
		}
	}
	return n;
}

static void hidden_facts_release(struct hidden_facts *f)
{
	for (size_t i = 0; i < f->deletes.n; i++)
		vec_free(&f->deletes.v[i].series);
	for (size_t i = 0; i < f->rules.n; i++)
		vec_free(&f->rules.v[i].series);
	vec_free(&f->deletes);
	vec_free(&f->rules);
}

static void tombstones_add(struct tombstones **m, const struct tombstone_fact *f, const struct day_parts *parts)
{
	struct tombstones *next = tombstones_with(*m, f, parts->v.v, parts->v.n);
	tombstones_unref(*m);
	*m = next;
}

/* Those of the generation, and what came since. What retention by selector had hidden then (facts without a number) it hides anew, but on days of
 * other servers: their rules are not known here. */
static int tombstones_of(struct tombstones **ret, struct cached_day *d, const struct generation *g, const struct day_parts *parts, struct err *e)
{
	struct hidden_facts hidden = { .next_ms = INT64_MAX };
	d->hidden_number = atomic_load(d->server->hidden_number);
	int rc = d->server->hidden(d->server, g, &hidden, e);
	for (size_t i = 0; i < g->facts.n && !rc; i++) {
		struct cursor c = cursor_of(g->facts.v[i].payload);
		struct tombstone_fact f = { .number = g->facts.v[i].number };
		bool wanted = (f.number || d->server->number) && c.p != c.end && *c.p != FACT_NAMES && tombstone_fact_get(&c, &f) && !c.bad;
		if (wanted && f.number)
			tombstones_add(ret, &f, parts);
		else if (wanted)
			vec_push(&hidden.rules, f);
		if (!wanted || f.number)
			vec_free(&f.series);
	}
	for (size_t i = 0; i < hidden.deletes.n && !rc; i++)
		tombstones_add(ret, &hidden.deletes.v[i], parts);
	if (!rc && hidden.rules.n) {
		struct tombstones *next = tombstones_with_rules(*ret, hidden.rules.v, hidden.rules.n, parts->v.v, parts->v.n);
		tombstones_unref(*ret);
		*ret = next;
	}
	d->next_hidden_ms = hidden.next_ms;
	hidden_facts_release(&hidden);
	return rc;
}

/* ---- its series ---- */

/* The series of a generation, by their labels. */
struct day_series {
	const struct generation *g;
	struct labels external; /* that they get */
	struct map by_labels;
};

static bool series_find(const struct day_series *d, struct labels l)
{
	uint64_t hash = labels_hash(l);
	uint32_t k;
	for (size_t at = map_start(&d->by_labels, hash); map_probe(&d->by_labels, hash, &at, &k);)
		if (labels_eq(d->g->series.v[k].labels, l))
			return true;
	return false;
}

static int series_list(struct day_series *d, struct err *e)
{
	for (uint32_t i = 0; i < d->g->series.n; i++) {
		struct labels l = d->g->series.v[i].labels;
		if (!l.n)
			continue; /* a series whose labels were lost: there may be several */
		if (series_find(d, l)) {
			CLEANUP(buf_free) struct buf text = { .max = 200 };
			labels_format(l, &text);
			return err_set(e, ERR_CORRUPT, "day %u of %s has two series %.*s", d->g->day, d->g->id, (int)text.len, text.ptr ? text.ptr : "");
		}
		map_insert(&d->by_labels, labels_hash(l), i);
	}
	return 0;
}

/* Adds a series with the external labels that it does not have itself; where another series has all these labels, with its own labels alone. */
static void series_add(struct partition *p, const struct day_series *d, const struct generation_series *x) REQUIRES(p->dict_lock)
{
	struct labels_builder b;
	uint32_t id;
	labels_builder_init(&b, x->labels);
	for (size_t i = 0; i < d->external.n && x->labels.n; i++)
		if (!labels_get(x->labels, d->external.v[i].name).len)
			labels_builder_set(&b, d->external.v[i].name, d->external.v[i].value);
	struct labels l = labels_builder_finish(&b);
	if (d->external.n && x->labels.n && (series_find(d, l) || index_find(&p->index, l, labels_hash(l), &id)))
		l = x->labels;
	index_add(&p->index, l, labels_hash(l), x->is_float ? NULL : &x->type);
	labels_builder_free(&b);
}

static int series_of(struct cached_day *day, const struct generation *g, const struct pstate *s, struct partition **ret, struct err *e)
{
	struct day_series d = { .g = g };
	if (day->server->number)
		d.external = g->external;
	int rc = day->server->number ? series_list(&d, e) : 0; /* this server has them as it had them on its disk */
	if (!rc) {
		struct partition *p = partition_new(day->tsdb, day->day);
		rwlock_write(&p->dict_lock);
		for (size_t i = 0; i < g->series.n; i++)
			series_add(p, &d, &g->series.v[i]);
		partition_widen(p, s);
		rwlock_unlock(&p->dict_lock);
		*ret = p;
	}
	map_free(&d.by_labels);
	return rc;
}

/* ---- opening ---- */

static int day_symbols(struct partition_origin *o, struct buf *ret, struct err *e)
{
	struct cached_day *d = (struct cached_day *)o;
	if (!d->store->symbols)
		return err_set(e, ERR_NOT_FOUND, "the parts have the symbols of day %u", d->day);
	CLEANUP(buf_free) struct buf object = { 0 };
	int rc = cached_file_read_symbols(d->store->symbols, &object, e);
	return rc ? rc : day_symbols_decode(ret, buf_view(&object), e);
}

struct cached_day *cached_day_new(struct cached_server *s, uint32_t day, struct cached_stores *stores)
{
	struct cached_day *d = NEW(struct cached_day);
	atomic_init(&d->refs, 1);
	d->tsdb = s->db;
	d->server = s;
	d->day = day;
	d->stores = stores;
	mutex_init(&d->lock, RANK_TSDB_CACHED_DAY, "cached day");
	atomic_init(&d->used_mono_ms, clock_mono_ms());
	d->p = partition_new(s->db, day);
	atomic_store(&d->p->loaded, false);
	d->p->origin = &d->origin;
	return d;
}

struct cached_day *cached_day_ref(struct cached_day *d)
{
	atomic_fetch_add_explicit(&d->refs, 1, memory_order_relaxed);
	return d;
}

void cached_day_unref(struct cached_day *d)
{
	if (!d || atomic_fetch_sub(&d->refs, 1) != 1)
		return;
	if (atomic_load(&d->p->loaded))
		dict_unions_forget_everywhere(d->tsdb, d->p->symbols);
	if (d->origin.s)
		pstate_unref(d->origin.s);
	partition_unref(d->origin.series);
	partition_unref(d->p);
	store_unref(d->store);
	mutex_destroy(&d->lock);
	free(d);
}

/* The newest that the directory knows. */
static int day_read_generation(struct cached_day *d, struct generation *g, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX };
	int rc = catalogue_bytes(d->server->catalogue, d->day, &b, e);
	if (!rc)
		rc = generation_decode(g, buf_view(&b), NULL, e);
	if (!rc && (g->kind != GENERATION_DAY || g->day != d->day))
		rc = err_set(e, ERR_NOT_FOUND, "the bucket has nothing of day %u any more", d->day);
	return rc ? rc : generation_decode_series(g, e);
}

/* Names its dictionary, also for another object of this day as of the same generation. Local ones are small numbers. */
static uint64_t day_dictionary(const struct cached_day *d, const struct generation *g)
{
	return (hash_u64(hash_u64(hash_u64(d->server->number) ^ d->day) ^ g->stamp.epoch) ^ hash_u64(g->stamp.serial)) | UINT64_C(1) << 63;
}

static int day_fill(struct cached_day *d, const struct generation *g, struct err *e)
{
	struct day_parts parts = { 0 };
	struct tombstones *m = NULL;
	int rc = 0;
	if (d->store && object_stamp_cmp(d->store->stamp, g->stamp)) { /* of a try that failed */
		store_unref(TAKE_PTR(d->store));
		partition_db_unref(TAKE_PTR(d->p->db_parts));
	}
	if (!d->store)
		rc = store_open(&d->store, d, g, e);
	if (!rc && d->store->files.n != g->parts.n)
		rc = err_set(e, ERR_CORRUPT, "two generations of day %u have one name", d->day);
	if (!rc)
		rc = parts_make(&parts, d->store, g, e);
	if (!rc)
		rc = tombstones_of(&m, d, g, &parts, e);
	if (!rc) {
		d->p->dictionary = day_dictionary(d, g);
		if (!d->p->db_parts)
			d->p->db_parts = partition_db_ref(d->store->dir->db);
		struct pstate *s = pstate_of_parts(d->p, parts.v.v, parts.v.n, TAKE_PTR(m), names_of(g));
		rc = series_of(d, g, s, &d->origin.series, e);
		d->origin.symbols = day_symbols;
		if (rc)
			pstate_unref(s);
		else
			d->origin.s = s;
	}
	tombstones_unref(m);
	parts_release(&parts);
	return rc;
}

int cached_day_open(struct cached_day *d, struct err *e)
{
	struct generation g = { .min_ms = 1 };
	int rc = 0;
	atomic_store(&d->used_mono_ms, clock_mono_ms());
	if (atomic_load_explicit(&d->open, memory_order_acquire))
		return 0;
	mutex_lock(&d->lock);
	if (!atomic_load(&d->open)) {
		rc = day_read_generation(d, &g, e);
		if (!rc)
			rc = day_fill(d, &g, e);
		generation_release(&g);
		if (!rc)
			atomic_store_explicit(&d->open, true, memory_order_release);
		else if (!d->told)
			LOG_WARN("msg", "a day of the bucket cannot be read: answers about it carry a warning", "partition", LOG_NUM(d->day), "server", d->server->id,
				 "err", e->msg);
		d->told |= rc != 0;
	}
	mutex_unlock(&d->lock);
	return rc;
}

/* ---- what it lacks ---- */

bool cached_day_need_stacks(struct cached_day *d)
{
	struct err e;
	bool all = true;
	if (atomic_load(&d->p->loaded))
		return true;
	if (d->store->symbols)
		return cached_file_need_symbols(d->store->symbols);
	for (size_t i = 0; i < d->origin.s->n_parts; i++)
		if (d->origin.s->parts[i]->level == LEVEL_HOUR && part_need(d->origin.s->parts[i], PART_SYMBOLS, 0, 0, &e))
			all = false;
	return all;
}

void cached_day_list_lacks(struct cached_day *d, struct cached_files *ret)
{
	for (size_t i = 0; i < d->store->files.n; i++)
		if (cached_file_lacks(d->store->files.v[i]))
			vec_push(&ret->v, d->store->files.v[i]);
	if (d->store->symbols && cached_file_lacks(d->store->symbols))
		vec_push(&ret->v, d->store->symbols);
}

void cached_day_note_lacks(struct cached_day *d, int64_t after_ms, int64_t until_ms, struct source_damage *damage)
{
	const struct pstate *s = d->origin.s;
	int64_t start = (int64_t)d->day * DAY_MS;
	if (d->store->symbols && cached_file_lacks(d->store->symbols))
		source_absent_add(damage, MAX(after_ms, start), MIN(until_ms, start + DAY_MS));
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct part *p = s->parts[i];
		if (part_start_ms(p) < until_ms && part_end_ms(p) > after_ms && cached_file_lacks((struct cached_file *)p->lack))
			source_absent_add(damage, MAX(after_ms, part_start_ms(p)), MIN(until_ms, part_end_ms(p)));
	}
}
