# Fuzz targets. NAME is in fuzz_NAME.c, its seeds in corpus/NAME/. replay_NAME feeds the seeds as a test, always;
# fuzz_NAME is the fuzzer: CC=clang configure --enable-fuzz --enable-sanitize=address,undefined; make fuzz_NAME;
# ./fuzz_NAME NEW_INPUTS $(srcdir)/tests/fuzz/corpus/NAME
FUZZERS = fuzz_pprof fuzz_config fuzz_promql
REPLAYS = replay_pprof replay_config replay_promql
EXTRA_DIST += tests/fuzz/corpus

fuzz_pprof_SOURCES = tests/fuzz/fuzz_pprof.c tests/fuzz/fuzz.h lib/pprof/oracle.c lib/pprof/oracle.h
fuzz_pprof_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_pprof_LDADD = $(PPROF_LIBS)
replay_pprof_SOURCES = $(fuzz_pprof_SOURCES) tests/fuzz/replay.c
replay_pprof_LDADD = $(PPROF_LIBS)

fuzz_config_SOURCES = tests/fuzz/fuzz_config.c tests/fuzz/fuzz.h
fuzz_config_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_config_LDADD = $(SCRAPER_LIBS)
replay_config_SOURCES = $(fuzz_config_SOURCES) tests/fuzz/replay.c
replay_config_LDADD = $(SCRAPER_LIBS)

fuzz_promql_SOURCES = tests/fuzz/fuzz_promql.c tests/fuzz/fuzz.h
fuzz_promql_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_promql_LDADD = $(PROMQL_LIBS)
replay_promql_SOURCES = $(fuzz_promql_SOURCES) tests/fuzz/replay.c
replay_promql_LDADD = $(PROMQL_LIBS)

EXTRA_PROGRAMS += $(FUZZERS)
CLEANFILES += $(FUZZERS)
if FUZZ
noinst_DATA += $(FUZZERS)
endif
check_PROGRAMS += $(REPLAYS)
TESTS += $(REPLAYS)
