/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/spill.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "symbols/tempfile.h"

#define READ_RECORDS_MIN 16

void spill_init(struct spill *s, size_t size, size_t buffer, spill_order *order)
{
	*s = (struct spill){ .size = size, .cap = buffer / size, .order = order, .fd = -1 };
	s->buf = xreallocarray(NULL, s->cap, size);
}

void spill_release(struct spill *s)
{
	free(s->buf);
	vec_free(&s->runs);
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct spill){ .fd = -1 };
}

static void write_run(struct spill *s)
{
	uint64_t at = s->runs.n ? s->runs.v[s->runs.n - 1].at + s->runs.v[s->runs.n - 1].n * s->size : 0;

	qsort(s->buf, s->n, s->size, s->order);
	if (s->fd < 0)
		s->fd = tempfile_open("pyrrha-spill", NULL);
	s->failed |= s->fd < 0 || !tempfile_write(s->fd, s->buf, s->n * s->size);
	vec_push(&s->runs, (struct spill_run){ at, s->n });
	s->n = 0;
}

void spill_add(struct spill *s, const void *record)
{
	if (s->failed)
		return;
	if (s->n == s->cap)
		write_run(s);
	memcpy(s->buf + s->n++ * s->size, record, s->size);
	s->total++;
}

/* --- merging --- */

/* A run, and the piece of it that is in memory. */
struct spill_source {
	uint64_t at, left;           /* in the file */
	uint8_t *buf;
	size_t i, n;
};

struct merging {
	struct spill *s;
	struct spill_source *v;
	size_t *heap, n, piece;      /* heap: of sources, the least first; piece: records */
};

static const void *head(const struct merging *m, size_t source)
{
	return m->v[source].buf + m->v[source].i * m->s->size;
}

/* Makes the source's next record be there; false: it has no more. */
static bool refill(struct merging *m, struct spill_source *x)
{
	if (x->i < x->n)
		return true;
	x->n = (size_t)MIN(x->left, (uint64_t)m->piece);
	x->i = 0;
	if (!x->n)
		return false;
	size_t bytes = x->n * m->s->size;
	if (pread(m->s->fd, x->buf, bytes, (off_t)x->at) != (ssize_t)bytes) {
		m->s->failed = true;
		return false;
	}
	x->at += bytes;
	x->left -= x->n;
	return true;
}

static bool less(const struct merging *m, size_t a, size_t b)
{
	int order = m->s->order(head(m, m->heap[a]), head(m, m->heap[b]));
	return order ? order < 0 : m->heap[a] < m->heap[b]; /* of equal ones, the first */
}

static void sift_down(struct merging *m, size_t i)
{
	for (size_t child; (child = 2 * i + 1) < m->n; i = child) {
		child += child + 1 < m->n && less(m, child + 1, child);
		if (!less(m, child, i))
			return;
		size_t t = m->heap[i];
		m->heap[i] = m->heap[child];
		m->heap[child] = t;
	}
}

static bool merge(struct merging *m, spill_fn *fn, void *arg)
{
	uint8_t record[SPILL_RECORD_MAX];

	for (size_t i = m->n; i-- > 0;)
		sift_down(m, i);
	while (m->n) {
		struct spill_source *x = &m->v[m->heap[0]];
		memcpy(record, head(m, m->heap[0]), m->s->size);
		x->i++;
		if (!refill(m, x))
			m->heap[0] = m->heap[--m->n];
		sift_down(m, 0);
		if (m->s->failed || !fn(arg, record))
			return false;
	}
	return true;
}

/* All runs are in the file; the buffer is theirs. */
static bool merge_runs(struct spill *s, spill_fn *fn, void *arg)
{
	struct merging m = { .s = s, .piece = MAX(s->cap / s->runs.n, (size_t)READ_RECORDS_MIN) };
	uint8_t *pieces = xreallocarray(NULL, s->runs.n * m.piece, s->size);

	m.v = xcalloc(s->runs.n, sizeof *m.v);
	m.heap = xcalloc(s->runs.n, sizeof *m.heap);
	for (size_t i = 0; i < s->runs.n; i++) {
		m.v[i] = (struct spill_source){ s->runs.v[i].at, s->runs.v[i].n, pieces + i * m.piece * s->size, 0, 0 };
		if (refill(&m, &m.v[i]))
			m.heap[m.n++] = i;
	}
	bool ok = !s->failed && merge(&m, fn, arg);
	free(m.v);
	free(m.heap);
	free(pieces);
	return ok;
}

bool spill_each(struct spill *s, spill_fn *fn, void *arg)
{
	if (s->runs.n && s->n)
		write_run(s);
	if (s->failed)
		return false;
	if (s->runs.n) {
		free(s->buf);                /* it makes room for the pieces */
		s->buf = NULL;
		return merge_runs(s, fn, arg);
	}
	qsort(s->buf, s->n, s->size, s->order);
	for (size_t i = 0; i < s->n; i++)
		if (!fn(arg, s->buf + i * s->size))
			return false;
	return true;
}
