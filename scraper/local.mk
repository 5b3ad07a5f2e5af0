include scraper/config/local.mk
include scraper/text/local.mk
include scraper/state/local.mk
noinst_LIBRARIES += libscraper.a
SCRAPER_LIBS = libscraper.a libpprof.a $(DEFLATE_LIBS) $(PROTOBUF_C_LIBS) $(DISCOVERY_LIBS)
libscraper_a_SOURCES = $(SCRAPER_CONFIG_SOURCES) $(SCRAPER_TEXT_SOURCES) $(SCRAPER_STATE_SOURCES) \
  scraper/ask.c \
  scraper/baseline.c \
  scraper/baseline.h \
  scraper/check_discovery.c \
  scraper/conflict.c \
  scraper/endpoint.c \
  scraper/internal.h \
  scraper/job.c \
  scraper/job.h \
  scraper/memory.c \
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
  scraper/status.c \
  scraper/status_metadata.c \
  scraper/sync.c \
  scraper/target.c \
  scraper/turns.c \
  scraper/work.c

if HAVE_CMOCKA
check_PROGRAMS += scraper_baseline_test metrics_work_test scraper_piece_test scraper_schedule_test scraper_names_test scraper_status_test scraper_sync_test scraper_turns_test scraper_memory_test scraper_test scraper_split_test
TESTS += scraper_baseline_test metrics_work_test scraper_piece_test scraper_schedule_test scraper_names_test scraper_status_test scraper_sync_test scraper_turns_test scraper_memory_test scraper_test scraper_split_test
scraper_piece_test_SOURCES = scraper/piece_test.c scraper/testkit.c scraper/testkit.h
scraper_piece_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_baseline_test_SOURCES = scraper/baseline_test.c scraper/testkit.c scraper/testkit.h
scraper_baseline_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_schedule_test_SOURCES = scraper/schedule_test.c
scraper_schedule_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
scraper_names_test_SOURCES = scraper/names_test.c scraper/testkit.c scraper/testkit.h
scraper_names_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
metrics_work_test_SOURCES = scraper/metrics_work_test.c scraper/testkit.c scraper/testkit.h
metrics_work_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
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
scraper_test_SOURCES = scraper/scraper_test.c scraper/testkit.c scraper/testkit.h
scraper_test_LDADD = $(SCRAPER_LIBS) $(CMOCKA_LIBS)
endif
