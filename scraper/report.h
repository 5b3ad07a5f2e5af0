/* SPDX-License-Identifier: Apache-2.0 */
/* A batch in the making: what one scrape hands to the sink. Profiles, stale markers of profile series, and the floats
 * about the target. Owned by one decoder, reused. */
#ifndef PYRRHA_SCRAPER_REPORT_H
#define PYRRHA_SCRAPER_REPORT_H

#include "scraper/internal.h"

struct batch_part {
	struct sink_profile p;
	size_t first_column;
};

struct scrape_batch {
	struct arena *arena;
	VEC(struct sink_column) columns;
	VEC(struct batch_part) parts;
	VEC(struct sink_float) floats;
	VEC(struct sink_note) notes;
	VEC(struct sink_profile) profiles; /* parts with their columns in place */
};

void batch_reset(struct scrape_batch *b);
void batch_free(struct scrape_batch *b);
/* Begins a profile (its columns are added next) and yields it. */
struct sink_profile *batch_add_profile(struct scrape_batch *b);
void batch_add_column(struct scrape_batch *b, struct labels labels, const struct ptype *type, uint32_t value_index);
/* Ends the series at t. */
void batch_add_stale(struct scrape_batch *b, const struct scrape_series *s, int64_t t_ms, int64_t interval_ms);
/* A float about the target; profile NULL = of the whole target. False past the arena's cap. */
bool batch_add_float(struct scrape_batch *b, const struct target *t, const char *metric, const char *profile, int64_t t_ms,
		     double v);
/* State needed after a restart; views are borrowed until it is passed on. */
void batch_add_note(struct scrape_batch *b, struct view key, struct view value, int64_t t_ms);
/* Hands it over; done(arg) is told whether it was stored, unless this fails. An empty batch is reported at once. */
int batch_send(struct scrape_batch *b, struct sink *sink, void (*done)(void *arg, const struct err *e), void *arg,
	       struct sink_result *res, struct err *e) MUST_USE;

#endif
