# Remote-write. The protobuf-c part is generated into the build folder.
include lib/remote/files.mk
noinst_LIBRARIES += libremote.a
nodist_libremote_a_SOURCES = lib/remote/remote.pb-c.c lib/remote/remote.pb-c.h
REMOTE_LIBS = libremote.a $(FETCH_LIBS) $(MODEL_LIBS) $(PROTOBUF_C_LIBS) -lsnappy

BUILT_SOURCES += lib/remote/remote.pb-c.h
CLEANFILES += lib/remote/remote.pb-c.c lib/remote/remote.pb-c.h
lib/remote/remote.pb-c.c: lib/remote/remote.proto
	$(AM_V_GEN)$(MKDIR_P) lib/remote && \
	  $(PROTOC_C) --proto_path=$(srcdir)/lib/remote --c_out=lib/remote $(srcdir)/lib/remote/remote.proto
lib/remote/remote.pb-c.h: lib/remote/remote.pb-c.c
	@test -f $@ || { rm -f $<; $(MAKE) $(AM_MAKEFLAGS) $<; }

REMOTE_TEST_LIBS = $(REMOTE_LIBS) $(CMOCKA_LIBS)
