/* SPDX-License-Identifier: Apache-2.0 */
/* A profile whose samples carry labels of series (the agent's: one pull of a host, a series per container and process name). The
 * labels of the job's series_labels leave the samples and become labels of series. */
#ifndef PYRRHA_SCRAPER_SPLIT_H
#define PYRRHA_SCRAPER_SPLIT_H

#include "scraper/job.h"

/* Limit of series per pull: existing ones first, then the largest; the rest is one whose comm is "(other)". */
#define SPLIT_MAX_SERIES 1000
/* A series that a successful scrape does not bring is an observed empty profile for this long, then it ends. */
#define SPLIT_IDLE_MS 300000

/* Adds a complete successful answer to the batch. */
int split_profile(struct scrape_job *j);
/* Whether an absent series is only idle: then an empty profile was put into the batch for it. */
bool split_is_idle(const struct scrape_job *j, const struct scrape_series *s);

#endif
