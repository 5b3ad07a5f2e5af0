noinst_LIBRARIES += libdiscovery.a
DISCOVERY_LIBS = libdiscovery.a $(FETCH_LIBS)
libdiscovery_a_SOURCES = lib/discovery/discovery.c lib/discovery/discovery.h lib/discovery/group.c lib/discovery/group.h \
	lib/discovery/metrics.c lib/discovery/metrics.h lib/discovery/refresh.c lib/discovery/refresh.h lib/discovery/sd_static.c \
	lib/discovery/sources.c
