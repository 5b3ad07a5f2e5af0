/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/extents.h"

void extents_init(struct extents *x, uint32_t n)
{
	memset(x, 0, sizeof *x);
	vec_push(&x->free_, (struct slot_run){ 0, n });
}

void extents_release(struct extents *x)
{
	vec_free(&x->free_);
	vec_free(&x->resting);
}

/* Puts a run back among the free ones, joined with its neighbours. */
static void put_back(struct extents *x, struct slot_run r)
{
	size_t lo = 0, hi = x->free_.n;
	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (x->free_.v[mid].first < r.first)
			lo = mid + 1;
		else
			hi = mid;
	}
	struct slot_run *v = x->free_.v;
	bool left = lo > 0 && v[lo - 1].first + v[lo - 1].n == r.first;
	bool right = lo < x->free_.n && r.first + r.n == v[lo].first;
	if (left) {
		v[lo - 1].n += r.n;
		if (right) {
			v[lo - 1].n += v[lo].n;
			memmove(&v[lo], &v[lo + 1], (x->free_.n - lo - 1) * sizeof *v);
			x->free_.n--;
		}
	} else if (right) {
		v[lo].first = r.first;
		v[lo].n += r.n;
	} else {
		vec_reserve(&x->free_, x->free_.n + 1);
		v = x->free_.v;
		memmove(&v[lo + 1], &v[lo], (x->free_.n - lo) * sizeof *v);
		v[lo] = r;
		x->free_.n++;
	}
}

static void wake_rested(struct extents *x, int64_t now)
{
	size_t n = 0;

	while (n < x->resting.n && now - x->resting.v[n].freed_ns >= REUSE_NS)
		put_back(x, x->resting.v[n++].x);
	if (n) {
		memmove(x->resting.v, x->resting.v + n, (x->resting.n - n) * sizeof *x->resting.v);
		x->resting.n -= n;
	}
}

static bool first_fit(struct extents *x, uint32_t n, uint32_t *ret_first)
{
	for (size_t i = 0; i < x->free_.n; i++) {
		struct slot_run *f = &x->free_.v[i];
		if (f->n < n)
			continue;
		*ret_first = f->first;
		f->first += n;
		f->n -= n;
		if (!f->n) {
			memmove(f, f + 1, (x->free_.n - i - 1) * sizeof *f);
			x->free_.n--;
		}
		return true;
	}
	return false;
}

bool extents_alloc(struct extents *x, uint32_t n, int64_t now_ns, uint32_t *ret_first)
{
	if (x->resting.n)
		wake_rested(x, now_ns);
	return first_fit(x, n, ret_first);
}

void extents_add(struct extents *x, uint32_t first, uint32_t n)
{
	put_back(x, (struct slot_run){ first, n });
}

void extents_free(struct extents *x, uint32_t first, uint32_t n, int64_t now_ns)
{
	if (!n)
		return;
	vec_reserve(&x->resting, x->resting.n + 1);
	x->resting.v[x->resting.n].x = (struct slot_run){ first, n };
	x->resting.v[x->resting.n++].freed_ns = now_ns;
}

uint64_t extents_room(const struct extents *x)
{
	uint64_t n = 0;
	for (size_t i = 0; i < x->free_.n; i++)
		n += x->free_.v[i].n;
	for (size_t i = 0; i < x->resting.n; i++)
		n += x->resting.v[i].x.n;
	return n;
}
