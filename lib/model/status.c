/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows a search finds. Pure. */
#include "model/status.h"

#include <ctype.h>

/* Most texts have no byte of the first letter: memchr looks for both of its cases. */
static bool has(struct view text, struct view what)
{
	const char first[2] = { (char)tolower((unsigned char)what.ptr[0]), (char)toupper((unsigned char)what.ptr[0]) };
	if (text.len < what.len)
		return false;
	for (int k = 0; k < (first[0] == first[1] ? 1 : 2); k++)
		for (const char *p = text.ptr, *end = text.ptr + text.len - what.len + 1; p < end; p++) {
			p = memchr(p, first[k], (size_t)(end - p));
			if (!p)
				break;
			size_t i = 1;
			while (i < what.len && tolower((unsigned char)p[i]) == tolower((unsigned char)what.ptr[i]))
				i++;
			if (i == what.len)
				return true;
		}
	return false;
}

static bool labels_have(struct labels l, struct view what)
{
	for (size_t i = 0; i < l.n; i++)
		if (has(l.v[i].name, what) || has(l.v[i].value, what))
			return true;
	return false;
}

bool status_target_has(const struct status_target *t, struct view what)
{
	return !what.len || has(t->pool, what) || has(t->scrape_url, what) || has(t->profile, what) || has(t->last_error, what) ||
	       has(t->note, what) || labels_have(t->labels, what) || labels_have(t->discovered, what);
}

bool status_dropped_has(const struct status_dropped *d, struct view what)
{
	return !what.len || has(d->pool, what) || has(d->profile, what) || has(d->reason, what) || labels_have(d->discovered, what);
}
