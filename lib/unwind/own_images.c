/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/own_images.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "unwind/proc_maps.h"

#define PAGE 4096u
#define IMAGES_MAX_OWN 4096u

void own_images_init(struct own_images *x)
{
	*x = (struct own_images){ .mem_fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC) };
}

/* Whether the file has at the mapping's offset what is in memory: a package may have been upgraded meanwhile. */
static bool is_mapped_file(const struct own_images *x, int fd, const struct proc_map *m)
{
	uint8_t in_file[PAGE], in_memory[PAGE];

	if (x->mem_fd < 0)
		return true;
	ssize_t n = pread(fd, in_file, sizeof in_file, (off_t)m->file_offset);
	return n > 0 && pread(x->mem_fd, in_memory, (size_t)n, (off_t)m->start) == n && memcmp(in_file, in_memory, (size_t)n) == 0;
}

/* The vDSO is no file: a copy in one. */
static int vdso_file(const struct own_images *x, const struct proc_map *m)
{
	uint8_t bytes[16 * PAGE];
	size_t n = MIN(sizeof bytes, (size_t)(m->end - m->start));
	int fd = memfd_create("vdso", MFD_CLOEXEC);

	if (fd >= 0 && (x->mem_fd < 0 || pread(x->mem_fd, bytes, n, (off_t)m->start) != (ssize_t)n ||
			write(fd, bytes, n) != (ssize_t)n)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_mapped(const struct own_images *x, const struct proc_map *m, bool program)
{
	char link[64];

	if (strcmp(m->path, "[vdso]") == 0)
		return vdso_file(x, m);
	snprintf(link, sizeof link, "/proc/self/map_files/%llx-%llx", (unsigned long long)m->start, (unsigned long long)m->end);
	const char *ways[] = { program ? "/proc/self/exe" : m->path, link };
	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		int fd = open(ways[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
		if (fd >= 0 && is_mapped_file(x, fd, m))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

static bool is_program(const char *path)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);

	exe[MAX(n, 0)] = 0;
	return n > 0 && strcmp(exe, path) == 0;
}

static struct own_image *image_of(struct own_images *x, const struct proc_map *m, uint32_t *ret_id)
{
	static const char deleted[] = " (deleted)";

	for (size_t i = 0; i < x->v.n; i++) {
		struct own_image *im = x->v.v[i];
		*ret_id = (uint32_t)i + 1;
		if (im->ino == m->ino && im->dev == m->dev && (m->ino || strcmp(im->path, m->path) == 0))
			return im;
	}
	if (x->v.n == IMAGES_MAX_OWN)
		return NULL;
	struct own_image *im = NEW(struct own_image);
	im->dev = m->dev;
	im->ino = m->ino;
	im->is_program = is_program(m->path);
	im->fd = open_mapped(x, m, im->is_program);
	size_t len = strlen(m->path);
	if (len >= sizeof deleted && strcmp(m->path + len - (sizeof deleted - 1), deleted) == 0)
		len -= sizeof deleted - 1;
	im->path = xstrndup(m->path, len);
	if (im->fd >= 0 && elf_open(&im->elf, im->fd, NULL)) {
		close(im->fd);
		im->fd = -1;
	}
	if (im->fd >= 0)
		im->build_id_len = (uint8_t)elf_build_id(&im->elf, im->build_id, sizeof im->build_id);
	vec_push(&x->v, im);
	*ret_id = (uint32_t)x->v.n;
	return im;
}

/* The virtual address of a file's offset. */
static uint64_t vaddr_of(const struct own_image *im, uint64_t offset)
{
	for (size_t i = 0; im->fd >= 0 && i < im->elf.n_ph; i++) {
		const Elf64_Phdr *p = &im->elf.ph[i];
		uint64_t first = p->p_offset & ~(uint64_t)(PAGE - 1);
		if (p->p_type == PT_LOAD && p->p_flags & PF_X && offset >= first && offset < p->p_offset + p->p_filesz)
			return p->p_vaddr - p->p_offset + offset;
	}
	return offset;
}

static void take_map(void *arg, const struct proc_map *m)
{
	struct own_images *x = arg;
	uint64_t pages = (m->end - m->start) / PAGE;
	struct unwind_map u = { .start = m->start, .vaddr = m->start, .n_pages = (uint32_t)MIN(pages, (uint64_t)UINT32_MAX) };

	if (strcmp(m->path, "[vsyscall]") == 0 || x->maps.n >= MAPS_MAX)
		return;
	if (m->ino || strcmp(m->path, "[vdso]") == 0) {
		struct own_image *im = image_of(x, m, &u.image);
		u.image = im ? u.image : 0;
		u.vaddr = im ? vaddr_of(im, m->file_offset) : m->start;
	}
	vec_push(&x->maps, u);
}

void own_images_read(struct own_images *x)
{
	x->maps.n = 0;
	x->read_ns = clock_mono_ns();
	proc_maps_each((uint32_t)getpid(), take_map, x);
}

const struct unwind_map *own_images_at(const struct own_images *x, uint64_t address)
{
	size_t lo = 0, hi = x->maps.n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		const struct unwind_map *m = &x->maps.v[mid];
		if (address < m->start)
			hi = mid;
		else if (address - m->start < (uint64_t)m->n_pages * PAGE)
			return m;
		else
			lo = mid + 1;
	}
	return NULL;
}

bool own_image_segment(const struct own_image *im, uint64_t vaddr, uint64_t *ret_start, uint64_t *ret_limit, uint64_t *ret_offset)
{
	for (size_t i = 0; im->fd >= 0 && i < im->elf.n_ph; i++) {
		const Elf64_Phdr *p = &im->elf.ph[i];
		if (p->p_type != PT_LOAD || vaddr < p->p_vaddr || vaddr - p->p_vaddr >= p->p_memsz)
			continue;
		uint64_t before = p->p_vaddr & (PAGE - 1);
		*ret_start = p->p_vaddr - before;
		*ret_limit = (p->p_vaddr + p->p_memsz + PAGE - 1) & ~(uint64_t)(PAGE - 1);
		*ret_offset = p->p_offset - MIN(before, p->p_offset);
		return true;
	}
	return false;
}
