include lib/base/files.mk
noinst_LIBRARIES += libbase.a
BASE_TEST_LIBS = $(BASE_LIBS) $(CMOCKA_LIBS)
regex_test_LDFLAGS = -Wl,--wrap=clock_mono_ns
