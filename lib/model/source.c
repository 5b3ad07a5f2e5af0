/* SPDX-License-Identifier: Apache-2.0 */
#include "model/source.h"

#include <stdio.h>

#include "base/clock.h"

int source_limits_check(const struct source_limits *lim, struct err *e)
{
	if (lim->canceled && atomic_load_explicit(lim->canceled, memory_order_relaxed))
		return err_set(e, ERR_CANCELED, "the query was canceled");
	if (lim->deadline_mono_ns && clock_mono_ns() > lim->deadline_mono_ns)
		return err_set(e, ERR_TIMEOUT, "the query took longer than its timeout: ask for less, or raise the request's timeout and "
			       "--query.timeout");
	return 0;
}

static void raise_to(atomic_int_fast64_t *to, int64_t v)
{
	int_fast64_t now = atomic_load(to);
	while (now < v && !atomic_compare_exchange_weak(to, &now, v))
		;
}

void source_damage_add(struct source_damage *d, int64_t after_ms, int64_t until_ms)
{
	raise_to(&d->until_ms, until_ms);
	raise_to(&d->before_from_ms, INT64_MAX - after_ms);
	atomic_fetch_add(&d->met, 1);
}

bool source_damage_say(const struct source_damage *d, char *text, size_t size)
{
	char from[RFC3339_LEN], until[RFC3339_LEN];
	if (!atomic_load(&d->met))
		return false;
	clock_rfc3339_ms(INT64_MAX - atomic_load(&d->before_from_ms), from);
	clock_rfc3339_ms(atomic_load(&d->until_ms), until);
	snprintf(text, size, "stored data between %s and %s is damaged: what cannot be read is missing from this answer", from, until);
	return true;
}
