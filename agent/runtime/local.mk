# agent/runtime: what every runtime is to the rest of the agent.
AGENT_RUNTIME_SOURCES = \
  agent/runtime/proc_reader.c \
  agent/runtime/proc_reader.h \
  agent/runtime/process_memory.c \
  agent/runtime/process_memory.h \
  agent/runtime/read_jobs.c \
  agent/runtime/read_jobs.h \
  agent/runtime/reader.c \
  agent/runtime/reader.h \
  agent/runtime/runtime.h
if HAVE_CMOCKA
check_PROGRAMS += process_memory_test read_jobs_test
TESTS += process_memory_test read_jobs_test
read_jobs_test_SOURCES = agent/runtime/read_jobs_test.c
read_jobs_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
process_memory_test_SOURCES = agent/runtime/process_memory_test.c
process_memory_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
