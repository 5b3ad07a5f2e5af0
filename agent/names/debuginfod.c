/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/names/debuginfod.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/vec.h"
#include "elf/elf_file.h"
#include "symbols/child.h"
#include "symbols/tempfile.h"

#define HELPER_MEMORY ((rlim_t)1 << 30)
#define LIBRARY "libdebuginfod.so.1"
#define ID_MAX 32

const struct debuginfod_limits debuginfod_limits = { (uint64_t)512 << 20, 60, 90000 };

enum { SAID_FOUND, SAID_ABSENT, SAID_NO_CLIENT, SAID_NO_ROOM, SAID_FAILED };

/* ---- in the helper ---- */

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return remove(path);
}

static void drop_capabilities(void)
{
	struct __user_cap_header_struct h = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct none[2] = { 0 };
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	syscall(SYS_capset, &h, none);
}

static void take_limits(const struct debuginfod_limits *l)
{
	rlim_t seconds = (rlim_t)l->seconds;
	struct rlimit cpu = { seconds, seconds }, none = { 0, 0 };
	struct rlimit file = { l->bytes, l->bytes };
#ifndef __SANITIZE_ADDRESS__ /* its shadow memory alone is beyond any limit */
	child_limit_memory(RLIMIT_AS, HELPER_MEMORY);
#endif
	setrlimit(RLIMIT_CPU, &cpu);
	setrlimit(RLIMIT_FSIZE, &file);
	setrlimit(RLIMIT_CORE, &none);
	if (setpriority(PRIO_PROCESS, 0, 19)) {
		/* it is only a courtesy */
	}
}

/* The client reads these from its environment: servers, timeout, size limit, cache directory. The rest stays (proxies). */
static void tell_client(const char *urls, const char *cache, const struct debuginfod_limits *l)
{
	VEC(char *) vars = { 0 };
	vec_push(&vars, xasprintf("DEBUGINFOD_URLS=%s", urls));
	vec_push(&vars, xasprintf("DEBUGINFOD_CACHE_PATH=%s", cache));
	vec_push(&vars, xasprintf("DEBUGINFOD_TIMEOUT=%d", 10));
	vec_push(&vars, xasprintf("DEBUGINFOD_MAXTIME=%d", l->seconds));
	vec_push(&vars, xasprintf("DEBUGINFOD_MAXSIZE=%llu", (unsigned long long)l->bytes));
	for (char **v = environ; *v; v++)
		if (!view_starts(view_of(*v), VIEW("DEBUGINFOD_")))
			vec_push(&vars, *v);
	vec_push(&vars, NULL);
	environ = vars.v;
}

static int copy_to(int from, int to, uint64_t max)
{
	struct stat st;
	if (fstat(from, &st) || (uint64_t)st.st_size > max)
		return SAID_FAILED;
	for (off_t at = 0; at < st.st_size;)
		if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0)
			return SAID_FAILED;
	return SAID_FOUND;
}

bool debuginfod_client_here(void)
{
	return dlopen(LIBRARY, RTLD_LAZY) != NULL;
}

static int ask(const char *build_id, uint64_t max, int out)
{
	void *lib = dlopen(LIBRARY, RTLD_NOW);
	void *(*begin)(void) = lib ? (void *(*)(void))dlsym(lib, "debuginfod_begin") : NULL;
	int (*find)(void *, const unsigned char *, int, char **) =
		lib ? (int (*)(void *, const unsigned char *, int, char **))dlsym(lib, "debuginfod_find_debuginfo") : NULL;
	if (!begin || !find)
		return SAID_NO_CLIENT;
	void *client = begin();
	/* A length of 0 says that the build-id is a string. */
	int fd = client ? find(client, (const unsigned char *)build_id, 0, NULL) : -EIO;
	return fd >= 0 ? copy_to(fd, out, max) : fd == -ENOENT ? SAID_ABSENT : SAID_FAILED;
}

static NORETURN void helper(const char *urls, const char *cache_dir, const char *build_id, const struct debuginfod_limits *l,
			    int out_fd)
{
	char own[4096], kept[4096];
	const char *temp = getenv("TMPDIR");
	if (dup2(out_fd, 3) < 0)
		_exit(SAID_FAILED);
	syscall(SYS_close_range, 4u, ~0u, 0u);
	drop_capabilities();
	take_limits(l);
	snprintf(own, sizeof own, "%s/pyrrha-debuginfod-XXXXXX", temp && *temp ? temp : "/tmp");
	if (cache_dir)
		snprintf(kept, sizeof kept, "%s/debuginfod", cache_dir);
	else if (!mkdtemp(own))
		_exit(SAID_NO_ROOM);
	tell_client(urls, cache_dir ? kept : own, l);
	int said = ask(build_id, l->bytes, 3);
	if (!cache_dir)
		nftw(own, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	_exit(said);
}

/* ---- in the agent ---- */

static int result(int status, struct err *e)
{
	int said = WIFEXITED(status) ? WEXITSTATUS(status) : SAID_FAILED;
	return said == SAID_FOUND ? 0 :
	       said == SAID_ABSENT ? err_set(e, ERR_NOT_FOUND, "no debuginfod server has it") :
	       said == SAID_NO_CLIENT ? err_set(e, ERR_UNAVAILABLE, "%s cannot be loaded: install it (Debian: libdebuginfod1)",
						LIBRARY) :
	       said == SAID_NO_ROOM ? err_set(e, ERR_IO, "the debuginfod client has no folder to write to: give --cache-dir or TMPDIR") :
					err_set(e, ERR_IO, "the debuginfod client failed");
}

static bool is_of(int fd, const char *build_id)
{
	struct elf_file f;
	uint8_t id[ID_MAX];
	char hex[2 * ID_MAX + 1] = "";
	if (elf_open(&f, fd, NULL))
		return false;
	size_t n = elf_build_id(&f, id, sizeof id);
	for (size_t i = 0; i < n; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	elf_close(&f);
	return n && strcmp(hex, build_id) == 0;
}

int debuginfod_fetch(const char *urls, const char *cache_dir, const char *build_id, const struct debuginfod_limits *l,
		     const atomic_bool *stop, struct err *e)
{
	static const char what[] = "the debuginfod client";
	int status, fd = tempfile_open("pyrrha-debuginfod", e);
	if (fd < 0)
		return fd;
	pid_t pid = child_start(what, e);
	if (pid == 0)
		helper(urls, cache_dir, build_id, l, fd);
	int rc = pid < 0 ? pid : child_wait(pid, l->deadline_ms, stop, NULL, what, &status, e);
	if (!rc)
		rc = result(status, e);
	if (!rc && !is_of(fd, build_id))
		rc = err_set(e, ERR_BAD_DATA, "a debuginfod server answered with another file");
	if (!rc)
		return fd;
	close(fd);
	return rc;
}
