/* SPDX-License-Identifier: Apache-2.0 */
/* Lives of storages and one bucket, at random, against a model: a list of what each disk was acknowledged. Requests fail, disks are lost,
 * die at a request, are copied and come back later, two have one id, clocks are wrong, files of the catalogue and of parts are damaged. The bucket is away,
 * full or read-only for hours, answers arrive half, lists are stale, puts arrive after their time-out. In half of the lives days leave the disk
 * for the bucket after a day (local retention); in half of them another server reads the days of all (read_others). Always: what was sealed and
 * uploaded is there exactly once, what was deleted stays away, names that came late stay, what cannot be read is said to be missing, and in the end
 * the bucket has nothing that no generation names.
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
#include "tsdb/cached/cached_days.h"
#include "tsdb/liveskit.h"
#include "tsdb/transfer/transfer_private.h"

#define MINUTE INT64_C(60000)
#define HOUR (60 * MINUTE)
#define DAY LIVES_DAY
#define DISKS 3
#define STEPS 24
#define RETENTION (4 * DAY)

/* A directory, and what it has to hold. */
struct disk {
	struct kit k;
	char id[SERVER_ID_MAX + 1];     /* under which it was seen last */
	char wanted[SERVER_ID_MAX + 1];
	struct lives_rows rows;
	bool is_open;
	bool writes;                    /* it has taken an epoch since it was opened */
	bool superseded;                /* another disk has taken its id */
	bool names_fresh;               /* functions' names came, and are in windows yet */
	bool notes_damaged;             /* its notes of the bucket were damaged, and no upload was complete since */
};

struct world {
	struct bucketkit b;
	struct disk *disks[DISKS];
	uint64_t random, life, trace;
	int64_t now_ms;
	int64_t off_ms;                 /* by which the clock of the disks is wrong; that of the bucket is right */
	int64_t retention_ms;
	int64_t local_ms;               /* local retention of the disks; 0 = none */
	bool has_reader;
	struct disk *reader;            /* it reads the days of all; NULL = there is none (yet) */
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

static int run_shell(const char *command)
{
	pid_t pid = fork();
	int status = 0;
	if (!pid) {
		execlp("sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, &status, 0);
	return status;
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
	mutex_lock(&w->b.lock); /* threads that fetch for queries */
	w->fault_at = below(w, 3) ? 0 : 1 + (int64_t)below(w, 25);
	w->fault_count = below(w, 2) ? 0 : (int64_t)below(w, 10);
	w->fault_kind = 1 + (int64_t)below(w, BUCKETKIT_CUT);
	if (w->fault_kind == BUCKETKIT_FLIP) /* more than this is damage */
		w->fault_count = MIN(w->fault_count, 1);
	if (w->fault_kind == BUCKETKIT_STALE) /* nothing else shows that it was */
		w->fault_count = 25;
	mutex_unlock(&w->b.lock);
	if (w->fault_at)
		trace(w, "  fault %d at %d, and %d more", (int)w->fault_kind, (int)w->fault_at, (int)w->fault_count);
}

static void world_disarm(struct world *w)
{
	mutex_lock(&w->b.lock);
	w->fault_at = 0;
	mutex_unlock(&w->b.lock);
}

/* ---- disks ---- */

/* Under which id the days of a disk go up is a label of their series for others. */
static struct labels *disk_external(void *arg)
{
	struct disk *d = arg;
	char id[SERVER_ID_MAX + 1], why[8];
	bucket_server_state(&d->k.db->transfer->server, id, why, sizeof why);
	struct label l = { VIEW("id"), view_of(id) };
	return labels_dup((struct labels){ &l, 1 });
}

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
	d->k.o.local_retention_ms = w->local_ms;
	d->k.o.bucket_cache_bytes = w->life % 3 ? 0 : 1; /* 1: nothing stays */
	d->k.o.external_labels = w->has_reader ? disk_external : NULL;
	d->k.o.external_labels_arg = d;
	d->k.o.grace_ms = HOUR;
	d->k.o.now_ms = world_now;
	d->k.o.boot_ms = store_now; /* the monotonic clock is right even when the wall clock is set wrong: retention then drops nothing */
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

static bool disk_has_up(const struct disk *d, const struct lives_row *x)
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
		struct lives_row *r = &d->rows.v[i];
		r->state = r->state == UP ? SEALED : r->state;
		r->was = r->was == UP ? SEALED : r->was;
		r->named_up = false;
	}
}

static bool disk_has_day(struct disk *d, int64_t t_ms)
{
	struct version *v = tsdb_version(d->k.db, NULL);
	bool has = version_find(v, (uint32_t)(t_ms / DAY)) != NULL;
	version_unref(v);
	return has;
}

/* Days have left the disk: the bucket has their rows. */
static void disk_note_left(struct disk *d)
{
	for (size_t i = 0; i < d->rows.n; i++) {
		struct lives_row *r = &d->rows.v[i];
		if (r->state == FRESH || disk_has_day(d, r->t_ms))
			continue;
		r->left = true;
		if (r->state != SEALED && r->was != SEALED)
			continue;
		r->state = r->state == SEALED ? UP : r->state;
		r->was = UP;
	}
}

/* Days have come back. */
static void disk_note_back(struct disk *d)
{
	for (size_t i = 0; i < d->rows.n; i++)
		d->rows.v[i].left &= !disk_has_day(d, d->rows.v[i].t_ms);
}

/* It goes on under another id: days that were in the bucket alone are of a server of the old id now. */
static void disk_forget_left(struct disk *d)
{
	size_t n = 0;
	for (size_t i = 0; i < d->rows.n; i++)
		if (!d->rows.v[i].left)
			d->rows.v[n++] = d->rows.v[i];
	d->rows.n = n;
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
		if (w->local_ms)
			disk_forget_left(d);
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

static struct lives_look disk_look(const struct world *w, struct disk *d)
{
	return (struct lives_look){ .k = &d->k, .rows = &d->rows, .life = w->life,
				    .gone_ms = w->retention_ms < 0 ? INT64_MIN : w->now_ms - w->retention_ms };
}

static void check_rows(struct world *w, struct disk *d, bool returned)
{
	struct admin_bucket s;
	struct lives_look l = disk_look(w, d);
	tsdb_flush(d->k.db);
	disk_status(d, &s);
	if (s.absent_days && !returned && !w->local_ms)
		return; /* the bucket has been away since the day began to be absent */
	l.of = returned ? LIVES_RETURNED : LIVES_OWN;
	lives_look_at_all(&l);
}

/* Whatever the bucket does. */
static void check_some(struct world *w, struct disk *d)
{
	struct lives_look l = disk_look(w, d);
	tsdb_flush(d->k.db);
	lives_look_at_some(&l);
}

/* ---- steps ---- */

/* A profile of a program that is known by a build id, with names or without. */
static int append_late(struct disk *d, bool named, int64_t t_ms, uint64_t seed, struct sink_result *r)
{
	struct profile p;
	struct err e;
	kit_profile(&p, seed, LIVES_STACKS);
	p.mappings[0].build_id_str = 5;
	for (uint32_t i = 0; i < p.n_locations && !named; i++)
		p.locations[i].n_lines = 0;
	struct label l[] = { { VIEW(LABEL_NAME), VIEW(LIVES_LATE) }, { VIEW("job"), VIEW("kit") }, { VIEW("pod"), named ? VIEW("named") : VIEW("nameless") } };
	struct sink_column c = { .labels = { l, ARRAY_LEN(l) } };
	assert_true(ptype_parse(VIEW(LIVES_LATE), &c.type));
	struct sink_profile sp = { .profile = &p, .columns = &c, .n_columns = 1, .t_ms = t_ms, .interval_ms = 10000 };
	struct sink_batch b = { .profiles = &sp, .n_profiles = 1 };
	int rc = tsdb_sink(d->k.db)->append(tsdb_sink(d->k.db), &b, r, &e);
	profile_release(&p);
	return rc;
}

static void append_row(struct world *w, struct disk *d, unsigned pod, int64_t t_ms)
{
	struct sink_result r = { 0 };
	uint64_t seed = pod == LIVES_FLOATS ? 1 + below(w, 1000) : kit_random(&w->random) >> 8;
	if (lives_rows_find(&d->rows, pod, t_ms))
		return;
	int rc = pod == LIVES_FLOATS ? kit_append_float(&d->k, "up", t_ms, (double)seed, &r) :
		 pod == LIVES_NAMELESS ? append_late(d, false, t_ms, seed, &r) : kit_append(&d->k, pod, t_ms, seed, LIVES_STACKS, &r);
	assert_int_equal(rc, 0);
	if (pod == LIVES_FLOATS ? r.floats : r.profiles)
		vec_push(&d->rows, (struct lives_row){ .pod = pod, .t_ms = t_ms, .seed = seed, .state = FRESH });
}

static void step_append(struct world *w, struct disk *d)
{
	int64_t step = 5 * MINUTE + (int64_t)below(w, 3) * 20 * MINUTE;
	for (uint64_t n = 1 + below(w, 6); n; n--) {
		w->now_ms += step;
		for (unsigned pod = 0; pod < LIVES_PODS; pod++)
			if (below(w, 3))
				append_row(w, d, pod, world_now(w) - (int64_t)below(w, 3000));
		append_row(w, d, LIVES_FLOATS, world_now(w));
	}
	tsdb_flush(d->k.db);
}

static void step_append_late(struct world *w, struct disk *d)
{
	int64_t back = (int64_t)below(w, (uint64_t)(3 * DAY));
	for (uint64_t n = 1 + below(w, 4); n; n--)
		append_row(w, d, (unsigned)below(w, LIVES_PODS), w->now_ms - back - (int64_t)(n * 70001));
	tsdb_flush(d->k.db);
}

static void disk_seal(struct world *w, struct disk *d)
{
	struct err e;
	tsdb_flush(d->k.db);
	if (tsdb_seal(d->k.db, true, &e))
		fail_msg("life %llu: seal: %s", (unsigned long long)w->life, e.msg);
	d->names_fresh = false;
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
		append_row(w, d, LIVES_NAMELESS, world_now(w) - back - (int64_t)(n * 90007));
	tsdb_flush(d->k.db);
	if (below(w, 2))
		disk_seal(w, d);
	if (below(w, 3) && (d->names_fresh = true))
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
	disk_note_back(d);
	for (size_t i = 0; i < d->rows.n; i++) {
		struct lives_row r = d->rows.v[i];
		any |= r.state == SEALED;
		r.state = r.state == SEALED ? UP : r.state;
		r.named_up |= r.named && r.state == UP && !d->names_fresh;
		if (r.state != DELETED)
			d->rows.v[n++] = r;
	}
	d->rows.n = n;
	if (any && d->superseded)
		fail_msg("life %llu: two disks write as %s", (unsigned long long)w->life, d->id);
	return 0;
}

/* All days are on the disk, or all that local retention wants. False: the bucket does not want to. */
static bool disk_fetch(struct world *w, struct disk *d)
{
	struct admin_bucket s;
	uint64_t before = 0;
	for (int i = 0, same = 0; i < 40; i++) {
		disk_status(d, &s);
		same = i && s.absent_days == before ? same + 1 : 0;
		before = s.absent_days;
		if (!s.absent_days || (w->local_ms && same == 2))
			return true;
		int rc = tsdb_upload(d->k.db, &(struct err){ 0 });
		disk_note_id(w, d);
		if (rc && d->superseded)
			return false;
		if (rc)
			before = UINT64_MAX;
		else
			disk_note_back(d);
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

static bool deletion_has(const struct deletion *x, const struct lives_row *r)
{
	return (x->day || (r->pod == x->pod && r->pod != LIVES_FLOATS)) && r->t_ms > x->after && r->t_ms <= x->until;
}

static struct deletion deletion_pick(struct world *w)
{
	struct deletion x = { .day = below(w, 3) == 0, .pod = (unsigned)below(w, LIVES_NAMELESS + 1) };
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
	snprintf(pod, sizeof pod, x->pod == LIVES_NAMELESS ? "nameless" : "pod-%u", x->pod);
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
	if (w->local_ms)
		d->k.o.local_retention_ms = below(w, 6) ? w->local_ms : 0;
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
		struct lives_row *r = &d->rows.v[i];
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
	if (strcmp(s.state, "writing") || old->superseded || (s.absent_days && !w->local_ms))
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
	if (w->local_ms)
		disk_note_left(d);
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
	c->names_fresh = d->names_fresh;
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

/* Whether a day has no whole part left (`whole` lists those that have one). If nothing tells which parts it had, and the bucket is away, rows begin
 * it anew, and it is never put (upload_check_replaced). */
static bool disk_lacks_day(const struct disk *d)
{
	AUTOFREE char *command = xasprintf("cd '%s/partitions' && for p in *; do case $p in *[!0-9]*) continue ;; esac; grep -qsx $p ../whole || exit 1; done",
					   d->k.dir);
	return run_shell(command) != 0;
}

/* Files of parts are damaged or lost, at a time when the bucket has all of them; perhaps it is away at the next start. */
static void step_damage_parts(struct world *w, struct disk *d)
{
	static const char *const how[] = { "rm", "truncate -s 100", "truncate -s 0", "sh -c 'printf XXXX | dd of=$0 bs=1 seek=20 conv=notrunc 2>/dev/null'" };
	if (d->superseded || disk_upload(w, d) || !disk_fetch(w, d))
		return;
	disk_close(d);
	bool has_list = below(w, 5);
	uint64_t kind = below(w, 4);
	AUTOFREE char *command = xasprintf("cd '%s/partitions' && rm -f ../whole && n=%u && for f in */*.sst; do n=$(((n * 75 + 74) %% 65537)); "
					   "if [ $((n %% 3)) != 0 ]; then echo ${f%%%%/*} >>../whole; else %s $f; fi; done; %s",
					   d->k.dir, (unsigned)below(w, 65537), how[kind], has_list ? "true" : "rm -f */CURRENT");
	trace(w, "  parts are damaged: %s", command);
	run_shell(command);
	w->b.away = below(w, 3) == 0 && ((has_list && kind) || !disk_lacks_day(d));
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
		if (w->local_ms)
			check_some(w, d);
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
	if (w->retention_ms < 0 && !w->local_ms)
		return;
	tsdb_flush(d->k.db);
	assert_int_equal(tsdb_retain(d->k.db, &e), 0);
	disk_note_left(d);
}

/* Days leave the disk, and are looked at while requests fail. */
static void step_leave(struct world *w, struct disk *d)
{
	if (!d->is_open && !disk_open(w, d))
		fail_msg("life %llu: it does not start", (unsigned long long)w->life);
	if (below(w, 2))
		step_retain(w, d);
	if (below(w, 3) == 0)
		cached_days_tidy(d->k.db, true);
	world_arm(w);
	check_some(w, d);
	world_disarm(w);
}

/* ---- another server ---- */

/* Whose days an id has; NULL: it is not known, as two disks may want to be it. */
static struct disk *world_owner(struct world *w, const char *id)
{
	struct disk *owner = NULL;
	for (int i = 0; i < DISKS; i++) {
		struct disk *d = w->disks[i];
		if (!d || d->superseded || strcmp(d->id, id))
			continue;
		if (owner)
			return NULL;
		owner = d;
	}
	return owner;
}

static void reader_check(struct world *w, bool some, bool is_behind)
{
	for (int i = 0; i < DISKS; i++) {
		struct disk *d = w->disks[i];
		if (!d || !d->id[0] || world_owner(w, d->id) != d)
			continue;
		struct lives_look l = disk_look(w, d);
		l.k = &w->reader->k;
		l.of = LIVES_OTHER;
		l.id = d->id;
		l.is_behind = is_behind;
		if (some)
			lives_look_at_some(&l);
		else
			lives_look_at_all(&l);
	}
}

static void reader_open(struct world *w)
{
	struct disk *r = w->reader;
	if (!r) {
		r = w->reader = disk_new(w, "reader");
		r->k.o.read_others = true;
		r->k.o.retention_ms = -1;
		r->k.o.local_retention_ms = 0;
	} else if (!r->is_open) {
		w->b.away = below(w, 3) == 0;
	}
	if (!r->is_open && !disk_open(w, r))
		fail_msg("life %llu: the reader does not start", (unsigned long long)w->life);
	w->b.away = false;
}

/* A server that reads the days of others looks at the bucket: it sees what they have put, and nothing else. */
static void step_read(struct world *w, struct disk *d)
{
	struct err e;
	if (!w->has_reader)
		return;
	trace(w, "  the reader looks");
	if (d->is_open)
		IGNORE(disk_upload(w, d));
	reader_open(w);
	if (below(w, 2)) {
		world_arm(w);
		IGNORE(tsdb_upload(w->reader->k.db, &e));
		reader_check(w, true, true);
		world_disarm(w);
	}
	if (tsdb_upload(w->reader->k.db, &e))
		fail_msg("life %llu: the reader cannot look: %s", (unsigned long long)w->life, e.msg);
	if (below(w, 2)) {
		w->b.away = true;
		reader_check(w, true, false);
		w->b.away = false;
	}
	reader_check(w, false, false);
	if (below(w, 2))
		disk_close(w->reader);
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

/* With room for all of them, all days are on the disk. */
static void world_bring_back(struct world *w, struct disk *d)
{
	if (!w->local_ms)
		return;
	disk_close(d);
	d->k.o.local_retention_ms = 0;
	if (!disk_open(w, d) || !disk_fetch(w, d))
		fail_msg("life %llu: days do not come back from the bucket", (unsigned long long)w->life);
	check_rows(w, d, false);
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
	step_read(w, d);
	step_lose(w, at);
	world_bring_back(w, w->disks[at]);
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
	if (w->local_ms && below(w, 3) == 0)
		step_leave(w, w->disks[at]);
	if (w->has_reader && below(w, 6) == 0)
		step_read(w, w->disks[at]);
}

static const char *lives_folder(void)
{
	const char *folder = getenv("TMPDIR");
	return folder && *folder ? folder : access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

static void world_live(uint64_t life, bool traced)
{
	struct world w = { .random = life * 7919, .life = life, .now_ms = KIT_T0 + HOUR, .trace = traced };
	uint64_t kind = life * 104729; /* apart from its other numbers */
	w.local_ms = kit_random(&kind) % 2 ? DAY : 0;
	w.has_reader = kit_random(&kind) % 2;
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
	disk_free(w.reader);
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
