/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/upkeep/name_finder.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "tsdb/version/late_names.h"
#include "tsdb/write/committer.h"
#include "tsdb/write/request.h"

/* ---- finding ---- */

/* A place of a binary: its hash is of the build id and the address in the file. */
struct place {
	uint64_t key;
	uint32_t day, location;
	bool done;            /* it has its name */
};

/* The seen state of one partition. */
struct seen {
	uint32_t day;
	uint64_t serial;      /* the partition's: a day may come again after it was dropped */
	uint32_t locations;   /* looked at, for those without lines */
	uint32_t named;       /* for those with lines, of binaries that are wanted */
};

struct finder {
	struct map wanted;    /* hash of a build id -> its number: binaries with locations without lines */
	VEC(uint64_t) builds;
	VEC(struct place) nameless, named;
	struct map by_nameless, by_named; /* key -> number */
	VEC(struct seen) seen;
};

void name_finder_free(struct finder *f)
{
	if (!f)
		return;
	map_free(&f->wanted);
	map_free(&f->by_nameless);
	map_free(&f->by_named);
	vec_free(&f->builds);
	vec_free(&f->nameless);
	vec_free(&f->named);
	vec_free(&f->seen);
	free(f);
}

static bool is_wanted(const struct finder *f, uint64_t build)
{
	uint32_t id;
	for (size_t at = map_start(&f->wanted, build); map_probe(&f->wanted, build, &at, &id);)
		if (f->builds.v[id] == build)
			return true;
	return false;
}

/* The build id's hash and the place's key; false for a location of no binary that is known by a build id. */
static bool place_of(const struct symbols *s, const struct sym_location *l, uint64_t *ret_build, uint64_t *ret_key)
{
	if (!l->mapping)
		return false;
	const struct sym_mapping *m = symbols_get_mapping(s, l->mapping - 1);
	struct view build = symbols_get_string(s, m->build_id);
	if (!build.len)
		return false;
	*ret_build = hash_view(build);
	*ret_key = hash_u64(*ret_build ^ hash_u64(l->address + m->offset));
	return true;
}

static bool has_names(const struct symbols *s, const struct sym_location *l)
{
	for (uint32_t i = 0; i < l->n_lines; i++) {
		uint32_t f = symbols_get_line(s, l, i)->function;
		if (f && symbols_get_function(s, f - 1)->name)
			return true;
	}
	return false;
}

static struct seen *seen_of(struct finder *f, const struct partition *p)
{
	for (size_t i = 0; i < f->seen.n; i++)
		if (f->seen.v[i].day == p->day)
			return &f->seen.v[i];
	struct seen *x = vec_add(&f->seen);
	x->day = p->day;
	x->serial = p->serial;
	return x;
}

/* New locations without lines; true if they are of a binary that was not wanted before. */
static bool look_for_nameless(struct finder *f, struct partition *p, const struct late_names *names)
{
	struct seen *x = seen_of(f, p);
	bool more = false;
	uint64_t build, key;
	uint32_t n = symbols_count(p->symbols, SYMBOLS_LOCATIONS);
	size_t at = 0;
	for (; x->locations < n; x->locations++) {
		const struct sym_location *l = symbols_get_location(p->symbols, x->locations);
		while (names && at < names->v.n && names->v.v[at].location < x->locations)
			at++;
		if (l->n_lines || !place_of(p->symbols, l, &build, &key) ||
		    (names && at < names->v.n && names->v.v[at].location == x->locations))
			continue;
		if (!is_wanted(f, build)) {
			map_insert(&f->wanted, build, (uint32_t)f->builds.n);
			vec_push(&f->builds, build);
			more = true;
		}
		map_insert(&f->by_nameless, key, (uint32_t)f->nameless.n);
		vec_push(&f->nameless, (struct place){ key, p->day, x->locations });
	}
	return more;
}

static void look_for_named(struct finder *f, struct partition *p)
{
	struct seen *x = seen_of(f, p);
	uint64_t build, key;
	uint32_t n = symbols_count(p->symbols, SYMBOLS_LOCATIONS);
	for (; x->named < n; x->named++) {
		const struct sym_location *l = symbols_get_location(p->symbols, x->named);
		if (!l->n_lines || !f->builds.n || !place_of(p->symbols, l, &build, &key) || !is_wanted(f, build) ||
		    !has_names(p->symbols, l))
			continue;
		map_insert(&f->by_named, key, (uint32_t)f->named.n);
		vec_push(&f->named, (struct place){ key, p->day, x->named });
	}
}

/* ---- naming ---- */

/* Lines as texts, on their way from one dictionary to another. */
struct text_line {
	char *name, *system_name, *file;
	int64_t start_line, line, column;
};
struct text_lines {
	VEC(struct text_line) v;
};

static char *text_of(const struct symbols *s, uint32_t string)
{
	struct view v = symbols_get_string(s, string);
	return xstrndup(v.ptr ? v.ptr : "", v.len);
}

static void read_lines(const struct symbols *s, uint32_t location, struct text_lines *ret)
{
	const struct sym_location *l = symbols_get_location(s, location);
	for (uint32_t i = 0; i < l->n_lines; i++) {
		const struct sym_line *line = symbols_get_line(s, l, i);
		struct text_line x = { .line = line->line, .column = line->column };
		if (line->function) {
			const struct sym_function *f = symbols_get_function(s, line->function - 1);
			x.name = text_of(s, f->name);
			x.system_name = text_of(s, f->system_name);
			x.file = text_of(s, f->filename);
			x.start_line = f->start_line;
		}
		vec_push(&ret->v, x);
	}
}

static void text_lines_release(struct text_lines *t)
{
	for (size_t i = 0; i < t->v.n; i++) {
		free(t->v.v[i].name);
		free(t->v.v[i].system_name);
		free(t->v.v[i].file);
	}
	vec_free(&t->v);
}

/* The same place with lines. Under the write lock of its dictionary. */
static uint32_t intern(struct symbols *s, uint32_t location, const struct text_lines *t)
{
	VEC(struct sym_line) lines = { 0 };
	for (size_t i = 0; i < t->v.n; i++) {
		const struct text_line *x = &t->v.v[i];
		struct sym_line line = { .line = x->line, .column = x->column };
		if (x->name) {
			struct sym_function f = { .name = symbols_string(s, view_of(x->name)),
						  .system_name = symbols_string(s, view_of(x->system_name)),
						  .filename = symbols_string(s, view_of(x->file)), .start_line = x->start_line };
			line.function = symbols_function(s, &f) + 1;
		}
		vec_push(&lines, line);
	}
	struct sym_location l = *symbols_get_location(s, location);
	l.n_lines = (uint32_t)lines.n;
	uint32_t id = symbols_location(s, &l, lines.v);
	vec_free(&lines);
	return id;
}

/* Names found in one round, by partition. */
struct found {
	struct partition *p; /* reference held */
	VEC(struct late_name) names;
};
struct round {
	struct tsdb *db;
	struct version *v;
	VEC(struct found) found;
};

static void name_one(struct round *r, struct place *nameless, const struct text_lines *lines)
{
	const struct pstate *s = version_find(r->v, nameless->day);
	struct found *f = NULL;
	if (!s)
		return;
	for (size_t i = 0; i < r->found.n && !f; i++)
		if (r->found.v[i].p == s->p)
			f = &r->found.v[i];
	if (!f) {
		f = vec_add(&r->found);
		f->p = partition_ref(s->p);
	}
	rwlock_write(&s->p->dict_lock);
	uint32_t as = intern(s->p->symbols, nameless->location, lines);
	rwlock_unlock(&s->p->dict_lock);
	nameless->done = true;
	if (as != nameless->location)
		vec_push(&f->names, (struct late_name){ nameless->location, as });
}

static bool same_place(const struct symbols *a, uint32_t la, const struct symbols *b, uint32_t lb)
{
	const struct sym_location *x = symbols_get_location(a, la), *y = symbols_get_location(b, lb);
	const struct sym_mapping *m = symbols_get_mapping(a, x->mapping - 1), *n = symbols_get_mapping(b, y->mapping - 1);
	return x->address + m->offset == y->address + n->offset &&
	       view_eq(symbols_get_string(a, m->build_id), symbols_get_string(b, n->build_id));
}

static void name_pair(struct round *r, struct place *nameless, const struct place *named)
{
	const struct pstate *to = version_find(r->v, nameless->day), *from = version_find(r->v, named->day);
	struct text_lines lines = { .v = { 0 } };
	if (!to || !from || nameless->done)
		return;
	rwlock_read(&from->p->dict_lock);
	bool same = same_place(to->p->symbols, nameless->location, from->p->symbols, named->location);
	if (same)
		read_lines(from->p->symbols, named->location, &lines);
	rwlock_unlock(&from->p->dict_lock);
	if (same)
		name_one(r, nameless, &lines);
	text_lines_release(&lines);
}

/* Pairs of which at least one is new. */
static void match(struct round *r, struct finder *f, size_t old_nameless, size_t old_named)
{
	uint32_t id;
	for (size_t i = old_nameless; i < f->nameless.n; i++)
		for (size_t at = map_start(&f->by_named, f->nameless.v[i].key); map_probe(&f->by_named, f->nameless.v[i].key, &at, &id);)
			if (f->named.v[id].key == f->nameless.v[i].key) {
				name_pair(r, &f->nameless.v[i], &f->named.v[id]);
				break;
			}
	for (size_t i = old_named; i < f->named.n; i++)
		for (size_t at = map_start(&f->by_nameless, f->named.v[i].key); map_probe(&f->by_nameless, f->named.v[i].key, &at, &id);)
			if (f->nameless.v[id].key == f->named.v[i].key && id < old_nameless)
				name_pair(r, &f->nameless.v[id], &f->named.v[i]);
}

static void put_fact(struct buf *b, const struct late_name *v, size_t n)
{
	uint32_t next = 0;
	buf_putc(b, FACT_NAMES);
	buf_varint(b, n);
	for (size_t i = 0; i < n; i++) {
		buf_varint(b, v[i].location - next);
		buf_varint(b, v[i].as);
		next = v[i].location + 1;
	}
}

static int by_location(const void *a, const void *b)
{
	const struct late_name *x = a, *y = b;
	return (x->location > y->location) - (x->location < y->location);
}

static int commit(struct round *r, struct err *e)
{
	mutex_assert_held(&r->db->seal_lock);
	struct request *q = NEW(struct request);
	size_t n = 0;
	for (size_t i = 0; i < r->found.n; i++) {
		struct found *f = &r->found.v[i];
		size_t kept = 0;
		if (f->names.n)
			qsort(f->names.v, f->names.n, sizeof *f->names.v, by_location);
		for (size_t k = 0; k < f->names.n; k++)
			if (!k || f->names.v[k].location != f->names.v[k - 1].location)
				f->names.v[kept++] = f->names.v[k];
		f->names.n = kept;
		if (!kept)
			continue;
		struct request_record *x = vec_add(&q->records);
		x->p = partition_enter(f->p);
		x->kind = RECORD_FACT;
		record_begin(&x->bytes, RECORD_FACT, f->p->day);
		put_fact(&x->bytes, f->names.v, f->names.n);
		n += kept;
	}
	if (!n) {
		request_free(r->db, q);
		return 0;
	}
	int rc = tsdb_commit(r->db, q, e);
	if (!rc) {
		metric_add(&tsdb_metrics[TM_LATE_NAMES], (double)n);
		LOG_DEBUG("msg", "locations got their names late", "locations", LOG_NUM(n));
	}
	return rc;
}

static void round_release(struct round *r)
{
	for (size_t i = 0; i < r->found.n; i++) {
		partition_unref(r->found.v[i].p);
		vec_free(&r->found.v[i].names);
	}
	vec_free(&r->found);
	version_unref(r->v);
}

static void look(struct finder *f, const struct version *v)
{
	bool more = false;
	for (size_t i = 0; i < v->n; i++) {
		struct partition *p = v->p[i]->p;
		if (!atomic_load(&p->loaded))
			continue;
		rwlock_read(&p->dict_lock);
		more |= look_for_nameless(f, p, v->p[i]->names);
		rwlock_unlock(&p->dict_lock);
	}
	for (size_t i = 0; more && i < f->seen.n; i++)
		f->seen.v[i].named = 0;
	if (more) {
		f->named.n = 0;
		map_clear(&f->by_named);
	}
	for (size_t i = 0; i < v->n; i++) {
		struct partition *p = v->p[i]->p;
		if (!atomic_load(&p->loaded))
			continue;
		rwlock_read(&p->dict_lock);
		look_for_named(f, p);
		rwlock_unlock(&p->dict_lock);
	}
}

/* The seen state of a deleted partition is obsolete. */
static struct finder *need_finder(struct tsdb *db, const struct version *v) REQUIRES(db->seal_lock)
{
	bool stale = false;
	for (size_t i = 0; db->finder && i < db->finder->seen.n; i++) {
		const struct pstate *s = version_find(v, db->finder->seen.v[i].day);
		stale |= !s || s->p->serial != db->finder->seen.v[i].serial;
	}
	if (stale) {
		name_finder_free(db->finder);
		db->finder = NULL;
	}
	if (!db->finder)
		db->finder = NEW(struct finder);
	return db->finder;
}

int name_finder_due(struct tsdb *db, struct err *e)
{
	mutex_lock(&db->seal_lock);
	struct round r = { .db = db, .v = tsdb_version(db, NULL) };
	struct finder *f = need_finder(db, r.v);
	size_t old_nameless = f->nameless.n, old_named = f->named.n, builds = f->builds.n;
	look(f, r.v);
	match(&r, f, builds == f->builds.n ? old_nameless : 0, builds == f->builds.n ? old_named : f->named.n);
	int rc = commit(&r, e);
	round_release(&r);
	if (rc) { /* all of it again */
		name_finder_free(f);
		db->finder = NULL;
	}
	mutex_unlock(&db->seal_lock);
	return rc;
}

int tsdb_resolve_names(struct tsdb *db, struct err *e)
{
	tsdb_flush(db);
	return name_finder_due(db, e);
}

int tsdb_name_location(struct tsdb *db, struct view build_id, uint64_t file_address, const struct tsdb_line *lines, size_t n,
		       struct err *e)
{
	struct text_lines t = { .v = { 0 } };
	uint64_t key = hash_u64(hash_view(build_id) ^ hash_u64(file_address));
	uint32_t id;
	for (size_t i = 0; i < n; i++)
		vec_push(&t.v, (struct text_line){ xstrndup(lines[i].function.ptr, lines[i].function.len),
						   xstrndup(lines[i].system_name.ptr ? lines[i].system_name.ptr : "", lines[i].system_name.len),
						   xstrndup(lines[i].file.ptr ? lines[i].file.ptr : "", lines[i].file.len),
						   lines[i].start_line, lines[i].line, lines[i].column });
	mutex_lock(&db->seal_lock);
	struct round r = { .db = db, .v = tsdb_version(db, NULL) };
	struct finder *f = need_finder(db, r.v);
	look(f, r.v);
	for (size_t at = map_start(&f->by_nameless, key); map_probe(&f->by_nameless, key, &at, &id);) {
		struct place *x = &f->nameless.v[id];
		const struct pstate *s = x->key == key ? version_find(r.v, x->day) : NULL;
		if (!s)
			continue;
		rwlock_read(&s->p->dict_lock);
		const struct sym_location *l = symbols_get_location(s->p->symbols, x->location);
		const struct sym_mapping *m = symbols_get_mapping(s->p->symbols, l->mapping - 1);
		bool same = l->address + m->offset == file_address && view_eq(symbols_get_string(s->p->symbols, m->build_id), build_id);
		rwlock_unlock(&s->p->dict_lock);
		if (same)
			name_one(&r, x, &t);
	}
	int rc = commit(&r, e);
	round_release(&r);
	mutex_unlock(&db->seal_lock);
	text_lines_release(&t);
	return rc;
}
