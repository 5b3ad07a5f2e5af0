/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
/* How unwind.h reaches the tables and a process's memory in the kernel. Part of sample.bpf.c. */
#ifndef PYRRHA_BPF_TABLES_BPF_H
#define PYRRHA_BPF_TABLES_BPF_H

struct all_procs { struct unwind_proc p[PROC_SLOTS]; };
struct all_maps { struct unwind_map m[MAPS_MAX]; };
struct all_pages { __u64 p[PAGES_MAX]; };
struct rule_cache { __u64 v[RULE_CACHE]; };
struct row_chunk { __u32 row[CHUNK_ROWS]; };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct all_procs);
} procs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct all_maps);
} maps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, IMAGES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_image);
} images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct all_pages);
} pages SEC(".maps");

struct chunk_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, CHUNK_ROWS * 4);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, CHUNKS_MAX);
	__type(key, __u32);
	__array(values, struct chunk_map);
} chunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, RULES_MAX);
	__type(key, __u32);
	__type(value, struct unwind_rule);
} rules SEC(".maps");

/* Data of the program, whose address its code has: a look-up in a map of one value is 15 instructions, at each frame. Static, so that it is not
 * mapped into the agent: it would not lie on the kernel's large pages then. */
static volatile struct rule_cache cache SEC(".data.cache");

static __always_inline const struct all_procs *all_procs(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&procs, &zero);
}

static __always_inline const struct unwind_map *uw_maps(struct unwind *u)
{
	__u32 zero = 0;
	struct all_maps *all = bpf_map_lookup_elem(&maps, &zero);

	return all ? all->m : 0;
}

static __always_inline bool uw_holds(const struct unwind_map *m, __u64 ip);

static __always_inline const struct unwind_map *uw_recent(struct unwind *u)
{
	const struct unwind_map *m = ((struct scratch *)u)->recent.m;

	_Static_assert(RECENT_MAPS == 4, "as many are looked at");
	return uw_holds(m, u->ip) || uw_holds(++m, u->ip) || uw_holds(++m, u->ip) || uw_holds(++m, u->ip) ? m : 0;
}

static __always_inline void uw_met(struct unwind *u, const struct unwind_map *m)
{
	struct recent_maps *r = &((struct scratch *)u)->recent;
	__u64 i = r->next++;

	UW_OPAQUE(i);
	r->m[i & (RECENT_MAPS - 1)] = *m;
}

static __always_inline const struct unwind_image *uw_image(struct unwind *u, __u32 id)
{
	return bpf_map_lookup_elem(&images, &id);
}

static __always_inline const __u64 *uw_pages(struct unwind *u)
{
	__u32 zero = 0;
	struct all_pages *all = bpf_map_lookup_elem(&pages, &zero);

	return all ? all->p : 0;
}

static __always_inline const __u32 *uw_chunk(struct unwind *u, __u32 i)
{
	__u32 zero = 0;
	void *inner = bpf_map_lookup_elem(&chunks, &i);
	struct row_chunk *c;

	if (!inner)
		return 0;
	c = bpf_map_lookup_elem(inner, &zero);
	return c ? c->row : 0;
}

static __always_inline const struct unwind_rule *uw_rule(struct unwind *u, __u32 i)
{
	return bpf_map_lookup_elem(&rules, &i);
}

#define CACHE_VADDR_BITS 29
_Static_assert(RULES_MAX <= SHORT_IS_RULE && IMAGES_MAX <= 1 << (64 - CACHE_VADDR_BITS - SHORT_BITS),
	       "a word of the rule cache holds image, address and rule");

static __always_inline void last_word(struct unwind *u, __u64 at)
{
	struct last_words *l = &((struct scratch *)u)->last;
	__u64 k;

	if (UW_LIKELY(l->at == at))
		return;
	l->at = at;
	k = l->n++;
	UW_OPAQUE(k);
	l->i[k & (LAST_WORDS - 1)] = at;
}

/* Asks for the words of the last stack. */
static __always_inline void fetch_last_words(const struct last_words *l)
{
#pragma clang loop unroll(disable)
	for (int k = 0; k < LAST_WORDS; k++) {
		__u64 i = l->i[k];

		UW_OPAQUE(i);
		if (i < RULE_CACHE)
			(void)cache.v[i];
	}
}

/* The word of the cache where an address's rule is, if it is anywhere; key is what it has above the rule then. */
static __always_inline volatile __u64 *cache_word(struct unwind *u, __u64 vaddr, __u64 *key)
{
	__u64 i;

	if (UW_RARELY(!u->cached || vaddr >> CACHE_VADDR_BITS))
		return 0;
	*key = (__u64)u->image << CACHE_VADDR_BITS | vaddr;
	i = *key * 0x9e3779b97f4a7c15ull >> 48;
	UW_OPAQUE(i);
	i = (i & 0xffff) * RULE_CACHE >> 16;
	last_word(u, i);
	UW_OPAQUE(i);
	return &cache.v[i];
}

static __always_inline bool uw_cache_get(struct unwind *u, __u64 vaddr, __u32 *code)
{
	__u64 key, v;
	volatile __u64 *w = cache_word(u, vaddr, &key);

	if (!w)
		return false;
	v = *w;
	if (v >> SHORT_BITS != key)
		return false;
	*code = v & ((1 << SHORT_BITS) - 1);
	return true;
}

static __always_inline void uw_cache_put(struct unwind *u, __u64 vaddr, __u32 code)
{
	__u64 key;
	volatile __u64 *w = cache_word(u, vaddr, &key);

	if (w)
		*w = key << SHORT_BITS | code;
}

/* Fetches the piece of stack around a word. It never leaves the word's page: if one byte of a page is readable, all are. */
static __noinline long uw_fetch(struct scratch *s, __u64 at)
{
	__u64 from = at & ~63ull, n;

	if (from & (STACK_PAGE - 1))
		from -= WIN_BELOW;
	n = STACK_PAGE - (from & (STACK_PAGE - 1));
	if (n > WIN_BYTES)
		n = WIN_BYTES;
	s->win_at = from;
	s->win_bytes = 0;
	if (bpf_probe_read_user(s->win, n, (const void *)from))
		return -1;
	s->win_bytes = n;
	return 0;
}

static __always_inline long uw_word(struct scratch *s, __u64 *to, __u64 at)
{
	__u64 i = at - s->win_at;

	if (UW_RARELY(at & 7))
		return bpf_probe_read_user(to, 8, (const void *)at);
	if (UW_RARELY(i >= s->win_bytes)) {
		if (uw_fetch(s, at))
			return -1;
		i = at - s->win_at;
	}
	i >>= 3;
	UW_OPAQUE(i);
	*to = *UW_WORD_OF(s, win, i & (WIN_BYTES / 8 - 1));
	return 0;
}

/* n is a constant, and a multiple of 8. */
static __always_inline long uw_read(struct unwind *u, __u64 *to, __u32 n, __u64 at)
{
	struct scratch *s = (struct scratch *)u;

	if (n > 16)
		return bpf_probe_read_user(to, n, (const void *)at);
	return uw_word(s, to, at) || (n == 16 && uw_word(s, to + 1, at + 8));
}

static __always_inline long uw_code(struct unwind *u, __u8 to[UW_CODE])
{
	return bpf_probe_read_user(to, UW_CODE, (const void *)(u->ip - 1));
}

#define USER_WORDS_MASK 1023  /* a power of two less 1 that the body has room for */
_Static_assert(MAX_USER_WORDS <= USER_WORDS_MASK && (USER_WORDS_MASK + 1) * 8 <= BODY_BYTES, "masked words are in the body");

static __always_inline bool uw_push(struct unwind *u, __u64 frame)
{
	struct scratch *s = (struct scratch *)u;
	__u64 i = u->words;

	if (u->n >= MAX_USER_FRAMES)
		return false;
	UW_OPAQUE(i);
	*UW_WORD_OF(s, body, i & USER_WORDS_MASK) = frame;
	u->n++;
	u->words++;
	return true;
}

#endif
