# Profiles that a program takes of itself.
noinst_LIBRARIES += libselfprof.a
libselfprof_a_SOURCES = \
  lib/selfprof/cpu.c lib/selfprof/own_code.c lib/selfprof/own_code.h lib/selfprof/own_names.c lib/selfprof/own_names.h lib/selfprof/pages.c lib/selfprof/pages.h lib/selfprof/selfprof.h \
  lib/selfprof/stacks.c lib/selfprof/stacks.h lib/selfprof/ticks.c lib/selfprof/ticks.h
EXTRA_DIST += docs/self-profiling.md
SELFPROF_LIBS = libselfprof.a $(UNWIND_LIBS) $(SYMBOLS_LIBS) $(PPROF_LIBS) $(HTTPD_LIBS)
if HAVE_CMOCKA
check_PROGRAMS += selfprof_test
TESTS += selfprof_test
selfprof_test_SOURCES = lib/selfprof/selfprof_test.c
selfprof_test_LDADD = $(SELFPROF_LIBS) $(CMOCKA_LIBS)
endif
