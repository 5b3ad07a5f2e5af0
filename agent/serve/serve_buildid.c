/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/serve/serve_buildid.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elf/elf_file.h"
#include "symbols/debug_file.h"

static bool is_build_id(struct view id)
{
	if (id.len < 8 || id.len > 64 || id.len % 2)
		return false;
	for (size_t i = 0; i < id.len; i++)
		if (!strchr("0123456789abcdef", id.ptr[i]) || !id.ptr[i])
			return false;
	return true;
}

static bool has_section(int fd, const char *name)
{
	struct elf_file f;
	bool has = elf_open(&f, fd, NULL) == 0 && elf_section(&f, name);
	elf_close(&f);
	return has;
}

/* The separate debug file; else the program itself, if it has its debug information. */
static int open_debuginfo(struct symbolizer *s, struct view id)
{
	char hex[65];
	struct stat st;
	snprintf(hex, sizeof hex, "%.*s", VIEW_ARG(id));
	int program = symbolizer_open_executable(s, id);
	int fd = program >= 0 ? debug_file_by_build_id(hex) : -1; /* only of what runs here */
	if (fd >= 0 && (fstat(fd, &st) || !(st.st_mode & S_IROTH))) {
		close(fd);
		fd = -1;
	}
	if (fd < 0 && program >= 0 && has_section(program, ".debug_info"))
		return program;
	if (program >= 0)
		close(program);
	return fd;
}

void serve_buildid(struct httpd_request *rq, struct symbolizer *s)
{
	struct view id = httpd_segment(rq, "id"), kind = httpd_segment(rq, "kind");
	struct stat st;
	int fd = !is_build_id(id) ? -1 : view_eqs(kind, "executable") ? symbolizer_open_executable(s, id) :
		 view_eqs(kind, "debuginfo") ? open_debuginfo(s, id) : -1;
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		if (fd >= 0)
			close(fd);
		httpd_text(rq, 404, "not found");
		return;
	}
	httpd_type(rq, "application/octet-stream");
	httpd_set_header(rq, "X-DEBUGINFOD-SIZE", "%llu", (unsigned long long)st.st_size);
	httpd_send_file(rq, fd, (uint64_t)st.st_size);
}
