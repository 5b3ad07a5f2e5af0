noinst_LIBRARIES += libscraper.a
SCRAPER_LIBS = libscraper.a libpprof.a $(DEFLATE_LIBS) $(PROTOBUF_C_LIBS) $(DISCOVERY_LIBS)
libscraper_a_SOURCES = \
  scraper/ask.c \
  scraper/baseline.c \
  scraper/baseline.h \
  scraper/check_discovery.c \
  scraper/conflict.c \
  scraper/cursor.c \
  scraper/cursor.h \
  scraper/delta.c \
  scraper/delta.h \
  scraper/endpoint.c \
  scraper/internal.h \
  scraper/job.c \
  scraper/job.h \
  scraper/memory.c \
  scraper/metric_cache.c \
  scraper/metric_cache.h \
  scraper/metric_families.c \
  scraper/metric_families.h \
  scraper/metrics_work.c \
  scraper/metrics_work.h \
  scraper/names.c \
  scraper/names.h \
  scraper/names_ask.c \
  scraper/names_ask.h \
  scraper/object_config.c \
  scraper/object_config.h \
  scraper/object_jobs.c \
  scraper/object_sources.c \
  scraper/object_sources.h \
  scraper/piece.c \
  scraper/piece.h \
  scraper/pool.c \
  scraper/profile_work.c \
  scraper/profile_work.h \
  scraper/receipt.c \
  scraper/receipt.h \
  scraper/report.c \
  scraper/report.h \
  scraper/schedule.c \
  scraper/scrape_config.c \
  scraper/scrape_config.h \
  scraper/scrape_types.c \
  scraper/scraper.c \
  scraper/scraper.h \
  scraper/seen.c \
  scraper/seen.h \
  scraper/series.c \
  scraper/split.c \
  scraper/split.h \
  scraper/stamp.c \
  scraper/status.c \
  scraper/status_metadata.c \
  scraper/sync.c \
  scraper/table.c \
  scraper/table.h \
  scraper/target.c \
  scraper/text_metrics.c \
  scraper/text_metrics.h \
  scraper/turns.c \
  scraper/work.c
if HAVE_CMOCKA
check_PROGRAMS += metric_families_test scraper_baseline_test text_metrics_test metrics_work_test scraper_cursor_test scraper_piece_test scraper_schedule_test scraper_names_test scraper_status_test scraper_sync_test scraper_turns_test scraper_memory_test scraper_test scraper_delta_test scraper_split_test scrape_config_test object_config_test
TESTS += metric_families_test scraper_baseline_test text_metrics_test metrics_work_test scraper_cursor_test scraper_piece_test scraper_schedule_test scraper_names_test scraper_status_test scraper_sync_test scraper_turns_test scraper_memory_test scraper_test scraper_delta_test scraper_split_test scrape_config_test object_config_test
scraper_cursor_test_SOURCES = scraper/cursor_test.c
scraper_cursor_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_piece_test_SOURCES = scraper/piece_test.c scraper/testkit.c scraper/testkit.h
scraper_piece_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_baseline_test_SOURCES = scraper/baseline_test.c scraper/testkit.c scraper/testkit.h
scraper_baseline_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_schedule_test_SOURCES = scraper/schedule_test.c
scraper_schedule_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_names_test_SOURCES = scraper/names_test.c scraper/testkit.c scraper/testkit.h
scraper_names_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
metric_families_test_SOURCES = scraper/metric_families_test.c
metric_families_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
metrics_work_test_SOURCES = scraper/metrics_work_test.c scraper/testkit.c scraper/testkit.h
metrics_work_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
text_metrics_test_SOURCES = scraper/text_metrics_test.c
text_metrics_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_status_test_SOURCES = scraper/status_test.c scraper/testkit.c scraper/testkit.h
scraper_status_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_split_test_SOURCES = scraper/split_test.c scraper/testkit.c scraper/testkit.h
scraper_split_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_sync_test_SOURCES = scraper/sync_test.c scraper/testkit.c scraper/testkit.h
scraper_sync_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_turns_test_SOURCES = scraper/turns_test.c
scraper_turns_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_memory_test_SOURCES = scraper/memory_test.c
scraper_memory_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
object_config_test_SOURCES = scraper/object_config_test.c
object_config_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scrape_config_test_SOURCES = scraper/scrape_config_test.c
scrape_config_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_delta_test_SOURCES = scraper/delta_test.c scraper/testkit.c scraper/testkit.h
scraper_delta_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_test_SOURCES = scraper/scraper_test.c scraper/testkit.c scraper/testkit.h
scraper_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
endif
