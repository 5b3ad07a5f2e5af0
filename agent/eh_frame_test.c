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

#include "agent/eh_frame_rows.h"
#include "agent/image.h"
#include "agent/tables.h"
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
static struct unwind_rule table_rule(struct tables *t, const struct image *im, uint64_t pc)
{
	const struct unwind_image *ui = tables_unwind_image(t, im->id);
	uint64_t page = (pc >> 12) - ui->first_page;
	uint32_t rule = 0;

	assert_true(page < ui->n_pages);
	uint64_t p = tables_unwind_pages(t)[ui->pages + page];
	assert_true(p != PAGE_UNLOADED);
	for (uint32_t i = 0; i < PAGE_ROWS(p); i++) {
		uint32_t row = tables_unwind_chunk(t, PAGE_ROW(p) >> 16)[(PAGE_ROW(p) & 0xffff) + i];
		if (row >> ROW_PC_SHIFT <= (pc & 4095))
			rule = row & ROW_RULE_MASK;
	}
	return *tables_unwind_rule(t, rule);
}

static void test_tables(void **state)
{
	size_t len;
	uint8_t *bytes = read_libc(&len);
	struct elf_file f;
	struct eh_stats st;
	struct tables *t;
	struct err e = { 0 };
	struct rows rows = { 0 };

	assert_int_equal(elf_open_mem(&f, bytes, len, &e), 0);
	assert_int_equal(eh_frame_each(&f, keep_row, &rows, &st, &e), 0);
	assert_int_equal(tables_new(&t, NULL, &e), 0);
	struct image *im = image_of(&f);
	/* Twice, with something else in between: what is given back is used again, after it rested. */
	for (int round = 0; round < 2; round++) {
		assert_true(tables_image_id(t, im));
		assert_true(tables_load(t, im, &f, rows.v.v[rows.v.n / 2].pc));
		assert_true(tables_stats(t)->rows > 0 && tables_stats(t)->rows < rows.v.n / 4); /* the others wait */
		for (size_t i = 0; i < rows.v.n; i++) {
			const struct row *r = &rows.v.v[i];
			uint64_t end = i + 1 < rows.v.n ? rows.v.v[i + 1].pc : r->pc + 1;
			assert_true(tables_load(t, im, &f, r->pc) && tables_load(t, im, &f, end - 1));
			assert_false(tables_missing(t, im, r->pc));
			struct unwind_rule first = table_rule(t, im, r->pc), last = table_rule(t, im, end - 1);
			assert_memory_equal(&first, &r->rule, sizeof first);
			assert_memory_equal(&last, &r->rule, sizeof last);
		}
		assert_int_equal(tables_stats(t)->images, 1);
		assert_true(tables_stats(t)->rows >= rows.v.n / 2);
		tables_image_gone(t, im);
		assert_int_equal(tables_stats(t)->rows, 0);
		assert_int_equal(im->id, 0);
	}
	free(im);
	tables_free(t);
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
			eh_frame_each(&f, count_row, &rows, &st, NULL);
			elf_close(&f);
		}
		memcpy(bytes + spot, saved, 1);
	}
	assert_true(rows > 0);
	free(bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_damaged),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
