/* SPDX-License-Identifier: Apache-2.0 */
/* The current key, and who fetches the next one. A key is good until it expires by the wall clock; when to fetch is decided by the monotonic one, so
 * that a jump of the wall clock does not make every request ask. */
#include "bucket/credentials.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/flag.h"
#include "bucket/credentials_source.h"

#define CREDENTIALS_EARLY_MS (5 * 60 * 1000)
#define CREDENTIALS_RETRY_MS 5000  /* between failures, while there are old ones */
#define CREDENTIALS_YOUNG_MS 10000 /* younger ones are not fetched anew, whatever S3 says */

struct credentials {
	const struct s3_config *config;
	const atomic_bool *stop;
	struct mutex lock;
	pthread_cond_t changed;
	struct credentials_found now; /* lock guards it, as all below; access_key NULL = none */
	bool fetching;                /* a thread is at it, without the lock */
	int64_t fetch_ms;             /* monotonic: when the next ones are to be fetched */
	int64_t fetched_ms;           /* monotonic: when these came */
	uint64_t rounds;              /* fetches that ended */
	struct err last;              /* of the last fetch; code 0 = it succeeded */
};

struct credentials *credentials_new(const struct s3_config *c, const atomic_bool *stop)
{
	struct credentials *n = NEW(struct credentials);
	n->config = c;
	n->stop = stop;
	mutex_init(&n->lock, LOCK_LEAF, "credentials");
	pthread_cond_init(&n->changed, NULL);
	return n;
}

void credentials_free(struct credentials *c)
{
	if (!c)
		return;
	credentials_key_release(&c->now.key);
	pthread_cond_destroy(&c->changed);
	mutex_destroy(&c->lock);
	free(c);
}

bool credentials_renewable(const struct credentials *c)
{
	return !*c->config->access_key;
}

/* The first source that is configured decides: to try the next one after a failure would hide it, and may use somebody else's rights. */
static int credentials_fetch(const struct credentials *c, struct credentials_found *ret, struct err *e)
{
	const struct s3_config *s = c->config;
	if (*s->access_key)
		return credentials_found_set(ret, "object_storage", view_of(s->access_key), view_of(s->secret_key), view_of(s->session_token), e);
	int rc = credentials_from_env(ret, e);
	if (rc == 1)
		rc = credentials_from_web_identity(s, c->stop, ret, e);
	if (rc == 1)
		rc = credentials_from_file(ret, e);
	if (rc == 1)
		rc = credentials_from_container(c->stop, ret, e);
	if (rc == 1)
		rc = credentials_from_ec2(c->stop, ret, e);
	if (rc == 1)
		rc = err_set(e, ERR_DENIED, "there are no credentials: none in the section, the environment, ~/.aws/credentials, and no role is set up");
	if (!rc && ret->expires_ms <= clock_now_ms()) {
		credentials_key_release(&ret->key);
		rc = err_set(e, ERR_DENIED, "credentials came that have expired already (is this host's clock right?)");
	}
	return rc;
}

static bool credentials_good(const struct credentials *c) REQUIRES(c->lock)
{
	return c->now.key.access_key && clock_now_ms() < c->now.expires_ms;
}

/* How long until the next fetch: five minutes before the end, or in the middle of a short life. */
static int64_t credentials_wait_ms(const struct credentials_found *f)
{
	if (f->expires_ms == INT64_MAX)
		return f->reread_ms ? f->reread_ms : INT64_MAX / 2;
	int64_t left = MAX(f->expires_ms - clock_now_ms(), 0);
	return MAX(left > 2 * CREDENTIALS_EARLY_MS ? left - CREDENTIALS_EARLY_MS : left / 2, 1000);
}

static void credentials_renew(struct credentials *c) REQUIRES(c->lock)
{
	struct credentials_found found = { 0 };
	struct err e = { 0 };
	c->fetching = true;
	mutex_unlock(&c->lock);
	int rc = credentials_fetch(c, &found, &e);
	mutex_lock(&c->lock);
	c->fetching = false;
	c->rounds++;
	c->last = e;
	int64_t now = clock_mono_ms();
	if (rc) {
		c->fetch_ms = now + CREDENTIALS_RETRY_MS;
	} else {
		c->last = (struct err){ 0 };
		credentials_key_release(&c->now.key);
		c->now = found;
		c->fetched_ms = now;
		c->fetch_ms = now + credentials_wait_ms(&found);
	}
	pthread_cond_broadcast(&c->changed);
}

static bool credentials_stopped(const struct credentials *c)
{
	return c->stop && atomic_load(c->stop);
}

/* Without a good key: fetches one, or waits for the thread that does. Its failure is the failure of all who waited. */
static int credentials_obtain(struct credentials *c, struct err *e) REQUIRES(c->lock)
{
	uint64_t round = c->rounds;
	if (!c->fetching)
		credentials_renew(c);
	while (c->rounds == round && !credentials_stopped(c))
		mutex_wait(&c->lock, &c->changed);
	if (credentials_good(c))
		return 0;
	if (c->last.code)
		return err_set(e, c->last.code, "%s", c->last.msg);
	return err_set(e, credentials_stopped(c) ? ERR_CANCELED : ERR_UNAVAILABLE, "no credentials came");
}

int credentials_get(struct credentials *c, struct credentials_key *ret, struct err *e)
{
	struct flag_watch w;
	int rc = 0;
	flag_watch(&w, c->stop, &c->lock, &c->changed);
	mutex_lock(&c->lock);
	if (!credentials_good(c))
		rc = credentials_obtain(c, e);
	else if (clock_mono_ms() >= c->fetch_ms && !c->fetching)
		credentials_renew(c);
	if (!rc && !c->now.key.access_key)
		rc = err_set(e, ERR_UNAVAILABLE, "no credentials came");
	if (!rc) {
		const struct credentials_key *k = &c->now.key;
		*ret = (struct credentials_key){ xstrdup(k->access_key), xstrdup(k->secret_key), xstrdup(k->session_token) };
	}
	mutex_unlock(&c->lock);
	flag_unwatch(&w);
	return rc;
}

void credentials_reject(struct credentials *c, const char *access_key)
{
	mutex_lock(&c->lock);
	int64_t now = clock_mono_ms();
	if (credentials_renewable(c) && c->now.key.access_key && strcmp(c->now.key.access_key, access_key) == 0 && now - c->fetched_ms >= CREDENTIALS_YOUNG_MS)
		c->now.expires_ms = 0;
	mutex_unlock(&c->lock);
}
