/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/symtab.h"

#include <lzma.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/debug_file.h"
#include "agent/elf_file.h"
#include "agent/tempfile.h"
#include "base/alloc.h"
#include "base/vec.h"

#define SYMBOLS_MAX 4000000u
#define NAMES_MAX ((size_t)512 << 20)
#define DEBUGDATA_MAX ((size_t)64 << 20)
#define CHUNK_SYMBOLS 4096

struct candidate {
	struct symtab_entry e;
	uint8_t rank; /* lower wins among names of one address */
};

struct gather {
	VEC(struct candidate) found;
	struct buf names;
};

static int by_address(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	if (x->e.address != y->e.address)
		return x->e.address < y->e.address ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	return (x->e.name > y->e.name) - (x->e.name < y->e.name);
}

static uint8_t rank_of(const Elf64_Sym *s)
{
	unsigned bind = ELF64_ST_BIND(s->st_info), type = ELF64_ST_TYPE(s->st_info);
	uint8_t r = bind == STB_GLOBAL ? 0 : bind == STB_WEAK ? 1 : 2;
	if (!s->st_size)
		r = (uint8_t)(r + 4);
	return (uint8_t)(type == STT_NOTYPE ? r + 8 : r);
}

static bool is_code(const struct elf_file *f, const Elf64_Sym *s)
{
	unsigned type = ELF64_ST_TYPE(s->st_info);
	if (s->st_shndx == SHN_UNDEF || !s->st_value)
		return false;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return true;
	/* Assembly often leaves the type out. */
	return type == STT_NOTYPE && s->st_shndx < f->n_sh && f->sh[s->st_shndx].sh_flags & SHF_EXECINSTR;
}

/* A symbol without a size ends with its section at the latest (_init does not reach into the PLT). */
static uint64_t size_of(const struct elf_file *f, const Elf64_Sym *s)
{
	if (s->st_size || s->st_shndx >= f->n_sh)
		return s->st_size;
	const Elf64_Shdr *sec = &f->sh[s->st_shndx];
	return s->st_value >= sec->sh_addr && s->st_value - sec->sh_addr < sec->sh_size ? sec->sh_addr + sec->sh_size - s->st_value : 0;
}

/* Length up to the stop character, the end of the string, or max; a name that begins with the character is whole. */
static size_t strcspn_n(const char *s, size_t max, char stop)
{
	size_t n = strnlen(s, max);
	const char *at = n > 1 ? memchr(s + 1, stop, n - 1) : NULL;
	return at ? (size_t)(at - s) : n;
}

/* Adds the functions of one symbol section; the names are copied whole, offsets are moved to where they land. */
static int gather_section(struct gather *g, const struct elf_file *f, const char *name, const Elf64_Shdr *sec, struct err *e)
{
	if (sec->sh_entsize != sizeof(Elf64_Sym) || sec->sh_link >= f->n_sh)
		return err_set(e, ERR_BAD_DATA, "section %s is no symbol table", name);
	const Elf64_Shdr *names_sec = &f->sh[sec->sh_link];
	AUTOFREE char *names = (char *)elf_section_bytes(f, names_sec, NAMES_MAX);
	size_t names_n = names_sec->sh_size;
	if (!names)
		return err_set(e, ERR_BAD_DATA, "the names of section %s cannot be read", name);
	uint64_t n = sec->sh_size / sizeof(Elf64_Sym);
	if (n > SYMBOLS_MAX)
		return err_set(e, ERR_LIMIT, "section %s has %llu symbols, the limit is %u", name, (unsigned long long)n,
			       SYMBOLS_MAX);
	AUTOFREE Elf64_Sym *syms = xcalloc(CHUNK_SYMBOLS, sizeof *syms);
	g->names.max = NAMES_MAX;
	for (uint64_t at = 0; at < n; at += CHUNK_SYMBOLS) {
		size_t k = (size_t)MIN(n - at, (uint64_t)CHUNK_SYMBOLS);
		if (!elf_section_read(f, sec, at * sizeof *syms, syms, k * sizeof *syms))
			return err_set(e, ERR_BAD_DATA, "section %s lies outside the file", name);
		for (size_t i = 0; i < k; i++) {
			const Elf64_Sym *s = &syms[i];
			if (!is_code(f, s) || s->st_name >= names_n || !names[s->st_name] || names[s->st_name] == '$')
				continue;
			/* In .symtab the name of a versioned symbol carries its version: malloc@@GLIBC_2.2.5. */
			size_t len = strcspn_n(names + s->st_name, names_n - s->st_name, '@');
			struct candidate c = { { s->st_value, (uint32_t)MIN(size_of(f, s), (uint64_t)UINT32_MAX),
						 (uint32_t)g->names.len }, rank_of(s) };
			buf_put(&g->names, names + s->st_name, MIN(len, (size_t)SYMTAB_NAME_MAX));
			buf_putc(&g->names, 0);
			vec_push(&g->found, c);
		}
	}
	return g->names.overflow ? err_set(e, ERR_LIMIT, "symbol names take more than %zu bytes", NAMES_MAX) : 0;
}

/* ---- the index ---- */

static int write_index(struct symtab *t, const struct symtab_entry *entries, size_t n, struct view names, struct err *e)
{
	*t = (struct symtab){ .fd = -1 };
	if (!n)
		return 0;
	int fd = tempfile_open("pyrrha-symbols", e);
	if (fd < 0)
		return fd;
	if (!tempfile_write(fd, entries, n * sizeof *entries) || !tempfile_write(fd, names.ptr, names.len)) {
		close(fd);
		return err_set(e, ERR_IO, "cannot write %zu symbols to a temporary file; is TMPDIR full?", n);
	}
	*t = (struct symtab){ .fd = fd, .n = (uint32_t)n, .names_at = n * sizeof *entries };
	return 0;
}

static int entry_by_address(const void *a, const void *b)
{
	const struct symtab_entry *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

int symtab_build_from(struct symtab *t, struct symtab_entry *entries, size_t n, struct view names, struct err *e)
{
	if (n)
		qsort(entries, n, sizeof *entries, entry_by_address);
	size_t out = 0;
	for (size_t i = 0; i < n; i++)
		if (!out || entries[out - 1].address != entries[i].address)
			entries[out++] = entries[i];
	return write_index(t, entries, out, names, e);
}

static int finish(struct symtab *t, struct gather *g, struct err *e)
{
	if (g->found.n)
		qsort(g->found.v, g->found.n, sizeof *g->found.v, by_address);
	VEC(struct symtab_entry) out = { 0 };
	vec_reserve(&out, g->found.n);
	for (size_t i = 0; i < g->found.n; i++)
		if (!out.n || out.v[out.n - 1].address != g->found.v[i].e.address)
			out.v[out.n++] = g->found.v[i].e;
	int rc = write_index(t, out.v, out.n, buf_view(&g->names), e);
	vec_free(&out);
	return rc;
}

/* ---- where symbols come from ---- */

/* Functions of .symtab (or .dynsym) of the file behind fd; 1 if that section is there. */
static int gather_from(struct gather *g, int fd, const char *section, struct err *e)
{
	struct elf_file f;
	int rc = elf_open(&f, fd, e);
	const Elf64_Shdr *s = rc ? NULL : elf_section(&f, section);
	if (s)
		rc = gather_section(g, &f, section, s, e);
	elf_close(&f);
	return rc ? rc : s != NULL;
}

static int gather_debugdata(struct gather *g, int fd, struct err *e)
{
	struct elf_file f;
	int rc = elf_open(&f, fd, e);
	const Elf64_Shdr *s = rc ? NULL : elf_section(&f, ".gnu_debugdata");
	size_t n = s ? s->sh_size : 0;
	char *xz = s ? (char *)elf_section_bytes(&f, s, DEBUGDATA_MAX) : NULL;
	elf_close(&f);
	if (!xz)
		return rc;
	uint64_t memory = DEBUGDATA_MAX;
	char *out = xmalloc(DEBUGDATA_MAX);
	size_t in_at = 0, out_at = 0;
	lzma_ret lr = lzma_stream_buffer_decode(&memory, 0, NULL, (const uint8_t *)xz, &in_at, n, (uint8_t *)out, &out_at,
						DEBUGDATA_MAX);
	free(xz);
	int mem = lr == LZMA_OK ? memfd_create("pyrrha-debugdata", MFD_CLOEXEC) : -1;
	bool ok = mem >= 0 && tempfile_write(mem, out, out_at);
	free(out);
	if (ok)
		rc = gather_from(g, mem, ".symtab", e);
	if (mem >= 0)
		close(mem);
	return rc;
}

static int gather_by_build_id(struct gather *g, const char *build_id, struct err *e)
{
	if (!build_id || strlen(build_id) < 4)
		return 0;
	int fd = debug_file_by_build_id(build_id);
	if (fd < 0)
		return 0;
	int rc = gather_from(g, fd, ".symtab", e);
	close(fd);
	return rc;
}

static int gather_by_link(struct gather *g, int fd, const char *path, struct err *e)
{
	int debug = path ? debug_file_by_link(fd, path) : -1;
	if (debug < 0)
		return 0;
	int rc = gather_from(g, debug, ".symtab", e);
	close(debug);
	return rc;
}

int symtab_build(struct symtab *t, int fd, const char *path, const char *build_id, struct err *e)
{
	struct gather g = { 0 };
	*t = (struct symtab){ .fd = -1 };
	/* A source that is damaged is as good as none: the next one may serve. */
	int rc = gather_from(&g, fd, ".symtab", e);
	if (rc <= 0 || !g.found.n)
		rc = gather_by_build_id(&g, build_id, e);
	if (!g.found.n)
		rc = gather_by_link(&g, fd, path, e);
	if (!g.found.n) {
		rc = gather_debugdata(&g, fd, e);
		int dyn = gather_from(&g, fd, ".dynsym", e); /* debugdata leaves out what is here */
		if (!g.found.n)
			rc = dyn;
	}
	if (g.found.n || rc >= 0)
		rc = finish(t, &g, e);
	vec_free(&g.found);
	buf_free(&g.names);
	return rc < 0 ? rc : 0;
}

void symtab_free(struct symtab *t)
{
	if (t->fd >= 0)
		close(t->fd);
	*t = (struct symtab){ .fd = -1 };
}

bool symtab_lookup(const struct symtab *t, uint64_t address, struct buf *name, uint64_t *ret_start)
{
	struct symtab_entry x, best;
	uint32_t lo = 0, hi = t->n;
	if (t->fd < 0)
		return false;
	while (lo < hi) { /* the last entry at or below the address */
		uint32_t mid = lo + (hi - lo) / 2;
		if (pread(t->fd, &x, sizeof x, (off_t)mid * (off_t)sizeof x) != sizeof x)
			return false;
		if (x.address <= address) {
			best = x;
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	if (!lo || (best.size && address - best.address >= best.size))
		return false;
	char text[SYMTAB_NAME_MAX + 1];
	ssize_t n = pread(t->fd, text, sizeof text - 1, (off_t)(t->names_at + best.name));
	if (n <= 0)
		return false;
	buf_put(name, text, strnlen(text, (size_t)n));
	*ret_start = best.address;
	return true;
}

bool symtab_find(int elf_fd, const char *name, uint64_t *ret_address)
{
	struct elf_file f;
	struct err e;
	bool found = false;
	const Elf64_Shdr *s = elf_open(&f, elf_fd, &e) ? NULL : elf_section(&f, ".symtab");
	const Elf64_Shdr *names_sec = s && s->sh_link < f.n_sh ? &f.sh[s->sh_link] : NULL;
	char *names = names_sec ? (char *)elf_section_bytes(&f, names_sec, NAMES_MAX) : NULL;
	size_t names_n = names ? names_sec->sh_size : 0;
	AUTOFREE Elf64_Sym *syms = xcalloc(CHUNK_SYMBOLS, sizeof *syms);
	size_t want = strlen(name);
	uint64_t n = names && s->sh_entsize == sizeof *syms ? MIN(s->sh_size / sizeof *syms, (uint64_t)SYMBOLS_MAX) : 0;
	for (uint64_t at = 0; at < n && !found; at += CHUNK_SYMBOLS) {
		size_t k = (size_t)MIN(n - at, (uint64_t)CHUNK_SYMBOLS);
		if (!elf_section_read(&f, s, at * sizeof *syms, syms, k * sizeof *syms))
			break;
		for (size_t i = 0; i < k && !found; i++)
			if (syms[i].st_shndx != SHN_UNDEF && syms[i].st_name < names_n &&
			    names_n - syms[i].st_name > want && memcmp(names + syms[i].st_name, name, want + 1) == 0) {
				*ret_address = syms[i].st_value;
				found = true;
			}
	}
	free(names);
	elf_close(&f);
	return found;
}
