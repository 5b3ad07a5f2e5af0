# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libconfig_a_SOURCES = \
  lib/config/config.h \
  lib/config/config_decode.c \
  lib/config/config_expand.c \
  lib/config/config_expand.h \
  lib/config/config_http.c \
  lib/config/config_http.h \
  lib/config/config_redact.c \
  lib/config/config_relabel.c \
  lib/config/config_relabel.h \
  lib/config/config_sources.c \
  lib/config/config_sources.h \
  lib/config/config_top.c \
  lib/config/config_top.h \
  lib/config/config_tree.c \
  lib/config/config_value.c \
  lib/config/config_watch.c \
  lib/config/config_watch.h \
  $(NULL)
CONFIG_TESTS = \
  config_expand_test \
  config_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(CONFIG_TESTS)
TESTS += $(CONFIG_TESTS)
config_expand_test_SOURCES = lib/config/config_expand_test.c
config_expand_test_LDADD = $(CONFIG_TEST_LIBS)
config_test_SOURCES = lib/config/config_test.c
config_test_LDADD = $(CONFIG_TEST_LIBS)
endif
