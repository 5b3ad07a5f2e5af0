/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

#define FIRST_BLOCK ((size_t)16 << 10)
#define LARGEST_STEP ((size_t)4 << 20)
#define KEPT_SHARE 32 /* a block of more than this part of the budget is not kept for reuse */

struct arena_block {
	struct arena_block *older;
	size_t cap, used; /* bytes of data[] */
	_Alignas(16) char data[];
};

void arena_init(struct arena *a, size_t max)
{
	*a = (struct arena){ .max = max };
}

static bool is_large(const struct arena *a, size_t bytes)
{
	const struct budget *b = a->budget;
	while (b && b->parent)
		b = b->parent;
	return b && b->max && bytes > b->max / KEPT_SHARE;
}

static struct arena_block *block_new(struct arena *a, size_t cap)
{
	size_t bytes = sizeof(struct arena_block) + cap;
	if (!budget_take(a->budget, bytes, BUDGET_ALL)) {
		a->refused = true;
		return NULL;
	}
	struct arena_block *b = malloc(bytes);
	if (!b) {
		budget_give(a->budget, bytes);
		return NULL;
	}
	a->held += bytes;
	*b = (struct arena_block){ .older = a->head, .cap = cap };
	return b;
}

static void block_free(struct arena *a, struct arena_block *b)
{
	size_t bytes = sizeof *b + b->cap;
	a->held -= bytes;
	budget_give(a->budget, bytes);
	free(b);
}

void arena_free(struct arena *a)
{
	for (struct arena_block *b = a->head, *older; b; b = older) {
		older = b->older;
		block_free(a, b);
	}
	a->head = NULL;
	a->used = 0;
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = NULL;
	for (struct arena_block *b = a->head, *older; b; b = older) {
		older = b->older;
		struct arena_block *less = b;
		if (!keep || b->cap > keep->cap) {
			less = keep;
			keep = b;
		}
		if (less)
			block_free(a, less);
	}
	if (keep && is_large(a, keep->cap)) {
		block_free(a, keep);
		keep = NULL;
	}
	if (keep) {
		keep->older = NULL;
		keep->used = 0;
	}
	a->head = keep;
	a->used = 0;
}

static bool is_past_cap(const struct arena *a, size_t n)
{
	return n > SIZE_MAX / 2 || (a->max && (n > a->max || a->used > a->max - n));
}

/* The block in use, if `need` bytes of it are free; else a new one takes its place. NULL: the budget refuses, or malloc fails. */
static struct arena_block *block_with(struct arena *a, size_t need)
{
	struct arena_block *b = a->head;
	if (b && b->cap - b->used >= need)
		return b;
	struct arena_block *fresh = block_new(a, MAX(need, b ? MIN(b->cap * 2, LARGEST_STEP) : FIRST_BLOCK));
	if (fresh)
		a->head = fresh;
	return fresh;
}

bool arena_reserve(struct arena *a, size_t n)
{
#ifdef PYRRHA_DEBUG_ARENA
	return !is_past_cap(a, n);
#else
	return !is_past_cap(a, n) && block_with(a, n);
#endif
}

void *arena_alloc(struct arena *a, size_t n)
{
	if (is_past_cap(a, n))
		return NULL;
	size_t need = (n + 15) & ~(size_t)15;
#ifdef PYRRHA_DEBUG_ARENA
	struct arena_block *b = block_new(a, need);
	a->head = b ? b : a->head;
#else
	struct arena_block *b = block_with(a, need);
#endif
	if (!b)
		return NULL;
	void *p = b->data + b->used;
	b->used += need;
	a->used += n;
	return p;
}

void *arena_calloc(struct arena *a, size_t n, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(n, size, &bytes))
		return NULL;
	void *p = arena_alloc(a, bytes);
	return p ? memset(p, 0, bytes) : NULL;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
	char *d = arena_alloc(a, n + 1);
	if (!d)
		return NULL;
	if (n)
		memcpy(d, s, n);
	d[n] = 0;
	return d;
}

struct view arena_view(struct arena *a, struct view v)
{
	char *p = arena_strndup(a, v.ptr, v.len);
	return (struct view){ p, p ? v.len : 0 };
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
	va_list ap, again;
	va_start(ap, fmt);
	va_copy(again, ap);
	int n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	char *p = n < 0 ? NULL : arena_alloc(a, (size_t)n + 1);
	if (p)
		vsnprintf(p, (size_t)n + 1, fmt, again);
	va_end(again);
	return p;
}
