/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a backlog: the next round. A segment is held in memory while it is read, because its blocks refer to series that earlier
 * ones define. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "remote/backlog_internal.h"

/* The first one from `sequence` on; NULL: there is none. */
static const struct backlog_segment *segment_from(const struct backlog *b, uint64_t sequence)
{
	for (size_t i = 0; i < b->segments.n; i++)
		if (b->segments.v[i].h.sequence >= sequence)
			return &b->segments.v[i];
	return NULL;
}

/* Brings what was synced since into memory. */
static int load_more(struct backlog *b, const struct backlog_segment *s, struct err *e)
{
	struct backlog_reading *r = &b->reading;
	AUTOFREE char *path = backlog_path(b, s->h.sequence);
	if (r->bytes.len >= s->bytes)
		return 0;
	r->bytes.max = SEGMENT_FILE_MAX;
	if (s->bytes > SEGMENT_FILE_MAX || !buf_reserve(&r->bytes, (size_t)s->bytes - r->bytes.len))
		return err_set(e, ERR_LIMIT, "%s is too large", path);
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
	if (fd < 0)
		return err_errno(e, errno, "cannot read %s", path);
	while (!rc && r->bytes.len < s->bytes) {
		ssize_t n = pread(fd, r->bytes.ptr + r->bytes.len, (size_t)s->bytes - r->bytes.len, (off_t)r->bytes.len);
		if (n > 0)
			r->bytes.len += (size_t)n;
		else if (!n)
			rc = err_set(e, ERR_CORRUPT, "%s is shorter than it was", path);
		else if (errno != EINTR)
			rc = err_errno(e, errno, "cannot read %s", path);
	}
	close(fd);
	r->reader.max_series = r->bytes.len / 2;
	return rc;
}

static int begin_segment(struct backlog *b, const struct backlog_segment *s, struct err *e)
{
	struct backlog_reading *r = &b->reading;
	backlog_reading_release(r);
	segment_reader_init(&r->reader, 0);
	r->sequence = s->h.sequence;
	r->at = position_of(s);
	r->offset = SEGMENT_HEADER;
	return load_more(b, s, e);
}

/* Decodes the next block that is sound. */
static bool next_block(struct backlog_reading *r)
{
	struct view payload;
	size_t at;
	while (segment_next(buf_view(&r->bytes), r->sequence, &r->offset, &at, &payload)) {
		r->in_block = !segment_get_block(&r->reader, payload, &r->block, NULL);
		r->at.offset = at;
		r->at.index = 0;
		if (r->in_block)
			return true;
	}
	return false;
}

/* To a place that was noted; what is there no more is passed over. */
static int seek(struct backlog *b, const struct position *to, uint64_t *lost, struct err *e)
{
	struct backlog_reading *r = &b->reading;
	const struct backlog_segment *s = segment_from(b, to->sequence);
	if (!s)
		return err_set(e, ERR_NOT_FOUND, "segment %" PRIu64 " of %s is not there", to->sequence, b->dir);
	int rc = begin_segment(b, s, e);
	if (rc)
		return rc;
	if (s->h.sequence > to->sequence) {
		*lost += s->h.samples - MIN(to->samples, s->h.samples);
		return 0;
	}
	while (r->offset <= to->offset && next_block(r))
		;
	if (r->at.offset < to->offset) /* it was behind all that there is yet */
		r->in_block = false;
	r->at.samples = to->samples;
	if (r->in_block && r->at.offset == to->offset)
		r->at.index = MIN(to->index, r->block.samples.n);
	return 0;
}

static size_t label_bytes(struct labels l)
{
	size_t n = 0;
	for (size_t i = 0; i < l.n; i++)
		n += l.v[i].name.len + l.v[i].value.len + 8;
	return n;
}

static void take_sample(struct backlog_reading *r, struct backlog_floats *to, size_t *bytes, uint64_t *lost)
{
	const struct segment_sample *x = &r->block.samples.v[r->at.index++];
	struct labels l = r->reader.series.v[x->series];
	r->at.samples++;
	if (l.n)
		vec_push(to, (struct sink_float){ l, x->t_ms, value_from_bits(x->bits) });
	else
		(*lost)++;
	*bytes += label_bytes(l);
}

/* 1: a block was read, 0: there is none for now. */
static int go_on(struct backlog *b, const struct backlog_floats *to, uint64_t *lost, struct err *e)
{
	struct backlog_reading *r = &b->reading;
	const struct backlog_segment *s = segment_from(b, r->sequence);
	int rc = s && s->h.sequence == r->sequence ? load_more(b, s, e) : 0;
	if (rc || next_block(r))
		return rc ? rc : 1;
	s = segment_from(b, r->sequence + 1);
	if (!s || to->n)
		return 0; /* labels are borrowed of this one */
	*lost += s->h.samples - MIN(r->at.samples, s->h.samples);
	rc = begin_segment(b, s, e);
	return rc ? rc : 1;
}

/* It is damaged: what is behind it is sent. Other errors may pass. */
static void pass_over(struct backlog *b, uint64_t *lost, const struct err *e)
{
	const struct backlog_segment *next = segment_from(b, b->reading.sequence + 1);
	if (e->code == ERR_IO || e->code == ERR_DENIED)
		return;
	LOG_WARN("msg", "a segment of a remote-write queue is damaged", "err", e->msg);
	if (!next) {
		backlog_end_segment(b); /* there will be one */
		return;
	}
	*lost += next->h.samples - MIN(b->reading.at.samples, next->h.samples);
	b->at = position_of(next);
	b->unsaved = true;
	backlog_reading_release(&b->reading);
}

int backlog_next(struct backlog *b, size_t most, size_t max_bytes, unsigned *parts, struct backlog_floats *to, uint64_t *ret_lost, struct err *e)
{
	struct backlog_reading *r = &b->reading;
	assert(!b->round);
	*ret_lost = 0;
	uint64_t begin = b->at.samples, limit = b->again ? b->until.samples - begin : most;
	size_t bytes = 0;
	int rc = r->sequence && !position_cmp(&r->at, &b->at) ? 0 : seek(b, &b->at, ret_lost, e);
	if (b->again)
		*parts = b->parts;
	while (!rc && r->at.samples - begin < limit && (b->again || bytes < max_bytes)) {
		if (r->in_block && r->at.index < r->block.samples.n)
			take_sample(r, to, &bytes, ret_lost);
		else if ((rc = go_on(b, to, ret_lost, e)) <= 0)
			break;
		else
			rc = 0;
	}
	if (rc) {
		pass_over(b, ret_lost, e);
		return rc;
	}
	b->until = r->at;
	b->round = position_cmp(&b->at, &b->until) != 0;
	b->again = b->again && to->n;
	if (b->round && !to->n)
		backlog_done(b); /* nothing of it is left */
	return 0;
}
