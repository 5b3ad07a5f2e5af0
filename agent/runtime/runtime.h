/* SPDX-License-Identifier: Apache-2.0 */
/* What a language runtime (CPython, V8, HotSpot) is to the rest of the agent: a row of functions. Its frames have no names in any ELF
 * file. A file is recognised as one (drain thread), a process that maps it is described to the kernel (drain thread, or
 * the attacher's), the kernel walks its frames, and its objects are named (namer's thread). The rows are listed in managed/rows.h.
 *
 * All that is read of files and processes is hostile: each length, depth and loop has a bound of its own. */
#ifndef PYRRHA_AGENT_RUNTIME_H
#define PYRRHA_AGENT_RUNTIME_H

#include "agent/runtime/process_memory.h"
#include "base/buf.h"
#include "bpf/abi.h"
#include "elf/elf_file.h"

#define RUNTIME_RANGES_MAX 4

struct runtime;

/* ELF virtual addresses. */
struct runtime_range {
	uint64_t start, end;
};

/* What an image is as a runtime. Never changes once recognised, so that other threads may read it. */
struct runtime_file {
	const struct runtime *of;
	unsigned version;            /* major << 8 | minor */
	char label[24];              /* value of the process label `runtime`: "cpython3.11" */
	/* Where the native frames of its interpreter are: each of them runs frames of the runtime. */
	struct runtime_range interpreter[RUNTIME_RANGES_MAX];
	unsigned n_interpreter;
	bool one_function;           /* all of it is code of the function that the first range is */
	bool off;                    /* its frames are not wanted (--runtimes): then why_not says so */
	char why_not[120];           /* "": its frames are named; else why not (free-threaded build, unknown version) */
	void *facts;                 /* the runtime's own */
};

/* A call in a runtime's code. The views are into the record that it was read from. */
struct runtime_name {
	struct view name, system_name, file; /* system_name: as the runtime has it, before it was made readable */
	int64_t line, start_line;    /* 0 = not known */
};

struct runtime {
	enum runtime_kind kind;
	const char *name;            /* in flags and metrics: "python" */
	const char *mapping;         /* in profiles: "[python]" */
	const char *in_name;         /* what names of its files usually contain, which is no more than a hint */
	bool steps_interpreter;      /* its walk leads from the interpreter's native frames to their callers: no rules are needed */
	/* What this file is as a runtime, returns owned; NULL: not this one. Bounded work. Drain thread, once per image. */
	struct runtime_file *(*recognise)(const struct elf_file *f, const char *path);
	/* Frees what recognise returned; its facts, too. */
	void (*free_file)(struct runtime_file *f);
	/* What the kernel must know of a live process; *ret is set as a whole, but for exec_id. bias: where the file's virtual address 0
	 * is mapped. Only for files without why_not. ERR_UNAVAILABLE: the process has not got as far yet; ERR_NOT_FOUND: it is gone.
	 * What else read_code must know of the process goes into m->facts. */
	int (*attach)(const struct runtime_file *f, struct process_memory *m, uint64_t bias, struct runtime_proc *ret,
		      struct err *e) MUST_USE;
	bool attach_reads;           /* memory of the process, which may not answer: not on the drain thread */
	/* Reads one object of a live process into a record of the runtime's own format. m->facts is as attach has left it. The record
	 * says all that names need, without addresses: equal functions give equal bytes. ERR_NOT_FOUND: the process or its memory is
	 * gone; ERR_BAD_DATA: it is another object by now (check differs), or nonsense; ERR_LIMIT: larger than any sensible one. */
	int (*read_code)(const struct runtime_file *f, struct process_memory *m, uint64_t object, uint64_t check,
			 struct buf *ret_record, struct err *e) MUST_USE;
	/* The calls at `at` of a record, what was inlined innermost first; returns their number, 0 for a malformed record. */
	size_t (*frames_at)(const struct runtime_file *f, struct view record, uint64_t at, struct runtime_name *out, size_t max);
};

static inline void runtime_file_free(struct runtime_file *f)
{
	if (f)
		f->of->free_file(f);
}

#endif
