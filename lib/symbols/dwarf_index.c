/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a DWARF index, and the helper process that writes one. The helper is this program again, forked: it closes all but its two
 * descriptors, limits its memory and CPU time, and runs at the lowest priority. */
#include "symbols/dwarf_index.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "symbols/child.h"
#include "symbols/dwarf_private.h"
#include "symbols/tempfile.h"

/* Its own memory. In addition it has the mapped pages of the file, which the kernel may reclaim, and its address space is limited to
 * that. */
#define HELPER_MEMORY ((rlim_t)96 << 20)
#define HELPER_ADDRESSES ((rlim_t)16 << 30)
#define HELPER_CPU_S 60
#define HELPER_DEADLINE_MS 120000
#define TEXT_MAX 4096
/* How far back to look for calls around an address. One that is very wide would have all of them looked at; beyond this there
 * are fewer inlined calls than there could be. */
#define CALLS_LOOKED_MAX 4096

int dwarf_index_open(struct dwarf_index *ret, int fd, struct err *e)
{
	struct dwarf_header h;
	struct stat st;
	*ret = (struct dwarf_index){ .fd = -1 };
	if (fstat(fd, &st) || pread(fd, &h, sizeof h, 0) != sizeof h || h.magic != DWARF_MAGIC || h.version != DWARF_VERSION)
		return err_set(e, ERR_CORRUPT, "not an index of debug information of this version");
	uint64_t size = (uint64_t)st.st_size, room = size - sizeof h;
	if (h.n_rows > room / sizeof(struct dwarf_row) ||
	    h.n_calls > (room - h.n_rows * sizeof(struct dwarf_row)) / sizeof(struct dwarf_call) ||
	    h.names_at != sizeof h + h.n_rows * sizeof(struct dwarf_row) + h.n_calls * sizeof(struct dwarf_call))
		return err_set(e, ERR_CORRUPT, "an index of debug information that is cut short");
	*ret = (struct dwarf_index){ fd, h.n_rows, h.n_calls, h.names_at, size };
	return 0;
}

void dwarf_index_close(struct dwarf_index *x)
{
	if (x->fd >= 0)
		close(x->fd);
	*x = (struct dwarf_index){ .fd = -1 };
}

/* ---- looking up ---- */

static uint32_t put_text(const struct dwarf_index *x, uint32_t name, struct buf *text)
{
	char s[TEXT_MAX];
	uint32_t at = (uint32_t)text->len;
	ssize_t n = name ? pread(x->fd, s, sizeof s, (off_t)(x->names_at + name)) : 0;
	if (n > 0)
		buf_put(text, s, strnlen(s, (size_t)n));
	buf_putc(text, 0);
	return at;
}

static bool read_row(const struct dwarf_index *x, uint64_t i, struct dwarf_row *r)
{
	return pread(x->fd, r, sizeof *r, (off_t)(sizeof(struct dwarf_header) + i * sizeof *r)) == sizeof *r;
}

static bool read_call(const struct dwarf_index *x, uint64_t i, struct dwarf_call *c)
{
	uint64_t at = sizeof(struct dwarf_header) + x->n_rows * sizeof(struct dwarf_row) + i * sizeof *c;
	return pread(x->fd, c, sizeof *c, (off_t)at) == sizeof *c;
}

static bool find_row(const struct dwarf_index *x, uint64_t address, struct dwarf_row *ret)
{
	uint64_t lo = 0, hi = x->n_rows;
	struct dwarf_row r;
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (!read_row(x, mid, &r))
			return false;
		if (r.address <= address) {
			*ret = r;
			lo = mid + 1;
		} else {
			hi = mid;
		}
	}
	return lo > 0 && ret->line;
}

/* The inlined calls around an address by depth; returns how many levels there are without a gap. */
static size_t find_calls(const struct dwarf_index *x, uint64_t address, struct dwarf_call by_depth[DWARF_INDEX_DEPTH])
{
	uint64_t lo = 0, hi = x->n_calls;
	struct dwarf_call c;
	bool have[DWARF_INDEX_DEPTH] = { false };
	while (lo < hi) {
		uint64_t mid = lo + (hi - lo) / 2;
		if (!read_call(x, mid, &c))
			return 0;
		if (c.lo <= address)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (unsigned looked = 0; looked < CALLS_LOOKED_MAX && lo-- && read_call(x, lo, &c); looked++) {
		if (address < c.hi && c.depth < DWARF_INDEX_DEPTH && !have[c.depth]) {
			have[c.depth] = true;
			by_depth[c.depth] = c;
		}
		if (address - c.lo > (uint64_t)c.widest << 4)
			break;
	}
	size_t n = 0;
	while (n < DWARF_INDEX_DEPTH && have[n])
		n++;
	return n;
}

size_t dwarf_index_lookup(const struct dwarf_index *x, uint64_t address, struct buf *text, struct dwarf_frame *out,
			  size_t max)
{
	struct dwarf_call calls[DWARF_INDEX_DEPTH];
	struct dwarf_row row = { 0 };
	if (x->fd < 0)
		return 0;
	bool have_row = find_row(x, address, &row);
	size_t depth = find_calls(x, address, calls), n = 0;
	if (!have_row && !depth)
		return 0;
	uint32_t file = row.file, line = have_row ? row.line : 0;
	for (size_t i = depth; i-- && n + 1 < max;) {
		out[n++] = (struct dwarf_frame){ put_text(x, calls[i].name, text), put_text(x, file, text), line, calls[i].start_line };
		file = calls[i].call_file;
		line = calls[i].call_line;
	}
	out[n++] = (struct dwarf_frame){ put_text(x, 0, text), put_text(x, file, text), line, 0 };
	return text->overflow ? 0 : n;
}

/* ---- the helper ---- */

#ifdef __SANITIZE_ADDRESS__
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

enum { HELPER_OK, HELPER_FAILED, HELPER_NOTHING, HELPER_PARTLY, HELPER_COMPRESSED }; /* exit status */

/* If memory runs out all the same, the kernel ends it first. */
static void offer_to_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1000", 4) != 4) {
		/* it is only a courtesy */
	}
	close(fd);
}

static NORETURN void helper(int elf_fd, int out_fd)
{
	struct err e;
	bool whole;
	struct rlimit cpu = { HELPER_CPU_S, HELPER_CPU_S }, none = { 0, 0 };
	offer_to_oom_killer();
	int in = fcntl(elf_fd, F_DUPFD, 10), out = fcntl(out_fd, F_DUPFD, 10);
	if (in < 0 || out < 0 || dup2(in, 3) < 0 || dup2(out, 4) < 0)
		_exit(HELPER_FAILED);
	syscall(SYS_close_range, 5u, ~0u, 0u);
	if (!SANITIZED) { /* the sanitizer's shadow memory alone is beyond any limit */
		child_limit_memory(RLIMIT_DATA, HELPER_MEMORY);
		child_limit_memory(RLIMIT_AS, HELPER_ADDRESSES);
	}
	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_CORE, &none);
	if (setpriority(PRIO_PROCESS, 0, 19)) {
		/* it is only a courtesy */
	}
	int rc = dwarf_index_write(3, 4, true, &whole, &e);
	_exit(rc == -ERR_NOT_FOUND ? HELPER_NOTHING : rc == -ERR_LIMIT ? HELPER_COMPRESSED : rc ? HELPER_FAILED : whole ? HELPER_OK : HELPER_PARTLY);
}

static int run_helper(int elf_fd, int out_fd, const atomic_bool *stop, struct child_pace *pace, bool *ret_partly, struct err *e)
{
	static const char what[] = "the reader of debug information";
	pid_t pid = child_start(what, e);
	int status, rc;

	if (pid < 0)
		return pid;
	if (pid == 0)
		helper(elf_fd, out_fd);
	rc = child_wait(pid, HELPER_DEADLINE_MS, stop, pace, what, &status, e);
	if (rc)
		return rc;
	if (WIFSIGNALED(status))
		return err_set(e, ERR_LIMIT, "the reader of debug information was ended by signal %d%s", WTERMSIG(status),
			       WTERMSIG(status) == SIGKILL ? ", perhaps for want of memory" : "");
	switch (WEXITSTATUS(status)) {
	case HELPER_OK:
		return 0;
	case HELPER_PARTLY:
		*ret_partly = true;
		return 0;
	case HELPER_COMPRESSED:
		return err_set(e, ERR_LIMIT, "its compressed debug information does not fit into %llu MB unpacked; objcopy "
			       "--decompress-debug-sections helps", (unsigned long long)HELPER_MEMORY >> 20);
	case HELPER_NOTHING:
		return err_set(e, ERR_NOT_FOUND, "no debug information");
	default:
		return err_set(e, ERR_IO, "the reader of debug information failed; is TMPDIR full?");
	}
}

int dwarf_index_make(struct dwarf_index *ret, int elf_fd, const char *cached, const atomic_bool *stop,
		     struct child_pace *pace, bool *ret_partly, struct err *e)
{
	char temp[512] = "";

	*ret_partly = false;
	int fd = cached ? open(cached, O_RDONLY | O_CLOEXEC) : -1;
	if (fd >= 0) {
		if (dwarf_index_open(ret, fd, e) == 0)
			return 0;
		close(fd); /* damaged or of another version: made again */
	}
	if (cached && snprintf(temp, sizeof temp, "%s.%d.tmp", cached, (int)getpid()) < (int)sizeof temp)
		fd = open(temp, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	else
		fd = -1;
	if (fd < 0) {
		temp[0] = 0;
		fd = tempfile_open("pyrrha-dwarf", e);
	}
	if (fd < 0)
		return fd;
	int rc = run_helper(elf_fd, fd, stop, pace, ret_partly, e);
	if (!rc)
		rc = dwarf_index_open(ret, fd, e);
	if (rc)
		close(fd);
	if (temp[0] && (rc || rename(temp, cached)))
		unlink(temp);
	return rc;
}
