/* SPDX-License-Identifier: Apache-2.0 */
/* A finished request while a decoder works on it: what work.c hands to the file that knows what its body becomes. */
#ifndef PYRRHA_SCRAPER_JOB_H
#define PYRRHA_SCRAPER_JOB_H

#include "scraper/report.h"

#define CPU_LIMIT_NS INT64_C(5000000000) /* for decoding one body */

/* A scrape while it is worked on. */
struct scrape_job {
	struct scrape_worker *worker;
	struct work *work;
	struct endpoint *ep;
	struct scrape_batch *batch;
	struct profile *p;
	struct err err;
	int64_t t_ms, cover_ms, delta_duration_ns;
	int64_t start_ns, start_cpu_ns; /* monotonic; CPU time of the thread */
	int64_t limit_ns;               /* of CPU time, while it is decoded */
	bool asks;                      /* names have to be asked for first: nothing was done */
	int64_t n_scraped, n_added, n_new; /* text metrics: samples in the body, those left after relabelling, series that began */
	bool offered;                   /* the sink was asked to take it */
	bool no_memory;                 /* there was none for it, or it was for a smaller one */
	bool again;                     /* it was believed to be light and is not: nothing was done */
};

/* For what takes long: a struct scrape_job. Nonzero, with e: it has had its time, or the program ends. */
int job_go_on(void *arg, struct err *e) MUST_USE;
/* Sample type i of the decoded profile as a type of ours; strings are the profile's or the worker's arena's. */
int job_type_of(struct scrape_job *j, uint32_t i, struct ptype *ret);
/* The stamp of a profile in the batch, and what goes with it. */
void job_times(const struct scrape_job *j, int64_t duration_ns, struct sink_profile *sp);

#endif
