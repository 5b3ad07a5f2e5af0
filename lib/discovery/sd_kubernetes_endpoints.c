/* SPDX-License-Identifier: Apache-2.0 */
/* Roles endpoints and endpointslice: a target for each address and port. Behind an address that is a pod's stand the pod's
 * labels; and of such pods the container ports that no endpoint has become targets too. */
#include "discovery/sd_kubernetes_labels.h"
#include "kube/kube.h"

/* A pod behind an address of this object. */
struct seen {
	const json_t *pod;
	struct labels labels;
	VEC(int64_t) ports;
};

struct addresses {
	struct kube_sd_build *b;
	VEC(struct seen) seen;
};

/* For one target. */
struct kube_endpoint {
	struct view node;            /* the object whose labels it gets */
	int64_t port;                /* -1 = none */
	struct view protocol;        /* the container's port from outside; ptr NULL = its own */
};

static struct seen *pod_of(struct addresses *a, const json_t *ref)
{
	const json_t *pod = NULL;
	if (view_eqs(kube_sd_text(ref, "kind"), "Pod"))
		pod = kube_sd_find(a->b, KUBE_SD_POD, kube_sd_text(ref, "namespace"), kube_sd_text(ref, "name"));
	for (size_t i = 0; i < a->seen.n && pod; i++)
		if (a->seen.v[i].pod == pod)
			return &a->seen.v[i];
	if (!pod)
		return NULL;
	kube_sd_put_pod(a->b, pod);
	vec_push(&a->seen, (struct seen){ pod, kube_sd_finish(a->b) });
	return &a->seen.v[a->seen.n - 1];
}

static void put_container(struct kube_sd_build *b, struct kube_sd_container c, const json_t *port, struct view protocol)
{
	kube_sd_put(b, META "pod_container_name", kube_sd_text(c.container, "name"));
	kube_sd_put(b, META "pod_container_image", kube_sd_text(c.container, "image"));
	kube_sd_put(b, META "pod_container_port_name", kube_sd_text(port, "name"));
	kube_sd_put_int(b, META "pod_container_port_number", json_integer_value(json_object_get(port, "containerPort")));
	kube_sd_put(b, META "pod_container_port_protocol", protocol.ptr ? protocol : kube_sd_text(port, "protocol"));
	kube_sd_put_bool(b, META "pod_container_init", c.init);
}

/* The container that has the endpoint's port; of several the last. */
static void put_port(struct kube_sd_build *b, const json_t *pod, int64_t number, struct view protocol)
{
	struct kube_sd_container c;
	for (size_t i = 0; kube_sd_container(pod, i, &c); i++) {
		const json_t *ports = json_object_get(c.container, "ports");
		for (size_t k = 0; k < json_array_size(ports); k++) {
			const json_t *p = json_array_get(ports, k);
			if (json_integer_value(json_object_get(p, "containerPort")) != number)
				continue;
			put_container(b, c, p, protocol);
			break;
		}
	}
}

/* The rest of a target whose own labels `own` makes. The pod comes first: its labels are a set by themselves. */
static void finish_target(struct addresses *a, struct seen *s, const struct kube_endpoint *t)
{
	if (a->b->w->attach.node)
		kube_sd_put_node(a->b, t->node);
	if (s) {
		kube_sd_put_all(a->b, s->labels);
		if (t->port >= 0) {
			put_port(a->b, s->pod, t->port, t->protocol);
			vec_push(&s->ports, t->port);
		}
	}
	kube_sd_target(a->b);
}

static bool has_port(const struct seen *s, int64_t port)
{
	for (size_t i = 0; i < s->ports.n; i++)
		if (s->ports.v[i] == port)
			return true;
	return false;
}

static void uncovered(struct addresses *a, const struct seen *s, struct kube_sd_container c)
{
	const json_t *ports = json_object_get(c.container, "ports");
	for (size_t i = 0; i < json_array_size(ports) && !a->b->too_large; i++) {
		const json_t *port = json_array_get(ports, i);
		int64_t number = json_integer_value(json_object_get(port, "containerPort"));
		if (has_port(s, number))
			continue;
		kube_sd_put_address(a->b, kube_sd_text(s->pod, "status.podIP"), number);
		put_container(a->b, c, port, (struct view){ 0 });
		kube_sd_put_all(a->b, s->labels);
		kube_sd_target(a->b);
	}
}

static void finish_pods(struct addresses *a)
{
	struct kube_sd_container c;
	for (size_t i = 0; i < a->seen.n; i++) {
		struct seen *s = &a->seen.v[i];
		if (kube_sd_text(s->pod, "status.podIP").len)
			for (size_t k = 0; kube_sd_container(s->pod, k, &c); k++)
				uncovered(a, s, c);
		vec_free(&s->ports);
	}
	vec_free(&a->seen);
}

static void put_ref(struct kube_sd_build *b, const json_t *ref, const char *kind, const char *name)
{
	kube_sd_put(b, kind, kube_sd_text(ref, "kind"));
	kube_sd_put(b, name, kube_sd_text(ref, "name"));
}

static const json_t *put_service(struct kube_sd_build *b, const json_t *object, struct view name)
{
	const json_t *service = kube_sd_find(b, KUBE_SD_SERVICE, kube_sd_text(object, "metadata.namespace"), name);
	if (service)
		kube_sd_put_meta(b, KUBE_SD_SERVICE, service, true);
	return service;
}

/* --- endpoints --- */

static void add_address(struct addresses *a, const json_t *address, const json_t *port, bool ready)
{
	struct kube_sd_build *b = a->b;
	const json_t *ref = json_object_get(address, "targetRef");
	struct seen *s = pod_of(a, ref);
	struct kube_endpoint t = { kube_sd_text(address, "nodeName"), json_integer_value(json_object_get(port, "port")),
				   kube_sd_text(port, "protocol") };

	kube_sd_put_address(b, kube_sd_text(address, "ip"), t.port);
	kube_sd_put(b, META "endpoint_port_name", kube_sd_text(port, "name"));
	kube_sd_put(b, META "endpoint_port_protocol", t.protocol);
	kube_sd_put_bool(b, META "endpoint_ready", ready);
	put_ref(b, ref, META "endpoint_address_target_kind", META "endpoint_address_target_name");
	kube_sd_put(b, META "endpoint_node_name", t.node);
	kube_sd_put(b, META "endpoint_hostname", kube_sd_text(address, "hostname"));
	if (!json_object_get(address, "nodeName") && view_eqs(kube_sd_text(ref, "kind"), "Node"))
		t.node = kube_sd_text(ref, "name");
	finish_target(a, s, &t);
}

static void add_addresses(struct addresses *a, const json_t *all, const json_t *port, bool ready)
{
	for (size_t i = 0; i < json_array_size(all) && !a->b->too_large; i++)
		add_address(a, json_array_get(all, i), port, ready);
}

void kube_sd_endpoints(struct kube_sd_build *b, const json_t *object, struct labels *ret)
{
	const json_t *subsets = json_object_get(object, "subsets");
	struct view ns = kube_sd_text(object, "metadata.namespace");
	struct addresses a = { .b = b };

	kube_sd_put(b, META "namespace", ns);
	put_service(b, object, kube_sd_text(object, "metadata.name"));
	kube_sd_put_meta(b, KUBE_SD_ENDPOINTS, object, true);
	kube_sd_put_namespace(b, ns);
	*ret = kube_sd_finish(b);
	for (size_t i = 0; i < json_array_size(subsets); i++) {
		const json_t *subset = json_array_get(subsets, i), *ports = json_object_get(subset, "ports");
		for (size_t k = 0; k < json_array_size(ports); k++) {
			add_addresses(&a, json_object_get(subset, "addresses"), json_array_get(ports, k), true);
			add_addresses(&a, json_object_get(subset, "notReadyAddresses"), json_array_get(ports, k), false);
		}
	}
	finish_pods(&a);
}

/* --- slices --- */

/* Whether it holds the second family of a service that has both: the same endpoints again. */
static bool second_family(const json_t *service, const json_t *slice)
{
	struct view policy = kube_sd_text(service, "spec.ipFamilyPolicy");
	const char *first = json_string_value(json_array_get(kube_get(service, "spec.ipFamilies"), 0));
	if (!view_eqs(policy, "PreferDualStack") && !view_eqs(policy, "RequireDualStack"))
		return false;
	return first && !view_eqs(kube_sd_text(slice, "addressType"), first);
}

static void put_condition(struct kube_sd_build *b, const json_t *endpoint, const char *path, const char *name)
{
	const json_t *v = kube_get(endpoint, path);
	if (json_is_boolean(v))
		kube_sd_put_bool(b, name, json_is_true(v));
}

static void put_topology(struct kube_sd_build *b, const json_t *endpoint)
{
	const json_t *all = json_object_get(endpoint, "deprecatedTopology");
	const char *key;
	json_t *value;
	json_object_foreach((json_t *)(uintptr_t)all, key, value)
		kube_sd_put_key(b, "endpointslice_endpoint_topology_", "endpointslice_endpoint_topology_present_", view_of(key),
				json_is_string(value) ? view_make(json_string_value(value), json_string_length(value)) : VIEW(""));
}

static void put_endpoint(struct kube_sd_build *b, const json_t *endpoint)
{
	put_condition(b, endpoint, "conditions.ready", META "endpointslice_endpoint_conditions_ready");
	put_condition(b, endpoint, "conditions.serving", META "endpointslice_endpoint_conditions_serving");
	put_condition(b, endpoint, "conditions.terminating", META "endpointslice_endpoint_conditions_terminating");
	kube_sd_put(b, META "endpointslice_endpoint_hostname", kube_sd_text(endpoint, "hostname"));
	put_ref(b, json_object_get(endpoint, "targetRef"), META "endpointslice_address_target_kind",
		META "endpointslice_address_target_name");
	kube_sd_put(b, META "endpointslice_endpoint_node_name", kube_sd_text(endpoint, "nodeName"));
	kube_sd_put(b, META "endpointslice_endpoint_zone", kube_sd_text(endpoint, "zone"));
	put_topology(b, endpoint);
}

static void add_slice_address(struct addresses *a, const json_t *endpoint, const json_t *port, struct view address)
{
	struct kube_sd_build *b = a->b;
	const json_t *ref = json_object_get(endpoint, "targetRef"), *number = json_object_get(port, "port");
	struct seen *s = pod_of(a, ref);
	struct kube_endpoint t = { kube_sd_text(endpoint, "nodeName"), json_is_integer(number) ? json_integer_value(number) : -1,
			      { 0 } };

	kube_sd_put_address(b, address, t.port);
	kube_sd_put(b, META "endpointslice_port_name", kube_sd_text(port, "name"));
	kube_sd_put(b, META "endpointslice_port_protocol", kube_sd_text(port, "protocol"));
	kube_sd_put(b, META "endpointslice_port_app_protocol", kube_sd_text(port, "appProtocol"));
	if (t.port >= 0)
		kube_sd_put_int(b, META "endpointslice_port", t.port);
	put_endpoint(b, endpoint);
	if (view_eqs(kube_sd_text(ref, "kind"), "Node"))
		t.node = kube_sd_text(ref, "name");
	finish_target(a, s, &t);
}

void kube_sd_endpointslice(struct kube_sd_build *b, const json_t *object, struct labels *ret)
{
	const json_t *endpoints = json_object_get(object, "endpoints"), *ports = json_object_get(object, "ports");
	const json_t *labels = kube_get(object, "metadata.labels");
	const char *service_name = json_string_value(json_object_get(labels, "kubernetes.io/service-name"));
	struct view ns = kube_sd_text(object, "metadata.namespace");
	struct addresses a = { .b = b };

	kube_sd_put(b, META "namespace", ns);
	kube_sd_put(b, META "endpointslice_address_type", kube_sd_text(object, "addressType"));
	kube_sd_put_meta(b, KUBE_SD_ENDPOINTSLICE, object, true);
	const json_t *service = service_name ? put_service(b, object, view_of(service_name)) : NULL;
	kube_sd_put_namespace(b, ns);
	*ret = kube_sd_finish(b);
	if (service && second_family(service, object))
		return;
	for (size_t i = 0; i < json_array_size(endpoints); i++) {
		const json_t *endpoint = json_array_get(endpoints, i), *addresses = json_object_get(endpoint, "addresses");
		for (size_t k = 0; k < json_array_size(ports); k++)
			for (size_t m = 0; m < json_array_size(addresses) && !b->too_large; m++) {
				const char *address = json_string_value(json_array_get(addresses, m));
				add_slice_address(&a, endpoint, json_array_get(ports, k), view_of(address ? address : ""));
			}
	}
	finish_pods(&a);
}
