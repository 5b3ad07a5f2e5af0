# agent/names: names of addresses.
AGENT_NAMES_SOURCES = \
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
  agent/names/symbolize.h
if HAVE_CMOCKA
check_PROGRAMS += debuginfod_test names_test
TESTS += debuginfod_test names_test
debuginfod_test_SOURCES = agent/names/debuginfod_test.c
debuginfod_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
names_test_SOURCES = agent/names/names_test.c agent/go/built_program.h
names_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
