/* SPDX-License-Identifier: Apache-2.0 */
/* resolv.conf: the servers, the timeout and number of attempts, and the search domains. c-ares 1.18 reads that file as well, but not
 * the options timeout and attempts. */
#include "base/num.h"
#include "discovery/sd_dns.h"

#define FILE_BYTES ((size_t)1 << 20)

/* The next word of a line, taken off it; empty at its end. */
static struct view take_word(struct view *line)
{
	while (line->len && strchr(" \t\r", line->ptr[0]))
		*line = view_make(line->ptr + 1, line->len - 1);
	size_t n = 0;
	while (n < line->len && !strchr(" \t\r", line->ptr[n]))
		n++;
	struct view word = view_make(line->ptr, n);
	*line = view_make(line->ptr + n, line->len - n);
	return word;
}

static const char *keep(struct dns_conf *c, struct view v)
{
	return arena_strndup(&c->arena, v.ptr, v.len);
}

/* "name:7", between the bounds. */
static void read_option(struct view word, struct view name, int64_t least, int64_t most, int factor, int *to)
{
	int64_t v;
	if (view_starts(word, name) && num_parse_i64(view_make(word.ptr + name.len, word.len - name.len), &v))
		*to = (int)MAX(least, MIN(v, most)) * factor;
}

static void read_line(struct dns_conf *c, struct view line)
{
	struct view key = take_word(&line), word;
	if (view_eqs(key, "nameserver")) {
		word = take_word(&line);
		if (word.len && c->n_servers < DNS_MAX_SERVERS)
			c->servers[c->n_servers++] = keep(c, word);
	} else if (view_eqs(key, "search") || view_eqs(key, "domain")) {
		c->n_search = 0; /* the last such line counts */
		while ((word = take_word(&line)).len && c->n_search < DNS_MAX_SEARCH)
			c->search[c->n_search++] = keep(c, word);
	} else if (view_eqs(key, "options")) {
		while ((word = take_word(&line)).len) {
			read_option(word, VIEW("ndots:"), 0, 15, 1, &c->ndots);
			read_option(word, VIEW("timeout:"), 1, 30, 1000, &c->timeout_ms);
			read_option(word, VIEW("attempts:"), 1, 5, 1, &c->attempts);
		}
	}
}

void dns_conf_parse(struct dns_conf *ret, struct view text)
{
	*ret = (struct dns_conf){ .ndots = 1, .timeout_ms = 5000, .attempts = 2, .port = 53 };
	arena_init(&ret->arena, 0);
	while (text.len) {
		const char *end = memchr(text.ptr, '\n', text.len);
		size_t n = end ? (size_t)(end - text.ptr) : text.len, comment = 0;
		while (comment < n && !strchr("#;", text.ptr[comment]))
			comment++;
		read_line(ret, view_make(text.ptr, comment));
		n += end != NULL;
		text = view_make(text.ptr + n, text.len - n);
	}
	if (!ret->n_servers)
		ret->servers[ret->n_servers++] = "127.0.0.1";
}

int dns_conf_read(struct dns_conf *ret, const char *path, struct err *e)
{
	struct buf text = { .max = FILE_BYTES };
	int rc = buf_read_file(&text, path, e);
	if (!rc)
		dns_conf_parse(ret, buf_view(&text));
	buf_free(&text);
	return rc;
}

void dns_conf_free(struct dns_conf *c)
{
	arena_free(&c->arena);
}

static int count_dots(const char *name)
{
	int n = 0;
	for (; *name; name++)
		n += *name == '.';
	return n;
}

static const char *in_domain(struct dns_conf *c, const char *name, const char *domain)
{
	while (*domain == '.')
		domain++;
	return arena_printf(&c->arena, view_ends(view_of(domain), VIEW(".")) || !*domain ? "%s.%s" : "%s.%s.", name, domain);
}

size_t dns_conf_names(struct dns_conf *c, const char *name, const char *ret[DNS_MAX_SEARCH + 1])
{
	size_t n = 0;
	if (view_ends(view_of(name), VIEW("."))) {
		ret[n++] = name;
		return n;
	}
	bool as_it_is_first = count_dots(name) >= c->ndots;
	if (as_it_is_first)
		ret[n++] = in_domain(c, name, "");
	for (size_t i = 0; i < c->n_search; i++)
		ret[n++] = in_domain(c, name, c->search[i]);
	if (!as_it_is_first)
		ret[n++] = in_domain(c, name, "");
	return n;
}
