# The crash harness: torture is the program, faults.so the layer that it runs under, crash_test a short run.
include tests/crash/files.mk
if HAVE_CMOCKA
check_PROGRAMS += torture faults.so
torture_SOURCES = tests/crash/torture.c tests/crash/life.c tests/crash/life.h tests/crash/life_bucket.c tests/crash/life_bucket.h tests/crash/ledger.c tests/crash/ledger.h
torture_LDADD = libtsdbkit.a libtsdb.a $(BUCKET_LIBS) $(TSDB_LIBS) -ldl
faults_so_SOURCES = tests/crash/faults.c tests/crash/faults.h tests/crash/journal.c tests/crash/journal.h
# Without the sanitizers: they come with the program.
faults_so_CFLAGS = -fPIC -Wall
faults_so_LDFLAGS = -shared
faults_so_LDADD = -ldl -lpthread
TESTS += tests/crash/crash_test
endif
