/* SPDX-License-Identifier: Apache-2.0 */
/* The known word that a mistyped word most likely stands for: the one with the fewest typing errors between them. An error is a letter
 * too many, a letter that is missing, another letter, or two neighbours that are swapped (the distance of Damerau and Levenshtein,
 * restricted: no letter is part of two errors).
 *
 *	struct typo t = typo_of(word, typo_most(word));
 *	for (...)
 *		typo_compare(&t, candidate);
 *	if (t.meant.len) ... "did you mean ...?" */
#ifndef PYRRHA_BASE_TYPO_H
#define PYRRHA_BASE_TYPO_H

#include "base/view.h"

struct typo {
	struct view word;  /* the mistyped word, borrowed */
	unsigned errors;   /* typing errors between `word` and `meant`; without `meant`, one more than are allowed */
	struct view meant; /* the nearest candidate, borrowed; empty: none is near enough */
};

/* most: the number of errors that a candidate may be away. */
struct typo typo_of(struct view word, unsigned most);
/* As many errors as a person makes in a word of this length: one for three letters, three at most. More would change a short
 * word into any other one. */
unsigned typo_most(struct view word);
/* Of candidates that are equally near, the first is kept. */
void typo_compare(struct typo *t, struct view candidate);

#endif
