/* SPDX-License-Identifier: Apache-2.0 */
#include "bucket/throttle.h"

#include "base/clock.h"
#include "base/flag.h"

#define LOOK_MS 100 /* between two looks at a flag that was set without flag_raise */
#define NS_PER_S 1000000000

static bool throttle_stopped(const atomic_bool *stop)
{
	return stop && atomic_load_explicit(stop, memory_order_relaxed);
}

static int throttle_canceled(struct err *e)
{
	return err_set(e, ERR_CANCELED, "stopped while it waited for the object store");
}

int throttle_sleep_ms(const atomic_bool *stop, int64_t ms, struct err *e)
{
	int64_t until = clock_mono_ms() + ms;
	for (int64_t now; !throttle_stopped(stop) && (now = clock_mono_ms()) < until;)
		flag_sleep(stop, MIN(until, now + LOOK_MS));
	return throttle_stopped(stop) ? throttle_canceled(e) : 0;
}

void throttle_init(struct throttle *t, uint64_t bytes_per_s)
{
	*t = (struct throttle){ .bytes_per_s = bytes_per_s };
	mutex_init(&t->lock, LOCK_LEAF, "bucket throttle");
}

void throttle_destroy(struct throttle *t)
{
	mutex_destroy(&t->lock);
}

int throttle_pass(struct throttle *t, uint64_t n, const atomic_bool *stop, struct err *e)
{
	if (throttle_stopped(stop))
		return throttle_canceled(e);
	if (!t->bytes_per_s)
		return 0;
	int64_t now = clock_mono_ns(), from;
	mutex_lock(&t->lock);
	from = MAX(t->next_ns, now);
	t->next_ns = from + (int64_t)((double)n / (double)t->bytes_per_s * NS_PER_S);
	mutex_unlock(&t->lock);
	return throttle_sleep_ms(stop, (from - now) / 1000000, e);
}

void throttle_places_init(struct throttle_places *p, int64_t n)
{
	*p = (struct throttle_places){ .freed = PTHREAD_COND_INITIALIZER, .free = n };
	mutex_init(&p->lock, LOCK_LEAF, "bucket places");
}

void throttle_places_destroy(struct throttle_places *p)
{
	mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->freed);
}

int throttle_places_enter(struct throttle_places *p, const atomic_bool *stop, struct err *e)
{
	struct flag_watch watch;
	flag_watch(&watch, stop, &p->lock, &p->freed);
	mutex_lock(&p->lock);
	while (!p->free && !throttle_stopped(stop))
		mutex_wait_ms(&p->lock, &p->freed, clock_mono_ms() + LOOK_MS);
	bool entered = !throttle_stopped(stop);
	p->free -= entered;
	mutex_unlock(&p->lock);
	flag_unwatch(&watch);
	return entered ? 0 : throttle_canceled(e);
}

void throttle_places_leave(struct throttle_places *p)
{
	mutex_lock(&p->lock);
	p->free++;
	pthread_cond_signal(&p->freed);
	mutex_unlock(&p->lock);
}
