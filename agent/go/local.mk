# agent/go: Go's own table.
AGENT_GO_SOURCES = \
  agent/go/go_frame.c \
  agent/go/go_frame.h \
  agent/go/go_module.c \
  agent/go/go_module.h \
  agent/go/gopclntab.c \
  agent/go/gopclntab.h
if HAVE_CMOCKA
check_PROGRAMS += gopclntab_test
TESTS += gopclntab_test
gopclntab_test_SOURCES = agent/go/gopclntab_test.c agent/go/built_program.h
gopclntab_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
