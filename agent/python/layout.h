/* SPDX-License-Identifier: Apache-2.0 */
/* Where CPython has what, by minor version: offsets in bytes in its objects, of 64-bit release builds. The room's own header. */
#ifndef PYRRHA_AGENT_PYTHON_LAYOUT_H
#define PYRRHA_AGENT_PYTHON_LAYOUT_H

#include "agent/runtime/runtime.h"

#define PYTHON_MINOR_FIRST 6
#define PYTHON_MINOR_LAST 15

/* 0 where a version has no such field, unless the field's own comment says that 0 is its offset. */
struct python_layout {
	/* The thread state, PyThreadState. */
	uint16_t tstate_frame;       /* PyFrameObject, 3.13+ _PyInterpreterFrame; of the innermost call */
	uint16_t tstate_cframe;      /* 3.10 to 3.12: the innermost C frame, which lies in the eval function's own frame */
	uint16_t cframe_frame;       /* 3.11, 3.12: its innermost interpreter frame; may be 0 */
	uint16_t cframe_previous;
	/* A frame: PyFrameObject up to 3.10, then _PyInterpreterFrame. */
	uint16_t frame_code;         /* may be 0; 3.13+: any object, 3.14: with tags in the low bits */
	uint16_t frame_back;
	uint16_t frame_instr;        /* up to 3.10 an int, lasti (3.10: in units of 2 bytes), then a pointer to code units */
	uint16_t frame_entry;        /* 3.11: a byte, 1 = the last one of its C frame */
	uint16_t frame_owner;        /* 3.12+: a byte, 3 = stands for the entry into a C frame, or for where a thread begins; no call */
	/* PyCodeObject. */
	uint16_t code_bytes;         /* the basic size of the type; up to 3.10 all, later where the instructions begin */
	uint16_t code_check;         /* 8 bytes that tell a code object from another one at its address */
	uint16_t code_argcount, code_posonly, code_kwonly, code_flags, code_first_line; /* ints */
	uint16_t code_filename, code_name, code_qualname; /* strings; qualname 3.11+ */
	uint16_t code_lines;         /* bytes: lnotab up to 3.9, linetable */
	uint16_t code_code;          /* bytes: the instructions, up to 3.10; later they begin at code_bytes */
	bool short_count;            /* an object's count of references has 4 bytes, and flags follow; before, it has 8 */
	/* Strings and bytes. */
	uint16_t ascii_data, unicode_data; /* where the characters of a compact string begin */
	uint16_t bytes_data;
};

/* The table of 3.minor; NULL: not known. */
const struct python_layout *python_layout(unsigned minor);

/* The functions of the row; the row itself is set by its owner. */
struct runtime_file *python_recognise(const struct elf_file *f);
void python_free_file(struct runtime_file *f);
int python_attach(const struct runtime_file *f, struct process_memory *m, uint64_t bias, struct runtime_proc *ret,
		  struct err *e) MUST_USE;

/* code.c: the name, the file and the table of lines of a code object (runtime.h). */
int python_read_code(const struct runtime_file *f, struct process_memory *m, uint64_t object, uint64_t check, struct buf *ret_record,
		     struct err *e) MUST_USE;
size_t python_frames_at(const struct runtime_file *f, struct view record, uint64_t at, struct runtime_name *out, size_t max);

#endif
