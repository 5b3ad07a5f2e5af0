/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/labels/containers.h"

#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"

#define FILE_MAX_BYTES ((size_t)4 << 20)
#define LOG_LINKS_MAX 20000
#define LABELS_MAX 64
#define DOCKER_CONFIG "/var/lib/docker/containers/%s/config.v2.json"

/* One shape of file: where it is, and where in its JSON the names are ("a/b" = member b of object a). */
struct shape {
	enum cgroup_runtime runtime; /* CGROUP_RUNTIME_UNKNOWN: any */
	const char *path;            /* %s = id */
	const char *object;          /* the object the names are members of */
	const char *container, *pod, *namespace_, *image;
};

static const struct shape shapes[] = {
	{ CGROUP_RUNTIME_CONTAINERD, "/run/containerd/io.containerd.runtime.v2.task/k8s.io/%s/config.json", "annotations",
	  "io.kubernetes.cri.container-name", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.sandbox-namespace",
	  "io.kubernetes.cri.image-name" },
	{ CGROUP_RUNTIME_CONTAINERD, "/run/containerd/io.containerd.runtime.v2.task/default/%s/config.json", "annotations",
	  "nerdctl/name", NULL, NULL, NULL },
	{ CGROUP_RUNTIME_CRIO, "/run/containers/storage/overlay-containers/%s/userdata/config.json", "annotations",
	  "io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace",
	  "io.kubernetes.cri-o.ImageName" },
	{ CGROUP_RUNTIME_CRIO, "/var/lib/containers/storage/overlay-containers/%s/userdata/config.json", "annotations",
	  "io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace",
	  "io.kubernetes.cri-o.ImageName" },
	{ CGROUP_RUNTIME_DOCKER, DOCKER_CONFIG, "Config/Labels",
	  "io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace", NULL },
	{ CGROUP_RUNTIME_DOCKER, DOCKER_CONFIG, "", "Name", NULL, NULL, NULL },
};

static char *read_file(const char *path, size_t *ret_n)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	char *p = NULL;
	if (fd < 0)
		return NULL;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size <= FILE_MAX_BYTES) {
		p = xmalloc((size_t)st.st_size + 1);
		ssize_t n = read(fd, p, (size_t)st.st_size);
		if (n < 0) {
			free(p);
			p = NULL;
		} else {
			*ret_n = (size_t)n;
		}
	}
	close(fd);
	return p;
}

static const json_t *walk(const json_t *j, const char *path)
{
	while (*path && j) {
		char key[64];
		size_t n = strcspn(path, "/");
		snprintf(key, sizeof key, "%.*s", (int)n, path);
		j = json_object_get(j, key);
		path += n + (path[n] == '/');
	}
	return j;
}

static struct view text_of(struct arena *a, const json_t *string)
{
	const char *s = json_string_value(string);
	if (!s)
		return VIEW("");
	struct view v = view_of(s);
	if (view_starts(v, VIEW("/"))) { /* Docker puts a slash before its names */
		v.ptr++;
		v.len--;
	}
	if (v.len > 512)
		return VIEW("");
	v = arena_view(a, v);
	return v.ptr ? v : VIEW("");
}

static struct view member(struct arena *a, const json_t *object, const char *name)
{
	return name ? text_of(a, json_object_get(object, name)) : VIEW("");
}

/* Only Docker's file has these: the image as requested, and labels. */
static void read_docker(const json_t *j, struct arena *a, struct container_names *ret)
{
	json_t *labels = json_object_get(json_object_get(j, "Config"), "Labels"), *value;
	struct label *v = arena_alloc(a, LABELS_MAX * sizeof *v);
	const char *key;
	size_t n = 0;
	ret->image = member(a, json_object_get(j, "Config"), "Image");
	if (!v)
		return;
	json_object_foreach(labels, key, value) {
		struct view name = arena_view(a, view_make(key, strnlen(key, 256))), text = text_of(a, value);
		if (n < LABELS_MAX && name.ptr && text.len)
			v[n++] = (struct label){ name, text };
	}
	ret->labels = (struct labels){ v, n };
}

static bool try_shape(const char *root, const struct shape *s, struct view id, struct arena *a, struct container_names *ret)
{
	char path[512], id_z[80];
	snprintf(id_z, sizeof id_z, "%.*s", VIEW_ARG(id));
	int at = snprintf(path, sizeof path, "%s", root);
	snprintf(path + at, sizeof path - (size_t)at, s->path, id_z);
	size_t n = 0;
	AUTOFREE char *text = read_file(path, &n);
	if (!text)
		return false;
	json_t *j = json_loadb(text, n, 0, NULL);
	const json_t *o = j ? walk(j, s->object) : NULL;
	ret->container = member(a, o, s->container);
	ret->pod = member(a, o, s->pod);
	ret->namespace_ = member(a, o, s->namespace_);
	ret->image = member(a, o, s->image);
	/* containerd's files have no name for the container that holds a pod's namespaces. Docker's and CRI-O's files call it POD. */
	if (!ret->container.len && view_eqs(member(a, o, "io.kubernetes.cri.container-type"), "sandbox"))
		ret->container = VIEW(POD_SANDBOX);
	if (s->runtime == CGROUP_RUNTIME_DOCKER)
		read_docker(j, a, ret);
	json_decref(j);
	return ret->container.len > 0;
}

/* Podman's store keeps a list of its containers: [{"id": ID, "names": [NAME], "metadata": "{\"image-name\": ...}"}, ...]; those
 * that end with the next boot are in a list of their own. */
static bool try_podman(const char *root, struct view id, struct arena *a, struct container_names *ret)
{
	static const char *const lists[] = { "containers.json", "volatile-containers.json" };
	bool found = false;
	for (size_t i = 0; i < ARRAY_LEN(lists) && !found; i++) {
		char path[512];
		size_t n = 0, k;
		snprintf(path, sizeof path, "%s/var/lib/containers/storage/overlay-containers/%s", root, lists[i]);
		AUTOFREE char *text = read_file(path, &n);
		json_t *list = text ? json_loadb(text, n, 0, NULL) : NULL, *c;
		json_array_foreach(list, k, c) {
			const char *its = json_string_value(json_object_get(c, "id"));
			if (!its || !view_eqs(id, its))
				continue;
			const char *more = json_string_value(json_object_get(c, "metadata"));
			json_t *metadata = more ? json_loads(more, 0, NULL) : NULL;
			ret->container = text_of(a, json_array_get(json_object_get(c, "names"), 0));
			ret->image = member(a, metadata, "image-name");
			json_decref(metadata);
			found = ret->container.len > 0;
			break;
		}
		json_decref(list);
	}
	return found;
}

/* The kubelet links POD_NAMESPACE_CONTAINER-ID.log for each container of the node; no rights are needed to list them. */
static bool try_log_links(const char *root, struct view id, struct arena *a, struct container_names *ret)
{
	char path[512];
	snprintf(path, sizeof path, "%s/var/log/containers", root);
	DIR *d = opendir(path);
	bool found = false;
	if (!d)
		return false;
	struct dirent *e;
	for (int i = 0; !found && i < LOG_LINKS_MAX && (e = readdir(d)); i++) {
		struct view name = view_of(e->d_name);
		if (name.len < id.len + 5 || !view_ends(name, VIEW(".log")) ||
		    memcmp(name.ptr + name.len - 4 - id.len, id.ptr, id.len) != 0)
			continue;
		name.len -= 4 + id.len + 1;
		const char *one = memchr(name.ptr, '_', name.len);
		const char *two = one ? memchr(one + 1, '_', name.len - (size_t)(one + 1 - name.ptr)) : NULL;
		if (!two)
			continue;
		ret->pod = arena_view(a, view_make(name.ptr, (size_t)(one - name.ptr)));
		ret->namespace_ = arena_view(a, view_make(one + 1, (size_t)(two - one - 1)));
		ret->container = arena_view(a, view_make(two + 1, name.len - (size_t)(two + 1 - name.ptr)));
		found = ret->pod.ptr && ret->namespace_.ptr && ret->container.ptr;
	}
	closedir(d);
	return found;
}

void containers_lookup(const char *root, enum cgroup_runtime runtime, struct view id, struct arena *a,
		       struct container_names *ret)
{
	static const struct container_names none = { { "", 0 }, { "", 0 }, { "", 0 }, { "", 0 }, { NULL, 0 } };
	*ret = none;
	if (runtime == CGROUP_RUNTIME_LXC) {
		ret->container = arena_view(a, id);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++)
		if ((shapes[i].runtime == runtime || runtime == CGROUP_RUNTIME_UNKNOWN) && try_shape(root, &shapes[i], id, a, ret))
			return;
	*ret = none;
	if (runtime == CGROUP_RUNTIME_PODMAN ? !try_podman(root, id, a, ret) : !try_log_links(root, id, a, ret))
		*ret = none;
}

enum cgroup_runtime containers_confirm(const char *root, struct view id)
{
	for (size_t i = 0; i < ARRAY_LEN(shapes); i++) {
		char path[512], id_z[80];
		struct stat st;
		snprintf(id_z, sizeof id_z, "%.*s", VIEW_ARG(id));
		int at = snprintf(path, sizeof path, "%s", root);
		snprintf(path + at, sizeof path - (size_t)at, shapes[i].path, id_z);
		if (lstat(path, &st) == 0 && S_ISREG(st.st_mode))
			return shapes[i].runtime;
	}
	return CGROUP_RUNTIME_NONE;
}
