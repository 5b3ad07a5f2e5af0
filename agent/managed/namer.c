/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/managed/namer.h"

#include "agent/runtime/reader.h"
#include "base/clock.h"

struct namer {
	struct readers readers;      /* its lock guards what follows */
	int64_t allowance_ns, allowed_ns; /* CPU time that the reader may take now; when that was. The reader's */
	struct runtime_owner *of;    /* whose codes the reader's turn has; a reference of the turn */
	size_t turn;                 /* how many; 0 = none */
	VEC(struct runtime_code *) wanted; /* references */
	uint64_t turns;              /* so far */
	size_t waiting;              /* processes that waited when the turn began */
	/* What a process has had that has just come: no other one that waits has had less. It rises by what each of them had its share of, so that
	 * those that come do not always go before one that waits. */
	int64_t floor_ns;
	uint64_t taken, done;        /* codes, so far */
	uint64_t before_ns;          /* CPU time of earlier readers */
	struct namer_stats stats;
};

static void release(struct readers *x)
{
	struct namer *n = (struct namer *)x;

	for (size_t i = 0; i < n->wanted.n; i++)
		runtime_code_unref(n->wanted.v[i]);
	vec_free(&n->wanted);
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
	return o->cost_ns != p->cost_ns ? o->cost_ns < p->cost_ns : o->serial < p->serial;
}

/* How long the thread may work until it has to wait: what it was allowed since, less what it took. */
static void allow(struct namer *n, int64_t took_ns)
{
	int64_t now = clock_mono_ns(), passed = MIN(now - n->allowed_ns, 1000 * INT64_C(1000000000));

	n->allowance_ns = MIN(n->allowance_ns - took_ns + passed / 1000 * NAMER_NS_PER_S / 1000000, NAMER_BURST_NS);
	n->allowed_ns = now;
}

/* Of one process, before others have their turn. Codes of a hostile one take milliseconds each. */
#define TURN_CODES 64u
#define TURN_NS 10000000
/* Of a process, codes that are met much less than the one that is met most have to wait. */
#define TURN_RARER 8u
/* What reading costs where nothing comes of it, in time that counts for the order of turns: few codes of an honest process are like that. */
#define FAILED_COSTS 8

/* Whose turn it is; NULL: nobody's. Codes that nobody else holds have left the table and the windows before their turn: nobody will ask for
 * their names. Without that, what waits would grow for as long as a process makes code faster than it is read. *ret_met: how often the code of
 * that process that is met most was. */
static const struct runtime_owner *whose_turn(struct namer *n, uint32_t *ret_met) REQUIRES(n->readers.lock)
{
	const struct runtime_owner *first = NULL;
	size_t keep = 0;

	*ret_met = 0;
	n->turns++;
	n->waiting = 0;
	for (size_t i = 0; i < n->wanted.n; i++) {
		struct runtime_code *c = n->wanted.v[i];
		if (atomic_load(&c->refs) == 1) {
			runtime_code_unref(c);
			n->done++;
			continue;
		}
		n->wanted.v[keep++] = c;
		n->waiting += c->owner->counted != n->turns;
		c->owner->counted = n->turns;
		if (c->owner != first && first && !before(c->owner, first))
			continue;
		if (c->owner != first)
			*ret_met = 0;
		first = c->owner;
		*ret_met = MAX(*ret_met, atomic_load_explicit(&c->met, memory_order_relaxed));
	}
	n->wanted.n = keep;
	return first;
}

/* Codes of the process that has had the least, at most TURN_CODES, of those that are met most. */
static size_t take_turn(struct namer *n, struct runtime_code *turn[TURN_CODES]) REQUIRES(n->readers.lock)
{
	uint32_t met;
	const struct runtime_owner *first = whose_turn(n, &met);
	size_t got = 0, keep = 0;

	for (size_t i = 0; i < n->wanted.n; i++) {
		struct runtime_code *c = n->wanted.v[i];
		if (got < TURN_CODES && c->owner == first && atomic_load_explicit(&c->met, memory_order_relaxed) >= met / TURN_RARER)
			turn[got++] = c;
		else
			n->wanted.v[keep++] = c;
	}
	n->wanted.n = keep;
	if (got)
		n->floor_ns = MAX(n->floor_ns, first->cost_ns);
	else
		pthread_cond_broadcast(&n->readers.answered);
	return got;
}

/* What is next; waits for it. 0: the thread is to end. */
static size_t next(struct memory_reader *r, struct runtime_code *turn[TURN_CODES], bool *ret_barred)
{
	struct namer *n = (struct namer *)r->of;
	size_t got = 0;

	mutex_lock(&n->readers.lock);
	while (!n->readers.stopping && !r->left) {
		allow(n, 0);
		if (n->wanted.n && n->allowance_ns > 0) {
			got = n->turn = take_turn(n, turn);
			if (!got)
				continue;
			n->of = turn[0]->owner;
			r->pid = n->of->pid;
			*ret_barred = readers_bar(&n->readers, r->pid);
			break;
		}
		if (n->wanted.n)
			mutex_wait_ms(&n->readers.lock, &n->readers.asked, clock_mono_ms() + 1 - n->allowance_ns * 1000 / NAMER_NS_PER_S);
		else
			mutex_wait(&n->readers.lock, &n->readers.asked);
	}
	mutex_unlock(&n->readers.lock);
	return got;
}

/* Reads codes of a turn, as many as there is time for; returns their number. */
static size_t read_turn(struct memory_reader *r, struct runtime_code **turn, size_t got, bool barred, enum code_state *states,
			struct buf *record)
{
	struct process_memory m = { .fd = -1 };
	enum code_state none = CODE_NAMED;
	int64_t until_ns = clock_cpu_ns() + TURN_NS;
	size_t i = 0;
	struct err e;

	atomic_store(&r->since_ms, clock_mono_ms());
	if (barred)
		none = CODE_UNREADABLE;
	else if (process_memory_open(&m, turn[0]->owner->pid, 0, 0, &e))
		none = m.ended ? CODE_GONE : CODE_UNREADABLE;
	m.facts = turn[0]->owner->facts; /* borrowed */
	m.kept = &turn[0]->owner->kept;
	process_memory_keep_pages(&m);
	do {
		atomic_store(&r->since_ms, clock_mono_ms());
		enum code_state state = none == CODE_NAMED ? read_code(&m, turn[i], record) : none;
		states[i] = runtime_code_set(turn[i], state, buf_view(record));
	} while (++i < got && clock_cpu_ns() < until_ns);
	m.facts = NULL;
	process_memory_close(&m);
	atomic_store(&r->since_ms, 0);
	return i;
}

/* Codes of a turn for which there was no time stay before those that came after them. */
static void put_back(struct namer *n, struct runtime_code **codes, size_t n_codes) REQUIRES(n->readers.lock)
{
	for (size_t i = 0; i < n_codes; i++)
		vec_push(&n->wanted, codes[i]);
	memmove(n->wanted.v + n_codes, n->wanted.v, (n->wanted.n - n_codes) * sizeof *n->wanted.v);
	for (size_t i = 0; i < n_codes; i++)
		n->wanted.v[i] = codes[i];
}

/* Counts what came of those that were read, of a turn of `got`; false if the thread was left behind meanwhile. */
static bool finish(struct memory_reader *r, struct runtime_code **turn, const enum code_state *states, size_t read, size_t got, int64_t took_ns)
{
	struct namer *n = (struct namer *)r->of;
	enum runtime_kind kind = turn[0]->of->kind;

	mutex_lock(&n->readers.lock);
	bool left = r->left;
	size_t failed = 0;
	for (size_t i = 0; i < read; i++) {
		n->stats.codes[kind][states[i]]++;
		failed += states[i] != CODE_NAMED;
	}
	turn[0]->owner->cost_ns += took_ns + took_ns / (int64_t)read * (int64_t)failed * (FAILED_COSTS - 1);
	if (left) {
		/* Not by a turn that had nothing to wait for, while another thread still waits for the process. */
		atomic_store(&turn[0]->owner->stuck, false);
	} else {
		put_back(n, turn + read, got - read);
		n->floor_ns += took_ns / (int64_t)n->waiting; /* of this very turn, so that there was at least one */
		n->done += read;
		n->turn = 0;
		n->stats.cpu_ns = n->before_ns + (uint64_t)clock_cpu_ns();
	}
	pthread_cond_broadcast(&n->readers.answered);
	mutex_unlock(&n->readers.lock);
	for (size_t i = read; left && i < got; i++)
		runtime_code_set(turn[i], CODE_UNREADABLE, VIEW(""));
	for (size_t i = 0; i < (left ? got : read); i++) /* as long as the thread could be left behind, the owner was needed */
		runtime_code_unref(turn[i]);
	return !left;
}

static void work(struct memory_reader *r)
{
	struct namer *n = (struct namer *)r->of;
	struct runtime_code *turn[TURN_CODES];
	enum code_state states[TURN_CODES];
	struct buf record = { .max = RECORD_BYTES_MAX };
	size_t got;
	bool barred;
	int64_t cpu_ns = clock_cpu_ns();

	while ((got = next(r, turn, &barred))) {
		int64_t waited_ns = clock_cpu_ns() - cpu_ns; /* nobody's in particular */
		size_t read = read_turn(r, turn, got, barred, states, &record);
		int64_t took_ns = clock_cpu_ns() - cpu_ns;
		cpu_ns += took_ns;
		if (!finish(r, turn, states, read, got, took_ns - waited_ns))
			break;
		allow(n, took_ns);
	}
	buf_free(&record);
}

static void leave(struct readers *x)
{
	struct namer *n = (struct namer *)x;

	atomic_store(&n->of->stuck, true);
	n->done += n->turn;
	n->turn = 0;
	n->before_ns = n->stats.cpu_ns;
}

static const struct reader_limits namer_limits = { "namer", STUCK_MS, STUCK_MAX, STUCK_USER_MAX };
static const struct readers_user namer_user = { work, leave, release };

/* ---- for others ---- */

struct namer *namer_new(struct err *e)
{
	struct namer *n = NEW(struct namer);

	n->allowance_ns = NAMER_BURST_NS;
	n->allowed_ns = clock_mono_ns();
	readers_init(&n->readers, &namer_limits, &namer_user);
	if (readers_start(&n->readers, e) == 0)
		return n;
	namer_free(n);
	return NULL;
}

void namer_free(struct namer *n)
{
	if (n)
		readers_stop(&n->readers);
}

void namer_take(struct namer *n, struct frame_table *t)
{
	if (!mutex_try(&n->readers.lock))
		return;
	bool can = readers_ready(&n->readers);
	for (size_t i = 0; i < t->wanted.n; i++) {
		if (can) {
			struct runtime_owner *o = t->wanted.v[i]->owner;
			o->cost_ns = MAX(o->cost_ns, n->floor_ns);
			vec_push(&n->wanted, t->wanted.v[i]);
			n->taken++;
		} else {
			runtime_code_set(t->wanted.v[i], CODE_UNREADABLE, VIEW(""));
			runtime_code_unref(t->wanted.v[i]);
		}
	}
	if (can && t->wanted.n)
		pthread_cond_signal(&n->readers.asked);
	t->wanted.n = 0;
	mutex_unlock(&n->readers.lock);
}

void namer_settle(struct namer *n, int64_t patience_ms)
{
	int64_t until = clock_mono_ms() + patience_ms;

	mutex_lock(&n->readers.lock);
	for (uint64_t all = n->taken; n->done < all && !n->readers.stopping;)
		if (!mutex_wait_ms(&n->readers.lock, &n->readers.answered, until))
			break;
	mutex_unlock(&n->readers.lock);
}

void namer_stats(struct namer *n, struct namer_stats *ret)
{
	mutex_lock(&n->readers.lock);
	*ret = n->stats;
	ret->stuck = n->readers.stuck;
	ret->waiting = n->taken - n->done;
	mutex_unlock(&n->readers.lock);
}
