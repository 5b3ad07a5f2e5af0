/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/crash/life.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "model/sourcekit.h"
#include "tests/crash/ledger.h"
#include "tests/crash/life_bucket.h"
#include "tsdb/testkit.h"

#define HOUR INT64_C(3600000)
#define DAY (24 * HOUR)
#define PODS 6
#define BATCHES 70      /* of each appending thread */
#define WRITERS 3       /* who append: two threads, and the main one when these are over */
#define RETENTION (1 * DAY)
#define BUCKET_CHANGES 4 /* times as many changes of files as without a bucket */

struct pending;

struct life {
	struct kit k;
	struct life_bucket *bucket;  /* NULL = it has none */
	bool lost, was_lost;         /* its disk was, and it comes back now; or at any time */
	struct ledger *ledger;
	const struct kind *kind;
	uint64_t seed;
	atomic_llong now_ms;
	atomic_uint running;     /* appending threads */
	atomic_uint writers;     /* who have a note */
	struct rwlock deleting;    /* read: an append or a query is in flight */
	atomic_ulong refused, acknowledged, queries, query_errors;
	struct mutex sent_lock;
	VEC(struct pending *) sent; /* until the end: done may come late */
};

static void (*arm)(const char *spec);

/* For the trace. */
__attribute__((format(printf, 1, 2))) static void note(const char *f, ...)
{
	char text[256];
	va_list args;
	if (!getenv("FAULTS_TRACE"))
		return;
	va_start(args, f);
	vsnprintf(text, sizeof text, f, args);
	va_end(args);
	dprintf(2, "%s\n", text);
}

/* A bit of a file was flipped before this life, or one before it in this directory: what is missing, or cannot be read, may be. What
 * is there is right all the same, it starts, takes appends and seals. */
static bool is_rotten(void)
{
	return getenv("TORTURE_ROTTEN") != NULL;
}

static uint64_t below(uint64_t *random, uint64_t n)
{
	return kit_random(random) % n;
}

/* ---- reading ---- */

struct found {
	VEC(uint32_t) ids;
	uint64_t sums[2]; /* what the merge has to be */
};

static int series_of(struct source_view *v, const char *name, int64_t after, int64_t until, struct source_series **ret, size_t *n,
		     struct err *e)
{
	struct matcher m;
	if (matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(name), e))
		abort();
	int rc = v->ops->select(v, &m, 1, after, until, NULL, ret, n, e);
	matcher_release(&m);
	return rc;
}

/* PODS: its name is lost. */
static unsigned pod_of(const struct source_series *s)
{
	struct view v = labels_get(s->labels, VIEW("pod"));
	if (is_rotten() && (!v.len || view_eqs(v, "(lost)")))
		return PODS;
	if (v.len != 5 || memcmp(v.ptr, "pod-", 4) || v.ptr[4] < '0' || v.ptr[4] >= '0' + PODS)
		die("a series of no pod: %.*s", (int)v.len, v.ptr);
	return (unsigned)(v.ptr[4] - '0');
}

/* Every profile of that name: known, whole, in order. */
static int read_profiles(struct life *l, struct source_view *v, bool cpu, int64_t after, int64_t until, struct found *f,
			 struct err *e)
{
	struct source_series *s;
	struct source_profile *p;
	size_t n, n_p;
	int rc = series_of(v, cpu ? KIT_CPU : KIT_SAMPLES, after, until, &s, &n, e);
	for (size_t i = 0; !rc && i < n; i++) {
		unsigned pod = pod_of(&s[i]);
		rc = one_series_profiles(v, s[i].ref, after, until, NULL, &p, &n_p, e);
		for (size_t k = 0; !rc && k < n_p; k++) {
			uint32_t id;
			if (pod == PODS)
				continue;
			if (!ledger_find(l->ledger, pod, p[k].t_ms, &id))
				die("pod %u has a profile at %lld that nobody appended", pod, (long long)p[k].t_ms);
			struct ledger_entry x = ledger_get(l->ledger, id);
			if (p[k].total != (cpu ? x.total * KIT_PERIOD : x.total))
				die("profile %u of pod %u at %lld: total %lld, %lld was appended", id, pod, (long long)x.t_ms,
				    (long long)p[k].total, (long long)x.total);
			vec_push(&f->ids, id);
			f->sums[cpu] += x.sums[cpu];
		}
		if (!rc)
			free(p);
	}
	if (!rc)
		free(s);
	return rc;
}

static int read_merge(struct source_view *v, const char *name, int64_t after, int64_t until, uint64_t *ret, struct err *e)
{
	struct source_series *s;
	struct stackvec *sum;
	size_t n;
	int rc = series_of(v, name, after, until, &s, &n, e);
	if (rc)
		return rc;
	struct source_part *parts = xcalloc(n + 1, sizeof *parts);
	for (size_t i = 0; i < n; i++)
		parts[i] = (struct source_part){ s[i].ref, after, until, 1, 0, 0, 0 };
	rc = v->ops->merge(v, parts, n, 1, SYMBOLS_WHOLE, NULL, &sum, e);
	if (!rc) {
		*ret = kit_vec_sum(sum);
		stackvec_unref(sum);
	}
	free(parts);
	free(s);
	return rc;
}

static uint64_t lost_records(struct life *l)
{
	struct tsdb_stats s;
	tsdb_stats(l->k.db, &s);
	return s.lost_records;
}

/* The profiles in a range and their merges, of one view: the same in every way of asking. */
static int read_range(struct life *l, int64_t after, int64_t until, struct found *f, struct err *e)
{
	struct source_view *v;
	uint64_t sum;
	struct found cpu = { 0 };
	int rc = tsdb_source(l->k.db)->open(tsdb_source(l->k.db), &v, e);
	if (rc)
		return rc;
	rc = read_profiles(l, v, false, after, until, f, e);
	if (!rc)
		rc = read_profiles(l, v, true, after, until, &cpu, e);
	f->sums[1] = cpu.sums[1];
	if (!rc && cpu.ids.n != f->ids.n && is_rotten())
		rc = err_set(e, ERR_CORRUPT, "a type of some profiles is damaged");
	if (!rc && cpu.ids.n != f->ids.n)
		die("%zu profiles of samples, %zu of cpu in (%lld, %lld]", f->ids.n, cpu.ids.n, (long long)after, (long long)until);
	for (int i = 0; i < 2 && !rc; i++) {
		rc = read_merge(v, i ? KIT_CPU : KIT_SAMPLES, after, until, &sum, e);
		if (!rc && sum != f->sums[i] && (is_rotten() || (l->kind->reads && lost_records(l))))
			rc = err_set(e, ERR_CORRUPT, "names that could not be read stand as lost, as is said");
		if (!rc && sum != f->sums[i])
			die("the merge of (%lld, %lld] is not the sum of its %zu profiles", (long long)after, (long long)until,
			    f->ids.n);
	}
	v->ops->release(v);
	vec_free(&cpu.ids);
	return rc;
}

static bool retained(int64_t t_ms, int64_t now_ms)
{
	return ((t_ms - 1) / DAY + 1) * DAY > now_ms - RETENTION;
}

/* What must be there of (after, until] and is not; what must not and is, is the end. */
static size_t missing(struct life *l, const struct found *f, const uint8_t *before, size_t n, int64_t after, int64_t until,
		      bool accept)
{
	bool *there = xcalloc(n + 1, sizeof *there);
	size_t gone = 0;
	int64_t now = atomic_load(&l->now_ms);
	for (size_t i = 0; i < f->ids.n; i++)
		if (f->ids.v[i] < n) {
			there[f->ids.v[i]] = true;
			if (before[f->ids.v[i]] != DELETED || is_rotten())
				continue;
			if (l->lost && !ledger_get(l->ledger, f->ids.v[i]).up)
				ledger_set(l->ledger, f->ids.v[i], DELETING); /* the bucket did not know */
			else
				die("profile %u was deleted and is there", f->ids.v[i]);
		}
	for (uint32_t i = 0; i < n && !is_rotten(); i++) {
		struct ledger_entry x = ledger_get(l->ledger, i);
		if (before[i] != ACKED || x.state != ACKED || there[i] || x.t_ms <= after || x.t_ms > until || !retained(x.t_ms, now))
			continue;
		if (l->lost && !x.up) {
			ledger_set(l->ledger, i, LOST);
			continue;
		}
		gone++;
		if (accept)
			ledger_set(l->ledger, i, LOST);
		else if (gone < 4)
			fprintf(stderr, "torture: profile %u, pod %u, at %lld, is gone\n", i, x.pod, (long long)x.t_ms);
	}
	free(there);
	return gone;
}

/* Holds a range against the ledger. accept: what is missing may be, if the storage says that it lost something. */
static int check_range(struct life *l, int64_t after, int64_t until, bool accept, struct err *e)
{
	size_t n = ledger_n(l->ledger);
	uint8_t *before = xcalloc(n + 1, 1);
	struct found f = { 0 };
	struct tsdb_stats s;
	for (uint32_t i = 0; i < n; i++)
		before[i] = ledger_get(l->ledger, i).state;
	int rc = read_range(l, after, until, &f, e);
	if (!rc) {
		tsdb_stats(l->k.db, &s);
		size_t gone = missing(l, &f, before, n, after, until, accept && s.lost_records);
		if (gone && !(accept && s.lost_records))
			die("%zu acknowledged profiles of (%lld, %lld] are gone, and %llu records are said to be lost", gone,
			    (long long)after, (long long)until, (unsigned long long)s.lost_records);
	}
	vec_free(&f.ids);
	free(before);
	return rc;
}

/* ---- notes ---- */

/* What each writer noted last: the number of its append; UINT32_MAX = nothing. */
struct noted {
	struct life *l;
	uint32_t ids[WRITERS];
};

static void see_note(void *arg, const struct sink_note *n)
{
	struct noted *x = arg;
	unsigned writer = n->key.len == 9 ? (unsigned)(n->key.ptr[8] - '0') : WRITERS;
	uint32_t id;
	if (writer >= WRITERS || n->value.len != sizeof id)
		die("a note that nobody wrote: %.*s", VIEW_ARG(n->key));
	memcpy(&id, n->value.ptr, sizeof id);
	if (id >= ledger_n(x->l->ledger) || ledger_get(x->l->ledger, id).writer != writer)
		die("a note of writer %u of append %u, which is not its own", writer, id);
	x->ids[writer] = id;
}

static bool is_there(struct life *l, uint32_t id, struct err *e)
{
	struct ledger_entry x = ledger_get(l->ledger, id);
	struct found f = { 0 };
	bool there = read_range(l, x.t_ms - 1, x.t_ms, &f, e) != 0; /* then it is not known */
	for (size_t i = 0; i < f.ids.n; i++)
		there |= f.ids.v[i] == id;
	vec_free(&f.ids);
	return there;
}

/* A note is there with its batch's profile, or neither; and none is older than the last that was acknowledged. */
static void check_notes(struct life *l, bool accept)
{
	struct noted x = { .l = l, .ids = { UINT32_MAX, UINT32_MAX, UINT32_MAX } };
	struct sink *s = tsdb_sink(l->k.db);
	struct err e = { 0 };
	s->notes(s, VIEW("torture"), see_note, &x, &e);
	if (l->was_lost || is_rotten() || (accept && lost_records(l)))
		return;
	for (uint32_t i = 0; i < ledger_n(l->ledger); i++) {
		struct ledger_entry a = ledger_get(l->ledger, i);
		uint32_t noted = x.ids[a.writer];
		if (a.state == ACKED && (noted == UINT32_MAX || noted < i))
			die("append %u was acknowledged with its note, its writer's note is of append %d", i, (int)noted);
	}
	for (unsigned w = 0; w < WRITERS; w++) {
		if (x.ids[w] == UINT32_MAX)
			continue;
		struct ledger_entry a = ledger_get(l->ledger, x.ids[w]);
		bool may_go = (a.state != ACKED && a.state != TRIED) || !retained(a.t_ms, atomic_load(&l->now_ms));
		if (!may_go && !is_there(l, x.ids[w], &e))
			die("the note of append %u (state %u) is there, its profile is not", x.ids[w], a.state);
	}
}

/* ---- one life ---- */

static int64_t now_of(void *arg)
{
	return atomic_load(&((struct life *)arg)->now_ms);
}

struct pending {
	struct life *l;
	uint32_t id;
	atomic_int code; /* 1 = not yet */
};

static void appended(void *arg, const struct err *e)
{
	struct pending *p = arg;
	if (!e->code) {
		struct tsdb_stats s;
		tsdb_stats(p->l->k.db, &s);
		ledger_ack(p->l->ledger, p->id, s.last_record);
		note("profile %u is acknowledged by record %llu", p->id, (unsigned long long)s.last_record);
	}
	atomic_fetch_add(e->code ? &p->l->refused : &p->l->acknowledged, 1);
	atomic_store(&p->code, e->code ? -1 : 0);
}

/* The kit's profile, with a done() of its own. 0 if it is on its way. */
static int send_one(struct life *l, struct ledger_entry *x, struct pending *wait)
{
	struct sink_result r = { 0 };
	char key[] = "torture\0" "0";
	struct kit k = l->k; /* with notes of its own */
	key[8] = (char)('0' + x->writer);
	const struct sink_note n = { view_make(key, 9), view_make((const char *)&wait->id, sizeof wait->id), x->t_ms };
	k.notes = &n;
	k.n_notes = 1;
	if (kit_append_done(&k, x->pod, x->t_ms, x->seed, x->n, &r, appended, wait))
		return -1;
	/* Too old, because time went on since the stamp was made. */
	return r.profiles ? 0 : 1;
}

static void append_one(struct life *l, unsigned writer, uint64_t *random)
{
	int64_t now = atomic_fetch_add(&l->now_ms, 5000 + (int64_t)below(random, 250000)); /* a partition in two lives */
	int64_t back = below(random, 6) ? 0 : (int64_t)below(random, (uint64_t)(below(random, 2) ? 3 * HOUR : 20 * HOUR));
	struct ledger_entry x = { .t_ms = now - back, .seed = kit_random(random), .pod = (uint16_t)below(random, PODS),
				  .n = below(random, 12) ? 8 + (uint32_t)below(random, 20) : 0, .writer = (uint8_t)writer };
	struct pending *wait = NEW(struct pending);
	mutex_lock(&l->sent_lock);
	vec_push(&l->sent, wait);
	mutex_unlock(&l->sent_lock);
	wait->l = l;
	atomic_init(&wait->code, 1);
	x.sums[0] = kit_profile_sum(x.seed, x.n, false);
	x.sums[1] = kit_profile_sum(x.seed, x.n, true);
	x.total = kit_profile_total(x.seed, x.n);
	rwlock_read(&l->deleting);
	bool sent = ledger_try(l->ledger, &x, &wait->id);
	int rc = sent ? send_one(l, &x, wait) : -1;
	if (rc >= 0 && below(random, 3))
		tsdb_flush(l->k.db);
	rwlock_unlock(&l->deleting);
	if (rc < 0)
		atomic_fetch_add(&l->refused, sent);
}

static void *append_thread(void *arg)
{
	struct life *l = arg;
	unsigned writer = atomic_fetch_add(&l->writers, 1);
	uint64_t random = hash_u64(l->seed ^ (uint64_t)(uintptr_t)pthread_self());
	for (int i = 0; i < BATCHES; i++)
		append_one(l, writer, &random);
	tsdb_flush(l->k.db);
	atomic_fetch_sub(&l->running, 1);
	return NULL;
}

static void *query_thread(void *arg)
{
	struct life *l = arg;
	uint64_t random = l->seed + 77;
	while (atomic_load(&l->running)) {
		struct err e = { 0 };
		int64_t until = atomic_load(&l->now_ms) - (int64_t)below(&random, (uint64_t)(30 * HOUR));
		if (below(&random, 2))
			until = until / HOUR * HOUR;
		int64_t after = until - (int64_t)below(&random, (uint64_t)(30 * HOUR));
		rwlock_read(&l->deleting); /* a view that is open may see part of what is deleted, or not */
		int rc = check_range(l, after, until, l->kind->reads, &e);
		rwlock_unlock(&l->deleting);
		atomic_fetch_add(&l->queries, 1);
		if (rc && rc != -ERR_IO && rc != -ERR_CORRUPT && !(rc == -ERR_NOT_FOUND && (l->kind->reads || is_rotten())))
			die("a query failed: %s", e.msg);
		atomic_fetch_add(&l->query_errors, rc != 0);
	}
	return NULL;
}

static void delete_some(struct life *l, uint64_t *random)
{
	struct err e;
	char pod[8];
	struct matcher m;
	unsigned which = (unsigned)below(random, PODS);
	int64_t until = atomic_load(&l->now_ms) - (int64_t)below(random, (uint64_t)(20 * HOUR)), after = until - (int64_t)below(random, 2 * HOUR);
	snprintf(pod, sizeof pod, "pod-%u", which);
	if (matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e))
		abort();
	rwlock_write(&l->deleting); /* so that it is clear what was appended before */
	tsdb_flush(l->k.db);
	ledger_delete(l->ledger, which, after, until, DELETING);
	note("deleting of pod %u (%lld, %lld]", which, (long long)after, (long long)until);
	if (!tsdb_delete(l->k.db, &m, 1, after, until, NULL, &e)) {
		ledger_delete(l->ledger, which, after, until, DELETED);
		note("deleted of pod %u (%lld, %lld]", which, (long long)after, (long long)until);
	}
	rwlock_unlock(&l->deleting);
	matcher_release(&m);
}

/* Seals and uploads. When it returns 0, the bucket has all rows that were acknowledged before the call, and all deletes that were made before it. */
static void upload_all(struct life *l)
{
	struct err e;
	VEC(uint32_t) ids = { 0 };
	tsdb_flush(l->k.db);
	for (uint32_t i = 0; i < ledger_n(l->ledger); i++) {
		struct ledger_entry x = ledger_get(l->ledger, i);
		if (!x.up && (x.state == ACKED || x.state == DELETED))
			vec_push(&ids, i);
	}
	if (!tsdb_seal(l->k.db, true, &e) && !tsdb_upload(l->k.db, &e))
		for (size_t i = 0; i < ids.n; i++)
			ledger_up(l->ledger, ids.v[i]);
	vec_free(&ids);
}

/* Seals and all else that changes files beside the appends. Any of it may fail when files do. */
static void *upkeep_thread(void *arg)
{
	struct life *l = arg;
	uint64_t random = l->seed + 99;
	struct err e;
	while (atomic_load(&l->running)) {
		uint64_t what = below(&random, 100);
		if (what < 25 && l->bucket)
			upload_all(l);
		else if (what < 50)
			IGNORE(tsdb_seal(l->k.db, below(&random, 3) == 0, &e)); /* faults are injected */
		else if (what < 60)
			delete_some(l, &random);
		else if (what < 70)
			IGNORE(tsdb_clean(l->k.db, &e)); /* faults are injected */
		else if (what < 80)
			IGNORE(tsdb_retain(l->k.db, &e)); /* faults are injected */
		else
			clock_sleep_ms((int)below(&random, 8));
	}
	return NULL;
}

static void open_kit(struct life *l, const char *dir)
{
	AUTOFREE char *storage = xasprintf("%s/" LIFE_STORAGE, dir);
	kit_set(&l->k, l->bucket ? storage : dir);
	if (l->bucket) {
		life_bucket_open(l->bucket, xasprintf("%s/" LIFE_BUCKET, dir)); /* for as long as the process */
		l->k.o.objects = bucket_objects(l->bucket->bucket);
		l->k.o.objects_stop = &l->bucket->stop;
		l->k.o.server_id = "torture";
		l->k.o.no_transfer = true;
	}
	l->k.o.now_ms = now_of;
	l->k.o.now_arg = l;
	l->k.o.retention_ms = RETENTION;
	l->k.o.no_sealing = true; /* the upkeep thread does it */
	l->k.o.keep_aggregates = true;
	l->k.o.cache_bytes = 1 << 20; /* so that reads reach the files */
}

/* Time goes on where the last life left it. */
static void restore_clock(struct life *l)
{
	int64_t now = KIT_T0 + HOUR;
	for (uint32_t i = 0; i < ledger_n(l->ledger); i++)
		now = MAX(now, ledger_get(l->ledger, i).t_ms);
	atomic_init(&l->now_ms, now + 1000);
}

static void check_all(struct life *l, bool accept)
{
	struct err e = { 0 };
	if (check_range(l, 0, INT64_MAX, accept, &e) && !is_rotten() && !(accept && lost_records(l)))
		die("cannot be read: %s", e.msg);
	check_notes(l, accept);
}

static void check_seals(struct life *l)
{
	struct err e = { 0 };
	for (int tries = 0; tries < 20; tries++)
		if (!tsdb_seal(l->k.db, true, &e))
			return;
	die("the faults are over and nothing can be sealed: %s", e.msg);
}

/* The faults are over: it takes appends again, seals, and has all that it said it has. */
static void check_recovery(struct life *l, uint64_t *random)
{
	arm(NULL);
	for (int tries = 0; tries < 100; tries++) {
		unsigned long before = atomic_load(&l->acknowledged);
		append_one(l, WRITERS - 1, random);
		tsdb_flush(l->k.db);
		if (atomic_load(&l->acknowledged) > before) {
			check_seals(l);
			check_all(l, l->kind->reads);
			return;
		}
		clock_sleep_ms(100);
	}
	die("the faults are over for 10 s and appends are still refused");
}

/* The number that the file dir/file has where `form` (of scanf) expects it; 0: there is no such file, or no number. */
static uint64_t number_in(const char *dir, const char *file, const char *form)
{
	AUTOFREE char *name = xasprintf("%s/%s", dir, file);
	unsigned long long n = 0;
	FILE *f = fopen(name, "re");
	if (f) {
		if (fscanf(f, form, &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}

/* The highest number of a record that head.marks or head.end knows. */
static uint64_t synced_mark(const char *dir)
{
	return MAX(number_in(dir, "head.marks", "pyrrha-head-marks 1\nsynced %llu"), number_in(dir, "head.end", "pyrrha-head-extents 1\nseen %llu"));
}

/* What was acknowledged after the last mark may be lost unsaid (which is that of head.end after a kill, and may be that of head.marks after a power loss) when the log itself is read wrong: the storage cannot know
 * that there was more. */
static void excuse_tail(struct life *l, uint64_t synced)
{
	for (uint32_t i = 0; i < ledger_n(l->ledger); i++) {
		struct ledger_entry x = ledger_get(l->ledger, i);
		if (x.state == ACKED && x.record > synced)
			ledger_set(l->ledger, i, LOST);
	}
}

static bool is_beside(const char *dir, const char *suffix)
{
	AUTOFREE char *name = xasprintf("%s%s", dir, suffix);
	return access(name, F_OK) == 0;
}

/* An empty disk in place of one that was lost: all that was in the bucket is there again. */
static void check_return(struct life *l, const char *dir)
{
	AUTOFREE char *name = xasprintf("%s" LIFE_LOST, dir);
	if (!l->lost)
		return;
	if (!life_bucket_fetch(l->k.db))
		die("days do not come back from the bucket");
	check_all(l, false);
	l->lost = false;
	unlink(name);
}

static void say_where(int signal)
{
	void *at[40];
	static const char text[] = "torture: aborted at\n";
	if (write(2, text, sizeof text - 1) > 0)
		backtrace_symbols_fd(at, backtrace(at, 40), 2);
	(void)signal;
}

static void live(struct life *l)
{
	pthread_t t[4];
	void *(*const start[4])(void *) = { append_thread, append_thread, query_thread, upkeep_thread };
	atomic_init(&l->running, 2);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&t[i], NULL, start[i], l))
			die("no thread");
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
}

int life_live(const char *dir, const char *ledger, const struct kind *kind, uint64_t seed)
{
	struct life_bucket bucket;
	struct life l = { .kind = kind, .seed = seed, .bucket = getenv("TORTURE_BUCKET") ? &bucket : NULL, .lost = is_beside(dir, LIFE_LOST),
			  .was_lost = is_beside(dir, LIFE_WAS_LOST) };
	struct err e = { 0 };
	uint64_t random = hash_u64(seed);
	char spec[128];
	*(void **)&arm = dlsym(RTLD_DEFAULT, "faults_arm");
	if (!arm)
		die("the fault layer is not loaded");
	signal(SIGABRT, say_where);
	rwlock_init(&l.deleting, LOCK_ANY, "test");
	mutex_init(&l.sent_lock, LOCK_ANY, "test");
	l.ledger = ledger_open(ledger);
	restore_clock(&l);
	open_kit(&l, dir);
	if (getenv("FAULTS_TRACE"))
		log_setup(LOG_LEVEL_DEBUG, LOG_FORMAT_LOGFMT);
	unsigned long most = l.bucket ? BUCKET_CHANGES * l.kind->most : l.kind->most;
	snprintf(spec, sizeof spec, l.kind->faults, 1 + (unsigned long)below(&random, most));
	if (l.kind->faults2) {
		size_t n = strlen(spec);
		spec[n++] = ',';
		snprintf(spec + n, sizeof spec - n, l.kind->faults2, 1 + (unsigned long)below(&random, 3 * l.kind->most));
	}
	bool early = below(&random, 4) == 0; /* the opening is hit */
	if (early) {
		char *colon = strchr(spec, ':');
		if (!l.kind->faults2 && !below(&random, 2))
			snprintf(colon + 1, 20, "%lu", 1 + (unsigned long)below(&random, 30));
		if (l.kind->reads)
			excuse_tail(&l, synced_mark(dir));
		arm(spec);
	}
	if (tsdb_open(&l.k.db, &l.k.o, &e)) {
		if (!early || l.kind->kills)
			die("the start is refused: %s", e.msg);
		printf("refused: %s\n", e.msg);
		ledger_close(l.ledger);
		return 0;
	}
	struct tsdb_stats stats;
	tsdb_stats(l.k.db, &stats);
	printf("lost %llu\n", (unsigned long long)stats.lost_records);
	fflush(NULL);
	if (stats.holes && l.kind->kills && !is_rotten() && !l.was_lost)
		die("nothing is lost, and answers about %llu ranges of time say so", (unsigned long long)stats.holes);
	check_return(&l, dir);
	if (!early || l.kind->kills)
		check_all(&l, false);
	if (!early)
		arm(spec);
	live(&l);
	if (!l.kind->dies)
		check_recovery(&l, &random);
	arm(NULL);
	if (l.bucket && life_bucket_fetch(l.k.db))
		life_bucket_check_orphans(l.bucket, l.k.db);
	printf("acknowledged %lu, refused %lu, queries %lu, of them failed %lu\n", atomic_load(&l.acknowledged),
	       atomic_load(&l.refused), atomic_load(&l.queries), atomic_load(&l.query_errors));
	fflush(NULL);
	if (below(&random, 2))
		raise(SIGKILL);
	if (tsdb_close(l.k.db, &e))
		die("cannot be closed: %s", e.msg);
	if (l.bucket)
		life_bucket_close(l.bucket);
	ledger_close(l.ledger);
	for (size_t i = 0; i < l.sent.n; i++)
		free(l.sent.v[i]);
	vec_free(&l.sent);
	return 0;
}
