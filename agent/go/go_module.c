/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/go/go_module.h"

#include <stdlib.h>

#include "base/alloc.h"

enum { WORD_TEXT = 22, WORD_ETEXT = 23, WORDS_MAX = 41 };
enum { SLICES = 6, CANDIDATES_MAX = 16, RELA_CHUNK = 512 };
#define PIECE ((size_t)64 << 10)
#define SECTION_BYTES_MAX ((uint64_t)128 << 20)

static unsigned word_gofunc(const struct gopclntab *t)
{
	return t->go120 ? 40 : 38;
}

/* Whether the address is in a section that the file fills and whose content is, or is not, code. */
static bool in_section(const struct elf_file *f, uint64_t address, bool code)
{
	for (size_t i = 0; i < f->n_sh; i++) {
		const Elf64_Shdr *s = &f->sh[i];
		if (s->sh_flags & SHF_ALLOC && s->sh_type != SHT_NOBITS && address >= s->sh_addr && address - s->sh_addr < s->sh_size)
			return code == ((s->sh_flags & SHF_EXECINSTR) != 0);
	}
	return false;
}

static bool is_module(const struct gopclntab *t, const uint64_t w[WORDS_MAX])
{
	uint64_t table = t->table.sh_addr, parts[SLICES] = { t->names, t->cus, t->files, t->pcs, t->funcs, t->funcs };

	if (w[0] != table)
		return false;
	for (unsigned i = 0; i < SLICES; i++)
		if (w[1 + 3 * i] != table + parts[i] || w[2 + 3 * i] != w[3 + 3 * i])
			return false;
	uint64_t types = w[word_gofunc(t) - 3], etypes = w[word_gofunc(t) - 2];
	return w[17] == t->n_funcs + 1 && w[WORD_TEXT] < w[WORD_ETEXT] && in_section(&t->elf, w[WORD_TEXT], true) &&
	       types < etypes && in_section(&t->elf, types, false) && in_section(&t->elf, w[word_gofunc(t)], false);
}

/* --- relocations --- */

typedef void rela_fn(void *arg, uint64_t at, uint64_t value);

/* Each word that the loader sets to an address in the program. */
static void each_relative(const struct elf_file *f, rela_fn *fn, void *arg)
{
	const Elf64_Shdr *sec = elf_section(f, ".rela.dyn");
	Elf64_Rela *r = xreallocarray(NULL, RELA_CHUNK, sizeof *r);

	for (uint64_t at = 0; sec && at + sizeof *r <= sec->sh_size && at < SECTION_BYTES_MAX; at += RELA_CHUNK * sizeof *r) {
		size_t n = (size_t)(MIN(sec->sh_size - at, RELA_CHUNK * sizeof *r) / sizeof *r);
		if (!elf_section_read(f, sec, at, r, n * sizeof *r))
			break;
		for (size_t i = 0; i < n; i++)
			if (ELF64_R_TYPE(r[i].r_info) == R_X86_64_RELATIVE)
				fn(arg, r[i].r_offset, (uint64_t)r[i].r_addend);
	}
	free(r);
}

struct candidates {
	uint64_t table;
	unsigned n;
	struct { uint64_t at, w[WORDS_MAX]; } v[CANDIDATES_MAX];
};

static void take_candidate(void *arg, uint64_t at, uint64_t value)
{
	struct candidates *c = arg;
	if (value == c->table && c->n < CANDIDATES_MAX)
		c->v[c->n++].at = at;
}

static void take_word(void *arg, uint64_t at, uint64_t value)
{
	struct candidates *c = arg;
	for (unsigned i = 0; i < c->n; i++)
		if (at >= c->v[i].at && (at - c->v[i].at) / 8 < WORDS_MAX)
			c->v[i].w[(at - c->v[i].at) / 8] = value;
}

static bool find_by_relocations(const struct gopclntab *t, uint64_t ret[WORDS_MAX])
{
	AUTOFREE struct candidates *c = NEW(struct candidates);
	uint64_t offset, len;

	c->table = t->table.sh_addr;
	each_relative(&t->elf, take_candidate, c);
	for (unsigned i = 0; i < c->n; i++) /* lengths are in the file */
		if (elf_vaddr_offset(&t->elf, c->v[i].at, &offset, &len) && len >= sizeof c->v[i].w &&
		    !elf_read(&t->elf, offset, c->v[i].w, sizeof c->v[i].w))
			return false;
	if (c->n)
		each_relative(&t->elf, take_word, c);
	for (unsigned i = 0; i < c->n; i++) {
		if (!is_module(t, c->v[i].w))
			continue;
		memcpy(ret, c->v[i].w, sizeof c->v[i].w);
		return true;
	}
	return false;
}

/* --- the file's own words --- */

static bool find_in_section(const struct gopclntab *t, const char *name, uint64_t ret[WORDS_MAX])
{
	const Elf64_Shdr *sec = elf_section(&t->elf, name);
	uint64_t table = t->table.sh_addr, word, at = 0;
	AUTOFREE uint8_t *piece = xmalloc(PIECE);

	if (!sec || sec->sh_type == SHT_NOBITS)
		return false;
	for (uint64_t end = MIN(sec->sh_size, SECTION_BYTES_MAX); at < end; at += PIECE) {
		size_t n = (size_t)MIN(end - at, (uint64_t)PIECE);
		if (!elf_section_read(&t->elf, sec, at, piece, n))
			return false;
		for (size_t i = 0; i + 8 <= n; i += 8) {
			memcpy(&word, piece + i, 8);
			if (word == table && elf_section_read(&t->elf, sec, at + i, ret, WORDS_MAX * sizeof *ret) && is_module(t, ret))
				return true;
		}
	}
	return false;
}

bool go_module_find(const struct gopclntab *t, struct go_module *ret)
{
	uint64_t w[WORDS_MAX];

	if (!t->table.sh_addr || (!find_in_section(t, ".go.module", w) && !find_in_section(t, ".noptrdata", w) &&
				  !find_in_section(t, ".data", w) && !find_by_relocations(t, w)))
		return false;
	*ret = (struct go_module){ w[WORD_TEXT], w[word_gofunc(t)] };
	return true;
}
