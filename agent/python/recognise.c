/* SPDX-License-Identifier: Apache-2.0 */
/* Which files are CPython, and where in the memory of a process that maps one the kernel finds its frames.
 *
 * A file is CPython by what it defines: _PyEval_EvalFrameDefault, which 3.6 and later have. From 3.11 on Py_Version says which version
 * it is; before, public functions do that a minor version brought and all later ones have. Names of files say nothing here.
 *
 * The code of the eval function is its symbol, and its cold part. That has a symbol only in files that are not stripped: it is where
 * jumps lead out of the function into an entry of .eh_frame that has a frame already when it begins. Functions that it jumps to as a
 * last call begin without one. The loop itself may be in the cold part: Debian's 3.13 to 3.15 have all of it there. */
#include <stdio.h>
#include <stdlib.h>

#include "agent/python/call_edges.h"
#include "agent/python/layout.h"
#include "agent/python/members.h"
#include "agent/python/thread_key.h"
#include "base/alloc.h"
#include "elf/elf_symbol.h"
#include "unwind/eh_frame.h"
#include "unwind/x86_insn.h"

#define EVAL_BYTES_MIN 8192u         /* an interpreter's loop has at least so much code; of 3.6 to 3.15 it is 31 to 85 KB */
#define EVAL_BYTES_MAX ((uint64_t)1 << 20)
#define TARGETS_MAX 256u             /* jumps out of it that are looked up */
#define DEBUG_OFFSETS_WORDS 57u
#define TYPE_BASIC_SIZE 32u          /* of PyTypeObject: tp_basicsize */

struct python_facts {
	const struct python_layout *layout;
	unsigned minor;
	uint64_t key_at, none_at;    /* virtual addresses; key_at: 0 from 3.15 on; none_at: 0 before 3.13 */
	int64_t tls_offset;          /* 3.15+: of the thread state, from the thread's own address */
	struct runtime_range edges[PYTHON_EDGES_MAX]; /* call_edges.h */
};

static bool read_at(const struct elf_file *f, uint64_t vaddr, void *to, size_t n)
{
	uint64_t offset, len;

	return elf_vaddr_offset(f, vaddr, &offset, &len) && len >= n && elf_read(f, offset, to, n);
}

static bool has(const struct elf_file *f, const char *name)
{
	Elf64_Sym s;
	return elf_symbol(f, name, &s);
}

/* major << 8 | minor; 0: cannot be told. */
static unsigned version_of(const struct elf_file *f)
{
	Elf64_Sym s;
	uint32_t v;

	if (elf_symbol(f, "Py_Version", &s))
		return read_at(f, s.st_value, &v, sizeof v) ? v >> 16 : 0;
	/* In 3.11 or later Py_Version is there. */
	static const char *const brought[] = { "PyModule_AddObjectRef", "PyFrame_GetCode", "PyCode_NewWithPosOnlyArgs",
					       "PyThread_tss_create" };
	for (unsigned i = 0; i < ARRAY_LEN(brought); i++)
		if (has(f, brought[i]))
			return 3 << 8 | (10 - i);
	return 3 << 8 | 6;
}

/* --- the code of the eval function --- */

static bool add_range(struct runtime_file *r, uint64_t start, uint64_t end)
{
	if (r->n_interpreter == RUNTIME_RANGES_MAX)
		return false;
	r->interpreter[r->n_interpreter++] = (struct runtime_range){ start, end };
	return true;
}

static bool in_ranges(const struct runtime_file *r, uint64_t at)
{
	for (unsigned i = 0; i < r->n_interpreter; i++)
		if (at >= r->interpreter[i].start && at < r->interpreter[i].end)
			return true;
	return false;
}

/* An entry whose code has a frame of its own already when it begins. */
static bool begins_within(const struct unwind_rule *rule)
{
	return (rule->cfa == CFA_SP && rule->cfa_off > 8) || rule->cfa == CFA_FP;
}

/* Adds the parts that the function's jumps lead to. */
static void add_cold_parts(const struct elf_file *f, const uint8_t *code, size_t n, uint64_t at, struct runtime_file *r)
{
	struct unwind_rule rule;
	struct x86_insn x;
	uint64_t start, end, others[TARGETS_MAX];
	unsigned n_others = 0;

	for (size_t i = 0; i < n; i += x.len) {
		if (!x86_insn(code + i, n - i, &x)) {
			x.len = 1;
			continue;
		}
		uint64_t to = at + i + x.len + (uint64_t)(int64_t)x.value;
		if ((x.kind != X86_JUMP && x.kind != X86_BRANCH) || !x.direct || in_ranges(r, to))
			continue;
		bool known = false;
		for (unsigned k = 0; k < n_others; k++)
			known |= others[k] == to;
		if (known || n_others == TARGETS_MAX)
			continue;
		if (eh_frame_entry(f, to, &start, &end, &rule) && end - start <= EVAL_BYTES_MAX && begins_within(&rule) &&
		    add_range(r, start, end))
			continue;
		others[n_others++] = to;
	}
}

static uint64_t bytes_of_ranges(const struct runtime_file *r)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < r->n_interpreter; i++)
		n += r->interpreter[i].end - r->interpreter[i].start;
	return n;
}

/* False: why_not says why there is none. */
static bool find_interpreter(const struct elf_file *f, const Elf64_Sym *eval, struct python_facts *x, struct runtime_file *r)
{
	AUTOFREE uint8_t *code = xmalloc(MIN(eval->st_size, EVAL_BYTES_MAX) + 1);
	if (eval->st_size > EVAL_BYTES_MAX || !read_at(f, eval->st_value, code, eval->st_size)) {
		snprintf(r->why_not, sizeof r->why_not, "the code of its eval function cannot be read");
		return false;
	}
	add_range(r, eval->st_value, eval->st_value + eval->st_size);
	add_cold_parts(f, code, eval->st_size, eval->st_value, r);
	r->one_function = true;
	if (bytes_of_ranges(r) < EVAL_BYTES_MIN) {
		snprintf(r->why_not, sizeof r->why_not, "its eval function has %llu bytes: no interpreter's loop, or one of tail calls",
			 (unsigned long long)bytes_of_ranges(r));
		return false;
	}
	uint16_t field = x->minor <= 10 ? x->layout->tstate_frame : x->layout->tstate_cframe;
	/* In 3.11 and 3.12 they are only where a C frame is not whole, which mostly shows. */
	if (x->minor > 12 || call_edges_find(code, eval->st_size, eval->st_value, x->minor, (uint8_t)field, x->edges) || x->minor > 10)
		return true;
	snprintf(r->why_not, sizeof r->why_not, "where its eval function begins and ends a call is not known");
	return false;
}

/* --- what it must be --- */

static bool is_debug_build(const struct elf_file *f)
{
	return has(f, "_Py_NegativeRefcount") || has(f, "_Py_RefTotal");
}

/* Files that are linked with glibc ask for versions of its symbols. */
static bool is_glibc(const struct elf_file *f)
{
	return elf_section(f, ".gnu.version_r") != NULL;
}

/* _Py_DebugOffsets, with which _PyRuntime begins from 3.13 on: what the file says itself about its layout. Words; a group begins with
 * the size of what it tells, and where groups lie differs by minor version. */
enum { OFFSETS_VERSION = 1, OFFSETS_FREE_THREADED };

static const struct offset_groups {
	uint8_t tstate_frame, frame, code;
	uint8_t frame_bytes;
} offset_groups[PYTHON_MINOR_LAST + 1] = {
	[13] = { 23, 28, 34, 80 },
	[14] = { 26, 31, 39, 88 },
	[15] = { 26, 39, 47, 88 },
};

static bool is_as_said(const uint64_t *w, const struct offset_groups *g, const struct python_layout *l)
{
	const uint64_t *frame = w + g->frame, *code = w + g->code;

	return w[g->tstate_frame] == l->tstate_frame && frame[0] == g->frame_bytes && frame[1] == l->frame_back && frame[2] == l->frame_code &&
	       frame[3] == l->frame_instr && frame[5] == l->frame_owner && code[1] == l->code_filename && code[2] == l->code_name &&
	       code[3] == l->code_qualname && code[4] == l->code_lines && code[5] == l->code_first_line && code[9] == l->code_bytes;
}

/* What the types' tables of members say: of code objects in all versions, of frames up to 3.10. */
static bool members_as_said(const struct elf_file *f, const struct python_layout *l)
{
	const struct member_offset code[] = {
		{ "co_argcount", l->code_argcount }, { "co_kwonlyargcount", l->code_kwonly }, { "co_flags", l->code_flags },
		{ "co_firstlineno", l->code_first_line }, { "co_filename", l->code_filename }, { "co_name", l->code_name },
		{ "co_qualname", l->code_qualname }, { "co_lnotab", l->code_lines }, { "co_linetable", l->code_lines },
	};
	const struct member_offset frame[] = { { "f_back", l->frame_back }, { "f_code", l->frame_code }, { "f_lasti", l->frame_instr } };
	bool is_object = l->tstate_frame && !l->frame_owner; /* PyFrameObject itself is the frame */
	unsigned found;

	return members_agree(f, "PyCode_Type", code, ARRAY_LEN(code), &found) &&
	       (!is_object || members_agree(f, "PyFrame_Type", frame, ARRAY_LEN(frame), &found));
}

static bool check_layout(const struct elf_file *f, const struct python_facts *x, const Elf64_Sym *runtime, struct runtime_file *r)
{
	uint64_t w[DEBUG_OFFSETS_WORDS], basic;
	Elf64_Sym code_type;

	if (!elf_symbol(f, "PyCode_Type", &code_type) || !read_at(f, code_type.st_value + TYPE_BASIC_SIZE, &basic, sizeof basic) ||
	    basic != x->layout->code_bytes) {
		snprintf(r->why_not, sizeof r->why_not, "its code objects have another size than those of 3.%u", x->minor);
		return false;
	}
	if (!members_as_said(f, x->layout)) {
		snprintf(r->why_not, sizeof r->why_not, "its layout is another than that of 3.%u", x->minor);
		return false;
	}
	if (x->minor < 13)
		return true;
	if (!read_at(f, runtime->st_value, w, sizeof w) || memcmp(w, "xdebugpy", 8) != 0 ||
	    w[OFFSETS_VERSION] >> 16 != (3u << 8 | x->minor)) {
		snprintf(r->why_not, sizeof r->why_not, "its _PyRuntime does not say what its layout is");
		return false;
	}
	if (w[OFFSETS_FREE_THREADED]) {
		snprintf(r->why_not, sizeof r->why_not, "a free-threaded build");
		return false;
	}
	if (!is_as_said(w, &offset_groups[x->minor], x->layout)) {
		snprintf(r->why_not, sizeof r->why_not, "its layout is another than that of 3.%u", x->minor);
		return false;
	}
	return true;
}

static bool find_key(const struct elf_file *f, const Elf64_Sym *runtime, struct python_facts *x)
{
	uint8_t code[THREAD_KEY_CODE_MAX];
	Elf64_Sym s;

	if (!elf_symbol(f, "PyGILState_GetThisThreadState", &s))
		return false;
	size_t n = (size_t)MIN(s.st_size, sizeof code);
	struct runtime_range range = { runtime->st_value, runtime->st_value + runtime->st_size };
	if (!read_at(f, s.st_value, code, n))
		return false;
	if (x->minor >= 15)
		return thread_tls_find(code, n, &x->tls_offset);
	return thread_key_find(code, n, s.st_value, range, &x->key_at);
}

/* Fills what naming needs, or why_not. */
static void examine(const struct elf_file *f, const Elf64_Sym *eval, struct runtime_file *r)
{
	struct python_facts *x = r->facts;
	Elf64_Sym runtime = { 0 }, none;

	x->minor = r->version & 255;
	x->layout = r->version >> 8 == 3 ? python_layout(x->minor) : NULL;
	if (!x->layout)
		snprintf(r->why_not, sizeof r->why_not, "version %u.%u: this agent knows 3.%d to 3.%d", r->version >> 8, x->minor,
			 PYTHON_MINOR_FIRST, PYTHON_MINOR_LAST);
	else if (x->minor >= 7 && !elf_symbol(f, "_PyRuntime", &runtime))
		snprintf(r->why_not, sizeof r->why_not, "it has no symbol _PyRuntime");
	else if (has(f, "_Py_MergeZeroLocalRefcount"))
		snprintf(r->why_not, sizeof r->why_not, "a free-threaded build");
	else if (is_debug_build(f))
		snprintf(r->why_not, sizeof r->why_not, "a debug build");
	else if (!is_glibc(f))
		snprintf(r->why_not, sizeof r->why_not, "its C library is not glibc (musl?)");
	else if (!check_layout(f, x, &runtime, r) || !find_interpreter(f, eval, x, r))
		return;
	else if (!find_key(f, &runtime, x))
		snprintf(r->why_not, sizeof r->why_not, "where it keeps its thread states is not known");
	else if (x->minor >= 13 && !elf_symbol(f, "_Py_NoneStruct", &none))
		snprintf(r->why_not, sizeof r->why_not, "it has no symbol _Py_NoneStruct");
	else if (x->minor >= 13)
		x->none_at = none.st_value;
}

struct runtime_file *python_recognise(const struct elf_file *f)
{
	Elf64_Sym eval;

	if (f->eh.e_machine != EM_X86_64 || !elf_symbol(f, "_PyEval_EvalFrameDefault", &eval))
		return NULL;
	struct runtime_file *r = NEW(struct runtime_file);
	r->facts = NEW(struct python_facts);
	r->version = version_of(f);
	snprintf(r->label, sizeof r->label, "cpython%u.%u", r->version >> 8 & 255, r->version & 255);
	examine(f, &eval, r);
	return r;
}

void python_free_file(struct runtime_file *r)
{
	free(r->facts);
	free(r);
}

int python_attach(const struct runtime_file *r, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e)
{
	const struct python_facts *x = r->facts;
	const struct python_layout *l = x->layout;

	(void)m, (void)e;
	*ret = (struct runtime_proc){ .python = {
		.key_at = x->key_at ? bias + x->key_at : 0, .tls_offset = x->tls_offset, .none_at = x->none_at ? bias + x->none_at : 0, .minor = (uint8_t)x->minor,
		.tstate_frame = l->tstate_frame, .tstate_cframe = l->tstate_cframe, .cframe_frame = l->cframe_frame,
		.cframe_previous = l->cframe_previous, .frame_code = l->frame_code, .frame_back = l->frame_back,
		.frame_instr = l->frame_instr, .frame_entry = l->frame_entry, .frame_owner = l->frame_owner,
		.code_check = l->code_check } };
	for (unsigned i = 0; i < PYTHON_EDGES_MAX; i++) {
		ret->python.edges[i].start = x->edges[i].start;
		ret->python.edges[i].end = x->edges[i].end;
	}
	return 0;
}
