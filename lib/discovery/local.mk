noinst_LIBRARIES += libdiscovery.a
DISCOVERY_LIBS = libdiscovery.a $(FETCH_LIBS) $(JANSSON_LIBS)
libdiscovery_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
libdiscovery_a_SOURCES = lib/discovery/discovery.c lib/discovery/discovery.h lib/discovery/group.c lib/discovery/group.h \
	lib/discovery/metrics.c lib/discovery/metrics.h lib/discovery/refresh.c lib/discovery/refresh.h lib/discovery/sd_file.c \
	lib/discovery/sd_http.c lib/discovery/sd_static.c lib/discovery/sources.c lib/discovery/target_groups.c \
	lib/discovery/target_groups.h
if HAVE_CMOCKA
check_PROGRAMS += discovery_test sd_file_test
TESTS += discovery_test sd_file_test
discovery_test_SOURCES = lib/discovery/discovery_test.c lib/discovery/testkit.h
discovery_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
sd_file_test_SOURCES = lib/discovery/sd_file_test.c lib/discovery/testkit.h
sd_file_test_LDADD = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
endif
