# Merge, diff and filters beside google/pprof's: `run` builds its Go program and starts the tests, or is skipped
# without go.
include tests/oracle/files.mk
if HAVE_CMOCKA
check_PROGRAMS += oracle_test oracle_filter_test oracle_legacy_test
TESTS += tests/oracle/run
oracle_test_SOURCES = tests/oracle/merge_test.c tests/oracle/stacks.c tests/oracle/stacks.h lib/pprof/oracle.c lib/pprof/oracle.h
oracle_test_LDADD = $(PPROF_LIBS) $(CMOCKA_LIBS)
oracle_filter_test_SOURCES = tests/oracle/filter_test.c tests/oracle/stacks.c tests/oracle/stacks.h lib/pprof/oracle.c \
  lib/pprof/oracle.h
oracle_filter_test_LDADD = libpromql.a $(PPROF_LIBS) $(CMOCKA_LIBS)
oracle_legacy_test_SOURCES = tests/oracle/legacy_test.c tests/oracle/stacks.c tests/oracle/stacks.h
oracle_legacy_test_LDADD = $(PPROF_LIBS) $(CMOCKA_LIBS)
endif
