# agent/window: what was sampled, summed up.
AGENT_WINDOW_SOURCES = \
  agent/window/profile_window.c \
  agent/window/profile_window.h \
  agent/window/sample_counts.c \
  agent/window/sample_counts.h \
  agent/window/stack_marks.c \
  agent/window/stack_marks.h \
  agent/window/stack_tree.c \
  agent/window/stack_tree.h
if HAVE_CMOCKA
check_PROGRAMS += sample_counts_test
TESTS += sample_counts_test
sample_counts_test_SOURCES = agent/window/sample_counts_test.c
sample_counts_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
