include lib/kube/files.mk
noinst_LIBRARIES += libkube.a
KUBE_LIBS = libkube.a $(FETCH_LIBS) $(JANSSON_LIBS)
libkube_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS)
KUBE_TEST_LIBS = $(KUBE_LIBS) $(CMOCKA_LIBS)
