/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's metrics: most are read from its counters when they are asked for. */
#include <sys/utsname.h>

#include "agent/core/agent_private.h"
#include "agent/managed/rows.h"
#include "agent/runtime/proc_reader.h"
#include "base/lock.h"
#include "base/metrics.h"

enum {
	M_SAMPLES, M_FRAMES, M_ENDS, M_DEFERRED, M_LOST, M_RECORDS_LOST, M_RECORDS_BAD, M_THROTTLED, M_SAMPLE_SECONDS,
	M_DRAINS, M_LATE, M_PROCESSES, M_MAPS_READS, M_PROC_STUCK, M_IMAGES, M_TABLES, M_TABLE_ROWS, M_TABLE_RULES, M_TABLE_BYTES, M_TABLE_LOADS, M_TABLE_GROUPS, M_TABLE_RULES_FREED, M_KERNEL_BYTES, M_KERNEL_PROCESSES,
	M_TABLE_EVICTIONS, M_TABLE_POSTPONED, M_TABLE_ERRORS, M_TABLE_UNSUPPORTED, M_HISTORY_WINDOWS, M_HISTORY_CUT, M_CALLERS, M_CPUS, M_COST, M_COST_PART, M_REDUCED, M_HZ, M_SLOWED, M_UNSEEN,
	M_DROPPED, M_RELABEL_ERRORS, M_CONFIG_OK, M_CONFIG_WHEN, M_CONFIG_FAILURES, M_PODS, M_KUBE_PROBLEMS,
	M_FILTERED, M_FILTERS, M_OFF_EVENTS, M_OFF_STACKS, M_OFF_SHORT, M_OFF_SHORT_SECONDS, M_OFF_LOST, M_OFF_SECONDS,
	M_OFF_SWITCHES, M_OFF_STEP, M_OFF_THRESHOLD, M_RUNTIME_READS, M_RUNTIME_OVER, M_RUNTIME_WAITING, M_RUNTIME_CODES, M_RUNTIME_BYTES,
	M_RUNTIME_SECONDS, M_RUNTIME_STUCK, M_RUNTIME_PROCESSES, M_RUNTIME_FAILURES, M_HOST
};

static struct metric table[] = {
	[M_SAMPLES] = { "pyrrha_agent_samples_total", "Samples taken.", METRIC_COUNTER },
	[M_FRAMES] = { "pyrrha_agent_frames_total", "User frames of all samples.", METRIC_COUNTER },
	[M_ENDS] = { "pyrrha_agent_stacks_total", "Samples by how their user stack ends; \"bottom\" is complete.",
		     METRIC_COUNTER, "end" },
	[M_DEFERRED] = { "pyrrha_agent_deferred_samples_total", "Samples that were unwound outside of the kernel.",
			 METRIC_COUNTER },
	[M_LOST] = { "pyrrha_agent_lost_samples_total", "Samples that are not in any profile.", METRIC_COUNTER, "reason" },
	[M_RECORDS_LOST] = { "pyrrha_agent_lost_records_total",
			     "Records of processes that the kernel's buffers had no room for; /proc is read again.",
			     METRIC_COUNTER },
	[M_RECORDS_BAD] = { "pyrrha_agent_bad_records_total", "Records that could not be read.", METRIC_COUNTER },
	[M_THROTTLED] = { "pyrrha_agent_throttled_total", "Times the kernel throttled a CPU's event.", METRIC_COUNTER },
	[M_SAMPLE_SECONDS] = { "pyrrha_agent_sampling_seconds_total", "Time spent in the sampling program, all CPUs.",
			       METRIC_COUNTER },
	[M_DRAINS] = { "pyrrha_agent_drains_total", "Times the kernel's buffers were emptied.", METRIC_COUNTER },
	[M_LATE] = { "pyrrha_agent_late_drains_total",
		     "Drains that came two seconds or more after the one before: the agent did not get the CPU, and may lose samples.",
		     METRIC_COUNTER },
	[M_PROCESSES] = { "pyrrha_agent_processes", "Processes that are known.", METRIC_GAUGE },
	[M_MAPS_READS] = { "pyrrha_agent_proc_maps_reads_total",
			   "Times /proc/PID/maps was read: of a process that is older than the agent, for a new file, or for an address that no record told.",
			   METRIC_COUNTER },
	[M_PROC_STUCK] = { "pyrrha_agent_proc_stuck_reads_total",
			   "Times a file of /proc/PID did not answer, as somebody kept the memory of that process locked (FUSE): its mappings, command "
			   "line and files may be missing.",
			   METRIC_COUNTER },
	[M_IMAGES] = { "pyrrha_agent_images", "Executable files that are known.", METRIC_GAUGE },
	[M_TABLES] = { "pyrrha_agent_unwind_tables", "Files with an unwind table in the kernel.", METRIC_GAUGE },
	[M_TABLE_ROWS] = { "pyrrha_agent_unwind_rows", "Rows of these tables.", METRIC_GAUGE },
	[M_TABLE_RULES] = { "pyrrha_agent_unwind_rules", "Distinct rules of these rows, and of rows that are gone until the next sweep; at most 16,384.", METRIC_GAUGE },
	[M_TABLE_BYTES] = { "pyrrha_agent_unwind_chunk_bytes", "Kernel memory that holds rows.", METRIC_GAUGE },
	[M_KERNEL_BYTES] = { "pyrrha_agent_kernel_map_bytes", "Kernel memory of all maps of the programs, as the kernel counts it.",
			     METRIC_GAUGE },
	[M_KERNEL_PROCESSES] = { "pyrrha_agent_kernel_processes", "Processes whose mappings are in the kernel's tables.", METRIC_GAUGE },
	[M_TABLE_LOADS] = { "pyrrha_agent_unwind_table_loads_total", "Tables built.", METRIC_COUNTER },
	[M_TABLE_GROUPS] = { "pyrrha_agent_unwind_groups_total", "Parts of tables built, as samples met them.", METRIC_COUNTER },
	[M_TABLE_EVICTIONS] = { "pyrrha_agent_unwind_table_evictions_total", "Tables that made way for others.",
				METRIC_COUNTER },
	[M_TABLE_POSTPONED] = { "pyrrha_agent_unwind_table_postponed_total",
				"Times a part of an unwind table was needed and not built, because building tables had used up its share of the CPUs (--max-cost).",
				METRIC_COUNTER },
	[M_TABLE_RULES_FREED] = { "pyrrha_agent_unwind_rules_freed_total", "Rules freed by sweeps, because no row had them any more.",
				  METRIC_COUNTER },
	[M_TABLE_ERRORS] = { "pyrrha_agent_unwind_table_errors_total",
			     "Errors in building tables: no_room, bad_table (a table or a part of it), rules_full (a row), bad_fde.",
			     METRIC_COUNTER, "reason" },
	[M_TABLE_UNSUPPORTED] = { "pyrrha_agent_unwind_unsupported_rows_total",
				  "Rows of the tables built whose rule cannot be expressed.", METRIC_COUNTER },
	[M_HISTORY_WINDOWS] = { "pyrrha_agent_history_windows", "Finished windows that are kept.", METRIC_GAUGE },
	[M_HISTORY_CUT] = { "pyrrha_agent_history_cut_total", "Windows dropped early because of the memory budget.",
			    METRIC_COUNTER },
	[M_CALLERS] = { "pyrrha_agent_profiles_in_progress", "Profiles being taken for callers.", METRIC_GAUGE },
	[M_COST] = { "pyrrha_agent_cost_ratio", "Share of the host's CPUs that the agent takes (last minute, roughly).",
		     METRIC_GAUGE },
	[M_COST_PART] = { "pyrrha_agent_cost_part_ratio",
			  "That by what it is for, as the frequency and off_cpu_step are now: agent (changes with neither), samples, "
			  "off_cpu_timing, off_cpu_stacks (while it pauses: what these would take).", METRIC_GAUGE, "part" },
	[M_REDUCED] = { "pyrrha_agent_reduced", "1: --max-cost lets less of these profiles be taken than was asked for.",
			METRIC_GAUGE, "profile" },
	[M_HZ] = { "pyrrha_agent_frequency_hertz", "Samples per second and CPU now.", METRIC_GAUGE },
	[M_SLOWED] = { "pyrrha_agent_slowed_total", "Times the frequency was lowered because of --max-cost.", METRIC_COUNTER },
	[M_UNSEEN] = { "pyrrha_agent_unseen_seconds_total", "CPU time of the host that no sample accounts for.",
		       METRIC_COUNTER },
	[M_DROPPED] = { "pyrrha_agent_dropped_samples_total", "Samples of processes that relabelling drops.", METRIC_COUNTER },
	[M_RELABEL_ERRORS] = { "pyrrha_agent_relabel_errors_total",
			       "Processes that the rules could not be applied to (they keep the labels they have without rules), or "
			       "that they made more than 16 KB of labels for (the rest is left out).",
			       METRIC_COUNTER },
	[M_CONFIG_OK] = { "pyrrha_agent_config_last_reload_successful", "Whether the last reading of the configuration worked.",
			  METRIC_GAUGE },
	[M_CONFIG_WHEN] = { "pyrrha_agent_config_last_reload_success_timestamp_seconds",
			    "When the configuration was last read.", METRIC_GAUGE },
	[M_CONFIG_FAILURES] = { "pyrrha_agent_config_reload_failures_total", "Readings of the configuration that failed: the old one stayed.",
				METRIC_COUNTER },
	[M_PODS] = { "pyrrha_agent_kubernetes_pods", "Pods of this node that the API server reported.", METRIC_GAUGE },
	[M_KUBE_PROBLEMS] = { "pyrrha_agent_kubernetes_problems_total", "Requests to the API server that did not work.",
			      METRIC_COUNTER },
	[M_FILTERED] = { "pyrrha_agent_filtered_samples_total", "Samples left out in the kernel because of a filter.",
			 METRIC_COUNTER, "by" },
	[M_FILTERS] = { "pyrrha_agent_filters", "Entries of the filters in the kernel.", METRIC_GAUGE, "by" },
	[M_OFF_EVENTS] = { "pyrrha_agent_off_cpu_events_total", "Waits that reached the threshold.", METRIC_COUNTER },
	[M_OFF_STACKS] = { "pyrrha_agent_off_cpu_stacks_total", "Stacks taken as threads left a CPU.", METRIC_COUNTER },
	[M_OFF_SHORT] = { "pyrrha_agent_off_cpu_short_events_total", "Waits below the threshold: in no profile.",
			  METRIC_COUNTER },
	[M_OFF_SHORT_SECONDS] = { "pyrrha_agent_off_cpu_short_seconds_total", "Their time.", METRIC_COUNTER },
	[M_OFF_LOST] = { "pyrrha_agent_off_cpu_lost_total",
			 "Waits without a stack (over_budget, without_room), or not seen at all (ring_full, too_many_threads, "
			 "filtered; dropped by relabelling).", METRIC_COUNTER, "reason" },
	[M_OFF_SECONDS] = { "pyrrha_agent_off_cpu_program_seconds_total", "Time spent in the program at switches, all CPUs.",
			    METRIC_COUNTER },
	[M_OFF_SWITCHES] = { "pyrrha_agent_off_cpu_switches_total", "Switches of threads that the program saw.",
			     METRIC_COUNTER },
	[M_OFF_STEP] = { "pyrrha_agent_off_cpu_step", "How far --max-cost made off-CPU profiling cheaper; 7 = it pauses.",
			 METRIC_GAUGE },
	[M_OFF_THRESHOLD] = { "pyrrha_agent_off_cpu_threshold_seconds", "Shortest wait that is profiled now.", METRIC_GAUGE },
	[M_CPUS] = { "pyrrha_agent_cpus", "CPUs that are sampled.", METRIC_GAUGE },
	[M_RUNTIME_READS] = { "pyrrha_agent_runtime_reads_total",
			      "Functions of language runtimes that were sampled, by what came of reading their names: named, gone (the process "
			      "had ended), changed (other code is there), over_budget (too large, or no room), unreadable.",
			      METRIC_COUNTER, "runtime,result" },
	[M_RUNTIME_OVER] = { "pyrrha_agent_runtime_over_budget_frames_total",
			     "Frames of functions that there was no room for: the process has run too many.", METRIC_COUNTER, "runtime" },
	[M_RUNTIME_WAITING] = { "pyrrha_agent_runtime_waiting_functions", "Functions whose names are still to be read.", METRIC_GAUGE },
	[M_RUNTIME_CODES] = { "pyrrha_agent_runtime_functions", "Functions of language runtimes in the history.", METRIC_GAUGE },
	[M_RUNTIME_BYTES] = { "pyrrha_agent_runtime_names_bytes", "Memory of their names and lines.", METRIC_GAUGE },
	[M_RUNTIME_SECONDS] = { "pyrrha_agent_runtime_naming_seconds_total", "CPU time that reading names from processes took.",
				METRIC_COUNTER },
	[M_RUNTIME_STUCK] = { "pyrrha_agent_runtime_stuck_readers_total",
			      "Times a process kept a reader of its memory waiting for seconds; its other functions are unreadable until it answers.",
			      METRIC_COUNTER },
	[M_RUNTIME_PROCESSES] = { "pyrrha_agent_runtime_processes", "Processes whose frames of a language runtime the kernel walks.",
				  METRIC_GAUGE, "runtime" },
	[M_RUNTIME_FAILURES] = { "pyrrha_agent_runtime_failures_total",
				 "Processes with a language runtime whose frames are not walked: its build is one that this agent does not name "
				 "(build; --check says why), their memory cannot be read (denied), they ended before (gone), it had not begun in "
				 "ten seconds (not_ready), its memory is not as expected (strange), there are too many (no_room), its memory does not answer (stuck).",
				 METRIC_COUNTER, "runtime,reason" },
	[M_HOST] = { "pyrrha_agent_host_info", "The host: its name, as the label node has it, kernel and machine.", METRIC_GAUGE,
		     "node,kernel,machine" },
};

static const char *const end_names[] = {
	[END_BOTTOM] = "bottom", [END_DEPTH] = "too_deep", [END_NO_PROCESS] = "unknown_process",
	[END_NO_MAPPING] = "unknown_mapping", [END_NO_TABLE] = "no_table", [END_UNSUPPORTED] = "unsupported_rule",
	[END_STACK_READ] = "stack_not_readable", [END_BAD_FRAME] = "bad_frame", [END_NO_PROGRESS] = "no_progress",
	[END_COMPAT] = "32_bit", [END_STALE] = "mapping_changed", [END_COPY_ENDED] = "stack_copy", [END_UNMAPPED] = "not_mapped",
	[END_COSTLY] = "over_budget", [END_EVICTED] = "without_room",
	[END_OUTSIDE] = "outside", [END_TABLES_FULL] = "tables_full", [END_NOT_BUILT] = "table_not_built",
};

_Static_assert(ARRAY_LEN(end_names) == END_CODES_, "each end has a name");

/* Counters of the registry only go up by what is added. */
static void set_counter(struct metric *m, uint64_t v)
{
	double before = metric_get(m);
	if ((double)v > before)
		metric_add(m, (double)v - before);
}

static void set_labelled(struct metric *m, const char *label, uint64_t v)
{
	double before = metric_get(m, label);
	if ((double)v > before)
		metric_add(m, (double)v - before, label);
}

static void set_tables(const struct unwind_tables_stats *t)
{
	metric_set(&table[M_TABLES], (double)t->images);
	metric_set(&table[M_TABLE_ROWS], (double)t->rows);
	metric_set(&table[M_TABLE_RULES], (double)t->rules);
	metric_set(&table[M_TABLE_BYTES], (double)t->chunks * CHUNK_ROWS * 4);
	set_counter(&table[M_TABLE_LOADS], t->loads);
	set_counter(&table[M_TABLE_GROUPS], t->groups);
	set_counter(&table[M_TABLE_EVICTIONS], t->evictions);
	set_counter(&table[M_TABLE_RULES_FREED], t->rules_freed);
	set_counter(&table[M_TABLE_UNSUPPORTED], t->unsupported);
	set_labelled(&table[M_TABLE_ERRORS], "no_room", t->failures);
	set_labelled(&table[M_TABLE_ERRORS], "rules_full", t->full);
	set_labelled(&table[M_TABLE_ERRORS], "bad_fde", t->bad_fdes);
	set_labelled(&table[M_TABLE_ERRORS], "bad_table", t->bad_tables);
}

static void set_pods(struct pods *p)
{
	size_t n = 0;
	uint64_t problems = 0;
	if (p)
		pods_stats(p, &n, &problems);
	metric_set(&table[M_PODS], (double)n);
	set_counter(&table[M_KUBE_PROBLEMS], problems);
}

static void set_seconds(struct metric *m, uint64_t ns)
{
	double before = metric_get(m);
	metric_add(m, MAX(0, (double)ns / 1e9 - before));
}

static void set_filters(const struct agent *a)
{
	static const char *const kinds[] = { "cgroup", "pid", "comm" };
	for (unsigned i = 0; i < FILTER_KINDS; i++) {
		set_labelled(&table[M_FILTERED], kinds[i], a->last_stats[STAT_FILTERED + i]);
		metric_set(&table[M_FILTERS], (double)filter_entries(a->filter, i), kinds[i]);
	}
}

static void set_off_cpu(const struct agent *a)
{
	const uint64_t *s = a->last_stats;
	set_counter(&table[M_OFF_EVENTS], s[STAT_OFF_EVENTS]);
	set_counter(&table[M_OFF_STACKS], s[STAT_OFF_STACKS]);
	set_counter(&table[M_OFF_SHORT], s[STAT_OFF_SHORT]);
	set_seconds(&table[M_OFF_SHORT_SECONDS], s[STAT_OFF_SHORT_NS]);
	set_labelled(&table[M_OFF_LOST], "over_budget", a->off.costly);
	set_labelled(&table[M_OFF_LOST], "without_room", a->off.evicted);
	set_labelled(&table[M_OFF_LOST], "ring_full", s[STAT_OFF_RING_FULL]);
	set_labelled(&table[M_OFF_LOST], "too_many_threads", s[STAT_OFF_NO_THREAD]);
	set_labelled(&table[M_OFF_LOST], "dropped", a->off.dropped);
	set_labelled(&table[M_OFF_LOST], "filtered", s[STAT_OFF_FILTERED]);
	set_seconds(&table[M_OFF_SECONDS], s[STAT_OFF_COST_NS]);
	set_counter(&table[M_OFF_SWITCHES], s[STAT_OFF_SWITCHES]);
	metric_set(&table[M_OFF_THRESHOLD], (double)a->sampler.control.off_threshold_ns / 1e9);
}

static void set_runtimes(struct agent *a) REQUIRES(a->lock)
{
	struct namer_stats s;
	size_t bytes, n;

	namer_stats(a->namer, &s);
	runtime_records_held(&bytes, &n);
	for (unsigned kind = 0; kind < RUNTIME_KINDS; kind++) {
		if (!runtime_of(kind))
			continue;
		const char *name = runtime_of(kind)->name;
		for (unsigned i = CODE_NAMED; i < CODE_STATES; i++) {
			double before = metric_get(&table[M_RUNTIME_READS], name, code_state_names[i]);
			metric_add(&table[M_RUNTIME_READS], MAX(0, (double)s.codes[kind][i] - before), name, code_state_names[i]);
		}
		set_labelled(&table[M_RUNTIME_OVER], name, a->frames.over_budget[kind]);
		metric_set(&table[M_RUNTIME_PROCESSES], a->state.runtime_processes[kind], name);
		for (unsigned i = 0; i < RUNTIME_FAILURES; i++) {
			double before = metric_get(&table[M_RUNTIME_FAILURES], name, runtime_failure_names[i]);
			metric_add(&table[M_RUNTIME_FAILURES], MAX(0, (double)a->state.runtime_failures[kind][i] - before), name, runtime_failure_names[i]);
		}
	}
	metric_set(&table[M_RUNTIME_WAITING], (double)(s.waiting + a->frames.wanted.n));
	metric_set(&table[M_RUNTIME_CODES], a->frames.held_codes);
	metric_set(&table[M_RUNTIME_BYTES], (double)bytes);
	set_seconds(&table[M_RUNTIME_SECONDS], s.cpu_ns);
	set_counter(&table[M_RUNTIME_STUCK], s.stuck);
}

static void set_cost(const struct pacer *p)
{
	metric_set(&table[M_COST], p->share);
	metric_set(&table[M_COST_PART], p->fixed.average, "agent");
	metric_set(&table[M_COST_PART], p->on.average, "samples");
	metric_set(&table[M_REDUCED], p->hz < p->nominal_hz, "on_cpu");
	metric_set(&table[M_HZ], p->hz);
	if (!p->off_cpu)
		return;
	metric_set(&table[M_COST_PART], p->timing.average, "off_cpu_timing");
	metric_set(&table[M_COST_PART], p->waits.average, "off_cpu_stacks");
	metric_set(&table[M_REDUCED], p->step > 0, "off_cpu");
	metric_set(&table[M_OFF_STEP], p->step);
}

static uint64_t kernel_bytes(const struct agent *a) REQUIRES(a->lock)
{
	return a->sampler.map_bytes + a->state.tables.chunks * CHUNK_ROWS * 4;
}

uint64_t agent_kernel_bytes(struct agent *a)
{
	mutex_lock(&a->lock);
	uint64_t n = kernel_bytes(a);
	mutex_unlock(&a->lock);
	return n;
}

static void collect(void *arg)
{
	struct agent *a = arg;

	mutex_lock(&a->lock);
	set_counter(&table[M_SAMPLES], a->samples);
	set_runtimes(a);
	set_counter(&table[M_FRAMES], a->sampled_frames);
	for (unsigned i = 0; i < END_CODES_; i++)
		set_labelled(&table[M_ENDS], end_names[i], a->ends[i]);
	set_counter(&table[M_DEFERRED], a->deferred_finished);
	set_labelled(&table[M_LOST], "ring_full", a->lost_ring);
	set_counter(&table[M_RECORDS_LOST], a->lost_records);
	set_counter(&table[M_RECORDS_BAD], a->bad_records);
	set_counter(&table[M_THROTTLED], a->throttled);
	set_seconds(&table[M_SAMPLE_SECONDS], a->sample_ns);
	set_counter(&table[M_DRAINS], a->drains);
	set_counter(&table[M_LATE], a->late_drains);
	set_counter(&table[M_DROPPED], a->dropped);
	set_counter(&table[M_RELABEL_ERRORS], labeler_errors(a->labeler));
	metric_set(&table[M_CONFIG_OK], atomic_load(&a->config_ok));
	metric_set(&table[M_CONFIG_WHEN], (double)a->configured_ms / 1000);
	metric_set(&table[M_CONFIG_FAILURES], (double)atomic_load(&a->config_failures));
	set_counter(&table[M_HISTORY_CUT], a->history_cut);
	metric_set(&table[M_PROCESSES], (double)a->state.processes);
	set_counter(&table[M_MAPS_READS], a->state.maps_reads);
	set_counter(&table[M_PROC_STUCK], proc_reader_stuck());
	metric_set(&table[M_KERNEL_PROCESSES], (double)a->state.kernel_processes);
	metric_set(&table[M_IMAGES], (double)a->state.images);
	metric_set(&table[M_HISTORY_WINDOWS], (double)a->history.n);
	set_cost(&a->pacer);
	set_counter(&table[M_SLOWED], a->slowed);
	set_seconds(&table[M_UNSEEN], (uint64_t)a->unseen_ns);
	metric_set(&table[M_CALLERS], (double)a->callers.n);
	metric_set(&table[M_CPUS], (double)a->state.cpus);
	set_tables(&a->state.tables);
	set_counter(&table[M_TABLE_POSTPONED], a->state.tables_postponed);
	metric_set(&table[M_KERNEL_BYTES], (double)kernel_bytes(a));
	set_pods(a->pods);
	set_filters(a);
	if (a->o.off_cpu)
		set_off_cpu(a);
	mutex_unlock(&a->lock);
}

void agent_register_metrics(struct agent *a)
{
	struct utsname u = { .release = "" };
	uname(&u);
	metrics_register(table, ARRAY_LEN(table));
	metric_set(&table[M_HOST], 1, labeler_node(a->labeler), u.release, u.machine);
	metrics_on_collect(collect, a);
	symbolizer_register_metrics(a->symbolizer);
}
