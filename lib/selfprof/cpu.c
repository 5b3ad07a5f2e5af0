/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU profile: ticks in, unwound as they come (their slots are few), added up by stack, named at the end. */
#include <stdio.h>
#include <time.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/lock.h"
#include "selfprof/own_code.h"
#include "selfprof/selfprof.h"
#include "selfprof/ticks.h"

#define TURN_MS 20
#define PROFILES_MAX 8               /* at once */
#define UNSEEN_NS 100000000          /* of CPU time, or a fiftieth, may be missing without a word */

struct measuring {
	struct measuring *next;
	struct own_code *code;
	struct stacks stacks;
	size_t named;                /* stacks whose names were looked up */
	uint64_t ticks, incomplete;
	struct ticks_stats before;   /* when it began: the ticks may have run for others */
};

/* All that is measured just now: each gets every tick, which is unwound once. The lock guards them and the ticks. */
static struct {
	struct mutex lock;
	struct measuring *first;
	unsigned n;
} running = { .lock = MUTEX_INIT(RANK_SELFPROF_CPU, "CPU profiles") };

static void take_tick(void *arg, const struct own_stack *s, uint32_t weight)
{
	struct own_code *code = arg;
	uint64_t frames[OWN_FRAMES_MAX + 1] UNINITIALIZED;
	int64_t values[2] = { weight, (int64_t)weight * TICK_NS };
	uint32_t n;

	int end = own_unwind(&code->unwind, s, frames, &n);
	if (end != END_BOTTOM)
		frames[n++] = STACK_MARK | (uint64_t)end;
	for (struct measuring *m = running.first; m; m = m->next) {
		m->ticks += weight;
		m->incomplete += end != END_BOTTOM ? weight : 0;
		stacks_add(&m->stacks, frames, n, values, 2);
	}
}

static void take_ticks(struct own_code *code) REQUIRES(running.lock)
{
	mutex_lock(&code->unwinding);
	ticks_take(take_tick, code);
	mutex_unlock(&code->unwinding);
}

static int join(struct measuring *m, struct err *e)
{
	int rc = 0;

	mutex_lock(&running.lock);
	if (running.n == PROFILES_MAX) {
		rc = err_set(e, ERR_CONFLICT, "%d CPU profiles are being taken already", PROFILES_MAX);
	} else if (running.n) {
		take_ticks(m->code); /* theirs */
		ticks_stats(&m->before);
	} else {
		rc = ticks_start(e);
	}
	if (!rc) {
		m->next = running.first;
		running.first = m;
		running.n++;
	}
	mutex_unlock(&running.lock);
	return rc;
}

/* Losses during the measurement. */
static struct ticks_stats leave(struct measuring *m)
{
	struct ticks_stats st;

	mutex_lock(&running.lock);
	if (running.n == 1) {
		mutex_lock(&m->code->unwinding);
		ticks_stop(take_tick, m->code, &st);
		mutex_unlock(&m->code->unwinding);
	} else {
		take_ticks(m->code);
		ticks_stats(&st);
	}
	struct measuring **at = &running.first;
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	running.n--;
	mutex_unlock(&running.lock);
	st.stackless -= m->before.stackless;
	st.owed -= MIN(st.owed, m->before.owed);
	return st;
}

static int64_t process_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* True: until the end. */
static bool run_until(struct measuring *m, int64_t end_ns, const atomic_bool *stop)
{
	for (;;) {
		int64_t left = end_ns - clock_mono_ns();
		if (stop && atomic_load(stop))
			return false;
		if (left <= 0)
			return true;
		clock_sleep_us(MIN(left / 1000 + 1, TURN_MS * 1000));
		mutex_lock(&running.lock);
		ticks_look();
		take_ticks(m->code);
		own_code_name(m->code, &m->stacks, &m->named);
		mutex_unlock(&running.lock);
	}
}

/* What is less than was wanted. */
static void note(struct buf *b, const struct measuring *m, const struct ticks_stats *st, int64_t cpu_ns)
{
	int64_t unseen = cpu_ns - (int64_t)(m->ticks + st->owed) * TICK_NS;

	if (st->stackless)
		buf_printf(b, "%llu ticks found no room, their time is with other stacks of the same thread; ", (unsigned long long)st->stackless);
	if (m->incomplete)
		buf_printf(b, "%llu of %llu ticks have incomplete stacks; ", (unsigned long long)m->incomplete, (unsigned long long)m->ticks);
	if (st->blocked)
		buf_printf(b, "%u threads block SIGPROF and are not seen; ", st->blocked);
	if (st->refused)
		buf_printf(b, "%u threads could not get a timer; ", st->refused);
	if (unseen > UNSEEN_NS && unseen > cpu_ns / 50)
		buf_printf(b, "%.2f of %.2f s of CPU time were of threads that were not seen; ", (double)unseen / 1e9, (double)cpu_ns / 1e9);
	if (b->len)
		b->len -= 2;
}

static int measure(struct measuring *m, int64_t duration_ns, const atomic_bool *stop, struct profile *out, struct err *e)
{
	struct stacks_form form = { .types = { { "samples", "count" }, { "cpu", "nanoseconds" } }, .n_types = 2,
				    .period = { "cpu", "nanoseconds" }, .period_value = TICK_NS, .time_ns = clock_now_ns() };
	struct buf text = { 0 };
	int64_t start = clock_mono_ns(), cpu = process_cpu_ns();
	int rc = join(m, e);

	if (rc)
		return rc;
	bool whole = run_until(m, start + duration_ns, stop);
	struct ticks_stats st = leave(m);
	cpu = process_cpu_ns() - cpu;
	form.duration_ns = clock_mono_ns() - start;
	if (!whole)
		return err_set(e, ERR_CANCELED, "the client of the profile is gone");
	if (st.owed)
		stacks_add(&m->stacks, (uint64_t[]){ STACK_LOST }, 1, (int64_t[]){ (int64_t)st.owed, (int64_t)st.owed * TICK_NS }, 2);
	buf_puts(&text, "");
	note(&text, m, &st, cpu);
	char *say AUTOFREE = text.len ? xasprintf("pyrrha: note %.*s", (int)text.len, text.ptr) : NULL;
	buf_free(&text);
	form.note = say;
	return own_code_profile(m->code, &m->stacks, &form, out, e);
}

int selfprof_cpu(int64_t duration_ns, const atomic_bool *stop, struct profile *out, struct err *e)
{
	struct measuring m = { .code = own_code() };
	int rc = measure(&m, duration_ns, stop, out, e);

	stacks_release(&m.stacks);
	return rc;
}
