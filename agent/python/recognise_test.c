/* SPDX-License-Identifier: Apache-2.0 */
/* CPython is recognised in the files that are here: Debian's, which is stripped, and those of pyenv. What a file says is held against
 * its own symbol table, and against a running process: from its thread's registers the key leads to the frame that it runs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/python/layout.h"
#include "agent/python/members.h"
#include "agent/python/python.h"
#include "agent/python/thread_key.h"
#include "base/alloc.h"
#include "base/vec.h"
#include "elf/elf_symbol.h"
#include "symbols/symtab.h"
#include "unwind/proc_maps.h"

struct build {
	unsigned minor;
	char *program, *file;        /* file: what is recognised, the program itself or its library */
};

static struct builds { VEC(struct build) v; } builds;

static void add_build(const char *program, const char *file)
{
	const char *at = strstr(program, "/python3.");
	struct stat st;

	assert_non_null(at);
	unsigned minor = (unsigned)strtoul(at + strlen("/python3."), NULL, 10);
	if (stat(file, &st) == 0 && st.st_size > 1 << 20)
		vec_push(&builds.v, (struct build){ minor, xstrdup(program), xstrdup(file) });
}

/* The program, and the library that it may have beside it. */
static void add_program(const char *p)
{
	const char *at = strstr(p, "/bin/python");
	char *end, lib[512];

	if (!at)
		return;
	strtol(at + strlen("/bin/python3."), &end, 10);
	if (*end)
		return;
	add_build(p, p);
	for (const char *const *m = (const char *const[]){ "", "m", NULL }; *m; m++) {
		snprintf(lib, sizeof lib, "%.*s/lib/lib%s%s.so.1.0", (int)(at - p), p, at + strlen("/bin/"), *m);
		add_build(p, lib);
	}
}

/* $PYRRHA_PYTHONS: more of them, between colons, each in a folder bin. */
static void find_named(void)
{
	const char *more = getenv("PYRRHA_PYTHONS");
	AUTOFREE char *list = xstrdup(more ? more : "");

	for (char *save = NULL, *p = strtok_r(list, ":", &save); p; p = strtok_r(NULL, ":", &save))
		add_program(p);
}

/* Real programs only: /usr/bin/python3.11, and each version of pyenv's. */
static int find_builds(void **state)
{
	glob_t g;
	(void)state;

	find_named();

	for (unsigned minor = 6; minor <= 20; minor++) {
		char name[64];
		snprintf(name, sizeof name, "/usr/bin/python3.%u", minor);
		if (access(name, X_OK) == 0)
			add_build(name, name);
	}
	char pattern[512];
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
	snprintf(pattern, sizeof pattern, "%s%s/versions/3.*/bin/python3.?*", root ? root : home ? home : "", root ? "" : "/.pyenv");
	if (glob(pattern, 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++)
		add_program(g.gl_pathv[i]);
	globfree(&g);
	return 0;
}

static int forget_builds(void **state)
{
	(void)state;
	for (size_t i = 0; i < builds.v.n; i++) {
		free(builds.v.v[i].program);
		free(builds.v.v[i].file);
	}
	vec_free(&builds.v);
	return 0;
}

static struct runtime_file *recognise(const char *path)
{
	struct elf_file f;
	struct err e = { 0 };
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	if (elf_open(&f, fd, &e))
		fail_msg("%s: %s", path, e.msg);
	struct runtime_file *r = python_runtime.recognise(&f, path);
	elf_close(&f);
	close(fd);
	return r;
}

static void recognises_versions(void **state)
{
	(void)state;
	if (!builds.v.n)
		skip();
	for (size_t i = 0; i < builds.v.n; i++) {
		const struct build *b = &builds.v.v[i];
		char label[24];
		struct runtime_file *r = recognise(b->file);
		snprintf(label, sizeof label, "cpython3.%u", b->minor);
		if (!r)
			fail_msg("%s is not recognised", b->file);
		assert_string_equal(r->label, label);
		assert_int_equal(r->version, 3 << 8 | b->minor);
		assert_string_equal(r->why_not, "");
		runtime_file_free(r);
	}
}

/* The eval function's ranges are its symbol, and the entry of .eh_frame of each part that jumps of it lead to. In files with a symbol
 * table that is all of its code, but for cold parts of a few bytes that nothing jumps to. */
static void knows_the_code_of_the_loop(void **state)
{
	(void)state;
	if (!builds.v.n)
		skip();
	for (size_t i = 0; i < builds.v.n; i++) {
		struct runtime_file *r = recognise(builds.v.v[i].file);
		struct elf_file f;
		Elf64_Sym eval;
		uint64_t cold;
		int fd = open(builds.v.v[i].file, O_RDONLY | O_CLOEXEC);
		assert_int_equal(elf_open(&f, fd, NULL), 0);
		assert_true(elf_symbol(&f, "_PyEval_EvalFrameDefault", &eval));
		assert_true(r->interpreter[0].start == eval.st_value && r->interpreter[0].end == eval.st_value + eval.st_size);
		bool has_cold = symtab_find(fd, "_PyEval_EvalFrameDefault.cold", &cold);
		for (unsigned k = 1; k < r->n_interpreter; k++)
			assert_true(!elf_section(&f, ".symtab") || (has_cold && r->interpreter[k].start == cold));
		/* Debian's programs have all of their cold code in another place, its libraries have not. */
		if (!elf_section(&f, ".symtab") && strcmp(builds.v.v[i].file, builds.v.v[i].program) == 0)
			assert_true(r->n_interpreter > 1);
		elf_close(&f);
		close(fd);
		runtime_file_free(r);
	}
}

/* --- a running process --- */

static const char spinning[] =
	"import sys\n"
	"def spin():\n"
	"    n = 0\n"
	"    while True:\n"
	"        n += 1\n"
	"def outer():\n"
	"    spin()\n"
	"sys.stdout.write('x'); sys.stdout.flush()\n"
	"outer()\n";

/* The process, once it has written its byte; and its own thread's fsbase, stopped. */
static pid_t spawn(const char *program, uint64_t *ret_fsbase)
{
	struct user_regs_struct regs;
	int status, out[2];
	char c;

	assert_int_equal(pipe(out), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(out[1], 1);
		execl(program, program, "-S", "-c", spinning, (char *)NULL);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &c, 1), 1);
	close(out[0]);
	usleep(50000);
	assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, pid, NULL, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(ptrace(PTRACE_GETREGS, pid, NULL, &regs), 0);
	*ret_fsbase = regs.fs_base;
	return pid;
}

struct bias {
	const char *path;
	const struct elf_file *f;
	uint64_t ret;
};

static void take_map(void *arg, const struct proc_map *m)
{
	struct bias *b = arg;

	for (size_t i = 0; i < b->f->n_ph && strcmp(m->path, b->path) == 0; i++) {
		const Elf64_Phdr *p = &b->f->ph[i];
		if (p->p_type == PT_LOAD && p->p_flags & PF_X && m->file_offset == (p->p_offset & ~4095ull))
			b->ret = m->start - (p->p_vaddr & ~4095ull);
	}
}

/* Where the file's virtual address 0 is mapped. */
static uint64_t bias_of(pid_t pid, const char *path)
{
	struct elf_file f;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_open(&f, fd, NULL), 0);
	struct bias b = { path, &f, UINT64_MAX };
	assert_true(proc_maps_each((uint32_t)pid, take_map, &b));
	assert_true(b.ret != UINT64_MAX);
	elf_close(&f);
	close(fd);
	return b.ret;
}

static uint64_t word(struct process_memory *m, uint64_t at)
{
	uint64_t v;
	struct err e;
	if (process_memory_u64(m, at, &v, &e))
		fail_msg("%s", e.msg);
	return v;
}

/* The state of a thread, as pthread_getspecific of glibc finds it for one of the first 32 keys. */
static uint64_t thread_state(struct process_memory *m, const struct python_proc *p, uint64_t fsbase)
{
	uint32_t key;
	if (!p->key_at)
		return word(m, fsbase + (uint64_t)p->tls_offset);
	assert_int_equal(process_memory_u32(m, p->key_at, &key, NULL), 0);
	assert_true(key < 32);
	return word(m, fsbase + 0x310 + 16ull * key + 8);
}

static void read_name(struct process_memory *m, const struct python_layout *l, uint64_t code, char name[64])
{
	uint64_t str = word(m, code + l->code_name), len = word(m, str + 16);

	assert_true(len < 64);
	assert_int_equal(process_memory_read(m, str + l->ascii_data, name, len, NULL), 0);
	name[len] = 0;
}

/* spin, called by outer, called by the module. */
static void check_frames(struct process_memory *m, const struct python_proc *p, uint64_t tstate)
{
	static const char *const names[] = { "spin", "outer", "<module>" };
	const struct python_layout *l = python_layout(p->minor);
	uint64_t frame = p->tstate_frame ? word(m, tstate + p->tstate_frame) :
					   word(m, word(m, tstate + p->tstate_cframe) + p->cframe_frame);
	for (unsigned i = 0; i < ARRAY_LEN(names); i++, frame = word(m, frame + p->frame_back)) {
		char name[64];
		uint8_t owner = 0, entry = 0;
		uint64_t code = word(m, frame + p->frame_code) & ~7ull, instr = word(m, frame + p->frame_instr);
		if (p->frame_owner)
			assert_int_equal(process_memory_read(m, frame + p->frame_owner, &owner, 1, NULL), 0);
		if (p->frame_entry)
			assert_int_equal(process_memory_read(m, frame + p->frame_entry, &entry, 1, NULL), 0);
		assert_true(owner < 3);
		read_name(m, l, code, name);
		assert_string_equal(name, names[i]);
		assert_true(entry == (p->frame_entry && i == ARRAY_LEN(names) - 1));
		if (p->minor >= 11)
			assert_in_range(instr - code, l->code_bytes, l->code_bytes + 200);
		else
			assert_in_range((uint32_t)instr, 0, 200);
		/* The check is of the code's first line, and of what does not change. */
		uint32_t line;
		assert_int_equal(process_memory_u32(m, code + l->code_first_line, &line, NULL), 0);
		assert_int_equal(line, i == 0 ? 2 : i == 1 ? 6 : 1);
		assert_int_equal(word(m, code + p->code_check) >> 32, line);
	}
	if (p->minor >= 12) { /* below it is the entry's frame, which is no call */
		uint8_t owner;
		assert_int_equal(process_memory_read(m, frame + p->frame_owner, &owner, 1, NULL), 0);
		assert_int_equal(owner, 3);
		assert_true(!p->none_at || (word(m, frame + p->frame_code) & ~7ull) == p->none_at);
	} else {
		assert_int_equal(frame, 0);
	}
}

static void finds_frames_of_a_process(void **state)
{
	(void)state;
	if (!builds.v.n)
		skip();
	for (size_t i = 0; i < builds.v.n; i++) {
		const struct build *b = &builds.v.v[i];
		struct runtime_file *r = recognise(b->file);
		struct process_memory m;
		struct runtime_proc p;
		struct err e;
		uint64_t fsbase;
		pid_t pid = spawn(b->program, &fsbase);
		assert_int_equal(process_memory_open(&m, (uint32_t)pid, 1000, 1 << 20, &e), 0);
		if (python_runtime.attach(r, &m, bias_of(pid, b->file), &p, &e))
			fail_msg("%s: %s", b->file, e.msg);
		check_frames(&m, &p.python, thread_state(&m, &p.python, fsbase));
		process_memory_close(&m);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		runtime_file_free(r);
	}
}

/* --- what is not named, and hostile files --- */

static uint8_t *read_whole(const char *path, size_t *ret_len)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	uint8_t *p = xmalloc((size_t)st.st_size);
	*ret_len = (size_t)st.st_size;
	for (size_t done = 0; done < *ret_len;) {
		ssize_t n = read(fd, p + done, *ret_len - done);
		assert_true(n > 0);
		done += (size_t)n;
	}
	close(fd);
	return p;
}

static const struct build *newest(void)
{
	const struct build *b = NULL;
	for (size_t i = 0; i < builds.v.n; i++)
		if (!b || builds.v.v[i].minor > b->minor)
			b = &builds.v.v[i];
	return b;
}

static size_t offset_of(const struct elf_file *f, const char *symbol)
{
	Elf64_Sym s;
	uint64_t offset, len;
	assert_true(elf_symbol(f, symbol, &s));
	assert_true(elf_vaddr_offset(f, s.st_value, &offset, &len));
	return (size_t)offset;
}

static void expect_why_not(uint8_t *bytes, size_t n, const char *why)
{
	struct elf_file f;
	assert_int_equal(elf_open_mem(&f, bytes, n, NULL), 0);
	struct runtime_file *r = python_runtime.recognise(&f, "");
	assert_non_null(r);
	if (!strstr(r->why_not, why))
		fail_msg("\"%s\" does not say \"%s\"", r->why_not, why);
	runtime_file_free(r);
	elf_close(&f);
}

/* The types' own tables of members are read, from each file, wherever it is linked to lie; and what contradicts them is noticed. */
static void reads_tables_of_members(void **state)
{
	(void)state;
	if (!builds.v.n)
		skip();
	for (size_t i = 0; i < builds.v.n; i++) {
		const struct build *b = &builds.v.v[i];
		const struct python_layout *l = python_layout(b->minor);
		struct member_offset m[] = { { "co_name", l->code_name }, { "co_firstlineno", l->code_first_line },
					     { "co_filename", l->code_filename } };
		struct elf_file f;
		unsigned found;
		int fd = open(b->file, O_RDONLY | O_CLOEXEC);
		assert_int_equal(elf_open(&f, fd, NULL), 0);
		assert_true(members_agree(&f, "PyCode_Type", m, ARRAY_LEN(m), &found));
		assert_int_equal(found, ARRAY_LEN(m));
		m[1].offset += 4;
		assert_false(members_agree(&f, "PyCode_Type", m, ARRAY_LEN(m), &found));
		assert_true(members_agree(&f, "PyNone_Type", m, ARRAY_LEN(m), &found) && !found);
		elf_close(&f);
		close(fd);
	}
}

/* A file whose version or layout is another one is recognised, and not named. */
static void says_why_not(void **state)
{
	const struct build *b = newest();
	struct elf_file f;
	size_t n;
	uint32_t version;

	(void)state;
	if (!b || b->minor < 11)
		skip();
	AUTOFREE uint8_t *bytes = read_whole(b->file, &n);
	assert_int_equal(elf_open_mem(&f, bytes, n, NULL), 0);
	size_t at = offset_of(&f, "Py_Version"), type = offset_of(&f, "PyCode_Type"), key = offset_of(&f, "PyGILState_GetThisThreadState");
	elf_close(&f);
	memcpy(&version, bytes + at, 4);
	uint32_t other = 0x036300f0;
	memcpy(bytes + at, &other, 4);
	expect_why_not(bytes, n, "version 3.99");
	memcpy(bytes + at, &version, 4);
	bytes[type + 32]++;
	expect_why_not(bytes, n, "code objects");
	bytes[type + 32]--;
	uint8_t code[64];
	memcpy(code, bytes + key, sizeof code);
	memset(bytes + key, 0x90, sizeof code);
	expect_why_not(bytes, n, "thread states");
	memcpy(bytes + key, code, sizeof code);
	expect_why_not(bytes, n, "");
}

/* Damaged files: nothing is read out of bounds (sanitizers), nothing takes long. */
static void survives_damage(void **state)
{
	const struct build *b = newest();
	size_t n;
	unsigned seed = 1;

	(void)state;
	if (!b)
		skip();
	AUTOFREE uint8_t *bytes = read_whole(b->file, &n);
	AUTOFREE uint8_t *damaged = xmalloc(n);
	for (unsigned i = 0; i < 40; i++) {
		struct elf_file f;
		memcpy(damaged, bytes, n);
		for (unsigned k = 0; k < 2000; k++)
			damaged[64 + (size_t)rand_r(&seed) * (size_t)997 % (n - 64)] = (uint8_t)rand_r(&seed);
		if (elf_open_mem(&f, damaged, n - (size_t)rand_r(&seed) % 4096, NULL))
			continue;
		runtime_file_free(python_runtime.recognise(&f, ""));
		elf_close(&f);
	}
}

/* The forms in which compilers hand over the key. */
static void reads_the_key(void **state)
{
	static const struct { const char *what; uint8_t code[40]; size_t n; struct runtime_range runtime; uint64_t key; } rows[] = {
		{ "loaded from the variable (LTO)", { 0x8b, 0x3d, 0x50, 0x3d, 0x56, 0, 0xe9, 0, 0x10, 0, 0 }, 11,
		  { 0x500000, 0x600000 }, 0x564d56 },
		{ "address by the global offset table", { 0x48, 0x8b, 0x05, 0x00, 0x90, 0, 0, 0x48, 0x8d, 0xb8, 0x50, 2, 0, 0, 0xe9, 0, 0x10, 0, 0 }, 19,
		  { 0x500000, 0x600000 }, 0x500254 },
		{ "kept in rbx over a call", { 0x48, 0x8b, 0x05, 0x00, 0x90, 0, 0, 0x53, 0x48, 0x8d, 0x98, 0x08, 6, 0, 0, 0x48, 0x89, 0xdf,
		    0xe8, 0, 0x10, 0, 0 }, 23, { 0x500000, 0x600000 }, 0x50060c },
		{ "an immediate, of a program at a fixed address", { 0xbf, 0x10, 0x00, 0x55, 0x00, 0xe9, 0, 0x10, 0, 0 }, 10,
		  { 0x500000, 0x600000 }, 0x550014 },
		{ "a variable of its own (3.6)", { 0x8b, 0x3d, 0x80, 0x81, 0x13, 0, 0xe9, 0, 0x10, 0, 0 }, 11, { 0, 0 }, 0x139186 },
		{ "outside of _PyRuntime", { 0x8b, 0x3d, 0x50, 0x3d, 0x56, 0, 0xe9, 0, 0x10, 0, 0 }, 11, { 0x700000, 0x800000 }, 0 },
		{ "no argument", { 0x31, 0xc0, 0xc3 }, 3, { 0x500000, 0x600000 }, 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint64_t key = 0;
		bool ok = thread_key_find(rows[i].code, rows[i].n, 0x1000, rows[i].runtime, &key);
		if (ok != (rows[i].key != 0) || key != rows[i].key)
			fail_msg("%s: 0x%lx instead of 0x%lx", rows[i].what, (unsigned long)key, (unsigned long)rows[i].key);
		for (size_t n = 0; n < rows[i].n; n++) /* cut short */
			assert_false(thread_key_find(rows[i].code, n, 0x1000, rows[i].runtime, &key));
	}
}

/* The form in which a program reads its own thread-local variable; another one, and less of it, is none. */
static void reads_the_variable(void **state)
{
	static const uint8_t good[] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x64, 0x48, 0x8b, 0x04, 0x25, 0xd8, 0xff, 0xff, 0xff, 0xc3 },
			     by_call[] = { 0x55, 0x48, 0x89, 0xe5, 0x48, 0x8d, 0x3d, 0x61, 0xa6, 0x4a, 0, 0xe8, 0x5c, 0x9d, 0xcf, 0xff };
	int64_t at;

	(void)state;
	assert_true(thread_tls_find(good, sizeof good, &at) && at == -40);
	assert_true(thread_tls_find(good + 4, sizeof good - 4, &at) && at == -40);
	for (size_t n = 0; n < sizeof good; n++)
		assert_false(thread_tls_find(good, n, &at));
	assert_false(thread_tls_find(by_call, sizeof by_call, &at));
}

/* Files that define just what is looked for, with a cold part of the loop: they are here wherever the tests are. */
static void recognises_made_up_files(void **state)
{
	static const char *const names[] = { "python311", "python313" }, *const labels[] = { "cpython3.11", "cpython3.13" };
	const char *src = getenv("top_srcdir");

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		AUTOFREE char *path = xasprintf("%s/tests/fuzz/corpus/elf/%s", src ? src : ".", names[i]);
		struct runtime_file *r = recognise(path);
		assert_non_null(r);
		assert_string_equal(r->label, labels[i]);
		assert_string_equal(r->why_not, "");
		assert_int_equal(r->n_interpreter, 2);
		runtime_file_free(r);
	}
}

static void recognises_nothing_else(void **state)
{
	(void)state;
	assert_null(recognise("/proc/self/exe"));
	assert_null(recognise("/bin/sh"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recognises_versions),
		cmocka_unit_test(knows_the_code_of_the_loop),
		cmocka_unit_test(finds_frames_of_a_process),
		cmocka_unit_test(reads_tables_of_members),
		cmocka_unit_test(says_why_not),
		cmocka_unit_test(survives_damage),
		cmocka_unit_test(reads_the_key),
		cmocka_unit_test(reads_the_variable),
		cmocka_unit_test(recognises_made_up_files),
		cmocka_unit_test(recognises_nothing_else),
	};
	return cmocka_run_group_tests(tests, find_builds, forget_builds);
}
