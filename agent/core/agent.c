/* SPDX-License-Identifier: Apache-2.0 */
/* The drain thread, and the functions that callers use to get windows. Every drain_ms, or when a buffer of the kernel's fills up:
 *
 *	1. take what is in the ring of samples, then all records of the perf events (so that no sample is older than the
 *	   records about its process);
 *	2. go through both in the order of time (drain.c): records change processes, samples are finished (stack_finish.c) and
 *	   counted in the history's window and in each caller's (windows.c);
 *	3. tell the kernel what changed; finish the windows that time has passed.
 *
 * One lock guards the windows, the stack tree and labels; the drain thread holds it during 2 and 3, but not while it reads files of programs,
 * which may take long. Processes, images and unwind tables are its own. */
#include "agent/core/agent_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "agent/kernel/pid_ns.h"
#include "agent/labels/agent_config.h"
#include "agent/labels/targets.h"
#include "agent/managed/rows.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/files.h"
#include "base/flag.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/thread.h"
#include "config.h"

/* How long the kernel's tables may lag behind a dlopen or a new process decides drain_ms; a drain with little to do
 * takes some 20 us. */
#define DATA_PAGES 128               /* more needs CAP_IPC_LOCK */
#define RING_BYTES_MIN (1u << 20)
#define RING_BYTES_PER_CPU (64u << 10)
#define RING_BYTES_MAX (4u << 20)
#define LATE_NS 2000000000ll         /* with an ordinary load the buffers hold out for longer */
#define HOUSEKEEPING_NS 5000000000ll
#define NAMES_NS 300000000ll         /* while a pod's container waits for its name */
#define TABLES_FULL_NS 600000000000ll
#define TABLES_FIRST_NS 10000000000ll /* CPU time at the start, for the unwind tables of programs that run already; a static program of 2 MB takes 3 ms */
#define QUICK_DRAINS 2               /* after one that had an exec */
#define QUICK_MS 4                   /* no drain follows another sooner */
#define QUICK_PER_S 40               /* a host that executes programs all the time has them late now and then */
#define PRIORITY (-10)               /* nice value of the drain thread, and of the agent's session if it leads one */
#define SETTLE_MS 200                /* what was sampled last is named within a few ms */

void agent_options_init(struct agent_options *o)
{
	*o = (struct agent_options){ .hz = 19, .history_ms = 600000, .history_bytes = 8 << 20, .drain_ms = 50,
				     .kernel_stacks = true, .runtimes = RUNTIMES_ALL, .off_threshold_ns = 1000000, .max_cost = 0.01, .names_patience_ms = 1000 };
}

_Static_assert(AGENT_UNWIND_BYTES_MIN == UNWIND_ROOM_BYTES_MIN && AGENT_UNWIND_BYTES_MAX == UNWIND_ROOM_BYTES_MAX, "the flag has the tables' bounds");

uint64_t agent_unwind_bytes(void)
{
	return MAX(MIN(memory_limit("") / 12, UNWIND_ROOM_BYTES), UNWIND_ROOM_BYTES_MIN);
}

int agent_parse_runtimes(const char *list, unsigned *ret, struct err *e)
{
	return runtimes_parse(list, ret, e);
}

struct symbolizer *agent_symbolizer(struct agent *a)
{
	return a->symbolizer;
}

/* --- the thread --- */

/* Takes the readings that the samples are compared with: CPU time in /proc/stat, and ticks without a sample. Called before the rings are read. */
static void read_cost(struct agent *a, int64_t now)
{
	uint64_t stats[STATS_MAX];
	FILE *f = fopen("/proc/stat", "re");

	if (!f)
		return;
	if (sampler_stats(&a->sampler, stats))
		for (uint32_t i = 0; i < a->sampler.n_cpus; i++)
			cost_untaken(&a->cost, i, a->sampler.untaken[i], perf_events_period(a->events));
	cost_reading(&a->cost, f, now);
	fclose(f);
}

static void watch_events(struct agent *a)
{
	for (size_t i = 0; i < perf_events_cpus(a->events); i++) {
		struct epoll_event ev = { .events = EPOLLIN };
		epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, perf_events_fd(a->events, i), &ev);
	}
}

static void set_hz(struct agent *a, double before)
{
	double hz = a->pacer.hz;
	char text[2][32];

	snprintf(text[0], sizeof text[0], "%.2f", hz);
	snprintf(text[1], sizeof text[1], "%.4f", a->pacer.share);
	LOG_WARN("msg", hz < before ? "too costly, sampling less often" : "sampling more often again", "hz", text[0],
		 "share", text[1]);
	a->slowed += hz < before;
	perf_events_set_hz(a->events, hz);
}

/* What the agent costs decides its frequency and off-CPU's step; what it did not see is counted as lost. */
static void watch_cost(struct agent *a, int64_t now) REQUIRES(a->lock)
{
	const uint64_t *s = a->last_stats;
	double hz = a->pacer.hz;
	unsigned step = a->pacer.step;

	if (!a->cost.pending)
		return;
	int64_t lost = cost_unseen(&a->cost, hz);
	if (lost)
		drain_count_unseen(a, now, lost);
	/* Not `now`: the CPU time of this drain, which may have taken long, is in own_ns already. */
	struct pacer_readings r = {
		.now_ns = clock_mono_ns(), .own_ns = (uint64_t)cost_own_ns() + symbolizer_helper_ns(a->symbolizer), .on_ns = a->spent_ns[WINDOW_ON_CPU],
		.off_ns = a->spent_ns[WINDOW_OFF_CPU] + atomic_load(&a->answered_off_ns), .sampling_ns = a->sample_ns,
		.switch_ns = s[STAT_OFF_COST_NS], .stack_ns = s[STAT_OFF_WORK_NS], .watched = s[STAT_OFF_SWITCHES],
		.switches = a->o.off_cpu ? a->cost.switches : 0,
	};
	unsigned changed = pacer_check(&a->pacer, &r, perf_events_cpus(a->events));
	if (changed & PACER_HZ)
		set_hz(a, hz);
	if (changed & PACER_STEP)
		offcpu_step(a, step, now);
}

/* Stacks end early where unwind tables are missing. The log says why, once in ten minutes while more are missing. */
static bool tables_news(struct told_count *said, uint64_t count, int64_t now)
{
	if (count == said->count || (said->count && now - said->at_ns < TABLES_FULL_NS))
		return false;
	*said = (struct told_count){ count, now };
	return true;
}

static void say_tables_missing(struct agent *a, int64_t now)
{
	const struct unwind_tables_stats *s = unwind_tables_stats(a->tables);

	if (tables_news(&a->full_said, s->failures, now))
		LOG_WARN("msg", "the memory for unwind tables is full: stacks of some programs end early (--unwind-memory gives more)", "tables",
			 LOG_NUM(s->images), "bytes", LOG_NUM(s->chunks * CHUNK_ROWS * 4), "gave_way", LOG_NUM(s->evictions));
	if (tables_news(&a->postponed_said, images_postponed(a->images), now))
		LOG_WARN("msg", "many new programs run, and building unwind tables has used up its share of the CPUs (--max-cost): stacks of some programs end early until their tables are built",
			 "postponed", LOG_NUM(images_postponed(a->images)), "tables", LOG_NUM(s->images));
}

/* Gives processes their final labels where the name of their container has become known since they were sampled. */
static void update_labels(struct agent *a, int64_t now) REQUIRES(a->lock)
{
	bool all = now - a->labelled_ns >= HOUSEKEEPING_NS;

	if (!all && (!labeler_waits(a->labeler) || now - a->named_ns < NAMES_NS))
		return;
	a->named_ns = now;
	if (all)
		a->labelled_ns = now;
	if (labeler_tick(a->labeler, all))
		windows_name(a, now);
}

static void housekeeping(struct agent *a, int64_t now) REQUIRES(a->lock)
{
	watch_cost(a, now);
	update_labels(a, now);
	if (now - a->kept_house_ns < HOUSEKEEPING_NS)
		return;
	a->kept_house_ns = now;
	perf_events_redraw(a->events, now);
	struct err e = { 0 };
	int changed = perf_events_hotplug(a->events, &e);
	if (changed) {
		watch_events(a);
		processes_doubt(a->processes); /* what the old events would have told */
		LOG_INFO("msg", "CPUs went or came", "sampled", LOG_NUM(perf_events_cpus(a->events)));
	}
	if (changed < 0 && !a->cpu_missing)
		LOG_WARN("msg", "a CPU that came online is not sampled", "err", e.msg);
	a->cpu_missing = changed < 0;
	say_tables_missing(a, now);
	images_sweep(a->images, now - (a->o.history_ms + GROUP_NAME_WAIT_MS) * 1000000 - 2 * WINDOW_NS);
}

/* Their files may be gone when somebody asks for names. */
static void tell_symbolizer(struct agent *a) REQUIRES(a->lock)
{
	for (struct image *im; (im = images_next_opened(a->images));) {
		symbolizer_image(a->symbolizer, im);
		image_unref(im);
	}
}

static void agent_drain(struct agent *a)
{
	int64_t now = clock_mono_ns(), from = clock_cpu_ns();

	bool late = a->drained_ns && now - a->drained_ns > LATE_NS;
	a->drained_ns = now;
	if (now - a->pacer.last.now_ns >= COST_INTERVAL_NS)
		read_cost(a, now);
	sampler_read(&a->sampler);
	struct perf_records done = a->records;
	perf_records_clear(&done);
	a->records = a->later_records;
	a->later_records = done;
	perf_events_read(a->events, &a->records);
	drain_lock(a);
	a->late_drains += late;
	drain_process(a, now, from);
	mutex_unlock(&a->lock);
	sampler_done(&a->sampler);
	if (processes_finish_drain(a->processes, now))
		a->quick_left = QUICK_DRAINS;
	unwind_tables_tick(a->tables);
	drain_lock(a);
	drain_tell_edition(a);
	a->due_ns = processes_due_ns(a->processes);
	tell_symbolizer(a);
	filter_tick(a->filter, now);
	namer_take(a->namer, &a->frames);
	windows_finish(a, now - IN_FLIGHT_NS);
	housekeeping(a, now);
	drain_tell_state(a);
	mutex_unlock(&a->lock);
}

/* How long to wait for the next drain. A program that was executed just now maps its libraries within some milliseconds: if they are a
 * language runtime, the kernel is to know before its first frames run. The same holds for one that has been seen before it had begun. */
static int next_drain_ms(struct agent *a, int64_t now)
{
	static const int quick_ms[QUICK_DRAINS] = { 10, 4 };

	if (now - a->quick_second_ns >= 1000000000ll) {
		a->quick_second_ns = now;
		a->quick_drains = 0;
	}
	int usual = (int)a->o.drain_ms, ms = usual;
	int64_t until_due_ms = (a->due_ns - now) / 1000000 + 1;
	if (processes_have_more(a->processes))
		return 0;
	if (a->quick_drains >= QUICK_PER_S)
		return usual;
	if (a->quick_left)
		ms = MIN(ms, quick_ms[--a->quick_left]);
	if (until_due_ms < ms)
		ms = MIN(ms, MAX((int)MAX(until_due_ms, 0), QUICK_MS));
	a->quick_drains += ms < usual;
	return ms;
}

static void *drain_thread(void *arg)
{
	struct agent *a = arg;
	struct epoll_event ev[8];
	uint64_t n;

	/* On a host that is busy the buffers must be emptied all the same; without CAP_SYS_NICE they are large enough. */
	setpriority(PRIO_PROCESS, (id_t)gettid(), PRIORITY);
	while (!atomic_load(&a->stopping)) {
		epoll_wait(a->epoll_fd, ev, ARRAY_LEN(ev), next_drain_ms(a, clock_mono_ns()));
		if (read(a->wake_fd, &n, sizeof n) < 0 && errno != EAGAIN)
			break;
		agent_drain(a);
	}
	return NULL;
}

static void wake(struct agent *a)
{
	uint64_t one = 1;
	if (write(a->wake_fd, &one, sizeof one) < 0)
		return;
}

/* --- start and stop --- */

static int start_polling(struct agent *a, struct err *e)
{
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	a->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->epoll_fd < 0 || a->wake_fd < 0)
		return err_errno(e, errno, "epoll");
	struct epoll_event ev = { .events = EPOLLIN };
	epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, a->wake_fd, &ev);
	epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, a->sampler.ring_fd, &ev);
	watch_events(a);
	return 0;
}

static void log_warning(void *arg, const char *text)
{
	LOG_WARN("msg", "configuration", "warning", text);
}

int agent_reload(struct agent *a, struct err *e)
{
	struct agent_config *c = NULL, *old = NULL;
	struct config_sources sources = { 0 };
	int r = agent_config_load(&c, a->o.config_file, &(struct config_how){ .expand_env = a->o.expand_env, .sources = &sources }, log_warning, NULL, e);

	mutex_lock(&a->lock);
	config_sources_free(&a->sources);
	a->sources = sources;
	if (!r && c->empty && a->config && !a->config->empty) /* someone is about to write it */
		r = err_set(e, ERR_BAD_DATA, "%s is empty", a->o.config_file);
	if (!r) {
		old = a->config;
		a->config = TAKE_PTR(c);
		labeler_use(a->labeler, a->config);
		a->configured_ms = clock_now_ms();
	}
	mutex_unlock(&a->lock);
	atomic_store(&a->config_ok, !r);
	atomic_fetch_add(&a->config_failures, r != 0);
	agent_config_free(c);
	agent_config_free(old);
	return r;
}

static void tell_sources(void *arg, struct config_sources *ret)
{
	struct agent *a = arg;
	mutex_lock(&a->lock);
	config_sources_copy(ret, &a->sources);
	mutex_unlock(&a->lock);
}

static void reload_changed(void *arg)
{
	struct agent *a = arg;
	struct err e = { 0 };
	if (agent_reload(a, &e))
		LOG_ERROR("msg", "the configuration was not reloaded, the old one stays", "err", e.msg);
	else
		LOG_INFO("msg", "configuration reloaded", "file", a->o.config_file);
}

static int watch_config(struct agent *a, struct err *e)
{
	struct config_watch_options o = { .interval_ms = a->o.auto_reload_ms, .sources = tell_sources, .reload = reload_changed, .arg = a };
	if (!a->o.auto_reload_ms || !a->o.config_file || !*a->o.config_file)
		return 0;
	return config_watch_start(&a->config_watch, &o, e);
}

static uint32_t ring_bytes(const struct agent_options *o)
{
	uint32_t want = (uint32_t)sysconf(_SC_NPROCESSORS_CONF) * RING_BYTES_PER_CPU, n = RING_BYTES_MIN;
	while (n < want && n < RING_BYTES_MAX)
		n *= 2;
	return o->off_cpu ? 2 * n : n;       /* waits come in bursts */
}

/* In a pod, or with a kubeconfig: what the API server says of this node's pods. */
static int start_pods(struct agent *a, struct err *e)
{
	struct pods_options o = { .node = a->o.node };
	const char *file = a->o.kubeconfig, *agent = "pyrrha-agent/" PACKAGE_VERSION;
	char host[256] = "";
	int r;

	if (!a->o.kubernetes)
		return 0;
	if (file && *file)
		r = kube_client_kubeconfig(&o.client, file, NULL, agent, e);
	else if (getenv("KUBERNETES_SERVICE_HOST"))
		r = kube_client_in_cluster(&o.client, NULL, agent, e);
	else
		return 0;
	if (r)
		return err_wrap(e, "Kubernetes (--no-kubernetes does without)");
	if (!o.node || !*o.node) {
		gethostname(host, sizeof host - 1);
		o.node = host;
	}
	LOG_INFO("msg", "pods from the API server", "server", kube_client_server(o.client), "node", o.node);
	return pods_start(&a->pods, &o, e);
}

/* A file that does not load is told before anything that takes rights and time; it is used, with its warnings, later. */
static int check_config(const struct agent *a, struct err *e)
{
	struct agent_config *c = NULL;
	int r = agent_config_load(&c, a->o.config_file, &(struct config_how){ .expand_env = a->o.expand_env }, NULL, NULL, e);
	agent_config_free(c);
	return r;
}

static int open_all(struct agent *a, struct err *e)
{
	struct sampler_options so = { ring_bytes(&a->o), a->o.kernel_stacks, a->o.runtimes != 0, a->o.off_cpu };
	struct labeler_options lo = { a->o.node, a->o.external, NULL, NULL, a->o.env_vars, a->o.n_env_vars, a->o.show_command_lines };
	/* Helpers may take half of what the agent may; it counts. */
	struct symbolizer_options names = { a->o.cache_dir, a->o.debuginfod_urls, a->o.names_patience_ms,
					    a->o.max_cost * (double)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L) / 2 };
	int r = check_config(a, e);

	if (!r)
		r = pid_ns_check_proc(e);
	if (!r && pid_ns_inside())
		LOG_WARN("msg", "process ids are " AGENT_INSIDE);
	if (!r && !a->o.ignore_kernel_bugs)
		r = agent_check_kernel(e);
	if (!r && !(a->symbolizer = symbolizer_new(&names, e)))
		r = -ERR_INTERNAL;
	if (!r && !(a->namer = namer_new(e)))
		r = -ERR_INTERNAL;
	if (!r)
		r = start_pods(a, e);
	if (!r)
		r = sampler_load(&a->sampler, &so, e);
	if (!r)
		r = filter_new(&a->filter, &a->sampler, &a->o.filters, e);
	if (!r)
		r = unwind_tables_new(&a->tables, &a->sampler.tables, e);
	if (!r)
		unwind_tables_set_room(a->tables, a->o.unwind_bytes ? a->o.unwind_bytes : agent_unwind_bytes());
	lo.pods = a->pods;
	lo.filter = a->filter;
	if (!r && !(a->labeler = labeler_new(&lo, e)))
		r = -ERR_INTERNAL;
	if (!r)
		r = agent_reload(a, e);
	if (r)
		return r;
	a->images = images_new(a->tables, a->o.runtimes);
	/* Building tables may use as much CPU time as everything else together: without tables, stacks end at the first frame. */
	images_set_share(a->images, a->o.max_cost * (double)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L), TABLES_FIRST_NS);
	a->processes = processes_new(a->tables, a->images, a->sampler.tables.runtime_procs);
	r = perf_events_open(&a->events, a->sampler.sample_fd, a->o.hz, DATA_PAGES, e);
	if (!r && a->o.off_cpu)
		r = offcpu_start(a, e);
	if (!r)
		r = start_polling(a, e);
	return r;
}

/* Where no control group has a weight, each session of a terminal or a login shares its part of the CPUs among all its processes, whatever their
 * priority (sched(7), autogroups). An agent that leads its session takes only itself along. */
static void raise_session(void)
{
	FILE *f = getsid(0) == getpid() ? fopen("/proc/self/autogroup", "we") : NULL;

	if (!f)
		return;
	if (fprintf(f, "%d", PRIORITY) < 0 || fflush(f))
		LOG_DEBUG("msg", "the session keeps its priority", "err", strerror(errno));
	fclose(f);
}

int agent_start(struct agent **ret, const struct agent_options *o, struct err *e)
{
	struct agent *a = NEW(struct agent);

	a->o = *o;
	pacer_init(&a->pacer, o->max_cost, o->hz, o->off_cpu);
	a->epoll_fd = a->wake_fd = -1;
	mutex_init(&a->lock, RANK_AGENT, "agent");
	pthread_cond_init(&a->finished, NULL);
	windows_start(a);
	raise_session();
	files_raise_limit(); /* every mapped file of a sampled process has a descriptor, every CPU one */
	int r = open_all(a, e);
	if (!r)
		r = watch_config(a, e);
	if (!r)
		r = thread_start(&a->thread, "drain", drain_thread, a, e);
	if (r) {
		agent_stop(a);
		return r;
	}
	a->running = true;
	*ret = a;
	return 0;
}

void agent_stop(struct agent *a)
{
	if (!a)
		return;
	config_watch_stop(a->config_watch);
	atomic_store(&a->stopping, true);
	mutex_lock(&a->lock);
	pthread_cond_broadcast(&a->finished);
	mutex_unlock(&a->lock);
	if (a->running) {
		wake(a);
		pthread_join(a->thread, NULL);
	}
	perf_events_close(a->events);
	processes_free(a->processes);
	images_free(a->images);
	symbolizer_free(a->symbolizer);
	namer_free(a->namer);
	labeler_free(a->labeler);
	agent_config_free(a->config);
	config_sources_free(&a->sources);
	pods_stop(a->pods);
	unwind_tables_free(a->tables);
	filter_free(a->filter);
	if (a->sampler.object)
		sampler_release(&a->sampler);
	windows_release(a);
	perf_records_release(&a->records);
	perf_records_release(&a->later_records);
	if (a->epoll_fd >= 0)
		close(a->epoll_fd);
	if (a->wake_fd >= 0)
		close(a->wake_fd);
	pthread_cond_destroy(&a->finished);
	mutex_destroy(&a->lock);
	free(a);
}

/* --- callers --- */

static void remove_caller(struct agent *a, const struct sample_counts *t) REQUIRES(a->lock)
{
	for (size_t i = 0; i < a->callers.n; i++) {
		if (a->callers.v[i] == t) {
			a->callers.v[i] = a->callers.v[--a->callers.n];
			return;
		}
	}
}

/* Until the window is complete, or the caller went, or the agent stops. */
static int wait_for(struct agent *a, struct sample_counts *t, const atomic_bool *gone, struct err *e) REQUIRES(a->lock)
{
	while (!t->finished) {
		if (atomic_load(&a->stopping))
			return err_set(e, ERR_UNAVAILABLE, "the agent is shutting down");
		if (gone && atomic_load(gone))
			return err_set(e, ERR_CANCELED, "the client went away");
		int64_t due_ns = windows_caller_due_ns(t) + IN_FLIGHT_NS;
		/* At the end of its window there may be a process in it that waits for its name: then there is another turn. */
		mutex_wait_ms(&a->lock, &a->finished, MAX(due_ns / 1000000, clock_mono_ms() + 1));
		if (!t->finished && clock_mono_ns() >= due_ns)
			wake(a);
	}
	return 0;
}

void agent_answered(struct agent *a, enum window_kind kind, int64_t cpu_ns)
{
	if (kind == WINDOW_OFF_CPU)
		atomic_fetch_add(&a->answered_off_ns, (uint64_t)cpu_ns);
}

bool agent_takes(const struct agent *a, enum window_kind kind)
{
	return kind != WINDOW_OFF_CPU || a->o.off_cpu;
}

/* Why there are no off-CPU profiles; 0 if there are. */
static int check_kind(const struct agent *a, enum window_kind kind, struct err *e)
{
	if (!agent_takes(a, kind))
		return err_set(e, ERR_NOT_FOUND, "off-CPU profiles are off: start the agent with --off-cpu");
	return 0;
}

static struct profile_window *export(const struct agent *a, struct sample_counts *const *t, size_t n, enum window_kind kind)
{
	struct profile_window *w = sample_counts_export(t, n, kind, &a->stacks, &a->frames, a->tables);
	w->end_unix_ns = t[n - 1]->end_ns + t[n - 1]->unix_offset_ns;
	w->period_ns = kind == WINDOW_OFF_CPU ? 1 : perf_events_period(a->events);
	_Static_assert(sizeof w->note == PACER_NOTE, "room for the note");
	pacer_note(&a->pacer, kind == WINDOW_OFF_CPU, a->o.off_threshold_ns, w->note);
	return w;
}

int agent_profile(struct agent *a, enum window_kind kind, int64_t duration_ns, const atomic_bool *gone, struct profile_window **ret,
		  struct err *e)
{
	int r = check_kind(a, kind, e);
	struct flag_watch left;

	if (r)
		return r;
	flag_watch(&left, gone, &a->lock, &a->finished);
	mutex_lock(&a->lock);
	if (a->callers.n >= AGENT_MAX_CALLERS) {
		mutex_unlock(&a->lock);
		flag_unwatch(&left);
		return err_set(e, ERR_BUSY, "%d profiles are being taken already", AGENT_MAX_CALLERS);
	}
	int64_t now = a->asked_ns = clock_mono_ns();
	struct sample_counts *t = sample_counts_new(now, now + duration_ns, windows_unix_offset());
	t->kinds = 1u << kind;
	vec_push(&a->callers, t);
	r = wait_for(a, t, gone, e);
	if (!r)
		*ret = export(a, &t, 1, kind);
	remove_caller(a, t);
	mutex_unlock(&a->lock);
	flag_unwatch(&left);
	sample_counts_free(t);
	if (!r)
		namer_settle(a->namer, SETTLE_MS);
	return r;
}

int agent_history(struct agent *a, enum window_kind kind, const struct history_range *r, struct profile_window **ret,
		  struct history_state *ret_state, struct err *e)
{
	VEC(struct sample_counts *) in = { 0 };
	int rc = check_kind(a, kind, e);

	if (rc)
		return rc;
	mutex_lock(&a->lock);
	a->asked_ns = clock_mono_ns();
	size_t named = windows_named(a);
	*ret_state = (struct history_state){
		.finished_ms = sample_counts_start_unix_ms(named < a->history.n ? a->history.v[named] : a->current) };
	for (size_t i = 0; i < named; i++) {
		int64_t start_ms = sample_counts_start_unix_ms(a->history.v[i]);
		if (a->history.v[i]->number <= r->after || start_ms < r->from_ms)
			continue;
		if (!ret_state->next_ms)
			ret_state->next_ms = start_ms;
		if (start_ms < r->to_ms)
			vec_push(&in, a->history.v[i]);
	}
	bool too_early = r->whole && ret_state->finished_ms < r->to_ms;
	if (in.n && !too_early)
		*ret = export(a, in.v, in.n, kind);
	mutex_unlock(&a->lock);
	if (too_early)
		rc = err_set(e, ERR_NOT_FOUND, "not all windows that start in that range are finished");
	else if (!in.n)
		rc = err_set(e, ERR_NOT_FOUND, "no finished window starts in that range");
	else
		namer_settle(a->namer, SETTLE_MS);
	vec_free(&in);
	return rc;
}

void agent_history_range(struct agent *a, int64_t *ret_from_ms, int64_t *ret_to_ms)
{
	mutex_lock(&a->lock);
	size_t named = windows_named(a);
	*ret_to_ms = sample_counts_start_unix_ms(named < a->history.n ? a->history.v[named] : a->current);
	*ret_from_ms = a->history.n ? sample_counts_start_unix_ms(a->history.v[0]) : *ret_to_ms;
	mutex_unlock(&a->lock);
}

void agent_targets(struct agent *a, struct view address, struct buf *out)
{
	mutex_lock(&a->lock);
	targets_json(labeler_groups(a->labeler), clock_mono_ms() - a->o.history_ms, address, out);
	mutex_unlock(&a->lock);
}

size_t agent_series_labels(struct agent *a, struct arena *in, struct view **ret)
{
	mutex_lock(&a->lock);
	size_t n = a->config->n_targets;
	*ret = arena_calloc(in, n + 1, sizeof **ret);
	for (size_t i = 0; i < n; i++)
		(*ret)[i] = arena_view(in, a->config->targets[i]);
	mutex_unlock(&a->lock);
	return n;
}
