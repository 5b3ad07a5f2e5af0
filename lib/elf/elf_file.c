/* SPDX-License-Identifier: Apache-2.0 */
#include "elf/elf_file.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#else
#error "which ELF machine is this?"
#endif

bool elf_read(const struct elf_file *f, uint64_t offset, void *to, size_t n)
{
	if (offset > f->size || n > f->size - offset)
		return false;
	if (f->fd < 0) {
		memcpy(to, f->mem + offset, n);
		return true;
	}
	for (size_t done = 0; done < n;) {
		ssize_t r = pread(f->fd, (char *)to + done, n - done, (off_t)(offset + done));
		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return false;
		done += (size_t)r;
	}
	return true;
}

static void *read_array(const struct elf_file *f, uint64_t offset, size_t n, size_t size)
{
	void *p = xreallocarray(NULL, n ? n : 1, size);
	if (elf_read(f, offset, p, n * size))
		return p;
	free(p);
	return NULL;
}

/* The section headers; a file without sensible ones is still useful. */
static void read_sections(struct elf_file *f)
{
	uint64_t n = f->eh.e_shnum, strndx = f->eh.e_shstrndx;
	Elf64_Shdr first;

	if (!f->eh.e_shoff || f->eh.e_shentsize != sizeof(Elf64_Shdr) ||
	    !elf_read(f, f->eh.e_shoff, &first, sizeof first))
		return;
	if (n == 0)
		n = first.sh_size;
	if (strndx == SHN_XINDEX)
		strndx = first.sh_link;
	if (n == 0 || n > ELF_SECTIONS_MAX || strndx >= n)
		return;
	f->sh = read_array(f, f->eh.e_shoff, n, sizeof *f->sh);
	if (!f->sh)
		return;
	f->n_sh = n;
	f->shstr = (char *)elf_section_bytes(f, &f->sh[strndx], 1 << 22);
	f->shstr_len = f->shstr ? f->sh[strndx].sh_size : 0;
}

static int open_common(struct elf_file *f, struct err *e)
{
	if (!elf_read(f, 0, &f->eh, sizeof f->eh) || memcmp(f->eh.e_ident, ELFMAG, SELFMAG))
		return err_set(e, ERR_BAD_DATA, "not an ELF file");
	if (f->eh.e_ident[EI_CLASS] != ELFCLASS64 || f->eh.e_ident[EI_DATA] != ELFDATA2LSB || f->eh.e_machine != MACHINE)
		return err_set(e, ERR_BAD_DATA, "an ELF file of another machine (class %d, machine %d)",
			       f->eh.e_ident[EI_CLASS], f->eh.e_machine);
	if (f->eh.e_phentsize != sizeof(Elf64_Phdr) || f->eh.e_phnum == 0 || f->eh.e_phnum > ELF_PHDRS_MAX)
		return err_set(e, ERR_BAD_DATA, "%u program headers of %u bytes: expected 1 to %d of %zu", f->eh.e_phnum,
			       f->eh.e_phentsize, ELF_PHDRS_MAX, sizeof(Elf64_Phdr));
	f->n_ph = f->eh.e_phnum;
	f->ph = read_array(f, f->eh.e_phoff, f->n_ph, sizeof *f->ph);
	if (!f->ph)
		return err_set(e, ERR_BAD_DATA, "program headers lie outside of the file");
	read_sections(f);
	return 0;
}

int elf_open(struct elf_file *f, int fd, struct err *e)
{
	struct stat st;

	memset(f, 0, sizeof *f);
	f->fd = fd;
	if (fstat(fd, &st) < 0)
		return err_errno(e, errno, "fstat");
	if (!S_ISREG(st.st_mode))
		return err_set(e, ERR_BAD_DATA, "not a regular file");
	f->size = (uint64_t)st.st_size;
	int r = open_common(f, e);
	if (r)
		elf_close(f);
	return r;
}

int elf_open_mem(struct elf_file *f, const void *mem, size_t size, struct err *e)
{
	memset(f, 0, sizeof *f);
	f->fd = -1;
	f->mem = mem;
	f->size = size;
	int r = open_common(f, e);
	if (r)
		elf_close(f);
	return r;
}

void elf_close(struct elf_file *f)
{
	free(f->ph);
	free(f->sh);
	free(f->shstr);
	memset(f, 0, sizeof *f);
	f->fd = -1;
}

bool elf_section_read(const struct elf_file *f, const Elf64_Shdr *sh, uint64_t offset, void *to, size_t n)
{
	return offset <= sh->sh_size && n <= sh->sh_size - offset && sh->sh_offset <= UINT64_MAX - offset &&
	       elf_read(f, sh->sh_offset + offset, to, n);
}

const Elf64_Shdr *elf_section(const struct elf_file *f, const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < f->n_sh; i++) {
		size_t at = f->sh[i].sh_name;
		if (f->shstr && at < f->shstr_len && f->shstr_len - at > len &&
		    memcmp(f->shstr + at, name, len + 1) == 0)
			return &f->sh[i];
	}
	return NULL;
}

bool elf_section_starts(const struct elf_file *f, const Elf64_Shdr *sh, const char *prefix)
{
	size_t n = strlen(prefix);
	return f->shstr && sh->sh_name < f->shstr_len && f->shstr_len - sh->sh_name > n && memcmp(f->shstr + sh->sh_name, prefix, n) == 0;
}

uint8_t *elf_section_bytes(const struct elf_file *f, const Elf64_Shdr *sh, uint64_t max)
{
	if (sh->sh_type == SHT_NOBITS || sh->sh_flags & SHF_COMPRESSED || sh->sh_size > max ||
	    sh->sh_size > ELF_SECTION_BYTES_MAX || sh->sh_offset > f->size || sh->sh_size > f->size - sh->sh_offset)
		return NULL;
	uint8_t *p = xmalloc(sh->sh_size + 1);
	if (elf_read(f, sh->sh_offset, p, sh->sh_size)) {
		p[sh->sh_size] = 0;
		return p;
	}
	free(p);
	return NULL;
}

static size_t note_build_id(const uint8_t *p, size_t len, uint8_t *out, size_t max)
{
	while (len >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr n;
		memcpy(&n, p, sizeof n);
		uint64_t name = ((uint64_t)n.n_namesz + 3) & ~3ull, desc = ((uint64_t)n.n_descsz + 3) & ~3ull;
		uint64_t total = sizeof n + name + desc;
		if (sizeof n + name + n.n_descsz > len)
			return 0;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && memcmp(p + sizeof n, "GNU", 4) == 0 &&
		    n.n_descsz > 0 && n.n_descsz <= max) {
			memcpy(out, p + sizeof n + name, n.n_descsz);
			return n.n_descsz;
		}
		if (total > len)
			return 0;
		p += total;
		len -= total;
	}
	return 0;
}

size_t elf_build_id(const struct elf_file *f, uint8_t *out, size_t max)
{
	for (size_t i = 0; i < f->n_ph; i++) {
		uint8_t notes[4096];
		if (f->ph[i].p_type != PT_NOTE || f->ph[i].p_filesz > sizeof notes ||
		    !elf_read(f, f->ph[i].p_offset, notes, f->ph[i].p_filesz))
			continue;
		size_t n = note_build_id(notes, f->ph[i].p_filesz, out, max);
		if (n)
			return n;
	}
	return 0;
}

bool elf_vaddr_offset(const struct elf_file *f, uint64_t vaddr, uint64_t *ret_offset, uint64_t *ret_len)
{
	for (size_t i = 0; i < f->n_ph; i++) {
		const Elf64_Phdr *p = &f->ph[i];
		if (p->p_type == PT_LOAD && vaddr >= p->p_vaddr && vaddr - p->p_vaddr < p->p_filesz) {
			*ret_offset = p->p_offset + (vaddr - p->p_vaddr);
			*ret_len = p->p_filesz - (vaddr - p->p_vaddr);
			return true;
		}
	}
	return false;
}
