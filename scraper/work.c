/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders: a finished request becomes a batch for the sink. Each thread has one profile whose arena is reused and
 * works on one endpoint at a time; while it does, the endpoint's memory (baseline of cumulative columns, series) is
 * its own.
 *
 *	body -> profile -> columns (name, kind, labels) -> increases -> batch with up, profile_up, scrape_* -> sink
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "pprof/pprof.h"
#include "scraper/report.h"
#include "scraper/split.h"
#include "scraper/table.h"

#define WINDOW_MS 2000               /* how far a profile's own time may lie outside of its request */
#define PART_MAX 128                 /* bytes of one part of a profile's name */
#define NOTE_MAX 256                 /* bytes of what an agent says of its profile */
#define BATCH_BYTES ((size_t)16 << 20)
#define LIGHT_LIMIT_NS 100000000     /* CPU of a decode that was believed to be light; then it is heavy */
#define BURY_MS 3600000              /* ends that were not stored are tried again for so long */
#define CPU_LIMIT_NS INT64_C(5000000000)

/* NAME parts are metric names when put together: what does not fit becomes _. */
static struct view name_part(struct arena *a, struct view v, struct view instead)
{
	if (!v.len)
		return instead;
	char *s = arena_strndup(a, v.ptr, v.len);
	if (!s)
		return instead;
	for (size_t i = 0; i < v.len; i++) {
		char c = s[i];
		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')))
			s[i] = '_';
	}
	return view_make(s, v.len);
}

/* The agent says in a comment what its profiles are, so that they are never added to what a process says of itself, even
 * where the job does not say that it asks an agent. */
static struct view agent_name(const struct profile *p, struct view otherwise)
{
	static const char *const names[] = { "on_cpu", "off_cpu" };
	struct view mark = VIEW("pyrrha: ");
	for (uint32_t i = 0; i < p->n_comments; i++) {
		struct view c = profile_str(p, p->comments[i]);
		if (!view_starts(c, mark))
			continue;
		for (size_t k = 0; k < ARRAY_LEN(names); k++)
			if (view_eqs(view_make(c.ptr + mark.len, c.len - mark.len), names[k]))
				return view_of(names[k]);
	}
	return otherwise;
}

/* The agent also says there if it does less than it was asked for. Owned; NULL = nothing. */
static char *agent_note(const struct profile *p)
{
	struct view mark = VIEW("pyrrha: note ");
	for (uint32_t i = 0; i < p->n_comments; i++) {
		struct view c = profile_str(p, p->comments[i]);
		if (view_starts(c, mark))
			return xstrndup(c.ptr + mark.len, MIN(c.len - mark.len, (size_t)NOTE_MAX));
	}
	return NULL;
}

/* The profile's sample type i as a type of ours. A profile without a period type gets the sample type's. */
int work_type(struct job *j, uint32_t i, struct ptype *ret)
{
	const struct profile *p = j->p;
	struct arena *a = &j->worker->arena;
	struct view type = profile_str(p, p->sample_types[i].type_str), unit = profile_str(p, p->sample_types[i].unit_str);
	struct view ptype = profile_str(p, p->period_type.type_str), punit = profile_str(p, p->period_type.unit_str);
	struct view parts[] = { type, unit, ptype, punit };
	for (size_t k = 0; k < ARRAY_LEN(parts); k++)
		if (parts[k].len > PART_MAX)
			return err_set(&j->err, ERR_LIMIT, "the name of a sample type is longer than %d bytes", PART_MAX);
	*ret = (struct ptype){ .name = agent_name(p, view_of(j->ep->name)) };
	ret->sample_type = name_part(a, type, VIEW("unknown"));
	ret->sample_unit = name_part(a, unit, VIEW("count"));
	ret->period_type = name_part(a, ptype, ret->sample_type);
	ret->period_unit = name_part(a, punit, ptype.len ? VIEW("count") : ret->sample_unit);
	ret->kind = scrape_type_kind(j->work->type, type, unit, p->duration_ns > 0);
	ret->delta = ret->kind == PROFILE_DELTA;
	return 0;
}

/* docs/profql.md, "When a profile is". */
static void find_stamp(struct job *j)
{
	const struct work *w = j->work;
	struct profile *p = j->p;
	int64_t asked_ns = j->ep->asked_s * INT64_C(1000000000);
	if (!profile_duration_is_sane(p->duration_ns)) {
		p->duration_ns = asked_ns;
		metric_inc(&scraper_table[M_DURATIONS_REPLACED]);
	}
	int64_t duration = p->duration_ns;
	if (!duration && w->type->delta)
		duration = asked_ns; /* it does not say, but it was told */
	j->delta_duration_ns = duration;
	j->t_ms = w->end_ms;
	int64_t own_ns;
	bool inside = p->time_ns > 0 && !__builtin_add_overflow(p->time_ns, duration, &own_ns) &&
		      own_ns / 1000000 >= w->start_ms - WINDOW_MS && own_ns / 1000000 <= w->end_ms + WINDOW_MS;
	if (inside)
		j->t_ms = own_ns / 1000000;
	else
		metric_inc(&scraper_table[M_STAMPS_REPLACED]);
}

/* (t - w, t]: since the previous scrape if that is near, else one interval; never less than the duration. */
int64_t work_cover(const struct job *j, int64_t duration_ns)
{
	int64_t interval = j->ep->interval_ms, since = stamp_since(j->ep, j->work, j->t_ms);
	int64_t w = since > 0 && since <= interval + interval / 2 ? since : interval;
	return MAX(w, (duration_ns + 999999) / 1000000);
}

/* One sample type's series, made when it is first seen; NULL: dropped by relabelling, or an error (j->err). */
static struct series *column_series(struct job *j, const struct ptype *type)
{
	struct series *s = series_find(&j->ep->series, type, NULL, j->work->config->serial);
	if (!s)
		s = series_add(&j->ep->series, type, NULL, j->ep->target, j->work->job, j->work->config->serial,
			       &j->worker->arena, &j->err);
	if (!s || !s->labels)
		return NULL;
	s->seen = true;
	return s;
}

/* Which of the profile's sample types are of a kind, and whose series they are. */
struct columns {
	uint32_t index[64];
	struct series *series[64];
	uint32_t n;
};

static int sort_columns(struct job *j, struct columns kinds[4])
{
	for (uint32_t i = 0; i < j->p->n_sample_types; i++) {
		struct ptype type;
		struct view name = profile_str(j->p, j->p->sample_types[i].type_str);
		struct view unit = profile_str(j->p, j->p->sample_types[i].unit_str);
		if (!scrape_type_keeps(j->work->type, name, unit))
			continue;
		if (work_type(j, i, &type))
			return -(int)j->err.code;
		struct series *s = column_series(j, &type);
		struct columns *c = &kinds[type.kind];
		if (j->err.code)
			return -(int)j->err.code;
		if (!s)
			continue;
		if (c->n == ARRAY_LEN(c->index))
			return err_set(&j->err, ERR_LIMIT, "more than %zu sample types", ARRAY_LEN(c->index));
		for (uint32_t k = 0; k < c->n; k++)
			if (c->series[k] == s)
				return err_set(&j->err, ERR_BAD_DATA, "two sample types are both called %.*s/%.*s",
					       VIEW_ARG(type.sample_type), VIEW_ARG(type.sample_unit));
		c->index[c->n] = i;
		c->series[c->n++] = s;
	}
	return 0;
}

static struct sink_profile *put_columns(struct job *j, const struct columns *c)
{
	struct sink_profile *sp = batch_add_profile(j->batch);
	sp->profile = j->p;
	sp->t_ms = j->t_ms;
	sp->interval_ms = j->ep->interval_ms;
	sp->asked_ms = j->ep->asked_s * 1000;
	sp->period = j->p->period;
	for (uint32_t i = 0; i < c->n; i++)
		batch_add_column(j->batch, *c->series[i]->labels, &c->series[i]->type, c->index[i]);
	return sp;
}

static void put_plain(struct job *j, const struct columns *c, int64_t duration_ns)
{
	if (!c->n)
		return;
	struct sink_profile *sp = put_columns(j, c);
	sp->duration_ns = duration_ns;
	sp->cover_ms = work_cover(j, duration_ns);
}

static uint64_t columns_id(const struct job *j, const struct columns *c)
{
	uint64_t h = c->n;
	for (uint32_t i = 0; i < c->n; i++) {
		h = hash_u64(h ^ hash_view(c->series[i]->type.sample_type));
		h = hash_u64(h ^ hash_view(c->series[i]->type.sample_unit));
	}
	return h;
}

/* Whether a decode may still take time. CPU time costs a system call: it is only asked for when as much time went by. */
static int go_on(void *arg, struct err *e)
{
	struct job *j = arg;
	int64_t now = clock_mono_ns(), give_up_ms = atomic_load_explicit(&j->worker->scraper->give_up_ms, memory_order_relaxed);
	if (give_up_ms && now / 1000000 > give_up_ms)
		return err_set(e, ERR_CANCELED, "the server stops");
	if (now - j->start_ns < j->limit_ns || clock_cpu_ns() - j->start_cpu_ns < j->limit_ns)
		return 0;
	return err_set(e, ERR_TIMEOUT, "decoding it took more than %.1f s of CPU time", (double)j->limit_ns / 1e9);
}

/* The first scrape is the baseline: its series begin with the second. */
static int put_increase(struct job *j, const struct columns *c)
{
	struct endpoint *ep = j->ep;
	if (!c->n)
		return 0;
	if (ep->delta_columns != columns_id(j, c))
		delta_release(&ep->delta);
	ep->delta_columns = columns_id(j, c);
	size_t n = (size_t)j->p->n_samples * j->p->n_sample_types;
	int64_t *values = arena_calloc(&j->p->arena, n + 1, sizeof *values);
	if (!values)
		return err_set(&j->err, ERR_LIMIT, "the profile is over the limit of %zu bytes of memory", j->p->arena.max);
	int r = go_on(j, &j->err);
	if (!r)
		r = delta_apply(&ep->delta, j->p, c->index, c->n, values, &j->err);
	if (r == -ERR_UNAVAILABLE)
		err_wrap(&j->err, "--scrape.memory is used up");
	if (r < 0)
		return r;
	if (r == DELTA_RESET)
		metric_inc(&scraper_table[M_RESETS]);
	int64_t since_ms = stamp_since(ep, j->work, j->t_ms);
	if (r == DELTA_BASELINE || !since_ms)
		return 0;
	struct sink_profile *sp = put_columns(j, c);
	sp->values = values;
	sp->asked_ms = 0; /* an increase observes all of the time */
	sp->cover_ms = since_ms;
	sp->duration_ns = sp->cover_ms * 1000000;
	return 0;
}

/* The error of a decode in the words of who configures the job. */
static int say_undecodable(struct job *j, int rc)
{
	if (rc == -ERR_TIMEOUT || rc == -ERR_CANCELED)
		return rc;
	if (rc == -ERR_LIMIT && !j->p->arena.refused)
		metric_inc(&scraper_table[M_BODY_LIMIT]);
	return err_wrap(&j->err, rc == -ERR_LIMIT ? "over a limit (body_size_limit)" : "not a profile in pprof's format");
}

static int decode(struct job *j)
{
	struct work *w = j->work;
	struct pprof_limits lim = { .max_bytes = w->job->body_size_limit, .go_on = go_on, .go_on_arg = j };
	int rc = go_on(j, &j->err);
	if (!rc)
		rc = pprof_decode(buf_view(&w->body).ptr, w->body.len, &lim, j->p, &j->err);
	if (rc)
		return say_undecodable(j, rc);
	if (pprof_drop_frames(j->p, &j->err) || go_on(j, &j->err))
		return -(int)j->err.code;
	j->limit_ns = CPU_LIMIT_NS; /* what was believed light is through the worst */
	if (w->job->sample_limit && j->p->n_samples > w->job->sample_limit) {
		metric_inc(&scraper_table[M_SAMPLE_LIMIT]);
		return err_set(&j->err, ERR_LIMIT, "%u stacks, sample_limit is %lld", j->p->n_samples,
			       (long long)w->job->sample_limit);
	}
	return 0;
}

/* The whole of a successful answer into the batch. */
static int put_profile(struct job *j)
{
	struct columns kinds[4] = { 0 };
	int rc = decode(j);
	if (!rc)
		find_stamp(j);
	if (!rc && j->work->job->series_labels.n)
		return split_profile(j);
	if (!rc)
		rc = sort_columns(j, kinds);
	if (rc)
		return rc;
	put_plain(j, &kinds[PROFILE_DELTA], j->delta_duration_ns);
	put_plain(j, &kinds[PROFILE_GAUGE], 0);
	return put_increase(j, &kinds[PROFILE_CUMULATIVE]);
}

static bool same_labels_seen(const struct series_set *set, const struct series *s)
{
	for (size_t i = 0; i < set->v.n; i++)
		if (set->v.v[i]->seen && set->v.v[i]->labels && labels_eq(*set->v.v[i]->labels, *s->labels))
			return true;
	return false;
}

/* Live series that this scrape did not bring end here. */
static void put_stale(struct job *j)
{
	int64_t t = stamp_after(j->ep->last_t_ms, j->work->end_ms);
	for (size_t i = 0; i < j->ep->series.v.n; i++) {
		struct series *s = j->ep->series.v.v[i];
		if (s->live && !s->seen && !split_is_idle(j, s) && !same_labels_seen(&j->ep->series, s))
			batch_add_stale(j->batch, s, t, j->ep->interval_ms);
	}
}

/* After the batch was taken: what is live now. */
static void settle_series(struct job *j)
{
	for (size_t i = 0; i < j->ep->series.v.n; i++) {
		struct series *s = j->ep->series.v.v[i];
		s->live = s->seen;
		s->seen = false;
	}
	series_forget_some(&j->ep->series);
}

static void clear_seen(struct job *j)
{
	for (size_t i = 0; i < j->ep->series.v.n; i++)
		j->ep->series.v.v[i]->seen = false;
}

static enum outcome outcome_of(const struct job *j)
{
	if (!j->err.code)
		return OUTCOME_OK;
	return j->work->http_status == 404 && !j->work->type->named ? OUTCOME_ABSENT : OUTCOME_FAILED;
}

static void log_change(const struct job *j, enum outcome was, enum outcome now)
{
	if (was == now || (was != OUTCOME_FAILED && now != OUTCOME_FAILED))
		return;
	struct buf url = { 0 };
	config_redact_url(view_of(j->ep->url), &url);
	if (now == OUTCOME_FAILED)
		LOG_WARN("msg", "scrape failed", "job", j->work->job->name, "url", url.ptr, "err", j->err.msg);
	else
		LOG_INFO("msg", "scrape works again", "job", j->work->job->name, "url", url.ptr);
	buf_free(&url);
}

/* 1 or 0; -1 while some type was not asked yet, and when all have left. */
static int up_of(const struct target *t)
{
	bool some = false, unknown = false, any = false;
	for (size_t i = 0; i < t->endpoints.n; i++) {
		const struct endpoint *ep = t->endpoints.v[i];
		if (ep->gone)
			continue;
		any = true;
		if (ep->outcome == OUTCOME_FAILED)
			return 0;
		some |= ep->outcome == OUTCOME_OK;
		unknown |= ep->outcome == OUTCOME_UNKNOWN;
	}
	return unknown || !any ? -1 : some;
}

static bool is_first(const struct endpoint *ep)
{
	for (size_t i = 0; i < ep->target->endpoints.n; i++)
		if (!ep->target->endpoints.v[i]->gone)
			return ep->target->endpoints.v[i] == ep;
	return false;
}

/* Sets what the page shows, and says which `up` to write: -1 = none now. It is written with each scrape of the target's
 * first type, and whenever it changes. */
static int note_outcome(struct job *j, int64_t *ret_up_ms)
{
	struct endpoint *ep = j->ep;
	struct target *t = ep->target;
	enum outcome was, now = outcome_of(j);
	pthread_mutex_lock(&ep->scraper->lock);
	was = ep->outcome;
	ep->outcome = now;
	free(ep->last_error);
	free(ep->note);
	ep->last_error = now == OUTCOME_FAILED ? xstrdup(j->err.msg) : NULL;
	ep->note = now == OUTCOME_ABSENT ? xstrdup(j->err.msg) : now == OUTCOME_OK ? agent_note(j->p) : NULL;
	ep->last_scrape_ms = j->work->start_ms;
	ep->last_duration_ns = j->work->duration_ns;
	ep->last_bytes = (int64_t)j->work->bytes;
	ep->last_samples = j->err.code ? 0 : j->p->n_samples;
	int up = up_of(t);
	bool write = up >= 0 && (up != t->last_up || is_first(ep));
	if (write) {
		t->last_up = up;
		t->last_up_ms = *ret_up_ms = stamp_after(t->last_up_ms, j->work->end_ms);
	}
	pthread_mutex_unlock(&ep->scraper->lock);
	log_change(j, was, now);
	return write ? up : -1;
}

static const char *const per_profile[] = { "profile_up", "scrape_duration_seconds", "scrape_samples_scraped",
					   "scrape_body_size_bytes" };

static void end_reports(struct job *j, int64_t t_ms)
{
	struct endpoint *ep = j->ep;
	for (size_t i = 0; i < ARRAY_LEN(per_profile) && ep->reports; i++)
		batch_add_float(j->batch, ep->target, per_profile[i], ep->name, t_ms, value_from_bits(VALUE_STALE_BITS));
}

static void put_reports(struct job *j)
{
	struct endpoint *ep = j->ep;
	const struct work *w = j->work;
	int64_t up_ms = 0, t = stamp_after(ep->last_report_ms, w->end_ms);
	int up = note_outcome(j, &up_ms);
	ep->last_report_ms = t;
	if (up >= 0)
		batch_add_float(j->batch, ep->target, "up", NULL, up_ms, up);
	if (outcome_of(j) == OUTCOME_ABSENT) { /* neither up nor down: nothing is told of it */
		end_reports(j, t);
		ep->reports = false;
		return;
	}
	ep->reports = true;
	batch_add_float(j->batch, ep->target, "profile_up", ep->name, t, j->err.code ? 0 : 1);
	batch_add_float(j->batch, ep->target, "scrape_duration_seconds", ep->name, t, (double)w->duration_ns / 1e9);
	batch_add_float(j->batch, ep->target, "scrape_samples_scraped", ep->name, t, j->err.code ? 0 : j->p->n_samples);
	batch_add_float(j->batch, ep->target, "scrape_body_size_bytes", ep->name, t, (double)w->bytes);
}

static void count_result(const struct sink_result *r)
{
	if (r->too_old)
		metric_add(&scraper_table[M_OUT_OF_ORDER], r->too_old);
	if (r->duplicates)
		metric_add(&scraper_table[M_DUPLICATE], r->duplicates);
	if (r->too_new)
		metric_add(&scraper_table[M_OUT_OF_BOUNDS], r->too_new);
}

/* Hands the batch over; the endpoint's receipt knows what becomes of it. */
static int send(struct job *j, struct sink_result *res, struct err *e)
{
	struct receipt *r = receipt_expect(j->ep->receipt);
	int rc = batch_send(j->batch, j->worker->scraper->sink, receipt_done, r, res, e);
	if (rc)
		receipt_unref(r);
	return rc;
}

/* A batch of it was not stored: ends of series may have been in it. What does not come now ends once more. */
static void doubt_ends(struct job *j)
{
	if (!receipt_take_failure(j->ep->receipt))
		return;
	j->ep->reports |= j->ep->last_report_ms > 0;
	j->ep->reports |= j->ep->last_report_ms > 0;
	for (size_t i = 0; i < j->ep->series.v.n; i++)
		if (j->ep->series.v.v[i]->labels)
			j->ep->series.v.v[i]->live = true;
}

/* A scrape that brought nothing: nothing but the end of its series and what is told of the target. */
static void fail(struct job *j)
{
	struct sink_result res;
	struct err e = { 0 };
	batch_reset(j->batch);
	clear_seen(j);
	put_stale(j);
	put_reports(j);
	if (send(j, &res, &e) == 0) {
		count_result(&res);
		settle_series(j);
	} else if (e.code != ERR_UNAVAILABLE) {
		metric_inc(&scraper_table[M_SINK_FAILED]);
	}
}

static void say_if_refused(struct job *j)
{
	if (j->p->arena.refused)
		memory_refused(j->worker->scraper, &j->err);
	j->p->arena.refused = false;
}

/* Whether the scrape is to be left as it is: it has to be decoded anew, as a heavy one, or the program ends. */
static bool left_alone(struct job *j)
{
	say_if_refused(j);
	if (j->err.code == ERR_TIMEOUT && j->worker->light && j->limit_ns == LIGHT_LIMIT_NS)
		j->again = true;
	else if (j->err.code == ERR_TIMEOUT)
		metric_inc(&scraper_table[M_CPU_LIMIT]);
	if (!j->again && j->err.code != ERR_CANCELED)
		return false;
	clear_seen(j);
	return true;
}

/* It is stored, and up; but not all of it has its name. */
static void note_other(struct job *j, uint32_t samples)
{
	struct endpoint *ep = j->ep;
	if (!samples)
		return;
	pthread_mutex_lock(&ep->scraper->lock);
	free(ep->note);
	ep->note = xasprintf("%u samples of the last scrape became (other): the target has named too much today, see "
			     "--storage.max-target-functions and --storage.dictionary-memory", samples);
	bool first = !ep->told_other;
	ep->told_other = true;
	pthread_mutex_unlock(&ep->scraper->lock);
	if (first)
		LOG_WARN("msg", "a target has named too much today: what is new of it is stored as (other)", "job", j->work->job->name,
			 "url", ep->url, "samples", LOG_NUM(samples));
}

static void scrape(struct job *j)
{
	struct sink_result res;
	struct endpoint *ep = j->ep;
	j->err = j->work->err;
	doubt_ends(j);
	if (!j->err.code && put_profile(j) && left_alone(j))
		return;
	metric_inc(&scraper_table[M_SCRAPES]);
	if (!j->err.code) {
		put_stale(j);
		put_reports(j);
		if (send(j, &res, &j->err) == 0) {
			count_result(&res);
			note_other(j, res.over_names);
			settle_series(j);
			stamp_note(ep, j->work, j->t_ms);
			if (res.over_series_limit)
				err_set(&j->err, ERR_LIMIT, "storage has no room for %u more series", res.over_series_limit);
			else
				return;
		} else {
			metric_inc(&scraper_table[M_SINK_FAILED]);
			err_wrap(&j->err, "not stored");
			say_if_refused(j);
		}
	}
	if (outcome_of(j) == OUTCOME_FAILED)
		metric_inc(&scraper_table[M_SCRAPES_FAILED]);
	fail(j);
}

/* Ends that the sink took in, until it says whether they are stored. */
struct burial {
	struct endpoint *endpoint; /* reference */
	bool with_up;
	int64_t since_ms;          /* monotonic: of the first try */
};

/* From the sink's thread, or the decoder's. An end is never given up while it matters: without it the series would stay
 * for the look-back. */
static void on_buried(void *arg, const struct err *e)
{
	struct burial *b = arg;
	struct endpoint *ep = b->endpoint;
	struct scraper *s = ep->scraper;
	if (e->code)
		metric_inc(&scraper_table[M_SINK_FAILED]);
	pthread_mutex_lock(&s->lock);
	if (e->code && clock_mono_ms() - b->since_ms < BURY_MS) {
		struct work *w = work_end(ep);
		w->since_ms = b->since_ms;
		w->next = s->unburied;
		s->unburied = w;
		if (b->with_up)
			ep->target->last_up = 0;
	}
	endpoint_unref(ep);
	pthread_mutex_unlock(&s->lock);
	free(b);
}

/* The endpoint left: all its series end, and `up` with the last of its target. */
static void bury(struct job *j)
{
	struct endpoint *ep = j->ep;
	struct sink_result res;
	struct burial *b = NEW(struct burial);
	*b = (struct burial){ .endpoint = ep, .since_ms = j->work->since_ms ? j->work->since_ms : clock_mono_ms() };
	int64_t t = stamp_after(ep->last_report_ms, clock_now_ms()), up_ms = 0;
	bool last = true;
	pthread_mutex_lock(&ep->scraper->lock);
	for (size_t i = 0; i < ep->target->endpoints.n; i++)
		last &= ep->target->endpoints.v[i]->gone;
	if (last && ep->target->last_up >= 0) {
		ep->target->last_up = -1;
		up_ms = stamp_after(ep->target->last_up_ms, t);
	}
	ep->refs++;
	pthread_mutex_unlock(&ep->scraper->lock);
	b->with_up = up_ms != 0;
	j->work->end_ms = t;
	doubt_ends(j);
	put_stale(j);
	end_reports(j, t);
	if (up_ms)
		batch_add_float(j->batch, ep->target, "up", NULL, up_ms, value_from_bits(VALUE_STALE_BITS));
	delta_release(&ep->delta);
	if (batch_send(j->batch, j->worker->scraper->sink, on_buried, b, &res, &j->err))
		on_buried(b, &j->err);
}

static void do_work(struct worker *wk, struct batch *b, struct work *w)
{
	struct job j = { .worker = wk, .work = w, .ep = w->endpoint, .batch = b, .p = &wk->profile,
			 .limit_ns = wk->light ? LIGHT_LIMIT_NS : CPU_LIMIT_NS,
			 .start_ns = clock_mono_ns(), .start_cpu_ns = clock_cpu_ns() };
	batch_reset(b);
	if (w->kind == WORK_SCRAPE)
		scrape(&j);
	else
		bury(&j);
	arena_reset(&wk->arena);
	profile_reset(&wk->profile);
	if (w->kind == WORK_SCRAPE && !j.err.code)
		metric_observe(&scraper_table[M_DECODE], (double)(clock_mono_ns() - j.start_ns) / 1e9);
	turn_end(w, clock_cpu_ns() - j.start_cpu_ns, j.again);
}

void *worker_main(void *arg)
{
	struct worker *wk = arg;
	struct batch b = { .arena = &wk->arena };
	arena_init(&wk->arena, BATCH_BYTES);
	wk->arena.budget = &wk->scraper->memory;
	for (struct work *w; (w = turn_begin(wk));)
		do_work(wk, &b, w);
	batch_free(&b);
	arena_free(&wk->arena);
	return NULL;
}
