/* SPDX-License-Identifier: Apache-2.0 */
/* A stub is found by what it does, so that all of the linkers' layouts are read (lazy or not, with endbr64, with bnd):
 *
 *	[endbr64] [bnd] jmp *slot(%rip)      f3 0f 1e fa   f2   ff 25 disp32
 *
 * in .plt, .plt.sec or .plt.got, whose entries have 16, 16 and 8 or 16 bytes. The slot is one that .rela.plt or
 * .rela.dyn fills with the address of a symbol. */
#include "symbols/plt.h"

#include <stdlib.h>

#include "base/buf.h"
#include "elf/elf_names.h"

#define SLOTS_MAX 250000u
#define PLT_BYTES_MAX ((uint64_t)4 << 20)
#define RELA_CHUNK 512
#define RANK 3 /* below what has a size in the symbol table */

struct slot {
	uint64_t address;
	uint32_t symbol;
};

struct slots {
	VEC(struct slot) v;
};

static int by_address(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

static void take_relocations(struct slots *s, const struct elf_file *f, const char *name)
{
	const Elf64_Shdr *sec = elf_section(f, name);
	Elf64_Rela r[RELA_CHUNK];
	if (!sec || sec->sh_entsize != sizeof *r)
		return;
	for (uint64_t at = 0; at + sizeof *r <= sec->sh_size; at += sizeof r) {
		size_t n = (size_t)(MIN(sec->sh_size - at, (uint64_t)sizeof r) / sizeof *r);
		if (!elf_section_read(f, sec, at, r, n * sizeof *r))
			return;
		for (size_t i = 0; i < n && s->v.n < SLOTS_MAX; i++) {
			uint64_t type = ELF64_R_TYPE(r[i].r_info);
			if (type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT)
				vec_push(&s->v, (struct slot){ r[i].r_offset, (uint32_t)ELF64_R_SYM(r[i].r_info) });
		}
	}
}

static const struct slot *find_slot(const struct slots *s, uint64_t address)
{
	struct slot key = { address, 0 };
	return s->v.n ? bsearch(&key, s->v.v, s->v.n, sizeof key, by_address) : NULL;
}

/* The slot that an entry jumps through; false if it is not such a stub. p has n bytes, the first is at vaddr. */
static bool jumps_to(const uint8_t *p, size_t n, uint64_t vaddr, uint64_t *ret)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	size_t at = n >= 4 && memcmp(p, endbr64, 4) == 0 ? 4 : 0;
	int32_t disp;
	if (at < n && p[at] == 0xf2)
		at++;
	if (n - at < 6 || p[at] != 0xff || p[at + 1] != 0x25)
		return false;
	memcpy(&disp, p + at + 2, sizeof disp);
	*ret = vaddr + at + 6 + (uint64_t)(int64_t)disp;
	return true;
}

struct naming {
	struct symtab_writer *w;
	const struct elf_file *f;
	struct slots slots;
	const Elf64_Shdr *dynsym;
	struct elf_names *names;
	struct buf text;
};

static int name_stub(struct naming *x, uint64_t vaddr, size_t size, uint32_t symbol, struct err *e)
{
	Elf64_Sym s;
	if (!elf_section_read(x->f, x->dynsym, (uint64_t)symbol * sizeof s, &s, sizeof s))
		return 0;
	struct view name = elf_names_get(x->names, s.st_name, SYMTAB_NAME_MAX - 4);
	if (!name.len)
		return 0;
	buf_reset(&x->text);
	buf_put(&x->text, name.ptr, name.len);
	buf_puts(&x->text, "@plt");
	return symtab_writer_add(x->w, vaddr, size, RANK, buf_view(&x->text), e);
}

static int take_stubs(struct naming *x, const char *name, struct err *e)
{
	const Elf64_Shdr *sec = elf_section(x->f, name);
	AUTOFREE uint8_t *code = sec ? elf_section_bytes(x->f, sec, PLT_BYTES_MAX) : NULL;
	size_t size = sec && sec->sh_entsize == 8 ? 8 : 16;
	int rc = 0;
	for (size_t at = 0; code && !rc && at + size <= sec->sh_size; at += size) {
		uint64_t slot;
		const struct slot *s = jumps_to(code + at, size, sec->sh_addr + at, &slot) ? find_slot(&x->slots, slot) : NULL;
		if (s)
			rc = name_stub(x, sec->sh_addr + at, size, s->symbol, e);
	}
	return rc;
}

int plt_gather(struct symtab_writer *w, const struct elf_file *f, struct err *e)
{
	struct naming x = { .w = w, .f = f, .dynsym = elf_section(f, ".dynsym") };
	if (f->eh.e_machine != EM_X86_64 || !x.dynsym || x.dynsym->sh_link >= f->n_sh)
		return 0;
	take_relocations(&x.slots, f, ".rela.plt");
	take_relocations(&x.slots, f, ".rela.dyn");
	if (x.slots.v.n)
		qsort(x.slots.v.v, x.slots.v.n, sizeof *x.slots.v.v, by_address);
	x.names = elf_names_new(f, &f->sh[x.dynsym->sh_link]);
	int rc = take_stubs(&x, ".plt", e);
	if (!rc)
		rc = take_stubs(&x, ".plt.sec", e);
	if (!rc)
		rc = take_stubs(&x, ".plt.got", e);
	elf_names_free(x.names);
	vec_free(&x.slots.v);
	buf_free(&x.text);
	return rc;
}
