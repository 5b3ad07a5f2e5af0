/* SPDX-License-Identifier: Apache-2.0 */
/* What the API tells of the system: targets, flags, configuration, build, run-time. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "base/vec.h"
#include "config.h"
#include "model/admin.h"
#include "web/answer.h"
#include "web/internal.h"

static void put_field(struct buf *b, const char *key, struct view v)
{
	if (b->len && b->ptr[b->len - 1] != '{')
		buf_putc(b, ',');
	buf_printf(b, "\"%s\":", key);
	buf_json_string(b, v);
}

static void put_field_text(struct buf *b, const char *key, const char *v)
{
	put_field(b, key, view_of(v));
}

static void end_object(struct httpd_request *rq)
{
	buf_putc(httpd_out(rq), '}');
	answer_end(rq, NULL, 0, NULL, 0);
}

/* ---- targets ---- */

struct target_writer {
	struct buf *b;
	struct view pool;      /* only this one; empty = all */
	bool first;
	struct buf dropped;    /* their array, written after the active ones */
	VEC(struct { struct view pool; size_t n; }) counts;
	struct arena *arena;
};

static void put_health(struct buf *b, enum target_health h)
{
	put_field_text(b, "health", h == TARGET_UP ? "up" : h == TARGET_DOWN ? "down" : "unknown");
}

static void put_active(void *arg, const struct status_target *t)
{
	struct target_writer *w = arg;
	struct buf *b = w->b;
	char text[DURATION_LEN];
	if (w->pool.len && !view_eq(w->pool, t->pool))
		return;
	buf_puts(b, w->first ? "{\"discoveredLabels\":" : ",{\"discoveredLabels\":");
	w->first = false;
	labels_json(t->discovered, b);
	buf_puts(b, ",\"labels\":");
	labels_json(t->labels, b);
	put_field(b, "scrapePool", t->pool);
	put_field(b, "scrapeUrl", t->scrape_url);
	put_field(b, "globalUrl", t->global_url.len ? t->global_url : t->scrape_url);
	put_field(b, "profile", t->profile);
	put_field(b, "lastError", t->last_error);
	if (t->note.len)
		put_field(b, "note", t->note);
	char when[RFC3339_LEN];
	put_field_text(b, "lastScrape", t->last_scrape_ms ? clock_rfc3339_ms(t->last_scrape_ms, when) : "0001-01-01T00:00:00Z");
	buf_puts(b, ",\"lastScrapeDuration\":");
	json_float(b, (double)t->last_duration_ns / 1e9);
	put_health(b, t->health);
	put_field_text(b, "scrapeInterval", units_format_duration(t->interval_ms, text));
	put_field_text(b, "scrapeTimeout", units_format_duration(t->timeout_ms, text));
	buf_printf(b, ",\"lastBytes\":%lld,\"lastSamples\":%lld}", (long long)t->last_bytes, (long long)t->last_samples);
}

static void count_dropped(struct target_writer *w, struct view pool)
{
	for (size_t i = 0; i < w->counts.n; i++)
		if (view_eq(w->counts.v[i].pool, pool)) {
			w->counts.v[i].n++;
			return;
		}
	__auto_type c = vec_add(&w->counts);
	c->pool = arena_view(w->arena, pool);
	c->n = 1;
}

static void put_dropped(void *arg, const struct status_dropped *d)
{
	struct target_writer *w = arg;
	if (w->pool.len && !view_eq(w->pool, d->pool))
		return;
	count_dropped(w, d->pool);
	buf_puts(&w->dropped, w->dropped.len ? ",{\"discoveredLabels\":" : "{\"discoveredLabels\":");
	labels_json(d->discovered, &w->dropped);
	put_field(&w->dropped, "scrapePool", d->pool);
	buf_putc(&w->dropped, '}');
}

static void skip_active(void *arg, const struct status_target *t)
{
	(void)arg, (void)t;
}

void serve_targets(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct view state = httpd_param(rq, "state");
	bool active = !state.len || !view_eqs(state, "dropped"), dropped = !state.len || !view_eqs(state, "active");
	struct target_writer tw = { .b = answer_begin(rq), .pool = httpd_param(rq, "scrapePool"), .first = true,
				    .arena = httpd_arena(rq) };
	buf_puts(tw.b, "{\"activeTargets\":[");
	if (w->o.targets)
		w->o.targets->each(w->o.targets, active ? put_active : skip_active, put_dropped, &tw);
	buf_puts(tw.b, "],\"droppedTargets\":[");
	if (dropped)
		buf_putv(tw.b, buf_view(&tw.dropped));
	buf_puts(tw.b, "],\"droppedTargetCounts\":{");
	for (size_t i = 0; i < tw.counts.n; i++) {
		if (i)
			buf_putc(tw.b, ',');
		buf_json_string(tw.b, tw.counts.v[i].pool);
		buf_printf(tw.b, ":%zu", tw.counts.v[i].n);
	}
	buf_putc(tw.b, '}');
	buf_free(&tw.dropped);
	vec_free(&tw.counts);
	end_object(rq);
}

struct pools {
	struct arena *arena;
	VEC(struct view) v;
};

static void add_pool(struct pools *p, struct view pool)
{
	for (size_t i = 0; i < p->v.n; i++)
		if (view_eq(p->v.v[i], pool))
			return;
	vec_push(&p->v, arena_view(p->arena, pool));
}

static void pool_of_active(void *arg, const struct status_target *t)
{
	add_pool(arg, t->pool);
}

static void pool_of_dropped(void *arg, const struct status_dropped *d)
{
	add_pool(arg, d->pool);
}

static int pool_order(const void *a, const void *b)
{
	return view_cmp(*(const struct view *)a, *(const struct view *)b);
}

/* Jobs that have a target, dropped or not. */
void serve_scrape_pools(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct pools p = { .arena = httpd_arena(rq) };
	if (w->o.targets)
		w->o.targets->each(w->o.targets, pool_of_active, pool_of_dropped, &p);
	if (p.v.n)
		qsort(p.v.v, p.v.n, sizeof *p.v.v, pool_order);
	struct buf *b = answer_begin(rq);
	buf_puts(b, "{\"scrapePools\":[");
	for (size_t i = 0; i < p.v.n; i++) {
		if (i)
			buf_putc(b, ',');
		buf_json_string(b, p.v.v[i]);
	}
	buf_putc(b, ']');
	vec_free(&p.v);
	end_object(rq);
}

/* ---- the program ---- */

/* Without "features": Grafana takes a server that has them for Mimir. */
void serve_buildinfo(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = answer_begin(rq);
	buf_putc(b, '{');
	put_field_text(b, "version", PACKAGE_VERSION);
	put_field_text(b, "revision", "");
	put_field_text(b, "branch", "");
	put_field_text(b, "buildUser", "");
	put_field_text(b, "buildDate", "");
	put_field_text(b, "goVersion", "");
	end_object(rq);
}

void serve_flags(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct buf *b = answer_begin(rq), value = { 0 };
	buf_putc(b, '{');
	for (size_t i = 0; i < w->o.n_flags; i++) {
		if (w->o.flags[i].type == OPT_REFUSED)
			continue;
		buf_reset(&value);
		opts_value(&w->o.flags[i], &value);
		put_field(b, w->o.flags[i].name, buf_view(&value));
	}
	buf_free(&value);
	end_object(rq);
}

void serve_config(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	char *text AUTOFREE = w->o.config_text ? w->o.config_text(w->o.arg) : NULL;
	struct buf *b = answer_begin(rq);
	buf_putc(b, '{');
	put_field_text(b, "yaml", text ? text : "");
	end_object(rq);
}

/* Steps of the wall clock: "3600s back, at ...", and how long retention waits because of it. */
static void put_clock(struct buf *b, struct storage_admin *admin)
{
	struct admin_clock c = { .steps = 0 };
	char far[DURATION_LEN], when[RFC3339_LEN], text[DURATION_LEN + RFC3339_LEN + 32] = "", waits[DURATION_LEN] = "";
	if (admin && admin->clock)
		admin->clock(admin, &c);
	if (c.steps)
		snprintf(text, sizeof text, "%s %s, to %s", units_format_duration(llabs(c.last_step_ms) / 1000 * 1000, far),
			 c.last_step_ms < 0 ? "back" : "ahead", clock_rfc3339_ms(c.last_at_ms, when));
	if (c.retention_waits_ms)
		units_format_duration((c.retention_waits_ms + 999) / 1000 * 1000, waits);
	buf_printf(b, ",\"clockSteps\":%llu", (unsigned long long)c.steps);
	put_field_text(b, "lastClockStep", text);
	put_field_text(b, "retentionWaits", waits);
}

void serve_runtimeinfo(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct web_reload_state state = { .ok = true, .t_ms = w->start_ms };
	if (w->o.reload_state)
		w->o.reload_state(w->o.arg, &state);
	char when[RFC3339_LEN], cwd[4096], host[256] = "";
	if (!getcwd(cwd, sizeof cwd))
		cwd[0] = 0;
	gethostname(host, sizeof host - 1);
	struct buf *b = answer_begin(rq);
	buf_putc(b, '{');
	put_field_text(b, "startTime", clock_rfc3339_ms(w->start_ms, when));
	put_field_text(b, "CWD", cwd);
	put_field_text(b, "hostname", host);
	put_field_text(b, "serverTime", clock_rfc3339_ms(clock_now_ms(), when));
	buf_printf(b, ",\"reloadConfigSuccess\":%s", state.ok ? "true" : "false");
	put_field_text(b, "lastConfigTime", clock_rfc3339_ms(state.t_ms, when));
	put_field_text(b, "lastConfigError", state.error);
	buf_printf(b, ",\"GOMAXPROCS\":%ld", sysconf(_SC_NPROCESSORS_ONLN));
	put_field_text(b, "storageRetention", w->o.storage_retention ? w->o.storage_retention : "");
	put_clock(b, w->admin);
	end_object(rq);
}

/* ---- what clients ask for and this server does not have: they get an empty list ---- */

static void answer_raw(struct httpd_request *rq, const char *json)
{
	buf_puts(answer_begin(rq), json);
	answer_end(rq, NULL, 0, NULL, 0);
}

void serve_no_rules(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct err e;
	struct view type = httpd_param(rq, "type");
	if (type.len && !view_eqs(type, "alert") && !view_eqs(type, "record")) {
		err_set(&e, ERR_BAD_DATA, "invalid parameter \"type\": not supported value \"%.*s\"", VIEW_ARG(type));
		answer_error(rq, &e);
		return;
	}
	answer_raw(rq, "{\"groups\":[]}");
}

void serve_no_alerts(struct httpd_request *rq, void *arg)
{
	(void)arg;
	answer_raw(rq, "{\"alerts\":[]}");
}

void serve_no_alertmanagers(struct httpd_request *rq, void *arg)
{
	(void)arg;
	answer_raw(rq, "{\"activeAlertmanagers\":[],\"droppedAlertmanagers\":[]}");
}

void serve_no_target_metadata(struct httpd_request *rq, void *arg)
{
	(void)arg;
	answer_raw(rq, "[]");
}

/* The API answers once the log has been read. */
void serve_walreplay(struct httpd_request *rq, void *arg)
{
	(void)arg;
	answer_raw(rq, "{\"min\":0,\"max\":0,\"current\":0,\"state\":\"done\"}");
}

void serve_unknown_api(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct err e;
	struct view path = httpd_path(rq);
	err_set(&e, ERR_NOT_FOUND, "there is no %.*s", (int)MIN(path.len, 200), path.ptr);
	answer_error(rq, &e);
}
