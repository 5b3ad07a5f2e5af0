include lib/model/files.mk
noinst_LIBRARIES += libmodel.a
MODEL_TEST_LIBS = $(MODEL_LIBS) $(CMOCKA_LIBS)
