# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
AGENT_FIXTURES = \
  tests/fixtures/agent/altstack.c \
  tests/fixtures/agent/bigframe.c \
  tests/fixtures/agent/build.sh \
  tests/fixtures/agent/dlopen.c \
  tests/fixtures/agent/execs.c \
  tests/fixtures/agent/fixture.h \
  tests/fixtures/agent/gocgo.go \
  tests/fixtures/agent/gofix.go \
  tests/fixtures/agent/hostile.c \
  tests/fixtures/agent/jit.c \
  tests/fixtures/agent/libc.c \
  tests/fixtures/agent/libempty.c \
  tests/fixtures/agent/look.c \
  tests/fixtures/agent/plt.c \
  tests/fixtures/agent/plugin.c \
  tests/fixtures/agent/realign.c \
  tests/fixtures/agent/recursion.c \
  tests/fixtures/agent/regions.c \
  tests/fixtures/agent/rust.rs \
  tests/fixtures/agent/shortlived.c \
  tests/fixtures/agent/threads.c \
  tests/fixtures/agent/tiny.c \
  tests/fixtures/agent/vdso.c \
  tests/fixtures/agent/vfork.c \
  $(NULL)
libagent_a_SOURCES = \
  agent/core/agent.c \
  agent/core/agent.h \
  agent/core/agent_private.h \
  agent/core/check.c \
  agent/core/cost.c \
  agent/core/cost.h \
  agent/core/drain.c \
  agent/core/drain_lock.c \
  agent/core/metrics.c \
  agent/core/offcpu.c \
  agent/core/offcpu.h \
  agent/core/pacer.c \
  agent/core/pacer.h \
  agent/core/stack_finish.c \
  agent/core/windows.c \
  agent/go/built_program.h \
  agent/go/go_frame.c \
  agent/go/go_frame.h \
  agent/go/go_module.c \
  agent/go/go_module.h \
  agent/go/gopclntab.c \
  agent/go/gopclntab.h \
  agent/hotspot/code.c \
  agent/hotspot/hotspot.c \
  agent/hotspot/hotspot.h \
  agent/hotspot/layout.c \
  agent/hotspot/layout.h \
  agent/hotspot/recognise.c \
  agent/hotspot/recognise.h \
  agent/hotspot/record.c \
  agent/hotspot/record.h \
  agent/image/exe_meta.c \
  agent/image/exe_meta.h \
  agent/image/image.c \
  agent/image/image.h \
  agent/image/image_content.c \
  agent/image/image_content.h \
  agent/image/image_files.c \
  agent/image/image_files.h \
  agent/kernel/caps.c \
  agent/kernel/caps.h \
  agent/kernel/cgroup_id.c \
  agent/kernel/cgroup_id.h \
  agent/kernel/cpu_rings.c \
  agent/kernel/cpu_rings.h \
  agent/kernel/filter.c \
  agent/kernel/filter.h \
  agent/kernel/kept_records.c \
  agent/kernel/kept_records.h \
  agent/kernel/kernel_procs.c \
  agent/kernel/kernel_procs.h \
  agent/kernel/perf_events.c \
  agent/kernel/perf_events.h \
  agent/kernel/pid_ns.c \
  agent/kernel/pid_ns.h \
  agent/kernel/sampler.c \
  agent/kernel/sampler.h \
  agent/kernel/sampler_object.c \
  agent/kernel/table_fds.h \
  agent/labels/agent_config.c \
  agent/labels/agent_config.h \
  agent/labels/cgroup.c \
  agent/labels/cgroup.h \
  agent/labels/containers.c \
  agent/labels/containers.h \
  agent/labels/group_paths.c \
  agent/labels/group_paths.h \
  agent/labels/groups.c \
  agent/labels/groups.h \
  agent/labels/labels.c \
  agent/labels/labels.h \
  agent/labels/meta.c \
  agent/labels/meta.h \
  agent/labels/pods.c \
  agent/labels/pods.h \
  agent/labels/relabel_group.c \
  agent/labels/relabel_group.h \
  agent/labels/targets.c \
  agent/labels/targets.h \
  agent/labels/unnamed.c \
  agent/labels/unnamed.h \
  agent/managed/frame_table.c \
  agent/managed/frame_table.h \
  agent/managed/namer.c \
  agent/managed/namer.h \
  agent/managed/rows.c \
  agent/managed/rows.h \
  agent/names/debug_reader.c \
  agent/names/debug_reader.h \
  agent/names/debuginfod.c \
  agent/names/debuginfod.h \
  agent/names/kallsyms.c \
  agent/names/kallsyms.h \
  agent/names/name_cache.c \
  agent/names/name_cache.h \
  agent/names/names_metrics.c \
  agent/names/perfmap.c \
  agent/names/perfmap.h \
  agent/names/perfmap_helper.c \
  agent/names/perfmap_helper.h \
  agent/names/perfmaps.c \
  agent/names/perfmaps.h \
  agent/names/symbol_reader.c \
  agent/names/symbol_reader.h \
  agent/names/symbolize.c \
  agent/names/symbolize.h \
  agent/process/address_space.c \
  agent/process/address_space.h \
  agent/process/attacher.c \
  agent/process/attacher.h \
  agent/process/code_regions.c \
  agent/process/code_regions.h \
  agent/process/cpu_budget.c \
  agent/process/cpu_budget.h \
  agent/process/host_runtimes.c \
  agent/process/host_runtimes.h \
  agent/process/images.c \
  agent/process/images.h \
  agent/process/proc_files.c \
  agent/process/proc_files.h \
  agent/process/process.c \
  agent/process/process.h \
  agent/process/process_info.c \
  agent/process/process_info.h \
  agent/process/process_runtimes.c \
  agent/process/process_runtimes.h \
  agent/python/call_edges.c \
  agent/python/call_edges.h \
  agent/python/code.c \
  agent/python/layout.c \
  agent/python/layout.h \
  agent/python/lines.c \
  agent/python/lines.h \
  agent/python/members.c \
  agent/python/members.h \
  agent/python/python.c \
  agent/python/python.h \
  agent/python/recognise.c \
  agent/python/thread_key.c \
  agent/python/thread_key.h \
  agent/runtime/proc_reader.c \
  agent/runtime/proc_reader.h \
  agent/runtime/process_memory.c \
  agent/runtime/process_memory.h \
  agent/runtime/read_jobs.c \
  agent/runtime/read_jobs.h \
  agent/runtime/reader.c \
  agent/runtime/reader.h \
  agent/runtime/runtime.h \
  agent/serve/pprof_out.c \
  agent/serve/pprof_out.h \
  agent/serve/serve.c \
  agent/serve/serve.h \
  agent/serve/serve_buildid.c \
  agent/serve/serve_buildid.h \
  agent/serve/serve_symbol.c \
  agent/serve/serve_symbol.h \
  agent/unwind/cache_wiper.c \
  agent/unwind/cache_wiper.h \
  agent/unwind/code_frame.c \
  agent/unwind/code_frame.h \
  agent/unwind/eh_frame_rows.h \
  agent/unwind/extents.c \
  agent/unwind/extents.h \
  agent/unwind/frame_pointers.c \
  agent/unwind/frame_pointers.h \
  agent/unwind/image_ids.c \
  agent/unwind/image_ids.h \
  agent/unwind/rule_set.c \
  agent/unwind/rule_set.h \
  agent/unwind/unwind_native.c \
  agent/unwind/unwind_native.h \
  agent/unwind/unwind_tables.c \
  agent/unwind/unwind_tables.h \
  agent/v8/code.c \
  agent/v8/code.h \
  agent/v8/heap.c \
  agent/v8/heap.h \
  agent/v8/layout.c \
  agent/v8/layout.h \
  agent/v8/read.c \
  agent/v8/recognise.c \
  agent/v8/record.c \
  agent/v8/record.h \
  agent/v8/safepoints.c \
  agent/v8/v8.c \
  agent/v8/v8.h \
  agent/window/profile_window.c \
  agent/window/profile_window.h \
  agent/window/sample_counts.c \
  agent/window/sample_counts.h \
  agent/window/stack_marks.c \
  agent/window/stack_marks.h \
  agent/window/stack_tree.c \
  agent/window/stack_tree.h \
  $(NULL)
EXTRA_DIST += \
  agent/python/code_test_objects.py \
  $(AGENT_FIXTURES) \
  $(NULL)
AGENT_TESTS = \
  agent_test \
  cgroup_test \
  code_frame_test \
  cpu_rings_test \
  debuginfod_test \
  eh_frame_elfutils_test \
  eh_frame_test \
  frame_table_test \
  gopclntab_test \
  group_paths_test \
  hotspot_layout_test \
  hotspot_walk_test \
  kept_records_test \
  labels_test \
  names_test \
  pacer_test \
  pprof_out_test \
  process_memory_test \
  process_test \
  python_code_test \
  python_recognise_test \
  python_walk_test \
  read_jobs_test \
  replaced_test \
  rows_test \
  rule_set_test \
  sample_counts_test \
  unwind_tables_test \
  v8_test \
  v8_walk_test \
  windows_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(AGENT_TESTS)
TESTS += $(AGENT_TESTS)
agent_test_SOURCES = agent/core/agent_test.c
agent_test_LDADD = $(AGENT_TEST_LIBS)
cgroup_test_SOURCES = agent/labels/cgroup_test.c
cgroup_test_LDADD = $(AGENT_TEST_LIBS)
code_frame_test_SOURCES = agent/unwind/code_frame_test.c
code_frame_test_LDADD = $(AGENT_TEST_LIBS)
cpu_rings_test_SOURCES = agent/kernel/cpu_rings_test.c
cpu_rings_test_LDADD = $(AGENT_TEST_LIBS)
debuginfod_test_SOURCES = agent/names/debuginfod_test.c
debuginfod_test_LDADD = $(AGENT_TEST_LIBS)
eh_frame_elfutils_test_SOURCES = agent/unwind/eh_frame_elfutils_test.c
eh_frame_elfutils_test_LDADD = $(AGENT_TEST_LIBS)
eh_frame_test_SOURCES = agent/unwind/eh_frame_test.c
eh_frame_test_LDADD = $(AGENT_TEST_LIBS)
frame_table_test_SOURCES = agent/managed/frame_table_test.c
frame_table_test_LDADD = $(AGENT_TEST_LIBS)
gopclntab_test_SOURCES = agent/go/gopclntab_test.c
gopclntab_test_LDADD = $(AGENT_TEST_LIBS)
group_paths_test_SOURCES = agent/labels/group_paths_test.c
group_paths_test_LDADD = $(AGENT_TEST_LIBS)
hotspot_layout_test_LDADD = $(AGENT_TEST_LIBS)
hotspot_walk_test_SOURCES = agent/hotspot/hotspot_walk_test.c
hotspot_walk_test_LDADD = $(AGENT_TEST_LIBS)
kept_records_test_SOURCES = agent/kernel/kept_records_test.c
kept_records_test_LDADD = $(AGENT_TEST_LIBS)
labels_test_SOURCES = agent/labels/labels_test.c
labels_test_LDADD = $(AGENT_TEST_LIBS)
names_test_SOURCES = agent/names/names_test.c
names_test_LDADD = $(AGENT_TEST_LIBS)
pacer_test_SOURCES = agent/core/pacer_test.c
pacer_test_LDADD = $(AGENT_TEST_LIBS)
pprof_out_test_SOURCES = agent/serve/pprof_out_test.c
pprof_out_test_LDADD = $(AGENT_TEST_LIBS)
process_memory_test_SOURCES = agent/runtime/process_memory_test.c
process_memory_test_LDADD = $(AGENT_TEST_LIBS)
process_test_SOURCES = agent/process/process_test.c
process_test_LDADD = $(AGENT_TEST_LIBS)
python_code_test_LDADD = $(AGENT_TEST_LIBS)
python_recognise_test_LDADD = $(AGENT_TEST_LIBS)
python_walk_test_SOURCES = agent/process/python_walk_test.c
python_walk_test_LDADD = $(AGENT_TEST_LIBS)
read_jobs_test_SOURCES = agent/runtime/read_jobs_test.c
read_jobs_test_LDADD = $(AGENT_TEST_LIBS)
replaced_test_SOURCES = agent/managed/replaced_test.c
replaced_test_LDADD = $(AGENT_TEST_LIBS)
rows_test_SOURCES = agent/managed/rows_test.c
rows_test_LDADD = $(AGENT_TEST_LIBS)
rule_set_test_SOURCES = agent/unwind/rule_set_test.c
rule_set_test_LDADD = $(AGENT_TEST_LIBS)
sample_counts_test_SOURCES = agent/window/sample_counts_test.c
sample_counts_test_LDADD = $(AGENT_TEST_LIBS)
unwind_tables_test_SOURCES = agent/unwind/unwind_tables_test.c
unwind_tables_test_LDADD = $(AGENT_TEST_LIBS)
v8_test_SOURCES = agent/v8/v8_test.c
v8_test_LDADD = $(AGENT_TEST_LIBS)
v8_walk_test_SOURCES = agent/v8/v8_walk_test.c
v8_walk_test_LDADD = $(AGENT_TEST_LIBS)
windows_test_SOURCES = agent/core/windows_test.c
windows_test_LDADD = $(AGENT_TEST_LIBS)
endif
