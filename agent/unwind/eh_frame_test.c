/* SPDX-License-Identifier: Apache-2.0 */
/* The table that is built of a library's rows, and that damaged files end in errors. That the rows are true is
 * eh_frame_elfutils_test.c's to show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/image/image.h"
#include "agent/unwind/eh_frame_rows.h"
#include "agent/unwind/unwind_tables.h"
#include "base/alloc.h"
#include "base/vec.h"

/* Bytes of a library that is loaded into this process, and its path. */
static uint8_t *read_libc(size_t *ret_len)
{
	glob_t g;
	struct stat st;

	assert_int_equal(glob("/lib/*/libc.so.6", 0, NULL, &g), 0);
	int fd = open(g.gl_pathv[0], O_RDONLY | O_CLOEXEC);
	globfree(&g);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	*ret_len = (size_t)st.st_size;
	uint8_t *p = xmalloc(*ret_len);
	assert_true(read(fd, p, *ret_len) == (ssize_t)*ret_len);
	close(fd);
	return p;
}

static struct image *image_of(const struct elf_file *f)
{
	struct image *im = NEW(struct image);

	for (size_t i = 0; i < f->n_ph; i++)
		if (f->ph[i].p_type == PT_LOAD)
			im->segments[im->n_segments++] = (struct image_segment){ f->ph[i].p_vaddr, f->ph[i].p_memsz,
										 f->ph[i].p_offset, f->ph[i].p_filesz, (f->ph[i].p_flags & PF_X) != 0 };
	return im;
}

/* The rule the table has for an address, found the slow way. */
static struct unwind_rule table_rule(struct unwind_tables *t, const struct image *im, uint64_t pc)
{
	const struct unwind_image *ui = unwind_tables_image(t, im->id);
	uint64_t page = (pc >> 12) - ui->first_page;
	uint32_t rule = 0;

	assert_true(page < ui->n_pages);
	uint64_t p = unwind_tables_pages(t)[ui->pages + page];
	assert_true(p != PAGE_UNLOADED);
	for (uint32_t i = 0; i < PAGE_ROWS(p); i++) {
		uint32_t row = unwind_tables_chunk(t, PAGE_ROW(p) >> 16)[(PAGE_ROW(p) & 0xffff) + i];
		if (row >> ROW_PC_SHIFT <= (pc & 4095))
			rule = row & ROW_RULE_MASK;
	}
	return *unwind_tables_rule(t, rule);
}

static void test_tables(void **state)
{
	size_t len;
	uint8_t *bytes = read_libc(&len);
	struct elf_file f;
	struct eh_stats st;
	struct unwind_tables *t;
	struct err e = { 0 };
	struct eh_rows rows = { 0 };

	assert_int_equal(elf_open_mem(&f, bytes, len, &e), 0);
	assert_int_equal(eh_frame_each(&f, keep_row, &rows, &st, &e), 0);
	assert_int_equal(unwind_tables_new(&t, NULL, &e), 0);
	struct image *im = image_of(&f);
	/* Twice, with something else in between: what is given back is used again, after it rested. */
	for (int round = 0; round < 2; round++) {
		assert_true(unwind_tables_image_id(t, im));
		assert_true(unwind_tables_load(t, im, &f, rows.v.v[rows.v.n / 2].pc));
		assert_true(unwind_tables_stats(t)->rows > 0 && unwind_tables_stats(t)->rows < rows.v.n / 4); /* the others wait */
		for (size_t i = 0; i < rows.v.n; i++) {
			const struct eh_row *r = &rows.v.v[i];
			uint64_t end = i + 1 < rows.v.n ? rows.v.v[i + 1].pc : r->pc + 1;
			assert_true(unwind_tables_load(t, im, &f, r->pc) && unwind_tables_load(t, im, &f, end - 1));
			assert_false(unwind_tables_missing(t, im, r->pc));
			struct unwind_rule first = table_rule(t, im, r->pc), last = table_rule(t, im, end - 1);
			if (r->rule.cfa == CFA_NONE) /* the code itself may tell */
				continue;
			assert_memory_equal(&first, &r->rule, sizeof first);
			assert_memory_equal(&last, &r->rule, sizeof last);
		}
		assert_int_equal(unwind_tables_stats(t)->images, 1);
		assert_true(unwind_tables_stats(t)->rows >= rows.v.n / 2);
		unwind_tables_image_gone(t, im);
		assert_int_equal(unwind_tables_stats(t)->rows, 0);
		assert_int_equal(im->id, 0);
	}
	free(im);
	unwind_tables_free(t);
	vec_free(&rows.v);
	elf_close(&f);
	free(bytes);
}

static int count_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	++*(size_t *)arg;
	return 0;
}

/* Damage in headers and tables, and files cut short: an error or fewer rows, never anything worse. */
static void test_damaged(void **state)
{
	size_t len, rows = 0;
	uint8_t *bytes = read_libc(&len), saved[16];
	struct elf_file f;
	struct eh_stats st;
	struct err e = { 0 };
	uint64_t seed = 20240117;

	assert_int_equal(elf_open_mem(&f, bytes, len, &e), 0);
	const Elf64_Shdr *eh = elf_section(&f, ".eh_frame"), *hdr = elf_section(&f, ".eh_frame_hdr");
	uint64_t at[] = { 0, f.eh.e_phoff, f.eh.e_shoff, eh->sh_offset, hdr->sh_offset };
	uint64_t span[] = { 64, f.n_ph * 56, f.n_sh * 64, 4096, 64 };
	elf_close(&f);
	for (int i = 0; i < 400; i++) {
		seed = hash_u64(seed);
		unsigned where = i % 5;
		uint64_t spot = at[where] + seed % span[where];
		memcpy(saved, bytes + spot, 1);
		bytes[spot] = (uint8_t)(seed >> 40);
		if (elf_open_mem(&f, bytes, i % 7 ? len : len - seed % len, NULL) == 0) {
			IGNORE(eh_frame_each(&f, count_row, &rows, &st, NULL)); /* whatever it says */
			elf_close(&f);
		}
		memcpy(bytes + spot, saved, 1);
	}
	assert_true(rows > 0);
	free(bytes);
}

/* A file whose table sends its reader to two long entries in turn, `functions` times in all, for 64 KB of text. */
#define TEXT_AT 0x10000u
#define TEXT_BYTES 0x10000u
#define LONG_ENTRY (1u << 20)
struct absurd {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	Elf64_Shdr sh[3];
	char names[20];
	uint8_t header[12];
	int32_t table[40000][2];
	uint8_t text[8], eh_frame[32 + 2 * LONG_ENTRY];
};

static void put32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, sizeof v);
}

static struct absurd *absurd_file(uint32_t functions)
{
	static const uint8_t cie[24] = { 20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1 };
	static const uint8_t header[] = { 1, 0x1b, 0x03, 0x3b };
	struct absurd *f = NEW(struct absurd);

	memcpy(f->eh.e_ident, ELFMAG "\2\1\1", 7);
	f->eh.e_type = ET_DYN;
	f->eh.e_machine = EM_X86_64;
	f->eh.e_phoff = offsetof(struct absurd, ph);
	f->eh.e_shoff = offsetof(struct absurd, sh);
	f->eh.e_phentsize = sizeof *f->ph;
	f->eh.e_shentsize = sizeof *f->sh;
	f->eh.e_phnum = ARRAY_LEN(f->ph);
	f->eh.e_shnum = ARRAY_LEN(f->sh);
	f->eh.e_shstrndx = 2;
	memcpy(f->names, "\0.eh_frame\0.shstr", 18);
	f->sh[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = 0x1000000,
				 .sh_offset = offsetof(struct absurd, eh_frame), .sh_size = sizeof f->eh_frame };
	f->sh[2] = (Elf64_Shdr){ .sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct absurd, names),
				 .sh_size = sizeof f->names };
	f->ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = TEXT_AT, .p_filesz = TEXT_BYTES,
				 .p_memsz = TEXT_BYTES };
	f->ph[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_offset = offsetof(struct absurd, header), .p_vaddr = 0x1000000,
				 .p_filesz = sizeof f->header + sizeof f->table };
	memcpy(f->header, header, sizeof header);
	put32(f->header + 8, functions);
	for (uint32_t i = 0; i < functions; i++) {
		f->table[i][0] = (int32_t)(TEXT_AT + i * TEXT_BYTES / functions) - 0x1000000;
		f->table[i][1] = (int32_t)(sizeof cie + (i % 2 ? LONG_ENTRY : 0));
	}
	memcpy(f->eh_frame, cie, sizeof cie);
	for (uint32_t i = 0; i < 2; i++) {           /* of the whole text, and nothing but nops */
		uint32_t at = (uint32_t)sizeof cie + i * LONG_ENTRY;
		put32(f->eh_frame + at, LONG_ENTRY - 4);
		put32(f->eh_frame + at + 4, at + 4);
		put32(f->eh_frame + at + 8, TEXT_AT);
		put32(f->eh_frame + at + 12, TEXT_BYTES);
	}
	return f;
}

/* What a file makes the agent do is bounded: then it is followed by frame pointers. */
static void test_absurd_work(void **state)
{
	static const struct { uint32_t functions; bool bad; } cases[] = { { 2, false }, { 4000, true }, { 40000, true } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct absurd *a = absurd_file(cases[i].functions);
		struct eh_stats st;
		struct elf_file f;
		struct unwind_tables *t;
		struct err e = { 0 };
		size_t rows = 0;
		assert_int_equal(elf_open_mem(&f, a, sizeof *a, &e), 0);
		assert_true(eh_frame_indexed(&f));
		int ret = eh_frame_range(&f, TEXT_AT, TEXT_AT + TEXT_BYTES, count_row, &rows, &st, &e);
		assert_int_equal(ret, cases[i].bad ? -ERR_BAD_DATA : 0);
		assert_true(st.work <= eh_frame_work_max(TEXT_BYTES));
		assert_true(cases[i].bad || rows == 2);
		assert_int_equal(unwind_tables_new(&t, NULL, &e), 0);
		struct image *im = image_of(&f);
		assert_true(unwind_tables_image_id(t, im) && unwind_tables_load(t, im, &f, TEXT_AT + 0x100));
		assert_int_equal(unwind_tables_stats(t)->bad_tables, cases[i].bad);
		assert_false(unwind_tables_missing(t, im, TEXT_AT + 0x100));
		assert_int_equal(table_rule(t, im, TEXT_AT + 0x2000).cfa, cases[i].bad ? CFA_NONE : CFA_SP);
		unwind_tables_image_gone(t, im);
		free(im);
		unwind_tables_free(t);
		elf_close(&f);
		free(a);
	}
}

#define GAP 32

/* Code of which .eh_frame does not tell is read when a sample meets it, and not before; what the table tells stays. */
static void test_unread_code(void **state)
{
	size_t len, gaps = 0, told = 0;
	uint8_t *bytes = read_libc(&len);
	struct elf_file f;
	struct eh_stats st;
	struct unwind_tables *t;
	struct err e = { 0 };
	struct eh_rows rows = { 0 };

	assert_int_equal(elf_open_mem(&f, bytes, len, &e), 0);
	assert_int_equal(eh_frame_each(&f, keep_row, &rows, &st, &e), 0);
	assert_int_equal(unwind_tables_new(&t, NULL, &e), 0);
	struct image *im = image_of(&f);
	assert_true(unwind_tables_image_id(t, im));
	for (size_t i = 1; i + 1 < rows.v.n; i++) {
		const struct eh_row *before = &rows.v.v[i - 1], *gap = &rows.v.v[i];
		if (gap->rule.cfa != CFA_NONE || rows.v.v[i + 1].pc - gap->pc < GAP)
			continue;
		bool here = before->pc >> TEXT_PAGE_SHIFT == gap->pc >> TEXT_PAGE_SHIFT;
		assert_true(unwind_tables_load(t, im, &f, before->pc));
		if (here && !gaps)
			assert_int_equal(table_rule(t, im, gap->pc).cfa, CFA_UNREAD);
		gaps += here;
		while (unwind_tables_missing(t, im, gap->pc + GAP / 2))
			assert_true(unwind_tables_load(t, im, &f, gap->pc + GAP / 2));
		assert_int_not_equal(table_rule(t, im, gap->pc + GAP / 2).cfa, CFA_UNREAD);
		told += table_rule(t, im, gap->pc + GAP / 2).cfa == CFA_SP;
		struct unwind_rule r = table_rule(t, im, before->pc);
		if (before->rule.cfa != CFA_NONE)
			assert_memory_equal(&r, &before->rule, sizeof r);
	}
	print_message("  %zu gaps, %zu of them told by the code\n", gaps, told);
	assert_true(gaps > 0 && told > 0);
	unwind_tables_image_gone(t, im);
	free(im);
	unwind_tables_free(t);
	vec_free(&rows.v);
	elf_close(&f);
	free(bytes);
}

#define RANGE 0x10000ull

/* Reading a range of addresses by the index gives the same rows for that range as reading the whole file does. */
static void test_index(void **state)
{
	static const char *const files[] = { "/proc/self/exe", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6", "/usr/lib/aarch64-linux-gnu/libstdc++.so.6" };
	struct err e = { 0 };

	for (size_t k = 0; k < ARRAY_LEN(files); k++) {
		struct eh_rows rows = { 0 };
		struct eh_stats all, st;
		struct eh_index *index;
		struct elf_file f;
		uint64_t work = 0;
		int fd = open(files[k], O_RDONLY | O_CLOEXEC);

		if (fd < 0)
			continue;
		assert_int_equal(elf_open(&f, fd, &e), 0);
		assert_int_equal(eh_frame_each(&f, keep_row, &rows, &all, &e), 0);
		uint64_t begin = rows.v.v[0].pc & ~4095ull, end = rows.v.v[rows.v.n - 1].pc;
		assert_int_equal(eh_index_new(&index, &f, begin, end, &st, &e), 0);
		assert_int_equal(eh_index_functions(index), all.fdes);
		for (uint64_t lo = begin; lo < end; lo += RANGE) {
			struct eh_rows part = { 0 };
			assert_int_equal(eh_index_range(&f, index, lo, lo + RANGE, keep_row, &part, &st, &e), 0);
			work += st.work;
			for (size_t i = 0; i + 1 < rows.v.n; i++) {
				const struct eh_row *r = &rows.v.v[i], *next = r + 1;
				if (next->pc <= lo || r->pc >= lo + RANGE)
					continue;
				uint64_t at[] = { MAX(r->pc, lo), MIN(next->pc, lo + RANGE) - 1 };
				for (size_t p = 0; p < ARRAY_LEN(at); p++) {
					static const struct unwind_rule none = { .cfa = CFA_NONE };
					const struct unwind_rule *rule = rule_of(&part, at[p]);
					assert_memory_equal(rule ? rule : &none, &r->rule, sizeof none);
				}
			}
			vec_free(&part.v);
		}
		print_message("  %s: %zu rows, all of it a work of %llu, range by range %llu\n", files[k], rows.v.n, (unsigned long long)all.work,
			      (unsigned long long)work);
		assert_true(eh_index_range(&f, index, end + (1 << 20), end + (2 << 20), keep_row, &rows, &st, &e) == 0 && st.fdes == 0);
		eh_index_free(index);
		vec_free(&rows.v);
		elf_close(&f);
		close(fd);
	}
}

/* A file without .eh_frame_hdr is read by groups of pages, like others; its code without a table once a sample meets it. */
static void test_unread_code_without_index(void **state)
{
	size_t len;
	uint8_t *bytes = read_libc(&len);
	const Elf64_Ehdr *eh = (const void *)bytes;
	Elf64_Phdr *ph = (void *)(bytes + eh->e_phoff);
	struct elf_file f;
	struct eh_stats st;
	struct unwind_tables *t;
	struct err e = { 0 };
	struct eh_rows rows = { 0 };
	VEC(uint64_t) gaps = { 0 };

	for (unsigned i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_GNU_EH_FRAME)
			ph[i].p_type = PT_NULL;
	assert_int_equal(elf_open_mem(&f, bytes, len, &e), 0);
	assert_false(eh_frame_indexed(&f));
	assert_int_equal(eh_frame_each(&f, keep_row, &rows, &st, &e), 0);
	for (size_t i = 0; i + 1 < rows.v.n; i++)
		if (rows.v.v[i].rule.cfa == CFA_NONE && rows.v.v[i + 1].pc - rows.v.v[i].pc >= GAP)
			vec_push(&gaps, rows.v.v[i].pc + GAP / 2);
	assert_true(gaps.n > 2);
	uint64_t first = gaps.v[0], last = gaps.v[gaps.n - 1];
	assert_int_equal(unwind_tables_new(&t, NULL, &e), 0);
	struct image *im = image_of(&f);
	assert_true(unwind_tables_image_id(t, im) && unwind_tables_load(t, im, &f, last));
	assert_true(unwind_tables_stats(t)->rows > 0 && unwind_tables_stats(t)->rows < rows.v.n / 4); /* the others wait */
	assert_true(unwind_tables_missing(t, im, first) && unwind_tables_load(t, im, &f, first));
	assert_int_equal(table_rule(t, im, first).cfa, CFA_UNREAD);
	assert_int_equal(table_rule(t, im, last).cfa, CFA_UNREAD);
	assert_true(unwind_tables_missing(t, im, first) && unwind_tables_load(t, im, &f, first));
	assert_int_not_equal(table_rule(t, im, first).cfa, CFA_UNREAD);
	assert_int_equal(table_rule(t, im, last).cfa, CFA_UNREAD);
	unwind_tables_image_gone(t, im);
	free(im);
	unwind_tables_free(t);
	vec_free(&gaps);
	vec_free(&rows.v);
	elf_close(&f);
	free(bytes);
}

#define SECOND 1000000000ll
#define COPIES 64u

/* Tables of a library that many processes have a copy of: how many whole ones there is room for. */
struct copies {
	struct unwind_tables *t;
	const struct elf_file *f;
	struct image *im[COPIES];
	uint64_t pc[2];              /* where the rows of .eh_frame begin, and the last but one */
};

/* All of the table of copy i; false: no room. */
static bool load_copy(struct copies *c, unsigned i)
{
	if (!c->im[i]->id)
		assert_true(unwind_tables_image_id(c->t, c->im[i]));
	for (uint64_t pc = c->pc[0]; pc < c->pc[1]; pc += 4096)
		if (unwind_tables_missing(c->t, c->im[i], pc) && !unwind_tables_load(c->t, c->im[i], c->f, pc))
			return false;
	return !unwind_tables_missing(c->t, c->im[i], c->pc[1]);
}

/* Where the memory for rows is full, the table of an idle image is unloaded. For two minutes that image does not make others give way. */
static void test_room(void **state)
{
	size_t len;
	uint8_t *bytes = read_libc(&len);
	struct elf_file f;
	struct eh_stats st;
	struct err e = { 0 };
	struct eh_rows rows = { 0 };
	struct copies c = { .f = &f };
	unsigned n = 0;

	assert_int_equal(elf_open_mem(&f, bytes, len, &e), 0);
	assert_int_equal(eh_frame_each(&f, keep_row, &rows, &st, &e), 0);
	c.pc[0] = rows.v.v[0].pc;
	c.pc[1] = rows.v.v[rows.v.n - 2].pc;
	assert_int_equal(unwind_tables_new(&c.t, NULL, &e), 0);
	unwind_tables_set_room(c.t, UNWIND_ROOM_BYTES_MIN);
	for (unsigned i = 0; i < COPIES; i++) {
		c.im[i] = image_of(&f);
		c.im[i]->mapped = 1;
	}
	while (n < COPIES && load_copy(&c, n))
		n++;
	assert_true(n > 1 && n < COPIES - 1);
	assert_true(unwind_tables_full(c.t, c.im[n]));
	assert_false(unwind_tables_full(c.t, c.im[0]) || unwind_tables_full(c.t, c.im[n + 1])); /* image 0 has its table, image n + 1 was never in a sample */
	assert_true(unwind_tables_stats(c.t)->chunks * CHUNK_ROWS * 4 <= UNWIND_ROOM_BYTES_MIN);
	assert_int_equal(unwind_tables_stats(c.t)->evictions, 0); /* all were met just now */
	unwind_tables_set_ahead(c.t, 20 * SECOND);
	assert_false(load_copy(&c, n));
	assert_int_equal(unwind_tables_stats(c.t)->evictions, 0); /* 20 s ago is no long time */
	c.im[0]->mapped = 0;
	unwind_tables_set_ahead(c.t, 40 * SECOND);
	for (unsigned i = 1; i < n; i++)
		unwind_tables_touch(c.t, c.im[i]);
	assert_false(load_copy(&c, n));      /* the first one gives way, but what it had rests first */
	assert_int_equal(unwind_tables_stats(c.t)->evictions, 1);
	assert_true(unwind_tables_full(c.t, c.im[n]));
	unwind_tables_set_ahead(c.t, 43 * SECOND);
	assert_true(load_copy(&c, n));
	assert_false(unwind_tables_full(c.t, c.im[n]));
	/* All images are idle by now, but image 0 was unloaded a minute ago: nothing gives way to it yet. */
	unwind_tables_set_ahead(c.t, 100 * SECOND);
	assert_false(load_copy(&c, 0));
	assert_int_equal(unwind_tables_stats(c.t)->evictions, 1);
	unwind_tables_set_ahead(c.t, 200 * SECOND);
	assert_false(load_copy(&c, 0));
	assert_true(unwind_tables_stats(c.t)->evictions > 1);
	unwind_tables_set_ahead(c.t, 203 * SECOND);
	assert_true(load_copy(&c, 0));
	for (unsigned i = 0; i < COPIES; i++) {
		unwind_tables_image_gone(c.t, c.im[i]);
		free(c.im[i]);
	}
	unwind_tables_free(c.t);
	vec_free(&rows.v);
	elf_close(&f);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_unread_code),
		cmocka_unit_test(test_index),
		cmocka_unit_test(test_unread_code_without_index),
		cmocka_unit_test(test_damaged),
		cmocka_unit_test(test_absurd_work),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
