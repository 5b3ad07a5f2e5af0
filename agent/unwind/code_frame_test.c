/* SPDX-License-Identifier: Apache-2.0 */
/* Rules that the code itself tells, against those of .eh_frame, for all code of libraries that have both: where there is a rule, it
 * is theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <glob.h>
#include <unistd.h>

#include "agent/unwind/code_frame.h"
#include "agent/unwind/eh_frame_rows.h"
#include "agent/unwind/frame_pointers.h"
#include "base/alloc.h"
#include "base/map.h"

#define PART ((uint64_t)1 << 20)

struct verdict {
	uint64_t all, told, wrong;   /* bytes of code */
};

static bool same_cfa(const struct unwind_rule *mine, const struct unwind_rule *theirs, uint64_t pc)
{
	if (theirs->cfa == CFA_PLT)
		return mine->cfa == CFA_SP && mine->cfa_off == 8 + ((int32_t)(pc & 15) >= theirs->cfa_off ? 8 : 0);
	/* Where they go by rbp, rsp says as much. */
	return (mine->cfa == theirs->cfa && mine->cfa_off == theirs->cfa_off && mine->ra == theirs->ra) ||
	       (mine->cfa == CFA_SP && theirs->cfa == CFA_FP) || mine->cfa == CFA_STOP;
}

/* A saved rbp lies where they say. In epilogues they do not tell that it is restored. */
static bool same_fp(const struct unwind_rule *mine, const struct unwind_rule *theirs)
{
	return mine->fp != FP_AT_CFA || (theirs->fp == FP_AT_CFA && mine->fp_off == theirs->fp_off);
}

static void compare(const struct eh_rows *code, const struct eh_rows *eh, uint64_t lo, uint64_t hi, struct verdict *v)
{
	for (uint64_t pc = lo; pc < hi; pc++) {
		const struct unwind_rule *mine = rule_of(code, pc), *theirs = rule_of(eh, pc);
		if (!theirs || theirs->cfa == CFA_NONE || theirs->cfa == CFA_UNSUPPORTED)
			continue;
		v->all++;
		if (!mine || mine->cfa == CFA_NONE || mine->cfa == CFA_UNSUPPORTED)
			continue;
		v->told++;
		bool right = same_cfa(mine, theirs, pc) && same_fp(mine, theirs);
		v->wrong += !right;
		if (!right && v->wrong < 4)
			print_message("  %llx: cfa %u %d fp %u %d, not cfa %u %d fp %u %d\n", (unsigned long long)pc, mine->cfa, mine->cfa_off,
				      mine->fp, mine->fp_off, theirs->cfa, theirs->cfa_off, theirs->fp, theirs->fp_off);
	}
}

static void read_code(const struct elf_file *f, const Elf64_Shdr *text, struct eh_rows *ret)
{
	for (uint64_t lo = text->sh_addr, end = lo + text->sh_size; lo < end; lo += PART) {
		struct eh_stats st = { 0 };
		assert_int_equal(code_frame_range(f, 0, UINT64_MAX, lo, MIN(lo + PART, end), keep_row, ret, &st), 0);
	}
}

static bool open_first(const char *pattern, struct elf_file *f)
{
	glob_t g;
	bool found = glob(pattern, 0, NULL, &g) == 0;
	int fd = found ? open(g.gl_pathv[0], O_RDONLY | O_CLOEXEC) : -1;

	if (found)
		print_message("  %s\n", g.gl_pathv[0]);
	globfree(&g);
	return fd >= 0 && elf_open(f, fd, NULL) == 0;
}

/* Opens the first file that matches the pattern, and compares the rules found from the bytes of these sections with those of its .eh_frame.
 * Returns false if no file matches. */
static bool compare_sections(const char *pattern, const char *const *sections, size_t n, struct verdict *v)
{
	struct eh_rows eh = { 0 }, code = { 0 };
	struct eh_stats st;
	struct elf_file f;

	*v = (struct verdict){ 0 };
	if (!open_first(pattern, &f)) {
		print_message("  no %s here\n", pattern);
		return false;
	}
	assert_int_equal(eh_frame_each(&f, keep_row, &eh, &st, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		const Elf64_Shdr *s = elf_section(&f, sections[i]);
		if (!s)
			continue;
		code.v.n = 0;
		read_code(&f, s, &code);
		compare(&code, &eh, s->sh_addr, s->sh_addr + s->sh_size, v);
	}
	print_message("    %llu bytes, %.1f %% told, %llu wrong\n", (unsigned long long)v->all, 100.0 * (double)v->told / (double)v->all,
		      (unsigned long long)v->wrong);
	close(f.fd);
	elf_close(&f);
	vec_free(&eh.v);
	vec_free(&code.v);
	return true;
}

/* told: per cent of the code that must have a rule. wrong: of a million bytes, so many may be otherwise: assembly that does not
 * tell .eh_frame of what it pushes. */
static void check_file(const char *pattern, unsigned told, unsigned wrong)
{
	static const char *const text = ".text";
	struct verdict v;

	if (!compare_sections(pattern, &text, 1, &v))
		return;
	assert_true(v.told * 100 >= v.all * told);
	assert_true(v.wrong <= v.told * wrong / 1000000);
}

/* For each address in the linker's stubs (.plt) of a file there is a rule, the same as in .eh_frame. */
static void check_stubs(const char *pattern)
{
	static const char *const sections[] = { ".plt", ".plt.sec", ".plt.got" };
	struct verdict v;

	if (!compare_sections(pattern, sections, ARRAY_LEN(sections), &v))
		return;
	assert_true(v.all > 0 && v.told == v.all);
	assert_int_equal(v.wrong, 0);
}

static void test_stubs(void **state)
{
	(void)state;
	check_stubs("/bin/bash");
	check_stubs("/lib/*/libc.so.6");
	check_stubs("/usr/lib/*/libstdc++.so.6");
}

static void test_against_eh_frame(void **state)
{
	check_file("/lib/*/libm.so.6", 90, 0);
	check_file("/usr/lib/*/libstdc++.so.6", 60, 0);
	check_file("/lib/*/libc.so.6", 85, 500);
	check_file("/bin/bash", 75, 0);
}

/* A C library that has nothing else. */
static void test_musl(void **state)
{
	struct eh_rows code = { 0 };
	struct elf_file f;
	uint64_t told = 0;

	if (!open_first("/lib/ld-musl-x86_64.so.1", &f)) {
		print_message("skipped: no musl\n");
		skip();
	}
	const Elf64_Shdr *text = elf_section(&f, ".text");
	read_code(&f, text, &code);
	for (uint64_t pc = text->sh_addr; pc < text->sh_addr + text->sh_size; pc++) {
		const struct unwind_rule *r = rule_of(&code, pc);
		told += r && r->cfa != CFA_NONE && r->cfa != CFA_UNSUPPORTED;
	}
	print_message("    %.1f %% told\n", 100.0 * (double)told / (double)text->sh_size);
	assert_true(told * 100 >= text->sh_size * 94);
	close(f.fd);
	elf_close(&f);
	vec_free(&code.v);
}

/* A file of one segment of code, at 0x10000. */
struct code_file {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	uint8_t text[1 << 16];
};

static struct code_file *code_file_new(void)
{
	struct code_file *x = xcalloc(1, sizeof *x);

	x->eh = (Elf64_Ehdr){ .e_machine = EM_X86_64, .e_phoff = sizeof x->eh, .e_phentsize = sizeof x->ph, .e_phnum = 1 };
	memcpy(x->eh.e_ident, ELFMAG "\2\1\1", 7);
	x->ph = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_X, .p_offset = offsetof(struct code_file, text), .p_vaddr = 0x10000,
			      .p_filesz = sizeof x->text, .p_memsz = sizeof x->text };
	return x;
}

/* Any bytes are bounded work. */
static void test_noise(void **state)
{
	struct code_file *x = code_file_new();
	uint64_t seed = 1;
	Elf64_Shdr text = { .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = 0x10000,
			    .sh_offset = offsetof(struct code_file, text), .sh_size = sizeof x->text };

	for (int turn = 0; turn < 20; turn++) {
		struct elf_file f;
		struct eh_rows rows = { 0 };
		struct eh_stats st = { 0 };
		for (size_t i = 0; i < sizeof x->text; i++)
			x->text[i] = (uint8_t)((seed = hash_u64(seed)) % (turn % 2 ? 256 : 128)); /* half of them: many pushes and branches */
		assert_int_equal(elf_open_mem(&f, x, sizeof *x, NULL), 0);
		f.sh = xmalloc(sizeof text);
		*f.sh = text;
		f.n_sh = 1;
		assert_int_equal(code_frame_range(&f, 0, UINT64_MAX, 0x10000, 0x20000, keep_row, &rows, &st), 0);
		for (size_t i = 1; i < rows.v.n; i++)
			assert_true(rows.v.v[i].pc > rows.v.v[i - 1].pc);
		assert_false(frame_pointers_kept(&f));
		vec_free(&rows.v);
		elf_close(&f);
	}
	free(x);
}

/* Functions of 64 bytes, each of which calls another one. Of a hundred, `others` save rbp without setting it up. */
static bool kept_with(unsigned others, unsigned every)
{
	static const uint8_t keeps[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x53 }, saves[] = { 0x55, 0x48, 0x89, 0xfd, 0x53, 0x90, 0x90, 0x90, 0x90 };
	struct code_file *x = code_file_new();
	struct elf_file f;

	memset(x->text, 0x90, sizeof x->text);
	for (uint32_t i = 0, n = sizeof x->text / 64; i < n; i++) {
		uint8_t *c = x->text + i * 64;
		memcpy(c, i * 37 % 100 < others ? saves : keeps, sizeof keeps);
		int32_t to = (int32_t)(((i * 131 + 17) % n) * 64) - (int32_t)(i * 64 + 16 + 5);
		if (i % every == 0) {
			c[16] = 0xe8;
			memcpy(c + 17, &to, 4);
		}
		c[63] = 0xc3;
	}
	assert_int_equal(elf_open_mem(&f, x, sizeof *x, NULL), 0);
	bool kept = frame_pointers_kept(&f);
	elf_close(&f);
	free(x);
	return kept;
}

static void test_frame_pointers(void **state)
{
	static const struct { const char *pattern; bool keeps; } files[] = {
		{ "/usr/lib/chromium/chromium", true }, { "/bin/bash", false }, { "/lib/*/libc.so.6", false }, { "/usr/bin/gdb", false },
		{ "/usr/bin/node", false }, { "/usr/lib/jvm/*/lib/server/libjvm.so", false },
	};

	assert_true(kept_with(0, 1));
	assert_true(kept_with(3, 1));
	assert_false(kept_with(8, 1));
	assert_false(kept_with(100, 1));
	assert_false(kept_with(0, 20)); /* too few to tell */
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		struct elf_file f;
		if (!open_first(files[i].pattern, &f))
			continue;
		assert_true(frame_pointers_kept(&f) == files[i].keeps);
		close(f.fd);
		elf_close(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_eh_frame), cmocka_unit_test(test_stubs), cmocka_unit_test(test_musl), cmocka_unit_test(test_noise),
		cmocka_unit_test(test_frame_pointers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
