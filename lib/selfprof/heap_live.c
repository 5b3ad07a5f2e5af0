/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/heap_live.h"

#include <assert.h>
#include <errno.h>
#include <semaphore.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "base/map.h"

#define PIECES 128u
#define BLOCKS_MAX (1u << 18)        /* live samples: a heap of 128 GB */
#define BUCKETS (1u << 16)
#define NOWHERE UINT32_MAX           /* its stack was not unwound yet */

struct block {
	const void *at;              /* NULL: freed before its site was known */
	uint32_t next;               /* in its bucket, or of the free ones; index + 1, 0 = none */
	uint32_t site;
	double objects, bytes;
};

static struct {
	atomic_bool on;
	atomic_int idle;             /* the thread waits */
	sem_t wake;
	struct pieces pieces;        /* mark[0]: block, mark[1]: above */
	struct mutex lock;           /* guards what follows */
	struct block *blocks;
	uint32_t n_blocks, free_block; /* that were used; index + 1 */
	uint32_t *buckets;           /* index + 1 */
	struct heap_site *sites;
} H = { .lock = MUTEX_INIT(RANK_MALLOC, "live samples of the heap") };

static void *room(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void before_fork(void) ACQUIRES(H.lock)
{
	mutex_lock(&H.lock);
}

static void after_fork(void) RELEASES(H.lock)
{
	mutex_unlock(&H.lock);
}

static void in_child(void) RELEASES(H.lock)
{
	mutex_unlock(&H.lock);
	atomic_store(&H.on, false); /* there is no thread to unwind */
}

int heap_live_init(struct err *e)
{
	int rc = pieces_init(&H.pieces, PIECES, e);

	if (rc)
		return rc;
	H.blocks = room(BLOCKS_MAX * sizeof *H.blocks);
	H.buckets = room(BUCKETS * sizeof *H.buckets);
	H.sites = room(HEAP_SITES_MAX * sizeof *H.sites);
	if (!H.blocks || !H.buckets || !H.sites)
		return err_errno(e, errno, "memory for samples of the heap");
	sem_init(&H.wake, 0, 0);
	pthread_atfork(before_fork, after_fork, in_child);
	atomic_store(&H.on, true);
	return 0;
}

bool heap_live_on(void)
{
	return atomic_load_explicit(&H.on, memory_order_relaxed);
}

static uint32_t *bucket_of(const void *at)
{
	return &H.buckets[hash_u64((uintptr_t)at) % BUCKETS];
}

/* For a block whose site is known: adds or removes it. */
static void count_alloc(const struct block *b) REQUIRES(H.lock)
{
	H.sites[b->site].alloc_objects += b->objects;
	H.sites[b->site].alloc_bytes += b->bytes;
}

static void count_free(const struct block *b) REQUIRES(H.lock)
{
	H.sites[b->site].free_objects += b->objects;
	H.sites[b->site].free_bytes += b->bytes;
}

static void give_back(uint32_t i) REQUIRES(H.lock)
{
	H.blocks[i].next = H.free_block;
	H.free_block = i + 1;
}

static bool add_block(const void *at, double objects, double bytes, uint32_t site, uint32_t *ret)
{
	bool room_left = true;

	mutex_lock(&H.lock);
	if (H.free_block) {
		*ret = H.free_block - 1;
		H.free_block = H.blocks[*ret].next;
	} else {
		room_left = H.n_blocks < BLOCKS_MAX;
		*ret = room_left ? H.n_blocks++ : 0;
	}
	if (room_left) {
		struct block *b = &H.blocks[*ret];
		*b = (struct block){ .at = at, .next = *bucket_of(at), .site = site, .objects = objects, .bytes = bytes };
		*bucket_of(at) = *ret + 1;
		if (site != NOWHERE)
			count_alloc(b);
	}
	mutex_unlock(&H.lock);
	return room_left;
}

void heap_live_add(void *block, size_t bytes, double objects, uint64_t ip, uint64_t sp, uint64_t fp, uint64_t above)
{
	struct stack_piece *x = pieces_claim(&H.pieces);
	uint32_t i;

	if (!x) {
		add_block(block, objects, objects * (double)bytes, 0, &i);
		return;
	}
	if (!add_block(block, objects, objects * (double)bytes, NOWHERE, &i))
		i = NOWHERE;
	x->mark[0] = i;
	x->mark[1] = above;
	pieces_put(&H.pieces, x, ip, sp, fp);
	if (atomic_exchange(&H.idle, 0))
		sem_post(&H.wake);
}

/* Takes it out of its bucket; index + 1, 0: it is not there. */
static uint32_t unlink_block(const void *block) REQUIRES(H.lock)
{
	uint32_t *at, i;

	for (at = bucket_of(block); *at && H.blocks[*at - 1].at != block; at = &H.blocks[*at - 1].next) {
		/* the next */
	}
	i = *at;
	if (i)
		*at = H.blocks[i - 1].next;
	return i;
}

static void end_block(uint32_t i) REQUIRES(H.lock)
{
	struct block *b = &H.blocks[i];

	b->at = NULL;
	if (b->site != NOWHERE) {
		count_free(b);
		give_back(i);
	}
}

/* A sampled block is always freed after it was added: an empty bucket needs no lock. */
static bool may_be_sample(const void *block)
{
	return H.buckets && __atomic_load_n(bucket_of(block), __ATOMIC_RELAXED);
}

void heap_live_drop(void *block)
{
	if (!may_be_sample(block))
		return;
	mutex_lock(&H.lock);
	uint32_t i = unlink_block(block);
	if (i)
		end_block(i - 1);
	mutex_unlock(&H.lock);
}

uint32_t heap_live_lift(void *block)
{
	if (!may_be_sample(block))
		return 0;
	mutex_lock(&H.lock);
	uint32_t i = unlink_block(block);
	mutex_unlock(&H.lock);
	return i;
}

/* As its size, so what it stands for. */
static void resize(struct block *b, size_t old_bytes, size_t bytes, double points) REQUIRES(H.lock)
{
	double was_objects = b->objects, was_bytes = b->bytes;

	if (bytes > HEAP_PERIOD / 4 * 5)
		b->bytes = (double)bytes;
	else
		b->bytes = bytes > old_bytes ? b->bytes + points * HEAP_PERIOD : b->bytes * (double)bytes / (double)MAX(old_bytes, (size_t)1);
	b->objects = b->bytes / (double)bytes;
	if (b->site == NOWHERE)
		return;
	H.sites[b->site].alloc_objects += b->objects - was_objects;
	if (b->bytes > was_bytes)
		H.sites[b->site].alloc_bytes += b->bytes - was_bytes;
	else
		H.sites[b->site].free_bytes += was_bytes - b->bytes;
}

void heap_live_lay(uint32_t lifted, void *to, size_t old_bytes, size_t bytes, double points)
{
	struct block *b = &H.blocks[lifted - 1];

	mutex_lock(&H.lock);
	if (!to) {
		end_block(lifted - 1);
	} else {
		resize(b, old_bytes, bytes, points);
		b->at = to;
		b->next = *bucket_of(to);
		*bucket_of(to) = lifted;
	}
	mutex_unlock(&H.lock);
}

void heap_live_wait(void)
{
	atomic_store(&H.idle, 1);
	while (sem_wait(&H.wake) && errno == EINTR) {
		/* a profile of ourselves is being taken */
	}
}

struct taking {
	heap_piece_fn *fn;
	void *arg;
};

static void take_piece(void *arg, const struct stack_piece *x)
{
	const struct taking *t = arg;
	struct heap_piece p = { (uint32_t)x->mark[0], x->mark[1], piece_stack(x) };

	if (p.entry != NOWHERE)
		t->fn(t->arg, &p);
}

void heap_live_take(heap_piece_fn *fn, void *arg)
{
	struct taking t = { fn, arg };
	pieces_take(&H.pieces, take_piece, &t);
}

void heap_live_place(uint32_t entry, uint32_t site)
{
	assert(site < HEAP_SITES_MAX);
	mutex_lock(&H.lock);
	struct block *b = &H.blocks[entry];
	b->site = site;
	count_alloc(b);
	if (!b->at) {
		count_free(b);
		give_back(entry);
	}
	mutex_unlock(&H.lock);
}

void heap_live_sites(struct heap_site *out, size_t n)
{
	mutex_lock(&H.lock);
	memcpy(out, H.sites, n * sizeof *out);
	mutex_unlock(&H.lock);
}
