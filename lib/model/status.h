/* SPDX-License-Identifier: Apache-2.0 */
/* What the page and the API show of the running system: small tables that each module fills on request. */
#ifndef PYRRHA_MODEL_STATUS_H
#define PYRRHA_MODEL_STATUS_H

#include "model/labels.h"

enum target_health { TARGET_UNKNOWN, TARGET_UP, TARGET_DOWN };

/* One (target, profile type) pair. Everything is borrowed for the duration of the callback. */
struct status_target {
	struct view pool;            /* job_name */
	struct labels discovered, labels;
	struct view scrape_url;      /* what is asked, without secrets */
	struct view global_url;      /* the same with a name others can reach; may equal scrape_url */
	struct view profile;         /* "process_cpu" */
	struct view last_error;      /* empty = none */
	struct view note;            /* what else there is to say, no error; empty = nothing */
	int64_t last_scrape_ms;      /* 0 = never */
	int64_t last_duration_ns;
	int64_t last_bytes, last_samples;
	int64_t interval_ms, timeout_ms;
	enum target_health health;
};

struct status_dropped {
	struct view pool;
	struct labels discovered;
};

struct status_targets {
	/* Calls `active` for each target and `dropped` (may be NULL) for each one that relabelling took out. */
	void (*each)(struct status_targets *s, void (*active)(void *arg, const struct status_target *t),
		     void (*dropped)(void *arg, const struct status_dropped *d), void *arg);
};

#endif
