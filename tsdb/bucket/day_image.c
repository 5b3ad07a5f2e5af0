/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/bucket/day_image.h"

#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/bucket/day_symbols.h"
#include "tsdb/dict/dict_pack.h"
#include "tsdb/part/part.h"
#include "tsdb/part/part_cover.h"
#include "tsdb/part/part_read.h"
#include "tsdb/version/late_names.h"
#include "tsdb/version/tombstones.h"

#define WAIT_MOST_MS (60 * INT64_C(60000)) /* how long a day waits for the file of a part */
#define FINISHED_AFTER_MS (15 * INT64_C(60000)) /* as the sealer waits for late rows of an hour */
#define UNPACKED_SYMBOLS 7 /* a dictionary in memory has so many times its packed bytes (the fleet of bench/) */
#define DATABASE_FILE_MAX ((size_t)64 << 20)

/* A buffer that lives as long as the image. */
static struct buf *image_buf(struct day_image *m)
{
	struct buf *b = NEW(struct buf);
	b->max = GENERATION_MAX;
	vec_push(&m->bytes, b);
	return b;
}

/* ---- parts ---- */

static bool image_has_part(const struct pstate *s, const struct part *p)
{
	if (p->level == LEVEL_HOUR)
		return !(atomic_load(&p->given_up) && p->damaged && p->lost); /* neither the disk nor the bucket has it */
	if (atomic_load(&p->set_aside)) /* it is made anew */
		return false;
	if (p == s->all_day)
		return true;
	for (size_t i = 0; i < 4; i++)
		if (p == s->six[i])
			return true;
	return false; /* a rollup of parts that have been replaced since: queries ignore it, and it does not go up */
}

/* Totals of the sums by service, so that a reader has them without the part. */
static int image_totals(struct day_image *m, struct generation_part *to, const struct part *p, struct err *e)
{
	for (size_t i = 0; p->level == LEVEL_HOUR && i < p->aggregates.n; i++) {
		PART_VALUE v = { 0 };
		int rc = part_get(p, PART_TOTALS, PART_AGGREGATE | (uint32_t)i, 0, &v, e);
		if (rc)
			return rc;
		struct buf *b = image_buf(m);
		buf_putv(b, v.payload);
		vec_push(&to->totals, buf_view(b));
	}
	return 0;
}

static int image_add_part(struct day_image *m, struct part *p, struct err *e)
{
	struct generation_part *to = vec_add(&m->g.parts);
	struct buf *header = image_buf(m), *index = image_buf(m);
	to->level = (uint8_t)p->level;
	to->window = p->window;
	to->number = p->number;
	part_put_header(header, p);
	part_put_index(index, p);
	to->header = buf_view(header);
	to->index = buf_view(index);
	vec_push(&m->parts, p);
	m->g.last_record = MAX(m->g.last_record, p->last_record);
	struct err lost;
	if (image_totals(m, to, p, &lost)) { /* a damaged sum: readers take its series */
		to->totals.n = 0;
		if (lost.code != ERR_CORRUPT && lost.code != ERR_NOT_FOUND && lost.code != ERR_IO)
			return err_set(e, lost.code, "%s", lost.msg);
	}
	return 0;
}

static int image_parts(struct day_image *m, struct err *e)
{
	const struct pstate *s = m->s;
	int rc = 0;
	for (size_t i = 0; i < s->n_parts && !rc; i++)
		if (image_has_part(s, s->parts[i]) &&
		    (atomic_load(&s->parts[i]->awaits) || !(s->parts[i]->damaged && s->parts[i]->lost && !s->parts[i]->series.n)))
			rc = image_add_part(m, s->parts[i], e);
	return rc;
}

void day_image_add_covers(struct day_image *m, size_t part, const struct generation_part *old)
{
	const struct part *p = m->parts.v[part];
	struct generation_part *to = &m->g.parts.v[part];
	if (p->level != LEVEL_HOUR)
		return;
	if (old && old->covers.len && old->ends.len && !part_covers_check_both(p, old->covers, old->ends, NULL)) {
		to->covers = old->covers;
		to->ends = old->ends;
		return;
	}
	struct buf *covers = image_buf(m), *ends = image_buf(m);
	if (old && old->covers.len && !part_ends_put(p, old->covers, ends)) { /* by an older version */
		to->covers = old->covers;
		if (!ends->overflow)
			to->ends = buf_view(ends);
		return;
	}
	part_covers_put(p, covers, ends);
	if (!covers->overflow)
		to->covers = buf_view(covers);
	if (!covers->overflow && !ends->overflow)
		to->ends = buf_view(ends);
}

/* ---- facts ---- */

static bool name_is_below(const struct late_name *x, uint32_t n_locations)
{
	return x->location < n_locations && x->as < n_locations;
}

static size_t count_names(const struct late_names *n, uint32_t n_locations)
{
	size_t count = 0;
	for (size_t i = 0; n && i < n->v.n; i++)
		count += name_is_below(&n->v.v[i], n_locations);
	return count;
}

static void put_names(struct buf *b, const struct late_names *n, uint32_t n_locations)
{
	uint64_t next = 0;
	buf_putc(b, FACT_NAMES);
	buf_varint(b, count_names(n, n_locations));
	for (size_t i = 0; i < n->v.n; i++) {
		if (!name_is_below(&n->v.v[i], n_locations))
			continue;
		buf_varint(b, n->v.v[i].location - next);
		buf_varint(b, n->v.v[i].as);
		next = (uint64_t)n->v.v[i].location + 1;
	}
}

static void image_add_fact(struct day_image *m, uint64_t number, struct buf *payload)
{
	vec_push(&m->g.facts, (struct generation_fact){ number, buf_view(payload) });
	m->g.last_record = MAX(m->g.last_record, number);
}

/* Deletes, then what retention hides (number 0), then all late names as one. n_locations: so many are in parts. Names that came with a window are
 * left out: to whoever has the parts alone, the numbers of their locations would become those of others. */
static void image_facts(struct day_image *m, uint32_t n_locations)
{
	const struct pstate *s = m->s;
	for (size_t i = 0; s->tombstones && i < s->tombstones->facts.n; i++) {
		struct buf *b = image_buf(m);
		tombstone_fact_put(b, s->tombstones->facts.v[i]);
		image_add_fact(m, s->tombstones->facts.v[i]->number, b);
	}
	if (count_names(s->names, n_locations)) {
		struct buf *b = image_buf(m);
		put_names(b, s->names, n_locations);
		image_add_fact(m, s->names->facts.n ? s->names->facts.v[s->names->facts.n - 1] : 0, b);
	}
}

static void day_facts_hash(const struct pstate *s, uint64_t *ret_facts, uint64_t *ret_names)
{
	struct day_image m = { .s = (struct pstate *)s };
	image_facts(&m, UINT32_MAX);
	catalogue_hash_facts(&m.g, ret_facts, ret_names);
	for (size_t i = 0; i < m.bytes.n; i++) {
		buf_free(m.bytes.v[i]);
		free(m.bytes.v[i]);
	}
	vec_free(&m.bytes);
	vec_free(&m.g.facts);
}

/* ---- series ---- */

/* The bounds of what parts have. */
static void image_bounds(struct day_image *m)
{
	struct generation *g = &m->g;
	for (size_t i = 0; i < m->parts.n; i++) {
		const struct part *p = m->parts.v[i];
		for (size_t k = 0; p->level == LEVEL_HOUR && k < p->series.n; k++) {
			const struct part_series *x = &p->series.v[k];
			if (x->series >= g->series.n)
				continue;
			struct generation_series *s = &g->series.v[x->series];
			int64_t min = part_start_ms(p) + x->min_ms, max = part_start_ms(p) + x->max_ms;
			bool first = s->min_ms > s->max_ms;
			s->min_ms = first ? min : MIN(s->min_ms, min);
			s->max_ms = first ? max : MAX(s->max_ms, max);
			first = g->min_ms > g->max_ms;
			g->min_ms = first ? min : MIN(g->min_ms, min);
			g->max_ms = first ? max : MAX(g->max_ms, max);
		}
	}
}

/* How much of the dictionary is in parts. */
struct image_marks {
	bool loaded;             /* the partition's dictionary is in memory, and parts have what lies below `sealed`. Else parts have all of it, and it is read for the image alone */
	struct dict_marks sealed;
};

static void image_series(struct day_image *m, const struct image_marks *k)
{
	m->series = k->loaded ? partition_ref(m->s->p) : partition_read(m->s, true);
	rwlock_read(&m->series->dict_lock);
	uint32_t n = (uint32_t)m->series->index.series.n;
	if (k->loaded)
		n = MIN(n, k->sealed.series);
	vec_reserve(&m->g.series, n);
	for (uint32_t i = 0; i < n; i++) {
		const struct series *x = m->series->index.series.v[i];
		vec_push(&m->g.series, (struct generation_series){ .is_float = x->is_float, .type = x->type, .labels = x->labels, .min_ms = 1 });
	}
	rwlock_unlock(&m->series->dict_lock);
	image_bounds(m);
}

/* About the memory of a day's dictionary, from its packed bytes. Each part repeats the symbols of the one before. */
static uint64_t image_dictionary_bytes(const struct day_image *m)
{
	uint64_t packed = 0;
	for (size_t i = 0; i < m->parts.n; i++) {
		PART_VALUE v = { 0 };
		bool in_columns;
		if (m->parts.v[i]->level == LEVEL_HOUR && !part_open_symbols(m->parts.v[i], &v, &in_columns, NULL))
			packed += v.payload.len;
	}
	return packed / 2 * UNPACKED_SYMBOLS;
}

/* A small server leaves it out of a day whose dictionary is over its budget: readers then take the symbols of the parts. */
static int image_symbols(struct day_image *m, const struct image_marks *k, struct err *e)
{
	CLEANUP(buf_free) struct buf rows = { 0 };
	struct partition *p = m->s->p, *own = NULL;
	struct dict_marks from, to = k->sealed;
	if (!m->g.finished || image_dictionary_bytes(m) > p->db->o.dictionary_bytes)
		return 0;
	if (!k->loaded)
		p = own = partition_read(m->s, false);
	dict_marks_start(&from);
	rwlock_read(&p->dict_lock);
	if (!k->loaded)
		dict_marks_now(&to, p->symbols, &p->index);
	dict_encode(&rows, p->symbols, &p->index, &from, &to, &p->dict_lock);
	rwlock_unlock(&p->dict_lock);
	partition_unref(own);
	CLEANUP(buf_free) struct buf packed = { 0 };
	int rc = rows.overflow ? 0 : dict_pack(&packed, buf_view(&rows), e);
	return rc || rows.overflow ? rc : day_symbols_encode(&m->symbols, buf_view(&packed), e);
}

/* ---- the database ---- */

struct image_files {
	struct day_image *m;
};

static int image_read_file(void *arg, const char *name, struct err *e)
{
	struct day_image *m = ((struct image_files *)arg)->m;
	if (strcmp(name, "CURRENT") && strncmp(name, "MANIFEST-", 9) && strncmp(name, "OPTIONS-", 8))
		return 0;
	AUTOFREE char *path = xasprintf("%s/%s", m->dir, name);
	struct buf *text = image_buf(m), *b = image_buf(m);
	b->max = DATABASE_FILE_MAX;
	buf_puts(text, name);
	int rc = buf_read_file(b, path, e);
	if (!rc)
		vec_push(&m->g.files, (struct generation_file){ buf_view(text), buf_view(b) });
	return rc;
}

static int image_note_file(void *arg, const struct partition_file *f, struct err *e)
{
	struct day_image *m = arg;
	(void)e;
	mutex_assert_held(&m->s->p->db->seal_lock); /* a merge would replace files that are linked */
	vec_push(&m->files, *f);
	return 0;
}

static void image_file_of(struct generation_part *p, const struct day_image *m)
{
	for (size_t i = 0; i < m->files.n; i++) {
		const struct partition_file *f = &m->files.v[i];
		if (p->level == (uint8_t)f->level && p->window == f->window && p->number == f->number) {
			p->file = f->file;
			p->object.size = f->bytes;
		}
	}
}

/* A number for a part whose file is missing here. */
static uint64_t image_free_number(const struct day_image *m)
{
	uint64_t n = 0;
	for (size_t i = 0; i < m->g.parts.n; i++)
		n = MAX(n, m->g.parts.v[i].file);
	for (size_t i = 0; i < m->files.n; i++)
		n = MAX(n, m->files.v[i].file);
	return n + 1;
}

/* How long a day has waited for the file of a part. */
static int64_t image_waited_ms(struct part *p)
{
	int64_t now = clock_mono_ms();
	long long since = 0;
	return atomic_compare_exchange_strong(&p->kept_day_mono_ms, &since, now) ? 0 : now - since;
}

/* Its file was set aside, and the bucket has never had it, or not whole. The upload leaves it out, or goes on naming the object. */
static bool image_is_lost(const struct day_image *m, const struct part *p)
{
	const struct tsdb *db = m->s->p->db;
	return atomic_load(&p->set_aside) && (atomic_load(&p->given_up) || !(db->keeper.keeps && db->keeper.keeps(db->keeper.arg, p)));
}

/* Readers of the bucket find a part by the database's list of files. So a day that waits for a file from the bucket is put once it has it; but not
 * for ever: then the generation goes on naming the object, and readers lack that hour until the file is back. */
static int image_files(struct day_image *m, struct err *e)
{
	struct image_files f = { m };
	int rc = 0;
	for (size_t i = 0; i < m->g.parts.n; i++)
		image_file_of(&m->g.parts.v[i], m);
	for (size_t i = 0; i < m->g.parts.n && !rc; i++) {
		if (!m->g.parts.v[i].file && atomic_load(&m->parts.v[i]->awaits) && image_waited_ms(m->parts.v[i]) >= WAIT_MOST_MS)
			m->g.parts.v[i].file = image_free_number(m);
		else if (!m->g.parts.v[i].file && atomic_load(&m->parts.v[i]->awaits))
			rc = err_set(e, ERR_BUSY, "day %u: part %u is missing on this disk, and has not come back from the bucket yet", m->g.day,
				     m->g.parts.v[i].number);
		else if (!m->g.parts.v[i].file && image_is_lost(m, m->parts.v[i]))
			m->g.parts.v[i].file = image_free_number(m);
		else if (!m->g.parts.v[i].file)
			rc = err_set(e, ERR_CORRUPT, "day %u: part %u is in no file", m->g.day, m->g.parts.v[i].number);
	}
	return rc ? rc : files_each(m->dir, image_read_file, &f, e);
}

char *day_image_file(const struct day_image *m, size_t part)
{
	return xasprintf("%s/%06llu.sst", m->dir, (unsigned long long)m->g.parts.v[part].file);
}

/* ---- notes ---- */

static void image_note(void *arg, const struct sink_note *n)
{
	struct day_image *m = arg;
	struct buf *b = image_buf(m);
	buf_putv(b, n->key);
	buf_putv(b, n->value);
	vec_push(&m->g.notes, (struct generation_note){ view_make(b->ptr, n->key.len), view_make(b->ptr + n->key.len, n->value.len), n->t_ms });
}

/* ---- external labels ---- */

/* Takes l. Too many would make other servers refuse the day. */
static void image_external(struct day_image *m, struct labels *l)
{
	size_t bytes = 0;
	m->external = l;
	for (size_t i = 0; l && i < l->n; i++)
		bytes += l->v[i].name.len + l->v[i].value.len;
	if (l && l->n <= GENERATION_EXTERNAL_MAX && bytes <= GENERATION_EXTERNAL_BYTES)
		m->g.external = *l;
	else if (l)
		LOG_WARN("msg", "other servers that read the bucket do not get the external labels: there are too many", "labels", LOG_NUM(l->n), "bytes", LOG_NUM(bytes),
			 "most", LOG_NUM(GENERATION_EXTERNAL_MAX), "most_bytes", LOG_NUM(GENERATION_EXTERNAL_BYTES));
}

/* ---- all of it ---- */

bool day_is_finished(const struct tsdb *db, const struct pstate *s)
{
	return !s->n_windows && tsdb_now_ms(db) >= ((int64_t)s->p->day + 1) * DAY_MS + FINISHED_AFTER_MS;
}

/* What the sealer changes: taken in one step. */
static int image_freeze(struct tsdb *db, struct day_image *m, struct image_marks *ret, struct err *e)
{
	mutex_lock(&db->seal_lock);
	struct version *v = tsdb_version(db, NULL);
	const struct pstate *s = version_find(v, m->g.day);
	int rc = !s || !s->n_parts || !s->p->db_parts ? err_set(e, ERR_NOT_FOUND, "day %u has no parts", m->g.day) : 0;
	if (!rc) {
		m->s = (struct pstate *)s;
		atomic_fetch_add(&m->s->refs, 1);
		m->g.next_part = s->p->next_part;
		mutex_lock(&db->apply_lock);
		ret->loaded = atomic_load(&s->p->loaded);
		ret->sealed = s->p->sealed;
		m->g.finished = day_is_finished(db, s) && s->p->first_symbols == UINT64_MAX;
		mutex_unlock(&db->apply_lock);
		rc = partition_db_identity(s->p->db_parts, m->identity, sizeof m->identity, e);
		memcpy(m->g.identity, m->identity, sizeof m->g.identity);
		files_remove_tree(m->dir);
		if (!rc)
			rc = partition_db_snapshot(s->p->db_parts, m->dir, e);
		if (!rc)
			rc = partition_db_each_file(s->p->db_parts, image_note_file, m, e);
	}
	version_unref(v);
	mutex_unlock(&db->seal_lock);
	return rc;
}

int day_image_take(struct tsdb *db, uint32_t day, const char *id, const char *dir, bool newest, struct object_stamp deletes,
		   struct day_image *ret, struct err *e)
{
	struct image_marks marks = { .loaded = false };
	*ret = (struct day_image){ .g = { .day = day, .min_ms = 1, .deletes = deletes, .written_ms = tsdb_now_ms(db) }, .dir = xstrdup(dir) };
	snprintf(ret->g.id, sizeof ret->g.id, "%s", id);
	int rc = image_freeze(db, ret, &marks, e);
	if (!rc)
		rc = image_parts(ret, e);
	if (!rc)
		rc = image_files(ret, e);
	if (rc)
		return rc;
	image_facts(ret, marks.loaded ? marks.sealed.symbols.next[ROWS_LOCATIONS] : UINT32_MAX);
	image_series(ret, &marks);
	if (db->o.external_labels)
		image_external(ret, db->o.external_labels(db->o.external_labels_arg));
	if (newest)
		notes_each(hlog_notes(db->log), view_make("", 0), INT64_MIN, image_note, ret);
	return image_symbols(ret, &marks, e);
}

void day_image_release(struct day_image *m)
{
	if (m->s)
		pstate_unref(m->s);
	partition_unref(m->series);
	for (size_t i = 0; i < m->bytes.n; i++) {
		buf_free(m->bytes.v[i]);
		free(m->bytes.v[i]);
	}
	vec_free(&m->bytes);
	vec_free(&m->parts);
	vec_free(&m->files);
	buf_free(&m->symbols);
	free(m->external);
	generation_release(&m->g);
	if (m->dir)
		files_remove_tree(m->dir);
	free(m->dir);
}

/* Whether the generation has exactly the parts that count. */
static bool day_has_parts(const struct catalogue_day *d, const struct pstate *s)
{
	size_t n = 0;
	for (size_t i = 0; i < s->n_parts; i++) {
		const struct part *p = s->parts[i];
		bool found = false;
		if (!image_has_part(s, p))
			continue;
		for (size_t k = 0; k < d->parts.n && !found; k++)
			found = d->parts.v[k].level == (uint8_t)p->level && d->parts.v[k].window == p->window && d->parts.v[k].number == p->number;
		if (!found)
			return false;
		n++;
	}
	return n == d->parts.n;
}

/* Records of an hour up to the last one of any of its parts are in parts (partition.md): so they were when the generation was made. */
bool day_has_rows(const struct catalogue_day *d, const struct part *p)
{
	for (size_t i = 0; i < d->parts.n; i++) {
		const struct catalogue_part *x = &d->parts.v[i];
		if (x->level == LEVEL_HOUR && x->window == p->window && x->last_record >= p->last_record)
			return true;
	}
	return !p->series.n;
}

static bool day_has_all_rows(const struct catalogue_day *d, const struct pstate *s)
{
	for (size_t i = 0; i < s->n_parts; i++)
		if (s->parts[i]->level == LEVEL_HOUR && !day_has_rows(d, s->parts[i]))
			return false;
	return true;
}

struct day_up day_look_up(struct bucket_catalogue *c, const struct pstate *s)
{
	struct day_up up = { .known = false };
	char identity[CATALOGUE_IDENTITY_MAX] = "";
	struct err e;
	day_facts_hash(s, &up.facts_hash, &up.names_hash);
	if (!s->p->db_parts || partition_db_identity(s->p->db_parts, identity, sizeof identity, &e))
		return up;
	rwlock_read(&c->lock);
	const struct catalogue_day *d = catalogue_find(c, s->p->day);
	up.known = d && d->kind == GENERATION_DAY && !strcmp(d->identity, identity);
	up.parts = up.known && day_has_parts(d, s);
	up.facts = up.known && d->facts_hash == up.facts_hash;
	up.names = up.known && d->names_hash == up.names_hash;
	up.finished = up.known && d->finished;
	up.rows = up.known && day_has_all_rows(d, s);
	if (up.known) {
		up.deletes = d->deletes;
		up.written_ms = d->written_ms;
	}
	rwlock_unlock(&c->lock);
	return up;
}
