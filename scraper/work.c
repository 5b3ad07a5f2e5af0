/* SPDX-License-Identifier: Apache-2.0 */
/* The decoders: a finished request becomes a batch for the sink. Each thread has one profile whose arena is reused, and works on one
 * endpoint at a time. Meanwhile it owns the endpoint's memory (baseline of cumulative columns, series).
 *
 *	body -> what it becomes (profile_work.c, metrics_work.c) -> batch with up, profile_up, scrape_* -> sink
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "scraper/memory.h"
#include "scraper/metrics_work.h"
#include "scraper/names.h"
#include "scraper/names_ask.h"
#include "scraper/piece.h"
#include "scraper/profile_work.h"
#include "scraper/split.h"
#include "scraper/state/table.h"

#define BATCH_BYTES ((size_t)16 << 20)
#define LIGHT_LIMIT_NS 100000000     /* CPU of a decode that was believed to be light; then it is heavy */
#define BURY_MS 3600000              /* ends that were not stored are tried again for so long */

static bool is_metrics(const struct scrape_job *j)
{
	return j->ep->is_metrics;
}

static bool same_labels_seen(const struct series_set *set, const struct scrape_series *s)
{
	for (size_t i = 0; i < set->v.n; i++)
		if (set->v.v[i]->seen && set->v.v[i]->labels && labels_eq(*set->v.v[i]->labels, *s->labels))
			return true;
	return false;
}

/* Live series that this scrape did not bring end here. Increases that go on under other labels end where these begin: until its
 * end the last one would cover that time too. */
static void put_stale(struct scrape_job *j)
{
	if (is_metrics(j)) {
		metrics_work_put_stale(j);
		return;
	}
	int64_t now = j->cover_ms ? j->t_ms : stamp_after(j->ep->last_t_ms, j->work->end_ms);
	if (!j->cover_ms && pieces_of(j->ep))
		now |= 1; /* a piece that comes later may end at any full second */
	bool handed_on = atomic_load(&j->ep->base->has_heir);
	for (size_t i = 0; i < j->ep->series.v.n; i++) {
		struct scrape_series *s = j->ep->series.v.v[i];
		int64_t t = handed_on && s->type.kind == PROFILE_CUMULATIVE ? MIN(j->ep->last_t_ms + 1, now) : now;
		if (s->live && !s->seen && !split_is_idle(j, s) && !same_labels_seen(&j->ep->series, s))
			batch_add_stale(j->batch, s, t, j->ep->interval_ms);
	}
}

/* After the batch was taken: what is live now. */
static void settle_series(struct scrape_job *j)
{
	if (is_metrics(j))
		metrics_work_settle(j);
	for (size_t i = 0; i < j->ep->series.v.n; i++) {
		struct scrape_series *s = j->ep->series.v.v[i];
		s->live = s->seen;
		s->seen = false;
	}
	series_forget_some(&j->ep->series);
}

static void clear_seen(struct scrape_job *j)
{
	for (size_t i = 0; i < j->ep->series.v.n; i++)
		j->ep->series.v.v[i]->seen = false;
}

static enum outcome outcome_of(const struct scrape_job *j)
{
	if (!j->err.code)
		return OUTCOME_OK;
	return j->work->http_status == 404 && !j->work->type->named ? OUTCOME_ABSENT : OUTCOME_FAILED;
}

static void log_change(const struct scrape_job *j, enum outcome was, enum outcome now)
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

/* If a target has metrics, they decide `up`, as in Prometheus; profiles have profile_up. */
static const struct endpoint *metrics_of(const struct target *t)
{
	for (size_t i = 0; i < t->endpoints.n; i++)
		if (!t->endpoints.v[i]->gone && t->endpoints.v[i]->is_metrics)
			return t->endpoints.v[i];
	return NULL;
}

static bool is_first(const struct endpoint *ep)
{
	for (size_t i = 0; i < ep->target->endpoints.n; i++)
		if (!ep->target->endpoints.v[i]->gone)
			return ep->target->endpoints.v[i] == ep;
	return false;
}

/* Which `up` to write: -1 = none now. It is written with each scrape of the target's metrics; without these with each of
 * its first type, and whenever it changes. */
static int up_to_write(struct scrape_job *j, int64_t *ret_up_ms)
{
	mutex_assert_held(&j->ep->scraper->lock);
	struct endpoint *ep = j->ep;
	struct target *t = ep->target;
	const struct endpoint *metrics = metrics_of(t);
	int up = metrics ? ep->outcome == OUTCOME_OK : up_of(t);
	bool write = metrics ? metrics == ep : up >= 0 && (up != t->last_up || is_first(ep));
	if (!write)
		return -1;
	t->last_up = up;
	t->last_up_ms = *ret_up_ms = stamp_after(t->last_up_ms, metrics ? j->t_ms : j->work->end_ms);
	return up;
}

/* Sets what the page shows, and says which `up` to write. */
static int note_outcome(struct scrape_job *j, int64_t *ret_up_ms)
{
	struct endpoint *ep = j->ep;
	enum outcome was, now = outcome_of(j);
	mutex_lock(&ep->scraper->lock);
	was = ep->outcome;
	ep->outcome = now;
	free(ep->last_error);
	free(ep->note);
	ep->last_error = now == OUTCOME_FAILED ? xstrdup(j->err.msg) : NULL;
	ep->note = now == OUTCOME_ABSENT ? xstrdup(j->err.msg) : now == OUTCOME_OK && !is_metrics(j) ? profile_work_note(j->p) : NULL;
	if (now == OUTCOME_OK && !ep->note && !is_metrics(j))
		ep->note = names_problem(ep);
	if (ep->cursor && now == OUTCOME_OK)
		ep->note = piece_note(j->work, ep->note);
	ep->last_scrape_ms = j->work->start_ms;
	ep->last_duration_ns = j->work->duration_ns;
	ep->last_bytes = (int64_t)j->work->bytes;
	ep->last_samples = is_metrics(j) ? j->n_scraped : j->err.code ? 0 : j->p->n_samples;
	int up = up_to_write(j, ret_up_ms);
	mutex_unlock(&ep->scraper->lock);
	log_change(j, was, now);
	return up;
}

static const char *const per_profile[] = { "profile_up", "scrape_duration_seconds", "scrape_samples_scraped",
					   "scrape_body_size_bytes" };

static void end_reports(struct scrape_job *j, int64_t t_ms)
{
	struct endpoint *ep = j->ep;
	if (is_metrics(j) && ep->reports)
		metrics_work_end_reports(j, t_ms);
	for (size_t i = 0; i < ARRAY_LEN(per_profile) && ep->reports && !is_metrics(j); i++)
		batch_add_float(j->batch, ep->target, per_profile[i], ep->name, t_ms, value_from_bits(VALUE_STALE_BITS));
}

static void put_reports(struct scrape_job *j)
{
	struct endpoint *ep = j->ep;
	const struct work *w = j->work;
	int64_t up_ms = 0, t = is_metrics(j) ? j->t_ms : stamp_after(ep->last_report_ms, w->end_ms);
	int up = note_outcome(j, &up_ms);
	ep->last_report_ms = t;
	if (up >= 0)
		batch_add_float(j->batch, ep->target, "up", NULL, up_ms, up);
	if (outcome_of(j) == OUTCOME_ABSENT) { /* neither up nor down: not reported */
		end_reports(j, t);
		ep->reports = false;
		return;
	}
	ep->reports = true;
	if (is_metrics(j)) {
		metrics_work_put_reports(j);
		return;
	}
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

/* Passes on the batch; the endpoint's receipt gets its result. */
static int send(struct scrape_job *j, struct sink_result *res, struct err *e)
{
	struct receipt *r = receipt_expect(j->ep->receipt);
	struct history_piece *p = j->work->piece;
	if (p && p->moves) {
		j->work->piece = NULL; /* storage may report it before it returns */
		p->receipt = r;
		int refused = batch_send(j->batch, j->worker->scraper->sink, piece_done, p, res, e);
		if (refused) {
			j->work->piece = p;
			receipt_unref(TAKE_PTR(p->receipt));
			p->moves = false;
		}
		return refused;
	}
	int rc = batch_send(j->batch, j->worker->scraper->sink, receipt_done, r, res, e);
	if (rc)
		receipt_unref(r);
	return rc;
}

/* A batch of it was not stored: ends of series may have been in it. Series that are missing now end once more. */
static void doubt_ends(struct scrape_job *j)
{
	if (!receipt_take_failure(j->ep->receipt))
		return;
	j->ep->reports |= j->ep->last_report_ms > 0;
	metrics_work_doubt(j);
	for (size_t i = 0; i < j->ep->series.v.n; i++)
		if (j->ep->series.v.v[i]->labels)
			j->ep->series.v.v[i]->live = true;
}

/* An agent's measurements of this time are still available later: its series do not end at once. */
static bool may_still_come(const struct scrape_job *j)
{
	return pieces_of(j->ep) && j->work->end_ms - j->ep->last_t_ms <= SPLIT_IDLE_MS;
}

/* The agent has answered, and there is nothing to store: it is up, and its series go on. */
static void wait_for_more(struct scrape_job *j)
{
	struct sink_result res;
	struct err e = { 0 };
	j->err = (struct err){ 0 };
	metric_inc(&scraper_table[M_SCRAPES]);
	put_reports(j);
	if (send(j, &res, &e) == 0)
		count_result(&res);
	else if (e.code != ERR_UNAVAILABLE)
		metric_inc(&scraper_table[M_SINK_FAILED]);
}

/* What the decoder holds goes before the failure is stored, which may take a while. */
static void give_memory_back(struct scrape_job *j)
{
	struct scrape_worker *wk = j->worker;
	wk->most = MAX(wk->most, budget_used(&wk->memory));
	atomic_store(&wk->stop, false);
	memory_drop_body(j->work);
	arena_reset(&wk->arena);
	arena_reset(&wk->floats);
	profile_reset(j->p);
}

/* The metrics' series end in several batches: the labels of all of them may be more than there is room for. False: a batch was not
 * taken. */
static bool end_metrics(struct scrape_job *j)
{
	struct sink_result res;
	struct err e = { 0 };
	for (size_t at = 0; metrics_work_put_ends(j, &at);) {
		if (send(j, &res, &e))
			return false;
		count_result(&res);
		batch_reset(j->batch);
		arena_reset(&j->worker->floats);
	}
	return true;
}

/* What is kept of an endpoint that was evicted, or had no room, would be in the way of others, and of its own next scrape. */
static void forget_kept(struct scrape_job *j)
{
	struct endpoint *ep = j->ep;
	if (is_metrics(j))
		metrics_work_forget(j);
	else if (j->work->evicted)
		names_free(TAKE_PTR(ep->names), &ep->memory);
}

/* A failed scrape: only ends its series and adds the series about the target. */
static void fail(struct scrape_job *j)
{
	struct sink_result res;
	struct err e = { 0 };
	bool may_come = may_still_come(j), no_memory = j->no_memory || j->work->evicted;
	j->cover_ms = 0;
	batch_reset(j->batch);
	clear_seen(j);
	if (no_memory)
		give_memory_back(j);
	if (is_metrics(j))
		metrics_work_fail(j);
	bool ended = !no_memory || !is_metrics(j) || end_metrics(j);
	if (!may_come)
		put_stale(j);
	put_reports(j);
	piece_put_refused(j);
	if (send(j, &res, &e) == 0) {
		count_result(&res);
		if (!may_come && ended)
			settle_series(j);
		if (no_memory && ended)
			forget_kept(j);
	} else if (e.code != ERR_UNAVAILABLE) {
		metric_inc(&scraper_table[M_SINK_FAILED]);
	}
}

static void say_if_refused(struct scrape_job *j)
{
	struct scrape_worker *wk = j->worker;
	bool refused = j->p->arena.refused || wk->arena.refused || wk->floats.refused;
	j->p->arena.refused = wk->arena.refused = wk->floats.refused = false;
	if (j->err.code && !j->no_memory && (refused || (j->err.code == ERR_UNAVAILABLE && atomic_load(&wk->stop))))
		memory_refused(j);
}

/* Whether to leave the scrape for now: it must be decoded again, as a heavy one, or the program ends. */
static bool left_alone(struct scrape_job *j)
{
	say_if_refused(j);
	if (j->no_memory && memory_may_retry(j)) {
		j->work->retries++;
		j->no_memory = false;
		j->again = true;
	}
	if (j->err.code == ERR_TIMEOUT && j->worker->light && j->limit_ns == LIGHT_LIMIT_NS)
		j->again = true;
	else if (j->err.code == ERR_TIMEOUT)
		metric_inc(&scraper_table[M_CPU_LIMIT]);
	if (!j->again && !j->asks && j->err.code != ERR_CANCELED)
		return false;
	if (is_metrics(j))
		metrics_work_undo(j);
	clear_seen(j);
	return true;
}

/* It is stored, and up; but not all of it has its name. */
static void note_other(struct scrape_job *j, uint32_t samples)
{
	struct endpoint *ep = j->ep;
	if (!samples)
		return;
	mutex_lock(&ep->scraper->lock);
	free(ep->note);
	ep->note = xasprintf("%u samples of the last scrape became (other): the target has named too much today, see "
			     "--storage.max-target-functions and --storage.dictionary-memory", samples);
	bool first = !ep->told_other;
	ep->told_other = true;
	mutex_unlock(&ep->scraper->lock);
	if (first)
		LOG_WARN("msg", "a target has named too much today: what is new of it is stored as (other)", "job", j->work->job->name,
			 "url", ep->url, "samples", LOG_NUM(samples));
}

static void scrape(struct scrape_job *j)
{
	struct sink_result res;
	struct endpoint *ep = j->ep;
	j->err = j->work->err;
	doubt_ends(j);
	if (is_metrics(j))
		metrics_work_begin(j);
	if (piece_is_nothing(j->work)) {
		wait_for_more(j);
		return;
	}
	if (!j->err.code && (is_metrics(j) ? metrics_work_put(j) : profile_work_put(j)) && left_alone(j))
		return;
	metric_inc(&scraper_table[M_SCRAPES]);
	if (!j->err.code) {
		put_stale(j);
		put_reports(j);
		j->offered = !piece_taken(j->work) || piece_put_note(j);
		if (j->offered && send(j, &res, &j->err) == 0) {
			count_result(&res);
			if (res.over_notes && ep->cursor)
				piece_notes_full(ep);
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
	mutex_lock(&s->lock);
	if (e->code && clock_mono_ms() - b->since_ms < BURY_MS) {
		struct work *w = work_end(ep);
		w->since_ms = b->since_ms;
		w->next = s->unburied;
		s->unburied = w;
		if (b->with_up)
			ep->target->last_up = 0;
	}
	endpoint_unref(ep);
	mutex_unlock(&s->lock);
	free(b);
}

/* The endpoint left: all its series end, and `up` with the last of its target. */
static void bury(struct scrape_job *j)
{
	struct endpoint *ep = j->ep;
	struct sink_result res;
	struct burial *b = NEW(struct burial);
	*b = (struct burial){ .endpoint = ep, .since_ms = j->work->since_ms ? j->work->since_ms : clock_mono_ms() };
	int64_t t = stamp_after(ep->last_report_ms, clock_now_ms()), up_ms = 0;
	bool last = true;
	mutex_lock(&ep->scraper->lock);
	for (size_t i = 0; i < ep->target->endpoints.n; i++)
		last &= ep->target->endpoints.v[i]->gone;
	if (last && ep->target->last_up >= 0) {
		ep->target->last_up = -1;
		up_ms = stamp_after(ep->target->last_up_ms, t);
	}
	ep->refs++;
	mutex_unlock(&ep->scraper->lock);
	b->with_up = up_ms != 0;
	j->work->end_ms = t;
	doubt_ends(j);
	if (is_metrics(j)) {
		metrics_work_begin(j);
		t = j->t_ms;
	}
	put_stale(j);
	end_reports(j, t);
	if (up_ms)
		batch_add_float(j->batch, ep->target, "up", NULL, up_ms, value_from_bits(VALUE_STALE_BITS));
	baseline_end(ep);
	if (batch_send(j->batch, j->worker->scraper->sink, on_buried, b, &res, &j->err))
		on_buried(b, &j->err);
}

static void do_work(struct scrape_worker *wk, struct scrape_batch *b, struct work *w)
{
	struct scrape_job j = { .worker = wk, .work = w, .ep = w->endpoint, .batch = b, .p = &wk->profile,
			 .limit_ns = wk->light ? LIGHT_LIMIT_NS : CPU_LIMIT_NS,
			 .start_ns = clock_mono_ns(), .start_cpu_ns = clock_cpu_ns() };
	batch_reset(b);
	if (w->kind == WORK_SCRAPE)
		scrape(&j);
	else
		bury(&j);
	wk->most = MAX(wk->most, budget_used(&wk->memory));
	wk->good = w->kind == WORK_SCRAPE && !j.err.code && !j.again && !j.asks;
	arena_reset(&wk->arena);
	arena_reset(&wk->floats);
	profile_reset(&wk->profile);
	if (w->kind == WORK_SCRAPE && !j.err.code)
		metric_observe(&scraper_table[M_DECODE], (double)(clock_mono_ns() - j.start_ns) / 1e9);
	if (j.asks)
		names_park(w, clock_cpu_ns() - j.start_cpu_ns);
	else
		turn_end(w, clock_cpu_ns() - j.start_cpu_ns, j.again);
}

void *worker_main(void *arg)
{
	struct scrape_worker *wk = arg;
	struct scrape_batch b = { .arena = &wk->arena };
	arena_init(&wk->arena, BATCH_BYTES);
	wk->arena.budget = &wk->memory;
	arena_init(&wk->floats, 0);
	wk->floats.budget = &wk->memory;
	for (struct work *w; (w = turn_begin(wk));)
		do_work(wk, &b, w);
	batch_free(&b);
	arena_free(&wk->arena);
	arena_free(&wk->floats);
	return NULL;
}
