# Lint, fixtures and end-to-end tests; unit tests lie beside the code they test.
include tests/files.mk
LINT = tests/lint/layers tests/lint/circles tests/lint/banned tests/lint/files tests/lint/lists tests/lint/structs tests/lint/locks tests/lint/exports \
  tests/lint/format tests/lint/hardening tests/lint/pages tests/lint/selftest
if HAVE_PYTHON3
TESTS += $(LINT)
endif
# Folders that go into the tarball as they are.
EXTRA_DIST += tests/fixtures/runtimes tests/fixtures/prometheus docs/img
if HAVE_CMOCKA
# The rules of deploy/rules, which administrators begin with.
check_PROGRAMS += starter_rules_test
TESTS += starter_rules_test
starter_rules_test_SOURCES = tests/statistics/starter_rules_test.c rules/testkit.h
starter_rules_test_LDADD = $(RULES_LIBS) $(PPROF_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += recorded_hour_test
TESTS += recorded_hour_test
recorded_hour_test_SOURCES = tests/statistics/recorded_hour_test.c
recorded_hour_test_LDADD = $(RULES_LIBS) $(TSDB_TEST_LIBS)
check_PROGRAMS += many_days_agree_test
TESTS += many_days_agree_test
many_days_agree_test_SOURCES = tests/many_days/many_days_agree_test.c tests/many_days/fortnight.c tests/many_days/fortnight.h \
  tests/many_days/outputs.c tests/many_days/outputs.h tests/many_days/questions.c tests/many_days/questions.h \
  tests/many_days/whole_source.c tests/many_days/whole_source.h tests/many_days/agree.c tests/many_days/agree.h
many_days_agree_test_LDADD = libweb.a $(PROMQL_LIBS) $(TSDB_TEST_LIBS)
check_PROGRAMS += fleet_agree_test
TESTS += fleet_agree_test
fleet_agree_test_SOURCES = tests/many_days/fleet_agree_test.c tests/many_days/fortnight.c tests/many_days/fortnight.h \
  tests/many_days/outputs.c tests/many_days/outputs.h tests/many_days/questions.c tests/many_days/questions.h \
  tests/many_days/agree.c tests/many_days/agree.h
fleet_agree_test_LDADD = libweb.a libfleet.a $(FETCH_LIBS) $(PROMQL_LIBS) $(TSDB_TEST_LIBS)
check_PROGRAMS += remedies_test
TESTS += remedies_test
remedies_test_SOURCES = tests/remedies_test.c
remedies_test_LDADD = libweb.a $(FETCH_LIBS) $(GNUTLS_LIBS) $(CMOCKA_LIBS)
# It calls pyrtool.
check_PROGRAMS += bucket_tool_test
TESTS += bucket_tool_test
bucket_tool_test_SOURCES = tests/bucket_tool_test.c
bucket_tool_test_LDADD = $(BUCKET_LIBS) $(TSDB_TEST_LIBS)
endif

# The end-to-end tests need the built programs, go and a few minutes: ./check runs them.
check-e2e: all
	$(AM_V_at)$(srcdir)/tests/e2e/run --build .
.PHONY: check-e2e
include tests/crash/local.mk
include tests/oracle/local.mk
include tests/fuzz/local.mk

# The script ./check goes into the tarball by hand: in EXTRA_DIST its name would mean the target of that name.
dist-hook: check-dist-hook
check-dist-hook:
	cp $(srcdir)/check $(distdir)/check
.PHONY: check-dist-hook
