# agent/process: processes and what they map.
AGENT_PROCESS_SOURCES = \
  agent/process/address_space.c \
  agent/process/address_space.h \
  agent/process/attacher.c \
  agent/process/attacher.h \
  agent/process/code_regions.c \
  agent/process/code_regions.h \
  agent/process/host_runtimes.c \
  agent/process/host_runtimes.h \
  agent/process/images.c \
  agent/process/images.h \
  agent/process/proc_files.c \
  agent/process/proc_files.h \
  agent/process/process.c \
  agent/process/process.h \
  agent/process/process_info.c \
  agent/process/process_info.h \
  agent/process/process_runtimes.c \
  agent/process/process_runtimes.h
if HAVE_CMOCKA
check_PROGRAMS += process_test python_walk_test
TESTS += process_test python_walk_test
process_test_SOURCES = agent/process/process_test.c
process_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
python_walk_test_SOURCES = agent/process/python_walk_test.c
python_walk_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
