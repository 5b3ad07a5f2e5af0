/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/table.h"

#include "scraper/scraper.h"

struct metric scraper_table[M_METRICS_] = {
	[M_INTERVAL] = { "pyrrha_target_interval_length_seconds", "Time between the starts of two scrapes of one profile.",
			 METRIC_HISTOGRAM, "interval" },
	[M_POOLS] = { "pyrrha_target_scrape_pools", "Scrape jobs at work.", METRIC_GAUGE },
	[M_POOL_TARGETS] = { "pyrrha_target_scrape_pool_targets", "Targets of a job.", METRIC_GAUGE, "scrape_job" },
	[M_SYNCS] = { "pyrrha_target_scrape_pool_sync_total", "How often a job's targets were brought up to date.",
		      METRIC_COUNTER, "scrape_job" },
	[M_RELOADS] = { "pyrrha_target_scrape_pool_reloads_total", "Jobs whose configuration was exchanged.",
			METRIC_COUNTER },
	[M_RELOADS_FAILED] = { "pyrrha_target_scrape_pool_reloads_failed_total",
			       "Jobs whose configuration could not be exchanged.", METRIC_COUNTER },
	[M_SYNC_FAILED] = { "pyrrha_target_sync_failed_total", "Targets that cannot be scraped as they are labelled.",
			    METRIC_COUNTER },
	[M_TARGET_LIMIT] = { "pyrrha_target_scrape_pool_exceeded_target_limit_total",
			     "Times that a job had more targets than target_limit.", METRIC_COUNTER },
	[M_LABEL_LIMITS] = { "pyrrha_target_scrape_pool_exceeded_label_limits_total",
			     "Times that a target had labels beyond a label limit.", METRIC_COUNTER },
	[M_BODY_LIMIT] = { "pyrrha_target_scrapes_exceeded_body_size_limit_total",
			   "Scrapes whose body was over body_size_limit.", METRIC_COUNTER },
	[M_SAMPLE_LIMIT] = { "pyrrha_target_scrapes_exceeded_sample_limit_total",
			     "Scrapes with more stacks than sample_limit.", METRIC_COUNTER },
	[M_SERIES_LIMIT] = { "pyrrha_target_scrapes_exceeded_series_limit_total",
			     "Scrapes that would have begun more series within an hour than series_limit.", METRIC_COUNTER },
	[M_OUT_OF_ORDER] = { "pyrrha_target_scrapes_sample_out_of_order_total", "Profiles and samples that came too late.",
			     METRIC_COUNTER },
	[M_DUPLICATE] = { "pyrrha_target_scrapes_sample_duplicate_timestamp_total",
			  "Profiles and samples of a time that was there already.", METRIC_COUNTER },
	[M_OUT_OF_BOUNDS] = { "pyrrha_target_scrapes_sample_out_of_bounds_total",
			      "Profiles and samples too far in the future.", METRIC_COUNTER },
	[M_SCRAPES] = { "pyrrha_target_scrapes_total", "Scrapes that ended, well or not.", METRIC_COUNTER },
	[M_SCRAPES_FAILED] = { "pyrrha_target_scrapes_failed_total", "Scrapes that failed.", METRIC_COUNTER },
	[M_DROPPED] = { "pyrrha_target_scrapes_dropped_total", "Scrapes dropped because decoding or storage is behind.",
			METRIC_COUNTER },
	[M_SINK_FAILED] = { "pyrrha_target_scrapes_not_stored_total", "Scrapes that storage refused or could not write.",
			    METRIC_COUNTER },
	[M_STAMPS_REPLACED] = { "pyrrha_target_profile_timestamps_replaced_total",
				"Profiles stamped with the end of the scrape, their own time being outside of it.",
				METRIC_COUNTER },
	[M_DURATIONS_REPLACED] = { "pyrrha_target_profile_durations_replaced_total",
				   "Profiles whose duration was negative or over a year, and is that of the scrape instead.",
				   METRIC_COUNTER },
	[M_RESETS] = { "pyrrha_target_profile_resets_total", "Cumulative profiles that had started anew.", METRIC_COUNTER },
	[M_SPLIT_OTHER] = { "pyrrha_target_scrapes_split_other_total",
			    "Samples of split profiles that went to comm=\"(other)\", because the pull brought too many series.",
			    METRIC_COUNTER },
	[M_DECODE] = { "pyrrha_target_profile_decode_seconds", "Time to decode a profile and hand it to storage.",
		       METRIC_HISTOGRAM },
	[M_QUEUE_ITEMS] = { "pyrrha_target_queue_length", "Scrapes waiting for a decoder.", METRIC_GAUGE },
	[M_QUEUE_BYTES] = { "pyrrha_target_queue_bytes", "Bytes of scrapes waiting for a decoder.", METRIC_GAUGE },
	[M_RUNNING] = { "pyrrha_target_scrapes_running", "Requests under way.", METRIC_GAUGE },
};

void scraper_register_metrics(void)
{
	metrics_register(scraper_table, M_METRICS_);
}
