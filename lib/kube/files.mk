# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libkube_a_SOURCES = \
  lib/kube/kube.h \
  lib/kube/kube_client.c \
  lib/kube/kube_informer.c \
  lib/kube/kube_json.c \
  lib/kube/kube_link.c \
  lib/kube/kube_link.h \
  lib/kube/kube_private.h \
  lib/kube/kube_scan.c \
  lib/kube/kube_scan.h \
  lib/kube/kube_source.c \
  lib/kube/kube_watch.c \
  $(NULL)
KUBE_TESTS = \
  kube_informer_test \
  kube_scan_test \
  kube_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(KUBE_TESTS)
TESTS += $(KUBE_TESTS)
kube_informer_test_SOURCES = lib/kube/kube_informer_test.c
kube_informer_test_LDADD = $(KUBE_TEST_LIBS)
kube_scan_test_SOURCES = lib/kube/kube_scan_test.c
kube_scan_test_LDADD = $(KUBE_TEST_LIBS)
kube_test_SOURCES = lib/kube/kube_test.c
kube_test_LDADD = $(KUBE_TEST_LIBS)
endif
