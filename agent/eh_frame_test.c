/* SPDX-License-Identifier: Apache-2.0 */
/* Every rule that eh_frame.c makes of a library, against what elfutils says of the same addresses; then the table
 * that is built of them, and that damaged files end in errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <glob.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/eh_frame.h"
#include "agent/image.h"
#include "agent/images.h"
#include "agent/tables.h"
#include "base/alloc.h"
#include "base/vec.h"

struct row {
	uint64_t pc;
	struct unwind_rule rule;
};

struct rows {
	VEC(struct row) v;
};

static int keep_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct rows *rows = arg;
	assert_true(rows->v.n == 0 || rows->v.v[rows->v.n - 1].pc < pc);
	vec_push(&rows->v, (struct row){ pc, *r });
	return 0;
}

enum { FP = 6, SP = 7, RA = 16 };

/* breg or bregx of one of the two registers. */
static bool is_breg(const Dwarf_Op *op, unsigned *reg, int64_t *off)
{
	if (op->atom == DW_OP_bregx) {
		*reg = (unsigned)op->number;
		*off = (int64_t)op->number2;
		return true;
	}
	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		*reg = op->atom - DW_OP_breg0;
		*off = (int64_t)op->number;
		return true;
	}
	return false;
}

static bool cfa_agrees(const struct unwind_rule *r, const Dwarf_Op *ops, size_t n)
{
	unsigned reg = 0;
	int64_t off = 0, add = 0;

	switch (r->cfa) {
	case CFA_SP:
	case CFA_FP:
		return n == 1 && is_breg(ops, &reg, &off) && reg == (r->cfa == CFA_SP ? SP : FP) && off == r->cfa_off;
	case CFA_DEREF_SP:
	case CFA_DEREF_FP:
		if (n == 3 && ops[2].atom == DW_OP_plus_uconst)
			add = (int64_t)ops[2].number;
		else if (n == 4)
			add = ops[2].atom - DW_OP_lit0;
		else if (n != 2)
			return false;
		return is_breg(ops, &reg, &off) && reg == (r->cfa == CFA_DEREF_SP ? SP : FP) && off == r->cfa_off &&
		       ops[1].atom == DW_OP_deref && add == r->cfa_add;
	case CFA_PLT:
		return n == 9 && is_breg(ops, &reg, &off) && reg == SP && off == 8 &&
		       ops[4].atom == DW_OP_lit0 + (unsigned)r->cfa_off && ops[5].atom == DW_OP_ge;
	default:
		return true;
	}
}

static bool fp_agrees(const struct unwind_rule *r, Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops;
	size_t n;
	unsigned reg;
	int64_t off;

	if (dwarf_frame_register(frame, FP, mem, &ops, &n) != 0)
		return false;
	switch (r->fp) {
	case FP_SAME:
		return n == 0 && ops == NULL;
	case FP_AT_CFA:
		if (n == 1)
			return ops[0].atom == DW_OP_call_frame_cfa && r->fp_off == 0;
		return n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst &&
		       (int64_t)ops[1].number == r->fp_off;
	case FP_AT_FP: /* the CFA is pushed before an expression */
		return n == 2 && ops[0].atom == DW_OP_call_frame_cfa && is_breg(&ops[1], &reg, &off) && reg == FP &&
		       off == r->fp_off;
	default: /* unknown: anything that is not simple */
		return !(n == 0 && ops == NULL) && !(n == 2 && ops[0].atom == DW_OP_call_frame_cfa);
	}
}

/* -1 undefined, 1 at cfa - 8, 0 anything else. */
static int ra_of(Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, RA, mem, &ops, &n) != 0)
		return 0;
	if (n == 0 && ops == mem)
		return -1;
	return n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst &&
	       (int64_t)ops[1].number == -8;
}

static bool agrees(const struct unwind_rule *r, Dwarf_Frame *frame)
{
	Dwarf_Addr start, end;
	bool signal;
	Dwarf_Op *ops;
	size_t n;
	int ra = ra_of(frame);

	if (dwarf_frame_info(frame, &start, &end, &signal) < 0 || dwarf_frame_cfa(frame, &ops, &n) != 0)
		return false;
	if (ra == -1)
		return r->cfa == CFA_STOP;
	if (signal)
		return r->cfa == CFA_SIGNAL;
	if (r->cfa == CFA_UNSUPPORTED) {
		unsigned reg;
		int64_t off;
		bool simple = n == 1 && is_breg(ops, &reg, &off) && (reg == SP || reg == FP) && ra == 1;
		return !simple;
	}
	return r->cfa != CFA_NONE && r->cfa != CFA_STOP && r->cfa != CFA_SIGNAL && ra == 1 && cfa_agrees(r, ops, n) &&
	       fp_agrees(r, frame);
}

struct compared {
	size_t rows, frames, unsupported, disagree;
};

/* Walks elfutils' rows inside of one of ours. */
static void compare_row(Dwarf_CFI *cfi, const struct row *r, uint64_t end, struct compared *c)
{
	for (uint64_t pc = r->pc; pc < end;) {
		Dwarf_Frame *frame;
		Dwarf_Addr s, e;
		bool signal;
		if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0)
			return;       /* padding between functions keeps the rule before it */
		c->frames++;
		dwarf_frame_info(frame, &s, &e, &signal);
		if (!agrees(&r->rule, frame)) {
			c->disagree++;
			if (c->disagree < 10)
				print_message("  disagree at %#llx: cfa %d %+d %+d, fp %d %+d\n", (unsigned long long)pc,
					      r->rule.cfa, r->rule.cfa_off, r->rule.cfa_add, r->rule.fp, r->rule.fp_off);
		}
		free(frame);
		if (e <= pc)
			return;
		pc = e;
	}
}

static struct compared compare(const char *path)
{
	struct compared c = { 0 };
	struct elf_file f;
	struct eh_stats st;
	struct err e = { 0 };
	struct rows rows = { 0 };

	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_open(&f, fd, &e), 0);
	assert_int_equal(eh_frame_each(&f, keep_row, &rows, &st, &e), 0);
	elf_close(&f);
	assert_int_equal(st.bad, 0);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	for (size_t i = 0; i < rows.v.n; i++) {
		if (rows.v.v[i].rule.cfa != CFA_NONE)
			compare_row(cfi, &rows.v.v[i], i + 1 < rows.v.n ? rows.v.v[i + 1].pc : rows.v.v[i].pc + 1, &c);
	}
	c.rows = rows.v.n;
	c.unsupported = st.unsupported + st.unknown_fp;
	print_message("  %s: %zu FDEs, %zu rows, %zu of elfutils; unsupported %zu, unknown fp %zu, disagree %zu\n", path,
		      (size_t)st.fdes, c.rows, c.frames, (size_t)st.unsupported, (size_t)st.unknown_fp, c.disagree);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
	vec_free(&rows.v);
	return c;
}

/* How many rows of a file cannot be expressed is pinned for the builds that Debian 12 has; of others the share counts. */
static const struct {
	const char *pattern, *build_id;
	size_t unsupported;
} files[] = {
	{ "/lib/*/libc.so.6", "93ac61ec5a8eb1396f9fbd350e3169a558528a40", 5 },
	{ "/usr/lib/*/libstdc++.so.6", "289ee39f8c07bd4fa48102dfeeb7e6f9c76158b4", 0 },
	{ "/lib*/*/ld-linux-*.so.*", "7ebc65e52f2bbea498b4040fa92f7238377aaba9", 10 },
	{ "/usr/lib/*/libcrypto.so.3", "30563306a0d30a4acfe7ce1e066c8696b5e7856f", 121 },
	{ "/usr/lib/*/libLLVM-14.so.1", "c660b6b628d81741b1a629afce603ae3b9849f4e", 0 },
	{ "/usr/bin/node", "ebeaf2df364d5eeb7096f0f7722a69eec6efdf3b", 137 },
	{ "/usr/lib/jvm/java-17-*/lib/server/libjvm.so", "97da31b249941f25ff26a6126471221bb579d67f", 0 },
};

static bool is_build(const char *path, const char *build_id)
{
	struct image im = { 0 };
	struct image_key key;
	char hex[2 * BUILD_ID_MAX + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	image_key_of_fd(fd, view_of(path), &key);
	close(fd);
	memcpy(im.build_id, key.build_id, sizeof im.build_id);
	im.build_id_len = key.build_id_len;
	return strcmp(image_build_id_hex(&im, hex), build_id) == 0;
}

static void test_against_elfutils(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		glob_t g;
		if (glob(files[i].pattern, 0, NULL, &g) == 0) {
			struct compared c = compare(g.gl_pathv[0]);
			assert_int_equal(c.disagree, 0);
			assert_true(c.rows > 0); /* few where a program is a stub before its library */
			if (is_build(g.gl_pathv[0], files[i].build_id))
				assert_int_equal(c.unsupported, files[i].unsupported);
			else
				assert_true(c.unsupported * 100 < c.rows);
		} else {
			assert_true(i > 1); /* libc and libstdc++ are there */
		}
		globfree(&g);
	}
}

/* Bytes of a library that is loaded into this process, and its path. */
static uint8_t *read_libc(size_t *ret_len)
{
	glob_t g;
	struct stat st;

	assert_int_equal(glob(files[0].pattern, 0, NULL, &g), 0);
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
static struct unwind_rule table_rule(const struct tables *t, const struct image *im, uint64_t pc)
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
		cmocka_unit_test(test_against_elfutils),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
