# agent/python: CPython.
AGENT_PYTHON_SOURCES = \
  agent/python/layout.c \
  agent/python/layout.h \
  agent/python/python.c \
  agent/python/python.h \
  agent/python/recognise.c \
  agent/python/thread_key.c \
  agent/python/thread_key.h
if HAVE_CMOCKA
check_PROGRAMS += python_recognise_test
TESTS += python_recognise_test
python_recognise_test_SOURCES = agent/python/recognise_test.c
python_recognise_test_LDADD = $(AGENT_LIBS) $(CMOCKA_LIBS)
endif
