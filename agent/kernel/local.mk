# agent/kernel: what the kernel measures and tells.
AGENT_KERNEL_SOURCES = \
  agent/kernel/caps.c \
  agent/kernel/caps.h \
  agent/kernel/cgroup_id.c \
  agent/kernel/cgroup_id.h \
  agent/kernel/cpu_rings.c \
  agent/kernel/cpu_rings.h \
  agent/kernel/filter.c \
  agent/kernel/filter.h \
  agent/kernel/kept_records.c \
  agent/kernel/kept_records.h \
  agent/kernel/kernel_procs.c \
  agent/kernel/kernel_procs.h \
  agent/kernel/perf_events.c \
  agent/kernel/perf_events.h \
  agent/kernel/sampler.c \
  agent/kernel/sampler.h \
  agent/kernel/sampler_object.c \
  agent/kernel/table_fds.h
agent/kernel/libagent_a-sampler_object.$(OBJEXT): bpf/sample.bpf.o
if HAVE_CMOCKA
check_PROGRAMS += cpu_rings_test kept_records_test
TESTS += cpu_rings_test kept_records_test
kept_records_test_SOURCES = agent/kernel/kept_records_test.c
kept_records_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
cpu_rings_test_SOURCES = agent/kernel/cpu_rings_test.c
cpu_rings_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
