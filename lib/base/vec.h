/* SPDX-License-Identifier: Apache-2.0 */
/* A growing array: VEC(T) is a struct with its items, their number and the room. Zero-initialised is empty.
 * Not for what input sizes without a limit: the caller checks its limit before it pushes. */
#ifndef PYRRHA_BASE_VEC_H
#define PYRRHA_BASE_VEC_H

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define VEC(T) struct { T *v; size_t n, cap; }

#define vec_reserve(a, want) do { \
	size_t want_ = (want); \
	if (want_ > (a)->cap) { \
		size_t cap_ = (a)->cap ? (a)->cap * 2 : 8; \
		if (cap_ < want_) \
			cap_ = want_; \
		(a)->v = xreallocarray((a)->v, cap_, sizeof *(a)->v); \
		(a)->cap = cap_; \
	} \
} while (0)

#define vec_push(a, ...) do { \
	vec_reserve((a), (a)->n + 1); \
	(a)->v[(a)->n++] = (__VA_ARGS__); \
} while (0)

/* Adds one zeroed item and yields its address. */
#define vec_add(a) ({ \
	vec_reserve((a), (a)->n + 1); \
	memset(&(a)->v[(a)->n], 0, sizeof *(a)->v); \
	&(a)->v[(a)->n++]; \
})

#define vec_free(a) do { free((a)->v); (a)->v = NULL; (a)->n = (a)->cap = 0; } while (0)

#endif
