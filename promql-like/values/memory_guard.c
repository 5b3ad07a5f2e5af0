/* SPDX-License-Identifier: Apache-2.0 */
#include "promql-like/values/memory_guard.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/line.h"
#include "base/lock.h"
#include "base/num.h"
#include "base/room.h"
#include "base/thread.h"
#include "base/units.h"

#define LOOK_MS 10                     /* a new page is cleared in 0.3 us at best: 300 MB a second and thread */
#define TRIM_NS INT64_C(1000000000)    /* between two times that all of malloc's arenas are walked */
#define IDLE_MS 10000                  /* without any query, until what they left free goes back */
#define SMALL_ANSWER (UINT64_C(1) << 20) /* bytes: an answer that never waits */
#define LOOK_AGAIN_MS 50               /* memory is measured: nobody tells an answer that waits that there is room again */
#define PATIENCE_NS INT64_C(200000000) /* for one that was stopped to give back what it has, up to 15/16 of the limit */

struct memory_guard {
	uint64_t limit, line, last_line, most_growth;
	uint64_t (*resident)(void);
	pthread_t thread;
	struct mutex lock;        /* of what follows */
	pthread_cond_t changed;
	struct guarded *first;    /* the youngest */
	uint64_t base;            /* resident when there was no query */
	struct guarded *leaving;  /* was stopped and is still there; borrowed */
	int64_t stopped_ns, trimmed_ns;
	atomic_uint_fast64_t stops;
	atomic_bool is_short;
	pthread_cond_t made;      /* making has become less */
	struct waiting_line line_of_makers; /* answers that wait to begin */
	struct answer_maker *oldest; /* being made, and not small: the one that began first */
	uint64_t making, most_making; /* bytes */
	unsigned n_making, n_waiting, n_extending, n_held; /* extending: being made, and waits for more */
	bool ends, somebody_left; /* since malloc's arenas were walked */
	bool rests;               /* until a query comes; else the thread looks by itself before LOOK_NS are over */
	bool grew;                /* by more than most_growth, since there was no query */
};

static uint64_t resident_of_process(void)
{
	char text[64];
	unsigned long size, resident;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	text[MAX(n, (ssize_t)0)] = 0;
	char *end;
	size = strtoul(text, &end, 10);
	resident = size ? strtoul(end, NULL, 10) : 0;
	return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Of those that read at least half of what the one that read most did, the youngest: what it did is lost least. */
static struct guarded *choose(const struct memory_guard *g) REQUIRES(g->lock)
{
	uint64_t most = 0;
	for (struct guarded *x = g->first; x; x = x->next)
		most = MAX(most, atomic_load(&x->stopped) ? 0 : x->samples(x));
	for (struct guarded *x = g->first; x; x = x->next)
		if (!atomic_load(&x->stopped) && x->samples(x) >= most / 2)
			return x;
	return NULL;
}

/* Resident bytes. Above the line, idle memory of malloc is given back first: that walks all of its arenas under the lock, so it is done when a query
 * has left, else once in TRIM_NS. */
static uint64_t resident_trimmed(struct memory_guard *g, int64_t now) REQUIRES(g->lock)
{
	uint64_t bytes = g->resident();
	if (bytes <= g->line || (!g->somebody_left && now - g->trimmed_ns <= TRIM_NS))
		return bytes;
	room_tidy(true);
	malloc_trim(0);
	g->trimmed_ns = now;
	g->somebody_left = false;
	return g->resident();
}

static bool is_beyond(struct memory_guard *g, int64_t now, bool *ret_hurry) REQUIRES(g->lock)
{
	uint64_t bytes = resident_trimmed(g, now);
	g->grew |= bytes > g->base && bytes - g->base > g->most_growth;
	*ret_hurry = bytes > g->last_line;
	return bytes > g->line && bytes > g->base && bytes - g->base > g->most_growth;
}

/* Who waits to make an answer looks again. */
static void set_short(struct memory_guard *g, bool is_short) REQUIRES(g->lock)
{
	if (atomic_exchange(&g->is_short, is_short) && !is_short)
		pthread_cond_broadcast(&g->made);
}

static void look(struct memory_guard *g) REQUIRES(g->lock)
{
	int64_t now = clock_mono_ns();
	bool hurry, beyond = is_beyond(g, now, &hurry);
	set_short(g, beyond);
	if (!beyond || (g->leaving && !hurry && now - g->stopped_ns < PATIENCE_NS))
		return;
	g->leaving = choose(g);
	if (!g->leaving)
		return;
	g->stopped_ns = now;
	atomic_store(&g->leaving->stopped, true);
	atomic_fetch_add(&g->stops, 1);
}

/* Until something changes, or so much time has passed: true. */
static bool wait_for(struct memory_guard *g, int64_t ms) REQUIRES(g->lock)
{
	return !mutex_wait_ms(&g->lock, &g->changed, clock_mono_ms() + ms);
}

/* Nobody asks: what queries left free is of use to others. */
static void rest(struct memory_guard *g) REQUIRES(g->lock)
{
	set_short(g, false);
	g->rests = true;
	if (!g->grew) {
		mutex_wait(&g->lock, &g->changed);
	} else if (wait_for(g, IDLE_MS) && !g->first && !g->n_held) {
		g->grew = false;
		mutex_unlock(&g->lock);
		malloc_trim(0);
		mutex_lock(&g->lock);
	}
	g->rests = false;
}

static void *watch(void *arg)
{
	struct memory_guard *g = arg;
	mutex_lock(&g->lock);
	while (!g->ends) {
		if (!g->first && !g->n_held) {
			rest(g);
			continue;
		}
		look(g);
		wait_for(g, LOOK_MS);
	}
	mutex_unlock(&g->lock);
	return NULL;
}

struct memory_guard *memory_guard_new(uint64_t limit, uint64_t (*resident)(void))
{
	struct err e;
	if (!limit)
		return NULL;
	struct memory_guard *g = NEW(struct memory_guard);
	*g = (struct memory_guard){ .limit = limit, .line = limit - limit / 8, .last_line = limit - limit / 16, .most_growth = limit / 16, .most_making = limit / 8,
				    .resident = resident ? resident : resident_of_process };
	mutex_init(&g->lock, RANK_MEMORY_GUARD, "memory guard");
	pthread_cond_init(&g->changed, NULL);
	pthread_cond_init(&g->made, NULL);
	if (thread_start(&g->thread, "query-memory", watch, g, &e)) {
		g->ends = true;
		memory_guard_free(g);
		return NULL;
	}
	return g;
}

void memory_guard_free(struct memory_guard *g)
{
	if (!g)
		return;
	mutex_lock(&g->lock);
	bool runs = !g->ends;
	g->ends = true;
	pthread_cond_signal(&g->changed);
	mutex_unlock(&g->lock);
	if (runs)
		pthread_join(g->thread, NULL);
	pthread_cond_destroy(&g->changed);
	pthread_cond_destroy(&g->made);
	mutex_destroy(&g->lock);
	free(g);
}

void memory_guard_enter(struct memory_guard *g, struct guarded *x)
{
	bool wake = false;
	if (!g)
		return;
	mutex_lock(&g->lock);
	if (!g->first && !g->n_held) {
		g->base = g->resident();
		wake = g->rests;
	}
	x->next = g->first;
	g->first = x;
	mutex_unlock(&g->lock);
	if (wake)
		pthread_cond_signal(&g->changed);
}

void memory_guard_leave(struct memory_guard *g, struct guarded *x)
{
	if (!g)
		return;
	mutex_lock(&g->lock);
	struct guarded **at = &g->first;
	while (*at != x)
		at = &(*at)->next;
	*at = x->next;
	g->somebody_left = true;
	if (g->leaving == x)
		g->leaving = NULL;
	if (!g->first && !g->n_held)
		set_short(g, false);
	mutex_unlock(&g->lock);
}

bool memory_guard_is_short(struct memory_guard *g)
{
	return g && atomic_load_explicit(&g->is_short, memory_order_relaxed);
}

uint64_t memory_guard_stops(const struct memory_guard *g)
{
	return g ? atomic_load(&g->stops) : 0;
}

void memory_guard_hold(struct memory_guard *g)
{
	if (!g)
		return;
	mutex_lock(&g->lock);
	g->n_held++;
	mutex_unlock(&g->lock);
}

void memory_guard_drop(struct memory_guard *g)
{
	if (!g)
		return;
	mutex_lock(&g->lock);
	g->n_held--;
	g->somebody_left = true;
	if (!g->first && !g->n_held)
		set_short(g, false);
	mutex_unlock(&g->lock);
}

/* ---- answers ---- */

/* Bytes between resident memory and the line. Resident memory is taken from when the answer m began, or from now if it is less now: what m itself has
 * allocated since must not count against it. */
static uint64_t free_for(struct memory_guard *g, const struct answer_maker *m) REQUIRES(g->lock)
{
	uint64_t now = resident_trimmed(g, clock_mono_ns()), base = m->bytes ? MIN(m->base, now) : now;
	return g->line - MIN(base, g->line);
}

/* Whether an answer may allocate `bytes` more. Answers together may announce most_making. Beyond that only the oldest answer (or the only one) gets
 * memory: up to the line, less what the others have announced. */
static bool has_room(struct memory_guard *g, const struct answer_maker *m, uint64_t bytes) REQUIRES(g->lock)
{
	if (!atomic_load(&g->is_short) && g->making <= g->most_making && bytes <= g->most_making - g->making)
		return true;
	return (!g->oldest || g->oldest == m) && g->making + bytes <= free_for(g, m);
}

static int refuse(const struct memory_guard *g, const struct answer_maker *m, uint64_t bytes, bool alone, struct err *e)
{
	char all[24], limit[24];
	units_format_size(m->bytes + bytes, all);
	units_format_size(g->limit, limit);
	if (!alone)
		return err_set(e, ERR_BUSY, "the answer takes %s of memory while it is made, and other large answers take what there is: try again "
			       "when there are fewer, or ask for less", all);
	return err_set(e, ERR_LIMIT, "the answer takes %s of memory while it is made, more than is left of the %s that the process may use: ask for a shorter "
		       "range, fewer series or stacks (merge without by, focus, topk), or let the process use more (--memory)", all, limit);
}

/* Whether it is m's turn to begin or to go on, if there is room. */
static bool is_next(struct memory_guard *g, const struct answer_maker *m, const struct in_line *me) REQUIRES(g->lock)
{
	return m->bytes || line_is_first(&g->line_of_makers, me);
}

/* The error with which the answer m ends because it will not get `bytes`; 0: it may go on waiting for them. */
static int give_up(struct memory_guard *g, const struct answer_maker *m, const struct in_line *me, uint64_t bytes, int64_t deadline_ns,
		   const atomic_bool *canceled, struct err *e) REQUIRES(g->lock)
{
	if (canceled && atomic_load(canceled))
		return err_set(e, ERR_CANCELED, "query was canceled before its answer was made");
	if (clock_mono_ns() > deadline_ns)
		return err_set(e, ERR_TIMEOUT, "query timed out before its answer was made: other large answers take the memory that there is (--query.timeout)");
	bool alone = is_next(g, m, me) && (!g->oldest || (g->oldest == m && !m->next));
	if ((alone && !g->first) || m->bytes + bytes > g->line - MIN(g->base, g->line))
		return refuse(g, m, bytes, true, e);
	if (m->bytes && !m->next && g->n_extending == g->n_making) /* each waits for the others: the youngest ends */
		return refuse(g, m, bytes, false, e);
	return 0;
}

static void begin_making(struct memory_guard *g, struct answer_maker *m) REQUIRES(g->lock)
{
	struct answer_maker **at = &g->oldest;
	while (*at)
		at = &(*at)->next;
	*at = m;
	m->next = NULL;
	m->base = g->resident();
	g->n_making++;
}

static int wait_for_room(struct memory_guard *g, struct answer_maker *m, uint64_t bytes, int64_t deadline_ns, const atomic_bool *canceled,
			 struct err *e) REQUIRES(g->lock)
{
	int rc = 0;
	struct in_line me;
	bool begins = !m->bytes;
	unsigned *counter = begins ? &g->n_waiting : &g->n_extending;
	++*counter;
	if (begins)
		line_join(&g->line_of_makers, &me);
	while (!(is_next(g, m, &me) && has_room(g, m, bytes)) && !(rc = give_up(g, m, &me, bytes, deadline_ns, canceled, e)))
		mutex_wait_ms(&g->lock, &g->made, MIN(deadline_ns / 1000000 + 1, clock_mono_ms() + LOOK_AGAIN_MS));
	--*counter;
	if (begins)
		line_leave(&g->line_of_makers, &me, &g->made);
	return rc;
}

int memory_guard_make(struct memory_guard *g, struct answer_maker *m, uint64_t bytes, int64_t deadline_ns, const atomic_bool *canceled,
		      struct err *e)
{
	int rc = 0;
	struct flag_watch left;
	if (!g || !bytes)
		return 0;
	if ((m->is_small || !m->bytes) && m->bytes + bytes <= SMALL_ANSWER) {
		m->is_small = true;
		m->bytes += bytes;
		return 0;
	}
	if (m->is_small) { /* no longer */
		bytes += m->bytes;
		*m = (struct answer_maker){ 0 };
	}
	flag_watch(&left, canceled, &g->lock, &g->made);
	mutex_lock(&g->lock);
	rc = wait_for_room(g, m, bytes, deadline_ns, canceled, e);
	if (!rc) {
		if (!m->bytes)
			begin_making(g, m);
		m->bytes += bytes;
		g->making += bytes;
	}
	mutex_unlock(&g->lock);
	flag_unwatch(&left);
	return rc;
}

void memory_guard_made(struct memory_guard *g, struct answer_maker *m)
{
	if (!g || !m->bytes || m->is_small)
		return;
	mutex_lock(&g->lock);
	struct answer_maker **at = &g->oldest;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	g->n_making--;
	g->somebody_left = true;
	g->making -= m->bytes;
	pthread_cond_broadcast(&g->made);
	mutex_unlock(&g->lock);
}

unsigned memory_guard_makes(struct memory_guard *g)
{
	if (!g)
		return 0;
	mutex_lock(&g->lock);
	unsigned n = g->n_making + g->n_waiting;
	mutex_unlock(&g->lock);
	return n;
}
