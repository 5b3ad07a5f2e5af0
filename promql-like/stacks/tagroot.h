/* SPDX-License-Identifier: Apache-2.0 */
/* tagroot: values of labels as outermost frames, what google/pprof's option of that name does. */
#ifndef PYRRHA_PROMQL_TAGROOT_H
#define PYRRHA_PROMQL_TAGROOT_H

#include "model/labels.h"
#include "model/stackvec.h"

struct eval;

/* One frame per key, the first outermost: its name is the value, its file the key. The value is the element's (own), or else the sample's;
 * several of one key are joined by a comma, without any the name is "(no KEY)". Returns owned; NULL and *e on overflow. */
struct stackvec *tagroot(struct eval *q, const struct stackvec *v, struct labels own, const struct view *keys, size_t n_keys, struct err *e);

#endif
