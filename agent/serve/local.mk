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
