# agent/hotspot: Java on OpenJDK.
AGENT_HOTSPOT_SOURCES = \
  agent/hotspot/code.c \
  agent/hotspot/hotspot.c \
  agent/hotspot/hotspot.h \
  agent/hotspot/layout.c \
  agent/hotspot/layout.h \
  agent/hotspot/recognise.c \
  agent/hotspot/recognise.h \
  agent/hotspot/record.c \
  agent/hotspot/record.h
if HAVE_CMOCKA
check_PROGRAMS += hotspot_layout_test hotspot_walk_test
TESTS += hotspot_layout_test hotspot_walk_test
hotspot_layout_test_SOURCES = agent/hotspot/layout_test.c
hotspot_layout_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
hotspot_walk_test_SOURCES = agent/hotspot/hotspot_walk_test.c
hotspot_walk_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
