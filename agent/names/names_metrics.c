/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of finding names, and its errors. */
#include "agent/names/perfmap_helper.h"
#include "agent/names/symbolize.h"
#include "base/metrics.h"

enum { M_PERFMAPS, M_MEMORY, M_IMAGES, M_UNREAD, M_DESCRIPTORS, M_FORGOTTEN, M_OVER_BUDGET, M_TABLES, M_DEBUGINFOD, M_DEBUG_READS };

static struct metric table[] = {
	[M_PERFMAPS] = { "pyrrha_agent_perfmap_reads_total", "Readings of perf-maps of just-in-time compilers, by what came of it.",
			 METRIC_COUNTER, "result" },
	[M_MEMORY] = { "pyrrha_agent_names_memory_bytes", "Memory that finding names takes, by what it is for.", METRIC_GAUGE,
		       "part" },
	[M_IMAGES] = { "pyrrha_agent_names_images", "Files whose symbols are kept, or waited for.", METRIC_GAUGE },
	[M_UNREAD] = { "pyrrha_agent_names_unread_images", "Files that were sampled whose symbols are still to be read: profiles have no names of them yet.",
		       METRIC_GAUGE },
	[M_FORGOTTEN] = { "pyrrha_agent_names_forgotten_total",
			  "Times all names were given up because they took too much memory; they are read again.", METRIC_COUNTER },
	[M_OVER_BUDGET] = { "pyrrha_agent_names_over_budget_total",
			    "Files and addresses without names because all names together would take too much.", METRIC_COUNTER },
	[M_TABLES] = { "pyrrha_agent_names_file_bytes", "Tables of symbols in temporary files (TMPDIR).", METRIC_GAUGE },
	[M_DEBUGINFOD] = { "pyrrha_agent_debuginfod_requests_total", "Files asked for at debuginfod servers, by what came of it.",
			   METRIC_COUNTER, "result" },
	[M_DEBUG_READS] = { "pyrrha_agent_debug_info_reads_total", "Files whose debug information was read for lines, by what came of it.",
			    METRIC_COUNTER, "result" },
	[M_DESCRIPTORS] = { "pyrrha_agent_names_open_files", "Files open for that.", METRIC_GAUGE },
};

static void set_requests(const char *result, uint64_t n)
{
	metric_add(&table[M_DEBUGINFOD], MAX(0, (double)n - metric_get(&table[M_DEBUGINFOD], result)), result);
}

static void collect(void *arg)
{
	struct symbolizer_stats t;
	symbolizer_stats(arg, &t);
	for (unsigned i = 0; i < PERFMAP_RESULTS; i++) {
		double before = metric_get(&table[M_PERFMAPS], perfmap_result_names[i]);
		metric_add(&table[M_PERFMAPS], MAX(0, (double)t.perfmap_reads[i] - before), perfmap_result_names[i]);
	}
	set_requests("found", t.debuginfod_found);
	set_requests("absent", t.debuginfod_absent);
	set_requests("failed", t.debuginfod_failed);
	for (unsigned i = 0; i < DEBUG_READS; i++) {
		double before = metric_get(&table[M_DEBUG_READS], debug_read_names[i]);
		metric_add(&table[M_DEBUG_READS], MAX(0, (double)t.debug_reads[i] - before), debug_read_names[i]);
	}
	metric_set(&table[M_MEMORY], (double)t.strings_bytes, "strings");
	metric_set(&table[M_MEMORY], (double)t.resolved_bytes, "resolved");
	metric_set(&table[M_MEMORY], (double)t.images_bytes, "images");
	metric_set(&table[M_MEMORY], (double)t.perfmaps_bytes, "perfmaps");
	metric_add(&table[M_FORGOTTEN], MAX(0, (double)t.forgotten - metric_get(&table[M_FORGOTTEN])));
	metric_add(&table[M_OVER_BUDGET], MAX(0, (double)t.over_budget - metric_get(&table[M_OVER_BUDGET])));
	metric_set(&table[M_TABLES], (double)t.tables_bytes);
	metric_set(&table[M_IMAGES], (double)t.images);
	metric_set(&table[M_UNREAD], (double)t.unread);
	metric_set(&table[M_DESCRIPTORS], (double)t.open_files);
}

void symbolizer_register_metrics(struct symbolizer *s)
{
	metrics_register(table, ARRAY_LEN(table));
	metrics_on_collect(collect, s);
}
