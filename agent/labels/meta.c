/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/labels/meta.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "agent/image/exe_meta.h"
#include "agent/runtime/proc_reader.h"
#include "base/buf.h"
#include "base/redact.h"
#include "base/utf8.h"
#include "config.h"

#define MAPS_BYTES_MAX (256 << 10)

struct meta {
	struct utsname uts;
	struct exe_metas *exes;
	bool cmdline, ppid, exe, jit, environ; /* some rule looks at it */
	bool show_secrets;
	const char *const *env_vars;
	size_t n_env_vars;
	char **env_labels;           /* of env_vars[i] */
	const char **names;          /* meta_process_names and env_labels */
};

#define ENV_LABEL "__meta_env_var_"

const char *const meta_process_names[] = {
	"comm", "exe", "exe_build_id", "__meta_process_pid", "__meta_process_ppid", "__meta_process_cmdline",
	"__meta_process_comm", "__meta_process_executable_name", "__meta_process_executable_path",
	"__meta_process_executable_build_id", "__meta_process_executable_compiler", "__meta_process_executable_static",
	"__meta_process_executable_stripped", "__meta_process_executable_file_id", "__meta_process_language",
	"__meta_process_language_version", "__meta_process_jit", "__meta_process_kernel_thread", NULL
};

static bool is_label_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static char *env_label(const char *name)
{
	char *out = xasprintf(ENV_LABEL "%s", name);
	for (char *c = out; *c; c++)
		if (!is_label_char(*c))
			*c = '_';
	return out;
}

struct meta *meta_new(const char *const *env_vars, size_t n_env_vars, bool show_secrets)
{
	struct meta *m = NEW(struct meta);
	m->show_secrets = show_secrets;
	size_t n = ARRAY_LEN(meta_process_names) - 1;
	uname(&m->uts);
	m->exes = exe_metas_new();
	m->env_vars = env_vars;
	m->n_env_vars = n_env_vars;
	m->env_labels = xcalloc(n_env_vars + 1, sizeof *m->env_labels);
	m->names = xcalloc(n + n_env_vars + 1, sizeof *m->names);
	memcpy(m->names, meta_process_names, n * sizeof *m->names);
	for (size_t i = 0; i < n_env_vars; i++)
		m->names[n + i] = m->env_labels[i] = env_label(env_vars[i]);
	return m;
}

void meta_free(struct meta *m)
{
	if (!m)
		return;
	exe_metas_free(m->exes);
	for (size_t i = 0; i < m->n_env_vars; i++)
		free(m->env_labels[i]);
	free(m->env_labels);
	free(m->names);
	free(m);
}

const char *const *meta_names(const struct meta *m)
{
	return m->names;
}

void meta_use(struct meta *m, const struct agent_config *c)
{
	m->cmdline = agent_config_uses(c, VIEW("__meta_process_cmdline"));
	m->ppid = agent_config_uses(c, VIEW("__meta_process_ppid"));
	m->jit = agent_config_uses(c, VIEW("__meta_process_jit"));
	m->exe = m->jit || agent_config_uses(c, VIEW("__meta_process_executable_compiler")) ||
		 agent_config_uses(c, VIEW("__meta_process_language")) ||
		 agent_config_uses(c, VIEW("__meta_process_language_version"));
	m->environ = false;
	for (size_t i = 0; i < m->n_env_vars; i++)
		m->environ |= agent_config_uses(c, view_of(m->env_labels[i]));
}

struct view meta_label_name(struct arena *a, const char *prefix, struct view key)
{
	size_t n = strlen(prefix);
	char *out = arena_alloc(a, n + key.len + 1);
	if (!out)
		return view_make(NULL, 0);
	memcpy(out, prefix, n);
	for (size_t i = 0; i < key.len; i++) {
		out[n + i] = is_label_char(key.ptr[i]) ? key.ptr[i] : '_';
	}
	out[n + key.len] = 0;
	return view_make(out, n + key.len);
}

struct view meta_text(struct arena *a, struct view v)
{
	if (utf8_valid(v))
		return v;
	char *out = arena_alloc(a, 3 * v.len + 1);
	size_t n = 0;
	if (!out)
		return VIEW("");
	for (size_t i = 0; i < v.len;) {
		uint32_t cp;
		unsigned len = utf8_decode(v.ptr + i, v.len - i, &cp);
		n += utf8_encode(len ? cp : 0xfffd, out + n);
		i += len ? len : 1;
	}
	out[n] = 0;
	return view_make(out, n);
}

void meta_add_host(const struct meta *m, struct labels_builder *b, struct view node)
{
	labels_builder_set(b, VIEW("__meta_system_kernel_release"), view_of(m->uts.release));
	labels_builder_set(b, VIEW("__meta_system_kernel_machine"), view_of(m->uts.machine));
	labels_builder_set(b, VIEW("__meta_system_node"), node);
	labels_builder_set(b, VIEW("__meta_agent_revision"), VIEW(PACKAGE_VERSION));
}

/* --- containers --- */

static void add_kubernetes(struct labels_builder *b, const struct cgroup_info *info, const struct container_names *n,
			   struct view node)
{
	labels_builder_set(b, VIEW("__meta_kubernetes_namespace"), n->namespace_);
	labels_builder_set(b, VIEW("__meta_kubernetes_pod_name"), n->pod);
	labels_builder_set(b, VIEW("__meta_kubernetes_pod_uid"), view_of(info->pod_uid));
	labels_builder_set(b, VIEW("__meta_kubernetes_pod_container_name"), n->container);
	labels_builder_set(b, VIEW("__meta_kubernetes_pod_container_id"), info->container_id);
	labels_builder_set(b, VIEW("__meta_kubernetes_pod_container_image"), n->image);
	labels_builder_set(b, VIEW("__meta_kubernetes_pod_node_name"), node);
	labels_builder_set(b, VIEW("__meta_kubernetes_node_name"), node);
}

static void add_docker(struct labels_builder *b, struct arena *a, const struct cgroup_info *info,
		       const struct container_names *n)
{
	labels_builder_set(b, VIEW("__meta_docker_container_id"), info->container_id);
	labels_builder_set(b, VIEW("__meta_docker_container_name"), n->container);
	labels_builder_set(b, VIEW("__meta_docker_container_image"), n->image);
	for (size_t i = 0; i < n->labels.n; i++) {
		struct view name = meta_label_name(a, "__meta_docker_container_label_", n->labels.v[i].name);
		struct view present = meta_label_name(a, "__meta_docker_container_labelpresent_", n->labels.v[i].name);
		if (!name.ptr || !present.ptr)
			return;
		labels_builder_set(b, name, n->labels.v[i].value);
		labels_builder_set(b, present, VIEW("true"));
	}
}

void meta_add_group(struct labels_builder *b, struct arena *a, const struct cgroup_info *info,
		    const struct container_names *n, struct view node)
{
	labels_builder_set(b, VIEW("__meta_process_cgroup"), info->path);
	if (info->pod_uid[0] || n->pod.len)
		add_kubernetes(b, info, n, node);
	switch (info->runtime) {
	case CGROUP_RUNTIME_DOCKER:
		add_docker(b, a, info, n);
		break;
	case CGROUP_RUNTIME_CONTAINERD:
		labels_builder_set(b, VIEW("__meta_containerd_container_id"), info->container_id);
		labels_builder_set(b, VIEW("__meta_containerd_container_name"), n->container);
		labels_builder_set(b, VIEW("__meta_containerd_pod_name"), n->pod);
		labels_builder_set(b, VIEW("__meta_containerd_pod_namespace"), n->namespace_);
		break;
	case CGROUP_RUNTIME_BUILDKIT:
		labels_builder_set(b, VIEW("__meta_docker_build_kit_container_id"), info->container_id);
		break;
	case CGROUP_RUNTIME_LXC:
		labels_builder_set(b, VIEW("__meta_lxc_container_id"), info->container_id);
		break;
	default:
		break;
	}
}

/* --- processes --- */

/* 0: it cannot be read, or the process does not answer. */
static size_t read_proc(uint32_t pid, const char *file, char *out, size_t max)
{
	struct buf text = { .max = max };

	(void)proc_reader_file(pid, file, max, &text);
	size_t n = text.len;
	memcpy(out, buf_view(&text).ptr, n);
	if (text.ptr)
		explicit_bzero(text.ptr, n);
	buf_free(&text);
	return n;
}

/* A label's value in the arena, at most `max` bytes; "…" says that there was more. */
static void set_text(struct labels_builder *b, struct arena *a, struct view name, struct buf *text, size_t max, bool cut)
{
	cut |= text->len > max;
	text->len = MIN(text->len, max);
	if (cut)
		buf_puts(text, "\u2026");
	struct view v = arena_view(a, buf_view(text));
	labels_builder_set(b, name, v.ptr ? meta_text(a, v) : VIEW(""));
}

static void add_cmdline(const struct meta *m, struct labels_builder *b, struct arena *a, uint32_t pid)
{
	char text[META_CMDLINE_MAX + 1];
	struct buf shown = { 0 };
	size_t n = read_proc(pid, "cmdline", text, sizeof text);
	bool cut = n > META_CMDLINE_MAX;
	n = MIN(n, (size_t)META_CMDLINE_MAX);
	while (n && !text[n - 1])
		n--;
	for (size_t i = 0; i < n && m->show_secrets; i++)
		if (!text[i])
			text[i] = ' ';
	if (m->show_secrets)
		buf_put(&shown, text, n);
	else
		redact_command(view_make(text, n), cut, ' ', &shown);
	set_text(b, a, VIEW("__meta_process_cmdline"), &shown, META_CMDLINE_MAX, cut);
	buf_free(&shown);
	explicit_bzero(text, sizeof text);
}

static void add_variable(const struct meta *m, size_t i, struct labels_builder *b, struct arena *a, struct view value)
{
	struct buf shown = { 0 };
	size_t n = MIN(value.len, (size_t)META_ENV_VALUE_MAX);
	if (m->show_secrets)
		buf_put(&shown, value.ptr, n);
	else if (value.len && redact_is_secret_name(view_of(m->env_vars[i])))
		buf_puts(&shown, "<redacted>");
	else
		redact_text(view_make(value.ptr, n), n < value.len, &shown);
	set_text(b, a, view_of(m->env_labels[i]), &shown, META_ENV_VALUE_MAX, false);
	buf_free(&shown);
}

/* The variables that were named, as the program was started with them; the first of a name counts, as for getenv. */
static void add_environ(const struct meta *m, struct labels_builder *b, struct arena *a, uint32_t pid)
{
	char *text = xmalloc(META_ENVIRON_MAX);
	size_t n = read_proc(pid, "environ", text, META_ENVIRON_MAX);
	for (size_t i = 0; i < n;) {
		const char *nul = memchr(text + i, 0, n - i);
		struct view line = view_make(text + i, nul ? (size_t)(nul - (text + i)) : n - i);
		i += line.len + 1;
		const char *eq = memchr(line.ptr, '=', line.len);
		if (!eq)
			continue;
		struct view name = view_make(line.ptr, (size_t)(eq - line.ptr));
		for (size_t k = 0; k < m->n_env_vars; k++)
			if (view_eqs(name, m->env_vars[k]) && !labels_builder_get(b, view_of(m->env_labels[k])).len)
				add_variable(m, k, b, a, view_make(eq + 1, line.len - name.len - 1));
	}
	explicit_bzero(text, n);     /* other variables may be secrets */
	free(text);
}

/* The parent's pid is the second field behind the name, which is in brackets and may hold anything. */
static void add_ppid(struct labels_builder *b, struct arena *a, uint32_t pid)
{
	char text[512];
	size_t n = read_proc(pid, "stat", text, sizeof text - 1);
	text[n] = 0;
	const char *end = strrchr(text, ')');
	if (!end || strlen(end) < 5)
		return;
	struct view ppid = arena_view(a, view_make(end + 4, strcspn(end + 4, " ")));
	labels_builder_set(b, VIEW("__meta_process_ppid"), ppid);
}

/* Whether it may execute memory that is no file's; the beginning of a long list decides. */
static bool maps_jit(uint32_t pid)
{
	char *text = xmalloc(MAPS_BYTES_MAX + 1);
	size_t n = read_proc(pid, "maps", text, MAPS_BYTES_MAX);
	bool found = false;
	for (size_t i = 0; i < n && !found;) {
		const char *nl = memchr(text + i, '\n', n - i);
		struct view line = view_make(text + i, nl ? (size_t)(nl - (text + i)) : n - i);
		i += line.len + 1;
		const char *space = memchr(line.ptr, ' ', line.len);
		bool exec = space && line.ptr + line.len - space > 3 && space[3] == 'x';
		found = exec && (!memchr(line.ptr, '/', line.len) || view_contains(line, VIEW("/memfd:"))) &&
			(!memchr(line.ptr, '[', line.len) || view_contains(line, VIEW("[anon")));
	}
	free(text);
	return found;
}

static void add_exe(struct meta *m, struct labels_builder *b, struct arena *a, const struct process_info *p)
{
	char hex[2 * BUILD_ID_MAX + 1];
	struct image *im = p->exe, *file = p->exe_file ? p->exe_file : im;
	struct view path = meta_text(a, view_of(im->path ? im->path : ""));
	const char *slash = path.len ? memrchr(path.ptr, '/', path.len) : NULL;
	labels_builder_set(b, VIEW("__meta_process_executable_path"), path);
	labels_builder_set(b, VIEW("__meta_process_executable_name"), slash ? view_of(slash + 1) : path);
	labels_builder_set(b, VIEW("__meta_process_executable_build_id"), arena_view(a, view_of(image_build_id_hex(im, hex))));
	if (file->state == IMAGE_ELF) {
		labels_builder_set(b, VIEW("__meta_process_executable_static"), file->is_static ? VIEW("true") : VIEW("false"));
		labels_builder_set(b, VIEW("__meta_process_executable_stripped"), file->has_symtab ? VIEW("false") : VIEW("true"));
	}
	if (!m->exe)
		return;
	const struct exe_meta *x = exe_metas_get(m->exes, file);
	labels_builder_set(b, VIEW("__meta_process_executable_compiler"), arena_view(a, view_of(x->compiler)));
	labels_builder_set(b, VIEW("__meta_process_language"), arena_view(a, view_of(x->language)));
	labels_builder_set(b, VIEW("__meta_process_language_version"), arena_view(a, view_of(x->version)));
	if (m->jit)
		labels_builder_set(b, VIEW("__meta_process_jit"), x->jit || maps_jit(p->pid) ? VIEW("true") : VIEW("false"));
}

void meta_add_process(struct meta *m, struct labels_builder *b, struct arena *a, const struct process_info *p)
{
	const char *pid = arena_printf(a, "%u", p->pid);
	labels_builder_set(b, VIEW("__meta_process_pid"), view_of(pid));
	labels_builder_set(b, VIEW("__meta_process_comm"), labels_builder_get(b, VIEW("comm")));
	labels_builder_set(b, VIEW("__meta_process_kernel_thread"), p->kernel_thread ? VIEW("true") : VIEW("false"));
	if (p->kernel_thread)
		return;
	labels_builder_set(b, VIEW("__meta_process_runtime"), labels_builder_get(b, VIEW("runtime")));
	if (m->ppid)
		add_ppid(b, a, p->pid);
	if (m->cmdline)
		add_cmdline(m, b, a, p->pid);
	if (m->environ)
		add_environ(m, b, a, p->pid);
	if (p->exe)
		add_exe(m, b, a, p);
}
