/* SPDX-License-Identifier: Apache-2.0 */
/* Names for profiles that come without any (gperftools, Go's debug=1): asked of the target, as pprof does, at the symbol page
 * beside the profile. Answers are kept with the endpoint, so that a scrape asks only for new addresses.
 *
 *	decoder   meets unknown addresses -> parks the work, and is free for others
 *	loop      POST ".../symbol", 0x1+0x2+...  -> puts the work back with the answer
 *	decoder   decodes it once more, and names what it can
 *
 * Nothing fails because of it: without an answer frames are addresses, and the target is not asked for a while. */
#ifndef PYRRHA_SCRAPER_NAMES_H
#define PYRRHA_SCRAPER_NAMES_H

#include "scraper/job.h"

#define NAMES_ROUNDS_MAX 4 /* requests for one scrape */

struct names; /* of an endpoint: its decoder's */

void names_free(struct names *n, struct budget *b);

/* After a profile was decoded: whether its names have to be asked for first. Then nothing else is done with it, and
 * names_park (names_ask.h) follows. */
bool names_wanted(struct scrape_job *j);
/* Whether the profile gets its names here: names_put, after increases were computed (these identify stacks by name) and before
 * uninteresting frames are dropped. */
bool names_apply_to(const struct scrape_job *j);
int names_put(struct scrape_job *j) MUST_USE;
/* Why there are none; NULL = no reason. Owned. */
char *names_problem(const struct endpoint *ep);

#endif
