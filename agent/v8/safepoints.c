/* SPDX-License-Identifier: Apache-2.0 */
/* The table of safepoints of optimised code, which lies behind its instructions. It has an entry for each place that a call returns to:
 *
 *	9.4          length, bytes of an entry's bits; entries of three words: pc, deoptimisation, trampoline (-1: none)
 *	10 and later    slots of the frame (from 12.5), length, sizes (below), and of Maglev's two words (from 12.5 one); entries: pc,
 *	             then, if there is any in the code, deoptimisation + 1 and trampoline + 1 (0: none), then what the collector needs
 *
 * All pcs are counted from the first instruction. When code becomes void while it is on a stack, V8 replaces the address that the frame
 * returns to by the trampoline of its entry, an exit behind the code, of which no table of positions knows. */
#include "agent/v8/code.h"

#define TABLE_BYTES_MAX 65536u
#define HEADER_WORDS_MAX 4u
#define OLD_ENTRY_BYTES 12u
#define NUMBER_BYTES_MAX 4u

struct safepoints {
	uint32_t length, header, entry;  /* entries; bytes of what is before them, and of one */
	uint32_t pc, deopt;              /* bytes of these numbers in an entry */
	uint32_t bias;                   /* of trampolines */
};

/* The sizes: from the lowest bit on whether there are deoptimisations (1 bit), then bytes of the registers, of pcs, of deoptimisations (3 each). */
static bool sizes_of(const struct v8_code *c, const uint32_t *w, uint32_t slots, struct safepoints *ret)
{
	uint32_t sizes = w[slots + 1], registers = sizes >> 1 & 7, pc = sizes >> 4 & 7, deopt = sizes >> 7 & 7;

	if (!(sizes & 1) || registers > NUMBER_BYTES_MAX || !pc || pc > NUMBER_BYTES_MAX || deopt > NUMBER_BYTES_MAX)
		return false;
	uint32_t header = c->maglev ? HEADER_WORDS_MAX : slots + 2;
	*ret = (struct safepoints){ w[slots], header * 4, 2 * pc + deopt + registers + c->maglev, pc, deopt, 1 };
	return true;
}

static bool header_read(const struct v8_heap *h, const struct v8_code *c, struct safepoints *ret)
{
	uint32_t w[HEADER_WORDS_MAX];

	if (process_memory_read(h->m, c->start + c->bytes, w, sizeof w, h->e))
		return false;
	if (h->l->safepoint_words)
		*ret = (struct safepoints){ w[0], 8, OLD_ENTRY_BYTES, 4, 4, 0 };
	else if (!sizes_of(c, w, h->l->safepoint_slots, ret))
		return false;
	return ret->length <= TABLE_BYTES_MAX / ret->entry;
}

static uint32_t number(const uint8_t *p, uint32_t bytes)
{
	uint32_t v = 0;

	memcpy(&v, p, bytes);
	return v;
}

uint64_t v8_code_called_from(const struct v8_heap *h, const struct v8_code *c, uint64_t ra)
{
	struct buf b = { .max = TABLE_BYTES_MAX };
	struct safepoints s;
	uint64_t found = ra, at = ra - c->start;

	if (at > c->bytes || !header_read(h, c, &s) ||
	    process_memory_append(h->m, c->start + c->bytes + s.header, s.length * s.entry, &b, h->e))
		s.length = 0;
	for (uint32_t i = 0; i < s.length; i++) {
		const uint8_t *p = (const uint8_t *)b.ptr + i * s.entry;
		uint32_t pc = number(p, s.pc);
		/* Of 9.4 that is all ones where there is none, which no offset is. */
		if (number(p + s.pc + s.deopt, s.pc) - s.bias == at && pc && pc < c->bytes)
			found = c->start + pc;
	}
	buf_free(&b);
	return found;
}
