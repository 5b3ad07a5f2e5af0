/* SPDX-License-Identifier: Apache-2.0 */
/* Registry of metrics. One lock guards everything. An update is a hash look-up and an addition, which is cheap
 * compared with what it counts (requests, scrapes, commits). Per-sample counts are first added up by their
 * owners. */
#include "base/metrics.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/map.h"
#include "base/num.h"
#include "base/vec.h"

static const double seconds[] = { .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, INFINITY };

struct child {
	char *labels; /* {a="x",b="y"} without the braces; "" = none */
	double value; /* histogram: the sum */
	uint64_t *buckets; /* histogram: not cumulative, one per bound */
};

struct metric_state {
	struct map index; /* hash of labels -> child */
	VEC(struct child) children;
	size_t n_bounds;
};

static struct mutex lock = MUTEX_INIT(RANK_METRICS, "metrics");
static VEC(struct metric *) registry;
static VEC(struct { void (*fn)(void *); void *arg; }) collectors;

void metrics_register(struct metric *table, size_t n)
{
	mutex_lock(&lock);
	for (size_t i = 0; i < n; i++) {
		struct metric *m = &table[i];
		if (m->state)
			continue;
		m->state = NEW(struct metric_state);
		if (m->type == METRIC_HISTOGRAM) {
			if (!m->bounds)
				m->bounds = seconds;
			while (!isinf(m->bounds[m->state->n_bounds++]))
				;
		}
		vec_push(&registry, m);
	}
	mutex_unlock(&lock);
}

void metrics_on_collect(void (*fn)(void *), void *arg)
{
	mutex_lock(&lock);
	__auto_type c = vec_add(&collectors);
	c->fn = fn;
	c->arg = arg;
	mutex_unlock(&lock);
}

static void put_label_value(struct buf *b, struct view v)
{
	for (size_t i = 0; i < v.len; i++) {
		char c = v.ptr[i];
		if (c == '\n')
			buf_puts(b, "\\n");
		else if (c == '"' || c == '\\')
			buf_put(b, (char[2]){ '\\', c }, 2);
		else
			buf_putc(b, c);
	}
}

static void format_labels(struct buf *b, const struct metric *m, va_list *values, const char *all)
{
	const char *name = m->labels ? m->labels : "";
	while (*name) {
		size_t n = strcspn(name, ",");
		const char *value = all ? all : va_arg(*values, const char *);
		if (b->len)
			buf_putc(b, ',');
		buf_put(b, name, n);
		buf_puts(b, "=\"");
		put_label_value(b, view_of(value ? value : ""));
		buf_putc(b, '"');
		name += n + (name[n] == ',');
		if (!value)
			break;
	}
}

/* NULL if absent and not to be created. */
static struct child *find_child(struct metric *m, struct view labels, bool create) REQUIRES(lock)
{
	struct metric_state *s = m->state;
	uint64_t h = hash_view(labels);
	uint32_t id;
	for (size_t at = map_start(&s->index, h); map_probe(&s->index, h, &at, &id);)
		if (view_eqs(labels, s->children.v[id].labels))
			return &s->children.v[id];
	if (!create)
		return NULL;
	map_insert(&s->index, h, (uint32_t)s->children.n);
	struct child *c = vec_add(&s->children);
	c->labels = xstrndup(labels.ptr, labels.len);
	if (m->type == METRIC_HISTOGRAM)
		c->buckets = xcalloc(s->n_bounds, sizeof *c->buckets);
	return c;
}

static struct child *child_of(struct metric *m, va_list *values, bool create) REQUIRES(lock)
{
	if (!m->state)
		return NULL; /* not registered: the count is ignored */
	struct buf b = { 0 };
	format_labels(&b, m, values, NULL);
	struct child *c = find_child(m, buf_view(&b), create && m->state->children.n < METRIC_MAX_CHILDREN);
	if (!c && create) {
		buf_reset(&b);
		format_labels(&b, m, NULL, "(other)");
		c = find_child(m, buf_view(&b), true);
	}
	buf_free(&b);
	return c;
}

#define WITH_CHILD(m, last, create, ...) do { \
	va_list ap_; \
	va_start(ap_, last); \
	mutex_lock(&lock); \
	struct child *c = child_of((m), &ap_, create); \
	if (c) { __VA_ARGS__; } \
	mutex_unlock(&lock); \
	va_end(ap_); \
} while (0)

void metric_add_(struct metric *m, double v, ...)
{
	WITH_CHILD(m, v, true, c->value += v);
}

void metric_set_(struct metric *m, double v, ...)
{
	WITH_CHILD(m, v, true, c->value = v);
}

void metric_observe_(struct metric *m, double v, ...)
{
	WITH_CHILD(m, v, true, {
		c->value += v;
		size_t i = 0;
		while (v > m->bounds[i])
			i++;
		c->buckets[i]++;
	});
}

double metric_get_(struct metric *m, ...)
{
	double v = 0;
	WITH_CHILD(m, m, false, v = c->value);
	return v;
}

/* The last child takes its place. */
static void remove_child(struct metric_state *s, struct child *c) REQUIRES(lock)
{
	uint32_t id = (uint32_t)(c - s->children.v), last = (uint32_t)s->children.n - 1;
	map_remove(&s->index, hash_view(view_of(c->labels)), id);
	free(c->labels);
	free(c->buckets);
	if (id != last) {
		uint64_t h = hash_view(view_of(s->children.v[last].labels));
		map_remove(&s->index, h, last);
		map_insert(&s->index, h, id);
		*c = s->children.v[last];
	}
	s->children.n--;
}

void metric_forget_(struct metric *m, ...)
{
	WITH_CHILD(m, m, false, remove_child(m->state, c));
}

static void free_children(struct metric_state *s)
{
	for (size_t i = 0; i < s->children.n; i++) {
		free(s->children.v[i].labels);
		free(s->children.v[i].buckets);
	}
	vec_free(&s->children);
	map_free(&s->index);
}

void metrics_free(void)
{
	mutex_lock(&lock);
	for (size_t i = 0; i < registry.n; i++) {
		free_children(registry.v[i]->state);
		free(registry.v[i]->state);
		registry.v[i]->state = NULL;
	}
	vec_free(&registry);
	vec_free(&collectors);
	mutex_unlock(&lock);
}

static void put_line(struct buf *out, const char *name, const char *suffix, const char *labels, const char *more, double v)
{
	char num[NUM_LEN];
	buf_printf(out, "%s%s", name, suffix);
	if (*labels || *more)
		buf_printf(out, "{%s%s%s}", labels, *labels && *more ? "," : "", more);
	buf_printf(out, " %s\n", num_format(v, num));
}

static void put_histogram(struct buf *out, const struct metric *m, const struct child *c)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < m->state->n_bounds; i++) {
		char le[64], num[NUM_LEN];
		sum += c->buckets[i];
		snprintf(le, sizeof le, "le=\"%s\"", num_format(m->bounds[i], num));
		put_line(out, m->name, "_bucket", c->labels, le, (double)sum);
	}
	put_line(out, m->name, "_sum", c->labels, "", c->value);
	put_line(out, m->name, "_count", c->labels, "", (double)sum);
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct metric *const *)a)->name, (*(struct metric *const *)b)->name);
}

void metrics_render(struct buf *out)
{
	/* Collectors call metric_set, so they run without the lock; they are registered at start only. */
	for (size_t i = 0; i < collectors.n; i++)
		collectors.v[i].fn(collectors.v[i].arg);
	static const char *const types[] = { "counter", "gauge", "histogram" };
	mutex_lock(&lock);
	if (registry.n)
		qsort(registry.v, registry.n, sizeof *registry.v, by_name);
	for (size_t i = 0; i < registry.n; i++) {
		struct metric *m = registry.v[i];
		if (!m->labels && m->type != METRIC_HISTOGRAM)
			find_child(m, VIEW(""), true); /* shown from the start, as zero */
		if (!m->state->children.n)
			continue;
		buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, types[m->type]);
		for (size_t k = 0; k < m->state->children.n; k++) {
			const struct child *c = &m->state->children.v[k];
			if (m->type == METRIC_HISTOGRAM)
				put_histogram(out, m, c);
			else
				put_line(out, m->name, "", c->labels, "", c->value);
		}
	}
	mutex_unlock(&lock);
}

/* ---- the process itself ---- */

enum { P_CPU, P_RSS, P_VIRTUAL, P_FDS, P_MAX_FDS, P_START };
static struct metric process_metrics[] = {
	[P_CPU] = { "process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", METRIC_COUNTER },
	[P_RSS] = { "process_resident_memory_bytes", "Resident memory size in bytes.", METRIC_GAUGE },
	[P_VIRTUAL] = { "process_virtual_memory_bytes", "Virtual memory size in bytes.", METRIC_GAUGE },
	[P_FDS] = { "process_open_fds", "Number of open file descriptors.", METRIC_GAUGE },
	[P_MAX_FDS] = { "process_max_fds", "Maximum number of open file descriptors.", METRIC_GAUGE },
	[P_START] = { "process_start_time_seconds", "Start time of the process since unix epoch in seconds.", METRIC_GAUGE },
};
static struct metric build_info = { NULL, "The version that runs.", METRIC_GAUGE, "version" };

/* The number of open file descriptors; 0 = not known. Since Linux 6.2 the size of /proc/self/fd is that number; earlier kernels say 0, and its entries are
 * counted. */
static long open_descriptors(void)
{
	struct stat st;
	long n = stat("/proc/self/fd", &st) ? 0 : (long)st.st_size;
	DIR *d = n ? NULL : opendir("/proc/self/fd");

	if (!d)
		return n;
	n = -3;                      /* without ".", ".." and the descriptor of this directory */
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void collect_process(void *arg)
{
	(void)arg;
	struct rusage ru;
	if (getrusage(RUSAGE_SELF, &ru) == 0)
		metric_set(&process_metrics[P_CPU], (double)ru.ru_utime.tv_sec + (double)ru.ru_stime.tv_sec +
							    (double)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) / 1e6);
	FILE *f = fopen("/proc/self/statm", "re");
	if (f) {
		unsigned long size = 0, resident = 0;
		if (fscanf(f, "%lu %lu", &size, &resident) == 2) {
			double page = (double)sysconf(_SC_PAGESIZE);
			metric_set(&process_metrics[P_RSS], (double)resident * page);
			metric_set(&process_metrics[P_VIRTUAL], (double)size * page);
		}
		fclose(f);
	}
	metric_set(&process_metrics[P_FDS], (double)open_descriptors());
	struct rlimit rl;
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0)
		metric_set(&process_metrics[P_MAX_FDS], (double)rl.rlim_cur);
}

void metrics_register_process(const char *prefix, const char *version)
{
	static char name[128];
	snprintf(name, sizeof name, "%s_build_info", prefix);
	build_info.name = name;
	metrics_register(&build_info, 1);
	metric_set(&build_info, 1, version);
	metrics_register(process_metrics, ARRAY_LEN(process_metrics));
	metric_set(&process_metrics[P_START], (double)clock_now_ms() / 1000);
	metrics_on_collect(collect_process, NULL);
}
