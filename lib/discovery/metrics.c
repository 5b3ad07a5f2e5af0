/* SPDX-License-Identifier: Apache-2.0 */
#include "discovery/metrics.h"

#include "discovery/discovery.h"

struct metric discovery_table[SD_METRICS_] = {
	[SD_TARGETS] = { "pyrrha_sd_discovered_targets", "Targets that discovery of one kind has for a job, before relabelling.",
			 METRIC_GAUGE, "name,mechanism,role" },
	[SD_FAILED] = { "pyrrha_sd_failed_configs", "Sources of targets that have a problem now.", METRIC_GAUGE, "mechanism,role" },
	[SD_RECEIVED] = { "pyrrha_sd_received_updates_total", "Groups of targets that sources reported.", METRIC_COUNTER,
			  "mechanism,role" },
	[SD_UPDATES] = { "pyrrha_sd_updates_total", "Groups that were not what they had been, and were handed on.", METRIC_COUNTER,
			 "mechanism,role" },
	[SD_DELAYED] = { "pyrrha_sd_updates_delayed_total",
			 "Changes that came while a job had not yet taken in the one before.", METRIC_COUNTER, "name" },
	[SD_REFRESHES] = { "pyrrha_sd_refreshes_total", "Refreshes that ended, well or not.", METRIC_COUNTER, "mechanism" },
	[SD_REFRESH_FAILURES] = { "pyrrha_sd_refresh_failures_total", "Refreshes that failed.", METRIC_COUNTER, "mechanism" },
	[SD_REFRESH_SECONDS] = { "pyrrha_sd_refresh_duration_seconds", "How long a refresh took.", METRIC_HISTOGRAM, "mechanism" },
	[SD_FILE_ERRORS] = { "pyrrha_sd_file_read_errors_total", "Files of file_sd_configs that could not be read or were bad.",
			     METRIC_COUNTER },
	[SD_FILE_MTIME] = { "pyrrha_sd_file_mtime_seconds",
			    "When the file that file_sd_configs read last had been written; 0 = it is gone.", METRIC_GAUGE, "filename" },
	[SD_KUBERNETES_EVENTS] = { "pyrrha_sd_kubernetes_events_total", "Changes of Kubernetes objects that sources received.",
				   METRIC_COUNTER, "role,event" },
	[SD_KUBERNETES_FAILURES] = { "pyrrha_sd_kubernetes_failures_total", "Lists and watches of Kubernetes objects that failed.",
				     METRIC_COUNTER },
};

void discovery_register_metrics(void)
{
	metrics_register(discovery_table, SD_METRICS_);
}
