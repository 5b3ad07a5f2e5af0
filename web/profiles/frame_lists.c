/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of frames that clients have. A refresh of a profile, and a zoom into it, name the same functions again: their
 * texts are most of an answer. Kept of a list are keyed hashes, so that nobody can choose names that meet. */
#include <stdlib.h>
#include <sys/random.h>

#include "base/lock.h"
#include "base/map.h"
#include "base/vec.h"
#include "web/profiles/flame_columns.h"

#define MOST_LISTS 256
#define LONGEST 65536 /* frames of a list */

/* Does not change once others see it. */
struct frame_list {
	uint64_t name;
	size_t refs, used; /* used: the count of questions when it was asked for */
	uint64_t *hashes;  /* by place */
	size_t n;
	struct map index;  /* hash -> place */
};

struct frame_lists {
	struct mutex lock;
	uint64_t seed;
	size_t most_frames, frames, questions;
	struct frame_list *v[MOST_LISTS];
	size_t n;
};

struct frame_lists *frame_lists_new(size_t most_frames)
{
	struct frame_lists *l = xcalloc(1, sizeof *l);
	mutex_init(&l->lock, LOCK_LEAF, "frame lists");
	l->most_frames = most_frames;
	if (getrandom(&l->seed, sizeof l->seed, GRND_NONBLOCK) != sizeof l->seed)
		l->seed = (uint64_t)(uintptr_t)l;
	return l;
}

static void list_unref(struct frame_list *x)
{
	if (!x || --x->refs)
		return;
	free(x->hashes);
	map_free(&x->index);
	free(x);
}

void frame_lists_free(struct frame_lists *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n; i++)
		list_unref(l->v[i]);
	mutex_destroy(&l->lock);
	free(l);
}

/* A function may be called "total", in no file, as all of it is. */
static uint64_t frame_hash(const struct frame_lists *l, const struct flame_frame *f, bool is_whole)
{
	const uint64_t parts[] = { hash_bytes_seed(f->name.ptr, f->name.len, l->seed), hash_bytes_seed(f->file.ptr, f->file.len, l->seed),
				   hash_bytes_seed(f->binary.ptr, f->binary.len, l->seed), (uint64_t)f->start_line, is_whole };
	return hash_bytes_seed(parts, sizeof parts, l->seed);
}

/* ---- the lists ---- */

static struct frame_list *find(struct frame_lists *l, uint64_t name) REQUIRES(l->lock)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i]->name == name) {
			l->v[i]->used = ++l->questions;
			l->v[i]->refs++;
			return l->v[i];
		}
	return NULL;
}

static void forget_oldest(struct frame_lists *l) REQUIRES(l->lock)
{
	size_t oldest = 0;
	for (size_t i = 1; i < l->n; i++)
		if (l->v[i]->used < l->v[oldest]->used)
			oldest = i;
	struct frame_list *x = l->v[oldest];
	l->frames -= x->n;
	l->v[oldest] = l->v[--l->n];
	list_unref(x);
}

/* Takes x. */
static void keep(struct frame_lists *l, struct frame_list *x) REQUIRES(l->lock)
{
	struct frame_list *there = find(l, x->name);
	if (there || x->n > l->most_frames) {
		list_unref(there);
		list_unref(x);
		return;
	}
	while (l->n == MOST_LISTS || (l->n && l->frames + x->n > l->most_frames))
		forget_oldest(l);
	x->used = ++l->questions;
	l->frames += x->n;
	l->v[l->n++] = x;
}

/* ---- the frames of one answer ---- */

static bool place_of(const struct frame_list *x, uint64_t hash, uint32_t *ret)
{
	for (size_t at = map_start(&x->index, hash); map_probe(&x->index, hash, &at, ret);)
		if (x->hashes[*ret] == hash)
			return true;
	return false;
}

static int by_place(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

/* The old list, which may be NULL, with the new frames behind it. */
static struct frame_list *extend(const struct frame_lists *l, const struct frame_list *old, const struct frame_numbers *m,
				 const uint64_t *hashes)
{
	size_t before = old ? old->n : 0;
	struct frame_list *x = xcalloc(1, sizeof *x);
	x->refs = 1;
	x->n = before + m->n_new;
	x->hashes = xmalloc(x->n * sizeof *x->hashes);
	if (before)
		memcpy(x->hashes, old->hashes, before * sizeof *x->hashes);
	for (size_t i = 0; i < m->n_new; i++)
		x->hashes[before + i] = hashes[m->new[i]];
	map_reserve(&x->index, x->n);
	for (size_t i = 0; i < x->n; i++)
		map_insert(&x->index, x->hashes[i], (uint32_t)i);
	x->name = hash_bytes_seed(x->hashes, x->n * sizeof *x->hashes, l->seed) | 1; /* 0 is none */
	return x;
}

/* Which frames are in the list, and which are new. */
static void divide(const struct frame_list *old, const struct flame *f, const uint64_t *hashes, struct frame_numbers *m)
{
	for (uint32_t i = 0; i < f->n_frames; i++)
		if (old && place_of(old, hashes[i], &m->of_frame[i]))
			m->known[m->n_known++] = m->of_frame[i];
		else
			m->new[m->n_new++] = i;
	qsort(m->known, m->n_known, sizeof *m->known, by_place);
}

static void number(const struct frame_list *old, const struct flame *f, const uint64_t *hashes, struct frame_numbers *m)
{
	uint32_t *at = old ? xcalloc(old->n, sizeof *at) : NULL, place;
	for (uint32_t i = 0; i < m->n_known; i++)
		at[m->known[i]] = i;
	for (size_t i = 0; i < m->n_new; i++)
		m->of_frame[m->new[i]] = (uint32_t)(m->n_known + i);
	for (size_t i = 0; i < f->n_frames && old; i++)
		if (place_of(old, hashes[i], &place))
			m->of_frame[i] = at[place];
	free(at);
}

void frame_lists_number(struct frame_lists *l, uint64_t list, const struct flame *f, struct frame_numbers *ret)
{
	size_t n = f->n_frames;
	uint64_t *hashes AUTOFREE = xmalloc(n * sizeof *hashes);
	*ret = (struct frame_numbers){ .known = xmalloc(n * sizeof *ret->known), .new = xmalloc(n * sizeof *ret->new),
				       .of_frame = xmalloc(n * sizeof *ret->of_frame) };
	for (size_t i = 0; i < n; i++)
		hashes[i] = frame_hash(l, &f->frames[i], i == 0);
	mutex_lock(&l->lock);
	struct frame_list *old = list ? find(l, list) : NULL;
	mutex_unlock(&l->lock);
	divide(old, f, hashes, ret);
	if (old && (!ret->n_known || old->n + ret->n_new > LONGEST)) { /* a list of another program, or one that grew for too long */
		mutex_lock(&l->lock);
		list_unref(old);
		mutex_unlock(&l->lock);
		old = NULL;
		ret->n_known = ret->n_new = 0;
		divide(NULL, f, hashes, ret);
	}
	number(old, f, hashes, ret);
	struct frame_list *now = (ret->n_new || !old) && n <= LONGEST ? extend(l, old, ret, hashes) : NULL;
	ret->of = old ? old->name : 0;
	ret->list = now ? now->name : ret->of;
	mutex_lock(&l->lock);
	list_unref(old);
	if (now)
		keep(l, now);
	mutex_unlock(&l->lock);
}

void frame_numbers_release(struct frame_numbers *n)
{
	free(n->known);
	free(n->new);
	free(n->of_frame);
	*n = (struct frame_numbers){ 0 };
}
