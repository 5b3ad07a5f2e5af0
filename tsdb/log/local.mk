# tsdb/log: the head log, its records, notes, repair.
TSDB_LOG_SOURCES = \
  tsdb/log/hlog.c \
  tsdb/log/hlog.h \
  tsdb/log/log_repair.c \
  tsdb/log/log_repair.h \
  tsdb/log/notes.c \
  tsdb/log/notes.h \
  tsdb/log/record.c \
  tsdb/log/record.h
if HAVE_CMOCKA
check_PROGRAMS += notes_test
TESTS += notes_test
notes_test_SOURCES = tsdb/log/notes_test.c
notes_test_LDADD = $(TSDB_TEST_LIBS)
endif
