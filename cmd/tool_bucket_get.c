/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool bucket get and adopt: storage directories of what is in a bucket. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/files.h"
#include "cmd/tool_bucket.h"
#include "tsdb/tsdb.h"

#define ALIVE_MS (60 * INT64_C(60000)) /* whoever wrote within that time may be alive */

/* ---- get ---- */

struct bucket_get {
	VEC(uint32_t) days;
	uint64_t fetched, failed;
	bool damaged, lenient;
};

static void get_done(void *arg, uint32_t day, const struct err *e)
{
	struct bucket_get *g = arg;
	char name[DAY_NAME_LEN];
	if (e)
		fprintf(stderr, "%s is left out: %s\n", bucket_day_name(day, name), e->msg);
	else
		printf("%s\n", bucket_day_name(day, name));
	fflush(stdout);
	*(e ? &g->failed : &g->fetched) += 1;
}

/* The words before the last one: days, or all. */
static bool get_parse_days(struct bucket_get *g, const char *name, char **v, int n)
{
	uint32_t day;
	bool all = n == 1 && !strcmp(v[0], "all");
	for (int i = 0; i < n && !all; i++) {
		if (!bucket_day_parse(v[i], &day)) {
			fprintf(stderr, "pyrtool %s: \"%.40s\" is no day: a date (2026-11-30), its number (pyrtool bucket ls), or all\n", name, v[i]);
			return false;
		}
		bool twice = false;
		for (size_t k = 0; k < g->days.n; k++)
			twice |= g->days.v[k] == day;
		if (!twice)
			vec_push(&g->days, day);
	}
	return true;
}

static int get_fetch(struct bucket_get *g, const struct bucket_flags *f, const char *dir, struct err *e)
{
	struct tool_bucket b;
	char id[SERVER_ID_MAX + 1];
	int rc = tool_bucket_open(&b, f, e);
	if (!rc)
		rc = bucket_choose_id(&b, f, id, e);
	const struct tsdb_bucket_copy c = { .objects = b.objects, .objects_at_once = (size_t)b.config.requests, .id = id, .dir = dir, .days = g->days.v, .n = g->days.n, .lenient = g->lenient, .done = get_done, .arg = g,
					.ret_damaged = &g->damaged };
	if (!rc)
		rc = tsdb_bucket_get(&c, e);
	tool_bucket_close(&b);
	return rc;
}

int tool_bucket_get(int argc, char **argv)
{
	static const char name[] = "bucket get";
	struct bucket_flags f = { 0 };
	struct bucket_get g = { .fetched = 0 };
	struct opt flags[] = { BUCKET_FLAGS(f),
			       { "lenient", OPT_BOOL, &g.lenient, NULL, "Of a day with damaged or missing objects, fetch the rest: hours are missing then." } };
	struct err e;
	int words, status;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (words < 2) {
		fprintf(stderr, "pyrtool %s: days (or all) and a directory are wanted, for example 2026-11-30 /tmp/days\n", name);
		return TOOL_USAGE;
	}
	if (!get_parse_days(&g, name, argv + 1, words - 1)) {
		vec_free(&g.days);
		return TOOL_USAGE;
	}
	int rc = get_fetch(&g, &f, argv[words], &e);
	vec_free(&g.days);
	if (rc)
		return tool_fail(name, &e);
	printf("%" PRIu64 " days are in %s, a storage directory: pyrtool tsdb reads it, and pyrrha --storage.path\n", g.fetched, argv[words]);
	if (g.damaged)
		fprintf(stderr, "pyrtool %s: generations or deletes in the bucket cannot be read, so days may be missing, or have rows that were deleted: pyrtool bucket verify\n", name);
	return g.failed || g.damaged || fflush(stdout) ? TOOL_FAILED : TOOL_OK;
}

/* ---- adopt ---- */

struct bucket_adopt {
	bool yes;
	int64_t keep_ms; /* days that are older stay in the bucket alone; 0 = all are fetched */
};

/* Whether another process may write as that server at this moment. */
static int adopt_check_alive(const struct bucket_contents *c, bool yes, struct err *e)
{
	int64_t age = clock_now_ms() - c->changed_ms;
	char when[RFC3339_LEN];
	if (yes || age > ALIVE_MS)
		return 0;
	return err_set(e, ERR_CONFLICT, "%s wrote at %s, %" PRId64 " minutes ago: if it is still running, it may not write to the bucket any more after this. Make sure "
		       "that it is gone, and add --yes", c->id, clock_rfc3339_ms(c->changed_ms, when), MAX(age, 0) / 60000);
}

static int adopt_find_entry(void *arg, const char *name, struct err *e)
{
	(void)name;
	return err_set(e, ERR_CONFLICT, "%s is not empty: only an empty directory can become a known server's", (const char *)arg);
}

/* One day after the other. Newest first, as a server does it. */
static int adopt_fetch_days(struct tsdb *db, const char *dir, struct err *e)
{
	struct storage_admin *a = tsdb_admin(db);
	struct admin_bucket s, before;
	int rc;
	a->bucket(a, &s);
	printf("%" PRIu64 " days are here, %" PRIu64 " to go\n", s.days - s.absent_days, s.absent_days);
	do {
		before = s;
		rc = tsdb_upload(db, e);
		a->bucket(a, &s);
		if (!rc && s.absent_days < before.absent_days)
			printf("%" PRIu64 " days are here, %" PRIu64 " to go\n", s.days - s.absent_days, s.absent_days);
		fflush(stdout);
	} while (!rc && s.absent_days < before.absent_days && s.absent_days);
	if (!rc && s.absent_days)
		printf("%" PRIu64 " days stay in the bucket alone\n", s.absent_days);
	return rc ? err_wrap(e, "%s is %s's directory now, but lacks %" PRIu64 " days, which a server on it fetches by itself", dir, s.id, s.absent_days) : 0;
}

static int adopt_open(const struct bucket_adopt *x, struct tool_bucket *b, const char *id, const char *dir, struct err *e)
{
	struct tsdb_options o = { .path = dir, .retention_ms = -1, .local_retention_ms = x->keep_ms, .objects = b->objects, .objects_at_once = (size_t)b->config.requests, .server_id = id,
				  .grace_ms = b->config.grace_ms, .no_sealing = true, .no_transfer = true };
	struct admin_bucket s;
	struct tsdb *db;
	struct err closing;
	int rc = tsdb_open(&db, &o, e);
	if (rc)
		return rc;
	struct storage_admin *a = tsdb_admin(db);
	a->bucket(a, &s);
	if (strcmp(s.state, "writing"))
		rc = err_set(e, ERR_UNAVAILABLE, "no epoch of %s could be taken: %s", id, s.last_error[0] ? s.last_error : s.why);
	if (!rc)
		rc = adopt_fetch_days(db, dir, e);
	int closed = tsdb_close(db, rc ? &closing : e);
	return rc ? rc : closed;
}

static int adopt(const struct bucket_adopt *x, struct tool_bucket *b, const char *id, char *dir, struct err *e)
{
	struct bucket_contents c;
	int rc = files_make_dirs(dir, e);
	if (!rc)
		rc = files_each(dir, adopt_find_entry, dir, e);
	if (rc)
		return rc;
	rc = contents_read(&c, b->objects, id, false, e);
	if (!rc)
		rc = adopt_check_alive(&c, x->yes, e);
	contents_release(&c);
	return rc ? rc : adopt_open(x, b, id, dir, e);
}

int tool_bucket_adopt(int argc, char **argv)
{
	static const char name[] = "bucket adopt";
	struct bucket_flags f = { 0 };
	struct bucket_adopt x = { .yes = false };
	struct opt flags[] = { BUCKET_FLAGS(f),
			       { "days-since", OPT_DURATION, &x.keep_ms, "<duration>", "Leave days that are older in the bucket alone; all are fetched if not given." },
			       { "yes", OPT_BOOL, &x.yes, NULL, "Also if the server wrote within the last hour: if it runs, it stops writing to the bucket." } };
	struct tool_bucket b;
	struct err e;
	char id[SERVER_ID_MAX + 1];
	int words, status;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (words != 1) {
		fprintf(stderr, "pyrtool %s: one directory is wanted, empty or not there: the new --storage.path\n", name);
		return TOOL_USAGE;
	}
	int rc = tool_bucket_open(&b, &f, &e);
	if (!rc)
		rc = bucket_choose_id(&b, &f, id, &e);
	if (!rc)
		rc = adopt(&x, &b, id, argv[1], &e);
	if (!rc)
		printf("%s is the directory of %s now: start the server with it, with server_id %s or none\n", argv[1], id, id);
	tool_bucket_close(&b);
	return rc ? tool_fail(name, &e) : TOOL_OK;
}
