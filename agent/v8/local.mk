# agent/v8: V8, the JavaScript of Node.
AGENT_V8_SOURCES = \
  agent/v8/code.c \
  agent/v8/code.h \
  agent/v8/heap.c \
  agent/v8/heap.h \
  agent/v8/layout.c \
  agent/v8/layout.h \
  agent/v8/read.c \
  agent/v8/recognise.c \
  agent/v8/record.c \
  agent/v8/record.h \
  agent/v8/safepoints.c \
  agent/v8/v8.c \
  agent/v8/v8.h
if HAVE_CMOCKA
check_PROGRAMS += v8_test v8_walk_test
TESTS += v8_test v8_walk_test
v8_test_SOURCES = agent/v8/v8_test.c
v8_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
v8_walk_test_SOURCES = agent/v8/v8_walk_test.c
v8_walk_test_CFLAGS = $(AM_CFLAGS) -Wno-unused-parameter -Wno-unused-function
v8_walk_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
