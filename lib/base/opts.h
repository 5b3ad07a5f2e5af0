/* SPDX-License-Identifier: Apache-2.0 */
/* Command-line flags from a table: parser, default, --help and the flags API all come from the row.
 *
 * Accepted: --name=value, --name value, --switch, --no-switch, -h, --help, --version. A row with an alias also has that name
 * (another system's flag). OPT_REFUSED and OPT_EXPLAINED are rows for flags that do not apply here. The error about an unknown flag
 * names the known one that was probably meant. */
#ifndef PYRRHA_BASE_OPTS_H
#define PYRRHA_BASE_OPTS_H

#include "base/buf.h"
#include "base/err.h"

enum opt_type {
	OPT_STRING,   /* const char ** */
	OPT_BOOL,     /* bool * */
	OPT_INT,      /* int64_t * */
	OPT_DURATION, /* int64_t *, ms */
	OPT_SIZE,     /* uint64_t *, bytes */
	OPT_FLOAT,    /* double * */
	OPT_LIST,     /* struct opt_list *: may be repeated */
	OPT_REFUSED,  /* a flag of another program: an error, with the row's help as advice */
	OPT_EXPLAINED, /* a flag of another program: accepted without effect, with a value if `arg` is set; opts_explain reports it. `at` is NULL */
	OPT_GROUP     /* no flag: `name` is the heading of the following rows in --help */
};

struct opt_list {
	const char **v; /* borrowed from argv */
	size_t n;
};

struct opt {
	const char *name;   /* without dashes */
	enum opt_type type;
	void *at;           /* holds the default before parsing */
	const char *arg;    /* what --help calls the value, e.g. "<dir>" */
	const char *help;
	const char *alias;  /* NULL, or other names, comma-separated: accepted, shown after the help text */
	bool given;         /* set by the parser */
};

/* Parses argv[1..]; what is not a flag is left in order in argv[1..*ret_rest]. Values are borrowed from argv. */
int opts_parse(struct opt *table, size_t n, int argc, char **argv, int *ret_rest, struct err *e) MUST_USE;
/* Whether the row is a flag of this program: not one of Parca or Prometheus that does nothing here, and not a heading. */
bool opts_is_own(const struct opt *o);
/* Calls say for each row that is OPT_EXPLAINED and was given, with its help as the advice. Values are not printed: some are
 * secrets. */
void opts_explain(const struct opt *table, size_t n, void (*say)(const char *name, const char *advice));
/* The text of --help: usage line, then a row per flag with its default, under the headings of the table. */
void opts_help(const struct opt *table, size_t n, const char *usage, struct buf *out);
/* The value of a row as text ("15d", "true"), for the flags API. */
void opts_value(const struct opt *o, struct buf *out);
void opts_free(struct opt *table, size_t n);

#endif
