# The codec of profile.proto. The protobuf-c part is generated into the build folder.
noinst_LIBRARIES += libpprof.a
libpprof_a_SOURCES = \
  lib/pprof/pprof.h lib/pprof/decode.c lib/pprof/wire.c lib/pprof/wire.h lib/pprof/ids.c lib/pprof/tables.c lib/pprof/samples.c \
  lib/pprof/encode.c lib/pprof/gzip.c lib/pprof/limits.c lib/pprof/merge.c lib/pprof/prune.c \
  lib/pprof/draft.c lib/pprof/draft.h lib/pprof/legacy.c lib/pprof/legacy.h lib/pprof/legacy_cpu.c lib/pprof/legacy_heap.c \
  lib/pprof/legacy_text.c lib/pprof/legacy_java.c lib/pprof/legacy_maps.c lib/pprof/legacy_scan.c lib/pprof/folded.c \
  lib/pprof/internal.h
nodist_libpprof_a_SOURCES = lib/pprof/profile.pb-c.c lib/pprof/profile.pb-c.h
PPROF_LIBS = libpprof.a $(MODEL_LIBS) $(DEFLATE_LIBS) $(PROTOBUF_C_LIBS)

EXTRA_DIST += lib/pprof/profile.proto docs/format/pprof.md
BUILT_SOURCES += lib/pprof/profile.pb-c.h
CLEANFILES += lib/pprof/profile.pb-c.c lib/pprof/profile.pb-c.h
lib/pprof/profile.pb-c.c: lib/pprof/profile.proto
	$(AM_V_GEN)$(MKDIR_P) lib/pprof && \
	  $(PROTOC_C) --proto_path=$(srcdir)/lib/pprof --c_out=lib/pprof $(srcdir)/lib/pprof/profile.proto
# who includes it, for goals that do not go through BUILT_SOURCES
lib/pprof/encode.$(OBJEXT) lib/pprof/oracle.$(OBJEXT) bench/pprof_bench.$(OBJEXT): lib/pprof/profile.pb-c.h
lib/pprof/profile.pb-c.h: lib/pprof/profile.pb-c.c
	@test -f $@ || { rm -f $<; $(MAKE) $(AM_MAKEFLAGS) $<; }
if HAVE_CMOCKA
check_PROGRAMS += pprof_test pprof_traps_test pprof_legacy_test
TESTS += pprof_test pprof_traps_test pprof_legacy_test
pprof_legacy_test_SOURCES = lib/pprof/legacy_test.c
pprof_legacy_test_LDADD = $(PPROF_LIBS) $(CMOCKA_LIBS)
pprof_test_SOURCES = lib/pprof/pprof_test.c lib/pprof/oracle.c lib/pprof/oracle.h
pprof_test_LDADD = $(PPROF_LIBS) $(CMOCKA_LIBS)
pprof_traps_test_SOURCES = lib/pprof/traps_test.c lib/pprof/oracle.c lib/pprof/oracle.h
pprof_traps_test_LDADD = $(PPROF_LIBS) $(CMOCKA_LIBS)
endif
