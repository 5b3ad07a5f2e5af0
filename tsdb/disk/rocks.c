/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/disk/rocks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"

#define INFO_LOG_FATAL 4
#define CHECKSUM_XXH3 4
#define FORMAT_VERSION 5
#define BLOCK 4096
#define SMALL_BLOCK 32768
#define SMALL_LEVEL 6
#define ZSTD_WINDOW (-14) /* RocksDB's default, as is no strategy: zstd uses neither */

static rocksdb_options_t *options(rocksdb_cache_t *cache, size_t block)
{
	rocksdb_options_t *base = rocksdb_options_create(), *o = rocksdb_options_create();
	char *error = NULL;
	/* allow_fallocate has no setter: +74 MB on disk after one tiny write otherwise. */
	rocksdb_get_options_from_string(base, "allow_fallocate=false;dump_malloc_stats=false", o, &error);
	rocks_err(&error, NULL, "", "");
	rocksdb_options_destroy(base);
	rocksdb_options_set_create_if_missing(o, 1);
	rocksdb_options_set_info_log_level(o, INFO_LOG_FATAL);
	rocksdb_options_set_keep_log_file_num(o, 1);
	rocksdb_options_set_manifest_preallocation_size(o, 4096);
	rocksdb_options_set_max_manifest_file_size(o, 4 << 20);
	rocksdb_options_set_stats_dump_period_sec(o, 0);
	rocksdb_options_set_stats_persist_period_sec(o, 0);
	rocksdb_options_set_max_open_files(o, 256);
	rocksdb_options_set_compression(o, rocksdb_zstd_compression);
	rocksdb_block_based_table_options_t *t = rocksdb_block_based_options_create();
	rocksdb_block_based_options_set_block_size(t, block);
	rocksdb_block_based_options_set_format_version(t, FORMAT_VERSION);
	rocksdb_block_based_options_set_checksum(t, CHECKSUM_XXH3);
	if (cache)
		rocksdb_block_based_options_set_block_cache(t, cache);
	rocksdb_options_set_block_based_table_factory(o, t);
	rocksdb_block_based_options_destroy(t);
	return o;
}

rocksdb_options_t *rocks_options(rocksdb_cache_t *cache)
{
	return options(cache, BLOCK);
}

rocksdb_options_t *rocks_options_small(void)
{
	rocksdb_options_t *o = options(NULL, SMALL_BLOCK);
	rocksdb_options_set_compression_options(o, ZSTD_WINDOW, SMALL_LEVEL, 0, 0);
	return o;
}

int rocks_err(char **error, struct err *e, const char *what, const char *path)
{
	if (!*error)
		return 0;
	enum err_code code = strstr(*error, "Corruption") ? ERR_CORRUPT : ERR_IO;
	int rc = err_set(e, code, "%s %s: %s", what, path, *error);
	rocksdb_free(*error);
	*error = NULL;
	return rc;
}

bool rocks_of_the_place(const struct err *e)
{
	return e->code == ERR_DENIED || strstr(e->msg, "No space left") || strstr(e->msg, "Read-only") ||
	       strstr(e->msg, "Too many open files") || strstr(e->msg, "Permission denied") || strstr(e->msg, "Cannot allocate memory");
}

int rocks_checkpoint(rocksdb_t *db, const char *dir, struct err *e)
{
	char *error = NULL;
	rocksdb_checkpoint_t *c = rocksdb_checkpoint_object_create(db, &error);
	if (error)
		return rocks_err(&error, e, "cannot make a snapshot", dir);
	rocksdb_checkpoint_create(c, dir, 0, &error);
	rocksdb_checkpoint_object_destroy(c);
	return rocks_err(&error, e, "cannot make a snapshot", dir);
}
