/* SPDX-License-Identifier: Apache-2.0 */
/* The values of an endpoint's cumulative types at its last scrape, and the time of that scrape. An increase covers exactly the time
 * since then, whether or not storage accepted the profile.
 *
 * An endpoint is what is asked and the labels of its series. If relabelling changes those labels, a new endpoint asks the same process
 * for the same type. When the old one leaves and the new one comes in the same sync, the new one becomes the heir. It takes over the
 * baseline when it is scraped first, if the old one's last work is done by then. Otherwise it starts without one, and the gap
 * shows. */
#ifndef PYRRHA_SCRAPER_BASELINE_H
#define PYRRHA_SCRAPER_BASELINE_H

#include <stdatomic.h>

#include "base/attrs.h"
#include "scraper/state/delta.h"

struct endpoint;
struct work;

struct baseline {
	int refs;             /* under the scraper's lock */
	bool over;            /* its endpoint left and has no more work: under the lock */
	atomic_bool has_heir; /* another one's series go on where those of its endpoint end */
	/* The decoder's that works on the endpoint; once it is over, the heir's: */
	struct delta delta;
	struct budget memory; /* of it: part of the endpoint's, of the scraper's once that is freed */
	uint64_t columns;     /* hash of what they are */
	int64_t t_ms, boot_ms; /* stamp, and end_boot_ms of the request; 0 = never */
};

struct baseline *baseline_new(struct budget *parent) MUST_USE;
/* The endpoint is freed: its reference goes. Asserts the scraper's lock. */
void baseline_leave(struct endpoint *ep);
/* Bytes that baseline_forget would free. 0 while a decoder works on the endpoint, and 0 if the endpoint that replaces this one may take the baseline
 * over. Asserts the lock. */
size_t baseline_idle_bytes(const struct endpoint *ep);
/* The endpoint's next scrape is a first one: its series go on with the second. Returns the bytes that were freed. Asserts the lock. */
size_t baseline_forget(struct endpoint *ep);
/* Under the lock; NULL is allowed. */
void baseline_unref(struct baseline *b);
/* Old leaves, and fresh, which was never scraped, is asked the same. Asserts the scraper's lock. */
void baseline_bequeath(struct endpoint *old, struct endpoint *fresh);
/* From the decoder that works on the endpoint: that was its last work. */
void baseline_end(struct endpoint *ep);
/* Likewise: its first scrape of columns with that hash. Baselines of other endpoints are forgotten. */
void baseline_begin(struct endpoint *ep, uint64_t columns);
/* Likewise: the profile of that request and stamp is the baseline now. Returns how long after the one before it is, ms; 0: there
 * was none, or it is not later. */
int64_t baseline_moved(struct endpoint *ep, const struct work *w, int64_t t_ms);

#endif
