# Questions of one server to another.
include lib/fleet/files.mk
noinst_LIBRARIES += libfleet.a
FLEET_LIBS = libfleet.a $(FETCH_LIBS) $(MODEL_LIBS)
FLEET_TEST_LIBS = $(FLEET_LIBS) $(CMOCKA_LIBS)
dictionary_test_LDADD = libfleet.a $(PPROF_LIBS) $(CMOCKA_LIBS)

if HAVE_CMOCKA
check_LIBRARIES += liblistenkit.a
endif
liblistenkit_a_SOURCES = tests/fleet/listenkit.c tests/fleet/listenkit.h
server_test_LDADD = liblistenkit.a $(FLEET_TEST_LIBS)
server_ops_test_LDADD = liblistenkit.a libfleet.a libpromql.a $(FLEET_TEST_LIBS)
wire_test_LDADD = libfleet.a libpromql.a $(FLEET_TEST_LIBS)
