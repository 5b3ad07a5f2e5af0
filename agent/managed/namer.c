/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/managed/namer.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

struct namer {
	pthread_t thread;
	bool runs;
	int64_t allowance_ns, allowed_ns; /* CPU time that it may take now; when that was */
	struct mutex lock;           /* guards what follows */
	pthread_cond_t asked, settled;
	bool stopping;
	VEC(struct runtime_code *) wanted; /* references */
	uint64_t taken, done;        /* codes, so far */
	struct namer_stats stats;
};

/* ---- reading ---- */

static enum code_state state_of_error(int r, const struct process_memory *m)
{
	return r == 0 ? CODE_NAMED : m->ended ? CODE_GONE : r == -ERR_BAD_DATA ? CODE_CHANGED :
	       r == -ERR_LIMIT ? CODE_OVER_BUDGET : CODE_UNREADABLE;
}

static enum code_state read_code(struct process_memory *m, struct runtime_code *c, struct buf *record)
{
	const struct runtime_file *f = c->owner->image->runtime;
	struct err e;

	if (atomic_load(&c->owner->ended))
		return CODE_GONE;
	process_memory_allow(m, CODE_READS_MAX, CODE_BYTES_MAX);
	buf_reset(record);
	enum code_state state = state_of_error(f->of->read_code(f, m, c->object, c->check, record, &e), m);
	return state == CODE_NAMED && record->overflow ? CODE_OVER_BUDGET : state;
}

/* ---- what is next ---- */

/* Whether o has its turn before p. */
static bool before(const struct runtime_owner *o, const struct runtime_owner *p)
{
	return o->reads != p->reads ? o->reads < p->reads : o->serial < p->serial;
}

/* How long the thread may work until it has to wait: what it was allowed since, less what it took. */
static void allow(struct namer *n, int64_t took_ns)
{
	int64_t now = clock_mono_ns(), passed = MIN(now - n->allowed_ns, 1000 * INT64_C(1000000000));

	n->allowance_ns = MIN(n->allowance_ns - took_ns + passed / 1000 * NAMER_NS_PER_S / 1000000, NAMER_BURST_NS);
	n->allowed_ns = now;
}

#define TURN_CODES 64u               /* of one process, before others have their turn */

/* Codes of the process that has had the least; waits for some. Their number; 0: it is to end. */
static size_t next(struct namer *n, struct runtime_code *turn[TURN_CODES])
{
	size_t got = 0;

	mutex_lock(&n->lock);
	for (;;) {
		allow(n, 0);
		if (n->stopping || (n->wanted.n && n->allowance_ns > 0))
			break;
		if (n->wanted.n)
			mutex_wait_ms(&n->lock, &n->asked, clock_mono_ms() + 1 - n->allowance_ns * 1000 / NAMER_NS_PER_S);
		else
			mutex_wait(&n->lock, &n->asked);
	}
	if (!n->stopping) {
		size_t keep = 0;
		struct runtime_owner *first = n->wanted.v[0]->owner;
		for (size_t i = 1; i < n->wanted.n; i++)
			if (before(n->wanted.v[i]->owner, first))
				first = n->wanted.v[i]->owner;
		for (size_t i = 0; i < n->wanted.n; i++) {
			if (got < TURN_CODES && n->wanted.v[i]->owner == first)
				turn[got++] = n->wanted.v[i];
			else
				n->wanted.v[keep++] = n->wanted.v[i];
		}
		n->wanted.n = keep;
		first->reads += got;
	}
	mutex_unlock(&n->lock);
	return got;
}

static void finish(struct namer *n, struct runtime_code **turn, const enum code_state *states, size_t got)
{
	enum runtime_kind kind = turn[0]->of->kind;

	for (size_t i = 0; i < got; i++)
		runtime_code_unref(turn[i]);
	mutex_lock(&n->lock);
	for (size_t i = 0; i < got; i++)
		n->stats.codes[kind][states[i]]++;
	n->done += got;
	n->stats.cpu_ns = (uint64_t)clock_cpu_ns();
	pthread_cond_broadcast(&n->settled);
	mutex_unlock(&n->lock);
}

static void *namer_main(void *arg)
{
	struct namer *n = arg;
	struct runtime_code *turn[TURN_CODES];
	enum code_state states[TURN_CODES];
	struct buf record = { .max = RECORD_BYTES_MAX };
	struct err e;
	size_t got;
	int64_t cpu_ns = clock_cpu_ns();

	n->allowance_ns = NAMER_BURST_NS;
	n->allowed_ns = clock_mono_ns();
	while ((got = next(n, turn))) {
		struct process_memory m;
		enum code_state none = CODE_NAMED;
		if (process_memory_open(&m, turn[0]->owner->pid, 0, 0, &e))
			none = m.ended ? CODE_GONE : CODE_UNREADABLE;
		for (size_t i = 0; i < got; i++) {
			enum code_state state = none == CODE_NAMED ? read_code(&m, turn[i], &record) : none;
			states[i] = runtime_code_set(turn[i], state, buf_view(&record));
		}
		process_memory_close(&m);
		finish(n, turn, states, got);
		int64_t now = clock_cpu_ns();
		allow(n, now - cpu_ns);
		cpu_ns = now;
	}
	buf_free(&record);
	return NULL;
}

/* ---- for others ---- */

struct namer *namer_new(struct err *e)
{
	struct namer *n = NEW(struct namer);

	mutex_init(&n->lock, LOCK_LEAF, "namer");
	pthread_cond_init(&n->asked, NULL);
	pthread_cond_init(&n->settled, NULL);
	n->runs = thread_start(&n->thread, "namer", namer_main, n, e) == 0;
	if (n->runs)
		return n;
	namer_free(n);
	return NULL;
}

void namer_free(struct namer *n)
{
	if (!n)
		return;
	mutex_lock(&n->lock);
	n->stopping = true;
	pthread_cond_signal(&n->asked);
	mutex_unlock(&n->lock);
	if (n->runs)
		pthread_join(n->thread, NULL);
	for (size_t i = 0; i < n->wanted.n; i++)
		runtime_code_unref(n->wanted.v[i]);
	vec_free(&n->wanted);
	pthread_cond_destroy(&n->asked);
	pthread_cond_destroy(&n->settled);
	mutex_destroy(&n->lock);
	free(n);
}

void namer_take(struct namer *n, struct frame_table *t)
{
	if (!t->wanted.n || !mutex_try(&n->lock))
		return;
	vec_reserve(&n->wanted, n->wanted.n + t->wanted.n);
	memcpy(n->wanted.v + n->wanted.n, t->wanted.v, t->wanted.n * sizeof *t->wanted.v);
	n->wanted.n += t->wanted.n;
	n->taken += t->wanted.n;
	t->wanted.n = 0;
	pthread_cond_signal(&n->asked);
	mutex_unlock(&n->lock);
}

void namer_settle(struct namer *n, int64_t patience_ms)
{
	int64_t until = clock_mono_ms() + patience_ms;

	mutex_lock(&n->lock);
	for (uint64_t all = n->taken; n->done < all && !n->stopping;)
		if (!mutex_wait_ms(&n->lock, &n->settled, until))
			break;
	mutex_unlock(&n->lock);
}

void namer_stats(struct namer *n, struct namer_stats *ret)
{
	mutex_lock(&n->lock);
	*ret = n->stats;
	ret->waiting = n->taken - n->done;
	mutex_unlock(&n->lock);
}
