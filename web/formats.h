/* SPDX-License-Identifier: Apache-2.0 */
/* query?format=: the profiles of an answer themselves. */
#ifndef PYRRHA_WEB_FORMATS_H
#define PYRRHA_WEB_FORMATS_H

#include "promql-like/promql.h"
#include "web/internal.h"
#include "web/profiles/merged.h"

/* Answers /api/v1/query?format=... */
void serve_format(struct web *w, struct httpd_request *rq, struct view format);
/* An error as that format shows it; as the API does if there is no such format. */
void serve_format_error(struct httpd_request *rq, struct view format, const struct err *e);

/* Whether the answer in that format grows with elements times stacks: it has the samples of each. */
bool format_is_by_element(struct view format);

/* Evaluates `query` at `time`, as a question for profiles; addresses: as in promql_params. */
int format_ask(struct web *w, struct httpd_request *rq, bool addresses, struct promql_result *r, struct err *e) MUST_USE;

#endif
