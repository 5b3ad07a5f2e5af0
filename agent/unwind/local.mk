# agent/unwind: the rules by which stacks are unwound.
AGENT_UNWIND_SOURCES = \
  agent/unwind/code_frame.c \
  agent/unwind/code_frame.h \
  agent/unwind/extents.c \
  agent/unwind/extents.h \
  agent/unwind/image_ids.c \
  agent/unwind/image_ids.h \
  agent/unwind/unwind_native.c \
  agent/unwind/unwind_native.h \
  agent/unwind/unwind_tables.c \
  agent/unwind/unwind_tables.h
if HAVE_CMOCKA
check_PROGRAMS += code_frame_test eh_frame_test eh_frame_elfutils_test unwind_tables_test
TESTS += code_frame_test eh_frame_test eh_frame_elfutils_test unwind_tables_test
code_frame_test_SOURCES = agent/unwind/code_frame_test.c agent/unwind/eh_frame_rows.h
code_frame_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
eh_frame_test_SOURCES = agent/unwind/eh_frame_test.c agent/unwind/eh_frame_rows.h
eh_frame_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
eh_frame_elfutils_test_SOURCES = agent/unwind/eh_frame_elfutils_test.c agent/unwind/eh_frame_rows.h
eh_frame_elfutils_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
unwind_tables_test_SOURCES = agent/unwind/unwind_tables_test.c
unwind_tables_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
