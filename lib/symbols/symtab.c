/* SPDX-License-Identifier: Apache-2.0 */
#include "symbols/symtab.h"

#include <lzma.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "elf/elf_file.h"
#include "elf/elf_names.h"
#include "symbols/debug_file.h"
#include "symbols/plt.h"
#include "symbols/symtab_writer.h"
#include "symbols/tempfile.h"

#define SYMBOLS_MAX 4000000u
#define DEBUGDATA_MAX ((uint64_t)64 << 20)
#define DEBUGDATA_MEMORY ((uint64_t)16 << 20) /* of the decoder: xz -8 needs 32, what distributions write 8 */
#define CHUNK ((size_t)64 << 10)
#define CHUNK_SYMBOLS 1024

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

/* In .symtab the name of a versioned symbol carries its version: malloc@@GLIBC_2.2.5. A name that begins with @ is complete. */
static struct view without_version(struct view name)
{
	const char *at = name.len > 1 ? memchr(name.ptr + 1, '@', name.len - 1) : NULL;
	return view_make(name.ptr, at ? (size_t)(at - name.ptr) : name.len);
}

static int add_symbol(struct symtab_writer *w, const struct elf_file *f, const Elf64_Sym *s, struct elf_names *names,
		      struct err *e)
{
	if (!is_code(f, s))
		return 0;
	struct view name = without_version(elf_names_get(names, s->st_name, SYMTAB_NAME_MAX));
	if (!name.len || name.ptr[0] == '$')
		return 0;
	return symtab_writer_add(w, s->st_value, size_of(f, s), rank_of(s), name, e);
}

/* Calls fn for each symbol of a section, until it returns nonzero, which is returned. */
typedef int symbol_fn(void *arg, const struct elf_file *f, const Elf64_Sym *s, struct elf_names *names, struct err *e);

static int each_symbol(const struct elf_file *f, const char *name, const Elf64_Shdr *sec, symbol_fn *fn, void *arg,
		       struct err *e)
{
	if (sec->sh_entsize != sizeof(Elf64_Sym) || sec->sh_link >= f->n_sh)
		return err_set(e, ERR_BAD_DATA, "section %s is no symbol table", name);
	uint64_t n = sec->sh_size / sizeof(Elf64_Sym);
	if (n > SYMBOLS_MAX)
		return err_set(e, ERR_LIMIT, "section %s has %llu symbols, the limit is %u", name, (unsigned long long)n,
			       SYMBOLS_MAX);
	struct elf_names *names = elf_names_new(f, &f->sh[sec->sh_link]);
	AUTOFREE Elf64_Sym *syms = xcalloc(CHUNK_SYMBOLS, sizeof *syms);
	int rc = 0;
	for (uint64_t at = 0; at < n && !rc; at += CHUNK_SYMBOLS) {
		size_t k = (size_t)MIN(n - at, (uint64_t)CHUNK_SYMBOLS);
		if (!elf_section_read(f, sec, at * sizeof *syms, syms, k * sizeof *syms))
			rc = err_set(e, ERR_BAD_DATA, "section %s lies outside the file", name);
		for (size_t i = 0; i < k && !rc; i++)
			rc = fn(arg, f, &syms[i], names, e);
	}
	elf_names_free(names);
	return rc;
}

static int gather_symbol(void *arg, const struct elf_file *f, const Elf64_Sym *s, struct elf_names *names, struct err *e)
{
	return add_symbol(arg, f, s, names, e);
}

/* ---- where symbols come from ---- */

/* Functions of .symtab (or .dynsym) of the file behind fd; 1 if that section is there. */
static int gather_from(struct symtab_writer *w, int fd, const char *section, struct err *e)
{
	struct elf_file f;
	int rc = elf_open(&f, fd, e);
	const Elf64_Shdr *s = rc ? NULL : elf_section(&f, section);
	if (s)
		rc = each_symbol(&f, section, s, gather_symbol, w, e);
	elf_close(&f);
	return rc ? rc : s != NULL;
}

/* Unpacks the section into a file; false if it is not a complete xz stream within limits. */
static bool unpack(const struct elf_file *f, const Elf64_Shdr *sec, int to)
{
	lzma_stream z = LZMA_STREAM_INIT;
	AUTOFREE uint8_t *in = xmalloc(CHUNK), *out = xmalloc(CHUNK);
	uint64_t at = 0;
	lzma_ret rc = lzma_stream_decoder(&z, DEBUGDATA_MEMORY, 0);
	while (rc == LZMA_OK && z.total_out <= DEBUGDATA_MAX) {
		if (!z.avail_in && at < sec->sh_size) {
			size_t n = (size_t)MIN((uint64_t)CHUNK, sec->sh_size - at);
			if (!elf_section_read(f, sec, at, in, n))
				break;
			z.next_in = in;
			z.avail_in = n;
			at += n;
		}
		z.next_out = out;
		z.avail_out = CHUNK;
		rc = lzma_code(&z, at < sec->sh_size ? LZMA_RUN : LZMA_FINISH);
		if (!tempfile_write(to, out, CHUNK - z.avail_out))
			break;
	}
	lzma_end(&z);
	return rc == LZMA_STREAM_END;
}

static int gather_debugdata(struct symtab_writer *w, int fd, struct err *e)
{
	struct elf_file f;
	int rc = elf_open(&f, fd, e);
	const Elf64_Shdr *s = rc ? NULL : elf_section(&f, ".gnu_debugdata");
	int inner = s ? tempfile_open("pyrrha-debugdata", e) : -1;
	if (inner >= 0 && unpack(&f, s, inner))
		rc = gather_from(w, inner, ".symtab", e);
	if (inner >= 0)
		close(inner);
	elf_close(&f);
	return rc;
}

static int gather_by_build_id(struct symtab_writer *w, const char *build_id, struct err *e)
{
	if (!build_id || strlen(build_id) < 4)
		return 0;
	int fd = debug_file_by_build_id(build_id);
	if (fd < 0)
		return 0;
	int rc = gather_from(w, fd, ".symtab", e);
	close(fd);
	return rc;
}

static int gather_by_link(struct symtab_writer *w, int fd, const char *path, struct err *e)
{
	int debug = path ? debug_file_by_link(fd, path) : -1;
	if (debug < 0)
		return 0;
	int rc = gather_from(w, debug, ".symtab", e);
	close(debug);
	return rc;
}

static void gather_plt(struct symtab_writer *w, int fd)
{
	struct elf_file f;
	struct err e;
	if (elf_open(&f, fd, &e))
		return;
	IGNORE(plt_gather(w, &f, &e)); /* then stubs have no names */
	elf_close(&f);
}

int symtab_build(struct symtab *t, int fd, const char *path, const char *build_id, struct err *e)
{
	return symtab_build_with(t, fd, -1, path, build_id, e);
}

int symtab_build_with(struct symtab *t, int fd, int debug_fd, const char *path, const char *build_id, struct err *e)
{
	struct symtab_writer w;
	symtab_writer_init(&w);
	*t = (struct symtab){ .fd = -1 };
	/* A source that is damaged is as good as none: the next one may serve. */
	int rc = gather_from(&w, fd, ".symtab", e);
	if (!w.rows.n && debug_fd >= 0)
		rc = gather_from(&w, debug_fd, ".symtab", e);
	if (rc <= 0 || !w.rows.n)
		rc = gather_by_build_id(&w, build_id, e);
	if (!w.rows.n)
		rc = gather_by_link(&w, fd, path, e);
	if (!w.rows.n) {
		rc = gather_debugdata(&w, fd, e);
		int dyn = gather_from(&w, fd, ".dynsym", e); /* debugdata leaves out what is here */
		if (!w.rows.n)
			rc = dyn;
	}
	gather_plt(&w, fd);
	if (w.rows.n || rc >= 0)
		rc = symtab_writer_finish(&w, t, e);
	symtab_writer_release(&w);
	return rc < 0 ? rc : 0;
}

void symtab_free(struct symtab *t)
{
	if (t->fd >= 0)
		close(t->fd);
	free(t->first);
	*t = (struct symtab){ .fd = -1 };
}

uint64_t symtab_bytes(const struct symtab *t)
{
	return t->fd < 0 ? 0 : t->entries_at + (uint64_t)t->n * sizeof(struct symtab_entry);
}

static uint32_t symtab_blocks(const struct symtab *t)
{
	return (t->n + SYMTAB_BLOCK - 1) / SYMTAB_BLOCK;
}

size_t symtab_memory(const struct symtab *t)
{
	return t->first ? symtab_blocks(t) * sizeof *t->first : 0;
}

/* The last entry at or below the address. False: there is none, or it cannot be read. */
static bool symtab_entry_below(const struct symtab *t, uint64_t address, struct symtab_entry *ret)
{
	struct symtab_entry block[SYMTAB_BLOCK] UNINITIALIZED;
	uint32_t lo = 0, hi = symtab_blocks(t);

	while (lo < hi) {            /* finds the first block that begins above the address */
		uint32_t mid = lo + (hi - lo) / 2;
		if (t->first[mid] <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	uint32_t from = (lo - 1) * SYMTAB_BLOCK, n = MIN(SYMTAB_BLOCK, t->n - from);
	if (pread(t->fd, block, n * sizeof *block, (off_t)(t->entries_at + from * sizeof *block)) != (ssize_t)(n * sizeof *block))
		return false;
	for (lo = 0, hi = n; lo < hi;) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (block[mid].address <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return false;
	*ret = block[lo - 1];
	return true;
}

#define SHORT_NAME 256               /* most names are shorter */

bool symtab_lookup(const struct symtab *t, uint64_t address, struct buf *name, uint64_t *ret_start)
{
	struct symtab_entry best;

	if (t->fd < 0 || !symtab_entry_below(t, address, &best) || (best.size && address - best.address >= best.size))
		return false;
	char text[SYMTAB_NAME_MAX + 1] UNINITIALIZED;
	ssize_t n = pread(t->fd, text, SHORT_NAME, (off_t)best.name);
	if (n == SHORT_NAME && !memchr(text, 0, SHORT_NAME))
		n = pread(t->fd, text, sizeof text - 1, (off_t)best.name);
	if (n <= 0)
		return false;
	buf_put(name, text, strnlen(text, (size_t)n));
	*ret_start = best.address;
	return true;
}

struct wanted {
	const char *name;
	size_t len;
	uint64_t address;
};

static int is_wanted(void *arg, const struct elf_file *f, const Elf64_Sym *s, struct elf_names *names, struct err *e)
{
	struct wanted *want = arg;
	if (s->st_shndx == SHN_UNDEF)
		return 0;
	struct view name = elf_names_get(names, s->st_name, want->len + 1);
	if (name.len != want->len || memcmp(name.ptr, want->name, name.len) != 0)
		return 0;
	want->address = s->st_value;
	return 1;
}

bool symtab_find(int elf_fd, const char *name, uint64_t *ret_address)
{
	struct elf_file f;
	struct err e;
	struct wanted want = { name, strlen(name), 0 };
	const Elf64_Shdr *s = elf_open(&f, elf_fd, &e) ? NULL : elf_section(&f, ".symtab");
	bool found = s && each_symbol(&f, ".symtab", s, is_wanted, &want, &e) == 1;
	if (found)
		*ret_address = want.address;
	elf_close(&f);
	return found;
}
