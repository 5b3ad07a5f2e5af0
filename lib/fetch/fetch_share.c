/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the exchanges of one loop: the byte limit of large bodies, and name look-ups. The callbacks of an exchange ask here, and
 * so does the loop; only the loop's thread calls. */
#include "base/clock.h"
#include "fetch/fetch_internal.h"

#define PACE_BURST 10 /* of a second: what may be saved up */

void fetch_share_pace(struct fetch_share *s, uint64_t bytes_per_s)
{
	s->pace = bytes_per_s;
	s->grown_ns = clock_mono_ns();
}

void fetch_share_grow(struct fetch_share *s)
{
	int64_t now = clock_mono_ns();
	int64_t most = (int64_t)(s->pace / PACE_BURST), more = (int64_t)((double)s->pace * (double)(now - s->grown_ns) / 1e9);
	s->grown_ns = now;
	s->allowed = MIN(s->allowed + more, most);
}

void fetch_share_pause(struct fetch *f)
{
	struct fetch_share *s = f->share;
	if (f->paused)
		return;
	f->paused = true;
	f->prev_paused = s->last_paused;
	f->next_paused = NULL;
	*(f->prev_paused ? &f->prev_paused->next_paused : &s->first_paused) = f;
	s->last_paused = f;
	s->n_paused++;
}

void fetch_share_forget(struct fetch *f)
{
	struct fetch_share *s = f->share;
	if (!f->paused)
		return;
	f->paused = false;
	*(f->prev_paused ? &f->prev_paused->next_paused : &s->first_paused) = f->next_paused;
	*(f->next_paused ? &f->next_paused->prev_paused : &s->last_paused) = f->prev_paused;
	s->n_paused--;
}

/* Whether the body is large with these n bytes: then the byte limit holds for it. */
static bool is_paced(const struct fetch *f, size_t n)
{
	return f->share->pace && f->seen + n > FETCH_SMALL_BODY;
}

bool fetch_share_may_take(const struct fetch *f, size_t n)
{
	return !is_paced(f, n) || f->share->allowed > 0;
}

void fetch_share_took(struct fetch *f, size_t n)
{
	if (is_paced(f, 0))
		f->share->allowed -= (int64_t)n;
}

bool fetch_share_resolve(struct fetch *f)
{
	struct fetch_share *s = f->share;
	if (f->resolving)
		return true;
	f->too_many_names = s->resolving >= s->max_resolving;
	if (f->too_many_names)
		return false;
	f->resolving = true;
	s->resolving++;
	return true;
}

void fetch_share_resolved(struct fetch *f)
{
	if (f->resolving)
		f->share->resolving--;
	f->resolving = false;
}
