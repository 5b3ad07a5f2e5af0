/* SPDX-License-Identifier: Apache-2.0 */
/* Names that were found, by the owner of an address (an image's serial; 0 = the kernel) and the address, and their strings,
 * each once. So a profile every ten seconds costs one hash look-up a frame. Not locked: symbolize.c's lock holds it. */
#ifndef PYRRHA_AGENT_NAME_CACHE_H
#define PYRRHA_AGENT_NAME_CACHE_H

#include "agent/names/symbolize.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"

/* A resolved address: frames[first ... + n). n 0 = it has no name. */
struct resolved {
	uint64_t owner, address;
	uint32_t first, n;
};

struct name_cache {
	struct map resolved_index, string_index;
	VEC(struct resolved) resolved;
	VEC(struct sym_frame) frames;
	struct arena text;
	VEC(struct view) strings;
};

void name_cache_init(struct name_cache *c);
void name_cache_release(struct name_cache *c);
/* The one copy of a string; valid until name_cache_clear. */
struct view name_cache_intern(struct name_cache *c, struct view v);
/* True: the address was resolved before; its frames, *ret_n of them, are copied to out. */
bool name_cache_find(const struct name_cache *c, uint64_t owner, uint64_t address, struct sym_frame out[SYM_FRAMES_MAX],
		     size_t *ret_n);
/* Keeps an address that was not there. If there are too many, all are forgotten first; their strings stay. */
void name_cache_put(struct name_cache *c, uint64_t owner, uint64_t address, const struct sym_frame *f, size_t n);
/* Addresses must be resolved again, because more is known now. */
void name_cache_forget(struct name_cache *c);
/* Gives back all memory. */
void name_cache_clear(struct name_cache *c);
size_t name_cache_strings_bytes(const struct name_cache *c);
size_t name_cache_resolved_bytes(const struct name_cache *c);

#endif
