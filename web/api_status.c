/* SPDX-License-Identifier: Apache-2.0 */
/* API paths about the server itself: flags, configuration, build, run-time. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/redact.h"
#include "base/units.h"
#include "base/vec.h"
#include "config.h"
#include "model/admin.h"
#include "web/answer.h"
#include "web/internal.h"

static void end_object(struct httpd_request *rq)
{
	json_object_end(httpd_out(rq));
	answer_end(rq, NULL, 0, NULL, 0);
}

/* ---- the program ---- */

/* Without "features": Grafana takes a server that has them for Mimir. */
void serve_buildinfo(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_field_text(b, "version", PACKAGE_VERSION);
	json_field_text(b, "revision", "");
	json_field_text(b, "branch", "");
	json_field_text(b, "buildUser", "");
	json_field_text(b, "buildDate", "");
	json_field_text(b, "goVersion", "");
	end_object(rq);
}

/* Into shown, without user info. */
static void flag_value(const struct opt *o, struct buf *shown)
{
	struct buf value = { 0 };
	opts_value(o, &value);
	buf_reset(shown);
	redact_user_info(buf_view(&value), false, "<secret>", shown);
	buf_free(&value);
}

void serve_flags(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct buf *b = answer_begin(rq), shown = { 0 };
	json_object_begin(b);
	for (size_t i = 0; i < w->o.n_flags; i++) {
		if (!opts_is_own(&w->o.flags[i]))
			continue;
		flag_value(&w->o.flags[i], &shown);
		json_field(b, w->o.flags[i].name, buf_view(&shown));
	}
	buf_free(&shown);
	end_object(rq);
}

/* The same for people: what a flag does, and whether it was given. Flags of other systems are left out. */
void serve_flag_details(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct buf *b = answer_begin(rq), shown = { 0 };
	json_array_begin(b);
	for (size_t i = 0; i < w->o.n_flags; i++) {
		const struct opt *o = &w->o.flags[i];
		if (!opts_is_own(o))
			continue;
		flag_value(o, &shown);
		json_object_begin(b);
		json_field_text(b, "name", o->name);
		json_field(b, "value", buf_view(&shown));
		json_field_bool(b, "given", o->given);
		json_field_text(b, "help", o->help ? o->help : "");
		json_object_end(b);
	}
	buf_free(&shown);
	json_array_end(b);
	answer_end(rq, NULL, 0, NULL, 0);
}

void serve_config(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	char *text AUTOFREE = w->o.config_text ? w->o.config_text(w->o.arg) : NULL;
	struct answer_rows rows;
	answer_rows_begin(&rows, rq);
	json_object_begin(rows.b);
	answer_rows_text(&rows, "yaml", view_of(text ? text : ""));
	json_object_end(rows.b);
	answer_rows_end(&rows);
}

/* Steps of the wall clock: "3600s back, at ...", and how long retention waits because of it. */
static void put_clock(struct buf *b, struct storage_admin *admin)
{
	struct admin_clock c = { .steps = 0 };
	char far[DURATION_LEN], when[RFC3339_LEN], text[DURATION_LEN + RFC3339_LEN + 32] = "", waits[DURATION_LEN] = "";
	if (admin && admin->clock)
		admin->clock(admin, &c);
	if (c.steps)
		snprintf(text, sizeof text, "%s %s, to %s", units_format_duration(llabs(c.last_step_ms) / 1000 * 1000, far),
			 c.last_step_ms < 0 ? "back" : "ahead", clock_rfc3339_ms(c.last_at_ms, when));
	if (c.retention_waits_ms)
		units_format_duration((c.retention_waits_ms + 999) / 1000 * 1000, waits);
	json_field_count(b, "clockSteps", c.steps);
	json_field_text(b, "lastClockStep", text);
	json_field_text(b, "retentionWaits", waits);
}

/* The process's use of the machine; values that the kernel does not give are left out. */
static void put_process(struct buf *b)
{
	struct rusage ru;
	struct utsname u;
	unsigned long pages = 0, threads = 0;
	FILE *f = fopen("/proc/self/statm", "re");
	if (f && fscanf(f, "%*u %lu", &pages) == 1)
		json_field_count(b, "residentBytes", pages * (size_t)sysconf(_SC_PAGESIZE));
	if (f)
		fclose(f);
	f = fopen("/proc/self/stat", "re"); /* the name, in brackets, is ours: without blanks */
	if (f && fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu", &threads) == 1)
		json_field_count(b, "threads", threads);
	if (f)
		fclose(f);
	json_field_int(b, "processId", getpid());
	if (getrusage(RUSAGE_SELF, &ru) == 0) {
		json_field_float(b, "cpuSeconds", (double)ru.ru_utime.tv_sec + (double)ru.ru_stime.tv_sec + (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6);
	}
	if (uname(&u) == 0) {
		json_field_text(b, "kernel", u.release);
		json_field_text(b, "machine", u.machine);
	}
}

void serve_runtimeinfo(struct httpd_request *rq, void *arg)
{
	const struct web *w = arg;
	struct web_reload_state state = { .ok = true, .t_ms = w->start_ms };
	if (w->o.reload_state)
		w->o.reload_state(w->o.arg, &state);
	char when[RFC3339_LEN], cwd[4096], host[256] = "";
	if (!getcwd(cwd, sizeof cwd))
		cwd[0] = 0;
	gethostname(host, sizeof host - 1);
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_field_text(b, "startTime", clock_rfc3339_ms(w->start_ms, when));
	json_field_text(b, "CWD", cwd);
	json_field_text(b, "hostname", host);
	json_field_text(b, "serverTime", clock_rfc3339_ms(clock_now_ms(), when));
	json_field_bool(b, "reloadConfigSuccess", state.ok);
	json_field_text(b, "lastConfigTime", clock_rfc3339_ms(state.t_ms, when));
	json_field_text(b, "lastConfigError", state.error);
	json_field_int(b, "GOMAXPROCS", sysconf(_SC_NPROCESSORS_ONLN));
	json_field_text(b, "storageRetention", w->o.storage_retention ? w->o.storage_retention : "");
	put_clock(b, w->admin);
	put_process(b);
	end_object(rq);
}

/* ---- what clients ask for and this server does not have ---- */

/* The API answers once the log has been read. */
void serve_walreplay(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct buf *b = answer_begin(rq);
	json_object_begin(b);
	json_field_int(b, "min", 0);
	json_field_int(b, "max", 0);
	json_field_int(b, "current", 0);
	json_field_text(b, "state", "done");
	end_object(rq);
}

void serve_unknown_api(struct httpd_request *rq, void *arg)
{
	(void)arg;
	struct err e;
	struct view path = httpd_path(rq);
	err_set(&e, ERR_NOT_FOUND, "there is no %.*s", (int)MIN(path.len, 200), path.ptr);
	answer_error(rq, &e);
}
