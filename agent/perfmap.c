/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/perfmap.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How many older, lower-starting entries are tried when the nearest does not hold the address. */
#define LOOK_BACK 16
#define CHUNK ((size_t)256 << 10)

void perfmap_free(struct perfmap *m)
{
	vec_free(&m->entries);
	vec_free(&m->order);
	buf_free(&m->names);
	*m = (struct perfmap){ 0 };
}

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

static void take_line(struct perfmap *m, struct view line)
{
	uint64_t start, size;
	if (!hex(&line, &start) || !hex(&line, &size) || !size || size > UINT32_MAX || line.len < 2)
		return;
	line.ptr++;
	line.len--;
	if (m->entries.n >= PERFMAP_MAX_ENTRIES) {
		m->full = true;
		return;
	}
	vec_push(&m->entries, (struct perfmap_entry){ start, (uint32_t)size, (uint32_t)m->names.len });
	buf_put(&m->names, line.ptr, MIN(line.len, (size_t)1024));
	buf_putc(&m->names, 0);
}

size_t perfmap_parse(struct perfmap *m, struct view text)
{
	size_t used = 0;
	m->names.max = PERFMAP_MAX_BYTES + CHUNK;
	for (;;) {
		const char *nl = memchr(text.ptr + used, '\n', text.len - used);
		if (!nl)
			return used;
		size_t n = (size_t)(nl - (text.ptr + used));
		take_line(m, view_make(text.ptr + used, n));
		used += n + 1;
	}
}

static int compare(const void *a, const void *b, void *arg)
{
	const struct perfmap_entry *e = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	if (e[x].start != e[y].start)
		return e[x].start < e[y].start ? -1 : 1;
	return (x > y) - (x < y);
}

struct view perfmap_lookup(struct perfmap *m, uint64_t address)
{
	if (m->order.n != m->entries.n) {
		vec_reserve(&m->order, m->entries.n);
		for (size_t i = m->order.n; i < m->entries.n; i++)
			m->order.v[i] = (uint32_t)i;
		m->order.n = m->entries.n;
		qsort_r(m->order.v, m->order.n, sizeof *m->order.v, compare, m->entries.v);
	}
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
	return best ? view_of(m->names.ptr + best->name) : VIEW("");
}

/* The process's number in its own pid namespace: the last of NSpid. 0 if it is gone. */
static uint32_t own_pid(uint32_t pid, uint32_t *ret_uid)
{
	char path[64], line[512];
	uint32_t nspid = 0;
	snprintf(path, sizeof path, "/proc/%u/status", pid);
	FILE *f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof line, f)) {
		if (strncmp(line, "Uid:", 4) == 0)
			*ret_uid = (uint32_t)strtoul(line + 4, NULL, 10);
		if (strncmp(line, "NSpid:", 6) == 0) {
			char *last = strrchr(line, '\t');
			nspid = last ? (uint32_t)strtoul(last, NULL, 10) : 0;
			break;
		}
	}
	fclose(f);
	return nspid ? nspid : pid;
}

static int open_in_root(uint32_t pid, const char *path)
{
	char root[64];
	snprintf(root, sizeof root, "/proc/%u/root", pid);
	int dir = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return -1;
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof how);
	close(dir);
	return fd;
}

bool perfmap_update(struct perfmap *m, uint32_t pid)
{
	uint32_t uid = UINT32_MAX;
	uint32_t nspid = own_pid(pid, &uid);
	char path[64];
	snprintf(path, sizeof path, "/tmp/perf-%u.map", nspid);
	int fd = nspid ? open_in_root(pid, path) : -1;
	struct stat st;
	if (fd < 0)
		return false;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != uid) {
		close(fd);
		return false;
	}
	if (m->ino != st.st_ino || (uint64_t)st.st_size < m->read_to) { /* another file: begin anew */
		perfmap_free(m);
		m->ino = st.st_ino;
	}
	char *chunk = xmalloc(CHUNK);
	while (!m->full) {
		if (m->read_to >= PERFMAP_MAX_BYTES) {
			m->full = true;
			break;
		}
		ssize_t n = pread(fd, chunk, CHUNK, (off_t)m->read_to);
		if (n <= 0)
			break;
		size_t used = perfmap_parse(m, view_make(chunk, (size_t)n));
		if (!used && (size_t)n < CHUNK)
			break; /* half a line: later */
		m->read_to += used ? used : (size_t)n; /* a line longer than a chunk is skipped */
	}
	free(chunk);
	close(fd);
	return true;
}
