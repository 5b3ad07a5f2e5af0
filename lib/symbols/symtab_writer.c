/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/symtab_writer.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/radix.h"
#include "symbols/tempfile.h"

#define SYMBOLS_MAX 2000000u
#define NAMES_MAX ((uint64_t)128 << 20)
#define PENDING ((size_t)64 << 10)

void symtab_writer_init(struct symtab_writer *w)
{
	*w = (struct symtab_writer){ .fd = -1 };
}

void symtab_writer_release(struct symtab_writer *w)
{
	vec_free(&w->rows);
	buf_free(&w->pending);
	if (w->fd >= 0)
		close(w->fd);
	w->fd = -1;
}

static int write_pending(struct symtab_writer *w, struct err *e)
{
	if (w->fd < 0)
		w->fd = tempfile_open("pyrrha-symbols", e);
	if (w->fd < 0)
		return w->fd;
	if (!tempfile_write(w->fd, w->pending.ptr, w->pending.len))
		return err_set(e, ERR_IO, "cannot write symbols to a temporary file; is TMPDIR full?");
	w->written += w->pending.len;
	buf_reset(&w->pending);
	return 0;
}

int symtab_writer_add(struct symtab_writer *w, uint64_t address, uint64_t size, unsigned rank, struct view name, struct err *e)
{
	uint64_t at = w->written + w->pending.len;
	if (w->rows.n >= SYMBOLS_MAX || at + name.len >= NAMES_MAX)
		return err_set(e, ERR_LIMIT, "more than %u symbols, or %llu bytes of names", SYMBOLS_MAX,
			       (unsigned long long)NAMES_MAX);
	struct symtab_row r = { .address = address, .size = (uint32_t)MIN(size, (uint64_t)SYMTAB_SIZE_MAX) & SYMTAB_SIZE_MAX,
				.rank = rank & 15, .name = (uint32_t)at };
	vec_push(&w->rows, r);
	buf_put(&w->pending, name.ptr, name.len);
	buf_putc(&w->pending, 0);
	return w->pending.len >= PENDING ? write_pending(w, e) : 0;
}

/* Sorted, the best one of each address, as entries, in place. */
static size_t make_entries(struct symtab_writer *w)
{
	_Static_assert(sizeof(struct symtab_entry) == sizeof(struct symtab_row), "they share their room");
	_Static_assert(sizeof(struct symtab_row) == RADIX_RECORD && offsetof(struct symtab_row, address) == 0, "sorted by address");
	size_t out = 0;
	radix_sort(w->rows.v, w->rows.n);
	for (size_t i = 0; i < w->rows.n;) {
		struct symtab_row best = w->rows.v[i++];
		for (; i < w->rows.n && w->rows.v[i].address == best.address; i++)
			if (w->rows.v[i].rank < best.rank)
				best = w->rows.v[i];
		struct symtab_entry x = { best.address, best.size, best.name };
		memcpy(&w->rows.v[out++], &x, sizeof x);
	}
	return out;
}

/* The addresses of the first entry of each block. */
static uint64_t *writer_firsts(const struct symtab_writer *w, size_t n)
{
	uint64_t *first = xreallocarray(NULL, (n + SYMTAB_BLOCK - 1) / SYMTAB_BLOCK, sizeof *first);

	for (size_t i = 0; i < n; i += SYMTAB_BLOCK)
		first[i / SYMTAB_BLOCK] = w->rows.v[i].address; /* an entry by now, with the same first member */
	return first;
}

int symtab_writer_finish(struct symtab_writer *w, struct symtab *ret, struct err *e)
{
	*ret = (struct symtab){ .fd = -1 };
	int rc = w->rows.n ? write_pending(w, e) : 0;
	if (!rc && w->rows.n) {
		size_t n = make_entries(w);
		if (tempfile_write(w->fd, w->rows.v, n * sizeof(struct symtab_entry))) {
			*ret = (struct symtab){ w->fd, (uint32_t)n, w->written, writer_firsts(w, n) };
			w->fd = -1;
		} else {
			rc = err_set(e, ERR_IO, "cannot write %zu symbols to a temporary file; is TMPDIR full?", n);
		}
	}
	symtab_writer_release(w);
	symtab_writer_init(w);
	return rc;
}
