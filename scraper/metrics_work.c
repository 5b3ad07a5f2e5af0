/* SPDX-License-Identifier: Apache-2.0 */
/* As in Prometheus (docs/configuration.md, "Metrics"), with one difference. When a scrape fails in the middle of its body, all series
 * end; Prometheus keeps those that were read before. */
#include "scraper/memory.h"
#include "scraper/metrics_work.h"

#include <strings.h>

#include "base/clock.h"
#include "base/lock.h"
#include "model/relabel.h"
#include "scraper/text/metric_cache.h"
#include "scraper/state/table.h"
#include "scraper/text/text_metrics.h"

#define SNAP_MS 2                         /* or a hundredth of the interval, if that is less */
#define AHEAD_MS (10 * INT64_C(60000))    /* a sample may be so far in the future */
#define ENDS_AT_A_TIME 1000               /* stale markers in one batch when the series of a target are ended to free their memory */
#define LOOK_EVERY 256                    /* lines between two looks at the clock */

/* One body on its way into the batch. */
struct putting {
	struct scrape_job *j;
	struct metric_cache *c;
	struct text_metrics t;
	int64_t ahead_ms;   /* the latest stamp that is taken */
	int64_t n_limit;    /* samples that sample_limit counts */
	struct family_lines families;
};

int64_t metrics_work_snap(int64_t start_ms, int64_t slot_ms, int64_t interval_ms)
{
	int64_t late = start_ms - slot_ms, tolerance = MIN(interval_ms / 100, (int64_t)SNAP_MS);
	return slot_ms && late >= -tolerance && late <= tolerance ? slot_ms : start_ms;
}

static void forget_times(struct metric_cache *c)
{
	for (size_t i = 0; i < c->series.n; i++)
		c->series.v[i].last_t_ms = INT64_MIN;
}

void metrics_work_begin(struct scrape_job *j)
{
	struct metric_cache *c = &j->ep->metrics;
	int64_t t = j->work->kind == WORK_SCRAPE ? metrics_work_snap(j->work->start_ms, j->work->slot_ms, j->ep->interval_ms) : clock_now_ms();
	j->t_ms = stamp_after(c->last_t_ms, t);
	if (j->t_ms < c->last_t_ms)
		forget_times(c); /* the clock was set back */
	c->last_t_ms = j->t_ms;
	c->scrape++;
	c->pass++;
	if (j->work->kind == WORK_SCRAPE && c->serial != j->work->config->serial) {
		metric_cache_forget_texts(c);
		c->serial = j->work->config->serial;
	}
}

/* ---- labels ---- */

static bool has_label(struct labels l, struct view name)
{
	for (size_t i = 0; i < l.n; i++)
		if (view_eq(l.v[i].name, name))
			return true;
	return false;
}

/* The target's labels win, and what the text has under their names becomes exported_NAME, short names first. */
static int set_target_labels(struct labels_builder *b, struct labels own, struct labels target, struct arena *a)
{
	size_t longest = 0;
	for (size_t i = 0; i < target.n; i++) {
		labels_builder_set(b, target.v[i].name, target.v[i].value);
		longest = MAX(longest, target.v[i].name.len);
	}
	for (size_t len = 1; len <= longest; len++) {
		for (size_t i = 0; i < target.n; i++) {
			struct view name = target.v[i].name, value = labels_get(own, name);
			if (name.len != len || !value.len)
				continue;
			do {
				name = view_of(arena_printf(a, "exported_%.*s", VIEW_ARG(name)));
				if (!name.ptr)
					return -1;
			} while (labels_builder_get(b, name).len);
			labels_builder_set(b, name, value);
		}
	}
	return 0;
}

static int check_labels(const struct job_config *j, struct labels l, struct err *e)
{
	struct view name = labels_get(l, VIEW(LABEL_NAME));
	int len = (int)MIN(name.len, (size_t)50);
	const char *over = NULL;
	if (!name.len)
		return err_set(e, ERR_BAD_DATA, "metric_relabel_configs left a series without a name");
	if (j->label_limit && l.n > (size_t)j->label_limit)
		over = "label_limit";
	for (size_t i = 0; i < l.n && !over; i++) {
		if (j->label_name_length_limit && l.v[i].name.len > (size_t)j->label_name_length_limit)
			over = "label_name_length_limit";
		if (j->label_value_length_limit && l.v[i].value.len > (size_t)j->label_value_length_limit)
			over = "label_value_length_limit";
	}
	if (!over)
		return 0;
	metric_inc(&scraper_table[M_LABEL_LIMITS]);
	return err_set(e, ERR_LIMIT, "a series %.*s is over %s", len, name.ptr, over);
}

/* The series of a text that is new: the target's labels on top, relabelled. */
static int add_text(struct putting *x, struct metric_text **ret)
{
	struct scrape_job *j = x->j;
	const struct job_config *cfg = j->work->job;
	struct arena *a = &j->worker->arena;
	struct labels own, target = *j->ep->target->labels;
	struct labels_builder b;
	int rc = text_metrics_labels(&x->t, a, &own, &j->err);
	if (rc)
		return rc;
	labels_builder_init(&b, (struct labels){ 0 });
	for (size_t i = 0; i < own.n; i++) /* they are unique: none has to be looked for */
		if (own.v[i].value.len)
			vec_push(&b.l, own.v[i]);
	for (size_t i = 0; i < target.n && cfg->honor_labels; i++)
		if (!has_label(own, target.v[i].name))
			labels_builder_set(&b, target.v[i].name, target.v[i].value);
	if (!cfg->honor_labels && set_target_labels(&b, own, target, a))
		rc = err_set(&j->err, ERR_LIMIT, "the labels of a series take too much memory");
	int keep = rc ? rc : relabel_within(cfg->metric_relabel.v, cfg->metric_relabel.n, &b, a,
					    cfg->confined ? &cfg->confined->relabel : NULL, NULL, &j->err);
	if (keep < 0 && !rc)
		err_wrap(&j->err, "metric_relabel_configs");
	struct labels l = keep > 0 ? labels_builder_finish(&b) : (struct labels){ 0 };
	rc = keep < 0 ? keep : 0;
	if (l.n)
		rc = check_labels(cfg, l, &j->err);
	if (!rc)
		rc = metric_cache_add(x->c, x->t.series, l, ret, &j->err);
	if (rc == -ERR_UNAVAILABLE)
		memory_refused(j);
	labels_builder_free(&b);
	arena_reset(a);
	return rc;
}

/* ---- samples ---- */

/* Whether storage would take it, as Prometheus's would: in order, one value at a time. *ret_had: it has that very one. */
static bool takes(const struct putting *x, struct metric_series *s, int64_t t_ms, uint64_t bits, bool *ret_had)
{
	*ret_had = t_ms == s->last_t_ms && bits == s->last_bits;
	if (t_ms > x->ahead_ms) {
		metric_inc(&scraper_table[M_OUT_OF_BOUNDS]);
		return false;
	}
	if (t_ms < s->last_t_ms) {
		metric_inc(&scraper_table[M_OUT_OF_ORDER]);
		return false;
	}
	if (t_ms == s->last_t_ms && !*ret_had) {
		metric_inc(&scraper_table[M_DUPLICATE]);
		return false;
	}
	return true;
}

static bool put_float(struct scrape_job *j, struct metric_series *s, int64_t t_ms, double v)
{
	struct metric_cache *c = &j->ep->metrics;
	struct labels l = metric_cache_labels(c, s, &j->worker->floats);
	if (!l.v)
		return false;
	vec_push(&j->batch->floats, (struct sink_float){ l, t_ms, v });
	s->pass = c->pass;
	s->t_ms = t_ms;
	s->bits = value_bits(v);
	return true;
}

static int put_value(struct putting *x, struct metric_text *text, bool again)
{
	struct scrape_job *j = x->j;
	const struct job_config *cfg = j->work->job;
	struct metric_series *s = &x->c->series.v[text->series];
	bool explicit = x->t.has_t && cfg->honor_timestamps, had;
	int64_t t_ms = explicit ? x->t.t_ms : j->t_ms;
	if (again && !explicit) {
		metric_inc(&scraper_table[M_DUPLICATE]);
		return 0;
	}
	if (cfg->sample_limit && ++x->n_limit > cfg->sample_limit)
		return 0; /* they are counted to the end, and then it fails */
	if (!takes(x, s, t_ms, value_bits(x->t.value), &had))
		return 0;
	if (!explicit || cfg->track_timestamps_staleness)
		s->tracked = x->c->scrape;
	j->n_new += text->first == x->c->scrape && !again;
	if (had || (s->pass == x->c->pass && t_ms <= s->t_ms))
		return 0;
	return put_float(j, s, t_ms, x->t.value) ? 0 : memory_refused(j);
}

static int put_sample(struct putting *x)
{
	struct scrape_job *j = x->j;
	struct metric_cache *c = x->c;
	struct metric_text *text = metric_cache_find(c, x->t.series);
	bool again = text && text->pass == c->pass;
	j->n_scraped++;
	if (!text && add_text(x, &text))
		return -(int)j->err.code;
	if (text->last < c->succeeded)
		text->first = c->scrape; /* what the newest good scrape did not have is new once more */
	text->last = c->scrape;
	text->pass = c->pass;
	if (text->series == METRIC_DROPPED)
		return 0;
	j->n_added++;
	return put_value(x, text, again);
}

static int put_all(struct putting *x)
{
	struct scrape_job *j = x->j;
	int rc = job_go_on(j, &j->err);
	for (size_t n = 1; !rc; n++) {
		rc = text_metrics_next(&x->t, &j->err);
		if (rc == TEXT_END || rc < 0)
			break;
		if (rc == TEXT_SAMPLE) {
			rc = put_sample(x);
		} else {
			family_lines_add(&x->families, rc == TEXT_HELP, x->t.name, x->t.text);
			rc = 0;
		}
		if (!rc && n % LOOK_EVERY == 0)
			rc = job_go_on(j, &j->err);
	}
	return rc;
}

/* The metadata in the text is known from here on. */
static void settle_families(struct putting *x)
{
	struct endpoint *ep = x->j->ep;
	struct metric_families *next = metric_families_next(ep->families, &x->families, x->c->scrape, &ep->memory), *old;
	if (!next)
		return;
	mutex_lock(&ep->scraper->lock);
	old = ep->families;
	ep->families = next;
	metric_families_unref(old);
	mutex_unlock(&ep->scraper->lock);
}

int metrics_work_put(struct scrape_job *j)
{
	struct putting x = { .j = j, .c = &j->ep->metrics, .ahead_ms = clock_now_ms() + AHEAD_MS };
	text_metrics_init(&x.t, buf_view(&j->work->body));
	int rc = put_all(&x);
	text_metrics_release(&x.t);
	if (!rc && j->work->job->sample_limit && x.n_limit > j->work->job->sample_limit) {
		metric_inc(&scraper_table[M_SAMPLE_LIMIT]);
		rc = err_set(&j->err, ERR_LIMIT, "%lld samples, sample_limit is %lld", (long long)x.n_limit,
			     (long long)j->work->job->sample_limit);
	}
	if (!rc)
		settle_families(&x);
	family_lines_release(&x.families);
	return rc;
}

void metrics_work_undo(struct scrape_job *j)
{
	j->ep->metrics.scrape--;
	j->n_scraped = j->n_added = j->n_new = 0;
}

void metrics_work_fail(struct scrape_job *j)
{
	j->ep->metrics.scrape++;
	j->ep->metrics.pass++;
	arena_reset(&j->worker->floats);
}

/* ---- ends ---- */

void metrics_work_put_stale(struct scrape_job *j)
{
	struct metric_cache *c = &j->ep->metrics;
	for (size_t i = 0; i < c->series.n; i++) {
		struct metric_series *s = &c->series.v[i];
		if (!s->live || s->tracked == c->scrape || s->last_t_ms >= j->t_ms || (s->pass == c->pass && s->t_ms >= j->t_ms))
			continue;
		if (!put_float(j, s, j->t_ms, value_from_bits(VALUE_STALE_BITS)))
			s->tracked = c->scrape; /* there is no room: the next scrape ends it */
	}
}

bool metrics_work_put_ends(struct scrape_job *j, size_t *at)
{
	struct metric_cache *c = &j->ep->metrics;
	size_t n = 0;
	for (; *at < c->series.n && n < ENDS_AT_A_TIME; ++*at) {
		struct metric_series *s = &c->series.v[*at];
		if (!s->live || s->last_t_ms >= j->t_ms || (s->pass == c->pass && s->t_ms >= j->t_ms))
			continue;
		if (!put_float(j, s, j->t_ms, value_from_bits(VALUE_STALE_BITS)))
			break;
		n++;
	}
	return n > 0;
}

void metrics_work_forget(struct scrape_job *j)
{
	struct endpoint *ep = j->ep;
	for (size_t i = 0; i < ep->metrics.series.n; i++)
		if (ep->metrics.series.v[i].live)
			return;
	metric_cache_forget(&ep->metrics);
	mutex_lock(&ep->scraper->lock);
	metric_families_unref(TAKE_PTR(ep->families));
	mutex_unlock(&ep->scraper->lock);
}

void metrics_work_settle(struct scrape_job *j)
{
	struct metric_cache *c = &j->ep->metrics;
	for (size_t i = 0; i < c->series.n; i++) {
		struct metric_series *s = &c->series.v[i];
		if (s->pass == c->pass) {
			s->last_t_ms = s->t_ms;
			s->last_bits = s->bits;
		}
		s->live = s->tracked == c->scrape;
	}
	if (!j->err.code && j->n_scraped)
		c->succeeded = c->scrape;
	metric_cache_forget_old(c);
}

void metrics_work_doubt(struct scrape_job *j)
{
	struct metric_cache *c = &j->ep->metrics;
	for (size_t i = 0; i < c->series.n; i++)
		c->series.v[i].live = c->series.v[i].tracked > 0;
	forget_times(c);
}

/* ---- reports ---- */

static const char *const reports[] = { "scrape_duration_seconds", "scrape_samples_scraped",
				       "scrape_samples_post_metric_relabeling", "scrape_series_added" };

void metrics_work_put_reports(struct scrape_job *j)
{
	const double values[] = { (double)j->work->duration_ns / 1e9, (double)j->n_scraped, (double)j->n_added, (double)j->n_new };
	for (size_t i = 0; i < ARRAY_LEN(reports); i++)
		batch_add_float(j->batch, j->ep->target, reports[i], NULL, j->t_ms, values[i]);
}

void metrics_work_end_reports(struct scrape_job *j, int64_t t_ms)
{
	for (size_t i = 0; i < ARRAY_LEN(reports); i++)
		batch_add_float(j->batch, j->ep->target, reports[i], NULL, t_ms, value_from_bits(VALUE_STALE_BITS));
}

/* ---- the answer's type ---- */

int metrics_work_check_type(const struct job_config *j, struct view content_type, struct err *e)
{
	struct view v = content_type;
	const char *end = v.len ? memchr(v.ptr, ';', v.len) : NULL;
	if (end)
		v.len = (size_t)(end - v.ptr);
	while (v.len && (v.ptr[v.len - 1] == ' ' || v.ptr[v.len - 1] == '\t'))
		v.len--;
	if (view_eq_nocase(v, VIEW("text/plain")))
		return 0;
	if (view_eq_nocase(v, VIEW("application/openmetrics-text")))
		return err_set(e, ERR_BAD_DATA, "the answer is OpenMetrics, which was not asked for; text/plain;version=0.0.4 was");
	if (j->fallback_is_text)
		return 0;
	return err_set(e, ERR_BAD_DATA, "the answer's Content-Type is %s%.*s%s, not text/plain; fallback_scrape_protocol: PrometheusText0.0.4 reads it anyway", v.len ? "\"" : "missing", (int)MIN(v.len, (size_t)80), v.ptr, v.len ? "\"" : "");
}
