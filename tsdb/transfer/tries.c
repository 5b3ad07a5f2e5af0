/* SPDX-License-Identifier: Apache-2.0 */
/* What is remembered of the uploads and fetches of each day since the start, for the next try. */
#include "tsdb/transfer/transfer_private.h"

struct transfer_seen *transfer_seen(struct transfer *t, uint32_t day)
{
	for (size_t i = 0; i < t->seen.n; i++)
		if (t->seen.v[i].day == day)
			return &t->seen.v[i];
	struct transfer_seen *s = vec_add(&t->seen);
	s->day = day;
	return s;
}
