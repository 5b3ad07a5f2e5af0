# Remote-write. The protobuf-c part is generated into the build folder.
noinst_LIBRARIES += libremote.a
libremote_a_SOURCES = lib/remote/backlog.c lib/remote/backlog.h lib/remote/backlog_internal.h lib/remote/backlog_read.c \
  lib/remote/encode.c lib/remote/outlet.c lib/remote/outlet.h lib/remote/receive.c \
  lib/remote/remote.h lib/remote/remote_write.c lib/remote/remote_write.h lib/remote/segment.c lib/remote/segment.h \
  lib/remote/write_config.c lib/remote/write_config.h lib/remote/write_filter.c lib/remote/write_filter.h
nodist_libremote_a_SOURCES = lib/remote/remote.pb-c.c lib/remote/remote.pb-c.h
REMOTE_LIBS = libremote.a $(FETCH_LIBS) $(MODEL_LIBS) $(PROTOBUF_C_LIBS) -lsnappy

EXTRA_DIST += lib/remote/remote.proto docs/remote-write.md docs/format/remote.md
BUILT_SOURCES += lib/remote/remote.pb-c.h
CLEANFILES += lib/remote/remote.pb-c.c lib/remote/remote.pb-c.h
lib/remote/remote.pb-c.c: lib/remote/remote.proto
	$(AM_V_GEN)$(MKDIR_P) lib/remote && \
	  $(PROTOC_C) --proto_path=$(srcdir)/lib/remote --c_out=lib/remote $(srcdir)/lib/remote/remote.proto
lib/remote/remote.pb-c.h: lib/remote/remote.pb-c.c
	@test -f $@ || { rm -f $<; $(MAKE) $(AM_MAKEFLAGS) $<; }
if HAVE_CMOCKA
check_PROGRAMS += remote_test remote_write_test backlog_test
TESTS += remote_test remote_write_test backlog_test
remote_write_test_SOURCES = lib/remote/remote_write_test.c
remote_write_test_LDADD = $(REMOTE_LIBS) $(CMOCKA_LIBS)
backlog_test_SOURCES = lib/remote/backlog_test.c
backlog_test_LDADD = $(REMOTE_LIBS) $(CMOCKA_LIBS)
remote_test_SOURCES = lib/remote/remote_test.c
remote_test_LDADD = $(REMOTE_LIBS) $(CMOCKA_LIBS)
endif
