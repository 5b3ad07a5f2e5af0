/* SPDX-License-Identifier: Apache-2.0 */
/* Many exchanges at once, turned by one thread. Connections are kept and used again. The cost of a turn depends on its events, not on
 * the number of waiting requests: sockets are watched with epoll, and curl is told about each ready one.
 *
 *	loop    one epoll; a heap of timers; what its exchanges share (fetch_share.c)
 *	shard   a curl multi handle: the exchanges, connections and names of the hosts whose hash it has
 *	watch   what is waited for on a file descriptor, and for which shard
 *
 * There are shards because curl regularly walks all connections and names of a multi handle. It walks all names whenever an exchange
 * ends, all idle connections once a second, and again for each dead one.
 *
 * curl closes sockets itself, and the next one may have the same number, also while the events of one epoll_wait are processed. So an
 * event carries the serial number of its watch, and is ignored if that has changed.
 *
 * All calls but fetch_loop_wake and fetch_loop_running come from the thread that turns it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/map.h"
#include "fetch/fetch_internal.h"

#define SHARDS 128
#define EVENTS 256        /* of one epoll_wait */
#define READ_BUFFER 4096L /* each exchange has one for as long as it lasts, also while it waits; larger ones save calls and cost cache misses: no gain */
#define PRUNE_EVERY 64    /* addresses are names to curl, too: it looks through all that it knows at the end of each exchange that lets it */
#define PAUSE_MS 20
#define LEAST_KEPT 2      /* connections that a shard keeps, however few files may be open */

struct shard {
	struct fetch_loop *loop;
	CURLM *multi;           /* NULL: none was needed yet */
	struct heap_node timer; /* in the loop's; monotonic ns */
	uint64_t to_addresses;  /* exchanges */
};

struct watch {
	struct shard *shard;    /* NULL: curl does not wait for it */
	uint32_t events, serial;
};

struct fetch_loop {
	int epoll_fd, wake_fd;
	long max_kept;          /* connections of a shard */
	struct shard shards[SHARDS];
	struct heap timers;
	VEC(struct watch) watches; /* by file descriptor */
	int watch_errno;        /* of an epoll_ctl that failed; told once */
	struct fetch *first;
	atomic_size_t running; /* read by any thread */
	struct fetch_share share;
};

void fetch_loop_pace(struct fetch_loop *l, uint64_t bytes_per_s)
{
	fetch_share_pace(&l->share, bytes_per_s);
}

void fetch_loop_names(struct fetch_loop *l, size_t most)
{
	l->share.max_resolving = most;
}

/* curl: it is about to start a thread for a name. */
static int on_resolve(void *resolver, void *unused, void *arg)
{
	return !fetch_share_resolve(arg);
}

/* The peer of curl's connection, as "host:port". */
static struct view host_of(const struct fetch_client *c, const char *url)
{
	const char *to = c->config->proxy_url ? c->config->proxy_url : url, *host = strstr(to, "://");
	host = host ? host + 3 : to;
	return view_make(host, strcspn(host, "/?#"));
}

/* Such need no thread. */
static bool is_address(struct view host)
{
	char text[INET6_ADDRSTRLEN];
	unsigned char bytes[16];
	const char *at = memchr(host.ptr, '@', host.len);
	if (at)
		host = view_make(at + 1, host.len - (size_t)(at + 1 - host.ptr));
	if (host.len && host.ptr[0] == '[')
		return true;
	const char *colon = memchr(host.ptr, ':', host.len);
	size_t n = colon ? (size_t)(colon - host.ptr) : host.len;
	if (n >= sizeof text)
		return false;
	memcpy(text, host.ptr, n);
	text[n] = 0;
	return inet_pton(AF_INET, text, bytes) == 1;
}

static void take_out(struct fetch *f)
{
	fetch_share_resolved(f);
	struct fetch_loop *l = f->loop;
	curl_multi_remove_handle(f->shard->multi, f->easy);
	fetch_share_forget(f);
	*(f->prev ? &f->prev->next : &l->first) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	atomic_fetch_sub(&l->running, 1);
}

/* curl closes the connection of a request that timed out, but not one of HTTP/2, on which it ends the stream only: if the connection hangs, so would all
 * requests after it. No other request is on it (CURLPIPE_NOTHING). curl closes it when it finds it shut down. */
static void end_hanging(struct fetch *f)
{
	curl_socket_t fd = CURL_SOCKET_BAD;
	if (curl_easy_getinfo(f->easy, CURLINFO_ACTIVESOCKET, &fd) == CURLE_OK && fd != CURL_SOCKET_BAD)
		shutdown(fd, SHUT_RDWR);
}

static void finish(struct fetch *f, CURLcode rc)
{
	struct err e = { 0 };
	fetch_conclude(f, rc, &e);
	if (rc == CURLE_OPERATION_TIMEDOUT)
		end_hanging(f);
	take_out(f);
	f->done(f->arg, &f->response, &e);
	fetch_destroy(f);
}

/* Resumes paused bodies: those that wait for the limit as far as bytes are allowed, those that their receiver had no room for after
 * PAUSE_MS. curl delivers the bytes that it kept meanwhile from within curl_easy_pause. If they are refused, curl drops them and continues
 * with the following ones. */
static void go_on(struct fetch_loop *l)
{
	struct fetch_share *s = &l->share;
	int64_t now = clock_mono_ns();
	fetch_share_grow(s);
	for (size_t n = s->n_paused; n && s->first_paused; n--) {
		struct fetch *f = s->first_paused;
		fetch_share_forget(f);
		if (f->full_ns ? now - f->full_ns < PAUSE_MS * 1000000 : s->pace && s->allowed <= 0) {
			fetch_share_pause(f);
			continue;
		}
		CURLcode rc = curl_easy_pause(f->easy, CURLPAUSE_CONT);
		if (rc)
			finish(f, rc);
	}
}

static uint32_t events_of(int what)
{
	return (what & CURL_POLL_IN ? EPOLLIN : 0) | (what & CURL_POLL_OUT ? EPOLLOUT : 0);
}

static int watch_fd(struct fetch_loop *l, int fd, struct watch *w, bool known)
{
	struct epoll_event ev = { .events = w->events, .data.u64 = (uint64_t)w->serial << 32 | (uint32_t)fd };
	if (epoll_ctl(l->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) == 0)
		return 0;
	if (errno != ENOENT && errno != EEXIST)
		return -1;
	return epoll_ctl(l->epoll_fd, errno == ENOENT ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev);
}

/* curl: what it waits for on a socket. A returned error would end the whole multi handle. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *unused)
{
	struct shard *s = arg;
	struct fetch_loop *l = s->loop;
	struct fetch *f = NULL;
	if (what != CURL_POLL_REMOVE && what & CURL_POLL_IN && !curl_easy_getinfo(easy, CURLINFO_PRIVATE, &f) && f)
		f->connected = true; /* until then curl waits to write */
	while (l->watches.n <= (size_t)fd)
		vec_add(&l->watches);
	struct watch *w = &l->watches.v[fd];
	if (what == CURL_POLL_REMOVE) {
		if (w->shard != s)
			return 0;
		epoll_ctl(l->epoll_fd, EPOLL_CTL_DEL, fd, &(struct epoll_event){ 0 }); /* may be closed already */
		w->shard = NULL;
		w->serial++;
		return 0;
	}
	bool known = w->shard == s;
	if (known && w->events == events_of(what))
		return 0;
	w->events = events_of(what);
	w->shard = s;
	w->serial += !known;
	if (watch_fd(l, fd, w, known))
		l->watch_errno = errno;
	return 0;
}

/* curl: when it wants to be called without an event; not from within, that it forbids. */
static int on_timer(CURLM *multi, long ms, void *arg)
{
	struct shard *s = arg;
	if (ms < 0)
		heap_remove(&s->loop->timers, &s->timer);
	else
		heap_put(&s->loop->timers, &s->timer, clock_mono_ns() + (int64_t)ms * 1000000);
	return 0;
}

/* Cached connections must leave files for others. curl's default is four times the number of running exchanges; with short requests it
 * then closes nearly all connections. */
static long connections_kept(void)
{
	struct rlimit r;
	rlim_t files = getrlimit(RLIMIT_NOFILE, &r) == 0 ? MIN(r.rlim_cur, (rlim_t)1 << 20) : 1024;
	return MAX((long)(files / 4 * 3 / SHARDS), LEAST_KEPT);
}

static int open_loop(struct fetch_loop *l, struct err *e)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u64 = UINT64_MAX };
	l->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	l->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->epoll_fd >= 0 && l->wake_fd >= 0 && epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, l->wake_fd, &ev) == 0)
		return 0;
	return err_errno(e, errno, "epoll");
}

struct fetch_loop *fetch_loop_new(struct err *e)
{
	fetch_set_curl_up();
	struct fetch_loop *l = NEW(struct fetch_loop);
	l->max_kept = connections_kept();
	l->share.max_resolving = FETCH_NAMES;
	for (size_t i = 0; i < SHARDS; i++)
		l->shards[i].loop = l;
	if (open_loop(l, e)) {
		fetch_loop_free(l);
		return NULL;
	}
	return l;
}

static CURLM *multi_of(struct shard *s)
{
	if (s->multi)
		return s->multi;
	s->multi = curl_multi_init();
	if (!s->multi)
		return NULL;
	curl_multi_setopt(s->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(s->multi, CURLMOPT_SOCKETDATA, s);
	curl_multi_setopt(s->multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(s->multi, CURLMOPT_TIMERDATA, s);
	curl_multi_setopt(s->multi, CURLMOPT_MAXCONNECTS, s->loop->max_kept);
	curl_multi_setopt(s->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING); /* one request at a time on each connection, also of HTTP/2 */
	return s->multi;
}

/* The shard by peer: connections to one host are kept in one place. */
static struct shard *shard_of(struct fetch_loop *l, const struct fetch_client *c, const char *url)
{
	return &l->shards[hash_view(host_of(c, url)) % SHARDS];
}

void fetch_cancel(struct fetch *f)
{
	take_out(f);
	fetch_destroy(f);
}

void fetch_loop_free(struct fetch_loop *l)
{
	if (!l)
		return;
	while (l->first)
		fetch_cancel(l->first);
	for (size_t i = 0; i < SHARDS; i++)
		if (l->shards[i].multi)
			curl_multi_cleanup(l->shards[i].multi); /* calls on_socket */
	if (l->epoll_fd >= 0)
		close(l->epoll_fd);
	if (l->wake_fd >= 0)
		close(l->wake_fd);
	heap_free(&l->timers);
	vec_free(&l->watches);
	free_ptr(&l);
}

int fetch_start(struct fetch_loop *l, struct fetch_client *c, const struct fetch_request *q,
		void (*done)(void *arg, struct fetch_response *r, const struct err *e), void *arg, struct fetch **ret,
		struct err *e)
{
	struct fetch *f = NULL;
	struct shard *s = shard_of(l, c, q->url);
	if (!multi_of(s))
		return err_set(e, ERR_INTERNAL, "curl gives no multi handle");
	int rc = fetch_prepare(&f, c, q, false, e);
	if (rc)
		return rc;
	curl_easy_setopt(f->easy, CURLOPT_BUFFERSIZE, READ_BUFFER);
	if (q->unix_socket || is_address(host_of(c, q->url))) {
		if (++s->to_addresses % PRUNE_EVERY)
			curl_easy_setopt(f->easy, CURLOPT_DNS_CACHE_TIMEOUT, -1L);
	} else {
		curl_easy_setopt(f->easy, CURLOPT_RESOLVER_START_FUNCTION, on_resolve);
		curl_easy_setopt(f->easy, CURLOPT_RESOLVER_START_DATA, f);
	}
	f->loop = l;
	f->share = &l->share;
	f->shard = s;
	f->done = done;
	f->arg = arg;
	CURLMcode mc = curl_multi_add_handle(s->multi, f->easy);
	if (mc) {
		fetch_destroy(f);
		return err_set(e, ERR_INTERNAL, "curl: %s", curl_multi_strerror(mc));
	}
	f->next = l->first;
	if (f->next)
		f->next->prev = f;
	l->first = f;
	atomic_fetch_add(&l->running, 1);
	if (ret)
		*ret = f;
	return 0;
}

static size_t finish_those_done(struct shard *s)
{
	int left;
	size_t n = 0;
	for (CURLMsg *m; (m = curl_multi_info_read(s->multi, &left));) {
		struct fetch *f = NULL;
		if (m->msg != CURLMSG_DONE)
			continue;
		CURLcode rc = m->data.result; /* m goes with the handle */
		curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &f);
		finish(f, rc);
		n++;
	}
	return n;
}

/* Lets curl act on a socket, or on time that has passed (CURL_SOCKET_TIMEOUT). Adds to *done what ended. */
static int act(struct shard *s, curl_socket_t fd, int what, size_t *done, struct err *e)
{
	int running;
	CURLMcode mc = curl_multi_socket_action(s->multi, fd, what, &running);
	*done += finish_those_done(s);
	return mc ? err_set(e, ERR_INTERNAL, "curl: %s", curl_multi_strerror(mc)) : 0;
}

static int act_on_time(struct fetch_loop *l, size_t *done, struct err *e)
{
	int64_t now = clock_mono_ns(); /* what curl wants at once meanwhile is for the next turn */
	int rc = 0;
	for (struct heap_node *n; !rc && (n = heap_first(&l->timers)) && n->key <= now;) {
		heap_remove(&l->timers, n);
		rc = act(heap_entry(n, struct shard, timer), CURL_SOCKET_TIMEOUT, 0, done, e);
	}
	return rc;
}

static int act_on_event(struct fetch_loop *l, const struct epoll_event *ev, size_t *done, struct err *e)
{
	if (ev->data.u64 == UINT64_MAX) {
		uint64_t n;
		return read(l->wake_fd, &n, sizeof n) < 0 && errno != EAGAIN ? err_errno(e, errno, "eventfd") : 0;
	}
	uint32_t fd = (uint32_t)ev->data.u64;
	struct watch *w = &l->watches.v[fd];
	if (!w->shard || w->serial != ev->data.u64 >> 32)
		return 0;
	int what = (ev->events & EPOLLIN ? CURL_CSELECT_IN : 0) | (ev->events & EPOLLOUT ? CURL_CSELECT_OUT : 0) |
		   (ev->events & (EPOLLERR | EPOLLHUP) ? CURL_CSELECT_ERR : 0);
	return act(w->shard, (curl_socket_t)fd, what, done, e);
}

static int waiting_ms(const struct fetch_loop *l, int wait_ms)
{
	const struct heap_node *n = heap_first(&l->timers);
	int64_t ms = n ? (n->key - clock_mono_ns() + 999999) / 1000000 : wait_ms;
	if (l->share.n_paused)
		ms = MIN(ms, PAUSE_MS);
	return (int)MAX(MIN(ms, wait_ms), 0);
}

int fetch_loop_turn(struct fetch_loop *l, int wait_ms, struct err *e)
{
	struct epoll_event ev[EVENTS] UNINITIALIZED;
	size_t done = 0;
	if (l->share.n_paused || l->share.pace)
		go_on(l);
	int rc = act_on_time(l, &done, e);
	int n = epoll_wait(l->epoll_fd, ev, EVENTS, rc || done ? 0 : waiting_ms(l, wait_ms));
	for (int i = 0; i < n && !rc; i++)
		rc = act_on_event(l, &ev[i], &done, e);
	if (!rc)
		rc = act_on_time(l, &done, e);
	if (!rc && l->watch_errno)
		rc = err_errno(e, l->watch_errno, "epoll: a socket cannot be watched, its request will time out");
	l->watch_errno = 0;
	return rc;
}

void fetch_loop_wake(struct fetch_loop *l)
{
	uint64_t one = 1;
	if (write(l->wake_fd, &one, sizeof one) < 0)
		return; /* EAGAIN: it is awake */
}

size_t fetch_loop_running(const struct fetch_loop *l)
{
	return atomic_load(&l->running);
}
