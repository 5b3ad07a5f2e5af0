/* SPDX-License-Identifier: Apache-2.0 */
/* dwarf_index_write: walks the units of a file with libdw. Data beyond a limit is left out; the index may be incomplete, but never
 * wrong.
 *
 * Memory is bounded whatever the file's size: rows and calls are sorted in temporary files (spill.h), and names are written out at
 * once. libdw keeps what it read of each unit until its end, so it is regularly closed and opened again. If a single unit does not
 * fit, the walk ends: the index has the units before it. */
#include <dwarf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/vec.h"
#include "elf/elf_file.h"
#include "symbols/dwarf_index.h"
#include "symbols/dwarf_private.h"
#include "symbols/spill.h"
#include "symbols/tempfile.h"

#define NAMES_MAX ((size_t)1 << 30)
#define ROWS_MAX ((size_t)64 << 20)
#define DIE_DEPTH_MAX 256

#define ROWS_BUFFER ((size_t)4 << 20)
#define NAMES_KNOWN_MAX ((size_t)1 << 19) /* to find again; beyond that some are written twice */
#define NAME_MAX 4096
#define PENDING ((size_t)64 << 10)
#define LIBDW_BYTES_MAX ((size_t)24 << 20) /* then libdw is opened again */
#define UNITS_BYTES_MAX ((uint64_t)4 << 20) /* the same limit if memory cannot be measured: bytes of units in the file */

/* Names that were seen just now, by where libdw has them. */
struct seen {
	const char *s;
	uint32_t at;
};

struct writing {
	struct spill rows, calls;
	int names_fd;
	uint64_t names_written;
	struct buf pending;      /* names after those */
	struct map index;        /* hash of a name -> its offset */
	struct seen seen[4096];  /* valid until libdw is opened again */
	bool failed;             /* names could not be written */
	bool alone;              /* malloc's figures are of this walk alone */
	bool compressed;         /* the debug information: libdw unpacks whole sections of it in memory */
	Dwarf_Files *files;      /* of the unit at work */
	size_t n_files;
};

static void write_pending(struct writing *w)
{
	w->failed |= !tempfile_write(w->names_fd, w->pending.ptr, w->pending.len);
	w->names_written += w->pending.len;
	buf_reset(&w->pending);
}

/* Whether a name that was written is this one. */
static bool is_name(const struct writing *w, uint32_t at, struct view v)
{
	char s[NAME_MAX];

	if (at >= w->names_written)
		return view_eqs(v, w->pending.ptr + (at - w->names_written));
	return v.len < sizeof s && pread(w->names_fd, s, v.len + 1, at) == (ssize_t)v.len + 1 && !s[v.len] && memcmp(s, v.ptr, v.len) == 0;
}

static uint32_t add_name(struct writing *w, struct view v)
{
	uint64_t h = hash_view(v);
	uint32_t at;

	for (size_t i = map_start(&w->index, h); map_probe(&w->index, h, &i, &at);)
		if (is_name(w, at, v))
			return at;
	uint64_t new = w->names_written + w->pending.len;
	if (new + v.len >= NAMES_MAX)
		return 0;
	buf_put(&w->pending, v.ptr, v.len);
	buf_putc(&w->pending, 0);
	if (w->index.n >= NAMES_KNOWN_MAX)
		map_clear(&w->index);
	map_insert(&w->index, h, (uint32_t)new);
	if (w->pending.len >= PENDING)
		write_pending(w);
	return (uint32_t)new;
}

static uint32_t put_name(struct writing *w, const char *s)
{
	if (!s || !*s)
		return 0;
	struct seen *seen = &w->seen[hash_u64((uintptr_t)s) % ARRAY_LEN(w->seen)];
	if (seen->s != s)
		*seen = (struct seen){ s, add_name(w, view_make(s, strnlen(s, NAME_MAX - 1))) };
	return seen->at;
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
	for (size_t i = 0; i < n && w->rows.total < ROWS_MAX; i++) {
		Dwarf_Line *l = dwarf_onesrcline(lines, i);
		Dwarf_Addr addr;
		int line = 0;
		bool end = false;
		if (dwarf_lineaddr(l, &addr) || dwarf_lineno(l, &line) || dwarf_lineendsequence(l, &end) || !addr)
			continue;
		struct dwarf_row r = { addr, end ? 0 : put_name(w, dwarf_linesrc(l, NULL, NULL)), end || line < 0 ? 0 : (uint32_t)line };
		spill_add(&w->rows, &r);
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
		if (lo >= hi || w->calls.total >= ROWS_MAX)
			continue;
		c.lo = lo;
		c.hi = hi;
		spill_add(&w->calls, &c);
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

/* Records on their way into the index. */
struct output {
	int fd;
	struct buf pending;
	uint64_t widest;
};

static bool put(struct output *o, const void *p, size_t n)
{
	buf_put(&o->pending, p, n);
	if (o->pending.len < PENDING)
		return true;
	bool ok = tempfile_write(o->fd, o->pending.ptr, o->pending.len);
	buf_reset(&o->pending);
	return ok;
}

static bool put_row(void *arg, void *record)
{
	return put(arg, record, sizeof(struct dwarf_row));
}

static bool put_call(void *arg, void *record)
{
	struct output *o = arg;
	struct dwarf_call *c = record;

	o->widest = MAX(o->widest, (c->hi - c->lo + 15) >> 4);
	c->widest = (uint32_t)MIN(o->widest, (uint64_t)UINT32_MAX);
	return put(o, c, sizeof *c);
}

static bool put_names(struct output *o, int fd)
{
	char s[PENDING];
	ssize_t n;

	for (off_t at = 0; (n = pread(fd, s, sizeof s, at)) > 0; at += n)
		if (!put(o, s, (size_t)n))
			return false;
	return n == 0;
}

static int write_out(struct writing *w, int fd, struct err *e)
{
	struct dwarf_header h = { DWARF_MAGIC, DWARF_VERSION, w->rows.total, w->calls.total, 0 };
	struct output o = { .fd = fd };

	h.names_at = sizeof h + h.n_rows * sizeof(struct dwarf_row) + h.n_calls * sizeof(struct dwarf_call);
	write_pending(w);
	bool ok = !w->failed && put(&o, &h, sizeof h) && spill_each(&w->rows, put_row, &o) && spill_each(&w->calls, put_call, &o) &&
		  put_names(&o, w->names_fd) && tempfile_write(fd, o.pending.ptr, o.pending.len);
	buf_free(&o.pending);
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

static bool is_compressed(int fd)
{
	struct elf_file f;

	if (fd < 0 || elf_open(&f, fd, NULL))
		return false;
	const Elf64_Shdr *s = elf_section(&f, ".debug_info");
	bool is = s && s->sh_flags & SHF_COMPRESSED;
	elf_close(&f);
	return is;
}

static size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

/* libdw calls this where it finds no memory, and must not come back. Its data is lost, and it is not read any more. */
static sigjmp_buf out_of_memory;

static NORETURN void stop_walk(void)
{
	siglongjmp(out_of_memory, 1);
}

/* Takes units from number `first` on, until libdw has too much in memory. Returns how many there were up to then; *ret_end: that
 * were all. */
static size_t take_units(struct writing *w, int elf_fd, size_t first, bool *ret_end)
{
	size_t before = w->alone ? heap_bytes() : 0, i = 0;
	uint64_t first_at = 0;
	int debug_fd = -1;
	Dwarf *d = open_dwarf(elf_fd, &debug_fd);
	Dwarf_CU *cu = NULL;
	Dwarf_Die unit, split;
	uint8_t type;

	*ret_end = true;
	w->compressed |= is_compressed(elf_fd) || is_compressed(debug_fd);
	if (d)
		dwarf_new_oom_handler(d, stop_walk);
	memset(w->seen, 0, sizeof w->seen);
	while (d && dwarf_get_units(d, cu, &cu, NULL, &type, &unit, &split) == 0) {
		if (i++ < first)
			continue;
		if (type == DW_UT_compile || type == DW_UT_skeleton || type == DW_UT_partial)
			take_unit(w, &unit, type == DW_UT_skeleton && dwarf_tag(&split) ? &split : &unit);
		first_at = i == first + 1 ? dwarf_dieoffset(&unit) : first_at;
		if (w->alone ? heap_bytes() > before + LIBDW_BYTES_MAX : dwarf_dieoffset(&unit) - first_at > UNITS_BYTES_MAX) {
			*ret_end = false;
			break;
		}
	}
	if (d)
		dwarf_end(d);
	if (debug_fd >= 0)
		close(debug_fd);
	return i;
}

/* False: not all units fit into memory. */
static bool take_all_units(struct writing *w, int elf_fd)
{
	bool end = false;

	if (sigsetjmp(out_of_memory, 0))
		return false;
	for (size_t done = 0; !end;)
		done = take_units(w, elf_fd, done, &end);
	return true;
}

int dwarf_index_write(int elf_fd, int out_fd, bool alone, bool *ret_whole, struct err *e)
{
	struct writing *w = NEW(struct writing);

	w->alone = alone;
	w->names_fd = tempfile_open("pyrrha-names", e);
	if (w->names_fd < 0) {
		free(w);
		return -ERR_IO;
	}
	spill_init(&w->rows, sizeof(struct dwarf_row), ROWS_BUFFER, row_order);
	spill_init(&w->calls, sizeof(struct dwarf_call), ROWS_BUFFER, call_order);
	map_reserve(&w->index, NAMES_KNOWN_MAX);
	buf_putc(&w->pending, 0);
	*ret_whole = take_all_units(w, elf_fd);
	int rc = w->rows.total || w->calls.total ? write_out(w, out_fd, e) :
		 w->compressed ? err_set(e, ERR_LIMIT, "compressed debug information that does not fit into memory") :
				 err_set(e, ERR_NOT_FOUND, "no debug information");
	spill_release(&w->rows);
	spill_release(&w->calls);
	close(w->names_fd);
	map_free(&w->index);
	buf_free(&w->pending);
	free(w);
	return rc;
}
