/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/runtime/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"

#define ADDRESS_END (1ull << 47)     /* of user space */
#define STRING_PIECE 64u             /* names are short; a piece lies within a page, so that none fails for what follows the string */
#define PAGE 4096u
#define PAGES 24u
#define SMALL 1024u                  /* bytes of a read that is worth a page */

struct process_pages {
	unsigned n, next;            /* pages kept; whose place the next one takes once all are */
	uint64_t at[PAGES];
	uint8_t b[PAGES][PAGE];
};

int process_memory_open(struct process_memory *ret, uint32_t pid, uint32_t max_reads, uint64_t max_bytes, struct err *e)
{
	char path[32];

	snprintf(path, sizeof path, "/proc/%u/mem", pid);
	*ret = (struct process_memory){ .fd = open(path, O_RDONLY | O_CLOEXEC), .pid = pid };
	process_memory_allow(ret, max_reads, max_bytes);
	if (ret->fd >= 0)
		return 0;
	ret->ended = errno == ESRCH || errno == ENOENT;
	if (ret->ended)
		return err_set(e, ERR_NOT_FOUND, "process %u has ended", pid);
	return err_errno(e, errno, "open %s", path);
}

void process_memory_of_bytes(struct process_memory *ret, struct view bytes, uint64_t at, uint32_t max_reads, uint64_t max_bytes)
{
	*ret = (struct process_memory){ .fd = -1, .bytes = bytes, .at = at };
	process_memory_allow(ret, max_reads, max_bytes);
}

static void forget_pages(struct process_pages *p)
{
	explicit_bzero(p->b, (size_t)p->n * PAGE); /* there may be secrets */
	p->n = p->next = 0;
}

void process_memory_close(struct process_memory *m)
{
	if (m->pages)
		forget_pages(m->pages);
	free(m->pages);
	m->pages = NULL;
	if (m->fd >= 0)
		close(m->fd);
	m->fd = -1;
	free(m->facts);
	m->facts = NULL;
}

void process_memory_keep_pages(struct process_memory *m)
{
	if (m->pages)
		return;
	m->pages = xmalloc(sizeof *m->pages);
	m->pages->n = m->pages->next = 0;
}

void process_memory_look_again(struct process_memory *m)
{
	if (m->pages)
		forget_pages(m->pages);
	m->reads_left++;
	m->looks_left++;
	m->bytes_left += SMALL;
}

void process_memory_allow(struct process_memory *m, uint32_t max_reads, uint64_t max_bytes)
{
	if (m->pages)
		forget_pages(m->pages);
	m->reads_left = max_reads;
	m->looks_left = MIN(max_reads, UINT32_MAX / PROCESS_MEMORY_LOOKS - 1) * PROCESS_MEMORY_LOOKS;
	m->bytes_left = max_bytes;
}

static bool take_budget(struct process_memory *m, size_t n)
{
	if (!m->reads_left || m->bytes_left < n)
		return false;
	m->reads_left--;
	m->bytes_left -= n;
	return true;
}

/* The number of bytes read: less than n where readable memory ends. */
static size_t read_some(struct process_memory *m, uint64_t at, void *to, size_t n)
{
	if (m->fd >= 0) {
		ssize_t got;
		do
			got = pread(m->fd, to, n, (off_t)at);
		while (got < 0 && errno == EINTR);
		m->ended |= got == 0;
		return got < 0 ? 0 : (size_t)got;
	}
	if (at < m->at || at - m->at >= m->bytes.len)
		return 0;
	n = MIN(n, m->bytes.len - (size_t)(at - m->at));
	memcpy(to, m->bytes.ptr + (at - m->at), n);
	return n;
}

/* The kept page that begins there, read now if it is not kept, for n bytes of it; NULL: it cannot be. */
static const uint8_t *page_at(struct process_memory *m, uint64_t at, size_t n)
{
	struct process_pages *p = m->pages;
	unsigned i = 0;

	while (i < p->n && p->at[i] != at)
		i++;
	if (i < p->n)
		return p->b[i];
	if (!take_budget(m, n))
		return NULL;
	if (p->n == PAGES)
		i = p->next++ % PAGES;
	p->at[i] = at;
	if (read_some(m, at, p->b[i], PAGE) != PAGE) {
		p->at[i] = UINT64_MAX; /* no page's */
		return NULL;
	}
	p->n = MAX(p->n, i + 1);
	return p->b[i];
}

int process_memory_read(struct process_memory *m, uint64_t at, void *to, size_t n, struct err *e)
{
	if (!n)
		return 0;
	if (at >= ADDRESS_END || n > ADDRESS_END - at)
		return err_set(e, ERR_NOT_FOUND, "process %u: no memory at 0x%llx", m->pid, (unsigned long long)at);
	if (m->pages && n <= SMALL && at % PAGE + n <= PAGE && m->looks_left) {
		const uint8_t *page = page_at(m, at - at % PAGE, n);
		m->looks_left--;
		if (page) {
			memcpy(to, page + at % PAGE, n);
			return 0;
		}
	}
	if ((m->pages && !m->looks_left) || !take_budget(m, n))
		return err_set(e, ERR_LIMIT, "process %u: more of its memory would have to be read than is allowed", m->pid);
	if (read_some(m, at, to, n) == n)
		return 0;
	return m->ended ? err_set(e, ERR_NOT_FOUND, "process %u has ended", m->pid) :
		err_set(e, ERR_NOT_FOUND, "process %u: no memory at 0x%llx", m->pid, (unsigned long long)at);
}

int process_memory_u64(struct process_memory *m, uint64_t at, uint64_t *ret, struct err *e)
{
	uint64_t v;
	int r = process_memory_read(m, at, &v, sizeof v, e);

	if (!r)
		*ret = v;
	return r;
}

int process_memory_u32(struct process_memory *m, uint64_t at, uint32_t *ret, struct err *e)
{
	uint32_t v;
	int r = process_memory_read(m, at, &v, sizeof v, e);

	if (!r)
		*ret = v;
	return r;
}

int process_memory_u16(struct process_memory *m, uint64_t at, uint16_t *ret, struct err *e)
{
	uint16_t v;
	int r = process_memory_read(m, at, &v, sizeof v, e);

	if (!r)
		*ret = v;
	return r;
}

int process_memory_append(struct process_memory *m, uint64_t at, size_t n, struct buf *to, struct err *e)
{
	/* The budget comes first: a length that was read must not size an allocation. */
	if (n > m->bytes_left || !buf_reserve(to, n))
		return err_set(e, ERR_LIMIT, "process %u: %zu bytes at 0x%llx are too many", m->pid, n, (unsigned long long)at);
	int r = process_memory_read(m, at, to->ptr + to->len, n, e);
	if (!r)
		to->len += n;
	to->ptr[to->len] = 0;
	return r;
}

int process_memory_string(struct process_memory *m, uint64_t at, size_t max, struct buf *to, struct err *e)
{
	char piece[STRING_PIECE];
	size_t had = to->len;

	for (;;) {
		size_t n = MIN(sizeof piece, PAGE - (size_t)(at % PAGE)), done = to->len - had;
		if (m->fd < 0 && at >= m->at && at - m->at < m->bytes.len)
			n = MIN(n, m->bytes.len - (size_t)(at - m->at));
		int r = process_memory_read(m, at, piece, n, e);
		if (r)
			return r;
		size_t len = strnlen(piece, n);
		if (len > max - done)
			return err_set(e, ERR_LIMIT, "process %u: a string of more than %zu bytes", m->pid, max);
		buf_put(to, piece, len);
		if (to->overflow)
			return err_set(e, ERR_LIMIT, "process %u: too many bytes of strings", m->pid);
		if (len < n)
			return 0;
		at += n;
	}
}
