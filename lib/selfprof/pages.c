/* SPDX-License-Identifier: Apache-2.0 */
#include "selfprof/pages.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/num.h"
#include "base/redact.h"
#include "model/profile.h"
#include "pprof/pprof.h"
#include "selfprof/heap.h"
#include "selfprof/selfprof.h"

#define PROFILE_BYTES_MAX ((size_t)256 << 20)

void pprof_error(struct httpd_request *rq, int status, const char *text)
{
	httpd_set_header(rq, "X-Go-Pprof", "1");
	httpd_text(rq, status, "%s", text);
}

int64_t pprof_seconds(struct httpd_request *rq, int64_t otherwise)
{
	int64_t s;
	return num_parse_i64(httpd_param(rq, "seconds"), &s) && s > 0 ? s : otherwise;
}

void pprof_index(struct httpd_request *rq, const char *title, const struct pprof_row *rows, size_t n)
{
	struct buf *out = httpd_out(rq);

	httpd_type(rq, "text/html; charset=utf-8");
	buf_printf(out, "<html>\n<head>\n<title>%s</title>\n</head>\n<body>\n%s\n<br>\n<br>\n", title, title);
	buf_puts(out, "Types of profiles available:\n<table>\n<thead><td>Count</td><td>Profile</td></thead>\n");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "<tr><td>0</td><td><a href='%s?debug=1'>%s</a></td></tr>\n", rows[i].name, rows[i].name);
	buf_puts(out, "</table>\n<br>\n<p>\nProfile Descriptions:\n<ul>\n");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, "<li><div class=profile-name>%s: </div> %s</li>\n", rows[i].name, rows[i].text);
	buf_puts(out, "</ul>\n</p>\n</body>\n</html>\n");
}

static const struct pprof_row rows[] = {
	{ "allocs", "A sampling of all past memory allocations" },
	{ "cmdline", "The command line invocation of the current program" },
	{ "heap", "A sampling of memory allocations of live objects. You can specify the duration of a delta profile in the seconds GET "
		  "parameter." },
	{ "profile", "CPU profile of this program. You can specify the duration in the seconds GET parameter. After you get the "
		     "profile file, use the go tool pprof command to investigate the profile." },
};

void selfprof_serve_index(struct httpd_request *rq, void *arg)
{
	pprof_index(rq, "/debug/pprof/", rows, ARRAY_LEN(rows));
}

static void answer(struct httpd_request *rq, int rc, const struct profile *p, const char *name, struct err *e)
{
	if (!rc)
		rc = pprof_encode_gz(p, httpd_out(rq), e);
	if (rc) {
		pprof_error(rq, err_info(e->code)->http, e->msg);
		return;
	}
	httpd_type(rq, "application/octet-stream");
	httpd_set_header(rq, "Content-Disposition", "attachment; filename=\"%s\"", name);
	httpd_no_compress(rq);
}

void selfprof_serve_profile(struct httpd_request *rq, void *arg)
{
	int64_t seconds = pprof_seconds(rq, PPROF_SECONDS_DEFAULT);
	struct profile p;
	struct err e;

	if (seconds > PPROF_SECONDS_MAX) {
		pprof_error(rq, 400, "profile duration exceeds server's WriteTimeout");
		return;
	}
	profile_init(&p, PROFILE_BYTES_MAX);
	int rc = selfprof_cpu(seconds * 1000000000, httpd_canceled(rq), &p, &e);
	if (rc == -ERR_CONFLICT) {
		struct buf text = { 0 };
		buf_printf(&text, "Could not enable CPU profiling: %s", e.msg);
		buf_putc(&text, 0);
		pprof_error(rq, 500, text.ptr);
		buf_free(&text);
	} else {
		answer(rq, rc, &p, "profile", &e);
	}
	profile_release(&p);
}

void selfprof_serve_cmdline(struct httpd_request *rq, void *arg)
{
	char text[65536];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text) : 0;
	bool cut = n == sizeof text;

	if (fd >= 0)
		close(fd);
	if (n > 0 && !text[n - 1])
		n--;
	httpd_type(rq, "text/plain; charset=utf-8");
	redact_command(view_make(text, (size_t)MAX(n, 0)), cut, 0, httpd_out(rq));
}

static void serve_heap(struct httpd_request *rq, enum heap_default which, const char *name)
{
	struct view text = httpd_param(rq, "seconds");
	struct profile p;
	int64_t seconds = 0;
	struct err e;

	if (text.len && (!num_parse_i64(text, &seconds) || seconds <= 0)) {
		pprof_error(rq, 400, "invalid value for \"seconds\" - must be a positive integer");
		return;
	}
	if (seconds > PPROF_SECONDS_MAX) {
		pprof_error(rq, 400, "profile duration exceeds server's WriteTimeout");
		return;
	}
	profile_init(&p, PROFILE_BYTES_MAX);
	answer(rq, selfprof_heap(which, seconds * 1000000000, httpd_canceled(rq), &p, &e), &p, name, &e);
	profile_release(&p);
}

void selfprof_serve_heap(struct httpd_request *rq, void *arg)
{
	serve_heap(rq, HEAP_INUSE, "heap");
}

void selfprof_serve_allocs(struct httpd_request *rq, void *arg)
{
	serve_heap(rq, HEAP_ALLOCS, "allocs");
}

void selfprof_serve_unknown(struct httpd_request *rq, void *arg)
{
	pprof_error(rq, 404, "Unknown profile");
}

void selfprof_serve_redirect(struct httpd_request *rq, void *arg)
{
	struct view path = httpd_path(rq);
	const char *slash = memrchr(path.ptr, '/', path.len);
	char to[64];

	/* Relative: whatever prefix a proxy or --web.route-prefix puts before it stays. */
	snprintf(to, sizeof to, "%.*s/", (int)(path.len - (size_t)(slash + 1 - path.ptr)), slash + 1);
	httpd_redirect(rq, 301, to);
}
