# Object storage.
include lib/bucket/files.mk
noinst_LIBRARIES += libbucket.a
BUCKET_LIBS = libbucket.a $(FETCH_LIBS) $(MODEL_LIBS) $(JANSSON_LIBS) $(EXPAT_LIBS)
libbucket_a_CPPFLAGS = $(AM_CPPFLAGS) $(JANSSON_CFLAGS) $(EXPAT_CFLAGS)
BUCKET_TEST_LIBS = $(BUCKET_LIBS) $(CMOCKA_LIBS)
