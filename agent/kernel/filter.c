/* SPDX-License-Identifier: Apache-2.0 */
/* The filters' entries, kept here as well as in the kernel's tables, so that they can be changed and counted. An entry
 * of the flags is never overruled by one that was set while running. */
#include "agent/kernel/filter.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/kernel/cgroup_id.h"
#include "agent/kernel/sampler.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"

#define LOOK_NS 1000000000ll         /* how often groups are looked up by path */

union filter_key {
	uint64_t cgroup;
	uint32_t pid;
	char comm[16];
};

struct entry {
	union filter_key key;
	enum filter_verdict verdict;
	bool fixed;                  /* of filter_options */
};

/* A control group of the flags. */
struct named {
	const char *path;
	enum filter_verdict verdict;
	uint64_t id;                 /* 0 = it does not exist now */
};

struct filter {
	struct sampler *sampler;
	int fd[FILTER_KINDS];
	VEC(struct entry) v[FILTER_KINDS];
	VEC(struct named) named;
	int64_t looked_ns;
};

static const size_t limits[] = { FILTER_CGROUPS_MAX, FILTER_PIDS_MAX, FILTER_COMMS_MAX };

static void push_control(struct filter *f)
{
	struct err e;
	if (sampler_set_control(f->sampler, &e))
		LOG_ERROR("msg", "filters cannot be set", "err", e.msg);
}

static void set_bit(struct filter *f, uint32_t *word, enum filter_kind kind, bool on)
{
	uint32_t before = *word;
	*word = on ? before | 1u << kind : before & ~(1u << kind);
	if (*word != before)
		push_control(f);
}

/* A kind without entries costs the programs nothing, unless it drops all. */
static void note_kind(struct filter *f, enum filter_kind kind)
{
	struct control *c = &f->sampler->control;
	set_bit(f, &c->filters, kind, f->v[kind].n > 0 || c->only & 1u << kind);
}

static void remove_at(struct filter *f, enum filter_kind kind, size_t i)
{
	bpf_map_delete_elem(f->fd[kind], &f->v[kind].v[i].key);
	f->v[kind].v[i] = f->v[kind].v[f->v[kind].n - 1];
	f->v[kind].n--;
}

static int set(struct filter *f, enum filter_kind kind, const union filter_key *key, enum filter_verdict verdict,
	       bool fixed, struct err *e)
{
	struct entry *found = NULL;
	uint32_t value = verdict;

	for (size_t i = 0; i < f->v[kind].n && !found; i++)
		if (memcmp(&f->v[kind].v[i].key, key, sizeof *key) == 0)
			found = &f->v[kind].v[i];
	if (found && found->fixed && !fixed)
		return 0;
	if (verdict == FILTER_NONE) {
		if (found)
			remove_at(f, kind, (size_t)(found - f->v[kind].v));
		note_kind(f, kind);
		return 0;
	}
	if (!found && f->v[kind].n >= limits[kind])
		return err_set(e, ERR_LIMIT, "there are %zu filters of that kind already", limits[kind]);
	if (bpf_map_update_elem(f->fd[kind], key, &value, BPF_ANY))
		return err_errno(e, errno, "set a filter");
	if (found)
		*found = (struct entry){ *key, verdict, fixed };
	else
		vec_push(&f->v[kind], ((struct entry){ *key, verdict, fixed }));
	note_kind(f, kind);
	return 0;
}

int filter_cgroup(struct filter *f, uint64_t cgroup_id, enum filter_verdict v, struct err *e)
{
	union filter_key k = { .comm = "" };
	k.cgroup = cgroup_id;
	return set(f, FILTER_CGROUP, &k, v, false, e);
}

static union filter_key pid_key(uint32_t pid)
{
	union filter_key k = { .comm = "" };
	k.pid = pid;
	return k;
}

static union filter_key comm_key(const char *comm)
{
	union filter_key k = { .comm = "" };
	memcpy(k.comm, comm, MIN(strlen(comm), sizeof k.comm - 1));
	return k;
}

/* Whether what has no entry of that kind is dropped. */
static void drop_others(struct filter *f, enum filter_kind kind)
{
	set_bit(f, &f->sampler->control.only, kind, true);
	note_kind(f, kind);
}

size_t filter_entries(const struct filter *f, enum filter_kind kind)
{
	return f->v[kind].n;
}

/* --- the flags --- */

/* "!x" drops x. */
static enum filter_verdict verdict_of(const char **value)
{
	if (**value != '!')
		return FILTER_KEEP;
	++*value;
	return FILTER_DROP;
}

static int add_cgroups(struct filter *f, const struct filter_list *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		const char *path = l->v[i];
		enum filter_verdict v = verdict_of(&path);
		if (*path != '/')
			return err_set(e, ERR_BAD_DATA, "filter of control groups: \"%s\" is not a path as in /proc/PID/cgroup", l->v[i]);
		vec_push(&f->named, ((struct named){ path, v, 0 }));
		if (v == FILTER_KEEP)
			drop_others(f, FILTER_CGROUP);
	}
	return 0;
}

static int add_pids(struct filter *f, const struct filter_list *l, struct err *e)
{
	int r = 0;
	for (size_t i = 0; i < l->n && !r; i++) {
		const char *text = l->v[i];
		enum filter_verdict v = verdict_of(&text);
		int64_t pid;
		if (!num_parse_i64(view_of(text), &pid) || pid < 1 || pid > INT32_MAX)
			return err_set(e, ERR_BAD_DATA, "filter of processes: \"%s\" is not the number of a process", l->v[i]);
		union filter_key k = pid_key((uint32_t)pid);
		r = set(f, FILTER_PID, &k, v, true, e);
		if (v == FILTER_KEEP)
			drop_others(f, FILTER_PID);
	}
	return r;
}

static int add_comms(struct filter *f, const struct filter_list *l, struct err *e)
{
	int r = 0;
	for (size_t i = 0; i < l->n && !r; i++) {
		const char *comm = l->v[i];
		enum filter_verdict v = verdict_of(&comm);
		if (!*comm || strlen(comm) > 15)
			return err_set(e, ERR_BAD_DATA, "filter of names: \"%s\" is empty or longer than the 15 bytes that the kernel keeps", l->v[i]);
		union filter_key k = comm_key(comm);
		r = set(f, FILTER_COMM, &k, v, true, e);
		if (v == FILTER_KEEP)
			drop_others(f, FILTER_COMM);
	}
	return r;
}

static void look_up(struct filter *f, struct named *n, bool first)
{
	struct err e = { 0 };
	uint64_t id = 0;

	if (cgroup_id_of(n->path, &id, &e) && first)
		LOG_WARN("msg", "a filter's control group does not exist yet", "group", n->path, "err", e.msg);
	if (id == n->id)
		return;
	union filter_key k = { .comm = "" };
	k.cgroup = n->id;
	if (n->id)
		set(f, FILTER_CGROUP, &k, FILTER_NONE, true, &e);
	k.cgroup = n->id = id;
	if (id && set(f, FILTER_CGROUP, &k, n->verdict, true, &e))
		LOG_ERROR("msg", "filter not set", "group", n->path, "err", e.msg);
}

void filter_tick(struct filter *f, int64_t now_ns)
{
	if (!f->named.n || (f->looked_ns && now_ns - f->looked_ns < LOOK_NS))
		return;
	for (size_t i = 0; i < f->named.n; i++)
		look_up(f, &f->named.v[i], !f->looked_ns);
	f->looked_ns = now_ns;
}

int filter_new(struct filter **ret, struct sampler *s, const struct filter_options *o, struct err *e)
{
	struct filter *f = NEW(struct filter);
	f->sampler = s;
	f->fd[FILTER_CGROUP] = sampler_map_fd(s, "filter_cgroups");
	f->fd[FILTER_PID] = sampler_map_fd(s, "filter_pids");
	f->fd[FILTER_COMM] = sampler_map_fd(s, "filter_comms");
	*ret = f;
	int r = add_cgroups(f, &o->cgroups, e);
	r = r ? r : add_pids(f, &o->pids, e);
	return r ? r : add_comms(f, &o->comms, e);
}

void filter_free(struct filter *f)
{
	if (!f)
		return;
	for (int k = 0; k < FILTER_KINDS; k++)
		vec_free(&f->v[k]);
	vec_free(&f->named);
	free(f);
}
