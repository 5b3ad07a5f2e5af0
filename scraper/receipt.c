/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/receipt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "scraper/table.h"

struct receipt {
	atomic_int refs;
	atomic_bool failed, news;
	char *why; /* under why_lock */
};

/* Nobody holds it for long, and only where something failed. */
static pthread_mutex_t why_lock = PTHREAD_MUTEX_INITIALIZER;

struct receipt *receipt_new(void)
{
	struct receipt *r = NEW(struct receipt);
	r->refs = 1;
	return r;
}

void receipt_unref(struct receipt *r)
{
	if (!r || atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	free(r->why);
	free(r);
}

struct receipt *receipt_expect(struct receipt *r)
{
	atomic_fetch_add(&r->refs, 1);
	return r;
}

void receipt_done(void *arg, const struct err *e)
{
	struct receipt *r = arg;
	if (e->code) {
		metric_inc(&scraper_table[M_SINK_FAILED]);
		pthread_mutex_lock(&why_lock);
		free(r->why);
		r->why = xstrdup(e->msg);
		pthread_mutex_unlock(&why_lock);
		atomic_store(&r->news, true);
		if (!atomic_exchange(&r->failed, true))
			LOG_DEBUG("msg", "a scrape was not stored", "err", e->msg);
	} else if (atomic_load_explicit(&r->failed, memory_order_relaxed)) {
		atomic_store(&r->failed, false);
	}
	receipt_unref(r);
}

char *receipt_failure(struct receipt *r)
{
	if (!atomic_load(&r->failed))
		return NULL;
	pthread_mutex_lock(&why_lock);
	char *why = xstrdup(r->why);
	pthread_mutex_unlock(&why_lock);
	return why;
}

bool receipt_take_failure(struct receipt *r)
{
	return atomic_load_explicit(&r->news, memory_order_relaxed) && atomic_exchange(&r->news, false);
}
