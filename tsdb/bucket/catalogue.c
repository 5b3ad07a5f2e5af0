/* SPDX-License-Identifier: Apache-2.0 */
/* bucket/days/DAY is
 *
 *	pyrrha-day 1
 *	away 0
 *	identity TEXT
 *	checksum ...
 *
 * and then the generation's object as it is in the bucket, which has a hash of its own. */
#include "tsdb/bucket/catalogue.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cursor.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map.h"
#include "base/num.h"
#include "tsdb/disk/text.h"
#include "tsdb/log/record.h"

#define DAY_HEAD "pyrrha-day 1"
#define DAY_TEXT_MAX 512
#define DAY_MS INT64_C(86400000)

void catalogue_init(struct bucket_catalogue *c, char *dir, bool of_other)
{
	*c = (struct bucket_catalogue){ .dir = dir, .of_other = of_other };
	rwlock_init(&c->lock, LOCK_LEAF, "catalogue");
}

static void day_release(struct catalogue_day *d)
{
	vec_free(&d->parts);
}

void catalogue_release(struct bucket_catalogue *c)
{
	for (size_t i = 0; i < c->days.n; i++)
		day_release(&c->days.v[i]);
	vec_free(&c->days);
	vec_free(&c->absent);
	rwlock_destroy(&c->lock);
	free(c->dir);
}

/* ---- days in memory ---- */

/* The place of the first day that is not below `day`. */
static size_t days_place(const struct bucket_catalogue *c, uint32_t day)
{
	size_t a = 0, b = c->days.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (c->days.v[m].day < day)
			a = m + 1;
		else
			b = m;
	}
	return a;
}

struct catalogue_day *catalogue_find(struct bucket_catalogue *c, uint32_t day)
{
	size_t i = days_place(c, day);
	return i < c->days.n && c->days.v[i].day == day ? &c->days.v[i] : NULL;
}

void catalogue_hash_facts(const struct generation *g, uint64_t *ret_facts, uint64_t *ret_names)
{
	*ret_facts = *ret_names = 0;
	for (size_t i = 0; i < g->facts.n; i++) {
		const struct generation_fact *f = &g->facts.v[i];
		if (!f->number)
			continue; /* retention by selector goes on hiding, from minute to minute: the generation says how far it was */
		bool names = f->payload.len && *f->payload.ptr == FACT_NAMES;
		uint64_t *to = names ? ret_names : ret_facts;
		*to = hash_stable_seed(f->payload.ptr, f->payload.len, *to ^ f->number);
	}
}

/* The second number of a part's header (docs/format/partition.md). */
static uint64_t catalogue_last_record(const struct generation_part *p)
{
	struct cursor c = cursor_of(p->header);
	uint64_t first = cursor_varint(&c), last = cursor_varint(&c);
	return c.bad || first > last ? 0 : last;
}

static struct catalogue_day day_of_generation(const struct bucket_catalogue *c, const struct generation *g)
{
	struct catalogue_day d = { .day = g->day, .kind = g->kind, .stamp = g->stamp, .deletes = g->deletes, .finished = g->finished, .symbols = g->symbols,
				   .bytes = generation_bytes(g), .min_ms = g->min_ms, .max_ms = g->max_ms, .written_ms = g->written_ms,
				   .last_record = g->last_record, .next_part = g->next_part };
	memcpy(d.id, g->id, sizeof d.id);
	for (size_t i = 0; i < g->parts.n && !c->of_other; i++) {
		const struct generation_part *p = &g->parts.v[i];
		vec_push(&d.parts, (struct catalogue_part){ p->level, p->window, p->number, p->object, catalogue_last_record(p) });
	}
	catalogue_hash_facts(g, &d.facts_hash, &d.names_hash);
	return d;
}

static void days_put(struct bucket_catalogue *c, struct catalogue_day d)
{
	size_t i = days_place(c, d.day);
	if (i < c->days.n && c->days.v[i].day == d.day) {
		day_release(&c->days.v[i]);
	} else {
		vec_push(&c->days, d);
		memmove(c->days.v + i + 1, c->days.v + i, (c->days.n - 1 - i) * sizeof *c->days.v);
	}
	c->days.v[i] = d;
}

/* ---- files ---- */

static void day_name(char ret[16], uint32_t day)
{
	snprintf(ret, 16, "%08u", day);
}

static int day_write(const struct bucket_catalogue *c, uint32_t day, struct view object, const char *identity, bool away, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX + DAY_TEXT_MAX };
	char name[16];
	day_name(name, day);
	buf_printf(&b, DAY_HEAD "\naway %d\nidentity %s\n", away, identity);
	text_put_checksum(&b, 0);
	buf_putv(&b, object);
	int rc = b.overflow ? err_set(e, ERR_LIMIT, "the generation of day %u is too large", day) : files_make_dirs(c->dir, e);
	return rc ? rc : files_put(c->dir, name, buf_view(&b), e);
}

/* The text before the object: up to the end of its fourth line. */
static bool day_split(struct view all, struct view *text, struct view *object)
{
	size_t lines = 0, i = 0;
	while (i < all.len && i < DAY_TEXT_MAX && lines < 4)
		lines += all.ptr[i++] == '\n';
	*text = view_make(all.ptr, i);
	*object = view_make(all.ptr + i, all.len - i);
	return lines == 4;
}

static bool day_parse(struct view text, char identity[CATALOGUE_IDENTITY_MAX], bool *away)
{
	struct view lines, line;
	int64_t n;
	if (!text_checked(text, DAY_HEAD, &lines) || !text_line(&lines, &line) || !text_numbers(line, "away #", &n) || !text_line(&lines, &line) ||
	    !view_starts(line, VIEW("identity ")) || line.len - 9 >= CATALOGUE_IDENTITY_MAX)
		return false;
	*away = n != 0;
	memcpy(identity, line.ptr + 9, line.len - 9);
	identity[line.len - 9] = 0;
	return true;
}

static int day_read(const struct bucket_catalogue *c, uint32_t day, struct buf *b, struct view *text, struct view *object, struct err *e)
{
	char name[16];
	day_name(name, day);
	AUTOFREE char *path = xasprintf("%s/%s", c->dir, name);
	b->max = GENERATION_MAX + DAY_TEXT_MAX;
	int rc = buf_read_file(b, path, e);
	if (rc)
		return rc;
	return day_split(buf_view(b), text, object) ? 0 : err_set(e, ERR_CORRUPT, "%s is damaged", path);
}

static int catalogue_read_one(void *arg, const char *name, struct err *e)
{
	struct bucket_catalogue *c = arg;
	CLEANUP(buf_free) struct buf b = { 0 };
	struct generation g = { .min_ms = 1 };
	struct view text, object;
	char identity[CATALOGUE_IDENTITY_MAX];
	int64_t day;
	bool away;
	if (strlen(name) != 8 || !num_parse_i64(view_of(name), &day) || day < 0)
		return 0;
	int rc = day_read(c, (uint32_t)day, &b, &text, &object, e);
	if (rc && rc != -ERR_CORRUPT)
		return rc;
	if (!rc && !day_parse(text, identity, &away))
		rc = err_set(e, ERR_CORRUPT, "its text is damaged");
	if (!rc)
		rc = generation_decode(&g, object, NULL, e);
	if (!rc && g.day == day) {
		struct catalogue_day d = day_of_generation(c, &g);
		snprintf(d.identity, sizeof d.identity, "%s", identity);
		d.away = away;
		days_put(c, d);
	} else {
		LOG_WARN("msg", "what is noted here of a day in the bucket is damaged: it is asked for again", "dir", c->dir, "day", name, "err",
			 rc ? e->msg : "it is of another day");
	}
	generation_release(&g);
	return 0;
}

int catalogue_read(struct bucket_catalogue *c, struct err *e)
{
	if (access(c->dir, F_OK))
		return 0;
	rwlock_write(&c->lock);
	int rc = files_each(c->dir, catalogue_read_one, c, e);
	rwlock_unlock(&c->lock);
	return rc;
}

int catalogue_put(struct bucket_catalogue *c, const struct generation *g, struct view bytes, const char *identity, bool away, struct err *e)
{
	struct catalogue_day d = day_of_generation(c, g);
	snprintf(d.identity, sizeof d.identity, "%s", identity);
	d.away = away;
	rwlock_write(&c->lock);
	days_put(c, d);
	rwlock_unlock(&c->lock);
	int rc = day_write(c, g->day, bytes, identity, away, e);
	if (!rc)
		return 0;
	rwlock_write(&c->lock);
	struct catalogue_day *now = catalogue_find(c, g->day);
	if (now)
		now->unwritten = true;
	rwlock_unlock(&c->lock);
	return rc;
}

int catalogue_set(struct bucket_catalogue *c, uint32_t day, const char *identity, bool away, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { 0 };
	struct view text, object;
	int rc = day_read(c, day, &b, &text, &object, e);
	if (!rc)
		rc = day_write(c, day, object, identity, away, e);
	if (rc)
		return rc;
	rwlock_write(&c->lock);
	struct catalogue_day *d = catalogue_find(c, day);
	if (d) {
		snprintf(d->identity, sizeof d->identity, "%s", identity);
		d->away = away;
	}
	rwlock_unlock(&c->lock);
	return 0;
}

void catalogue_drop(struct bucket_catalogue *c, uint32_t day)
{
	char name[16];
	day_name(name, day);
	AUTOFREE char *path = xasprintf("%s/%s", c->dir, name);
	rwlock_write(&c->lock);
	size_t i = days_place(c, day);
	if (i < c->days.n && c->days.v[i].day == day) {
		day_release(&c->days.v[i]);
		memmove(c->days.v + i, c->days.v + i + 1, (c->days.n - 1 - i) * sizeof *c->days.v);
		c->days.n--;
	}
	rwlock_unlock(&c->lock);
	unlink(path);
}

void catalogue_keep_id(struct bucket_catalogue *c, const char *id)
{
	VEC(uint32_t) others = { 0 };
	rwlock_read(&c->lock);
	for (size_t i = 0; i < c->days.n; i++)
		if (strcmp(c->days.v[i].id, id))
			vec_push(&others, c->days.v[i].day);
	rwlock_unlock(&c->lock);
	for (size_t i = 0; i < others.n; i++)
		catalogue_drop(c, others.v[i]);
	vec_free(&others);
}

int catalogue_bytes(struct bucket_catalogue *c, uint32_t day, struct buf *b, struct err *e)
{
	CLEANUP(buf_free) struct buf file = { 0 };
	struct view text, object;
	int rc = day_read(c, day, &file, &text, &object, e);
	if (!rc)
		buf_putv(b, object);
	return rc;
}

/* ---- days that are not on this disk ---- */

bool catalogue_oldest_absent(struct bucket_catalogue *c, uint64_t *ret_total, uint32_t *ret_day, uint64_t *ret_bytes)
{
	bool found = false;
	*ret_total = 0;
	rwlock_read(&c->lock);
	for (size_t i = 0; i < c->absent.n; i++) {
		const struct catalogue_day *d = catalogue_find(c, c->absent.v[i]);
		if (!d || d->doomed)
			continue;
		*ret_total += d->bytes;
		if (found && d->day > *ret_day)
			continue;
		found = true;
		*ret_day = d->day;
		*ret_bytes = d->bytes;
	}
	rwlock_unlock(&c->lock);
	return found;
}

void catalogue_doom(struct bucket_catalogue *c, uint32_t day)
{
	rwlock_write(&c->lock);
	struct catalogue_day *d = catalogue_find(c, day);
	if (d)
		d->doomed = true;
	rwlock_unlock(&c->lock);
}

void catalogue_set_absent(struct bucket_catalogue *c, const uint32_t *days, size_t n)
{
	rwlock_write(&c->lock);
	c->absent.n = 0;
	for (size_t i = 0; i < n; i++)
		vec_push(&c->absent, days[i]);
	atomic_store(&c->n_absent, (unsigned)n);
	rwlock_unlock(&c->lock);
}

void catalogue_add_absent(struct bucket_catalogue *c, uint32_t day)
{
	rwlock_write(&c->lock);
	vec_push(&c->absent, day);
	atomic_store(&c->n_absent, (unsigned)c->absent.n);
	rwlock_unlock(&c->lock);
}

bool catalogue_is_absent(struct bucket_catalogue *c, uint32_t day)
{
	bool absent = false;
	if (!atomic_load_explicit(&c->n_absent, memory_order_relaxed))
		return false;
	rwlock_read(&c->lock);
	for (size_t i = 0; i < c->absent.n && !absent; i++)
		absent = c->absent.v[i] == day;
	rwlock_unlock(&c->lock);
	return absent;
}

void catalogue_each(struct bucket_catalogue *c, int64_t after_ms, int64_t until_ms, void (*fn)(void *arg, const struct catalogue_day *d), void *arg)
{
	rwlock_read(&c->lock);
	for (size_t i = 0; i < c->days.n; i++) {
		const struct catalogue_day *d = &c->days.v[i];
		if (d->kind == GENERATION_DAY && d->min_ms <= until_ms && d->max_ms > after_ms)
			fn(arg, d);
	}
	rwlock_unlock(&c->lock);
}
