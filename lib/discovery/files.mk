# Written by tests/lint/lists --fix; what it lists and why is said there. SPDX-License-Identifier: Apache-2.0
libdiscovery_a_SOURCES = \
  lib/discovery/answer.c \
  lib/discovery/answer.h \
  lib/discovery/discovery.c \
  lib/discovery/discovery.h \
  lib/discovery/endpoint.h \
  lib/discovery/endpoint_config.c \
  lib/discovery/endpoint_place.c \
  lib/discovery/endpoint_set.c \
  lib/discovery/group.c \
  lib/discovery/group.h \
  lib/discovery/kube_objects.c \
  lib/discovery/kube_objects.h \
  lib/discovery/metrics.c \
  lib/discovery/metrics.h \
  lib/discovery/refresh.c \
  lib/discovery/refresh.h \
  lib/discovery/sd_consul.c \
  lib/discovery/sd_consul.h \
  lib/discovery/sd_consul_config.c \
  lib/discovery/sd_consul_targets.c \
  lib/discovery/sd_dns.c \
  lib/discovery/sd_dns.h \
  lib/discovery/sd_dns_ask.c \
  lib/discovery/sd_dns_conf.c \
  lib/discovery/sd_docker.c \
  lib/discovery/sd_docker.h \
  lib/discovery/sd_docker_targets.c \
  lib/discovery/sd_file.c \
  lib/discovery/sd_http.c \
  lib/discovery/sd_kubernetes.c \
  lib/discovery/sd_kubernetes.h \
  lib/discovery/sd_kubernetes_config.c \
  lib/discovery/sd_kubernetes_endpoints.c \
  lib/discovery/sd_kubernetes_groups.c \
  lib/discovery/sd_kubernetes_groups.h \
  lib/discovery/sd_kubernetes_labels.c \
  lib/discovery/sd_kubernetes_labels.h \
  lib/discovery/sd_kubernetes_objects.c \
  lib/discovery/sd_kubernetes_objects.h \
  lib/discovery/sd_kubernetes_run.c \
  lib/discovery/sd_kubernetes_selector.c \
  lib/discovery/sd_kubernetes_source.c \
  lib/discovery/sd_kubernetes_store.c \
  lib/discovery/sd_kubernetes_store.h \
  lib/discovery/sd_object_pods.c \
  lib/discovery/sd_object_pods.h \
  lib/discovery/sd_static.c \
  lib/discovery/sources.c \
  lib/discovery/target_groups.c \
  lib/discovery/target_groups.h \
  lib/discovery/target_list.c \
  lib/discovery/target_list.h \
  lib/discovery/testkit.h \
  $(NULL)
DISCOVERY_TESTS = \
  discovery_test \
  object_pods_test \
  sd_answers_test \
  sd_dns_test \
  sd_file_test \
  sd_kubernetes_test \
  $(NULL)
if HAVE_CMOCKA
check_PROGRAMS += $(DISCOVERY_TESTS)
TESTS += $(DISCOVERY_TESTS)
discovery_test_SOURCES = lib/discovery/discovery_test.c
discovery_test_LDADD = $(DISCOVERY_TEST_LIBS)
object_pods_test_SOURCES = lib/discovery/object_pods_test.c
object_pods_test_LDADD = $(DISCOVERY_TEST_LIBS)
sd_answers_test_SOURCES = lib/discovery/sd_answers_test.c
sd_answers_test_LDADD = $(DISCOVERY_TEST_LIBS)
sd_dns_test_SOURCES = lib/discovery/sd_dns_test.c
sd_dns_test_LDADD = $(DISCOVERY_TEST_LIBS)
sd_file_test_SOURCES = lib/discovery/sd_file_test.c
sd_file_test_LDADD = $(DISCOVERY_TEST_LIBS)
sd_kubernetes_test_SOURCES = lib/discovery/sd_kubernetes_test.c
sd_kubernetes_test_LDADD = $(DISCOVERY_TEST_LIBS)
endif
