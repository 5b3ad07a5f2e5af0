/* SPDX-License-Identifier: Apache-2.0 */
/* What the body of a profile becomes: decoded, stamped, its columns as series, cumulative ones as increases. */
#ifndef PYRRHA_SCRAPER_PROFILE_WORK_H
#define PYRRHA_SCRAPER_PROFILE_WORK_H

#include "scraper/job.h"

/* The whole of a successful answer into the batch; j->t_ms is its stamp then. Fills j->err. */
int profile_work_put(struct scrape_job *j);
/* What an agent says of a decoded profile beside its samples. Owned; NULL = nothing. */
char *profile_work_note(const struct profile *p);

#endif
