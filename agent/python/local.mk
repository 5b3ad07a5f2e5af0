# agent/python: CPython.
AGENT_PYTHON_SOURCES = \
  agent/python/layout.c \
  agent/python/layout.h \
  agent/python/python.c \
  agent/python/python.h \
  agent/python/recognise.c
