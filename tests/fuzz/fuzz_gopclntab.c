/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as Go's table of functions, of a file that is otherwise in order: names lie in their text, rows ascend, and those of a
 * piece of the text take bounded work. */
#include <string.h>

#include "agent/go/go_frame.h"
#include "agent/go/gopclntab.h"
#include "base/alloc.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "gopclntab";

#define TEXT 0x1000u
#define TEXT_SIZE 0x2000u
#define TABLE 0x100000u

struct file {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	Elf64_Shdr sh[5];
	char names[40];
	uint64_t module[42];         /* the linker's record, which leads to the table */
	uint8_t text[TEXT_SIZE];
	uint8_t data[];
};

static int row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	uint64_t *last = arg;
	REQUIRE(*last == UINT64_MAX || pc > *last, "rows out of order");
	*last = pc;
	return 0;
}

/* As go_module.h draws it, of a table with that header: trees of inlined calls begin in the midst of the table. */
static void write_module(uint64_t w[42], const uint8_t *data, size_t n)
{
	static const unsigned parts[] = { 32, 40, 48, 56, 64, 64 };
	uint64_t funcs, part;

	if (n < 72)
		return;
	unsigned gofunc = data[0] == 0xf0 ? 38 : 40;
	memcpy(&funcs, data + 8, 8);
	w[0] = TABLE;
	for (unsigned i = 0; i < 6; i++) {
		memcpy(&part, data + parts[i], 8);
		w[1 + 3 * i] = TABLE + part;
	}
	w[17] = w[18] = funcs + 1;
	w[22] = TEXT;
	w[23] = TEXT + TEXT_SIZE;
	w[gofunc - 3] = TABLE;
	w[gofunc - 2] = TABLE + n;
	w[gofunc] = TABLE + n / 2;
}

static struct file *wrap(const uint8_t *data, size_t n)
{
	struct file *f = xcalloc(1, sizeof *f + n);
	memcpy(f->eh.e_ident, ELFMAG "\2\1\1", 7);
	f->eh.e_type = ET_EXEC;
	f->eh.e_machine = EM_X86_64;
	f->eh.e_entry = TEXT;
	f->eh.e_phoff = offsetof(struct file, ph);
	f->eh.e_shoff = offsetof(struct file, sh);
	f->eh.e_phentsize = sizeof f->ph;
	f->eh.e_shentsize = sizeof *f->sh;
	f->eh.e_phnum = 1;
	f->eh.e_shnum = 5;
	f->eh.e_shstrndx = 3;
	memcpy(f->names, "\0.text\0.gopclntab\0.shstrtab\0.go.module", 38);
	f->sh[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				 .sh_addr = TEXT, .sh_offset = offsetof(struct file, text),
				 .sh_size = TEXT_SIZE };
	f->sh[2] = (Elf64_Shdr){ .sh_name = 7, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addr = TABLE,
				 .sh_offset = offsetof(struct file, data), .sh_size = n };
	f->sh[3] = (Elf64_Shdr){ .sh_name = 18, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, names),
				 .sh_size = sizeof f->names };
	f->sh[4] = (Elf64_Shdr){ .sh_name = 28, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addr = 0x10000,
				 .sh_offset = offsetof(struct file, module), .sh_size = sizeof f->module };
	write_module(f->module, data, n);
	f->ph = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = TEXT, .p_filesz = TEXT_SIZE, .p_memsz = TEXT_SIZE };
	memset(f->text, 0xcc, TEXT_SIZE);
	memcpy(f->data, data, n);
	return f;
}

static void names(const struct gopclntab *t)
{
	struct gopclntab_frame f[8];
	struct buf text = { 0 };
	for (uint64_t a = TEXT; a < TEXT + TEXT_SIZE; a += 61) {
		buf_reset(&text);
		size_t n = gopclntab_lookup(t, a, &text, f, 8);
		REQUIRE(n <= 8, "%zu frames", n);
		for (size_t i = 0; i < n; i++)
			REQUIRE(f[i].name < text.len && f[i].file < text.len, "outside of the text");
	}
	buf_free(&text);
}

static void rules(const struct gopclntab *t)
{
	for (uint64_t lo = TEXT, size = TEXT_SIZE; size >= 0x400; size /= 2, lo += size) {
		struct eh_stats st = { 0 };
		uint64_t last = UINT64_MAX;
		go_frame_range(t, lo, lo + size, row, &last, &st);
		REQUIRE(st.work <= 2 * eh_frame_work_max(size), "%llu of work", (unsigned long long)st.work);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct elf_file f;
	struct gopclntab t;
	struct err e;
	if (!n || n > 1 << 16)
		return 0;
	struct file *file = wrap(data, n);
	REQUIRE(elf_open_mem(&f, file, sizeof *file + n, &e) == 0, "%s", e.msg);
	struct gopclntab_place place = { TABLE, TEXT };
	if (gopclntab_attach_at(&t, &f, &place, &e) == 0) {
		REQUIRE(gopclntab_attach(&t, &f, &e) == 0, "its module leads to it");
		t.text_start = TEXT;
		gopclntab_find_inlined(&t);
		names(&t);
		rules(&t);
	}
	elf_close(&f);
	free(file);
	return 0;
}
