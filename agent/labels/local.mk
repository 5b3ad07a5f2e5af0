# agent/labels: who a process is.
AGENT_LABELS_SOURCES = \
  agent/labels/agent_config.c \
  agent/labels/agent_config.h \
  agent/labels/cgroup.c \
  agent/labels/cgroup.h \
  agent/labels/containers.c \
  agent/labels/containers.h \
  agent/labels/groups.c \
  agent/labels/groups.h \
  agent/labels/labels.c \
  agent/labels/labels.h \
  agent/labels/meta.c \
  agent/labels/meta.h \
  agent/labels/pods.c \
  agent/labels/pods.h \
  agent/labels/relabel_group.c \
  agent/labels/relabel_group.h \
  agent/labels/targets.c \
  agent/labels/targets.h
if HAVE_CMOCKA
check_PROGRAMS += cgroup_test labels_test
TESTS += cgroup_test labels_test
cgroup_test_SOURCES = agent/labels/cgroup_test.c
cgroup_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
labels_test_SOURCES = agent/labels/labels_test.c
labels_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
