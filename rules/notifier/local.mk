# rules/notifier: Alertmanagers are told of alerts.
RULES_NOTIFIER_SOURCES = \
  rules/notifier/notifier.c \
  rules/notifier/notifier.h \
  rules/notifier/notifier_config.c \
  rules/notifier/notifier_config.h \
  rules/notifier/notifier_intake.c \
  rules/notifier/notifier_internal.h \
  rules/notifier/notifier_place.c \
  rules/notifier/notifier_queue.c \
  rules/notifier/notifier_queue.h \
  rules/notifier/notifier_send.c \
  rules/notifier/notifier_sync.c
if HAVE_CMOCKA
check_PROGRAMS += notifier_test
TESTS += notifier_test
notifier_test_SOURCES = rules/notifier/notifier_test.c
notifier_test_LDADD = librules.a $(PROMQL_LIBS) $(DISCOVERY_LIBS) $(CMOCKA_LIBS)
endif
