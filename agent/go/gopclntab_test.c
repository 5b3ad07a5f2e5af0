/* SPDX-License-Identifier: Apache-2.0 */
/* Go's table of functions in programs that the Go of this machine makes, and with PYRRHA_LONG any other Go that was downloaded
 * here (GOTOOLCHAIN=go1.20.14 go version), in all forms that its linker knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>

#include "agent/go/built_program.h"
#include "agent/go/go_frame.h"
#include "agent/go/gopclntab.h"
#include "base/alloc.h"
#include "symbols/symtab.h"

#define GO "GOTOOLCHAIN=local GOFLAGS= GO111MODULE=off "

/* What is found at an address of outer below: its line, and whether the inlined call is told there. */
static bool tells_inlined(struct gopclntab *t, uint64_t pc)
{
	struct buf text = { 0 };
	struct gopclntab_frame fr[8];
	size_t n = gopclntab_lookup(t, pc, &text, fr, 8);
	bool inlined = false;
	if (n && fr[n - 1].line && strcmp(text.ptr + fr[n - 1].name, "main.outer") == 0) {
		assert_true(strstr(text.ptr + fr[n - 1].file, "main.go") || strstr(text.ptr + fr[n - 1].file, "cgo.go"));
		assert_in_range(fr[n - 1].line, 10, 16);
		inlined = n == 2 && strcmp(text.ptr + fr[0].name, "main.inlined") == 0 && fr[0].line == 6 && fr[1].line == 13;
	}
	buf_free(&text);
	return inlined;
}

struct go_rows {
	uint64_t wanted, last;       /* the address whose rule is looked for */
	size_t n;
	struct unwind_rule rule;
};

static int take_go_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct go_rows *g = arg;
	assert_true(!g->n++ || pc > g->last);
	g->last = pc;
	if (pc <= g->wanted)
		g->rule = *r;
	return 0;
}

static struct unwind_rule go_rule(const struct gopclntab *t, uint64_t lo, uint64_t hi, uint64_t pc)
{
	struct go_rows g = { .wanted = pc };
	struct eh_stats st = { 0 };

	assert_int_equal(go_frame_range(t, lo, hi, take_go_row, &g, &st), 0);
	assert_int_equal(st.bad, 0);
	assert_int_equal(st.rows, g.n);
	return g.rule;
}

static uint64_t symbol(int fd, const char *name)
{
	uint64_t at = 0;
	assert_true(symtab_find(fd, name, &at));
	return at;
}

/* The rules of functions at their beginnings, whatever piece of the text they are asked for with. */
static void check_go_rows(const struct gopclntab *t, int fd)
{
	uint64_t lo, hi, outer = symbol(fd, "main.outer"), goexit = symbol(fd, "runtime.goexit.abi0");

	assert_true(go_frame_text(t, &lo, &hi) && lo <= outer && outer < hi);
	for (uint64_t size = 64; size < 1 << 20; size *= 16) {
		struct unwind_rule r = go_rule(t, outer - MIN(size, outer - lo), outer + size, outer);
		assert_true(r.cfa == CFA_SP && r.cfa_off == 8 && r.fp == FP_SAME);
		r = go_rule(t, outer, outer + 64, outer + 30); /* in the midst of it */
		assert_true(r.cfa == CFA_SP && r.cfa_off >= 8);
		assert_int_equal(go_rule(t, goexit, goexit + size, goexit).cfa, CFA_STOP);
	}
	assert_int_equal(go_rule(t, lo, hi + 4096, hi).cfa, CFA_NONE);
	assert_int_equal(go_rule(t, lo, hi, symbol(fd, "runtime.mcall")).cfa, CFA_NONE); /* it goes to another stack */
}

static const char program[] =
	"package main\n\nimport \"os\"\n\nfunc inlined(n int) int {\n\treturn n*len(os.Args) + 1\n}\n\n"
	"//go:noinline\nfunc outer(n int) int {\n\ts := 0\n\tfor i := 0; i < n; i++ {\n\t\ts += inlined(i)\n\t}\n"
	"\treturn s\n}\n\nfunc main() {\n\tprintln(outer(3))\n}\n";

static bool find_function(const struct gopclntab *t, const char *name, struct gopclntab_func *ret)
{
	for (uint64_t i = 0; i < t->n_funcs; i++)
		if (gopclntab_func(t, i, ret) && gopclntab_is_called(t, ret, name))
			return true;
	return false;
}

/* What is known of main.outer: its lines, and the inlined call. */
static void check_outer(struct gopclntab *t)
{
	struct gopclntab_func f;
	bool saw_inlined = false;

	assert_true(find_function(t, "main.outer", &f));
	for (uint64_t pc = f.start; pc < f.end; pc++)
		saw_inlined |= tells_inlined(t, pc);
	assert_true(saw_inlined);
}

/* Of inlined calls that nothing tells of, not even the line is told: it would be the inlined function's. */
static void check_without_trees(struct gopclntab t, const struct gopclntab *whole)
{
	struct gopclntab_frame fr[8];
	struct buf text = { 0 };
	struct gopclntab_func f;

	t.gofunc = 0;
	assert_true(find_function(&t, "main.outer", &f));
	for (uint64_t pc = f.start; pc < f.end; pc++) {
		buf_reset(&text);
		bool is_inlined = gopclntab_lookup(whole, pc, &text, fr, 8) > 1;
		assert_int_equal(gopclntab_lookup(&t, pc, &text, fr, 8), 1);
		assert_string_equal(text.ptr + fr[0].name, "main.outer");
		assert_true(!is_inlined || (!fr[0].line && !text.ptr[fr[0].file]));
	}
	buf_free(&text);
}

/* Everything a table says of a function. */
static void describe(const struct gopclntab *t, const struct gopclntab_func *f, struct buf *out)
{
	struct gopclntab_frame fr[8];
	struct buf text = { 0 };

	for (uint64_t pc = f->start; pc < f->end; pc += 3) {
		buf_reset(&text);
		size_t n = gopclntab_lookup(t, pc, &text, fr, 8);
		for (size_t i = 0; i < n; i++)
			buf_printf(out, "%llu %s %s:%lld %lld\n", (unsigned long long)(pc - t->text_start), text.ptr + fr[i].name,
				   text.ptr + fr[i].file, (long long)fr[i].line, (long long)fr[i].start_line);
	}
	buf_free(&text);
}

static void check_same(const struct gopclntab *a, const struct gopclntab *b)
{
	struct gopclntab_func f, g;
	struct buf x = { 0 }, y = { 0 };

	assert_int_equal(a->n_funcs, b->n_funcs);
	for (uint64_t i = 0; i < a->n_funcs; i += 17) {
		buf_reset(&x);
		buf_reset(&y);
		assert_true(gopclntab_func(a, i, &f) && gopclntab_func(b, i, &g));
		describe(a, &f, &x);
		describe(b, &g, &y);
		buf_putc(&x, 0);
		buf_putc(&y, 0);
		assert_string_equal(x.ptr, y.ptr);
	}
	buf_free(&x);
	buf_free(&y);
}

/* How a program is linked. */
static const struct {
	const char *name, *flags, *link;
	bool cgo;
} forms[] = {
	{ "exe", "", "", false },
	{ "cgo, pie", "-buildmode=pie", "", true },
	/* with PYRRHA_LONG also */
	{ "pie", "-buildmode=pie", "", false },
	{ "cgo", "", "", true },
	{ "c-shared", "-buildmode=c-shared", "", true },
	{ "gold", "-buildmode=pie", "-linkmode=external -extldflags=-fuse-ld=gold", true },
	{ "lld", "-buildmode=pie", "-linkmode=external -extldflags=-fuse-ld=lld", true },
};

static bool is_long(void)
{
	return getenv("PYRRHA_LONG") && *getenv("PYRRHA_LONG");
}

static bool build(const struct build_place *p, const char *go, size_t form)
{
	const char *source = forms[form].cgo ? "cgo.go" : "main.go", *how = forms[form].link;
	char command[1024];

	snprintf(command, sizeof command, GO "CGO_ENABLED=%d %s build %s -ldflags='%s' -o prog %s && "
		 GO "CGO_ENABLED=%d %s build %s -ldflags='-s -w %s' -o prog.s %s",
		 forms[form].cgo, go, forms[form].flags, how, source, forms[form].cgo, go, forms[form].flags, how, source);
	return shell(p, command);
}

/* The program as it was linked, and stripped of symbols and debug information: the same is said of both. */
static void check_program(const struct build_place *p)
{
	struct gopclntab whole, stripped;
	struct err e;
	int fd = open_file(p, "prog"), stripped_fd = open_file(p, "prog.s");
	uint64_t at;

	if (gopclntab_open(&whole, fd, &e) || gopclntab_open(&stripped, stripped_fd, &e))
		fail_msg("%s", e.msg);
	assert_true(!symtab_find(stripped_fd, "go:func.*", &at) && !symtab_find(stripped_fd, "runtime.text", &at));
	assert_true(symtab_find(fd, "go:func.*", &at) || symtab_find(fd, "go.func.*", &at));
	assert_int_equal(whole.gofunc, at);
	assert_int_equal(whole.text_start, symbol(fd, "runtime.text"));
	check_outer(&whole);
	check_outer(&stripped);
	check_without_trees(stripped, &whole);
	check_same(&whole, &stripped);
	check_go_rows(&whole, fd);
	gopclntab_close(&whole);
	gopclntab_close(&stripped);
	close(fd);
	close(stripped_fd);
}

static size_t check_forms(const struct build_place *p, const char *go)
{
	size_t built = 0;

	for (size_t i = 0; i < (is_long() ? ARRAY_LEN(forms) : 2); i++) {
		if (!build(p, go, i)) {
			print_message("  %s: no %s\n", go, forms[i].name);
			continue;
		}
		print_message("  %s %s\n", go, forms[i].name);
		check_program(p);
		built++;
	}
	return built;
}

static void test_gopclntab(void **state)
{
	struct build_place p = place_new();
	char pattern[1024];
	glob_t others = { 0 };

	write_file(&p, "main.go", program);
	AUTOFREE char *cgo = xasprintf("package main; import \"C\"\n%s", strchr(program, '\n') + 1);
	write_file(&p, "cgo.go", cgo);
	size_t built = check_forms(&p, "go");
	snprintf(pattern, sizeof pattern, "%s/go/pkg/mod/golang.org/toolchain@*/bin/go", getenv("HOME") ? getenv("HOME") : "");
	if (is_long() && glob(pattern, 0, NULL, &others) == 0)
		for (size_t i = 0; i < others.gl_pathc; i++)
			built += check_forms(&p, others.gl_pathv[i]);
	globfree(&others);
	place_end(&p, built > 0, "go command");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_gopclntab) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
