# Fuzz targets. NAME is in fuzz_NAME.c, its seeds in corpus/NAME/. replay_NAME feeds the seeds as a test, always;
# fuzz_NAME is the fuzzer: CC=clang configure --enable-fuzz --enable-sanitize=address,undefined; make fuzz_NAME;
# ./fuzz_NAME NEW_INPUTS $(srcdir)/tests/fuzz/corpus/NAME
FUZZERS = fuzz_pprof fuzz_config fuzz_promql fuzz_tsdb \
  fuzz_elf fuzz_ehframe fuzz_perfmap fuzz_kallsyms fuzz_demangle fuzz_dwarfindex
REPLAYS = replay_pprof replay_config replay_promql replay_tsdb \
  replay_elf replay_ehframe replay_perfmap replay_kallsyms replay_demangle replay_dwarfindex
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

fuzz_tsdb_SOURCES = tests/fuzz/fuzz_tsdb.c tests/fuzz/fuzz.h
fuzz_tsdb_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_tsdb_LDADD = $(TSDB_LIBS)
replay_tsdb_SOURCES = $(fuzz_tsdb_SOURCES) tests/fuzz/replay.c
replay_tsdb_LDADD = $(TSDB_LIBS)

fuzz_elf_SOURCES = tests/fuzz/fuzz_elf.c tests/fuzz/fuzz.h
fuzz_elf_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_elf_LDADD = $(AGENT_LIBS)
replay_elf_SOURCES = $(fuzz_elf_SOURCES) tests/fuzz/replay.c
replay_elf_LDADD = $(AGENT_LIBS)

fuzz_ehframe_SOURCES = tests/fuzz/fuzz_ehframe.c tests/fuzz/fuzz.h
fuzz_ehframe_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_ehframe_LDADD = $(AGENT_LIBS)
replay_ehframe_SOURCES = $(fuzz_ehframe_SOURCES) tests/fuzz/replay.c
replay_ehframe_LDADD = $(AGENT_LIBS)

fuzz_perfmap_SOURCES = tests/fuzz/fuzz_perfmap.c tests/fuzz/fuzz.h
fuzz_perfmap_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_perfmap_LDADD = $(AGENT_LIBS)
replay_perfmap_SOURCES = $(fuzz_perfmap_SOURCES) tests/fuzz/replay.c
replay_perfmap_LDADD = $(AGENT_LIBS)

fuzz_kallsyms_SOURCES = tests/fuzz/fuzz_kallsyms.c tests/fuzz/fuzz.h
fuzz_kallsyms_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_kallsyms_LDADD = $(AGENT_LIBS)
replay_kallsyms_SOURCES = $(fuzz_kallsyms_SOURCES) tests/fuzz/replay.c
replay_kallsyms_LDADD = $(AGENT_LIBS)

fuzz_demangle_SOURCES = tests/fuzz/fuzz_demangle.c tests/fuzz/fuzz.h
fuzz_demangle_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_demangle_LDADD = $(AGENT_LIBS)
replay_demangle_SOURCES = $(fuzz_demangle_SOURCES) tests/fuzz/replay.c
replay_demangle_LDADD = $(AGENT_LIBS)

fuzz_dwarfindex_SOURCES = tests/fuzz/fuzz_dwarfindex.c tests/fuzz/fuzz.h
fuzz_dwarfindex_LDFLAGS = $(AM_LDFLAGS) -fsanitize=fuzzer
fuzz_dwarfindex_LDADD = $(AGENT_LIBS)
replay_dwarfindex_SOURCES = $(fuzz_dwarfindex_SOURCES) tests/fuzz/replay.c
replay_dwarfindex_LDADD = $(AGENT_LIBS)

EXTRA_PROGRAMS += $(FUZZERS)
CLEANFILES += $(FUZZERS)
if FUZZ
noinst_DATA += $(FUZZERS)
endif
check_PROGRAMS += $(REPLAYS)
TESTS += $(REPLAYS)
