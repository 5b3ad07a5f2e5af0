/* SPDX-License-Identifier: Apache-2.0 */
#include "discovery/sd_kubernetes_groups.h"

#include "discovery/sd_kubernetes_labels.h"
#include "kube/kube.h"

static void put_namespace_name(struct kube_sd_build *b, const json_t *object)
{
	kube_sd_put(b, META "namespace", kube_sd_text(object, "metadata.namespace"));
}

/* --- node --- */

static struct view address_of(const json_t *node, struct view type)
{
	const json_t *all = kube_get(node, "status.addresses");
	for (size_t i = 0; i < json_array_size(all); i++)
		if (view_eq(kube_sd_text(json_array_get(all, i), "type"), type))
			return kube_sd_text(json_array_get(all, i), "address");
	return (struct view){ 0 };
}

static struct view best_address(const json_t *node)
{
	static const char *const types[] = { "InternalIP", "InternalDNS", "ExternalIP", "ExternalDNS", "LegacyHostIP", "Hostname" };
	struct view address = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(types) && !address.ptr; i++)
		address = address_of(node, view_of(types[i]));
	return address;
}

static int node(struct kube_sd_build *b, const json_t *n, struct labels *ret, struct err *e)
{
	const json_t *conditions = kube_get(n, "status.conditions"), *addresses = kube_get(n, "status.addresses");
	struct view address = best_address(n);

	if (!address.ptr)
		return err_set(e, ERR_NOT_FOUND, "node %.*s has no address", VIEW_ARG(kube_sd_text(n, "metadata.name")));
	kube_sd_put(b, META "node_provider_id", kube_sd_text(n, "spec.providerID"));
	for (size_t i = 0; i < json_array_size(conditions); i++) {
		const json_t *c = json_array_get(conditions, i);
		kube_sd_put_key(b, "node_condition_", NULL, kube_sd_lower(b, kube_sd_text(c, "type")), kube_sd_lower(b, kube_sd_text(c, "status")));
	}
	kube_sd_put_meta(b, KUBE_SD_NODE, n, true);
	*ret = kube_sd_finish(b);
	kube_sd_put_address(b, address, json_integer_value(kube_get(n, "status.daemonEndpoints.kubeletEndpoint.Port")));
	kube_sd_put(b, "instance", kube_sd_text(n, "metadata.name"));
	/* The first address of each type counts: put last. */
	for (size_t i = json_array_size(addresses); i-- > 0;)
		kube_sd_put_key(b, "node_address_", NULL, kube_sd_text(json_array_get(addresses, i), "type"),
				kube_sd_text(json_array_get(addresses, i), "address"));
	kube_sd_target(b);
	return 0;
}

/* --- service --- */

/* Those of the status, with commas; otherwise the requested one. */
static struct view load_balancer(struct kube_sd_build *b, const json_t *service)
{
	const json_t *all = kube_get(service, "status.loadBalancer.ingress");
	struct buf text = { 0 };
	for (size_t i = 0; i < json_array_size(all); i++) {
		struct view ip = kube_sd_text(json_array_get(all, i), "ip");
		if (text.len && ip.len)
			buf_putc(&text, ',');
		buf_putv(&text, ip);
	}
	struct view v = text.len ? arena_view(b->arena, buf_view(&text)) : kube_sd_text(service, "spec.loadBalancerIP");
	buf_free(&text);
	return v;
}

static void service_target(struct kube_sd_build *b, const json_t *service, const json_t *port)
{
	struct view type = kube_sd_text(service, "spec.type");
	int64_t number = json_integer_value(json_object_get(port, "port"));
	const char *host = arena_printf(b->arena, "%.*s.%.*s.svc", VIEW_ARG(kube_sd_text(service, "metadata.name")),
					VIEW_ARG(kube_sd_text(service, "metadata.namespace")));

	kube_sd_put_address(b, host ? view_of(host) : VIEW(""), number);
	kube_sd_put(b, META "service_port_name", kube_sd_text(port, "name"));
	kube_sd_put_int(b, META "service_port_number", number);
	kube_sd_put(b, META "service_port_protocol", kube_sd_text(port, "protocol"));
	kube_sd_put(b, META "service_type", type);
	if (view_eqs(type, "ExternalName"))
		kube_sd_put(b, META "service_external_name", kube_sd_text(service, "spec.externalName"));
	else
		kube_sd_put(b, META "service_cluster_ip", kube_sd_text(service, "spec.clusterIP"));
	if (view_eqs(type, "LoadBalancer"))
		kube_sd_put(b, META "service_loadbalancer_ip", load_balancer(b, service));
	kube_sd_target(b);
}

static void service(struct kube_sd_build *b, const json_t *s, struct labels *ret)
{
	const json_t *ports = kube_get(s, "spec.ports");
	put_namespace_name(b, s);
	kube_sd_put_meta(b, KUBE_SD_SERVICE, s, true);
	kube_sd_put_namespace(b, kube_sd_text(s, "metadata.namespace"));
	*ret = kube_sd_finish(b);
	for (size_t i = 0; i < json_array_size(ports); i++)
		service_target(b, s, json_array_get(ports, i));
}

/* --- pod --- */

static struct view container_id(const json_t *pod, bool init, struct view name)
{
	const json_t *all = kube_get(pod, init ? "status.initContainerStatuses" : "status.containerStatuses");
	for (size_t i = 0; i < json_array_size(all); i++)
		if (view_eq(kube_sd_text(json_array_get(all, i), "name"), name))
			return kube_sd_text(json_array_get(all, i), "containerID");
	return VIEW("");
}

static void pod_target(struct kube_sd_build *b, const json_t *pod, struct kube_sd_container c, const json_t *port)
{
	struct view name = kube_sd_text(c.container, "name");
	int64_t number = json_integer_value(json_object_get(port, "containerPort"));

	kube_sd_put_address(b, kube_sd_text(pod, "status.podIP"), port ? number : -1);
	kube_sd_put(b, META "pod_container_name", name);
	kube_sd_put(b, META "pod_container_id", container_id(pod, c.init, name));
	kube_sd_put(b, META "pod_container_image", kube_sd_text(c.container, "image"));
	kube_sd_put_bool(b, META "pod_container_init", c.init);
	if (port) {
		kube_sd_put_int(b, META "pod_container_port_number", number);
		kube_sd_put(b, META "pod_container_port_name", kube_sd_text(port, "name"));
		kube_sd_put(b, META "pod_container_port_protocol", kube_sd_text(port, "protocol"));
	}
	kube_sd_target(b);
}

static void pod(struct kube_sd_build *b, const json_t *p, struct labels *ret)
{
	struct view node_name = kube_sd_text(p, "spec.nodeName"), ns = kube_sd_text(p, "metadata.namespace");
	struct kube_sd_container c;

	if (!kube_sd_text(p, "status.podIP").len) /* not begun, or evicted */
		return;
	/* A node that is not there was left out by a selector, and its pods with it. */
	if (b->w->attach.node && !kube_sd_find(b, KUBE_SD_NODE, VIEW(""), node_name))
		return;
	kube_sd_put_pod(b, p);
	put_namespace_name(b, p);
	if (b->w->attach.node)
		kube_sd_put_node(b, node_name);
	kube_sd_put_namespace(b, ns);
	*ret = kube_sd_finish(b);
	for (size_t i = 0; kube_sd_container(p, i, &c); i++) {
		const json_t *ports = json_object_get(c.container, "ports");
		for (size_t k = 0; k < json_array_size(ports); k++)
			pod_target(b, p, c, json_array_get(ports, k));
		if (!json_array_size(ports))
			pod_target(b, p, c, NULL);
	}
}

/* --- ingress --- */

/* Equal, or a pattern "*.example.org" of as many parts. */
static bool host_matches(struct view pattern, struct view host)
{
	const char *dot = memchr(host.ptr, '.', host.len);
	if (view_eq(pattern, host))
		return true;
	if (view_eqs(pattern, "*"))
		return !dot;
	if (!view_starts(pattern, VIEW("*.")) || !dot)
		return false;
	return view_eq(view_make(pattern.ptr + 1, pattern.len - 1), view_make(dot, host.len - (size_t)(dot - host.ptr)));
}

static bool has_tls(const json_t *ingress, struct view host)
{
	const json_t *tls = kube_get(ingress, "spec.tls");
	for (size_t i = 0; i < json_array_size(tls); i++) {
		const json_t *hosts = json_object_get(json_array_get(tls, i), "hosts");
		for (size_t k = 0; k < json_array_size(hosts); k++) {
			const char *pattern = json_string_value(json_array_get(hosts, k));
			if (pattern && host_matches(view_of(pattern), host))
				return true;
		}
	}
	return false;
}

static void ingress_target(struct kube_sd_build *b, struct view host, bool tls, struct view path)
{
	kube_sd_put(b, "__address__", host);
	kube_sd_put(b, META "ingress_scheme", tls ? VIEW("https") : VIEW("http"));
	kube_sd_put(b, META "ingress_host", host);
	kube_sd_put(b, META "ingress_path", path.len ? path : VIEW("/"));
	kube_sd_target(b);
}

static void ingress(struct kube_sd_build *b, const json_t *in, struct labels *ret)
{
	const json_t *rules = kube_get(in, "spec.rules");
	put_namespace_name(b, in);
	kube_sd_put(b, META "ingress_class_name", kube_sd_text(in, "spec.ingressClassName"));
	kube_sd_put_meta(b, KUBE_SD_INGRESS, in, true);
	kube_sd_put_namespace(b, kube_sd_text(in, "metadata.namespace"));
	*ret = kube_sd_finish(b);
	for (size_t i = 0; i < json_array_size(rules); i++) {
		const json_t *rule = json_array_get(rules, i), *http = json_object_get(rule, "http");
		const json_t *paths = json_object_get(http, "paths");
		struct view host = kube_sd_text(rule, "host");
		bool tls = has_tls(in, host);
		if (!json_is_object(http))
			ingress_target(b, host, tls, VIEW("/"));
		for (size_t k = 0; k < json_array_size(paths); k++)
			ingress_target(b, host, tls, kube_sd_text(json_array_get(paths, k), "path"));
	}
}

/* --- any --- */

static int build(struct kube_sd_build *b, enum kube_sd_kind role, const json_t *object, struct labels *ret, struct err *e)
{
	switch (role) {
	case KUBE_SD_NODE:
		return node(b, object, ret, e);
	case KUBE_SD_SERVICE:
		service(b, object, ret);
		break;
	case KUBE_SD_POD:
		pod(b, object, ret);
		break;
	case KUBE_SD_ENDPOINTS:
		kube_sd_endpoints(b, object, ret);
		break;
	case KUBE_SD_ENDPOINTSLICE:
		kube_sd_endpointslice(b, object, ret);
		break;
	case KUBE_SD_INGRESS:
		ingress(b, object, ret);
		break;
	default:
		return err_set(e, ERR_INTERNAL, "%s is no role", kube_sd_kinds[role].role);
	}
	return 0;
}

int kube_sd_group(enum kube_sd_kind role, const json_t *object, const struct kube_sd_world *w, struct arena *a,
		  struct discovery_group *ret, struct err *e)
{
	struct kube_sd_build b = { .w = w, .arena = a };
	struct labels labels = { 0 };
	int rc = build(&b, role, object, &labels, e);
	struct labels *targets = arena_alloc(a, b.targets.n * sizeof *targets);

	if (!rc && (b.too_large || !targets))
		rc = err_set(e, ERR_LIMIT, "the labels of %s %.*s/%.*s are more than %zu MiB", kube_sd_kinds[role].role,
			     VIEW_ARG(kube_sd_text(object, "metadata.namespace")), VIEW_ARG(kube_sd_text(object, "metadata.name")),
			     KUBE_SD_GROUP_BYTES_MAX >> 20);
	if (!rc) {
		if (b.targets.n)
			memcpy(targets, b.targets.v, b.targets.n * sizeof *targets);
		ret->labels = labels;
		ret->targets = targets;
		ret->n_targets = b.targets.n;
	}
	vec_free(&b.targets);
	vec_free(&b.set);
	return rc;
}
