/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/pins: profiles that outlive what they were made of. Off unless the flag is set, because anyone who may write could then fill
 * the disk up to the limit. Making one evaluates a query, so it takes the right to read as well. */
#include <unistd.h>

#include "base/clock.h"
#include "pprof/pprof.h"
#include "web/answer.h"
#include "web/formats.h"
#include "web/internal.h"
#include "web/pins.h"

static bool pins_allowed(struct httpd_request *rq, const struct web *w)
{
	struct err e;
	if (w->pins)
		return true;
	err_set(&e, ERR_UNAVAILABLE, "profiles cannot be pinned: start with --web.enable-pins");
	answer_error(rq, &e);
	return false;
}

void serve_pins(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	if (!pins_allowed(rq, w))
		return;
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	if (answer_rows_need(&rows, 2 * pins_text(w->pins))) /* a buffer that doubles */
		pins_list(w->pins, rows.b);
	answer_rows_end(&rows);
}

#define GZIP_LEVEL 1
#define MAX_RAW_BYTES ((size_t)512 << 20) /* of a profile, not compressed */
#define SAMPLE_BYTES 200                  /* of a sample, in a buffer that grows, and compressed */

/* Unlike an answer, all of it is in memory. */
static int need_profile(struct promql_result *r, uint64_t *ret_bytes, struct err *e)
{
	uint64_t samples = 0;
	for (size_t i = 0; i < r->n_series; i++) {
		const struct promql_profile *p = r->series[i].profiles;
		samples += (p && p->vec ? p->vec->n : 0) + (p && p->base ? p->base->n : 0);
	}
	*ret_bytes = samples * SAMPLE_BYTES;
	return promql_result_need(r, *ret_bytes, e);
}

/* The profile that is written, and bytes asked for beyond need_profile. */
struct pin_work {
	struct answer_work answer;
	struct permit permit;
	const struct buf *raw;
	uint64_t announced;
};

#define PIN_COPIES 3 /* a buffer that doubles, and the compressed profile */

/* Deep stacks and long names take more than need_profile asked for. */
static int pin_go_on(void *arg, struct err *e)
{
	struct pin_work *p = arg;
	uint64_t want = (uint64_t)p->raw->len * PIN_COPIES;
	int rc = 0;
	if (want > p->announced) {
		uint64_t more = want - p->announced + ((uint64_t)4 << 20);
		p->announced += more;
		rc = permit_need(&p->answer.permit, more, e);
	}
	return rc ? rc : permit_go_on(&p->answer.permit, e);
}

static int pin_need(void *arg, uint64_t bytes, struct err *e)
{
	struct pin_work *p = arg;
	return permit_need(&p->answer.permit, bytes, e);
}

static int keep(struct web *w, struct httpd_request *rq, struct promql_result *r, char id[PIN_ID_LEN + 1], struct err *e)
{
	struct merged_profile m;
	struct pin_work work;
	struct buf raw CLEANUP(buf_free) = { .max = MAX_RAW_BYTES }, profile CLEANUP(buf_free) = { 0 }, type CLEANUP(buf_free) = { 0 };
	struct view query = httpd_param(rq, "query");
	answer_work_begin(&work.answer, rq, r);
	work.permit = (struct permit){ pin_go_on, pin_need, &work, 0 };
	work.raw = &raw;
	int rc = need_profile(r, &work.announced, e);
	if (!rc)
		rc = pprof_write(r, query, &work.permit, &raw, e);
	if (!rc && raw.overflow)
		rc = err_set(e, ERR_LIMIT, "the profile is larger than %zu bytes: pin less", raw.max);
	if (!rc)
		rc = pprof_gzip(buf_view(&raw), GZIP_LEVEL, &profile, e);
	if (rc)
		return rc;
	merged_head_of(&m, r);
	ptype_format(m.type, &type);
	struct pin pin = { .name = httpd_param(rq, "name"), .query = query, .type = buf_view(&type), .t_ms = m.t_ms,
			   .seconds = merged_seconds(&m), .created_ms = clock_now_ms() };
	return pins_add(w->pins, &pin, buf_view(&profile), id, e);
}

void serve_pin_make(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct promql_result r;
	struct err e = { 0 };
	char id[PIN_ID_LEN + 1];
	if (!pins_allowed(rq, w))
		return;
	int rc = format_ask(w, rq, true, &r, &e);
	if (!rc) {
		rc = keep(w, rq, &r, id, &e);
		if (!rc) {
			rc = pins_json(w->pins, view_of(id), answer_begin(rq), &e);
			answer_end(rq, r.warnings, r.n_warnings, r.infos, r.n_infos);
		}
		promql_result_release(&r);
	}
	if (rc)
		answer_error(rq, &e);
}

void serve_pin(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e = { 0 };
	int fd;
	uint64_t size;
	if (!pins_allowed(rq, w))
		return;
	if (pins_read(w->pins, httpd_segment(rq, "id"), &fd, &size, &e)) {
		answer_error(rq, &e);
		return;
	}
	httpd_type(rq, "application/octet-stream");
	httpd_no_compress(rq);
	httpd_set_header(rq, "Content-Disposition", "attachment; filename=\"pin-%.*s.pb.gz\"", VIEW_ARG(httpd_segment(rq, "id")));
	httpd_send_file(rq, fd, size);
}

void serve_pin_remove(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct err e = { 0 };
	if (!pins_allowed(rq, w))
		return;
	if (pins_remove(w->pins, httpd_segment(rq, "id"), &e))
		answer_error(rq, &e);
	else
		httpd_status(rq, 204);
}
