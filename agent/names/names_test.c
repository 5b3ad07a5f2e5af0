/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/go/built_program.h"
#include "agent/names/kallsyms.h"
#include "agent/names/perfmap.h"
#include "agent/names/symbolize.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "symbols/child.h"
#include "symbols/demangle.h"
#include "symbols/dwarf_index.h"
#include "symbols/dwarf_private.h"
#include "symbols/symtab.h"
#include "symbols/tempfile.h"

static void check_demangle(const char *from, const char *to)
{
	struct buf out = { 0 };
	bool ok = demangle(view_of(from), &out);
	if (ok != (to != NULL))
		print_message("%s\n", from);
	if (to) {
		assert_true(ok);
		assert_string_equal(out.ptr, to);
	} else {
		assert_false(ok);
	}
	buf_free(&out);
}

static void test_demangle(void **state)
{
	check_demangle("_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back(int const&)");
	check_demangle("_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$17h0123456789abcdefE",
		       "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>");
	check_demangle("_RNvCs4fqI2P2rA04_7mycrate4main", "mycrate::main");
	check_demangle("_RNvNtCs1234_7mycrate3foo3bar", "mycrate::foo::bar");
	check_demangle("_RNCNvCs1234_7mycrate4main0B3_", "mycrate::main::{closure#0}");
	check_demangle("_RINvNtC3std3mem8align_ofjE", "std::mem::align_of::<usize>");
	check_demangle("_RNvMC3fooNtB2_3Bar3baz", "<foo::Bar>::baz");
	check_demangle("_RNvXC3fooNtB2_3BarNtB2_5Trait3baz", "<foo::Bar as foo::Trait>::baz");
	check_demangle("_RNvB_", NULL);
	check_demangle("_R@plt", NULL);
	check_demangle("_Z@plt", NULL);
	check_demangle("_ZN3foo3bar17h0123456789abcdef.llvm.1", NULL); /* no E */
	check_demangle("_R", NULL);
	check_demangle("main", NULL);
	check_demangle("_Z", NULL);
}

/* Suffixes that compilers and linkers append. c++filt prints the same, except that it prints the hashes of Rust. */
static void test_demangle_suffixes(void **state)
{
#define HASH "17h0123456789abcdefE"
	static const char *const names[][2] = {
		/* Rust, older scheme */
		{ "_ZN3foo3bar" HASH ".llvm.123456789", "foo::bar" },
		{ "_ZN3foo3bar" HASH ".llvm.8C9F03C97FA8C4B5", "foo::bar" },
		{ "_ZN4core3ptr56drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$$GT$" HASH ".llvm.1", "core::ptr::drop_in_place<std::rt::lang_start<()>>" },
		{ "_ZN3foo3bar" HASH ".cold", "foo::bar" },
		{ "_ZN3foo3bar" HASH ".cold.1", "foo::bar" },
		{ "_ZN3foo3bar" HASH ".llvm.12.cold", "foo::bar" },
		{ "_ZN3foo3bar" HASH ".lto_priv.0", "foo::bar" },
		{ "_ZN3foo3bar" HASH "@plt", "foo::bar@plt" },
		{ "_ZN3foo3bar" HASH ".llvm.12@plt", "foo::bar@plt" },
		/* Rust, v0 */
		{ "_RNvNtCs1234_7mycrate3foo3bar.llvm.123", "mycrate::foo::bar" },
		{ "_RNvNtCs1234_7mycrate3foo3bar.cold", "mycrate::foo::bar" },
		{ "_RNvNtCs1234_7mycrate3foo3bar.lto_priv.0", "mycrate::foo::bar" },
		{ "_RNvNtCs1234_7mycrate3foo3bar@plt", "mycrate::foo::bar@plt" },
		/* C++ */
		{ "_ZNSt6thread4joinEv@plt", "std::thread::join()@plt" },
		{ "_ZNSt6thread4joinEv@GLIBCXX_3.4", "std::thread::join()@GLIBCXX_3.4" },
		{ "_ZNSt6thread4joinEv@@GLIBCXX_3.4", "std::thread::join()@@GLIBCXX_3.4" },
		{ "_ZN3foo3barEi.cold", "foo::bar(int) [clone .cold]" },
		{ "_ZN3foo3barEi.cold.12", "foo::bar(int) [clone .cold.12]" },
		{ "_ZN3foo3barEi.cold@plt", "foo::bar(int) [clone .cold]@plt" },
		{ "_ZN3foo3barEi.part.0", "foo::bar(int) [clone .part.0]" },
		{ "_ZN3foo3barEi.isra.0", "foo::bar(int) [clone .isra.0]" },
		{ "_ZN3foo3barEi.constprop.0", "foo::bar(int) [clone .constprop.0]" },
		{ "_ZN3foo3barEi.constprop.0.isra.0", "foo::bar(int) [clone .constprop.0] [clone .isra.0]" },
		{ "_ZN3foo3barEi.lto_priv.0", "foo::bar(int) [clone .lto_priv.0]" },
		{ "_ZN3foo3barEi.__uniq.123", "foo::bar(int) [clone .__uniq.123]" },
		{ "_ZN3foo3barEi.llvm.123", "foo::bar(int) [clone .llvm.123]" },
		{ "_ZN3foo3barEi.llvm.123.cold", "foo::bar(int) [clone .llvm.123] [clone .cold]" },
		{ "_ZN3foo3barEi.llvm.8C9F03C97FA8C4B5", "foo::bar(int) [clone .llvm.8C9F03C97FA8C4B5]" },
		{ "_ZN3foo3barEi [clone .cold]", NULL }, /* not a symbol; what is demangled already stays as it is */
		/* C */
		{ "main.cold", NULL },
		{ "_exit@plt", NULL },
	};
#undef HASH
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		check_demangle(names[i][0], names[i][1]);
}

static void check_code(struct perfmap *m, uint64_t address, const char *name)
{
	struct buf b = { 0 };
	bool found = perfmap_lookup(m, address, &b);
	assert_int_equal(found, *name != 0);
	if (found)
		assert_string_equal(b.ptr, name);
	buf_free(&b);
}

static void test_perfmap(void **state)
{
	struct perfmap m;
	perfmap_init(&m);
	assert_true(perfmap_append(&m, VIEW("7f00 10 old\n0x7f00 0x20 LazyCompile:new x.js:1\nzz 1 bad\n8000 0 empty\n9000 8 ha")));
	check_code(&m, 0x7f05, "LazyCompile:new x.js:1");
	check_code(&m, 0x7f1f, "LazyCompile:new x.js:1");
	check_code(&m, 0x7f20, "");
	check_code(&m, 0x9000, "");
	assert_true(perfmap_append(&m, VIEW("lf\n7f10 4 newest\n")));
	check_code(&m, 0x9000, "half");
	check_code(&m, 0x7f11, "newest");
	check_code(&m, 0x7f14, "LazyCompile:new x.js:1");
	perfmap_free(&m);
}

/* A line without an end is passed over whole, also what stands behind its first part; names are cut. */
static void test_perfmap_long_lines(void **state)
{
	struct perfmap m;
	struct buf text = { 0 }, name = { 0 };
	perfmap_init(&m);
	buf_puts(&text, "1000 10 ");
	for (int i = 0; i < 100000; i++)
		buf_puts(&text, "a\t7000 10 x");
	buf_puts(&text, "\n2000 10 ");
	for (int i = 0; i < 5000; i++)
		buf_putc(&text, 'b');
	buf_puts(&text, "\n3000 10 last\n");
	assert_true(perfmap_append(&m, buf_view(&text)));
	check_code(&m, 0x1000, "");
	check_code(&m, 0x7000, "");
	check_code(&m, 0x3000, "last");
	assert_true(perfmap_lookup(&m, 0x2000, &name));
	assert_int_equal(name.len, PERFMAP_NAME_MAX);
	assert_false(m.full);
	buf_free(&text);
	buf_free(&name);
	perfmap_free(&m);
}

/* Code that is replaced all the time does not fill the map; so much code at once does. */
static void test_perfmap_limits(void **state)
{
	struct perfmap m;
	struct buf text = { 0 };
	perfmap_init(&m);
	for (unsigned i = 0; i < PERFMAP_MAX_ENTRIES * 2 + 10; i++)
		buf_printf(&text, "%x 10 f%u\n", 0x1000 + (i % 1000) * 16, i);
	assert_true(perfmap_append(&m, buf_view(&text)));
	assert_false(m.full);
	check_code(&m, 0x1000 + 9 * 16, "f400009");
	perfmap_free(&m);
	perfmap_init(&m);
	buf_reset(&text);
	for (unsigned i = 0; i < PERFMAP_MAX_ENTRIES + 10; i++)
		buf_printf(&text, "%x 10 f%u\n", 0x1000 + i * 16, i);
	assert_true(perfmap_append(&m, buf_view(&text)));
	assert_true(m.full);
	assert_true(perfmap_bytes(&m) < (size_t)8 << 20);
	check_code(&m, 0x1000, "f0");
	buf_free(&text);
	perfmap_free(&m);
}

__attribute__((noinline)) void names_test_marker(void);
void names_test_marker(void)
{
	__asm__ volatile("nop; nop");
}

static void test_symtab_of_myself(void **state)
{
	struct symtab t;
	struct err e;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(symtab_build(&t, fd, NULL, NULL, &e), 0);
	uint64_t at, start;
	assert_true(symtab_find(fd, "names_test_marker", &at));
	struct buf name = { 0 };
	assert_true(symtab_lookup(&t, at + 1, &name, &start));
	assert_string_equal(name.ptr, "names_test_marker");
	assert_true(start == at);
	buf_reset(&name);
	assert_false(symtab_lookup(&t, 1, &name, &start));
	buf_free(&name);
	symtab_free(&t);
	close(fd);
}

/* A file of a few hundred KB whose symbols have as long names as there are, no two the same: windows of one text. */
#define LONG_NAMES 7000u
struct long_names {
	Elf64_Ehdr eh;
	Elf64_Phdr ph;
	Elf64_Shdr sh[4];
	char names[32], text[LONG_NAMES + 2 * SYMTAB_NAME_MAX];
	Elf64_Sym sym[LONG_NAMES];
};

static struct long_names *make_long_names(void)
{
	struct long_names *f = NEW(struct long_names);
	uint64_t seed = 1;

	f->eh = (Elf64_Ehdr){ .e_type = ET_DYN, .e_machine = EM_X86_64, .e_phoff = offsetof(struct long_names, ph),
			      .e_shoff = offsetof(struct long_names, sh), .e_phentsize = sizeof f->ph, .e_phnum = 1,
			      .e_shentsize = sizeof *f->sh, .e_shnum = ARRAY_LEN(f->sh), .e_shstrndx = 3 };
	memcpy(f->eh.e_ident, ELFMAG "\2\1\1", 7);
	f->ph = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = 0x1000, .p_memsz = 16 * LONG_NAMES };
	memcpy(f->names, "\0.symtab\0.strtab\0.shstrtab", 27);
	f->sh[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_SYMTAB, .sh_link = 2, .sh_entsize = sizeof *f->sym,
				 .sh_offset = offsetof(struct long_names, sym), .sh_size = sizeof f->sym };
	f->sh[2] = (Elf64_Shdr){ .sh_name = 9, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct long_names, text),
				 .sh_size = sizeof f->text };
	f->sh[3] = (Elf64_Shdr){ .sh_name = 17, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct long_names, names),
				 .sh_size = sizeof f->names };
	for (size_t i = 0; i < sizeof f->text; i++)
		f->text[i] = (char)('a' + (seed = hash_u64(seed)) % 26);
	for (uint32_t i = 0; i < LONG_NAMES; i++)
		f->sym[i] = (Elf64_Sym){ .st_name = i, .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), .st_shndx = 1,
					 .st_value = 0x1000 + 16 * i, .st_size = 16 };
	return f;
}

static struct image *long_names_image(void)
{
	struct long_names *file = make_long_names();
	struct image *im = NEW(struct image);
	struct err e = { 0 };
	int fd = tempfile_open("names_test", &e);

	assert_true(fd >= 0 && tempfile_write(fd, file, sizeof *file));
	free(file);
	atomic_store(&im->refs, 1);
	atomic_store(&im->fd, fd);
	im->path = xstrdup("/long");
	return im;
}

/* Whoever asks for names of a file that takes long to read goes on without; later they are there. */
static void test_names_follow(void **state)
{
	struct err e = { 0 };
	struct symbolizer *s = symbolizer_new(&(struct symbolizer_options){ .patience_ms = 1 }, &e);
	struct image *im = long_names_image();
	struct window_frame f = { .kind = FRAME_USER, .image = im, .addr = 0x1000 };
	struct sym_frame out[SYM_FRAMES_MAX];
	size_t n;

	symbolizer_begin(s);
	assert_int_equal(symbolizer_resolve(s, &f, out), 0);
	for (int i = 0; !(n = symbolizer_resolve(s, &f, out)) && i < 6000; i++)
		clock_sleep_ms(10);
	assert_int_equal(n, 1);
	assert_int_equal(out[0].name.len, SYMTAB_NAME_MAX);
	symbolizer_end(s);
	/* One that ends while a file is being read, and others wait. */
	struct symbolizer *other = symbolizer_new(&(struct symbolizer_options){ .patience_ms = 1 }, &e);
	struct image *more = long_names_image();
	assert_true(symbolizer_want(other, im));
	assert_true(symbolizer_want(other, more));
	symbolizer_free(other);
	image_unref(more);
	symbolizer_free(s);
	image_unref(im);
}

/* Names take no more memory than there is for them, whatever files say, and are there again for the next profile. */
static void test_names_are_bounded(void **state)
{
	struct err e = { 0 };
	struct symbolizer *s = symbolizer_new(&(struct symbolizer_options){ .patience_ms = 60000 }, &e);
	struct image *im = long_names_image();
	struct sym_frame out[SYM_FRAMES_MAX];
	struct symbolizer_stats st;
	size_t named = 0;

	symbolizer_begin(s);
	struct window_frame f = { .kind = FRAME_USER, .image = im };
	for (uint32_t i = 0; i < LONG_NAMES; i++) {
		f.addr = 0x1000 + 16 * i;
		size_t n = symbolizer_resolve(s, &f, out);
		assert_true(n == 0 || out[0].name.len == SYMTAB_NAME_MAX);
		named += n;
	}
	symbolizer_stats(s, &st);
	assert_in_range(named, 1000, LONG_NAMES - 1);
	assert_int_equal(st.over_budget, LONG_NAMES - named);
	assert_in_range(st.strings_bytes, 8 << 20, 56 << 20);
	assert_in_range(st.tables_bytes, (uint64_t)LONG_NAMES * SYMTAB_NAME_MAX, 128 << 20);
	symbolizer_end(s);
	symbolizer_begin(s);
	assert_int_equal(symbolizer_resolve(s, &f, out), 1);
	symbolizer_end(s);
	symbolizer_free(s);
	image_unref(im);
}

static void test_kallsyms_text(void **state)
{
	char path[] = "/tmp/pyrrha-kallsyms-XXXXXX";
	int fd = mkstemp(path);
	static const char text[] = "ffffffff81000000 T _stext\nffffffff81000100 t do_one\nffffffff81000200 D data\n"
				   "ffffffffc0001000 t mod_fn\t[ext4]\n";
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	struct kallsyms k;
	struct err e;
	assert_int_equal(kallsyms_load(&k, path, &e), 0);
	assert_true(k.stext == 0xffffffff81000000);
	struct buf name = { 0 };
	uint64_t start;
	assert_true(symtab_lookup(&k.tab, 0xffffffff81000180, &name, &start));
	assert_string_equal(name.ptr, "do_one");
	buf_reset(&name);
	assert_true(symtab_lookup(&k.tab, 0xffffffffc0001010, &name, &start));
	assert_string_equal(name.ptr, "mod_fn [ext4]");
	kallsyms_free(&k);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, "0000000000000000 T _stext\n", 26, 0), 26);
	assert_int_equal(kallsyms_load(&k, path, &e), -ERR_DENIED);
	buf_free(&name);
	close(fd);
	unlink(path);
}

/* Whether the two inlined calls of the program below are told at an address of its main. */
static bool tells_calls(struct dwarf_index *x, uint64_t pc)
{
	struct buf text = { 0 };
	struct dwarf_frame fr[8];
	size_t n = dwarf_index_lookup(x, pc, &text, fr, 8);
	bool told = n == 3 && strcmp(text.ptr + fr[0].name, "deep") == 0 && fr[0].line == 6 && fr[0].start_line == 3 &&
		    strcmp(text.ptr + fr[1].name, "mid") == 0 && fr[1].line == 11 && fr[2].line == 16 &&
		    strstr(text.ptr + fr[2].file, "prog.c");
	buf_free(&text);
	return told;
}

/* Of a C program with an inlined call lines and calls are known: from debug information in it, or in a .dwo file beside it. */
static void check_dwarf(const struct build_place *p, const char *name)
{
	char cached[128];
	int fd = open_file(p, "prog");
	struct dwarf_index x;
	struct err e;
	uint64_t at;
	bool partly;

	snprintf(cached, sizeof cached, "%s/%s.index", p->dir, name);
	for (int again = 0; again < 2; again++) { /* made, then taken from where it was kept */
		assert_int_equal(dwarf_index_make(&x, fd, cached, NULL, NULL, &partly, &e), 0);
		assert_true(symtab_find(fd, "main", &at));
		int saw = 0;
		for (uint64_t pc = at; pc < at + 80; pc++)
			saw += tells_calls(&x, pc);
		assert_true(saw > 0);
		dwarf_index_close(&x);
	}
	close(fd);
}

static void test_dwarf(void **state)
{
	struct build_place p = place_new();
	write_file(&p, "prog.c",
		   "volatile int x;\n\nstatic inline __attribute__((always_inline)) void deep(int n)\n{\n\tfor (int i = 0; i < n; i++)\n"
		   "\t\tx += i;\n}\n\nstatic inline __attribute__((always_inline)) void mid(int n)\n{\n\tdeep(n);\n}\n\n"
		   "int main(int argc, char **argv)\n{\n\tmid(argc);\n\treturn x;\n}\n");
	bool built = shell(&p, "cc -g -O1 -o prog prog.c");
	if (built)
		check_dwarf(&p, "whole");
	/* Stacks of threads are inherited, and are none of the helper's memory. */
	void *stacks = mmap(NULL, (size_t)256 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(stacks != MAP_FAILED);
	if (built)
		check_dwarf(&p, "beside");
	munmap(stacks, (size_t)256 << 20);
	if (built && shell(&p, "cc -g -gsplit-dwarf -O1 -o prog prog.c && ls *.dwo"))
		check_dwarf(&p, "split");
	place_end(&p, built, "compiler");
}

#define CALLS 200000u

/* An index whose first call says that it is as wide as all the text: the others are many, and look-ups bounded all the same. */
static void test_dwarf_wide_call(void **state)
{
	struct dwarf_header h = { DWARF_MAGIC, DWARF_VERSION, 0, CALLS, sizeof h + CALLS * sizeof(struct dwarf_call) };
	struct dwarf_call *calls = xcalloc(CALLS, sizeof *calls);
	struct dwarf_frame out[DWARF_INDEX_DEPTH + 1];
	struct dwarf_index x;
	struct buf text = { 0 };
	struct err e = { 0 };
	int fd = tempfile_open("names_test", &e);

	for (uint32_t i = 0; i < CALLS; i++)
		calls[i] = (struct dwarf_call){ .lo = 0x1000 + 16 * i, .hi = 0x1000 + 16 * i + (i ? 8 : 16 * CALLS), .name = 1, .depth = i > 0,
						.widest = UINT32_MAX };
	assert_true(tempfile_write(fd, &h, sizeof h) && tempfile_write(fd, calls, CALLS * sizeof *calls) && tempfile_write(fd, "\0call", 6));
	assert_int_equal(dwarf_index_open(&x, fd, &e), 0);
	assert_int_equal(dwarf_index_lookup(&x, calls[100].lo + 1, &text, out, ARRAY_LEN(out)), 3);
	assert_int_equal(dwarf_index_lookup(&x, calls[CALLS - 1].lo + 1, &text, out, ARRAY_LEN(out)), 0);
	buf_free(&text);
	dwarf_index_close(&x);
	free(calls);
}

/* Says whether a function's name is found in the stripped, position-dependent program. */
static bool has_name(const struct build_place *p, const char *want)
{
	char path[128];
	struct symtab t;
	struct err e;
	int fd = open_file(p, "prog");
	struct buf name = { 0 };
	uint64_t start;
	snprintf(path, sizeof path, "%s/prog", p->dir);
	assert_int_equal(symtab_build(&t, fd, path, NULL, &e), 0);
	bool found = false;
	for (uint64_t at = 0x400000; at < 0x404000 && !found; at += 8) {
		buf_reset(&name);
		found = symtab_lookup(&t, at, &name, &start) && strcmp(name.ptr, want) == 0;
	}
	buf_free(&name);
	symtab_free(&t);
	close(fd);
	return found;
}

static bool named(const struct build_place *p)
{
	return has_name(p, "only_in_debug_file");
}

#define BUILD(id) "cc -O1 -no-pie -Wl,--build-id=" id " -o prog prog.c && objcopy --only-keep-debug prog prog.debug && " \
	"strip prog && objcopy --add-gnu-debuglink=prog.debug prog"

/* By build-id or, without one, by checksum; in either of two places; and nothing that belongs to another file. */
static void test_debuglink(void **state)
{
	struct build_place p = place_new();
	bool built = shell(&p, "echo 'static __attribute__((noinline)) int only_in_debug_file(int n) { __asm__ volatile(\"\"); "
				"return n; } int main(int c, char **v) { return only_in_debug_file(c); }' >prog.c; " BUILD("sha1"));
	if (built) {
		assert_true(named(&p));
		assert_true(shell(&p, "mkdir .debug && mv prog.debug .debug"));
		assert_true(named(&p));
		assert_true(shell(&p, "mv .debug/prog.debug mine.debug; " BUILD("0x0123456789abcdef") " && mv mine.debug prog.debug"));
		assert_false(named(&p));
		assert_true(shell(&p, BUILD("none")));
		assert_true(named(&p));
		assert_true(shell(&p, "printf x >>prog.debug"));
		assert_false(named(&p));
		assert_true(shell(&p, "rm prog.debug && mkfifo prog.debug"));
		assert_false(named(&p));
	}
	place_end(&p, built, "compiler");
}

/* Stubs of all layouts have the name of what they call. */
static void test_plt(void **state)
{
	static const char *const flags[] = {
		"-fcf-protection=none -Wl,-z,lazy", "-fcf-protection=none -Wl,-z,now", "-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,lazy",
		"-fcf-protection=full -Wl,-z,ibtplt -Wl,-z,now",
	};
	struct build_place p = place_new();
	char cmd[512];
	bool built = shell(&p, "echo '#include <stdlib.h>\nint main(int c, char **v) { return getenv(v[0]) != 0; }' >prog.c");
	for (size_t i = 0; built && i < ARRAY_LEN(flags); i++) {
		snprintf(cmd, sizeof cmd, "cc -O1 -no-pie %s -o prog prog.c && strip prog", flags[i]);
		built = shell(&p, cmd);
		if (built && !has_name(&p, "getenv@plt"))
			fail_msg("no getenv@plt with %s", flags[i]);
	}
	place_end(&p, built, "compiler");
}

/* What child_wait says of a child that ends at once, or never; it is gone afterwards. */
static int wait_for_child(bool ends, int64_t deadline_ms, const atomic_bool *stop, int *ret_status)
{
	struct err e;
	pid_t pid = child_start("the child", &e);

	assert_true(pid >= 0);
	if (pid == 0) {
		while (!ends)
			pause();
		_exit(7);
	}
	int rc = child_wait(pid, deadline_ms, stop, NULL, "the child", ret_status, &e);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
	return rc;
}

/* A helper that takes long does not keep the agent from stopping. */
static void test_child(void **state)
{
	atomic_bool stop = false;
	int status;

	assert_int_equal(wait_for_child(true, 60000, &stop, &status), 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	assert_int_equal(wait_for_child(false, 40, NULL, &status), -ERR_TIMEOUT);
	atomic_store(&stop, true);
	assert_int_equal(wait_for_child(false, 3600000, &stop, &status), -ERR_CANCELED);
}

/* A helper that computes all the time gets its share of a CPU, and what it takes is counted. */
static void test_child_pace(void **state)
{
	struct child_pace pace;
	atomic_bool stop = false;
	struct err e;
	int status;

	child_pace_init(&pace, 0.25);
	pace.credit_ns = 5e7;
	int64_t begin = clock_mono_ms();
	pid_t pid = child_start("the child", &e);
	assert_true(pid >= 0);
	for (volatile unsigned long n = 0; pid == 0; n++) {
	}
	/* The deadline is of the time that it is let run. */
	assert_int_equal(child_wait(pid, 300, &stop, &pace, "the child", &status, &e), -ERR_TIMEOUT);
	double spent_ms = (double)atomic_load(&pace.spent_ns) / 1e6;
	int64_t took_ms = clock_mono_ms() - begin;
	print_message("  %.0f ms of CPU time in %lld ms\n", spent_ms, (long long)took_ms);
	assert_true(spent_ms > 0 && spent_ms < 50 + 0.25 * (double)took_ms + 150); /* it is looked at every 20 ms, or later */
	assert_true(took_ms >= 300); /* how much more depends on what else the machine does */
}

/* A process as large as an agent, or one with a sanitizer, computes for a while in fork itself. */
static bool slow_fork;

static void fork_slowly(void)
{
	for (int64_t until = clock_mono_ns() + 50000000; slow_fork && clock_mono_ns() < until;) {
	}
}

static char state_of(pid_t pid)
{
	char path[64], text[256] = "";

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (fd >= 0)
		close(fd);
	const char *paren = n > 0 ? strrchr(text, ')') : NULL;
	return paren && paren[1] ? paren[2] : 0;
}

static bool is_stopped(pid_t pid)
{
	for (int64_t until = clock_mono_ms() + 60000; state_of(pid) != 'T'; clock_sleep_ms(5))
		if (clock_mono_ms() > until)
			return false;
	return true;
}

/* A helper does not outlive an agent that is killed, not even one that is stopped because there is no share left for it. */
static void test_child_of_a_killed_agent(void **state)
{
	int ends[2], status;
	pid_t child;

	assert_int_equal(pthread_atfork(NULL, NULL, fork_slowly), 0);
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid_t agent = fork();
	assert_true(agent >= 0);
	if (agent == 0) {
		struct child_pace pace;
		struct err e;
		slow_fork = true;
		child = child_start("the child", &e);
		for (volatile unsigned long n = 0; child == 0; n++) {
		}
		if (write(ends[1], &child, sizeof child) != sizeof child)
			_exit(1);
		close(ends[1]);
		child_pace_init(&pace, 1e-6);
		pace.credit_ns = -1e9;
		_exit(child_wait(child, 60000, NULL, &pace, "the child", &status, &e) != 0);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &child, sizeof child), sizeof child);
	assert_true(child > 0);
	bool stopped = is_stopped(child);
	kill(agent, SIGKILL);
	assert_int_equal(waitpid(agent, &status, 0), agent);
	bool ended = poll(&(struct pollfd){ .fd = ends[0], .events = POLLIN }, 1, 10000) == 1; /* nobody has the other end */
	if (!ended)
		kill(child, SIGKILL);
	close(ends[0]);
	assert_true(stopped);
	assert_true(ended);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_demangle), cmocka_unit_test(test_demangle_suffixes), cmocka_unit_test(test_perfmap), cmocka_unit_test(test_perfmap_long_lines), cmocka_unit_test(test_perfmap_limits),
		cmocka_unit_test(test_symtab_of_myself), cmocka_unit_test(test_names_follow), cmocka_unit_test(test_names_are_bounded),
		cmocka_unit_test(test_kallsyms_text),
		cmocka_unit_test(test_dwarf), cmocka_unit_test(test_dwarf_wide_call), cmocka_unit_test(test_child), cmocka_unit_test(test_child_pace), cmocka_unit_test(test_child_of_a_killed_agent), cmocka_unit_test(test_debuglink), cmocka_unit_test(test_plt),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
