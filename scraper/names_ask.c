/* SPDX-License-Identifier: Apache-2.0 */
/* The requests for names: works that wait for one, those under way, and the way back to the decoders. */
#include "scraper/names_ask.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "scraper/names.h"
#include "scraper/state/table.h"

#define AT_A_TIME 32                   /* requests of all targets */
#define ANSWER_MAX ((uint64_t)2 << 20) /* bytes; --scrape.memory does not count it */
#define TIMEOUT_MS 5000                /* or less: all rounds take no more than an interval, or the next scrape would be dropped */

/* A request for names. */
struct name_flight {
	struct work *work;
	struct fetch *fetch;
	struct name_flight *next, **at;
};

/* The URL that pprof uses: beside the profile, "symbol" for Go's or gperftools' paths, else "symbolz". Owned. */
static char *symbol_url(const char *url)
{
	static const char *const gperftools[] = { "/pprof/heap", "/pprof/growth", "/pprof/profile", "/pprof/pmuprofile", "/pprof/contention" };
	struct view v = view_make(url, strcspn(url, "?#"));
	const char *host = strstr(url, "://"), *path = host ? memchr(host + 3, '/', v.len - (size_t)(host + 3 - url)) : NULL;
	bool plain = path && view_contains(view_make(path, v.len - (size_t)(path - url)), VIEW("/debug/pprof/"));
	for (size_t i = 0; i < ARRAY_LEN(gperftools); i++)
		plain |= view_ends(v, view_of(gperftools[i]));
	while (path && v.len > (size_t)(path - url) && v.ptr[v.len - 1] != '/')
		v.len--;
	return xasprintf("%.*s%s%s", VIEW_ARG(v), path ? "" : "/", plain ? "symbol" : "symbolz");
}

static void go_on_with(struct work *w, enum names_state state)
{
	w->names.state = state;
	turn_back(w);
}

static void on_answer(void *arg, struct fetch_response *r, const struct err *e)
{
	struct name_flight *f = arg;
	struct work *w = f->work;
	struct scraper *s = w->endpoint->scraper;
	if (e->code)
		w->names.err = *e;
	else if (r->status != 200)
		err_set(&w->names.err, ERR_UNAVAILABLE, "the symbol page answered HTTP status %d", r->status);
	else
		w->names.answer = r->body;
	if (!w->names.err.code)
		r->body = (struct buf){ 0 };
	else
		metric_inc(&scraper_table[M_NAMES_FAILED]);
	mutex_lock(&s->lock);
	*f->at = f->next;
	if (f->next)
		f->next->at = f->at;
	s->n_asking--;
	go_on_with(w, w->names.err.code ? NAMES_FAILED : NAMES_TOLD);
	mutex_unlock(&s->lock);
	free(f);
}

static void start(struct scraper *s, struct work *w) REQUIRES(s->lock)
{
	struct endpoint *ep = w->endpoint;
	struct name_flight *f = NEW(struct name_flight);
	char *url = symbol_url(ep->url);
	/* A server that knows no such page often leaves the body unread, and then takes it for the next request's beginning. */
	struct fetch_request q = { .url = url, .own_connection = true, .unix_socket = ep->socket, .body = buf_view(&w->names.ask), .max_bytes = ANSWER_MAX,
				   .timeout_ms = MIN(MIN(ep->timeout_ms, ep->interval_ms / NAMES_ROUNDS_MAX), (int64_t)TIMEOUT_MS),
				   .compressed = ep->job->enable_compression };
	f->work = w;
	metric_inc(&scraper_table[M_NAMES_ASKED]);
	if (fetch_start(s->loop, ep->client, &q, on_answer, f, &f->fetch, &w->names.err)) {
		metric_inc(&scraper_table[M_NAMES_FAILED]);
		free(f);
		go_on_with(w, NAMES_FAILED);
	} else {
		f->next = s->name_flights;
		f->at = &s->name_flights;
		if (f->next)
			f->next->at = &f->next;
		s->name_flights = f;
		s->n_asking++;
	}
	free(url);
}

void names_start(struct scraper *s)
{
	struct work *w;
	while (s->n_asking < AT_A_TIME && (w = s->to_ask)) {
		s->to_ask = w->next;
		start(s, w);
	}
}

void names_park(struct work *w, int64_t cpu_ns)
{
	struct scraper *s = w->endpoint->scraper;
	mutex_lock(&s->lock);
	w->names.rounds++;
	err_clear(&w->names.err);
	turn_park(w, cpu_ns);
	if (s->stopped) {
		go_on_with(w, NAMES_SKIPPED);
	} else {
		struct work **at = &s->to_ask;
		while (*at)
			at = &(*at)->next;
		w->next = NULL;
		*at = w;
		fetch_loop_wake(s->loop);
	}
	mutex_unlock(&s->lock);
}

void names_drop(struct scraper *s)
{
	struct work *w;
	for (struct name_flight *f; (f = s->name_flights);) {
		s->name_flights = f->next;
		fetch_cancel(f->fetch);
		go_on_with(f->work, NAMES_SKIPPED);
		free(f);
	}
	s->n_asking = 0;
	while ((w = s->to_ask)) {
		s->to_ask = w->next;
		go_on_with(w, NAMES_SKIPPED);
	}
}
