EXTRA_DIST += docs/configuration.md
noinst_LIBRARIES += libconfig.a
CONFIG_LIBS = libconfig.a $(MODEL_LIBS) $(YAML_LIBS)
libconfig_a_CPPFLAGS = $(AM_CPPFLAGS) $(YAML_CFLAGS)
libconfig_a_SOURCES = \
  lib/config/config.h lib/config/config_tree.c lib/config/config_decode.c lib/config/config_redact.c lib/config/config_value.c \
  lib/config/config_top.c lib/config/config_top.h lib/config/config_http.c lib/config/config_http.h \
  lib/config/config_relabel.c lib/config/config_relabel.h lib/config/config_expand.c lib/config/config_expand.h \
  lib/config/config_sources.c lib/config/config_sources.h lib/config/config_watch.c lib/config/config_watch.h
if HAVE_CMOCKA
check_PROGRAMS += config_test
TESTS += config_test
config_test_SOURCES = lib/config/config_test.c
config_test_LDADD = $(CONFIG_LIBS) $(CMOCKA_LIBS)
check_PROGRAMS += config_expand_test
TESTS += config_expand_test
config_expand_test_SOURCES = lib/config/config_expand_test.c
config_expand_test_LDADD = $(CONFIG_LIBS) $(CMOCKA_LIBS)
endif
