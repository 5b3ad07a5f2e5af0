/* SPDX-License-Identifier: Apache-2.0 */
/* Answers as the API gives them, made by its own writers: PromQL's JSON, graphs as columns, and the formats that show names of frames. */
#ifndef PYRRHA_TESTS_OUTPUTS_H
#define PYRRHA_TESTS_OUTPUTS_H

#include "promql-like/promql.h"
#include "tests/many_days/questions.h"
#include "web/profiles/flame_columns.h"

struct outputs {
	struct frame_lists *lists; /* of columns: one for all answers, since it has a key of its own */
};

void outputs_init(struct outputs *o);
void outputs_release(struct outputs *o);
/* Appends the answer; an error is an answer, too. addresses: as in promql_params. Returns whether it has any series. */
bool outputs_put(struct outputs *o, struct promql_engine *g, const struct question *q, bool addresses, struct buf *out);
/* The same as lines of plain text: of a flame all that is shown but the files, binaries and start lines of functions, of values those that are not 0, or
 * nearly so, by labels. Orders by value are not kept. */
#define OUTPUTS_NEARLY_0 1e-11
void outputs_put_plain(struct promql_engine *g, const struct question *q, bool addresses, struct buf *out);
/* These, of a flame: a line for each name. */
void outputs_put_frames(struct promql_engine *g, const struct question *q, bool addresses, struct buf *out);

#endif
