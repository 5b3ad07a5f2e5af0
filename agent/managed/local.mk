# agent/managed: the runtimes that there are, and what their code is called.
AGENT_MANAGED_SOURCES = \
  agent/managed/rows.c \
  agent/managed/rows.h
