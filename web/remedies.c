/* SPDX-License-Identifier: Apache-2.0 */
/* Remedies for failed scrapes: the first step, in plain words, selected by the words of the error (scraper/, lib/fetch/). Real targets
 * fail in each way of the transport in tests/remedies_test.c, and as pages in tests/e2e/test_page_around.py, so that a new wording is
 * noticed. */
#include "web/remedies.h"

#include <ctype.h>
#include <stdlib.h>

#include "base/units.h"
#include "base/vec.h"

#define SHOWN 1000 /* bytes of an error that are looked at */

/* In the advice: %h host and port, %n host, %p path, %t the scrape_timeout, %u what curl is told: the URL, with the target's unix socket if it has one. The first row with a text in the error (compared in lower
 * case) counts. Rows for the begin of errors come before those for quoted parts. */
static const struct {
	const char *words[7];
	const char *advice;
} table[] = {
	{ { "not stored: " }, "The target is well; the storage refused what came. See its limits on the page Status, and whether its disk is full." },
	{ { "measures for " }, "Go gives one CPU profile at a time. Give each server its --scrape.replica, lower seconds, or ask the target from one job only." },
	{ { "oauth2: asking for a token", "oauth2: the token url" }, "The token could not be had: check oauth2 of the job, its token_url and its secret." },
	{ { "https server", "to https port", "ssl-enabled server" }, "It speaks TLS: write scheme: https into the job." },
	{ { "http status 401" }, "It wants a login: give the job basic_auth, authorization or oauth2, or check the one it has." },
	{ { "http status 403" }, "It refuses who asks: check what the job's login may do, and whether it takes requests from this address and for this host name." },
	{ { "http status 404" }, "There is nothing at %p. Check the path: in a program in Go, import net/http/pprof and serve its mux. A profile that is served elsewhere has its path in pprof_config; one that is not served is switched off there by enabled: false." },
	{ { "http status 407", "tunnel failed, response 407", "http code 407 from proxy" }, "The proxy wants a login: put it into proxy_url, or into proxy_connect_header." },
	{ { "http status 429" }, "It is asked too often: raise scrape_interval, or ask it from fewer jobs and servers." },
	{ { "http status 5" }, "The target itself has trouble: look into its log. Open the URL to see what it says." },
	{ { "http status 3" }, "It leads elsewhere: set follow_redirects: true, or write the address it leads to." },
	{ { "http status" }, "Open the URL to see what it says." },
	{ { "tunnel failed", "from proxy after connect" }, "The proxy does not connect to %h: check proxy_url, and look into the proxy's log." },
	{ { "name was not looked up" }, "The name server does not answer in time. On the server's machine try: getent hosts %n" },
	{ { "resolve proxy" }, "The server's machine does not know the name of the proxy: check proxy_url." },
	{ { "resolve host", "resolving" }, "The server's machine does not know the name %n. Check how it is written; there, try: getent hosts %n. In containers, both have to be in one network." },
	{ { "as many files open", "no local port" }, "The server ran into a limit of its machine, not the target: see what the message names." },
	{ { "refused" }, "Nothing listens at %h. Is the program running, on that port, and on an address that the server reaches? One that listens on 127.0.0.1 of its own container does not." },
	{ { "no route", "unreachable" }, "There is no way to %h from the server's machine. Check the address and the routes." },
	{ { "does not match", "no alternative certificate", "subject name" }, "The certificate is for another name: set server_name in tls_config to the name it has." },
	{ { "expired", "not yet valid" }, "Its certificate is out of date, or a clock is wrong: renew it." },
	{ { "wrong version number", "packet length", "unexpected packet" }, "It does not speak TLS: write scheme: http into the job." },
	{ { "certificate required", "bad certificate", "handshake failure", "alert" }, "It wants a certificate of the server: set cert_file and key_file in tls_config." },
	{ { "certificate", "verif", "self-signed" }, "The server does not trust its certificate: name the authority by ca_file in tls_config." },
	{ { "ssl", "tls" }, "TLS does not come about: check scheme and tls_config of the job." },
	{ { "body is larger", "body_size_limit" }, "What comes is larger than the job takes: raise its body_size_limit, or see what made the profile so large." },
	{ { "sample_limit" }, "It has more than the job takes: raise sample_limit, or drop what is not needed by metric_relabel_configs." },
	{ { "series_limit" }, "A label takes a new value all the time: drop it by metric_relabel_configs, or raise series_limit." },
	{ { "target_limit" }, "Discovery tells of more targets than the job takes: narrow it by relabel_configs, or raise target_limit." },
	{ { "label_limit", "label_name_length", "label_value_length" }, "Its labels are more or longer than the job takes: drop some by metric_relabel_configs, or raise the limit." },
	{ { "--scrape.memory", "memory of all scrapes" }, "All scrapes together have used up their memory: raise --scrape.memory, or scrape less at a time." },
	{ { "of cpu time" }, "The profile is too large to be decoded in time. Profile for fewer seconds, or see why it has so many stacks." },
	{ { "metrics as text" }, "These are metrics: name their path by metrics_path, and check the path of the profile." },
	{ { "not a profile", "pprof: ", "gzip" }, "What answers at %p is no profile, or a damaged one. Open the URL: is it the program you mean, and the path of a profile?" },
	{ { "of the metrics", "openmetrics", "content-type" }, "Its metrics are not in the text format 0.0.4. Check them: curl %u | promtool check metrics" },
	{ { "cut short" }, "The target ended its answer early. In a program in Go, WriteTimeout of the HTTP server has to be longer than the profile takes; else look into its log." },
	{ { "without an answer", "reset by peer", "recv failure", "http/0.9" }, "It closes the connection. If it speaks TLS, write scheme: https into the job; else look into its log." },
	{ { "metric_relabel_configs" }, "A rule of metric_relabel_configs cannot be applied: the message says which." },
	{ { "the agent" }, "It is asked again at the next scrape. If it goes on: is its clock right, and --history long enough?" },
	{ { "" }, "Open the URL from the server's machine to see what it answers: curl -v %u" },
};

/* "http://host:80/path?query": host with its port, host alone, path. port: only if host has none. socket: if not empty, the path of a
 * Unix socket that is dialled instead of the host. */
struct place {
	struct view host, name, path, port, socket;
};

static struct place place_of(struct view url)
{
	struct place p = { .path = url };
	const char *end = url.ptr + url.len, *scheme = memmem(url.ptr, url.len, "://", 3), *at = scheme ? scheme + 3 : url.ptr;
	const char *slash = memchr(at, '/', (size_t)(end - at)), *query;
	p.host = view_make(at, (size_t)((slash ? slash : end) - at));
	p.path = slash ? view_make(slash, (size_t)(end - slash)) : VIEW("/");
	if ((query = memchr(p.path.ptr, '?', p.path.len)))
		p.path.len = (size_t)(query - p.path.ptr);
	const char *colon = memrchr(p.host.ptr, ':', p.host.len), *bracket = memrchr(p.host.ptr, ']', p.host.len);
	p.name = p.host;
	if (colon && colon > (bracket ? bracket : p.host.ptr))
		p.name.len = (size_t)(colon - p.host.ptr);
	return p;
}

/* For a row without a text: an empty one, which every error contains. */
static struct view url_of(const struct status_target *t)
{
	return t->scrape_url.len ? t->scrape_url : VIEW("");
}

/* Seconds that a profile takes by itself, of its URL; 0: it takes none. */
static long seconds_of(struct view url)
{
	static const char key[] = "seconds=";
	const char *at = memmem(url.ptr, url.len, key, sizeof key - 1);
	long n = 0;
	for (at = at ? at + sizeof key - 1 : url.ptr + url.len; at < url.ptr + url.len && *at >= '0' && *at <= '9' && n < 100000; at++)
		n = 10 * n + *at - '0';
	return n;
}

static void put_advice(struct buf *out, const char *advice, const struct place *p, const char *timeout)
{
	for (; *advice; advice++) {
		char c = *advice == '%' ? advice[1] : 0;
		if (c == 'h' || c == 'n' || c == 'p')
			buf_putv(out, c == 'h' ? p->host : c == 'n' ? p->name : p->path);
		else if (c == 't')
			buf_puts(out, timeout);
		else if (c == 'u')
			buf_printf(out, p->socket.len ? "--unix-socket %.*s URL" : "%.*sURL", VIEW_ARG(p->socket));
		else
			buf_putc(out, *advice);
		if (c == 'h' && p->port.len)
			buf_printf(out, ":%.*s", VIEW_ARG(p->port));
		advice += strchr("hnptu", c) && c ? 1 : 0;
	}
}

static const char *timed_out(const struct status_target *t, struct view text, const struct place *p)
{
	bool is_address = p->name.len && (isdigit((unsigned char)p->name.ptr[0]) || p->name.ptr[0] == '[');
	if (view_contains(text, VIEW("not resolved")) && !is_address)
		return "The name server does not answer in time. On the server's machine try: getent hosts %n";
	if (view_contains(text, VIEW("no connection")))
		return "Packets to %h get lost. Check the address, and firewalls, security groups or network policies between.";
	if (seconds_of(url_of(t)) * 1000 >= t->timeout_ms)
		return "The profile takes as many seconds by itself: raise scrape_timeout (%t) above that.";
	return "It takes longer than scrape_timeout (%t). Raise that, or see what keeps the target busy: curl -o /dev/null -w '%{time_total}' %u";
}

/* Replaces a name by blanks, wherever it is not a part of another word: names of hosts are anything. */
static void blank_name(char *text, size_t n, struct view name)
{
	char small[256];
	for (size_t i = 0; i < name.len && i < sizeof small; i++)
		small[i] = (char)tolower((unsigned char)name.ptr[i]);
	for (size_t at = 0; name.len && name.len <= sizeof small && at + name.len <= n; at++) {
		bool part = (at && isalnum((unsigned char)text[at - 1])) || (at + name.len < n && isalnum((unsigned char)text[at + name.len]));
		if (!part && !memcmp(text + at, small, name.len))
			memset(text + at, ' ', name.len);
	}
}

/* The words of an error that are our own or curl's, in small letters. What a target wrote would select any row: the text of its error page (but for 400,
 * where servers say that they speak TLS), a line of its metrics, the name of a series, its own name. */
static struct view own_words(char *small, size_t n, struct view name)
{
	static const char status[] = "http status ", line[] = " of the metrics", over[] = " is over ";
	struct view text = view_make(small, n);
	const char *at = view_starts(text, VIEW("the server answered ")) || view_starts(text, VIEW("not served there ")) ? memmem(small, n, status, sizeof status - 1) : NULL;
	if (at && !view_starts(view_make(at, (size_t)(small + n - at)), VIEW("http status 400")))
		text.len = MIN(n, (size_t)(at - small) + sizeof status - 1 + 3);
	if (view_starts(text, VIEW("line ")) && (at = memmem(small, n, line, sizeof line - 1)))
		text.len = (size_t)(at - small) + sizeof line - 1;
	if (view_starts(text, VIEW("a series ")))
		for (at = small; (at = memmem(at, (size_t)(small + n - at), over, sizeof over - 1)); at++)
			text = view_make(at, (size_t)(small + n - at));
	blank_name(small, n, name);
	return text;
}

/* Where curl could not connect: a proxy, or where a redirect leads. Without an end: the target itself. */
static struct place dialled(struct view said, struct view text, struct place p)
{
	static const char to[] = "failed to connect to ", port[] = " port ";
	const char *at = memmem(text.ptr, text.len, to, sizeof to - 1), *end = text.ptr + text.len, *after;
	at = at ? at + sizeof to - 1 : NULL;
	after = at ? memmem(at, (size_t)(end - at), port, sizeof port - 1) : NULL;
	if (!after)
		return p;
	const char *digits = after + sizeof port - 1, *last = digits;
	while (last < end && isdigit((unsigned char)*last))
		last++;
	p.name = view_make(said.ptr + (at - text.ptr), (size_t)(after - at));
	p.port = view_make(said.ptr + (digits - text.ptr), (size_t)(last - digits));
	p.host = p.name;
	return p;
}

/* NULL: the error is not that a unix socket could not be dialled. curl has no word of why if the socket is not there. */
static const char *remedy_of_socket(struct view text)
{
	if (view_starts(text, VIEW("cannot connect: permission denied")))
		return "The server may not use the target's unix socket: check its mode, and those of its folders. As the server's user, try: curl -v %u";
	if (view_starts(text, VIEW("failed to connect to ")) || view_starts(text, VIEW("cannot connect: connection refused")) || view_starts(text, VIEW("cannot connect: no such file")))
		return "Nothing listens on the target's unix socket. Is the program running, and does the server (or its container) have that file? Try there: curl -v %u";
	return NULL;
}

static const char *advice_on(struct view text)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		for (size_t k = 0; k < ARRAY_LEN(table[i].words) && table[i].words[k]; k++)
			if (view_contains(text, view_of(table[i].words[k])))
				return table[i].advice;
	return "";
}

void remedy_put(struct buf *out, const struct status_target *t)
{
	char small[SHOWN] = "", timeout[DURATION_LEN];
	struct view said = t->last_error.len ? t->last_error : t->note;
	struct view text = view_make(small, MIN(said.len, sizeof small));
	struct place p = place_of(url_of(t));
	if (!t->last_error.len && !view_starts(said, VIEW("not served")))
		return;
	for (size_t i = 0; i < text.len; i++)
		small[i] = (char)tolower((unsigned char)said.ptr[i]);
	struct place to = dialled(said, text, p);
	to.socket = t->socket;
	const char *advice = view_starts(text, VIEW("timed out")) ? timed_out(t, text, &p) : t->socket.len ? remedy_of_socket(text) : NULL;
	blank_name(small, text.len, to.name);
	advice = advice ? advice : advice_on(own_words(small, text.len, p.name));
	put_advice(out, advice, &to, units_format_duration(t->timeout_ms, timeout));
}
