/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/labels/cgroup.h"

#define ID_LEN 64

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static bool is_id(struct view v)
{
	if (v.len != ID_LEN)
		return false;
	for (size_t i = 0; i < v.len; i++)
		if (!is_hex(v.ptr[i]))
			return false;
	return true;
}

/* Buildkit's ids are base 36, 25 of them. */
static bool is_short_id(struct view v)
{
	if (v.len != 25)
		return false;
	for (size_t i = 0; i < v.len; i++)
		if (!(v.ptr[i] >= '0' && v.ptr[i] <= '9') && !(v.ptr[i] >= 'a' && v.ptr[i] <= 'z'))
			return false;
	return true;
}

static bool strip(struct view *v, const char *prefix, const char *suffix)
{
	struct view p = view_of(prefix), s = view_of(suffix);
	if (v->len < p.len + s.len || !view_starts(*v, p) || !view_ends(*v, s))
		return false;
	v->ptr += p.len;
	v->len -= p.len + s.len;
	return true;
}

/* A component that names its runtime by itself. */
static const struct {
	const char *prefix, *suffix;
	enum cgroup_runtime runtime;
} shapes[] = {
	{ "docker-", ".scope", CGROUP_RUNTIME_DOCKER }, { "cri-containerd-", ".scope", CGROUP_RUNTIME_CONTAINERD },
	{ "nerdctl-", ".scope", CGROUP_RUNTIME_CONTAINERD }, { "crio-", ".scope", CGROUP_RUNTIME_CRIO }, { "crio-", "", CGROUP_RUNTIME_CRIO },
	{ "libpod-", ".scope", CGROUP_RUNTIME_PODMAN }, { "libpod-", "", CGROUP_RUNTIME_PODMAN },
	{ "cri-dockerd-", ".scope", CGROUP_RUNTIME_DOCKER },
};

/* The part behind the last colon of "SLICE:RUNTIME:ID", where the runtime was given no systemd. */
static bool colon_shape(struct view part, struct cgroup_info *ret)
{
	for (size_t i = part.len; i--;) {
		if (part.ptr[i] != ':')
			continue;
		struct view id = view_make(part.ptr + i + 1, part.len - i - 1), before = view_make(part.ptr, i);
		if (!is_id(id))
			return false;
		ret->container_id = id;
		ret->runtime = view_ends(before, VIEW(":cri-containerd")) || view_eqs(before, "cri-containerd") ? CGROUP_RUNTIME_CONTAINERD :
			       view_ends(before, VIEW(":docker")) ? CGROUP_RUNTIME_DOCKER :
			       view_ends(before, VIEW(":crio")) ? CGROUP_RUNTIME_CRIO : CGROUP_RUNTIME_NONE;
		return ret->runtime != CGROUP_RUNTIME_NONE;
	}
	return false;
}

/* True: the component names a pod. */
static bool take_pod_uid(struct view part, struct cgroup_info *ret)
{
	struct view uid = part;
	const char *pod = memmem(part.ptr, part.len, "-pod", 4);
	/* kubepods-burstable-podUID.slice; below a group of the kubelet's own: kubelet-kubepods-... */
	if (pod && (view_starts(part, VIEW("kubepods")) || view_contains(part, VIEW("-kubepods-")))) {
		uid = view_make(pod + 4, part.len - (size_t)(pod + 4 - part.ptr));
		const char *end = memmem(uid.ptr, uid.len, ".slice", 6);
		if (!end)
			return false;
		uid.len = (size_t)(end - uid.ptr);
	} else if (!strip(&uid, "pod", "")) {
		return false;
	}
	/* A UUID, or the 32 digits of a static pod's hash. */
	if (uid.len != 36 && uid.len != 32)
		return false;
	for (size_t i = 0; i < uid.len; i++) {
		char c = uid.ptr[i] == '_' ? '-' : uid.ptr[i];
		if (!is_hex(c) && c != '-') {
			ret->pod_uid[0] = 0;
			return false;
		}
		ret->pod_uid[i] = c;
	}
	ret->pod_uid[uid.len] = 0;
	return true;
}

static bool container_component(struct view part, struct view parent, bool in_pod, struct cgroup_info *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		struct view id = part;
		if (strip(&id, shapes[i].prefix, shapes[i].suffix) && is_id(id)) {
			ret->container_id = id;
			ret->runtime = shapes[i].runtime;
			return true;
		}
	}
	if (colon_shape(part, ret))
		return true;
	if (view_eqs(parent, "lxc") || view_starts(part, VIEW("lxc.payload."))) {
		struct view name = part;
		strip(&name, "lxc.payload.", "");
		ret->container_id = name;
		ret->runtime = CGROUP_RUNTIME_LXC;
		return name.len > 0;
	}
	if (view_eqs(parent, "buildkit") && (is_id(part) || is_short_id(part))) {
		ret->container_id = part;
		ret->runtime = CGROUP_RUNTIME_BUILDKIT;
		return true;
	}
	if (!is_id(part))
		return false;
	/* A bare id counts where its parent is a runtime's: /docker/ID, podUID/ID, containerd's default namespaces. */
	ret->runtime = view_eqs(parent, "docker") ? CGROUP_RUNTIME_DOCKER : in_pod ? CGROUP_RUNTIME_UNKNOWN :
		       view_eqs(parent, "default") || view_eqs(parent, "k8s.io") ? CGROUP_RUNTIME_CONTAINERD : CGROUP_RUNTIME_NONE;
	if (ret->runtime != CGROUP_RUNTIME_NONE)
		ret->container_id = part;
	return ret->runtime != CGROUP_RUNTIME_NONE;
}

/* Units that have processes. Names are systemd's own spelling of them: "foo\\x2dbar@1.service". */
static bool is_unit(struct view part)
{
	static const char *const kinds[] = { ".service", ".scope", ".mount", ".socket", ".swap" };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (part.len > strlen(kinds[i]) && view_ends(part, view_of(kinds[i])))
			return true;
	return false;
}

/* The service manager of a user, user@UID.service. */
static bool is_user_manager(struct view unit)
{
	return view_starts(unit, VIEW("user@")) && view_ends(unit, VIEW(".service"));
}

void cgroup_parse_path(struct view path, struct cgroup_info *ret)
{
	*ret = (struct cgroup_info){ .container_id = VIEW(""), .candidate = VIEW(""), .unit = VIEW("") };
	/* Seen from another cgroup namespace a path begins with "/.." parts; what follows them is real. */
	while (view_starts(path, VIEW("/..")) && (path.len == 3 || path.ptr[3] == '/')) {
		path.ptr += 3;
		path.len -= 3;
	}
	/* For a process that outlived its group. */
	if (view_ends(path, VIEW(" (deleted)")))
		path.len -= 10;
	ret->path = path.len ? path : VIEW("/");
	struct view parent = VIEW("");
	bool in_pod = false, in_container = false; /* of the innermost pod so far */
	bool in_user_manager = false;              /* its units are the user's, not the host's */
	for (size_t i = 0; i < path.len;) {
		const char *slash = memchr(path.ptr + i, '/', path.len - i);
		size_t n = slash ? (size_t)(slash - (path.ptr + i)) : path.len - i;
		struct view part = view_make(path.ptr + i, n);
		i += n + 1;
		if (!part.len)
			continue;
		/* The innermost container counts (there are containers in containers). */
		bool container = container_component(part, parent, in_pod, ret);
		if (take_pod_uid(part, ret))
			in_container = ret->nested = false;
		in_pod = ret->pod_uid[0] != 0;
		if (container) {
			ret->nested = in_container;
			in_container = in_pod;
			in_user_manager = false;
			parent = part;
			continue;
		}
		if (is_unit(part) && !in_user_manager) {
			ret->unit = part;
			in_user_manager = is_user_manager(part);
		}
		if (is_id(part))
			ret->candidate = part;
		parent = part;
	}
	if (ret->container_id.len)
		ret->candidate = VIEW("");
}

/* The controllers' field and path of a line "ID:CONTROLLERS:PATH". */
static bool split_line(struct view line, struct view *controllers, struct view *path)
{
	const char *a = memchr(line.ptr, ':', line.len);
	const char *b = a ? memchr(a + 1, ':', line.len - (size_t)(a + 1 - line.ptr)) : NULL;
	if (!b)
		return false;
	*controllers = view_make(a + 1, (size_t)(b - a - 1));
	*path = view_make(b + 1, line.len - (size_t)(b + 1 - line.ptr));
	return true;
}

static bool lists(struct view controllers, const char *name)
{
	for (size_t i = 0; i <= controllers.len;) {
		size_t n = 0;
		while (i + n < controllers.len && controllers.ptr[i + n] != ',')
			n++;
		if (view_eqs(view_make(controllers.ptr + i, n), name))
			return true;
		i += n + 1;
	}
	return false;
}

bool cgroup_parse(struct view text, struct cgroup_info *ret)
{
	struct view best = { NULL, 0 };
	int best_rank = 0;
	for (size_t i = 0; i < text.len;) {
		const char *nl = memchr(text.ptr + i, '\n', text.len - i);
		size_t n = nl ? (size_t)(nl - (text.ptr + i)) : text.len - i;
		struct view controllers, path;
		bool ok = split_line(view_make(text.ptr + i, n), &controllers, &path);
		i += n + 1;
		if (!ok)
			continue;
		/* On a hybrid the unified line is "0::/" for what the runtime did not move there. */
		int rank = lists(controllers, "memory") ? 4 : lists(controllers, "name=systemd") ? 3 :
			   !controllers.len && path.len > 1 ? 2 : 1;
		if (rank > best_rank) {
			best_rank = rank;
			best = path;
		}
	}
	if (!best_rank)
		return false;
	cgroup_parse_path(best, ret);
	return true;
}
