/* SPDX-License-Identifier: Apache-2.0 */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"

#define FIRST_BLOCK ((size_t)16 << 10)
#define LARGEST_STEP ((size_t)4 << 20)

struct arena_block {
	struct arena_block *older;
	size_t cap, used; /* bytes of data[] */
	_Alignas(16) char data[];
};

void arena_init(struct arena *a, size_t max)
{
	*a = (struct arena){ .max = max };
}

void arena_free(struct arena *a)
{
	for (struct arena_block *b = a->head, *older; b; b = older) {
		older = b->older;
		free(b);
	}
	a->head = NULL;
	a->used = 0;
}

void arena_reset(struct arena *a)
{
	struct arena_block *keep = NULL;
	for (struct arena_block *b = a->head, *older; b; b = older) {
		older = b->older;
		if (!keep || b->cap > keep->cap) {
			free(keep);
			keep = b;
		} else {
			free(b);
		}
	}
	if (keep) {
		keep->older = NULL;
		keep->used = 0;
	}
	a->head = keep;
	a->used = 0;
}

void *arena_alloc(struct arena *a, size_t n)
{
	if (n > SIZE_MAX / 2 || (a->max && (n > a->max || a->used > a->max - n)))
		return NULL;
	size_t need = (n + 15) & ~(size_t)15;
	struct arena_block *b = a->head;
#ifdef PYRRHA_DEBUG_ARENA
	b = NULL;
#endif
	if (!b || b->cap - b->used < need) {
		size_t cap = a->head ? MIN(a->head->cap * 2, LARGEST_STEP) : FIRST_BLOCK;
#ifdef PYRRHA_DEBUG_ARENA
		cap = n;
#endif
		if (cap < need)
			cap = need;
		struct arena_block *fresh = malloc(sizeof *fresh + cap);
		if (!fresh)
			return NULL;
		*fresh = (struct arena_block){ .older = a->head, .cap = cap };
		a->head = b = fresh;
	}
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
