/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool tsdb import: pprof files into a storage directory that no server uses. Labels come from --label and from folders called
 * name=value. The stamp is the file's own time plus duration, else the time of its last change (counted). A duration that no scrape
 * would believe counts as none (counted). Cumulative types of files without a duration count from the program's start. So their increase
 * from file to file is stored, and nothing of the first file (counted).
 *
 * Files are stored in the order of their stamps, over all series, as scrapes come: so an hour is in memory once, and is sealed once it has ended.
 * Many of them are a batch, which is synced as one. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "cmd/tool_tsdb.h"
#include "model/ptype.h"
#include "pprof/pprof.h"
#include "scraper/state/delta.h"

#define FILE_MAX ((size_t)1 << 30)
#define BATCH_FILES 64
#define BATCH_BYTES ((size_t)32 << 20) /* of its decoded profiles */
#define SAY_EVERY_MS 5000

/* One file, after the first look at it. */
struct found {
	char *path;
	struct labels *labels;  /* without __name__ */
	char *name;             /* process_cpu */
	bool delta;             /* a name that ends in :delta */
	int64_t t_ms;
	size_t place;           /* number of its kind of profile and labels */
	bool is_last;           /* of its place */
};

struct import {
	struct opt_list label;
	const char *name;
	int64_t interval_ms;
	bool increases;         /* cumulative types are increases already */
	VEC(struct found) files;
	size_t root_len;        /* of the path that is walked: labels come from what follows */
	int64_t said_mono_ms;   /* when progress was reported last; at first when the import began */
	uint64_t profiles, series, duplicates, too_new, too_old, over_limit, no_time, no_duration, baselines, bad;
};

static struct import *walking; /* nftw has no argument */

/* How far it is, now and then, for whoever imports many files; all is 0: not known yet. */
static void import_report(struct import *x, const char *done, size_t n, size_t all)
{
	int64_t now = clock_mono_ms();
	if (now - x->said_mono_ms < SAY_EVERY_MS)
		return;
	x->said_mono_ms = now;
	if (all)
		fprintf(stderr, "%zu of %zu files %s\n", n, all, done);
	else
		fprintf(stderr, "%zu files %s\n", n, done);
}

/* ---- reading ---- */

/* *ret_replaced: whether the file's duration is impossible; then the profile is read as one without a duration. */
static int read_profile(const char *path, struct profile *p, struct stat *st, bool *ret_replaced, struct err *e)
{
	struct buf b = { .max = FILE_MAX };
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 || fstat(fd, st) ? err_errno(e, errno, "cannot read %s", path) : buf_read_fd(&b, fd, path, e);
	if (fd >= 0)
		close(fd);
	if (!rc && (pprof_decode(b.ptr, b.len, NULL, p, e) || pprof_drop_frames(p, e)))
		rc = err_wrap(e, "%s", path);
	*ret_replaced = !rc && !profile_duration_is_sane(p->duration_ns);
	if (*ret_replaced)
		p->duration_ns = 0;
	int64_t end_ns;
	if (!rc && __builtin_add_overflow(p->time_ns, p->duration_ns, &end_ns))
		rc = err_set(e, ERR_BAD_DATA, "%s: the profile says a time that is out of range (%lld ns)", path, (long long)p->time_ns);
	buf_free(&b);
	return rc;
}

static bool has_type(const struct profile *p, const char *type)
{
	return profile_type_index(p, view_of(type)) >= 0;
}

/* What the server's scrapes would call it. */
static const char *guess_name(const struct profile *p, const char *path, bool *ret_delta)
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	*ret_delta = false;
	if (has_type(p, "inuse_space") || has_type(p, "alloc_space") || has_type(p, "alloc_objects"))
		return "memory";
	if (has_type(p, "space"))
		return strstr(base, "growth") ? "growth" : "memory";
	if (has_type(p, "thread"))
		return "threads";
	if (has_type(p, "contentions"))
		return strstr(base, "block") ? "block" : "mutex";
	if (has_type(p, "goroutine") || has_type(p, "goroutines"))
		return "goroutine";
	if (has_type(p, "threadcreate"))
		return "threadcreate";
	*ret_delta = true;
	if (has_type(p, "cpu") || view_eqs(profile_str(p, p->period_type.type_str), "cpu"))
		return "process_cpu";
	return has_type(p, "time") ? "fgprof" : "profile";
}

static char *decode_component(struct view v)
{
	char *s = xmalloc(v.len + 1);
	size_t n = 0;
	for (size_t i = 0; i < v.len; i++) {
		char hex[3] = { 0 }, *end = hex;
		if (v.ptr[i] == '%' && i + 2 < v.len) {
			memcpy(hex, v.ptr + i + 1, 2);
			long c = strtol(hex, &end, 16);
			if (end == hex + 2) {
				s[n++] = (char)c;
				i += 2;
				continue;
			}
		}
		s[n++] = v.ptr[i];
	}
	s[n] = 0;
	return s;
}

/* Folders name=value of the path, and then --label, which wins. */
static void read_labels(struct import *x, struct found *f, const char *below)
{
	struct labels_builder b;
	VEC(char *) texts = { 0 };
	labels_builder_init(&b, (struct labels){ NULL, 0 });
	for (const char *p = below, *slash; (slash = strchr(p, '/')); p = slash + 1) {
		const char *eq = memchr(p, '=', (size_t)(slash - p));
		if (!eq || eq == p)
			continue;
		char *name = decode_component(view_make(p, (size_t)(eq - p)));
		char *value = decode_component(view_make(eq + 1, (size_t)(slash - eq - 1)));
		vec_push(&texts, name);
		vec_push(&texts, value);
		if (strcmp(name, "__profile__") == 0) {
			char *colon = strrchr(value, ':');
			f->delta = colon && strcmp(colon, ":delta") == 0;
			free(f->name);
			f->name = xstrndup(value, f->delta ? (size_t)(colon - value) : strlen(value));
		} else {
			labels_builder_set(&b, view_of(name), view_of(value));
		}
	}
	for (size_t i = 0; i < x->label.n; i++) {
		const char *eq = strchr(x->label.v[i], '=');
		labels_builder_set(&b, view_make(x->label.v[i], (size_t)(eq - x->label.v[i])), view_of(eq + 1));
	}
	f->labels = labels_dup(labels_builder_finish(&b));
	labels_builder_free(&b);
	for (size_t i = 0; i < texts.n; i++)
		free(texts.v[i]);
	vec_free(&texts);
}

static void look_at(struct import *x, const char *path)
{
	struct profile p;
	struct stat st;
	struct err e;
	bool replaced;
	profile_init(&p, 0);
	if (read_profile(path, &p, &st, &replaced, &e)) {
		fprintf(stderr, "pyrtool tsdb import: %s\n", e.msg);
		x->bad++;
		profile_release(&p);
		return;
	}
	struct found *f = vec_add(&x->files);
	f->path = xstrdup(path);
	f->t_ms = p.time_ns > 0 ? (p.time_ns + p.duration_ns) / 1000000
				: (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
	x->no_time += p.time_ns <= 0;
	x->no_duration += replaced;
	read_labels(x, f, path + x->root_len);
	if (x->name) {
		f->delta = strlen(x->name) > 6 && strcmp(x->name + strlen(x->name) - 6, ":delta") == 0;
		free(f->name);
		f->name = xstrndup(x->name, strlen(x->name) - (f->delta ? 6 : 0));
	} else if (!f->name) {
		f->name = xstrdup(guess_name(&p, path, &f->delta));
	}
	profile_release(&p);
	import_report(x, "looked at", x->files.n, 0);
}

static int walk(const char *path, const struct stat *st, int type, struct FTW *where)
{
	(void)st;
	if (type == FTW_F && path[where->base] != '.')
		look_at(walking, path);
	return 0;
}

static int by_series_and_time(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	int c = strcmp(x->name, y->name);
	if (!c)
		c = labels_cmp(*x->labels, *y->labels);
	return c ? c : (x->t_ms > y->t_ms) - (x->t_ms < y->t_ms);
}

static int by_time_and_series(const void *a, const void *b)
{
	const struct found *x = a, *y = b;
	if (x->t_ms != y->t_ms)
		return x->t_ms < y->t_ms ? -1 : 1;
	return (x->place > y->place) - (x->place < y->place);
}

static bool same_place(const struct found *a, const struct found *b)
{
	return strcmp(a->name, b->name) == 0 && labels_eq(*a->labels, *b->labels);
}

/* ---- storing ---- */

struct columns {
	VEC(struct sink_column) v;
	VEC(struct labels_builder) builders;
	VEC(char *) names;
};

static void make_columns(struct columns *c, const struct found *f, const struct profile *p)
{
	for (uint32_t i = 0; i < p->n_sample_types; i++) {
		struct ptype t = { view_of(f->name), profile_str(p, p->sample_types[i].type_str), profile_str(p, p->sample_types[i].unit_str),
				   profile_str(p, p->period_type.type_str), profile_str(p, p->period_type.unit_str), f->delta, 0 };
		struct buf name = { 0 };
		t.kind = ptype_default_kind(t.name, t.sample_type, t.sample_unit, f->delta);
		ptype_format(&t, &name);
		char *text = buf_take(&name, NULL);
		struct labels_builder *b = vec_add(&c->builders);
		labels_builder_init(b, *f->labels);
		labels_builder_set(b, VIEW(LABEL_NAME), view_of(text));
		vec_push(&c->names, text);
		vec_push(&c->v, (struct sink_column){ .type = t, .value_index = i });
	}
	for (size_t i = 0; i < c->v.n; i++)
		c->v.v[i].labels = labels_builder_finish(&c->builders.v[i]);
}

static void columns_release(struct columns *c)
{
	for (size_t i = 0; i < c->builders.n; i++) {
		labels_builder_free(&c->builders.v[i]);
		free(c->names.v[i]);
	}
	vec_free(&c->builders);
	vec_free(&c->names);
	vec_free(&c->v);
}

/* Values since the program's start become increases. False: the columns that are cumulative have nothing to compare
 * with, and leave c. */
static int to_increases(struct import *x, struct delta *d, struct columns *c, struct profile *p, int64_t **ret, struct err *e)
{
	uint32_t cumulative[64], n = 0;
	for (size_t i = 0; i < c->v.n && n < ARRAY_LEN(cumulative); i++)
		if (c->v.v[i].type.kind == PROFILE_CUMULATIVE)
			cumulative[n++] = (uint32_t)i;
	if (!n || p->duration_ns > 0 || x->increases)
		return 0;
	size_t bytes = (size_t)p->n_samples * p->n_sample_types * sizeof **ret;
	*ret = arena_alloc(&p->arena, bytes + 1);
	if (!*ret)
		return err_set(e, ERR_LIMIT, "the profile needs more memory than it may have");
	memcpy(*ret, p->values, bytes);
	int rc = delta_apply(d, p, cumulative, n, *ret, e);
	if (rc < 0 || rc != DELTA_BASELINE)
		return rc < 0 ? rc : 0;
	size_t kept = 0;
	for (size_t i = 0; i < c->v.n; i++)
		if (c->v.v[i].type.kind != PROFILE_CUMULATIVE)
			c->v.v[kept++] = c->v.v[i];
	c->v.n = kept;
	x->baselines++;
	return 0;
}

/* A file of the batch that is being made. */
struct import_entry {
	const struct found *f;
	struct profile p;
	struct columns c;
	struct sink_profile sink;
};

struct import_batch {
	struct import *x;
	struct tsdb *db;
	struct import_entry *entries; /* BATCH_FILES */
	size_t n, bytes;
};

static void import_failed(struct import *x, const struct found *f, const struct err *e)
{
	bool named = strstr(e->msg, f->path) != NULL;
	fprintf(stderr, "pyrtool tsdb import: %s%s%s\n", named ? "" : f->path, named ? "" : ": ", e->msg);
	x->bad++;
}

static int append_entries(struct import_batch *b, size_t from, size_t n, struct err *e)
{
	struct sink_profile profiles[BATCH_FILES];
	struct sink_result r = { 0 };
	for (size_t i = 0; i < n; i++)
		profiles[i] = b->entries[from + i].sink;
	struct sink_batch batch = { .profiles = profiles, .n_profiles = n, .patient = true };
	int rc = tsdb_sink(b->db)->append(tsdb_sink(b->db), &batch, &r, e);
	b->x->profiles += r.profiles;
	b->x->duplicates += r.duplicates;
	b->x->too_new += r.too_new;
	b->x->too_old += r.too_old;
	b->x->over_limit += r.over_series_limit;
	return rc;
}

/* Of a batch that is refused nothing is stored: then each file is tried by itself, once the batches before it are stored, as what a profile covers
 * depends on the one before it. */
static void batch_store(struct import_batch *b)
{
	struct err e;
	int rc = b->n ? append_entries(b, 0, b->n, &e) : 0;
	if (rc) {
		tsdb_flush(b->db);
		for (size_t i = 0; i < b->n; i++)
			if (b->n == 1 || append_entries(b, i, 1, &e))
				import_failed(b->x, b->entries[i].f, &e);
	}
	for (size_t i = 0; i < b->n; i++) {
		columns_release(&b->entries[i].c);
		profile_release(&b->entries[i].p);
	}
	b->n = b->bytes = 0;
}

static void batch_add(struct import_batch *b, const struct found *f, struct delta *d)
{
	struct import *x = b->x;
	if (b->n && b->entries[b->n - 1].f->place == f->place && b->entries[b->n - 1].f->t_ms == f->t_ms) {
		batch_store(b); /* the second of two files of one time is a duplicate only if the first is stored */
		tsdb_flush(b->db);
	}
	struct import_entry *n = &b->entries[b->n];
	struct stat st;
	struct err e;
	int64_t *values = NULL;
	bool replaced;
	*n = (struct import_entry){ .f = f };
	profile_init(&n->p, 0);
	int rc = read_profile(f->path, &n->p, &st, &replaced, &e);
	if (!rc) {
		make_columns(&n->c, f, &n->p);
		rc = to_increases(x, d, &n->c, &n->p, &values, &e);
	}
	if (rc)
		import_failed(x, f, &e);
	if (rc || !n->c.v.n) {
		columns_release(&n->c);
		profile_release(&n->p);
		return;
	}
	int64_t interval = n->p.duration_ns > 0 ? MIN((n->p.duration_ns + 999999) / 1000000, (int64_t)UINT32_MAX) : 60000;
	n->sink = (struct sink_profile){ .profile = &n->p, .values = values, .columns = n->c.v.v, .n_columns = n->c.v.n, .t_ms = f->t_ms,
					 .duration_ns = n->p.duration_ns, .interval_ms = x->interval_ms ? x->interval_ms : interval, .period = n->p.period };
	b->bytes += n->p.arena.held;
	if (++b->n == BATCH_FILES || b->bytes >= BATCH_BYTES)
		batch_store(b);
}

static void number_places(struct import *x)
{
	if (x->files.n)
		qsort(x->files.v, x->files.n, sizeof *x->files.v, by_series_and_time);
	for (size_t i = 0; i < x->files.n; i++) {
		x->series += !i || !same_place(&x->files.v[i - 1], &x->files.v[i]);
		x->files.v[i].place = x->series - 1;
		x->files.v[i].is_last = i + 1 == x->files.n || !same_place(&x->files.v[i], &x->files.v[i + 1]);
	}
	if (x->files.n)
		qsort(x->files.v, x->files.n, sizeof *x->files.v, by_time_and_series);
}

static void store_all(struct import *x, struct tsdb *db)
{
	number_places(x);
	struct import_batch b = { x, db, xcalloc(BATCH_FILES, sizeof *b.entries), 0, 0 };
	struct delta *deltas = xcalloc(x->series + 1, sizeof *deltas); /* by place */
	for (size_t i = 0; i < x->files.n; i++) {
		struct delta *d = &deltas[x->files.v[i].place];
		batch_add(&b, &x->files.v[i], d);
		if (x->files.v[i].is_last)
			delta_release(d); /* the increases are in the profile's arena */
		import_report(x, "stored", i, x->files.n);
	}
	batch_store(&b);
	free(deltas);
	free(b.entries);
}

/* ---- the command ---- */

static int check_flags(const struct import *x, int words, const char *name)
{
	if (words < 2) {
		fprintf(stderr, "pyrtool %s: a storage directory and files or folders are wanted\n", name);
		return TOOL_USAGE;
	}
	for (size_t i = 0; i < x->label.n; i++) {
		const char *eq = strchr(x->label.v[i], '=');
		if (!eq || eq == x->label.v[i]) {
			fprintf(stderr, "pyrtool %s: --label is name=value, not \"%s\"\n", name, x->label.v[i]);
			return TOOL_USAGE;
		}
	}
	return TOOL_OK;
}

static void find_files(struct import *x, int words, char **argv)
{
	walking = x;
	for (int i = 2; i <= words; i++) {
		x->root_len = strlen(argv[i]);
		while (x->root_len && argv[i][x->root_len - 1] == '/')
			x->root_len--;
		struct stat st;
		if (stat(argv[i], &st) == 0 && !S_ISDIR(st.st_mode)) {
			x->root_len = 0; /* folders of a file's own path say labels too */
			look_at(x, argv[i]);
		} else if (nftw(argv[i], walk, 32, FTW_PHYS)) {
			fprintf(stderr, "pyrtool tsdb import: cannot read %s: %s\n", argv[i], strerror(errno));
			x->bad++;
		}
	}
}

static void tell(const struct import *x, bool json)
{
	const struct { const char *key, *text; uint64_t n; } rows[] = {
		{ "files", "files read", x->files.n }, { "profiles", "profiles stored", x->profiles },
		{ "places", "kinds of profile and label sets", x->series },
		{ "withoutTime", "files say no time: that of their last change was taken", x->no_time },
		{ "withoutDuration", "files say a duration that is negative or over a year: it was not used", x->no_duration },
		{ "baselines", "files were the first of cumulative values: only what follows them counts", x->baselines },
		{ "duplicates", "sample types were there already with that stamp", x->duplicates },
		{ "tooNew", "profiles lie in the future and were refused", x->too_new },
		{ "tooOld", "profiles have no time that makes sense and were refused", x->too_old },
		{ "overLimit", "sample types were refused: too many series", x->over_limit },
		{ "bad", "files could not be taken in", x->bad },
	};
	struct buf b CLEANUP(buf_free) = { 0 };
	if (json)
		json_object_begin(&b);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (json)
			json_field_count(&b, rows[i].key, rows[i].n);
		else if (rows[i].n || i < 2)
			buf_printf(&b, "%llu %s\n", (unsigned long long)rows[i].n, rows[i].text);
	if (json) {
		json_object_end(&b);
		buf_putc(&b, '\n');
	}
	fputs(b.ptr, stdout);
}

int tool_tsdb_import(int argc, char **argv)
{
	const char *output = "text", name[] = "tsdb import";
	struct import x = { .said_mono_ms = clock_mono_ms() };
	struct opt flags[] = { { "label", OPT_LIST, &x.label, "<name=value>", "A label of all of it; may be repeated." },
			       { "name", OPT_STRING, &x.name, "<name>", "The profiles' type, as process_cpu:delta or memory; detected from their sample types if not given." },
			       { "interval", OPT_DURATION, &x.interval_ms, "<duration>", "How far apart they are; their duration, or a minute, if "
				 "not given." },
			       { "increases", OPT_BOOL, &x.increases, NULL, "Cumulative types hold increases, not values since the "
				 "program's start." },
			       { "output", OPT_STRING, &output, "<format>", "text or json." } };
	int words, status;
	bool json;
	struct tsdb *db;
	struct err e;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &json) || check_flags(&x, words, name))
		return TOOL_USAGE;
	if (tool_tsdb_open(&db, argv[1], false, &e))
		return tool_fail(name, &e);
	find_files(&x, words, argv);
	store_all(&x, db);
	int rc = tsdb_seal(db, true, &e);
	if (tsdb_close(db, rc ? NULL : &e) || rc)
		status = tool_fail(name, &e);
	else
		status = x.bad || x.too_new || x.too_old || x.over_limit ? TOOL_FAILED : TOOL_OK;
	tell(&x, json);
	for (size_t i = 0; i < x.files.n; i++) {
		free(x.files.v[i].path);
		free(x.files.v[i].name);
		free(x.files.v[i].labels);
	}
	vec_free(&x.files);
	free(x.label.v);
	return status;
}
