/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/unwind_tables.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/go/go_frame.h"
#include "agent/unwind/cache_wiper.h"
#include "agent/unwind/code_frame.h"
#include "agent/unwind/extents.h"
#include "agent/unwind/frame_pointers.h"
#include "agent/unwind/image_ids.h"
#include "agent/unwind/rule_set.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/radix.h"
#include "base/vec.h"

#define PAGE_BYTES (1u << TEXT_PAGE_SHIFT)
#define IDLE_NS 30000000000ll        /* an image that no sample has met for so long may be unloaded */
#define IDLE_ENDED_NS 5000000000ll   /* one that no process maps any more */
#define REBUILD_NS 120000000000ll    /* so long after an image was unloaded, other images are not unloaded to load it again */
#define EVICT_BLOCKS 256u            /* unload so much at once */
#define RETRY_NS 10000000000ll       /* where nothing was idle */
#define ROWS_PER_PAGE_MAX (PAGE_BYTES + 1)
#define GAP_CODE_MIN 32              /* bytes of code without a table, to look at it */
#define BARE_PAGES_MAX 128
#define SWEEP_ROWS (1u << 17)        /* rows marked in one step of a sweep, some 0.2 ms */
#define SWEEP_IMAGES 2048u           /* idle images are unloaded for a sweep among this many */
#define SWEEP_MAP (1u << 13)         /* mapping a chunk takes as long as marking this many rows */
#define SWEEP_FETCH 64u              /* a first access to an image, or to the rows of another page, misses the CPU's cache: it takes as long as marking this many rows */
#define EXCESS_MAX ((uint64_t)1 << 30) /* then a file is followed by frame pointers: a second or so */

/* Whether code of the file that no table covers keeps frame pointers (frame_pointers_kept). */
enum keeps_fp { KEEPS_UNKNOWN, KEEPS_NOT, KEEPS };

/* The tables of an image. */
struct image_table {
	bool loaded;
	bool refused;                /* some of its rules found the set of rules full */
	enum keeps_fp keeps_fp;
	int64_t retry_ns;            /* there was no room: not before then again */
	int64_t used_ns;             /* last met in a sample */
	int64_t unloaded_ns;         /* it gave way to others then; 0 = never */
	uint32_t first_page_slot, n_pages;
	VEC(struct slot_run) blocks; /* in the space of all chunks, BLOCK_ROWS a unit */
	uint32_t at, left;           /* where the next rows go, and how many still fit there */
	uint64_t first_page;         /* ELF virtual address >> 12 */
	uint64_t rows;
	uint32_t groups;             /* loaded so far, one after the other */
	struct gopclntab_place go;
	struct eh_index *index;      /* of a file that has .eh_frame without .eh_frame_hdr; NULL = it is another one */
	uint64_t go_start, go_end;   /* Go's code, of which its own table tells; the same: there is none */
	uint64_t excess;             /* total work on all of them, beyond what files of that size need */
};

struct met_image {
	uint64_t used_ns, id;
};
_Static_assert(sizeof(struct met_image) == RADIX_RECORD, "sorted by radix_sort");

/* A sweep of the rules: how far rows are marked. Images that are loaded during the sweep need not be in the list: rule_set_id() has marked
 * all of their rules. */
struct rule_sweep {
	VEC(struct met_image) images; /* loaded when marking began, the one sampled longest ago first */
	size_t at;
	uint32_t page;               /* the page of image `at` whose rows are marked next */
	bool evicted;                /* idle images were unloaded, and rows are marked a second time */
};

struct unwind_tables {
	bool shared;                 /* with the kernel */
	struct table_fds fds;
	struct unwind_proc *procs;
	struct unwind_map *maps;
	struct unwind_image *images;
	__u64 *pages;
	struct unwind_rule *rules;
	struct eh_rows {
		int fd;              /* of the kernel's map; -1 = memory of our own */
		uint32_t *p;         /* NULL = not mapped now */
		uint64_t used;       /* the mappings when it was used last */
	} chunks[CHUNKS_MAX];
	unsigned n_chunks, max_chunks, n_mapped;
	uint64_t uses;
	struct extents free_maps, free_pages, free_blocks;
	struct rule_set rule_set;
	struct rule_sweep sweep;
	struct image *by_id[IMAGES_MAX];
	struct cache_wiper wiper;
	struct image_ids ids;
	struct unwind_tables_stats stats;
	int64_t ahead_ns;            /* of the clock; in tests */
};

static int64_t now_of(const struct unwind_tables *t)
{
	return clock_mono_ns() + t->ahead_ns;
}

/* Mapped pages of the kernel's rows count as the agent's memory, too: no more of them at once. */
enum { CHUNKS_MAPPED = 16, CHUNK_BYTES = CHUNK_ROWS * 4 };

static void *shared_memory(int fd, size_t n, struct err *e)
{
	void *p = fd >= 0 ? mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
			  : mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		err_errno(e, errno, "map %zu bytes of unwind tables", n);
		return NULL;
	}
	return p;
}

int unwind_tables_new(struct unwind_tables **ret, const struct table_fds *fds, struct err *e)
{
	struct unwind_tables *t = NEW(struct unwind_tables);

	t->shared = fds != NULL;
	t->fds = fds ? *fds : (struct table_fds){ -1, -1, -1, -1, -1, -1, -1, -1 };
	t->procs = shared_memory(t->fds.procs, PROC_SLOTS * sizeof *t->procs, e);
	t->maps = shared_memory(t->fds.maps, MAPS_MAX * sizeof *t->maps, e);
	t->images = shared_memory(t->fds.images, IMAGES_MAX * sizeof *t->images, e);
	t->pages = shared_memory(t->fds.pages, PAGES_MAX * sizeof *t->pages, e);
	t->rules = shared_memory(t->fds.rules, RULES_MAX * sizeof *t->rules, e);
	extents_init(&t->free_maps, MAPS_MAX);
	extents_init(&t->free_pages, PAGES_MAX);
	memset(&t->free_blocks, 0, sizeof t->free_blocks);
	unwind_tables_set_room(t, UNWIND_ROOM_BYTES);
	if (!t->procs || !t->maps || !t->images || !t->pages || !t->rules) {
		unwind_tables_free(t);
		return e ? -(int)e->code : -ERR_IO;
	}
	cache_wiper_init(&t->wiper, t->procs, t->fds.cache);
	image_ids_init(&t->ids, &t->wiper);
	rule_set_init(&t->rule_set, t->rules, &t->wiper);
	*ret = t;
	return 0;
}

static void unmap(void *p, size_t n)
{
	if (p)
		munmap(p, n);
}

void unwind_tables_free(struct unwind_tables *t)
{
	if (!t)
		return;
	unmap(t->procs, PROC_SLOTS * sizeof *t->procs);
	unmap(t->maps, MAPS_MAX * sizeof *t->maps);
	unmap(t->images, IMAGES_MAX * sizeof *t->images);
	unmap(t->pages, PAGES_MAX * sizeof *t->pages);
	unmap(t->rules, RULES_MAX * sizeof *t->rules);
	for (unsigned i = 0; i < t->n_chunks; i++) {
		unmap(t->chunks[i].p, CHUNK_BYTES);
		if (t->chunks[i].fd >= 0)
			close(t->chunks[i].fd);
	}
	extents_release(&t->free_maps);
	extents_release(&t->free_pages);
	extents_release(&t->free_blocks);
	rule_set_release(&t->rule_set);
	vec_free(&t->sweep.images);
	image_ids_release(&t->ids);
	free(t);
}

void unwind_tables_set_room(struct unwind_tables *t, uint64_t bytes)
{
	t->max_chunks = (unsigned)(MIN(bytes, UNWIND_ROOM_BYTES_MAX) / CHUNK_BYTES);
}

void unwind_tables_set_ahead(struct unwind_tables *t, int64_t ns)
{
	t->ahead_ns = ns;
}

const struct unwind_tables_stats *unwind_tables_stats(const struct unwind_tables *t)
{
	return &t->stats;
}

static void unmap_oldest(struct unwind_tables *t)
{
	struct eh_rows *oldest = NULL;

	for (unsigned i = 0; i < t->n_chunks; i++)
		if (t->chunks[i].p && (!oldest || t->chunks[i].used < oldest->used))
			oldest = &t->chunks[i];
	if (!oldest)
		return;
	unmap(oldest->p, CHUNK_BYTES);
	oldest->p = NULL;
	t->n_mapped--;
}

/* The rows of a chunk, for as long as fewer than CHUNKS_MAPPED others are asked for; NULL if they cannot be mapped. */
static uint32_t *chunk_rows(struct unwind_tables *t, uint32_t i)
{
	struct eh_rows *r = &t->chunks[i];

	if (!r->p && r->fd >= 0) {
		if (t->n_mapped == CHUNKS_MAPPED)
			unmap_oldest(t);
		r->p = shared_memory(r->fd, CHUNK_BYTES, NULL);
		t->n_mapped += r->p != NULL;
	}
	r->used = ++t->uses;
	return r->p;
}

/* A chunk's map, known to the program; -1 if the kernel refuses. */
static int make_chunk(struct unwind_tables *t, uint32_t i)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "pyrrha_chunk", 4, CHUNK_BYTES, 1, &o);

	if (fd < 0 || bpf_map_update_elem(t->fds.chunks, &i, &fd, BPF_ANY) == 0)
		return fd;
	close(fd);
	return -1;
}

/* One more chunk: false at the limit, or if the kernel refuses. */
static bool add_chunk(struct unwind_tables *t)
{
	uint32_t i = t->n_chunks;

	if (i == t->max_chunks)
		return false;
	struct eh_rows *r = &t->chunks[i];
	*r = (struct eh_rows){ .fd = t->shared ? make_chunk(t, i) : -1 };
	if (!t->shared)
		r->p = shared_memory(-1, CHUNK_BYTES, NULL);
	if (!r->p && r->fd < 0)
		return false;
	t->n_chunks++;
	t->stats.chunks = t->n_chunks;
	/* One block of each chunk stays unused, so that no run of blocks crosses from a chunk into the next. */
	extents_add(&t->free_blocks, i * BLOCKS_PER_CHUNK, BLOCKS_PER_CHUNK - 1);
	return true;
}

static void unload(struct unwind_tables *t, struct image *im)
{
	struct image_table *it = im->table;
	struct unwind_image *ui = &t->images[im->id];

	if (!it->loaded)
		return;
	ui->flags = 0;
	__atomic_store_n(&ui->n_pages, 0, __ATOMIC_RELEASE);
	int64_t now = now_of(t);
	extents_free(&t->free_pages, it->first_page_slot, it->n_pages, now);
	for (size_t i = 0; i < it->blocks.n; i++)
		extents_free(&t->free_blocks, it->blocks.v[i].first, it->blocks.v[i].n, now);
	it->blocks.n = 0;
	it->at = it->left = 0;
	t->stats.rows -= it->rows;
	t->stats.images--;
	it->rows = 0;
	it->n_pages = it->groups = 0;
	it->loaded = it->refused = false;
}

static bool is_idle(const struct image *im, int64_t now)
{
	return now - im->table->used_ns > (im->mapped ? IDLE_NS : IDLE_ENDED_NS);
}

/* The image that was met longest ago and is idle; NULL if none is. */
static struct image *oldest_idle(const struct unwind_tables *t, int64_t now)
{
	struct image *oldest = NULL;

	for (uint32_t i = IMAGE_FIRST; i < t->ids.next; i++) {
		struct image *im = t->by_id[i];
		if (im && im->table->loaded && im->table->n_pages && is_idle(im, now) &&
		    (!oldest || im->table->used_ns < oldest->table->used_ns))
			oldest = im;
	}
	return oldest;
}

/* Unloads an image so that others have its room. */
static void evict(struct unwind_tables *t, struct image *im, int64_t now)
{
	unload(t, im);
	im->table->unloaded_ns = now;
	t->stats.evictions++;
}

static uint32_t blocks_of(const struct image_table *it)
{
	uint32_t n = 0;
	for (size_t i = 0; i < it->blocks.n; i++)
		n += it->blocks.v[i].n;
	return n;
}

/* Unloads idle images. Freed blocks wait before reuse, so the caller has to come back later: returns when. */
static int64_t make_room(struct unwind_tables *t)
{
	int64_t now = now_of(t);
	uint32_t freed = 0;

	/* Room is on its way already. */
	if (t->free_blocks.resting.n || t->free_pages.resting.n)
		return now + 2 * REUSE_NS;
	while (freed < EVICT_BLOCKS) {
		struct image *im = oldest_idle(t, now);
		if (!im)
			break;
		freed += blocks_of(im->table) + 1;
		evict(t, im, now);
	}
	return now + (freed ? 2 * REUSE_NS : RETRY_NS);
}

bool unwind_tables_image_id(struct unwind_tables *t, struct image *im)
{
	if (im->id)
		return true;
	uint16_t id = image_ids_take(&t->ids, now_of(t));
	if (!id)
		return false;
	im->id = id;
	im->table = NEW(struct image_table);
	t->by_id[id] = im;
	return true;
}

void unwind_tables_image_gone(struct unwind_tables *t, struct image *im)
{
	if (!im->id)
		return;
	unload(t, im);
	t->images[im->id].flags = 0;
	t->by_id[im->id] = NULL;
	image_ids_give(&t->ids, im->id, now_of(t));
	vec_free(&im->table->blocks);
	eh_index_free(im->table->index);
	free(im->table);
	im->table = NULL;
	im->id = 0;
}

struct image *unwind_tables_image_by_id(const struct unwind_tables *t, uint32_t id)
{
	return id < IMAGES_MAX ? t->by_id[id] : NULL;
}

/* Pages under construction: the rows of one at a time. */
struct builder {
	struct unwind_tables *t;
	struct image_table *it;
	uint64_t page, end;          /* ELF virtual address >> 12 of the page whose rows are in row[]; of the last, + 1 */
	uint32_t n, carry;           /* rows; the rule in force */
	bool read_code;              /* where nothing else tells */
	const struct runtime_file *runtime; /* whose interpreter's rules are marked; NULL = none */
	uint64_t last_pc;            /* of the last row */
	struct unwind_rule last;
	uint32_t row[ROWS_PER_PAGE_MAX];
};

static bool block_alloc(struct builder *b, uint32_t n, uint32_t *ret)
{
	struct unwind_tables *t = b->t;

	while (!extents_alloc(&t->free_blocks, n, now_of(t), ret))
		if (!add_chunk(t))
			return false;
	return true;
}

/* Room for the rows of a page; false if there is none. */
static bool room(struct builder *b, uint32_t n)
{
	uint32_t first, blocks = (n + BLOCK_ROWS - 1) / BLOCK_ROWS;

	if (b->it->left >= n)
		return true;
	if (!block_alloc(b, blocks, &first))
		return false;
	struct slot_run *last = b->it->blocks.n ? &b->it->blocks.v[b->it->blocks.n - 1] : NULL;
	bool follows = last && last->first + last->n == first &&
		       last->first / BLOCKS_PER_CHUNK == first / BLOCKS_PER_CHUNK;
	if (follows) {
		last->n += blocks;
		b->it->left += blocks * BLOCK_ROWS;
	} else {
		vec_push(&b->it->blocks, (struct slot_run){ first, blocks });
		b->it->at = first * BLOCK_ROWS;
		b->it->left = blocks * BLOCK_ROWS;
	}
	return true;
}

/* Writes out the page under construction and begins the next one, with the rule in force as its first row. */
static int finish_page(struct builder *b)
{
	struct image_table *it = b->it;
	__u64 *p = &b->t->pages[it->first_page_slot + (b->page - it->first_page)], v = 0;
	uint32_t before = *p == PAGE_UNLOADED ? 0 : PAGE_ROWS(*p);

	if (b->n != 1 || (b->row[0] & ROW_RULE_MASK) != 0) {
		uint32_t *rows = room(b, b->n) ? chunk_rows(b->t, it->at / CHUNK_ROWS) : NULL;
		if (!rows)
			return -ERR_LIMIT;
		memcpy(rows + it->at % CHUNK_ROWS, b->row, b->n * sizeof b->row[0]);
		v = PAGE_OF(it->at, b->n);
		it->at += b->n;
		it->left -= b->n;
		it->rows += b->n;
		b->t->stats.rows += b->n;
	}
	it->rows -= before;
	b->t->stats.rows -= before;
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
	b->page++;
	b->n = 1;
	b->row[0] = b->carry;
	return 0;
}

/* The runtime whose interpreter the code at pc is; *ret_until: as far as that is so, at most to *ret_until. */
static enum runtime_kind interpreter_at(const struct runtime_file *f, uint64_t pc, uint64_t *ret_until)
{
	enum runtime_kind kind = RUNTIME_NONE;

	for (unsigned i = 0; f && i < f->n_interpreter; i++) {
		const struct runtime_range *r = &f->interpreter[i];
		if (pc < r->start) {
			*ret_until = MIN(*ret_until, r->start);
		} else if (pc < r->end) {
			*ret_until = MIN(*ret_until, r->end);
			kind = f->of->kind;
		}
	}
	return kind;
}

static int put_row(struct builder *b, uint64_t pc, const struct unwind_rule *r)
{
	uint64_t page = pc >> TEXT_PAGE_SHIFT;
	uint32_t in_page = (uint32_t)(pc & (PAGE_BYTES - 1));

	while (b->page < page && b->page < b->end) {
		int ret = finish_page(b);
		if (ret)
			return ret;
	}
	if (b->page == b->end)
		return 0;
	b->carry = rule_set_id(&b->t->rule_set, r);
	if (page < b->page)          /* before the first: what holds when it begins */
		in_page = 0;
	if (in_page == 0)
		b->n = 0;
	b->row[b->n++] = in_page << ROW_PC_SHIFT | b->carry;
	return 0;
}

/* Writes the last row, as far as the next one at pc. Where an interpreter begins or ends in between, there is one more. */
static int put_last(struct builder *b, uint64_t pc)
{
	while (b->last_pc < pc) {
		struct unwind_rule r = b->last;
		uint64_t until = pc;
		enum runtime_kind kind = interpreter_at(b->runtime, b->last_pc, &until);
		/* What the code itself seems to be is a guess, the runtime's walk knows. */
		if (kind != RUNTIME_NONE && b->runtime->of->steps_interpreter)
			r = (struct unwind_rule){ .cfa = CFA_NONE };
		r.runtime = (uint8_t)kind;
		int ret = put_row(b, b->last_pc, &r);
		if (ret)
			return ret;
		b->last_pc = until;
	}
	return 0;
}

static int add_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct builder *b = arg;

	if (!b->runtime)
		return put_row(b, pc, r);
	int ret = put_last(b, pc);
	b->last_pc = pc;
	b->last = *r;
	return ret;
}

/* The pages that hold executable code. */
static bool text_pages(const struct image *im, uint64_t *ret_first, uint64_t *ret_n)
{
	uint64_t lo = UINT64_MAX, hi = 0;

	for (unsigned i = 0; i < im->n_segments; i++) {
		const struct image_segment *s = &im->segments[i];
		if (!s->exec || !s->filesz || s->vaddr + s->filesz < s->vaddr)
			continue;
		lo = MIN(lo, s->vaddr >> TEXT_PAGE_SHIFT);
		hi = MAX(hi, (s->vaddr + s->filesz + PAGE_BYTES - 1) >> TEXT_PAGE_SHIFT);
	}
	*ret_first = lo;
	*ret_n = hi - lo;
	return lo < hi && hi - lo < PAGES_MAX && lo <= UINT32_MAX;
}

/* Room for the image's pages, without loading their rows. False: no room; true without pages: it has no code. */
static bool add_pages(struct unwind_tables *t, struct image *im)
{
	struct image_table *it = im->table;
	uint64_t n;

	if (!text_pages(im, &it->first_page, &n))
		return true;
	if (!extents_alloc(&t->free_pages, (uint32_t)n, now_of(t), &it->first_page_slot))
		return false;
	it->n_pages = (uint32_t)n;
	for (uint64_t i = 0; i < n; i++)
		t->pages[it->first_page_slot + i] = PAGE_UNLOADED;
	return true;
}

/* Passes on the rows of [lo, hi); where .eh_frame has none, what the code itself tells. */
struct table_part {
	struct builder *b;
	const struct elf_file *f;
	uint64_t lo, hi;
	uint64_t gap;                /* from there on nothing is known; UINT64_MAX = something is */
	struct eh_stats *st;
};

static int pass_on(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct table_part *p = arg;
	return pc >= p->lo && pc < p->hi ? add_row(p->b, pc, r) : 0;
}

/* Analysing code takes long, and samples never meet most of it: code without a table is analysed once a sample has met it. */
static int fill_gap(struct table_part *p, uint64_t end)
{
	static const struct unwind_rule none = { .cfa = CFA_NONE }, unread = { .cfa = CFA_UNREAD };
	uint64_t lo = p->b->page << TEXT_PAGE_SHIFT, hi = p->b->end << TEXT_PAGE_SHIFT, from = p->gap;

	p->gap = UINT64_MAX;
	if (from == UINT64_MAX)
		return 0;
	bool to_read = end - from >= GAP_CODE_MIN && from < hi && end > lo && p->b->it->keeps_fp != KEEPS;
	if (to_read && !p->b->read_code)
		return pass_on(p, MAX(MAX(from, lo), p->lo), &unread);
	int ret = from ? pass_on(p, from, &none) : 0;
	if (ret || !to_read)
		return ret;
	ret = code_frame_range(p->f, MAX(from, p->lo), MIN(end, p->hi), lo, hi, pass_on, p, p->st);
	return ret == -ERR_BAD_DATA ? 0 : ret;
}

static int add_row_of_part(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct table_part *p = arg;
	int ret = fill_gap(p, pc);

	if (ret)
		return ret;
	if (r->cfa != CFA_NONE)
		return pass_on(p, pc, r);
	p->gap = pc;
	return 0;
}

static int read_eh_frame(const struct elf_file *f, uint64_t lo, uint64_t hi, struct table_part p, struct eh_stats *st, struct err *e)
{
	const struct image_table *it = p.b->it;
	struct eh_stats its = { 0 };
	int ret;

	p.f = f;
	p.st = st;
	if (eh_frame_indexed(f)) {
		ret = eh_frame_range(f, lo, hi, add_row_of_part, &p, &its, e);
	} else {
		ret = it->index ? eh_index_range(f, it->index, lo, hi, add_row_of_part, &p, &its, e) : -ERR_NOT_FOUND;
	}
	st->unsupported += its.unsupported;
	st->unknown_fp += its.unknown_fp;
	st->bad += its.bad;
	st->work += its.work;
	return ret && ret != -ERR_NOT_FOUND ? ret : fill_gap(&p, UINT64_MAX);
}

/* The rows of [lo, hi): in Go's code by its table, before and behind by .eh_frame. */
static int read_rows(struct builder *b, const struct elf_file *f, uint64_t lo, uint64_t hi, struct eh_stats *st, struct err *e)
{
	struct image_table *it = b->it;
	struct gopclntab go;
	int ret = 0;

	if (it->go_start == it->go_end || gopclntab_attach_at(&go, f, &it->go, e))
		return read_eh_frame(f, lo, hi, (struct table_part){ .b = b, .hi = UINT64_MAX }, st, e);
	if (lo < it->go_start && eh_frame_indexed(f))
		ret = read_eh_frame(f, lo, MIN(hi, it->go_start), (struct table_part){ .b = b, .hi = it->go_start }, st, e);
	if (!ret && lo < it->go_end && hi > it->go_start)
		ret = go_frame_range(&go, MAX(lo, it->go_start), MIN(hi, it->go_end), add_row, b, st);
	if (!ret && hi > it->go_end && eh_frame_indexed(f))
		ret = read_eh_frame(f, MAX(lo, it->go_end), hi, (struct table_part){ .b = b, .lo = it->go_end, .hi = UINT64_MAX, .gap = UINT64_MAX }, st, e);
	return ret;
}

/* Where Go's code is, if the file has any. */
static void find_go(struct image_table *it, const struct elf_file *f)
{
	struct gopclntab go;
	struct err e;

	if (gopclntab_attach(&go, f, &e) || !go_frame_text(&go, &it->go_start, &it->go_end))
		it->go_start = it->go_end = 0;
	else
		it->go = gopclntab_place(&go);
}

/* The index of a file without .eh_frame_hdr. */
static void make_index(struct unwind_tables *t, struct image_table *it, const struct elf_file *f)
{
	uint64_t lo = it->first_page << TEXT_PAGE_SHIFT;
	struct eh_stats st;
	struct err e;

	if (it->index || !it->n_pages || it->go_start != it->go_end || eh_frame_indexed(f) ||
	    eh_index_new(&it->index, f, lo, lo + ((uint64_t)it->n_pages << TEXT_PAGE_SHIFT), &st, &e) != -ERR_BAD_DATA)
		return;
	t->stats.bad_tables++;
	it->excess = EXCESS_MAX + 1; /* from now on, stacks in this file are followed by frame pointers */
}

/* Builds pages [first, end) of the image, counted from its first. */
static int build(struct unwind_tables *t, const struct image *im, const struct elf_file *f, uint64_t first, uint64_t end, bool read_code)
{
	struct image_table *it = im->table;
	const struct runtime_file *runtime = im->runtime && !im->runtime->why_not[0] ? im->runtime : NULL;
	struct builder *b = NEW(struct builder);
	struct eh_stats st = { 0 };
	uint64_t lo = it->first_page + first, hi = it->first_page + end, refused = t->rule_set.refused;
	struct err e;

	*b = (struct builder){ .t = t, .it = it, .page = lo, .end = hi, .n = 1, .runtime = runtime, .read_code = read_code };
	int ret = it->excess > EXCESS_MAX ? 0 : read_rows(b, f, lo << TEXT_PAGE_SHIFT, hi << TEXT_PAGE_SHIFT, &st, &e);
	if (b->runtime && ret != -ERR_LIMIT && ret != -ERR_BAD_DATA) {
		int last = put_last(b, hi << TEXT_PAGE_SHIFT);
		ret = last ? last : ret;
	}
	uint64_t usual = eh_frame_work_max((end - first) << TEXT_PAGE_SHIFT) / 8;
	it->excess += st.work > usual ? st.work - usual : 0;
	/* An unreadable file is unwound by frame pointers, like one without a table. */
	if (ret == -ERR_BAD_DATA) {
		t->stats.bad_tables++;
		b->carry = 0;
	}
	while (ret != -ERR_LIMIT && b->page < hi && (ret = finish_page(b)) == 0)
		;
	free(b);
	it->refused |= t->rule_set.refused != refused;
	t->stats.unsupported += st.unsupported;
	t->stats.unknown_fp += st.unknown_fp;
	t->stats.bad_fdes += st.bad;
	return ret;
}

/* Which page of the image the address is in; false if in none that may have rows. */
static bool page_at(const struct image_table *it, uint64_t vaddr, uint64_t *ret)
{
	*ret = (vaddr >> TEXT_PAGE_SHIFT) - it->first_page;
	return *ret < it->n_pages;
}

static bool no_room(struct unwind_tables *t, struct image_table *it)
{
	int64_t now = now_of(t);

	t->stats.failures++;
	/* More is in use than there is room for. Who gave way waits: else all are built again and again, and each is there for a moment only. */
	it->retry_ns = it->unloaded_ns && now - it->unloaded_ns < REBUILD_NS ? now + RETRY_NS : make_room(t);
	return false;
}

static bool page_missing(const struct unwind_tables *t, const struct image_table *it, uint64_t page)
{
	return t->pages[it->first_page_slot + page] == PAGE_UNLOADED;
}

/* The pages to load for a missing one: TABLE_GROUP pages. The more often the image had missing pages, the more are loaded, because
 * each time costs a copy of a stack. Only missing ones. */
static void group_of(const struct unwind_tables *t, const struct image_table *it, uint64_t page, uint64_t *ret_first,
		     uint64_t *ret_end)
{
	uint64_t n = MIN((uint64_t)TABLE_GROUP << MIN(it->groups / 4, 8u), (uint64_t)TABLE_GROUP_MAX);
	uint64_t first = page - page % n, end = MIN(first + n, (uint64_t)it->n_pages), lo = page, hi = page + 1;

	while (lo > first && page_missing(t, it, lo - 1))
		lo--;
	while (hi < end && page_missing(t, it, hi))
		hi++;
	*ret_first = lo;
	*ret_end = hi;
}

/* The row that holds for an address of a page that is loaded: its rule; RULE_NONE if it has none. */
static uint32_t rule_at(struct unwind_tables *t, const struct image_table *it, uint64_t page, uint64_t vaddr)
{
	uint64_t p = t->pages[it->first_page_slot + page];
	uint32_t in_page = (uint32_t)(vaddr & (PAGE_BYTES - 1)), row = PAGE_ROW(p), n = PAGE_ROWS(p), rule = RULE_NONE;
	const uint32_t *rows = n ? chunk_rows(t, row / CHUNK_ROWS) : NULL;

	for (uint32_t i = 0; rows && i < n && rows[row % CHUNK_ROWS + i] >> ROW_PC_SHIFT <= in_page; i++)
		rule = rows[row % CHUNK_ROWS + i] & ROW_RULE_MASK;
	return rule;
}

/* Whether all of a page is code that was not read. */
static bool page_unread(struct unwind_tables *t, const struct image_table *it, uint64_t page)
{
	return !page_missing(t, it, page) && PAGE_ROWS(t->pages[it->first_page_slot + page]) == 1 &&
	       rule_at(t, it, page, 0) == RULE_UNREAD;
}

/* The pages whose code to read for one of them. */
static void unread_of(struct unwind_tables *t, const struct image_table *it, uint64_t page, uint64_t *ret_first, uint64_t *ret_end)
{
	uint64_t first = page - page % TABLE_GROUP, end = MIN(first + TABLE_GROUP, (uint64_t)it->n_pages), lo = page, hi = page + 1;

	while (lo > first && page_unread(t, it, lo - 1))
		lo--;
	while (hi < end && page_unread(t, it, hi))
		hi++;
	*ret_first = lo;
	*ret_end = hi;
}

/* Whether all pages of a file are built at once, whichever of them a sample met. */
static bool read_whole(const struct image_table *it, const struct elf_file *f)
{
	uint64_t functions = it->index ? eh_index_functions(it->index) : eh_frame_functions(f);

	/* Code that is read by itself has to be looked at from all sides. */
	return it->go_start == it->go_end && it->n_pages <= BARE_PAGES_MAX && functions < it->n_pages;
}

/* --- sweeps of the rules (rule_set.h) --- */

static void sweep_begin(struct unwind_tables *t)
{
	struct rule_sweep *w = &t->sweep;

	w->images.n = 0;
	for (uint32_t i = IMAGE_FIRST; i < t->ids.next; i++)
		if (t->by_id[i] && t->by_id[i]->table->n_pages)
			vec_push(&w->images, (struct met_image){ (uint64_t)t->by_id[i]->table->used_ns, i });
	radix_sort(w->images.v, w->images.n);
	w->at = w->page = 0;
	rule_set_sweep_begin(&t->rule_set);
}

/* Marks the rules of the next page. Returns how long that takes, in rows marked; 0: the page's rows cannot be mapped. */
static uint32_t sweep_page(struct unwind_tables *t)
{
	struct rule_sweep *w = &t->sweep;
	uint16_t id = (uint16_t)w->images.v[w->at].id;
	const struct image_table *it = t->by_id[id] ? t->by_id[id]->table : NULL;

	if (!it || w->page >= it->n_pages) { /* the image may have been unloaded since the sweep began */
		w->at++;
		w->page = 0;
		return SWEEP_FETCH;
	}
	uint64_t p = t->pages[it->first_page_slot + w->page++];
	if (p == PAGE_UNLOADED || !PAGE_ROWS(p))
		return 1;
	uint32_t row = PAGE_ROW(p), chunk = row / CHUNK_ROWS, work = PAGE_ROWS(p) + SWEEP_FETCH + (t->chunks[chunk].p ? 0 : SWEEP_MAP);
	const uint32_t *rows = chunk_rows(t, chunk);
	if (!rows)
		return 0;
	rule_set_mark(&t->rule_set, rows + row % CHUNK_ROWS, PAGE_ROWS(p), id);
	return work;
}

/* If a sweep would free few rules, unloads idle images, the one sampled longest ago first, until half of the set would be free. A rule that
 * several images name is counted for the one sampled last, which is unloaded after the others. Unloads none if that would free few rules, too:
 * idle images may be needed again. Returns whether images were unloaded. */
static bool evict_for_rules(struct unwind_tables *t, int64_t now)
{
	struct rule_sweep *w = &t->sweep;
	AUTOFREE uint16_t *freed_by = xcalloc(IMAGES_MAX, sizeof *freed_by);
	uint32_t marked = rule_set_marked(&t->rule_set, freed_by), freed = 0;
	size_t n = 0;

	if (marked <= RULES_BUSY - RULES_FEW)
		return false;
	for (size_t i = 0; i < MIN(w->images.n, SWEEP_IMAGES) && marked - freed > RULES_MAX / 2; i++) {
		const struct image *im = t->by_id[w->images.v[i].id];
		if (!im || !freed_by[im->id] || !is_idle(im, now))
			continue;
		freed += freed_by[im->id];
		n = i + 1;
	}
	if (freed < RULES_FEW)
		return false;
	for (size_t i = 0; i < n; i++) {
		struct image *im = t->by_id[w->images.v[i].id];
		if (im && im->table->n_pages && is_idle(im, now))
			evict(t, im, now);
	}
	return true;
}

static void sweep_mark(struct unwind_tables *t, int64_t now)
{
	struct rule_sweep *w = &t->sweep;

	for (uint32_t work = 0; w->at < w->images.n && work < SWEEP_ROWS;) {
		uint32_t some = sweep_page(t);
		if (!some) {
			rule_set_sweep_cancel(&t->rule_set, now);
			return;
		}
		work += some;
	}
	if (w->at < w->images.n)
		return;
	if (!w->evicted && evict_for_rules(t, now)) {
		sweep_begin(t);
		w->evicted = true;
		return;
	}
	vec_free(&w->images);
	rule_set_sweep_free(&t->rule_set);
}

/* Numbers have been freed: unloads the images with refused rules, so that samples have them built again. That is possible after the wipe,
 * when the numbers are spare; until then the images stay unloaded, or the kernel would cache the refused rules. */
static void evict_refused(struct unwind_tables *t, int64_t now)
{
	for (uint32_t i = IMAGE_FIRST; i < t->ids.next; i++) {
		struct image *im = t->by_id[i];
		if (!im || !im->table->refused)
			continue;
		evict(t, im, now);
		im->table->retry_ns = now + 2 * REUSE_NS;
	}
}

/* Does the next step of a sweep, or begins one if it is due. No page may be under construction: its rows could not be marked. */
static void sweep_rules(struct unwind_tables *t, int64_t now)
{
	cache_wiper_advance(&t->wiper, now);
	if (rule_set_advance(&t->rule_set, now))
		evict_refused(t, now);
	if (t->rule_set.phase == SWEEP_MARKING) {
		sweep_mark(t, now);
	} else if (rule_set_sweep_due(&t->rule_set, now)) {
		t->sweep.evicted = false;
		sweep_begin(t);
	}
	t->stats.rules = rule_set_used(&t->rule_set);
	t->stats.rules_freed = t->rule_set.freed;
	t->stats.full = t->rule_set.refused;
}

void unwind_tables_tick(struct unwind_tables *t)
{
	sweep_rules(t, now_of(t));
}

bool unwind_tables_load(struct unwind_tables *t, struct image *im, const struct elf_file *f, uint64_t vaddr)
{
	struct image_table *it = im->table;
	uint64_t page;

	it->used_ns = now_of(t);
	sweep_rules(t, it->used_ns);
	if (it->used_ns < it->retry_ns)
		return false;
	if (!it->loaded) {
		t->stats.loads++;
		if (f && !add_pages(t, im))
			return no_room(t, it);
		if (f && im->is_go)
			find_go(it, f);
		if (f)
			make_index(t, it, f);
		it->loaded = true;
		t->stats.images++;
		struct unwind_image *ui = &t->images[im->id];
		ui->first_page = (uint32_t)it->first_page;
		ui->pages = it->first_page_slot;
		__atomic_store_n(&ui->n_pages, it->n_pages, __ATOMIC_RELEASE);
		uint32_t flags = UNWIND_IMAGE_LOADED | (im->is_go ? UNWIND_IMAGE_GO : 0);
		__atomic_store_n(&ui->flags, flags, __ATOMIC_RELEASE);
	}
	if (!page_at(it, vaddr, &page))
		return true;
	bool missing = page_missing(t, it, page);
	if (!missing && rule_at(t, it, page, vaddr) != RULE_UNREAD)
		return true;
	if (!f)
		return false;
	uint64_t first, end;
	if (read_whole(it, f)) {
		first = 0;
		end = it->n_pages;
	} else if (missing) {
		group_of(t, it, page, &first, &end);
	} else {
		unread_of(t, it, page, &first, &end);
	}
	if (!missing && it->keeps_fp == KEEPS_UNKNOWN)
		it->keeps_fp = frame_pointers_kept(f) ? KEEPS : KEEPS_NOT;
	t->stats.groups++;
	it->groups += missing;
	if (build(t, im, f, first, end, !missing) == 0)
		return true;
	for (uint64_t i = first; i < end && missing; i++)
		__atomic_store_n(&t->pages[it->first_page_slot + i], PAGE_UNLOADED, __ATOMIC_RELEASE);
	return no_room(t, it);
}

bool unwind_tables_missing(struct unwind_tables *t, const struct image *im, uint64_t vaddr)
{
	const struct image_table *it = im->table;
	uint64_t page;

	if (!it || it->retry_ns > now_of(t))
		return false;
	return !it->loaded || (page_at(it, vaddr, &page) && (page_missing(t, it, page) || rule_at(t, it, page, vaddr) == RULE_UNREAD));
}

bool unwind_tables_full(const struct unwind_tables *t, const struct image *im)
{
	return im->table && im->table->retry_ns > now_of(t);
}

void unwind_tables_touch(struct unwind_tables *t, struct image *im)
{
	if (im->table)
		im->table->used_ns = now_of(t);
}

bool unwind_tables_maps_alloc(struct unwind_tables *t, uint32_t n, uint32_t *ret_first)
{
	return extents_alloc(&t->free_maps, n, now_of(t), ret_first);
}

void unwind_tables_maps_free(struct unwind_tables *t, uint32_t first, uint32_t n)
{
	extents_free(&t->free_maps, first, n, now_of(t));
}

struct unwind_proc *unwind_tables_procs(struct unwind_tables *t)
{
	return t->procs;
}

uint32_t unwind_tables_proc_flags(const struct unwind_tables *t)
{
	return cache_wiper_flags(&t->wiper);
}

struct unwind_map *unwind_tables_maps(struct unwind_tables *t)
{
	return t->maps;
}

const struct unwind_image *unwind_tables_image(const struct unwind_tables *t, uint32_t id)
{
	return id < IMAGES_MAX ? &t->images[id] : NULL;
}

const __u64 *unwind_tables_pages(const struct unwind_tables *t)
{
	return t->pages;
}

const uint32_t *unwind_tables_chunk(struct unwind_tables *t, uint32_t i)
{
	return i < t->n_chunks ? chunk_rows(t, i) : NULL;
}

const struct unwind_rule *unwind_tables_rule(const struct unwind_tables *t, uint32_t i)
{
	return i < RULES_MAX ? &t->rules[i] : NULL;
}
