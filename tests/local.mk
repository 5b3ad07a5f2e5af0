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
fleet_agree_test_LDADD = libweb.a liblistenkit.a libfleet.a $(FETCH_LIBS) $(PROMQL_LIBS) $(TSDB_TEST_LIBS)
check_PROGRAMS += remedies_test
TESTS += remedies_test
remedies_test_SOURCES = tests/remedies_test.c
remedies_test_LDADD = libweb.a $(FETCH_LIBS) $(GNUTLS_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += fleet_columns_test
TESTS += fleet_columns_test
fleet_columns_test_SOURCES = tests/fleet_columns_test.c
fleet_columns_test_LDADD = libfleet.a $(PPROF_LIBS) $(CMOCKA_LIBS)
# It calls pyrtool.
check_PROGRAMS += bucket_tool_test
TESTS += bucket_tool_test
bucket_tool_test_SOURCES = tests/bucket_tool_test.c
bucket_tool_test_LDADD = $(BUCKET_LIBS) $(TSDB_TEST_LIBS)
# Servers that ask each other.
check_PROGRAMS += wire_test wire_hostile_test
TESTS += wire_test wire_hostile_test
wire_test_SOURCES = tests/fleet/wire_test.c tests/fleet/wirekit.h
wire_test_LDADD = libfleet.a libpromql.a $(FLEET_TEST_LIBS)
wire_hostile_test_SOURCES = tests/fleet/wire_hostile_test.c tests/fleet/wirekit.h
wire_hostile_test_LDADD = $(FLEET_TEST_LIBS)
# Other servers as peers, over HTTP.
check_LIBRARIES += liblistenkit.a
liblistenkit_a_SOURCES = tests/fleet/listenkit.c tests/fleet/listenkit.h
check_PROGRAMS += server_test server_ops_test
TESTS += server_test server_ops_test
server_test_SOURCES = tests/fleet/server_test.c
server_test_LDADD = liblistenkit.a $(FLEET_TEST_LIBS)
server_ops_test_SOURCES = tests/fleet/server_ops_test.c
server_ops_test_LDADD = liblistenkit.a libfleet.a libpromql.a $(FLEET_TEST_LIBS)
# The union of servers: each call, the language, labels and failures.
check_LIBRARIES += libunionkit.a
libunionkit_a_SOURCES = tests/fleet/unionkit.c tests/fleet/unionkit.h
UNION_TEST_LIBS = libunionkit.a libfleet.a $(PROMQL_LIBS) $(FLEET_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += union_test union_peers_test union_engine_test
TESTS += union_test union_peers_test union_engine_test
union_test_SOURCES = tests/fleet/union_test.c
union_test_LDADD = $(UNION_TEST_LIBS)
union_peers_test_SOURCES = tests/fleet/union_peers_test.c
union_peers_test_LDADD = $(UNION_TEST_LIBS)
union_engine_test_SOURCES = tests/fleet/union_engine_test.c
union_engine_test_LDADD = $(UNION_TEST_LIBS)
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
