/* SPDX-License-Identifier: Apache-2.0 */
#include "tsdb/log/holes.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/log.h"
#include "tsdb/disk/rocks.h"
#include "tsdb/disk/text.h"

#define HOLES_FILE "head.holes"
#define HOLES_COPY "head.holes.copy"
#define HOLES_HEAD "pyrrha-head-holes 1"
#define HOLES_MOST 1024 /* above it neighbours are joined */
#define HOLES_MAX_BYTES ((size_t)1 << 20)

void holes_init(struct holes *h)
{
	mutex_init(&h->lock, LOCK_LEAF, "holes");
	atomic_init(&h->n_harmful, 0);
}

void holes_destroy(struct holes *h)
{
	vec_free(&h->v);
	mutex_destroy(&h->lock);
}

static bool hole_is_harmful(const struct hole *x)
{
	return x->after_ms < x->until_ms;
}

static void holes_count(struct holes *h) REQUIRES(h->lock)
{
	size_t n = 0;
	for (size_t i = 0; i < h->v.n; i++)
		n += hole_is_harmful(&h->v.v[i]);
	atomic_store(&h->n_harmful, n);
}

/* ---- the list ---- */

static int hole_by_first(const void *a, const void *b)
{
	const struct hole *x = a, *y = b;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->after_ms > y->after_ms) - (x->after_ms < y->after_ms);
}

/* The two become one: of records and of time it covers what both did and what lies between. */
static void hole_join(struct hole *a, const struct hole *b)
{
	if (!hole_is_harmful(a) || !hole_is_harmful(b)) {
		const struct hole *x = hole_is_harmful(a) ? a : b;
		a->after_ms = x->after_ms;
		a->until_ms = x->until_ms;
	} else {
		a->after_ms = MIN(a->after_ms, b->after_ms);
		a->until_ms = MAX(a->until_ms, b->until_ms);
	}
	a->last = MAX(a->last, b->last);
	a->found_ms = MAX(a->found_ms, b->found_ms);
}

/* Too many: every second one becomes a part of the one before it. */
static void holes_condense(struct holes *h) REQUIRES(h->lock)
{
	size_t n = 0;
	for (size_t i = 0; i < h->v.n; i += 2) {
		struct hole x = h->v.v[i];
		if (i + 1 < h->v.n)
			hole_join(&x, &h->v.v[i + 1]);
		h->v.v[n++] = x;
	}
	h->v.n = n;
}

static void holes_put(struct holes *h, const struct hole *x) REQUIRES(h->lock)
{
	vec_push(&h->v, *x);
	qsort(h->v.v, h->v.n, sizeof *h->v.v, hole_by_first);
	if (h->v.n > HOLES_MOST)
		holes_condense(h);
	holes_count(h);
}

void holes_add(struct holes *h, const struct hole *x)
{
	mutex_lock(&h->lock);
	holes_put(h, x);
	h->unwritten = true;
	mutex_unlock(&h->lock);
}

bool holes_has_records(struct holes *h, uint64_t first, uint64_t last)
{
	bool has = false;
	mutex_lock(&h->lock);
	for (size_t i = 0; i < h->v.n && !has; i++)
		has = h->v.v[i].first <= first && h->v.v[i].last >= last;
	mutex_unlock(&h->lock);
	return has;
}

bool holes_has_time(struct holes *h, int64_t after_ms, int64_t until_ms)
{
	bool has = false;
	mutex_lock(&h->lock);
	for (size_t i = 0; i < h->v.n && !has; i++)
		has = h->v.v[i].after_ms <= after_ms && h->v.v[i].until_ms >= until_ms;
	mutex_unlock(&h->lock);
	return has;
}

void holes_forget(struct holes *h, int64_t until_ms, uint64_t first)
{
	size_t n = 0;
	mutex_lock(&h->lock);
	for (size_t i = 0; i < h->v.n; i++) {
		const struct hole *x = &h->v.v[i];
		if (hole_is_harmful(x) ? x->until_ms > until_ms : x->last >= first)
			h->v.v[n++] = *x;
	}
	h->unwritten |= n != h->v.n;
	h->v.n = n;
	holes_count(h);
	mutex_unlock(&h->lock);
}

void holes_note(struct holes *h, int64_t after_ms, int64_t until_ms, struct source_damage *d)
{
	if (!atomic_load(&h->n_harmful))
		return;
	mutex_lock(&h->lock);
	for (size_t i = 0; i < h->v.n; i++) {
		const struct hole *x = &h->v.v[i];
		if (hole_is_harmful(x) && x->after_ms < until_ms && x->until_ms > after_ms)
			source_damage_add(d, x->after_ms, x->until_ms);
	}
	mutex_unlock(&h->lock);
}

struct hole *holes_list(struct holes *h, size_t *ret_n)
{
	mutex_lock(&h->lock);
	struct hole *out = xcalloc(h->v.n + 1, sizeof *out);
	*ret_n = 0;
	for (size_t i = 0; i < h->v.n; i++)
		if (hole_is_harmful(&h->v.v[i]))
			out[(*ret_n)++] = h->v.v[i];
	mutex_unlock(&h->lock);
	return out;
}

/* ---- the files ---- */

static bool holes_parse(struct holes *h, struct view text) REQUIRES(h->lock)
{
	struct view lines, line;
	int64_t n[5];
	h->v.n = 0;
	bool ok = text_checked(text, HOLES_HEAD, &lines);
	while (ok && text_line(&lines, &line)) {
		ok = text_numbers(line, "records # to # after # until # found #", n);
		if (ok)
			vec_push(&h->v, (struct hole){ (uint64_t)n[0], (uint64_t)n[1], n[2], n[3], n[4] });
	}
	return ok;
}

enum holes_state { HOLES_ABSENT, HOLES_WHOLE, HOLES_DAMAGED };

/* A damaged file is HOLES_DAMAGED. Returns an error if reading failed for a reason that may pass (permissions, memory, descriptors). */
static int holes_read_file(struct holes *h, const char *dir, const char *name, enum holes_state *ret, struct err *e) REQUIRES(h->lock)
{
	AUTOFREE char *path = xasprintf("%s/%s", dir, name);
	CLEANUP(buf_free) struct buf b = { .max = HOLES_MAX_BYTES };
	struct err why = { 0 };
	int rc = buf_read_file(&b, path, &why);
	*ret = rc == -ERR_NOT_FOUND ? HOLES_ABSENT : !rc && holes_parse(h, buf_view(&b)) ? HOLES_WHOLE : HOLES_DAMAGED;
	if (rc && rocks_of_the_place(&why)) {
		*e = why;
		return rc;
	}
	if (*ret == HOLES_DAMAGED)
		LOG_WARN("msg", "a file that says which records the head log has lost is damaged", "file", path, "err", why.msg);
	return 0;
}

static int holes_read_files(struct holes *h, const char *dir, int64_t now_ms, struct err *e) REQUIRES(h->lock)
{
	enum holes_state copy, file;
	int rc = holes_read_file(h, dir, HOLES_COPY, &copy, e);
	if (!rc)
		rc = holes_read_file(h, dir, HOLES_FILE, &file, e);
	if (!rc && file != HOLES_WHOLE) {
		h->v.n = 0;
		rc = holes_read_file(h, dir, HOLES_COPY, &copy, e);
	}
	if (rc)
		return rc;
	if (file != HOLES_WHOLE && copy != HOLES_WHOLE) {
		h->v.n = 0;
		if (file || copy) /* there were some, and nothing says which */
			holes_put(h, &(struct hole){ 0, 0, 0, now_ms, now_ms });
	}
	h->unwritten = file != copy || file == HOLES_DAMAGED;
	holes_count(h);
	return 0;
}

int holes_read(struct holes *h, const char *dir, int64_t now_ms, struct err *e)
{
	mutex_lock(&h->lock);
	int rc = holes_read_files(h, dir, now_ms, e);
	mutex_unlock(&h->lock);
	return rc;
}

static int holes_remove(const char *dir, const char *name, struct err *e)
{
	AUTOFREE char *path = xasprintf("%s/%s", dir, name);
	return unlink(path) && errno != ENOENT ? err_errno(e, errno, "cannot remove %s", path) : 0;
}

static void holes_text(struct holes *h, struct buf *b)
{
	buf_puts(b, HOLES_HEAD "\n");
	for (size_t i = 0; i < h->v.n; i++) {
		const struct hole *x = &h->v.v[i];
		buf_printf(b, "records %" PRIu64 " to %" PRIu64 " after %" PRId64 " until %" PRId64 " found %" PRId64 "\n", x->first, x->last, x->after_ms,
			   x->until_ms, x->found_ms);
	}
	text_put_checksum(b, 0);
}

int holes_write(struct holes *h, const char *dir, struct err *e)
{
	static const char *const names[] = { HOLES_FILE, HOLES_COPY };
	CLEANUP(buf_free) struct buf b = { .max = HOLES_MAX_BYTES };
	mutex_lock(&h->lock);
	bool any = h->v.n > 0;
	holes_text(h, &b);
	mutex_unlock(&h->lock);
	int rc = b.overflow ? err_set(e, ERR_LIMIT, "too many records of the head log are lost") : 0;
	for (size_t i = 0; i < ARRAY_LEN(names) && !rc; i++)
		rc = any ? files_put(dir, names[i], buf_view(&b), e) : holes_remove(dir, names[i], e);
	return rc;
}

int holes_sync(struct holes *h, const char *dir, struct err *e)
{
	mutex_lock(&h->lock);
	bool unwritten = h->unwritten;
	h->unwritten = false;
	mutex_unlock(&h->lock);
	int rc = unwritten ? holes_write(h, dir, e) : 0;
	if (rc) {
		mutex_lock(&h->lock);
		h->unwritten = true;
		mutex_unlock(&h->lock);
	}
	return rc;
}
