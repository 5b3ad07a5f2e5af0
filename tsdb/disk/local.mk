# tsdb/disk: files of RocksDB and around them, bytes, counting.
TSDB_DISK_SOURCES = \
  tsdb/disk/cursor.c \
  tsdb/disk/cursor.h \
  tsdb/disk/manifest.c \
  tsdb/disk/manifest.h \
  tsdb/disk/metrics.c \
  tsdb/disk/metrics.h \
  tsdb/disk/rocks.c \
  tsdb/disk/rocks.h \
  tsdb/disk/table.c \
  tsdb/disk/table.h \
  tsdb/disk/wal.c \
  tsdb/disk/wal.h
