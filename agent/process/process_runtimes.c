/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process_runtimes.h"

#include <bpf/bpf.h>

#include "agent/managed/rows.h"
#include "agent/process/process.h"

#define TRIES_MAX 9u                 /* a runtime that takes longer to begin than some ten seconds is left alone */
#define TRY_FIRST_NS 20000000ll      /* then each time twice as long */

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
	}
	p->runtime.exec_id = p->exec_id;
}

static void grow_up(struct process_runtimes *x, struct process *p)
{
	TAKE_OUT(&x->young, p, young);
	rewrite(x, p);
}

static void forget_job(struct process *p)
{
	attach_job_unref(p->runtime.job);
	p->runtime.job = NULL;
}

void process_runtimes_leave(struct process_runtimes *x, struct process *p)
{
	for (enum runtime_kind kind = 0; kind < RUNTIME_KINDS; kind++) {
		struct runtime_key key = key_of(p, kind);
		if (!in_kernel(p, kind))
			continue;
		bpf_map_delete_elem(x->fd, &key);
		x->known[kind]--;
	}
	p->runtime.in_kernel = 0;
	forget_job(p);
	TAKE_OUT(&x->young, p, young);
	TAKE_OUT(&x->waiting, p, waiting);
}

void process_runtimes_end(struct process *p)
{
	for (unsigned i = 0; i < RUNTIME_KINDS; i++) {
		runtime_owner_end(p->runtimes[i]);
		p->runtimes[i] = NULL;
	}
	forget_job(p);
	p->runtime.label[0] = 0;
	p->runtime.given_up = 0;
	p->runtime.tries = 0;
	p->runtime.again_ns = 0;
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

static void give_up(struct process_runtimes *x, struct process *p, enum runtime_kind kind, enum runtime_failure why)
{
	p->runtime.given_up |= (uint8_t)(1u << kind);
	x->failed[kind][why]++;
}

static bool maps_at(const struct process *p, const struct image *im, uint64_t bias)
{
	for (size_t i = 0; i < p->as->v.n; i++)
		if (p->as->v.v[i].image == im && p->as->unwind[i].start - p->as->unwind[i].vaddr == bias)
			return true;
	return false;
}

static void look_again(struct process_runtimes *x, struct process *p)
{
	if (!p->runtime.waiting)
		vec_push(&x->waiting, p);
	p->runtime.waiting = true;
}

/* Memory that is not there may be so yet, too: a runtime is found when its file is mapped, before it has begun. */
static void try_later(struct process_runtimes *x, struct process *p, enum runtime_kind kind, enum runtime_failure why, int64_t now_ns)
{
	if (p->runtime.tries >= TRIES_MAX || (why != RUNTIME_FAIL_STUCK && why != RUNTIME_FAIL_NOT_READY && why != RUNTIME_FAIL_GONE)) {
		give_up(x, p, kind, why);
		return;
	}
	p->runtime.again_ns = now_ns + (TRY_FIRST_NS << p->runtime.tries++);
	look_again(x, p);
}

/* False: the job has no answer yet, or never has one, and the process is given up. */
static bool answer_of(struct process_runtimes *x, struct process *p, enum runtime_kind kind, int *ret_err, struct runtime_proc *ret)
{
	struct attach_job *j = p->runtime.job;
	enum attach_state state = attach_job_state(j);

	if (state == ATTACH_WAITS) {
		look_again(x, p);
		return false;
	}
	if (state == ATTACH_DONE) {
		*ret_err = j->error;
		*ret = j->found;
	} else {
		give_up(x, p, kind, RUNTIME_FAIL_STUCK);
		p->runtime.given_up = (uint8_t)RUNTIMES_ALL;
	}
	forget_job(p);
	return state == ATTACH_DONE;
}

/* Describes a process whose memory has to be read. An answer for what it had mapped before is of no use. */
static bool ask(struct process_runtimes *x, struct process *p, struct image *im, uint64_t bias, int *ret_err, struct runtime_proc *ret,
		int64_t now_ns)
{
	enum runtime_kind kind = im->runtime->of->kind;
	const struct attach_job *j = p->runtime.job;

	if (j && (j->image != im || j->bias != bias)) {
		if (attach_job_state(j) == ATTACH_WAITS && maps_at(p, j->image, j->bias))
			return false; /* its other runtime comes first */
		forget_job(p);
	}
	if (!p->runtime.job)
		p->runtime.job = attacher_ask(x->attacher, p->pid, im, bias);
	if (p->runtime.job)
		return answer_of(x, p, kind, ret_err, ret);
	try_later(x, p, kind, RUNTIME_FAIL_STUCK, now_ns);
	return false;
}

static void attach(struct process_runtimes *x, struct process *p, struct image *im, uint64_t bias, int64_t now_ns)
{
	enum runtime_kind kind = im->runtime->of->kind;
	struct runtime_key key = key_of(p, kind);
	struct runtime_proc v;

	if (p->runtime.given_up >> kind & 1 || now_ns < p->runtime.again_ns)
		return;
	if (im->runtime->why_not[0]) {
		give_up(x, p, kind, RUNTIME_FAIL_BUILD);
		return;
	}
	int r = 0;
	if (!im->runtime->of->attach_reads)
		r = attach_now(im->runtime, p->pid, bias, &v);
	else if (!ask(x, p, im, bias, &r, &v, now_ns))
		return;
	if (r) {
		try_later(x, p, kind, failure_of(r), now_ns);
		return;
	}
	bool young = p->started_ns && now_ns - p->started_ns < YOUNG_NS;
	v.exec_id = p->exec_id;
	v.flags = young ? RUNTIME_YOUNG : 0;
	if (x->fd >= 0 && bpf_map_update_elem(x->fd, &key, &v, BPF_ANY)) {
		give_up(x, p, kind, RUNTIME_FAIL_NO_ROOM);
		return;
	}
	p->runtime.in_kernel |= (uint8_t)(1u << kind);
	p->runtime.exec_id = p->exec_id;
	x->known[kind]++;
	if (!p->runtimes[kind])
		p->runtimes[kind] = runtime_owner_new(p->pid, im);
	if (young && !p->runtime.young)
		vec_push(&x->young, p);
	p->runtime.young |= young;
}

bool process_runtimes_push(struct process_runtimes *x, struct process *p, int64_t now_ns)
{
	const struct address_space *as = p->as;
	bool labelled = false;
	unsigned met = 0;

	if (p->runtime.in_kernel && p->runtime.exec_id != p->exec_id)
		rewrite(x, p);
	for (size_t i = 0; i < as->v.n; i++) {
		struct image *im = as->v.v[i].image;
		if (!im || !im->runtime || met >> im->runtime->of->kind & 1)
			continue;
		met |= 1u << im->runtime->of->kind;
		if (!p->runtime.label[0]) {
			memcpy(p->runtime.label, im->runtime->label, sizeof p->runtime.label);
			labelled = true;
		}
		if (!in_kernel(p, im->runtime->of->kind))
			attach(x, p, im, as->unwind[i].start - as->unwind[i].vaddr, now_ns);
	}
	return labelled;
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

void process_runtimes_tick(struct process_runtimes *x, int64_t now_ns)
{
	for (size_t i = x->young.n; i-- > 0;)
		if (now_ns - x->young.v[i]->started_ns >= YOUNG_NS)
			grow_up(x, x->young.v[i]);
	attacher_tick(x->attacher);
	for (size_t i = x->waiting.n; i-- > 0;) {
		struct process *p = x->waiting.v[i];
		const struct attach_job *j = p->runtime.job;
		if ((j && attach_job_state(j) == ATTACH_WAITS) || now_ns < p->runtime.again_ns || !p->as || !p->as->unwind)
			continue;
		TAKE_OUT(&x->waiting, p, waiting);
		if (!p->dead)
			process_runtimes_push(x, p, now_ns);
	}
}
