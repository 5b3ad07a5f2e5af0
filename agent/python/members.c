/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/python/members.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "elf/elf_symbol.h"

#define TP_MEMBERS 240u
#define MEMBERS_MAX 64u              /* of a type; code objects have 20 */
#define NAME_MAX_ 32u
#define RELA_CHUNK 1024u
#define RELA_BYTES_MAX ((uint64_t)64 << 20)

struct member {
	uint64_t name;
	uint32_t type, pad;
	uint64_t offset, flags, doc;
};

static bool read_at(const struct elf_file *f, uint64_t vaddr, void *to, size_t n)
{
	uint64_t offset, len;

	return elf_vaddr_offset(f, vaddr, &offset, &len) && len >= n && elf_read(f, offset, to, n);
}

/* Pointers in [from, from + 8 n): each that a relocation sets. */
static void relocate(const struct elf_file *f, uint64_t from, uint64_t *words, size_t n)
{
	const Elf64_Shdr *sec = elf_section(f, ".rela.dyn");
	AUTOFREE Elf64_Rela *r = xreallocarray(NULL, RELA_CHUNK, sizeof *r);

	for (uint64_t at = 0; sec && at + sizeof *r <= MIN(sec->sh_size, RELA_BYTES_MAX); at += RELA_CHUNK * sizeof *r) {
		size_t k = (size_t)(MIN(sec->sh_size - at, RELA_CHUNK * sizeof *r) / sizeof *r);
		if (!elf_section_read(f, sec, at, r, k * sizeof *r))
			return;
		for (size_t i = 0; i < k; i++)
			if (ELF64_R_TYPE(r[i].r_info) == R_X86_64_RELATIVE && r[i].r_offset >= from && (r[i].r_offset - from) % 8 == 0 &&
			    (r[i].r_offset - from) / 8 < n)
				words[(r[i].r_offset - from) / 8] = (uint64_t)r[i].r_addend;
	}
}

/* The table of the type, up to MEMBERS_MAX; returns how many were read. */
static size_t read_members(const struct elf_file *f, const char *type, struct member ret[MEMBERS_MAX])
{
	uint64_t table = 0, offset, len;
	Elf64_Sym s;

	if (!elf_symbol(f, type, &s) || !read_at(f, s.st_value + TP_MEMBERS, &table, sizeof table))
		return 0;
	relocate(f, s.st_value + TP_MEMBERS, &table, 1);
	if (!elf_vaddr_offset(f, table, &offset, &len))
		return 0;
	size_t n = (size_t)MIN(len / sizeof *ret, (uint64_t)MEMBERS_MAX);
	if (!elf_read(f, offset, ret, n * sizeof *ret))
		return 0;
	relocate(f, table, (uint64_t *)(void *)ret, n * sizeof *ret / 8);
	return n;
}

bool members_agree(const struct elf_file *f, const char *type, const struct member_offset *expected, size_t n, unsigned *ret_found)
{
	AUTOFREE struct member *m = xreallocarray(NULL, MEMBERS_MAX, sizeof *m);
	size_t n_members = read_members(f, type, m);

	*ret_found = 0;
	for (size_t i = 0; i < n_members && m[i].name; i++) {
		char name[NAME_MAX_];
		/* The last bytes of a segment hold no name that is looked for here. */
		if (!read_at(f, m[i].name, name, sizeof name))
			continue;
		for (size_t k = 0; k < n; k++) {
			if (strncmp(name, expected[k].name, sizeof name) != 0)
				continue;
			if (m[i].offset != expected[k].offset)
				return false;
			++*ret_found;
		}
	}
	return true;
}
