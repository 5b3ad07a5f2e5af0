/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/backlog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/files.h"
#include "base/log.h"
#include "base/map.h"
#include "base/num.h"
#include "remote/backlog_internal.h"

#define MAX_BYTES ((uint64_t)1 << 30)
#define SEGMENT_BYTES ((uint64_t)8 << 20)
#define BLOCK_BYTES ((size_t)256 << 10)

char *backlog_path(const struct backlog *b, uint64_t sequence)
{
	return xasprintf("%s/%010" PRIu64 ".segment", b->dir, sequence);
}

/* ---- how far it was sent ---- */

static void print_position(struct buf *out, const struct backlog *b)
{
	const struct position *at = &b->at, *until = b->round || b->again ? &b->until : &b->at;
	buf_printf(out, "pyrrha-remote-position 1\nat %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", at->sequence, at->offset, at->index,
		   at->samples);
	buf_printf(out, "until %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " parts %u\n", until->sequence, until->offset, until->index,
		   until->samples, b->round || b->again ? b->parts : 0);
	buf_printf(out, "checksum %016" PRIx64 "\n", hash_stable_view(buf_view(out)));
}

/* The next word of a text, up to a space or a line's end. */
static struct view next_word(struct view *text)
{
	size_t n = 0;
	while (n < text->len && text->ptr[n] != ' ' && text->ptr[n] != '\n')
		n++;
	struct view word = view_make(text->ptr, n);
	*text = view_make(text->ptr + MIN(n + 1, text->len), text->len - MIN(n + 1, text->len));
	return word;
}

static bool scan_place(struct view *text, const char *key, struct position *ret)
{
	return view_eqs(next_word(text), key) && num_parse_u64(next_word(text), &ret->sequence) && num_parse_u64(next_word(text), &ret->offset) &&
	       num_parse_u64(next_word(text), &ret->index) && num_parse_u64(next_word(text), &ret->samples);
}

static bool scan_position(struct backlog *b, struct view text)
{
	char want[20];
	uint64_t parts;
	struct view rest = text;
	if (!view_eqs(next_word(&rest), "pyrrha-remote-position") || !view_eqs(next_word(&rest), "1") || !scan_place(&rest, "at", &b->at) ||
	    !scan_place(&rest, "until", &b->until) || !view_eqs(next_word(&rest), "parts") || !num_parse_u64(next_word(&rest), &parts))
		return false;
	b->parts = (unsigned)MIN(parts, (uint64_t)UINT32_MAX);
	snprintf(want, sizeof want, "%016" PRIx64, hash_stable(text.ptr, (size_t)(rest.ptr - text.ptr)));
	return view_eqs(next_word(&rest), "checksum") && view_eqs(next_word(&rest), want);
}

/* False: it is not there, or damaged. */
static bool read_position(struct backlog *b)
{
	struct err e = { 0 };
	struct buf text = { .max = 4096 };
	AUTOFREE char *path = xasprintf("%s/position", b->dir);
	bool ok = !buf_read_file(&text, path, &e) && text.len && scan_position(b, buf_view(&text));
	if (!ok && e.code != ERR_NOT_FOUND)
		LOG_WARN("msg", "how far a remote-write queue was sent is lost: all that it still has is sent again", "dir", b->dir);
	buf_free(&text);
	return ok;
}

int backlog_save(struct backlog *b, struct err *e)
{
	struct buf text = { 0 };
	if (!b->unsaved)
		return 0;
	print_position(&text, b);
	int rc = files_put(b->dir, "position", buf_view(&text), e);
	b->unsaved = rc != 0;
	buf_free(&text);
	return rc;
}

int backlog_intend(struct backlog *b, unsigned parts, struct err *e)
{
	b->parts = parts;
	b->unsaved = true;
	return backlog_save(b, e);
}

/* ---- segments come and go ---- */

static struct backlog_segment *last_segment(struct backlog *b)
{
	return b->segments.n ? &b->segments.v[b->segments.n - 1] : NULL;
}

static void forget_first(struct backlog *b)
{
	AUTOFREE char *path = backlog_path(b, b->segments.v[0].h.sequence);
	if (unlink(path) && errno != ENOENT)
		LOG_WARN("msg", "cannot remove a segment of a remote-write queue", "file", path, "err", strerror(errno));
	b->bytes -= b->segments.v[0].bytes;
	memmove(b->segments.v, b->segments.v + 1, --b->segments.n * sizeof *b->segments.v);
}

void backlog_end_segment(struct backlog *b)
{
	if (b->fd >= 0)
		close(b->fd);
	b->fd = -1;
}

/* The oldest one, and the samples of it that are neither sent nor on their way. */
static uint64_t drop_first(struct backlog *b)
{
	const struct position *sent = b->round ? &b->until : &b->at;
	uint64_t end = b->segments.v[1].h.samples, from = MAX(b->segments.v[0].h.samples, sent->samples);
	forget_first(b);
	return end > from ? end - from : 0;
}

/* After what came is on disk: what cannot be written costs nothing that is there already. */
static uint64_t make_room(struct backlog *b)
{
	uint64_t dropped = 0;
	while (b->segments.n > 1 && b->bytes > b->o.max_bytes)
		dropped += drop_first(b);
	const struct backlog_segment *first = &b->segments.v[0];
	if (b->at.sequence < first->h.sequence) {
		b->at = position_of(first);
		b->unsaved = true;
	}
	return dropped;
}

/* Begins a segment. Bytes that were written but could not be synced are gone: the file is created again. */
static int roll(struct backlog *b, struct err *e)
{
	struct buf head = { 0 };
	const struct segment_header h = { b->sequence + 1, b->number, b->samples };
	AUTOFREE char *path = backlog_path(b, h.sequence);
	backlog_end_segment(b);
	segment_put_header(&head, &h);
	b->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	int rc = b->fd < 0 || pwrite(b->fd, head.ptr, head.len, 0) != (ssize_t)head.len || fdatasync(b->fd)
			 ? err_errno(e, errno ? errno : ENOSPC, "cannot write %s", path) : files_sync_dir(b->dir, e);
	buf_free(&head);
	if (rc) {
		backlog_end_segment(b);
		unlink(path);
		return rc;
	}
	b->sequence = h.sequence;
	b->n_series = 0;
	b->bytes += SEGMENT_HEADER;
	vec_push(&b->segments, (struct backlog_segment){ .h = h, .bytes = SEGMENT_HEADER });
	return 0;
}

/* ---- appending ---- */

/* The series of some samples, as this segment has them; the block defines those that are new. */
static void take_samples(struct backlog *b, const struct backlog_sample *v, size_t n, struct backlog_writing *w)
{
	w->series.n = w->samples.n = 0;
	w->first_series = b->n_series;
	vec_reserve(&w->samples, n);
	size_t bytes = 0, i = 0;
	for (; i < n && bytes < BLOCK_BYTES; i++) {
		struct backlog_series *s = v[i].series;
		if (s->sequence != b->sequence) {
			s->sequence = b->sequence;
			s->id = b->n_series++;
			vec_push(&w->series, s->labels);
			for (size_t k = 0; k < s->labels.n; k++)
				bytes += s->labels.v[k].name.len + s->labels.v[k].value.len + 2;
		}
		bytes += 14;
		w->samples.v[w->samples.n++] = (struct segment_sample){ s->id, v[i].t_ms, value_bits(v[i].v) };
	}
}

static void encode(struct backlog *b, uint64_t number, const struct backlog_sample *v, size_t n, struct buf *out)
{
	struct backlog_writing *w = &b->writing;
	for (size_t done = 0; !done || done < n; done += MAX(w->samples.n, (size_t)1)) {
		take_samples(b, n ? v + done : v, n - done, w);
		const struct segment_block block = { .number = number, .complete = done + w->samples.n >= n, .first_series = w->first_series,
						     .series = w->series.v, .n_series = w->series.n, .samples = w->samples.v,
						     .n_samples = w->samples.n };
		segment_put_block(out, b->sequence, last_segment(b)->bytes + out->len, &block);
	}
}

static int write_all(int fd, struct view v, uint64_t offset)
{
	while (v.len) {
		ssize_t n = pwrite(fd, v.ptr, v.len, (off_t)offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -ENOSPC;
		v = view_make(v.ptr + n, v.len - (size_t)n);
		offset += (uint64_t)n;
	}
	return fdatasync(fd) ? -errno : 0;
}

/* All or nothing: a reader after a crash must not find bytes whose write was reported as failed. */
static int write_blocks(struct backlog *b, struct view v, struct err *e)
{
	struct backlog_segment *s = last_segment(b);
	int error = write_all(b->fd, v, s->bytes);
	if (!error)
		return 0;
	AUTOFREE char *path = backlog_path(b, s->h.sequence);
	if (ftruncate(b->fd, (off_t)s->bytes))
		LOG_WARN("msg", "cannot cut off what a failed write left", "file", path, "err", strerror(errno));
	backlog_end_segment(b); /* its series are not defined there: the next try begins another */
	if (s->bytes == SEGMENT_HEADER && b->segments.n > 1) {
		unlink(path);
		b->bytes -= s->bytes;
		b->segments.n--;
	}
	return err_errno(e, -error, "cannot write %s", path);
}

int backlog_append(struct backlog *b, uint64_t number, const struct backlog_sample *v, size_t n, uint64_t *ret_dropped, struct err *e)
{
	struct buf out = { 0 };
	*ret_dropped = 0;
	if (b->fd < 0 || last_segment(b)->bytes >= b->o.segment_bytes) {
		int rc = roll(b, e);
		if (rc)
			return rc;
	}
	encode(b, number, v, n, &out);
	int rc = out.overflow ? err_set(e, ERR_LIMIT, "the floats of one commit take more than %zu bytes", BUF_DEFAULT_MAX)
			      : write_blocks(b, buf_view(&out), e);
	if (!rc) {
		last_segment(b)->bytes += out.len;
		b->bytes += out.len;
		b->number = number;
		b->samples += n;
		*ret_dropped = make_room(b);
	}
	buf_free(&out);
	return rc;
}

/* ---- opening ---- */

static int note_file(void *arg, const char *name, struct err *e)
{
	struct backlog *b = arg;
	struct view v = view_of(name), end = VIEW(".segment");
	uint64_t sequence;
	(void)e;
	if (view_ends(v, end) && num_parse_u64(view_make(name, v.len - end.len), &sequence) && sequence)
		vec_push(&b->segments, (struct backlog_segment){ .h.sequence = sequence });
	return 0;
}

static int by_sequence(const void *a, const void *b)
{
	const struct backlog_segment *x = a, *y = b;
	return (x->h.sequence > y->h.sequence) - (x->h.sequence < y->h.sequence);
}

static int read_header(const struct backlog *b, struct backlog_segment *s, struct err *e)
{
	char head[SEGMENT_HEADER];
	struct stat st;
	uint64_t sequence = s->h.sequence;
	AUTOFREE char *path = backlog_path(b, sequence);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, head, sizeof head, 0);
	int saved = errno, rc;
	if (fd < 0 || n < 0 || fstat(fd, &st))
		rc = err_errno(e, saved, "cannot read %s", path);
	else
		rc = segment_get_header(view_make(head, (size_t)n), &s->h, e);
	if (!rc && s->h.sequence != sequence)
		rc = err_set(e, ERR_CORRUPT, "it is another segment");
	if (!rc)
		s->bytes = (uint64_t)st.st_size;
	s->h.sequence = sequence;
	if (fd >= 0)
		close(fd);
	return rc;
}

/* Blocks with a damaged header are dropped: the start of their sample numbers is unknown. */
static int read_headers(struct backlog *b, struct err *e)
{
	size_t kept = 0;
	for (size_t i = 0; i < b->segments.n; i++) {
		struct backlog_segment s = b->segments.v[i];
		int rc = read_header(b, &s, e);
		if (rc && rc != -ERR_CORRUPT)
			return rc;
		AUTOFREE char *path = backlog_path(b, s.h.sequence);
		b->sequence = s.h.sequence; /* not used again */
		if (rc) {
			if (i + 1 < b->segments.n)
				LOG_WARN("msg", "a segment of a remote-write queue is damaged, what it held is not sent", "file", path, "err", e->msg);
			unlink(path);
			continue;
		}
		b->segments.v[kept++] = s;
		b->bytes += s.bytes;
	}
	b->segments.n = kept;
	return 0;
}

/* How many samples of the last segment's block at `at` lie before a noted place: what that says of them counts damaged ones, too. */
static uint64_t samples_before(const struct position *p, const struct backlog_segment *s, size_t at, size_t n)
{
	if (p->sequence != s->h.sequence || at > p->offset)
		return 0;
	return at < p->offset ? n : MIN(p->index, (uint64_t)n);
}

/* The last one is read to its end: what is behind its last complete block was being written, and comes again. */
static int read_last(struct backlog *b, struct err *e)
{
	struct backlog_segment *s = last_segment(b);
	AUTOFREE char *path = backlog_path(b, s->h.sequence);
	struct buf bytes = { .max = SEGMENT_FILE_MAX };
	struct segment_reader r;
	struct segment_read block = { 0 };
	size_t offset = SEGMENT_HEADER, at, end = SEGMENT_HEADER, sound = SEGMENT_HEADER;
	uint64_t samples = 0, sent = s->h.samples, meant = s->h.samples;
	bool damaged = false;
	struct view payload;
	int rc = buf_read_file(&bytes, path, e);
	b->number = s->h.number;
	b->samples = s->h.samples;
	segment_reader_init(&r, bytes.len);
	while (!rc && segment_next(buf_view(&bytes), s->h.sequence, &offset, &at, &payload)) {
		damaged |= at != sound;
		if (segment_get_block(&r, payload, &block, NULL))
			continue;
		sound = offset;
		samples += block.samples.n;
		sent += samples_before(&b->at, s, at, block.samples.n);
		meant += samples_before(&b->until, s, at, block.samples.n);
		if (!block.complete)
			continue;
		end = offset;
		b->number = block.number;
		b->samples = s->h.samples + samples;
	}
	if (damaged) {
		LOG_WARN("msg", "a segment of a remote-write queue is damaged, what it held there is not sent", "file", path);
		b->at.samples = b->at.sequence == s->h.sequence ? sent : b->at.samples;
		b->until.samples = b->until.sequence == s->h.sequence ? meant : b->until.samples;
	}
	if (!rc && end < s->bytes && truncate(path, (off_t)end))
		rc = err_errno(e, errno, "cannot cut off the end of %s", path);
	if (!rc) {
		b->bytes -= s->bytes - end;
		s->bytes = end;
	}
	vec_free(&block.samples);
	segment_reader_release(&r);
	buf_free(&bytes);
	return rc;
}

/* Where sending continues, within the existing segments. */
static void find_position(struct backlog *b, bool known)
{
	const struct backlog_segment *first = &b->segments.v[0], *last = last_segment(b);
	if (!known || b->at.sequence < first->h.sequence || b->at.sequence > last->h.sequence) {
		b->at = position_of(first);
		b->parts = 0;
	}
	b->at.samples = MIN(b->at.samples, b->samples);
	b->again = b->parts > 0 && b->until.samples > b->at.samples;
}

int backlog_open(struct backlog **ret, const char *dir, const struct backlog_options *o, struct err *e)
{
	struct backlog *b = NEW(struct backlog);
	b->dir = xstrdup(dir);
	b->fd = -1;
	b->o.max_bytes = o->max_bytes ? o->max_bytes : MAX_BYTES;
	b->o.segment_bytes = MIN(o->segment_bytes ? o->segment_bytes : SEGMENT_BYTES, b->o.max_bytes / 8);
	int rc = files_make_dirs(dir, e);
	if (!rc)
		rc = files_each(dir, note_file, b, e);
	if (!rc && b->segments.n) {
		qsort(b->segments.v, b->segments.n, sizeof *b->segments.v, by_sequence);
		rc = read_headers(b, e);
	}
	bool known = !rc && b->segments.n && read_position(b);
	if (!rc && b->segments.n)
		rc = read_last(b, e);
	if (rc) {
		backlog_close(b);
		return rc;
	}
	if (b->segments.n)
		find_position(b, known);
	*ret = b;
	return 0;
}

void backlog_reading_release(struct backlog_reading *r)
{
	buf_free(&r->bytes);
	segment_reader_release(&r->reader);
	vec_free(&r->block.samples);
	*r = (struct backlog_reading){ 0 };
}

void backlog_close(struct backlog *b)
{
	if (!b)
		return;
	backlog_end_segment(b);
	backlog_reading_release(&b->reading);
	vec_free(&b->segments);
	vec_free(&b->writing.series);
	vec_free(&b->writing.samples);
	free(b->dir);
	free(b);
}

bool backlog_is_new(const struct backlog *b)
{
	return !b->segments.n;
}

int backlog_begin(struct backlog *b, uint64_t number, struct err *e)
{
	b->number = number;
	int rc = roll(b, e);
	if (!rc)
		b->at = position_of(last_segment(b));
	return rc;
}

uint64_t backlog_number(const struct backlog *b)
{
	return b->number;
}

uint64_t backlog_pending(const struct backlog *b)
{
	return b->samples - MIN(b->at.samples, b->samples);
}

uint64_t backlog_bytes(const struct backlog *b)
{
	return b->bytes;
}

/* ---- what was sent goes ---- */

void backlog_done(struct backlog *b)
{
	if (b->round && position_cmp(&b->at, &b->until) < 0)
		b->at = b->until;
	b->round = b->again = false;
	b->unsaved = true;
	while (b->segments.n > 1 && b->segments.v[0].h.sequence < b->at.sequence)
		forget_first(b);
}
