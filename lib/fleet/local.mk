# Questions of one server to another.
include lib/fleet/files.mk
noinst_LIBRARIES += libfleet.a
FLEET_LIBS = libfleet.a $(FETCH_LIBS) $(MODEL_LIBS)
FLEET_TEST_LIBS = $(FLEET_LIBS) $(CMOCKA_LIBS)

if HAVE_CMOCKA
check_LIBRARIES += libunionkit.a
endif
libunionkit_a_SOURCES = tests/fleet/unionkit.c tests/fleet/unionkit.h
UNION_TEST_LIBS = libunionkit.a libfleet.a $(PROMQL_LIBS) $(FLEET_LIBS) $(CMOCKA_LIBS)
union_test_LDADD = $(UNION_TEST_LIBS)
union_engine_test_LDADD = $(UNION_TEST_LIBS)
union_peers_test_LDADD = $(UNION_TEST_LIBS)
