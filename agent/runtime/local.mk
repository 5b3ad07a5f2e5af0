# agent/runtime: what every runtime is to the rest of the agent.
AGENT_RUNTIME_SOURCES = \
  agent/runtime/process_memory.c \
  agent/runtime/process_memory.h \
  agent/runtime/reader.c \
  agent/runtime/reader.h \
  agent/runtime/runtime.h
if HAVE_CMOCKA
check_PROGRAMS += process_memory_test
TESTS += process_memory_test
process_memory_test_SOURCES = agent/runtime/process_memory_test.c
process_memory_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
