/* SPDX-License-Identifier: Apache-2.0 */
/* Turns a body of text metrics into floats, stale markers of series that disappeared, and Prometheus's five series about a scrape. All
 * of it has the time at which the scrape began. */
#ifndef PYRRHA_SCRAPER_METRICS_WORK_H
#define PYRRHA_SCRAPER_METRICS_WORK_H

#include "scraper/job.h"

/* Before anything else of a scrape, or of an end: its stamp, j->t_ms. */
void metrics_work_begin(struct scrape_job *j);
/* Adds a complete successful answer to the batch. Fills j->err; nothing of the scrape counts then. */
int metrics_work_put(struct scrape_job *j);
/* The scrape must be repeated from the start. */
void metrics_work_undo(struct scrape_job *j);
/* The scrape failed and has no samples. */
void metrics_work_fail(struct scrape_job *j);
/* Series that this scrape did not bring end. */
void metrics_work_put_stale(struct scrape_job *j);
/* Adds ends of some series to an empty batch, from *at on, for a scrape that failed; moves *at behind them. False: there were none. */
bool metrics_work_put_ends(struct scrape_job *j, size_t *at);
/* After metrics_work_settle: nothing is remembered of the target's series, unless some have no end yet. */
void metrics_work_forget(struct scrape_job *j);
/* up, scrape_duration_seconds, ...: of the scrape; or their ends. */
void metrics_work_put_reports(struct scrape_job *j);
void metrics_work_end_reports(struct scrape_job *j, int64_t t_ms);
/* The batch was taken. */
void metrics_work_settle(struct scrape_job *j);
/* A batch of the endpoint was not stored: what was in it is not known. */
void metrics_work_doubt(struct scrape_job *j);

/* The time of a scrape: that of its slot if it began within 2 ms, or a hundredth of the interval, of that. So the differences between
 * stamps are equal. slot_ms 0: it has none. */
int64_t metrics_work_snap(int64_t start_ms, int64_t slot_ms, int64_t interval_ms);
/* Whether an answer may be read as text metrics; else why not, in e. */
int metrics_work_check_type(const struct job_config *j, struct view content_type, struct err *e) MUST_USE;

#endif
