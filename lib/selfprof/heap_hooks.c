/* SPDX-License-Identifier: Apache-2.0 */
/* malloc and related functions, for the program and all its libraries. They call the C library's; about one byte in HEAP_PERIOD is
 * sampled. Linked by name into programs that profile their heap (SELFPROF_HEAP of local.mk), never from an archive, where the linker
 * would take it for anybody's malloc. In a build with sanitizers, which have their own malloc, there is nothing here.
 *
 * A thread counts down its allocated bytes. A sampling point is where the count passes zero; the next one is three to five quarters of
 * a period further. A block stands for (points in it) * period bytes. This is correct on average for all sizes, and with such regular
 * points nearly correct each time. Blocks larger than the largest gap always have a point, and stand only for themselves.
 *
 * free has to see at once that nearly all blocks are no samples. So a small sampled block begins at a page. Large blocks are all
 * sampled; they are recognised by the size that the C library stores before the block, which is read anyway. */
#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/map.h"
#include "selfprof/heap.h"
#include "selfprof/heap_live.h"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

#define EXPORTED __attribute__((visibility("default")))
#define PAGE ((uintptr_t)4096)
#define OFF_BYTES HEAP_PERIOD          /* so often a thread looks whether sampling has begun */
#define GAP_MIN (HEAP_PERIOD / 4 * 3)
#define GAP_MAX (HEAP_PERIOD / 4 * 5)

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);

static __thread int64_t left;        /* bytes to the next point; 0: a new thread */
static __thread uint64_t dice;
static __thread bool busy;

static uint64_t roll(void)
{
	dice = hash_u64(dice);
	return dice;
}

/* How many blocks this one, which has the point, stands for; 0: it is not sampled after all. Sets the next point. */
static double objects_of(size_t n)
{
	if (!heap_live_on()) {
		left = OFF_BYTES;
		dice = 0;
		return 0;
	}
	bool fresh = !dice;
	if (fresh) { /* anywhere in the first period */
		struct timespec now;
		clock_gettime(CLOCK_MONOTONIC, &now);
		dice = (uint64_t)now.tv_nsec + 1;
		left = (int64_t)(roll() % HEAP_PERIOD) - (int64_t)n;
	}
	if (n >= GAP_MAX) {
		left = (int64_t)(roll() % HEAP_PERIOD);
		return 1;
	}
	unsigned points = 0;
	for (; left < 0; points++)
		left += GAP_MIN + (int64_t)(roll() % (GAP_MAX - GAP_MIN));
	return n ? points * (double)HEAP_PERIOD / (double)n : 0;
}

/* Whether a block of n bytes, which the caller has counted down, is a sample. */
#define SAMPLED(n, objects) (UNLIKELY(left < 0) && !busy && ((objects) = objects_of(n)) > 0)
/* The return address of the allocator's caller. */
#define CALLER ((uint64_t)(uintptr_t)__builtin_return_address(0))

static inline void count(size_t n)
{
	left -= n <= PTRDIFF_MAX ? (int64_t)n : 0;
}

/* Notes the sample. Its stack is unwound from here. */
static __attribute__((noinline)) void *note(void *p, size_t n, double objects, uint64_t above)
{
	uint64_t ip, sp, fp;
	int saved = errno;

	__asm__ volatile("leaq 0f(%%rip), %0\n0:\tmovq %%rsp, %1\n\tmovq %%rbp, %2" : "=r"(ip), "=r"(sp), "=r"(fp));
	busy = true;
	heap_live_add(p, n, objects, ip, sp, fp, above);
	busy = false;
	errno = saved;
	return p;
}

static inline bool is_at_page(const void *p)
{
	return ((uintptr_t)p & (PAGE - 1)) == 0;
}

/* For a block, not NULL. */
static inline bool may_be_sample(const void *p)
{
	return UNLIKELY(is_at_page(p)) || UNLIKELY(((const size_t *)p)[-1] >= GAP_MAX);
}

/* Bytes that a block of the C library has room for. Not malloc_usable_size: that may be another allocator's, which was preloaded
 * and does not know this block. The size before a block has flags in its lowest bits. */
static inline size_t room_of(const void *p)
{
	size_t size = ((const size_t *)p)[-1];

	return (size & ~(size_t)7) - (size & 2 ? 2 : 1) * sizeof(size_t); /* 2: mapped by itself */
}

/* A sample to be. */
static void *new_sample(size_t align, size_t n, double objects, uint64_t above)
{
	void *p = n >= GAP_MAX && align <= 1 ? __libc_malloc(n) : __libc_memalign(n >= GAP_MAX || align > PAGE ? align : PAGE, n);
	return p ? note(p, n, objects, above) : NULL;
}

static inline void drop(void *p)
{
	if (p && may_be_sample(p))
		heap_live_drop(p);
}

EXPORTED void *malloc(size_t n)
{
	double objects;

	count(n);
	if (SAMPLED(n, objects))
		return new_sample(1, n, objects, CALLER);
	return __libc_malloc(n);
}

EXPORTED void free(void *p)
{
	drop(p);
	__libc_free(p);
}

EXPORTED void *calloc(size_t n, size_t size)
{
	double objects;
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes))
		return __libc_calloc(n, size); /* which says no */
	count(bytes);
	if (SAMPLED(bytes, objects)) {
		void *p = bytes >= GAP_MAX ? __libc_calloc(n, size) : __libc_memalign(PAGE, bytes);
		if (p && bytes < GAP_MAX)
			memset(p, 0, bytes);
		return p ? note(p, bytes, objects, CALLER) : NULL;
	}
	return __libc_calloc(n, size);
}

/* A block where a sample may be; NULL: there is no memory for that. */
static void *move_sample(void *p, size_t n)
{
	if (n >= GAP_MAX || is_at_page(p))
		return p;
	void *q = __libc_memalign(PAGE, n);
	if (!q)
		return NULL;
	memcpy(q, p, n);
	__libc_free(p);
	return q;
}

/* By how much a block has more room than it had; that is what it asked for. Not the requested sizes: the C library does not keep
 * those, and many small steps would count as nothing. */
static size_t growth(const void *p, size_t was)
{
	size_t is = room_of(p);

	return is > was ? is - was : 0;
}

/* A sampled block, lifted from the table, grows or shrinks: it stays one, with the bytes that it grew by. */
static void *resize_sample(void *p, uint32_t lifted, size_t n)
{
	size_t was = room_of(p);
	double points = 0;
	void *q = __libc_realloc(p, n);

	if (!q) {
		heap_live_lay(lifted, p, was, was, 0);
		return NULL;
	}
	size_t more = growth(q, was);
	count(more);
	if (UNLIKELY(left < 0) && !busy)
		points = objects_of(more) * (double)more / HEAP_PERIOD;
	void *at = move_sample(q, n);
	heap_live_lay(lifted, at, was, at ? room_of(at) : 0, points);
	return at ? at : q;
}

/* A block counts for what it grows by; so one that grows bit by bit is sampled as one that was asked for at once. */
EXPORTED void *realloc(void *p, size_t n)
{
	double objects;

	if (!p)
		count(n);
	if (!p || !n || n > PTRDIFF_MAX) {
		if (!p && SAMPLED(n, objects))
			return new_sample(1, n, objects, CALLER);
		if (p && !n)
			drop(p);
		return __libc_realloc(p, n);
	}
	if (!heap_live_on())
		return __libc_realloc(p, n);
	uint32_t lifted = may_be_sample(p) ? heap_live_lift(p) : 0;
	if (lifted)
		return resize_sample(p, lifted, n);
	size_t was = room_of(p);
	void *q = __libc_realloc(p, n);
	if (!q)
		return NULL;
	size_t more = growth(q, was);
	count(more);
	if (!more || !SAMPLED(more, objects))
		return q;
	void *at = move_sample(q, n);
	return at ? note(at, n, n >= GAP_MAX ? 1 : objects * (double)more / (double)n, CALLER) : q;
}

EXPORTED void *reallocarray(void *p, size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(p, bytes);
}

EXPORTED void *memalign(size_t align, size_t n)
{
	double objects;

	count(n);
	if (SAMPLED(n, objects))
		return new_sample(align, n, objects, CALLER);
	return __libc_memalign(align, n);
}

EXPORTED void *aligned_alloc(size_t align, size_t n)
{
	double objects;

	count(n);
	if (SAMPLED(n, objects))
		return new_sample(align, n, objects, CALLER);
	return __libc_memalign(align, n);
}

EXPORTED void *valloc(size_t n)
{
	double objects;

	count(n);
	if (SAMPLED(n, objects))
		return new_sample(PAGE, n, objects, CALLER);
	return __libc_memalign(PAGE, n);
}

EXPORTED void *pvalloc(size_t n)
{
	size_t bytes;

	if (__builtin_add_overflow(n, PAGE - 1, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return valloc(bytes & ~(PAGE - 1));
}

EXPORTED int posix_memalign(void **ret, size_t align, size_t n)
{
	double objects;
	int saved = errno;

	if (align % sizeof(void *) || !align || align & (align - 1))
		return EINVAL;
	count(n);
	void *p = SAMPLED(n, objects) ? new_sample(align, n, objects, CALLER) : __libc_memalign(align, n);
	errno = saved;
	if (!p)
		return ENOMEM;
	*ret = p;
	return 0;
}

static void spare_me(void)
{
	busy = true;
}

/* tcmalloc and mimalloc, preloaded, bring the __libc_ functions as well: where their blocks have a size is not known here. */
static bool is_c_library(void)
{
	Dl_info malloc_is, c_library;

	return dladdr((void *)(uintptr_t)__libc_malloc, &malloc_is) && dladdr((void *)(uintptr_t)gnu_get_libc_version, &c_library) &&
	       malloc_is.dli_fbase == c_library.dli_fbase;
}

heap_hooks_spare_me *heap_hooks(void)
{
	return is_c_library() ? spare_me : NULL;
}

#else

heap_hooks_spare_me *heap_hooks(void)
{
	return NULL;
}

#endif
