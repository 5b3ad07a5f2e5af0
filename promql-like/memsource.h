/* SPDX-License-Identifier: Apache-2.0 */
/* A source in memory: what the language's tests run on, and rules that are tried. Filled while no thread reads; views that are open
 * meanwhile have other series references afterwards. One dictionary for all. */
#ifndef PYRRHA_PROMQL_MEMSOURCE_H
#define PYRRHA_PROMQL_MEMSOURCE_H

#include "model/source.h"

struct memsource;

struct memsource *memsource_new(void);
void memsource_free(struct memsource *m);
void memsource_clear(struct memsource *m);
struct source *memsource_source(struct memsource *m);
struct symbols *memsource_symbols(struct memsource *m);
/* Copies the labels. A second value of one time replaces the first. */
int memsource_add_float(struct memsource *m, struct labels l, int64_t t_ms, double v, struct err *e) MUST_USE;
/* Takes a reference of v (over memsource_symbols; NULL with p->stale). p->total is computed. In order of time; a second one of one time is
 * left out. */
int memsource_add_profile(struct memsource *m, struct labels l, const struct ptype *type, const struct source_profile *p,
			  struct stackvec *v, struct err *e) MUST_USE;

#endif
