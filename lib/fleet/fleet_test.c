/* SPDX-License-Identifier: Apache-2.0 */
/* The section query, and who the other servers are. Servers are replaced by some that answer nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "fleet/fleet.h"
#include "fleet/fleet_self.h"
#include "fleet/server.h"

/* ---- servers ---- */

/* As fleet_server_new returns it. */
struct silent_server {
	struct fleet_peer peer;
	atomic_int refs;
	unsigned number;
	char url[256];
	int64_t timeout_ms;
	atomic_uint probes;
};

static atomic_uint made, alive;

static struct fleet_peer *peer_ref(struct fleet_peer *p)
{
	atomic_fetch_add(&((struct silent_server *)(void *)p)->refs, 1);
	return p;
}

static void peer_unref(struct fleet_peer *p)
{
	struct silent_server *s = (struct silent_server *)(void *)p;
	if (atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	atomic_fetch_sub(&alive, 1);
	free(s);
}

int fleet_loop_new(struct fleet_loop **ret, struct err *e)
{
	(void)e;
	*ret = (struct fleet_loop *)(void *)&made;
	return 0;
}

void fleet_loop_free(struct fleet_loop *l)
{
	(void)l;
}

struct fleet_server *fleet_server_new(const struct fleet_server_options *o)
{
	struct silent_server *s = NEW(struct silent_server);
	atomic_store(&s->refs, 1);
	s->peer = (struct fleet_peer){ .name = s->url, .ref = peer_ref, .unref = peer_unref };
	s->number = atomic_fetch_add(&made, 1);
	s->timeout_ms = o->timeout_ms;
	snprintf(s->url, sizeof s->url, "%s", o->url);
	atomic_fetch_add(&alive, 1);
	return (struct fleet_server *)(void *)s;
}

struct fleet_peer *fleet_server_peer(struct fleet_server *s)
{
	return &((struct silent_server *)(void *)s)->peer;
}

void fleet_server_status(struct fleet_server *server, struct fleet_server_status *ret)
{
	struct silent_server *s = (struct silent_server *)(void *)server;
	*ret = (struct fleet_server_status){ .asked = atomic_load(&s->probes) > 0, .up = s->number == 0, .calls = atomic_load(&s->probes),
					     .last_ms = s->timeout_ms, .failures = s->number };
	snprintf(ret->url, sizeof ret->url, "%s", s->url);
}

int fleet_server_probe(struct fleet_server *s, int64_t timeout_ms, struct err *e)
{
	(void)timeout_ms;
	atomic_fetch_add(&((struct silent_server *)(void *)s)->probes, 1);
	return err_set(e, ERR_UNAVAILABLE, "away");
}

/* ---- the fleet ---- */

static int own_open(struct source *s, struct source_view **ret, struct err *e)
{
	(void)s;
	(void)ret;
	return err_set(e, ERR_CANCELED, "the own storage");
}

static struct source own = { own_open };
static const char *listens[] = { "127.0.0.1:7070", NULL };

static const char *address(void *arg, size_t i)
{
	(void)arg;
	return i < ARRAY_LEN(listens) ? listens[i] : NULL;
}

static struct fleet *begin(void)
{
	const struct fleet_options o = { .own = &own, .address = address };
	atomic_store(&made, 0);
	return fleet_new(&o);
}

static void apply(struct fleet *f, const char *text)
{
	struct config_tree *t;
	struct fleet_config *c;
	struct err e = { 0 };
	if (config_parse(&t, view_of(text), "p.yml", &e) || fleet_config_parse(&c, t, NULL, NULL, &e) || fleet_apply(f, c, &e))
		fail_msg("%s: %s", text, e.msg);
	fleet_config_unref(c);
	config_free(t);
}

static void put_server(void *arg, const struct status_server *x)
{
	buf_printf(arg, "%s%s#%llu", ((struct buf *)arg)->len ? " " : "", x->url, (unsigned long long)x->failures);
}

/* URLs, and which of those made each is. */
static void check(struct fleet *f, const char *want)
{
	struct buf b CLEANUP(buf_free) = { 0 };
	fleet_status(f)->each(fleet_status(f), put_server, &b);
	buf_putc(&b, 0);
	assert_string_equal(b.ptr, want);
}

static void end(struct fleet *f)
{
	fleet_free(f);
	assert_int_equal(atomic_load(&alive), 0);
}

static void test_members(void **state)
{
	(void)state;
	struct fleet *f = begin();
	apply(f, "query: {servers: [{static_configs: [{targets: ['a:1', 'b:1', 'a:1']}], path_prefix: /p/}, "
		 "{static_configs: [{targets: ['a:1', 'c:1']}], scheme: https, path_prefix: p}]}");
	check(f, "http://a:1/p#0 http://b:1/p#1 https://c:1/p#2");
	/* another target: those that stay are the same */
	apply(f, "query: {servers: [{static_configs: [{targets: ['b:1', 'd:1', 'a:1']}], path_prefix: /p/}]}");
	check(f, "http://b:1/p#1 http://d:1/p#3 http://a:1/p#0");
	/* another client */
	apply(f, "query: {servers: [{static_configs: [{targets: ['b:1']}], path_prefix: /p/, authorization: {credentials: x}}, "
		 "{static_configs: [{targets: ['a:1']}], path_prefix: /p/}]}");
	check(f, "http://b:1/p#4 http://a:1/p#0");
	/* another timeout */
	apply(f, "query: {timeout: 5s, servers: [{static_configs: [{targets: ['a:1']}], path_prefix: /p/}]}");
	check(f, "http://a:1/p#5");
	apply(f, "query: {timeout: 5s, servers: [{static_configs: [{targets: ['a:1', 'b:1']}], relabel_configs: [{action: drop, source_labels: [__address__], regex: 'b.*'}, "
		 "{target_label: __path_prefix__, replacement: /q}]}]}");
	check(f, "http://a:1/q#6");
	apply(f, "{}");
	check(f, "");
	end(f);
}

static void test_self(void **state)
{
	(void)state;
	struct fleet *f = begin();
	apply(f, "query: {servers: [{static_configs: [{targets: ['127.0.0.1:7070', '127.0.0.1:7071', 'localhost:7070', '127.0.0.2:7070']}]}]}");
	check(f, "http://127.0.0.1:7071#0 http://127.0.0.2:7070#1");
	end(f);
	static const struct {
		const char *place, *listens;
		bool is;
	} rows[] = {
		{ "127.0.0.1:7070", "0.0.0.0:7070", true }, { "[::1]:7070", "[::1]:7070", true }, { "127.0.0.1:7070", "[::]:7070", true },
		{ "192.0.2.1:7070", "0.0.0.0:7070", false }, { "127.0.0.1:7071", "0.0.0.0:7070", false }, { "[::ffff:127.0.0.1]:7070", "127.0.0.1:7070", true },
		{ "localhost:7070", "192.0.2.1:7070", false }, { "eu-1:7070", "0.0.0.0:7070", false }, { "7070", "0.0.0.0:7070", false }, { "", "0.0.0.0:7070", false },
		{ "[:7070", "0.0.0.0:7070", false }, { "127.0.0.1:", "0.0.0.0:", false },
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (fleet_is_self(view_of(rows[i].place), view_of(rows[i].listens)) != rows[i].is)
			fail_msg("%s, listening on %s", rows[i].place, rows[i].listens);
}

/* Without servers a view is the storage's own; with them not, and then again. */
static void test_source(void **state)
{
	(void)state;
	struct fleet *f = begin();
	struct source *s = fleet_source(f);
	struct source_view *v = NULL;
	struct err e = { 0 };
	apply(f, "query: {partial_response: refuse}");
	assert_int_equal(s->open(s, &v, &e), -ERR_CANCELED);
	assert_string_equal(e.msg, "the own storage");
	end(f);
}

static size_t count_members(struct fleet *f)
{
	struct buf b = { 0 };
	fleet_status(f)->each(fleet_status(f), put_server, &b);
	size_t n = b.len ? 1 : 0;
	for (size_t i = 0; i < b.len; i++)
		n += b.ptr[i] == ' ';
	buf_free(&b);
	return n;
}

static void write_targets(const char *path, const char *text)
{
	char *fresh = xasprintf("%s.new", path);
	FILE *out = fopen(fresh, "w");
	assert_non_null(out);
	fputs(text, out);
	fclose(out);
	assert_int_equal(rename(fresh, path), 0);
	free(fresh);
}

/* Targets change while the configuration stays; each is asked how it is. */
static void test_discovery(void **state)
{
	(void)state;
	char path[] = "/tmp/fleet_test_XXXXXX.json", text[300];
	int fd = mkstemps(path, 5);
	assert_true(fd >= 0);
	close(fd);
	write_targets(path, "[{\"targets\": [\"a:1\", \"b:1\"]}]");
	struct fleet *f = begin();
	snprintf(text, sizeof text, "query: {servers: [{file_sd_configs: [{files: ['%s'], refresh_interval: 1s}]}]}", path);
	apply(f, text);
	for (int i = 0; i < 1000 && count_members(f) != 2; i++)
		clock_sleep_ms(10);
	check(f, "http://a:1#0 http://b:1#1");
	write_targets(path, "[{\"targets\": [\"b:1\", \"c:1\", \"d:1\"]}]");
	for (int i = 0; i < 1000 && count_members(f) != 3; i++)
		clock_sleep_ms(10);
	check(f, "http://b:1#1 http://c:1#2 http://d:1#3");
	fleet_register_metrics(f);
	bool seen = false;
	for (int i = 0; i < 500 && !seen; i++) {
		struct buf b = { 0 };
		metrics_render(&b);
		buf_putc(&b, 0);
		seen = strstr(b.ptr, "pyrrha_fleet_servers{state=\"down\"} 3\n");
		buf_free(&b);
		clock_sleep_ms(10);
	}
	assert_true(seen);
	metrics_free();
	unlink(path);
	end(f);
}

/* ---- the section ---- */

static void test_bad_sections(void **state)
{
	static const struct {
		const char *text, *says;
	} rows[] = {
		{ "query: []", "p.yml:1:8: field query: " },
		{ "query: {partial_response: abort}", "p.yml:1:27: field query.partial_response: " },
		{ "query: {rules_partial_response: 3}", "p.yml:1:33: field query.rules_partial_response: " },
		{ "query:\n  timeout: 0s", "p.yml:2:12: field query: timeout must be longer than nothing" },
		{ "query: {servers: {}}", "p.yml:1:18: field query.servers: a list of servers is wanted" },
		{ "query:\n  servers:\n    - scheme: ftp", "p.yml:3:15: field query.servers[0].scheme: " },
		{ "query: {servers: [{}, {targets: [a]}]}", "field query.servers[1].targets: unknown" },
		{ "query: {servers: [{static_configs: [{targets: [3: 4]}]}]}", "field query.servers[0].static_configs" },
		{ "query: {servers: [{basic_auth: {username: a}, authorization: {credentials: b}}]}", "field query.servers[0]" },
		{ "query: {servers: [{relabel_configs: [{action: x}]}]}", "field query.servers[0].relabel_configs[0].action: " },
		{ "query: {server: []}", "p.yml:1:9: field query.server: unknown; did you mean servers?" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct config_tree *t;
		struct fleet_config *c = NULL;
		struct err e = { 0 };
		assert_int_equal(config_parse(&t, view_of(rows[i].text), "p.yml", &e), 0);
		if (!fleet_config_parse(&c, t, NULL, NULL, &e) || !strstr(e.msg, rows[i].says))
			fail_msg("%s: %s", rows[i].text, e.msg);
		config_free(t);
	}
}

static void test_section(void **state)
{
	static const struct {
		const char *text;
		int partial, rules_partial;
		int64_t timeout_ms;
		const char *check;
	} rows[] = {
		{ "{}", 0, 1, 30000, "" },
		{ "query:", 0, 1, 30000, "" },
		{ "query: {partial_response: refuse, rules_partial_response: warn, timeout: 5s}", 1, 0, 5000, "" },
		{ "query: {servers: [{static_configs: [{targets: [a]}]}, {dns_sd_configs: [{names: [b], port: 1, type: A}]}]}", 0, 1, 30000,
		  "query: servers by static_configs, servers by dns_sd_configs; without one that is away: warn, rules refuse\n" },
	};
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct config_tree *t;
		struct fleet_config *c = NULL;
		struct err e = { 0 };
		struct buf b = { 0 };
		if (config_parse(&t, view_of(rows[i].text), "p.yml", &e) || fleet_config_parse(&c, t, NULL, NULL, &e))
			fail_msg("%s: %s", rows[i].text, e.msg);
		assert_int_equal(c->partial, rows[i].partial);
		assert_int_equal(c->rules_partial, rows[i].rules_partial);
		assert_int_equal(c->timeout_ms, rows[i].timeout_ms);
		fleet_config_check(c, &b);
		buf_putc(&b, 0);
		assert_string_equal(b.ptr, rows[i].check);
		buf_free(&b);
		fleet_config_unref(c);
		config_free(t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_section), cmocka_unit_test(test_bad_sections), cmocka_unit_test(test_members), cmocka_unit_test(test_self),
		cmocka_unit_test(test_source), cmocka_unit_test(test_discovery),
	};
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	discovery_finish();
	return rc;
}
