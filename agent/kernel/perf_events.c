/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/kernel/perf_events.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bpf/abi.h"

#define PAGE 4096u
#define RECORD_MAX 8192              /* a record: fields and a path of PATH_MAX */
#define ARENA_MAX ((size_t)64 << 20)
#define CHANGES 4
#define ONLINE_MAX (MAX_CPUS * 5 + 2) /* a list like "0-3,5": at worst, of single ones */

/* From `at_ns` on the period is period_ns; the tick before it was cut_ns earlier. */
struct change {
	int64_t at_ns, period_ns, cut_ns;
};

struct cpu_event {
	uint32_t cpu;
	int fd;
	struct perf_event_mmap_page *page;
	uint64_t enabled_ns;         /* for how long, as of looked_ns */
	int64_t looked_ns;
	struct change changes[CHANGES]; /* newest first */
};

struct perf_events {
	VEC(struct cpu_event) v;
	VEC(int32_t) by_cpu;         /* index into v, -1 = none */
	size_t data_bytes;
	int prog_fd;
	double hz;
	bool build_ids;
	int64_t redrawn_ns;
};

/* The end of every record, as sample_type below asks for it. */
struct sample_id {
	uint32_t pid, tid;
	uint64_t time;
	uint32_t cpu, reserved;
};

static int64_t draw_period(double hz)
{
	uint32_t r = 0;
	if (getrandom(&r, sizeof r, GRND_NONBLOCK) != sizeof r)
		r = (uint32_t)(clock_mono_ns() * 2654435761u);
	double f = 0.9 + 0.2 * ((double)r / UINT32_MAX);
	return (int64_t)(1e9 / hz * f);
}

static int open_event(struct perf_events *p, uint32_t cpu, int64_t period)
{
	struct perf_event_attr a = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.size = sizeof a,
		.sample_period = (uint64_t)period,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU,
		.exclude_idle = 1,
		.disabled = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = (uint32_t)(p->data_bytes / 4),
		.build_id = p->build_ids,
	};
	int fd = (int)syscall(SYS_perf_event_open, &a, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL && p->build_ids) { /* before 5.12 */
		p->build_ids = false;
		return open_event(p, cpu, period);
	}
	return fd;
}

static int explain_open(struct err *e, int errnum, uint32_t cpu)
{
	int level = -1;
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
	if (f) {
		if (fscanf(f, "%d", &level) != 1)
			level = -1;
		fclose(f);
	}
	if (errnum == EACCES || errnum == EPERM)
		return err_set(e, ERR_DENIED,
			       "perf_event_open on CPU %u: %s: needs CAP_PERFMON, and CAP_SYS_ADMIN besides where "
			       "kernel.perf_event_paranoid is above 2 (it is %d: sysctl kernel.perf_event_paranoid=2)",
			       cpu, strerror(errnum), level);
	return err_errno(e, errnum, "perf_event_open on CPU %u", cpu);
}

static void close_event(struct perf_events *p, struct cpu_event *c)
{
	if (c->page)
		munmap(c->page, PAGE + p->data_bytes);
	if (c->fd >= 0)
		close(c->fd);
	if (c->cpu < p->by_cpu.n)
		p->by_cpu.v[c->cpu] = -1;
}

static int add_cpu(struct perf_events *p, uint32_t cpu, struct err *e)
{
	struct cpu_event c = { .cpu = cpu };
	int64_t period = draw_period(p->hz);

	c.fd = open_event(p, cpu, period);
	if (c.fd < 0)
		return explain_open(e, errno, cpu);
	c.page = mmap(NULL, PAGE + p->data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, 0);
	if (c.page == MAP_FAILED) {
		c.page = NULL;
		int errnum = errno;
		close_event(p, &c);
		return err_errno(e, errnum, "map %zu bytes of records of CPU %u (kernel.perf_event_mlock_kb bounds it)",
				 p->data_bytes, cpu);
	}
	if (ioctl(c.fd, PERF_EVENT_IOC_SET_BPF, p->prog_fd) < 0 || ioctl(c.fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
		int errnum = errno;
		close_event(p, &c);
		return err_errno(e, errnum, "attach the sampling program to CPU %u", cpu);
	}
	c.looked_ns = clock_mono_ns();
	c.changes[0] = (struct change){ c.looked_ns, period, 0 };
	while (p->by_cpu.n <= cpu)
		vec_push(&p->by_cpu, -1);
	p->by_cpu.v[cpu] = (int32_t)p->v.n;
	vec_push(&p->v, c);
	return 0;
}

static bool read_online(char *out, size_t n)
{
	FILE *f = fopen("/sys/devices/system/cpu/online", "re");
	if (!f)
		return false;
	bool ok = fgets(out, (int)n, f) != NULL;
	fclose(f);
	return ok;
}

/* Calls fn for each CPU of a list like "0-3,5". */
static int each_cpu(const char *list, int (*fn)(void *arg, uint32_t cpu, struct err *e), void *arg, struct err *e)
{
	for (const char *s = list; *s && *s != '\n';) {
		char *end;
		unsigned long lo = strtoul(s, &end, 10), hi = lo;
		if (end == s)
			break;
		if (*end == '-')
			hi = strtoul(end + 1, &end, 10);
		for (unsigned long c = lo; c <= hi && c < MAX_CPUS; c++) {
			int r = fn(arg, (uint32_t)c, e);
			if (r)
				return r;
		}
		s = *end == ',' ? end + 1 : end;
		if (*end && *end != ',' && *end != '\n')
			break;
	}
	return 0;
}

static int add_one(void *arg, uint32_t cpu, struct err *e)
{
	struct perf_events *p = arg;
	if (cpu < p->by_cpu.n && p->by_cpu.v[cpu] >= 0)
		return 0;
	return add_cpu(p, cpu, e);
}

int perf_events_open(struct perf_events **ret, int prog_fd, double hz, unsigned data_pages, struct err *e)
{
	struct perf_events *p = NEW(struct perf_events);
	p->data_bytes = (size_t)data_pages * PAGE;
	p->prog_fd = prog_fd;
	p->hz = hz;
	p->build_ids = true;
	p->redrawn_ns = clock_mono_ns();
	char online[ONLINE_MAX];
	if (!read_online(online, sizeof online))
		snprintf(online, sizeof online, "0-%ld", sysconf(_SC_NPROCESSORS_ONLN) - 1);
	int r = each_cpu(online, add_one, p, e);
	if (r) {
		perf_events_close(p);
		return r;
	}
	*ret = p;
	return 0;
}

void perf_events_close(struct perf_events *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->v.n; i++)
		close_event(p, &p->v.v[i]);
	vec_free(&p->v);
	vec_free(&p->by_cpu);
	free(p);
}

size_t perf_events_cpus(const struct perf_events *p)
{
	return p->v.n;
}

int perf_events_fd(const struct perf_events *p, size_t i)
{
	return p->v.v[i].fd;
}

bool perf_events_build_ids(const struct perf_events *p)
{
	return p->build_ids;
}

/* --- hotplug --- */

struct online_set {
	bool on[MAX_CPUS];
};

static int mark_online(void *arg, uint32_t cpu, struct err *e)
{
	((struct online_set *)arg)->on[cpu] = true;
	return 0;
}

/* Whether the kernel took the event off its CPU, which it does when the CPU goes offline; it does not put it back when the
 * CPU returns. The time that it was enabled stands still from then on, so it is behind what has passed since the last
 * look. By how much says when the CPU went, which may have been a moment ago: then the next look shows it. */
static bool is_stopped(struct cpu_event *c)
{
	struct { uint64_t value, enabled_ns; } r;
	int64_t now = clock_mono_ns(), passed = now - c->looked_ns;

	ssize_t n = read(c->fd, &r, sizeof r);
	if (n != sizeof r)
		return n == 0;       /* the end of an event in an error state */
	int64_t enabled = (int64_t)(r.enabled_ns - c->enabled_ns);
	c->enabled_ns = r.enabled_ns;
	c->looked_ns = clock_mono_ns();
	return enabled < passed - passed / 4;
}

int perf_events_hotplug(struct perf_events *p, struct err *e)
{
	char now[ONLINE_MAX];
	struct online_set set = { 0 };
	int changed = 0;

	if (!read_online(now, sizeof now))
		return 0;
	each_cpu(now, mark_online, &set, NULL);
	for (size_t i = 0; i < p->v.n;) {
		if (set.on[p->v.v[i].cpu] && !is_stopped(&p->v.v[i])) {
			i++;
			continue;
		}
		changed++;
		close_event(p, &p->v.v[i]);
		p->v.v[i] = p->v.v[--p->v.n];
		if (i < p->v.n)
			p->by_cpu.v[p->v.v[i].cpu] = (int32_t)i;
	}
	for (uint32_t c = 0; c < MAX_CPUS; c++) {
		if (!set.on[c] || (c < p->by_cpu.n && p->by_cpu.v[c] >= 0))
			continue;
		int r = add_cpu(p, c, e);
		if (r)
			return r;
		changed++;
	}
	return changed;
}

/* --- periods --- */

int64_t perf_events_period(const struct perf_events *p)
{
	return (int64_t)(1e9 / p->hz);
}

static void set_period(struct cpu_event *c, int64_t period)
{
	uint64_t v = (uint64_t)period;
	int64_t before = clock_mono_ns();
	struct change last = c->changes[0];

	if (ioctl(c->fd, PERF_EVENT_IOC_PERIOD, &v) < 0)
		return;
	/* The timer restarts: the interrupted tick never comes, and the next one represents that time too. */
	memmove(c->changes + 1, c->changes, sizeof c->changes - sizeof c->changes[0]);
	c->changes[0] = (struct change){ before, period, (before - last.at_ns) % last.period_ns };
}

void perf_events_redraw(struct perf_events *p, int64_t now_ns)
{
	if (now_ns - p->redrawn_ns < REDRAW_NS)
		return;
	p->redrawn_ns = now_ns;
	for (size_t i = 0; i < p->v.n; i++)
		set_period(&p->v.v[i], draw_period(p->hz));
}

void perf_events_set_hz(struct perf_events *p, double hz)
{
	p->hz = hz;
	p->redrawn_ns = 0;
	perf_events_redraw(p, clock_mono_ns());
}

int64_t perf_events_value(const struct perf_events *p, uint32_t cpu, int64_t time_ns)
{
	if (cpu >= p->by_cpu.n || p->by_cpu.v[cpu] < 0)
		return perf_events_period(p);
	const struct cpu_event *c = &p->v.v[p->by_cpu.v[cpu]];
	for (unsigned i = 0; i < CHANGES && c->changes[i].period_ns; i++) {
		const struct change *ch = &c->changes[i];
		if (time_ns < ch->at_ns)
			continue;
		bool first = time_ns < ch->at_ns + ch->period_ns + ch->period_ns / 2;
		return ch->period_ns + (first ? ch->cut_ns : 0);
	}
	return perf_events_period(p);
}

/* --- records --- */

struct mmap2 {
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	union {
		struct {
			uint32_t major, minor;
			uint64_t ino, generation;
		};
		struct {
			uint8_t build_id_len, reserved1;
			uint16_t reserved2;
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
	char path[];
};

bool mapping_is_file(const char *path)
{
	if (strcmp(path, "[vdso]") == 0)
		return true;
	return path[0] == '/' && path[1] != '/' && strncmp(path, "/SYSV", 5) != 0 && strncmp(path, "/dev/", 5) != 0;
}

bool mapping_is_image(const char *path, bool has_build_id)
{
	return mapping_is_file(path) && (has_build_id || strncmp(path, "/memfd:", 7) != 0);
}

static bool read_mmap(const struct perf_events *p, struct perf_records *out, struct perf_record *r,
		      const struct perf_event_header *h, const uint8_t *b, size_t n)
{
	const struct mmap2 *m = (const void *)b;

	if (n < sizeof *m + 8)
		return false;
	size_t path_len = strnlen(m->path, n - sizeof *m);
	if (path_len == n - sizeof *m)
		return false;
	r->type = RECORD_MMAP;
	r->pid = m->pid;
	r->tid = m->tid;
	r->start = m->addr;
	r->len = m->len;
	r->file_offset = m->pgoff;
	/* Before 5.12 records have no build-ids: the file says whether it is an ELF one once it is opened. */
	r->anonymous = !mapping_is_image(m->path, !p->build_ids || h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID);
	if (strcmp(m->path, "[vsyscall]") == 0 || m->pid == UINT32_MAX || h->misc & PERF_RECORD_MISC_MMAP_DATA)
		return false;
	r->key.path = arena_view(&out->arena, view_make(m->path, path_len));
	if (!r->key.path.ptr)
		return false;
	if (r->anonymous)
		return true;
	if (h->misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		if (m->build_id_len > sizeof m->build_id)
			return false;
		memcpy(r->key.build_id, m->build_id, m->build_id_len);
		r->key.build_id_len = m->build_id_len;
	} else if (r->key.path.ptr[0] == '/') {
		r->key.dev = makedev(m->major, m->minor);
		r->key.ino = m->ino;
	}
	return true;
}

struct task {
	uint32_t pid, parent, tid, parent_tid;
	uint64_t time;
};

static bool read_task(struct perf_record *r, const struct perf_event_header *h, const uint8_t *b, size_t n)
{
	struct task t;

	if (n < sizeof t)
		return false;
	memcpy(&t, b, sizeof t);
	r->type = h->type == PERF_RECORD_FORK ? RECORD_FORK : RECORD_EXIT;
	r->pid = t.pid;
	r->tid = t.tid;
	r->parent = t.parent;
	/* Threads come and go without consequence. */
	return r->type == RECORD_FORK ? t.pid != t.parent || t.pid == t.tid : t.pid == t.tid;
}

static bool read_comm(struct perf_record *r, const struct perf_event_header *h, const uint8_t *b, size_t n)
{
	if (n < 9)
		return false;
	memcpy(&r->pid, b, 4);
	memcpy(&r->tid, b + 4, 4);
	snprintf(r->comm, sizeof r->comm, "%.*s", (int)strnlen((const char *)b + 8, MIN(n - 8, (size_t)15)), b + 8);
	r->type = h->misc & PERF_RECORD_MISC_COMM_EXEC ? RECORD_EXEC : RECORD_COMM;
	return r->type == RECORD_EXEC || r->pid == r->tid;
}

static void take(const struct perf_events *p, struct perf_records *out, const struct perf_event_header *h, const uint8_t *b,
		 size_t n)
{
	struct perf_record r = { 0 };
	struct sample_id id;
	uint64_t lost;
	bool keep = false;

	if (n < sizeof id) {
		out->bad++;
		return;
	}
	memcpy(&id, b + n - sizeof id, sizeof id);
	n -= sizeof id;
	r.time_ns = (int64_t)id.time;
	switch (h->type) {
	case PERF_RECORD_MMAP2: keep = read_mmap(p, out, &r, h, b, n); break;
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT: keep = read_task(&r, h, b, n); break;
	case PERF_RECORD_COMM: keep = read_comm(&r, h, b, n); break;
	case PERF_RECORD_LOST:
		if (n >= 16) {
			memcpy(&lost, b + 8, 8);
			out->lost += lost;
		}
		break;
	case PERF_RECORD_THROTTLE: out->throttled++; break;
	default: break;
	}
	if (keep)
		vec_push(&out->v, r);
}

static void read_cpu(struct perf_events *p, struct cpu_event *c, struct perf_records *out)
{
	const uint8_t *data = (const uint8_t *)c->page + PAGE;
	uint64_t head = __atomic_load_n(&c->page->data_head, __ATOMIC_ACQUIRE), tail = c->page->data_tail;
	uint8_t copy[RECORD_MAX] __attribute__((aligned(8))) UNINITIALIZED;

	while (tail < head) {
		struct perf_event_header h;
		size_t at = tail & (p->data_bytes - 1);
		memcpy(&h, data + at, sizeof h); /* records are multiples of 8 bytes: a header never wraps */
		if (h.size < sizeof h || h.size > head - tail) {
			out->bad++;
			tail = head;
			break;
		}
		const uint8_t *b = data + at;
		if (at + h.size > p->data_bytes) {
			size_t first = p->data_bytes - at;
			if (h.size > sizeof copy) {
				out->bad++;
				tail += h.size;
				continue;
			}
			memcpy(copy, b, first);
			memcpy(copy + first, data, h.size - first);
			b = copy;
		}
		take(p, out, &h, b + sizeof h, h.size - sizeof h);
		tail += h.size;
	}
	__atomic_store_n(&c->page->data_tail, tail, __ATOMIC_RELEASE);
}

static int by_time(const void *a, const void *b)
{
	const struct perf_record *x = a, *y = b;
	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

void perf_events_read(struct perf_events *p, struct perf_records *out)
{
	if (!out->arena.max)
		arena_init(&out->arena, ARENA_MAX);
	if (out->v.n >= PERF_RECORDS_MAX)
		return;
	size_t before = out->v.n;
	for (size_t i = 0; i < p->v.n; i++)
		read_cpu(p, &p->v.v[i], out);
	/* glibc's qsort merges: equal times keep their order. */
	if ((p->v.n > 1 || before) && out->v.n > 1)
		qsort(out->v.v, out->v.n, sizeof *out->v.v, by_time);
}

void perf_records_clear(struct perf_records *r)
{
	r->v.n = 0;
	arena_reset(&r->arena);
}

void perf_records_release(struct perf_records *r)
{
	vec_free(&r->v);
	arena_free(&r->arena);
}
