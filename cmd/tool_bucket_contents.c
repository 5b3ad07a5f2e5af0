/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what a server has in its bucket. Nothing in it is trusted: names are parsed, generations are decoded by their codec, and what cannot be
 * read is a fault of its own. The server may write meanwhile: a generation that has gone since it was listed was replaced. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/num.h"
#include "cmd/tool_bucket.h"
#include "tsdb/bucket/object_io.h"

#define DAY_MS INT64_C(86400000)
#define DAY_LAST 2932896 /* 9999-12-31 */

/* ---- days by name ---- */

const char *bucket_day_name(uint32_t day, char ret[DAY_NAME_LEN])
{
	char text[RFC3339_LEN];
	if (day > DAY_LAST)
		snprintf(ret, DAY_NAME_LEN, "%" PRIu32, day);
	else
		snprintf(ret, DAY_NAME_LEN, "%.10s", clock_rfc3339_ms((int64_t)day * DAY_MS, text));
	return ret;
}

bool bucket_day_parse(const char *text, uint32_t *ret)
{
	char midnight[RFC3339_LEN];
	int64_t n;
	snprintf(midnight, sizeof midnight, "%.10sT00:00:00Z", text);
	if (strlen(text) == 10 && strchr(text, '-') && clock_parse_time_ms(view_of(midnight), &n))
		n /= DAY_MS;
	else if (!num_parse_i64(view_of(text), &n))
		return false;
	*ret = (uint32_t)n;
	return n >= 0 && n <= DAY_LAST;
}

void bucket_json_end(struct buf *b)
{
	json_array_end(b);
	json_object_end(b);
	buf_putc(b, '\n');
}

/* ---- lists ---- */

static int contents_found(void *arg, const struct objects_found *x, struct err *e)
{
	struct bucket_contents *c = arg;
	struct object_name name;
	(void)e;
	if (!object_name_parse(x->key, &name)) {
		c->others++;
		return 0;
	}
	struct bucket_object o = { .stamp = name.stamp, .day = name.day, .size = x->size, .modified_ms = x->modified_ms };
	if (name.kind == 'e' && c->epoch && name.stamp.epoch > c->epoch + OBJECT_EPOCH_GAP) {
		c->foreign_epoch = c->foreign_epoch ? c->foreign_epoch : name.stamp.epoch;
		return 0;
	}
	if (name.kind == 'e') {
		c->epochs++;
		c->epoch = name.stamp.epoch;
		c->epoch_ms = x->modified_ms;
	} else if (name.kind == 'g') {
		vec_push(&c->generations, o);
	} else if (name.kind == 'd') {
		vec_push(&c->data, o);
	} else {
		vec_push(&c->deletes, o);
	}
	if (name.kind == 'e' || name.kind == 'g')
		c->changed_ms = MAX(c->changed_ms, x->modified_ms);
	return 0;
}

static int contents_list(struct bucket_contents *c, struct objects *o, char kind, struct err *e)
{
	char prefix[OBJECT_NAME_MAX];
	object_name_prefix(prefix, c->id, kind);
	return o->list(o, prefix, "", contents_found, c, e);
}

static int object_by_name(const void *a, const void *b)
{
	const struct bucket_object *x = a, *y = b;
	if (x->day != y->day)
		return x->day < y->day ? -1 : 1;
	return object_stamp_cmp(x->stamp, y->stamp);
}

struct bucket_object *contents_find(const struct bucket_contents *c, uint32_t day, struct object_stamp stamp)
{
	const struct bucket_object key = { .day = day, .stamp = stamp };
	return c->data.n ? bsearch(&key, c->data.v, c->data.n, sizeof key, object_by_name) : NULL;
}

/* ---- generations ---- */

void contents_add_fault(struct bucket_contents *c, const char *name, const char *what, const char *todo)
{
	struct bucket_fault *f = vec_add(&c->faults);
	snprintf(f->name, sizeof f->name, "%s", name);
	f->what = xstrdup(what);
	f->todo = todo;
}

void contents_drop_faults(struct bucket_contents *c, size_t n)
{
	while (c->faults.n > n)
		free(c->faults.v[--c->faults.n].what);
}

static void contents_release_day(struct bucket_day *d)
{
	for (size_t i = 0; i < d->parts.n; i++)
		vec_free(&d->parts.v[i].runs);
	vec_free(&d->parts);
}

static int file_by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

/* Whether two parts have one file of the day's database. */
static bool contents_has_twin_files(const struct generation *g)
{
	uint64_t *v = xcalloc(g->parts.n + 1, sizeof *v);
	bool twins = false;
	for (size_t i = 0; i < g->parts.n; i++)
		v[i] = g->parts.v[i].file;
	qsort(v, g->parts.n, sizeof *v, file_by_number);
	for (size_t i = 1; i < g->parts.n; i++)
		twins |= v[i] == v[i - 1];
	free(v);
	return twins;
}

static struct bucket_day contents_make_day(const struct generation *g, uint64_t size)
{
	struct bucket_day d = { .day = g->day, .kind = g->kind, .stamp = g->stamp, .generation_bytes = size, .finished = g->finished, .min_ms = g->min_ms,
				.max_ms = g->max_ms, .written_ms = g->written_ms, .bytes = generation_bytes(g), .series = g->series.n, .facts = g->facts.n,
				.symbols = g->symbols, .one_file_twice = contents_has_twin_files(g) };
	for (size_t i = 0; i < g->parts.n; i++) {
		const struct generation_part *p = &g->parts.v[i];
		struct bucket_part *to = vec_add(&d.parts);
		*to = (struct bucket_part){ .level = p->level, .window = p->window, .number = p->number, .object = p->object };
		for (size_t k = 0; k < p->runs.n; k++)
			vec_push(&to->runs, p->runs.v[k]);
	}
	return d;
}

/* The generations are read in the order of their names, so the last one of a day is its newest. */
static void contents_put_day(struct bucket_contents *c, struct bucket_day d)
{
	size_t a = 0, b = c->days.n;
	while (a < b) {
		size_t m = (a + b) / 2;
		if (c->days.v[m].day < d.day)
			a = m + 1;
		else
			b = m;
	}
	if (a < c->days.n && c->days.v[a].day == d.day) {
		contents_release_day(&c->days.v[a]);
	} else {
		vec_push(&c->days, d);
		memmove(c->days.v + a + 1, c->days.v + a, (c->days.n - 1 - a) * sizeof d);
	}
	c->days.v[a] = d;
}

/* 1: the object has gone since it was listed. */
static int contents_read_one(struct bucket_contents *c, struct objects *o, struct bucket_object *x, bool series, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX };
	struct generation g = { .min_ms = 1 };
	char name[OBJECT_NAME_MAX];
	object_name_generation(name, c->id, x->stamp);
	int rc = x->size > GENERATION_MAX ? err_set(e, ERR_LIMIT, "%s has %" PRIu64 " bytes, more than a generation can have", name, x->size)
					  : object_io_get(o, name, &b, e);
	bool answered = !rc || rc == -ERR_LIMIT;
	if (rc == -ERR_NOT_FOUND)
		return 1;
	if (!rc)
		rc = generation_decode(&g, buf_view(&b), name, e);
	if (!rc && series)
		rc = generation_decode_series(&g, e);
	x->named = !rc && g.kind == GENERATION_FENCE;
	if (!rc && g.kind != GENERATION_FENCE)
		contents_put_day(c, contents_make_day(&g, buf_view(&b).len));
	generation_release(&g);
	if (!rc || !answered)
		return rc;
	contents_add_fault(c, name, e->msg, rc == -ERR_BAD_DATA ? "a newer version of this program reads it" :
			   "what it alone names is not seen. If its server has its disk: stop it, remove this object and the folder bucket/days of its "
			   "directory, start it; it puts generations of all days that it has. Else remove the object: what an older generation names is back");
	return 0;
}

static int contents_read_generations(struct bucket_contents *c, struct objects *o, bool series, struct err *e)
{
	size_t n = 0;
	for (size_t i = 0; i < c->generations.n; i++) {
		int rc = contents_read_one(c, o, &c->generations.v[i], series, e);
		if (rc < 0)
			return rc;
		if (!rc)
			c->generations.v[n++] = c->generations.v[i];
	}
	c->generations.n = n;
	return 0;
}

/* Marks what the newest generations name, and these themselves. */
static void contents_mark(struct bucket_contents *c)
{
	for (size_t i = 0; i < c->days.n; i++) {
		const struct bucket_day *d = &c->days.v[i];
		for (size_t k = 0; k < d->parts.n + 1; k++) {
			struct object_stamp stamp = k < d->parts.n ? d->parts.v[k].object.stamp : d->symbols.stamp;
			struct bucket_object *x = contents_find(c, d->day, stamp);
			if (x)
				x->named = true;
		}
		const struct bucket_object key = { .stamp = d->stamp };
		struct bucket_object *x = bsearch(&key, c->generations.v, c->generations.n, sizeof key, object_by_name);
		if (x)
			x->named = true;
	}
}

int contents_read(struct bucket_contents *c, struct objects *o, const char *id, bool series, struct err *e)
{
	static const char kinds[] = "egdx"; /* generations before data: what they name was put before, so the list has it */
	*c = (struct bucket_contents){ .epoch = 0 };
	snprintf(c->id, sizeof c->id, "%s", id);
	int rc = 0;
	for (const char *k = kinds; *k && !rc; k++) {
		rc = contents_list(c, o, *k, e);
		if (!rc && *k == 'g')
			rc = contents_read_generations(c, o, series, e);
	}
	if (!rc && !c->epochs && !c->generations.n && !c->data.n && !c->deletes.n)
		rc = err_set(e, ERR_NOT_FOUND, "%s has no objects in the bucket; pyrtool bucket ls lists who has", id);
	if (!rc)
		contents_mark(c);
	return rc;
}

void contents_release(struct bucket_contents *c)
{
	for (size_t i = 0; i < c->days.n; i++)
		contents_release_day(&c->days.v[i]);
	contents_drop_faults(c, 0);
	vec_free(&c->generations);
	vec_free(&c->data);
	vec_free(&c->deletes);
	vec_free(&c->days);
	vec_free(&c->faults);
}
