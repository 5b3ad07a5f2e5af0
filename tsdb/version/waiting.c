/* SPDX-License-Identifier: Apache-2.0 */
/* Waits for memory of the head, or for some time, which end at once when the storage shuts down. */
#include "tsdb/version/db.h"

static bool wants_sealing(struct tsdb *db)
{
	return atomic_load(&db->head_bytes) > db->o.head_bytes / 2;
}

void tsdb_head_changed(struct tsdb *db)
{
	if (!atomic_load(&db->head_waiters) && !wants_sealing(db))
		return;
	mutex_lock(&db->head_lock);
	pthread_cond_broadcast(&db->head_cond);
	mutex_unlock(&db->head_lock);
}

bool tsdb_wait_head(struct tsdb *db, int64_t from_mono_ms)
{
	mutex_lock(&db->head_lock);
	while (!atomic_load(&db->stopping) && clock_mono_ms() < from_mono_ms)
		mutex_wait_ms(&db->head_lock, &db->stop_cond, from_mono_ms);
	while (!atomic_load(&db->stopping) && !wants_sealing(db))
		mutex_wait(&db->head_lock, &db->head_cond);
	mutex_unlock(&db->head_lock);
	return !atomic_load(&db->stopping);
}

void tsdb_wait_room(struct tsdb *db)
{
	atomic_fetch_add(&db->head_waiters, 1);
	mutex_lock(&db->head_lock);
	while (!atomic_load(&db->stopping) && tsdb_head_is_full(db))
		mutex_wait(&db->head_lock, &db->head_cond);
	mutex_unlock(&db->head_lock);
	atomic_fetch_sub(&db->head_waiters, 1);
}

bool tsdb_pause(struct tsdb *db, int64_t ms)
{
	int64_t until = clock_mono_ms() + ms;
	mutex_lock(&db->head_lock);
	while (!atomic_load(&db->stopping) && clock_mono_ms() < until)
		mutex_wait_ms(&db->head_lock, &db->stop_cond, until);
	mutex_unlock(&db->head_lock);
	return !atomic_load(&db->stopping);
}

void tsdb_stop(struct tsdb *db)
{
	mutex_lock(&db->head_lock);
	atomic_store(&db->stopping, true);
	pthread_cond_broadcast(&db->head_cond);
	pthread_cond_broadcast(&db->stop_cond);
	mutex_unlock(&db->head_lock);
}
