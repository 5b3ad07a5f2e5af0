/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a web configuration. What is refused says why, and where; what is taken keeps its promises. */
#include <string.h>

#include "httpd/web_config.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_target[] = "webconfig";

static void count(void *arg, const char *text)
{
	REQUIRE(strncmp(text, "fuzz.yml:", 9) == 0, "%s", text);
	++*(size_t *)arg;
}

static void no_matter(void *arg, const char *text)
{
	(void)arg;
	REQUIRE(text[0], "a warning without words");
}

static bool is_shown(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < ' ' || *s == 0x7f)
			return false;
	return true;
}

static void keeps_promises(const struct web_config *w)
{
	for (size_t i = 0; i < w->n_users; i++) {
		const struct web_user *u = &w->users[i];
		REQUIRE(u->name[0] && !strchr(u->name, ':') && strlen(u->hash) == 60, "%s", u->name);
		REQUIRE(u->rights && !(u->rights & ~(unsigned)HTTPD_RIGHT_ALL), "%u", u->rights);
	}
	for (size_t i = 0; i < w->n_tokens; i++)
		REQUIRE(w->tokens[i].name[0] && w->tokens[i].rights && !(w->tokens[i].rights & ~(unsigned)HTTPD_RIGHT_ALL), "%s", w->tokens[i].name);
	for (size_t i = 0; i < w->n_headers; i++)
		REQUIRE(is_shown(w->headers[i].value), "%s", w->headers[i].value);
	REQUIRE(w->rate_interval_ns >= 0 && w->rate_burst >= 0, "%lld", (long long)w->rate_interval_ns);
	REQUIRE(w->tls || w->client_auth == WEB_NO_CLIENT_CERT, "client certificates without TLS");
	REQUIRE(!w->client_sans == !w->n_client_sans || w->client_sans, "names");
	REQUIRE(web_config_has_login(w) || !(w->n_users || w->n_tokens), "users are no login");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct web_config *w = NULL;
	size_t problems = 0;
	struct web_config_how how = { .problem = count, .warn = no_matter, .arg = &problems };
	struct err e = { 0 };
	if (n > 1 << 14)
		return 0;
	int rc = web_config_parse(&w, view_make((const char *)data, n), "fuzz.yml", &how, &e);
	REQUIRE(rc ? e.msg[0] && problems && !w : w && !problems, "%d %zu %s", rc, problems, e.msg);
	if (!w)
		return 0;
	keeps_promises(w);
	web_config_unref(w);
	return 0;
}
