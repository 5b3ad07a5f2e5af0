/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/managed/namer.h"

#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/thread.h"

/* A thread that reads. */
struct reader {
	struct namer *n;             /* a reference */
	pthread_t thread;
	_Atomic int64_t since_ms;    /* when it began with the code that it reads; 0 = none */
	struct runtime_owner *of;    /* whose that is; a reference of its turn. Set before since_ms */
	size_t turn;                 /* codes of its turn; guarded by the namer's lock, as the next ones */
	bool left;                   /* left behind */
	bool ended;
};

struct namer {
	atomic_int refs;             /* its user's, and one of each reader */
	int64_t allowance_ns, allowed_ns; /* CPU time that the reader may take now; when that was. The reader's */
	struct mutex lock;           /* guards what follows */
	pthread_cond_t asked, settled;
	bool stopping;
	struct reader *reader;       /* NULL: too many were left behind */
	unsigned n_left;
	VEC(struct runtime_code *) wanted; /* references */
	uint64_t taken, done;        /* codes, so far */
	uint64_t before_ns;          /* CPU time of earlier readers */
	struct namer_stats stats;
};

static void unref(struct namer *n)
{
	if (atomic_fetch_sub(&n->refs, 1) != 1)
		return;
	for (size_t i = 0; i < n->wanted.n; i++)
		runtime_code_unref(n->wanted.v[i]);
	vec_free(&n->wanted);
	pthread_cond_destroy(&n->asked);
	pthread_cond_destroy(&n->settled);
	mutex_destroy(&n->lock);
	free(n);
}

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
	if (atomic_load(&c->owner->stuck))
		return CODE_UNREADABLE;
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

/* Codes of the process that has had the least, at most TURN_CODES. */
static size_t take_turn(struct namer *n, struct runtime_code *turn[TURN_CODES]) REQUIRES(n->lock)
{
	struct runtime_owner *first = n->wanted.v[0]->owner;
	size_t got = 0, keep = 0;

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
	return got;
}

/* What is next; waits for it. 0: the thread is to end. */
static size_t next(struct reader *r, struct runtime_code *turn[TURN_CODES])
{
	struct namer *n = r->n;
	size_t got = 0;

	mutex_lock(&n->lock);
	while (!n->stopping && !r->left) {
		allow(n, 0);
		if (n->wanted.n && n->allowance_ns > 0) {
			got = r->turn = take_turn(n, turn);
			break;
		}
		if (n->wanted.n)
			mutex_wait_ms(&n->lock, &n->asked, clock_mono_ms() + 1 - n->allowance_ns * 1000 / NAMER_NS_PER_S);
		else
			mutex_wait(&n->lock, &n->asked);
	}
	mutex_unlock(&n->lock);
	return got;
}

/* Reads the codes of a turn. */
static void read_turn(struct reader *r, struct runtime_code **turn, size_t got, enum code_state *states, struct buf *record)
{
	struct process_memory m;
	enum code_state none = CODE_NAMED;
	struct err e;

	r->of = turn[0]->owner;
	if (process_memory_open(&m, r->of->pid, 0, 0, &e))
		none = m.ended ? CODE_GONE : CODE_UNREADABLE;
	for (size_t i = 0; i < got; i++) {
		atomic_store(&r->since_ms, clock_mono_ms());
		enum code_state state = none == CODE_NAMED ? read_code(&m, turn[i], record) : none;
		states[i] = runtime_code_set(turn[i], state, buf_view(record));
	}
	process_memory_close(&m);
	atomic_store(&r->since_ms, 0);
}

/* Counts what came of them; false if the thread was left behind meanwhile. */
static bool finish(struct reader *r, struct runtime_code **turn, const enum code_state *states, size_t got)
{
	struct namer *n = r->n;
	enum runtime_kind kind = turn[0]->of->kind;

	atomic_store(&r->of->stuck, false);
	for (size_t i = 0; i < got; i++)
		runtime_code_unref(turn[i]);
	mutex_lock(&n->lock);
	bool left = r->left;
	for (size_t i = 0; i < got; i++)
		n->stats.codes[kind][states[i]]++;
	if (!left) {
		n->done += got;
		r->turn = 0;
		n->stats.cpu_ns = n->before_ns + (uint64_t)clock_cpu_ns();
	}
	pthread_cond_broadcast(&n->settled);
	mutex_unlock(&n->lock);
	return !left;
}

static void *reader_main(void *arg)
{
	struct reader *r = arg;
	struct namer *n = r->n;
	struct runtime_code *turn[TURN_CODES];
	enum code_state states[TURN_CODES];
	struct buf record = { .max = RECORD_BYTES_MAX };
	size_t got;
	int64_t cpu_ns = clock_cpu_ns();

	/* Before what was sampled ends. It takes little, and without CAP_SYS_NICE it may come too late. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), -10);
	while ((got = next(r, turn))) {
		read_turn(r, turn, got, states, &record);
		if (!finish(r, turn, states, got))
			break;
		int64_t now = clock_cpu_ns();
		allow(n, now - cpu_ns);
		cpu_ns = now;
	}
	buf_free(&record);
	mutex_lock(&n->lock);
	bool left = r->left;         /* nobody else knows it */
	n->n_left -= left;
	r->ended = true;
	pthread_cond_broadcast(&n->settled);
	mutex_unlock(&n->lock);
	if (left)
		free(r);
	unref(n);
	return NULL;
}

static int start(struct namer *n, struct err *e)
{
	struct reader *r = NEW(struct reader);

	r->n = n;
	atomic_fetch_add(&n->refs, 1);
	n->allowed_ns = clock_mono_ns();
	int rc = thread_start(&r->thread, "namer", reader_main, r, e);
	if (rc) {
		atomic_fetch_sub(&n->refs, 1);
		free(r);
		return rc;
	}
	n->reader = r;
	return 0;
}

/* Leaves a reader behind that waits for the memory of a process. */
static void leave(struct namer *n) REQUIRES(n->lock)
{
	struct reader *r = n->reader;

	atomic_store(&r->of->stuck, true);
	r->left = true;
	n->done += r->turn;
	pthread_detach(r->thread);
	n->reader = NULL;
	n->n_left++;
	n->stats.stuck++;
	n->before_ns = n->stats.cpu_ns;
}

static void leave_stuck(struct namer *n) REQUIRES(n->lock)
{
	int64_t since = n->reader ? atomic_load(&n->reader->since_ms) : 0;

	if (since && clock_mono_ms() - since > STUCK_MS)
		leave(n);
}

/* Whether there is a reader, after one that is stuck was left behind. */
static bool have_reader(struct namer *n) REQUIRES(n->lock)
{
	struct err e;

	leave_stuck(n);
	return n->reader || (n->n_left < STUCK_MAX && start(n, &e) == 0);
}

/* ---- for others ---- */

struct namer *namer_new(struct err *e)
{
	struct namer *n = NEW(struct namer);

	atomic_store(&n->refs, 1);
	n->allowance_ns = NAMER_BURST_NS;
	mutex_init(&n->lock, LOCK_LEAF, "namer");
	pthread_cond_init(&n->asked, NULL);
	pthread_cond_init(&n->settled, NULL);
	if (start(n, e) == 0)
		return n;
	unref(n);
	return NULL;
}

void namer_free(struct namer *n)
{
	if (!n)
		return;
	mutex_lock(&n->lock);
	n->stopping = true;
	pthread_cond_broadcast(&n->asked);
	pthread_cond_broadcast(&n->settled);
	while (n->reader && !n->reader->ended) {
		mutex_wait_ms(&n->lock, &n->settled, clock_mono_ms() + 100);
		leave_stuck(n);
	}
	struct reader *r = n->reader;
	mutex_unlock(&n->lock);
	if (r) {
		pthread_join(r->thread, NULL);
		free(r);
	}
	unref(n);
}

void namer_take(struct namer *n, struct frame_table *t)
{
	if (!mutex_try(&n->lock))
		return;
	bool can = have_reader(n);
	for (size_t i = 0; i < t->wanted.n; i++) {
		if (can) {
			vec_push(&n->wanted, t->wanted.v[i]);
			n->taken++;
		} else {
			runtime_code_set(t->wanted.v[i], CODE_UNREADABLE, VIEW(""));
			runtime_code_unref(t->wanted.v[i]);
		}
	}
	if (can && t->wanted.n)
		pthread_cond_signal(&n->asked);
	t->wanted.n = 0;
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
