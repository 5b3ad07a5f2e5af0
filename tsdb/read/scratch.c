/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/read/scratch.h"


#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"

#define KEEP 8
#define KEEP_MS INT64_C(60000)
#define MAX_BYTES ((size_t)32 << 20) /* one that grew beyond it is not kept */

struct scratch_pool {
	struct mutex lock;
	struct read_scratch *idle[KEEP];
	size_t n;
};

struct scratch_pool *scratch_pool_new(void)
{
	struct scratch_pool *s = NEW(struct scratch_pool);
	mutex_init(&s->lock, LOCK_LEAF, "scratch");
	return s;
}

static void free_scratch(struct read_scratch *x)
{
	part_scratch_release(&x->part);
	dense_release(&x->dense);
	dense_release(&x->work);
	free(x->slots);
	free(x);
}

void scratch_pool_free(struct scratch_pool *s)
{
	if (!s)
		return;
	scratch_pool_tidy(s, true);
	mutex_destroy(&s->lock);
	free(s);
}

struct read_scratch *scratch_take(struct scratch_pool *s)
{
	mutex_lock(&s->lock);
	struct read_scratch *x = s->n ? s->idle[--s->n] : NULL;
	mutex_unlock(&s->lock);
	return x ? x : NEW(struct read_scratch);
}

void scratch_give(struct scratch_pool *s, struct read_scratch *x)
{
	if (!x)
		return;
	part_scratch_leave(&x->part);
	if (!dense_is_empty(&x->dense))
		dense_release(&x->dense); /* of a query that failed */
	x->given_mono_ms = clock_mono_ms();
	bool keep = part_scratch_bytes(&x->part) + dense_bytes(&x->dense) + dense_bytes(&x->work) + x->n_slots * sizeof *x->slots <= MAX_BYTES;
	mutex_lock(&s->lock);
	keep &= s->n < KEEP;
	if (keep)
		s->idle[s->n++] = x;
	mutex_unlock(&s->lock);
	if (!keep)
		free_scratch(x);
}

void scratch_slots(struct read_scratch *x, size_t n)
{
	if (n <= x->n_slots)
		return;
	free(x->slots);
	x->slots = xcalloc(n, sizeof *x->slots);
	x->n_slots = n;
}

void scratch_pool_tidy(struct scratch_pool *s, bool all)
{
	struct read_scratch *old[KEEP];
	size_t n = 0, kept = 0;
	int64_t now = clock_mono_ms();
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->n; i++)
		if (all || now - s->idle[i]->given_mono_ms > KEEP_MS)
			old[n++] = s->idle[i];
		else
			s->idle[kept++] = s->idle[i];
	s->n = kept;
	mutex_unlock(&s->lock);
	while (n)
		free_scratch(old[--n]);
}
