/* SPDX-License-Identifier: Apache-2.0 */
/* The server's own paths outside the API: health, readiness, metrics; shutdown and reload. */
#include "base/json.h"
#include "base/metrics.h"
#include "config.h"
#include "web/internal.h"

void serve_healthy(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "Pyrrha is Healthy.");
}

void serve_ready(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	char opening[sizeof w->opening];
	if (atomic_load(&w->ready)) {
		httpd_text(rq, 200, "Pyrrha is Ready.");
		return;
	}
	mutex_lock(&w->opening_lock);
	memcpy(opening, w->opening, sizeof opening);
	mutex_unlock(&w->opening_lock);
	httpd_set_header(rq, "X-Prometheus-Stopping", "%s", atomic_load(&w->stopping) ? "true" : "false");
	if (opening[0] && !atomic_load(&w->stopping))
		httpd_text(rq, 503, "Service Unavailable: storage is still being opened: %s", opening);
	else
		httpd_text(rq, 503, "Service Unavailable: storage is still being opened, or the server is stopping");
}

void serve_metrics(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_type(rq, "text/plain; version=0.0.4; charset=utf-8");
	metrics_render(httpd_out(rq));
}

static bool lifecycle_allowed(struct httpd_request *rq, const struct web *w)
{
	if (!w->o.enable_lifecycle)
		httpd_text(rq, 403, "Lifecycle API is not enabled: start with --web.enable-lifecycle, or send SIGHUP or SIGTERM");
	return w->o.enable_lifecycle;
}

void serve_reload(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	struct web_reload_state state = { .ok = true };
	struct err e = { 0 };
	if (!lifecycle_allowed(rq, w))
		return;
	if (!w->o.reload) {
		httpd_text(rq, 503, "there is nothing to reload");
		return;
	}
	if (w->o.reload(w->o.arg, &e)) {
		httpd_text(rq, 500, "failed to reload config: %s", e.msg);
		return;
	}
	if (w->o.reload_state)
		w->o.reload_state(w->o.arg, &state);
	if (state.restart[0])
		httpd_text(rq, 200, "%s", state.restart);
}

void serve_quit(struct httpd_request *rq, void *arg)
{
	struct web *w = arg;
	if (!lifecycle_allowed(rq, w))
		return;
	httpd_text(rq, 200, "Requesting termination... Goodbye!");
	if (w->o.quit)
		w->o.quit(w->o.arg);
}

void serve_version(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_type(rq, "application/json");
	struct buf *b = httpd_out(rq);
	json_object_begin(b);
	json_field_text(b, "version", PACKAGE_VERSION);
	json_object_end(b);
	buf_putc(b, '\n');
}
