# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libscraper_a_SOURCES = \
  scraper/ask.c \
  scraper/baseline.c \
  scraper/baseline.h \
  scraper/check_discovery.c \
  scraper/config/object_config.c \
  scraper/config/object_config.h \
  scraper/config/object_sources.c \
  scraper/config/object_sources.h \
  scraper/config/scrape_config.c \
  scraper/config/scrape_config.h \
  scraper/config/scrape_types.c \
  scraper/conflict.c \
  scraper/endpoint.c \
  scraper/internal.h \
  scraper/job.c \
  scraper/job.h \
  scraper/memory.c \
  scraper/memory.h \
  scraper/metrics_work.c \
  scraper/metrics_work.h \
  scraper/names.c \
  scraper/names.h \
  scraper/names_ask.c \
  scraper/names_ask.h \
  scraper/object_jobs.c \
  scraper/piece.c \
  scraper/piece.h \
  scraper/pool.c \
  scraper/profile_work.c \
  scraper/profile_work.h \
  scraper/report.c \
  scraper/report.h \
  scraper/schedule.c \
  scraper/scraper.c \
  scraper/scraper.h \
  scraper/seen.c \
  scraper/seen.h \
  scraper/series.c \
  scraper/split.c \
  scraper/split.h \
  scraper/stamp.c \
  scraper/state/cursor.c \
  scraper/state/cursor.h \
  scraper/state/delta.c \
  scraper/state/delta.h \
  scraper/state/receipt.c \
  scraper/state/receipt.h \
  scraper/state/table.c \
  scraper/state/table.h \
  scraper/status.c \
  scraper/status_metadata.c \
  scraper/sync.c \
  scraper/target.c \
  scraper/testkit.h \
  scraper/text/metric_cache.c \
  scraper/text/metric_cache.h \
  scraper/text/metric_families.c \
  scraper/text/metric_families.h \
  scraper/text/text_metrics.c \
  scraper/text/text_metrics.h \
  scraper/turns.c \
  scraper/work.c \
  $(NULL)
SCRAPER_TESTS = \
  metric_families_test \
  metrics_work_test \
  object_config_test \
  scrape_config_test \
  scraper_baseline_test \
  scraper_cursor_test \
  scraper_delta_test \
  scraper_evict_test \
  scraper_memory_test \
  scraper_names_test \
  scraper_piece_test \
  scraper_schedule_test \
  scraper_split_test \
  scraper_status_test \
  scraper_sync_test \
  scraper_test \
  scraper_turns_test \
  text_metrics_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(SCRAPER_TESTS)
TESTS += $(SCRAPER_TESTS)
metric_families_test_SOURCES = scraper/text/metric_families_test.c
metric_families_test_LDADD = $(SCRAPER_TEST_LIBS)
metrics_work_test_SOURCES = scraper/metrics_work_test.c
metrics_work_test_LDADD = $(SCRAPER_TEST_LIBS)
object_config_test_SOURCES = scraper/config/object_config_test.c
object_config_test_LDADD = $(SCRAPER_TEST_LIBS)
scrape_config_test_SOURCES = scraper/config/scrape_config_test.c
scrape_config_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_baseline_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_cursor_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_delta_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_evict_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_memory_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_names_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_piece_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_schedule_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_split_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_status_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_sync_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_test_SOURCES = scraper/scraper_test.c
scraper_test_LDADD = $(SCRAPER_TEST_LIBS)
scraper_turns_test_LDADD = $(SCRAPER_TEST_LIBS)
text_metrics_test_SOURCES = scraper/text/text_metrics_test.c
text_metrics_test_LDADD = $(SCRAPER_TEST_LIBS)
endif
