/* SPDX-License-Identifier: Apache-2.0 */
#include "discovery/sd_kubernetes_objects.h"

#include "base/json.h"

/* A member that is kept; below NULL = with all that is in it. For a list the rows hold for each of its items. */
struct kube_sd_keep {
	const char *key;
	const struct kube_sd_keep *below;
};

#define KEEP(...) (const struct kube_sd_keep[]){ __VA_ARGS__, { NULL, NULL } }
#define ALL(key) { key, NULL }
#define NAMES ALL("name"), ALL("namespace")
#define LABELS ALL("labels"), ALL("annotations")
#define OWNERS { "ownerReferences", KEEP(ALL("kind"), ALL("name"), ALL("controller")) }
#define META { "metadata", KEEP(NAMES, LABELS) }
#define TARGET_REF { "targetRef", KEEP(ALL("kind"), NAMES) }
#define STATUSES KEEP(ALL("name"), ALL("containerID"))
#define CONTAINERS KEEP(ALL("name"), ALL("image"), { "ports", KEEP(ALL("name"), ALL("containerPort"), ALL("protocol")) })
#define CONDITIONS { "conditions", KEEP(ALL("type"), ALL("status")) }
#define ADDRESSES KEEP(ALL("ip"), ALL("hostname"), ALL("nodeName"), TARGET_REF)
#define PORTS { "ports", KEEP(ALL("name"), ALL("protocol"), ALL("port"), ALL("appProtocol")) }

static const struct kube_sd_keep keep_meta[] = { META, { NULL, NULL } };

static const struct kube_sd_keep keep_owned[] = { { "metadata", KEEP(NAMES, OWNERS) }, { NULL, NULL } };

static const struct kube_sd_keep keep_node[] = {
	META,
	{ "spec", KEEP(ALL("providerID")) },
	{ "status", KEEP({ "addresses", KEEP(ALL("type"), ALL("address")) }, CONDITIONS, ALL("daemonEndpoints")) },
	{ NULL, NULL }
};

static const struct kube_sd_keep keep_service[] = {
	META,
	{ "spec", KEEP(PORTS, ALL("type"), ALL("externalName"), ALL("clusterIP"), ALL("loadBalancerIP")) },
	{ "status", KEEP({ "loadBalancer", KEEP({ "ingress", KEEP(ALL("ip")) }) }) },
	{ NULL, NULL }
};

static const struct kube_sd_keep keep_service_attached[] = {
	META,
	{ "spec", KEEP(ALL("ipFamilies"), ALL("ipFamilyPolicy")) },
	{ NULL, NULL }
};

static const struct kube_sd_keep keep_pod[] = {
	{ "metadata", KEEP(NAMES, ALL("uid"), LABELS, OWNERS) },
	{ "spec", KEEP(ALL("nodeName"), { "containers", CONTAINERS }, { "initContainers", CONTAINERS }) },
	{ "status", KEEP(ALL("phase"), ALL("podIP"), ALL("hostIP"), CONDITIONS, { "containerStatuses", STATUSES },
			 { "initContainerStatuses", STATUSES }) },
	{ NULL, NULL }
};

/* Labels of endpoints do not name a container's id. */
static const struct kube_sd_keep keep_pod_attached[] = {
	{ "metadata", KEEP(NAMES, ALL("uid"), LABELS, OWNERS) },
	{ "spec", KEEP(ALL("nodeName"), { "containers", CONTAINERS }, { "initContainers", CONTAINERS }) },
	{ "status", KEEP(ALL("phase"), ALL("podIP"), ALL("hostIP"), CONDITIONS) },
	{ NULL, NULL }
};

static const struct kube_sd_keep keep_endpoints[] = {
	META,
	{ "subsets", KEEP({ "addresses", ADDRESSES }, { "notReadyAddresses", ADDRESSES }, PORTS) },
	{ NULL, NULL }
};

static const struct kube_sd_keep keep_endpointslice[] = {
	META,
	ALL("addressType"),
	{ "endpoints", KEEP(ALL("addresses"), ALL("conditions"), ALL("hostname"), TARGET_REF, ALL("nodeName"), ALL("zone"),
			    ALL("deprecatedTopology")) },
	PORTS,
	{ NULL, NULL }
};

static const struct kube_sd_keep keep_ingress[] = {
	META,
	{ "spec", KEEP(ALL("ingressClassName"), { "tls", KEEP(ALL("hosts")) },
		       { "rules", KEEP(ALL("host"), { "http", KEEP({ "paths", KEEP(ALL("path")) }) }) }) },
	{ NULL, NULL }
};

#define CORE "/api/v1"
const struct kube_sd_kind_info kube_sd_kinds[KUBE_SD_KINDS_] = {
	[KUBE_SD_NODE] = { "node", "node", CORE, "nodes", false, keep_node, keep_meta },
	[KUBE_SD_SERVICE] = { "service", "svc", CORE, "services", true, keep_service, keep_service_attached },
	[KUBE_SD_POD] = { "pod", "pod", CORE, "pods", true, keep_pod, keep_pod_attached },
	[KUBE_SD_ENDPOINTS] = { "endpoints", "endpoints", CORE, "endpoints", true, keep_endpoints, NULL },
	[KUBE_SD_ENDPOINTSLICE] = { "endpointslice", "endpointslice", "/apis/discovery.k8s.io/v1", "endpointslices", true,
				    keep_endpointslice, NULL },
	[KUBE_SD_INGRESS] = { "ingress", "ingress", "/apis/networking.k8s.io/v1", "ingresses", true, keep_ingress, NULL },
	[KUBE_SD_NAMESPACE] = { "namespace", "namespace", CORE, "namespaces", false, keep_meta, keep_meta },
	[KUBE_SD_REPLICASET] = { "replicaset", "replicaset", "/apis/apps/v1", "replicasets", true, keep_owned, keep_owned },
	[KUBE_SD_JOB] = { "job", "job", "/apis/batch/v1", "jobs", true, keep_owned, keep_owned },
};

void kube_sd_path(enum kube_sd_kind kind, const char *ns, struct buf *out)
{
	const struct kube_sd_kind_info *k = &kube_sd_kinds[kind];
	if (ns && k->namespaced)
		buf_printf(out, "%s/namespaces/%s/%s", k->group, ns, k->resource);
	else
		buf_printf(out, "%s/%s", k->group, k->resource);
}

static int dump(const char *p, size_t n, void *out)
{
	buf_put(out, p, n);
	return 0;
}

/* As deep as the rows are; what is below them is jansson's, which bounds the depth when it reads. */
static void pack(const json_t *v, const struct kube_sd_keep *keep, struct buf *out)
{
	if (json_is_array(v)) {
		json_array_begin(out);
		for (size_t i = 0; i < json_array_size(v); i++)
			pack(json_array_get(v, i), keep, out);
		json_array_end(out);
	} else if (keep && json_is_object(v)) {
		json_object_begin(out);
		for (; keep->key; keep++) {
			const json_t *member = json_object_get(v, keep->key);
			if (!member || json_is_null(member))
				continue;
			json_key(out, keep->key);
			pack(member, keep->below, out);
		}
		json_object_end(out);
	} else {
		json_comma(out);
		json_dump_callback(v, dump, out, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
	}
}

void kube_sd_pack(enum kube_sd_kind kind, bool attached, const json_t *object, struct buf *out)
{
	const struct kube_sd_kind_info *k = &kube_sd_kinds[kind];
	pack(object, attached ? k->keep_attached : k->keep, out);
}

bool kube_sd_key(const json_t *object, struct buf *out)
{
	const json_t *meta = json_object_get(object, "metadata");
	const char *ns = json_string_value(json_object_get(meta, "namespace"));
	const char *name = json_string_value(json_object_get(meta, "name"));
	if (ns && *ns)
		buf_printf(out, "%s/", ns);
	if (name)
		buf_puts(out, name);
	return name && *name;
}
