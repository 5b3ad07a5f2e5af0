/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/image/image_content.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"

#define BYTES_MAX ((uint64_t)64 << 20)
#define PIECE 65536u

static uint64_t seeds[2];
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void draw_seeds(void)
{
	if (getrandom(seeds, sizeof seeds, 0) == sizeof seeds)
		return;
	seeds[0] = (uint64_t)clock_mono_ns();
	seeds[1] = hash_u64(seeds[0]);
}

bool file_stamp_of(int fd, struct file_stamp *ret)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	*ret = (struct file_stamp){ st.st_dev, st.st_ino, (uint64_t)st.st_size,
				    st.st_mtim.tv_sec * 1000000000ll + st.st_mtim.tv_nsec,
				    st.st_ctim.tv_sec * 1000000000ll + st.st_ctim.tv_nsec };
	return true;
}

bool file_stamp_eq(const struct file_stamp *a, const struct file_stamp *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->modified_ns == b->modified_ns &&
	       a->changed_ns == b->changed_ns;
}

static void add(struct image_content *c, const void *p, size_t n)
{
	for (int i = 0; i < 2 && n; i++)
		c->h[i] = hash_bytes_seed(p, n, c->h[i]);
}

/* As much of the range as the file has; false if it cannot be read. */
static bool add_range(struct image_content *c, const struct elf_file *f, uint64_t offset, uint64_t len, uint8_t *room)
{
	if (offset >= f->size)
		return true;
	len = MIN(len, f->size - offset);
	for (uint64_t done = 0; done < len; done += PIECE) {
		size_t n = (size_t)MIN(len - done, (uint64_t)PIECE);
		if (!elf_read(f, offset + done, room, n))
			return false;
		add(c, room, n);
	}
	return true;
}

/* The parts that stay in memory: unwind tables, symbols, the stubs' code and Go's table. All of what does not: full symbols, debug
 * information. */
static bool matters(const struct elf_file *f, const Elf64_Shdr *sh)
{
	if (sh->sh_type == SHT_NOBITS || sh->sh_type == SHT_NULL)
		return false;
	if (!(sh->sh_flags & SHF_ALLOC) || sh->sh_type == SHT_DYNSYM || sh->sh_type == SHT_STRTAB || sh->sh_type == SHT_NOTE ||
	    sh->sh_type == SHT_RELA)
		return true;
	return elf_section_starts(f, sh, ".eh_frame") || elf_section_starts(f, sh, ".plt") || elf_section_starts(f, sh, ".gopclntab") ||
	       elf_section_starts(f, sh, ".data.rel.ro.gopclntab") || elf_section_starts(f, sh, ".go.buildinfo");
}

/* Calls for each range that matters; without sections that is all that is loaded. Returns the bytes. */
static uint64_t each_range(const struct elf_file *f, struct image_content *c, uint8_t *room, bool *ok)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < (f->n_sh ? f->n_sh : f->n_ph); i++) {
		bool take = f->n_sh ? matters(f, &f->sh[i]) : f->ph[i].p_type == PT_LOAD;
		uint64_t offset = f->n_sh ? f->sh[i].sh_offset : f->ph[i].p_offset;
		uint64_t len = f->n_sh ? f->sh[i].sh_size : f->ph[i].p_filesz;
		if (!take || offset >= f->size)
			continue;
		bytes += MIN(len, f->size - offset);
		if (c)
			*ok = *ok && add_range(c, f, offset, len, room);
	}
	return bytes;
}

bool image_content_of(const struct elf_file *f, const struct file_stamp *stamp, struct image_content *ret)
{
	struct file_stamp after;
	bool ok = true;

	pthread_once(&seeded, draw_seeds);
	memcpy(ret->h, seeds, sizeof ret->h);
	add(ret, &f->eh, sizeof f->eh);
	add(ret, f->ph, f->n_ph * sizeof *f->ph);
	add(ret, f->sh, f->n_sh * sizeof *f->sh);
	if (each_range(f, NULL, NULL, NULL) > BYTES_MAX) {
		add(ret, (uint64_t[]){ stamp->dev, stamp->ino, stamp->size }, 3 * sizeof(uint64_t));
		return true;
	}
	uint8_t *room = xmalloc(PIECE);
	each_range(f, ret, room, &ok);
	free(room);
	return ok && file_stamp_of(f->fd, &after) && file_stamp_eq(stamp, &after);
}
