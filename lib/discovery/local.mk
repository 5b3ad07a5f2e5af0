noinst_LIBRARIES += libdiscovery.a
DISCOVERY_LIBS = libdiscovery.a $(FETCH_LIBS)
libdiscovery_a_SOURCES = lib/discovery/discovery.c lib/discovery/discovery.h lib/discovery/sd_static.c
