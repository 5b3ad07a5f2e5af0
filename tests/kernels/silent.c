/* SPDX-License-Identifier: Apache-2.0 */
/* A file system whose server answers until programs run from it, and never again. argv: a program that says a line once
 * all of its code was run (it and what it needs are one file); an empty folder to mount on; for each process to start:
 *
 *	run COMM      the program is run from the file system
 *	chroot COMM   the same by a process whose root is a folder in it
 *	overlay COMM  the same from an overlay file system that stands on it
 *
 * Says "silent" once nothing is answered any more. Mounts are its own namespace's; all of it ends with this process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHILDREN_MAX 8

/* The tree: / has the program and the folder sub, which has the program. */
enum { ROOT = FUSE_ROOT_ID, PROGRAM, SUB, PROGRAM_IN_SUB };

static char *program;
static size_t program_len;
static int dev;

static void must(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void reply(const struct fuse_in_header *in, int error, const void *p, size_t n)
{
	struct fuse_out_header out = { (uint32_t)(sizeof out + n), error, in->unique };
	struct iovec v[2] = { { &out, sizeof out }, { (void *)p, n } };
	if (writev(dev, v, n ? 2 : 1) < 0) { /* who asked is gone */
	}
}

static struct fuse_attr attr_of(uint64_t node)
{
	int folder = node == ROOT || node == SUB;
	return (struct fuse_attr){ .ino = node, .size = folder ? 0 : program_len, .blocks = (program_len + 511) / 512,
				   .mode = folder ? S_IFDIR | 0755 : S_IFREG | 0755, .nlink = 1, .blksize = 4096 };
}

/* Nothing is valid for any time: whoever looks again asks again. */
static void look_up(const struct fuse_in_header *in, const char *name)
{
	int in_folder = in->nodeid == ROOT || in->nodeid == SUB;
	uint64_t node = in_folder && strcmp(name, "program") == 0 ? (in->nodeid == ROOT ? PROGRAM : PROGRAM_IN_SUB) :
			in->nodeid == ROOT && strcmp(name, "sub") == 0 ? SUB : 0;
	struct fuse_entry_out e = { .nodeid = node, .generation = 1, .attr = attr_of(node) };
	reply(in, node ? 0 : -ENOENT, &e, node ? sizeof e : 0);
}

static void answer_read(const struct fuse_in_header *in, const struct fuse_read_in *r)
{
	size_t at = r->offset < program_len ? r->offset : program_len;
	size_t n = r->size < program_len - at ? r->size : program_len - at;
	reply(in, 0, program + at, n);
}

static void answer(const struct fuse_in_header *in, const void *body)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION, .minor = FUSE_KERNEL_MINOR_VERSION, .max_readahead = 65536,
				      .max_background = 16, .congestion_threshold = 12, .max_write = 4096 };
	struct fuse_attr_out attr = { .attr = attr_of(in->nodeid) };
	struct fuse_open_out opened = { .fh = in->nodeid, .open_flags = FOPEN_KEEP_CACHE };
	struct fuse_statfs_out statfs = { .st = { .bsize = 4096, .namelen = 255, .frsize = 4096 } };

	switch (in->opcode) {
	case FUSE_INIT: reply(in, 0, &init, sizeof init); break;
	case FUSE_LOOKUP: look_up(in, body); break;
	case FUSE_GETATTR: reply(in, 0, &attr, sizeof attr); break;
	case FUSE_OPEN: case FUSE_OPENDIR: reply(in, 0, &opened, sizeof opened); break;
	case FUSE_READ: answer_read(in, body); break;
	case FUSE_STATFS: reply(in, 0, &statfs, sizeof statfs); break;
	case FUSE_READDIR: case FUSE_RELEASE: case FUSE_RELEASEDIR: case FUSE_FLUSH: case FUSE_ACCESS: reply(in, 0, NULL, 0); break;
	case FUSE_FORGET: case FUSE_BATCH_FORGET: case FUSE_INTERRUPT: break;
	default: reply(in, -ENOSYS, NULL, 0);
	}
}

static void mount_at(const char *at)
{
	char how[128];
	dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	must(dev >= 0, "/dev/fuse");
	snprintf(how, sizeof how, "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other", dev);
	must(mount("silent", at, "fuse", 0, how) == 0, "mount fuse");
}

/* In the child, which waits for our answers like everybody. Its first line comes through `said`. */
static void start(const char *how, const char *comm, const char *at, int said)
{
	char path[4096], options[9000], *const argv[] = { (char *)comm, NULL };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, 10); /* who looks at them needs the CPU, too */
	dup2(said, 1);
	snprintf(path, sizeof path, "%s/program", at);
	if (strcmp(how, "chroot") == 0) {
		snprintf(path, sizeof path, "%s/sub", at);
		must(chroot(path) == 0 && chdir("/") == 0, "chroot");
		snprintf(path, sizeof path, "/program");
	} else if (strcmp(how, "overlay") == 0) {
		snprintf(path, sizeof path, "%s.empty", at);
		must(mkdir(path, 0755) == 0, path);
		snprintf(options, sizeof options, "lowerdir=%s/sub:%s", at, path);
		snprintf(path, sizeof path, "%s.merged", at);
		must(mkdir(path, 0755) == 0 && mount("overlay", path, "overlay", 0, options) == 0, "mount overlay");
		snprintf(path, sizeof path, "%s.merged/program", at);
	}
	execv(path, argv);
	must(0, path);
}

static void read_program(const char *path)
{
	FILE *f = fopen(path, "rb");
	struct stat st;
	must(f && fstat(fileno(f), &st) == 0, path);
	program = malloc((size_t)st.st_size);
	program_len = fread(program, 1, (size_t)st.st_size, f);
	fclose(f);
}

/* Answers until as many children have said a line. */
static void serve_until(int said, int children)
{
	static char request[1 << 17];
	struct pollfd p[2] = { { dev, POLLIN, 0 }, { said, POLLIN, 0 } };
	char line[64];

	while (children > 0 && poll(p, 2, -1) > 0) {
		if (p[0].revents) {
			ssize_t n = read(dev, request, sizeof request);
			if (n >= (ssize_t)sizeof(struct fuse_in_header))
				answer((void *)request, request + sizeof(struct fuse_in_header));
		} else if (p[1].revents) {
			ssize_t n = read(said, line, sizeof line);
			must(n > 0, "the programs ended");
			for (ssize_t i = 0; i < n; i++)
				children -= line[i] == '\n';
		}
	}
}

int main(int argc, char **argv)
{
	int said[2], children = 0;

	must(argc > 4 && unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "unshare");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	read_program(argv[1]);
	mount_at(argv[2]);
	must(pipe2(said, O_CLOEXEC) == 0, "pipe");
	for (int i = 3; i + 1 < argc && children < CHILDREN_MAX; i += 2, children++) {
		pid_t pid = fork();
		must(pid >= 0, "fork");
		if (!pid)
			start(argv[i], argv[i + 1], argv[2], said[1]);
	}
	close(said[1]);
	serve_until(said[0], children);
	puts("silent");
	fflush(stdout);
	for (;;)
		pause();
}
