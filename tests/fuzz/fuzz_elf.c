/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an ELF file of a target: headers, build-id, symbols, unwind tables, Go's table, language runtimes. What comes out lies
 * within bounds and in order. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/go/go_frame.h"
#include "agent/go/gopclntab.h"
#include "agent/managed/rows.h"
#include "symbols/symtab.h"
#include "tests/fuzz/fuzz.h"
#include "unwind/eh_frame.h"

const char fuzz_target[] = "elf";

struct walk {
	uint64_t last, rows;
	bool ordered;
};

static int row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct walk *w = arg;
	w->ordered &= w->rows == 0 || pc >= w->last;
	w->last = pc;
	return ++w->rows > 100000; /* a small file can describe a long walk */
}

static void headers(int fd)
{
	struct elf_file f;
	struct err e;
	uint8_t id[32];
	uint64_t offset, len;
	struct eh_stats st = { 0 };
	struct walk w = { .ordered = true };
	if (elf_open(&f, fd, &e))
		return;
	REQUIRE(elf_build_id(&f, id, sizeof id) <= sizeof id, "a long build-id");
	if (elf_vaddr_offset(&f, f.eh.e_entry, &offset, &len))
		REQUIRE(len > 0, "an empty range");
	for (size_t i = 0; i < f.n_sh && i < 50; i++)
		free(elf_section_bytes(&f, &f.sh[i], 1 << 20));
	IGNORE(eh_frame_each(&f, row, &w, &st, &e)); /* most inputs are bad */
	REQUIRE(w.ordered, "rows out of order");
	w = (struct walk){ .ordered = true };
	IGNORE(eh_frame_range(&f, f.eh.e_entry, f.eh.e_entry + 4096, row, &w, &st, &e));
	REQUIRE(w.ordered, "rows of a range out of order");
	elf_close(&f);
}

static void symbols(int fd)
{
	struct symtab t;
	struct err e;
	struct buf name = { 0 };
	uint64_t start, at;
	if (symtab_build(&t, fd, "/fuzz", NULL, &e) == 0) {
		for (uint64_t a = 0; a < 0x4000; a += 64) {
			buf_reset(&name);
			if (symtab_lookup(&t, a, &name, &start))
				REQUIRE(start <= a && name.len <= SYMTAB_NAME_MAX, "%zu bytes", name.len);
		}
		symtab_free(&t);
	}
	symtab_find(fd, "main", &at);
	buf_free(&name);
}

static int go_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	uint64_t *last = arg;
	REQUIRE(*last == UINT64_MAX || pc > *last, "rows out of order");
	*last = pc;
	return 0;
}

static void go_table(int fd)
{
	struct gopclntab t;
	struct gopclntab_frame f[8];
	struct buf text = { 0 };
	struct err e;
	if (gopclntab_open(&t, fd, &e))
		return;
	for (uint64_t a = 0; a < 4096; a += 32) {
		buf_reset(&text);
		size_t n = gopclntab_lookup(&t, t.text_start + a, &text, f, 8);
		REQUIRE(n <= 8, "%zu frames", n);
		for (size_t i = 0; i < n; i++)
			REQUIRE(f[i].name < text.len && f[i].file < text.len, "outside of the text");
	}
	uint64_t start, end, last = UINT64_MAX;
	struct eh_stats st = { 0 };
	go_frame_text(&t, &start, &end);
	go_frame_range(&t, t.text_start, t.text_start + 4096, go_row, &last, &st);
	last = UINT64_MAX;
	go_frame_range(&t, t.text_start + 4096, t.text_start + 0x8000, go_row, &last, &st);
	gopclntab_close(&t);
	buf_free(&text);
}

/* What a process of it has in memory is nothing. */
static void attach(const struct runtime_file *r)
{
	struct process_memory m;
	struct runtime_proc p;
	process_memory_of_bytes(&m, VIEW(""), 0, 100, 1 << 16);
	IGNORE(r->of->attach(r, &m, 0, &p, NULL));
}

static void runtimes(int fd)
{
	struct elf_file f;
	struct err e;
	if (elf_open(&f, fd, &e))
		return;
	struct runtime_file *r = runtime_recognise(&f, "/fuzz", RUNTIMES_ALL);
	if (r) {
		REQUIRE(r->of && r->n_interpreter <= RUNTIME_RANGES_MAX, "%u ranges", r->n_interpreter);
		for (unsigned i = 0; i < r->n_interpreter; i++)
			REQUIRE(r->interpreter[i].start < r->interpreter[i].end, "an empty range");
		REQUIRE(strnlen(r->label, sizeof r->label) < sizeof r->label && r->label[0], "no label");
		REQUIRE(strnlen(r->why_not, sizeof r->why_not) < sizeof r->why_not, "why_not has no end");
		if (!r->why_not[0])
			attach(r);
	}
	runtime_file_free(r);
	elf_close(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (n < 1 << 20 && fd >= 0 && write(fd, data, n) == (ssize_t)n) {
		headers(fd);
		symbols(fd);
		go_table(fd);
		runtimes(fd);
	}
	close(fd);
	return 0;
}
