/* SPDX-License-Identifier: Apache-2.0 */
/* Lives and deaths of a storage. What a life does is in life.h. The parent here starts the next one in the same directory, with a
 * new directory every LIVES_PER_DIR. At the end it prints how many lives of each kind there were and what they held.
 *
 *	torture [--lives N] [--seed N] [--kinds kill,power,...] [--rot] [--bucket] [--keep] [--trace] --faults LIBRARY --dir DIR
 *
 * --bucket: the storage has a bucket, a directory beside its own; now and then the disk of the storage is lost, and an empty one takes its place.
 *
 * --rot: before each life but the first ones of a directory one bit of one of its files is flipped.
 *
 * --trace: beside each directory lies what its last lives did to files and said, DIR.trace, before it DIR.trace.1 and so on, and
 * what the last power loss left, DIR.after.
 *
 * Everything random comes from the seed; which thread comes first does not. A failure leaves the directory and says how to
 * run the life again. */
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "tests/crash/ledger.h"
#include "tests/crash/life.h"
#include "tsdb/testkit.h"

#define LIVES_PER_DIR 25

static const struct kind kinds[] = {
	{ "kill", "kill:%lu", NULL, 700, true, true, false },
	{ "power", "power:%lu", NULL, 700, true, true, false },
	{ "powersync", "powersync:%lu", NULL, 250, true, true, false },
	{ "write", "write:%lu:3", NULL, 300, false, false, false },
	{ "space", "space:%lu:40", NULL, 300, false, false, false },
	{ "shortwrite", "shortwrite:%lu:2", NULL, 300, false, false, false },
	{ "sync", "sync:%lu:2", NULL, 200, false, false, false },
	{ "sync+power", "sync:%lu:1", "power:%lu", 250, true, false, false },
	{ "space+kill", "space:%lu:0", "kill:%lu", 300, true, false, false },
	{ "open", "open:%lu:3", NULL, 40, false, false, true },
	{ "rename", "rename:%lu:2", NULL, 12, false, false, false },
	{ "unlink", "unlink:%lu:5", NULL, 20, false, false, false },
	{ "read", "read:%lu:4", NULL, 300, false, false, true },
	{ "shortread", "shortread:%lu:4", NULL, 300, false, false, true },
	{ "flip", "flip:%lu:3", NULL, 300, false, false, true },
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

struct run {
	const char *dir, *faults, *wanted;
	uint64_t seed;
	unsigned lives;
	bool keep, trace, rot, bucket;
};

void die(const char *f, ...)
{
	va_list args;
	va_start(args, f);
	fputs("torture: ", stderr);
	vfprintf(stderr, f, args);
	fputc('\n', stderr);
	va_end(args);
	fflush(NULL);
	_exit(1);
}

/* ---- the parent ---- */

struct tally {
	unsigned lives, deaths, refused_starts, aborted;
	unsigned long acknowledged, refused, queries, query_errors, lost;
};

#define TRACES 4

/* The traces of the lives before stay. What a life says goes into its trace. */
static void begin_trace(const char *dir)
{
	for (int i = TRACES; i--;) {
		AUTOFREE char *from = i ? xasprintf("%s.trace.%d", dir, i) : xasprintf("%s.trace", dir),
			      *to = xasprintf("%s.trace.%d", dir, i + 1);
		rename(from, to);
	}
	AUTOFREE char *name = xasprintf("%s.trace", dir);
	setenv("FAULTS_TRACE", name, 1);
	int fd = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0)
		dup2(fd, 2);
}

static void run_child(const struct run *r, const char *self, const char *dir, const char *ledger, unsigned kind, uint64_t seed,
		      int out)
{
	AUTOFREE char *kind_arg = xasprintf("%u", kind), *seed_arg = xasprintf("%llu", (unsigned long long)seed);
	const char *asan = getenv("ASAN_OPTIONS");
	AUTOFREE char *options = xasprintf("%s:verify_asan_link_order=0", asan ? asan : "");
	setenv("LD_PRELOAD", r->faults, 1);
	setenv("FAULTS_DIR", dir, 1);
	if (r->bucket)
		setenv("TORTURE_BUCKET", "1", 1);
	setenv("FAULTS_SEED", seed_arg, 1);
	setenv("ASAN_OPTIONS", options, 1);
	if (r->trace)
		begin_trace(dir);
	dup2(out, 1);
	execl(self, self, "--life", dir, ledger, kind_arg, seed_arg, (char *)NULL);
	_exit(127);
}

/* How many appends were acknowledged in all lives of a directory. */
static unsigned long acked(const char *ledger)
{
	struct ledger *l = ledger_open(ledger);
	unsigned long n = ledger_acked(l);
	ledger_close(l);
	return n;
}

static void read_report(int fd, struct tally *t)
{
	char text[1024] = "";
	unsigned long n[4];
	lseek(fd, 0, SEEK_SET);
	ssize_t len = read(fd, text, sizeof text - 1);
	if (len > 0)
		text[len] = 0;
	for (char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
		t->refused_starts += !strncmp(line, "refused:", 8);
		if (!strncmp(line, "lost ", 5))
			t->lost += strtoul(line + 5, NULL, 10);
		if (strncmp(line, "acknowledged ", 13))
			continue;
		char *p = line;
		for (int i = 0; i < 4; i++) {
			while (*p && (*p < '0' || *p > '9'))
				p++;
			n[i] = strtoul(p, &p, 10);
		}
		t->refused += n[1];
		t->queries += n[2];
		t->query_errors += n[3];
	}
}

/* ---- rot ---- */

#define ROT_AFTER 4 /* lives of a directory */

struct choice {
	char *file; /* the one chosen so far, of n */
	uint64_t n, *random;
};

static struct choice chosen; /* nftw takes no argument */

static int choose(const char *name, const struct stat *st, int type, struct FTW *at)
{
	const char *base = name + at->base;
	if (type != FTW_F || !st->st_size || !strcmp(base, "lock") || !strncmp(base, "LOG", 3) || kit_random(chosen.random) % ++chosen.n)
		return 0;
	free(chosen.file);
	chosen.file = xstrdup(name);
	return 0;
}

static void flip_a_bit(const char *dir, uint64_t *random)
{
	uint8_t byte;
	chosen = (struct choice){ .random = random };
	nftw(dir, choose, 16, FTW_PHYS);
	int fd = chosen.file ? open(chosen.file, O_RDWR | O_CLOEXEC) : -1;
	struct stat st;
	if (fd >= 0 && fstat(fd, &st) == 0) {
		off_t at = (off_t)(kit_random(random) % (uint64_t)st.st_size);
		int bit = (int)(kit_random(random) % 8);
		if (pread(fd, &byte, 1, at) == 1) {
			byte ^= (uint8_t)(1u << bit);
			if (pwrite(fd, &byte, 1, at) != 1)
				die("cannot write %s", chosen.file);
			printf("rot: bit %d of byte %lld of %s\n", bit, (long long)at, chosen.file);
		}
	}
	if (fd >= 0)
		close(fd);
	free(chosen.file);
	chosen.file = NULL;
}

/* False if the life failed. */
static bool one(const struct run *r, const char *self, const char *dir, const char *ledger, unsigned kind, uint64_t seed,
		struct tally *t)
{
	AUTOFREE char *name = xasprintf("%s.out", dir);
	int out = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), status = 0;
	unsigned long before = acked(ledger);
	pid_t pid = fork();
	if (!pid)
		run_child(r, self, dir, ledger, kind, seed, out);
	waitpid(pid, &status, 0);
	read_report(out, t);
	t->acknowledged += acked(ledger) - before;
	close(out);
	t->lives++;
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	t->deaths += killed;
	/* Debian's RocksDB has its assertions in: some do not expect that a read fails. */
	bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && kinds[kind].reads;
	t->aborted += aborted;
	if (killed || aborted || status == 0)
		return true;
	printf("FAILED (status %#x): %sLD_PRELOAD=%s FAULTS_DIR=%s FAULTS_SEED=%llu %s --life %s %s %u %llu\n", (unsigned)status, r->bucket ? "TORTURE_BUCKET=1 " : "",
	       r->faults, dir, (unsigned long long)seed, self, dir, ledger, kind, (unsigned long long)seed);
	return false;
}

static bool wanted(const struct run *r, const char *name)
{
	size_t len = strlen(name);
	for (const char *p = r->wanted; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (!strncmp(p, name, len) && (!p[len] || p[len] == ','))
			return true;
	return !r->wanted;
}

static void remove_all(const char *path)
{
	pid_t pid = fork();
	if (!pid) {
		AUTOFREE char *all = xasprintf("rm -rf '%s' '%s'.*", path, path);
		execlp("sh", "sh", "-c", all, (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
}

static void touch_beside(const char *dir, const char *suffix)
{
	AUTOFREE char *name = xasprintf("%s%s", dir, suffix);
	close(open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* Makes the two directories of a life with a bucket; sometimes that of the storage is lost. */
static void prepare_bucket(const char *dir, unsigned life, uint64_t *random)
{
	AUTOFREE char *bucket = xasprintf("%s/" LIFE_BUCKET, dir), *storage = xasprintf("%s/" LIFE_STORAGE, dir);
	mkdir(dir, 0750);
	mkdir(bucket, 0750);
	if (life % LIVES_PER_DIR < 3 || kit_random(random) % 5)
		return;
	remove_all(storage);
	touch_beside(dir, LIFE_LOST);
	touch_beside(dir, LIFE_WAS_LOST);
}

static void print_tally(const struct tally *t, unsigned at, int64_t ms, bool rot)
{
	struct tally all = { 0 };
	printf("%-11s %6s %6s %8s %13s %8s %8s %8s %10s\n", "fault", "lives", "killed", "refused", "acknowledged", "refused", "queries",
	       "failed", "records");
	printf("%-11s %6s %6s %8s %13s %8s %8s %8s %10s\n", "", "", "", "starts", "profiles", "", "", "queries", "said lost");
	for (size_t i = 0; i < N_KINDS; i++) {
		if (!t[i].lives)
			continue;
		printf("%-11s %6u %6u %8u %13lu %8lu %8lu %8lu %10lu\n", kinds[i].name, t[i].lives, t[i].deaths, t[i].refused_starts,
		       t[i].acknowledged, t[i].refused, t[i].queries, t[i].query_errors, t[i].lost);
		all.lives += t[i].lives;
		all.deaths += t[i].deaths;
		all.acknowledged += t[i].acknowledged;
		all.aborted += t[i].aborted;
	}
	if (all.aborted)
		printf("%u lives were ended by an assertion in RocksDB after a read that was made to fail\n", all.aborted);
	if (rot) {
		printf("%u lives, %u of them killed, in %lld s, with a bit flipped before most of them: all started, and what was there was right\n",
		       at, all.deaths, (long long)ms / 1000);
		return;
	}
	printf("%u lives, %u of them killed, in %lld s: none of %lu acknowledged profiles was lost unsaid; no start was refused but "
	       "those whose own calls were made to fail\n", at, all.deaths, (long long)ms / 1000, all.acknowledged);
}

static int parent(const struct run *r, const char *self)
{
	struct tally t[N_KINDS] = { 0 };
	unsigned list[N_KINDS], n = 0;
	uint64_t random = r->seed;
	int64_t start = clock_mono_ms();
	char *dir = NULL, *ledger = NULL;
	for (unsigned i = 0; i < N_KINDS; i++)
		if (wanted(r, kinds[i].name))
			list[n++] = i;
	if (!n)
		die("no kind of fault is called \"%s\"", r->wanted);
	for (unsigned i = 0; i < r->lives; i++) {
		if (i % LIVES_PER_DIR == 0) {
			if (dir)
				remove_all(dir);
			free(dir);
			free(ledger);
			dir = xasprintf("%s/run-%u", r->dir, i / LIVES_PER_DIR);
			ledger = xasprintf("%s.ledger", dir);
		}
		if (r->bucket)
			prepare_bucket(dir, i, &random);
		bool rotten = r->rot && i % LIVES_PER_DIR >= ROT_AFTER;
		if (rotten) {
			flip_a_bit(dir, &random);
			setenv("TORTURE_ROTTEN", "1", 1);
		} else {
			unsetenv("TORTURE_ROTTEN");
		}
		/* Every second life is killed or loses its power. */
		unsigned kind = list[kit_random(&random) % 2 && n == N_KINDS ? kit_random(&random) % 3 : kit_random(&random) % n];
		if (!one(r, self, dir, ledger, kind, kit_random(&random), &t[kind])) {
			printf("after %u lives; the seed was %llu\n", i, (unsigned long long)r->seed);
			free(dir);
			free(ledger);
			return 1;
		}
	}
	print_tally(t, r->lives, clock_mono_ms() - start, r->rot);
	if (dir && !r->keep)
		remove_all(dir);
	free(dir);
	free(ledger);
	return 0;
}

int main(int argc, char **argv)
{
	struct run r = { .seed = 1, .lives = 40 };
	struct rlimit no_core = { 0, 0 };
	setrlimit(RLIMIT_CORE, &no_core);
	if (argc == 6 && !strcmp(argv[1], "--life"))
		{
		unsigned kind = (unsigned)strtoul(argv[4], NULL, 10);
		return kind < N_KINDS ? life_live(argv[2], argv[3], &kinds[kind], strtoull(argv[5], NULL, 10)) : 1;
	}
	for (int i = 1; i < argc; i++) {
		const char *v = i + 1 < argc ? argv[i + 1] : "";
		if (!strcmp(argv[i], "--keep") || !strcmp(argv[i], "--trace") || !strcmp(argv[i], "--rot") ||
		    !strcmp(argv[i], "--bucket")) {
			*(argv[i][2] == 'k' ? &r.keep : argv[i][2] == 't' ? &r.trace : argv[i][2] == 'b' ? &r.bucket : &r.rot) = true;
			continue;
		}
		if (!strcmp(argv[i], "--lives"))
			r.lives = (unsigned)strtoul(v, NULL, 10);
		else if (!strcmp(argv[i], "--seed"))
			r.seed = strtoull(v, NULL, 10);
		else if (!strcmp(argv[i], "--kinds"))
			r.wanted = v;
		else if (!strcmp(argv[i], "--faults"))
			r.faults = v;
		else if (!strcmp(argv[i], "--dir"))
			r.dir = v;
		else
			die("usage: torture [--lives N] [--seed N] [--kinds LIST] [--rot] [--bucket] [--keep] [--trace] --faults LIBRARY --dir DIR");
		i++;
	}
	if (!r.faults || !r.dir)
		die("--faults and --dir are needed");
	return parent(&r, "/proc/self/exe");
}
