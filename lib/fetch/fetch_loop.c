/* SPDX-License-Identifier: Apache-2.0 */
/* Many exchanges at once: one curl multi handle, turned by one thread. Connections are kept and used again. All calls
 * but fetch_loop_wake and fetch_loop_running come from the thread that turns it. */
#include <stdatomic.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "fetch/fetch_internal.h"

struct fetch_loop {
	CURLM *multi;
	struct fetch *first;
	atomic_size_t running; /* read by any thread */
	/* What large bodies may take now; below 0 they are paused until it has grown again. */
	uint64_t pace;         /* bytes a second; 0 = no limit */
	int64_t allowed, grown_ns;
	size_t n_paused;
};

#define PACE_BURST 10  /* of a second: what may be saved up */
#define PACE_WAIT_MS 20

void fetch_loop_pace(struct fetch_loop *l, uint64_t bytes_per_s)
{
	l->pace = bytes_per_s;
	l->grown_ns = clock_mono_ns();
}

bool fetch_loop_may_take(struct fetch *f, size_t n)
{
	struct fetch_loop *l = f->loop;
	if (!l->pace || f->seen + n <= FETCH_SMALL_BODY)
		return true;
	if (l->allowed > 0) {
		l->allowed -= (int64_t)n;
		return true;
	}
	if (!f->paused)
		l->n_paused++;
	f->paused = true;
	return false;
}

/* What was paused goes on, as far as there is something allowed. */
static void go_on(struct fetch_loop *l)
{
	int64_t now = clock_mono_ns();
	int64_t most = (int64_t)(l->pace / PACE_BURST), more = (int64_t)((double)l->pace * (double)(now - l->grown_ns) / 1e9);
	l->grown_ns = now;
	l->allowed = MIN(l->allowed + more, most);
	for (struct fetch *f = l->first; f && l->n_paused && l->allowed > 0; f = f->next) {
		if (!f->paused)
			continue;
		f->paused = false;
		l->n_paused--;
		curl_easy_pause(f->easy, CURLPAUSE_CONT); /* an error ends the transfer, which says so itself */
	}
}

struct fetch_loop *fetch_loop_new(struct err *e)
{
	struct fetch_client *warm = NULL;
	if (fetch_client_new(&warm, NULL, NULL, e)) /* sets curl up, once */
		return NULL;
	fetch_client_unref(warm);
	struct fetch_loop *l = NEW(struct fetch_loop);
	l->multi = curl_multi_init();
	if (!l->multi) {
		err_set(e, ERR_INTERNAL, "curl gives no multi handle");
		free_ptr(&l);
		return NULL;
	}
	return l;
}

static void take_out(struct fetch *f)
{
	struct fetch_loop *l = f->loop;
	curl_multi_remove_handle(l->multi, f->easy);
	l->n_paused -= f->paused;
	*(f->prev ? &f->prev->next : &l->first) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	atomic_fetch_sub(&l->running, 1);
}

void fetch_cancel(struct fetch *f)
{
	take_out(f);
	fetch_destroy(f);
}

void fetch_loop_free(struct fetch_loop *l)
{
	if (!l)
		return;
	while (l->first)
		fetch_cancel(l->first);
	curl_multi_cleanup(l->multi);
	free_ptr(&l);
}

int fetch_start(struct fetch_loop *l, struct fetch_client *c, const struct fetch_request *q,
		void (*done)(void *arg, struct fetch_response *r, const struct err *e), void *arg, struct fetch **ret,
		struct err *e)
{
	struct fetch *f = NULL;
	int rc = fetch_prepare(&f, c, q, false, e);
	if (rc)
		return rc;
	f->loop = l;
	f->done = done;
	f->arg = arg;
	CURLMcode mc = curl_multi_add_handle(l->multi, f->easy);
	if (mc) {
		fetch_destroy(f);
		return err_set(e, ERR_INTERNAL, "curl: %s", curl_multi_strerror(mc));
	}
	f->next = l->first;
	if (f->next)
		f->next->prev = f;
	l->first = f;
	atomic_fetch_add(&l->running, 1);
	if (ret)
		*ret = f;
	return 0;
}

static void finish(struct fetch *f, CURLcode rc)
{
	struct err e = { 0 };
	fetch_conclude(f, rc, &e);
	take_out(f);
	f->done(f->arg, &f->response, &e);
	fetch_destroy(f);
}

static void finish_those_done(struct fetch_loop *l)
{
	int left;
	for (CURLMsg *m; (m = curl_multi_info_read(l->multi, &left));) {
		struct fetch *f = NULL;
		if (m->msg != CURLMSG_DONE)
			continue;
		CURLcode rc = m->data.result; /* m goes with the handle */
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
		finish(f, rc);
	}
}

int fetch_loop_turn(struct fetch_loop *l, int wait_ms, struct err *e)
{
	int running;
	if (l->pace)
		go_on(l);
	CURLMcode mc = curl_multi_perform(l->multi, &running);
	if (!mc) {
		finish_those_done(l);
		if (l->n_paused)
			wait_ms = MIN(wait_ms, PACE_WAIT_MS);
		mc = curl_multi_poll(l->multi, NULL, 0, wait_ms, NULL);
	}
	if (!mc)
		mc = curl_multi_perform(l->multi, &running);
	if (mc)
		return err_set(e, ERR_INTERNAL, "curl: %s", curl_multi_strerror(mc));
	finish_those_done(l);
	return 0;
}

void fetch_loop_wake(struct fetch_loop *l)
{
	curl_multi_wakeup(l->multi);
}

size_t fetch_loop_running(const struct fetch_loop *l)
{
	return atomic_load(&l->running);
}
