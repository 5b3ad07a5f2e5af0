# agent/python: CPython.
AGENT_PYTHON_SOURCES = \
  agent/python/call_edges.c \
  agent/python/call_edges.h \
  agent/python/code.c \
  agent/python/layout.c \
  agent/python/layout.h \
  agent/python/lines.c \
  agent/python/lines.h \
  agent/python/members.c \
  agent/python/members.h \
  agent/python/python.c \
  agent/python/python.h \
  agent/python/recognise.c \
  agent/python/thread_key.c \
  agent/python/thread_key.h
EXTRA_DIST += agent/python/code_test_objects.py
if HAVE_CMOCKA
check_PROGRAMS += python_code_test python_recognise_test
TESTS += python_code_test python_recognise_test
python_code_test_SOURCES = agent/python/code_test.c
python_code_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
python_recognise_test_SOURCES = agent/python/recognise_test.c
python_recognise_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
