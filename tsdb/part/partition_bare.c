/* SPDX-License-Identifier: Apache-2.0 */
/* Databases of cached days that are open. Each may hold a descriptor for every file of its day, and a question about a year opens 365 of them.
 * Connections, scrapes and the head log need descriptors too, so that all these databases together have a quarter of the process's. Above that the one
 * that was opened first is closed, unless somebody reads it. The next reader opens it again (partition_db_enter). */
#include <sys/resource.h>

#include "base/num.h"
#include "tsdb/part/part_private.h"

#define BARE_SHARE 4 /* of the process's descriptors a part of this many */

static struct {
	struct mutex lock;
	VEC(struct partition_db *) v; /* in the order in which they were opened */
	size_t files;                 /* of all together */
	atomic_size_t most;           /* 0 = as the process's limit says */
} bare = { .lock = MUTEX_INIT(LOCK_LEAF, "open databases of cached days") };

void partition_db_limit_bare(size_t files)
{
	atomic_store(&bare.most, files);
}

static size_t bare_most(void)
{
	struct rlimit r;
	size_t most = atomic_load(&bare.most);
	if (most || getrlimit(RLIMIT_NOFILE, &r))
		return most ? most : 256;
	return (size_t)MIN(r.rlim_cur, (rlim_t)1 << 30) / BARE_SHARE;
}

static void bare_remove(size_t i) REQUIRES(bare.lock)
{
	bare.files -= bare.v.v[i]->bare_files;
	memmove(bare.v.v + i, bare.v.v + i + 1, (--bare.v.n - i) * sizeof(*bare.v.v));
}

/* Not while it is read. Under the lock of the list: a database leaves the list before it is freed. */
static bool bare_close(struct partition_db *d)
{
	if (!rwlock_try_write(&d->open_lock))
		return false;
	rocksdb_close(d->db);
	d->db = NULL;
	atomic_store(&d->bare_is_open, false);
	atomic_store(&d->bare_is_closed, true);
	rwlock_unlock(&d->open_lock);
	return true;
}

void partition_bare_add(struct partition_db *d, size_t files)
{
	size_t most = bare_most();
	mutex_lock(&bare.lock);
	d->bare_files = files;
	bare.files += files;
	vec_push(&bare.v, d);
	for (size_t i = 0; i + 1 < bare.v.n && bare.files > most;)
		if (bare_close(bare.v.v[i]))
			bare_remove(i);
		else
			i++;
	mutex_unlock(&bare.lock);
}

void partition_bare_remove(struct partition_db *d)
{
	mutex_lock(&bare.lock);
	for (size_t i = 0; i < bare.v.n; i++)
		if (bare.v.v[i] == d) {
			bare_remove(i);
			break;
		}
	mutex_unlock(&bare.lock);
}
