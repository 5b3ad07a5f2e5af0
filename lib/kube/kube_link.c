/* SPDX-License-Identifier: Apache-2.0 */
/* The request, and a small probe while it is quiet, run on one loop. With HTTP/2 the probe uses the same connection, so a dead
 * connection is noticed as well. /version needs neither etcd nor, in most clusters, permissions; any answer counts. */
#include "kube/kube_link.h"

#include "base/clock.h"
#include "kube/kube_private.h"

#define QUIET_MS 12000
#define TURN_MS 400
#define ERROR_BYTES 4096
#define PROBE_BYTES ((uint64_t)1 << 20)

struct exchange {
	struct kube_link *link;
	const struct kube_request *q;
	struct kube_answer *answer;
	int status;                  /* of the head that came last */
	struct fetch *main, *probe;  /* NULL: none runs */
	bool done, silent;
	struct err end, silence;     /* how they ended */
	int64_t heard_ms;
};

static void on_head(void *arg, const struct fetch_response *r)
{
	struct exchange *x = arg;
	x->status = r->status;
	x->heard_ms = clock_mono_ms();
	if (r->status == 200 && x->q->on_open)
		x->q->on_open(x->q->arg);
}

static enum fetch_data on_data(void *arg, const char *p, size_t n)
{
	struct exchange *x = arg;
	struct buf *error = &x->answer->error;
	bool more = true;
	if (x->status == 200)
		more = x->q->on_data(x->q->arg, p, n);
	else if (error->len < ERROR_BYTES)
		buf_put(error, p, MIN(n, ERROR_BYTES - error->len));
	else
		more = false;
	x->heard_ms = clock_mono_ms(); /* after it: whoever takes the bytes may be slow */
	return more ? FETCH_TAKEN : FETCH_END;
}

static void main_done(void *arg, struct fetch_response *r, const struct err *e)
{
	struct exchange *x = arg;
	x->main = NULL;
	x->done = true;
	x->end = *e;
	x->answer->status = r->status;
	x->answer->retry_after_s = r->retry_after_s;
}

static void probe_done(void *arg, struct fetch_response *r, const struct err *e)
{
	struct exchange *x = arg;
	x->probe = NULL;
	if (r->status) {
		x->heard_ms = clock_mono_ms();
		return;
	}
	x->silent = true;
	x->silence = *e;
}

static int64_t quiet_ms(const struct kube_link *l)
{
	return l->quiet_ms ? l->quiet_ms : QUIET_MS;
}

static int start_probe(struct exchange *x, struct err *e)
{
	struct buf url = { 0 };
	buf_printf(&url, "%s/version", x->link->client->server);
	struct fetch_request q = { .url = url.ptr, .timeout_ms = quiet_ms(x->link), .max_bytes = PROBE_BYTES, .keepalive = true };
	int rc = fetch_start(x->link->loop, x->link->client->fetch, &q, probe_done, x, &x->probe, e);
	buf_free(&url);
	return rc;
}

/* One turn; negative: it is over. */
static int turn(struct exchange *x, struct err *e)
{
	int64_t began_ms = clock_mono_ms();
	int rc = fetch_loop_turn(x->link->loop, TURN_MS, e);
	if (rc || x->done)
		return rc;
	if (x->q->stop && x->q->stop(x->q->arg))
		return err_set(e, ERR_CANCELED, "canceled");
	x->answer->silent = x->silent && x->heard_ms < began_ms - quiet_ms(x->link);
	if (x->answer->silent)
		return err_set(e, ERR_TIMEOUT, "the server went silent: nothing for %lld s, and to GET /version: %s",
			       (long long)(clock_mono_ms() - x->heard_ms) / 1000, x->silence.msg);
	x->silent = false;
	if (!x->probe && clock_mono_ms() - x->heard_ms > quiet_ms(x->link))
		rc = start_probe(x, e);
	return rc;
}

static int run(struct exchange *x, struct err *e)
{
	struct fetch_request q = { .url = x->q->url, .timeout_ms = x->q->timeout_ms, .max_bytes = UINT64_MAX / 4,
				   .compressed = x->q->compressed, .keepalive = true, .on_head = on_head, .on_data = on_data,
				   .on_data_arg = x };
	int rc = fetch_start(x->link->loop, x->link->client->fetch, &q, main_done, x, &x->main, e);
	while (!rc && !x->done)
		rc = turn(x, e);
	if (x->main)
		fetch_cancel(x->main);
	if (x->probe)
		fetch_cancel(x->probe);
	if (rc)
		return rc;
	*e = x->end;
	return -(int)e->code;
}

int kube_link_ask(struct kube_link *l, const struct kube_request *q, struct kube_answer *ret, struct err *e)
{
	struct exchange x = { .link = l, .q = q, .answer = ret, .heard_ms = clock_mono_ms() };
	*ret = (struct kube_answer){ .retry_after_s = -1 };
	if (!l->loop && !(l->loop = fetch_loop_new(e)))
		return -(int)e->code;
	int rc = run(&x, e);
	if (!ret->status)
		ret->status = x.status;
	if (rc || ret->status != 200)
		kube_link_release(l); /* what failed once is not used again: other files, another address, another server */
	return x.done && ret->status && ret->status != 200 ? 0 : rc;
}

void kube_link_release(struct kube_link *l)
{
	fetch_loop_free(l->loop);
	l->loop = NULL;
}
