/* SPDX-License-Identifier: Apache-2.0 */
/* The seam into storage: what scraper, rules and receivers hand over. A batch is atomic: a query sees all of it or
 * none, and nothing of it before it is synced. */
#ifndef PYRRHA_MODEL_SINK_H
#define PYRRHA_MODEL_SINK_H

#include "base/err.h"
#include "model/labels.h"
#include "model/profile.h"
#include "model/ptype.h"
#include "model/value.h"

/* One sample type of one profile, as one series. */
struct sink_column {
	struct labels labels;   /* with __name__ */
	struct ptype type;      /* kept apart from the name; fixed for the life of the series */
	uint32_t value_index;   /* which of the profile's sample types */
};

/* One profile (or the part of it that has one set of target labels): its columns share the samples. */
struct sink_profile {
	struct profile *profile;    /* borrowed during append; its arena is used as work space. NULL: stale marker */
	const uint32_t *samples;    /* indices of the samples that belong to these series; NULL = all of them */
	uint32_t n_samples;         /* of samples[]; 0 with samples != NULL: an observed empty profile */
	const int64_t *values;      /* NULL = profile->values; else the same shape (increases of cumulative types) */
	const struct sink_column *columns;
	size_t n_columns;
	int64_t t_ms;               /* the end of what it measured */
	int64_t duration_ns;        /* 0 for a gauge */
	int64_t interval_ms;        /* of the scrape, so that "due" is known */
	int64_t asked_ms;           /* how long was asked for; weight = interval / asked; 0 = weight 1 */
	int64_t cover_ms;           /* w of docs/profql.md; 0 = storage derives it from the previous stamp of the series */
	int64_t period;             /* in period units, 0 = none */
};

struct sink_float {
	struct labels labels;
	int64_t t_ms;
	double v;                   /* VALUE_STALE_BITS ends the series */
};

/* A note that its writer needs after a restart: the last value written, by key. It is stored with the batch or not at all.
 * Damage of the storage may bring back an older one, or lose it: never one that is newer than its batch. */
#define SINK_NOTE_KEY_MAX 4096
#define SINK_NOTE_VALUE_MAX 65536
#define SINK_NOTES_MAX 100000
#define SINK_NOTES_MAX_BYTES ((size_t)64 << 20) /* keys and values of all */
#define SINK_NOTE_KEPT_MS (31 * INT64_C(86400000)) /* then one that was not written again goes */
struct sink_note {
	struct view key;            /* "KIND\0...": 1 to SINK_NOTE_KEY_MAX bytes, whatever they are */
	struct view value;          /* at most SINK_NOTE_VALUE_MAX bytes; empty: the key is forgotten */
	int64_t t_ms;               /* the wall clock, for its end */
};

struct sink_batch {
	const struct sink_profile *profiles;
	size_t n_profiles;
	const struct sink_float *floats;
	size_t n_floats;
	const struct sink_note *notes; /* of the same key the last counts */
	size_t n_notes;
	bool patient;               /* nothing waits for it: it may be collected with others for longer before all are synced */
	/* Called once, from the committer's thread, when the batch is durable (e->code 0) or failed; may be NULL. */
	void (*done)(void *arg, const struct err *e);
	void *done_arg;
	/* Called for each float or profile that is refused, before append returns; why: "too old", of static lifetime. For callers
	 * that need to know which one was refused; NULL: sink_result has only counts. */
	void (*refused)(void *arg, bool profile, size_t index, const char *why);
	void *refused_arg;
};

/* Rejections that do not fail the batch are counted by the storage and reported here (may be NULL). */
struct sink_result {
	uint32_t profiles, floats;  /* accepted */
	uint32_t duplicates, too_old, too_new, over_series_limit;
	uint32_t over_names;        /* samples that became "(other)": their target named too much */
	uint32_t over_notes;        /* notes that are too large, or over SINK_NOTES_MAX or SINK_NOTES_MAX_BYTES: none of the
				     * batch's was taken, the older ones stay */
};

struct sink {
	/* Takes the batch in: everything is copied before it returns. Waits while storage is behind (back-pressure).
	 * 0: it is on its way, done will be called. Negative: nothing was taken and done will not be called:
	 * ERR_LIMIT too many series (or notes, of a batch of nothing else), ERR_UNAVAILABLE shutting down, ERR_IO storage cannot write. Thread-safe. */
	int (*append)(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e);
	/* Calls note for each durable note whose key begins with prefix, ordered by key; views are valid during the call.
	 * NULL: this sink keeps none. Thread-safe. */
	int (*notes)(struct sink *s, struct view prefix, void (*note)(void *arg, const struct sink_note *n), void *arg, struct err *e);
};

#endif
