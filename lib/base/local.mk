include lib/base/files.mk
noinst_LIBRARIES += libbase.a
BASE_TEST_LIBS = $(BASE_LIBS) $(CMOCKA_LIBS)
