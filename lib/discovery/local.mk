include lib/discovery/files.mk
noinst_LIBRARIES += libdiscovery.a
DISCOVERY_LIBS = libdiscovery.a $(KUBE_LIBS) $(CARES_LIBS) -lresolv
libdiscovery_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(CARES_CFLAGS)
DISCOVERY_TEST_LIBS = $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
object_pods_test_CPPFLAGS = $(libdiscovery_a_CPPFLAGS)
sd_answers_test_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
sd_kubernetes_test_CPPFLAGS = $(libdiscovery_a_CPPFLAGS)
