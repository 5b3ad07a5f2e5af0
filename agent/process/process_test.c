/* SPDX-License-Identifier: Apache-2.0 */
/* Processes told by records, without BPF, and the unwinder's step on this test's own stack. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/managed/rows.h"
#include "agent/process/cpu_budget.h"
#include "agent/process/process.h"
#include "agent/unwind/unwind_native.h"
#include "base/clock.h"
#include "elf/elf_file.h"
#include "symbols/mounts.h"

struct world {
	struct unwind_tables *tables;
	struct images *images;
	struct processes *ps;
	uint32_t execs;              /* of exec_interpreter */
};

static struct world world_new(void)
{
	struct world w = { 0 };
	struct err e;

	assert_int_equal(unwind_tables_new(&w.tables, NULL, &e), 0);
	w.images = images_new(w.tables, RUNTIMES_ALL);
	w.ps = processes_new(w.tables, w.images, -1);
	return w;
}

static void world_free(struct world *w)
{
	processes_free(w->ps);
	images_free(w->images);
	unwind_tables_free(w->tables);
}

/* --- file systems that answer when they like --- */

static void test_mounts(void **state)
{
	struct view text = VIEW("22 1 253:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n"
				"36 22 0:98 / /mnt/eve/with\\040blank rw,nosuid - fuse.sshfs eve rw,user_id=0\n"
				"37 22 0:99 / /mnt/eve/overlay rw master:1 propagate_from:2 - overlay overlay rw,lowerdir=/a:/b,upperdir=/c\n"
				"nonsense\n"
				"39 22 0:102 / /lower rw - overlay overlay rw,lowerdir=/a:/mnt/eve/with\\040blank/x,upperdir=/c\n"
				"40 22 0:103 / /upper rw - overlay overlay rw,lowerdir=l/A:l/B,upperdir=/fuse\n"
				"38 22 0:100 / /fuse rw - fuse x rw");
	struct mounts_known k = { text, text, false };

	assert_false(mounts_device_waits(&k, makedev(253, 0)));
	assert_true(mounts_device_waits(&k, makedev(0, 98)));
	assert_false(mounts_device_waits(&k, makedev(0, 99)));
	assert_true(mounts_device_waits(&k, makedev(0, 100)));
	assert_true(mounts_device_waits(&k, makedev(0, 101))); /* whose is it? */
	assert_true(mounts_device_waits(&k, makedev(0, 102)));
	assert_true(mounts_device_waits(&k, makedev(0, 103)));
	assert_true(mounts_path_waits(&k, "/mnt/eve/with blank/lib/libc.so.6"));
	assert_true(mounts_path_waits(&k, "/fuse"));
	assert_false(mounts_path_waits(&k, "/fuses/x"));
	assert_false(mounts_path_waits(&k, "/mnt/eve/overlay/x"));
	assert_true(mounts_path_waits(&k, "/lower/x"));
	/* In a namespace that anybody may have made only overlays that the host has, too, are believed. */
	k.anybodys = true;
	assert_false(mounts_device_waits(&k, makedev(0, 99)));
	k.host = VIEW("");
	assert_true(mounts_device_waits(&k, makedev(0, 99)) && mounts_path_waits(&k, "/mnt/eve/overlay/x"));
	assert_false(mounts_device_waits(&k, makedev(253, 0)));
	/* What only the host's list has. */
	k.host = text;
	k.its = VIEW("");
	assert_false(mounts_device_waits(&k, makedev(0, 99)));
	assert_true(mounts_device_waits(&k, makedev(0, 98)));

	int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_false(mounts_way_waits(0, root, "/bin/sh"));
	assert_false(mounts_way_waits((uint32_t)getpid(), root, "/bin/sh"));
	close(root);
}

/* --- files that claim the same build-id --- */

/* A copy of the C library, with one byte of its symbols' names changed if `other`. Returns its path, to be unlinked. */
static char *copy_of_library(bool other)
{
	Dl_info lib;
	char *path = strdup("/tmp/process_test.XXXXXX");
	struct elf_file f;
	uint8_t byte = 'Q';

	assert_true(dladdr((void *)(uintptr_t)&qsort, &lib) != 0);
	int from = open(lib.dli_fname, O_RDONLY | O_CLOEXEC), to = mkstemp(path);
	assert_true(from >= 0 && to >= 0);
	assert_int_equal(elf_open(&f, from, NULL), 0);
	for (off_t at = 0; at < (off_t)f.size;) {
		char piece[65536];
		ssize_t n = pread(from, piece, sizeof piece, at);
		assert_true(n > 0 && write(to, piece, (size_t)n) == n);
		at += n;
	}
	if (other)
		assert_int_equal(pwrite(to, &byte, 1, (off_t)elf_section(&f, ".dynstr")->sh_offset + 1), 1);
	elf_close(&f);
	close(from);
	close(to);
	return path;
}

/* Maps it executable into this process, tells it as a record does; the image that it turns out to be. */
static struct image *image_of_copy(struct world *w, const char *path, uint64_t *ret_at)
{
	struct image_key key;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint32_t pid = (uint32_t)getpid();

	void *at = mmap(NULL, 65536, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	assert_true(at != MAP_FAILED);
	image_key_of_fd(fd, view_of(path), &key);
	assert_true(key.build_id_len > 0);
	key.dev = key.ino = 0;       /* records have either */
	close(fd);
	processes_exec(w->ps, pid, "x");
	processes_mmap(w->ps, pid, (uintptr_t)at, 65536, 0, &key);
	struct process *p = processes_sampled(w->ps, pid, 1, 1);
	assert_true(processes_prepare(w->ps, p));
	*ret_at = (uintptr_t)at;
	return process_mapping_at(p, (uintptr_t)at)->image;
}

static void test_build_ids_may_lie(void **state)
{
	struct world w = world_new();
	char *forged = copy_of_library(true), *true_one = copy_of_library(false), *copy = copy_of_library(false);
	uint64_t at[3];

	/* The forged one is seen first. Held, as by a sample: an image that nobody maps may go. */
	struct image *f = image_of_copy(&w, forged, &at[0]), *t = image_of_copy(&w, true_one, &at[1]);
	struct image *c = image_of_copy(&w, copy, &at[2]);
	assert_int_equal(f->state, IMAGE_ELF);
	assert_int_equal(t->state, IMAGE_ELF);
	assert_ptr_not_equal(f, t);
	assert_ptr_equal(t, c);
	assert_int_not_equal(f->id, t->id);
	assert_true(f->id && t->id);
	assert_string_equal(f->path, forged);
	assert_string_equal(t->path, true_one);
	/* Written to while it is in use: what is read of it from now on is somebody's choice. */
	int fd = open(true_one, O_RDWR | O_CLOEXEC);
	struct elf_file e;
	assert_int_equal(elf_open(&e, fd, NULL), 0);
	off_t names = (off_t)elf_section(&e, ".dynstr")->sh_offset + 1;
	elf_close(&e);
	assert_int_equal(fchmod(fd, 0700), 0); /* that changes nothing of it */
	assert_true(images_load_table(w.images, t, 0x30000));
	assert_int_equal(pwrite(fd, "Q", 1, names), 1);
	assert_false(images_load_table(w.images, t, 0x90000));
	assert_int_equal(atomic_load(&t->fd), -1);
	assert_int_equal(images_why_no_table(w.images, t), END_NO_TABLE);
	assert_true(images_load_table(w.images, f, 0x30000));
	close(fd);
	/* Somebody who changes its stamp all the time does not keep us reading it. */
	fd = open(forged, O_RDWR | O_CLOEXEC);
	int reads = 0;
	for (uint64_t page = 0x40; atomic_load(&f->fd) >= 0 && reads < 100; page += 0x10, reads++) {
		assert_int_equal(fchmod(fd, reads % 2 ? 0700 : 0755), 0);
		images_load_table(w.images, f, page << 12);
	}
	assert_in_range(reads, 2, 99);
	close(fd);
	for (int i = 0; i < 3; i++)
		munmap((void *)(uintptr_t)at[i], 65536);
	unlink(forged);
	unlink(true_one);
	unlink(copy);
	free(forged);
	free(true_one);
	free(copy);
	world_free(&w);
}

/* A table that was not built for lack of memory is told from one that there is none of. */
static void test_tables_full(void **state)
{
	struct world w = world_new();
	char *path = copy_of_library(false);
	uint64_t at, vaddr;

	/* The least memory for rows. Nothing gives way to this file: the only table is its own, and it was sampled just now. */
	unwind_tables_set_room(w.tables, 0);
	struct image *im = image_of_copy(&w, path, &at);
	for (vaddr = 0x28000; vaddr < 0x100000 && images_load_table(w.images, im, vaddr); vaddr += 0x1000)
		;
	assert_true(unwind_tables_stats(w.tables)->failures > 0);
	assert_int_equal(images_why_no_table(w.images, im), END_TABLES_FULL);
	/* 20 s later the next attempt is due: the table is no longer called full. */
	unwind_tables_set_ahead(w.tables, 20000000000ll);
	assert_int_equal(images_why_no_table(w.images, im), END_NO_TABLE);
	unwind_tables_set_room(w.tables, UNWIND_ROOM_BYTES);
	assert_true(images_load_table(w.images, im, vaddr));
	munmap((void *)(uintptr_t)at, 65536);
	unlink(path);
	free(path);
	world_free(&w);
}

/* A budget that grows by a tenth of the time, up to 50 ns. */
static void test_cpu_budget(void **state)
{
	struct cpu_budget b = { 0 };

	(void)state;
	cpu_budget_charge(&b, 1000);
	assert_true(cpu_budget_open(&b, 1000)); /* without a share there is no limit */
	cpu_budget_init(&b, 0.1, 50, 100, 1000);
	cpu_budget_charge(&b, 130);
	assert_false(cpu_budget_open(&b, 1200)); /* -30 + 20 */
	assert_false(cpu_budget_open(&b, 1300)); /* -30 + 30 */
	assert_true(cpu_budget_open(&b, 1310));
	assert_true(cpu_budget_open(&b, 1000000));
	cpu_budget_charge(&b, 49);
	assert_true(cpu_budget_open(&b, 1000000));
	cpu_budget_charge(&b, 1);
	assert_false(cpu_budget_open(&b, 1000000)); /* it had not grown beyond 50 */
}

/* When the CPU time for tables is used up, the next table is not built, and a stack that needs it ends with END_NOT_BUILT. */
static void test_tables_postponed(void **state)
{
	struct world w = world_new();
	char *path = copy_of_library(false);
	uint64_t at;
	struct image *im = image_of_copy(&w, path, &at);

	(void)state;
	images_set_share(w.images, 1e-9, 1);
	assert_true(images_load_table(w.images, im, 0x28000));
	assert_false(images_load_table(w.images, im, 0x80000));
	assert_int_equal(images_why_no_table(w.images, im), END_NOT_BUILT);
	assert_int_equal(images_postponed(w.images), 1);
	images_set_share(w.images, 1, 1);
	assert_true(images_load_table(w.images, im, 0x80000));
	munmap((void *)(uintptr_t)at, 65536);
	unlink(path);
	free(path);
	world_free(&w);
}

/* The image of a file that is mapped under a name that another one had. */
static struct image *image_as(struct world *w, const char *file, const char *name, uint64_t *ret_at)
{
	unlink(name);
	assert_int_equal(link(file, name), 0);
	return image_of_copy(w, name, ret_at);
}

/* Whatever number of images there is: the list of them may have to move for the second file of a record. */
static void test_second_file(void **state)
{
	char *forged = copy_of_library(true), *true_one = copy_of_library(false), *name = copy_of_library(false);

	for (uint64_t n = 0; n < 40; n++) {
		struct world w = world_new();
		uint64_t at[2];
		for (uint64_t i = 0; i < n; i++)
			images_get(w.images, &(struct image_key){ .dev = 1, .ino = 100 + i, .path = VIEW("/other") });
		struct image *f = image_as(&w, forged, name, &at[0]), *t = image_as(&w, true_one, name, &at[1]);
		assert_ptr_not_equal(f, t);
		assert_true(f->twins && t->twins);
		for (int i = 0; i < 2; i++)
			munmap((void *)(uintptr_t)at[i], 65536);
		world_free(&w);
	}
	unlink(forged);
	unlink(true_one);
	unlink(name);
	free(forged);
	free(true_one);
	free(name);
}

static const char *mapped(struct process *p, uint64_t addr)
{
	const struct mapping *m = process_mapping_at(p, addr);
	return !m ? "" : m->image ? m->image->path : "anonymous";
}

static void test_processes(void **state)
{
	struct world w = world_new();
	struct image_key a = { .ino = 1, .path = VIEW("/a") }, b = { .ino = 2, .path = VIEW("/b") };

	processes_fork(w.ps, 5000001, 1);
	processes_exec(w.ps, 5000001, "prog");
	processes_mmap(w.ps, 5000001, 0x10000, 0x4000, 0, &a);
	processes_mmap_code(w.ps, 5000001, 0x20000, 0x1000, "//anon");
	processes_mmap_code(w.ps, 5000001, 0x21000, 0x1000, "//anon");
	struct process *p = processes_sampled(w.ps, 5000001, 0, 1);
	assert_string_equal(p->comm, "prog");
	assert_string_equal(p->exe->path, "/a");
	assert_string_equal(mapped(p, 0x13fff), "/a");
	assert_string_equal(mapped(p, 0x14000), "");
	assert_int_equal(p->as->v.n, 2); /* pieces of code without a file are one */
	/* A child shares it until it maps something itself, in the middle of what was there. */
	processes_fork(w.ps, 5000002, 5000001);
	struct process *child = processes_sampled(w.ps, 5000002, 0, 1);
	assert_ptr_equal(child->as, p->as);
	processes_mmap(w.ps, 5000002, 0x11000, 0x1000, 0x5000, &b);
	assert_ptr_not_equal(child->as, p->as);
	assert_string_equal(mapped(child, 0x10fff), "/a");
	assert_string_equal(mapped(child, 0x11000), "/b");
	assert_string_equal(mapped(child, 0x12000), "/a");
	assert_int_equal(process_mapping_at(child, 0x12000)->file_offset, 0x2000);
	assert_string_equal(mapped(p, 0x11000), "/a");
	/* An exec forgets it all, and editions of before it are void. */
	uint32_t before = child->min_set;
	assert_true(processes_prepare(w.ps, child));
	processes_finish_drain(w.ps, 2);
	assert_true(child->in_kernel && child->set >= before);
	uint32_t set = child->set;
	processes_exec(w.ps, 5000002, "next");
	assert_string_equal(mapped(child, 0x11000), "");
	assert_true(set < child->min_set);
	/* One that ended stays for a drain: its last samples may still come. */
	processes_exit(w.ps, 5000001);
	assert_int_equal(processes_count(w.ps), 2);
	processes_finish_drain(w.ps, 3);
	assert_int_equal(processes_count(w.ps), 2);
	processes_finish_drain(w.ps, 4);
	assert_int_equal(processes_count(w.ps), 1);
	world_free(&w);
}

/* Memory is named by what the kernel calls it; what a program calls its own is read once, and digits are left out. */
static void test_regions(void **state)
{
	struct world w = world_new();
	uint32_t pid = (uint32_t)getpid();
	void *at = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t addr = (uintptr_t)at;
	char name[64];

	bool named = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, 4096, "code17") == 0;
	processes_exec(w.ps, pid, "x");
	processes_mmap_code(w.ps, pid, addr, 4096, "//anon");
	processes_mmap_code(w.ps, pid, 0x20000, 4096, "/dev/zero (deleted)");
	struct process *p = processes_sampled(w.ps, pid, 1, 1);
	assert_true(processes_prepare(w.ps, p));
	uint64_t before = processes_maps_reads(w.ps);
	uint8_t region = processes_region_at(w.ps, p, addr, 1);
	assert_string_equal(processes_region_name(w.ps, region), named ? "[anon:code]" : "anonymous memory");
	assert_int_equal(processes_region_at(w.ps, p, addr, 2), region);
	assert_string_equal(processes_region_name(w.ps, processes_region_at(w.ps, p, 0x20010, 3)), "/dev/zero");
	assert_int_equal(processes_maps_reads(w.ps), before + 1);
	/* A program that makes up names gets no more of them than there is room for. */
	for (int i = 0; i < 300; i++) {
		snprintf(name, sizeof name, "/memfd:%c%c\n%040d (deleted)", 'a' + i / 26, 'a' + i % 26, i);
		processes_mmap_code(w.ps, pid, 0x30000 + (uint64_t)i * 4096, 4096, name);
	}
	assert_string_equal(processes_region_name(w.ps, processes_region_at(w.ps, p, 0x30000, 4)), "/memfd:aa?");
	assert_string_equal(processes_region_name(w.ps, processes_region_at(w.ps, p, 0x30000 + 299 * 4096, 4)), "other memory");
	munmap(at, 4096);
	world_free(&w);
}

/* Code that comes and goes, page by page, is one mapping, and nothing is read again for it: neither for a file that is gone, nor, but
 * seldom, for an address that is in no mapping. */
static void test_code_comes_and_goes(void **state)
{
	struct world w = world_new();
	uint32_t pid = (uint32_t)getpid();
	struct image_key gone = { .ino = 1, .path = VIEW("/gone") };

	processes_exec(w.ps, pid, "x");
	processes_mmap(w.ps, pid, 0x10000, 0x1000, 0, &gone);
	struct process *p = processes_sampled(w.ps, pid, 1, 1);
	for (uint64_t i = 0; i < 10000; i++) {
		uint64_t page = i * 7919 % 10000; /* each once, in no order */
		processes_mmap_code(w.ps, pid, 0x10000000 + page * 4096, 4096, "//anon");
		assert_true(processes_prepare(w.ps, p));
		if (i % 100 == 0)
			processes_finish_drain(w.ps, (int64_t)i);
	}
	assert_int_equal(p->as->v.n, 2);
	assert_in_range(processes_maps_reads(w.ps), 0, 1);
	for (int64_t s = 1; s <= 3600; s++) {
		processes_mmap_code(w.ps, pid, 0x10000000 + (uint64_t)(10000 + s) * 4096, 4096, "//anon");
		processes_reread(w.ps, p, 0x666000, s * 1000000000);
	}
	assert_in_range(processes_maps_reads(w.ps), 10, 200);
	world_free(&w);
}

static void nothing_gone(void *arg, const struct image *was)
{
}

/* A process that maps here and there for ever, always inside of what it had: what is known of it stays bounded. */
static void test_mappings_bounded(void **state)
{
	struct image im = { 0 };
	struct address_space *as = NULL;
	uint64_t page = 4096;

	address_space_add(&as, (struct mapping){ page, 1000000 * page, 0, NULL, false, 0 }, nothing_gone, NULL);
	for (uint64_t i = 1; i <= 3 * MAPPINGS_MAX; i++)
		address_space_add(&as, (struct mapping){ 2 * i * page, (2 * i + 1) * page, 0, &im, false, 0 }, nothing_gone, NULL);
	assert_int_equal(as->v.n, MAPPINGS_MAX);
	for (size_t i = 1; i < as->v.n; i++)
		assert_true(as->v.v[i - 1].end <= as->v.v[i].start && as->v.v[i].start < as->v.v[i].end);
	address_space_unref(as);
	assert_int_equal(im.mapped, 0);
}

/* Code mapped where other code was, while the kernel's tables still have that. */
static void test_stale(void **state)
{
	struct world w = world_new();
	struct image_key a = { .ino = 1, .path = VIEW("/a") }, b = { .ino = 2, .path = VIEW("/b") };

	processes_fork(w.ps, 5000001, 1);
	processes_exec(w.ps, 5000001, "prog");
	processes_mmap(w.ps, 5000001, 0x10000, 0x4000, 0, &a);
	struct process *p = processes_sampled(w.ps, 5000001, 0, 1);
	assert_true(processes_prepare(w.ps, p));
	processes_finish_drain(w.ps, 1);
	uint32_t old = p->set, image = process_mapping_at(p, 0x10000)->image->id;
	assert_true(image != 0 && !process_frame_stale(p, image, old));
	processes_mmap(w.ps, 5000001, 0x10000, 0x4000, 0, &b);
	assert_true(process_frame_stale(p, image, old));
	processes_finish_drain(w.ps, 2);
	assert_true(p->set > old && !process_frame_stale(p, image, p->set));
	world_free(&w);
}

/* --- the step, against the C library's own unwinder --- */

int backtrace(void **buffer, int size); /* the C library's */

#define DEEP 20

struct capture {
	uint64_t ip, fp;
	void *trace[64];
	int n;
	uint8_t stack[2 * STACK_PAGE]; /* whole pages, from the one that `at` is in */
	uint64_t at;
};

static struct capture capture;

__attribute__((noinline)) static int dig(int depth)
{
	volatile char room[64];

	room[0] = (char)depth;
	if (depth > 0)
		return dig(depth - 1) + room[0];
	capture.n = backtrace(capture.trace, 64);
	__asm__ volatile("lea 0(%%rip), %0; mov %%rsp, %1; mov %%rbp, %2"
			 : "=&r"(capture.ip), "=&r"(capture.at), "=&r"(capture.fp));
	const uint8_t *from = (const uint8_t *)(uintptr_t)(capture.at & ~(STACK_PAGE - 1ull));
	for (size_t i = 0; i < sizeof capture.stack; i++)
		capture.stack[i] = ((const volatile uint8_t *)from)[i];
	return room[0];
}

static void test_step(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* functions call the sanitizer in between, and the frames are not what the tables say */
#endif
	struct world w = world_new();
	struct native_unwind nu = { .tables = w.tables };

	dig(DEEP);
	struct process *p = processes_sampled(w.ps, (uint32_t)getpid(), 0, 1);
	assert_true(processes_prepare(w.ps, p));
	nu.u.ip = capture.ip;
	nu.u.sp = capture.at;
	nu.u.fp = capture.fp;
	nu.maps = p->as->unwind;
	nu.n_maps = (uint32_t)p->as->v.n;
	nu.stack_at = capture.at & ~(STACK_PAGE - 1ull);
	nu.stack[0] = capture.stack;
	nu.stack[1] = capture.stack + STACK_PAGE;
	int end;
	while ((end = native_unwind(&nu)) == END_NO_TABLE)
		assert_true(images_load_table(w.images, unwind_tables_image_by_id(w.tables, nu.u.image), native_vaddr(&nu)));
	assert_true(end == END_BOTTOM || end == END_COPY_ENDED);
	assert_true(nu.u.n > DEEP && capture.n > DEEP);
	/* Frame 0 is this function at two different places; every caller is the same. */
	for (uint32_t i = 1; i < nu.u.n && (int)i < capture.n; i++) {
		uint64_t addr = (uint64_t)(uintptr_t)capture.trace[i] - 1;
		const struct mapping *m = process_mapping_at(p, addr);
		assert_non_null(m);
		const struct unwind_map *u = &p->as->unwind[m - p->as->v.v];
		assert_int_equal(nu.words[i], (uint64_t)u->image << FRAME_IMAGE_SHIFT | (addr - u->start + u->vaddr));
	}
	world_free(&w);
}

/* --- language runtimes --- */

/* A real interpreter's file, mapped into this process: nothing of it runs. NULL: none is here. */
static const char *interpreter(void)
{
	static char path[64];

	for (unsigned minor = 6; minor < 20; minor++) {
		struct stat st;
		snprintf(path, sizeof path, "/usr/bin/python3.%u", minor);
		if (stat(path, &st) == 0 && st.st_size > 1 << 20)
			return path;
	}
	return NULL;
}

#define MAPPED_BYTES ((size_t)1 << 20)

/* As a record of the kernel's has it. */
static struct image_key key_of_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct image_key key;

	image_key_of_fd(fd, view_of(path), &key);
	if (key.build_id_len)
		key.dev = key.ino = 0;
	close(fd);
	return key;
}

/* Tells records of an exec of it: the process (this one) is returned after the drain, which ends at now_ns. */
static struct process *exec_interpreter(struct world *w, const char *path, void **ret_at, int64_t now_ns)
{
	uint32_t pid = (uint32_t)getpid();
	struct image_key key;
	struct elf_file f;
	uint64_t offset = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_open(&f, fd, NULL), 0);
	for (size_t i = 0; i < f.n_ph; i++)
		if (f.ph[i].p_type == PT_LOAD && f.ph[i].p_flags & PF_X)
			offset = f.ph[i].p_offset & ~4095ull;
	elf_close(&f);
	*ret_at = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, (off_t)offset);
	assert_true(*ret_at != MAP_FAILED);
	close(fd);
	key = key_of_file(path);
	processes_exec(w->ps, pid, "x");
	processes_mmap(w->ps, pid, (uintptr_t)*ret_at, MAPPED_BYTES, offset, &key);
	processes_finish_drain(w->ps, now_ns);
	return processes_sampled(w->ps, pid, ++w->execs, now_ns);
}

/* Records were lost: a sample tells of another program than the one that was described. */
static void test_runtime_of_another_exec(void **state)
{
	const char *path = interpreter();
	struct world w = world_new();
	void *at;

	if (!path) {
		world_free(&w);
		skip();
	}
	struct process *p = exec_interpreter(&w, path, &at, clock_mono_ns());
	assert_non_null(p->runtimes[RUNTIME_PYTHON]);
	assert_ptr_equal(processes_sampled(w.ps, (uint32_t)getpid(), 2, clock_mono_ns()), p);
	assert_null(p->runtimes[RUNTIME_PYTHON]);
	munmap(at, MAPPED_BYTES);
	world_free(&w);
}

static void test_runtimes(void **state)
{
	const char *path = interpreter();
	int64_t now = clock_mono_ns();
	struct world w = world_new();
	const struct process_runtimes *x = processes_runtimes(w.ps);
	void *at;

	if (!path) {
		world_free(&w);
		skip();
	}
	/* Ready, and known to the kernel, before any sample; its samples wake the agent while it is young. */
	struct process *p = exec_interpreter(&w, path, &at, now);
	assert_true(p->hot && p->in_kernel && p->runtime.young);
	assert_string_equal(p->runtime.label, runtime_of(RUNTIME_PYTHON) ? process_mapping_at(p, (uintptr_t)at)->image->runtime->label : "");
	assert_non_null(p->runtimes[RUNTIME_PYTHON]);
	assert_int_equal(x->known[RUNTIME_PYTHON], 1);
	/* The table of the file is there before a sample asks for any of it. */
	const struct image *im = process_mapping_at(p, (uintptr_t)at)->image;
	for (unsigned i = 0; i < im->runtime->n_interpreter; i++)
		assert_false(unwind_tables_missing(w.tables, im, im->runtime->interpreter[i].start));
	/* Unloaded, and loaded again elsewhere, what was read of it the first time is void. */
	const struct mapping *m = process_mapping_at(p, (uintptr_t)at);
	struct image_key key = key_of_file(path), other = { .ino = 12345, .path = VIEW("/other") };
	uint64_t offset = m->file_offset, elsewhere = (uintptr_t)at + 8 * MAPPED_BYTES;
	for (unsigned i = 0; i < 2; i++) {
		struct runtime_owner *was = runtime_owner_ref(p->runtimes[RUNTIME_PYTHON]);
		processes_mmap(w.ps, p->pid, i ? elsewhere : (uintptr_t)at, MAPPED_BYTES, 0, &other);
		processes_finish_drain(w.ps, now);
		assert_int_equal(x->known[RUNTIME_PYTHON], 0);
		processes_mmap(w.ps, p->pid, i ? (uintptr_t)at : elsewhere, MAPPED_BYTES, offset, &key);
		processes_finish_drain(w.ps, now);
		assert_int_equal(x->known[RUNTIME_PYTHON], 1);
		assert_true(was->ended && p->runtimes[RUNTIME_PYTHON] != was);
		runtime_owner_unref(was);
	}
	/* A process that is forked of it is one, too, at once. */
	processes_fork(w.ps, 0x3ffffffe, (uint32_t)getpid());
	processes_finish_drain(w.ps, now);
	/* Its memory cannot be read, as there is no such process: that is not said before it was tried for a while. */
	assert_int_equal(x->known[RUNTIME_PYTHON], 1);
	assert_int_equal(x->waiting.n, 1);
	for (int64_t later = now; later < now + 40000000000ll; later += 100000000)
		processes_finish_drain(w.ps, later);
	assert_int_equal(x->waiting.n, 0);
	assert_int_equal(x->failed[RUNTIME_PYTHON][RUNTIME_FAIL_GONE], 1);
	processes_exit(w.ps, 0x3ffffffe);
	/* After some seconds it is young no more. */
	assert_false(p->runtime.young);
	assert_int_equal(x->young.n, 0);
	/* Another program: what was read of it is of the past. */
	struct runtime_owner *o = runtime_owner_ref(p->runtimes[RUNTIME_PYTHON]);
	uint32_t edition = x->edition;
	processes_exec(w.ps, (uint32_t)getpid(), "y");
	assert_int_not_equal(x->edition, edition); /* or CPUs go on with what they have copied */
	assert_true(o->ended && !p->runtimes[RUNTIME_PYTHON] && !p->runtime.label[0]);
	assert_int_equal(x->known[RUNTIME_PYTHON], 0);
	runtime_owner_unref(o);
	munmap(at, MAPPED_BYTES);
	world_free(&w);
}

/* The row of CPython, but that the memory of a process may not answer. */
static atomic_bool blocks;
static atomic_int attaching, attached;

static int slow_attach(const struct runtime_file *f, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e)
{
	atomic_fetch_add(&attaching, 1);
	while (atomic_load(&blocks))
		usleep(1000);
	int r = runtime_of(RUNTIME_PYTHON)->attach(f, m, bias, ret, e);
	atomic_fetch_add(&attached, 1);
	return r;
}

/* Drains for at most so long, until the count (of 4 or 8 bytes) is `value`. */
static bool drains_until(struct world *w, const void *count, size_t size, uint64_t value, int64_t ms)
{
	for (int64_t until = clock_mono_ms() + ms; clock_mono_ms() < until; usleep(10000)) {
		processes_finish_drain(w->ps, clock_mono_ns());
		if ((size == 4 ? *(const uint32_t *)count : *(const uint64_t *)count) == value)
			return true;
	}
	return false;
}

#define UNTIL(w, count, value, ms) assert_true(drains_until((w), &(count), sizeof(count), (value), (ms)))

static pid_t sleeping_child(void)
{
	pid_t pid = fork();

	if (pid == 0)
		for (;;)
			pause();
	return pid;
}

/* A process that this one has forked is sampled. */
static struct process *sample_child(struct world *w, pid_t pid)
{
	processes_fork(w->ps, (uint32_t)pid, (uint32_t)getpid());
	struct process *p = processes_sampled(w->ps, (uint32_t)pid, w->execs, clock_mono_ns());
	assert_true(processes_prepare(w->ps, p));
	processes_finish_drain(w->ps, clock_mono_ns());
	return p;
}

/* Memory that does not answer keeps no drain waiting, and one process unattached. */
static void test_attach_blocks(void **state)
{
	static struct runtime slow;
	const char *path = interpreter();
	struct world w = world_new();
	const struct process_runtimes *x = processes_runtimes(w.ps);
	void *at[4];

	if (!path) {
		world_free(&w);
		skip();
	}
	slow = *runtime_of(RUNTIME_PYTHON);
	slow.attach = slow_attach;
	slow.attach_reads = true;
	struct process *p = exec_interpreter(&w, path, &at[0], clock_mono_ns());
	UNTIL(&w, x->known[RUNTIME_PYTHON], 1, 10000);
	process_mapping_at(p, (uintptr_t)at[0])->image->runtime->of = &slow;
	/* The answer comes later than the drain waits for it. */
	atomic_store(&blocks, true);
	int64_t from = clock_mono_ms();
	p = exec_interpreter(&w, path, &at[1], clock_mono_ns());
	assert_true(clock_mono_ms() - from < ATTACH_STUCK_MS / 2);
	assert_true(p->in_kernel && p->runtime.attempts.v[0].job);
	assert_int_equal(x->known[RUNTIME_PYTHON], 0);
	atomic_store(&blocks, false);
	UNTIL(&w, x->known[RUNTIME_PYTHON], 1, 10000);
	assert_non_null(p->runtimes[RUNTIME_PYTHON]);
	assert_int_equal(x->failed[RUNTIME_PYTHON][RUNTIME_FAIL_STUCK], 0);
	/* It is of another program by the time that it comes. */
	int before = atomic_load(&attaching);
	atomic_store(&blocks, true);
	exec_interpreter(&w, path, &at[2], clock_mono_ns());
	for (int i = 0; i < 5000 && atomic_load(&attaching) == before; i++)
		usleep(1000);
	processes_exec(w.ps, (uint32_t)getpid(), "y");
	w.execs++;
	before = atomic_load(&attached);
	atomic_store(&blocks, false);
	for (int i = 0; i < 5000 && atomic_load(&attached) == before; i++)
		usleep(1000);
	processes_finish_drain(w.ps, clock_mono_ns());
	assert_int_equal(x->known[RUNTIME_PYTHON], 0);
	/* It does not come: once is enough. */
	atomic_store(&blocks, true);
	p = exec_interpreter(&w, path, &at[3], clock_mono_ns());
	before = atomic_load(&attaching);
	UNTIL(&w, x->failed[RUNTIME_PYTHON][RUNTIME_FAIL_STUCK], 1, 10 * ATTACH_STUCK_MS);
	assert_false(drains_until(&w, &x->known[RUNTIME_PYTHON], 4, 1, 200));
	assert_true(!p->runtime.attempts.v[0].job && !p->runtime.waiting && atomic_load(&attaching) <= before + 1);
	/* Another process is attached meanwhile. The one that is stuck stays so until the memory answers. */
	struct runtime_file *file = process_mapping_at(p, (uintptr_t)at[3])->image->runtime;
	file->of = runtime_of(RUNTIME_PYTHON);
	pid_t child[2] = { sleeping_child(), sleeping_child() };
	sample_child(&w, child[0]);
	UNTIL(&w, x->known[RUNTIME_PYTHON], 1, 10000);
	/* The end, with one thread left behind and one that is stuck. */
	file->of = &slow;
	before = atomic_load(&attaching);
	sample_child(&w, child[1]);
	for (int i = 0; i < 5000 && atomic_load(&attaching) == before; i++)
		usleep(1000);
	from = clock_mono_ms();
	world_free(&w);
	assert_true(clock_mono_ms() - from < 3 * ATTACH_STUCK_MS);
	before = atomic_load(&attached);
	atomic_store(&blocks, false);
	for (int i = 0; i < 5000 && atomic_load(&attached) < before + 2; i++)
		usleep(1000);
	assert_int_equal(atomic_load(&attached), before + 2);
	usleep(20000);               /* they free what they hold */
	for (size_t i = 0; i < ARRAY_LEN(at); i++)
		munmap(at[i], MAPPED_BYTES);
	for (size_t i = 0; i < ARRAY_LEN(child); i++) {
		kill(child[i], SIGKILL);
		waitpid(child[i], NULL, 0);
	}
}

/* The row of CPython, but that it knows no process where the file is mapped at that bias. */
static uint64_t strange_bias;

static int picky_attach(const struct runtime_file *f, struct process_memory *m, uint64_t bias, struct runtime_proc *ret, struct err *e)
{
	strange_bias = strange_bias ? strange_bias : bias;
	return bias == strange_bias ? -ERR_BAD_DATA : runtime_of(RUNTIME_PYTHON)->attach(f, m, bias, ret, e);
}

/* Of two files of one kind the one counts that can be attached. */
static void test_second_file_of_a_kind(void **state)
{
	static struct runtime picky;
	const char *path = interpreter();
	struct world w = world_new();
	const struct process_runtimes *x = processes_runtimes(w.ps);
	uint32_t pid = (uint32_t)getpid();
	struct image_key key;
	void *at[3];

	if (!path) {
		world_free(&w);
		skip();
	}
	picky = *runtime_of(RUNTIME_PYTHON);
	picky.attach = picky_attach;
	picky.attach_reads = false;
	struct process *p = exec_interpreter(&w, path, &at[0], clock_mono_ns());
	struct runtime_file *file = process_mapping_at(p, (uintptr_t)at[0])->image->runtime;
	file->of = &picky;
	p = exec_interpreter(&w, path, &at[1], clock_mono_ns());
	assert_int_equal(x->known[RUNTIME_PYTHON], 0);
	assert_int_equal(x->failed[RUNTIME_PYTHON][RUNTIME_FAIL_STRANGE], 0);
	UNTIL(&w, x->failed[RUNTIME_PYTHON][RUNTIME_FAIL_STRANGE], 1, 10000); /* it might have been half made */
	const struct mapping *m = process_mapping_at(p, (uintptr_t)at[1]);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	at[2] = mmap((char *)at[1] + 4 * MAPPED_BYTES, MAPPED_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, (off_t)m->file_offset);
	assert_true(at[2] != MAP_FAILED);
	key = key_of_file(path);
	close(fd);
	processes_mmap(w.ps, pid, (uintptr_t)at[2], MAPPED_BYTES, m->file_offset, &key);
	processes_finish_drain(w.ps, clock_mono_ns());
	assert_int_equal(x->known[RUNTIME_PYTHON], 1);
	assert_int_equal(x->failed[RUNTIME_PYTHON][RUNTIME_FAIL_STRANGE], 1);
	assert_non_null(p->runtimes[RUNTIME_PYTHON]);
	assert_int_equal(p->runtime.attempts.n, 2);
	file->of = runtime_of(RUNTIME_PYTHON);
	for (size_t i = 0; i < ARRAY_LEN(at); i++)
		munmap(at[i], MAPPED_BYTES);
	world_free(&w);
}

/* The wake-ups of young processes have a budget. */
static void test_young_budget(void **state)
{
	const char *path = interpreter();
	int64_t now = clock_mono_ns();
	struct world w = world_new();
	void *at;

	if (!path) {
		world_free(&w);
		skip();
	}
	struct process *p = exec_interpreter(&w, path, &at, now);
	for (int i = 0; i < YOUNG_PER_S - 1; i++)
		processes_sampled(w.ps, (uint32_t)getpid(), 1, now);
	assert_true(p->runtime.young);
	processes_sampled(w.ps, (uint32_t)getpid(), 1, now);
	assert_false(p->runtime.young);
	munmap(at, MAPPED_BYTES);
	world_free(&w);
}

/* With --runtimes without it a process has the label, and nothing else of it. */
static void test_runtimes_off(void **state)
{
	const char *path = interpreter();
	struct world w = { 0 };
	struct err e;
	void *at;

	if (!path)
		skip();
	assert_int_equal(unwind_tables_new(&w.tables, NULL, &e), 0);
	w.images = images_new(w.tables, RUNTIMES_ALL & ~(1u << RUNTIME_PYTHON));
	w.ps = processes_new(w.tables, w.images, -1);
	struct process *p = exec_interpreter(&w, path, &at, clock_mono_ns());
	assert_false(p->hot);
	assert_true(processes_prepare(w.ps, p));
	processes_finish_drain(w.ps, clock_mono_ns());
	assert_true(process_mapping_at(p, (uintptr_t)at)->image->runtime->off);
	assert_int_equal(strncmp(p->runtime.label, "cpython3.", 9), 0);
	assert_true(p->pushed && !p->runtimes[RUNTIME_PYTHON] && !p->runtime.attempts.n);
	assert_int_equal(processes_runtimes(w.ps)->failed[RUNTIME_PYTHON][RUNTIME_FAIL_BUILD], 0);
	munmap(at, MAPPED_BYTES);
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_processes), cmocka_unit_test(test_build_ids_may_lie), cmocka_unit_test(test_tables_full), cmocka_unit_test(test_cpu_budget), cmocka_unit_test(test_tables_postponed), cmocka_unit_test(test_second_file), cmocka_unit_test(test_mounts), cmocka_unit_test(test_stale), cmocka_unit_test(test_regions),
		cmocka_unit_test(test_code_comes_and_goes),
		cmocka_unit_test(test_mappings_bounded), cmocka_unit_test(test_step), cmocka_unit_test(test_runtimes), cmocka_unit_test(test_attach_blocks), cmocka_unit_test(test_second_file_of_a_kind), cmocka_unit_test(test_young_budget), cmocka_unit_test(test_runtimes_off), cmocka_unit_test(test_runtime_of_another_exec),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
