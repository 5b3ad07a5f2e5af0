/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/host_runtimes.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/image/image_files.h"
#include "agent/kernel/perf_events.h"
#include "agent/managed/rows.h"
#include "agent/runtime/proc_reader.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"

#define FILES_MAX 16384u             /* that are looked at */

struct met_file {
	uint64_t dev, ino;
	struct runtime_file *runtime; /* NULL: none */
	char *path;
	unsigned processes;
	uint32_t last_pid;           /* a process maps a file several times */
};

struct host_scan {
	uint32_t pid;
	struct map index;
	VEC(struct met_file) files;
};

static struct runtime_file *recognise(const struct proc_map *m, uint32_t pid)
{
	struct image_hint hint = { pid, m->start, m->end, m->dev, m->ino };
	struct runtime_file *r = NULL;
	struct elf_file f;
	int fd = image_open_file(m->path, &hint, WAY_MAP_FILES);

	if (fd < 0)
		return NULL;
	if (elf_open(&f, fd, NULL) == 0) {
		r = runtime_recognise(&f, m->path, RUNTIMES_ALL);
		elf_close(&f);
	}
	close(fd);
	return r;
}

static void take_map(void *arg, const struct proc_map *m)
{
	struct host_scan *s = arg;
	uint64_t hash = hash_u64(m->dev ^ hash_u64(m->ino));
	uint32_t i;

	if (!m->ino || !mapping_is_file(m->path))
		return;
	if (!MAP_FIND_OR_ADD(&s->index, hash, i, s->files.n, s->files.v[i].dev == m->dev && s->files.v[i].ino == m->ino)) {
		struct runtime_file *r = s->files.n < FILES_MAX ? recognise(m, s->pid) : NULL;
		vec_push(&s->files, (struct met_file){ m->dev, m->ino, r, r ? xstrdup(m->path) : NULL, 0, 0 });
	}
	struct met_file *f = &s->files.v[i];
	f->processes += f->last_pid != s->pid;
	f->last_pid = s->pid;
}

size_t host_runtimes_each(void (*fn)(void *arg, const struct host_runtime *h), void *arg)
{
	struct host_scan s = { 0 };
	size_t n = 0;
	DIR *d = opendir("/proc");

	for (const struct dirent *e; d && (e = readdir(d));) {
		s.pid = isdigit((unsigned char)e->d_name[0]) ? (uint32_t)strtoul(e->d_name, NULL, 10) : 0;
		if (s.pid)
			proc_reader_maps(s.pid, take_map, &s);
	}
	if (d)
		closedir(d);
	for (size_t i = 0; i < s.files.n; i++) {
		const struct met_file *f = &s.files.v[i];
		if (f->runtime) {
			fn(arg, &(struct host_runtime){ f->runtime, f->path, f->processes });
			n++;
		}
		runtime_file_free(f->runtime);
		free(f->path);
	}
	vec_free(&s.files);
	map_free(&s.index);
	return n;
}
