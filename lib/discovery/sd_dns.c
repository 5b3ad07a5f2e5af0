/* SPDX-License-Identifier: Apache-2.0 */
/* dns_sd_configs: targets that DNS records name. A thread asks for all names again every refresh_interval; each name is a
 * group. A name whose servers fail keeps its group, independently of the others. resolv.conf is read again each time. */
#include "discovery/sd_dns.h"

#include <arpa/inet.h>
#include <stdlib.h>

#include "discovery/refresh.h"

#include <arpa/nameser.h> /* brings a MIN of its own, so it comes last */

struct dns_config {
	struct config_strings names;
	int type; /* index of types */
	int64_t port, refresh_ms;
};

static const struct {
	const char *name;
	ns_type type;
} types[] = { { "SRV", ns_t_srv }, { "A", ns_t_a }, { "AAAA", ns_t_aaaa }, { "MX", ns_t_mx }, { "NS", ns_t_ns } };

/* ---- configuration ---- */

static int check_config(struct config_ctx *c, const struct config_node *n, void *at, struct err *e)
{
	const struct dns_config *d = at;
	if (!d->names.n)
		return config_error(c, n, e, "names has to name at least one record");
	for (size_t i = 0; i < d->names.n; i++)
		if (!d->names.v[i][0])
			return config_error(c, n, e, "an empty name");
	if (types[d->type].type != ns_t_srv && !d->port)
		return config_error(c, n, e, "type %s needs a port (only SRV records have one)", types[d->type].name);
	if (d->port > UINT16_MAX)
		return config_error(c, n, e, "port is above 65535");
	if (d->refresh_ms <= 0)
		return config_error(c, n, e, "refresh_interval has to be above 0");
	return 0;
}

static const struct config_field rows[] = {
	{ "names", CONFIG_STRINGS, offsetof(struct dns_config, names) },
	{ "type", CONFIG_ENUM, offsetof(struct dns_config, type), "SRV", .words = "SRV|A|AAAA|MX|NS" },
	{ "port", CONFIG_COUNT, offsetof(struct dns_config, port), "0" },
	{ "refresh_interval", CONFIG_DURATION, offsetof(struct dns_config, refresh_ms), "30s" },
};
static const struct config_table table = CONFIG_TABLE(struct dns_config, rows, check_config);

static int decode(struct config_ctx *c, const struct config_node *n, void **ret, struct err *e)
{
	*ret = arena_calloc(c->arena, 1, sizeof(struct dns_config));
	return config_decode(c, &table, n, *ret, e);
}

static bool same(const void *a, const void *b)
{
	return config_same(&table, a, b);
}

static void name(const void *config, struct buf *out)
{
	const struct dns_config *c = config;
	buf_puts(out, types[c->type].name);
	for (size_t i = 0; i < c->names.n; i++)
		buf_printf(out, "%s%s", i ? ", " : " ", c->names.v[i]);
}

/* ---- answers ---- */

/* The name within the data of a record, from byte `at` on. */
static int read_target(ns_msg *h, const ns_rr *rr, size_t at, char ret[NS_MAXDNAME], struct err *e)
{
	if (ns_rr_rdlen(*rr) <= at ||
	    ns_name_uncompress(ns_msg_base(*h), ns_msg_end(*h), ns_rr_rdata(*rr) + at, ret, NS_MAXDNAME) < 0)
		return err_set(e, ERR_BAD_DATA, "a record in the answer is malformed");
	return 0;
}

static void set_rooted(struct target_list *t, const char *label, const char *host)
{
	const char *rooted = arena_printf(&t->words, "%s.", host);
	if (rooted)
		target_set_text(t, label, rooted);
}

/* The labels of one record. *ret_none: the record says that the service does not exist (".", RFC 2782 and 7505). */
static int set_record(struct target_list *t, ns_msg *h, const ns_rr *rr, int64_t port, bool *ret_none, struct err *e)
{
	char host[NS_MAXDNAME] = "";
	const unsigned char *data = ns_rr_rdata(*rr);
	size_t n = ns_rr_rdlen(*rr);
	int rc = 0;
	switch ((int)ns_rr_type(*rr)) {
	case ns_t_a:
	case ns_t_aaaa:
		if (n != (ns_rr_type(*rr) == ns_t_a ? NS_INADDRSZ : NS_IN6ADDRSZ))
			return err_set(e, ERR_BAD_DATA, "an address in the answer is of a wrong length");
		inet_ntop(n == NS_INADDRSZ ? AF_INET : AF_INET6, data, host, sizeof host);
		break;
	case ns_t_srv:
		rc = read_target(h, rr, 6, host, e);
		port = rc ? 0 : data[4] << 8 | data[5];
		set_rooted(t, "__meta_dns_srv_record_target", host);
		target_set_int(t, "__meta_dns_srv_record_port", port);
		break;
	case ns_t_mx:
		rc = read_target(h, rr, 2, host, e);
		set_rooted(t, "__meta_dns_mx_record_target", host);
		break;
	default:
		rc = read_target(h, rr, 0, host, e);
		set_rooted(t, "__meta_dns_ns_record_target", host);
	}
	*ret_none = strcmp(host, ".") == 0;
	target_set_address(t, host, port);
	return rc;
}

int dns_read_answer(struct target_list *t, const unsigned char *msg, size_t n, int type, const char *record, int64_t port,
		    struct err *e)
{
	ns_msg h;
	ns_rr rr;
	if (n > INT32_MAX || ns_initparse(msg, (int)n, &h))
		return err_set(e, ERR_BAD_DATA, "%s: the answer is malformed", record);
	for (int i = 0; i < ns_msg_count(h, ns_s_an); i++) {
		bool none = false;
		if (ns_parserr(&h, ns_s_an, i, &rr))
			return err_set(e, ERR_BAD_DATA, "%s: the answer is malformed", record);
		if ((int)ns_rr_type(rr) != type || ns_rr_class(rr) != ns_c_in)
			continue; /* a CNAME on the way */
		int rc = set_record(t, &h, &rr, port, &none, e);
		if (rc)
			return err_wrap(e, "%s", record);
		target_set_text(t, "__meta_dns_name", record);
		if (none)
			target_list_drop(t);
		else
			target_list_add(t);
	}
	return 0;
}

/* ---- a refresh ---- */

struct dns_sd {
	const struct dns_config *config;
	const struct discovery_group **last; /* per name, what it had; NULL = nothing */
	/* during a refresh */
	const struct discovery_emit *emit;
	struct err *e;
	size_t failed;
};

static void keep(void *arg, const struct discovery_group *g)
{
	const struct discovery_group **to = arg;
	*to = discovery_group_copy(g);
}

/* The answer for name i becomes its group. */
static int take(struct dns_sd *d, size_t i, const unsigned char *answer, size_t n, struct err *e)
{
	const char *record = d->config->names.v[i];
	const struct discovery_group *now = NULL;
	const struct discovery_emit to = { .group = keep, .arg = &now };
	struct target_list t;
	target_list_init(&t);
	int rc = n ? dns_read_answer(&t, answer, n, types[d->config->type].type, record, d->config->port, e) : 0;
	if (!rc && t.v.n)
		rc = target_list_emit(&t, record, (struct labels){ 0 }, &to, e);
	target_list_free(&t);
	if (rc)
		return rc;
	if (d->last[i])
		discovery_group_unref(d->last[i]);
	d->last[i] = now;
	return 0;
}

static void on_name(void *arg, size_t i, const unsigned char *answer, size_t n, const struct err *wrong)
{
	struct dns_sd *d = arg;
	struct err e = { 0 };
	if (!wrong && take(d, i, answer, n, &e))
		wrong = &e;
	if (wrong && !d->failed++)
		*d->e = *wrong;
	if (d->last[i])
		d->emit->group(d->emit->arg, d->last[i]);
}

static int refresh(void *state, const struct discovery_emit *emit, const atomic_bool *cancel, struct err *e)
{
	struct dns_sd *d = state;
	struct dns_conf conf;
	int rc = dns_conf_read(&conf, DNS_RESOLV_CONF, e);
	if (rc)
		return rc;
	const struct dns_questions q = { .conf = &conf, .type = types[d->config->type].type, .names = d->config->names.v,
					 .n = d->config->names.n, .cancel = cancel, .done = on_name, .arg = d };
	d->emit = emit;
	d->e = e;
	d->failed = 0;
	rc = dns_ask(&q, e);
	dns_conf_free(&conf);
	/* If some of several names were answered, their groups are reported, with the problem of the others. */
	return !rc && d->failed == q.n ? -(int)e->code : rc;
}

static void release(void *state)
{
	struct dns_sd *d = state;
	for (size_t i = 0; i < d->config->names.n; i++)
		if (d->last[i])
			discovery_group_unref(d->last[i]);
	free(d->last);
	free(d);
}

extern const struct discovery_ops sd_dns;

static int start(struct discovery_provider **ret, const void *config, const struct discovery_emit *emit, struct err *e)
{
	const struct dns_config *c = config;
	const struct refresh_config r = { .kind = "dns", .interval_ms = c->refresh_ms, .refresh = refresh, .release = release };
	struct dns_sd *d = NEW(struct dns_sd);
	d->config = c;
	d->last = xcalloc(c->names.n, sizeof *d->last);
	return refresh_start(ret, &sd_dns, &r, d, emit, e);
}

const struct discovery_ops sd_dns = { .key = "dns_sd_configs", .decode = decode, .same = same, .start = start,
				      .stop = refresh_stop, .cancel = refresh_cancel, .name = name };
