/* SPDX-License-Identifier: Apache-2.0 */
/* Asks targets for names; names.h says how profiles get them. */
#ifndef PYRRHA_SCRAPER_NAMES_ASK_H
#define PYRRHA_SCRAPER_NAMES_ASK_H

#include "scraper/internal.h"

/* Takes the work: it comes back to the decoders with the answer. Instead of turn_end. */
void names_park(struct work *w, int64_t cpu_ns);

/* In the loop thread. */
void names_start(struct scraper *s) REQUIRES(s->lock);
/* When the scraper has stopped: all who wait go on without. */
void names_drop(struct scraper *s) REQUIRES(s->lock);

#endif
