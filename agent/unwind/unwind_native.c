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

/* The process has run on, and has other frames by now. */
static int uw_walk(struct unwind *u, uint32_t kind, uint64_t sp, uint64_t vaddr, uint64_t frame)
{
	struct native_unwind *nu = self(u);

	if (!uw_push(u, (uint64_t)RUNTIME_IMAGE(kind) << FRAME_IMAGE_SHIFT | RUNTIME_CUT))
		return END_DEPTH;
	nu->words[u->words++] = 0;
	nu->words[u->words++] = 0;
	return uw_push(u, frame) ? UW_STEP_ON : END_DEPTH;
}

/* To follow such code its process has to be read, which may not answer, and whoever finishes stacks must not wait. */
static int uw_step_code(struct unwind *u, uint32_t kind, uint64_t frame)
{
	const struct native_unwind *nu = self(u);

	return kind == RUNTIME_NONE && u->ip - nu->unfollowed_from < nu->unfollowed_bytes ? END_NO_TABLE : UW_NO_CODE;
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

uint64_t native_vaddr(const struct native_unwind *n)
{
	return n->u.ip - n->u.start + n->u.vaddr;
}
