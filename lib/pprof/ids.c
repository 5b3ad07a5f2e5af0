/* SPDX-License-Identifier: Apache-2.0 */
/* Ids of messages that are not 1, 2, 3 ... in order of arrival. */
#include <stdlib.h>

#include "pprof/wire.h"

int pprof_add_odd_id(struct decoder *d, struct ids *t, uint64_t id, const uint8_t *at)
{
	if (UNLIKELY(!id))
		return fail(d, ERR_BAD_DATA, at, "a %s has no id, or id 0", t->what);
	if (!t->v) {
		t->v = arena_alloc(&d->p->arena, (size_t)t->cap * sizeof *t->v);
		if (!t->v)
			return pprof_no_memory(d);
		for (uint32_t i = 0; i < t->n; i++)
			t->v[i] = (uint64_t)i + 1;
		t->largest = t->n;
	}
	t->largest = MAX(t->largest, id);
	t->v[t->n++] = id;
	return 0;
}

uint32_t pprof_find_id(const struct ids *t, uint64_t id)
{
	if (!t->v)
		return id <= t->n ? (uint32_t)id : 0;
	if (t->direct)
		return id <= t->largest ? t->direct[id] : 0;
	for (uint32_t low = 0, high = t->sorted ? t->n : 0; low < high;) {
		uint32_t mid = low + (high - low) / 2;
		if (t->sorted[mid].id == id)
			return t->sorted[mid].index + 1;
		if (t->sorted[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return 0;
}

static int duplicate_id(struct decoder *d, const struct ids *t, uint64_t id)
{
	return err_set(d->e, ERR_BAD_DATA, "pprof: two %ss have the id %llu (are these several profiles, one after the other?)",
		       t->what, (unsigned long long)id);
}

static int by_id(const void *a, const void *b)
{
	const struct id_at *x = a, *y = b;
	return (x->id > y->id) - (x->id < y->id);
}

static int sort_ids(struct decoder *d, struct ids *t)
{
	t->sorted = arena_alloc(&d->p->arena, t->n * sizeof *t->sorted);
	if (!t->sorted)
		return pprof_no_memory(d);
	for (uint32_t i = 0; i < t->n; i++)
		t->sorted[i] = (struct id_at){ t->v[i], i };
	qsort(t->sorted, t->n, sizeof *t->sorted, by_id);
	for (uint32_t i = 1; i < t->n; i++)
		if (t->sorted[i - 1].id == t->sorted[i].id)
			return duplicate_id(d, t, t->sorted[i].id);
	return 0;
}

int pprof_index_ids(struct decoder *d, struct ids *t)
{
	if (!t->v)
		return 0;
	if (t->largest >= (uint64_t)t->n * 8 + 1024)
		return sort_ids(d, t);
	t->direct = arena_calloc(&d->p->arena, (size_t)t->largest + 1, sizeof *t->direct);
	if (!t->direct)
		return pprof_no_memory(d);
	for (uint32_t i = 0; i < t->n; i++) {
		if (t->direct[t->v[i]])
			return duplicate_id(d, t, t->v[i]);
		t->direct[t->v[i]] = i + 1;
	}
	return 0;
}
