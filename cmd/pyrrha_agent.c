/* SPDX-License-Identifier: Apache-2.0 */
/* The agent: samples the host and serves what it saw. main() only wires: flags, the agent, its HTTP server, signals. */
#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/agent.h"
#include "agent/kernel/caps.h"
#include "agent/serve/serve.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/opts.h"
#include "base/units.h"
#include "cmd/parca_agent_flags.h"
#include "cmd/program.h"
#include "config.h"
#include "model/labels.h"
#include "selfprof/heap.h"

#define STOP_SECONDS 9

static struct flags {
	const char *web_config_file, *log_level, *log_format, *node, *cache_dir, *debuginfod_urls, *config_file, *kubeconfig, *off_threshold, *runtimes;
	struct opt_list listen, external, external_lists, env_vars, allowed_hosts, filter_cgroups, filter_pids, filter_comms;
	double hz, max_cost;
	int64_t history_ms, auto_reload_ms, off_threshold_ms, names_wait_ms;
	uint64_t history_bytes, unwind_bytes;
	unsigned runtime_set;
	bool self_heap, expand_env, auto_reload, kernel_stacks, off_cpu, ignore_kernel_bugs, allow_insecure, enable_lifecycle, enable_debuginfod, show_command_lines, kubernetes, check, version, help;
} flags;

static struct opt table[] = {
	{ "Configuration", OPT_GROUP },
	{ "config.file", OPT_STRING, &flags.config_file, "<file>",
	  "Relabelling rules, YAML; SIGHUP reads it again. None if empty.", "config-path" },
	{ "config.expand-env", OPT_BOOL, &flags.expand_env, NULL,
	  "Replace ${NAME} in the values of the configuration by the environment variable, which must be set; $${NAME} is the text itself. $1 and ${1} of relabelling are not replaced." },
	{ "config.auto-reload", OPT_BOOL, &flags.auto_reload, NULL, "Reload when what the configuration file holds has changed." },
	{ "config.auto-reload-interval", OPT_DURATION, &flags.auto_reload_ms, "<duration>",
	  "How often to look, besides when something happens in the file's folder." },

	{ "HTTP", OPT_GROUP },
	{ "web.listen-address", OPT_LIST, &flags.listen, "<host:port>",
	  "Where to serve HTTP, 127.0.0.1:7071 if not given; may be repeated.", "http-address" },
	{ "web.allow-insecure", OPT_BOOL, &flags.allow_insecure, NULL,
	  "Listen on an address that others can reach without a login." },
	{ "web.config.file", OPT_STRING, &flags.web_config_file, "<file>",
	  "TLS, who may log in and what for, headers: as the server's flag." },
	{ "web.enable-lifecycle", OPT_BOOL, &flags.enable_lifecycle, NULL, "Serve POST /-/reload. SIGHUP does the same without this." },
	{ "web.enable-debuginfod", OPT_BOOL, &flags.enable_debuginfod, NULL,
	  "Serve programs that are sampled, and their debug files, as a debuginfod server: /buildid/ID/{executable,debuginfo}." },
	{ "web.allowed-host", OPT_LIST, &flags.allowed_hosts, "<name>",
	  "A name that a request's Host may have where the agent listens on loopback, besides localhost and IP addresses; may be "
	  "repeated. Others are refused: a web page could have let its own name point here." },

	{ "Profiles", OPT_GROUP },
	{ "frequency", OPT_FLOAT, &flags.hz, "<hz>", "Samples per second and CPU.", "profiling-cpu-sampling-frequency" },
	{ "max-cost", OPT_FLOAT, &flags.max_cost, "<share>", "Lower the frequency rather than take more of the host." },
	{ "off-cpu", OPT_BOOL, &flags.off_cpu, NULL, "Profile how long threads wait off the CPU, and where; see /debug/pprof/offcpu." },
	{ "off-cpu-threshold", OPT_STRING, &flags.off_threshold, "<duration>", "Count shorter waits, but do not profile them." },
	{ "history", OPT_DURATION, &flags.history_ms, "<duration>", "How far back finished windows are kept." },
	{ "history.max-bytes", OPT_SIZE, &flags.history_bytes, "<size>", "Memory for them." },

	{ "What is sampled", OPT_GROUP },
	{ "filter-cgroup", OPT_LIST, &flags.filter_cgroups, "<path>",
	  "Sample only this control group and those below it; with a leading !, all but those. May be repeated." },
	{ "filter-pid", OPT_LIST, &flags.filter_pids, "<pid>", "The same by process." },
	{ "filter-comm", OPT_LIST, &flags.filter_comms, "<name>", "The same by the process's name, as the label comm has it." },

	{ "Stacks", OPT_GROUP },
	{ "kernel-stacks", OPT_BOOL, &flags.kernel_stacks, NULL, "Take the kernel's part of stacks, too." },
	{ "runtimes", OPT_STRING, &flags.runtimes, "<names>",
	  "Language runtimes whose own frames stand in stacks, with names: all, none, a list like python, or one of those that are not wanted, "
	  "like -python." },
	{ "unwind-memory", OPT_SIZE, &flags.unwind_bytes, "<size>",
	  "Memory for unwind tables of what is sampled; a twelfth of what this process may have, but at most 32MiB, if not given." },

	{ "Names of functions", OPT_GROUP },
	{ "debuginfod-urls", OPT_STRING, &flags.debuginfod_urls, "<urls>",
	  "debuginfod servers, with blanks between them, to ask for debug information of programs that are sampled; none if empty." },
	{ "cache-dir", OPT_STRING, &flags.cache_dir, "<dir>",
	  "Directory for the lines and inlined calls read from debug information, 1 GB at most; if empty, they are read again at each start. "
	  "Unless set, $CACHE_DIRECTORY or /var/cache/pyrrha-agent, if that can be had." },
	{ "names-wait", OPT_DURATION, &flags.names_wait_ms, "<duration>",
	  "How long an answer waits for names of new programs; slower ones are in the next answer." },

	{ "Labels", OPT_GROUP },
	{ "node", OPT_STRING, &flags.node, "<name>", "The label `node`; the host's name if empty." },
	{ "kubernetes", OPT_BOOL, &flags.kubernetes, NULL,
	  "Ask the API server for this node's pods, where the agent is a pod or has a --kubeconfig; --node is the node's name there." },
	{ "kubeconfig", OPT_STRING, &flags.kubeconfig, "<file>", "How to reach the API server from outside of a pod." },
	{ "external-label", OPT_LIST, &flags.external, "<name=value>", "A label for every sample; may be repeated." },
	{ "metadata-external-labels", OPT_LIST, &flags.external_lists, "<name=value;...>", "The same as parca-agent writes it: several, with semicolons." },
	{ "include-env-var", OPT_LIST, &flags.env_vars, "<name>",
	  "An environment variable of processes that relabelling rules may see, as __meta_env_var_NAME; may be repeated. No others are "
	  "read." },
	{ "show-command-lines", OPT_BOOL, &flags.show_command_lines, NULL,
	  "Show rules the unredacted command lines and those variables. Otherwise <redacted> replaces the values of anything named like a password, token, secret or key, and user info in URLs." },

	{ "The program itself", OPT_GROUP },
	{ "ignore-kernel-bugs", OPT_BOOL, &flags.ignore_kernel_bugs, NULL,
	  "Run on a kernel version that may deadlock when sampled.", "ignore-unsafe-kernel-version" },
	{ "self-profile.heap", OPT_BOOL, &flags.self_heap, NULL,
	  "Sample what the agent itself allocates, for /debug/pprof/self/heap. --no-self-profile.heap costs nothing at all." },
	{ "log.level", OPT_STRING, &flags.log_level, "<level>", "debug, info, warn or error.", "log-level" },
	{ "log.format", OPT_STRING, &flags.log_format, "<format>", "logfmt or json.", "log-format" },
	{ "check", OPT_BOOL, &flags.check, NULL, "Say what this kernel and these rights allow, and end." },
	{ "version", OPT_BOOL, &flags.version, NULL, "Print the version and end." },
	{ "help", OPT_BOOL, &flags.help, NULL, "Print this and end." },

#define EXPLAINED(name, arg, advice) { name, OPT_EXPLAINED, NULL, arg, advice },
	PARCA_AGENT_FLAGS(EXPLAINED)
#undef EXPLAINED
};

/* A folder that only its owner may write to, created if needed. */
static bool is_own_folder(const char *path)
{
	struct stat st;

	if (mkdir(path, 0755) && errno != EEXIST)
		return false;
	return stat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && (st.st_mode & 0222) == 0200;
}

/* The cache directory unless a flag sets it: systemd's, or its usual place. None if that is not available. */
static const char *default_cache_dir(void)
{
	const char *said = getenv("CACHE_DIRECTORY"), *usual = "/var/cache/pyrrha-agent";
	const char *dir = said && *said && !strchr(said, ':') ? said : usual;

	return is_own_folder(dir) ? dir : "";
}

static void set_defaults(void)
{
	static char off_threshold_default[DURATION_LEN];
	struct agent_options o;

	agent_options_init(&o);
	flags.log_level = "info";
	flags.log_format = "logfmt";
	flags.node = "";
	flags.cache_dir = NULL;
	flags.debuginfod_urls = "";
	flags.config_file = "";
	flags.kubeconfig = "";
	flags.kubernetes = true;
	flags.runtimes = "all";
	flags.hz = o.hz;
	flags.max_cost = o.max_cost;
	flags.auto_reload_ms = 30000;
	flags.web_config_file = "";
	flags.history_ms = o.history_ms;
	flags.history_bytes = o.history_bytes;
	flags.unwind_bytes = agent_unwind_bytes();
	flags.kernel_stacks = o.kernel_stacks;
	flags.self_heap = true;
	flags.off_threshold = units_format_duration(o.off_threshold_ns / 1000000, off_threshold_default);
	flags.names_wait_ms = o.names_patience_ms;
}

static int check_flags(struct err *e)
{
	if (!(flags.hz >= 1 && flags.hz <= 1000))
		return err_set(e, ERR_BAD_DATA, "--frequency: must be from 1 to 1000");
	if (!(flags.max_cost > 0 && flags.max_cost <= 1))
		return err_set(e, ERR_BAD_DATA, "--max-cost: must be above 0 and at most 1");
	if (flags.unwind_bytes < AGENT_UNWIND_BYTES_MIN || flags.unwind_bytes > AGENT_UNWIND_BYTES_MAX)
		return err_set(e, ERR_BAD_DATA, "--unwind-memory: must be from 2MiB to 256MiB");
	if (flags.auto_reload_ms < 1000)
		return err_set(e, ERR_BAD_DATA, "--config.auto-reload-interval: must be at least 1s");
	if (flags.history_ms < 20000 || flags.history_ms > 3600000)
		return err_set(e, ERR_BAD_DATA, "--history: must be from 20s to 1h");
	if (!units_parse_duration(view_of(flags.off_threshold), &flags.off_threshold_ms))
		return err_set(e, ERR_BAD_DATA, "--off-cpu-threshold: \"%s\" is not a duration such as 1ms. (parca-agent's is a probability: "
			       "use --off-cpu here; its cost is limited by --max-cost)", flags.off_threshold);
	if (flags.off_threshold_ms < 0 || flags.off_threshold_ms > 3600000)
		return err_set(e, ERR_BAD_DATA, "--off-cpu-threshold: must be from 0 to 1h");
	if (agent_parse_runtimes(flags.runtimes, &flags.runtime_set, e))
		return err_wrap(e, "--runtimes");
	if (flags.names_wait_ms < 0 || flags.names_wait_ms > 600000)
		return err_set(e, ERR_BAD_DATA, "--names-wait: must be from 0 to 10m");
	for (size_t i = 0; i < flags.env_vars.n; i++)
		if (!flags.env_vars.v[i][0] || strpbrk(flags.env_vars.v[i], "=,"))
			return err_set(e, ERR_BAD_DATA, "--include-env-var: \"%s\" is not the name of one variable; for several repeat the flag",
				       flags.env_vars.v[i]);
	return program_set_log(flags.log_level, flags.log_format, e);
}

static int external_label(struct labels_builder *b, struct view s, struct err *e)
{
	const char *eq = s.len ? memchr(s.ptr, '=', s.len) : NULL;
	struct view name = eq ? view_make(s.ptr, (size_t)(eq - s.ptr)) : (struct view){ 0 };

	if (!eq || !label_name_plain(name) || eq + 1 == s.ptr + s.len)
		return err_set(e, ERR_BAD_DATA, "--external-label: \"%.*s\" is not name=value", VIEW_ARG(s));
	if (view_starts(name, VIEW("__")))
		return err_set(e, ERR_BAD_DATA, "--external-label: \"%.*s\": names that begin with __ are internal", VIEW_ARG(s));
	labels_builder_set(b, name, view_make(eq + 1, s.len - name.len - 1));
	return 0;
}

/* name=value of each flag, into a label set that borrows argv. */
static int external_labels(struct labels_builder *b, struct err *e)
{
	int rc = 0;

	labels_builder_init(b, (struct labels){ 0 });
	for (size_t i = 0; i < flags.external.n && !rc; i++)
		rc = external_label(b, view_of(flags.external.v[i]), e);
	for (size_t i = 0; i < flags.external_lists.n && !rc; i++)
		for (const char *p = flags.external_lists.v[i]; *p && !rc;) {
			struct view one = view_make(p, strcspn(p, ";"));
			rc = one.len ? external_label(b, one, e) : 0;
			p += one.len + (p[one.len] == ';');
		}
	return rc;
}

/* A line for each flag of parca-agent that has nothing to set here. */
static void explain_flag(const char *name, const char *advice)
{
	char flag[80];

	snprintf(flag, sizeof flag, "--%s", name);
	LOG_WARN("msg", "this flag of parca-agent does nothing here", "flag", flag, "instead", advice);
}

/* In "a=b,c=d" the comma is part of the value of a, and was probably meant to separate labels: returns the name c. In "a=k1=v1,k2=v2" the value
 * is a list of its own: the comma is meant. Empty: no label has such a value. */
static struct view agent_label_after_comma(const char *list)
{
	for (struct view rest = view_of(list); rest.len;) {
		struct view value = view_cut(&rest, ';');
		view_cut(&value, '=');
		struct view part = view_cut(&value, ',');
		if (memchr(part.ptr, '=', part.len))
			continue;
		while (value.len) {
			part = view_cut(&value, ',');
			const char *equals = memchr(part.ptr, '=', part.len);
			struct view name = view_make(part.ptr, equals ? (size_t)(equals - part.ptr) : 0);
			if (label_name_plain(name))
				return name;
		}
	}
	return VIEW("");
}

static void explain_flags(void)
{
	opts_explain(table, ARRAY_LEN(table), explain_flag);
	for (size_t i = 0; i < flags.external_lists.n; i++) {
		/* Values are not printed: some are secrets. */
		struct view name = agent_label_after_comma(flags.external_lists.v[i]);
		char *text AUTOFREE = xstrndup(name.ptr, name.len);
		if (name.len)
			LOG_WARN("msg", "a comma does not separate labels, it is part of a value", "flag", "--metadata-external-labels",
				 "after_comma", text, "instead", "separate labels by semicolons: a=b;c=d");
	}
}

static int print_check(void)
{
	/* Line by line: loading the programs may take long, and whoever waits sees how far it came. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	int r = agent_check(stdout, flags.unwind_bytes ? flags.unwind_bytes : agent_unwind_bytes());

	puts(r ? "the agent cannot run here" : "the agent can run here");
	return r ? 1 : 0;
}

static void print_help(void)
{
	struct buf b = { 0 };
	opts_help(table, ARRAY_LEN(table),
		  "usage: pyrrha-agent [flags]\nProfiles every process of this host and serves it as pprof.\n", &b);
	fputs(b.ptr, stdout);
	buf_free(&b);
}

static void reload(void *arg)
{
	struct err e;
	if (agent_reload(arg, &e))
		LOG_ERROR("msg", "the configuration was not reloaded, the old one stays", "err", e.msg);
	else
		LOG_INFO("msg", "configuration reloaded", "file", flags.config_file);
}

static int run(const struct labels_builder *external, struct err *e)
{
	struct agent_options o;
	struct agent *a;
	struct agent_server *s;
	sigset_t signals;
	int r;

	program_block_signals(&signals);
	r = caps_drop(e);
	if (r)
		return r;
	if (flags.self_heap && selfprof_heap_start(heap_hooks(), e))
		LOG_WARN("msg", "no heap profiles of the agent", "err", e->msg);
	agent_options_init(&o);
	o.hz = flags.hz;
	o.max_cost = flags.max_cost;
	o.unwind_bytes = flags.unwind_bytes;
	o.history_ms = flags.history_ms;
	o.history_bytes = flags.history_bytes;
	o.kernel_stacks = flags.kernel_stacks;
	o.runtimes = flags.runtime_set;
	o.off_cpu = flags.off_cpu;
	o.off_threshold_ns = flags.off_threshold_ms * 1000000;
	o.names_patience_ms = flags.names_wait_ms;
	o.filters = (struct filter_options){ { flags.filter_cgroups.v, flags.filter_cgroups.n },
					     { flags.filter_pids.v, flags.filter_pids.n },
					     { flags.filter_comms.v, flags.filter_comms.n } };
	o.ignore_kernel_bugs = flags.ignore_kernel_bugs;
	o.node = flags.node;
	o.cache_dir = flags.cache_dir ? flags.cache_dir : default_cache_dir();
	o.debuginfod_urls = flags.debuginfod_urls;
	o.config_file = flags.config_file;
	o.expand_env = flags.expand_env;
	o.auto_reload_ms = flags.auto_reload ? flags.auto_reload_ms : 0;
	o.kubeconfig = flags.kubeconfig;
	o.kubernetes = flags.kubernetes;
	o.external = (struct labels){ external->l.v, external->l.n };
	o.env_vars = flags.env_vars.v;
	o.n_env_vars = flags.env_vars.n;
	o.show_command_lines = flags.show_command_lines;
	r = agent_start(&a, &o, e);
	if (r)
		return r;
	metrics_register_process("pyrrha_agent", PACKAGE_VERSION);
	agent_register_metrics(a);
	const char *const usual[] = { "127.0.0.1:7071" };
	bool given = flags.listen.n > 0;
	r = agent_serve(&s, &(struct agent_server_options){ given ? flags.listen.v : usual, given ? flags.listen.n : 1, flags.allow_insecure, flags.web_config_file, flags.enable_lifecycle, a,
							  flags.enable_debuginfod, flags.allowed_hosts.v, flags.allowed_hosts.n }, e);
	if (!r) {
		for (size_t i = 0; agent_server_address(s, i); i++)
			LOG_INFO("msg", "listening", "address", agent_server_address(s, i));
		program_wait(&signals, reload, a);
		program_end_within(STOP_SECONDS);
		agent_server_stop(s);
	}
	metrics_free();
	agent_stop(a);
	return r;
}

int main(int argc, char **argv)
{
	struct labels_builder external = { 0 };
	struct err e = { 0 };
	int rest, code = 0;

	/* Most ELF files are read with less than 1 MiB of memory, which malloc keeps for the next file. If it were returned to the system each time, page
	 * faults would take a third of the time for reading symbols. Larger blocks are returned when they are freed. */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	mallopt(M_TRIM_THRESHOLD, 2 << 20);
	mallopt(M_ARENA_MAX, 2);
	set_defaults();
	if (opts_parse(table, ARRAY_LEN(table), argc, argv, &rest, &e) ||
	    (rest && err_set(&e, ERR_BAD_DATA, "\"%s\": only flags are understood", argv[1])) || check_flags(&e) ||
	    external_labels(&external, &e)) {
		fprintf(stderr, "pyrrha-agent: %s\n", e.msg);
		code = 2;
	} else if (flags.help) {
		print_help();
	} else if (flags.version) {
		puts("pyrrha-agent " PACKAGE_VERSION);
	} else {
		explain_flags();
		if (flags.check) {
			code = print_check();
		} else if (run(&external, &e)) {
			LOG_ERROR("msg", "cannot start", "err", e.msg);
			code = 1;
		}
	}
	labels_builder_free(&external);
	opts_free(table, ARRAY_LEN(table));
	return code;
}
