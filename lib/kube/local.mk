noinst_LIBRARIES += libkube.a
KUBE_LIBS = libkube.a $(FETCH_LIBS) $(JANSSON_LIBS)
libkube_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
libkube_a_SOURCES = \
  lib/kube/kube.h lib/kube/kube_client.c lib/kube/kube_informer.c lib/kube/kube_json.c lib/kube/kube_link.c lib/kube/kube_link.h \
  lib/kube/kube_private.h lib/kube/kube_scan.c lib/kube/kube_scan.h lib/kube/kube_source.c lib/kube/kube_watch.c
if HAVE_CMOCKA
check_PROGRAMS += kube_test kube_informer_test kube_scan_test
TESTS += kube_test kube_informer_test kube_scan_test
kube_scan_test_SOURCES = lib/kube/kube_scan_test.c
kube_scan_test_LDADD = $(KUBE_LIBS) $(CMOCKA_LIBS)
kube_informer_test_SOURCES = lib/kube/kube_informer_test.c
kube_informer_test_LDADD = $(KUBE_LIBS) $(CMOCKA_LIBS)
kube_test_SOURCES = lib/kube/kube_test.c
kube_test_LDADD = $(KUBE_LIBS) $(CMOCKA_LIBS)
endif
