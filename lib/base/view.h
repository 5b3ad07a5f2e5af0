/* SPDX-License-Identifier: Apache-2.0 */
/* A borrowed string of known length, passed by value: pointer and length, not NUL-terminated in general. */
#ifndef PYRRHA_BASE_VIEW_H
#define PYRRHA_BASE_VIEW_H

#include <string.h>
#include <strings.h>

#include "base/attrs.h"

struct view {
	const char *ptr;
	size_t len;
};

/* For printf("%.*s"): VIEW_ARG(v). */
#define VIEW_ARG(v) ((int)MIN((v).len, (size_t)INT32_MAX)), (v).ptr
/* A view of a string literal. */
#define VIEW(lit) ((struct view){ "" lit, sizeof(lit) - 1 })

static inline struct view view_of(const char *s)
{
	return (struct view){ s, s ? strlen(s) : 0 };
}

static inline struct view view_make(const char *p, size_t n)
{
	return (struct view){ p, n };
}

static inline bool view_eq(struct view a, struct view b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool view_eqs(struct view a, const char *s)
{
	return view_eq(a, view_of(s));
}

/* ASCII letters of either case are the same. */
static inline bool view_eq_nocase(struct view a, struct view b)
{
	return a.len == b.len && (a.len == 0 || strncasecmp(a.ptr, b.ptr, a.len) == 0);
}

/* Byte order, as strcmp. */
static inline int view_cmp(struct view a, struct view b)
{
	size_t n = MIN(a.len, b.len);
	int c = n ? memcmp(a.ptr, b.ptr, n) : 0;
	return c ? c : (a.len > b.len) - (a.len < b.len);
}

static inline bool view_starts(struct view v, struct view prefix)
{
	return v.len >= prefix.len && (prefix.len == 0 || memcmp(v.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool view_ends(struct view v, struct view suffix)
{
	return v.len >= suffix.len && (suffix.len == 0 || memcmp(v.ptr + v.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

static inline bool view_contains(struct view v, struct view what)
{
	return what.len == 0 || (v.len >= what.len && memmem(v.ptr, v.len, what.ptr, what.len) != NULL);
}

/* The part before the first `at`, or all of it if there is none; *rest becomes the part after it. */
static inline struct view view_cut(struct view *rest, char at)
{
	const char *end = rest->len ? memchr(rest->ptr, at, rest->len) : NULL;
	struct view first = view_make(rest->ptr, end ? (size_t)(end - rest->ptr) : rest->len);
	size_t skip = first.len + (end != NULL);
	if (skip)
		*rest = view_make(rest->ptr + skip, rest->len - skip);
	return first;
}

#endif
