# Questions of one server to another.
include lib/fleet/files.mk
noinst_LIBRARIES += libfleet.a
FLEET_LIBS = libfleet.a $(DISCOVERY_LIBS)
FLEET_TEST_LIBS = $(FLEET_LIBS) $(CMOCKA_LIBS)
