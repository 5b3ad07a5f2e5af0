# agent/serve: what it answers over HTTP.
AGENT_SERVE_SOURCES = \
  agent/serve/pprof_out.c \
  agent/serve/pprof_out.h \
  agent/serve/serve.c \
  agent/serve/serve.h \
  agent/serve/serve_buildid.c \
  agent/serve/serve_buildid.h \
  agent/serve/serve_symbol.c \
  agent/serve/serve_symbol.h
if HAVE_CMOCKA
check_PROGRAMS += pprof_out_test
TESTS += pprof_out_test
pprof_out_test_SOURCES = agent/serve/pprof_out_test.c
pprof_out_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
