# scraper/state: what is remembered between scrapes, and counting.
SCRAPER_STATE_SOURCES = \
  scraper/state/cursor.c \
  scraper/state/cursor.h \
  scraper/state/delta.c \
  scraper/state/delta.h \
  scraper/state/receipt.c \
  scraper/state/receipt.h \
  scraper/state/table.c \
  scraper/state/table.h
if HAVE_CMOCKA
check_PROGRAMS += scraper_cursor_test scraper_delta_test
TESTS += scraper_cursor_test scraper_delta_test
scraper_cursor_test_SOURCES = scraper/state/cursor_test.c
scraper_cursor_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_delta_test_SOURCES = scraper/state/delta_test.c scraper/testkit.c scraper/testkit.h
scraper_delta_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
endif
