/* SPDX-License-Identifier: Apache-2.0 */
#include "web/pins.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/json.h"
#include "base/lock.h"
#include "base/num.h"
#include "base/vec.h"

#define PROFILE ".pb.gz"
#define NOTE ".json"
#define NOTE_MAX ((size_t)256 << 10)

/* One that is there, or that is being made or removed. */
struct entry {
	char id[PIN_ID_LEN + 1];
	bool ready;
	int64_t created_ms;
	uint64_t bytes; /* of both files */
	char *note;     /* owned: the JSON object, without its id and bytes */
};

struct pins {
	char *dir;
	size_t max;
	uint64_t max_bytes;
	struct mutex lock;    /* guards what follows */
	VEC(struct entry) entries;
	uint64_t bytes;
};

static bool is_id(struct view v)
{
	for (size_t i = 0; i < v.len; i++)
		if (!((v.ptr[i] >= '0' && v.ptr[i] <= '9') || (v.ptr[i] >= 'a' && v.ptr[i] <= 'f')))
			return false;
	return v.len == PIN_ID_LEN;
}

static char *path_of(const struct pins *p, const char *id, const char *suffix)
{
	return xasprintf("%s/%s%s", p->dir, id, suffix);
}

static struct entry *find(struct pins *p, struct view id) REQUIRES(p->lock)
{
	for (size_t i = 0; i < p->entries.n; i++)
		if (view_eqs(id, p->entries.v[i].id))
			return &p->entries.v[i];
	return NULL;
}

static void drop(struct pins *p, struct entry *x) REQUIRES(p->lock)
{
	p->bytes -= x->bytes;
	free(x->note);
	*x = p->entries.v[--p->entries.n];
}

/* ---- what is there when it is opened ---- */

static int64_t size_of(const struct pins *p, const char *id, const char *suffix)
{
	char *path AUTOFREE = path_of(p, id, suffix);
	struct stat st;
	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

/* A pin with an unreadable note has no description: it can be viewed, and removed. */
static void read_note(const struct pins *p, struct entry *x)
{
	char *path AUTOFREE = path_of(p, x->id, NOTE);
	struct buf b CLEANUP(buf_free) = { .max = NOTE_MAX };
	json_t *note = buf_read_file(&b, path, NULL) ? NULL : json_loadb(b.ptr ? b.ptr : "", b.len, JSON_ALLOW_NUL, NULL);
	if (json_is_object(note)) {
		x->created_ms = json_integer_value(json_object_get(note, "createdMs"));
		char *text = json_dumps(note, JSON_COMPACT);
		x->note = xstrdup(text ? text : "{}");
		free(text);
	} else {
		x->note = xstrdup("{}");
	}
	json_decref(note);
}

static int take_in(void *arg, const char *name, struct err *e)
{
	struct pins *p = arg;
	(void)e;
	struct view v = view_of(name), id = view_make(name, MIN(v.len, (size_t)PIN_ID_LEN));
	if (!is_id(id) || !view_eqs(view_make(name + id.len, v.len - id.len), NOTE))
		return 0;
	struct entry x = { .ready = true };
	memcpy(x.id, id.ptr, PIN_ID_LEN);
	int64_t profile = size_of(p, x.id, PROFILE), note = size_of(p, x.id, NOTE);
	if (profile < 0 || note < 0)
		return 0;
	x.bytes = (uint64_t)profile + (uint64_t)note;
	read_note(p, &x);
	p->bytes += x.bytes;
	vec_push(&p->entries, x);
	return 0;
}

/* Our own files that belong to no pin; others are not touched. */
static int clean(void *arg, const char *name, struct err *e)
{
	struct pins *p = arg;
	(void)e;
	struct view v = view_of(name), id = view_make(name, MIN(v.len, (size_t)PIN_ID_LEN)), rest = view_make(name + id.len, v.len - id.len);
	mutex_lock(&p->lock);
	bool known = find(p, id);
	mutex_unlock(&p->lock);
	bool whole = view_eqs(rest, PROFILE) || view_eqs(rest, NOTE), part = view_eqs(rest, PROFILE ".new") || view_eqs(rest, NOTE ".new");
	if (is_id(id) && (part || (whole && !known))) {
		char *path AUTOFREE = xasprintf("%s/%s", p->dir, name);
		unlink(path);
	}
	return 0;
}

int pins_open(struct pins **ret, const struct pins_options *o, struct err *e)
{
	int rc = files_make_dirs(o->dir, e);
	if (rc)
		return rc;
	struct pins *p = NEW(struct pins);
	p->dir = xstrdup(o->dir);
	p->max = o->max;
	p->max_bytes = o->max_bytes;
	mutex_init(&p->lock, LOCK_LEAF, "pins");
	rc = files_each(p->dir, take_in, p, e);
	if (!rc)
		rc = files_each(p->dir, clean, p, e);
	if (rc)
		pins_close(p);
	else
		*ret = p;
	return rc;
}

void pins_close(struct pins *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->entries.n; i++)
		free(p->entries.v[i].note);
	vec_free(&p->entries);
	mutex_destroy(&p->lock);
	free(p->dir);
	free(p);
}

/* ---- adding ---- */

static char *note_of(const struct pin *pin)
{
	struct buf b = { 0 };
	json_object_begin(&b);
	json_field(&b, "name", pin->name);
	json_field(&b, "query", pin->query);
	json_field(&b, "type", pin->type);
	json_field_int(&b, "timeMs", pin->t_ms);
	json_key(&b, "seconds");
	json_decimals(&b, isfinite(pin->seconds) ? pin->seconds : 0, 3);
	json_field_int(&b, "createdMs", pin->created_ms);
	json_object_end(&b);
	return buf_take(&b, NULL);
}

static void draw_id(char ret[PIN_ID_LEN + 1])
{
	uint64_t bits;
	while (getrandom(&bits, sizeof bits, 0) != sizeof bits)
		if (errno != EINTR)
			abort(); /* as for logins: there are no random numbers */
	snprintf(ret, PIN_ID_LEN + 1, "%016llx", (unsigned long long)bits);
}

/* Its place is taken before it is written: pins that are made at a time are within the bounds together. */
static int reserve(struct pins *p, const struct entry *x, struct err *e)
{
	int rc = 0;
	mutex_lock(&p->lock);
	if (p->entries.n >= p->max)
		rc = err_set(e, ERR_LIMIT, "%zu profiles are pinned, and more may not be (--web.max-pins): remove some", p->entries.n);
	else if (x->bytes > p->max_bytes || p->bytes > p->max_bytes - x->bytes)
		rc = err_set(e, ERR_LIMIT, "this pin has %llu bytes, the existing ones %llu: all may have %llu (--web.max-pin-bytes). Remove some",
			     (unsigned long long)x->bytes, (unsigned long long)p->bytes, (unsigned long long)p->max_bytes);
	else {
		p->bytes += x->bytes;
		vec_push(&p->entries, *x);
	}
	mutex_unlock(&p->lock);
	return rc;
}

static int put(struct pins *p, const char *id, const char *suffix, struct view bytes, struct err *e)
{
	char *name AUTOFREE = xasprintf("%s%s", id, suffix);
	return files_put(p->dir, name, bytes, e);
}

static void remove_files(struct pins *p, const char *id)
{
	char *profile AUTOFREE = path_of(p, id, PROFILE), *note AUTOFREE = path_of(p, id, NOTE);
	unlink(note);
	unlink(profile);
}

int pins_add(struct pins *p, const struct pin *pin, struct view profile, char ret_id[PIN_ID_LEN + 1], struct err *e)
{
	if (pin->query.len > PIN_TEXT_MAX || pin->name.len > PIN_TEXT_MAX)
		return err_set(e, ERR_LIMIT, "the query or the name of a pin is longer than %zu bytes", PIN_TEXT_MAX);
	struct entry x = { .created_ms = pin->created_ms, .note = note_of(pin) };
	char id[PIN_ID_LEN + 1];
	size_t note_len = strlen(x.note);
	char *note AUTOFREE = xstrdup(x.note); /* the entry may be gone before it is written: somebody removed it */
	draw_id(x.id);
	memcpy(id, x.id, sizeof id);
	x.bytes = profile.len + note_len;
	int rc = reserve(p, &x, e);
	if (rc) {
		free(x.note);
		return rc;
	}
	rc = put(p, id, PROFILE, profile, e);
	if (!rc)
		rc = put(p, id, NOTE, view_make(note, note_len), e);
	mutex_lock(&p->lock);
	struct entry *mine = find(p, view_of(id));
	if (rc)
		drop(p, mine);
	else
		mine->ready = true;
	mutex_unlock(&p->lock);
	if (rc) {
		remove_files(p, id);
		return err_wrap(e, "the profile was not pinned");
	}
	memcpy(ret_id, id, sizeof id);
	return 0;
}

/* ---- what is there ---- */

static int none(struct view id, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "there is no pin \"%.*s\"", VIEW_ARG(view_make(id.ptr, MIN(id.len, (size_t)100))));
}

int pins_remove(struct pins *p, struct view id, struct err *e)
{
	char name[PIN_ID_LEN + 1] = "";
	mutex_lock(&p->lock);
	struct entry *x = is_id(id) ? find(p, id) : NULL;
	if (x && x->ready) {
		memcpy(name, x->id, sizeof name);
		x->ready = false; /* no other thread removes it now; its bytes count until it is gone */
	}
	mutex_unlock(&p->lock);
	if (!name[0])
		return none(id, e);
	/* Without its note it is no pin any more, also after a crash. */
	char *note AUTOFREE = path_of(p, name, NOTE);
	int rc = unlink(note) && errno != ENOENT ? err_errno(e, errno, "cannot remove %s", note) : files_sync_dir(p->dir, e);
	if (!rc)
		remove_files(p, name);
	mutex_lock(&p->lock);
	x = find(p, view_of(name));
	if (rc)
		x->ready = true;
	else
		drop(p, x);
	mutex_unlock(&p->lock);
	return rc;
}

int pins_read(struct pins *p, struct view id, int *ret_fd, uint64_t *ret_size, struct err *e)
{
	char name[PIN_ID_LEN + 1] = "";
	struct stat st;
	mutex_lock(&p->lock);
	struct entry *x = is_id(id) ? find(p, id) : NULL;
	if (x && x->ready)
		memcpy(name, x->id, sizeof name);
	mutex_unlock(&p->lock);
	if (!name[0])
		return none(id, e);
	char *path AUTOFREE = path_of(p, name, PROFILE);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		int rc = fd < 0 ? err_errno(e, errno, "cannot read %s", path) : err_set(e, ERR_CORRUPT, "%s is not a file", path);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	*ret_fd = fd;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

static void put_entry(const struct entry *x, struct buf *out)
{
	json_object_begin(out);
	json_field_text(out, "id", x->id);
	json_field_count(out, "bytes", x->bytes);
	if (x->note[1] == '}')
		json_object_end(out);
	else
		json_raw(out, view_of(x->note + 1)); /* and the end */
}

int pins_json(struct pins *p, struct view id, struct buf *out, struct err *e)
{
	mutex_lock(&p->lock);
	const struct entry *x = find(p, id);
	bool there = x && x->ready;
	if (there)
		put_entry(x, out);
	mutex_unlock(&p->lock);
	return there ? 0 : none(id, e);
}

static int newest_first(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	return x->created_ms != y->created_ms ? (x->created_ms < y->created_ms) - (x->created_ms > y->created_ms) : strcmp(x->id, y->id);
}

size_t pins_text(struct pins *p)
{
	size_t n = 0;
	mutex_lock(&p->lock);
	for (size_t i = 0; i < p->entries.n; i++)
		n += p->entries.v[i].note ? strlen(p->entries.v[i].note) : 0;
	mutex_unlock(&p->lock);
	return n;
}

void pins_list(struct pins *p, struct buf *out)
{
	mutex_lock(&p->lock);
	if (p->entries.n)
		qsort(p->entries.v, p->entries.n, sizeof *p->entries.v, newest_first);
	json_object_begin(out);
	json_field_count(out, "max", p->max);
	json_field_count(out, "maxBytes", p->max_bytes);
	json_field_count(out, "bytes", p->bytes);
	json_array_begin_at(out, "pins");
	for (size_t i = 0; i < p->entries.n; i++)
		if (p->entries.v[i].ready)
			put_entry(&p->entries.v[i], out);
	mutex_unlock(&p->lock);
	json_array_end(out);
	json_object_end(out);
}
