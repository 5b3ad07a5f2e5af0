/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/ticks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/map.h"
#include "selfprof/pieces.h"

#define SLOTS 512u
#define THREADS_MAX 4096u            /* a power of two: their number is in the signal, in THREAD_BITS */
#define THREAD_BITS 12
#define WHOLE_LOOK_NS 100000000      /* so often the list is read although there are as many threads as before */
#define DRAIN_MS 200                 /* for handlers that are at work when all ends */

struct ticking {
	pid_t tid;                   /* 0: free */
	bool has_timer, seen;
	timer_t timer;
	int64_t first_ns;            /* the thread's CPU time at its first tick; one every TICK_NS from there on */
	int64_t expected;            /* ticks up to the end of the measurement, by the thread's clock */
	atomic_uint counted;         /* ticks of this thread that on_tick has got so far */
	atomic_uint owed;
};

/* All a handler may touch is here and is never freed: a late one finds what it needs and does no harm. */
static struct {
	atomic_uint turn;            /* odd: on */
	atomic_uint at_work;         /* handlers */
	atomic_ullong stackless;
	struct pieces pieces;        /* mark[0]: turn, mark[1]: ticks */
	struct ticking *threads;
	/* The rest is used by the caller only. */
	bool installed;
	unsigned n_threads, refused, blocked;
	struct map by_tid;
	uint64_t owed;               /* of threads that are gone */
	nlink_t links;               /* of /proc/self/task: its threads, plus two */
	int64_t looked_ns;
	uint64_t dice;
} T;

/* ---- the handler ---- */

static void keep_tick(unsigned turn, struct ticking *t, unsigned ticks, const ucontext_t *uc)
{
	unsigned weight = ticks + atomic_exchange(&t->owed, 0);
	struct stack_piece *x = pieces_claim(&T.pieces);
	const greg_t *r = uc->uc_mcontext.gregs;

	if (!x) {
		atomic_fetch_add(&t->owed, weight);
		atomic_fetch_add(&T.stackless, ticks);
		return;
	}
	x->mark[0] = turn;
	x->mark[1] = weight;
	pieces_put(&T.pieces, x, (uint64_t)r[REG_RIP], (uint64_t)r[REG_RSP], (uint64_t)r[REG_RBP]);
}

static void on_tick(int sig, siginfo_t *si, void *context)
{
	int saved = errno;

	atomic_fetch_add(&T.at_work, 1);
	unsigned turn = atomic_load(&T.turn), word = (unsigned)si->si_value.sival_int;
	if (si->si_code == SI_TIMER && turn & 1 && word >> THREAD_BITS == (turn & (UINT32_MAX >> THREAD_BITS))) {
		struct ticking *t = &T.threads[word & (THREADS_MAX - 1)];
		unsigned ticks = 1 + (si->si_overrun > 0 ? (unsigned)si->si_overrun : 0);
		atomic_fetch_add(&t->counted, ticks);
		keep_tick(turn, t, ticks, context);
	}
	atomic_fetch_sub(&T.at_work, 1);
	errno = saved;
}

/* ---- threads ---- */

static uint64_t roll(void)
{
	return T.dice = hash_u64(T.dice);
}

/* The clock of a thread of ours, as the kernel numbers it. */
static clockid_t clock_of(pid_t tid)
{
	return (clockid_t)((~(unsigned)tid) << 3 | 6);
}

static struct timespec to_timespec(int64_t ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

/* Fires after a random part of the first 10 ms, so that CPU time beyond whole ticks is correct on average. One that began while we
 * looked counts from its own beginning. */
static bool start_timer(struct ticking *t, unsigned number, bool from_now)
{
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF };
	struct timespec now = { 0 };

	ev.sigev_value.sival_int = (int)(atomic_load(&T.turn) << THREAD_BITS | number);
	ev._sigev_un._tid = t->tid;
	if ((from_now && clock_gettime(clock_of(t->tid), &now)) || timer_create(clock_of(t->tid), &ev, &t->timer))
		return false;
	int64_t used = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	t->first_ns = used + 1 + (int64_t)(roll() % TICK_NS);
	atomic_store(&t->counted, 0);
	struct itimerspec when = { to_timespec(TICK_NS), to_timespec(t->first_ns) };
	if (timer_settime(t->timer, TIMER_ABSTIME, &when, NULL) == 0)
		return true;
	timer_delete(t->timer);
	return false;
}

/* How many ticks a living thread should have had. The kernel looks at timers of CPU time in its own tick only: on a busy machine a thread
 * runs for 20 to 90 ms of its time before its next signal, which then stands for several ticks. At the end of a measurement those
 * are still missing. */
static int64_t expected_ticks(const struct ticking *t)
{
	struct timespec now;

	if (!t->tid || !t->has_timer || clock_gettime(clock_of(t->tid), &now))
		return 0;
	int64_t used = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	return used < t->first_ns ? 0 : 1 + (used - t->first_ns) / TICK_NS;
}

static uint64_t late_ticks(const struct ticking *t, int64_t expected)
{
	int64_t counted = atomic_load(&t->counted);
	return expected > counted ? (uint64_t)(expected - counted) : 0;
}

static bool blocks_signal(pid_t tid)
{
	char name[64], text[4096];

	snprintf(name, sizeof name, "/proc/self/task/%d/status", (int)tid);
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
	if (fd >= 0)
		close(fd);
	text[MAX(n, 0)] = 0;
	const char *line = strstr(text, "\nSigBlk:");
	return line && strtoull(line + 8, NULL, 16) >> (SIGPROF - 1) & 1;
}

static struct ticking *find_thread(pid_t tid)
{
	uint64_t h = hash_u64((uint64_t)tid);
	uint32_t id;

	for (size_t at = map_start(&T.by_tid, h); map_probe(&T.by_tid, h, &at, &id);)
		if (T.threads[id].tid == tid)
			return &T.threads[id];
	return NULL;
}

static void add_thread(pid_t tid, bool from_now)
{
	unsigned i = 0;

	while (i < T.n_threads && T.threads[i].tid)
		i++;
	if (i == THREADS_MAX) {
		T.refused++;
		return;
	}
	struct ticking *t = &T.threads[i];
	T.n_threads = MAX(T.n_threads, i + 1);
	t->tid = tid;
	t->seen = true;
	t->has_timer = start_timer(t, i, from_now);
	T.refused += !t->has_timer && errno != ESRCH && errno != EINVAL; /* those are of a thread that is gone again */
	map_insert(&T.by_tid, hash_u64((uint64_t)tid), i);
}

static void drop_thread(struct ticking *t)
{
	if (t->has_timer)
		timer_delete(t->timer);
	map_remove(&T.by_tid, hash_u64((uint64_t)t->tid), (uint32_t)(t - T.threads));
	T.owed += atomic_exchange(&t->owed, 0);
	t->tid = 0;
	t->has_timer = false;
}

static void look_at_threads(bool from_now)
{
	DIR *d = opendir("/proc/self/task");

	if (!d)
		return;
	for (unsigned i = 0; i < T.n_threads; i++)
		T.threads[i].seen = false;
	for (struct dirent *e; (e = readdir(d));) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
		struct ticking *t = tid > 0 ? find_thread(tid) : NULL;
		if (t)
			t->seen = true;
		else if (tid > 0)
			add_thread(tid, from_now);
	}
	closedir(d);
	for (unsigned i = 0; i < T.n_threads; i++)
		if (T.threads[i].tid && !T.threads[i].seen)
			drop_thread(&T.threads[i]);
}

void ticks_look(void)
{
	struct stat st;
	int64_t now = clock_mono_ns();

	if (stat("/proc/self/task", &st) || (st.st_nlink == T.links && now - T.looked_ns < WHOLE_LOOK_NS))
		return;
	T.links = st.st_nlink;
	T.looked_ns = now;
	look_at_threads(false);
}

/* ---- from start to stop ---- */

static int install(struct err *e)
{
	struct sigaction act = { .sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK }, was;

	if (T.installed)
		return 0;
	if (sigaction(SIGPROF, NULL, &was) == 0 && ((was.sa_flags & SA_SIGINFO) || (was.sa_handler != SIG_DFL && was.sa_handler != SIG_IGN)))
		return err_set(e, ERR_CONFLICT, "SIGPROF has another handler already");
	int rc = pieces_init(&T.pieces, SLOTS, e);
	if (rc)
		return rc;
	if (!T.threads)
		T.threads = xcalloc(THREADS_MAX, sizeof *T.threads);
	/* It stays: a signal that is still on its way when all has ended would kill the program. */
	sigemptyset(&act.sa_mask);
	if (sigaction(SIGPROF, &act, NULL))
		return err_errno(e, errno, "sigaction");
	T.installed = true;
	return 0;
}

int ticks_start(struct err *e)
{
	struct stat st;
	int rc = install(e);

	if (rc)
		return rc;
	if (getrandom(&T.dice, sizeof T.dice, GRND_NONBLOCK) != sizeof T.dice)
		T.dice = (uint64_t)clock_mono_ns();
	T.n_threads = T.refused = T.blocked = 0;
	T.owed = 0;
	atomic_store(&T.stackless, 0);
	atomic_fetch_add(&T.turn, 1);
	T.links = stat("/proc/self/task", &st) ? 0 : st.st_nlink;
	T.looked_ns = clock_mono_ns();
	look_at_threads(true);
	return 0;
}

struct taking {
	ticks_fn *fn;
	void *arg;
	unsigned turn;
};

/* Ticks of an earlier measurement come only from late handlers. */
static void take_piece(void *arg, const struct stack_piece *x)
{
	const struct taking *t = arg;
	struct own_stack s = piece_stack(x);

	if (x->mark[0] == t->turn || x->mark[0] + 1 == t->turn)
		t->fn(t->arg, &s, (uint32_t)x->mark[1]);
}

struct pieces *ticks_pieces(void)
{
	return &T.pieces;
}

void ticks_take(ticks_fn *fn, void *arg)
{
	struct taking t = { fn, arg, atomic_load(&T.turn) };
	pieces_take(&T.pieces, take_piece, &t);
}

void ticks_stats(struct ticks_stats *ret)
{
	*ret = (struct ticks_stats){ atomic_load(&T.stackless), T.owed, T.blocked, T.refused };
	for (unsigned i = 0; i < T.n_threads; i++) {
		ret->owed += atomic_load(&T.threads[i].owed) + late_ticks(&T.threads[i], expected_ticks(&T.threads[i]));
		ret->blocked += T.threads[i].tid && blocks_signal(T.threads[i].tid);
	}
}

void ticks_stop(ticks_fn *fn, void *arg, struct ticks_stats *ret)
{
	atomic_fetch_add(&T.turn, 1);
	for (unsigned i = 0; i < T.n_threads; i++)
		T.threads[i].expected = expected_ticks(&T.threads[i]);
	for (unsigned i = 0; i < T.n_threads; i++)
		if (T.threads[i].tid) {
			T.blocked += blocks_signal(T.threads[i].tid);
			drop_thread(&T.threads[i]);
		}
	for (int i = 0; i < DRAIN_MS && atomic_load(&T.at_work); i++)
		clock_sleep_ms(1);
	ticks_take(fn, arg);
	for (unsigned i = 0; i < T.n_threads; i++) /* of handlers that were at work when it was dropped */
		T.owed += atomic_exchange(&T.threads[i].owed, 0) + late_ticks(&T.threads[i], T.threads[i].expected);
	if (!atomic_load(&T.at_work))
		pieces_shrink(&T.pieces);
	map_free(&T.by_tid);
	T.by_tid = (struct map){ 0 };
	*ret = (struct ticks_stats){ atomic_load(&T.stackless), T.owed, T.blocked, T.refused };
}
