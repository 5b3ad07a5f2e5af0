/* SPDX-License-Identifier: Apache-2.0 */
/* Selects the endpoint that a decoder takes next: the one that used least CPU recently. The CPU use of an endpoint halves every
 * HALF_LIFE_MS. So the order of two waiting ones does not change with time, and a key that grows with the clock expresses it.
 *
 *	works of an endpoint   first -> ... -> last      in order, one at a time
 *	endpoints that wait    light: what its last decode took is little, or not known yet
 *	                       heavy: it took more
 *
 * One decoder, the spare one, takes light ones only, so that heavy bodies on all the others hold nobody up. A light one
 * that turns out to be heavy is put back (turn_end) and decoded again from the start. The scraper's lock guards all. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "scraper/memory.h"
#include "scraper/piece.h"
#include "scraper/state/table.h"

#define HALF_LIFE_MS 10000
#define KEY_SCALE 1e6      /* of a doubling */
#define LIGHT_NS 20000000  /* a decode that takes no more is light */
#define MAX_BODIES 2       /* of one endpoint: one being decoded and one waiting */
#define MAX_WORKS 4        /* of one endpoint that wait; further failures are merged with the last */

struct work *work_end(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct work *w = NEW(struct work);
	w->kind = WORK_GONE;
	w->endpoint = ep;
	ep->refs++;
	w->end_ms = clock_now_ms();
	w->end_boot_ms = clock_boot_ms();
	return w;
}

void work_free(struct work *w)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	memory_drop_body(w);
	buf_free(&w->names.ask);
	buf_free(&w->names.answer);
	piece_end(w->piece);
	scraper_config_unref(w->config);
	endpoint_unref(w->endpoint);
	free(w);
}

static double cpu_now(const struct endpoint *ep, int64_t now_ms)
{
	return ep->cpu_ns * exp2((double)(ep->cpu_at_ms - now_ms) / HALF_LIFE_MS);
}

static int64_t key_of(const struct endpoint *ep)
{
	int64_t now = clock_mono_ms();
	double halvings = (double)now / HALF_LIFE_MS;
	if (!work_has_body(ep->first))
		return INT64_MIN + now; /* nothing to decode */
	return (int64_t)(KEY_SCALE * (log2(1 + cpu_now(ep, now)) + halvings));
}

static void wait_for_turn(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	struct scraper *s = ep->scraper;
	ep->light = !work_has_body(ep->first) || ep->decode_ns <= LIGHT_NS;
	ep->turn = TURN_WAITS;
	heap_put(ep->light ? &s->light : &s->heavy, &ep->turn_node, key_of(ep));
	bool work = s->n_idle, light = s->light.v.n > s->n_idle;
	if (s->turns_held) {
		s->held_work |= work;
		s->held_light |= light;
		return;
	}
	if (work)
		pthread_cond_signal(&s->work_came);
	if (light)
		pthread_cond_signal(&s->light_came);
}

void turns_hold(struct scraper *s)
{
	s->turns_held = true;
	s->held_work = s->held_light = false;
}

void turns_unlock(struct scraper *s)
{
	bool work = s->held_work, light = s->held_light;
	s->turns_held = false;
	mutex_unlock(&s->lock);
	if (work)
		pthread_cond_signal(&s->work_came);
	if (light)
		pthread_cond_signal(&s->light_came);
}

/* The body of a failed scrape is freed; the error is kept. */
static void refuse(struct work *w, const char *why)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct endpoint *ep = w->endpoint;
	metric_inc(&scraper_table[M_DROPPED]);
	memory_drop_body(w);
	err_set(&w->err, ERR_UNAVAILABLE, "%s", why);
	free(ep->last_error);
	ep->last_error = xstrdup(why);
}

static void append(struct endpoint *ep, struct work *w)
{
	w->next = NULL;
	*(ep->first ? &ep->last->next : &ep->first) = w;
	ep->last = w;
	ep->n_works++;
}

static void count_waiting(struct scraper *s, const struct work *w, int sign)
{
	mutex_assert_held(&s->lock);
	s->n_waiting += (size_t)sign;
	s->waiting_bytes += (size_t)sign * w->body.cap;
}

/* In a long queue of failures, the last one represents two. */
static bool merge(struct endpoint *ep, struct work *w)
{
	struct work *last = ep->last;
	if (w->kind != WORK_SCRAPE || work_has_body(w) || ep->n_works < MAX_WORKS || work_has_body(last) || last->kind != WORK_SCRAPE)
		return false;
	last->err = w->err;
	last->http_status = w->http_status;
	last->start_ms = w->start_ms;
	last->slot_ms = w->slot_ms;
	last->end_ms = w->end_ms;
	last->end_boot_ms = w->end_boot_ms;
	if (w->evicted)
		atomic_store(&last->evicted, true); /* it is to forget what is kept */
	work_free(w);
	return true;
}

void work_dispatch(struct work *w)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct endpoint *ep = w->endpoint;
	struct scraper *s = ep->scraper;
	if (s->stopped) {
		work_free(w);
		return;
	}
	if (work_has_body(w) && ep->n_bodies >= MAX_BODIES)
		refuse(w, "dropped here: the scrape before it is still waiting to be decoded or stored");
	if (merge(ep, w))
		return;
	ep->n_bodies += work_has_body(w);
	append(ep, w);
	count_waiting(s, w, 1);
	if (ep->turn == TURN_NONE)
		wait_for_turn(ep);
}

/* Of a work that waits, or is parked. */
static size_t drop_waiting_body(struct work *w)
{
	struct endpoint *ep = w->endpoint;
	if (!work_has_body(w) || !w->held)
		return 0;
	size_t held = w->held;
	ep->n_bodies--;
	atomic_store(&w->evicted, true);
	memory_drop_body(w);
	memory_say_evicted(w);
	return held;
}

size_t turn_evict(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	size_t all = ep->parked ? drop_waiting_body(ep->parked) : 0, waiting = 0;
	for (struct work *w = ep->first; w; w = w->next) {
		size_t cap = w->body.cap, held = drop_waiting_body(w);
		waiting += held;
		if (held)
			ep->scraper->waiting_bytes -= cap;
	}
	if (waiting && ep->turn == TURN_WAITS) {
		heap_remove(ep->light ? &ep->scraper->light : &ep->scraper->heavy, &ep->turn_node);
		wait_for_turn(ep);
	}
	return all + waiting;
}

static struct endpoint *first_of(const struct heap *h)
{
	struct heap_node *n = heap_first(h);
	return n ? heap_entry(n, struct endpoint, turn_node) : NULL;
}

static struct endpoint *choose(struct scraper *s, bool spare) REQUIRES(s->lock)
{
	struct endpoint *light = first_of(&s->light), *heavy = spare ? NULL : first_of(&s->heavy);
	if (!heavy || (light && light->turn_node.key <= heavy->turn_node.key))
		return light;
	if (light)
		pthread_cond_signal(&s->light_came);
	return heavy;
}

struct work *turn_begin(struct scrape_worker *wk)
{
	struct scraper *s = wk->scraper;
	struct endpoint *ep;
	mutex_lock(&s->lock);
	while (!(ep = choose(s, wk->spare)) && !s->stopped) {
		s->n_idle += !wk->spare;
		mutex_wait(&s->lock, wk->spare ? &s->light_came : &s->work_came);
		s->n_idle -= !wk->spare;
	}
	struct work *w = NULL;
	if (ep) {
		heap_remove(ep->light ? &s->light : &s->heavy, &ep->turn_node);
		w = ep->first;
		ep->first = w->next;
		ep->n_works--;
		ep->turn = TURN_WORKS;
		wk->light = ep->light;
		memory_decode(wk, ep);
		count_waiting(s, w, -1);
	}
	mutex_unlock(&s->lock);
	return w;
}

static void charge(struct endpoint *ep, int64_t cpu_ns)
{
	int64_t now = clock_mono_ms();
	ep->cpu_ns = cpu_now(ep, now) + (double)cpu_ns;
	ep->cpu_at_ms = now;
}

/* Again, before all else. */
static void put_back(struct work *w)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct endpoint *ep = w->endpoint;
	w->next = ep->first;
	if (!ep->first)
		ep->last = w;
	ep->first = w;
	ep->n_works++;
	count_waiting(ep->scraper, w, 1);
}

void turn_park(struct work *w, int64_t cpu_ns)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	assert(w->endpoint->turn == TURN_WORKS);
	charge(w->endpoint, cpu_ns);
	w->endpoint->parked = w;
	memory_decoded(w->endpoint);
	memory_freed(w->endpoint->scraper);
}

void turn_back(struct work *w)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct endpoint *ep = w->endpoint;
	assert(ep->turn == TURN_WORKS);
	ep->parked = NULL;
	put_back(w);
	ep->turn = TURN_NONE;
	wait_for_turn(ep);
}

void turn_end(struct work *w, int64_t cpu_ns, bool again)
{
	struct endpoint *ep = w->endpoint;
	struct scraper *s = ep->scraper;
	mutex_lock(&s->lock);
	assert(ep->turn == TURN_WORKS);
	charge(ep, cpu_ns);
	memory_decoded(ep);
	if (work_has_body(w))
		ep->decode_ns = again ? MAX(cpu_ns, LIGHT_NS + 1) : MAX(cpu_ns, ep->decode_ns / 2);
	if (again) {
		put_back(w);
	} else {
		ep->n_bodies -= work_has_body(w);
	}
	ep->turn = TURN_NONE;
	if (ep->first)
		wait_for_turn(ep);
	if (w->evicted)
		memory_came(ep, true);
	if (!again)
		work_free(w); /* the endpoint may go with it */
	memory_freed(s);
	mutex_unlock(&s->lock);
}
