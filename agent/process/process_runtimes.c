/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process_runtimes.h"

#include <bpf/bpf.h>

#include "agent/managed/rows.h"
#include "agent/process/process.h"

#define TRIES_MAX 21u                /* a runtime that takes longer to begin than some ten seconds is left alone */
#define TRIES_SOON 12u               /* a virtual machine of Java has code some 50 to 150 ms after its file is mapped */
#define TRY_FIRST_NS 10000000ll      /* so often; then each time twice as long */

const char *const runtime_failure_names[RUNTIME_FAILURES] = {
	[RUNTIME_FAIL_BUILD] = "build", [RUNTIME_FAIL_DENIED] = "denied", [RUNTIME_FAIL_GONE] = "gone",
	[RUNTIME_FAIL_NOT_READY] = "not_ready", [RUNTIME_FAIL_STRANGE] = "strange", [RUNTIME_FAIL_NO_ROOM] = "no_room",
	[RUNTIME_FAIL_STUCK] = "stuck",
};

void process_runtimes_init(struct process_runtimes *x, int fd)
{
	memset(x, 0, sizeof *x);
	x->fd = fd;
	x->attacher = attacher_new();
}

void process_runtimes_release(struct process_runtimes *x)
{
	vec_free(&x->young);
	vec_free(&x->waiting);
	attacher_free(x->attacher);
}

/* --- lists --- */

#define TAKE_OUT(list, p, flag) do { \
	for (size_t i_ = 0; (p)->runtime.flag && i_ < (list)->n; i_++) \
		if ((list)->v[i_] == (p)) { \
			(list)->v[i_] = (list)->v[--(list)->n]; \
			break; \
		} \
	(p)->runtime.flag = false; \
} while (0)

/* --- the map --- */

static struct runtime_key key_of(const struct process *p, enum runtime_kind kind)
{
	return (struct runtime_key){ .tgid = p->pid, .kind = kind };
}

static bool in_kernel(const struct process *p, enum runtime_kind kind)
{
	return p->runtime.in_kernel >> kind & 1;
}

/* The program's number, or whether it is young, has changed. */
static void rewrite(struct process_runtimes *x, struct process *p)
{
	for (enum runtime_kind kind = 0; kind < RUNTIME_KINDS; kind++) {
		struct runtime_key key = key_of(p, kind);
		struct runtime_proc v;
		if (!in_kernel(p, kind) || bpf_map_lookup_elem(x->fd, &key, &v))
			continue;
		v.exec_id = p->exec_id;
		v.flags = p->runtime.young ? RUNTIME_YOUNG : 0;
		bpf_map_update_elem(x->fd, &key, &v, BPF_EXIST);
		x->edition++;
	}
	p->runtime.exec_id = p->exec_id;
}

static void grow_up(struct process_runtimes *x, struct process *p)
{
	TAKE_OUT(&x->young, p, young);
	rewrite(x, p);
}

static void forget_job(struct runtime_attempt *t)
{
	if (t->job)
		read_job_unref(&t->job->job);
	t->job = NULL;
}

static void drop_attempt(struct process *p, size_t i)
{
	forget_job(&p->runtime.attempts.v[i]);
	image_unref(p->runtime.attempts.v[i].image);
	memmove(&p->runtime.attempts.v[i], &p->runtime.attempts.v[i + 1], (--p->runtime.attempts.n - i) * sizeof p->runtime.attempts.v[0]);
}

static void leave_kind(struct process_runtimes *x, struct process *p, enum runtime_kind kind)
{
	struct runtime_key key = key_of(p, kind);

	if (!in_kernel(p, kind))
		return;
	bpf_map_delete_elem(x->fd, &key);
	x->edition++;
	x->known[kind]--;
	p->runtime.in_kernel &= (uint8_t) ~(1u << kind);
}

void process_runtimes_leave(struct process_runtimes *x, struct process *p)
{
	for (enum runtime_kind kind = 0; kind < RUNTIME_KINDS; kind++)
		leave_kind(x, p, kind);
	for (size_t i = 0; i < p->runtime.attempts.n; i++)
		forget_job(&p->runtime.attempts.v[i]);
	TAKE_OUT(&x->young, p, young);
	TAKE_OUT(&x->waiting, p, waiting);
}

void process_runtimes_end(struct process *p)
{
	for (unsigned i = 0; i < RUNTIME_KINDS; i++) {
		runtime_owner_end(p->runtimes[i]);
		p->runtimes[i] = NULL;
	}
	while (p->runtime.attempts.n)
		drop_attempt(p, p->runtime.attempts.n - 1);
	vec_free(&p->runtime.attempts);
	p->runtime.label[0] = 0;
	p->runtime.failed = 0;
}

/* --- attaching --- */

static enum runtime_failure failure_of(int r)
{
	switch (-r) {
	case ERR_DENIED:
		return RUNTIME_FAIL_DENIED;
	case ERR_NOT_FOUND:
		return RUNTIME_FAIL_GONE;
	case ERR_UNAVAILABLE:
		return RUNTIME_FAIL_NOT_READY;
	default:
		return RUNTIME_FAIL_STRANGE;
	}
}

static void give_up(struct runtime_attempt *t, enum runtime_failure why)
{
	t->given_up = true;
	t->why = why;
}

/* Whether a process that fails so may do better later: a runtime is found when its file is mapped, before it has begun. Memory that is not
 * as expected may be half made, for a moment. */
static bool may_begin(const struct runtime_attempt *t, enum runtime_failure why)
{
	if (why == RUNTIME_FAIL_STRANGE)
		return t->tries < TRIES_SOON;
	return t->tries < TRIES_MAX && (why == RUNTIME_FAIL_STUCK || why == RUNTIME_FAIL_NOT_READY || why == RUNTIME_FAIL_GONE);
}

static void try_later(struct runtime_attempt *t, enum runtime_failure why, int64_t now_ns)
{
	if (!may_begin(t, why))
		give_up(t, why);
	else
		t->again_ns = now_ns + (TRY_FIRST_NS << (++t->tries > TRIES_SOON ? t->tries - TRIES_SOON : 0));
}

/* Describes a process whose memory has to be read. False: there is no answer yet, or never one. */
static bool ask(struct process_runtimes *x, const struct process *p, struct runtime_attempt *t, int *ret_err, struct runtime_proc *ret,
		void **ret_facts, int64_t now_ns)
{
	if (!t->job)
		t->job = attacher_ask(x->attacher, p->pid, t->image, t->bias);
	if (!t->job) {
		try_later(t, RUNTIME_FAIL_STUCK, now_ns);
		return false;
	}
	enum read_state state = read_job_state(&t->job->job);
	if (state == READ_WAITS)
		return false;
	if (state == READ_DONE) {
		*ret_err = t->job->error;
		*ret = t->job->found;
		*ret_facts = t->job->facts;
		t->job->facts = NULL;
	} else {
		give_up(t, RUNTIME_FAIL_STUCK);
	}
	forget_job(t);
	return state == READ_DONE;
}

static void attach(struct process_runtimes *x, struct process *p, struct runtime_attempt *t, int64_t now_ns)
{
	enum runtime_kind kind = t->image->runtime->of->kind;
	struct runtime_key key = key_of(p, kind);
	struct runtime_proc v;
	AUTOFREE void *facts = NULL;

	if (t->given_up || (!t->job && now_ns < t->again_ns))
		return;
	if (t->image->runtime->why_not[0]) {
		give_up(t, RUNTIME_FAIL_BUILD);
		return;
	}
	int r = 0;
	if (!t->image->runtime->of->attach_reads)
		r = attach_now(t->image->runtime, p->pid, t->bias, &v, &facts);
	else if (!ask(x, p, t, &r, &v, &facts, now_ns))
		return;
	if (r) {
		try_later(t, failure_of(r), now_ns);
		return;
	}
	bool young = p->started_ns && now_ns - p->started_ns < YOUNG_NS;
	v.exec_id = p->exec_id;
	v.flags = young ? RUNTIME_YOUNG : 0;
	if (x->fd >= 0 && bpf_map_update_elem(x->fd, &key, &v, BPF_ANY)) {
		give_up(t, RUNTIME_FAIL_NO_ROOM);
		return;
	}
	p->runtime.in_kernel |= (uint8_t)(1u << kind);
	p->runtime.exec_id = p->exec_id;
	x->known[kind]++;
	if (p->runtimes[kind] && (p->runtimes[kind]->image != t->image || p->runtimes[kind]->bias != t->bias)) {
		runtime_owner_end(p->runtimes[kind]); /* its codes were read as another file's, or with other facts */
		p->runtimes[kind] = NULL;
	}
	if (!p->runtimes[kind]) {
		p->runtimes[kind] = runtime_owner_new(p->pid, t->image);
		p->runtimes[kind]->bias = t->bias;
		p->runtimes[kind]->facts = facts;
		facts = NULL;
	}
	if (young && !p->runtime.young)
		vec_push(&x->young, p);
	p->runtime.young |= young;
}

/* The attempt for a mapping; NULL: the process has too many. */
static struct runtime_attempt *attempt_of(struct process *p, struct image *im, uint64_t bias)
{
	struct runtime_state *s = &p->runtime;

	for (size_t i = 0; i < s->attempts.n; i++)
		if (s->attempts.v[i].image == im && s->attempts.v[i].bias == bias)
			return &s->attempts.v[i];
	if (s->attempts.n == ATTEMPTS_MAX)
		return NULL;
	vec_push(&s->attempts, (struct runtime_attempt){ .image = image_ref(im), .bias = bias });
	return &s->attempts.v[s->attempts.n - 1];
}

/* What is to be tried again, and what has failed with all files of its kind. */
static void sum_up(struct process_runtimes *x, struct process *p)
{
	unsigned open = 0, given_up = 0;

	for (size_t i = 0; i < p->runtime.attempts.n; i++) {
		const struct runtime_attempt *t = &p->runtime.attempts.v[i];
		unsigned bit = 1u << t->image->runtime->of->kind & ~(unsigned)p->runtime.in_kernel;
		*(t->given_up ? &given_up : &open) |= bit;
	}
	for (size_t i = 0; i < p->runtime.attempts.n; i++) {
		const struct runtime_attempt *t = &p->runtime.attempts.v[i];
		unsigned bit = 1u << t->image->runtime->of->kind;
		if (!t->given_up || !(bit & given_up & ~open & ~p->runtime.failed))
			continue;
		p->runtime.failed |= (uint8_t)bit; /* for the first file's reason */
		x->failed[t->image->runtime->of->kind][t->why]++;
	}
	if (!open)
		return;
	if (!p->runtime.waiting)
		vec_push(&x->waiting, p);
	p->runtime.waiting = true;
}

/* Whether the file that a process was attached by is mapped where it was. */
static bool is_mapped(const struct address_space *as, const struct runtime_owner *o)
{
	for (size_t i = 0; o && i < as->v.n; i++)
		if (as->v.v[i].image == o->image && as->unwind[i].start - as->unwind[i].vaddr == o->bias)
			return true;
	return false;
}

bool process_runtimes_push(struct process_runtimes *x, struct process *p, int64_t now_ns)
{
	const struct address_space *as = p->as;
	bool labelled = false;

	if (p->runtime.in_kernel && p->runtime.exec_id != p->exec_id)
		rewrite(x, p);
	/* A library that was unloaded may have been loaded again elsewhere. */
	for (enum runtime_kind kind = 0; kind < RUNTIME_KINDS; kind++)
		if (in_kernel(p, kind) && !is_mapped(as, p->runtimes[kind]))
			leave_kind(x, p, kind);
	for (size_t i = 0; i < p->runtime.attempts.n; i++)
		p->runtime.attempts.v[i].mapped = false;
	for (size_t i = 0; i < as->v.n; i++) {
		struct image *im = as->v.v[i].image;
		if (!im || !im->runtime)
			continue;
		if (!p->runtime.label[0]) {
			memcpy(p->runtime.label, im->runtime->label, sizeof p->runtime.label);
			labelled = true;
		}
		if (im->runtime->off)
			continue;
		struct runtime_attempt *t = attempt_of(p, im, as->unwind[i].start - as->unwind[i].vaddr);
		if (!t)
			continue;
		if (!t->mapped && !in_kernel(p, im->runtime->of->kind))
			attach(x, p, t, now_ns);
		t->mapped = true;
	}
	/* An answer for what it had mapped before is of no use. */
	for (size_t i = p->runtime.attempts.n; i-- > 0;)
		if (!p->runtime.attempts.v[i].mapped)
			drop_attempt(p, i);
	sum_up(x, p);
	return labelled;
}

bool process_runtimes_maps(const struct process *p, enum runtime_kind kind)
{
	for (size_t i = 0; i < p->runtime.attempts.n; i++)
		if (p->runtime.attempts.v[i].image->runtime->of->kind == kind)
			return true;
	return false;
}

bool process_runtimes_get(const struct process_runtimes *x, const struct process *p, enum runtime_kind kind, struct runtime_proc *ret)
{
	struct runtime_key key = key_of(p, kind);

	return in_kernel(p, kind) && bpf_map_lookup_elem(x->fd, &key, ret) == 0;
}

void process_runtimes_sampled(struct process_runtimes *x, struct process *p, int64_t now_ns)
{
	if (!p->runtime.young)
		return;
	if (now_ns - x->second_ns >= 1000000000ll) {
		x->second_ns = now_ns;
		x->wakes = 0;
	}
	if (x->wakes++ >= YOUNG_PER_S)
		grow_up(x, p);
}

/* Whether there is an answer, or time to try again. */
static bool is_due(const struct process *p, int64_t now_ns)
{
	for (size_t i = 0; i < p->runtime.attempts.n; i++) {
		const struct runtime_attempt *t = &p->runtime.attempts.v[i];
		if (in_kernel(p, t->image->runtime->of->kind))
			continue;
		if (t->job ? read_job_state(&t->job->job) != READ_WAITS : !t->given_up && now_ns >= t->again_ns)
			return true;
	}
	return false;
}

int64_t process_runtimes_due_ns(const struct process_runtimes *x)
{
	int64_t due = INT64_MAX;

	for (size_t i = 0; i < x->waiting.n; i++) {
		const struct process *p = x->waiting.v[i];
		for (size_t k = 0; k < p->runtime.attempts.n; k++) {
			const struct runtime_attempt *t = &p->runtime.attempts.v[k];
			if (!t->given_up && !in_kernel(p, t->image->runtime->of->kind))
				due = MIN(due, t->job ? 0 : t->again_ns);
		}
	}
	return due;
}

void process_runtimes_tick(struct process_runtimes *x, int64_t now_ns)
{
	for (size_t i = x->young.n; i-- > 0;)
		if (now_ns - x->young.v[i]->started_ns >= YOUNG_NS)
			grow_up(x, x->young.v[i]);
	attacher_tick(x->attacher);
	for (size_t i = x->waiting.n; i-- > 0;) {
		struct process *p = x->waiting.v[i];
		if (!p->as || !p->as->unwind || !is_due(p, now_ns))
			continue;
		TAKE_OUT(&x->waiting, p, waiting);
		if (!p->dead)
			process_runtimes_push(x, p, now_ns);
	}
}
