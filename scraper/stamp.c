/* SPDX-License-Identifier: Apache-2.0 */
/* Stamps are of the wall clock, and ascend within a series as long as the clock is not set. When the clock is set back they go back
 * with it; otherwise nothing would be stored until the same time again. Durations then come from the other clock. */
#include <stdlib.h>

#include "scraper/internal.h"

#define TOGETHER_MS 5000 /* two requests' stamps may be out of order by this much, or the two clocks differ */

int64_t stamp_after(int64_t last_ms, int64_t t_ms)
{
	return t_ms > last_ms || last_ms - t_ms > TOGETHER_MS ? t_ms : last_ms + 1;
}

int64_t stamp_between(int64_t last_ms, int64_t last_boot_ms, const struct work *w, int64_t t_ms)
{
	int64_t wall_ms = t_ms - last_ms, boot_ms = w->end_boot_ms - last_boot_ms;
	if (!last_ms)
		return 0;
	return MAX(llabs(wall_ms - boot_ms) > TOGETHER_MS ? boot_ms : wall_ms, 0);
}

void stamp_move(int64_t *last_ms, int64_t *last_boot_ms, const struct work *w, int64_t t_ms)
{
	if (t_ms <= *last_ms && *last_ms - t_ms <= TOGETHER_MS)
		return;
	*last_ms = t_ms;
	*last_boot_ms = w->end_boot_ms;
}

int64_t stamp_since(const struct endpoint *ep, const struct work *w, int64_t t_ms)
{
	return stamp_between(ep->last_t_ms, ep->last_boot_ms, w, t_ms);
}

void stamp_note(struct endpoint *ep, const struct work *w, int64_t t_ms)
{
	stamp_move(&ep->last_t_ms, &ep->last_boot_ms, w, t_ms);
}
