/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/own_unwind.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "unwind/eh_frame.h"

#define PAGE ((uint64_t)1 << TEXT_PAGE_SHIFT)
#define PAGES_KEPT 65536             /* of rules; 256 MB of text that was run */
#define MAPS_AGAIN_NS 500000000      /* mappings are read for an unknown address this often at most */
#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))

/* A stack on its way. */
struct walk {
	struct unwind u;             /* the first member: the step gets only this */
	struct own_unwind *x;
	const struct own_stack *stack;
	uint64_t *frames;
	bool copy_ended;
};

/* ---- rules ---- */

static uint32_t put_rule(struct own_unwind *x, const struct unwind_rule *r)
{
	uint64_t h = hash_bytes(r, sizeof *r);
	uint32_t id;

	if (!MAP_FIND_OR_ADD(&x->rule_index, h, id, x->rules.n, memcmp(&x->rules.v[id], r, sizeof *r) == 0))
		vec_push(&x->rules, *r);
	return id;
}

static uint32_t code_of(struct own_unwind *x, const struct unwind_rule *r);

struct page_rows {
	struct own_unwind *x;
	uint64_t lo;
	size_t first;
};

static int take_row(void *arg, uint64_t pc, const struct unwind_rule *r)
{
	struct page_rows *p = arg;

	if (pc >= p->lo + PAGE)
		return 1;
	if (pc <= p->lo)
		p->x->rows.n = p->first; /* the rows so far say what held before the page */
	vec_push(&p->x->rows, (struct own_rule_row){ pc <= p->lo ? 0 : (uint32_t)(pc - p->lo), code_of(p->x, r) });
	return 0;
}

static struct own_rule_page *load_page(struct own_unwind *x, uint32_t image, uint64_t page)
{
	const struct own_image *im = x->images->v.v[image - 1];
	struct page_rows p = { .x = x, .lo = page * PAGE, .first = x->rows.n };
	struct eh_stats st;
	struct err e;

	if (im->fd >= 0 && eh_frame_indexed(&im->elf))
		IGNORE(eh_frame_range(&im->elf, p.lo, p.lo + PAGE, take_row, &p, &st, &e)); /* stacks end where there are no rows */
	else if (im->fd >= 0)
		IGNORE(eh_frame_each(&im->elf, take_row, &p, &st, &e));
	map_insert(&x->page_index, hash_u64((uint64_t)image << 36 | page), (uint32_t)x->pages.n);
	vec_push(&x->pages, (struct own_rule_page){ (uint64_t)image << 36 | page, (uint32_t)p.first, (uint32_t)(x->rows.n - p.first) });
	return &x->pages.v[x->pages.n - 1];
}

static void forget_pages(struct own_unwind *x)
{
	map_clear(&x->page_index);
	x->pages.n = x->rows.n = 0;
}

/* The rule, packed, at a virtual address; 0: there is none. */
static uint32_t find_code(struct own_unwind *x, uint32_t image, uint64_t vaddr)
{
	uint64_t page = vaddr >> TEXT_PAGE_SHIFT, key = (uint64_t)image << 36 | page;
	const struct own_rule_page *p = NULL;
	uint32_t id, pc = (uint32_t)(vaddr & (PAGE - 1));

	for (size_t at = map_start(&x->page_index, hash_u64(key)); !p && map_probe(&x->page_index, hash_u64(key), &at, &id);)
		p = x->pages.v[id].key == key ? &x->pages.v[id] : NULL;
	if (!p && x->pages.n >= PAGES_KEPT)
		forget_pages(x);
	if (!p)
		p = load_page(x, image, page);
	uint32_t lo = p->first, hi = p->first + p->n;
	while (lo < hi) { /* the last row at or below */
		uint32_t mid = lo + (hi - lo) / 2;
		if (x->rows.v[mid].pc <= pc)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo > p->first ? x->rows.v[lo - 1].code : 0;
}

/* ---- what the step asks for ---- */

static struct own_unwind *self(struct unwind *u)
{
	return ((struct walk *)u)->x;
}

static const struct unwind_map *uw_recent(struct unwind *u)
{
	return own_images_at(self(u)->images, u->ip);
}

static void uw_met(struct unwind *u, const struct unwind_map *m)
{
}

static const struct unwind_map *uw_maps(struct unwind *u)
{
	return NULL;
}

static const struct unwind_image *uw_image(struct unwind *u, uint32_t id)
{
	return NULL;
}

static const __u64 *uw_pages(struct unwind *u)
{
	return NULL;
}

static const uint32_t *uw_chunk(struct unwind *u, uint32_t i)
{
	return NULL;
}

static const struct unwind_rule *uw_rule(struct unwind *u, uint32_t i)
{
	return i < self(u)->rules.n ? &self(u)->rules.v[i] : NULL;
}

/* All rules come this way. */
static bool uw_cache_get(struct unwind *u, uint64_t vaddr, uint32_t *code)
{
	*code = find_code(self(u), u->image, vaddr);
	return true;
}

static void uw_cache_put(struct unwind *u, uint64_t vaddr, uint32_t code)
{
}

static long uw_read(struct unwind *u, void *to, uint32_t n, uint64_t at)
{
	struct walk *w = (struct walk *)u;
	uint64_t from = at - w->stack->at;

	if (at < w->stack->at || from > w->stack->n || n > w->stack->n - from) {
		w->copy_ended |= at >= w->stack->at;
		return -1;
	}
	memcpy(to, w->stack->bytes + from, n);
	return 0;
}

static long uw_code(struct unwind *u, uint8_t to[UW_CODE])
{
	return pread(self(u)->images->mem_fd, to, UW_CODE, (off_t)(u->ip - 1)) == UW_CODE ? 0 : -1;
}

static bool uw_push(struct unwind *u, uint64_t frame)
{
	if (u->n >= OWN_FRAMES_MAX)
		return false;
	((struct walk *)u)->frames[u->n++] = frame;
	return true;
}

static int uw_walk(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr, uint64_t frame)
{
	return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
}

static int uw_step_code(struct unwind *u, uint32_t kind, uint64_t frame)
{
	return UW_NO_CODE;
}

#include "bpf/unwind.h"

static uint32_t code_of(struct own_unwind *x, const struct unwind_rule *r)
{
	return r->cfa == CFA_NONE ? 0 : uw_shorten(r, put_rule(x, r));
}

void own_unwind_init(struct own_unwind *x, struct own_images *images)
{
	*x = (struct own_unwind){ .images = images };
	vec_push(&x->rules, (struct unwind_rule){ .cfa = CFA_NONE });
}

static int walk_stack(struct walk *w, bool quiet)
{
	int end;

	w->u = (struct unwind){ .ip = w->stack->ip, .sp = w->stack->sp, .fp = w->stack->fp, .quiet = quiet };
	w->copy_ended = false;
	do
		end = uw_step(&w->u);
	while (end == UW_STEP_ON);
	return end;
}

int own_unwind(struct own_unwind *x, const struct own_stack *s, uint64_t frames[OWN_FRAMES_MAX], uint32_t *ret_n)
{
	struct walk w = { .x = x, .stack = s, .frames = frames };

	if (!x->images->read_ns)
		own_images_read(x->images);
	int end = walk_stack(&w, false);
	if (end == END_NO_MAPPING) {
		if (clock_mono_ns() - x->images->read_ns > MAPS_AGAIN_NS)
			own_images_read(x->images);
		end = walk_stack(&w, true);
	}
	*ret_n = w.u.n;
	return end == END_STACK_READ && w.copy_ended ? END_COPY_ENDED : end;
}
