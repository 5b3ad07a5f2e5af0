/* SPDX-License-Identifier: Apache-2.0 */
/* Containers as a Docker engine lists them, into targets:
 *
 *	container ──► its networks (of "container:ID": those of that one) ──► its TCP ports, or else options.port
 *
 * Labels: container_* of the container, port_* of the port, network_* of the network by its id. */
#include <arpa/inet.h>

#include "discovery/sd_docker.h"

#define LABEL(name) "__meta_docker_" name
#define CHAIN_MAX 16 /* "container:ID" of "container:ID" of ...: a loop ends there */

struct reading {
	struct target_list *t;
	const struct docker_options *o;
	struct answer_reader r;
	json_t *by_id;       /* id -> container; borrowed references */
	json_t *networks;    /* id -> network */
};

/* id -> object, of the members `key` of a list. */
static json_t *index_by(struct answer_reader *r, json_t *list, const char *key)
{
	json_t *ret = json_object(), *item;
	size_t i;
	json_array_foreach(list, i, item) {
		const char *id = answer_text(r, answer_as_object(r, item, "an item"), key);
		if (*id)
			json_object_set(ret, id, item);
	}
	return ret;
}

static void set_map(struct reading *d, const char *prefix, json_t *labels)
{
	const char *key;
	json_t *value;
	json_object_foreach(labels, key, value)
		target_set_keyed(d->t, prefix, key, answer_as_view(&d->r, value, key));
}

static void set_container(struct reading *d, const json_t *c, const char *mode)
{
	target_set_text(d->t, LABEL("container_id"), answer_text(&d->r, c, "Id"));
	target_set_text(d->t, LABEL("container_name"), answer_as_text(&d->r, json_array_get(answer_list(&d->r, c, "Names"), 0), "Names"));
	target_set_text(d->t, LABEL("container_network_mode"), mode);
	target_set_text(d->t, LABEL("container_image"), answer_text(&d->r, c, "Image"));
	target_set_text(d->t, LABEL("container_image_id"), answer_text(&d->r, c, "ImageID"));
	set_map(d, LABEL("container_label_"), answer_object(&d->r, c, "Labels"));
}

static void set_network(struct reading *d, const char *id)
{
	const json_t *n = json_object_get(d->networks, id);
	if (!n)
		return;
	target_set_text(d->t, LABEL("network_id"), id);
	target_set_text(d->t, LABEL("network_name"), answer_text(&d->r, n, "Name"));
	target_set_text(d->t, LABEL("network_scope"), answer_text(&d->r, n, "Scope"));
	target_set_text(d->t, LABEL("network_internal"), answer_bool(&d->r, n, "Internal") ? "true" : "false");
	target_set_text(d->t, LABEL("network_ingress"), answer_bool(&d->r, n, "Ingress") ? "true" : "false");
	set_map(d, LABEL("network_label_"), answer_object(&d->r, n, "Labels"));
}

/* An IP address; "" if it is missing or malformed (engines have sent "invalid IP"). */
static const char *read_ip(struct reading *d, const json_t *object, const char *key)
{
	unsigned char address[sizeof(struct in6_addr)];
	const char *ip = answer_text(&d->r, object, key);
	return inet_pton(strchr(ip, ':') ? AF_INET6 : AF_INET, ip, address) == 1 ? ip : "";
}

struct docker_endpoint {
	const char *ip, *network_id;
};

static struct docker_endpoint read_endpoint(struct reading *d, const json_t *network)
{
	const char *v4 = read_ip(d, network, "IPAddress"), *v6 = read_ip(d, network, "GlobalIPv6Address");
	return (struct docker_endpoint){ *v4 ? v4 : v6, answer_text(&d->r, network, "NetworkID") };
}

static void add_port(struct reading *d, const json_t *c, const char *mode, const struct docker_endpoint *at, const json_t *port)
{
	int64_t private = answer_count(&d->r, port, "PrivatePort", UINT16_MAX), public = answer_count(&d->r, port, "PublicPort", UINT16_MAX);
	set_container(d, c, mode);
	target_set_text(d->t, LABEL("network_ip"), at->ip);
	target_set_int(d->t, LABEL("port_private"), private);
	if (public) {
		target_set_int(d->t, LABEL("port_public"), public);
		target_set_text(d->t, LABEL("port_public_ip"), read_ip(d, port, "IP"));
	}
	set_network(d, at->network_id);
	target_set_address(d->t, at->ip, private);
	target_list_add(d->t);
}

static void add_without_port(struct reading *d, const json_t *c, const char *mode, const struct docker_endpoint *at)
{
	bool on_host = strcmp(mode, "host") == 0;
	set_container(d, c, mode);
	target_set_text(d->t, LABEL("network_ip"), at->ip);
	set_network(d, at->network_id);
	target_set_address(d->t, on_host ? d->o->host_networking_host : at->ip, on_host ? -1 : d->o->port);
	target_list_add(d->t);
}

static void add_network(struct reading *d, const json_t *c, const char *mode, json_t *network)
{
	struct docker_endpoint at = read_endpoint(d, network);
	json_t *ports = answer_list(&d->r, c, "Ports"), *port;
	bool added = false;
	size_t i;
	json_array_foreach(ports, i, port) {
		if (strcmp(answer_text(&d->r, answer_as_object(&d->r, port, "Ports"), "Type"), "tcp") != 0)
			continue;
		add_port(d, c, mode, &at, port);
		added = true;
		if (d->r.rc || d->t->too_large)
			return;
	}
	if (!added)
		add_without_port(d, c, mode, &at);
}

static const char *mode_of(struct reading *d, const json_t *c)
{
	return answer_text(&d->r, answer_object(&d->r, c, "HostConfig"), "NetworkMode");
}

static json_t *networks_of(struct reading *d, const json_t *c)
{
	json_t *n = answer_object(&d->r, answer_object(&d->r, c, "NetworkSettings"), "Networks");
	return json_object_size(n) ? n : NULL;
}

/* Its networks, or those of the container whose network it shares. NULL = none. */
static json_t *find_networks(struct reading *d, const json_t *c)
{
	json_t *n = networks_of(d, c);
	for (int i = 0; !n && c && i < CHAIN_MAX; i++) {
		struct view mode = view_of(mode_of(d, c)), other = VIEW("container:");
		if (!view_starts(mode, other))
			return NULL;
		c = json_object_get(d->by_id, mode.ptr + other.len);
		n = c ? networks_of(d, c) : NULL;
	}
	return n;
}

static json_t *first_by_name(struct reading *d, json_t *networks)
{
	const char *key, *first = NULL;
	json_t *value, *ret = NULL;
	json_object_foreach(networks, key, value) {
		if (json_is_null(value) || (first && strcmp(key, first) > 0))
			continue;
		first = key;
		ret = answer_as_object(&d->r, value, key);
	}
	return ret;
}

static void add_container(struct reading *d, const json_t *c)
{
	const char *mode = mode_of(d, c), *key;
	json_t *networks = find_networks(d, c), *n;
	if (!json_array_size(answer_list(&d->r, c, "Names")) || !networks)
		return;
	if (d->o->match_first_network) {
		n = first_by_name(d, networks);
		if (n)
			add_network(d, c, mode, n);
		return;
	}
	json_object_foreach(networks, key, n) {
		n = answer_as_object(&d->r, n, key);
		if (n)
			add_network(d, c, mode, n);
	}
}

int docker_targets(struct target_list *t, const struct docker_options *o, json_t *containers, json_t *networks, struct err *e)
{
	struct reading d = { .t = t, .o = o, .r = { .e = e, .what = "network" } };
	json_t *c;
	size_t i;
	d.networks = index_by(&d.r, networks, "Id");
	d.r.what = "container";
	d.by_id = index_by(&d.r, containers, "Id");
	json_array_foreach(containers, i, c)
		if (!d.r.rc && !t->too_large)
			add_container(&d, c);
	json_decref(d.by_id);
	json_decref(d.networks);
	return d.r.rc;
}
