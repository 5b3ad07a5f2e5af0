# agent/core: the agent itself.
AGENT_CORE_SOURCES = \
  agent/core/agent.c \
  agent/core/agent.h \
  agent/core/agent_private.h \
  agent/core/check.c \
  agent/core/cost.c \
  agent/core/cost.h \
  agent/core/drain.c \
  agent/core/metrics.c \
  agent/core/offcpu.c \
  agent/core/offcpu.h \
  agent/core/pacer.c \
  agent/core/pacer.h \
  agent/core/stack_finish.c \
  agent/core/windows.c
if HAVE_CMOCKA
check_PROGRAMS += agent_test pacer_test windows_test
TESTS += agent_test pacer_test windows_test
agent_test_SOURCES = agent/core/agent_test.c
agent_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
pacer_test_SOURCES = agent/core/pacer_test.c
pacer_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
windows_test_SOURCES = agent/core/windows_test.c
windows_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
