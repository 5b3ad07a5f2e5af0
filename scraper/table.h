/* SPDX-License-Identifier: Apache-2.0 */
/* The scraper's metrics: one row each in table.c. */
#ifndef PYRRHA_SCRAPER_TABLE_H
#define PYRRHA_SCRAPER_TABLE_H

#include "base/metrics.h"

enum scraper_metric {
	M_INTERVAL,
	M_POOLS,
	M_POOL_TARGETS,
	M_SYNCS,
	M_RELOADS,
	M_RELOADS_FAILED,
	M_SYNC_FAILED,
	M_TARGET_LIMIT,
	M_LABEL_LIMITS,
	M_BODY_LIMIT,
	M_SAMPLE_LIMIT,
	M_SERIES_LIMIT,
	M_OUT_OF_ORDER,
	M_DUPLICATE,
	M_OUT_OF_BOUNDS,
	M_SCRAPES,
	M_SCRAPES_FAILED,
	M_DROPPED,
	M_SINK_FAILED,
	M_STAMPS_REPLACED,
	M_RESETS,
	M_SPLIT_OTHER,
	M_DECODE,
	M_QUEUE_ITEMS,
	M_QUEUE_BYTES,
	M_RUNNING,
	M_METRICS_
};

extern struct metric scraper_table[M_METRICS_];

#endif
