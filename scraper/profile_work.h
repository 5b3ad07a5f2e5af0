/* SPDX-License-Identifier: Apache-2.0 */
/* Processes the body of a profile: it is decoded and stamped, its columns become series, cumulative ones become increases. */
#ifndef PYRRHA_SCRAPER_PROFILE_WORK_H
#define PYRRHA_SCRAPER_PROFILE_WORK_H

#include "scraper/job.h"

/* Adds a complete successful answer to the batch; j->t_ms is its stamp then. Fills j->err. */
int profile_work_put(struct scrape_job *j);
/* The agent's remarks about a decoded profile, besides its samples. Owned; NULL = nothing. */
char *profile_work_note(const struct profile *p);

#endif
