/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a fortnight, drawn from a seed: of all kinds, over one, two and fifteen days, each with the form of its answer. */
#ifndef PYRRHA_TESTS_QUESTIONS_H
#define PYRRHA_TESTS_QUESTIONS_H

#include "base/buf.h"

enum form { FORM_VALUES, FORM_GRAPH, FORM_MATRIX, FORM_FLAME, FORM_TABLE, FORM_COLUMNS, FORM_FOLDED, FORM_SVG, FORM_DOT, FORMS };

struct question {
	struct buf text;
	enum form form;
	unsigned days;                /* about so many days: 1, 2 or 15 */
	int64_t t_ms;                 /* of an instant query, or the end of a graph */
	int64_t start_ms, step_ms;    /* of a graph */
	double min_share;             /* parameters of a flame graph: this one, and those that follow */
	size_t functions;
	const char *search;           /* NULL: none */
	struct view root[2];
	size_t n_root;
};

/* Draws the next question; *state is that of the random numbers. Release with question_release. */
void question_draw(struct question *q, uint64_t *state);
void question_release(struct question *q);
const char *question_form(enum form f);
/* Whether its profiles are sums of fractions, whose last digits depend on the order of additions. All others are of integers. */
bool question_is_scaled(const struct question *q);

#endif
