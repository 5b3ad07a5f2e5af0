/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/heap.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/lock.h"
#include "base/thread.h"
#include "selfprof/heap_live.h"
#include "selfprof/own_code.h"

#define PAUSE_MS 20                  /* of the thread, so that it does not wake for each sample */

/* Frames of allocators are not what anybody looks for: readers drop them. */
#define DROP "x?(malloc|calloc|realloc|reallocarray|strdup|strndup|asprintf)|__(strdup|strndup|getdelim)|operator new(\\[\\])?.*|memalign|aligned_alloc|posix_memalign"

static struct {
	bool on;
	heap_hooks_spare_me *spare_me;
	struct mutex lock;           /* stacks, and the owner of the pieces */
	struct stacks stacks;        /* [i]: site i */
} heap = { .lock = MUTEX_INIT(RANK_SELFPROF_HEAP, "heap profile") };

/* Leaves out the hook's own frames, which are the innermost ones. */
static uint32_t without_hook(uint64_t *frames, uint32_t n, uint64_t above)
{
	struct own_images *images = &own_code()->images;
	const struct unwind_map *m = own_images_at(images, above - 1);
	uint64_t caller = m ? (uint64_t)m->image << FRAME_IMAGE_SHIFT | ((above - 1 - m->start + m->vaddr) & FRAME_ADDR_MASK) : 0;

	for (uint32_t i = 0; i < n && m; i++)
		if (frames[i] == caller) {
			memmove(frames, frames + i, (n - i) * sizeof *frames);
			return n - i;
		}
	return n;
}

static void take_piece(void *arg, const struct heap_piece *p)
{
	struct own_code *code = arg;
	uint64_t frames[OWN_FRAMES_MAX + 1];
	uint32_t n, site = 0;

	int end = own_unwind(&code->unwind, &p->stack, frames, &n);
	n = without_hook(frames, n, p->above);
	if (end != END_BOTTOM)
		frames[n++] = STACK_MARK | (uint64_t)end;
	if (!stacks_find(&heap.stacks, frames, n, &site) && heap.stacks.v.n < HEAP_SITES_MAX)
		site = stacks_intern(&heap.stacks, frames, n);
	heap_live_place(p->entry, site);
}

static void take_pieces(void) REQUIRES(heap.lock)
{
	struct own_code *code = own_code();

	mutex_lock(&code->unwinding);
	heap_live_take(take_piece, code);
	mutex_unlock(&code->unwinding);
}

static void *heap_main(void *arg)
{
	heap.spare_me();
	for (;;) {
		heap_live_wait();
		clock_sleep_ms(PAUSE_MS);
		mutex_lock(&heap.lock);
		take_pieces();
		mutex_unlock(&heap.lock);
	}
	return NULL;
}

int selfprof_heap_start(heap_hooks_spare_me *hooks, struct err *e)
{
	pthread_t thread;

	if (!hooks || heap.on)
		return 0;
	heap.spare_me = hooks;
	stacks_intern(&heap.stacks, (uint64_t[]){ STACK_LOST }, 1);
	int rc = heap_live_init(e);
	if (!rc)
		rc = thread_start(&thread, "heap profile", heap_main, NULL, e);
	if (rc)
		return rc;
	pthread_detach(thread);
	heap.on = true;
	return 0;
}

/* The current sites; the caller frees *ret. */
static size_t sites_now(struct heap_site **ret)
{
	mutex_lock(&heap.lock);
	take_pieces();
	size_t n = heap.stacks.v.n;
	mutex_unlock(&heap.lock);
	*ret = xcalloc(n, sizeof **ret);
	heap_live_sites(*ret, n);
	return n;
}

static int wait_for(int64_t duration_ns, const atomic_bool *stop, struct err *e)
{
	if (!flag_sleep(stop, (clock_mono_ns() + duration_ns + 999999) / 1000000))
		return err_set(e, ERR_CANCELED, "the client of the profile is gone");
	return 0;
}

/* Memory in use is allocated less freed, each rounded once. */
static void set_values(int64_t values[STACK_VALUES], const struct heap_site *now, const struct heap_site *before)
{
	values[0] = llround(now->alloc_objects - before->alloc_objects);
	values[1] = llround(now->alloc_bytes - before->alloc_bytes);
	values[2] = llround(now->alloc_objects - now->free_objects - (before->alloc_objects - before->free_objects));
	values[3] = llround(now->alloc_bytes - now->free_bytes - (before->alloc_bytes - before->free_bytes));
}

/* The stacks of sites that have something to tell. */
static void gather(struct stacks *out, const struct heap_site *now, size_t n, const struct heap_site *before, size_t n_before)
{
	static const struct heap_site none;
	int64_t values[STACK_VALUES];

	mutex_lock(&heap.lock);
	for (size_t i = 0; i < n; i++) {
		const struct stack_entry *s = &heap.stacks.v.v[i];
		set_values(values, &now[i], i < n_before ? &before[i] : &none);
		if (values[0] || values[1] || values[2] || values[3])
			stacks_add(out, heap.stacks.frames.v + s->first, s->n, values, STACK_VALUES);
	}
	mutex_unlock(&heap.lock);
}

int selfprof_heap(enum heap_default which, int64_t duration_ns, const atomic_bool *stop, struct profile *out, struct err *e)
{
	struct stacks_form form = {
		.types = { { "alloc_objects", "count" }, { "alloc_space", "bytes" }, { "inuse_objects", "count" }, { "inuse_space", "bytes" } },
		.n_types = 4, .period = { "space", "bytes" }, .period_value = HEAP_PERIOD,
		.default_type = which == HEAP_ALLOCS ? "alloc_space" : "inuse_space", .drop_frames = DROP,
	};
	struct heap_site *before = NULL, *now = NULL;
	struct stacks stacks = { 0 };
	size_t n_before = 0;

	if (!heap.on)
		return err_set(e, ERR_NOT_FOUND, "the heap of this program is not sampled");
	int64_t start = clock_mono_ns();
	if (duration_ns > 0)
		n_before = sites_now(&before);
	int rc = duration_ns > 0 ? wait_for(duration_ns, stop, e) : 0;
	if (!rc) {
		size_t n = sites_now(&now);
		form.time_ns = clock_now_ns();
		form.duration_ns = duration_ns > 0 ? clock_mono_ns() - start : 0;
		gather(&stacks, now, n, before, n_before);
		rc = own_code_profile(own_code(), &stacks, &form, out, e);
	}
	stacks_release(&stacks);
	free(before);
	free(now);
	return rc;
}
