/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool tsdb verify, stats and dump: read a storage directory that no server uses. They write nothing. */
#include "cmd/tool_tsdb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/num.h"
#include "tsdb/inspect.h"

int tool_tsdb_open(struct tsdb **ret, const char *dir, bool read_only, struct err *e)
{
	struct tsdb_options o = { .path = dir, .retention_ms = -1, .read_only = read_only, .no_sealing = read_only };
	log_setup(LOG_LEVEL_WARN, LOG_FORMAT_LOGFMT);
	return tsdb_open(ret, &o, e);
}

/* ---- scope ---- */

static int parse_time(const char *flag, const char *text, int64_t def, int64_t *ret, struct err *e)
{
	*ret = def;
	if (!text || !*text || clock_parse_time_ms(view_of(text), ret))
		return 0;
	return err_set(e, ERR_BAD_DATA, "--%s: \"%s\" is neither RFC 3339 nor Unix seconds", flag, text);
}

static bool has_ref(const struct tsdb_scope *s, uint64_t ref)
{
	for (size_t i = 0; i < s->series.n; i++)
		if (s->series.v[i].ref == ref)
			return true;
	return false;
}

static int select_one(struct tsdb_scope *s, const struct matcher *m, size_t n_m, bool first, struct err *e)
{
	struct source_series *v;
	size_t n;
	int rc = s->view->ops->select(s->view, m, n_m, s->after_ms, s->until_ms, NULL, &v, &n, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < n; i++)
		if (first || !has_ref(s, v[i].ref))
			vec_push(&s->series, v[i]);
	free(v);
	return 0;
}

int scope_open(struct tsdb_scope *s, struct tsdb *db, struct err *e)
{
	int rc = parse_time("start", s->start, INT64_MIN / 4, &s->after_ms, e);
	if (!rc)
		rc = parse_time("end", s->end, INT64_MAX / 4, &s->until_ms, e);
	s->after_ms--;
	if (!rc)
		rc = tsdb_source(db)->open(tsdb_source(db), &s->view, e);
	if (!rc && !s->match.n)
		rc = select_one(s, NULL, 0, true, e);
	for (size_t i = 0; i < s->match.n && !rc; i++) {
		struct promql_expr *x;
		const struct matcher *m;
		size_t n;
		rc = promql_parse_selector(&x, view_of(s->match.v[i]), &m, &n, e);
		if (rc)
			return err_wrap(e, "--match \"%s\"", s->match.v[i]);
		rc = select_one(s, m, n, !i, e);
		promql_expr_free(x);
	}
	return rc;
}

void scope_close(struct tsdb_scope *s)
{
	if (s->view)
		s->view->ops->release(s->view);
	vec_free(&s->series);
	free(s->match.v);
}

/* The directory of a command, its only word. */
static const char *the_directory(const char *name, int words, char **argv)
{
	if (words == 1)
		return argv[1];
	fprintf(stderr, "pyrtool %s: one storage directory is wanted (the server's --storage.path)\n", name);
	return NULL;
}

/* ---- verify ---- */

struct report {
	struct buf *out;
	bool json;
};

static void put_problem(void *arg, const char *where, const char *what, const char *todo)
{
	struct report *r = arg;
	if (!r->json) {
		buf_printf(r->out, "%s: %s\n  %s\n", where, what, todo);
		return;
	}
	json_line(r->out, 0);
	json_object_begin(r->out);
	json_field_text(r->out, "where", where);
	json_field_text(r->out, "what", what);
	json_field_text(r->out, "todo", todo);
	json_object_end(r->out);
}

/* After the list of problems. */
static void put_verified_json(struct buf *b, const struct tsdb_verified *v)
{
	json_array_end(b);
	json_line(b, 0);
	json_field_count(b, "partitions", v->partitions);
	json_field_count(b, "parts", v->parts);
	json_field_count(b, "series", v->series);
	json_field_count(b, "samples", v->samples);
	json_field_count(b, "bytes", v->bytes);
	json_field_count(b, "logRecords", v->log_records);
	json_field_count(b, "problemCount", v->problems);
	json_object_end(b);
	buf_putc(b, '\n');
}

int tool_tsdb_verify(int argc, char **argv)
{
	const char *output = "text", *dir, name[] = "tsdb verify";
	struct opt flags[] = { { "output", OPT_STRING, &output, "<format>", "text or json." } };
	int words, status;
	struct tsdb *db;
	struct err e;
	struct buf out = { 0 };
	struct tsdb_verified v;
	struct report r = { .out = &out };
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &r.json) || !(dir = the_directory(name, words, argv)))
		return TOOL_USAGE;
	if (tool_tsdb_open(&db, dir, true, &e))
		return tool_fail(name, &e);
	if (r.json) {
		json_object_begin(&out);
		json_array_begin_at(&out, "problems");
	}
	tsdb_verify(db, put_problem, &r, &v);
	IGNORE(tsdb_close(db, &e)); /* it was only read */
	if (r.json)
		put_verified_json(&out, &v);
	else
		buf_printf(&out, "%" PRIu64 " partitions, %" PRIu64 " parts, %" PRIu64 " series in them, %" PRIu64 " samples, %" PRIu64
			   " bytes, %" PRIu64 " log records: %" PRIu64 " problem(s)\n",
			   v.partitions, v.parts, v.series, v.samples, v.bytes, v.log_records, v.problems);
	status = tool_print(&out);
	buf_free(&out);
	return v.problems ? TOOL_FAILED : status;
}

/* ---- stats ---- */

struct tally {
	char *name;
	uint64_t bytes, count;
};

struct tallies {
	VEC(struct tally) v;
	struct map index;
};

static struct tally *tally_of(struct tallies *t, struct view name)
{
	uint64_t h = hash_view(name);
	uint32_t id;
	for (size_t at = map_start(&t->index, h); map_probe(&t->index, h, &at, &id);)
		if (view_eqs(name, t->v.v[id].name))
			return &t->v.v[id];
	map_insert(&t->index, h, (uint32_t)t->v.n);
	struct tally *x = vec_add(&t->v);
	x->name = xstrndup(name.ptr, name.len);
	return x;
}

static int by_bytes(const void *a, const void *b)
{
	const struct tally *x = a, *y = b;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->count != y->count ? (x->count < y->count ? 1 : -1) : strcmp(x->name, y->name);
}

static void tallies_release(struct tallies *t)
{
	for (size_t i = 0; i < t->v.n; i++)
		free(t->v.v[i].name);
	vec_free(&t->v);
	map_free(&t->index);
}

struct stats {
	struct tsdb_stats whole;
	VEC(struct tsdb_part_info) parts;
	VEC(struct tsdb_dictionary_info) dictionaries;
	VEC(struct tsdb_hole) holes;
	struct tallies kinds, series, types, labels;
	struct { uint64_t parts, bytes, samples; } level[3]; /* 1, 6, 24 hours */
};

static void add_hole(void *arg, const struct tsdb_hole *x)
{
	struct stats *s = arg;
	vec_push(&s->holes, *x);
}

static void add_part(void *arg, const struct tsdb_part_info *p)
{
	struct stats *s = arg;
	int level = p->hours == 1 ? 0 : p->hours == 6 ? 1 : 2;
	vec_push(&s->parts, *p);
	s->level[level].parts++;
	s->level[level].bytes += p->bytes;
	s->level[level].samples += p->samples;
}

static void add_dictionary(void *arg, const struct tsdb_dictionary_info *d)
{
	struct stats *s = arg;
	vec_push(&s->dictionaries, *d);
}

static void add_payload(void *arg, const struct tsdb_payload *p)
{
	struct stats *s = arg;
	char kind[48];
	struct buf labels = { 0 };
	bool own = !p->labels && (!strcmp(p->kind, "header") || !strcmp(p->kind, "symbols") || !strcmp(p->kind, "index"));
	snprintf(kind, sizeof kind, "%d h %s%s", p->part->hours, p->labels || own ? "" : "aggregate ", p->kind);
	struct tally *t = tally_of(&s->kinds, view_of(kind));
	t->bytes += p->bytes;
	t->count++;
	if (!p->labels)
		return;
	labels_format(*p->labels, &labels);
	t = tally_of(&s->series, buf_view(&labels));
	t->bytes += p->bytes;
	t->count++;
	buf_free(&labels);
}

/* Of all series, those in memory too. */
static int add_labels(struct stats *s, struct tsdb *db, struct err *e)
{
	struct tsdb_scope all = { .start = NULL };
	struct tallies pairs = { 0 };
	int rc = scope_open(&all, db, e);
	for (size_t i = 0; i < all.series.n && !rc; i++) {
		struct labels l = all.series.v[i].labels;
		tally_of(&s->types, labels_get(l, VIEW(LABEL_NAME)))->count++;
		for (size_t k = 0; k < l.n; k++) {
			struct buf pair = { 0 };
			buf_printf(&pair, "%.*s=%.*s", VIEW_ARG(l.v[k].name), VIEW_ARG(l.v[k].value));
			struct tally *t = tally_of(&pairs, buf_view(&pair));
			if (!t->count++)
				tally_of(&s->labels, l.v[k].name)->count++;
			buf_free(&pair);
		}
	}
	tallies_release(&pairs);
	scope_close(&all);
	return rc;
}

static void put_tallies(struct buf *b, const char *title, struct tallies *t, size_t limit, bool bytes)
{
	if (t->v.n)
		qsort(t->v.v, t->v.n, sizeof *t->v.v, by_bytes);
	buf_printf(b, "\n%s (%zu)\n", title, t->v.n);
	for (size_t i = 0; i < t->v.n && i < limit; i++) {
		if (bytes)
			buf_printf(b, "  %12" PRIu64 " bytes  %s\n", t->v.v[i].bytes, t->v.v[i].name);
		else
			buf_printf(b, "  %8" PRIu64 "  %s\n", t->v.v[i].count, t->v.v[i].name);
	}
}

static double ratio(uint64_t bytes, uint64_t samples)
{
	return samples ? (double)bytes / (double)samples : 0;
}

static void put_holes(struct buf *b, const struct stats *s)
{
	char from[RFC3339_LEN], until[RFC3339_LEN];
	for (size_t i = 0; i < s->holes.n; i++)
		buf_printf(b, "data between %s and %s is lost: answers about that time carry a warning\n", clock_rfc3339_ms(s->holes.v[i].after_ms, from),
			   clock_rfc3339_ms(s->holes.v[i].until_ms, until));
}

static void put_stats(struct buf *b, struct stats *s, size_t limit)
{
	static const int hours[] = { 1, 6, 24 };
	char from[RFC3339_LEN], to[RFC3339_LEN];
	uint64_t samples = s->level[0].samples;
	buf_printf(b, "%" PRIu64 " partitions, %" PRIu64 " parts, %" PRIu64 " bytes on disk, head log %" PRIu64 " bytes\n",
		   s->whole.partitions, s->whole.parts, s->whole.disk_bytes, s->whole.head_log_bytes);
	if (s->whole.max_t_ms)
		buf_printf(b, "from %s to %s\n", clock_rfc3339_ms(s->whole.min_t_ms, from), clock_rfc3339_ms(s->whole.max_t_ms, to));
	buf_printf(b, "%" PRIu64 " samples sealed, %.3f bytes per sample; in memory %" PRIu64 " windows, %" PRIu64 " bytes\n", samples,
		   ratio(s->whole.disk_bytes, samples), s->whole.head_windows, s->whole.head_bytes);
	put_holes(b, s);
	buf_puts(b, "\nparts by hours       parts          bytes  bytes/sample\n");
	for (int i = 0; i < 3; i++)
		buf_printf(b, "  %2d            %10" PRIu64 " %14" PRIu64 "  %12.3f\n", hours[i], s->level[i].parts, s->level[i].bytes,
			   ratio(s->level[i].bytes, samples));
	buf_puts(b, "\ndictionaries (UTC day: series, strings, functions, locations, of them nameless, stacks, label sets, columns, bytes of memory)\n");
	for (size_t i = 0; i < s->dictionaries.n; i++) {
		const struct tsdb_dictionary_info *d = &s->dictionaries.v[i];
		buf_printf(b, "  %u: %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64
			   ", %" PRIu64 "\n", d->partition, d->series, d->strings, d->functions, d->locations, d->nameless, d->stacks,
			   d->label_sets, d->columns, d->memory_bytes);
	}
	put_tallies(b, "payload by kind, before compression", &s->kinds, 100, true);
	put_tallies(b, "series that take most, before compression", &s->series, limit, true);
	put_tallies(b, "series by type", &s->types, limit, false);
	put_tallies(b, "values by label", &s->labels, limit, false);
}

static void put_tallies_json(struct buf *b, const char *key, struct tallies *t, size_t limit)
{
	if (t->v.n)
		qsort(t->v.v, t->v.n, sizeof *t->v.v, by_bytes);
	json_line(b, 0);
	json_array_begin_at(b, key);
	for (size_t i = 0; i < t->v.n && i < limit; i++) {
		json_object_begin(b);
		json_field_text(b, "name", t->v.v[i].name);
		json_field_count(b, "count", t->v.v[i].count);
		json_field_count(b, "bytes", t->v.v[i].bytes);
		json_object_end(b);
	}
	json_array_end(b);
}

static void put_part_json(struct buf *b, const struct tsdb_part_info *p)
{
	json_object_begin(b);
	json_field_count(b, "partition", p->partition);
	json_field_count(b, "part", p->number);
	json_field_int(b, "hours", p->hours);
	json_field_int(b, "start", p->start_ms);
	json_field_count(b, "bytes", p->bytes);
	json_field_count(b, "samples", p->samples);
	json_field_count(b, "series", p->series);
	json_field_count(b, "aggregates", p->aggregates);
	json_object_end(b);
}

static void put_dictionary_json(struct buf *b, const struct tsdb_dictionary_info *d)
{
	json_object_begin(b);
	json_field_count(b, "partition", d->partition);
	json_field_count(b, "series", d->series);
	json_field_count(b, "strings", d->strings);
	json_field_count(b, "functions", d->functions);
	json_field_count(b, "locations", d->locations);
	json_field_count(b, "nameless", d->nameless);
	json_field_count(b, "stacks", d->stacks);
	json_field_count(b, "labelSets", d->label_sets);
	json_field_count(b, "columns", d->columns);
	json_field_count(b, "memoryBytes", d->memory_bytes);
	json_field_count(b, "lost", d->lost);
	json_object_end(b);
}

static void put_stats_json(struct buf *b, struct stats *s, size_t limit)
{
	json_object_begin(b);
	json_field_count(b, "partitions", s->whole.partitions);
	json_field_count(b, "diskBytes", s->whole.disk_bytes);
	json_field_count(b, "headLogBytes", s->whole.head_log_bytes);
	json_field_count(b, "headBytes", s->whole.head_bytes);
	json_field_count(b, "samples", s->level[0].samples);
	json_field_int(b, "minTime", s->whole.min_t_ms);
	json_field_int(b, "maxTime", s->whole.max_t_ms);
	json_line(b, 0);
	json_array_begin_at(b, "parts");
	for (size_t i = 0; i < s->parts.n; i++) {
		if (i)
			json_line(b, 0);
		put_part_json(b, &s->parts.v[i]);
	}
	json_array_end(b);
	json_line(b, 0);
	json_array_begin_at(b, "dictionaries");
	for (size_t i = 0; i < s->dictionaries.n; i++)
		put_dictionary_json(b, &s->dictionaries.v[i]);
	json_array_end(b);
	json_line(b, 0);
	json_array_begin_at(b, "lost");
	for (size_t i = 0; i < s->holes.n; i++) {
		json_object_begin(b);
		json_field_int(b, "after", s->holes.v[i].after_ms);
		json_field_int(b, "until", s->holes.v[i].until_ms);
		json_field_int(b, "found", s->holes.v[i].found_ms);
		json_field_count(b, "firstRecord", s->holes.v[i].first);
		json_field_count(b, "lastRecord", s->holes.v[i].last);
		json_object_end(b);
	}
	json_array_end(b);
	put_tallies_json(b, "payloads", &s->kinds, 100);
	put_tallies_json(b, "topSeries", &s->series, limit);
	put_tallies_json(b, "types", &s->types, limit);
	put_tallies_json(b, "labels", &s->labels, limit);
	json_object_end(b);
	buf_putc(b, '\n');
}

int tool_tsdb_stats(int argc, char **argv)
{
	const char *output = "text", *dir, name[] = "tsdb stats";
	int64_t limit = 20;
	struct opt flags[] = { { "output", OPT_STRING, &output, "<format>", "text or json." },
			       { "limit", OPT_INT, &limit, "<n>", "Length of the lists." } };
	int words, status;
	bool json;
	struct tsdb *db;
	struct err e;
	struct buf out = { 0 };
	struct stats s = { .kinds = { .index = { 0 } } };
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &json) || !(dir = the_directory(name, words, argv)))
		return TOOL_USAGE;
	if (tool_tsdb_open(&db, dir, true, &e))
		return tool_fail(name, &e);
	tsdb_each_part(db, add_part, &s);
	tsdb_each_hole(db, add_hole, &s);
	tsdb_each_dictionary(db, add_dictionary, &s);
	tsdb_each_payload(db, add_payload, &s);
	tsdb_stats(db, &s.whole);
	int rc = add_labels(&s, db, &e);
	if (!rc && json)
		put_stats_json(&out, &s, (size_t)MAX(limit, 0));
	else if (!rc)
		put_stats(&out, &s, (size_t)MAX(limit, 0));
	status = rc ? tool_fail(name, &e) : tool_print(&out);
	IGNORE(tsdb_close(db, &e)); /* it was only read */
	struct tallies *all[] = { &s.kinds, &s.series, &s.types, &s.labels };
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		tallies_release(all[i]);
	vec_free(&s.parts);
	vec_free(&s.dictionaries);
	vec_free(&s.holes);
	buf_free(&out);
	return status;
}

/* ---- dump ---- */

struct dump {
	struct tsdb_scope scope;
	bool json, stacks;
};

static void put_frame(struct buf *b, const struct symbols *s, const struct sym_location *l, uint32_t line)
{
	uint32_t f = line < l->n_lines ? symbols_get_line(s, l, line)->function : 0;
	struct view name = f ? symbols_get_string(s, symbols_get_function(s, f - 1)->name) : VIEW("");
	if (name.len)
		buf_putv(b, name);
	else
		buf_printf(b, "0x%" PRIx64, l->address);
}

/* Root first, names between semicolons. */
static void put_stack(struct buf *b, const struct symbols *s, uint32_t stack)
{
	size_t n = symbols_stack_locations(s, stack, NULL, 0);
	uint32_t *l = xcalloc(n + 1, sizeof *l);
	bool first = true;
	symbols_stack_locations(s, stack, l, n);
	for (size_t i = n; i--;) {
		const struct sym_location *x = symbols_get_location(s, l[i]);
		for (uint32_t k = MAX(x->n_lines, 1); k--;) {
			if (!first)
				buf_putc(b, ';');
			first = false;
			put_frame(b, s, x, k);
		}
	}
	free(l);
}

static int put_stacks(struct dump *d, struct buf *b, uint64_t ref, int64_t t_ms, struct err *e)
{
	struct source_part part = { .ref = ref, .after_ms = t_ms - 1, .until_ms = t_ms, .scale = 1 };
	struct stackvec *v;
	struct source_view *view = d->scope.view;
	int rc = view->ops->merge(view, &part, 1, 1, SYMBOLS_WHOLE, NULL, &v, e);
	if (rc)
		return rc;
	for (size_t i = 0; i < v->n; i++) {
		struct buf text = { 0 };
		put_stack(&text, v->symbols, symbols_get_column(v->symbols, v->columns[i])->stack);
		if (d->json) {
			json_array_begin(b);
			json_text(b, buf_view(&text));
			json_int(b, v->ints[i]);
			json_array_end(b);
		} else {
			buf_printf(b, "  %.*s %" PRId64 "\n", VIEW_ARG(buf_view(&text)), v->ints[i]);
		}
		buf_free(&text);
	}
	stackvec_unref(v);
	return 0;
}

static void put_point(struct dump *d, struct buf *b, struct labels l, const char *value, int64_t t_ms)
{
	if (d->json) {
		json_object_begin(b);
		json_key(b, "labels");
		labels_json(l, b);
		json_field_text(b, "value", value);
		json_field_int(b, "t", t_ms);
	} else {
		labels_format(l, b);
		buf_printf(b, " %s %" PRId64 "\n", value, t_ms);
	}
}

/* One series that is printed. */
struct dump_series {
	struct dump *d;
	const struct source_series *s;
	struct buf *b;
};

static int dump_put_profiles(void *arg, size_t series, struct source_profile *p, size_t n, struct err *e)
{
	(void)series;
	const struct dump_series *x = arg;
	struct dump *d = x->d;
	struct buf *b = x->b;
	char value[32];
	int rc = 0;
	for (size_t i = 0; i < n && !rc; i++) {
		snprintf(value, sizeof value, "%" PRId64, p[i].total);
		put_point(d, b, x->s->labels, p[i].stale ? "stale" : value, p[i].t_ms);
		if (d->json && !p[i].stale) {
			json_field_int(b, "duration", p[i].duration_ns);
			json_field_int(b, "period", p[i].period);
		}
		if (d->stacks && d->json)
			json_array_begin_at(b, "stacks");
		if (d->stacks && !p[i].stale)
			rc = put_stacks(d, b, x->s->ref, p[i].t_ms, e);
		if (d->stacks && d->json)
			json_array_end(b);
		if (d->json)
			buf_puts(b, "}\n");
	}
	free(p);
	return rc;
}

static int dump_put_floats(void *arg, size_t series, struct point *p, size_t n, struct err *e)
{
	(void)series, (void)e;
	const struct dump_series *x = arg;
	char value[NUM_LEN];
	for (size_t i = 0; i < n; i++) {
		put_point(x->d, x->b, x->s->labels, value_is_stale(p[i].v) ? "stale" : num_format(p[i].v, value), p[i].t_ms);
		if (x->d->json)
			buf_puts(x->b, "}\n");
	}
	free(p);
	return 0;
}

/* Series by series, in the order of their labels. */
static int dump_put_series(struct dump *d, const struct source_series *s, struct buf *b, struct err *e)
{
	struct source_view *v = d->scope.view;
	struct dump_series x = { d, s, b };
	return s->type ? v->ops->profiles(v, &s->ref, 1, d->scope.after_ms, d->scope.until_ms, NULL, dump_put_profiles, &x, e)
	       : v->ops->floats(v, &s->ref, 1, d->scope.after_ms, d->scope.until_ms, NULL, dump_put_floats, &x, e);
}

int tool_tsdb_dump(int argc, char **argv)
{
	const char *output = "text", *dir, name[] = "tsdb dump";
	struct dump d = { .json = false };
	struct opt flags[] = { SCOPE_FLAGS(d.scope), { "stacks", OPT_BOOL, &d.stacks, NULL, "The stacks of each profile too." },
			       { "output", OPT_STRING, &output, "<format>", "text or json (an object per line)." } };
	int words, status;
	struct tsdb *db;
	struct err e;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &d.json) || !(dir = the_directory(name, words, argv)))
		return TOOL_USAGE;
	if (tool_tsdb_open(&db, dir, true, &e))
		return tool_fail(name, &e);
	int rc = scope_open(&d.scope, db, &e);
	status = TOOL_OK;
	for (size_t i = 0; i < d.scope.series.n && !rc && status == TOOL_OK; i++) {
		struct buf out = { 0 };
		const struct source_series *s = &d.scope.series.v[i];
		rc = dump_put_series(&d, s, &out, &e);
		status = tool_print(&out);
		buf_free(&out);
	}
	if (rc)
		status = tool_fail(name, &e);
	scope_close(&d.scope);
	IGNORE(tsdb_close(db, NULL)); /* it was only read */
	return status;
}
