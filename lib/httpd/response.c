/* SPDX-License-Identifier: Apache-2.0 */
/* One response: status, headers, body; compression, CORS and the headers that keep a browser from doing more with
 * it than it should. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/units.h"
#include "httpd/internal.h"

#define SMALL_ANSWER ((size_t)1 << 20)
#define SPOOLED_LEAST ((size_t)4 << 20) /* bytes of an answer that become a file; a smaller one stays in memory */
#define SPOOLED_MOST ((size_t)64 << 20)
#define RETRY_SECONDS 5 /* Retry-After of an answer that others leave no room */
#define FILE_PIECE 65536 /* of a file, read and sent at once */

/* A page may load what this server serves and nothing else; everything that is not a page may load nothing. */
#define PAGE_POLICY "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " \
	"connect-src 'self'; worker-src 'self'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
#define OTHER_POLICY "default-src 'none'; frame-ancestors 'none'"

void httpd_status(struct httpd_request *rq, int status)
{
	rq->status = status;
}

void httpd_retry(struct httpd_request *rq)
{
	httpd_request_drop_header(rq, MHD_HTTP_HEADER_RETRY_AFTER);
	httpd_set_header(rq, MHD_HTTP_HEADER_RETRY_AFTER, "%d", RETRY_SECONDS);
}

void httpd_status_error(struct httpd_request *rq, const struct err *e)
{
	httpd_status(rq, err_info(e->code)->http);
	if (e->code == ERR_BUSY)
		httpd_retry(rq);
}

void httpd_type(struct httpd_request *rq, const char *content_type)
{
	rq->type = content_type;
}

void httpd_set_header(struct httpd_request *rq, const char *name, const char *fmt, ...)
{
	char *value;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&value, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	char *to = value;
	for (char *from = value; *from; from++)
		if ((unsigned char)*from >= ' ' && *from != 0x7f)
			*to++ = *from;
	*to = 0;
	__auto_type h = vec_add(&rq->headers);
	h->name = xstrdup(name);
	h->value = value;
}

void httpd_stage(struct httpd_request *rq, const char *name, int64_t ns)
{
	buf_printf(&rq->stages, "%s%s;dur=%.3f", rq->stages.len ? ", " : "", name, (double)MAX(ns, INT64_C(0)) / 1e6);
	rq->stage_ns = clock_mono_ns();
}

struct buf *httpd_out(struct httpd_request *rq)
{
	return &rq->out;
}

void httpd_set_page(struct httpd_request *rq)
{
	rq->is_page = true;
}

void httpd_no_compress(struct httpd_request *rq)
{
	rq->no_compress = true;
}

void httpd_out_gzip_file(struct httpd_request *rq)
{
	rq->is_gzip_file = true;
}

static void drop_packer(struct httpd_request *rq)
{
	if (rq->packer)
		packer_drop(rq->packer);
	rq->packer = NULL;
}

static void drop_spool(struct httpd_request *rq)
{
	spool_free(rq->spool);
	rq->spool = NULL;
}

void httpd_out_anew(struct httpd_request *rq)
{
	drop_packer(rq);
	drop_spool(rq);
	rq->is_gzip_file = false;
	buf_reset(&rq->out);
}

void httpd_text(struct httpd_request *rq, int status, const char *fmt, ...)
{
	char *text;
	va_list ap;
	va_start(ap, fmt);
	int n = vasprintf(&text, fmt, ap);
	va_end(ap);
	rq->status = status;
	rq->type = "text/plain; charset=utf-8";
	httpd_out_anew(rq);
	if (n >= 0) {
		buf_put(&rq->out, text, (size_t)n);
		buf_putc(&rq->out, '\n');
		free(text);
	}
}

void httpd_text_error(struct httpd_request *rq, const struct err *e)
{
	httpd_text(rq, err_info(e->code)->http, "%s", e->msg);
	httpd_status_error(rq, e);
}

void httpd_redirect(struct httpd_request *rq, int status, const char *location)
{
	httpd_text(rq, status, "see %s", location);
	httpd_set_header(rq, MHD_HTTP_HEADER_LOCATION, "%s", location);
}

static bool takes_gzip(const struct httpd_request *rq)
{
	return httpd_accepts(httpd_header(rq, MHD_HTTP_HEADER_ACCEPT_ENCODING), "gzip");
}

/* ---- assets ---- */

void httpd_asset_init(struct httpd_asset *a, const char *type, struct view body, bool immutable)
{
	*a = (struct httpd_asset){ .type = type, .body = body, .immutable = immutable };
	snprintf(a->etag, sizeof a->etag, "\"%016llx\"", (unsigned long long)hash_stable_view(body));
	char *gz;
	size_t n;
	if (body.len >= COMPRESS_LEAST && httpd_compress(HTTPD_GZIP, body, 9, &gz, &n))
		a->gzip = view_make(gz, n);
}

void httpd_asset_release(struct httpd_asset *a)
{
	free((char *)(uintptr_t)a->gzip.ptr);
	a->gzip = view_make(NULL, 0);
}

/* If-None-Match is a list, "*", and its tags may be weak ("W/"). */
static bool etag_known(struct view sent, const char *etag)
{
	return view_eqs(sent, "*") || (sent.len && memmem(sent.ptr, sent.len, etag, strlen(etag)));
}

void httpd_send_asset(struct httpd_request *rq, const struct httpd_asset *a)
{
	httpd_set_header(rq, MHD_HTTP_HEADER_ETAG, "%s", a->etag);
	httpd_set_header(rq, MHD_HTTP_HEADER_CACHE_CONTROL, a->immutable ? "public, max-age=31536000, immutable" :
			 "no-cache");
	rq->type = a->type;
	rq->no_compress = true;
	if (etag_known(httpd_header(rq, MHD_HTTP_HEADER_IF_NONE_MATCH), a->etag)) {
		rq->status = MHD_HTTP_NOT_MODIFIED;
		rq->bodyless = true;
		return;
	}
	struct view body = a->body;
	if (a->gzip.ptr) {
		httpd_set_header(rq, MHD_HTTP_HEADER_VARY, "Accept-Encoding");
		if (takes_gzip(rq)) {
			httpd_set_header(rq, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
			body = a->gzip;
		}
	}
	rq->answer_size = body.len;
	rq->response = MHD_create_response_from_buffer(body.len, (void *)(uintptr_t)body.ptr, MHD_RESPMEM_PERSISTENT);
}

/* A file that is sent; `spooled` bytes of it are counted in httpd.spooled. */
struct sent_file {
	struct httpd *httpd;
	int fd;
	uint64_t spooled;
};

static ssize_t read_file(void *arg, uint64_t at, char *to, size_t max)
{
	const struct sent_file *f = arg;
	ssize_t n = pread(f->fd, to, max, (off_t)at);
	return n > 0 ? n : MHD_CONTENT_READER_END_WITH_ERROR;
}

static void close_file(void *arg)
{
	struct sent_file *f = arg;
	close(f->fd);
	atomic_fetch_sub(&f->httpd->spooled, f->spooled);
	free(f);
}

/* Not from_fd: of a file that became shorter meanwhile it waits for the rest, for as long as a connection may be idle. */
static void send_file(struct httpd_request *rq, int fd, uint64_t size, uint64_t spooled)
{
	struct sent_file *arg = xmalloc(sizeof *arg);
	*arg = (struct sent_file){ .httpd = rq->httpd, .fd = fd, .spooled = spooled };
	rq->answer_size = size;
	rq->response = MHD_create_response_from_callback(size, FILE_PIECE, read_file, arg, close_file);
	if (!rq->response)
		close_file(arg);
}

void httpd_send_file(struct httpd_request *rq, int fd, uint64_t size)
{
	send_file(rq, fd, size, 0);
}

/* ---- the response itself ---- */

/* Data that crosses loopback or a LAN once should not wait for a better ratio. */
#define LEVEL 1
#define PACKED_BESIDE ((size_t)1 << 20) /* less is no work for several threads */

static bool takes_zstd(const struct httpd_request *rq)
{
	return httpd_accepts(httpd_header(rq, MHD_HTTP_HEADER_ACCEPT_ENCODING), "zstd");
}

static enum httpd_coding coding_of(const struct httpd_request *rq)
{
	if (rq->is_gzip_file)
		return HTTPD_GZIP;
	return rq->no_compress ? HTTPD_PLAIN : takes_zstd(rq) ? HTTPD_ZSTD : takes_gzip(rq) ? HTTPD_GZIP : HTTPD_PLAIN;
}

/* By the packer, if it is free. */
static bool packs_beside(struct httpd_request *rq)
{
	if (!rq->packer && !rq->spool && rq->out.len >= PACKED_BESIDE && !atomic_load(&rq->gives_way) && coding_of(rq) == HTTPD_ZSTD &&
	    packer_take(rq->httpd->packer, LEVEL))
		rq->packer = rq->httpd->packer;
	return rq->packer;
}

/* What the packer put out so far, if it is much. */
static int spool_packed(struct httpd_request *rq, struct err *e)
{
	struct buf packed CLEANUP(buf_free) = { 0 };
	if (!rq->httpd->spool_dir || !packer_take_out(rq->packer, &packed))
		return 0;
	if (!rq->spool)
		rq->spool = spool_new(rq->httpd, HTTPD_PLAIN, &rq->canceled);
	return spool_put(rq->spool, buf_view(&packed), false, e);
}

/* Memory is faster than a file, and compressing in one piece faster than in many: with more memory for answers, larger ones stay there. */
static size_t spooled_from(const struct httpd *h)
{
	return MAX(MIN(h->o.max_answers / 4, SPOOLED_MOST), SPOOLED_LEAST);
}

uint64_t httpd_out_in_memory(const struct httpd_request *rq)
{
	return rq->httpd->spool_dir ? 2 * spooled_from(rq->httpd) : 0;
}

int httpd_out_stays(struct httpd_request *rq, struct err *e)
{
	if (packs_beside(rq)) {
		if (!packer_feed(rq->packer, &rq->out, !rq->httpd->spool_dir))
			return err_set(e, ERR_UNAVAILABLE, "the answer could not be compressed");
		return spool_packed(rq, e);
	}
	if (!rq->spool && rq->httpd->spool_dir && rq->out.len >= spooled_from(rq->httpd))
		rq->spool = spool_new(rq->httpd, coding_of(rq), &rq->canceled);
	return rq->spool ? spool_feed(rq->spool, &rq->out, e) : 0;
}

/* ---- memory of answers ---- */

#define FULL_FROM ((size_t)64 << 10) /* an answer's buffer that has less room left is about to double */
#define MOVED_FROM ((size_t)256 << 10) /* from this size on, an answer that is still being written may be moved from its buffer to a file */

static void count_answer(struct httpd_request *rq, ptrdiff_t n)
{
	atomic_fetch_add(&rq->httpd->answers, (size_t)n);
	rq->answer_held += (size_t)n;
	httpd_metrics_held(HTTPD_ANSWERS, n);
}

/* Counts n bytes more of this answer. If all answers are too large together, drops those whose clients read nothing. Returns the bytes of all. */
static size_t hold_more(struct httpd_request *rq, size_t n)
{
	struct httpd *h = rq->httpd;
	int64_t now = clock_mono_ns();
	count_answer(rq, (ptrdiff_t)n);
	size_t all = atomic_load(&h->answers);
	for (size_t i = 0; i < h->listeners.n && all > h->o.max_answers; i++) {
		size_t freed;
		while (all > h->o.max_answers && (freed = slots_close_stuck(h->listeners.v[i].slots, now)))
			all -= MIN(freed, all);
	}
	return all;
}

static void unhold_answer(struct httpd_request *rq)
{
	count_answer(rq, -(ptrdiff_t)rq->answer_held);
}

/* Counts an answer that is in memory until its client has taken it. False: there is no room for it. Small ones are bounded by the number of
 * connections. Where there are no files for answers, one that is alone may be of any size. */
static bool hold_answer(struct httpd_request *rq, size_t n)
{
	const struct httpd *h = rq->httpd;
	size_t all = hold_more(rq, n);
	rq->answer_size = n;
	return all <= h->o.max_answers || (all == n && !h->spool_dir) || n < SMALL_ANSWER;
}

/* Counts `bytes` of an answer that is being made. False: there is no room for more than before. */
static bool announce(struct httpd_request *rq, size_t bytes)
{
	if (bytes <= MAX(rq->answer_held, SMALL_ANSWER))
		return true;
	size_t more = bytes - rq->answer_held;
	if (hold_more(rq, more) <= rq->httpd->o.max_answers)
		return true;
	count_answer(rq, -(ptrdiff_t)more);
	return false;
}

static int no_room(const struct httpd_request *rq, size_t bytes, struct err *e)
{
	char size[24], all[24];
	units_format_size(bytes, size);
	units_format_size(rq->httpd->o.max_answers, all);
	httpd_metrics_refused("answers");
	if (bytes > rq->httpd->o.max_answers)
		return err_set(e, ERR_LIMIT, "the answer takes %s of memory or more while it is made, and all answers together may have %s: ask for less", size, all);
	return err_set(e, ERR_BUSY, "the answer takes %s of memory or more while it is made, and other answers take what there is (%s in all): try again", size, all);
}

int httpd_out_needs(struct httpd_request *rq, size_t bytes, struct err *e)
{
	size_t all = MAX(rq->beside, bytes) + rq->out.cap;
	if (!announce(rq, all))
		return no_room(rq, all, e);
	rq->beside = MAX(rq->beside, bytes);
	return 0;
}

int httpd_out_grows(struct httpd_request *rq, struct err *e)
{
	struct buf *b = &rq->out;
	if (b->len < MOVED_FROM)
		return 0;
	int rc = httpd_out_stays(rq, e);
	size_t bytes = rq->beside + (b->cap - b->len < FULL_FROM ? 2 * b->cap : b->cap);
	if (rc || announce(rq, bytes))
		return rc;
	if (!rq->packer && !rq->spool) {
		if (!rq->httpd->spool_dir)
			return no_room(rq, bytes, e);
		rq->spool = spool_new(rq->httpd, coding_of(rq), &rq->canceled);
	}
	if (!rq->packer)
		rc = spool_feed(rq->spool, b, e);
	buf_trim(b);
	return rc;
}

static bool compress_in_memory(struct httpd_request *rq, enum httpd_coding coding, struct buf *ret)
{
	if (rq->is_gzip_file)
		return httpd_gzip_file(buf_view(&rq->out), LEVEL, ret);
	if (packer_has(rq->packer) || packs_beside(rq))
		return packer_end(rq->packer, buf_view(&rq->out), ret);
	if (!httpd_compress(coding, buf_view(&rq->out), LEVEL, &ret->ptr, &ret->len))
		return false;
	ret->cap = ret->len;
	return true;
}

/* The rest of a large answer goes into its file, which is the answer then. */
static int finish_spool(struct httpd_request *rq, struct err *e)
{
	uint64_t size;
	int rc = spool_put(rq->spool, buf_view(&rq->out), true, e);
	if (rc)
		return rc;
	int fd = spool_take(rq->spool, &size);
	drop_spool(rq);
	buf_free(&rq->out);
	send_file(rq, fd, size, size);
	return rq->response ? 0 : err_set(e, ERR_UNAVAILABLE, "there is no memory to send the answer");
}

static void fail_answer(struct httpd_request *rq, const struct err *e)
{
	httpd_request_drop_headers(rq); /* they are about the answer that was */
	if (e->code != ERR_CANCELED) /* the client has left */
		httpd_metrics_refused("answers");
	httpd_text_error(rq, e);
}

static void set_coding(struct httpd_request *rq, enum httpd_coding coding)
{
	if (coding != HTTPD_PLAIN && !rq->is_gzip_file)
		httpd_set_header(rq, MHD_HTTP_HEADER_CONTENT_ENCODING, coding == HTTPD_ZSTD ? "zstd" : "gzip");
}

/* Compresses the answer, or what is left of it; a large one becomes a file. */
static int compress_body(struct httpd_request *rq, struct err *e)
{
	enum httpd_coding coding = coding_of(rq);
	bool begun = packer_has(rq->packer) || rq->spool, must = begun || rq->is_gzip_file;
	if (!must && (rq->no_compress || rq->out.len < COMPRESS_LEAST))
		return 0;
	if (!rq->is_gzip_file)
		httpd_set_header(rq, MHD_HTTP_HEADER_VARY, "Accept-Encoding");
	if (!begun && coding != HTTPD_PLAIN && rq->httpd->spool_dir && rq->out.len >= 2 * spooled_from(rq->httpd))
		rq->spool = spool_new(rq->httpd, coding, &rq->canceled);
	if (rq->spool && !packer_has(rq->packer)) {
		set_coding(rq, coding);
		return finish_spool(rq, e);
	}
	struct buf packed = { 0 };
	if (coding == HTTPD_PLAIN || !compress_in_memory(rq, coding, &packed))
		return must ? err_set(e, ERR_UNAVAILABLE, "there is no memory to compress the answer") : 0;
	buf_free(&rq->out);
	rq->out = packed;
	set_coding(rq, coding);
	return rq->spool ? finish_spool(rq, e) : 0;
}

static void add_cors(struct httpd_request *rq)
{
	struct httpd *h = rq->httpd;
	if (!h->cors)
		return;
	struct view origin = httpd_header(rq, MHD_HTTP_HEADER_ORIGIN);
	if (!h->cors_any)
		httpd_set_header(rq, MHD_HTTP_HEADER_VARY, "Origin");
	if (!origin.len || (!h->cors_any && regex_match(h->cors, origin, NULL, NULL) != 1))
		return;
	httpd_set_header(rq, "Access-Control-Allow-Origin", "%.*s", h->cors_any ? 1 : (int)origin.len,
			 h->cors_any ? "*" : origin.ptr);
	httpd_set_header(rq, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
	httpd_set_header(rq, "Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Origin");
	httpd_set_header(rq, "Access-Control-Expose-Headers", "Date");
}

static void add_standing_headers(struct httpd_request *rq)
{
	bool page = rq->is_page || (rq->route && (rq->route->flags & HTTPD_PAGE));
	if (rq->status != MHD_HTTP_NO_CONTENT)
		httpd_set_header(rq, MHD_HTTP_HEADER_CONTENT_TYPE, "%s", rq->type);
	httpd_set_header(rq, "X-Content-Type-Options", "nosniff");
	httpd_set_header(rq, "Content-Security-Policy", "%s", page ? PAGE_POLICY : OTHER_POLICY);
	httpd_set_header(rq, "Cross-Origin-Resource-Policy", "same-origin");
	httpd_set_header(rq, "Referrer-Policy", "same-origin");
	if (page) {
		httpd_set_header(rq, "X-Frame-Options", "DENY");
		httpd_set_header(rq, "Cross-Origin-Opener-Policy", "same-origin");
	}
}

/* Those of the web configuration take the place of ours. */
static void add_configured_headers(struct httpd_request *rq)
{
	for (size_t i = 0; rq->web && i < rq->web->n_headers; i++) {
		const struct web_header *w = &rq->web->headers[i];
		httpd_request_drop_header(rq, w->name);
		httpd_set_header(rq, w->name, "%s", w->value);
	}
}

/* Answers in memory are too large together: this one is sent from a file. */
static void move_or_refuse(struct httpd_request *rq)
{
	struct err e = { 0 };
	unhold_answer(rq);
	if (rq->httpd->spool_dir) {
		rq->spool = spool_new(rq->httpd, HTTPD_PLAIN, &rq->canceled);
		if (!finish_spool(rq, &e))
			return;
	}
	buf_free(&rq->out);
	if (!e.code)
		err_set(&e, ERR_BUSY, "too many large answers wait for their clients; try again");
	fail_answer(rq, &e);
}

/* The bytes passed to the wait are the requested ones. */
static char *take_body(struct buf *b, size_t *ret_n)
{
	size_t cap = b->cap;
	char *body = buf_take(b, ret_n);
	return cap - *ret_n > 65536 ? xrealloc(body, *ret_n + 1) : body;
}

void httpd_response_build(struct httpd_request *rq)
{
	if (rq->out.overflow)
		httpd_text(rq, MHD_HTTP_UNPROCESSABLE_CONTENT, "the answer is larger than %zu bytes; ask for less",
			   rq->out.max ? rq->out.max : BUF_DEFAULT_MAX);
	bool timed = rq->stages.len > 0;
	if (timed)
		httpd_stage(rq, "encode", clock_mono_ns() - rq->stage_ns);
	struct err e = { 0 };
	if (!rq->response && !rq->bodyless && compress_body(rq, &e))
		fail_answer(rq, &e);
	drop_packer(rq);
	if (timed) {
		httpd_stage(rq, "compress", clock_mono_ns() - rq->stage_ns);
		httpd_set_header(rq, "Server-Timing", "%.*s", (int)rq->stages.len, rq->stages.ptr);
	}
	unhold_answer(rq);
	if (!rq->response && !hold_answer(rq, rq->out.len))
		move_or_refuse(rq);
	add_cors(rq);
	add_standing_headers(rq);
	add_configured_headers(rq);
	if (!rq->response) {
		size_t n;
		char *body = take_body(&rq->out, &n);
		rq->response = MHD_create_response_from_buffer(n, body, MHD_RESPMEM_MUST_FREE);
	}
	for (size_t i = 0; rq->response && i < rq->headers.n; i++)
		MHD_add_response_header(rq->response, rq->headers.v[i].name, rq->headers.v[i].value);
}
