/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kernel/kept_records.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#define RECORD_BYTES_MAX (CPU_RECORD_MAX + STACK_PAGES * (size_t)STACK_PAGE)

static size_t bytes_without_stack(const struct sample_head *h)
{
	return sizeof *h + ((size_t)h->user_words + h->n_kernel) * 8;
}

size_t kept_records_bytes_of(const struct sample_head *h)
{
	return bytes_without_stack(h) + (size_t)__builtin_popcount(h->stack_pages) * STACK_PAGE;
}

bool kept_records_have_room(size_t used)
{
	return used + RECORD_BYTES_MAX <= KEPT_BYTES_MAX;
}

const struct sample_head *kept_records_add(struct kept_records *b, const struct sample_head *h, size_t used)
{
	bool whole = used + kept_records_bytes_of(h) <= KEPT_BYTES_MAX / 2;
	size_t n = whole ? kept_records_bytes_of(h) : bytes_without_stack(h);

	if (!whole && h->flags & SAMPLE_MORE)
		return NULL;
	struct sample_head *copy = xmalloc(n);
	memcpy(copy, h, n);
	if (!whole && copy->stack_pages) {
		copy->stack_pages = 0;
		copy->flags |= SAMPLE_NO_COPY;
	}
	vec_push(&b->v, copy);
	b->bytes += n;
	return copy;
}

void kept_records_clear(struct kept_records *b)
{
	for (size_t i = 0; i < b->v.n; i++)
		free(b->v.v[i]);
	b->v.n = 0;
	b->bytes = 0;
}

void kept_records_release(struct kept_records *b)
{
	kept_records_clear(b);
	vec_free(&b->v);
}
