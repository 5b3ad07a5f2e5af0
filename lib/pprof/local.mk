# The codec of profile.proto. The protobuf-c part is generated into the build folder.
include lib/pprof/files.mk
noinst_LIBRARIES += libpprof.a
nodist_libpprof_a_SOURCES = lib/pprof/profile.pb-c.c lib/pprof/profile.pb-c.h
PPROF_LIBS = libpprof.a $(MODEL_LIBS) $(DEFLATE_LIBS) $(PROTOBUF_C_LIBS)

BUILT_SOURCES += lib/pprof/profile.pb-c.h
CLEANFILES += lib/pprof/profile.pb-c.c lib/pprof/profile.pb-c.h
lib/pprof/profile.pb-c.c: lib/pprof/profile.proto
	$(AM_V_GEN)$(MKDIR_P) lib/pprof && \
	  $(PROTOC_C) --proto_path=$(srcdir)/lib/pprof --c_out=lib/pprof $(srcdir)/lib/pprof/profile.proto
# who includes it, for goals that do not go through BUILT_SOURCES
lib/pprof/encode.$(OBJEXT) lib/pprof/oracle.$(OBJEXT) bench/pprof_bench.$(OBJEXT): lib/pprof/profile.pb-c.h
lib/pprof/profile.pb-c.h: lib/pprof/profile.pb-c.c
	@test -f $@ || { rm -f $<; $(MAKE) $(AM_MAKEFLAGS) $<; }

PPROF_TEST_LIBS = $(PPROF_LIBS) $(CMOCKA_LIBS)
pprof_legacy_test_SOURCES = lib/pprof/legacy_test.c
pprof_test_SOURCES = lib/pprof/pprof_test.c lib/pprof/oracle.c
pprof_traps_test_SOURCES = lib/pprof/traps_test.c lib/pprof/oracle.c
