/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/unwind/unwind_native.h"

#define UW_OPAQUE(v) __asm__ volatile("" : "+r"(v))

static struct native_unwind *self(struct unwind *u)
{
	return (struct native_unwind *)u; /* its first member */
}

static const struct unwind_map *uw_recent(struct unwind *u)
{
	return NULL;
}

static void uw_met(struct unwind *u, const struct unwind_map *m)
{
}

static const struct unwind_map *uw_maps(struct unwind *u)
{
	return self(u)->maps;
}

static const struct unwind_image *uw_image(struct unwind *u, uint32_t id)
{
	return unwind_tables_image(self(u)->tables, id);
}

static const __u64 *uw_pages(struct unwind *u)
{
	return unwind_tables_pages(self(u)->tables);
}

static const uint32_t *uw_chunk(struct unwind *u, uint32_t i)
{
	return unwind_tables_chunk(self(u)->tables, i);
}

static const struct unwind_rule *uw_rule(struct unwind *u, uint32_t i)
{
	return unwind_tables_rule(self(u)->tables, i);
}

static bool uw_cache_get(struct unwind *u, uint64_t vaddr, uint32_t *code)
{
	return false;
}

static void uw_cache_put(struct unwind *u, uint64_t vaddr, uint32_t code)
{
}

static long uw_read(struct unwind *u, void *to, uint32_t n, uint64_t at)
{
	struct native_unwind *nu = self(u);

	for (uint32_t done = 0; done < n;) {
		uint64_t from = at + done - nu->stack_at, in_page = from % STACK_PAGE;
		uint32_t some = (uint32_t)MIN(STACK_PAGE - in_page, (uint64_t)(n - done));
		if (at + done < nu->stack_at || from / STACK_PAGE >= STACK_PAGES || !nu->stack[from / STACK_PAGE]) {
			nu->copy_ended = true;
			return -1;
		}
		memcpy((char *)to + done, nu->stack[from / STACK_PAGE] + in_page, some);
		done += some;
	}
	return 0;
}

static long uw_code(struct unwind *u, uint8_t to[UW_CODE])
{
	struct native_unwind *nu = self(u);

	if (!nu->code)
		return -1;
	memcpy(to, nu->code, UW_CODE);
	return 0;
}

static bool uw_push(struct unwind *u, uint64_t frame)
{
	if (u->n >= MAX_USER_FRAMES)
		return false;
	self(u)->words[u->words++] = frame;
	u->n++;
	return true;
}

/* A runtime's frame. */
static bool push_words(struct unwind *u, const uint64_t word[RUNTIME_WORDS])
{
	struct native_unwind *nu = self(u);

	if (!uw_push(u, word[0] & ~RUNTIME_REST))
		return false;
	nu->words[u->words++] = word[1];
	nu->words[u->words++] = word[2];
	return true;
}

/* The end of the frames that are next in rest[]; n_rest if they have none, because the kernel could not go on. */
static uint32_t rest_end(const struct native_unwind *nu)
{
	uint32_t i = nu->at_rest;

	while (i < nu->n_rest && !(nu->rest[i] & RUNTIME_ENTRY))
		i += RUNTIME_WORDS;
	return i;
}

static bool at_edge(const struct native_unwind *nu, uint64_t vaddr)
{
	for (unsigned i = 0; nu->python && i < PYTHON_EDGES_MAX; i++)
		if (vaddr - nu->python->python.edges[i].start < nu->python->python.edges[i].end - nu->python->python.edges[i].start)
			return true;
	return false;
}

/* The process has run on, so its frames are those that the kernel sent along: the next ones, if they belong to this native frame. Those of native
 * frames that were passed, because they were not seen as the interpreter's, are left out. */
static void push_next(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr)
{
	struct native_unwind *nu = self(u);
	const uint64_t cut[RUNTIME_WORDS] = { (uint64_t)RUNTIME_IMAGE(kind) << FRAME_IMAGE_SHIFT | RUNTIME_CUT };
	bool edge = at_edge(nu, vaddr);

	for (;;) {
		uint32_t end = rest_end(nu);
		if (end >= nu->n_rest) {
			push_words(u, cut);
			return;
		}
		uint64_t entry = nu->rest[end + 1];
		if (entry == RUNTIME_ALL || entry >= u->sp || (!entry && edge))
			return;
		uint32_t from = nu->at_rest;
		nu->at_rest = end + RUNTIME_WORDS;
		if (entry && edge && entry >= sp)
			return;
		for (uint32_t i = from; i < end && (!entry || entry >= sp); i += RUNTIME_WORDS)
			if (!push_words(u, nu->rest + i))
				return;
		if (!entry || entry >= sp)
			return;
	}
}

static int uw_walk(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr, uint64_t frame)
{
	push_next(u, kind, sp, vaddr);
	return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
}

/* To follow such code its process has to be read, which may not answer, and whoever finishes stacks must not wait. */
static int uw_step_code(struct unwind *u, uint32_t kind, uint64_t frame)
{
	struct native_unwind *nu = self(u);

	nu->at_unfollowed = kind == RUNTIME_NONE ? u->ip - nu->unfollowed_from < nu->unfollowed_bytes || nu->unfollowed_v8
						 : kind == RUNTIME_V8 && nu->unfollowed_v8;
	return nu->at_unfollowed ? END_NO_TABLE : UW_NO_CODE;
}

#include "bpf/unwind.h"

int native_unwind(struct native_unwind *n)
{
	int end;

	n->u.first_map = 0;
	n->u.n_maps = n->n_maps;
	n->u.size = 0;
	do
		end = uw_step(&n->u);
	while (end == UW_STEP_ON);
	return end == END_STACK_READ && n->copy_ended ? END_COPY_ENDED : end;
}

void native_unwind_take_rest(struct native_unwind *n)
{
	uint32_t at = 0, frames = 0;

	while (at < n->u.words && !(FRAME_IS_RUNTIME(n->words[at]) && n->words[at] & RUNTIME_REST)) {
		at += FRAME_WORDS(n->words[at]);
		frames++;
	}
	if (at > n->u.words)
		at = n->u.words;
	n->n_rest = (n->u.words - at) / RUNTIME_WORDS * RUNTIME_WORDS;
	n->at_rest = 0;
	memcpy(n->rest, n->words + at, n->n_rest * sizeof n->rest[0]);
	n->u.words = at;
	n->u.n = frames;
}

uint64_t native_vaddr(const struct native_unwind *n)
{
	return n->u.ip - n->u.start + n->u.vaddr;
}
