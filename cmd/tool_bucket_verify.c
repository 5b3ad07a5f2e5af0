/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool bucket verify and gc: whether everything that generations name is there, and objects that none names. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "cmd/tool_bucket.h"
#include "tsdb/bucket/object_io.h"
#include "tsdb/disk/text.h"

#define TODO_DATA "if its server has the day on its disk: stop it, remove bucket/days/DAY (the day's number) of its directory and the day's generation " \
		  "(pyrtool bucket ls) from the bucket, start it; it puts the day anew. Else restore the object from a copy of the bucket"
#define TODO_DELETE "delete again (/api/v1/admin/tsdb/delete_series) what was deleted at that time, then remove the object"
#define FAULTS_SHOWN 100 /* in text */
#define DELETE_HEAD "pyrrha-delete 1" /* as in tsdb/transfer/deletes.c */
#define DELETE_MAX ((size_t)1 << 20)
#define TODO_GENERATION "its server made it wrongly: report this as a bug"

/* ---- verify ---- */

struct bucket_verify {
	struct bucket_contents c;
	struct objects *objects;
	const char *dir;        /* for files while they are verified; NULL: only lists and generations are */
	uint64_t objects_read, bytes_read;
};

/* Whether a generation is still the newest of its day: the server may have replaced it, and removed what it named. */
static bool verify_is_current(struct bucket_verify *v, const struct bucket_day *d)
{
	CLEANUP(buf_free) struct buf b = { .max = GENERATION_MAX };
	char name[OBJECT_NAME_MAX];
	struct err e;
	object_name_generation(name, v->c.id, d->stamp);
	return object_io_get(v->objects, name, &b, &e) != -ERR_NOT_FOUND;
}

/* The runs of a file against those of its generation. */
static bool verify_runs_agree(const struct bucket_part *p, const struct part_runs *r)
{
	if (p->runs.n != r->v.n)
		return false;
	for (size_t i = 0; i < r->v.n; i++) {
		const struct part_run *x = &p->runs.v[i], *y = &r->v.v[i];
		if (x->kind != y->kind || x->aggregates != y->aggregates || x->offset != y->offset || x->length != y->length || x->hash != y->hash)
			return false;
	}
	return true;
}

/* Fetches an object and holds it against its hash, and a part's runs against theirs. Faults of the object are added; an error ends the command. */
static int verify_content(struct bucket_verify *v, const char *name, const struct generation_object *o, const struct bucket_part *p, struct err *e)
{
	AUTOFREE char *file = xasprintf("%s/object", v->dir);
	struct part_runs runs = { 0 };
	int rc = object_io_get_file(v->objects, name, file, o->size, o->sha256, e);
	v->objects_read++;
	v->bytes_read += o->size;
	if (!rc && p) {
		rc = part_runs_read(file, &runs, e);
		if (!rc && !verify_runs_agree(p, &runs))
			contents_add_fault(&v->c, name, "its runs (ranges of kinds) are not those that its generation says", TODO_GENERATION);
		part_runs_release(&runs);
	}
	unlink(file);
	if (rc != -ERR_CORRUPT && rc != -ERR_NOT_FOUND && rc != -ERR_LIMIT)
		return rc;
	contents_add_fault(&v->c, name, e->msg, TODO_DATA);
	return 0;
}

static int verify_object(struct bucket_verify *v, const struct bucket_day *d, const struct generation_object *o, const struct bucket_part *p, struct err *e)
{
	const struct bucket_object *x = contents_find(&v->c, d->day, o->stamp);
	char name[OBJECT_NAME_MAX], what[128];
	object_name_data(name, v->c.id, d->day, o->stamp);
	if (x && x->size == o->size)
		return v->dir ? verify_content(v, name, o, p, e) : 0;
	if (x)
		snprintf(what, sizeof what, "it has %" PRIu64 " bytes, not %" PRIu64 " as its generation says", x->size, o->size);
	else
		snprintf(what, sizeof what, "it is missing (%" PRIu64 " bytes)", o->size);
	contents_add_fault(&v->c, name, what, TODO_DATA);
	return 0;
}

static int verify_day(struct bucket_verify *v, const struct bucket_day *d, struct err *e)
{
	char name[OBJECT_NAME_MAX];
	size_t faults = v->c.faults.n;
	int rc = 0;
	object_name_generation(name, v->c.id, d->stamp);
	if (d->one_file_twice)
		contents_add_fault(&v->c, name, "it names one file of the day's database twice, so the day cannot be fetched", TODO_GENERATION);
	for (size_t i = 0; i < d->parts.n && !rc; i++)
		rc = verify_object(v, d, &d->parts.v[i].object, &d->parts.v[i], e);
	if (!rc && d->symbols.stamp.epoch)
		rc = verify_object(v, d, &d->symbols, NULL, e);
	if (v->c.faults.n > faults && !verify_is_current(v, d))
		contents_drop_faults(&v->c, faults);
	return rc;
}

/* Whether a delete can be read. Its server passes over one that cannot. */
static int verify_delete(struct bucket_verify *v, const struct bucket_object *x, struct err *e)
{
	CLEANUP(buf_free) struct buf b = { .max = DELETE_MAX };
	char name[OBJECT_NAME_MAX];
	struct view lines;
	object_name_delete(name, v->c.id, x->stamp);
	int rc = x->size > DELETE_MAX ? -ERR_LIMIT : object_io_get(v->objects, name, &b, e);
	if (rc == -ERR_LIMIT || (!rc && !text_checked(buf_view(&b), DELETE_HEAD, &lines)))
		contents_add_fault(&v->c, name, "it is no delete, or damaged: days that are fetched may show again what it deleted", TODO_DELETE);
	return rc == -ERR_LIMIT || rc == -ERR_NOT_FOUND ? 0 : rc;
}

static int verify_all(struct bucket_verify *v, struct err *e)
{
	char name[OBJECT_NAME_MAX];
	int rc = 0;
	if (v->c.foreign_epoch) {
		object_name_epoch(name, v->c.id, v->c.foreign_epoch);
		contents_add_fault(&v->c, name, "no server is started so often, so none has taken this epoch", "remove the object");
	}
	for (size_t i = 0; i < v->c.deletes.n && !rc; i++)
		rc = verify_delete(v, &v->c.deletes.v[i], e);
	for (size_t i = 0; i < v->c.days.n && !rc; i++)
		rc = verify_day(v, &v->c.days.v[i], e);
	return rc;
}

/* Everything's bytes, too: through files in a directory of their own. */
static int verify_deep(struct bucket_verify *v, struct err *e)
{
	const char *tmp = getenv("TMPDIR");
	AUTOFREE char *dir = xasprintf("%s/pyrtool-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		return err_set(e, ERR_IO, "cannot make a directory for one object at a time below %s (TMPDIR)", tmp && *tmp ? tmp : "/tmp");
	v->dir = dir;
	int rc = verify_all(v, e);
	v->dir = NULL;
	rmdir(dir);
	return rc;
}

static void verify_put(struct buf *b, const struct bucket_verify *v, bool deep)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < MIN(v->c.faults.n, (size_t)FAULTS_SHOWN); i++)
		buf_printf(b, "%s: %s\n  %s\n", v->c.faults.v[i].name, v->c.faults.v[i].what, v->c.faults.v[i].todo);
	if (v->c.faults.n > FAULTS_SHOWN)
		buf_printf(b, "and %zu more (all: --output=json)\n", v->c.faults.n - FAULTS_SHOWN);
	for (size_t i = 0; i < v->c.days.n; i++)
		bytes += v->c.days.v[i].bytes;
	buf_printf(b, "%s: %zu days, %zu generations, %" PRIu64 " bytes in their objects", v->c.id, v->c.days.n, v->c.generations.n, bytes);
	if (deep)
		buf_printf(b, ", all of which were read (%" PRIu64 " objects)", v->objects_read);
	buf_printf(b, ": %zu problem(s)\n", v->c.faults.n);
}

static void verify_put_json(struct buf *b, const struct bucket_verify *v)
{
	json_object_begin(b);
	json_field_text(b, "id", v->c.id);
	json_field_count(b, "days", v->c.days.n);
	json_field_count(b, "generations", v->c.generations.n);
	json_field_count(b, "objectsRead", v->objects_read);
	json_field_count(b, "bytesRead", v->bytes_read);
	json_array_begin_at(b, "problems");
	for (size_t i = 0; i < v->c.faults.n; i++) {
		json_line(b, 0);
		json_object_begin(b);
		json_field_text(b, "where", v->c.faults.v[i].name);
		json_field_text(b, "what", v->c.faults.v[i].what);
		json_field_text(b, "todo", v->c.faults.v[i].todo);
		json_object_end(b);
	}
	bucket_json_end(b);
}

int tool_bucket_verify(int argc, char **argv)
{
	const char *output = "text", name[] = "bucket verify";
	bool json, deep = false;
	struct bucket_flags f = { 0 };
	struct opt flags[] = { BUCKET_FLAGS(f), { "output", OPT_STRING, &output, "<format>", "text or json." },
			       { "deep", OPT_BOOL, &deep, NULL, "Fetch all objects and hold their bytes against their hashes." } };
	struct bucket_verify v = { .dir = NULL };
	struct tool_bucket b;
	struct buf out = { 0 };
	struct err e;
	char id[SERVER_ID_MAX + 1];
	int words, status;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &json) || !bucket_no_words(name, words))
		return TOOL_USAGE;
	int rc = tool_bucket_open(&b, &f, &e);
	if (!rc)
		rc = bucket_choose_id(&b, &f, id, &e);
	v.objects = b.objects;
	if (!rc)
		rc = contents_read(&v.c, b.objects, id, true, &e);
	if (!rc)
		rc = deep ? verify_deep(&v, &e) : verify_all(&v, &e);
	if (!rc && json)
		verify_put_json(&out, &v);
	else if (!rc)
		verify_put(&out, &v, deep);
	status = rc ? tool_fail(name, &e) : tool_print(&out);
	if (v.c.faults.n)
		status = TOOL_FAILED;
	contents_release(&v.c);
	tool_bucket_close(&b);
	buf_free(&out);
	return status;
}

/* ---- gc ---- */

struct bucket_gc {
	struct bucket_contents c;
	int64_t before_ms; /* only what was put before that */
	bool remove;
	uint64_t n, bytes, younger;
};

static int gc_one(struct bucket_gc *g, struct objects *o, const struct bucket_object *x, bool data, struct err *e)
{
	char name[OBJECT_NAME_MAX], put[RFC3339_LEN];
	if (x->named)
		return 0;
	if (x->modified_ms > g->before_ms) {
		g->younger++;
		return 0;
	}
	if (data)
		object_name_data(name, g->c.id, x->day, x->stamp);
	else
		object_name_generation(name, g->c.id, x->stamp);
	int rc = g->remove ? o->remove(o, name, e) : 0;
	if (rc)
		return rc;
	printf("%s%s  %" PRIu64 " bytes, put %s\n", g->remove ? "removed " : "", name, x->size, clock_rfc3339_ms(x->modified_ms, put));
	g->n++;
	g->bytes += x->size;
	return 0;
}

/* Older generations first: once the objects go that these name, none of them must be the newest of its day. */
static int gc_all(struct bucket_gc *g, struct objects *o, struct err *e)
{
	int rc = 0;
	if (g->c.faults.n)
		return err_set(e, ERR_CORRUPT, "%zu generations cannot be read, so what they name is not known, and nothing is removed: %s. See pyrtool bucket verify",
			       g->c.faults.n, g->c.faults.v[0].what);
	for (size_t i = 0; i < g->c.generations.n && !rc; i++)
		rc = gc_one(g, o, &g->c.generations.v[i], false, e);
	for (size_t i = 0; i < g->c.data.n && !rc; i++)
		rc = gc_one(g, o, &g->c.data.v[i], true, e);
	return rc;
}

int tool_bucket_gc(int argc, char **argv)
{
	static const char name[] = "bucket gc";
	struct bucket_gc g = { .remove = false };
	struct bucket_flags f = { 0 };
	struct opt flags[] = { BUCKET_FLAGS(f),
			       { "remove", OPT_BOOL, &g.remove, NULL, "Remove them; without it they are only listed." } };
	struct tool_bucket b;
	struct err e;
	char id[SERVER_ID_MAX + 1];
	int words, status;
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!bucket_no_words(name, words))
		return TOOL_USAGE;
	int rc = tool_bucket_open(&b, &f, &e);
	if (!rc)
		rc = bucket_choose_id(&b, &f, id, &e);
	g.before_ms = clock_now_ms() - b.config.grace_ms;
	if (!rc)
		rc = contents_read(&g.c, b.objects, id, false, &e);
	if (!rc)
		rc = gc_all(&g, b.objects, &e);
	if (!rc)
		printf("%s: %" PRIu64 " objects, %" PRIu64 " bytes that no newest generation names%s; %" PRIu64 " more are younger than the grace time\n", id, g.n, g.bytes,
		       g.remove ? " were removed" : g.n ? " (--remove removes them)" : "", g.younger);
	status = rc ? tool_fail(name, &e) : fflush(stdout) ? TOOL_FAILED : TOOL_OK;
	contents_release(&g.c);
	tool_bucket_close(&b);
	return status;
}
