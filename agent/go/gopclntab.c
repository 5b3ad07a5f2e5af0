/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/go/gopclntab.h"

#include "agent/go/go_module.h"
#include "base/alloc.h"
#include "symbols/symtab.h"

#define MAGIC_118 0xfffffff0u
#define MAGIC_120 0xfffffff1u
#define PCDATA_INL_TREE_INDEX 2
#define FUNCDATA_INL_TREE 3
#define DATA_MAX 16 /* entries of pcdata and of funcdata that are of interest */
#define TEXT_MAX 4096
#define VALUES_BYTES_MAX ((uint64_t)4 << 20) /* of one function's table */
#define PIECE ((size_t)64 << 10)
#define MERGED_BYTES_MAX ((uint64_t)256 << 20)
#define MERGED_LOOKED_MAX 8 /* what begins as a table does */
#define SYMBOL_BYTES_MAX ((uint64_t)32 << 20)
#define TREES_LOOKED_MAX 1024 /* functions, to find so many with inlined calls */
#define TREES_SOUND 32

/* The runtime's _func, the fields in use. */
struct go_func {
	uint64_t entry;
	int32_t name;
	uint32_t pcfile, pcln, n_pcdata, cu;
	int32_t start_line;
	uint32_t n_funcdata;
	uint32_t pcdata[DATA_MAX], funcdata[DATA_MAX];
};

bool gopclntab_read(const struct gopclntab *t, uint64_t at, void *out, size_t n)
{
	return elf_section_read(&t->elf, &t->table, at, out, n);
}

static uint32_t u32(const uint8_t *p)
{
	uint32_t v;
	memcpy(&v, p, 4);
	return v;
}

/* For t->elf, with t->table set. */
static bool read_header(struct gopclntab *t)
{
	struct {
		uint32_t magic;
		uint8_t zero[2], quantum, ptr_size;
		uint64_t n_funcs, n_files, text_start, names, cus, files, pcs, funcs;
	} h;
	_Static_assert(sizeof h == 72, "as in the file");
	if (!gopclntab_read(t, 0, &h, sizeof h) || (h.magic != MAGIC_118 && h.magic != MAGIC_120) || h.ptr_size != 8 || h.zero[0] ||
	    h.zero[1] || !h.quantum || h.n_funcs > UINT32_MAX)
		return false;
	t->go120 = h.magic == MAGIC_120;
	t->quantum = h.quantum;
	t->n_funcs = h.n_funcs;
	t->names = h.names;
	t->cus = h.cus;
	t->files = h.files;
	t->pcs = h.pcs;
	t->funcs = h.funcs;
	t->text_start = h.text_start;
	return true;
}

/* The part of a section from an offset on. */
static Elf64_Shdr section_from(const Elf64_Shdr *s, uint64_t offset)
{
	return (Elf64_Shdr){ .sh_type = s->sh_type, .sh_addr = s->sh_addr + offset, .sh_offset = s->sh_offset + offset,
			     .sh_size = s->sh_size - offset };
}

/* Up to Go 1.25, what a linker other than Go's makes of a position-independent program has the table somewhere in .data.rel.ro. It
 * is one only if the linker's record leads to it. */
static bool find_merged(struct gopclntab *t)
{
	static const uint8_t magics[2][8] = { { 0xf0, 0xff, 0xff, 0xff, 0, 0, 1, 8 }, { 0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8 } };
	const Elf64_Shdr *s = elf_section(&t->elf, ".data.rel.ro");
	struct go_module m;

	if (!s || s->sh_type == SHT_NOBITS || (!elf_section(&t->elf, ".note.go.buildid") && !elf_section(&t->elf, ".go.buildinfo")))
		return false;
	AUTOFREE uint8_t *piece = xmalloc(PIECE);
	unsigned looked = 0;
	for (uint64_t at = 0, end = MIN(s->sh_size, MERGED_BYTES_MAX); at < end; at += PIECE) {
		size_t n = (size_t)MIN(end - at, (uint64_t)PIECE);
		if (!elf_section_read(&t->elf, s, at, piece, n))
			return false;
		for (size_t i = 0; i + 8 <= n; i += 8) {
			if (memcmp(piece + i, magics[0], 8) && memcmp(piece + i, magics[1], 8))
				continue;
			t->table = section_from(s, at + i);
			if (read_header(t) && go_module_find(t, &m))
				return true;
			if (++looked == MERGED_LOOKED_MAX)
				return false;
		}
	}
	return false;
}

/* Of t->elf. */
static int find_table(struct gopclntab *t, struct err *e)
{
	const Elf64_Shdr *s = elf_section(&t->elf, ".gopclntab");
	if (!s)
		s = elf_section(&t->elf, ".data.rel.ro.gopclntab");
	if (s)
		t->table = *s;
	return (s ? read_header(t) : find_merged(t)) ? 0 : err_set(e, ERR_NOT_FOUND, "no Go function table of a known version");
}

int gopclntab_attach_at(struct gopclntab *t, const struct elf_file *f, const struct gopclntab_place *place, struct err *e)
{
	*t = (struct gopclntab){ .elf = *f };
	for (size_t i = 0; i < f->n_sh && !t->table.sh_addr; i++) {
		const Elf64_Shdr *s = &f->sh[i];
		if (s->sh_flags & SHF_ALLOC && place->table >= s->sh_addr && place->table - s->sh_addr < s->sh_size)
			t->table = section_from(s, place->table - s->sh_addr);
	}
	if (!t->table.sh_addr || !read_header(t))
		return err_set(e, ERR_NOT_FOUND, "no Go function table where there was one");
	t->text_start = place->text_start;
	t->text_known = true;
	return 0;
}

struct gopclntab_place gopclntab_place(const struct gopclntab *t)
{
	return (struct gopclntab_place){ t->table.sh_addr, t->text_start };
}

void gopclntab_close(struct gopclntab *t)
{
	elf_close(&t->elf);
	t->table = (Elf64_Shdr){ 0 };
}

/* Entry i of the function table: offset of its code from text_start, and of its _func from t->funcs. */
static bool func_entry(const struct gopclntab *t, uint64_t i, uint32_t ret[2])
{
	return gopclntab_read(t, t->funcs + i * 8, ret, 8);
}

static bool read_func(const struct gopclntab *t, uint32_t offset, struct go_func *f)
{
	uint8_t raw[44];
	size_t n = t->go120 ? 44 : 40;
	uint64_t at = t->funcs + offset;
	if (!gopclntab_read(t, at, raw, n))
		return false;
	f->entry = t->text_start + u32(raw);
	f->name = (int32_t)u32(raw + 4);
	f->pcfile = u32(raw + 20);
	f->pcln = u32(raw + 24);
	f->n_pcdata = u32(raw + 28);
	f->cu = u32(raw + 32);
	f->start_line = t->go120 ? (int32_t)u32(raw + 36) : 0;
	f->n_funcdata = raw[n - 1];
	if (f->n_pcdata > 1024)
		return false;
	uint32_t pc_n = MIN(f->n_pcdata, (uint32_t)DATA_MAX), fn_n = MIN(f->n_funcdata, (uint32_t)DATA_MAX);
	return gopclntab_read(t, at + n, f->pcdata, pc_n * 4) && gopclntab_read(t, at + n + f->n_pcdata * 4, f->funcdata, fn_n * 4);
}

/* The table of value by pc that begins at `offset`: the value at pc, -1 if there is none. */
static int32_t pc_value(const struct gopclntab *t, uint32_t offset, uint64_t entry, uint64_t pc)
{
	uint8_t chunk[1024];
	uint64_t at = t->pcs + offset, have = 0, i = 0, cur = entry;
	int32_t value = -1;
	if (!offset)
		return -1;
	for (bool first = true;; first = false) {
		uint32_t part[2]; /* delta of the value, delta of the pc */
		for (unsigned k = 0; k < 2; k++) {
			uint32_t v = 0;
			for (unsigned shift = 0;; shift += 7) {
				if (i == have) {
					at += have;
					if (at - t->pcs - offset > VALUES_BYTES_MAX)
						return -1;
					have = MIN(sizeof chunk, t->table.sh_size > at ? t->table.sh_size - at : 0);
					i = 0;
					if (!have || !gopclntab_read(t, at, chunk, have))
						return -1;
				}
				uint8_t b = chunk[i++];
				if (shift < 32)
					v |= (uint32_t)(b & 0x7f) << shift;
				if (b < 0x80)
					break;
				if (shift > 35)
					return -1;
			}
			part[k] = v;
			if (k == 0 && v == 0 && !first)
				return -1;
		}
		uint32_t d = part[0];
		value = (int32_t)((uint32_t)value + (d & 1 ? ~(d >> 1) : d >> 1));
		cur += (uint64_t)part[1] * t->quantum;
		if (pc < cur)
			return value;
	}
}

/* Appends the string at an offset of the table; returns its position in the buffer. */
static uint32_t put_string(const struct gopclntab *t, uint64_t at, struct buf *text)
{
	char s[TEXT_MAX];
	uint32_t where = (uint32_t)text->len;
	size_t n = at < t->table.sh_size ? (size_t)MIN(sizeof s, t->table.sh_size - at) : 0;
	if (n && gopclntab_read(t, at, s, n))
		buf_put(text, s, strnlen(s, n));
	buf_putc(text, 0);
	return where;
}

static uint32_t put_file(const struct gopclntab *t, const struct go_func *f, uint64_t pc, struct buf *text)
{
	int32_t i = pc_value(t, f->pcfile, f->entry, pc);
	uint32_t offset;
	if (i < 0 || !gopclntab_read(t, t->cus + ((uint64_t)f->cu + (uint32_t)i) * 4, &offset, 4) || offset == UINT32_MAX)
		return put_string(t, UINT64_MAX, text);
	return put_string(t, t->files + offset, text);
}

struct inlined {
	int32_t name, parent_pc, start_line;
};

static bool has_tree(const struct go_func *f)
{
	return f->n_funcdata > FUNCDATA_INL_TREE && f->funcdata[FUNCDATA_INL_TREE] != UINT32_MAX;
}

/* A name begins where one ends. */
static bool is_name(const struct gopclntab *t, int32_t name)
{
	uint8_t before = 0;
	return name >= 0 && (name == 0 || (gopclntab_read(t, t->names + (uint32_t)name - 1, &before, 1) && !before));
}

/* An entry of the function's tree of inlined calls, which is in read-only data. */
static bool read_inlined(const struct gopclntab *t, const struct go_func *f, int32_t index, struct inlined *ret)
{
	if (!t->gofunc || !has_tree(f))
		return false;
	size_t size = t->go120 ? 16 : 20;
	uint64_t addr = t->gofunc + f->funcdata[FUNCDATA_INL_TREE] + (uint64_t)index * size;
	uint8_t raw[20];
	for (uint32_t i = 0; i < t->elf.n_sh; i++) {
		const Elf64_Shdr *s = &t->elf.sh[i];
		if (!s->sh_addr || addr < s->sh_addr || addr - s->sh_addr >= s->sh_size || !elf_section_read(&t->elf, s, addr - s->sh_addr, raw, size))
			continue;
		*ret = t->go120 ? (struct inlined){ (int32_t)u32(raw + 4), (int32_t)u32(raw + 8), (int32_t)u32(raw + 12) }
				: (struct inlined){ (int32_t)u32(raw + 12), (int32_t)u32(raw + 16), 0 };
		return is_name(t, ret->name);
	}
	return false;
}

bool gopclntab_find(const struct gopclntab *t, uint64_t address, uint64_t *ret)
{
	if (address < t->text_start || address - t->text_start > UINT32_MAX)
		return false;
	uint32_t off = (uint32_t)(address - t->text_start), x[2];
	uint64_t lo = 0, hi = t->n_funcs;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (!func_entry(t, mid, x))
			return false;
		if (x[0] <= off)
			lo = mid + 1;
		else
			hi = mid;
	}
	*ret = lo - 1;
	return lo > 0;
}

#define FLAG_TOP_FRAME 1
#define FLAG_SP_WRITE 2

/* Of the runtime's _func: entry, name, args, deferreturn, pcsp at byte 16; before the last two bytes a padding and the flags. */
bool gopclntab_func(const struct gopclntab *t, uint64_t i, struct gopclntab_func *ret)
{
	uint32_t x[3]; /* the one after the last is the end of the text */
	uint8_t raw[44];
	size_t n = t->go120 ? 44 : 40;

	if (i >= t->n_funcs || !gopclntab_read(t, t->funcs + i * 8, x, sizeof x) || !gopclntab_read(t, t->funcs + x[1], raw, n))
		return false;
	*ret = (struct gopclntab_func){ t->text_start + x[0], t->text_start + x[2], (int32_t)u32(raw + 4), u32(raw + 16),
					raw[n - 3] & FLAG_TOP_FRAME, raw[n - 3] & FLAG_SP_WRITE };
	return true;
}

bool gopclntab_is_called(const struct gopclntab *t, const struct gopclntab_func *f, const char *name)
{
	char s[64];
	size_t n = strlen(name) + 1;

	return n <= sizeof s && gopclntab_read(t, t->names + (uint32_t)f->name, s, n) && memcmp(s, name, n) == 0;
}

/* The header's field is zero from Go 1.26 on, and where only relocations have it. */
static void find_text(struct gopclntab *t)
{
	const Elf64_Shdr *symbols = elf_section(&t->elf, ".symtab");
	struct go_module m;

	t->text_known = t->text_start != 0;
	if (!t->text_known && go_module_find(t, &m)) {
		t->text_start = m.text;
		t->text_known = true;
	}
	if (!t->text_known && symbols && symbols->sh_size <= SYMBOL_BYTES_MAX)
		t->text_known = symtab_find(t->elf.fd, "runtime.text", &t->text_start);
}

int gopclntab_attach(struct gopclntab *t, const struct elf_file *f, struct err *e)
{
	*t = (struct gopclntab){ .elf = *f };
	int rc = find_table(t, e);
	if (rc)
		return rc;
	find_text(t);
	return t->text_known ? 0 : err_set(e, ERR_NOT_FOUND, "nothing tells where the Go code of the file begins");
}

/* Whether the trees of some functions are trees: what is there is what this version of Go has there. */
static bool trees_are_sound(const struct gopclntab *t)
{
	uint64_t step = t->n_funcs / TREES_LOOKED_MAX + 1;
	unsigned sound = 0;

	for (uint64_t i = 0; i < t->n_funcs && sound < TREES_SOUND; i += step) {
		uint32_t x[3];
		struct go_func f;
		struct inlined call;
		if (!gopclntab_read(t, t->funcs + i * 8, x, sizeof x) || !read_func(t, x[1], &f) || !has_tree(&f))
			continue;
		if (!read_inlined(t, &f, 0, &call) || f.entry + (uint32_t)call.parent_pc >= t->text_start + x[2])
			return false;
		sound++;
	}
	return sound > 0;
}

void gopclntab_find_inlined(struct gopclntab *t)
{
	struct go_module m;

	if (go_module_find(t, &m) && m.text == t->text_start)
		t->gofunc = m.gofunc;
	else if (!symtab_find(t->elf.fd, "go:func.*", &t->gofunc) && !symtab_find(t->elf.fd, "go.func.*", &t->gofunc))
		t->gofunc = 0;
	if (t->gofunc && !trees_are_sound(t))
		t->gofunc = 0;
}

int gopclntab_open(struct gopclntab *t, int fd, struct err *e)
{
	struct elf_file f;
	int rc = elf_open(&f, fd, e);

	*t = (struct gopclntab){ 0 };
	if (rc)
		return rc;
	rc = gopclntab_attach(t, &f, e);
	if (rc)
		elf_close(&f);
	else
		gopclntab_find_inlined(t);
	return rc;
}

#define SIGNAL_BYTES_MAX 64

bool gopclntab_is_signal_return(const struct gopclntab *t, const struct gopclntab_func *f)
{
	return f->end - f->start <= SIGNAL_BYTES_MAX &&
	       (gopclntab_is_called(t, f, "runtime.sigreturn__sigaction") || gopclntab_is_called(t, f, "runtime.sigreturn"));
}

static bool find_func(const struct gopclntab *t, uint64_t address, struct go_func *ret)
{
	uint32_t x[3];
	uint64_t i;

	return gopclntab_find(t, address, &i) && gopclntab_read(t, t->funcs + i * 8, x, sizeof x) &&
	       address - t->text_start < x[2] && read_func(t, x[1], ret);
}

size_t gopclntab_lookup(const struct gopclntab *t, uint64_t address, struct buf *text, struct gopclntab_frame *out,
			size_t max)
{
	struct gopclntab_func next;
	struct go_func f;
	uint64_t i;
	if (gopclntab_find(t, address + 1, &i) && gopclntab_func(t, i, &next) && next.start == address + 1 &&
	    gopclntab_is_signal_return(t, &next))
		address++;
	if (!max || !find_func(t, address, &f))
		return 0;
	uint64_t pc = address;
	size_t n = 0;
	while (n < max) {
		struct gopclntab_frame *o = &out[n++];
		int32_t line = pc_value(t, f.pcln, f.entry, pc);
		int32_t index = f.n_pcdata > PCDATA_INL_TREE_INDEX ? pc_value(t, f.pcdata[PCDATA_INL_TREE_INDEX], f.entry, pc) : -1;
		struct inlined call;
		bool is_inlined = index >= 0, known = is_inlined && read_inlined(t, &f, index, &call);
		/* The line is the inlined call's. If that has no name, the function's own line is unknown. */
		bool tells_line = !is_inlined || (known && n < max);
		o->line = tells_line && line > 0 ? line : 0;
		o->file = tells_line ? put_file(t, &f, pc, text) : put_string(t, UINT64_MAX, text);
		if (known && n < max) {
			o->name = put_string(t, t->names + (uint32_t)call.name, text);
			o->start_line = call.start_line;
			pc = f.entry + (uint32_t)call.parent_pc;
			continue;
		}
		o->name = put_string(t, t->names + (uint32_t)f.name, text);
		o->start_line = f.start_line;
		break;
	}
	return text->overflow ? 0 : n;
}
