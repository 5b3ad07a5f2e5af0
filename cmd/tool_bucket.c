/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool bucket ls and stats: who has what in a bucket, and what takes the space. They only read. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cmd/tool_bucket.h"
#include "tsdb/part/part.h"

/* ---- ls ---- */

static void ls_stamp(char ret[32], struct object_stamp s)
{
	snprintf(ret, 32, "%06" PRIx64 "-%010" PRIx64, s.epoch, s.serial);
}

static void ls_put_day(struct buf *b, const struct bucket_day *d)
{
	char day[DAY_NAME_LEN], stamp[32], from[RFC3339_LEN], until[RFC3339_LEN];
	ls_stamp(stamp, d->stamp);
	buf_printf(b, "  %-10s %6" PRIu32 "  %s %6zu %14" PRIu64, bucket_day_name(d->day, day), d->day, stamp, d->parts.n, d->bytes);
	if (d->kind == GENERATION_GONE)
		buf_puts(b, "  gone");
	else if (d->min_ms <= d->max_ms)
		buf_printf(b, "  %.19sZ  %.19sZ%s", clock_rfc3339_ms(d->min_ms, from), clock_rfc3339_ms(d->max_ms, until), d->finished ? "  finished" : "");
	buf_putc(b, '\n');
}

static void ls_put_server(struct buf *b, const struct bucket_contents *c)
{
	char taken[RFC3339_LEN], changed[RFC3339_LEN];
	buf_printf(b, "%s  epoch %" PRIu64 ", taken %.19sZ; wrote last %.19sZ\n", c->id, c->epoch, clock_rfc3339_ms(c->epoch_ms, taken),
		   clock_rfc3339_ms(c->changed_ms, changed));
	if (c->days.n)
		buf_puts(b, "  day                generation          parts          bytes  first stamp           last stamp\n");
	for (size_t i = 0; i < c->days.n; i++)
		ls_put_day(b, &c->days.v[i]);
	if (c->faults.n)
		buf_printf(b, "  %zu generations cannot be read, and what they name is missing above: pyrtool bucket verify\n", c->faults.n);
}

static void ls_put_day_json(struct buf *b, const struct bucket_day *d)
{
	char day[DAY_NAME_LEN], stamp[32];
	ls_stamp(stamp, d->stamp);
	json_line(b, 2);
	json_object_begin(b);
	json_field_text(b, "date", bucket_day_name(d->day, day));
	json_field_count(b, "day", d->day);
	json_field_text(b, "generation", stamp);
	json_field_count(b, "parts", d->parts.n);
	json_field_count(b, "bytes", d->bytes);
	if (d->min_ms <= d->max_ms) {
		json_field_int(b, "minTime", d->min_ms);
		json_field_int(b, "maxTime", d->max_ms);
	}
	json_field_int(b, "written", d->written_ms);
	json_field_bool(b, "finished", d->finished);
	json_field_bool(b, "gone", d->kind == GENERATION_GONE);
	json_object_end(b);
}

static void ls_put_server_json(struct buf *b, const struct bucket_contents *c)
{
	json_line(b, 0);
	json_object_begin(b);
	json_field_text(b, "id", c->id);
	json_field_count(b, "epoch", c->epoch);
	json_field_int(b, "epochTaken", c->epoch_ms);
	json_field_int(b, "lastWrite", c->changed_ms);
	json_field_count(b, "unreadableGenerations", c->faults.n);
	json_array_begin_at(b, "days");
	for (size_t i = 0; i < c->days.n; i++)
		ls_put_day_json(b, &c->days.v[i]);
	json_array_end(b);
	json_object_end(b);
}

static int ls_put_all(struct tool_bucket *bucket, const char *only, bool json, struct buf *out, struct err *e)
{
	struct bucket_ids ids = { 0 };
	int rc = bucket_ids_read(&ids, bucket, e);
	size_t shown = 0;
	for (size_t i = 0; i < ids.v.n && !rc; i++) {
		struct bucket_contents c;
		if (only && strcmp(only, ids.v.v[i]))
			continue;
		rc = contents_read(&c, bucket->objects, ids.v.v[i], false, e);
		if (!rc)
			(json ? ls_put_server_json : ls_put_server)(out, &c);
		contents_release(&c);
		shown++;
	}
	if (!rc && only && !shown)
		rc = err_set(e, ERR_NOT_FOUND, "%.40s has no objects in the bucket", only);
	if (!shown && !rc && !json)
		buf_printf(out, "no server has objects in the bucket (%s)\n", bucket->config.shown);
	bucket_ids_release(&ids);
	return rc;
}

int tool_bucket_ls(int argc, char **argv)
{
	const char *output = "text", name[] = "bucket ls";
	struct bucket_flags f = { 0 };
	struct opt flags[] = { BUCKET_FLAGS(f), { "output", OPT_STRING, &output, "<format>", "text or json." } };
	struct tool_bucket b;
	struct buf out = { 0 };
	struct err e;
	int words, status;
	bool json;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &json) || !bucket_no_words(name, words))
		return TOOL_USAGE;
	int rc = tool_bucket_open(&b, &f, &e);
	if (json)
		json_array_begin(&out);
	if (!rc)
		rc = ls_put_all(&b, f.id, json, &out, &e);
	if (json) {
		json_array_end(&out);
		buf_putc(&out, '\n');
	}
	status = rc ? tool_fail(name, &e) : tool_print(&out);
	tool_bucket_close(&b);
	buf_free(&out);
	return status;
}

/* ---- stats ---- */

#define STATS_KINDS PART_KINDS
static const char *const stats_kind_names[STATS_KINDS] = { "header", "symbols", "index", "totals", "rollup", "detail", "floats", "detail, places",
							    "detail, values", "names" };
static const char *const stats_level_names[LEVELS] = { "1 hour", "6 hours", "24 hours" };

struct bucket_tally {
	uint64_t objects, bytes;
};

struct bucket_stats {
	struct bucket_tally named, orphans, generations, old_generations, deletes, symbols, level[LEVELS];
	uint64_t kind[STATS_KINDS], aggregates, tails;
};

static void stats_add(struct bucket_tally *t, uint64_t bytes)
{
	t->objects++;
	t->bytes += bytes;
}

static void stats_add_part(struct bucket_stats *s, const struct bucket_part *p)
{
	if (p->level < LEVELS)
		stats_add(&s->level[p->level], p->object.size);
	for (size_t i = 0; i < p->runs.n; i++) {
		const struct part_run *r = &p->runs.v[i];
		if (r->kind == PART_RUN_TAIL)
			s->tails += r->length;
		else if (r->aggregates)
			s->aggregates += r->length;
		else if (r->kind < STATS_KINDS)
			s->kind[r->kind] += r->length;
	}
}

static void stats_collect(struct bucket_stats *s, const struct bucket_contents *c)
{
	*s = (struct bucket_stats){ 0 };
	for (size_t i = 0; i < c->data.n; i++)
		stats_add(c->data.v[i].named ? &s->named : &s->orphans, c->data.v[i].size);
	for (size_t i = 0; i < c->generations.n; i++)
		stats_add(c->generations.v[i].named ? &s->generations : &s->old_generations, c->generations.v[i].size);
	for (size_t i = 0; i < c->deletes.n; i++)
		stats_add(&s->deletes, c->deletes.v[i].size);
	for (size_t i = 0; i < c->days.n; i++) {
		const struct bucket_day *d = &c->days.v[i];
		if (d->symbols.stamp.epoch)
			stats_add(&s->symbols, d->symbols.size);
		for (size_t k = 0; k < d->parts.n; k++)
			stats_add_part(s, &d->parts.v[k]);
	}
}

static void stats_put_line(struct buf *b, const char *what, const struct bucket_tally *t)
{
	buf_printf(b, "  %-28s %8" PRIu64 " %16" PRIu64 "\n", what, t->objects, t->bytes);
}

static void stats_put(struct buf *b, const struct bucket_contents *c, const struct bucket_stats *s)
{
	char day[DAY_NAME_LEN];
	buf_printf(b, "%s: %zu days, %" PRIu64 " epochs\n\n%-30s %8s %16s\n", c->id, c->days.n, c->epochs, "objects", "number", "bytes");
	stats_put_line(b, "parts and symbols of days", &s->named);
	stats_put_line(b, "generations, newest, and fences", &s->generations);
	stats_put_line(b, "older generations", &s->old_generations);
	stats_put_line(b, "deletes", &s->deletes);
	stats_put_line(b, "orphans", &s->orphans);
	if (c->others)
		buf_printf(b, "  %" PRIu64 " objects have names that are not the server's\n", c->others);
	buf_printf(b, "\n%-30s %8s %16s\n", "parts by hours", "number", "bytes");
	for (int i = 0; i < LEVELS; i++)
		stats_put_line(b, stats_level_names[i], &s->level[i]);
	stats_put_line(b, "symbols of finished days", &s->symbols);
	buf_printf(b, "\n%-39s %16s\n", "in parts, by kind", "bytes");
	for (int i = 0; i < STATS_KINDS; i++)
		buf_printf(b, "  %-37s %16" PRIu64 "\n", stats_kind_names[i], s->kind[i]);
	buf_printf(b, "  %-37s %16" PRIu64 "\n  %-37s %16" PRIu64 "\n", "aggregates", s->aggregates, "indexes and filters of files", s->tails);
	buf_puts(b, "  (a block of the file that has values of several kinds is counted with each)\n");
	buf_printf(b, "\n%-12s %6s %8s %16s %10s\n", "day", "parts", "series", "bytes", "generation");
	for (size_t i = 0; i < c->days.n; i++) {
		const struct bucket_day *d = &c->days.v[i];
		buf_printf(b, "  %-10s %6zu %8" PRIu64 " %16" PRIu64 " %10" PRIu64 "\n", bucket_day_name(d->day, day), d->parts.n, d->series, d->bytes,
			   d->generation_bytes);
	}
	if (c->faults.n)
		buf_printf(b, "\n%zu generations cannot be read: pyrtool bucket verify\n", c->faults.n);
}

static void stats_put_tally_json(struct buf *b, const char *key, const struct bucket_tally *t)
{
	json_line(b, 0);
	json_object_begin_at(b, key);
	json_field_count(b, "objects", t->objects);
	json_field_count(b, "bytes", t->bytes);
	json_object_end(b);
}

static void stats_put_json(struct buf *b, const struct bucket_contents *c, const struct bucket_stats *s)
{
	char day[DAY_NAME_LEN];
	json_object_begin(b);
	json_field_text(b, "id", c->id);
	json_field_count(b, "epochs", c->epochs);
	json_field_count(b, "otherObjects", c->others);
	json_field_count(b, "unreadableGenerations", c->faults.n);
	stats_put_tally_json(b, "data", &s->named);
	stats_put_tally_json(b, "generations", &s->generations);
	stats_put_tally_json(b, "oldGenerations", &s->old_generations);
	stats_put_tally_json(b, "deletes", &s->deletes);
	stats_put_tally_json(b, "orphans", &s->orphans);
	stats_put_tally_json(b, "symbols", &s->symbols);
	json_line(b, 0);
	json_object_begin_at(b, "levels");
	for (int i = 0; i < LEVELS; i++)
		stats_put_tally_json(b, stats_level_names[i], &s->level[i]);
	json_object_end(b);
	json_line(b, 0);
	json_object_begin_at(b, "kinds");
	for (int i = 0; i < STATS_KINDS; i++)
		json_field_count(b, stats_kind_names[i], s->kind[i]);
	json_field_count(b, "aggregates", s->aggregates);
	json_field_count(b, "tail", s->tails);
	json_object_end(b);
	json_line(b, 0);
	json_array_begin_at(b, "days");
	for (size_t i = 0; i < c->days.n; i++) {
		json_line(b, 2);
		json_object_begin(b);
		json_field_text(b, "date", bucket_day_name(c->days.v[i].day, day));
		json_field_count(b, "parts", c->days.v[i].parts.n);
		json_field_count(b, "series", c->days.v[i].series);
		json_field_count(b, "bytes", c->days.v[i].bytes);
		json_field_count(b, "generationBytes", c->days.v[i].generation_bytes);
		json_object_end(b);
	}
	bucket_json_end(b);
}

int tool_bucket_stats(int argc, char **argv)
{
	const char *output = "text", name[] = "bucket stats";
	struct bucket_flags f = { 0 };
	struct opt flags[] = { BUCKET_FLAGS(f), { "output", OPT_STRING, &output, "<format>", "text or json." } };
	struct bucket_contents c = { .epoch = 0 };
	struct bucket_stats s;
	struct tool_bucket b;
	struct buf out = { 0 };
	struct err e;
	char id[SERVER_ID_MAX + 1];
	int words, status;
	bool json;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &json) || !bucket_no_words(name, words))
		return TOOL_USAGE;
	int rc = tool_bucket_open(&b, &f, &e);
	if (!rc)
		rc = bucket_choose_id(&b, &f, id, &e);
	if (!rc)
		rc = contents_read(&c, b.objects, id, true, &e);
	if (!rc) {
		stats_collect(&s, &c);
		(json ? stats_put_json : stats_put)(&out, &c, &s);
	}
	status = rc ? tool_fail(name, &e) : tool_print(&out);
	contents_release(&c);
	tool_bucket_close(&b);
	buf_free(&out);
	return status;
}
