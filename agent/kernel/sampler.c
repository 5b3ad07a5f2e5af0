/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kernel/sampler.h"

#include "agent/kernel/cgroup_id.h"
#include "agent/kernel/pid_ns.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "bpf/knobs.h"

/* libbpf's own words matter only when something fails: the last ones are kept for the error message. */
static char last_words[2048];

static int keep_words(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level == LIBBPF_WARN) {
		size_t n = strlen(last_words);
		vsnprintf(last_words + n, sizeof last_words - n, fmt, ap);
	}
	return 0;
}

static int explain(struct err *e, int errnum, const char *what)
{
	for (char *c = last_words; *c; c++)
		if (*c == '\n')
			*c = ' ';
	if (errnum == EPERM || errnum == EACCES)
		return err_set(e, ERR_DENIED, "%s: %s: needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN); %.600s", what,
			       strerror(errnum), last_words);
	return err_set(e, ERR_IO, "%s: %s; %.700s", what, strerror(errnum), last_words);
}

int sampler_map_fd(const struct sampler *s, const char *name)
{
	struct bpf_map *m = bpf_object__find_map_by_name(s->object, name);
	return m ? bpf_map__fd(m) : -1;
}

/* Sets the constants the program was compiled with room for. */
static bool set_knobs(struct bpf_object *o, const struct sampler_options *opt)
{
	struct bpf_map *m;
	size_t size = 0;

	bpf_object__for_each_map(m, o) {
		const char *name = bpf_map__name(m);
		size_t n = strlen(name);
		if (n < 7 || strcmp(name + n - 7, ".rodata") != 0)
			continue;
		struct bpf_knobs *k = (void *)bpf_map__initial_value(m, &size);
		if (!k || size < sizeof *k || k->magic != KNOBS_MAGIC)
			return false;
		k->ring_wakeup_bytes = opt->ring_bytes / 4;
		k->kernel_stacks = opt->kernel_stacks;
		k->cgroup_v1 = cgroup_memory_hierarchy() != 0;
		k->pid_ns = pid_ns_inside();
		return true;
	}
	return false;
}

static int map_ring(struct sampler *s, struct err *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	s->consumer = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, s->ring_fd, 0);
	if (s->consumer == MAP_FAILED) {
		s->consumer = NULL;
		return err_errno(e, errno, "map the ring of samples");
	}
	s->producer = mmap(NULL, page + 2 * (size_t)s->ring_bytes, PROT_READ, MAP_SHARED, s->ring_fd, (off_t)page);
	if (s->producer == MAP_FAILED) {
		s->producer = NULL;
		return err_errno(e, errno, "map the ring of samples");
	}
	return 0;
}

/* BPF_LOG_STATS: the verifier prints its figures and nothing else. */
#define VERIFIER_STATS 4
#define VERIFIER_STATS_BYTES ((size_t)256 << 10) /* too small a buffer fails the load */

static char *ask_stats(struct bpf_program *p)
{
	char *stats = xcalloc(1, VERIFIER_STATS_BYTES);
	if (p && bpf_program__set_log_buf(p, stats, VERIFIER_STATS_BYTES) == 0)
		bpf_program__set_log_level(p, VERIFIER_STATS);
	return stats;
}

static uint32_t processed(const char *stats)
{
	const char *at = strstr(stats, "processed ");
	return at ? (uint32_t)strtoul(at + strlen("processed "), NULL, 10) : 0;
}

/* Threads of the host now: the fourth number of "0.50 0.40 0.30 2/346 12189". */
static uint32_t threads_now(void)
{
	unsigned running, all = 0;
	FILE *f = fopen("/proc/loadavg", "re");

	if (f && fscanf(f, "%*s %*s %*s %u/%u", &running, &all) != 2)
		all = 0;
	if (f)
		fclose(f);
	return all;
}

static uint32_t between(uint64_t least, uint64_t n, uint64_t most)
{
	return (uint32_t)MAX(least, MIN(n, most));
}

/* Tables of unused features take no memory in the kernel; others grow with the host. There is room for four times the current number
 * of threads, for the stacks of twice as many, and for some deep ones per CPU. */
static void choose_programs(struct bpf_object *o, const struct sampler_options *opt)
{
	static const char *const off_maps[] = { "off_threads", "off_small", "off_big", "off_budgets" };
	uint64_t threads = threads_now(), cpus = (uint64_t)sysconf(_SC_NPROCESSORS_CONF);
	const uint32_t entries[] = { between(8192, 4 * threads, OFF_THREADS_MAX), between(2048, 2 * threads, OFF_SMALL_MAX),
				     between(64, 32 * cpus, OFF_BIG_MAX), 0 };
	struct bpf_program *p = bpf_object__find_program_by_name(o, "off_cpu"), *exec = bpf_object__find_program_by_name(o, "exec_wake");

	if (p)
		bpf_program__set_autoload(p, opt->off_cpu);
	if (exec)
		bpf_program__set_autoload(exec, opt->execs);
	for (size_t i = 0; i < ARRAY_LEN(off_maps); i++) {
		struct bpf_map *m = bpf_object__find_map_by_name(o, off_maps[i]);
		if (m)
			bpf_map__set_autocreate(m, opt->off_cpu);
		if (m && entries[i])
			bpf_map__set_max_entries(m, entries[i]);
	}
}

/* The kernel memory of a BPF map in bytes (memlock in /proc/self/fdinfo); 0 if it is not known. */
static uint64_t map_bytes(int fd)
{
	char name[64], line[128];
	uint64_t n = 0;

	snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
	FILE *f = fopen(name, "re");
	while (f && fgets(line, sizeof line, f))
		if (strncmp(line, "memlock:", 8) == 0)
			n = strtoull(line + 8, NULL, 10);
	if (f)
		fclose(f);
	return n;
}

/* The kernel memory of all maps of the BPF object, in bytes. It does not change: each map has memory for all its entries from the start. */
static uint64_t object_bytes(const struct bpf_object *o)
{
	struct bpf_map *m;
	uint64_t n = 0;

	bpf_object__for_each_map(m, o)
		n += map_bytes(bpf_map__fd(m));
	return n;
}

int sampler_load(struct sampler *s, const struct sampler_options *o, struct err *e)
{
	struct view bytes = sampler_object();
	LIBBPF_OPTS(bpf_object_open_opts, open_opts, .object_name = "pyrrha");

	memset(s, 0, sizeof *s);
	s->ring_fd = -1;
	last_words[0] = 0;
	libbpf_set_print(keep_words);
	s->object = bpf_object__open_mem(bytes.ptr, bytes.len, &open_opts);
	if (!s->object)
		return explain(e, errno, "open the BPF object");
	struct bpf_map *ring = bpf_object__find_map_by_name(s->object, "ring");
	if (!set_knobs(s->object, o) || !ring || bpf_map__set_max_entries(ring, o->ring_bytes)) {
		sampler_release(s);
		return err_set(e, ERR_INTERNAL, "the BPF object is not the one this agent was built with");
	}
	s->n_cpus = (unsigned)libbpf_num_possible_cpus();
	struct bpf_map *rings = bpf_object__find_map_by_name(s->object, "cpu_rings");
	if (rings)
		bpf_map__set_max_entries(rings, s->n_cpus);
	choose_programs(s->object, o);
	struct bpf_program *sample = bpf_object__find_program_by_name(s->object, "sample");
	struct bpf_program *off_cpu = bpf_object__find_program_by_name(s->object, "off_cpu");
	AUTOFREE char *stats = ask_stats(sample), *off_stats = ask_stats(off_cpu);
	int r = bpf_object__load(s->object);
	if (r) {
		r = explain(e, -r, "load the BPF programs");
		sampler_release(s);
		return r;
	}
	s->verified_insns = processed(stats);
	s->off_verified_insns = processed(off_stats);
	s->sample_fd = bpf_program__fd(sample);
	s->tables = (struct table_fds){ sampler_map_fd(s, "procs"), sampler_map_fd(s, "maps"), sampler_map_fd(s, "images"),
					sampler_map_fd(s, "pages"), sampler_map_fd(s, "chunks"), sampler_map_fd(s, "rules"),
					sampler_map_fd(s, ".data.cache"), sampler_map_fd(s, "runtime_procs") };
	s->stats_fd = sampler_map_fd(s, "stats");
	s->control_fd = sampler_map_fd(s, ".data.control");
	s->ring_fd = bpf_map__fd(ring);
	s->ring_bytes = o->ring_bytes;
	s->map_bytes = object_bytes(s->object);
	s->cost_ns = xcalloc(s->n_cpus, sizeof *s->cost_ns);
	s->untaken = xcalloc(s->n_cpus, sizeof *s->untaken);
	r = map_ring(s, e);
	if (!r && o->execs && !(s->exec_link = bpf_program__attach(bpf_object__find_program_by_name(s->object, "exec_wake"))))
		r = explain(e, errno, "watch execs");
	if (!r)
		r = cpu_rings_open(&s->cpu_rings, sampler_map_fd(s, "cpu_rings"), s->n_cpus, e);
	if (r)
		sampler_release(s);
	return r;
}

int sampler_set_control(struct sampler *s, struct err *e)
{
	uint32_t zero = 0;
	return bpf_map_update_elem(s->control_fd, &zero, &s->control, BPF_ANY) ? err_errno(e, errno, "set the programs' control") : 0;
}

int sampler_watch_switches(struct sampler *s, bool on, struct err *e)
{
	if (s->switch_link)
		bpf_link__destroy(s->switch_link);
	s->switch_link = NULL;
	if (!on)
		return 0;
	last_words[0] = 0;
	s->switch_link = bpf_program__attach(bpf_object__find_program_by_name(s->object, "off_cpu"));
	return s->switch_link ? 0 : explain(e, errno, "watch switches of threads");
}

void sampler_release(struct sampler *s)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (s->consumer)
		munmap(s->consumer, page);
	if (s->producer)
		munmap(s->producer, page + 2 * (size_t)s->ring_bytes);
	cpu_rings_release(&s->cpu_rings);
	free(s->cost_ns);
	free(s->untaken);
	if (s->switch_link)
		bpf_link__destroy(s->switch_link);
	if (s->exec_link)
		bpf_link__destroy(s->exec_link);
	if (s->object)
		bpf_object__close(s->object);
	vec_free(&s->samples);
	kept_records_release(&s->kept);
	kept_records_release(&s->later);
	memset(s, 0, sizeof *s);
}

static int by_time(const void *a, const void *b)
{
	const struct sample_head *x = *(const struct sample_head *const *)a, *y = *(const struct sample_head *const *)b;
	if (x->time_ns != y->time_ns)
		return x->time_ns > y->time_ns ? 1 : -1;
	if (x->cpu != y->cpu)
		return x->cpu > y->cpu ? 1 : -1;
	return (x->flags & SAMPLE_MORE) - (y->flags & SAMPLE_MORE);
}

static size_t kept_bytes(const struct sampler *s)
{
	return s->kept.bytes + s->later.bytes;
}

/* One record of a ring: for now, or for the next time. */
static void take(struct sampler *s, const struct sample_head *h, uint32_t bytes, bool later)
{
	if (bytes < sizeof *h || kept_records_bytes_of(h) > bytes)
		return;
	if (h->cpu < s->n_cpus && !h->off_ns)
		s->cost_ns[h->cpu] = MAX(s->cost_ns[h->cpu], h->cost_ns);
	if (later)
		kept_records_add(&s->later, h, kept_bytes(s));
	else
		vec_push(&s->samples, h);
}

static bool has_room(const struct sampler *s, bool later)
{
	return !later || kept_records_have_room(kept_bytes(s));
}

/* The samples in the CPUs' own rings. */
static void read_cpu_rings(struct sampler *s, bool later)
{
	const void *h;
	uint32_t n;

	for (unsigned c = 0; c < s->cpu_rings.n; c++)
		while (has_room(s, later) && (h = cpu_rings_next(&s->cpu_rings, c, &n)))
			take(s, h, n, later);
}

static void read_rings(struct sampler *s, bool later)
{
	const uint8_t *data = s->producer + sysconf(_SC_PAGESIZE);
	uint64_t end = __atomic_load_n((const uint64_t *)s->producer, __ATOMIC_ACQUIRE), at = *s->consumer;

	while (at < end && has_room(s, later)) {
		const uint32_t *head = (const void *)(data + (at & (s->ring_bytes - 1)));
		uint32_t len = __atomic_load_n(head, __ATOMIC_ACQUIRE);
		if (len & BPF_RINGBUF_BUSY_BIT)
			break;
		uint32_t n = len & ~BPF_RINGBUF_DISCARD_BIT;
		const struct sample_head *h = (const void *)((const uint8_t *)head + BPF_RINGBUF_HDR_SZ);
		if (!(len & BPF_RINGBUF_DISCARD_BIT))
			take(s, h, n, later);
		at += (BPF_RINGBUF_HDR_SZ + n + 7) & ~7ull;
	}
	s->taken = at;
	read_cpu_rings(s, later);
}

static void empty_rings(struct sampler *s)
{
	__atomic_store_n(s->consumer, s->taken, __ATOMIC_RELEASE);
	cpu_rings_done(&s->cpu_rings);
}

void sampler_read(struct sampler *s)
{
	struct kept_records none = s->kept;       /* of the last time, empty */

	s->samples.n = 0;
	s->kept = s->later;
	s->later = none;
	for (size_t i = 0; i < s->kept.v.n; i++)
		vec_push(&s->samples, s->kept.v.v[i]);
	read_rings(s, false);
	if (s->samples.n > 1)
		qsort(s->samples.v, s->samples.n, sizeof *s->samples.v, by_time);
}

static bool is_within(const void *p, const void *from, size_t bytes)
{
	return (uintptr_t)p - (uintptr_t)from < bytes;
}

static bool is_in_rings(const struct sampler *s, const struct sample_head *h)
{
	return is_within(h, s->producer, (size_t)sysconf(_SC_PAGESIZE) + 2 * (size_t)s->ring_bytes) ||
	       is_within(h, s->cpu_rings.ring, s->cpu_rings.n * sizeof *s->cpu_rings.ring);
}

void sampler_relieve(struct sampler *s, size_t from)
{
	size_t n = from, room = kept_bytes(s);

	for (size_t i = from; i < s->samples.n; i++)
		room += is_in_rings(s, s->samples.v[i]) ? kept_records_bytes_of(s->samples.v[i]) : 0;
	if (!kept_records_have_room(room))
		return;                      /* they stay where they are */
	for (size_t i = from; i < s->samples.n; i++) {
		const struct sample_head *h = s->samples.v[i];
		if (is_in_rings(s, h))
			h = kept_records_add(&s->kept, h, kept_bytes(s));
		if (h)
			s->samples.v[n++] = h;
	}
	s->samples.n = n;
	empty_rings(s);
	read_rings(s, true);
	empty_rings(s);
}

void sampler_done(struct sampler *s)
{
	empty_rings(s);
	kept_records_clear(&s->kept);
	s->samples.n = 0;
}

const uint64_t *sample_user(const struct sample_head *h)
{
	return (const uint64_t *)(h + 1);
}

const uint64_t *sample_kernel(const struct sample_head *h)
{
	return sample_user(h) + h->user_words;
}

static void add_pages(const struct sample_head *h, const uint8_t *pages[STACK_PAGES])
{
	const uint8_t *at = (const uint8_t *)(sample_kernel(h) + h->n_kernel);

	for (unsigned i = 0; i < STACK_PAGES; i++) {
		if (!(h->stack_pages >> i & 1))
			continue;
		pages[i] = at;
		at += STACK_PAGE;
	}
}

void sample_stack(const struct sampler *s, size_t i, const uint8_t *pages[STACK_PAGES])
{
	const struct sample_head *h = s->samples.v[i];

	memset(pages, 0, STACK_PAGES * sizeof *pages);
	add_pages(h, pages);
	for (i++; i < s->samples.n; i++) {
		const struct sample_head *more = s->samples.v[i];
		if (!(more->flags & SAMPLE_MORE) || more->time_ns != h->time_ns || more->cpu != h->cpu)
			break;
		add_pages(more, pages);
	}
}

uint64_t sampler_cost_ns(const struct sampler *s)
{
	uint64_t n = 0;

	for (unsigned c = 0; c < s->n_cpus; c++)
		n += s->cost_ns[c];
	return n;
}

bool sampler_stats(const struct sampler *s, uint64_t out[STATS_MAX])
{
	uint32_t zero = 0;
	uint64_t *all = xcalloc(s->n_cpus, STATS_MAX * sizeof *all);
	bool ok = bpf_map_lookup_elem(s->stats_fd, &zero, all) == 0;

	memset(out, 0, STATS_MAX * sizeof *out);
	for (unsigned c = 0; ok && c < s->n_cpus; c++) {
		const uint64_t *its = all + (size_t)c * STATS_MAX;
		for (unsigned i = 0; i < STATS_MAX; i++)
			out[i] += its[i];
		s->untaken[c] = its[STAT_RING_FULL];
		for (unsigned i = STAT_FILTERED; i <= STAT_FILTERED_LAST; i++)
			s->untaken[c] += its[i];
	}
	free(all);
	return ok;
}
