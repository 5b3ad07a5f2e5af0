/* SPDX-License-Identifier: Apache-2.0 */
/* pyrtool tsdb notes: what scrapes and rules left in a storage directory to find again (struct sink_note), a line each. */
#include <inttypes.h>
#include <stdio.h>

#include "cmd/tool_tsdb.h"

struct listing {
	struct buf out;
	bool json;
};

/* Keys and values are bytes of any kind: what is not printable ASCII is \xNN, so that a line stays one. */
static void put_bytes(struct buf *b, struct view v)
{
	for (size_t i = 0; i < v.len; i++) {
		uint8_t c = (uint8_t)v.ptr[i];
		if (c == '\\')
			buf_puts(b, "\\\\");
		else if (c >= 0x20 && c < 0x7f)
			buf_putc(b, (char)c);
		else
			buf_printf(b, "\\x%02x", c);
	}
}

static void put_note(void *arg, const struct sink_note *n)
{
	struct listing *l = arg;
	CLEANUP(buf_free) struct buf key = { 0 }, value = { 0 };
	put_bytes(&key, n->key);
	put_bytes(&value, n->value);
	if (!l->json) {
		buf_printf(&l->out, "%" PRId64 " %.*s %.*s\n", n->t_ms, VIEW_ARG(buf_view(&key)), VIEW_ARG(buf_view(&value)));
		return;
	}
	json_object_begin(&l->out);
	json_field_int(&l->out, "t", n->t_ms);
	json_field(&l->out, "key", buf_view(&key));
	json_field(&l->out, "value", buf_view(&value));
	json_object_end(&l->out);
	buf_putc(&l->out, '\n');
}

int tool_tsdb_notes(int argc, char **argv)
{
	const char *output = "text", name[] = "tsdb notes";
	struct opt flags[] = { { "output", OPT_STRING, &output, "<format>", "text (Unix milliseconds, key, value) or json, a line each." } };
	int words, status;
	struct tsdb *db;
	struct err e;
	struct listing l = { .out = { 0 } };
	if (!tool_flags(tool_command(name), flags, ARRAY_LEN(flags), argc, argv, &words, &status))
		return status;
	if (!tool_json(name, output, &l.json))
		return TOOL_USAGE;
	if (words != 1) {
		fprintf(stderr, "pyrtool %s: one storage directory is wanted (the server's --storage.path)\n", name);
		return TOOL_USAGE;
	}
	if (tool_tsdb_open(&db, argv[1], true, &e))
		return tool_fail(name, &e);
	int rc = tsdb_sink(db)->notes(tsdb_sink(db), VIEW(""), put_note, &l, &e);
	IGNORE(tsdb_close(db, NULL)); /* it was only read */
	status = rc ? tool_fail(name, &e) : tool_print(&l.out);
	buf_free(&l.out);
	return status;
}
