/* SPDX-License-Identifier: Apache-2.0 */
/* Scraped and discovered targets, and the effect of relabelling: Prometheus's targets, scrape_pools and relabel_steps, and our own
 * `discovery`. Rows are written as they come, and there may be 100,000 (struct answer_rows). */
#include <jansson.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/units.h"
#include "base/vec.h"
#include "config/config.h"
#include "model/relabel.h"
#include "web/answer.h"
#include "web/internal.h"
#include "web/remedies.h"

#define LABELS_MAX 256           /* that relabel_steps takes */

static void end_object(struct answer_rows *rows)
{
	json_object_end(rows->b);
	answer_rows_end(rows);
}

static void put_time(struct buf *b, const char *key, int64_t t_ms)
{
	char when[RFC3339_LEN];
	json_field_text(b, key, t_ms ? clock_rfc3339_ms(t_ms, when) : "0001-01-01T00:00:00Z");
}

/* ---- targets ---- */

/* Begins a row; false: no more are written. */
static bool begin_row(struct answer_rows *w)
{
	if (!answer_rows_more(w))
		return false;
	json_object_begin(w->b);
	json_key(w->b, "discoveredLabels");
	return true;
}

static const char *health_text(enum target_health h)
{
	return h == TARGET_UP ? "up" : h == TARGET_DOWN ? "down" : "unknown";
}

static void put_remedy(struct buf *b, const struct status_target *t)
{
	struct buf text = { 0 };
	remedy_put(&text, t);
	if (text.len)
		json_field(b, "remedy", buf_view(&text));
	buf_free(&text);
}

static bool put_active(void *arg, const struct status_target *t)
{
	struct answer_rows *w = arg;
	struct buf *b = w->b;
	char text[DURATION_LEN];
	if (!begin_row(w))
		return false;
	labels_json(t->discovered, b);
	json_key(b, "labels");
	labels_json(t->labels, b);
	json_field(b, "scrapePool", t->pool);
	json_field(b, "scrapeUrl", t->scrape_url);
	json_field(b, "globalUrl", t->global_url.len ? t->global_url : t->scrape_url);
	json_field(b, "profile", t->profile);
	json_field(b, "lastError", t->last_error);
	if (t->note.len)
		json_field(b, "note", t->note);
	put_remedy(b, t);
	put_time(b, "lastScrape", t->last_scrape_ms);
	json_field_float(b, "lastScrapeDuration", (double)t->last_duration_ns / 1e9);
	json_field_text(b, "health", health_text(t->health));
	json_field_text(b, "scrapeInterval", units_format_duration(t->interval_ms, text));
	json_field_text(b, "scrapeTimeout", units_format_duration(t->timeout_ms, text));
	json_field_int(b, "lastBytes", t->last_bytes);
	json_field_int(b, "lastSamples", t->last_samples);
	json_object_end(b);
	return true;
}

static bool put_dropped(void *arg, const struct status_dropped *d)
{
	struct answer_rows *w = arg;
	if (!begin_row(w))
		return false;
	labels_json(d->discovered, w->b);
	json_field(w->b, "scrapePool", d->pool);
	if (d->profile.len)
		json_field(w->b, "profile", d->profile);
	json_field(w->b, "reason", d->reason);
	json_field_bool(w->b, "failed", d->failed);
	json_object_end(w->b);
	return true;
}

static void put_dropped_count(void *arg, const struct status_job *j)
{
	struct answer_rows *w = arg;
	if (!answer_rows_more(w))
		return;
	json_key_view(w->b, j->pool);
	json_count(w->b, j->dropped);
}

static int read_health(const struct httpd_request *rq, unsigned *ret, struct err *e)
{
	static const enum target_health all[] = { TARGET_UP, TARGET_DOWN, TARGET_UNKNOWN };
	const char *names[ARRAY_LEN(all)];
	unsigned which;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		names[i] = health_text(all[i]);
	int rc = param_choices(rq, "health", &(struct param_names){ names, ARRAY_LEN(all), false }, &which, e);
	*ret = 0;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (which & 1U << i)
			*ret |= HEALTH_BIT(all[i]);
	return rc;
}

static int read_query(const struct httpd_request *rq, struct status_query *q, struct err *e)
{
	*q = (struct status_query){ .pool = httpd_param(rq, "scrapePool"), .search = httpd_param(rq, "search") };
	int rc = param_limit(rq, "limit", &q->limit, e);
	if (!rc)
		rc = param_limit(rq, "offset", &q->offset, e);
	return rc ? rc : read_health(rq, &q->health, e);
}

/* A list with its rows, if they are wanted; how many match in all. */
static size_t put_active_list(struct answer_rows *w, struct status_targets *s, const struct status_query *q, bool wanted)
{
	json_array_begin_at(w->b, "activeTargets");
	size_t n = wanted && s ? s->active(s, q, put_active, w) : 0;
	json_array_end(w->b);
	return n;
}

static size_t put_dropped_list(struct answer_rows *w, struct status_targets *s, const struct status_query *q, bool wanted)
{
	json_array_begin_at(w->b, "droppedTargets");
	size_t n = wanted && s ? s->dropped(s, q, put_dropped, w) : 0;
	json_array_end(w->b);
	json_object_begin_at(w->b, "droppedTargetCounts");
	if (wanted && s)
		s->jobs(s, put_dropped_count, w);
	json_object_end(w->b);
	return n;
}

/* Any other state is not an error; then there are neither, as in Prometheus. */
static void read_state(const struct httpd_request *rq, bool *ret_active, bool *ret_dropped)
{
	static const char *const names[] = { "any", "active", "dropped" };
	size_t which;
	bool known = !param_choice(rq, "state", &(struct param_names){ names, ARRAY_LEN(names), true }, 0, &which, NULL);
	*ret_active = known && which != 2;
	*ret_dropped = known && which != 1;
}

void serve_targets(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	bool wants_active, wants_dropped;
	struct status_query q;
	struct err e;
	read_state(rq, &wants_active, &wants_dropped);
	if (read_query(rq, &q, &e)) {
		answer_error(rq, &e);
		return;
	}
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	json_object_begin(rows.b);
	size_t active = put_active_list(&rows, w->o.targets, &q, wants_active);
	size_t dropped = put_dropped_list(&rows, w->o.targets, &q, wants_dropped);
	json_field_count(rows.b, "activeTargetCount", active);
	json_field_count(rows.b, "droppedTargetCount", dropped);
	end_object(&rows);
}

/* ---- jobs ---- */

struct pools {
	struct arena *arena;
	VEC(struct view) v;
};

static void add_pool(void *arg, const struct status_job *j)
{
	struct pools *p = arg;
	vec_push(&p->v, arena_view(p->arena, j->pool));
}

static int pool_order(const void *a, const void *b)
{
	return view_cmp(*(const struct view *)a, *(const struct view *)b);
}

void serve_scrape_pools(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct pools p = { .arena = httpd_arena(rq) };
	if (w->o.targets)
		w->o.targets->jobs(w->o.targets, add_pool, &p);
	if (p.v.n)
		qsort(p.v.v, p.v.n, sizeof *p.v.v, pool_order);
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	json_object_begin(rows.b);
	json_array_begin_at(rows.b, "scrapePools");
	for (size_t i = 0; i < p.v.n && answer_rows_more(&rows); i++)
		json_text(rows.b, p.v.v[i]);
	json_array_end(rows.b);
	vec_free(&p.v);
	end_object(&rows);
}

/* The job of a parameter that has to be there. */
static int param_pool(const struct httpd_request *rq, const struct web *w, struct view *ret, struct err *e)
{
	*ret = httpd_param(rq, "scrapePool");
	if (!ret->len)
		return err_set(e, ERR_BAD_DATA, "no scrapePool parameter provided");
	return w->o.targets ? 0 : err_set(e, ERR_UNAVAILABLE, "there is no scraper");
}

void serve_scrape_pool_config(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct buf yaml = { 0 };
	struct answer_rows rows;
	struct view pool;
	answer_rows_begin(&rows, rq);
	if (!param_pool(rq, w, &pool, &rows.e))
		w->o.targets->config(w->o.targets, pool, &yaml, &rows.e);
	json_object_begin(rows.b);
	answer_rows_text(&rows, "yaml", buf_view(&yaml));
	end_object(&rows);
	buf_free(&yaml);
}

/* "since" is there with an error only. */
static void put_source(struct buf *b, const struct status_source *s)
{
	json_object_begin(b);
	json_field(b, "kind", s->kind);
	if (s->role.len)
		json_field(b, "role", s->role);
	json_field(b, "name", s->name);
	json_field_count(b, "groups", s->groups);
	json_field_count(b, "targets", s->targets);
	json_field_bool(b, "ready", s->ready);
	json_field(b, "error", s->error);
	if (s->error.len)
		put_time(b, "since", s->error_since_ms);
	put_time(b, "lastChange", s->changed_ms);
	json_object_end(b);
}

static void put_job(void *arg, const struct status_job *j)
{
	struct answer_rows *w = arg;
	struct buf *b = w->b;
	if (!answer_rows_more(w))
		return;
	json_object_begin(b);
	json_field(b, "scrapePool", j->pool);
	json_field_count(b, "targets", j->targets);
	json_field_count(b, "up", j->up);
	json_field_count(b, "down", j->down);
	json_field_count(b, "profiles", j->endpoints);
	json_field_count(b, "dropped", j->dropped);
	json_field_count(b, "droppedProfiles", j->dropped_rows);
	json_field_count(b, "failedProfiles", j->failed);
	json_array_begin_at(b, "sources");
	for (size_t i = 0; i < j->n_sources && answer_rows_more(w); i++)
		put_source(b, &j->sources[i]);
	json_array_end(b);
	json_object_end(b);
}

void serve_discovery(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct answer_rows jobs;
	answer_rows_begin(&jobs, rq);
	json_object_begin(jobs.b);
	json_array_begin_at(jobs.b, "jobs");
	if (w->o.targets)
		w->o.targets->jobs(w->o.targets, put_job, &jobs);
	json_array_end(jobs.b);
	end_object(&jobs);
}

/* ---- relabel_steps ---- */

static bool is_secret_label(struct view name)
{
	struct view param = VIEW("__param_");
	return view_starts(name, param) && config_secret_name(view_make(name.ptr + param.len, name.len - param.len));
}

/* A rule as Prometheus's API has it; the values of secret parameters are not shown. */
static void put_rule(struct buf *b, const struct relabel_rule *r)
{
	json_object_begin(b);
	if (r->n_source_labels) {
		json_array_begin_at(b, "source_labels");
		for (size_t i = 0; i < r->n_source_labels; i++)
			json_text(b, view_of(r->source_labels[i]));
		json_array_end(b);
	}
	json_field_text(b, "separator", r->separator);
	json_field_text(b, "regex", r->regex);
	if (r->modulus)
		json_field_count(b, "modulus", r->modulus);
	if (r->target_label[0])
		json_field_text(b, "target_label", r->target_label);
	json_field_text(b, "replacement", is_secret_label(view_of(r->target_label)) ? "<secret>" : r->replacement);
	json_field_text(b, "action", relabel_action_text(r->action));
	json_object_end(b);
}

static void put_step(void *arg, const struct relabel_rule *r, struct labels after, bool keep)
{
	struct answer_rows *w = arg;
	struct buf *b = w->b;
	if (!answer_rows_more(w))
		return;
	json_object_begin(b);
	json_key(b, "rule");
	put_rule(b, r);
	json_key(b, "output");
	labels_json(after, b);
	json_field_bool(b, "keep", keep);
	json_object_end(b);
}

/* {"name":"value"}: its strings are borrowed from j. */
static int read_labels(const json_t *j, struct labels_builder *b, struct err *e)
{
	const char *name;
	json_t *value;
	if (!json_is_object(j))
		return err_set(e, ERR_BAD_DATA, "error parsing labels: they are not a JSON object");
	if (json_object_size(j) > LABELS_MAX)
		return err_set(e, ERR_BAD_DATA, "error parsing labels: there are more than %d", LABELS_MAX);
	json_object_foreach((json_t *)j, name, value) {
		if (!json_is_string(value))
			return err_set(e, ERR_BAD_DATA, "error parsing labels: a value is not a string");
		labels_builder_set(b, view_of(name), view_make(json_string_value(value), json_string_length(value)));
	}
	return 0;
}

static int write_steps(const struct web *w, struct view pool, const json_t *labels, struct answer_rows *out, struct err *e)
{
	struct labels_builder b;
	labels_builder_init(&b, (struct labels){ 0 });
	int rc = read_labels(labels, &b, e);
	if (!rc)
		rc = w->o.targets->relabel(w->o.targets, pool, labels_builder_finish(&b), put_step, out, e);
	labels_builder_free(&b);
	return rc;
}

void serve_relabel_steps(struct httpd_request *rq, void *arg)
{
	struct view pool, text = httpd_param(rq, "labels");
	struct answer_rows steps;
	json_t *labels = NULL;
	struct err e;
	int rc = param_pool(rq, arg, &pool, &e);
	answer_rows_begin(&steps, rq);
	json_object_begin(steps.b);
	json_array_begin_at(steps.b, "steps");
	if (!rc && !text.len)
		rc = err_set(&e, ERR_BAD_DATA, "no labels parameter provided");
	if (!rc) {
		labels = json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES, NULL);
		rc = labels ? write_steps(arg, pool, labels, &steps, &e) : err_set(&e, ERR_BAD_DATA, "error parsing labels: they are not JSON");
	}
	if (rc)
		steps.e = e;
	json_array_end(steps.b);
	end_object(&steps);
	json_decref(labels);
}
