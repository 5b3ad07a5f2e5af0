# scraper/config: what scrape_configs and objects of a cluster say.
SCRAPER_CONFIG_SOURCES = \
  scraper/config/object_config.c \
  scraper/config/object_config.h \
  scraper/config/object_sources.c \
  scraper/config/object_sources.h \
  scraper/config/scrape_config.c \
  scraper/config/scrape_config.h \
  scraper/config/scrape_types.c
if HAVE_CMOCKA
check_PROGRAMS += object_config_test scrape_config_test
TESTS += object_config_test scrape_config_test
object_config_test_SOURCES = scraper/config/object_config_test.c
object_config_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scrape_config_test_SOURCES = scraper/config/scrape_config_test.c
scrape_config_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
endif
