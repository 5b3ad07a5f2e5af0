# scraper/text: text metrics: the format, and what is remembered of their series.
SCRAPER_TEXT_SOURCES = \
  scraper/text/metric_cache.c \
  scraper/text/metric_cache.h \
  scraper/text/metric_families.c \
  scraper/text/metric_families.h \
  scraper/text/text_metrics.c \
  scraper/text/text_metrics.h
if HAVE_CMOCKA
check_PROGRAMS += metric_families_test text_metrics_test
TESTS += metric_families_test text_metrics_test
metric_families_test_SOURCES = scraper/text/metric_families_test.c
metric_families_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
text_metrics_test_SOURCES = scraper/text/text_metrics_test.c
text_metrics_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
endif
