/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/ledger.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/vec.h"

#define UP 100 /* a state in the file alone */

/* A line of the file: an entry (id UINT32_MAX), or what became of one. */
struct line {
	uint32_t id, state;
	struct ledger_entry entry;
};

struct ledger {
	int fd;
	struct mutex lock;
	VEC(struct ledger_entry) entries;
	struct map stamps;
	size_t acked;
};

static uint64_t hash_of(unsigned pod, int64_t t_ms)
{
	return hash_u64((uint64_t)t_ms * 64 + pod);
}

static bool find(struct ledger *l, unsigned pod, int64_t t_ms, uint32_t *ret_id)
{
	uint64_t h = hash_of(pod, t_ms);
	for (size_t at = map_start(&l->stamps, h); map_probe(&l->stamps, h, &at, ret_id);)
		if (l->entries.v[*ret_id].pod == pod && l->entries.v[*ret_id].t_ms == t_ms)
			return true;
	return false;
}

static void add(struct ledger *l, const struct ledger_entry *x)
{
	map_insert(&l->stamps, hash_of(x->pod, x->t_ms), (uint32_t)l->entries.n);
	vec_push(&l->entries, *x);
}

static void put(struct ledger *l, const struct line *x)
{
	if (write(l->fd, x, sizeof *x) != (ssize_t)sizeof *x)
		abort();
}

struct ledger *ledger_open(const char *path)
{
	struct ledger *l = NEW(struct ledger);
	struct line x;
	mutex_init(&l->lock, LOCK_ANY, "test");
	l->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (l->fd < 0)
		abort();
	while (read(l->fd, &x, sizeof x) == (ssize_t)sizeof x) {
		if (x.id == UINT32_MAX) {
			add(l, &x.entry);
		} else if (x.state == UP) {
			l->entries.v[x.id].up = true;
		} else {
			l->entries.v[x.id].up = false;
			l->entries.v[x.id].state = (uint8_t)x.state;
			if (x.state == ACKED)
				l->entries.v[x.id].record = x.entry.record;
			l->acked += x.state == ACKED;
		}
	}
	return l;
}

void ledger_close(struct ledger *l)
{
	close(l->fd);
	vec_free(&l->entries);
	map_free(&l->stamps);
	mutex_destroy(&l->lock);
	free(l);
}

bool ledger_try(struct ledger *l, const struct ledger_entry *x, uint32_t *ret_id)
{
	mutex_lock(&l->lock);
	bool ok = !find(l, x->pod, x->t_ms, ret_id);
	if (ok) {
		struct line line = { .id = UINT32_MAX, .entry = *x };
		line.entry.state = TRIED;
		put(l, &line);
		*ret_id = (uint32_t)l->entries.n;
		add(l, &line.entry);
	}
	mutex_unlock(&l->lock);
	return ok;
}

static void set(struct ledger *l, uint32_t id, enum ledger_state state)
{
	struct line line = { .id = id, .state = state };
	put(l, &line);
	l->entries.v[id].state = (uint8_t)state;
	l->entries.v[id].up = false;
}

void ledger_up(struct ledger *l, uint32_t id)
{
	struct line line = { .id = id, .state = UP };
	mutex_lock(&l->lock);
	put(l, &line);
	l->entries.v[id].up = true;
	mutex_unlock(&l->lock);
}

void ledger_set(struct ledger *l, uint32_t id, enum ledger_state state)
{
	mutex_lock(&l->lock);
	set(l, id, state);
	mutex_unlock(&l->lock);
}

void ledger_ack(struct ledger *l, uint32_t id, uint64_t record)
{
	struct line line = { .id = id, .state = ACKED, .entry = { .record = record } };
	mutex_lock(&l->lock);
	put(l, &line);
	l->entries.v[id].state = ACKED;
	l->entries.v[id].up = false;
	l->entries.v[id].record = record;
	mutex_unlock(&l->lock);
}

void ledger_delete(struct ledger *l, unsigned pod, int64_t after_ms, int64_t until_ms, enum ledger_state state)
{
	mutex_lock(&l->lock);
	for (uint32_t i = 0; i < l->entries.n; i++) {
		const struct ledger_entry *x = &l->entries.v[i];
		if (x->pod == pod && x->t_ms > after_ms && x->t_ms <= until_ms && x->state != DELETED)
			set(l, i, state);
	}
	mutex_unlock(&l->lock);
}

size_t ledger_n(struct ledger *l)
{
	mutex_lock(&l->lock);
	size_t n = l->entries.n;
	mutex_unlock(&l->lock);
	return n;
}

size_t ledger_acked(struct ledger *l)
{
	return l->acked;
}

struct ledger_entry ledger_get(struct ledger *l, uint32_t id)
{
	mutex_lock(&l->lock);
	struct ledger_entry x = l->entries.v[id];
	mutex_unlock(&l->lock);
	return x;
}

bool ledger_find(struct ledger *l, unsigned pod, int64_t t_ms, uint32_t *ret_id)
{
	mutex_lock(&l->lock);
	bool found = find(l, pod, t_ms, ret_id);
	mutex_unlock(&l->lock);
	return found;
}
