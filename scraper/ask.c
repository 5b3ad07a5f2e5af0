/* SPDX-License-Identifier: Apache-2.0 */
/* One request: from an endpoint that is due to a work for the decoders. Runs in the loop thread. A request keeps alive
 * what it was started with, so that a reload neither waits for it nor cancels it. */
#include <ctype.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/num.h"
#include "scraper/memory.h"
#include "scraper/metrics_work.h"
#include "scraper/piece.h"
#include "scraper/state/table.h"

#define ERROR_TEXT 160 /* bytes of an error page that are shown */

#define LOOKED_THROUGH 1000 /* requests, for one of another job that asks the same */
#define BEGIN_AGAIN_MS 20 /* an endpoint that was evicted has freed its memory after about so long */
#define BEGIN_AGAIN_PART 4 /* of the time that it has waited already, if that is more */
#define ENDED_AT_ONCE 32 /* requests of endpoints that left, in one turn of the loop */

static void enlist(struct flight *f, struct flight **list)
{
	f->next = *list;
	f->at = list;
	if (f->next)
		f->next->at = &f->next;
	*list = f;
	f->work->endpoint->flight = f;
}

static void delist(struct flight *f)
{
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	f->work->endpoint->flight = NULL;
}

void flight_left(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct flight *f = ep->flight;
	delist(f);
	enlist(f, &ep->scraper->left);
}

static struct work *work_new(struct endpoint *ep)
{
	struct work *w = NEW(struct work);
	w->kind = WORK_SCRAPE;
	w->endpoint = ep;
	ep->refs++;
	w->config = scraper_config_ref(ep->config);
	w->job = ep->job;
	w->type = ep->type;
	w->start_ms = w->end_ms = clock_now_ms();
	w->slot_ms = ep->slot_ms;
	w->end_boot_ms = clock_boot_ms();
	return w;
}

static void set_due(struct endpoint *ep, int64_t start_ms, int64_t end_ms)
{
	int64_t was_ms = ep->due.key;
	schedule(ep, schedule_after(ep->slot_ms, start_ms, end_ms, ep->interval_ms, offset_of(ep)));
	int64_t slots = (ep->due.key - was_ms) / ep->interval_ms;
	if (slots > 1)
		metric_add(&scraper_table[M_SLOTS_MISSED], (double)(slots - 1), ep->job->name);
}

/* No caller saw this scrape; it ended, and its endpoint may have left meanwhile. */
static void hand_over(struct work *w)
{
	struct endpoint *ep = w->endpoint;
	if (ep->gone) {
		memory_drop_body(w);
		w->kind = WORK_GONE;
	} else {
		set_due(ep, w->start_ms, w->end_ms);
	}
	if (w->evicted)
		memory_came(ep, false);
	work_dispatch(w);
}

/* The status, and the beginning of what the server said about it, on one line. */
static void say_status(struct work *w, struct view body)
{
	char text[ERROR_TEXT + 1];
	size_t n = 0;
	for (size_t i = 0; i < body.len && n < ERROR_TEXT; i++) {
		unsigned char c = (unsigned char)body.ptr[i];
		bool blank = isspace(c) || iscntrl(c);
		if (blank && (!n || text[n - 1] == ' '))
			continue;
		text[n++] = blank ? ' ' : c < 0x80 ? (char)c : '?';
	}
	while (n && text[n - 1] == ' ')
		n--;
	text[n] = 0;
	if (conflict_is(w, text))
		conflict_say(w, text);
	else if (w->http_status == 404)
		err_set(&w->err, ERR_NOT_FOUND, "not served there (HTTP status 404)%s%s", n ? ": " : "", text);
	else
		err_set(&w->err, ERR_UNAVAILABLE, "the server answered HTTP status %d%s%s", w->http_status, n ? ": " : "", text);
}

/* Not the loop's own collecting: what arrives is counted, and cut off where there is no room. */
static enum fetch_data on_data(void *arg, const char *p, size_t n)
{
	struct flight *f = arg;
	if (atomic_load_explicit(&f->work->endpoint->scraper->stopping, memory_order_relaxed))
		return FETCH_END;
	return atomic_load_explicit(&f->work->evicted, memory_order_relaxed) ? FETCH_END : memory_receive(f->work, p, n);
}

/* Another endpoint that asks the same of the same target now; NULL: none was found. */
static const struct endpoint *asks_too(const struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	const struct flight *f = ep->scraper->flights;
	for (int i = 0; f && i < LOOKED_THROUGH; i++, f = f->next)
		if (f->work->endpoint != ep && f->work->endpoint->slot_hash == ep->slot_hash)
			return f->work->endpoint;
	return NULL;
}

static void on_done(void *arg, struct fetch_response *r, const struct err *e)
{
	struct flight *f = arg;
	struct work *w = f->work;
	struct scraper *s = w->endpoint->scraper;
	w->http_status = r->status;
	w->bytes = r->bytes_received;
	w->duration_ns = r->duration_ns;
	w->end_ms = MAX(clock_now_ms(), w->start_ms);
	w->end_boot_ms = clock_boot_ms();
	mutex_lock(&s->lock);
	if (w->evicted)
		memory_say_evicted(w); /* or it would be the end of the request */
	if (e->code)
		memory_say_short(w);
	bool of_use = !w->piece || (e->code && e->code != ERR_LIMIT) || piece_answered(w, r);
	mutex_unlock(&s->lock);
	if (e->code && !w->err.code)
		w->err = *e;
	else if (!e->code && r->status != 200)
		say_status(w, buf_view(&w->body));
	else if (!e->code && w->endpoint->is_metrics && w->body.len && metrics_work_check_type(w->job, view_of(r->content_type), &w->err))
		memory_drop_body(w);
	else if (!e->code && !of_use)
		piece_say_useless(w);
	if (e->code == ERR_LIMIT)
		metric_inc(&scraper_table[M_BODY_LIMIT]);
	mutex_lock(&s->lock);
	if (w->evicted)
		memory_say_evicted(w);
	if (w->err.code)
		memory_drop_body(w);
	memory_received(w);
	if (!w->err.code)
		w->endpoint->last_body = w->body.cap;
	const struct endpoint *other = w->conflict ? asks_too(w->endpoint) : NULL;
	if (other)
		conflict_step_aside(w, other);
	delist(f);
	turns_hold(s);
	hand_over(w);
	turns_unlock(s);
	free(f);
}

/* A scrape that could not begin is a failed scrape like any other. */
static void fail_at_once(struct work *w)
{
	w->end_ms = clock_now_ms();
	w->end_boot_ms = clock_boot_ms();
	hand_over(w);
}

void ask(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	bool extra = ep->extra;
	struct history_piece *piece = NULL;
	ep->extra = false;
	if (!extra)
		ep->extras = CURSOR_EXTRAS;
	if (pieces_of(ep) && !(piece = piece_begin(ep))) {
		int64_t now_ms = clock_now_ms();
		set_due(ep, now_ms, now_ms);
		return;
	}
	struct work *w = work_new(ep);
	w->piece = piece;
	const char *refused = ep->refused ? ep->refused : ep->pool ? ep->pool->refused : NULL;
	if (refused) {
		err_set(&w->err, ERR_LIMIT, "%s", refused);
		fail_at_once(w);
		return;
	}
	int no_memory = memory_begin(w, ep->last_start_ms, !piece && !extra);
	if (no_memory == MEMORY_COMES) {
		int64_t waited_ms = ep->last_start_ms - ep->short_ms;
		heap_put(&ep->scraper->due, &ep->due, ep->last_start_ms + MAX(BEGIN_AGAIN_MS, waited_ms / BEGIN_AGAIN_PART));
		work_free(w);
		return;
	}
	if (no_memory) {
		metric_add(&scraper_table[M_SLOTS_MISSED], 1, ep->job->name);
		fail_at_once(w);
		return;
	}
	struct flight *f = NEW(struct flight);
	char seconds[NUM_LEN];
	char *header = xasprintf("X-Prometheus-Scrape-Timeout-Seconds: %s", num_format((double)ep->deadline_ms / 1000, seconds));
	/* Text is the one format that every exporter has. */
	const char *headers[] = { header, "Accept: text/plain;version=0.0.4;q=0.9,*/*;q=0.1" };
	uint64_t limit = ep->job->body_size_limit;
	if (ep->is_metrics && limit)
		limit--; /* as Prometheus counts it: a body of exactly this many bytes is too large */
	char *url = piece ? piece_url(piece) : NULL;
	struct fetch_request q = { .url = url ? url : ep->url, .unix_socket = ep->socket, .headers = headers, .n_headers = ep->is_metrics ? 2 : 1, .timeout_ms = ep->deadline_ms,
				   .connect_timeout_ms = MIN(ep->timeout_ms, ep->deadline_ms),
				   .max_bytes = limit, .compressed = ep->job->enable_compression,
				   .on_data = on_data, .on_data_arg = f };
	if (piece)
		memcpy(q.want_headers, cursor_headers, sizeof q.want_headers);
	f->work = w;
	if (fetch_start(ep->scraper->loop, ep->client, &q, on_done, f, &f->fetch, &w->err)) {
		memory_drop_body(w);
		fail_at_once(w);
		free(f);
	} else {
		enlist(f, &ep->scraper->flights);
	}
	free(header);
	free(url);
}

static void drop_all(struct flight **list)
{
	for (struct flight *f; (f = *list);) {
		delist(f);
		fetch_cancel(f->fetch);
		work_free(f->work);
		free(f);
	}
}

void flights_drop(struct scraper *s)
{
	drop_all(&s->flights);
	drop_all(&s->left);
	drop_all(&s->evicted);
}

size_t flight_evict(struct endpoint *ep, bool in_loop)
{
	mutex_assert_held(&ep->scraper->lock);
	struct flight *f = ep->flight;
	if (!f)
		return 0;
	if (!atomic_exchange(&f->work->evicted, true)) {
		delist(f);
		enlist(f, &ep->scraper->evicted);
		if (!in_loop)
			fetch_loop_wake(ep->scraper->loop); /* the body is the loop's */
	}
	if (!in_loop)
		return 0;
	size_t held = f->work->held;
	memory_say_evicted(f->work);
	memory_drop_body(f->work);
	return held;
}

bool kept_evict(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	if (ep->turn == TURN_WORKS || ep->gone || ep->flight)
		return false;
	if (ep->turn == TURN_WAITS) {
		if (!work_has_body(ep->last))
			atomic_store(&ep->last->evicted, true); /* it failed, and has an error of its own */
		return ep->last->evicted;
	}
	struct work *w = work_new(ep);
	atomic_store(&w->evicted, true);
	w->slot_ms = 0;
	memory_say_evicted(w);
	work_dispatch(w);
	return true;
}

void flights_end_evicted(struct scraper *s)
{
	for (struct flight *f; (f = s->evicted);) {
		delist(f);
		fetch_cancel(f->fetch);
		memory_say_evicted(f->work);
		memory_drop_body(f->work);
		f->work->end_ms = MAX(clock_now_ms(), f->work->start_ms);
		f->work->end_boot_ms = clock_boot_ms();
		hand_over(f->work);
		free(f);
	}
}

bool flights_end_left(struct scraper *s)
{
	for (int i = 0; i < ENDED_AT_ONCE && s->left; i++) {
		struct flight *f = s->left;
		delist(f);
		fetch_cancel(f->fetch);
		f->work->end_ms = clock_now_ms();
		hand_over(f->work);
		free(f);
	}
	return s->left != NULL;
}
