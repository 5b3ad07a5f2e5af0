/* SPDX-License-Identifier: Apache-2.0 */
/* Two engines are asked the same questions (questions.h), and their answers compared byte by byte. Two differences are counted and allowed: which file is shown of a name that
 * several functions have, and last digits of sums of fractions. What differs is printed as a question. */
#ifndef PYRRHA_TESTS_AGREE_H
#define PYRRHA_TESTS_AGREE_H

#include "tests/many_days/outputs.h"

#define AGREE_MOST_DIFFERENCES 20 /* whoever asks stops there */

struct agree {
	struct promql_engine *one, *other; /* borrowed */
	bool other_addresses;            /* promql_params.addresses of the other */
	const char *names[2];            /* of both, for messages */
	struct outputs outputs;
	uint64_t state;                  /* of the random numbers */
	unsigned equal, errors, empty, files, digits, differ;
	unsigned by_form[FORMS], by_days[16];
	size_t bytes;
};

/* Draws the next question and compares the answers. */
void agree_compare(struct agree *a, unsigned number);
/* The counters. */
void agree_print(const struct agree *a);

#endif
