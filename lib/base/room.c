/* SPDX-License-Identifier: Apache-2.0 */
#include "base/room.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/attrs.h"
#include "base/clock.h"
#include "base/lock.h"

#define LEAST ((size_t)2 << 20)       /* smaller ones malloc keeps itself; a large page */
#define KEEP 6
#define KEEP_BYTES ((size_t)64 << 20) /* of all that are kept */
#define KEEP_MS INT64_C(60000)

static struct mutex lock = MUTEX_INIT(LOCK_LEAF, "idle rooms");
static struct idle {
	struct room r;
	int64_t given_mono_ms;
} idle[KEEP];
static size_t n_idle, idle_bytes;

static struct room map_room(size_t bytes)
{
	bytes = (bytes + LEAST - 1) / LEAST * LEAST;
	char *all = mmap(NULL, bytes + LEAST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		alloc_failed(bytes);
	size_t before = (LEAST - (uintptr_t)all % LEAST) % LEAST; /* large pages begin at such an address */
	if (before)
		munmap(all, before);
	munmap(all + before + bytes, LEAST - before);
	madvise(all + before, bytes, MADV_HUGEPAGE);
	return (struct room){ all + before, bytes };
}

static void unmap_room(struct room r)
{
	munmap(r.v, r.bytes);
}

/* The smallest that is large enough and not much larger. */
static size_t find_idle(size_t bytes) REQUIRES(lock)
{
	size_t best = KEEP;
	for (size_t i = 0; i < n_idle; i++)
		if (idle[i].r.bytes >= bytes && idle[i].r.bytes / 4 <= bytes && (best == KEEP || idle[i].r.bytes < idle[best].r.bytes))
			best = i;
	return best;
}

static struct room take_out(size_t i) REQUIRES(lock)
{
	struct room r = idle[i].r;
	idle_bytes -= r.bytes;
	idle[i] = idle[--n_idle];
	return r;
}

struct room room_take(size_t bytes)
{
	if (bytes < LEAST)
		return (struct room){ xmalloc(bytes), bytes };
	struct room r = { 0 };
	mutex_lock(&lock);
	size_t i = find_idle(bytes);
	if (i < KEEP)
		r = take_out(i);
	mutex_unlock(&lock);
	return r.v ? r : map_room(bytes);
}

void room_give(struct room *r)
{
	struct room x = *r;
	*r = (struct room){ 0 };
	if (x.bytes < LEAST) {
		free(x.v);
		return;
	}
	mutex_lock(&lock);
	bool keep = n_idle < KEEP && x.bytes <= KEEP_BYTES - idle_bytes;
	if (keep) {
		idle[n_idle++] = (struct idle){ x, clock_mono_ms() };
		idle_bytes += x.bytes;
	}
	mutex_unlock(&lock);
	if (!keep)
		unmap_room(x);
}

void room_grow(struct room *r, size_t used, size_t bytes)
{
	if (bytes <= r->bytes)
		return;
	struct room more = room_take(bytes);
	if (used)
		memcpy(more.v, r->v, used);
	room_give(r);
	*r = more;
}

void room_tidy(bool all)
{
	struct room old[KEEP];
	size_t n = 0;
	int64_t now = clock_mono_ms();
	mutex_lock(&lock);
	for (size_t i = n_idle; i--;)
		if (all || now - idle[i].given_mono_ms > KEEP_MS)
			old[n++] = take_out(i);
	mutex_unlock(&lock);
	while (n)
		unmap_room(old[--n]);
}

size_t room_kept(void)
{
	mutex_lock(&lock);
	size_t n = idle_bytes;
	mutex_unlock(&lock);
	return n;
}
