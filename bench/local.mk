# Benchmarks: `make bench` builds and runs them; each folder's are one program, added to BENCHES.
include bench/files.mk
BENCHES = bench_agent bench_ingest bench_mixed bench_offcpu bench_pprof bench_query bench_replay bench_targets bench_tsdb
EXTRA_PROGRAMS += $(BENCHES) many_targets
# What end-to-end tests make their days with is built with the servers.
noinst_PROGRAMS = bench_bucket bench_days
CLEANFILES += $(BENCHES) many_targets
MEASURE = bench/measure.c bench/measure.h
bench_agent_SOURCES = bench/agent_bench.c bench/agent_bench.h bench/agent_walks.c
bench_agent_LDADD = $(AGENT_LIBS)
bench_bucket_SOURCES = bench/bucket_bench.c bench/fleet.c bench/fleet.h $(MEASURE)
bench_bucket_LDADD = libtsdb.a $(PPROF_LIBS) $(BUCKET_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)
bench_days_SOURCES = bench/days_bench.c bench/fleet.c bench/fleet.h $(MEASURE)
bench_days_LDADD = libtsdb.a $(PPROF_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)
bench_ingest_SOURCES = bench/ingest_bench.c
bench_ingest_LDADD = libtsdb.a $(PPROF_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)
many_targets_SOURCES = bench/many_targets.c
many_targets_LDADD = $(BASE_LIBS)
bench_mixed_SOURCES = bench/mixed_bench.c bench/fleet.c bench/fleet.h $(MEASURE)
bench_mixed_LDADD = libtsdb.a $(PPROF_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)
bench_offcpu_SOURCES = bench/offcpu_bench.c
bench_offcpu_LDADD = $(AGENT_LIBS)
bench_pprof_SOURCES = bench/pprof_bench.c
bench_pprof_LDADD = $(PPROF_LIBS)
bench_tsdb_SOURCES = bench/fleet.c bench/fleet.h $(MEASURE) bench/tsdb_ask.c bench/tsdb_ask.h bench/tsdb_bench.c
bench_query_SOURCES = bench/query_bench.c $(MEASURE)
bench_query_LDADD = libtsdb.a libpromql.a $(PPROF_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)
bench_replay_SOURCES = bench/replay_bench.c $(MEASURE)
bench_replay_LDADD = libtsdb.a $(PPROF_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)
bench_targets_SOURCES = bench/fleet.c bench/fleet.h $(MEASURE) bench/targets_bench.c
bench_targets_LDADD = libtsdb.a $(PPROF_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)
bench_tsdb_LDADD = libtsdb.a $(PPROF_LIBS) $(ROCKSDB_LIBS) $(ZSTD_LIBS)

bench-programs: $(BENCHES) many_targets
bench: $(BENCHES)
	@for b in $(BENCHES); do echo "== $$b"; ./$$b || test $$? = 77 || exit 1; done
.PHONY: bench bench-programs
# Over HTTP, with the real server: bench/http --build . asks a fleet at full size; bench/peers --build . ; bench/page --build . is the page in a browser; bench/many --build . scrapes 10,000 targets; bench/bucket --build . compares with and without a bucket; bench/scrapes --build . says what a scraped profile costs; bench/rules --build . evaluates 1,000 rules
