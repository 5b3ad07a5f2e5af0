/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/state/receipt.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/log.h"
#include "scraper/state/table.h"

struct receipt {
	atomic_int refs;
	atomic_bool failed, news;
	char *why; /* why_lock guards it */
};

/* Nobody holds it for long, and only where something failed. */
static struct mutex why_lock = MUTEX_INIT(LOCK_LEAF, "receipts");

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
		mutex_lock(&why_lock);
		free(r->why);
		r->why = xstrdup(e->msg);
		mutex_unlock(&why_lock);
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
	mutex_lock(&why_lock);
	char *why = xstrdup(r->why);
	mutex_unlock(&why_lock);
	return why;
}

bool receipt_take_failure(struct receipt *r)
{
	return atomic_load_explicit(&r->news, memory_order_relaxed) && atomic_exchange(&r->news, false);
}
