/* SPDX-License-Identifier: Apache-2.0 */
#include "scraper/testkit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/testwait.h"
#include "pprof/pprof.h"
#include "scraper/scraper.h"

static char *series_text(struct labels l)
{
	struct buf b = { 0 };
	labels_format(l, &b);
	return buf_take(&b, NULL);
}

static int64_t column_total(const struct sink_profile *p, const struct sink_column *c)
{
	const int64_t *values = p->values ? p->values : p->profile->values;
	size_t n = p->samples ? p->n_samples : p->profile->n_samples;
	int64_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += values[(p->samples ? p->samples[i] : i) * p->profile->n_sample_types + c->value_index];
	return sum;
}

static void put_leaf(const struct profile *p, struct kept *k)
{
	if (!p || !p->n_samples || !p->samples[0].n_locations)
		return;
	const struct profile_location *l = &p->locations[p->stack[p->samples[0].first_location]];
	if (l->n_lines)
		snprintf(k->leaf, sizeof k->leaf, "%.*s", VIEW_ARG(profile_str(p, p->functions[p->lines[l->first_line].function - 1].name_str)));
	else
		snprintf(k->leaf, sizeof k->leaf, "0x%llx", (unsigned long long)l->address);
}

static void keep_profile(struct fake_sink *f, const struct sink_profile *p)
{
	for (size_t c = 0; c < p->n_columns; c++) {
		vec_push(&f->v, (struct kept){ .series = series_text(p->columns[c].labels), .stale = !p->profile,
					       .t_ms = p->t_ms, .duration_ns = p->duration_ns,
					       .interval_ms = p->interval_ms, .asked_ms = p->asked_ms,
					       .cover_ms = p->cover_ms, .kind = p->columns[c].type.kind,
					       .total = p->profile ? column_total(p, &p->columns[c]) : 0 });
		put_leaf(p->profile, &f->v.v[f->v.n - 1]);
	}
}

static void keep_note(struct fake_sink *f, const struct sink_note *n)
{
	struct kept_note *k = NULL;
	for (size_t i = 0; i < f->notes.n && !k; i++)
		if (view_eq(view_make(f->notes.v[i].key, f->notes.v[i].key_len), n->key))
			k = &f->notes.v[i];
	if (!k) {
		k = vec_add(&f->notes);
		k->key = xmalloc(n->key.len);
		memcpy(k->key, n->key.ptr, n->key.len);
		k->key_len = n->key.len;
	}
	free(k->value);
	k->value = xmalloc(n->value.len + 1);
	memcpy(k->value, n->value.ptr, n->value.len);
	k->value[n->value.len] = 0;
	k->value_len = n->value.len;
	k->t_ms = n->t_ms;
}

static int notes(struct sink *s, struct view prefix, void (*note)(void *arg, const struct sink_note *n), void *arg, struct err *e)
{
	struct fake_sink *f = (struct fake_sink *)s;
	(void)e;
	mutex_lock(&f->lock);
	for (size_t i = 0; i < f->notes.n; i++) {
		const struct kept_note *k = &f->notes.v[i];
		if (view_starts(view_make(k->key, k->key_len), prefix))
			note(arg, &(struct sink_note){ view_make(k->key, k->key_len), view_make(k->value, k->value_len), k->t_ms });
	}
	mutex_unlock(&f->lock);
	return 0;
}

char *fake_sink_note(struct fake_sink *s, const char *kind)
{
	char *ret = NULL;
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->notes.n && !ret; i++)
		if (strcmp(s->notes.v[i].key, kind) == 0)
			ret = xstrdup(s->notes.v[i].value);
	mutex_unlock(&s->lock);
	return ret;
}

static int append(struct sink *s, const struct sink_batch *b, struct sink_result *ret, struct err *e)
{
	struct fake_sink *f = (struct fake_sink *)s;
	if (f->slow_ms)
		clock_sleep_ms(f->slow_ms);
	mutex_lock(&f->lock);
	bool has_profile = false;
	for (size_t i = 0; i < b->n_profiles; i++)
		has_profile |= b->profiles[i].profile != NULL;
	int code = f->refuse ? f->refuse : has_profile ? f->fail : 0;
	if (code) {
		mutex_unlock(&f->lock);
		return err_set(e, (enum err_code)code, "the sink was told to fail");
	}
	if (f->lose) {
		struct err why = { 0 };
		mutex_unlock(&f->lock);
		err_set(&why, (enum err_code)f->lose, "the sink lost it");
		b->done(b->done_arg, &why);
		return 0;
	}
	f->batches++;
	for (size_t i = 0; i < b->n_notes; i++)
		keep_note(f, &b->notes[i]);
	for (size_t i = 0; i < b->n_profiles; i++)
		keep_profile(f, &b->profiles[i]);
	for (size_t i = 0; i < b->n_floats; i++)
		vec_push(&f->v, (struct kept){ .series = series_text(b->floats[i].labels), .is_float = true,
					       .t_ms = b->floats[i].t_ms, .v = b->floats[i].v,
					       .stale = value_is_stale(b->floats[i].v) });
	mutex_unlock(&f->lock);
	if (ret)
		*ret = (struct sink_result){ .profiles = (uint32_t)b->n_profiles, .floats = (uint32_t)b->n_floats };
	if (b->done)
		b->done(b->done_arg, &(struct err){ 0 });
	return 0;
}

void fake_sink_init(struct fake_sink *s)
{
	*s = (struct fake_sink){ .sink = { append, notes } };
	mutex_init(&s->lock, LOCK_ANY, "test sink");
}

void fake_sink_free(struct fake_sink *s)
{
	for (size_t i = 0; i < s->v.n; i++)
		free(s->v.v[i].series);
	vec_free(&s->v);
	for (size_t i = 0; i < s->notes.n; i++) {
		free(s->notes.v[i].key);
		free(s->notes.v[i].value);
	}
	vec_free(&s->notes);
	mutex_destroy(&s->lock);
}

size_t fake_sink_find(struct fake_sink *s, const char *what, struct kept *last)
{
	size_t n = 0;
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->v.n; i++)
		if (strstr(s->v.v[i].series, what)) {
			n++;
			if (last)
				*last = s->v.v[i];
		}
	mutex_unlock(&s->lock);
	return n;
}

bool fake_sink_wait(struct fake_sink *s, const char *what, size_t n)
{
	return TEST_WAIT(fake_sink_find(s, what, NULL) >= n);
}

bool fake_sink_nth(struct fake_sink *s, const char *what, size_t n, struct kept *ret)
{
	bool there = fake_sink_wait(s, what, n);
	mutex_lock(&s->lock);
	for (size_t i = 0; i < s->v.n && n; i++)
		if (strstr(s->v.v[i].series, what) && --n == 0)
			*ret = s->v.v[i];
	mutex_unlock(&s->lock);
	return there;
}

static bool newest_is(struct fake_sink *s, const char *what, double v)
{
	struct kept k = { .v = -1 };
	return fake_sink_find(s, what, &k) && k.is_float && !(k.v < v) && !(k.v > v);
}

bool fake_sink_wait_value(struct fake_sink *s, const char *what, double v)
{
	return TEST_WAIT(newest_is(s, what, v));
}

int scraper_tests_begin(void **state)
{
	log_setup(LOG_LEVEL_ERROR, LOG_FORMAT_LOGFMT);
	scraper_register_metrics();
	return 0;
}

int scraper_tests_end(void **state)
{
	metrics_free();
	return 0;
}

struct stub {
	int fd, port;
	pthread_t thread;
	void (*handle)(int fd, const char *request, void *arg);
	void *arg;
	atomic_size_t requests, open;
	atomic_bool stop;
};

struct client {
	struct stub *stub;
	int fd;
};

static bool read_request(int fd, char *buf, size_t room)
{
	size_t n = 0;
	while (n < room - 1) {
		ssize_t r = read(fd, buf + n, room - 1 - n);
		if (r <= 0)
			return false;
		n += (size_t)r;
		buf[n] = 0;
		if (strstr(buf, "\r\n\r\n"))
			return true;
	}
	return false;
}

static void *serve_one(void *arg)
{
	struct client *c = arg;
	char request[8192];
	if (read_request(c->fd, request, sizeof request)) {
		atomic_fetch_add(&c->stub->requests, 1);
		c->stub->handle(c->fd, request, c->stub->arg);
	}
	close(c->fd);
	atomic_fetch_sub(&c->stub->open, 1);
	free(c);
	return NULL;
}

static void *serve(void *arg)
{
	struct stub *s = arg;
	for (;;) {
		int fd = accept(s->fd, NULL, NULL);
		if (atomic_load(&s->stop)) {
			if (fd >= 0)
				close(fd);
			return NULL;
		}
		if (fd < 0)
			continue;
		pthread_t t;
		struct client *c = NEW(struct client);
		*c = (struct client){ s, fd };
		atomic_fetch_add(&s->open, 1);
		if (pthread_create(&t, NULL, serve_one, c) == 0)
			pthread_detach(t);
	}
}

struct stub *stub_new(void (*handle)(int fd, const char *request, void *arg), void *arg)
{
	struct stub *s = NEW(struct stub);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof a;
	s->handle = handle;
	s->arg = arg;
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(s->fd, (struct sockaddr *)&a, sizeof a) || listen(s->fd, 64) ||
	    getsockname(s->fd, (struct sockaddr *)&a, &len)) {
		perror("stub");
		abort();
	}
	s->port = ntohs(a.sin_port);
	pthread_create(&s->thread, NULL, serve, s);
	return s;
}

void stub_free(struct stub *s)
{
	atomic_store(&s->stop, true);
	shutdown(s->fd, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->fd);
	while (atomic_load(&s->open))
		clock_sleep_ms(5);
	free(s);
}

int stub_port(const struct stub *s)
{
	return s->port;
}

size_t stub_requests(struct stub *s)
{
	return atomic_load(&s->requests);
}

void stub_write(int fd, const void *p, size_t n)
{
	const char *at = p;
	while (n) {
		ssize_t w = send(fd, at, n, MSG_NOSIGNAL);
		if (w <= 0)
			return;
		at += w;
		n -= (size_t)w;
	}
}

void stub_answer(int fd, int status, const char *extra_headers, const void *body, size_t n)
{
	char head[512];
	int len = snprintf(head, sizeof head, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\nConnection: close\r\n%s\r\n", status, n,
			   extra_headers);
	stub_write(fd, head, (size_t)len);
	stub_write(fd, body, n);
}

static uint32_t add_string(struct profile *p, struct view v)
{
	p->strings[p->n_strings] = arena_view(&p->arena, v);
	return p->n_strings++;
}

static struct profile_value_type add_type(struct profile *p, const char *text)
{
	size_t n = strcspn(text, "/"), m = strcspn(text + n + 1, " ");
	uint32_t type = add_string(p, view_make(text, n));
	return (struct profile_value_type){ type, add_string(p, view_make(text + n + 1, m)) };
}

static void add_stack(struct profile *p, uint32_t i)
{
	char name[24];
	snprintf(name, sizeof name, "f%u", i);
	p->functions[i] = (struct profile_function){ .name_str = add_string(p, view_of(name)) };
	p->lines[i] = (struct profile_line){ .function = i + 1, .line = 1 };
	p->locations[i] = (struct profile_location){ .address = 0x1000 + i, .first_line = i, .n_lines = 1 };
	p->stack[i] = i;
	p->samples[i] = (struct profile_sample){ .first_location = i, .n_locations = 1 };
}

#define ROOM(member, n) p.member = arena_calloc(&p.arena, (n) + 1, sizeof *p.member)

void make_profile(struct buf *out, const char *types, const char *period, const int64_t *values, size_t n,
		  int64_t time_ns, int64_t duration_ns)
{
	struct profile p;
	struct err e = { 0 };
	profile_init(&p, 0);
	ROOM(strings, 64 + n);
	ROOM(sample_types, 16);
	ROOM(functions, n);
	ROOM(lines, n);
	ROOM(locations, n);
	ROOM(stack, n);
	ROOM(samples, n);
	add_string(&p, VIEW(""));
	for (const char *t = types; t; t = strchr(t, ' ')) {
		t += *t == ' ';
		p.sample_types[p.n_sample_types++] = add_type(&p, t);
	}
	if (period) {
		p.period_type = add_type(&p, period);
		p.period = 1;
	}
	for (uint32_t i = 0; i < n; i++)
		add_stack(&p, i);
	p.n_functions = p.n_lines = p.n_locations = p.n_stack = p.n_samples = (uint32_t)n;
	ROOM(values, n * p.n_sample_types);
	if (n)
		memcpy(p.values, values, n * p.n_sample_types * sizeof *values);
	p.time_ns = time_ns;
	p.duration_ns = duration_ns;
	if (pprof_encode_gz(&p, out, &e)) {
		fprintf(stderr, "make_profile: %s\n", e.msg);
		abort();
	}
	profile_release(&p);
}

/* ---- a bench ---- */

static void need(bool good, const char *what, const char *why)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s\n", what, why);
	abort();
}

void scraper_bench_init(struct scraper_bench *b, void (*handle)(int fd, const char *request, void *arg), void *arg,
			const struct scraper_options *o)
{
	struct err e = { 0 };
	fake_sink_init(&b->sink);
	b->stub = stub_new(handle, arg);
	need(scraper_new(&b->scraper, &b->sink.sink, o, &e) == 0, "scraper_new", e.msg);
}

void scraper_bench_release(struct scraper_bench *b)
{
	int64_t from = clock_mono_ms();
	scraper_free(b->scraper);
	need(clock_mono_ms() - from < PATIENCE_MS / 2, "scraper_free", "it waits for something: it took more than 30 s");
	stub_free(b->stub);
	fake_sink_free(&b->sink);
}

static void print_warning(void *arg, const char *text)
{
	fprintf(stderr, "%s\n", text);
}

static struct scraper_config *parse(struct scraper_bench *b, const char *yaml)
{
	struct buf text = { 0 };
	struct config_tree *t = NULL;
	struct scraper_config *c = NULL;
	struct err e = { 0 };
	for (const char *at; (at = strstr(yaml, "PORT")); yaml = at + 4) {
		buf_put(&text, yaml, (size_t)(at - yaml));
		buf_printf(&text, "%d", stub_port(b->stub));
	}
	buf_puts(&text, yaml);
	need(config_parse(&t, buf_view(&text), "test.yml", &e) == 0 && scraper_config_parse(&c, t, print_warning, NULL, &e) == 0, yaml, e.msg);
	config_free(t);
	buf_free(&text);
	return c;
}

void scraper_bench_apply(struct scraper_bench *b, const char *yaml)
{
	struct err e = { 0 };
	struct scraper_config *c = parse(b, yaml);
	need(scraper_apply(b->scraper, c, &e) == 0, yaml, e.msg);
	scraper_config_unref(c);
}
