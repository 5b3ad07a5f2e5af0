/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the functions' entries (FDEs) in .eh_frame, and runs the instructions of each (call_frame.h) in the order of addresses. It
 * returns the rows, without those that equal the previous one.
 *
 *	.eh_frame:  CIE  length id=0 version augmentation code-align data-align ra-register initial instructions
 *	            FDE  length distance-to-CIE pc-begin pc-range instructions
 *	.eh_frame_hdr: version, encodings, table of (pc-begin, address of FDE) ascending
 *
 * The order comes from .eh_frame_hdr where it makes sense, else the FDEs are collected and sorted. A range of addresses is read
 * without the rest: the header's table says where its FDEs are, or an index that was made of all FDEs before (struct eh_index). */
#include "unwind/eh_frame.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/radix.h"
#include "base/vec.h"
#include "unwind/call_frame.h"
#include "unwind/rule_rows.h"

#define EH_BYTES_MAX ((uint64_t)128 << 20)
#define EH_WHOLE_BYTES_MAX ((uint64_t)32 << 20) /* where all of it has to be held */
#define PIECE_BYTES 65536            /* of entries that follow one another */
#define CIES 8u
#define JUMP_BYTES 4096              /* of one at another place */
#define ENTRY_BYTES_MAX ((size_t)1 << 20)
#define RUN_WORK 8                   /* a byte of instructions, in bytes read */
#define PER_FUNCTION_MIN 4           /* bytes of text, on average */
#define STRETCH_SHIFT 16             /* the index has a place for each stretch of 1 << 16 bytes of text */
#define AHEAD_BYTES ((size_t)1 << 20) /* a part of .eh_frame up to this size is read in one piece */
#define FDE_BYTES_USUAL 40u         /* of an entry and its length field, on average in programs of C++ */
#define FDES_AHEAD 16384u            /* the most FDEs for which memory is allocated before they are counted */
#define GAP_MIN 16                   /* padding between functions keeps the rule before it */

struct cie {
	size_t offset;               /* in .eh_frame; SIZE_MAX = none */
	bool signal, augmented;
	struct cf_common common;
};

struct fde_at {
	uint64_t pc;
	uint32_t offset;             /* in .eh_frame */
	uint32_t len;                /* of the function, at most UINT32_MAX; 0 = not known */
};

/* Bytes [from, to) of .eh_frame; from == to: nothing. */
struct eh_place {
	uint32_t from, to;
};

struct eh_index {
	uint64_t first;              /* number of the first stretch: its address >> STRETCH_SHIFT */
	uint64_t functions;
	size_t n;
	struct eh_place place[];     /* of stretch i: a part of .eh_frame that has all FDEs of functions in it */
};

/* Bytes [at, at + len) of .eh_frame. */
struct piece {
	uint8_t *bytes;
	size_t at, len;
};

struct walk {
	const struct elf_file *f;
	uint64_t eh_offset, eh_vaddr; /* of .eh_frame, in the file and in memory */
	size_t eh_len;
	struct piece fdes, cies;     /* what was read of it, moved on as needed */
	struct cie read[CIES];       /* by offset, a place each: the linker lets entries of several CIEs alternate */
	struct cie *cie;             /* the one that read_cie found last */
	struct eh_stats *st;
	uint64_t left;               /* of the work that reading it may take, in bytes; 0 = it takes more */
	uint64_t end;                /* rows so far reach up to here */
	bool any;
	struct rule_rows rows;
};

static int emit_state(void *arg, uint64_t pc, const struct cf_state *s)
{
	struct walk *w = arg;
	return rule_rows_put(&w->rows, pc, cf_rule(s));
}

/* The place of a byte of the piece in .eh_frame. */
static uint64_t at_of(const struct piece *p, const uint8_t *byte)
{
	return p->at + (uint64_t)((uintptr_t)byte - (uintptr_t)p->bytes);
}

/* A file may refer to the same bytes again and again. */
static bool spend(struct walk *w, uint64_t work)
{
	w->st->work += MIN(work, w->left);
	w->left -= MIN(work, w->left);
	return w->left > 0;
}

/* Makes the piece hold n bytes from offset on, and some more while at it. */
static bool need(struct walk *w, struct piece *p, size_t offset, size_t n)
{
	if (offset > w->eh_len || n > w->eh_len - offset)
		return false;
	if (offset >= p->at && offset - p->at <= p->len && n <= p->len - (offset - p->at))
		return true;
	bool goes_on = p->len && offset >= p->at && offset - p->at <= p->len;
	size_t len = MIN(MAX(n, (size_t)(goes_on ? PIECE_BYTES : JUMP_BYTES)), w->eh_len - offset);
	if (!spend(w, len))
		return false;
	free(p->bytes);
	*p = (struct piece){ xmalloc(len), offset, len };
	if (elf_read(w->f, w->eh_offset + offset, p->bytes, len))
		return true;
	p->len = 0;
	return false;
}

/* The length field of an entry at offset; its contents go into r, and the offset of the next entry is returned.
 * SIZE_MAX: the end, or nonsense. */
static size_t entry(struct walk *w, struct piece *p, size_t offset, struct cf_reader *r)
{
	size_t head = MIN((size_t)12, w->eh_len - MIN(offset, w->eh_len));

	if (head < 4 || !need(w, p, offset, head))
		return SIZE_MAX;
	*r = (struct cf_reader){ p->bytes + (offset - p->at), p->bytes + (offset - p->at) + head, false };
	uint64_t len = cf_fixed(r, 4);
	size_t before = 4;
	if (len == 0xffffffff) {
		len = cf_fixed(r, 8);
		before = 12;
	}
	if (r->bad || len < 4 || len > ENTRY_BYTES_MAX || !need(w, p, offset, before + len))
		return SIZE_MAX;
	r->p = p->bytes + (offset - p->at) + before;
	r->e = r->p + len;
	return offset + before + len;
}

static bool read_cie(struct walk *w, size_t offset)
{
	struct cie *c = w->cie = &w->read[offset / 8 % CIES];
	struct cf_reader r;

	if (c->offset == offset)
		return true;
	*c = (struct cie){ .offset = SIZE_MAX };
	if (entry(w, &w->cies, offset, &r) == SIZE_MAX || cf_fixed(&r, 4) != 0)
		return false;
	uint8_t version = (uint8_t)cf_fixed(&r, 1);
	const char *aug = (const char *)r.p;
	size_t aug_len = strnlen(aug, (size_t)(r.e - r.p));
	if ((version != 1 && version != 3) || aug_len == (size_t)(r.e - r.p) || (aug_len && aug[0] != 'z'))
		return false;
	r.p += aug_len + 1;
	c->common.code_align = cf_uleb(&r);
	c->common.data_align = cf_sleb(&r);
	if (version == 1)
		cf_fixed(&r, 1);
	else
		cf_uleb(&r);
	if (aug_len) {
		uint64_t n = cf_uleb(&r);
		struct cf_reader a = { r.p, r.p, false };
		cf_skip(&r, n);
		a.e = r.p;
		c->augmented = true;
		for (size_t i = 1; i < aug_len; i++) {
			if (aug[i] == 'R')
				c->common.encoding = (uint8_t)cf_fixed(&a, 1);
			else if (aug[i] == 'L')
				cf_fixed(&a, 1);
			else if (aug[i] == 'P')
				cf_pointer(&a, (uint8_t)cf_fixed(&a, 1) & 15, 0);
			else if (aug[i] == 'S')
				c->signal = true;
			else if (aug[i] != 'B')
				return false;
		}
		if (a.bad)
			return false;
	}
	struct cf_state s = { .cfa = CFA_UNSUPPORTED };
	if (r.bad || !spend(w, RUN_WORK * (uint64_t)(r.e - r.p)) || cf_run(&c->common, r, 0, &s, 0, 0, NULL, NULL) < 0)
		return false;
	c->common.start = s;
	c->offset = offset;
	return true;
}

/* Reads the fields of an FDE. The reader r is at the start of the entry's contents, and is left at the instructions. */
static bool read_fde_head(struct walk *w, struct cf_reader *r, uint64_t *ret_pc, uint64_t *ret_end)
{
	size_t at = at_of(&w->fdes, r->p);
	uint64_t distance = cf_fixed(r, 4);
	if (distance == 0 || distance > at || !read_cie(w, at - distance))
		return false;
	uint8_t enc = w->cie->common.encoding;
	if (enc & 0x80)
		return false;
	*ret_pc = cf_pointer(r, enc, w->eh_vaddr + at_of(&w->fdes, r->p));
	uint64_t len = cf_pointer(r, enc & 15, 0);
	*ret_end = *ret_pc + len;
	if (w->cie->augmented)
		cf_skip(r, cf_uleb(r));
	return !r->bad && len > 0 && *ret_end > *ret_pc;
}

static bool read_fde(struct walk *w, size_t offset, struct cf_reader *r, uint64_t *ret_pc, uint64_t *ret_end)
{
	return entry(w, &w->fdes, offset, r) != SIZE_MAX && read_fde_head(w, r, ret_pc, ret_end);
}

static int walk_fde(struct walk *w, size_t offset)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	uint64_t pc, end;
	struct cf_reader r;
	int ret;

	if (!read_fde(w, offset, &r, &pc, &end) || (w->any && pc < w->end) ||
	    !spend(w, RUN_WORK * (uint64_t)(r.e - r.p))) {
		w->st->bad++;
		return 0;
	}
	if (w->any && pc - w->end >= GAP_MIN) {
		ret = rule_rows_put(&w->rows, w->end, none);
		if (ret)
			return ret;
	}
	w->st->fdes++;
	w->any = true;
	w->end = end;
	struct cf_state s = w->cie->common.start;
	if (w->cie->signal) {
		s = (struct cf_state){ .cfa = CFA_SIGNAL };
		return emit_state(w, pc, &s);
	}
	ret = cf_run(&w->cie->common, r, w->eh_vaddr + at_of(&w->fdes, r.p), &s, pc, end, emit_state, w);
	if (ret >= 0)
		return ret;
	w->st->bad++;
	s = (struct cf_state){ .cfa = CFA_UNSUPPORTED };
	return emit_state(w, w->rows.pending && w->rows.pc > pc ? w->rows.pc : pc, &s);
}

struct fde_list { VEC(struct fde_at) l; };

/* What collect looks for: FDEs that begin in [lo, hi), the last two at or below lo, and the first one at or above hi. */
struct fde_range {
	uint64_t lo, hi;
	struct fde_at below[2], above; /* below[1] is the last; len 0: there is none */
};

static void keep_fde(struct fde_range *x, const struct fde_at *at, struct fde_list *out)
{
	if (at->pc > x->lo && at->pc < x->hi) {
		vec_push(&out->l, *at);
	} else if (at->pc >= x->hi) {
		if (!x->above.len || at->pc < x->above.pc)
			x->above = *at;
	} else if (!x->below[1].len || at->pc >= x->below[1].pc) {
		x->below[0] = x->below[1];
		x->below[1] = *at;
	} else if (!x->below[0].len || at->pc > x->below[0].pc) {
		x->below[0] = *at;
	}
}

/* The FDE whose length field is at p, as compilers write it: by a CIE that was read before, with 32-bit relative addresses. False: it
 * is of another form, or damaged. */
static bool usual_fde(struct walk *w, size_t at, const uint8_t *p, uint32_t len, struct fde_at *ret)
{
	uint32_t distance, size;
	int32_t pc;

	memcpy(&distance, p + 4, 4);
	if (len < 12 || distance > at + 4)
		return false;
	size_t offset = at + 4 - distance;
	const struct cie *c = &w->read[offset / 8 % CIES];
	memcpy(&pc, p + 8, 4);
	memcpy(&size, p + 12, 4);
	*ret = (struct fde_at){ w->eh_vaddr + at + 8 + (uint64_t)(int64_t)pc, (uint32_t)at, size };
	return c->offset == offset && c->common.encoding == 0x1b && size && ret->pc + size > ret->pc;
}

/* Finds the first FDE in bytes [*at, to) of .eh_frame, and moves *at behind it. False: there is none, or an entry is damaged; *at has no meaning then. */
static bool next_fde(struct walk *w, size_t *at, size_t to, struct fde_at *ret)
{
	struct cf_reader r;

	while (*at + 4 < to) {
		size_t here = *at;
		uint32_t len, distance;
		if (!need(w, &w->fdes, here, 4))
			return false;
		memcpy(&len, w->fdes.bytes + (here - w->fdes.at), 4);
		if (len == 0) { /* a terminator: crtend's is at the end, but linked-in ones may be anywhere */
			*at = here + 4;
			continue;
		}
		*at = entry(w, &w->fdes, here, &r);
		if (*at == SIZE_MAX)
			return false;
		if (len < UINT32_MAX && usual_fde(w, here, r.p - 4, len, ret))
			return true;
		uint64_t pc, end;
		memcpy(&distance, r.p, 4); /* from this field back to the FDE's CIE; in a CIE it is 0 */
		if (distance != 0 && read_fde_head(w, &r, &pc, &end)) {
			*ret = (struct fde_at){ pc, (uint32_t)here, (uint32_t)MIN(end - pc, UINT32_MAX) };
			return true;
		}
	}
	return false;
}

/* Reads the FDEs in bytes [from, to) of .eh_frame. Those of functions that begin between x->lo and x->hi are appended to out, unsorted; of the others, x->below
 * and x->above keep the nearest. False: there are more than that much text can have functions, and reading has stopped. */
static bool collect(struct walk *w, size_t from, size_t to, struct fde_range *x, struct fde_list *out)
{
	uint64_t most = 64 + (x->hi - x->lo) / PER_FUNCTION_MIN;
	struct fde_at fde;

	vec_reserve(&out->l, MIN((to - from) / FDE_BYTES_USUAL, MIN(most, (uint64_t)FDES_AHEAD)) + 1);
	out->l.n = 0;
	while (out->l.n <= most && next_fde(w, &from, to, &fde))
		keep_fde(x, &fde, out);
	return out->l.n <= most;
}

/* Adds the neighbours of the range, and sorts all. */
static void sort_fdes(struct fde_list *x, const struct fde_range *range)
{
	const struct fde_at *near[] = { &range->below[0], &range->below[1], &range->above };

	_Static_assert(sizeof(struct fde_at) == RADIX_RECORD && offsetof(struct fde_at, pc) == 0, "sorted by pc");
	for (size_t i = 0; i < ARRAY_LEN(near); i++)
		if (near[i]->len)
			vec_push(&x->l, *near[i]);
	radix_sort(x->l.v, x->l.n);
}

/* .eh_frame_hdr as linkers write it. */
struct header {
	uint64_t vaddr, table;       /* the table's offset in the file: pc and FDE, each 4 bytes, relative to vaddr */
	uint32_t n;
};

#define HEADER_BYTES 12

/* False: it is not there, or in another encoding. */
static bool read_header(const struct elf_file *f, struct header *ret)
{
	const Elf64_Phdr *ph = NULL;
	uint8_t head[HEADER_BYTES];

	for (size_t i = 0; i < f->n_ph; i++)
		if (f->ph[i].p_type == PT_GNU_EH_FRAME)
			ph = &f->ph[i];
	if (!ph || ph->p_filesz < sizeof head || ph->p_filesz > EH_BYTES_MAX || !elf_read(f, ph->p_offset, head, sizeof head))
		return false;
	ret->vaddr = ph->p_vaddr;
	ret->table = ph->p_offset + sizeof head;
	memcpy(&ret->n, head + 8, 4);
	return head[0] == 1 && head[1] == 0x1b && head[2] == 0x03 && head[3] == 0x3b && ret->n > 0 &&
	       ret->n <= (ph->p_filesz - sizeof head) / 8;
}

/* n entries of the header's table from `first` on. False: they cannot be read, or are not in order. */
static bool read_entries(const struct walk *w, const struct header *h, uint32_t first, uint32_t n, struct fde_at *ret)
{
	AUTOFREE int32_t *t = xreallocarray(NULL, n, 8);

	if (!elf_read(w->f, h->table + (uint64_t)first * 8, t, (size_t)n * 8))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = h->vaddr + (uint64_t)(int64_t)t[2 * i + 1] - w->eh_vaddr;
		ret[i] = (struct fde_at){ h->vaddr + (uint64_t)(int64_t)t[2 * i], (uint32_t)at, 0 };
		if (at >= w->eh_len || (i && ret[i].pc < ret[i - 1].pc))
			return false;
	}
	return true;
}

static bool from_header(const struct walk *w, struct fde_list *out)
{
	struct header h;

	if (!read_header(w->f, &h))
		return false;
	vec_reserve(&out->l, h.n);
	out->l.n = h.n;
	return read_entries(w, &h, 0, h.n, out->l.v);
}

/* Where .eh_frame is. */
static bool find_eh_frame(const struct elf_file *f, struct walk *w)
{
	const Elf64_Shdr *sh = elf_section(f, ".eh_frame");

	*w = (struct walk){ .f = f };
	for (size_t i = 0; i < CIES; i++)
		w->read[i].offset = SIZE_MAX;
	if (sh && sh->sh_size > 4 && sh->sh_type != SHT_NOBITS && !(sh->sh_flags & SHF_COMPRESSED)) {
		w->eh_vaddr = sh->sh_addr;
		w->eh_offset = sh->sh_offset;
		w->eh_len = sh->sh_size;
		return sh->sh_size <= EH_BYTES_MAX;
	}
	for (size_t i = 0; i < f->n_ph; i++) {
		uint8_t head[8];
		int32_t rel;
		uint64_t len;
		if (f->ph[i].p_type != PT_GNU_EH_FRAME || !elf_read(f, f->ph[i].p_offset, head, 8) || head[1] != 0x1b)
			continue;
		memcpy(&rel, head + 4, 4);
		w->eh_vaddr = f->ph[i].p_vaddr + 4 + (uint64_t)(int64_t)rel;
		if (!elf_vaddr_offset(f, w->eh_vaddr, &w->eh_offset, &len))
			continue;
		w->eh_len = len;
		return len <= EH_BYTES_MAX;
	}
	return false;
}

/* The rows of these FDEs. */
static int walk_all(struct walk *w, const struct fde_at *v, size_t n, struct err *e)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE };
	int ret = 0;

	for (size_t i = 0; i < n && !ret && w->left; i++)
		ret = walk_fde(w, v[i].offset);
	if (!ret && !w->left)
		return err_set(e, ERR_BAD_DATA, "reading .eh_frame takes more work than its size explains");
	if (!ret && w->any)
		ret = rule_rows_put(&w->rows, w->end, none);
	return ret ? ret : rule_rows_end(&w->rows);
}

static void release(struct walk *w)
{
	free(w->fdes.bytes);
	free(w->cies.bytes);
}

uint64_t eh_frame_work_max(uint64_t text_bytes)
{
	return ((uint64_t)16 << 20) + 256 * text_bytes;
}

/* Begins a walk that reads all of .eh_frame. */
static int walk_whole(struct walk *w, const struct elf_file *f, struct eh_stats *st, struct err *e)
{
	memset(st, 0, sizeof *st);
	if (!find_eh_frame(f, w))
		return err_set(e, ERR_NOT_FOUND, "no .eh_frame");
	if (w->eh_len > EH_WHOLE_BYTES_MAX)
		return err_set(e, ERR_BAD_DATA, "%zu bytes of .eh_frame without .eh_frame_hdr: at most %llu can be read as a whole", w->eh_len,
			       (unsigned long long)EH_WHOLE_BYTES_MAX);
	w->st = st;
	w->left = eh_frame_work_max(w->eh_len);
	return 0;
}

int eh_frame_each(const struct elf_file *f, eh_row_fn *fn, void *arg, struct eh_stats *st, struct err *e)
{
	struct fde_range range = { 0, UINT64_MAX, { { 0 } }, { 0 } };
	struct fde_list list = { 0 };
	struct walk w;
	int ret = walk_whole(&w, f, st, e);

	if (ret)
		return ret;
	w.rows = (struct rule_rows){ .fn = fn, .arg = arg, .st = st };
	need(&w, &w.fdes, 0, w.eh_len); /* all of it will be read, not always in order */
	if (!from_header(&w, &list)) {
		IGNORE(collect(&w, 0, w.eh_len, &range, &list)); /* all are wanted */
		sort_fdes(&list, &range);
	}
	ret = walk_all(&w, list.l.v, list.l.n, e);
	release(&w);
	vec_free(&list.l);
	return ret;
}

uint64_t eh_frame_functions(const struct elf_file *f)
{
	struct header h;
	struct walk w;

	return find_eh_frame(f, &w) && read_header(f, &h) ? h.n : 0;
}

bool eh_frame_indexed(const struct elf_file *f)
{
	struct header h;
	struct walk w;

	return find_eh_frame(f, &w) && read_header(f, &h);
}

/* The table's last entry at or below pc; 0 if all are above. */
static bool entry_below(const struct walk *w, const struct header *h, uint64_t pc, uint32_t *ret)
{
	uint32_t lo = 0, hi = h->n;

	while (hi - lo > 1) {
		uint32_t mid = lo + (hi - lo) / 2;
		struct fde_at at;
		if (!read_entries(w, h, mid, 1, &at))
			return false;
		if (at.pc <= pc)
			lo = mid;
		else
			hi = mid;
	}
	*ret = lo;
	return true;
}

static int take_first(void *arg, uint64_t pc, const struct cf_state *s)
{
	(void)pc;
	*(struct cf_state *)arg = *s;
	return 1;
}

bool eh_frame_entry(const struct elf_file *f, uint64_t pc, uint64_t *ret_start, uint64_t *ret_end, struct unwind_rule *ret_rule)
{
	struct eh_stats st = { 0 };
	struct fde_at at;
	struct header h;
	struct cf_reader r;
	struct walk w;
	uint32_t i;

	if (!find_eh_frame(f, &w) || !read_header(f, &h) || !entry_below(&w, &h, pc, &i) || !read_entries(&w, &h, i, 1, &at))
		return false;
	w.st = &st;
	w.left = eh_frame_work_max(0);
	bool ok = read_fde(&w, at.offset, &r, ret_start, ret_end) && pc >= *ret_start && pc < *ret_end;
	if (ok) {
		struct cf_state first = w.cie->common.start, s = first;
		ok = spend(&w, RUN_WORK * (uint64_t)(r.e - r.p)) &&
		     cf_run(&w.cie->common, r, w.eh_vaddr + at_of(&w.fdes, r.p), &s, *ret_start, *ret_end, take_first, &first) >= 0;
		*ret_rule = cf_rule(&first);
	}
	release(&w);
	return ok;
}

int eh_frame_range(const struct elf_file *f, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg, struct eh_stats *st,
		   struct err *e)
{
	uint32_t first, last;
	struct header h;
	struct walk w;

	memset(st, 0, sizeof *st);
	if (!find_eh_frame(f, &w) || !read_header(f, &h))
		return err_set(e, ERR_NOT_FOUND, "no .eh_frame_hdr");
	if (!entry_below(&w, &h, lo, &first) || !entry_below(&w, &h, hi, &last))
		return err_set(e, ERR_BAD_DATA, "the table of .eh_frame_hdr cannot be read");
	/* One more on each side: functions may touch, and both describe the bytes between them. */
	first -= first > 0;
	last += last + 1 < h.n;
	if (last < first)
		return err_set(e, ERR_BAD_DATA, "the table of .eh_frame_hdr is out of order");
	uint32_t n = last - first + 1;
	if (n > 64 + (hi - lo) / PER_FUNCTION_MIN)
		return err_set(e, ERR_BAD_DATA, "the table of .eh_frame_hdr has %u functions in %llu bytes of text", n,
			       (unsigned long long)(hi - lo));
	AUTOFREE struct fde_at *v = xreallocarray(NULL, n, sizeof *v);
	if (!read_entries(&w, &h, first, n, v))
		return err_set(e, ERR_BAD_DATA, "the table of .eh_frame_hdr is out of order");
	w.st = st;
	w.rows = (struct rule_rows){ .fn = fn, .arg = arg, .st = st };
	w.left = eh_frame_work_max(hi - lo);
	int ret = walk_all(&w, v, n, e);
	release(&w);
	return ret;
}

/* ---- files without .eh_frame_hdr ---- */

static bool place_empty(const struct eh_place *p)
{
	return p->from == p->to;
}

/* The FDE describes the stretches that it reaches into. False: that takes too much work. */
static bool index_add(struct walk *w, struct eh_index *x, const struct fde_at *at, uint32_t end)
{
	uint64_t first = at->pc >> STRETCH_SHIFT, last = (at->pc + at->len - 1) >> STRETCH_SHIFT;

	if (last < x->first || first >= x->first + x->n)
		return true;
	first = MAX(first, x->first) - x->first;
	last = MIN(last - x->first, x->n - 1);
	if (!spend(w, 1 + last - first))
		return false;
	for (uint64_t i = first; i <= last; i++) {
		struct eh_place *p = &x->place[i];
		if (place_empty(p))
			*p = (struct eh_place){ at->offset, end };
		p->from = MIN(p->from, at->offset);
		p->to = MAX(p->to, end);
	}
	return true;
}

int eh_index_new(struct eh_index **ret, const struct elf_file *f, uint64_t lo, uint64_t hi, struct eh_stats *st, struct err *e)
{
	struct fde_at fde;
	struct walk w;
	int rc = walk_whole(&w, f, st, e);

	*ret = NULL;
	if (rc)
		return rc;
	uint64_t first = lo >> STRETCH_SHIFT;
	size_t n = (size_t)(((hi - 1) >> STRETCH_SHIFT) - first + 1);
	struct eh_index *x = xcalloc(1, sizeof *x + n * sizeof x->place[0]);
	*x = (struct eh_index){ .first = first, .n = n };
	for (size_t at = 0; w.left && next_fde(&w, &at, w.eh_len, &fde); x->functions++)
		if (!index_add(&w, x, &fde, (uint32_t)at))
			break;
	release(&w);
	if (!w.left) {
		eh_index_free(x);
		return err_set(e, ERR_BAD_DATA, "reading .eh_frame takes more work than its size explains");
	}
	*ret = x;
	return 0;
}

void eh_index_free(struct eh_index *x)
{
	free(x);
}

uint64_t eh_index_functions(const struct eh_index *x)
{
	return x->functions;
}

/* Where the FDEs of [lo, hi) are, with those of the next stretches before and after that have any; empty if there are none. */
static struct eh_place index_find(const struct eh_index *x, uint64_t lo, uint64_t hi)
{
	struct eh_place ret = { 0 };
	uint64_t first = lo >> STRETCH_SHIFT, last = (hi - 1) >> STRETCH_SHIFT;

	if (last < x->first || first >= x->first + x->n)
		return ret;
	first = MAX(first, x->first) - x->first;
	last = MIN(last - x->first, x->n - 1);
	do
		first -= first > 0;
	while (first > 0 && place_empty(&x->place[first]));
	do
		last += last < x->n - 1;
	while (last < x->n - 1 && place_empty(&x->place[last]));
	for (uint64_t i = first; i <= last; i++) {
		struct eh_place p = x->place[i];
		if (place_empty(&p))
			continue;
		if (place_empty(&ret))
			ret = p;
		ret.from = MIN(ret.from, p.from);
		ret.to = MAX(ret.to, p.to);
	}
	return ret;
}

int eh_index_range(const struct elf_file *f, const struct eh_index *x, uint64_t lo, uint64_t hi, eh_row_fn *fn, void *arg,
		   struct eh_stats *st, struct err *e)
{
	struct eh_place at = lo < hi ? index_find(x, lo, hi) : (struct eh_place){ 0 };
	struct fde_range range = { lo, hi, { { 0 } }, { 0 } };
	struct fde_list list = { 0 };
	struct walk w;

	memset(st, 0, sizeof *st);
	if (!find_eh_frame(f, &w) || at.to > w.eh_len)
		return err_set(e, ERR_NOT_FOUND, "no .eh_frame, or not the one that the index was made of");
	w.st = st;
	w.rows = (struct rule_rows){ .fn = fn, .arg = arg, .st = st };
	w.left = eh_frame_work_max(MAX(at.to - at.from, hi - lo));
	if (at.to - at.from <= AHEAD_BYTES)
		need(&w, &w.fdes, at.from, at.to - at.from); /* all of it will be read, not always in order */
	int ret = 0;
	if (collect(&w, at.from, at.to, &range, &list)) {
		sort_fdes(&list, &range);
		ret = walk_all(&w, list.l.v, list.l.n, e);
	} else {
		ret = err_set(e, ERR_BAD_DATA, ".eh_frame describes more than %zu functions in %llu bytes of text: there cannot be so many",
			      list.l.n, (unsigned long long)(hi - lo));
	}
	release(&w);
	vec_free(&list.l);
	return ret;
}
