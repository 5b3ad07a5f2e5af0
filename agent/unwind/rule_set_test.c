/* SPDX-License-Identifier: Apache-2.0 */
/* Rules whose rows are gone are freed, and only these; their numbers have another meaning only where nobody can know the old one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "agent/image/image.h"
#include "agent/kernel/kernel_procs.h"
#include "agent/unwind/extents.h"
#include "agent/unwind/rule_set.h"
#include "agent/unwind/unwind_tables.h"
#include "base/alloc.h"

#define SECOND 1000000000ll
#define MS 1000000ll
#define TEXT_AT 0x10000u
#define EH_FRAME_AT 0x1000000u
#define FUNCTIONS 64u                /* of a program; each has a rule of its own */
#define FUNCTION 32u                 /* bytes */
#define BULK 4096u                   /* functions besides, which make a program large; they have two rules only, the same in all programs */
#define ENTRY 32u
#define TEXT_BYTES ((FUNCTIONS + BULK) * FUNCTION)

/* A program as the linker writes it, as far as unwind tables are concerned. Without the BULK it is small. */
struct program {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	Elf64_Shdr sh[3];
	char names[20];
	uint8_t header[12];
	int32_t table[FUNCTIONS + BULK][2];
	uint8_t eh_frame[24 + ENTRY * (FUNCTIONS + BULK)];
	uint8_t text[TEXT_BYTES];
};

static void put32(uint8_t *at, uint32_t v)
{
	memcpy(at, &v, sizeof v);
}

/* The frame size of function i of program k. */
static uint32_t frame_size(uint32_t k, uint32_t i)
{
	return i < FUNCTIONS ? 32 + 8 * (k * FUNCTIONS + i) : 16 + 8 * (i & 1);
}

/* Makes the file say program k. */
static void set_program(struct program *p, uint32_t k)
{
	uint32_t n = *(const uint32_t *)(p->header + 8);

	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = p->eh_frame + 24 + i * ENTRY;
		uint32_t size = frame_size(k, i);
		put32(at, ENTRY - 4);
		put32(at + 4, 24 + i * ENTRY + 4);
		put32(at + 8, TEXT_AT + i * FUNCTION);
		put32(at + 12, FUNCTION);
		at[16] = 0;
		at[17] = 0x0e;                         /* DW_CFA_def_cfa_offset */
		at[18] = (uint8_t)(size | 0x80);
		at[19] = (uint8_t)(size >> 7 | 0x80);
		at[20] = (uint8_t)(size >> 14);
		p->table[i][0] = (int32_t)(TEXT_AT + i * FUNCTION - EH_FRAME_AT);
		p->table[i][1] = (int32_t)(24 + i * ENTRY);
	}
}

static struct program *new_program(uint32_t functions)
{
	static const uint8_t cie[24] = { 20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x03, 0x0c, 7, 8, 0x90, 1 };
	static const uint8_t header[] = { 1, 0x1b, 0x03, 0x3b };
	struct program *p = NEW(struct program);

	memcpy(p->eh.e_ident, ELFMAG "\2\1\1", 7);
	p->eh.e_type = ET_DYN;
	p->eh.e_machine = EM_X86_64;
	p->eh.e_phoff = offsetof(struct program, ph);
	p->eh.e_shoff = offsetof(struct program, sh);
	p->eh.e_phentsize = sizeof *p->ph;
	p->eh.e_shentsize = sizeof *p->sh;
	p->eh.e_phnum = ARRAY_LEN(p->ph);
	p->eh.e_shnum = ARRAY_LEN(p->sh);
	p->eh.e_shstrndx = 2;
	memcpy(p->names, "\0.eh_frame\0.shstr", 18);
	p->sh[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = EH_FRAME_AT, .sh_offset = offsetof(struct program, eh_frame),
				 .sh_size = 24 + ENTRY * functions };
	p->sh[2] = (Elf64_Shdr){ .sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = offsetof(struct program, names), .sh_size = sizeof p->names };
	p->ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = TEXT_AT, .p_offset = offsetof(struct program, text),
				 .p_filesz = functions * FUNCTION, .p_memsz = functions * FUNCTION };
	p->ph[1] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_offset = offsetof(struct program, header), .p_vaddr = EH_FRAME_AT,
				 .p_filesz = sizeof p->header + functions * 8 };
	memcpy(p->header, header, sizeof header);
	put32(p->header + 8, functions);
	memcpy(p->eh_frame, cie, sizeof cie);
	return p;
}

/* A host: the tables, and a file that is one program after the other. */
struct host {
	struct unwind_tables *t;
	struct program *p;
	struct elf_file f;
	bool busy;                   /* the drain takes long: only loads are steps of a sweep */
	int64_t ahead_ns;
};

static void host_start(struct host *h, uint32_t functions)
{
	struct err e;

	*h = (struct host){ .p = new_program(functions) };
	assert_int_equal(unwind_tables_new(&h->t, NULL, &e), 0);
	set_program(h->p, 0);
	assert_int_equal(elf_open_mem(&h->f, h->p, sizeof *h->p, &e), 0);
}

static void host_end(struct host *h)
{
	unwind_tables_free(h->t);
	elf_close(&h->f);
	free(h->p);
}

static void step(struct host *h, int64_t ns)
{
	h->ahead_ns += ns;
	unwind_tables_set_ahead(h->t, h->ahead_ns);
	if (!h->busy)
		unwind_tables_tick(h->t);
}

/* Lets the clock go on by ns, with what a drain does every 50 ms. */
static void pass(struct host *h, int64_t ns)
{
	for (int64_t done = 0; done < ns; done += 50 * MS)
		step(h, MIN(50 * MS, ns - done));
}

static struct image *new_image(struct host *h)
{
	struct image *im = NEW(struct image);
	const Elf64_Phdr *ph = &h->f.ph[0];

	im->segments[im->n_segments++] = (struct image_segment){ ph->p_vaddr, ph->p_memsz, ph->p_offset, ph->p_filesz, true };
	assert_true(unwind_tables_image_id(h->t, im));
	return im;
}

/* A sample meets function i of program k. */
static bool meet(struct host *h, struct image *im, uint32_t k, uint32_t i)
{
	uint64_t at = TEXT_AT + i * FUNCTION;

	unwind_tables_touch(h->t, im);
	if (!unwind_tables_missing(h->t, im, at))
		return !unwind_tables_full(h->t, im);
	set_program(h->p, k);
	return unwind_tables_load(h->t, im, &h->f, at);
}

static void drop(struct host *h, struct image *im)
{
	unwind_tables_image_gone(h->t, im);
	free(im);
}

/* The number of the rule that the table has for function i; RULE_NONE if it is not loaded. */
static uint32_t number_at(struct host *h, const struct image *im, uint32_t i)
{
	const struct unwind_image *ui = unwind_tables_image(h->t, im->id);
	uint64_t at = TEXT_AT + i * FUNCTION, page = (at >> TEXT_PAGE_SHIFT) - ui->first_page;
	uint32_t number = RULE_NONE;

	if (page >= ui->n_pages)
		return RULE_NONE;
	uint64_t p = unwind_tables_pages(h->t)[ui->pages + page];
	for (uint32_t k = 0; p != PAGE_UNLOADED && k < PAGE_ROWS(p); k++) {
		uint32_t row = unwind_tables_chunk(h->t, PAGE_ROW(p) / CHUNK_ROWS)[PAGE_ROW(p) % CHUNK_ROWS + k];
		if (row >> ROW_PC_SHIFT <= (at & 4095))
			number = row & ROW_RULE_MASK;
	}
	return number;
}

static bool is_rule(const struct host *h, uint32_t number, uint32_t k, uint32_t i)
{
	const struct unwind_rule r = { .cfa = CFA_SP, .cfa_off = (int32_t)frame_size(k, i) };
	return memcmp(unwind_tables_rule(h->t, number), &r, sizeof r) == 0;
}

/* Looks the rules of program k's FUNCTIONS up, one by one: each is the one that its .eh_frame says. */
static bool all_right(struct host *h, const struct image *im, uint32_t k)
{
	for (uint32_t i = 0; i < FUNCTIONS; i++)
		if (!is_rule(h, number_at(h, im, i), k, i))
			return false;
	return true;
}

#define PROGRAMS (RULES_MAX / FUNCTIONS * 3)
#define AT_ONCE 32

/* Programs come and go, three times as many as the set has room for. One of them stays. */
static void test_one_after_the_other(void **state)
{
	struct image *stays, *im[AT_ONCE] = { NULL };
	struct host h;

	host_start(&h, FUNCTIONS);
	stays = new_image(&h);
	assert_true(meet(&h, stays, 0, 0));
	for (uint32_t k = 1; k < PROGRAMS; k++) {
		struct image **slot = &im[k % AT_ONCE];
		if (*slot)
			drop(&h, *slot);
		*slot = new_image(&h);
		assert_true(meet(&h, *slot, k, 0) && meet(&h, stays, 0, 0));
		assert_true(all_right(&h, *slot, k) && all_right(&h, stays, 0));
		pass(&h, SECOND / 4);
	}
	const struct unwind_tables_stats *s = unwind_tables_stats(h.t);
	print_message("  %llu rules freed, %llu left\n", (unsigned long long)s->rules_freed, (unsigned long long)s->rules);
	assert_int_equal(s->full, 0);
	assert_int_equal(s->evictions, 0);
	assert_true(s->rules_freed > RULES_MAX && s->rules <= RULES_BUSY + 40 * FUNCTIONS);
	for (uint32_t k = PROGRAMS - AT_ONCE + 1; k < PROGRAMS; k++)
		assert_true(all_right(&h, im[k % AT_ONCE], k));
	for (uint32_t i = 0; i < AT_ONCE; i++)
		drop(&h, im[i]);
	drop(&h, stays);
	host_end(&h);
}

/* The agent knows programs for ten minutes after their end. Their tables make way for the rules of others, those met longest ago first. Programs
 * that are met now and then, or have not ended, keep theirs. The drain takes long, so there are no steps but loads. */
static void test_kept_images(void **state)
{
	enum { AGAIN = 5 };
	struct image *stays, **im = xcalloc(PROGRAMS, sizeof *im);
	struct host h;

	host_start(&h, FUNCTIONS);
	h.busy = true;
	stays = new_image(&h);
	stays->mapped = 1;
	for (uint32_t k = 1; k < PROGRAMS; k++) {
		im[k] = new_image(&h);
		assert_true(meet(&h, im[k], k, 0));
		for (uint32_t i = 1; k % 100 == 0 && i < AGAIN; i++)
			assert_true(meet(&h, im[i], i, 0));
		if (k % 160 == 1)
			assert_true(meet(&h, stays, 0, 0));
		assert_true(all_right(&h, im[k], k) && all_right(&h, stays, 0));
		pass(&h, SECOND / 8);
	}
	const struct unwind_tables_stats *s = unwind_tables_stats(h.t);
	print_message("  %llu rules freed, %llu left, %llu evictions\n", (unsigned long long)s->rules_freed, (unsigned long long)s->rules,
		      (unsigned long long)s->evictions);
	assert_int_equal(s->full, 0);
	assert_true(s->evictions > PROGRAMS / 3 && s->evictions < PROGRAMS - RULES_MAX / 4 / FUNCTIONS);
	assert_int_equal(s->loads, PROGRAMS); /* each was built once */
	for (uint32_t k = PROGRAMS - 20; k < PROGRAMS; k++)
		assert_true(all_right(&h, im[k], k));
	for (uint32_t k = 1; k < PROGRAMS; k++)
		drop(&h, im[k]);
	drop(&h, stays);
	host_end(&h);
	free(im);
}

/* Marking takes several steps, and begins again when idle images were unloaded to free their rules. Images that are loaded while it goes on keep their rules. */
static void test_loaded_meanwhile(void **state)
{
	enum { BEFORE = RULES_BUSY / FUNCTIONS - 1, MEANWHILE = 20, AFTER = 80, N = BEFORE + MEANWHILE + AFTER };
	struct image *im[N];
	struct host h;
	uint32_t k, begun = 0, steps = 0;

	host_start(&h, FUNCTIONS + BULK);
	for (k = 0; k < BEFORE; k++) {
		im[k] = new_image(&h);
		for (uint32_t i = 0; i < FUNCTIONS + BULK; i += FUNCTIONS)
			assert_true(meet(&h, im[k], k, i));
	}
	assert_true(unwind_tables_stats(h.t)->rows > 4 * 131072);
	pass(&h, 31 * SECOND);
	assert_int_equal(unwind_tables_stats(h.t)->evictions, 0);
	for (; k < BEFORE + MEANWHILE; k++) {
		im[k] = new_image(&h);
		assert_true(meet(&h, im[k], k, 0));
		begun += unwind_tables_stats(h.t)->rules_freed == 0;
		steps += unwind_tables_stats(h.t)->evictions == 0;
		step(&h, 50 * MS);
	}
	print_message("  %u loaded while rules were marked, %u of them before images made way\n", begun, steps);
	assert_true(steps > 2 && begun > steps && unwind_tables_stats(h.t)->rules_freed > RULES_MAX / 4);
	pass(&h, 2 * REUSE_NS);
	for (; k < N; k++) {
		im[k] = new_image(&h);
		assert_true(meet(&h, im[k], k, 0));
	}
	for (k = BEFORE; k < N; k++)
		assert_true(all_right(&h, im[k], k));
	for (k = 0; k < N; k++)
		drop(&h, im[k]);
	host_end(&h);
}

/* Programs that all run at once have more rules than there is room for: the last ones have none. Once the others have ended, they have. */
static void test_full(void **state)
{
	enum { N = RULES_MAX / FUNCTIONS + 20, FEW = RULES_FEW / FUNCTIONS - 1 };
	struct image *im[N];
	struct host h;

	host_start(&h, FUNCTIONS);
	for (uint32_t k = 0; k < N; k++) {
		im[k] = new_image(&h);
		im[k]->mapped = k >= FEW;
		assert_true(meet(&h, im[k], k, 0));
	}
	assert_true(all_right(&h, im[0], 0) && !all_right(&h, im[N - 1], N - 1));
	assert_int_equal(number_at(&h, im[N - 1], 0), RULE_REFUSED);
	for (int round = 0; round < 100; round++) {
		for (uint32_t k = FEW; k < N; k++)
			assert_true(meet(&h, im[k], k, 0));
		pass(&h, SECOND);
	}
	const struct unwind_tables_stats *s = unwind_tables_stats(h.t);
	assert_true(s->full >= 20 * FUNCTIONS - 1);
	assert_int_equal(s->rules, RULES_MAX - RULE_FIRST);
	assert_true(s->evictions == 0 && s->loads == N && s->rules_freed == 0); /* the ended ones would not free enough */
	assert_int_equal(unwind_tables_rule(h.t, RULE_REFUSED)->cfa, CFA_UNSUPPORTED);
	for (uint32_t k = 0; k < N / 2; k++)
		im[k]->mapped = 0;
	for (int round = 0; round < 40; round++) {
		for (uint32_t k = N / 2; k < N; k++)
			meet(&h, im[k], k, 0);
		pass(&h, SECOND / 2);
	}
	for (uint32_t k = N / 2; k < N; k++)
		assert_true(all_right(&h, im[k], k));
	for (uint32_t k = 0; k < N; k++)
		drop(&h, im[k]);
	host_end(&h);
}

/* --- the set alone --- */

struct set {
	struct rule_set s;
	struct cache_wiper w;
	struct unwind_rule rules[RULES_MAX];
	struct unwind_proc slots[PROC_SLOTS];
	int64_t now_ns;
};

static uint32_t id_of(struct set *x, uint32_t i)
{
	struct unwind_rule r = { .cfa = CFA_SP, .cfa_off = 8 * (int32_t)i };
	return rule_set_id(&x->s, &r);
}

static struct set *new_set(uint32_t rules)
{
	struct set *x = NEW(struct set);
	struct unwind_proc v = { .tgid = 7, .set = 1, .flags = UNWIND_PROC_CACHED };

	x->now_ns = 1000 * SECOND;
	cache_wiper_init(&x->w, x->slots, -1);
	rule_set_init(&x->s, x->rules, &x->w);
	assert_true(kernel_procs_set(x->slots, &v));
	for (uint32_t i = 0; i < rules; i++)
		assert_int_equal(id_of(x, i), RULE_REFUSED + 1 + i);
	return x;
}

static void set_free(struct set *x)
{
	rule_set_release(&x->s);
	free(x);
}

/* What is marked by hand or asked for stays, all else is freed. A freed number is not given out before the kernel's cache is wiped. */
static void test_numbers(void **state)
{
	struct set *x = new_set(RULES_BUSY);
	uint32_t rows[] = { 5, 4095u << ROW_PC_SHIFT | 6, RULE_NONE, RULE_UNREAD, RULE_REFUSED };
	uint32_t asked = RULES_BUSY / 2;

	assert_true(rule_set_sweep_due(&x->s, x->now_ns));
	rule_set_sweep_begin(&x->s);
	rule_set_mark(&x->s, rows, ARRAY_LEN(rows), IMAGE_FIRST);
	uint32_t kept = id_of(x, asked), newest = id_of(x, 100000);
	uint16_t last[IMAGES_MAX];
	assert_int_equal(rule_set_marked(&x->s, last), 5); /* two by rows, RULE_REFUSED, two that were asked for */
	assert_int_equal(last[IMAGE_FIRST], 3);
	rule_set_sweep_free(&x->s);
	rule_set_advance(&x->s, x->now_ns);
	assert_int_equal(x->s.phase, SWEEP_FREEING); /* freeing takes several steps; rules are asked for in between */
	uint32_t late = id_of(x, RULES_BUSY - 1);
	assert_int_equal(late, RULES_BUSY + RULE_REFUSED);
	uint32_t again = id_of(x, 0);
	assert_true(again > newest); /* rule 0 was freed; it comes back with a new number */
	bool many = false;
	for (int i = 0; i < 10; i++)
		many |= rule_set_advance(&x->s, x->now_ns);
	assert_true(many);
	assert_int_equal(x->s.phase, SWEEP_WIPING);
	assert_int_equal(rule_set_used(&x->s), 7);
	assert_int_equal(x->slots[7].flags, 0);
	uint32_t fresh = RULES_MAX - x->s.next, n = 200000;
	for (uint32_t i = 0; i < fresh; i++)
		assert_int_equal(id_of(x, n++), RULES_MAX - fresh + i);
	assert_int_equal(id_of(x, n), RULE_REFUSED); /* however many rest */
	for (int64_t ns = 0; ns < REUSE_NS; ns += REUSE_NS / 8) {
		cache_wiper_advance(&x->w, x->now_ns + ns);
		rule_set_advance(&x->s, x->now_ns + ns);
		assert_int_equal(id_of(x, n), RULE_REFUSED);
		assert_int_equal(x->slots[7].flags, 0);
	}
	cache_wiper_advance(&x->w, x->now_ns + REUSE_NS);
	rule_set_advance(&x->s, x->now_ns + REUSE_NS);
	assert_int_equal(x->slots[7].flags, UNWIND_PROC_CACHED);
	for (uint32_t i = 0; i < RULES_BUSY - 4; i++) {
		uint32_t id = id_of(x, n++);
		assert_true(id > RULE_REFUSED && id < again && id != 5 && id != 6 && id != kept && id != newest && id != late);
	}
	assert_int_equal(id_of(x, n), RULE_REFUSED);
	assert_int_equal(id_of(x, 5 - RULE_REFUSED - 1), 5);
	assert_int_equal(id_of(x, asked), kept);
	assert_int_equal(id_of(x, 0), again);
	set_free(x);
}

/* When sweeps begin: a set that is busy, some time after the last; later if that freed few, but not if it is full. */
static void test_due(void **state)
{
	struct set *x = new_set(RULES_BUSY - RULE_REFUSED - 1);
	uint32_t *rows = xcalloc(RULES_MAX, sizeof *rows);

	assert_false(rule_set_sweep_due(&x->s, x->now_ns));
	id_of(x, RULES_BUSY);
	for (int round = 0; round < 2; round++) {
		assert_true(rule_set_sweep_due(&x->s, x->now_ns));
		rule_set_sweep_begin(&x->s);
		for (uint32_t i = 0; i < RULES_MAX; i++)
			rows[i] = i;
		rule_set_mark(&x->s, rows, RULES_MAX, IMAGE_FIRST);
		assert_false(rule_set_sweep_due(&x->s, x->now_ns + SWEEP_FEW_NS));
		rule_set_sweep_free(&x->s);
		for (int i = 0; i < 10; i++)
			assert_false(rule_set_advance(&x->s, x->now_ns));
		assert_int_equal(x->s.phase, SWEEP_NONE);
		assert_int_equal(x->slots[7].flags, UNWIND_PROC_CACHED); /* nothing freed, nothing to wipe */
		assert_int_equal(rule_set_sweep_due(&x->s, x->now_ns + SWEEP_GAP_NS), round == 1);
		assert_false(rule_set_sweep_due(&x->s, x->now_ns + SWEEP_GAP_NS - 1));
		assert_true(rule_set_sweep_due(&x->s, x->now_ns + SWEEP_FEW_NS));
		for (uint32_t i = 0; id_of(x, 500000 + i) != RULE_REFUSED; i++)
			;
		assert_true(rule_set_sweep_due(&x->s, x->now_ns + SWEEP_GAP_NS));
		assert_false(rule_set_sweep_due(&x->s, x->now_ns + SWEEP_GAP_NS - 1));
		x->now_ns += SWEEP_GAP_NS;
	}
	free(rows);
	set_free(x);
}

/* --- all at once, as it comes --- */

#define RUNNING 200u
#define CACHE 509u
#define UNDER_WAY 64u

/* What the sampling program remembers of a rule's number: in its cache, or while it unwinds. */
struct known {
	uint32_t id, k, i, number;   /* of the image; program and function; 0 = nothing */
	int64_t since_ns;
	bool cached;                 /* the sample writes to the cache */
};

struct crowd {
	struct host h;
	uint64_t seed;
	struct image *im[RUNNING];
	uint32_t k[RUNNING];
	uint32_t next_k;
	struct known cache[CACHE], under_way[UNDER_WAY];
	uint32_t by_id[IMAGES_MAX];  /* the program of an image's number; 0 = none */
	bool cached;                 /* as it was last looked at */
	unsigned found, checked, wipes;
};

static uint32_t draw(struct crowd *c, uint32_t n)
{
	c->seed = hash_u64(c->seed);
	return (uint32_t)(c->seed >> 32) % n;
}

static struct known *cache_word(struct crowd *c, uint32_t id, uint32_t i)
{
	return &c->cache[(id * 31 + i) % CACHE];
}

/* A number means the same until all who can know it have forgotten it. */
static void check_known(struct crowd *c)
{
	bool cached = unwind_tables_proc_flags(c->h.t) & UNWIND_PROC_CACHED;

	assert_int_equal(unwind_tables_procs(c->h.t)[7].flags, cached ? UNWIND_PROC_CACHED : 0);
	if (cached && !c->cached) {
		memset(c->cache, 0, sizeof c->cache);
		c->wipes++;
	}
	c->cached = cached;
	for (size_t n = 0; n < UNDER_WAY; n++) {
		const struct known *w = &c->under_way[n];
		if (!w->number || c->h.ahead_ns - w->since_ns >= REUSE_NS)
			continue;
		assert_true(is_rule(&c->h, w->number, w->k, w->i));
		if (w->cached && draw(c, 8) == 0)
			*cache_word(c, w->id, w->i) = *w;
	}
	for (size_t n = 0; c->cached && n < CACHE; n++) {
		const struct known *w = &c->cache[n];
		if (!w->number || !c->by_id[w->id])
			continue;
		assert_true(is_rule(&c->h, w->number, c->by_id[w->id], w->i));
		c->checked++;
	}
}

/* A sample in function i of a program: by the cache, if it may be used, else by the table. */
static void sample(struct crowd *c, uint32_t slot, uint32_t i)
{
	struct image *im = c->im[slot];
	struct known *w = cache_word(c, im->id, i);

	unwind_tables_touch(c->h.t, im);
	if (c->cached && w->number && w->id == im->id && w->i == i) {
		assert_true(is_rule(&c->h, w->number, c->k[slot], i));
		c->found++;
		return;
	}
	uint32_t number = number_at(&c->h, im, i);
	if (number == RULE_NONE)
		return;
	assert_true(is_rule(&c->h, number, c->k[slot], i));
	struct known now = { im->id, c->k[slot], i, number, c->h.ahead_ns, c->cached };
	c->under_way[draw(c, UNDER_WAY)] = now;
	if (c->cached)
		*w = now;
}

static void start_program(struct crowd *c, uint32_t slot)
{
	if (c->im[slot]) {
		sample(c, slot, draw(c, FUNCTIONS));
		c->by_id[c->im[slot]->id] = 0;
		drop(&c->h, c->im[slot]);
	}
	c->im[slot] = new_image(&c->h);
	c->im[slot]->mapped = draw(c, 2);
	c->k[slot] = draw(c, 4) ? c->next_k++ : 1 + draw(c, c->next_k - 1); /* a new one, or one that was here before */
	c->by_id[c->im[slot]->id] = c->k[slot];
}

static void test_crowd(void **state)
{
	struct crowd *c = NEW(struct crowd);
	struct unwind_proc v = { .tgid = 7, .set = 1, .flags = UNWIND_PROC_CACHED };

	c->seed = 38;
	c->next_k = 2;
	c->cached = true;
	host_start(&c->h, FUNCTIONS + BULK); /* so that marking takes many steps */
	assert_true(kernel_procs_set(unwind_tables_procs(c->h.t), &v));
	for (uint32_t n = 0; n < 30000; n++) {
		uint32_t slot = draw(c, 1 + draw(c, RUNNING)); /* some programs run seldom */
		if (!c->im[slot] || draw(c, 24) == 0)
			start_program(c, slot);
		if (draw(c, 3) == 0)
			meet(&c->h, c->im[slot], c->k[slot], draw(c, 2) ? draw(c, FUNCTIONS) : draw(c, FUNCTIONS + BULK));
		else
			sample(c, slot, draw(c, FUNCTIONS));
		check_known(c);
		if (draw(c, 20) == 0) { /* much happens at once, so that a whole sweep does */
			c->h.ahead_ns += draw(c, 1500) * MS;
			unwind_tables_set_ahead(c->h.t, c->h.ahead_ns);
		}
		if (draw(c, 2))
			unwind_tables_tick(c->h.t);
		check_known(c);
	}
	const struct unwind_tables_stats *s = unwind_tables_stats(c->h.t);
	print_message("  %u programs, %llu rules freed, %llu evictions, %u wipes, %u found in the cache, %u checked\n", c->next_k,
		      (unsigned long long)s->rules_freed, (unsigned long long)s->evictions, c->wipes, c->found, c->checked);
	assert_true(s->rules_freed > RULES_MAX && c->wipes > 3 && c->found > 100);
	assert_int_equal(s->full, 0);
	for (uint32_t i = 0; i < RUNNING; i++)
		if (c->im[i])
			drop(&c->h, c->im[i]);
	host_end(&c->h);
	free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_due),
		cmocka_unit_test(test_one_after_the_other),
		cmocka_unit_test(test_kept_images),
		cmocka_unit_test(test_loaded_meanwhile),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_crowd),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
