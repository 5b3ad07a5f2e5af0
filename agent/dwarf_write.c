/* SPDX-License-Identifier: Apache-2.0 */
/* dwarf_index_write: walks the units of a file with libdw. What does not fit a limit is left out and the index says less;
 * it never says something wrong. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/dwarf_index.h"
#include "agent/dwarf_private.h"
#include "agent/tempfile.h"
#include "base/map.h"
#include "base/vec.h"

#define NAMES_MAX ((size_t)1 << 30)
#define ROWS_MAX ((size_t)64 << 20)
#define DIE_DEPTH_MAX 256

struct writing {
	VEC(struct dwarf_row) rows;
	VEC(struct dwarf_call) calls;
	struct buf names;
	struct map index;        /* hash of a name -> at[] */
	VEC(uint32_t) at;
	Dwarf_Files *files;      /* of the unit at work */
	size_t n_files;
};

static uint32_t put_name(struct writing *w, const char *s)
{
	if (!s || !*s)
		return 0;
	struct view v = view_of(s);
	uint64_t h = hash_view(v);
	uint32_t id;
	for (size_t i = map_start(&w->index, h); map_probe(&w->index, h, &i, &id);)
		if (view_eqs(v, w->names.ptr + w->at.v[id]))
			return w->at.v[id];
	uint32_t at = (uint32_t)w->names.len;
	buf_put(&w->names, v.ptr, v.len);
	buf_putc(&w->names, 0);
	map_insert(&w->index, h, (uint32_t)w->at.n);
	vec_push(&w->at, at);
	return at;
}

static uint32_t put_file(struct writing *w, Dwarf_Word index)
{
	return index < w->n_files ? put_name(w, dwarf_filesrc(w->files, index, NULL, NULL)) : 0;
}

static void take_lines(struct writing *w, Dwarf_Die *unit)
{
	Dwarf_Lines *lines;
	size_t n;
	if (dwarf_getsrclines(unit, &lines, &n))
		return;
	for (size_t i = 0; i < n && w->rows.n < ROWS_MAX; i++) {
		Dwarf_Line *l = dwarf_onesrcline(lines, i);
		Dwarf_Addr addr;
		int line = 0;
		bool end = false;
		if (dwarf_lineaddr(l, &addr) || dwarf_lineno(l, &line) || dwarf_lineendsequence(l, &end) || !addr)
			continue;
		struct dwarf_row r = { addr, end ? 0 : put_name(w, dwarf_linesrc(l, NULL, NULL)), end || line < 0 ? 0 : (uint32_t)line };
		vec_push(&w->rows, r);
	}
}

static const char *linkage_name(Dwarf_Die *die)
{
	Dwarf_Attribute a;
	const char *s = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_linkage_name, &a));
	if (!s)
		s = dwarf_formstring(dwarf_attr_integrate(die, DW_AT_MIPS_linkage_name, &a));
	return s ? s : dwarf_diename(die);
}

static uint32_t number(Dwarf_Die *die, unsigned at, bool integrate)
{
	Dwarf_Attribute a;
	Dwarf_Word v;
	Dwarf_Attribute *found = integrate ? dwarf_attr_integrate(die, at, &a) : dwarf_attr(die, at, &a);
	return found && dwarf_formudata(found, &v) == 0 && v <= UINT32_MAX ? (uint32_t)v : 0;
}

static void take_inlined(struct writing *w, Dwarf_Die *die, uint32_t depth)
{
	struct dwarf_call c = {
		.name = put_name(w, linkage_name(die)), .start_line = number(die, DW_AT_decl_line, true),
		.call_file = put_file(w, number(die, DW_AT_call_file, false)), .call_line = number(die, DW_AT_call_line, false),
		.depth = depth,
	};
	Dwarf_Addr base, lo, hi;
	for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0;) {
		if (lo >= hi || w->calls.n >= ROWS_MAX)
			continue;
		c.lo = lo;
		c.hi = hi;
		vec_push(&w->calls, c);
	}
}

/* depth: of inlined calls around. */
static void walk(struct writing *w, Dwarf_Die *die, uint32_t depth, unsigned level)
{
	Dwarf_Die child;
	if (level > DIE_DEPTH_MAX || dwarf_child(die, &child))
		return;
	do {
		switch (dwarf_tag(&child)) {
		case DW_TAG_inlined_subroutine:
			if (depth < DWARF_INDEX_DEPTH)
				take_inlined(w, &child, depth);
			walk(w, &child, depth + 1, level + 1);
			break;
		case DW_TAG_subprogram:
			walk(w, &child, 0, level + 1);
			break;
		case DW_TAG_lexical_block:
		case DW_TAG_namespace:
		case DW_TAG_module:
		case DW_TAG_structure_type:
		case DW_TAG_class_type:
		case DW_TAG_union_type:
		case DW_TAG_enumeration_type:
		case DW_TAG_try_block:
		case DW_TAG_catch_block:
			walk(w, &child, depth, level + 1);
			break;
		default:
			break;
		}
	} while (dwarf_siblingof(&child, &child) == 0);
}

static void take_unit(struct writing *w, Dwarf_Die *unit, Dwarf_Die *split)
{
	take_lines(w, unit);
	if (dwarf_getsrcfiles(split, &w->files, &w->n_files))
		w->n_files = 0;
	walk(w, split, 0, 0);
}

static int row_order(const void *a, const void *b)
{
	const struct dwarf_row *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	/* An end of sequence stands before what begins at the same address; of several lines the last one counts. */
	return (x->line != 0) - (y->line != 0);
}

static int call_order(const void *a, const void *b)
{
	const struct dwarf_call *x = a, *y = b;
	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return (x->depth > y->depth) - (x->depth < y->depth);
}

static int write_out(struct writing *w, int fd, struct err *e)
{
	if (w->rows.n)
		qsort(w->rows.v, w->rows.n, sizeof *w->rows.v, row_order);
	if (w->calls.n)
		qsort(w->calls.v, w->calls.n, sizeof *w->calls.v, call_order);
	uint64_t widest = 0;
	for (size_t i = 0; i < w->calls.n; i++) {
		widest = MAX(widest, (w->calls.v[i].hi - w->calls.v[i].lo + 15) >> 4);
		w->calls.v[i].widest = (uint32_t)MIN(widest, (uint64_t)UINT32_MAX);
	}
	struct dwarf_header h = { DWARF_MAGIC, DWARF_VERSION, w->rows.n, w->calls.n, 0 };
	h.names_at = sizeof h + w->rows.n * sizeof *w->rows.v + w->calls.n * sizeof *w->calls.v;
	bool ok = !w->names.overflow && tempfile_write(fd, &h, sizeof h) && tempfile_write(fd, w->rows.v, w->rows.n * sizeof *w->rows.v) &&
		  tempfile_write(fd, w->calls.v, w->calls.n * sizeof *w->calls.v) && tempfile_write(fd, w->names.ptr, w->names.len);
	return ok ? 0 : err_set(e, ERR_IO, "cannot write the index");
}

/* The file's own DWARF, or that of its debug file. */
static Dwarf *open_dwarf(int fd, int *ret_debug_fd)
{
	Dwarf *d = dwarf_begin(fd, DWARF_C_READ);
	Dwarf_CU *cu = NULL;
	Dwarf_Die die;
	uint8_t type;
	if (d && dwarf_get_units(d, NULL, &cu, NULL, &type, &die, NULL) == 0)
		return d;
	elf_version(EV_CURRENT);
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	const void *id;
	ssize_t n = elf ? dwelf_elf_gnu_build_id(elf, &id) : -1;
	char path[128] = "/usr/lib/debug/.build-id/", *at = path + strlen(path);
	for (ssize_t i = 0; i < n && i < 32; i++)
		at += snprintf(at, 4, "%02x%s", ((const uint8_t *)id)[i], i ? "" : "/");
	snprintf(at, 8, ".debug");
	if (elf)
		elf_end(elf);
	if (d)
		dwarf_end(d);
	*ret_debug_fd = n > 2 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	return *ret_debug_fd >= 0 ? dwarf_begin(*ret_debug_fd, DWARF_C_READ) : NULL;
}

int dwarf_index_write(int elf_fd, int out_fd, struct err *e)
{
	struct writing w = { .names = { .max = NAMES_MAX } };
	int debug_fd = -1;
	Dwarf *d = open_dwarf(elf_fd, &debug_fd);
	buf_putc(&w.names, 0);
	if (d) {
		Dwarf_CU *cu = NULL;
		Dwarf_Die unit, split;
		uint8_t type;
		while (dwarf_get_units(d, cu, &cu, NULL, &type, &unit, &split) == 0)
			if (type == DW_UT_compile || type == DW_UT_skeleton || type == DW_UT_partial)
				take_unit(&w, &unit, type == DW_UT_skeleton && dwarf_tag(&split) ? &split : &unit);
		dwarf_end(d);
	}
	int rc = w.rows.n || w.calls.n ? write_out(&w, out_fd, e) : err_set(e, ERR_NOT_FOUND, "no debug information");
	if (debug_fd >= 0)
		close(debug_fd);
	vec_free(&w.rows);
	vec_free(&w.calls);
	vec_free(&w.at);
	map_free(&w.index);
	buf_free(&w.names);
	return rc;
}
