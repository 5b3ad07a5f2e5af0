/* SPDX-License-Identifier: Apache-2.0 */
/* elfutils as oracle: at every address of the large libraries of a host that has a row, eh_frame.c's rule for CFA, rbp and
 * return address is what dwarf_cfi_addrframe says, or says that it cannot express that. How many rows it cannot, and
 * why, is pinned for builds that Debian 12 has. */
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
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/go/go_frame.h"
#include "agent/image/image_files.h"
#include "agent/unwind/eh_frame_rows.h"
#include "base/alloc.h"
#include "base/vec.h"

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

enum { RDI = 5, IN_RDI = 2 };

/* -1 undefined, 1 at cfa - 8, IN_RDI, 0 anything else. */
static int ra_of(Dwarf_Frame *frame)
{
	Dwarf_Op mem[3], *ops;
	size_t n;

	if (dwarf_frame_register(frame, RA, mem, &ops, &n) != 0)
		return 0;
	if (n == 0 && ops == mem)
		return -1;
	if (n == 1 && ops[0].atom == DW_OP_regx && ops[0].number == RDI)
		return IN_RDI;
	return n == 2 && ops[0].atom == DW_OP_call_frame_cfa && ops[1].atom == DW_OP_plus_uconst &&
	       (int64_t)ops[1].number == -8;
}

/* Why a row is not expressed in full. */
enum reason { OTHER_REGISTER, EXPRESSION, RA_ELSEWHERE, FP_ELSEWHERE, REASONS };
static const char *const reasons[] = {
	"CFA from another register than rsp and rbp", "CFA by an expression", "return address not at CFA - 8",
	"rbp not in memory at CFA or rbp",
};

/* What elfutils says where our rule is CFA_UNSUPPORTED; REASONS: nothing that a rule could not express. */
static enum reason why_unsupported(const Dwarf_Op *ops, size_t n, int ra)
{
	unsigned reg;
	int64_t off;

	if (ra != 1)
		return RA_ELSEWHERE;
	if (n != 1 || !is_breg(ops, &reg, &off))
		return EXPRESSION;
	return reg == SP || reg == FP ? REASONS : OTHER_REGISTER;
}

/* Whether the rule is elfutils' or says that it is not expressed, and then why; *ret_why is REASONS otherwise. */
static bool agrees(const struct unwind_rule *r, Dwarf_Frame *frame, enum reason *ret_why)
{
	Dwarf_Addr start, end;
	bool signal;
	Dwarf_Op *ops;
	size_t n;
	int ra = ra_of(frame);

	*ret_why = REASONS;
	if (dwarf_frame_info(frame, &start, &end, &signal) < 0 || dwarf_frame_cfa(frame, &ops, &n) != 0)
		return false;
	if (ra == -1)
		return r->cfa == CFA_STOP;
	if (signal)
		return r->cfa == CFA_SIGNAL;
	if (r->cfa == CFA_UNSUPPORTED) {
		*ret_why = why_unsupported(ops, n, ra);
		return *ret_why < REASONS;
	}
	if (r->fp == FP_UNKNOWN)
		*ret_why = FP_ELSEWHERE;
	return r->cfa != CFA_NONE && r->cfa != CFA_STOP && r->cfa != CFA_SIGNAL && (r->ra == RA_CFA_8 ? ra == 1 : r->ra == RA_IN_RDI && ra == IN_RDI) &&
	       cfa_agrees(r, ops, n) && fp_agrees(r, frame);
}

struct compared {
	size_t fdes, rows;           /* ours */
	size_t unsupported[REASONS]; /* of ours */
	size_t theirs;               /* elfutils', as far as ours divide them */
	size_t disagree;
};

/* Asks elfutils about each address of a row: what it says holds up to the end of its own row; where it says nothing,
 * between functions, ours may go on or be CFA_NONE. */
static void compare_row(Dwarf_CFI *cfi, const struct eh_row *r, uint64_t end, struct compared *c)
{
	enum reason why = REASONS, first = REASONS;

	for (uint64_t pc = r->pc, s, e; pc < end; pc = MAX(e, pc + 1)) {
		Dwarf_Frame *frame;
		bool signal;
		e = pc + 1;
		if (dwarf_cfi_addrframe(cfi, pc, &frame) != 0)
			continue;
		c->theirs++;
		dwarf_frame_info(frame, &s, &e, &signal);
		if (!agrees(&r->rule, frame, &why) && ++c->disagree < 10)
			print_message("  disagree at %#llx: cfa %d %+d %+d, fp %d %+d\n", (unsigned long long)pc, r->rule.cfa,
				      r->rule.cfa_off, r->rule.cfa_add, r->rule.fp, r->rule.fp_off);
		free(frame);
		if (first == REASONS)
			first = why;
	}
	if (first < REASONS)
		c->unsupported[first]++;
}

static size_t unsupported_of(const struct compared *c)
{
	size_t n = 0;
	for (int i = 0; i < REASONS; i++)
		n += c->unsupported[i];
	return n;
}

static struct compared compare(const char *path)
{
	struct compared c = { 0 };
	struct elf_file f;
	struct eh_stats st;
	struct err e = { 0 };
	struct eh_rows rows = { 0 };

	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(elf_open(&f, fd, &e), 0);
	assert_int_equal(eh_frame_each(&f, keep_row, &rows, &st, &e), 0);
	elf_close(&f);
	assert_int_equal(st.bad, 0);
	assert_int_equal(st.rows, rows.v.n);
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	Dwarf_CFI *cfi = dwarf_getcfi_elf(elf);
	assert_non_null(cfi);
	for (size_t i = 0; i < rows.v.n; i++)
		compare_row(cfi, &rows.v.v[i], i + 1 < rows.v.n ? rows.v.v[i + 1].pc : rows.v.v[i].pc + 1, &c);
	c.fdes = st.fdes;
	c.rows = rows.v.n;
	assert_int_equal(unsupported_of(&c), st.unsupported + st.unknown_fp);
	dwarf_cfi_end(cfi);
	elf_end(elf);
	close(fd);
	vec_free(&rows.v);
	return c;
}

/* The programs and libraries that are compared, as far as they are installed; which package of Debian 12 has them. */
static const struct {
	const char *pattern, *package;
	bool must;
} files[] = {
	{ "/lib/*/libc.so.6", "libc6", true },
	{ "/lib*/*/ld-linux-*.so.*", "libc6", true },
	{ "/usr/lib/*/libstdc++.so.6", "libstdc++6", true },
	{ "/usr/lib/*/libcrypto.so.3", "libssl3", false },
	{ "/usr/lib/*/libLLVM-14.so.1", "libllvm14", false },
	{ "/usr/bin/node", "nodejs", false }, /* Debian's is a stub before the next one */
	{ "/usr/lib/*/libnode.so.108", "libnode108", false },
	{ "/usr/lib/jvm/java-17-openjdk-*/lib/server/libjvm.so", "openjdk-17-jre-headless", false },
};

/* How many rows of a build are not expressed, by reason. A new build says its line itself. */
static const struct {
	const char *build_id;
	size_t unsupported[REASONS];
	const char *version;
} pins[] = {
	{ "93ac61ec5a8eb1396f9fbd350e3169a558528a40", { 0, 0, 4, 0 }, "2.36-9+deb12u14" }, /* longjmp, setcontext */
	{ "7ebc65e52f2bbea498b4040fa92f7238377aaba9", { 9, 0, 1, 0 }, "2.36-9+deb12u14" },
	{ "289ee39f8c07bd4fa48102dfeeb7e6f9c76158b4", { 0, 0, 0, 0 }, "12.2.0-14+deb12u1" },
	{ "30563306a0d30a4acfe7ce1e066c8696b5e7856f", { 121, 0, 0, 0 }, "3.0.19-1~deb12u2" },
	{ "c660b6b628d81741b1a629afce603ae3b9849f4e", { 0, 0, 0, 0 }, "1:14.0.6-12" },
	{ "ebeaf2df364d5eeb7096f0f7722a69eec6efdf3b", { 137, 0, 0, 0 }, "20.20.2, nodesource's: with its own libcrypto" },
	{ "ec9f49303c267a6478856befd1cbd7c76d25f5cf", { 0, 0, 0, 0 }, "18.20.4+dfsg-1~deb12u3" },
	{ "97da31b249941f25ff26a6126471221bb579d67f", { 0, 0, 0, 0 }, "17.0.15+6-1~deb12u1" },
	{ "45183927463c526d5b9c9d456494ad816a7e3fee", { 0, 0, 0, 0 }, "17.0.21.1+2-1~deb12u1" },
};

static void build_id_of(const char *path, char *hex)
{
	struct image im = { 0 };
	struct image_key key;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	image_key_of_fd(fd, view_of(path), &key);
	close(fd);
	memcpy(im.build_id, key.build_id, sizeof im.build_id);
	im.build_id_len = key.build_id_len;
	image_build_id_hex(&im, hex);
}

static void tell(const char *path, const char *package, const struct compared *c)
{
	print_message("  %s (%s): %zu FDEs; all %zu rows compared with %zu of elfutils, %zu disagree, %zu unsupported\n", path, package,
		      c->fdes, c->rows, c->theirs, c->disagree, unsupported_of(c));
	for (int i = 0; i < REASONS; i++)
		if (c->unsupported[i])
			print_message("    %zu: %s\n", c->unsupported[i], reasons[i]);
}

/* The line of `pins` for a file. */
static void tell_pin(const char *hex, const struct compared *c)
{
	print_message("\t{ \"%s\", { %zu, %zu, %zu, %zu }, \"\" },\n", hex, c->unsupported[0], c->unsupported[1], c->unsupported[2],
		      c->unsupported[3]);
}

/* True: it is a pinned build, and as pinned. */
static bool check_pin(const char *hex, const struct compared *c)
{
	for (size_t i = 0; i < ARRAY_LEN(pins); i++) {
		if (strcmp(pins[i].build_id, hex) != 0)
			continue;
		print_message("    pinned for %s\n", pins[i].version);
		assert_memory_equal(c->unsupported, pins[i].unsupported, sizeof c->unsupported);
		return true;
	}
	return false;
}

static void check_file(const char *path, const char *package)
{
	char hex[2 * BUILD_ID_MAX + 1];
	struct compared c = compare(path);

	tell(path, package, &c);
	assert_int_equal(c.disagree, 0);
	assert_true(c.rows > 0 && c.theirs >= c.fdes);
	build_id_of(path, hex);
	if (check_pin(hex, &c))
		return;
	tell_pin(hex, &c);
	assert_true(unsupported_of(&c) * 100 <= c.rows);
}

static void test_every_row(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		glob_t g;
		int got = glob(files[i].pattern, 0, NULL, &g);
		if (got == 0)
			check_file(g.gl_pathv[0], files[i].package);
		else
			print_message("  %s is not here: the package %s has it\n", files[i].pattern, files[i].package);
		assert_true(got == 0 || !files[i].must);
		globfree(&g);
	}
}

/* --- Go's table, against the .debug_frame that its linker writes --- */

struct go_compared {
	Dwarf_CFI *cfi;
	size_t rows, same, unlike;
};

static int compare_go_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct go_compared *c = arg;
	Dwarf_Frame *frame = NULL;
	Dwarf_Op *ops;
	size_t n;

	if (r->cfa != CFA_SP || dwarf_cfi_addrframe(c->cfi, pc, &frame))
		return 0;
	c->rows++;
	assert_int_equal(dwarf_frame_cfa(frame, &ops, &n), 0);
	if (cfa_agrees(r, ops, n))
		c->same++;
	else if (c->unlike++ < 10)
		print_message("  %#llx: %d above the stack pointer\n", (unsigned long long)pc, r->cfa_off);
	free(frame);
	return 0;
}

/* The fixtures in Go, where there is Go to build them. */
static void test_go_rows(void **state)
{
	static const char *const names[] = { "gofix.exe", "gocgo.exe" };
	const char *build = getenv("top_builddir");

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTOFREE char *path = xasprintf("%s/tests/fixtures/agent/%s", build ? build : ".", names[i]);
		struct go_compared c = { .rows = 0 };
		struct eh_stats st = { 0 };
		struct gopclntab t;
		uint64_t lo, hi;
		struct err e;
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0) {
			print_message("  %s is not here: no go command\n", path);
			continue;
		}
		assert_int_equal(gopclntab_open(&t, fd, &e), 0);
		assert_true(go_frame_text(&t, &lo, &hi));
		Dwarf *d = dwarf_begin(fd, DWARF_C_READ);
		c.cfi = d ? dwarf_getcfi(d) : NULL;
		assert_non_null(c.cfi);
		assert_int_equal(go_frame_range(&t, lo, hi, compare_go_row, &c, &st), 0);
		print_message("  %s: %zu functions, %zu rows, %zu agree\n", names[i], (size_t)st.fdes, c.rows, c.same);
		assert_int_equal(c.unlike, 0);
		assert_true(c.same > 1000 && c.same * 2 > st.rows);
		assert_int_equal(st.bad, 0);
		dwarf_end(d);
		gopclntab_close(&t);
		close(fd);
	}
}

/* Arguments are files to compare instead, to pin them. */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_row), cmocka_unit_test(test_go_rows) };

	for (int i = 1; i < argc; i++) {
		struct compared c = compare(argv[i]);
		char hex[2 * BUILD_ID_MAX + 1];
		tell(argv[i], "as asked", &c);
		build_id_of(argv[i], hex);
		tell_pin(hex, &c);
	}
	return argc > 1 ? 0 : cmocka_run_group_tests(tests, NULL, NULL);
}
