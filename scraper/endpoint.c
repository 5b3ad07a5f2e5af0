/* SPDX-License-Identifier: Apache-2.0 */
/* The end of an endpoint: the last who knew it gives back what it held, and its target goes with the last of its endpoints. */
#include <stdlib.h>
#include <string.h>

#include "scraper/memory.h"
#include "scraper/names.h"

static void target_unref(struct scraper *s, struct target *t)
{
	if (--t->refs)
		return;
	struct target *last = s->targets.v[--s->targets.n];
	map_remove(&s->target_index, t->key, t->index);
	if (last != t) {
		map_remove(&s->target_index, last->key, last->index);
		last->index = t->index;
		map_insert(&s->target_index, last->key, last->index);
		s->targets.v[last->index] = last;
	}
	vec_free(&t->endpoints);
	free(t->labels);
	free(t);
}

static void leave_target(struct endpoint *ep)
{
	struct target *t = ep->target;
	for (size_t i = 0; i < t->endpoints.n; i++)
		if (t->endpoints.v[i] == ep) {
			memmove(&t->endpoints.v[i], &t->endpoints.v[i + 1], (t->endpoints.n - i - 1) * sizeof *t->endpoints.v);
			t->endpoints.n--;
			break;
		}
	target_unref(ep->scraper, t);
}

void endpoint_unref(struct endpoint *ep)
{
	mutex_assert_held(&ep->scraper->lock);
	if (--ep->refs)
		return;
	leave_target(ep);
	scraper_config_unref(ep->config);
	fetch_client_unref(ep->client);
	baseline_leave(ep);
	baseline_unref(ep->before);
	series_set_release(&ep->series);
	names_free(ep->names, &ep->memory);
	metric_cache_release(&ep->metrics);
	metric_families_unref(ep->families);
	receipt_unref(ep->receipt);
	memory_leave(ep);
	if (ep->cursor)
		ep->cursor->refs--;
	free(ep->url);
	free(ep->socket);
	free(ep->name);
	discovery_group_unref(ep->group);
	free(ep->refused);
	free(ep->last_error);
	free(ep->note);
	free(ep);
}
