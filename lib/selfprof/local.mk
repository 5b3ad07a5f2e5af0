# Profiles that a program takes of itself.
include lib/selfprof/files.mk
noinst_LIBRARIES += libselfprof.a
# malloc, for programs that profile their heap: among their sources, because an archive's would become everybody's.
SELFPROF_HEAP = lib/selfprof/heap_hooks.c
SELFPROF_LIBS = libselfprof.a $(UNWIND_LIBS) $(SYMBOLS_LIBS) $(PPROF_LIBS) $(HTTPD_LIBS)
SELFPROF_TEST_LIBS = $(SELFPROF_LIBS) $(CMOCKA_LIBS)
selfprof_heap_test_SOURCES = lib/selfprof/heap_test.c $(SELFPROF_HEAP)
