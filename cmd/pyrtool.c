/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool: for people and scripts. This file is the table of commands and what they share; each group of commands has
 * a file of its own. Output for people by default, --output=json for programs. */
#include <stdlib.h>
#include <string.h>

#include "base/typo.h"
#include "cmd/tool.h"
#include "config.h"

static const struct tool_command commands[] = {
	{ "top", "FILE...", "functions of pprof files (merged), most expensive first", tool_top },
	{ "diff", "BASE FILE", "functions of FILE against those of BASE", tool_diff },
	{ "folded", "FILE...", "stacks as lines \"root;caller;callee value\"", tool_folded },
	{ "merge", "FILE... -o OUT", "one pprof file out of several", tool_merge },
	{ "query instant", "URL EXPR", "asks a server at one moment", tool_query_instant },
	{ "query range", "URL EXPR", "asks a server over a range", tool_query_range },
	{ "tsdb verify", "DIR", "reads all of a storage directory and says what is wrong with it", tool_tsdb_verify },
	{ "tsdb stats", "DIR", "what a storage directory holds and what takes the space", tool_tsdb_stats },
	{ "tsdb notes", "DIR", "what scrapes and rules noted in a storage directory, to go on there after a restart", tool_tsdb_notes },
	{ "tsdb dump", "DIR", "profiles and values of a storage directory, a line each", tool_tsdb_dump },
	{ "tsdb export", "DIR -o OUT", "profiles of a storage directory as pprof files, or merged into one", tool_tsdb_export },
	{ "tsdb import", "DIR PATH...", "pprof files into a storage directory", tool_tsdb_import },
	{ "bucket ls", "", "servers and days in object storage", tool_bucket_ls },
	{ "bucket stats", "", "what a server's days in object storage consist of, and what takes the space", tool_bucket_stats },
	{ "bucket verify", "", "whether all that a server has in object storage is there and right", tool_bucket_verify },
	{ "bucket get", "DAY... DIR", "days from object storage into a storage directory of their own", tool_bucket_get },
	{ "bucket adopt", "DIR", "makes an empty directory the one of a server that is dead, with its days", tool_bucket_adopt },
	{ "bucket gc", "", "objects that nothing names any more: lists or removes them", tool_bucket_gc },
	{ "check config", "FILE...", "reads configuration files as the server would", tool_check_config },
	{ "check web-config", "FILE...", "reads web configurations (TLS, users, tokens, headers) and what they name", tool_check_web_config },
	{ "check service-discovery", "FILE JOB", "what a job finds: its targets before and after relabelling, as JSON", tool_check_discovery },
	{ "check rules", "[FILE...]", "reads rule files, or standard input, as the server would; flags and exit codes as promtool's", tool_check_rules },
	{ "make login", "DIR", "a first login: DIR/web.yml for --web.config.file, and DIR/token for scrapes; what is there stays", tool_make_login },
	{ "rules backfill", "FILE...", "has a server evaluate recording rules over its past", tool_backfill_rules },
	{ "rules try", "FILE...", "tells when alerts would have been pending and firing, over the past of a server", tool_try_rules },
	{ "test rules", "FILE...", "runs unit tests of rules, promtool's files", tool_test_rules },
	{ "test language", "FILE...", "runs tests of the language, Prometheus's format included", tool_test_language },
};

const struct tool_command *tool_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	abort();
}

int tool_fail(const char *name, const struct err *e)
{
	fprintf(stderr, "pyrtool %s: %s\n", name, e->msg);
	return TOOL_FAILED;
}

bool tool_json(const char *name, const char *output, bool *ret_json)
{
	*ret_json = strcmp(output, "json") == 0;
	if (*ret_json || strcmp(output, "text") == 0)
		return true;
	fprintf(stderr, "pyrtool %s: --output is text or json, not \"%s\"\n", name, output);
	return false;
}

int tool_print(const struct buf *b)
{
	struct view v = buf_view(b);
	return fwrite(v.ptr, 1, v.len, stdout) == v.len && fflush(stdout) == 0 ? TOOL_OK : TOOL_FAILED;
}

bool tool_flags(const struct tool_command *c, struct opt *table, size_t n, int argc, char **argv, int *ret_words,
		int *ret_status)
{
	struct err e;
	struct buf text = { 0 };
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			char usage[256];
			snprintf(usage, sizeof usage, "usage: pyrtool %s [flags] %s\n\n%s", c->name, c->arguments, c->summary);
			opts_help(table, n, usage, &text);
			*ret_status = tool_print(&text);
			buf_free(&text);
			return false;
		}
	if (opts_parse(table, n, argc, argv, ret_words, &e)) {
		tool_fail(c->name, &e);
		*ret_status = TOOL_USAGE;
		return false;
	}
	return true;
}

/* Of all commands, or of those whose first word is group (false: there is none). */
static bool list(FILE *to, const char *group)
{
	size_t n = group ? strlen(group) : 0, shown = 0;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		if (n && (strncmp(commands[i].name, group, n) != 0 || commands[i].name[n] != ' '))
			continue;
		if (!shown++)
			fprintf(to, "usage: pyrtool %s%sCOMMAND [flags] [arguments]\n\n", n ? group : "", n ? " " : "");
		char call[64];
		snprintf(call, sizeof call, "%s %s", commands[i].name, commands[i].arguments);
		fprintf(to, "  %-28s %s\n", call, commands[i].summary);
	}
	return shown > 0;
}

static int help(FILE *to)
{
	list(to, NULL);
	fputs("\npyrtool COMMAND --help shows a command's flags.\n", to);
	return to == stdout ? TOOL_OK : TOOL_USAGE;
}

/* Whether argv begins with the words of a name; *ret_n of them. */
static bool begins_with(const char *name, int argc, char **argv, int *ret_n)
{
	int n = 0;
	while (*name) {
		size_t len = strcspn(name, " ");
		if (n >= argc || strlen(argv[n]) != len || memcmp(argv[n], name, len) != 0)
			return false;
		name += len + (name[len] == ' ');
		n++;
	}
	*ret_n = n;
	return true;
}

/* Returns the command that an unknown command line probably meant: the one with the fewest different letters in its one or two words, or the
 * one whose second word was typed alone ("import" for "tsdb import"). Empty if none is near. is_group: the first word names a group of commands,
 * and only the second word is unknown. */
static struct view nearest_command(char **words, int n_words, bool is_group)
{
	char both[64];
	struct view first = view_of(words[0]), last = VIEW("");
	snprintf(both, sizeof both, "%s %s", words[0], n_words > 1 ? words[1] : "");
	struct typo one = typo_of(first, typo_most(first)), two = typo_of(view_of(both), typo_most(view_of(both)));
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		struct view rest = view_of(commands[i].name), group = view_cut(&rest, ' ');
		if (group.len < strlen(commands[i].name))
			typo_compare(&two, view_of(commands[i].name));
		if (!is_group)
			typo_compare(&one, group);
		if (!is_group && rest.len && view_eq(rest, first))
			last = view_of(commands[i].name);
	}
	return n_words > 1 && two.meant.len ? two.meant : one.meant.len ? one.meant : last;
}

/* What pyrtool takes instead of a command. A word with dashes is only compared with flags; the dashes are no part of the word. */
static struct view nearest_own_flag(struct view word)
{
	static const char *const own[] = { "--help", "--version", "help" };
	bool is_flag = view_starts(word, VIEW("-"));
	while (view_starts(word, VIEW("-")))
		word = view_make(word.ptr + 1, word.len - 1);
	struct typo t = typo_of(word, typo_most(word));
	for (size_t i = is_flag ? 0 : 1; i < ARRAY_LEN(own) - is_flag; i++) {
		unsigned before = t.errors;
		typo_compare(&t, view_of(own[i] + strspn(own[i], "-")));
		if (t.errors < before)
			t.meant = view_of(own[i]);
	}
	return t.meant;
}

static int unknown_command(char **words, int n_words, bool is_group)
{
	struct view meant = words[0][0] == '-' ? VIEW("") : nearest_command(words, n_words, is_group);
	if (!meant.len && !is_group)
		meant = nearest_own_flag(view_of(words[0]));
	fprintf(stderr, "pyrtool: no command %s%s%s; ", words[0], is_group && n_words > 1 ? " " : "", is_group && n_words > 1 ? words[1] : "");
	if (meant.len)
		fprintf(stderr, "did you mean %.*s? ", VIEW_ARG(meant));
	fputs("pyrtool help lists them\n", stderr);
	return TOOL_USAGE;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return help(stderr);
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0)
		return help(stdout);
	if (strcmp(argv[1], "--version") == 0)
		return puts("pyrtool " PACKAGE_VERSION) < 0 ? TOOL_FAILED : TOOL_OK;
	for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
		int n;
		if (begins_with(commands[i].name, argc - 1, argv + 1, &n))
			return commands[i].run(argc - n, argv + n);
	}
	bool asked = argc == 3 && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0);
	bool is_group = list(asked ? stdout : stderr, argv[1]);
	if (is_group && (asked || argc == 2))
		return asked ? TOOL_OK : TOOL_USAGE;
	return unknown_command(argv + 1, argc - 1, is_group);
}
