# Profiles that a program takes of itself.
noinst_LIBRARIES += libselfprof.a
libselfprof_a_SOURCES = \
  lib/selfprof/cpu.c lib/selfprof/heap.c lib/selfprof/heap.h lib/selfprof/heap_live.c lib/selfprof/heap_live.h lib/selfprof/own_code.c lib/selfprof/own_code.h lib/selfprof/own_names.c lib/selfprof/own_names.h lib/selfprof/pages.c lib/selfprof/pages.h lib/selfprof/pieces.c lib/selfprof/pieces.h lib/selfprof/selfprof.h \
  lib/selfprof/stacks.c lib/selfprof/stacks.h lib/selfprof/ticks.c lib/selfprof/ticks.h
# malloc, for programs that profile their heap: among their sources, because an archive's would become everybody's.
SELFPROF_HEAP = lib/selfprof/heap_hooks.c
EXTRA_DIST += docs/self-profiling.md
SELFPROF_LIBS = libselfprof.a $(UNWIND_LIBS) $(SYMBOLS_LIBS) $(PPROF_LIBS) $(HTTPD_LIBS)
if HAVE_CMOCKA
check_PROGRAMS += selfprof_test selfprof_heap_test
TESTS += selfprof_test selfprof_heap_test
selfprof_heap_test_SOURCES = lib/selfprof/heap_test.c $(SELFPROF_HEAP)
selfprof_heap_test_LDADD = $(SELFPROF_LIBS) $(CMOCKA_LIBS)
selfprof_test_SOURCES = lib/selfprof/selfprof_test.c
selfprof_test_LDADD = $(SELFPROF_LIBS) $(CMOCKA_LIBS)
endif
