/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as .eh_frame and .eh_frame_hdr of a file that is otherwise in order. Rows ascend, and those of a range are among
 * what the whole has. */
#include <string.h>

#include "base/alloc.h"
#include "tests/fuzz/fuzz.h"
#include "unwind/eh_frame.h"

const char fuzz_target[] = "ehframe";

#define TEXT 0x1000u
#define TEXT_SIZE 0x10000u
#define ROWS_MAX 20000

struct file {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	Elf64_Shdr sh[4];
	char names[40];
	uint8_t data[];
};

struct walk {
	uint64_t last, rows;
	bool ordered;
};

static int row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct walk *w = arg;
	w->ordered &= w->rows == 0 || pc >= w->last;
	w->last = pc;
	return ++w->rows > ROWS_MAX;
}

/* data[0] * 16 bytes are .eh_frame_hdr, the rest .eh_frame. */
static struct file *wrap(const uint8_t *data, size_t n, size_t *ret_size)
{
	size_t hdr = MIN((size_t)data[0] * 16, n - 1), rest = n - 1 - hdr;
	struct file *f = xcalloc(1, sizeof *f + n - 1);
	uint64_t at = offsetof(struct file, data);
	memcpy(f->eh.e_ident, ELFMAG "\2\1\1", 7);
	f->eh.e_type = ET_DYN;
	f->eh.e_machine = EM_X86_64;
	f->eh.e_phoff = offsetof(struct file, ph);
	f->eh.e_shoff = offsetof(struct file, sh);
	f->eh.e_phentsize = sizeof *f->ph;
	f->eh.e_shentsize = sizeof *f->sh;
	f->eh.e_phnum = 2;
	f->eh.e_shnum = 4;
	f->eh.e_shstrndx = 3;
	memcpy(f->names, "\0.eh_frame\0.eh_frame_hdr\0.shstrtab", 35);
	f->sh[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = TEXT + TEXT_SIZE + hdr, .sh_offset = at + hdr, .sh_size = rest };
	f->sh[2] = (Elf64_Shdr){ .sh_name = 11, .sh_type = SHT_PROGBITS, .sh_addr = TEXT + TEXT_SIZE, .sh_offset = at, .sh_size = hdr };
	f->sh[3] = (Elf64_Shdr){ .sh_name = 25, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct file, names), .sh_size = sizeof f->names };
	f->ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_offset = at, .p_vaddr = TEXT + TEXT_SIZE, .p_filesz = n - 1, .p_memsz = n - 1 };
	f->ph[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_offset = at, .p_vaddr = TEXT + TEXT_SIZE, .p_filesz = hdr, .p_memsz = hdr };
	memcpy(f->data, data + 1, n - 1);
	*ret_size = sizeof *f + n - 1;
	return f;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct elf_file f;
	struct err e;
	struct eh_stats st = { 0 };
	struct walk w = { .ordered = true };
	size_t size;
	if (!n || n > 1 << 16)
		return 0;
	struct file *file = wrap(data, n, &size);
	REQUIRE(elf_open_mem(&f, file, size, &e) == 0, "%s", e.msg);
	IGNORE(eh_frame_each(&f, row, &w, &st, &e)); /* most inputs are bad */
	REQUIRE(w.ordered, "rows out of order");
	for (uint64_t at = TEXT; at < TEXT + TEXT_SIZE; at += 0x4000) {
		w = (struct walk){ .ordered = true };
		IGNORE(eh_frame_range(&f, at, at + 0x1000, row, &w, &st, &e));
		REQUIRE(w.ordered, "rows of a range out of order");
	}
	struct eh_index *index;
	if (eh_index_new(&index, &f, TEXT, TEXT + TEXT_SIZE, &st, &e) == 0)
		for (uint64_t at = TEXT; at < TEXT + TEXT_SIZE; at += 0x4000) {
			w = (struct walk){ .ordered = true };
			IGNORE(eh_index_range(&f, index, at, at + 0x1000, row, &w, &st, &e));
			REQUIRE(w.ordered, "rows of a range out of order");
		}
	eh_index_free(index);
	elf_close(&f);
	free(file);
	return 0;
}
