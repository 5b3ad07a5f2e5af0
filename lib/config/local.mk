include lib/config/files.mk
noinst_LIBRARIES += libconfig.a
CONFIG_LIBS = libconfig.a $(MODEL_LIBS) $(YAML_LIBS)
libconfig_a_CPPFLAGS = $(AM_CPPFLAGS) $(YAML_CFLAGS)
CONFIG_TEST_LIBS = $(CONFIG_LIBS) $(CMOCKA_LIBS)
