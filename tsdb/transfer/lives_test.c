/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of storages and one bucket, at random, against a model: a list of what each disk was acknowledged. Requests fail, disks are lost,
 * die at a request, are copied and come back later, two have one id, clocks are wrong, files of the catalogue and of parts are damaged. The bucket is away,
 * full or read-only for hours, answers arrive half, lists are stale, puts arrive after their time-out. Always: what was sealed and uploaded is there
 * exactly once, what was deleted stays away, names that came late stay, and in the end the bucket has nothing that no generation names.
 *
 * PYRRHA_LONG=1: a thousand lives. PYRRHA_LIVES=N, PYRRHA_SEED=N: that many, from that one on. The storages are below $TMPDIR, else in
 * /dev/shm, where syncing costs nothing, else in /tmp. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files.h"
#include "base/log.h"
#include "base/num.h"
#include "base/vec.h"
#include "tsdb/bucket/generation.h"
#include "tsdb/bucketkit.h"
#include "tsdb/testkit.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define PODS 4
#define FLOATS PODS /* the "pod" of the rows of a float series */
#define NAMELESS (PODS + 1) /* of profiles without names of functions */
#define LATE "late:samples:count:cpu:nanoseconds:delta" /* the type of these, and of those that bring the names */
#define STACKS 12
#define DISKS 3
#define STEPS 24
#define RETENTION (4 * DAY)

enum row_state {
	FRESH,   /* acknowledged; in windows */
	SEALED,  /* in parts */
	UP,      /* in a generation for sure */
	DELETED, /* no upload has ended since the delete: if the disk is lost, the row may come back */
	UNSURE   /* the disk died while it was deleted */
};

struct row {
	unsigned pod;
	int64_t t_ms;
	uint64_t seed;
	enum row_state state, was;      /* was: before it was UNSURE */
	bool seen;
	bool named, named_up;           /* of NAMELESS: its functions have had names; they had when an upload was complete */
};

/* A directory, and what it has to hold. */
struct disk {
	struct kit k;
	char id[SERVER_ID_MAX + 1];     /* under which it was seen last */
	char wanted[SERVER_ID_MAX + 1];
	VEC(struct row) rows;
	bool is_open;
	bool writes;                    /* it has taken an epoch since it was opened */
	bool superseded;                /* another disk has taken its id */
	bool notes_damaged;             /* its notes of the bucket were damaged, and no upload was complete since */
};

struct world {
	struct bucketkit b;
	struct disk *disks[DISKS];
	uint64_t random, life, trace;
	int64_t now_ms;
	int64_t off_ms;                 /* by which the clock of the disks is wrong; that of the bucket is right */
	int64_t retention_ms;
	/* Faults: at request fault_at (counted down) and some behind it. */
	int64_t fault_at, fault_count, fault_kind;
	enum bucketkit_fault weather;   /* what each request meets: BUCKETKIT_NONE, _REFUSE (away), _DENY (read-only), _FULL */
	char folder[200];               /* of the disks */
	int64_t crash_at;               /* at this request the disk dies: an image of it is kept, and nothing reaches the bucket any more */
	struct disk *dying;
	char image[300];
};

static uint64_t below(struct world *w, uint64_t n)
{
	return kit_random(&w->random) % n;
}

__attribute__((format(printf, 2, 3))) static void trace(struct world *w, const char *f, ...)
{
	va_list args;
	if (!w->trace)
		return;
	va_start(args, f);
	vfprintf(stderr, f, args);
	va_end(args);
	fputc('\n', stderr);
}

static int64_t world_now(void *arg)
{
	struct world *w = arg;
	return w->now_ms + w->off_ms;
}

static int64_t store_now(void *arg)
{
	return ((struct world *)arg)->now_ms;
}

static void run_shell(const char *command)
{
	pid_t pid = fork();
	int status = 0;
	if (!pid) {
		execlp("sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
}

static void copy_dir(const char *from, const char *to)
{
	AUTOFREE char *command = xasprintf("rm -rf '%s'; cp -a '%s' '%s'", to, from, to);
	run_shell(command);
}

/* ---- faults ---- */

/* What a fault is to an operation. */
static enum bucketkit_fault fault_of(enum bucketkit_fault f, enum bucketkit_op op)
{
	bool changes = op == BUCKETKIT_PUT || op == BUCKETKIT_REMOVE;
	switch (f) {
	case BUCKETKIT_DENY:
		return changes ? f : BUCKETKIT_NONE;
	case BUCKETKIT_FULL:
		return op == BUCKETKIT_PUT ? f : BUCKETKIT_NONE;
	case BUCKETKIT_LATE:
		return changes ? f : BUCKETKIT_REFUSE;
	case BUCKETKIT_STALE:
		return op == BUCKETKIT_LIST ? f : BUCKETKIT_NONE;
	case BUCKETKIT_FLIP:
	case BUCKETKIT_CUT:
		return op == BUCKETKIT_GET ? f : BUCKETKIT_REFUSE;
	default:
		return f;
	}
}

static enum bucketkit_fault world_fault(void *arg, enum bucketkit_op op, const char *key)
{
	struct world *w = arg;
	(void)key;
	if (w->crash_at && --w->crash_at == 0) {
		copy_dir(w->dying->k.dir, w->image);
		w->crash_at = -1;
		return fault_of((const enum bucketkit_fault[]){ BUCKETKIT_REFUSE, BUCKETKIT_LOSE_ANSWER, BUCKETKIT_LATE }[below(w, 3)], op);
	}
	if (w->crash_at < 0)
		return BUCKETKIT_REFUSE;
	if (w->weather)
		return fault_of(w->weather, op);
	if (!w->fault_at || --w->fault_at > 0)
		return BUCKETKIT_NONE;
	w->fault_at = w->fault_count-- > 0;
	return fault_of((enum bucketkit_fault)w->fault_kind, op);
}

static void world_arm(struct world *w)
{
	w->fault_at = below(w, 3) ? 0 : 1 + (int64_t)below(w, 25);
	w->fault_count = below(w, 2) ? 0 : (int64_t)below(w, 10);
	w->fault_kind = 1 + (int64_t)below(w, BUCKETKIT_CUT);
	if (w->fault_kind == BUCKETKIT_FLIP) /* more than this is damage */
		w->fault_count = MIN(w->fault_count, 1);
	if (w->fault_kind == BUCKETKIT_STALE) /* nothing else shows that it was */
		w->fault_count = 25;
	if (w->fault_at)
		trace(w, "  fault %d at %d, and %d more", (int)w->fault_kind, (int)w->fault_at, (int)w->fault_count);
}

static void world_disarm(struct world *w)
{
	w->fault_at = 0;
}

/* ---- disks ---- */

static struct disk *disk_new(struct world *w, const char *wanted)
{
	struct disk *d = NEW(struct disk);
	char dir[256];
	snprintf(dir, sizeof dir, "%s/disk-XXXXXX", w->folder);
	assert_non_null(mkdtemp(dir));
	kit_set(&d->k, dir);
	snprintf(d->wanted, sizeof d->wanted, "%s", wanted);
	d->k.o.objects = &w->b.objects;
	d->k.o.server_id = d->wanted;
	d->k.o.no_transfer = true;
	d->k.o.no_sealing = true;
	d->k.o.keep_aggregates = true;
	d->k.o.cache_bytes = 1 << 20;
	d->k.o.retention_ms = w->retention_ms;
	d->k.o.grace_ms = HOUR;
	d->k.o.now_ms = world_now;
	d->k.o.now_arg = w;
	return d;
}

static void disk_free(struct disk *d)
{
	if (!d)
		return;
	kit_free(&d->k);
	vec_free(&d->rows);
	free(d);
}

static void disk_status(struct disk *d, struct admin_bucket *s)
{
	struct storage_admin *a = tsdb_admin(d->k.db);
	a->bucket(a, s);
	if (!s->state)
		s->state = "none";
}

static bool disk_has_up(const struct disk *d, const struct row *x)
{
	for (size_t i = 0; i < d->rows.n; i++)
		if (d->rows.v[i].pod == x->pod && d->rows.v[i].t_ms == x->t_ms && d->rows.v[i].seed == x->seed)
			return true;
	return false;
}

/* It has taken an epoch: others of its id write no more, and have nothing in the bucket that it lacks. */
static void disk_supersede(struct world *w, struct disk *d)
{
	d->superseded = false;
	for (int i = 0; i < DISKS; i++) {
		struct disk *o = w->disks[i];
		if (!o || o == d || strcmp(o->id, d->id))
			continue;
		for (size_t k = 0; k < o->rows.n; k++)
			if (o->rows.v[k].state == UP && !o->superseded && !disk_has_up(d, &o->rows.v[k]))
				fail_msg("life %llu: a disk goes on as %s without what that has in the bucket", (unsigned long long)w->life, d->id);
		o->superseded = true;
	}
}

/* The bucket has nothing of it under its id. */
static void disk_note_down(struct disk *d)
{
	for (size_t i = 0; i < d->rows.n; i++) {
		struct row *r = &d->rows.v[i];
		r->state = r->state == UP ? SEALED : r->state;
		r->was = r->was == UP ? SEALED : r->was;
		r->named_up = false;
	}
}

/* It may have another id than before. */
static void disk_note_id(struct world *w, struct disk *d)
{
	struct admin_bucket s;
	disk_status(d, &s);
	if (!s.id[0] || strcmp(s.state, "writing") || d->writes)
		return;
	if (d->id[0] && strcmp(d->id, s.id)) {
		trace(w, "  %s goes on as %s", d->id, s.id);
		disk_note_down(d);
	}
	snprintf(d->id, sizeof d->id, "%s", s.id);
	d->writes = true;
	disk_supersede(w, d);
}

static bool disk_open(struct world *w, struct disk *d)
{
	struct err e;
	d->k.o.path = d->k.dir;
	if (tsdb_open(&d->k.db, &d->k.o, &e)) {
		trace(w, "  open: %s", e.msg);
		d->k.db = NULL;
		return false;
	}
	d->is_open = true;
	d->writes = false;
	disk_note_id(w, d);
	struct admin_bucket s;
	disk_status(d, &s);
	trace(w, "  opened as %s, %s, %u days, %u absent", s.id, s.state, (unsigned)s.days, (unsigned)s.absent_days);
	return true;
}

static void disk_close(struct disk *d)
{
	if (d->is_open)
		kit_close(&d->k);
	d->is_open = false;
}

/* ---- what is there ---- */

static struct row *disk_find(struct disk *d, unsigned pod, int64_t t_ms)
{
	for (size_t i = 0; i < d->rows.n; i++)
		if (d->rows.v[i].pod == pod && d->rows.v[i].t_ms == t_ms)
			return &d->rows.v[i];
	return NULL;
}

static void row_seen(struct world *w, struct disk *d, unsigned pod, int64_t t_ms, int64_t total, bool returned)
{
	struct row *r = disk_find(d, pod, t_ms);
	if (!r)
		fail_msg("life %llu: pod %u has a row at %lld that is not of this disk", (unsigned long long)w->life, pod, (long long)t_ms);
	if (r->seen)
		fail_msg("life %llu: pod %u has its row at %lld twice", (unsigned long long)w->life, pod, (long long)t_ms);
	if (r->state == DELETED && !returned)
		fail_msg("life %llu: the row of pod %u at %lld was deleted and is back", (unsigned long long)w->life, pod, (long long)t_ms);
	int64_t want = pod == FLOATS ? (int64_t)r->seed : kit_profile_total(r->seed, STACKS);
	if (total != want)
		fail_msg("life %llu: the row of pod %u at %lld has %lld, not %lld", (unsigned long long)w->life, pod, (long long)t_ms, (long long)total,
			 (long long)want);
	r->seen = true;
	if (r->state == UNSURE)
		r->state = r->was;
}

static struct source_view *select_named(struct disk *d, const char *name, struct source_series **ret, size_t *n)
{
	struct err e;
	struct source_view *v;
	struct matcher m;
	assert_int_equal(tsdb_source(d->k.db)->open(tsdb_source(d->k.db), &v, &e), 0);
	assert_int_equal(matcher_init(&m, MATCH_EQ, VIEW(LABEL_NAME), view_of(name), &e), 0);
	if (v->ops->select(v, &m, 1, 0, INT64_MAX / 2, NULL, ret, n, &e))
		fail_msg("%s", e.msg);
	matcher_release(&m);
	return v;
}

static void see_profiles(struct world *w, struct disk *d, bool cpu, bool returned)
{
	struct source_series *s;
	struct source_profile *p;
	size_t n, n_p;
	struct err e;
	struct source_view *v = select_named(d, cpu ? KIT_CPU : KIT_SAMPLES, &s, &n);
	for (size_t i = 0; i < n; i++) {
		struct view pod = labels_get(s[i].labels, VIEW("pod"));
		assert_int_equal(pod.len, 5);
		if (v->ops->profiles(v, s[i].ref, 0, INT64_MAX / 2, NULL, &p, &n_p, &e))
			fail_msg("life %llu: %s", (unsigned long long)w->life, e.msg);
		for (size_t k = 0; k < n_p; k++)
			row_seen(w, d, (unsigned)(pod.ptr[4] - '0'), p[k].t_ms, cpu ? p[k].total / KIT_PERIOD : p[k].total, returned);
		free(p);
	}
	free(s);
	v->ops->release(v);
}

static int function_is_f7(const void *arg, const struct symbols *s, const struct sym_location *l, uint32_t line, struct err *e)
{
	(void)arg;
	(void)e;
	uint32_t f = line < l->n_lines ? symbols_get_line(s, l, line)->function : 0;
	return f && view_eqs(symbols_get_string(s, symbols_get_function(s, f - 1)->name), "main.f7");
}

/* Where main.f7 has something in a profile, it has it there when names have come. */
static void see_name(struct world *w, struct disk *d, struct source_view *v, const struct source_series *s, int64_t t_ms, bool returned)
{
	struct source_part part = { .ref = s->ref, .after_ms = t_ms - 1, .until_ms = t_ms, .scale = 1 };
	const struct source_frame_filter f = { function_is_f7, NULL, false };
	struct row *r = disk_find(d, NAMELESS, t_ms);
	struct err e;
	double sum;
	int64_t of;
	if (v->ops->sums(v, &part, 1, 1, &f, NULL, &sum, &of, &e))
		fail_msg("life %llu: %s", (unsigned long long)w->life, e.msg);
	if (returned)
		r->named &= r->named_up;
	if (r->named && !of)
		fail_msg("life %llu: the profile at %lld has lost its names", (unsigned long long)w->life, (long long)t_ms);
	r->named |= of != 0;
}

static void see_nameless(struct world *w, struct disk *d, bool returned)
{
	struct source_series *s;
	struct source_profile *p;
	size_t n, n_p;
	struct err e;
	struct source_view *v = select_named(d, LATE, &s, &n);
	for (size_t i = 0; i < n; i++) {
		if (!view_eqs(labels_get(s[i].labels, VIEW("pod")), "nameless"))
			continue;
		if (v->ops->profiles(v, s[i].ref, 0, INT64_MAX / 2, NULL, &p, &n_p, &e))
			fail_msg("life %llu: %s", (unsigned long long)w->life, e.msg);
		for (size_t k = 0; k < n_p; k++) {
			row_seen(w, d, NAMELESS, p[k].t_ms, p[k].total, returned);
			see_name(w, d, v, &s[i], p[k].t_ms, returned);
		}
		free(p);
	}
	free(s);
	v->ops->release(v);
}

static void see_floats(struct world *w, struct disk *d, bool returned)
{
	struct source_series *s;
	struct point *p;
	size_t n, n_p;
	struct err e;
	struct source_view *v = select_named(d, "up", &s, &n);
	for (size_t i = 0; i < n; i++) {
		if (v->ops->floats(v, s[i].ref, 0, INT64_MAX / 2, NULL, &p, &n_p, &e))
			fail_msg("life %llu: %s", (unsigned long long)w->life, e.msg);
		for (size_t k = 0; k < n_p; k++)
			row_seen(w, d, FLOATS, p[k].t_ms, (int64_t)p[k].v, returned);
		free(p);
	}
	free(s);
	v->ops->release(v);
}

static bool row_is_kept(const struct world *w, const struct row *r)
{
	return w->retention_ms < 0 || (r->t_ms / DAY + 1) * DAY > w->now_ms - w->retention_ms;
}

/* Unseen rows are lost: of a disk that was lost all but those in a generation may be. */
static void check_unseen(struct world *w, struct disk *d, bool returned)
{
	size_t n = 0;
	for (size_t i = 0; i < d->rows.n; i++) {
		struct row r = d->rows.v[i];
		bool must = r.state == UP || (r.state != DELETED && r.state != UNSURE && !returned);
		if (!r.seen && must && row_is_kept(w, &r))
			fail_msg("life %llu: the row of pod %u at %lld (day %u, state %d) is lost", (unsigned long long)w->life, r.pod, (long long)r.t_ms,
				 (unsigned)(r.t_ms / DAY), r.state);
		if (r.seen && returned && r.state != FRESH)
			r.state = UP;
		r.seen = false;
		if (r.state == UNSURE) /* else row_seen knows what it is */
			r.state = DELETED;
		if (d->rows.v[i].seen || (r.state == DELETED && !returned))
			d->rows.v[n++] = r;
	}
	d->rows.n = n;
}

static void check_rows(struct world *w, struct disk *d, bool returned)
{
	uint64_t sum = 0;
	struct admin_bucket s;
	tsdb_flush(d->k.db);
	disk_status(d, &s);
	if (s.absent_days && !returned)
		return; /* the bucket has been away since the day began to be absent */
	see_profiles(w, d, false, returned);
	see_floats(w, d, returned);
	see_nameless(w, d, returned);
	check_unseen(w, d, returned);
	see_profiles(w, d, true, false);
	for (size_t i = 0; i < d->rows.n; i++) {
		if (d->rows.v[i].seen && d->rows.v[i].pod < PODS)
			sum += kit_profile_sum(d->rows.v[i].seed, STACKS, true);
		d->rows.v[i].seen |= d->rows.v[i].pod >= FLOATS && d->rows.v[i].state != DELETED;
	}
	check_unseen(w, d, false);
	if (kit_merge(&d->k, KIT_CPU, 0, INT64_MAX / 2, NULL) != sum)
		fail_msg("life %llu: a merge is not the sum of its profiles", (unsigned long long)w->life);
}

/* ---- steps ---- */

/* A profile of a program that is known by a build id, with names or without. */
static int append_late(struct disk *d, bool named, int64_t t_ms, uint64_t seed, struct sink_result *r)
{
	struct profile p;
	struct err e;
	kit_profile(&p, seed, STACKS);
	p.mappings[0].build_id_str = 5;
	for (uint32_t i = 0; i < p.n_locations && !named; i++)
		p.locations[i].n_lines = 0;
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(LATE) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), named ? VIEW("named") : VIEW("nameless") } };
	struct sink_column c = { .labels = { l, ARRAY_LEN(l) } };
	assert_true(ptype_parse(VIEW(LATE), &c.type));
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	int rc = tsdb_sink(d->k.db)->append(tsdb_sink(d->k.db), &b, r, &e);
	profile_release(&p);
	return rc;
}

static void append_row(struct world *w, struct disk *d, unsigned pod, int64_t t_ms)
{
	struct sink_result r = { 0 };
	uint64_t seed = pod == FLOATS ? 1 + below(w, 1000) : kit_random(&w->random) >> 8;
	if (disk_find(d, pod, t_ms))
		return;
	int rc = pod == FLOATS ? kit_append_float(&d->k, "up", t_ms, (double)seed, &r) :
		 pod == NAMELESS ? append_late(d, false, t_ms, seed, &r) : kit_append(&d->k, pod, t_ms, seed, STACKS, &r);
	assert_int_equal(rc, 0);
	if (pod == FLOATS ? r.floats : r.profiles)
		vec_push(&d->rows, (struct row){ .pod = pod, .t_ms = t_ms, .seed = seed, .state = FRESH });
}

static void step_append(struct world *w, struct disk *d)
{
	int64_t step = 5 * MINUTE + (int64_t)below(w, 3) * 20 * MINUTE;
	for (uint64_t n = 1 + below(w, 6); n; n--) {
		w->now_ms += step;
		for (unsigned pod = 0; pod < PODS; pod++)
			if (below(w, 3))
				append_row(w, d, pod, world_now(w) - (int64_t)below(w, 3000));
		append_row(w, d, FLOATS, world_now(w));
	}
	tsdb_flush(d->k.db);
}

static void step_append_late(struct world *w, struct disk *d)
{
	int64_t back = (int64_t)below(w, (uint64_t)(3 * DAY));
	for (uint64_t n = 1 + below(w, 4); n; n--)
		append_row(w, d, (unsigned)below(w, PODS), w->now_ms - back - (int64_t)(n * 70001));
	tsdb_flush(d->k.db);
}

static void disk_seal(struct world *w, struct disk *d)
{
	struct err e;
	tsdb_flush(d->k.db);
	if (tsdb_seal(d->k.db, true, &e))
		fail_msg("life %llu: seal: %s", (unsigned long long)w->life, e.msg);
	for (size_t i = 0; i < d->rows.n; i++)
		if (d->rows.v[i].state == FRESH)
			d->rows.v[i].state = SEALED;
}

/* Names of what is stored without: of now, or of days ago. */
static void step_names(struct world *w, struct disk *d)
{
	struct sink_result r = { 0 };
	struct err e;
	int64_t back = below(w, 2) ? 0 : (int64_t)below(w, (uint64_t)(3 * DAY));
	trace(w, "  late names, %lld h back", (long long)(back / HOUR));
	for (uint64_t n = 1 + below(w, 3); n; n--)
		append_row(w, d, NAMELESS, world_now(w) - back - (int64_t)(n * 90007));
	tsdb_flush(d->k.db);
	if (below(w, 2))
		disk_seal(w, d);
	if (below(w, 3))
		assert_int_equal(append_late(d, true, world_now(w) - (int64_t)below(w, 1000), kit_random(&w->random) >> 8, &r), 0);
	tsdb_flush(d->k.db);
	if (tsdb_resolve_names(d->k.db, &e))
		fail_msg("life %llu: late names: %s", (unsigned long long)w->life, e.msg);
}

static int disk_upload(struct world *w, struct disk *d)
{
	struct err e = { 0 };
	size_t n = 0;
	bool any = false;
	int rc = tsdb_upload(d->k.db, &e);
	trace(w, "  upload: %s", rc ? e.msg : "ok");
	disk_note_id(w, d);
	if (rc)
		return rc;
	d->notes_damaged = false;
	for (size_t i = 0; i < d->rows.n; i++) {
		struct row r = d->rows.v[i];
		any |= r.state == SEALED;
		r.state = r.state == SEALED ? UP : r.state;
		r.named_up |= r.named && r.state == UP;
		if (r.state != DELETED)
			d->rows.v[n++] = r;
	}
	d->rows.n = n;
	if (any && d->superseded)
		fail_msg("life %llu: two disks write as %s", (unsigned long long)w->life, d->id);
	return 0;
}

/* All days are on the disk. False: the bucket does not want to. */
static bool disk_fetch(struct world *w, struct disk *d)
{
	struct admin_bucket s;
	for (int i = 0; i < 40; i++) {
		disk_status(d, &s);
		if (!s.absent_days)
			return true;
		int rc = tsdb_upload(d->k.db, &(struct err){ 0 });
		disk_note_id(w, d);
		if (rc && d->superseded)
			return false;
	}
	return false;
}

static void disk_forget_deleted(struct disk *d)
{
	size_t n = 0;
	for (size_t i = 0; i < d->rows.n; i++)
		if (d->rows.v[i].state != DELETED)
			d->rows.v[n++] = d->rows.v[i];
	d->rows.n = n;
}

/* What a delete is about. */
struct deletion {
	bool day;            /* all of a day; else one pod, within six hours */
	unsigned pod;
	int64_t after, until;
};

static bool deletion_has(const struct deletion *x, const struct row *r)
{
	return (x->day || (r->pod == x->pod && r->pod != FLOATS)) && r->t_ms > x->after && r->t_ms <= x->until;
}

static struct deletion deletion_pick(struct world *w)
{
	struct deletion x = { .day = below(w, 3) == 0, .pod = (unsigned)below(w, NAMELESS + 1) };
	x.until = w->now_ms - (int64_t)below(w, (uint64_t)(2 * DAY));
	x.after = x.until - (int64_t)below(w, (uint64_t)(6 * HOUR));
	if (x.day) {
		x.after = x.until / DAY * DAY - 1;
		x.until = x.after + DAY;
	}
	return x;
}

static int deletion_make(struct world *w, struct disk *d, const struct deletion *x)
{
	struct matcher m;
	struct err e = { 0 };
	char pod[16];
	snprintf(pod, sizeof pod, x->pod == NAMELESS ? "nameless" : "pod-%u", x->pod);
	trace(w, "  delete %s of (%lld, %lld]", x->day ? "all" : pod, (long long)x->after, (long long)x->until);
	assert_int_equal(x->day ? matcher_init(&m, MATCH_RE, VIEW("job"), VIEW(".+"), &e) : matcher_init(&m, MATCH_EQ, VIEW("pod"), view_of(pod), &e), 0);
	int rc = tsdb_delete(d->k.db, &m, 1, x->after, x->until, NULL, &e);
	matcher_release(&m);
	if (rc && w->crash_at >= 0)
		fail_msg("life %llu: delete: %s", (unsigned long long)w->life, e.msg);
	return rc;
}

static void step_delete(struct world *w, struct disk *d)
{
	struct err e;
	struct admin_bucket s;
	struct deletion x = deletion_pick(w);
	if (d->superseded || (below(w, 2) && !disk_fetch(w, d)))
		return;
	IGNORE(deletion_make(w, d, &x));
	for (size_t i = 0; i < d->rows.n; i++)
		if (deletion_has(&x, &d->rows.v[i]))
			d->rows.v[i].state = DELETED;
	disk_status(d, &s);
	if (!s.waiting_deletes && d->writes) /* it is in the bucket */
		disk_forget_deleted(d);
	if (below(w, 2) && tsdb_clean(d->k.db, &e))
		fail_msg("life %llu: clean: %s", (unsigned long long)w->life, e.msg);
}

static void step_upload(struct world *w, struct disk *d)
{
	if (below(w, 4))
		disk_seal(w, d);
	world_arm(w);
	IGNORE(disk_upload(w, d)); /* faults are injected */
	world_disarm(w);
}

/* The bucket may be away or fail meanwhile. */
static void step_restart(struct world *w, struct disk *d)
{
	disk_close(d);
	w->b.away = below(w, 5) == 0;
	world_arm(w);
	bool ok = disk_open(w, d);
	world_disarm(w);
	w->b.away = false;
	if (!ok && !disk_open(w, d))
		fail_msg("life %llu: it does not start", (unsigned long long)w->life);
}

/* It has died, if the request came, and what it had then is all that there is. */
static void crash_end(struct world *w, struct disk *d)
{
	bool died = w->crash_at < 0;
	disk_close(d);
	w->crash_at = 0;
	if (died)
		copy_dir(w->image, d->k.dir);
	trace(w, died ? "  it has died" : "  it has not died");
}

/* Dies in a delete, of which nobody knows then whether it was made. The next one that looks at all of it sees. */
static void crash_delete(struct world *w, struct disk *d)
{
	struct deletion x = deletion_pick(w);
	if (d->superseded)
		return;
	for (size_t i = 0; i < d->rows.n; i++) {
		struct row *r = &d->rows.v[i];
		if (!deletion_has(&x, r) || r->state == DELETED)
			continue;
		r->was = r->state;
		r->state = UNSURE;
	}
	w->crash_at = 1 + (int64_t)below(w, 2);
	IGNORE(deletion_make(w, d, &x));
	if (w->crash_at > 0) /* nobody has died */
		for (size_t i = 0; i < d->rows.n; i++)
			if (d->rows.v[i].state == UNSURE)
				d->rows.v[i].state = DELETED;
	crash_end(w, d);
	bucketkit_deliver(&w->b);
	step_restart(w, d);
	if (tsdb_upload(d->k.db, &(struct err){ 0 }))
		trace(w, "  and cannot upload");
	disk_note_id(w, d);
	if (disk_fetch(w, d))
		check_rows(w, d, false);
}

static void crash_upload(struct world *w, struct disk *d)
{
	if (below(w, 2))
		disk_seal(w, d);
	w->crash_at = 1 + (int64_t)below(w, 30);
	IGNORE(disk_upload(w, d));
	crash_end(w, d);
	step_restart(w, d);
}

static void crash_start(struct world *w, struct disk *d)
{
	disk_close(d);
	w->crash_at = 1 + (int64_t)below(w, 8);
	bool ok = disk_open(w, d);
	if (ok)
		IGNORE(disk_upload(w, d));
	crash_end(w, d);
	step_restart(w, d);
}

/* It dies at a request. */
static void step_crash(struct world *w, struct disk *d)
{
	uint64_t how = below(w, 8);
	w->dying = d;
	trace(w, "  dies in %s", how == 0 ? "a delete" : how < 3 ? "its start" : "an upload");
	if (how == 0)
		crash_delete(w, d);
	else if (how < 3)
		crash_start(w, d);
	else
		crash_upload(w, d);
}

/* Dies at a request of its start, or just behind it, and goes on with what it had. */
static void lose_die(struct world *w, struct disk *d)
{
	struct err e;
	w->dying = d;
	w->crash_at = 1 + (int64_t)below(w, 20);
	d->is_open = !tsdb_open(&d->k.db, &d->k.o, &e);
	for (int i = 0; i < 3 && d->is_open && w->crash_at > 0; i++)
		IGNORE(tsdb_upload(d->k.db, &e));
	crash_end(w, d);
}

/* An empty disk with that id. NULL: the bucket failed, and it did not get the id or did not start. */
static struct disk *lose_once(struct world *w, const char *id, bool dies)
{
	struct err e;
	struct admin_bucket s;
	struct disk *d = disk_new(w, id);
	d->k.o.path = d->k.dir;
	if (dies)
		lose_die(w, d);
	for (int i = 0; i < 3 && !d->is_open; i++)
		d->is_open = !tsdb_open(&d->k.db, &d->k.o, &e);
	if (d->is_open) {
		disk_status(d, &s);
		trace(w, "  back as %s, %s, %u days, %u absent", s.id, s.state, (unsigned)s.days, (unsigned)s.absent_days);
	} else {
		d->k.db = NULL;
		trace(w, "  does not come back: %s", e.msg);
	}
	if (d->is_open && dies && strcmp(s.state, "writing")) { /* its directory is not empty any more */
		IGNORE(tsdb_upload(d->k.db, &e));
		disk_status(d, &s);
	}
	if (d->is_open && !strcmp(s.id, id) && !strcmp(s.state, "writing")) {
		snprintf(d->id, sizeof d->id, "%s", id);
		d->writes = true;
		return d;
	}
	disk_free(d);
	return NULL;
}

/* An empty disk takes its place. */
static void step_lose(struct world *w, int at)
{
	struct disk *old = w->disks[at];
	struct admin_bucket s;
	disk_status(old, &s);
	if (strcmp(s.state, "writing") || old->superseded || s.absent_days)
		return;
	char id[SERVER_ID_MAX + 1];
	snprintf(id, sizeof id, "%s", old->id);
	trace(w, "  the disk of %s is lost", id);
	bool dies = below(w, 3) == 0;
	if (!dies)
		world_arm(w);
	struct disk *d = lose_once(w, id, dies);
	world_disarm(w);
	if (!d && !dies)
		d = lose_once(w, id, false);
	if (!d)
		fail_msg("life %llu: %s does not come back to an empty disk", (unsigned long long)w->life, id);
	for (size_t i = 0; i < old->rows.n; i++)
		if (old->rows.v[i].state != FRESH)
			vec_push(&d->rows, old->rows.v[i]);
	disk_free(old);
	w->disks[at] = d;
	if (below(w, 2))
		step_append(w, d);
	if (!disk_fetch(w, d))
		fail_msg("life %llu: days do not come back to an empty disk", (unsigned long long)w->life);
	check_rows(w, d, true);
}

static void lives_check(struct world *w, struct disk *d, bool returned)
{
	if (disk_fetch(w, d))
		check_rows(w, d, returned);
}

/* ---- the bucket ---- */

struct named {
	struct object_stamp stamp;
	uint32_t day;
};

/* Every object is an epoch, a fence, the newest generation of its day, or named by one. */
static void check_orphans(struct world *w, const char *id)
{
	VEC(struct generation) g = { 0 };
	struct err e;
	for (size_t i = 0; i < w->b.v.n; i++) {
		struct object_name n;
		assert_true(object_name_parse(w->b.v.v[i].key, &n));
		if (strcmp(n.id, id) || n.kind != 'g')
			continue;
		struct generation *x = vec_add(&g);
		if (generation_decode(x, view_make(w->b.v.v[i].bytes, w->b.v.v[i].n), w->b.v.v[i].key, &e))
			fail_msg("%s", e.msg);
	}
	for (size_t i = 0; i < g.n; i++)
		for (size_t k = 0; k < g.n; k++)
			if (i != k && g.v[i].kind != GENERATION_FENCE && g.v[k].kind != GENERATION_FENCE && g.v[i].day == g.v[k].day)
				fail_msg("life %llu: day %u of %s has two generations", (unsigned long long)w->life, g.v[i].day, id);
	for (size_t i = 0; i < w->b.v.n; i++) {
		struct object_name n;
		bool named = false;
		assert_true(object_name_parse(w->b.v.v[i].key, &n));
		if (strcmp(n.id, id) || n.kind != 'd')
			continue;
		for (size_t k = 0; k < g.n; k++)
			for (size_t p = 0; p <= g.v[k].parts.n && g.v[k].day == n.day; p++)
				named |= !object_stamp_cmp(n.stamp, p < g.v[k].parts.n ? g.v[k].parts.v[p].object.stamp : g.v[k].symbols.stamp);
		if (!named)
			fail_msg("life %llu: %s is an orphan", (unsigned long long)w->life, w->b.v.v[i].key);
	}
	for (size_t i = 0; i < g.n; i++)
		generation_release(&g.v[i]);
	vec_free(&g);
}

/* Every disk goes on until all is up, and comes back from the bucket alone. */
static void world_finish(struct world *w, int at)
{
	struct disk *d = w->disks[at];
	world_disarm(w);
	if (d->superseded || !d->is_open) {
		disk_close(d);
		if (!disk_open(w, d))
			fail_msg("life %llu: it does not start", (unsigned long long)w->life);
	}
	int rc = -1;
	for (int i = 0; i < 5 && rc; i++) {
		disk_seal(w, d);
		rc = disk_upload(w, d);
	}
	if (rc)
		fail_msg("life %llu: it does not upload", (unsigned long long)w->life);
	if (!disk_fetch(w, d))
		fail_msg("life %llu: days do not come back", (unsigned long long)w->life);
	check_rows(w, d, false);
	bucketkit_deliver(&w->b);
	w->now_ms += 2 * HOUR;
	for (int i = 0; i < 3; i++)
		assert_int_equal(disk_upload(w, d), 0);
	check_orphans(w, d->id);
	step_lose(w, at);
}

/* ---- more steps ---- */

static int free_place(const struct world *w)
{
	for (int i = 0; i < DISKS; i++)
		if (!w->disks[i])
			return i;
	return -1;
}

/* A copy of the disk is put aside. */
static void step_copy(struct world *w, struct disk *d)
{
	int at = free_place(w);
	if (at < 0)
		return;
	trace(w, "  a copy is put aside");
	disk_close(d);
	struct disk *c = disk_new(w, d->wanted);
	copy_dir(d->k.dir, c->k.dir);
	for (size_t i = 0; i < d->rows.n; i++)
		vec_push(&c->rows, d->rows.v[i]);
	snprintf(c->id, sizeof c->id, "%s", d->id);
	c->superseded = d->superseded;
	disk_note_down(c); /* what becomes of these is the business of the other one */
	w->disks[at] = c;
	if (!disk_open(w, d))
		fail_msg("life %llu: it does not start", (unsigned long long)w->life);
}

static void step_clock(struct world *w, struct disk *d)
{
	int64_t off = below(w, 2) ? 20 * DAY : below(w, 2) ? 6 * HOUR : -6 * HOUR;
	trace(w, "  the clock is off by %lld h", (long long)(off / HOUR));
	w->off_ms = off;
	step_append(w, d);
	step_upload(w, d);
	if (below(w, 2))
		step_restart(w, d);
	w->off_ms = 0;
}

/* Damages or removes what the disk notes of its bucket. Which days these are is damaged while all is up: a day all of whose parts were rewritten since
 * is not put any more then (upload_check_replaced). */
static void step_damage(struct world *w, struct disk *d)
{
	AUTOFREE char *name = NULL;
	static const char *const how[] = { "rm -f", "truncate -s 40", "truncate -s 0", "sh -c 'printf X | dd of=$0 bs=1 seek=90 conv=notrunc 2>/dev/null'" };
	static const char *const files[] = { "server", "uploads", "uploads", "days/*", "days/*", "days/*" };
	uint64_t file = below(w, ARRAY_LEN(files));
	bool days = file > 2;
	if (days && disk_upload(w, d))
		return;
	d->notes_damaged = true;
	disk_close(d);
	name = xasprintf("cd '%s/bucket' 2>/dev/null && for f in %s; do [ ! -f $f ] || %s $f; done", d->k.dir, files[file], how[below(w, 4)]);
	trace(w, "  damage: %s", name);
	run_shell(name);
	if (!disk_open(w, d))
		fail_msg("life %llu: it does not start with damaged notes", (unsigned long long)w->life);
	if (days)
		IGNORE(disk_upload(w, d));
}

/* The directory of a day is lost, at a time when the bucket has all of its parts, and all deletes. */
static void step_lose_day(struct world *w, struct disk *d)
{
	if (disk_upload(w, d))
		return;
	for (size_t i = 0; i < d->rows.n; i++)
		if (d->rows.v[i].state == SEALED)
			return;
	if (!d->rows.n || d->superseded || d->notes_damaged)
		return;
	unsigned day = (unsigned)(d->rows.v[below(w, d->rows.n)].t_ms / DAY);
	trace(w, "  day %u is lost", day);
	disk_close(d);
	AUTOFREE char *command = xasprintf("rm -rf '%s/partitions/%u'", d->k.dir, day);
	run_shell(command);
	if (!disk_open(w, d))
		fail_msg("life %llu: it does not start", (unsigned long long)w->life);
	disk_seal(w, d); /* as the start may have done */
	lives_check(w, d, false);
}

/* Files of parts are damaged or lost, at a time when the bucket has all of them; perhaps it is away at the next start. */
static void step_damage_parts(struct world *w, struct disk *d)
{
	static const char *const how[] = { "rm", "truncate -s 100", "truncate -s 0", "sh -c 'printf XXXX | dd of=$0 bs=1 seek=20 conv=notrunc 2>/dev/null'" };
	if (d->superseded || disk_upload(w, d) || !disk_fetch(w, d))
		return;
	disk_close(d);
	AUTOFREE char *command = xasprintf("cd '%s/partitions' && n=%u && for f in */*.sst; do n=$(((n * 75 + 74) %% 65537)); [ $((n %% 3)) != 0 ] || %s $f; done; %s",
					   d->k.dir, (unsigned)below(w, 65537), how[below(w, 4)], below(w, 5) ? "true" : "rm -f */CURRENT");
	trace(w, "  parts are damaged: %s", command);
	run_shell(command);
	w->b.away = below(w, 3) == 0;
	if (!disk_open(w, d)) {
		if (!w->b.away)
			fail_msg("life %llu: it does not start with damaged parts", (unsigned long long)w->life);
		w->b.away = false; /* symbols are missing that only the bucket has */
		if (!disk_open(w, d))
			fail_msg("life %llu: it does not start with damaged parts", (unsigned long long)w->life);
	}
	if (w->b.away && below(w, 2))
		step_append(w, d);
	disk_seal(w, d); /* as the start may have done, or the next round does */
	w->b.away = false;
	for (int i = 0; i < 3 && disk_upload(w, d); i++)
		;
	lives_check(w, d, false);
}

/* For up to six hours the bucket is away, full, or may not be written; some take things, delete and start meanwhile. Then all goes up. */
static void step_weather(struct world *w, struct disk *d)
{
	static const enum bucketkit_fault kinds[] = { BUCKETKIT_REFUSE, BUCKETKIT_DENY, BUCKETKIT_FULL };
	int64_t until = w->now_ms + 6 * HOUR;
	w->weather = kinds[below(w, ARRAY_LEN(kinds))];
	trace(w, "  the bucket is %s", w->weather == BUCKETKIT_REFUSE ? "away" : w->weather == BUCKETKIT_DENY ? "read-only" : "full");
	for (uint64_t n = 1 + below(w, 4); n && w->now_ms < until; n--) {
		step_append(w, d);
		disk_seal(w, d);
		IGNORE(disk_upload(w, d));
		if (below(w, 3) == 0)
			step_delete(w, d);
		if (below(w, 4) == 0) {
			disk_close(d);
			if (!disk_open(w, d))
				fail_msg("life %llu: it does not start without its bucket", (unsigned long long)w->life);
		}
	}
	w->weather = BUCKETKIT_NONE;
	if (!disk_upload(w, d) || d->superseded)
		return;
	if (disk_upload(w, d))
		fail_msg("life %llu: the bucket is back, and nothing goes up", (unsigned long long)w->life);
}

static void step_read_only(struct world *w, struct disk *d)
{
	disk_close(d);
	d->k.o.read_only = true;
	if (!disk_open(w, d))
		fail_msg("life %llu: it cannot be read", (unsigned long long)w->life);
	disk_close(d);
	d->k.o.read_only = false;
	if (!disk_open(w, d))
		fail_msg("life %llu: it does not start", (unsigned long long)w->life);
}

static void step_retain(struct world *w, struct disk *d)
{
	struct err e;
	if (w->retention_ms < 0)
		return;
	tsdb_flush(d->k.db);
	assert_int_equal(tsdb_retain(d->k.db, &e), 0);
}

static struct disk *pick_disk(struct world *w, int *at)
{
	do {
		*at = (int)below(w, DISKS);
	} while (!w->disks[*at]);
	struct disk *d = w->disks[*at];
	if (!d->is_open && !disk_open(w, d))
		fail_msg("life %llu: it does not start", (unsigned long long)w->life);
	return d;
}

static void world_step(struct world *w)
{
	struct err e;
	int at;
	struct disk *d = pick_disk(w, &at);
	uint64_t what = below(w, 100);
	trace(w, "step %u on disk %d (%s)", (unsigned)what, at, d->id);
	if (what < 24)
		step_append(w, d);
	else if (what < 30)
		step_append_late(w, d);
	else if (what < 34)
		step_names(w, d);
	else if (what < 38)
		w->now_ms += (int64_t)below(w, (uint64_t)(30 * HOUR));
	else if (what < 55)
		step_upload(w, d);
	else if (what < 58)
		step_weather(w, d);
	else if (what < 66)
		step_delete(w, d);
	else if (what < 69)
		assert_int_equal(tsdb_clean(d->k.db, &e), 0);
	else if (what < 75)
		step_restart(w, d);
	else if (what < 82)
		step_crash(w, d);
	else if (what < 86)
		step_lose(w, at);
	else if (what < 89)
		step_copy(w, d);
	else if (what < 91)
		step_clock(w, d);
	else if (what < 92)
		step_lose_day(w, d);
	else if (what < 94)
		step_damage(w, d);
	else if (what < 95)
		step_damage_parts(w, d);
	else if (what < 96)
		step_read_only(w, d);
	else if (what < 98)
		step_retain(w, d);
	else
		lives_check(w, d, false);
}

static const char *lives_folder(void)
{
	const char *folder = getenv("TMPDIR");
	return folder && *folder ? folder : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static void world_live(uint64_t life, bool traced)
{
	struct world w = { .random = life * 7919, .life = life, .now_ms = KIT_T0 + HOUR, .trace = traced };
	bucketkit_init(&w.b);
	w.b.now_ms = store_now;
	w.b.now_arg = &w;
	w.b.fault = world_fault;
	w.b.fault_arg = &w;
	w.retention_ms = below(&w, 4) ? -1 : RETENTION;
	snprintf(w.folder, sizeof w.folder, "%s/tsdb-lives-XXXXXX", lives_folder());
	assert_non_null(mkdtemp(w.folder));
	snprintf(w.image, sizeof w.image, "%s/image", w.folder);
	w.disks[0] = disk_new(&w, "one");
	for (int i = 0; i < STEPS; i++)
		world_step(&w);
	for (int i = 0; i < DISKS; i++)
		if (w.disks[i])
			world_finish(&w, i);
	for (int i = 0; i < DISKS; i++)
		disk_free(w.disks[i]);
	AUTOFREE char *remove = xasprintf("rm -rf '%s'", w.folder);
	run_shell(remove);
	bucketkit_free(&w.b);
}

static int64_t env_number(const char *name, int64_t otherwise)
{
	const char *v = getenv(name);
	int64_t n = otherwise;
	if (v && *v)
		assert_true(num_parse_i64(view_of(v), &n));
	return n;
}

static void test_lives(void **state)
{
	(void)state;
	int64_t first = env_number("PYRRHA_SEED", 1), n = env_number("PYRRHA_LIVES", env_number("PYRRHA_LONG", 0) ? 1000 : 16);
	for (int64_t i = first; i < first + n; i++)
		world_live((uint64_t)i, getenv("PYRRHA_TRACE") != NULL);
}

int main(void)
{
	if (!getenv("PYRRHA_TRACE"))
		log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lives) };
	return cmocka_run_group_tests(tests, NULL, NULL);
}
