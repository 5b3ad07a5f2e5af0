# Object storage.
include lib/bucket/files.mk
noinst_LIBRARIES += libbucket.a
BUCKET_LIBS = libbucket.a $(FETCH_LIBS) $(MODEL_LIBS)
BUCKET_TEST_LIBS = $(BUCKET_LIBS) $(CMOCKA_LIBS)
