/* SPDX-License-Identifier: Apache-2.0 */
#include "base/flag.h"

#include <stddef.h>

static struct mutex watchers_lock = MUTEX_INIT(RANK_FLAGS, "flags");
static struct flag_watch *watchers;

void flag_watch(struct flag_watch *w, const atomic_bool *flag, struct mutex *lock, pthread_cond_t *cond)
{
	*w = (struct flag_watch){ .flag = flag, .lock = lock, .cond = cond };
	if (!flag)
		return;
	mutex_lock(&watchers_lock);
	w->next = watchers;
	watchers = w;
	mutex_unlock(&watchers_lock);
}

void flag_unwatch(struct flag_watch *w)
{
	if (!w->flag)
		return;
	mutex_lock(&watchers_lock);
	struct flag_watch **at = &watchers;
	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	mutex_unlock(&watchers_lock);
}

bool flag_sleep(const atomic_bool *flag, int64_t until_mono_ms)
{
	struct mutex lock;
	pthread_cond_t cond;
	struct flag_watch w;
	bool raised;

	mutex_init(&lock, LOCK_LEAF, "sleep");
	pthread_cond_init(&cond, NULL);
	flag_watch(&w, flag, &lock, &cond);
	mutex_lock(&lock);
	do
		raised = flag && atomic_load(flag);
	while (!raised && mutex_wait_ms(&lock, &cond, until_mono_ms));
	mutex_unlock(&lock);
	flag_unwatch(&w);
	pthread_cond_destroy(&cond);
	mutex_destroy(&lock);
	return !raised;
}

void flag_raise(atomic_bool *flag)
{
	atomic_store(flag, true);
	flag_wake(flag);
}

void flag_wake(const atomic_bool *flag)
{
	mutex_lock(&watchers_lock);
	for (struct flag_watch *w = watchers; w; w = w->next)
		if (!flag || w->flag == flag) {
			mutex_lock(w->lock);
			pthread_cond_broadcast(w->cond);
			mutex_unlock(w->lock);
		}
	mutex_unlock(&watchers_lock);
}
