/* SPDX-License-Identifier: Apache-2.0 */
/* A window as a pprof profile. */
#ifndef PYRRHA_AGENT_PPROF_OUT_H
#define PYRRHA_AGENT_PPROF_OUT_H

#include "agent/names/symbolize.h"
#include "agent/window/profile_window.h"
#include "model/profile.h"

/* Which processes, and which of their labels go on samples. */
struct pprof_out_options {
	bool (*keep)(void *arg, const struct process_info *p); /* NULL = all; p NULL = losses */
	void *arg;
	const struct view *by;       /* label names; NULL = all of them, and pid and thread besides */
	size_t n_by;
	const struct view *series;   /* labels to name in the comment "pyrrha: series ...", besides those nobody but */
	size_t n_series;             /* a rule or flag can have set */
};

/* Fills an initialised, empty profile. */
int pprof_out(struct profile *p, const struct profile_window *w, struct symbolizer *s,
	      const struct pprof_out_options *o, struct err *e) MUST_USE;

#endif
