/* SPDX-License-Identifier: Apache-2.0 */
/* Many exchanges at once: one curl multi handle, turned by one thread. Connections are kept and used again. All calls
 * but fetch_loop_wake and fetch_loop_running come from the thread that turns it. */
#include <stdatomic.h>

#include "base/alloc.h"
#include "fetch/fetch_internal.h"

struct fetch_loop {
	CURLM *multi;
	struct fetch *first;
	atomic_size_t running; /* read by any thread */
};

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
	CURLMcode mc = curl_multi_perform(l->multi, &running);
	if (!mc) {
		finish_those_done(l);
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
