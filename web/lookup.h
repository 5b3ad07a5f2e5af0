/* SPDX-License-Identifier: Apache-2.0 */
/* A look at what series there are, without the engine: what the handlers that take match[] share. */
#ifndef PYRRHA_WEB_LOOKUP_H
#define PYRRHA_WEB_LOOKUP_H

#include "base/vec.h"
#include "web/answer.h"
#include "web/internal.h"

/* A view of storage, the time span, the selectors. */
struct lookup {
	struct httpd_request *rq;
	struct source_view *view;
	struct selectors sel;
	int64_t after, until;
	size_t limit;
	struct source_limits lim;
	struct source_damage damage;
	struct regex_meter meter;
};

#define UNITED_AT 4096 /* names or series: a shorter list is made unique only once, when it is complete */

struct series_list {
	VEC(struct source_series) v;
};

/* Reads `start`, `end`, `limit`, `partial_response` and match[]; close it only if it was opened. */
int lookup_open(struct lookup *l, struct web *w, struct source *source, struct httpd_request *rq, struct err *e) MUST_USE;
void lookup_close(struct lookup *l);
/* For writers of the answer, after a row: whether to go on. An error if the client has left or the time is over. Hands what is written so far to
 * httpd_out_grows, if that is much or the i-th row is one of many. */
int lookup_go_on(const struct lookup *l, size_t i, struct err *e) MUST_USE;
/* The series of all selectors in (after, until]: a union, ordered by labels, each once; floats and profiles, or profiles of
 * two types, may have equal labels. Labels are borrowed from the view; free ret->v, also after an error. */
int lookup_series(struct lookup *l, struct series_list *ret, struct err *e) MUST_USE;

#endif
