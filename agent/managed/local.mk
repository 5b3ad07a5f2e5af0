# agent/managed: the runtimes that there are, and what their code is called.
AGENT_MANAGED_SOURCES = \
  agent/managed/frame_table.c \
  agent/managed/frame_table.h \
  agent/managed/namer.c \
  agent/managed/namer.h \
  agent/managed/rows.c \
  agent/managed/rows.h
if HAVE_CMOCKA
check_PROGRAMS += frame_table_test replaced_test rows_test
TESTS += frame_table_test replaced_test rows_test
frame_table_test_SOURCES = agent/managed/frame_table_test.c
frame_table_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
replaced_test_SOURCES = agent/managed/replaced_test.c
replaced_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
rows_test_SOURCES = agent/managed/rows_test.c
rows_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
