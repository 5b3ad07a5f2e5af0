/* SPDX-License-Identifier: Apache-2.0 */
/* Many targets give one CPU profile at a time; programs in Go answer 500 while they measure for somebody else. Here that answer
 * becomes a text that says who else it may be and what helps. If it is another job of this server, the later one steps aside:
 * its slots begin when the other's scrapes have ended. Runs in the loop thread. */
#include <stdlib.h>

#include "base/units.h"
#include "scraper/internal.h"

#define BETWEEN_MS 500 /* from the planned end of one scrape to the beginning of the next one */

bool conflict_is(const struct work *w, const char *answer)
{
	return w->type->delta && w->http_status >= 400 && strcasestr(answer, "profil") && strcasestr(answer, "already");
}

/* The likely other client, if it is not a job of this server, and a remedy. */
static char *say_others(const struct endpoint *ep)
{
	int64_t servers = ep->scraper->replicas;
	char interval[DURATION_LEN];
	units_format_duration(ep->interval_ms, interval);
	if (servers == 1)
		return xasprintf("another server (then both need --scrape.replica, and seconds below half of scrape_interval: it is %lld of "
				 "%s), another job, or someone with go tool pprof", (long long)ep->asked_s, interval);
	if (ep->asked_s * 1000 * servers >= ep->interval_ms)
		return xasprintf("another server, as seconds is %lld and must be below scrape_interval/%lld, which is %s/%lld; or another job, "
				 "or someone with go tool pprof", (long long)ep->asked_s, (long long)servers, interval, (long long)servers);
	return xasprintf("another server (all need the same scrape_interval, clocks that agree, and their own I with the same N=%lld "
			 "in --scrape.replica), another job, or someone with go tool pprof", (long long)servers);
}

void conflict_say(struct work *w, const char *answer)
{
	char *others AUTOFREE = say_others(w->endpoint);
	w->conflict = true;
	err_set(&w->err, ERR_UNAVAILABLE, "the target measures for somebody else already, and does so for one at a time (HTTP status %d: %s). "
		"Possible cause: %s", w->http_status, answer, others);
}

void conflict_step_aside(struct work *w, const struct endpoint *other)
{
	mutex_assert_held(&w->endpoint->scraper->lock);
	struct endpoint *ep = w->endpoint;
	int64_t room_ms = ep->interval_ms / ep->scraper->replicas;
	int64_t aside_ms = other->aside_ms + other->asked_s * 1000 + BETWEEN_MS;
	bool fits = other->interval_ms == ep->interval_ms && aside_ms + ep->asked_s * 1000 < room_ms;
	if (fits)
		ep->aside_ms = aside_ms;
	err_set(&w->err, ERR_UNAVAILABLE, "the target measures for job \"%s\" of this server already, and does so for one at a time. %s",
		other->job->name, fits ? "From now on this one is asked when that one has been answered"
				       : "Both do not fit into scrape_interval: they need the same interval, and smaller seconds");
}
