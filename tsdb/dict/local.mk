# tsdb/dict: the dictionary of a day and its series index, as bytes.
TSDB_DICT_SOURCES = \
  tsdb/dict/dict.c \
  tsdb/dict/dict.h \
  tsdb/dict/dict_pack.c \
  tsdb/dict/dict_pack.h \
  tsdb/dict/index.c \
  tsdb/dict/index.h
if HAVE_CMOCKA
check_PROGRAMS += dict_pack_test
TESTS += dict_pack_test
dict_pack_test_SOURCES = tsdb/dict/dict_pack_test.c
dict_pack_test_LDADD = $(TSDB_TEST_LIBS)
endif
