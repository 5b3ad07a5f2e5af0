/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of each role from objects as an API server sends them; what is made again when something changes; what a
 * configuration may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "discovery/sd_kubernetes.h"
#include "discovery/sd_kubernetes_store.h"

static struct {
	struct kube_sd_store store;
	struct kube_sd_attach attach;
	struct kube_sd_made made;
	struct buf out;
} t;

static int begin(void **state)
{
	memset(&t, 0, sizeof t);
	arena_init(&t.made.arena, 4 * KUBE_SD_GROUP_BYTES_MAX);
	return 0;
}

static int end(void **state)
{
	kube_sd_store_free(&t.store);
	kube_sd_made_reset(&t.made);
	vec_free(&t.made.parsed);
	arena_free(&t.made.arena);
	buf_free(&t.out);
	return 0;
}

/* In tests objects are written with ' for ". */
static json_t *object_of(const char *text)
{
	char *s AUTOFREE = xstrdup(text);
	json_error_t why;
	for (char *p = s; *p; p++)
		if (*p == '\'')
			*p = '"';
	json_t *j = json_loads(s, JSON_ALLOW_NUL, &why);
	if (!j)
		fail_msg("%s at %d of %s", why.text, why.position, s);
	return j;
}

static enum kube_sd_change put_in(enum kube_sd_kind kind, const char *text, uint32_t round)
{
	json_t *j = object_of(text);
	struct buf key = { 0 }, packed = { 0 };
	assert_true(kube_sd_key(j, &key));
	kube_sd_pack(kind, kind != t.store.role, j, &packed);
	enum kube_sd_change change = kube_sd_store_put(&t.store, kind, buf_view(&key), buf_view(&packed), kind, round);
	buf_free(&key);
	buf_free(&packed);
	json_decref(j);
	return change;
}

static enum kube_sd_change put(enum kube_sd_kind kind, const char *text)
{
	return put_in(kind, text, 0);
}

static void put_labels(struct labels l, bool only_key)
{
	for (size_t i = 0; i < l.n; i++) {
		struct view name = l.v[i].name;
		bool meta = view_starts(name, VIEW("__meta_kubernetes_"));
		assert_true(l.v[i].value.len);
		assert_true(i == 0 || view_cmp(l.v[i - 1].name, name) < 0);
		buf_printf(&t.out, "%s%.*s=%.*s", i ? " " : "", VIEW_ARG(meta ? view_make(name.ptr + 18, name.len - 18) : name), VIEW_ARG(l.v[i].value));
	}
	buf_putc(&t.out, '\n');
}

/* All groups that are to be made: "source: labels", then a line for each target; "__meta_kubernetes_" is left out. */
static const char *groups(void)
{
	buf_reset(&t.out);
	while (kube_sd_store_next(&t.store, &t.attach, &t.made)) {
		if (t.made.rc) {
			buf_printf(&t.out, "! %s%s\n", t.made.err.msg, t.made.again ? ", again" : "");
		} else {
			buf_printf(&t.out, "%s: ", t.made.group.source);
			put_labels(t.made.group.labels, false);
			for (size_t i = 0; i < t.made.group.n_targets; i++)
				put_labels(t.made.group.targets[i], false);
		}
		kube_sd_made_reset(&t.made);
	}
	return t.out.len ? t.out.ptr : "";
}

/* --- node --- */

static void test_node(void **state)
{
	t.store.role = KUBE_SD_NODE;
	put(KUBE_SD_NODE, "{'metadata':{'name':'n1','uid':'u','labels':{'topology.kubernetes.io/zone':'z1','empty':''},"
	    "'annotations':{'node.alpha/ttl-\u00fc':'0'},'managedFields':[{'a':'b'}]},"
	    "'spec':{'podCIDR':'10.1.0.0/24','providerID':'aws:///i-1'},'status':{'capacity':{'cpu':'2'},'addresses':["
	    "{'type':'Hostname','address':'n1.local'},{'type':'InternalIP','address':'fd00::1'},{'type':'InternalIP','address':'10.0.0.1'},"
	    "{'type':'ExternalIP','address':'4.4.4.4'}],'conditions':[{'type':'Ready','status':'True','lastHeartbeatTime':'x'},"
	    "{'type':'MemoryPressure','status':'Unknown'}],'daemonEndpoints':{'kubeletEndpoint':{'Port':10250}}}}");
	assert_string_equal(groups(),
		"node/n1: node_annotation_node_alpha_ttl__=0 node_annotationpresent_node_alpha_ttl__=true node_condition_memorypressure=unknown "
		"node_condition_ready=true node_label_topology_kubernetes_io_zone=z1 node_labelpresent_empty=true "
		"node_labelpresent_topology_kubernetes_io_zone=true node_name=n1 node_provider_id=aws:///i-1\n"
		"__address__=[fd00::1]:10250 node_address_ExternalIP=4.4.4.4 node_address_Hostname=n1.local node_address_InternalIP=fd00::1 instance=n1\n");
	/* A heartbeat changes nothing that labels come from. */
	assert_int_equal(put(KUBE_SD_NODE, "{'metadata':{'name':'n2'}}"), KUBE_SD_ADDED);
	assert_string_equal(groups(), "! node n2 has no address\n");
	assert_int_equal(put(KUBE_SD_NODE, "{'metadata':{'name':'n2','resourceVersion':'7'},'status':{'images':[1]}}"), KUBE_SD_UPDATED);
	assert_int_equal(put(KUBE_SD_NODE, "{'metadata':{'name':'n2','resourceVersion':'8'},'status':{'images':[2]}}"), KUBE_SD_SAME);
	assert_true(kube_sd_store_del(&t.store, KUBE_SD_NODE, VIEW("n1")));
	assert_false(kube_sd_store_del(&t.store, KUBE_SD_NODE, VIEW("n1")));
	assert_string_equal(groups(), "! node n2 has no address\nnode/n1: \n");
}

/* --- service --- */

static void test_service(void **state)
{
	t.store.role = KUBE_SD_SERVICE;
	t.attach.namespace = true;
	put(KUBE_SD_NAMESPACE, "{'metadata':{'name':'d','labels':{'team':'blue'},'annotations':{'a/b':''}}}");
	put(KUBE_SD_SERVICE, "{'metadata':{'name':'web','namespace':'d','labels':{'app':'web'}},'spec':{'clusterIP':'10.9.0.1','type':'ClusterIP',"
	    "'ports':[{'name':'http','port':80,'protocol':'TCP','targetPort':'x','nodePort':3},{'port':443,'protocol':'UDP'}]}}");
	put(KUBE_SD_SERVICE, "{'metadata':{'name':'out','namespace':'d'},'spec':{'type':'ExternalName','externalName':'example.org',"
	    "'ports':[{'port':80,'protocol':'TCP'}]}}");
	put(KUBE_SD_SERVICE, "{'metadata':{'name':'lb','namespace':'e'},'spec':{'type':'LoadBalancer','clusterIP':'None','loadBalancerIP':'1.1.1.1',"
	    "'ports':[{'port':1,'protocol':'TCP'}]},'status':{'loadBalancer':{'ingress':[{'ip':'2.2.2.2'},{'hostname':'h'},{'ip':'3.3.3.3'}]}}}");
	put(KUBE_SD_SERVICE, "{'metadata':{'name':'asked','namespace':'e'},'spec':{'type':'LoadBalancer','loadBalancerIP':'1.1.1.1',"
	    "'ports':[{'port':1,'protocol':'TCP'}]},'status':{'loadBalancer':{}}}");
	put(KUBE_SD_SERVICE, "{'metadata':{'name':'no-ports','namespace':'e'},'spec':{'type':'ClusterIP','clusterIP':'None'}}");
	assert_string_equal(groups(),
		"svc/d/web: namespace=d namespace_annotationpresent_a_b=true namespace_label_team=blue namespace_labelpresent_team=true "
		"service_label_app=web service_labelpresent_app=true service_name=web\n"
		"__address__=web.d.svc:80 service_cluster_ip=10.9.0.1 service_port_name=http service_port_number=80 service_port_protocol=TCP service_type=ClusterIP\n"
		"__address__=web.d.svc:443 service_cluster_ip=10.9.0.1 service_port_number=443 service_port_protocol=UDP service_type=ClusterIP\n"
		"svc/d/out: namespace=d namespace_annotationpresent_a_b=true namespace_label_team=blue namespace_labelpresent_team=true service_name=out\n"
		"__address__=out.d.svc:80 service_external_name=example.org service_port_number=80 service_port_protocol=TCP service_type=ExternalName\n"
		"svc/e/lb: namespace=e service_name=lb\n"
		"__address__=lb.e.svc:1 service_cluster_ip=None service_loadbalancer_ip=2.2.2.2,3.3.3.3 service_port_number=1 service_port_protocol=TCP service_type=LoadBalancer\n"
		"svc/e/asked: namespace=e service_name=asked\n"
		"__address__=asked.e.svc:1 service_loadbalancer_ip=1.1.1.1 service_port_number=1 service_port_protocol=TCP service_type=LoadBalancer\n"
		"svc/e/no-ports: namespace=e service_name=no-ports\n");
	/* Only services of that namespace. */
	put(KUBE_SD_NAMESPACE, "{'metadata':{'name':'e','labels':{'k':'v'}}}");
	assert_null(strstr(groups(), "svc/d/"));
	assert_non_null(strstr(t.out.ptr, "svc/e/lb: namespace=e namespace_label_k=v namespace_labelpresent_k=true service_name=lb\n"));
}

/* --- pod --- */

#define OWNER(kind, name) "'ownerReferences':[{'kind':'Other','name':'x'},{'apiVersion':'a','kind':'" kind "','name':'" name "','uid':'u','controller':true}]"
#define POD_STATUS "'status':{'phase':'Running','podIP':'10.1.0.7','podIPs':[{'ip':'10.1.0.7'},{'ip':'fd00::7'}],'hostIP':'10.0.0.1'," \
	"'conditions':[{'type':'Initialized','status':'True'},{'type':'Ready','status':'False'}]," \
	"'containerStatuses':[{'name':'side','containerID':'containerd://2'},{'name':'app','containerID':'containerd://1','image':'sha'}]," \
	"'initContainerStatuses':[{'name':'init','containerID':'containerd://3'}]}"
#define POD_SPEC "'spec':{'nodeName':'n1','hostNetwork':true,'containers':[{'name':'app','image':'echo:1','env':[{'name':'A','value':'B'}],'ports':[" \
	"{'name':'http','containerPort':8080,'protocol':'TCP'},{'containerPort':9090,'protocol':'UDP','hostPort':9090}]}," \
	"{'name':'side','image':'side:2'}],'initContainers':[{'name':'init','image':'init:3','restartPolicy':'Always','ports':[{'containerPort':7000,'protocol':'TCP'}]}]}"
#define POD "{'metadata':{'name':'web-0','namespace':'d','uid':'u-1','labels':{'app':'web'},'annotations':{'prometheus.io/scrape':'true'}," \
	OWNER("ReplicaSet", "web-5d9") "}," POD_SPEC "," POD_STATUS "}"

#define POD_LABELS "pod_annotation_prometheus_io_scrape=true pod_annotationpresent_prometheus_io_scrape=true pod_controller_kind=ReplicaSet pod_controller_name=web-5d9 "
#define POD_LABELS_2 "pod_host_ip=10.0.0.1 pod_ip=10.1.0.7 pod_label_app=web pod_labelpresent_app=true pod_name=web-0 pod_node_name=n1 pod_phase=Running pod_ready=false pod_uid=u-1"

#define POD_TARGETS \
	"__address__=10.1.0.7:8080 pod_container_id=containerd://1 pod_container_image=echo:1 pod_container_init=false pod_container_name=app " \
	"pod_container_port_name=http pod_container_port_number=8080 pod_container_port_protocol=TCP\n" \
	"__address__=10.1.0.7:9090 pod_container_id=containerd://1 pod_container_image=echo:1 pod_container_init=false pod_container_name=app " \
	"pod_container_port_number=9090 pod_container_port_protocol=UDP\n" \
	"__address__=10.1.0.7 pod_container_id=containerd://2 pod_container_image=side:2 pod_container_init=false pod_container_name=side\n" \
	"__address__=10.1.0.7:7000 pod_container_id=containerd://3 pod_container_image=init:3 pod_container_init=true pod_container_name=init " \
	"pod_container_port_number=7000 pod_container_port_protocol=TCP\n"

static void test_pod(void **state)
{
	t.store.role = KUBE_SD_POD;
	put(KUBE_SD_POD, POD);
	put(KUBE_SD_POD, "{'metadata':{'name':'no-ip','namespace':'d'},'spec':{'containers':[{'name':'a'}]},'status':{'phase':'Pending'}}");
	put(KUBE_SD_POD, "{'metadata':{'name':'six','namespace':'d','uid':'u-2'},'spec':{'containers':[{'name':'a','ports':[{'containerPort':1,'protocol':'TCP'}]},{'name':'b'}]},"
	    "'status':{'podIP':'fd00::7'}}");
	assert_string_equal(groups(), "pod/d/web-0: namespace=d " POD_LABELS POD_LABELS_2 "\n" POD_TARGETS
		"pod/d/no-ip: \n"
		"pod/d/six: namespace=d pod_ip=fd00::7 pod_name=six pod_ready=unknown pod_uid=u-2\n"
		"__address__=[fd00::7]:1 pod_container_init=false pod_container_name=a pod_container_port_number=1 pod_container_port_protocol=TCP\n"
		"__address__=fd00::7 pod_container_init=false pod_container_name=b\n");
	/* What needs no other object is not kept. */
	for (size_t i = 0; i < t.store.entries.n; i++)
		assert_null(t.store.entries.v[i]->packed);
	assert_int_equal(put(KUBE_SD_POD, POD), KUBE_SD_SAME);
	assert_string_equal(groups(), "");
}

static void test_pod_node(void **state)
{
	t.store.role = KUBE_SD_POD;
	t.attach.node = true;
	put(KUBE_SD_POD, POD);
	put(KUBE_SD_POD, "{'metadata':{'name':'other','namespace':'d'},'spec':{'nodeName':'n2','containers':[{'name':'a'}]},'status':{'podIP':'10.1.0.8'}}");
	put(KUBE_SD_NODE, "{'metadata':{'name':'n2'}}");
	/* A pod whose node is not there is left out. */
	assert_string_equal(groups(), "pod/d/web-0: \n"
		"pod/d/other: namespace=d node_name=n2 pod_ip=10.1.0.8 pod_name=other pod_node_name=n2 pod_ready=unknown\n"
		"__address__=10.1.0.8 pod_container_init=false pod_container_name=a\n");
	/* It comes: its pods alone are made again. */
	put(KUBE_SD_NODE, "{'metadata':{'name':'n1','labels':{'zone':'z'}},'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
	assert_string_equal(groups(), "pod/d/web-0: namespace=d node_label_zone=z node_labelpresent_zone=true node_name=n1 " POD_LABELS POD_LABELS_2 "\n" POD_TARGETS);
	/* What only role node shows does not count. */
	assert_int_equal(put(KUBE_SD_NODE, "{'metadata':{'name':'n1','labels':{'zone':'z'}},'status':{'conditions':[{'type':'Ready','status':'False'}]}}"), KUBE_SD_SAME);
	kube_sd_store_del(&t.store, KUBE_SD_NODE, VIEW("n1"));
	assert_string_equal(groups(), "pod/d/web-0: \n");
	kube_sd_store_del(&t.store, KUBE_SD_POD, VIEW("d/web-0"));
	kube_sd_store_del(&t.store, KUBE_SD_POD, VIEW("d/other"));
	assert_string_equal(groups(), "pod/d/web-0: \npod/d/other: \n");
	kube_sd_store_del(&t.store, KUBE_SD_NODE, VIEW("n2"));
	assert_int_equal(t.store.entries.n, 0);
}

/* Deployment by the replica set's controller, job by the pod's, cronjob by the job's. */
static void test_pod_owners(void **state)
{
	static const char simple[] = "'spec':{'containers':[]},'status':{'podIP':'1.1.1.1'}}";
	char *job AUTOFREE = xasprintf("{'metadata':{'name':'j','namespace':'d'," OWNER("Job", "backup-28") "},%s", simple);
	char *set AUTOFREE = xasprintf("{'metadata':{'name':'s','namespace':'d'," OWNER("ReplicaSet", "web-5d9") "},%s", simple);
	t.store.role = KUBE_SD_POD;
	t.attach = (struct kube_sd_attach){ .deployment = true, .job = true, .cronjob = true };
	put(KUBE_SD_POD, job);
	put(KUBE_SD_POD, set);
	/* Not of this namespace; not the controller's kind. */
	put(KUBE_SD_JOB, "{'metadata':{'name':'backup-28','namespace':'e'," OWNER("CronJob", "backup") "}}");
	put(KUBE_SD_REPLICASET, "{'metadata':{'name':'web-5d9','namespace':'d'," OWNER("Rollout", "web") "}}");
	assert_string_equal(groups(),
		"pod/d/j: namespace=d pod_controller_kind=Job pod_controller_name=backup-28 pod_ip=1.1.1.1 pod_job_name=backup-28 pod_name=j pod_ready=unknown\n"
		"pod/d/s: namespace=d pod_controller_kind=ReplicaSet pod_controller_name=web-5d9 pod_ip=1.1.1.1 pod_name=s pod_ready=unknown\n");
	put(KUBE_SD_JOB, "{'metadata':{'name':'backup-28','namespace':'d'," OWNER("CronJob", "backup") "}}");
	assert_string_equal(groups(), "pod/d/j: namespace=d pod_controller_kind=Job pod_controller_name=backup-28 pod_cronjob_name=backup pod_ip=1.1.1.1 "
			    "pod_job_name=backup-28 pod_name=j pod_ready=unknown\n");
	put(KUBE_SD_REPLICASET, "{'metadata':{'name':'web-5d9','namespace':'d'," OWNER("Deployment", "web") "}}");
	assert_string_equal(groups(), "pod/d/s: namespace=d pod_controller_kind=ReplicaSet pod_controller_name=web-5d9 pod_deployment_name=web pod_ip=1.1.1.1 "
			    "pod_name=s pod_ready=unknown\n");
}

/* --- endpoints --- */

#define TARGET(name) "'targetRef':{'kind':'Pod','namespace':'d','name':'" name "','uid':'u'}"
#define SERVICE "{'metadata':{'name':'web','namespace':'d','labels':{'app':'web'}},'spec':{'ipFamilyPolicy':'PreferDualStack','ipFamilies':['IPv4','IPv6']}}"

/* What a target gets from POD, between __address__ and the rest. */
#define OF_POD "pod_container_image=echo:1 pod_container_init=false pod_container_name=app pod_container_port_name=http pod_container_port_number=8080 " \
	"pod_container_port_protocol=TCP pod_controller_kind=ReplicaSet pod_controller_name=web-5d9 " POD_LABELS_2 "\n"
#define ANNOTATIONS "pod_annotation_prometheus_io_scrape=true pod_annotationpresent_prometheus_io_scrape=true "
#define UNCOVERED \
	"__address__=10.1.0.7:9090 " ANNOTATIONS "pod_container_image=echo:1 pod_container_init=false pod_container_name=app pod_container_port_number=9090 " \
	"pod_container_port_protocol=UDP pod_controller_kind=ReplicaSet pod_controller_name=web-5d9 " POD_LABELS_2 "\n" \
	"__address__=10.1.0.7:7000 " ANNOTATIONS "pod_container_image=init:3 pod_container_init=true pod_container_name=init pod_container_port_number=7000 " \
	"pod_container_port_protocol=TCP pod_controller_kind=ReplicaSet pod_controller_name=web-5d9 " POD_LABELS_2 "\n"

static void test_endpoints(void **state)
{
	t.store.role = KUBE_SD_ENDPOINTS;
	t.attach.node = true;
	put(KUBE_SD_POD, POD);
	put(KUBE_SD_SERVICE, SERVICE);
	put(KUBE_SD_NODE, "{'metadata':{'name':'n1','labels':{'zone':'z'}}}");
	put(KUBE_SD_ENDPOINTS, "{'metadata':{'name':'web','namespace':'d','labels':{'endpoints.kubernetes.io/managed-by':'c'}},'subsets':[{"
	    "'addresses':[{'ip':'10.1.0.7','nodeName':'n1','hostname':'web-0'," TARGET("web-0") "},{'ip':'10.1.0.9'," TARGET("missing") "}],"
	    "'notReadyAddresses':[{'ip':'fd00::9','targetRef':{'kind':'Node','name':'n1'}}],'ports':[{'name':'http','port':8080,'protocol':'TCP'}]},"
	    "{'addresses':[{'ip':'1.2.3.4'}]}]}");
	assert_string_equal(groups(),
		"endpoints/d/web: endpoints_label_endpoints_kubernetes_io_managed_by=c endpoints_labelpresent_endpoints_kubernetes_io_managed_by=true "
		"endpoints_name=web namespace=d service_label_app=web service_labelpresent_app=true service_name=web\n"
		"__address__=10.1.0.7:8080 endpoint_address_target_kind=Pod endpoint_address_target_name=web-0 endpoint_hostname=web-0 endpoint_node_name=n1 "
		"endpoint_port_name=http endpoint_port_protocol=TCP endpoint_ready=true node_label_zone=z node_labelpresent_zone=true node_name=n1 " ANNOTATIONS OF_POD
		"__address__=10.1.0.9:8080 endpoint_address_target_kind=Pod endpoint_address_target_name=missing endpoint_port_name=http endpoint_port_protocol=TCP endpoint_ready=true\n"
		"__address__=[fd00::9]:8080 endpoint_address_target_kind=Node endpoint_address_target_name=n1 endpoint_port_name=http endpoint_port_protocol=TCP "
		"endpoint_ready=false node_label_zone=z node_labelpresent_zone=true node_name=n1\n" UNCOVERED);
	/* The pod that was missing comes; one that nobody looked for does not matter; the service goes. */
	put(KUBE_SD_POD, "{'metadata':{'name':'missing','namespace':'d'},'spec':{},'status':{'podIP':'10.1.0.9'}}");
	assert_non_null(strstr(groups(), "pod_name=missing"));
	put(KUBE_SD_POD, "{'metadata':{'name':'missing','namespace':'e'},'spec':{},'status':{'podIP':'10.1.0.9'}}");
	assert_string_equal(groups(), "");
	kube_sd_store_del(&t.store, KUBE_SD_SERVICE, VIEW("d/web"));
	assert_non_null(strstr(groups(), "endpoints_name=web namespace=d\n"));
	kube_sd_store_del(&t.store, KUBE_SD_ENDPOINTS, VIEW("d/web"));
	assert_string_equal(groups(), "endpoints/d/web: \n");
}

static void test_endpointslice(void **state)
{
	t.store.role = KUBE_SD_ENDPOINTSLICE;
	t.attach.node = true;
	put(KUBE_SD_POD, POD);
	put(KUBE_SD_SERVICE, SERVICE);
	put(KUBE_SD_NODE, "{'metadata':{'name':'n1'}}");
	put(KUBE_SD_ENDPOINTSLICE, "{'metadata':{'name':'web-abc','namespace':'d','labels':{'kubernetes.io/service-name':'web'}},'addressType':'IPv4','endpoints':["
	    "{'addresses':['10.1.0.7'],'conditions':{'ready':false,'serving':true,'terminating':true},'nodeName':'n1','zone':'z1','hostname':'h'," TARGET("web-0") "},"
	    "{'addresses':['10.1.0.8'],'conditions':{},'deprecatedTopology':{'a.b/c':'v'},'targetRef':{'kind':'Node','name':'n1'},'nodeName':'n9'}],"
	    "'ports':[{'name':'http','port':8080,'protocol':'TCP','appProtocol':'h2c'}]}");
	put(KUBE_SD_ENDPOINTSLICE, "{'metadata':{'name':'web-six','namespace':'d','labels':{'kubernetes.io/service-name':'web'}},'addressType':'IPv6','endpoints':["
	    "{'addresses':['fd00::7']}],'ports':[{'port':8080}]}");
	put(KUBE_SD_ENDPOINTSLICE, "{'metadata':{'name':'own','namespace':'d'},'addressType':'FQDN','endpoints':[{'addresses':['a.example.org','b.example.org']}],"
	    "'ports':[{'name':''}]}");
	put(KUBE_SD_ENDPOINTSLICE, "{'metadata':{'name':'any-port','namespace':'d'},'addressType':'IPv4','endpoints':[{'addresses':['1.1.1.1']}],'ports':null}");
	assert_string_equal(groups(),
		"endpointslice/d/web-abc: endpointslice_address_type=IPv4 endpointslice_label_kubernetes_io_service_name=web "
		"endpointslice_labelpresent_kubernetes_io_service_name=true endpointslice_name=web-abc namespace=d service_label_app=web service_labelpresent_app=true service_name=web\n"
		"__address__=10.1.0.7:8080 endpointslice_address_target_kind=Pod endpointslice_address_target_name=web-0 endpointslice_endpoint_conditions_ready=false "
		"endpointslice_endpoint_conditions_serving=true endpointslice_endpoint_conditions_terminating=true endpointslice_endpoint_hostname=h "
		"endpointslice_endpoint_node_name=n1 endpointslice_endpoint_zone=z1 endpointslice_port=8080 endpointslice_port_app_protocol=h2c endpointslice_port_name=http "
		"endpointslice_port_protocol=TCP node_name=n1 " ANNOTATIONS OF_POD
		"__address__=10.1.0.8:8080 endpointslice_address_target_kind=Node endpointslice_address_target_name=n1 endpointslice_endpoint_node_name=n9 "
		"endpointslice_endpoint_topology_a_b_c=v endpointslice_endpoint_topology_present_a_b_c=true endpointslice_port=8080 endpointslice_port_app_protocol=h2c "
		"endpointslice_port_name=http endpointslice_port_protocol=TCP node_name=n1\n" UNCOVERED
		"endpointslice/d/web-six: endpointslice_address_type=IPv6 endpointslice_label_kubernetes_io_service_name=web "
		"endpointslice_labelpresent_kubernetes_io_service_name=true endpointslice_name=web-six namespace=d service_label_app=web service_labelpresent_app=true service_name=web\n"
		"endpointslice/d/own: endpointslice_address_type=FQDN endpointslice_name=own namespace=d\n__address__=a.example.org\n__address__=b.example.org\n"
		"endpointslice/d/any-port: endpointslice_address_type=IPv4 endpointslice_name=any-port namespace=d\n");
	/* The service has one family only now: its two slices are made again, the others are not. */
	put(KUBE_SD_SERVICE, "{'metadata':{'name':'web','namespace':'d'},'spec':{'ipFamilyPolicy':'SingleStack','ipFamilies':['IPv4']}}");
	groups();
	assert_non_null(strstr(t.out.ptr, "\n__address__=[fd00::7]:8080 endpointslice_port=8080\n"));
	assert_non_null(strstr(t.out.ptr, "endpointslice/d/web-abc"));
	assert_null(strstr(t.out.ptr, "endpointslice/d/own"));
}

/* A ready pod twice behind a service: the container that has the port last counts, as there. */
static void test_endpoint_ports(void **state)
{
	t.store.role = KUBE_SD_ENDPOINTS;
	put(KUBE_SD_POD, "{'metadata':{'name':'p','namespace':'d'},'spec':{'containers':[{'name':'a','ports':[{'name':'x','containerPort':1,'protocol':'TCP'},"
	    "{'name':'y','containerPort':1,'protocol':'UDP'}]},{'name':'b','ports':[{'containerPort':1,'protocol':'SCTP'}]}]},'status':{'podIP':'1.1.1.1'}}");
	put(KUBE_SD_ENDPOINTS, "{'metadata':{'name':'e','namespace':'d'},'subsets':[{'addresses':[{'ip':'1.1.1.1'," TARGET("p") "}],'ports':[{'port':1,'protocol':'TCP'},{'port':2}]}]}");
	assert_string_equal(groups(), "endpoints/d/e: endpoints_name=e namespace=d\n"
		"__address__=1.1.1.1:1 endpoint_address_target_kind=Pod endpoint_address_target_name=p endpoint_port_protocol=TCP endpoint_ready=true "
		"pod_container_init=false pod_container_name=b pod_container_port_number=1 pod_container_port_protocol=TCP pod_ip=1.1.1.1 pod_name=p pod_ready=unknown\n"
		"__address__=1.1.1.1:2 endpoint_address_target_kind=Pod endpoint_address_target_name=p endpoint_ready=true pod_ip=1.1.1.1 pod_name=p pod_ready=unknown\n");
}

/* --- ingress --- */

static void test_ingress(void **state)
{
	t.store.role = KUBE_SD_INGRESS;
	put(KUBE_SD_INGRESS, "{'metadata':{'name':'i','namespace':'d','annotations':{'kubernetes.io/ingress.class':'nginx'}},'spec':{'ingressClassName':'c',"
	    "'tls':[{'secretName':'s'},{'hosts':['*.example.org','plain.org']}],'rules':["
	    "{'host':'a.example.org','http':{'paths':[{'path':'/x','pathType':'Prefix','backend':{'service':{'name':'s'}}},{'path':''}]}},"
	    "{'host':'a.b.example.org','http':{'paths':[{'path':'/y'}]}},{'host':'example.org'},{'host':'plain.org'},"
	    "{'host':'*.example.org','http':{'paths':[]}},{'http':{'paths':[{'path':'/z'}]}}]}}");
	assert_string_equal(groups(),
		"ingress/d/i: ingress_annotation_kubernetes_io_ingress_class=nginx ingress_annotationpresent_kubernetes_io_ingress_class=true "
		"ingress_class_name=c ingress_name=i namespace=d\n"
		"__address__=a.example.org ingress_host=a.example.org ingress_path=/x ingress_scheme=https\n"
		"__address__=a.example.org ingress_host=a.example.org ingress_path=/ ingress_scheme=https\n"
		"__address__=a.b.example.org ingress_host=a.b.example.org ingress_path=/y ingress_scheme=http\n"
		"__address__=example.org ingress_host=example.org ingress_path=/ ingress_scheme=http\n"
		"__address__=plain.org ingress_host=plain.org ingress_path=/ ingress_scheme=https\n"
		"ingress_path=/z ingress_scheme=http\n");
}

/* --- the store --- */

static void test_sweep(void **state)
{
	t.store.role = KUBE_SD_POD;
	for (int i = 0; i < 100; i++) {
		char *text AUTOFREE = xasprintf("{'metadata':{'name':'p%d','namespace':'d'}}", i);
		put_in(KUBE_SD_POD, text, 1);
	}
	groups();
	for (int i = 0; i < 100; i += 2) {
		char *text AUTOFREE = xasprintf("{'metadata':{'name':'p%d','namespace':'d'}}", i);
		assert_int_equal(put_in(KUBE_SD_POD, text, 2), KUBE_SD_SAME);
	}
	assert_int_equal(kube_sd_store_sweep(&t.store, KUBE_SD_NODE, 2), 0);
	assert_int_equal(kube_sd_store_sweep(&t.store, KUBE_SD_POD, 2), 50);
	assert_int_equal(kube_sd_store_sweep(&t.store, KUBE_SD_POD, 2), 0);
	groups();
	assert_non_null(strstr(t.out.ptr, "pod/d/p1: \n"));
	assert_null(strstr(t.out.ptr, "pod/d/p2: \n"));
	assert_int_equal(t.store.entries.n, 50);
}

/* Deleted and there again before its group was made: told of as it is now. */
static void test_again(void **state)
{
	t.store.role = KUBE_SD_INGRESS;
	put(KUBE_SD_INGRESS, "{'metadata':{'name':'i','namespace':'d'}}");
	groups();
	kube_sd_store_del(&t.store, KUBE_SD_INGRESS, VIEW("d/i"));
	put(KUBE_SD_INGRESS, "{'metadata':{'name':'i','namespace':'d'}}");
	assert_string_equal(groups(), "ingress/d/i: ingress_name=i namespace=d\n");
	put(KUBE_SD_INGRESS, "{'metadata':{'name':'k','namespace':'d'}}");
	kube_sd_store_del(&t.store, KUBE_SD_INGRESS, VIEW("d/k"));
	assert_string_equal(groups(), "ingress/d/k: \n");
	assert_int_equal(t.store.entries.n, 1);
}

/* Many targets times large pods: refused, and the next one is made. */
static void test_too_large(void **state)
{
	struct buf b = { 0 };
	t.store.role = KUBE_SD_ENDPOINTS;
	char *large AUTOFREE = xmalloc(200001);
	memset(large, 'x', 200000);
	large[200000] = 0;
	buf_printf(&b, "{'metadata':{'name':'web-0','namespace':'d','annotations':{'a':'%s'}},'status':{'podIP':'1.1.1.1'}}", large);
	put(KUBE_SD_POD, b.ptr);
	struct buf pod = b;
	b = (struct buf){ 0 };
	buf_puts(&b, "{'metadata':{'name':'e','namespace':'d'},'subsets':[{'ports':[");
	for (int i = 1; i <= 500; i++)
		buf_printf(&b, "%s{'port':%d}", i > 1 ? "," : "", i);
	buf_puts(&b, "],'addresses':[{'ip':'1.1.1.1'," TARGET("web-0") "}]}]}");
	put(KUBE_SD_ENDPOINTS, b.ptr);
	put(KUBE_SD_ENDPOINTS, "{'metadata':{'name':'f','namespace':'d'}}");
	assert_string_equal(groups(), "! the labels of endpoints d/e are more than 64 MiB\nendpoints/d/f: endpoints_name=f namespace=d\n");
	put(KUBE_SD_SERVICE, "{'metadata':{'name':'e','namespace':'d'}}");
	assert_string_equal(groups(), "! the labels of endpoints d/e are more than 64 MiB, again\n");
	put(KUBE_SD_POD, "{'metadata':{'name':'web-0','namespace':'d'},'status':{'podIP':'1.1.1.1'}}");
	assert_int_equal(strncmp(groups(), "endpoints/d/e: ", 15), 0);
	put(KUBE_SD_POD, pod.ptr);
	assert_string_equal(groups(), "! the labels of endpoints d/e are more than 64 MiB\n");
	buf_free(&pod);
	buf_free(&b);
}

/* A NUL in a value is a character like others; what cannot be read is told, not taken for something empty. */
static void test_nul(void **state)
{
	t.store.role = KUBE_SD_INGRESS;
	put(KUBE_SD_INGRESS, "{'metadata':{'name':'i','namespace':'d','annotations':{'a':'x\\u0000y'}}}");
	assert_true(kube_sd_store_next(&t.store, &t.attach, &t.made));
	assert_int_equal(t.made.rc, 0);
	struct view v = labels_get(t.made.group.labels, VIEW("__meta_kubernetes_ingress_annotation_a"));
	assert_int_equal(v.len, 3);
	assert_memory_equal(v.ptr, "x\0y", 3);
	kube_sd_made_reset(&t.made);
	kube_sd_store_put(&t.store, KUBE_SD_INGRESS, VIEW("d/k"), VIEW("{"), 0, 0);
	assert_non_null(strstr(groups(), "! ingress d/k cannot be read: "));
}

/* --- where they are listed --- */

static void test_paths(void **state)
{
	static const char *const expected[] = {
		"/api/v1/nodes", "/api/v1/namespaces/d/services", "/api/v1/namespaces/d/pods", "/api/v1/namespaces/d/endpoints",
		"/apis/discovery.k8s.io/v1/namespaces/d/endpointslices", "/apis/networking.k8s.io/v1/namespaces/d/ingresses",
		"/api/v1/namespaces", "/apis/apps/v1/namespaces/d/replicasets", "/apis/batch/v1/namespaces/d/jobs",
	};
	for (int i = 0; i < KUBE_SD_KINDS_; i++) {
		buf_reset(&t.out);
		kube_sd_path((enum kube_sd_kind)i, "d", &t.out);
		assert_string_equal(t.out.ptr, expected[i]);
	}
	buf_reset(&t.out);
	kube_sd_path(KUBE_SD_POD, NULL, &t.out);
	assert_string_equal(t.out.ptr, "/api/v1/pods");
}

/* --- what a configuration may say --- */

static const struct {
	const char *text, *error; /* NULL: it loads */
} configs[] = {
	{ "{role: pod}", NULL },
	{ "{role: pod, api_server: 'https://x:6443', tls_config: {insecure_skip_verify: true}, bearer_token: t}", NULL },
	{ "{role: pod, kubeconfig_file: k, follow_redirects: true}", NULL },
	{ "{role: endpointslice, namespaces: {own_namespace: true, names: [a, b-1]}, selectors: [{role: pod, label: 'a in (b,c),!d'}, "
	  "{role: service, field: 'metadata.name=x'}, {role: endpointslice}], attach_metadata: {node: true, namespace: true, deployment: true, job: true, cronjob: true}}", NULL },
	{ "{}", "f:1:1: field x.role: is missing" },
	{ "{role: pods}", "f:1:8: field x.role" },
	{ "{role: pod, api_server: 'https://x', kubeconfig_file: k}", "f:1:55: field x.kubeconfig_file: api_server and kubeconfig_file" },
	{ "{role: pod, kubeconfig_file: k, follow_redirects: false}", "field x.kubeconfig_file: the kubeconfig says who we are" },
	{ "{role: pod, bearer_token: t}", "f:1:1: field x: HTTP client fields need" },
	{ "{role: pod, api_server: 'https://x', namespaces: {own_namespace: true}}", "own_namespace means" },
	{ "{role: pod, kubeconfig_file: k, namespaces: {own_namespace: true}}", "own_namespace means" },
	{ "{role: pod, api_server: 'x:6443'}", "field x.api_server: not a URL" },
	{ "{role: pod, selectors: [{role: service}]}", "f:1:25: field x.selectors[0]: role pod takes selectors of these roles only: node, pod" },
	{ "{role: node, selectors: [{role: node}, {role: node}]}", "f:1:40: field x.selectors[1]: a second selector of role node" },
	{ "{role: ingress, selectors: [{label: a}]}", "role" },
	{ "{role: pod, selectors: [{role: pod, label: 'a=(b'}]}", "field x.selectors[0].label: cannot read the selector" },
	{ "{role: pod, selectors: [{role: pod, field: 'spec.nodeName'}]}", "field x.selectors[0].field: cannot read the selector" },
	{ "{role: pod, namespaces: {names: [../x]}}", "f:1:34: field x.namespaces.names: \"../x\" is not the name" },
	{ "{role: pod, attach_metadata: {nodes: true}}", "nodes" },
};

static void test_config(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(configs); i++) {
		struct arena a;
		struct config_tree *tree = NULL;
		struct config_ctx c = { .arena = &a };
		struct err e = { 0 };
		void *config = NULL, *again = NULL;
		arena_init(&a, 0);
		assert_int_equal(config_parse(&tree, view_of(configs[i].text), "f", &e), 0);
		size_t mark = config_enter(&c, "x");
		int rc = sd_kubernetes.decode(&c, config_root(tree), &config, &e);
		if (!configs[i].error && rc)
			fail_msg("%s: %s", configs[i].text, e.msg);
		if (configs[i].error && (!rc || !strstr(e.msg, configs[i].error)))
			fail_msg("%s: %s", configs[i].text, rc ? e.msg : "loads");
		if (!rc) {
			assert_int_equal(sd_kubernetes.decode(&c, config_root(tree), &again, &e), 0);
			assert_true(sd_kubernetes.same(config, again));
			((struct kube_sd_config *)again)->attach.node ^= true;
			assert_false(sd_kubernetes.same(config, again));
		}
		config_leave(&c, mark);
		config_ctx_release(&c);
		config_free(tree);
		arena_free(&a);
	}
}

static void test_selectors(void **state)
{
	static const char *const labels_good[] = { "", "a", "!a", "a=b", "a==b,c!=d", "a=", "x.io/a-b in (b, c,)", "a notin (b)", "a > 5", "a<1", " a , b ", "in in (in)" };
	static const char *const labels_bad[] = { ",", "a,", "=b", "a b", "a in b", "a in (b", "a=b)", "a > x", "a<-1", "-a", "a/b/c", "/a", "A.io/a=b", "a=b c", "a=b/c", "a=-b", "!a=b", "!" };
	static const char *const fields_good[] = { "", "a=b", "a!=b,c==d", "a=", ",a=b,", "a=b\\,c\\=d\\\\", "=x" };
	static const char *const fields_bad[] = { "a", "a=b,c", "a=b=c", "a=b\\x", "a=b\\", "a<b" };
	struct err e;
	for (size_t i = 0; i < ARRAY_LEN(labels_good); i++)
		if (kube_sd_check_label_selector(labels_good[i], &e))
			fail_msg("%s: %s", labels_good[i], e.msg);
	for (size_t i = 0; i < ARRAY_LEN(labels_bad); i++)
		if (!kube_sd_check_label_selector(labels_bad[i], &e))
			fail_msg("%s is read", labels_bad[i]);
	for (size_t i = 0; i < ARRAY_LEN(fields_good); i++)
		if (kube_sd_check_field_selector(fields_good[i], &e))
			fail_msg("%s: %s", fields_good[i], e.msg);
	for (size_t i = 0; i < ARRAY_LEN(fields_bad); i++)
		if (!kube_sd_check_field_selector(fields_bad[i], &e))
			fail_msg("%s is read", fields_bad[i]);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_node), TEST(test_service), TEST(test_pod), TEST(test_pod_node), TEST(test_pod_owners), TEST(test_endpoints),
		TEST(test_endpointslice), TEST(test_endpoint_ports), TEST(test_ingress), TEST(test_sweep), TEST(test_again), TEST(test_too_large),
		TEST(test_nul), TEST(test_paths), TEST(test_config), TEST(test_selectors),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
