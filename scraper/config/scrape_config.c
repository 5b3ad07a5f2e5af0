/* SPDX-License-Identifier: Apache-2.0 */
/* scrape_configs onto struct job_config: one table with the keys of Prometheus and Parca, ours, harmless and refused;
 * then the rules between them. Decoded data is in one arena, with the configuration's reference count. */
#include "scraper/config/scrape_config.h"

#include <glob.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/units.h"
#include "base/vec.h"
#include "config/config_sources.h"
#include "scraper/config/object_sources.h"

#define DEFAULT_TIMEOUT_MS 10000

/* The raw values of one scrape_config, before derived ones are computed. */
struct raw_job {
	struct job_config job;
	const struct config_node *profiling;
};

#define J(key, type, member, def) { key, type, offsetof(struct raw_job, job.member), def }
#define PASSED_OVER(key, text) { key, CONFIG_IGNORED, .words = text }
#define NO_SAMPLES "ignored; metrics are asked for as text, version 0.0.4, and profiles have pprof's format"

static int decode_fallback(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	static const struct config_field text = { .type = CONFIG_STRING };
	static const char *const known[] = { "PrometheusText0.0.4", "PrometheusText1.0.0", "OpenMetricsText0.0.1",
					     "OpenMetricsText1.0.0", "PrometheusProto" };
	const char *s = NULL;
	int rc = config_decode_value(c, &text, n, &s, e);
	for (size_t i = 0; i < ARRAY_LEN(known) && !rc; i++)
		if (s && strcmp(s, known[i]) == 0) {
			*(bool *)at = i == 0;
			if (i)
				config_warn(c, n, "ignored; metrics are read as PrometheusText0.0.4 only");
			return 0;
		}
	return rc ? rc : config_error(c, n, e, "not a protocol of scrapes; PrometheusText0.0.4 is one");
}

/* The rules people have move it for exporters; a profile that was asked for there would be garbage. */
static void warn_of_metrics_path(struct config_ctx *c, const struct config_node *job, const struct relabel_config *r)
{
	const struct config_node *rules = config_get(job, "relabel_configs");
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->v[i].target_label, "__metrics_path__") == 0)
			config_warn(c, rules->items[i], "__metrics_path__ is no path of profiles; that is __profile_path__. Metrics are scraped by jobs with metrics_path");
}

static const struct config_field job_rows[] = {
	{ "job_name", CONFIG_STRING, offsetof(struct raw_job, job.name), NULL, CONFIG_REQUIRED },
	J("scrape_interval", CONFIG_DURATION, interval_ms, "0"),
	J("scrape_timeout", CONFIG_DURATION, timeout_ms, "0"),
	{ "scheme", CONFIG_ENUM, offsetof(struct raw_job, job.scheme), "http", .words = "http|https" },
	J("params", CONFIG_MULTIMAP, params, NULL),
	J("honor_labels", CONFIG_BOOL, honor_labels, "false"),
	J("enable_compression", CONFIG_BOOL, enable_compression, "true"),
	J("body_size_limit", CONFIG_SIZE, body_size_limit, "0"),
	J("sample_limit", CONFIG_COUNT, sample_limit, "0"),
	J("series_limit", CONFIG_COUNT, series_limit, "10000"),
	J("target_limit", CONFIG_COUNT, target_limit, "0"),
	J("label_limit", CONFIG_COUNT, label_limit, "0"),
	J("label_name_length_limit", CONFIG_COUNT, label_name_length_limit, "0"),
	J("label_value_length_limit", CONFIG_COUNT, label_value_length_limit, "0"),
	J("keep_dropped_targets", CONFIG_COUNT, keep_dropped_targets, "0"),
	{ NULL, CONFIG_INLINE, offsetof(struct raw_job, job.http), .table = &config_http_table },
	{ "relabel_configs", CONFIG_CUSTOM, offsetof(struct raw_job, job.relabel), .custom = config_relabel_decode },
	{ "metric_relabel_configs", CONFIG_CUSTOM, offsetof(struct raw_job, job.metric_relabel),
	  .custom = config_relabel_decode },
	{ "profiling_config", CONFIG_NODE, offsetof(struct raw_job, profiling) },
	J("metrics_path", CONFIG_STRING, metrics_path, NULL),
	J("honor_timestamps", CONFIG_BOOL, honor_timestamps, "true"),
	J("track_timestamps_staleness", CONFIG_BOOL, track_timestamps_staleness, "false"),
	{ "fallback_scrape_protocol", CONFIG_CUSTOM, offsetof(struct raw_job, job.fallback_is_text), .custom = decode_fallback },
	PASSED_OVER("normalized_addresses", "ignored; addresses are always stored relative to their binary"),
	PASSED_OVER("scrape_failure_log_file", "ignored; failures are in the log and on /targets"),
	PASSED_OVER("extra_scrape_metrics", "ignored; those series are always there"),
	PASSED_OVER("scrape_protocols", NO_SAMPLES),
	PASSED_OVER("scrape_classic_histograms", NO_SAMPLES),
	PASSED_OVER("always_scrape_classic_histograms", NO_SAMPLES),
	PASSED_OVER("scrape_native_histograms", NO_SAMPLES),
	PASSED_OVER("convert_classic_histograms_to_nhcb", NO_SAMPLES),
	PASSED_OVER("native_histogram_bucket_limit", NO_SAMPLES),
	PASSED_OVER("native_histogram_min_bucket_factor", NO_SAMPLES),
	PASSED_OVER("metric_name_validation_scheme", NO_SAMPLES),
	PASSED_OVER("metric_name_escaping_scheme", NO_SAMPLES),
};

/* Keys that only metrics have. */
static void warn_of_metrics_keys(struct config_ctx *c, const struct config_node *job)
{
	static const struct { const char *key, *text; } rows[] = {
		{ "honor_timestamps", "ignored; a profile's own time counts if it lies within the scrape" },
		{ "track_timestamps_staleness", "ignored; it is always on" },
		{ "fallback_scrape_protocol", "ignored; it is about metrics, which are scraped by jobs with metrics_path" },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const struct config_node *n = config_get(job, rows[i].key);
		size_t mark = config_enter(c, rows[i].key);
		if (n)
			config_warn(c, n, "%s", rows[i].text);
		config_leave(c, mark);
	}
}

static bool is_discovery_key(struct view key)
{
	return discovery_kind(key) || discovery_known_elsewhere(key);
}

static const struct config_table job_table = { job_rows, ARRAY_LEN(job_rows), sizeof(struct raw_job), NULL,
					       is_discovery_key };

int scrape_job_fingerprint(struct config_ctx *c, const struct config_node *n, struct view more, struct job_config *j, struct err *e)
{
	struct buf b = { .max = CONFIG_MAX_BYTES };
	config_canonical(n, &b);
	buf_printf(&b, "|%lld %lld %llu %lld %lld %lld %lld %lld %lld", (long long)j->interval_ms, (long long)j->timeout_ms,
		   (unsigned long long)j->body_size_limit, (long long)j->sample_limit, (long long)j->target_limit,
		   (long long)j->label_limit, (long long)j->label_name_length_limit, (long long)j->label_value_length_limit,
		   (long long)j->keep_dropped_targets);
	buf_putv(&b, more);
	bool full = b.overflow;
	j->fingerprint = arena_view(c->arena, buf_view(&b));
	buf_free(&b);
	return full ? config_error(c, n, e, "the job is too large") : 0;
}

#define INHERIT(member) if (!j->member) j->member = g->member

static void inherit(struct job_config *j, const struct config_global *g)
{
	if (!j->metrics_path)
		j->metrics_path = "/metrics";
	if (!j->interval_ms)
		j->interval_ms = g->scrape_interval_ms;
	j->metrics_timeout_ms = MIN(j->timeout_ms ? j->timeout_ms : g->scrape_timeout_ms ? g->scrape_timeout_ms : DEFAULT_TIMEOUT_MS,
				    j->interval_ms);
	if (!j->timeout_ms)
		j->timeout_ms = g->scrape_timeout_ms;
	if (!j->timeout_ms)
		j->timeout_ms = MAX(DEFAULT_TIMEOUT_MS, j->interval_ms);
	INHERIT(body_size_limit);
	INHERIT(sample_limit);
	INHERIT(target_limit);
	INHERIT(label_limit);
	INHERIT(label_name_length_limit);
	INHERIT(label_value_length_limit);
	INHERIT(keep_dropped_targets);
}

static atomic_uint replicas = 1;

void scraper_config_expect(unsigned n)
{
	atomic_store(&replicas, n);
}

/* The place in the file that sets the seconds of a type, or the nearest one. */
static const struct config_node *seconds_place(const struct config_node *job, const struct type_config *t)
{
	const struct config_node *type = config_get(config_get(config_get(job, "profiling_config"), "pprof_config"), t->name);
	const struct config_node *seconds = config_get(type, "seconds");
	return seconds ? seconds : type ? type : job;
}

/* Others ask the same targets, which may give one such profile at a time. An agent gives all clients the same windows, and fgprof
 * measures separately for each client. */
static void warn_of_no_room(const struct config_ctx *c, const struct config_node *n, const struct job_config *j)
{
	int64_t servers = atomic_load(&replicas);
	char interval[DURATION_LEN];
	for (size_t i = 0; i < j->n_types && servers > 1 && !j->agent; i++) {
		const struct type_config *t = &j->types[i];
		int64_t asked_s = scrape_type_seconds(t, j->interval_ms);
		if (t->enabled && asked_s * 1000 * servers >= j->interval_ms && strcmp(t->name, "fgprof") != 0)
			config_warn(c, seconds_place(n, t), "%s asks for %lld of %s%s: %lld servers (--scrape.replica) do not fit side by side, and "
				    "a target that gives one such profile at a time refuses some; seconds must be below scrape_interval/%lld",
				    t->name, (long long)asked_s, units_format_duration(j->interval_ms, interval),
				    t->seconds ? "" : " (seconds is not set)", (long long)servers, (long long)servers);
	}
}

static int check_intervals(struct config_ctx *c, const struct config_node *n, const struct job_config *j, struct err *e)
{
	if (j->interval_ms < 100)
		return config_error(c, n, e, "scrape_interval is under 100ms");
	for (size_t i = 0; i < j->n_types; i++) {
		const struct type_config *t = &j->types[i];
		if (t->enabled && t->delta && t->seconds * 1000 > j->interval_ms)
			return config_error(c, n, e, "%s asks for %lld seconds, more than scrape_interval", t->name,
					    (long long)t->seconds);
	}
	warn_of_no_room(c, n, j);
	return 0;
}

static void take_shown(struct config_ctx *c, const struct config_node *n, struct job_config *j)
{
	struct buf b = { 0 };
	config_redact_node(n, &b);
	j->shown = b.overflow ? VIEW("# too long to show\n") : arena_view(c->arena, buf_view(&b));
	buf_free(&b);
}

int scrape_job_decode(struct config_ctx *c, const struct config_node *n, const struct config_global *g, struct job_config *ret,
		      struct err *e)
{
	struct raw_job raw = { 0 };
	int rc = config_decode(c, &job_table, n, &raw, e);
	raw.job.config = ret->config;
	*ret = raw.job; /* also on failure: its expressions are released with the configuration */
	if (!rc && !ret->name[0])
		rc = config_error(c, n, e, "job_name is empty");
	if (!rc)
		rc = discovery_decode(c, n, &ret->sd, e);
	ret->metrics = ret->metrics_path != NULL;
	if (!rc)
		rc = scrape_types_decode(c, raw.profiling, ret, e);
	if (config_get(n, "honor_labels")) /* what the job says itself wins over what a preset means */
		ret->honor_labels = raw.job.honor_labels;
	if (rc)
		return rc;
	if (!ret->metrics) {
		warn_of_metrics_path(c, n, &ret->relabel);
		warn_of_metrics_keys(c, n);
	}
	bool timeout_said = ret->timeout_ms > 0;
	inherit(ret, g);
	if (ret->metrics && !raw.profiling) {
		if (timeout_said && ret->timeout_ms > ret->interval_ms)
			return config_error(c, config_get(n, "scrape_timeout"), e, "scrape_timeout is longer than scrape_interval");
		ret->timeout_ms = ret->metrics_timeout_ms;
	}
	take_shown(c, n, ret);
	rc = check_intervals(c, n, ret, e);
	return rc ? rc : scrape_job_fingerprint(c, n, VIEW(""), ret, e);
}

static void make_room(struct scraper_config *s, size_t n)
{
	s->own = arena_calloc(&s->arena, n + 1, sizeof *s->own);
	s->jobs = arena_calloc(&s->arena, n + 1, sizeof *s->jobs);
}

struct job_config *scraper_config_take(struct scraper_config *s)
{
	struct job_config *j = &s->own[s->n_own++];
	j->config = s;
	s->jobs[s->n_jobs++] = j;
	return j;
}

/* The jobs of one list, in `place` for messages. */
static int decode_jobs(struct config_ctx *c, const struct config_node *list, struct scraper_config *s, size_t room,
		       struct err *e)
{
	size_t mark = config_enter(c, "scrape_configs");
	int rc = list->type == CONFIG_NODE_LIST ? 0 : config_error(c, list, e, "a list of jobs is wanted");
	for (size_t i = 0; i < list->n && !rc && s->n_jobs < room; i++) {
		size_t inner = config_enter_index(c, i);
		struct job_config *j = scraper_config_take(s);
		rc = scrape_job_decode(c, list->items[i], &s->global, j, e);
		if (!rc && scraper_config_job(s, j->name) != j)
			rc = config_error(c, list->items[i], e, "job_name %s is taken by another job", j->name);
		config_leave(c, inner);
	}
	config_leave(c, mark);
	return rc;
}

/* Files named by scrape_config_files; each holds a list of scrape_configs. */
struct files {
	VEC(struct config_tree *) trees;
};

static int load_glob(struct config_ctx *c, const struct config_how *how, const struct config_node *n, struct files *f, struct err *e)
{
	const char *star = memchr(n->text.ptr, '*', n->text.len);
	if (star && memchr(star, '/', n->text.len - (size_t)(star - n->text.ptr)))
		return config_error(c, n, e, "a * may only be in the last part of the path");
	glob_t found = { 0 };
	bool absolute = n->text.len && n->text.ptr[0] == '/';
	char *pattern = absolute || !c->dir ? xstrndup(n->text.ptr, n->text.len)
					    : xasprintf("%s/%.*s", c->dir, VIEW_ARG(n->text));
	int g = glob(pattern, 0, NULL, &found), rc = 0;
	if (how->sources)
		config_sources_note_pattern(how->sources, pattern, &found);
	if (g && g != GLOB_NOMATCH)
		rc = config_error(c, n, e, "cannot be looked up");
	for (size_t i = 0; i < found.gl_pathc && !rc; i++) {
		struct config_tree *t = NULL;
		rc = config_load_how(&t, found.gl_pathv[i], how, e);
		if (!rc)
			vec_push(&f->trees, t);
	}
	globfree(&found);
	free(pattern);
	return rc;
}

static int load_files(struct config_ctx *c, const struct config_how *how, const struct config_node *n, struct files *f, struct err *e)
{
	if (!n || n->type == CONFIG_NODE_NULL)
		return 0;
	size_t mark = config_enter(c, "scrape_config_files");
	int rc = n->type == CONFIG_NODE_LIST ? 0 : config_error(c, n, e, "a list of files is wanted");
	for (size_t i = 0; i < n->n && !rc; i++)
		rc = n->items[i]->type == CONFIG_NODE_SCALAR ? load_glob(c, how, n->items[i], f, e)
							     : config_error(c, n->items[i], e, "the name of a file is wanted");
	config_leave(c, mark);
	return rc;
}

static const struct config_node *jobs_of(const struct config_tree *t)
{
	const struct config_node *n = config_get(config_root(t), "scrape_configs");
	return n && n->type != CONFIG_NODE_NULL ? n : NULL;
}

static int decode_files(struct config_ctx *c, const struct files *f, struct scraper_config *s, size_t room, struct err *e)
{
	static const struct config_field rows[] = { { "scrape_configs", CONFIG_NODE, 0 } };
	static const struct config_table table = CONFIG_TABLE(void *, rows, NULL);
	int rc = 0;
	for (size_t i = 0; i < f->trees.n && !rc; i++) {
		const void *unused = NULL;
		const struct config_node *list = jobs_of(f->trees.v[i]);
		const char *dir = c->dir, *file = config_root(f->trees.v[i])->file;
		if (config_is_empty(f->trees.v[i]))
			s->empty_file = arena_strndup(c->arena, file, strlen(file));
		c->dir = config_dirname(c->arena, file);
		rc = config_decode(c, &table, config_root(f->trees.v[i]), &unused, e);
		if (!rc && list)
			rc = decode_jobs(c, list, s, room, e);
		c->dir = dir;
	}
	return rc;
}

static int decode_all(struct config_ctx *c, const struct config_tree *t, struct scraper_config *s, struct err *e)
{
	struct files f = { 0 };
	const struct config_node *own = jobs_of(t);
	size_t room = own ? own->n : 0;
	int rc = config_global_decode(t, c, &s->global, e);
	if (!rc)
		rc = load_files(c, config_how(t), config_get(config_root(t), "scrape_config_files"), &f, e);
	for (size_t i = 0; i < f.trees.n; i++)
		room += jobs_of(f.trees.v[i]) ? jobs_of(f.trees.v[i])->n : 0;
	make_room(s, room);
	if (!rc && own)
		rc = decode_jobs(c, own, s, room, e);
	if (!rc)
		rc = decode_files(c, &f, s, room, e);
	if (!rc)
		rc = object_sources_decode(c, t, s, e);
	for (size_t i = 0; i < f.trees.n; i++)
		config_free(f.trees.v[i]);
	vec_free(&f.trees);
	return rc;
}

static struct scraper_config *new_config(void)
{
	static uint64_t serials;
	struct scraper_config *s = NEW(struct scraper_config);
	s->refs = 1;
	s->serial = __atomic_add_fetch(&serials, 1, __ATOMIC_RELAXED);
	arena_init(&s->arena, 0);
	return s;
}

int scraper_config_parse(struct scraper_config **ret, const struct config_tree *t, void (*warn)(void *arg, const char *text),
			 void *warn_arg, struct err *e)
{
	struct scraper_config *s = new_config();
	struct config_ctx c = { .arena = &s->arena, .warn = warn, .warn_arg = warn_arg };
	c.dir = config_dirname(&s->arena, config_root(t)->file);
	c.check_files = config_how(t)->check_files;
	int rc = decode_all(&c, t, s, e);
	config_ctx_release(&c);
	if (rc) {
		scraper_config_unref(s);
		return rc;
	}
	*ret = s;
	return 0;
}

struct scraper_config *scraper_config_new(size_t jobs)
{
	struct scraper_config *s = new_config();
	make_room(s, jobs);
	return s;
}

struct scraper_config *scraper_config_ref(struct scraper_config *c)
{
	__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
	return c;
}

void scraper_config_unref(struct scraper_config *c)
{
	if (!c || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
		return;
	for (size_t i = 0; i < c->n_own; i++) {
		config_relabel_release(&c->own[i].relabel);
		config_relabel_release(&c->own[i].metric_relabel);
	}
	for (size_t i = 0; i < c->n_parts; i++)
		scraper_config_unref(c->parts[i]);
	arena_free(&c->arena);
	free(c);
}

static void add_part(struct scraper_config *s, struct scraper_config *part)
{
	s->parts[s->n_parts++] = scraper_config_ref(part);
	for (size_t i = 0; i < part->n_jobs; i++)
		s->jobs[s->n_jobs++] = part->jobs[i];
}

struct scraper_config *scraper_config_join(struct scraper_config *base, struct scraper_config *const *parts, size_t n)
{
	struct scraper_config *s = new_config();
	size_t room = base->n_jobs;
	for (size_t i = 0; i < n; i++)
		room += parts[i]->n_jobs;
	s->jobs = arena_calloc(&s->arena, room + 1, sizeof *s->jobs);
	s->parts = arena_calloc(&s->arena, n + 1, sizeof *s->parts);
	s->global = base->global;
	add_part(s, base);
	for (size_t i = 0; i < n; i++)
		add_part(s, parts[i]);
	return s;
}

const char *scraper_config_empty_file(const struct scraper_config *c)
{
	return c->empty_file;
}

const struct job_config *scraper_config_job(const struct scraper_config *c, const char *name)
{
	for (size_t i = 0; i < c->n_jobs; i++)
		if (c->jobs[i]->name && strcmp(c->jobs[i]->name, name) == 0)
			return c->jobs[i];
	return NULL;
}

static void count_targets(void *arg, const struct discovery_group *g)
{
	*(size_t *)arg += g->n_targets;
}

static void no_problem(void *arg, const struct err *e)
{
}

static void no_matter(void *arg)
{
}

static size_t static_targets(const struct job_config *j)
{
	size_t n = 0;
	for (size_t i = 0; i < j->sd.n; i++) {
		struct discovery_provider *p = NULL;
		struct discovery_emit emit = { count_targets, no_problem, no_matter, &n };
		if (strcmp(j->sd.v[i].ops->key, "static_configs") == 0 &&
		    j->sd.v[i].ops->start(&p, j->sd.v[i].config, &emit, NULL) == 0)
			j->sd.v[i].ops->stop(p);
	}
	return n;
}

void scraper_config_check(const struct scraper_config *c, struct buf *out)
{
	char interval[DURATION_LEN], timeout[DURATION_LEN];
	buf_printf(out, "%zu scrape job%s\n", c->n_jobs, c->n_jobs == 1 ? "" : "s");
	for (size_t i = 0; i < c->n_jobs; i++) {
		const struct job_config *j = c->jobs[i];
		buf_printf(out, "  %s: every %s, timeout %s, %zu static target%s", j->name,
			   units_format_duration(j->interval_ms, interval), units_format_duration(j->timeout_ms, timeout),
			   static_targets(j), static_targets(j) == 1 ? "" : "s");
		for (size_t k = 0; k < j->sd.n; k++)
			if (strcmp(j->sd.v[k].ops->key, "static_configs") != 0)
				buf_printf(out, ", %s", j->sd.v[k].ops->key);
		if (j->metrics)
			buf_printf(out, "; metrics: %s", j->metrics_path);
		if (!j->metrics || j->n_types > 1)
			buf_puts(out, "; profiles:");
		for (size_t k = j->metrics; k < j->n_types; k++)
			if (j->types[k].enabled)
				buf_printf(out, " %s%s", j->types[k].name, j->types[k].delta ? " (delta)" : "");
		buf_putc(out, '\n');
	}
}
