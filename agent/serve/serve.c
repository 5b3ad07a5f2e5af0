/* SPDX-License-Identifier: Apache-2.0 */
/* The agent over HTTP. Paths, defaults, headers and error texts under /debug/pprof are Go's net/http/pprof, so that
 * whatever pulls from a Go program pulls from here. Beyond Go: match[] narrows to processes, by= chooses the labels
 * that stay on samples, from= and to= read the history. */
#include "agent/serve/serve.h"

#include <ctype.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "agent/labels/labels.h"
#include "agent/names/symbolize.h"
#include "agent/serve/pprof_out.h"
#include "agent/serve/serve_buildid.h"
#include "agent/serve/serve_symbol.h"
#include "agent/window/profile_window.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "base/num.h"
#include "httpd/httpd.h"
#include "model/selector.h"
#include "pprof/pprof.h"
#include "selfprof/pages.h"

#define PROFILE_BYTES_MAX ((size_t)512 << 20)
#define BY_MAX 32

struct agent_server {
	struct httpd *httpd;
	struct agent *agent;
	bool enable_lifecycle;
	bool enable_debuginfod;
	char boot[33];               /* of this run of the agent */
};

static void fail(struct httpd_request *rq, const struct err *e)
{
	pprof_error(rq, err_info(e->code)->http, e->msg);
	httpd_status_error(rq, e);
}

/* ---- what is asked ---- */

struct profile_question {
	struct selector match[8]; /* any of them */
	size_t n_match;
	struct view by[BY_MAX];
	struct pprof_out_options out;
	struct regex_meter meter;
	struct err failed;        /* of a match: then the answer is that */
};

#define MATCH_NS 2000000000LL /* for all processes */

static bool keep_process(void *arg, const struct process_info *p)
{
	struct profile_question *q = arg;
	if (!p)
		return q->n_match == 0; /* losses belong to no process */
	struct labels l = p->labels ? *p->labels : (struct labels){ 0 };
	for (size_t i = 0; i < q->n_match && !q->failed.code; i++)
		if (matchers_match(q->match[i].m.v, q->match[i].m.n, l, &q->meter, &q->failed) > 0)
			return true;
	return q->n_match == 0;
}

static void question_release(struct profile_question *q)
{
	for (size_t i = 0; i < q->n_match; i++)
		selector_release(&q->match[i]);
}

static int take_by(struct profile_question *q, struct view list, struct err *e)
{
	q->out.by = q->by;
	for (size_t i = 0; i < list.len;) {
		const char *comma = memchr(list.ptr + i, ',', list.len - i);
		size_t n = comma ? (size_t)(comma - (list.ptr + i)) : list.len - i;
		if (n && q->out.n_by == BY_MAX)
			return err_set(e, ERR_BAD_DATA, "at most %d labels are allowed in by=", BY_MAX);
		if (n)
			q->by[q->out.n_by++] = view_make(list.ptr + i, n);
		i += n + 1;
	}
	return 0;
}

static int question_parse(struct profile_question *q, struct httpd_request *rq, struct err *e)
{
	size_t n;
	const struct httpd_param *p = httpd_params(rq, &n);
	*q = (struct profile_question){ .out = { .keep = keep_process, .arg = q },
					.meter = { .canceled = httpd_canceled(rq), .max_ns = MATCH_NS, .max_name = "2 s of a request" } };
	for (size_t i = 0; i < n; i++) {
		int rc = view_eqs(p[i].name, "by") ? take_by(q, p[i].value, e) : 0;
		if (rc)
			return rc;
		/* match: a label of /targets.json cannot be called __param_match[]. */
		if (!view_eqs(p[i].name, "match[]") && !view_eqs(p[i].name, "match"))
			continue;
		if (q->n_match == ARRAY_LEN(q->match))
			return err_set(e, ERR_BAD_DATA, "at most %zu match[] are allowed", ARRAY_LEN(q->match));
		rc = selector_parse(&q->match[q->n_match++], p[i].value, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* ---- profiles ---- */

/* The clocks differ by microseconds; the end of a window must not be one millisecond before the start of the next. */
static int64_t nearest_ms(int64_t ns)
{
	return (ns + 500000) / 1000000;
}

static void answer(struct agent_server *s, struct httpd_request *rq, const struct profile_window *w, struct profile_question *q)
{
	struct profile p;
	struct view *series;
	struct err e;
	profile_init(&p, PROFILE_BYTES_MAX);
	q->out.n_series = agent_series_labels(s->agent, &p.arena, &series);
	q->out.series = series;
	symbolizer_begin(agent_symbolizer(s->agent));
	symbolizer_want_all(agent_symbolizer(s->agent), w);
	int rc = pprof_out(&p, w, agent_symbolizer(s->agent), &q->out, &e);
	if (!rc && q->failed.code) {
		e = q->failed;
		rc = -(int)e.code;
	}
	if (!rc)
		rc = pprof_encode_gz(&p, httpd_out(rq), &e);
	profile_release(&p);
	symbolizer_end(agent_symbolizer(s->agent));
	if (rc) {
		fail(rq, &e);
		return;
	}
	httpd_type(rq, "application/octet-stream");
	httpd_set_header(rq, "Content-Disposition", "attachment; filename=\"%s\"",
			 w->kind == WINDOW_OFF_CPU ? "offcpu" : "profile");
	/* Says what these profiles are, so that a scraper without the preset does not take them for process_cpu. */
	httpd_set_header(rq, "X-Pyrrha-Profile", "%s", w->kind == WINDOW_OFF_CPU ? "off_cpu" : "on_cpu");
	if (w->last_number)
		httpd_set_header(rq, "X-Pyrrha-Windows", "%llu-%llu", (unsigned long long)w->first_number,
				 (unsigned long long)w->last_number);
	httpd_set_header(rq, "X-Pyrrha-Covered", "%lld-%lld", (long long)nearest_ms(w->start_unix_ns),
			 (long long)nearest_ms(w->end_unix_ns));
	httpd_no_compress(rq);
}

/* "BOOT-N": the windows after that of number N of this run of the agent; of another run: all. */
static int after_of(const struct agent_server *s, struct view v, uint64_t *ret, struct err *e)
{
	const char *dash = v.len ? memchr(v.ptr, '-', v.len) : NULL;
	uint64_t n = 0;
	if (v.len && (!dash || !num_parse_u64(view_make(dash + 1, v.len - (size_t)(dash + 1 - v.ptr)), &n)))
		return err_set(e, ERR_BAD_DATA, "after is the agent's X-Pyrrha-Boot, a dash and the number of a window");
	*ret = dash && view_eqs(view_make(v.ptr, (size_t)(dash - v.ptr)), s->boot) ? n : 0;
	return 0;
}

static int history(struct agent_server *s, struct httpd_request *rq, enum window_kind kind, struct profile_window **ret,
		   struct err *e)
{
	struct view from = httpd_param(rq, "from"), to = httpd_param(rq, "to");
	struct history_range r = { .whole = view_eqs(httpd_param(rq, "whole"), "1") };
	struct history_state have = { 0 };
	agent_history_range(s->agent, &r.from_ms, &r.to_ms);
	if ((from.len && !clock_parse_time_ms(from, &r.from_ms)) || (to.len && !clock_parse_time_ms(to, &r.to_ms)))
		return err_set(e, ERR_BAD_DATA, "from and to are Unix times in seconds, or RFC 3339");
	if (r.from_ms >= r.to_ms)
		return err_set(e, ERR_BAD_DATA, "from must be before to");
	int rc = after_of(s, httpd_param(rq, "after"), &r.after, e);
	if (rc)
		return rc;
	rc = agent_history(s->agent, kind, &r, ret, &have, e);
	if (have.finished_ms)
		httpd_set_header(rq, "X-Pyrrha-Finished", "%lld", (long long)have.finished_ms);
	if (rc && have.next_ms)
		httpd_set_header(rq, "X-Pyrrha-Next", "%lld", (long long)have.next_ms);
	return rc;
}

static void serve_kind(struct httpd_request *rq, struct agent_server *s, enum window_kind kind)
{
	struct profile_question q;
	struct err e = { 0 };
	struct profile_window *w = NULL;
	int64_t from_ns = clock_cpu_ns();
	httpd_set_header(rq, "X-Pyrrha-Boot", "%s", s->boot);
	int rc = question_parse(&q, rq, &e);
	int64_t seconds = pprof_seconds(rq, PPROF_SECONDS_DEFAULT);
	if (!rc && (httpd_param(rq, "from").ptr || httpd_param(rq, "to").ptr))
		rc = history(s, rq, kind, &w, &e);
	else if (!rc && seconds > PPROF_SECONDS_MAX)
		rc = err_set(&e, ERR_BAD_DATA, "profile duration exceeds server's WriteTimeout");
	else if (!rc)
		rc = agent_profile(s->agent, kind, seconds * 1000000000, httpd_canceled(rq), &w, &e);
	if (rc)
		fail(rq, &e);
	else
		answer(s, rq, w, &q);
	profile_window_free(w);
	question_release(&q);
	agent_answered(s->agent, kind, clock_cpu_ns() - from_ns);
}

static void serve_profile(struct httpd_request *rq, void *arg)
{
	serve_kind(rq, arg, WINDOW_ON_CPU);
}

static void serve_offcpu(struct httpd_request *rq, void *arg)
{
	serve_kind(rq, arg, WINDOW_OFF_CPU);
}

static const struct pprof_row index_rows[] = {
	{ "cmdline", "The command line invocation of the current program" },
	{ "profile", "CPU profile of every process on this host, taken from outside. You can specify the duration in the "
		     "seconds GET parameter; match[]={container=\"web\"} narrows it; by=container,pod chooses the labels; "
		     "from=, to= read the history. After you get the profile file, use the go tool pprof command to "
		     "investigate the profile." },
	{ "self/", "Profiles of the agent itself." },
	{ "symbol", "Maps given program counters to function names. Counters can be specified in a GET raw query or POST "
		    "body, multiple counters are separated by '+'." },
	{ "offcpu", "Time that threads waited off the CPU, by where they left it. Asked like profile." }, /* the last: it may be left out */
};

static void serve_index(struct httpd_request *rq, void *arg)
{
	const struct agent_server *s = arg;
	bool off = agent_takes(s->agent, WINDOW_OFF_CPU);

	pprof_index(rq, "/debug/pprof/", index_rows, ARRAY_LEN(index_rows) - !off);
}

/* Go's ServeMux: a path with "//", "." or ".." in it is elsewhere, and so is /debug/pprof (links of the index are relative).
 * False: the path is clean. */
static bool redirected(struct httpd_request *rq)
{
	struct view path = httpd_path(rq), query = httpd_query(rq);
	struct buf clean = { 0 };

	for (size_t i = 0; i < path.len;) {
		const char *slash = memchr(path.ptr + i, '/', path.len - i);
		struct view part = view_make(path.ptr + i, slash ? (size_t)(slash - path.ptr) - i : path.len - i);
		bool up = view_eqs(part, "..");
		i += part.len + 1;
		while (up && clean.len && clean.ptr[--clean.len] != '/')
			;
		if (part.len && !up && !view_eqs(part, "."))
			buf_printf(&clean, "/%.*s", VIEW_ARG(part));
	}
	if (!clean.len || view_ends(path, VIEW("/")) || view_eqs(buf_view(&clean), "/debug/pprof") ||
	    view_eqs(buf_view(&clean), "/debug/pprof/self"))
		buf_puts(&clean, "/");
	bool elsewhere = !view_eq(buf_view(&clean), path);
	if (clean.len == path.len + 1 && view_starts(buf_view(&clean), path)) { /* only the last slash: relative, for a proxy with a prefix */
		struct buf last = { 0 };
		const char *slash = memrchr(path.ptr, '/', path.len);
		buf_puts(&last, clean.ptr + (slash - path.ptr) + 1);
		buf_free(&clean);
		clean = last;
	}
	if (elsewhere && query.ptr)
		buf_printf(&clean, "?%.*s", VIEW_ARG(query));
	if (elsewhere) {
		buf_put(&clean, "", 1);
		httpd_redirect(rq, 301, clean.ptr);
	}
	buf_free(&clean);
	return elsewhere;
}

static void serve_unknown(struct httpd_request *rq, void *arg)
{
	(void)arg;
	if (!redirected(rq))
		pprof_error(rq, 404, "Unknown profile");
}

static void serve_elsewhere(struct httpd_request *rq, void *arg)
{
	(void)arg;
	if (!redirected(rq))
		httpd_text(rq, 404, "404 page not found");
}

static void serve_symbol(struct httpd_request *rq, void *arg)
{
	struct agent_server *s = arg;
	httpd_type(rq, "text/plain; charset=utf-8");
	serve_symbols(agent_symbolizer(s->agent), httpd_method(rq) == HTTPD_POST ? httpd_body(rq) : httpd_query(rq),
		      httpd_out(rq));
}

static void serve_metrics(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_type(rq, "text/plain; version=0.0.4; charset=utf-8");
	metrics_render(httpd_out(rq));
}

/* The address that a caller used to reach the agent is also the one to scrape. */
static struct view reached_at(struct agent_server *s, struct httpd_request *rq)
{
	struct view host = httpd_header(rq, "Host");
	size_t n = 0;
	while (n < host.len && (isalnum((unsigned char)host.ptr[n]) || strchr(".:-[]_", host.ptr[n])))
		n++;
	bool port = host.len && memrchr(host.ptr, ':', host.len) && !view_ends(host, VIEW("]"));
	return n && n == host.len && port ? host : view_of(agent_server_address(s, 0));
}

static void serve_targets(struct httpd_request *rq, void *arg)
{
	struct agent_server *s = arg;
	httpd_type(rq, "application/json");
	agent_targets(s->agent, reached_at(s, rq), httpd_out(rq));
}

static void serve_build(struct httpd_request *rq, void *arg)
{
	struct agent_server *s = arg;
	if (s->enable_debuginfod)
		serve_buildid(rq, agent_symbolizer(s->agent));
	else
		httpd_text(rq, 404, "not enabled; --web.enable-debuginfod does");
}

static void serve_healthy(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "pyrrha-agent is healthy.");
}

static void serve_ready(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_text(rq, 200, "pyrrha-agent is ready.");
}

static void serve_reload(struct httpd_request *rq, void *arg)
{
	struct agent_server *s = arg;
	struct err e;
	if (!s->enable_lifecycle)
		httpd_text(rq, 403, "Lifecycle API is not enabled.");
	else if (agent_reload(s->agent, &e))
		httpd_text(rq, 500, "failed to reload config: %s", e.msg);
	else
		httpd_type(rq, "text/plain; charset=utf-8");
}

static void serve_root(struct httpd_request *rq, void *arg)
{
	(void)arg;
	httpd_redirect(rq, 302, "debug/pprof/"); /* relative, for a proxy with a prefix */
}

/* Requests for profiles, which hold their worker until they end, and those that read files of programs delay no others. */
enum { LANE_COMMON, LANE_PROFILE, LANE_FILES, LANE_SELF, LANES };
static const struct httpd_lane lanes[LANES] = {
	[LANE_COMMON] = { .name = "common", .workers = 16 },
	[LANE_PROFILE] = { "profile", AGENT_MAX_CALLERS + 16, AGENT_MAX_CALLERS, 0 }, /* beyond the callers: the history */
	[LANE_FILES] = { "files", 8, 64, 0 },
	[LANE_SELF] = { "self", 4, 8, 0 },
};

static const struct httpd_route routes[] = {
	{ "/", HTTPD_GET, HTTPD_RIGHT_READ, serve_root, HTTPD_QUICK,
	  .text = "Redirects to /debug/pprof/." },
	{ "/debug/pprof", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_elsewhere, HTTPD_QUICK | HTTPD_RAW,
	  .text = "Redirects to /debug/pprof/." },
	{ "/debug/pprof/", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_index, HTTPD_QUICK | HTTPD_RAW,
	  .text = "The list of profiles." },
	{ "/debug/pprof/profile", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_profile, 0, LANE_PROFILE,
	  .text = "The host's CPU profile over the next seconds, or a piece of the history." },
	{ "/debug/pprof/offcpu", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_offcpu, 0, LANE_PROFILE,
	  .text = "Where threads waited off the CPU, with --off-cpu." },
	{ "/debug/pprof/cmdline", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, selfprof_serve_cmdline, HTTPD_QUICK | HTTPD_RAW,
	  .text = "The agent's command line, without secrets." },
	{ "/debug/pprof/symbol", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_symbol, HTTPD_RAW, LANE_FILES,
	  .text = "Names of addresses, as go tool pprof asks for them." },
	{ "/debug/pprof/self", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_elsewhere, HTTPD_QUICK | HTTPD_RAW,
	  .text = "Redirects to /debug/pprof/self/." },
	{ "/debug/pprof/self/", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, selfprof_serve_index, HTTPD_QUICK | HTTPD_RAW,
	  .text = "The list of profiles that the agent takes of itself." },
	{ "/debug/pprof/self/profile", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, selfprof_serve_profile, 0, LANE_SELF,
	  .text = "The agent's own CPU profile over the next seconds." },
	{ "/debug/pprof/self/heap", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, selfprof_serve_heap, 0, LANE_SELF,
	  .text = "The memory that the agent holds, by where it was allocated." },
	{ "/debug/pprof/self/allocs", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, selfprof_serve_allocs, 0, LANE_SELF,
	  .text = "All memory that the agent allocated since its start." },
	{ "/debug/pprof/self/cmdline", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, selfprof_serve_cmdline, HTTPD_QUICK | HTTPD_RAW,
	  .text = "The agent's command line, without secrets." },
	{ "/debug/pprof/{*}", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_unknown, HTTPD_QUICK | HTTPD_RAW,
	  .text = "Redirects to the clean form of a path, else answers 404." },
	{ "/buildid/{id}/{kind}", HTTPD_GET, HTTPD_RIGHT_READ, serve_build, 0, LANE_FILES,
	  .text = "Programs that were sampled and their debug files, as a debuginfod server, with --web.enable-debuginfod." },
	{ "/metrics", HTTPD_GET, HTTPD_RIGHT_READ, serve_metrics, HTTPD_QUICK,
	  .text = "The agent's own metrics as text." },
	{ "/targets.json", HTTPD_GET, HTTPD_RIGHT_READ, serve_targets, HTTPD_QUICK,
	  .text = "The agent's own target, for http_sd_configs." },
	{ "/-/healthy", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, serve_healthy, HTTPD_QUICK | HTTPD_ANY_HOST,
	  .text = "Answers 200 while the program runs." },
	{ "/healthy", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, serve_healthy, HTTPD_QUICK | HTTPD_ANY_HOST,
	  .text = "The same, at parca-agent's path, which probes ask." },
	{ "/-/ready", HTTPD_GET, HTTPD_RIGHT_NONE_NEEDED, serve_ready, HTTPD_QUICK | HTTPD_ANY_HOST,
	  .text = "Answers 200 while the program runs." },
	{ "/-/reload", HTTPD_POST | HTTPD_PUT, HTTPD_RIGHT_ADMIN, serve_reload, HTTPD_QUICK,
	  .text = "Reads the configuration again, with --web.enable-lifecycle." },
	{ "/{*}", HTTPD_GET | HTTPD_POST, HTTPD_RIGHT_READ, serve_elsewhere, HTTPD_QUICK | HTTPD_RAW,
	  .text = "Redirects to the clean form of a path, else answers 404." },
};

static void make_boot_id(char out[33])
{
	uint8_t id[16];
	if (getrandom(id, sizeof id, 0) != sizeof id)
		memcpy(id, (uint64_t[]){ (uint64_t)clock_now_ns(), (uint64_t)getpid() }, sizeof id);
	for (size_t i = 0; i < sizeof id; i++)
		snprintf(out + 2 * i, 3, "%02x", id[i]);
}

int agent_serve(struct agent_server **ret, const struct agent_server_options *o, struct err *e)
{
	struct agent_server *s = NEW(struct agent_server);
	s->agent = o->agent;
	s->enable_debuginfod = o->enable_debuginfod;
	make_boot_id(s->boot);
	s->enable_lifecycle = o->enable_lifecycle;
	struct httpd_options h = {
		.listen = o->listen, .n_listen = o->n_listen, .allow_beyond_loopback = o->allow_insecure,
		.web_config_file = o->web_config_file,
		.allow_hint = "--web.allow-insecure", .routes = routes, .n_routes = ARRAY_LEN(routes), .arg = s,
		.allowed_hosts = o->allowed_hosts, .n_allowed_hosts = o->n_allowed_hosts,
		.lanes = lanes, .n_lanes = LANES,
	};
	int rc = httpd_start(&s->httpd, &h, e);
	if (rc) {
		free(s);
		return rc;
	}
	*ret = s;
	return 0;
}

const char *agent_server_address(const struct agent_server *s, size_t i)
{
	return httpd_address(s->httpd, i);
}

void agent_server_stop(struct agent_server *s)
{
	if (!s)
		return;
	httpd_stop(s->httpd, 0);
	free(s);
}
