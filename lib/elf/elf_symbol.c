/* SPDX-License-Identifier: Apache-2.0 */
/* .gnu.hash: u32 buckets, first symbol, words of the filter, shift; the filter, u64 each; buckets: the first symbol of each; chains: the
 * hash of each symbol from the first on, its lowest bit 1 at the end of a chain.
 *
 * .hash, in files that have no other: u32 buckets, chains; buckets: the first symbol of each; chains: the next symbol of each, 0 = none. */
#include "elf/elf_symbol.h"

#define CHAIN_MAX 1024               /* of real files some twenty */
#define HEAD_BYTES 16

struct hash_table {
	const struct elf_file *f;
	const Elf64_Shdr *sec, *symbols, *strings;
	uint32_t buckets, first, filter_words, shift;
};

/* The section of that name, with the symbols and strings that it is of. */
static bool open_section(struct hash_table *t, const struct elf_file *f, const char *section)
{
	t->f = f;
	t->sec = elf_section(f, section);
	if (!t->sec || t->sec->sh_link >= f->n_sh)
		return false;
	t->symbols = &f->sh[t->sec->sh_link];
	if (t->symbols->sh_type != SHT_DYNSYM || t->symbols->sh_entsize != sizeof(Elf64_Sym) || t->symbols->sh_link >= f->n_sh)
		return false;
	t->strings = &f->sh[t->symbols->sh_link];
	return true;
}

static bool open_table(struct hash_table *t, const struct elf_file *f)
{
	uint32_t head[4];

	if (!open_section(t, f, ".gnu.hash") || !elf_section_read(f, t->sec, 0, head, sizeof head))
		return false;
	t->buckets = head[0];
	t->first = head[1];
	t->filter_words = head[2];
	t->shift = head[3] & 31;
	return t->buckets && t->filter_words;
}

static bool is_named(const struct hash_table *t, const Elf64_Sym *s, const char *name, size_t len)
{
	char its[ELF_SYMBOL_NAME_MAX + 1];

	return s->st_shndx != SHN_UNDEF && elf_section_read(t->f, t->strings, s->st_name, its, len + 1) &&
	       memcmp(its, name, len + 1) == 0;
}

/* The bits of the filter that are 0 for a name are so for most names that a file does not have. */
static bool may_have(const struct hash_table *t, uint32_t hash)
{
	uint64_t word, at = HEAD_BYTES + 8ull * (hash / 64 % t->filter_words);

	return elf_section_read(t->f, t->sec, at, &word, 8) && word >> (hash % 64) & 1 && word >> ((hash >> t->shift) % 64) & 1;
}

static bool old_symbol(const struct elf_file *f, const char *name, size_t len, Elf64_Sym *ret)
{
	struct hash_table t;
	uint32_t head[2], hash = 0, i;

	if (!open_section(&t, f, ".hash") || !elf_section_read(f, t.sec, 0, head, sizeof head) || !head[0])
		return false;
	for (size_t k = 0; k < len; k++) {
		hash = (hash << 4) + (uint8_t)name[k];
		hash = (hash ^ (hash >> 28 << 4)) & 0x0fffffff;
	}
	uint64_t chains = sizeof head + 4ull * head[0];
	if (!elf_section_read(f, t.sec, sizeof head + 4ull * (hash % head[0]), &i, 4))
		return false;
	for (unsigned n = 0; i && n < CHAIN_MAX; n++) {
		Elf64_Sym s;
		if (elf_section_read(f, t.symbols, (uint64_t)i * sizeof s, &s, sizeof s) && is_named(&t, &s, name, len)) {
			*ret = s;
			return true;
		}
		if (!elf_section_read(f, t.sec, chains + 4ull * i, &i, 4))
			return false;
	}
	return false;
}

bool elf_symbol(const struct elf_file *f, const char *name, Elf64_Sym *ret)
{
	struct hash_table t;
	uint32_t hash = 5381, i, its;
	size_t len = strlen(name);

	if (len > ELF_SYMBOL_NAME_MAX)
		return false;
	if (!open_table(&t, f))
		return old_symbol(f, name, len, ret);
	for (size_t k = 0; k < len; k++)
		hash = hash * 33 + (uint8_t)name[k];
	uint64_t buckets = HEAD_BYTES + 8ull * t.filter_words, chains = buckets + 4ull * t.buckets;
	if (!may_have(&t, hash) || !elf_section_read(f, t.sec, buckets + 4ull * (hash % t.buckets), &i, 4) || i < t.first)
		return false;
	for (unsigned n = 0; n < CHAIN_MAX; n++, i++) {
		if (!elf_section_read(f, t.sec, chains + 4ull * (i - t.first), &its, 4))
			return false;
		Elf64_Sym s;
		if ((its | 1) == (hash | 1) && elf_section_read(f, t.symbols, (uint64_t)i * sizeof s, &s, sizeof s) &&
		    is_named(&t, &s, name, len)) {
			*ret = s;
			return true;
		}
		if (its & 1)
			return false;
	}
	return false;
}
