/* SPDX-License-Identifier: Apache-2.0 */
#include "base/typo.h"

#define LETTERS_MAX 64 /* longer words are near to none */

struct typo typo_of(struct view word, unsigned most)
{
	return (struct typo){ .word = word, .errors = most + 1, .meant = VIEW("") };
}

unsigned typo_most(struct view word)
{
	return (unsigned)MIN(word.len / 3, (size_t)3);
}

/* Row by row of the table that has, at i and j, the errors between the first i letters of a and the first j of b. */
static unsigned typo_count(struct view a, struct view b)
{
	unsigned rows[3][LETTERS_MAX + 1];
	unsigned *before = rows[0], *above = rows[1], *row = rows[2];
	if (a.len > LETTERS_MAX || b.len > LETTERS_MAX)
		return LETTERS_MAX;
	for (size_t j = 0; j <= b.len; j++)
		above[j] = before[j] = (unsigned)j;
	for (size_t i = 1; i <= a.len; i++) {
		row[0] = (unsigned)i;
		for (size_t j = 1; j <= b.len; j++) {
			row[j] = MIN(above[j - 1] + (a.ptr[i - 1] != b.ptr[j - 1]), MIN(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		unsigned *oldest = before;
		before = above;
		above = row;
		row = oldest;
	}
	return above[b.len];
}

void typo_compare(struct typo *t, struct view candidate)
{
	unsigned n = typo_count(t->word, candidate);
	if (n >= t->errors)
		return;
	t->errors = n;
	t->meant = candidate;
}
