include scraper/files.mk
noinst_LIBRARIES += libscraper.a
SCRAPER_LIBS = libscraper.a libpprof.a $(DEFLATE_LIBS) $(PROTOBUF_C_LIBS) $(DISCOVERY_LIBS)
if HAVE_CMOCKA
check_LIBRARIES += libscraperkit.a
endif
libscraperkit_a_SOURCES = scraper/testkit.c
SCRAPER_TEST_LIBS = libscraperkit.a $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_baseline_test_SOURCES = scraper/baseline_test.c
scraper_evict_test_SOURCES = scraper/evict_test.c
scraper_cursor_test_SOURCES = scraper/state/cursor_test.c
scraper_delta_test_SOURCES = scraper/state/delta_test.c
scraper_memory_test_SOURCES = scraper/memory_test.c
scraper_names_test_SOURCES = scraper/names_test.c
scraper_piece_test_SOURCES = scraper/piece_test.c
scraper_schedule_test_SOURCES = scraper/schedule_test.c
scraper_split_test_SOURCES = scraper/split_test.c
scraper_status_test_SOURCES = scraper/status_test.c
scraper_sync_test_SOURCES = scraper/sync_test.c
scraper_turns_test_SOURCES = scraper/turns_test.c
