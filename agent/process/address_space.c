/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/address_space.h"

#include <stdlib.h>
#include <string.h>

#include "agent/process/images.h"
#include "base/alloc.h"

struct address_space *address_space_new(void)
{
	struct address_space *as = NEW(struct address_space);
	as->refs = 1;
	return as;
}

struct address_space *address_space_ref(struct address_space *as)
{
	as->refs++;
	return as;
}

static void drop_unwind(struct address_space *as)
{
	free(as->unwind);
	as->unwind = NULL;
}

void address_space_unref(struct address_space *as)
{
	if (!as || --as->refs)
		return;
	for (size_t i = 0; i < as->v.n; i++)
		if (as->v.v[i].image)
			images_unmap(as->v.v[i].image);
	drop_unwind(as);
	image_unref(as->exe_file);
	vec_free(&as->v);
	free(as);
}

/* Makes it one that no other process shares, which may be changed. */
static struct address_space *own(struct address_space **as)
{
	struct address_space *old = *as;

	if (!old) {
		*as = address_space_new();
	} else if (old->refs > 1) {
		struct address_space *copy = *as = address_space_new();
		vec_reserve(&copy->v, old->v.n);
		for (size_t i = 0; i < old->v.n; i++) {
			vec_push(&copy->v, old->v.v[i]);
			if (old->v.v[i].image)
				images_map(old->v.v[i].image);
		}
		copy->exe_file = old->exe_file ? image_ref(old->exe_file) : NULL;
		address_space_unref(old);
	} else {
		drop_unwind(old);
	}
	return *as;
}

/* Index of the first mapping that ends above addr; v.n if none does. */
static size_t find(const struct address_space *as, uint64_t addr)
{
	size_t lo = 0, hi = as->v.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (as->v.v[mid].end > addr)
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

const struct mapping *address_space_at(const struct address_space *as, uint64_t addr)
{
	size_t i = as ? find(as, addr) : 0;
	return as && i < as->v.n && as->v.v[i].start <= addr ? &as->v.v[i] : NULL;
}

static void insert_at(struct address_space *as, size_t i, struct mapping m)
{
	vec_reserve(&as->v, as->v.n + 1);
	memmove(&as->v.v[i + 1], &as->v.v[i], (as->v.n - i) * sizeof m);
	as->v.v[i] = m;
	as->v.n++;
}

static void remove_at(struct address_space *as, size_t i)
{
	if (as->v.v[i].image)
		images_unmap(as->v.v[i].image);
	memmove(&as->v.v[i], &as->v.v[i + 1], (as->v.n - i - 1) * sizeof as->v.v[0]);
	as->v.n--;
}

/* Whether the addresses mean the same in both: code without a file is followed by frame pointers wherever it is. */
static bool same_code(const struct mapping *a, const struct mapping *b)
{
	return a->image == b->image && (!a->image || a->file_offset - a->start == b->file_offset - b->start);
}

/* Makes room for a mapping. If a mapping would be split and there are too many already, it loses its upper part. */
static void clear(struct address_space *as, const struct mapping *by, address_space_gone_fn *gone, void *arg)
{
	uint64_t start = by->start, end = by->end;
	size_t i = find(as, start);

	while (i < as->v.n && as->v.v[i].start < end) {
		struct mapping *m = &as->v.v[i];
		if (!same_code(m, by))
			gone(arg, m->image);
		if (m->start < start && m->end > end && as->v.n < MAPPINGS_MAX) {
			struct mapping right = { end, m->end, m->file_offset + (end - m->start), m->image, m->settled, m->region };
			m->end = start;
			if (right.image)
				images_map(right.image);
			insert_at(as, i + 1, right);
			return;
		}
		if (m->start < start) {
			m->end = start;
			i++;
		} else if (m->end > end) {
			m->file_offset += end - m->start;
			m->start = end;
			return;
		} else {
			remove_at(as, i);
		}
	}
}

/* Whether b follows a and both are the same code without a file. */
static bool are_one(const struct mapping *a, const struct mapping *b)
{
	return !a->image && !b->image && a->region == b->region && a->end == b->start;
}

bool address_space_add(struct address_space **where, struct mapping m, address_space_gone_fn *gone, void *arg)
{
	if (*where) {
		size_t i = find(*where, m.start);
		const struct mapping *o = i < (*where)->v.n ? &(*where)->v.v[i] : NULL;
		if (o && o->image == m.image && o->start <= m.start && o->end >= m.end &&
		    (!m.image || o->file_offset + (m.start - o->start) == m.file_offset))
			return false;
	}
	struct address_space *as = own(where);
	clear(as, &m, gone, arg);
	size_t i = find(as, m.start);
	struct mapping *left = i ? &as->v.v[i - 1] : NULL;
	struct mapping *right = i < as->v.n ? &as->v.v[i] : NULL;
	/* JITs map piece by piece, in any order: neighbours are one. */
	bool joins_left = left && are_one(left, &m), joins_right = right && are_one(&m, right);
	if (joins_left) {
		left->end = joins_right ? right->end : m.end;
		if (joins_right)
			remove_at(as, i);
		return true;
	}
	if (joins_right) {
		right->start = m.start;
		return true;
	}
	if (as->v.n >= MAPPINGS_MAX)
		return true;
	if (m.image)
		images_map(m.image);
	insert_at(as, i, m);
	return true;
}
