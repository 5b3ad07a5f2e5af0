/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names/perfmap.h"

#include <stdlib.h>
#include <unistd.h>

#include "agent/names/perfmap_helper.h"
#include "symbols/tempfile.h"

/* How many older, lower-starting entries are tried when the nearest does not hold the address. */
#define LOOK_BACK 16
#define CHUNK ((size_t)64 << 10)

void perfmap_init(struct perfmap *m)
{
	*m = (struct perfmap){ .copy = -1 };
}

static void forget(struct perfmap *m)
{
	vec_free(&m->entries);
	vec_free(&m->order);
	*m = (struct perfmap){ .copy = m->copy };
}

void perfmap_free(struct perfmap *m)
{
	forget(m);
	if (m->copy >= 0)
		close(m->copy);
	m->copy = -1;
}

size_t perfmap_bytes(const struct perfmap *m)
{
	return m->entries.cap * sizeof *m->entries.v + m->order.cap * sizeof *m->order.v;
}

/* ---- reading lines ---- */

static bool hex(struct view *v, uint64_t *ret)
{
	size_t i = 0, first;
	uint64_t n = 0;
	while (i < v->len && v->ptr[i] == ' ')
		i++;
	if (i + 2 < v->len && v->ptr[i] == '0' && (v->ptr[i + 1] | 0x20) == 'x')
		i += 2;
	for (first = i; i < v->len && i - first < 16; i++) {
		char c = v->ptr[i];
		unsigned d = c >= '0' && c <= '9' ? (unsigned)(c - '0') : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ?
			     (unsigned)((c | 0x20) - 'a' + 10) : 16;
		if (d > 15)
			break;
		n = n << 4 | d;
	}
	if (i == first || i == v->len || v->ptr[i] != ' ')
		return false;
	v->ptr += i;
	v->len -= i;
	*ret = n;
	return true;
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct perfmap_entry *e = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (e[x].start != e[y].start)
		return e[x].start < e[y].start ? -1 : 1;
	return (x > y) - (x < y);
}

static void sort(struct perfmap *m)
{
	if (m->order.n == m->entries.n)
		return;
	vec_reserve(&m->order, m->entries.n);
	for (size_t i = m->order.n; i < m->entries.n; i++)
		m->order.v[i] = (uint32_t)i;
	m->order.n = m->entries.n;
	qsort_r(m->order.v, m->order.n, sizeof *m->order.v, compare, m->entries.v);
}

/* Compilers place code where code was: of entries that begin at one address only the newest is wanted. */
static void drop_replaced(struct perfmap *m)
{
	sort(m);
	for (size_t i = 0; i + 1 < m->order.n; i++)
		if (m->entries.v[m->order.v[i]].start == m->entries.v[m->order.v[i + 1]].start)
			m->entries.v[m->order.v[i]].size = 0;
	size_t out = 0;
	for (size_t i = 0; i < m->entries.n; i++)
		if (m->entries.v[i].size)
			m->entries.v[out++] = m->entries.v[i];
	m->entries.n = out;
	m->order.n = 0;
}

/* at: of the line, in the copy. */
static void take_line(struct perfmap *m, struct view line, uint64_t at)
{
	struct view rest = line;
	uint64_t start, size;
	if (!hex(&rest, &start) || !hex(&rest, &size) || !size || size > UINT32_MAX || rest.len < 2)
		return;
	if (m->entries.n >= PERFMAP_MAX_ENTRIES) {
		drop_replaced(m);
		/* Little room gained would mean to sort again for each line. */
		m->full = m->entries.n > PERFMAP_MAX_ENTRIES / 4 * 3;
		if (m->full)
			return;
	}
	uint32_t name = (uint32_t)(at + (uint64_t)(rest.ptr + 1 - line.ptr));
	vec_push(&m->entries, (struct perfmap_entry){ start, (uint32_t)size, name });
}

/* Reads complete lines; returns the bytes used. */
static size_t take_lines(struct perfmap *m, struct view text, uint64_t at)
{
	size_t used = 0;
	while (!m->full) {
		const char *nl = memchr(text.ptr + used, '\n', text.len - used);
		if (!nl)
			break;
		size_t n = (size_t)(nl - (text.ptr + used));
		if (!m->in_long_line)
			take_line(m, view_make(text.ptr + used, n), at + used);
		m->in_long_line = false;
		used += n + 1;
	}
	return used;
}

static void take_copied(struct perfmap *m)
{
	char *chunk = xmalloc(CHUNK);
	while (m->taken < m->copied && !m->full) {
		ssize_t n = pread(m->copy, chunk, (size_t)MIN((uint64_t)CHUNK, m->copied - m->taken), (off_t)m->taken);
		if (n <= 0)
			break;
		size_t used = take_lines(m, view_make(chunk, (size_t)n), m->taken);
		if (!used && (size_t)n < CHUNK)
			break; /* half a line: the rest comes later */
		if (!used) {
			m->in_long_line = true;
			used = (size_t)n;
		}
		m->taken += used;
	}
	m->full |= m->copied >= PERFMAP_MAX_BYTES;
	free(chunk);
}

static bool have_copy(struct perfmap *m)
{
	struct err e;
	if (m->copy < 0)
		m->copy = tempfile_open("pyrrha-perfmap", &e);
	return m->copy >= 0;
}

bool perfmap_append(struct perfmap *m, struct view text)
{
	if (!have_copy(m) || lseek(m->copy, (off_t)m->copied, SEEK_SET) < 0 || !tempfile_write(m->copy, text.ptr, text.len))
		return false;
	m->copied += text.len;
	take_copied(m);
	return true;
}

/* One question to the helper. *ret_more: there may be more to copy at once. */
static bool copy_some(struct perfmap *m, struct perfmap_helper *h, uint32_t pid, bool *ret_more)
{
	struct perfmap_file f = { m->dev, m->ino, m->copied, false };
	enum perfmap_result r = perfmap_helper_copy(h, pid, m->copy, PERFMAP_MAX_BYTES, &f);
	*ret_more = false;
	if (r == PERFMAP_TIMEOUT || r == PERFMAP_FAILED)
		perfmap_free(m);
	if (r != PERFMAP_READ && r != PERFMAP_TOO_LARGE)
		return false;
	if (f.begun_anew)
		forget(m);
	*ret_more = f.copied - m->copied == PERFMAP_BYTES_AT_ONCE;
	m->dev = f.dev;
	m->ino = f.ino;
	m->copied = f.copied;
	take_copied(m);
	return true;
}

bool perfmap_update(struct perfmap *m, struct perfmap_helper *h, uint32_t pid)
{
	bool more = true, ok = have_copy(m);
	while (ok && more && !m->full)
		ok = copy_some(m, h, pid, &more);
	return ok;
}

/* ---- looking up ---- */

bool perfmap_lookup(struct perfmap *m, uint64_t address, struct buf *name)
{
	sort(m);
	size_t lo = 0, hi = m->order.n;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (m->entries.v[m->order.v[mid]].start <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	const struct perfmap_entry *best = NULL;
	for (size_t i = lo, tries = 0; i-- && tries < LOOK_BACK; tries++) {
		const struct perfmap_entry *x = &m->entries.v[m->order.v[i]];
		if (address - x->start < x->size && x > best) /* later in the file wins */
			best = x;
	}
	char text[PERFMAP_NAME_MAX];
	ssize_t n = best ? pread(m->copy, text, sizeof text, (off_t)best->name) : 0;
	if (n <= 0)
		return false;
	const char *nl = memchr(text, '\n', (size_t)n);
	buf_put(name, text, nl ? (size_t)(nl - text) : (size_t)n);
	return true;
}
