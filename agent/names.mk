# What happens to finished windows: names of addresses and processes, pprof, HTTP. Included by agent/local.mk.
AGENT_NAMES_SOURCES = \
  agent/debuginfod.c agent/debuginfod.h agent/serve_symbol.c agent/serve_symbol.h agent/serve_buildid.c agent/serve_buildid.h \
  agent/agent_config.c agent/agent_config.h agent/exe_meta.c agent/exe_meta.h agent/meta.c agent/meta.h agent/pods.c agent/pods.h agent/groups.c agent/groups.h agent/targets.c agent/targets.h agent/relabel_group.c agent/relabel_group.h \
  agent/cgroup.c agent/cgroup.h agent/containers.c agent/containers.h agent/gopclntab.c agent/gopclntab.h agent/kallsyms.c agent/kallsyms.h agent/labels.c agent/labels.h \
  agent/perfmap.c agent/perfmap.h agent/perfmap_helper.c agent/perfmap_helper.h agent/perfmaps.c agent/perfmaps.h agent/names_metrics.c agent/pprof_out.c agent/pprof_out.h agent/serve.c agent/serve.h agent/debug_reader.c agent/debug_reader.h agent/name_cache.c agent/name_cache.h agent/symbol_reader.c agent/symbol_reader.h agent/symbolize.c agent/symbolize.h
AGENT_NAMES_LIBS = $(SELFPROF_LIBS) $(JANSSON_LIBS)
if HAVE_CMOCKA
check_PROGRAMS += names_test gopclntab_test cgroup_test labels_test debuginfod_test
TESTS += names_test gopclntab_test cgroup_test labels_test debuginfod_test
debuginfod_test_SOURCES = agent/debuginfod_test.c
debuginfod_test_LDADD = libagent.a $(BASE_LIBS) $(AGENT_NAMES_LIBS) $(CMOCKA_LIBS)
labels_test_SOURCES = agent/labels_test.c
labels_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
cgroup_test_SOURCES = agent/cgroup_test.c
cgroup_test_LDADD = libagent.a $(MODEL_LIBS) $(AGENT_NAMES_LIBS) $(CMOCKA_LIBS)
names_test_SOURCES = agent/names_test.c agent/built_program.h
gopclntab_test_SOURCES = agent/gopclntab_test.c agent/built_program.h
gopclntab_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
names_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
