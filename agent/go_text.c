/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/go_text.h"

#include <stdlib.h>

#include "base/alloc.h"

#define GAP 0xcc
#define STEP 16                      /* functions are aligned so at least */
#define BEFORE_MAX ((uint64_t)4 << 20) /* of C code that comes first */
#define PIECE 65536u
#define ROUGH 4                      /* ends of functions to look at everywhere */
#define FINE 64                      /* and where all but one of those fit */

struct text {
	const struct gopclntab *t;
	const Elf64_Shdr *sh;
	uint64_t n;                  /* places that are possible, STEP bytes apart */
};

/* Offset of the byte before function i, from where the code begins; false if it cannot be read. */
static bool end_before(const struct text *x, uint64_t i, uint64_t *ret)
{
	struct gopclntab_func f;

	if (!gopclntab_func(x->t, i, &f) || f.start <= x->t->text_start)
		return false;
	*ret = f.start - x->t->text_start - 1;
	return true;
}

/* Adds one for each place from which that byte is a gap. */
static bool count_rough(const struct text *x, uint64_t at, uint8_t *score)
{
	uint8_t *piece = xmalloc(PIECE);
	bool ok = true;

	for (uint64_t first = 0; first < x->n && ok; first += PIECE / STEP) {
		uint64_t n = MIN(x->n - first, (uint64_t)(PIECE / STEP));
		ok = elf_section_read(&x->t->elf, x->sh, at + first * STEP, piece, (size_t)((n - 1) * STEP + 1));
		for (uint64_t k = 0; k < n && ok; k++)
			score[first + k] += piece[k * STEP] == GAP;
	}
	free(piece);
	return ok;
}

/* Whether the ends of functions all over the code are gaps, counted from a place. Where a function fills its room there is none. */
static bool fits(const struct text *x, uint64_t place)
{
	unsigned looked = 0, gaps = 0;

	for (uint64_t k = 1; k <= FINE; k++) {
		uint64_t i = x->t->n_funcs * k / (FINE + 1), at;
		uint8_t byte;
		if (!i || !end_before(x, i, &at))
			continue;
		looked++;
		gaps += elf_section_read(&x->t->elf, x->sh, place * STEP + at, &byte, 1) && byte == GAP;
	}
	return looked >= FINE / 2 && gaps * 4 >= looked * 3;
}

bool go_text_find(const struct gopclntab *t, uint64_t *ret)
{
	struct text x = { .t = t, .sh = elf_section(&t->elf, ".text") };
	struct gopclntab_func last;
	unsigned found = 0;

	if (!x.sh || t->n_funcs < FINE || !gopclntab_func(t, t->n_funcs - 1, &last))
		return false;
	uint64_t size = last.end - t->text_start;
	if (size > x.sh->sh_size)
		return false;
	x.n = MIN(x.sh->sh_size - size, BEFORE_MAX) / STEP + 1;
	AUTOFREE uint8_t *score = xcalloc(x.n, 1);
	for (uint64_t k = 1, at; k <= ROUGH; k++)
		if (!end_before(&x, t->n_funcs * k / (ROUGH + 2), &at) || !count_rough(&x, at, score))
			return false;
	for (uint64_t place = 0; place < x.n && found < 2; place++) {
		if (score[place] < ROUGH - 1 || !fits(&x, place))
			continue;
		*ret = x.sh->sh_addr + place * STEP;
		found++;
	}
	return found == 1;
}
