/* SPDX-License-Identifier: Apache-2.0 */
#include "httpd/login.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/crypto.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/thread.h"
#include "httpd/authorization.h"
#include "httpd/bcrypt.h"
#include "httpd/internal.h"
#include "httpd/login_failures.h"
#include "httpd/login_known.h"
#include "httpd/login_proven.h"
#include "httpd/login_turns.h"

#define BUSY_SECONDS 2
#define LINES_A_MINUTE 30      /* of the log */

/* A password that waits to be checked, or is. Its hash was copied, so that a reload does not affect it. */
struct check {
	struct login_turn turn; /* must be first */
	struct check *next;     /* in login.checks */
	struct login_key key;
	struct in6_addr from;
	char *user;            /* owned; NULL: there is no such user */
	char *hash;            /* owned; for an unknown user, the hash of some user: the check takes as long, and always fails */
	char *password;        /* owned */
	size_t n_password;
	unsigned rights;
	struct login_waiter *waiters; /* the newest first; NULL: all were dropped while it ran */
};

struct login {
	void (*answered)(struct login_waiter *w);
	struct mutex lock;
	pthread_cond_t queued;
	pthread_t worker;
	bool has_worker, closed;
	struct web_config *config;
	struct check *checks;  /* all, also the one that runs */
	struct check *running; /* NULL: none */
	struct login_turns turns;
	unsigned max_waiters;  /* requests that wait */
	struct login_known *known;
	struct login_failures *failures;
	struct login_proven *proven;
	struct bcrypt *bcrypt; /* the worker's */
	uint64_t seed;
	int64_t minute;        /* of the log's lines */
	unsigned n_lines, n_unsaid;
};

/* ---- what failed ---- */

/* A user's name is logged if it is one: else it may be a password that was typed into the wrong field. */
static void say_failed(struct login *l, const struct in6_addr *from, const char *what, const char *name, unsigned n) REQUIRES(l->lock)
{
	int64_t minute = clock_mono_ms() / 60000;
	char address[INET6_ADDRSTRLEN] = "?";
	if (minute != l->minute) {
		l->minute = minute;
		l->n_lines = 0;
	}
	if (l->n_lines++ >= LINES_A_MINUTE) {
		l->n_unsaid++;
		return;
	}
	if (IN6_IS_ADDR_V4MAPPED(from))
		inet_ntop(AF_INET, &from->s6_addr[12], address, sizeof address);
	else
		inet_ntop(AF_INET6, from, address, sizeof address);
	LOG_WARN("msg", n < LOGIN_FAILURES ? "a login failed" : "a login failed; the address has to wait for up to a minute", "address", address,
		 "what", what, "user", name ? name : "(unknown)", "failed_in_a_minute", LOG_NUM(n), "not_logged", LOG_NUM(l->n_unsaid));
	l->n_unsaid = 0;
}

static void note_failed(struct login *l, const struct login_key *key, const struct in6_addr *from, const char *what,
			const char *name) REQUIRES(l->lock)
{
	say_failed(l, from, what, name, login_failures_add(l->failures, from, key, clock_mono_ms()));
}

static void note_right(struct login *l, const struct login_key *key, const struct in6_addr *from) REQUIRES(l->lock)
{
	login_known_add(l->known, key);
	login_proven_add(l->proven, from);
}

static enum login_answer give(struct login_waiter *w, enum login_answer answer, unsigned retry_s, const char *reason)
{
	w->answer = answer;
	w->retry_s = retry_s;
	if (reason)
		httpd_metrics_login_refused(reason);
	return answer;
}

static enum login_answer give_rights(struct login_waiter *w, unsigned rights)
{
	bool any = w->right == HTTPD_RIGHT_ALL; /* of what there is no route for */
	return (any ? rights != 0 : (rights & w->right) == w->right) ? give(w, LOGIN_PASS, 0, NULL) : give(w, LOGIN_FORBIDDEN, 0, "right");
}

/* ---- the worker ---- */

static void check_free(struct check *c)
{
	if (c->password)
		explicit_bzero(c->password, c->n_password);
	free(c->password);
	free(c->user);
	free(c->hash);
	free(c);
}

/* Nobody else can reach it any more. */
static void answer_all(struct login *l, struct check *c, enum login_answer answer, unsigned retry_s, const char *reason) EXCLUDES(l->lock)
{
	struct login_waiter *next;
	for (struct login_waiter *w = c->waiters; w; w = next) {
		next = w->next;
		if (answer == LOGIN_PASS)
			give_rights(w, c->rights);
		else
			give(w, answer, retry_s, reason);
		l->answered(w);
	}
	check_free(c);
}

/* Takes it out of the queue; the caller owns it. */
static void remove_check(struct login *l, struct check *c) REQUIRES(l->lock)
{
	struct check **at = &l->checks;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	login_turns_remove(&c->turn);
}

/* Leaves the lock for bcrypt. The check stays in the queue meanwhile: requests with the same login join it, and its network has
 * its turn. */
static void run_one(struct login *l, struct check *c) REQUIRES(l->lock)
{
	l->running = c;
	unsigned wait = login_failures_wait(l->failures, &c->from, clock_mono_ms());
	bool right = false;
	if (!wait) {
		mutex_unlock(&l->lock);
		right = bcrypt_check(l->bcrypt, c->hash, view_make(c->password, c->n_password)) && c->user;
		httpd_metrics_login_checked();
		mutex_lock(&l->lock);
	}
	l->running = NULL;
	remove_check(l, c);
	if (right)
		note_right(l, &c->key, &c->from);
	else if (!wait)
		note_failed(l, &c->key, &c->from, "password", c->user);
	mutex_unlock(&l->lock);
	if (right)
		answer_all(l, c, LOGIN_PASS, 0, NULL);
	else if (wait)
		answer_all(l, c, LOGIN_LATER, wait, "waits");
	else
		answer_all(l, c, LOGIN_NEEDED, 0, "password");
	mutex_lock(&l->lock);
}

static void *worker_main(void *arg)
{
	struct login *l = arg;
	mutex_lock(&l->lock);
	while (!l->closed) {
		struct login_turn *t = login_turns_next(&l->turns);
		if (t)
			run_one(l, (struct check *)(void *)t);
		else
			mutex_wait(&l->lock, &l->queued);
	}
	mutex_unlock(&l->lock);
	return NULL;
}

/* ---- the way in ---- */

static struct check *same_check(struct login *l, const struct login_key *key) REQUIRES(l->lock)
{
	struct check *c = l->checks;
	while (c && memcmp(&c->key, key, sizeof *key) != 0)
		c = c->next;
	return c;
}

/* Always the same one for a name, so that different costs do not reveal unknown names. */
static const char *some_hash(const struct login *l, struct view name) REQUIRES(l->lock)
{
	return l->config->users[hash_bytes_seed(name.ptr, name.len, l->seed) % l->config->n_users].hash;
}

static struct check *add_check(struct login *l, const struct authorization *a, const struct in6_addr *from, const struct web_user *u,
			       const struct login_key *key) REQUIRES(l->lock)
{
	struct check *c = NEW(struct check);
	c->key = *key;
	c->from = *from;
	c->user = u ? xstrdup(u->name) : NULL;
	c->hash = xstrdup(u ? u->hash : some_hash(l, a->user));
	c->password = xmalloc(a->secret.len + 1);
	memcpy(c->password, a->secret.ptr, a->secret.len);
	c->n_password = a->secret.len;
	c->rights = u ? u->rights : 0;
	c->next = l->checks;
	l->checks = c;
	login_turns_add(&l->turns, &c->turn, from, login_proven_has(l->proven, from) ? LOGIN_PROVEN : LOGIN_OTHER);
	return c;
}

static bool has_worker(struct login *l) REQUIRES(l->lock)
{
	if (!l->has_worker)
		l->has_worker = thread_start(&l->worker, "httpd-login", worker_main, l, NULL) == 0;
	return l->has_worker;
}

/* One request more waits than may: answers one with LOGIN_BUSY. The caller tells it, unless it is the newcomer. */
static struct login_waiter *drop_one(struct login *l, struct check *newcomer) REQUIRES(l->lock)
{
	struct check *c = (struct check *)(void *)login_turns_fullest(&l->turns, &newcomer->turn);
	struct login_waiter *w = c->waiters;
	c->waiters = w->next;
	login_turns_less(&c->turn);
	if (!c->waiters && c != l->running) {
		remove_check(l, c);
		check_free(c);
	}
	give(w, LOGIN_BUSY, BUSY_SECONDS, "busy");
	return w;
}

/* *ret_dropped: another request, which now has its answer and must be told. */
static enum login_answer enqueue(struct login *l, const struct authorization *a, const struct in6_addr *from, const struct web_user *u,
				 const struct login_key *key, struct login_waiter *w, struct login_waiter **ret_dropped) REQUIRES(l->lock)
{
	if (l->closed || !has_worker(l))
		return give(w, LOGIN_BUSY, BUSY_SECONDS, "busy");
	struct check *c = same_check(l, key);
	if (c)
		login_turns_more(&c->turn);
	else
		c = add_check(l, a, from, u, key);
	w->next = c->waiters;
	c->waiters = w;
	pthread_cond_signal(&l->queued);
	struct login_waiter *dropped = login_turns_count(&l->turns) > l->max_waiters ? drop_one(l, c) : NULL;
	if (dropped == w)
		return LOGIN_BUSY;
	*ret_dropped = dropped;
	return LOGIN_ASKED;
}

/* All names are looked at: the time does not tell which there are. */
static const struct web_user *find_user(const struct web_config *c, struct view name)
{
	const struct web_user *found = NULL;
	for (size_t i = 0; i < c->n_users; i++)
		if (view_eqs(name, c->users[i].name))
			found = &c->users[i];
	return found;
}

static const struct web_token *find_token(const struct web_config *c, const unsigned char *sha256)
{
	const struct web_token *found = NULL;
	for (size_t i = 0; i < c->n_tokens; i++)
		if (gnutls_memcmp(c->tokens[i].sha256, sha256, WEB_SHA256) == 0)
			found = &c->tokens[i];
	return found;
}

static enum login_answer ask_password(struct login *l, struct view header, const struct authorization *a, const struct in6_addr *from,
				      bool queue, struct login_waiter *w, struct login_waiter **ret_dropped) REQUIRES(l->lock)
{
	const struct web_user *u = find_user(l->config, a->user);
	struct login_key key = login_known_key(l->known, from, header, u ? view_of(u->hash) : VIEW(""));
	if (u && login_known_has(l->known, &key)) {
		login_proven_add(l->proven, from);
		return give_rights(w, u->rights);
	}
	unsigned wait = login_failures_wait(l->failures, from, clock_mono_ms());
	if (wait)
		return give(w, LOGIN_LATER, wait, "waits");
	if (login_failures_has(l->failures, from, &key, clock_mono_ms()))
		return give(w, LOGIN_NEEDED, 0, "password");
	if (l->config->n_users)
		return queue ? enqueue(l, a, from, u, &key, w, ret_dropped) : LOGIN_ASKED;
	note_failed(l, &key, from, "password", NULL);
	return give(w, LOGIN_NEEDED, 0, "password");
}

static enum login_answer ask_token(struct login *l, struct view header, const struct authorization *a, const struct in6_addr *from,
				   struct login_waiter *w) REQUIRES(l->lock)
{
	unsigned char sha256[WEB_SHA256];
	web_config_hash(a->secret, sha256);
	const struct web_token *t = find_token(l->config, sha256);
	struct login_key key = login_known_key(l->known, from, header, view_make((char *)sha256, sizeof sha256));
	if (t && login_known_has(l->known, &key)) {
		login_proven_add(l->proven, from);
		return give_rights(w, t->rights);
	}
	unsigned wait = login_failures_wait(l->failures, from, clock_mono_ms());
	if (wait)
		return give(w, LOGIN_LATER, wait, "waits");
	if (t) {
		note_right(l, &key, from);
		return give_rights(w, t->rights);
	}
	if (!login_failures_has(l->failures, from, &key, clock_mono_ms()))
		note_failed(l, &key, from, "token", NULL);
	return give(w, LOGIN_NEEDED, 0, "token");
}

static enum login_answer ask(struct login *l, struct view header, const struct in6_addr *from, bool queue, struct login_waiter *w,
			     struct login_waiter **ret_dropped) REQUIRES(l->lock)
{
	struct authorization a;
	enum login_answer answer;
	if (!l->config || !(l->config->n_users || l->config->n_tokens))
		return give(w, LOGIN_PASS, 0, NULL);
	authorization_parse(header, &a);
	switch (a.kind) {
	case AUTHORIZATION_BASIC:
		answer = ask_password(l, header, &a, from, queue, w, ret_dropped);
		break;
	case AUTHORIZATION_BEARER:
		answer = ask_token(l, header, &a, from, w);
		break;
	default:
		return give(w, LOGIN_NEEDED, 0, a.kind == AUTHORIZATION_NONE ? "none" : "malformed");
	}
	authorization_clear(&a);
	return answer;
}

enum login_answer login_ask(struct login *l, struct view header, const struct in6_addr *from, unsigned right, bool queue,
			    struct login_waiter *w)
{
	struct login_waiter *dropped = NULL;
	*w = (struct login_waiter){ .right = right };
	mutex_lock(&l->lock);
	enum login_answer answer = ask(l, header, from, queue, w, &dropped);
	mutex_unlock(&l->lock);
	if (dropped)
		l->answered(dropped);
	return answer;
}

const char *login_challenge(struct login *l)
{
	mutex_lock(&l->lock);
	bool tokens_only = l->config && !l->config->n_users && l->config->n_tokens;
	mutex_unlock(&l->lock);
	return tokens_only ? "Bearer" : "Basic";
}

/* ---- the life ---- */

void login_set_config(struct login *l, struct web_config *c)
{
	mutex_lock(&l->lock);
	struct web_config *before = l->config;
	l->config = c ? web_config_ref(c) : NULL;
	mutex_unlock(&l->lock);
	web_config_unref(before);
}

struct login *login_new(void (*answered)(struct login_waiter *w), unsigned max_waiters)
{
	struct login *l = NEW(struct login);
	struct { uint8_t secret[LOGIN_KEY_BYTES]; uint64_t seeds[3]; } random;
	while (getrandom(&random, sizeof random, 0) != sizeof random)
		if (errno != EINTR)
			abort(); /* no random numbers: what is remembered could be guessed */
	l->answered = answered;
	l->max_waiters = max_waiters;
	mutex_init(&l->lock, RANK_LOGIN, "login");
	pthread_cond_init(&l->queued, NULL);
	l->known = login_known_new(random.secret);
	l->failures = login_failures_new(random.seeds[0]);
	l->seed = random.seeds[1];
	l->proven = login_proven_new(random.seeds[2]);
	l->bcrypt = bcrypt_new();
	explicit_bzero(&random, sizeof random);
	return l;
}

void login_close(struct login *l)
{
	mutex_lock(&l->lock);
	l->closed = true;
	pthread_cond_signal(&l->queued);
	mutex_unlock(&l->lock);
	if (l->has_worker)
		pthread_join(l->worker, NULL);
	l->has_worker = false;
	mutex_lock(&l->lock);
	while (l->checks) {
		struct check *c = l->checks;
		remove_check(l, c);
		mutex_unlock(&l->lock);
		answer_all(l, c, LOGIN_BUSY, BUSY_SECONDS, "busy");
		mutex_lock(&l->lock);
	}
	mutex_unlock(&l->lock);
}

void login_free(struct login *l)
{
	if (!l)
		return;
	login_close(l);
	login_set_config(l, NULL);
	login_known_free(l->known);
	login_failures_free(l->failures);
	login_proven_free(l->proven);
	bcrypt_free(l->bcrypt);
	pthread_cond_destroy(&l->queued);
	mutex_destroy(&l->lock);
	free(l);
}
